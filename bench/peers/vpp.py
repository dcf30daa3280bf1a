"""Command lines of VPP for the workloads. A packet generator on pg0 sends the frames of a trace; pg1 to pg4 drop what
they send.
"""
ROUTES = [('10.1.2.0', 24, 0), ('198.51.100.0', 24, 1), ('203.0.113.0', 24, 2), ('10.1.0.0', 16, 3),
          ('192.168.0.0', 16, 0), ('172.16.0.0', 12, 1), ('10.0.0.0', 8, 2), ('0.0.0.0', 0, 3)]


def ports(n):
    """pg0, where packets come in, and n ports to send them on."""
    for i in range(n + 1):
        yield f'create packet-generator interface pg{i}'
    yield 'set interface mac address pg0 02:00:00:00:00:02'
    for i in range(n + 1):
        yield f'set interface state pg{i} up'


def routed(n):
    """The same, with addresses and a neighbour behind each."""
    yield from ports(n)
    yield 'set interface ip address pg0 100.64.0.1/24'
    for i in range(n):
        yield f'set interface mac address pg{i + 1} 02:00:00:00:01:0{i}'
        yield f'set interface ip address pg{i + 1} 100.64.{i + 1}.1/24'
        yield f'set ip neighbor pg{i + 1} 100.64.{i + 1}.2 02:00:00:00:02:0{i}'


def router(routes):
    yield from routed(4)
    for addr, length, i in routes:
        yield f'ip route add {addr}/{length} via 100.64.{i + 1}.2 pg{i + 1}'


def rules(n):
    yield from ports(1)
    yield 'set interface l2 xconnect pg0 pg1'
    yield 'set interface l2 xconnect pg1 pg0'
    deny = [f'deny src 172.16.{i // 250}.{i % 250 + 1}/32 proto 17 dport {1000 + i}' for i in range(1, n)]
    yield 'set acl-plugin acl ' + ', '.join(deny + ['permit proto 17 dport 53'])
    yield 'set acl-plugin interface pg0 input acl 0'


def nat(flows):
    yield from routed(1)
    yield 'ip route add 0.0.0.0/0 via 100.64.1.2 pg1'
    yield f'nat44 plugin enable sessions {max(10000, flows + flows // 4)}'
    yield 'nat44 add address 192.0.2.1'
    yield 'set interface nat44 in pg0 out pg1'


def l2(n):
    yield from ports(1)
    yield 'create bridge-domain 1 learn 1 forward 1 uu-flood 1 flood 1'
    yield 'set interface l2 bridge pg0 1'
    yield 'set interface l2 bridge pg1 1'
    for i in range(n):
        yield 'l2fib add 02:01:%02x:%02x:%02x:%02x 1 pg1 static' % (i >> 24, i >> 16 & 255, i >> 8 & 255, i & 255)


# workload: (trace, function)
GRAPHS = {'router-8': ('router-64', lambda: router(ROUTES)),
          'sizes-512': ('router-512', lambda: router(ROUTES)),
          'sizes-1500': ('router-1500', lambda: router(ROUTES))}
GRAPHS['chain-null-0'] = ('dns', lambda: ports(1))
for n in (10, 100, 1000):
    GRAPHS[f'rules-last-{n}'] = ('dns', lambda n=n: rules(n))
for n in (1, 1000, 100000, 1000000):
    GRAPHS[f'nat-{n}'] = (f'nat-{n}', lambda n=n: nat(n))
    GRAPHS[f'nat-{n}-zipf'] = (f'nat-{n}-zipf', lambda n=n: nat(n))
for n in (1, 10, 100, 1000, 100000):
    GRAPHS[f'l2-{n}'] = (f'l2-{n}', lambda n=n: l2(n))


def stream(workload, trace):
    """The packet generator; source to sink, it sends to pg1 at once."""
    to = 'node pg1-output tx-interface pg1' if workload == 'chain-null-0' else 'node ethernet-input'
    return ('packet-generator new { name s limit 1000000000000 maxframe 256 worker 0 interface pg0 '
            f'{to} pcap {trace} }}')

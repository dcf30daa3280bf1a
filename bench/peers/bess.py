"""BESS graphs of the workloads, from `src` to `sink`.

`b.module(CLASS, arguments)` makes a module, `b.connect(FROM, TO, OUTPUT)` connects two, `b.command` runs a command of
one, `b.routes()` is the name of a file with the large table. `src` copies each frame of a trace into a fresh packet,
32 at a time; `sink` is a Sink.
"""
ROUTES = [('10.1.2.0', 24, 0), ('198.51.100.0', 24, 1), ('203.0.113.0', 24, 2), ('10.1.0.0', 16, 3),
          ('192.168.0.0', 16, 0), ('172.16.0.0', 12, 1), ('10.0.0.0', 8, 2), ('0.0.0.0', 0, 3)]


def ip(a, b, c, d):
    return a << 24 | b << 16 | c << 8 | d


def ethernet(i):
    """Both addresses, as Update writes them."""
    dst, src = 0x020000000200 + i, 0x020000000100 + i
    return [{'offset': 0, 'size': 6, 'value': dst}, {'offset': 6, 'size': 6, 'value': src}]


def chain(b, src, sink, n):
    last = src
    for _ in range(n):
        nxt = b.module('Bypass')
        b.connect(last, nxt)
        last = nxt
    b.connect(last, sink)


def router(b, src, sink, routes, **size):
    check, lookup = b.module('IPChecksum', verify=True), b.module('IPLookup', **size)
    b.connect(src, check)
    b.connect(check, lookup)
    b.connect(check, sink, 1)
    for addr, length, gate in routes:
        b.command(lookup, 'add', 'IPLookupCommandAddArg', prefix=addr, prefix_len=length, gate=gate)
    for i in range(4):
        ttl, rewrite = b.module('UpdateTTL'), b.module('Update', fields=ethernet(i))
        b.connect(lookup, ttl, i)
        b.connect(ttl, rewrite)
        b.connect(rewrite, sink)


def large(b, src, sink):
    # The file has a line for each of the 100,000 prefixes: address, length, output.
    router(b, src, sink, [('@' + b.routes(), 0, 0), ('0.0.0.0', 0, 3)], max_rules=200000, max_tbl8s=16384)


def checked(b, src, sink):
    check = b.module('IPChecksum', verify=True)
    b.connect(src, check)
    b.connect(check, sink, 1)
    return check


def acl(b, src, sink, n):
    check = checked(b, src, sink)
    rules = [{'src_ip': '172.16.%d.%d/32' % (i // 250, i % 250 + 1), 'dst_ip': '0.0.0.0/0', 'dst_port': 1000 + i,
              'drop': True} for i in range(1, n)]
    rules.append({'src_ip': '0.0.0.0/0', 'dst_ip': '0.0.0.0/0', 'dst_port': 53, 'drop': False})
    table = b.module('ACL', rules=rules)
    b.connect(check, table)
    b.connect(table, sink)


def wildcard(b, src, sink, n):
    check = checked(b, src, sink)
    fields = [{'offset': 26, 'num_bytes': 4}, {'offset': 36, 'num_bytes': 2}, {'offset': 23, 'num_bytes': 1}]
    table = b.module('WildcardMatch', fields=fields)
    b.connect(check, table)
    b.connect(table, sink, 0)
    b.connect(table, sink, 1)

    def add(priority, gate, values, masks):
        pack = lambda l: [{'value_int': v} for v in l]
        b.command(table, 'add', 'WildcardMatchCommandAddArg', priority=priority, gate=gate, values=pack(values),
                  masks=pack(masks))
    for i in range(1, n):
        add(2, 1, [ip(172, 16, i // 250, i % 250 + 1), 1000 + i, 0], [0xffffffff, 0xffff, 0])
    add(1, 0, [0, 53, 17], [0, 0xffff, 0xff])


def nat(b, src, sink, addresses):
    check = checked(b, src, sink)
    table = b.module('NAT', ext_addrs=[{'ext_addr': '192.0.2.%d' % (i + 1),
                                        'port_ranges': [{'begin': 1024, 'end': 65535, 'suspended': False}]}
                                       for i in range(addresses)])
    b.connect(check, table)
    b.connect(table, sink, 1)


def l2(b, src, sink, n):
    size = 1024
    while size < n:
        size *= 2
    table = b.module('L2Forward', size=size, bucket=4)
    b.connect(src, table)
    b.connect(table, sink, 0)
    b.connect(table, sink, 1)
    entries = [{'addr': '02:01:%02x:%02x:%02x:%02x' % (i >> 24, i >> 16 & 255, i >> 8 & 255, i & 255), 'gate': 1}
               for i in range(n)]
    for i in range(0, n, 1000):
        b.command(table, 'add', 'L2ForwardCommandAddArg', entries=entries[i:i + 1000])


def balancer(b, src, sink):
    check = checked(b, src, sink)
    lb = b.module('HashLB', gates=list(range(8)), mode='l4')
    b.connect(check, lb)
    for i in range(8):
        dst = b.module('Update', fields=[{'offset': 30, 'size': 4, 'value': ip(10, 200, 0, 1 + i)}])
        l3, l4 = b.module('IPChecksum'), b.module('L4Checksum')
        b.connect(lb, dst, i)
        b.connect(dst, l3)
        b.connect(l3, l4)
        b.connect(l4, sink)


# workload: (trace, graph)
GRAPHS = {f'chain-null-{n}': ('dns', lambda b, s, t, n=n: chain(b, s, t, n)) for n in range(9)}
GRAPHS['router-8'] = ('router-64', lambda b, s, t: router(b, s, t, ROUTES))
GRAPHS['sizes-512'] = ('router-512', lambda b, s, t: router(b, s, t, ROUTES))
GRAPHS['sizes-1500'] = ('router-1500', lambda b, s, t: router(b, s, t, ROUTES))
for how in ('uniform', 'zipf'):
    GRAPHS[f'lpm-100000-{how}'] = (f'lpm-100000-{how}', large)
for n in (10, 100, 1000):
    GRAPHS[f'rules-last-{n}'] = ('dns', lambda b, s, t, n=n: acl(b, s, t, n))
    GRAPHS[f'rules-last-{n}+WildcardMatch'] = ('dns', lambda b, s, t, n=n: wildcard(b, s, t, n))
for n in (1, 1000, 100000, 1000000):
    addresses = max(1, n // 20000)
    GRAPHS[f'nat-{n}'] = (f'nat-{n}', lambda b, s, t, k=addresses: nat(b, s, t, k))
    if n > 1:
        GRAPHS[f'nat-{n}-zipf'] = (f'nat-{n}-zipf', lambda b, s, t, k=addresses: nat(b, s, t, k))
for n in (1, 10, 100, 1000, 100000):
    GRAPHS[f'l2-{n}'] = (f'l2-{n}', lambda b, s, t, n=n: l2(b, s, t, n))
GRAPHS['lb-8'] = ('lb', balancer)

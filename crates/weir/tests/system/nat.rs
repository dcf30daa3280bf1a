//! The image `nat` between hosts: what RFC 4787, 5382 and 5508 ask of an address translation.

use crate::lab::{Lab, PYTHON, Process, repository, two_networks, until, until_pings};

/// The image between `lan` and `wan`.
fn nat(lab: &Lab) -> Process {
    filtering(lab, "endpoint-independent")
}

fn filtering(lab: &Lab, filtering: &str) -> Process {
    two_networks(lab);
    let image = std::fs::read_to_string(repository().join("images/nat/function.click")).unwrap();
    let config = format!(
        "define($INSIDE_IP 10.0.1.1, $INSIDE_NET 10.0.1.0/24, $INSIDE_MAC 02:00:00:00:01:01, $OUTSIDE_IP 10.0.2.1,
            $OUTSIDE_MAC 02:00:00:00:02:01, $OUTSIDE_ROUTES 0/0 10.0.2.2 1, $OUTSIDE_MTU 1300, $PORTS 1024-65535, $UDP_TIMEOUT 300,
            $FILTERING {filtering}, $FORWARD '');
        in_0 :: FromDevice(lan); out_0 :: Queue -> ToDevice(lan);
        in_1 :: FromDevice(wan); out_1 :: Queue -> ToDevice(wan);
        {image}"
    );
    let file = lab.write("nat.click", config);
    let weir = lab.ns("node").spawn_weir(&["run", &file, "--drops"]);
    until_pings(&lab.ns("client"), "10.0.1.1");
    weir
}

#[test]
fn pings_pass_and_the_outside_sees_the_outside_address() {
    let lab = Lab::new(&["client", "node", "server"]);
    let weir = nat(&lab);
    let dump =
        lab.ns("server").spawn(&["tcpdump", "-nl", "-c", "3", "-i", "eth0", "icmp[icmptype] == icmp-echo"]);
    until("tcpdump", || dump.stderr().contains("listening on"));
    let out = lab.ns("client").run(&["ping", "-c3", "-i0.05", "-W5", "10.0.2.2"]).ok();
    assert!(out.contains(" 0% packet loss"), "{out}");
    let seen = dump.wait().ok();
    assert_eq!(seen.matches("IP 10.0.2.1 > 10.0.2.2: ICMP echo request").count(), 3, "{seen}");
    // To the outside address from there: the router answers itself.
    until_pings(&lab.ns("server"), "10.0.2.1");
    // Nothing on the inside can be reached from the outside unasked.
    lab.ip("server", "route add 10.0.1.0/24 via 10.0.2.1");
    assert_ne!(lab.ns("server").run(&["ping", "-c1", "-W0.3", "10.0.1.2"]).code, 0);
    weir.interrupt().ok();
}

#[test]
fn errors_reach_the_inside_host_that_sent_the_packet() {
    let lab = Lab::new(&["client", "node", "server"]);
    let weir = nat(&lab);
    let refused = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
s.connect(('10.0.2.2', 9999))
s.send(b'x')
try:
    s.recv(10)
except ConnectionRefusedError:
    print('refused')";
    assert_eq!(lab.ns("client").run(&[PYTHON, "-c", refused]).ok(), "refused\n");
    weir.interrupt().ok();
}

#[test]
fn errors_of_an_inside_host_reach_the_outside() {
    let lab = Lab::new(&["client", "node", "server"]);
    let weir = nat(&lab);
    // It answers when the sender's socket is gone.
    let server = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.0.2.2', 5000))
s.settimeout(10)
print('ready', flush=True)
data, sender = s.recvfrom(100)
s.connect(sender)
for _ in range(20):
    try:
        s.send(b'late')
        s.settimeout(0.5)
        s.recv(100)
    except TimeoutError:
        pass
    except ConnectionRefusedError:
        print('refused by', sender[0])
        break";
    let server = lab.ns("server").spawn(&[PYTHON, "-c", server]);
    until("the server", || server.stdout().contains("ready"));
    let send = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b'x', ('10.0.2.2', 5000))";
    lab.ns("client").run(&[PYTHON, "-c", send]).ok();
    assert_eq!(server.wait().ok(), "ready\nrefused by 10.0.2.1\n");
    weir.interrupt().ok();
}

#[test]
fn fragments_pass_in_both_directions() {
    let lab = Lab::new(&["client", "node", "server"]);
    let weir = nat(&lab);
    let server = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('10.0.2.2', 5000))
s.settimeout(20)
print('ready', flush=True)
data, sender = s.recvfrom(9000)
s.sendto(data, sender)
print(len(data), sender[0])";
    let server = lab.ns("server").spawn(&[PYTHON, "-c", server]);
    until("the server", || server.stdout().contains("ready"));
    let client = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
sent = bytes(range(250)) * 16
s.sendto(sent, ('10.0.2.2', 5000))
print(s.recv(9000) == sent)";
    assert_eq!(lab.ns("client").run(&[PYTHON, "-c", client]).ok(), "True\n");
    assert_eq!(server.wait().ok(), "ready\n4000 10.0.2.1\n");
    weir.interrupt().ok();
}

#[test]
fn inside_hosts_reach_each_other_by_their_outer_ports() {
    let lab = Lab::new(&["client", "node", "server"]);
    let weir = nat(&lab);
    let hosts = "import socket
def host(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('10.0.1.2', port))
    s.settimeout(10)
    return s
one, two = host(40123), host(40124)
one.sendto(b'x', ('10.0.2.2', 5000))
two.sendto(b'hello', ('10.0.2.1', 40123))
data, sender = one.recvfrom(100)
print(data, sender)
one.sendto(b'back', sender)
print(two.recvfrom(100))";
    let out = lab.ns("client").run(&[PYTHON, "-c", hosts]).ok();
    assert_eq!(out, "b'hello' ('10.0.2.1', 40124)\n(b'back', ('10.0.2.1', 40123))\n");
    weir.interrupt().ok();
}

#[test]
fn with_filtering_only_those_answer_who_were_spoken_to() {
    let lab = Lab::new(&["client", "node", "server"]);
    let weir = filtering(&lab, "address-and-port-dependent");
    lab.ip("server", "addr add 10.0.2.3/24 dev eth0");
    // The answer comes from where the datagram went; before it, others send to the same outer port.
    let server = "import socket
def at(address, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, port))
    s.settimeout(20)
    return s
one, port, other = at('10.0.2.2', 5000), at('10.0.2.2', 5001), at('10.0.2.3', 5000)
print('ready', flush=True)
data, sender = one.recvfrom(100)
for s in [port, other, one]:
    s.sendto(s.getsockname()[0].encode() + b' ' + str(s.getsockname()[1]).encode(), sender)";
    let server = lab.ns("server").spawn(&[PYTHON, "-c", server]);
    until("the server", || server.stdout().contains("ready"));
    let client = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
s.sendto(b'x', ('10.0.2.2', 5000))
print(s.recv(100).decode())
s.setblocking(False)
try:
    print(s.recv(100))
except BlockingIOError:
    print('no more')";
    assert_eq!(lab.ns("client").run(&[PYTHON, "-c", client]).ok(), "10.0.2.2 5000\nno more\n");
    server.wait().ok();
    // Pings come back, and what was filtered is counted.
    until_pings(&lab.ns("client"), "10.0.2.3");
    let out = weir.interrupt();
    assert!(format!("{out:?}").contains("Filtered"), "{out:?}");
}

#[test]
fn smaller_mtus_are_told_to_inside_hosts() {
    let lab = Lab::new(&["client", "node", "server", "far"]);
    let weir = filtering(&lab, "address-and-port-dependent");
    // The outside link takes 1300 bytes. The server is a router, and the link behind it is narrower.
    lab.link(("server", "eth1"), ("far", "eth0"));
    lab.ip("server", "addr add 10.0.3.1/24 dev eth1");
    lab.ip("server", "link set eth1 mtu 1200");
    lab.ip("far", "addr add 10.0.3.2/24 dev eth0");
    lab.ip("far", "route add default via 10.0.3.1");
    lab.ns("server").run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]).ok();
    until_pings(&lab.ns("client"), "10.0.3.2");
    let probe = "import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO
s.connect(('10.0.3.2', 5000))
for size, mtu in [(1400, 1300), (1250, 1200)]:
    for _ in range(100):
        try:
            s.send(bytes(size))
        except OSError:
            pass
        if s.getsockopt(socket.IPPROTO_IP, 14) == mtu:  # IP_MTU
            print(mtu)
            break
        time.sleep(0.05)";
    assert_eq!(lab.ns("client").run(&[PYTHON, "-c", probe]).ok(), "1300\n1200\n");
    weir.interrupt().ok();
}

#[test]
fn an_error_of_one_inside_host_reaches_another() {
    let lab = Lab::new(&["client", "node", "server"]);
    let weir = nat(&lab);
    // The second socket is gone when the first sends to its outer port.
    let hosts = "import socket
def host(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('10.0.1.2', port))
    s.settimeout(0.5)
    return s
one, two = host(40123), host(40124)
two.sendto(b'x', ('10.0.2.2', 5000))
two.close()
one.connect(('10.0.2.1', 40124))
for _ in range(20):
    try:
        one.send(b'hello')
        one.recv(100)
    except TimeoutError:
        pass
    except ConnectionRefusedError:
        print('refused')
        break";
    assert_eq!(lab.ns("client").run(&[PYTHON, "-c", hosts]).ok(), "refused\n");
    weir.interrupt().ok();
}

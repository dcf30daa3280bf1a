//! Packets that test every element: what networks carry, and what they should not.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_net::build::{self, DST_ETHER, SRC_ETHER, TcpFields};
use weir_net::{EtherAddr, Ipv4, Tcp, checksum, ethertype, proto};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// Frames with a name that says what is special about them. The same in every run.
pub fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    [transport(), icmp(), link(), fragments(), options(), ipv6(), wrong_ip(), wrong_transport(), noise()]
        .concat()
}

type Frames = Vec<(&'static str, Vec<u8>)>;

fn udp(payload: &[u8]) -> Vec<u8> {
    build::udp4((A, 1000), (B, 53), payload)
}

fn tcp(flags: u8, payload: &[u8]) -> Vec<u8> {
    build::tcp4((A, 1000), (B, 80), TcpFields { seq: 1, ack: 2, flags, window: 512 }, payload)
}

/// An IPv4 packet in a frame.
fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    build::ethernet(DST_ETHER, SRC_ETHER, ethertype::IPV4, &build::ipv4(A, B, protocol, payload))
}

/// A frame with some bytes changed. The offset counts from the start of the frame.
fn changed(mut frame: Vec<u8>, at: usize, to: &[u8]) -> Vec<u8> {
    frame[at..at + to.len()].copy_from_slice(to);
    frame
}

/// A frame with a right IPv4 header checksum, if the header can have one.
fn updated(mut frame: Vec<u8>) -> Vec<u8> {
    if let Ok(mut ip) = Ipv4::new(&mut frame[14..]) {
        ip.fill_checksum();
    }
    frame
}

/// A change of the IPv4 header, which starts at offset 0 here; the header checksum is right again.
fn ip_changed(frame: Vec<u8>, at: usize, to: &[u8]) -> Vec<u8> {
    updated(changed(frame, 14 + at, to))
}

fn transport() -> Frames {
    let mut port_zero = udp(b"x");
    port_zero[34..38].fill(0);
    port_zero[40..42].fill(0);
    let mut with_options = tcp(Tcp::SYN, &[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]);
    with_options[46] = 0xa0;
    vec![
        ("udp", udp(b"hello")),
        ("udp without payload", udp(b"")),
        ("udp with an odd payload", udp(b"odd")),
        ("udp without checksum", changed(udp(b"hello"), 40, &[0, 0])),
        ("udp as long as Ethernet allows", udp(&[0x55; 1472])),
        ("udp from and to port 0", port_zero),
        ("udp with padding", [udp(b""), vec![0; 18]].concat()),
        ("dhcp discover", build::udp4((Ipv4Addr::UNSPECIFIED, 68), (Ipv4Addr::BROADCAST, 67), &[1, 1, 6, 0])),
        ("mdns", build::udp4((A, 5353), ([224, 0, 0, 251].into(), 5353), &[0; 12])),
        ("tcp syn", tcp(Tcp::SYN, b"")),
        ("tcp syn with options", with_options),
        ("tcp syn ack", tcp(Tcp::SYN | Tcp::ACK, b"")),
        ("tcp data", tcp(Tcp::ACK | Tcp::PSH, b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")),
        ("tcp fin", tcp(Tcp::FIN | Tcp::ACK, b"")),
        ("tcp rst", tcp(Tcp::RST, b"")),
        ("tcp with all flags", tcp(0xff, b"")),
        ("tcp without flags", tcp(0, b"")),
        ("tcp from and to the same", build::tcp4((A, 80), (A, 80), TcpFields::default(), b"")),
        ("gre", ip(47, &[0, 0, 8, 0, 0x45, 0, 0, 20])),
        ("sctp", ip(132, &[0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("a protocol that nobody has", ip(255, b"?")),
        ("ip in ip", ip(4, &build::ipv4(B, A, proto::UDP, &[0, 1, 0, 2, 0, 8, 0, 0]))),
        ("jumbo frame", udp(&[0x11; 8972])),
        ("the longest ip packet", ip(proto::UDP, &[0x22; 65_515])),
    ]
}

/// An ICMP message in a frame, with its checksum.
fn icmp_message(head: [u8; 8], body: &[u8]) -> Vec<u8> {
    let mut message = [&head[..], body].concat();
    let sum = checksum::checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(proto::ICMP, &message)
}

fn icmp() -> Frames {
    let inner = build::ipv4(B, A, proto::UDP, &[0, 53, 3, 232, 0, 8, 0, 0]);
    vec![
        ("echo request", build::icmp_echo(A, B, 7, 1, b"ping")),
        ("echo request that sums up to nothing", build::icmp_echo(A, B, 0, 0, b"")),
        ("echo reply", icmp_message([0, 0, 0, 0, 0, 7, 0, 1], b"ping")),
        ("port unreachable", icmp_message([3, 3, 0, 0, 0, 0, 0, 0], &inner)),
        ("fragmentation needed", icmp_message([3, 4, 0, 0, 0, 0, 2, 0x40], &inner)),
        (
            "error about an error",
            icmp_message([3, 1, 0, 0, 0, 0, 0, 0], &icmp_message([11, 0, 0, 0, 0, 0, 0, 0], &inner)[14..]),
        ),
        ("error about nothing", icmp_message([11, 0, 0, 0, 0, 0, 0, 0], b"")),
        ("error about half a header", icmp_message([11, 0, 0, 0, 0, 0, 0, 0], &inner[..10])),
        (
            "error about a header that lies",
            icmp_message([3, 3, 0, 0, 0, 0, 0, 0], &changed(inner.clone(), 0, &[0x4f])),
        ),
        ("redirect", icmp_message([5, 1, 0, 0, 10, 0, 0, 9], &inner)),
        ("timestamp", icmp_message([13, 0, 0, 0, 0, 1, 0, 1], &[0; 12])),
        ("icmp type 255", icmp_message([255; 8], b"")),
        ("half an icmp header", ip(proto::ICMP, &[8, 0, 0])),
        ("icmp with a wrong checksum", changed(build::icmp_echo(A, B, 7, 1, b"ping"), 36, &[1, 2])),
    ]
}

fn link() -> Frames {
    let none = EtherAddr::default();
    let request = build::arp(1, (SRC_ETHER, A), (none, B));
    let tagged = |mut frame: Vec<u8>, tags: &[u16]| {
        tags.iter().for_each(|&tci| build::tag_vlan(&mut frame, tci));
        frame
    };
    vec![
        ("arp request", request.clone()),
        ("arp reply", build::arp(2, (DST_ETHER, B), (SRC_ETHER, A))),
        ("gratuitous arp", build::arp(1, (SRC_ETHER, A), (none, A))),
        ("arp probe", build::arp(1, (SRC_ETHER, Ipv4Addr::UNSPECIFIED), (none, A))),
        ("arp operation 65535", changed(request.clone(), 20, &[0xff, 0xff])),
        ("arp of hardware that is no Ethernet", changed(request.clone(), 14, &[0, 6, 0x86, 0xdd, 255, 0])),
        ("padded arp", [request.clone(), vec![0; 18]].concat()),
        ("vlan", tagged(udp(b"x"), &[5])),
        ("vlan of priority only", tagged(request, &[0xe000])),
        ("vlan 4095", tagged(udp(b"x"), &[0xffff])),
        ("two tags", changed(tagged(udp(b"x"), &[5, 6]), 12, &[0x88, 0xa8])),
        ("twelve tags", tagged(udp(b"x"), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])),
        ("a tag and nothing else", build::ethernet(DST_ETHER, SRC_ETHER, ethertype::VLAN, &[0, 5])),
        ("broadcast", changed(udp(b"x"), 0, &[0xff; 6])),
        ("multicast", changed(udp(b"x"), 0, &[1, 0, 0x5e, 0, 0, 1])),
        ("from a multicast address", changed(udp(b"x"), 6, &[0xff; 6])),
        ("802.3 length", build::ethernet(DST_ETHER, SRC_ETHER, 38, &[0x42, 0x42, 3])),
        ("ethertype 0", build::ethernet(DST_ETHER, SRC_ETHER, 0, &[0; 46])),
        ("a frame without payload", build::ethernet(DST_ETHER, SRC_ETHER, ethertype::IPV4, b"")),
        (
            "pause frame",
            build::ethernet(EtherAddr([1, 0x80, 0xc2, 0, 0, 1]), SRC_ETHER, 0x8808, &[0, 1, 0xff, 0xff]),
        ),
    ]
}

fn fragments() -> Frames {
    let fragment = |frame: Vec<u8>, field: u16| ip_changed(frame, 6, &field.to_be_bytes());
    vec![
        ("not to be fragmented", fragment(udp(b"whole"), 0x4000)),
        ("first fragment", fragment(udp(&[1; 24]), 0x2000)),
        ("middle fragment", fragment(ip(proto::UDP, &[2; 24]), 0x2004)),
        ("last fragment", fragment(ip(proto::UDP, &[3; 5]), 0x0007)),
        (
            "first fragment with half a tcp header",
            fragment(ip(proto::TCP, &tcp(Tcp::SYN, b"")[34..42]), 0x2000),
        ),
        ("fragment that overlaps the tcp header", fragment(ip(proto::TCP, &[0; 16]), 0x0001)),
        ("fragment beyond the longest packet", fragment(ip(proto::ICMP, &[0; 64]), 0x1fff)),
        ("reserved fragment flag", fragment(udp(b"evil"), 0x8000)),
    ]
}

/// A UDP packet with these bytes, a multiple of four, as options.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut frame = udp(b"x");
    frame.splice(34..34, options.iter().copied());
    frame[14] = 0x45 + (options.len() / 4) as u8;
    let total = (frame.len() - 14) as u16;
    ip_changed(frame, 2, &total.to_be_bytes())
}

fn options() -> Frames {
    vec![
        ("router alert", with_options(&[148, 4, 0, 0])),
        ("record route", with_options(&[7, 7, 4, 0, 0, 0, 0, 0])),
        ("loose source route", with_options(&[131, 7, 4, 10, 0, 0, 9, 0])),
        ("timestamps", with_options(&[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("no operations", with_options(&[1; 40])),
        ("options that end early", with_options(&[0, 7, 255, 255])),
        ("option of length 0", with_options(&[7, 0, 4, 0])),
        ("option of length 1", with_options(&[7, 1, 4, 0])),
        ("option beyond the header", with_options(&[7, 39, 4, 0])),
        ("option that is its type only", with_options(&[1, 1, 1, 7])),
        ("option that points nowhere", with_options(&[131, 7, 0, 10, 0, 0, 9, 0])),
    ]
}

/// An IPv6 packet in a frame; `next` is the first header behind the fixed one.
fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    let addr = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).octets();
    let head = [&[0x60, 0, 0, 0][..], &len.to_be_bytes(), &[next, 64], &addr(1), &addr(2)].concat();
    build::ethernet(DST_ETHER, SRC_ETHER, ethertype::IPV6, &[&head[..], payload].concat())
}

fn ipv6() -> Frames {
    let udp = [0, 53, 3, 232, 0, 9, 0xab, 0xcd, b'x'];
    vec![
        ("ipv6 udp", ip6(proto::UDP, &udp)),
        ("ipv6 tcp", ip6(proto::TCP, &tcp(Tcp::SYN, b"")[34..])),
        ("ipv6 echo request", ip6(proto::ICMPV6, &[128, 0, 0, 0, 0, 7, 0, 1])),
        (
            "neighbour solicitation",
            ip6(proto::ICMPV6, &[&[135, 0, 0, 0, 0, 0, 0, 0][..], &[0xfd; 16]].concat()),
        ),
        ("ipv6 hop-by-hop options", ip6(0, &[&[17, 0, 5, 2, 0, 0, 1, 0][..], &udp].concat())),
        ("ipv6 fragment", ip6(44, &[&[17, 0, 0, 1, 0, 0, 0, 1][..], &udp].concat())),
        ("ipv6 routing header", ip6(43, &[&[59, 2, 0, 1, 0, 0, 0, 0][..], &[0xfd; 16]].concat())),
        ("ipv6 with a long chain of headers", ip6(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(40))),
        ("ipv6 extension beyond the packet", ip6(0, &[17, 255, 0, 0, 0, 0, 0, 0])),
        ("ipv6 without next header", ip6(59, b"")),
        ("ipv6 hop limit 0", changed(ip6(proto::UDP, &udp), 21, &[0])),
        ("ipv6 that says 65535", changed(ip6(proto::UDP, &udp), 18, &[0xff, 0xff])),
        ("ipv6 that says 0", changed(ip6(proto::UDP, &udp), 18, &[0, 0])),
    ]
}

fn wrong_ip() -> Frames {
    let with = |at: usize, to: &[u8]| ip_changed(udp(b"payload"), at, to);
    vec![
        ("version 0", with(0, &[0x05])),
        ("version 6 in an ipv4 frame", with(0, &[0x65])),
        ("version 15", with(0, &[0xf5])),
        ("header length 0", with(0, &[0x40])),
        ("header length 4", with(0, &[0x41])),
        ("header length 16", with(0, &[0x44])),
        ("header longer than the packet", with(0, &[0x4f])),
        ("total length 0", with(2, &[0, 0])),
        ("total length 19", with(2, &[0, 19])),
        ("total length 20", with(2, &[0, 20])),
        ("total length 65535", with(2, &[0xff, 0xff])),
        ("wrong header checksum", changed(udp(b"payload"), 24, &[1, 2])),
        ("time to live 0", with(8, &[0])),
        ("time to live 1", with(8, &[1])),
        ("from nowhere", with(12, &[0; 4])),
        ("from broadcast", with(12, &[255; 4])),
        ("from loopback", with(12, &[127, 0, 0, 1])),
        ("from multicast", with(12, &[224, 0, 0, 1])),
        ("to nowhere", with(16, &[0; 4])),
        ("to a reserved address", with(16, &[250, 0, 0, 1])),
    ]
}

fn wrong_transport() -> Frames {
    let udp_with = |at: usize, to: &[u8]| changed(udp(b"payload"), 34 + at, to);
    let tcp_with = |at: usize, to: &[u8]| changed(tcp(Tcp::ACK, b"payload"), 34 + at, to);
    vec![
        ("udp length 0", udp_with(4, &[0, 0])),
        ("udp length 7", udp_with(4, &[0, 7])),
        ("udp length 65535", udp_with(4, &[0xff, 0xff])),
        ("wrong udp checksum", udp_with(6, &[0x12, 0x34])),
        ("half a udp header", ip(proto::UDP, &[0, 1, 0])),
        ("tcp offset 0", tcp_with(12, &[0])),
        ("tcp offset 16", tcp_with(12, &[0x40])),
        ("tcp offset 60", tcp_with(12, &[0xf0])),
        ("wrong tcp checksum", tcp_with(16, &[0x12, 0x34])),
        ("tcp urgent pointer", tcp_with(18, &[0xff, 0xff])),
        ("half a tcp header", ip(proto::TCP, &[0, 1, 0, 2, 0, 0, 0, 0, 0, 0])),
        ("no transport header", ip(proto::TCP, b"")),
    ]
}

fn noise() -> Frames {
    let mut state = 1_u32;
    let mut random = |len: usize| -> Vec<u8> {
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    };
    vec![
        ("nothing", vec![]),
        ("one byte", vec![0x45]),
        ("thirteen bytes", vec![0x45; 13]),
        ("zeros", vec![0; 64]),
        ("ones", vec![0xff; 64]),
        ("all bytes", (0..=255).collect()),
        ("noise", random(200)),
        ("noise in ipv4", ip(proto::UDP, &random(60))),
        ("noise behind an ethertype", build::ethernet(DST_ETHER, SRC_ETHER, ethertype::IPV4, &random(80))),
        (
            "noise behind the arp ethertype",
            build::ethernet(DST_ETHER, SRC_ETHER, ethertype::ARP, &random(28)),
        ),
    ]
}

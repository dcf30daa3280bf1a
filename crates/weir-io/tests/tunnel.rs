//! Ports on the outer packets of tunnels, with the kernel and other ports at the other end.

mod common;

use std::net::Ipv4Addr;

use common::{Hosts, Inside, Namespace, link, receive_n};
use weir_io::tunnel::{Carrier, Options, TunnelPort, route_mtu};
use weir_io::{Port, PortError};
use weir_net::build;
use weir_packet::{Packet, entry};

const A: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// Two hosts on one link.
fn hosts() -> (Namespace, Namespace) {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    link((&a, "eth0"), (&b, "eth0"));
    a.ip(&format!("addr add {A}/24 dev eth0"));
    b.ip(&format!("addr add {B}/24 dev eth0"));
    (a, b)
}

fn open(ns: &Namespace, local: Ipv4Addr, carrier: Carrier) -> Result<TunnelPort, PortError> {
    ns.netns().run(|| TunnelPort::open(&Options { local, carrier })).unwrap()
}

fn send(port: &mut TunnelPort, packet: &[u8]) {
    let mut batch = vec![Packet::from_bytes(packet).unwrap()];
    port.send(&mut batch).unwrap();
    assert!(batch.is_empty());
}

/// A UDP packet from its IP header on.
fn udp(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    build::udp4(from, to, payload)[14..].to_vec()
}

#[test]
fn packets_pass_and_only_those_of_the_port() {
    let (left, right) = hosts();
    for carrier in [Carrier::Gre, Carrier::Udp(4789)] {
        let packet = |i: u16, size: usize| match carrier {
            Carrier::Gre => build::ipv4(A, B, 47, &[&i.to_be_bytes()[..], &vec![7; size]].concat()),
            Carrier::Udp(port) => udp((A, i), (B, port), &vec![7; size]),
        };
        let (mut a, mut b) = (open(&left, A, carrier).unwrap(), open(&right, B, carrier).unwrap());
        let sent: Vec<Vec<u8>> = (0..70).map(|i| packet(i, usize::from(i) * 20)).collect();
        let mut batch: Vec<Packet> = sent.iter().map(|p| Packet::from_bytes(p).unwrap()).collect();
        // Another protocol, another port, another address.
        send(&mut a, &build::ipv4(A, B, 253, b"other"));
        send(&mut a, &udp((A, 1), (B, 4790), b"other"));
        assert_eq!(a.send(&mut batch).unwrap(), 70);
        for (got, sent) in receive_n(&mut b, 70, |_| true).iter().zip(&sent) {
            // The kernel numbers packets that have no number.
            assert_eq!((&got.bytes()[..4], &got.bytes()[12..]), (&sent[..4], &sent[12..]));
            assert_eq!(entry::TUNNEL.admits(got), Ok(()));
        }
        assert_eq!((a.stats().tx_packets, b.stats().rx_packets, b.stats().rx_malformed), (72, 70, 0));
    }
}

#[test]
fn what_is_too_long_or_leads_nowhere_ends_here() {
    let (left, _right) = hosts();
    let mut a = open(&left, A, Carrier::Gre).unwrap();
    send(&mut a, &build::ipv4(A, B, 47, &[7; 1481]));
    send(&mut a, &build::ipv4(A, [192, 0, 2, 1].into(), 47, b"no route"));
    send(&mut a, b"no packet");
    let errors = a.stats().tx_errors;
    assert_eq!((errors.too_long, errors.refused), (1, 2));
    left.ip("link set eth0 mtu 1600");
    send(&mut a, &build::ipv4(A, B, 47, &[7; 1481]));
    assert_eq!(a.stats().tx_packets, 1);
    let mtu = |to: Ipv4Addr| left.netns().run(|| route_mtu(A, to)).unwrap();
    assert_eq!((mtu(B), mtu([192, 0, 2, 1].into())), (Some(1600), None));
}

#[test]
fn an_address_has_to_be_there_and_a_port_to_be_free() {
    let (left, right) = hosts();
    let error = |local, carrier| open(&left, local, carrier).err().map(|e| e.to_string());
    assert!(error(B, Carrier::Gre).unwrap().contains("10.9.0.2 is no address of this host"));
    let _held = open(&left, A, Carrier::Udp(4789)).unwrap();
    assert!(error(A, Carrier::Udp(4789)).unwrap().contains("in use"));
    assert_eq!(error(A, Carrier::Udp(4790)), None);
    // No host learns that nobody listens.
    let mut client = right.python(
        "import socket\n\
         s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('10.9.0.1', 4789)); s.settimeout(0.5)\n\
         s.send(b'x')\n\
         try: s.recv(1)\n\
         except TimeoutError: print('silence')\n",
    );
    let mut said = String::new();
    std::io::Read::read_to_string(client.stdout.as_mut().unwrap(), &mut said).unwrap();
    client.wait().unwrap();
    assert_eq!(said, "silence\n");
}

#[test]
fn packets_for_others_are_not_taken() {
    let hosts = Hosts::new();
    // `middle` sees what passes on its interfaces, and is not whom it is for.
    let middle = &hosts.middle;
    middle.ip("addr add 10.9.0.3/24 dev left");
    middle.ip("link set left promisc on");
    let mut other = open(middle, [10, 9, 0, 3].into(), Carrier::Gre).unwrap();
    let mut a = open(&hosts.left, A, Carrier::Gre).unwrap();
    // To the Ethernet address of nobody, with the IP address of `middle`.
    hosts.left.ip("neigh add 10.9.0.3 lladdr 02:00:00:00:00:99 dev eth0");
    send(&mut a, &build::ipv4(A, [10, 9, 0, 3].into(), 47, b"not for you"));
    hosts.left.ip("neigh del 10.9.0.3 dev eth0");
    send(&mut a, &build::ipv4(A, [10, 9, 0, 3].into(), 47, b"for you"));
    let got = receive_n(&mut other, 1, |_| true);
    assert!(got[0].bytes().ends_with(b"for you"), "{:?}", got[0].bytes());
}

//! AF_PACKET ports on veth links, with real traffic.

mod common;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Forwarder, Hosts, Inside, Namespace, link, receive_n, transfer};
use weir_io::af_packet::{AfPacketPort, Options};
use weir_io::{Netns, Port, PortError, offload};
use weir_net::build::{self, TcpFields};
use weir_net::{Headers, Ipv4, Udp};
use weir_packet::{Checksum, Gso, Packet, PacketType, entry};

#[test]
fn tcp_with_offloads_passes_intact() {
    let net = Hosts::new();
    let ports = ["left", "right"].map(|name| net.middle.open(name, &Options::default()));
    let (large, partial) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (large.clone(), partial.clone());
    let forwarder = Forwarder::start(ports, move |p| {
        counts.0.fetch_add((p.gso != 0).into(), Ordering::Relaxed);
        counts.1.fetch_add((p.checksum() == Checksum::Partial).into(), Ordering::Relaxed);
    });
    transfer(&net.left, &net.right, 50);
    let [mut left, mut right] = forwarder.stop();
    assert!(large.load(Ordering::Relaxed) > 100, "large packets pass unsegmented");
    assert!(partial.load(Ordering::Relaxed) > 100);
    for port in [&mut left, &mut right] {
        assert_eq!(port.stats().tx_errors, Default::default());
        assert_eq!(port.stats().rx_malformed, 0);
    }
}

#[test]
fn tcp_passes_intact_when_the_port_finishes_packets_itself() {
    let net = Hosts::new();
    let options = Options { send_offloads: false, bypass_qdisc: true, ..Options::default() };
    let ports = ["left", "right"].map(|name| net.middle.open(name, &options));
    let forwarder = Forwarder::start(ports, |_| {});
    transfer(&net.left, &net.right, 10);
    let [mut left, mut right] = forwarder.stop();
    assert!(right.stats().tx_packets > 2 * left.stats().rx_packets, "large packets leave in segments");
    assert_eq!(right.stats().tx_errors, Default::default());
}

/// Two ports on the ends of one link.
fn pair() -> (Namespace, Namespace, AfPacketPort, AfPacketPort) {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    link((&a, "va"), (&b, "vb"));
    let options = Options::default();
    let ports = (a.open("va", &options), b.open("vb", &options));
    (a, b, ports.0, ports.1)
}

const A: (std::net::Ipv4Addr, u16) = (std::net::Ipv4Addr::new(10, 9, 0, 1), 1000);
const B: (std::net::Ipv4Addr, u16) = (std::net::Ipv4Addr::new(10, 9, 0, 2), 2000);

#[test]
fn vlan_tags_survive() {
    let (_a, _b, mut va, mut vb) = pair();
    let mut single = build::udp4(A, B, b"tagged");
    build::tag_vlan(&mut single, 0xa005);
    let mut double = single.clone();
    build::tag_vlan(&mut double, 7);
    double[12..14].copy_from_slice(&[0x88, 0xa8]);
    let mut batch: Vec<Packet> = [&single, &double].map(|f| Packet::from_bytes(f).unwrap()).into();
    assert_eq!(va.send(&mut batch).unwrap(), 2);
    let got = receive_n(&mut vb, 2, |_| true);
    assert_eq!(got[0].bytes(), single);
    assert_eq!(got[1].bytes(), double);
    assert_eq!(got[0].packet_type, PacketType::OtherHost as u8);
    assert!(got[0].timestamp > 1_600_000_000_000_000_000);
}

#[test]
fn large_packets_with_a_vlan_tag_keep_their_offload_data() {
    let (_a, _b, mut va, mut vb) = pair();
    let mut frame = build::tcp4(A, B, TcpFields::default(), &[9; 60_000]);
    build::tag_vlan(&mut frame, 5);
    let mut p = Packet::from_bytes(&frame).unwrap();
    p.gso = Gso::TcpV4 as u8;
    p.gso_size = 1400;
    // Behind it a small one: the order of large and small packets is kept.
    let small = build::udp4(A, B, b"small");
    let mut batch = vec![p, Packet::from_bytes(&small).unwrap()];
    assert_eq!(va.send(&mut batch).unwrap(), 2);
    let mut got = receive_n(&mut vb, 2, |_| true);
    got.iter().for_each(|p| assert_eq!(entry::DEVICE.admits(p), Ok(())));
    assert_eq!((got[0].gso, got[0].gso_size, got[0].checksum()), (Gso::TcpV4 as u8, 1400, Checksum::Partial));
    assert_eq!(offload::segment(&got[0]).unwrap().len(), 60_000usize.div_ceil(1400));
    offload::finish_checksum(&mut got[0]).unwrap();
    assert_eq!(got[0].bytes(), frame);
    assert_eq!(got[1].bytes(), small);
}

#[test]
fn a_local_senders_checksum_is_partial_and_can_be_finished() {
    let net = Hosts::new();
    let mut port = net.middle.open("left", &Options::default());
    let arp = format!("neigh add 10.9.0.2 lladdr {} dev eth0", build::DST_ETHER);
    net.left.ip(&arp);
    let program = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                   s.sendto(b'abcde', ('10.9.0.2', 9))";
    assert!(net.left.python(program).wait().unwrap().success());
    let mut got = receive_n(&mut port, 1, |p| p.bytes().ends_with(b"abcde"));
    let p = &mut got[0];
    assert_eq!(p.checksum(), Checksum::Partial);
    offload::finish_checksum(p).unwrap();
    let h = Headers::of_frame(p.bytes()).unwrap();
    let segment = &p.bytes()[h.transport.unwrap()..h.end];
    let ip = Ipv4::new(&p.bytes()[h.net..]).unwrap();
    assert_eq!(ip.pseudo_header(segment.len() as u16).add_bytes(segment).finish(), 0);
    assert_ne!(Udp::new(segment).unwrap().checksum(), 0);
}

#[test]
fn packets_that_can_never_be_sent_are_counted_and_the_others_go() {
    let (_a, _b, mut va, mut vb) = pair();
    let frame = build::udp4(A, B, b"fine");
    let mut bad_offload = Packet::from_bytes(&frame).unwrap();
    bad_offload.csum = Checksum::Partial as u8;
    bad_offload.csum_start = bad_offload.end();
    let mut batch = vec![
        Packet::from_bytes(&build::udp4(A, B, &[0; 2000])).unwrap(),
        Packet::from_bytes(&frame).unwrap(),
        bad_offload,
        Packet::from_bytes(&[1, 2, 3]).unwrap(),
        Packet::from_bytes(&frame).unwrap(),
    ];
    assert_eq!(va.send(&mut batch).unwrap(), 2);
    assert!(batch.is_empty());
    let errors = va.stats().tx_errors;
    assert_eq!((errors.too_long, errors.offload, errors.refused), (1, 1, 1));
    assert_eq!(receive_n(&mut vb, 2, |_| true)[1].bytes(), frame);
}

#[test]
fn a_full_ring_is_counted() {
    let (_a, b, mut va, _) = pair();
    let mut small = b.open("vb", &Options { ring_frames: 1, ..Options::default() });
    let frame = build::udp4(A, B, b"x");
    let mut batch: Vec<Packet> = (0..200).map(|_| Packet::from_bytes(&frame).unwrap()).collect();
    assert_eq!(va.send(&mut batch).unwrap(), 200);
    let mut out = Vec::new();
    while small.receive(&mut out, 32).unwrap() > 0 {}
    let stats = small.stats();
    assert!(stats.rx_dropped > 0);
    assert_eq!(stats.rx_packets + stats.rx_dropped, 200);
    assert_eq!(small.stats().rx_dropped, stats.rx_dropped, "asking again does not lose the count");
}

#[test]
fn an_interface_that_goes_down_or_away_is_reported() {
    let (a, _b, mut va, mut vb) = pair();
    let packet = || vec![Packet::from_bytes(&build::udp4(A, B, b"x")).unwrap()];
    let mut out = Vec::new();
    a.ip("link set va down");
    assert!(matches!(va.receive(&mut out, 32), Err(PortError::Down { name }) if name == "va"));
    assert_eq!(va.receive(&mut out, 32).unwrap(), 0, "reported once");
    let mut batch = packet();
    assert!(matches!(va.send(&mut batch), Err(PortError::Down { .. })));
    assert_eq!(batch.len(), 1);
    a.ip("link set va up");
    assert_eq!(va.send(&mut batch).unwrap(), 1);
    assert_eq!(receive_n(&mut vb, 1, |_| true).len(), 1);

    a.ip("link del va");
    for port in [&mut va, &mut vb] {
        for _ in 0..2 {
            assert!(matches!(port.receive(&mut out, 32), Err(PortError::Gone { .. })));
            assert!(matches!(port.send(&mut packet()), Err(PortError::Gone { .. })));
        }
    }
    let error = AfPacketPort::open_in(&a.netns(), "va", &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "there is no interface `va`; there is lo");
    a.ip("link add va type veth peer name vc");
    a.ip("link set va up");
    a.ip("link set vc up");
    let (mut va, mut vc) = (a.open("va", &Options::default()), a.open("vc", &Options::default()));
    va.send(&mut packet()).unwrap();
    assert_eq!(receive_n(&mut vc, 1, |p| p.bytes().ends_with(b"x")).len(), 1);
}

#[test]
fn a_namespace_is_entered_by_the_id_of_a_process_and_only_by_the_ports_thread() {
    let ns = Namespace::new("p");
    ns.ip("link add va type veth peer name vb");
    let mut child = ns.python("import sys; print('ready', flush=True); sys.stdin.read()");
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let port = AfPacketPort::open_in(&Netns::Pid(child.id()), "va", &Options::default()).unwrap();
    assert_eq!(port.mtu(), Some(1500));
    assert!(ns.ip("link show va").contains(&port.mac().unwrap().to_string()));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(matches!(AfPacketPort::open("va", &Options::default()), Err(PortError::NotFound { .. })));
    let nowhere = Netns::Named("weirio-none".to_owned());
    assert!(matches!(
        AfPacketPort::open_in(&nowhere, "va", &Options::default()),
        Err(PortError::Namespace { .. })
    ));
}

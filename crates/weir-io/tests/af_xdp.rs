//! AF_XDP ports on veth links, with real traffic.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Between, Forwarder, Namespace, link, receive_n, run, transfer};
use weir_io::af_xdp::{AfXdpPort, Options};
use weir_io::interface::{self, Method};
use weir_io::{Port, PortError};
use weir_net::build;
use weir_packet::{Checksum, Gso, Packet};

const A: (std::net::Ipv4Addr, u16) = (std::net::Ipv4Addr::new(10, 9, 0, 1), 1000);
const B: (std::net::Ipv4Addr, u16) = (std::net::Ipv4Addr::new(10, 9, 0, 2), 2000);

fn packet(bytes: &[u8]) -> Packet {
    Packet::from_bytes(&build::udp4(A, B, bytes)).unwrap()
}

/// Two ports on the ends of one link.
fn pair(options: &Options) -> (Namespace, Namespace, AfXdpPort, AfXdpPort) {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    link((&a, "va"), (&b, "vb"));
    let ports = (a.open_xdp("va", options), b.open_xdp("vb", options));
    (a, b, ports.0, ports.1)
}

#[test]
fn tcp_passes_intact_and_its_unfinished_checksums_are_finished() {
    let net = Between::new();
    let ports = ["left", "right"].map(|name| net.middle.open_xdp(name, &Options::default()));
    let (large, partial) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (large.clone(), partial.clone());
    let forwarder = Forwarder::start(ports, move |p| {
        counts.0.fetch_add((p.len() > 1514).into(), Ordering::Relaxed);
        counts.1.fetch_add((p.checksum() == Checksum::Partial).into(), Ordering::Relaxed);
    });
    transfer(&net.left_host, &net.right_host, 10);
    let [mut left, mut right] = forwarder.stop();
    assert_eq!(large.load(Ordering::Relaxed), 0, "senders learn that nobody segments for them");
    assert!(partial.load(Ordering::Relaxed) > 100);
    for port in [&mut left, &mut right] {
        assert_eq!(port.stats().rx_malformed, 0);
        assert_eq!((port.stats().tx_errors.too_long, port.stats().tx_errors.offload), (0, 0));
    }
}

#[test]
fn large_packets_leave_in_segments() {
    let (_a, _b, mut va, mut vb) = pair(&Options::default());
    let mut p = packet(&[7; 5000]);
    p.gso = Gso::Udp as u8;
    p.gso_size = 1000;
    assert_eq!(va.send(&mut vec![p]).unwrap(), 5);
    let got = receive_n(&mut vb, 5, |_| true);
    assert!(got.iter().all(|p| p.len() == 1042 && p.bytes().ends_with(&[7; 1000])));
    assert!(got[0].timestamp > 1_600_000_000_000_000_000);
}

#[test]
fn packets_that_can_never_be_sent_are_counted_and_the_others_go() {
    let (_a, _b, mut va, mut vb) = pair(&Options::default());
    let mut bad_offload = packet(b"bad");
    bad_offload.csum = Checksum::Partial as u8;
    bad_offload.csum_start = bad_offload.end();
    let short = Packet::from_bytes(&[1, 2, 3]).unwrap();
    let mut batch = vec![packet(&[0; 2000]), packet(b"fine"), bad_offload, short, packet(b"fine")];
    assert_eq!(va.send(&mut batch).unwrap(), 2);
    assert!(batch.is_empty());
    let errors = va.stats().tx_errors;
    assert_eq!((errors.too_long, errors.offload, errors.refused), (1, 1, 1));
    assert!(receive_n(&mut vb, 2, |_| true)[1].bytes().ends_with(b"fine"));
}

#[test]
fn a_full_ring_is_counted() {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    link((&a, "va"), (&b, "vb"));
    let mut va = a.open("va", &weir_io::af_packet::Options::default());
    let mut small = b.open_xdp("vb", &Options { ring_frames: 64, ..Options::default() });
    let mut batch: Vec<Packet> = (0..200).map(|_| packet(b"x")).collect();
    assert_eq!(va.send(&mut batch).unwrap(), 200);
    let mut out = Vec::new();
    while small.receive(&mut out, 32).unwrap() > 0 {}
    let stats = small.stats();
    assert_eq!((stats.rx_packets, stats.rx_dropped), (64, 136));
    va.send(&mut vec![packet(b"later")]).unwrap();
    assert_eq!(receive_n(&mut small, 1, |_| true).len(), 1, "frames come back to the kernel");
}

#[test]
fn each_queue_has_its_port_or_one_port_has_all() {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    let queues = "numtxqueues 2 numrxqueues 2";
    a.ip(&format!("link add va {queues} type veth peer name vb {queues} netns {}", b.0));
    for (ns, name) in [(&a, "va"), (&b, "vb")] {
        run(&format!("ip netns exec {} sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1", ns.0));
        run(&format!("ip netns exec {} ethtool -L {name} rx 2 tx 2", ns.0));
        ns.ip(&format!("link set {name} up"));
    }
    let one = |queue| Options { queue: Some(queue), ..Options::default() };
    let mut senders = [0, 1].map(|queue| a.open_xdp("va", &one(queue)));
    {
        let mut receivers = [0, 1].map(|queue| b.open_xdp("vb", &one(queue)));
        for (i, sender) in senders.iter_mut().enumerate() {
            sender.send(&mut vec![packet(&[i as u8; 20])]).unwrap();
        }
        for (i, receiver) in receivers.iter_mut().enumerate() {
            assert!(receive_n(receiver, 1, |_| true)[0].bytes().ends_with(&[i as u8; 20]));
            assert_eq!(receiver.receive(&mut Vec::new(), 32).unwrap(), 0);
        }
        let error = AfXdpPort::open_in(&b.netns(), "vb", &one(1)).unwrap_err();
        assert!(matches!(error, PortError::Busy { what, .. } if what == "queue 1"));
    }
    let mut all = b.open_xdp("vb", &Options::default());
    assert!(all.method().contains("2 queues"), "{}", all.method());
    for sender in &mut senders {
        sender.send(&mut vec![packet(b"both")]).unwrap();
    }
    receive_n(&mut all, 2, |p| p.bytes().ends_with(b"both"));
}

#[test]
fn an_interface_that_goes_down_or_away_is_reported() {
    let (a, _b, mut va, mut vb) = pair(&Options::default());
    let mut out = Vec::new();
    a.ip("link set va down");
    assert!(matches!(va.receive(&mut out, 32), Err(PortError::Down { name }) if name == "va"));
    assert_eq!(va.receive(&mut out, 32).unwrap(), 0, "reported once");
    assert!(matches!(va.send(&mut vec![packet(b"x")]), Err(PortError::Down { .. })));
    a.ip("link set va up");
    va.send(&mut vec![packet(b"again")]).unwrap();
    receive_n(&mut vb, 1, |p| p.bytes().ends_with(b"again"));

    a.ip("link del va");
    for port in [&mut va, &mut vb] {
        for _ in 0..2 {
            assert!(matches!(port.receive(&mut out, 32), Err(PortError::Gone { .. })));
            assert!(matches!(port.send(&mut vec![packet(b"x")]), Err(PortError::Gone { .. })));
        }
    }
}

#[test]
fn the_program_goes_with_the_port_and_the_kernel_gets_its_packets_back() {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    link((&a, "va"), (&b, "vb"));
    a.ip("addr add 10.9.0.1/24 dev va");
    b.ip("addr add 10.9.0.2/24 dev vb");
    let ping = || {
        std::process::Command::new("ip")
            .args(["netns", "exec", &a.0, "ping", "-c", "1", "-W", "1", "10.9.0.2"])
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(ping());
    let port = b.open_xdp("vb", &Options::default());
    assert!(b.ip("link show vb").contains("xdp"));
    assert!(!ping(), "the port takes all packets");
    drop(port);
    assert!(!b.ip("link show vb").contains("xdp"));
    assert!(ping());
}

#[test]
fn the_method_follows_from_the_interface_and_can_be_chosen() {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    link((&a, "va"), (&b, "vb"));
    let open = |method| {
        let options = interface::Options { method, ..Default::default() };
        for _ in 0..100 {
            match interface::open_in(&b.netns(), "vb", &options) {
                Err(PortError::Busy { .. }) => std::thread::sleep(Duration::from_millis(50)),
                other => return other.unwrap().method().to_owned(),
            }
        }
        panic!("stays busy");
    };
    assert_eq!(open(Method::Auto), "AF_PACKET: packets of local senders pass unsegmented, up to 64 KB each");
    assert_eq!(open(Method::Xdp), "AF_XDP (native, 1 queue): as asked for");
    assert_eq!(open(Method::Packet), "AF_PACKET: as asked for");
    run(&format!("ip netns exec {} ethtool -K vb tso off", b.0));
    assert_eq!(open(Method::Auto), "AF_XDP (native, 1 queue): its senders segment their packets themselves");
    b.ip("addr add 10.9.0.2/24 dev vb");
    assert_eq!(open(Method::Auto), "AF_PACKET: the kernel has an address on it, and sees its packets too");
}

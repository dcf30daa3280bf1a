//! AF_XDP ports on veth links, with real traffic.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Forwarder, Hosts, Inside, Namespace, link, receive_n, run, transfer};
use weir_io::af_xdp::{AfXdpPort, Options};
use weir_io::interface::{self, Method, Share};
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
    let net = Hosts::new();
    let ports = ["left", "right"].map(|name| net.middle.open_xdp(name, &Options::default()));
    let (large, partial) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (large.clone(), partial.clone());
    let forwarder = Forwarder::start(ports, move |p| {
        counts.0.fetch_add((p.len() > 1514).into(), Ordering::Relaxed);
        counts.1.fetch_add((p.checksum() == Checksum::Partial).into(), Ordering::Relaxed);
    });
    transfer(&net.left, &net.right, 10);
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

/// Two namespaces, joined by a link with so many queues at each end.
fn wide(queues: u32) -> (Namespace, Namespace) {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    let many = format!("numtxqueues {queues} numrxqueues {queues}");
    a.ip(&format!("link add va {many} type veth peer name vb {many} netns {}", b.name()));
    for (ns, name) in [(&a, "va"), (&b, "vb")] {
        ns.ip(&format!("link set {name} up"));
    }
    (a, b)
}

/// The ports of so many workers on `vb`. Queues that were in use a moment ago are free soon.
fn shared(b: &Namespace, method: Method, of: u32) -> Vec<Box<dyn Port>> {
    let open = |member| {
        let share = Some(Share { group: 7, member, of });
        let options = interface::Options { method, share, ..Default::default() };
        for _ in 0..100 {
            match interface::open_in(&b.netns(), "vb", &options) {
                Err(PortError::Busy { .. }) => std::thread::sleep(Duration::from_millis(50)),
                other => return other.unwrap(),
            }
        }
        panic!("stays busy");
    };
    (0..of).map(open).collect()
}

#[test]
fn ports_of_several_workers_get_the_queues_in_turn_and_send_by_their_own() {
    let (a, b) = wide(4);
    let mut far: Vec<AfXdpPort> =
        (0..4).map(|q| a.open_xdp("va", &Options { queue: Some(q), ..Options::default() })).collect();
    let mut ports = shared(&b, Method::Xdp, 2);
    for port in &ports {
        assert_eq!(port.method(), "AF_XDP (native, queues 0 2 | 1 3 for 2 workers): as asked for");
        assert!(port.is_shared());
    }
    for (queue, sender) in far.iter_mut().enumerate() {
        sender.send(&mut vec![packet(&[queue as u8; 20])]).unwrap();
        assert!(receive_n(&mut *ports[queue % 2], 1, |_| true)[0].bytes().ends_with(&[queue as u8; 20]));
        assert_eq!(ports[1 - queue % 2].receive(&mut Vec::new(), 32).unwrap(), 0);
    }
    for member in [0, 1] {
        ports[member].send(&mut vec![packet(&[9; 20])]).unwrap();
        receive_n(&mut far[member], 1, |p| p.bytes().ends_with(&[9; 20]));
    }
}

#[test]
fn with_fewer_queues_than_workers_the_first_receives_and_all_send() {
    let (a, b) = wide(2);
    let mut far = a.open("va", &weir_io::af_packet::Options::default());
    let mut ports = shared(&b, Method::Xdp, 3);
    assert_eq!(ports[0].method(), "AF_XDP (native, queues 0 1 for 3 workers): as asked for");
    let only = "AF_PACKET: only to send, since there are fewer queues than workers";
    assert_eq!([ports[1].method(), ports[2].method()], [only; 2]);
    assert!(ports.iter().all(|p| !p.is_shared()));
    for port in &mut ports {
        port.send(&mut vec![packet(b"up")]).unwrap();
        receive_n(&mut far, 1, |p| p.bytes().ends_with(b"up"));
    }
    far.send(&mut (0..64).map(|_| packet(b"down")).collect()).unwrap();
    receive_n(&mut *ports[0], 64, |p| p.bytes().ends_with(b"down"));
    assert!(ports[1..].iter_mut().all(|p| p.receive(&mut Vec::new(), 32).unwrap() == 0));
    // They learn what becomes of the interface, as the first does.
    b.ip("link del vb");
    assert!(ports.iter_mut().all(|p| matches!(p.receive(&mut Vec::new(), 32), Err(PortError::Gone { .. }))));
}

#[test]
fn the_ports_of_an_interface_have_the_method_of_the_first() {
    let (_a, b) = wide(2);
    let ports = shared(&b, Method::Auto, 2);
    let first = "AF_PACKET: packets of local senders pass unsegmented, up to 64 KB each";
    assert_eq!([ports[0].method(), ports[1].method()], [first, "AF_PACKET: as the first worker"]);
    assert!(ports.iter().all(|p| p.is_shared()));
    drop(ports);
    run(&format!("ip netns exec {} ethtool -K vb tso off", b.name()));
    let ports = shared(&b, Method::Auto, 2);
    let dealt = "AF_XDP (native, queues 0 | 1 for 2 workers)";
    assert_eq!(ports[0].method(), format!("{dealt}: its senders segment their packets themselves"));
    assert_eq!(ports[1].method(), format!("{dealt}: as the first worker"));
    // A port that is to take the place of one of these stays with the method.
    let share = Some(Share { group: 7, member: 0, of: 2 });
    let again = interface::open_in(&b.netns(), "vb", &interface::Options { share, ..Default::default() });
    assert!(matches!(again, Err(PortError::Busy { what, .. }) if what == "queue 0"));
}

#[test]
fn where_xdp_cannot_be_packet_sockets_are_and_say_why() {
    // The driver refuses: the other end sends by more queues than there are to receive from.
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    a.ip(&format!("link add va numtxqueues 4 type veth peer name vb netns {}", b.name()));
    a.ip("link set va up");
    b.ip("link set vb up");
    run(&format!("ip netns exec {} ethtool -K vb tso off", b.name()));
    let methods = |method| {
        let ports = shared(&b, method, 2);
        ports.iter().map(|p| p.method().to_owned()).collect::<Vec<_>>()
    };
    let first = "AF_PACKET: the driver cannot run XDP programs itself";
    assert_eq!(methods(Method::Auto), [first, "AF_PACKET: as the first worker"]);
    let generic = "AF_XDP (generic: its driver cannot run the program, queue 0 for 2 workers): as asked for";
    assert_eq!(methods(Method::Xdp)[0], generic);
    // Frames of this size do not fit a page.
    let (_a, b) = wide(2);
    b.ip("link set vb mtu 9000");
    run(&format!("ip netns exec {} ethtool -K vb tso off", b.name()));
    let ports = shared(&b, Method::Auto, 2);
    let why = "vb: cannot set up an AF_XDP socket: its packets have up to 9022 bytes; AF_XDP takes 3840";
    assert_eq!(ports[0].method(), format!("AF_PACKET: AF_XDP does not work here ({why})"));
    assert!(ports.iter().all(|p| p.is_shared()));
}

#[test]
fn each_queue_has_its_port_or_one_port_has_all() {
    let (a, b) = wide(2);
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
    assert_eq!(all.method(), "AF_XDP (native, queues 0 1)");
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
            .args(["netns", "exec", a.name(), "ping", "-c", "1", "-W", "1", "10.9.0.2"])
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
    // A process that another test starts has the descriptors for a moment, until it runs its program.
    let gone = |_| {
        !b.ip("link show vb").contains("xdp") || {
            std::thread::sleep(Duration::from_millis(20));
            false
        }
    };
    assert!((0..250).any(gone));
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
    assert_eq!(open(Method::Xdp), "AF_XDP (native, queue 0): as asked for");
    assert_eq!(open(Method::Packet), "AF_PACKET: as asked for");
    run(&format!("ip netns exec {} ethtool -K vb tso off", b.name()));
    assert_eq!(open(Method::Auto), "AF_XDP (native, queue 0): its senders segment their packets themselves");
    b.ip("addr add 10.9.0.2/24 dev vb");
    assert_eq!(open(Method::Auto), "AF_PACKET: the kernel has an address on it, and sees its packets too");
}

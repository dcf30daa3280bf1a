//! Ports on virtual interfaces, with the kernel's stack at the other end.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Forwarder, Inside, Namespace, receive_n, transfer};
use weir_io::tap::{Kind, Options, TapPort};
use weir_io::{Port, PortError};
use weir_net::EtherAddr;
use weir_net::build;
use weir_packet::{Checksum, Layer, Packet, entry};

fn open(ns: &Namespace, name: &str, options: &Options) -> TapPort {
    TapPort::open_in(&ns.netns(), name, options).unwrap()
}

fn host(last: u8, kind: Kind) -> (Namespace, TapPort) {
    let ns = Namespace::new("h");
    let address = Some(([10, 9, 0, last].into(), 24));
    let port = open(&ns, "virtual", &Options { kind, address, ..Options::default() });
    (ns, port)
}

fn hosts_talk(kind: Kind) {
    let ((left, a), (right, b)) = (host(1, kind), host(2, kind));
    let (large, partial) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (large.clone(), partial.clone());
    let forwarder = Forwarder::start([a, b], move |p| {
        counts.0.fetch_add((p.gso != 0).into(), Ordering::Relaxed);
        counts.1.fetch_add((p.checksum() == Checksum::Partial).into(), Ordering::Relaxed);
    });
    transfer(&left, &right, 30);
    let [mut a, mut b] = forwarder.stop();
    assert!(large.load(Ordering::Relaxed) > 50, "large packets pass unsegmented");
    assert!(partial.load(Ordering::Relaxed) > 50);
    for port in [&mut a, &mut b] {
        assert_eq!(port.stats().tx_errors.offload, 0);
        assert_eq!(port.stats().rx_malformed, 0);
    }
}

#[test]
fn hosts_talk_over_ethernet() {
    hosts_talk(Kind::Tap);
}

#[test]
fn hosts_talk_over_ip() {
    hosts_talk(Kind::Tun);
}

#[test]
fn an_interface_is_made_as_asked_for_and_goes_with_its_port() {
    let ns = Namespace::new("s");
    ns.exec("sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0");
    let options = Options {
        address: Some(([10, 9, 3, 1].into(), 20)),
        address6: Some(("fd00::1".parse().unwrap(), 64)),
        gateway: Some([10, 9, 3, 9].into()),
        ether: Some(EtherAddr([2, 0, 0, 0, 0, 7])),
        mtu: Some(1400),
        ..Options::default()
    };
    let port = open(&ns, "fake", &options);
    assert_eq!((port.name(), port.mtu(), port.mac()), ("fake", Some(1400), options.ether));
    let shown = ns.ip("addr show fake");
    assert!(shown.contains("inet 10.9.3.1/20") && shown.contains("inet6 fd00::1/64"), "{shown}");
    assert!(ns.ip("route").contains("default via 10.9.3.9 dev fake"));
    let again = open(&ns, "fake", &options);
    drop(port);
    assert!(ns.ip("link").contains("fake"), "another queue is open");
    drop(again);
    assert!(!ns.ip("link").contains("fake"));

    let first = open(&ns, "", &Options::default());
    assert!(first.name().starts_with("tap"), "{}", first.name());
    let error = TapPort::open_in(&ns.netns(), "a-name-that-is-too-long", &options).unwrap_err();
    assert!(matches!(error, PortError::Os { source, .. } if source.to_string().contains("at most 15 bytes")));
}

#[test]
fn ip_packets_have_their_headers_marked_and_what_is_not_ip_is_refused() {
    let (ns, mut port) = host(1, Kind::Tun);
    let kernel = ns.python(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'abc', ('10.9.0.7', 9))",
    );
    assert!(kernel.wait_with_output().unwrap().status.success());
    let got = receive_n(&mut port, 1, |p| p.bytes().ends_with(b"abc"));
    assert_eq!(got[0].bytes()[0], 0x45);
    assert_eq!(entry::TUN.admits(&got[0]), Ok(()));
    assert_eq!(got[0].layer(Layer::Net), Some(got[0].data()));
    assert_eq!(got[0].from_layer(Layer::Transport).len(), 11);

    let frame = build::udp4(([10, 9, 0, 7].into(), 1), ([10, 9, 0, 1].into(), 2), b"x");
    let mut batch = vec![Packet::from_bytes(&[0; 40]).unwrap(), Packet::from_bytes(&frame[14..]).unwrap()];
    assert_eq!(port.send(&mut batch).unwrap(), 1);
    assert_eq!(port.stats().tx_errors.offload, 1);
}

#[test]
fn an_interface_that_goes_down_or_away_is_reported() {
    let (ns, mut port) = host(1, Kind::Tap);
    let packet = || vec![Packet::from_bytes(&[7; 60]).unwrap()];
    assert_eq!(port.send(&mut packet()).unwrap(), 1);
    ns.ip("link set virtual down");
    assert!(matches!(port.send(&mut packet()), Err(PortError::Down { .. })));
    ns.ip("link set virtual up");
    assert_eq!(port.send(&mut packet()).unwrap(), 1);
    ns.ip("link del virtual");
    assert!(matches!(port.send(&mut packet()), Err(PortError::Gone { .. })));
    assert!(matches!(port.receive(&mut Vec::new(), 1), Err(PortError::Gone { .. })));
}

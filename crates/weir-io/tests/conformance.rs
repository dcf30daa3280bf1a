//! The contract of [`Port`], held by every kind of port.

mod common;

use std::fs::File;
use std::time::Duration;

use common::driver::Setup;
use common::{Inside, Namespace, link, receive_n};
use weir_io::af_packet::Options;
use weir_io::af_xdp;
use weir_io::memory::MemoryPort;
use weir_io::pcap::{PcapPort, PcapReader};
use weir_io::socket::{self, SocketPort};
use weir_io::tap::{self, TapPort};
use weir_io::{Poller, Port};
use weir_net::build;
use weir_packet::entry::{self, Entry};
use weir_packet::{Layer, Packet};

fn frames(n: u16) -> Vec<Vec<u8>> {
    let at = |host| std::net::Ipv4Addr::new(10, 9, 0, host);
    (0..n).map(|i| build::udp4((at(1), i), (at(2), 9), &vec![i as u8; usize::from(i) * 20 + 10])).collect()
}

fn packets(frames: &[Vec<u8>]) -> Vec<Packet> {
    frames.iter().map(|f| Packet::from_bytes(f).unwrap()).collect()
}

/// Sends packets of many sizes: they arrive whole and in order, not more than asked for at once, and are counted.
///
/// What a graph left with them beside their bytes does not arrive: they are as the entry says.
fn passes_packets_in_order(from: &mut dyn Port, to: &mut dyn Port, entry: &Entry) {
    let frames = frames(70);
    let bytes: usize = frames.iter().map(Vec::len).sum();
    let mut batch = packets(&frames);
    for p in &mut batch {
        let net = p.data() + 14;
        p.set_layer(Layer::Net, Some(net));
        (p.anno[20], p.hash) = (1, 2);
    }
    assert_eq!(from.send(&mut batch).unwrap(), 70);
    assert!(batch.is_empty());
    from.flush().unwrap();
    assert_eq!(from.send(&mut batch).unwrap(), 0, "an empty batch is fine");

    let mut out = vec![Packet::from_bytes(b"kept").unwrap()];
    assert_eq!(to.receive(&mut out, 0).unwrap(), 0);
    assert_eq!(to.receive(&mut out, 3).unwrap(), 3);
    assert_eq!(out.remove(0).bytes(), b"kept", "packets are appended");
    out.extend(receive_n(to, 67, |_| true));
    for (got, sent) in out.iter().zip(&frames) {
        assert_eq!(got.bytes(), sent);
        assert_eq!(entry.admits(got), Ok(()), "{}, {} bytes", entry.name, got.len());
    }
    assert_eq!(to.receive(&mut out, 32).unwrap(), 0);
    let (tx, rx) = (from.stats(), to.stats());
    assert_eq!((tx.tx_packets, tx.tx_bytes, tx.tx_errors), (70, bytes as u64, Default::default()));
    assert_eq!((rx.rx_packets, rx.rx_bytes, rx.rx_dropped, rx.rx_malformed), (70, bytes as u64, 0, 0));
}

/// The descriptor of a port is readable exactly while there are packets.
fn wakes_a_sleeper(from: &mut dyn Port, to: &mut dyn Port) {
    let poller = Poller::new().unwrap();
    poller.add(9, to.fd().unwrap()).unwrap();
    let mut ready = Vec::new();
    for _ in 0..3 {
        poller.sleep(Some(Duration::from_millis(5)), &mut ready).unwrap();
        assert!(ready.is_empty());
        from.send(&mut packets(&frames(2))).unwrap();
        poller.sleep(Some(Duration::from_secs(5)), &mut ready).unwrap();
        assert_eq!(ready, [9]);
        assert_eq!(to.receive(&mut Vec::new(), 1).unwrap(), 1);
        poller.sleep(Some(Duration::from_secs(5)), &mut ready).unwrap();
        assert_eq!(ready, [9], "one packet is left");
        assert_eq!(to.receive(&mut Vec::new(), 32).unwrap(), 1);
    }
}

#[test]
fn memory() {
    let (mut a, mut b) = MemoryPort::pair(["a", "b"], 100).unwrap();
    passes_packets_in_order(&mut a, &mut b, &entry::LINK);
    wakes_a_sleeper(&mut a, &mut b);
    a.send(&mut packets(&frames(1))).unwrap();
    wakes_nobody_late(&mut b);
}

/// A watch that begins while packets wait sees them.
fn wakes_nobody_late(port: &mut dyn Port) {
    let poller = Poller::new().unwrap();
    poller.add(1, port.fd().unwrap()).unwrap();
    let mut ready = Vec::new();
    poller.sleep(Some(Duration::from_secs(5)), &mut ready).unwrap();
    assert_eq!(ready, [1]);
}

#[test]
fn af_packet() {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    link((&a, "va"), (&b, "vb"));
    for options in
        [Options::default(), Options { bypass_qdisc: true, send_offloads: false, ..Options::default() }]
    {
        let (mut va, mut vb) = (a.open("va", &options), b.open("vb", &options));
        passes_packets_in_order(&mut va, &mut vb, &entry::DEVICE);
        wakes_a_sleeper(&mut vb, &mut va);
        va.send(&mut packets(&frames(1))).unwrap();
        wakes_nobody_late(&mut vb);
    }
}

#[test]
fn af_xdp() {
    let (a, b) = (Namespace::new("a"), Namespace::new("b"));
    link((&a, "va"), (&b, "vb"));
    for generic in [false, true] {
        let options = af_xdp::Options { generic, ..af_xdp::Options::default() };
        let (mut va, mut vb) = (a.open_xdp("va", &options), b.open_xdp("vb", &options));
        assert_eq!(va.is_native(), !generic);
        passes_packets_in_order(&mut va, &mut vb, &entry::DEVICE);
        wakes_a_sleeper(&mut vb, &mut va);
        va.send(&mut packets(&frames(1))).unwrap();
        wakes_nobody_late(&mut vb);
    }
}

#[test]
fn tap() {
    let ns = Namespace::new("t");
    let mut tap = TapPort::open_in(&ns.netns(), "tap0", &tap::Options::default()).unwrap();
    ns.ip("link set tap0 up");
    // The other end is the kernel, for which a packet socket speaks.
    let mut kernel = ns.open("tap0", &Options::default());
    passes_packets_in_order(&mut tap, &mut kernel, &entry::DEVICE);
    passes_packets_in_order(&mut kernel, &mut tap, &entry::TAP);
    wakes_a_sleeper(&mut kernel, &mut tap);
    kernel.send(&mut packets(&frames(1))).unwrap();
    wakes_nobody_late(&mut tap);
}

#[test]
fn memif() {
    let dir = tempfile::tempdir().unwrap();
    for more in ["", "&ring=512&buffer=256"] {
        let (mut master, mut slave) = common::memif_pair(&dir.path().join("m.sock"), more);
        passes_packets_in_order(&mut master, &mut slave, &entry::DEVICE);
        passes_packets_in_order(&mut slave, &mut master, &entry::DEVICE);
        wakes_a_sleeper(&mut slave, &mut master);
        wakes_a_sleeper(&mut master, &mut slave);
        let (mut master, mut slave) = common::memif_pair(&dir.path().join("n.sock"), more);
        slave.send(&mut packets(&frames(1))).unwrap();
        wakes_nobody_late(&mut master);
        master.send(&mut packets(&frames(1))).unwrap();
        wakes_nobody_late(&mut slave);
    }
}

#[test]
fn vhost() {
    let dir = tempfile::tempdir().unwrap();
    for buffer in [2048, 256] {
        let setup = Setup { buffer, size: 1024, ..Setup::default() };
        let (mut port, mut driver) = common::vhost_pair(&dir.path().join("v.sock"), "", setup.clone());
        passes_packets_in_order(&mut driver, &mut port, &entry::DEVICE);
        passes_packets_in_order(&mut port, &mut driver, &entry::DEVICE);
        wakes_a_sleeper(&mut driver, &mut port);
        drop((port, driver));
        let (mut port, mut driver) = common::vhost_pair(&dir.path().join("w.sock"), "", setup);
        driver.send(&mut packets(&frames(1))).unwrap();
        wakes_nobody_late(&mut port);
    }
}

#[test]
fn pcap() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("packets.pcap");
    let mut writing = PcapPort::writing("packets.pcap", File::create(&path).unwrap(), 65_535).unwrap();
    // The reader sees the file as it is being written.
    let mut reading = PcapPort::reading(PcapReader::open(&path).unwrap());
    passes_packets_in_order(&mut writing, &mut reading, &entry::FRAMES_OF_FILE);
    assert!(reading.ended());
    assert!(reading.send(&mut packets(&frames(1))).is_err());
    assert!(writing.receive(&mut Vec::new(), 1).is_err());

    let tcpdump = common::run(&format!("tcpdump -nr {} udp port 9", path.display()));
    assert_eq!(tcpdump.lines().count(), 70);
}

#[test]
fn sockets() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let open = |kind| SocketPort::open(&socket::Options::new(kind)).unwrap();
    let any = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
    let mut server = open(socket::Kind::UdpServer(any));
    let mut client = open(socket::Kind::UdpClient(server.local_addr().unwrap(), None));
    passes_packets_in_order(&mut client, &mut server, &entry::SOCKET);
    wakes_a_sleeper(&mut client, &mut server);
    wakes_a_sleeper(&mut server, &mut client);
    server.send(&mut packets(&frames(1))).unwrap();
    wakes_nobody_late(&mut client);
    let mut server = open(socket::Kind::UnixDatagramServer(a.clone()));
    let mut client = open(socket::Kind::UnixDatagramClient(a, Some(b)));
    wakes_a_sleeper(&mut client, &mut server);
    wakes_a_sleeper(&mut server, &mut client);
}

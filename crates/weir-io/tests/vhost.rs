//! A network driver and its front end as the peer: packets pass in both directions, both sides wake each other, stop and begin
//! again, die and come back.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::driver::{
    self, CSUM, Driver, GUEST_CSUM, GUEST_ECN, GUEST_TSO4, HOST_TSO4, INDIRECT, MERGEABLE, PROTOCOL, RX,
    Setup, TX, VERSION_1,
};
use common::{is_up, until, vhost, vhost_pair};
use vhost::VhostBackend;
use vhost::vhost_user::Frontend;
use weir_io::vhost::VhostPort;
use weir_io::{Poller, Port, PortError};
use weir_net::build::{self, TcpFields};
use weir_net::checksum;
use weir_packet::{Checksum, Gso, Packet};

fn frame(number: u32) -> Vec<u8> {
    let at = |host| std::net::Ipv4Addr::new(10, 9, 0, host);
    let mut payload = vec![number as u8; number as usize * 13 % 3000 + 4];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    build::udp4((at(1), 7), (at(2), 9), &payload)
}

fn packet(number: u32) -> Packet {
    Packet::from_bytes(&frame(number)).unwrap()
}

/// Sends back what comes, and sleeps when there is nothing.
fn echo(mut port: VhostPort, stop: &AtomicBool) -> VhostPort {
    let poller = Poller::new().unwrap();
    poller.add(0, port.fd().unwrap()).unwrap();
    let (mut batch, mut ready) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        match port.receive(&mut batch, 32) {
            // Much shorter than the driver waits: only what is lost at a wakeup makes it wait that long.
            Ok(0) => poller.sleep(Some(Duration::from_secs(20)), &mut ready).unwrap(),
            Ok(_) => {
                while !batch.is_empty() {
                    port.send(&mut batch).unwrap();
                }
            }
            Err(PortError::NoPeer { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
    port
}

/// Sends packets, at most `window` ahead of what came back; they come in order.
fn echoes(driver: &mut Driver, count: u32, window: u32) {
    let (mut next, mut came, mut out) = (0, 0, Vec::new());
    until(|| {
        for _ in 0..200 {
            let mut batch = Vec::new();
            while next < count && next - came < window && batch.len() < 16 {
                batch.push(packet(next));
                next += 1;
            }
            driver.send(&mut batch).unwrap();
            next -= batch.len() as u32;
            driver.receive(&mut out, 32).unwrap();
            for p in out.drain(..) {
                assert_eq!(p.bytes(), frame(came), "packet {came}");
                came += 1;
            }
        }
        came == count
    });
}

#[test]
fn driver_and_port_wake_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    for setup in [
        Setup::default(),
        // Packets of several buffers.
        Setup { buffer: 512, ..Setup::default() },
        // Of one, without tables of descriptors; a front end that knows nothing of enabling rings, positions that go round.
        Setup { features: VERSION_1, buffer: 4096, base: 65_500, ..Setup::default() },
        // As before virtio 1.0.
        Setup { features: 0, buffer: 4096, ..Setup::default() },
    ] {
        let (port, mut driver) = vhost_pair(&path, "", setup.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || echo(port, &stopped));
        echoes(&mut driver, 200, 1);
        echoes(&mut driver, 5000, 16);
        stop.store(true, Ordering::Relaxed);
        driver.send(&mut vec![packet(0)]).unwrap();
        driver.kicks[TX].write(1).unwrap();
        let mut port = thread.join().unwrap();
        let stats = port.stats();
        assert_eq!((stats.rx_malformed, stats.tx_errors), (0, Default::default()), "{setup:?}");
        assert!(stats.tx_packets >= 5200);
        // It was signalled for what it wanted to be signalled for.
        assert!(driver.calls[RX].read().unwrap() > 1);
        assert!(driver.calls[TX].read().unwrap() > 1);
    }
}

#[test]
fn a_driver_that_stops_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (mut port, mut driver) = vhost_pair(&dir.path().join("v.sock"), "", Setup::default());
    let mut out = Vec::new();
    driver.send(&mut (0..10).map(packet).collect()).unwrap();
    assert_eq!(port.receive(&mut out, 7).unwrap(), 7);
    port.send(&mut (0..5).map(packet).collect()).unwrap();
    assert_eq!(driver.stop(), [5, 7]);
    let error = port.receive(&mut out, 32).unwrap_err().to_string();
    assert!(error.contains("the driver has stopped"), "{error}");
    assert_eq!(port.receive(&mut out, 32).unwrap(), 0, "it is said once");
    assert_eq!(port.is_up(), Some(false));
    let why = port.send(&mut vec![packet(1)]).unwrap_err().to_string();
    assert!(why.contains("the driver has stopped"), "{why}");
    // The driver has taken what it was sent before.
    let mut came = Vec::new();
    assert_eq!(driver.receive(&mut came, 32).unwrap(), 5);
    driver.take_back();
    for ring in [RX, TX] {
        driver.start_ring(ring, driver::user(driver::descriptors(ring))).unwrap();
    }
    assert_eq!(port.receive(&mut out, 32).unwrap(), 3, "those that it had not taken");
    for (number, p) in out.iter().enumerate() {
        assert_eq!(p.bytes(), frame(number as u32));
    }
    // Disabled, nothing passes; in other memory, it goes on.
    driver.frontend.set_features(driver.setup.features).unwrap();
    use vhost::vhost_user::VhostUserFrontend;
    driver.frontend.set_vring_enable(TX, false).unwrap();
    driver.send(&mut vec![packet(10)]).unwrap();
    assert!(port.receive(&mut out, 32).is_err());
    driver.share(&driver::regions());
    driver.frontend.set_vring_enable(TX, true).unwrap();
    assert_eq!(port.receive(&mut out, 32).unwrap(), 1);
    port.send(&mut vec![packet(3)]).unwrap();
    assert_eq!(driver.receive(&mut came, 32).unwrap(), 1);
    assert_eq!(came[5].bytes(), frame(3));
}

#[test]
fn a_front_end_that_goes_is_missed_and_its_successor_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    for role in ["server", "client"] {
        let mut port;
        let listener = if role == "client" {
            port = vhost(&format!("vhost-user:{}?role=client", path.display()));
            until(|| match port.send(&mut vec![packet(1)]) {
                Err(e) => e.to_string().contains("cannot connect"),
                Ok(_) => panic!("nobody is there"),
            });
            Some(UnixListener::bind(&path).unwrap())
        } else {
            port = vhost(&format!("vhost-user:{}", path.display()));
            let busy = VhostPort::open(&format!("vhost-user:{}", path.display()).parse().unwrap());
            assert!(matches!(busy, Err(PortError::Busy { .. })), "{busy:?}");
            None
        };
        let error = port.receive(&mut Vec::new(), 1).unwrap_err();
        assert!(matches!(error, PortError::NoPeer { .. }), "{error}");
        assert_eq!(port.receive(&mut Vec::new(), 1).unwrap(), 0, "it is said once");
        let mut poller = None;
        for round in 0..3 {
            let frontend = match &listener {
                Some(listener) => Frontend::from_stream(listener.accept().unwrap().0, 2),
                None => Frontend::connect(&path, 2).unwrap(),
            };
            let mut driver = Driver::new(frontend, Setup::default());
            driver.greet();
            driver.share(&driver::regions());
            driver.start();
            until(|| is_up(&mut port));
            port.send(&mut vec![packet(4)]).unwrap();
            assert_eq!(driver.receive(&mut Vec::new(), 2).unwrap(), 1);
            let poller = poller.get_or_insert_with(|| {
                let poller = Poller::new().unwrap();
                poller.add(0, port.fd().unwrap()).unwrap();
                poller
            });
            port.receive(&mut Vec::new(), 1).unwrap();
            // What it has left is received, and then it is said that it is gone. Who sleeps is woken for both.
            driver.send(&mut (0..5).map(packet).collect()).unwrap();
            drop(driver);
            let (mut out, mut ready) = (Vec::new(), Vec::new());
            while port.receive(&mut out, 2).is_ok() {
                poller.sleep(Some(Duration::from_secs(10)), &mut ready).unwrap();
                assert_eq!(ready, [0], "round {round}: nobody woke us");
            }
            assert_eq!(out.len(), 5);
            assert_eq!(port.is_up(), Some(false));
            let why = port.send(&mut vec![packet(1)]).unwrap_err().to_string();
            assert!(why.contains("has closed the connection") || why.contains("connect"), "{why}");
        }
        drop(port);
        if role == "server" {
            assert!(!path.exists());
        }
    }
}

#[test]
fn what_is_left_to_the_device_is_passed_on_or_done() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let at = |host| std::net::Ipv4Addr::new(10, 9, 0, host);
    let whole = build::tcp4((at(1), 7), (at(2), 9), TcpFields::default(), &[7; 9000]);
    let large = || {
        let mut p = Packet::from_bytes(&whole).unwrap();
        (p.gso, p.gso_size) = (Gso::TcpV4 as u8, 1448);
        p
    };
    let features = MERGEABLE | INDIRECT | PROTOCOL | VERSION_1;
    let more = CSUM | GUEST_CSUM | GUEST_TSO4 | GUEST_ECN | HOST_TSO4;
    let setup = Setup { features: features | more, ..Setup::default() };
    let (mut port, mut driver) = vhost_pair(&path, "", setup);
    assert_eq!(port.send(&mut vec![large(), packet(0)]).unwrap(), 2);
    let (header, bytes) = driver.get().unwrap();
    assert_eq!((header[0], header[1], bytes.len()), (1, 1, whole.len()), "one large packet");
    assert_eq!(driver.get().unwrap(), ([0; 10], frame(0)));
    // The same back.
    assert!(driver.put(&header, &bytes));
    driver.show(TX);
    let mut out = Vec::new();
    assert_eq!(port.receive(&mut out, 1).unwrap(), 1);
    let p = out.pop().unwrap();
    assert_eq!((p.gso, p.gso_size, p.checksum(), p.len()), (1, 1448, Checksum::Partial, whole.len()));
    drop((port, driver));

    // A driver that can do nothing gets segments whose checksums are right.
    let (mut port, mut driver) = vhost_pair(&path, "", Setup::default());
    assert_eq!(port.send(&mut vec![large()]).unwrap(), 7);
    for _ in 0..7 {
        let (header, bytes) = driver.get().unwrap();
        assert_eq!(header, [0; 10]);
        let ip = weir_net::Ipv4::new(&bytes[14..]).unwrap();
        let segment = &bytes[34..];
        assert!(ip.checksum_ok() && segment.len() <= 1468);
        let sum: checksum::Sum = ip.pseudo_header(segment.len() as u16);
        assert_eq!(sum.add_bytes(segment).finish(), 0);
    }
    assert_eq!(driver.get(), None);
}

/// As QEMU does.
#[test]
fn rings_may_be_enabled_before_features_are_agreed_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let mut port = vhost(&format!("vhost-user:{}", path.display()));
    let mut stream = UnixStream::connect(&path).unwrap();
    for ring in [RX, TX] {
        // The last one wants to know that it was done.
        let words = [18_u32, if ring == TX { 9 } else { 1 }, 8, ring as u32, 1];
        stream.write_all(&words.map(u32::to_le_bytes).concat()).unwrap();
    }
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *[18_u32, 5, 8, 0, 0].map(u32::to_le_bytes).concat());
    let mut driver =
        Driver::new(Frontend::from_stream(stream, 2), Setup { enable: false, ..Setup::default() });
    driver.greet();
    driver.share(&driver::regions());
    driver.start();
    until(|| is_up(&mut port));
    port.send(&mut vec![packet(4)]).unwrap();
    assert_eq!(driver.get().unwrap().1, frame(4));
}

#[test]
fn packets_that_never_fit_are_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let bytes = |len| Packet::from_bytes(&vec![1; len]).unwrap();
    // All buffers of the ring together, and then the one that is free.
    let setup = Setup { size: 4, buffer: 64, ..Setup::default() };
    let (mut port, mut driver) = vhost_pair(&path, "", setup);
    let mut batch = vec![bytes(13), bytes(4 * 64 - 11), bytes(3 * 64 - 12), bytes(64), bytes(14)];
    assert_eq!(port.send(&mut batch).unwrap(), 1);
    assert_eq!(batch.len(), 2, "the ring is full");
    let errors = port.stats().tx_errors;
    assert_eq!((errors.refused, errors.too_long), (1, 1));
    assert_eq!(driver.get().unwrap().1, vec![1; 3 * 64 - 12]);
    assert_eq!(port.send(&mut batch).unwrap(), 2);
    drop((port, driver));
    // A packet takes one buffer.
    let setup = Setup { features: VERSION_1, buffer: 64, ..Setup::default() };
    let (mut port, mut driver) = vhost_pair(&path, "", setup);
    assert_eq!(port.send(&mut vec![bytes(53), bytes(52)]).unwrap(), 1);
    assert_eq!(port.stats().tx_errors.too_long, 1);
    assert_eq!(driver.get().unwrap().1, vec![1; 52]);
}

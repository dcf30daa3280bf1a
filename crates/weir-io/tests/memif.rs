//! Two processes with a ring for each direction: they wake each other, die, and come back.

mod common;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{is_up, memif, memif_pair, until};
use weir_io::memif::MemifPort;
use weir_io::{Poller, Port, PortError};
use weir_net::build;
use weir_packet::Packet;

fn frame(number: u32) -> Vec<u8> {
    let at = |host| std::net::Ipv4Addr::new(10, 9, 0, host);
    let mut payload = vec![0; number as usize * 13 % 3000 + 4];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    build::udp4((at(1), 7), (at(2), 9), &payload)
}

fn packet(number: u32) -> Packet {
    Packet::from_bytes(&frame(number)).unwrap()
}

/// The name of the port that [`echo`] opens, when this program runs a second time.
const NAME: &str = "WEIR_TEST_MEMIF";

/// Not a test, but the peer of some: it sends all packets back, and sleeps when there are none.
#[test]
#[ignore = "it is the peer of other tests"]
fn echo() {
    let Ok(name) = std::env::var(NAME) else { return };
    let mut port = memif(&name);
    let poller = Poller::new().unwrap();
    poller.add(0, port.fd().unwrap()).unwrap();
    let (mut batch, mut ready) = (Vec::new(), Vec::new());
    loop {
        match port.receive(&mut batch, 32) {
            Ok(0) => poller.sleep(None, &mut ready).unwrap(),
            Ok(_) => {
                while !batch.is_empty() && port.send(&mut batch).is_ok() {}
                batch.clear();
            }
            Err(PortError::NoPeer { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// Another process, which is killed with this.
struct Peer(Child);

impl Peer {
    fn start(name: &str) -> Peer {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "echo", "--ignored"])
            .env(NAME, name)
            .stdout(Stdio::null())
            .spawn();
        Peer(child.unwrap())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends packets, at most `window` ahead of what came back; they come in order.
fn echoes(port: &mut MemifPort, count: u32, window: u32) {
    let poller = Poller::new().unwrap();
    poller.add(0, port.fd().unwrap()).unwrap();
    let (mut next, mut came, mut batch, mut out, mut ready) = (0, 0, Vec::new(), Vec::new(), Vec::new());
    while came < count {
        while next < count && next - came < window && batch.len() < 32 {
            batch.push(packet(next));
            next += 1;
        }
        port.send(&mut batch).unwrap();
        if port.receive(&mut out, 32).unwrap() == 0 && (next - came >= window || next == count) {
            poller.sleep(Some(Duration::from_secs(10)), &mut ready).unwrap();
            assert_eq!(ready, [0], "{came} of {count} packets came back, and nobody woke us");
        }
        for p in out.drain(..) {
            assert_eq!(p.bytes(), frame(came));
            came += 1;
        }
    }
    poller.remove(port.fd().unwrap()).unwrap();
}

#[test]
fn a_master_whose_socket_was_removed_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("ports");
    std::fs::create_dir(&folder).unwrap();
    let socket = folder.join("m.sock").display().to_string();
    let mut master = memif(&format!("memif:{socket}?role=master"));
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let mut slave = memif(&format!("memif:{socket}"));
    until(|| is_up(&mut master) && is_up(&mut slave));
}

#[test]
fn two_processes_wake_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock").display().to_string();
    for (ours, theirs) in [("role=master", "role=slave"), ("role=slave&ring=64", "role=master")] {
        let mut port = memif(&format!("memif:{socket}?{ours}"));
        let _peer = Peer::start(&format!("memif:{socket}?{theirs}"));
        until(|| is_up(&mut port));
        echoes(&mut port, 300, 1);
        echoes(&mut port, 20_000, 20);
    }
    // An abstract name, which needs no file system.
    let name = format!("memif:@weir test {}", std::process::id());
    let mut port = memif(&format!("{name}?role=master"));
    let _peer = Peer::start(&name);
    until(|| is_up(&mut port));
    echoes(&mut port, 2000, 20);
}

#[test]
fn a_peer_that_dies_is_missed_and_its_successor_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock").display().to_string();
    for role in ["master", "slave"] {
        let other = if role == "master" { "slave" } else { "master" };
        let mut port = memif(&format!("memif:{socket}?role={role}"));
        let error = port.receive(&mut Vec::new(), 1).unwrap_err();
        assert!(matches!(error, PortError::NoPeer { .. }), "{error}");
        assert_eq!(port.receive(&mut Vec::new(), 1).unwrap(), 0, "it is said once");
        let mut all = 0;
        for _ in 0..2 {
            let mut peer = Peer::start(&format!("memif:{socket}?role={other}"));
            until(|| is_up(&mut port));
            echoes(&mut port, 100, 20);
            all += 100;
            // In the middle of everything.
            let mut batch = Vec::new();
            for i in 0..2000 {
                if i == 1000 {
                    peer.0.kill().unwrap();
                }
                batch.push(packet(i));
                all += 1;
                if batch.len() < 32 {
                    continue;
                }
                if let Err(e) = port.send(&mut batch) {
                    assert!(matches!(e, PortError::NoPeer { .. }), "{e}");
                    break;
                }
            }
            let mut out = Vec::new();
            until(|| matches!(port.receive(&mut out, 100_000), Err(PortError::NoPeer { .. })));
            assert_eq!(port.is_up(), Some(false));
            let why = port.send(&mut vec![packet(1)]).unwrap_err().to_string();
            assert!(why.contains("no peer: ") || why.contains("connect"), "{why}");
            // Every packet was taken by the peer, or lost, or is still here.
            let stats = port.stats();
            all -= batch.len() as u64;
            assert_eq!(stats.tx_packets + stats.tx_errors.down, all);
            assert!(stats.rx_packets <= stats.tx_packets);
            if role == "slave" {
                // It left its socket behind: its successor takes that over.
                assert!(std::path::Path::new(&socket).exists());
            }
        }
    }
}

#[test]
fn a_port_that_is_closed_says_so_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.sock");
    let (master, mut slave) = memif_pair(&path, "");
    let busy = MemifPort::open(&format!("memif:{}?role=master", path.display()).parse().unwrap());
    assert!(matches!(busy, Err(PortError::Busy { .. })), "{busy:?}");
    drop(master);
    assert!(!path.exists());
    until(|| matches!(slave.receive(&mut Vec::new(), 1), Err(PortError::NoPeer { .. })));
    drop(slave);
    // A second slave learns that there is one.
    let (mut master, slave) = memif_pair(&path, "");
    let mut second = memif(&format!("memif:{}", path.display()));
    until(|| match second.send(&mut vec![packet(1)]) {
        Err(PortError::NoPeer { why, .. }) => why.contains("there is a connection already"),
        _ => panic!("two slaves are up"),
    });
    assert!(is_up(&mut master));
    drop(slave);
    until(|| is_up(&mut second) && is_up(&mut master));
}

#[test]
fn packets_that_never_fit_are_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (mut master, mut slave) = memif_pair(&dir.path().join("m.sock"), "&ring=4&buffer=64");
    for port in [&mut master, &mut slave] {
        let bytes = |len| Packet::from_bytes(&vec![1; len]).unwrap();
        let mut batch = vec![bytes(13), bytes(4 * 64 + 1), bytes(4 * 64), bytes(14)];
        assert_eq!(port.send(&mut batch).unwrap(), 1);
        assert_eq!(batch.len(), 1, "the ring is full");
        let errors = port.stats().tx_errors;
        assert_eq!((errors.refused, errors.too_long), (1, 1));
    }
    let mut out = Vec::new();
    for port in [&mut master, &mut slave] {
        assert_eq!(port.receive(&mut out, 8).unwrap(), 1);
    }
    assert!(out.iter().all(|p| p.bytes() == [1; 256]));
}

#[test]
fn a_file_that_is_no_socket_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "precious").unwrap();
    let name = format!("memif:{}?role=master", path.display());
    assert!(MemifPort::open(&name.parse().unwrap()).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    // What is left of a process that is gone is taken over.
    std::fs::remove_file(&path).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    MemifPort::open(&name.parse().unwrap()).unwrap();
}

//! DPDK as the peer: testpmd over `net_memif`, in both roles. It sends each packet back, with its addresses swapped.

mod common;

use std::path::Path;

use common::testpmd::{self, Testpmd, frame};
use common::{is_up, memif, until};
use weir_io::memif::MemifPort;
use weir_io::{Port, PortError};
use weir_packet::Packet;

/// `role`: `client` is the slave, `server` the master; `more`: what else is said of its device.
fn start(role: &str, socket: &Path, more: &str) -> Testpmd {
    start_with(role, socket, more, &[])
}

/// The same with more options of DPDK's environment.
fn start_with(role: &str, socket: &Path, more: &str, eal: &[&str]) -> Testpmd {
    let socket = socket.display();
    let device = format!("net_memif0,role={role},id=3,socket-abstract=no,secret=hush,socket={socket}{more}");
    Testpmd::start(&device, eal)
}

/// Sends packets and gets all back, in order, with their addresses swapped.
fn echoes(port: &mut MemifPort, packets: u16) {
    let before = port.stats();
    // No more on the way than fit its rings and its memory.
    testpmd::echoes(port, packets, 256);
    let after = port.stats();
    assert_eq!(after.rx_packets - before.rx_packets, u64::from(packets));
    assert_eq!((after.rx_malformed, after.tx_errors), (before.rx_malformed, before.tx_errors));
}

#[test]
fn dpdk_as_slave() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock");
    let mut port = memif(&format!("memif:{}?role=master&id=3&secret=hush", socket.display()));
    for _ in 0..2 {
        let mut peer = start("client", &socket, "");
        until(|| is_up(&mut port));
        echoes(&mut port, 3000);
        // It dies without a word.
        peer.kill();
        until(|| matches!(port.receive(&mut Vec::new(), 1), Err(PortError::NoPeer { .. })));
        assert_eq!(port.is_up(), Some(false));
    }
}

#[test]
fn dpdk_as_master() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock");
    // Before there is anybody to connect to.
    let mut port = memif(&format!("memif:{}?id=3&secret=hush", socket.display()));
    for _ in 0..2 {
        let mut peer = start("server", &socket, "");
        until(|| is_up(&mut port));
        echoes(&mut port, 3000);
        peer.kill();
        until(|| matches!(port.receive(&mut Vec::new(), 1), Err(PortError::NoPeer { .. })));
        // It left its socket behind, on which it could not listen again.
        std::fs::remove_file(&socket).unwrap();
    }
}

#[test]
fn small_rings_and_packets_of_several_buffers() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock");
    let mut port = memif(&format!("memif:{}?role=master&id=3&secret=hush", socket.display()));
    let _peer = start("client", &socket, ",rsize=6,bsize=256");
    until(|| is_up(&mut port));
    let mut came = Vec::new();
    for number in 0..300 {
        let mut batch = vec![Packet::from_bytes(&frame(number)).unwrap()];
        until(|| {
            port.send(&mut batch).unwrap();
            port.receive(&mut came, 8).unwrap() > 0
        });
        let mut sent = frame(number);
        sent[..12].rotate_left(6);
        assert_eq!(came.pop().unwrap().bytes(), sent, "packet {number}");
    }
    assert_eq!(port.stats().rx_malformed, 0);
}

/// DPDK shares its own memory then, which may shrink.
#[test]
fn memory_that_may_shrink_is_taken_from_who_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("m.sock");
    let name = format!("memif:{}?role=master&id=3&secret=hush", socket.display());
    let start = || start_with("client", &socket, ",zero-copy=yes", &["--single-file-segments"]);
    let mut port = memif(&name);
    let peer = start();
    until(|| match port.send(&mut vec![Packet::from_bytes(&frame(1)).unwrap()]) {
        Err(PortError::NoPeer { why, .. }) => why.contains("sealed"),
        _ => panic!("there is no peer"),
    });
    drop((peer, port));
    let mut port = memif(&format!("{name}&unsealed=true"));
    let _peer = start();
    until(|| is_up(&mut port));
    echoes(&mut port, 500);
}

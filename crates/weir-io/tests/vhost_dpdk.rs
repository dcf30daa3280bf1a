//! DPDK as the driver: testpmd over `net_virtio_user`. It sends each packet back, with its addresses swapped.

mod common;

use std::path::Path;

use common::testpmd::{self, PROBE, Testpmd, frame, is_probe};
use common::{until, vhost};
use weir_io::vhost::VhostPort;
use weir_io::{Port, PortError};
use weir_packet::Packet;

/// `more`: what else is said of its device.
fn start(socket: &Path, more: &str) -> Testpmd {
    let device = format!("net_virtio_user0,path={},queues=1{more}", socket.display());
    Testpmd::start(&device, &["--single-file-segments"])
}

/// Waits until testpmd sends back what comes: while it starts, it sets its card up several times, and forgets what was sent to it.
fn ready(port: &mut VhostPort) {
    let mut out = Vec::new();
    until(|| {
        let _ = port.send(&mut vec![Packet::from_bytes(&frame(PROBE)).unwrap()]);
        let _ = port.receive(&mut out, 32);
        out.iter().any(is_probe)
    });
    assert_eq!(port.is_up(), Some(true));
}

/// Sends packets and gets all back, in order, with their addresses swapped.
fn echoes(port: &mut VhostPort, packets: u16) {
    ready(port);
    let before = port.stats();
    // No more on the way than fit its rings.
    testpmd::echoes(port, packets, 100);
    let after = port.stats();
    assert!(after.rx_packets - before.rx_packets >= u64::from(packets));
    assert_eq!((after.rx_malformed, after.tx_errors), (before.rx_malformed, before.tx_errors));
}

#[test]
fn dpdk_comes_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("v.sock");
    let mut port = vhost(&format!("vhost-user:{}?unsealed=true", socket.display()));
    for more in ["", ",mrg_rxbuf=0,queue_size=128"] {
        let mut peer = start(&socket, more);
        echoes(&mut port, 3000);
        // It dies without a word.
        peer.kill();
        until(|| matches!(port.receive(&mut Vec::new(), 1), Err(PortError::NoPeer { .. })));
        assert_eq!(port.is_up(), Some(false));
    }
}

#[test]
fn dpdk_as_server() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("v.sock");
    // Before there is anybody to connect to.
    let mut port = vhost(&format!("vhost-user:{}?role=client&unsealed=true", socket.display()));
    let _peer = start(&socket, ",server=1");
    echoes(&mut port, 1000);
}

/// Its memory may shrink.
#[test]
fn memory_that_may_shrink_is_taken_from_who_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("v.sock");
    let mut port = vhost(&format!("vhost-user:{}", socket.display()));
    let _peer = start(&socket, "");
    until(|| match port.send(&mut vec![Packet::from_bytes(&frame(1)).unwrap()]) {
        Err(PortError::NoPeer { why, .. }) => why.contains("sealed against shrinking"),
        _ => panic!("there is no peer"),
    });
}

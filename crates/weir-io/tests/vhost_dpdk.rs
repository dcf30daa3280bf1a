//! DPDK as the driver: testpmd over `net_virtio_user`. It sends each packet back, with its addresses swapped.

mod common;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{until, vhost};
use weir_io::vhost::VhostPort;
use weir_io::{Port, PortError};
use weir_net::build;
use weir_packet::Packet;

/// A testpmd, which is ended with this.
struct Testpmd(Child, PathBuf);

impl Testpmd {
    /// `more`: what else is said of its device.
    fn start(socket: &Path, more: &str) -> Testpmd {
        // Files of its own, so that several can run.
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let device = format!("--vdev=net_virtio_user0,path={},queues=1{more}", socket.display());
        let name = format!("weir-vhost{}-{number}", std::process::id());
        let (prefix, files) = (format!("--file-prefix={name}"), Path::new("/var/run/dpdk").join(name));
        let child = Command::new("dpdk-testpmd")
            .args(["--lcores=(0,1)@(0,1)", "--no-huge", "-m", "64", "--no-pci", "--no-telemetry"])
            .args(["--single-file-segments", &device, &prefix])
            .args(["--", "--auto-start", "--total-num-mbufs=4096", "--port-topology=loop"])
            .args(["--forward-mode=macswap", "--nb-cores=1", "--disable-link-check", "--no-flush-rx"])
            // It ends when it can read from here.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("dpdk-testpmd (Debian: dpdk-dev) runs");
        Testpmd(child, files)
    }

    /// Kills it; gives what it said.
    fn kill(&mut self) -> String {
        let _ = self.0.kill();
        let mut said = String::new();
        let _ = self.0.stdout.take().map(|mut out| out.read_to_string(&mut said));
        let _ = self.0.stderr.take().map(|mut out| out.read_to_string(&mut said));
        let _ = self.0.wait();
        said
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let said = self.kill();
        // Killed, it leaves them behind.
        let _ = std::fs::remove_dir_all(&self.1);
        if std::thread::panicking() {
            eprintln!("{said}");
        }
    }
}

fn frame(number: u16) -> Vec<u8> {
    let at = |host| std::net::Ipv4Addr::new(10, 9, 0, host);
    build::udp4((at(1), number), (at(2), 9), &vec![number as u8; usize::from(number) * 11 % 1400 + 4])
}

/// The number of a packet that only asks whether anybody is there.
const PROBE: u16 = u16::MAX;

fn is_probe(packet: &Packet) -> bool {
    packet.bytes()[34..36] == PROBE.to_be_bytes()
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
    let (mut next, mut came, mut batch, mut out) = (0, 0, Vec::new(), Vec::new());
    ready(port);
    let before = port.stats();
    until(|| {
        for _ in 0..500 {
            // No more on the way than fit its rings.
            while next < packets && batch.len() < 32 && next - came < 100 {
                batch.push(Packet::from_bytes(&frame(next)).unwrap());
                next += 1;
            }
            port.send(&mut batch).unwrap();
            port.receive(&mut out, 32).unwrap();
            for p in out.drain(..).filter(|p| !is_probe(p)) {
                let mut sent = frame(came);
                sent[..12].rotate_left(6);
                assert_eq!(p.bytes(), sent, "packet {came}");
                came += 1;
            }
        }
        came == packets
    });
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
        let mut peer = Testpmd::start(&socket, more);
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
    let _peer = Testpmd::start(&socket, ",server=1");
    echoes(&mut port, 1000);
}

/// Its memory may shrink.
#[test]
fn memory_that_may_shrink_is_taken_from_who_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("v.sock");
    let mut port = vhost(&format!("vhost-user:{}", socket.display()));
    let _peer = Testpmd::start(&socket, "");
    until(|| match port.send(&mut vec![Packet::from_bytes(&frame(1)).unwrap()]) {
        Err(PortError::NoPeer { why, .. }) => why.contains("sealed against shrinking"),
        _ => panic!("there is no peer"),
    });
}

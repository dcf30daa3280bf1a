//! DPDK as the peer: testpmd over `net_memif`, in both roles. It sends each packet back, with its addresses swapped.

mod common;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{is_up, memif, until};
use weir_io::memif::MemifPort;
use weir_io::{Port, PortError};
use weir_net::build;
use weir_packet::Packet;

/// A testpmd, which is ended with this.
struct Testpmd(Child, PathBuf);

impl Testpmd {
    /// `role`: `client` is the slave, `server` the master.
    fn start(role: &str, socket: &Path, more: &str) -> Testpmd {
        // Files of its own, so that several can run.
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (device_more, eal_more) = more.split_once(" ").unwrap_or((more, ""));
        let device = format!(
            "--vdev=net_memif0,role={role},id=3,socket-abstract=no,secret=hush,socket={}{device_more}",
            socket.display()
        );
        let name = format!("weir{}-{number}", std::process::id());
        let (prefix, files) = (format!("--file-prefix={name}"), Path::new("/var/run/dpdk").join(name));
        let child = Command::new("dpdk-testpmd")
            .args(["--lcores=(0,1)@(0,1)", "--no-huge", "-m", "64", "--no-pci", "--no-telemetry"])
            .args(eal_more.split_whitespace())
            .args([&device, &prefix, "--", "--auto-start", "--total-num-mbufs=4096"])
            .args([
                "--port-topology=loop",
                "--forward-mode=macswap",
                "--nb-cores=1",
                "--disable-link-check",
                "--no-flush-rx",
            ])
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

/// Sends packets and gets all back, in order, with their addresses swapped.
fn echoes(port: &mut MemifPort, packets: u16) {
    let (mut next, mut came, mut batch, mut out) = (0, 0, Vec::new(), Vec::new());
    let before = port.stats();
    until(|| {
        for _ in 0..500 {
            // No more on the way than fit its rings and its memory.
            while next < packets && batch.len() < 32 && next - came < 256 {
                batch.push(Packet::from_bytes(&frame(next)).unwrap());
                next += 1;
            }
            port.send(&mut batch).unwrap();
            port.receive(&mut out, 32).unwrap();
            for p in out.drain(..) {
                let mut sent = frame(came);
                sent[..12].rotate_left(6);
                assert_eq!(p.bytes(), sent, "packet {came}");
                came += 1;
            }
        }
        came == packets
    });
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
        let mut peer = Testpmd::start("client", &socket, "");
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
        let mut peer = Testpmd::start("server", &socket, "");
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
    let _peer = Testpmd::start("client", &socket, ",rsize=6,bsize=256");
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
    let more = ",zero-copy=yes --single-file-segments";
    let mut port = memif(&name);
    let peer = Testpmd::start("client", &socket, more);
    until(|| match port.send(&mut vec![Packet::from_bytes(&frame(1)).unwrap()]) {
        Err(PortError::NoPeer { why, .. }) => why.contains("sealed"),
        _ => panic!("there is no peer"),
    });
    drop((peer, port));
    let mut port = memif(&format!("{name}&unsealed=true"));
    let _peer = Testpmd::start("client", &socket, more);
    until(|| is_up(&mut port));
    echoes(&mut port, 500);
}

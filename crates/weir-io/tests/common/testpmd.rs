//! DPDK's testpmd as the peer of a port. It sends each packet back, with its addresses swapped.

use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use weir_io::Port;
use weir_net::build;
use weir_packet::Packet;

use super::until;

/// A testpmd, which is ended with this.
pub struct Testpmd {
    child: Child,
    /// What it leaves behind when it is killed.
    files: PathBuf,
}

impl Testpmd {
    /// One with a device (`--vdev`), and with more options of DPDK's environment.
    pub fn start(device: &str, more: &[&str]) -> Testpmd {
        // Files of its own, so that several can run.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let child = Command::new("dpdk-testpmd")
            .args(["--lcores=(0,1)@(0,1)", "--no-huge", "-m", "64", "--no-pci", "--no-telemetry"])
            .args([format!("--vdev={device}"), format!("--file-prefix={name}")])
            .args(more)
            .args(["--", "--auto-start", "--total-num-mbufs=4096", "--port-topology=loop"])
            .args(["--forward-mode=macswap", "--nb-cores=1", "--disable-link-check", "--no-flush-rx"])
            // It ends when it can read from here.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("dpdk-testpmd (Debian: dpdk-dev) runs");
        Testpmd { child, files: Path::new("/var/run/dpdk").join(name) }
    }

    /// Kills it; gives what it said.
    pub fn kill(&mut self) -> String {
        let _ = self.child.kill();
        let mut said = String::new();
        let _ = self.child.stdout.take().map(|mut out| out.read_to_string(&mut said));
        let _ = self.child.stderr.take().map(|mut out| out.read_to_string(&mut said));
        let _ = self.child.wait();
        said
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let said = self.kill();
        let _ = std::fs::remove_dir_all(&self.files);
        if std::thread::panicking() {
            eprintln!("{said}");
        }
    }
}

/// A packet of that number; they have many lengths.
pub fn frame(number: u16) -> Vec<u8> {
    let at = |host| Ipv4Addr::new(10, 9, 0, host);
    build::udp4((at(1), number), (at(2), 9), &vec![number as u8; usize::from(number) * 11 % 1400 + 4])
}

/// The number of a packet that only asks whether anybody is there.
pub const PROBE: u16 = u16::MAX;

/// Whether a packet is such a one.
pub fn is_probe(packet: &Packet) -> bool {
    packet.bytes()[34..36] == PROBE.to_be_bytes()
}

/// Sends packets, at most `window` ahead of what came back, and gets all back, in order, with their addresses swapped.
pub fn echoes(port: &mut dyn Port, packets: u16, window: u16) {
    let (mut next, mut came, mut batch, mut out) = (0, 0, Vec::new(), Vec::new());
    until(|| {
        for _ in 0..500 {
            while next < packets && batch.len() < 32 && next - came < window {
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
}

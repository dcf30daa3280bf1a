//! Network namespaces and processes for tests. Needs root: a test fails where it is missing.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod driver;
pub mod testpmd;

use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_io::af_packet::{AfPacketPort, Options};
use weir_io::af_xdp::{self, AfXdpPort};
use weir_io::memif::MemifPort;
use weir_io::vhost::VhostPort;
use weir_io::{Netns, Poller, Port, PortError};
use weir_packet::Packet;

#[allow(unused_imports, reason = "each test file uses a part")]
pub use weir_testkit::{Hosts, Namespace, link, run};

/// Ports and programs in a namespace.
pub trait Inside {
    fn netns(&self) -> Netns;
    fn open(&self, name: &str, options: &Options) -> AfPacketPort;
    /// An AF_XDP port. A queue that was in use a moment ago is free soon.
    fn open_xdp(&self, name: &str, options: &af_xdp::Options) -> AfXdpPort;
    /// Starts a Python program inside.
    fn python(&self, program: &str) -> Child;
}

impl Inside for Namespace {
    fn netns(&self) -> Netns {
        Netns::Named(self.name().to_owned())
    }

    fn open(&self, name: &str, options: &Options) -> AfPacketPort {
        AfPacketPort::open_in(&self.netns(), name, options).unwrap()
    }

    fn open_xdp(&self, name: &str, options: &af_xdp::Options) -> AfXdpPort {
        for _ in 0..100 {
            match AfXdpPort::open_in(&self.netns(), name, options) {
                Err(PortError::Busy { .. }) => std::thread::sleep(Duration::from_millis(50)),
                other => return other.unwrap(),
            }
        }
        panic!("{name} stays busy");
    }

    fn python(&self, program: &str) -> Child {
        let mut python = self.command("/usr/bin/python3");
        python.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }
}

/// Sends megabytes of data that a seed determines from the left host to the right host and compares digests.
pub fn transfer(left: &Namespace, right: &Namespace, megabytes: u32) {
    let mut server = right.python(
        "import socket, hashlib\n\
         s = socket.create_server(('10.9.0.2', 5001)); print('ready', flush=True)\n\
         s.settimeout(30); c, _ = s.accept(); c.settimeout(30); h = hashlib.sha256(); n = 0\n\
         while d := c.recv(1 << 16): h.update(d); n += len(d)\n\
         c.close(); print(n, h.hexdigest())",
    );
    let mut line = [0; 6];
    server.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let client = left.python(&format!(
        "import socket, hashlib, random\n\
         r = random.Random(7); h = hashlib.sha256(); c = socket.create_connection(('10.9.0.2', 5001), 30)\n\
         for _ in range({megabytes}): d = r.randbytes(1 << 20); h.update(d); c.sendall(d)\n\
         c.shutdown(socket.SHUT_WR); c.recv(1); print({megabytes} << 20, h.hexdigest())",
    ));
    let sent = client.wait_with_output().unwrap();
    let received = server.wait_with_output().unwrap();
    assert!(sent.status.success() && received.status.success());
    assert_eq!(String::from_utf8_lossy(&sent.stdout), String::from_utf8_lossy(&received.stdout));
}

/// A thread that forwards between two ports and shows every packet to `look`.
pub struct Forwarder<P> {
    stop: Arc<AtomicBool>,
    waker: weir_io::Waker,
    thread: Option<JoinHandle<[P; 2]>>,
}

impl<P: Port + 'static> Forwarder<P> {
    pub fn start(mut ports: [P; 2], mut look: impl FnMut(&mut Packet) + Send + 'static) -> Forwarder<P> {
        let poller = Poller::new().unwrap();
        for (key, port) in ports.iter_mut().enumerate() {
            poller.add(key as u64, port.fd().unwrap()).unwrap();
        }
        let waker = poller.waker();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut ready, mut batch) = (Vec::new(), Vec::with_capacity(64));
            while !stopped.load(Ordering::Relaxed) {
                poller.sleep(Some(Duration::from_secs(1)), &mut ready).unwrap();
                for &key in &ready {
                    let from = key as usize;
                    ports[from].receive(&mut batch, 32).unwrap();
                    batch.iter_mut().for_each(&mut look);
                    ports[1 - from].send(&mut batch).unwrap();
                    batch.clear();
                }
            }
            ports
        });
        Forwarder { stop, waker, thread: Some(thread) }
    }

    pub fn stop(mut self) -> [P; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl<P> Drop for Forwarder<P> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }
}

/// A memif port of that name, which may have to be waited for.
pub fn memif(name: &str) -> MemifPort {
    MemifPort::open(&name.parse().unwrap()).unwrap()
}

/// Master and slave on a socket; `more` is what else the names of both say.
pub fn memif_pair(path: &std::path::Path, more: &str) -> (MemifPort, MemifPort) {
    let open = |role| memif(&format!("memif:{}?role={role}{more}", path.display()));
    let (mut master, mut slave) = (open("master"), open("slave"));
    for port in [&mut master, &mut slave] {
        until(|| is_up(port));
    }
    (master, slave)
}

/// A vhost-user port of that name.
pub fn vhost(name: &str) -> VhostPort {
    VhostPort::open(&name.parse().unwrap()).unwrap()
}

/// A port, and a driver of this kind.
pub fn vhost_pair(path: &std::path::Path, more: &str, setup: driver::Setup) -> (VhostPort, driver::Driver) {
    let mut port = vhost(&format!("vhost-user:{}{more}", path.display()));
    let driver = driver::Driver::connect(path, setup);
    until(|| is_up(&mut port));
    (port, driver)
}

/// Whether a port without packets has a peer.
pub fn is_up(port: &mut dyn Port) -> bool {
    let mut none = Vec::new();
    let _ = port.receive(&mut none, 1);
    assert!(none.is_empty());
    port.is_up() == Some(true)
}

/// Waits until something holds, for at most half a minute: programs of others take their time to start on a busy machine.
pub fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never came");
}

/// Receives until `n` packets for which `wanted` holds are there, for at most five seconds.
pub fn receive_n(port: &mut dyn Port, n: usize, wanted: impl Fn(&Packet) -> bool) -> Vec<Packet> {
    let (mut all, mut some) = (Vec::new(), Vec::new());
    let poller = Poller::new().unwrap();
    if let Some(fd) = port.fd() {
        poller.add(0, fd).unwrap();
    }
    for _ in 0..500 {
        port.receive(&mut some, 32).unwrap();
        all.extend(some.drain(..).filter(&wanted));
        if all.len() >= n {
            break;
        }
        poller.sleep(Some(Duration::from_millis(10)), &mut Vec::new()).unwrap();
    }
    assert_eq!(all.len(), n, "packets on {}", port.name());
    all
}

//! A real Redis for tests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::port;

/// A Redis whose acknowledged changes outlive it.
pub struct Server {
    pub address: SocketAddr,
    folder: tempfile::TempDir,
    child: Option<Child>,
    password: Option<&'static str>,
}

impl Server {
    /// Starts it, with a password if one is given.
    pub fn start(password: Option<&'static str>) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port::free_port()));
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut server = Self { address, folder, child: None, password };
        server.restart();
        server
    }

    /// Starts it again with what it has written.
    pub fn restart(&mut self) {
        let port = self.address.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "yes"]);
        command.args(["--appendfsync", "always"]).arg("--dir").arg(self.folder.path());
        if let Some(password) = self.password {
            command.args(["--requirepass", password]);
        }
        self.child = Some(command.stdout(Stdio::null()).spawn().expect("redis-server is there"));
        let begun = Instant::now();
        while !self.answers() {
            assert!(begun.elapsed() < Duration::from_secs(60), "Redis starts");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether it has started, and read what it had written.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(self.address) else { return false };
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("not zero");
        let mut reply = [0; 8];
        stream.write_all(b"PING\r\n").is_ok()
            && stream.read(&mut reply).is_ok_and(|n| matches!(&reply[..n], b"+PONG\r\n" | b"-NOAUTH "))
    }

    /// Sends it a signal, and waits for its end if that is the consequence.
    pub fn signal(&mut self, signal: Signal) {
        let child = self.child.as_mut().expect("it runs");
        kill(Pid::from_raw(child.id() as i32), signal).expect("it is ours");
        if signal == Signal::SIGKILL {
            child.wait().expect("it is ours");
            self.child = None;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.signal(Signal::SIGKILL);
        }
    }
}

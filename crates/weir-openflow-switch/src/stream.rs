//! A byte stream that does not block: TCP, a socket of this machine, or TLS over TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::tls::Tls;

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    tls: Option<Box<rustls::Connection>>,
    /// Whether the connection is made.
    connected: bool,
}

impl Stream {
    /// Dials an address.
    pub(crate) fn dial(to: std::net::SocketAddr, tls: Option<&Tls>) -> io::Result<Stream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.set_tcp_nodelay(true)?;
        let tls = tls.map(|tls| tls.dial(to.ip())).transpose().map_err(io::Error::other)?;
        Stream::connect(socket, &to.into(), tls)
    }

    /// Dials a socket of this machine.
    pub(crate) fn dial_unix(path: &Path) -> io::Result<Stream> {
        Stream::connect(Socket::new(Domain::UNIX, Type::STREAM, None)?, &SockAddr::unix(path)?, None)
    }

    fn connect(socket: Socket, to: &SockAddr, tls: Option<rustls::Connection>) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        match socket.connect(to) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(nix::errno::Errno::EINPROGRESS as i32) => {}
            Err(e) => return Err(e),
        }
        Ok(Stream { socket, tls: tls.map(Box::new), connected: false })
    }

    /// One that was accepted.
    pub(crate) fn accepted(socket: Socket, tls: Option<&Tls>) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        // Those of this machine have none of it.
        _ = socket.set_tcp_nodelay(true);
        let tls = tls.map(Tls::accept).transpose().map_err(io::Error::other)?;
        Ok(Stream { socket, tls: tls.map(Box::new), connected: true })
    }

    /// Whether the connection is made by now.
    pub(crate) fn is_connected(&mut self) -> io::Result<bool> {
        if !self.connected {
            if let Some(e) = self.socket.take_error()? {
                return Err(e);
            }
            self.connected = self.socket.peer_addr().is_ok();
        }
        Ok(self.connected)
    }

    /// Reads what is there. `Ok(0)`: the other side has ended; what is not there yet is `WouldBlock`.
    pub(crate) fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return (&self.socket).read(to) };
        loop {
            match tls.reader().read(to) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                // Whoever ends without saying so has ended too: messages have lengths.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            if tls.read_tls(&mut &self.socket)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Writes as much as can be written now; says how much of it was taken.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return match (&self.socket).write(bytes) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(0),
                done => done,
            };
        };
        let taken = tls.writer().write(bytes)?;
        while tls.wants_write() {
            match tls.write_tls(&mut &self.socket) {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(taken)
    }

    /// Whether something waits to be written.
    pub(crate) fn is_waiting(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// For who waits until it is readable.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

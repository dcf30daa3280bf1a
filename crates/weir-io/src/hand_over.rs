//! Ports that go over from one process to another on the same machine, with all packets that wait in them: the kernel's side stays as it is, and the
//! other process gets the descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_net::EtherAddr;
use weir_packet::Packet;

use crate::af_packet::{AfPacketPort, sys::check};
use crate::interface;
use crate::tap::TapPort;
use crate::tunnel::TunnelPort;
use crate::{Lost, Port, PortError, PortSpec, PortStats};

/// The process that a port comes from.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// The process of that number.
    ///
    /// # Errors
    /// There is none.
    pub fn of(pid: u32) -> io::Result<PidFd> {
        // SAFETY: the call takes two numbers and gives a new descriptor or an error.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        owned(fd).map(PidFd)
    }

    /// A descriptor of the process as one of this process.
    ///
    /// # Errors
    /// It has none of that number, or this process may not look into it (ptrace(2), "Ptrace access mode checking").
    pub fn descriptor(&self, fd: RawFd) -> io::Result<OwnedFd> {
        // SAFETY: the call takes three numbers and gives a new descriptor or an error.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), fd, 0) };
        owned(fd)
    }

    /// Ends the process, and returns when it has ended.
    ///
    /// # Errors
    /// This process may not do that.
    pub fn kill(&self) -> io::Result<()> {
        // SAFETY: the descriptor is one of a process, and no information goes with the signal.
        let done = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                libc::SIGKILL,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        match check(done as isize) {
            Err(e) if e.raw_os_error() != Some(libc::ESRCH) => return Err(e),
            _ => {}
        }
        poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE)?;
        Ok(())
    }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has made this descriptor just now, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What another process needs to go on with a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handed {
    /// Its descriptors, in an order that the port knows.
    pub fds: Vec<RawFd>,
    /// Of a port with a receive ring: how many frames that has, how large they are, and which comes next.
    pub ring: Option<[usize; 3]>,
    /// Whether it receives a part of what arrives.
    pub shared: bool,
    /// What [`Port::method`] says.
    pub method: String,
}

impl PortSpec {
    /// Goes on with a port of this kind of another process, which must not use it any more.
    ///
    /// # Errors
    /// The descriptors cannot be had, or ports of this kind do not go over.
    pub fn go_on(&self, giver: &PidFd, handed: &Handed) -> Result<Box<dyn Port>, PortError> {
        let fail = |source| PortError::Os { name: self.name(), action: "take it over", source };
        let fds = handed.fds.iter().map(|fd| giver.descriptor(*fd)).collect::<Result<Vec<_>, _>>();
        let fds = fds.map_err(fail)?;
        Ok(match self {
            PortSpec::Interface { name, .. } => {
                Box::new(AfPacketPort::go_on(name, fds, handed).map_err(fail)?)
            }
            PortSpec::Tap { name, options } => {
                Box::new(TapPort::go_on(name, options.kind, fds).map_err(fail)?)
            }
            PortSpec::Tunnel(options) => Box::new(TunnelPort::go_on(options, fds, handed).map_err(fail)?),
            PortSpec::Memif(_) | PortSpec::Vhost(_) | PortSpec::Socket(_) | PortSpec::WireGuard(_) => {
                return Err(fail(io::Error::from(io::ErrorKind::Unsupported)));
            }
        })
    }

    /// A port that stands in the place of this one until that comes from another process.
    pub fn awaited(&self) -> Box<dyn Port> {
        let name = self.name();
        let shared = matches!(self, PortSpec::Interface { options, .. } if options.share.is_some());
        let (mac, mtu) = (interface::mac(&name), interface::mtu(&name));
        Box::new(AwaitedPort { name, shared, mac, mtu, stats: PortStats::default() })
    }
}

/// A port that another process has still: nothing comes in by it, and what goes out waits.
#[derive(Debug)]
struct AwaitedPort {
    name: String,
    shared: bool,
    mac: Option<EtherAddr>,
    mtu: Option<u32>,
    stats: PortStats,
}

impl Port for AwaitedPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, _: &mut Vec<Packet>, _: usize) -> Result<usize, PortError> {
        Ok(0)
    }

    fn send(&mut self, _: &mut Vec<Packet>) -> Result<usize, PortError> {
        Ok(0)
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn lost(&self) -> Lost {
        self.stats.lost()
    }

    fn mac(&self) -> Option<EtherAddr> {
        self.mac
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn is_awaited(&self) -> bool {
        true
    }

    fn mtu(&self) -> Option<u32> {
        self.mtu
    }
}

/// The one descriptor of a port that has one.
pub(crate) fn only(fds: Vec<OwnedFd>) -> io::Result<OwnedFd> {
    let [fd] = <[OwnedFd; 1]>::try_from(fds).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(fd)
}

/// The number of a descriptor.
pub(crate) fn number(fd: BorrowedFd<'_>) -> RawFd {
    fd.as_raw_fd()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::tap;

    #[test]
    fn a_descriptor_of_a_process_is_had_by_its_number() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let own = PidFd::of(std::process::id()).unwrap();
        let same = own.descriptor(there.as_raw_fd()).unwrap();
        drop(there);
        UnixStream::from(same).write_all(b"x").unwrap();
        let mut byte = [0];
        here.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
        own.descriptor(9999).unwrap_err();
        PidFd::of(u32::MAX >> 1).unwrap_err();
    }

    #[test]
    fn a_process_is_killed_and_its_end_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        PidFd::of(child.id()).unwrap().kill().unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn only_packet_sockets_and_virtual_interfaces_go_over() {
        let own = PidFd::of(std::process::id()).unwrap();
        let spec = PortSpec::device("memif:/nowhere", interface::Options::default()).unwrap();
        spec.go_on(&own, &Handed::default()).map(drop).unwrap_err();
        let tap = PortSpec::Tap { name: "x".into(), options: tap::Options::default() };
        tap.go_on(&own, &Handed::default()).map(drop).unwrap_err();
        let awaited = tap.awaited();
        assert!(awaited.is_awaited() && awaited.name() == "x");
    }
}

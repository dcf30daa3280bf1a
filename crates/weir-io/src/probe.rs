//! A socket for [probes](weir_net::probe) on many interfaces: one socket, so that there is one bounded queue of what comes, and nothing comes from interfaces
//! that were not named.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use weir_net::probe::{ETHERTYPE, GROUP};

use crate::af_packet::sys::{attach_filter, bind, check, set_option, socket};

/// Most interfaces: a filter's jumps reach no farther.
pub const MAX_INTERFACES: usize = 200;
/// Bytes that may wait; a short frame takes some 700 of them.
const QUEUE: libc::c_int = 256 << 10;

/// A socket for probes in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct ProbeSocket {
    fd: OwnedFd,
    /// The interfaces that it listens on: their indices, with their names.
    listens: BTreeMap<u32, String>,
}

/// A program that takes what comes in by one of these interfaces.
fn filter(interfaces: impl ExactSizeIterator<Item = u32>) -> Vec<libc::sock_filter> {
    let instruction = |code: u32, jt: usize, k: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt: u8::try_from(jt).unwrap_or_default(),
        jf: 0,
        k,
    };
    let index = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX).cast_unsigned();
    let mut program = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, index)];
    let last = interfaces.len();
    for (n, interface) in interfaces.enumerate() {
        program.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, last - n, interface));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0));
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, u32::MAX));
    program
}

/// The address of probes on an interface.
fn address(index: u32) -> libc::sockaddr_ll {
    // SAFETY: all fields are integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ETHERTYPE.to_be();
    address.sll_ifindex = index.cast_signed();
    address.sll_halen = 6;
    address.sll_addr[..6].copy_from_slice(&GROUP);
    address
}

impl ProbeSocket {
    /// A socket that listens on no interface yet.
    ///
    /// # Errors
    /// The process may not have one (`CAP_NET_RAW`).
    pub fn open() -> io::Result<ProbeSocket> {
        let fd = socket()?;
        // Before it is bound, so that nothing comes from elsewhere.
        attach_filter(&fd, &filter(std::iter::empty::<u32>()))?;
        set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, QUEUE)?;
        bind(&fd, 0, ETHERTYPE)?;
        Ok(ProbeSocket { fd, listens: BTreeMap::new() })
    }

    /// Listens on these interfaces, the first [`MAX_INTERFACES`] that are there, and on no others.
    ///
    /// # Errors
    /// The kernel does not take the filter.
    pub fn listen<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> io::Result<()> {
        let index = |name: &str| Some((nix::net::if_::if_nametoindex(name).ok()?, name.to_owned()));
        let listens: BTreeMap<u32, String> = names.filter_map(index).take(MAX_INTERFACES).collect();
        if listens == self.listens {
            return Ok(());
        }
        for new in listens.keys().filter(|i| !self.listens.contains_key(i)) {
            // What an interface does not take does no harm: it is only not heard there.
            _ = self.member(*new, libc::PACKET_ADD_MEMBERSHIP);
        }
        for old in self.listens.keys().filter(|i| !listens.contains_key(i)) {
            _ = self.member(*old, libc::PACKET_DROP_MEMBERSHIP);
        }
        attach_filter(&self.fd, &filter(listens.keys().copied()))?;
        self.listens = listens;
        Ok(())
    }

    fn member(&self, index: u32, option: libc::c_int) -> io::Result<()> {
        let mut request = libc::packet_mreq {
            mr_ifindex: index.cast_signed(),
            mr_type: libc::PACKET_MR_MULTICAST as u16,
            mr_alen: 6,
            mr_address: [0; 8],
        };
        request.mr_address[..6].copy_from_slice(&GROUP);
        set_option(&self.fd, libc::SOL_PACKET, option, request)
    }

    /// Sends a frame by an interface that it listens on.
    ///
    /// # Errors
    /// The interface does not take it, or is none of those.
    pub fn send(&self, interface: &str, frame: &[u8]) -> io::Result<()> {
        let index = self.listens.iter().find(|(_, name)| *name == interface).map(|(index, _)| *index);
        let to = address(index.ok_or(io::ErrorKind::NotFound)?);
        let len = size_of_val(&to) as libc::socklen_t;
        // SAFETY: the frame and the address are live for the call, which reads no more than the lengths that it gets.
        let sent = unsafe {
            let (bytes, to) = (frame.as_ptr().cast(), (&raw const to).cast());
            libc::sendto(self.fd.as_raw_fd(), bytes, frame.len(), libc::MSG_DONTWAIT, to, len)
        };
        check(sent).map(drop)
    }

    /// The next frame that came, cut if it is longer, and by which interface; none if there is none.
    ///
    /// # Errors
    /// The socket does not work, for instance since an interface went away; once only.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<Option<(usize, &str)>> {
        // SAFETY: all fields are integers.
        let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&from) as libc::socklen_t;
        // SAFETY: the kernel writes no more than the lengths of the buffer and of the address, which are borrowed for the call.
        let got = unsafe {
            let (bytes, from) = (frame.as_mut_ptr().cast(), (&raw mut from).cast());
            libc::recvfrom(self.fd.as_raw_fd(), bytes, frame.len(), libc::MSG_DONTWAIT, from, &raw mut len)
        };
        match check(got) {
            Ok(length) => {
                let name = self.listens.get(&from.sll_ifindex.cast_unsigned());
                // Of an interface that was left just now.
                Ok(Some((length, name.map_or("", String::as_str))))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_net::EtherAddr;
    use weir_net::probe::Probe;
    use weir_testkit::Namespace;

    use super::*;
    use crate::Netns;

    #[test]
    fn probes_come_by_the_interfaces_that_were_named_and_no_others() {
        let (a, b) = (Namespace::new("a"), Namespace::new("b"));
        for name in ["x", "y"] {
            weir_testkit::link((&a, name), (&b, name));
        }
        let within = |n: &Namespace| Netns::Named(n.name().to_owned());
        let open = |n: &Namespace| within(n).run(ProbeSocket::open).unwrap().unwrap();
        let (mut at_a, mut at_b) = (open(&a), open(&b));
        let listen = |n: &Namespace, s: &mut ProbeSocket, names: &[&str]| {
            within(n).run(|| s.listen(names.iter().copied())).unwrap().unwrap();
        };
        listen(&a, &mut at_a, &["x", "y", "gone"]);
        listen(&b, &mut at_b, &["x"]);
        let send = |interface: &str| {
            let probe = Probe { domain: [0; 8], node: "a".into(), interface: interface.into(), seconds: 3 };
            at_a.send(interface, &probe.frame(EtherAddr([2, 0, 0, 0, 0, 1])).unwrap())
        };
        let mut frame = [0; 1600];
        let mut receive = |s: &ProbeSocket| {
            let (length, at) = s.receive(&mut frame).unwrap()?;
            let at = at.to_owned();
            Some((at, Probe::read(&frame[..length]).unwrap().1.interface))
        };
        send("x").unwrap();
        send("y").unwrap();
        assert!(send("gone").is_err());
        assert_eq!(receive(&at_b), Some(("x".into(), "x".into())));
        assert_eq!(receive(&at_b), None);
        assert_eq!(receive(&at_a), None, "nobody hears itself");
        listen(&b, &mut at_b, &["y"]);
        send("x").unwrap();
        send("y").unwrap();
        assert_eq!(receive(&at_b), Some(("y".into(), "y".into())));
        assert_eq!(receive(&at_b), None);
    }
}

//! The system calls of packet sockets.

use std::io;
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::vnet;

/// A non-blocking raw packet socket that is not bound and receives nothing yet.
pub fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, valid and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket for asking about interfaces of the network namespace of this thread, and for nothing else: when a packet socket is closed, the kernel
/// waits some 50 ms for whoever may still use it.
pub fn asking() -> io::Result<OwnedFd> {
    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).map(OwnedFd::from)
}

/// Sets a socket option to a plain value.
pub fn set_option<T: Copy>(fd: &OwnedFd, level: i32, option: i32, value: T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the address and length are those of `value`, which the kernel only reads.
    let r = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    check(r as isize).map(drop)
}

/// Reads a socket option. `T` must be plain integers, for which all-zero bytes are a value.
pub fn get_option<T: Copy + Default>(fd: &impl AsRawFd, level: i32, option: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`, whose integers take any bytes.
    let r = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len) };
    check(r as isize).map(|_| value)
}

/// The pending error of a socket, which it forgets by this call; 0 if there is none.
pub fn take_error(fd: &OwnedFd) -> io::Result<i32> {
    get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR)
}

/// Packets that the kernel dropped because the ring was full, since the last call.
pub fn take_drops(fd: &OwnedFd) -> io::Result<u32> {
    // tp_packets and tp_drops of `struct tpacket_stats`.
    let stats: [u32; 2] = get_option(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    Ok(stats[1])
}

/// Every protocol, for [`bind`].
pub const ALL_PROTOCOLS: u16 = libc::ETH_P_ALL as u16;

/// An EtherType that nobody uses (IEEE 802, local experimental), for [`bind`]: the socket learns what becomes of its
/// interface, and receives nothing.
pub const NO_PROTOCOL: u16 = 0x88b6;

/// Binds to an interface for a protocol: reception starts.
pub fn bind(fd: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all fields are integers.
    let mut addr: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    addr.sll_family = libc::AF_PACKET as u16;
    addr.sll_protocol = protocol.to_be();
    addr.sll_ifindex = index as i32;
    let len = size_of_val(&addr) as libc::socklen_t;
    // SAFETY: the address and length are those of `addr`.
    let r = unsafe { libc::bind(fd.as_raw_fd(), (&raw const addr).cast(), len) };
    check(r as isize).map(drop)
}

/// The index of the interface to which a socket is bound; -1 once that interface is removed.
pub fn bound_index(fd: &OwnedFd) -> io::Result<i32> {
    // SAFETY: all fields are integers.
    let mut addr: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&addr) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `addr`.
    let r = unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut addr).cast(), &raw mut len) };
    check(r as isize).map(|_| addr.sll_ifindex)
}

/// The answer to an interface request.
pub struct Interface {
    /// Link type.
    pub arphrd: u16,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// MTU in bytes.
    pub mtu: u32,
}

/// Asks for link type, address and MTU of the interface with this name, in the network namespace of the socket.
pub fn interface(fd: &OwnedFd, name: &str) -> io::Result<Interface> {
    let mut request = request(name);
    // SAFETY: SIOCGIFHWADDR reads the name and writes `ifru_hwaddr`, all inside `request`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) } as isize)?;
    // SAFETY: the call just wrote this field of the union.
    let hardware = unsafe { request.ifr_ifru.ifru_hwaddr };
    // SAFETY: as above, with `ifru_mtu`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) } as isize)?;
    // SAFETY: the call just wrote this field of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    let mut mac = [0; 6];
    for (to, from) in mac.iter_mut().zip(hardware.sa_data) {
        *to = from as u8;
    }
    Ok(Interface { arphrd: hardware.sa_family, mac, mtu: u32::try_from(mtu).unwrap_or(0) })
}

/// An interface request with a name, which is cut if it is longer than names can be.
pub fn request(name: &str) -> libc::ifreq {
    // SAFETY: all fields are integers or unions of integers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let space = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..space].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Asks the driver of an interface (`SIOCETHTOOL`). `T` is the structure of the command, with the command in it, and
/// consists of integers.
pub fn ethtool<T: Copy>(fd: &OwnedFd, name: &str, mut command: T) -> io::Result<T> {
    let mut request = request(name);
    request.ifr_ifru.ifru_data = (&raw mut command).cast();
    // SAFETY: the request names `command`, which lives until the call returns and is as large as its command says.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } as isize)?;
    Ok(command)
}

/// Makes the interface accept frames for other hosts for as long as the socket is open.
pub fn set_promiscuous(fd: &OwnedFd, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, request)
}

/// Receives one queued frame, without its virtio-net header, into `front` and then `frame`; returns its whole length, which is
/// more than both have if it was cut.
pub fn receive_queued(fd: &OwnedFd, front: &mut [u8], frame: &mut [u8]) -> io::Result<usize> {
    let mut header = [0u8; vnet::LEN];
    let mut parts = [
        libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() },
        libc::iovec { iov_base: front.as_mut_ptr().cast(), iov_len: front.len() },
        libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() },
    ];
    // SAFETY: all fields are integers or pointers, for which null is valid here (no name, no control data).
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    // SAFETY: the message points to three live and exclusively borrowed buffers with their lengths.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
    check(n).map(|n| n.saturating_sub(vnet::LEN))
}

/// Most frames that [`send_frames`] passes to the kernel at once.
pub const SEND_MAX: usize = 32;

/// Sends frames, each with its virtio-net header, and returns how many the kernel took. An error concerns the first.
pub fn send_frames<'a>(
    fd: &OwnedFd,
    frames: impl Iterator<Item = (&'a [u8; vnet::LEN], &'a [u8])>,
) -> io::Result<usize> {
    let mut parts = [const { MaybeUninit::<[libc::iovec; 2]>::uninit() }; SEND_MAX];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; SEND_MAX];
    let mut n = 0;
    for ((part, message), (header, frame)) in parts.iter_mut().zip(&mut messages).zip(frames) {
        let part = part.write([
            libc::iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: header.len() },
            libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() },
        ]);
        // SAFETY: all fields are integers or pointers, for which null is valid here (no name, no control data).
        let mut m: libc::mmsghdr = unsafe { std::mem::zeroed() };
        m.msg_hdr.msg_iov = part.as_mut_ptr();
        m.msg_hdr.msg_iovlen = part.len();
        message.write(m);
        n += 1;
    }
    let (fd, list) = (fd.as_raw_fd(), messages.as_mut_ptr().cast());
    // SAFETY: the first `n` messages are initialised, and point to buffers borrowed for `'a` that are only read.
    let sent = unsafe { libc::sendmmsg(fd, list, n as u32, libc::MSG_DONTWAIT) };
    check(sent as isize)
}

/// Sends IPv4 packets with their headers, each to its address, by a raw socket, and returns how many the kernel took. An error
/// concerns the first.
pub fn send_to<'a>(fd: &OwnedFd, packets: impl Iterator<Item = (&'a [u8], Ipv4Addr)>) -> io::Result<usize> {
    let mut parts = [const { MaybeUninit::<(libc::iovec, libc::sockaddr_in)>::uninit() }; SEND_MAX];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; SEND_MAX];
    let mut n = 0;
    for ((part, message), (packet, to)) in parts.iter_mut().zip(&mut messages).zip(packets) {
        let (bytes, address) = part.write((
            libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() },
            libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: 0,
                sin_addr: libc::in_addr { s_addr: to.to_bits().to_be() },
                sin_zero: [0; 8],
            },
        ));
        // SAFETY: all fields are integers or pointers, for which null is valid here (no control data).
        let mut m: libc::mmsghdr = unsafe { std::mem::zeroed() };
        m.msg_hdr.msg_name = (&raw mut *address).cast();
        m.msg_hdr.msg_namelen = size_of_val(address) as libc::socklen_t;
        m.msg_hdr.msg_iov = bytes;
        m.msg_hdr.msg_iovlen = 1;
        message.write(m);
        n += 1;
    }
    let (fd, list) = (fd.as_raw_fd(), messages.as_mut_ptr().cast());
    // SAFETY: the first `n` messages are initialised, and point to addresses in `parts` and to buffers borrowed for `'a`, which are
    // only read.
    let sent = unsafe { libc::sendmmsg(fd, list, n as u32, libc::MSG_DONTWAIT) };
    check(sent as isize)
}

/// Lets a socket receive only what a program in classic BPF says.
pub fn attach_filter(fd: &impl AsRawFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let size = size_of_val(&program) as libc::socklen_t;
    // SAFETY: the option's value is `program`, whose instructions, as many as it says, are only read during the call.
    let r = unsafe {
        let value = (&raw const program).cast();
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, size)
    };
    check(r as isize).map(drop)
}

/// The value of a system call, or its error.
pub fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

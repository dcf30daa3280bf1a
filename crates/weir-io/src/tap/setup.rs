//! Making a virtual interface and giving it addresses (netdevice(7), tun/tap).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Kind, Options};
use crate::af_packet::sys;

// linux/if_tun.h
const TUN_F_CSUM: u64 = 0x01;
const TUN_F_TSO4: u64 = 0x02;
const TUN_F_TSO6: u64 = 0x04;
const TUN_F_TSO_ECN: u64 = 0x08;
const TUN_F_USO4: u64 = 0x20;
const TUN_F_USO6: u64 = 0x40;

/// A step that failed, and why.
type Failed = (&'static str, io::Error);

/// Makes an interface or opens one more queue of it; gives its name.
pub fn attach(name: &str, kind: Kind) -> io::Result<(OwnedFd, String)> {
    // Without a queue per port, a second port on the interface would be refused.
    let (fd, name) = match attach_as(name, kind, libc::IFF_MULTI_QUEUE) {
        // An interface that someone made to have one queue.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => attach_as(name, kind, 0)?,
        done => done?,
    };
    let all = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    // Segmentation of UDP is known from Linux 6.2 on.
    if offload(&fd, all | TUN_F_USO4 | TUN_F_USO6).is_err() {
        offload(&fd, all)?;
    }
    Ok((fd, name))
}

/// The only queue of an Ethernet interface, which is made if it is not there.
pub fn attach_alone(name: &str) -> io::Result<OwnedFd> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    attach_as(name, Kind::Tap, 0).map(|(fd, _)| fd)
}

/// Keeps an interface when nobody has it open.
pub fn persist(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: the argument is a number.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETPERSIST, 1) } as isize).map(drop)
}

fn attach_as(name: &str, kind: Kind, more: i32) -> io::Result<(OwnedFd, String)> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path ends with zero.
    let fd = unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, valid and ours.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut request = sys::request(name);
    let kind = match kind {
        Kind::Tap => libc::IFF_TAP,
        Kind::Tun => libc::IFF_TUN,
    };
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR | more) as i16;
    // SAFETY: TUNSETIFF reads flags and name and writes the name, all inside `request`.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } as isize)?;
    let name: Vec<u8> = request.ifr_name.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    Ok((fd, String::from_utf8_lossy(&name).into_owned()))
}

/// Says which unfinished packets the port takes.
fn offload(fd: &OwnedFd, what: u64) -> io::Result<()> {
    // SAFETY: the argument is a number.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, what) } as isize).map(drop)
}

/// Gives the interface what the options say, and brings it up if it got an address.
pub fn configure(socket: &OwnedFd, name: &str, options: &Options) -> Result<(), Failed> {
    if let Some(ether) = options.ether {
        let mut request = sys::request(name);
        // SAFETY: all fields are integers.
        let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
        address.sa_family = libc::ARPHRD_ETHER;
        for (to, from) in address.sa_data.iter_mut().zip(ether.0) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_hwaddr = address;
        ioctl(socket, libc::SIOCSIFHWADDR, &mut request).map_err(|e| ("set its Ethernet address", e))?;
    }
    if let Some(mtu) = options.mtu {
        let mut request = sys::request(name);
        request.ifr_ifru.ifru_mtu = i32::try_from(mtu).unwrap_or(i32::MAX);
        ioctl(socket, libc::SIOCSIFMTU, &mut request).map_err(|e| ("set its MTU", e))?;
    }
    if options.address.is_none() && options.address6.is_none() {
        return Ok(());
    }
    if let Some((address, prefix)) = options.address {
        let inet = inet_socket(libc::AF_INET).map_err(|e| ("open a socket", e))?;
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
        for (command, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, Ipv4Addr::from(mask))] {
            let mut request = sys::request(name);
            request.ifr_ifru.ifru_addr = sockaddr(value);
            ioctl(&inet, command, &mut request).map_err(|e| ("set its IP address", e))?;
        }
    }
    if let Some((address, prefix)) = options.address6 {
        add_address6(name, address, prefix).map_err(|e| ("set its IPv6 address", e))?;
    }
    up(socket, name).map_err(|e| ("bring it up", e))?;
    if let Some(gateway) = options.gateway {
        add_default_route(gateway).map_err(|e| ("set the default route", e))?;
    }
    Ok(())
}

fn up(socket: &OwnedFd, name: &str) -> io::Result<()> {
    let mut request = sys::request(name);
    ioctl(socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the call just wrote this field of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    ioctl(socket, libc::SIOCSIFFLAGS, &mut request)
}

fn add_address6(name: &str, address: std::net::Ipv6Addr, prefix: u8) -> io::Result<()> {
    let index = nix::net::if_::if_nametoindex(name)?;
    let mut request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
        ifr6_prefixlen: u32::from(prefix),
        ifr6_ifindex: index as i32,
    };
    let socket = inet_socket(libc::AF_INET6)?;
    match ioctl(&socket, libc::SIOCSIFADDR, &mut request) {
        Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        done => done,
    }
}

fn add_default_route(gateway: Ipv4Addr) -> io::Result<()> {
    // SAFETY: all fields are integers or pointers, for which null is valid here (no device is named).
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = sockaddr(Ipv4Addr::UNSPECIFIED);
    route.rt_genmask = sockaddr(Ipv4Addr::UNSPECIFIED);
    route.rt_gateway = sockaddr(gateway);
    route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
    match ioctl(&inet_socket(libc::AF_INET)?, libc::SIOCADDRT, &mut route) {
        Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        done => done,
    }
}

fn sockaddr(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: all fields are integers.
    let mut to: libc::sockaddr = unsafe { std::mem::zeroed() };
    to.sa_family = libc::AF_INET as u16;
    // struct sockaddr_in: the address stands behind the port.
    for (to, from) in to.sa_data[2..6].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    to
}

fn inet_socket(family: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    sys::check(fd as isize)?;
    // SAFETY: the descriptor is new, valid and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn ioctl<T>(socket: &OwnedFd, command: libc::c_ulong, request: &mut T) -> io::Result<()> {
    // SAFETY: `request` is the structure of the command (every caller's pair is one of netdevice(7)).
    sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), command, request as *mut T) } as isize).map(drop)
}

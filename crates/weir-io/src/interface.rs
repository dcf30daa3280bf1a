//! Ports on network interfaces by the method that suits the interface.

use std::fmt;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::time::Duration;

use weir_net::EtherAddr;

use crate::af_packet::{self, AfPacketPort, Fanout, not_found, sys};
use crate::af_xdp::{self, AfXdpPort};
use crate::with_causes;
use crate::{Netns, Port, PortError};

/// The method by which packets pass between an interface and its port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Method {
    /// Whichever suits the interface; [`Port::method`] says which and why.
    #[default]
    Auto,
    /// Packet sockets with offloads: [`af_packet`].
    Packet,
    /// AF_XDP sockets: [`af_xdp`].
    Xdp,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Auto => "auto",
            Method::Packet => "packet",
            Method::Xdp => "xdp",
        })
    }
}

/// No method has that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no method `{0}`; give auto, packet or xdp")]
pub struct UnknownMethod(String);

impl FromStr for Method {
    type Err = UnknownMethod;

    /// The method of a name, in any case: `auto`, `packet` or `xdp`.
    fn from_str(name: &str) -> Result<Method, UnknownMethod> {
        match name.to_ascii_lowercase().as_str() {
            "auto" => Ok(Method::Auto),
            "packet" => Ok(Method::Packet),
            "xdp" => Ok(Method::Xdp),
            _ => Err(UnknownMethod(name.to_owned())),
        }
    }
}

/// One of several ports, each of a worker of its own, that share the packets of an interface: each packet goes to one of
/// them. Packets of a flow go to the same port, as far as the interface sees to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Number of the group of packet sockets. In a network namespace, a group has one interface.
    pub group: u16,
    /// Number of this port, from 0.
    pub member: u32,
    /// How many ports there are.
    pub of: u32,
}

/// Options of a port on an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The method.
    pub method: Method,
    /// Receive frames for other hosts too.
    pub promiscuous: bool,
    /// Whether the port may take packets away from the kernel's stack even if that has an address on the interface.
    pub exclusive: bool,
    /// Receive and send by one queue of the interface, where the method has queues; `None`: by all.
    pub queue: Option<u32>,
    /// Share the packets with other ports. AF_XDP deals the queues to them; where these are fewer than ports, the first
    /// port receives everything and the others only send. Packet sockets share by flow (`PACKET_FANOUT`).
    pub share: Option<Share>,
    /// As [`af_xdp::Options::busy_poll`].
    pub busy_poll: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            method: Method::Auto,
            promiscuous: true,
            exclusive: false,
            queue: None,
            share: None,
            busy_poll: None,
        }
    }
}

/// Opens a port on an interface of the network namespace of this thread.
///
/// # Errors
/// As the port of the method. With [`Method::Auto`], packet sockets are used where AF_XDP cannot be, unless only because
/// this process has the interface open by AF_XDP already.
pub fn open(name: &str, options: &Options) -> Result<Box<dyn Port>, PortError> {
    let follows = options.share.is_some_and(|s| s.member > 0);
    match options.method {
        Method::Packet => packet(name, options, "as asked for"),
        Method::Xdp => Ok(xdp(name, options, "as asked for")?.0),
        // The ports that share an interface have one method, which the first chooses.
        Method::Auto if follows && af_xdp::is_on(name) => Ok(xdp(name, options, "as the first worker")?.0),
        Method::Auto if follows => packet(name, options, "as the first worker"),
        Method::Auto => match choose(&Facts::of(name), options.exclusive) {
            (Method::Xdp, why) => match xdp(name, options, why) {
                Ok((port, true)) => Ok(port),
                Ok((port, false)) => {
                    drop(port);
                    packet(name, options, "the driver cannot run XDP programs itself")
                }
                // By this process itself, such as by the port that this one is to replace.
                Err(e @ PortError::Busy { .. }) if af_xdp::is_on(name) => Err(e),
                Err(e) => packet(name, options, &format!("AF_XDP does not work here ({})", with_causes(&e))),
            },
            (_, why) => packet(name, options, why),
        },
    }
}

fn packet(name: &str, options: &Options, why: &str) -> Result<Box<dyn Port>, PortError> {
    let mut port = AfPacketPort::open(
        name,
        &af_packet::Options {
            promiscuous: options.promiscuous,
            fanout: options.share.map(|s| Fanout { group: s.group }),
            ..af_packet::Options::default()
        },
    )?;
    port.because(why);
    Ok(Box::new(port))
}

/// A port by AF_XDP, and whether the driver runs the program; without a queue, one that only sends.
fn xdp(name: &str, options: &Options, why: &str) -> Result<(Box<dyn Port>, bool), PortError> {
    let Options { promiscuous, queue, share, busy_poll, .. } = *options;
    let asked = af_xdp::Options { promiscuous, queue, share, busy_poll, ..af_xdp::Options::default() };
    match AfXdpPort::open(name, &asked) {
        Ok(mut port) => {
            port.because(why);
            let native = port.is_native();
            Ok((Box::new(port), native))
        }
        Err(PortError::NoQueue { .. }) => {
            let only_send =
                af_packet::Options { promiscuous, receive: false, ring_frames: 1, ..Default::default() };
            let mut port = AfPacketPort::open(name, &only_send)?;
            port.because("only to send, since there are fewer queues than workers");
            Ok((Box::new(port), true))
        }
        Err(e) => Err(e),
    }
}

/// Opens a port on an interface of another network namespace.
///
/// # Errors
/// As [`open`].
pub fn open_in(netns: &Netns, name: &str, options: &Options) -> Result<Box<dyn Port>, PortError> {
    netns.run(|| open(name, options))?
}

/// Whether there is an interface of this name in the network namespace of this thread.
///
/// # Errors
/// There is none, with those of similar names.
pub fn find(name: &str) -> Result<(), PortError> {
    mtu(name).map(drop).ok_or_else(|| not_found(name))
}

/// The MTU in bytes of an interface of the network namespace of this thread, if there is such a one.
pub fn mtu(name: &str) -> Option<u32> {
    let socket = sys::asking().ok()?;
    sys::interface(&socket, name).ok().map(|i| i.mtu)
}

/// The Ethernet address of an interface of the network namespace of this thread, if there is such a one.
pub fn mac(name: &str) -> Option<EtherAddr> {
    let socket = sys::asking().ok()?;
    sys::interface(&socket, name).ok().map(|i| EtherAddr(i.mac))
}

/// The facts that the choice of a method depends on.
#[derive(Debug, Default)]
struct Facts {
    /// Name of the driver.
    driver: String,
    /// Whether senders may leave TCP segmentation to the interface.
    segments: bool,
    /// Whether the kernel's stack has an address on it.
    addressed: bool,
}

impl Facts {
    /// As far as the kernel gives them.
    fn of(name: &str) -> Facts {
        let Ok(socket) = sys::asking() else { return Facts::default() };
        Facts { driver: driver(&socket, name), segments: segments(&socket, name), addressed: addressed(name) }
    }
}

/// Drivers of links inside a machine: whoever sends into the other end leaves segmentation and checksums undone.
const LOCAL: [&str; 4] = ["veth", "tun", "bridge", "virtio_net"];

fn choose(facts: &Facts, exclusive: bool) -> (Method, &'static str) {
    let local = LOCAL.contains(&facts.driver.as_str());
    if facts.addressed && !exclusive {
        (Method::Packet, "the kernel has an address on it, and sees its packets too")
    } else if local && facts.segments {
        (Method::Packet, "packets of local senders pass unsegmented, up to 64 KB each")
    } else if facts.driver == "tun" {
        (Method::Packet, "the program at its other end may begin to leave packets unsegmented")
    } else if local {
        (Method::Xdp, "its senders segment their packets themselves")
    } else {
        (Method::Xdp, "its packets come from a wire, and nobody else takes them")
    }
}

/// `ETHTOOL_GDRVINFO`: `struct ethtool_drvinfo`, whose second field is the driver's name.
fn driver(socket: &OwnedFd, name: &str) -> String {
    const ETHTOOL_GDRVINFO: u32 = 3;
    let mut info = [0u8; 196];
    info[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
    let Ok(info) = sys::ethtool(socket, name, info) else { return String::new() };
    let driver = &info[4..36];
    let end = driver.iter().position(|&b| b == 0).unwrap_or(driver.len());
    String::from_utf8_lossy(&driver[..end]).into_owned()
}

/// `ETHTOOL_GTSO`: `struct ethtool_value`.
fn segments(socket: &OwnedFd, name: &str) -> bool {
    const ETHTOOL_GTSO: u32 = 0x1e;
    sys::ethtool(socket, name, [ETHTOOL_GTSO, 0]).is_ok_and(|value| value[1] != 0)
}

/// Whether an interface has an address that was given to it: link-local ones of IPv6 come by themselves.
fn addressed(name: &str) -> bool {
    let Ok(addresses) = nix::ifaddrs::getifaddrs() else { return false };
    addresses.filter(|a| a.interface_name == name).filter_map(|a| a.address).any(|a| {
        a.as_sockaddr_in().is_some() || a.as_sockaddr_in6().is_some_and(|a| !a.ip().is_unicast_link_local())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_follows_from_the_interface() {
        let choice = |driver: &str, segments, addressed, exclusive| {
            choose(&Facts { driver: driver.to_owned(), segments, addressed }, exclusive).0
        };
        assert_eq!(choice("veth", true, false, true), Method::Packet);
        assert_eq!(choice("veth", false, false, false), Method::Xdp);
        assert_eq!(choice("tun", false, false, false), Method::Packet);
        assert_eq!(choice("ixgbe", true, false, false), Method::Xdp);
        assert_eq!(choice("ixgbe", true, true, false), Method::Packet);
        assert_eq!(choice("ixgbe", true, true, true), Method::Xdp);
    }

    #[test]
    fn methods_have_names() {
        assert_eq!("XDP".parse(), Ok(Method::Xdp));
        for method in [Method::Auto, Method::Packet, Method::Xdp] {
            assert_eq!(method.to_string().parse(), Ok(method));
        }
        let error = "pcap".parse::<Method>().unwrap_err();
        assert_eq!(error.to_string(), "there is no method `pcap`; give auto, packet or xdp");
    }
}

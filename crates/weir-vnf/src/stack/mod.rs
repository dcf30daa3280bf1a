//! What is below connections: the kernel's stack, or one in user space.

pub(crate) mod link;
pub(crate) mod user;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use weir_io::interface::{self, Method};
use weir_io::memif::{self, MemifPort};
use weir_io::tap::{self, TapPort};
use weir_io::{Port, PortError};
use weir_net::EtherAddr;

pub use user::StackCounters;
use user::{Config, Share};

use crate::{Error, Protocol};

/// The variable of the environment that chooses the stack.
pub const STACK_VARIABLE: &str = "WEIR_VNF_STACK";

/// The stack that a function's connections are on. It is chosen when the function starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stack {
    /// The kernel's.
    #[default]
    Kernel,
    /// The library's own.
    User(UserStack),
}

/// A stack in user space: its frames pass by a device, of which the kernel's stack should have no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserStack {
    /// What the frames pass by.
    pub device: Device,
    /// Its addresses, with the lengths of their links' prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Where packets go that are for no address of those links: at most one of IPv4 and one of IPv6.
    pub gateways: Vec<IpAddr>,
    /// Its Ethernet address; `None`: that of the device or, where that has one of its own at the other end, one that is made of its first
    /// address.
    pub ether: Option<EtherAddr>,
    /// Bytes that a connection may have under way in each direction: 65,536. Each connection has twice this memory, as far as it uses it.
    pub buffer: usize,
}

/// What frames pass by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// A network interface, by AF_XDP or AF_PACKET.
    Interface(String, Method),
    /// A TAP interface that is made, and whose other end is the kernel's.
    Tap {
        /// Its name; if it is empty, the kernel chooses one.
        name: String,
        /// The address, with the length of its prefix, that the kernel gets; with it, the interface is brought up.
        kernel: Option<(Ipv4Addr, u8)>,
    },
    /// Memory that is shared with another process, such as a Weir graph.
    Memif(memif::Options),
}

/// What is wrong with the description of a stack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{STACK_VARIABLE}: {0}; write `kernel`, or for example `user,device=veth0,address=10.0.0.2/24,gateway=10.0.0.1`"
)]
pub struct StackError(String);

impl FromStr for Stack {
    type Err = StackError;

    /// Reads `kernel`, or `user` and pairs `name=value`, with commas between them: `device` (an interface, `xdp:` or `packet:` and an
    /// interface, `tap:` and a name, or `memif:` as Weir's devices have it), `address` (with its prefix; several are allowed), `gateway`,
    /// `ether`, `buffer` (bytes), and `kernel`: the kernel's address, with its prefix, at the other end of a TAP interface.
    fn from_str(text: &str) -> Result<Self, StackError> {
        let wrong = |what: String| Err(StackError(what));
        let mut parts = text.split(',').map(str::trim);
        match parts.next() {
            Some("kernel" | "") if parts.next().is_none() => return Ok(Self::Kernel),
            Some("user") => {}
            _ => return wrong(format!("`{text}` is no stack")),
        }
        let (mut device, mut addresses, mut gateways) = (None, Vec::new(), Vec::new());
        let (mut ether, mut buffer, mut kernels) = (None, 65_536, None);
        for part in parts {
            let Some((name, value)) = part.split_once('=') else {
                return wrong(format!("`{part}` has no value"));
            };
            let bad = || StackError(format!("`{value}` is no {name}"));
            match name {
                "device" => device = Some(Device::read(value).ok_or_else(bad)?),
                "address" => addresses.push(prefix(value).ok_or_else(bad)?),
                "kernel" => match prefix(value).ok_or_else(bad)? {
                    (IpAddr::V4(address), len) => kernels = Some((address, len)),
                    (IpAddr::V6(_), _) => return Err(bad()),
                },
                "gateway" => gateways.push(value.parse().map_err(|_| bad())?),
                "ether" => ether = Some(value.parse().map_err(|_| bad())?),
                "buffer" => {
                    let bytes = value.parse().ok().filter(|b| (2048..=16 << 20).contains(b));
                    buffer = bytes.ok_or_else(bad)?;
                }
                _ => return wrong(format!("there is no `{name}`")),
            }
        }
        match (&mut device, kernels) {
            (_, None) => {}
            (Some(Device::Tap { kernel, .. }), _) => *kernel = kernels,
            _ => return wrong("`kernel` is of TAP interfaces".to_owned()),
        }
        let Some(device) = device else { return wrong("`device` is missing".to_owned()) };
        if addresses.is_empty() {
            return wrong("`address` is missing".to_owned());
        }
        Ok(Self::User(UserStack { device, addresses, gateways, ether, buffer }))
    }
}

/// An address with the length of its prefix.
fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, len) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = len.parse().ok().filter(|&len| len <= most)?;
    user::may_be_own(address).then_some((address, len))
}

impl Device {
    fn read(text: &str) -> Option<Self> {
        if text.starts_with("memif:") {
            return text.parse().ok().map(Self::Memif);
        }
        match text.split_once(':') {
            Some(("tap", name)) => Some(Self::Tap { name: name.to_owned(), kernel: None }),
            Some((method, name)) if !name.is_empty() => {
                Some(Self::Interface(name.to_owned(), method.parse().ok()?))
            }
            None if !text.is_empty() => Some(Self::Interface(text.to_owned(), Method::Auto)),
            _ => None,
        }
    }
}

impl UserStack {
    /// Opens the port of a core; `None`: the first core's, which is given then, is all there is.
    fn port(
        &self,
        core: usize,
        of: usize,
        first: Option<&dyn Port>,
    ) -> Result<Option<Box<dyn Port>>, PortError> {
        Ok(match &self.device {
            Device::Interface(name, method) => {
                let is_xdp = |port: &dyn Port| port.method().starts_with("AF_XDP");
                let share = (of > 1).then_some(interface::Share {
                    // One group a process.
                    group: std::process::id() as u16,
                    member: core as u32,
                    of: of as u32,
                });
                let shared =
                    interface::Options { method: Method::Packet, share, ..interface::Options::default() };
                if let Some(first) = first {
                    // The first has all queues of AF_XDP.
                    return if is_xdp(first) { Ok(None) } else { interface::open(name, &shared).map(Some) };
                }
                let alone = interface::Options { method: *method, ..interface::Options::default() };
                let port = interface::open(name, &alone)?;
                if of == 1 || is_xdp(&*port) {
                    return Ok(Some(port));
                }
                drop(port);
                Some(interface::open(name, &shared)?)
            }
            _ if core > 0 => None,
            Device::Tap { name, kernel } => {
                let options = tap::Options { address: *kernel, ..tap::Options::default() };
                Some(Box::new(TapPort::open(name, &options)?))
            }
            Device::Memif(options) => Some(Box::new(MemifPort::open(options)?)),
        })
    }

    /// Whether a device leaves it to the kernel, or to whoever receives them there, to cut long segments.
    fn cuts(&self, port: &dyn Port) -> bool {
        matches!(self.device, Device::Tap { .. }) || port.method().starts_with("AF_PACKET")
    }

    /// The Ethernet address, where the device says that it has this one.
    fn ether(&self, device: Option<EtherAddr>) -> EtherAddr {
        let device = device.filter(|_| matches!(self.device, Device::Interface(..)));
        self.ether.or(device).unwrap_or_else(|| {
            let [a, b, c, d] = match self.addresses.first() {
                Some((IpAddr::V4(a), _)) => a.octets(),
                Some((IpAddr::V6(a), _)) => a.octets()[12..].try_into().unwrap_or_default(),
                None => [0; 4],
            };
            EtherAddr([2, 0x57, a, b, c, d])
        })
    }

    /// `cuts`: whether the device cuts long segments.
    fn config(&self, ether: EtherAddr, mtu: u16, cuts: bool, share: Share) -> Config {
        let mut addresses = self.addresses.clone();
        // Every interface of IPv6 has one of the link itself.
        if addresses.iter().any(|(a, _)| a.is_ipv6()) {
            addresses.push((user::link_local(ether).into(), 64));
        }
        Config { ether, addresses, gateways: self.gateways.clone(), mtu, cuts, buffer: self.buffer, share }
    }

    /// Checks that a server may be at an address beside others, and gives the address, with a port if it asked for any.
    pub(crate) fn check(
        &self,
        servers: &[(SocketAddr, Protocol)],
        address: SocketAddr,
        protocol: Protocol,
    ) -> Result<SocketAddr, Error> {
        let config = self.config(self.ether(None), 1500, false, Share { member: 0, of: 1 });
        let mut stack = user::Stack::new(config, 0);
        let mut listen = |n, address, protocol| {
            let listened = stack.listen(crate::ServerId(n), address, protocol);
            listened.map_err(|source| Error::Io { what: "listen", source })
        };
        for (n, (address, protocol)) in servers.iter().enumerate() {
            listen(n, *address, *protocol)?;
        }
        listen(servers.len(), address, protocol)
    }
}

/// The stack that the environment says.
pub(crate) fn of_environment() -> Result<Stack, StackError> {
    match std::env::var_os(STACK_VARIABLE) {
        None => Ok(Stack::Kernel),
        Some(text) => text.to_str().ok_or_else(|| StackError("it is no text".to_owned()))?.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_described_by_a_line() {
        let stack: Stack =
            "user,device=xdp:veth0,address=10.0.0.2/24,address=fd00::2/64,gateway=10.0.0.1".parse().unwrap();
        let Stack::User(user) = stack else { panic!("it is one in user space") };
        assert_eq!(user.device, Device::Interface("veth0".to_owned(), Method::Xdp));
        assert_eq!(user.addresses.len(), 2);
        assert_eq!(user.gateways, ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!("kernel".parse(), Ok(Stack::Kernel));
        for (text, says) in [
            ("dpdk", "`dpdk` is no stack"),
            ("user", "`device` is missing"),
            ("user,device=a", "`address` is missing"),
            ("user,device=a,address=10.0.0.2", "`10.0.0.2` is no address"),
            ("user,device=a,address=127.0.0.1/8", "`127.0.0.1/8` is no address"),
            ("user,device=a,address=10.0.0.2/33", "`10.0.0.2/33` is no address"),
            ("user,device=dpdk:a,address=10.0.0.2/24", "`dpdk:a` is no device"),
            ("user,device=a,address=10.0.0.2/24,mtu=9", "there is no `mtu`"),
        ] {
            let error = text.parse::<Stack>().unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("for example"), "{error}");
        }
    }
}

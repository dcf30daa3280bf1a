//! Ports as data: of which kind one is, and how it is opened.

use std::path::Path;

use crate::memif::{self, MemifPort};
use crate::shared::BadName;
use crate::socket::{self, SocketPort};
use crate::tap::{self, TapPort};
use crate::tunnel::{self, TunnelPort};
use crate::vhost::{self, VhostPort};
use crate::wireguard::{self, WireGuardPort};
use crate::{Netns, Port, PortError, interface};

/// A port that can be opened. A new kind of port is a file of its own, and a variant here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortSpec {
    /// On a network interface.
    Interface {
        /// Its name.
        name: String,
        /// How it is opened.
        options: interface::Options,
    },
    /// On a virtual interface that the port makes.
    Tap {
        /// Its name; if it is empty, the kernel chooses one.
        name: String,
        /// How it is made.
        options: tap::Options,
    },
    /// On memory that is shared with another process.
    Memif(memif::Options),
    /// To a virtual machine, or to a program with a network driver of its own.
    Vhost(vhost::Options),
    /// On a socket.
    Socket(socket::Options),
    /// On the outer packets of tunnels.
    Tunnel(tunnel::Options),
    /// Inside of WireGuard's packets.
    WireGuard(wireguard::Options),
}

impl PortSpec {
    /// The port that a device's name means: `memif:` and what follows it is one on shared memory ([`memif::Options`]),
    /// `vhost-user:` and what follows it one to a virtual machine ([`vhost::Options`]), all else an interface.
    ///
    /// # Errors
    /// If a name that begins so does not go on as it has to.
    pub fn device(name: &str, options: interface::Options) -> Result<PortSpec, BadName> {
        if name.starts_with(memif::PREFIX) {
            return name.parse().map(PortSpec::Memif);
        }
        if name.starts_with(vhost::PREFIX) {
            return name.parse().map(PortSpec::Vhost);
        }
        Ok(PortSpec::Interface { name: name.to_owned(), options })
    }

    /// What it is called: the interface, or what a socket is at or talks to; empty if that is not known before it is open.
    pub fn name(&self) -> String {
        match self {
            PortSpec::Interface { name, .. } | PortSpec::Tap { name, .. } => name.clone(),
            PortSpec::Memif(options) => options.to_string(),
            PortSpec::Vhost(options) => options.to_string(),
            PortSpec::Socket(options) => options.kind.to_string(),
            PortSpec::Tunnel(options) => options.to_string(),
            PortSpec::WireGuard(options) => options.to_string(),
        }
    }

    /// The same by a name that the kernel has chosen.
    #[must_use]
    pub fn named(&self, chosen: &str) -> PortSpec {
        match self {
            PortSpec::Tap { name, options } if name.is_empty() => {
                PortSpec::Tap { name: chosen.to_owned(), options: options.clone() }
            }
            other => other.clone(),
        }
    }

    /// The same with a folder for what has its socket in the process's folder of ports.
    #[must_use]
    pub fn in_folder(&self, folder: &Path) -> PortSpec {
        match self {
            PortSpec::Memif(options) => PortSpec::Memif(options.in_folder(folder)),
            PortSpec::Vhost(options) => PortSpec::Vhost(options.in_folder(folder)),
            PortSpec::WireGuard(options) => PortSpec::WireGuard(options.in_folder(folder)),
            other => other.clone(),
        }
    }

    /// Whether it is on memory that is shared with a peer: that has one connection, so that workers cannot have a part each.
    pub fn is_shared_memory(&self) -> bool {
        matches!(self, PortSpec::Memif(_) | PortSpec::Vhost(_))
    }

    /// Whether a port that was opened by another spec of the same name is what this one asks for.
    pub fn is_met_by(&self, open: &PortSpec) -> bool {
        match self {
            // Who says nothing takes the interface as it is.
            PortSpec::Tap { options, .. } => {
                self == open || *options == tap::Options { kind: options.kind, ..tap::Options::default() }
            }
            PortSpec::Interface { .. }
            | PortSpec::Memif(_)
            | PortSpec::Vhost(_)
            | PortSpec::Socket(_)
            | PortSpec::Tunnel(_)
            | PortSpec::WireGuard(_) => self == open,
        }
    }

    /// Opens the port, in the network namespace of this thread.
    ///
    /// # Errors
    /// As the port of its kind.
    pub fn open(&self) -> Result<Box<dyn Port>, PortError> {
        Ok(match self {
            PortSpec::Interface { name, options } => interface::open(name, options)?,
            PortSpec::Tap { name, options } => Box::new(TapPort::open(name, options)?),
            PortSpec::Memif(options) => Box::new(MemifPort::open(options)?),
            PortSpec::Vhost(options) => Box::new(VhostPort::open(options)?),
            PortSpec::Socket(options) => Box::new(SocketPort::open(options)?),
            PortSpec::Tunnel(options) => Box::new(TunnelPort::open(options)?),
            PortSpec::WireGuard(options) => Box::new(WireGuardPort::open(options)?),
        })
    }

    /// Opens the port in another network namespace.
    ///
    /// # Errors
    /// As [`open`](PortSpec::open), and if there is no such namespace.
    pub fn open_in(&self, netns: &Netns) -> Result<Box<dyn Port>, PortError> {
        netns.run(|| self.open())?
    }
}

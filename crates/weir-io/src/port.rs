//! The contract of a port.

use std::error::Error;
use std::io;
use std::os::fd::BorrowedFd;

use weir_net::EtherAddr;
use weir_packet::Packet;

use crate::hand_over::Handed;
use crate::memif::MemifPort;

/// A port, where packets enter and leave.
///
/// No method blocks. A port belongs to one thread at a time.
pub trait Port: Send {
    /// The name under which the port was opened: interface, file, or what the caller chose.
    fn name(&self) -> &str;

    /// Appends at most `max` packets to `out`, in order of arrival, and returns how many.
    ///
    /// `Ok(0)` means that there is nothing now; see [`ended`](Port::ended) for "never again". The link layer mark is
    /// set to the start of the packet. An error concerns the port, not one packet: malformed packets are
    /// counted and skipped. [`PortError::Down`] is reported once each time the interface goes down, and
    /// [`PortError::NoPeer`] each time the peer goes away; reception goes on by itself when it comes up, or another comes.
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError>;

    /// Sends packets from the front of `batch` and returns how many were sent.
    ///
    /// What the port cannot take now stays in `batch`, in order: try again later, or drop it. A packet that the port
    /// can never take (too long, malformed offload data) is removed and counted in [`PortStats::tx_errors`]. On an
    /// error, packets that were sent before it are out of `batch` as well.
    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError>;

    /// Hands over whatever the port buffers.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// The descriptor that becomes readable when there is something to receive, for [`Poller`](crate::Poller).
    /// `None` if the port never keeps a receiver waiting.
    fn fd(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether no packet will ever be received again, such as at the end of a file.
    fn ended(&self) -> bool {
        false
    }

    /// Whether whom the port talks to is there, for ports that follow by themselves who comes and goes: after
    /// [`PortError::NoPeer`] nobody needs to open them again.
    fn is_up(&self) -> Option<bool> {
        None
    }

    /// The counters since the port was opened.
    fn stats(&mut self) -> PortStats;

    /// [`PortStats::tx_errors`] and [`PortStats::rx_malformed`] alone, which costs nothing to ask after each batch.
    fn lost(&self) -> Lost;

    /// The Ethernet address of the interface.
    fn mac(&self) -> Option<EtherAddr> {
        None
    }

    /// How packets pass between port and kernel, and why so, for people; empty if there is nothing to say.
    fn method(&self) -> &str {
        ""
    }

    /// Whether the port receives only its part of what arrives: the kernel gives the rest to other ports of this
    /// process ([`Share`](crate::interface::Share)).
    fn is_shared(&self) -> bool {
        false
    }

    /// What another process needs to go on with this port, if it is of a kind that can go over; then this process is not to use it any more.
    fn hand_over(&mut self) -> Option<Handed> {
        None
    }

    /// A port that was to go over, and has not: this process goes on with it, whatever the other has received of it meanwhile.
    fn take_back(&mut self) {}

    /// Whether it only stands in the place of one that comes from another process.
    fn is_awaited(&self) -> bool {
        false
    }

    /// The port, if it is one whose peers can be joined by [direct rings](crate::memif::direct).
    fn as_memif(&mut self) -> Option<&mut MemifPort> {
        None
    }

    /// How many packets that were sent the other end has not taken yet, if it can be known.
    fn unread(&self) -> Option<u64> {
        None
    }

    /// Largest payload of a link-layer frame in bytes, the Ethernet header not counted.
    fn mtu(&self) -> Option<u32> {
        None
    }
}

/// Counters of a port. `received`, `sent` and their bytes count frames as elements see them (a large packet that
/// awaits segmentation is one).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets that arrived while the ring or queue of the port was full.
    pub rx_dropped: u64,
    /// Packets skipped on reception: cut, longer than a packet can be, or with offload data that makes no sense.
    pub rx_malformed: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent, by reason.
    pub tx_errors: TxErrors,
}

impl PortStats {
    /// The part of [`Port::lost`].
    pub fn lost(&self) -> Lost {
        Lost { malformed: self.rx_malformed, tx: self.tx_errors }
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.rx_packets += 1;
        self.rx_bytes += bytes as u64;
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.tx_packets += 1;
        self.tx_bytes += bytes as u64;
    }
}

/// Packets that ended in a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Skipped on reception.
    pub malformed: u64,
    /// Removed from a batch without being sent.
    pub tx: TxErrors,
}

/// Packets that a port removed from a batch without sending them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxErrors {
    /// Longer than the MTU of the interface.
    pub too_long: u64,
    /// Checksum or segmentation data that does not fit the bytes of the packet.
    pub offload: u64,
    /// Given to an interface that was down, or gone.
    pub down: u64,
    /// Refused by the kernel for another reason (shorter than an Ethernet header, for example).
    pub refused: u64,
}

impl TxErrors {
    /// How many they are.
    pub fn all(self) -> u64 {
        self.too_long + self.offload + self.down + self.refused
    }
}

/// An error of a port.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// No interface has that name.
    #[error("there is no interface `{name}`{}", did_you_mean(.similar))]
    NotFound {
        /// The name asked for.
        name: String,
        /// Interfaces of that network namespace whose names are alike, or all if they are few.
        similar: Vec<String>,
    },
    /// The interface is administratively down.
    #[error("interface `{name}` is down; bring it up by `ip link set {name} up`")]
    Down {
        /// The interface.
        name: String,
    },
    /// Nobody is at the other end of shared memory. The port goes on by itself when someone comes.
    #[error("`{name}` has no peer: {why}")]
    NoPeer {
        /// The port.
        name: String,
        /// Why not.
        why: String,
    },
    /// The interface vanished. Open the port again when there is an interface of that name.
    #[error("interface `{name}` was removed; open the port again when it is back")]
    Gone {
        /// The interface.
        name: String,
    },
    /// Someone else has what the port needs; the kernel also says so for a short while after it was closed.
    #[error("{what} of `{name}` is in use; close the program that uses it, or choose another method")]
    Busy {
        /// The interface.
        name: String,
        /// What is in use.
        what: String,
    },
    /// No interface of this host has the address.
    #[error("{address} is no address of this host; give one that an interface has (ip address)")]
    NoAddress {
        /// The address.
        address: String,
    },
    /// Ports share the queues of an interface, which are fewer, so that this one has none.
    #[error("`{name}` has fewer queues than workers, {queues}: the first worker has them all")]
    NoQueue {
        /// The interface.
        name: String,
        /// How many queues it has.
        queues: u32,
    },
    /// The process lacks a privilege.
    #[error("no permission to {action} for `{name}`; it needs {needs}")]
    Permission {
        /// The port.
        name: String,
        /// What was tried.
        action: &'static str,
        /// The privilege.
        needs: &'static str,
    },
    /// The interface does not carry Ethernet frames.
    #[error("interface `{name}` has link type {arphrd}, not Ethernet (1)")]
    NotEthernet {
        /// The interface.
        name: String,
        /// Its ARPHRD number.
        arphrd: u16,
    },
    /// The network namespace cannot be entered.
    #[error("cannot enter the network namespace {netns}")]
    Namespace {
        /// Which one.
        netns: String,
        /// Why.
        source: io::Error,
    },
    /// A capture file is not what it should be.
    #[error("{name}: {what}")]
    Format {
        /// The file.
        name: String,
        /// What is wrong, and where.
        what: String,
    },
    /// The other end of a pair is closed.
    #[error("the other end of `{name}` is closed")]
    Closed {
        /// The port.
        name: String,
    },
    /// The port was opened in the other direction only.
    #[error("`{name}` cannot {action}")]
    Direction {
        /// The port.
        name: String,
        /// `receive` or `send`.
        action: &'static str,
    },
    /// The operating system refused something.
    #[error("{name}: cannot {action}")]
    Os {
        /// The port.
        name: String,
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}

fn did_you_mean(similar: &[String]) -> String {
    match similar {
        [] => String::new(),
        names => format!("; there is {}", names.join(", ")),
    }
}

/// An error with what it was caused by, in one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        text.push_str(&format!(": {e}"));
        cause = e.source();
    }
    text
}

//! Ports: where packets enter and leave a process.
//!
//! A [`Port`] receives and sends batches without blocking. There are ports in [`memory`] (paired queues), on [`pcap`]
//! files, on [`socket`]s, on memory that is shared with other processes ([`memif`], [`vhost`]), on the outer packets of [`tunnel`]s, inside of
//! [`wireguard`]'s, and on
//! network interfaces ([`interface`], which chooses between [`af_packet`] and [`af_xdp`]). A [`Poller`] sleeps until one of several
//! ports is readable.
//!
//! Packets of local senders are often unfinished: their transport checksum is left to the hardware, and they are
//! larger than the MTU. AF_PACKET ports carry them so, described by [`Meta`](weir_packet::Meta); [`offload`] finishes
//! them in software where that is not possible.

pub mod af_packet;
pub mod af_xdp;
pub mod bpf;
mod fork;
pub mod hand_over;
pub mod inbox;
pub mod interface;
pub mod memif;
pub mod memory;
mod netns;
pub mod offload;
mod pages;
pub mod pcap;
pub mod pcapng;
mod poller;
mod port;
pub mod probe;
mod shared;
pub mod socket;
mod spec;
pub mod tap;
pub mod tunnel;
pub mod vhost;
mod vnet;
mod wakeup;
pub mod wireguard;

use std::sync::atomic;

pub use fork::{Fork, fork};
pub use netns::Netns;
pub use pages::{allow_huge_pages, with_huge_pages};
pub use poller::{Poller, Waker};
pub use port::{Lost, Port, PortError, PortStats, TxErrors, with_causes};
pub use shared::BadName;
pub use shared::signal::trust_peers;
pub use spec::PortSpec;

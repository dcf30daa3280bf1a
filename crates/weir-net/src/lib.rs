//! Header views, checksums, flow keys and addresses of network protocols: no state, no I/O.
//!
//! Every function that takes bytes is total: short or malformed input gives an error or a description of what is
//! wrong, never a panic.
#![forbid(unsafe_code)]

mod addr;
pub mod build;
pub mod checksum;
mod describe;
mod fields;
mod flow;
mod headers;
pub mod probe;
pub mod share;
mod view;
mod wireguard;

pub use addr::{EtherAddr, EtherAddrError, Ipv4Prefix, PrefixError};
pub use describe::{describe, describe_ip};
pub use fields::{Fields, frame_fields, ip_fields};
pub use flow::FlowKey;
pub use headers::{Headers, Network, without_transport_checksum};
pub use share::{NoPortShare, PortShare, Protocols};
pub use view::{Arp, Ethernet, HeaderError, Icmp, Ipv4, Ipv6, Tcp, Udp, Vlan};
pub use wireguard::{NoWireGuardKey, WireGuardKey};

/// EtherType numbers (IEEE 802 numbers, IANA).
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// 802.1ad service tag.
    pub const QINQ: u16 = 0x88a8;
}

/// IP protocol numbers (IANA).
pub mod proto {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
}

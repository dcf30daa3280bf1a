//! What elements that put IPv4 headers in front of packets share.

use crate::fields::{ipv4, ports, udp};
use weir_packet::Checksum;

use crate::names::{NameKind, meaning};
use crate::prelude::*;

/// An IP protocol: a number or its name.
#[derive(Debug, Clone, Copy)]
pub struct Protocol(pub(crate) u8);

impl FromArg for Protocol {
    const SYNTAX: &'static str = "IP protocol";
    fn from_arg(text: &str) -> Result<Protocol, String> {
        let name = text.trim();
        match weir_filter::protocol_number(name) {
            Some(number) => Ok(Protocol(number)),
            None => u8::from_arg(name).map(Protocol).map_err(|e| format!("{e} or protocol (like 4 or ipip)")),
        }
    }
}

/// A UDP port: a number or the name of a service.
#[derive(Debug, Clone, Copy)]
pub struct Port(pub(crate) u16);

impl FromArg for Port {
    const SYNTAX: &'static str = "port";
    fn from_arg(text: &str) -> Result<Port, String> {
        let name = text.trim();
        // A definition goes before the usual meaning.
        let defined = meaning(name, NameKind::UdpPort).and_then(|port| port.parse().ok());
        match defined.or_else(|| weir_filter::service_port(name)) {
            Some(port) => Ok(Port(port)),
            None => u16::from_arg(name).map(Port).map_err(|e| format!("{e} or service (like 53 or domain)")),
        }
    }
}

impl CellValue for Port {
    fn bits(self) -> u128 {
        self.0.into()
    }
    fn show(bits: u128) -> String {
        bits.to_string()
    }
}

/// A destination: an address, or that of the destination annotation.
#[derive(Debug, Clone, Copy)]
pub enum Destination {
    /// That of the annotation.
    Anno,
    /// This one.
    Addr(Ipv4Addr),
}

/// What a cell has for [`Destination::Anno`].
const FROM_ANNO: u64 = 1 << 32;

impl FromArg for Destination {
    const SYNTAX: &'static str = "IP address, or DST_ANNO";
    fn from_arg(text: &str) -> Result<Destination, String> {
        if text.trim() == "DST_ANNO" {
            return Ok(Destination::Anno);
        }
        Ipv4Addr::from_arg(text).map(Destination::Addr).map_err(|e| format!("{e} or DST_ANNO"))
    }
}

impl CellValue for Destination {
    fn bits(self) -> u128 {
        match self {
            Destination::Anno => FROM_ANNO.into(),
            Destination::Addr(addr) => addr.bits(),
        }
    }
    fn show(bits: u128) -> String {
        if bits == FROM_ANNO.into() { "DST_ANNO".into() } else { Ipv4Addr::show(bits) }
    }
}

/// The destination that a cell (64 bits) of a [`Destination`] says; the annotation is set to it.
pub(crate) fn destination(b: &mut Builder, cell: TableId) -> V {
    let dst = b.read_cell(cell);
    let from_anno = b.ge(dst, FROM_ANNO);
    let dst = b.resize(W32, dst);
    let anno = b.load_anno(W32, anno::DST_IP);
    let dst = b.select(from_anno, anno, dst);
    b.store_anno(anno::DST_IP, dst);
    dst
}

/// The number of a cell (16 bits), which is one more afterwards.
pub(crate) fn next_id(b: &mut Builder, cell: TableId) -> V {
    let id = b.read_cell(cell);
    let next = b.add(id, 1);
    b.write_cell(cell, next);
    id
}

/// An IPv4 header of 20 bytes, without its length and addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outer {
    /// Type of service.
    pub(crate) tos: u8,
    /// Flags, without an offset.
    pub(crate) flags: u16,
    /// Time to live.
    pub(crate) ttl: u8,
    /// Protocol.
    pub(crate) protocol: u8,
}

/// Makes space for `len` bytes of headers in front, an IPv4 header the first of them, and sets `net` and `transport`.
/// Packets that would be too long for IP are dropped (`TooLong`), as are those that a kernel left to the device to
/// segment (`NotSegmented`): the device would not find their headers. An unfinished checksum is finished.
pub(crate) fn push_headers(b: &mut Builder, len: u32) {
    let segment = b.load_meta(MetaField::SegmentSize);
    let whole = b.eq(segment, 0);
    b.unless(whole, |b| b.drop(Reason::new("NotSegmented")));
    let inner = b.len();
    let long = b.gt(inner, 0xffff - len);
    b.when(long, |b| b.drop(Reason::new("TooLong")));
    finish_checksum(b);
    b.push(len);
    b.clear_mark(Layer::Mac);
    b.set_mark(Layer::Net, Layer::Data, 0);
    b.set_mark(Layer::Transport, Layer::Data, 20);
}

/// Writes an IPv4 header at `net`, of a packet that has nothing in front of it.
pub(crate) fn fill_ip(b: &mut Builder, outer: Outer, id: V, src: V, dst: V) {
    ipv4::VERSION_IHL.store_const(b, 0x45_u8);
    ipv4::TOS.store_const(b, outer.tos);
    let len = b.len();
    let len = b.resize(W16, len);
    ipv4::LENGTH.store(b, len);
    ipv4::ID.store(b, id);
    ipv4::FRAGMENT.store_const(b, outer.flags);
    b.store_const(W16, Layer::Net, 8, u16::from(outer.ttl) << 8 | u16::from(outer.protocol));
    ipv4::SRC.store(b, src);
    ipv4::DST.store(b, dst);
    fill_ip_checksum(b);
}

/// Writes a UDP header at `transport`, of which 8 bytes are known to be there, and its checksum over the pseudo header
/// of the IPv4 header at `net`; without `sum` it has none.
pub(crate) fn fill_udp(b: &mut Builder, src: V, dst: V, sum: bool) {
    ports::SRC.store(b, src);
    ports::DST.store(b, dst);
    let len = b.rest(Layer::Transport);
    let len16 = b.resize(W16, len);
    udp::LENGTH.store(b, len16);
    udp::CHECKSUM.store_const(b, 0_u16);
    if sum {
        b.require(Layer::Transport, len, Reason::TRUNCATED);
        let sum = b.checksum(Layer::Transport, 0, len);
        let addresses = b.checksum(Layer::Net, 12, 20);
        let sum = b.sum16(sum, addresses);
        let sum = b.sum16(sum, u32::from(proto::UDP));
        let sum = b.sum16(sum, len16);
        let field = b.not(sum);
        store_udp_sum(b, field);
    }
}

/// Stores a UDP checksum: 0 would say that there is none (RFC 768).
pub(crate) fn store_udp_sum(b: &mut Builder, field: V) {
    let none = b.eq(field, 0);
    let ones = b.constant(W16, 0xffff_u16);
    let field = b.select(none, ones, field);
    udp::CHECKSUM.store(b, field);
}

/// Completes the checksum of TCP or UDP that a kernel left to the device: the device would not find it behind further
/// headers. The `transport` mark says where; without it, nothing can be completed.
pub(crate) fn finish_checksum(b: &mut Builder) {
    let state = b.load_meta(MetaField::Checksum);
    let partial = b.eq(state, Checksum::Partial as u8);
    b.when(partial, |b| {
        b.if_has(
            Layer::Net,
            20,
            |b| {
                let version = ipv4::VERSION_IHL.load(b);
                let version = b.shr(version, 4);
                let ipv6 = b.eq(version, 6);
                let [protocol, next] = [9, 6].map(|at| b.load(W8, Layer::Net, at));
                let protocol = b.select(ipv6, next, protocol);
                b.switch(protocol, &[proto::TCP.into(), proto::UDP.into()], |b, case| {
                    let off = match case {
                        Some(0) => 16,
                        Some(_) => 6,
                        None => return,
                    };
                    let len = b.rest(Layer::Transport);
                    b.require_or(Layer::Transport, off + 2, |b| b.drop(Reason::TRUNCATED));
                    b.require(Layer::Transport, len, Reason::TRUNCATED);
                    let sum = b.checksum(Layer::Transport, 0, len);
                    let field = b.not(sum);
                    let none = b.eq(field, 0);
                    let ones = b.constant(W16, 0xffff_u16);
                    let field = b.select(none, ones, field);
                    b.store(Layer::Transport, off, field);
                });
            },
            |_| {},
        );
    });
    let whole = b.constant(W8, Checksum::Unknown as u8);
    b.store_meta(MetaField::Checksum, whole);
}

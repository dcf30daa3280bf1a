//! Where header fields stand in symbolic packets.

use weir_ir::program::{BinOp, Width};

use super::{Bits, Checker, Field, Framing};
use crate::explore::trace::Trace;
use crate::model::expr::{Expr, Exprs, Source, Symbol};
use crate::model::packet::{Mark, SymbolicPacket};

/// A version of IP with the headers where they are if there are no options or extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub version: u8,
    /// Offset of the protocol number.
    pub proto: i64,
    pub src: i64,
    pub dst: i64,
    /// Bytes of an address.
    pub address: i64,
    /// Offset of the transport header.
    pub transport: i64,
}

pub(super) const IPV4: Layout = Layout { version: 4, proto: 9, src: 12, dst: 16, address: 4, transport: 20 };
pub(super) const IPV6: Layout = Layout { version: 6, proto: 6, src: 8, dst: 24, address: 16, transport: 40 };

/// The packet as it came in.
pub(super) fn original(x: &mut Exprs, packet: u32) -> impl Fn(&mut Exprs, i64) -> Expr + use<> {
    let source = x.source_id(Source::Input(packet));
    move |x, at| x.symbol(Width::W8, Symbol::Byte(source, at))
}

/// Position of the network header of a packet that comes in.
pub(super) fn net_of(framing: Framing) -> i64 {
    match framing {
        Framing::Ip => 0,
        Framing::Ethernet => 14,
    }
}

/// Position of the network header of a packet on its way.
pub(super) fn net_at(p: &SymbolicPacket, framing: Framing) -> i64 {
    match (p.marks[1], framing) {
        (_, Framing::Ethernet) => p.data + 14,
        (Mark::At(at), Framing::Ip) => at,
        (_, Framing::Ip) => p.data,
    }
}

/// Whether the header at `net` is of a layout's version.
pub(super) fn version(
    x: &mut Exprs,
    get: impl Fn(&mut Exprs, i64) -> Expr,
    net: i64,
    layout: Layout,
) -> Expr {
    let first = get(x, net);
    let four = x.constant(Width::W8, 4);
    let version = x.binary(BinOp::Shr, first, four);
    x.is(version, layout.version.into())
}

/// A number of some bytes.
pub(super) fn bytes_at(x: &mut Exprs, get: impl Fn(&mut Exprs, i64) -> Expr, at: i64, n: i64) -> Expr {
    let bytes: Vec<Expr> = (at..at + n).map(|i| get(x, i)).collect();
    x.concat(&bytes)
}

impl Checker<'_> {
    /// The trace if its packet, whose header starts at `net`, has this version and no options.
    pub(super) fn plain(
        &mut self,
        trace: &Trace,
        net: i64,
        layout: Layout,
        get: impl Fn(&mut Exprs, i64) -> Expr,
    ) -> Option<Trace> {
        let x = self.session.exprs();
        let first = get(x, net);
        let is = if layout.version == 4 {
            x.is(first, 0x45)
        } else {
            let four = x.constant(Width::W8, 4);
            let version = x.binary(BinOp::Shr, first, four);
            x.is(version, 6)
        };
        self.session.assume(trace.clone(), is)
    }

    /// The traces by how long the IPv4 header at `net` is, with where its fields are; of IPv6, the fixed header's.
    pub(super) fn by_header_length(
        &mut self,
        trace: &Trace,
        net: i64,
        get: impl Fn(&mut Exprs, i64) -> Expr,
    ) -> Vec<(Trace, Layout)> {
        let mut out = Vec::new();
        for words in 5..=15 {
            let x = self.session.exprs();
            let first = get(x, net);
            let is = x.is(first, 0x40 | words as u128);
            out.extend(
                self.session.assume(trace.clone(), is).map(|s| (s, Layout { transport: 4 * words, ..IPV4 })),
            );
        }
        out.extend(self.plain(trace, net, IPV6, get).map(|s| (s, IPV6)));
        out
    }
}

/// The bytes of a field of a packet whose network header starts at `net`; bits that do not count are 0.
pub(super) fn by_net(bytes: &[u8], net: usize, field: Field) -> Option<Vec<u8>> {
    let first = *bytes.get(net)?;
    let word =
        |at: usize| bytes.get(net + at..net + at + 2).map(|b| usize::from(b[0]) << 8 | usize::from(b[1]));
    // What follows the length that IP says is a frame's padding.
    let (header, proto, end) = match first >> 4 {
        4 => (4 * usize::from(first & 15), bytes.get(net + 9).copied(), net + word(2)?),
        6 => (40, bytes.get(net + 6).copied(), net + 40 + word(4)?),
        _ => (0, None, bytes.len()),
    };
    let transport = net + header;
    match field {
        Field::Payload => {
            let doff = bytes.get(transport + 12).map(|b| 4 * usize::from(b >> 4));
            let at = match proto {
                Some(6) => transport + doff?,
                Some(17) => transport + 8,
                _ => transport,
            };
            bytes.get(at..end.min(bytes.len())).map(<[u8]>::to_vec)
        }
        Field::Ether(bits) => bits_at(bytes, net.checked_sub(14)?, bits),
        Field::Net { v4, v6 } => bits_at(bytes, net, if first >> 4 == 4 { v4? } else { v6? }),
        Field::Transport(bits) => bits_at(bytes, transport, bits),
    }
}

fn bits_at(bytes: &[u8], header: usize, bits: Bits) -> Option<Vec<u8>> {
    let (start, n) = (header + bits.offset as usize, bits.width.bytes() as usize);
    let mask = bits.mask.to_be_bytes();
    let field = bytes.get(start..start + n)?;
    Some(field.iter().zip(&mask[16 - n..]).map(|(b, m)| b & m).collect())
}

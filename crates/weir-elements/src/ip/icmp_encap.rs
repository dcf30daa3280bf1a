//! What elements that put ICMP headers in front of packets share.

use super::encap::{Outer, fill_ip, push_headers};
use crate::fields::icmp;
use crate::prelude::*;

/// Types whose header has an identifier and a sequence number (RFC 792): echo, timestamp, information.
const NUMBERED: [u8; 6] = [0, 8, 13, 14, 15, 16];

/// The message: type, code and identifier.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) identifier: u16,
}

/// Emits the packet behind headers of IPv4 and ICMP. Cells: source and destination (32 bits), and the number of the
/// packet, which is identification and sequence number and never 0.
pub(super) fn encap(b: &mut Builder, message: Message, [src, dst, number]: [TableId; 3]) {
    let header = if matches!(message.kind, 13 | 14) { 20 } else { 8 };
    push_headers(b, 20 + header);
    let n = b.read_cell(number);
    let next = b.add(n, 1);
    let over = b.eq(next, 0);
    let one = b.constant(W16, 1_u16);
    let next = b.select(over, one, next);
    b.write_cell(number, next);
    let src = b.read_cell(src);
    let dst = b.read_cell(dst);
    b.store_anno(anno::DST_IP, dst);
    fill_ip(b, Outer { tos: 0, flags: 0, ttl: 255, protocol: proto::ICMP }, n, src, dst);
    icmp::TYPE.store_const(b, message.kind);
    icmp::CODE.store_const(b, message.code);
    if NUMBERED.contains(&message.kind) {
        icmp::ID.store_const(b, message.identifier);
        icmp::SEQUENCE.store(b, n);
    }
    let len = b.rest(Layer::Transport);
    b.require(Layer::Transport, len, Reason::TRUNCATED);
    let sum = b.checksum(Layer::Transport, 0, len);
    let field = b.not(sum);
    icmp::CHECKSUM.store(b, field);
    b.emit(0);
}

/// The ICMP types that have names here, and their codes that have (RFC 792, 950, 1256, 1812).
const TYPES: &[(&str, u8, &[&str])] = &[
    ("echo-reply", 0, &[]),
    (
        "unreachable",
        3,
        &[
            "net",
            "host",
            "protocol",
            "port",
            "needfrag",
            "srcroutefail",
            "netunknown",
            "hostunknown",
            "isolated",
            "netprohibited",
            "hostprohibited",
            "tosnet",
            "toshost",
            "filterprohibited",
            "hostprecedence",
            "precedencecutoff",
        ],
    ),
    ("sourcequench", 4, &[]),
    ("redirect", 5, &["net", "host", "tosnet", "toshost"]),
    ("echo", 8, &[]),
    ("routeradvert", 9, &[]),
    ("routersolicit", 10, &[]),
    ("timeexceeded", 11, &["transit", "reassembly"]),
    ("parameterproblem", 12, &["erroratptr", "missingopt", "length"]),
    ("timestamp", 13, &[]),
    ("timestamp-reply", 14, &[]),
    ("inforeq", 15, &[]),
    ("inforeq-reply", 16, &[]),
    ("maskreq", 17, &[]),
    ("maskreq-reply", 18, &[]),
];

/// An ICMP type: a number or its name.
#[derive(Debug, Clone, Copy)]
pub struct Type(pub(super) u8);

impl FromArg for Type {
    const SYNTAX: &'static str = "ICMP type";
    fn from_arg(text: &str) -> Result<Type, String> {
        match TYPES.iter().find(|(name, ..)| *name == text.trim()) {
            Some((_, number, _)) => Ok(Type(*number)),
            None => u8::from_arg(text).map(Type).map_err(|e| format!("{e} or ICMP type (like 8 or echo)")),
        }
    }
}

/// The number of a code of that type: a number or its name.
pub(super) fn code_number(kind: Type, text: &str) -> Result<u8, String> {
    let names = TYPES.iter().find(|(_, number, _)| *number == kind.0).map_or(&[][..], |(.., names)| names);
    match names.iter().position(|name| *name == text.trim()) {
        Some(number) => Ok(number as u8),
        None if names.is_empty() => u8::from_arg(text).map_err(|e| format!("CODE: {e}")),
        None => u8::from_arg(text).map_err(|e| format!("CODE: {e} or one of {}", names.join(", "))),
    }
}

use crate::fields::{icmp, ipv4};
use weir_net::Ipv4Prefix;
use weir_table::Sharing;

use super::mapping::nanos;
use crate::prelude::*;

element! {
    /// Keeps what cannot be proved of a module to the rules for it, in both directions (CHANGE paper, section 2.2.4): no spoofed
    /// sources, and no packets to who has not agreed.
    ///
    /// What comes in on input 0 is for the module and leaves on output 0: it has to be addressed to `OWN` (else `Denied`). What
    /// comes in on input 1 is the module's, and leaves on output 1 if its source and its destination are allowed (else `Denied`). Packets are not
    /// changed.
    ///
    /// A source is allowed if it is `OWN`, or that of a packet that came in on input 0: with the same protocol and the same ports (of ICMP echo
    /// requests, the identifier), and to a destination of the prefixes. A destination is allowed if it is of one of the prefixes (explicit
    /// authorization), or if the packet is an answer (implicit authorization): its addresses and ports are those of a packet that came in, turned
    /// round. What came in counts for `TIMEOUT` from its last packet on, whatever the module sends. Of ICMP, only echo replies are answers.
    ///
    /// Fragments from the module are dropped (`Fragment`) unless they go from `OWN` to one of the prefixes: they have no ports, or not all.
    /// Packets from it with IP options are dropped (`BadHeader`), since options can lead a packet elsewhere, and so is what is not IPv4. Beyond
    /// `CAPACITY` flows, packets come in and authorize nothing.
    ///
    /// The `net` mark has to stand on a checked IPv4 header.
    ChangeEnforcer: "2/2", "h/h";
    example "Idle -> CheckIPHeader -> enforce :: ChangeEnforcer(172.100.10.1, 172.16.15.133/32) -> Discard;
        Idle -> CheckIPHeader -> [1] enforce; enforce [1] -> Discard;";
    params {
        /// The address of the module.
        pos own: Ipv4Addr,
        /// How long what came in lets answers out.
        key timeout: Duration = Duration::from_secs(120) => "2 min",
        /// Most flows.
        key capacity: u32 = 1 << 12 => "4096",
        /// Destinations that agreed to get what the module sends; `0/0`: any.
        rest to: Vec<Ipv4Prefix>,
    }
    handlers {
        /// Number of flows whose answers may leave.
        read flows = |_, s| Ok(s.table("flows").len().to_string()),
        /// Number of packets from the module that were dropped.
        count denied,
    }
}

/// ICMP types (RFC 792).
const REPLY: u8 = 0;
const REQUEST: u8 = 8;
/// More fragments, and the offset.
const FRAGMENT: u16 = 0x3fff;

#[derive(Clone, Copy)]
struct Tables {
    /// By protocol, address and port of who sent, and port of the module.
    flows: TableId,
    denied: TableId,
}

fn program(e: &ChangeEnforcer, b: &mut Builder) {
    let key = [("proto", W8), ("src", W32), ("sport", W16), ("dport", W16)];
    let decl = TableDecl::new("flows", Kind::Exact, &key, &[("seen", W1)], e.capacity.max(1));
    let t =
        Tables { flows: b.table(decl.sharing(Sharing::Shared), vec![]), denied: b.cell("denied", W64, 0) };
    b.input(0, |b| to_module(e, b, t));
    b.input(1, |b| from_module(e, b, t));
}

/// Lets in what is for the module, and remembers who sent it.
fn to_module(e: &ChangeEnforcer, b: &mut Builder, t: Tables) {
    require_ip(b);
    let first = ipv4::VERSION_IHL.load(b);
    let version = b.shr(first, 4);
    let six = b.ne(version, 4);
    b.when(six, |b| b.drop(Reason::BAD_HEADER));
    let dst = ipv4::DST.load(b);
    let other = b.ne(dst, u32::from(e.own));
    b.when(other, |b| b.drop(Reason::DENIED));
    // Fragments beyond the first have no ports, and authorize nothing.
    mark_transport(b, |b| b.emit(0), |b| b.drop(Reason::TRUNCATED));
    let [sport, dport] = ports(b, REQUEST, |b| b.emit(0), |b| b.drop(Reason::TRUNCATED));
    let (proto, src) = (ipv4::PROTOCOL.load(b), ipv4::SRC.load(b));
    let flow = b.insert(t.flows, &[proto, src, sport, dport], |b| b.emit(0));
    b.touch(flow, nanos(e.timeout));
    b.emit(0);
}

/// Lets out what has a source and a destination that are allowed.
fn from_module(e: &ChangeEnforcer, b: &mut Builder, t: Tables) {
    let refuse = move |b: &mut Builder, reason: Reason| {
        count(b, t.denied);
        b.drop(reason);
    };
    require_marked_or(b, Layer::Net, 20, refuse);
    // An IPv6 packet may have a traffic class that reads as a header's length.
    let first = ipv4::VERSION_IHL.load(b);
    let other = b.ne(first, 0x45);
    b.when(other, |b| refuse(b, Reason::BAD_HEADER));
    let (src, dst) = (ipv4::SRC.load(b), ipv4::DST.load(b));
    let own = b.eq(src, u32::from(e.own));
    let mut agreed = b.constant(W1, 0_u8);
    for prefix in &e.to {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len())).unwrap_or(0);
        let part = b.and(dst, mask);
        let within = b.eq(part, u32::from(prefix.addr()));
        agreed = b.or(agreed, within);
    }
    let explicit = b.and(own, agreed);
    b.when(explicit, |b| b.emit(1));
    let fragment = ipv4::FRAGMENT.load(b);
    let fragment = b.and(fragment, FRAGMENT);
    let fragment = b.ne(fragment, 0);
    b.when(fragment, |b| refuse(b, Reason::new("Fragment")));
    let truncated = |b: &mut Builder| refuse(b, Reason::TRUNCATED);
    mark_transport(b, |b| refuse(b, Reason::new("Fragment")), truncated);
    let proto = ipv4::PROTOCOL.load(b);
    b.when(own, |b| {
        let [sport, dport] = ports(b, REPLY, |b| refuse(b, Reason::DENIED), truncated);
        b.lookup(t.flows, &[proto, dst, dport, sport], |b, _| b.emit(1), |b| refuse(b, Reason::DENIED));
    });
    b.unless(agreed, |b| refuse(b, Reason::DENIED));
    let [sport, dport] = ports(b, REQUEST, |b| refuse(b, Reason::DENIED), truncated);
    b.lookup(t.flows, &[proto, src, sport, dport], |b, _| b.emit(1), |b| refuse(b, Reason::DENIED));
}

/// The ports of a packet, of an ICMP message of the type twice its identifier, of other protocols 0. Ends with `other` at other ICMP messages, and with
/// `short` at what is too short.
fn ports(
    b: &mut Builder,
    kind: u8,
    other: impl Fn(&mut Builder) + Copy,
    short: impl Fn(&mut Builder) + Copy,
) -> [V; 2] {
    let proto = ipv4::PROTOCOL.load(b);
    let none = b.constant(W16, 0_u16);
    let found = b.repeat(1, &[none, none], |b, round, _| {
        b.switch(proto, &[proto::TCP.into(), proto::UDP.into(), proto::ICMP.into()], |b, case| match case {
            Some(0 | 1) => {
                b.require_or(Layer::Transport, 4, short);
                let ports = [0, 2].map(|off| b.load(W16, Layer::Transport, off));
                round.leave(b, &ports);
            }
            Some(_) => {
                b.require_or(Layer::Transport, 8, short);
                let found = icmp::TYPE.load(b);
                let wrong = b.ne(found, kind);
                b.when(wrong, other);
                let id = icmp::ID.load(b);
                round.leave(b, &[id, id]);
            }
            None => round.leave(b, &[none, none]),
        });
    });
    [found[0], found[1]]
}

#[cfg(test)]
mod tests;

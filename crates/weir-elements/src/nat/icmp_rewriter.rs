use super::flow::Kinds;
use super::mapping::{Mappings, REPLY_ANNO};
use super::params::Anno;
use super::rewriter::Rewriter;
use crate::args::FromArg;
use crate::fields::{icmp, ipv4, ports};
use crate::prelude::*;

element! {
    /// Rewrites ICMP errors (RFC 792) about packets that rewriters have changed, so that they reach the sender, and
    /// speak of the packet that it sent (RFC 5508 section 4).
    ///
    /// `MAPS` names the rewriters whose mappings are looked at, in this order: `IPRewriter`, `TCPRewriter`,
    /// `UDPRewriter`, `IPAddrRewriter`, `IPAddrPairRewriter`, `ICMPPingRewriter` or `IPEndpointRewriter`. The error's destination becomes the
    /// first sender, and addresses, ports or identifier of the packet in the error become what they were; all
    /// checksums are updated. The packet leaves on output 0, or if the rewriter's name is followed by `:OFFSET`, on
    /// output OFFSET plus that of the mapping.
    ///
    /// Errors without a mapping (`NoMatch`), ICMP packets that are no errors about a packet (`NotRewritable`), and
    /// errors too short for the packet's IP header (`Truncated`) leave on output 1 if there is one, else they are
    /// dropped. Packets that are not ICMP are dropped (`NotRewritable`). The error is destination unreachable, source
    /// quench, redirect, time exceeded or parameter problem. The `net` mark has to stand on a checked IPv4 header.
    ICMPRewriter: "1/1-", "h/h";
    example "Idle -> CheckIPHeader -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;
        Idle -> CheckIPHeader -> ICMPRewriter(rw) -> Discard;";
    params {
        /// Names of rewriters, space-separated, each with `:OFFSET` or without.
        pos maps: Maps,
        /// Whether the destination annotation becomes the new destination address.
        key dst_anno: bool = true,
        /// Annotation byte (`PAINT`, or its offset) that errors about packets of a known flow get as replies do.
        key reply_anno: Option<Anno> = None,
    }
    resolve |e, peers| {
        let mut errors = Vec::new();
        for map in &mut e.maps.0 {
            match Rewriter::find(&map.name, peers) {
                Ok(rewriter) => map.rewriter = rewriter,
                Err(e) => errors.push(format!("MAPS: {e}")),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    };
}

/// Rewriters by name.
#[derive(Debug)]
pub struct Maps(Vec<Map>);

/// A rewriter by name.
#[derive(Debug)]
struct Map {
    name: String,
    offset: Option<u32>,
    rewriter: Option<Rewriter>,
}

impl FromArg for Maps {
    const SYNTAX: &'static str = "rewriters";

    fn from_arg(text: &str) -> Result<Maps, String> {
        let map = |word: &str| {
            let (name, offset) = match word.split_once(':') {
                None => (word, None),
                Some((name, offset)) => match u32::from_arg(offset) {
                    Ok(n) if n < 65536 => (name, Some(n)),
                    _ => return Err(format!("{word} not an IP rewriter: write NAME, or NAME:OFFSET")),
                },
            };
            Ok(Map { name: name.to_owned(), offset, rewriter: None })
        };
        let maps: Vec<Map> = text.split_whitespace().map(map).collect::<Result<_, _>>()?;
        if maps.is_empty() { Err("no IP rewriters supplied".into()) } else { Ok(Maps(maps)) }
    }
}

/// The packet in the error.
struct Inner {
    src: V,
    dst: V,
    proto: V,
    /// Where its transport header starts, from the ICMP header on.
    header_len: V,
    /// Whether ports, or an identifier, are there.
    has_ports: V,
    has_id: V,
    sport: V,
    dport: V,
    id: V,
}

/// Offset of the packet from the ICMP header on.
const INNER: u32 = 8;

fn program(e: &ICMPRewriter, b: &mut Builder) {
    let tables: Vec<(&Map, &Rewriter, Mappings)> = e
        .maps
        .0
        .iter()
        .enumerate()
        .filter_map(|(i, map)| {
            let rewriter = map.rewriter.as_ref()?;
            Some((map, rewriter, Mappings::declare(b, rewriter.table(), &format!("rewriter{i}_"))))
        })
        .collect();
    b.input(0, |b| {
        require_ip(b);
        let proto = ipv4::PROTOCOL.load(b);
        let other = b.ne(proto, proto::ICMP);
        b.when(other, |b| b.drop(Reason::new("NotRewritable")));
        let refuse = |reason: Reason| move |b: &mut Builder| b.emit_or_drop(1, reason);
        let header_len = ip_header_len(b);
        b.require_or(Layer::Net, header_len, refuse(Reason::TRUNCATED));
        b.set_mark(Layer::Transport, Layer::Net, header_len);
        b.require_or(Layer::Transport, INNER + 20, refuse(Reason::TRUNCATED));
        let kind = icmp::TYPE.load(b);
        b.switch(kind, &[3, 4, 5, 11, 12], |b, case| {
            if case.is_none() {
                refuse(Reason::new("NotRewritable"))(b);
            }
        });
        let inner = inner(b, refuse);
        for (map, rewriter, m) in &tables {
            lookup(b, e, map, rewriter, m, &inner);
        }
        refuse(Reason::NO_MATCH)(b);
    });
}

fn inner<F: FnOnce(&mut Builder)>(b: &mut Builder, refuse: impl Fn(Reason) -> F) -> Inner {
    let first = b.load(W8, Layer::Transport, INNER);
    let version = b.shr(first, 4);
    let words = b.and(first, 15);
    let (other, short) = (b.ne(version, 4), b.lt(words, 5));
    let wrong = b.or(other, short);
    b.when(wrong, refuse(Reason::BAD_HEADER));
    let header_len = b.shl(words, 2);
    let header_len = b.resize(W32, header_len);
    let header_len = b.add(header_len, INNER);
    let src = ipv4::SRC.at(Layer::Transport, INNER).load(b);
    let dst = ipv4::DST.at(Layer::Transport, INNER).load(b);
    let proto = ipv4::PROTOCOL.at(Layer::Transport, INNER).load(b);
    let fragment = ipv4::FRAGMENT.at(Layer::Transport, INNER).load(b);
    let offset = b.and(fragment, 0x1fff);
    let is_first = b.eq(offset, 0);
    let no = b.constant(W1, 0_u8);
    let none = b.constant(W16, 0_u16);
    let parts = b.repeat(1, &[no, no, none, none, none], |b, round, _| {
        let without = |b: &mut Builder| round.leave(b, &[no, no, none, none, none]);
        b.unless(is_first, without);
        b.require_or(Layer::Transport, header_len, without);
        b.set_mark(Layer::Cursor, Layer::Transport, header_len);
        b.require_or(Layer::Cursor, 8, without);
        let yes = b.constant(W1, 1_u8);
        b.switch(proto, &[proto::TCP.into(), proto::UDP.into(), proto::ICMP.into()], |b, case| match case {
            Some(2) => {
                let kind = icmp::TYPE.at(Layer::Cursor, 0).load(b);
                let id = icmp::ID.at(Layer::Cursor, 0).load(b);
                let is_request = b.eq(kind, 8);
                round.leave(b, &[no, is_request, none, none, id]);
            }
            Some(_) => {
                let (sport, dport) =
                    (ports::SRC.at(Layer::Cursor, 0).load(b), ports::DST.at(Layer::Cursor, 0).load(b));
                round.leave(b, &[yes, no, sport, dport, none]);
            }
            None => without(b),
        });
    });
    Inner {
        src,
        dst,
        proto,
        header_len,
        has_ports: parts[0],
        has_id: parts[1],
        sport: parts[2],
        dport: parts[3],
        id: parts[4],
    }
}

/// Looks the packet up in the mappings of a rewriter; if it is there, rewrites the error and lets it leave.
fn lookup(b: &mut Builder, e: &ICMPRewriter, map: &Map, rewriter: &Rewriter, m: &Mappings, inner: &Inner) {
    let leave = Leave { e, map, rewriter };
    match rewriter {
        Rewriter::Flows(flows) => {
            let proto = if flows.kind == Kinds::Any { b.constant(W8, 0_u8) } else { inner.proto };
            b.when(inner.has_ports, |b| {
                // Replies to the packet have its key the other way round.
                let key = [proto, inner.dst, inner.dport, inner.src, inner.sport];
                b.lookup(
                    m.map,
                    &key,
                    |b, entry| {
                        let [dst, dport, src, sport] =
                            ["new_src", "new_sport", "new_dst", "new_dport"].map(|f| b.get(entry, f));
                        leave.rewrite(b, entry, inner, [src, dst], Some(Ports::Both(sport, dport)));
                    },
                    |_| {},
                );
            });
        }
        Rewriter::Pings(_) => b.when(inner.has_id, |b| {
            let yes = b.constant(W1, 1_u8);
            b.lookup(
                m.map,
                &[yes, inner.dst, inner.src, inner.id],
                |b, entry| {
                    let [dst, src, id] = ["new_src", "new_dst", "new_id"].map(|f| b.get(entry, f));
                    leave.rewrite(b, entry, inner, [src, dst], Some(Ports::Id(id)));
                },
                |_| {},
            );
        }),
        Rewriter::Pairs(_) => b.lookup(
            m.map,
            &[inner.dst, inner.src],
            |b, entry| {
                let [dst, src] = ["new_src", "new_dst"].map(|f| b.get(entry, f));
                leave.rewrite(b, entry, inner, [src, dst], None);
            },
            |_| {},
        ),
        Rewriter::Endpoints(_) => {
            let (no, yes) = (b.constant(W1, 0_u8), b.constant(W1, 1_u8));
            // Those of the configuration come first, as they do for packets.
            let tables: Vec<TableId> = m.fixed.into_iter().chain([m.map]).collect();
            b.when(inner.has_ports, |b| {
                for &table in &tables {
                    b.lookup(
                        table,
                        &[no, inner.proto, inner.dst, inner.dport],
                        |b, entry| {
                            let [dst, dport] = ["new_addr", "new_port"].map(|f| b.get(entry, f));
                            let ports = Some(Ports::Both(inner.sport, dport));
                            leave.rewrite(b, entry, inner, [inner.src, dst], ports);
                        },
                        |_| {},
                    );
                }
                for &table in &tables {
                    b.lookup(
                        table,
                        &[yes, inner.proto, inner.src, inner.sport],
                        |b, entry| {
                            let [src, sport] = ["new_addr", "new_port"].map(|f| b.get(entry, f));
                            let ports = Some(Ports::Both(sport, inner.dport));
                            leave.rewrite(b, entry, inner, [src, inner.dst], ports);
                        },
                        |_| {},
                    );
                }
            });
            b.when(inner.has_id, |b| {
                b.lookup(
                    m.map,
                    &[yes, inner.proto, inner.src, inner.id],
                    |b, entry| {
                        let [src, id] = ["new_addr", "new_port"].map(|f| b.get(entry, f));
                        leave.rewrite(b, entry, inner, [src, inner.dst], Some(Ports::Id(id)));
                    },
                    |_| {},
                );
            });
        }
        Rewriter::Addresses(_) => {
            let (no, yes) = (b.constant(W1, 0_u8), b.constant(W1, 1_u8));
            b.lookup(
                m.map,
                &[no, inner.dst],
                |b, entry| {
                    let dst = b.get(entry, "new");
                    leave.rewrite(b, entry, inner, [inner.src, dst], None);
                },
                |_| {},
            );
            b.lookup(
                m.map,
                &[yes, inner.src],
                |b, entry| {
                    let src = b.get(entry, "new");
                    leave.rewrite(b, entry, inner, [src, inner.dst], None);
                },
                |_| {},
            );
        }
    }
}

/// The ports that the transport header of the packet in the error gets.
#[derive(Clone, Copy)]
enum Ports {
    /// Source and destination port.
    Both(V, V),
    /// Identifier of an echo.
    Id(V),
}

struct Leave<'a> {
    e: &'a ICMPRewriter,
    map: &'a Map,
    rewriter: &'a Rewriter,
}

impl Leave<'_> {
    fn rewrite(&self, b: &mut Builder, entry: E, inner: &Inner, [src, dst]: [V; 2], ports: Option<Ports>) {
        // The error goes to the sender of the packet.
        let outer = ipv4::DST.load(b);
        let to_sender = b.eq(outer, inner.src);
        b.when(to_sender, |b| {
            ipv4::DST.store(b, src);
            let (old, new) = (halves(b, outer), halves(b, src));
            update_ip_checksum(b, &old, &new);
            if self.e.dst_anno {
                b.store_anno(anno::DST_IP, src);
            }
        });
        if let Some(at) = self.e.reply_anno {
            let is_reply = b.get(entry, "reply");
            b.when(is_reply, |b| {
                let value = match self.rewriter.table().reply_anno {
                    Some(_) => b.get(entry, REPLY_ANNO.0),
                    None => b.constant(W8, 0_u8),
                };
                b.store_anno(at.0, value);
            });
        }
        b.require(Layer::Transport, INNER + 20, Reason::TRUNCATED);
        let old = [halves(b, inner.src), halves(b, inner.dst)].concat();
        let new = [halves(b, src), halves(b, dst)].concat();
        ipv4::SRC.at(Layer::Transport, INNER).store(b, src);
        ipv4::DST.at(Layer::Transport, INNER).store(b, dst);
        let sum = ipv4::CHECKSUM.at(Layer::Transport, INNER).load(b);
        let updated = update_checksum(b, sum, &old, &new);
        ipv4::CHECKSUM.at(Layer::Transport, INNER).store(b, updated);
        let addresses = checksum_change(b, &old, &new);
        let field = checksum_change(b, &[sum], &[updated]);
        let mut change = b.sum16(addresses, field);
        match ports {
            Some(Ports::Both(sport, dport)) => {
                self.go_to(b, inner);
                ports::SRC.at(Layer::Cursor, 0).store(b, sport);
                ports::DST.at(Layer::Cursor, 0).store(b, dport);
                let ports = checksum_change(b, &[inner.sport, inner.dport], &[sport, dport]);
                change = b.sum16(change, ports);
                let own = b.sum16(addresses, ports);
                change = transport(b, inner, own, change);
            }
            Some(Ports::Id(id)) => {
                self.go_to(b, inner);
                icmp::ID.at(Layer::Cursor, 0).store(b, id);
                let sum = icmp::CHECKSUM.at(Layer::Cursor, 0).load(b);
                let updated = update_checksum(b, sum, &[inner.id], &[id]);
                icmp::CHECKSUM.at(Layer::Cursor, 0).store(b, updated);
                let icmp = checksum_change(b, &[inner.id, sum], &[id, updated]);
                change = b.sum16(change, icmp);
            }
            None => change = self.checksum_only(b, inner, addresses, change),
        }
        b.require(Layer::Transport, INNER, Reason::TRUNCATED);
        let field = icmp::CHECKSUM.load(b);
        let sum = b.not(field);
        let sum = b.sum16(sum, change);
        let updated = b.not(sum);
        icmp::CHECKSUM.store(b, updated);
        match self.map.offset {
            None => b.emit(0),
            Some(offset) => {
                let output = b.get(entry, "output");
                let outputs = self.rewriter.table().inputs.outputs();
                let cases: Vec<u128> = outputs.iter().map(|&o| o.into()).collect();
                b.switch(output, &cases, |b, case| match case.and_then(|i| outputs.get(i)) {
                    Some(&out) => b.emit_or_drop(offset + out, Reason::UNCONNECTED),
                    None => b.drop(Reason::UNCONNECTED),
                });
            }
        }
    }

    /// Moves the cursor to the transport header of the packet, of which eight bytes are there.
    fn go_to(&self, b: &mut Builder, inner: &Inner) {
        b.require(Layer::Transport, inner.header_len, Reason::TRUNCATED);
        b.set_mark(Layer::Cursor, Layer::Transport, inner.header_len);
        b.require(Layer::Cursor, 8, Reason::TRUNCATED);
    }

    /// The transport checksum of a packet whose addresses alone change.
    fn checksum_only(&self, b: &mut Builder, inner: &Inner, addresses: V, change: V) -> V {
        let all = b.repeat(1, &[change], |b, round, vars| {
            b.unless(inner.has_ports, |b| round.leave(b, vars));
            self.go_to(b, inner);
            let all = transport(b, inner, addresses, change);
            round.leave(b, &[all]);
        });
        all[0]
    }
}

/// Updates the TCP or UDP checksum of the packet in the error, if it is there; gives the change of the whole error,
/// which is `change` so far.
fn transport(b: &mut Builder, inner: &Inner, own: V, change: V) -> V {
    let all = b.repeat(1, &[change], |b, round, vars| {
        let is_tcp = b.eq(inner.proto, proto::TCP);
        let update = |b: &mut Builder, at: u32| {
            let old = b.load(W16, Layer::Cursor, at);
            if at == 6 {
                let none = b.eq(old, 0);
                b.when(none, |b| round.leave(b, vars));
            }
            let sum = b.not(old);
            let sum = b.sum16(sum, own);
            let new = b.not(sum);
            b.store(Layer::Cursor, at, new);
            let field = checksum_change(b, &[old], &[new]);
            let all = b.sum16(vars[0], field);
            round.leave(b, &[all]);
        };
        b.when(is_tcp, |b| {
            b.require_or(Layer::Cursor, 18, |b| round.leave(b, vars));
            update(b, 16);
        });
        update(b, 6);
    });
    all[0]
}

#[cfg(test)]
mod tests;

use crate::fields::{icmp, ipv4, tcp};
use weir_net::Tcp;
use weir_table::Sharing;

use super::fragments::{Fragments, Rewritten};
use super::mapping::nanos;
use crate::prelude::*;

element! {
    /// Follows connections between two sides, so that rules have to decide about the first packet of each only: the state of a
    /// firewall.
    ///
    /// Packets of the inside come in on input 0, those of the outside on input 1. Packets of a known connection, and ICMP errors
    /// about its packets (RFC 792: unreachable, time exceeded, parameter problem), leave on the output of that number.
    /// Those that would begin a connection leave on outputs 2 and 3: what rules allow of them comes back on inputs 2 and 3, and leaves
    /// on outputs 0 and 1. Packets are not changed.
    ///
    /// A connection is a protocol with both addresses and both ports (TCP, UDP), with both addresses and the identifier (ICMP
    /// echo and timestamp requests, which the reply answers), or with both addresses (other protocols). It belongs to the side that
    /// began it. Dropped are packets that belong to none and can begin none (`NoConnection`): TCP without SYN, replies,
    /// errors about what is not known, other ICMP, and packets of a connection that come from the wrong side; TCP flags that
    /// make no sense (`BadFlags`); and packets too short for their transport header (`Truncated`). TCP's sequence numbers are not looked at.
    ///
    /// Fragments beyond the first take the path of the first one, for which they wait up to ten seconds (then `TimedOut`); at
    /// most 16 of a packet wait (`Full`). When there are `CAPACITY` connections, a new one evicts the one that
    /// expires next if nobody has answered it, or it is over; else its packet is dropped (`Full`).
    ///
    /// The `net` mark has to stand on a checked IPv4 header.
    ConnectionTracker: "4/4", "h/h";
    example "track :: ConnectionTracker;
        Idle -> CheckIPHeader(14) -> track -> Discard; Idle -> CheckIPHeader(14) -> [1] track [1] -> Discard;
        track [2] -> IPFilter(allow tcp dst port 80, deny all) -> [2] track; track [3] -> IPFilter(deny all) -> [3] track;";
    params {
        /// Lifetime of TCP connections without packets (RFC 5382: at least 124 minutes).
        key tcp_timeout: Duration = Duration::from_secs(7440) => "124 min",
        /// The same for those that both sides have ended, or one has reset.
        key tcp_done_timeout: Duration = Duration::from_secs(10) => "10 s",
        /// The same for those that nobody has answered yet.
        key tcp_new_timeout: Duration = Duration::from_secs(60) => "1 min",
        /// Lifetime of UDP connections without packets (RFC 4787: at least 2 minutes).
        key udp_timeout: Duration = Duration::from_secs(180) => "3 min",
        /// The same for those that nobody has answered yet, and for ICMP.
        key udp_new_timeout: Duration = Duration::from_secs(30) => "30 s",
        /// Lifetime of connections of other protocols.
        key other_timeout: Duration = Duration::from_secs(600) => "10 min",
        /// Most connections.
        key capacity: u32 = 1 << 16 => "65536",
    }
    handlers {
        /// Number of connections.
        read connections = |_, s| Ok(s.table("connections").len().to_string()),
        /// One line a connection: protocol, who began it, with whom, the side that began it, whether it is new, answered or over,
        /// and seconds left.
        read table = |_, s| Ok(list(s)),
        /// Forgets all connections.
        write clear = |_, s, _| {
            s.table_mut("connections").clear();
            Ok(())
        },
    }
}

/// Bits of a connection's state: answered; FIN from who began it, from the other; RST.
const ANSWERED: u8 = 1;
const FINS: [u8; 2] = [2, 4];
const RESET: u8 = 8;

/// ICMP types (RFC 792).
const REQUESTS: [u128; 2] = [8, 13];
const REPLIES: [u128; 2] = [0, 14];
const ERRORS: [u128; 3] = [3, 11, 12];
/// Where the packet in an error begins, from the ICMP header on.
const INNER: u32 = 8;

fn no_connection() -> Reason {
    Reason::new("NoConnection")
}

#[derive(Clone, Copy)]
struct Tables {
    connections: TableId,
    fragments: Fragments,
    capacity: u32,
}

/// The connection of a packet, as its headers say.
#[derive(Clone, Copy)]
struct Flow {
    ends: Ends,
    /// Whether it may be one of who began the connection, or one of the other.
    forth: V,
    back: V,
    /// Whether it may begin one.
    begins: V,
    fin: V,
    reset: V,
    /// Lifetimes before an answer, after it, and at the end.
    lifetimes: [V; 3],
}

/// Protocol, and address and port of both ends.
#[derive(Clone, Copy)]
struct Ends {
    proto: V,
    src: V,
    sport: V,
    dst: V,
    dport: V,
}

impl Ends {
    fn key(self) -> [V; 5] {
        [self.proto, self.src, self.sport, self.dst, self.dport]
    }

    fn reversed(self) -> Ends {
        Ends { src: self.dst, sport: self.dport, dst: self.src, dport: self.sport, ..self }
    }
}

fn program(e: &ConnectionTracker, b: &mut Builder) {
    let key = [("proto", W8), ("src", W32), ("sport", W16), ("dst", W32), ("dport", W16)];
    let value = [("side", W1), ("state", W8)];
    let decl = TableDecl::new("connections", Kind::Exact, &key, &value, e.capacity.max(1));
    let connections = b.table(decl.sharing(Sharing::Shared), vec![]);
    let t = Tables { connections, fragments: Fragments::declare(b), capacity: e.capacity.max(1) };
    for side in 0..2_u32 {
        b.input(side, |b| {
            let flow = flow(b, e, t, side);
            b.lookup_if(flow.forth, t, flow.ends.key(), |b, c| known(b, t, c, &flow, side, true));
            b.lookup_if(flow.back, t, flow.ends.reversed().key(), |b, c| known(b, t, c, &flow, side, false));
            b.unless(flow.begins, |b| b.drop(no_connection()));
            b.emit(2 + side);
        });
        b.input(2 + side, |b| {
            let flow = flow(b, e, t, side);
            b.unless(flow.begins, |b| b.drop(no_connection()));
            // Another packet of it may have come meanwhile.
            b.lookup(t.connections, &flow.ends.key(), |b, c| known(b, t, c, &flow, side, true), |_| {});
            begin(b, t, &flow, side);
        });
    }
}

/// Looks a connection up if the packet may be of that direction.
trait LookupIf {
    fn lookup_if(&mut self, cond: V, t: Tables, key: [V; 5], hit: impl FnOnce(&mut Builder, E));
}

impl LookupIf for Builder {
    fn lookup_if(&mut self, cond: V, t: Tables, key: [V; 5], hit: impl FnOnce(&mut Builder, E)) {
        self.when(cond, |b| b.lookup(t.connections, &key, hit, |_| {}));
    }
}

/// Reads what a packet says of its connection. Fragments beyond the first and ICMP errors end here.
fn flow(b: &mut Builder, e: &ConnectionTracker, t: Tables, side: u32) -> Flow {
    require_ip(b);
    mark_transport(b, |b| t.fragments.later(b, &pass), |b| b.drop(Reason::TRUNCATED));
    let proto = ipv4::PROTOCOL.load(b);
    let [no, yes] = [0_u8, 1].map(|v| b.constant(W1, v));
    let none = b.constant(W16, 0_u16);
    let lifetimes = |b: &mut Builder, all: [Duration; 3]| all.map(|d| b.constant(W64, nanos(d)));
    let udp = lifetimes(b, [e.udp_new_timeout, e.udp_timeout, e.udp_timeout]);
    let init = [none, none, no, no, no, no, no, udp[0], udp[1], udp[2]];
    let v = b.repeat(1, &init, |b, round, _| {
        let leave = |b: &mut Builder, ports: [V; 2], flags: [V; 5], lives: [V; 3]| {
            round.leave(b, &[&ports[..], &flags, &lives].concat());
        };
        b.switch(proto, &[proto::TCP.into(), proto::UDP.into(), proto::ICMP.into()], |b, case| match case {
            Some(0) => {
                b.require(Layer::Transport, 20, Reason::TRUNCATED);
                let ports = [0, 2].map(|off| b.load(W16, Layer::Transport, off));
                let [begins, fin, reset] = tcp(b);
                let lives = lifetimes(b, [e.tcp_new_timeout, e.tcp_timeout, e.tcp_done_timeout]);
                leave(b, ports, [yes, yes, begins, fin, reset], lives);
            }
            Some(1) => {
                b.require(Layer::Transport, 8, Reason::TRUNCATED);
                let ports = [0, 2].map(|off| b.load(W16, Layer::Transport, off));
                leave(b, ports, [yes, yes, yes, no, no], udp);
            }
            Some(_) => {
                b.require(Layer::Transport, 8, Reason::TRUNCATED);
                let kind = icmp::TYPE.load(b);
                let id = icmp::ID.load(b);
                let short = [udp[0]; 3];
                b.switch(kind, &[&REQUESTS[..], &REPLIES, &ERRORS].concat(), |b, case| match case {
                    Some(0 | 1) => leave(b, [id, id], [yes, no, yes, no, no], short),
                    Some(2 | 3) => leave(b, [id, id], [no, yes, no, no, no], short),
                    Some(_) => error(b, t, side),
                    None => b.drop(no_connection()),
                });
            }
            None => {
                let lives = lifetimes(b, [e.other_timeout; 3]);
                leave(b, [none, none], [yes, yes, yes, no, no], lives);
            }
        });
    });
    let (src, dst) = (ipv4::SRC.load(b), ipv4::DST.load(b));
    let ends = Ends { proto, src, sport: v[0], dst, dport: v[1] };
    let [forth, back, begins, fin, reset] = [v[2], v[3], v[4], v[5], v[6]];
    Flow { ends, forth, back, begins, fin, reset, lifetimes: [v[7], v[8], v[9]] }
}

/// Whether a TCP segment begins a connection, and ends it by FIN or RST.
fn tcp(b: &mut Builder) -> [V; 3] {
    let flags = tcp::FLAGS.load(b);
    let deciding = b.and(flags, Tcp::SYN | Tcp::ACK | Tcp::RST | Tcp::FIN);
    let has = |b: &mut Builder, flag: u8| {
        let bit = b.and(flags, flag);
        b.ne(bit, 0)
    };
    let (syn, fin, reset) = (has(b, Tcp::SYN), has(b, Tcp::FIN), has(b, Tcp::RST));
    let ends = b.or(fin, reset);
    let both = b.and(syn, ends);
    let none = b.eq(deciding, 0);
    let wrong = b.or(both, none);
    b.when(wrong, |b| b.drop(Reason::new("BadFlags")));
    [b.eq(deciding, Tcp::SYN), fin, reset]
}

/// A packet of a connection: keeps it alive and passes. One that begins another in the place of one that is over goes on.
fn known(b: &mut Builder, t: Tables, c: E, flow: &Flow, side: u32, forth: bool) {
    let state = b.get(c, "state");
    let over = is_over(b, state);
    let again = b.and(over, flow.begins);
    // Protocols without an end are never over.
    b.if_else(
        again,
        |b| b.remove(c),
        |b| {
            belongs(b, c, if forth { side } else { 1 - side });
            let fin = b.constant(W8, FINS[usize::from(!forth)]);
            let fin = b.select(flow.fin, fin, 0_u8);
            let reset = b.constant(W8, RESET);
            let reset = b.select(flow.reset, reset, 0_u8);
            let new = b.or(state, fin);
            let new = b.or(new, reset);
            let new = if forth { new } else { b.or(new, ANSWERED) };
            let changed = b.ne(new, state);
            b.when(changed, |b| b.set(c, "state", new));
            let answered = b.and(new, ANSWERED);
            let answered = b.ne(answered, 0);
            let over = is_over(b, new);
            let lifetime = b.select(answered, flow.lifetimes[1], flow.lifetimes[0]);
            let lifetime = b.select(over, flow.lifetimes[2], lifetime);
            b.touch(c, lifetime);
            leave(b, t, side);
        },
    );
}

/// Ends a packet unless its connection was begun by that side.
fn belongs(b: &mut Builder, c: E, side: u32) {
    let from = b.get(c, "side");
    let wrong = b.ne(from, side);
    b.when(wrong, |b| b.drop(no_connection()));
}

/// Whether both sides have sent FIN, or one RST.
fn is_over(b: &mut Builder, state: V) -> V {
    let fins = b.and(state, FINS[0] | FINS[1]);
    let both = b.eq(fins, FINS[0] | FINS[1]);
    let reset = b.and(state, RESET);
    let reset = b.ne(reset, 0);
    b.or(both, reset)
}

/// Makes a connection of a packet that was allowed.
fn begin(b: &mut Builder, t: Tables, flow: &Flow, side: u32) {
    let size = b.size(t.connections);
    let full = b.ge(size, t.capacity);
    b.when(full, |b| {
        let (next, _) = b.soonest(t.connections, |b| b.drop(Reason::FULL));
        let state = b.get(next, "state");
        let new = b.and(state, ANSWERED);
        let new = b.eq(new, 0);
        let over = is_over(b, state);
        let spare = b.or(new, over);
        b.unless(spare, |b| b.drop(Reason::FULL));
        b.remove(next);
    });
    let c = b.insert(t.connections, &flow.ends.key(), |b| b.drop(Reason::FULL));
    b.set(c, "side", side);
    b.set(c, "state", 0_u8);
    b.touch(c, flow.lifetimes[0]);
    leave(b, t, side);
}

/// An error passes if it is about a packet of a connection, comes from where that packet went, and goes to who sent it.
fn error(b: &mut Builder, t: Tables, side: u32) {
    b.require(Layer::Transport, INNER + 20, Reason::TRUNCATED);
    let first = b.load(W8, Layer::Transport, INNER);
    let version = b.shr(first, 4);
    let words = b.and(first, 15);
    let (other, short) = (b.ne(version, 4), b.lt(words, 5));
    let wrong = b.or(other, short);
    b.when(wrong, |b| b.drop(Reason::BAD_HEADER));
    let fragment = ipv4::FRAGMENT.at(Layer::Transport, INNER).load(b);
    let offset = b.and(fragment, 0x1fff);
    let later = b.ne(offset, 0);
    b.when(later, |b| b.drop(no_connection()));
    let header_len = b.shl(words, 2);
    let header_len = b.resize(W32, header_len);
    let header_len = b.add(header_len, INNER);
    b.require(Layer::Transport, header_len, Reason::TRUNCATED);
    b.set_mark(Layer::Cursor, Layer::Transport, header_len);
    b.require(Layer::Cursor, 8, Reason::TRUNCATED);
    let proto = ipv4::PROTOCOL.at(Layer::Transport, INNER).load(b);
    let (src, dst) =
        (ipv4::SRC.at(Layer::Transport, INNER).load(b), ipv4::DST.at(Layer::Transport, INNER).load(b));
    let to = ipv4::DST.load(b);
    let elsewhere = b.ne(to, src);
    b.when(elsewhere, |b| b.drop(no_connection()));
    let none = b.constant(W16, 0_u16);
    let ports = b.repeat(1, &[none, none], |b, round, _| {
        b.switch(proto, &[proto::TCP.into(), proto::UDP.into(), proto::ICMP.into()], |b, case| match case {
            Some(2) => {
                let id = icmp::ID.at(Layer::Cursor, 0).load(b);
                round.leave(b, &[id, id]);
            }
            Some(_) => {
                let ports = [0, 2].map(|off| b.load(W16, Layer::Cursor, off));
                round.leave(b, &ports);
            }
            None => round.leave(b, &[none, none]),
        });
    });
    let ends = Ends { proto, src, sport: ports[0], dst, dport: ports[1] };
    for (key, by) in [(ends.key(), 1 - side), (ends.reversed().key(), side)] {
        let hit = |b: &mut Builder, c: E| {
            belongs(b, c, by);
            b.emit(side);
        };
        b.lookup(t.connections, &key, hit, |_| {});
    }
    b.drop(no_connection());
}

/// A packet passes, and its later fragments with it.
fn leave(b: &mut Builder, t: Tables, side: u32) {
    let (src, dst) = (ipv4::SRC.load(b), ipv4::DST.load(b));
    let output = b.constant(W16, side);
    t.fragments.first(b, &pass, Rewritten { src, dst, output });
    b.emit(side);
}

/// Lets a fragment leave as its first one did.
fn pass(b: &mut Builder, like: Rewritten) {
    b.switch(like.output, &[0, 1], |b, case| match case {
        Some(side) => b.emit(side as u32),
        None => b.drop(Reason::UNCONNECTED),
    });
}

fn list(s: &State<'_>) -> String {
    let table = s.table("connections");
    let line = |slot: u32| {
        let key = |i| table.key(slot, i) as u32;
        let value = |name| table.decl().value_field(name).map_or(0, |i| table.get(slot, i)) as u8;
        let (name, ports) = match key(0) as u8 {
            proto::TCP => ("tcp".to_owned(), true),
            proto::UDP => ("udp".to_owned(), true),
            proto::ICMP => ("icmp".to_owned(), false),
            other => (format!("protocol {other}"), false),
        };
        let end = |addr, port: u32| match ports {
            true => format!("{}:{port}", Ipv4Addr::from(addr)),
            false => Ipv4Addr::from(addr).to_string(),
        };
        let state = value("state");
        let over = state & RESET != 0 || FINS.iter().all(|f| state & f != 0);
        let state = match (over, state & ANSWERED) {
            (true, _) => "over",
            (_, 0) => "new",
            _ => "answered",
        };
        let side = if value("side") == 0 { "inside" } else { "outside" };
        let left = table.expiry(slot).saturating_sub(s.now) / 1_000_000_000;
        format!("{name} {} -> {} {side} {state} {left}\n", end(key(1), key(2)), end(key(3), key(4)))
    };
    let mut lines: Vec<String> = table.rows().iter().map(|(slot, _)| line(*slot)).collect();
    lines.sort();
    lines.concat()
}

#[cfg(test)]
mod tests;

use super::eviction::Spare;
use super::fragments::{Fragments, Rewritten};
use super::listing::{Mapping, mappings, pattern, patterns, set_capacity};
use super::live::{self, Part};
use super::mapping::{self, Mappings, nanos};
use super::params::{Anno, Capacity};
use super::pattern::{InputSpec, InputSpecs, Pattern, Rule};
use crate::fields::{icmp, ipv4};
use crate::prelude::*;

mod filtering;
mod forward;
mod tcp;

use filtering::{Filtering, Pair, PeerTable};
use forward::{Forward, Forwards};
use tcp::{Entry, STATE, Timeouts};

element! {
    /// Rewrites the source address and port of TCP and UDP packets, and the identifier of ICMP echo requests, the same for all
    /// destinations: an address translation whose mappings are independent of the other endpoint (RFC 4787, RFC 5382, RFC 5508,
    /// RFC 7857).
    ///
    /// A table of *mappings* pairs endpoints (protocol, address, and port or identifier) with outer ones. An *input
    /// specification* says what an input does, as in `IPRewriter`. On an input that makes mappings (`keep FOUTPUT ROUTPUT`,
    /// `pattern SADDR SPORT - - FOUTPUT ROUTPUT`, `pattern NAME FOUTPUT ROUTPUT` or `ELEMENT`), packets get the outer endpoint of
    /// their source as their source, with a new mapping if they have none. On the others (`drop`, `pass OUTPUT`), packets to an
    /// outer endpoint get the endpoint it stands for as their destination. An outer port belongs to one endpoint at a time; that
    /// of the packet is taken if it is free. If none is, the packet is dropped (`NoPort`). When the table has `MAPPING_CAPACITY`
    /// mappings, the one that expires next is evicted.
    ///
    /// `FILTERING` says who may send to an outer endpoint: everybody (`endpoint-independent`), the addresses that it has sent to
    /// (`address-dependent`), or the addresses and ports (`address-and-port-dependent`; identifiers of pings have no port, and
    /// for them it is the same). Packets of others are dropped (`Filtered`) and keep no mapping alive. Of whom endpoints have
    /// sent to, `PEER_CAPACITY` are remembered; then the one that expires next is evicted. `ICMPRewriter` does not ask it.
    ///
    /// `FORWARD` gives outer ports to inside endpoints for good: `FORWARD "tcp 8080 10.0.0.5 80, udp 53 10.0.0.6"`. Each entry is
    /// a protocol, the outer port, an address, and its port if that is another. The outer address is that of the first pattern
    /// that has one. Whoever is outside may send to them, their answers come from them, and no mapping gets those ports.
    ///
    /// So an inside host reaches another by its outer endpoint, if packets that leave for the outer address come in again on an
    /// input (hairpinning). Fragments beyond the first are rewritten as the first one, for which they wait up to ten seconds
    /// (then `TimedOut`); at most 16 of a packet wait (`Full`).
    ///
    /// Echo requests to an outer endpoint and replies from an inside one have no mapping. Packets without a mapping (`NoMatch`), of
    /// other protocols (`NotRewritable`) and too short for their transport header (`Truncated`) are dropped, or leave unchanged if
    /// the input's specification is `pass`. The `net` mark has to stand on a checked IPv4 header. Checksums are updated, also
    /// where the sender's kernel left them to the device. `ICMPRewriter` translates errors by these mappings.
    IPEndpointRewriter: "1-/1-", "h/h";
    example "Idle -> CheckIPHeader -> rw :: IPEndpointRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// One for each input.
        rest inputs: InputSpecs,
        /// Lifetime of TCP mappings without packets (RFC 5382: at least 124 minutes).
        key tcp_timeout: Duration = Duration::from_secs(7440) => "124 min",
        /// The same for a connection that has only begun (RFC 7857: 4 minutes).
        key tcp_new_timeout: Duration = Duration::from_secs(240) => "4 min",
        /// The same for a connection that a side has ended or reset (RFC 5382: at least 4 minutes).
        key tcp_done_timeout: Duration = Duration::from_secs(240) => "4 min",
        /// Lifetime of UDP mappings without packets (RFC 4787: at least 2 minutes).
        key udp_timeout: Duration = Duration::from_secs(300) => "5 min",
        /// Lifetime of the mappings of pings (RFC 5508: at least a minute).
        key icmp_timeout: Duration = Duration::from_secs(60) => "1 min",
        /// Whether UDP packets and ping replies from outside keep a mapping alive, as those from inside do (RFC 4787, REQ-6).
        key inbound_refresh: bool = true,
        /// Who may send to a mapping: `endpoint-independent`, `address-dependent` or `address-and-port-dependent`.
        key filtering: Filtering = Filtering::EndpointIndependent => "endpoint-independent",
        /// Of whom mappings have sent to, the most that are remembered for filtering.
        key peer_capacity: u32 = 1 << 18 => "262144",
        /// Ports that are forwarded: `PROTOCOL PORT ADDRESS [PORT]`, separated by commas, in quotation marks.
        key forward: Forwards = Forwards::default() => "\"\"",
        /// Most mappings: a number, or the name of another rewriter, to have no more than that with it together.
        key mapping_capacity: Capacity = Capacity::DEFAULT => "1048576",
        /// Another name of MAPPING_CAPACITY.
        key capacity: Option<Capacity> = None,
        /// Annotation byte (`PAINT`, or its offset) that replies get from the first packet of their mapping.
        key reply_anno: Option<Anno> = None,
    }
    check |e| e.inputs.check(Pattern::only_source).and_then(|()| e.forward.check_servers(&e.inputs));
    handlers {
        /// Number of mappings, without ports that are forwarded.
        read nmappings = |_, s| Ok(mappings(s).to_string()),
        /// Number of mappings, without ports that are forwarded.
        read size = |_, s| Ok(mappings(s).to_string()),
        /// Number of packets that got no mapping because no port or no place was free.
        count mapping_failures,
        /// Most mappings. When it is lowered, those that expire next go.
        count capacity,
        write capacity = |_, s, v| set_capacity(s, v),
        /// Removes all mappings, but for ports that are forwarded.
        write clear = |e, s, _| {
            s.table_mut("map").clear();
            if e.filtering != Filtering::EndpointIndependent {
                s.table_mut("peers").clear();
            }
            Ok(())
        },
        /// The pattern of each input.
        read patterns = |e, s| Ok(patterns(&e.inputs, s)),
        /// The pattern of input N.
        each pattern = |e, s, i| pattern(&e.inputs, s, i),
        /// Another pattern for input N, which changes the same parts and has the same outputs; the mappings that the input has
        /// made go.
        set_each pattern = |e, s, i, v| {
            e.forward.allow_pattern(&e.inputs, i)?;
            live::set(&e.inputs, s, i, v)
        },
        /// All entries, one a line: protocol, endpoint, new endpoint, outputs (that of this direction with a star), input, seconds
        /// left; before them ports that are forwarded.
        read table = |e, s| Ok(e.forward.list(&e.inputs) + &list(e, s)),
        /// Who may send to which endpoint, one a line: protocol, endpoint, the other, seconds left. Nothing if all may.
        read peers = |e, s| match e.filtering {
            Filtering::EndpointIndependent => Ok(String::new()),
            _ => Ok(filtering::list(s)),
        },
    }
    ports |e| e.inputs.ports();
    resolve |e, peers| {
        e.inputs.resolve(e.capacity.as_ref().unwrap_or(&e.mapping_capacity), peers)?;
        let wrong = e.inputs.check(Pattern::only_source).and_then(|()| match e.forward.outer(&e.inputs) {
            Ok(None) if !e.forward.is_empty() => Err("FORWARD: no pattern has one source address".to_owned()),
            outer => outer.and_then(|_| e.forward.check_servers(&e.inputs)),
        });
        wrong.map_err(|e| e.lines().map(str::to_owned).collect())
    };
    adopted |e, s| e.remove_stale(s);
}

/// Key fields of the table: whether the endpoint is a destination, protocol, address, and port.
const ADDR: u32 = 2;
const PORT: u32 = 3;

/// ICMP types (RFC 792).
const REQUEST: u128 = 8;
const REPLY: u128 = 0;

impl IPEndpointRewriter {
    /// Removes mappings whose outer endpoint the patterns no longer give, or that is forwarded now: answers to it would go
    /// elsewhere.
    fn remove_stale(&self, s: &mut State<'_>) {
        let patterns: Vec<Option<Pattern>> = self.inputs.rules().map(|(_, rule)| rule.pattern).collect();
        let outer = self.forward.outer(&self.inputs).ok().flatten();
        live::remove_mappings(s, |map, slot| {
            let [is_dst, proto, addr, port] = [0, 1, ADDR, PORT].map(|field| map.key(slot, field));
            if is_dst == 0 {
                // That of the other direction goes with it.
                return false;
            }
            let rule = map.get(slot, map.decl().value_field(mapping::RULE).unwrap_or(0));
            let gives = |p: Option<Pattern>| p.is_none_or(|p| p.src.gives(addr) && p.sport.gives(port));
            let is_given = patterns.get(rule as usize).is_some_and(|p| gives(*p));
            let forwards = |f: &Forward| (u128::from(f.proto), u128::from(f.outer)) == (proto, port);
            let is_outer = outer.is_some_and(|o| u128::from(o.addr) == addr);
            !is_given || is_outer && self.forward.0.iter().any(forwards)
        });
    }

    /// What its tables follow from.
    pub(super) fn settings(&self, name: &str) -> mapping::Settings {
        mapping::Settings {
            name: name.to_owned(),
            inputs: self.inputs.clone(),
            capacity: self.capacity.as_ref().unwrap_or(&self.mapping_capacity).number(&self.inputs.1),
            reply_anno: self.reply_anno.map(|a| a.0),
            key: &[("is_dst", W1), ("proto", W8), ("addr", W32), ("port", W16)],
            value: &[("new_addr", W32), ("new_port", W16), (STATE, W8)],
            spare: Spare::Same(self.tcp_timeout, Duration::ZERO),
            fixed: self.forward.rows(&self.inputs, self.reply_anno.is_some()),
        }
    }
}

/// A packet with the port or identifier of one of its endpoints, and the other port where filtering asks for it (else 0).
#[derive(Clone, Copy)]
struct Ends {
    proto: V,
    src: V,
    dst: V,
    port: V,
    other_port: V,
}

/// The endpoint that is rewritten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
}

impl Side {
    /// Offset of its port in a header of TCP or UDP.
    fn port(self) -> u32 {
        match self {
            Side::Source => 0,
            Side::Destination => 2,
        }
    }

    fn other(self) -> Side {
        match self {
            Side::Source => Side::Destination,
            Side::Destination => Side::Source,
        }
    }
}

impl Ends {
    fn key(self, b: &mut Builder, side: Side) -> [V; 4] {
        match side {
            Side::Source => [b.constant(W1, 0_u8), self.proto, self.src, self.port],
            Side::Destination => [b.constant(W1, 1_u8), self.proto, self.dst, self.port],
        }
    }
}

fn program(e: &IPEndpointRewriter, b: &mut Builder) {
    let name = b.name().to_owned();
    let m = Mappings::declare(b, &e.settings(&name), "");
    let fragments = Fragments::declare(b);
    let peers = PeerTable::declare(b, e.filtering, e.peer_capacity);
    let parts = Parts { e, m: &m, fragments, peers };
    for (input, spec) in e.inputs.0.iter().enumerate().take(b.inputs() as usize) {
        b.input(input as u32, |b| {
            let refuse = |reason: Reason| {
                move |b: &mut Builder| match spec {
                    InputSpec::Pass(out) => b.emit(*out),
                    _ => b.drop(reason),
                }
            };
            require_ip(b);
            mark_transport(b, |b| fragments.later(b, &|b, new| leave(b, &m, new)), refuse(Reason::TRUNCATED));
            let side = match spec {
                InputSpec::Map(_) | InputSpec::Mapper(_) => Side::Source,
                InputSpec::Drop | InputSpec::Pass(_) => Side::Destination,
            };
            let p = ends(b, side, e.filtering, refuse);
            let key = p.key(b, side);
            if let Some(fixed) = m.fixed {
                b.lookup(fixed, &key, |b, entry| parts.forward(b, entry, p, side), |_| {});
            }
            b.lookup(m.map, &key, |b, entry| parts.apply(b, entry, p, side, None), |_| {});
            m.unknown(
                b,
                &e.inputs,
                input,
                (&key, p.src),
                &|b, number, rule| new_mapping(b, &m, number, rule, p),
                &|b, entry, first| parts.apply(b, entry, p, Side::Source, first),
            );
        });
    }
}

/// Reads what identifies an endpoint of a packet with a `transport` mark; so many bytes are there as the header of its protocol has.
fn ends<F: FnOnce(&mut Builder)>(
    b: &mut Builder,
    side: Side,
    filtering: Filtering,
    refuse: impl Fn(Reason) -> F,
) -> Ends {
    let proto = ipv4::PROTOCOL.load(b);
    let none = b.constant(W16, 0_u16);
    let both = filtering == Filtering::AddressAndPortDependent;
    let ports = b.repeat(1, &[none, none][..1 + usize::from(both)], |b, round, _| {
        b.switch(proto, &[proto::TCP.into(), proto::UDP.into(), proto::ICMP.into()], |b, case| {
            let Some(case) = case else { return refuse(Reason::new("NotRewritable"))(b) };
            b.require_or(Layer::Transport, if case == 0 { 20 } else { 8 }, refuse(Reason::TRUNCATED));
            if case < 2 {
                let mut ports = vec![b.load(W16, Layer::Transport, side.port())];
                if both {
                    ports.push(b.load(W16, Layer::Transport, side.other().port()));
                }
                return round.leave(b, &ports);
            }
            let kind = icmp::TYPE.load(b);
            let id = icmp::ID.load(b);
            // An identifier is the port of who asks.
            let own = if side == Side::Source { 0 } else { 1 };
            b.switch(kind, &[REQUEST, REPLY], |b, case| match case {
                Some(kind) if kind == own => round.leave(b, &[id, none][..1 + usize::from(both)]),
                Some(_) => refuse(Reason::NO_MATCH)(b),
                None => refuse(Reason::new("NotRewritable"))(b),
            });
        });
    });
    let (src, dst) = (ipv4::SRC.load(b), ipv4::DST.load(b));
    Ends { proto, src, dst, port: ports[0], other_port: ports.get(1).copied().unwrap_or(none) }
}

fn new_mapping(b: &mut Builder, m: &Mappings, number: usize, rule: &Rule, p: Ends) -> Option<E> {
    let pattern = rule.pattern?;
    m.require_space(b, number, p.proto);
    let live = m.live(b, number, &pattern);
    let key = p.key(b, Side::Source);
    let yes = b.constant(W1, 1_u8);
    let (mut addr, mut port) = (live.src.fixed(p.src), live.sport.fixed(p.port));
    let outer = [yes, p.proto, addr, port];
    let (forward, reply) = match (live.src, live.sport) {
        (_, Part::OneOf(range)) => {
            let (f, r, value) = m.claim_pair(b, number, &key, &outer, PORT, range, Some(p.port));
            port = value;
            (f, r)
        }
        (Part::OneOf(range), _) => {
            let (f, r, value) = m.claim_pair(b, number, &key, &outer, ADDR, range, None);
            addr = value;
            (f, r)
        }
        _ => m.insert_pair(b, &key, &outer),
    };
    for (e, addr, port) in [(reply, p.src, p.port), (forward, addr, port)] {
        b.set(e, "new_addr", addr);
        b.set(e, "new_port", port);
    }
    m.tie(b, (forward, reply), number, rule.outputs);
    Some(forward)
}

/// The tables and parameters that rewriting a packet needs.
#[derive(Clone, Copy)]
struct Parts<'a> {
    e: &'a IPEndpointRewriter,
    m: &'a Mappings,
    fragments: Fragments,
    peers: Option<PeerTable>,
}

impl Parts<'_> {
    /// Rewrites the packet as its entry says, and lets it leave. `first` is the output of a packet that has made the mapping.
    fn apply(self, b: &mut Builder, entry: E, p: Ends, side: Side, first: Option<u32>) {
        let (addr, port) = (b.get(entry, "new_addr"), b.get(entry, "new_port"));
        if let (Some(peers), Side::Destination) = (self.peers, side) {
            peers.require(b, &[p.proto, addr, port, p.src, p.other_port]);
        }
        let output = match first {
            Some(out) => b.constant(W16, out),
            None => {
                self.m.annotate(b, entry);
                b.get(entry, "output")
            }
        };
        let keep = |b: &mut Builder, case: Option<usize>| {
            let outbound = side == Side::Source;
            let is_dst = b.constant(W1, u8::from(outbound));
            let other = [is_dst, p.proto, addr, port];
            let tie = Entry { entry, outbound, other: Some((self.m.map, other)) };
            self.keep(b, case, tie, first.is_some());
            if let (Some(peers), true) = (self.peers, outbound) {
                let pair: Pair = [p.proto, p.src, p.port, p.dst, p.other_port];
                peers.remember(b, &pair, |b, entry, is_new| {
                    self.keep(b, case, Entry { entry, outbound, other: None }, is_new);
                });
            }
        };
        self.rewrite(b, p, side, (addr, port, output), &keep);
        match first {
            Some(out) => b.emit(out),
            None => self.m.emit(b, output),
        }
    }

    /// The same for a port that is forwarded, which needs no packets to stay, and lets in those of everybody.
    fn forward(self, b: &mut Builder, entry: E, p: Ends, side: Side) {
        let (addr, port, output) =
            (b.get(entry, "new_addr"), b.get(entry, "new_port"), b.get(entry, "output"));
        self.rewrite(b, p, side, (addr, port, output), &|_, _| {});
        self.m.emit(b, output);
    }

    /// Gives a packet its new address and port, and the later fragments of it too. `keep` gets its protocol: TCP (0), UDP (1)
    /// or ICMP; the header is there.
    fn rewrite(
        self,
        b: &mut Builder,
        p: Ends,
        side: Side,
        (addr, port, output): (V, V, V),
        keep: &dyn Fn(&mut Builder, Option<usize>),
    ) {
        let (old_addr, old_port) = (if side == Side::Source { p.src } else { p.dst }, p.port);
        let (src, dst) = if side == Side::Source { (addr, p.dst) } else { (p.src, addr) };
        let released = |b: &mut Builder, new| {
            require_ip(b);
            leave(b, self.m, new);
        };
        self.fragments.first(b, &released, Rewritten { src, dst, output });
        b.store(Layer::Net, if side == Side::Source { 12 } else { 16 }, addr);
        if side == Side::Destination {
            b.store_anno(anno::DST_IP, addr);
        }
        let (old, new) = (halves(b, old_addr), halves(b, addr));
        update_ip_checksum(b, &old, &new);
        b.switch(p.proto, &[proto::TCP.into(), proto::UDP.into()], |b, case| {
            // Known already, but not where the protocols have met.
            b.require(Layer::Transport, if case == Some(0) { 20 } else { 8 }, Reason::TRUNCATED);
            match case {
                Some(case) => {
                    b.store(Layer::Transport, side.port(), port);
                    let (field, udp) = if case == 0 { (16, false) } else { (6, true) };
                    update_transport_checksum(b, field, udp, [&old, &new], [&[old_port], &[port]]);
                }
                None => {
                    icmp::ID.store(b, port);
                    let sum = icmp::CHECKSUM.load(b);
                    let updated = update_checksum(b, sum, &[old_port], &[port]);
                    icmp::CHECKSUM.store(b, updated);
                }
            }
            keep(b, case);
        });
    }

    /// Prolongs the life of an entry that a packet of a protocol has used, or made.
    fn keep(self, b: &mut Builder, case: Option<usize>, tie: Entry, is_new: bool) {
        let e = self.e;
        let tcp = Timeouts { new: e.tcp_new_timeout, open: e.tcp_timeout, done: e.tcp_done_timeout };
        match case {
            Some(0) if is_new => b.touch(tie.entry, nanos(tcp.new)),
            Some(0) => tcp.follow(b, tie),
            // The first is both directions'.
            _ if !(tie.outbound || e.inbound_refresh) => {}
            Some(_) => b.touch(tie.entry, nanos(e.udp_timeout)),
            None => b.touch(tie.entry, nanos(e.icmp_timeout)),
        }
    }
}

/// Rewrites the addresses of a fragment beyond the first, and lets it leave.
fn leave(b: &mut Builder, m: &Mappings, new: Rewritten) {
    let (src, dst) = (ipv4::SRC.load(b), ipv4::DST.load(b));
    ipv4::SRC.store(b, new.src);
    ipv4::DST.store(b, new.dst);
    b.store_anno(anno::DST_IP, new.dst);
    let old = [halves(b, src), halves(b, dst)].concat();
    let new_words = [halves(b, new.src), halves(b, new.dst)].concat();
    update_ip_checksum(b, &old, &new_words);
    m.emit(b, new.output);
}

fn list(e: &IPEndpointRewriter, s: &State<'_>) -> String {
    let line = |m: &Mapping<'_>| {
        let (addr, new_addr) = (m.addr("addr"), m.addr("new_addr"));
        let (port, new_port) = (m.get("port"), m.get("new_port"));
        let proto = protocol(m.get("proto") as u8);
        format!("{proto} ({addr}, {port}) => ({new_addr}, {new_port}) {}\n", m.tail(&e.inputs))
    };
    let mut all = Mapping::all(s);
    // Pings come last: flows are what is looked for.
    all.sort_by_key(|m| m.get("proto") == u32::from(proto::ICMP));
    all.iter().map(line).collect()
}

fn protocol(number: u8) -> &'static str {
    match number {
        proto::TCP => "tcp",
        proto::UDP => "udp",
        _ => "icmp",
    }
}

#[cfg(test)]
mod tests;

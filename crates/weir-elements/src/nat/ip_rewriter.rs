use weir_net::Tcp;

use super::mapping::{DEFAULT_CAPACITY, Mapping, Mappings, mappings, nanos, set_capacity};
use super::pattern::{InputSpec, InputSpecs, PATTERNS_CLASS, Pattern, Rewrite, Source};
use crate::prelude::*;

element! {
    /// Rewrites addresses and ports of TCP and UDP packets: network address and port translation (NAPT, RFC 3022).
    ///
    /// A table of *mappings* says how the packets of a flow are rewritten and where they leave. The flow of a packet
    /// is its protocol, source address, source port, destination address and destination port. A packet whose flow is
    /// in the table is rewritten and sent to the output of its mapping, whichever input it came on. Other packets are
    /// handled as the *input specification* of their input says; there is one for each input:
    ///
    /// - `drop` or `discard`: drops the packet (`NoMatch`).
    /// - `pass OUTPUT` (also `nochange`, `passthrough`): sends it to OUTPUT. No mapping is made.
    /// - `keep FOUTPUT ROUTPUT`: makes a mapping that changes nothing: packets of the flow leave on FOUTPUT, replies
    ///   on ROUTPUT.
    /// - `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`: makes a mapping that writes what the pattern says into
    ///   packets of the flow, which leave on FOUTPUT. Replies are rewritten back and leave on ROUTPUT. A dash `-`
    ///   leaves a part as it is. SPORT may be a range `L-H`: the port becomes one with which no other mapping has the
    ///   same replies, so that a port serves many destinations at a time. The port of the packet is taken if it is
    ///   free, else a random one. `L-H?` takes a random one from the start, `L-H#` the next in sequence. If none is
    ///   free, the packet is dropped (`Full`). The form `pattern SADDR DADDR FOUTPUT ROUTPUT` changes no ports; its
    ///   SADDR may be a range `A-B` or a prefix.
    /// - `pattern NAME FOUTPUT ROUTPUT`: as above, with a pattern of an `IPRewriterPatterns` element.
    ///
    /// A new mapping takes both directions, or none. If a pattern without a range gives a flow replies that another
    /// mapping has, the other mapping gives way. When the table has `MAPPING_CAPACITY` mappings, packets of new flows
    /// are dropped (`Full`) until a mapping expires.
    ///
    /// The `net` mark has to stand on a checked IPv4 header. Header checksums are mended, also those that the
    /// sender's kernel left to the device. Packets that are neither TCP nor UDP (`NotRewritable`), fragments beyond
    /// the first (`Fragment`), and packets too short for their transport header (`Truncated`) are dropped, or leave
    /// unchanged if the input's specification is `pass`.
    IPRewriter: "1-/1-", "h/h";
    example "Idle -> CheckIPHeader -> rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// One for each input.
        rest inputs: InputSpecs,
        /// Lifetime of TCP mappings without packets, when both sides have sent data.
        key tcp_timeout: Duration = Duration::from_secs(86400) => "24 h",
        /// Another name of TCP_TIMEOUT.
        key timeout: Option<Duration> = None,
        /// The same when both sides have sent FIN, or one RST.
        key tcp_done_timeout: Duration = Duration::from_secs(240) => "4 min",
        /// The same when one of the sides has sent no data.
        key tcp_nodata_timeout: Duration = Duration::from_secs(300) => "5 min",
        /// Kept for Click configurations: a mapping always lives as long as its timeout.
        key tcp_guarantee: Duration = Duration::from_secs(5) => "5 s",
        /// Lifetime of UDP mappings without packets.
        key udp_timeout: Duration = Duration::from_secs(300) => "5 min",
        /// The same when there were three packets, and one in each direction; as UDP_TIMEOUT if not given.
        key udp_streaming_timeout: Option<Duration> = None,
        /// Kept for Click configurations: a mapping always lives as long as its timeout.
        key udp_guarantee: Duration = Duration::from_secs(5) => "5 s",
        /// Kept for Click configurations.
        key guarantee: Duration = Duration::from_secs(5) => "5 s",
        /// Kept for Click configurations: mappings are removed when their time has come.
        key reap_interval: Duration = Duration::from_secs(900) => "15 min",
        /// Most mappings.
        key mapping_capacity: u32 = DEFAULT_CAPACITY => "1048576",
        /// Another name of MAPPING_CAPACITY.
        key capacity: Option<u32> = None,
        /// Whether the destination annotation becomes the new destination address.
        key dst_anno: bool = true,
    }
    handlers {
        /// Number of mappings.
        read nmappings = |_, s| Ok(mappings(s).to_string()),
        /// Number of mappings.
        read table_size = |_, s| Ok(mappings(s).to_string()),
        /// Number of mappings.
        read size = |_, s| Ok(mappings(s).to_string()),
        /// Number of packets that got no mapping because no port or no place was free.
        count mapping_failures,
        /// Most mappings. Mappings beyond a lowered capacity stay until they expire.
        count capacity,
        write capacity = |_, s, v| set_capacity(s, v),
        /// Removes all mappings.
        write clear = |_, s, _| {
            s.table_mut("map").clear();
            Ok(())
        },
        /// The pattern of each input.
        read patterns = |e, _| Ok(e.inputs.show()),
        /// All entries, one a line: flow, new flow, outputs (that of this direction with a star), input, seconds left.
        read table = |_, s| Ok(list(s, None)),
        /// The entries of TCP flows.
        read tcp_table = |_, s| Ok(list(s, Some(proto::TCP))),
        /// The entries of UDP flows.
        read udp_table = |_, s| Ok(list(s, Some(proto::UDP))),
        /// The timeouts in seconds.
        read timeouts = |e, _| Ok(timeouts(e)),
    }
    ports |e| e.inputs.ports();
    resolve |e, find| e.inputs.resolve(&find(PATTERNS_CLASS, "").unwrap_or_default());
}

// Bits of a TCP mapping's state: `<< 1` for the reply direction.
const TCP_DONE: u8 = 1;
const TCP_DATA: u8 = 4;
// State of a UDP mapping: whether there was a reply, and packets (twice; at most 3 are counted).
const UDP_REPLY: u8 = 1;
const UDP_PACKET: u8 = 2;
const UDP_PACKETS: u8 = 6;

/// Key fields of the table: protocol, source address and port, destination address and port.
const DST: u32 = 3;
const DPORT: u32 = 4;

#[derive(Clone, Copy)]
struct Flow {
    proto: V,
    src: V,
    sport: V,
    dst: V,
    dport: V,
}

impl Flow {
    fn key(self) -> [V; 5] {
        [self.proto, self.src, self.sport, self.dst, self.dport]
    }

    /// Both addresses as 16-bit words.
    fn addresses(self, b: &mut Builder) -> Vec<V> {
        [halves(b, self.src), halves(b, self.dst)].concat()
    }

    fn reversed(self) -> Flow {
        Flow { src: self.dst, sport: self.dport, dst: self.src, dport: self.sport, ..self }
    }
}

fn program(e: &IPRewriter, b: &mut Builder) {
    let key = [("proto", W8), ("src", W32), ("sport", W16), ("dst", W32), ("dport", W16)];
    let value = [
        ("new_src", W32),
        ("new_sport", W16),
        ("new_dst", W32),
        ("new_dport", W16),
        ("address_change", W16),
        ("change", W16),
        ("state", W8),
    ];
    let capacity = e.capacity.unwrap_or(e.mapping_capacity);
    let m = Mappings::declare(b, &e.inputs, capacity, &key, &value);
    for (input, spec) in e.inputs.0.iter().enumerate().take(b.inputs() as usize) {
        b.input(input as u32, |b| {
            let flow = flow_of_packet(b, spec);
            b.lookup(
                m.map,
                &flow.key(),
                |b, entry| apply(b, e, &m, entry, flow),
                |b| match spec {
                    InputSpec::Pass(out) => b.emit(*out),
                    InputSpec::Map(Rewrite::By(pattern, _), outputs) => {
                        let entry = new_mapping(b, &m, input, pattern, *outputs, flow);
                        apply(b, e, &m, entry, flow);
                    }
                    InputSpec::Drop | InputSpec::Map(Rewrite::Named(_), _) => b.drop(Reason::NO_MATCH),
                },
            );
        });
    }
}

/// Reads the flow of a packet and marks its transport header: 20 bytes of TCP or 8 of UDP are there.
fn flow_of_packet(b: &mut Builder, spec: &InputSpec) -> Flow {
    let refuse = |reason: Reason| {
        move |b: &mut Builder| match spec {
            InputSpec::Pass(out) => b.emit(*out),
            _ => b.drop(reason),
        }
    };
    require_ip(b);
    let fragment = b.load(W16, Layer::Net, 6);
    let offset = b.and(fragment, 0x1fff);
    let later = b.ne(offset, 0);
    b.when(later, refuse(Reason::new("Fragment")));
    let header_len = ip_header_len(b);
    b.require_or(Layer::Net, header_len, refuse(Reason::TRUNCATED));
    b.set_mark(Layer::Transport, Layer::Net, header_len);
    let proto = b.load(W8, Layer::Net, 9);
    b.switch(proto, &[proto::TCP.into(), proto::UDP.into()], |b, case| match case {
        Some(0) => b.require_or(Layer::Transport, 20, refuse(Reason::TRUNCATED)),
        Some(_) => b.require_or(Layer::Transport, 8, refuse(Reason::TRUNCATED)),
        None => refuse(Reason::new("NotRewritable"))(b),
    });
    Flow {
        proto,
        src: b.load(W32, Layer::Net, 12),
        sport: b.load(W16, Layer::Transport, 0),
        dst: b.load(W32, Layer::Net, 16),
        dport: b.load(W16, Layer::Transport, 2),
    }
}

/// Makes the two entries of a mapping; gives that of packets.
fn new_mapping(
    b: &mut Builder,
    m: &Mappings,
    input: usize,
    pattern: &Pattern,
    outputs: [u32; 2],
    flow: Flow,
) -> E {
    m.require_room(b);
    let fixed = |b: &mut Builder, old: V, new: Option<u32>| match new {
        Some(v) => b.constant(old.width, v),
        None => old,
    };
    let source = |s: Source| match s {
        Source::Set(v) => Some(v),
        _ => None,
    };
    let mut new = Flow {
        proto: flow.proto,
        src: fixed(b, flow.src, source(pattern.src)),
        sport: fixed(b, flow.sport, source(pattern.sport)),
        dst: fixed(b, flow.dst, pattern.dst),
        dport: fixed(b, flow.dport, pattern.dport),
    };
    let (key, reply_key) = (flow.key(), new.reversed().key());
    let (forward, reply) = match (pattern.src, pattern.sport) {
        (_, Source::OneOf(lo, hi, order)) => {
            let (f, r, port) =
                m.claim_pair(b, input, &key, &reply_key, DPORT, (lo, hi, order), Some(flow.sport));
            new.sport = port;
            (f, r)
        }
        (Source::OneOf(lo, hi, order), _) => {
            let (f, r, addr) = m.claim_pair(b, input, &key, &reply_key, DST, (lo, hi, order), None);
            new.src = addr;
            (f, r)
        }
        _ => m.insert_pair(b, &key, &reply_key),
    };
    for (e, from, to) in [(reply, new.reversed(), flow.reversed()), (forward, flow, new)] {
        b.set(e, "new_src", to.src);
        b.set(e, "new_sport", to.sport);
        b.set(e, "new_dst", to.dst);
        b.set(e, "new_dport", to.dport);
        // What the rewriting adds to the checksums is the same for all packets (RFC 1624).
        let (old, new) = (from.addresses(b), to.addresses(b));
        let addresses = checksum_change(b, &old, &new);
        let ports = checksum_change(b, &[from.sport, from.dport], &[to.sport, to.dport]);
        let all = b.sum16(addresses, ports);
        b.set(e, "address_change", addresses);
        b.set(e, "change", all);
    }
    m.tie(b, (forward, reply), input, outputs);
    forward
}

/// Rewrites the packet as its entry says, follows the state of the flow, and lets the packet leave.
fn apply(b: &mut Builder, e: &IPRewriter, m: &Mappings, entry: E, flow: Flow) {
    let new = Flow {
        proto: flow.proto,
        src: b.get(entry, "new_src"),
        sport: b.get(entry, "new_sport"),
        dst: b.get(entry, "new_dst"),
        dport: b.get(entry, "new_dport"),
    };
    b.store(Layer::Net, 12, new.src);
    b.store(Layer::Net, 16, new.dst);
    b.store(Layer::Transport, 0, new.sport);
    b.store(Layer::Transport, 2, new.dport);
    let (addresses, all) = (b.get(entry, "address_change"), b.get(entry, "change"));
    apply_ip_change(b, addresses);
    if e.dst_anno {
        b.store_anno(anno::DST_IP, new.dst);
    }
    let is_tcp = b.eq(flow.proto, proto::TCP);
    b.if_else(
        is_tcp,
        |b| {
            // Known already, but not where both protocols have met.
            b.require(Layer::Transport, 20, Reason::TRUNCATED);
            apply_transport_change(b, 16, false, addresses, all);
            tcp_state(b, e, m, entry, new);
        },
        |b| {
            apply_transport_change(b, 6, true, addresses, all);
            udp_state(b, e, m, entry, new);
        },
    );
    m.leave(b, entry);
}

/// Follows a TCP connection: which sides have sent data, which have finished.
fn tcp_state(b: &mut Builder, e: &IPRewriter, m: &Mappings, entry: E, new: Flow) {
    let flags = b.load(W8, Layer::Transport, 13);
    let words = b.load(W8, Layer::Transport, 12);
    let words = b.shr(words, 4);
    let tcp_len = b.shl(words, 2);
    let tcp_len = b.resize(W32, tcp_len);
    let ip_len = ip_header_len(b);
    let headers = b.add(ip_len, tcp_len);
    let len = b.load(W16, Layer::Net, 2);
    let len = b.resize(W32, len);
    let payload = b.lt(headers, len);

    let reply = b.get(entry, "reply");
    let state = b.get(entry, "state");
    let shift = b.resize(W8, reply);
    let zero = b.constant(W8, 0_u8);
    let has = |b: &mut Builder, flag: u8| {
        let bit = b.and(flags, flag);
        b.ne(bit, 0)
    };
    let bit = |b: &mut Builder, bit: u8| {
        let bit = b.constant(W8, bit);
        b.shl(bit, shift)
    };
    let done = bit(b, TCP_DONE);
    let data = bit(b, TCP_DATA);
    // RST ends both sides, FIN this one; SYN and data show that it lives.
    let (rst, fin, syn) = (has(b, Tcp::RST), has(b, Tcp::FIN), has(b, Tcp::SYN));
    let alive = b.or(syn, payload);
    let not_done = b.not(done);
    let reopened = b.and(state, not_done);
    let next = b.select(alive, reopened, state);
    let finished = b.or(state, done);
    let next = b.select(fin, finished, next);
    let reset = b.or(state, TCP_DONE | TCP_DONE << 1);
    let next = b.select(rst, reset, next);
    let data = b.select(payload, data, zero);
    let next = b.or(next, data);
    set_state(b, m, entry, new, state, next);

    let all = |b: &mut Builder, bit: u8| {
        let both = bit | bit << 1;
        let bits = b.and(next, both);
        b.eq(bits, both)
    };
    let (both_done, both_data) = (all(b, TCP_DONE), all(b, TCP_DATA));
    let [done, data, no_data] =
        [e.tcp_done_timeout, e.timeout.unwrap_or(e.tcp_timeout), e.tcp_nodata_timeout]
            .map(|t| b.constant(W64, nanos(t)));
    let timeout = b.select(both_data, data, no_data);
    let timeout = b.select(both_done, done, timeout);
    b.touch(entry, timeout);
}

/// Follows a UDP flow: whether it is more than a question and an answer.
fn udp_state(b: &mut Builder, e: &IPRewriter, m: &Mappings, entry: E, new: Flow) {
    let reply = b.get(entry, "reply");
    let state = b.get(entry, "state");
    let replied = b.or(state, UDP_REPLY);
    let next = b.select(reply, replied, state);
    let few = b.lt(next, UDP_PACKETS);
    let more = b.add(next, UDP_PACKET);
    let next = b.select(few, more, next);
    set_state(b, m, entry, new, state, next);
    let streaming = b.gt(next, UDP_PACKETS);
    let [short, long] =
        [e.udp_timeout, e.udp_streaming_timeout.unwrap_or(e.udp_timeout)].map(|t| b.constant(W64, nanos(t)));
    let timeout = b.select(streaming, long, short);
    b.touch(entry, timeout);
}

/// Both entries of a mapping have its state.
fn set_state(b: &mut Builder, m: &Mappings, entry: E, new: Flow, old: V, next: V) {
    let changed = b.ne(old, next);
    b.when(changed, |b| {
        b.set(entry, "state", next);
        b.lookup(m.map, &new.reversed().key(), |b, other| b.set(other, "state", next), |_| {});
    });
}

fn list(s: &State<'_>, protocol: Option<u8>) -> String {
    let mut out = String::new();
    for m in Mapping::all(s) {
        if protocol.is_some_and(|p| u32::from(p) != m.get("proto")) {
            continue;
        }
        let flow = |[src, sport, dst, dport]: [&str; 4]| {
            format!("({}, {}, {}, {})", m.addr(src), m.get(sport), m.addr(dst), m.get(dport))
        };
        let old = flow(["src", "sport", "dst", "dport"]);
        let new = flow(["new_src", "new_sport", "new_dst", "new_dport"]);
        out += &format!("{old} => {new} {}\n", m.tail());
    }
    out
}

fn timeouts(e: &IPRewriter) -> String {
    let tcp = e.timeout.unwrap_or(e.tcp_timeout);
    let streaming = e.udp_streaming_timeout.unwrap_or(e.udp_timeout);
    [
        ("tcp", tcp),
        ("tcp_done", e.tcp_done_timeout),
        ("tcp_nodata", e.tcp_nodata_timeout),
        ("udp", e.udp_timeout),
        ("udp_streaming", streaming),
    ]
    .iter()
    .map(|(name, t)| format!("{name} {}\n", t.as_secs_f64()))
    .collect()
}

#[cfg(test)]
mod tests;

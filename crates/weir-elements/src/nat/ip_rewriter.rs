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

    fn reversed(self) -> Flow {
        Flow { src: self.dst, sport: self.dport, dst: self.src, dport: self.sport, ..self }
    }
}

fn program(e: &IPRewriter, b: &mut Builder) {
    let key = [("proto", W8), ("src", W32), ("sport", W16), ("dst", W32), ("dport", W16)];
    let value = [("new_src", W32), ("new_sport", W16), ("new_dst", W32), ("new_dport", W16), ("state", W8)];
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
    for (e, to) in [(reply, flow.reversed()), (forward, new)] {
        b.set(e, "new_src", to.src);
        b.set(e, "new_sport", to.sport);
        b.set(e, "new_dst", to.dst);
        b.set(e, "new_dport", to.dport);
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
    let addresses = |b: &mut Builder, f: Flow| [halves(b, f.src), halves(b, f.dst)].concat();
    let (old_addrs, new_addrs) = (addresses(b, flow), addresses(b, new));
    mend_ip_checksum(b, &old_addrs, &new_addrs);
    let pseudo = [&old_addrs[..], &new_addrs[..]];
    let own = [&[flow.sport, flow.dport][..], &[new.sport, new.dport][..]];
    if e.dst_anno {
        b.store_anno(anno::DST_IP, new.dst);
    }
    let is_tcp = b.eq(flow.proto, proto::TCP);
    b.if_else(
        is_tcp,
        |b| {
            // Known already, but not where both protocols have met.
            b.require(Layer::Transport, 20, Reason::TRUNCATED);
            mend_transport_checksum(b, 16, false, pseudo, own);
            tcp_state(b, e, m, entry, new);
        },
        |b| {
            mend_transport_checksum(b, 6, true, pseudo, own);
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
mod tests {
    use super::*;
    use crate::class_named;
    use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};
    use proptest::prelude::*;
    use std::collections::HashSet;
    use weir_net::checksum::{checksum, pseudo4};
    use weir_packet::Checksum;

    const SECOND: u64 = 1_000_000_000;
    const SNAT: &str = "pattern 192.0.2.1 1024-65535 - - 0 1";
    const OUTSIDE: [u8; 4] = [192, 0, 2, 1];

    type End = ([u8; 4], u16);

    fn inside(n: u8) -> [u8; 4] {
        [10, 0, 0, n]
    }

    fn server(n: u8) -> End {
        ([198, 51, 100, n], 80)
    }

    fn harness(args: &[&str]) -> Harness {
        Harness::new("IPRewriter", args, 2, 2)
    }

    /// Source and destination of an IPv4 packet, and a check of its checksums.
    fn ends(p: &[u8]) -> (End, End) {
        assert!(sums_ok(p), "{p:02x?}");
        let addr = |at: usize| [p[at], p[at + 1], p[at + 2], p[at + 3]];
        let port = |at: usize| u16::from_be_bytes([p[at], p[at + 1]]);
        ((addr(12), port(20)), (addr(16), port(22)))
    }

    /// Whether header and transport checksum are those that a full computation gives.
    fn sums_ok(p: &[u8]) -> bool {
        let header = checksum(&p[..20]) == 0;
        let pseudo = pseudo4(
            Ipv4Addr::new(p[12], p[13], p[14], p[15]),
            Ipv4Addr::new(p[16], p[17], p[18], p[19]),
            p[9],
            (p.len() - 20) as u16,
        );
        let none = p[9] == proto::UDP && p[26..28] == [0, 0];
        header && (none || pseudo.add_bytes(&p[20..]).finish() == 0)
    }

    /// Sends a UDP packet; gives the output and the two ends of what left.
    fn send(h: &mut Harness, port: u32, src: End, dst: End) -> (u32, End, End) {
        let out = h.send_ip(port, &udp(src, dst, b"payload"));
        let (port, bytes) = out[0].out();
        let (src, dst) = ends(bytes);
        (port, src, dst)
    }

    fn send_tcp(h: &mut Harness, port: u32, src: End, dst: End, flags: u8, payload: &[u8]) -> (End, End) {
        ends(h.send_ip(port, &tcp(src, dst, flags, 1, payload))[0].out().1)
    }

    #[test]
    fn a_mapping_is_made_used_again_and_reversed() {
        let mut h = harness(&[SNAT, "drop"]);
        let (src, dst) = ((inside(1), 5000), server(1));
        for _ in 0..2 {
            assert_eq!(send(&mut h, 0, src, dst), (0, (OUTSIDE, 5000), dst), "the own port is free");
        }
        assert_eq!(h.read("nmappings"), "1");
        let out = h.send_ip(1, &udp(dst, (OUTSIDE, 5000), b"reply"));
        let Outcome::Out(1, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(ends(p.bytes()), (dst, src));
        assert_eq!(p.anno[..4], src.0, "the destination annotation follows");
        assert_eq!(
            h.send_ip(1, &udp(server(2), (OUTSIDE, 5000), b""))[0].reason(),
            "NoMatch",
            "another server"
        );
        assert_eq!(
            h.send_ip(1, &tcp(dst, (OUTSIDE, 5000), 2, 0, b""))[0].reason(),
            "NoMatch",
            "another protocol"
        );
    }

    #[test]
    fn a_port_serves_many_destinations_but_one_flow_to_each() {
        let mut h = harness(&["pattern 192.0.2.1 4000-4001 - - 0 1", "drop"]);
        let mut seen = HashSet::new();
        for client in [1, 2] {
            for s in 1..=9 {
                let (_, src, dst) = send(&mut h, 0, (inside(client), 4000), server(s));
                assert!(seen.insert((src, dst)));
                assert_eq!(send(&mut h, 1, dst, src), (1, dst, (inside(client), 4000)));
            }
        }
        assert_eq!(h.read("nmappings"), "18");
    }

    #[test]
    fn when_no_port_is_left_new_flows_fail_and_leave_nothing_behind() {
        let mut h = harness(&["pattern 192.0.2.1 4000-4009? - - 0 1", "drop"]);
        let mut ports = HashSet::new();
        for client in 1..=10 {
            ports.insert(send(&mut h, 0, (inside(client), 99), server(1)).1.1);
        }
        assert_eq!(ports, (4000..=4009).collect());
        for _ in 0..3 {
            assert_eq!(h.send_ip(0, &udp((inside(11), 99), server(1), b""))[0].reason(), "Full");
        }
        assert_eq!((h.read("nmappings"), h.read("mapping_failures")), ("10".into(), "3".into()));
        send(&mut h, 0, (inside(11), 99), server(2));
    }

    #[test]
    fn sequential_ranges_count_up_and_wrap() {
        let mut h = harness(&["pattern 192.0.2.1 65533-65535# - - 0 1", "drop"]);
        let ports: Vec<u16> = (1..=5).map(|s| send(&mut h, 0, (inside(1), 65534), server(s)).1.1).collect();
        assert_eq!(ports, [65533, 65534, 65535, 65533, 65534]);
    }

    #[test]
    fn expiry_frees_the_port_in_both_directions() {
        let mut h = harness(&["pattern 192.0.2.1 4000-4000 - - 0 1", "drop", "UDP_TIMEOUT 20"]);
        let mut h2 = harness(&["pattern 192.0.2.1 4000-4001 - - 0 1", "drop", "UDP_TIMEOUT 20"]);
        for h in [&mut h, &mut h2] {
            send(h, 0, (inside(1), 1), server(1));
            h.now += 15 * SECOND;
            h.expire();
            // A reply keeps the mapping alive.
            let port = if h.read("table").contains("4001") { 4001 } else { 4000 };
            send(h, 1, server(1), (OUTSIDE, port));
            h.now += 15 * SECOND;
            h.expire();
            assert_eq!(h.read("size"), "1");
            h.now += 6 * SECOND;
            h.expire();
            assert_eq!(h.read("size"), "0");
            assert_eq!(h.send_ip(1, &udp(server(1), (OUTSIDE, port), b""))[0].reason(), "NoMatch");
            send(h, 0, (inside(2), 1), server(1));
        }
    }

    #[test]
    fn a_udp_stream_lives_longer_than_a_question_and_its_answer() {
        let mut h = harness(&[SNAT, "drop", "UDP_TIMEOUT 10", "UDP_STREAMING_TIMEOUT 100"]);
        for (n, port) in [(2, 5001), (3, 5002)] {
            for _ in 1..n {
                send(&mut h, 0, (inside(1), port), server(1));
            }
            send(&mut h, 1, server(1), (OUTSIDE, port));
        }
        h.now += 11 * SECOND;
        h.expire();
        let table = h.read("table");
        assert!(table.contains("5002") && !table.contains("5001"), "{table}");
    }

    #[test]
    fn the_end_of_a_tcp_connection_shortens_its_life() {
        let timeouts = ["TCP_TIMEOUT 1000", "TCP_DONE_TIMEOUT 10", "TCP_NODATA_TIMEOUT 100"];
        let start = || {
            let mut h = harness(&[SNAT, "drop", timeouts[0], timeouts[1], timeouts[2]]);
            send_tcp(&mut h, 0, (inside(1), 5000), server(1), Tcp::SYN, b"");
            send_tcp(&mut h, 1, server(1), (OUTSIDE, 5000), Tcp::SYN | Tcp::ACK, b"");
            h
        };
        let lives = |h: &mut Harness, seconds: u64| {
            h.now += (seconds - 1) * SECOND;
            h.expire();
            let before = h.read("size") == "1";
            h.now += 2 * SECOND;
            h.expire();
            before && h.read("size") == "0"
        };
        let client = |h: &mut Harness, flags, data: &[u8]| {
            send_tcp(h, 0, (inside(1), 5000), server(1), flags, data);
        };
        let reply = |h: &mut Harness, flags, data: &[u8]| {
            send_tcp(h, 1, server(1), (OUTSIDE, 5000), flags, data);
        };
        assert!(lives(&mut start(), 100), "no data");
        let mut h = start();
        client(&mut h, Tcp::ACK, b"data");
        assert!(lives(&mut h, 100), "data one way");
        let mut h = start();
        client(&mut h, Tcp::ACK, b"data");
        reply(&mut h, Tcp::ACK, b"data");
        assert!(lives(&mut h, 1000), "data both ways");
        let mut h = start();
        client(&mut h, Tcp::FIN | Tcp::ACK, b"");
        assert!(lives(&mut h, 100), "one side has finished");
        let mut h = start();
        client(&mut h, Tcp::FIN | Tcp::ACK, b"");
        reply(&mut h, Tcp::FIN | Tcp::ACK, b"");
        client(&mut h, Tcp::ACK, b"");
        assert!(lives(&mut h, 10), "both sides have finished");
        client(&mut h, Tcp::SYN, b"");
        assert!(lives(&mut h, 100), "a new connection with the same ports");
        let mut h = start();
        reply(&mut h, Tcp::RST, b"");
        assert!(lives(&mut h, 10), "reset");
    }

    #[test]
    fn capacity_bounds_the_mappings_and_can_be_changed() {
        let mut h = harness(&[SNAT, "drop", "MAPPING_CAPACITY 2"]);
        assert_eq!(h.read("capacity"), "2");
        send(&mut h, 0, (inside(1), 1), server(1));
        send(&mut h, 0, (inside(2), 1), server(1));
        assert_eq!(h.send_ip(0, &udp((inside(3), 1), server(1), b""))[0].reason(), "Full");
        send(&mut h, 0, (inside(1), 1), server(1));
        h.write("capacity", "3").unwrap();
        send(&mut h, 0, (inside(3), 1), server(1));
        assert_eq!((h.read("size"), h.read("mapping_failures")), ("3".into(), "1".into()));
        assert!(h.write("capacity", "4000000000").unwrap_err().contains("more than the 1048576 mappings"));
        h.write("clear", "").unwrap();
        assert_eq!(h.read("size"), "0");
        send(&mut h, 0, (inside(4), 1), server(1));
    }

    #[test]
    fn keep_and_pass_change_nothing() {
        let mut h = harness(&["keep 0 1", "pass 1"]);
        let (a, b) = ((inside(1), 1), server(1));
        assert_eq!(send(&mut h, 1, b, a), (1, b, a), "pass makes no mapping");
        assert_eq!(h.read("size"), "0");
        assert_eq!(send(&mut h, 0, a, b), (0, a, b));
        assert_eq!(
            send(&mut h, 0, b, a),
            (1, b, a),
            "the reply leaves on ROUTPUT, whichever input it came on"
        );
        assert_eq!(h.read("patterns"), "<keep>\n<nochange>\n");
    }

    #[test]
    fn a_flow_whose_reply_is_itself_has_one_entry() {
        let mut h = harness(&["keep 0 1", "drop"]);
        let a = (inside(1), 7);
        for _ in 0..2 {
            assert_eq!(send(&mut h, 0, a, a), (0, a, a));
        }
        h.now += 1000 * SECOND;
        h.expire();
        assert_eq!(h.read("table"), "");
    }

    #[test]
    fn destinations_are_rewritten_for_port_forwarding() {
        let mut h = harness(&["drop", "pattern - - 10.0.0.1 8080 0 1"]);
        let client = ([203, 0, 113, 9], 3333);
        assert_eq!(send(&mut h, 1, client, (OUTSIDE, 80)), (0, client, (inside(1), 8080)));
        assert_eq!(send(&mut h, 0, (inside(1), 8080), client), (1, (OUTSIDE, 80), client));
    }

    #[test]
    fn a_hairpin_goes_out_and_comes_back() {
        // Client 1 reaches client 2 by the outside address: both ends are rewritten.
        let mut h = Harness::new("IPRewriter", &["pattern 192.0.2.1 1024-65535 10.0.0.2 8080 0 0"], 1, 1);
        let (client, target) = ((inside(1), 5000), (inside(2), 8080));
        assert_eq!(send(&mut h, 0, client, (OUTSIDE, 80)), (0, (OUTSIDE, 5000), target));
        assert_eq!(send(&mut h, 0, target, (OUTSIDE, 5000)), (0, (OUTSIDE, 80), client));
    }

    #[test]
    fn without_a_range_the_later_flow_takes_over() {
        let mut h = harness(&["pattern 192.0.2.1 - - - 0 1", "drop"]);
        for client in [1, 2] {
            assert_eq!(send(&mut h, 0, (inside(client), 9), server(1)), (0, (OUTSIDE, 9), server(1)));
            assert_eq!(send(&mut h, 1, server(1), (OUTSIDE, 9)), (1, server(1), (inside(client), 9)));
            assert_eq!(h.read("table").lines().count(), 2, "nothing is left of the earlier");
        }
    }

    #[test]
    fn addresses_may_come_from_a_range() {
        let mut h = harness(&["pattern 192.0.2.1-192.0.2.2# - 0 1", "drop"]);
        for (client, last) in [(1, 1), (2, 2)] {
            assert_eq!(send(&mut h, 0, (inside(client), 9), server(1)).1, ([192, 0, 2, last], 9));
        }
        assert_eq!(h.send_ip(0, &udp((inside(3), 9), server(1), b""))[0].reason(), "Full");
    }

    #[test]
    fn what_cannot_be_rewritten_is_dropped_or_passed() {
        let packet = udp((inside(1), 1), server(1), b"payload");
        let change = |at: usize, to: u8| {
            let mut p = packet.clone();
            p[at] = to;
            p
        };
        let cases = [
            (change(9, 1), "NotRewritable"),
            (change(7, 1), "Fragment"),
            (change(0, 0x4f), "Truncated"),
            (packet[..27].to_vec(), "Truncated"),
            (tcp((inside(1), 1), server(1), 2, 0, b"")[..39].to_vec(), "Truncated"),
        ];
        for (p, reason) in cases {
            assert_eq!(harness(&[SNAT, "drop"]).send_ip(0, &p)[0].reason(), reason);
            assert_eq!(harness(&["drop", "pass 1"]).send_ip(1, &p)[0].out(), (1, &p[..]));
        }
    }

    #[test]
    fn every_prefix_of_a_packet_ends_somewhere() {
        for whole in
            [udp((inside(1), 1), server(1), b"payload"), tcp((inside(1), 1), server(1), 2, 0, b"abc")]
        {
            for n in 0..=whole.len() {
                assert_eq!(harness(&[SNAT, "drop"]).send_ip(0, &whole[..n]).len(), 1);
            }
        }
    }

    #[test]
    fn the_destination_annotation_can_be_left_alone() {
        let mut h = harness(&["drop", "pattern - - 10.0.0.1 8080 0 1", "DST_ANNO false"]);
        let out = h.send_ip(1, &udp(server(1), (OUTSIDE, 80), b""));
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(p.anno[..4], OUTSIDE);
    }

    #[test]
    fn tables_are_listed_as_click_lists_them() {
        let mut h = harness(&[SNAT, "drop"]);
        send(&mut h, 0, (inside(1), 5000), server(1));
        send_tcp(&mut h, 0, (inside(1), 6000), server(1), Tcp::SYN, b"");
        assert_eq!(
            h.read("udp_table"),
            "(10.0.0.1, 5000, 198.51.100.1, 80) => (192.0.2.1, 5000, 198.51.100.1, 80) [*0 1] i0 exp300\n\
             (198.51.100.1, 80, 192.0.2.1, 5000) => (198.51.100.1, 80, 10.0.0.1, 5000) [0 *1] i0 exp300\n"
        );
        assert_eq!(h.read("tcp_table").lines().count(), 2);
        assert_eq!(h.read("table").lines().count(), 4);
        assert!(h.read("timeouts").starts_with("tcp 86400\ntcp_done 240\n"));
    }

    #[test]
    fn inputs_with_a_named_pattern_take_turns() {
        let args = ["pattern nat 0 1", "pattern nat 0 1"].map(str::to_owned);
        let named = || vec!["nat 192.0.2.1 4000-4009# - -".to_owned()];
        let mut e = class_named("IPRewriter").unwrap().configure(&args).unwrap();
        e.resolve(&|class, name| (class == "IPRewriterPatterns" && name.is_empty()).then(named)).unwrap();
        let mut h = Harness::of(e, 2, 2);
        let mut ports = Vec::new();
        for (i, s) in [(0, 1), (1, 2), (0, 3)] {
            ports.push(send(&mut h, i, (inside(1), 1), server(s)).1.1);
        }
        assert_eq!(ports, [4000, 4001, 4002]);
        // Elements that share the pattern share its counter too: the declaration does not depend on the element.
        let mut other =
            class_named("IPRewriter").unwrap().configure(&["drop".into(), args[0].clone()]).unwrap();
        other.resolve(&|_, _| Some(named())).unwrap();
        let shared = |h: &Harness| {
            h.program.tables.iter().map(|t| t.decl.clone()).find(|d| d.shared_name.is_some()).unwrap()
        };
        assert_eq!(shared(&h), shared(&Harness::of(other, 2, 2)));

        let mut e = class_named("IPRewriter").unwrap().configure(&args).unwrap();
        let errors = e.resolve(&|_, _| None).unwrap_err();
        assert!(errors[1].contains("argument 2: no such pattern 'nat'"), "{errors:?}");
    }

    #[test]
    fn bad_arguments_are_explained() {
        let errors = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            class_named("IPRewriter").unwrap().configure(&args).err().unwrap().join("\n")
        };
        assert!(errors(&[]).contains("at least one input specification"));
        let e = errors(&["drop", "pattern 1.2.3 - - - 0 1"]);
        assert!(e.contains("argument 2: bad source address '1.2.3'"), "{e}");
        let e = errors(&["drop", "TCP_TIMEOUT soon"]);
        assert!(e.contains("TCP_TIMEOUT: 'soon' is not a time"), "{e}");
        let e = class_named("IPRewriter").unwrap().configure(&["pattern - - - - 0 3".into(), "drop".into()]);
        assert_eq!(e.unwrap().ports(), "2/4-");
    }

    #[test]
    fn a_partial_checksum_stays_the_sum_of_the_pseudo_header() {
        for whole in [udp((inside(1), 1), server(1), b"abc"), tcp((inside(1), 1), server(1), 2, 0, b"abc")] {
            let field = if whole[9] == proto::UDP { 26 } else { 36 };
            let partial = |p: &[u8]| {
                let addr = |at: usize| Ipv4Addr::new(p[at], p[at + 1], p[at + 2], p[at + 3]);
                pseudo4(addr(12), addr(16), p[9], (p.len() - 20) as u16).fold().to_be_bytes()
            };
            let mut bytes = whole.clone();
            let sum = partial(&bytes);
            bytes[field..field + 2].copy_from_slice(&sum);
            let mut p = ip_packet(&bytes);
            p.csum = Checksum::Partial as u8;
            let out = harness(&["pattern 192.0.2.1 1024-65535 203.0.113.7 99 0 1", "drop"]).send_packet(0, p);
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            let bytes = p.bytes();
            assert_eq!(bytes[12..20], [192, 0, 2, 1, 203, 0, 113, 7]);
            assert_eq!(bytes[field..field + 2], partial(bytes));
            assert_eq!(checksum(&bytes[..20]), 0);
            assert_eq!(p.csum, Checksum::Partial as u8);
        }
    }

    #[test]
    fn a_million_mappings_fit() {
        let n = 1_000_000;
        let mut h = harness(&[SNAT, "drop", &format!("MAPPING_CAPACITY {n}")]);
        let flow = |i: u32| {
            let [_, a, b, c] = (i / 50).to_be_bytes();
            (([10, a, b, c], 2000 + (i % 50) as u16), server((i % 250) as u8))
        };
        for i in 0..n {
            let (src, dst) = flow(i);
            h.send_ip(0, &udp(src, dst, b""))[0].out();
        }
        assert_eq!((h.read("size"), h.read("mapping_failures")), (n.to_string(), "0".to_owned()));
        assert_eq!(h.send_ip(0, &udp(([11, 0, 0, 1], 1), server(1), b""))[0].reason(), "Full");
        for i in (0..n).step_by(997) {
            let (src, dst) = flow(i);
            let (_, outside, _) = send(&mut h, 0, src, dst);
            assert_eq!(send(&mut h, 1, dst, outside), (1, dst, src));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Any packet has, after it was rewritten, the checksums that a full computation gives; and its reply is
        /// restored to what was sent.
        #[test]
        fn checksums_are_right_and_replies_are_restored(
            src: (u32, u16), dst: (u32, u16), new_src in 1..u32::MAX, new_dst in 1..u32::MAX, dport in 1..u16::MAX,
            payload in proptest::collection::vec(any::<u8>(), 0..70), is_tcp: bool, no_sum: bool, flags: u8,
        ) {
            let (src, dst) = ((src.0.to_be_bytes(), src.1), (dst.0.to_be_bytes(), dst.1));
            let packet = |src, dst| {
                if is_tcp {
                    return tcp(src, dst, flags, 7, &payload);
                }
                let mut p = udp(src, dst, &payload);
                if no_sum {
                    p[26..28].copy_from_slice(&[0, 0]);
                }
                p
            };
            let addr = Ipv4Addr::from_bits;
            let spec = format!("pattern {} 1-65535 {} {dport} 0 1", addr(new_src), addr(new_dst));
            let mut h = harness(&[&spec, "drop"]);
            let out = h.send_ip(0, &packet(src, dst));
            let bytes = out[0].out().1;
            let (to_src, to_dst) = ends(bytes);
            prop_assert_eq!((to_src.0, to_dst), (new_src.to_be_bytes(), (new_dst.to_be_bytes(), dport)));
            // Byte for byte what a sender with these addresses would have made, checksums included.
            prop_assert_eq!(bytes, &packet(to_src, to_dst)[..]);
            let out = h.send_ip(1, &packet(to_dst, to_src));
            prop_assert_eq!(out[0].out(), (1, &packet(dst, src)[..]));
        }
    }
}

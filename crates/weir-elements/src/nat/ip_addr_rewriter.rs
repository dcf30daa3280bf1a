use super::mapping::{DEFAULT_CAPACITY, Mapping, Mappings, mappings, nanos, set_capacity};
use super::pattern::{InputSpec, InputSpecs, PATTERNS_CLASS, Pattern, Rewrite, Source};
use crate::prelude::*;

element! {
    /// Rewrites source addresses of IPv4 packets, whatever their protocol: basic address translation (RFC 3022).
    ///
    /// A table of *mappings* pairs inner with outer addresses. A packet from an inner address gets the outer one as
    /// its source; a packet to an outer address gets the inner one as its destination, also in the annotation. Other
    /// packets are handled as the *input specification* of their input says; there is one for each input: `drop`,
    /// `pass OUTPUT` and `keep FOUTPUT ROUTPUT` as in `IPRewriter`, and
    ///
    /// - `pattern SADDR - FOUTPUT ROUTPUT`: maps the packet's source address to SADDR. Packets from it leave on
    ///   FOUTPUT, packets to SADDR on ROUTPUT. SADDR may be a range `A-B` or a prefix: a free address is taken, from
    ///   a random place on, or in sequence if `#` follows. If none is free, the packet is dropped (`Full`).
    /// - `pattern NAME FOUTPUT ROUTPUT`: as above, with a pattern of an `IPRewriterPatterns` element.
    ///
    /// If a pattern without a range gives two inner addresses the same outer one, packets to it go to the later. When
    /// the table has `MAPPING_CAPACITY` mappings, packets from new addresses are dropped (`Full`).
    ///
    /// The `net` mark has to stand on a checked IPv4 header. The header checksum is mended, and those of TCP and UDP,
    /// also where the sender's kernel left them to the device.
    IPAddrRewriter: "1-/1-", "h/h";
    example "Idle -> CheckIPHeader -> rw :: IPAddrRewriter(pattern 192.0.2.1-192.0.2.254 - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// One for each input.
        rest inputs: InputSpecs,
        /// Lifetime of mappings without packets.
        key timeout: Duration = Duration::from_secs(7200) => "2 h",
        /// Kept for Click configurations: a mapping always lives as long as its timeout.
        key guarantee: Duration = Duration::from_secs(5) => "5 s",
        /// Kept for Click configurations: mappings are removed when their time has come.
        key reap_interval: Duration = Duration::from_secs(900) => "15 min",
        /// Most mappings.
        key mapping_capacity: u32 = DEFAULT_CAPACITY => "1048576",
        /// Another name of MAPPING_CAPACITY.
        key capacity: Option<u32> = None,
    }
    check |e| e.inputs.check(Pattern::only_source_address);
    handlers {
        /// Number of mappings.
        read nmappings = |_, s| Ok(mappings(s).to_string()),
        /// Number of mappings.
        read table_size = |_, s| Ok(mappings(s).to_string()),
        /// Number of mappings.
        read size = |_, s| Ok(mappings(s).to_string()),
        /// Number of packets that got no mapping because no address or no place was free.
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
        /// All entries, one a line: address, new address, outputs (that of this direction with a star), input, seconds
        /// left.
        read table = |_, s| Ok(list(s)),
    }
    ports |e| e.inputs.ports();
    resolve |e, find| {
        e.inputs.resolve(&find(PATTERNS_CLASS, "").unwrap_or_default())?;
        e.inputs.check(Pattern::only_source_address).map_err(|e| vec![e])
    };
}

/// Key fields of the table: whether the address is a destination, and the address.
const ADDR: u32 = 1;

fn program(e: &IPAddrRewriter, b: &mut Builder) {
    let capacity = e.capacity.unwrap_or(e.mapping_capacity);
    let key = [("is_dst", W1), ("addr", W32)];
    let m = Mappings::declare(b, &e.inputs, capacity, &key, &[("new", W32)]);
    for (input, spec) in e.inputs.0.iter().enumerate().take(b.inputs() as usize) {
        b.input(input as u32, |b| {
            require_ip(b);
            let src = b.load(W32, Layer::Net, 12);
            let dst = b.load(W32, Layer::Net, 16);
            let (no, yes) = (b.constant(W1, 0_u8), b.constant(W1, 1_u8));
            b.lookup(m.map, &[no, src], |b, entry| apply(b, e, &m, entry, src, false), |_| {});
            b.lookup(m.map, &[yes, dst], |b, entry| apply(b, e, &m, entry, dst, true), |_| {});
            match spec {
                InputSpec::Pass(out) => b.emit(*out),
                InputSpec::Map(Rewrite::By(pattern, _), outputs) => {
                    let entry = new_mapping(b, &m, input, pattern, *outputs, src);
                    apply(b, e, &m, entry, src, false);
                }
                InputSpec::Drop | InputSpec::Map(Rewrite::Named(_), _) => b.drop(Reason::NO_MATCH),
            }
        });
    }
}

fn new_mapping(b: &mut Builder, m: &Mappings, input: usize, pattern: &Pattern, outputs: [u32; 2], src: V) -> E {
    m.require_room(b);
    let (no, yes) = (b.constant(W1, 0_u8), b.constant(W1, 1_u8));
    let (forward, reply, new) = match pattern.src {
        Source::OneOf(lo, hi, order) => {
            m.claim_pair(b, input, &[no, src], &[yes, src], ADDR, (lo, hi, order), None)
        }
        Source::Set(addr) => {
            let new = b.constant(W32, addr);
            let (forward, reply) = m.insert_pair(b, &[no, src], &[yes, new]);
            (forward, reply, new)
        }
        Source::Keep => {
            let (forward, reply) = m.insert_pair(b, &[no, src], &[yes, src]);
            (forward, reply, src)
        }
    };
    b.set(reply, "new", src);
    b.set(forward, "new", new);
    m.tie(b, (forward, reply), input, outputs);
    forward
}

fn apply(b: &mut Builder, e: &IPAddrRewriter, m: &Mappings, entry: E, old: V, is_dst: bool) {
    let new = b.get(entry, "new");
    b.store(Layer::Net, if is_dst { 16 } else { 12 }, new);
    let (old, new_halves) = (halves(b, old), halves(b, new));
    mend_ip_checksum(b, &old, &new_halves);
    if is_dst {
        b.store_anno(anno::DST_IP, new);
    }
    let fragment = b.load(W16, Layer::Net, 6);
    let offset = b.and(fragment, 0x1fff);
    let first = b.eq(offset, 0);
    b.when(first, |b| {
        let header_len = ip_header_len(b);
        b.require(Layer::Net, header_len, Reason::TRUNCATED);
        b.set_mark(Layer::Transport, Layer::Net, header_len);
        let proto = b.load(W8, Layer::Net, 9);
        b.switch(proto, &[proto::TCP.into(), proto::UDP.into()], |b, case| {
            let (need, field, udp) = match case {
                Some(0) => (18, 16, false),
                Some(_) => (8, 6, true),
                None => return,
            };
            b.if_has(
                Layer::Transport,
                need,
                |b| mend_transport_checksum(b, field, udp, [&old, &new_halves], [&[], &[]]),
                |_| {},
            );
        });
    });
    b.touch(entry, nanos(e.timeout));
    m.leave(b, entry);
}

fn list(s: &State<'_>) -> String {
    let line = |m: &Mapping<'_>| format!("{} => {} {}\n", m.addr("addr"), m.addr("new"), m.tail());
    Mapping::all(s).iter().map(line).collect()
}

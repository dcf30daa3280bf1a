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

fn new_mapping(
    b: &mut Builder,
    m: &Mappings,
    input: usize,
    pattern: &Pattern,
    outputs: [u32; 2],
    src: V,
) -> E {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class_named;
    use crate::testing::{Harness, Outcome, tcp, udp};
    use weir_net::checksum::checksum;

    const SERVER: [u8; 4] = [198, 51, 100, 1];

    fn harness(spec: &str) -> Harness {
        Harness::new("IPAddrRewriter", &[spec, "drop"], 2, 2)
    }

    fn send(h: &mut Harness, port: u32, src: [u8; 4], dst: [u8; 4]) -> (u32, [u8; 4], [u8; 4]) {
        let mut ends = None;
        for p in [udp((src, 1), (dst, 2), b"abc"), tcp((src, 1), (dst, 2), 16, 1, b"abc")] {
            let is_udp = p[9] == proto::UDP;
            let out = h.send_ip(port, &p);
            let (port, bytes) = out[0].out();
            let addr = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            let (src, dst) = (addr(12), addr(16));
            let same =
                if is_udp { udp((src, 1), (dst, 2), b"abc") } else { tcp((src, 1), (dst, 2), 16, 1, b"abc") };
            assert_eq!(bytes, same, "the packet is what a sender with these addresses would have made");
            ends = Some((port, src, dst));
        }
        ends.unwrap()
    }

    #[test]
    fn addresses_are_paired_in_both_directions() {
        let mut h = harness("pattern 192.0.2.1-192.0.2.2# - 0 1");
        for (client, outside) in [([10, 0, 0, 1], [192, 0, 2, 1]), ([10, 0, 0, 2], [192, 0, 2, 2])] {
            assert_eq!(send(&mut h, 0, client, SERVER), (0, outside, SERVER));
            assert_eq!(send(&mut h, 1, SERVER, outside), (1, SERVER, client));
            assert_eq!(send(&mut h, 1, [9, 9, 9, 9], outside), (1, [9, 9, 9, 9], client), "from anywhere");
        }
        assert_eq!(h.send_ip(0, &udp(([10, 0, 0, 3], 1), (SERVER, 2), b""))[0].reason(), "Full");
        assert_eq!((h.read("nmappings"), h.read("mapping_failures")), ("2".into(), "1".into()));
        assert_eq!(
            h.read("table").lines().next(),
            Some("10.0.0.1 => 192.0.2.1 [*0 1] i0 exp7200"),
            "{}",
            h.read("table")
        );
        h.now += 7201 * 1_000_000_000;
        h.expire();
        assert_eq!(h.read("size"), "0");
        assert_eq!(send(&mut h, 0, [10, 0, 0, 3], SERVER).0, 0);
    }

    #[test]
    fn a_random_address_of_a_prefix_is_neither_first_nor_last() {
        let mut h = harness("pattern 192.0.2.0/29 - 0 1");
        let mut seen = std::collections::BTreeSet::new();
        for client in 1..=6 {
            seen.insert(send(&mut h, 0, [10, 0, 0, client], SERVER).1[3]);
        }
        assert_eq!(seen, (1..=6).collect());
    }

    #[test]
    fn every_protocol_and_fragments_are_rewritten() {
        let mut h = harness("pattern 192.0.2.1 - 0 1");
        let mut p = udp(([10, 0, 0, 1], 1), (SERVER, 2), b"abcdefgh");
        p[7] = 3;
        p[10..12].copy_from_slice(&[0, 0]);
        let sum = checksum(&p[..20]);
        p[10..12].copy_from_slice(&sum.to_be_bytes());
        let out = h.send_ip(0, &p);
        let bytes = out[0].out().1;
        assert_eq!((&bytes[12..16], checksum(&bytes[..20])), (&[192, 0, 2, 1][..], 0));
        assert_eq!(bytes[20..], p[20..], "a fragment's payload is left alone");
        p[7] = 0;
        p[9] = 1;
        let out = h.send_ip(0, &p);
        assert_eq!(out[0].out().1[20..], p[20..], "and that of other protocols");
    }

    #[test]
    fn only_destinations_change_the_annotation() {
        let mut h = harness("pattern 192.0.2.1 - 0 1");
        let anno = |h: &mut Harness, port, src, dst| {
            let out = h.send_ip(port, &udp((src, 1), (dst, 2), b""));
            let Outcome::Out(_, p) = &out[0] else { panic!("{out:?}") };
            [p.anno[0], p.anno[1], p.anno[2], p.anno[3]]
        };
        assert_eq!(anno(&mut h, 0, [10, 0, 0, 1], SERVER), SERVER);
        assert_eq!(anno(&mut h, 1, SERVER, [192, 0, 2, 1]), [10, 0, 0, 1]);
    }

    #[test]
    fn keep_pass_and_drop() {
        let mut h = Harness::new("IPAddrRewriter", &["keep 0 1", "pass 1"], 2, 2);
        assert_eq!(send(&mut h, 1, SERVER, [10, 0, 0, 1]), (1, SERVER, [10, 0, 0, 1]));
        assert_eq!(send(&mut h, 0, [10, 0, 0, 1], SERVER), (0, [10, 0, 0, 1], SERVER));
        assert_eq!(send(&mut h, 1, SERVER, [10, 0, 0, 1]), (1, SERVER, [10, 0, 0, 1]));
        let p = udp((SERVER, 1), ([10, 0, 0, 1], 2), b"");
        assert_eq!(harness("keep 0 1").send_ip(1, &p)[0].reason(), "NoMatch");
    }

    #[test]
    fn every_prefix_of_a_packet_ends_somewhere() {
        let whole = tcp(([10, 0, 0, 1], 1), (SERVER, 2), 2, 0, b"abc");
        for n in 0..=whole.len() {
            assert_eq!(harness("pattern 192.0.2.1 - 0 1").send_ip(0, &whole[..n]).len(), 1);
        }
    }

    #[test]
    fn patterns_with_ports_are_refused() {
        let class = class_named("IPAddrRewriter").unwrap();
        let error = |spec: &str| class.configure(&[spec.to_owned()]).err().unwrap().join("\n");
        assert_eq!(
            error("pattern 1.0.0.1 80 - - 0 1"),
            "argument 1: this element rewrites addresses only: leave the ports out of the pattern"
        );
        assert!(error("pattern - 1.0.0.1 0 1").contains("the destination address must be '-' here"));
        let mut e = class.configure(&["pattern nat 0 1".to_owned()]).unwrap();
        let errors = e.resolve(&|_, _| Some(vec!["nat 1.0.0.1 80 - -".to_owned()])).unwrap_err();
        assert!(errors[0].contains("rewrites addresses only"), "{errors:?}");
    }
}

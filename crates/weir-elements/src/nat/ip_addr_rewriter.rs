use super::addresses;
use super::declare::rewriter;
use super::eviction::Spare;
use super::listing::Mapping;
use super::live::Part;
use super::mapping::{self, Mappings, nanos};
use super::pattern::{Pattern, Rule};
use crate::fields::ipv4;
use crate::prelude::*;

rewriter! {
    /// Rewrites source addresses of IPv4 packets, whatever their protocol: basic address translation (RFC 3022).
    ///
    /// A table of *mappings* pairs inner with outer addresses. A packet from an inner address gets the outer one as
    /// its source; a packet to an outer address gets the inner one as its destination, also in the annotation. Other
    /// packets are handled as the *input specification* of their input says; there is one for each input: `drop`,
    /// `pass OUTPUT` and `keep FOUTPUT ROUTPUT` as in `IPRewriter`, and
    ///
    /// - `pattern SADDR - FOUTPUT ROUTPUT`: maps the packet's source address to SADDR. Packets from it leave on
    ///   FOUTPUT, packets to SADDR on ROUTPUT. SADDR may be a range `A-B` or a prefix: a free address is taken, from
    ///   a random place on, or in sequence if `#` follows. If none is free, the packet is dropped (`NoAddress`).
    /// - `pattern NAME FOUTPUT ROUTPUT`: as above, with a pattern of an `IPRewriterPatterns` element.
    /// - `ELEMENT`: makes a mapping by a pattern that a `RoundRobinIPMapper` or `SourceIPHashMapper` chooses.
    ///
    /// If a pattern without a range gives two inner addresses the same outer one, packets to it go to the later. When
    /// the table has `MAPPING_CAPACITY` mappings, the one that expires next is evicted, as in `IPRewriter`, or packets from
    /// new addresses are dropped (`Full`).
    ///
    /// The `net` mark has to stand on a checked IPv4 header. The header checksum is updated, and those of TCP and UDP,
    /// also where the sender's kernel left them to the device.
    IPAddrRewriter;
    example "Idle -> CheckIPHeader -> rw :: IPAddrRewriter(pattern 192.0.2.1-192.0.2.254 - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// Lifetime of mappings without packets.
        key timeout: Duration = Duration::from_secs(7200) => "2 h",
        /// How long after its last packet a mapping is not evicted for another.
        key guarantee: Duration = Duration::from_secs(5) => "5 s",
    }
    only Pattern::only_source_address;
    handlers {
        /// All entries, one a line: address, new address, outputs (that of this direction with a star), input, seconds
        /// left.
        read table = |e, s| Ok(list(e, s)),
    }
}

/// Key fields of the table: whether the address is a destination, and the address.
const ADDR: u32 = 1;

impl IPAddrRewriter {
    /// What its tables follow from.
    pub(super) fn settings(&self, name: &str) -> mapping::Settings {
        self.table(
            name,
            &[("is_dst", W1), ("addr", W32)],
            &[("new", W32)],
            Spare::Same(self.timeout, self.guarantee),
        )
    }
}

fn program(e: &IPAddrRewriter, b: &mut Builder) {
    let name = b.name().to_owned();
    let m = Mappings::declare(b, &e.settings(&name), "");
    for input in 0..e.inputs.0.len().min(b.inputs() as usize) {
        b.input(input as u32, |b| {
            require_ip(b);
            let src = ipv4::SRC.load(b);
            let dst = ipv4::DST.load(b);
            let (no, yes) = (b.constant(W1, 0_u8), b.constant(W1, 1_u8));
            b.lookup(m.map, &[no, src], |b, entry| apply(b, e, &m, entry, (src, false), None), |_| {});
            b.lookup(m.map, &[yes, dst], |b, entry| apply(b, e, &m, entry, (dst, true), None), |_| {});
            m.unknown(
                b,
                &e.inputs,
                input,
                (&[no, src], src),
                &|b, number, rule| new_mapping(b, &m, number, rule, src),
                &|b, entry, first| apply(b, e, &m, entry, (src, false), first),
            );
        });
    }
}

fn new_mapping(b: &mut Builder, m: &Mappings, number: usize, rule: &Rule, src: V) -> Option<E> {
    let pattern = rule.pattern?;
    let proto = ipv4::PROTOCOL.load(b);
    m.require_space(b, number, proto);
    let (no, yes) = (b.constant(W1, 0_u8), b.constant(W1, 1_u8));
    let live = m.live(b, number, &pattern);
    let (forward, reply, new) = match live.src {
        Part::OneOf(range) => m.claim_pair(b, number, &[no, src], &[yes, src], ADDR, range, None),
        Part::Set(new) => {
            let (forward, reply) = m.insert_pair(b, &[no, src], &[yes, new]);
            (forward, reply, new)
        }
        Part::Keep => {
            let (forward, reply) = m.insert_pair(b, &[no, src], &[yes, src]);
            (forward, reply, src)
        }
    };
    b.set(reply, "new", src);
    b.set(forward, "new", new);
    m.tie(b, (forward, reply), number, rule.outputs);
    Some(forward)
}

fn apply(
    b: &mut Builder,
    e: &IPAddrRewriter,
    m: &Mappings,
    entry: E,
    (old, is_dst): (V, bool),
    first: Option<u32>,
) {
    let new = b.get(entry, "new");
    b.store(Layer::Net, if is_dst { 16 } else { 12 }, new);
    if is_dst {
        b.store_anno(anno::DST_IP, new);
    }
    let (old, new) = (halves(b, old), halves(b, new));
    addresses::update(b, &old, &new);
    b.touch(entry, nanos(e.timeout));
    m.leave(b, entry, first);
}

fn list(e: &IPAddrRewriter, s: &State<'_>) -> String {
    let line = |m: &Mapping<'_>| format!("{} => {} {}\n", m.addr("addr"), m.addr("new"), m.tail(&e.inputs));
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
        assert_eq!(h.send_ip(0, &udp(([10, 0, 0, 3], 1), (SERVER, 2), b""))[0].reason(), "NoAddress");
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
            "input spec 0: this element rewrites addresses only: leave the ports out of the pattern"
        );
        assert!(error("pattern - 1.0.0.1 0 1").contains("the destination address must be '-' here"));
        let mut e = class.configure(&["pattern nat 0 1".to_owned()]).unwrap();
        let args = ["nat 1.0.0.1 80 - -".to_owned()];
        let all = [weir_ir::Peer { name: "p", class: "IPRewriterPatterns", args: &args }];
        let errors = e.resolve(&Peers::new(&all, "e")).unwrap_err();
        assert!(errors[0].contains("rewrites addresses only"), "{errors:?}");
    }
}

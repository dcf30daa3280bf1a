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
    /// Rewrites addresses of IPv4 packets, by pairs of source and destination: between basic translation
    /// (`IPAddrRewriter`) and that of ports (`IPRewriter`).
    ///
    /// A table of *mappings* says what pair of addresses packets with a certain pair get, and where they leave. Other
    /// packets are handled as the *input specification* of their input says; there is one for each input: `drop`,
    /// `pass OUTPUT`, `keep FOUTPUT ROUTPUT` and `ELEMENT` as in `IPRewriter`, and
    ///
    /// - `pattern SADDR DADDR FOUTPUT ROUTPUT`: makes a mapping that writes SADDR and DADDR; a dash `-` leaves an
    ///   address as it is. Packets of the pair leave on FOUTPUT; those of the new pair in the other direction are
    ///   rewritten back, and leave on ROUTPUT. SADDR may be a range `A-B` or a prefix: an address is taken whose
    ///   pair is free, from a random place on, or in sequence if `#` follows. If none is free, the packet is dropped
    ///   (`NoAddress`).
    /// - `pattern NAME FOUTPUT ROUTPUT`: as above, with a pattern of an `IPRewriterPatterns` element.
    ///
    /// If a pattern without a range gives two pairs the same new one, replies go to the later. When the table has
    /// `MAPPING_CAPACITY` mappings, the one that expires next is evicted, as in `IPRewriter`, or packets of new pairs are
    /// dropped (`Full`).
    ///
    /// The `net` mark has to stand on a checked IPv4 header. The header checksum is updated, and those of TCP and UDP,
    /// also where the sender's kernel left them to the device. The destination annotation becomes the new destination.
    IPAddrPairRewriter;
    example "Idle -> CheckIPHeader -> rw :: IPAddrPairRewriter(pattern 192.0.2.1-192.0.2.254 - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// Lifetime of mappings without packets.
        key timeout: Duration = Duration::from_secs(7200) => "2 h",
        /// How long after its last packet a mapping is not evicted for another.
        key guarantee: Duration = Duration::from_secs(5) => "5 s",
    }
    only Pattern::only_addresses;
    handlers {
        /// All entries, one a line: addresses, new addresses, outputs (that of this direction with a star), input, seconds
        /// left.
        read table = |e, s| Ok(list(e, s)),
    }
}

/// Key field of the table that replies have their new address in.
const DST: u32 = 1;

impl IPAddrPairRewriter {
    /// What its tables follow from.
    pub(super) fn settings(&self, name: &str) -> mapping::Settings {
        self.table(
            name,
            &[("src", W32), ("dst", W32)],
            &[("new_src", W32), ("new_dst", W32)],
            Spare::Same(self.timeout, self.guarantee),
        )
    }
}

fn program(e: &IPAddrPairRewriter, b: &mut Builder) {
    let name = b.name().to_owned();
    let m = Mappings::declare(b, &e.settings(&name), "");
    for input in 0..e.inputs.0.len().min(b.inputs() as usize) {
        b.input(input as u32, |b| {
            require_ip(b);
            let pair = [ipv4::SRC.load(b), ipv4::DST.load(b)];
            b.lookup(
                m.map,
                &pair,
                |b, entry| apply(b, e, &m, entry, pair, None),
                |b| {
                    m.unknown(
                        b,
                        &e.inputs,
                        input,
                        (&pair, pair[0]),
                        &|b, number, rule| new_mapping(b, &m, number, rule, pair),
                        &|b, entry, first| apply(b, e, &m, entry, pair, first),
                    );
                },
            );
        });
    }
}

fn new_mapping(b: &mut Builder, m: &Mappings, number: usize, rule: &Rule, [src, dst]: [V; 2]) -> Option<E> {
    let pattern = rule.pattern?;
    let proto = ipv4::PROTOCOL.load(b);
    m.require_space(b, number, proto);
    let live = m.live(b, number, &pattern);
    let new_dst = live.dst.unwrap_or(dst);
    let (forward, reply, new_src) = match live.src {
        Part::OneOf(range) => m.claim_pair(b, number, &[src, dst], &[new_dst, src], DST, range, None),
        single => {
            let new_src = single.fixed(src);
            let (forward, reply) = m.insert_pair(b, &[src, dst], &[new_dst, new_src]);
            (forward, reply, new_src)
        }
    };
    for (e, src, dst) in [(reply, dst, src), (forward, new_src, new_dst)] {
        b.set(e, "new_src", src);
        b.set(e, "new_dst", dst);
    }
    m.tie(b, (forward, reply), number, rule.outputs);
    Some(forward)
}

fn apply(
    b: &mut Builder,
    e: &IPAddrPairRewriter,
    m: &Mappings,
    entry: E,
    [src, dst]: [V; 2],
    first: Option<u32>,
) {
    let (new_src, new_dst) = (b.get(entry, "new_src"), b.get(entry, "new_dst"));
    ipv4::SRC.store(b, new_src);
    ipv4::DST.store(b, new_dst);
    b.store_anno(anno::DST_IP, new_dst);
    let old = [halves(b, src), halves(b, dst)].concat();
    let new = [halves(b, new_src), halves(b, new_dst)].concat();
    addresses::update(b, &old, &new);
    b.touch(entry, nanos(e.timeout));
    m.leave(b, entry, first);
}

fn list(e: &IPAddrPairRewriter, s: &State<'_>) -> String {
    let line = |m: &Mapping<'_>| {
        let [src, dst, new_src, new_dst] = ["src", "dst", "new_src", "new_dst"].map(|f| m.addr(f));
        format!("({src}, {dst}) => ({new_src}, {new_dst}) {}\n", m.tail(&e.inputs))
    };
    Mapping::all(s).iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, tcp, udp};

    /// Sends a UDP and a TCP packet; gives the output and the addresses they left with.
    fn send(h: &mut Harness, port: u32, src: [u8; 4], dst: [u8; 4]) -> (u32, [u8; 4], [u8; 4]) {
        let make = |src, dst| [udp((src, 1), (dst, 2), b"abc"), tcp((src, 1), (dst, 2), 16, 1, b"abc")];
        let mut ends = None;
        for (i, p) in make(src, dst).iter().enumerate() {
            let out = h.send_ip(port, p);
            let (port, bytes) = out[0].out();
            let addr = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            assert_eq!(bytes, make(addr(12), addr(16))[i], "as a sender with these addresses would make it");
            ends = Some((port, addr(12), addr(16)));
        }
        ends.unwrap()
    }

    const SERVER: [u8; 4] = [9, 9, 9, 9];

    #[test]
    fn pairs_of_addresses_are_mapped_and_restored() {
        let mut h = Harness::new("IPAddrPairRewriter", &["pattern 3.0.0.1-3.0.0.255# - 0 1", "drop"], 2, 2);
        assert_eq!(send(&mut h, 0, [1, 0, 0, 1], SERVER), (0, [3, 0, 0, 1], SERVER));
        assert_eq!(send(&mut h, 0, [1, 0, 0, 2], SERVER), (0, [3, 0, 0, 2], SERVER));
        assert_eq!(send(&mut h, 0, [1, 0, 0, 1], [8; 4]), (0, [3, 0, 0, 3], [8; 4]), "another pair");
        assert_eq!(send(&mut h, 1, SERVER, [3, 0, 0, 2]), (1, SERVER, [1, 0, 0, 2]));
        assert_eq!(h.send_ip(1, &udp((SERVER, 1), ([3, 0, 0, 3], 2), b""))[0].reason(), "NoMatch");
        let table = h.read("table");
        let line = "(1.0.0.1, 9.9.9.9) => (3.0.0.1, 9.9.9.9) [*0 1] i0 exp7200";
        assert!(table.lines().any(|l| l == line), "{table}");
        assert_eq!(
            (h.read("size"), h.read("patterns")),
            ("3".into(), "3.0.0.1-3.0.0.255 - [3]\n<drop>\n".into())
        );
        h.now += 7201 * 1_000_000_000;
        h.expire();
        assert_eq!(h.read("size"), "0");
    }

    #[test]
    fn one_address_serves_a_sender_to_each_destination() {
        let mut h = Harness::new("IPAddrPairRewriter", &["pattern 3.0.0.0/31 - 0 1"], 1, 2);
        for client in [1, 2] {
            send(&mut h, 0, [1, 0, 0, client], SERVER);
            send(&mut h, 0, [1, 0, 0, client], [8; 4]);
        }
        assert_eq!(h.send_ip(0, &udp(([1, 0, 0, 3], 1), (SERVER, 2), b""))[0].reason(), "NoAddress");
        assert_eq!(h.read("mapping_failures"), "1");
    }

    #[test]
    fn fixed_addresses_and_bad_patterns() {
        let mut h = Harness::new("IPAddrPairRewriter", &["pattern 3.0.0.1 4.0.0.4 0 1"], 1, 2);
        assert_eq!(send(&mut h, 0, [1, 0, 0, 1], SERVER), (0, [3, 0, 0, 1], [4, 0, 0, 4]));
        assert_eq!(send(&mut h, 0, [4, 0, 0, 4], [3, 0, 0, 1]), (1, SERVER, [1, 0, 0, 1]));
        let bad = ["pattern 1.0.0.1 80 - - 0 1".to_owned()];
        let errors = crate::class_named("IPAddrPairRewriter").unwrap().configure(&bad).err().unwrap();
        assert!(errors[0].contains("input spec 0: this element rewrites addresses only"), "{errors:?}");
    }

    #[test]
    fn every_prefix_of_a_packet_ends_somewhere() {
        let whole = tcp(([1, 0, 0, 1], 1), (SERVER, 2), 2, 0, b"abc");
        for n in 0..=whole.len() {
            let mut h = Harness::new("IPAddrPairRewriter", &["pattern 3.0.0.1 - 0 1"], 1, 2);
            assert_eq!(h.send_ip(0, &whole[..n]).len(), 1);
        }
    }
}

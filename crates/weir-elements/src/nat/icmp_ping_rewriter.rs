use super::declare::rewriter;
use super::eviction::Spare;
use super::listing::Mapping;
use super::live::Part;
use super::mapping::{self, Mappings, nanos};
use super::pattern::{InputSpec, Rule};
use crate::fields::{icmp, ipv4};
use crate::prelude::*;

rewriter! {
    /// Rewrites addresses and identifiers of ICMP echo requests and replies (RFC 792), so that pings pass an address
    /// translation.
    ///
    /// A table of *mappings* pairs source, destination and identifier of requests with new ones. A request gets the
    /// new ones; a reply to the new ones gets back the old. Requests without a mapping are handled as the *input
    /// specification* of their input says, as in `IPRewriter`: `drop`, `pass OUTPUT`, `keep FOUTPUT ROUTPUT`,
    /// `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT`, `pattern NAME FOUTPUT ROUTPUT` or `ELEMENT`. The source port
    /// of a pattern stands for the identifier; the destination port is ignored. If no identifier is free, the
    /// request is dropped (`NoPort`). When the table has `MAPPING_CAPACITY` mappings, the one that expires next is evicted,
    /// as in `IPRewriter`, or the request is dropped (`Full`).
    ///
    /// Replies without a mapping (`NoMatch`), packets that are no echo (`NotRewritable`), fragments beyond the first
    /// (`Fragment`), and packets too short for the ICMP header (`Truncated`) are dropped, or leave unchanged if the
    /// input's specification is `pass`. The `net` mark has to stand on a checked IPv4 header.
    ICMPPingRewriter;
    example "Idle -> CheckIPHeader -> rw :: ICMPPingRewriter(pattern 192.0.2.1 - 0-65535 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// Lifetime of mappings without packets.
        key timeout: Duration = Duration::from_secs(300) => "5 min",
        /// How long after its last packet a mapping is not evicted for another.
        key guarantee: Duration = Duration::from_secs(5) => "5 s",
        /// Whether the destination annotation becomes the new destination address.
        key dst_anno: bool = true,
    }
    handlers {
        /// All entries, one a line: flow (addresses, identifier), new flow, outputs (that of this direction with a star), input, seconds
        /// left.
        read table = |e, s| Ok(list(e, s)),
    }
}

/// Key field of the table: the identifier.
const ID: u32 = 3;
/// The destination address.
const DST: u32 = 2;

/// ICMP types (RFC 792).
const REQUEST: u128 = 8;
const REPLY: u128 = 0;

impl ICMPPingRewriter {
    /// What its tables follow from.
    pub(super) fn settings(&self, name: &str) -> mapping::Settings {
        self.table(
            name,
            &[("is_reply", W1), ("src", W32), ("dst", W32), ("id", W16)],
            &[("new_src", W32), ("new_dst", W32), ("new_id", W16)],
            Spare::Same(self.timeout, self.guarantee),
        )
    }
}

/// An echo request or reply.
#[derive(Clone, Copy)]
struct Echo {
    is_reply: V,
    src: V,
    dst: V,
    id: V,
}

impl Echo {
    fn key(self) -> [V; 4] {
        [self.is_reply, self.src, self.dst, self.id]
    }
}

fn program(e: &ICMPPingRewriter, b: &mut Builder) {
    let name = b.name().to_owned();
    let m = Mappings::declare(b, &e.settings(&name), "");
    for (input, spec) in e.inputs.0.iter().enumerate().take(b.inputs() as usize) {
        b.input(input as u32, |b| {
            let refuse = |reason: Reason| {
                move |b: &mut Builder| match spec {
                    InputSpec::Pass(out) => b.emit(*out),
                    _ => b.drop(reason),
                }
            };
            let echo = echo_of_packet(b, refuse);
            b.lookup(m.map, &echo.key(), |b, entry| apply(b, e, &m, entry, echo, None), |_| {});
            b.when(echo.is_reply, refuse(Reason::NO_MATCH));
            m.unknown(
                b,
                &e.inputs,
                input,
                (&echo.key(), echo.src),
                &|b, number, rule| new_mapping(b, &m, number, rule, echo),
                &|b, entry, first| apply(b, e, &m, entry, echo, first),
            );
        });
    }
}

/// Reads an echo and marks its ICMP header, of which eight bytes are there.
fn echo_of_packet<F: FnOnce(&mut Builder)>(b: &mut Builder, refuse: impl Fn(Reason) -> F) -> Echo {
    require_ip(b);
    let fragment = ipv4::FRAGMENT.load(b);
    let offset = b.and(fragment, 0x1fff);
    let later = b.ne(offset, 0);
    b.when(later, refuse(Reason::new("Fragment")));
    let proto = ipv4::PROTOCOL.load(b);
    let other = b.ne(proto, proto::ICMP);
    b.when(other, refuse(Reason::new("NotRewritable")));
    let header_len = ip_header_len(b);
    b.require_or(Layer::Net, header_len, refuse(Reason::TRUNCATED));
    b.set_mark(Layer::Transport, Layer::Net, header_len);
    b.require_or(Layer::Transport, 8, refuse(Reason::TRUNCATED));
    let kind = icmp::TYPE.load(b);
    b.switch(kind, &[REQUEST, REPLY], |b, case| {
        if case.is_none() {
            refuse(Reason::new("NotRewritable"))(b);
        }
    });
    Echo { is_reply: b.eq(kind, REPLY), src: ipv4::SRC.load(b), dst: ipv4::DST.load(b), id: icmp::ID.load(b) }
}

fn new_mapping(b: &mut Builder, m: &Mappings, number: usize, rule: &Rule, echo: Echo) -> Option<E> {
    let pattern = rule.pattern?;
    let proto = ipv4::PROTOCOL.load(b);
    m.require_space(b, number, proto);
    let live = m.live(b, number, &pattern);
    let mut new = Echo {
        src: live.src.fixed(echo.src),
        dst: live.dst.unwrap_or(echo.dst),
        id: live.sport.fixed(echo.id),
        ..echo
    };
    let is_reply = b.constant(W1, 1_u8);
    let reply_key = [is_reply, new.dst, new.src, new.id];
    let (forward, reply) = match (live.src, live.sport) {
        (_, Part::OneOf(range)) => {
            let (f, r, id) = m.claim_pair(b, number, &echo.key(), &reply_key, ID, range, Some(echo.id));
            new.id = id;
            (f, r)
        }
        (Part::OneOf(range), _) => {
            let (f, r, addr) = m.claim_pair(b, number, &echo.key(), &reply_key, DST, range, None);
            new.src = addr;
            (f, r)
        }
        _ => m.insert_pair(b, &echo.key(), &reply_key),
    };
    for (e, src, dst, id) in [(reply, echo.dst, echo.src, echo.id), (forward, new.src, new.dst, new.id)] {
        b.set(e, "new_src", src);
        b.set(e, "new_dst", dst);
        b.set(e, "new_id", id);
    }
    m.tie(b, (forward, reply), number, rule.outputs);
    Some(forward)
}

fn apply(b: &mut Builder, e: &ICMPPingRewriter, m: &Mappings, entry: E, echo: Echo, first: Option<u32>) {
    let (src, dst, id) = (b.get(entry, "new_src"), b.get(entry, "new_dst"), b.get(entry, "new_id"));
    ipv4::SRC.store(b, src);
    ipv4::DST.store(b, dst);
    icmp::ID.store(b, id);
    if e.dst_anno {
        b.store_anno(anno::DST_IP, dst);
    }
    let old = [halves(b, echo.src), halves(b, echo.dst)].concat();
    let new = [halves(b, src), halves(b, dst)].concat();
    update_ip_checksum(b, &old, &new);
    let field = icmp::CHECKSUM.load(b);
    let updated = update_checksum(b, field, &[echo.id], &[id]);
    icmp::CHECKSUM.store(b, updated);
    b.touch(entry, nanos(e.timeout));
    m.leave(b, entry, first);
}

fn list(e: &ICMPPingRewriter, s: &State<'_>) -> String {
    let line = |m: &Mapping<'_>| {
        let [src, dst, new_src, new_dst] = ["src", "dst", "new_src", "new_dst"].map(|f| m.addr(f));
        let (id, new_id) = (m.get("id"), m.get("new_id"));
        format!("({src}, {dst}, {id}) => ({new_src}, {new_dst}, {new_id}) {}\n", m.tail(&e.inputs))
    };
    Mapping::all(s).iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use weir_net::checksum::checksum;

    const SERVER: [u8; 4] = [5, 0, 0, 5];
    const OUTSIDE: [u8; 4] = [2, 0, 0, 2];

    /// An echo request (8) or reply (0) with a payload of odd length.
    fn ping(kind: u8, src: [u8; 4], dst: [u8; 4], id: u16) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        let mut p = vec![0x45, 0, 0, 33, 0, 0, 0, 0, 64, 1, 0, 0];
        p.extend([src, dst].concat());
        p.extend([kind, 0, 0, 0, high, low, 0, 7, 1, 2, 3, 4, 5]);
        let sum = checksum(&p[20..]);
        p[22..24].copy_from_slice(&sum.to_be_bytes());
        let sum = checksum(&p[..20]);
        p[10..12].copy_from_slice(&sum.to_be_bytes());
        p
    }

    /// Sends a ping; gives output, addresses and identifier of what left, which has right checksums.
    fn send(h: &mut Harness, port: u32, p: &[u8]) -> (u32, [u8; 4], [u8; 4], u16) {
        let out = h.send_ip(port, p);
        let (port, p) = out[0].out();
        let addr = |at: usize| [p[at], p[at + 1], p[at + 2], p[at + 3]];
        let id = u16::from_be_bytes([p[24], p[25]]);
        assert_eq!(p, ping(p[20], addr(12), addr(16), id));
        (port, addr(12), addr(16), id)
    }

    #[test]
    fn requests_get_a_free_identifier_and_replies_the_old_one() {
        let mut h = Harness::new("ICMPPingRewriter", &["pattern 2.0.0.2 - 0-65535# 0 1", "drop"], 2, 2);
        for (client, id) in [(1, 10230), (2, 0)] {
            let client_addr = [1, 0, 0, client];
            let new = u16::from(client) - 1;
            for _ in 0..2 {
                let out = send(&mut h, 0, &ping(8, client_addr, SERVER, id));
                assert_eq!(out, (0, OUTSIDE, SERVER, new));
            }
            let back = send(&mut h, 1, &ping(0, SERVER, OUTSIDE, new));
            assert_eq!(back, (1, SERVER, client_addr, id));
        }
        assert_eq!(h.send_ip(1, &ping(0, SERVER, OUTSIDE, 2))[0].reason(), "NoMatch");
        assert_eq!(
            h.send_ip(1, &ping(8, SERVER, OUTSIDE, 0))[0].reason(),
            "NoMatch",
            "a request is no reply"
        );
        let table = h.read("table");
        let line = "(1.0.0.1, 5.0.0.5, 10230) => (2.0.0.2, 5.0.0.5, 0) [*0 1] i0 exp300";
        assert!(table.lines().any(|l| l == line), "{table}");
        let line = "(5.0.0.5, 2.0.0.2, 0) => (5.0.0.5, 1.0.0.1, 10230) [0 *1] i0 exp300";
        assert!(table.lines().any(|l| l == line), "{table}");
    }

    #[test]
    fn the_own_identifier_is_taken_if_it_is_free() {
        let mut h = Harness::new("ICMPPingRewriter", &["pattern 2.0.0.2 - 0-65535 0 1"], 1, 2);
        assert_eq!(send(&mut h, 0, &ping(8, [1, 0, 0, 1], SERVER, 10)), (0, OUTSIDE, SERVER, 10));
        assert_ne!(send(&mut h, 0, &ping(8, [1, 0, 0, 2], SERVER, 10)).3, 10);
        assert_eq!(send(&mut h, 0, &ping(8, [1, 0, 0, 2], [5, 0, 0, 6], 10)).3, 10, "to another server");
    }

    #[test]
    fn what_is_no_echo_is_dropped_or_passed() {
        let request = ping(8, [1, 0, 0, 1], SERVER, 10);
        let changed = |at: usize, to: u8| {
            let mut p = request.clone();
            p[at] = to;
            p
        };
        let cases = [
            (changed(20, 3), "NotRewritable"),
            (changed(9, 17), "NotRewritable"),
            (changed(7, 1), "Fragment"),
            (request[..27].to_vec(), "Truncated"),
            (ping(0, SERVER, OUTSIDE, 10), "NoMatch"),
        ];
        for (p, reason) in cases {
            let mut h = Harness::new("ICMPPingRewriter", &["pattern 2.0.0.2 - - 0 1", "pass 1"], 2, 2);
            assert_eq!(h.send_ip(0, &p)[0].reason(), reason);
            assert_eq!(h.send_ip(1, &p)[0].out(), (1, &p[..]));
        }
        for n in 0..=request.len() {
            let mut h = Harness::new("ICMPPingRewriter", &["keep 0 1"], 1, 2);
            assert_eq!(h.send_ip(0, &request[..n]).len(), 1);
        }
    }
}

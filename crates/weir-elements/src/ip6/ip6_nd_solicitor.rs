use crate::fields::icmpv6;
use std::net::Ipv6Addr;

use super::neighbour::{
    ADVERTISEMENT, FRAME_LEN, MULTICAST_ETHER, Message, Reply, SOLICITATION, SOURCE_OPTION, TARGET_OPTION,
    link_address, message,
};
use crate::prelude::*;

element! {
    /// Puts Ethernet headers in front of IPv6 packets, and asks for the addresses by neighbour discovery (RFC 4861).
    ///
    /// Packets on input 0 are encapsulated with the hardware address of their destination annotation and leave on
    /// output 0; those to a multicast address go to the Ethernet address of that (RFC 2464). While an address is not
    /// known, packets wait, at most `ENTRY_PACKET_CAPACITY` for one address, and a solicitation leaves each second, on
    /// output 1 if that is connected, else on output 0. After `TRIES` solicitations without an answer the packets that
    /// wait are dropped (`TimedOut`). Input 1 takes advertisements as Ethernet frames: those for addresses that were
    /// asked for are learnt, and the packets that wait for them leave. Other packets on input 1 are dropped: `Truncated`,
    /// `NotNeighbour`, `BadHeader`, `BadChecksum`, `NotAsked`, `NoLinkAddress` if an advertisement does not give an
    /// address, `NoOverride` if it gives another one than is known without the right to replace it.
    IP6NDSolicitor: "1-2/1-2", "h/h", flow "xy/x";
    example "n :: IP6NDSolicitor(fd00::1, 02:00:00:00:00:01); Idle -> CheckIP6Header -> n -> Discard; Idle -> Classifier(12/86dd 54/88) -> [1] n;";
    params {
        /// The interface's IPv6 address, which solicitations come from.
        pos ip: Ipv6Addr,
        /// The interface's Ethernet address.
        pos eth: EtherAddr,
        /// Most packets that wait for one address.
        key entry_packet_capacity: u32 = 16,
        /// Most addresses that are remembered or asked for.
        key entry_capacity: u32 = 4096,
        /// How long an answer is believed.
        key timeout: Duration = Duration::from_secs(300),
        /// After this time, a packet that uses an entry has it asked for again; 0 is never.
        key poll_timeout: Duration = Duration::from_secs(30),
        /// Solicitations that are sent for one address before its packets are dropped.
        key tries: u8 = 3,
    }
    handlers {
        /// One line an address: IPv6 address, whether it is known, Ethernet address.
        read table = |_, s| Ok(table(s)),
        /// Number of addresses.
        read count = |_, s| Ok(s.table("neighbours").len().to_string()),
        /// Number of solicitations sent.
        count queries,
        /// Number of packets that were dropped because too many waited.
        count drops,
        /// Removes all entries.
        write clear = |_, s, _| {
            for (slot, _) in s.table("neighbours").rows() {
                s.remove("neighbours", slot);
            }
            Ok(())
        },
    }
}

/// Time between two solicitations for an address (`RetransTimer`).
const RETRY: u64 = 1_000_000_000;
/// First half of the addresses of solicited nodes, and second half without the last 24 bits (RFC 4291 section 2.7.1).
const SOLICITED_NODE: [u64; 2] = [0xff02_0000_0000_0000, 0x0000_0001_ff00_0000];
/// The flag by which an advertisement may replace what is known.
const OVERRIDE: u8 = 0x20;

/// The tables and parameters that all programs of the element share.
#[derive(Clone, Copy)]
struct Parts {
    neighbours: TableId,
    queries: TableId,
    drops: TableId,
    ip: u128,
    eth: u64,
}

fn program(e: &IP6NDSolicitor, b: &mut Builder) {
    let decl = TableDecl::new(
        "neighbours",
        Kind::Exact,
        &[("ip", W128)],
        &[("eth", W64), ("known", W8), ("tries", W8), ("since", W64)],
        e.entry_capacity,
    );
    let neighbours = b.table(decl.holding(e.entry_packet_capacity), vec![]);
    let queries = b.cell("queries", W64, 0);
    let drops = b.cell("drops", W64, 0);
    let parts = Parts { neighbours, queries, drops, ip: e.ip.into(), eth: ether_bits(e.eth) };
    b.input(0, |b| resolve(e, parts, b));
    if b.inputs() > 1 {
        b.input(1, |b| learn(e, parts, b));
    }
    // Entries of addresses that are asked for expire each second; those that are known, when they are too old.
    b.expire(neighbours, |b, entry| {
        let known = b.get(entry, "known");
        let known = b.ne(known, 0);
        b.when(known, Builder::stop);
        let tries = b.get(entry, "tries");
        let enough = b.ge(tries, e.tries);
        b.when(enough, Builder::stop);
        let tries = b.add(tries, 1);
        b.set(entry, "tries", tries);
        b.touch(entry, RETRY);
        let ip = b.key(entry, 0);
        query(parts, b, ip);
    });
}

/// Input 0: encapsulates, or asks and waits.
fn resolve(e: &IP6NDSolicitor, parts: Parts, b: &mut Builder) {
    let dst = b.load_anno(W128, anno::DST_IP);
    let none = b.eq(dst, 0);
    b.when(none, |b| b.drop(Reason::new("NoDestination")));
    let class = b.shr(dst, 120);
    let group = b.eq(class, 0xff);
    b.when(group, |b| {
        let low = b.resize(W32, dst);
        let low = b.resize(W64, low);
        let eth = b.or(low, MULTICAST_ETHER);
        send(parts, b, eth);
    });
    let full = |b: &mut Builder| {
        count(b, parts.drops);
        b.drop(Reason::FULL);
    };
    b.lookup(
        parts.neighbours,
        &[dst],
        |b, entry| {
            let known = b.get(entry, "known");
            let known = b.ne(known, 0);
            b.unless(known, |b| b.hold(entry, full));
            if !e.poll_timeout.is_zero() {
                let now = b.now();
                let since = b.get(entry, "since");
                let age = b.sub(now, since);
                let old = b.gt(age, e.poll_timeout.as_nanos() as u64);
                b.when(old, |b| {
                    b.set(entry, "since", now);
                    query(parts, b, dst);
                });
            }
            let eth = b.get(entry, "eth");
            send(parts, b, eth);
        },
        |b| {
            let entry = b.insert(parts.neighbours, &[dst], full);
            b.set(entry, "tries", 1);
            b.touch(entry, RETRY);
            query(parts, b, dst);
            b.hold(entry, full);
        },
    );
}

/// Input 1: learns from advertisements (RFC 4861 section 7.2.5).
fn learn(e: &IP6NDSolicitor, parts: Parts, b: &mut Builder) {
    let m: Message = message(b, ADVERTISEMENT, Builder::drop);
    let flags = icmpv6::FLAGS.load(b);
    let announced = link_address(b, &m, TARGET_OPTION, |b| b.drop(Reason::BAD_HEADER));
    // An address of a group of hosts would send traffic astray.
    let first = b.shr(announced, 40);
    let group = b.and(first, 1);
    let group = b.ne(group, 0);
    b.when(group, |b| b.drop(Reason::BAD_HEADER));
    let entry = b.find(parts.neighbours, &[m.target], |b| b.drop(Reason::new("NotAsked")));
    let old = b.get(entry, "eth");
    let silent = b.eq(announced, 0);
    let eth = b.select(silent, old, announced);
    let nothing = b.eq(eth, 0);
    b.when(nothing, |b| b.drop(Reason::new("NoLinkAddress")));
    let known = b.get(entry, "known");
    let known = b.ne(known, 0);
    let differs = b.ne(eth, old);
    let may = b.and(flags, OVERRIDE);
    let may_not = b.eq(may, 0);
    let other = b.and(known, differs);
    let refused = b.and(other, may_not);
    b.when(refused, |b| b.drop(Reason::new("NoOverride")));
    let now = b.now();
    b.set(entry, "eth", eth);
    b.set(entry, "known", 1);
    b.set(entry, "since", now);
    b.touch(entry, e.timeout.as_nanos() as u64);
    b.release(entry, &[eth], |b, args| send(parts, b, args[0]));
    b.drop(Reason::CONSUMED);
}

fn send(parts: Parts, b: &mut Builder, dst: V) {
    let src = b.constant(W64, parts.eth);
    push_ether(b, dst, src, ethertype::IPV6);
    b.emit(0);
}

/// Starts a solicitation for `ip` as a packet of its own.
fn query(parts: Parts, b: &mut Builder, ip: V) {
    let high = b.shr(ip, 64);
    let high = b.resize(W64, high);
    let low = b.resize(W64, ip);
    b.fork_new(&[high, low], |b, halves| {
        count(b, parts.queries);
        b.put(FRAME_LEN);
        b.require(Layer::Data, FRAME_LEN, Reason::NO_SPACE);
        let wide = |b: &mut Builder, [high, low]: [V; 2]| {
            let high = b.resize(W128, high);
            let high = b.shl(high, 64);
            let low = b.resize(W128, low);
            b.or(high, low)
        };
        let target = wide(b, [halves[0], halves[1]]);
        let last = b.and(halves[1], 0x00ff_ffff);
        let group = b.or(last, SOLICITED_NODE[1]);
        let prefix = b.constant(W64, SOLICITED_NODE[0]);
        let dst = wide(b, [prefix, group]);
        let to = b.or(last, MULTICAST_ETHER | 0xff00_0000);
        let eth = b.constant(W64, parts.eth);
        let flags = b.constant(W32, 0_u32);
        let own = b.constant(W128, parts.ip);
        let reply = Reply { ether: [to, eth], kind: SOLICITATION, flags, option: SOURCE_OPTION };
        reply.write(b, [own, dst, target]);
        let port = if b.outputs() > 1 { 1 } else { 0 };
        b.emit(port);
    });
}

fn table(s: &State<'_>) -> String {
    let mut lines: Vec<String> = s
        .table("neighbours")
        .rows()
        .iter()
        .filter_map(|(_, row)| {
            let ([KeyMatch::Exact(ip)], [eth, known, ..]) = (&row.key[..], &row.value[..]) else {
                return None;
            };
            let known = if *known != 0 { "known" } else { "asked" };
            Some(format!("{} {known} {}\n", Ipv6Addr::from(*ip), EtherAddr::show(*eth)))
        })
        .collect();
    lines.sort();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::super::neighbour::samples::frame;
    use super::super::samples::{addr, udp};
    use super::*;
    use crate::testing::{Harness, Outcome};
    use weir_net::build;

    const OWN: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
    const PEER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 2]);
    const SECOND: u64 = 1_000_000_000;

    fn solicitor(args: &[&str]) -> Harness {
        let mut all = vec!["2001:db8::1", "02:00:00:00:00:01"];
        all.extend(args);
        Harness::new("IP6NDSolicitor", &all, 2, 1)
    }

    fn send(e: &mut Harness, dst: Ipv6Addr, n: u8) -> Vec<Outcome> {
        let mut p = Packet::from_bytes(&udp(&[n])).unwrap();
        p.anno[..16].copy_from_slice(&dst.octets());
        e.send_packet(0, p)
    }

    fn solicitation() -> Vec<u8> {
        let ether = (OWN, EtherAddr([0x33, 0x33, 0xff, 0, 0, 2]));
        frame(ether, (addr(1), "ff02::1:ff00:2".parse().unwrap()), (135, 0), addr(2), (1, OWN))
    }

    fn advertisement(flags: u8, option: u8, eth: EtherAddr) -> Vec<u8> {
        frame((PEER, OWN), (addr(2), addr(1)), (136, flags), addr(2), (option, eth))
    }

    #[test]
    fn packets_wait_for_the_answer_and_leave_in_order() {
        let mut e = solicitor(&[]);
        let out = send(&mut e, addr(2), 1);
        assert_eq!((out.len(), out[0].out()), (1, (0, &solicitation()[..])));
        assert_eq!(out[0].provenance(), Provenance::Made);
        assert!(send(&mut e, addr(2), 2).is_empty(), "the second packet waits without another solicitation");
        assert_eq!((e.held(), e.read("table")), (2, "2001:db8::2 asked 00:00:00:00:00:00\n".into()));
        let out = e.send(1, &advertisement(0x60, 2, PEER));
        assert_eq!(out[0].reason(), "Consumed");
        for (out, n) in out[1..].iter().zip([1, 2]) {
            assert_eq!(out.out(), (0, &build::ethernet(PEER, OWN, 0x86dd, &udp(&[n]))[..]));
            assert_eq!(out.provenance(), Provenance::Sent, "what waited is what was sent");
        }
        assert_eq!(out.len(), 3);
        assert_eq!(send(&mut e, addr(2), 3)[0].out().1[..6], PEER.octets());
        assert_eq!(e.read("table"), "2001:db8::2 known 02:00:00:00:00:02\n");
        e.write("clear", "").unwrap();
        assert_eq!(e.read("count"), "0");
    }

    #[test]
    fn solicitations_repeat_each_second_and_then_the_packets_are_dropped() {
        let mut e = solicitor(&["ENTRY_PACKET_CAPACITY 1"]);
        send(&mut e, addr(2), 1);
        assert_eq!(send(&mut e, addr(2), 2)[0].reason(), "Full");
        for _ in 0..2 {
            e.now += SECOND;
            let out = e.expire();
            assert_eq!((out.len(), out[0].out()), (1, (0, &solicitation()[..])));
        }
        e.now += SECOND;
        let out = e.expire();
        assert_eq!((out.len(), out[0].reason()), (1, "TimedOut"));
        assert_eq!(
            (e.read("count"), e.read("queries"), e.read("drops")),
            ("0".into(), "3".into(), "1".into())
        );
    }

    #[test]
    fn an_answer_is_believed_for_a_time_and_polled_meanwhile() {
        let mut e = solicitor(&[]);
        send(&mut e, addr(2), 1);
        e.send(1, &advertisement(0x60, 2, PEER));
        e.now += 31 * SECOND;
        let out = send(&mut e, addr(2), 2);
        assert_eq!((out.len(), out[1].out().1), (2, &solicitation()[..]));
        // An answer without address confirms the one that is known; another address needs the right to replace it.
        assert_eq!(e.send(1, &advertisement(0x40, 0, PEER))[0].reason(), "Consumed");
        assert_eq!(e.send(1, &advertisement(0x40, 2, OWN))[0].reason(), "NoOverride");
        assert_eq!(e.send(1, &advertisement(0x20, 2, OWN))[0].reason(), "Consumed");
        assert_eq!(e.read("table"), "2001:db8::2 known 02:00:00:00:00:01\n");
        e.now += 306 * SECOND;
        e.expire();
        assert_eq!(e.read("count"), "0");
    }

    #[test]
    fn what_is_no_proper_answer_is_not_learnt() {
        let mut e = solicitor(&[]);
        let good = advertisement(0x60, 2, PEER);
        assert_eq!(e.send(1, &good)[0].reason(), "NotAsked");
        send(&mut e, addr(2), 1);
        for n in 0..good.len() {
            assert_eq!(e.send(1, &good[..n])[0].reason(), "Truncated");
        }
        assert_eq!(e.send(1, &solicitation())[0].reason(), "NotNeighbour");
        assert_eq!(e.send(1, &advertisement(0x60, 0, PEER))[0].reason(), "NoLinkAddress");
        let group = EtherAddr([3, 0, 0, 0, 0, 2]);
        assert_eq!(e.send(1, &advertisement(0x60, 2, group))[0].reason(), "BadHeader");
        let mut wrong = good.clone();
        wrong[85] ^= 1;
        assert_eq!(e.send(1, &wrong)[0].reason(), "BadChecksum");
        // An option of no length, and one of another kind before that of the address.
        for (options, reason) in [
            (&[14, 0, 0, 0, 0, 0, 0, 0][..], "BadHeader"),
            (&[14, 1, 0, 0, 0, 0, 0, 0, 2, 1, 2, 0, 0, 0, 0, 2], "Consumed"),
        ] {
            let mut message = good[54..78].to_vec();
            message.extend(options);
            let mut p = super::super::samples::icmp(addr(2), addr(1), &message);
            p[7] = 255;
            assert_eq!(e.send(1, &build::ethernet(OWN, PEER, 0x86dd, &p))[0].reason(), reason);
        }
        assert_eq!(e.read("table"), "2001:db8::2 known 02:00:00:00:00:02\n");
    }

    #[test]
    fn multicast_needs_no_answer() {
        let mut e = solicitor(&[]);
        let out = send(&mut e, "ff02::1:2:3".parse().unwrap(), 1);
        assert_eq!(out[0].out().1[..6], [0x33, 0x33, 0, 2, 0, 3]);
        assert_eq!(send(&mut e, Ipv6Addr::UNSPECIFIED, 1)[0].reason(), "NoDestination");
    }
}

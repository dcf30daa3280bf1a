use crate::prelude::*;

element! {
    /// Puts Ethernet headers in front of IPv4 packets, and asks for the addresses by ARP (RFC 826).
    ///
    /// Packets on input 0 are encapsulated with the hardware address of their destination annotation and leave on
    /// output 0. While an address is not known, packets wait, at most `ENTRY_PACKET_CAPACITY` for one address, and a
    /// query leaves each second, on output 1 if that is connected, else on output 0. After `TRIES` queries without an
    /// answer the packets that wait are dropped (`TimedOut`). Input 1 takes ARP packets as Ethernet frames: answers
    /// are learnt, and the packets that wait for them leave.
    ARPQuerier: "1-2/1-2", "h/h", flow "xy/x";
    example "q :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01); Idle -> CheckIPHeader -> q -> Discard; Idle -> Classifier(12/0806 20/0002) -> [1] q;";
    params {
        /// The interface's IP address, which queries come from; with a prefix length (`10.0.0.1/24`), the broadcast
        /// address of the network is that of `BROADCAST`, if this is not given.
        pos ip: InterfaceAddr,
        /// The interface's Ethernet address.
        pos eth: EtherAddr,
        /// Most packets that wait for one address.
        key entry_packet_capacity: u32 = 16,
        /// Most addresses that are remembered or asked for.
        key entry_capacity: u32 = 4096,
        /// Kept for Click configurations: what waits is bounded for each address.
        key capacity: u32 = 2048,
        /// How long an answer is believed.
        key timeout: Duration = Duration::from_secs(300),
        /// After this time, a packet that uses an entry has it asked for again; 0 is never.
        key poll_timeout: Duration = Duration::from_secs(60),
        /// Local broadcast address, which is sent to the Ethernet broadcast address.
        key broadcast: Option<Ipv4Addr> = None,
        /// Queries that are sent for one address before its packets are dropped.
        key tries: u8 = 5,
    }
    handlers {
        /// One line an address: IP address, whether it is known, Ethernet address.
        read table = |_, s| Ok(table(s)),
        /// Number of addresses.
        read count = |_, s| Ok(s.table("arp").len().to_string()),
        /// Number of packets that wait.
        read length = |_, s| Ok(waiting(s).to_string()),
        /// Number of queries sent.
        count queries,
        /// Number of packets that were dropped because too many waited.
        count drops,
        /// Both numbers, as Click writes them.
        read stats = |_, s| Ok(format!(
            "{} packets killed\n{} ARP queries sent\n", s.cell("drops"), s.cell("queries")
        )),
        /// The interface's IP address.
        cell ipaddr: Ipv4Addr,
        /// Adds an entry: `IP ETH`.
        write insert = |e, s, v| insert(e, s, v),
        /// Removes the entry of an IP address.
        write delete = |_, s, v| delete(s, v),
        /// Removes all entries.
        write clear = |_, s, _| { clear(s); Ok(()) },
    }
}

/// An interface's address, and its network's broadcast address if it came with a prefix length.
#[derive(Debug, Clone, Copy)]
pub struct InterfaceAddr {
    addr: Ipv4Addr,
    broadcast: Option<Ipv4Addr>,
}

impl FromArg for InterfaceAddr {
    const SYNTAX: &'static str = "IP address, or IP address with prefix length";
    fn from_arg(text: &str) -> Result<InterfaceAddr, String> {
        match text.trim().split_once('/') {
            None => Ok(InterfaceAddr { addr: Ipv4Addr::from_arg(text)?, broadcast: None }),
            Some((addr, _)) => {
                let network = Ipv4Prefix::from_arg(text)?;
                let addr = Ipv4Addr::from_arg(addr)?;
                // All addresses are a network too, and so is one alone: these have no broadcast address of their own.
                let broadcast = Some(network.last()).filter(|b| *b != addr && !b.is_broadcast());
                Ok(InterfaceAddr { addr, broadcast })
            }
        }
    }
}

/// An ARP packet as an Ethernet frame.
const ARP_LEN: u32 = 42;
const BROADCAST: u64 = 0xffff_ffff_ffff;
const RETRY: u64 = 1_000_000_000;

/// What all programs of the element share.
#[derive(Clone, Copy)]
struct Parts {
    arp: TableId,
    queries: TableId,
    ipaddr: TableId,
    eth: u64,
}

fn program(e: &ARPQuerier, b: &mut Builder) {
    let decl = TableDecl::new(
        "arp",
        Kind::Exact,
        &[("ip", W32)],
        &[("eth", W64), ("known", W8), ("tries", W8), ("since", W64)],
        e.entry_capacity,
    );
    let arp = b.table(decl.holding(e.entry_packet_capacity), vec![]);
    let queries = b.cell("queries", W64, 0);
    let drops = b.cell("drops", W64, 0);
    let ipaddr = b.live("ipaddr", W32, u32::from(e.ip.addr).into());
    let parts = Parts { arp, queries, ipaddr, eth: ether_bits(e.eth) };
    b.input(0, |b| resolve(e, parts, drops, b));
    if b.inputs() > 1 {
        b.input(1, |b| learn(e, parts, b));
    }
    // Entries of addresses that are asked for expire each second; those that are known, when they are too old.
    b.expire(arp, |b, entry| {
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
fn resolve(e: &ARPQuerier, parts: Parts, drops: TableId, b: &mut Builder) {
    let dst = b.load_anno(W32, anno::DST_IP);
    let mut broadcasts = vec![u128::from(u32::MAX)];
    broadcasts.extend(e.broadcast.or(e.ip.broadcast).map(|a| u128::from(u32::from(a))));
    b.switch(dst, &broadcasts, |b, case| {
        if case.is_some() {
            let all = b.constant(W64, BROADCAST);
            send(parts, b, all);
        }
    });
    let none = b.eq(dst, 0);
    b.when(none, |b| b.drop(Reason::new("NoDestination")));
    let wait = |b: &mut Builder, entry: E| {
        b.hold(entry, |b| {
            count(b, drops);
            b.drop(Reason::FULL);
        });
    };
    b.lookup(
        parts.arp,
        &[dst],
        |b, entry| {
            let known = b.get(entry, "known");
            let known = b.ne(known, 0);
            b.unless(known, |b| wait(b, entry));
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
            let entry = b.insert(parts.arp, &[dst], |b| {
                count(b, drops);
                b.drop(Reason::FULL);
            });
            b.set(entry, "tries", 1);
            b.touch(entry, RETRY);
            query(parts, b, dst);
            wait(b, entry);
        },
    );
}

/// Input 1: learns from answers.
fn learn(e: &ARPQuerier, parts: Parts, b: &mut Builder) {
    b.require(Layer::Data, ARP_LEN, Reason::TRUNCATED);
    let kind = b.load(W16, Layer::Data, 12);
    let protocol = b.load(W32, Layer::Data, 14);
    let sizes = b.load(W16, Layer::Data, 18);
    for (v, right) in [(kind, u64::from(ethertype::ARP)), (protocol, 0x0001_0800), (sizes, 0x0604)] {
        let wrong = b.ne(v, right);
        b.when(wrong, |b| b.drop(Reason::BAD_HEADER));
    }
    let operation = b.load(W16, Layer::Data, 20);
    let other = b.ne(operation, 2);
    b.when(other, |b| b.drop(Reason::new("NotAnAnswer")));
    let eth = load_ether(b, Layer::Data, 22);
    let ip = b.load(W32, Layer::Data, 28);
    // An answer that names no host, or a group of them, would send traffic astray.
    let first = b.load(W8, Layer::Data, 22);
    let group = b.and(first, 1);
    let group = b.ne(group, 0);
    b.when(group, |b| b.drop(Reason::BAD_HEADER));
    let nobody = b.eq(ip, 0);
    b.when(nobody, |b| b.drop(Reason::BAD_HEADER));
    let entry = b.insert(parts.arp, &[ip], |b| b.drop(Reason::FULL));
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
    push_ether(b, dst, src, ethertype::IPV4);
    b.emit(0);
}

/// Starts a query for `ip` as a packet of its own.
fn query(parts: Parts, b: &mut Builder, ip: V) {
    b.fork_new(&[ip], |b, args| {
        count(b, parts.queries);
        b.put(ARP_LEN);
        b.require(Layer::Data, ARP_LEN, Reason::NO_ROOM);
        b.set_mark(Layer::Mac, Layer::Data, 0);
        let all = b.constant(W64, BROADCAST);
        let eth = b.constant(W64, parts.eth);
        store_ether(b, Layer::Data, 0, all);
        store_ether(b, Layer::Data, 6, eth);
        b.store_const(W16, Layer::Data, 12, ethertype::ARP);
        b.store_const(W64, Layer::Data, 14, 0x0001_0800_0604_0001_u64);
        store_ether(b, Layer::Data, 22, eth);
        let own = b.read_cell(parts.ipaddr);
        b.store(Layer::Data, 28, own);
        b.store(Layer::Data, 38, args[0]);
        let port = if b.outputs() > 1 { 1 } else { 0 };
        b.emit(port);
    });
}

fn table(s: &State<'_>) -> String {
    let mut lines: Vec<String> = s
        .table("arp")
        .rows()
        .iter()
        .map(|(_, row)| {
            let KeyMatch::Exact(ip) = row.key[0] else { return String::new() };
            let eth = (row.value[0] as u64).to_be_bytes();
            let eth = EtherAddr([eth[2], eth[3], eth[4], eth[5], eth[6], eth[7]]);
            let known = if row.value[1] != 0 { "known" } else { "asked" };
            format!("{} {known} {eth}\n", Ipv4Addr::from(ip as u32))
        })
        .collect();
    lines.sort();
    lines.concat()
}

fn waiting(s: &State<'_>) -> u32 {
    let arp = s.table("arp");
    arp.rows().iter().map(|(slot, _)| arp.held(*slot)).sum()
}

fn insert(e: &ARPQuerier, s: &mut State<'_>, v: &str) -> Result<(), String> {
    let (ip, eth) = v.trim().split_once(char::is_whitespace).ok_or("write 'IP ETH'")?;
    let (ip, eth) = (Ipv4Addr::from_arg(ip)?, EtherAddr::from_arg(eth)?);
    let row = Row {
        ttl: Some(e.timeout.as_nanos() as u64),
        ..Row::exact(&[u32::from(ip).into()], &[ether_bits(eth).into(), 1, 0, s.now.into()])
    };
    let now = s.now;
    s.table_mut("arp").insert_row(&row, now).map(|_| ()).map_err(|e| e.to_string())
}

fn delete(s: &mut State<'_>, v: &str) -> Result<(), String> {
    let ip = Ipv4Addr::from_arg(v.trim())?;
    let slot =
        s.table("arp").lookup(&[u32::from(ip).into()]).ok_or_else(|| format!("{ip} is not in the table"))?;
    s.remove("arp", slot);
    Ok(())
}

fn clear(s: &mut State<'_>) {
    for (slot, _) in s.table("arp").rows() {
        s.remove("arp", slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome, udp};
    use weir_net::build;

    const OWN: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
    const PEER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 2]);
    const SECOND: u64 = 1_000_000_000;

    fn querier(args: &[&str]) -> Harness {
        let mut all = vec!["10.0.0.1", "02:00:00:00:00:01"];
        all.extend(args);
        Harness::new("ARPQuerier", &all, 2, 1)
    }

    fn packet(n: u8) -> Vec<u8> {
        udp(([10, 0, 0, 1], 1), ([10, 0, 0, 2], 2), &[n])
    }

    fn answer() -> Vec<u8> {
        build::arp(2, (PEER, Ipv4Addr::new(10, 0, 0, 2)), (OWN, Ipv4Addr::new(10, 0, 0, 1)))
    }

    fn query() -> Vec<u8> {
        let mut q =
            build::arp(1, (OWN, Ipv4Addr::new(10, 0, 0, 1)), (EtherAddr([0; 6]), Ipv4Addr::new(10, 0, 0, 2)));
        q[..6].fill(0xff);
        q
    }

    #[test]
    fn packets_wait_for_the_answer_and_leave_in_order() {
        let mut e = querier(&[]);
        let out = e.send_ip(0, &packet(1));
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].out(), (0, &query()[..]));
        assert!(e.send_ip(0, &packet(2)).is_empty(), "the second packet waits without another query");
        assert_eq!((e.read("length"), e.read("count")), ("2".into(), "1".into()));

        let out = e.send(1, &answer());
        assert_eq!(out[0].reason(), "Consumed");
        for (i, n) in [1, 2].into_iter().enumerate() {
            let (port, frame) = out[i + 1].out();
            let whole = build::ethernet(PEER, OWN, 0x800, &packet(n));
            assert_eq!((port, frame), (0, &whole[..]));
        }
        assert!(
            matches!(&e.send_ip(0, &packet(3))[..], [Outcome::Out(0, p)] if p.len() == 14 + packet(3).len())
        );
        assert_eq!(e.read("table"), "10.0.0.2 known 02:00:00:00:00:02\n");
    }

    #[test]
    fn queries_repeat_each_second_and_then_the_packets_are_dropped() {
        let mut e = querier(&["TRIES 3"]);
        e.send_ip(0, &packet(1));
        for _ in 0..2 {
            e.now += SECOND;
            let out = e.expire();
            assert_eq!((out.len(), out[0].out()), (1, (0, &query()[..])));
        }
        e.now += SECOND;
        let out = e.expire();
        assert_eq!((out.len(), out[0].reason()), (1, "TimedOut"));
        assert_eq!((e.read("count"), e.read("queries")), ("0".into(), "3".into()));
    }

    #[test]
    fn only_so_many_packets_wait() {
        let mut e = querier(&["ENTRY_PACKET_CAPACITY 2"]);
        e.send_ip(0, &packet(1));
        e.send_ip(0, &packet(2));
        assert_eq!(e.send_ip(0, &packet(3))[0].reason(), "Full");
        assert_eq!(e.read("drops"), "1");
    }

    #[test]
    fn an_answer_is_believed_for_a_time_and_polled_meanwhile() {
        let mut e = querier(&["TIMEOUT 300", "POLL_TIMEOUT 60"]);
        e.send(1, &answer());
        e.now += 61 * SECOND;
        let out = e.send_ip(0, &packet(1));
        assert_eq!(out.len(), 2, "the packet leaves, and a query with it");
        assert_eq!(out[1].out().1, query());
        e.now += 300 * SECOND;
        e.expire();
        assert_eq!(e.read("count"), "0");
    }

    #[test]
    fn what_is_no_proper_answer_is_not_learnt() {
        let mut e = querier(&[]);
        for n in 0..answer().len() {
            assert_eq!(e.send(1, &answer()[..n])[0].reason(), "Truncated");
        }
        let mut request = answer();
        request[21] = 1;
        assert_eq!(e.send(1, &request)[0].reason(), "NotAnAnswer");
        let mut group = answer();
        group[22] = 3;
        assert_eq!(e.send(1, &group)[0].reason(), "BadHeader");
        assert_eq!(e.read("count"), "0");
    }

    #[test]
    fn the_table_can_be_edited() {
        let mut e = querier(&[]);
        e.write("insert", "10.0.0.2 02:00:00:00:00:02").unwrap();
        assert_eq!(e.send_ip(0, &packet(1))[0].out().1[..6], PEER.octets());
        e.write("delete", "10.0.0.2").unwrap();
        assert!(e.write("delete", "10.0.0.2").unwrap_err().contains("not in the table"));
        assert!(e.write("insert", "10.0.0.2").is_err());
    }

    #[test]
    fn broadcasts_need_no_answer() {
        let network = Harness::new("ARPQuerier", &["10.0.0.1/24", "02:00:00:00:00:01"], 2, 1);
        for mut e in [querier(&["BROADCAST 10.0.0.255"]), network] {
            for last in [[10, 0, 0, 255], [255; 4]] {
                let out = e.send_ip(0, &udp(([10, 0, 0, 1], 1), (last, 2), b""));
                assert_eq!(out[0].out().1[..6], [0xff; 6]);
            }
            assert_eq!(e.read("stats"), "0 packets killed\n0 ARP queries sent\n");
        }
        for alone in ["10.0.0.1/32", "10.0.0.1/0"] {
            let mut e = Harness::new("ARPQuerier", &[alone, "02:00:00:00:00:01"], 2, 1);
            assert_eq!(e.send_ip(0, &udp(([10, 0, 0, 1], 1), ([255; 4], 2), b""))[0].out().1[..6], [0xff; 6]);
        }
    }
}

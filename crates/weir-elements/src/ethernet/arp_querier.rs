use super::arp_table::{self, Settings, TableName};
use crate::fields::{ARP_SENDER, ETHER_DST, ETHER_SRC, arp, ether};
use crate::prelude::*;
use weir_packet::{Checksum, PacketType};

element! {
    /// Puts Ethernet headers in front of IPv4 packets, and asks for the addresses by ARP (RFC 826).
    ///
    /// Packets on input 0 are encapsulated with the hardware address of their destination annotation and leave on
    /// output 0; groups (multicast) and broadcasts have addresses that follow from theirs. While an address is not
    /// known, packets wait, at most `ENTRY_PACKET_CAPACITY` for one address (`Full`), and each packet asks by a query, but
    /// a tenth of a second after the last at the earliest, and after ten queries two seconds. Queries leave on output 1
    /// if that is connected, else on output 0. Packets that wait are dropped (`TimedOut`) after five seconds without an
    /// answer, or as `TRIES` says. Input 1 takes ARP packets as Ethernet frames: answers are learnt, and the packets that
    /// wait for them leave.
    ARPQuerier: "1-2/1-2", "h/h", flow "xy/x";
    example "q :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01); Idle -> CheckIPHeader -> q -> Discard; Idle -> Classifier(12/0806 20/0002) -> [1] q;";
    params {
        /// The interface's IP address, which queries come from; with a prefix length (`10.0.0.1/24`), the broadcast
        /// address of the network is that of `BROADCAST`, if this is not given.
        pos ip: InterfaceAddr,
        /// The interface's Ethernet address. A name of `AddressInfo` as IP may stand for both.
        pos eth: Option<EtherAddr> = None,
        /// Most packets that wait for one address; 0: as `CAPACITY` says.
        key entry_packet_capacity: u32 = 16,
        /// Most addresses that are remembered or asked for; then the one that would go next is evicted. 0: 65536.
        key entry_capacity: u32 = 4096,
        /// Most packets that wait for one address too, if it is less. In Click it bounds what waits in all.
        key capacity: u32 = 2048,
        /// Kept for Click configurations: of packets that wait, the last is dropped.
        key capacity_slim_factor: u32 = 2,
        /// How long an answer is believed.
        key timeout: Duration = Duration::from_secs(300),
        /// An `ARPTable` element that keeps the addresses, instead of a table of its own; it says capacities and timeout.
        key table: Option<TableName> = None,
        /// After this time, a packet that uses an entry has it asked for again; 0 is never.
        key poll_timeout: Duration = Duration::from_secs(60),
        /// Whether these queries are sent to all; otherwise only to the address that is known.
        key broadcast_poll: bool = false,
        /// Local broadcast address, which is sent to the Ethernet broadcast address.
        key broadcast: Option<Ipv4Addr> = None,
        /// Seconds that packets wait, with a query in each even if no further packet comes; 0: five, without such queries.
        key tries: u8 = 0,
    }
    check |e| match e.eth.or(e.ip.eth) {
        None => Err("missing mandatory ETH argument (Ethernet address)".into()),
        Some(_) => Ok(()),
    };
    handlers {
        /// One line an address: IP address, whether it is known (1 or 0), Ethernet address, and seconds since that was
        /// learnt; the last that was learnt is last.
        read table = |e, s| Ok(arp_table::table(s, e.settings().timeout())),
        /// Number of addresses.
        read count = |_, s| Ok(s.table("arp").len().to_string()),
        /// Number of packets that wait.
        read length = |_, s| Ok(arp_table::waiting(s).to_string()),
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
        write insert = |e, s, v| arp_table::insert(s, v, e.settings().lifetime()),
        /// Removes the entry of an IP address.
        write delete = |_, s, v| arp_table::delete(s, v),
        /// Removes all entries.
        write clear = |_, s, _| { arp_table::clear(s); Ok(()) },
    }
    resolve |e, peers| e.table.as_mut().map_or(Ok(()), |table| table.resolve(peers));
}

/// An interface's address, and its network's broadcast address if it came with a prefix length.
#[derive(Debug, Clone, Copy)]
pub struct InterfaceAddr {
    addr: Ipv4Addr,
    broadcast: Option<Ipv4Addr>,
    /// The Ethernet address, if the same name stands for one.
    eth: Option<EtherAddr>,
}

impl FromArg for InterfaceAddr {
    const SYNTAX: &'static str = "IP address, or IP address with prefix length";
    fn from_arg(text: &str) -> Result<InterfaceAddr, String> {
        let eth = EtherAddr::from_arg(text).ok();
        match text.trim().split_once('/') {
            None => Ok(InterfaceAddr { addr: Ipv4Addr::from_arg(text)?, broadcast: None, eth }),
            Some((addr, _)) => {
                let network = Ipv4Prefix::from_arg(text)?;
                let addr = Ipv4Addr::from_arg(addr)?;
                // All addresses are a network too, and so is one alone: these have no broadcast address of their own.
                let broadcast = Some(network.last()).filter(|b| *b != addr && !b.is_broadcast());
                Ok(InterfaceAddr { addr, broadcast, eth })
            }
        }
    }
}

/// An ARP packet as an Ethernet frame.
const ARP_LEN: u32 = 42;
const BROADCAST: u64 = 0xffff_ffff_ffff;
/// Ethernet addresses of groups: the low 23 bits are those of the group (RFC 1112 section 6.4).
const GROUPS: u64 = 0x0100_5e00_0000;
const SECOND: u64 = 1_000_000_000;
/// Seconds that packets wait, if no number of tries is given.
const WAIT: u8 = 5;
/// The least time between queries for an address, and how many are sent before it is the longer one.
const PAUSE: u64 = SECOND / 10;
const QUICK: u8 = 10;
const LONG_PAUSE: u64 = 2 * SECOND;

/// The tables and parameters that all programs of the element share.
#[derive(Clone, Copy)]
struct Parts {
    arp: TableId,
    drops: TableId,
    queries: TableId,
    ipaddr: TableId,
    eth: u64,
    /// Most addresses.
    entries: u32,
    /// Nanoseconds for which an answer is believed, and after which its entry is removed.
    timeout: u64,
    lifetime: u64,
}

impl ARPQuerier {
    /// What its table follows from.
    fn settings(&self) -> Settings {
        let own = || Settings {
            name: None,
            entries: self.entry_capacity,
            waiting: arp_table::waiting_limit(self.entry_packet_capacity, self.capacity),
            timeout: self.timeout,
        };
        self.table.as_ref().and_then(TableName::settings).cloned().unwrap_or_else(own)
    }
}

fn program(e: &ARPQuerier, b: &mut Builder) {
    let settings = e.settings();
    let (arp, drops) = settings.declare(b);
    let queries = b.cell("queries", W64, 0);
    let ipaddr = b.live("ipaddr", W32, u32::from(e.ip.addr).into());
    let (timeout, lifetime) = (settings.timeout(), settings.lifetime());
    let parts = Parts {
        arp,
        drops,
        queries,
        ipaddr,
        // The check of the arguments says that there is one.
        eth: e.eth.or(e.ip.eth).map_or(0, ether_bits),
        entries: settings.entries(),
        timeout,
        lifetime,
    };
    b.input(0, |b| resolve(e, parts, b));
    if b.inputs() > 1 {
        b.input(1, |b| learn(parts, b));
    }
    // Entries of addresses that are asked for are looked at each second; those that are known go when they are too old.
    b.expire(arp, |b, entry| {
        let known = b.get(entry, "known");
        let known = b.ne(known, 0);
        b.when(known, Builder::stop);
        let tries = b.get(entry, "tries");
        let enough = b.ge(tries, if e.tries == 0 { WAIT } else { e.tries });
        b.when(enough, Builder::stop);
        let tries = b.add(tries, 1);
        b.set(entry, "tries", tries);
        b.touch(entry, SECOND);
        if e.tries > 0 {
            let ip = b.key(entry, 0);
            let all = b.constant(W64, BROADCAST);
            ask(parts, b, entry, ip, all);
        }
    });
}

/// Input 0: encapsulates, or asks and waits.
fn resolve(e: &ARPQuerier, parts: Parts, b: &mut Builder) {
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
    let now = b.now();
    let wait = |b: &mut Builder, entry: E| {
        // Who still asks for an address has not heard of it for the timeout at most.
        let since = b.get(entry, "since");
        let age = b.sub(now, since);
        let old = b.gt(age, parts.timeout);
        let least = b.sub(now, parts.timeout);
        let since = b.select(old, least, since);
        b.set(entry, "since", since);
        let all = b.constant(W64, BROADCAST);
        ask_in_turn(parts, b, entry, dst, all);
        b.hold(entry, |b| {
            count(b, parts.drops);
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
            let since = b.get(entry, "since");
            let age = b.sub(now, since);
            let expired = b.gt(age, parts.timeout);
            b.when(expired, |b| {
                b.set(entry, "known", 0);
                b.set(entry, "tries", 1);
                b.touch(entry, SECOND);
                wait(b, entry);
            });
            let eth = b.get(entry, "eth");
            if !e.poll_timeout.is_zero() {
                let poll = u64::try_from(e.poll_timeout.as_nanos()).unwrap_or(u64::MAX);
                let old = b.ge(age, poll);
                b.when(old, |b| {
                    let to = if e.broadcast_poll { b.constant(W64, BROADCAST) } else { eth };
                    let may = may_ask(b, entry);
                    b.when(may, |b| {
                        asked(b, entry);
                        // The query goes first: the packet becomes it, and follows as a copy.
                        b.fork_with(&[eth], |b, args| send(parts, b, args[0]));
                        become_query(parts, b, dst, to);
                    });
                });
            }
            send(parts, b, eth);
        },
        |b| {
            let group = b.shr(dst, 28);
            let group = b.eq(group, 0xe);
            b.when(group, |b| {
                let low = b.and(dst, 0x7f_ffff);
                let low = b.resize(W64, low);
                let eth = b.or(low, GROUPS);
                send(parts, b, eth);
            });
            let entry = insert(parts, b, dst);
            b.set(entry, "eth", BROADCAST);
            b.set(entry, "tries", 1);
            b.set(entry, "since", now);
            b.touch(entry, SECOND);
            wait(b, entry);
        },
    );
}

/// The entry of an address. If it has none, and the table is full, the entry that would go next is evicted.
fn insert(parts: Parts, b: &mut Builder, ip: V) -> E {
    b.lookup(
        parts.arp,
        &[ip],
        |_, _| {},
        |b| {
            let size = b.size(parts.arp);
            let full = b.ge(size, parts.entries);
            b.when(full, |b| {
                let (oldest, _) = b.soonest(parts.arp, |b| refuse(parts, b));
                b.remove(oldest);
            });
        },
    );
    b.insert(parts.arp, &[ip], |b| refuse(parts, b))
}

fn refuse(parts: Parts, b: &mut Builder) {
    count(b, parts.drops);
    b.drop(Reason::FULL);
}

/// Whether the last query for the address of an entry was sent long enough ago.
fn may_ask(b: &mut Builder, entry: E) -> V {
    let now = b.now();
    let asked = b.get(entry, "asked");
    let pause = b.sub(now, asked);
    let queries = b.get(entry, "queries");
    let many = b.ge(queries, QUICK);
    let (short, long) = (b.constant(W64, PAUSE), b.constant(W64, LONG_PAUSE));
    let least = b.select(many, long, short);
    let may = b.ge(pause, least);
    let never = b.eq(queries, 0);
    b.or(may, never)
}

/// Sends a query for the address of an entry, unless the last was sent too short a time ago.
fn ask_in_turn(parts: Parts, b: &mut Builder, entry: E, ip: V, to: V) {
    let may = may_ask(b, entry);
    b.when(may, |b| ask(parts, b, entry, ip, to));
}

/// Sends a query for the address of an entry.
fn ask(parts: Parts, b: &mut Builder, entry: E, ip: V, to: V) {
    asked(b, entry);
    query(parts, b, ip, to);
}

/// Takes down that a query is sent.
fn asked(b: &mut Builder, entry: E) {
    let queries = b.get(entry, "queries");
    let most = b.constant(W8, u8::MAX);
    let more = b.add(queries, 1);
    let full = b.eq(queries, u8::MAX);
    let queries = b.select(full, most, more);
    b.set(entry, "queries", queries);
    let now = b.now();
    b.set(entry, "asked", now);
}

/// Input 1: learns from answers.
fn learn(parts: Parts, b: &mut Builder) {
    b.require(Layer::Data, ARP_LEN, Reason::TRUNCATED);
    let kind = ether::TYPE.load(b);
    let protocol = arp::FAMILIES.load(b);
    let sizes = arp::LENGTHS.load(b);
    for (v, right) in [(kind, u64::from(ethertype::ARP)), (protocol, 0x0001_0800), (sizes, 0x0604)] {
        let wrong = b.ne(v, right);
        b.when(wrong, |b| b.drop(Reason::BAD_HEADER));
    }
    let operation = arp::OPERATION.load(b);
    let other = b.ne(operation, 2);
    b.when(other, |b| b.drop(Reason::new("NotAnAnswer")));
    let eth = ARP_SENDER.load(b);
    let ip = arp::SENDER_IP.load(b);
    // An answer that names no host, or a group of them, would send traffic astray.
    let first = b.load(W8, Layer::Data, 22);
    let group = b.and(first, 1);
    let group = b.ne(group, 0);
    b.when(group, |b| b.drop(Reason::BAD_HEADER));
    let nobody = b.eq(ip, 0);
    b.when(nobody, |b| b.drop(Reason::BAD_HEADER));
    let entry = insert(parts, b, ip);
    let now = b.now();
    b.set(entry, "eth", eth);
    b.set(entry, "known", 1);
    b.set(entry, "queries", 0);
    b.set(entry, "since", now);
    b.touch(entry, parts.lifetime);
    b.release(entry, &[eth], |b, args| send(parts, b, args[0]));
    b.drop(Reason::CONSUMED);
}

fn send(parts: Parts, b: &mut Builder, dst: V) {
    let src = b.constant(W64, parts.eth);
    push_ether(b, dst, src, ethertype::IPV4);
    b.emit(0);
}

/// Starts a query for `ip` as a packet of its own, to the Ethernet address `to`.
fn query(parts: Parts, b: &mut Builder, ip: V, to: V) {
    b.fork_new(&[ip, to], |b, args| write_query(parts, b, args[0], args[1]));
}

/// Lets the packet become a query for `ip` to the Ethernet address `to`.
fn become_query(parts: Parts, b: &mut Builder, ip: V, to: V) {
    let nothing = b.constant(W32, 0_u32);
    b.trim(nothing);
    b.clear_mark(Layer::Net);
    b.clear_mark(Layer::Transport);
    // What the device was to do for the packet is not to be done to the query.
    let none = b.constant(W16, 0_u16);
    b.store_meta(MetaField::SegmentSize, none);
    let unknown = b.constant(W8, Checksum::Unknown as u8);
    b.store_meta(MetaField::Checksum, unknown);
    let host = b.constant(W8, PacketType::Host as u8);
    b.store_meta(MetaField::PacketType, host);
    becomes(b, Provenance::Made);
    write_query(parts, b, ip, to);
}

/// Fills an empty packet with a query and emits it.
fn write_query(parts: Parts, b: &mut Builder, ip: V, to: V) {
    count(b, parts.queries);
    b.put(ARP_LEN);
    b.require(Layer::Data, ARP_LEN, Reason::NO_SPACE);
    b.set_mark(Layer::Mac, Layer::Data, 0);
    let eth = b.constant(W64, parts.eth);
    ETHER_DST.store(b, to);
    ETHER_SRC.store(b, eth);
    ether::TYPE.store_const(b, ethertype::ARP);
    arp::START.store_const(b, 0x0001_0800_0604_0001_u64);
    ARP_SENDER.store(b, eth);
    let own = b.read_cell(parts.ipaddr);
    arp::SENDER_IP.store(b, own);
    arp::TARGET_IP.store(b, ip);
    let port = if b.outputs() > 1 { 1 } else { 0 };
    b.emit(port);
}

#[cfg(test)]
mod tests;

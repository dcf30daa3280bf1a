use std::collections::{BTreeMap, HashMap, VecDeque};

use weir_net::checksum::checksum;
use weir_packet::{ANNO_LEN, Checksum, Layer};

use crate::PACKET_BYTES;
use crate::prelude::*;

engine_node! {
    /// Puts fragmented IPv4 packets together (RFC 791 section 3.2, RFC 815).
    ///
    /// Packets that are no fragments pass. Fragments wait until all of their packet are there; it leaves with the headers
    /// and annotations of its first fragment and the time of the last that came. Where fragments overlap, the later one
    /// counts. If a packet is not complete 30 seconds after the last of its fragments came, they are dropped
    /// (`TimedOut`); with two outputs, what there is leaves on output 1 as one packet, with zeros for what is missing,
    /// if its first fragment is there. When the fragments that wait have more than `HIMEM` bytes, those of the packets
    /// that wait longest are dropped (`Full`). Fragments that are wrong are dropped (`BadFragment`), as are packets
    /// without an IPv4 header at the `net` mark (`Unmarked`, `Truncated`). Each fragment behind the first ends as `Consumed`.
    IPReassembler: "1/1-2", "a/ah", Source, Graph;
    example "Idle -> CheckIPHeader -> r :: IPReassembler -> Discard; r [1] -> ICMPError(10.0.0.1, timeexceeded, reassembly) -> Discard;";
    params {
        /// Most bytes of fragments that wait.
        key himem: u32 = 262_144,
        /// Offset of a two-byte annotation that becomes the length of the longest fragment, IP header included.
        key max_mtu_anno: Option<u32> = None,
    }
    handlers {
        /// Counts, and the packets that wait with the ranges of bytes that are there.
        read dump = |r, _| Ok(r.dump()),
    }
    state Waiting;
}

/// How long fragments wait for the next one, in nanoseconds.
const PATIENCE: u64 = 30_000_000_000;

/// The time of a packet that a snapshot had: its patience begins when the node runs.
const UNKNOWN: u64 = 0;

/// What a fragment counts for beside its bytes.
const OVERHEAD: usize = 40;

/// Bytes of the shortest fragment: a header, and one.
const SHORTEST: usize = 21;

/// The key that the fragments of a packet have in common (RFC 791): addresses, protocol and identification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    addresses: [u8; 8],
    protocol: u8,
    id: [u8; 2],
}

/// A fragment, as its header describes it.
struct Fragment {
    key: Key,
    /// Length of its header.
    header: usize,
    /// Its place in the payload of the packet.
    start: u32,
    end: u32,
    more: bool,
}

/// The fragments of a packet.
#[derive(Default)]
struct Assembly {
    /// In the order in which they came, with the place of each.
    fragments: Vec<(u32, u32, Packet)>,
    /// Ranges of the payload that are there: start and end, apart from each other.
    ranges: BTreeMap<u32, u32>,
    /// Length of the payload, if the last fragment is there.
    total: Option<u32>,
    bytes: usize,
    /// When it expires.
    due: u64,
    /// Its entry in [`Waiting::order`] that counts.
    turn: u64,
}

#[derive(Default)]
struct Waiting {
    packets: HashMap<Key, Assembly>,
    /// Packets by the time of their last fragment; an entry counts only if its number is that of the packet.
    order: VecDeque<(u64, Key)>,
    turn: u64,
    bytes: usize,
    seen: u64,
    good: u64,
    failed: u64,
    bad: u64,
}

impl IPReassembler {
    /// What is to go on at once: the packet itself, or the one that it makes complete.
    fn take(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let ip = packet.from_layer(Layer::Net);
        let Some(header) = ip.get(..20) else {
            let marked = packet.layer(Layer::Net).is_some();
            let reason = if marked { Reason::TRUNCATED } else { Reason::UNMARKED };
            cx.drop(&reason, packet);
            return None;
        };
        if u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0 {
            return Some(packet);
        }
        self.state.seen += 1;
        let Some(fragment) = fragment(ip) else {
            self.state.bad += 1;
            cx.drop(&Reason::new("BadFragment"), packet);
            return None;
        };
        while self.state.bytes > self.himem as usize {
            let Some(key) = self.state.oldest() else { break };
            self.end(key, &Reason::FULL, cx);
        }
        self.add(&fragment, packet, cx)
    }

    fn add(&mut self, fragment: &Fragment, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        cx.waits(&packet);
        let timestamp = packet.timestamp;
        let complete = match self.state.store(fragment, packet, cx.now() + PATIENCE) {
            Ok(complete) => complete,
            Err(packet) => {
                self.state.bad += 1;
                cx.drop(&Reason::new("BadFragment"), packet);
                return None;
            }
        };
        if !complete {
            return None;
        }
        let mut whole = self.state.remove(fragment.key).and_then(|a| assemble(a, self.max_mtu_anno, cx))?;
        self.state.good += 1;
        whole.timestamp = timestamp;
        Some(whole)
    }

    /// Gives a packet up.
    fn end(&mut self, key: Key, reason: &Reason, cx: &mut Cx<'_>) {
        let Some(assembly) = self.state.remove(key) else { return };
        self.state.failed += 1;
        if *reason == Reason::TIMED_OUT && cx.ports().1 > 1 && assembly.ranges.contains_key(&0) {
            if let Some(partial) = assemble(assembly, self.max_mtu_anno, cx) {
                cx.emit(1, partial);
            }
            return;
        }
        assembly.fragments.into_iter().for_each(|(.., p)| cx.drop(reason, p));
    }

    fn dump(&self) -> String {
        let s = &self.state;
        let mut out = format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\nbad fragments seen:  {}\ncached chunk data:\n",
            s.seen, s.good, s.failed, s.bad
        );
        for (key, assembly) in &s.packets {
            let [a, b, c, d, e, f, g, h] = key.addresses;
            out += &format!(" {a}.{b}.{c}.{d} > {e}.{f}.{g}.{h} {}", u16::from_be_bytes(key.id));
            assembly.ranges.iter().for_each(|(start, end)| out += &format!(" ({start},{end})"));
            out.push('\n');
        }
        out
    }
}

impl Waiting {
    /// Keeps a fragment; whether its packet is complete now. A fragment that contradicts others comes back.
    fn store(&mut self, f: &Fragment, mut packet: Packet, due: u64) -> Result<bool, Packet> {
        let assembly = self.packets.entry(f.key).or_default();
        // Nothing lies behind the last fragment, and there is one end.
        let behind = assembly.total.is_some_and(|total| f.end > total || (!f.more && f.end != total));
        let cut = !f.more && assembly.ranges.last_key_value().is_some_and(|(_, &end)| end > f.end);
        if behind || cut {
            return Err(packet);
        }
        let start = packet.layer(Layer::Net).unwrap_or(packet.data()) - packet.data();
        packet.trim(start + f.header as u32 + (f.end - f.start));
        if !f.more {
            assembly.total = Some(f.end);
        }
        cover(&mut assembly.ranges, f.start, f.end);
        let size = packet.len() + OVERHEAD;
        assembly.bytes += size;
        assembly.due = due;
        self.turn += 1;
        assembly.turn = self.turn;
        self.order.push_back((self.turn, f.key));
        self.bytes += size;
        assembly.fragments.push((f.start, f.end, packet));
        Ok(assembly.total.is_some_and(|total| assembly.ranges.get(&0) == Some(&total)))
    }

    fn remove(&mut self, key: Key) -> Option<Assembly> {
        let assembly = self.packets.remove(&key)?;
        self.bytes -= assembly.bytes;
        Some(assembly)
    }

    /// The packet whose last fragment came first. Entries that no longer count go.
    fn oldest(&mut self) -> Option<Key> {
        while let Some((turn, key)) = self.order.front() {
            if self.packets.get(key).is_some_and(|a| a.turn == *turn) {
                return Some(*key);
            }
            self.order.pop_front();
        }
        None
    }
}

/// What an IPv4 packet that is a fragment says of itself; `None` if it cannot be right. 20 bytes are there.
fn fragment(ip: &[u8]) -> Option<Fragment> {
    let word = |at: usize| ip.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let header = usize::from(ip.first()? & 15) * 4;
    let total = usize::from(word(2)?);
    let flags = word(6)?;
    let start = u32::from(flags & 0x1fff) * 8;
    let len = total.checked_sub(header).filter(|&len| len > 0 && header >= 20)?;
    let end = start + len as u32;
    let more = flags & 0x2000 != 0;
    // The packet would be too long; only the last fragment may have an odd length.
    if ip.len() < total || end > 0xffff - 20 || (more && len % 8 != 0) {
        return None;
    }
    let key = Key {
        addresses: ip.get(12..20)?.try_into().ok()?,
        protocol: *ip.get(9)?,
        id: ip.get(4..6)?.try_into().ok()?,
    };
    Some(Fragment { key, header, start, end, more })
}

/// Adds a range to others; those that touch become one.
fn cover(ranges: &mut BTreeMap<u32, u32>, mut start: u32, mut end: u32) {
    while let Some((&s, &e)) = ranges.range(..=end).next_back()
        && e >= start
    {
        ranges.remove(&s);
        (start, end) = (start.min(s), end.max(e));
    }
    ranges.insert(start, end);
}

/// The packet that the fragments make, which begins with the first of them. All others end.
fn assemble(assembly: Assembly, mtu_anno: Option<u32>, cx: &mut Cx<'_>) -> Option<Packet> {
    let len = assembly.ranges.last_key_value().map_or(0, |(_, &end)| end);
    let longest = assembly.fragments.iter().map(|(.., p)| p.from_layer(Layer::Net).len()).max();
    let first = assembly.fragments.iter().rposition(|(start, ..)| *start == 0)?;
    // The payload, in the order in which the fragments came.
    let mut payload = vec![0; len as usize];
    let mut whole = None;
    for (i, (start, end, packet)) in assembly.fragments.into_iter().enumerate() {
        let n = (end - start) as usize;
        let bytes = packet.bytes();
        payload[start as usize..end as usize].copy_from_slice(&bytes[bytes.len() - n..]);
        if i == first {
            whole = Some((n, packet));
        } else {
            cx.drop(&Reason::CONSUMED, packet);
        }
    }
    let (n, mut packet) = whole?;
    if packet.put(len - n as u32).is_err() {
        cx.drop(&Reason::NO_SPACE, packet);
        return None;
    }
    let at = packet.len() - payload.len();
    packet.bytes_mut()[at..].copy_from_slice(&payload);
    let net = (packet.layer(Layer::Net)? - packet.data()) as usize;
    let ip = &mut packet.bytes_mut()[net..];
    let header = usize::from(ip[0] & 15) * 4;
    let total = ip.len() as u16;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    // No fragment, but what forbids to make some stays.
    ip[6] &= 0xc0;
    ip[7] = 0;
    ip[10..12].fill(0);
    let sum = checksum(&ip[..header]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.csum = Checksum::Unknown as u8;
    if let (Some(at), Some(longest)) = (mtu_anno.map(|at| at as usize), longest)
        && at + 2 <= ANNO_LEN
    {
        packet.anno[at..at + 2].copy_from_slice(&(longest as u16).to_be_bytes());
    }
    Some(packet)
}

impl Behavior for IPReassembler {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        for packet in packets.drain(..) {
            if let Some(packet) = self.take(packet, cx) {
                cx.emit(0, packet);
            }
        }
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        loop {
            let packet = cx.pull(0)?;
            if let Some(packet) = self.take(packet, cx) {
                return Some(packet);
            }
        }
    }

    fn memory(&self, _inputs: usize) -> u64 {
        // A fragment that comes when nearly all is taken may be as long as a packet.
        let most = u64::from(self.himem) + u64::from(u16::MAX);
        most + most.div_ceil((OVERHEAD + SHORTEST) as u64) * PACKET_BYTES
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        while let Some(key) = self.state.oldest() {
            if let Some(assembly) = self.state.packets.get_mut(&key) {
                if assembly.due == UNKNOWN {
                    assembly.due = cx.now() + PATIENCE;
                }
                if cx.now() < assembly.due {
                    return Ran::Until(assembly.due);
                }
            }
            self.end(key, &Reason::TIMED_OUT, cx);
        }
        Ran::Idle
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<IPReassembler>() {
            self.state = std::mem::take(&mut old.state);
        }
    }

    fn waiting(&mut self) -> Option<Vec<Packet>> {
        self.state.order.clear();
        self.state.bytes = 0;
        let mut packets: Vec<Assembly> = self.state.packets.drain().map(|(_, a)| a).collect();
        packets.sort_by_key(|a| a.turn);
        Some(packets.into_iter().flat_map(|a| a.fragments.into_iter().map(|(.., p)| p)).collect())
    }

    fn restore(&mut self, packets: Vec<Packet>) {
        self.waiting();
        for packet in packets {
            // What is no fragment was never kept here.
            if let Some(fragment) = fragment(packet.from_layer(Layer::Net)) {
                let _ = self.state.store(&fragment, packet, UNKNOWN);
            }
        }
    }
}

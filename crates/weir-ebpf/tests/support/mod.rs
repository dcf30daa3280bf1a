//! Programs in the kernel beside the interpreter.

pub mod graph;

use std::collections::{BTreeSet, HashMap};

use weir_ebpf::{Clock, Ended, Hook, Layout, Object, Options, Role, encode};
use weir_io::bpf::{self, Map, Program as Loaded};
use weir_ir::program::{BlockId, End, Op, Program, Reason};
use weir_ir::{Host, Interpreter, Layer};
use weir_packet::Packet;
use weir_table::{Row, TableSet};

/// How the tests compile: with a time that they set.
pub const OPTIONS: Options = Options { hook: Hook::Xdp, clock: Clock::Map, marked: true };

/// Graphs of what the kernel is good at, beside those of the elements' tests.
pub const GRAPHS: &[&str] = &[
    // A router whose neighbours are known.
    "Idle -> c :: Classifier(12/0800, -); c [1] -> Discard;
     c [0] -> Strip(14) -> CheckIPHeader -> r :: StaticIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 192.0.2.0/24 10.0.0.9 2);
     r [0] -> a :: DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Counter -> Discard;
     r [1] -> b :: DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:03, 02:00:00:00:00:04) -> Discard;
     r [2] -> Discard; a [1] -> Discard; b [1] -> Discard;",
    // A firewall between two interfaces.
    "Idle -> c :: Classifier(12/0800, 12/0806); c [1] -> Discard; c [0] -> CheckIPHeader(14)
     -> IPFilter(deny src net 192.0.2.0/24, allow tcp and dst port 80, allow udp and dst port 53, allow icmp) -> Counter -> Discard;",
    // Frames get longer, and shorter again.
    "Idle -> VLANEncap(7) -> v :: VLANEncap(8) -> VLANDecap -> Discard;",
    "Idle -> EtherEncap(0x88b5, 02:00:00:00:00:01, 02:00:00:00:00:02) -> MarkIPHeader(28) -> CheckIPHeader(28) -> DecIPTTL -> Strip(14) -> Discard;",
];

struct Outcome {
    ended: Option<(Ended, Option<Vec<u8>>)>,
}

impl Outcome {
    fn end(&mut self, ended: Ended, bytes: Option<Vec<u8>>) {
        assert!(self.ended.is_none(), "a packet that ends twice was not refused");
        self.ended = Some((ended, bytes));
    }
}

struct Recorder<'a>(&'a Program, Outcome);

impl Host for Recorder<'_> {
    fn exit(&mut self, port: u32, packet: Packet) {
        self.1.end(Ended::Left(port), Some(packet.bytes().to_vec()));
    }
    fn dropped(&mut self, at: BlockId, reason: &Reason, _: Packet) {
        let element = self.0.block(at).owner;
        self.1.end(Ended::Dropped { element, reason: reason.clone() }, None);
    }
    fn orphaned(&mut self, _: Packet) {
        unreachable!("entries that hold packets are refused")
    }
    fn random(&mut self) -> u32 {
        0
    }
}

/// The elements that packets of an entry may come to.
pub fn elements(program: &Program, entry: BlockId) -> BTreeSet<String> {
    let (mut seen, mut work) = (vec![false; program.blocks.len()], vec![entry]);
    while let Some(b) = work.pop() {
        if !std::mem::replace(&mut seen[b.0 as usize], true) {
            match &program.block(b).end {
                End::Enter { block, .. } => work.push(*block),
                end => work.extend(end.targets().iter().map(|t| t.block)),
            }
        }
    }
    let blocks = program.blocks.iter().zip(&seen).filter(|(_, seen)| **seen);
    blocks.map(|(b, _)| program.elements[b.owner as usize].clone()).collect()
}

/// The observed results of a run.
#[derive(Default)]
pub struct Seen {
    pub packets: usize,
    pub reasons: BTreeSet<String>,
}

/// A program, interpreted and in the kernel.
pub struct Trial<'a> {
    text: &'a str,
    program: &'a Program,
    entry: BlockId,
    object: Object,
    options: Options,
    loaded: Loaded,
    maps: HashMap<Role, Map>,
    tables: TableSet,
    now: u64,
    numbers: u64,
}

impl<'a> Trial<'a> {
    pub fn new(
        text: &'a str,
        program: &'a Program,
        entry: BlockId,
        object: Object,
        options: Options,
    ) -> Result<Trial<'a>, String> {
        let mut maps = HashMap::new();
        for m in &object.maps {
            let map = Map::new(m.kind as u32, m.key, m.value, m.entries)
                .unwrap_or_else(|e| panic!("{text}: {m:?}: {e}"));
            maps.insert(m.role, map);
        }
        let code =
            encode(&object.code, |m| maps[&object.maps[m as usize].role].fd()).expect("no jump is too far");
        let loaded = match Loaded::load(kind(options.hook), &code, "weir_test") {
            Ok(loaded) => loaded,
            // More than its verifier follows; anything else would be a mistake of the compiler.
            Err(e) if e.too_complex() => return Err(e.to_string()),
            Err(e) => panic!("{text}\n{program}\n{}\n{}\n{e}", object.text(), tail(&e.log)),
        };
        let mut tables =
            TableSet::new(program.tables.iter().map(|t| &t.decl)).expect("declarations were checked");
        let now = 1_000_000_000;
        for (i, t) in program.tables.iter().enumerate() {
            for row in &t.rows {
                tables.table_mut(i as u32).insert_row(row, now).expect("first rows fit");
            }
        }
        let mut numbers = 88_172_645_463_325_252;
        for b in text.bytes() {
            numbers = (numbers ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        let trial = Trial { text, program, entry, object, options, loaded, maps, tables, now, numbers };
        trial.fill();
        Ok(trial)
    }

    /// The first rows of the tables.
    fn fill(&self) {
        for (i, t) in self.program.tables.iter().enumerate() {
            let (Some(layout), Some(map)) = (&self.object.tables[i], self.maps.get(&Role::Table(i as u32)))
            else {
                continue;
            };
            let rows: Vec<_> =
                t.rows.iter().map(|r| layout.encode(r, self.now).expect("rows fit their table")).collect();
            if layout.is_array() {
                let mut all = vec![0; (layout.stride * layout.capacity) as usize];
                for (key, value) in rows {
                    let index = key.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
                    all[index * layout.stride as usize..][..value.len()].copy_from_slice(&value);
                }
                map.set(&[0; 4], &all).expect("the map takes it");
            } else {
                rows.iter().for_each(|(key, value)| map.set(key, value).expect("the map takes it"));
            }
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.numbers ^= self.numbers << 13;
        self.numbers ^= self.numbers >> 7;
        self.numbers ^= self.numbers << 17;
        (self.numbers >> 11) as usize % n.max(1)
    }

    /// A frame, or an IP packet without one, sometimes with some bytes changed.
    fn packet(&mut self, frames: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = frames[self.below(frames.len())].clone();
        bytes.truncate(3000);
        if self.below(3) == 0 && bytes.len() > 34 {
            bytes.drain(..14);
        }
        if self.below(4) == 0 && !bytes.is_empty() {
            for _ in 0..=self.below(3) {
                let at = self.below(bytes.len().min(60));
                bytes[at] = [0, 1, 0xff, 0x45, 0x46, bytes[at] ^ 1][self.below(6)];
            }
        }
        if self.below(8) == 0 {
            let n = self.below(bytes.len());
            bytes.truncate(n);
        }
        if self.below(8) == 0 {
            let n = self.below(30);
            bytes.resize(bytes.len() + n, 0x5a);
        }
        // The kernel's tests take nothing shorter; that of packets no link header alone, nor an IP header that is cut.
        bytes.resize(bytes.len().max(14), 0);
        if self.options.hook == Hook::Tc {
            let least = match bytes[12..14] {
                [0x08, 0x00] => 34,
                [0x86, 0xdd] => 54,
                _ => 15,
            };
            bytes.resize(bytes.len().max(least), 0);
        }
        bytes
    }

    pub fn run(&mut self, frames: &[Vec<u8>], packets: usize) -> Seen {
        let mut seen = Seen::default();
        // What is random in the kernel cannot be foreseen.
        let random =
            self.program.blocks.iter().flat_map(|b| &b.ops).any(|op| matches!(op, Op::Random { .. }));
        if random {
            return seen;
        }
        for n in 0..packets {
            self.now += [0, 1_000, 700_000_000, 40_000_000_000][self.below(4)];
            let bytes = self.packet(frames);
            self.one(n, &bytes, &mut seen);
        }
        self.compare_tables();
        seen
    }

    fn one(&mut self, n: usize, bytes: &[u8], seen: &mut Seen) {
        let mut packet = Packet::from_bytes(bytes).expect("the packet is not too long");
        packet.timestamp = self.now;
        if self.options.marked {
            let at = packet.data();
            packet.set_layer(Layer::Mac, Some(at));
        }
        if self.options.hook == Hook::Tc {
            packet.packet_type = packet_type(bytes);
        }
        let mut host = Recorder(self.program, Outcome { ended: None });
        Interpreter::default().run(
            self.program,
            &mut self.tables,
            &mut host,
            self.now,
            self.entry,
            &[],
            Some(packet),
        );
        let wanted = host.1.ended.expect("the packet ends");
        if let Some(clock) = self.maps.get(&Role::Clock) {
            clock.set(&[0; 4], &self.now.to_ne_bytes()).expect("the clock is set");
        }
        let before = self.counts();
        let ran = self.loaded.test(bytes).expect("the kernel runs the program");
        let after = self.counts();
        let counted: Vec<&Ended> = before
            .iter()
            .zip(&after)
            .zip(&self.object.ends)
            .filter(|((a, b), _)| a != b)
            .map(|(_, e)| e)
            .collect();
        let about =
            || format!("{}\npacket {n}: {bytes:02x?}\n{}\n{}", self.text, self.program, self.object.text());
        let (drop, fault) = if self.options.hook == Hook::Xdp { (1, 0) } else { (2, 2) };
        // No frame of the kernel is shorter than its link header.
        let runt = matches!(&wanted, (Ended::Left(_), Some(out)) if out.len() < 14);
        if runt && counted == [&Ended::Fault] {
            assert_eq!(ran.verdict, fault, "the verdict of {}", about());
            return;
        }
        assert_eq!(counted, [&wanted.0], "the end of {}", about());
        match &wanted {
            (Ended::Left(_), Some(out)) => {
                assert!(ran.packet == *out, "bytes {:02x?} instead of {out:02x?} of {}", ran.packet, about());
            }
            (Ended::Dropped { reason, .. }, _) => {
                assert_eq!(ran.verdict, drop, "the verdict of {}", about());
                seen.reasons.insert(reason.to_string());
            }
            _ => {}
        }
        seen.packets += 1;
    }

    /// Packets by their end, over all processors.
    fn counts(&self) -> Vec<u64> {
        let values =
            self.maps[&Role::Ends].get(&[0; 4]).expect("counters are read").expect("there is an entry");
        let mut sums = vec![0; self.object.ends.len()];
        for v in values {
            for (sum, count) in sums.iter_mut().zip(v.chunks(16)) {
                *sum += u64::from_ne_bytes(count[..8].try_into().expect("8 bytes"));
            }
        }
        sums
    }

    fn compare_tables(&self) {
        for i in 0..self.program.tables.len() as u32 {
            let (Some(layout), Some(map)) = (&self.object.tables[i as usize], self.maps.get(&Role::Table(i)))
            else {
                continue;
            };
            let (wanted, is) = (self.rows(i, layout), kernel_rows(layout, map, self.now));
            let sort = |mut rows: Vec<Row>| {
                rows.sort_by_key(|r| format!("{r:?}"));
                rows
            };
            let wanted: Vec<Row> = sort(wanted);
            let is: Vec<Row> = sort(is);
            assert_eq!(
                is,
                wanted,
                "table '{}' of {}\n{}\n{}",
                self.program.tables[i as usize].decl.name,
                self.text,
                self.program,
                self.object.text()
            );
        }
    }

    /// The rows of the interpreter's table, as the map would have them.
    fn rows(&self, table: u32, layout: &Layout) -> Vec<Row> {
        let t = self.tables.table(table);
        t.rows()
            .into_iter()
            .map(|(slot, mut row)| {
                let expires = t.expiry(slot);
                row.ttl = (expires != 0).then(|| expires.saturating_sub(self.now));
                let (key, value) = layout.encode(&row, self.now).expect("rows fit their table");
                layout.decode(&key, &value, self.now)
            })
            .collect()
    }
}

fn kind(hook: Hook) -> bpf::Hook {
    match hook {
        Hook::Xdp => bpf::Hook::Xdp,
        Hook::Tc => bpf::Hook::Tc,
    }
}

/// What the kernel makes of a link header, on the loopback interface, whose address is 0 (`eth_type_trans`).
fn packet_type(frame: &[u8]) -> u8 {
    match frame[..6] {
        [0, 0, 0, 0, 0, 0] => 0,
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => 1,
        [first, ..] if first & 1 != 0 => 2,
        _ => 3,
    }
}

fn kernel_rows(layout: &Layout, map: &Map, now: u64) -> Vec<Row> {
    if layout.is_array() {
        let values = map.get(&[0; 4]).expect("the map is read").expect("there is an entry");
        return (0..layout.capacity)
            .map(|i| {
                let key: Vec<u8> = u128::from(i).to_le_bytes()[..].to_vec();
                let rows = values.iter().map(|v| {
                    let value = &v[(i * layout.stride) as usize..][..layout.stride as usize];
                    layout.decode(&key, value, now)
                });
                // Of one for each processor, the sum.
                rows.reduce(|mut a, b| {
                    a.value.iter_mut().zip(&b.value).for_each(|(a, b)| *a += b);
                    a
                })
                .expect("there is a processor")
            })
            .collect();
    }
    let keys = map.keys().expect("the map is read");
    keys.iter()
        .map(|k| layout.decode(k, &map.get(k).expect("the map is read").expect("the entry is there")[0], now))
        .collect()
}

/// The end of what the kernel's verifier said.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

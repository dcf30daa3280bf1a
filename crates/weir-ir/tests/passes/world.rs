//! Runs a program on the interpreter and writes down everything that can be observed.

use weir_ir::interp::{Host, Interpreter};
use weir_ir::program::{BlockId, EntryKind};
use weir_ir::testing::Start;
use weir_ir::{Known, Layer, Program, Reason, facts};
use weir_packet::Packet;
use weir_table::{SetSnapshot, TableSet};

/// All of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    bytes: Vec<u8>,
    /// Bytes that were pulled and may come back.
    hidden: Vec<u8>,
    marks: Vec<Option<i64>>,
    anno: Vec<u8>,
    meta: (u64, u32, u16, u8, u8, u8),
}

impl View {
    fn of(p: &Packet) -> View {
        let data = i64::from(p.data());
        View {
            bytes: p.bytes().to_vec(),
            hidden: p.buffer()[p.floor() as usize..p.data() as usize].to_vec(),
            marks: Layer::ALL[1..].iter().map(|&l| p.layer(l).map(|at| i64::from(at) - data)).collect(),
            anno: p.anno.to_vec(),
            meta: (p.timestamp, p.hash, p.in_port, p.packet_type, p.csum, p.hops),
        }
    }

    /// What is read of a dropped packet, or behind a plain exit.
    fn plain(p: &Packet) -> View {
        View {
            marks: Vec::new(),
            anno: Vec::new(),
            meta: (p.timestamp, 0, 0, 0, p.csum, p.hops),
            ..View::of(p)
        }
    }
}

/// Something that can be observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Exit(u32, View),
    Drop(u32, Reason, View),
    Orphan(View),
    Event(u32, Vec<u128>, Option<View>),
    /// The packet came to an element.
    Visit(u32),
}

struct Recorder<'a> {
    program: &'a Program,
    seen: Vec<Seen>,
    at: Option<u32>,
    random: u32,
    known: Known,
}

impl Host for Recorder<'_> {
    fn exit(&mut self, port: u32, packet: Packet) {
        let plain = self.program.plain_exits.contains(&port);
        self.seen.push(Seen::Exit(port, if plain { View::plain(&packet) } else { View::of(&packet) }));
    }
    fn dropped(&mut self, at: BlockId, reason: &Reason, packet: Packet) {
        self.seen.push(Seen::Drop(self.program.block(at).owner, reason.clone(), View::plain(&packet)));
    }
    fn orphaned(&mut self, packet: Packet) {
        self.seen.push(Seen::Orphan(View::of(&packet)));
    }
    fn notify(&mut self, event: u32, args: &[u128], packet: Option<&Packet>) {
        self.seen.push(Seen::Event(event, args.to_vec(), packet.map(View::of)));
    }
    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random
    }
    fn hash_seed(&self) -> u64 {
        7
    }
    fn step(&mut self, block: BlockId, packet: Option<&Packet>) {
        if let Some(p) = packet {
            holds(&self.known, block, p);
        }
        let owner = self.program.block(block).owner;
        if self.at.replace(owner) != Some(owner) {
            self.seen.push(Seen::Visit(owner));
        }
    }
}

/// What is known at the start of a block is true.
fn holds(known: &Known, block: BlockId, p: &Packet) {
    let Some(f) = known.at(block) else { panic!("b{} is reached", block.0) };
    assert!(f.headroom() <= p.data() - p.floor(), "b{}: headroom {}", block.0, f.headroom());
    for layer in Layer::ALL {
        let at = p.layer(layer);
        assert!(!f.is_set(layer) || at.is_some(), "b{}: {} is not set", block.0, layer.name());
        if let Some(bytes) = f.bytes(layer) {
            let end = at.map(|at| u64::from(at) + u64::from(bytes));
            assert!(
                end.is_some_and(|end| end <= p.end().into()),
                "b{}: {bytes} of {}",
                block.0,
                layer.name()
            );
        }
        for to in Layer::ALL {
            if let Some(d) = f.distance(layer, to) {
                let found = at.zip(p.layer(to)).map(|(from, to)| i64::from(to) - i64::from(from));
                assert_eq!(found, Some(d), "b{}: {} to {}", block.0, layer.name(), to.name());
            }
        }
    }
}

/// Runs each packet from each packet entry, and the timers between; then lets everything expire.
pub fn observe(program: &Program, packets: &[Start]) -> (Vec<Seen>, SetSnapshot) {
    let mut tables = TableSet::new(program.tables.iter().map(|t| &t.decl)).unwrap();
    for (i, t) in program.tables.iter().enumerate() {
        for row in &t.rows {
            tables.table_mut(i as u32).insert_row(row, 0).unwrap();
        }
    }
    let mut host = Recorder { program, seen: Vec::new(), at: None, random: 1, known: facts(program) };
    let mut interp = Interpreter::default();
    let mut now = 1_000;
    for start in packets {
        for e in &program.entries {
            host.at = None;
            now += 7;
            match e.kind {
                EntryKind::Packet { .. } => {
                    interp.run(program, &mut tables, &mut host, now, e.block, &[], start.packet());
                }
                EntryKind::Timer { .. } => {
                    interp.run(program, &mut tables, &mut host, now, e.block, &[], None);
                }
                EntryKind::Message { .. } => {
                    interp.run(program, &mut tables, &mut host, now, e.block, &[3, 5], None);
                }
                EntryKind::Expire { .. } => {}
            }
        }
        now += 20;
        host.at = None;
        interp.expire(program, &mut tables, &mut host, now);
    }
    let left = tables.snapshot(now, |t| t.to_string());
    (host.seen, left)
}

//! Holds the compiler against the interpreter: the same steps through both must show the same, to the last byte.
//!
//! Tests of anything that makes programs use it: [`assert_same`] with the program and what happens to it.

use std::fmt::Debug;

use weir_ir::program::{BlockId, EntryKind, Program};
use weir_ir::{Host, Interpreter, Layer, Reason};
use weir_packet::Packet;
use weir_table::{SetSnapshot, TableSet};

use crate::{BatchHost, Compiled, Runner};

/// Something that happens to a program.
#[derive(Debug)]
#[expect(missing_docs, reason = "the text of each variant speaks of its fields")]
pub enum Step {
    /// A packet arrives on an input of an element.
    Packet { owner: u32, port: u32, packet: Packet, now: u64 },
    /// The timers of an element run.
    Timer { owner: u32, now: u64 },
    /// The control side sends a message to an element.
    Message { owner: u32, name: String, args: Vec<u128>, now: u64 },
    /// Entries expire.
    Expire { now: u64 },
}

impl Step {
    /// A packet with these bytes on an input of the first element.
    ///
    /// # Panics
    /// If there are more bytes than a packet takes.
    pub fn packet(port: u32, bytes: &[u8], now: u64) -> Step {
        let packet = Packet::from_bytes(bytes).expect("a test packet is not too long");
        Step::Packet { owner: 0, port, packet, now }
    }

    fn now(&self) -> u64 {
        match self {
            Step::Packet { now, .. }
            | Step::Timer { now, .. }
            | Step::Message { now, .. }
            | Step::Expire { now } => *now,
        }
    }
}

/// Everything of a packet that a program can see. Positions count from the first byte.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in `Meta`")]
pub struct Image {
    pub bytes: Vec<u8>,
    /// Bytes in front that can be taken back.
    pub pulled: Vec<u8>,
    /// Free bytes in front (`pulled` included), and behind.
    pub space: (u32, u32),
    /// In the order of [`Layer::ALL`] without `Data`.
    pub marks: [Option<i64>; 4],
    pub anno: Vec<u8>,
    pub timestamp: u64,
    pub hash: u32,
    pub in_port: u16,
    pub packet_type: u8,
    pub csum: u8,
    pub csum_start: i64,
    pub csum_offset: u16,
    pub gso_size: u16,
    pub gso: u8,
    pub hops: u8,
    pub trace: u16,
    pub provenance: u8,
}

impl Image {
    /// The image of a packet.
    pub fn of(p: &Packet) -> Image {
        let relative = |at: u32| i64::from(at) - i64::from(p.data());
        Image {
            bytes: p.bytes().to_vec(),
            pulled: p.buffer()[p.floor() as usize..p.data() as usize].to_vec(),
            space: (p.data(), p.capacity() - p.end()),
            marks: [Layer::Mac, Layer::Net, Layer::Transport, Layer::Cursor]
                .map(|l| p.layer(l).map(relative)),
            anno: p.anno.to_vec(),
            timestamp: p.timestamp,
            hash: p.hash,
            in_port: p.in_port,
            packet_type: p.packet_type,
            csum: p.csum,
            csum_start: relative(p.csum_start),
            csum_offset: p.csum_offset,
            gso_size: p.gso_size,
            gso: p.gso,
            hops: p.hops,
            trace: p.trace,
            provenance: p.provenance,
        }
    }

    /// What is read of a dropped packet, or behind a plain exit.
    pub fn plain(self) -> Image {
        Image {
            marks: [None; 4],
            anno: Vec::new(),
            hash: 0,
            in_port: 0,
            packet_type: 0,
            provenance: 0,
            ..self
        }
    }
}

/// An event that the host of a program sees.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in `Host`")]
pub enum Seen {
    /// See [`Host::exit`].
    Exit { port: u32, packet: Image },
    /// See [`Host::dropped`].
    Dropped { at: BlockId, reason: Reason, packet: Image },
    /// See [`Host::orphaned`].
    Orphaned { packet: Image },
    /// See [`Host::notify`].
    Notify { event: u32, args: Vec<u128>, packet: Option<Image> },
}

/// A host that writes down what it sees, with random numbers from a seed.
#[derive(Debug)]
pub struct Recorder {
    /// What it saw, in order.
    pub seen: Vec<Seen>,
    seed: u64,
    drawn: u64,
}

impl Recorder {
    /// A host whose random numbers and hashes follow from a seed.
    pub fn new(seed: u64) -> Recorder {
        Recorder { seen: Vec::new(), seed, drawn: 0 }
    }
}

impl BatchHost for Recorder {}

impl Host for Recorder {
    fn exit(&mut self, port: u32, packet: Packet) {
        self.seen.push(Seen::Exit { port, packet: Image::of(&packet) });
    }

    fn dropped(&mut self, at: BlockId, reason: &Reason, packet: Packet) {
        self.seen.push(Seen::Dropped { at, reason: reason.clone(), packet: Image::of(&packet).plain() });
    }

    fn orphaned(&mut self, packet: Packet) {
        self.seen.push(Seen::Orphaned { packet: Image::of(&packet) });
    }

    fn notify(&mut self, event: u32, args: &[u128], packet: Option<&Packet>) {
        self.seen.push(Seen::Notify { event, args: args.to_vec(), packet: packet.map(Image::of) });
    }

    fn random(&mut self) -> u32 {
        self.drawn += 1;
        weir_ir::interp::hash(self.seed, &[self.drawn.into()])
    }

    fn hash_seed(&self) -> u64 {
        self.seed
    }
}

/// The tables of a program with their first content.
///
/// # Panics
/// If the program's declarations or rows do not fit: a checked element's do.
pub fn tables_of(program: &Program) -> TableSet {
    let mut tables = TableSet::new(program.tables.iter().map(|t| &t.decl)).expect("the program was checked");
    for (i, t) in program.tables.iter().enumerate() {
        for row in &t.rows {
            tables.table_mut(i as u32).insert_row(row, 0).expect("first rows fit their table");
        }
    }
    tables
}

/// Runs the steps through the interpreter and through compiled code, and gives what the host saw in each step.
///
/// # Panics
/// If they differ, with what differs; or if the program cannot be compiled or has no such entry.
pub fn assert_same(program: &Program, seed: u64, steps: &[Step]) -> Vec<Vec<Seen>> {
    let compiled = Compiled::new(program).and_then(|code| code.look_ahead(program).map(|()| code));
    let compiled = compiled.unwrap_or_else(|e| panic!("{e}: {}", source(&e)));
    let (mut a_tables, mut b_tables) = (tables_of(program), tables_of(program));
    let (mut a, mut b) = (Recorder::new(seed), Recorder::new(seed));
    let (mut interpreter, mut runner) = (Interpreter::default(), Runner::default());
    let mut all = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let now = step.now();
        match step {
            Step::Expire { .. } => {
                interpreter.expire(program, &mut a_tables, &mut a, now);
                compiled.expire(&mut runner, &mut b_tables, &mut b, now);
            }
            _ => {
                for (entry, args, packet) in starts(program, step) {
                    let second = packet.as_ref().map(Packet::copy);
                    interpreter.run(program, &mut a_tables, &mut a, now, entry, args, packet);
                    compiled.run(&mut runner, &mut b_tables, &mut b, now, entry, args, second);
                }
            }
        }
        let (seen, other) = (std::mem::take(&mut a.seen), std::mem::take(&mut b.seen));
        for n in 0..seen.len().max(other.len()) {
            same(&format!("step {i}, event {n}"), &seen.get(n), &other.get(n));
        }
        same(&format!("random numbers after step {i}"), &a.drawn, &b.drawn);
        for t in 0..a_tables.len() as u32 {
            let state = |s: &TableSet| (s.table(t).len(), s.table(t).epoch(), s.table(t).next_expiry());
            let name = &a_tables.table(t).decl().name;
            same(
                &format!("'{name}' after step {i}: entries, epoch, next expiry"),
                &state(&a_tables),
                &state(&b_tables),
            );
        }
        all.push(seen);
    }
    let now = steps.last().map_or(0, Step::now);
    let snapshot = |s: &TableSet| -> SetSnapshot { s.snapshot(now, |t| t.to_string()) };
    for (a, b) in snapshot(&a_tables).tables.iter().zip(&snapshot(&b_tables).tables) {
        same(&format!("content of '{}'", a.decl.name), a, b);
    }
    all
}

/// The entries that a step starts.
fn starts<'a>(program: &Program, step: &'a Step) -> Vec<(BlockId, &'a [u128], Option<Packet>)> {
    match step {
        Step::Packet { owner, port, packet, .. } => {
            let entry = program.packet_entry(*owner, *port).expect("the step names an input of the program");
            vec![(entry, &[], Some(packet.copy()))]
        }
        Step::Timer { owner, .. } => (program.entries.iter())
            .filter(|e| e.owner == *owner && matches!(e.kind, EntryKind::Timer { .. }))
            .map(|e| (e.block, &[][..], None))
            .collect(),
        Step::Message { owner, name, args, .. } => {
            let kind = EntryKind::Message { name: name.clone() };
            let entry = program.entries.iter().find(|e| e.owner == *owner && e.kind == kind);
            vec![(entry.expect("the step names a message of the program").block, args, None)]
        }
        Step::Expire { .. } => Vec::new(),
    }
}

#[track_caller]
fn same<T: Debug + PartialEq>(what: &str, interpreted: &T, compiled: &T) {
    assert!(interpreted == compiled, "{what}: interpreted {interpreted:#?}, compiled {compiled:#?}");
}

fn source(e: &dyn std::error::Error) -> String {
    e.source().map_or(String::new(), |s| format!("{s}: {}", source(s)))
}

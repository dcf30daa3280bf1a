//! Runs the same packets in each way that there is, and compares what can be seen.

use std::fmt;

use weir_ir::program::{BlockId, EntryKind, Row};
use weir_ir::testing::Start;
use weir_ir::{Interpreter, Program, Reason, optimize};
use weir_jit::differential::{Image, Recorder, Seen, tables_of};
use weir_jit::{Compiled, Flows, Runner};
use weir_packet::Packet;
use weir_table::{EntryRef, SetSnapshot, TableSet};

/// Numbers from a seed (SplitMix64, Steele and others, OOPSLA 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// An event of a program's run.
#[derive(Debug)]
pub enum Event {
    /// Packets on an input of an element (owner, port).
    Packets(u32, u32, Vec<Start>),
    /// All timers run.
    Timers,
    /// All messages come, with these arguments.
    Messages([u128; 2]),
    /// Entries expire.
    Expire,
    /// The control side changes a table.
    Edit(Edit),
}

/// A change of a table, by its number.
#[derive(Debug)]
pub enum Edit {
    /// A row is added, unless the table is full.
    Insert(u32, Row),
    /// A row, by its place, is removed.
    Remove(u32, usize),
    /// A row, by its place, gets another first value.
    Change(u32, usize, u8),
    /// All rows are removed.
    Clear(u32),
}

impl Edit {
    fn apply(&self, tables: &mut TableSet, now: u64) {
        let nth = |tables: &TableSet, table: u32, n: usize| {
            let mut rows = tables.table(table).rows();
            (!rows.is_empty()).then(|| rows.swap_remove(n % rows.len()))
        };
        match self {
            // A full table stays as it is.
            Edit::Insert(table, row) => drop(tables.table_mut(*table).insert_row(row, now)),
            Edit::Remove(table, n) => {
                if let Some((slot, _)) = nth(tables, *table, *n) {
                    tables.remove(EntryRef { table: *table, slot });
                }
            }
            Edit::Change(table, n, value) => {
                if let Some((_, mut row)) = nth(tables, *table, *n) {
                    row.value[0] = (*value).into();
                    tables.table_mut(*table).insert_row(&row, now).expect("the row is there");
                }
            }
            Edit::Clear(table) => tables.clear(*table),
        }
    }
}

/// The events of a program's run, by their times.
#[derive(Debug)]
pub struct Rounds(pub Vec<(u64, Event)>);

impl Rounds {
    /// Packets in batches of 1 to 64 on any input; timers, messages and expiry between them.
    pub fn new(program: &Program, mut packets: Vec<Start>, random: &mut Random) -> Rounds {
        let inputs: Vec<(u32, u32)> =
            program.entries.iter().filter_map(|e| input(e.owner, &e.kind)).collect();
        let (mut rounds, mut now) = (Vec::new(), 1000);
        while !packets.is_empty() {
            let n = random.pick(&[1, 2, 5, 16, 33, 64]).min(packets.len());
            let (owner, port) = random.pick(&inputs);
            let rest = packets.split_off(n);
            rounds.push((now, Event::Packets(owner, port, std::mem::replace(&mut packets, rest))));
            now += random.pick(&[0, 1, 7, 10, 200, 1 << 20, 1 << 31]);
            match random.below(4) {
                0 => rounds.push((now, Event::Timers)),
                1 => {
                    let args = [random.next() & 0xffff_ffff, random.next() & 0xff].map(u128::from);
                    rounds.push((now, Event::Messages(args)));
                }
                2 => rounds.push((now, Event::Expire)),
                _ => {}
            }
        }
        rounds.push((now + 1, Event::Expire));
        Rounds(rounds)
    }
}

fn input(owner: u32, kind: &EntryKind) -> Option<(u32, u32)> {
    match kind {
        EntryKind::Packet { port } => Some((owner, *port)),
        _ => None,
    }
}

/// How much was checked.
#[derive(Debug, Default)]
pub struct Tally {
    pub pairs: usize,
    pub exits: usize,
    pub drops: usize,
    pub orphans: usize,
    pub notices: usize,
    /// Entries left in tables, and the most in one of them.
    pub rows: usize,
    pub most_rows: usize,
}

impl Tally {
    pub fn and(self, b: &Tally) -> Tally {
        Tally {
            pairs: self.pairs + b.pairs,
            exits: self.exits + b.exits,
            drops: self.drops + b.drops,
            orphans: self.orphans + b.orphans,
            notices: self.notices + b.notices,
            rows: self.rows + b.rows,
            most_rows: self.most_rows.max(b.most_rows),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { pairs, exits, drops, orphans, notices, rows, .. } = self;
        write!(
            f,
            "{pairs} pairs of program and packet, {exits} exits, {drops} drops, {orphans} orphans, {notices} events, \
             {rows} entries left (at most {} in a table)",
            self.most_rows
        )
    }
}

/// The observations of one round.
#[derive(Debug, PartialEq)]
struct Round {
    seen: Vec<End>,
    /// For each table: entries, and when the next one expires.
    tables: Vec<(u32, Option<u64>)>,
}

/// [`Seen`], with the element of a drop instead of its block: a pass may move blocks; and of a packet only what is read.
#[derive(Debug, Clone, PartialEq)]
enum End {
    Exit(u32, Image),
    Dropped(u32, Reason, Image),
    Orphaned(Image),
    Notice(u32, Vec<u128>, Option<Image>),
}

impl End {
    fn of(program: &Program, seen: Seen) -> End {
        match seen {
            Seen::Exit { port, packet } if program.plain_exits.contains(&port) => {
                End::Exit(port, packet.plain())
            }
            Seen::Exit { port, packet } => End::Exit(port, packet),
            Seen::Dropped { at, reason, packet } => End::Dropped(program.block(at).owner, reason, packet),
            Seen::Orphaned { packet } => End::Orphaned(packet),
            Seen::Notify { event, args, packet } => End::Notice(event, args, packet),
        }
    }

    fn kind(&self) -> usize {
        match self {
            End::Exit(..) => 0,
            End::Dropped(..) => 1,
            End::Orphaned(_) => 2,
            End::Notice(..) => 3,
        }
    }
}

/// A way of running a program.
enum Way<'a> {
    Interpreted(Interpreter),
    Compiled(&'a Compiled, Runner),
    /// Packets of a round together.
    Batched(&'a Compiled, Runner),
}

/// Runs the program in each way and compares.
///
/// # Panics
/// If they differ.
pub fn hold(name: &str, program: &Program, rounds: &Rounds, tally: &mut Tally) {
    let optimized = optimize(program.clone());
    let compile = |p: &Program| Compiled::new(p).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let (plain, best) = (compile(program), compile(&optimized));
    let (reference, content) = run(program, rounds, Way::Interpreted(Interpreter::default()));
    // Caches of a few entries, in which flows push each other out, and of many.
    let runner = |entries| Runner::new(if entries == 0 { Flows::Never } else { Flows::Always(entries) });
    let ways = [
        ("compiled", program, Way::Compiled(&plain, runner(0)), false),
        ("optimised", &optimized, Way::Interpreted(Interpreter::default()), false),
        ("optimised and compiled", &optimized, Way::Compiled(&best, runner(4)), false),
        ("compiled, in batches", program, Way::Batched(&plain, runner(1 << 12)), true),
        ("optimised and compiled, in batches", &optimized, Way::Batched(&best, runner(32)), true),
    ];
    let sorted: Vec<Round> = reference.iter().map(by_kind).collect();
    for (what, program, way, batched) in ways {
        let (found, left) = run(program, rounds, way);
        let found: Vec<Round> = if batched { found.iter().map(by_kind).collect() } else { found };
        for (i, (expected, found)) in
            (if batched { &sorted } else { &reference }).iter().zip(&found).enumerate()
        {
            compare(&format!("{name}, {what}, round {i} ({:?})", rounds.0[i]), expected, found);
        }
        for (a, b) in content.tables.iter().zip(&left.tables) {
            assert!(a == b, "{name}, {what}: table '{}' holds {a:#?}, {what} {b:#?}", a.decl.name);
        }
    }
    for end in reference.iter().flat_map(|r| &r.seen) {
        let n = [&mut tally.exits, &mut tally.drops, &mut tally.orphans, &mut tally.notices];
        *n.into_iter().nth(end.kind()).expect("there are four kinds") += 1;
    }
    for (_, event) in &rounds.0 {
        if let Event::Packets(_, _, packets) = event {
            tally.pairs += packets.len();
        }
    }
    let rows = reference.iter().flat_map(|r| &r.tables).map(|t| t.0 as usize);
    tally.most_rows = tally.most_rows.max(rows.max().unwrap_or(0));
    tally.rows += reference.last().map_or(0, |r| r.tables.iter().map(|t| t.0 as usize).sum());
}

/// Within a batch, the order between packets that leave, that are dropped, and events is open.
fn by_kind(round: &Round) -> Round {
    let mut seen = round.seen.clone();
    seen.sort_by_key(End::kind);
    Round { seen, tables: round.tables.clone() }
}

fn compare(what: &str, expected: &Round, found: &Round) {
    for i in 0..expected.seen.len().max(found.seen.len()) {
        let (a, b) = (expected.seen.get(i), found.seen.get(i));
        assert!(a == b, "{what}: number {i} is to be {a:#?}, and is {b:#?}");
    }
    assert_eq!(expected.tables, found.tables, "{what}: entries and next expiry of the tables");
}

fn run(program: &Program, rounds: &Rounds, mut way: Way<'_>) -> (Vec<Round>, SetSnapshot) {
    let (mut tables, mut host) = (tables_of(program), Recorder::new(7));
    let mut last = 0;
    let all = rounds.0.iter().map(|(now, event)| {
        last = *now;
        way.step(program, &mut tables, &mut host, *now, event);
        Round {
            seen: std::mem::take(&mut host.seen).into_iter().map(|s| End::of(program, s)).collect(),
            tables: (0..tables.len() as u32)
                .map(|t| (tables.table(t).len(), tables.table(t).next_expiry()))
                .collect(),
        }
    });
    (all.collect(), tables.snapshot(last, |t| t.to_string()))
}

impl Way<'_> {
    fn step(
        &mut self,
        program: &Program,
        tables: &mut TableSet,
        host: &mut Recorder,
        now: u64,
        event: &Event,
    ) {
        let blocks = |wanted: fn(&EntryKind) -> bool| -> Vec<BlockId> {
            program.entries.iter().filter(|e| wanted(&e.kind)).map(|e| e.block).collect()
        };
        match event {
            Event::Packets(owner, port, starts) => {
                let entry = program.packet_entry(*owner, *port).expect("the passes keep entries");
                let mut packets: Vec<Packet> = starts.iter().filter_map(Start::packet).collect();
                match self {
                    Way::Batched(code, runner) => {
                        code.run_batch(runner, tables, host, now, entry, &mut packets);
                    }
                    _ => {
                        for packet in packets {
                            self.one(program, tables, host, now, entry, &[], Some(packet));
                        }
                    }
                }
            }
            Event::Timers => {
                for block in blocks(|k| matches!(k, EntryKind::Timer { .. })) {
                    self.one(program, tables, host, now, block, &[], None);
                }
            }
            Event::Messages(args) => {
                for block in blocks(|k| matches!(k, EntryKind::Message { .. })) {
                    self.one(program, tables, host, now, block, args, None);
                }
            }
            Event::Edit(edit) => edit.apply(tables, now),
            Event::Expire => match self {
                Way::Interpreted(interpreter) => interpreter.expire(program, tables, host, now),
                Way::Compiled(code, runner) | Way::Batched(code, runner) => {
                    code.expire(runner, tables, host, now);
                }
            },
        }
    }

    #[expect(clippy::too_many_arguments, reason = "as of what it calls")]
    fn one(
        &mut self,
        program: &Program,
        tables: &mut TableSet,
        host: &mut Recorder,
        now: u64,
        entry: BlockId,
        args: &[u128],
        packet: Option<Packet>,
    ) {
        match self {
            Way::Interpreted(i) => i.run(program, tables, host, now, entry, args, packet),
            Way::Compiled(code, runner) | Way::Batched(code, runner) => {
                code.run(runner, tables, host, now, entry, args, packet);
            }
        }
    }
}

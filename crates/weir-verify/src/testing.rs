//! Holds the symbolic execution against the interpreter, in both directions.

mod networks;

use weir_ir::interp::{Host, Interpreter};
use weir_ir::program::{BlockId, EntryKind, Program, Reason, TableId};
use weir_packet::Packet;
use weir_table::{EntryRef, TableSet};

use crate::explore::input::SymbolicInput;
use crate::explore::path::{ConcreteAt, How, Incomplete, Limits, Prediction};
use crate::explore::single::{explore, follow};
use crate::network::Network;
use crate::solve::build::copy_held;
use crate::solve::eval::{ConcretePacket, ConcreteRun};
use crate::solve::solve;

pub use networks::{Arrivals, Paths, assert_losses_are_only_losses};

/// One run of a sequence.
#[derive(Debug)]
pub struct Case {
    /// Where it starts.
    pub entry: BlockId,
    /// The packet, for an entry that takes one.
    pub packet: Option<Packet>,
    /// Arguments of the entry.
    pub args: Vec<u128>,
    /// The time; what is due by then expires before the run.
    pub now: u64,
    /// Random numbers that the host gives; 0 beyond them.
    pub randoms: Vec<u32>,
}

impl Case {
    /// A packet on an input of an unlinked program, at time 0.
    ///
    /// # Panics
    /// If the program has no such input.
    pub fn packet(program: &Program, port: u32, packet: Packet) -> Case {
        let entry = program.packet_entry(0, port).expect("the program has this input");
        Case { entry, packet: Some(packet), args: Vec::new(), now: 0, randoms: Vec::new() }
    }

    /// The same at another time.
    pub fn at(mut self, now: u64) -> Case {
        self.now = now;
        self
    }
}

/// Numbers of what was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Runs or paths that were compared and agree.
    pub agreed: usize,
    /// Those that were not compared: the exploration says that it is incomplete there, or the path is not solved.
    pub open: usize,
    /// Paths explored.
    pub paths: usize,
    /// Why not all was explored.
    pub incomplete: Option<Incomplete>,
}

/// Runs a sequence of cases on the interpreter, tables kept from one to the next, and checks each run against the
/// path that it takes: how packets end and what they are then, the notifications to the host, what tables contain.
///
/// # Panics
/// If a run takes no path, or goes otherwise than its path says.
pub fn assert_covered(program: &Program, cases: impl IntoIterator<Item = Case>) -> Summary {
    let mut tables = first_tables(program);
    let net = Network::of_program(program);
    let mut summary = Summary::default();
    for (i, mut t) in cases.into_iter().enumerate() {
        while let Some(due) = tables.next_due(t.now) {
            let kind = EntryKind::Expire { table: TableId(due.table) };
            if let Some(e) = program.entries.iter().find(|e| e.kind == kind) {
                let mut run = Case {
                    entry: e.block,
                    packet: None,
                    args: vec![due.slot.into()],
                    randoms: Vec::new(),
                    ..t
                };
                check(&net, program, &mut tables, &mut run, &format!("expiry before run {i}"), &mut summary);
            }
            tables.finish_expiry(due, t.now);
            drop(tables.take_orphans());
        }
        check(&net, program, &mut tables, &mut t, &format!("run {i}"), &mut summary);
    }
    summary
}

/// Explores a program from an entry, solves each path and runs the solution on the interpreter.
///
/// # Panics
/// If a solution does not take its path, or goes otherwise than the path says.
pub fn assert_replayed(program: &Program, entry: BlockId, input: &SymbolicInput, limits: Limits) -> Summary {
    let net = Network::of_program(program);
    let found = explore(&net, entry, input, limits);
    let mut summary =
        Summary { paths: found.paths.len(), incomplete: found.incomplete, ..Summary::default() };
    for (i, path) in found.paths.iter().enumerate() {
        let Some(mut start) = solve(&net, path) else {
            summary.open += 1;
            continue;
        };
        let said = path.covers(&start.run(&net)).expect("a solution takes its path");
        let seen = interpret(
            program,
            &mut start.tables.set,
            entry,
            &start.args,
            start.now,
            (start.randoms.clone(), start.hash_seed),
            start.packets.pop(),
        );
        compare(program, &said, &seen, &mut start.tables.set, &format!("path {i} of b{}", entry.0));
        summary.agreed += 1;
    }
    summary
}

/// The program's tables with their first content.
///
/// # Panics
/// If a declaration or a row is wrong.
pub fn first_tables(program: &Program) -> TableSet {
    let mut tables = TableSet::new(program.tables.iter().map(|t| &t.decl)).expect("declarations are right");
    for (i, t) in program.tables.iter().enumerate() {
        for row in &t.rows {
            tables.table_mut(i as u32).insert_row(row, 0).expect("rows fit their table");
        }
    }
    tables
}

fn check(
    net: &Network,
    program: &Program,
    tables: &mut TableSet,
    t: &mut Case,
    what: &str,
    summary: &mut Summary,
) {
    let held = copy_held(tables);
    let input = t.packet.as_ref().map_or_else(SymbolicInput::default, SymbolicInput::like);
    let run = ConcreteRun {
        net,
        tables,
        numbers: None,
        held: &held,
        packets: t.packet.as_slice(),
        args: &t.args,
        now: t.now,
        randoms: &t.randoms,
        hash_seed: SEED,
    };
    let found = follow(net, t.entry, &input, &run);
    let said: Vec<Prediction> = found.paths.iter().filter_map(|p| p.covers(&run)).collect();
    let seen =
        interpret(program, tables, t.entry, &t.args, t.now, (t.randoms.clone(), SEED), t.packet.take());
    summary.paths += found.paths.len();
    if let (true, Some(why)) = (said.is_empty(), found.incomplete) {
        summary.open += 1;
        summary.incomplete = summary.incomplete.or(Some(why));
        return;
    }
    assert!(!said.is_empty(), "{what} takes no path; it went {seen:#?}");
    for s in &said {
        compare(program, s, &seen, tables, what);
    }
    summary.agreed += 1;
}

fn compare(program: &Program, said: &Prediction, seen: &Observer, tables: &mut TableSet, what: &str) {
    let ends: Vec<_> = said.ends.iter().filter(|(how, _)| *how != How::Held).cloned().collect();
    assert_eq!(ends, seen.ends, "{what}: how packets end");
    assert_eq!(said.notices, seen.notices, "{what}: what the host is told");
    let held = copy_held(tables);
    for e in &said.entries {
        let table = tables.table(e.table);
        let name = &table.decl().name;
        let slot = match &e.at {
            ConcreteAt::Key(k) => table.lookup(k),
            ConcreteAt::Row(r) => {
                let row =
                    &crate::network::table_info::first_rows(&program.tables[e.table as usize])[*r as usize];
                table.find_row(&row.key, row.priority)
            }
        };
        let fields = slot.map(|s| (0..table.decl().value.len() as u32).map(|f| table.get(s, f)).collect());
        assert_eq!(e.fields, fields, "{what}: entry {:?} of '{name}'", e.at);
        let empty = Vec::new();
        let packets = slot.and_then(|slot| held.get(&EntryRef { table: e.table, slot })).unwrap_or(&empty);
        let packets: Vec<ConcretePacket> = packets.iter().map(ConcretePacket::from).collect();
        assert!(packets.ends_with(&e.held), "{what}: packets held by {:?} of '{name}'", e.at);
    }
}

const SEED: u64 = 0;

#[derive(Debug, Default)]
struct Observer {
    ends: Vec<(How, ConcretePacket)>,
    notices: Vec<(u32, Vec<u128>, Option<ConcretePacket>)>,
    randoms: Vec<u32>,
    drawn: usize,
    hash_seed: u64,
}

impl Host for Observer {
    fn exit(&mut self, port: u32, packet: Packet) {
        self.ends.push((How::Exit(port), (&packet).into()));
    }
    fn dropped(&mut self, at: BlockId, reason: &Reason, packet: Packet) {
        self.ends.push((How::Drop(at, reason.clone()), (&packet).into()));
    }
    fn orphaned(&mut self, packet: Packet) {
        self.ends.push((How::Orphaned, (&packet).into()));
    }
    fn notify(&mut self, event: u32, args: &[u128], packet: Option<&Packet>) {
        self.notices.push((event, args.to_vec(), packet.map(ConcretePacket::from)));
    }
    fn random(&mut self) -> u32 {
        self.drawn += 1;
        self.randoms.get(self.drawn - 1).copied().unwrap_or(0)
    }
    fn hash_seed(&self) -> u64 {
        self.hash_seed
    }
}

fn interpret(
    program: &Program,
    tables: &mut TableSet,
    entry: BlockId,
    args: &[u128],
    now: u64,
    (randoms, hash_seed): (Vec<u32>, u64),
    packet: Option<Packet>,
) -> Observer {
    let mut host = Observer { randoms, hash_seed, ..Observer::default() };
    Interpreter::default().run(program, tables, &mut host, now, entry, args, packet);
    host
}

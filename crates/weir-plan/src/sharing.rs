//! Which tables every worker may have for itself, read off the programs.
//!
//! A table that packets only read is the same for all workers. One to which packets only add, and whose sums no program
//! looks at, is a counter: each worker counts, and the counts are added up when someone reads them. Every other table
//! exists once, whatever its element declares: what it decides depends on all packets.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use weir_ir::Program;
use weir_ir::program::{BinOp, BlockId, End, Op, TableId, Type, Value};

/// The sharing of a table among workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// Each has its own with the same content; the control side changes them all.
    Same,
    /// Each has its own and adds to these value fields; the sums are what counts.
    Sum(Vec<u32>),
    /// There is one.
    One,
}

/// The accesses of programs to a table.
#[derive(Debug, Clone, Default)]
struct Use {
    /// Something is written that is no sum.
    writes: bool,
    /// Fields that are added to.
    adds: BTreeSet<u32>,
    /// Fields that are read for another purpose.
    reads: BTreeSet<u32>,
}

impl Use {
    fn add(&mut self, more: &Use) {
        self.writes |= more.writes;
        self.adds.extend(&more.adds);
        self.reads.extend(&more.reads);
    }

    fn share(&self, group: Option<u32>) -> Share {
        let counts_group = group.is_some_and(|g| self.adds.contains(&g));
        if self.writes || counts_group || self.adds.intersection(&self.reads).next().is_some() {
            Share::One
        } else if self.adds.is_empty() {
            Share::Same
        } else {
            Share::Sum(self.adds.iter().copied().collect())
        }
    }
}

/// How the tables of the programs are shared, program by program.
pub fn shares(programs: &[Arc<Program>]) -> Vec<Vec<Share>> {
    let uses: Vec<Vec<Use>> = programs.iter().map(|p| uses(p)).collect();
    // Programs that have a table in common decide together.
    let mut common: HashMap<&str, Use> = HashMap::new();
    for (program, uses) in programs.iter().zip(&uses) {
        for (table, of) in program.tables.iter().zip(uses) {
            if let Some(name) = &table.decl.shared_name {
                common.entry(name).or_default().add(of);
            }
        }
    }
    let share = |table: &weir_ir::program::TableInit, own: &Use| {
        let of = table.decl.shared_name.as_deref().and_then(|name| common.get(name)).unwrap_or(own);
        of.share(table.decl.group)
    };
    let of_program = |(p, uses): (&Arc<Program>, &Vec<Use>)| {
        p.tables.iter().zip(uses).map(|(t, own)| share(t, own)).collect()
    };
    programs.iter().zip(&uses).map(of_program).collect()
}

/// The blocks of a linked program from which a run may come to an element that has a table of which there is one.
pub fn reaches_one(program: &Program, one: impl Fn(u32) -> bool) -> Vec<bool> {
    let mut into = vec![Vec::new(); program.blocks.len()];
    for (from, block) in program.blocks.iter().enumerate() {
        let mut edge = |to: BlockId| into[to.0 as usize].push(from);
        for op in &block.ops {
            if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
                edge(target.block);
            }
        }
        block.end.targets().iter().for_each(|t| edge(t.block));
        if let End::Enter { block, .. } = block.end {
            edge(block);
        }
    }
    let mut reaches: Vec<bool> = program.blocks.iter().map(|b| one(b.owner)).collect();
    let mut work: Vec<usize> = (0..reaches.len()).filter(|&b| reaches[b]).collect();
    while let Some(b) = work.pop() {
        for &from in &into[b] {
            if !std::mem::replace(&mut reaches[from], true) {
                work.push(from);
            }
        }
    }
    reaches
}

/// The definition of a value, as far as counters are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// An entry of an array by a constant index.
    Index(TableId, u32),
    /// A field of an entry, in this block.
    Get { entry: Value, field: u32, block: usize },
    /// A sum.
    Add(Value, Value),
}

fn uses(program: &Program) -> Vec<Use> {
    let mut made: HashMap<Value, Made> = HashMap::new();
    let mut times: HashMap<Value, u32> = HashMap::new();
    for (number, block) in program.blocks.iter().enumerate() {
        for op in &block.ops {
            op.visit_values(|v, defined| {
                if !defined {
                    *times.entry(*v).or_default() += 1;
                }
            });
            match *op {
                Op::Index { dst, table, index } => made.insert(dst, Made::Index(table, index)),
                Op::Get { dst, entry, field } => made.insert(dst, Made::Get { entry, field, block: number }),
                Op::Binary { op: BinOp::Add, dst, a, b } => made.insert(dst, Made::Add(a, b)),
                _ => None,
            };
        }
        block.end.visit_values(|v| *times.entry(*v).or_default() += 1);
    }
    let reader = Reader { program, made, times };
    reader.uses()
}

/// Reads what a program does to its tables.
struct Reader<'a> {
    program: &'a Program,
    made: HashMap<Value, Made>,
    /// How often each value is used.
    times: HashMap<Value, u32>,
}

impl Reader<'_> {
    fn uses(&self) -> Vec<Use> {
        let mut uses = vec![Use::default(); self.program.tables.len()];
        let mut counts: HashSet<Value> = HashSet::new();
        for (number, block) in self.program.blocks.iter().enumerate() {
            for op in &block.ops {
                match *op {
                    Op::Set { entry, field, src } => {
                        let Some(of) = self.table(entry).and_then(|t| uses.get_mut(t)) else { continue };
                        match self.counted(entry, field, src, number) {
                            Some(read) => {
                                of.adds.insert(field);
                                counts.insert(read);
                            }
                            None => of.writes = true,
                        }
                    }
                    Op::Touch { entry, .. } | Op::Remove { entry } | Op::Release { entry, .. } => {
                        self.written(&mut uses, entry);
                    }
                    Op::Link { a, b } => [a, b].into_iter().for_each(|e| self.written(&mut uses, e)),
                    _ => {}
                }
            }
            match block.end {
                End::Insert { table, .. } | End::Claim { table, .. } | End::Soonest { table, .. } => {
                    if let Some(of) = uses.get_mut(table.0 as usize) {
                        of.writes = true;
                    }
                }
                End::Meter { entry, .. } | End::Hold { entry, .. } => self.written(&mut uses, entry),
                _ => {}
            }
        }
        for op in self.program.blocks.iter().flat_map(|b| &b.ops) {
            if let Op::Get { dst, entry, field } = *op
                && !counts.contains(&dst)
                && let Some(of) = self.table(entry).and_then(|t| uses.get_mut(t))
            {
                of.reads.insert(field);
            }
        }
        uses
    }

    fn written(&self, uses: &mut [Use], entry: Value) {
        if let Some(of) = self.table(entry).and_then(|t| uses.get_mut(t)) {
            of.writes = true;
        }
    }

    fn table(&self, entry: Value) -> Option<usize> {
        match self.program.ty(entry) {
            Type::Entry(table) => Some(table.0 as usize),
            Type::Int(_) => None,
        }
    }

    /// If `src` is the field's own value and something more, and neither serves another purpose: the value that was
    /// read.
    fn counted(&self, entry: Value, field: u32, src: Value, block: usize) -> Option<Value> {
        let Some(&Made::Add(a, b)) = self.made.get(&src) else { return None };
        let once = |v: &Value| self.times.get(v) == Some(&1);
        let own = |v: &Value| match self.made.get(v) {
            Some(Made::Get { entry: of, field: read, block: there }) => {
                *read == field && *there == block && self.same(*of, entry)
            }
            _ => false,
        };
        // Of a value that is added to itself, one use too many is counted.
        [a, b].into_iter().find(|v| own(v) && once(v)).filter(|_| once(&src))
    }

    fn same(&self, a: Value, b: Value) -> bool {
        let index = |v: Value| self.made.get(&v).filter(|m| matches!(m, Made::Index(..)));
        a == b || (index(a).is_some() && index(a) == index(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::{AnyClass, Classes};

    /// The shares of an element's tables, by name.
    fn of(class: &str, args: &[&str], ports: (u32, u32)) -> HashMap<String, Share> {
        let classes = Classes::default();
        let Some(AnyClass::Element(c)) = classes.get(class) else { panic!("{class} is an element") };
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let element = c.configure(&args).unwrap_or_else(|e| panic!("{e:?}"));
        let program = Arc::new(weir_ir::program_of(&*element, "x", ports.0, ports.1));
        let shares = shares(std::slice::from_ref(&program)).remove(0);
        program.tables.iter().map(|t| t.decl.name.clone()).zip(shares).collect()
    }

    #[test]
    fn plain_counters_are_sums_and_what_is_only_read_is_the_same() {
        let counter = of("Counter", &[], (1, 1));
        assert_eq!(counter["count"], Share::Sum(vec![0]));
        let routes = of("StaticIPLookup", &["10.0.0.0/8 0", "0/0 1"], (1, 2));
        assert!(routes.values().all(|s| *s != Share::One), "{routes:?}");
        let paint = of("Switch", &["1"], (1, 2));
        assert!(paint.values().all(|s| *s == Share::Same), "{paint:?}");
    }

    #[test]
    fn what_decides_by_what_it_wrote_exists_once() {
        for (class, args, ports) in [
            ("RoundRobinSwitch", &[][..], (1, 2)),
            ("EtherSwitch", &[], (2, 2)),
            ("ConnectionLimit", &["10"], (1, 1)),
            ("IPRewriter", &["pattern 1.2.3.4 1000-2000 - - 0 1", "drop"], (2, 2)),
            ("ARPQuerier", &["1.2.3.4", "0:1:2:3:4:5"], (2, 1)),
        ] {
            let shares = of(class, args, ports);
            assert!(shares.values().any(|s| *s == Share::One), "{class}: {shares:?}");
        }
        // The patterns decide, the counter beside them only counts.
        let nat = of("IPRewriter", &["pattern 1.2.3.4 1000-2000 - - 0 1", "drop"], (2, 2));
        assert_eq!(nat["mapping_failures"], Share::Sum(vec![0]));
        assert_eq!(nat["capacity"], Share::Same);
    }
}

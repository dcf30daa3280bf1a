//! What a path leaves out where nobody compares tables: operations of which nothing shows but in fields of tables that no
//! program asks for (counters of packets, bytes and hits) or in when entries expire, and questions after which, whatever
//! the answer, nothing else shows until the paths meet again.

use std::sync::Arc;

use weir_ir::program::{Block, BlockId, End, Op, Program, Target, Type, Value};

/// The operations of a block that paths leave out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sliced {
    /// The operations, a bit each. Those behind the 64th are taken to count.
    ops: u64,
    /// Where it goes on, however the block ends; the parameters there are not asked for.
    pub next: Option<BlockId>,
}

impl Sliced {
    /// Whether the operation with this number is left out.
    pub fn has(self, op: usize) -> bool {
        self.ops.checked_shr(op as u32).unwrap_or(0) & 1 == 1
    }
}

/// Value fields of a table, a bit each. Those behind the 63rd share a bit.
pub(crate) type FieldSet = u64;

/// For each block of a program in a closed network what is left out, and for each table the fields that are asked for: those
/// that others ask for, who share it, and its own.
pub(crate) fn sliced(
    p: &Program,
    of_others: impl Iterator<Item = FieldSet>,
) -> (Arc<[Sliced]>, Vec<FieldSet>) {
    let mut asked = Asked::of(p, of_others);
    while asked.look(p) {}
    let all = asked.sliced.iter().zip(&asked.next).map(|(&ops, &next)| Sliced { ops, next });
    (all.collect(), asked.fields)
}

/// The values and fields that something that shows depends on.
struct Asked {
    values: Vec<bool>,
    /// By table.
    fields: Vec<FieldSet>,
    /// For each block the operations that are left out, a bit each.
    sliced: Vec<u64>,
    /// For each block where it goes on, however it ends.
    next: Vec<Option<BlockId>>,
    /// For each block the first one from there where something shows.
    shows: Vec<BlockId>,
    reached: Vec<bool>,
    goes_back: bool,
}

fn field_bit(field: u32) -> FieldSet {
    1 << field.min(63)
}

impl Asked {
    fn of(p: &Program, of_others: impl Iterator<Item = FieldSet>) -> Asked {
        // How many entries are in a group is asked for by the table itself.
        let fields =
            p.tables.iter().zip(of_others).map(|(t, asked)| asked | t.decl.group.map_or(0, field_bit));
        Asked {
            values: vec![false; p.types.len()],
            fields: fields.collect(),
            sliced: vec![0; p.blocks.len()],
            next: vec![None; p.blocks.len()],
            shows: (0..p.blocks.len()).map(|b| BlockId(b as u32)).collect(),
            reached: reached(p),
            goes_back: goes_back(p),
        }
    }

    /// Goes through the blocks, each after those that follow. Whether more may be asked for than was known when they were
    /// looked at: what a block asks for was made in front of it, but for what comes round a loop, and fields.
    fn look(&mut self, p: &Program) -> bool {
        let before = self.fields.clone();
        let mut more = false;
        for (i, b) in p.blocks.iter().enumerate().rev() {
            if !self.reached[i] {
                continue;
            }
            self.next[i] = self.meeting(p, b);
            more |= self.look_at(p, i, b);
            // A header counts its rounds.
            let is_still = b.loop_limit.is_none() && self.sliced[i].count_ones() as usize == b.ops.len();
            self.shows[i] = self.next[i].filter(|_| is_still).unwrap_or(BlockId(i as u32));
        }
        more && (self.goes_back || self.fields != before)
    }

    /// Where all paths on which a block may end meet, if nothing shows on them.
    fn meeting(&self, p: &Program, b: &Block) -> Option<BlockId> {
        use End::{Branch, Jump, Lookup, Require, Soonest, Switch};
        let (Jump(_) | Branch { .. } | Switch { .. } | Require { .. } | Lookup { .. } | Soonest { .. }) =
            b.end
        else {
            return None;
        };
        let mut targets = targets(&b.end).map(|t| {
            let asks = p.block(t.block).params.iter().any(|v| self.values[v.0 as usize]);
            (!asks).then(|| self.shows[t.block.0 as usize])
        });
        let first = targets.next()??;
        targets.all(|target| target == Some(first)).then_some(first)
    }

    /// Adds what a block asks for. Whether that is more than before.
    fn look_at(&mut self, p: &Program, i: usize, b: &Block) -> bool {
        let mut more = false;
        if self.next[i].is_none() {
            b.end.visit_own_values(|v| more |= self.ask(*v));
            if let End::Meter { entry, field, .. } = b.end {
                more |= self.ask_field(p, entry, field);
            }
            b.end.visit_targets(|supplied, t| {
                let params = p.block(t.block).params.iter().skip(supplied);
                for (param, arg) in params.zip(&t.args) {
                    more |= self.values[param.0 as usize] && self.ask(*arg);
                }
            });
        }
        self.sliced[i] = 0;
        for (n, op) in b.ops.iter().enumerate().rev() {
            if !self.counts(p, op) {
                self.sliced[i] |= 1_u64.checked_shl(n as u32).unwrap_or(0);
                continue;
            }
            op.visit_values(|v, defined| more |= !defined && self.ask(*v));
            if let Op::Get { entry, field, .. } = op {
                more |= self.ask_field(p, *entry, *field);
            }
        }
        more
    }

    fn ask(&mut self, v: Value) -> bool {
        !std::mem::replace(&mut self.values[v.0 as usize], true)
    }

    fn ask_field(&mut self, p: &Program, entry: Value, field: u32) -> bool {
        let Type::Entry(table) = p.ty(entry) else { return false };
        let fields = &mut self.fields[table.0 as usize];
        let before = *fields;
        *fields |= field_bit(field);
        *fields != before
    }

    /// Whether something that shows depends on an operation, as far as is known.
    fn counts(&self, p: &Program, op: &Op) -> bool {
        match op {
            Op::Set { entry, field, .. } => match p.ty(*entry) {
                Type::Entry(table) => self.fields[table.0 as usize] & field_bit(*field) != 0,
                Type::Int(_) => true,
            },
            // When an entry expires is not followed.
            Op::Touch { .. } => false,
            // The next one would be another.
            Op::Random { .. } => true,
            op => op.dst().is_none_or(|v| self.values[v.0 as usize]),
        }
    }
}

/// The targets by which a block may end. In a closed network no entry is the one that expires next.
fn targets(end: &End) -> impl Iterator<Item = &Target> {
    let hit = usize::from(matches!(end, End::Soonest { .. }));
    end.targets().into_iter().skip(hit)
}

/// Whether a block leads to one that does not stand behind it.
pub(crate) fn goes_back(p: &Program) -> bool {
    (0..).zip(&p.blocks).any(|(i, b)| {
        let mut back = matches!(b.end, End::Enter { block, .. } if block <= BlockId(i));
        b.end.visit_targets(|_, t| back |= t.block <= BlockId(i));
        back || forks(b).any(|to| to <= BlockId(i))
    })
}

/// The blocks that packets, timers and messages may come to.
fn reached(p: &Program) -> Vec<bool> {
    let mut reached = vec![false; p.blocks.len()];
    let mut work: Vec<BlockId> = p.entries.iter().map(|e| e.block).collect();
    while let Some(b) = work.pop() {
        if std::mem::replace(&mut reached[b.0 as usize], true) {
            continue;
        }
        let block = p.block(b);
        work.extend(targets(&block.end).map(|t| t.block));
        if let End::Enter { block, .. } = block.end {
            work.push(block);
        }
        work.extend(forks(block));
    }
    reached
}

/// Where packets go that a block starts.
fn forks(b: &Block) -> impl Iterator<Item = BlockId> {
    b.ops.iter().filter_map(|op| match op {
        Op::Fork { target, .. } | Op::Release { target, .. } => Some(target.block),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use weir_ir::program::{Layer, Reason, Width};
    use weir_ir::{Builder, TableDecl};
    use weir_table::Kind;

    use super::*;
    use crate::network::{Body, Network, NodeId};

    /// Nobody shares its tables.
    fn alone(p: &Program) -> (Arc<[Sliced]>, Vec<FieldSet>) {
        sliced(p, p.tables.iter().map(|_| 0))
    }

    /// How many operations of a program with one input are left out, and how many it has.
    fn of(body: impl FnOnce(&mut Builder)) -> (u32, usize) {
        let mut b = Builder::new("p", 1, 1);
        b.input(0, body);
        let p = b.finish();
        let (sliced, _) = alone(&p);
        (sliced.iter().map(|i| i.ops.count_ones()).sum(), p.blocks.iter().map(|b| b.ops.len()).sum())
    }

    /// Adds the length of the packet to a cell, which is sent along or not.
    fn count(b: &mut Builder, is_sent: bool) {
        let t = b.cell("bytes", Width::W32, 0);
        let e = b.index(t, 0);
        let (before, len) = (b.get(e, "value"), b.len());
        let after = b.add(before, len);
        b.set(e, "value", after);
        if is_sent {
            b.store_anno(0, before);
        }
        b.emit(0);
    }

    #[test]
    fn a_counter_that_nobody_asks_for_is_idle() {
        let (sliced, all) = of(|b| count(b, false));
        assert_eq!(sliced as usize, all);
        assert_eq!(of(|b| count(b, true)).0, 0);
    }

    #[test]
    fn what_an_entry_holds_is_idle_and_that_it_is_there_is_not() {
        let seen = |is_read: bool| {
            of(|b| {
                let decl =
                    TableDecl::new("seen", Kind::Exact, &[("key", Width::W8)], &[("last", Width::W64)], 8);
                let t = b.table(decl, Vec::new());
                b.require(Layer::Data, 1, Reason::TRUNCATED);
                let key = b.load(Width::W8, Layer::Data, 0);
                let e = b.insert(t, &[key], |b| b.drop(Reason::NO_MATCH));
                if is_read {
                    let last = b.get(e, "last");
                    b.store_anno(8, last);
                }
                let now = b.now();
                b.set(e, "last", now);
                b.emit(0);
            })
        };
        assert_eq!((seen(false).0, seen(true).0), (2, 0), "the time and where it is kept, but not the key");
    }

    #[test]
    fn what_goes_round_a_loop_to_be_asked_for_counts() {
        let (sliced, _) = of(|b| {
            let zero = b.constant(Width::W32, 0_u32);
            let found = b.repeat(3, &[zero, zero], |b, rounds, vars| {
                let (asked, not) = (b.add(vars[0], 1), b.add(vars[1], 2));
                let done = b.ge(asked, 3);
                b.when(done, |b| rounds.leave(b, &[asked, not]));
                rounds.next(b, &[asked, not]);
            });
            b.store_anno(0, found[0]);
            b.emit(0);
        });
        assert_eq!(sliced, 2, "the second sum, and the number that it adds");
    }

    #[test]
    fn what_is_asked_for_two_rounds_later_counts() {
        let (sliced, _) = of(|b| {
            let zero = b.constant(Width::W32, 0_u32);
            let found = b.repeat(5, &[zero, zero, zero], |b, rounds, vars| {
                let (round, later) = (b.add(vars[0], 1), b.add(vars[2], 7));
                let done = b.ge(round, 5);
                b.when(done, |b| rounds.leave(b, &[round, vars[1], vars[2]]));
                rounds.next(b, &[round, vars[2], later]);
            });
            b.store_anno(0, found[1]);
            b.emit(0);
        });
        assert_eq!(sliced, 0, "what is added is shown when it has moved on");
    }

    /// How many blocks of a program go on somewhere else than their end says, or without asking what it asks.
    fn questions_left_out(body: impl FnOnce(&mut Builder)) -> usize {
        let mut b = Builder::new("p", 1, 2);
        b.input(0, body);
        let p = b.finish();
        let is_question = |b: &Block| !matches!(b.end, End::Jump(_));
        alone(&p).0.iter().zip(&p.blocks).filter(|(i, b)| i.next.is_some() && is_question(b)).count()
    }

    /// Asks for the state of a flow, changes it, and looks for the flow's other entry, to change that too.
    fn follow_state(b: &mut Builder, is_sent: bool) {
        let key = [("key", Width::W8)];
        let decl = TableDecl::new("flows", Kind::Exact, &key, &[("state", Width::W8)], 8);
        let t = b.table(decl, Vec::new());
        b.require(Layer::Data, 2, Reason::TRUNCATED);
        let (key, other) = (b.load(Width::W8, Layer::Data, 0), b.load(Width::W8, Layer::Data, 1));
        let e = b.find(t, &[key], |b| b.drop(Reason::NO_MATCH));
        let state = b.get(e, "state");
        let is_new = b.eq(state, 0);
        b.when(is_new, |b| {
            let next = b.constant(Width::W8, 1_u8);
            b.set(e, "state", next);
            b.lookup(t, &[other], |b, other| b.set(other, "state", next), |_| {});
        });
        let [short, long] = [10_u64, 20].map(|t| b.constant(Width::W64, t));
        let timeout = b.select(is_new, short, long);
        b.touch(e, timeout);
        if is_sent {
            b.store_anno(0, state);
        }
        b.emit(0);
    }

    #[test]
    fn a_question_is_idle_if_nothing_shows_until_its_ways_meet() {
        assert_eq!(
            questions_left_out(|b| follow_state(b, false)),
            2,
            "whether it is new, and the other entry"
        );
        assert_eq!(questions_left_out(|b| follow_state(b, true)), 0);
        let ends = |is_same: bool| {
            questions_left_out(|b| {
                b.require(Layer::Data, 1, Reason::TRUNCATED);
                let v = b.load(Width::W8, Layer::Data, 0);
                let small = b.lt(v, 7);
                let kind = b.constant(Width::W8, 1_u8);
                let other = if is_same { kind } else { v };
                let chosen = b.choose(small, |_| kind, |_| other);
                b.store_anno(0, chosen);
                b.emit(0);
            })
        };
        assert_eq!((ends(true), ends(false)), (0, 0), "which path it was is seen in what is passed on");
    }

    #[test]
    fn ways_that_end_are_not_idle() {
        let left_out = questions_left_out(|b| {
            b.require(Layer::Data, 1, Reason::TRUNCATED);
            let v = b.load(Width::W8, Layer::Data, 0);
            let small = b.lt(v, 7);
            b.when(small, |b| b.drop(Reason::NO_MATCH));
            b.switch(v, &[8, 9], |b, case| {
                if case == Some(0) {
                    b.emit(1);
                }
            });
            b.emit(0);
        });
        assert_eq!(left_out, 0);
    }

    #[test]
    fn what_only_an_entry_that_expires_next_is_asked_for_is_not_asked_for() {
        let seen = |is_read: bool| {
            let (sliced, _) = of(|b| {
                let key = [("key", Width::W8)];
                let decl = TableDecl::new("flows", Kind::Exact, &key, &[("state", Width::W8)], 8);
                let t = b.table(decl, Vec::new());
                b.require(Layer::Data, 1, Reason::TRUNCATED);
                let key = b.load(Width::W8, Layer::Data, 0);
                let e = b.find(t, &[key], |b| {
                    let (next, _) = b.soonest(t, |b| b.drop(Reason::FULL));
                    let state = b.get(next, "state");
                    b.store_anno(0, state);
                    b.emit(0);
                });
                let state = b.get(e, "state");
                let more = b.add(state, 1);
                b.set(e, "state", more);
                if is_read {
                    b.store_anno(0, state);
                }
                b.emit(0);
            });
            sliced
        };
        assert!(seen(false) >= 4, "the state, the one that is added, the sum, and where it is kept");
        assert_eq!(seen(true), 0);
    }

    #[test]
    fn what_others_ask_for_who_share_a_table_counts() {
        let p = |is_read: bool| {
            let mut b = Builder::new("p", 1, 1);
            b.input(0, |b| {
                let decl = TableDecl::new("n", Kind::Array, &[("index", Width::W32)], &[("n", Width::W8)], 1);
                let t = b.table(TableDecl { shared_name: Some("n".to_owned()), ..decl }, Vec::new());
                let e = b.index(t, 0);
                if is_read {
                    let n = b.get(e, "n");
                    b.store_anno(0, n);
                } else {
                    let n = b.constant(Width::W8, 7_u8);
                    b.set(e, "n", n);
                }
                b.emit(0);
            });
            Arc::new(b.finish())
        };
        let mut net = Network::new();
        let sliced = |net: &Network, n: NodeId| {
            let Body::Program(i) = &net.node(n).body else { panic!("it is a program") };
            i.sliced.iter().map(|i| i.ops.count_ones()).sum::<u32>()
        };
        let writer = net.add_program("writer", &p(false), 0);
        let other = net.add_program("reader of another graph", &p(true), 1);
        assert_eq!(
            (sliced(&net, writer), sliced(&net, other)),
            (3, 0),
            "the place, the number, and that it is written"
        );
        net.add_program("reader", &p(true), 0);
        assert_eq!(sliced(&net, writer), 0);
        let late = net.add_program("another writer", &p(false), 0);
        assert_eq!(sliced(&net, late), 0);
    }
}

//! What each end of a block means for a path; [`weir_ir::interp`] is the reference.

use std::sync::Arc;

use weir_ir::program::{BinOp, BlockId, End, MAX_HOPS, Reason, Target, Width};

use crate::explore::branch::Branch;
use crate::explore::path::{How, Incomplete};
use crate::explore::state::State;
use crate::explore::tables::TableModel;
use crate::explore::{Cut, Explorer};
use crate::model::expr::{Claim, Expr, Exprs, Node, Symbol};
use crate::model::set::Set;

impl Explorer<'_> {
    /// The next block, if the packet goes on.
    pub(crate) fn end(&mut self, st: &mut State, end: &End) -> Result<Option<BlockId>, Cut> {
        Ok(match end {
            End::Jump(t) => self.go(st, t, &[]),
            End::Branch { cond, then, other } => {
                let cond = self.position.as_set(st, *cond);
                let only = self.only(st, then, other);
                let t = if self.branch.decide_for(st, cond, only)? { then } else { other };
                self.go(st, t, &[])
            }
            End::Switch { value, cases, default } => {
                let v = self.get(st, *value);
                if let Some(v) = self.branch.x.constant_value(v) {
                    let t = cases.iter().find(|(case, _)| *case == v).map_or(default, |(_, t)| t);
                    return Ok(self.go(st, t, &[]));
                }
                self.switch(st, v, cases, default)?
            }
            End::Again { header, exit } => {
                let limit = self.position.program(st).block(header.block).loop_limit.unwrap_or(1);
                let rounds = st.rounds_of(header.block);
                if *rounds >= limit {
                    return Ok(self.go(st, exit, &[]));
                }
                *rounds += 1;
                self.pass(st, header, &[]);
                self.meet(st, header.block)?;
                Some(header.block)
            }
            End::Require { layer, n, ok, fail } => {
                let n = self.amount(st, *n);
                let there = match self.branch.layer(st, *layer)? {
                    Some(at) => {
                        let only = self.only(st, ok, fail);
                        self.branch.reaches_behind(st, at, n, only)?
                    }
                    None => false,
                };
                self.go(st, if there { ok } else { fail }, &[])
            }
            End::Push { n, ok, fail } => {
                let n = self.pick_amount(st, *n)?;
                // The packet moves in its buffer if need be, so all free bytes count, in front and behind.
                let len = Branch::packet(st)?.len(&mut self.branch.x);
                let free = self.branch.x.binary(BinOp::Sub, Branch::packet(st)?.capacity, len);
                let only = self.only(st, ok, fail);
                let spare = Branch::packet(st)?.bounds.spare;
                let fits = i64::from(n) <= spare || self.branch.fits(st, n, free, only)?;
                if fits {
                    let at = Branch::packet(st)?.data - i64::from(n);
                    self.branch.keep_apart(st, at, n, true)?;
                    let p = Branch::packet(st)?;
                    p.push(&mut self.branch.x, n);
                    p.bounds.spare = (spare - i64::from(n)).max(0);
                }
                self.go(st, if fits { ok } else { fail }, &[])
            }
            End::Unpull { n, ok, fail } => {
                let n = self.pick_amount(st, *n)?;
                let p = Branch::packet(st)?;
                let to = p.data - i64::from(n);
                let back = to >= p.floor || {
                    let pulled = st.packet.as_ref().map(|p| self.branch.pulled(p)).ok_or(Cut)?;
                    let need = self.branch.x.constant(Width::W32, u128::from(to.unsigned_abs() as u32));
                    let enough = self.branch.x.at_most(need, pulled);
                    let only = self.only(st, ok, fail);
                    self.branch.decide_for(st, enough, only)?
                };
                if back {
                    let p = Branch::packet(st)?;
                    p.bounds.spare = (p.bounds.spare - (p.data - to)).max(0);
                    p.data = to;
                }
                self.go(st, if back { ok } else { fail }, &[])
            }
            End::Put { n, ok, fail } => {
                let n = self.pick_amount(st, *n)?;
                let end = Branch::packet(st)?.end_index(&mut self.branch.x);
                let free = self.branch.x.binary(BinOp::Sub, Branch::packet(st)?.capacity, end);
                let only = self.only(st, ok, fail);
                let fits = self.branch.fits(st, n, free, only)?;
                if fits && n > 0 {
                    let end = Branch::packet(st)?.end;
                    let known = self.branch.pick(st, end.0)?;
                    self.branch.keep_apart(st, known as i64 + end.1, n, true)?;
                    let zero = self.branch.x.constant(Width::W8, 0);
                    let p = Branch::packet(st)?;
                    p.store(&mut self.branch.x, known as i64 + end.1, &vec![zero; n as usize]);
                    (p.end.1, p.bounds.short_of) = (p.end.1 + i64::from(n), i64::MAX);
                    p.bounds.spare = (p.bounds.spare - i64::from(n)).max(0);
                }
                self.go(st, if fits { ok } else { fail }, &[])
            }
            End::Lookup { table, key, hit, miss } => {
                let key = self.gets(st, key);
                let table = self.position.table(st, *table);
                self.branch_by_lookup(st, table, &key, (hit, miss))?
            }
            End::Insert { table, key, ok, full } => {
                let key = self.gets(st, key).into_vec();
                let table = self.position.table(st, *table);
                let e = match self.tables.lookup(&mut self.branch, st, table, &key)? {
                    Some(e) => e,
                    None => {
                        let size = self.tables.size(&mut self.branch, st, table);
                        let capacity = self.net.decl(table).capacity;
                        let capacity = self.branch.x.constant(Width::W32, capacity.into());
                        let space = self.branch.x.less(size, capacity);
                        if !self.branch.decide(st, space)? {
                            return Ok(self.go(st, full, &[]));
                        }
                        self.tables.new_entry(&mut self.branch, st, table, key)
                    }
                };
                self.go(st, ok, &[e as u32])
            }
            End::Claim { table, key, hole, lo, hi, start, ok, full } => {
                let key = self.gets(st, key).into_vec();
                let [lo, hi, start] = [lo, hi, start].map(|v| self.get(st, *v));
                let table = self.position.table(st, *table);
                self.tables.look_into(&mut self.branch, st, table)?;
                let size = self.tables.size(&mut self.branch, st, table);
                let changes = TableModel::changes(st, table);
                let claim = Claim {
                    table: self.net.like(table),
                    key: key.clone(),
                    hole: *hole,
                    lo,
                    hi,
                    start,
                    size,
                    changes,
                };
                let (success, value, follows) = self.tables.claimed(&mut self.branch, st, claim);
                if !self.branch.decide(st, success)? {
                    return Ok(self.go(st, full, &[]));
                }
                for f in follows {
                    self.branch.learn(st, f)?;
                }
                let mut key = key;
                key[*hole as usize] = value;
                let e = self.tables.new_entry(&mut self.branch, st, table, key);
                self.go(st, ok, &[e as u32, value.0])
            }
            End::Soonest { table, hit, miss } => {
                let table = self.position.table(st, *table);
                match self.tables.soonest(&mut self.branch, st, table)? {
                    Some((e, left)) => self.go(st, hit, &[e as u32, left.0]),
                    None => self.go(st, miss, &[]),
                }
            }
            End::Meter { entry, field, cost, rate, burst, ok, over } => {
                let e = self.used(st, *entry)?;
                let state = st.entries[e].fields[*field as usize];
                let [cost, rate, burst] = [cost, rate, burst].map(|v| self.get(st, *v));
                self.look_at_time(st)?;
                let now = self.branch.x.symbol(Width::W64, Symbol::Now);
                let args = Box::new([state, now, cost, rate, burst]);
                let enough = self.branch.x.make(Width::W1, Node::MeterOk(args.clone()));
                let enough = self.branch.decide(st, enough)?;
                let state = self.branch.x.make(Width::W128, Node::MeterState(args));
                st.set_field(e, *field, state);
                self.go(st, if enough { ok } else { over }, &[])
            }
            End::Hold { entry, full } => {
                let e = self.used(st, *entry)?;
                let held = self.tables.held_now(&mut self.branch, st, e);
                let most = self.net.decl(st.entries[e].table).held;
                let most = self.branch.x.constant(Width::W32, most.into());
                let space = self.branch.x.less(held, most);
                if !st.entries[e].live || !self.branch.decide(st, space)? {
                    return Ok(self.go(st, full, &[]));
                }
                let packet = Branch::packet(st)?.clone();
                st.entry_mut(e).held.push(packet);
                Self::finish_packet(st, How::Held)?
            }
            End::Emit { port } | End::Exit { exit: port } => self.leave(st, *port)?,
            End::Drop { reason } => Self::finish_packet(st, How::Drop(st.block, reason.clone()))?,
            End::Finish => None,
            End::Enter { block, back: false } => Some(*block),
            End::Enter { block, back: true } => {
                let hops = Branch::packet(st)?.hops;
                let most = self.branch.x.constant(Width::W8, MAX_HOPS.into());
                let again = self.branch.x.less(hops, most);
                if !self.branch.decide(st, again)? {
                    return Self::finish_packet(st, How::Drop(st.block, Reason::LOOP_LIMIT));
                }
                if st.laps >= self.branch.budget.limits.hops {
                    return Err(self.branch.give_up(Incomplete::Hops));
                }
                st.laps += 1;
                Branch::packet(st)?.hops = self.branch.x.plus(hops, 1);
                Some(*block)
            }
        })
    }

    /// Goes on at one of two blocks by whether a key finds an entry.
    fn branch_by_lookup(
        &mut self,
        st: &mut State,
        table: u32,
        key: &[Expr],
        (hit, miss): (&Target, &Target),
    ) -> Result<Option<BlockId>, Cut> {
        let (info, decl) = (self.net.info(table), self.net.decl(table));
        let found = match (info.results(decl), key) {
            (Some(results), [key]) if !info.is_edited() => {
                let (mut others, follow_miss) = (Vec::new(), !self.is_lost(st, miss.block));
                let later = Some((follow_miss, &mut others));
                let found = self.tables.lookup_results(&mut self.branch, st, (table, *key), results, later);
                for (mut other, found) in others {
                    let next = match found {
                        Some(e) => self.go(&mut other, hit, &[e as u32]),
                        None => self.go(&mut other, miss, &[]),
                    };
                    self.resume_at(other, next);
                }
                found?
            }
            _ => self.tables.lookup(&mut self.branch, st, table, key)?,
        };
        Ok(match found {
            Some(e) => self.go(st, hit, &[e as u32]),
            None => self.go(st, miss, &[]),
        })
    }

    /// Goes on by the first case that a value is; the others are paths of their own.
    fn switch(
        &mut self,
        st: &mut State,
        v: Expr,
        cases: &[(u128, Target)],
        default: &Target,
    ) -> Result<Option<BlockId>, Cut> {
        // What decides more than a set of values can say is asked for one by one.
        if self.branch.guide.is_some() || matches!(self.branch.x.node(v), Node::Checksum { .. }) {
            for (case, t) in cases {
                let same = self.branch.x.is(v, *case);
                if self.branch.decide(st, same)? {
                    return Ok(self.go(st, t, &[]));
                }
            }
            return Ok(self.go(st, default, &[]));
        }
        let mut rest = default;
        let mut open: Vec<(Expr, u128, &Target)> = Vec::new();
        let may_be = st.facts.set(&self.branch.x, v);
        for (case, t) in cases.iter().filter(|(case, _)| may_be.contains(*case)) {
            let same = self.branch.x.is(v, *case);
            let plain = is_plain(&self.branch.x, same, v);
            let truth =
                if plain { may_be.value().map(|_| true) } else { st.facts.truth(&self.branch.x, same) };
            match truth {
                Some(false) => {}
                Some(true) => {
                    rest = t;
                    break;
                }
                // The first of equal cases counts.
                None if open.iter().any(|(e, ..)| *e == same) => {}
                None => open.push((same, *case, t)),
            }
        }
        if open.is_empty() {
            return Ok(self.go(st, rest, &[]));
        }
        let followed: Vec<_> = open.iter().copied().filter(|(_, _, t)| !self.is_lost(st, t.block)).collect();
        if !self.is_lost(st, rest.block) {
            let mut other = Box::new(st.clone());
            let none = if open.iter().all(|&(e, ..)| is_plain(&self.branch.x, e, v)) {
                let all = Arc::new(Set::union(open.iter().map(|&(_, case, _)| (case, case)).collect()));
                let within = self.branch.x.within(v, &all);
                let others = all.complement(self.branch.x.width(v));
                let beside = self.branch.x.not(within);
                other.facts.assume_in(&self.branch.x, beside, v, &may_be, &others)
            } else {
                open.iter().all(|&(e, ..)| self.branch.assume(&mut other, e, false).is_ok())
            };
            if none {
                let next = self.go(&mut other, rest, &[]);
                self.resume_at(other, next);
            }
        }
        let assume = |x: &mut Exprs, st: &mut State, same: Expr, case: u128| {
            if is_plain(x, same, v) {
                st.facts.assume_in(x, same, v, &may_be, &Set::single(case))
            } else {
                st.facts.assume_open(x, same, true)
            }
        };
        let (&(first, case, target), others) = followed.split_first().ok_or(Cut)?;
        for &(same, case, t) in others.iter().rev() {
            let mut other = Box::new(st.clone());
            if assume(&mut self.branch.x, &mut other, same, case) {
                let next = self.go(&mut other, t, &[]);
                self.resume_at(other, next);
            }
        }
        if !assume(&mut self.branch.x, st, first, case) {
            return Err(Cut);
        }
        Ok(self.go(st, target, &[]))
    }

    /// Which of the answers yes and no leads on, if it is only one.
    fn only(&self, st: &State, yes: &Target, no: &Target) -> Option<bool> {
        match (self.is_lost(st, yes.block), self.is_lost(st, no.block)) {
            (false, true) => Some(true),
            (true, false) => Some(false),
            _ => None,
        }
    }
}

/// Whether a condition just says that `v` is some number.
fn is_plain(x: &Exprs, condition: Expr, v: Expr) -> bool {
    matches!(*x.node(condition), Node::Equal(a, b) if a == v && x.constant_value(b).is_some())
}

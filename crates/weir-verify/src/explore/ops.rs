//! What each operation means for a path; [`weir_ir::interp`] is the reference.

use std::rc::Rc;

use weir_ir::program::{Amount, CmpOp, MetaField, Op, Value, Width};
use weir_packet::Checksum;

use crate::explore::branch::Branch;
use crate::explore::path::Notice;
use crate::explore::state::State;
use crate::explore::{Cut, Explorer};
use crate::model::expr::{Expr, Node, Symbol};
use crate::model::packet::{Mark, SymbolicPacket, mark_number};

impl Explorer<'_> {
    pub(crate) fn op(&mut self, st: &mut State, op: &Op) -> Result<(), Cut> {
        match op {
            Op::Const { dst, value } => {
                let v = self.branch.x.constant(self.position.program(st).width(*dst), *value);
                self.position.set(st, *dst, v);
            }
            Op::Binary { op, dst, a, b } => {
                let (a, b) = (self.get(st, *a), self.get(st, *b));
                let v = self.branch.x.binary(*op, a, b);
                self.position.set(st, *dst, v);
            }
            Op::Compare { op, dst, a, b } => {
                let (a, b) = (self.get(st, *a), self.get(st, *b));
                let v = match op {
                    CmpOp::Eq => self.branch.x.equal(a, b),
                    CmpOp::Ne => {
                        let same = self.branch.x.equal(a, b);
                        self.branch.x.not(same)
                    }
                    CmpOp::Lt => self.branch.x.less(a, b),
                    CmpOp::Le => self.branch.x.at_most(a, b),
                };
                self.position.set(st, *dst, v);
            }
            Op::Not { dst, a } => {
                let a = self.get(st, *a);
                let v = self.branch.x.not(a);
                self.position.set(st, *dst, v);
            }
            Op::Resize { dst, a } => {
                let mut a = self.get(st, *a);
                // A number that was cut and had nothing to lose is itself.
                if let Node::Resize(whole) = *self.branch.x.node(a)
                    && self.branch.x.width(whole) > self.branch.x.width(a)
                    && st
                        .facts
                        .set(&self.branch.x, whole)
                        .hull()
                        .is_some_and(|h| h.1 <= self.branch.x.width(a).max())
                {
                    a = whole;
                }
                let v = self.branch.x.resize(self.position.program(st).width(*dst), a);
                self.position.set(st, *dst, v);
            }
            Op::Select { dst, cond, a, b } => {
                let [cond, a, b] = [cond, a, b].map(|v| self.get(st, *v));
                let v = self.branch.x.select(cond, a, b);
                self.position.set(st, *dst, v);
            }
            Op::Sum16 { dst, a, b } => {
                let (a, b) = (self.get(st, *a), self.get(st, *b));
                let v = self.branch.x.sum16(a, b);
                self.position.set(st, *dst, v);
            }
            Op::Hash { dst, args } => {
                let args = self.gets(st, args);
                let v = self.branch.x.make(Width::W32, Node::Hash(args.into_boxed_slice()));
                self.position.set(st, *dst, v);
            }
            Op::Random { dst } => {
                let v = self.branch.x.symbol(Width::W32, Symbol::Random(st.randoms));
                st.randoms += 1;
                self.position.set(st, *dst, v);
            }
            Op::Now { dst } => {
                self.look_at_time(st)?;
                let v = self.branch.x.symbol(Width::W64, Symbol::Now);
                self.position.set(st, *dst, v);
            }
            Op::Index { .. }
            | Op::Get { .. }
            | Op::GetKey { .. }
            | Op::Set { .. }
            | Op::Touch { .. }
            | Op::Link { .. }
            | Op::Remove { .. }
            | Op::GroupCount { .. }
            | Op::Size { .. }
            | Op::Release { .. } => return self.table_op(st, op),
            Op::Fork { copy, target } => {
                let packet = match &st.packet {
                    Some(p) if *copy => p.clone(),
                    Some(p) => p.successor(&mut self.branch.x),
                    None => SymbolicPacket::made(&mut self.branch.x),
                };
                self.spawn(st, target, packet)?;
            }
            Op::Notify { event, args, packet } => {
                let args = self.gets(st, args).into_vec();
                let packet = st.packet.clone().filter(|_| *packet);
                st.notices.push(Notice { event: *event, args, packet });
            }
            _ => return self.packet_op(st, op),
        }
        Ok(())
    }

    fn packet_op(&mut self, st: &mut State, op: &Op) -> Result<(), Cut> {
        match op {
            Op::Load { dst, layer, off } => {
                let w = self.position.program(st).width(*dst);
                let at = self.branch.bytes_at(st, (*layer, *off), w.bytes(), false)?;
                let v = Branch::packet(st)?.load(&mut self.branch.x, w, at);
                self.position.set(st, *dst, v);
            }
            Op::Store { layer, off, src } => {
                let v = self.get(st, *src);
                let bytes = self.branch.x.bytes_of(v);
                let at = self.branch.bytes_at(st, (*layer, *off), bytes.len() as u32, true)?;
                Branch::packet(st)?.store(&mut self.branch.x, at, &bytes);
            }
            Op::Rest { dst, layer } => {
                let v = match self.branch.layer(st, *layer)? {
                    Some(at) => {
                        if self.branch.reaches_to(st, at, None)? {
                            Branch::packet(st)?.rest(&mut self.branch.x, at)
                        } else {
                            self.branch.x.constant(Width::W32, 0)
                        }
                    }
                    None => self.branch.x.constant(Width::W32, 0),
                };
                self.position.set(st, *dst, v);
            }
            Op::Distance { dst, from, to } => {
                let ends = self.branch.layer(st, *from)?.zip(self.branch.layer(st, *to)?);
                let v = match ends {
                    Some((from, to)) => self.branch.distance(from, to),
                    None => self.branch.x.constant(Width::W32, u128::MAX),
                };
                self.position.set(st, *dst, v);
            }
            Op::SetMark { layer, base, off } => {
                let off = self.amount(st, *off);
                let base = self.branch.at(st, *base, 0)?;
                let mark = match self.branch.x.constant_value(off) {
                    Some(n) => Mark::At(base + i64::from(n as u32)),
                    None => Mark::Later(base, off),
                };
                if let Some(i) = mark_number(*layer) {
                    Branch::packet(st)?.marks[i] = mark;
                }
            }
            Op::ClearMark { layer } => {
                if let Some(i) = mark_number(*layer) {
                    Branch::packet(st)?.marks[i] = Mark::Unset;
                }
            }
            Op::LoadAnno { dst, off } => {
                let (w, at) = (self.position.program(st).width(*dst), *off as usize);
                let bytes = Branch::packet(st)?.anno[at..at + w.bytes() as usize].to_vec();
                let v = self.branch.x.concat(&bytes);
                let v = self.branch.x.resize(w, v);
                self.position.set(st, *dst, v);
            }
            Op::StoreAnno { off, src } => {
                let v = self.get(st, *src);
                let bytes = self.branch.x.bytes_of(v);
                let at = *off as usize;
                let anno = Rc::make_mut(&mut Branch::packet(st)?.anno);
                anno[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Op::LoadMeta { dst, field } => {
                let v = Branch::packet(st)?.meta(*field);
                self.position.set(st, *dst, v);
            }
            Op::StoreMeta { field, src } => {
                let mut v = self.get(st, *src);
                let meta = Branch::packet(st)?.meta_mut(*field);
                if *field == MetaField::Checksum {
                    let partial = self.branch.x.is(v, Checksum::Partial as u128);
                    v = self.branch.x.select(partial, *meta, v);
                }
                *meta = v;
            }
            Op::Checksum { dst, layer, start, end } => {
                let (from, end) = (self.branch.at(st, *layer, *start)?, self.amount(st, *end));
                let mem = self.branch.x.mem_id(&Branch::packet(st)?.mem);
                let v = self.branch.x.make(Width::W16, Node::Checksum { mem, from, start: *start, end });
                self.position.set(st, *dst, v);
            }
            Op::FindByte { dst, layer, start, end, byte } => {
                let (from, end) = (self.branch.at(st, *layer, *start)?, self.amount(st, *end));
                let byte = self.get(st, *byte);
                let mem = self.branch.x.mem_id(&Branch::packet(st)?.mem);
                let v = self.branch.x.make(Width::W32, Node::Find { mem, from, start: *start, end, byte });
                self.position.set(st, *dst, v);
            }
            Op::CopyBytes { to, from, len } => {
                let [to, from] = self.branch.both_at(st, [*to, *from], *len, true)?;
                let p = Branch::packet(st)?;
                let bytes: Vec<Expr> =
                    (from..from + i64::from(*len)).map(|i| p.byte(&mut self.branch.x, i)).collect();
                p.store(&mut self.branch.x, to, &bytes);
            }
            Op::CompareBytes { dst, a, b, len } => {
                let [a, b] = self.branch.both_at(st, [*a, *b], *len, false)?;
                let p = Branch::packet(st)?;
                let mut all = self.branch.x.constant(Width::W1, 1);
                for i in 0..i64::from(*len) {
                    let (a, b) = (p.byte(&mut self.branch.x, a + i), p.byte(&mut self.branch.x, b + i));
                    let same = self.branch.x.equal(a, b);
                    all = self.branch.x.both(all, same);
                }
                self.position.set(st, *dst, all);
            }
            Op::Pull { n } => {
                let n = self.pick_amount(st, *n)?;
                let p = Branch::packet(st)?;
                p.data += i64::from(n);
                p.bounds.spare += i64::from(n);
            }
            Op::Trim { len } => {
                let len = self.get(st, *len);
                let now = Branch::packet(st)?.len(&mut self.branch.x);
                let shorter = self.branch.x.less(len, now);
                if self.branch.decide(st, shorter)? {
                    let p = Branch::packet(st)?;
                    (p.end, p.bounds.reached) = ((len, p.data), i64::MIN);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn table_op(&mut self, st: &mut State, op: &Op) -> Result<(), Cut> {
        match op {
            Op::Index { dst, table, index } => {
                let table = self.position.table(st, *table);
                let w = self.net.decl(table).key[0].width;
                let key = self.branch.x.constant(w, (*index).into());
                let e = self.tables.lookup(&mut self.branch, st, table, &[key])?.ok_or(Cut)?;
                self.position.set_raw(st, *dst, e as u32);
            }
            Op::Get { dst, entry, field } => {
                let e = self.used(st, *entry)?;
                self.tables.note_read(st, e, *field);
                let v = st.entries[e].fields[*field as usize];
                self.position.set(st, *dst, v);
            }
            Op::GetKey { dst, entry, field } => {
                let e = self.used(st, *entry)?;
                let v = st.entries[e].key[*field as usize];
                self.position.set(st, *dst, v);
            }
            Op::Set { entry, field, src } => {
                let (e, v) = (self.used(st, *entry)?, self.get(st, *src));
                st.set_field(e, *field, v);
            }
            Op::Touch { entry, .. } => {
                // When an entry expires cannot be seen by the run that touches it.
                let e = self.used(st, *entry)?;
                st.stirred.push(st.entries[e].table);
            }
            Op::Link { a, b } => {
                let (a, b) = (self.used(st, *a)?, self.used(st, *b)?);
                self.tables.link(&mut self.branch, st, a, b)?;
                st.stirred.extend([a, b].map(|e| st.entries[e].table));
            }
            Op::Remove { entry } => {
                let e = self.used(st, *entry)?;
                self.tables.remove(&mut self.branch, st, e)?;
            }
            Op::GroupCount { dst, table, value } => {
                let value = self.get(st, *value);
                let table = self.position.table(st, *table);
                self.tables.look_into(&mut self.branch, st, table)?;
                let v = self.tables.group_count(&mut self.branch, st, table, value);
                self.position.set(st, *dst, v);
            }
            Op::Size { dst, table } => {
                let table = self.position.table(st, *table);
                self.tables.look_into(&mut self.branch, st, table)?;
                let v = self.tables.size(&mut self.branch, st, table);
                self.position.set(st, *dst, v);
            }
            Op::Release { entry, target } => {
                let e = self.used(st, *entry)?;
                if self.tables.invariant.is_some() {
                    self.release_of_others(st, e, target)?;
                }
                for packet in self.tables.take_held(&mut self.branch, st, e)? {
                    self.spawn(st, target, packet)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The entry that a value is.
    pub(crate) fn used(&mut self, st: &State, v: Value) -> Result<usize, Cut> {
        let e = self.position.raw(st, v) as usize;
        self.tables.usable(&mut self.branch, st, e)?;
        Ok(e)
    }

    pub(crate) fn pick_amount(&mut self, st: &mut State, n: Amount) -> Result<u32, Cut> {
        let n = self.amount(st, n);
        self.branch.pick(st, n).map(|v| v as u32)
    }
}

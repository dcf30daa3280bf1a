//! What each operation means for a path; [`weir_ir::interp`] is the reference.

use std::rc::Rc;

use weir_ir::program::{Amount, CmpOp, MetaField, Op, Value, Width};
use weir_packet::Checksum;

use crate::explore::{Cut, Explorer};
use crate::expr::{Expr, Node, Symbol};
use crate::packet::{Mark, SymbolicPacket, mark_number};
use crate::path::Notice;
use crate::state::State;

impl Explorer<'_> {
    pub(crate) fn op(&mut self, st: &mut State, op: &Op) -> Result<(), Cut> {
        match op {
            Op::Const { dst, value } => {
                let v = self.x.constant(self.program(st).width(*dst), *value);
                self.set(st, *dst, v);
            }
            Op::Binary { op, dst, a, b } => {
                let (a, b) = (self.get(st, *a), self.get(st, *b));
                let v = self.x.binary(*op, a, b);
                self.set(st, *dst, v);
            }
            Op::Compare { op, dst, a, b } => {
                let (a, b) = (self.get(st, *a), self.get(st, *b));
                let v = match op {
                    CmpOp::Eq => self.x.equal(a, b),
                    CmpOp::Ne => {
                        let same = self.x.equal(a, b);
                        self.x.not(same)
                    }
                    CmpOp::Lt => self.x.less(a, b),
                    CmpOp::Le => self.x.at_most(a, b),
                };
                self.set(st, *dst, v);
            }
            Op::Not { dst, a } => {
                let a = self.get(st, *a);
                let v = self.x.not(a);
                self.set(st, *dst, v);
            }
            Op::Resize { dst, a } => {
                let mut a = self.get(st, *a);
                // A number that was cut and had nothing to lose is itself.
                if let Node::Resize(whole) = *self.x.node(a)
                    && self.x.width(whole) > self.x.width(a)
                    && st.facts.set(&self.x, whole).hull().is_some_and(|h| h.1 <= self.x.width(a).max())
                {
                    a = whole;
                }
                let v = self.x.resize(self.program(st).width(*dst), a);
                self.set(st, *dst, v);
            }
            Op::Select { dst, cond, a, b } => {
                let [cond, a, b] = [cond, a, b].map(|v| self.get(st, *v));
                let v = self.x.select(cond, a, b);
                self.set(st, *dst, v);
            }
            Op::Sum16 { dst, a, b } => {
                let (a, b) = (self.get(st, *a), self.get(st, *b));
                let v = self.x.sum16(a, b);
                self.set(st, *dst, v);
            }
            Op::Hash { dst, args } => {
                let args = self.gets(st, args);
                let v = self.x.make(Width::W32, Node::Hash(args.into_boxed_slice()));
                self.set(st, *dst, v);
            }
            Op::Random { dst } => {
                let v = self.x.symbol(Width::W32, Symbol::Random(st.randoms));
                st.randoms += 1;
                self.set(st, *dst, v);
            }
            Op::Now { dst } => {
                let v = self.x.symbol(Width::W64, Symbol::Now);
                self.set(st, *dst, v);
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
                    Some(p) => p.successor(&mut self.x),
                    None => SymbolicPacket::made(&mut self.x),
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
                let w = self.program(st).width(*dst);
                let at = self.bytes_at(st, (*layer, *off), w.bytes(), false)?;
                let v = Self::packet(st)?.load(&mut self.x, w, at);
                self.set(st, *dst, v);
            }
            Op::Store { layer, off, src } => {
                let v = self.get(st, *src);
                let bytes = self.x.bytes_of(v);
                let at = self.bytes_at(st, (*layer, *off), bytes.len() as u32, true)?;
                Self::packet(st)?.store(&mut self.x, at, &bytes);
            }
            Op::Rest { dst, layer } => {
                let v = match self.layer(st, *layer)? {
                    Some(at) => {
                        if self.reaches_to(st, at, None)? {
                            Self::packet(st)?.rest(&mut self.x, at)
                        } else {
                            self.x.constant(Width::W32, 0)
                        }
                    }
                    None => self.x.constant(Width::W32, 0),
                };
                self.set(st, *dst, v);
            }
            Op::Distance { dst, from, to } => {
                let ends = self.layer(st, *from)?.zip(self.layer(st, *to)?);
                let v = match ends {
                    Some((from, to)) => self.distance(from, to),
                    None => self.x.constant(Width::W32, u128::MAX),
                };
                self.set(st, *dst, v);
            }
            Op::SetMark { layer, base, off } => {
                let off = self.amount(st, *off);
                let base = self.at(st, *base, 0)?;
                let mark = match self.x.constant_value(off) {
                    Some(n) => Mark::At(base + i64::from(n as u32)),
                    None => Mark::Later(base, off),
                };
                if let Some(i) = mark_number(*layer) {
                    Self::packet(st)?.marks[i] = mark;
                }
            }
            Op::ClearMark { layer } => {
                if let Some(i) = mark_number(*layer) {
                    Self::packet(st)?.marks[i] = Mark::Unset;
                }
            }
            Op::LoadAnno { dst, off } => {
                let (w, at) = (self.program(st).width(*dst), *off as usize);
                let bytes = Self::packet(st)?.anno[at..at + w.bytes() as usize].to_vec();
                let v = self.x.concat(&bytes);
                let v = self.x.resize(w, v);
                self.set(st, *dst, v);
            }
            Op::StoreAnno { off, src } => {
                let v = self.get(st, *src);
                let bytes = self.x.bytes_of(v);
                let at = *off as usize;
                let anno = Rc::make_mut(&mut Self::packet(st)?.anno);
                anno[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Op::LoadMeta { dst, field } => {
                let v = Self::packet(st)?.meta(*field);
                self.set(st, *dst, v);
            }
            Op::StoreMeta { field, src } => {
                let mut v = self.get(st, *src);
                let meta = Self::packet(st)?.meta_mut(*field);
                if *field == MetaField::Checksum {
                    let partial = self.x.is(v, Checksum::Partial as u128);
                    v = self.x.select(partial, *meta, v);
                }
                *meta = v;
            }
            Op::Checksum { dst, layer, start, end } => {
                let (from, end) = (self.at(st, *layer, *start)?, self.amount(st, *end));
                let mem = self.x.mem_id(&Self::packet(st)?.mem);
                let v = self.x.make(Width::W16, Node::Checksum { mem, from, start: *start, end });
                self.set(st, *dst, v);
            }
            Op::FindByte { dst, layer, start, end, byte } => {
                let (from, end) = (self.at(st, *layer, *start)?, self.amount(st, *end));
                let byte = self.get(st, *byte);
                let mem = self.x.mem_id(&Self::packet(st)?.mem);
                let v = self.x.make(Width::W32, Node::Find { mem, from, start: *start, end, byte });
                self.set(st, *dst, v);
            }
            Op::CopyBytes { to, from, len } => {
                let [to, from] = self.both_at(st, [*to, *from], *len, true)?;
                let p = Self::packet(st)?;
                let bytes: Vec<Expr> =
                    (from..from + i64::from(*len)).map(|i| p.byte(&mut self.x, i)).collect();
                p.store(&mut self.x, to, &bytes);
            }
            Op::CompareBytes { dst, a, b, len } => {
                let [a, b] = self.both_at(st, [*a, *b], *len, false)?;
                let p = Self::packet(st)?;
                let mut all = self.x.constant(Width::W1, 1);
                for i in 0..i64::from(*len) {
                    let (a, b) = (p.byte(&mut self.x, a + i), p.byte(&mut self.x, b + i));
                    let same = self.x.equal(a, b);
                    all = self.x.both(all, same);
                }
                self.set(st, *dst, all);
            }
            Op::Pull { n } => {
                let n = self.pick_amount(st, *n)?;
                let p = Self::packet(st)?;
                p.data += i64::from(n);
                p.found.spare += i64::from(n);
            }
            Op::Trim { len } => {
                let len = self.get(st, *len);
                let now = Self::packet(st)?.len(&mut self.x);
                let shorter = self.x.less(len, now);
                if self.decide(st, shorter)? {
                    let p = Self::packet(st)?;
                    (p.end, p.found.reached) = ((len, p.data), i64::MIN);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn table_op(&mut self, st: &mut State, op: &Op) -> Result<(), Cut> {
        match op {
            Op::Index { dst, table, index } => {
                let table = self.table(st, *table);
                let w = self.net.decl(table).key[0].width;
                let key = self.x.constant(w, (*index).into());
                let e = self.lookup(st, table, &[key])?.ok_or(Cut)?;
                self.set_raw(st, *dst, e as u32);
            }
            Op::Get { dst, entry, field } => {
                let e = self.used(st, *entry)?;
                self.note_read(st, e, *field);
                let v = st.entries[e].fields[*field as usize];
                self.set(st, *dst, v);
            }
            Op::GetKey { dst, entry, field } => {
                let e = self.used(st, *entry)?;
                let v = st.entries[e].key[*field as usize];
                self.set(st, *dst, v);
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
                self.link(st, a, b)?;
                st.stirred.extend([a, b].map(|e| st.entries[e].table));
            }
            Op::Remove { entry } => {
                let e = self.used(st, *entry)?;
                self.remove(st, e)?;
            }
            Op::GroupCount { dst, table, value } => {
                let value = self.get(st, *value);
                let table = self.table(st, *table);
                self.look_into(st, table)?;
                let v = self.group_count(st, table, value);
                self.set(st, *dst, v);
            }
            Op::Size { dst, table } => {
                let table = self.table(st, *table);
                self.look_into(st, table)?;
                let v = self.size(st, table);
                self.set(st, *dst, v);
            }
            Op::Release { entry, target } => {
                let e = self.used(st, *entry)?;
                if self.supposed.is_some() {
                    self.release_supposed(st, e, target)?;
                }
                for packet in self.take_held(st, e)? {
                    self.spawn(st, target, packet)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The entry that a value is.
    pub(crate) fn used(&mut self, st: &State, v: Value) -> Result<usize, Cut> {
        let e = self.raw(st, v) as usize;
        self.usable(st, e)?;
        Ok(e)
    }

    pub(crate) fn pick_amount(&mut self, st: &mut State, n: Amount) -> Result<u32, Cut> {
        let n = self.amount(st, n);
        self.pick(st, n).map(|v| v as u32)
    }
}

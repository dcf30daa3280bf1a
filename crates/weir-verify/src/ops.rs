//! What each operation and each end of a block means for a path; [`weir_ir::interp`] is the reference.

use weir_ir::program::{
    Amount, BinOp, BlockId, CmpOp, End, MAX_HOPS, MetaField, Op, Reason, Value, Width,
};
use weir_packet::{Checksum, LARGE_CAPACITY};

use crate::explore::{Cut, Explorer, State};
use crate::expr::{Claim, Expr, Node, Symbol};
use crate::packet::{Mark, SymbolicPacket, mark_number};
use crate::path::{How, Incomplete, Notice};

impl Explorer<'_> {
    pub(crate) fn op(&mut self, st: &mut State, op: &Op) -> Result<(), Cut> {
        match op {
            Op::Const { dst, value } => {
                let v = self.x.constant(self.p.width(*dst), *value);
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
                let a = self.get(st, *a);
                let v = self.x.resize(self.p.width(*dst), a);
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
                let v = self.x.make(Width::W32, Node::Hash(args.into()));
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
                    None => SymbolicPacket::empty(&mut self.x),
                };
                self.spawn(st, target, packet)?;
            }
            Op::Notify { event, args, packet } => {
                let args = self.gets(st, args);
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
                let at = self.at(st, *layer, *off)?;
                let v = Self::packet(st)?.load(&mut self.x, self.p.width(*dst), at);
                self.set(st, *dst, v);
            }
            Op::Store { layer, off, src } => {
                let at = self.at(st, *layer, *off)?;
                let v = self.get(st, *src);
                let bytes = self.x.bytes_of(v);
                Self::packet(st)?.store(&mut self.x, at, &bytes);
            }
            Op::Rest { dst, layer } => {
                let v = match self.layer(st, *layer)? {
                    Some(at) => {
                        let inside = Self::packet(st)?.reaches(&mut self.x, at);
                        if self.decide(st, inside)? {
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
                let v = ends.map_or(u128::MAX, |(from, to)| (to - from) as u32 as u128);
                let v = self.x.constant(Width::W32, v);
                self.set(st, *dst, v);
            }
            Op::SetMark { layer, base, off } => {
                let off = self.pick_amount(st, *off)?;
                let at = self.at(st, *base, off)?;
                if let Some(i) = mark_number(*layer) {
                    Self::packet(st)?.marks[i] = Mark::At(at);
                }
            }
            Op::ClearMark { layer } => {
                if let Some(i) = mark_number(*layer) {
                    Self::packet(st)?.marks[i] = Mark::Unset;
                }
            }
            Op::LoadAnno { dst, off } => {
                let (w, at) = (self.p.width(*dst), *off as usize);
                let bytes = Self::packet(st)?.anno[at..at + w.bytes() as usize].to_vec();
                let v = self.x.concat(&bytes);
                let v = self.x.resize(w, v);
                self.set(st, *dst, v);
            }
            Op::StoreAnno { off, src } => {
                let v = self.get(st, *src);
                let bytes = self.x.bytes_of(v);
                let at = *off as usize;
                Self::packet(st)?.anno[at..at + bytes.len()].copy_from_slice(&bytes);
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
                let (to, from) = (self.at(st, to.0, to.1)?, self.at(st, from.0, from.1)?);
                let p = Self::packet(st)?;
                let bytes: Vec<Expr> = (from..from + i64::from(*len)).map(|i| p.byte(&mut self.x, i)).collect();
                p.store(&mut self.x, to, &bytes);
            }
            Op::CompareBytes { dst, a, b, len } => {
                let (a, b) = (self.at(st, a.0, a.1)?, self.at(st, b.0, b.1)?);
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
                Self::packet(st)?.data += i64::from(n);
            }
            Op::Trim { len } => {
                let len = self.get(st, *len);
                let now = Self::packet(st)?.len(&mut self.x);
                let shorter = self.x.less(len, now);
                if self.decide(st, shorter)? {
                    let p = Self::packet(st)?;
                    p.end = (len, p.data);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn table_op(&mut self, st: &mut State, op: &Op) -> Result<(), Cut> {
        match op {
            Op::Index { dst, table, index } => {
                let w = self.p.tables[table.0 as usize].decl.key[0].width;
                let key = self.x.constant(w, (*index).into());
                let e = self.lookup(st, table.0, &[key])?.ok_or(Cut)?;
                self.set_raw(st, *dst, e as u32);
            }
            Op::Get { dst, entry, field } => {
                let e = self.used(st, *entry)?;
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
                if st.entries[e].live {
                    st.entries[e].fields[*field as usize] = v;
                }
            }
            Op::Touch { entry, .. } => {
                // When an entry expires cannot be seen by the run that touches it.
                self.used(st, *entry)?;
            }
            Op::Link { a, b } => {
                let (a, b) = (self.used(st, *a)?, self.used(st, *b)?);
                self.link(st, a, b)?;
            }
            Op::Remove { entry } => {
                let e = self.used(st, *entry)?;
                self.remove(st, e)?;
            }
            Op::GroupCount { dst, table, value } => {
                let value = self.get(st, *value);
                let v = self.group_count(st, table.0, value);
                self.set(st, *dst, v);
            }
            Op::Size { dst, table } => {
                let v = self.size(st, table.0);
                self.set(st, *dst, v);
            }
            Op::Release { entry, target } => {
                let e = self.used(st, *entry)?;
                for packet in self.take_held(st, e)? {
                    self.spawn(st, target, packet)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The entry that a value is.
    fn used(&mut self, st: &State, v: Value) -> Result<usize, Cut> {
        let e = Self::entry(st, v);
        self.usable(st, e)?;
        Ok(e)
    }

    fn pick_amount(&mut self, st: &mut State, n: Amount) -> Result<u32, Cut> {
        let n = self.amount(st, n);
        self.pick(st, n).map(|v| v as u32)
    }

    /// The next block, if the packet goes on.
    pub(crate) fn end(&mut self, st: &mut State, end: &End) -> Result<Option<BlockId>, Cut> {
        Ok(match end {
            End::Jump(t) => self.go(st, t, &[]),
            End::Branch { cond, then, other } => {
                let cond = self.get(st, *cond);
                let t = if self.decide(st, cond)? { then } else { other };
                self.go(st, t, &[])
            }
            End::Switch { value, cases, default } => {
                let v = self.get(st, *value);
                for (case, t) in cases {
                    let same = self.x.is(v, *case);
                    if self.decide(st, same)? {
                        return Ok(self.go(st, t, &[]));
                    }
                }
                self.go(st, default, &[])
            }
            End::Again { header, exit } => {
                let limit = self.p.block(header.block).loop_limit.unwrap_or(1);
                let rounds = st.rounds.entry(header.block).or_insert(1);
                if *rounds >= limit {
                    return Ok(self.go(st, exit, &[]));
                }
                *rounds += 1;
                self.pass(st, header, &[]);
                Some(header.block)
            }
            End::Require { layer, n, ok, fail } => {
                let n = self.amount(st, *n);
                let there = match self.layer(st, *layer)? {
                    Some(at) => {
                        let inside = Self::packet(st)?.reaches(&mut self.x, at);
                        if self.decide(st, inside)? {
                            let rest = Self::packet(st)?.rest(&mut self.x, at);
                            let enough = self.x.at_most(n, rest);
                            self.decide(st, enough)?
                        } else {
                            false
                        }
                    }
                    None => false,
                };
                self.go(st, if there { ok } else { fail }, &[])
            }
            End::Push { n, ok, fail } => {
                let n = self.pick_amount(st, *n)?;
                // The packet moves in its buffer if need be, so all free bytes count, in front and behind.
                let len = Self::packet(st)?.len(&mut self.x);
                let free = self.x.binary(BinOp::Sub, Self::packet(st)?.capacity, len);
                let fits = self.fits(st, n, free)?;
                if fits {
                    Self::packet(st)?.push(&mut self.x, n);
                }
                self.go(st, if fits { ok } else { fail }, &[])
            }
            End::Unpull { n, ok, fail } => {
                let n = self.pick_amount(st, *n)?;
                let p = Self::packet(st)?;
                let to = p.data - i64::from(n);
                let back = to >= p.floor || {
                    let pulled = st.packet.as_ref().map(|p| self.pulled(p)).ok_or(Cut)?;
                    let need = self.x.constant(Width::W32, u128::from(to.unsigned_abs() as u32));
                    let enough = self.x.at_most(need, pulled);
                    self.decide(st, enough)?
                };
                if back {
                    Self::packet(st)?.data = to;
                }
                self.go(st, if back { ok } else { fail }, &[])
            }
            End::Put { n, ok, fail } => {
                let n = self.pick_amount(st, *n)?;
                let end = Self::packet(st)?.end_index(&mut self.x);
                let free = self.x.binary(BinOp::Sub, Self::packet(st)?.capacity, end);
                let fits = self.fits(st, n, free)?;
                if fits && n > 0 {
                    let end = Self::packet(st)?.end;
                    let known = self.pick(st, end.0)?;
                    let zero = self.x.constant(Width::W8, 0);
                    let p = Self::packet(st)?;
                    p.store(&mut self.x, known as i64 + end.1, &vec![zero; n as usize]);
                    p.end.1 += i64::from(n);
                }
                self.go(st, if fits { ok } else { fail }, &[])
            }
            End::Lookup { table, key, hit, miss } => {
                let key = self.gets(st, key);
                match self.lookup(st, table.0, &key)? {
                    Some(e) => self.go(st, hit, &[e as u32]),
                    None => self.go(st, miss, &[]),
                }
            }
            End::Insert { table, key, ok, full } => {
                let key = self.gets(st, key);
                let e = match self.lookup(st, table.0, &key)? {
                    Some(e) => e,
                    None => {
                        let size = self.size(st, table.0);
                        let capacity = self.p.tables[table.0 as usize].decl.capacity;
                        let capacity = self.x.constant(Width::W32, capacity.into());
                        let room = self.x.less(size, capacity);
                        if !self.decide(st, room)? {
                            return Ok(self.go(st, full, &[]));
                        }
                        self.new_entry(st, table.0, key)
                    }
                };
                self.go(st, ok, &[e as u32])
            }
            End::Claim { table, key, hole, lo, hi, start, ok, full } => {
                let key = self.gets(st, key);
                let [lo, hi, start] = [lo, hi, start].map(|v| self.get(st, *v));
                let size = self.size(st, table.0);
                let changes = Self::changes(st, table.0);
                let claim = Claim { table: table.0, key: key.clone(), hole: *hole, lo, hi, start, size, changes };
                let (success, value, follows) = self.claimed(st, claim);
                if !self.decide(st, success)? {
                    return Ok(self.go(st, full, &[]));
                }
                for f in follows {
                    self.learn(st, f)?;
                }
                let mut key = key;
                key[*hole as usize] = value;
                let e = self.new_entry(st, table.0, key);
                self.go(st, ok, &[e as u32, value.0])
            }
            End::Meter { entry, field, cost, rate, burst, ok, over } => {
                let e = self.used(st, *entry)?;
                let state = st.entries[e].fields[*field as usize];
                let [cost, rate, burst] = [cost, rate, burst].map(|v| self.get(st, *v));
                let now = self.x.symbol(Width::W64, Symbol::Now);
                let args = Box::new([state, now, cost, rate, burst]);
                let enough = self.x.make(Width::W1, Node::MeterOk(args.clone()));
                let enough = self.decide(st, enough)?;
                if st.entries[e].live {
                    st.entries[e].fields[*field as usize] = self.x.make(Width::W128, Node::MeterState(args));
                }
                self.go(st, if enough { ok } else { over }, &[])
            }
            End::Hold { entry, full } => {
                let e = self.used(st, *entry)?;
                let held = self.held_now(st, e);
                let most = self.p.tables[st.entries[e].table as usize].decl.held;
                let most = self.x.constant(Width::W32, most.into());
                let room = self.x.less(held, most);
                if !st.entries[e].live || !self.decide(st, room)? {
                    return Ok(self.go(st, full, &[]));
                }
                let packet = Self::packet(st)?.clone();
                st.entries[e].held.push(packet);
                Self::finish_packet(st, How::Held)?
            }
            End::Emit { port } | End::Exit { exit: port } => Self::finish_packet(st, How::Exit(*port))?,
            End::Drop { reason } => Self::finish_packet(st, How::Drop(st.block, reason.clone()))?,
            End::Finish => None,
            End::Enter { block, back: false } => Some(*block),
            End::Enter { block, back: true } => {
                let hops = Self::packet(st)?.hops;
                let most = self.x.constant(Width::W8, MAX_HOPS.into());
                let again = self.x.less(hops, most);
                if !self.decide(st, again)? {
                    return Self::finish_packet(st, How::Drop(st.block, Reason::LOOP_LIMIT));
                }
                if st.laps >= self.limits.hops {
                    return Err(self.give_up(Incomplete::Hops));
                }
                st.laps += 1;
                Self::packet(st)?.hops = self.x.plus(hops, 1);
                Some(*block)
            }
        })
    }

    /// Whether `n` bytes fit into so many.
    fn fits(&mut self, st: &mut State, n: u32, free: Expr) -> Result<bool, Cut> {
        if n > LARGE_CAPACITY {
            return Ok(false);
        }
        let n = self.x.constant(Width::W32, n.into());
        let fits = self.x.at_most(n, free);
        self.decide(st, fits)
    }
}

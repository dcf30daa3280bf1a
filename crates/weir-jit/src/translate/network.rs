//! Numbers as they are in packets and in rows of exact tables: in network byte order.
//!
//! What only passes from a packet to a key, from a row to a packet, or is compared or summed on the path, need not be
//! turned round. So many values have two forms, and the compiler keeps those that something uses. Neighbours that go
//! the same path, as the two addresses or the two ports, go together.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use rustc_hash::{FxHashMap, FxHashSet};
use weir_ir::Layer;
use weir_ir::program::{BinOp, BlockId, CmpOp, End, Op, Type, Value, Width};
use weir_table::{Kind, Layout, network_order};

use crate::analysis::uses::Uses;
use crate::translate::emit::Emitter;
use crate::translate::here::Here;
use crate::translate::int;
use crate::translate::lanes::LaneState;
use crate::translate::packet::PacketState;
use crate::translate::tables::Tables;
use crate::translate::values::Values;

/// The network's forms of values.
#[derive(Debug, Default)]
pub(crate) struct Network {
    forms: FxHashMap<Value, ir::Value>,
    constants: FxHashMap<Value, u128>,
    /// Ones' complement sums that are not folded, with the number of words in them.
    sums: FxHashMap<Value, (ir::Value, u32)>,
    /// What complements are of.
    complements: FxHashMap<Value, ir::Value>,
    /// Sums of the complement of a word and another word: the two words.
    changes: FxHashMap<Value, (ir::Value, ir::Value)>,
    /// Values that are read together: the number of their read, and the lowest bit in what it reads.
    parts: FxHashMap<Value, (usize, u32)>,
    reads: Vec<Read>,
    /// Stores of this block that are one with the store before.
    stored: FxHashSet<usize>,
}

/// Two neighbours that are read at once.
#[derive(Debug)]
struct Read {
    from: Source,
    /// Size of each.
    width: Width,
    /// Both, once they are read.
    word: Option<ir::Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Packet { layer: Layer, off: u32 },
    Row { entry: Value, off: usize },
}

impl Network {
    /// A value that is a constant.
    pub fn constant(&self, v: Value) -> Option<u128> {
        self.constants.get(&v).copied()
    }
}

impl Values<'_> {
    /// A value in network byte order.
    pub fn network(&mut self, code: &mut Emitter<'_, '_>, v: Value) -> ir::Value {
        self.network_form(code, v).unwrap_or_else(|| {
            let value = self.get(code, v);
            code.turned(self.p.width(v), value)
        })
    }

    /// A value in network byte order, if that takes no instruction.
    pub fn network_form(&mut self, code: &mut Emitter<'_, '_>, v: Value) -> Option<ir::Value> {
        if let Some(&form) = self.network.forms.get(&v) {
            return Some(form);
        }
        let constant = self.constant(v)?;
        let width = self.p.width(v);
        Some(code.imm(int(width), network_order(width, constant)))
    }

    /// `form` is what the value is in network byte order; gives the value.
    pub fn machine_form(&mut self, code: &mut Emitter<'_, '_>, v: Value, form: ir::Value) -> ir::Value {
        let width = self.p.width(v);
        if width.bits() > 8 {
            self.network.forms.insert(v, form);
        }
        code.turned(width, form)
    }

    /// Notes the network's form of what an operation defines, where it follows from that of its operands.
    pub fn note_form(&mut self, code: &mut Emitter<'_, '_>, op: &Op) {
        let (dst, form) = match *op {
            Op::Const { dst, value } => {
                self.network.constants.insert(dst, value);
                return;
            }
            Op::Binary { dst, op: op @ (BinOp::And | BinOp::Or | BinOp::Xor), a, b } => {
                let Some((a, b)) = self.both_forms(code, a, b) else { return };
                let form = match op {
                    BinOp::And => code.b.ins().band(a, b),
                    BinOp::Or => code.b.ins().bor(a, b),
                    _ => code.b.ins().bxor(a, b),
                };
                (dst, form)
            }
            // Whole bytes move in the other direction.
            Op::Binary { dst, op: op @ (BinOp::Shl | BinOp::Shr), a, b } => {
                let (Some(&a), Some(by)) = (self.network.forms.get(&a), self.constant(b)) else {
                    return;
                };
                let width = self.p.width(dst);
                if width == Width::W128 || by % 8 != 0 || by >= width.bits().into() {
                    return;
                }
                let by = by as i64;
                let form = match op {
                    BinOp::Shl => code.b.ins().ushr_imm_u(a, by),
                    _ => code.b.ins().ishl_imm_u(a, by),
                };
                (dst, form)
            }
            Op::Not { dst, a } => {
                let Some(&form) = self.network.forms.get(&a) else { return };
                self.network.complements.insert(dst, form);
                match self.network.changes.get(&a) {
                    Some(&(word, by)) => (dst, code.less(word, by)),
                    None => (dst, code.b.ins().bnot(form)),
                }
            }
            Op::Select { dst, cond, a, b } if self.p.width(dst) != Width::W128 => {
                if [a, b].iter().all(|v| !self.network.forms.contains_key(v)) {
                    return;
                }
                // One of them is turned, instead of the other and the result.
                let (a, b) = (self.network(code, a), self.network(code, b));
                let cond = self.get(code, cond);
                (dst, code.b.ins().select(cond, a, b))
            }
            Op::Sum16 { dst, a, b } => {
                for (a, b) in [(a, b), (b, a)] {
                    if let Some(&word) = self.network.complements.get(&a)
                        && !self.network.sums.contains_key(&b)
                        && let Some(by) = self.network_form(code, b)
                    {
                        self.network.changes.insert(dst, (word, by));
                    }
                }
                let (Some((a, n)), Some((b, m))) = (self.network_sum(code, a), self.network_sum(code, b))
                else {
                    return;
                };
                let sum = code.b.ins().iadd(a, b);
                if n + m < crate::translate::arith::MAX_TERMS {
                    self.network.sums.insert(dst, (sum, n + m));
                }
                (dst, code.folded(sum))
            }
            _ => return,
        };
        self.network.forms.insert(dst, form);
    }

    /// The forms of two values, unless they would have to be made.
    fn both_forms(
        &mut self,
        code: &mut Emitter<'_, '_>,
        a: Value,
        b: Value,
    ) -> Option<(ir::Value, ir::Value)> {
        let forms = &self.network.forms;
        if !forms.contains_key(&a) && !forms.contains_key(&b) {
            return None;
        }
        Some((self.network_form(code, a)?, self.network_form(code, b)?))
    }

    /// A sum is the same in either byte order, but for the order of its own bytes (RFC 1071, section 2 B).
    fn network_sum(&mut self, code: &mut Emitter<'_, '_>, v: Value) -> Option<(ir::Value, u32)> {
        if let Some(&sum) = self.network.sums.get(&v) {
            return Some(sum);
        }
        let form = self.network_form(code, v)?;
        Some((code.extend(types::I32, form), 1))
    }

    /// Compares two values for equality in the network's form, if that saves turning them.
    pub fn compare_forms(
        &mut self,
        code: &mut Emitter<'_, '_>,
        op: CmpOp,
        a: Value,
        b: Value,
    ) -> Option<ir::Value> {
        let cc = match op {
            CmpOp::Eq => IntCC::Equal,
            CmpOp::Ne => IntCC::NotEqual,
            CmpOp::Lt | CmpOp::Le => return None,
        };
        let (a, b) = self.both_forms(code, a, b)?;
        Some(code.b.ins().icmp(cc, a, b))
    }

    /// Finds what a block can read and write together.
    pub fn plan(&mut self, uses: &Uses, id: BlockId) {
        self.network.stored.clear();
        let p = self.p;
        let block = p.block(id);
        if let End::Lookup { table, key, .. } | End::Insert { table, key, .. } = &block.end
            && p.tables[table.0 as usize].decl.kind == Kind::Exact
        {
            for ((_, a), (_, b)) in neighbours(&fields_in_order(uses.layout(*table), key)) {
                self.join(uses, &block.ops, a, b);
            }
        }
        for (i, pair) in block.ops.windows(2).enumerate() {
            if let [Op::Store { layer, off, src: a }, Op::Store { layer: next_layer, off: next_off, src: b }] =
                pair
                && layer == next_layer
                && off.checked_add(p.width(*a).bytes()) == Some(*next_off)
                && !self.network.stored.contains(&i)
                && self.join(uses, &block.ops, *a, *b)
            {
                self.network.stored.insert(i + 1);
            }
        }
    }

    /// Whether the values are read together, in this order; sees to it if they can be.
    pub fn join(&mut self, uses: &Uses, ops: &[Op], a: Value, b: Value) -> bool {
        let parts = &self.network.parts;
        if let (Some(&(read, first)), Some(&(other, _))) = (parts.get(&a), parts.get(&b)) {
            return read == other && first == 0 && a != b;
        }
        if parts.contains_key(&a) || parts.contains_key(&b) {
            return false;
        }
        let at = |v| ops.iter().position(|op| op.dst() == Some(v));
        let (Some(i), Some(j)) = (at(a), at(b)) else { return false };
        let width = self.p.width(a);
        let between = &ops[i.min(j)..=i.max(j)];
        let (Some(from), Some(to)) = (self.source(uses, &ops[i]), self.source(uses, &ops[j])) else {
            return false;
        };
        if self.p.width(b) != width
            || !matches!(width, Width::W16 | Width::W32)
            || from.behind(width) != Some(to)
            // Only operations that define a value leave memory as it is.
            || between.iter().any(|op| op.dst().is_none())
        {
            return false;
        }
        let read = self.network.reads.len();
        self.network.reads.push(Read { from, width, word: None });
        self.network.parts.extend([(a, (read, 0)), (b, (read, width.bits()))]);
        true
    }

    fn source(&self, uses: &Uses, op: &Op) -> Option<Source> {
        match *op {
            Op::Load { layer, off, .. } => Some(Source::Packet { layer, off }),
            Op::Get { entry, field, .. } => {
                let Type::Entry(table) = self.p.ty(entry) else { return None };
                let (layout, field) = (uses.layout(table), field as usize);
                layout.network[field].then(|| Source::Row { entry, off: layout.value[field] })
            }
            _ => None,
        }
    }

    /// The network's form of a value that is read with another.
    pub fn part(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        packet: &mut PacketState,
        tables: &mut Tables<'_>,
        lanes: &LaneState,
        v: Value,
    ) -> Option<ir::Value> {
        let &(read, shift) = self.network.parts.get(&v)?;
        let word = self.read(code, here, packet, tables, lanes, read);
        let part = if shift == 0 { word } else { code.b.ins().ushr_imm_u(word, i64::from(shift)) };
        Some(code.b.ins().ireduce(int(self.p.width(v)), part))
    }

    pub fn read(
        &mut self,
        code: &mut Emitter<'_, '_>,
        here: &Here<'_>,
        packet: &mut PacketState,
        tables: &mut Tables<'_>,
        lanes: &LaneState,
        number: usize,
    ) -> ir::Value {
        let Read { from, width, word } = self.network.reads[number];
        if let Some(word) = word {
            return word;
        }
        let ty = int(width).double_width().unwrap_or(types::I64);
        let word = match from {
            Source::Packet { layer, off } => {
                let (at, off) = packet.bytes_at(code, layer, off);
                code.load(ty, at, off, code.regions.bytes)
            }
            Source::Row { entry, off } => {
                let (_, row) = tables.row_of(code, here, lanes, self, entry);
                let flags =
                    MemFlagsData::new().with_notrap().with_alias_region(code.regions.rows.alias_region());
                code.load(ty, row, off as i32, flags)
            }
        };
        self.network.reads[number].word = Some(word);
        word
    }

    /// Both values, if they are read together in this order.
    pub fn pair(&mut self, a: Value, b: Value) -> Option<ir::Value> {
        let parts = &self.network.parts;
        let (&(read, first), &(other, _)) = (parts.get(&a)?, parts.get(&b)?);
        (read == other && first == 0 && a != b).then(|| self.network.reads[read].word)?
    }

    /// Whether a store was done with the one before.
    pub fn is_stored(&self, number: usize) -> bool {
        self.network.stored.contains(&number)
    }
}

impl Emitter<'_, '_> {
    /// The complement of the ones' complement sum of a word and the complement of another, as a checksum changes (RFC 1624,
    /// equation 3): the other less the word, and one less if it is smaller.
    fn less(&mut self, word: ir::Value, by: ir::Value) -> ir::Value {
        let [word, by] = [word, by].map(|v| self.extend(types::I32, v));
        let less = self.b.ins().isub(word, by);
        let borrow = self.b.ins().sshr_imm_u(less, 31);
        let less = self.b.ins().iadd(less, borrow);
        self.b.ins().ireduce(types::I16, less)
    }
}

impl Source {
    /// What is behind a number of this width.
    fn behind(self, width: Width) -> Option<Source> {
        Some(match self {
            Source::Packet { layer, off } => Source::Packet { layer, off: off.checked_add(width.bytes())? },
            Source::Row { entry, off } => Source::Row { entry, off: off + width.bytes() as usize },
        })
    }
}

/// The fields of a key as they stand in its words: number of the first bit, and value.
pub(crate) fn fields_in_order(layout: &Layout, key: &[Value]) -> Vec<(u32, Value)> {
    let mut fields: Vec<(u32, Value)> =
        layout.key.iter().zip(key).map(|(at, &v)| (64 * at.word as u32 + at.shift, v)).collect();
    fields.sort();
    fields
}

/// Fields that are side by side in a word, the first at an even place.
fn neighbours(fields: &[(u32, Value)]) -> Vec<((u32, Value), (u32, Value))> {
    fields.windows(2).filter(|f| f[0].0 / 64 == f[1].0 / 64).map(|f| (f[0], f[1])).collect()
}

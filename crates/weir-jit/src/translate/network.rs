//! Numbers as they are in packets and in rows of exact tables: in network byte order.
//!
//! What only passes from a packet to a key, from a row to a packet, or is compared or summed on the path, need not be
//! turned round. So many values have two forms, and the compiler keeps those that something uses. Neighbours that go
//! the same way, as the two addresses or the two ports, go together.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use rustc_hash::{FxHashMap, FxHashSet};
use weir_ir::Layer;
use weir_ir::program::{BinOp, BlockId, CmpOp, End, Op, TableId, Type, Value, Width};
use weir_table::{Kind, Layout, network_order};

use crate::translate::{Translator, int};

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

impl Translator<'_, '_> {
    // --- forms ------------------------------------------------------------------------------------------------

    /// A value in network byte order.
    pub(crate) fn network(&mut self, v: Value) -> ir::Value {
        self.network_form(v).unwrap_or_else(|| {
            let value = self.get(v);
            self.code.turned(self.p.width(v), value)
        })
    }

    /// A value in network byte order, if that takes no instruction.
    pub(crate) fn network_form(&mut self, v: Value) -> Option<ir::Value> {
        if let Some(&form) = self.values.network.forms.get(&v) {
            return Some(form);
        }
        let constant = self.values.constant(v)?;
        let width = self.p.width(v);
        Some(self.code.imm(int(width), network_order(width, constant)))
    }

    /// `form` is what the value is in network byte order; gives the value.
    pub(crate) fn machine_form(&mut self, v: Value, form: ir::Value) -> ir::Value {
        let width = self.p.width(v);
        if width.bits() > 8 {
            self.values.network.forms.insert(v, form);
        }
        self.code.turned(width, form)
    }

    /// Notes the network's form of what an operation defines, where it follows from that of its operands.
    pub(crate) fn note_form(&mut self, op: &Op) {
        let (dst, form) = match *op {
            Op::Const { dst, value } => {
                self.values.network.constants.insert(dst, value);
                return;
            }
            Op::Binary { dst, op: op @ (BinOp::And | BinOp::Or | BinOp::Xor), a, b } => {
                let Some((a, b)) = self.both_forms(a, b) else { return };
                let form = match op {
                    BinOp::And => self.code.b.ins().band(a, b),
                    BinOp::Or => self.code.b.ins().bor(a, b),
                    _ => self.code.b.ins().bxor(a, b),
                };
                (dst, form)
            }
            // Whole bytes move the other way.
            Op::Binary { dst, op: op @ (BinOp::Shl | BinOp::Shr), a, b } => {
                let (Some(&a), Some(by)) = (self.values.network.forms.get(&a), self.values.constant(b))
                else {
                    return;
                };
                let width = self.p.width(dst);
                if width == Width::W128 || by % 8 != 0 || by >= width.bits().into() {
                    return;
                }
                let by = by as i64;
                let form = match op {
                    BinOp::Shl => self.code.b.ins().ushr_imm_u(a, by),
                    _ => self.code.b.ins().ishl_imm_u(a, by),
                };
                (dst, form)
            }
            Op::Not { dst, a } => {
                let Some(&form) = self.values.network.forms.get(&a) else { return };
                self.values.network.complements.insert(dst, form);
                match self.values.network.changes.get(&a) {
                    Some(&(word, by)) => (dst, self.less(word, by)),
                    None => (dst, self.code.b.ins().bnot(form)),
                }
            }
            Op::Select { dst, cond, a, b } if self.p.width(dst) != Width::W128 => {
                if [a, b].iter().all(|v| !self.values.network.forms.contains_key(v)) {
                    return;
                }
                // One of them is turned, instead of the other and the result.
                let (a, b) = (self.network(a), self.network(b));
                let cond = self.get(cond);
                (dst, self.code.b.ins().select(cond, a, b))
            }
            Op::Sum16 { dst, a, b } => {
                for (a, b) in [(a, b), (b, a)] {
                    if let Some(&word) = self.values.network.complements.get(&a)
                        && !self.values.network.sums.contains_key(&b)
                        && let Some(by) = self.network_form(b)
                    {
                        self.values.network.changes.insert(dst, (word, by));
                    }
                }
                let (Some((a, n)), Some((b, m))) = (self.network_sum(a), self.network_sum(b)) else { return };
                let sum = self.code.b.ins().iadd(a, b);
                if n + m < crate::translate::arith::MAX_TERMS {
                    self.values.network.sums.insert(dst, (sum, n + m));
                }
                (dst, self.code.folded(sum))
            }
            _ => return,
        };
        self.values.network.forms.insert(dst, form);
    }

    /// The complement of the ones' complement sum of a word and the complement of another, as a checksum changes (RFC 1624,
    /// equation 3): the other less the word, and one less if it is smaller.
    fn less(&mut self, word: ir::Value, by: ir::Value) -> ir::Value {
        let [word, by] = [word, by].map(|v| self.code.extend(types::I32, v));
        let less = self.code.b.ins().isub(word, by);
        let borrow = self.code.b.ins().sshr_imm_u(less, 31);
        let less = self.code.b.ins().iadd(less, borrow);
        self.code.b.ins().ireduce(types::I16, less)
    }

    /// The forms of two values, unless they would have to be made.
    fn both_forms(&mut self, a: Value, b: Value) -> Option<(ir::Value, ir::Value)> {
        let forms = &self.values.network.forms;
        if !forms.contains_key(&a) && !forms.contains_key(&b) {
            return None;
        }
        Some((self.network_form(a)?, self.network_form(b)?))
    }

    /// A sum is the same in either byte order, but for the order of its own bytes (RFC 1071, section 2 B).
    fn network_sum(&mut self, v: Value) -> Option<(ir::Value, u32)> {
        if let Some(&sum) = self.values.network.sums.get(&v) {
            return Some(sum);
        }
        let form = self.network_form(v)?;
        Some((self.code.extend(types::I32, form), 1))
    }

    /// Compares two values for equality in the network's form, if that saves turning them.
    pub(crate) fn compare_forms(&mut self, op: CmpOp, a: Value, b: Value) -> Option<ir::Value> {
        let code = match op {
            CmpOp::Eq => IntCC::Equal,
            CmpOp::Ne => IntCC::NotEqual,
            CmpOp::Lt | CmpOp::Le => return None,
        };
        let (a, b) = self.both_forms(a, b)?;
        Some(self.code.b.ins().icmp(code, a, b))
    }

    // --- neighbours -------------------------------------------------------------------------------------------

    /// Finds what a block can read and write together.
    pub(crate) fn plan(&mut self, id: BlockId) {
        self.values.network.stored.clear();
        let p = self.p;
        let block = p.block(id);
        if let End::Lookup { table, key, .. } | End::Insert { table, key, .. } = &block.end
            && p.tables[table.0 as usize].decl.kind == Kind::Exact
        {
            for ((_, a), (_, b)) in neighbours(&fields_in_order(self.layout(*table), key)) {
                self.join(&block.ops, a, b);
            }
        }
        for (i, pair) in block.ops.windows(2).enumerate() {
            if let [Op::Store { layer, off, src: a }, Op::Store { layer: next_layer, off: next_off, src: b }] =
                pair
                && layer == next_layer
                && off.checked_add(p.width(*a).bytes()) == Some(*next_off)
                && !self.values.network.stored.contains(&i)
                && self.join(&block.ops, *a, *b)
            {
                self.values.network.stored.insert(i + 1);
            }
        }
    }

    /// Whether the values are read together, in this order; sees to it if they can be.
    fn join(&mut self, ops: &[Op], a: Value, b: Value) -> bool {
        let parts = &self.values.network.parts;
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
        let (Some(from), Some(to)) = (self.source(&ops[i]), self.source(&ops[j])) else { return false };
        if self.p.width(b) != width
            || !matches!(width, Width::W16 | Width::W32)
            || from.behind(width) != Some(to)
            // Only operations that define a value leave memory as it is.
            || between.iter().any(|op| op.dst().is_none())
        {
            return false;
        }
        let read = self.values.network.reads.len();
        self.values.network.reads.push(Read { from, width, word: None });
        self.values.network.parts.extend([(a, (read, 0)), (b, (read, width.bits()))]);
        true
    }

    fn source(&self, op: &Op) -> Option<Source> {
        match *op {
            Op::Load { layer, off, .. } => Some(Source::Packet { layer, off }),
            Op::Get { entry, field, .. } => {
                let Type::Entry(table) = self.p.ty(entry) else { return None };
                let (layout, field) = (self.layout(table), field as usize);
                layout.network[field].then(|| Source::Row { entry, off: layout.value[field] })
            }
            _ => None,
        }
    }

    /// The network's form of a value that is read with another.
    pub(crate) fn part(&mut self, v: Value) -> Option<ir::Value> {
        let &(read, shift) = self.values.network.parts.get(&v)?;
        let word = self.read(read);
        let part = if shift == 0 { word } else { self.code.b.ins().ushr_imm_u(word, i64::from(shift)) };
        Some(self.code.b.ins().ireduce(int(self.p.width(v)), part))
    }

    fn read(&mut self, number: usize) -> ir::Value {
        let Read { from, width, word } = self.values.network.reads[number];
        if let Some(word) = word {
            return word;
        }
        let ty = int(width).double_width().unwrap_or(types::I64);
        let word = match from {
            Source::Packet { layer, off } => {
                let (at, off) = self.bytes_at(layer, off);
                self.code.load(ty, at, off, self.code.regions.bytes)
            }
            Source::Row { entry, off } => {
                let (_, row) = self.row_of(entry);
                let flags = MemFlagsData::new()
                    .with_notrap()
                    .with_alias_region(self.code.regions.rows.alias_region());
                self.code.load(ty, row, off as i32, flags)
            }
        };
        self.values.network.reads[number].word = Some(word);
        word
    }

    /// Both values, if they are read together in this order.
    pub(crate) fn pair(&mut self, a: Value, b: Value) -> Option<ir::Value> {
        let parts = &self.values.network.parts;
        let (&(read, first), &(other, _)) = (parts.get(&a)?, parts.get(&b)?);
        (read == other && first == 0 && a != b).then(|| self.values.network.reads[read].word)?
    }

    /// Whether a store was done with the one before.
    pub(crate) fn is_stored(&self, number: usize) -> bool {
        self.values.network.stored.contains(&number)
    }

    pub(crate) fn layout(&self, table: TableId) -> &Layout {
        &self.known.uses.layouts[table.0 as usize]
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

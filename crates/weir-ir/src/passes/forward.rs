//! Forwarding: what was loaded from or stored to the packet, its annotations or metadata is not loaded again, nor
//! stored again, as long as nothing can have changed it. The same for what is computed from the packet (lengths,
//! checksums) and read from tables.

use weir_table::Sharing;

use crate::facts::{Facts, facts_by};
use crate::program::{Amount, BlockId, End, Layer, MetaField, Op, Program, TableId, Type, Value, Width};

use super::positions::{Position, Positions, places};
use super::rename::Rename;
use crate::flow::{Flow, Step};

/// Most things of a kind that are remembered at a time; the oldest are forgotten. Keeps the pass near linear.
const MAX_KNOWN: usize = 32;

/// Forwards.
pub(super) fn run(p: &mut Program) {
    let flow = Flow::of(p);
    let at = places(p, &flow);
    let bounds = facts_by(p, &flow);
    let mut rename = Rename::new(p);
    let mut out: Vec<Known> = vec![Known::default(); p.blocks.len()];
    for step in flow.walk() {
        let Step::Enter(b) = step else { continue };
        let mut known = at_start(p, &flow, &out, b);
        let mut here = at[b];
        let id = BlockId(b as u32);
        let mut facts = bounds.at(id).cloned().unwrap_or_else(Facts::none);
        let mut ops = std::mem::take(&mut p.blocks[b].ops);
        let mut i = 0;
        ops.retain_mut(|op| {
            op.visit_values_mut(|v, def| {
                if !def {
                    *v = rename.of(*v);
                }
            });
            let keep = match known.found(p, op, &here) {
                Replacement::Value(same) => {
                    if let Some(dst) = op.dst() {
                        rename.set(dst, same);
                    }
                    false
                }
                Replacement::There => false,
                Replacement::Nothing => true,
            };
            bounds.step(&mut facts, id, op);
            if keep {
                if let Op::Trim { .. } = op {
                    known.cut(&here, &facts);
                }
                known.after(p, op, &here);
            }
            here.after(op, b, i);
            i += 1;
            keep
        });
        p.blocks[b].ops = ops;
        p.blocks[b].end.visit_values_mut(|v| *v = rename.of(*v));
        known.forget_tables(&p.blocks[b].end);
        // The places at the end are those on the exits, but for what the end itself moves.
        known.data = Some(here);
        out[b] = known;
    }
    rename.apply(p);
}

/// What is known at the start of a block.
fn at_start(p: &Program, flow: &Flow, out: &[Known], b: usize) -> Known {
    if flow.root[b] {
        return Known::default();
    }
    let mut paths = flow.preds[b].iter().filter(|e| flow.reached(e.from)).map(|e| {
        let mut known = out[e.from].clone();
        known.on_edge(&p.blocks[e.from].end, e.index);
        known
    });
    let Some(mut known) = paths.next() else { return Known::default() };
    for path in paths {
        if known.is_empty() {
            break;
        }
        known.meet(&path);
    }
    // What a loop changes is not known at its header.
    for inner in flow.body(b) {
        let block = &p.blocks[inner];
        block.ops.iter().for_each(|op| known.changed_somewhere(p, op));
        if block.ops.iter().any(|op| matches!(op, Op::Trim { .. })) {
            known.bytes.clear();
        }
        known.forget_tables(&block.end);
        if matches!(block.end, End::Push { .. }) {
            known.bytes.clear();
        }
        if matches!(block.end, End::Push { .. } | End::Unpull { .. } | End::Put { .. }) {
            known.computed.clear();
        }
    }
    known
}

enum Replacement {
    /// The operation gives this value.
    Value(Value),
    /// What it writes is there already.
    There,
    Nothing,
}

/// The bytes of a packet that are known.
#[derive(Debug, Clone, Default)]
struct Known {
    bytes: Vec<(Position, Width, Value)>,
    annos: Vec<(u32, Width, Value)>,
    meta: [Option<Value>; MetaField::ALL.len()],
    /// Other operations (with `NONE` as `dst`) that depend on more than values, and what they gave.
    computed: Vec<(Op, Type, Value)>,
    /// Where the layers are at the end of the block.
    data: Option<Positions>,
}

const NONE: Value = Value(u32::MAX);

impl Known {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
            && self.annos.is_empty()
            && self.meta.iter().all(Option::is_none)
            && self.computed.is_empty()
    }

    fn meet(&mut self, other: &Known) {
        self.bytes.retain(|x| other.bytes.contains(x));
        self.annos.retain(|x| other.annos.contains(x));
        for (a, b) in self.meta.iter_mut().zip(other.meta) {
            *a = a.filter(|v| b == Some(*v));
        }
        self.computed.retain(|x| other.computed.contains(x));
    }

    fn found(&self, p: &Program, op: &Op, here: &Positions) -> Replacement {
        let value = |v: Option<Value>| v.map_or(Replacement::Nothing, Replacement::Value);
        let there = |known: Option<Value>, src: Value| {
            if known == Some(src) { Replacement::There } else { Replacement::Nothing }
        };
        match *op {
            Op::Load { dst, layer, off } => value(self.byte(here.at(layer, off), p.width(dst))),
            Op::Store { layer, off, src } => there(self.byte(here.at(layer, off), p.width(src)), src),
            Op::LoadAnno { dst, off } => value(self.anno(off, p.width(dst))),
            // A single bit is written as a whole byte, of which only that bit is known.
            Op::StoreAnno { off, src } if p.width(src) != Width::W1 => {
                there(self.anno(off, p.width(src)), src)
            }
            Op::LoadMeta { field, .. } => value(self.meta[field as usize]),
            Op::StoreMeta { field, src } => there(self.meta[field as usize], src),
            _ => match computed(p, op) {
                Some((op, ty)) => {
                    value(self.computed.iter().find(|(o, t, _)| *o == op && *t == ty).map(|(_, _, v)| *v))
                }
                None => Replacement::Nothing,
            },
        }
    }

    fn byte(&self, place: Position, width: Width) -> Option<Value> {
        self.bytes.iter().find(|(at, w, _)| *at == place && *w == width).map(|(_, _, v)| *v)
    }

    fn anno(&self, off: u32, width: Width) -> Option<Value> {
        self.annos.iter().find(|(at, w, _)| *at == off && *w == width).map(|(_, _, v)| *v)
    }

    /// After an operation that was not found.
    fn after(&mut self, p: &Program, op: &Op, here: &Positions) {
        match *op {
            Op::Load { dst, layer, off } => push(&mut self.bytes, (here.at(layer, off), p.width(dst), dst)),
            Op::Store { layer, off, src } => {
                let (place, width) = (here.at(layer, off), p.width(src));
                self.overwritten(place, i64::from(width.bytes()));
                push(&mut self.bytes, (place, width, src));
            }
            Op::CopyBytes { to: (layer, off), len, .. } => {
                self.overwritten(here.at(layer, off), i64::from(len));
            }
            Op::LoadAnno { dst, off } => push(&mut self.annos, (off, p.width(dst), dst)),
            Op::StoreAnno { off, src } => {
                let width = p.width(src);
                self.forget_annos(off, width);
                push(&mut self.annos, (off, width, src));
            }
            Op::LoadMeta { dst, field } => self.meta[field as usize] = Some(dst),
            // Not every state of the checksum is taken.
            Op::StoreMeta { field: MetaField::Checksum, .. } => {
                self.meta[MetaField::Checksum as usize] = None;
            }
            Op::StoreMeta { field, src } => self.meta[field as usize] = Some(src),
            _ => {
                self.changed_somewhere(p, op);
                if let (Some((op, ty)), Some(dst)) = (computed(p, op), op.dst()) {
                    push(&mut self.computed, (op, ty, dst));
                }
            }
        }
    }

    /// Forgets what an operation may change, wherever the layers are.
    fn changed_somewhere(&mut self, p: &Program, op: &Op) {
        match *op {
            Op::Store { .. } | Op::CopyBytes { .. } => {
                self.bytes.clear();
                self.computed.retain(|(op, _, _)| !reads_bytes(op));
            }
            Op::Trim { .. } => {
                self.computed.retain(|(op, _, _)| !reads_bytes(op) && !matches!(op, Op::Rest { .. }));
            }
            Op::StoreAnno { off, src } => self.forget_annos(off, p.width(src)),
            Op::StoreMeta { field, .. } => self.meta[field as usize] = None,
            Op::SetMark { .. } | Op::ClearMark { .. } | Op::Pull { .. } => {
                self.computed.retain(|(op, _, _)| !reads_bytes(op) && !reads_places(op));
            }
            Op::Set { .. } | Op::Remove { .. } => self.computed.retain(|(op, _, _)| !reads_table(op)),
            _ => {}
        }
    }

    /// Forgets bytes that are not known to be there after the end moved: they may come back as zeros.
    fn cut(&mut self, here: &Positions, facts: &Facts) {
        self.bytes.retain(|(at, w, _)| {
            Layer::ALL.into_iter().any(|layer| {
                let start = here.at(layer, 0);
                // A layer may be set and lie beyond the end.
                let there = facts.bytes(layer).map(i64::from);
                start.base == at.base && there.is_some_and(|n| at.off + i64::from(w.bytes()) <= start.off + n)
            })
        });
    }

    fn overwritten(&mut self, place: Position, len: i64) {
        self.bytes.retain(|(at, w, _)| {
            at.base == place.base && (at.off + i64::from(w.bytes()) <= place.off || place.off + len <= at.off)
        });
        self.computed.retain(|(op, _, _)| !reads_bytes(op));
    }

    fn forget_annos(&mut self, off: u32, width: Width) {
        self.annos.retain(|&(at, w, _)| at + w.bytes() <= off || off + width.bytes() <= at);
    }

    fn forget_tables(&mut self, end: &End) {
        if matches!(end, End::Insert { .. } | End::Claim { .. } | End::Meter { .. }) {
            self.computed.retain(|(op, _, _)| !reads_table(op));
        }
    }

    /// On the `i`th edge out of the block that this is the end of.
    fn on_edge(&mut self, end: &End, i: usize) {
        match (end, i) {
            (End::Push { n, .. }, 0) => {
                match (n, &self.data) {
                    (Amount::Const(n), Some(here)) => {
                        let start = here.at(Layer::Data, 0);
                        let n = i64::from(*n);
                        self.overwritten(Position { base: start.base, off: start.off - n }, n);
                    }
                    _ => self.bytes.clear(),
                }
                self.computed.retain(|(op, _, _)| reads_table(op));
            }
            (End::Unpull { .. } | End::Put { .. }, 0) => self.computed.retain(|(op, _, _)| reads_table(op)),
            _ => {}
        }
    }
}

fn push<T>(list: &mut Vec<T>, what: T) {
    if list.len() >= MAX_KNOWN {
        list.remove(0);
    }
    list.push(what);
}

/// What stands for all operations that give the same as this one as long as nothing changes.
fn computed(p: &Program, op: &Op) -> Option<(Op, Type)> {
    let private = |t: TableId| p.tables.get(t.0 as usize).is_some_and(|t| t.decl.sharing != Sharing::Shared);
    let of = |v: Value| match p.ty(v) {
        Type::Entry(t) => private(t),
        Type::Int(_) => false,
    };
    let dst = NONE;
    let key = match *op {
        Op::Rest { layer, .. } => Op::Rest { dst, layer },
        Op::Distance { from, to, .. } => Op::Distance { dst, from, to },
        Op::Checksum { layer, start, end, .. } => Op::Checksum { dst, layer, start, end },
        Op::CompareBytes { a, b, len, .. } => Op::CompareBytes { dst, a, b, len },
        Op::FindByte { layer, start, end, byte, .. } => Op::FindByte { dst, layer, start, end, byte },
        Op::Get { entry, field, .. } if of(entry) => Op::Get { dst, entry, field },
        Op::GetKey { entry, field, .. } if of(entry) => Op::GetKey { dst, entry, field },
        Op::GroupCount { table, value, .. } if private(table) => Op::GroupCount { dst, table, value },
        Op::Size { table, .. } if private(table) => Op::Size { dst, table },
        _ => return None,
    };
    Some((key, p.ty(op.dst()?)))
}

fn reads_bytes(op: &Op) -> bool {
    matches!(op, Op::Checksum { .. } | Op::CompareBytes { .. } | Op::FindByte { .. })
}

fn reads_places(op: &Op) -> bool {
    matches!(op, Op::Rest { .. } | Op::Distance { .. })
}

fn reads_table(op: &Op) -> bool {
    matches!(op, Op::Get { .. } | Op::GetKey { .. } | Op::GroupCount { .. } | Op::Size { .. })
}

//! Ways that packets take once a flow: what follows a key that is not in its table, and makes an entry for it.
//!
//! Such a way is long, calls Rust, and uses much of what was read of the packet before the lookup. In registers, all that
//! would have to be kept for it on the way of the other packets too. So the first block of such a way puts what it needs
//! into the stack frame, and each of its blocks takes what it uses from there. What calls it makes keep all registers
//! ([`crate::rare`]).

use cranelift_codegen::ir::{self, InstBuilder, StackSlot, StackSlotData, StackSlotKind, types};
use rustc_hash::{FxHashMap, FxHashSet};
use weir_ir::program::{BlockId, End, Op, Program, TableId, Type, Value, Width};
use weir_table::Kind;

use crate::compile::{Translator, int};
use crate::flows::Dominators;
use crate::lanes::Lanes;
use crate::network::Network;
use crate::places::Places;

/// Bytes of a value in the frame.
const SLOT: i32 = 16;

/// A way aside: the blocks behind its first one.
#[derive(Debug)]
pub(crate) struct Way {
    head: BlockId,
    /// The values from before it that it uses, in the order of the frame.
    given: Vec<Value>,
    /// No packet is moved in its buffer, so that what follows finds the layers where they were.
    keeps_places: bool,
}

/// All ways aside of a program.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    ways: Vec<Way>,
    /// For each block the way that it is on.
    of: Vec<Option<usize>>,
    /// The most values that one of them uses.
    most: usize,
    /// The way that is translated, and what was known before it.
    current: Option<(usize, Known)>,
    /// What is known on the others.
    known: Vec<Option<Known>>,
    /// Where the layers were when a way began.
    places: Vec<Places>,
    frame: Option<StackSlot>,
}

/// What the translation knows of values.
#[derive(Debug)]
struct Known {
    values: Vec<Option<ir::Value>>,
    sums: FxHashMap<Value, (ir::Value, u32)>,
    packet: ir::Value,
    network: Network,
}

/// For each lookup of an exact table behind whose miss an entry of that table is made: the blocks that packets reach
/// only by this miss, its own first.
pub(crate) fn ways_of_new_keys(p: &Program) -> Vec<Vec<BlockId>> {
    let is_exact = |t: &TableId| p.tables[t.0 as usize].decl.kind == Kind::Exact;
    if !p.blocks.iter().any(|b| matches!(&b.end, End::Lookup { table, .. } if is_exact(table))) {
        return Vec::new();
    }
    let dominators = Dominators::of(p);
    let mut ways_to = vec![0_u32; p.blocks.len()];
    for block in &p.blocks {
        block.end.targets().into_iter().for_each(|t| ways_to[t.block.0 as usize] += 1);
    }
    let mut ways = Vec::new();
    for block in dominators.order().iter().map(|&b| p.block(b)) {
        let End::Lookup { table, hit, miss, .. } = &block.end else { continue };
        let head = miss.block;
        if !is_exact(table) || ways_to[head.0 as usize] != 1 || head == hit.block {
            continue;
        }
        let on: Vec<BlockId> =
            dominators.order().iter().copied().filter(|&b| dominators.dominate(head, b)).collect();
        let makes = |b: &BlockId| match &p.block(*b).end {
            End::Insert { table: t, .. } | End::Claim { table: t, .. } => t == table,
            _ => false,
        };
        if on.iter().any(makes) {
            ways.push(on);
        }
    }
    ways
}

impl Aside {
    /// Finds the ways of a checked program.
    pub fn of(p: &Program, lanes: &Lanes) -> Aside {
        let mut aside = Aside { of: vec![None; p.blocks.len()], ..Aside::default() };
        for on in ways_of_new_keys(p) {
            let free = |b: &BlockId| aside.of[b.0 as usize].is_none() && lanes.group(*b).is_none();
            if on.iter().all(free) {
                on.iter().for_each(|b| aside.of[b.0 as usize] = Some(aside.ways.len()));
                aside.ways.push(Way::of(p, on[0], &on));
            }
        }
        aside.most = aside.ways.iter().map(|w| w.given.len()).max().unwrap_or(0);
        aside.known.resize_with(aside.ways.len(), || None);
        aside.places.resize(aside.ways.len(), [None; crate::compile::POSITIONS]);
        aside
    }

    /// Whether a block is on such a way.
    pub fn has(&self, b: BlockId) -> bool {
        self.way(b).is_some()
    }

    fn way(&self, b: BlockId) -> Option<usize> {
        self.of.get(b.0 as usize).copied().flatten()
    }
}

impl Way {
    fn of(p: &Program, head: BlockId, on: &[BlockId]) -> Way {
        let mut inside = FxHashSet::default();
        for &b in on {
            inside.extend(p.block(b).params.iter().copied());
            inside.extend(p.block(b).ops.iter().filter_map(Op::dst));
        }
        let mut given: Vec<Value> = on.iter().flat_map(|&b| used(p, b)).collect();
        given.retain(|v| !inside.contains(v));
        given.sort();
        given.dedup();
        let moves = |b: &BlockId| {
            let ops = p.block(*b).ops.iter().any(|op| {
                matches!(op, Op::SetMark { .. } | Op::ClearMark { .. } | Op::Pull { .. } | Op::Trim { .. })
            });
            ops || matches!(p.block(*b).end, End::Push { .. } | End::Unpull { .. } | End::Put { .. })
        };
        Way { head, given, keeps_places: !on.iter().any(moves) }
    }
}

/// The values that a block uses, those included that it defines.
fn used(p: &Program, b: BlockId) -> Vec<Value> {
    let block = p.block(b);
    let mut used = Vec::new();
    for op in &block.ops {
        op.visit_values(|v, _| used.push(*v));
        if let Op::Fork { target, .. } | Op::Release { target, .. } = op {
            used.extend(&target.args);
        }
    }
    block.end.visit_own_values(|v| used.push(*v));
    block.end.targets().into_iter().for_each(|t| used.extend(&t.args));
    used
}

impl Translator<'_, '_> {
    /// Before a block: changes to what is known on its way.
    pub(crate) fn change_ways(&mut self, to: BlockId) {
        let way = self.aside.way(to);
        if self.aside.current.as_ref().map(|c| c.0) == way {
            return;
        }
        if let Some((from, before)) = self.aside.current.take() {
            let known = self.exchange(before);
            self.aside.known[from] = Some(known);
        }
        if let Some(way) = way {
            let known = self.aside.known[way].take().unwrap_or_else(|| Known {
                values: self.values.clone(),
                sums: Default::default(),
                packet: self.packet,
                network: self.network.constants_only(),
            });
            let before = self.exchange(known);
            self.aside.current = Some((way, before));
        }
    }

    fn exchange(&mut self, known: Known) -> Known {
        Known {
            values: std::mem::replace(&mut self.values, known.values),
            sums: std::mem::replace(&mut self.sums, known.sums),
            packet: std::mem::replace(&mut self.packet, known.packet),
            network: std::mem::replace(&mut self.network, known.network),
        }
    }

    /// At the start of a block: puts aside what the way needs, and takes what the block uses.
    pub(crate) fn take_given(&mut self, b: BlockId) {
        let Some(way) = self.aside.way(b) else { return };
        let given = self.aside.ways[way].given.clone();
        let frame = self.aside_frame();
        if self.aside.ways[way].head == b {
            self.aside.places[way] = std::mem::replace(&mut self.places, [None; _]);
            // The usual ways need not keep the packet's address here: each other use of a register could take it from them.
            self.packet = self.b.ins().load(types::I64, self.regions.outcomes, self.batch.at, 0);
            let to = self.b.ins().stack_addr(types::I64, frame, 0);
            for (i, &v) in given.iter().enumerate() {
                let value = self.get(v);
                self.store_value(value, to, SLOT * i as i32, self.regions.frame);
            }
        }
        let wanted: FxHashSet<Value> = used(self.p, b).into_iter().collect();
        // From another address, so that the compiler does not see what was stored: it would keep that in registers.
        let from = self.b.ins().stack_addr(types::I64, frame, SLOT);
        for (i, &v) in given.iter().enumerate().filter(|(_, v)| wanted.contains(v)) {
            let off = SLOT * (i as i32 - 1);
            let value = match self.p.ty(v) {
                Type::Int(Width::W128) => self.load_value(Width::W128, from, off, self.regions.frame),
                Type::Int(w) => self.b.ins().load(int(w), self.regions.frame, from, off),
                Type::Entry(_) => self.b.ins().load(types::I32, self.regions.frame, from, off),
            };
            self.set(v, value);
        }
    }

    fn aside_frame(&mut self) -> StackSlot {
        // One slot more, so that the address of the second is in it.
        let most = 1 + self.aside.most.max(1);
        *self.aside.frame.get_or_insert_with(|| {
            let size = StackSlotData::new(StackSlotKind::ExplicitSlot, SLOT as u32 * most as u32, 4);
            self.b.create_sized_stack_slot(size)
        })
    }

    /// Where the layers are for who comes to a block from here.
    pub(crate) fn places_for(&self, to: BlockId) -> Places {
        match self.aside.current {
            Some((way, _)) if self.aside.way(to) != Some(way) && self.aside.ways[way].keeps_places => {
                self.aside.places[way]
            }
            _ => self.places,
        }
    }

    /// Whether calls keep all registers.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside.current.is_some()
    }
}

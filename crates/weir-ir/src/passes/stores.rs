//! Dead stores: what is written over before anyone can read it need not be written. The same for marks, annotations
//! and metadata. All of a packet is read where it leaves, is held, copied or shown to the host; but only its bytes and what
//! devices need where it is dropped, and where it leaves by a plain exit.
//!
//! A `push` of bytes that are all written over, into space that was pulled before, becomes an `unpull`: nobody sees the
//! zeros.

use crate::facts::{Facts, facts_by};
use crate::program::{Amount, BlockId, End, Layer, MetaField, Op, Program, Width};

use super::positions::{Position, Positions, places};
use crate::flow::{Flow, index};

/// Most byte ranges that are remembered at a time.
const MAX_RANGES: usize = 16;

/// Removes dead stores.
pub(super) fn run(p: &mut Program) {
    let flow = Flow::of(p);
    let at = places(p, &flow);
    let known = facts_by(p, &flow);
    let mut start: Vec<Dead> = vec![Dead::default(); p.blocks.len()];
    for b in (0..p.blocks.len()).rev().filter(|&b| flow.reached(b)) {
        // Where the layers are before each operation, and at the end.
        let mut here = at[b];
        let mut before: Vec<Positions> = Vec::new();
        for (i, op) in p.blocks[b].ops.iter().enumerate() {
            before.push(here);
            here.after(op, b, i);
        }
        let mut fits = false;
        if let End::Push { n: Amount::Const(n), .. } | End::Unpull { n: Amount::Const(n), .. } =
            p.blocks[b].end
        {
            let id = BlockId(b as u32);
            let mut facts = known.at(id).cloned().unwrap_or_else(Facts::none);
            p.blocks[b].ops.iter().for_each(|op| known.step(&mut facts, id, op));
            fits = facts.headroom() >= n;
        }
        if let End::Push { n: Amount::Const(n), ok, fail } = &p.blocks[b].end
            && fits
            && start[index(ok.block)].covers(front(&here, *n), i64::from(*n))
        {
            p.blocks[b].end = End::Unpull { n: Amount::Const(*n), ok: ok.clone(), fail: fail.clone() };
        }
        let mut dead = match p.blocks[b].end {
            End::Exit { exit } if p.plain_exits.contains(&exit) => Dead::plain(),
            End::Drop { .. } => Dead::plain(),
            ref end => at_end(end, &start, &here, fits),
        };
        let mut keep: Vec<bool> = Vec::new();
        for (op, here) in p.blocks[b].ops.iter().zip(&before).rev() {
            keep.push(!dead.is_dead(p, op, here));
            if keep.last() == Some(&true) {
                dead.before(p, op, here);
            }
        }
        p.blocks[b].ops.retain(|_| keep.pop().unwrap_or(true));
        // Bases that are made here mean nothing before; and the loop may come here again.
        dead.ranges.retain(|r| r.0.base >> 32 != b as u64);
        start[b] = dead;
    }
}

/// The place of the `n` bytes in front of the packet.
fn front(here: &Positions, n: u32) -> Position {
    let Position { base, off } = here.at(Layer::Data, 0);
    Position { base, off: off - i64::from(n) }
}

/// What is dead at the end of a block; `fits`: an exit for want of space is never taken.
fn at_end(end: &End, start: &[Dead], here: &Positions, fits: bool) -> Dead {
    if matches!(end, End::Again { .. } | End::Hold { .. }) {
        return Dead::default();
    }
    let mut dead: Option<Dead> = None;
    for (i, t) in end.targets().into_iter().enumerate().filter(|(i, _)| !fits || *i == 0) {
        let mut path = start[t.block.0 as usize].clone();
        if let (End::Push { n: Amount::Const(n), .. }, 0) = (end, i) {
            path.write(front(here, *n), i64::from(*n));
        }
        match &mut dead {
            None => dead = Some(path),
            Some(d) => d.meet(&path),
        }
    }
    let mut dead = dead.unwrap_or_default();
    if let End::Require { layer, .. } = end {
        dead.marks &= !(1 << *layer as u8);
    }
    dead
}

/// The bytes that are written over on every path before they are read.
#[derive(Debug, Clone, Default)]
struct Dead {
    /// Positions and lengths.
    ranges: Vec<(Position, i64)>,
    /// Layers, a bit each.
    marks: u8,
    /// Bytes of the annotations, a bit each.
    annos: u64,
    /// Fields, a bit each.
    meta: u8,
}

impl Dead {
    /// Where nobody reads more of a packet than a device does.
    fn plain() -> Dead {
        let meta = [MetaField::PacketType, MetaField::InPort, MetaField::FlowHash, MetaField::Provenance];
        Dead {
            ranges: Vec::new(),
            marks: u8::MAX,
            annos: u64::MAX,
            meta: meta.into_iter().fold(0, |all, field| all | 1 << field as u8),
        }
    }

    fn meet(&mut self, other: &Dead) {
        self.ranges.retain(|r| other.covers(r.0, r.1));
        self.marks &= other.marks;
        self.annos &= other.annos;
        self.meta &= other.meta;
    }

    /// Whether all bytes lie in ranges, of which each may hold a part.
    fn covers(&self, at: Position, len: i64) -> bool {
        let (mut from, to) = (at.off, at.off + len);
        let on = |from: i64| {
            let here =
                self.ranges.iter().filter(|(p, n)| p.base == at.base && p.off <= from && from < p.off + n);
            here.map(|(p, n)| p.off + n).max()
        };
        while from < to {
            match on(from) {
                Some(end) => from = end,
                None => return false,
            }
        }
        true
    }

    fn is_dead(&self, p: &Program, op: &Op, here: &Positions) -> bool {
        match *op {
            Op::Store { layer, off, src } => {
                self.covers(here.at(layer, off), i64::from(p.width(src).bytes()))
            }
            Op::SetMark { layer, .. } | Op::ClearMark { layer } => self.marks & 1 << layer as u8 != 0,
            Op::StoreAnno { off, src } => {
                let bytes = anno_bytes(off, p.width(src));
                self.annos & bytes == bytes
            }
            Op::StoreMeta { field, .. } => self.meta & 1 << field as u8 != 0,
            _ => false,
        }
    }

    fn write(&mut self, at: Position, len: i64) {
        if !self.covers(at, len) && len > 0 {
            if self.ranges.len() >= MAX_RANGES {
                self.ranges.remove(0);
            }
            self.ranges.push((at, len));
        }
    }

    fn read(&mut self, at: Position, len: i64) {
        self.ranges.retain(|(p, n)| p.base == at.base && (p.off + n <= at.off || at.off + len <= p.off));
    }

    fn read_mark(&mut self, layer: Layer) {
        self.marks &= !(1 << layer as u8);
    }

    /// What is dead before an operation that stays.
    fn before(&mut self, p: &Program, op: &Op, here: &Positions) {
        match *op {
            Op::Load { dst, layer, off } => {
                self.read(here.at(layer, off), i64::from(p.width(dst).bytes()));
                self.read_mark(layer);
            }
            Op::Store { layer, off, src } => {
                self.write(here.at(layer, off), i64::from(p.width(src).bytes()));
                self.read_mark(layer);
            }
            Op::CopyBytes { to, from, len } => {
                self.write(here.at(to.0, to.1), i64::from(len));
                self.read(here.at(from.0, from.1), i64::from(len));
                self.read_mark(to.0);
                self.read_mark(from.0);
            }
            Op::CompareBytes { a, b, len, .. } => {
                for (layer, off) in [a, b] {
                    self.read(here.at(layer, off), i64::from(len));
                    self.read_mark(layer);
                }
            }
            Op::Checksum { layer, .. } | Op::FindByte { layer, .. } => {
                self.ranges.clear();
                self.read_mark(layer);
            }
            Op::Rest { layer, .. } => self.read_mark(layer),
            Op::Distance { from, to, .. } => {
                self.read_mark(from);
                self.read_mark(to);
            }
            Op::SetMark { layer, base, .. } => {
                self.marks |= 1 << layer as u8;
                self.read_mark(base);
            }
            Op::ClearMark { layer } => self.marks |= 1 << layer as u8,
            Op::LoadAnno { dst, off } => self.annos &= !anno_bytes(off, p.width(dst)),
            Op::StoreAnno { off, src } => self.annos |= anno_bytes(off, p.width(src)),
            Op::LoadMeta { field, .. } => self.meta &= !(1 << field as u8),
            // Not every state of the checksum is taken, so the one before may stay.
            Op::StoreMeta { field: MetaField::Checksum, .. } => {}
            Op::StoreMeta { field, .. } => self.meta |= 1 << field as u8,
            Op::Fork { .. } | Op::Notify { packet: true, .. } => *self = Dead::default(),
            _ => {}
        }
    }
}

fn anno_bytes(off: u32, width: Width) -> u64 {
    ((1 << width.bytes()) - 1) << off
}

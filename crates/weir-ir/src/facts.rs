//! What is known at a place of a program about the bounds of the packet.
//!
//! The checker uses it to accept a program, the passes to remove what is known already, the compiler to leave out
//! bounds checks. Facts hold on every path to the place.
//!
//! A packet has seven points: its five layers, its *floor* (the first byte that it ever had, from which on `unpull`
//! may take bytes back) and its *end*. For each pair of points a lower bound of their distance is kept (a difference
//! bound matrix: A. Miné, "A new numerical abstract domain based on difference-bound matrices"). All that is asked of
//! the facts is such a distance: `n` bytes of a layer are there if its end is at least `n` behind it. Moving a point
//! shifts its row and column, so what is known of one layer holds for all that have a known distance to it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::flow::Flow;
use crate::program::{Amount, BlockId, End, Layer, Op, Program, Target, Value};
use crate::ranges::{Range, Ranges};

/// The points of a packet: layers by their number, and these two.
const FLOOR: usize = 5;
const END: usize = 6;
const POINTS: usize = 7;
const DATA: usize = Layer::Data as usize;

/// No bound is known.
const NONE: i32 = i32::MIN;
/// Larger distances are not distinguished; keeps sums of bounds far from overflow. No packet is as long, so no packet comes
/// to where one of its layers has so many bytes, and whatever is said of it there is true.
const FAR: i32 = 1 << 29;
/// What stands for all that can be further than `FAR`: no bound is left of one that is moved back by it.
const TOO_FAR: i32 = 3 << 29;

/// How often back edges to a block lower its bounds before those that still fall are given up.
const MAX_ROUNDS: u32 = 8;

/// Facts about the bytes behind each layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `apart[a][b]` is at most the position of `b` minus the position of `a`.
    apart: [[i32; POINTS]; POINTS],
    /// Layers that are set for certain, a bit each. The bounds of others are all `NONE`.
    set: u8,
    /// Layers that have at least so many bytes as a value says; sorted.
    covers: Vec<(Layer, Value)>,
}

/// Sum of two bounds.
fn plus(a: i32, b: i32) -> i32 {
    let sum = a.wrapping_add(b);
    if a == NONE || b == NONE || sum < -FAR { NONE } else { sum.min(FAR) }
}

/// Least and most of an amount.
fn bounds(range: Range) -> (i32, i32) {
    let most = i32::try_from(range.hi).ok().filter(|&hi| hi <= FAR).unwrap_or(TOO_FAR);
    (range.lo.min(FAR as u128) as i32, most)
}

impl Facts {
    /// Nothing known but what holds for every packet.
    pub fn none() -> Facts {
        let mut f = Facts { apart: [[NONE; POINTS]; POINTS], set: 1 << DATA, covers: Vec::new() };
        f.always();
        f
    }

    /// What holds for every packet: the start of it lies between its floor and its end, and marks not before the
    /// floor.
    fn always(&mut self) {
        for p in 0..POINTS {
            self.apart[p][p] = 0;
        }
        for layer in (0..FLOOR).filter(|l| self.set & 1 << l != 0) {
            self.apart[FLOOR][layer] = self.apart[FLOOR][layer].max(0);
        }
        self.apart[DATA][END] = self.apart[DATA][END].max(0);
        self.apart[FLOOR][END] = self.apart[FLOOR][END].max(self.apart[DATA][END]);
    }

    /// Bytes known to be there from the layer on; `None` if the layer may be unset or beyond the end.
    pub fn bytes(&self, layer: Layer) -> Option<u32> {
        match self.apart[layer as usize][END] {
            FAR => Some(u32::MAX),
            n => u32::try_from(n).ok(),
        }
    }

    /// Bytes in front of the packet that were part of it and were pulled, at least: so many can be taken back by
    /// `unpull`, and a `push` of as many finds space without moving the packet.
    pub fn headroom(&self) -> u32 {
        u32::try_from(self.apart[FLOOR][DATA]).unwrap_or(0)
    }

    /// Whether the layer is set for certain.
    pub fn is_set(&self, layer: Layer) -> bool {
        self.set & 1 << layer as u8 != 0
    }

    /// Position of `to` minus position of `from`, if it is the same on all paths here; both are set then.
    pub fn distance(&self, from: Layer, to: Layer) -> Option<i64> {
        let (least, most) = (self.apart[from as usize][to as usize], self.apart[to as usize][from as usize]);
        (least != NONE && most != NONE && least == -most && self.is_set(from)).then_some(least.into())
    }

    /// Whether `n` bytes from the layer on are known to be there; `range` is what is known of `n`.
    pub(crate) fn covered(&self, layer: Layer, n: Amount, range: Range) -> bool {
        let bytes = |most: u128| self.bytes(layer).is_some_and(|known| u128::from(known) >= most);
        match n {
            Amount::Const(n) => bytes(n.into()),
            // Known of this layer, or of one that is no further in front.
            Amount::Value(v) => {
                bytes(range.hi)
                    || self.covers.iter().any(|&(l, w)| w == v && self.apart[layer as usize][l as usize] >= 0)
            }
        }
    }

    /// What is known on two paths that meet.
    pub fn meet(&mut self, other: &Facts) {
        for (row, with) in self.apart.iter_mut().zip(&other.apart) {
            row.iter_mut().zip(with).for_each(|(a, b)| *a = (*a).min(*b));
        }
        self.set &= other.set;
        self.covers.retain(|c| other.covers.binary_search(c).is_ok());
    }

    /// Whether all that `other` knows is known.
    pub(crate) fn implies(&self, other: &Facts) -> bool {
        let own = self.apart.as_flattened().iter();
        own.zip(other.apart.as_flattened()).all(|(a, b)| a >= b)
            && other.set & !self.set == 0
            && other.covers.iter().all(|c| self.covers.binary_search(c).is_ok())
    }

    fn cover(&mut self, layer: Layer, v: Value) {
        if let Err(at) = self.covers.binary_search(&(layer, v)) {
            self.covers.insert(at, (layer, v));
        }
    }

    /// Point `b` lies at least `n` behind point `a`; so do the points behind `b`, and from those in front of `a`.
    fn learn(&mut self, a: usize, b: usize, n: i32) {
        let n = n.min(FAR);
        if n <= self.apart[a][b] || n < -FAR {
            return;
        }
        let old = self.apart;
        for (x, row) in self.apart.iter_mut().enumerate() {
            for (y, bound) in row.iter_mut().enumerate() {
                if x != y {
                    *bound = (*bound).max(plus(plus(old[x][a], n), old[b][y]));
                }
            }
        }
        self.apart[a][b] = self.apart[a][b].max(n);
    }

    /// A point goes to `base` plus at least `least` and at most `most`.
    fn place(&mut self, point: usize, base: usize, least: i32, most: i32) {
        let old = self.apart;
        for x in (0..POINTS).filter(|&x| x != point) {
            self.apart[x][point] = plus(old[x][base], least);
            self.apart[point][x] = plus(old[base][x], -most);
        }
    }

    /// What is known after an operation; `range` and `within` are what is known of its amount, if it has one.
    fn after(&mut self, op: &Op, range: Range, within: &[(Value, u32)]) {
        let (least, most) = bounds(range);
        match *op {
            Op::SetMark { layer, base, off } => {
                let moved = off != Amount::Const(0);
                if layer != base {
                    self.covers.retain(|(l, _)| *l != layer);
                    let same: Vec<_> = self.covers.iter().filter(|(l, _)| *l == base && !moved).collect();
                    let same: Vec<Value> = same.into_iter().map(|c| c.1).collect();
                    same.into_iter().for_each(|v| self.cover(layer, v));
                } else if moved {
                    self.covers.retain(|(l, _)| *l != layer);
                }
                self.set |= 1 << layer as u8;
                self.place(layer as usize, base as usize, least, most);
                self.learn(layer as usize, END, 0);
                self.always();
            }
            Op::ClearMark { layer } => {
                self.covers.retain(|(l, _)| *l != layer);
                self.set &= !(1 << layer as u8);
                for x in (0..POINTS).filter(|&x| x != layer as usize) {
                    self.apart[x][layer as usize] = NONE;
                    self.apart[layer as usize][x] = NONE;
                }
                self.apart[layer as usize][layer as usize] = 0;
            }
            Op::Pull { .. } => {
                self.covers.retain(|(l, _)| *l != Layer::Data);
                self.place(DATA, DATA, least, most);
                self.learn(DATA, END, 0);
            }
            // The end goes to `data + len`, or stays if it is in front of that.
            Op::Trim { len } => {
                let apart = self.apart;
                // What ends no further behind than `data + len`.
                let fits = |l: Layer, c: u32| i32::try_from(c).is_ok_and(|c| apart[l as usize][DATA] >= -c);
                self.covers.retain(|&(l, v)| {
                    (v == len && fits(l, 0)) || within.iter().any(|&(w, c)| v == w && fits(l, c))
                });
                for x in (0..POINTS).filter(|&x| x != END) {
                    self.apart[x][END] = apart[x][END].min(plus(apart[x][DATA], least));
                }
                self.learn(END, DATA, -most);
            }
            _ => {}
        }
    }

    /// What is known on the `i`th edge out of a block; `range` is what is known of the amount of its end.
    fn go_out(&mut self, end: &End, i: usize, range: Range) {
        let (least, most) = bounds(range);
        match (end, i) {
            (End::Require { layer, n, .. }, 0) => {
                self.set |= 1 << *layer as u8;
                self.always();
                self.learn(*layer as usize, END, least);
                if let Amount::Value(v) = n {
                    self.cover(*layer, *v);
                }
            }
            (End::Push { .. } | End::Unpull { .. }, 0) => {
                if let End::Unpull { .. } = end {
                    self.learn(FLOOR, DATA, least);
                }
                self.place(DATA, DATA, -most, -least);
                // The floor is not behind the start.
                for x in 0..FLOOR {
                    self.apart[x][FLOOR] = self.apart[x][FLOOR].min(self.apart[x][DATA]);
                }
                self.apart[END][FLOOR] = self.apart[END][FLOOR].min(self.apart[END][DATA]);
                self.always();
            }
            (End::Put { .. }, 0) => self.place(END, END, least, most),
            _ => {}
        }
    }

    /// Facts about a parameter of the target, where the argument had them. What was known of the parameters
    /// themselves is over: a loop header's get new values each round.
    fn rename(&mut self, params: &[Value], args: impl Iterator<Item = (Value, Value)>) {
        if self.covers.is_empty() {
            return;
        }
        let mut extra = Vec::new();
        for (arg, param) in args {
            extra.extend(self.covers.iter().filter(|(_, v)| *v == arg).map(|(layer, _)| (*layer, param)));
        }
        self.covers.retain(|(_, v)| !params.contains(v));
        extra.into_iter().for_each(|(layer, v)| self.cover(layer, v));
    }

    /// Whether no packet can be so: a point would lie behind another one, and in front of it.
    fn is_contradictory(&self) -> bool {
        let at = |a: usize, b: usize| self.apart[a][b];
        (0..POINTS).any(|a| (0..a).any(|b| plus(at(a, b), at(b, a)) > 0))
    }

    /// Gives up the bounds that fell since `before`: they may go on falling for each round of a loop.
    fn widen(&mut self, before: &Facts) {
        for (row, was) in self.apart.iter_mut().zip(&before.apart) {
            row.iter_mut().zip(was).filter(|(a, b)| **a < **b).for_each(|(a, _)| *a = NONE);
        }
        self.always();
    }
}

/// The facts of a program.
#[derive(Debug)]
pub struct Known {
    at: Vec<Option<Facts>>,
    ranges: Ranges,
}

impl Known {
    /// The facts at the start of a block; `None` if nothing reaches it.
    pub fn at(&self, block: BlockId) -> Option<&Facts> {
        self.at.get(block.0 as usize)?.as_ref()
    }

    /// Whether there is a block that no packet can come to, by what is known there.
    pub(crate) fn is_contradictory(&self) -> bool {
        self.at.iter().flatten().any(Facts::is_contradictory)
    }

    /// Goes past an operation of the block. In front of the block's end the facts are those after all of them.
    pub fn step(&self, facts: &mut Facts, block: BlockId, op: &Op) {
        let n = match *op {
            Op::SetMark { off: n, .. } | Op::Pull { n } => n,
            Op::Trim { len } => Amount::Value(len),
            Op::ClearMark { .. } => Amount::Const(0),
            _ => return,
        };
        facts.after(op, self.ranges.amount(block, n), self.ranges.within(block, n));
    }

    /// Whether `n` bytes from the layer on are known to be there, in a block that uses `n`.
    pub fn covered(&self, facts: &Facts, block: BlockId, layer: Layer, n: Amount) -> bool {
        facts.covered(layer, n, self.ranges.amount(block, n))
    }

    /// Least number that an amount can be, in a block that uses it.
    pub fn least(&self, block: BlockId, n: Amount) -> u32 {
        self.ranges.amount(block, n).lo as u32
    }

    /// Greatest number that an amount can be, in a block that uses it.
    pub fn most(&self, block: BlockId, n: Amount) -> u32 {
        self.ranges.amount(block, n).hi as u32
    }

    /// What is known on the `i`th edge out of a block.
    pub(crate) fn edge(&self, facts: &Facts, block: BlockId, end: &End, i: usize) -> Facts {
        let mut facts = facts.clone();
        let range = end.amount().map_or(Range::ZERO, |n| self.ranges.amount(block, n));
        facts.go_out(end, i, range);
        if let (End::Require { layer, n, .. }, 0) = (end, i) {
            self.ranges.within(block, *n).iter().for_each(|&(v, _)| facts.cover(*layer, v));
        }
        facts
    }
}

/// The facts of a program.
pub fn facts(program: &Program) -> Known {
    facts_by(program, &Flow::of(program))
}

/// The same, where the paths between its blocks are known.
pub(crate) fn facts_by(program: &Program, flow: &Flow) -> Known {
    let n = program.blocks.len();
    let mut known = Known { at: vec![None; n], ranges: Ranges::of(program, flow) };
    // The first block in the order of the program is the next: most edges into a block come from blocks before it.
    let mut work = BinaryHeap::new();
    let mut rounds = vec![0; n];
    type Work = BinaryHeap<Reverse<BlockId>>;
    let mut flow =
        |known: &mut Known, work: &mut Work, from: Option<BlockId>, block: BlockId, facts: &Facts| {
            match &mut known.at[block.0 as usize] {
                slot @ None => *slot = Some(facts.clone()),
                Some(old) if facts.implies(old) => return,
                Some(old) if from.is_some_and(|from| from >= block) => {
                    let before = old.clone();
                    old.meet(facts);
                    rounds[block.0 as usize] += 1;
                    if rounds[block.0 as usize] > MAX_ROUNDS {
                        old.widen(&before);
                    }
                }
                Some(old) => old.meet(facts),
            }
            work.push(Reverse(block));
        };
    for e in &program.entries {
        flow(&mut known, &mut work, None, e.block, &Facts::none());
    }
    while let Some(Reverse(id)) = work.pop() {
        while work.peek() == Some(&Reverse(id)) {
            work.pop();
        }
        let Some(mut here) = known.at(id).cloned() else { continue };
        let block = program.block(id);
        for op in &block.ops {
            match op {
                Op::Fork { copy: true, target } => {
                    let mut facts = here.clone();
                    rename(program, target, 0, &mut facts);
                    flow(&mut known, &mut work, Some(id), target.block, &facts);
                }
                Op::Fork { copy: false, target } | Op::Release { target, .. } => {
                    flow(&mut known, &mut work, Some(id), target.block, &Facts::none());
                }
                _ => known.step(&mut here, id, op),
            }
        }
        for (i, t) in block.end.targets().into_iter().enumerate() {
            if i == 0 && block.end.amount().is_some() || !here.covers.is_empty() {
                let mut facts = known.edge(&here, id, &block.end, i);
                rename(program, t, block.end.supplied(i), &mut facts);
                flow(&mut known, &mut work, Some(id), t.block, &facts);
            } else {
                flow(&mut known, &mut work, Some(id), t.block, &here);
            }
        }
        if let End::Enter { block: next, .. } = block.end {
            here.covers.clear();
            flow(&mut known, &mut work, Some(id), next, &here);
        }
    }
    known
}

/// Follows the arguments of a jump to the parameters that take them.
fn rename(program: &Program, target: &Target, supplied: usize, facts: &mut Facts) {
    let params = &program.block(target.block).params;
    facts.rename(params, target.args.iter().copied().zip(params.iter().skip(supplied).copied()));
}

#[cfg(test)]
mod tests {
    use crate::{Builder, Layer, Reason, check};

    #[test]
    fn more_bytes_than_any_packet_has_may_be_asked_for() {
        for n in [(1 << 29) - 1, 1 << 29, 3 << 29, u32::MAX] {
            let mut b = Builder::new("Strip", 1, 1);
            b.input(0, |b| {
                b.require(Layer::Data, n, Reason::TRUNCATED);
                b.pull(n);
                b.emit(0);
            });
            assert_eq!(check(&b.finish()), Ok(()), "{n}");
            // What was not asked for is not there, however far it is.
            let mut b = Builder::new("Strip", 1, 1);
            b.input(0, |b| {
                b.require(Layer::Data, 20, Reason::TRUNCATED);
                b.pull(n);
                b.emit(0);
            });
            assert!(check(&b.finish()).is_err(), "{n}");
        }
    }
}

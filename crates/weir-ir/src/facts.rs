//! What is known at a place of a program about the bounds of the packet.
//!
//! The checker uses it to accept a program, the passes to remove what is known already, the compiler to leave out
//! bounds checks. Facts hold on every path to the place.

use std::collections::BTreeSet;

use crate::program::{Amount, BlockId, End, Layer, Op, Program, Target, Value};

/// Facts about the bytes behind each layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Bytes that are there from each layer on, in the order of [`Layer::ALL`]; `None`: the mark may be unset.
    bytes: [Option<u32>; 5],
    /// Layers that have at least so many bytes as a value says.
    covers: BTreeSet<(Layer, Value)>,
}

impl Facts {
    /// Nothing known (the packet has a first position, and 0 bytes behind it).
    pub fn none() -> Facts {
        Facts { bytes: [Some(0), None, None, None, None], covers: BTreeSet::new() }
    }

    /// Bytes known to be there from the layer on; `None` if the layer may be unset.
    pub fn bytes(&self, layer: Layer) -> Option<u32> {
        self.bytes[layer as usize]
    }

    /// Whether `n` bytes from the layer on are known to be there.
    pub fn covered(&self, layer: Layer, n: Amount) -> bool {
        match n {
            Amount::Const(n) => self.bytes(layer).is_some_and(|known| known >= n),
            Amount::Value(v) => self.covers.contains(&(layer, v)),
        }
    }

    /// What is known on two ways that meet.
    pub fn meet(&mut self, other: &Facts) {
        for (a, b) in self.bytes.iter_mut().zip(other.bytes) {
            *a = a.zip(b).map(|(a, b)| a.min(b));
        }
        self.covers.retain(|c| other.covers.contains(c));
    }

    fn forget_covers(&mut self, layer: Layer) {
        self.covers.retain(|(l, _)| *l != layer);
    }

    fn learn(&mut self, layer: Layer, n: Amount) {
        let known = self.bytes[layer as usize].unwrap_or(0);
        match n {
            Amount::Const(n) => self.bytes[layer as usize] = Some(known.max(n)),
            Amount::Value(v) => {
                self.bytes[layer as usize] = Some(known);
                self.covers.insert((layer, v));
            }
        }
    }

    /// What is known after an operation.
    pub fn after(&mut self, op: &Op) {
        match *op {
            Op::SetMark { layer, base, off } => {
                let known = self.bytes(base).unwrap_or(0);
                let moved: Vec<Value> = match off {
                    Amount::Const(0) => self.covers.iter().filter(|(l, _)| *l == base).map(|c| c.1).collect(),
                    _ => Vec::new(),
                };
                self.forget_covers(layer);
                self.bytes[layer as usize] = match off {
                    Amount::Const(off) => Some(known.saturating_sub(off)),
                    Amount::Value(_) => Some(0),
                };
                self.covers.extend(moved.into_iter().map(|v| (layer, v)));
            }
            Op::ClearMark { layer } => {
                self.bytes[layer as usize] = None;
                self.forget_covers(layer);
            }
            Op::Pull { n } => {
                let known = self.bytes(Layer::Data).unwrap_or(0);
                self.forget_covers(Layer::Data);
                self.bytes[0] = Some(match n {
                    Amount::Const(n) => known.saturating_sub(n),
                    Amount::Value(_) => 0,
                });
            }
            Op::Trim { .. } => *self = Facts::none(),
            _ => {}
        }
    }

    /// What is known on the `i`th way out of a block.
    pub fn on_edge(mut self, end: &End, i: usize) -> Facts {
        match (end, i) {
            (End::Require { layer, n, .. }, 0) => self.learn(*layer, *n),
            (End::Push { n, .. } | End::Unpull { n, .. }, 0) => {
                if let (Amount::Const(n), Some(known)) = (n, self.bytes(Layer::Data)) {
                    self.bytes[0] = Some(known.saturating_add(*n));
                }
            }
            _ => {}
        }
        self
    }

    /// Facts about a parameter of the target, where the argument had them. What was known of the parameters
    /// themselves is over: a loop header's get new values each round.
    fn rename(mut self, params: &[Value], args: &[(Value, Value)]) -> Facts {
        let mut extra = Vec::new();
        for (layer, v) in &self.covers {
            extra.extend(args.iter().filter(|(arg, _)| arg == v).map(|(_, param)| (*layer, *param)));
        }
        self.covers.retain(|(_, v)| !params.contains(v));
        self.covers.extend(extra);
        self
    }
}

/// The facts at the start of each block; `None` for blocks that nothing reaches.
pub fn facts(program: &Program) -> Vec<Option<Facts>> {
    let mut at: Vec<Option<Facts>> = vec![None; program.blocks.len()];
    let mut work: Vec<BlockId> = Vec::new();
    for e in &program.entries {
        flow(&mut at, &mut work, e.block, Facts::none());
    }
    while let Some(id) = work.pop() {
        let Some(mut here) = at[id.0 as usize].clone() else { continue };
        let block = program.block(id);
        for op in &block.ops {
            match op {
                Op::Fork { copy: true, target } => {
                    flow_to(program, &mut at, &mut work, target, 0, here.clone());
                }
                Op::Fork { copy: false, target } | Op::Release { target, .. } => {
                    flow(&mut at, &mut work, target.block, Facts::none());
                }
                _ => here.after(op),
            }
        }
        for (i, t) in block.end.targets().into_iter().enumerate() {
            let facts = here.clone().on_edge(&block.end, i);
            flow_to(program, &mut at, &mut work, t, block.end.supplied(i), facts);
        }
        if let End::Enter { block: next, .. } = block.end {
            here.covers.clear();
            flow(&mut at, &mut work, next, here);
        }
    }
    at
}

fn flow_to(
    program: &Program,
    at: &mut [Option<Facts>],
    work: &mut Vec<BlockId>,
    target: &Target,
    supplied: usize,
    facts: Facts,
) {
    let params = &program.block(target.block).params;
    let pairs: Vec<_> = target.args.iter().copied().zip(params.iter().skip(supplied).copied()).collect();
    flow(at, work, target.block, facts.rename(params, &pairs));
}

fn flow(at: &mut [Option<Facts>], work: &mut Vec<BlockId>, block: BlockId, facts: Facts) {
    match &mut at[block.0 as usize] {
        slot @ None => {
            *slot = Some(facts);
            work.push(block);
        }
        Some(known) => {
            let before = known.clone();
            known.meet(&facts);
            if *known != before {
                work.push(block);
            }
        }
    }
}

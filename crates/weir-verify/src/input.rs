//! What a path starts from.

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;

use weir_ir::program::{BinOp, BlockId, EntryKind, Layer, TableId, Width};
use weir_packet::{LARGE_CAPACITY, Packet};

use crate::explore::{Cut, Explorer, State};
use crate::expr::{At, EntryAt, Expr, Source, Symbol};
use crate::facts::Facts;
use crate::packet::SymbolicPacket;
use crate::path::Incomplete;

/// What is known about the start of a run. The bytes, annotations, metadata and tables may be anything.
#[derive(Debug, Clone)]
pub struct SymbolicInput {
    /// Length of the packet in bytes.
    pub len: RangeInclusive<u32>,
    /// Bytes in front of it that were pulled and can come back.
    pub pulled: RangeInclusive<u32>,
    /// Marks of `mac`, `net`, `transport` and `cursor`, relative to its first byte.
    pub marks: [Option<i32>; 4],
    /// Its hop count.
    pub hops: u8,
    /// Tables whose content the control side may have changed.
    pub edited: Vec<TableId>,
}

impl Default for SymbolicInput {
    /// A packet of any length without marks; tables that only the program changes.
    fn default() -> SymbolicInput {
        SymbolicInput {
            len: 0..=LARGE_CAPACITY,
            pulled: 0..=0,
            marks: [None; 4],
            hops: 0,
            edited: Vec::new(),
        }
    }
}

impl SymbolicInput {
    /// A packet of any length with the marks and hops of this one.
    pub fn like(p: &Packet) -> SymbolicInput {
        let mark = |i: usize| p.layer(Layer::ALL[i]).map(|at| at.wrapping_sub(p.data()) as i32);
        SymbolicInput {
            pulled: 0..=LARGE_CAPACITY,
            marks: [1, 2, 3, 4].map(mark),
            hops: p.hops,
            ..SymbolicInput::default()
        }
    }
}

impl Explorer<'_> {
    pub(crate) fn start(&mut self, entry: BlockId, input: &SymbolicInput) -> Result<State, Cut> {
        let zero = self.x.constant(Width::W8, 0);
        let mut st = State {
            block: entry,
            op: 0,
            values: vec![zero.0; self.p.types.len()],
            packet: None,
            strands: VecDeque::new(),
            entries: Vec::new(),
            insertions: vec![0; self.p.tables.len()],
            stirred: false,
            facts: Facts::default(),
            rounds: HashMap::new(),
            randoms: 0,
            ends: Vec::new(),
            notices: Vec::new(),
            orphans: Vec::new(),
            blocks: Vec::new(),
            laps: 0,
        };
        let kind = self.p.entries.iter().find(|e| e.block == entry).map(|e| &e.kind);
        match kind {
            None | Some(EntryKind::Packet { .. }) => {
                let p = SymbolicPacket::unknown(&mut self.x, Source::Input);
                self.learn_packet(&mut st, &p)?;
                self.learn_input(&mut st, &p, input)?;
                st.packet = Some(p);
            }
            Some(EntryKind::Timer { .. }) => {}
            Some(EntryKind::Expire { table }) => {
                let decl = &self.p.tables[table.0 as usize].decl;
                if decl.kind != weir_table::Kind::Exact {
                    return Err(self.give_up(Incomplete::TableKind));
                }
                let key: Vec<Expr> = (0..)
                    .zip(&decl.key)
                    .map(|(i, f)| self.x.symbol(f.width, Symbol::ArgKey(table.0, i)))
                    .collect();
                let at = EntryAt { table: table.0, at: At::Key(key.clone().into()) };
                let has = self.x.symbol(Width::W1, Symbol::Has(at.clone()));
                self.learn(&mut st, has)?;
                let e = self.old_entry(&mut st, at, key, None)?;
                self.set_raw(&mut st, self.p.block(entry).params[0], e as u32);
            }
            Some(EntryKind::Message { .. }) => {
                for (i, &param) in self.p.block(entry).params.iter().enumerate() {
                    let arg = self.x.symbol(self.p.width(param), Symbol::Arg(i as u32));
                    self.set(&mut st, param, arg);
                }
            }
        }
        self.enter_from_outside(&mut st, entry);
        Ok(st)
    }

    /// What holds of every packet.
    pub(crate) fn learn_packet(&mut self, st: &mut State, p: &SymbolicPacket) -> Result<(), Cut> {
        let (pulled, source) = (self.pulled(p), p.source());
        let len = self.x.bounded(Width::W32, Symbol::Len(source), 0, LARGE_CAPACITY.into());
        let end = self.x.binary(BinOp::Add, p.head, len);
        for (a, b) in [(end, p.capacity), (pulled, p.head)] {
            let fits = self.x.at_most(a, b);
            self.learn(st, fits)?;
        }
        Ok(())
    }

    fn learn_input(&mut self, st: &mut State, p: &SymbolicPacket, input: &SymbolicInput) -> Result<(), Cut> {
        let s = p.source();
        let pulled = self.pulled(p);
        for (e, range) in [(p.end.0, &input.len), (pulled, &input.pulled)] {
            let (lo, hi) = (*range.start(), (*range.end()).min(LARGE_CAPACITY));
            let lo = self.x.constant(Width::W32, lo.into());
            let hi = self.x.constant(Width::W32, hi.into());
            let (above, below) = (self.x.at_most(lo, e), self.x.at_most(e, hi));
            self.learn(st, above)?;
            self.learn(st, below)?;
        }
        for (layer, mark) in Layer::ALL[1..].iter().zip(input.marks) {
            let set = self.x.symbol(Width::W1, Symbol::MarkSet(s, *layer));
            let as_given = self.x.is(set, mark.is_some().into());
            self.learn(st, as_given)?;
            if let Some(at) = mark {
                let place = self.x.symbol(Width::W32, Symbol::MarkAt(s, *layer));
                let there = self.x.is(place, u128::from(at as u32));
                self.learn(st, there)?;
            }
        }
        let hops = self.x.is(p.hops, input.hops.into());
        self.learn(st, hops)
    }

    pub(crate) fn pulled(&mut self, p: &SymbolicPacket) -> Expr {
        match self.x.source(p.source()) {
            Source::Empty => self.x.constant(Width::W32, 0),
            _ => self.x.bounded(Width::W32, Symbol::Pulled(p.source()), 0, LARGE_CAPACITY.into()),
        }
    }
}

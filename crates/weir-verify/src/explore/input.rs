//! What a path starts from.

use std::ops::RangeInclusive;

use weir_ir::program::{BinOp, BlockId, EntryKind, Layer, MetaField, Width};
use weir_packet::entry::{self, Entry, Marks};
use weir_packet::{HUGE_CAPACITY, Packet, Provenance};

use crate::explore::branch::Branch;
use crate::explore::path::Incomplete;
use crate::explore::state::State;
use crate::explore::{Cut, Explorer};
use crate::model::expr::{At, EntryAt, Expr, Source, Symbol};
use crate::model::packet::SymbolicPacket;
use crate::network::NodeId;

/// The position of a mark, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It is not set.
    Unset,
    /// It is set, at this byte of the packet.
    At(i32),
    /// It is set. Where is not known: what depends on it is inconclusive.
    Somewhere,
}

/// The packet that a run starts with, as far as it is known. The bytes, and the tables, may be anything; so may annotations and metadata, but
/// for what an entry says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolicInput {
    /// Length of the packet in bytes.
    pub len: RangeInclusive<u32>,
    /// Bytes in front of it that were pulled and can come back.
    pub pulled: RangeInclusive<u32>,
    /// Marks of `mac`, `net`, `transport` and `cursor`.
    pub marks: [Known; 4],
    /// Its hop count.
    pub hops: u8,
    /// It is as it comes in so. `None`: it may lie anywhere in its buffer, and have any annotations and metadata.
    pub entry: Option<&'static Entry>,
    /// Its first bytes, as far as they are known.
    pub bytes: Vec<u8>,
}

impl Default for SymbolicInput {
    /// A packet of any length without marks.
    fn default() -> SymbolicInput {
        SymbolicInput {
            len: 0..=HUGE_CAPACITY,
            pulled: 0..=0,
            marks: [Known::Unset; 4],
            hops: 0,
            entry: None,
            bytes: Vec::new(),
        }
    }
}

impl SymbolicInput {
    /// Any packet that comes in so.
    pub fn of(entry: &'static Entry) -> SymbolicInput {
        let (mac, net, transport) = match entry.marks {
            Marks::None => (Known::Unset, Known::Unset, Known::Unset),
            Marks::Frame => (Known::At(0), Known::Unset, Known::Unset),
            Marks::Headers => (Known::Unset, Known::At(0), Known::Somewhere),
        };
        let marks = [mac, net, transport, Known::Unset];
        SymbolicInput { len: entry.len.clone(), marks, entry: Some(entry), ..SymbolicInput::default() }
    }

    /// Any Ethernet frame of a device.
    pub fn frame() -> SymbolicInput {
        SymbolicInput::of(&entry::DEVICE)
    }

    /// Any IP packet of a link of a topology.
    pub fn ip() -> SymbolicInput {
        SymbolicInput::of(&entry::WIRE)
    }

    /// A packet of any length with the marks and hops of this one.
    pub fn like(p: &Packet) -> SymbolicInput {
        let mark = |i: usize| {
            p.layer(Layer::ALL[i]).map_or(Known::Unset, |at| Known::At(at.wrapping_sub(p.data()) as i32))
        };
        SymbolicInput {
            pulled: 0..=HUGE_CAPACITY,
            marks: [1, 2, 3, 4].map(mark),
            hops: p.hops,
            ..SymbolicInput::default()
        }
    }
}

impl Branch<'_> {
    /// What holds of every packet.
    pub(crate) fn learn_packet(&mut self, st: &mut State, p: &SymbolicPacket) -> Result<(), Cut> {
        let (pulled, source) = (self.pulled(p), p.source());
        let len = self.x.bounded(Width::W32, Symbol::Len(source), 0, HUGE_CAPACITY.into());
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
            let (lo, hi) = (*range.start(), (*range.end()).min(HUGE_CAPACITY));
            let lo = self.x.constant(Width::W32, lo.into());
            let hi = self.x.constant(Width::W32, hi.into());
            let (above, below) = (self.x.at_most(lo, e), self.x.at_most(e, hi));
            self.learn(st, above)?;
            self.learn(st, below)?;
        }
        for (layer, mark) in Layer::ALL[1..].iter().zip(input.marks) {
            let set = self.x.symbol(Width::W1, Symbol::MarkSet(s, *layer));
            let as_given = self.x.is(set, (mark != Known::Unset).into());
            self.learn(st, as_given)?;
            if let Known::At(at) = mark {
                let place = self.x.symbol(Width::W32, Symbol::MarkAt(s, *layer));
                let there = self.x.is(place, u128::from(at as u32));
                self.learn(st, there)?;
            }
        }
        let ranges = input.entry.map(|e| {
            let (packet_type, checksum) = (e.packet_type.clone(), e.checksum.clone());
            [(MetaField::PacketType, packet_type), (MetaField::Checksum, checksum)]
        });
        for (field, range) in ranges.into_iter().flatten() {
            let value = p.meta(field);
            let [lo, hi] = [*range.start(), *range.end()].map(|v| self.x.constant(field.width(), v.into()));
            let (above, below) = (self.x.at_most(lo, value), self.x.at_most(value, hi));
            self.learn(st, above)?;
            self.learn(st, below)?;
        }
        if input.entry.is_some_and(|e| e.travelled) {
            return Ok(());
        }
        let hops = self.x.is(p.hops, input.hops.into());
        self.learn(st, hops)
    }

    pub(crate) fn pulled(&mut self, p: &SymbolicPacket) -> Expr {
        match self.x.source(p.source()) {
            Source::Empty => self.x.constant(Width::W32, 0),
            _ => self.x.bounded(Width::W32, Symbol::Pulled(p.source()), 0, HUGE_CAPACITY.into()),
        }
    }
}

impl Explorer<'_> {
    /// The packet with this number, as it comes in.
    pub(crate) fn incoming(&mut self, number: u32, input: &SymbolicInput) -> SymbolicPacket {
        let mut p = SymbolicPacket::unknown(&mut self.branch.x, Source::Input(number));
        if let Some(entry) = input.entry {
            p.enter(&mut self.branch.x, entry);
        }
        // Into a single program also packets come that others made.
        if self.net.closed() {
            *p.meta_mut(MetaField::Provenance) = self.branch.x.constant(Width::W8, Provenance::Sent as u128);
        }
        p
    }

    /// Makes the next packet that comes in, of which only `input` is known.
    pub(crate) fn next_packet(
        &mut self,
        st: &mut State,
        input: &SymbolicInput,
    ) -> Result<SymbolicPacket, Cut> {
        let p = self.incoming(st.inputs, input);
        st.inputs += 1;
        if input.entry.is_none_or(|e| !e.own_buffer) {
            self.branch.learn_packet(st, &p)?;
        }
        self.branch.learn_input(st, &p, input)?;
        for (i, b) in input.bytes.iter().enumerate() {
            let byte = p.byte(&mut self.branch.x, i as i64);
            let same = self.branch.x.is(byte, (*b).into());
            self.branch.learn(st, same)?;
        }
        Ok(p)
    }

    /// Starts one of a node's programs.
    pub(crate) fn start(
        &mut self,
        node: NodeId,
        entry: BlockId,
        input: &SymbolicInput,
    ) -> Result<Box<State>, Cut> {
        let mut st = State::fresh();
        self.place(&mut st, node, entry);
        st.running = true;
        let p = self.position.program(&st);
        let kind = p.entries.iter().find(|e| e.block == entry).map(|e| &e.kind);
        match kind {
            None | Some(EntryKind::Packet { .. }) => {
                let p = self.next_packet(&mut st, input)?;
                st.packet = Some(p);
            }
            Some(EntryKind::Timer { .. }) => {}
            Some(EntryKind::Expire { table }) => {
                let table = self.position.table(&st, *table);
                let decl = self.net.decl(table);
                if decl.kind != weir_table::Kind::Exact {
                    return Err(self.branch.give_up(Incomplete::TableKind));
                }
                let key: Vec<Expr> = (0..)
                    .zip(&decl.key)
                    .map(|(i, f)| self.branch.x.symbol(f.width, Symbol::ArgKey(table, i)))
                    .collect();
                let at = EntryAt { table, at: At::Key(key.clone().into()) };
                let has = self.branch.x.symbol(Width::W1, Symbol::Has(at.clone()));
                self.branch.learn(&mut st, has)?;
                let e = self.tables.old_entry(&mut self.branch, &mut st, at, key, None)?;
                self.position.set_raw(&mut st, p.block(entry).params[0], e as u32);
            }
            Some(EntryKind::Message { .. }) => {
                for (i, &param) in p.block(entry).params.iter().enumerate() {
                    let arg = self.branch.x.symbol(p.width(param), Symbol::Arg(i as u32));
                    self.position.set(&mut st, param, arg);
                }
            }
        }
        Ok(st)
    }
}

//! The packets of an evidence once more, on a network that may have changed since.

use weir_ir::interp::{load_meta, store_meta};
use weir_ir::program::{Layer, MetaField};
use weir_packet::{Checksum, Packet};

use super::{Evidence, Query};
use crate::explore::input::{Known, SymbolicInput};
use crate::explore::session::Entry;
use crate::network::{Network, NodeId};
use crate::solve::ConcreteInput;
use crate::solve::eval::HeldPackets;
use crate::solve::lazy_tables::LazyTables;
use crate::solve::replay::{Counted, Replay, replay};

/// Which packets that arrive at DST show something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Those that match there.
    Matching,
    /// Those that do not.
    Other,
    /// All.
    Any,
}

impl Shows {
    /// Which packets count for it: that one can arrive, the packet itself or an answer shows; that none does, anything that comes of it.
    pub(super) fn counted(self) -> Counted {
        match self {
            Shows::Matching => Counted::Answers,
            Shows::Other | Shows::Any => Counted::Released,
        }
    }
}

impl Evidence {
    /// The nodes that it speaks of, some more than once.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let entered = self.entered.iter().map(|e| match e {
            Entry::Packet(at, _) => at.node,
            Entry::Timer(node, _) => *node,
        });
        entered.chain(self.replay.hops.iter().map(|h| h.place.node))
    }

    /// What happens if the same packets come in at the same time, the host chooses alike, and tables begin as declared.
    /// `None`: a packet is too long.
    pub fn rerun(&self, net: &Network) -> Option<Replay> {
        let input = declared(&self.entered, &self.packets, &self.meta, &self.randoms)?;
        let input = ConcreteInput { now: self.now, hash_seed: self.hash_seed, ..input };
        Some(replay(net, &self.entered, input))
    }
}

impl Query {
    /// Evidence for the same with what happens now, if it still is one.
    pub fn still(&self, net: &Network, before: Evidence, shows: Shows) -> Option<Evidence> {
        let replay = before.rerun(net)?;
        // The path is not looked at here.
        let shown = self.via.is_empty() && self.shown(net, &replay, shows);
        shown.then_some(Evidence { replay, ..before })
    }

    /// Whether such a packet, of those that entered last, came to DST.
    pub(super) fn shown(&self, net: &Network, replay: &Replay, shows: Shows) -> bool {
        match shows {
            Shows::Matching => self.arrives(net, replay, shows.counted(), true),
            Shows::Other => self.arrives(net, replay, shows.counted(), false),
            Shows::Any => self.arrived(net, replay, shows.counted()).next().is_some(),
        }
    }
}

/// Metadata of a packet, in the order of [`MetaField::ALL`].
pub type Meta = [u128; MetaField::ALL.len()];

/// That of a packet.
pub(crate) fn meta_of(packet: &Packet) -> Meta {
    MetaField::ALL.map(|f| load_meta(packet, f))
}

/// Packets about to come into a network whose tables have their declared contents. Those for which no metadata is given have
/// that of a new packet.
pub(crate) fn declared(
    entered: &[Entry],
    packets: &[Vec<u8>],
    meta: &[Meta],
    randoms: &[u32],
) -> Option<ConcreteInput> {
    let inputs = entered.iter().filter_map(|e| match e {
        Entry::Packet(_, input) => Some(input),
        Entry::Timer(..) => None,
    });
    let meta = meta.iter().copied().map(Some).chain(std::iter::repeat(None));
    let packets = packets.iter().zip(inputs).zip(meta);
    let packets = packets.map(|((bytes, input), meta)| packet(bytes, input, meta)).collect::<Option<_>>()?;
    Some(ConcreteInput {
        packets,
        args: Vec::new(),
        now: 0,
        randoms: randoms.to_vec(),
        hash_seed: 0,
        tables: LazyTables::default(),
        held: HeldPackets::new(),
    })
}

fn packet(bytes: &[u8], input: &SymbolicInput, meta: Option<Meta>) -> Option<Packet> {
    let mut p = Packet::from_bytes(bytes).ok()?;
    for (layer, mark) in Layer::ALL.into_iter().skip(1).zip(input.marks) {
        let at = match mark {
            Known::Unset => None,
            Known::At(at) => Some(p.data().wrapping_add_signed(at)),
            Known::Somewhere => Some(p.data()),
        };
        p.set_layer(layer, at);
    }
    for (field, v) in meta.into_iter().flat_map(|meta| MetaField::ALL.into_iter().zip(meta)) {
        set_meta(&mut p, field, v);
    }
    Some(p)
}

/// Gives a packet that comes in metadata, also what no program can write.
pub(crate) fn set_meta(p: &mut Packet, field: MetaField, v: u128) {
    store_meta(p, field, v);
    // This says where a sum is left to a device.
    if field == MetaField::Checksum && v == Checksum::Partial as u128 {
        (p.csum, p.csum_start) = (Checksum::Partial as u8, p.data());
    }
}

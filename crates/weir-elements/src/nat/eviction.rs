//! Eviction: the capacity of rewriters, and which mapping is evicted when it is reached.

use weir_ir::Peers;

use super::flow::{Kinds, TCP_DATA, TCP_DONE, UDP_PACKETS};
use super::mapping::{self, nanos};
use super::rewriter;
use crate::prelude::*;

/// The time that mappings live without packets, and how much of that is guaranteed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spare {
    /// The same for all mappings.
    Same(Duration, Duration),
    /// As the state of the flow says: TCP without data from both sides, with it, and when both are done; UDP, and UDP
    /// streams. With the guarantee of each protocol.
    OfFlow(Kinds, ([Duration; 3], Duration), ([Duration; 2], Duration)),
}

impl Spare {
    /// What a mapping has left when its guarantee ends: nanoseconds.
    fn of(&self, b: &mut Builder, e: E) -> V {
        let spare = |timeout: Duration, guarantee| nanos(timeout.saturating_sub(guarantee));
        let (kind, tcp, udp) = match *self {
            Spare::Same(timeout, guarantee) => return b.constant(W64, spare(timeout, guarantee)),
            Spare::OfFlow(kind, (tcp, t), (udp, u)) => {
                (kind, tcp.map(|timeout| spare(timeout, t)), udp.map(|timeout| spare(timeout, u)))
            }
        };
        let state = b.get(e, "state");
        let [no_data, data, done] = tcp.map(|n| b.constant(W64, n));
        let all = |b: &mut Builder, bit: u8| {
            let both = bit | bit << 1;
            let bits = b.and(state, both);
            b.eq(bits, both)
        };
        let (both_data, both_done) = (all(b, TCP_DATA), all(b, TCP_DONE));
        let of_tcp = b.select(both_data, data, no_data);
        let of_tcp = b.select(both_done, done, of_tcp);
        let [short, long] = udp.map(|n| b.constant(W64, n));
        let streaming = b.gt(state, UDP_PACKETS);
        let of_udp = b.select(streaming, long, short);
        match kind {
            Kinds::Tcp => of_tcp,
            Kinds::Any => of_udp,
            Kinds::TcpAndUdp => {
                let proto = b.key(e, 0);
                let is_tcp = b.eq(proto, proto::TCP);
                b.select(is_tcp, of_tcp, of_udp)
            }
        }
    }

    /// How long a mapping that is made now lives, if it has no guarantee: nanoseconds. Then it is not made in place of one
    /// that lives longer.
    pub(super) fn unguaranteed(&self, b: &mut Builder, proto: V) -> Option<V> {
        let own = |timeout, guarantee: Duration| if guarantee.is_zero() { nanos(timeout) } else { u64::MAX };
        let (tcp, udp) = match *self {
            Spare::Same(timeout, guarantee) => {
                let n = own(timeout, guarantee);
                (n, n)
            }
            Spare::OfFlow(kind, ([tcp, ..], t), ([udp, ..], u)) => match kind {
                Kinds::Tcp => (own(tcp, t), own(tcp, t)),
                Kinds::Any => (own(udp, u), own(udp, u)),
                Kinds::TcpAndUdp => (own(tcp, t), own(udp, u)),
            },
        };
        let [of_tcp, of_udp] = [tcp, udp].map(|n| b.constant(W64, n));
        let is_tcp = b.eq(proto, proto::TCP);
        (tcp.min(udp) != u64::MAX).then(|| b.select(is_tcp, of_tcp, of_udp))
    }
}

/// A rewriter that has its capacity in common with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sharer {
    pub(super) name: String,
    pub(super) map: TableDecl,
    pub(super) spare: Spare,
}

/// The other rewriters of the graph that take their capacity from the one of that name, and this one if it is another;
/// `capacity` is how much that is.
pub(super) fn sharers(root: &str, capacity: u32, peers: &Peers<'_>) -> Vec<Sharer> {
    let others = rewriter::CLASSES.iter().flat_map(|class| peers.of_class(class));
    let others = others.filter(|peer| peer.name != peers.own());
    let mut all: Vec<Sharer> =
        others.filter_map(|peer| rewriter::sharer(&peer, root, capacity, peers)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The tables that count for a capacity.
#[derive(Debug)]
pub(super) struct Eviction {
    capacity: TableId,
    maps: Vec<(TableId, Spare)>,
}

impl Eviction {
    /// Of a rewriter with this table.
    pub(super) fn declare(b: &mut Builder, of: &mapping::Settings, own: &str, map: TableId) -> Eviction {
        let links = &of.inputs.1;
        let root = links.root.as_ref().unwrap_or(&of.name);
        let decl =
            TableDecl::new(&format!("{own}capacity"), Kind::Array, &[("index", W32)], &[("value", W32)], 1);
        let row = Row::exact(&[0], &[of.capacity.into()]);
        let capacity = mapping::shared(b, decl.configured(), format!("{root}.capacity"), vec![row]);
        let mut maps = vec![(map, of.spare.clone())];
        for other in &links.sharers {
            let decl = TableDecl { name: format!("{own}map of {}", other.name), ..other.map.clone() };
            let table = mapping::shared(b, decl, format!("{}.map", other.name), vec![]);
            maps.push((table, other.spare.clone()));
        }
        Eviction { capacity, maps }
    }

    /// Goes on if there is space for another mapping, of a packet of this protocol: if need be, the one that expires next
    /// is evicted. If its guarantee has not ended, or there is none, does `refuse`, which has to end.
    pub(super) fn require(&self, b: &mut Builder, proto: V, refuse: &dyn Fn(&mut Builder)) {
        let mut mappings = b.constant(W32, 0_u32);
        for (map, _) in &self.maps {
            // Two entries each, but for flows that are their own replies.
            let size = b.size(*map);
            let size = b.add(size, 1);
            let size = b.shr(size, 1);
            mappings = b.add(mappings, size);
        }
        let capacity = b.read_cell(self.capacity);
        let full = b.ge(mappings, capacity);
        b.when(full, |b| {
            let new = self.maps.first().and_then(|(_, own)| own.unguaranteed(b, proto));
            match &self.maps[..] {
                [(map, spare)] => {
                    let (e, left) = b.soonest(*map, refuse);
                    let stays = stays(b, e, left, spare, new);
                    b.when(stays, refuse);
                    b.remove(e);
                }
                several => make_space(b, several, new, refuse),
            }
        });
    }
}

/// Whether a mapping is not evicted for a new one, which has no guarantee if it is known how long it lives.
fn stays(b: &mut Builder, e: E, left: V, spare: &Spare, new: Option<V>) -> V {
    let least = spare.of(b, e);
    let guaranteed = b.gt(left, least);
    match new {
        Some(new) => {
            let longer = b.gt(left, new);
            b.or(guaranteed, longer)
        }
        None => guaranteed,
    }
}

/// Of several tables, removes the mapping that expires next.
fn make_space(b: &mut Builder, maps: &[(TableId, Spare)], new: Option<V>, refuse: &dyn Fn(&mut Builder)) {
    let none = b.constant(W64, u64::MAX);
    let mut best = none;
    for (map, spare) in maps {
        let left = left(b, *map, spare, new, none);
        let less = b.lt(left, best);
        best = b.select(less, left, best);
    }
    let all_guaranteed = b.eq(best, none);
    b.when(all_guaranteed, refuse);
    // A loop of one round: who has removed a mapping leaves it.
    b.repeat(1, &[], |b, round, _| {
        for (map, spare) in maps {
            let left = left(b, *map, spare, new, none);
            let this = b.eq(left, best);
            b.when(this, |b| {
                let (e, _) = b.soonest(*map, refuse);
                b.remove(e);
                round.leave(b, &[]);
            });
        }
        round.leave(b, &[]);
    });
}

/// What the mapping of a table that expires next has left; `none` if there is none, or it stays.
fn left(b: &mut Builder, map: TableId, spare: &Spare, new: Option<V>, none: V) -> V {
    let left = b.repeat(1, &[none], |b, round, _| {
        let (e, left) = b.soonest(map, |b| round.leave(b, &[none]));
        let stays = stays(b, e, left, spare, new);
        let left = b.select(stays, none, left);
        round.leave(b, &[left]);
    });
    left[0]
}

//! What the rewriters have in common: the table of mappings, its capacity, and the choice of free values.

use weir_table::{FieldDecl, Sharing};

use super::pattern::{InputSpec, InputSpecs, Order, Rewrite};
use crate::prelude::*;

/// Mappings that a rewriter has room for if its configuration does not say so.
pub(super) const DEFAULT_CAPACITY: u32 = 1 << 20;

/// The value fields that every mapping ends with. `outputs` are those of the whole flow, so that it can be listed.
const COMMON: [(&str, Width); 4] = [("output", W16), ("other_output", W16), ("input", W16), ("reply", W1)];

/// A rewriter's table and cells. The table has two entries for a mapping: one for each direction.
#[derive(Debug)]
pub(super) struct Mappings {
    pub(super) map: TableId,
    capacity: TableId,
    failures: TableId,
    outputs: Vec<u32>,
    /// For each input whose pattern gives out values in sequence: where the next search starts.
    next: Vec<Option<TableId>>,
}

/// Entries that the table of a rewriter has room for: its capacity may be raised while it runs.
pub(super) fn most_mappings(capacity: u32) -> u32 {
    capacity.clamp(DEFAULT_CAPACITY, weir_table::MAX_CAPACITY / 2)
}

impl Mappings {
    /// Declares the state of a rewriter.
    pub(super) fn declare(
        b: &mut Builder,
        specs: &InputSpecs,
        capacity: u32,
        key: &[(&str, Width)],
        value: &[(&str, Width)],
    ) -> Mappings {
        let value: Vec<_> = value.iter().chain(&COMMON).copied().collect();
        let decl = TableDecl::new("map", Kind::Exact, key, &value, most_mappings(capacity) * 2);
        // Both directions of a flow have to meet the same entries.
        let map = b.table(decl.sharing(Sharing::Owner), vec![]);
        let mut named: Vec<(&str, TableId)> = Vec::new();
        let next = specs.0.iter().enumerate().map(|(i, spec)| {
            let InputSpec::Map(Rewrite::By(pattern, name), _) = spec else { return None };
            if !pattern.is_sequential() {
                return None;
            }
            let Some(name) = name else { return Some(b.cell(&format!("next{i}"), W32, 0)) };
            if let Some((_, cell)) = named.iter().find(|(n, _)| n == name) {
                return Some(*cell);
            }
            // Rewriters that share a pattern take turns.
            let decl = TableDecl {
                shared_name: Some(format!("pattern {name}")),
                ..TableDecl::new(
                    &format!("next_{name}"),
                    Kind::Array,
                    &[("index", W32)],
                    &[("value", W32)],
                    1,
                )
            };
            let cell = b.table(decl, vec![Row::exact(&[0], &[0])]);
            named.push((name, cell));
            Some(cell)
        });
        let next = next.collect();
        Mappings {
            map,
            capacity: b.live("capacity", W32, capacity.into()),
            failures: b.cell("mapping_failures", W64, 0),
            outputs: specs.outputs(),
            next,
        }
    }

    /// Counts a flow that gets no mapping, and drops the packet.
    pub(super) fn fail(&self, b: &mut Builder) {
        count(b, self.failures);
        b.drop(Reason::FULL);
    }

    /// Goes on if there is room for another mapping.
    pub(super) fn require_room(&self, b: &mut Builder) {
        let size = b.size(self.map);
        let mappings = b.shr(size, 1);
        let capacity = b.read_cell(self.capacity);
        let full = b.ge(mappings, capacity);
        b.when(full, |b| self.fail(b));
    }

    /// Makes the entry of packets and the entry of replies: `key` is free, and of `reply_key` another mapping may
    /// have to give way.
    pub(super) fn insert_pair(&self, b: &mut Builder, key: &[V], reply_key: &[V]) -> (E, E) {
        b.lookup(self.map, reply_key, Builder::remove, |_| {});
        let forward = b.insert(self.map, key, |b| self.fail(b));
        let reply = b.insert(self.map, reply_key, |b| {
            b.remove(forward);
            self.fail(b);
        });
        (forward, reply)
    }

    /// As [`insert_pair`](Self::insert_pair), where field `hole` of `reply_key` becomes the first free value of a
    /// range; also gives that value. `own` is the value that is tried first if the order says so.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a claim")]
    pub(super) fn claim_pair(
        &self,
        b: &mut Builder,
        input: usize,
        key: &[V],
        reply_key: &[V],
        hole: u32,
        range: (u32, u32, Order),
        own: Option<V>,
    ) -> (E, E, V) {
        let (lo, hi, order) = range;
        let width = reply_key[hole as usize].width;
        let forward = b.insert(self.map, key, |b| self.fail(b));
        let start = match (order, own, self.next.get(input).copied().flatten()) {
            (Order::Own, Some(own), _) => self.own_start(b, reply_key, hole, (lo, hi), own),
            (Order::Sequential, _, Some(next)) => {
                let next = b.read_cell(next);
                b.resize(width, next)
            }
            _ => random_start(b, lo, hi, width),
        };
        let (lo_v, hi_v) = (b.constant(width, lo), b.constant(width, hi));
        let (reply, value) = b.claim(self.map, reply_key, hole, lo_v, hi_v, start, |b| {
            b.remove(forward);
            self.fail(b);
        });
        if let Some(next) = self.next.get(input).copied().flatten() {
            let at = b.sub(value, lo);
            let after = b.add(at, 1);
            // Behind the last value comes the first: the search wraps by itself, but a 16-bit sum must not.
            let wraps = b.eq(value, hi);
            let zero = b.constant(width, 0_u32);
            let after = b.select(wraps, zero, after);
            let after = b.resize(W32, after);
            b.write_cell(next, after);
        }
        (forward, reply, value)
    }

    /// The flow's own value if that is in the range and free, else a random place.
    fn own_start(&self, b: &mut Builder, reply_key: &[V], hole: u32, (lo, hi): (u32, u32), own: V) -> V {
        let offset = b.sub(own, lo);
        // A loop of one round: the ways that leave it pass the value on.
        let start = b.repeat(1, &[offset], |b, ways, vars| {
            let offset = vars[0];
            let inside = b.le(offset, hi - lo);
            b.when(inside, |b| {
                let mut key = reply_key.to_vec();
                key[hole as usize] = own;
                b.lookup(self.map, &key, |_, _| {}, |b| ways.leave(b, &[offset]));
            });
            let random = random_start(b, lo, hi, own.width);
            ways.leave(b, &[random]);
        });
        start[0]
    }

    /// Fills in what every mapping has, and ties its entries together. An entry that serves both directions becomes
    /// that of packets.
    pub(super) fn tie(
        &self,
        b: &mut Builder,
        (forward, reply): (E, E),
        input: usize,
        [out, reply_out]: [u32; 2],
    ) {
        for (e, out, other, is_reply) in [(reply, reply_out, out, 1_u8), (forward, out, reply_out, 0)] {
            b.set(e, "output", out);
            b.set(e, "other_output", other);
            b.set(e, "input", input as u32);
            b.set(e, "reply", is_reply);
        }
        b.link(forward, reply);
    }

    /// Sends the packet to the output of its mapping.
    pub(super) fn leave(&self, b: &mut Builder, e: E) {
        let output = b.get(e, "output");
        let cases: Vec<u128> = self.outputs.iter().map(|&o| o.into()).collect();
        // After a hot swap, mappings may lead to outputs that are gone.
        b.switch(output, &cases, |b, case| match case.and_then(|i| self.outputs.get(i)) {
            Some(&out) => b.emit(out),
            None => b.drop(Reason::UNCONNECTED),
        });
    }
}

fn random_start(b: &mut Builder, lo: u32, hi: u32, width: Width) -> V {
    let mut random = b.random();
    if let Some(span) = (hi - lo).checked_add(1) {
        random = b.rem(random, span);
    }
    b.resize(width, random)
}

/// A time as nanoseconds; at least 1, since 0 would be never.
pub(super) fn nanos(t: Duration) -> u64 {
    u64::try_from(t.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// One entry of the mapping table, for handlers.
pub(super) struct Mapping<'a> {
    table: &'a weir_table::Table,
    slot: u32,
    /// Seconds until it expires.
    expires: u64,
}

impl Mapping<'_> {
    /// All entries, ordered by key.
    pub(super) fn all<'a>(s: &'a State<'_>) -> Vec<Mapping<'a>> {
        let table = s.table("map");
        let mut rows: Vec<_> = table.rows();
        rows.sort_by_cached_key(|(slot, _)| -> Vec<u128> {
            (0..table.decl().key.len() as u32).map(|f| table.key(*slot, f)).collect()
        });
        let seconds = |slot| (table.expiry(slot).saturating_sub(s.now) + 500_000_000) / 1_000_000_000;
        rows.into_iter().map(|(slot, _)| Mapping { table, slot, expires: seconds(slot) }).collect()
    }

    /// A field of the key or the value; 0 if there is none of that name.
    pub(super) fn get(&self, name: &str) -> u32 {
        let named = |f: &FieldDecl| f.name == name;
        let decl = self.table.decl();
        let value = match decl.key.iter().position(named) {
            Some(i) => self.table.key(self.slot, i as u32),
            None => decl.value_field(name).map_or(0, |i| self.table.get(self.slot, i)),
        };
        value as u32
    }

    /// An address field.
    pub(super) fn addr(&self, name: &str) -> Ipv4Addr {
        self.get(name).into()
    }

    /// The end of a line in Click's format: outputs (the entry's own with a star), input, seconds left.
    pub(super) fn tail(&self) -> String {
        let (own, other) = (self.get("output"), self.get("other_output"));
        let outputs =
            if self.get("reply") == 0 { format!("*{own} {other}") } else { format!("{other} *{own}") };
        format!("[{outputs}] i{} exp{}", self.get("input"), self.expires)
    }
}

/// Number of mappings.
pub(super) fn mappings(s: &State<'_>) -> u32 {
    s.table("map").len() / 2
}

/// Changes the capacity, within what the table has room for.
pub(super) fn set_capacity(s: &mut State<'_>, value: &str) -> Result<(), String> {
    let capacity = u32::from_arg(value.trim())?;
    let most = s.table("map").decl().capacity / 2;
    if capacity > most {
        return Err(format!("{capacity} is more than the {most} mappings that the table has room for"));
    }
    s.set_cell("capacity", capacity.into());
    Ok(())
}

//! What the rewriters have in common: the table of mappings, its capacity, and the choice of free values.

use weir_table::Sharing;

use super::eviction::{Eviction, Spare};
use super::live::{self, Live, Range};
use super::pattern::{Choice, InputSpec, InputSpecs, Mapper, Order, Pattern, Rule};
use crate::prelude::*;

/// Mappings that a rewriter has space for if its configuration does not say so.
pub(super) const DEFAULT_CAPACITY: u32 = 1 << 20;

/// The value fields that every mapping ends with. `rule` is the number of the rule that made it.
const COMMON: [(&str, Width); 3] = [("output", W16), (RULE, W16), ("reply", W1)];
pub(super) const RULE: &str = "rule";
/// The value field of rewriters that remember an annotation for replies.
pub(super) const REPLY_ANNO: (&str, Width) = ("reply_anno", W8);

/// The settings that a rewriter's tables follow from. Elements that refer to a rewriter by name declare the same, and share them.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Full name of the rewriter.
    pub(super) name: String,
    pub(super) inputs: InputSpecs,
    pub(super) capacity: u32,
    /// Offset of the annotation that replies get back.
    pub(super) reply_anno: Option<u32>,
    pub(super) key: &'static [(&'static str, Width)],
    pub(super) value: &'static [(&'static str, Width)],
    /// When a mapping may be evicted for another.
    pub(super) spare: Spare,
    /// Mappings that the configuration makes: rows of a table like that of mappings.
    pub(super) fixed: Vec<Row>,
}

impl Settings {
    /// The declaration of the table of mappings. `own` stands before the name that the element has for it.
    pub(super) fn map(&self, own: &str) -> TableDecl {
        let common = COMMON.iter().chain(self.reply_anno.map(|_| &REPLY_ANNO));
        let value: Vec<_> = self.value.iter().chain(common).copied().collect();
        let capacity = most_mappings(self.capacity) * 2;
        // Both directions of a flow have to meet the same entries.
        TableDecl::new(&format!("{own}map"), Kind::Exact, self.key, &value, capacity).sharing(Sharing::Owner)
    }
}

/// A rewriter's table and cells. The table has two entries for a mapping: one for each direction.
#[derive(Debug)]
pub(super) struct Mappings {
    pub(super) map: TableId,
    /// The mappings that the configuration makes, if there are any. No other gets their values.
    pub(super) fixed: Option<TableId>,
    fixed_rows: u32,
    eviction: Eviction,
    failures: TableId,
    outputs: Vec<u32>,
    reply_anno: Option<u32>,
    /// For each rule whose pattern handlers may change: its numbers.
    patterns: Vec<Option<TableId>>,
    /// For each rule whose pattern gives out values in sequence: where the next search starts.
    next: Vec<Option<TableId>>,
    /// For each input with a mapper that takes turns: whose turn it is.
    turns: Vec<Option<TableId>>,
}

/// Entries that the table of a rewriter has space for: its capacity may be raised while it runs.
pub(super) fn most_mappings(capacity: u32) -> u32 {
    capacity.clamp(DEFAULT_CAPACITY, weir_table::MAX_CAPACITY / 2)
}

/// A table that the elements of a graph share by a name.
pub(super) fn shared(b: &mut Builder, decl: TableDecl, name: String, rows: Vec<Row>) -> TableId {
    b.table(TableDecl { shared_name: Some(name), ..decl }, rows)
}

/// A cell that the elements of a graph share by a name.
fn shared_cell(b: &mut Builder, own: &str, name: String, width: Width, init: u32) -> TableId {
    let decl = TableDecl::new(own, Kind::Array, &[("index", W32)], &[("value", width)], 1);
    shared(b, decl, name, vec![Row::exact(&[0], &[init.into()])])
}

impl Mappings {
    /// Declares the state of a rewriter. `own` stands before the names that the element has for its tables.
    pub(super) fn declare(b: &mut Builder, of: &Settings, own: &str) -> Mappings {
        let name = |what: &str| format!("{}.{what}", of.name);
        let map = shared(b, of.map(own), name("map"), vec![]);
        let mut named: Vec<(String, TableId)> = Vec::new();
        // An element declares a shared cell once, and rewriters that share a pattern or a mapper take turns.
        let mut cell = |b: &mut Builder, own: &str, name: String| match named.iter().find(|(n, _)| *n == name)
        {
            Some((_, cell)) => *cell,
            None => {
                let cell = shared_cell(b, own, name.clone(), W32, 0);
                named.push((name, cell));
                cell
            }
        };
        let mut next = Vec::new();
        for (i, (_, rule)) in of.inputs.rules().enumerate() {
            let sequential = rule.pattern.as_ref().is_some_and(Pattern::is_sequential);
            next.push(sequential.then(|| match &rule.name {
                Some(pattern) => cell(b, &format!("{own}next_{pattern}"), format!("pattern {pattern}")),
                None => cell(b, &format!("{own}next{i}"), name(&format!("next{i}"))),
            }));
        }
        let mut turns = Vec::new();
        for spec in &of.inputs.0 {
            turns.push(match spec {
                InputSpec::Mapper(Mapper { choice: Choice::RoundRobin, name, .. }) => {
                    Some(cell(b, &format!("{own}turn_{name}"), format!("mapper {name}")))
                }
                _ => None,
            });
        }
        let fixed = (!of.fixed.is_empty()).then(|| {
            let capacity = of.fixed.len() as u32;
            let decl = TableDecl { name: format!("{own}fixed"), capacity, ..of.map(own) };
            let decl = decl.sharing(Sharing::ReadMostly).configured();
            shared(b, decl, name("fixed"), of.fixed.clone())
        });
        Mappings {
            map,
            fixed,
            fixed_rows: of.fixed.len() as u32,
            eviction: Eviction::declare(b, of, own, map),
            failures: shared_cell(b, &format!("{own}mapping_failures"), name("mapping_failures"), W64, 0),
            outputs: of.inputs.outputs(),
            reply_anno: of.reply_anno,
            patterns: live::declare(b, of, own),
            next,
            turns,
        }
    }

    /// Handles a packet that no mapping fits as the specification of its input says. `create` makes the mapping of a
    /// rule, which has this number, or drops the packet; `apply` rewrites the packet by the entry that `key` then
    /// finds; both leave with the packet. `apply` is given the output of the packet that made the mapping, where the
    /// rule is known before the packet is.
    pub(super) fn unknown(
        &self,
        b: &mut Builder,
        inputs: &InputSpecs,
        input: usize,
        (key, src): (&[V], V),
        create: &dyn Fn(&mut Builder, usize, &Rule) -> Option<E>,
        apply: &dyn Fn(&mut Builder, E, Option<u32>),
    ) {
        match &inputs.0[input] {
            InputSpec::Drop => b.drop(Reason::NO_MATCH),
            InputSpec::Pass(out) => b.emit(*out),
            InputSpec::Map(rule) => match create(b, inputs.first_rule(input), rule) {
                Some(entry) => apply(b, entry, Some(rule.outputs[0])),
                None => b.drop(Reason::NO_MATCH),
            },
            InputSpec::Mapper(_) => {
                self.make(b, inputs, input, src, create);
                b.lookup(self.map, key, |b, entry| apply(b, entry, None), |b| self.fail(b));
            }
        }
    }

    /// Makes the mapping of a new flow from an address, and goes on; drops the packet if it cannot be made.
    pub(super) fn make(
        &self,
        b: &mut Builder,
        inputs: &InputSpecs,
        input: usize,
        src: V,
        create: &dyn Fn(&mut Builder, usize, &Rule) -> Option<E>,
    ) {
        let first = inputs.first_rule(input);
        let made = |b: &mut Builder, i: usize, rule: Option<&Rule>| {
            if rule.and_then(|rule| create(b, first + i, rule)).is_none() {
                b.drop(Reason::NO_MATCH);
            }
        };
        match &inputs.0[input] {
            InputSpec::Drop | InputSpec::Pass(_) => made(b, 0, None),
            InputSpec::Map(rule) => made(b, 0, Some(rule)),
            InputSpec::Mapper(mapper) => {
                let choice = self.choose(b, mapper, input, src);
                let cases: Vec<u128> = (0..mapper.rules.len() as u128).collect();
                b.switch(choice, &cases, |b, case| {
                    let i = case.unwrap_or(usize::MAX);
                    made(b, i.min(mapper.rules.len()), mapper.rules.get(i));
                });
            }
        }
    }

    /// Number of the mapper's rule for a new flow from an address.
    fn choose(&self, b: &mut Builder, mapper: &Mapper, input: usize, src: V) -> V {
        match (&mapper.choice, self.turns[input]) {
            (Choice::RoundRobin, Some(turn)) => {
                let choice = b.read_cell(turn);
                let next = b.add(choice, 1);
                let next = b.rem(next, mapper.rules.len() as u32);
                b.write_cell(turn, next);
                choice
            }
            (Choice::Ring(points), _) => {
                // Neighbouring addresses are to go to different places.
                let mixed = b.mul(src, 0x9e37_79b1_u32);
                let at = b.shr(mixed, 32 - RING_BITS);
                let rows = ring(points);
                let decl =
                    TableDecl::new(&format!("ring{input}"), Kind::Array, &[("at", W32)], &[("rule", W32)], 1);
                let decl = TableDecl { capacity: rows.len() as u32, ..decl };
                let table = b.table(decl.configured(), rows);
                let entry = b.find(table, &[at], |b| b.drop(Reason::NO_MATCH));
                b.get(entry, "rule")
            }
            (Choice::RoundRobin, None) => b.constant(W32, 0_u32),
        }
    }

    /// Counts a flow that gets no mapping for want of space, and drops the packet.
    pub(super) fn fail(&self, b: &mut Builder) {
        self.fail_as(b, Reason::FULL);
    }

    fn fail_as(&self, b: &mut Builder, reason: Reason) {
        count(b, self.failures);
        b.drop(reason);
    }

    /// The numbers of a rule's pattern.
    pub(super) fn live(&self, b: &mut Builder, rule: usize, pattern: &Pattern) -> Live {
        Live::read(b, pattern, self.patterns.get(rule).copied().flatten())
    }

    /// Goes on if there is space for another mapping, if need be of the one that expires next. `rule` is the number of the
    /// rule that is to make it, `proto` the protocol of its packet.
    pub(super) fn require_space(&self, b: &mut Builder, rule: usize, proto: V) {
        self.eviction.require(b, proto, &|b| {
            // As in Click, a flow that is refused takes its number with it.
            if let Some(next) = self.next.get(rule).copied().flatten() {
                let number = b.read_cell(next);
                let number = b.add(number, 1);
                b.write_cell(next, number);
            }
            self.fail(b);
        });
    }

    /// Makes the entry of packets and the entry of replies: `key` is free, and of `reply_key` another mapping may
    /// have to be evicted.
    pub(super) fn insert_pair(&self, b: &mut Builder, key: &[V], reply_key: &[V]) -> (E, E) {
        if let Some(fixed) = self.fixed {
            b.lookup(fixed, reply_key, |b, _| self.fail_as(b, Reason::NO_PORT), |_| {});
        }
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
        rule: usize,
        key: &[V],
        reply_key: &[V],
        hole: u32,
        range: Range,
        own: Option<V>,
    ) -> (E, E, V) {
        let Range { lo, hi, order, .. } = range;
        let width = reply_key[hole as usize].width;
        let start = match (order, own, self.next.get(rule).copied().flatten()) {
            (Order::Own, Some(own), _) => self.own_start(b, reply_key, hole, range, own),
            (Order::Sequential, _, Some(next)) => {
                let next = b.read_cell(next);
                b.resize(width, next)
            }
            _ => range.random(b),
        };
        // The table has space for more than the mappings that are allowed.
        let none = |b: &mut Builder| {
            self.fail_as(b, if width == W32 { Reason::NO_ADDRESS } else { Reason::NO_PORT });
        };
        // The reply's key first: that of packets may be the same, and is not to stand in its way.
        let (reply, value) = match self.fixed {
            None => b.claim(self.map, reply_key, hole, lo, hi, start, none),
            Some(fixed) => self.claim_beside(b, fixed, reply_key, hole, (lo, hi, start), &none),
        };
        let forward = b.insert(self.map, key, |b| {
            b.remove(reply);
            self.fail(b);
        });
        if let Some(next) = self.next.get(rule).copied().flatten() {
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

    /// Claims the first free value of a range that none of the mappings has that the configuration makes.
    fn claim_beside(
        &self,
        b: &mut Builder,
        fixed: TableId,
        reply_key: &[V],
        hole: u32,
        (lo, hi, start): (V, V, V),
        none: &dyn Fn(&mut Builder),
    ) -> (E, V) {
        let with = |value: V| {
            let mut key = reply_key.to_vec();
            key[hole as usize] = value;
            key
        };
        let (no, yes) = (b.constant(W1, 0_u8), b.constant(W1, 1_u8));
        let found = b.repeat(self.fixed_rows + 1, &[start, no], |b, round, vars| {
            let (e, value) = b.claim(self.map, reply_key, hole, lo, hi, vars[0], none);
            b.lookup(
                fixed,
                &with(value),
                |b, _| {
                    b.remove(e);
                    let place = b.sub(value, lo);
                    let next = b.add(place, 1);
                    // Behind the last value comes the first.
                    let wraps = b.eq(value, hi);
                    let first = b.constant(value.width, 0_u32);
                    let next = b.select(wraps, first, next);
                    round.next(b, &[next, no]);
                },
                |b| round.leave(b, &[value, yes]),
            );
        });
        b.unless(found[1], none);
        let e = b.find(self.map, &with(found[0]), none);
        (e, found[0])
    }

    /// The flow's own value if that is in the range and free, else a random place.
    fn own_start(&self, b: &mut Builder, reply_key: &[V], hole: u32, range: Range, own: V) -> V {
        let offset = b.sub(own, range.lo);
        // A loop of one round: the paths that leave it pass the value on.
        let start = b.repeat(1, &[offset], |b, round, vars| {
            let offset = vars[0];
            let last = range.last(b);
            let inside = b.le(offset, last);
            b.when(inside, |b| {
                let mut key = reply_key.to_vec();
                key[hole as usize] = own;
                b.lookup(self.map, &key, |_, _| {}, |b| round.leave(b, &[offset]));
            });
            let random = range.random(b);
            round.leave(b, &[random]);
        });
        start[0]
    }

    /// Fills in what every mapping has, and ties its entries together. An entry that serves both directions becomes
    /// that of replies: only the packet that made it leaves as a packet ([`leave`](Self::leave)).
    pub(super) fn tie(
        &self,
        b: &mut Builder,
        (forward, reply): (E, E),
        rule: usize,
        [out, reply_out]: [u32; 2],
    ) {
        for (e, out, is_reply) in [(forward, out, 0_u8), (reply, reply_out, 1)] {
            b.set(e, "output", out);
            b.set(e, "rule", rule as u32);
            b.set(e, "reply", is_reply);
            if let Some(at) = self.reply_anno {
                let value = b.load_anno(W8, at);
                b.set(e, REPLY_ANNO.0, value);
            }
        }
        b.link(forward, reply);
    }

    /// Gives the packet its annotations, and sends it to the output of its mapping. `first` is the output if the
    /// packet has just made the mapping.
    pub(super) fn leave(&self, b: &mut Builder, e: E, first: Option<u32>) {
        if let Some(out) = first {
            return b.emit(out);
        }
        self.annotate(b, e);
        let output = b.get(e, "output");
        self.emit(b, output);
    }

    /// Gives the packet its annotations.
    pub(super) fn annotate(&self, b: &mut Builder, e: E) {
        if let Some(at) = self.reply_anno {
            let is_reply = b.get(e, "reply");
            b.when(is_reply, |b| {
                let value = b.get(e, REPLY_ANNO.0);
                b.store_anno(at, value);
            });
        }
    }

    /// Sends the packet to an output by its number (16 bits).
    pub(super) fn emit(&self, b: &mut Builder, output: V) {
        let cases: Vec<u128> = self.outputs.iter().map(|&o| o.into()).collect();
        // After a hot swap, mappings may lead to outputs that are gone.
        b.switch(output, &cases, |b, case| match case.and_then(|i| self.outputs.get(i)) {
            Some(&out) => b.emit(out),
            None => b.drop(Reason::UNCONNECTED),
        });
    }
}

/// Bits of a place in a ring.
const RING_BITS: u32 = 12;

/// For each place of a ring the rule of the first point from there on.
fn ring(points: &[(u32, u32)]) -> Vec<Row> {
    let at = |place: u32| {
        let from = place << (32 - RING_BITS);
        points.iter().find(|(point, _)| *point >= from).or(points.first()).map_or(0, |(_, rule)| *rule)
    };
    (0..1 << RING_BITS).map(|place| Row::exact(&[place.into()], &[at(place).into()])).collect()
}

/// A time as nanoseconds; at least 1, since 0 would be never.
pub(super) fn nanos(t: Duration) -> u64 {
    u64::try_from(t.as_nanos()).unwrap_or(u64::MAX).max(1)
}

//! Ordered rules over the fields of a header as a decision diagram: one field after the other is split into the parts
//! that lead to different ends, and what leads to the same end is one part.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most nodes of a diagram.
const MAX_NODES: usize = 1 << 14;
/// Most work for a diagram: how many rules are looked at in all parts together.
const MAX_WORK: usize = 1 << 24;
/// Most intervals that one condition may consist of.
const MAX_INTERVALS: u32 = 1 << 12;

/// The test of a field: the bits of `mask` have to be those of `value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bits {
    /// Number of the field.
    pub field: usize,
    pub value: u32,
    /// Not 0.
    pub mask: u32,
}

/// A rule: what it asks for, and what it leads to.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub bits: Vec<Bits>,
    pub action: u32,
}

/// A node of a diagram.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The action of the first rule that fits, if one does.
    Leaf(Option<u32>),
    /// The parts of a field's values, each with the node that they lead to. They are disjoint; together they are all values.
    Split(usize, Vec<(Vec<Interval>, usize)>),
}

/// First and last value.
pub(super) type Interval = (u32, u32);

/// A decision diagram.
#[derive(Debug)]
pub(super) struct Diagram {
    pub nodes: Vec<Node>,
    pub root: usize,
}

impl Diagram {
    /// The diagram of ordered rules; fields, of so many bits, are looked at in their order. `None` if it gets too large.
    pub(super) fn new(widths: &[u32], rules: &[Rule]) -> Option<Diagram> {
        let mut make =
            Make { widths, rules, nodes: Vec::new(), numbers: HashMap::new(), made: HashMap::new(), work: 0 };
        let all = (0..u32::try_from(rules.len()).ok()?).collect();
        let root = make.node(0, all)?;
        Some(Diagram { nodes: make.nodes, root })
    }
}

struct Make<'a> {
    widths: &'a [u32],
    rules: &'a [Rule],
    nodes: Vec<Node>,
    numbers: HashMap<Node, usize>,
    /// For the first field that is still open and the rules that may still fit.
    made: HashMap<(usize, Vec<u32>), usize>,
    work: usize,
}

impl Make<'_> {
    fn bits(&self, rule: u32) -> &[Bits] {
        self.rules.get(rule as usize).map_or(&[], |r| &r.bits)
    }

    /// Whether a rule asks for no more, from this field on.
    fn is_decided(&self, rule: u32, from: usize) -> bool {
        self.bits(rule).iter().all(|b| b.field < from)
    }

    /// The node for rules of which all that they ask of fields before `from` is so.
    fn node(&mut self, from: usize, mut live: Vec<u32>) -> Option<usize> {
        if let Some(first) = live.iter().position(|&r| self.is_decided(r, from)) {
            live.truncate(first + 1);
        }
        let open = live.iter().flat_map(|&r| self.bits(r)).map(|b| b.field).filter(|&f| f >= from).min();
        let first = live.first().copied().filter(|&r| self.is_decided(r, from));
        let Some(field) = open.filter(|_| first.is_none()) else {
            let action = first.and_then(|r| self.rules.get(r as usize)).map(|r| r.action);
            return self.add(Node::Leaf(action));
        };
        if let Some(&made) = self.made.get(&(field, live.clone())) {
            return Some(made);
        }
        let mut parts: Vec<(Vec<Interval>, usize)> = Vec::new();
        let mut places: HashMap<usize, usize> = HashMap::new();
        for (values, rules) in self.sweep(field, &live)? {
            let next = self.node(field + 1, rules)?;
            let place = *places.entry(next).or_insert(parts.len());
            if place == parts.len() {
                parts.push((Vec::new(), next));
            }
            let (intervals, _) = parts.get_mut(place)?;
            match intervals.last_mut() {
                Some(last) if last.1.checked_add(1) == Some(values.0) => last.1 = values.1,
                _ => intervals.push(values),
            }
        }
        let made = match parts.as_slice() {
            [(_, only)] => *only,
            _ => self.add(Node::Split(field, parts))?,
        };
        self.made.insert((field, live), made);
        Some(made)
    }

    fn add(&mut self, node: Node) -> Option<usize> {
        if let Some(&number) = self.numbers.get(&node) {
            return Some(number);
        }
        let number = self.nodes.len();
        self.nodes.push(node.clone());
        self.numbers.insert(node, number);
        (number < MAX_NODES).then_some(number)
    }

    /// The values of a field in order, in intervals in which the same rules may still fit.
    fn sweep(&mut self, field: usize, live: &[u32]) -> Option<Vec<(Interval, Vec<u32>)>> {
        let width = *self.widths.get(field)?;
        let max = u32::MAX.checked_shr(32 - width)?;
        // Rules that begin to fit at a value, and that no longer do.
        let mut events: BTreeMap<u32, (Vec<u32>, Vec<u32>)> = BTreeMap::new();
        events.entry(0).or_default();
        for &rule in live {
            let asked = self.bits(rule).iter().filter(|b| b.field == field);
            let (value, mask) = asked.fold((0, 0), |(v, m), b| (v | b.value & b.mask, m | b.mask));
            for (lo, hi) in intervals(value, mask & max, max)? {
                events.entry(lo).or_default().0.push(rule);
                if hi < max {
                    events.entry(hi + 1).or_default().1.push(rule);
                }
            }
        }
        let mut active: BTreeSet<u32> = BTreeSet::new();
        let mut parts = Vec::with_capacity(events.len());
        let lasts: Vec<u32> = events.keys().skip(1).map(|lo| lo - 1).chain(std::iter::once(max)).collect();
        for ((lo, (begin, end)), hi) in events.into_iter().zip(lasts) {
            end.iter().for_each(|r| _ = active.remove(r));
            active.extend(begin);
            let mut fit = Vec::new();
            for &r in &active {
                fit.push(r);
                if self.is_decided(r, field + 1) {
                    break;
                }
            }
            self.work += fit.len() + 1;
            if self.work > MAX_WORK {
                return None;
            }
            parts.push(((lo, hi), fit));
        }
        Some(parts)
    }
}

/// The values up to `max` whose bits of `mask` are those of `value`. `None` if they are too many intervals.
fn intervals(value: u32, mask: u32, max: u32) -> Option<Vec<Interval>> {
    // Bits that do not matter below the last one that does make an interval; those above make several.
    let low = if mask == 0 { max } else { (1_u32 << mask.trailing_zeros()) - 1 };
    let free = max & !mask & !low;
    if free.count_ones() >= MAX_INTERVALS.trailing_zeros() {
        return None;
    }
    let mut all = Vec::with_capacity(1 << free.count_ones());
    // All subsets of the free bits, in ascending order.
    let mut subset = 0_u32;
    loop {
        all.push((value | subset, value | subset | low));
        subset = subset.wrapping_sub(free) & free;
        if subset == 0 {
            return Some(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Diagram {
        fn says(&self, fields: &[u32]) -> Option<u32> {
            let mut at = self.root;
            loop {
                match &self.nodes[at] {
                    Node::Leaf(action) => return *action,
                    Node::Split(field, parts) => {
                        let v = fields[*field];
                        let holds = |i: &Interval| i.0 <= v && v <= i.1;
                        let mut fits = parts.iter().filter(|(all, _)| all.iter().any(holds));
                        at = fits.next().unwrap().1;
                        assert!(fits.next().is_none(), "parts are disjoint");
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn a_diagram_says_what_the_first_rule_that_fits_says(
            rules in prop::collection::vec((prop::collection::vec((0_usize..3, any::<u8>(), 1_u8..), 0..4), 0_u32..3), 0..12),
            headers in prop::collection::vec([any::<u8>(), any::<u8>(), any::<u8>()], 64),
        ) {
            let rules: Vec<Rule> = rules.into_iter().map(|(bits, action)| {
                let mut own: BTreeMap<usize, Bits> = BTreeMap::new();
                for (field, value, mask) in bits {
                    let (value, mask) = (u32::from(value & mask), u32::from(mask));
                    own.insert(field, Bits { field, value, mask });
                }
                Rule { bits: own.into_values().collect(), action }
            }).collect();
            let diagram = Diagram::new(&[8, 8, 8], &rules).unwrap();
            for h in headers {
                let fits = |r: &&Rule| r.bits.iter().all(|b| u32::from(h[b.field]) & b.mask == b.value);
                let first = rules.iter().find(fits).map(|r| r.action);
                prop_assert_eq!(diagram.says(&h.map(u32::from)), first);
            }
        }
    }

    #[test]
    fn what_leads_to_the_same_end_is_one_part() {
        let bits = |field, value, mask| Bits { field, value, mask };
        let rules = [
            Rule { bits: vec![bits(0, 0x0a01_0000, 0xffff_0000)], action: 1 },
            Rule { bits: vec![bits(0, 0x0a00_0000, 0xff00_0000)], action: 0 },
            Rule { bits: vec![bits(0, 0x0b00_0000, 0xff00_0000)], action: 1 },
            Rule { bits: vec![bits(0, 0xc000_0000, 0xff00_0000), bits(1, 6, 0xff)], action: 2 },
            Rule { bits: vec![bits(1, 6, 0xff)], action: 2 },
        ];
        let d = Diagram::new(&[32, 8], &rules).unwrap();
        let Node::Split(0, parts) = &d.nodes[d.root] else { panic!("{d:?}") };
        // The rest, whose protocol is asked for; 10/8 without 10.1/16; 10.1/16 and 11/8.
        let intervals: Vec<usize> = parts.iter().map(|(all, _)| all.len()).collect();
        assert_eq!(intervals, [2, 2, 2]);
        assert_eq!(d.nodes.len(), 6);
    }

    #[test]
    fn masks_that_explode_are_refused() {
        // Every second bit, each rule another one: no field order is small.
        let bits = |i: u32| vec![Bits { field: 0, value: 0, mask: 0x5555_5555 << (i % 2) }];
        let rules: Vec<Rule> = (0..8).map(|i| Rule { bits: bits(i), action: i }).collect();
        assert!(Diagram::new(&[32], &rules).is_none());
    }
}

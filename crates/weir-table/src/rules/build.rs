//! Builds the index.
//!
//! Memory is bounded by a share of references: a node may copy its rules into children only as its share allows,
//! and gives what is left to them in proportion. Time is bounded by fuel, shared in the same way. What cannot be
//! separated within these bounds becomes a leaf of any size, compared one by one.

use std::collections::HashMap;

use super::choose::{self, Choice};
use super::index::{self, DEAD, END, HASH, HASH_HEAD, Index, LEAF, LEAF_HEAD, PLACES, Ref, head, tag};
use super::layout::{Field, Layout, Pattern};

/// Most rules of a leaf that is not divided further if that helps.
const LEAF_RULES: usize = 8;
/// References to rules: so many for each rule, and so many more for any set.
const REFS: (usize, usize) = (2, 6144);
/// Words of hashes and children of cuts, for each reference.
const WORDS: usize = 16;
/// Looks at a rule while choosing how to divide a node: so many for each rule, and so many more.
const FUEL: (usize, usize) = (1500, 200_000);
/// Most nodes above a node.
const DEPTH: u32 = 60;

/// The budget of a subtree.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// References to rules.
    pub refs: usize,
    /// Looks at rules.
    pub fuel: usize,
    depth: u32,
}

impl Share {
    /// What one rule of a subtree gets when a node is divided into sets of these sizes. Leaves need no more than
    /// their references.
    fn divide(self, sizes: impl Iterator<Item = usize>) -> Portion {
        let (mut left, mut rules) = (self.refs, 0);
        for n in sizes {
            if n <= LEAF_RULES {
                left = left.saturating_sub(n);
            } else {
                rules += n;
            }
        }
        Portion { share: Share { refs: left, depth: self.depth + 1, ..self }, rules }
    }
}

/// A share for subtrees with so many rules in all.
#[derive(Clone, Copy)]
struct Portion {
    share: Share,
    rules: usize,
}

impl Portion {
    /// The part of a subtree with `n` rules.
    fn of(self, n: usize) -> Share {
        let part = |all: usize| (all as u128 * n as u128 / self.rules.max(1) as u128) as usize;
        Share { refs: part(self.share.refs).max(n), fuel: part(self.share.fuel), depth: self.share.depth }
    }
}

/// The bits that all keys that reach a node, and may match there, have in common: value and mask of each word.
pub(super) type Region = Vec<(u64, u64)>;

/// The node where the search goes on after a subtree, and the best head it may find there.
#[derive(Clone, Copy)]
struct Next {
    at: Ref,
    best: u64,
}

/// The rules of an index under construction.
pub(super) struct Rules<'a> {
    pub index: &'a Index,
    pub layout: &'a Layout,
}

impl Rules<'_> {
    /// Value and mask of a word of a rule.
    pub fn pair(&self, rule: u32, word: usize) -> (u64, u64) {
        let at = rule as usize * self.index.stride() + 1 + 2 * word;
        (self.index.flat[at], self.index.flat[at + 1])
    }

    /// The mask of a word of a rule.
    pub fn mask(&self, rule: u32, word: usize) -> u64 {
        self.pair(rule, word).1
    }

    /// The range of values of a field that a rule gives as a range.
    pub fn span(&self, rule: u32, field: usize) -> Option<(u128, u128)> {
        let spans = self.index.spans_of(rule as usize);
        spans.iter().find(|s| usize::from(s.field) == field).map(|s| (s.lo, s.hi))
    }

    /// The smallest and the largest value of a field that a rule matches.
    pub fn hull(&self, rule: u32, field: usize) -> (u128, u128) {
        let f = self.layout.fields[field];
        self.span(rule, field).unwrap_or_else(|| hull(f, |w| self.pair(rule, w)))
    }

    /// Whether a rule matches all keys of a region.
    fn covers(&self, rule: u32, region: &Region) -> bool {
        let spans = self.index.spans_of(rule as usize);
        region.iter().enumerate().all(|(w, r)| self.mask(rule, w) & !r.1 == 0)
            && spans.iter().all(|s| {
                let (lo, hi) = hull(s.at, |w| region[w]);
                s.lo <= lo && hi <= s.hi
            })
    }
}

/// The smallest and the largest value of a field under values and masks of words.
pub(super) fn hull(f: Field, pair: impl Fn(usize) -> (u64, u64)) -> (u128, u128) {
    let (mut value, mut mask) = ([0; 3], [0; 3]);
    let first = (f.at / 64) as usize;
    let last = ((f.at + f.bits - 1) / 64) as usize;
    for w in first..=last {
        (value[w - first], mask[w - first]) = pair(w);
    }
    let f = Field { at: f.at % 64, bits: f.bits };
    let (value, mask) = (f.get(&value), f.get(&mask));
    (value & mask, value & mask | f.max() & !mask)
}

struct Builder<'a> {
    layout: &'a Layout,
    index: Index,
    /// Words that hashes and cuts may still take.
    words: usize,
}

/// Builds the index of rules, best first. `None` if they are too many for its references.
pub(super) fn build(layout: &Layout, rules: &[(Option<Pattern>, u32)]) -> Option<Index> {
    let mut index = Index::empty(layout);
    let stride = index.stride();
    let refs = rules.len() * REFS.0 + REFS.1;
    if refs * (stride + LEAF_HEAD + WORDS) > PLACES {
        return None;
    }
    index.flat.reserve_exact(rules.len() * stride);
    for (i, (pattern, slot)) in rules.iter().enumerate() {
        let rank = index::rank(i);
        match pattern {
            Some(p) => {
                index.flat.push(head(rank, !p.spans.is_empty(), *slot));
                index.flat.extend(&p.pairs);
                index.spans.extend(&p.spans);
            }
            // No key matches it, so it is as if it were removed.
            None => {
                index.flat.push(head(rank, false, DEAD));
                index.flat.extend(std::iter::repeat_n(0, stride - 1));
            }
        }
        index.span_at.push(index.spans.len() as u32);
    }
    index.hides = vec![false; rules.len()];
    let set: Vec<u32> = (0..rules.len() as u32).filter(|&i| rules[i as usize].0.is_some()).collect();
    let share = Share { refs, fuel: FUEL.0 * set.len() + FUEL.1, depth: 0 };
    let mut builder = Builder { layout, index, words: refs * WORDS };
    let region = vec![(0, 0); layout.words];
    let root = builder.node(set, &region, Next { at: END, best: index::NONE }, share);
    let mut index = builder.index;
    index.root = root;
    index.nodes.shrink_to_fit();
    index.leaves.shrink_to_fit();
    Some(index)
}

impl Builder<'_> {
    fn rules(&self) -> Rules<'_> {
        Rules { index: &self.index, layout: self.layout }
    }

    fn head(&self, rule: u32) -> u64 {
        self.index.flat[rule as usize * self.index.stride()]
    }

    /// Builds the subtree of rules (best first) for the keys of a region.
    fn node(&mut self, mut set: Vec<u32>, region: &Region, next: Next, mut share: Share) -> Ref {
        if set.is_empty() {
            return next.at;
        }
        if set.len() > LEAF_RULES {
            let rules = self.rules();
            if let Some(i) = set.iter().position(|&r| rules.covers(r, region))
                && i + 1 < set.len()
            {
                self.index.hides[set[i] as usize] = true;
                set.truncate(i + 1);
            }
        }
        if set.len() > LEAF_RULES && share.depth < DEPTH {
            match choose::choose(&self.rules(), &set, region, &mut share) {
                Some(Choice::Cut(window, limit)) if self.take(1 << window.bits) => {
                    return self.cut(&set, region, next, share, window, limit);
                }
                // At most: all rules in groups of their own, four cells for each.
                Some(Choice::Hash(masks)) if self.take(HASH_HEAD + masks.len() + 5 * set.len()) => {
                    return self.hash(&set, region, next, share, &masks);
                }
                _ => {}
            }
        }
        self.leaf(&set, next)
    }

    fn take(&mut self, words: usize) -> bool {
        let enough = self.words >= words;
        self.words -= if enough { words } else { 0 };
        enough
    }

    fn leaf(&mut self, set: &[u32], next: Next) -> Ref {
        let stride = self.index.stride();
        let place = self.index.nodes.len();
        self.index.leaves.push(place as u32);
        self.index.nodes.extend([next.at, next.best >> 36 << 32 | set.len() as u64]);
        for &r in set {
            let at = r as usize * stride;
            self.index.nodes.extend(&self.index.flat[at..at + stride]);
        }
        index::node(LEAF, place)
    }

    /// Builds the tree of the rules that are left over, to be searched before `next`.
    fn rest(&mut self, rest: Vec<u32>, region: &Region, next: Next, portion: Portion) -> Next {
        let Some(&first) = rest.first() else { return next };
        let best = self.head(first).min(next.best);
        let share = portion.of(rest.len());
        Next { at: self.node(rest, region, next, share), best }
    }

    fn cut(
        &mut self,
        set: &[u32],
        region: &Region,
        next: Next,
        share: Share,
        window: choose::Window,
        limit: u32,
    ) -> Ref {
        let mut children = vec![Vec::new(); 1 << window.bits];
        let mut rest = Vec::new();
        let rules = self.rules();
        let view = choose::View::new(&rules, window, region);
        for &r in set {
            let hits = view.hits(r);
            if hits.count() > limit {
                rest.push(r);
            } else {
                hits.each(window.bits, |c| children[c as usize].push(r));
            }
        }
        // Children with the same rules are one node.
        let mut same: HashMap<Vec<u32>, Vec<usize>> = HashMap::new();
        for (i, child) in children.into_iter().enumerate().filter(|(_, c)| !c.is_empty()) {
            same.entry(child).or_default().push(i);
        }
        let mut groups: Vec<_> = same.into_iter().collect();
        groups.sort_unstable_by_key(|(_, numbers)| numbers[0]);
        let portion = share.divide(groups.iter().map(|g| g.0.len()).chain([rest.len()]));
        let next = self.rest(rest, region, next, portion);

        let place = self.index.nodes.len();
        self.index.nodes.resize(place + (1 << window.bits), next.at);
        for (child, numbers) in groups {
            let first = numbers[0] as u64;
            let agreed = numbers.iter().fold((1 << window.bits) - 1, |m, &n| m & !(n as u64 ^ first));
            let mut inner = region.clone();
            let (v, m) = &mut inner[window.word];
            *v |= (first & agreed) << window.shift;
            *m |= agreed << window.shift;
            let part = portion.of(child.len());
            let at = self.node(child, &inner, next, part);
            for n in numbers {
                self.index.nodes[place + n] = at;
            }
        }
        index::cut(place, window.word, window.shift, window.bits)
    }

    fn hash(&mut self, set: &[u32], region: &Region, next: Next, share: Share, masks: &[u64]) -> Ref {
        let rules = self.rules();
        let (inside, rest): (Vec<u32>, Vec<u32>) =
            set.iter().partition(|&&r| masks.iter().enumerate().all(|(w, m)| m & !rules.mask(r, w) == 0));
        let (seed, log, groups) = self.groups(&inside, masks);
        let portion = share.divide(groups.iter().map(|g| g.1.len()).chain([rest.len()]));
        let next = self.rest(rest, region, next, portion);

        let place = self.index.nodes.len();
        self.index.nodes.extend([next.at, seed, u64::from(log)]);
        self.index.nodes.extend(masks);
        let cells = place + HASH_HEAD + masks.len();
        let size = 1usize << log;
        let links = cells + size;
        self.index.nodes.resize(links + groups.len(), 0);
        for (link, (tag, group)) in groups.into_iter().enumerate() {
            // Keys that come here without the values of these rules (their tag is equal) match none of them.
            let rules = self.rules();
            let mut inner = region.clone();
            for (w, &m) in masks.iter().enumerate() {
                let value = rules.pair(group[0], w).0;
                let agreed = group.iter().fold(m, |m, &r| m & !(rules.pair(r, w).0 ^ value));
                inner[w] = (inner[w].0 | value & agreed, inner[w].1 | agreed);
            }
            let part = portion.of(group.len());
            self.index.nodes[links + link] = self.node(group, &inner, next, part);
            let mut i = (u64::from(tag) >> (32 - log)) as usize;
            while self.index.nodes[cells + i] != 0 {
                i = (i + 1) & (size - 1);
            }
            self.index.nodes[cells + i] = u64::from(tag) << 32 | (links + link - place) as u64;
        }
        index::node(HASH, place)
    }

    /// Rules by their tag, with the seed and the logarithm of the number of cells for the tags.
    fn groups(&self, set: &[u32], masks: &[u64]) -> (u64, u32, Vec<(u32, Vec<u32>)>) {
        let rules = self.rules();
        let mut seed = 0x243f_6a88_85a3_08d3_u64;
        loop {
            let mut tags: Vec<(u32, u32)> =
                set.iter().map(|&r| (tag(masks.len(), seed, |w| rules.pair(r, w).0 & masks[w]), r)).collect();
            tags.sort_unstable();
            let groups: Vec<(u32, Vec<u32>)> = tags
                .chunk_by(|a, b| a.0 == b.0)
                .map(|g| (g[0].0, g.iter().map(|&(_, r)| r).collect()))
                .collect();
            let log = (2 * groups.len()).next_power_of_two().ilog2().clamp(1, 28);
            // Rules made to collide meet another seed; four are tried.
            let crowded = groups.windows(33).any(|g| u64::from(g[32].0 - g[0].0) >> (32 - log) <= 4);
            if !crowded || seed & 3 == 2 {
                return (seed, log, groups);
            }
            seed = seed.wrapping_add(1);
        }
    }
}

//! What a lookup costs, about, as the index stands: for who decides whether it pays to keep results.

use super::index::{CUT, HASH, Index, LEAF, LEAF_HEAD, NONE, PLACES};
use super::{Rules, RulesView};

/// Rules that the mean is taken of.
const SAMPLES: usize = 32;
/// Nanoseconds, on a machine of 2025: the call; a cut; a hash; a leaf; a rule in it. A branch that depends on the key is
/// mispredicted half the time.
const CALL: u32 = 4;
/// What the form without a call takes.
const TUPLE_COST: u32 = 4;
const CUT_COST: u32 = 2;
const HASH_COST: u32 = 5;
const LEAF_COST: u32 = 4;
const RULE_COST: u32 = 1;
/// Nanoseconds until a node is read, in the caches that have space for so many bytes; in others, the last.
const FETCH_COST: [(usize, u32); 3] = [(32 << 10, 0), (512 << 10, 3), (usize::MAX, 10)];

impl Rules {
    /// What the search for a key costs in nanoseconds, about: the mean over keys that some of the rules match.
    pub fn lookup_cost(&self) -> u32 {
        if self.view().algorithm == RulesView::TUPLE {
            return TUPLE_COST;
        }
        let total = self.index.flat.len() / self.index.stride();
        let step = total.div_ceil(SAMPLES).max(1);
        let bytes = 8 * self.index.nodes.len();
        let fetch = FETCH_COST.iter().find(|f| bytes < f.0).map_or(0, |f| f.1);
        let (mut sum, mut n) = (0, 0);
        for at in (0..total).step_by(step) {
            sum += CALL + self.index.walk_cost(&self.index.key_of(at), fetch);
            n += 1;
        }
        sum / n.max(1) + RULE_COST * self.added.len() as u32
    }
}

impl Index {
    /// A key that a rule matches, if its spans do not say otherwise: with any bits where its masks have none.
    fn key_of(&self, at: usize) -> Vec<u64> {
        let rule = &self.flat[at * self.stride()..][..self.stride()];
        let mut random = at as u64;
        let word = |pair: &[u64]| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            pair[0] | (random ^ random >> 32) & !pair[1]
        };
        rule[1..].chunks_exact(2).map(word).collect()
    }

    /// Follows [`search`](Index::search); `fetch` is what it takes to read a node.
    fn walk_cost(&self, key: &[u64], fetch: u32) -> u32 {
        let (mut at, mut best, mut cost) = (self.root, NONE, 0);
        loop {
            let place = at as usize & PLACES;
            cost += fetch;
            at = match at >> 62 {
                LEAF => {
                    let (next, count) = (self.nodes[place], self.nodes[place + 1]);
                    let entries = &self.nodes[place + LEAF_HEAD..][..count as u32 as usize * self.stride()];
                    let found = self.scan::<0>(entries, key, best);
                    let looked_at = entries.chunks_exact(self.stride()).take_while(|e| e[0] < found).count();
                    best = found;
                    cost += LEAF_COST + RULE_COST * self.words as u32 * looked_at as u32;
                    if best >> 36 <= count >> 32 {
                        return cost;
                    }
                    next
                }
                CUT => {
                    cost += CUT_COST;
                    let word = key[(at >> 32) as usize & 31] >> (at >> 37 & 63);
                    self.nodes[place + (word & ((1 << (at >> 43 & 31)) - 1)) as usize]
                }
                HASH => {
                    cost += HASH_COST;
                    self.probe::<0>(place, key)
                }
                _ => return cost,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::KeyMatch;
    use crate::rules::classbench::{FIVE_TUPLE, Style, rules};

    fn cost(keys: &[Vec<KeyMatch>]) -> u32 {
        let mut all = Rules::new(&FIVE_TUPLE);
        keys.iter().zip(0..).for_each(|(key, slot)| all.insert(0, key, slot));
        all.settle();
        all.lookup_cost()
    }

    #[test]
    fn large_and_mixed_sets_cost_more() {
        let mixed = [0, 10, 1000, 10_000].map(|n| cost(&rules(Style::Firewall, n, 1)));
        assert_eq!(mixed[0], TUPLE_COST);
        assert!(mixed[1] < mixed[2] && mixed[2] < mixed[3], "{mixed:?}");
        // One hash under a mask finds them all.
        let exact = |i: u128| [i, 7, 80, 443, 6].map(KeyMatch::Exact).to_vec();
        let hashed = cost(&(0..10_000).map(exact).collect::<Vec<_>>());
        assert!(2 * hashed < mixed[3], "{hashed}, {mixed:?}");
    }
}

//! Rules that look at the same bits, in the form that compiled code searches without a call.
//!
//! One hash under one mask (a single tuple of Srinivasan et al. 1999) finds the rules that have all bits of the mask; a few
//! others, as a last rule for everything, are compared one by one. A group of the hash has up to 16 tags, compared with
//! the key's at once (SIMD), and no key is ever looked for in a second group: sets that do not come out like this stay
//! with the tree.

use super::index::NONE;
use super::layout::Pattern;

/// Most words of a key.
pub const WORDS: usize = 4;
/// Most rules of a group.
const GROUP: usize = 16;
/// Rules of a group on average, at most.
const MEAN: usize = 4;
/// Most rules with the same bits under the mask.
const SAME: usize = 8;
/// Most rules without the bits of the mask.
const OTHERS: usize = 4;
/// Most rules compared one by one: others, and those added since.
const COMPARED: usize = 24;
/// Rules that look at more different sets of bits than this are not worth a try.
const SHAPES: usize = 16;
/// For each number of groups so many hashes are tried.
const SEEDS: u64 = 3;

/// The part that compiled code reads. The pointers are good until the next change of the rules or their end.
///
/// A key matches an entry (head; value and mask of each word) if every word has the value under the mask. Of the
/// entries that match, the least head counts: the slot is its lower half, and all ones are no rule.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RulesView {
    /// [`RulesView::CALL`] or [`RulesView::TUPLE`].
    pub algorithm: u32,
    /// The mask for each word.
    pub masks: [u64; WORDS],
    /// The hash of masked words `w` is the exclusive or, for each pair of words, of both halves of the product
    /// `(w[i] ^ salts[i]) * (w[i + 1] ^ salts[i + 1])`; a word that is missing is 0.
    pub salts: [u64; WORDS],
    /// A hash `h` belongs to the group at `groups + (h & wrap)`.
    pub wrap: u64,
    /// Groups of 32 bytes: 16 tags, then how many bytes after `cells` their entries begin. The tag of a hash is its upper
    /// 7 bits below a bit that is set; of entries that match, the first is the best.
    pub groups: *const Group,
    /// Entries that have all bits of the mask.
    pub cells: *const u64,
    /// The other entries, best first; the last one matches every key, and is no rule.
    pub others: *const u64,
    /// The head of the first of these.
    pub best: u64,
}

impl RulesView {
    /// Call [`Table::find_rule`](crate::Table::find_rule).
    pub const CALL: u32 = 0;
    /// One group, and `others`.
    pub const TUPLE: u32 = 1;
    /// Most words of a key that is not for the call.
    pub const WORDS: usize = WORDS;
    /// Size of a group in bytes.
    pub const GROUP: usize = size_of::<Group>();

    pub(crate) const NONE: RulesView = RulesView {
        algorithm: RulesView::CALL,
        masks: [0; WORDS],
        salts: [0; WORDS],
        wrap: 0,
        groups: std::ptr::null(),
        cells: std::ptr::null(),
        others: std::ptr::null(),
        best: NONE,
    };
}

/// See [`RulesView::groups`]. Empty places have the tag 0.
#[repr(C, align(32))]
#[derive(Debug, Clone, Copy, Default)]
pub struct Group {
    tags: [u8; GROUP],
    cells: u64,
}

/// An entry: head, pairs of value and mask.
pub(super) type Entry<'a> = (u64, &'a [u64]);

/// Rules of one tuple, and a few others.
#[derive(Debug)]
pub(super) struct Tuple {
    words: usize,
    masks: [u64; WORDS],
    salts: [u64; WORDS],
    groups: Vec<Group>,
    cells: Vec<u64>,
    /// Heads and pairs of the rules that lack bits of the mask, best first.
    lacking: Vec<(u64, Vec<u64>)>,
    /// See [`RulesView::others`].
    others: Vec<u64>,
    /// Whether rules were added that need the call.
    call: bool,
}

impl Tuple {
    /// The form of rules, best first. `None` if they have none.
    pub fn build(words: usize, rules: &[(u64, Option<&Pattern>)]) -> Option<Tuple> {
        let rules = || rules.iter().filter_map(|&(head, p)| Some((head, p?)));
        if words > WORDS || rules().any(|(_, p)| !p.spans.is_empty()) {
            return None;
        }
        let mut shapes: Vec<([u64; WORDS], usize)> = Vec::new();
        for (_, p) in rules() {
            let masks = masks(&p.pairs);
            match shapes.iter().position(|s| s.0 == masks) {
                Some(i) => shapes[i].1 += 1,
                None if shapes.len() == SHAPES => return None,
                None => shapes.push((masks, 1)),
            }
        }
        let entries: Vec<Entry<'_>> = rules().map(|(head, p)| (head, &p.pairs[..])).collect();
        candidates(shapes).into_iter().find_map(|masks| Tuple::under(words, masks, &entries))
    }

    /// The form under a mask.
    fn under(words: usize, masks: [u64; WORDS], rules: &[Entry<'_>]) -> Option<Tuple> {
        let has = |&&(_, pairs): &&Entry<'_>| (0..words).all(|w| masks[w] & !pairs[2 * w + 1] == 0);
        let lacking: Vec<_> =
            rules.iter().filter(|e| !has(e)).take(OTHERS + 1).map(|e| (e.0, e.1.to_vec())).collect();
        if lacking.len() > OTHERS {
            return None;
        }
        let inside: Vec<Entry<'_>> = rules.iter().filter(has).copied().collect();
        let mut tuple = Tuple {
            words,
            masks,
            salts: [0; WORDS],
            groups: Vec::new(),
            cells: Vec::new(),
            lacking,
            others: Vec::new(),
            call: false,
        };
        let least = inside.len().div_ceil(MEAN).next_power_of_two();
        let sizes = [least, 2 * least, 4 * least];
        if !sizes.into_iter().any(|n| (0..SEEDS).any(|seed| tuple.place(n, seed, &inside))) {
            return None;
        }
        tuple.list([].into_iter());
        Some(tuple)
    }

    /// Puts rules into `n` groups (a power of two). Whether they fit.
    fn place(&mut self, n: usize, seed: u64, rules: &[Entry<'_>]) -> bool {
        self.salts = std::array::from_fn(|i| salt(WORDS as u64 * seed + i as u64));
        self.groups = vec![Group::default(); n];
        let mut hashes: Vec<(usize, u64, usize)> = Vec::with_capacity(rules.len());
        for (i, (_, pairs)) in rules.iter().enumerate() {
            let h = self.hash(|w| pairs[2 * w]);
            hashes.push((self.number(h), h, i));
        }
        // The best rule of a group is first.
        hashes.sort_unstable_by_key(|&(group, _, i)| (group, i));
        self.cells.clear();
        for group in hashes.chunk_by(|a, b| a.0 == b.0) {
            let same = |h: u64| group.iter().filter(|g| g.1 == h).count();
            if group.len() > GROUP || group.iter().any(|g| same(g.1) > SAME) {
                return false;
            }
            let to = &mut self.groups[group[0].0];
            to.cells = 8 * self.cells.len() as u64;
            for (at, &(_, h, i)) in to.tags.iter_mut().zip(group) {
                *at = tag(h);
                self.cells.push(rules[i].0);
                self.cells.extend(rules[i].1);
            }
        }
        true
    }

    /// See [`RulesView::salts`].
    fn hash(&self, word: impl Fn(usize) -> u64) -> u64 {
        let salted = |w: usize| if w < self.words { word(w) & self.masks[w] } else { 0 } ^ self.salts[w];
        (0..self.words).step_by(2).fold(0, |h, w| {
            let product = u128::from(salted(w)) * u128::from(salted(w + 1));
            h ^ product as u64 ^ (product >> 64) as u64
        })
    }

    /// The number of a key's group, and its tag.
    fn group(&self, word: impl Fn(usize) -> u64) -> (usize, u8) {
        let h = self.hash(word);
        (self.number(h), tag(h))
    }

    /// The number of a hash's group.
    fn number(&self, h: u64) -> usize {
        (h & self.wrap()) as usize / RulesView::GROUP
    }

    /// See [`RulesView::wrap`].
    fn wrap(&self) -> u64 {
        ((self.groups.len() - 1) * RulesView::GROUP) as u64
    }

    /// Makes the list of rules that are compared one by one, with those that were added, in match order.
    pub fn list<'a>(&mut self, added: impl Iterator<Item = (Entry<'a>, bool)>) {
        self.others.clear();
        self.call = false;
        let mut lacking = self.lacking.iter().peekable();
        let mut count = 0;
        for ((head, pairs), spans) in added {
            while let Some((h, p)) = lacking.next_if(|l| l.0 < head) {
                self.others.push(*h);
                self.others.extend(p);
            }
            self.others.push(head);
            self.others.extend(pairs);
            count += 1;
            self.call |= spans || count > COMPARED;
            if self.call {
                return;
            }
        }
        for (h, p) in lacking {
            self.others.push(*h);
            self.others.extend(p);
        }
        self.others.push(NONE);
        self.others.resize(self.others.len() + 2 * self.words, 0);
    }

    /// Takes out a rule that was there when the form was made. The [`list`](Tuple::list) is to be made again.
    pub fn remove(&mut self, (head, pairs): Entry<'_>) {
        self.lacking.retain(|l| l.0 != head);
        let (group, _) = self.group(|w| pairs[2 * w]);
        let group = &mut self.groups[group];
        for (i, tag) in group.tags.iter_mut().enumerate() {
            let at = group.cells as usize / 8 + i * (1 + 2 * self.words);
            if *tag != 0 && self.cells[at] == head {
                *tag = 0;
            }
        }
    }

    pub fn view(&self) -> RulesView {
        if self.call {
            return RulesView::NONE;
        }
        RulesView {
            algorithm: RulesView::TUPLE,
            masks: self.masks,
            salts: self.salts,
            wrap: self.wrap(),
            groups: self.groups.as_ptr(),
            cells: self.cells.as_ptr(),
            others: self.others.as_ptr(),
            best: self.others[0],
        }
    }

    /// What compiled code finds.
    #[cfg(test)]
    pub fn search(&self, words: &[u64]) -> Option<u64> {
        if self.call {
            return None;
        }
        let matches = |e: &&[u64]| super::layout::matches(&e[1..], words);
        let stride = 1 + 2 * self.words;
        let (number, tag) = self.group(|w| words[w]);
        let group = self.groups[number];
        let tagged = (0..GROUP).filter(|&i| group.tags[i] == tag);
        let mut cells = tagged.map(|i| &self.cells[group.cells as usize / 8 + i * stride..][..stride]);
        let found = cells.find(matches).map_or(NONE, |e| e[0]);
        let other = self.others.chunks_exact(stride).find(matches).map_or(NONE, |e| e[0]);
        Some(found.min(other))
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.groups.capacity() * RulesView::GROUP + (self.cells.capacity() + self.others.capacity()) * 8
    }
}

/// Masks to try: those of rules and what the most common ones share, most bits first.
fn candidates(mut shapes: Vec<([u64; WORDS], usize)>) -> Vec<[u64; WORDS]> {
    shapes.sort_by_key(|s| std::cmp::Reverse(s.1));
    let both = |a: [u64; WORDS], b: &[u64; WORDS]| std::array::from_fn(|w| a[w] & b[w]);
    let mut all: Vec<[u64; WORDS]> = shapes.iter().map(|s| s.0).collect();
    let mut shared = all.first().copied().unwrap_or_default();
    for s in &shapes {
        shared = both(shared, &s.0);
        all.push(shared);
    }
    if all.is_empty() {
        all.push([0; WORDS]);
    }
    let bits = |m: &[u64; WORDS]| m.iter().map(|w| w.count_ones()).sum::<u32>();
    all.sort_unstable_by_key(|m| (std::cmp::Reverse(bits(m)), *m));
    all.dedup();
    all
}

/// The masks of a rule.
fn masks(pairs: &[u64]) -> [u64; WORDS] {
    std::array::from_fn(|w| pairs.get(2 * w + 1).copied().unwrap_or(0))
}

fn tag(h: u64) -> u8 {
    (h >> 57) as u8 | 0x80
}

/// Numbers without a pattern (SplitMix64, Steele and others, OOPSLA 2014).
fn salt(n: u64) -> u64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

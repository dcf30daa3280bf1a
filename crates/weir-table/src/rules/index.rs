//! The index that a packet's key is looked up in.
//!
//! A tree of three kinds of node. A leaf has rules, best first. A cut reads some bits of the key and goes to the
//! child of that number (HiCuts, Gupta and McKeown 1999, with cuts at any bits). A hash masks the key and goes
//! to the rules that have these values under the mask (tuple space search, Srinivasan et al. 1999; rules with
//! longer masks join in, as in TupleMerge, Daly et al. 2019). Rules that a cut would copy into too many
//! children, or that lack bits of the hash's mask, are the node's rest: a tree of its own that is searched after
//! the child. Each node has one parent, so where the search goes on after a leaf is fixed and the search needs
//! no stack.

use super::layout::{Layout, Span};

/// A reference to a node: kind in the upper two bits, place in the lower 30. Between them a cut has what to
/// read: word from bit 32, shift from bit 37, number of bits from bit 43.
pub(super) type Ref = u64;
pub(super) const LEAF: u64 = 0;
pub(super) const CUT: u64 = 1;
pub(super) const HASH: u64 = 2;
/// The end of the search.
pub(super) const END: Ref = u64::MAX;
/// The largest place.
pub(super) const PLACES: usize = (1 << 30) - 1;

/// A reference to a node other than a cut.
pub(super) fn node(kind: u64, place: usize) -> Ref {
    kind << 62 | place as u64
}

/// A reference to a cut.
pub(super) fn cut(place: usize, word: usize, shift: u32, bits: u32) -> Ref {
    node(CUT, place) | (word as u64) << 32 | u64::from(shift) << 37 | u64::from(bits) << 43
}

/// The result of a search that found nothing.
pub(super) const NONE: u64 = u64::MAX;
/// In place of the slot of a rule that was removed, in entries that hide worse rules.
pub(super) const DEAD: u32 = u32::MAX;

/// Words before the entries of a leaf: the next node; the best rank that may follow, and the count.
pub(super) const LEAF_HEAD: usize = 2;
/// Words before the masks of a hash: the next node if nothing is found; seed; logarithm of the number of cells.
/// After the masks: the cells, each a tag in the upper half and the distance to the group from the node in the
/// lower, 0 if it is empty; then the groups.
pub(super) const HASH_HEAD: usize = 3;

/// The first word of an entry: rank in the upper 28 bits, so that smaller is better; whether there are spans;
/// slot. Ranks of indexed rules are odd: a rule added later stands between two of them.
pub(super) fn head(rank: u32, spans: bool, slot: u32) -> u64 {
    u64::from(rank) << 36 | u64::from(spans) << 32 | u64::from(slot)
}

/// The rank of the indexed rule at a position.
pub(super) fn rank(position: usize) -> u32 {
    2 * position as u32 + 1
}

const SPANS: u64 = 1 << 32;

/// The position of the rule in [`Index::flat`].
pub(super) fn position(head: u64) -> usize {
    (head >> 37) as usize
}

/// The index of a set of rules.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub words: usize,
    pub root: Ref,
    /// Leaves, hashes, and the children of cuts.
    pub nodes: Vec<u64>,
    /// Places of the leaves.
    pub leaves: Vec<u32>,
    /// All rules as entries, best first.
    pub flat: Vec<u64>,
    /// The spans of all rules.
    pub spans: Vec<Span>,
    /// Where the spans of each rule begin, and the end.
    pub span_at: Vec<u32>,
    /// Rules that hide others somewhere in the tree: there the others are not found when they are removed.
    pub hides: Vec<bool>,
}

/// Multiplies to 128 bits and folds.
fn fold(a: u64, b: u64) -> u64 {
    let m = u128::from(a) * u128::from(b);
    m as u64 ^ (m >> 64) as u64
}

/// The hash tag of `n` masked words.
#[inline(always)]
pub(super) fn tag(n: usize, seed: u64, word: impl Fn(usize) -> u64) -> u32 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut h = 0;
    let mut i = 0;
    let mut salt = seed;
    while i < n {
        let second = if i + 1 < n { word(i + 1) } else { 0 };
        h ^= fold(word(i) ^ salt, second ^ salt.rotate_left(32) ^ K);
        salt = salt.wrapping_add(K);
        i += 2;
    }
    (h >> 32) as u32 ^ h as u32
}

impl Index {
    /// An index without rules.
    pub fn empty(layout: &Layout) -> Index {
        Index { words: layout.words, root: END, span_at: vec![0], ..Index::default() }
    }

    /// Words of an entry: head, and value and mask for each word.
    pub fn stride(&self) -> usize {
        1 + 2 * self.words
    }

    /// The head of the best entry that matches, or [`NONE`]. `key` has at least `words` words.
    pub fn search(&self, key: &[u64]) -> u64 {
        match (self.words, key) {
            (1, &[a, ..]) => self.walk::<1>(&[a]),
            (2, &[a, b, ..]) => self.walk::<2>(&[a, b]),
            (3, &[a, b, c, ..]) => self.walk::<3>(&[a, b, c]),
            (4, &[a, b, c, d, ..]) => self.walk::<4>(&[a, b, c, d]),
            (5, &[a, b, c, d, e, ..]) => self.walk::<5>(&[a, b, c, d, e]),
            _ => key.get(..self.words).map_or(NONE, |key| self.walk::<0>(key)),
        }
    }

    /// The search; `W` is the number of words, 0 if it is not known at compile time.
    #[inline(always)]
    fn walk<const W: usize>(&self, key: &[u64]) -> u64 {
        let words = if W == 0 { self.words } else { W };
        let mut best = NONE;
        let mut at = self.root;
        loop {
            let place = at as usize & PLACES;
            at = match at >> 62 {
                LEAF => {
                    let (next, count) = (self.nodes[place], self.nodes[place + 1]);
                    let from = place + LEAF_HEAD;
                    let entries = &self.nodes[from..from + count as u32 as usize * (1 + 2 * words)];
                    best = self.scan::<W>(entries, key, best);
                    if best >> 36 <= count >> 32 {
                        return best;
                    }
                    next
                }
                CUT => {
                    let word = key[(at >> 32) as usize & 31] >> (at >> 37 & 63);
                    let child = word & ((1 << (at >> 43 & 31)) - 1);
                    self.nodes[place + child as usize]
                }
                HASH => self.probe::<W>(place, key),
                _ => return best,
            }
        }
    }

    /// Where the search goes on after a hash.
    #[inline(always)]
    pub(super) fn probe<const W: usize>(&self, place: usize, key: &[u64]) -> Ref {
        let words = if W == 0 { self.words } else { W };
        let hash = &self.nodes[place..];
        let (log, masks) = (hash[2], &hash[HASH_HEAD..HASH_HEAD + words]);
        let tag = tag(words, hash[1], |i| key[i] & masks[i]);
        let cells = &hash[HASH_HEAD + words..][..1 << (log & 31)];
        let mut i = (u64::from(tag) >> (32 - (log & 31))) as usize;
        loop {
            let cell = cells[i];
            if cell as u32 == 0 {
                return hash[0];
            }
            if (cell >> 32) as u32 == tag {
                return hash[cell as u32 as usize];
            }
            i = (i + 1) & (cells.len() - 1);
        }
    }

    /// The better of `best` and the first entry that matches.
    #[inline(always)]
    pub(super) fn scan<const W: usize>(&self, entries: &[u64], key: &[u64], best: u64) -> u64 {
        let stride = if W == 0 { self.stride() } else { 1 + 2 * W };
        for e in entries.chunks_exact(stride) {
            if e[0] >= best {
                break;
            }
            let differ = e[1..].chunks_exact(2).zip(key).fold(0, |acc, (p, w)| acc | (w ^ p[0]) & p[1]);
            if differ == 0 && (e[0] & SPANS == 0 || self.spans_match(e[0], key)) {
                return e[0];
            }
        }
        best
    }

    fn spans_match(&self, head: u64, key: &[u64]) -> bool {
        self.spans_of(position(head)).iter().all(|s| s.matches(key))
    }

    /// The spans of the rule at a position in `flat`.
    pub fn spans_of(&self, at: usize) -> &[Span] {
        &self.spans[self.span_at[at] as usize..self.span_at[at + 1] as usize]
    }

    /// Head and pairs of the rule at a position in `flat`.
    pub fn entry(&self, at: usize) -> Option<(u64, &[u64])> {
        let (head, pairs) = self.flat.get(at * self.stride()..(at + 1) * self.stride())?.split_first()?;
        Some((*head, pairs))
    }

    /// Compares all rules after a position in `flat`. For keys that a removed rule hid others from.
    pub fn scan_after(&self, position: usize, key: &[u64]) -> u64 {
        let stride = self.stride();
        let rest = self.flat.get((position + 1) * stride..).unwrap_or_default();
        let live = rest.chunks_exact(stride).filter(|e| e[0] as u32 != DEAD);
        live.map(|e| self.scan::<0>(e, key, NONE)).find(|&h| h != NONE).unwrap_or(NONE)
    }

    /// Takes out the rule at a position in `flat`. Where it hid others its entry stays: keys that find it there
    /// need [`scan_after`](Index::scan_after).
    pub fn remove(&mut self, position: usize) {
        let stride = self.stride();
        let Some(rule) = self.flat.get_mut(position * stride) else { return };
        let old = *rule;
        let dead = old | u64::from(DEAD);
        *rule = dead;
        let hides = self.hides[position];
        for &leaf in &self.leaves {
            let leaf = leaf as usize;
            let count = self.nodes[leaf + 1] as u32 as usize;
            let entries = &mut self.nodes[leaf + LEAF_HEAD..leaf + LEAF_HEAD + count * stride];
            let Ok(i) = search_entries(entries, stride, old) else { continue };
            if hides {
                entries[i * stride] = dead;
            } else {
                entries.copy_within((i + 1) * stride.., i * stride);
                self.nodes[leaf + 1] -= 1;
            }
        }
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        (self.leaves.capacity() + self.span_at.capacity()) * 4
            + (self.nodes.capacity() + self.flat.capacity()) * 8
            + self.spans.capacity() * size_of::<Span>()
            + self.hides.capacity()
    }
}

/// Finds the entry with a head among entries, best first.
fn search_entries(entries: &[u64], stride: usize, head: u64) -> Result<usize, usize> {
    let (mut lo, mut hi) = (0, entries.len() / stride);
    while lo < hi {
        let mid = (lo + hi) / 2;
        match entries[mid * stride].cmp(&head) {
            std::cmp::Ordering::Less => lo = mid + 1,
            std::cmp::Ordering::Greater => hi = mid,
            std::cmp::Ordering::Equal => return Ok(mid),
        }
    }
    Err(lo)
}

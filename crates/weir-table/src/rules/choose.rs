//! Chooses how to divide the rules of a node: the cut or hash with the least estimated search time.

use super::build::{Region, Rules, Share, hull};
use super::layout::Field;

/// A division of a node.
pub(super) enum Choice {
    /// By the bits of a window; rules that would be in more children than this are left over.
    Cut(Window, u32),
    /// By the values under a mask; rules without all of its bits are left over.
    Hash(Vec<u64>),
}

/// Neighbouring bits of a field, within a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    field: usize,
    /// Lowest bit, counted within the field.
    low: u32,
    /// Number of bits.
    pub bits: u32,
    /// The word of the key.
    pub word: usize,
    /// Lowest bit, counted within the word.
    pub shift: u32,
}

/// Largest window of a cut.
const MAX_BITS: u32 = 12;

impl Window {
    /// The window of up to `bits` bits of a field whose highest bit is `top`: fewer where a word ends.
    fn below(field: usize, f: Field, top: u32, bits: u32) -> Window {
        let high = f.at + top;
        let bits = bits.min(top + 1).min(high % 64 + 1);
        let at = high + 1 - bits;
        Window { field, low: top + 1 - bits, bits, word: (at / 64) as usize, shift: at % 64 }
    }
}

/// The children of a cut that a rule is in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hits {
    /// So many from the first on, around the end.
    Run(u32, u32),
    /// Those that differ from the first in these bits.
    Free(u32, u32),
}

impl Hits {
    pub fn count(self) -> u32 {
        match self {
            Hits::Run(_, n) => n,
            Hits::Free(_, free) => 1 << free.count_ones(),
        }
    }

    pub fn each(self, bits: u32, mut f: impl FnMut(u32)) {
        match self {
            Hits::Run(first, n) => (0..n).for_each(|i| f((first + i) & ((1 << bits) - 1))),
            Hits::Free(first, free) => {
                let mut sub = 0u32;
                loop {
                    f(first | sub);
                    sub = sub.wrapping_sub(free) & free;
                    if sub == 0 {
                        break;
                    }
                }
            }
        }
    }
}

/// A window over the rules of a node.
pub(super) struct View<'a> {
    rules: &'a Rules<'a>,
    window: Window,
    /// Value and mask of the region in the window.
    known: (u64, u64),
    /// Smallest and largest value of the field in the region.
    hull: (u128, u128),
}

impl<'a> View<'a> {
    pub fn new(rules: &'a Rules<'a>, window: Window, region: &Region) -> View<'a> {
        let f = rules.layout.fields[window.field];
        View { rules, window, known: region[window.word], hull: hull(f, |w| region[w]) }
    }

    pub fn hits(&self, rule: u32) -> Hits {
        let w = self.window;
        let all = (1u64 << w.bits) - 1;
        if let Some((lo, hi)) = self.rules.span(rule, w.field) {
            let (lo, hi) = (lo.max(self.hull.0), hi.min(self.hull.1));
            if lo > hi {
                return Hits::Run(0, 0);
            }
            let (first, last) = (lo >> w.low, hi >> w.low);
            if last - first >= u128::from(all) {
                return Hits::Free(0, all as u32);
            }
            return Hits::Run((first as u64 & all) as u32, (last - first) as u32 + 1);
        }
        let (value, mask) = self.rules.pair(rule, w.word);
        let (value, mask) = (value | self.known.0 & !mask, mask | self.known.1);
        let free = (!mask >> w.shift) & all;
        Hits::Free(((value & mask) >> w.shift & all) as u32, free as u32)
    }
}

/// Estimated nanoseconds to search a node of `n` rules.
fn cost(n: f32) -> f32 {
    if n == 0.0 {
        0.0
    } else if n <= 8.0 {
        3.0 + 0.8 * n
    } else {
        9.4 + 2.5 * (n / 8.0).log2()
    }
}

/// The same for the rules that a node leaves over: most searches go there after they were in a child.
fn rest_cost(n: f32) -> f32 {
    if n == 0.0 { 0.0 } else { 10.0 + 1.3 * cost(n) }
}

/// Estimated nanoseconds to pass a cut.
const CUT_COST: f32 = 3.0;
/// Estimated nanoseconds to probe a hash.
const HASH_COST: f32 = 8.0;

/// The mean over rules of the cost of the children they are in.
fn mean(sizes: &[u32], scale: f32) -> f32 {
    let (mut sum, mut weight) = (0.0, 0.0);
    for &n in sizes.iter().filter(|&&n| n > 0) {
        sum += n as f32 * cost(n as f32 * scale);
        weight += n as f32;
    }
    if weight == 0.0 { 0.0 } else { sum / weight }
}

/// Larger sets are judged by a sample, and the best few choices by all rules.
const SAMPLE: usize = 128;
const FINALISTS: usize = 6;

struct Chooser<'a> {
    rules: &'a Rules<'a>,
    set: &'a [u32],
    /// Rules of the node for each rule in `set`.
    scale: f32,
    region: &'a Region,
    refs: usize,
    fuel: usize,
    /// Estimated times and choices, best first.
    best: Vec<(f32, Choice)>,
    sizes: Vec<u32>,
}

/// The best way to divide rules, if there is one better than to compare them one by one.
pub(super) fn choose(rules: &Rules<'_>, set: &[u32], region: &Region, share: &mut Share) -> Option<Choice> {
    let step = set.len().div_ceil(SAMPLE);
    let sample: Vec<u32> = set.iter().copied().step_by(step).collect();
    let mut c = Chooser {
        rules,
        set: &sample,
        scale: set.len() as f32 / sample.len() as f32,
        region,
        refs: share.refs * sample.len() / set.len(),
        fuel: share.fuel,
        best: Vec::new(),
        sizes: Vec::new(),
    };
    c.hashes();
    c.cuts();
    if step > 1 {
        let finalists = std::mem::take(&mut c.best);
        (c.set, c.scale, c.refs) = (set, 1.0, share.refs);
        for (_, choice) in finalists {
            match choice {
                Choice::Cut(window, _) => c.cut(window),
                Choice::Hash(masks) => c.hash(&masks),
            }
        }
    }
    share.fuel = c.fuel;
    let linear = 3.0 + 0.8 * set.len() as f32;
    c.best.into_iter().next().filter(|(score, _)| *score < linear).map(|(_, choice)| choice)
}

impl Chooser<'_> {
    fn spend(&mut self, looks: usize) -> bool {
        let enough = self.fuel >= looks;
        self.fuel = self.fuel.saturating_sub(looks);
        enough
    }

    fn offer(&mut self, score: f32, choice: Choice) {
        let at = self.best.partition_point(|b| b.0 <= score);
        self.best.insert(at, (score, choice));
        self.best.truncate(FINALISTS);
    }

    // --- hashes -----------------------------------------------------------------------------------------------

    /// Masks that many rules have: for the common sets of fields that are not wild, and for all rules, the bits
    /// that all, most or half of these rules look at.
    fn hashes(&mut self) {
        let words = self.rules.layout.words;
        let n = self.set.len();
        if n < 32 || !self.spend(n * words) {
            return;
        }
        let mut classes: Vec<(u32, Vec<u32>)> = Vec::new();
        for &r in self.set {
            let fields = self.wild_fields(r);
            match classes.iter().position(|c| c.0 == fields) {
                Some(i) => classes[i].1.push(r),
                None if classes.len() < 32 => classes.push((fields, vec![r])),
                None => {}
            }
        }
        classes.sort_by_key(|c| std::cmp::Reverse(c.1.len()));
        let mut tried = Vec::new();
        let whole: &[&[u32]] = &[self.set];
        let classes: Vec<&[u32]> =
            whole.iter().copied().chain(classes.iter().take(4).map(|c| &c.1[..])).collect();
        for class in classes {
            if class.len() * 16 < n || !self.spend(class.len() * words * 4) {
                continue;
            }
            let mut counts = vec![0u32; 64 * words];
            for &r in class {
                for w in 0..words {
                    let mut mask = self.rules.mask(r, w);
                    while mask != 0 {
                        counts[64 * w + mask.trailing_zeros() as usize] += 1;
                        mask &= mask - 1;
                    }
                }
            }
            for percent in [100, 95, 80, 65, 50] {
                let enough = (class.len() * percent).div_ceil(100) as u32;
                let word = |bits: &[u32]| bits.iter().rev().fold(0, |m, &c| m << 1 | u64::from(c >= enough));
                let masks: Vec<u64> = counts.chunks_exact(64).map(word).collect();
                if masks.iter().any(|&m| m != 0) && !tried.contains(&masks) {
                    self.hash(&masks);
                    tried.push(masks);
                }
            }
        }
    }

    /// The fields that a rule does not look at, as bits.
    fn wild_fields(&self, rule: u32) -> u32 {
        let fields = self.rules.layout.fields.iter().enumerate();
        fields.fold(0, |set, (i, &f)| {
            let hull = hull(f, |w| self.rules.pair(rule, w));
            set | u32::from(hull == (0, f.max())) << i
        })
    }

    fn hash(&mut self, masks: &[u64]) {
        if !self.spend(self.set.len() * 2) {
            return;
        }
        let bits = (2 * self.set.len()).next_power_of_two().ilog2();
        let mut table = vec![(0u32, 0u32); 1 << bits];
        let mut inside = 0;
        for &r in self.set {
            if masks.iter().enumerate().any(|(w, m)| m & !self.rules.mask(r, w) != 0) {
                continue;
            }
            inside += 1;
            let tag = super::index::tag(masks.len(), 1, |w| self.rules.pair(r, w).0 & masks[w]);
            let mut i = (u64::from(tag) >> (32 - bits)) as usize;
            while table[i].1 != 0 && table[i].0 != tag {
                i = (i + 1) & (table.len() - 1);
            }
            table[i] = (tag, table[i].1 + 1);
        }
        self.sizes.clear();
        self.sizes.extend(table.iter().map(|c| c.1));
        let largest = self.sizes.iter().copied().max().unwrap_or(0) as usize;
        if inside == 0 || largest == self.set.len() {
            return;
        }
        let score = HASH_COST
            + mean(&self.sizes, self.scale)
            + rest_cost((self.set.len() - inside) as f32 * self.scale);
        self.offer(score, Choice::Hash(masks.to_vec()));
    }

    // --- cuts -------------------------------------------------------------------------------------------------

    fn cuts(&mut self) {
        let most = (2.0 * self.scale * self.set.len() as f32).log2() as u32;
        let most = most.clamp(3, MAX_BITS);
        for field in 0..self.rules.layout.fields.len() {
            let f = self.rules.layout.fields[field];
            if !self.spend(self.set.len() * 2) {
                return;
            }
            let Some(top) = self.top(field) else { continue };
            let mut last = 0;
            for bits in [3, 6, most] {
                let w = Window::below(field, f, top, bits.min(most));
                if w.bits != last {
                    self.cut(w);
                }
                last = w.bits;
            }
            if let Some(top) = self.dense(field, top, 4.min(most)) {
                self.cut(Window::below(field, f, top, 4.min(most)));
                self.cut(Window::below(field, f, top, 8.min(most)));
            }
        }
    }

    /// The highest bit of a field in which rules differ that look at it.
    fn top(&self, field: usize) -> Option<u32> {
        let f = self.rules.layout.fields[field];
        let (min, max) = hull(f, |w| self.region[w]);
        let mut differ = 0;
        let mut base = None;
        for &r in self.set {
            let (lo, hi) = self.rules.hull(r, field);
            let (lo, hi) = (lo.max(min), hi.min(max));
            if (lo, hi) != (min, max) {
                let base = *base.get_or_insert(lo);
                differ |= (lo ^ base) | (hi ^ base);
            }
        }
        (differ != 0).then(|| 127 - differ.leading_zeros())
    }

    /// The top of the window of `bits` bits below `top` that divides masks best; none if that is `top` itself.
    fn dense(&mut self, field: usize, top: u32, bits: u32) -> Option<u32> {
        let f = self.rules.layout.fields[field];
        if !self.spend(self.set.len() * (1 + f.bits as usize / 8)) {
            return None;
        }
        let mut counts = [[0u32; 2]; 128];
        for &r in self.set {
            let (first, last) = self.rules.hull(r, field);
            if self.rules.span(r, field).is_some() {
                continue;
            }
            let mut fixed = !(first ^ last) & (f.max() >> (f.bits - 1 - top));
            while fixed != 0 {
                let b = fixed.trailing_zeros();
                counts[b as usize][(first >> b & 1) as usize] += 1;
                fixed &= fixed - 1;
            }
        }
        let gain = |b: u32| {
            let [zeros, ones] = counts[b as usize];
            let wild = (self.set.len() as u32).saturating_sub(zeros + ones);
            f64::from(zeros.min(ones)) - f64::from(wild) / 2.0
        };
        let window = |top: u32| (0..bits.min(top + 1)).map(|i| gain(top - i)).sum::<f64>();
        let best = (0..=top).max_by(|&a, &b| window(a).total_cmp(&window(b)))?;
        (best != top).then_some(best)
    }

    fn cut(&mut self, window: Window) {
        if !self.spend(self.set.len() * 2) {
            return;
        }
        let view = View::new(self.rules, window, self.region);
        // How many rules are in about so many children, and how many references these make, by the logarithm.
        let mut by_count = [(0u64, 0u64); MAX_BITS as usize + 1];
        let mut hits = Vec::with_capacity(self.set.len());
        for &r in self.set {
            let h = view.hits(r);
            hits.push(h);
            let n = h.count();
            let (rules, refs) = &mut by_count[(u32::BITS - n.saturating_sub(1).leading_zeros()) as usize];
            *rules += 1;
            *refs += u64::from(n);
        }
        // The logarithm of the copies that the share allows is used up by half at each level.
        let allowed = (self.refs as f64 * self.set.len() as f64).sqrt() as u64;
        let mut limit = 1;
        let (mut copied, mut left) = (0, self.set.len() as u64);
        for (log, (rules, refs)) in by_count.iter().enumerate().take(window.bits as usize + 1) {
            if log > 0 && copied + refs + left - rules > allowed {
                break;
            }
            (copied, left) = (copied + refs, left - rules);
            limit = 1 << log;
        }
        if !self.spend(copied as usize / 4) {
            return;
        }
        let mut sizes = std::mem::take(&mut self.sizes);
        sizes.clear();
        sizes.resize(1 << window.bits, 0);
        let mut rest = 0;
        for h in hits {
            if h.count() > limit {
                rest += 1;
            } else {
                h.each(window.bits, |c| sizes[c as usize] += 1);
            }
        }
        let largest = sizes.iter().copied().max().unwrap_or(0) as usize;
        if largest < self.set.len() && rest < self.set.len() {
            let score = CUT_COST + mean(&sizes, self.scale) + rest_cost(rest as f32 * self.scale);
            self.offer(score, Choice::Cut(window, limit));
        }
        self.sizes = sizes;
    }
}

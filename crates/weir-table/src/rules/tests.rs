//! The index against a linear scan.

use proptest::prelude::*;

use super::classbench::{FIVE_TUPLE, Random, Style, key_of, rules};
use super::*;

/// Rules in a list.
struct Naive {
    widths: Vec<u32>,
    rules: Vec<(i32, Vec<KeyMatch>, u32)>,
}

impl Naive {
    fn insert(&mut self, priority: i32, key: &[KeyMatch], slot: u32) {
        self.remove(slot);
        let at = self.rules.partition_point(|r| r.0 >= priority);
        self.rules.insert(at, (priority, key.to_vec(), slot));
    }

    fn remove(&mut self, slot: u32) -> bool {
        let before = self.rules.len();
        self.rules.retain(|r| r.2 != slot);
        self.rules.len() < before
    }

    fn lookup(&self, key: &[u128]) -> Option<u32> {
        let matches = |rule: &[KeyMatch]| {
            rule.iter().zip(key).zip(&self.widths).all(|((m, &v), &bits)| m.matches(v, bits))
        };
        self.rules.iter().find(|r| matches(&r.1)).map(|r| r.2)
    }
}

struct Pair {
    rules: Rules,
    naive: Naive,
    r: Random,
    /// Lookups in the form for compiled code.
    tuple: usize,
}

impl Pair {
    fn new(widths: &[u32], seed: u64) -> Pair {
        let naive = Naive { widths: widths.to_vec(), rules: Vec::new() };
        Pair { rules: Rules::new(widths), naive, r: Random::new(seed), tuple: 0 }
    }

    /// All rules of `keys` with the same priority and their number as slot.
    fn load(widths: &[u32], keys: &[Vec<KeyMatch>]) -> Pair {
        let mut pair = Pair::new(widths, 7);
        for (key, slot) in keys.iter().zip(0..) {
            pair.insert(0, key, slot);
        }
        pair.rules.prepare();
        pair
    }

    fn insert(&mut self, priority: i32, key: &[KeyMatch], slot: u32) {
        self.rules.insert(priority, key, slot);
        self.naive.insert(priority, key, slot);
    }

    fn remove(&mut self, slot: u32) {
        assert_eq!(self.rules.remove(slot), self.naive.remove(slot));
    }

    /// A key that most likely some rule matches: made from one, or from fields of several.
    fn key(&mut self) -> Vec<u128> {
        let widths = self.naive.widths.clone();
        let mut key: Vec<u128> = widths.iter().map(|b| self.r.wide() >> (128 - b)).collect();
        for _ in 0..1 + self.r.below(2) {
            if self.naive.rules.is_empty() {
                break;
            }
            let rule = self.r.below(self.naive.rules.len() as u64) as usize;
            if let Some(hit) = key_of(&mut self.r, &widths, &self.naive.rules[rule].1) {
                let first = self.r.below(2) == 0;
                let from = if first { 0 } else { self.r.below(widths.len() as u64) as usize };
                key[from..].copy_from_slice(&hit[from..]);
            }
        }
        if self.r.below(8) == 0 {
            let f = self.r.below(widths.len() as u64) as usize;
            key[f] ^= 1 << self.r.below(widths[f].into());
        }
        key
    }

    fn check(&mut self, lookups: usize) {
        assert_eq!(self.rules.len(), self.naive.rules.len());
        for _ in 0..lookups {
            let key = self.key();
            let wanted = self.naive.lookup(&key);
            assert_eq!(self.rules.lookup(&key), wanted, "{key:x?}");
            let words = self.rules.layout.pack(&key);
            let words = &words[..self.rules.layout.words];
            if let Some(found) = self.rules.tuple.as_ref().and_then(|t| t.search(words)) {
                let slot = (found != NONE).then_some(found as u32);
                assert_eq!(slot, wanted, "{key:x?} without a call");
                self.tuple += 1;
            }
        }
    }

    fn check_order(&self) {
        let all: Vec<_> = self.rules.iter().map(|(p, k, s)| (p, k.to_vec(), s)).collect();
        assert_eq!(all, self.naive.rules);
    }
}

/// A match of any kind, with values from a pool small enough that rules overlap.
fn random_match(r: &mut Random, bits: u32) -> KeyMatch {
    let max = u128::MAX >> (128 - bits);
    let value = |r: &mut Random| match r.below(4) {
        0 => u128::from(r.below(6)) & max,
        1 => (0x5555_5555_5555_5555_5555_5555_5555_5555 ^ u128::from(r.below(8))) & max,
        2 => max - u128::from(r.below(4)) % (max / 2 + 1),
        _ => r.wide() & max,
    };
    let v = value(r);
    match r.below(8) {
        0..=2 => KeyMatch::Exact(v),
        3 => KeyMatch::Mask(v, value(r)),
        4 => KeyMatch::Prefix(v, r.below(u64::from(bits) + 1) as u32),
        5 => {
            let w = value(r);
            KeyMatch::Range(v.min(w), v.max(w))
        }
        6 if r.below(20) == 0 => KeyMatch::Range(v, v / 2),
        _ => KeyMatch::ANY,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn finds_what_a_linear_scan_finds(
        widths in prop::collection::vec(
            prop_oneof![Just(1u32), Just(8), Just(12), Just(16), Just(32), Just(64), Just(128), 1..=128u32],
            1..=8,
        ),
        rounds in 1..6usize,
        size in 1..120u64,
        priorities in 1..6u64,
        seed in any::<u64>(),
    ) {
        let mut p = Pair::new(&widths, seed);
        for _ in 0..rounds {
            for _ in 0..p.r.below(size) {
                let key: Vec<_> = widths.iter().map(|&b| random_match(&mut p.r, b)).collect();
                let priority = p.r.below(priorities) as i32 - 2;
                let slot = p.r.below(3 * size) as u32;
                p.insert(priority, &key, slot);
                prop_assert!(p.rules.find(priority, &key).is_some());
            }
            p.check(200);
            match p.r.below(3) {
                0 => p.rules.prepare(),
                1 => p.rules.settle(),
                _ => {}
            }
            p.check(200);
            for _ in 0..p.r.below(size) {
                let slot = p.r.below(3 * size) as u32;
                p.remove(slot);
            }
            p.check(300);
            p.check_order();
        }
        p.rules.clear();
        p.naive.rules.clear();
        p.check(10);
    }
}

/// A rule of the shape that most have, or of one of a few others.
fn shaped(r: &mut Random, others: u64) -> Vec<KeyMatch> {
    let addr = KeyMatch::Prefix(0x0a00_0000 | u128::from(r.below(1 << 12)) << 4, 28 + r.below(5) as u32);
    let port = KeyMatch::Exact(u128::from(r.below(40)));
    match r.below(100) {
        n if n >= others => vec![addr, KeyMatch::ANY, port, KeyMatch::Mask(5, 7)],
        0..=1 => vec![KeyMatch::ANY; 4],
        2..=3 => vec![KeyMatch::ANY, KeyMatch::ANY, port, KeyMatch::Mask(4, 4)],
        4 => vec![KeyMatch::ANY, KeyMatch::Range(3, 7000), KeyMatch::ANY, KeyMatch::ANY],
        _ => vec![addr, KeyMatch::ANY, KeyMatch::ANY, KeyMatch::ANY],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Rules of one shape, and a few others, come, go, and change the form for compiled code.
    #[test]
    fn rules_of_one_shape_are_found_without_a_call(
        long in any::<bool>(),
        others in 0..5u64,
        size in 1..300u64,
        seed in any::<u64>(),
    ) {
        let widths = if long { [32, 128, 16, 8] } else { [32, 16, 16, 8] };
        let mut p = Pair::new(&widths, seed);
        for _ in 0..5 {
            for _ in 0..p.r.below(size) {
                let key = shaped(&mut p.r, others);
                let (priority, slot) = (p.r.below(3) as i32, p.r.below(2 * size) as u32);
                p.insert(priority, &key, slot);
            }
            p.check(100);
            if p.r.below(2) == 0 {
                p.rules.settle();
            }
            p.check(100);
            for _ in 0..p.r.below(size) {
                let slot = p.r.below(2 * size) as u32;
                p.remove(slot);
                p.check(2);
            }
        }
        // How many of them found without a call is random (`usual_sets_are_one_tuple` says when all do); none is left
        // to a random choice where there is no rule.
        let lookups = p.tuple;
        p.rules.clear();
        p.naive.rules.clear();
        p.check(10);
        prop_assert_eq!(p.tuple, lookups + 10);
    }
}

/// What lists of rules usually are: thousands of one shape, exceptions before them, one for the rest.
#[test]
fn usual_sets_are_one_tuple() {
    for n in [0, 1, 9, 99, 999, 10_000_u32] {
        let one = |i: u32| {
            let addr = KeyMatch::Exact(0xac10_0000 + u128::from(i / 250) * 256 + u128::from(i % 250));
            vec![addr, KeyMatch::Exact(u128::from(1000 + i)), KeyMatch::Mask(4, 4)]
        };
        let mut keys: Vec<_> = (0..n).map(one).collect();
        keys.insert(0, vec![KeyMatch::Prefix(0xac10_0500, 24), KeyMatch::ANY, KeyMatch::ANY]);
        keys.push(vec![KeyMatch::ANY, KeyMatch::Exact(53), KeyMatch::Mask(2, 2)]);
        keys.push(vec![KeyMatch::ANY; 3]);
        let mut p = Pair::load(&[32, 16, 8], &keys);
        p.rules.settle();
        p.check(500);
        assert_eq!(p.tuple, 500, "{n} rules");
        // A few changes leave the form as it is, whether they are of the shape or not.
        for slot in (0..n.min(5)).chain([n + 1]) {
            p.remove(slot);
        }
        p.insert(1, &one(3), n + 7);
        p.insert(0, &[KeyMatch::ANY, KeyMatch::Exact(1001), KeyMatch::ANY], n + 8);
        p.check(500);
        assert_eq!(p.tuple, 1000, "{n} rules");
        p.insert(2, &[KeyMatch::ANY, KeyMatch::Range(1001, 1005), KeyMatch::ANY], n + 9);
        p.check(100);
        assert_eq!(p.tuple, 1000, "ranges need the call");
        p.remove(n + 9);
        p.check(100);
        assert_eq!(p.tuple, 1100, "and only while they are there");
    }
}

#[test]
fn finds_what_a_linear_scan_finds_in_large_sets() {
    for (style, seed) in [(Style::Acl, 1), (Style::Firewall, 2), (Style::Chain, 3)] {
        let keys = rules(style, 2000, seed);
        let mut p = Pair::load(&FIVE_TUPLE, &keys);
        p.check(5000);
        for slot in (0..2000).step_by(7) {
            p.remove(slot);
        }
        p.check(2000);
        for (key, slot) in keys.iter().zip(0..).filter(|(_, slot)| slot % 21 == 0) {
            p.insert(slot % 3 - 1, key, slot as u32);
        }
        p.check(1000);
        p.rules.prepare();
        p.check(2000);
    }
}

#[test]
fn first_of_equal_keys_wins_until_it_is_removed() {
    let mut rules = Rules::new(&[32, 16]);
    let key = [KeyMatch::Prefix(0x0a00_0000, 8), KeyMatch::Range(80, 90)];
    for slot in 0..100 {
        rules.insert(slot % 10, &key, slot as u32);
    }
    rules.prepare();
    let mut order: Vec<u32> = rules.iter().map(|(_, _, slot)| slot).collect();
    assert_eq!((order[0], order[1], order[10]), (9, 19, 8));
    for slot in order.drain(..) {
        let priority = (slot % 10) as i32;
        assert_eq!(rules.lookup(&[0x0a01_0203, 85]), Some(slot));
        assert_eq!(rules.find(priority, &key), Some(slot));
        assert!(rules.remove(slot));
        assert!(!rules.remove(slot));
    }
    assert_eq!(rules.lookup(&[0x0a01_0203, 85]), None);
    assert_eq!(rules.find(0, &key), None);
}

#[test]
fn missing_words_find_nothing() {
    let mut rules = Rules::new(&[64, 64]);
    for slot in 0..100 {
        rules.insert(0, &[KeyMatch::Exact(slot.into()), KeyMatch::ANY], slot);
    }
    assert_eq!(rules.lookup_packed(&[5]), u32::MAX);
    assert_eq!(rules.lookup_packed(&[]), u32::MAX);
    assert_eq!(rules.lookup_packed(&[5, 9]), 5);
    rules.insert(1, &[KeyMatch::ANY, KeyMatch::ANY], 200);
    assert_eq!(rules.lookup_packed(&[5]), u32::MAX);
    assert_eq!(rules.lookup_packed(&[5, 9]), 200);
}

/// Sets made to be hard to divide.
fn hostile(n: usize) -> Vec<(&'static str, Vec<Vec<KeyMatch>>)> {
    let mut r = Random::new(99);
    let any = [KeyMatch::ANY; 5];
    let with = |fields: &[(usize, KeyMatch)]| {
        let mut key = any.to_vec();
        for &(f, m) in fields {
            key[f] = m;
        }
        key
    };
    let mut sets = Vec::new();
    let masks = (0..n).map(|_| {
        let f = |r: &mut Random, b: u32| KeyMatch::Mask(r.wide() >> (128 - b), r.wide() >> (128 - b));
        FIVE_TUPLE.iter().map(|&b| f(&mut r, b)).collect::<Vec<_>>()
    });
    sets.push(("masks", masks.collect::<Vec<_>>()));
    let ranges = (0..n as u128).map(|i| {
        let span = |s: u128| KeyMatch::Range(s, s + 30_000);
        with(&[(3, span(i * 7919 % 30_000)), (4, span(i * 104_729 % 30_000))])
    });
    sets.push(("ranges", ranges.collect()));
    let wide = (0..n as u128).map(|i| {
        let span = |s: u128| KeyMatch::Range(s << 8, (s << 8) + (1 << 31));
        with(&[(0, span(i * 7919)), (1, span(i * 104_729))])
    });
    sets.push(("wide ranges", wide.collect()));
    let fields = (0..n).map(|i| with(&[(i % 2, KeyMatch::Exact(r.wide() >> 96))]));
    sets.push(("one field of two", fields.collect()));
    let bits = (0..n).map(|_| {
        let bit = |r: &mut Random| 1u128 << r.below(32);
        with(&[
            (0, KeyMatch::Mask(u128::MAX >> 96, bit(&mut r))),
            (1, KeyMatch::Mask(r.wide() >> 96, bit(&mut r))),
        ])
    });
    sets.push(("one bit of each", bits.collect()));
    let nested = (0..n as u128).map(|i| {
        let (a, b) = ((i % 33) as u32, (i / 33 % 33) as u32);
        with(&[(0, KeyMatch::Prefix(0, a)), (1, KeyMatch::Prefix(0, b)), (3, KeyMatch::Exact(i % 10))])
    });
    sets.push(("nested", nested.collect()));
    sets.push(("equal", (0..n).map(|_| with(&[(2, KeyMatch::Exact(6))])).collect()));
    sets
}

#[test]
fn hostile_sets_take_linear_memory() {
    for (name, keys) in hostile(4000) {
        let mut p = Pair::load(&FIVE_TUPLE, &keys);
        let each = p.rules.index_bytes() / keys.len();
        assert!(each < 600, "{name}: {each} bytes a rule");
        p.check(300);
        for slot in (0..200).chain([3999]) {
            p.remove(slot);
        }
        p.check(100);
    }
}

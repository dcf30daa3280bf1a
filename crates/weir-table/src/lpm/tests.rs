use std::collections::BTreeMap;

use proptest::prelude::*;

use super::arrays::{ARRAY, BLOCK_ARRAY, LEN, MAX_ARRAYS, MAX_GROUPS};
use super::ranges::NO_SLOT;
use super::{FEW, Front, HUGE_FROM, LONG_AGAIN, Lpm, LpmView};

/// A reference that the index is compared with: all prefixes, read one after another.
struct Naive {
    bits: u32,
    prefixes: BTreeMap<(u128, u32), u32>,
}

impl Naive {
    fn outside(&self, len: u32) -> u128 {
        let width = u128::MAX >> (128 - self.bits);
        if len == 0 { width } else { width.checked_shr(len).unwrap_or(0) }
    }

    fn key(&self, value: u128, len: u32) -> (u128, u32) {
        let len = len.min(self.bits);
        let width = u128::MAX >> (128 - self.bits);
        (value & width & !self.outside(len), len)
    }

    fn lookup(&self, key: u128) -> Option<u32> {
        let matches = self.prefixes.iter().filter(|((value, len), _)| self.key(key, *len).0 == *value);
        matches.max_by_key(|((_, len), _)| *len).map(|(_, &slot)| slot)
    }
}

/// What compiled code does.
fn read(lpm: &Lpm, key: u128) -> Option<u32> {
    let view = lpm.view();
    let key = key as u32;
    match view.algorithm {
        LpmView::CALL => {
            assert!(
                view.ranges.is_null()
                    && view.blocks.is_null()
                    && view.arrays.is_null()
                    && view.fallback.is_null()
            );
            None
        }
        LpmView::RANGES => {
            assert!(view.blocks.is_null() && view.arrays.is_null() && view.fallback.is_null());
            assert_eq!(view.ranges.addr() % 64, 0, "starts are one cache line");
            // SAFETY: `lpm` is borrowed, so nothing changed since its view was taken.
            let ranges = unsafe { &*view.ranges };
            let mut count = 0;
            for start in ranges.starts {
                count += usize::from(start <= key);
            }
            Some(ranges.slots[count]).filter(|&slot| slot != NO_SLOT)
        }
        LpmView::DIRECTORY => {
            assert!(view.ranges.is_null());
            assert_eq!(view.blocks.addr() % 64, 0, "a block is one cache line");
            // SAFETY: as above; there are 2^16 blocks of 64 bytes.
            let block = unsafe { &*view.blocks.add(64 * (key as usize >> 16)).cast::<[u8; 64]>() };
            let count = block[..16].iter().filter(|&&start| u32::from(start) <= key >> 8 & 0xff).count();
            let mut entry = u32::from_ne_bytes(block[4 * (count - 1)..][..4].try_into().unwrap());
            for (mark, byte) in [(BLOCK_ARRAY, key >> 8 & 0xff), (ARRAY, key & 0xff)] {
                if entry & mark == mark {
                    let at = (entry & !BLOCK_ARRAY) as usize * LEN + byte as usize;
                    assert!(at < MAX_ARRAYS as usize * LEN);
                    // SAFETY: as above; there are MAX_ARRAYS arrays of LEN words.
                    entry = unsafe { view.arrays.add(at).read() };
                }
            }
            if entry == 0 {
                // SAFETY: as above; `fallback` has 256 entries.
                entry = unsafe { view.fallback.add(key as usize >> 24).read() };
            }
            entry.checked_sub(1)
        }
        other => panic!("algorithm {other}"),
    }
}

fn assert_same(lpm: &Lpm, naive: &Naive, key: u128) {
    let wanted = naive.lookup(key);
    assert_eq!(lpm.lookup(key), wanted, "{} bits, key {key:#x}, {lpm:?}", naive.bits);
    if lpm.view().algorithm != LpmView::CALL {
        assert_eq!(read(lpm, key), wanted, "the view, key {key:#x}, {lpm:?}");
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Insert(u128, u32, u32),
    Remove(u128, u32),
    /// Removes the prefix that stands at this place among those that are there.
    RemoveAny(prop::sample::Index),
    Clear,
}

/// Values that share many leading bits, so that prefixes lie in each other, and values from anywhere, wider than the
/// key too.
fn value(bits: u32) -> impl Strategy<Value = u128> {
    let near = (0u128..8, 0u128..8, prop_oneof![0u128..8, 0u128..256]).prop_map(move |(top, middle, low)| {
        (top << (bits - 3)) | (middle << (bits - 7)) | (low & (u128::MAX >> (128 - bits)))
    });
    prop_oneof![6 => near, 2 => any::<u128>(), 1 => Just(0), 1 => Just(u128::MAX)]
}

fn len(bits: u32) -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0..=bits, 1 => Just(0), 3 => bits - 3..=bits, 1 => Just(bits + 7), 2 => bits.min(6)..=bits.min(10)]
}

fn edit(bits: u32) -> impl Strategy<Value = Edit> {
    prop_oneof![
        // Few slots: neighbouring ranges with the same answer.
        24 => (value(bits), len(bits), prop_oneof![0u32..4, 0u32..1 << 26]).prop_map(|(v, l, s)| Edit::Insert(v, l, s)),
        5 => (value(bits), len(bits)).prop_map(|(v, l)| Edit::Remove(v, l)),
        8 => any::<prop::sample::Index>().prop_map(Edit::RemoveAny),
        1 => Just(Edit::Clear),
    ]
}

/// Makes the edits on both, and looks up what changed, its neighbours and `keys` after each.
fn check(bits: u32, edits: &[Edit], keys: &[u128]) {
    let mut lpm = Lpm::new(bits);
    let mut naive = Naive { bits, prefixes: BTreeMap::new() };
    for edit in edits {
        let changed = match edit {
            Edit::Insert(value, len, slot) => {
                let key = naive.key(*value, *len);
                assert_eq!(lpm.insert(*value, *len, *slot), naive.prefixes.insert(key, *slot));
                key
            }
            Edit::Remove(value, len) => {
                let key = naive.key(*value, *len);
                assert_eq!(lpm.remove(*value, *len), naive.prefixes.remove(&key));
                key
            }
            Edit::RemoveAny(index) => {
                if naive.prefixes.is_empty() {
                    continue;
                }
                let key = *index.get(&naive.prefixes.keys().copied().collect::<Vec<_>>());
                assert_eq!(lpm.remove(key.0, key.1), naive.prefixes.remove(&key));
                key
            }
            Edit::Clear => {
                lpm.clear();
                naive.prefixes.clear();
                (0, 0)
            }
        };
        assert_eq!(lpm.len(), naive.prefixes.len());
        let (first, last) = (changed.0, changed.0 | naive.outside(changed.1));
        for key in [first, last, first.wrapping_sub(1), last.wrapping_add(1)].iter().chain(keys) {
            assert_same(&lpm, &naive, *key);
        }
    }
    let all: Vec<_> = naive.prefixes.keys().copied().collect();
    for (first, len) in all {
        for key in [first, first | naive.outside(len)] {
            assert_same(&lpm, &naive, key);
            assert_same(&lpm, &naive, key.wrapping_add(1));
            assert_same(&lpm, &naive, key.wrapping_sub(1));
        }
    }
}

fn run(bits: u32) -> impl Strategy<Value = (Vec<Edit>, Vec<u128>)> {
    let edits = prop::collection::vec(edit(bits), 1..120);
    (edits, prop::collection::vec(value(bits), 4))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn answers_as_a_scan_does_8((edits, keys) in run(8)) { check(8, &edits, &keys); }

    #[test]
    fn answers_as_a_scan_does_16((edits, keys) in run(16)) { check(16, &edits, &keys); }

    #[test]
    fn answers_as_a_scan_does_32((edits, keys) in run(32)) { check(32, &edits, &keys); }

    #[test]
    fn answers_as_a_scan_does_64((edits, keys) in run(64)) { check(64, &edits, &keys); }

    #[test]
    fn answers_as_a_scan_does_128((edits, keys) in run(128)) { check(128, &edits, &keys); }
}

/// Pseudo-random numbers (SplitMix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[test]
fn an_empty_index_finds_nothing() {
    for bits in [8, 16, 32, 64, 128] {
        let mut lpm = Lpm::new(bits);
        assert_eq!((lpm.lookup(0), lpm.lookup(u128::MAX), lpm.remove(0, 0)), (None, None, None));
        assert_eq!(lpm.len(), 0);
    }
}

#[test]
fn the_highest_key_is_found_with_any_number_of_ranges() {
    let mut lpm = Lpm::new(32);
    for i in 0..16u32 {
        lpm.insert(u128::from(u32::MAX - 15 + i), 32, i);
        assert_eq!(lpm.view().algorithm, LpmView::RANGES);
        let wanted = (i == 15).then_some(i);
        assert_eq!((lpm.lookup(0xffff_ffff), read(&lpm, 0xffff_ffff)), (wanted, wanted));
    }
    lpm.insert(0, 0, 99);
    assert_eq!((lpm.lookup(0xffff_ffff), read(&lpm, 0xffff_ffff)), (Some(15), Some(15)));
    assert_eq!((lpm.lookup(0), read(&lpm, 0)), (Some(99), Some(99)));
}

#[test]
fn the_algorithm_follows_the_content_with_hysteresis() {
    let mut lpm = Lpm::new(32);
    // Each of these makes two boundaries: its first key, and the one after its last.
    let net = |lpm: &mut Lpm, i: u32, on: bool| {
        let value = u128::from(10 << 24 | i << 17);
        if on {
            lpm.insert(value, 16, i)
        } else {
            lpm.remove(value, 16)
        };
        lpm.view().algorithm
    };
    for i in 0..8 {
        assert_eq!(net(&mut lpm, i, true), LpmView::RANGES);
    }
    for i in 8..12 {
        assert_eq!(net(&mut lpm, i, true), LpmView::DIRECTORY);
    }
    for i in (FEW as u32 / 2..12).rev() {
        let wanted = if i as usize > FEW / 2 { LpmView::DIRECTORY } else { LpmView::RANGES };
        assert_eq!(net(&mut lpm, i, false), wanted);
    }
    assert_eq!(net(&mut lpm, FEW as u32 / 2, true), LpmView::RANGES);
    for bits in [8, 16, 64, 128] {
        let mut lpm = Lpm::new(bits);
        lpm.insert(0, 4, 7);
        assert_eq!(lpm.view().algorithm, LpmView::CALL);
    }
}

/// Two thirds of the prefixes have 24 bits, the others 1 to 32; they lie in each other.
fn table(count: usize) -> Vec<(u128, u32)> {
    let mut state = 1;
    let mut prefixes = BTreeMap::new();
    while prefixes.len() < count {
        let r = random(&mut state);
        let len = if r.is_multiple_of(3) { 1 + (r >> 32) as u32 % 32 } else { 24 };
        let value = (random(&mut state) as u32 & 0x3fff_ffff) >> (32 - len) << (32 - len);
        prefixes.insert((u128::from(value), len), ());
    }
    let mut prefixes: Vec<_> = prefixes.into_keys().collect();
    for i in (1..prefixes.len()).rev() {
        prefixes.swap(i, random(&mut state) as usize % (i + 1));
    }
    prefixes
}

/// The longest match by one probe a length, for tables that are too long to scan.
fn probe(prefixes: &BTreeMap<(u128, u32), u32>, key: u32) -> Option<u32> {
    (0..=32).rev().find_map(|len| {
        let value = key & u32::MAX.checked_shl(32 - len).unwrap_or(0);
        prefixes.get(&(value.into(), len)).copied()
    })
}

#[test]
fn thousands_of_prefixes_come_and_go() {
    let table = table(2 * HUGE_FROM);
    let mut lpm = Lpm::new(32);
    let mut wanted = BTreeMap::new();
    let mut state = 7;
    let mut look = |lpm: &Lpm, wanted: &BTreeMap<(u128, u32), u32>| {
        for _ in 0..20_000 {
            let key = random(&mut state) as u32 & 0x7fff_ffff;
            let answer = probe(wanted, key);
            assert_eq!((lpm.lookup(key.into()), read(lpm, key.into())), (answer, answer), "key {key:#x}");
        }
    };
    for (i, &(value, len)) in table.iter().enumerate() {
        assert_eq!(lpm.insert(value, len, i as u32), None);
        wanted.insert((value, len), i as u32);
        if let Front::Directory(dir) = &lpm.front {
            assert_eq!(dir.is_huge(), lpm.len() >= HUGE_FROM);
        }
        if i.is_power_of_two() && i > 16 {
            look(&lpm, &wanted);
        }
    }
    look(&lpm, &wanted);
    let slots = table.iter().zip(0..).map(|(&(value, len), slot)| (value, len, slot));
    let mut at_once = Lpm::new(32);
    extend(&mut at_once, slots.clone().take(4));
    assert_eq!((at_once.len(), at_once.view().algorithm), (4, LpmView::RANGES));
    extend(&mut at_once, slots);
    assert_eq!((at_once.len(), at_once.view().algorithm), (lpm.len(), LpmView::DIRECTORY));
    look(&at_once, &wanted);
    let most = lpm.bytes();
    assert!(most > 1 << 20 && most < 200 << 20, "{most} bytes");
    for (i, &(value, len)) in table.iter().enumerate().filter(|(i, _)| i % 16 != 3) {
        assert_eq!(lpm.remove(value, len), Some(i as u32));
        wanted.remove(&(value, len));
    }
    look(&lpm, &wanted);
    for (value, len) in table {
        lpm.remove(value, len);
    }
    assert_eq!((lpm.len(), lpm.view().algorithm), (0, LpmView::RANGES));
    assert!(lpm.bytes() < 1024);
}

#[test]
fn a_block_has_ranges_while_they_are_few_and_an_array_else() {
    let mut lpm = Lpm::new(32);
    let mut wanted = BTreeMap::new();
    // Elsewhere, so that there is a directory.
    let others = (0..64u32).map(|i| (u128::from(i << 18), 20));
    // Every third 256 of one block, one of them longer than that and one shorter, in an order that is not theirs.
    let block = 0x0a01_0000;
    let inner = (0..80u32)
        .map(|i| (u128::from(block | ((i * 37 % 80) * 3) << 8), [24, 24, 28, 23, 32][i as usize % 5]));
    let all: Vec<(u128, u32)> = others.chain(inner).collect();
    let look = |lpm: &Lpm, wanted: &BTreeMap<(u128, u32), u32>| {
        for key in (block - 0x200..block + 0x1_0200).step_by(64).flat_map(|key| [key, key + 15, key + 16]) {
            let answer = probe(wanted, key);
            assert_eq!((lpm.lookup(key.into()), read(lpm, key.into())), (answer, answer), "key {key:#x}");
        }
    };
    let arrays = |lpm: &Lpm| match &lpm.front {
        Front::Directory(dir) => dir.blocks().arrays(),
        _ => 0,
    };
    let mut most = 0;
    for (slot, &(value, len)) in (0..).zip(&all) {
        lpm.insert(value, len, slot);
        wanted.insert((value & !u128::from(u32::MAX.checked_shr(len).unwrap_or(0)), len), slot);
        look(&lpm, &wanted);
        most = most.max(arrays(&lpm));
    }
    assert_eq!((most, lpm.view().algorithm), (1, LpmView::DIRECTORY));
    for (value, len) in all.into_iter().skip(64) {
        lpm.remove(value, len);
        wanted.remove(&(value & !u128::from(u32::MAX.checked_shr(len).unwrap_or(0)), len));
        look(&lpm, &wanted);
    }
    assert_eq!((arrays(&lpm), lpm.view().algorithm), (0, LpmView::DIRECTORY));
}

#[test]
fn groups_of_the_second_level_are_used_again() {
    let mut lpm = Lpm::new(32);
    for i in 0..64u32 {
        lpm.insert((i << 16).into(), 16, i);
    }
    let mut bytes = 0;
    for i in 0..2000u32 {
        let value = u128::from(i << 11 & 0x3f_ff00 | 5);
        let around = lpm.lookup(value);
        assert!(around.is_some_and(|slot| slot < 64));
        assert_eq!(lpm.insert(value, 32, 1000), None);
        assert_eq!((lpm.lookup(value), lpm.lookup(value + 1)), (Some(1000), around));
        assert_eq!(lpm.insert(value, 32, 1001), Some(1000));
        assert_eq!(lpm.remove(value, 32), Some(1001));
        assert_eq!(lpm.lookup(value), around);
        if i == 0 {
            bytes = lpm.bytes();
        }
    }
    assert!(lpm.bytes() <= bytes, "{} bytes, {bytes} with one group", lpm.bytes());
    assert_eq!(lpm.view().algorithm, LpmView::DIRECTORY);
}

#[test]
fn without_room_for_long_prefixes_the_trie_answers() {
    let mut lpm = Lpm::new(32);
    lpm.insert(0, 0, 1);
    let host = |i: u32| u128::from(i << 8 | 9);
    for i in 0..=MAX_GROUPS {
        let before = lpm.view().algorithm;
        lpm.insert(host(i), 32, i);
        let wanted = if i == MAX_GROUPS { LpmView::CALL } else { before.max(lpm.view().algorithm) };
        assert_eq!(lpm.view().algorithm, wanted);
    }
    assert_eq!(
        (lpm.lookup(host(MAX_GROUPS)), lpm.lookup(host(3)), lpm.lookup(10)),
        (Some(MAX_GROUPS), Some(3), Some(1))
    );
    for i in 10..20 {
        assert_eq!(lpm.insert(host(MAX_GROUPS - i), 32, 5), Some(MAX_GROUPS - i));
        lpm.insert(host(MAX_GROUPS - i), 32, MAX_GROUPS - i);
    }
    // Many, but in few groups: there is space for them.
    let mut dense = Lpm::new(32);
    extend(&mut dense, (0..MAX_GROUPS + 1).map(|i| (i.into(), 32, i)));
    assert_eq!((dense.view().algorithm, dense.lookup(777)), (LpmView::DIRECTORY, Some(777)));
    let mut sparse = Lpm::new(32);
    extend(&mut sparse, (0..=MAX_GROUPS).map(|i| (host(i), 32, i)));
    assert_eq!((sparse.view().algorithm, sparse.lookup(host(777))), (LpmView::CALL, Some(777)));
    let again = MAX_GROUPS - LONG_AGAIN as u32;
    for i in 0..=again {
        assert_eq!(lpm.view().algorithm, LpmView::CALL);
        lpm.remove(host(i), 32);
    }
    assert_eq!(lpm.view().algorithm, LpmView::DIRECTORY);
    for i in 0..=MAX_GROUPS {
        let wanted = Some(if i <= again { 1 } else { i });
        assert_eq!((lpm.lookup(host(i)), read(&lpm, host(i))), (wanted, wanted));
    }
}

#[test]
fn a_prefix_costs_few_bytes_whatever_the_prefixes_are() {
    let mut state = 3;
    let mut wide = || u128::from(random(&mut state)) << 64 | u128::from(random(&mut state));
    let scattered: Vec<(u128, u32)> = (0..20_000).map(|_| (wide(), 128)).collect();
    // All lengths of a few keys, and pairs that part at the last bit.
    let nested: Vec<(u128, u32)> = (0..200)
        .flat_map(|_| (1..=128).map(move |len| (len, 0)))
        .zip((0..200).flat_map(|_| std::iter::repeat_n(wide(), 128)))
        .map(|((len, _), value)| (value, len))
        .collect();
    let twins: Vec<(u128, u32)> =
        (0..10_000u128).flat_map(|i| [((i * i) << 90, 128), ((i * i) << 90 | 1, 128)]).collect();
    for prefixes in [scattered, nested, twins] {
        let mut lpm = Lpm::new(128);
        for (i, &(value, len)) in prefixes.iter().enumerate() {
            lpm.insert(value, len, i as u32);
        }
        let few_bytes = |lpm: &Lpm| {
            let each = lpm.bytes() / lpm.len();
            assert!(each <= 132, "{each} bytes a prefix, {} prefixes", lpm.len());
        };
        few_bytes(&lpm);
        // First all but every twentieth, then these.
        for last in [false, true] {
            for (i, &(value, len)) in prefixes.iter().enumerate() {
                if last || i % 20 != 0 {
                    lpm.remove(value, len);
                }
            }
            if !last {
                few_bytes(&lpm);
            }
        }
        assert_eq!(lpm.len(), 0);
        assert!(lpm.bytes() < 256, "{} bytes are left", lpm.bytes());
    }
}

fn extend(lpm: &mut Lpm, prefixes: impl IntoIterator<Item = (u128, u32, u32)>) {
    lpm.hold();
    for (value, len, slot) in prefixes {
        lpm.insert(value, len, slot);
    }
    lpm.settle();
}

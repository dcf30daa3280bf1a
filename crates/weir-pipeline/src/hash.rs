//! A hash of words: [`FxHasher`], mixed at the end. Alone, of words that differ in their highest bits only, as two ports do here, it
//! gives numbers that differ in few of those bits that choose a place.
//!
//! It is known to everybody: only what controllers say is stored by it. What packets hold chooses no more than a bucket, or a place
//! among those of a fixed number.

use std::hash::{BuildHasherDefault, Hasher};

use rustc_hash::FxHasher;

/// The hasher.
#[derive(Default, Clone)]
pub struct Mixed(FxHasher);

/// The builder of [`Mixed`] hashers.
pub type Build = BuildHasherDefault<Mixed>;

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn write_u64(&mut self, word: u64) {
        self.0.write_u64(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.0.write_usize(word);
    }

    fn finish(&self) -> u64 {
        // The end of MurmurHash3 (Appleby).
        let mut hash = self.0.finish();
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::hash::Hash;

    #[test]
    fn words_that_differ_in_their_highest_bits_only_come_to_different_places() {
        let place = |port: u64| {
            let mut hash = Mixed::default();
            [0x800_u64, 5, port << 48].hash(&mut hash);
            hash.finish() & 0x3ff
        };
        let places: BTreeSet<u64> = (0..1024).map(place).collect();
        // A random function gives 647 of 1024 on average.
        assert!(places.len() > 550, "{}", places.len());
    }
}

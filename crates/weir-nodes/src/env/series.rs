//! Series of random numbers that other programs can repeat.

/// How far back the two numbers stand whose sum is the next.
const LAGS: (usize, usize) = (31, 3);
/// Numbers that are made and not given at the start.
const DISCARDED: usize = 310;

/// The series of `random()` in the C library of Linux (glibc, `srandom`): an additive generator with lags 31 and 3 (Knuth,
/// The Art of Computer Programming, volume 2, section 3.2.2), filled by that of Park and Miller (1988).
#[derive(Debug)]
pub struct Series {
    last: [u32; LAGS.0],
    /// Where the oldest stands.
    at: usize,
}

impl Series {
    /// The series of a seed.
    pub fn new(seed: u32) -> Series {
        // The library's arithmetic has signs.
        let mut state = i64::from(if seed == 0 { 1 } else { seed } as i32);
        let mut last = [0; LAGS.0];
        for number in &mut last {
            *number = state as u32;
            state = (16_807 * state) % 2_147_483_647;
            if state < 0 {
                state += 2_147_483_647;
            }
        }
        let mut series = Series { last, at: LAGS.1 };
        for _ in 0..DISCARDED {
            series.next();
        }
        series
    }

    /// The next number: `random()` gives all of its bits but the lowest.
    pub fn next(&mut self) -> u32 {
        let (long, short) = LAGS;
        let sum = self.last[self.at].wrapping_add(self.last[(self.at + long - short) % long]);
        self.last[self.at] = sum;
        self.at = (self.at + 1) % long;
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::Series;

    #[test]
    fn it_is_the_series_of_the_c_library() {
        let first = |seed| {
            let mut series = Series::new(seed);
            [(); 5].map(|()| series.next() >> 1)
        };
        assert_eq!(first(1), [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915, 1_957_747_793]);
        assert_eq!(first(0), first(1));
        assert_eq!(first(42), [71_876_166, 708_592_740, 1_483_128_881, 907_283_241, 442_951_012]);
        let large = [1_111_130_805, 1_380_198_982, 1_306_113_867, 1_557_021_840, 1_956_528_986];
        assert_eq!(first(4_000_000_000), large);
    }
}

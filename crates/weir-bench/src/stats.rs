//! Medians with their spread.

use serde::{Deserialize, Serialize};

/// A median and how far the measurements spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Half of the measurements are below.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of at least one measurement; of an even number the median is the upper one of the middle two.
    pub fn of(list: impl IntoIterator<Item = f64>) -> Spread {
        let mut list: Vec<f64> = list.into_iter().collect();
        list.sort_by(f64::total_cmp);
        let at = |i: usize| list.get(i).copied().unwrap_or(f64::NAN);
        Spread { median: at(list.len() / 2), min: at(0), max: at(list.len().wrapping_sub(1)) }
    }

    /// `median (min–max)` with so many digits behind the point.
    pub fn show(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_in_the_middle() {
        let s = Spread::of([5.0, 1.0, 9.0, 2.0, 3.25]);
        assert_eq!(s, Spread { median: 3.25, min: 1.0, max: 9.0 });
        assert_eq!(s.show(1), "3.2 (1.0–9.0)");
        assert_eq!(Spread::of([7.0]).median, 7.0);
    }
}

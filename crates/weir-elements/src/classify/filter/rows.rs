//! From conditions to rows of a rule table: a condition becomes a list of rows of which some row matches.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use weir_ir::Width;
use weir_table::KeyMatch;

use super::cond::{Bit, Cond, Field, Test};

/// Most rows for one rule.
const ROWS: usize = 64;
/// Most rows of a table: so many for each rule, and so many more.
const ALL_ROWS: (usize, usize) = (8, 64);
/// Most conditions that become bits because they are negated; more are turned into rows.
const NEGATED: usize = 8;
/// Most conditions that become bits.
const CONDS: usize = 24;
/// Most key fields, the bits not counted.
const FIELDS: usize = 15;

/// The condition of a row on a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Span {
    /// Value, mask: bits that are no prefix.
    Mask(u128, u128),
    Range(u128, u128),
}

/// A row: all of it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Cube {
    spans: BTreeMap<Field, Span>,
    /// Bits: value, mask.
    bits: (u64, u64),
}

/// The condition needs too many rows, fields or bits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

/// The rows of a table under construction. A bit of the key stands for something that a packet has, or for a whole
/// condition that is tested before the lookup.
#[derive(Debug)]
pub(super) struct Rows {
    /// What packets have or have not, by number of the bit.
    has: Vec<Bit>,
    /// Conditions of the bits that follow.
    pub conds: Vec<Cond>,
    /// Fields that rows look at.
    pub fields: BTreeSet<Field>,
    /// Whether rows look at bits.
    pub bits: bool,
    /// Each row, and its rule; those of the first rule first. No two are the same.
    pub rows: Vec<(Cube, usize)>,
    seen: HashSet<Cube>,
    rules: usize,
}

impl Rows {
    /// No rows.
    pub fn new(has: &[Bit]) -> Rows {
        Rows {
            has: has.to_vec(),
            conds: Vec::new(),
            fields: BTreeSet::new(),
            bits: false,
            rows: Vec::new(),
            seen: HashSet::new(),
            rules: 0,
        }
    }

    /// Adds a rule behind all others.
    pub fn add(&mut self, cond: &Cond, rule: usize) -> Result<(), TooMuch> {
        let conds = self.conds.len();
        let cubes = match self.cubes(cond, true).and_then(|cubes| self.fitting(cubes)) {
            Ok(cubes) => cubes,
            Err(TooMuch) => {
                self.conds.truncate(conds);
                vec![self.bit_for(cond, true, CONDS)?]
            }
        };
        self.rules += 1;
        for cube in cubes {
            self.fields.extend(cube.spans.keys());
            self.bits |= cube.bits.1 != 0;
            // Of two rows that are the same, the first decides.
            if self.seen.insert(cube.clone()) {
                self.rows.push((cube, rule));
            }
        }
        Ok(())
    }

    fn fitting(&self, cubes: Vec<Cube>) -> Result<Vec<Cube>, TooMuch> {
        let fields: BTreeSet<Field> =
            self.fields.iter().chain(cubes.iter().flat_map(|c| c.spans.keys())).copied().collect();
        let most = ALL_ROWS.0 * (self.rules + 1) + ALL_ROWS.1;
        let fits = fields.len() <= FIELDS && self.rows.len() + cubes.len() <= most;
        if fits { Ok(cubes) } else { Err(TooMuch) }
    }

    /// Rows of which one matches if the condition holds (or does not, as wanted).
    fn cubes(&mut self, cond: &Cond, wanted: bool) -> Result<Vec<Cube>, TooMuch> {
        Ok(match (cond, wanted) {
            (Cond::Not(arm), _) => self.cubes(arm, !wanted)?,
            (Cond::All(arms), true) => self.product(arms, true)?,
            (Cond::Any(arms), true) => self.sum(arms, true)?,
            (Cond::Has(bit), _) => {
                let n = self.has.iter().position(|b| b == bit).ok_or(TooMuch)?;
                vec![Cube::bit(n, wanted)]
            }
            (Cond::Test(field, test), true) => match span(*field, *test) {
                Some(span) => vec![Cube::span(*field, span)],
                None => vec![self.bit_for(cond, true, CONDS)?],
            },
            (Cond::Deep(..) | Cond::Bytes(..), _) => vec![self.bit_for(cond, wanted, CONDS)?],
            (Cond::Test(field, test), false) => {
                let spans = complement(*field, *test);
                match spans {
                    Some(spans) if spans.len() <= 1 => Cube::each(*field, spans),
                    spans => match self.bit_for(cond, false, NEGATED) {
                        Ok(cube) => vec![cube],
                        Err(TooMuch) => Cube::each(*field, spans.ok_or(TooMuch)?),
                    },
                }
            }
            (Cond::All(arms) | Cond::Any(arms), false) => match self.bit_for(cond, false, NEGATED) {
                Ok(cube) => vec![cube],
                Err(TooMuch) if matches!(cond, Cond::All(_)) => self.sum(arms, false)?,
                Err(TooMuch) => self.product(arms, false)?,
            },
        })
    }

    fn sum(&mut self, arms: &[Cond], wanted: bool) -> Result<Vec<Cube>, TooMuch> {
        let mut all = Vec::new();
        for arm in arms {
            for cube in self.cubes(arm, wanted)? {
                if !all.contains(&cube) {
                    all.push(cube);
                }
            }
            if all.len() > ROWS {
                return Err(TooMuch);
            }
        }
        Ok(all)
    }

    fn product(&mut self, arms: &[Cond], wanted: bool) -> Result<Vec<Cube>, TooMuch> {
        let mut all = vec![Cube::default()];
        for arm in arms {
            let mut next = Vec::new();
            let cubes = self.cubes(arm, wanted)?;
            for a in &all {
                for b in &cubes {
                    if let Some(both) = a.and(b)?
                        && !next.contains(&both)
                    {
                        next.push(both);
                    }
                    if next.len() > ROWS {
                        return Err(TooMuch);
                    }
                }
            }
            all = next;
        }
        Ok(all)
    }

    /// A row on the bit of a condition, which is one of at most `most`.
    fn bit_for(&mut self, cond: &Cond, wanted: bool, most: usize) -> Result<Cube, TooMuch> {
        let n = match self.conds.iter().position(|c| c == cond) {
            Some(n) => n,
            None if self.conds.len() < most && self.has.len() + self.conds.len() < 64 => {
                self.conds.push(cond.clone());
                self.conds.len() - 1
            }
            None => return Err(TooMuch),
        };
        Ok(Cube::bit(self.has.len() + n, wanted))
    }

    /// Size of the bits in the key.
    pub fn bits_width(&self) -> Width {
        let n = (self.has.len() + self.conds.len()) as u32;
        Width::ALL.into_iter().find(|w| w.bits() >= n.max(8)).unwrap_or(Width::W64)
    }
}

impl Cube {
    fn bit(n: usize, wanted: bool) -> Cube {
        Cube { bits: (u64::from(wanted) << n, 1 << n), ..Cube::default() }
    }

    fn span(field: Field, span: Span) -> Cube {
        Cube { spans: BTreeMap::from([(field, span)]), ..Cube::default() }
    }

    fn each(field: Field, spans: Vec<Span>) -> Vec<Cube> {
        spans.into_iter().map(|s| Cube::span(field, s)).collect()
    }

    /// What both match; `None` is nothing.
    fn and(&self, other: &Cube) -> Result<Option<Cube>, TooMuch> {
        if (self.bits.0 ^ other.bits.0) & self.bits.1 & other.bits.1 != 0 {
            return Ok(None);
        }
        let mut both = self.clone();
        both.bits = (self.bits.0 | other.bits.0, self.bits.1 | other.bits.1);
        for (&field, &b) in &other.spans {
            let joined = match both.spans.get(&field) {
                None => Some(b),
                Some(&a) => intersect(a, b, field.width().max())?,
            };
            let Some(joined) = joined else { return Ok(None) };
            both.spans.insert(field, joined);
        }
        Ok(Some(both))
    }

    /// What the row wants of a field.
    pub fn key(&self, field: Field) -> KeyMatch {
        match self.spans.get(&field) {
            None => KeyMatch::ANY,
            Some(&Span::Mask(value, mask)) => KeyMatch::Mask(value, mask),
            Some(&Span::Range(lo, hi)) => {
                let width = field.width();
                match prefix(lo, hi, width.max()) {
                    Some(0) => KeyMatch::ANY,
                    Some(len) if len == width.bits() => KeyMatch::Exact(lo),
                    Some(len) => KeyMatch::Prefix(lo, len),
                    None => KeyMatch::Range(lo, hi),
                }
            }
        }
    }

    /// What it wants of the bits.
    pub fn bits(&self) -> KeyMatch {
        KeyMatch::Mask(self.bits.0.into(), self.bits.1.into())
    }
}

/// What a test asks for, if a row can say it.
fn span(field: Field, test: Test) -> Option<Span> {
    match test {
        Test::Range(lo, hi) => Some(Span::Range(lo, hi)),
        Test::Mask(value, mask) => {
            let max = field.width().max();
            let low = max & !mask;
            // The mask of a prefix: ones, then zeros.
            Some(if low & low.wrapping_add(1) == 0 {
                Span::Range(value, value | low)
            } else {
                Span::Mask(value, mask)
            })
        }
        Test::Other(..) => None,
    }
}

/// All that a test does not ask for.
fn complement(field: Field, test: Test) -> Option<Vec<Span>> {
    let max = field.width().max();
    Some(match span(field, test)? {
        Span::Range(lo, hi) => {
            let below = (lo > 0).then(|| Span::Range(0, lo - 1));
            let above = (hi < max).then(|| Span::Range(hi + 1, max));
            below.into_iter().chain(above).collect()
        }
        Span::Mask(value, mask) => (0..field.width().bits())
            .map(|i| 1 << i)
            .filter(|bit| mask & bit != 0)
            .map(|bit| Span::Mask(!value & bit, bit))
            .collect(),
    })
}

fn intersect(a: Span, b: Span, max: u128) -> Result<Option<Span>, TooMuch> {
    Ok(match (a, b) {
        (Span::Range(a, b), Span::Range(c, d)) => {
            let (lo, hi) = (a.max(c), b.min(d));
            (lo <= hi).then_some(Span::Range(lo, hi))
        }
        (Span::Mask(a, m), Span::Mask(b, n)) => ((a ^ b) & m & n == 0).then(|| {
            let (value, mask) = (a | b, m | n);
            let low = max & !mask;
            if low & low.wrapping_add(1) == 0 {
                Span::Range(value, value | low)
            } else {
                Span::Mask(value, mask)
            }
        }),
        (Span::Range(lo, hi), mask) | (mask, Span::Range(lo, hi)) => {
            let len = prefix(lo, hi, max).ok_or(TooMuch)?;
            let high = max & !(hi - lo);
            debug_assert_eq!(high.count_ones(), len);
            return match mask {
                Span::Mask(value, mask) if (value ^ lo) & mask & high != 0 => Ok(None),
                Span::Mask(value, mask) if mask | high == max => {
                    Ok(Some(Span::Range(value | lo, value | lo)))
                }
                Span::Mask(value, mask) => {
                    intersect(Span::Mask(value | lo, mask | high), Span::Mask(0, 0), max)
                }
                Span::Range(..) => Err(TooMuch),
            };
        }
    })
}

/// The length of the prefix that a range is, if it is one.
fn prefix(lo: u128, hi: u128, max: u128) -> Option<u32> {
    let size = hi - lo;
    (size & size.wrapping_add(1) == 0 && lo & size == 0).then(|| max.count_ones() - size.count_ones())
}

//! Conditions as straight-line programs.

use weir_filter::Cmp;
use weir_ir::{Arg, Builder, Layer, V, Width};

use super::cond::{Cond, Field, Test};
use super::read::{Headers, load};

impl Headers {
    /// Whether a condition holds (1 bit); what it looks at has to be among what was read.
    pub(super) fn test(&self, b: &mut Builder, cond: &Cond) -> V {
        match cond {
            Cond::All(arms) => self.all(b, arms),
            Cond::Any(arms) => {
                let mut result: Option<V> = None;
                for arm in arms {
                    let v = self.test(b, arm);
                    result = Some(result.map_or(v, |r| b.or(r, v)));
                }
                result.unwrap_or_else(|| b.constant(Width::W1, 0_u8))
            }
            Cond::Not(arm) => {
                let v = self.test(b, arm);
                b.not(v)
            }
            Cond::Test(field, test) => compare(b, self.value(*field), *test),
            Cond::Has(_) => self.all(b, std::slice::from_ref(cond)),
            Cond::Deep(..) => self.in_place(cond),
            Cond::Bytes(off, values, masks) => bytes(b, *off, values, masks),
        }
    }

    /// All of these; what the packet has to have is tested at once.
    fn all(&self, b: &mut Builder, arms: &[Cond]) -> V {
        let (mut wanted, mut result) = (0_u64, None);
        for arm in arms {
            let v = match arm {
                Cond::Has(bit) if let Some(v) = self.of_protocols(*bit) => v,
                Cond::Has(bit) if let Some(n) = self.number(*bit) => {
                    wanted |= 1 << n;
                    continue;
                }
                arm => self.test(b, arm),
            };
            result = Some(result.map_or(v, |r| b.and(r, v)));
        }
        if wanted != 0 {
            let width = self.bits_width();
            let bits = self.bits(b, width);
            let part = b.and(bits, wanted);
            let v = b.eq(part, wanted);
            result = Some(result.map_or(v, |r| b.and(r, v)));
        }
        result.unwrap_or_else(|| b.constant(Width::W1, 1_u8))
    }
}

fn compare(b: &mut Builder, v: V, test: Test) -> V {
    let max = v.width.max();
    let masked = |b: &mut Builder, mask: u128| if mask == max { v } else { b.and(v, mask) };
    match test {
        Test::Mask(value, mask) => {
            let v = masked(b, mask);
            b.eq(v, value)
        }
        Test::Range(lo, hi) if lo == hi => b.eq(v, lo),
        Test::Range(0, hi) => b.le(v, hi),
        Test::Range(lo, hi) if hi == max => b.ge(v, lo),
        Test::Range(lo, hi) => {
            let from_lo = b.sub(v, lo);
            b.le(from_lo, hi - lo)
        }
        Test::Other(mask, cmp, value) => {
            let v = masked(b, mask);
            ordered(b, v, cmp, value)
        }
    }
}

pub(super) fn ordered(b: &mut Builder, v: V, cmp: Cmp, value: impl Into<Arg>) -> V {
    match cmp {
        Cmp::Eq => b.eq(v, value),
        Cmp::Ne => b.ne(v, value),
        Cmp::Lt => b.lt(v, value),
        Cmp::Le => b.le(v, value),
        Cmp::Gt => b.gt(v, value),
        Cmp::Ge => b.ge(v, value),
    }
}

fn no(b: &mut Builder) -> V {
    b.constant(Width::W1, 0_u8)
}

fn bytes(b: &mut Builder, off: u32, values: &[u8], masks: &[u8]) -> V {
    let len = values.len();
    let compare = |b: &mut Builder| {
        let mut result: Option<V> = None;
        let mut at = 0;
        while at < len {
            let n = [8, 4, 2, 1].into_iter().find(|n| at + n <= len).unwrap_or(1);
            let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |v, &b| v << 8 | u64::from(b));
            let (value, mask) = (number(&values[at..at + n]), number(&masks[at..at + n]));
            let v = load(b, Layer::Data, off + at as u32, n as u32);
            let v = b.and(v, mask);
            let v = b.eq(v, value & mask);
            result = Some(result.map_or(v, |r| b.and(r, v)));
            at += n;
        }
        result.unwrap_or_else(|| b.constant(Width::W1, 1_u8))
    };
    b.choose_has(Layer::Data, off + len as u32, compare, no)
}

/// The field and value of a condition that asks for one value of one number, and nothing else.
pub(super) fn single(cond: &Cond) -> Option<(Field, u128)> {
    match cond {
        Cond::Test(field, Test::Mask(value, mask)) if *mask == field.width().max() => Some((*field, *value)),
        Cond::Test(field, Test::Range(lo, hi)) if lo == hi => Some((*field, *lo)),
        _ => None,
    }
}

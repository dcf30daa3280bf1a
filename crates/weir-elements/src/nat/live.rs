//! Patterns whose numbers handlers change while the rewriter runs.

use super::mapping::{self, Settings, shared};
use super::pattern::{InputSpec, InputSpecs, Order, Pattern, Rule, Source};
use crate::prelude::*;
use weir_table::Table;

/// The numbers of a pattern as they stand when a flow begins.
pub(super) struct Live {
    pub(super) src: Part,
    pub(super) sport: Part,
    pub(super) dst: Option<V>,
    pub(super) dport: Option<V>,
}

/// The new value of a source address or port.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Keep,
    Set(V),
    OneOf(Range),
}

/// Values to choose from.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) lo: V,
    pub(super) hi: V,
    pub(super) order: Order,
    /// See [`scale`].
    scale: V,
}

/// The value fields of the table of a pattern. `lo` and `hi` are the range, if there is one.
const FIELDS: [(&str, Width); 7] =
    [("src", W32), ("sport", W16), ("dst", W32), ("dport", W16), ("lo", W32), ("hi", W32), ("scale", W64)];

/// The numbers of a pattern, in the order of [`FIELDS`]; 0 for what it leaves alone.
fn numbers(p: &Pattern) -> [u64; 7] {
    let set = |s| Pattern::fixed(s).unwrap_or(0).into();
    let range = [p.sport, p.src].into_iter().find_map(|s| match s {
        Source::OneOf(lo, hi, _) => Some((lo, hi)),
        _ => None,
    });
    let (lo, hi) = range.unwrap_or((0, 0));
    let [dst, dport] = [p.dst, p.dport].map(|v| v.unwrap_or(0).into());
    [set(p.src), set(p.sport), dst, dport, lo.into(), hi.into(), scale(lo, hi)]
}

/// A random number of 31 bits times this is, in its bits from 63 on, a number of `0..=hi - lo`, or seldom the next: as if
/// it were divided by the 31-bit numbers that go to one, as Click does. 0 for ranges of more than 31 bits.
fn scale(lo: u32, hi: u32) -> u64 {
    let span = u64::from(hi.saturating_sub(lo)) + 1;
    let share = (1_u64 << 31) / span;
    (1_u64 << 63).checked_div(share).map_or(0, |n| n + 1)
}

fn decl(name: &str) -> TableDecl {
    TableDecl::new(name, Kind::Array, &[("index", W32)], &FIELDS, 1).configured()
}

/// Declares the tables of those rules whose pattern handlers may change: those that an input has to itself.
pub(super) fn declare(b: &mut Builder, of: &Settings, own: &str) -> Vec<Option<TableId>> {
    let mut tables = Vec::new();
    for (i, (input, rule)) in of.inputs.rules().enumerate() {
        tables.push(changeable(&of.inputs, input).and(rule.pattern).map(|pattern| {
            let row = Row::exact(&[0], &numbers(&pattern).map(u128::from));
            shared(b, decl(&format!("{own}pattern{i}")), format!("{}.pattern{i}", of.name), vec![row])
        }));
    }
    tables
}

/// The rule of an input, if it has a pattern of its own.
fn changeable(inputs: &InputSpecs, input: usize) -> Option<&Rule> {
    match inputs.0.get(input) {
        Some(InputSpec::Map(rule)) if rule.name.is_none() && rule.pattern.is_some() => Some(rule),
        _ => None,
    }
}

impl Live {
    /// The numbers of a pattern: those in its table, if it has one.
    pub(super) fn read(b: &mut Builder, pattern: &Pattern, table: Option<TableId>) -> Live {
        let row = table.map(|table| b.index(table, 0));
        let fixed = numbers(pattern);
        let number = |b: &mut Builder, i: usize| match row {
            Some(row) => b.get(row, FIELDS[i].0),
            None => b.constant(FIELDS[i].1, fixed[i]),
        };
        let part = |b: &mut Builder, source: Source, i: usize| match source {
            Source::Keep => Part::Keep,
            Source::Set(_) => Part::Set(number(b, i)),
            Source::OneOf(_, _, order) => {
                let [lo, hi] = [4, 5].map(|at| {
                    let v = number(b, at);
                    b.resize(FIELDS[i].1, v)
                });
                Part::OneOf(Range { lo, hi, order, scale: number(b, 6) })
            }
        };
        Live {
            src: part(b, pattern.src, 0),
            sport: part(b, pattern.sport, 1),
            dst: pattern.dst.map(|_| number(b, 2)),
            dport: pattern.dport.map(|_| number(b, 3)),
        }
    }
}

impl Part {
    /// What it becomes if that does not depend on what is free; `old` if it stays.
    pub(super) fn fixed(self, old: V) -> V {
        match self {
            Part::Set(v) => v,
            Part::Keep | Part::OneOf(_) => old,
        }
    }
}

impl Range {
    /// Number of values, less one.
    pub(super) fn last(&self, b: &mut Builder) -> V {
        b.sub(self.hi, self.lo)
    }

    /// A random place in the range, counted from its first value.
    pub(super) fn random(&self, b: &mut Builder) -> V {
        let last = self.last(b);
        let last = b.resize(W64, last);
        let first = self.draw(b);
        let inside = b.le(first, last);
        let place = b.choose(
            inside,
            |_| first,
            |b| {
                let second = self.draw(b);
                let inside = b.le(second, last);
                b.select(inside, second, last)
            },
        );
        b.resize(self.lo.width, place)
    }

    fn draw(&self, b: &mut Builder) -> V {
        let random = b.random();
        // Of a range that takes all bits, any number will do.
        let is_wide = b.eq(self.scale, 0);
        let any = b.resize(W64, random);
        let random = b.shr(random, 1);
        let (random, scale) = (b.resize(W128, random), b.resize(W128, self.scale));
        let product = b.mul(random, scale);
        let place = b.shr(product, 63);
        let place = b.resize(W64, place);
        b.select(is_wide, any, place)
    }
}

/// The specifications with the patterns as they stand.
pub(super) fn current(inputs: &InputSpecs, s: &State<'_>) -> InputSpecs {
    let mut now = inputs.clone();
    for input in 0..inputs.0.len() {
        let Some(pattern) = changeable(inputs, input).and_then(|rule| rule.pattern) else { continue };
        let table = s.table(&format!("pattern{}", inputs.first_rule(input)));
        let number = |i: u32| table.get(0, i) as u32;
        let source = |old: Source, i: u32| match old {
            Source::Keep => Source::Keep,
            Source::Set(_) => Source::Set(number(i)),
            Source::OneOf(_, _, order) => Source::OneOf(number(4), number(5), order),
        };
        let pattern = Pattern {
            src: source(pattern.src, 0),
            sport: source(pattern.sport, 1),
            dst: pattern.dst.map(|_| number(2)),
            dport: pattern.dport.map(|_| number(3)),
            ..pattern
        };
        if let Some(InputSpec::Map(rule)) = now.0.get_mut(input) {
            rule.pattern = Some(pattern);
        }
    }
    now
}

/// Removes mappings, in both directions, by either entry: `goes` is asked of each slot.
pub(super) fn remove_mappings(s: &mut State<'_>, goes: impl Fn(&Table, u32) -> bool) {
    let map = s.table("map");
    let gone: Vec<u32> = map.slots().filter(|slot| goes(map, *slot)).collect();
    for slot in gone {
        s.remove("map", slot);
    }
}

/// Puts another pattern in the place of that of an input. Mappings that the input has made go.
pub(super) fn set(inputs: &InputSpecs, s: &mut State<'_>, input: u32, text: &str) -> Result<(), String> {
    let input = input as usize;
    let wrong = |what: &str| {
        Err(format!(
            "{what}: write a pattern that changes the same parts and has the same outputs, or another \
                     configuration for the graph (handler hotconfig)"
        ))
    };
    let Some(old) = changeable(inputs, input) else {
        return wrong(&format!("input {input} has no pattern of its own"));
    };
    let InputSpec::Map(new) = InputSpec::from_arg(text)? else {
        return wrong("this is no pattern");
    };
    let (Some(was), Some(pattern)) = (old.pattern, new.pattern) else {
        return wrong("the pattern has a name");
    };
    let shape = |p: &Pattern| {
        let kind = |s| match s {
            Source::Keep => None,
            Source::Set(_) => Some(None),
            Source::OneOf(_, _, order) => Some(Some(order)),
        };
        (kind(p.src), kind(p.sport), p.dst.is_some(), p.dport.is_some(), p.with_ports)
    };
    if shape(&was) != shape(&pattern) || old.outputs != new.outputs {
        return wrong("the pattern is of another form");
    }
    let number = inputs.first_rule(input);
    remove_mappings(s, |map, slot| {
        let rule = map.decl().value_field(mapping::RULE).unwrap_or(0);
        map.get(slot, rule) == number as u128
    });
    let table = s.table_mut(&format!("pattern{number}"));
    for (i, v) in (0..).zip(numbers(&pattern)) {
        table.set(0, i, v.into());
    }
    if pattern.is_sequential() {
        s.set_cell(&format!("next{number}"), 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn a_random_number_is_divided_as_click_does_it() {
        for (lo, hi) in [(1024, 65534), (0, 1), (0, 2), (1, 65535), (7, 0x7fff_0000), (0, 0x7fff_fffe)] {
            let share = (1_u64 << 31) / (u64::from(hi - lo) + 1);
            for random in [0, 1, share - 1, share, 7 * share - 1, 7 * share, 1_804_289_383, 0x7fff_ffff] {
                let place = (u128::from(random) * u128::from(scale(lo, hi))) >> 63;
                assert_eq!(place, (random / share).into(), "{random} of {lo} to {hi}");
            }
        }
        assert_eq!(scale(0, u32::MAX), 0);
    }
}

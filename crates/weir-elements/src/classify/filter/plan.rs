//! Ordered lists of filters as programs: few by straight-line tests, many by rows of a rule table.
//!
//! A rule's condition becomes rows over the numbers that the rules look at ([`super::rows`]). Conditions that are no rows,
//! or too many, and most negated ones, are tested before the lookup and become bits of the key, so that rows only
//! say that they are set or not. If there are too many of these, the list goes on behind the table, in another one.

use std::collections::VecDeque;

use weir_ir::program::{Row, TableId};
use weir_ir::{Builder, E, TableDecl, V, Width};
use weir_table::{KeyMatch, Kind};

use super::View;
use super::cond::{Bit, Cond, Field, walks};
use super::read::{Headers, Wants};
use super::rows::Rows;
use super::test::single;

/// Up to so many rules are tested one by one: that takes less than a lookup.
pub(in crate::classify) const FEW: usize = 4;
/// Up to so many values of one number are distinguished by a switch.
const FEW_VALUES: usize = 16;

/// An ordered list of rules, each a filter and an outcome (a number that means something to the element).
#[derive(Debug)]
pub struct RuleList {
    view: View,
    rules: Vec<(Cond, u32)>,
    parts: Vec<Part>,
    wants: Wants,
    counted: bool,
}

/// A part of the list.
#[derive(Debug)]
enum Part {
    /// Rules that are tested one by one.
    Straight(Vec<usize>),
    /// Rules in a table.
    Table(Table),
}

#[derive(Debug)]
struct Table {
    rows: Rows,
    id: Option<TableId>,
}

/// The test that decided.
#[derive(Debug, Clone, Copy)]
pub enum MatchedBy {
    /// A rule, by number.
    Rule(usize),
    /// An entry of a table: if rules are counted, with the fields `rule` (its number) and `packets`.
    Entry(E),
}

impl RuleList {
    /// A plan for rules in order of precedence: filter, outcome.
    pub fn new<'a>(view: View, rules: impl IntoIterator<Item = (&'a weir_filter::Expr, u32)>) -> RuleList {
        let rules: Vec<_> = rules.into_iter().collect();
        let walks = walks(rules.iter().map(|(e, _)| *e));
        let conds = rules.into_iter().map(|(e, o)| (Cond::of(e, view, walks), o));
        RuleList::of(view, conds.collect(), FEW, walks)
    }

    /// A plan for frames that reads all that elements need that change headers: [`Headers::ether_type`] behind all VLAN tags,
    /// [`Headers::protocol_number`], and the marks `net` and `cursor` (the transport header).
    pub fn for_edits<'a>(rules: impl IntoIterator<Item = (&'a weir_filter::Expr, u32)>) -> RuleList {
        let conds = rules.into_iter().map(|(e, o)| (Cond::of(e, View::Ethernet, true), o));
        let mut plan = RuleList::of(View::Ethernet, conds.collect(), FEW, true);
        plan.wants.fields.extend([Field::EtherType, Field::Proto]);
        plan.wants.cursor = true;
        plan
    }

    /// A plan with up to `few` rules tested one by one. `walks`: whether headers are those behind all VLAN tags.
    pub(in crate::classify) fn of(
        view: View,
        mut rules: Vec<(Cond, u32)>,
        few: usize,
        walks: bool,
    ) -> RuleList {
        // What stands behind a rule for every packet is never reached.
        if let Some(all) = rules.iter().position(|(c, _)| *c == Cond::TRUE) {
            rules.truncate(all + 1);
        }
        let wants = Wants { walks, ..Wants::of(rules.iter().map(|(c, _)| c)) };
        let mut plan = RuleList { view, rules, parts: Vec::new(), wants, counted: false };
        plan.divide(few);
        plan
    }

    /// Lets table entries say which rule they belong to, and count packets.
    #[must_use]
    pub fn counted(mut self) -> RuleList {
        self.counted = true;
        self
    }

    fn divide(&mut self, few: usize) {
        let has: Vec<Bit> = self.wants.bits.iter().copied().collect();
        let mut left: VecDeque<usize> = (0..self.rules.len()).collect();
        // A last rule for every packet needs no row.
        let last = left.pop_back_if(|r| self.rules[*r].0 == Cond::TRUE);
        let values: Option<Vec<_>> = left.iter().map(|&r| single(&self.rules[r].0)).collect();
        let switch = values.is_some_and(|v| v.len() <= FEW_VALUES && v.iter().all(|(f, _)| *f == v[0].0));
        if few != 0 && switch || left.len() <= few {
            self.push_straight(left.drain(..));
        }
        while !left.is_empty() {
            let mut rows = Rows::new(&has);
            let mut taken = Vec::new();
            while let Some(&r) = left.front()
                && rows.add(&self.rules[r].0, r).is_ok()
            {
                taken.push(r);
                left.pop_front();
            }
            if taken.len() <= few {
                // At least one, even if no table takes it.
                taken.extend(taken.is_empty().then(|| left.pop_front()).flatten());
                self.push_straight(taken);
            } else {
                self.parts.push(Part::Table(Table { rows, id: None }));
            }
        }
        self.push_straight(last);
    }

    fn push_straight(&mut self, rules: impl IntoIterator<Item = usize>) {
        let mut rules = rules.into_iter().peekable();
        if rules.peek().is_none() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Straight(list)) => list.extend(rules),
            _ => self.parts.push(Part::Straight(rules.collect())),
        }
    }

    /// Declares the tables, and gives their names. The names start with `name`.
    pub fn declare(&mut self, b: &mut Builder, name: &str) -> Vec<String> {
        let mut names = Vec::new();
        let outcomes = self.rules.iter().map(|(_, o)| *o).max().unwrap_or(0);
        for part in &mut self.parts {
            let Part::Table(t) = part else { continue };
            let table = if names.is_empty() { name.to_owned() } else { format!("{name}_{}", names.len()) };
            t.id =
                Some(b.table(t.decl(&table, outcomes, self.counted), t.content(&self.rules, self.counted)));
            names.push(table);
        }
        names
    }

    /// Names of the tables that [`RuleList::declare`] declares.
    pub fn names(&self, name: &str) -> Vec<String> {
        let tables = self.parts.iter().filter(|p| matches!(p, Part::Table(_))).count();
        (0..tables).map(|i| if i == 0 { name.to_owned() } else { format!("{name}_{i}") }).collect()
    }

    /// Reads the packet's headers and finds the first rule that it matches. For each outcome that there may be, `hit`
    /// is called once or more; it has to end. What follows is for packets that no rule matches, unless the path has
    /// ended.
    pub fn run(&self, b: &mut Builder, mut hit: impl FnMut(&mut Builder, &Headers, u32, MatchedBy)) {
        let headers = Headers::read(b, self.view, &self.wants);
        for part in &self.parts {
            match part {
                Part::Straight(rules) => self.straight(b, &headers, rules, &mut hit),
                Part::Table(t) => self.lookup(b, &headers, t, &mut hit),
            }
        }
    }

    /// Reads the packet's headers and says whether it matches the first rule (1 bit).
    pub fn matches(&self, b: &mut Builder) -> V {
        let headers = Headers::read(b, self.view, &self.wants);
        match self.rules.first() {
            Some((cond, _)) => headers.test(b, cond),
            None => b.constant(Width::W1, 0_u8),
        }
    }

    fn straight(
        &self,
        b: &mut Builder,
        headers: &Headers,
        rules: &[usize],
        hit: &mut impl FnMut(&mut Builder, &Headers, u32, MatchedBy),
    ) {
        let mut left = rules;
        while let [rule, rest @ ..] = left {
            let (cond, outcome) = &self.rules[*rule];
            // As many rules as ask for one value of the same number.
            let values: Vec<u128> = match single(cond) {
                Some((field, _)) => left
                    .iter()
                    .map_while(|&r| single(&self.rules[r].0).filter(|(f, _)| *f == field))
                    .map(|(_, value)| value)
                    .collect(),
                None => Vec::new(),
            };
            if let Some((field, _)) = single(cond)
                && values.len() > 1
            {
                b.switch(headers.value(field), &values, |b, case| {
                    if let Some(i) = case {
                        hit(b, headers, self.rules[left[i]].1, MatchedBy::Rule(left[i]));
                    }
                });
                left = &left[values.len()..];
                continue;
            }
            if *cond == Cond::TRUE {
                return hit(b, headers, *outcome, MatchedBy::Rule(*rule));
            }
            let v = headers.test(b, cond);
            b.when(v, |b| hit(b, headers, *outcome, MatchedBy::Rule(*rule)));
            left = rest;
        }
    }

    fn lookup(
        &self,
        b: &mut Builder,
        headers: &Headers,
        t: &Table,
        hit: &mut impl FnMut(&mut Builder, &Headers, u32, MatchedBy),
    ) {
        let Some(id) = t.id else { return };
        let mut key: Vec<_> = t.fields().into_iter().map(|f| headers.value(f)).collect();
        if t.rows.bits {
            let width = t.rows.bits_width();
            let mut bits = headers.bits(b, width);
            for (i, cond) in t.rows.conds.iter().enumerate() {
                let v = headers.test(b, cond);
                let v = b.resize(width, v);
                let v = b.shl(v, (headers.count() + i) as u32);
                bits = b.or(bits, v);
            }
            key.push(bits);
        }
        if key.is_empty() {
            key.push(b.constant(Width::W8, 0_u8));
        }
        let mut outcomes: Vec<u32> = t.rows.rows.iter().map(|(_, rule)| self.rules[*rule].1).collect();
        outcomes.sort_unstable();
        outcomes.dedup();
        let Some((&last, others)) = outcomes.split_last() else { return };
        b.lookup(
            id,
            &key,
            |b, entry| {
                if others.is_empty() {
                    return hit(b, headers, last, MatchedBy::Entry(entry));
                }
                let outcome = b.get(entry, "outcome");
                let cases: Vec<u128> = others.iter().map(|&o| o.into()).collect();
                b.switch(outcome, &cases, |b, case| {
                    let outcome = case.map_or(last, |i| others[i]);
                    hit(b, headers, outcome, MatchedBy::Entry(entry));
                });
            },
            |_| {},
        );
    }
}

impl Table {
    /// Key fields but for the bits, widest first: so none lies across a word of 8 bytes.
    fn fields(&self) -> Vec<Field> {
        let mut fields: Vec<Field> = self.rows.fields.iter().copied().collect();
        fields.sort_by_key(|f| std::cmp::Reverse(f.width()));
        fields
    }

    fn decl(&self, name: &str, outcomes: u32, counted: bool) -> TableDecl {
        let mut key: Vec<(String, Width)> = self.fields().iter().map(|f| (f.name(), f.width())).collect();
        if self.rows.bits || key.is_empty() {
            key.push(("bits".into(), self.rows.bits_width()));
        }
        let key: Vec<(&str, Width)> = key.iter().map(|(n, w)| (n.as_str(), *w)).collect();
        let outcome = match outcomes {
            0..=0xff => Width::W8,
            0x100..=0xffff => Width::W16,
            _ => Width::W32,
        };
        let mut value = vec![("outcome", outcome)];
        if counted {
            value.extend([("rule", Width::W32), ("packets", Width::W64)]);
        }
        let rows = self.rows.rows.len().max(1) as u32;
        let decl = TableDecl::new(name, Kind::Rules, &key, &value, rows);
        if counted { decl.counting() } else { decl.configured() }
    }

    fn content(&self, rules: &[(Cond, u32)], counted: bool) -> Vec<Row> {
        let fields = self.fields();
        let row = |(cube, rule): &(super::rows::Cube, usize)| {
            let mut key: Vec<KeyMatch> = fields.iter().map(|&f| cube.key(f)).collect();
            if self.rows.bits || key.is_empty() {
                key.push(cube.bits());
            }
            let mut value = vec![u128::from(rules[*rule].1)];
            if counted {
                value.extend([*rule as u128, 0]);
            }
            Row { key, value, priority: 0, ttl: None }
        };
        self.rows.rows.iter().map(row).collect()
    }
}

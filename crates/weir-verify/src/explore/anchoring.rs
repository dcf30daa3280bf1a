//! How a path looks behind a header of unknown length; what its positions are says `anchors.rs`.

use std::cell::Cell;
use std::ops::Range;

use rustc_hash::FxHashMap as HashMap;
use weir_ir::program::{BinOp, Layer, Width};
use weir_packet::HUGE_CAPACITY;

use crate::explore::Cut;
use crate::explore::branch::Branch;
use crate::explore::state::State;
use crate::model::anchors::{FIRST_BEHIND, is_behind};
use crate::model::expr::{Expr, Symbol};
use crate::model::packet::Bounds;

/// An anchor is at most so far behind its base.
const FARTHEST: u128 = 1 << 16;

/// A header that gives its length has so many bytes at least (IPv4, TCP).
const FIXED: u128 = 20;

impl Branch<'_> {
    /// The position that is `off` behind `base`: one that counts from an anchor, if its value is not known and nothing that
    /// was looked at may be behind it. Else the path splits by its value.
    pub(crate) fn behind(&mut self, st: &mut State, base: i64, off: Expr) -> Result<i64, Cut> {
        let anchors = Self::packet(st)?.anchors.clone();
        let (front, sum) = self.as_sum(st, base, off);
        for &start in anchors.iter() {
            if self.place_of(st, start) == Some((front, sum)) {
                return Ok(start);
            }
        }
        if let Some(v) = st.facts.value(&self.x, off) {
            return Ok(base + i64::from(v as u32));
        }
        if self.guide.is_none() && !is_behind(front) {
            let first = match anchors.last() {
                None => self.unseen_from(st, front, sum)?,
                Some(&last) if self.moves_on(st, last, (front, sum), off)? => {
                    Some(Self::packet(st)?.bounds.anchor_from)
                }
                Some(_) => None,
            };
            if let Some(first) = first {
                let start = self.x.anchor(front, sum);
                let p = Self::packet(st)?;
                p.anchors = anchors.iter().copied().chain([start]).collect();
                p.bounds.anchor_from = first;
                return Ok(start);
            }
        }
        Ok(base + i64::from(self.pick(st, off)? as u32))
    }

    /// Where an anchor stands, by what is known on the path by now.
    fn place_of(&mut self, st: &State, start: i64) -> Option<(i64, Expr)> {
        let (base, off) = self.x.anchor_of(start).map(|(j, _)| (j.base, j.off))?;
        Some(self.as_sum(st, base, off))
    }

    /// The same place, as a sum behind a position that is behind no anchor.
    fn as_sum(&mut self, st: &State, base: i64, off: Expr) -> (i64, Expr) {
        let (front, sum, k) = match self.x.anchor_of(base).map(|(j, k)| (j.base, j.off, k)) {
            Some((front, anchor, k)) => (front, self.x.binary(BinOp::Add, anchor, off), k),
            None => (base, off, 0),
        };
        let (mut terms, number) = self.x.terms_of(sum, |x, e| st.facts.value(x, e));
        // With a larger number the sum may go round.
        if number > FARTHEST {
            return (front + k, sum);
        }
        terms.sort_unstable();
        let zero = self.x.constant(Width::W32, 0);
        let rest = terms.into_iter().fold(zero, |sum, term| self.x.binary(BinOp::Add, term, sum));
        (front + k + number as i64, rest)
    }

    /// Whether an anchor may follow the last one: where headers of unknown length follow each other, as those of IPv6 do, and
    /// one of them (`header` bytes) has more lengths than a path may split by. What the path knows of bytes behind the last one is
    /// in front of the new one, and nothing was written there.
    fn moves_on(
        &mut self,
        st: &mut State,
        last: i64,
        (base, off): (i64, Expr),
        header: Expr,
    ) -> Result<bool, Cut> {
        let few = |h: (u128, u128)| h.1 - h.0 < self.budget.limits.values as u128;
        if st.facts.set(&self.x, header).hull().is_none_or(few) || Self::packet(st)?.mem.has_behind() {
            return Ok(false);
        }
        let Some((from, before)) = self.place_of(st, last) else { return Ok(false) };
        let Some((lo, hi)) = self.between((from, before), (base, off), st) else { return Ok(false) };
        if self.span(st, off).is_none() {
            return Ok(false);
        }
        match self.last_known(st, last..last + hi) {
            Some(known) if last + lo <= known => {
                let before = self.x.plus(before, known + 1 - last + from - base);
                let enough = self.x.at_most(before, off);
                self.decide(st, enough)
            }
            _ => Ok(true),
        }
    }

    /// The least and the most that one place is behind another, if it is a sum behind that.
    fn between(
        &self,
        (from, before): (i64, Expr),
        (base, off): (i64, Expr),
        st: &State,
    ) -> Option<(i64, i64)> {
        let ((mut terms, number), (without, less)) =
            (self.x.terms_of(off, |_, _| None), self.x.terms_of(before, |_, _| None));
        for term in without {
            terms.remove(terms.iter().position(|t| *t == term)?);
        }
        let apart = base - from + i64::try_from(number).ok()? - i64::try_from(less).ok()?;
        let (lo, hi) = self.span_of(st, &terms)?;
        let (lo, hi) = (apart + lo as i64, apart + hi as i64);
        (lo >= 0).then_some((lo, hi))
    }

    /// The least and the most that a sum may be, if it is no further than anchors are.
    fn span(&self, st: &State, sum: Expr) -> Option<(u128, u128)> {
        let (terms, number) = self.x.terms_of(sum, |_, _| None);
        let (lo, hi) = self.span_of(st, &terms)?;
        Some((lo + number, hi + number)).filter(|h| h.1 <= FARTHEST)
    }

    fn span_of(&self, st: &State, terms: &[Expr]) -> Option<(u128, u128)> {
        let hulls = terms.iter().map(|term| st.facts.set(&self.x, *term).hull().filter(|h| h.1 <= FARTHEST));
        hulls.into_iter().try_fold((0, 0), |(lo, hi), h| h.map(|(l, m)| (lo + l, hi + m)))
    }

    /// The first position where an anchor may stand: the path did not write, and knows nothing of, what may be behind it. If
    /// `off` may be too small for that, or for a header, the path splits by whether it is.
    fn unseen_from(&mut self, st: &mut State, base: i64, off: Expr) -> Result<Option<i64>, Cut> {
        let Some((lo, hi)) = st.facts.set(&self.x, off).hull().filter(|h| h.1 <= FARTHEST) else {
            return Ok(None);
        };
        let first = base + lo as i64;
        let Some(last) = self.last_seen(st, first..base + hi as i64)? else { return Ok(Some(first)) };
        let least = u128::max((last + 1 - base) as u128, FIXED);
        let least_off = self.x.constant(Width::W32, least);
        let enough = self.x.at_most(least_off, off);
        Ok(self.decide(st, enough)?.then_some(base + least as i64))
    }

    /// The last position in a range, or not far behind, that the path wrote or knows something of.
    fn last_seen(&self, st: &mut State, range: Range<i64>) -> Result<Option<i64>, Cut> {
        let p = Self::packet(st)?;
        let written = p.mem.writes.range(range.start..FIRST_BEHIND).next_back().map(|(at, _)| *at);
        Ok(written.max(self.last_known(st, range)))
    }

    /// The last position in a range, or not far behind, that the path knows something of.
    fn last_known(&self, st: &State, range: Range<i64>) -> Option<i64> {
        let source = st.packet.as_ref()?.source();
        // What reads far behind by a number of the front is taken to be infrequent.
        let near = range.start..range.end + 64;
        let place = |at| Some((self.x.find_symbol(&Symbol::Byte(source, at))?, at));
        let places: HashMap<Expr, i64> = near.filter_map(place).collect();
        let known = Cell::new(None);
        if let Some(&first) = places.keys().min() {
            let look = |e| {
                known.set(known.get().max(places.get(&e).copied()));
                false
            };
            let mut seen = HashMap::default();
            st.facts.conditions().into_iter().for_each(|c| _ = self.x.mentions(c, first, &look, &mut seen));
        }
        known.get()
    }

    /// Sees to it that no byte is looked at by two numbers: where some bytes may be behind an anchor of the packet that they do not
    /// count from, or in front of the one that they count from, the path splits by where the anchors are. Those that are
    /// written count from the last one, or from the front. Whether positions of the packet have other numbers now.
    pub(crate) fn keep_apart(&mut self, st: &mut State, at: i64, n: u32, write: bool) -> Result<bool, Cut> {
        let p = Self::packet(st)?;
        let end = at + i64::from(n);
        if p.anchors.is_empty() || end <= p.bounds.anchor_from {
            return Ok(false);
        }
        let anchors = p.anchors.clone();
        let apart = match self.x.anchor_of(at).map(|(_, k)| k) {
            Some(k) => match anchors.iter().position(|start| *start == at - k) {
                _ if k < 0 => false,
                Some(i) if i + 1 == anchors.len() => true,
                Some(i) if !write => {
                    let [one, next] = [anchors[i], anchors[i + 1]].map(|start| self.place_of(st, start));
                    let between = one.zip(next).and_then(|(one, next)| self.between(one, next, st));
                    between.is_some_and(|(lo, _)| k + i64::from(n) <= lo)
                }
                _ => false,
            },
            None => self.place_of(st, anchors[0]).is_some_and(|(base, off)| {
                let lo = self.span(st, off).map_or(0, |h| h.0);
                end <= base + lo as i64
            }),
        };
        if apart {
            return Ok(false);
        }
        let mut offs = Vec::new();
        for &start in anchors.iter() {
            let Some(off) = self.x.anchor_of(start).map(|(j, _)| j.off) else { return Ok(false) };
            let off = self.pick(st, off)? as u32;
            let source = Self::packet(st)?.source();
            for condition in self.x.identified(start, source, off) {
                self.learn(st, condition)?;
            }
            offs.push((start, off));
        }
        Self::packet(st)?.settle(&self.x, &offs);
        Ok(true)
    }

    /// Position of `layer + off` of the first of some bytes to read, or to write.
    pub(crate) fn bytes_at(
        &mut self,
        st: &mut State,
        (layer, off): (Layer, u32),
        n: u32,
        write: bool,
    ) -> Result<i64, Cut> {
        let at = self.at(st, layer, off)?;
        if self.keep_apart(st, at, n, write)? { self.at(st, layer, off) } else { Ok(at) }
    }

    /// The first positions of two ranges of bytes to read; `write`: the first is to be written.
    pub(crate) fn both_at(
        &mut self,
        st: &mut State,
        places: [(Layer, u32); 2],
        n: u32,
        write: bool,
    ) -> Result<[i64; 2], Cut> {
        let [a, b] = places;
        self.bytes_at(st, a, n, write)?;
        let second = self.bytes_at(st, b, n, false)?;
        // The second may have settled where the first is.
        Ok([self.at(st, a.0, a.1)?, second])
    }

    /// Whether the packet reaches to a position.
    pub(crate) fn reaches(&mut self, st: &mut State, at: i64) -> Result<Expr, Cut> {
        if let Some((reaches, follows)) = Self::packet(st)?.reaches_anchor(&mut self.x, at)
            && st.facts.truth(&self.x, reaches) == Some(true)
        {
            self.learn(st, follows)?;
        }
        Ok(Self::packet(st)?.reaches(&mut self.x, at))
    }

    /// How far one position is behind another (32 bits, wrapping).
    pub(crate) fn distance(&mut self, from: i64, to: i64) -> Expr {
        let zero = self.x.constant(Width::W32, 0);
        let [from, to] = [from, to].map(|at| match self.x.anchor_of(at) {
            Some((anchor, k)) => (anchor.base + k, Some(anchor.off)),
            None => (at, None),
        });
        let (a, b) = (from.1.unwrap_or(zero), to.1.unwrap_or(zero));
        let apart = self.x.binary(BinOp::Sub, b, a);
        self.x.plus(apart, to.0 - from.0)
    }

    /// Whether there are so many bytes behind a position.
    pub(crate) fn reaches_behind(
        &mut self,
        st: &mut State,
        at: i64,
        n: Expr,
        only: Option<bool>,
    ) -> Result<bool, Cut> {
        if let Some(n) = self.x.constant_value(n) {
            return self.reaches_to(st, at + i64::from(n as u32), only);
        }
        let inside = self.reaches(st, at)?;
        // Where it does not reach to the position, it has not so many bytes behind it.
        if !self.decide_for(st, inside, only.filter(|yes| *yes))? {
            return Ok(false);
        }
        let rest = Self::packet(st)?.rest(&mut self.x, at);
        let enough = self.x.at_most(n, rest);
        self.decide_for(st, enough, only)
    }

    /// Whether the packet reaches to a position.
    pub(crate) fn reaches_to(&mut self, st: &mut State, end: i64, only: Option<bool>) -> Result<bool, Cut> {
        let Bounds { reached, short_of, .. } = Self::packet(st)?.bounds;
        // What was found out is about positions that count from the front.
        let is_behind = is_behind(end);
        if !is_behind && (end <= reached || end >= short_of) {
            return Ok(end <= reached);
        }
        let there = self.reaches(st, end)?;
        let there = self.decide_for(st, there, only)?;
        if !is_behind {
            let found = &mut Self::packet(st)?.bounds;
            if there {
                found.reached = reached.max(end);
            } else {
                found.short_of = short_of.min(end);
            }
        }
        Ok(there)
    }

    /// Whether `n` bytes fit into so many.
    pub(crate) fn fits(
        &mut self,
        st: &mut State,
        n: u32,
        free: Expr,
        only: Option<bool>,
    ) -> Result<bool, Cut> {
        if n > HUGE_CAPACITY {
            return Ok(false);
        }
        let n = self.x.constant(Width::W32, n.into());
        let fits = self.x.at_most(n, free);
        self.decide_for(st, fits, only)
    }
}

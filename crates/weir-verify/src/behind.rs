//! How a path looks behind a header of unknown length; what its positions are says `joints.rs`.

use std::cell::Cell;
use std::ops::Range;

use rustc_hash::FxHashMap as HashMap;
use weir_ir::program::{Layer, Width};

use crate::explore::{Cut, Explorer};
use crate::expr::{Expr, Symbol};
use crate::joints::{FIRST_BEHIND, is_behind};
use crate::state::State;

/// A joint is at most so far behind its base.
const FARTHEST: u128 = 1 << 16;

/// A header that tells its length has so many bytes at least (IPv4, TCP).
const FIXED: u128 = 20;

impl Explorer<'_> {
    /// The position that is `off` behind `base`: one that counts from a joint, if its value is not known and nothing that
    /// was looked at may be behind it. Else the path splits by its value.
    pub(crate) fn behind(&mut self, st: &mut State, base: i64, off: Expr) -> Result<i64, Cut> {
        let joint = Self::packet(st)?.joint;
        if let Some(start) = joint {
            let same = self.x.joint_of(start).is_some_and(|(j, _)| (j.base, j.off) == (base, off));
            if same {
                return Ok(start);
            }
        }
        if let Some(v) = st.facts.value(&self.x, off) {
            return Ok(base + i64::from(v as u32));
        }
        let may = joint.is_none() && !is_behind(base) && self.guide.is_none();
        if may && let Some(first) = self.unseen_from(st, base, off)? {
            let start = self.x.joint(base, off);
            let p = Self::packet(st)?;
            (p.joint, p.found.joint_from) = (Some(start), first);
            return Ok(start);
        }
        Ok(base + i64::from(self.pick(st, off)? as u32))
    }

    /// The first position where a joint may stand: the path did not write, and knows nothing of, what may be behind it. If
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
        // What reads far behind by a number of the front is taken to be rare.
        let source = p.source();
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
        Ok(written.max(known.get()))
    }

    /// Sees to it that no byte is looked at by two numbers: where some bytes may be behind the joint of the packet, or in
    /// front of it although they count from there, the path splits by where the joint is. Whether positions of the packet
    /// have other numbers now.
    pub(crate) fn keep_apart(&mut self, st: &mut State, at: i64, n: u32) -> Result<bool, Cut> {
        let p = Self::packet(st)?;
        let Some(start) = p.joint else { return Ok(false) };
        let end = at + i64::from(n);
        if end <= p.found.joint_from {
            return Ok(false);
        }
        let Some((joint, k)) = self.x.joint_of(if is_behind(at) { at } else { start }) else {
            return Ok(false);
        };
        let (base, off) = (joint.base, joint.off);
        let apart = if is_behind(at) {
            k >= 0
        } else {
            let lo = st.facts.set(&self.x, off).hull().map_or(0, |h| h.0);
            end <= base + lo as i64
        };
        if apart {
            return Ok(false);
        }
        let off = self.pick(st, off)? as u32;
        let p = Self::packet(st)?;
        let source = p.source();
        let same = self.x.identified(start, source, off);
        for condition in same {
            self.learn(st, condition)?;
        }
        Self::packet(st)?.settle(&self.x, off);
        Ok(true)
    }

    /// The first positions of two ranges of bytes to read or write.
    pub(crate) fn both_at(
        &mut self,
        st: &mut State,
        places: [(Layer, u32); 2],
        n: u32,
    ) -> Result<[i64; 2], Cut> {
        let [a, b] = places;
        self.bytes_at(st, a.0, a.1, n)?;
        let second = self.bytes_at(st, b.0, b.1, n)?;
        // The second may have settled where the first is.
        Ok([self.at(st, a.0, a.1)?, second])
    }

    /// Whether the packet reaches to a position.
    pub(crate) fn reaches(&mut self, st: &mut State, at: i64) -> Result<Expr, Cut> {
        if let Some((reaches, follows)) = Self::packet(st)?.reaches_joint(&mut self.x, at)
            && st.facts.truth(&self.x, reaches) == Some(true)
        {
            self.learn(st, follows)?;
        }
        Ok(Self::packet(st)?.reaches(&mut self.x, at))
    }

    /// How far one position is behind another (32 bits, wrapping).
    pub(crate) fn distance(&mut self, from: i64, to: i64) -> Expr {
        let zero = self.x.constant(Width::W32, 0);
        let [from, to] = [from, to].map(|at| match self.x.joint_of(at) {
            Some((joint, k)) => (joint.base + k, Some(joint.off)),
            None => (at, None),
        });
        let (a, b) = (from.1.unwrap_or(zero), to.1.unwrap_or(zero));
        let apart = self.x.binary(weir_ir::program::BinOp::Sub, b, a);
        self.x.plus(apart, to.0 - from.0)
    }
}

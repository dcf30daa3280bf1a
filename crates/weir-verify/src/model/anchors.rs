//! Positions behind a header of unknown length.
//!
//! Positions are numbers. Those behind a header whose length is not known count from where the header ends, its *anchor*:
//! they stand in a range of numbers of their own, so bytes there are found and compared like any others. That the same
//! byte may have another number, counted from the start of the packet, matters only to who looks there by both: whoever
//! reads or writes at a position in front that may lie behind the anchor makes the path split by the length
//! (`Explorer::keep_apart`).
//!
//! Where headers of unknown length follow each other, a packet has as many anchors, each a longer sum behind the same
//! base: so a walk over the extension headers of IPv6 is one path for each number of headers, whatever their lengths. What is
//! looked at behind one of them lies in front of the next, and what is written lies behind the last.

use crate::model::expr::{Expr, Exprs, Node, SourceId, Symbol};
use weir_ir::program::Width;

/// Numbers of positions of one anchor. Those in front of all anchors lie around 0.
const SPAN: i64 = 1 << 40;

/// The end of a header of unknown length.
#[derive(Debug, Clone)]
pub(crate) struct Anchor {
    /// Where the header starts, or something else that is known; it has no anchor itself.
    pub(crate) base: i64,
    /// How far behind that (32 bits).
    pub(crate) off: Expr,
    /// The bytes behind it that some expression speaks of.
    bytes: Vec<(SourceId, i64)>,
    /// Numbers that are made of such bytes, by their source and positions.
    words: Vec<(SourceId, Vec<i64>, Expr)>,
}

/// The number of a position's anchor, from 1; 0: it has none.
fn number(at: i64) -> i64 {
    (at + SPAN / 2).div_euclid(SPAN)
}

/// Whether a position is behind an anchor.
pub(crate) fn is_behind(at: i64) -> bool {
    number(at) != 0
}

/// The first position that is behind an anchor.
pub(crate) const FIRST_BEHIND: i64 = SPAN / 2;

impl Exprs {
    /// The position of what is `off` bytes behind `base`.
    pub(crate) fn anchor(&mut self, base: i64, off: Expr) -> i64 {
        let known = self.anchors.iter().position(|j| j.base == base && j.off == off);
        let i = known.unwrap_or_else(|| {
            self.anchors.push(Anchor { base, off, bytes: Vec::new(), words: Vec::new() });
            self.anchors.len() - 1
        });
        (i as i64 + 1) * SPAN
    }

    /// The anchor that a position is behind, and how far.
    pub(crate) fn anchor_of(&self, at: i64) -> Option<(&Anchor, i64)> {
        let n = number(at);
        let anchor = self.anchors.get(usize::try_from(n - 1).ok()?)?;
        Some((anchor, at - n * SPAN))
    }

    /// Notes that there is an expression for this byte.
    pub(crate) fn note_byte(&mut self, source: SourceId, at: i64) {
        let n = number(at);
        if n > 0
            && let Some(anchor) = self.anchors.get_mut(n as usize - 1)
        {
            anchor.bytes.push((source, at));
        }
    }

    /// Notes that there is an expression for a number made of these bytes.
    pub(crate) fn note_word(&mut self, word: Expr) {
        let Node::Concat(bytes) = self.node(word) else { return };
        let place = |b: &Expr| match self.node(*b) {
            Node::Symbol(Symbol::Byte(source, at)) => Some((*source, *at)),
            _ => None,
        };
        let Some((source, first)) = bytes.first().and_then(place).filter(|(_, at)| is_behind(*at)) else {
            return;
        };
        let all: Option<Vec<i64>> = bytes
            .iter()
            .map(|b| place(b).filter(|(s, at)| *s == source && is_behind(*at)).map(|(_, at)| at))
            .collect();
        if let (Some(all), Some(anchor)) = (all, self.anchors.get_mut(number(first) as usize - 1)) {
            anchor.words.push((source, all, word));
        }
    }

    /// Where what stands at a position behind an anchor stands if `off` is this number.
    pub(crate) fn settled(&self, at: i64, off: u32) -> i64 {
        self.anchor_of(at).map_or(at, |(anchor, k)| anchor.base + i64::from(off) + k)
    }

    /// The conditions that bytes behind an anchor, and numbers made of them, are those that they are if `off` is this number.
    pub(crate) fn identified(&mut self, start: i64, source: SourceId, off: u32) -> Vec<Expr> {
        let Some((anchor, _)) = self.anchor_of(start) else { return Vec::new() };
        let places: Vec<i64> = anchor.bytes.iter().filter(|b| b.0 == source).map(|b| b.1).collect();
        let words: Vec<_> = anchor.words.iter().filter(|w| w.0 == source).cloned().collect();
        let byte = |x: &mut Exprs, at: i64| x.symbol(Width::W8, Symbol::Byte(source, at));
        let mut all = Vec::new();
        // First, as what is known of a number is not known of its bytes.
        for (_, places, word) in words {
            let bytes: Vec<Expr> = places.iter().map(|at| byte(self, self.settled(*at, off))).collect();
            let other = self.concat(&bytes);
            all.push(self.equal(word, other));
        }
        for at in places {
            let (one, other) = (byte(self, at), byte(self, self.settled(at, off)));
            all.push(self.equal(one, other));
        }
        all
    }
}

//! Ones' complement sums (RFC 1071), as linear forms modulo 65,535: what an incremental update (RFC 1624) added and took
//! away again is seen to cancel, so a checksum that was right is known to be right after the header was rewritten.

use std::collections::BTreeMap;

use weir_ir::program::{BinOp, Width};

use crate::model::anchors::is_behind;
use crate::model::expr::{Expr, Exprs, Mem, MemId, Node};
use crate::model::facts::Facts;

const MODULUS: u32 = 65_535;
/// Longest range whose bytes are added up one by one.
const LONGEST: u128 = 128;
/// How deep sums within sums are looked into.
const DEPTH: u32 = 24;

/// A sum of bytes and other numbers with factors, modulo 65,535.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Linear {
    terms: BTreeMap<Expr, u32>,
    constant: u32,
}

fn times(a: u32, b: u32) -> u32 {
    (u64::from(a) * u64::from(b) % u64::from(MODULUS)) as u32
}

impl Linear {
    fn add(&mut self, e: Expr, factor: u32) {
        let old = self.terms.remove(&e).unwrap_or(0);
        let new = (old + factor) % MODULUS;
        if new != 0 {
            self.terms.insert(e, new);
        }
    }

    fn add_number(&mut self, v: u128, factor: u32) {
        let v = (v % u128::from(MODULUS)) as u32;
        self.constant = (self.constant + times(v, factor)) % MODULUS;
    }

    fn is_zero(&self) -> bool {
        self.terms.is_empty() && self.constant == 0
    }
}

/// Adds `factor` times a byte.
fn add_byte(x: &mut Exprs, f: &Facts, sum: &mut Linear, b: Expr, factor: u32) {
    if let Some(v) = f.value(x, b) {
        return sum.add_number(v, factor);
    }
    let b = f.stands_for(b);
    match *x.node(b) {
        Node::Const(v) => sum.add_number(v, factor),
        Node::Not(a) => {
            sum.add_number(255, factor);
            add_byte(x, f, sum, a, MODULUS - factor);
        }
        Node::Binary(BinOp::Add, a, c) if x.width(b) == Width::W8 => {
            let (Some(c), Some((lo, hi))) = (x.constant_value(c), f.set(x, a).hull()) else {
                return sum.add(b, factor);
            };
            // The sum is a number's plain sum only if it always, or never, goes over 255.
            if hi + c <= 255 {
                sum.add_number(c, factor);
            } else if lo + c > 255 {
                sum.add_number(256 - c, MODULUS - factor);
            } else {
                return sum.add(b, factor);
            }
            add_byte(x, f, sum, a, factor);
        }
        _ => sum.add(b, factor),
    }
}

/// Adds `factor` times a 16-bit number.
fn add_word(x: &mut Exprs, f: &Facts, sum: &mut Linear, e: Expr, factor: u32, depth: u32) {
    if let Some(v) = f.value(x, e) {
        return sum.add_number(v, factor);
    }
    match x.node(e).clone() {
        Node::Const(v) => sum.add_number(v, factor),
        Node::Sum16(a, b) if depth > 0 => {
            add_word(x, f, sum, a, factor, depth - 1);
            add_word(x, f, sum, b, factor, depth - 1);
        }
        Node::Not(a) if depth > 0 => add_word(x, f, sum, a, MODULUS - factor, depth - 1),
        Node::Checksum { mem, from, start, end } if depth > 0 => {
            let len = f.value(x, end).and_then(|end| end.checked_sub(start.into())).filter(|&n| n <= LONGEST);
            match len.filter(|&n| is_apart(x, f, mem, from, n as i64)) {
                Some(len) => {
                    let mem = x.mem(mem).clone();
                    add_range(x, f, sum, &mem, from, len as i64, factor);
                    combine(x, f, sum, depth - 1);
                }
                None => sum.add(e, factor),
            }
        }
        _ => {
            let bytes = x.bytes_of(e);
            add_byte(x, f, sum, bytes[0], times(256, factor));
            add_byte(x, f, sum, bytes[1], factor);
        }
    }
}

fn add_range(x: &mut Exprs, f: &Facts, sum: &mut Linear, mem: &Mem, from: i64, len: i64, factor: u32) {
    for i in 0..len {
        let b = mem.byte(x, from + i);
        add_byte(x, f, sum, b, if i % 2 == 0 { times(256, factor) } else { factor });
    }
}

/// Looks into words that stand with both their bytes.
fn combine(x: &mut Exprs, f: &Facts, sum: &mut Linear, depth: u32) {
    for _ in 0..depth.min(8) {
        let word = sum.terms.iter().find_map(|(&b, &k)| match *x.node(b) {
            Node::Byte(e, 1) if x.width(e) == Width::W16 => {
                let sums = matches!(x.node(e), Node::Sum16(..) | Node::Not(_) | Node::Checksum { .. });
                let high = sums.then(|| x.find(Width::W8, &Node::Byte(e, 0))).flatten()?;
                (sum.terms.get(&high) == Some(&times(256, k))).then_some((e, high, b, k))
            }
            _ => None,
        });
        let Some((e, high, low, k)) = word else { return };
        sum.terms.remove(&high);
        sum.terms.remove(&low);
        add_word(x, f, sum, e, k, depth - 1);
    }
}

/// Whether what was written behind an anchor is surely not in a range that begins in front of it.
fn is_apart(x: &Exprs, f: &Facts, mem: MemId, from: i64, len: i64) -> bool {
    let last = x.mem(mem).writes.last_key_value().and_then(|(at, _)| x.anchor_of(*at));
    last.is_none_or(|(anchor, _)| {
        let least = f.set(x, anchor.off).hull().map_or(0, |h| h.0);
        let alike = x.anchor_of(from).is_some_and(|(j, _)| (j.base, j.off) == (anchor.base, anchor.off));
        alike || from + len <= anchor.base + least as i64
    })
}

/// Whether the sum over a range is all ones, if that follows from its bytes, or from another sum that is: `known`.
pub(crate) fn is_right(x: &mut Exprs, f: &Facts, sum: Expr, known: &[Expr]) -> bool {
    let Node::Checksum { mem, from, start, end } = *x.node(sum) else { return false };
    let id = mem;
    let mem = x.mem(mem).clone();
    if let Some(len) = f.value(x, end).and_then(|e| e.checked_sub(start.into()))
        && len <= LONGEST
        && is_apart(x, f, id, from, len as i64)
    {
        let mut total = Linear::default();
        add_range(x, f, &mut total, &mem, from, len as i64, 1);
        combine(x, f, &mut total, DEPTH);
        // A sum of 0 is all ones unless all bytes are 0.
        let some = (0..len as i64).any(|i| {
            let b = mem.byte(x, from + i);
            f.set(x, b).hull().is_some_and(|h| h.0 > 0)
        });
        if some && total.is_zero() {
            return true;
        }
    }
    known.iter().rev().any(|&k| {
        let Node::Checksum { mem: other, from: f0, start: s0, end: e0 } = *x.node(k) else { return false };
        let other = x.mem(other).clone();
        let one_end = end == e0 || f.value(x, end).is_some_and(|v| f.value(x, e0) == Some(v));
        if (from, start) != (f0, s0) || !one_end || other.source != mem.source {
            return false;
        }
        let Some((least, most)) = f.set(x, end).hull() else { return false };
        let (least, most) = (least as i64 - i64::from(start), most as i64 - i64::from(start));
        let changed: Vec<i64> = mem.writes.keys().chain(other.writes.keys()).copied().collect();
        let mut total = Linear::default();
        let mut done = std::collections::BTreeSet::new();
        for at in changed {
            let anchor = |at| x.anchor_of(at).map(|(j, _)| (j.base, j.off));
            if is_behind(at) && anchor(at) != anchor(from) {
                // The range of a header ends where what is behind it begins.
                let header =
                    x.anchor_of(at).is_some_and(|(j, _)| (j.base, j.off) == (from - i64::from(start), end));
                if header {
                    continue;
                }
                return false;
            }
            let i = at - from;
            let (new, old) = (mem.byte(x, at), other.byte(x, at));
            if !(0..most).contains(&i) || new == old || !done.insert(at) {
                continue;
            }
            if i >= least {
                return false;
            }
            let factor = if i % 2 == 0 { 256 } else { 1 };
            add_byte(x, f, &mut total, new, factor);
            add_byte(x, f, &mut total, old, MODULUS - factor);
        }
        combine(x, f, &mut total, DEPTH);
        total.is_zero()
    })
}

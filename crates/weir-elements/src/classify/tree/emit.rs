//! Filter expressions as steps, in their order.

use weir_filter::{AddressOf, Cmp, Dir, Expr, Field, IpVersion, Layer, Ports, Prim, Tags};

use super::{NET, Step, TRANSPORT, To, Tree};

/// Most steps before they are shortened: every pair of steps may be compared with every path to it.
const MOST: usize = 2000;

/// A part of the steps, or an answer without any.
#[derive(Clone, Copy)]
enum Part {
    From(usize),
    Known(bool),
}

impl Tree {
    /// The tree of rules, of which the first that holds decides, each with its output (none: dropped). Packets that no
    /// rule matches are dropped.
    pub(in crate::classify) fn of<'a>(
        rules: impl IntoIterator<Item = (&'a Expr, Option<u32>)>,
    ) -> Result<Tree, String> {
        let mut steps = Steps(Vec::new());
        let rules = rules.into_iter();
        steps.rules(rules.map(|(expr, output)| (move |s: &mut Steps| s.expr(expr), output)))
    }

    /// The tree of rules that look at bytes: each a list of values under masks at offsets, which all have to be there, or
    /// (if a truth value says so) must not.
    pub(in crate::classify) fn of_bytes(rules: &[(Vec<Clause<'_>>, Option<u32>)]) -> Result<Tree, String> {
        let mut steps = Steps(Vec::new());
        steps.rules(rules.iter().map(|(clauses, output)| {
            (move |s: &mut Steps| s.all(clauses, |s, clause| Ok(s.clause(clause))), *output)
        }))
    }
}

/// Offset, values, masks, and whether they must not be there.
pub(in crate::classify) type Clause<'a> = (u32, &'a [u8], &'a [u8], bool);

/// The steps so far. Those of the expression that is being read lead to [`To::Holds`] at its ends.
struct Steps(Vec<Step>);

impl Steps {
    fn rules<F>(&mut self, rules: impl Iterator<Item = (F, Option<u32>)>) -> Result<Tree, String>
    where
        F: Fn(&mut Steps) -> Result<Part, String>,
    {
        let mut start = To::Step(0);
        // Where those of the last rule go that it does not match.
        let mut open: Option<usize> = None;
        let mut done = false;
        for (emit, output) in rules {
            if self.0.len() > MOST {
                return Err(format!("the filter has more than {MOST} comparisons, too many to show"));
            }
            let from = self.0.len();
            let next = match emit(self)? {
                Part::Known(false) => continue,
                Part::Known(true) => To::Leave(output),
                Part::From(_) => To::Step(from),
            };
            match open {
                Some(before) => self.redirect(before..from, To::Holds(false), next),
                None => start = next,
            }
            done = !matches!(next, To::Step(_));
            if done {
                break;
            }
            self.redirect(from..self.0.len(), To::Holds(true), To::Leave(output));
            open = Some(from);
        }
        match open {
            Some(before) if !done => self.redirect(before..self.0.len(), To::Holds(false), To::Leave(None)),
            None if !done => start = To::Leave(None),
            _ => {}
        }
        let steps = std::mem::take(&mut self.0);
        Ok(Tree { steps, start }.shortened())
    }

    fn redirect(&mut self, part: std::ops::Range<usize>, from: To, to: To) {
        for step in &mut self.0[part] {
            for to_step in [&mut step.yes, &mut step.no] {
                if *to_step == from {
                    *to_step = to;
                }
            }
        }
    }

    fn negate(&mut self, part: Part) -> Part {
        match part {
            Part::Known(v) => Part::Known(!v),
            Part::From(from) => {
                for step in &mut self.0[from..] {
                    for to_step in [&mut step.yes, &mut step.no] {
                        if let To::Holds(v) = to_step {
                            *v = !*v;
                        }
                    }
                }
                part
            }
        }
    }

    /// As [`negate`](Steps::negate), of a comparison: bytes that are not there are not unequal either.
    fn unequal(&mut self, part: Part) -> Part {
        if let Part::From(from) = part {
            self.0[from..].iter_mut().for_each(|step| step.short_is_yes = !step.short_is_yes);
        }
        self.negate(part)
    }

    /// Arms one after the other, until one is known not to be as `goes_on`.
    fn chain<T>(
        &mut self,
        arms: &[T],
        goes_on: bool,
        mut emit: impl FnMut(&mut Steps, &T) -> Result<Part, String>,
    ) -> Result<Part, String> {
        let first = self.0.len();
        let mut last = None;
        for arm in arms {
            let from = self.0.len();
            match emit(self, arm)? {
                Part::Known(v) if v == goes_on => {}
                Part::Known(v) => {
                    // Whoever comes so far gets this answer, and so does who left before.
                    self.0.truncate(first);
                    return Ok(Part::Known(v));
                }
                Part::From(_) => {
                    if let Some(before) = last {
                        self.redirect(before..from, To::Holds(goes_on), To::Step(from));
                    }
                    last = Some(from);
                }
            }
        }
        Ok(if last.is_some() { Part::From(first) } else { Part::Known(goes_on) })
    }

    fn all<T>(
        &mut self,
        arms: &[T],
        emit: impl FnMut(&mut Steps, &T) -> Result<Part, String>,
    ) -> Result<Part, String> {
        self.chain(arms, true, emit)
    }

    fn any<T>(
        &mut self,
        arms: &[T],
        emit: impl FnMut(&mut Steps, &T) -> Result<Part, String>,
    ) -> Result<Part, String> {
        self.chain(arms, false, emit)
    }

    fn expr(&mut self, expr: &Expr) -> Result<Part, String> {
        match expr {
            Expr::True => Ok(Part::Known(true)),
            Expr::False => Ok(Part::Known(false)),
            Expr::And(arms) => self.all(arms, Steps::expr),
            Expr::Or(arms) => self.any(arms, Steps::expr),
            Expr::Not(arm) => {
                let part = self.expr(arm)?;
                Ok(self.negate(part))
            }
            Expr::Prim(prim) => self.prim(prim),
            // IP packets have no tags.
            Expr::Behind(Tags::Count(1..), _) => Ok(Part::Known(false)),
            Expr::Behind(_, leaf) => self.expr(leaf),
            Expr::Compare(_) => {
                Err("the filter computes numbers, which a decision tree of this form cannot show".into())
            }
        }
    }

    fn prim(&mut self, prim: &Prim) -> Result<Part, String> {
        match *prim {
            Prim::Proto { version: Some(IpVersion::V6), .. } => Ok(Part::Known(false)),
            Prim::Proto { number, .. } => Ok(self.protocol(Ports::Of(number))),
            Prim::Net { of: AddressOf::Arp | AddressOf::Rarp, .. } => Ok(Part::Known(false)),
            Prim::EtherType(t) => Ok(Part::Known(t == 0x0800)),
            Prim::Net { dir, addr, mask, .. } => self
                .directions(dir, |s, dst| s.word(NET + if dst { 16 } else { 12 }, addr.into(), mask.into())),
            Prim::Port { dir, lo, hi, proto } => self.all(&[0, 1, 2], |s, arm| match arm {
                0 => Ok(s.protocol(proto)),
                1 => Ok(s.first_fragment()),
                _ => s.directions(dir, |s, dst| {
                    s.between(TRANSPORT, if dst { 0 } else { 16 }, 0xffff, (lo.into(), hi.into()))
                }),
            }),
            Prim::Field(f) if matches!(f.layer, Layer::Ip6 | Layer::Proto6(_)) => Ok(Part::Known(false)),
            Prim::Field(f) if !matches!(f.layer, Layer::Ether | Layer::Type(_)) => {
                self.all(&[0, 1, 2], |s, arm| match (arm, f.layer) {
                    (0, Layer::TcpUdp) => Ok(s.protocol(Ports::TcpUdp)),
                    (0, Layer::Proto(p) | Layer::Proto4(p)) => Ok(s.protocol(Ports::Of(p))),
                    (0, _) | (1, Layer::Ip) => Ok(Part::Known(true)),
                    (1, _) => Ok(s.first_fragment()),
                    _ => s.field(&f),
                })
            }
            _ => Err(
                "the filter looks at more than IPv4 packets, which a decision tree of this form cannot show"
                    .into(),
            ),
        }
    }

    fn directions(
        &mut self,
        dir: Dir,
        mut test: impl FnMut(&mut Steps, bool) -> Part,
    ) -> Result<Part, String> {
        let emit = |s: &mut Steps, dst: &bool| Ok(test(s, *dst));
        match dir {
            Dir::Src => self.all(&[false], emit),
            Dir::Dst => self.all(&[true], emit),
            Dir::SrcAndDst => self.all(&[false, true], emit),
            Dir::SrcOrDst => self.any(&[false, true], emit),
        }
    }

    /// The protocol is one of these.
    fn protocol(&mut self, list: Ports) -> Part {
        let from = self.0.len();
        for (i, p) in list.protocols().iter().enumerate() {
            let here = self.0.len();
            if i > 0 {
                self.redirect(from..here, To::Holds(false), To::Step(here));
            }
            self.word(NET + 8, u32::from(*p) << 16, 0x00ff_0000);
        }
        Part::From(from)
    }

    fn first_fragment(&mut self) -> Part {
        self.word(NET + 4, 0, 0x1fff)
    }

    fn field(&mut self, f: &Field) -> Result<Part, String> {
        let base = if f.layer == Layer::Ip { NET } else { TRANSPORT };
        let (offset, width) = (u32::from(f.offset), u32::from(f.width));
        let max = u32::MAX >> (32 - 8 * width.clamp(1, 4));
        if offset % 4 + width > 4 || width == 0 {
            return Err("the filter compares bytes of two words at once, which a decision tree of this form cannot show".into());
        }
        let shift = 32 - 8 * (offset % 4 + width);
        let at = base + offset / 4 * 4;
        let (mask, value) = (f.mask & max, f.value);
        Ok(match f.cmp {
            Cmp::Eq => self.equal(at, shift, mask, value),
            // Of a single bit, what it is not says what it is.
            Cmp::Ne if mask.is_power_of_two() && value & !mask == 0 => {
                self.equal(at, shift, mask, value ^ mask)
            }
            Cmp::Ne => {
                let part = self.equal(at, shift, mask, value);
                self.unequal(part)
            }
            Cmp::Gt => self.greater(at, shift, mask, value),
            Cmp::Ge if value == 0 => Part::Known(true),
            Cmp::Ge => self.greater(at, shift, mask, value - 1),
            Cmp::Le => {
                let part = self.greater(at, shift, mask, value);
                self.unequal(part)
            }
            Cmp::Lt if value == 0 => Part::Known(false),
            Cmp::Lt => {
                let part = self.greater(at, shift, mask, value - 1);
                self.unequal(part)
            }
        })
    }

    fn equal(&mut self, offset: u32, shift: u32, mask: u32, value: u32) -> Part {
        if value & !mask != 0 { Part::Known(false) } else { self.word(offset, value << shift, mask << shift) }
    }

    /// The bits of a mask are from `lo` to `hi`, both included.
    fn between(&mut self, offset: u32, shift: u32, mask: u32, (lo, hi): (u32, u32)) -> Part {
        if lo == hi {
            return self.equal(offset, shift, mask, lo);
        }
        let part = self.chain(&[true, false], true, |s, least| {
            Ok(match least {
                true if lo == 0 => Part::Known(true),
                true => s.greater(offset, shift, mask, lo - 1),
                false => {
                    let part = s.greater(offset, shift, mask, hi);
                    s.unequal(part)
                }
            })
        });
        part.unwrap_or(Part::Known(false))
    }

    /// The bits of a mask are more than a number, which is described by runs of its bits from the top: of zeros, a bit that is
    /// set says yes; of ones, a bit that is not set says no.
    fn greater(&mut self, offset: u32, shift: u32, mask: u32, number: u32) -> Part {
        let from = self.0.len();
        let (mut mask, mut number) = (mask, number);
        if number >= mask {
            return Part::Known(false);
        }
        if number & mask != number {
            // The bits of the mask are more than a number between two of its values if they are more than the lower.
            let missing = number & !mask;
            let top = 31 - missing.leading_zeros();
            number = (number | u32::MAX >> (31 - top)) & mask;
        }
        let mut last: Option<(usize, bool)> = None;
        while number < mask {
            let top = 31 - mask.leading_zeros();
            let is_one = number >> top & 1 == 1;
            // The run: bits of the mask that are as its first.
            let differs = if is_one { !number & mask } else { number };
            let run = match differs {
                0 => mask,
                bits => mask & !(u32::MAX >> bits.leading_zeros()),
            };
            let here = self.0.len();
            if let Some((before, goes_on)) = last {
                self.redirect(before..here, To::Holds(goes_on), To::Step(here));
            }
            let part = self.word(offset, if is_one { run } else { 0 } << shift, run << shift);
            if !is_one {
                self.unequal(part);
            }
            last = Some((here, is_one));
            mask &= !run;
            number &= mask;
        }
        match last {
            Some(_) => Part::From(from),
            None => Part::Known(false),
        }
    }

    fn word(&mut self, offset: u32, value: u32, mask: u32) -> Part {
        if mask == 0 {
            return Part::Known(true);
        }
        let (yes, no) = (To::Holds(true), To::Holds(false));
        self.0.push(Step { offset, value: value & mask, mask, yes, no, short_is_yes: false });
        Part::From(self.0.len() - 1)
    }

    fn clause(&mut self, &(offset, values, masks, negated): &Clause<'_>) -> Part {
        let end = offset as usize + values.len();
        let words: Vec<usize> = (offset as usize / 4 * 4..end).step_by(4).collect();
        let part = self.chain(&words, true, |s, &at| {
            let byte = |bytes: &[u8], i: usize| {
                i.checked_sub(offset as usize).and_then(|i| bytes.get(i)).copied().unwrap_or(0)
            };
            let word = |bytes: &[u8]| (at..at + 4).fold(0, |w, i| w << 8 | u32::from(byte(bytes, i)));
            Ok(s.word(at as u32, word(values), word(masks)))
        });
        let part = part.unwrap_or(Part::Known(false));
        if negated { self.negate(part) } else { part }
    }
}

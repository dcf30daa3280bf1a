//! Decision trees of filters in the form of Click's handlers `program`, for people who know it.
//!
//! A step compares four bytes under a mask. Offsets below 256 are those of the packet, from 256 on those of the IP header,
//! from 512 on those of the transport header. The tree says what the element does, not how: that shows `weir ir`.

mod emit;
mod shorten;

pub(super) use emit::Clause;

use std::fmt;

/// Where the IP header and the transport header begin.
pub(super) const NET: u32 = 256;
pub(super) const TRANSPORT: u32 = 512;

/// The target of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// To another step.
    Step(usize),
    /// The packet leaves by an output, or (without one) is dropped.
    Leave(Option<u32>),
    /// The expression that is being read holds, or does not.
    Holds(bool),
}

/// A comparison of four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) offset: u32,
    pub(super) value: u32,
    pub(super) mask: u32,
    pub(super) yes: To,
    pub(super) no: To,
    /// Whether a packet that ends before the bytes takes the path of those that match.
    pub(super) short_is_yes: bool,
}

impl Step {
    /// Bytes that the packet has to have.
    fn end(&self) -> u32 {
        match self.mask {
            0 => 0,
            mask => self.offset + 4 - mask.trailing_zeros() / 8,
        }
    }

    fn to(&self, outcome: bool) -> To {
        if outcome { self.yes } else { self.no }
    }
}

/// The decisions of an element: steps, of which the first comes first, or one answer for all packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) steps: Vec<Step>,
    pub(super) start: To,
}

impl Tree {
    /// What becomes of a packet, whose byte at an offset is given, if it has one.
    #[cfg(test)]
    fn decide(&self, byte: impl Fn(u32) -> Option<u8>) -> Option<u32> {
        let mut at = self.start;
        loop {
            let step = match at {
                To::Step(i) => self.steps[i],
                To::Leave(output) => return output,
                To::Holds(_) => unreachable!("a whole tree leads to outputs"),
            };
            let bytes: Option<Vec<u8>> = (step.offset..step.end()).map(&byte).collect();
            let matches = match bytes {
                Some(bytes) => {
                    let word = (0..4).fold(0, |w, i| w << 8 | u32::from(bytes.get(i).copied().unwrap_or(0)));
                    word & step.mask == step.value
                }
                None => step.short_is_yes,
            };
            at = step.to(matches);
        }
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            To::Step(i) => write!(f, "step {i}"),
            To::Leave(Some(output)) => write!(f, "[{output}]"),
            To::Leave(None) | To::Holds(_) => f.write_str("[X]"),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, s) in self.steps.iter().enumerate() {
            write!(f, "{i:2} {:3}/{:08x}%{:08x}  yes->{}  no->{}", s.offset, s.value, s.mask, s.yes, s.no)?;
            f.write_str(if s.short_is_yes { "  short->yes\n" } else { "\n" })?;
        }
        if self.steps.is_empty() {
            writeln!(f, "all->{}", self.start)?;
        }
        let end = self.steps.iter().map(Step::end).max().unwrap_or(0);
        writeln!(f, "safe length {end}\nalignment offset 0")
    }
}

#[cfg(test)]
mod tests;

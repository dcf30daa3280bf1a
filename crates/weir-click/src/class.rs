//! What the language must know of an element class: port counts, processing, flow.

use std::str::FromStr;

/// The element classes that a configuration may use.
pub trait ElementSet {
    /// The class of this name, if there is one.
    fn class(&self, name: &str) -> Option<ClassInfo>;

    /// All class names, to suggest one for a misspelt name.
    fn names(&self) -> Vec<String>;

    /// The port counts of an element with these arguments, where they depend on the arguments (a classifier has one
    /// output for each pattern). `None` means that [`ClassInfo::ports`] holds.
    fn ports(&self, class: &str, args: &[String]) -> Option<PortCounts> {
        let _ = (class, args);
        None
    }
}

/// A class specification that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad {what} '{text}': expected {expected}")]
pub struct SpecError {
    what: &'static str,
    text: String,
    expected: &'static str,
}

/// An element class as the language sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassInfo {
    /// How many ports an element may have.
    pub ports: PortCounts,
    /// Which ports are push and which are pull.
    pub processing: Processing,
    /// Which outputs a packet may reach from which input.
    pub flow: FlowCode,
}

impl ClassInfo {
    /// Reads Click's three codes, for instance `("1/1-2", "a/ah", "x/x")`.
    ///
    /// # Errors
    /// A code that does not have its form.
    pub fn new(ports: &str, processing: &str, flow: &str) -> Result<ClassInfo, SpecError> {
        Ok(ClassInfo { ports: ports.parse()?, processing: processing.parse()?, flow: flow.parse()? })
    }
}

/// Port counts: Click's `"1/1-2"`, `"-/-"`, `"1-/="` (as many outputs as inputs), `"1-/=+"` (one more), `"1"` (both).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCounts {
    inputs: CountRange,
    outputs: Outputs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CountRange {
    low: u32,
    high: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Outputs {
    Range(CountRange),
    /// As many as inputs, and this many more.
    LikeInputs(u32),
}

impl PortCounts {
    /// Exactly these numbers of inputs and outputs.
    pub fn exactly(inputs: u32, outputs: u32) -> PortCounts {
        PortCounts {
            inputs: CountRange { low: inputs, high: inputs },
            outputs: Outputs::Range(CountRange { low: outputs, high: outputs }),
        }
    }

    /// The allowed numbers of inputs and outputs that are nearest to those used.
    pub fn nearest(&self, inputs: u32, outputs: u32) -> (u32, u32) {
        let inputs = self.inputs.nearest(inputs);
        let outputs = match &self.outputs {
            Outputs::Range(range) => range.nearest(outputs),
            Outputs::LikeInputs(more) => inputs.saturating_add(*more),
        };
        (inputs, outputs)
    }
}

impl CountRange {
    fn nearest(&self, n: u32) -> u32 {
        n.max(self.low).min(self.high)
    }

    /// `3`, `1-2`, `1-`, `-2`, `-`
    fn read(text: &str) -> Option<CountRange> {
        let number = |t: &str, default| if t.is_empty() { Some(default) } else { t.parse().ok() };
        let range = match text.split_once('-') {
            Some((low, high)) => CountRange { low: number(low, 0)?, high: number(high, u32::MAX)? },
            None => {
                let n = text.parse().ok()?;
                CountRange { low: n, high: n }
            }
        };
        (range.low <= range.high).then_some(range)
    }
}

impl FromStr for PortCounts {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<PortCounts, SpecError> {
        let read = || {
            let (inputs, outputs) = text.split_once('/').unwrap_or((text, text));
            let outputs = match outputs.strip_prefix('=') {
                Some(more) if more.bytes().all(|b| b == b'+') => Outputs::LikeInputs(more.len() as u32),
                Some(_) => return None,
                None => Outputs::Range(CountRange::read(outputs)?),
            };
            Some(PortCounts { inputs: CountRange::read(inputs)?, outputs })
        };
        read().ok_or_else(|| SpecError {
            what: "port count",
            text: text.into(),
            expected: "INPUTS/OUTPUTS, each N, N-M, N- or -M; or '=' for as many outputs as inputs",
        })
    }
}

/// The kind of a port: push, pull or agnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The upstream element hands packets over.
    Push,
    /// The downstream element asks for packets.
    Pull,
}

impl Kind {
    /// `"push"` or `"pull"`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Push => "push",
            Kind::Pull => "pull",
        }
    }
}

/// Kinds of ports: Click's `"a/ah"`, with `h` push, `l` pull, `a` agnostic; the last letter is for all further ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processing {
    inputs: Vec<Option<Kind>>,
    outputs: Vec<Option<Kind>>,
}

impl Processing {
    /// The kind of an input; `None` if agnostic.
    pub fn input(&self, port: u32) -> Option<Kind> {
        nth_or_last(&self.inputs, port).copied().flatten()
    }

    /// The kind of an output; `None` if agnostic.
    pub fn output(&self, port: u32) -> Option<Kind> {
        nth_or_last(&self.outputs, port).copied().flatten()
    }
}

fn nth_or_last<T>(list: &[T], n: u32) -> Option<&T> {
    list.get(n as usize).or_else(|| list.last())
}

impl FromStr for Processing {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Processing, SpecError> {
        let side = |codes: &str| {
            codes
                .chars()
                .map(|c| match c.to_ascii_lowercase() {
                    'h' => Some(Some(Kind::Push)),
                    'l' => Some(Some(Kind::Pull)),
                    'a' => Some(None),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>()
                .filter(|kinds| !kinds.is_empty())
        };
        let (inputs, outputs) = text.split_once('/').unwrap_or((text, text));
        match (side(inputs), side(outputs)) {
            (Some(inputs), Some(outputs)) => Ok(Processing { inputs, outputs }),
            _ => Err(SpecError {
                what: "processing code",
                text: text.into(),
                expected: "INPUTS/OUTPUTS, each letters from 'h' (push), 'l' (pull), 'a' (agnostic)",
            }),
        }
    }
}

/// How packets travel inside an element: Click's `"x/x"` (everywhere), `"x/y"` (nowhere), `"xy/x"`, `"#/#"` (to the
/// port of the same number), `"#/[^#]"` (to any other), `"xy/[xy]x"`. The last code is for all further ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowCode {
    inputs: Vec<FlowSet>,
    outputs: Vec<FlowSet>,
}

/// The codes of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FlowSet {
    /// Bit n for the n-th letter, capitals first.
    letters: u64,
    /// `#`
    own_number: bool,
    /// `[^…]`
    negated: bool,
}

impl FlowCode {
    /// Whether packets may travel from this input to this output.
    pub fn travels(&self, input: u32, output: u32) -> bool {
        let (Some(a), Some(b)) = (nth_or_last(&self.inputs, input), nth_or_last(&self.outputs, output))
        else {
            return false;
        };
        let same = a.own_number && b.own_number && input == output;
        match (a.negated, b.negated) {
            (false, false) => a.letters & b.letters != 0 || same,
            (true, false) => b.letters & !a.letters != 0 || (b.own_number && !same),
            (false, true) => a.letters & !b.letters != 0 || (a.own_number && !same),
            // Between them they leave out few of all possible codes.
            (true, true) => true,
        }
    }

    fn side(text: &str) -> Option<Vec<FlowSet>> {
        let mut sets = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let mut set = FlowSet::default();
            if c == '[' {
                set.negated = chars.next_if_eq(&'^').is_some();
                loop {
                    match chars.next()? {
                        ']' => break,
                        c => set.add(c)?,
                    }
                }
            } else {
                set.add(c)?;
            }
            sets.push(set);
        }
        (!sets.is_empty()).then_some(sets)
    }
}

impl FlowSet {
    fn add(&mut self, c: char) -> Option<()> {
        match c {
            'A'..='Z' => self.letters |= 1 << (c as u32 - 'A' as u32),
            'a'..='z' => self.letters |= 1 << (26 + c as u32 - 'a' as u32),
            '#' => self.own_number = true,
            _ => return None,
        }
        Some(())
    }
}

impl FromStr for FlowCode {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<FlowCode, SpecError> {
        let (inputs, outputs) = match text {
            "COMPLETE_FLOW" => ("x", "x"),
            _ => text.split_once('/').unwrap_or((text, text)),
        };
        match (FlowCode::side(inputs), FlowCode::side(outputs)) {
            (Some(inputs), Some(outputs)) => Ok(FlowCode { inputs, outputs }),
            _ => Err(SpecError {
                what: "flow code",
                text: text.into(),
                expected: "INPUTS/OUTPUTS, each letters, '#', [set] or [^set]",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_counts_follow_the_code() {
        let nearest =
            |code: &str, used: (u32, u32)| code.parse::<PortCounts>().unwrap().nearest(used.0, used.1);
        assert_eq!(nearest("1/1-2", (0, 5)), (1, 2));
        assert_eq!(nearest("-/-", (3, 4)), (3, 4));
        assert_eq!(nearest("3", (0, 9)), (3, 3));
        assert_eq!(nearest("1-/=", (4, 0)), (4, 4));
        assert_eq!(nearest("1-/=++", (0, 0)), (1, 3));
        assert_eq!(nearest("1/-6", (1, 9)), (1, 6));
        for bad in ["", "x", "1/", "1/=x", "2-1/1", "1/2/3", "=/1"] {
            assert!(bad.parse::<PortCounts>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_last_processing_letter_repeats() {
        let p: Processing = "hl/hlh".parse().unwrap();
        assert_eq!((p.input(0), p.input(7)), (Some(Kind::Push), Some(Kind::Pull)));
        assert_eq!((p.output(1), p.output(9)), (Some(Kind::Pull), Some(Kind::Push)));
        assert_eq!("a".parse::<Processing>().unwrap().output(3), None);
        assert!("a/".parse::<Processing>().is_err());
        assert!("q/h".parse::<Processing>().is_err());
    }

    #[test]
    fn flow_codes_relate_inputs_to_outputs() {
        let table = |code: &str| {
            let flow: FlowCode = code.parse().unwrap();
            [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2, 2)].map(|(i, o)| u8::from(flow.travels(i, o)))
        };
        assert_eq!(table("x/x"), [1, 1, 1, 1, 1, 1]);
        assert_eq!(table("x/y"), [0, 0, 0, 0, 0, 0]);
        assert_eq!(table("xy/x"), [1, 1, 0, 0, 0, 0]);
        assert_eq!(table("#/#"), [1, 0, 0, 1, 0, 1]);
        assert_eq!(table("#/[^#]"), [0, 1, 1, 0, 1, 0]);
        assert_eq!(table("xy/[xy]x"), [1, 1, 1, 0, 0, 0]);
        let example: FlowCode = "xy/xxyx".parse().unwrap();
        assert_eq!([0, 1, 2, 3].map(|o| example.travels(1, o)), [false, false, true, false]);
        for bad in ["", "x/", "[x", "x/1"] {
            assert!(bad.parse::<FlowCode>().is_err(), "{bad}");
        }
    }
}

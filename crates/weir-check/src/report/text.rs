//! Reports as text.

use std::fmt;

use super::{Finding, Report, Shown, Step};
use crate::answer::Status;

/// Bytes of a packet on a line.
const BYTES: usize = 16;

impl Status {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Holds => "holds",
            Status::Violated => "violated",
            Status::Inconclusive => "inconclusive",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            write!(f, "{finding}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let count = |s: Status| self.findings.iter().filter(|f| f.verdict == s).count();
        let counts: Vec<String> = [Status::Holds, Status::Violated, Status::Inconclusive]
            .into_iter()
            .map(|s| (count(s), s))
            .filter(|(n, _)| *n > 0)
            .map(|(n, s)| match s {
                Status::Holds if n != 1 => format!("{n} hold"),
                s => format!("{n} {s}"),
            })
            .collect();
        let n = self.findings.len();
        let noun = if n == 1 { "requirement" } else { "requirements" };
        writeln!(f, "{}: {n} {noun}: {}", self.file, counts.join(", "))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict, self.requirement)?;
        if let Some(line) = self.line {
            write!(f, "  (line {line})")?;
        }
        writeln!(f, "\n  {}", self.reason)?;
        if let Some(before) = self.without_change.filter(|s| *s != self.verdict) {
            writeln!(f, "  without the change: {before}")?;
        }
        if !self.losses.is_empty() {
            writeln!(f, "  not counted: losses for lack of capacity at {}", self.losses.join(", "))?;
        }
        if !self.waiting.is_empty() {
            writeln!(f, "  assumed: what packets wait for at {} comes", self.waiting.join(", "))?;
        }
        if !self.stopped_at.is_empty() {
            let example = if self.packets.is_empty() { "" } else { ", as this packet" };
            writeln!(f, "  path: {}{example}", self.stopped_at.join(" -> "))?;
        }
        if let Some(explored) = &self.explored {
            writeln!(f, "  explored: {explored}")?;
        }
        if let Some(what) = self.not_tried {
            writeln!(f, "  not tried: {what}")?;
        }
        if self.time != 0 && !self.packets.is_empty() {
            writeln!(f, "  at {} ns", self.time)?;
        }
        if !self.random.is_empty() {
            let numbers: Vec<String> = self.random.iter().map(u32::to_string).collect();
            writeln!(f, "  with the random numbers {}", numbers.join(", "))?;
        }
        if self.hash_seed != 0 {
            writeln!(f, "  with the hash seed {}", self.hash_seed)?;
        }
        for (i, packet) in self.packets.iter().enumerate() {
            packet.write(f, i + 1)?;
        }
        write_trace(f, &self.trace)?;
        writeln!(f)
    }
}

impl Shown {
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, number: usize) -> fmt::Result {
        write!(f, "  packet {number}, {} bytes, comes in at {}", self.length, self.place)?;
        self.state.iter().try_for_each(|state| write!(f, ", {state}"))?;
        writeln!(f)?;
        writeln!(f, "    {}", self.summary)?;
        for line in &self.headers {
            writeln!(f, "    {line}")?;
        }
        for (i, bytes) in self.bytes.chunks(BYTES).enumerate() {
            write!(f, "    {:04x}", i * BYTES)?;
            for (j, b) in bytes.iter().enumerate() {
                write!(f, "{}{b:02x}", if j == BYTES / 2 { "  " } else { " " })?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

pub(super) fn write_trace(f: &mut fmt::Formatter<'_>, steps: &[Step]) -> fmt::Result {
    let name = |s: &Step| format!("{} :: {}", s.node, s.class);
    let width = steps.iter().map(|s| name(s).chars().count()).max().unwrap_or(0);
    let several = steps.iter().any(|s| s.packet > 0);
    for (i, s) in steps.iter().enumerate() {
        let what: Vec<&str> = s.decided.iter().chain(&s.changes).chain(&s.end).map(String::as_str).collect();
        let packet = if several { format!("[{}] ", s.packet + 1) } else { String::new() };
        let line = format!("  {:>3} {packet}{:width$}  {}", i + 1, name(s), what.join("; "));
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

//! What packets can and cannot reach, for people and programs.

use std::fmt;

use serde::Serialize;
use weir_verify::NodeId;

use super::text::write_trace;
use super::{Shown, Step, class_of, name_of, packets, steps};
use crate::world::World;

/// The parts of a document that packets can and cannot reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The document.
    pub file: String,
    /// What no packet can reach.
    pub dead: Vec<Dead>,
    /// Of what it is not known whether a packet can reach it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Dead>,
    /// Why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where packets are dropped, and for which reasons.
    pub drops: Vec<DropFound>,
    /// Whether it may run beside others in one data plane.
    pub consolidation: Consolidation,
}

/// A port, rule or route that packets do not come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dead {
    /// The element.
    pub node: String,
    /// Its class.
    pub class: String,
    /// Which part of it.
    pub what: String,
}

/// A reason for which packets are dropped at an element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DropFound {
    /// The element.
    pub node: String,
    /// Its class.
    pub class: String,
    /// The reason.
    pub reason: String,
    /// Whether a packet was found that is dropped so; else there may be one.
    pub found: bool,
    /// The packets of the run that shows it, in the order in which they come in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<Shown>,
    /// Their path, step by step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Step>,
    /// The time at which they come in, in nanoseconds.
    #[serde(skip_serializing_if = "super::is_zero")]
    pub time: u64,
}

/// The answer to whether a configuration may run beside those of others in one data plane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Consolidation {
    /// Whether it may.
    pub may: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Most entries that its packets can leave in tables.
    pub entries: u64,
    /// Most packets that such entries hold.
    pub packets: u64,
}

impl Dead {
    pub(crate) fn new(world: &World, node: NodeId, what: String) -> Dead {
        Dead { node: name_of(world, node), class: class_of(world, node).to_owned(), what }
    }
}

impl Coverage {
    pub(crate) fn add_drops(&mut self, world: &World, found: &weir_verify::checks::Coverage) {
        for d in &found.drops {
            let evidence = d.run.and_then(|run| found.runs.get(run));
            let hops = evidence.map(|e| &e.replay.hops[..]).unwrap_or_default();
            // What no sender sends is no drop.
            if class_of(world, d.node).is_empty() {
                continue;
            }
            self.drops.push(DropFound {
                node: name_of(world, d.node),
                class: class_of(world, d.node).to_owned(),
                reason: d.reason.clone(),
                found: d.run.is_some(),
                packets: evidence.map(|e| packets(world, e)).unwrap_or_default(),
                trace: steps(world, hops),
                time: evidence.map_or(0, |e| e.now),
            });
        }
    }

    /// The same without packets.
    #[must_use]
    pub fn short(mut self) -> Coverage {
        for d in &mut self.drops {
            (d.packets, d.trace, d.time) = (Vec::new(), Vec::new(), 0);
        }
        self
    }
}

impl fmt::Display for Dead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} :: {}: {}", self.node, self.class, self.what)
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for d in &self.dead {
            writeln!(f, "dead: {d}")?;
        }
        for d in &self.unknown {
            writeln!(f, "not known: {d}")?;
        }
        for d in &self.drops {
            let may = if d.found { "" } else { "may " };
            let class = if d.class.is_empty() { String::new() } else { format!(" :: {}", d.class) };
            writeln!(f, "{may}drop: {}{class}: {}", d.node, d.reason)?;
            if d.time != 0 {
                writeln!(f, "  at {} ns", d.time)?;
            }
            for (i, packet) in d.packets.iter().enumerate() {
                packet.write(f, i + 1)?;
            }
            write_trace(f, &d.trace)?;
            if !d.packets.is_empty() {
                writeln!(f)?;
            }
        }
        let c = &self.consolidation;
        if c.may {
            let held = if c.packets == 0 { String::new() } else { format!(", with {} packets", c.packets) };
            writeln!(
                f,
                "may be consolidated: its packets leave at most {} entries in tables{held}",
                c.entries
            )?;
        }
        for reason in &c.reasons {
            writeln!(f, "may not be consolidated: {reason}")?;
        }
        let parts = |n: usize| format!("{n} {}", if n == 1 { "part" } else { "parts" });
        write!(f, "{}: {} no packet can reach", self.file, parts(self.dead.len()))?;
        if !self.unknown.is_empty() {
            write!(f, ", {} not known", self.unknown.len())?;
        }
        match &self.reason {
            Some(reason) => writeln!(f, ": {reason}"),
            None => writeln!(f),
        }
    }
}

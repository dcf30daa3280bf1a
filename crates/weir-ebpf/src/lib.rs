//! Compiles packet IR programs to eBPF: the kernel runs the graph.
//!
//! An [`Object`] means what [`weir_ir::Interpreter`] does with the same program for packets that come in at one of its entries:
//! their bytes, the exits by which they leave, why they are dropped, and what is in the tables then. What cannot be compiled
//! is [`Refused`] with all reasons, never compiled to something else. Nothing here talks to the kernel: `weir-io` loads objects.
//!
//! The checker's proof of bounds is not taken at its word by the kernel's verifier. Where that does not see why, the code
//! asks again; packets for which the answer is no are dropped and counted ([`Ended::Fault`]), and there are none.

#![forbid(unsafe_code)]

mod emit;
mod insn;
mod maps;
mod places;
mod refuse;
mod usage;

use std::fmt::Write as _;

use weir_ir::program::{BlockId, End, EntryKind, Program, Reason};

pub use insn::{Alu, Cond, Helper, Insn, Label, Reg, Size, Src, TooFar, encode};
pub use maps::{Layout, Map, MapKind, Role};
pub use refuse::{Cause, Refusal, Refused};
pub use usage::reached;

/// Where the kernel runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// When a frame comes in, before anything else is done with it (XDP).
    Xdp,
    /// When a packet comes in, as the kernel has it (`tcx`, ingress): with a checksum that its sender left unfinished, and unsegmented.
    /// What programs look at has to be in its first [`LINEAR`] bytes.
    Tc,
}

/// Bytes at the start of a packet that a program on [`Hook::Tc`] can look at, where the kernel has the packet in pieces.
pub const LINEAR: u32 = 512;

impl Hook {
    /// The verdict of dropped packets.
    fn drop(self) -> u64 {
        match self {
            // XDP_DROP
            Hook::Xdp => 1,
            // TC_ACT_SHOT
            Hook::Tc => 2,
        }
    }

    /// The verdict of packets that there cannot be.
    fn fault(self) -> u64 {
        match self {
            // XDP_ABORTED, which the kernel's tracing shows.
            Hook::Xdp => 0,
            Hook::Tc => 2,
        }
    }
}

/// The source of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Nanoseconds since the machine started (`CLOCK_MONOTONIC`).
    Kernel,
    /// The map of [`Role::Clock`], which someone sets.
    Map,
}

/// How programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Where they run.
    pub hook: Hook,
    /// What time it is.
    pub clock: Clock,
    /// Whether packets come in with the link header marked, as from devices.
    pub marked: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { hook: Hook::Xdp, clock: Clock::Kernel, marked: true }
    }
}

/// How a packet ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By what the checker proved not to happen, or because too little is left of it: frames of the kernel have at least 14 bytes.
    Fault,
    /// By an exit.
    Left(u32),
    /// In an element, for a reason.
    Dropped {
        /// Its number in [`Program::elements`].
        element: u32,
        /// The reason.
        reason: Reason,
    },
}

/// A compiled program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The instructions.
    pub code: Vec<Insn>,
    /// The maps that they name.
    pub maps: Vec<Map>,
    /// The layouts of the program's tables, where they have a map.
    pub tables: Vec<Option<Layout>>,
    /// How packets end; the map of [`Role::Ends`] counts them in this order. It is the same for all entries of a program.
    pub ends: Vec<Ended>,
}

impl Object {
    /// The instructions as text, one a line, with the maps.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (i, m) in self.maps.iter().enumerate() {
            let Map { role, kind, key, value, entries } = m;
            _ = writeln!(out, "map {i}: {kind:?} of {role:?}, key {key}, value {value}, entries {entries}");
        }
        for insn in &self.code {
            let indent = if let Insn::At(_) = insn { "" } else { "    " };
            _ = writeln!(out, "{indent}{insn}");
        }
        out
    }
}

/// Compiles a checked program for packets that come in at one of its entries.
///
/// # Errors
/// What cannot be compiled, all of it.
pub fn compile(program: &Program, entry: BlockId, options: &Options) -> Result<Object, Refused> {
    // Maps are shared by the objects of a program: what they are depends on all that packets may do.
    let packets = |e: &&weir_ir::program::Entry| matches!(e.kind, EntryKind::Packet { .. });
    let mut entries: Vec<BlockId> = program.entries.iter().filter(packets).map(|e| e.block).collect();
    entries.push(entry);
    let usages = usage::Usages::of(program, &usage::reached(program, &entries));
    let layouts = maps::layouts(program, &usages.tables);
    let ends = ends(program);
    let reached = usage::reached(program, &[entry]);
    let mut emit = emit::Emit::new(program, options, entry, &reached, layouts.clone(), usages, &ends);
    emit.run(entry);
    let mut refused = std::mem::take(&mut emit.refused);
    let (code, maps) = (std::mem::take(&mut emit.code), std::mem::take(&mut emit.maps));
    if refused.is_empty()
        && let Err(far) = encode(&code, |_| 0)
    {
        let element = program.elements.join(", ");
        refused.push(Refusal { element, cause: far.into() });
    }
    if !refused.is_empty() {
        refused.sort();
        refused.dedup();
        return Err(Refused(refused));
    }
    Ok(Object { code, maps, tables: layouts, ends })
}

/// How packets of a program may end: first by a fault, then by its exits.
fn ends(program: &Program) -> Vec<Ended> {
    let mut all = vec![Ended::Fault];
    all.extend((0..program.outputs).map(Ended::Left));
    for block in &program.blocks {
        let reason = match &block.end {
            End::Drop { reason } => reason.clone(),
            End::Enter { back: true, .. } => Reason::LOOP_LIMIT,
            _ => continue,
        };
        let end = Ended::Dropped { element: block.owner, reason };
        if !all.contains(&end) {
            all.push(end);
        }
    }
    all
}

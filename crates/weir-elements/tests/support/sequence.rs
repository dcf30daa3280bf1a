//! What happens to a graph: packets of the corpus, answers to what comes out, time.

use weir_ir::program::EntryKind;
use weir_ir::{Interpreter, Layer, Program};
use weir_jit::differential::{Image, Recorder, Seen, Step, tables_of};
use weir_packet::{Checksum, Packet};
use weir_table::{SetSnapshot, TableSet};

use super::graph::Linked;
use super::{Numbers, frames};

/// The result of a program: the observations of each step, with elements in place of blocks, and the tables at the end.
pub type Run = (Vec<Vec<Seen>>, SetSnapshot);

/// A sequence of `len` steps for a graph; `corpus` is mixed with made frames.
pub fn steps(g: &Linked, corpus: &[Vec<u8>], seed: u64, len: usize) -> Vec<Step> {
    let n = &mut Numbers::new(seed);
    let p = &g.program;
    let (mut world, mut steps) = (World::new(p, seed), Vec::new());
    let mut now = 1_000_000_000;
    let timers: Vec<u32> =
        p.entries.iter().filter(|e| matches!(e.kind, EntryKind::Timer { .. })).map(|e| e.owner).collect();
    let mut out: Vec<Vec<u8>> = Vec::new();
    let wifi = g.classes.iter().any(|c| c.starts_with("Wifi"));
    for _ in 0..len {
        now += match n.below(48) {
            0..=15 => 0,
            16..=44 => n.below(1_000_000) as u64,
            45 => n.below(3_000_000_000) as u64,
            46 => n.below(90) as u64 * 1_000_000_000,
            _ => n.below(400) as u64 * 1_000_000_000,
        };
        let step = match n.below(16) {
            0 | 1 => Step::Expire { now },
            2 if !timers.is_empty() => Step::Timer { owner: *n.pick(&timers), now },
            _ => {
                let &(owner, port) = n.pick(&g.points);
                Step::Packet { owner, port, packet: packet(n, corpus, &out, wifi), now }
            }
        };
        for seen in world.step(&step) {
            let (Seen::Exit { packet, .. } | Seen::Dropped { packet, .. }) = seen else { continue };
            out.extend(network_packet(&packet));
        }
        out.drain(..out.len().saturating_sub(8));
        steps.push(step);
    }
    steps
}

/// Runs a sequence on the interpreter.
pub fn interpret(p: &Program, seed: u64, steps: &[Step]) -> Run {
    let mut world = World::new(p, seed);
    let seen = steps.iter().map(|s| by_owner(p, world.step(s))).collect();
    let now = steps.last().map_or(0, time);
    (seen, world.tables.snapshot(now, |t| t.to_string()))
}

/// What was seen, with the number of the element in place of the block where a packet was dropped.
pub fn by_owner(p: &Program, mut seen: Vec<Seen>) -> Vec<Seen> {
    for s in &mut seen {
        if let Seen::Dropped { at, .. } = s {
            at.0 = p.block(*at).owner;
        }
    }
    seen
}

/// The time of a step.
pub fn time(s: &Step) -> u64 {
    match s {
        Step::Packet { now, .. }
        | Step::Timer { now, .. }
        | Step::Message { now, .. }
        | Step::Expire { now } => *now,
    }
}

struct World<'a> {
    program: &'a Program,
    tables: TableSet,
    host: Recorder,
    interpreter: Interpreter,
}

impl World<'_> {
    fn new(program: &Program, seed: u64) -> World<'_> {
        World {
            program,
            tables: tables_of(program),
            host: Recorder::new(seed),
            interpreter: Interpreter::default(),
        }
    }

    fn step(&mut self, s: &Step) -> Vec<Seen> {
        let (p, t, h) = (self.program, &mut self.tables, &mut self.host);
        match s {
            Step::Packet { owner, port, packet, now } => {
                let entry = p.packet_entry(*owner, *port).expect("the point is an input");
                self.interpreter.run(p, t, h, *now, entry, &[], Some(packet.copy()));
            }
            Step::Timer { owner, now } => {
                for e in p
                    .entries
                    .iter()
                    .filter(|e| e.owner == *owner && matches!(e.kind, EntryKind::Timer { .. }))
                {
                    self.interpreter.run(p, t, h, *now, e.block, &[], None);
                }
            }
            Step::Message { .. } => unreachable!("sequences have no messages"),
            Step::Expire { now } => self.interpreter.expire(p, t, h, *now),
        }
        std::mem::take(&mut self.host.seen)
    }
}

/// The IPv4 packet in what left a graph.
fn network_packet(p: &Image) -> Option<Vec<u8>> {
    let at = usize::try_from(p.marks[1].unwrap_or(0)).ok()?;
    p.bytes.get(at..).filter(|b| b.len() >= 20 && b[0] >> 4 == 4).map(<[u8]>::to_vec)
}

fn packet(n: &mut Numbers, corpus: &[Vec<u8>], out: &[Vec<u8>], wifi: bool) -> Packet {
    let ip = if out.is_empty() || !n.once_in(3) {
        None
    } else if n.once_in(5) {
        let about = n.pick(out).clone();
        Some(frames::icmp_error(n, &about))
    } else {
        // An answer to what left, or the same packet again.
        let to = n.pick(out).clone();
        if n.once_in(4) { Some(to) } else { frames::answer(n, &to) }
    };
    let mut bytes = match ip {
        // Graphs for these frames get few others.
        _ if wifi && !n.once_in(8) => frames::wifi(n),
        Some(ip) if n.once_in(2) => ip,
        Some(ip) => frames::around(n, &ip),
        None => match n.below(8) {
            0..=3 => frames::ip(n),
            4..=6 => frames::frame(n),
            _ => n.pick(corpus).clone(),
        },
    };
    if n.once_in(6) {
        frames::damage(n, &mut bytes);
    }
    let mut p = Packet::from_bytes(&bytes).expect("the packet is not too long");
    p.timestamp = n.below(5) as u64 * 1_000_000_000;
    p.in_port = n.below(3) as u16;
    if n.once_in(4) {
        p.packet_type = n.below(5) as u8;
        p.hash = n.below(9) as u32;
        for a in &mut p.anno {
            *a = n.below(4) as u8;
        }
    }
    if n.once_in(8) {
        p.csum = Checksum::Full as u8;
    }
    // The sender's kernel has left the checksum to the device: of UDP or TCP in what looks like such.
    let header = usize::from(bytes.first().map_or(0, |b| b & 15)) * 4;
    if n.once_in(6) && bytes.len() >= header + 20 && header >= 20 && bytes[0] >> 4 == 4 {
        p.csum = Checksum::Partial as u8;
        p.csum_start = p.data() + header as u32;
        p.csum_offset = if bytes[9] == 6 { 16 } else { 6 };
    }
    if n.once_in(10) {
        let at = p.data() + n.below(p.len() + 1) as u32;
        p.set_layer(*n.pick(&Layer::ALL[1..]), Some(at));
    }
    p
}

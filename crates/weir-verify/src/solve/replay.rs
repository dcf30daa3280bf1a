//! Runs what was solved through the interpreter, node by node: only what happens there is shown to people.

use std::collections::{HashMap, VecDeque};

use weir_ir::interp::{Host, Interpreter};
use weir_ir::program::{BlockId, End, Program, Reason};
use weir_packet::{Packet, Provenance};

use crate::explore::path::How;
use crate::explore::session::Entry;
use crate::network::{Body, Network, NodeId, NodePort};
use crate::solve::ConcreteInput;
use crate::solve::lazy_tables::LazyTables;

/// Most places that packets of a run come to.
const HOPS: usize = 4096;
/// How often one packet may come to a place.
const VISITS: usize = 64;

/// A packet at a place, and what became of it there.
#[derive(Debug, Clone)]
pub struct Hop {
    /// Number of the packet: those that came in have the first, in order; copies and answers have others.
    pub packet: usize,
    /// The input that it came to; for what a program of the clock makes, port 0 of its node.
    pub place: NodePort,
    /// Its bytes then.
    pub before: Vec<u8>,
    /// Offset in them of the network header, if it is marked.
    pub net: Option<usize>,
    /// Lookups in tables on the path through the node: table, and whether an entry was found.
    pub lookups: Vec<(String, bool)>,
    /// What left the node or ended there, in order.
    pub after: Vec<Left>,
}

/// A packet that left a node or ended there.
#[derive(Debug, Clone)]
pub struct Left {
    /// Number of the packet.
    pub packet: usize,
    /// How.
    pub how: How,
    /// Its bytes then.
    pub bytes: Vec<u8>,
    /// Whose it is.
    pub provenance: Provenance,
    /// Whether it became that here.
    pub is_new: bool,
}

/// A run.
#[derive(Debug, Default)]
pub struct Replay {
    /// All that happened, in order.
    pub hops: Vec<Hop>,
    /// For each packet that came in, number of its first hop.
    pub starts: Vec<usize>,
    /// The packets as they came to places, beside `hops`.
    arrived: Vec<Packet>,
}

/// Which packets count, of those that come to a place because of what was sent. Each takes in those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counted {
    /// The packet that was sent and copies of it, whatever was changed in them.
    Sent,
    /// Answers to it, too.
    Answers,
    /// Packets that waited and that it let go, and answers to them, too.
    Released,
    /// What elements made of nothing that came in, too.
    All,
}

impl Counted {
    /// Whether a packet counts where that one came in with this number.
    fn has(self, packet: &Packet, sent: usize) -> bool {
        let is_own = number_of(packet) == Some(sent);
        match self {
            Counted::Sent => is_own && packet.provenance() == Provenance::Sent,
            Counted::Answers => is_own && packet.provenance() != Provenance::Made,
            Counted::Released => packet.provenance() != Provenance::Made,
            Counted::All => true,
        }
    }
}

/// The number with which a packet came in, or the one that it is a copy of or was made of, or made for. Only in a replay.
fn number_of(packet: &Packet) -> Option<usize> {
    usize::from(packet.trace).checked_sub(1)
}

impl Replay {
    /// The packets that came to a place because of what entered last, of those that count.
    pub(crate) fn arrived_last(&self, counted: Counted) -> impl Iterator<Item = (NodePort, &Packet)> {
        let sent = self.starts.len().saturating_sub(1);
        let from = self.starts.last().copied().unwrap_or(0);
        self.arrived_from(from).filter(move |(_, p)| counted.has(p, sent))
    }

    /// The places that a packet that came in with this number came to, with copies of it, as it was there.
    pub(crate) fn arrived_of(&self, sent: usize) -> impl Iterator<Item = (NodePort, &Packet)> {
        let from = self.starts.get(sent).copied().unwrap_or(self.hops.len());
        self.arrived_from(from).filter(move |(_, p)| Counted::Sent.has(p, sent))
    }

    fn arrived_from(&self, from: usize) -> impl Iterator<Item = (NodePort, &Packet)> {
        self.hops[from..].iter().zip(&self.arrived[from..]).map(|(h, p)| (h.place, p))
    }

    /// The run in which the first node of these that the packet with this number comes to, since what entered last did, has no
    /// space for it, and what follows does not happen.
    pub(crate) fn lose(&mut self, sent: usize, full: impl Fn(NodeId) -> bool) {
        let from = self.starts.last().copied().unwrap_or(0);
        let comes = |i: &usize| full(self.hops[*i].place.node) && Counted::Sent.has(&self.arrived[*i], sent);
        let Some(at) = (from..self.hops.len()).find(comes) else { return };
        self.hops.truncate(at + 1);
        self.arrived.truncate(at + 1);
        for left in self.hops.last_mut().into_iter().flat_map(|h| &mut h.after) {
            left.how = How::Drop(BlockId(0), Reason::FULL);
        }
    }
}

/// Runs what entered, in order, from a concrete start.
pub fn replay(net: &Network, entered: &[Entry], input: ConcreteInput) -> Replay {
    replay_by(net, entered, input, 1)
}

/// The same where each packet enters twice: in `entered` by two places, one after the other. Both times it is as it was,
/// and the same random numbers are drawn.
pub(crate) fn replay_twice(net: &Network, entered: &[Entry], input: ConcreteInput) -> Replay {
    replay_by(net, entered, input, 2)
}

fn replay_by(net: &Network, entered: &[Entry], mut input: ConcreteInput, times: usize) -> Replay {
    let mut run = Run {
        net,
        replay: Replay::default(),
        host: Collector {
            randoms: input.randoms.clone(),
            hash_seed: input.hash_seed,
            ..Collector::default()
        },
        interpreter: Interpreter::default(),
        packets: entered.len(),
    };
    let packets = std::mem::take(&mut input.packets);
    let mut packets = packets.iter().flat_map(|p| std::iter::repeat_n(p, times));
    for (i, entered) in entered.chunks(times).enumerate() {
        let (before, mut drawn) = (run.host.drawn, 0);
        for (j, entry) in entered.iter().enumerate() {
            run.replay.starts.push(run.replay.hops.len());
            run.host.drawn = before;
            match entry {
                Entry::Packet(at, _) => {
                    let Some(packet) = packets.next() else { return run.replay };
                    let (mut packet, number) = (packet.copy(), times * i + j);
                    // What it is followed by, also where it waits.
                    packet.trace = u16::try_from(number + 1).unwrap_or(0);
                    run.follow(*at, packet, number, &mut input);
                }
                Entry::Timer(node, block) => {
                    let at = NodePort { node: *node, port: 0 };
                    run.node(at, *block, None, times * i + j, &mut input);
                }
            }
            drawn = drawn.max(run.host.drawn);
        }
        run.host.drawn = drawn;
    }
    run.replay
}

/// What a guard says of a packet.
pub(crate) fn matches(net: &Network, guard: NodeId, packet: &Packet) -> bool {
    let mut tables = LazyTables::default();
    let Some((program, places)) = tables.program(net, guard) else { return false };
    let Some(entry) = program.packet_entry(0, 0) else { return false };
    let (mut host, mut i) = (Collector::default(), Interpreter::default());
    i.place_tables(&places);
    i.run(program, &mut tables.set, &mut host, 0, entry, &[], Some(packet.copy()));
    matches!(host.left.first(), Some((How::Exit(0), _)))
}

struct Run<'a> {
    net: &'a Network,
    replay: Replay,
    host: Collector,
    interpreter: Interpreter,
    packets: usize,
}

impl Run<'_> {
    fn follow(&mut self, at: NodePort, packet: Packet, number: usize, input: &mut ConcreteInput) {
        let mut queue = VecDeque::from([(at, packet, number)]);
        let mut visits: HashMap<(usize, NodePort), usize> = HashMap::new();
        while let Some((at, packet, number)) = queue.pop_front() {
            let n = visits.entry((number, at)).or_insert(0);
            *n += 1;
            if *n > VISITS || self.replay.hops.len() > HOPS {
                self.hop(at, &packet, number, vec![(How::Loop, packet.copy(), number)]);
                continue;
            }
            let node = self.net.node(at.node);
            let left = match &node.body {
                Body::Program(_) => match node.entry(at.port) {
                    Some(block) => {
                        self.node(at, block, Some(packet), number, input);
                        let last = self.replay.hops.len() - 1;
                        // What follows from the first is done before the others' turn.
                        for (port, p, n) in std::mem::take(&mut self.host.after).into_iter().rev() {
                            if let Some(to) = node.outputs.get(port as usize).copied().flatten() {
                                queue.push_front((to, p, n));
                            }
                        }
                        debug_assert_eq!(self.replay.hops[last].place, at);
                        continue;
                    }
                    None => (How::Drop(BlockId(0), Reason::UNCONNECTED), None),
                },
                Body::Pass { .. } => match node.outputs.first().copied().flatten() {
                    Some(to) => (How::Exit(0), Some(to)),
                    None => (How::Sunk, None),
                },
                Body::Sink => (How::Sunk, None),
                Body::Opaque => (How::Opaque, None),
            };
            self.hop(at, &packet, number, vec![(left.0, packet.copy(), number)]);
            if let Some(to) = left.1 {
                queue.push_front((to, packet, number));
            }
        }
    }

    fn hop(&mut self, place: NodePort, before: &Packet, number: usize, after: Vec<(How, Packet, usize)>) {
        let after = after.into_iter().map(|(how, p, n)| Left {
            packet: n,
            how,
            bytes: p.bytes().to_vec(),
            provenance: p.provenance(),
            is_new: p.provenance != before.provenance,
        });
        let net = before.layer(weir_ir::Layer::Net).and_then(|at| at.checked_sub(before.data()));
        self.replay.hops.push(Hop {
            packet: number,
            place,
            before: before.bytes().to_vec(),
            net: net.map(|n| n as usize),
            lookups: std::mem::take(&mut self.host.lookups),
            after: after.collect(),
        });
        self.replay.arrived.push(before.copy());
    }

    /// Runs a node's program; what leaves is in the host's `after`.
    fn node(
        &mut self,
        at: NodePort,
        block: BlockId,
        packet: Option<Packet>,
        number: usize,
        input: &mut ConcreteInput,
    ) {
        let packet_came = packet.is_some();
        let before = packet.as_ref().map(Packet::copy).or_else(|| Packet::from_bytes(&[]).ok());
        let Some((program, places)) = input.tables.program(self.net, at.node) else { return };
        self.host.steps.clear();
        self.interpreter.place_tables(&places);
        self.interpreter.run(program, &mut input.tables.set, &mut self.host, input.now, block, &[], packet);
        self.host.lookups = lookups(program, &self.host.steps);
        let (mut left, mut is_here) = (Vec::new(), true);
        for (how, p) in std::mem::take(&mut self.host.left) {
            let is_like = |b: &Packet| b.trace == p.trace && is_made(b) == is_made(&p);
            let is_own = !packet_came || before.as_ref().is_some_and(is_like);
            let waited = before.as_ref().is_some_and(|b| b.trace != p.trace);
            let n = match number_of(&p).filter(|_| waited && !is_made(&p)) {
                Some(number) => number,
                None if is_own && std::mem::take(&mut is_here) => number,
                None => {
                    self.packets += 1;
                    self.packets - 1
                }
            };
            if let How::Exit(port) = how {
                self.host.after.push((port, p.copy(), n));
            }
            left.push((how, p, n));
        }
        // It did not leave, and did not end.
        if let Some(packet) = before.as_ref().filter(|_| packet_came && is_here) {
            left.push((How::Held, packet.copy(), number));
        }
        if let Some(before) = before {
            self.hop(at, &before, number, left);
        }
    }
}

/// Whether an element made a packet, of nothing that came in.
fn is_made(packet: &Packet) -> bool {
    packet.provenance() == Provenance::Made
}

/// What the lookups among some steps found.
fn lookups(program: &Program, steps: &[BlockId]) -> Vec<(String, bool)> {
    steps
        .windows(2)
        .filter_map(|w| match &program.block(w[0]).end {
            End::Lookup { table, hit, .. } => {
                let decl = &program.tables.get(table.0 as usize)?.decl;
                Some((decl.name.clone(), hit.block == w[1]))
            }
            _ => None,
        })
        .collect()
}

#[derive(Debug, Default)]
struct Collector {
    left: Vec<(How, Packet)>,
    after: Vec<(u32, Packet, usize)>,
    steps: Vec<BlockId>,
    lookups: Vec<(String, bool)>,
    randoms: Vec<u32>,
    drawn: usize,
    hash_seed: u64,
}

impl Host for Collector {
    fn exit(&mut self, port: u32, packet: Packet) {
        self.left.push((How::Exit(port), packet));
    }
    fn dropped(&mut self, at: BlockId, reason: &Reason, packet: Packet) {
        self.left.push((How::Drop(at, reason.clone()), packet));
    }
    fn orphaned(&mut self, packet: Packet) {
        self.left.push((How::Orphaned, packet));
    }
    fn random(&mut self) -> u32 {
        self.drawn += 1;
        self.randoms.get(self.drawn - 1).copied().unwrap_or(0)
    }
    fn hash_seed(&self) -> u64 {
        self.hash_seed
    }
    fn step(&mut self, block: BlockId, _: Option<&Packet>) {
        self.steps.push(block);
    }
}

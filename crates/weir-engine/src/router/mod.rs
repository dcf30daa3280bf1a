//! A running graph.

mod calls;
mod handlers;
mod hold;
mod host;
mod others;
pub(crate) mod rounds;
mod running;
mod runtime;
mod start;
mod state;
mod status;
mod swap;
mod tasks;
mod watched;
mod workers;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use weir_click::Kind;
use weir_ir::Reason;
use weir_ir::program::{BlockId, End, EntryKind, MAX_HOPS};
use weir_jit::Compiled;
use weir_nodes::node::{Control, Cx, EngineNode, Ran};
use weir_packet::Packet;
use weir_plan::{Dest, Fast, Home, Part, Plan};
use weir_table::{EntryRef, TableSet};

use crate::exchange::Parcel;
use crate::executor::{Executor, Job};
use crate::shared::Shared;
use crate::watch::GraphElement;
use host::{BlockDrops, FastHost, Outflow};
use running::Running;
use watched::WatchHost;

pub(crate) use others::{Lender, Others};
pub use runtime::Reader;
pub(crate) use runtime::Runtime;

/// How many packets a pull may try in vain before it gives up for this time.
const PULL_TRIES: usize = 32;
/// How many link batches are delivered in one go: packets that go round are left for the next round.
const DELIVERIES: usize = 4096;
/// How often at most tables are looked at for what is due while traffic flows, in nanoseconds.
const EXPIRY_PACE: u64 = 1_000_000;

/// A timer of a program.
struct Timer {
    every: u64,
    next: u64,
    start: BlockId,
    owner: u32,
    /// Its function stands still.
    stopped: bool,
}

/// A graph with its tables, nodes, and packets in flight.
pub struct Router {
    pub(crate) name: String,
    pub(crate) tag: String,
    pub(crate) swaps: u64,
    /// Number of the load or swap that made it.
    pub(crate) generation: u64,
    pub(crate) plan: Plan,
    /// What names of links begin with, if they are the graph's own.
    scope: Option<String>,
    /// How many bytes more its nodes may take, if its memory is bounded.
    spare: Option<Arc<AtomicU64>>,
    /// Its number in the engine, which it has on all workers.
    pub(crate) slot: usize,
    /// With several workers: the tables that they share.
    shared: Option<Arc<Shared>>,
    /// Whether the shared tables are among `tables` now.
    held: bool,
    /// Runs what needs the shared tables; what it knows of them stays right, since it sees no others.
    locked: Executor,
    /// Engine nodes by element number; a node that runs is taken out meanwhile.
    nodes: Vec<Option<Box<dyn EngineNode>>>,
    uses_devices: bool,
    /// The parts of nodes that call handlers, by element number.
    controls: Vec<Option<Arc<dyn Control>>>,
    /// Those of them to which requests come from outside.
    listening: Vec<usize>,
    /// Arguments of elements that were changed by their handlers `config`.
    configs: HashMap<usize, String>,
    /// Whether there is a handler for another configuration in its place.
    reconfigure: bool,
    /// The element that decides what happens when the end of the run is asked for.
    driver: Option<usize>,
    /// How often it was asked for.
    stop_asked: u32,
    tables: TableSet,
    /// Runs instead of the linked program once it is there.
    fast: Option<Arc<Fast>>,
    pub(crate) executor: Executor,
    out: Outflow,
    drops: BlockDrops,
    /// Drops at nodes: element, reason, how many.
    node_drops: Vec<(usize, Reason, u64)>,
    /// Drops before the last swap.
    old_drops: status::DropCounts,
    tasks: Vec<usize>,
    /// With those of functions that stand still. Empty if none can.
    all_tasks: Vec<usize>,
    timers: Vec<Timer>,
    /// By element: whether it is of a function that stands still. Empty if none can.
    stopped: Vec<bool>,
    /// Entries whose time has come while their function stood still.
    postponed: Vec<EntryRef>,
    /// Whose packets end as orphans, unless more is known.
    holder: u32,
    next_expiry: u64,
    /// Whether something came in, or something is left to do.
    active: bool,
    /// When there is something to do next.
    wake: Option<u64>,
    /// When a pull that was in vain may give something, as far as nodes said so in this round.
    try_at: Option<u64>,
}

impl Router {
    pub(crate) fn element_name(&self, element: usize) -> &str {
        &self.plan.graph.elements[element].name
    }

    pub(crate) fn elements(&self) -> usize {
        self.plan.graph.elements.len()
    }

    pub(crate) fn class_name(&self, element: usize) -> &str {
        &self.plan.graph.elements[element].class
    }

    pub(crate) fn input_is_push(&self, element: usize, port: u32) -> bool {
        self.plan.graph.ports[element].inputs.get(port as usize) == Some(&Kind::Push)
    }

    pub(crate) fn output_is_push(&self, element: usize, port: u32) -> bool {
        self.plan.graph.ports[element].outputs.get(port as usize) == Some(&Kind::Push)
    }

    pub(crate) fn port_counts(&self, element: usize) -> (u32, u32) {
        let ports = &self.plan.graph.ports[element];
        (ports.inputs.len() as u32, ports.outputs.len() as u32)
    }

    /// Engine nodes with their element numbers.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, &dyn EngineNode)> {
        self.nodes.iter().enumerate().filter_map(|(e, n)| Some((e, &**n.as_ref()?)))
    }

    /// An engine node, unless it is running.
    pub(crate) fn node(&self, element: usize) -> Option<&dyn EngineNode> {
        self.nodes.get(element)?.as_deref()
    }

    /// The same, to change it.
    pub(crate) fn node_mut(&mut self, element: usize) -> Option<&mut (dyn EngineNode + 'static)> {
        self.nodes.get_mut(element)?.as_deref_mut()
    }

    /// Whether any of its nodes reads or writes a device.
    pub(crate) fn uses_devices(&self) -> bool {
        self.uses_devices
    }

    /// Asks for another round.
    pub(crate) fn again(&mut self) {
        self.active = true;
    }

    /// Asks for a round at that time.
    pub(crate) fn try_at(&mut self, time: u64) {
        self.try_at = Some(self.try_at.map_or(time, |t| t.min(time)));
    }

    /// The link that leaves a node by an output.
    pub(crate) fn output_link(&self, element: usize, port: u32) -> Option<u32> {
        match &self.plan.parts[element] {
            Part::Node { first_output, .. } if port < self.port_counts(element).1 => {
                Some(first_output + port)
            }
            _ => None,
        }
    }

    /// Packets come in at the output of a node, from a device or from another graph.
    pub(crate) fn inject(&mut self, rt: &mut Runtime, link: u32, packets: impl IntoIterator<Item = Packet>) {
        self.active = true;
        let Some(&(element, port)) = self.plan.links.get(link as usize).and_then(|l| l.from.as_ref()) else {
            return;
        };
        for packet in packets {
            self.emit(rt, element, port, packet);
        }
    }

    /// As [`inject`](Router::inject), of a device; with `spread`, each packet goes on at the worker that it belongs to.
    pub(crate) fn come_in(
        &mut self,
        rt: &mut Runtime,
        link: u32,
        packets: impl IntoIterator<Item = Packet>,
        spread: bool,
    ) {
        if rt.workers() == 1 || !spread {
            return self.inject(rt, link, packets);
        }
        self.active = true;
        let Some(&(element, port)) = self.plan.links.get(link as usize).and_then(|l| l.from.as_ref()) else {
            return;
        };
        for mut packet in packets {
            let to = rt.worker_of(packet.bytes());
            self.sees_output(rt, element, port, &mut packet);
            self.hand_over(rt, to, link, packet);
        }
    }

    /// A packet goes on at another worker, or at this one.
    fn hand_over(&mut self, rt: &mut Runtime, to: usize, link: u32, packet: Packet) {
        let parcel = Parcel { graph: self.slot, generation: self.generation, link, packet };
        if let Err(parcel) = rt.hand_over(to, parcel) {
            self.out.put(link, parcel.packet);
        }
    }

    /// A packet comes from another worker.
    pub(crate) fn arrive(&mut self, link: u32, packet: Packet) {
        self.active = true;
        if (link as usize) < self.out.links.len() {
            self.out.put(link, packet);
        }
    }

    /// Whether a round would do anything now.
    pub(crate) fn wants_round(&self, now: u64) -> bool {
        self.active || self.asked() || self.wake.is_some_and(|t| t <= now)
    }

    /// When the graph wants its next round, if nothing comes in; 0: now.
    pub(crate) fn next_round(&self) -> Option<u64> {
        if self.active || self.asked() { Some(0) } else { self.wake }
    }

    /// Does what is to be done now, for a short while.
    pub(crate) fn round(&mut self, rt: &mut Runtime) {
        rt.env.running.clone_from(&self.name);
        self.active = false;
        self.deliver(rt);
        let mut wake: Option<u64> = None;
        self.time(rt);
        let blocked = rt.is_blocked();
        self.active |= blocked;
        let tasks = if blocked { 0 } else { self.tasks.len() };
        for i in 0..tasks {
            let ran = self.with_node(self.tasks[i], rt, false, |node, cx| node.run(cx)).unwrap_or(Ran::Idle);
            match ran {
                Ran::Idle => {}
                Ran::Busy => self.active = true,
                Ran::Until(t) => wake = Some(wake.map_or(t, |w| w.min(t))),
            }
            // What a task sends may be work for one that ran before it.
            self.active |= !self.out.ready.is_empty();
            self.deliver(rt);
        }
        self.serve(rt);
        self.decide_stop(rt);
        let timers = self.timers.iter().filter(|t| !t.stopped).map(|t| t.next).min();
        let shared = self.shared.as_ref().filter(|_| rt.worker() == 0).and_then(|s| s.next_expiry());
        let tables = self.tables.next_expiry();
        self.wake = [wake, self.try_at.take(), timers, tables, shared].into_iter().flatten().min();
    }

    /// Runs a node's code while it is out of its place.
    fn with_node<R>(
        &mut self,
        element: usize,
        rt: &mut Runtime,
        pushing: bool,
        f: impl FnOnce(&mut dyn EngineNode, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut node = self.nodes.get_mut(element)?.take()?;
        let r = f(&mut *node, &mut Cx::new(&mut Running { router: self, rt }, element, pushing));
        self.nodes[element] = Some(node);
        self.take_stop_asked(rt);
        Some(r)
    }

    fn time(&mut self, rt: &mut Runtime) {
        for i in 0..self.timers.len() {
            let t = &mut self.timers[i];
            if t.next > rt.env.now || t.stopped {
                continue;
            }
            // A timer that was late does not run several times to make up for it.
            t.next = (t.next + t.every).max(rt.env.now + 1);
            let (start, owner) = (t.start, t.owner);
            self.run(rt, start, &[], None, owner);
        }
        if rt.env.now >= self.next_expiry {
            let shared = self.shared.as_ref().and_then(|s| s.next_expiry()).is_some_and(|t| t <= rt.env.now);
            if shared && rt.worker() == 0 {
                self.with_shared(rt, Router::expire);
            } else {
                self.expire(rt);
            }
            self.next_expiry = rt.env.now + EXPIRY_PACE;
        }
        self.deliver(rt);
    }

    fn expire(&mut self, rt: &mut Runtime) {
        while let Some(due) = self.tables.next_due(rt.env.now) {
            let table = weir_ir::program::TableId(due.table);
            let kind = EntryKind::Expire { table };
            let owner = self.plan.linked.tables[due.table as usize].owner;
            if self.stopped.get(self.plan.owners[owner as usize]) == Some(&true) {
                // Its time is looked at again when the function goes on.
                self.postponed.push(due);
                continue;
            }
            if let Some(start) = self.start_of(|e| e.kind == kind) {
                self.run(rt, start, &[due.slot.into()], None, owner);
            }
            self.tables.finish_expiry(due, rt.env.now);
            self.drops.orphans[owner as usize] += self.tables.take_orphans().len() as u64;
        }
    }

    /// Runs `f` while the tables that workers share are among this router's.
    fn with_shared<R>(&mut self, rt: &mut Runtime, f: impl FnOnce(&mut Router, &mut Runtime) -> R) -> R {
        let Some(shared) = self.shared.clone().filter(|_| !self.held) else { return f(self, rt) };
        let first = rt.worker() == 0;
        shared.with(self, Router::places, first, |r| f(r, rt))
    }

    /// The places of the shared tables, into which these come, or from which they go.
    fn places(&mut self) -> &mut TableSet {
        self.held = !self.held;
        &mut self.tables
    }

    /// Whether what starts at a block of the linked program needs tables that are not here now.
    fn needs_shared(&self, start: BlockId) -> bool {
        !self.held && self.plan.division.locks.get(start.0 as usize).copied().unwrap_or(false)
    }

    fn start_of(&self, wanted: impl Fn(&weir_ir::program::Entry) -> bool) -> Option<BlockId> {
        self.plan.linked.entries.iter().find(|e| wanted(e)).map(|e| e.block)
    }

    /// Runs the program after all passes from now on.
    pub(crate) fn use_fast(&mut self, fast: Arc<Fast>) {
        self.drops.fast = vec![0; fast.program.blocks.len()];
        self.fast = Some(fast);
    }

    /// Runs programs from one entry to the end.
    fn run(&mut self, rt: &mut Runtime, start: BlockId, args: &[u128], packet: Option<Packet>, holder: u32) {
        if self.needs_shared(start) {
            return self.with_shared(rt, |r, rt| r.run(rt, start, args, packet, holder));
        }
        let now = rt.env.now;
        if rt.watch.active() {
            let Router { plan, tables, executor, out, drops, .. } = self;
            let host = FastHost { out, drops, plan, program: &plan.linked, rt, holder, fast: false };
            let mut host = WatchHost::new(host, packet.as_ref());
            executor.interpret(&plan.linked, tables, &mut host, Job { entry: start, args, packet, now });
            return host.finish();
        }
        let (fast, entry) = self.fastest(start);
        let Router { plan, tables, executor, out, drops, held, locked, .. } = self;
        let executor = if *held { locked } else { executor };
        let program = fast.as_ref().map_or(&*plan.linked, |f| &f.program);
        let fast = fast.is_some();
        let mut host = FastHost { out, drops, plan, program, rt, holder, fast };
        executor.run(fast, program, tables, &mut host, Job { entry, args, packet, now });
    }

    /// Runs programs on packets, one after the other, and leaves `packets` empty.
    fn run_batch(&mut self, rt: &mut Runtime, start: BlockId, packets: &mut Vec<Packet>) {
        if self.needs_shared(start) {
            return self.with_shared(rt, |r, rt| r.run_batch(rt, start, packets));
        }
        let holder = self.holder;
        if rt.watch.active() {
            return packets.drain(..).for_each(|p| self.run(rt, start, &[], Some(p), holder));
        }
        let (fast, entry) = self.fastest(start);
        let now = rt.env.now;
        let Router { plan, tables, executor, out, drops, held, locked, .. } = self;
        let executor = if *held { locked } else { executor };
        let program = fast.as_ref().map_or(&*plan.linked, |f| &f.program);
        let fast = fast.is_some();
        let mut host = FastHost { out, drops, plan, program, rt, holder, fast };
        executor.run_batch(fast, program, tables, &mut host, now, entry, packets);
    }

    /// The program to run for an entry of the linked one, if that is not the linked one, and its entry.
    fn fastest(&self, linked: BlockId) -> (Option<Arc<Fast>>, BlockId) {
        match self.fast.as_ref().and_then(|f| Some((f.clone(), f.start(linked)?))) {
            Some((fast, start)) => (Some(fast), start),
            None => (None, linked),
        }
    }

    /// Delivers the packets on all links, and those that come of them.
    fn deliver(&mut self, rt: &mut Runtime) {
        for _ in 0..DELIVERIES {
            let Some(link) = self.out.ready.pop_front() else { return };
            let mut packets = std::mem::take(&mut self.out.links[link as usize].packets);
            match self.plan.links[link as usize].dest {
                Dest::Program(start) => {
                    if self.plan.links[link as usize].back {
                        self.count_rounds(rt, start, &mut packets);
                    }
                    self.run_batch(rt, start, &mut packets);
                }
                Dest::Node { node, port } => {
                    if let Some(home) = self.elsewhere(rt, node) {
                        packets.drain(..).for_each(|p| self.hand_over(rt, home, link, p));
                    } else if rt.watch.active() {
                        let place = self.place(node);
                        packets.iter().for_each(|p| rt.watch.lock().input(&place, port, p, rt.env.now));
                    }
                    let there = self.with_node(node, rt, true, |n, cx| n.push(port, &mut packets, cx));
                    if there.is_some() && !packets.is_empty() {
                        self.out.put_back(link, &mut packets);
                    }
                }
                Dest::Nowhere => {
                    let element = self.plan.links[link as usize].from.map_or(0, |(e, _)| e);
                    packets.drain(..).for_each(|p| self.drop_at(rt, element, &Reason::UNCONNECTED, p));
                }
            }
            Packet::free(&mut packets);
            let flow = &mut self.out.links[link as usize];
            // The memory is used again, unless packets came round meanwhile.
            if flow.packets.capacity() == 0 {
                flow.packets = packets;
            }
        }
        self.active = true;
    }

    /// Drops packets that come by a place too often.
    fn count_rounds(&mut self, rt: &mut Runtime, start: BlockId, packets: &mut Vec<Packet>) {
        let element = self.plan.owners[self.plan.linked.block(start).owner as usize];
        for packet in packets.extract_if(.., |p| p.hops >= MAX_HOPS).collect::<Vec<_>>() {
            self.drop_at(rt, element, &Reason::LOOP_LIMIT, packet);
        }
        packets.iter_mut().for_each(|p| p.hops += 1);
    }

    /// A node pushes a packet out of an output.
    pub(crate) fn emit(&mut self, rt: &mut Runtime, element: usize, port: u32, mut packet: Packet) {
        let Some(link) = self.output_link(element, port) else {
            return self.drop_at(rt, element, &Reason::UNCONNECTED, packet);
        };
        self.sees_output(rt, element, port, &mut packet);
        self.out.put(link, packet);
    }

    /// Shows a packet that leaves a node to who watches.
    fn sees_output(&self, rt: &mut Runtime, element: usize, port: u32, packet: &mut Packet) {
        if rt.watch.active() {
            let place = self.place(element);
            if self.plan.parts[element].filter().is_some() {
                // Only what its filter lets pass leaves it.
                return rt.watch.lock().comes_in(&place, packet, rt.env.now);
            }
            let source = self.port_counts(element).0 == 0;
            rt.watch.lock().output(&place, port, packet, source, rt.env.now);
        }
    }

    /// The worker that a node is on, if it is not this one.
    fn elsewhere(&self, rt: &Runtime, node: usize) -> Option<usize> {
        match self.plan.division.homes.get(node) {
            Some(&Home::At(home)) if home != rt.worker() => Some(home),
            Some(Home::Every) if rt.worker() > 0 && self.nodes[node].is_none() => Some(0),
            _ => None,
        }
    }

    /// Runs compiled code from now on.
    pub(crate) fn use_code(&mut self, code: Arc<Compiled>) {
        if self.shared.is_some() {
            self.locked.compiled(code.clone());
        }
        self.executor.compiled(code);
    }

    /// A node pulls a packet from an input.
    pub(crate) fn pull_input(&mut self, rt: &mut Runtime, element: usize, port: u32) -> Option<Packet> {
        let Part::Node { first_input, .. } = &self.plan.parts[element] else { return None };
        let link = first_input + port;
        let packet = self.ask(rt, link)?;
        if rt.watch.active() {
            rt.watch.lock().input(&self.place(element), port, &packet, rt.env.now);
        }
        Some(packet)
    }

    fn ask(&mut self, rt: &mut Runtime, link: u32) -> Option<Packet> {
        for _ in 0..PULL_TRIES {
            if let Some(packet) = self.out.links.get_mut(link as usize)?.ahead.pop_front() {
                return Some(packet);
            }
            let mut asked = false;
            for i in 0..self.plan.pulls[link as usize].len() {
                let from = self.plan.pulls[link as usize][i];
                let packet = self.with_node(from.node, rt, false, |n, cx| n.pull(from.port, cx)).flatten();
                let Some(mut packet) = packet else { continue };
                asked = true;
                if rt.watch.active() {
                    let source = self.port_counts(from.node).0 == 0;
                    rt.watch.lock().output(
                        &self.place(from.node),
                        from.port,
                        &mut packet,
                        source,
                        rt.env.now,
                    );
                }
                let Some(start) = from.through else { return Some(packet) };
                let before = self.out.asker.replace(link);
                let holder = self.holder;
                self.run(rt, start, &[], Some(packet), holder);
                self.out.asker = before;
                if let Some(packet) = self.out.returned.take() {
                    return Some(packet);
                }
            }
            if !asked {
                return None;
            }
        }
        // There may be more behind what was dropped.
        self.active = true;
        None
    }

    /// A packet ends at a node.
    pub(crate) fn drop_at(&mut self, rt: &mut Runtime, element: usize, reason: &Reason, mut packet: Packet) {
        if packet.trace != 0 {
            rt.watch.lock().ended(&mut packet, &format!("dropped: {reason}"));
        }
        self.count_drops(element, reason, 1);
    }

    fn count_drops(&mut self, element: usize, reason: &Reason, packets: u64) {
        match self.node_drops.iter_mut().find(|(e, r, _)| *e == element && r == reason) {
            Some((_, _, n)) => *n += packets,
            None => self.node_drops.push((element, reason.clone(), packets)),
        }
    }

    /// Where something happens, for who watches.
    fn place(&self, element: usize) -> GraphElement {
        let decl = &self.plan.graph.elements[element];
        GraphElement { graph: self.name.clone(), element: decl.name.clone(), class: decl.class.clone() }
    }

    /// The reason of a block's drops.
    fn reason_of(end: &End) -> Option<&Reason> {
        match end {
            End::Drop { reason } => Some(reason),
            _ => None,
        }
    }
}

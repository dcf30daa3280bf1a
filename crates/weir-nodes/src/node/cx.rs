//! What a node may do while it runs, and who does it.

use weir_ir::Reason;
use weir_packet::Packet;

use super::{Behavior, EngineNode, Modes};
use crate::env::Env;
use crate::env::device::Sender;

/// The running graph of a node: whoever runs nodes implements it.
pub trait NodeHost {
    /// What is outside of the graph.
    fn env(&mut self) -> &mut Env;
    /// The time in nanoseconds.
    fn now(&self) -> u64;
    /// The number of the graph, as devices know it.
    fn graph(&self) -> usize;
    /// Number of elements.
    fn elements(&self) -> usize;
    /// The name of an element.
    fn name(&self, element: usize) -> &str;
    /// The class of an element.
    fn class(&self, element: usize) -> &str;
    /// Number of inputs and outputs of an element that are connected.
    fn ports(&self, element: usize) -> (u32, u32);
    /// Whether packets are pushed into an input.
    fn input_is_push(&self, element: usize, port: u32) -> bool;
    /// Whether packets are pushed out of an output.
    fn output_is_push(&self, element: usize, port: u32) -> bool;
    /// Another node; `None` while it runs.
    fn node(&self, element: usize) -> Option<&dyn EngineNode>;

    /// A node pushes a packet out of an output.
    fn emit(&mut self, element: usize, port: u32, packet: Packet);
    /// A node pulls a packet from an input.
    fn pull(&mut self, element: usize, port: u32) -> Option<Packet>;
    /// A packet ends at a node.
    fn drop(&mut self, element: usize, reason: &Reason, packet: Packet);
    /// A packet that is followed leaves the graph, by `path` (`sent to eth1`).
    fn leaves(&mut self, packet: &mut Packet, path: &str);
    /// A packet that is followed comes to rest at a node.
    fn waits(&mut self, element: usize, packet: &Packet);

    /// Asks for another round.
    fn again(&mut self);
    /// Asks for a round at that time (nanoseconds).
    fn try_at(&mut self, time: u64);
    /// Reports something to people.
    fn print(&mut self, text: String);
    /// Whether a configuration is to take the graph's place when the round is over.
    fn swap_waits(&self) -> bool;

    /// Calls a read handler as seen from an element: `handler` or `element.handler`, and a parameter.
    ///
    /// # Errors
    /// What went wrong, with the call around what a handler said.
    fn read_handler(&mut self, from: usize, call: (&str, &str)) -> Result<String, String>;
    /// Calls a write handler, likewise.
    ///
    /// # Errors
    /// As [`read_handler`](NodeHost::read_handler).
    fn write_handler(&mut self, from: usize, call: (&str, &str)) -> Result<(), String>;
    /// How a handler may be called, as seen from an element or from everywhere; `None`: there is none.
    ///
    /// # Errors
    /// If there is no such element.
    fn handler_modes(&self, from: Option<usize>, name: &str) -> Result<Option<Modes>, String>;
    /// The name of a handler as seen from everywhere.
    fn full_name(&self, from: usize, name: &str) -> String;
}

/// The context in which a node runs.
pub struct Cx<'a> {
    host: &'a mut dyn NodeHost,
    element: usize,
    /// Whether the node passes on what is being pushed into it.
    pushing: bool,
}

impl<'a> Cx<'a> {
    /// For the node of an element; `pushing` says that packets are pushed into it now.
    pub fn new(host: &'a mut dyn NodeHost, element: usize, pushing: bool) -> Cx<'a> {
        Cx { host, element, pushing }
    }
}

impl Cx<'_> {
    /// What is outside of the graph.
    pub fn env(&mut self) -> &mut Env {
        self.host.env()
    }

    /// The time in nanoseconds, constant within a batch.
    pub fn now(&self) -> u64 {
        self.host.now()
    }

    /// The node, as devices know who gives them packets.
    pub(crate) fn sender(&self) -> Sender {
        Sender { graph: self.host.graph(), element: self.element }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        self.host.name(self.element)
    }

    /// The node's class.
    pub fn class(&self) -> &str {
        self.host.class(self.element)
    }

    /// Reports something to people, as elements that print do.
    pub fn print(&mut self, text: String) {
        self.host.print(text);
    }

    /// Whether a configuration is to take the graph's place when the round is over.
    pub fn swap_waits(&self) -> bool {
        self.host.swap_waits()
    }

    /// Calls a read handler, as seen from this node: `handler` or `element.handler`, and a parameter. What goes wrong is
    /// added to `errors`.
    pub fn read_handler(&mut self, call: (&str, &str), errors: &mut Vec<String>) -> Option<String> {
        self.host.read_handler(self.element, call).map_err(|e| errors.push(e)).ok()
    }

    /// Calls a write handler, as [`read_handler`](Cx::read_handler) does. Returns whether it succeeded.
    pub fn write_handler(&mut self, call: (&str, &str), errors: &mut Vec<String>) -> bool {
        self.host.write_handler(self.element, call).map_err(|e| errors.push(e)).is_ok()
    }

    /// How a handler may be called, as seen from everywhere; `None`: there is none.
    ///
    /// # Errors
    /// If there is no such element.
    pub fn graph_handler_modes(&self, name: &str) -> Result<Option<Modes>, String> {
        self.host.handler_modes(None, name)
    }

    /// The name of a handler whose element is given by its number, from 1 on.
    pub fn numbered(&self, name: &str) -> String {
        let element = name.split_once('.').and_then(|(n, handler)| Some((n.parse::<usize>().ok()?, handler)));
        match element {
            Some((n, handler)) if (1..=self.host.elements()).contains(&n) => {
                format!("{}.{handler}", self.host.name(n - 1))
            }
            _ => name.to_owned(),
        }
    }

    /// How a handler may be called, as seen from this node; `None`: there is none.
    pub fn handler_modes(&self, name: &str) -> Option<Modes> {
        self.host.handler_modes(Some(self.element), name).ok()?
    }

    /// The full name of a handler, as seen from this node.
    pub fn handler_name(&self, name: &str) -> String {
        self.host.full_name(self.element, name)
    }

    /// Whether packets are pushed into an input (otherwise the node has to pull).
    pub fn input_is_push(&self, port: u32) -> bool {
        self.host.input_is_push(self.element, port)
    }

    /// Whether packets are pushed out of an output (otherwise they are pulled from the node).
    pub fn output_is_push(&self, port: u32) -> bool {
        self.host.output_is_push(self.element, port)
    }

    /// Number of inputs and outputs that are connected.
    pub fn ports(&self) -> (u32, u32) {
        self.host.ports(self.element)
    }

    /// Pushes a packet out of an output.
    pub fn emit(&mut self, port: u32, mut packet: Packet) {
        if self.pushing {
            // Cycles through nodes that pass packets on at once would never end.
            if packet.hops >= weir_ir::program::MAX_HOPS {
                return self.drop(&Reason::LOOP_LIMIT, packet);
            }
            packet.hops += 1;
        }
        self.host.emit(self.element, port, packet);
    }

    /// Pulls a packet from an input.
    pub fn pull(&mut self, port: u32) -> Option<Packet> {
        self.host.pull(self.element, port)
    }

    /// Another round is to follow: what was done here may be work for others.
    pub fn again(&mut self) {
        self.host.again();
    }

    /// Who pulls here in vain shall try again at this time (nanoseconds).
    pub fn try_at(&mut self, time: u64) {
        self.host.try_at(time);
    }

    /// Number of packets in an element that stores them.
    pub fn length_of(&self, element: usize) -> usize {
        self.host.node(element).and_then(Behavior::length).unwrap_or(0)
    }

    /// How many more packets there is space for in one of these queues; no limit without queues.
    pub fn space_in(&self, queues: &[usize]) -> usize {
        queues.iter().filter_map(|&q| self.host.node(q)?.space()).max().unwrap_or(usize::MAX)
    }

    /// How many more packets there is space for in each of these elements; no limit where none stores packets.
    pub fn least_room_in(&self, storages: &[usize]) -> usize {
        let free = |&e: &usize| self.host.node(e)?.free();
        storages.iter().filter_map(free).min().unwrap_or(usize::MAX)
    }

    /// Reports that what the node reads cannot be read on. `weir run` ends with the status 1 then.
    pub fn fail(&mut self, what: String) {
        self.print(format!("{}: {what}", self.name()));
        let env = self.env();
        let graph = env.running.clone();
        env.notice(Some(&graph), "input-failed", what);
    }

    /// Ends a packet.
    pub fn drop(&mut self, reason: &Reason, packet: Packet) {
        self.host.drop(self.element, reason, packet);
    }

    /// A packet goes out of the graph here, by `path` (`sent to eth1`).
    pub fn leaves(&mut self, packet: &mut Packet, path: &str) {
        if packet.trace != 0 {
            self.host.leaves(packet, path);
        }
    }

    /// A packet comes to rest here.
    pub fn waits(&mut self, packet: &Packet) {
        if packet.trace != 0 {
            self.host.waits(self.element, packet);
        }
    }
}

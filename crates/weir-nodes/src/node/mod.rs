//! Engine nodes: what is not a packet program (queues, schedulers, sources, sinks, devices).

use std::any::Any;
use std::sync::Arc;

use weir_elements::Args;
use weir_ir::{ClassInfo, Program, Reason};
use weir_packet::Packet;

#[macro_use]
mod declare;
mod control;
mod cx;
mod neighbours;

use crate::env::Env;
use crate::env::links::{Entrance, Links};

pub use control::{Control, Modes};
pub use cx::{Cx, NodeHost};
pub use neighbours::Neighbours;

/// A model of what an engine node does to packets, for whoever reads the graph without running it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A packet that came in leaves by output 0 unchanged, at once or later, or is dropped; without an output it ends.
    Delay,
    /// A packet of any input leaves by output 0, unchanged.
    Choose,
    /// Any packet may leave, at any time.
    Source,
    /// Packets end here: they leave the graph.
    Sink,
}

/// The resources that a node can get at beside the packets and handlers of its own graph. Whoever runs graphs of others refuses them
/// all that is more than [`Reach::Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nothing else.
    Graph,
    /// Links, by which other graphs send and receive.
    Links,
    /// Network devices of the machine.
    Devices,
    /// Files, also by its handlers.
    Files,
    /// Sockets.
    Sockets,
    /// What the graphs of a process share: its clock, its random numbers, and its time, of which sources without a pace take all.
    Process,
}

impl Reach {
    /// What is reached, for messages.
    pub fn what(self) -> &'static str {
        match self {
            Reach::Graph => "its graph",
            Reach::Links => "links of other graphs",
            Reach::Devices => "network devices",
            Reach::Files => "files",
            Reach::Sockets => "sockets",
            Reach::Process => "what all graphs of the data plane share",
        }
    }
}

/// The result of a run of a node's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// There is nothing to do until a packet comes in.
    Idle,
    /// There is more to do.
    Busy,
    /// There is nothing to do before this time (nanoseconds on the engine's clock), unless a packet comes in.
    Until(u64),
}

/// The trait that the `engine_node!` macro implements.
pub trait EngineNode: Behavior {
    /// Answers a read handler of [`ClassInfo::handlers`].
    fn read(&self, handler: &str, env: &Env) -> Result<String, String>;
    /// Carries out a write handler of [`ClassInfo::handlers`].
    fn write(&mut self, handler: &str, value: &str, env: &mut Env) -> Result<(), String>;
    /// For [`Behavior::adopt`].
    fn as_any(&mut self) -> &mut dyn Any;
}

/// The behaviour of a node, which its file writes by hand.
pub trait Behavior: Send {
    /// Looks round in the graph, before anything else.
    fn place(&mut self, _here: &Neighbours<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Acquires what the node needs from outside (devices, files), before any packet flows. Nothing is changed if it
    /// fails.
    fn open(&mut self, _env: &mut Env) -> Result<(), String> {
        Ok(())
    }

    /// Takes packets that were pushed into an input, in order. Those that it leaves come again once what it sent has
    /// been delivered.
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        packets.drain(..).for_each(|p| cx.drop(&Reason::DISCARDED, p));
    }

    /// Gives a packet to whom it is asked from on an output.
    fn pull(&mut self, _port: u32, _cx: &mut Cx<'_>) -> Option<Packet> {
        None
    }

    /// Whether [`run`](Behavior::run) does anything.
    fn has_task(&self) -> bool {
        false
    }

    /// Works by itself for a short while.
    fn run(&mut self, _cx: &mut Cx<'_>) -> Ran {
        Ran::Idle
    }

    /// Takes over what its predecessor had: a node of the same name and class in the graph before a hot swap.
    fn adopt(&mut self, _old: &mut dyn EngineNode) {}

    /// Packets that wait here, oldest first, for a snapshot; they are put back by
    /// [`restore`](Behavior::restore). `None`: the node keeps none.
    fn waiting(&mut self) -> Option<Vec<Packet>> {
        None
    }

    /// Replaces the packets that wait here.
    fn restore(&mut self, _packets: Vec<Packet>) {}

    /// The part that calls handlers of other elements; its handlers are asked first.
    fn control(&self) -> Option<Arc<dyn Control>> {
        None
    }

    /// Number of packets that wait here, if the node stores packets.
    fn length(&self) -> Option<usize> {
        None
    }

    /// How many more packets there is space for, if the node lets sources know.
    fn space(&self) -> Option<usize> {
        None
    }

    /// How many more packets there is space for, if the node stores packets.
    fn free(&self) -> Option<usize> {
        None
    }

    /// Whether there may be a packet on an output that is pulled, or that the node pushes out by itself; `asks` says
    /// that of an input. `None`: if there is one on any input.
    fn gives(&self, _port: u32, _asks: &dyn Fn(u32) -> bool) -> Option<bool> {
        None
    }

    /// The queues that stop the node while they are full.
    fn fills(&self) -> &[usize] {
        &[]
    }

    /// Workers that are to run elements, by the names that these have where the node is; a later line counts more.
    fn threads(&self) -> Vec<(String, u32)> {
        Vec::new()
    }

    /// The arguments as they are, once a handler has changed them.
    fn config(&self) -> Option<String> {
        None
    }

    /// The device whose packets leave by output 0.
    fn reads_device(&self) -> Option<usize> {
        None
    }

    /// The program, called `name`, that all packets pass before they leave by output 0, the only one; it has one input and
    /// one output, and no tables. A node that has one has no inputs.
    fn filter(&self, _name: &str) -> Option<Program> {
        None
    }

    /// Whether this reads no more of the packets that come in than a device does: their bytes, their time, and the state
    /// of checksum and segmentation; and keeps none of them.
    fn is_plain(&self) -> bool {
        false
    }

    /// The device that packets are sent to.
    fn writes_device(&self) -> Option<usize> {
        None
    }

    /// Two devices: all that comes from the first goes to the second, and may go past this process.
    fn joins_devices(&self) -> Option<(usize, usize)> {
        None
    }

    /// So many packets that were given to the device have ended there; they are counted by their reasons already.
    fn lost(&mut self, _packets: u64) {}

    /// The link of its own whose packets leave by output 0.
    fn reads_link(&self) -> Option<usize> {
        None
    }

    /// Lets packets of its links enter the graph: at output 0, which is `entrance`.
    fn join_links(&mut self, _entrance: Entrance, _links: &mut Links) {}

    /// Takes no more packets of links.
    fn leave_links(&mut self, _links: &mut Links) {}

    /// Most bytes that the packets which wait in it, and what it remembers of others, can take if so many inputs are connected.
    fn memory(&self, _inputs: usize) -> u64 {
        0
    }

    /// Whether every worker has one, rather than one worker for all. No packets may wait in it, and what it counts is
    /// added up.
    fn on_every_worker(&self) -> bool {
        false
    }

    /// The function that stands still as long as this is so, by its name among the elements.
    fn stops(&self) -> Option<&str> {
        None
    }

    /// Stops the function that it can stop while it runs, or lets it go on. Whether it is so now.
    fn stop(&mut self, _stopped: bool) -> bool {
        false
    }

    /// The bytes of the packets that it generates, if they are always the same.
    fn generates(&self) -> Option<Vec<u8>> {
        None
    }
}

/// Makes a node from its arguments, or says what is wrong with them.
pub type Configure = fn(&[String]) -> Result<Box<dyn EngineNode>, Vec<String>>;

/// A class of engine nodes.
#[derive(Debug, Clone, Copy)]
pub struct NodeClass {
    /// The manual page.
    pub info: &'static ClassInfo,
    /// What its nodes do to packets.
    pub model: Model,
    /// What they can get at.
    pub reach: Reach,
    /// Makes a node.
    pub configure: Configure,
}

/// The facts of a configured node before it runs: all that a plan of its graph needs.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// [`Behavior::generates`]
    pub generates: Option<Vec<u8>>,
    /// [`Behavior::is_plain`]
    pub plain: bool,
    /// [`Behavior::has_task`]
    pub task: bool,
    /// Whether it calls handlers of other elements ([`Behavior::control`]).
    pub calls: bool,
    /// [`Behavior::on_every_worker`]
    pub every_worker: bool,
    /// Whether it stores packets ([`Behavior::length`]).
    pub stores: bool,
    /// Whether sources stop while it is full ([`Behavior::space`]).
    pub stops_sources: bool,
    /// [`Behavior::threads`]
    pub threads: Vec<(String, u32)>,
    /// [`Behavior::memory`]
    pub memory: u64,
    /// [`Behavior::stops`]
    pub stops: Option<String>,
}

impl NodeFacts {
    /// Of a node with so many inputs connected.
    pub fn of(node: &dyn EngineNode, inputs: usize) -> NodeFacts {
        NodeFacts {
            generates: node.generates(),
            plain: node.is_plain(),
            task: node.has_task(),
            calls: node.control().is_some(),
            every_worker: node.on_every_worker(),
            stores: node.length().is_some(),
            stops_sources: node.space().is_some(),
            threads: node.threads(),
            memory: node.memory(inputs),
            stops: node.stops().map(str::to_owned),
        }
    }
}

/// Configures a node from its arguments; called by what the macro generates.
pub(crate) fn configure<T>(
    args: &[String],
    info: &'static ClassInfo,
    take: impl FnOnce(&mut Args) -> Option<T>,
) -> Result<T, Vec<String>> {
    let mut args = Args::new(args, info);
    let node = take(&mut args);
    let errors = args.finish();
    match node {
        Some(node) if errors.is_empty() => Ok(node),
        _ => Err(errors),
    }
}

//! Engine nodes: what is not a packet program (queues, schedulers, sources, sinks, devices).

use std::any::Any;
use std::sync::Arc;

use weir_elements::Args;
use weir_ir::{ClassInfo, Program, Reason};
use weir_packet::Packet;

use crate::control::{Control, Modes};
use crate::device::Sender;
use crate::env::Env;
use crate::links::{Entrance, Links};
use crate::neighbours::Neighbours;
use crate::router::Router;

/// What an engine node does to packets, for who reads the graph without running it.
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

/// What a node can get at beside the packets and handlers of its own graph. Whoever runs graphs of others refuses them
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

/// What a run of a node's task led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// There is nothing to do until a packet comes in.
    Idle,
    /// There is more to do.
    Busy,
    /// There is nothing to do before this time (nanoseconds on the engine's clock), unless a packet comes in.
    Until(u64),
}

/// What the `engine_node!` macro makes of a declaration.
pub trait EngineNode: Behavior {
    /// The manual page.
    fn info(&self) -> &'static ClassInfo;
    /// What it does to packets.
    fn model(&self) -> Model;
    /// Answers a read handler of [`ClassInfo::handlers`].
    fn read(&self, handler: &str, env: &Env) -> Result<String, String>;
    /// Carries out a write handler of [`ClassInfo::handlers`].
    fn write(&mut self, handler: &str, value: &str, env: &mut Env) -> Result<(), String>;
    /// For [`Behavior::adopt`].
    fn as_any(&mut self) -> &mut dyn Any;
}

/// What a node's file writes by hand.
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

    /// How many more packets there is room for, if the node lets sources know.
    fn room(&self) -> Option<usize> {
        None
    }

    /// How many more packets there is room for, if the node stores packets.
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

    /// Which worker is to run an element, if the node says that. No node is in its place yet.
    fn thread_of(&self, _element: usize, _here: &Neighbours<'_>) -> Option<u32> {
        None
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

    /// The bytes of the packets that it generates, if they are always the same.
    fn generates(&self) -> Option<Vec<u8>> {
        None
    }
}

/// Makes a node from its arguments, or says what is wrong with them.
pub(crate) type Configure = fn(&[String]) -> Result<Box<dyn EngineNode>, Vec<String>>;

/// A class of engine nodes.
#[derive(Debug, Clone, Copy)]
pub struct NodeClass {
    /// The manual page.
    pub info: &'static ClassInfo,
    /// What its nodes do to packets.
    pub model: Model,
    /// What they can get at.
    pub reach: Reach,
    pub(crate) configure: Configure,
}

/// What a node may do while it runs.
pub struct Cx<'a> {
    pub(crate) router: &'a mut Router,
    /// What is outside of the graph.
    pub env: &'a mut Env,
    pub(crate) element: usize,
    /// Whether the node passes on what is being pushed into it.
    pub(crate) pushing: bool,
}

impl Cx<'_> {
    /// The time in nanoseconds, constant within a batch.
    pub fn now(&self) -> u64 {
        self.env.now
    }

    /// The node, as devices know who gives them packets.
    pub(crate) fn sender(&self) -> Sender {
        Sender { graph: self.router.slot, element: self.element }
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        self.router.element_name(self.element)
    }

    /// The node's class.
    pub fn class(&self) -> &str {
        self.router.class_name(self.element)
    }

    /// Tells people something, as elements that print do.
    pub fn print(&mut self, text: String) {
        self.router.print(self.env, text);
    }

    /// Asks for the end of the run.
    pub fn ask_stop(&mut self) {
        self.router.ask_stop();
    }

    /// Calls a read handler, as seen from this node: `handler` or `element.handler`, and a parameter. What goes wrong is
    /// added to `errors`.
    pub fn read_handler(&mut self, call: (&str, &str), errors: &mut Vec<String>) -> Option<String> {
        let value = self.router.call_read(self.env, Some(self.element), call);
        value.map_err(|e| errors.push(e.in_context())).ok()
    }

    /// Calls a write handler, as [`read_handler`](Cx::read_handler) does. Returns whether it succeeded.
    pub fn write_handler(&mut self, call: (&str, &str), errors: &mut Vec<String>) -> bool {
        let done = self.router.call_write(self.env, Some(self.element), call);
        done.map_err(|e| errors.push(e.in_context())).is_ok()
    }

    /// How a handler may be called, if it is there.
    ///
    /// # Errors
    /// If there is no such element.
    pub fn find_handler(&self, name: &str) -> Result<Option<Modes>, String> {
        Ok(self.router.modes(&self.router.find_handler(None, name)?))
    }

    /// The name of a handler whose element is given by its number, from 1 on.
    pub fn numbered(&self, name: &str) -> String {
        let element = name.split_once('.').and_then(|(n, handler)| Some((n.parse::<usize>().ok()?, handler)));
        match element {
            Some((n, handler)) if (1..=self.router.elements()).contains(&n) => {
                format!("{}.{handler}", self.router.element_name(n - 1))
            }
            _ => name.to_owned(),
        }
    }

    /// How a handler may be called.
    pub fn handler_modes(&self, name: &str) -> Option<Modes> {
        self.router.modes_of(Some(self.element), name)
    }

    /// The full name of a handler, as seen from this node.
    pub fn handler_name(&self, name: &str) -> String {
        self.router.full_name(Some(self.element), name)
    }

    /// Whether packets are pushed into an input (otherwise the node has to pull).
    pub fn input_is_push(&self, port: u32) -> bool {
        self.router.input_is_push(self.element, port)
    }

    /// Whether packets are pushed out of an output (otherwise they are pulled from the node).
    pub fn output_is_push(&self, port: u32) -> bool {
        self.router.output_is_push(self.element, port)
    }

    /// Number of inputs and outputs that are connected.
    pub fn ports(&self) -> (u32, u32) {
        self.router.port_counts(self.element)
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
        self.router.emit(self.env, self.element, port, packet);
    }

    /// Pulls a packet from an input.
    pub fn pull(&mut self, port: u32) -> Option<Packet> {
        self.router.pull_input(self.env, self.element, port)
    }

    /// Another round is to follow: what was done here may be work for others.
    pub fn again(&mut self) {
        self.router.again();
    }

    /// Who pulls here in vain shall try again at this time (nanoseconds).
    pub fn try_at(&mut self, time: u64) {
        self.router.try_at(time);
    }

    /// Number of packets in an element that stores them.
    pub fn length_of(&self, element: usize) -> usize {
        self.router.node(element).and_then(Behavior::length).unwrap_or(0)
    }

    /// How many more packets there is room for in one of these queues; no limit without queues.
    pub fn room_in(&self, queues: &[usize]) -> usize {
        self.router.room_in(queues)
    }

    /// How many more packets there is room for in each of these elements; no limit where none stores packets.
    pub fn least_room_in(&self, storages: &[usize]) -> usize {
        let free = |&e: &usize| self.router.node(e)?.free();
        storages.iter().filter_map(free).min().unwrap_or(usize::MAX)
    }

    /// Tells that what the node reads cannot be read on. `weir run` ends with the status 1 then.
    pub fn fail(&mut self, what: String) {
        self.print(format!("{}: {what}", self.name()));
        let graph = self.env.running.clone();
        self.env.notice(Some(&graph), "input-failed", what);
    }

    /// Ends a packet.
    pub fn drop(&mut self, reason: &Reason, packet: Packet) {
        self.router.drop_at(self.env, self.element, reason, packet);
    }

    /// A packet goes out of the graph here, by `way` (`sent to eth1`).
    pub fn leaves(&mut self, packet: &mut Packet, way: &str) {
        if packet.trace != 0 {
            self.env.watch.lock().ended(packet, way);
        }
    }

    /// A packet comes to rest here.
    pub fn waits(&mut self, packet: &Packet) {
        if packet.trace != 0 {
            let way = format!("waits in {}", self.name());
            self.env.watch.lock().waits(packet, &way);
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

/// Declares a class of engine nodes: manual page, ports, model, reach, parameters and handlers, as `element!` does for
/// packet programs. `state` names the type of what a node has at run time, which starts as its default and is the
/// field `state`; a `read` handler is a function of the node and the environment, `write` gets the value as well;
/// `each` and `set_each` have a number behind the name, which the function gets (`tickets0`, `tickets1`).
/// The file adds `impl Behavior for Name`.
macro_rules! engine_node {
    (
        $(#[doc = $doc:expr])*
        $name:ident: $ports:literal, $processing:literal, $model:ident, $reach:ident;
        $(example $example:expr;)*
        $(params {
            $( $(#[doc = $pdoc:expr])* $kind:ident $field:ident: $ty:ty $(= $default:expr)?, )*
        })?
        $(check $check:expr;)?
        $(handlers {
            $( $(#[doc = $hdoc:expr])* $hkind:ident $hname:ident = $hfn:expr, )*
        })?
        $(state $state:ty;)?
    ) => {
        $(#[doc = $doc])*
        #[allow(dead_code, reason = "some parameters are only accepted, for configurations written for Click")]
        #[allow(clippy::upper_case_acronyms, reason = "the names of classes are Click's")]
        pub(crate) struct $name {
            $($( $(#[doc = $pdoc])* pub $field: $ty, )*)?
            $(state: $state,)?
        }

        static INFO: weir_ir::ClassInfo = weir_ir::ClassInfo {
            name: stringify!($name),
            doc: concat!($($doc, "\n"),*),
            ports: $ports,
            processing: $processing,
            flow: "x/x",
            params: &[$($(weir_ir::ParamInfo {
                name: stringify!($field),
                kind: engine_node!(@kind $kind),
                default: engine_node!(@default $($default)?),
                syntax: <$ty as weir_elements::FromRest>::SYNTAX,
                doc: concat!($($pdoc),*),
            },)*)?],
            handlers: &[$($(weir_ir::HandlerInfo {
                name: engine_node!(@hname $hkind $hname),
                read: engine_node!(@reads $hkind),
                write: !engine_node!(@reads $hkind),
                doc: concat!($($hdoc),*),
            },)*)?],
            examples: &[$($example),*],
        };

        pub(super) const CLASS: $crate::node::NodeClass = $crate::node::NodeClass {
            info: &INFO,
            model: $crate::node::Model::$model,
            reach: $crate::node::Reach::$reach,
            configure: |args| {
                #[allow(unused_variables, reason = "a node may have no parameters")]
                let node = $crate::node::configure(args, &INFO, |args| {
                    $($( let $field = args.take::<$ty>(
                        stringify!($field), engine_node!(@kind $kind), engine_node!(@value $($default)?),
                    ); )*)?
                    let node = $name {
                        $($( $field: $field?, )*)?
                        $( state: <$state>::default(), )?
                    };
                    $(let f: fn(&$name) -> Result<(), String> = $check;
                    args.check(f(&node))?;)?
                    Some(node)
                })?;
                Ok(Box::new(node))
            },
        };

        #[allow(unused_variables, reason = "a node may have no handlers")]
        impl $crate::node::EngineNode for $name {
            fn info(&self) -> &'static weir_ir::ClassInfo {
                &INFO
            }

            fn model(&self) -> $crate::node::Model {
                $crate::node::Model::$model
            }

            fn read(&self, handler: &str, env: &$crate::env::Env) -> Result<String, String> {
                $($( engine_node!(@read self, handler, env, $hkind $hname = $hfn); )*)?
                Err(format!("no read handler '{handler}'"))
            }

            fn write(&mut self, handler: &str, value: &str, env: &mut $crate::env::Env) -> Result<(), String> {
                $($( engine_node!(@write self, handler, value, env, $hkind $hname = $hfn); )*)?
                Err(format!("no write handler '{handler}'"))
            }

            fn as_any(&mut self) -> &mut dyn std::any::Any {
                self
            }
        }
    };

    (@kind pos) => { weir_ir::ParamKind::Positional };
    (@kind key) => { weir_ir::ParamKind::Keyword };
    (@kind rest) => { weir_ir::ParamKind::Rest };
    (@hname each $name:ident) => { concat!(stringify!($name), "N") };
    (@hname set_each $name:ident) => { concat!(stringify!($name), "N") };
    (@hname $hkind:ident $name:ident) => { stringify!($name) };
    (@default $default:expr) => { Some(stringify!($default)) };
    (@default) => { None };
    (@value $default:expr) => { Some($default) };
    (@value) => { None };
    (@reads read) => { true };
    (@reads each) => { true };
    (@reads write) => { false };
    (@reads set_each) => { false };
    (@read $node:ident, $h:ident, $env:ident, read $name:ident = $f:expr) => {
        if $h == stringify!($name) {
            let f: fn(&Self, &$crate::env::Env) -> Result<String, String> = $f;
            return f($node, $env);
        }
    };
    (@read $node:ident, $h:ident, $env:ident, each $name:ident = $f:expr) => {
        if let Some(i) = weir_elements::private::numbered($h, stringify!($name)) {
            let f: fn(&Self, u32) -> Result<String, String> = $f;
            return f($node, i);
        }
    };
    (@read $node:ident, $h:ident, $env:ident, $other:ident $name:ident = $f:expr) => {};
    (@write $node:ident, $h:ident, $v:ident, $env:ident, write $name:ident = $f:expr) => {
        if $h == stringify!($name) {
            let f: fn(&mut Self, &str, &mut $crate::env::Env) -> Result<(), String> = $f;
            return f($node, $v, $env);
        }
    };
    (@write $node:ident, $h:ident, $v:ident, $env:ident, set_each $name:ident = $f:expr) => {
        if let Some(i) = weir_elements::private::numbered($h, stringify!($name)) {
            let f: fn(&mut Self, u32, &str) -> Result<(), String> = $f;
            return f($node, i, $v);
        }
    };
    (@write $node:ident, $h:ident, $v:ident, $env:ident, $other:ident $name:ident = $f:expr) => {};
}

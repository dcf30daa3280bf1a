//! What the control side and the data-plane process say to each other.
//!
//! One JSON value a line, over a Unix socket. Each [`Request`] gets one [`Reply`] with its `id`; a trace, a capture
//! and a subscription go on with [`Reply::Event`] lines of the same `id` until [`Command::Cancel`], their end
//! ([`Event::End`]), or the end of the connection.

#![forbid(unsafe_code)]

mod client;
mod spawn;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use client::{Client, ClientError, Events};
pub use spawn::{CONTROL, SpawnReply, SpawnRequest};

/// Version of this protocol: both sides must have the same.
pub const VERSION: u32 = 2;
/// Longest line in bytes.
pub const MAX_LINE: usize = 64 << 20;

/// Most bytes of the state of a function.
pub const MAX_STATE: usize = 40 << 20;

/// The folder of the sockets at which a data plane meets functions in other processes; `socket` is its control socket.
pub fn ports_folder(socket: &Path) -> PathBuf {
    socket.with_extension("ports")
}

/// A command with the number that its reply bears.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the sender.
    pub id: u64,
    /// What to do.
    #[serde(flatten)]
    pub command: Command,
}

/// A command of the control side.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Command {
    /// Who is there? Answer: [`Answer::Hello`].
    Hello,
    /// Loads a graph, or swaps a running one for this. Tables of elements of the same name and class are kept, so
    /// are devices and queues; if anything is wrong with the new graph the old one goes on untouched.
    Load {
        /// Name of the graph.
        graph: String,
        /// Configuration in the Click language.
        config: String,
        /// Name of the file that errors speak of.
        file: String,
        /// Remembered and given back by [`Answer::Graphs`]: lets the control side recognise what it loaded.
        #[serde(default)]
        tag: String,
        /// If given, what names of links in the graph begin with: `FromLink(a)` is the link `SCOPE/a`, so that the graph
        /// reaches no other's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<String>,
        /// If given, most bytes that its tables and the packets that wait in it may take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory: Option<u64>,
    },
    /// Stops and forgets a graph.
    Unload {
        /// Name of the graph.
        graph: String,
    },
    /// What runs? Answer: [`Answer::Graphs`].
    List,
    /// Figures of one graph. Answer: [`Answer::Status`].
    Status {
        /// Name of the graph.
        graph: String,
    },
    /// Counts of all graphs at once. Answer: [`Answer::Figures`].
    Figures,
    /// Reads a handler (`element.handler`, or a global one). Answer: [`Answer::Text`].
    Read {
        /// Name of the graph.
        graph: String,
        /// The handler.
        handler: String,
    },
    /// Writes a handler.
    Write {
        /// Name of the graph.
        graph: String,
        /// The handler.
        handler: String,
        /// What to write.
        value: String,
    },
    /// The state of a graph as plain data. Answer: [`Answer::Snapshot`].
    Snapshot {
        /// Name of the graph.
        graph: String,
    },
    /// Replaces state by that of a snapshot, for elements of the same name and class.
    Restore {
        /// Name of the graph.
        graph: String,
        /// From [`Answer::Snapshot`].
        snapshot: serde_json::Value,
    },
    /// The state of a function, by which it goes on in another graph. Answer: [`Answer::Text`], at most [`MAX_STATE`] bytes and a line.
    Export {
        /// Name of the graph.
        graph: String,
        /// What names of the function's elements begin with.
        function: String,
    },
    /// Gives a function the state of one of the same elements. If it is damaged, or does not fit, nothing is changed.
    Import {
        /// Name of the graph.
        graph: String,
        /// What names of the function's elements begin with.
        function: String,
        /// From [`Command::Export`].
        state: String,
    },
    /// A round of the state of a function that is to go on in another graph: all that is in its tables, or what changed there since the round before.
    /// Answer: [`Answer::Text`].
    ExportRound {
        /// Name of the graph.
        graph: String,
        /// What names of the function's elements begin with.
        function: String,
        /// Whether it is the first round, of all that there is.
        first: bool,
        /// Whether it is the last one, in which packets and timers go as well; the function is to be stopped.
        last: bool,
    },
    /// Does to a function that is stopped what a round says. If it fails, the function may have a part of it.
    ImportRound {
        /// Name of the graph.
        graph: String,
        /// What names of the function's elements begin with.
        function: String,
        /// From [`Command::ExportRound`].
        round: String,
        /// Said if the function may have other elements than the one that the round is of: which tables of that one, as `ELEMENT.TABLE`, may end.
        /// All others need one of the same element, name and fields.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leave: Option<Vec<String>>,
    },
    /// Gives all graphs, with their state and the ports of devices, to a data plane that was started to take this one's place and listens at a socket.
    /// Then this one ends. If it fails, all goes on here, and the other has ended. Answer: [`Answer::HandedOver`].
    HandOver {
        /// The socket of the other one.
        socket: String,
    },
    /// Has a data plane that was started to take the place of another go on with the ports of that.
    Begin {
        /// The process that has them.
        pid: u32,
        /// The ports.
        ports: Vec<HandedPort>,
    },
    /// Writes handlers, stops functions or lets them go on, and reads handlers, in this order. When they are read, what was sent before the writes and
    /// stops has left the graph. Answer: [`Answer::Texts`].
    Exchange {
        /// Name of the graph.
        graph: String,
        /// Handlers, and what to write.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        writes: Vec<(String, String)>,
        /// What names of a function's elements begin with, and whether it is stopped from now on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        holds: Vec<(String, bool)>,
        /// Handlers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reads: Vec<String>,
    },
    /// Follows the next packets that match. Events: [`Event::Trace`].
    Trace {
        /// Name of the graph.
        graph: String,
        /// In the filter language; empty: every packet.
        #[serde(default)]
        filter: String,
        /// How many packets.
        count: u32,
        /// Where the graph meets functions that it does not run itself: packets are followed through them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        functions: Vec<FunctionPort>,
    },
    /// Copies packets that pass some places, in the order in which they pass. Events: [`Event::Packet`].
    Capture {
        /// Name of the graph.
        graph: String,
        /// Where: an element (what enters it), `element[port]` (what leaves that output), `[port]element` (what enters
        /// that input); empty: every device.
        points: Vec<String>,
        /// In the filter language; empty: every packet.
        #[serde(default)]
        filter: String,
        /// Most bytes of each packet.
        snaplen: u32,
        /// How many packets, of all places together; 0: no limit.
        #[serde(default)]
        count: u64,
    },
    /// Reports what happens from now on. Events: [`Event::Notice`].
    Subscribe,
    /// Ends a trace, capture or subscription.
    Cancel {
        /// The id of the request that started it.
        request: u64,
    },
    /// Ends the process, after what is in progress.
    Shutdown,
}

/// A reply of the data plane.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It was done.
    Done {
        /// The request's id.
        id: u64,
        /// The answer.
        answer: Answer,
    },
    /// It could not be done, and nothing was changed.
    Failed {
        /// The request's id.
        id: u64,
        /// What was wrong: one entry an error, each a text for people.
        errors: Vec<String>,
    },
    /// An event of a trace, capture or subscription.
    Event {
        /// The request's id.
        id: u64,
        /// The event.
        event: Event,
    },
}

/// The result of a command.
#[allow(clippy::large_enum_variant, reason = "an answer is made, written down and gone")]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Answer {
    /// Nothing to say.
    Nothing,
    /// The data plane introduces itself.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Process id.
        pid: u32,
        /// When it started, seconds since the epoch.
        started: u64,
    },
    /// All graphs.
    Graphs {
        /// In the order of their names.
        graphs: Vec<GraphInfo>,
    },
    /// Figures of a graph.
    Status {
        /// The figures.
        status: GraphStatus,
    },
    /// Counts of all graphs.
    Figures {
        /// In the order of their names.
        graphs: Vec<GraphFigures>,
    },
    /// Text of a handler.
    Text {
        /// The text.
        text: String,
    },
    /// Texts of several handlers.
    Texts {
        /// In the order in which they were asked for.
        texts: Vec<String>,
    },
    /// Another data plane has taken this one's place.
    HandedOver {
        /// Bytes of state.
        bytes: u64,
        /// Microseconds for which packets waited.
        pause_micros: u64,
    },
    /// State as plain data.
    Snapshot {
        /// For [`Command::Restore`].
        snapshot: serde_json::Value,
    },
}

/// A port of a device that goes from one data plane to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedPort {
    /// The worker that has it.
    pub worker: usize,
    /// The device.
    pub device: String,
    /// Its descriptors.
    pub fds: Vec<i32>,
    /// Of a port with a receive ring: its number of frames, their size, and the one that comes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<[usize; 3]>,
    /// Whether it receives a part of what arrives.
    #[serde(default)]
    pub shared: bool,
    /// How packets pass between it and the kernel, for people.
    pub method: String,
}

/// A graph that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphInfo {
    /// Its name.
    pub name: String,
    /// What [`Command::Load`] gave.
    pub tag: String,
    /// Number of elements.
    pub elements: usize,
    /// How often it was swapped since it was loaded.
    pub swaps: u64,
    /// What runs it: `interpreter` or `compiled`.
    pub engine: String,
    /// What is wrong with interfaces that it uses; empty: nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trouble: String,
}

/// Figures of a graph. Counts are since the graph was loaded and survive swaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphStatus {
    /// The graph.
    pub info: GraphInfo,
    /// Devices that it uses.
    pub devices: Vec<DeviceStatus>,
    /// Why packets ended: element, then reason, then how many.
    pub drops: BTreeMap<String, BTreeMap<String, u64>>,
    /// Elements: name and class, in the order of the configuration.
    pub elements: Vec<(String, String)>,
    /// Number of entries in each table that is not a cell: `element.table`.
    pub tables: BTreeMap<String, u32>,
    /// Where the time of compiled programs went since the last load or swap: the elements that packets passed while a
    /// batch in some hundreds was measured, in the order of the program. Empty if nothing was measured. Elements that
    /// move packets rather than having a program (devices, queues, sources) are not in it.
    #[serde(default)]
    pub profile: Vec<ElementProfile>,
    /// The lookups whose results compiled code may keep for each flow.
    #[serde(default)]
    pub flows: Vec<FlowCache>,
}

/// Counts of a graph, since it was loaded; they survive swaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphFigures {
    /// The graph.
    pub name: String,
    /// What runs it: `interpreter` or `compiled`.
    pub engine: String,
    /// Devices that it uses.
    pub devices: Vec<DeviceStatus>,
    /// Why packets ended: element, then reason, then how many.
    pub drops: BTreeMap<String, BTreeMap<String, u64>>,
    /// Packets and bytes that passed elements of the class `Counter`.
    pub counters: BTreeMap<String, (u64, u64)>,
    /// Tables that are not cells.
    pub tables: Vec<TableFigures>,
    /// As in [`GraphStatus`].
    pub profile: Vec<ElementProfile>,
}

/// How full a table is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFigures {
    /// `element.table`, or the name that several elements share it by.
    pub name: String,
    /// Its element.
    pub element: String,
    /// Entries that it has.
    pub entries: u32,
    /// Entries that it can have.
    pub capacity: u32,
    /// Bytes of memory that it takes.
    pub bytes: u64,
}

/// How well results of lookups are kept for flows, since the last load or swap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCache {
    /// The table that is looked up in: `element.table`.
    pub table: String,
    /// Entries of the cache; 0 while it would not pay.
    pub entries: usize,
    /// Lookups that were spared.
    pub hits: u64,
    /// Lookups whose result was kept.
    pub misses: u64,
}

/// The time that an element took of the batches that were measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementProfile {
    /// The element.
    pub element: String,
    /// Packets (and runs without one) that came in while it was measured.
    pub packets: u64,
    /// Cycles of the time stamp counter (x86-64; elsewhere nanoseconds) that these took.
    pub cycles: u64,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Interface name.
    pub name: String,
    /// `up`, or what is wrong with it.
    pub state: String,
    /// How packets pass between it and the kernel, and why so.
    #[serde(default)]
    pub method: String,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets that the kernel's ring lost.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_dropped: u64,
    /// Traffic of its peer that does not pass here, if there was any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectStatus>,
}

/// Traffic between the peers of two devices that goes past the data plane, as these peers count it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectStatus {
    /// The device to whose peer everything goes directly now that this one's peer sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Packets that its peer sent directly.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that its peer received directly.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Microseconds from the beginning until packets went directly, the last time.
    pub micros: u64,
}

/// An event of a trace, capture or subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Event {
    /// The path of one packet.
    Trace {
        /// Where it entered.
        from: String,
        /// The packet as it came, in hex.
        bytes: String,
        /// The packet in words.
        summary: String,
        /// Its path.
        steps: Vec<TraceStep>,
    },
    /// A captured packet.
    Packet {
        /// Nanoseconds since the epoch.
        time: u64,
        /// Length on the wire.
        length: u32,
        /// Its bytes (at most the snap length), in hex.
        bytes: String,
        /// Where it passed: one of the places asked for, as it was written, or the element of a device.
        point: String,
    },
    /// Something happened: a graph came or went, a device went down, an element printed.
    Notice {
        /// The graph, if one is concerned.
        graph: Option<String>,
        /// What: `loaded`, `swapped`, `unloaded`, `device-down`, `device-up`, `print` (an element printed a line),
        /// `state-lost` (a swap could not carry all state over), `interpreted` (the graph could not be compiled),
        /// `failed` (the graph was stopped after an internal error), `input-failed` (an element cannot read its file on).
        what: String,
        /// More, for people.
        text: String,
    },
    /// No more events follow.
    End,
}

/// A device at which a graph meets a function that it does not run itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionPort {
    /// The element of the device, which packets go to the function by, or come from it.
    pub element: String,
    /// The function.
    pub function: String,
    /// What the port is called in steps.
    pub port: String,
    /// What runs the function: the class of its steps.
    pub kind: String,
}

/// One element on the path of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStep {
    /// Which of the packets that came of the first one: 0 is itself, copies and answers count up.
    pub packet: u32,
    /// The graph that the element is in: links lead from one to the next.
    #[serde(default)]
    pub graph: String,
    /// The element.
    pub element: String,
    /// Its class.
    pub class: String,
    /// The input by which the packet came.
    pub port: u32,
    /// What the element changed: `ip ttl 64 -> 63`, `stripped 14 bytes`, `paint 0 -> 2` …
    pub changes: Vec<String>,
    /// How its path ended here: `dropped: TtlExpired`, `sent to eth1`, `waits in q` …; nothing if it went on.
    pub end: Option<String>,
    /// Of a step in a function that the graph does not run itself: the packet as it went in, in hex.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bytes: String,
}

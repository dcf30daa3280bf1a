//! What an exploration gives.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use weir_ir::program::{BlockId, Reason};

use crate::explore::route::Route;
use crate::model::expr::{At, Expr, Exprs};
use crate::model::facts::Facts;
use crate::model::packet::SymbolicPacket;
use crate::network::NodeId;
use crate::solve::eval::{ConcretePacket, ConcreteRun, Evaluator};

/// The reason for which an exploration does not show all that may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Incomplete {
    /// More paths than [`Limits::paths`].
    Paths,
    /// A path through more blocks than [`Limits::steps`].
    Steps,
    /// A packet goes round cycles of the graph more often than [`Limits::hops`].
    Hops,
    /// More packets wait on a path than [`Limits::strands`].
    Strands,
    /// A position that has to be known may have more values than [`Limits::values`].
    Values,
    /// An entry may hold more packets from before than [`Limits::held`].
    Held,
    /// The entry that expires next is asked for after the run changed tables.
    Soonest,
    /// An entry is used after it was removed and another was made in its table.
    RemovedEntry,
    /// The program does to a table of this kind what is modelled for exact tables only.
    TableKind,
    /// Packets that came before may leave more in tables than was tried.
    Histories,
    /// A packet comes to a node of which it is not known what it does.
    Opaque(NodeId),
    /// It would be shown by a packet that passes a node of which it is known only in part what it does.
    Guess(NodeId),
    /// A packet waits with an entry, and it was not found out what becomes of it when it is let go.
    Waiting,
    /// The time that there was for it ([`Limits::time`]) is over.
    Time,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Incomplete::Paths => "there are more paths than the limit",
            Incomplete::Steps => "a path has more blocks than the limit",
            Incomplete::Hops => "a packet goes round cycles of the graph more often than the limit",
            Incomplete::Strands => "more packets wait on a path than the limit",
            Incomplete::Values => "a position in a packet may have more values than the limit",
            Incomplete::Held => "an entry may hold more packets than the limit",
            Incomplete::Soonest => "the entry that expires next is asked for after tables were changed",
            Incomplete::RemovedEntry => {
                "an entry is used after it was removed and another was made in its table"
            }
            Incomplete::Waiting => "a packet waits, and may not arrive when it goes on",
            Incomplete::Time => "the time that there was for it is over",
            Incomplete::Opaque(_) => "a packet comes to a function of which it is not known what it does",
            Incomplete::Guess(_) => {
                "a packet comes to a function of which it is known only in part what it does"
            }
            Incomplete::Histories => "packets that came before may leave more in tables than was tried",
            Incomplete::TableKind => "a table that is not exact is linked, expires, or is edited and shrinks",
        })
    }
}

impl Incomplete {
    /// The node of which too little is known.
    pub fn node(self) -> Option<NodeId> {
        match self {
            Incomplete::Opaque(node) | Incomplete::Guess(node) => Some(node),
            _ => None,
        }
    }
}

/// The limits of an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most paths.
    pub paths: usize,
    /// Most blocks on a path.
    pub steps: usize,
    /// Most rounds of a packet through cycles of the graph.
    pub hops: u32,
    /// Most packets that wait for their turn on a path.
    pub strands: usize,
    /// Most values of a position that are each given a path.
    pub values: usize,
    /// Most packets, held by an entry from before the run, that are followed.
    pub held: u32,
    /// Most time for a check, from when its checker is made. What it does before that is over does not depend on it.
    pub time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { paths: 4096, steps: 2048, hops: 4, strands: 64, values: 128, held: 2, time: None }
    }
}

impl Limits {
    /// For networks of elements, whose paths are long.
    pub fn of_networks() -> Limits {
        Limits { steps: 1 << 20, ..Limits::default() }
    }
}

/// The end of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// It left on this output, or by this exit.
    Exit(u32),
    /// It left the network at a node that packets end at.
    Sunk,
    /// What the node does to it is not known.
    Opaque,
    /// It came back to a place as it had been there before, but for its time to live.
    Loop,
    /// It was dropped at the end of this block.
    Drop(BlockId, Reason),
    /// It stays with an entry.
    Held,
    /// The entry that held it was removed.
    Orphaned,
}

/// The end of a packet.
#[derive(Debug, Clone)]
pub struct PacketEnd {
    /// At which node.
    pub node: NodeId,
    /// How.
    pub how: How,
    /// The packet then.
    pub packet: SymbolicPacket,
    /// Where it came by.
    pub route: Route,
}

/// A notification of the program to its host.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Number of the event.
    pub event: u32,
    /// Arguments.
    pub args: Vec<Expr>,
    /// The packet, if it was shown.
    pub packet: Option<SymbolicPacket>,
}

/// The end of a table entry that a path touched.
#[derive(Debug, Clone)]
pub struct EntryEnd {
    /// Number of the table.
    pub table: u32,
    /// How to find it now: its key (exact tables and arrays), or its row.
    pub at: At,
    /// Values of its value fields; `None` if it is gone.
    pub fields: Option<Vec<Expr>>,
    /// The packets of this run that it holds.
    pub held: Vec<SymbolicPacket>,
}

/// One path through a program.
#[derive(Debug, Clone)]
pub struct Path {
    /// Where it starts.
    pub entry: BlockId,
    /// The expressions that it refers to.
    pub exprs: Rc<Exprs>,
    /// What holds on it.
    pub facts: Facts,
    /// Ends of all its packets, in order.
    pub ends: Vec<PacketEnd>,
    /// Its notifications to its host, in order.
    pub notices: Vec<Notice>,
    /// The table entries that it found, made or removed.
    pub entries: Vec<EntryEnd>,
}

/// The paths of a program.
#[derive(Debug)]
pub struct Exploration {
    /// All paths through the program, if it is complete.
    pub paths: Vec<Path>,
    /// Why it may not be complete.
    pub incomplete: Option<Incomplete>,
}

/// The course of a concrete run that a path predicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    /// Ends of all packets.
    pub ends: Vec<(How, ConcretePacket)>,
    /// Notifications to the host.
    pub notices: Vec<(u32, Vec<u128>, Option<ConcretePacket>)>,
    /// Touched entries.
    pub entries: Vec<ConcreteEntry>,
}

/// A touched entry after the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcreteEntry {
    /// Number of the table.
    pub table: u32,
    /// How to find it.
    pub at: ConcreteAt,
    /// Its value fields; `None` if it is gone.
    pub fields: Option<Vec<u128>>,
    /// The last packets that it holds.
    pub held: Vec<ConcretePacket>,
}

/// The key or row of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConcreteAt {
    /// By this key.
    Key(Vec<u128>),
    /// By the row of the first content with that number.
    Row(u32),
}

impl Path {
    /// What the path says about a run, if the run takes this path.
    pub fn covers(&self, run: &ConcreteRun<'_>) -> Option<Prediction> {
        self.predict(&mut Evaluator::of_run(&self.exprs, run))
    }

    /// As [`covers`](Path::covers), with an evaluator that other paths of the exploration have used for the same run.
    pub fn predict(&self, eval: &mut Evaluator<'_>) -> Option<Prediction> {
        self.facts.conditions().iter().all(|&c| eval.eval(c) != 0).then(|| Prediction {
            ends: self.ends.iter().map(|e| (e.how.clone(), eval.packet(&e.packet))).collect(),
            notices: self
                .notices
                .iter()
                .map(|n| {
                    let args = n.args.iter().map(|&a| eval.eval(a)).collect();
                    (n.event, args, n.packet.as_ref().map(|p| eval.packet(p)))
                })
                .collect(),
            entries: self
                .entries
                .iter()
                .map(|e| ConcreteEntry {
                    table: e.table,
                    at: match &e.at {
                        At::Key(k) => ConcreteAt::Key(k.iter().map(|&k| eval.eval(k)).collect()),
                        At::Row(r) => ConcreteAt::Row(*r),
                    },
                    fields: e.fields.as_ref().map(|f| f.iter().map(|&v| eval.eval(v)).collect()),
                    held: e.held.iter().map(|p| eval.packet(p)).collect(),
                })
                .collect(),
        })
    }
}

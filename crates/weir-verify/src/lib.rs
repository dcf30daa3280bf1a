//! Symbolic execution of packet-IR programs.
//!
//! [`explore`] walks all ways through a program, of one element or of a linked graph. Each way is a [`Path`]: the
//! conditions on what the run starts from (packet, tables, time, random numbers), and the packets and table entries
//! at its end as expressions over the same. Unless [`Exploration::incomplete`] says otherwise, each run of the
//! interpreter takes one of the paths and ends as the path says ([`testing`] holds this against the interpreter);
//! a path need not be one that some run takes ([`solve`] looks for such a run).

#![forbid(unsafe_code)]

mod behind;
mod build;
pub mod checks;
mod clock;
mod course;
mod cover;
mod cycles;
mod defaults;
mod ends;
mod entries;
mod eval;
mod explore;
mod expr;
mod facts;
mod fates;
mod here;
mod idle;
mod input;
mod joints;
mod lasting;
mod list;
mod merge;
mod network;
mod ops;
mod packet;
mod path;
mod ranges;
mod released;
mod replay;
mod session;
mod set;
mod simplify;
mod single;
mod smt;
mod solve;
mod state;
mod stock;
mod story;
mod sums;
mod supposed;
mod tables;
mod terms;
#[doc(hidden)]
pub mod testing;
mod trail;
mod trial;
mod wires;

pub use eval::{ConcretePacket, ConcreteRun, Evaluator, HeldPackets};
pub use expr::{At, Claim, EntryAt, Expr, Exprs, Mem, MemId, Node, Source, SourceId, Symbol};
pub use facts::Facts;
pub use input::{Known, SymbolicInput};
pub use network::{Body, Network, Node as NetworkNode, NodeId, Place};
pub use packet::{Mark, SymbolicPacket};
pub use path::{
    ConcreteAt, ConcreteEntry, EntryEnd, Exploration, How, Incomplete, Limits, Notice, PacketEnd, Path,
    Prediction,
};
pub use replay::{Hop, Left, Replay, replay};
pub use session::{Arrival, Entry, Guard, Outcome, Session};
pub use set::Set;
pub use single::{explore, follow};
pub use solve::{ConcreteInput, solve};
pub use stock::{Numbers, Stock};
pub use story::Story;
pub use trail::Trail;

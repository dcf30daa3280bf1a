//! Symbolic execution of packet-IR programs.
//!
//! [`explore`] walks all paths through a program, of one element or of a linked graph. Each is a [`Path`]: the
//! conditions on what the run starts from (packet, tables, time, random numbers), and the packets and table entries
//! at its end as expressions over the same. Unless [`Exploration::incomplete`] says otherwise, each run of the
//! interpreter takes one of the paths and ends as the path says ([`testing`] holds this against the interpreter);
//! a path need not be one that some run takes ([`solve`] looks for such a run).

//!
//! Folders are phases: `model` is what is known (expressions, facts, packets), `network` what is explored, `explore` goes all
//! paths through it, `solve` finds runs that go as a path says and replays them, `checks` asks what people require.

#![forbid(unsafe_code)]

pub mod checks;
mod explore;
mod model;
mod network;
mod solve;
#[doc(hidden)]
pub mod testing;

pub use explore::input::{Known, SymbolicInput};
pub use explore::path::{
    ConcreteAt, ConcreteEntry, EntryEnd, Exploration, How, Incomplete, Limits, Notice, PacketEnd, Path,
    Prediction,
};
pub use explore::route::Route;
pub use explore::session::{Arrival, Entry, Guard, Outcome, Session};
pub use explore::single::{explore, follow};
pub use explore::trace::Trace;
pub use model::expr::{At, Claim, EntryAt, Expr, Exprs, Mem, MemId, Node, Source, SourceId, Symbol};
pub use model::facts::Facts;
pub use model::packet::{Mark, SymbolicPacket};
pub use model::set::Set;
pub use network::{Body, Network, Node as NetworkNode, NodeId, NodePort};
pub use solve::eval::{ConcretePacket, ConcreteRun, Evaluator, HeldPackets};
pub use solve::lazy_tables::{LazyTables, Numbers};
pub use solve::replay::{Hop, Left, Replay, replay};
pub use solve::{ConcreteInput, solve};

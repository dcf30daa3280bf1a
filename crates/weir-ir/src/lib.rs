//! The packet IR: types, builder, text form, checker, linker, passes and interpreter.
//!
//! An element is written once, as a program in this IR; the interpreter, the compiler and the verifier read it.

#![forbid(unsafe_code)]

mod builder;
mod check;
mod element;
mod facts;
mod flow;
mod frame;
pub mod interp;
mod link;
mod outcome;
mod passes;
pub mod program;
mod ranges;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
mod visit;

pub use builder::{Arg, Builder, E, Loop, V};
pub use check::{CheckError, check, known_if_checked};
pub use element::{ClassInfo, Element, HandlerInfo, ParamInfo, ParamKind, Peer, Peers, State, program_of};
pub use facts::{Facts, Known, facts};
pub use frame::Frame;
pub use interp::{Host, Interpreter};
pub use link::{LinkError, Wire, link};
pub use outcome::{Outcome, outcomes};
pub use passes::{PASSES, Pass, optimize, retain_entries, stages};
pub use program::{Layer, MetaField, Program, Reason, TableDecl, Width};
pub use text::{TextError, parse};

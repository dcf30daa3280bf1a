//! The packet IR: types, builder, text form, checker, linker, passes and interpreter.
//!
//! An element is written once, as a program in this IR; the interpreter, the compiler and the verifier read it.

#![forbid(unsafe_code)]

mod builder;
pub mod program;
mod visit;

pub use builder::{Arg, Builder, E, Loop, V};
pub use program::{Layer, MetaField, Program, Reason, TableDecl, Width};

//! Compiles packet IR programs to machine code (Cranelift).
//!
//! [`Compiled`] means exactly what [`weir_ir::Interpreter`] does with the same program, but for
//! [`Host::step`](weir_ir::Host::step), which it never calls: who wants to see each block, interprets.
//!
//! A program becomes one native function, which takes a batch of packets from a block where runs may start (an entry,
//! or the target of a fork or release) to their ends. What the checker proved is not checked again, so only checked
//! programs are compiled. Tables are read and written in place; what is infrequent or long (new entries, collisions,
//! growing packets, other packets) calls back into Rust.

mod abi;
mod analysis;
pub mod differential;
mod flows;
mod machine;
mod run;
mod translate;

use cranelift_module::ModuleError;
use weir_ir::CheckError;

pub use abi::profile::Spent;
pub use flows::{FlowCache, Flows};
pub use machine::disassemble;
pub use machine::listing::{Instruction, listing};
pub use run::ended::{BatchHost, Ended, Fate};
pub use run::{Compiled, Runner};
pub use translate::notes::Origin;

/// A program that could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum JitError {
    /// It breaks a rule of the packet IR.
    #[error("only checked programs are compiled: {} ({} rules broken)", .0.first().map_or(String::new(), ToString::to_string), .0.len())]
    Unchecked(Vec<CheckError>),
    /// There is no compiler for this machine.
    #[error("no machine code for this computer: {what}")]
    Machine {
        /// What is missing.
        what: String,
    },
    /// The compiler failed, for instance because the program is too large.
    #[error("the program of '{elements}' cannot be compiled")]
    Compile {
        /// Names of the program's elements.
        elements: String,
        /// Why.
        source: Box<ModuleError>,
    },
}

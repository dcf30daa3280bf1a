//! Functions in processes of their own.
//!
//! A worker is a data plane that runs one function: what [`weir_engine`] is for a graph, in a process that may do nothing but
//! forward packets between the shared memories of its ports (memif). [`zygote`] makes them as copies of itself, which is faster than
//! to start a program, and puts each into a [`sandbox`] before it reads the first byte of what the function is.

#![forbid(unsafe_code)]

mod calls;
mod sandbox;
mod zygote;

pub use calls::ALLOWED;
pub use zygote::zygote;

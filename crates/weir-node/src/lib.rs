#![forbid(unsafe_code)]
pub mod connection;
pub mod desired;
pub mod engine;
pub mod events;
mod guard;
pub mod images;
pub mod node;
mod perform;
pub mod plan;
pub mod reconcile;
pub mod status;
pub mod store;
#[cfg(test)]
mod testing;

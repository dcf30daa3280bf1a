#![forbid(unsafe_code)]
pub mod desired;
pub mod events;
mod guard;
pub mod images;
pub mod reconcile;
pub mod store;
#[cfg(test)]
mod testing;

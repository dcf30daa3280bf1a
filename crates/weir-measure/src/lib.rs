//! The MEASURE language (COMPOSER paper section 5.8): what of a graph is measured, zones of the measurements, and what is said when a zone
//! is entered or left.
//!
//! ```
//! use weir_measure::Monitoring;
//! let monitoring = Monitoring::parse(r#"
//!     measurements { m1 = rate.rx(sap = lan, every = "100 ms"); }
//!     zones {
//!         calm = (AVG(val = m1, max_age = "1 second") < 5000000);
//!         busy = (AVG(val = m1, max_age = "1 second") > 8000000) for "500 ms";
//!     }
//!     actions { calm->busy = Publish(topic = "alarms", message = "lan is busy"); }
//! "#).unwrap();
//! assert_eq!(monitoring.zones().len(), 2);
//! ```
//!
//! - [`Monitoring`]: a text that is well formed; [`Parts`] makes one from values, for other notations
//! - [`Watch`]: what the zones are, from samples and the time; no clock and no I/O
//! - [`risk`]: the probability that a rate exceeds a capacity (Ramon)
#![forbid(unsafe_code)]

mod error;
mod expr;
mod lex;
mod metric;
mod parse;
mod parts;
pub mod risk;
mod show;
mod units;
mod watch;
mod window;

pub use error::{Mistake, Mistakes};
pub use expr::{Aggregate, Expr, Function, Operator};
pub use metric::{Direction, Metric, Of};
pub use parts::{Action, Measurement, Monitoring, Parts, Trigger, Zone};
pub use watch::{Alarm, State, Watch};

/// Longest text, in bytes.
pub const MAX_TEXT: usize = 256 << 10;
/// Most measurements of a graph.
pub const MAX_MEASUREMENTS: usize = 256;
/// Most zones of a graph.
pub const MAX_ZONES: usize = 1_000;
/// Most actions of a graph.
pub const MAX_ACTIONS: usize = 2_000;
/// Most aggregates, operators and numbers in a zone's condition.
pub const MAX_NODES: usize = 64;
/// Most aggregates of a graph that differ in their measurement or age: each keeps its samples.
pub const MAX_WINDOWS: usize = 1_000;
/// Longest name, topic or message, in bytes.
pub const MAX_WORD: usize = 1_024;
/// The shortest and the longest time between two samples, in milliseconds.
pub const EVERY: (u64, u64) = (10, 3_600_000);
/// The shortest for processor time and memory, which are asked of all functions at once, in milliseconds.
pub const EVERY_FIGURES: u64 = 1_000;
/// The shortest for a risk, which is made of the rates between two samples, in milliseconds.
pub const EVERY_RISK: u64 = 50;
/// The time between two samples, where nothing is said, in milliseconds.
pub const DEFAULT_EVERY: u64 = 1_000;
/// The longest age of samples in an aggregate, and the longest time that a zone can ask for, in milliseconds.
pub const MAX_AGE: u64 = 86_400_000;
/// How long a condition must hold, or not, before its zone is entered, or left, where nothing is said, in milliseconds.
pub const DEFAULT_HOLD: u64 = 1_000;
/// How often an action of being in a zone is taken again, in milliseconds.
pub const REPEAT: u64 = 60_000;

#[cfg(test)]
mod tests;

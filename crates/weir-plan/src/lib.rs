//! What a Click configuration becomes before anything of it runs.
//!
//! A [`Plan`] is data: the flat graph, its configured elements and their programs, joined; what is known of its engine
//! nodes; where links lead; and how workers divide all that. The engine runs plans, the verifier and `weir ir` read them,
//! and a node checks by them what tenants ask for. None of these needs the others.

#![forbid(unsafe_code)]

mod classes;
mod divide;
mod fast;
mod memory;
mod names;
mod offload;
mod plan;
mod problem;
mod sharing;

pub use classes::{AnyClass, COMMON, Classes, TASK, is_called};
pub use divide::{Division, Home};
pub use fast::Fast;
pub use memory::size;
pub use names::Defined;
pub use offload::Offload;
pub use plan::{Dest, LinkPlan, Part, Plan, Port, PullFrom};
pub use problem::{Places, PlanError, Problem};
pub use sharing::Share;
/// What a class of engine nodes says of them.
pub use weir_nodes::node::{Model, Modes, NodeClass, NodeFacts, Reach};

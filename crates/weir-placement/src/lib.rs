//! Services onto nodes: which server runs which module, where traffic leaves, and over which links it goes (CHANGE deliverable
//! D4.5, chapter 3). Online: demands come and leave one by one, nodes fail, and what runs is not touched.
//!
//! ```
//! use weir_placement::{Algorithm, Demand, Domain, End, Flow, Kind, Module, Network, Placer, Region, Server, Sink, Spec, Vertex};
//!
//! let mut network = Network::new();
//! let access = network.add(Vertex::Access);
//! let switch = network.add(Vertex::Switch);
//! network.cable(access, switch, 10_000_000, 1);
//! for _ in 0..2 {
//!     let server = Server { cpu: 8_000, memory: 2_048, internal: 10_000_000, region: Region(0), kinds: 1 };
//!     let server = network.add(Vertex::Server(server));
//!     network.cable(switch, server, 1_000_000, 1);
//! }
//! let mut domain = Domain::new(network)?;
//! let mut placer = Placer::new(Algorithm::default(), 1);
//! let demand = Demand::new(Spec {
//!     modules: vec![Module { cpu: 2_000, memory: 512, kind: Some(Kind(0)), ..Module::default() }],
//!     sources: vec![access],
//!     sinks: vec![Sink::Any],
//!     flows: vec![
//!         Flow { from: End::Source(0), to: End::Module(0), bandwidth: 50_000 },
//!         Flow { from: End::Module(0), to: End::Sink(0), bandwidth: 50_000 },
//!     ],
//!     max_delay: Some(4),
//!     migrate: false,
//! })?;
//! let placed = placer.place(&mut domain, &demand)?;
//! assert_eq!((placed.delay, placed.sinks[0]), (4, access));
//! domain.release(placed.service)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No I/O, no clock, no threads; random numbers come from the placer's seed. `docs/placement.md` has the problem, the algorithms and
//! the results; [`experiment`] is the paper's experiment as data.

#![forbid(unsafe_code)]

mod candidate;
mod demand;
mod domain;
pub mod experiment;
mod fit;
mod network;
mod paper;
mod placer;
mod price;
mod rack;
mod random;
mod refusal;
mod routes;
mod span;
mod waste;

pub use demand::{Demand, DemandError, End, Flow, MAX_FLOWS, MAX_MODULES, Module, Sink, Spec};
pub use domain::{Domain, DomainError, Placement, ServiceId};
pub use network::{
    Kind, Link, LinkId, MAX_BANDWIDTH, MAX_DELAY, MAX_RESOURCE, Network, NetworkError, Region, Server,
    Vertex, VertexId,
};
pub use placer::{Algorithm, Initial, Moved, Placer};
pub use refusal::{Explanation, Reason, Refusal, Verdicts};

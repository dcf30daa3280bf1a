//! What the graphs of an engine share: what is outside of them, who watches, and the other workers.

use std::io;
use std::sync::Arc;

use weir_net::FlowKey;
use weir_nodes::env::Env;
use weir_plan::{Classes, Plan, PlanError};

use super::others::Lender;
use crate::exchange::{Exchange, Parcel};
use crate::watch::SharedWatch;

/// The state that the graphs of an engine share.
pub(crate) struct Runtime {
    /// What is outside of them, as their nodes see it.
    pub env: Env,
    /// Whether the run is to end.
    pub stop: bool,
    /// Traces and captures.
    pub watch: SharedWatch,
    /// The classes that configurations may use.
    pub classes: Arc<Classes>,
    /// How the handler `hotconfig` reads a configuration; none: it is not there.
    pub reader: Option<Box<Reader>>,
    /// A configuration that takes a graph's place when the round is over.
    pub swap: Option<(String, Plan)>,
    /// The path to the other workers, if there are any.
    pub exchange: Option<Exchange>,
    /// On the first of several workers: the others.
    pub others: Option<Arc<dyn Lender>>,
}

/// Makes a plan of a configuration that is put in a running one's place.
pub type Reader = dyn Fn(&Classes, &str) -> Result<Plan, PlanError> + Send;

impl Runtime {
    pub fn new(classes: Arc<Classes>) -> io::Result<Runtime> {
        Ok(Runtime {
            env: Env::new()?,
            stop: false,
            watch: SharedWatch::default(),
            classes,
            reader: None,
            swap: None,
            exchange: None,
            others: None,
        })
    }

    /// Makes this that of another worker than the first, whose is `first`.
    pub fn join(&mut self, first: &Runtime) {
        self.watch = first.watch.clone();
        self.env.join(&first.env);
    }

    /// Number of this worker.
    pub fn worker(&self) -> usize {
        self.exchange.as_ref().map_or(0, Exchange::me)
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.exchange.as_ref().map_or(1, Exchange::workers)
    }

    /// The worker that a frame from a device belongs to: the same for both directions of a flow.
    pub fn worker_of(&self, frame: &[u8]) -> usize {
        let seed = self.env.hash_seed as u32;
        let hash = FlowKey::of_frame(frame).map_or(0, |key| key.symmetric_hash(seed));
        hash as usize % self.workers()
    }

    /// Hands a packet to another worker; gives it back if it is for this one.
    pub fn hand_over(&mut self, to: usize, parcel: Parcel) -> Result<(), Parcel> {
        match &mut self.exchange {
            Some(exchange) => exchange.send(to, parcel),
            None => Err(parcel),
        }
    }

    /// Whether nothing is to be taken in, since another worker does not keep up.
    pub fn is_blocked(&self) -> bool {
        self.exchange.as_ref().is_some_and(Exchange::is_blocked)
    }
}

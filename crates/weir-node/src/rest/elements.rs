//! Where the elements of a function are: in the data plane of its graph, or in one of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use weir_api::problem::Problem;
use weir_protocol::{Answer, Command};
use weir_switch::function::under_way;

use super::function;
use crate::compute::{Compute, Drivers, OWN_GRAPH};
use crate::connection::{CallError, DataPlane};
use crate::instance::{InstanceId, Kind};
use crate::node::Entry;

/// How long packets are waited for that are under way, and how long nothing has to change to take the rest for lost.
const UNDER_WAY: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(60);
/// How long it is looked again at once. Most packets have come by then.
const SOON: Duration = Duration::from_millis(3);
/// How often it is looked afterwards.
const LOOK: Duration = Duration::from_millis(1);

/// A graph in a data plane.
pub(super) struct Place<'p, P> {
    plane: &'p P,
    /// Its name there.
    pub graph: String,
    /// The function that has this data plane, if it is not that of all graphs.
    own: Option<(Arc<dyn Compute>, InstanceId)>,
}

/// A function whose state can be had.
pub(super) struct Elements<'p, P> {
    /// Where it is.
    pub place: Place<'p, P>,
    /// What names of its elements begin with.
    pub element: String,
    /// How many ports it has that its graph uses.
    pub ports: usize,
}

impl<'p, P: DataPlane> Place<'p, P> {
    /// The graph itself.
    pub fn of_graph(plane: &'p P, graph: &str) -> Place<'p, P> {
        Place { plane, graph: graph.to_owned(), own: None }
    }

    /// Has its data plane carry out a command.
    pub async fn call(&self, command: Command) -> Result<Answer, CallError> {
        match &self.own {
            None => self.plane.call(command).await,
            Some((driver, id)) => driver.call(id, command).await,
        }
    }

    /// What handlers say that are numbers, after writes and stops.
    pub async fn exchange(
        &self,
        writes: Vec<(String, String)>,
        holds: Vec<(String, bool)>,
        reads: Vec<String>,
    ) -> Result<Vec<u64>, Problem> {
        if writes.is_empty() && holds.is_empty() && reads.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = reads.len();
        let command = Command::Exchange { graph: self.graph.clone(), writes, holds, reads };
        let texts = match self.call(command).await? {
            Answer::Texts { texts } if texts.len() == wanted => texts,
            _ => return Err(Problem::internal()),
        };
        texts.iter().map(|t| t.trim().parse().map_err(|_| Problem::internal())).collect()
    }

    /// Waits until `left` makes nothing of what these handlers say, in their order, but not if that does not change any more; gives what it makes of it.
    pub async fn wait(
        &self,
        reads: &[String],
        left: impl Fn(Vec<u64>) -> Vec<u64>,
    ) -> Result<Vec<u64>, Problem> {
        if reads.is_empty() {
            return Ok(Vec::new());
        }
        let begun = Instant::now();
        let (mut last, mut since) = (Vec::new(), begun);
        loop {
            let now = left(self.exchange(Vec::new(), Vec::new(), reads.to_vec()).await?);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            let over = last.iter().all(|n| *n == 0);
            if over || since.elapsed() > QUIET || begun.elapsed() > UNDER_WAY {
                return Ok(last);
            }
            if begun.elapsed() > SOON {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

impl<'p, P: DataPlane> Elements<'p, P> {
    /// Those of a function that has its own data plane, or that of its graph.
    ///
    /// # Errors
    /// There is no such function, or it runs otherwise.
    pub fn of(plane: &'p P, drivers: &Drivers, e: &Entry, name: &str) -> Result<Elements<'p, P>, Problem> {
        let f = function(e, name)?;
        let id = e.graph.id.as_str();
        let place = match f.kind {
            Kind::Inline => Place::of_graph(plane, id),
            Kind::Process => {
                let own = Some((drivers.get(f.kind)?, InstanceId::new(id, name)));
                Place { plane, graph: OWN_GRAPH.to_owned(), own }
            }
            Kind::Native | Kind::Dpdk | Kind::Vm | Kind::Container => {
                let detail = format!(
                    "function '{name}' is of kind {}: only the state of inline functions, and of those in processes, is known to the node",
                    f.kind.name()
                );
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
            }
        };
        let ports = if place.own.is_some() { f.interfaces.len() } else { f.ports };
        Ok(Elements { place, element: f.element.clone(), ports })
    }

    /// Whether it has a data plane of its own.
    pub fn is_alone(&self) -> bool {
        self.place.own.is_some()
    }

    /// Stops a function that has a data plane of its own, or lets it go on. What its graph has sent it comes before it stops, and what it has sent
    /// has come to its graph. Gives how many packets have not, which may be lost.
    pub async fn hold(&self, graph: &Place<'_, P>, stops: bool) -> Result<u64, Problem> {
        let to = if stops { self.arrives(graph, "to it").await? } else { 0 };
        self.place.exchange(Vec::new(), vec![(self.element.clone(), stops)], Vec::new()).await?;
        let from = if stops { self.arrives(&self.place, "from it").await? } else { 0 };
        Ok(to.saturating_add(from))
    }

    /// Waits until the other side has taken what a data plane has sent by the function's ports; gives how many packets it has not taken.
    async fn arrives(&self, from: &Place<'_, P>, which: &str) -> Result<u64, Problem> {
        let reads: Vec<String> = (0..self.ports).flat_map(|port| under_way(&self.element, port)).collect();
        let left: u64 = from.wait(&reads, |said| said).await?.into_iter().fold(0, u64::saturating_add);
        if left > 0 {
            tracing::warn!("function {}: {left} packets on their way {which} do not arrive", self.element);
        }
        Ok(left)
    }
}

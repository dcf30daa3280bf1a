//! What packets wait for while a function moves: few requests to nodes, each of which does all that can be done at once.
//!
//! 1. Where packets come in they turn to the new place, and it is said how many went to the old one.
//! 2. The old place has those, stops the function, and gives what changed of its state since the last round.
//! 3. The new place gets that; where packets leave, those that the old place sent have come.
//! 4. The store has it that the function has arrived, and it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use axum::http::Method;
use futures_util::future::{join_all, try_join_all};
use serde_json::json;
use weir_api::functions::{FunctionLife, GivenState, MoveStep, MoveStepDone, TakenState};
use weir_api::problem::Problem;
use weir_model::graph::{PortRef, ServiceGraph};

use super::at_function;
use super::core::Moving;
use super::turns::turn_id;
use crate::controller::Controller;
use crate::fleet::segment;
use crate::split::Tunnel;
use crate::store::DomainGraph;

/// Most rounds in which what changed is copied while the function works.
const ROUNDS: usize = 6;
/// So few bytes need no further round.
const FEW: usize = 16 << 10;

/// The state of a move, and its result.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Said if the function becomes one of another version: the tables that may end.
    leave: Option<Vec<String>>,
    /// The graph as it is when the function has arrived.
    pub arrived: Option<DomainGraph>,
    /// Where packets come in: nodes, and the functions that lead packets there.
    ingress: BTreeMap<String, Vec<String>>,
    /// From nodes where packets come in to the source.
    to_source: Vec<Path>,
    /// From the source to where packets leave.
    from_source: Vec<Path>,
    begun: Option<Instant>,
    /// When each part of the pause was over.
    parts: Vec<(&'static str, Duration)>,
    /// How long packets waited, at most.
    pub pause: Duration,
    /// Of the state, of all rounds.
    pub bytes: u64,
    /// Packets that were sent by the old paths, and did not come.
    pub missing: u64,
    /// Packets on their way to the function's own process, or from it, that did not arrive.
    pub left: u64,
    /// Packets that waited.
    pub waited: u64,
    /// Packets for which there was no space to wait.
    pub dropped: u64,
}

/// Tunnels from a node to a place at another, one behind the other.
#[derive(Debug, Clone)]
struct Path {
    /// Where it begins, and the access point there.
    begin: (String, String),
    /// The same of its end.
    end: (String, String),
    /// Packets that it lost earlier.
    lost: u64,
}

/// Packets by node and access point.
type Counts = BTreeMap<String, BTreeMap<String, u64>>;

fn count(counts: &Counts, (node, sap): &(String, String)) -> u64 {
    counts.get(node).and_then(|at| at.get(sap)).copied().unwrap_or(0)
}

/// The paths of those tunnels of which `is` says so.
fn paths(tunnels: &[Tunnel], is: impl Fn(&Tunnel) -> bool) -> Vec<Path> {
    let sap = |t: &Tunnel| format!("tunnel-{:x}", t.number);
    let mut found = Vec::new();
    for first in tunnels.iter().filter(|t| is(t) && t.from == t.origin) {
        let same = |t: &&Tunnel| (&t.origin, &t.place, &t.end) == (&first.origin, &first.place, &first.end);
        let mut last = first;
        while let Some(next) = tunnels.iter().filter(same).find(|t| t.from == last.to) {
            last = next;
        }
        let (begin, end) = ((first.from.clone(), sap(first)), (last.to.clone(), sap(last)));
        found.push(Path { begin, end, lost: 0 });
    }
    found
}

impl Exchange {
    /// Of a function that becomes one of another version, if `leave` is said: the tables that may end.
    pub fn becoming(leave: Option<Vec<String>>) -> Exchange {
        Exchange { leave, ..Exchange::default() }
    }

    /// A part of the pause is over.
    pub fn mark(&mut self, what: &'static str) {
        if let Some(begun) = self.begun {
            self.parts.push((what, begun.elapsed()));
        }
    }
}

impl Controller {
    /// Asks a node to do a part of a move.
    async fn step(
        &self,
        id: &str,
        graph: &DomainGraph,
        node: &str,
        step: MoveStep,
    ) -> Result<MoveStepDone, Problem> {
        let tag = graph.parts.get(node).and_then(|p| p.tag.clone()).unwrap_or_default();
        let body = json!(MoveStep { tag, ..step }).to_string();
        let path = format!("/graphs/{}/move-step", segment(id));
        let done = self.fleet.call(node, Method::POST, &path, Some(&body)).await;
        done.map_err(|e| {
            let problem = Problem::from(e);
            Problem { detail: format!("node '{node}': {}", problem.detail), ..problem }
        })
    }

    /// What went by paths since they are there, by the numbers of the paths.
    async fn sent(&self, id: &str, graph: &DomainGraph, paths: &[Path]) -> Result<Vec<u64>, Problem> {
        let nodes: BTreeSet<&String> = paths.iter().map(|p| &p.begin.0).collect();
        let steps = nodes.into_iter().map(|node| async move {
            let step = MoveStep { count: begin_at(paths, node), ..MoveStep::default() };
            Ok::<_, Problem>((node.clone(), self.step(id, graph, node, step).await?.counted))
        });
        let counted: Counts = try_join_all(steps).await?.into_iter().collect();
        Ok(paths.iter().map(|p| count(&counted, &p.begin)).collect())
    }

    /// Waits until what was sent has come. How much did not, by the numbers of the paths.
    async fn come(
        &self,
        id: &str,
        graph: &DomainGraph,
        paths: &[Path],
        sent: &[u64],
    ) -> Result<Vec<u64>, Problem> {
        let nodes: BTreeSet<&String> = paths.iter().map(|p| &p.end.0).collect();
        let steps = nodes.into_iter().map(|node| async move {
            let step = MoveStep { await_packets: end_at(paths, sent, node), ..MoveStep::default() };
            Ok::<_, Problem>((node.clone(), self.step(id, graph, node, step).await?.missing))
        });
        let missing: Counts = try_join_all(steps).await?.into_iter().collect();
        Ok(paths.iter().map(|p| count(&missing, &p.end)).collect())
    }

    /// While the function works: gives the target its state, in rounds of what changed, and looks what the paths lost earlier.
    pub(super) async fn follow(
        &self,
        id: &str,
        graph: &ServiceGraph,
        moving: &Moving,
        ex: &mut Exchange,
    ) -> Result<(), Problem> {
        let stored = self.graph(id)?.graph;
        ex.ingress = ingress(graph, &stored, moving)?;
        let to: BTreeSet<String> = graph
            .flowrules
            .iter()
            .filter(|r| moving.is_of(&r.matches.port_in))
            .flat_map(|r| r.actions.output_to_port.iter().map(PortRef::to_string))
            .collect();
        let f = moving.function.as_str();
        let of_function =
            |t: &Tunnel| t.place.strip_prefix("sf:").and_then(|p| p.split(':').next()) == Some(f);
        ex.to_source = paths(&stored.tunnels, |t| of_function(t) && t.end == moving.from);
        ex.from_source = paths(&stored.tunnels, |t| t.origin == moving.from && to.contains(&t.place));
        for paths in [&mut ex.to_source, &mut ex.from_source] {
            let sent = self.sent(id, &stored, paths).await?;
            let lost = self.come(id, &stored, paths, &sent).await?;
            paths.iter_mut().zip(lost).for_each(|(p, lost)| p.lost = lost);
        }
        let mut last = usize::MAX;
        for round in 0..ROUNDS {
            let take = TakenState { function: f.to_owned(), first: round == 0, last: false };
            let step = MoveStep { take: Some(take), ..MoveStep::default() };
            let round =
                self.step(id, &stored, &moving.from, step).await?.round.ok_or_else(Problem::internal)?;
            let bytes = round.len();
            ex.bytes += bytes as u64;
            let give = GivenState { function: f.to_owned(), round, leave: ex.leave.clone() };
            let step = MoveStep { give: Some(give), ..MoveStep::default() };
            self.step(id, &stored, &moving.to, step).await?;
            // More rounds do not help where as much changes meanwhile.
            if bytes < FEW || bytes > last / 4 * 3 {
                break;
            }
            last = bytes;
        }
        Ok(())
    }

    /// Packets turn to the target, the source stops, and the target gets the rest of its state. It does not go on before the store has that.
    pub(super) async fn turn(&self, id: &str, moving: &Moving, ex: &mut Exchange) -> Result<(), Problem> {
        let stored = self.graph(id)?.graph;
        let (stored, f) = (&stored, &moving.function);
        ex.begun = Some(Instant::now());
        let to_source = &ex.to_source;
        let turned = ex.ingress.iter().map(|(node, turns)| async move {
            let step =
                MoveStep { turn: turns.clone(), count: begin_at(to_source, node), ..MoveStep::default() };
            Ok::<_, Problem>((node.clone(), self.step(id, stored, node, step).await?.counted))
        });
        let counted: Counts = try_join_all(turned).await?.into_iter().collect();
        ex.mark("turned");
        let sent: Vec<u64> = ex.to_source.iter().map(|p| count(&counted, &p.begin)).collect();
        let step = MoveStep {
            await_packets: end_at(&ex.to_source, &sent, &moving.from),
            stop: Some(f.clone()),
            count: begin_at(&ex.from_source, &moving.from),
            life: Some(f.clone()),
            take: Some(TakenState { function: f.clone(), first: false, last: true }),
            ..MoveStep::default()
        };
        let source = self.step(id, stored, &moving.from, step).await?;
        ex.mark("stopped");
        let round = source.round.ok_or_else(Problem::internal)?;
        ex.bytes += round.len() as u64;
        let sent: Vec<u64> =
            ex.from_source.iter().map(|p| source.counted.get(&p.begin.1).copied().unwrap_or(0)).collect();
        let give = GivenState { function: f.clone(), round, leave: ex.leave.clone() };
        let step = MoveStep { give: Some(give), life: Some(f.clone()), ..MoveStep::default() };
        let (target, late) = tokio::join!(
            self.step(id, stored, &moving.to, step),
            self.come(id, stored, &ex.from_source, &sent)
        );
        let (target, late) = (target?, late?);
        ex.mark("given");
        let lost: u64 = ex.to_source.iter().chain(&ex.from_source).map(|p| p.lost).sum();
        ex.missing = lost + source.missing.values().sum::<u64>() + late.iter().sum::<u64>();
        ex.left = source.left;
        (ex.waited, ex.dropped) = (target.waiting, source.dropped + target.dropped);
        Ok(())
    }

    /// The function goes on at the target. If that is not heard there, its part does it.
    pub(super) async fn go(&self, id: &str, moving: &Moving, graph: &DomainGraph, ex: &mut Exchange) {
        let Some(begun) = ex.begun else { return };
        ex.mark("kept");
        let step = MoveStep { go: Some(moving.function.clone()), ..MoveStep::default() };
        if let Err(e) = self.step(id, graph, &moving.to, step).await {
            tracing::debug!("graph {id}: function '{}' goes on a little later: {e}", moving.function);
        }
        ex.pause = begun.elapsed();
        ex.mark("gone on");
        tracing::info!(
            "graph {id}: function '{}' moved, since packets turned: {:?}",
            moving.function,
            ex.parts
        );
    }

    /// Packets that wait at the target of a move that failed, which end with it.
    pub(super) async fn count_left(&self, id: &str, moving: &Moving, ex: &mut Exchange) {
        let path = at_function(id, &moving.function, "life");
        if let Ok(life) = self.fleet.call::<FunctionLife>(&moving.to, Method::GET, &path, None).await {
            ex.dropped = life.waiting + life.dropped;
        }
    }

    /// How large the state of a function is, and for how long packets would wait: as long as its last round takes if nothing changes, and as the other
    /// requests to nodes take if they do nothing.
    pub(super) async fn expected(
        &self,
        id: &str,
        function: &str,
        from: &str,
        graph: &DomainGraph,
    ) -> Result<(u64, Duration), Problem> {
        let round = |first| {
            let take = TakenState { function: function.to_owned(), first, last: !first };
            self.step(id, graph, from, MoveStep { take: Some(take), ..MoveStep::default() })
        };
        let all = round(true).await?.round.map_or(0, |r| r.len() as u64);
        let begun = Instant::now();
        round(false).await?;
        let last = begun.elapsed();
        let begun = Instant::now();
        join_all(graph.parts.keys().map(|n| self.step(id, graph, n, MoveStep::default()))).await;
        // To turn, to give, to go on, and the store.
        Ok((all, last + begun.elapsed() * 4))
    }
}

/// The access points at a node by which paths begin there.
fn begin_at(paths: &[Path], node: &str) -> Vec<String> {
    paths.iter().filter(|p| p.begin.0 == node).map(|p| p.begin.1.clone()).collect()
}

/// How many packets have to come by the access points at a node at which paths end.
fn end_at(paths: &[Path], sent: &[u64], node: &str) -> BTreeMap<String, u64> {
    let here = paths.iter().zip(sent).filter(|(p, _)| p.end.0 == node);
    here.map(|(p, sent)| (p.end.1.clone(), sent.saturating_sub(p.lost))).collect()
}

/// The nodes where packets come in for a function that moves, and the functions that lead packets there.
fn ingress(
    graph: &ServiceGraph,
    stored: &DomainGraph,
    moving: &Moving,
) -> Result<BTreeMap<String, Vec<String>>, Problem> {
    let outputs = graph.flowrules.iter().flat_map(|r| &r.actions.output_to_port);
    let mut turns = BTreeSet::new();
    for place in outputs.filter(|p| moving.is_of(p)) {
        turns.insert(turn_id(graph, place)?.to_string());
    }
    let mut all = BTreeMap::new();
    for (node, part) in &stored.parts {
        let part = ServiceGraph::from_json(&part.document)?;
        let own = part.functions.iter().map(|f| f.id.to_string()).filter(|f| turns.contains(f));
        let own: Vec<String> = own.collect();
        if !own.is_empty() {
            all.insert(node.clone(), own);
        }
    }
    Ok(all)
}

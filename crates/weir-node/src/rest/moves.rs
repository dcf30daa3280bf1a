//! The route by which a controller moves a function: what is to happen at one moment goes in one request, and takes one exchange with the data plane.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weir_api::functions::{MoveStep, MoveStepDone, TakenState};
use weir_api::problem::Problem;
use weir_auth::Action;
use weir_protocol::{Answer, Command, MAX_STATE};
use weir_rest::body::{Received, long_bytes};
use weir_rest::extract::Path;
use weir_rest::login::Caller;

use super::elements::{Elements, Place};
use super::life::document;
use super::{App, entry};
use crate::compute::Drivers;
use crate::connection::DataPlane;
use crate::node::Entry;

/// The handler of a function of the controller's that leads packets to one of two places.
const TURN: &str = "turn.switch";

/// Does a part of a move of a function to or from this node.
#[utoipa::path(post, path = "/graphs/{id}/move-step", tag = "functions", operation_id = "move_step",
    params(("id" = String, Path, description = "The graph's identifier.")),
    request_body = MoveStep,
    responses(
        (status = 200, body = MoveStepDone, description = "It is done."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph, function or access point."),
        (status = 412, body = Problem, content_type = "application/problem+json", description = "The graph is another one by now."),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The state is too large."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The function is neither inline nor in a process, or not about to move, or the state is damaged or another function's."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    ))]
pub(super) async fn step(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    body: Received,
) -> Result<Json<MoveStepDone>, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::ChangeGraph(e.owned()))?;
    // A state is written down as a text within a text.
    let body = long_bytes(body, 2 * MAX_STATE)?;
    let step: MoveStep = serde_json::from_slice(&body)
        .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, format!("this is no step of a move: {e}")))?;
    let tag = e.tag();
    if step.tag != tag {
        let detail = format!("graph '{id}' has the entity tag \"{tag}\", not \"{}\"", step.tag);
        return Err(Problem::new(StatusCode::PRECONDITION_FAILED, detail));
    }
    caller.summary("a step of a move".to_owned());
    done(&*app.plane, &app.drivers, &e, &id, step).await.map(Json)
}

async fn done<P: DataPlane>(
    plane: &P,
    drivers: &Drivers,
    e: &Entry,
    id: &str,
    step: MoveStep,
) -> Result<MoveStepDone, Problem> {
    let graph = Place::of_graph(plane, id);
    let elements = |function: &str| Elements::of(plane, drivers, e, function);
    let counter = |sap: &String, behind: &str| {
        let found = e.graph.attachments.iter().find(|a| a.sap == *sap);
        let missing =
            || Problem::new(StatusCode::NOT_FOUND, format!("graph '{id}' has no access point '{sap}' here"));
        found.map(|a| format!("{}{behind}.count", a.element)).ok_or_else(missing)
    };
    // All names first: with a mistake nothing is done.
    let mut awaited = Vec::new();
    for sap in step.await_packets.keys() {
        awaited.push(counter(sap, "")?);
    }
    let mut writes = Vec::new();
    for f in &step.turn {
        writes.push((format!("{}/{TURN}", elements(f)?.element), "1".to_owned()));
    }
    let mut holds = Vec::new();
    for (f, stops) in step.stop.iter().map(|f| (f, true)).chain(step.go.iter().map(|f| (f, false))) {
        holds.push((elements(f)?, stops));
    }
    let mut reads = Vec::new();
    for sap in &step.count {
        reads.push(counter(sap, "_out")?);
    }
    let mut lives = None;
    if let Some(f) = &step.life {
        let (document, number) = document(e, f)?;
        let (at, ports) = (elements(f)?, document.functions.get(number).map_or(0, |f| f.ports.len()));
        let gates =
            |what: &str| (0..ports).map(|p| format!("gate_{}_{p}.{what}", at.element)).collect::<Vec<_>>();
        let gates: Vec<String> = gates("length").into_iter().chain(gates("drops")).collect();
        lives = Some((at, gates));
    }
    let given =
        step.give.map(|g| Ok::<_, Problem>((elements(&g.function)?, g.round, g.leave))).transpose()?;
    let taken = step.take.map(|t| Ok::<_, Problem>((elements(&t.function)?, t))).transpose()?;

    if let Some((at, round, leave)) = given {
        let (graph, function) = (at.place.graph.clone(), at.element.clone());
        at.place.call(Command::ImportRound { graph, function, round, leave }).await?;
    }
    let wanted: Vec<u64> = step.await_packets.values().copied().collect();
    let missing = graph
        .wait(&awaited, |came| wanted.iter().zip(came).map(|(w, c)| w.saturating_sub(c)).collect())
        .await?;
    let missing = step.await_packets.into_keys().zip(missing).filter(|(_, n)| *n > 0).collect();
    let mut said = MoveStepDone { missing, ..MoveStepDone::default() };
    let (alone, inline): (Vec<_>, Vec<_>) = holds.into_iter().partition(|(at, _)| at.is_alone());
    for (at, stops) in &alone {
        said.left = said.left.saturating_add(at.hold(&graph, *stops).await?);
    }
    let inline = inline.into_iter().map(|(at, stops)| (at.element, stops)).collect();
    let (own, gates) = match lives {
        Some((at, gates)) if at.is_alone() => (Some(at), gates),
        Some((_, gates)) => {
            reads.extend(gates);
            (None, Vec::new())
        }
        None => (None, Vec::new()),
    };
    let mut counts = graph.exchange(writes, inline, reads).await?.into_iter();
    said.counted = step.count.iter().cloned().zip(counts.by_ref()).collect();
    let waiting: Vec<u64> = match own {
        Some(at) => at.place.exchange(Vec::new(), Vec::new(), gates).await?,
        None => counts.collect(),
    };
    let (waiting, dropped) = waiting.split_at(waiting.len() / 2);
    let sum = |counts: &[u64]| counts.iter().copied().fold(0, u64::saturating_add);
    (said.waiting, said.dropped) = (sum(waiting), sum(dropped));
    if let Some((at, TakenState { first, last, .. })) = taken {
        let (graph, function) = (at.place.graph.clone(), at.element.clone());
        let round = Command::ExportRound { graph, function, first, last };
        let Answer::Text { text } = at.place.call(round).await? else { return Err(Problem::internal()) };
        said.round = Some(text);
    }
    Ok(said)
}

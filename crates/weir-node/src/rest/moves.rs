//! The route by which a controller moves a function: what is to happen at one moment goes in one request, and takes one exchange with the data plane.

use std::time::{Duration, Instant};

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

use super::life::{document, inline};
use super::{App, entry};
use crate::connection::DataPlane;
use crate::node::Entry;

/// How long packets are waited for that are under way, and how long nothing has to come to take the rest for lost.
const UNDER_WAY: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(60);
/// How long it is looked again at once. Most packets have come by then.
const SOON: Duration = Duration::from_millis(3);
/// How often it is looked afterwards.
const LOOK: Duration = Duration::from_millis(1);
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
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The function is not inline, or not about to move, or the state is damaged or another function's."),
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
    done(&*app.plane, &e, &id, step).await.map(Json)
}

async fn done<P: DataPlane>(plane: &P, e: &Entry, id: &str, step: MoveStep) -> Result<MoveStepDone, Problem> {
    let element = |function: &str| Ok::<String, Problem>(inline(e, function)?.element.clone());
    let counter = |sap: &String, behind: &str| {
        let found = e.graph.attachments.iter().find(|a| a.sap == *sap);
        let missing =
            || Problem::new(StatusCode::NOT_FOUND, format!("graph '{id}' has no access point '{sap}' here"));
        found.map(|a| format!("{}{behind}.count", a.element)).ok_or_else(missing)
    };
    // All names first: with a mistake nothing is done.
    let mut awaited = Vec::new();
    for (sap, packets) in &step.await_packets {
        awaited.push((counter(sap, "")?, *packets));
    }
    let mut writes = Vec::new();
    for f in &step.turn {
        writes.push((format!("{}/{TURN}", element(f)?), "1".to_owned()));
    }
    let mut holds = Vec::new();
    for (f, stops) in step.stop.iter().map(|f| (f, true)).chain(step.go.iter().map(|f| (f, false))) {
        holds.push((element(f)?, stops));
    }
    let mut reads = Vec::new();
    for sap in &step.count {
        reads.push(counter(sap, "_out")?);
    }
    if let Some(f) = &step.life {
        let (graph, number) = document(e, f)?;
        let (element, ports) = (element(f)?, graph.functions.get(number).map_or(0, |f| f.ports.len()));
        let gates = |what: &str| (0..ports).map(|p| format!("gate_{element}_{p}.{what}")).collect::<Vec<_>>();
        reads.extend(gates("length").into_iter().chain(gates("drops")));
    }
    let given = step.give.map(|g| Ok::<_, Problem>((element(&g.function)?, g.round))).transpose()?;
    let taken = step.take.map(|t| Ok::<_, Problem>((element(&t.function)?, t))).transpose()?;

    let graph = || id.to_owned();
    if let Some((function, round)) = given {
        plane.call(Command::ImportRound { graph: graph(), function, round }).await?;
    }
    let missing = arrived(plane, id, &awaited).await?;
    let missing = step.await_packets.into_keys().zip(missing).filter(|(_, n)| *n > 0).collect();
    let mut said = MoveStepDone { missing, ..MoveStepDone::default() };
    if !(writes.is_empty() && holds.is_empty() && reads.is_empty()) {
        let mut counts = exchange(plane, id, (writes, holds, reads)).await?.into_iter();
        said.counted = step.count.iter().cloned().zip(counts.by_ref()).collect();
        let rest: Vec<u64> = counts.collect();
        let (waiting, dropped) = rest.split_at(rest.len() / 2);
        (said.waiting, said.dropped) = (waiting.iter().sum(), dropped.iter().sum());
    }
    if let Some((function, TakenState { first, last, .. })) = taken {
        let round = Command::ExportRound { graph: graph(), function, first, last };
        let Answer::Text { text } = plane.call(round).await? else { return Err(Problem::internal()) };
        said.round = Some(text);
    }
    Ok(said)
}

type Exchange = (Vec<(String, String)>, Vec<(String, bool)>, Vec<String>);

/// What handlers say that are numbers, after writes and stops.
async fn exchange<P: DataPlane>(
    plane: &P,
    graph: &str,
    (writes, holds, reads): Exchange,
) -> Result<Vec<u64>, Problem> {
    let wanted = reads.len();
    let command = Command::Exchange { graph: graph.to_owned(), writes, holds, reads };
    let texts = match plane.call(command).await? {
        Answer::Texts { texts } if texts.len() == wanted => texts,
        _ => return Err(Problem::internal()),
    };
    texts.iter().map(|t| t.trim().parse().map_err(|_| Problem::internal())).collect()
}

/// Waits until counters have come so far. By how much each has not.
async fn arrived<P: DataPlane>(
    plane: &P,
    graph: &str,
    awaited: &[(String, u64)],
) -> Result<Vec<u64>, Problem> {
    if awaited.is_empty() {
        return Ok(Vec::new());
    }
    let begun = Instant::now();
    let (mut last, mut since) = (Vec::new(), begun);
    loop {
        let reads = awaited.iter().map(|(counter, _)| counter.clone()).collect();
        let came = exchange(plane, graph, (Vec::new(), Vec::new(), reads)).await?;
        let missing: Vec<u64> =
            awaited.iter().zip(came).map(|((_, wanted), came)| wanted.saturating_sub(came)).collect();
        let all_came = missing.iter().all(|n| *n == 0);
        if missing != last {
            (last, since) = (missing, Instant::now());
        }
        if all_came || since.elapsed() > QUIET || begun.elapsed() > UNDER_WAY {
            return Ok(last);
        }
        if begun.elapsed() > SOON {
            tokio::time::sleep(LOOK).await;
        }
    }
}

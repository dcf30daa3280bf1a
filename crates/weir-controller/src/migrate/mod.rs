//! A function goes from a node to another while it works (Scylla paper, sections III.B and V.A; Weir keeps packets in order, which the paper does not).
//!
//! What comes when is decided in [`core`]. For each stage the graph is split anew, and nodes get their parts. What packets wait for is in
//! [`exchange`].

pub mod core;
mod exchange;
mod held;
mod movable;
mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod turns;

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use futures_util::future::join_all;
use weir_api::events::Kind;
use weir_api::functions::{FunctionLife, Moved};
use weir_api::problem::Problem;
use weir_model::graph::{Function, RunAs, ServiceGraph};
use weir_model::nearest::nearest;
use weir_rest::body::Document;

use self::core::{End, Images, Kinds, Moving, Next, Stage, next};
use self::exchange::Exchange;
use self::movable::NewImage;
use crate::admit::{admit_move, in_parts};
use crate::controller::Controller;
use crate::fleet::segment;
use crate::store::{DomainGraph, Stored};

/// How often it is looked whether packets wait still where a function has arrived, and how many times.
const EMPTY: (Duration, u32) = (Duration::from_millis(20), 250);

/// What becomes of a function as it moves.
#[derive(Debug, Clone, Default)]
pub struct How {
    /// How it is run at the other node, if that changes.
    pub kind: Option<RunAs>,
    /// The image that it is made of there, if that changes: its name, or `NAME@VERSION`.
    pub image: Option<String>,
    /// The tables whose content may end, as `ELEMENT.TABLE`.
    pub leave: Vec<String>,
    /// Whether it is only asked what a move would be.
    pub plan: bool,
}

/// A move in progress; it is over when this is dropped.
struct Move<'c> {
    controller: &'c Controller,
    graph: String,
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        self.controller.moves().remove(&self.graph);
        self.controller.moved.notify_waiters();
    }
}

/// The facts about a function that is to move.
struct Asked {
    stored: Stored,
    graph: ServiceGraph,
    function: Function,
    from: String,
    /// How it is run, if that is to change.
    kinds: Option<Kinds>,
    /// What image the documents of both nodes name, if that is to change.
    images: Option<Images>,
    /// What it is made of, if that is to change.
    image: Option<NewImage>,
}

impl Controller {
    /// Lets nothing else change: also no move, of that graph, or of all if none is named, which is waited for.
    pub(crate) async fn at_rest(&self, graph: Option<&str>) -> tokio::sync::MutexGuard<'_, ()> {
        loop {
            let moved = self.moved.notified();
            let changing = self.changing.lock().await;
            let under_way = match graph {
                Some(graph) => self.moves().contains_key(graph),
                None => !self.moves().is_empty(),
            };
            if !under_way {
                return changing;
            }
            drop(changing);
            moved.await;
        }
    }

    pub(crate) fn moves(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeMap<String, String>> {
        self.moves.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Begins a move, unless there is one of the same graph.
    fn begin_move(&self, graph: &str, what: String) -> Result<Move<'_>, Problem> {
        let mut moves = self.moves();
        if let Some(other) = moves.get(graph) {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                format!("{other} is under way; try again when it is over"),
            ));
        }
        moves.insert(graph.to_owned(), what);
        Ok(Move { controller: self, graph: graph.to_owned() })
    }

    /// Moves a function to another node, where it is as `how` says. To be run to its end.
    ///
    /// # Errors
    /// It cannot be there, or the move failed: then the function goes on where it was.
    pub async fn migrate(&self, id: &str, function: &str, to: &str, how: &How) -> Result<Moved, Problem> {
        let _move = self.begin_move(id, format!("a move of function '{function}' to node '{to}'"))?;
        // Other graphs may change while this one moves, but not while it is found out where it can be.
        let changing = self.changing.lock().await;
        let Asked { stored, graph, function, from, kinds, images, image } =
            self.may_move(id, function, to, how).await?;
        let moving = Moving {
            function: function.id.to_string(),
            from: from.clone(),
            to: to.to_owned(),
            stage: Stage::Prepared,
            kinds,
            images,
        };
        let text = format!("function '{}' moves from node '{from}' to node '{to}'", function.id);
        self.tell(Kind::Notice, None, Some(id), text).await;
        let before = stored.graph.clone();
        let leave = image.as_ref().map(|_| how.leave.clone());
        let mut ex = Exchange::becoming(leave);
        let mut changing = Some(changing);
        let mut failure = None;
        let mut stage = Next::Stage(Stage::Prepared, End::Source);
        while let Next::Stage(now, end) = stage {
            let at = if end == End::Target && now == Stage::Arrived { to } else { &from };
            let moving = Moving { stage: now, ..moving.clone() };
            let done = self.at_stage(id, &graph, &moving, at, (&mut ex, changing.take())).await;
            let kept = done.is_ok();
            failure = failure.or(done.err());
            if now == Stage::Arrived {
                // What the store does not have is taken up when nodes are looked at next, here or by the controller that leads then.
                if kept {
                    self.empty(id, function.id.as_str()).await;
                }
                break;
            }
            stage = next(now, kept);
        }
        if stage == Next::Over {
            // Nothing was turned: all is as it was.
            self.put_stage(id, before, None).await.ok();
        }
        if let Some(problem) = failure {
            let lost = match ex.dropped {
                0 => String::new(),
                n => format!("; {n} packets that waited for it were dropped"),
            };
            let goes_on = if self.store.database().is_retired() {
                format!("at node '{from}' or '{to}', as the controller says that leads next")
            } else {
                format!("at node '{from}'")
            };
            let text = format!(
                "the move of function '{}' to node '{to}' failed: {}; it goes on {goes_on}{lost}",
                function.id, problem.detail
            );
            self.tell(Kind::Failed, Some(to), Some(id), text.clone()).await;
            return Err(Problem { detail: text, ..problem });
        }
        let Exchange { bytes, missing, left, waited, dropped, pause, .. } = ex;
        let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        let text = format!(
            "function '{}' moved from node '{from}' to node '{to}': {bytes} bytes, {waited} packets waited, {dropped} dropped, for {micros} µs",
            function.id
        );
        self.tell(Kind::Changed, Some(to), Some(id), text).await;
        Ok(Moved {
            graph: id.to_owned(),
            function: function.id.to_string(),
            from,
            to: to.to_owned(),
            plan: false,
            image: image.as_ref().map(|i| i.called.clone()),
            begin: image.as_ref().map(|i| i.fates.begin.clone()).unwrap_or_default(),
            end: image.map(|i| i.fates.end).unwrap_or_default(),
            refused: Vec::new(),
            bytes,
            pause_micros: micros,
            waited,
            dropped,
            missing,
            left,
        })
    }

    /// Moves the functions of a graph away from a node, with their state: where they would be if it was not there. None if that cannot be, because the
    /// graph meets an interface of the node, or the state of a function is not known.
    ///
    /// # Errors
    /// A move failed.
    pub(crate) async fn move_functions(&self, id: &str, from: &str) -> Result<Option<Vec<String>>, Problem> {
        let stored = self.graph(id)?;
        let away: Vec<&String> =
            stored.graph.functions.iter().filter(|(_, n)| *n == from).map(|(f, _)| f).collect();
        if away.is_empty() || stored.graph.saps.values().any(|n| n == from) {
            return Ok(None);
        }
        let graph = ServiceGraph::from_json(&stored.graph.document.to_string())?;
        let document = Document { graph, text: Some(stored.graph.text.clone()), owner: None };
        let Ok(admission) = self.admit(&document, None, Some(from)) else { return Ok(None) };
        if admission.graph.saps != stored.graph.saps {
            return Ok(None);
        }
        let mut nodes = BTreeSet::new();
        for f in away {
            let Some(to) = admission.graph.functions.get(f).filter(|n| *n != from) else { return Ok(None) };
            match self.migrate(id, f, to, &How::default()).await {
                Ok(moved) => _ = nodes.insert(moved.to),
                Err(p) if p.status == StatusCode::UNPROCESSABLE_ENTITY.as_u16() && nodes.is_empty() => {
                    return Ok(None);
                }
                Err(p) => return Err(p),
            }
        }
        Ok(Some(nodes.into_iter().collect()))
    }

    /// What a move would be; nothing is done.
    ///
    /// # Errors
    /// It cannot be there.
    pub async fn plan_move(&self, id: &str, function: &str, to: &str, how: &How) -> Result<Moved, Problem> {
        let Asked { function, from, stored, image, .. } = self.may_move(id, function, to, how).await?;
        let (bytes, pause) = self.expected(id, function.id.as_str(), &from, &stored.graph).await?;
        Ok(Moved {
            graph: id.to_owned(),
            function: function.id.to_string(),
            from,
            to: to.to_owned(),
            plan: true,
            image: image.as_ref().map(|i| i.called.clone()),
            begin: image.as_ref().map(|i| i.fates.begin.clone()).unwrap_or_default(),
            end: image.as_ref().map(|i| i.fates.end.clone()).unwrap_or_default(),
            refused: image.map(|i| i.fates.refused).unwrap_or_default(),
            bytes,
            pause_micros: u64::try_from(pause.as_micros()).unwrap_or(u64::MAX),
            waited: 0,
            dropped: 0,
            missing: 0,
            left: 0,
        })
    }

    /// The number of a function in a graph.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn function_number(&self, graph: &ServiceGraph, function: &str) -> Result<usize, Problem> {
        graph.functions.iter().position(|f| f.id.as_str() == function).ok_or_else(|| {
            let hint = nearest(function, graph.functions.iter().map(|f| f.id.as_str()));
            Problem::new(
                StatusCode::NOT_FOUND,
                format!("graph '{}' has no function '{function}'{hint}", graph.id),
            )
        })
    }

    /// Whether a function can move to a node, and be there as `how` says.
    async fn may_move(&self, id: &str, function: &str, to: &str, how: &How) -> Result<Asked, Problem> {
        let stored = self.graph(id)?;
        self.member(to)?;
        let graph = ServiceGraph::from_json(&stored.graph.document.to_string())?;
        let number = self.function_number(&graph, function)?;
        let function = graph.functions.get(number).cloned().ok_or_else(Problem::internal)?;
        let refused = |status, text: String| Err(Problem::new(status, text));
        if stored.pending || stored.doubtful || stored.graph.moving.is_some() {
            let text = format!("graph '{id}' is not as it is to be yet; try again");
            return refused(StatusCode::CONFLICT, text);
        }
        let Some(from) = stored.graph.functions.get(function.id.as_str()).cloned() else {
            return Err(Problem::internal());
        };
        if from == to {
            return refused(
                StatusCode::CONFLICT,
                format!("function '{}' is at node '{to}' already{}", function.id, movable::same_node(how)),
            );
        }
        // What its document says of the function itself follows it; what it says of the whole graph does not.
        if let Some(named) = graph.node.as_ref().filter(|n| function.node.is_none() && n.as_str() != to) {
            let text =
                format!("the document asks for node '{named}' for all of graph '{id}': change it there");
            return refused(StatusCode::UNPROCESSABLE_ENTITY, text);
        }
        let mut parts = graph.into_parts();
        if let Some(f) = parts.functions.get_mut(number) {
            f.node = f.node.as_ref().and_then(|_| to.parse().ok());
            f.kind = how.kind.or(f.kind);
            if let Some(image) = how.image.as_deref().map(|i| movable::name_and_version(i).0)
                && image != movable::image_of(&function)
            {
                let wrong = |e| {
                    Problem::new(
                        StatusCode::UNPROCESSABLE_ENTITY,
                        format!("'{image}' is no name of an image: {e}"),
                    )
                };
                f.template = Some(image.parse::<weir_model::value::Name>().map_err(wrong)?);
            }
        }
        let graph = ServiceGraph::from_parts(&parts)?;
        let new = graph.functions.get(number).ok_or_else(Problem::internal)?;
        let online: BTreeSet<String> = self.fleet.names().into_iter().collect();
        for node in [to, &from].into_iter().chain(stored.graph.parts.keys().map(String::as_str)) {
            if !online.contains(node) {
                return refused(StatusCode::SERVICE_UNAVAILABLE, format!("node '{node}' is offline"));
            }
        }
        let view = self.view();
        let tenant = graph.tenant.as_ref().and_then(|t| self.login.tenant_kind(t.as_str()));
        let proof = admit_move(&graph, &stored.graph, tenant, &view, &online, (new, to))?;
        let image = self.is_movable((&function, new), (&from, to), how).await?;
        self.prove(proof).await?;
        let kinds = (new.kind != function.kind).then_some(Kinds { from: function.kind, to: new.kind });
        let images = (new.template != function.template)
            .then(|| [&function, new].map(|f| f.template.as_ref().map(ToString::to_string)))
            .map(|[from, to]| Images { from, to });
        Ok(Asked { stored, graph, function, from, kinds, images, image })
    }

    /// The parts of a stage; `at` is the node that the function is at.
    fn graph_at(
        &self,
        id: &str,
        graph: &ServiceGraph,
        moving: &Moving,
        at: &str,
    ) -> Result<DomainGraph, Problem> {
        let stored = self.graph(id)?;
        let mut new = DomainGraph { moving: Some(moving.clone()), ..stored.graph };
        new.functions.insert(moving.function.to_string(), at.to_owned());
        if moving.stage == Stage::Arrived && at == moving.to {
            new.moved.insert(moving.function.clone());
            let document = graph.to_json();
            if document.get("sffg") != Some(&new.document) {
                new.text = format!("{document:#}\n");
                new.document = document.get("sffg").cloned().unwrap_or_default();
            }
        }
        in_parts(graph, &new, &self.view(), &self.fleet.names().into_iter().collect())
    }

    /// Does what a stage is; `at` is the node that the function is at. When it has arrived, the store has that unless this fails; a node that does not take its part then
    /// gets it when it is looked at next.
    async fn at_stage(
        &self,
        id: &str,
        graph: &ServiceGraph,
        moving: &Moving,
        at: &str,
        (ex, mut changing): (&mut Exchange, Option<tokio::sync::MutexGuard<'_, ()>>),
    ) -> Result<(), Problem> {
        if moving.stage == Stage::Ready {
            changing = Some(self.changing.lock().await);
        }
        let new = match ex.arrived.take().filter(|_| moving.stage == Stage::Arrived && at == moving.to) {
            Some(ready) => ready,
            None => self.graph_at(id, graph, moving, at)?,
        };
        match moving.stage {
            Stage::Prepared | Stage::Ready => {
                let before = self.graph(id)?.graph;
                let new = tagged(new, &before);
                self.keep_stage(id, &new).await?;
                if moving.stage == Stage::Ready {
                    // Packets need not wait for what can be known now.
                    let arrived = Moving { stage: Stage::Arrived, ..moving.clone() };
                    ex.arrived = Some(self.graph_at(id, graph, &arrived, &moving.to)?);
                }
                drop(changing);
                self.put_parts(id, &before, new, None).await?;
                if moving.stage == Stage::Ready {
                    held::reached("ready").await;
                    self.follow(id, graph, moving, ex).await?;
                    held::reached("followed").await;
                } else {
                    held::reached("prepared").await;
                }
                Ok(())
            }
            Stage::Turned => {
                let before = self.graph(id)?.graph;
                self.keep_stage(id, &tagged(new, &before)).await?;
                held::reached("turned").await;
                self.turn(id, moving, ex).await?;
                held::reached("given").await;
                Ok(())
            }
            Stage::Arrived => {
                let before = self.graph(id)?.graph;
                let new = tagged(new, &before);
                self.keep_stage(id, &new).await?;
                if at == moving.to {
                    held::reached("arrived").await;
                    self.go(id, moving, &before, ex).await;
                } else {
                    // What waits at the target is not sent back.
                    self.count_left(id, moving, ex).await;
                }
                if let Err(e) = self.put_parts(id, &before, new, Some(at)).await {
                    tracing::warn!("graph {id}: not all nodes know yet where '{}' is: {e}", moving.function);
                }
                Ok(())
            }
        }
    }

    /// Brings a graph's nodes to the parts of a stage. The store has it before, so who comes back goes on from there.
    async fn put_stage(&self, id: &str, new: DomainGraph, first: Option<&str>) -> Result<(), Problem> {
        let before = self.graph(id)?.graph;
        let new = tagged(new, &before);
        self.keep_stage(id, &new).await?;
        self.put_parts(id, &before, new, first).await
    }

    /// Brings nodes to their parts, all at once, but for one that is `first`.
    async fn put_parts(
        &self,
        id: &str,
        before: &DomainGraph,
        mut new: DomainGraph,
        first: Option<&str>,
    ) -> Result<(), Problem> {
        let arrived = new.moving.as_ref().is_some_and(|m| m.stage == Stage::Arrived);
        let waits = |node: &String| arrived && Some(node.as_str()) == first;
        let changed: Vec<(String, String)> = new
            .parts
            .iter()
            .filter(|(_, p)| p.tag.is_none())
            .map(|(node, p)| (node.clone(), p.document.clone()))
            .collect();
        let (one, rest): (Vec<_>, Vec<_>) = changed.into_iter().partition(|(node, _)| waits(node));
        let mut failure = None;
        for group in [one, rest] {
            let puts = group.iter().map(|(node, document)| async move {
                (node.clone(), self.put_part(node, id, document).await)
            });
            for (node, put) in join_all(puts).await {
                match put {
                    Ok((tag, _)) => {
                        if let Some(part) = new.parts.get_mut(&node) {
                            part.tag = Some(tag);
                        }
                    }
                    Err(e) => {
                        let problem = Problem::from(e);
                        failure = failure.or(Some(Problem {
                            detail: format!("node '{node}': {}", problem.detail),
                            ..problem
                        }));
                    }
                }
            }
        }
        let left = before.parts.keys().filter(|n| !new.parts.contains_key(*n));
        for node in left {
            // A node that is not there does it when it comes back.
            _ = self.delete_part(node, id).await;
        }
        self.keep_stage(id, &new).await?;
        failure.map_or(Ok(()), Err)
    }

    async fn keep_stage(&self, id: &str, new: &DomainGraph) -> Result<(), Problem> {
        let (name, graph) = (id.to_owned(), new.clone());
        self.blocking(move |s| s.step(&name, &graph)).await?;
        self.edit(|v| {
            if let Some(stored) = v.graphs.get_mut(id) {
                stored.graph = new.clone();
            }
        });
        Ok(())
    }

    /// When nothing waits any more for a function that has arrived, its graph is as any other.
    async fn empty(&self, id: &str, function: &str) {
        for _ in 0..EMPTY.1 {
            match self.is_empty(id, function).await {
                Ok(true) => {
                    if let Err(e) = self.end_move(id).await {
                        tracing::warn!("graph {id}: the FIFO before '{function}' stays for now: {e}");
                    }
                    return;
                }
                Ok(false) => {}
                // It is done when the node is looked at next.
                Err(e) => return tracing::warn!("graph {id}: {e}"),
            }
            tokio::time::sleep(EMPTY.0).await;
        }
    }

    async fn is_empty(&self, id: &str, function: &str) -> Result<bool, Problem> {
        let stored = self.graph(id)?;
        let Some(node) = stored.graph.functions.get(function) else { return Ok(true) };
        let path = at_function(id, function, "life");
        let life: FunctionLife = self.fleet.call(node, Method::GET, &path, None).await?;
        Ok(life.waiting == 0)
    }

    /// The parts of a graph as they are when no function of it moves.
    async fn end_move(&self, id: &str) -> Result<(), Problem> {
        let stored = self.graph(id)?;
        let graph = ServiceGraph::from_json(&stored.graph.document.to_string())?;
        let online = self.fleet.names().into_iter().collect();
        let still = DomainGraph { moving: None, ..stored.graph };
        let new = in_parts(&graph, &still, &self.view(), &online)?;
        self.put_stage(id, new, None).await
    }

    /// Moves that a controller began which is gone are ended, one way or the other.
    pub(crate) async fn end_moves(&self) {
        let view = self.view();
        for (id, stored) in view.graphs.iter().filter(|(_, g)| g.graph.moving.is_some() && !g.doubtful) {
            let Some(moving) = stored.graph.moving.clone() else { continue };
            let Ok(_move) =
                self.begin_move(id, format!("the end of the move of function '{}'", moving.function))
            else {
                continue;
            };
            let _changing = self.changing.lock().await;
            if let Err(e) = self.take_up(id, &moving).await {
                tracing::warn!("graph {id}: the move of function '{}' is not over: {e}", moving.function);
            }
        }
    }

    async fn take_up(&self, id: &str, moving: &Moving) -> Result<(), Problem> {
        let stored = self.graph(id)?;
        if stored.graph.moving.as_ref() != Some(moving) {
            return Ok(());
        }
        let graph = ServiceGraph::from_json(&stored.graph.document.to_string())?;
        let done = moving.stage == Stage::Arrived && self.is_empty(id, moving.function.as_str()).await?;
        match next(moving.stage, done) {
            Next::Over => {
                self.end_move(id).await?;
                if !done {
                    let text = format!(
                        "the move of function '{}' was given up; it goes on at node '{}'",
                        moving.function, moving.from
                    );
                    self.tell(Kind::Failed, Some(&moving.from), Some(id), text).await;
                }
                Ok(())
            }
            Next::Stage(stage, end) => {
                let at = if end == End::Target { &moving.to } else { &moving.from };
                let text = format!(
                    "the move of function '{}' was given up; it goes on at node '{at}'",
                    moving.function
                );
                let moving = Moving { stage, ..moving.clone() };
                let done = self.at_stage(id, &graph, &moving, at, (&mut Exchange::default(), None)).await;
                self.tell(Kind::Failed, Some(at), Some(id), text).await;
                done
            }
            Next::Again => Ok(()),
        }
    }
}

/// A graph's parts with the entity tags of those that nodes have already.
fn tagged(mut new: DomainGraph, before: &DomainGraph) -> DomainGraph {
    for (node, part) in &mut new.parts {
        let had = before.parts.get(node).filter(|b| b.document == part.document);
        part.tag = had.and_then(|b| b.tag.clone());
    }
    new
}

/// What is behind a function at a node.
fn at_function(graph: &str, function: &str, what: &str) -> String {
    format!("/graphs/{}/functions/{}/{what}", segment(graph), segment(function))
}

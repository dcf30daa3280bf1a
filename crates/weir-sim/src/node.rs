//! A node as its interface promises it to be: it takes a graph whole or not at all, keeps it on its disk, and refuses what comes from a controller that is older than
//! what it has seen. (That the real node keeps these promises is what the tests of `weir-node` are about.)

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use weir_api::domain::{Domain, Endpoint};
use weir_api::functions::{MoveStep, MoveStepDone};
use weir_api::mark::Mark;

/// A graph on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The document.
    pub document: String,
    /// Which version of the graph that is.
    pub version: u32,
    /// The entity tag.
    pub tag: String,
    /// What its function does with packets, if it has one here.
    pub life: Option<Life>,
    /// The state of its function: the version as which it began, which goes with it from node to node.
    pub state: Option<u32>,
}

/// The state of a function: what it does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It processes them.
    Runs,
    /// They wait.
    Stopped,
}

/// What a document, without the outer `sffg`, says of its function, if it has one. Others are the controller's.
fn said(document: &Value) -> Option<&str> {
    let functions = document.get("SFs")?.as_array()?;
    let function = functions.iter().find(|f| f.get("id").and_then(Value::as_str) == Some("f"))?;
    Some(function.get("state").and_then(Value::as_str).unwrap_or("running"))
}

/// What the function of a document does with packets, if it has one; `before` is what it did.
fn life(document: &Value, before: Option<Life>) -> Option<Life> {
    Some(match said(document)? {
        "stopped" => Life::Stopped,
        // It is as it was, and stopped if it was not there.
        "moving" => before.unwrap_or(Life::Stopped),
        _ => Life::Runs,
    })
}

/// The state that outlives the daemon.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    /// Graphs by identifier.
    pub graphs: BTreeMap<String, Held>,
    /// How far the controller had got.
    pub mark: Option<Mark>,
    /// Counts changes.
    pub revision: u64,
}

/// A node.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// Its number, from 1.
    pub number: usize,
    /// What it remembers.
    pub disk: Disk,
    /// A copy of its disk of some time ago.
    pub old: Disk,
}

/// The changes that a request made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The graph.
    pub graph: String,
    /// The version that the node had, and the one that it runs now.
    pub versions: (Option<u32>, Option<u32>),
}

/// The version that a document, without the outer `sffg`, is: its name says it.
pub fn version(document: &Value) -> u32 {
    let name = document.get("name").and_then(Value::as_str).unwrap_or_default();
    name.strip_prefix('v').and_then(|n| n.parse().ok()).unwrap_or_default()
}

/// An answer: its status and its body.
pub type Said = (StatusCode, String);

fn problem(status: StatusCode, text: &str) -> Said {
    let body = json!({ "type": "about:blank", "title": text, "status": status.as_u16(), "detail": text });
    (status, body.to_string())
}

impl Node {
    /// Does what is asked. `as_owner` is whose its graphs are, and `refuses` whether it does not take graphs at present.
    pub fn answer(
        &mut self,
        (method, path): (&Method, &str),
        mark: Option<&Mark>,
        body: &str,
        as_owner: &str,
        refuses: bool,
    ) -> (Said, Option<Effect>) {
        if let Some(mark) = mark {
            match &self.disk.mark {
                Some(now) if !now.admits(mark) => {
                    if !method.is_safe() {
                        let text = "the controller is older than the node";
                        return (problem(StatusCode::PRECONDITION_FAILED, text), None);
                    }
                }
                _ => self.disk.mark = Some(mark.clone()),
            }
        }
        let none = |value: Value| ((StatusCode::OK, value.to_string()), None);
        match (method, path) {
            (&Method::GET, "/health") => {
                let mark = self.disk.mark.as_ref().map(|m| json!(m));
                let link = json!({ "url": "", "node": "", "connected": true, "since": 0, "mark": mark });
                none(json!({ "version": "0", "ready": true, "controller": link, "graphs": 0, "failed": 0 }))
            }
            (&Method::GET, "/domain") => none(json!(self.domain())),
            (&Method::GET, "/graphs") => none(self.disk.graphs.iter().map(|(id, g)| {
                json!({
                    "id": id, "name": id, "revision": 1, "tag": g.tag, "owner": as_owner, "functions": 0, "state": "running",
                })
            }).collect()),
            (&Method::POST, path) if path.ends_with("/move-step") => (self.move_step(path, body), None),
            (method, path) if path.contains("/functions/") => (self.function(method, path, body), None),
            (&Method::GET, path) if path.ends_with("/status") => none(json!({
                "id": "", "name": "", "state": "running", "functions": [], "links": [],
            })),
            (&Method::PUT, path) if path.starts_with("/graphs/") => self.put(&path[8..], body, refuses),
            (&Method::DELETE, path) if path.starts_with("/graphs/") => match self.disk.graphs.remove(&path[8..]) {
                Some(held) => {
                    let effect = Effect { graph: path[8..].to_owned(), versions: (Some(held.version), None) };
                    ((StatusCode::NO_CONTENT, String::new()), Some(effect))
                }
                None => (problem(StatusCode::NOT_FOUND, "there is no such graph"), None),
            },
            _ => (problem(StatusCode::NOT_FOUND, "there is no such thing"), None),
        }
    }

    /// What is behind a function.
    fn function(&mut self, method: &Method, path: &str, body: &str) -> Said {
        let id = path.split('/').nth(2).unwrap_or_default();
        let what = path.rsplit('/').next().unwrap_or_default();
        let Some(held) = self.disk.graphs.get_mut(id).filter(|g| g.life.is_some()) else {
            return problem(StatusCode::NOT_FOUND, "there is no such function");
        };
        match (method, what) {
            (&Method::GET, "life") => {
                let state = if held.life == Some(Life::Stopped) { "stopped" } else { "running" };
                (StatusCode::OK, json!({ "state": state, "waiting": 0, "dropped": 0 }).to_string())
            }
            (&Method::GET, "snapshot") => (StatusCode::OK, held.state.unwrap_or_default().to_string()),
            (&Method::PUT, "snapshot") if held.life == Some(Life::Stopped) => {
                held.state = body.parse().ok();
                (StatusCode::NO_CONTENT, String::new())
            }
            _ => problem(StatusCode::CONFLICT, "the function is not stopped"),
        }
    }

    /// A part of a move.
    fn move_step(&mut self, path: &str, body: &str) -> Said {
        let id = path.split('/').nth(2).unwrap_or_default();
        let Ok(step) = serde_json::from_str::<MoveStep>(body) else {
            return problem(StatusCode::BAD_REQUEST, "this is no step of a move");
        };
        let Some(held) = self.disk.graphs.get_mut(id) else {
            return problem(StatusCode::NOT_FOUND, "there is no such graph");
        };
        if held.tag != step.tag {
            return problem(StatusCode::PRECONDITION_FAILED, "the graph is another one by now");
        }
        let asked = [&step.stop, &step.go, &step.life].into_iter().any(Option::is_some);
        if (asked || step.give.is_some() || step.take.is_some()) && held.life.is_none() {
            return problem(StatusCode::NOT_FOUND, "there is no such function");
        }
        if let Some(give) = &step.give {
            if held.life != Some(Life::Stopped) {
                return problem(StatusCode::UNPROCESSABLE_ENTITY, "the function is not stopped");
            }
            held.state = give.round.parse().ok();
        }
        let becomes = step.stop.map(|_| Life::Stopped).or(step.go.map(|_| Life::Runs));
        if let Some(life) = becomes {
            let whole: Value = serde_json::from_str(&held.document).unwrap_or_default();
            if said(&whole["sffg"]) != Some("moving") && held.life != Some(life) {
                return problem(StatusCode::UNPROCESSABLE_ENTITY, "the function is not about to move");
            }
            held.life = Some(life);
        }
        let done = MoveStepDone {
            counted: step.count.into_iter().map(|sap| (sap, 0)).collect(),
            round: step.take.map(|_| held.state.unwrap_or_default().to_string()),
            ..MoveStepDone::default()
        };
        (StatusCode::OK, json!(done).to_string())
    }

    /// The data plane ends, and another one begins: what functions do that are about to move is not known to it.
    pub fn lose_data_plane(&mut self) {
        for held in self.disk.graphs.values_mut() {
            let whole: Value = serde_json::from_str(&held.document).unwrap_or_default();
            if said(&whole["sffg"]) == Some("moving") {
                held.life = Some(Life::Stopped);
            }
        }
    }

    fn put(&mut self, id: &str, document: &str, refuses: bool) -> (Said, Option<Effect>) {
        let changed = |revision: u64, unchanged: bool| {
            (StatusCode::OK, json!({ "id": id, "revision": revision, "unchanged": unchanged }).to_string())
        };
        if self.disk.graphs.get(id).is_some_and(|g| g.document == document) {
            return (changed(self.disk.revision, true), None);
        }
        if refuses {
            return (problem(StatusCode::INSUFFICIENT_STORAGE, "the disk is full"), None);
        }
        self.disk.revision += 1;
        let whole: Value = serde_json::from_str(document).unwrap_or_default();
        let version = version(&whole["sffg"]);
        let tag = format!("{}-{version}", self.disk.revision);
        let before = self.disk.graphs.get(id).and_then(|g| g.life);
        let life = life(&whole["sffg"], before);
        // A function that is stopped at first waits for the state of another; else it begins.
        let had = self.disk.graphs.get(id).filter(|g| g.life.is_some()).and_then(|g| g.state);
        let state = life.and_then(|l| had.or((l == Life::Runs).then_some(version)));
        let held = Held { document: document.to_owned(), version, tag, life, state };
        let before = self.disk.graphs.insert(id.to_owned(), held).map(|h| h.version);
        let effect = Effect { graph: id.to_owned(), versions: (before, Some(version)) };
        (changed(self.disk.revision, false), Some(effect))
    }

    /// What it has: an interface for graphs, and one to other nodes.
    fn domain(&self) -> Domain {
        let endpoint = |interface: &str, addresses: Vec<String>| Endpoint {
            interface: interface.to_owned(),
            up: true,
            mac: None,
            mtu: Some(1500),
            addresses,
            graph: None,
            vlans: Vec::new(),
            neighbours: Vec::new(),
        };
        let address = format!("10.0.0.{}/24", self.number);
        Domain {
            endpoints: vec![endpoint("lan", Vec::new()), endpoint("m0", vec![address])],
            ..Domain::default()
        }
    }
}

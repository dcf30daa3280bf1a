//! Answers for people and programs.

mod changes;
mod coverage;
mod decided;
mod decode;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;
use weir_ir::program::MetaField;
use weir_model::requirement::Goal;
use weir_packet::Provenance;
use weir_topology::Requester;
use weir_verify::checks::{Evidence, Meta, Rule, Stage, Stopped};
use weir_verify::{Entry, Hop, How, NodeId};

use crate::answer::{Answer, Asked, Status};
use crate::world::World;

pub(crate) use changes::{ARRIVES, MADE};
pub use changes::{Changes, Fated, Treated};
pub use coverage::{Consolidation, Coverage, Dead, DropFound};

/// The findings about a document.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The document.
    pub file: String,
    /// The worst of the findings.
    pub verdict: Status,
    /// One for each requirement, in their order.
    pub findings: Vec<Finding>,
    /// What else a reader should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A finding about a requirement.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The requirement as written; of a module's security `security MODULE ROLE`.
    pub requirement: String,
    /// Its line in its document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Its column there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// Whether it holds.
    pub verdict: Status,
    /// Whether it held before the change that is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_change: Option<Status>,
    /// Why, in a sentence.
    pub reason: String,
    /// Where packets may be lost for lack of capacity, which was left out of account.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    /// Where packets wait for others, such as answers to what is asked for them: it is assumed that these come.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
    /// Where it could not be found out: the elements that a packet passed, the last one being where that is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stopped_at: Vec<String>,
    /// How far it was looked, if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explored: Option<String>,
    /// What was not tried before this was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_tried: Option<&'static str>,
    /// The packets of the run that shows it, in the order in which they come in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<Shown>,
    /// Their path, step by step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Step>,
    /// The time at which they come in, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub time: u64,
    /// Random numbers that the run draws, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub random: Vec<u32>,
    /// The seed of hashes.
    #[serde(skip_serializing_if = "is_zero")]
    pub hash_seed: u64,
}

/// A packet of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Where it comes in.
    pub place: String,
    /// Whether it begins with an IP header, else with an Ethernet header.
    pub ip: bool,
    /// Its length in bytes.
    pub length: usize,
    /// What else there is to it, if that is out of the ordinary: what its sender left to the device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<String>,
    /// In one line.
    pub summary: String,
    /// Its headers, one a line.
    pub headers: Vec<String>,
    /// Its bytes in hexadecimal.
    pub hex: String,
    /// Its bytes.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// A packet at an element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Which packet: those that come in have the first numbers, copies and answers the next ones.
    pub packet: usize,
    /// The element.
    pub node: String,
    /// Its class.
    pub class: String,
    /// The input by which the packet came.
    pub input: u32,
    /// The output by which it left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u32>,
    /// What decided: a rule, pattern, route, or whether an entry of a table was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decided: Vec<String>,
    /// What the element changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// How its path ended here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Report {
    /// The report on some answers about a world.
    pub fn new(file: &str, world: &World, answers: &[Answer]) -> Report {
        let findings: Vec<Finding> = answers.iter().map(|a| Finding::new(world, a)).collect();
        let verdict = findings.iter().map(|f| f.verdict).max().unwrap_or(Status::Holds);
        Report { file: file.to_owned(), verdict, findings, notes: world.notes.clone() }
    }
}

/// What it means that an answer has [`Answer::not_tried`].
const NOT_TRIED: &str = "longer sequences of packets that came before, in which one more of a kind is possible only thanks to others";

impl Finding {
    /// What is to be said about an answer.
    pub fn new(world: &World, a: &Answer) -> Finding {
        let position = match &a.asked {
            Asked::Requirement(r) => r.position,
            Asked::Security { .. } => None,
        };
        let mut f = Finding {
            requirement: a.asked.to_string(),
            line: position.map(|p| p.line),
            column: position.map(|p| p.column),
            verdict: a.status,
            without_change: None,
            reason: reason(world, a),
            losses: a.assumptions.losses.clone(),
            waiting: a.assumptions.waiting.clone(),
            stopped_at: a.stopped.as_ref().map(|s| path_to(world, s)).unwrap_or_default(),
            explored: a.doubt.is_some().then(|| a.explored.to_string()),
            not_tried: a.not_tried.then_some(NOT_TRIED),
            packets: Vec::new(),
            trace: Vec::new(),
            time: 0,
            random: Vec::new(),
            hash_seed: 0,
        };
        let example = a.stopped.as_ref().and_then(|s| s.example.as_ref());
        if let Some(e) = a.evidence.as_ref().or(a.near_miss.as_ref()).or(example) {
            f.packets = packets(world, e);
            f.trace = steps(world, &e.replay.hops);
            f.time = e.now;
            f.random.clone_from(&e.randoms);
            f.hash_seed = e.hash_seed;
        }
        f
    }
}

fn reason(world: &World, a: &Answer) -> String {
    match (&a.doubt, &a.asked) {
        (Some(doubt), _) => match doubt.node() {
            Some(node) => world.not_known(node),
            None => doubt.to_string(),
        },
        (None, Asked::Requirement(r)) => {
            let example = if a.near_miss.is_some() { "; this one comes nearest" } else { "" };
            let waits = a.status == Status::Holds && !a.assumptions.waiting.is_empty();
            let later = if waits { ", some after they waited" } else { "" };
            reason_of_goal(a.status, &r.goal) + later + example
        }
        (None, Asked::Security { module, role, broken }) => reason_of_security(module, *role, *broken),
    }
}

/// The names of the elements that a packet passed, and of the one where it could not be followed.
fn path_to(world: &World, stopped: &Stopped) -> Vec<String> {
    let nodes = stopped.path.iter().map(|p| p.node).chain([stopped.node]);
    let seen = nodes.filter(|n| world.labels.get(n).is_none_or(|l| !l.hidden));
    let mut names: Vec<String> = seen.map(|n| name_of(world, n)).filter(|n| !n.is_empty()).collect();
    names.dedup();
    names
}

fn reason_of_security(module: &str, role: Requester, broken: Option<(Rule, Stage)>) -> String {
    let Some((rule, stage)) = broken else {
        return format!("{module} receives and sends only what one of a {role} may");
    };
    let what = match rule {
        Rule::Addressing => {
            return format!("a {role} may not have traffic that is not addressed to {module}");
        }
        Rule::Source => "has a source that is not its to use",
        Rule::Destination => "goes to a destination that did not agree",
    };
    let when = match stage {
        Stage::StandAlone => "sends by itself",
        Stage::Packet => "sends for this packet",
        Stage::Handshake => "sends when what it sent is answered",
    };
    format!("what {module} {when} {what}")
}

fn reason_of_goal(status: Status, goal: &Goal) -> String {
    match (status, goal) {
        (Status::Inconclusive, _) => "it is not known".to_owned(),
        (Status::Holds, Goal::Can { to, .. }) => format!("this packet arrives at {to}"),
        (Status::Violated, Goal::Can { to, .. }) => format!("no such packet arrives at {to}"),
        (Status::Holds, Goal::Only { to, .. }) => format!("all packets that arrive at {to} match"),
        (Status::Violated, Goal::Only { to, .. }) => {
            format!("this packet arrives at {to} and does not match there")
        }
        (Status::Holds, Goal::All { to, .. }) => format!("all such packets arrive at {to}"),
        (Status::Violated, Goal::All { to, .. }) => {
            format!("this packet does not arrive at {to} as required")
        }
        (Status::Holds, Goal::Never { to, .. }) => format!("no such packet arrives at {to}"),
        (Status::Violated, Goal::Never { to, .. }) => format!("this packet arrives at {to}"),
        (Status::Holds, Goal::Invariant { .. }) => "the fields keep their values on every path".to_owned(),
        (Status::Violated, Goal::Invariant { to, .. }) => {
            format!("this packet is changed on its path to {to}")
        }
        (Status::Holds, Goal::Return { from, .. }) => format!("the reply comes back to {from}"),
        (Status::Violated, Goal::Return { from, .. }) => format!("no reply comes back to {from}"),
        (Status::Holds, Goal::NoLoops) => "no packet comes back to where it was".to_owned(),
        (Status::Violated, Goal::NoLoops) => "this packet loops".to_owned(),
    }
}

fn packets(world: &World, e: &Evidence) -> Vec<Shown> {
    let mut bytes = e.packets.iter().zip(&e.meta);
    let starts = e.replay.starts.iter();
    let mut out = Vec::new();
    for (entry, start) in e.entered.iter().zip(starts) {
        let Entry::Packet(at, _) = entry else { continue };
        let Some((bytes, meta)) = bytes.next() else { break };
        let hop = e.replay.hops.get(*start);
        let ip = hop.is_some_and(|h| h.net == Some(0));
        out.push(shown(place_name(world, at.node), ip, (bytes.as_slice(), meta)));
    }
    out
}

fn shown(place: String, ip: bool, (bytes, meta): (&[u8], &Meta)) -> Shown {
    Shown {
        place,
        ip,
        length: bytes.len(),
        state: states(meta),
        summary: if ip { weir_net::describe_ip(bytes) } else { weir_net::describe(bytes) },
        headers: decode::headers(bytes, ip),
        hex: decode::hex(bytes),
        bytes: bytes.to_vec(),
    }
}

/// What of a packet's metadata is out of the ordinary.
fn states(meta: &Meta) -> Vec<String> {
    let of = |field| MetaField::ALL.into_iter().zip(meta).find(|(f, _)| *f == field).map_or(0, |(_, v)| *v);
    let mut all = Vec::new();
    match of(MetaField::Checksum) {
        1 => all.push("its checksum was verified by the device".to_owned()),
        2 => all.push("its checksum is left to the device".to_owned()),
        _ => {}
    }
    match of(MetaField::SegmentSize) {
        0 => {}
        n => all.push(format!("it is left to the device to cut into segments of {n} bytes")),
    }
    match of(MetaField::PacketType) {
        0 => {}
        1 => all.push("delivered as a broadcast".to_owned()),
        2 => all.push("delivered as a multicast".to_owned()),
        3 => all.push("for another host".to_owned()),
        n => all.push(format!("packet type {n}")),
    }
    all
}

/// The name of what a packet enters by: of the device rather than of the element.
fn place_name(world: &World, node: NodeId) -> String {
    let begins = |s: &&crate::world::Location| {
        s.edge_ports.iter().any(|g| g.start.as_ref().is_some_and(|s| s.place.node == node))
            && !s.name.is_empty()
    };
    let named = world.locations.iter().find(begins).map(|s| s.name.clone());
    named.or_else(|| world.behind(node).map(|n| place_name(world, n))).unwrap_or_else(|| name_of(world, node))
}

fn name_of(world: &World, node: NodeId) -> String {
    world.net.nodes().get(node as usize).map(|n| n.name.clone()).unwrap_or_default()
}

fn class_of(world: &World, node: NodeId) -> &str {
    world.labels.get(&node).map_or("", |l| l.class.as_str())
}

/// The path of the packets; what stands for no element is left out, but for what happens there at the end.
fn steps(world: &World, hops: &[Hop]) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    // Where the last step of each packet stands.
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for hop in hops {
        let label = world.labels.get(&hop.place.node);
        if label.is_some_and(|l| l.hidden) {
            for left in hop.after.iter().filter(|l| matches!(l.how, How::Drop(..) | How::Loop | How::Opaque))
            {
                if let Some(step) = last.get(&left.packet).and_then(|&i| out.get_mut(i)) {
                    step.end = end_of(world, hop.place.node, &left.how);
                }
            }
            continue;
        }
        if hop.after.is_empty() {
            last.insert(hop.packet, out.len());
            out.push(step(world, hop, None));
        }
        for left in &hop.after {
            last.insert(left.packet, out.len());
            out.push(step(world, hop, Some(left)));
        }
    }
    out
}

fn step(world: &World, hop: &Hop, left: Option<&weir_verify::Left>) -> Step {
    let node = hop.place.node;
    let output = left.and_then(|l| match l.how {
        How::Exit(port) => Some(port),
        _ => None,
    });
    let label = world.labels.get(&node).cloned().unwrap_or_default();
    let mut decided = decided::decided(&label, hop, output);
    if decided.is_empty() {
        decided.extend(
            hop.lookups
                .iter()
                .map(|(table, found)| format!("{} in {table}", if *found { "found" } else { "not found" })),
        );
    }
    decided.dedup();
    Step {
        packet: left.map_or(hop.packet, |l| l.packet),
        node: name_of(world, node),
        class: label.class,
        input: hop.place.port,
        output,
        decided,
        changes: left.map_or_else(Vec::new, |l| changes(hop, l)),
        end: left.map_or_else(|| Some("consumed".to_owned()), |l| end_of(world, node, &l.how)),
    }
}

/// What an element did to a packet that left it.
fn changes(hop: &Hop, left: &weir_verify::Left) -> Vec<String> {
    match left.provenance {
        Provenance::Made if left.is_new => {
            vec![format!("a packet of its own: {}", decode::summary(&left.bytes))]
        }
        Provenance::Answer if left.is_new => {
            std::iter::once("answers it".to_owned()).chain(decode::changes(hop, &left.bytes)).collect()
        }
        _ => decode::changes(hop, &left.bytes),
    }
}

fn end_of(world: &World, node: NodeId, how: &How) -> Option<String> {
    Some(match how {
        How::Exit(port) => {
            let wired = world.net.nodes().get(node as usize)?.outputs.get(*port as usize).copied().flatten();
            return wired.is_none().then(|| format!("left by output {port}, which leads nowhere"));
        }
        How::Sunk => "left".to_owned(),
        How::Opaque => "what happens here is not known".to_owned(),
        How::Loop => "came back to a place as it had been there before".to_owned(),
        How::Drop(_, reason) => format!("dropped: {reason}"),
        How::Held => "waits here".to_owned(),
        How::Orphaned => "dropped: what held it is gone".to_owned(),
    })
}

impl Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

//! Traces through functions that are not inline: where a graph meets them, and what those see that follow packets themselves.
//!
//! A worker of a function follows all its packets while its graph is traced. The path of one of them is a part of the path in the graph
//! if it came in with the bytes that the graph sent, and no other one did. What a worker says is not trusted: it can be wrong about
//! its own function, and nothing else.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use weir_model::graph::ServiceGraph;
use weir_net::without_transport_checksum;
use weir_protocol::{Event, FunctionPort, TraceStep};

use crate::connection::{Connection, EventStream};
use crate::desired::DesiredGraph;
use crate::guard;
use crate::instance::Kind;

/// Most paths that are kept of a function until the graph's own come.
const MAX_SEEN: usize = 1024;
/// Most steps that are taken from a worker's trace.
const MAX_STEPS: usize = 256;
/// Longest text of a worker, in characters.
const MAX_TEXT: usize = 200;
/// How long a worker's path may come after that of the graph.
const ROUNDS: u32 = 30;
const STEP: Duration = Duration::from_millis(10);

/// A function's own trace.
pub type FunctionTrace = (Connection, EventStream);

/// The devices at which a graph meets its functions that are not inline.
pub fn function_ports(graph: &DesiredGraph) -> Vec<FunctionPort> {
    let Ok(document) = ServiceGraph::from_json(&graph.whole().to_string()) else { return Vec::new() };
    let Ok(flat) = guard::parse(&graph.switch.config) else { return Vec::new() };
    let mut ports = Vec::new();
    for f in graph.functions.iter().filter(|f| f.kind != Kind::Inline) {
        let names = document.functions.iter().find(|d| d.id.to_string() == f.id);
        let names = names.into_iter().flat_map(|d| &d.ports);
        for (device, port) in f.interfaces.iter().zip(names) {
            let is_device = |class: &str| matches!(class, "FromDevice" | "ToDevice");
            let own = flat.elements.iter().filter(|e| is_device(&e.class) && e.args.first() == Some(device));
            ports.extend(own.map(|e| FunctionPort {
                element: e.name.clone(),
                function: f.id.clone(),
                port: format!("sf:{}:{}", f.id, port.id),
                kind: f.kind.name().to_owned(),
            }));
        }
    }
    ports
}

/// The path of a packet in a function.
#[derive(Debug)]
struct Path {
    function: String,
    /// The packet as it came in.
    packet: Vec<u8>,
    steps: Vec<TraceStep>,
}

/// Makes the traces of functions parts of that of their graph.
#[derive(Debug, Default)]
pub struct Joining {
    functions: BTreeSet<String>,
    paths: Arc<Mutex<VecDeque<Path>>>,
    /// They end with it.
    readers: JoinSet<()>,
}

fn lock(paths: &Mutex<VecDeque<Path>>) -> MutexGuard<'_, VecDeque<Path>> {
    paths.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Joining {
    /// Takes what a function sees of its packets.
    pub fn add(&mut self, function: &str, (connection, mut events): FunctionTrace) {
        self.functions.insert(function.to_owned());
        let (paths, function) = (self.paths.clone(), function.to_owned());
        self.readers.spawn(async move {
            let _connection = connection;
            while let Some(event) = events.next().await {
                keep(&paths, &function, event);
            }
        });
    }

    /// Puts into a graph's trace what its functions have seen of the packet.
    pub async fn join(&self, event: &mut Event) {
        let Event::Trace { steps, .. } = event else { return };
        let mut whole = Vec::with_capacity(steps.len());
        for step in steps.drain(..) {
            let function = step.element.split(':').nth(1).unwrap_or_default();
            let inner = match function_of(&step, &self.functions) {
                Some(packet) => self.path(function, &packet).await,
                None => Vec::new(),
            };
            let (graph, number) = (format!("{}/{function}", step.graph), step.packet);
            whole.push(step);
            whole.extend(inner.into_iter().map(|s| plain(s, &graph, number)));
        }
        *steps = whole;
    }

    /// What a function saw of a packet, if that was one packet.
    async fn path(&self, function: &str, packet: &[u8]) -> Vec<TraceStep> {
        for round in 0..ROUNDS {
            if round > 0 {
                sleep(STEP).await;
            }
            let mut paths = lock(&self.paths);
            let same = |p: &Path| p.function == function && p.packet == packet;
            let found: Vec<usize> = (0..paths.len()).filter(|&i| paths.get(i).is_some_and(same)).collect();
            match found[..] {
                [] => {}
                [one] => return paths.remove(one).map(|p| p.steps).unwrap_or_default(),
                _ => return Vec::new(),
            }
        }
        Vec::new()
    }
}

fn keep(paths: &Mutex<VecDeque<Path>>, function: &str, event: Event) {
    let Event::Trace { bytes, mut steps, .. } = event else { return };
    let Some(packet) = bytes_of(&bytes) else { return };
    steps.truncate(MAX_STEPS);
    let mut paths = lock(paths);
    if paths.len() >= MAX_SEEN {
        paths.pop_front();
    }
    let packet = without_transport_checksum(&packet);
    paths.push_back(Path { function: function.to_owned(), packet, steps });
}

/// The packet of a step in a function that follows packets itself.
fn function_of(step: &TraceStep, functions: &BTreeSet<String>) -> Option<Vec<u8>> {
    let function = step.element.strip_prefix("sf:")?.split(':').next()?;
    let packet = functions.contains(function).then(|| bytes_of(&step.bytes))??;
    (!packet.is_empty()).then(|| without_transport_checksum(&packet))
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// A step of a worker, as a part of the graph's trace: the texts are a worker's, and go to a terminal.
fn plain(step: TraceStep, graph: &str, packet: u32) -> TraceStep {
    let text = |text: String| -> String {
        let visible = text.chars().map(|c| if c.is_control() { '?' } else { c });
        visible.take(MAX_TEXT).collect()
    };
    TraceStep {
        packet,
        graph: graph.to_owned(),
        element: text(step.element),
        class: text(step.class),
        port: step.port,
        changes: step.changes.into_iter().take(MAX_STEPS).map(text).collect(),
        end: step.end.map(text),
        bytes: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(element: &str, bytes: &str) -> TraceStep {
        TraceStep {
            packet: 2,
            graph: "g".into(),
            element: element.into(),
            class: "process".into(),
            port: 0,
            changes: Vec::new(),
            end: None,
            bytes: bytes.into(),
        }
    }

    fn event(bytes: &str, steps: Vec<TraceStep>) -> Event {
        Event::Trace { from: "x".into(), bytes: bytes.into(), summary: String::new(), steps }
    }

    fn elements(event: &Event) -> Vec<(&str, &str, u32)> {
        let Event::Trace { steps, .. } = event else { panic!("{event:?}") };
        steps.iter().map(|s| (s.graph.as_str(), s.element.as_str(), s.packet)).collect()
    }

    #[tokio::test]
    async fn what_a_worker_saw_stands_in_its_place_if_it_saw_that_packet_once() {
        let mut joining = Joining::default();
        joining.functions.insert("f".into());
        let worker = |bytes: &str| event(bytes, vec![step("a\u{1b}b", ""), step("c", "")]);
        for bytes in ["0102", "0304", "0304", "nonsense"] {
            keep(&joining.paths, "f", worker(bytes));
        }
        let mut traced = event("00", vec![step("in", ""), step("sf:f:l", "0102"), step("out", "")]);
        joining.join(&mut traced).await;
        let wanted =
            [("g", "in", 2), ("g", "sf:f:l", 2), ("g/f", "a?b", 2), ("g/f", "c", 2), ("g", "out", 2)];
        assert_eq!(elements(&traced), wanted);
        // Two that look the same, one that it never saw, and one of another function.
        for (place, bytes) in [("sf:f:l", "0304"), ("sf:f:l", "0506"), ("sf:g:l", "0102")] {
            let mut traced = event("00", vec![step(place, bytes)]);
            joining.join(&mut traced).await;
            assert_eq!(elements(&traced), [("g", place, 2)]);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let paths = Mutex::default();
        for _ in 0..2 * MAX_SEEN {
            keep(&paths, "f", event("00", vec![step("a", ""); 2 * MAX_STEPS]));
        }
        let paths = lock(&paths);
        assert_eq!((paths.len(), paths[0].steps.len()), (MAX_SEEN, MAX_STEPS));
    }
}

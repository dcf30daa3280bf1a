//! The status of a graph: what the data plane counts, in the words of the document.

use std::collections::{BTreeMap, BTreeSet};

use weir_api::status::{
    DirectLink, Drift, DropCount, ElementDrops, ElementTime, FlowCache, FunctionStatus, GraphStatus,
    LinkStatus, SapStatus, State,
};
use weir_model::graph::{FunctionState, PortRef, ServiceGraph};
use weir_protocol::{Answer, Command, DirectStatus};

use crate::compute::Health;
use crate::connection::{CallError, DataPlane};
use crate::desired::{DesiredGraph, FunctionRuntime};
use crate::expand::Composed;
use crate::instance::Kind;
use weir_api::watch::Direction;
use weir_model::nearest::nearest;

/// The counters of a graph, by where they stand.
#[derive(Debug, Default)]
struct Counters {
    /// Counter elements of what enters the graph's switch from a place.
    from: BTreeMap<PortRef, String>,
    /// Counter elements of what leaves it to a place.
    to: BTreeMap<PortRef, String>,
}

/// The status of a graph in `state`; figures only if it runs. `health` and `cores` are of a function that is not inline, `own_drops` are those
/// that such functions count, by function.
///
/// # Errors
/// The data plane cannot be reached.
pub async fn status<D: DataPlane>(
    plane: &D,
    graph: &DesiredGraph,
    state: State,
    drift: Vec<Drift>,
    health: &(dyn Fn(&FunctionRuntime) -> Option<Health> + Sync),
    cores: &(dyn Fn(&FunctionRuntime) -> Option<String> + Sync),
    own_drops: &BTreeMap<String, BTreeMap<String, u64>>,
) -> Result<GraphStatus, CallError> {
    let document = match ServiceGraph::from_json(&graph.whole().to_string()) {
        Ok(d) => d,
        Err(e) => return Err(CallError::Refused(vec![format!("the stored document cannot be read: {e}")])),
    };
    let call = plane.call(Command::Status { graph: graph.id.clone() }).await;
    let figures = match call {
        Ok(Answer::Status { status }) => Some(status),
        Ok(other) => return Err(CallError::Lost(format!("it answered Status with {other:?}"))),
        // It is not there.
        Err(CallError::Refused(_)) => None,
        Err(CallError::Lost(_)) if !matches!(state, State::Running | State::Degraded { .. }) => None,
        Err(e) => return Err(e),
    };
    let counters = counters(&document, graph, figures.as_ref());
    let past = past(&document, graph, figures.as_ref());
    let mut read = Reader { plane, graph: &graph.id, known: BTreeMap::new() };

    let mut functions = Vec::new();
    for f in &document.functions {
        let Some(runtime) = graph.function(f.id.as_str()) else { continue };
        if Composed::has_port(&graph.composed, f.id.as_str()) {
            continue;
        }
        let places = f.ports.iter().map(|p| PortRef::Function { function: f.id.clone(), port: p.id.clone() });
        let (mut packets_in, mut packets_out) = read.passed(&counters, places.clone()).await?;
        for place in places {
            if let Some(direct) = past.get(&place) {
                packets_in = packets_in.saturating_add(direct.received_packets);
                packets_out = packets_out.saturating_add(direct.sent_packets);
            }
        }
        functions.push(FunctionStatus {
            id: f.id.to_string(),
            name: f.name.to_string(),
            image: runtime.image.clone(),
            state: match (&state, health(runtime)) {
                (State::Running | State::Degraded { .. }, Some(Health::Down { reason })) => {
                    State::Failed { reason }
                }
                (State::Running | State::Degraded { .. }, Some(Health::Hung { reason })) => {
                    State::Degraded { reason }
                }
                (_, Some(Health::Paused)) => State::Stopped,
                (State::Running | State::Degraded { .. }, _) if f.state == Some(FunctionState::Stopped) => {
                    State::Stopped
                }
                (State::Running | State::Degraded { .. }, _) if f.state == Some(FunctionState::Bypass) => {
                    State::Bypass
                }
                (State::Running | State::Degraded { .. }, Some(Health::Running)) => {
                    match figures.as_ref().and_then(|s| device_down(s, runtime)) {
                        Some(reason) => State::Degraded { reason },
                        None => State::Running,
                    }
                }
                (state, _) => state.clone(),
            },
            engine: runtime.kind.name().into(),
            cores: cores(runtime),
            packets_in,
            packets_out,
            drops: match (own_drops.get(&runtime.id), &figures) {
                (Some(own), _) => counted(own.iter().map(|(reason, count)| (reason.as_str(), *count))),
                (None, Some(status)) => drops(status, &runtime.element),
                (None, None) => Vec::new(),
            },
        });
    }

    for c in &graph.composed {
        let outer = c.ports.iter().filter_map(|(_, stand)| Composed::outer(stand));
        let passed = read.passed(&counters, outer).await?;
        of_composed(&mut functions, c, passed);
    }

    let mut links = Vec::new();
    for Link { from, to, counter, at_end } in links_of(&document, &counters) {
        let (mut packets, mut bytes) =
            (read.sum(Some(&counter), "count").await?, read.sum(Some(&counter), "byte_count").await?);
        if let Some(direct) = past.get(if at_end { &to } else { &from }) {
            let (more, more_bytes) = match at_end {
                true => (direct.received_packets, direct.received_bytes),
                false => (direct.sent_packets, direct.sent_bytes),
            };
            (packets, bytes) = (packets.saturating_add(more), bytes.saturating_add(more_bytes));
        }
        let direct =
            past.get(&from).filter(|direct| direct.to.as_deref() == device_of(&document, graph, &to));
        links.push(LinkStatus {
            from: Composed::shown(&graph.composed, &from),
            to: Composed::shown(&graph.composed, &to),
            packets,
            bytes,
            direct: direct.filter(|d| d.to.is_some()).map(|d| DirectLink { setup_micros: d.micros }),
        });
    }
    let mut saps = Vec::new();
    for sap in &document.saps {
        let (packets_out, packets_in) =
            read.passed(&counters, [PortRef::Sap(sap.id.clone())].into_iter()).await?;
        saps.push(SapStatus { id: sap.id.to_string(), packets_in, packets_out });
    }
    let profile = figures.iter().flat_map(|s| &s.profile).map(|e| (e.element.clone(), e.packets, e.cycles));
    let flows = figures.iter().flat_map(|s| &s.flows).map(|c| FlowCache {
        table: c.table.clone(),
        entries: c.entries,
        hits: c.hits,
        misses: c.misses,
    });
    let drops = figures.iter().flat_map(|s| &s.drops).flat_map(|(element, reasons)| {
        let some = reasons.iter().filter(|(_, count)| **count > 0);
        some.map(|(reason, &count)| ElementDrops { element: element.clone(), reason: reason.clone(), count })
    });
    Ok(GraphStatus {
        id: graph.id.clone(),
        name: document.name.to_string(),
        nodes: Vec::new(),
        tenant: document.tenant.as_ref().map(ToString::to_string),
        state,
        functions,
        links,
        saps,
        drops: drops.collect(),
        profile: ElementTime::of(profile),
        flows: flows.collect(),
        drift,
        monitoring: None,
        warnings: crate::mtu::told(graph),
    })
}

/// A place of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedPoint {
    /// The element, or an input or output of one, that its packets pass.
    pub element: String,
    /// As it was asked for.
    pub place: String,
    /// For places of flow rules: [`Direction::From`] or [`Direction::To`].
    pub direction: Option<Direction>,
}

/// The elements that all packets from or to some places pass: places as in flow rules, or elements, which stand for
/// themselves; none: every access point.
///
/// # Errors
/// The data plane cannot be reached, or has no such place.
pub async fn points_of<D: DataPlane>(
    plane: &D,
    graph: &DesiredGraph,
    points: &[String],
    direction: Direction,
) -> Result<Vec<WatchedPoint>, CallError> {
    let document = ServiceGraph::from_json(&graph.whole().to_string())
        .map_err(|e| CallError::Refused(vec![e.to_string()]))?;
    let Answer::Status { status } = plane.call(Command::Status { graph: graph.id.clone() }).await? else {
        return Err(CallError::Lost("it did not answer Status".into()));
    };
    let counters = counters(&document, graph, Some(&status));
    let all = || document.saps.iter().map(|s| format!("sap:{}", s.id)).collect();
    let points = if points.is_empty() { all() } else { points.to_vec() };
    let (mut watched, mut errors) = (Vec::new(), Vec::new());
    for place in points {
        if !place.contains(':') {
            let known = status.elements.iter().map(|(name, _)| name.as_str());
            match unknown_element(&place, known) {
                Some(error) => errors.push(error),
                None => watched.push(WatchedPoint { element: place.clone(), place, direction: None }),
            }
            continue;
        }
        let canonical = match place.strip_prefix("service-access-point:") {
            Some(id) => format!("sap:{id}"),
            None => place.clone(),
        };
        let canonical = outer_of(graph, &canonical).unwrap_or(canonical);
        let before = watched.len();
        for (side, places) in [(Direction::From, &counters.from), (Direction::To, &counters.to)] {
            let found = places.iter().find(|(p, _)| p.to_string() == canonical);
            if let Some((_, element)) = found
                && (direction == side || direction == Direction::Both)
            {
                let direction = Some(side);
                watched.push(WatchedPoint { element: element.clone(), place: place.clone(), direction });
            }
        }
        if watched.len() == before {
            let known = counters.from.keys().chain(counters.to.keys());
            let known: BTreeSet<String> = known.map(|p| Composed::shown(&graph.composed, p)).collect();
            let list = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let hint = nearest(&place, known.iter().map(String::as_str));
            errors.push(format!("no packets pass {place}{hint}; there are: {list}"));
        }
    }
    if errors.is_empty() { Ok(watched) } else { Err(CallError::Refused(errors)) }
}

/// What a place is called in the graph that runs, if it is a port of a function that is made of functions.
fn outer_of(graph: &DesiredGraph, place: &str) -> Option<String> {
    let (function, port) = place.strip_prefix("sf:")?.split_once(':')?;
    let composed = graph.composed.iter().find(|c| c.id == function)?;
    let (_, stand) = composed.ports.iter().find(|(name, _)| name == port)?;
    Composed::outer(stand).map(|p| p.to_string())
}

/// Puts a function that is made of functions before these: it is as well as they are.
fn of_composed(functions: &mut Vec<FunctionStatus>, c: &Composed, (packets_in, packets_out): (u64, u64)) {
    let is_part = |id: &str| id.strip_prefix(c.id.as_str()).is_some_and(|rest| rest.starts_with('.'));
    let parts = || functions.iter().filter(|f| is_part(&f.id));
    let works = |f: &&FunctionStatus| matches!(f.state, State::Running | State::Idle);
    let idle = parts().next().is_some() && parts().all(|f| f.state == State::Idle);
    let wrong = parts().filter(|f| !works(f)).map(|f| match &f.state {
        State::Failed { reason } | State::Degraded { reason } => format!("function {}: {reason}", f.id),
        State::Starting => format!("function {} is starting", f.id),
        State::Stopped => format!("function {} is stopped", f.id),
        State::Bypass => format!("packets go past function {}", f.id),
        State::Running | State::Idle => f.id.clone(),
    });
    let wrong: Vec<String> = wrong.collect();
    let state = match wrong.is_empty() {
        true if idle => State::Idle,
        true => State::Running,
        false => State::Degraded { reason: wrong.join("; ") },
    };
    let at = functions.iter().position(|f| is_part(&f.id)).unwrap_or(functions.len());
    functions.insert(
        at,
        FunctionStatus {
            id: c.id.clone(),
            name: c.name.clone(),
            image: c.image.clone(),
            state,
            engine: "graph".to_owned(),
            cores: None,
            packets_in,
            packets_out,
            drops: Vec::new(),
        },
    );
}

/// What is wrong with an element's name in `element`, `element[output]` or `[input]element`, if there is none such.
fn unknown_element<'a>(point: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let name = point.trim().trim_start_matches('[').trim_start_matches(|c: char| c.is_ascii_digit());
    let name = name.trim_start_matches(']').split('[').next().unwrap_or_default().trim();
    // What is no place at all is left to the data plane, which says how to write one.
    if name.is_empty() || known.clone().any(|k| k == name) {
        return None;
    }
    let hint = nearest(name, known);
    Some(format!(
        "no element '{name}' in the graph's configuration{hint}; places are sap:ID and sf:FUNCTION:PORT, and 'weir show GRAPH --config' prints the elements"
    ))
}

/// What is wrong with an interface at which a function is met.
fn device_down(status: &weir_protocol::GraphStatus, f: &FunctionRuntime) -> Option<String> {
    let down = |d: &&weir_protocol::DeviceStatus| f.interfaces.contains(&d.name) && d.state != "up";
    status.devices.iter().find(down).map(|d| d.state.clone())
}

/// Drops inside a function, by reason.
fn drops(status: &weir_protocol::GraphStatus, element: &str) -> Vec<DropCount> {
    let prefix = format!("{element}/");
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, reasons) in status.drops.iter().filter(|(name, _)| name.starts_with(&prefix)) {
        for (reason, count) in reasons {
            *sums.entry(reason).or_default() += count;
        }
    }
    counted(sums.into_iter())
}

fn counted<'a>(drops: impl Iterator<Item = (&'a str, u64)>) -> Vec<DropCount> {
    let some = drops.filter(|(_, count)| *count > 0);
    some.map(|(reason, count)| DropCount { reason: reason.to_owned(), count }).collect()
}

/// A link of which the counts can be told.
struct Link {
    from: PortRef,
    to: PortRef,
    /// The element that counts its packets.
    counter: String,
    /// Whether that stands where they arrive.
    at_end: bool,
}

/// The device at which the graph meets a port of a function that is not inline.
fn device_of<'g>(document: &ServiceGraph, graph: &'g DesiredGraph, place: &PortRef) -> Option<&'g str> {
    let PortRef::Function { function, port } = place else { return None };
    let f = document.functions.iter().find(|f| f.id == *function)?;
    let at = f.ports.iter().position(|p| p.id == *port)?;
    graph.function(function.as_str())?.interfaces.get(at).map(String::as_str)
}

/// What went past the graph's switch, by port of a function.
fn past(
    document: &ServiceGraph,
    graph: &DesiredGraph,
    figures: Option<&weir_protocol::GraphStatus>,
) -> BTreeMap<PortRef, DirectStatus> {
    let devices = figures.iter().flat_map(|s| &s.devices);
    let direct: BTreeMap<&str, &DirectStatus> =
        devices.filter_map(|d| Some((d.name.as_str(), d.direct.as_ref()?))).collect();
    if direct.is_empty() {
        return BTreeMap::new();
    }
    let ports = document.functions.iter().flat_map(|f| f.ports.iter().map(move |p| (f, p)));
    let places = ports.map(|(f, p)| PortRef::Function { function: f.id.clone(), port: p.id.clone() });
    let of = |place: PortRef| {
        let status = *direct.get(device_of(document, graph, &place)?)?;
        Some((place, status.clone()))
    };
    places.filter_map(of).collect()
}

/// The links of which the counts can be told: packets to a place that has one source are those that enter it, and
/// packets from a place that has one destination those that leave it, those included that no rule matched.
fn links_of(document: &ServiceGraph, counters: &Counters) -> Vec<Link> {
    let mut pairs: Vec<(&PortRef, &PortRef)> = Vec::new();
    let mut seen = BTreeSet::new();
    for rule in &document.flowrules {
        let outputs = rule.actions.output_to_port.iter().map(|to| (&rule.matches.port_in, to));
        pairs.extend(outputs.filter(|pair| seen.insert(*pair)));
    }
    let (mut sources, mut destinations) = (BTreeMap::new(), BTreeMap::new());
    for (from, to) in &pairs {
        *sources.entry(*to).or_insert(0) += 1;
        *destinations.entry(*from).or_insert(0) += 1;
    }
    let counter = |(from, to): (&PortRef, &PortRef)| {
        let at_end = sources.get(to) == Some(&1);
        let counter = if at_end {
            counters.to.get(to)
        } else if destinations.get(from) == Some(&1) {
            counters.from.get(from)
        } else {
            None
        };
        Some(Link { from: from.clone(), to: to.clone(), counter: counter?.clone(), at_end })
    };
    pairs.into_iter().filter_map(counter).collect()
}

/// Finds the counters that the compiler of graphs puts around functions and access points.
fn counters(
    document: &ServiceGraph,
    graph: &DesiredGraph,
    figures: Option<&weir_protocol::GraphStatus>,
) -> Counters {
    let mut counters = Counters::default();
    let Some(figures) = figures else { return counters };
    let running: BTreeSet<&str> = figures
        .elements
        .iter()
        .filter(|(_, class)| class == "Counter")
        .map(|(name, _)| name.as_str())
        .collect();
    for f in &document.functions {
        let Some(runtime) = graph.function(f.id.as_str()) else { continue };
        let inline = runtime.kind == Kind::Inline;
        for (i, p) in f.ports.iter().enumerate() {
            let place = PortRef::Function { function: f.id.clone(), port: p.id.clone() };
            let (from, to) = weir_switch::config::counters(&runtime.element, inline, i);
            counters.to.insert(place.clone(), to);
            counters.from.insert(place, from);
        }
    }
    for a in &graph.attachments {
        let Some(sap) = document.saps.iter().find(|s| s.id.as_str() == a.sap) else { continue };
        counters.from.insert(PortRef::Sap(sap.id.clone()), a.element.clone());
        counters.to.insert(PortRef::Sap(sap.id.clone()), format!("{}_out", a.element));
    }
    // Ports that an image's script does not use have no counters.
    counters.from.retain(|_, name| running.contains(name.as_str()));
    counters.to.retain(|_, name| running.contains(name.as_str()));
    counters
}

/// Reads counters, each once.
struct Reader<'a, D> {
    plane: &'a D,
    graph: &'a str,
    known: BTreeMap<String, u64>,
}

impl<D: DataPlane> Reader<'_, D> {
    async fn sum(&mut self, element: Option<&String>, what: &str) -> Result<u64, CallError> {
        let Some(element) = element else { return Ok(0) };
        let handler = format!("{element}.{what}");
        if let Some(value) = self.known.get(&handler) {
            return Ok(*value);
        }
        let read = Command::Read { graph: self.graph.to_owned(), handler: handler.clone() };
        let value = match self.plane.call(read).await? {
            Answer::Text { text } => text.trim().parse().unwrap_or(0),
            _ => 0,
        };
        self.known.insert(handler, value);
        Ok(value)
    }

    /// How many packets went to some places, and how many came from them.
    async fn passed(
        &mut self,
        counters: &Counters,
        places: impl Iterator<Item = PortRef>,
    ) -> Result<(u64, u64), CallError> {
        let (mut to, mut from) = (0, 0);
        for place in places {
            to += self.sum(counters.to.get(&place), "count").await?;
            from += self.sum(counters.from.get(&place), "count").await?;
        }
        Ok((to, from))
    }
}

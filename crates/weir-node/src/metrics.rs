//! Metrics: what graphs, functions and the node itself count, for Prometheus.
//!
//! The data plane is asked once for all graphs. How many series there can be is bounded: by [`GRAPHS`], and for each graph and family by
//! [`SERIES`]; what labels have for values is named in documents and programs, never in packets.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use weir_api::status::State;
use weir_auth::Graph;
use weir_protocol::{Answer, Command, DeviceStatus, GraphFigures};
use weir_rest::metrics::{Exposition, Histogram, Kind, process};
use weir_rest::usage::{cpu_of, resident};

use crate::compute::{Health, Usage};
use crate::connection::DataPlane;
use crate::instance::{InstanceId, Kind as FunctionKind};
use crate::node::{Entry, Node, View};

/// Most graphs that have series of their own.
const GRAPHS: usize = 5000;
/// Most series of a graph in a family.
const SERIES: usize = 64;
/// How long the data plane may take to count.
const TIME: Duration = Duration::from_secs(5);

/// How long work took.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// To bring the node to the desired state, or to find that it is there.
    pub(crate) reconcile: Histogram,
    /// To change graphs.
    change: Histogram,
}

/// Measures a change until it is dropped.
pub(crate) struct Timer<'t>(&'t Histogram, Instant);

impl Times {
    /// A change begins.
    pub(crate) fn change(&self) -> Timer<'_> {
        Timer(&self.change, Instant::now())
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.0.observe(self.1.elapsed());
    }
}

/// A function of a graph.
pub(crate) struct Function<'a> {
    pub(crate) id: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) element: &'a str,
    pub(crate) inline: bool,
    ports: usize,
    interfaces: &'a [String],
    up: bool,
    pub(crate) usage: Usage,
    drops: BTreeMap<String, u64>,
}

/// A graph with what is known of it.
pub(crate) struct Counted<'a> {
    pub(crate) id: &'a str,
    pub(crate) tenant: &'a str,
    entry: &'a Entry,
    up: bool,
    figures: Option<&'a GraphFigures>,
    pub(crate) functions: Vec<Function<'a>>,
}

impl Counted<'_> {
    /// The function that an element belongs to; none: the graph's switch.
    fn of(&self, element: &str) -> &str {
        let outer = element.split('/').next().unwrap_or(element);
        self.functions.iter().find(|f| f.inline && f.element == outer).map_or("", |f| f.id)
    }

    /// Packets and bytes that passed a counter.
    fn counter(&self, element: &str) -> Option<(u64, u64)> {
        self.figures?.counters.get(element).copied()
    }

    /// What went into a function, and what came out of it.
    pub(crate) fn passed(&self, f: &Function<'_>) -> [(&'static str, u64, u64); 2] {
        let (mut into, mut out) = ((0, 0), (0, 0));
        for port in 0..f.ports {
            let (from, to) = weir_switch::config::counters(f.element, f.inline, port);
            for (sum, counter) in [(&mut into, to), (&mut out, from)] {
                let (packets, bytes) = self.counter(&counter).unwrap_or_default();
                *sum = (sum.0 + packets, sum.1 + bytes);
            }
        }
        // What went past the switch.
        let devices = self.figures.iter().flat_map(|f| &f.devices).filter(|d| f.interfaces.contains(&d.name));
        for direct in devices.filter_map(|d| d.direct.as_ref()) {
            into = (into.0 + direct.received_packets, into.1 + direct.received_bytes);
            out = (out.0 + direct.sent_packets, out.1 + direct.sent_bytes);
        }
        [("in", into.0, into.1), ("out", out.0, out.1)]
    }

    /// Drops by function and reason.
    fn drops(&self) -> BTreeMap<(&str, &str), u64> {
        let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (element, reasons) in self.figures.iter().flat_map(|f| &f.drops) {
            for (reason, count) in reasons {
                *sums.entry((self.of(element), reason)).or_default() += count;
            }
        }
        for f in &self.functions {
            for (reason, count) in &f.drops {
                *sums.entry((f.id, reason)).or_default() += count;
            }
        }
        sums
    }

    /// Bytes of tables by function.
    pub(crate) fn memory(&self) -> HashMap<&str, u64> {
        let mut sums = HashMap::new();
        for table in self.figures.iter().flat_map(|f| &f.tables) {
            *sums.entry(self.of(&table.element)).or_default() += table.bytes;
        }
        sums
    }

    /// Packets and cycles by function, of batches that were measured.
    pub(crate) fn measured(&self) -> BTreeMap<&str, (u64, u64)> {
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for element in self.figures.iter().flat_map(|f| &f.profile) {
            let (packets, cycles) = sums.entry(self.of(&element.element)).or_default();
            // Packets pass several elements of a function: the one that most pass says how many there are.
            *packets = element.packets.max(*packets);
            *cycles += element.cycles;
        }
        sums
    }
}

impl<D: DataPlane> Node<D> {
    /// A graph with what its functions count.
    pub(crate) async fn count<'a>(&self, entry: &'a Entry, figures: &'a GraphFigures) -> Counted<'a> {
        let (id, tenant) = (entry.graph.id.as_str(), entry.graph.tenant().unwrap_or_default());
        let functions = self.functions(id, entry, true).await;
        Counted { id, tenant, entry, up: true, figures: Some(figures), functions }
    }

    /// The metrics: of graphs that may be read, and with `node` of the node itself.
    pub(crate) async fn metrics(&self, may: impl Fn(Graph<'_>) -> bool, node: bool) -> String {
        let begun = Instant::now();
        let view = self.view();
        let asked = timeout(TIME, self.plane.call(Command::Figures)).await;
        let figures = match asked {
            Ok(Ok(Answer::Figures { graphs })) => Some(graphs),
            // Without a data plane there is nothing that it counts.
            _ => None,
        };
        let states = self.states(view.graphs.keys().map(String::as_str)).await;
        let by_name: HashMap<&str, &GraphFigures> =
            figures.iter().flatten().map(|f| (f.name.as_str(), f)).collect();
        let readable: Vec<_> = view.graphs.iter().filter(|(_, e)| may(e.owned())).collect();
        let mut counted = Vec::new();
        for (id, entry) in readable.iter().take(GRAPHS) {
            let up = states.get(*id) == Some(&State::Running);
            let functions = self.functions(id, entry, up).await;
            let tenant = entry.graph.tenant().unwrap_or_default();
            let figures = by_name.get(id.as_str()).copied();
            counted.push(Counted { id, tenant, entry, up, figures, functions });
        }
        let mut out = Exposition::default();
        graphs(&mut out, &counted);
        functions(&mut out, &counted);
        if node {
            let left_out = readable.len() - counted.len();
            self.of_node(&mut out, &view, &states, figures.as_deref(), left_out);
            let help = "How long it took to collect these metrics, in seconds.";
            out.single("weir_scrape_seconds", Kind::Gauge, help, begun.elapsed().as_secs_f64());
        }
        out.finish()
    }

    async fn functions<'a>(&self, id: &str, entry: &'a Entry, up: bool) -> Vec<Function<'a>> {
        let outside = entry.graph.functions.iter().any(|f| f.kind != FunctionKind::Inline);
        let mut drops = if outside { self.drops(&entry.graph).await } else { BTreeMap::new() };
        let function = |f: &'a crate::desired::FunctionRuntime| {
            let inline = f.kind == FunctionKind::Inline;
            let driver = self.drivers.get(f.kind).ok().filter(|_| !inline);
            let healthy = driver.as_ref().is_none_or(|d| {
                matches!(d.health(&InstanceId::new(id, &f.id)), Some(Health::Running | Health::Paused))
            });
            Function {
                id: &f.id,
                kind: f.kind.name(),
                element: &f.element,
                inline,
                ports: f.ports,
                interfaces: &f.interfaces,
                up: if inline { up } else { healthy },
                usage: driver.map(|d| d.usage(&InstanceId::new(id, &f.id))).unwrap_or_default(),
                drops: drops.remove(&f.id).unwrap_or_default(),
            }
        };
        entry.graph.functions.iter().take(SERIES).map(function).collect()
    }

    fn of_node(
        &self,
        out: &mut Exposition,
        view: &View,
        states: &BTreeMap<String, State>,
        figures: Option<&[GraphFigures]>,
        left_out: usize,
    ) {
        process(out, env!("CARGO_PKG_VERSION"));
        let help = "Whether the data plane answers.";
        out.single("weir_engine_up", Kind::Gauge, help, u8::from(figures.is_some()));
        let pid = view.engine.split('@').next().and_then(|pid| pid.parse().ok());
        if let Some(cpu) = pid.and_then(cpu_of) {
            let help = "Processor time that the data plane took, in seconds.";
            out.single("weir_engine_cpu_seconds_total", Kind::Counter, help, cpu.as_secs_f64());
        }
        if let Some(memory) = pid.and_then(resident) {
            let help = "Memory of the data plane, in bytes.";
            out.single("weir_engine_resident_memory_bytes", Kind::Gauge, help, memory);
        }
        out.family("weir_graphs", Kind::Gauge, "Graphs, by state.");
        for name in ["starting", "running", "degraded", "failed", "stopped"] {
            out.sample(&[("state", name)], states.values().filter(|s| state_name(s) == name).count());
        }
        let help = "Graphs that have no series of their own, since there are too many.";
        out.single("weir_graphs_left_out", Kind::Gauge, help, left_out);
        let help = "Whether the data plane was brought to the desired state since it was last reached.";
        out.single("weir_settled", Kind::Gauge, help, u8::from(view.settled));
        let help = "How long it took to bring the node to the desired state, or to find that it is there.";
        out.histogram("weir_reconcile_seconds", help, &self.times.reconcile);
        let help = "How long requests to change graphs took, whether or not they were refused.";
        out.histogram("weir_change_seconds", help, &self.times.change);
        let verdicts = self.proofs.verdicts();
        let help = "Requirements of documents that were proved, by verdict.";
        out.family("weir_requirement_verdicts_total", Kind::Counter, help);
        for (name, count) in [
            ("holds", &verdicts.holds),
            ("violated", &verdicts.violated),
            ("inconclusive", &verdicts.inconclusive),
        ] {
            out.sample(&[("verdict", name)], count.load(Ordering::Relaxed));
        }
        // Those of LSI-0; the others are ports of functions.
        let own = figures.into_iter().flatten().filter(|f| !view.graphs.contains_key(&f.name));
        let devices: Vec<&DeviceStatus> = own.flat_map(|f| &f.devices).collect();
        type Of = fn(&DeviceStatus) -> (u64, u64);
        let families: [(_, _, Of); 3] = [
            ("weir_interface_packets_total", "Packets at interfaces of the node.", |d| {
                (d.rx_packets, d.tx_packets)
            }),
            ("weir_interface_bytes_total", "Bytes at interfaces of the node.", |d| (d.rx_bytes, d.tx_bytes)),
            ("weir_interface_drops_total", "Packets that were lost at interfaces of the node.", |d| {
                (d.rx_dropped, d.tx_dropped)
            }),
        ];
        for (name, help, of) in families {
            out.family(name, Kind::Counter, help);
            for d in devices.iter().take(GRAPHS) {
                let (received, sent) = of(d);
                out.sample(&[("interface", &d.name), ("direction", "in")], received);
                out.sample(&[("interface", &d.name), ("direction", "out")], sent);
            }
        }
        out.family("weir_interface_up", Kind::Gauge, "Whether an interface of the node works.");
        for d in devices.iter().take(GRAPHS) {
            out.sample(&[("interface", &d.name)], u8::from(d.state == "up"));
        }
    }
}

fn state_name(state: &State) -> &'static str {
    match state {
        State::Starting => "starting",
        State::Running => "running",
        State::Degraded { .. } => "degraded",
        State::Failed { .. } => "failed",
        State::Idle => "idle",
        State::Stopped => "stopped",
        State::Bypass => "bypass",
    }
}

/// Families of graphs.
fn graphs(out: &mut Exposition, counted: &[Counted<'_>]) {
    out.family("weir_graph_up", Kind::Gauge, "Whether a graph runs, with all its functions and interfaces.");
    for g in counted {
        out.sample(&[("graph", g.id), ("tenant", g.tenant)], u8::from(g.up));
    }
    out.family("weir_graph_revision", Kind::Gauge, "The revision of a graph that runs.");
    for g in counted {
        out.sample(&[("graph", g.id)], g.entry.revision);
    }
    out.family("weir_graph_compiled", Kind::Gauge, "Whether machine code runs a graph.");
    for (g, figures) in counted.iter().filter_map(|g| Some((g, g.figures?))) {
        out.sample(&[("graph", g.id)], u8::from(figures.engine == "compiled"));
    }
    for (name, help, bytes) in [
        ("weir_access_point_packets_total", "Packets that came in and went out at access points.", false),
        ("weir_access_point_bytes_total", "Bytes of these.", true),
    ] {
        out.family(name, Kind::Counter, help);
        for g in counted {
            for a in g.entry.graph.attachments.iter().take(SERIES / 2) {
                for (direction, element) in [("in", a.element.clone()), ("out", format!("{}_out", a.element))]
                {
                    let Some((packets, of_bytes)) = g.counter(&element) else { continue };
                    let labels = [("graph", g.id), ("access_point", &*a.sap), ("direction", direction)];
                    out.sample(&labels, if bytes { of_bytes } else { packets });
                }
            }
        }
    }
    let help = "Packets that ended, by reason; without a function, in the switch of the graph.";
    out.family("weir_drops_total", Kind::Counter, help);
    for g in counted {
        for ((function, reason), count) in g.drops().into_iter().take(SERIES) {
            out.sample(&[("graph", g.id), ("function", function), ("reason", reason)], count);
        }
    }
    for (name, help, capacity) in [
        ("weir_table_entries", "Entries of tables that elements keep state in.", false),
        ("weir_table_capacity", "How many entries these can have.", true),
    ] {
        out.family(name, Kind::Gauge, help);
        for g in counted {
            for t in g.figures.iter().flat_map(|f| &f.tables).take(SERIES) {
                let value = if capacity { t.capacity } else { t.entries };
                out.sample(&[("graph", g.id), ("table", &t.name)], value);
            }
        }
    }
}

/// Families of functions.
fn functions(out: &mut Exposition, counted: &[Counted<'_>]) {
    let all = || counted.iter().flat_map(|g| g.functions.iter().map(move |f| (g, f)));
    out.family("weir_function_up", Kind::Gauge, "Whether a function works.");
    for (g, f) in all() {
        out.sample(&[("graph", g.id), ("function", f.id), ("kind", f.kind)], u8::from(f.up));
    }
    for (name, help, bytes) in [
        ("weir_function_packets_total", "Packets that went into functions and came out of them.", false),
        ("weir_function_bytes_total", "Bytes of these.", true),
    ] {
        out.family(name, Kind::Counter, help);
        for (g, f) in all().filter(|(g, _)| g.figures.is_some()) {
            for (direction, packets, of_bytes) in g.passed(f) {
                let labels = [("graph", g.id), ("function", f.id), ("direction", direction)];
                out.sample(&labels, if bytes { of_bytes } else { packets });
            }
        }
    }
    let help = "Processor time of functions that are not inline, in seconds.";
    out.family("weir_function_cpu_seconds_total", Kind::Counter, help);
    for (g, f, cpu) in all().filter_map(|(g, f)| Some((g, f, f.usage.cpu?))) {
        out.sample(&[("graph", g.id), ("function", f.id), ("kind", f.kind)], cpu.as_secs_f64());
    }
    let help = "Memory of functions, in bytes: of inline ones that of their tables.";
    out.family("weir_function_memory_bytes", Kind::Gauge, help);
    for g in counted {
        let tables = g.memory();
        for f in &g.functions {
            let memory = if f.inline { tables.get(f.id).copied().or(Some(0)) } else { f.usage.memory };
            let Some(memory) = memory else { continue };
            out.sample(&[("graph", g.id), ("function", f.id), ("kind", f.kind)], memory);
        }
    }
    for (name, help, cycles) in [
        (
            "weir_measured_packets_total",
            "Packets of the batches, one in some hundreds, in which the time of inline functions is measured; without a function, of the switch.",
            false,
        ),
        ("weir_measured_cycles_total", "Cycles that these packets took.", true),
    ] {
        out.family(name, Kind::Counter, help);
        for g in counted {
            for (function, (packets, of_cycles)) in g.measured() {
                let value = if cycles { of_cycles } else { packets };
                out.sample(&[("graph", g.id), ("function", function)], value);
            }
        }
    }
}

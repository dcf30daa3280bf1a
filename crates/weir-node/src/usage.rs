//! What graphs have taken, for accounts.

use std::collections::BTreeMap;

use weir_api::usage::{ElementUsage, FunctionUsage, GraphUsage, PlaneUsage, UsageList};
use weir_auth::Graph;
use weir_protocol::{Answer, Command, GraphFigures};
use weir_rest::usage::cpu_of;

use crate::connection::{CallError, DataPlane};
use crate::node::Node;

impl<D: DataPlane> Node<D> {
    /// What graphs that may be read have taken since the data plane began.
    ///
    /// # Errors
    /// The data plane cannot be asked.
    pub(crate) async fn usage(&self, may: impl Fn(Graph<'_>) -> bool) -> Result<UsageList, CallError> {
        let view = self.view();
        let Answer::Figures { graphs: figures } = self.plane.call(Command::Figures).await? else {
            return Err(CallError::Lost("the data plane did not say what it counts".into()));
        };
        let pid = view.engine.split('@').next().and_then(|pid| pid.parse().ok());
        let cycles = figures.iter().flat_map(|f| &f.profile).map(|p| p.cycles).sum();
        let cpu = pid.and_then(cpu_of).map_or(0, |cpu| cpu.as_micros() as u64);
        let plane = PlaneUsage { process: view.engine.clone(), cpu, cycles };
        let by_name: BTreeMap<&str, &GraphFigures> = figures.iter().map(|f| (f.name.as_str(), f)).collect();
        let mut list = UsageList::default();
        for (id, entry) in view.graphs.iter().filter(|(_, e)| may(e.owned())) {
            let Some(figures) = by_name.get(id.as_str()) else {
                if view.sleeps(id) {
                    let tenant = entry.graph.tenant().map(str::to_owned);
                    let (graph, plane, functions) = (id.clone(), plane.clone(), BTreeMap::new());
                    list.graphs.push(GraphUsage { graph, tenant, plane, functions });
                }
                continue;
            };
            let counted = self.count(entry, figures).await;
            let function = |f: &crate::metrics::Function<'_>| {
                let usage = FunctionUsage {
                    kind: f.kind.to_owned(),
                    cpu: f.usage.cpu.map(|cpu| cpu.as_micros() as u64),
                    memory: f.usage.memory,
                    elements: if f.inline { elements(figures, f.element) } else { BTreeMap::new() },
                };
                (f.id.to_owned(), usage)
            };
            list.graphs.push(GraphUsage {
                graph: id.clone(),
                tenant: entry.graph.tenant().map(str::to_owned),
                plane: plane.clone(),
                functions: counted.functions.iter().map(function).collect(),
            });
        }
        Ok(list)
    }
}

/// What is said of the elements of a function.
fn elements(figures: &GraphFigures, function: &str) -> BTreeMap<String, ElementUsage> {
    let mut all: BTreeMap<String, ElementUsage> = BTreeMap::new();
    let own = |element: &str| {
        let inner = element.strip_prefix(function)?.strip_prefix('/')?;
        Some(inner.to_owned())
    };
    for (element, (packets, bytes)) in &figures.counters {
        let Some(name) = own(element) else { continue };
        let usage = all.entry(name).or_default();
        (usage.packets, usage.bytes) = (*packets, *bytes);
    }
    for p in &figures.profile {
        let Some(name) = own(&p.element) else { continue };
        all.entry(name).or_default().cycles += p.cycles;
    }
    for t in &figures.tables {
        let Some(name) = own(&t.element) else { continue };
        all.entry(name).or_default().memory += t.bytes;
    }
    all
}

//! From a plan to a graph that runs.

use std::collections::HashMap;
use std::sync::Arc;

use weir_click::Kind;
use weir_ir::program::EntryKind;
use weir_nodes::node::Control;
use weir_plan::{Dest, Home, Plan, Problem, Share};
use weir_table::TableSet;

use super::host::{BlockDrops, Flow, Outflow};
use super::runtime::Runtime;
use super::{Router, Timer, status};
use crate::executor::Executor;
use crate::instance::Instance;
use crate::shared::placeholder;

impl Router {
    /// A graph with fresh tables, its devices and files open.
    pub(crate) fn new(name: &str, instance: Instance, rt: &mut Runtime) -> Result<Router, Vec<Problem>> {
        let Instance { plan, scope, spare } = instance;
        let mut tables = TableSet::new(plan.linked.tables.iter().map(|t| &t.decl))
            .map_err(|e| vec![e.to_string().into()])?;
        rt.env.links.set_scope(scope.as_deref());
        let mut errors = Vec::new();
        for (i, t) in plan.linked.tables.iter().enumerate() {
            if rt.worker() > 0 && plan.division.shares.get(i) == Some(&Share::One) {
                *tables.table_mut(i as u32) = placeholder(&t.decl).map_err(|e| vec![e.to_string().into()])?;
                continue;
            }
            if let Err(e) = tables.table_mut(i as u32).insert_rows(&t.rows, rt.env.now) {
                let element = &plan.linked.elements[t.owner as usize];
                errors.push(format!("table '{}' of '{element}': {e}", t.decl.name).into());
            }
        }
        let mut nodes = plan.nodes(rt.worker())?;
        for (e, place) in nodes.iter_mut().enumerate() {
            let placed = place.as_mut().map(|node| plan.around(e, |here| node.place(here)));
            if let Some(Err(what)) = placed {
                errors.push(Problem::of(&plan.graph, e, "initializing", what));
            }
        }
        for (e, place) in nodes.iter_mut().enumerate() {
            let Some(Err(what)) = place.as_mut().map(|node| node.open(&mut rt.env)) else { continue };
            if rt.worker() > 0 && plan.division.homes.get(e) == Some(&Home::Every) {
                // The first worker has it, and does its work for this one too.
                *place = None;
                continue;
            }
            errors.push(Problem::of(&plan.graph, e, "configuring", what));
        }
        let controls: Vec<Option<Arc<dyn Control>>> =
            nodes.iter().map(|n| n.as_ref().and_then(|n| n.control())).collect();
        let mut drivers =
            (0..controls.len()).filter(|&e| controls[e].as_ref().is_some_and(|c| c.is_driver()));
        let driver = drivers.next();
        if let Some(second) = drivers.next() {
            let what = "router has more than one driver script";
            errors.push(Problem::of(&plan.graph, second, "configuring", what));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        // Scripts first: of what is due at the same time they see nothing yet, as in Click.
        let mut tasks: Vec<usize> =
            (0..nodes.len()).filter(|&e| nodes[e].as_ref().is_some_and(|n| n.has_task())).collect();
        tasks.sort_by_key(|&e| controls[e].is_none());
        let stopped = stopped(&plan, |_, _| true);
        let all_tasks = if stopped.is_empty() { Vec::new() } else { tasks.clone() };
        tasks.retain(|&e| stopped.get(e) != Some(&true));
        let links = plan.links.iter().map(|l| Flow {
            pull: match l.dest {
                Dest::Node { node, port } if l.from.is_none() => {
                    plan.graph.ports[node].inputs.get(port as usize) == Some(&Kind::Pull)
                }
                _ => false,
            },
            ..Flow::default()
        });
        let out = Outflow { links: links.collect(), ..Outflow::default() };
        // What happens by the clock happens once.
        let timed = if rt.worker() == 0 { &plan.linked.entries[..] } else { &[] };
        let timers = timed.iter().filter_map(|e| {
            let EntryKind::Timer { every } = e.kind else { return None };
            let every = every.max(1);
            let stopped = stopped.get(plan.owners[e.owner as usize]) == Some(&true);
            Some(Timer { every, next: rt.env.now + every, start: e.block, owner: e.owner, stopped })
        });
        let timers: Vec<Timer> = timers.collect();
        let owners = plan.linked.elements.len();
        Ok(Router {
            name: name.to_owned(),
            tag: String::new(),
            swaps: 0,
            generation: 0,
            slot: 0,
            shared: None,
            held: false,
            locked: Executor::default(),
            tasks,
            all_tasks,
            timers,
            stopped,
            postponed: Vec::new(),
            holder: plan.linked.tables.iter().find(|t| t.decl.held > 0).map_or(0, |t| t.owner),
            drops: BlockDrops {
                linked: vec![0; plan.linked.blocks.len()],
                fast: Vec::new(),
                loops: vec![0; owners],
                orphans: vec![0; owners],
            },
            scope,
            spare,
            plan,
            uses_devices: nodes.iter().flatten().any(|n| n.reads_device().or(n.writes_device()).is_some()),
            nodes,
            configs: HashMap::new(),
            reconfigure: rt.reader.is_some(),
            listening: (0..controls.len())
                .filter(|&e| controls[e].as_ref().is_some_and(|c| c.listens()))
                .collect(),
            controls,
            driver,
            stop_asked: 0,
            tables,
            fast: None,
            executor: Executor::default(),
            out,
            node_drops: Vec::new(),
            old_drops: status::DropCounts::new(),
            next_expiry: 0,
            active: true,
            wake: None,
            try_at: None,
        })
    }
}

/// By element: whether it is of a function that stands still, of those of which `still` says so by the node that can stop it. Empty if no node can.
pub(super) fn stopped(plan: &Plan, still: impl Fn(usize, &str) -> bool) -> Vec<bool> {
    let elements = &plan.graph.elements;
    let stops = (0..elements.len()).filter_map(|e| Some((e, plan.facts(e)?.stops.as_deref()?)));
    let stops: Vec<(usize, &str)> = stops.collect();
    if stops.is_empty() {
        return Vec::new();
    }
    let stops: Vec<&str> = stops.into_iter().filter(|&(e, f)| still(e, f)).map(|(_, f)| f).collect();
    elements.iter().map(|e| stops.iter().any(|f| is_of(&e.name, f))).collect()
}

/// Whether an element is of a function, by their names.
fn is_of(name: &str, function: &str) -> bool {
    name.strip_prefix(function).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

//! From a plan to a graph that runs.

use std::collections::HashMap;
use std::sync::Arc;

use weir_click::Kind;
use weir_ir::program::EntryKind;
use weir_table::TableSet;

use super::host::{BlockDrops, Flow, Outflow};
use super::{Router, Timer, status};
use crate::control::Control;
use crate::divide::Home;
use crate::env::Env;
use crate::executor::Executor;
use crate::neighbours::Neighbours;
use crate::plan::{Dest, Part, Plan};
use crate::shared::placeholder;
use crate::sharing::Share;

impl Router {
    /// A graph with fresh tables, its devices and files open.
    pub(crate) fn new(name: &str, mut plan: Plan, env: &mut Env) -> Result<Router, Vec<String>> {
        let mut tables =
            TableSet::new(plan.linked.tables.iter().map(|t| &t.decl)).map_err(|e| vec![e.to_string()])?;
        let mut errors = Vec::new();
        for (i, t) in plan.linked.tables.iter().enumerate() {
            if env.worker() > 0 && plan.division.shares.get(i) == Some(&Share::One) {
                *tables.table_mut(i as u32) = placeholder(&t.decl).map_err(|e| vec![e.to_string()])?;
                continue;
            }
            if let Err(e) = tables.table_mut(i as u32).insert_rows(&t.rows, env.now) {
                errors.push(format!(
                    "table '{}' of '{}': {e}",
                    t.decl.name, plan.linked.elements[t.owner as usize]
                ));
            }
        }
        let mut nodes = Vec::new();
        for (e, part) in plan.parts.iter_mut().enumerate() {
            let here = plan.division.homes.get(e).is_none_or(|h| h.is_on(env.worker()));
            nodes.push(match part {
                Part::Node { node, .. } => node.take().filter(|_| here),
                Part::Element { .. } => None,
            });
        }
        for e in 0..nodes.len() {
            let Some(mut node) = nodes[e].take() else { continue };
            let here = Neighbours { graph: &plan.graph, nodes: &nodes, element: e };
            if let Err(what) = node.place(&here) {
                let decl = &plan.graph.elements[e];
                errors.push(format!(
                    "{}: While initializing '{} :: {}': {what}",
                    decl.span, decl.name, decl.class
                ));
            }
            nodes[e] = Some(node);
        }
        for (e, place) in nodes.iter_mut().enumerate() {
            let Some(Err(what)) = place.as_mut().map(|node| node.open(env)) else { continue };
            if env.worker() > 0 && plan.division.homes.get(e) == Some(&Home::Every) {
                // The first worker has it, and does its work for this one too.
                *place = None;
                continue;
            }
            let decl = &plan.graph.elements[e];
            errors
                .push(format!("{}: While configuring '{} :: {}': {what}", decl.span, decl.name, decl.class));
        }
        let controls: Vec<Option<Arc<dyn Control>>> =
            nodes.iter().map(|n| n.as_ref().and_then(|n| n.control())).collect();
        let mut drivers =
            (0..controls.len()).filter(|&e| controls[e].as_ref().is_some_and(|c| c.is_driver()));
        let driver = drivers.next();
        if let Some(second) = drivers.next() {
            let decl = &plan.graph.elements[second];
            errors.push(format!(
                "{}: While configuring '{} :: {}': router has more than one driver script",
                decl.span, decl.name, decl.class
            ));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        // Scripts first: of what is due at the same time they see nothing yet, as in Click.
        let mut tasks: Vec<usize> =
            (0..nodes.len()).filter(|&e| nodes[e].as_ref().is_some_and(|n| n.has_task())).collect();
        tasks.sort_by_key(|&e| controls[e].is_none());
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
        let timed = if env.worker() == 0 { &plan.linked.entries[..] } else { &[] };
        let timers = timed.iter().filter_map(|e| {
            let EntryKind::Timer { every } = e.kind else { return None };
            let every = every.max(1);
            Some(Timer { every, next: env.now + every, start: e.block, owner: e.owner })
        });
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
            timers: timers.collect(),
            holder: plan.linked.tables.iter().find(|t| t.decl.held > 0).map_or(0, |t| t.owner),
            drops: BlockDrops {
                linked: vec![0; plan.linked.blocks.len()],
                fast: Vec::new(),
                loops: vec![0; owners],
                orphans: vec![0; owners],
            },
            plan,
            nodes,
            configs: HashMap::new(),
            reconfigure: env.reader.is_some(),
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

//! Functions that move, and what has to be so of them at each step: no function runs at two nodes, and none begins anew by moving.

use std::collections::BTreeMap;

use weir_controller::migrate::How;

use super::{NODES, Sim};
use crate::node::{Life, version};
use crate::tasks::About;

/// A function in a document.
pub(super) const FUNCTION: &str =
    "SFs:\n  - {id: f, name: f, ports: [a, b], click: 'in_0 -> out_1; in_1 -> out_0;'}\n";
/// The nodes that run a function of a version of a graph, with its state.
type Running<'n> = BTreeMap<(&'n String, u32), Vec<(&'n String, Option<u32>)>>;
/// What becomes of its packets.
pub(super) const RULES: &str =
    "  - {id: c, priority: 1, match: {port_in: 'sf:f:b'}, actions: {output_to_port: 'sap:r'}}
  - {id: d, priority: 1, match: {port_in: 'sf:f:a'}, actions: {output_to_port: 'sap:l'}}\n";

impl Sim {
    /// A client asks for a move of a graph's function.
    pub(super) fn ask_migrate(&mut self, id: &str) {
        let Some(controller) = self.controller.clone().filter(|_| !self.is_busy(id)) else { return };
        let to = format!("n{}", self.rng.usize(0..NODES) + 1);
        let known = controller.view().graphs.get(id).map(|g| version(&g.graph.document));
        let Some(version) = known else { return };
        self.begins(id, Some(version), format!("migrate {id} v{version} to {to}"));
        let name = id.to_owned();
        self.tasks.spawn(About::Client(id.to_owned()), async move {
            controller
                .migrate(&name, "f", &to, &How::default())
                .await
                .err()
                .map_or_else(String::new, |p| p.to_string())
        });
    }

    /// What has to be so of functions.
    pub(super) fn check_functions(&mut self) {
        if !self.moves {
            return;
        }
        let mut running: Running<'_> = BTreeMap::new();
        for (name, machine) in &self.machines {
            for (id, held) in &machine.node.disk.graphs {
                if held.life == Some(Life::Runs) {
                    running.entry((id, held.version)).or_default().push((name, held.state));
                }
            }
        }
        let mut wrong = Vec::new();
        for ((id, version), nodes) in &running {
            if nodes.len() > 1 {
                wrong.push(format!("the function of {id} v{version} runs at several nodes: {nodes:?}"));
            }
            for (node, state) in nodes {
                if state.is_none() {
                    wrong.push(format!("the function of {id} v{version} runs at {node} without its state"));
                }
            }
        }
        wrong.into_iter().for_each(|w| self.violated(w));
    }

    /// In the end each graph that has nodes has its function at one of them.
    pub(super) fn check_running(&mut self) {
        if !self.moves {
            return;
        }
        let mut wrong = Vec::new();
        for id in self.asked.keys() {
            let held = || self.machines.values().filter_map(|m| m.node.disk.graphs.get(id));
            let runs = held().filter(|h| h.life == Some(Life::Runs)).count();
            if held().count() > 0 && runs != 1 {
                wrong.push(format!("the function of {id} runs at {runs} nodes in the end"));
            }
            if held().any(|h| h.life == Some(Life::Stopped)) {
                wrong.push(format!("a function of {id} is stopped in the end"));
            }
        }
        wrong.into_iter().for_each(|w| self.violated(w));
    }
}

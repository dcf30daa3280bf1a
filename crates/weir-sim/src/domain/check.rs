//! What has to be so: at each step, and in the end.

use std::collections::BTreeMap;

use super::{QUOTA, Sim, TENANT};
use crate::network::Asked;
use crate::node::{Effect, Held, version};

/// More steps than it takes until all is done.
const ENOUGH: usize = 100_000;
/// How often each node is looked at until all is as it should be.
const ROUNDS: usize = 4;

impl Sim {
    /// A tenant has no more than it may.
    pub(super) fn check_quotas(&mut self) {
        let Some(controller) = &self.controller else { return };
        let graphs = controller.view().usage(TENANT, None).graphs;
        if graphs > u64::from(QUOTA) {
            self.violated(format!("the tenant has {graphs} graphs, and may have {QUOTA}"));
        }
    }

    /// A node runs something else than before.
    pub(super) fn check_effect(&mut self, asked: &Asked, effect: Option<&Effect>) {
        // What was under way when its connection ended, is not what the controller does now.
        let (Some(_), Some(effect)) = (&asked.answer, effect) else { return };
        // Nor what one does that does not lead any more, at a node that nobody else has: that is as if the node were cut off.
        if !self.leads(asked.connection) {
            return;
        }
        let Some(graph) = self.asked.get_mut(&effect.graph) else { return };
        let (before, begun) = effect.versions;
        if let Err(what) = graph.touched(before, begun) {
            self.violated(format!("{} at {}: it {what}", effect.graph, asked.node));
        }
    }

    /// No more faults: all comes to rest, and then has to be as it was asked.
    pub(super) fn finish(&mut self) {
        self.note("no more faults");
        self.refusals = false;
        self.one_leads();
        self.rest();
        self.look(ROUNDS);
        self.resolve();
        self.look(ROUNDS);
        if !self.report.violations.is_empty() {
            return;
        }
        let before = self.effects;
        self.look(1);
        if self.effects != before {
            self.violated("all was done, and is done again");
        }
        self.check_all();
    }

    /// All that is under way comes to its end.
    fn rest(&mut self) {
        for _ in 0..ENOUGH {
            if !(self.deliver() || self.answer() || self.poll()) {
                break;
            }
        }
        if !self.tasks.is_empty() {
            self.violated(format!("these wait for ever: {:?}", self.tasks));
        }
    }

    /// The nodes are there, and are looked at.
    fn look(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for name in self.names() {
                self.dial(&name);
            }
            self.rest();
            for name in self.names() {
                self.settle(&name);
            }
            self.rest();
        }
    }

    /// The operator says what is to become of graphs that are doubtful, or that the controller does not know: they are applied again, or deleted.
    fn resolve(&mut self) {
        let Some(controller) = self.controller.clone() else { return };
        let view = controller.view();
        for id in self.asked.keys().cloned().collect::<Vec<_>>() {
            let (known, doubtful) = view.graphs.get(&id).map_or((false, false), |g| (true, g.doubtful));
            let held = self.machines.values().any(|m| m.node.disk.graphs.contains_key(&id));
            if !doubtful && (known || !held) {
                continue;
            }
            // Of too many for a tenant one goes.
            if self.rng.bool() {
                self.ask_put(&id);
                self.rest();
                if self.asked.get(&id).is_some_and(|g| g.possible.len() == 1 && !g.possible.contains(&None)) {
                    continue;
                }
            }
            self.ask_delete(&id);
            self.rest();
        }
    }

    /// What is wanted is what was accepted, and the nodes run that and nothing else.
    fn check_all(&mut self) {
        let Some(controller) = self.controller.clone() else { return };
        let view = controller.view();
        for (id, graph) in self.asked.clone() {
            let stored = view.graphs.get(&id);
            let now = stored.map(|s| version(&s.graph.document));
            if !graph.possible.contains(&now) {
                self.violated(format!("{id} is {now:?}, and may be {:?}", graph.possible));
            }
            if let Some(s) = stored.filter(|s| s.pending || s.doubtful) {
                self.violated(format!(
                    "{id} is pending ({}) or doubtful ({}) for ever",
                    s.pending, s.doubtful
                ));
            }
            let wanted: BTreeMap<&String, (&String, Option<&String>)> = stored
                .map(|s| s.graph.parts.iter().map(|(n, p)| (n, (&p.document, p.tag.as_ref()))).collect())
                .unwrap_or_default();
            let held = |(name, m): (_, &super::Machine)| Some((name, m.node.disk.graphs.get(&id)?.clone()));
            let held: BTreeMap<&String, Held> = self.machines.iter().filter_map(held).collect();
            let runs: BTreeMap<_, _> = held.iter().map(|(n, h)| (*n, (&h.document, Some(&h.tag)))).collect();
            if wanted != runs {
                let text = format!("{id} is to run as {wanted:?}, and runs as {runs:?}");
                self.violated(text);
            }
        }
        self.check_running();
        for (name, known) in &view.known {
            if !known.trouble.is_empty() {
                self.violated(format!("{name} has trouble still: {:?}", known.trouble));
            }
        }
    }
}

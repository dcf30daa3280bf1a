//! The pure core: from what should run and what runs to the steps between them. No I/O, no clock.
//!
//! The order of the steps keeps every moment in between safe: graphs are there before LSI-0 sends to them, and LSI-0
//! has stopped sending before they go. A graph whose tag is the wanted one is not touched, so that a daemon that comes
//! back adopts what still runs, and no packet is missed. After all steps, a second run gives none.

use std::collections::{BTreeMap, BTreeSet};

use weir_engine::protocol::GraphInfo;
use weir_switch::lsi0::{Attachment, lsi0};

use crate::desired::{DesiredGraph, tag};

/// Name of LSI-0 in the data plane. No graph has it: identifiers are without `:`.
pub const LSI0: &str = "node:lsi0";

/// A graph that should run.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The graph.
    pub graph: &'a DesiredGraph,
    /// Whether LSI-0 should send to it. Not, if LSI-0 is known to fail with its access points.
    pub attach: bool,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Load a graph that does not run.
    LoadGraph {
        /// Its name.
        graph: String,
        /// Its configuration.
        config: String,
        /// Its tag.
        tag: String,
    },
    /// Change a graph that runs.
    SwapGraph {
        /// Its name.
        graph: String,
        /// Its new configuration.
        config: String,
        /// Its new tag.
        tag: String,
    },
    /// Make a graph's first handler writes.
    WriteHandlers {
        /// Its name.
        graph: String,
        /// Its tag, to be remembered as written.
        tag: String,
        /// Handler and value, in this order.
        writes: Vec<(String, String)>,
    },
    /// Load or change LSI-0.
    LoadLsi0 {
        /// Its configuration.
        config: String,
        /// Its tag.
        tag: String,
    },
    /// Stop and forget a graph (or LSI-0).
    Unload {
        /// Its name.
        graph: String,
    },
}

impl Step {
    /// The graph in the data plane that the step is about.
    pub fn graph(&self) -> &str {
        match self {
            Step::LoadGraph { graph, .. } | Step::SwapGraph { graph, .. } => graph,
            Step::WriteHandlers { graph, .. } | Step::Unload { graph } => graph,
            Step::LoadLsi0 { .. } => LSI0,
        }
    }
}

/// The steps from `actual` to `wanted`. `written` says of which tag a graph's handler writes were made.
pub fn reconcile(
    wanted: &[Wanted<'_>],
    actual: &[GraphInfo],
    written: &BTreeMap<String, String>,
) -> Vec<Step> {
    let running: BTreeMap<&str, &str> = actual.iter().map(|g| (g.name.as_str(), g.tag.as_str())).collect();
    let mut steps = Vec::new();
    for Wanted { graph: g, .. } in wanted {
        let (graph, config, tag) = (g.id.clone(), g.config.clone(), g.tag.clone());
        let runs = running.get(graph.as_str()).copied();
        match runs {
            Some(t) if t == tag => {}
            Some(_) => steps.push(Step::SwapGraph { graph, config, tag }),
            None => steps.push(Step::LoadGraph { graph, config, tag }),
        }
        // A crash may have come between the load and the writes.
        let done = runs == Some(&g.tag) && written.get(&g.id) == Some(&g.tag);
        if !g.writes.is_empty() && !done {
            let (graph, tag, writes) = (g.id.clone(), g.tag.clone(), g.writes.clone());
            steps.push(Step::WriteHandlers { graph, tag, writes });
        }
    }

    let attached: Vec<Attachment> =
        wanted.iter().filter(|w| w.attach).flat_map(|w| w.graph.attachments()).collect();
    match running.get(LSI0) {
        Some(_) if attached.is_empty() => steps.push(Step::Unload { graph: LSI0.into() }),
        None if attached.is_empty() => {}
        runs => {
            let config = lsi0(&attached);
            let tag = tag(&config, &[]);
            if runs != Some(&tag.as_str()) {
                steps.push(Step::LoadLsi0 { config, tag });
            }
        }
    }

    let names: BTreeSet<&str> = wanted.iter().map(|w| w.graph.id.as_str()).collect();
    let gone = running.keys().filter(|n| **n != LSI0 && !names.contains(**n));
    steps.extend(gone.map(|n| Step::Unload { graph: (*n).to_owned() }));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{desired, wire};

    /// What the data plane has after a step.
    fn carry_out(step: &Step, actual: &mut Vec<GraphInfo>, written: &mut BTreeMap<String, String>) {
        let mut set = |name: &str, tag: &str| {
            actual.retain(|g| g.name != name);
            actual.push(GraphInfo {
                name: name.into(),
                tag: tag.into(),
                elements: 1,
                swaps: 0,
                engine: "interpreter".into(),
            });
        };
        match step {
            Step::LoadGraph { graph, tag, .. } | Step::SwapGraph { graph, tag, .. } => set(graph, tag),
            Step::LoadLsi0 { tag, .. } => set(LSI0, tag),
            Step::WriteHandlers { graph, tag, .. } => drop(written.insert(graph.clone(), tag.clone())),
            Step::Unload { graph } => actual.retain(|g| g.name != *graph),
        }
    }

    fn kinds(steps: &[Step]) -> Vec<String> {
        let kind = |s: &Step| match s {
            Step::LoadGraph { .. } => "load",
            Step::SwapGraph { .. } => "swap",
            Step::WriteHandlers { .. } => "write",
            Step::LoadLsi0 { .. } => "lsi0",
            Step::Unload { .. } => "unload",
        };
        steps.iter().map(|s| format!("{} {}", kind(s), s.graph())).collect()
    }

    fn all(graphs: &[DesiredGraph]) -> Vec<Wanted<'_>> {
        graphs.iter().map(|graph| Wanted { graph, attach: true }).collect()
    }

    #[test]
    fn graphs_come_before_lsi0_sends_to_them_and_go_after() {
        let (a, b) = (desired(&wire("a", "eth1", "eth2")), desired(&wire("b", "eth1", "eth2")));
        let (mut actual, mut written) = (Vec::new(), BTreeMap::new());
        let steps = reconcile(&all(std::slice::from_ref(&a)), &actual, &written);
        assert_eq!(kinds(&steps), ["load a", "lsi0 node:lsi0"]);
        steps.iter().for_each(|s| carry_out(s, &mut actual, &mut written));
        assert_eq!(reconcile(&all(std::slice::from_ref(&a)), &actual, &written), []);
        // b takes the place of a.
        let steps = reconcile(&all(&[b]), &actual, &written);
        assert_eq!(kinds(&steps), ["load b", "lsi0 node:lsi0", "unload a"]);
        steps.iter().for_each(|s| carry_out(s, &mut actual, &mut written));
        let steps = reconcile(&[], &actual, &written);
        assert_eq!(kinds(&steps), ["unload node:lsi0", "unload b"]);
    }

    #[test]
    fn what_runs_with_the_same_tag_is_adopted_and_missing_writes_are_made() {
        let mut a = desired(&wire("a", "eth1", "eth2"));
        a.writes = vec![("sf_x/f.limit".into(), "3".into())];
        let graphs = [a];
        let (mut actual, mut written) = (Vec::new(), BTreeMap::new());
        let steps = reconcile(&all(&graphs), &actual, &written);
        assert_eq!(kinds(&steps), ["load a", "write a", "lsi0 node:lsi0"]);
        // The daemon was killed between the load and the writes.
        carry_out(&steps[0], &mut actual, &mut written);
        let steps = reconcile(&all(&graphs), &actual, &written);
        assert_eq!(kinds(&steps), ["write a", "lsi0 node:lsi0"]);
        steps.iter().for_each(|s| carry_out(s, &mut actual, &mut written));
        assert_eq!(reconcile(&all(&graphs), &actual, &written), []);
    }

    #[test]
    fn a_graph_that_lsi0_fails_with_runs_unattached() {
        let graphs = [desired(&wire("a", "eth1", "eth2"))];
        let wanted = [Wanted { graph: &graphs[0], attach: false }];
        assert_eq!(kinds(&reconcile(&wanted, &[], &BTreeMap::new())), ["load a"]);
    }

    proptest::proptest! {
        #[test]
        fn from_any_state_the_steps_lead_to_the_wanted_one_and_no_further(
            wanted in proptest::collection::btree_set(0..4usize, 0..4),
            running in proptest::collection::btree_map(0..5usize, proptest::bool::ANY, 0..5),
        ) {
            let graphs: Vec<_> = wanted.iter().map(|n| desired(&wire(&format!("g{n}"), &format!("e{n}"), &format!("f{n}")))).collect();
            let mut actual = Vec::new();
            let mut written = BTreeMap::new();
            for (n, stale) in running {
                let name = if n == 4 { LSI0.to_owned() } else { format!("g{n}") };
                let right = graphs.iter().find(|g| g.id == name).map_or("", |g| &g.tag);
                let step = Step::LoadGraph { graph: name, config: String::new(), tag: if stale { "old".into() } else { right.into() } };
                carry_out(&step, &mut actual, &mut written);
            }
            for step in reconcile(&all(&graphs), &actual, &written) {
                carry_out(&step, &mut actual, &mut written);
            }
            proptest::prop_assert_eq!(reconcile(&all(&graphs), &actual, &written), vec![]);
            let names: BTreeSet<_> = actual.iter().map(|g| g.name.clone()).filter(|n| n != LSI0).collect();
            proptest::prop_assert_eq!(names, graphs.iter().map(|g| g.id.clone()).collect::<BTreeSet<_>>());
        }
    }
}

//! The pure core: from what should run and what runs to the steps between them. No I/O, no clock.
//!
//! It looks at the graphs that it is asked about and at nothing else, so that a change costs what it changes. The order of
//! the steps keeps every moment in between safe: graphs are there before LSI-0 sends to them, and LSI-0 has stopped
//! sending before they go. A graph whose tag is the wanted one is not touched, so that a daemon that comes back adopts
//! what still runs, and no packet is missed. After all steps, a second run gives none.

use std::collections::{BTreeMap, BTreeSet};

use weir_switch::lsi0::lsi0;

use crate::desired::{DesiredGraph, tag};

/// What names of LSI-0 in the data plane begin with; the interface follows. No graph is called so: identifiers are without
/// `:`.
pub const LSI0: &str = "node:lsi0:";

/// The name of an interface's LSI-0 in the data plane.
pub fn lsi0_of(interface: &str) -> String {
    format!("{LSI0}{interface}")
}

/// An interface, or one VLAN of it.
pub type PlaceId = (String, Option<u16>);

/// The links of an access point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Links {
    /// By which the graph gets what arrives.
    pub to: String,
    /// By which it sends.
    pub from: String,
}

impl Links {
    /// The graph: names of links begin with it.
    pub fn graph(&self) -> &str {
        self.to.split('/').next().unwrap_or_default()
    }
}

/// What the data plane runs.
#[derive(Debug, Clone, Default)]
pub struct Running {
    /// Tags of graphs.
    pub graphs: BTreeMap<String, String>,
    /// Of which tag a graph's handler writes were made.
    pub written: BTreeMap<String, String>,
    /// LSI-0 by interface: its tag, and its number of access points.
    interfaces: BTreeMap<String, (String, usize)>,
    points: BTreeMap<PlaceId, Links>,
    /// Access points of each graph.
    held: BTreeMap<String, BTreeSet<PlaceId>>,
}

impl Running {
    /// LSI-0 of an interface runs.
    pub fn add_lsi0(&mut self, interface: &str, tag: &str) {
        self.interfaces.entry(interface.to_owned()).or_default().0 = tag.to_owned();
    }

    /// Whether LSI-0 of an interface runs.
    pub fn has_lsi0(&self, interface: &str) -> bool {
        self.interfaces.contains_key(interface)
    }

    /// LSI-0 of an interface is gone, and with it all its access points.
    pub fn remove_lsi0(&mut self, interface: &str) {
        let gone: Vec<PlaceId> = self.points.keys().filter(|p| p.0 == interface).cloned().collect();
        gone.iter().for_each(|place| self.remove_point(place));
        self.interfaces.remove(interface);
    }

    /// LSI-0 of the interface, which runs, has an access point.
    pub fn add_point(&mut self, place: PlaceId, links: Links) {
        self.remove_point(&place);
        if let Some((_, count)) = self.interfaces.get_mut(&place.0) {
            *count += 1;
        }
        self.held.entry(links.graph().to_owned()).or_default().insert(place.clone());
        self.points.insert(place, links);
    }

    /// LSI-0 has an access point no longer.
    pub fn remove_point(&mut self, place: &PlaceId) {
        let Some(links) = self.points.remove(place) else { return };
        if let Some((_, count)) = self.interfaces.get_mut(&place.0) {
            *count -= 1;
        }
        if let Some(places) = self.held.get_mut(links.graph()) {
            places.remove(place);
            if places.is_empty() {
                self.held.remove(links.graph());
            }
        }
    }

    /// All that is known by name, and not an LSI-0.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.graphs.keys().chain(self.held.keys()).map(String::as_str)
    }
}

/// A change of an access point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// The VLAN; `None` takes all others.
    pub vlan: Option<u16>,
    /// Its links; `None`: it goes.
    pub links: Option<Links>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Load a graph that does not run, or change one that does.
    LoadGraph {
        /// Its name.
        graph: String,
        /// Its configuration.
        config: String,
        /// Its tag.
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
    /// Load or change LSI-0 of an interface.
    LoadLsi0 {
        /// The interface.
        interface: String,
        /// Its configuration.
        config: String,
        /// Its tag.
        tag: String,
    },
    /// Change access points of an interface, all at once; those that go stand first.
    ChangePoints {
        /// The interface.
        interface: String,
        /// The changes.
        points: Vec<Point>,
    },
    /// Stop and forget LSI-0 of an interface.
    UnloadLsi0 {
        /// The interface.
        interface: String,
    },
    /// Stop and forget a graph.
    UnloadGraph {
        /// Its name.
        graph: String,
    },
}

/// The steps for some graphs: each is wanted as it stands there, or not wanted.
pub fn reconcile(wanted: &BTreeMap<&str, Option<&DesiredGraph>>, running: &Running) -> Vec<Step> {
    let mut steps = Vec::new();
    for g in wanted.values().flatten() {
        let (graph, config, tag) = (g.id.clone(), g.config.clone(), g.tag.clone());
        let runs = running.graphs.get(&g.id) == Some(&g.tag);
        if !runs {
            steps.push(Step::LoadGraph { graph: graph.clone(), config, tag: tag.clone() });
        }
        // A crash may have come between the load and the writes.
        let done = runs && running.written.get(&g.id) == Some(&g.tag);
        if !g.writes.is_empty() && !done {
            steps.push(Step::WriteHandlers { graph, tag, writes: g.writes.clone() });
        }
    }
    let mut gone = Vec::new();
    for (interface, points) in points(wanted, running) {
        let (config, lsi0_tag, count) = match running.interfaces.get(&interface) {
            Some((tag, count)) => (lsi0(&interface), Some(tag), *count),
            None => (lsi0(&interface), None, 0),
        };
        let removed = points.iter().filter(|p| p.links.is_none()).count();
        let added = points.len() - removed;
        if count + added == removed {
            gone.push(interface);
            continue;
        }
        let tag = tag(&config, &[]);
        if lsi0_tag != Some(&tag) {
            steps.push(Step::LoadLsi0 { interface: interface.clone(), config, tag });
        }
        if !points.is_empty() {
            steps.push(Step::ChangePoints { interface, points });
        }
    }
    steps.extend(gone.into_iter().map(|interface| Step::UnloadLsi0 { interface }));
    let unwanted = wanted.iter().filter(|(name, g)| g.is_none() && running.graphs.contains_key(**name));
    steps.extend(unwanted.map(|(name, _)| Step::UnloadGraph { graph: (*name).to_owned() }));
    steps
}

/// The access points to change, by interface; those that go stand first.
fn points(wanted: &BTreeMap<&str, Option<&DesiredGraph>>, running: &Running) -> BTreeMap<String, Vec<Point>> {
    let mut removed: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    let mut added: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for (name, graph) in wanted {
        let mut want: BTreeMap<PlaceId, Links> = BTreeMap::new();
        for a in graph.iter().flat_map(|g| g.attachments()) {
            let (to, from) = a.links();
            want.insert((a.interface, a.vlan), Links { to, from });
        }
        for place in running.held.get(*name).into_iter().flatten() {
            if want.get(place) == running.points.get(place) {
                want.remove(place);
            } else {
                let point = Point { vlan: place.1, links: None };
                removed.entry(place.0.clone()).or_default().push(point);
            }
        }
        for ((interface, vlan), links) in want {
            added.entry(interface).or_default().push(Point { vlan, links: Some(links) });
        }
    }
    for (interface, points) in added {
        removed.entry(interface).or_default().extend(points);
    }
    // LSI-0 of nothing, which a crash may have left.
    for (interface, (_, count)) in &running.interfaces {
        if *count == 0 {
            removed.entry(interface.clone()).or_default();
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{desired, wire};

    /// What the data plane has after a step.
    fn carry_out(step: &Step, running: &mut Running) {
        match step {
            Step::LoadGraph { graph, tag, .. } => drop(running.graphs.insert(graph.clone(), tag.clone())),
            Step::LoadLsi0 { interface, tag, .. } => running.add_lsi0(interface, tag),
            Step::WriteHandlers { graph, tag, .. } => {
                drop(running.written.insert(graph.clone(), tag.clone()));
            }
            Step::ChangePoints { interface, points } => {
                for p in points {
                    let place = (interface.clone(), p.vlan);
                    match &p.links {
                        None => running.remove_point(&place),
                        Some(links) => {
                            assert!(running.graphs.contains_key(links.graph()), "LSI-0 sends to nowhere");
                            assert!(!running.points.contains_key(&place), "{place:?} is taken");
                            running.add_point(place, links.clone());
                        }
                    }
                }
            }
            Step::UnloadLsi0 { interface } => running.remove_lsi0(interface),
            Step::UnloadGraph { graph } => {
                assert!(!running.held.contains_key(graph), "LSI-0 still sends to {graph}");
                running.graphs.remove(graph);
            }
        }
    }

    fn kinds(steps: &[Step]) -> Vec<String> {
        let kind = |s: &Step| match s {
            Step::LoadGraph { graph, .. } => format!("load {graph}"),
            Step::WriteHandlers { graph, .. } => format!("write {graph}"),
            Step::LoadLsi0 { interface, .. } => format!("lsi0 {interface}"),
            Step::ChangePoints { interface, points } => format!("points {interface} {}", points.len()),
            Step::UnloadLsi0 { interface } => format!("unload lsi0 {interface}"),
            Step::UnloadGraph { graph } => format!("unload {graph}"),
        };
        steps.iter().map(kind).collect()
    }

    fn all<'a>(
        graphs: &'a [DesiredGraph],
        running: &'a Running,
    ) -> BTreeMap<&'a str, Option<&'a DesiredGraph>> {
        let mut wanted: BTreeMap<&str, Option<&DesiredGraph>> = running.names().map(|n| (n, None)).collect();
        wanted.extend(graphs.iter().map(|g| (g.id.as_str(), Some(g))));
        wanted
    }

    fn steps(graphs: &[DesiredGraph], running: &Running) -> Vec<Step> {
        reconcile(&all(graphs, running), running)
    }

    #[test]
    fn graphs_come_before_lsi0_sends_to_them_and_go_after() {
        let (a, b) = ([desired(&wire("a", "eth1", "eth2"))], [desired(&wire("b", "eth1", "eth3"))]);
        let mut running = Running::default();
        let first = steps(&a, &running);
        let wanted = ["load a", "lsi0 eth1", "points eth1 1", "lsi0 eth2", "points eth2 1"];
        assert_eq!(kinds(&first), wanted);
        first.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(steps(&a, &running), []);
        // b takes the place of a.
        let second = steps(&b, &running);
        let wanted =
            ["load b", "points eth1 2", "lsi0 eth3", "points eth3 1", "unload lsi0 eth2", "unload a"];
        assert_eq!(kinds(&second), wanted);
        second.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(kinds(&steps(&[], &running)), ["unload lsi0 eth1", "unload lsi0 eth3", "unload b"]);
    }

    #[test]
    fn what_runs_with_the_same_tag_is_adopted_and_missing_writes_are_made() {
        let mut a = desired(&wire("a", "eth1", "eth2"));
        a.writes = vec![("sf_x/f.limit".into(), "3".into())];
        let graphs = [a];
        let mut running = Running::default();
        let first = steps(&graphs, &running);
        assert_eq!(kinds(&first[..2]), ["load a", "write a"]);
        // The daemon was killed between the load and the writes.
        carry_out(&first[0], &mut running);
        let second = steps(&graphs, &running);
        assert_eq!(kinds(&second[..2]), ["write a", "lsi0 eth1"]);
        second.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(steps(&graphs, &running), []);
    }

    #[test]
    fn a_change_of_one_graph_has_steps_of_that_graph_alone() {
        let graphs: Vec<_> = (0..50)
            .map(|i| {
                desired(
                    &wire(&format!("g{i}"), &format!("e{i}"), "lo")
                        .replace("sap:r", "sap:l")
                        .replace("  - {id: r, type: interface, interface: {if-name: lo}}\n", ""),
                )
            })
            .collect();
        let mut running = Running::default();
        steps(&graphs, &running).iter().for_each(|s| carry_out(s, &mut running));
        let one = desired(&wire("g7", "e7", "new"));
        let wanted = BTreeMap::from([("g7", Some(&one))]);
        assert_eq!(kinds(&reconcile(&wanted, &running)), ["load g7", "lsi0 new", "points new 1"]);
        let none = BTreeMap::from([("g7", None)]);
        assert_eq!(kinds(&reconcile(&none, &running)), ["unload lsi0 e7", "unload g7"]);
    }

    proptest::proptest! {
        #[test]
        fn from_any_state_the_steps_lead_to_the_wanted_one_and_no_further(
            wanted in proptest::collection::btree_set(0..4usize, 0..4),
            running in proptest::collection::btree_map(0..4usize, proptest::bool::ANY, 0..4),
            stray in proptest::bool::ANY,
        ) {
            let graph = |n: usize| desired(&wire(&format!("g{n}"), &format!("e{}", n % 3), &format!("f{n}")));
            // Two of these want the same interface; the second wanted one is another graph's.
            let graphs: Vec<_> = wanted.iter().filter(|n| **n < 3).map(|n| graph(*n)).collect();
            let mut actual = Running::default();
            for (n, stale) in running {
                let mut g = graph(n);
                if stale {
                    g.tag = "old".into();
                }
                let one = BTreeMap::from([(g.id.as_str(), Some(&g))]);
                let taken = n == 3 && actual.graphs.contains_key("g0");
                if !taken {
                    reconcile(&one, &actual).iter().for_each(|s| carry_out(s, &mut actual));
                }
            }
            if stray {
                actual.add_lsi0("nobody", "x");
            }
            steps(&graphs, &actual).iter().for_each(|s| carry_out(s, &mut actual));
            proptest::prop_assert_eq!(steps(&graphs, &actual), vec![]);
            let names: BTreeSet<_> = actual.graphs.keys().cloned().collect();
            proptest::prop_assert_eq!(names, graphs.iter().map(|g| g.id.clone()).collect::<BTreeSet<_>>());
            let points: usize = graphs.iter().map(|g| g.attachments.len()).sum();
            proptest::prop_assert_eq!(actual.points.len(), points);
        }
    }
}

//! The pure core: from what should run and what runs to the steps between them. No I/O, no clock.
//!
//! It looks at the graphs that it is asked about and at nothing else, so that a change costs what it changes. All that runs are
//! instances: the switch of a graph with its inline functions, each of its other functions, and LSI-0 of an interface. The order of
//! the steps keeps every moment in between safe: functions are there before their graph's switch sends to them, a switch before
//! LSI-0 sends to it, and they go in the opposite order. An instance whose tag is the wanted one is not touched, so that a daemon
//! that comes back adopts what still runs, and no packet is missed. After all steps, a second run gives none.

use std::collections::{BTreeMap, BTreeSet};

use weir_switch::lsi0::{Base, Part, lsi0};

use crate::desired::DesiredGraph;
use crate::instance::{Instance, InstanceId, Kind, SwitchSpec};

/// What names of LSI-0 in the data plane begin with; its interface follows, or what it has for one ([`Base`]). No graph is called so: identifiers are without
/// `:`.
pub const LSI0: &str = "node:lsi0:";

/// The name of an interface's LSI-0 in the data plane.
pub fn lsi0_of(interface: &str) -> String {
    format!("{LSI0}{interface}")
}

/// The name of an LSI-0's [`Base`], and a part of it.
pub type PlaceId = (String, Part);

/// The links of an access point.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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

/// What runs.
#[derive(Debug, Clone, Default)]
pub struct Running {
    /// Tags of graphs' switches.
    pub graphs: BTreeMap<String, String>,
    /// Tags of functions' instances, with their drivers.
    pub functions: BTreeMap<InstanceId, (Kind, String)>,
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
        let functions = self.functions.keys().map(|id| &id.graph);
        self.graphs.keys().chain(self.held.keys()).chain(functions).map(String::as_str)
    }

    /// The instances of a graph's functions.
    fn functions_of(&self, graph: &str) -> impl Iterator<Item = (&InstanceId, &(Kind, String))> {
        let first = InstanceId::new(graph, "");
        self.functions.range(first..).take_while(move |(id, _)| id.graph == graph)
    }
}

/// What a driver is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The switch of a graph.
    Switch {
        /// The graph.
        graph: String,
        /// Its configuration.
        config: String,
        /// Its tag.
        tag: String,
    },
    /// A function that is not inline.
    Function(Box<Instance>),
    /// LSI-0 of an interface.
    Lsi0 {
        /// The interface.
        interface: String,
        /// Its configuration.
        config: String,
        /// Its tag.
        tag: String,
    },
}

/// Something that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The switch of a graph.
    Switch(String),
    /// A function, and its driver.
    Function(InstanceId, Kind),
    /// LSI-0 of an interface.
    Lsi0(String),
}

/// A change of an access point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Which packets it takes.
    pub part: Part,
    /// Its links; `None`: it goes.
    pub links: Option<Links>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Run what does not.
    Create(Wanted),
    /// Change what runs.
    Update(Wanted),
    /// Make a switch's first handler writes.
    Write {
        /// The graph.
        graph: String,
        /// Its tag, to be remembered as written.
        tag: String,
        /// Handler and value, in this order.
        writes: Vec<(String, String)>,
    },
    /// Change access points of an interface, all at once; those that go stand first.
    Attach {
        /// The interface.
        interface: String,
        /// The changes.
        points: Vec<Point>,
    },
    /// Stop and forget what runs.
    Remove(Known),
}

/// The steps for some graphs: each is wanted as it stands there, or not wanted.
pub fn reconcile(wanted: &BTreeMap<&str, Option<&DesiredGraph>>, running: &Running) -> Vec<Step> {
    let mut steps = Vec::new();
    for g in wanted.values().flatten() {
        for instance in &g.instances {
            let step = match running.functions.get(&instance.id) {
                Some((_, tag)) if *tag == instance.tag => continue,
                Some(_) => Step::Update,
                None => Step::Create,
            };
            steps.push(step(Wanted::Function(Box::new(instance.clone()))));
        }
    }
    for g in wanted.values().flatten() {
        let (graph, config, tag) = (g.id.clone(), g.switch.config.clone(), g.tag.clone());
        let runs = running.graphs.get(&g.id);
        let same = runs == Some(&g.tag);
        if !same {
            let switch = Wanted::Switch { graph: graph.clone(), config, tag: tag.clone() };
            steps.push(if runs.is_some() { Step::Update(switch) } else { Step::Create(switch) });
        }
        // A crash may have come between the load and the writes.
        let done = same && running.written.get(&g.id) == Some(&g.tag);
        if !g.switch.writes.is_empty() && !done {
            steps.push(Step::Write { graph, tag, writes: g.switch.writes.clone() });
        }
    }
    let mut gone = Vec::new();
    let bases = bases(wanted);
    let mut changes = points(wanted, running);
    let mut left = BTreeMap::new();
    for (interface, points) in leaving(&mut changes, running) {
        left.insert(interface.clone(), points.len());
        steps.push(Step::Attach { interface, points });
    }
    for (interface, mut points) in changes {
        let (known, count) = match running.interfaces.get(&interface) {
            Some((tag, count)) => (Some(tag), count - left.get(&interface).unwrap_or(&0)),
            None => (None, 0),
        };
        let removed = points.iter().filter(|p| p.links.is_none()).count();
        let added = points.len() - removed;
        if count + added == removed {
            gone.push(interface);
            continue;
        }
        let base = bases.get(&interface).map(|(base, _)| base.clone());
        let base = base.or_else(|| Base::of_name(&interface, None));
        let switch = base.as_ref().map(|base| SwitchSpec::new(lsi0(base)));
        if let Some((tag, switch)) = switch.map(|s| (s.tag(), s)).filter(|(tag, _)| known != Some(tag)) {
            // An interface of the host is made anew: what it had before does not stay.
            let anew = known.is_some() && matches!(base, Some(Base::Host(_)));
            if anew {
                steps.push(Step::Remove(Known::Lsi0(interface.clone())));
                let links = bases.get(&interface).map(|(_, links)| links.clone());
                points = vec![Point { part: Part::Rest, links }];
            }
            let lsi0 = Wanted::Lsi0 { interface: interface.clone(), config: switch.config, tag };
            steps.push(if known.is_some() && !anew { Step::Update(lsi0) } else { Step::Create(lsi0) });
        }
        if !points.is_empty() {
            steps.push(Step::Attach { interface, points });
        }
    }
    steps.extend(gone.into_iter().map(|interface| Step::Remove(Known::Lsi0(interface))));
    let unwanted = wanted.iter().filter(|(name, g)| g.is_none() && running.graphs.contains_key(**name));
    steps.extend(unwanted.map(|(name, _)| Step::Remove(Known::Switch((*name).to_owned()))));
    for (name, g) in wanted {
        let keeps = |id: &InstanceId| g.is_some_and(|g| g.instances.iter().any(|i| i.id == *id));
        let left = running.functions_of(name).filter(|(id, _)| !keeps(id));
        steps.extend(left.map(|(id, (kind, _))| Step::Remove(Known::Function(id.clone(), *kind))));
    }
    steps
}

/// What the access points of graphs are parts of, by name, with the links of one of them: the only one of a host's interface.
fn bases(wanted: &BTreeMap<&str, Option<&DesiredGraph>>) -> BTreeMap<String, (Base, Links)> {
    let attachments = wanted.values().flatten().flat_map(|g| g.attachments());
    let base = |a: weir_switch::lsi0::Attachment| {
        let (to, from) = a.links();
        (a.base.to_string(), (a.base, Links { to, from }))
    };
    attachments.map(base).collect()
}

/// The access points to change, by interface; those that go stand first.
fn points(wanted: &BTreeMap<&str, Option<&DesiredGraph>>, running: &Running) -> BTreeMap<String, Vec<Point>> {
    let mut removed: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    let mut added: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for (name, graph) in wanted {
        let mut want: BTreeMap<PlaceId, Links> = BTreeMap::new();
        for a in graph.iter().flat_map(|g| g.attachments()) {
            let (to, from) = a.links();
            let interface = a.base.to_string();
            if matches!(a.base, Base::Host(_)) {
                // Its addresses may be other ones.
                removed.entry(interface.clone()).or_default();
            }
            want.insert((interface, a.part), Links { to, from });
        }
        for place in running.held.get(*name).into_iter().flatten() {
            if want.get(place) == running.points.get(place) {
                want.remove(place);
            } else {
                let point = Point { part: place.1, links: None };
                removed.entry(place.0.clone()).or_default().push(point);
            }
        }
        for ((interface, part), links) in want {
            added.entry(interface).or_default().push(Point { part, links: Some(links) });
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

/// Takes out what has to go first: a link is one access point's at a time, so one that moves to another interface leaves its old one before.
fn leaving(changes: &mut BTreeMap<String, Vec<Point>>, running: &Running) -> Vec<(String, Vec<Point>)> {
    let arrivals = changes.iter().flat_map(|(interface, points)| {
        points.iter().filter_map(move |p| Some((p.links.clone()?, interface.clone())))
    });
    let arrivals: BTreeMap<Links, String> = arrivals.collect();
    let mut leaving = Vec::new();
    for (interface, points) in changes {
        let moves = |p: &mut Point| {
            let had = running.points.get(&(interface.clone(), p.part)).filter(|_| p.links.is_none());
            had.and_then(|links| arrivals.get(links)).is_some_and(|to| to != interface)
        };
        let points: Vec<Point> = points.extract_if(.., moves).collect();
        if !points.is_empty() {
            leaving.push((interface.clone(), points));
        }
    }
    leaving
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{desired, wire};

    /// What runs after a step.
    fn carry_out(step: &Step, running: &mut Running) {
        match step {
            Step::Create(wanted) | Step::Update(wanted) => {
                assert_eq!(matches!(step, Step::Update(_)), runs(wanted, running), "{step:?}");
                match wanted {
                    Wanted::Switch { graph, tag, config } => {
                        let met = running.functions.keys().filter(|id| id.graph == *graph).count();
                        assert!(config.matches("FromDevice").count() <= met, "a switch sends to nowhere");
                        drop(running.graphs.insert(graph.clone(), tag.clone()));
                    }
                    Wanted::Lsi0 { interface, tag, .. } => running.add_lsi0(interface, tag),
                    Wanted::Function(i) => {
                        drop(running.functions.insert(i.id.clone(), (i.spec.kind(), i.tag.clone())));
                    }
                }
            }
            Step::Write { graph, tag, .. } => {
                drop(running.written.insert(graph.clone(), tag.clone()));
            }
            Step::Attach { interface, points } => {
                for p in points {
                    let place = (interface.clone(), p.part);
                    match &p.links {
                        None => running.remove_point(&place),
                        Some(links) => {
                            assert!(running.graphs.contains_key(links.graph()), "LSI-0 sends to nowhere");
                            assert!(!running.points.contains_key(&place), "{place:?} is taken");
                            assert!(!running.points.values().any(|l| l == links), "{links:?} are taken");
                            running.add_point(place, links.clone());
                        }
                    }
                }
            }
            Step::Remove(Known::Lsi0(interface)) => running.remove_lsi0(interface),
            Step::Remove(Known::Switch(graph)) => {
                assert!(!running.held.contains_key(graph), "LSI-0 still sends to {graph}");
                running.graphs.remove(graph);
            }
            Step::Remove(Known::Function(id, _)) => drop(running.functions.remove(id)),
        }
    }

    fn runs(wanted: &Wanted, running: &Running) -> bool {
        match wanted {
            Wanted::Switch { graph, .. } => running.graphs.contains_key(graph),
            Wanted::Lsi0 { interface, .. } => running.has_lsi0(interface),
            Wanted::Function(i) => running.functions.contains_key(&i.id),
        }
    }

    fn kinds(steps: &[Step]) -> Vec<String> {
        let wanted = |w: &Wanted| match w {
            Wanted::Switch { graph, .. } => graph.clone(),
            Wanted::Lsi0 { interface, .. } => format!("lsi0 {interface}"),
            Wanted::Function(i) => i.id.to_string(),
        };
        let kind = |s: &Step| match s {
            Step::Create(w) => format!("create {}", wanted(w)),
            Step::Update(w) => format!("update {}", wanted(w)),
            Step::Write { graph, .. } => format!("write {graph}"),
            Step::Attach { interface, points } => format!("attach {interface} {}", points.len()),
            Step::Remove(Known::Lsi0(interface)) => format!("remove lsi0 {interface}"),
            Step::Remove(Known::Switch(graph)) => format!("remove {graph}"),
            Step::Remove(Known::Function(id, _)) => format!("remove {id}"),
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
        let wanted = ["create a", "create lsi0 eth1", "attach eth1 1", "create lsi0 eth2", "attach eth2 1"];
        assert_eq!(kinds(&first), wanted);
        first.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(steps(&a, &running), []);
        // b takes the place of a.
        let second = steps(&b, &running);
        let wanted = [
            "create b",
            "attach eth1 2",
            "create lsi0 eth3",
            "attach eth3 1",
            "remove lsi0 eth2",
            "remove a",
        ];
        assert_eq!(kinds(&second), wanted);
        second.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(kinds(&steps(&[], &running)), ["remove lsi0 eth1", "remove lsi0 eth3", "remove b"]);
    }

    #[test]
    fn an_access_point_that_moves_to_another_interface_leaves_its_old_one_first() {
        let mut running = Running::default();
        let moves = [
            (
                ("eth2", "eth3"),
                vec!["create lsi0 eth2", "attach eth2 1", "create lsi0 eth3", "attach eth3 1"],
            ),
            (("eth3", "eth2"), vec!["attach eth2 1", "attach eth3 1", "attach eth2 1", "attach eth3 1"]),
            (
                ("eth3", "eth1"),
                vec!["attach eth2 1", "create lsi0 eth1", "attach eth1 1", "remove lsi0 eth2"],
            ),
        ];
        for ((left, right), wanted) in moves {
            let graphs = [desired(&wire("a", left, right))];
            let next = steps(&graphs, &running);
            let kinds: Vec<String> = kinds(&next).into_iter().filter(|k| !k.ends_with(" a")).collect();
            assert_eq!(kinds, wanted);
            next.iter().for_each(|s| carry_out(s, &mut running));
            assert_eq!(steps(&graphs, &running), []);
        }
    }

    #[test]
    fn an_interface_of_the_host_is_made_anew_when_it_is_to_be_another() {
        let sap = "{id: r, type: host-stack, host-stack: {ip: 10.0.0.1/24, if-name: stack}}";
        let document =
            wire("a", "eth1", "eth2").replace("{id: r, type: interface, interface: {if-name: eth2}}", sap);
        let graphs = [desired(&document)];
        let mut running = Running::default();
        let first = steps(&graphs, &running);
        let kinds_of = kinds(&first);
        assert_eq!(kinds_of[3..], ["create lsi0 host:stack", "attach host:stack 1"]);
        first.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(steps(&graphs, &running), []);
        let graphs = [desired(&document.replace("10.0.0.1/24", "10.0.0.2/24"))];
        let second = steps(&graphs, &running);
        let wanted = ["remove lsi0 host:stack", "create lsi0 host:stack", "attach host:stack 1"];
        assert_eq!(kinds(&second), wanted, "its graph is as it was");
        second.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(steps(&graphs, &running), []);
    }

    #[test]
    fn what_runs_with_the_same_tag_is_adopted_and_missing_writes_are_made() {
        let mut a = desired(&wire("a", "eth1", "eth2"));
        a.switch.writes = vec![("sf_x/f.limit".into(), "3".into())];
        let graphs = [a];
        let mut running = Running::default();
        let first = steps(&graphs, &running);
        assert_eq!(kinds(&first[..2]), ["create a", "write a"]);
        // The daemon was killed between the load and the writes.
        carry_out(&first[0], &mut running);
        let second = steps(&graphs, &running);
        assert_eq!(kinds(&second[..2]), ["write a", "create lsi0 eth1"]);
        second.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(steps(&graphs, &running), []);
    }

    #[test]
    fn functions_come_before_their_switch_and_go_after_it() {
        let mut a = desired(&wire("a", "eth1", "eth2"));
        let function = |name: &str, digest: &str| {
            Instance::new(InstanceId::new("a", name), crate::testing::native_spec(digest))
        };
        a.instances = vec![function("f", "1"), function("g", "1")];
        let mut running = Running::default();
        let first = steps(std::slice::from_ref(&a), &running);
        assert_eq!(kinds(&first[..3]), ["create a/f", "create a/g", "create a"]);
        first.iter().for_each(|s| carry_out(s, &mut running));
        // Another image of f, and g goes; b, whose name begins alike, is not touched.
        let other = InstanceId::new("aa", "f");
        running.functions.insert(other.clone(), (Kind::Native, "x".into()));
        a.instances = vec![function("f", "2")];
        let wanted = BTreeMap::from([("a", Some(&a))]);
        let second = reconcile(&wanted, &running);
        assert_eq!(kinds(&second), ["update a/f", "remove a/g"]);
        second.iter().for_each(|s| carry_out(s, &mut running));
        let none = reconcile(&BTreeMap::from([("a", None)]), &running);
        let wanted = ["remove lsi0 eth1", "remove lsi0 eth2", "remove a", "remove a/f"];
        assert_eq!(kinds(&none), wanted);
        assert_eq!(kinds(&steps(&[], &running)).last().map(String::as_str), Some("remove aa/f"));
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
        assert_eq!(kinds(&reconcile(&wanted, &running)), ["update g7", "create lsi0 new", "attach new 1"]);
        let none = BTreeMap::from([("g7", None)]);
        assert_eq!(kinds(&reconcile(&none, &running)), ["remove lsi0 e7", "remove g7"]);
    }

    proptest::proptest! {
        #[test]
        fn from_any_state_the_steps_lead_to_the_wanted_one_and_no_further(
            wanted in proptest::collection::btree_set(0..4usize, 0..4),
            running in proptest::collection::btree_map(0..4usize, proptest::bool::ANY, 0..4),
            unwanted in proptest::bool::ANY,
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
            if unwanted {
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

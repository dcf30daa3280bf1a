//! The pure core: from what should run and what runs to the steps between them. No I/O, no clock.
//!
//! It looks at the graphs that it is asked about and at nothing else, so that a change costs what it changes. All that runs are
//! instances: the switch of a graph with its inline functions, each of its other functions, and LSI-0 of an interface. The order of
//! the steps keeps every moment in between safe: functions and their ports are there before their graph's switch sends to them, a
//! switch before LSI-0 sends to it, and they go in the opposite order. An instance whose tag is the wanted one is not touched, so that
//! a daemon that comes back adopts what still runs, and no packet is missed. After all steps, a second run gives none.

use std::collections::{BTreeMap, BTreeSet};

use weir_switch::lsi0::{Base, Part, lsi0};

use crate::desired::DesiredGraph;
use crate::instance::{Instance, InstanceId, Kind, PortNames, SwitchSpec};

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
    /// What arrives waits.
    pub held: bool,
}

impl Links {
    /// The graph: names of links begin with it.
    pub fn graph(&self) -> &str {
        self.to.split('/').next().unwrap_or_default()
    }

    /// The links, whatever they do.
    fn names(&self) -> (&str, &str) {
        (&self.to, &self.from)
    }
}

/// A function's instance that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningFunction {
    /// Its driver.
    pub kind: Kind,
    /// The tag of what it was made from; empty if it is not whole.
    pub tag: String,
    /// Its ports.
    pub ports: Vec<PortNames>,
}

/// The actual state.
#[derive(Debug, Clone, Default)]
pub struct Running {
    /// Tags of graphs' switches.
    pub graphs: BTreeMap<String, String>,
    /// The functions' instances.
    pub functions: BTreeMap<InstanceId, RunningFunction>,
    /// Of which tag a graph's handler writes were made.
    pub written: BTreeMap<String, String>,
    /// Of the graphs that their first packet starts, those that are to run now.
    pub awake: BTreeSet<String>,
    /// Those of them for which packets wait, since they are about to end.
    pub held_back: BTreeSet<String>,
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

    /// Whether all that is wanted of a graph now is to be started by a packet.
    fn sleeps(&self, graph: &DesiredGraph) -> bool {
        graph.on_demand.is_some() && !self.awake.contains(&graph.id)
    }

    /// The instances of a graph's functions.
    fn functions_of(&self, graph: &str) -> impl Iterator<Item = (&InstanceId, &RunningFunction)> {
        let first = InstanceId::new(graph, "");
        self.functions.range(first..).take_while(move |(id, _)| id.graph == graph)
    }
}

/// The desired state of a driver's instance.
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
    /// Make a function what is wanted, with fewer ports than it has: nothing sends to the others any more.
    Shrink(Box<Instance>),
    /// Stop and forget what runs.
    Remove(Known),
}

/// The steps for some graphs: each is wanted as it stands there, or not wanted.
pub fn reconcile(wanted: &BTreeMap<&str, Option<&DesiredGraph>>, running: &Running) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut shrinking = Vec::new();
    let wakeful = || wanted.values().flatten().filter(|g| !running.sleeps(g));
    for instance in wakeful().flat_map(|g| &g.instances) {
        let (now, later) = function(instance, running.functions.get(&instance.id));
        steps.extend(now);
        shrinking.extend(later);
    }
    for g in wakeful() {
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
                let links = links.map(|links| Links { held: held(wanted, running, links.graph()), ..links });
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
    let runs = |g: &Option<&DesiredGraph>| g.is_some_and(|g| !running.sleeps(g));
    let unwanted = wanted.iter().filter(|(name, g)| !runs(g) && running.graphs.contains_key(**name));
    steps.extend(unwanted.map(|(name, _)| Step::Remove(Known::Switch((*name).to_owned()))));
    for (name, g) in wanted {
        let keeps = |id: &InstanceId| runs(g) && g.is_some_and(|g| g.instances.iter().any(|i| i.id == *id));
        let left = running.functions_of(name).filter(|(id, _)| !keeps(id));
        steps.extend(left.map(|(id, f)| Step::Remove(Known::Function(id.clone(), f.kind))));
    }
    steps.extend(shrinking);
    steps
}

/// What to do about a function before its graph's switch is as it is wanted, and after. Before, it only gains: the switch may still
/// send to each of its ports.
fn function(wanted: &Instance, running: Option<&RunningFunction>) -> (Option<Step>, Option<Step>) {
    let whole = || Box::new(wanted.clone());
    let Some(there) = running else { return (Some(Step::Create(Wanted::Function(whole()))), None) };
    if there.tag == wanted.tag {
        return (None, None);
    }
    let ports = &wanted.spec.ports;
    let lost: Vec<&PortNames> = there.ports.iter().filter(|p| !ports.contains(p)).collect();
    let gained: Vec<PortNames> = ports.iter().filter(|p| !there.ports.contains(p)).cloned().collect();
    // What is damaged, or of another kind, or meets the switch in another way, is made anew.
    let other_way = lost.iter().any(|l| gained.iter().any(|g| g.is_interface() != l.is_interface()));
    if lost.is_empty() || other_way || there.kind != wanted.spec.kind() || there.tag.is_empty() {
        return (Some(Step::Update(Wanted::Function(whole()))), None);
    }
    let grown = (!gained.is_empty()).then(|| {
        let mut spec = wanted.spec.clone();
        spec.ports = [there.ports.clone(), gained].concat();
        Step::Update(Wanted::Function(Box::new(Instance::new(wanted.id.clone(), spec))))
    });
    (grown, Some(Step::Shrink(whole())))
}

/// What the access points of graphs are parts of, by name, with the links of one of them: the only one of a host's interface.
fn bases(wanted: &BTreeMap<&str, Option<&DesiredGraph>>) -> BTreeMap<String, (Base, Links)> {
    let attachments = wanted.values().flatten().flat_map(|g| g.attachments());
    let base = |a: weir_switch::lsi0::Attachment| {
        let (to, from) = a.links();
        (a.base.to_string(), (a.base, Links { to, from, held: false }))
    };
    attachments.map(base).collect()
}

/// Whether packets for a graph wait.
fn held(wanted: &BTreeMap<&str, Option<&DesiredGraph>>, running: &Running, graph: &str) -> bool {
    let sleeps = wanted.get(graph).copied().flatten().is_some_and(|g| running.sleeps(g));
    sleeps || running.held_back.contains(graph)
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
            let held = held(wanted, running, name);
            want.insert((interface, a.part), Links { to, from, held });
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
    let arrivals: Vec<(Links, String)> = arrivals.collect();
    let arrivals: BTreeMap<_, &String> = arrivals.iter().map(|(links, at)| (links.names(), at)).collect();
    let mut leaving = Vec::new();
    for (interface, points) in changes {
        let moves = |p: &mut Point| {
            let had = running.points.get(&(interface.clone(), p.part)).filter(|_| p.links.is_none());
            had.and_then(|links| arrivals.get(&links.names())).is_some_and(|to| *to != interface)
        };
        let points: Vec<Point> = points.extract_if(.., moves).collect();
        if !points.is_empty() {
            leaving.push((interface.clone(), points));
        }
    }
    leaving
}

#[cfg(test)]
mod tests;

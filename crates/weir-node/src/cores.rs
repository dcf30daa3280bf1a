//! Which cores functions run on, from the structure of their graphs (COMPOSER paper, sections 4.4 and 5.3). Pure.
//!
//! A function that polls takes a core for each of its threads, whether or not there are packets: it gets cores that nobody else has,
//! if there are enough. Functions that exchange packets share a last-level cache where that is possible. All else shares what is left,
//! of which there is always one core for each worker of the data plane and one more: on a machine with fewer nothing is bound.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_model::graph::{PortRef, ServiceGraph};
use weir_model::value::Id;

use crate::instance::{InstanceId, Spec, Work};

/// Cores by their numbers.
pub type Cores = BTreeSet<u32>;

/// The cores of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// The last-level cache of each core that may be used, by the lowest core that has it.
    pub caches: BTreeMap<u32, u32>,
    /// Workers of the data plane.
    pub workers: usize,
}

/// A function that is not inline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub id: InstanceId,
    /// Its threads that never sleep.
    pub busy: usize,
    /// The functions that it exchanges packets with, directly or by way of inline ones.
    pub neighbours: Vec<InstanceId>,
}

/// How many threads of a function never sleep. One that may not take as much time as they would is no such function.
pub fn busy(spec: &Spec) -> usize {
    let threads = match &spec.work {
        Work::Dpdk { dpdk } => dpdk.threads,
        Work::Vm { vm, .. } => vm.processors,
        Work::Process { .. } | Work::Native { .. } | Work::Container { .. } => 0,
    };
    let limited = spec.limits().cpu.is_some_and(|cpu| u64::from(cpu) < u64::from(threads) * 1000);
    if limited { 0 } else { threads as usize }
}

/// The functions of a graph that are not inline, in the order of its chains; `busy` gives the threads of one that is not.
pub fn functions(graph: &ServiceGraph, busy: &dyn Fn(&str) -> Option<usize>) -> Vec<Function> {
    let mut next: BTreeMap<&Id, BTreeSet<&Id>> = BTreeMap::new();
    for rule in &graph.flowrules {
        let PortRef::Function { function: from, .. } = &rule.matches.port_in else { continue };
        for to in &rule.actions.output_to_port {
            if let PortRef::Function { function: to, .. } = to {
                next.entry(from).or_default().insert(to);
                next.entry(to).or_default().insert(from);
            }
        }
    }
    let near = |id: &Id| next.get(id).into_iter().flatten().copied();
    // What can be reached through inline functions.
    let neighbours = |id: &Id| -> Vec<InstanceId> {
        let (mut seen, mut found) = (BTreeSet::from([id]), Vec::new());
        let mut queue: VecDeque<&Id> = near(id).collect();
        while let Some(other) = queue.pop_front() {
            if !seen.insert(other) {
                continue;
            }
            match busy(other.as_str()) {
                Some(_) => found.push(InstanceId::new(graph.id.as_str(), other.as_str())),
                None => queue.extend(near(other)),
            }
        }
        found
    };
    // A chain is walked from its first function on.
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    for f in &graph.functions {
        let mut queue = VecDeque::from([&f.id]);
        while let Some(id) = queue.pop_front() {
            if seen.insert(id) {
                order.push(id);
                queue.extend(near(id));
            }
        }
    }
    let function = |id: &Id| {
        let id_of = InstanceId::new(graph.id.as_str(), id.as_str());
        Some(Function { id: id_of, busy: busy(id.as_str())?, neighbours: neighbours(id) })
    };
    order.into_iter().filter_map(function).collect()
}

/// Which cores everything runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The cores of functions. A function that is not there may use all.
    pub functions: BTreeMap<InstanceId, Cores>,
    /// The cores of all that has none of its own, the data plane first of all.
    pub shared: Cores,
}

/// The cores of functions, of which `before` are those that they have. Nobody who has cores gets other ones.
pub fn assign(machine: &Machine, functions: &[Function], before: &BTreeMap<InstanceId, Cores>) -> Assignment {
    let kept = machine.workers.max(1) + 1;
    let mut given: BTreeMap<InstanceId, Cores> = BTreeMap::new();
    let mut free: Cores = machine.caches.keys().copied().skip(kept).collect();
    for f in functions.iter().filter(|f| f.busy > 0) {
        if let Some(cores) = before.get(&f.id).filter(|c| c.len() == f.busy && c.is_subset(&free)) {
            free.retain(|core| !cores.contains(core));
            given.insert(f.id.clone(), cores.clone());
        }
    }
    let cache = |core: &u32| machine.caches.get(core).copied();
    for f in functions.iter().filter(|f| f.busy > 0) {
        if given.contains_key(&f.id) || free.len() < f.busy {
            continue;
        }
        // Those behind one that sleeps count as well: it is placed beside them.
        let sleeps = |n: &&InstanceId| !given.contains_key(*n);
        let behind = f.neighbours.iter().filter(sleeps).filter_map(|n| functions.iter().find(|g| g.id == *n));
        let near = f.neighbours.iter().chain(behind.flat_map(|g| &g.neighbours));
        let of_neighbours: Vec<u32> = near.filter_map(|n| given.get(n)).flatten().filter_map(cache).collect();
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for core in &free {
            groups.entry(cache(core).unwrap_or_default()).or_default().push(*core);
        }
        let mut groups: Vec<(u32, Vec<u32>)> = groups.into_iter().collect();
        // A cache that has room for all of it, then that of most neighbours, then the one with most room.
        groups.sort_by_key(|(cache, cores)| {
            let met = of_neighbours.iter().filter(|c| *c == cache).count();
            std::cmp::Reverse((cores.len() >= f.busy, met, cores.len()))
        });
        let cores: Cores = groups.into_iter().flat_map(|(_, cores)| cores).take(f.busy).collect();
        free.retain(|core| !cores.contains(core));
        given.insert(f.id.clone(), cores);
    }
    if given.is_empty() {
        return Assignment { functions: given, shared: machine.caches.keys().copied().collect() };
    }
    let taken: Cores = given.values().flatten().copied().collect();
    let shared: Cores = machine.caches.keys().copied().filter(|core| !taken.contains(core)).collect();
    for f in functions {
        if given.contains_key(&f.id) {
            continue;
        }
        // Beside its neighbours, if all of them are at one cache.
        let met: BTreeSet<u32> = f
            .neighbours
            .iter()
            .filter_map(|n| given.get(n))
            .filter(|cores| cores.is_subset(&taken))
            .flatten()
            .filter_map(cache)
            .collect();
        let one = met.first().filter(|_| met.len() == 1);
        let beside: Cores = shared.iter().copied().filter(|core| one == cache(core).as_ref()).collect();
        // A function that polls and got no cores needs as many as there are.
        let cores = if beside.is_empty() || f.busy > 0 { shared.clone() } else { beside };
        given.insert(f.id.clone(), cores);
    }
    Assignment { functions: given, shared }
}

/// Cores as Linux writes them: `0-3,8`.
pub fn list(cores: &Cores) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for core in cores {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => ranges.push((*core, *core)),
        }
    }
    let text = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Cores from a list as Linux writes them; what is none is left out.
pub fn parse(text: &str) -> Cores {
    let range = |part: &str| -> Option<(u32, u32)> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    let ranges = text.trim().split(',').filter_map(range);
    // Nothing has more.
    ranges
        .filter(|(first, last)| last - first.min(last) < 4096)
        .flat_map(|(first, last)| first..=last)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(function: &str) -> InstanceId {
        InstanceId::new("g", function)
    }

    /// A machine of so many cores, each cache with so many of them.
    fn machine(cores: u32, per_cache: u32) -> Machine {
        Machine { caches: (0..cores).map(|c| (c, c / per_cache * per_cache)).collect(), workers: 1 }
    }

    /// A chain of functions with so many busy threads each.
    fn chain(busy: &[usize]) -> Vec<Function> {
        let name = |i: usize| id(&format!("f{i}"));
        let near = |i: usize| [i.checked_sub(1), Some(i + 1).filter(|n| *n < busy.len())];
        busy.iter()
            .enumerate()
            .map(|(i, &busy)| Function {
                id: name(i),
                busy,
                neighbours: near(i).into_iter().flatten().map(name).collect(),
            })
            .collect()
    }

    fn assigned(machine: &Machine, functions: &[Function]) -> Vec<String> {
        let given = assign(machine, functions, &BTreeMap::new()).functions;
        functions.iter().map(|f| given.get(&f.id).map(list).unwrap_or_default()).collect()
    }

    #[test]
    fn where_there_are_too_few_nothing_is_bound() {
        assert_eq!(assigned(&machine(2, 2), &chain(&[2, 0, 1])), ["", "", ""]);
        assert_eq!(assigned(&machine(8, 4), &chain(&[0, 0])), ["", ""], "nobody polls");
        assert_eq!(assigned(&Machine { workers: 8, ..machine(8, 4) }, &chain(&[1])), [""]);
    }

    #[test]
    fn who_polls_has_cores_alone_and_neighbours_share_a_cache() {
        // Two cores stay: one for the data plane's worker, and one more.
        assert_eq!(assigned(&machine(4, 4), &chain(&[1, 0, 1])), ["2", "0-1", "3"]);
        assert_eq!(assigned(&machine(8, 4), &chain(&[2, 2])), ["4-5", "6-7"]);
        assert_eq!(assigned(&machine(16, 4), &chain(&[2, 0, 2, 3])), ["4-5", "0-3,11-15", "6-7", "8-10"]);
        // The third finds no room: it shares with all the rest.
        assert_eq!(assigned(&machine(6, 6), &chain(&[2, 2, 2])), ["2-3", "4-5", "0-1"]);
        // Nor does it keep the data plane from the cores that they share, or give it those of others.
        let full = assign(&machine(6, 6), &chain(&[2, 2, 2]), &BTreeMap::new());
        assert_eq!(list(&full.shared), "0-1");
        // What does not poll stands beside its neighbour where that has room.
        assert_eq!(assigned(&machine(8, 4), &chain(&[2, 0])), ["4-5", "6-7"]);
    }

    #[test]
    fn what_has_cores_keeps_them() {
        let machine = machine(8, 8);
        let functions = chain(&[1, 1]);
        let before = assign(&machine, &functions, &BTreeMap::new()).functions;
        let mut more = functions.clone();
        more.insert(0, Function { id: id("new"), busy: 2, neighbours: vec![id("f0")] });
        let Assignment { functions: after, shared } = assign(&machine, &more, &before);
        assert_eq!(
            (after.get(&id("f0")), after.get(&id("f1"))),
            (before.get(&id("f0")), before.get(&id("f1")))
        );
        assert_eq!(list(&after[&id("new")]), "4-5");
        assert_eq!(list(&shared), "0-1,6-7");
    }

    #[test]
    fn chains_are_read_off_the_rules() {
        let rule = |i: usize, from: &str, to: &str| {
            format!(
                "  - {{id: r{i}, priority: 1, match: {{port_in: 'sf:{from}:p'}}, actions: {{output_to_port: 'sf:{to}:p'}}}}\n"
            )
        };
        let text = format!(
            "id: g\nname: g\nSFs: [{{id: z, name: x, ports: [p]}}, {{id: in, name: x, ports: [p]}}, {{id: a, name: x, ports: [p]}}, {{id: alone, name: x, ports: [p]}}]\nflowrules:\n{}{}",
            rule(1, "z", "in"),
            rule(2, "in", "a")
        );
        let graph = ServiceGraph::parse(&text).unwrap();
        let found = functions(&graph, &|f| (f != "in").then_some(1));
        let told: Vec<(&str, usize)> =
            found.iter().map(|f| (f.id.function.as_str(), f.neighbours.len())).collect();
        assert_eq!(told, [("z", 1), ("a", 1), ("alone", 0)]);
        assert_eq!(found[0].neighbours, [id("a")]);
    }

    #[test]
    fn lists_are_those_of_linux() {
        for text in ["", "0", "0-3", "0-1,4,6-8"] {
            assert_eq!(list(&parse(text)), text);
        }
        assert_eq!(list(&parse("3-1,x,2,0-4294967295")), "2");
    }
}

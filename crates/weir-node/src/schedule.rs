//! Binding functions to the cores that [`cores`](crate::cores) gives them.

use std::collections::BTreeMap;
use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use weir_model::graph::ServiceGraph;

use crate::connection::DataPlane;
use crate::cores::{self, Assignment, Cores, Function, Machine, assign, functions, list, parse};
use crate::desired::DesiredGraph;
use crate::instance::InstanceId;
use crate::node::Node;

/// The cores that this process may use, with their last-level caches.
pub(crate) fn machine(workers: usize) -> Machine {
    let cores = affinity(Pid::from_raw(0)).unwrap_or_default();
    let caches = cores.iter().map(|core| (*core, last_level(*core).unwrap_or_default())).collect();
    Machine { caches, workers }
}

/// The lowest core that has the last-level cache of a core (sysfs, `cpu/cpuN/cache`).
fn last_level(core: u32) -> Option<u32> {
    let folder = format!("/sys/devices/system/cpu/cpu{core}/cache");
    let caches = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let level: u32 = read("level")?.trim().parse().ok()?;
        Some((level, parse(&read("shared_cpu_list")?).first().copied()?))
    });
    caches.max_by_key(|(level, _)| *level).map(|(_, first)| first)
}

fn affinity(task: Pid) -> Option<Cores> {
    let set = sched_getaffinity(task).ok()?;
    Some(
        (0..CpuSet::count())
            .filter(|i| set.is_set(*i) == Ok(true))
            .filter_map(|i| u32::try_from(i).ok())
            .collect(),
    )
}

impl<D: DataPlane> Node<D> {
    /// Gives functions that poll cores of their own, where there are enough, and takes these from all others.
    pub(crate) fn bind_functions(&self) {
        let view = self.view();
        let graphs = || view.graphs.values().map(|e| &*e.graph);
        let polls = graphs().flat_map(|g| &g.instances).any(|i| cores::busy(&i.spec) > 0);
        let mut bound = self.bound.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !polls && !*bound {
            return;
        }
        let machine = machine(self.workers);
        let all: Vec<Function> = graphs().flat_map(of_graph).collect();
        let kinds: BTreeMap<InstanceId, _> =
            graphs().flat_map(|g| &g.instances).map(|i| (i.id.clone(), i.spec.kind())).collect();
        let now = |id: &InstanceId| self.drivers.get(*kinds.get(id)?).ok()?.cores(id);
        let before: BTreeMap<InstanceId, Cores> =
            all.iter().filter_map(|f| Some((f.id.clone(), parse(&now(&f.id)?)))).collect();
        let Assignment { functions: given, shared } = assign(&machine, &all, &before);
        for f in &all {
            let wanted = given.get(&f.id).filter(|cores| cores.len() < machine.caches.len()).map(list);
            if wanted != before.get(&f.id).map(list)
                && let Some(Ok(driver)) = kinds.get(&f.id).map(|kind| self.drivers.get(*kind))
            {
                driver.bind(&f.id, wanted.as_deref());
            }
        }
        let touched = *bound || !given.is_empty();
        *bound = !given.is_empty();
        let engine = view.engine.split('@').next().and_then(|pid| pid.parse().ok());
        if let Some(pid) = engine.filter(|_| touched) {
            keep_to(pid, &shared);
        }
    }
}

fn of_graph(graph: &DesiredGraph) -> Vec<Function> {
    // What the node keeps is a graph.
    let Ok(document) = serde_json::from_value::<ServiceGraph>(graph.whole().clone()) else {
        return Vec::new();
    };
    let busy = |f: &str| {
        let instance = graph.instances.iter().find(|i| i.id.function == f)?;
        Some(cores::busy(&instance.spec))
    };
    functions(&document, &busy)
}

/// Has the threads of a process run on these cores, but for those that are bound to one already.
fn keep_to(pid: u32, cores: &Cores) {
    let mut set = CpuSet::new();
    if cores.is_empty() || cores.iter().any(|core| set.set(*core as usize).is_err()) {
        return;
    }
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let Some(task) = task.file_name().to_str().and_then(|t| t.parse().ok()).map(Pid::from_raw) else {
            continue;
        };
        if affinity(task).is_some_and(|now| now.len() > 1 && now != *cores) {
            // It may have ended.
            _ = sched_setaffinity(task, &set);
        }
    }
}

//! How a plan is divided among workers: which tables each has, where programs are cut, and where engine nodes run.

use std::collections::HashSet;

use weir_click::Kind;
use weir_nodes::node::NodeFacts;

use crate::plan::{Part, Plan, Port};
use crate::sharing::{Share, reaches_one, shares};

/// The workers on which an engine node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// Every worker has one.
    Every,
    /// On this worker.
    At(usize),
}

impl Home {
    /// Whether a worker has the node.
    pub fn is_on(self, worker: usize) -> bool {
        match self {
            Home::Every => true,
            Home::At(home) => home == worker,
        }
    }
}

/// The division of a plan among several workers. With one worker it is empty.
#[derive(Debug, Clone, Default)]
pub struct Division {
    /// How many workers; 0 if the plan is not divided.
    pub workers: usize,
    /// By table of the linked program.
    pub shares: Vec<Share>,
    /// Inputs of elements with tables of which there is one, where packets of other elements come in. They come over
    /// links, so that these tables are locked no longer than needed.
    pub boundaries: Vec<Port>,
    /// By block of the linked program: whether a run from there needs tables of which there is one.
    pub locks: Vec<bool>,
    /// By element; programs are on every worker.
    pub homes: Vec<Home>,
    /// Elements with tables of which there is one.
    one: Vec<bool>,
}

impl Division {
    /// Divides the elements; `locks` and `homes` are found when they are linked.
    pub fn new(plan: &Plan, workers: usize) -> Division {
        let of_program = shares(&plan.programs);
        let mut one = vec![false; plan.parts.len()];
        let mut of_table: Vec<Option<Share>> = Vec::new();
        for (e, part) in plan.parts.iter().enumerate() {
            let Part::Element { owner, tables, .. } = part else { continue };
            let Some(shares) = of_program.get(*owner as usize) else { continue };
            one[e] = shares.contains(&Share::One);
            for ((_, id), share) in tables.iter().zip(shares) {
                let id = id.0 as usize;
                of_table.resize(of_table.len().max(id + 1), None);
                of_table[id] = Some(share.clone());
            }
        }
        let shares = of_table.into_iter().map(|s| s.unwrap_or(Share::One)).collect();
        let mut division = Division { workers, shares, one, ..Division::default() };
        let mut seen = HashSet::new();
        for c in &plan.graph.connections {
            let pushed = plan.graph.ports[c.to.0].inputs.get(c.to.1 as usize) == Some(&Kind::Push);
            let from_program = plan.parts[c.from.0].program().is_some();
            if pushed && from_program && division.cuts(c.from.0, c.to.0) && seen.insert(c.to) {
                division.boundaries.push(c.to);
            }
        }
        division
    }

    fn cuts(&self, from: usize, to: usize) -> bool {
        self.one[to] && !self.one[from]
    }

    /// The number of the boundary at an input, for packets that come from an element.
    pub fn boundary(&self, from: usize, to: Port) -> Option<u32> {
        let number = self.boundaries.iter().position(|b| *b == to)?;
        self.cuts(from, to.0).then_some(number as u32)
    }

    /// For `locks`, of the linked program. Several elements may have one table.
    pub fn locks(&self, plan: &Plan) -> Vec<bool> {
        let one: HashSet<u32> = plan
            .parts
            .iter()
            .zip(&self.one)
            .filter_map(|(part, one)| match part {
                Part::Element { owner, .. } if *one => Some(*owner),
                _ => None,
            })
            .collect();
        reaches_one(&plan.linked, |owner| one.contains(&owner))
    }

    /// For `homes`: nodes that ask each other for packets, or stop while a queue is full, have one home, which is worker 0
    /// unless the configuration says otherwise for one of them (the last one counts). Nodes that call handlers of others
    /// stay there.
    pub fn homes(&self, plan: &Plan) -> Vec<Home> {
        let mut group: Vec<usize> = (0..plan.parts.len()).collect();
        let find = |group: &[usize], mut e: usize| {
            while group[e] != e {
                e = group[e];
            }
            e
        };
        let mut joined = HashSet::new();
        for (e, part) in plan.parts.iter().enumerate() {
            let Part::Node { first_input, .. } = part else { continue };
            for port in 0..plan.graph.ports[e].inputs.len() {
                for from in &plan.pulls[*first_input as usize + port] {
                    let (a, b) = (find(&group, e), find(&group, from.node));
                    group[a.max(b)] = a.min(b);
                    joined.extend([e, from.node]);
                }
            }
        }
        for (e, _) in nodes(plan).filter(|(_, node)| !node.every_worker) {
            for queue in filled(plan, e) {
                let (a, b) = (find(&group, e), find(&group, queue));
                group[a.max(b)] = a.min(b);
            }
        }
        let mut at = vec![0; plan.parts.len()];
        for (e, _) in nodes(plan).filter(|(_, node)| node.task) {
            if let Some(&Some(thread)) = plan.threads.get(e) {
                at[find(&group, e)] = thread as usize % self.workers.max(1);
            }
        }
        for (e, _) in nodes(plan).filter(|(_, node)| node.calls) {
            at[find(&group, e)] = 0;
        }
        let mut homes: Vec<Home> = (0..at.len()).map(|e| Home::At(at[find(&group, e)])).collect();
        for (e, part) in plan.parts.iter().enumerate() {
            if matches!(part, Part::Element { .. }) {
                homes[e] = Home::Every;
            }
        }
        for (e, node) in nodes(plan) {
            if node.every_worker && !joined.contains(&e) {
                homes[e] = Home::Every;
            }
        }
        homes
    }
}

fn nodes(plan: &Plan) -> impl Iterator<Item = (usize, &NodeFacts)> {
    (0..plan.parts.len()).filter_map(|e| Some((e, plan.facts(e)?)))
}

/// The queues that let sources know when they are full, and that a node's packets get to without another node between.
fn filled(plan: &Plan, element: usize) -> Vec<usize> {
    let (mut found, mut seen, mut work) = (Vec::new(), vec![false; plan.parts.len()], vec![element]);
    while let Some(at) = work.pop() {
        for to in plan.graph.connections.iter().filter(|c| c.from.0 == at).map(|c| c.to.0) {
            match &plan.parts[to] {
                _ if std::mem::replace(&mut seen[to], true) => {}
                Part::Element { .. } => work.push(to),
                Part::Node { facts, .. } if facts.stops_sources => found.push(to),
                Part::Node { .. } => {}
            }
        }
    }
    found
}

/// The workers that elements are assigned to (`StaticThreadSched`): what stands innermost counts.
pub fn threads(plan: &Plan) -> Vec<Option<u32>> {
    let depth = |e: usize| plan.graph.elements[e].name.matches('/').count();
    let thread = |element| {
        let said = nodes(plan).filter_map(|(e, node)| {
            let within = |name: &str| plan.around(e, |here| here.within(name).contains(&element));
            let (_, thread) = node.threads.iter().rev().find(|(name, _)| within(name))?;
            Some((depth(e), *thread))
        });
        said.max_by_key(|(depth, _)| *depth).map(|(_, thread)| thread)
    };
    (0..plan.parts.len()).map(thread).collect()
}

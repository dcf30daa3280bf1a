//! What is to be placed: a network service (paper section 3.2, the graph S = (G, H)) and what people ask of its place.

use std::sync::Arc;

use thiserror::Error;

use crate::network::{Kind, MAX_BANDWIDTH, MAX_RESOURCE, Region, VertexId};

/// Most modules of a demand.
pub const MAX_MODULES: usize = 64;
/// Most flows of a demand.
pub const MAX_FLOWS: usize = 256;
/// Most access points that a sink may name.
pub const MAX_ACCESS: usize = 1024;

/// A processing module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Module {
    /// Thousandths of a processor core.
    pub cpu: u32,
    /// MB.
    pub memory: u32,
    /// Runs only where this kind of function does.
    pub kind: Option<Kind>,
    /// Runs on this server only.
    pub node: Option<VertexId>,
    /// Runs in this region only.
    pub region: Option<Region>,
    /// Modules of one number run on one server.
    pub together: Option<u8>,
    /// No two modules that have a bit in common run on one server.
    pub apart: u64,
}

/// Where traffic leaves the domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// At any access point.
    Any,
    /// At one of these.
    OneOf(Vec<VertexId>),
}

/// An end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// `Spec::sources[N]`.
    Source(usize),
    /// `Spec::modules[N]`.
    Module(usize),
    /// `Spec::sinks[N]`.
    Sink(usize),
}

/// Traffic between two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Sender.
    pub from: End,
    /// Receiver.
    pub to: End,
    /// kbit/s.
    pub bandwidth: u64,
}

/// The specification that a demand is made from.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    /// At least one.
    pub modules: Vec<Module>,
    /// The clients' access points.
    pub sources: Vec<VertexId>,
    /// Where traffic leaves.
    pub sinks: Vec<Sink>,
    /// Without cycles.
    pub flows: Vec<Flow>,
    /// Most delay of links between a source and whatever its traffic reaches; none: any.
    pub max_delay: Option<u32>,
    /// Whether all modules may be placed anew when one of them has to be. Else those that run stay.
    pub migrate: bool,
}

/// A demand that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DemandError {
    /// Too few or too many.
    #[error("{count} {what}; there can be {least} to {most}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// At least.
        least: usize,
        /// At most.
        most: usize,
    },
    /// An end that is not there, or of the wrong sort.
    #[error(
        "flow {flow}: {end:?} cannot be its {side}: a flow goes from a source or module to a module or sink that exists"
    )]
    End {
        /// Which flow.
        flow: usize,
        /// The end.
        end: End,
        /// `sender` or `receiver`.
        side: &'static str,
    },
    /// Traffic that returns.
    #[error("flows make a cycle through module {module}; a demand has none")]
    Cycle {
        /// A module of it.
        module: usize,
    },
    /// More than can be counted.
    #[error("{what} of {at} is too large")]
    TooLarge {
        /// Which figure.
        what: &'static str,
        /// Of what.
        at: String,
    },
    /// Two wishes that exclude each other.
    #[error("modules {0} and {1} are to be together and apart")]
    Contradiction(usize, usize),
}

/// A demand that is well formed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Demand(pub(crate) Arc<Inner>);

/// Points are modules, then sources, then sinks.
#[derive(Debug)]
pub(crate) struct Inner {
    pub spec: Spec,
    pub max_delay: u32,
    pub flows: Vec<PointFlow>,
    /// Numbers of the flows that enter and leave a point.
    pub into: Vec<Vec<u16>>,
    pub out: Vec<Vec<u16>>,
    /// Points so that each flow leads forward.
    pub order: Vec<u16>,
    /// Modules by resources, largest first.
    pub by_size: Vec<u16>,
    /// What all modules behind this one take.
    pub behind: Vec<(i32, i32)>,
    /// Module by module, the set of sources before it, and of sinks behind it.
    pub before: Vec<u64>,
    pub after: Vec<u64>,
    /// Most modules in a row.
    pub depth: u32,
    pub cpu: i64,
    pub memory: i64,
    /// Whether any module asks for more than resources.
    pub constrained: bool,
}

/// A flow between points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointFlow {
    pub from: u16,
    pub to: u16,
    pub bandwidth: i64,
}

impl Demand {
    /// Checks it.
    pub fn new(spec: Spec) -> Result<Demand, DemandError> {
        count("modules", spec.modules.len(), 1, MAX_MODULES)?;
        count("sources", spec.sources.len(), 0, MAX_MODULES)?;
        count("sinks", spec.sinks.len(), 0, MAX_MODULES)?;
        count("flows", spec.flows.len(), 0, MAX_FLOWS)?;
        for sink in &spec.sinks {
            if let Sink::OneOf(list) = sink {
                count("access points of a sink", list.len(), 1, MAX_ACCESS)?;
            }
        }
        for (n, m) in spec.modules.iter().enumerate() {
            for (what, value) in [("cpu", m.cpu), ("memory", m.memory)] {
                if value > MAX_RESOURCE / MAX_MODULES as u32 {
                    return Err(DemandError::TooLarge { what, at: format!("module {n}") });
                }
            }
            if m.kind.is_some_and(|kind| kind.0 >= 64) {
                return Err(DemandError::TooLarge { what: "kind", at: format!("module {n}") });
            }
        }
        contradictions(&spec.modules)?;
        let flows = flows(&spec)?;
        let modules = spec.modules.len();
        let points = modules + spec.sources.len() + spec.sinks.len();
        let mut into = vec![Vec::new(); points];
        let mut out = vec![Vec::new(); points];
        for (n, flow) in flows.iter().enumerate() {
            out[flow.from as usize].push(n as u16);
            into[flow.to as usize].push(n as u16);
        }
        let order = order(points, &flows, &into, &out)?;
        let mut by_size: Vec<u16> = (0..modules as u16).collect();
        let max = |f: fn(&Module) -> u32| spec.modules.iter().map(f).max().unwrap_or(0).max(1);
        let (cpu, memory) = (max(|m| m.cpu), max(|m| m.memory));
        let size = |m: &Module| u64::from(m.cpu) * u64::from(memory) + u64::from(m.memory) * u64::from(cpu);
        by_size.sort_by_key(|g| std::cmp::Reverse(size(&spec.modules[*g as usize])));
        let sum = |f: fn(&Module) -> u32| spec.modules.iter().map(|m| i64::from(f(m))).sum();
        let plain = Module::default();
        let constrained = spec.modules.iter().any(|m| Module { cpu: 0, memory: 0, ..*m } != plain);
        Ok(Demand(Arc::new(Inner {
            max_delay: spec.max_delay.unwrap_or(u32::MAX).min(u32::MAX - 1),
            behind: behind(&spec, &order, &flows, &out),
            before: ends(&spec, &order, &flows, &into, true),
            after: ends(&spec, &order, &flows, &out, false),
            depth: depth(modules, &order, &flows, &into),
            cpu: sum(|m| m.cpu),
            memory: sum(|m| m.memory),
            spec,
            flows,
            into,
            out,
            order,
            by_size,
            constrained,
        })))
    }

    /// What it is made of.
    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }
}

impl Inner {
    pub fn modules(&self) -> usize {
        self.spec.modules.len()
    }

    /// The point of a source.
    pub fn source(&self, n: usize) -> usize {
        self.modules() + n
    }

    /// The point of a sink.
    pub fn sink(&self, n: usize) -> usize {
        self.modules() + self.spec.sources.len() + n
    }

    pub fn points(&self) -> usize {
        self.into.len()
    }
}

fn count(what: &'static str, count: usize, least: usize, most: usize) -> Result<(), DemandError> {
    if (least..=most).contains(&count) {
        Ok(())
    } else {
        Err(DemandError::Count { what, count, least, most })
    }
}

fn contradictions(modules: &[Module]) -> Result<(), DemandError> {
    for (a, x) in modules.iter().enumerate() {
        for (b, y) in modules.iter().enumerate().skip(a + 1) {
            if x.together.is_some() && x.together == y.together && x.apart & y.apart != 0 {
                return Err(DemandError::Contradiction(a, b));
            }
        }
    }
    Ok(())
}

fn flows(spec: &Spec) -> Result<Vec<PointFlow>, DemandError> {
    let modules = spec.modules.len();
    let (sources, sinks) = (spec.sources.len(), spec.sinks.len());
    let mut flows = Vec::with_capacity(spec.flows.len());
    for (n, flow) in spec.flows.iter().enumerate() {
        let from = match flow.from {
            End::Module(m) if m < modules => m,
            End::Source(s) if s < sources => modules + s,
            end => return Err(DemandError::End { flow: n, end, side: "sender" }),
        };
        let to = match flow.to {
            End::Module(m) if m < modules => m,
            End::Sink(s) if s < sinks => modules + sources + s,
            end => return Err(DemandError::End { flow: n, end, side: "receiver" }),
        };
        if flow.bandwidth > MAX_BANDWIDTH / MAX_FLOWS as u64 {
            return Err(DemandError::TooLarge { what: "bandwidth", at: format!("flow {n}") });
        }
        flows.push(PointFlow { from: from as u16, to: to as u16, bandwidth: flow.bandwidth as i64 });
    }
    Ok(flows)
}

fn order(
    points: usize,
    flows: &[PointFlow],
    into: &[Vec<u16>],
    out: &[Vec<u16>],
) -> Result<Vec<u16>, DemandError> {
    let mut missing: Vec<usize> = into.iter().map(Vec::len).collect();
    let mut order: Vec<u16> = (0..points as u16).filter(|p| missing[*p as usize] == 0).collect();
    let mut at = 0;
    while at < order.len() {
        for flow in &out[order[at] as usize] {
            let to = flows[*flow as usize].to;
            missing[to as usize] -= 1;
            if missing[to as usize] == 0 {
                order.push(to);
            }
        }
        at += 1;
    }
    let Some(mut module) = (0..points).find(|p| missing[*p] > 0) else { return Ok(order) };
    // It may only be behind a cycle: after so many steps back, one is on it.
    for _ in 0..points {
        let mut before = into[module].iter().map(|f| flows[*f as usize].from as usize);
        module = before.find(|p| missing[*p] > 0).unwrap_or(module);
    }
    Err(DemandError::Cycle { module })
}

fn behind(spec: &Spec, order: &[u16], flows: &[PointFlow], out: &[Vec<u16>]) -> Vec<(i32, i32)> {
    let modules = spec.modules.len();
    let mut reached = vec![0_u64; modules];
    for g in order.iter().rev().map(|p| *p as usize).filter(|p| *p < modules) {
        for to in out[g].iter().map(|f| flows[*f as usize].to as usize).filter(|to| *to < modules) {
            reached[g] |= reached[to] | 1 << to;
        }
    }
    let sum = |set: u64, f: fn(&Module) -> u32| {
        (0..modules).filter(|g| set >> g & 1 == 1).map(|g| f(&spec.modules[g]) as i32).sum::<i32>()
    };
    reached.iter().map(|set| (sum(*set, |m| m.cpu), sum(*set, |m| m.memory))).collect()
}

/// Module by module, the set of sources before it or of sinks behind it; `edges` are the flows that lead there.
fn ends(spec: &Spec, order: &[u16], flows: &[PointFlow], edges: &[Vec<u16>], sources: bool) -> Vec<u64> {
    let (modules, first) = (spec.modules.len(), spec.modules.len() + spec.sources.len());
    let mut sets = vec![0_u64; edges.len()];
    match sources {
        true => (modules..first).for_each(|p| sets[p] = 1 << (p - modules)),
        false => (first..edges.len()).for_each(|p| sets[p] = 1 << (p - first)),
    }
    let mut each = |p: usize| {
        for flow in edges[p].iter().map(|f| flows[*f as usize]) {
            sets[p] |= sets[if sources { flow.from } else { flow.to } as usize];
        }
    };
    match sources {
        true => order.iter().for_each(|p| each(*p as usize)),
        false => order.iter().rev().for_each(|p| each(*p as usize)),
    }
    sets.truncate(modules);
    sets
}

fn depth(modules: usize, order: &[u16], flows: &[PointFlow], into: &[Vec<u16>]) -> u32 {
    let mut depth = vec![0; modules];
    for g in order.iter().map(|p| *p as usize).filter(|p| *p < modules) {
        let before = into[g].iter().map(|f| flows[*f as usize].from as usize).filter(|p| *p < modules);
        depth[g] = 1 + before.map(|p| depth[p]).max().unwrap_or(0);
    }
    depth.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(flows: &[(usize, usize)]) -> Result<Demand, DemandError> {
        let flow =
            |(a, b): &(usize, usize)| Flow { from: End::Module(*a), to: End::Module(*b), bandwidth: 1 };
        let module = Module { cpu: 1, memory: 2, ..Module::default() };
        let flows = flows.iter().map(flow).collect();
        Demand::new(Spec { modules: vec![module; 2], flows, ..Spec::default() })
    }

    #[test]
    fn mistakes_are_said() {
        assert_eq!(two(&[(0, 1), (1, 0)]).unwrap_err(), DemandError::Cycle { module: 0 });
        let error = two(&[(0, 2)]).unwrap_err();
        assert_eq!(error, DemandError::End { flow: 0, end: End::Module(2), side: "receiver" });
        let error = Demand::new(Spec::default()).unwrap_err();
        assert_eq!(error.to_string(), "0 modules; there can be 1 to 64");
        let module = Module { together: Some(1), apart: 8, ..Module::default() };
        let error = Demand::new(Spec { modules: vec![module; 2], ..Spec::default() }).unwrap_err();
        assert_eq!(error, DemandError::Contradiction(0, 1));
    }

    #[test]
    fn what_stands_behind_a_module_is_known() {
        let demand = two(&[(0, 1)]).unwrap();
        assert_eq!(demand.0.behind, [(1, 2), (0, 0)]);
        assert_eq!(demand.0.depth, 2);
    }
}

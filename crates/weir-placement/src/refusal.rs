//! Why a demand was not placed.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::demand::{Demand, PointFlow, Sink};
use crate::domain::{Domain, Host, NONE, Rack};
use crate::network::{Vertex, VertexId};
use crate::routes::FAR;

/// A demand was not placed, and nothing changed. [`Domain::explain`] says why, node by node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A source or sink that is no access point, or a node that is no server.
    #[error("vertex {} is no {what} of this domain", vertex.0)]
    Unknown {
        /// What was given.
        vertex: VertexId,
        /// What it has to be.
        what: &'static str,
    },
    /// No server could take this module even if it were alone.
    #[error("no server takes module {module}")]
    NoServer {
        /// Which.
        module: usize,
    },
    /// It takes more of what is scarce than it is worth, for what is expected to come (see [`crate::Placer::expect`]).
    #[error("it takes so much that more of the {expected} expected demands can be placed without it")]
    TooCostly {
        /// How many are still expected.
        expected: u64,
    },
    /// No place was found for all modules with their flows and wishes; whether one of them alone is the cause,
    /// [`Domain::explain`](crate::Domain::explain) says.
    #[error("no place was found for all modules and flows together")]
    NoPlacement,
}

/// Why a server does not take a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is down.
    Down,
    /// It is cordoned.
    Cordoned,
    /// The module is to run on another one.
    OtherNode,
    /// It stands in another region.
    OtherRegion,
    /// It does not run this kind of function.
    OtherKind,
    /// Its free cores are too few.
    Cpu,
    /// Its free memory is too small.
    Memory,
    /// What is to be together with the module does not fit beside it.
    Together,
    /// Its link has not the bandwidth for the traffic from a source or to a sink.
    Bandwidth,
    /// From a source, or on to a sink, it takes longer than allowed.
    Delay,
    /// None of these: alone the module could run here.
    Possible,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Down => "down",
            Reason::Cordoned => "cordoned",
            Reason::OtherNode => "the module is to run on another node",
            Reason::OtherRegion => "in another region",
            Reason::OtherKind => "does not run this kind of function",
            Reason::Cpu => "too little free cpu",
            Reason::Memory => "too little free memory",
            Reason::Together => "what is to be together does not fit",
            Reason::Bandwidth => "its link has too little free bandwidth",
            Reason::Delay => "too far from a source or sink",
            Reason::Possible => "possible for this module alone",
        })
    }
}

/// Module by module and node by node, why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// One a module, in the order of the demand.
    pub modules: Vec<Verdicts>,
}

/// The servers' reasons against a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdicts {
    /// Every server.
    pub nodes: Vec<(VertexId, Reason)>,
    /// How many servers gave each reason.
    pub sums: BTreeMap<Reason, usize>,
}

impl fmt::Display for Explanation {
    /// One line a module: `module 0: 12 too little free memory; 3 cordoned`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, module) in self.modules.iter().enumerate() {
            let mut sums: Vec<_> = module.sums.iter().collect();
            sums.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let sums: Vec<String> = sums.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            writeln!(f, "module {n}: {}", sums.join("; "))?;
        }
        Ok(())
    }
}

impl Domain {
    /// What each server says to each module of a demand now. Modules are looked at one by one: if all are possible somewhere and
    /// the demand is refused, it is because of what they need together.
    pub fn explain(&self, demand: &Demand) -> Result<Explanation, Refusal> {
        self.know(demand)?;
        let reach = Reach::new(self, demand);
        let modules = (0..demand.0.modules()).map(|g| {
            let nodes: Vec<(VertexId, Reason)> = (0..self.hosts.len())
                .map(|s| (VertexId(self.hosts[s].vertex), self.reason(demand, g, s, &reach)))
                .collect();
            let mut sums = BTreeMap::new();
            nodes.iter().for_each(|(_, reason)| *sums.entry(*reason).or_default() += 1);
            Verdicts { nodes, sums }
        });
        Ok(Explanation { modules: modules.collect() })
    }

    /// The first module that no server takes.
    pub(crate) fn hopeless(&self, demand: &Demand) -> Option<usize> {
        let reach = Reach::new(self, demand);
        (0..demand.0.modules())
            .find(|g| (0..self.hosts.len()).all(|s| self.reason(demand, *g, s, &reach) != Reason::Possible))
    }

    /// Whether all vertices that a demand names are what it takes them for.
    pub(crate) fn know(&self, demand: &Demand) -> Result<(), Refusal> {
        let spec = &demand.0.spec;
        let is = |v: VertexId, what, fits: fn(&Vertex) -> bool| match self
            .network
            .vertices
            .get(v.0 as usize)
            .is_some_and(fits)
        {
            true => Ok(()),
            false => Err(Refusal::Unknown { vertex: v, what }),
        };
        let access: fn(&Vertex) -> bool = |v| *v == Vertex::Access;
        spec.sources.iter().try_for_each(|v| is(*v, "access point", access))?;
        for sink in &spec.sinks {
            if let Sink::OneOf(list) = sink {
                list.iter().try_for_each(|v| is(*v, "access point", access))?;
            }
        }
        let server: fn(&Vertex) -> bool = |v| matches!(v, Vertex::Server(_));
        spec.modules.iter().filter_map(|m| m.node).try_for_each(|v| is(v, "server", server))
    }

    fn reason(&self, demand: &Demand, g: usize, s: usize, reach: &Reach) -> Reason {
        let d = &demand.0;
        let module = &d.spec.modules[g];
        let host = &self.hosts[s];
        let server = self.spec(s);
        let joined = d.spec.modules.iter().filter(|m| m.together.is_some() && m.together == module.together);
        let (cpu, memory) = joined.fold((0, 0), |(c, m), x| (c + x.cpu as i32, m + x.memory as i32));
        let outside = |flows: &[u16], other: fn(&PointFlow) -> u16| -> i64 {
            let flows = flows.iter().map(|f| &d.flows[*f as usize]);
            flows.filter(|f| other(f) as usize >= d.modules()).map(|f| f.bandwidth).sum()
        };
        let lacks = |link: u32, bandwidth| link != NONE && self.free[link as usize] < bandwidth;
        if self.routes.is_down(host.vertex) {
            Reason::Down
        } else if module.node.is_some_and(|n| n.0 != host.vertex) {
            Reason::OtherNode
        } else if host.cordoned {
            Reason::Cordoned
        } else if module.region.is_some_and(|r| r != server.region) {
            Reason::OtherRegion
        } else if module.kind.is_some_and(|k| server.kinds >> k.0 & 1 == 0) {
            Reason::OtherKind
        } else if self.cpu[s] < module.cpu as i32 {
            Reason::Cpu
        } else if self.memory[s] < module.memory as i32 {
            Reason::Memory
        } else if self.cpu[s] < cpu || self.memory[s] < memory {
            Reason::Together
        } else if lacks(host.down, outside(&d.into[g], |f| f.from))
            || lacks(host.up, outside(&d.out[g], |f| f.to))
        {
            Reason::Bandwidth
        } else if reach.through(g, host) > u64::from(d.max_delay) {
            Reason::Delay
        } else {
            Reason::Possible
        }
    }
}

/// How far racks are from the sources that send to a module, directly or over others, and from the sinks that it sends to.
pub(crate) struct Reach {
    /// By module and rack; then whether there are sources before it and sinks behind it.
    delays: Vec<(Vec<u64>, bool, bool)>,
}

impl Reach {
    fn new(domain: &Domain, demand: &Demand) -> Reach {
        let d = &demand.0;
        let (before, after) = (&d.before, &d.after);
        let delay = |rack: &Rack, g: usize| {
            let from = |n: usize| domain.routes.known(d.spec.sources[n].0, rack.attach);
            let to = |n: usize| match &d.spec.sinks[n] {
                Sink::Any => nearest(domain, rack.attach, domain.access.iter().copied()),
                Sink::OneOf(list) => nearest(domain, rack.attach, list.iter().map(|v| v.0)),
            };
            let far = |set: u64, delay: &dyn Fn(usize) -> u32| {
                let most = (0..64).filter(|n| set >> n & 1 == 1).map(delay).max().unwrap_or(0);
                if most == FAR { u64::MAX / 4 } else { u64::from(most) }
            };
            far(before[g], &from) + far(after[g], &to)
        };
        let of = |g: usize| {
            let delays = domain.racks.iter().map(|rack| delay(rack, g)).collect();
            (delays, before[g] != 0, after[g] != 0)
        };
        Reach { delays: (0..d.modules()).map(of).collect() }
    }

    /// The least delay from the sources over a server to the sinks.
    fn through(&self, g: usize, host: &Host) -> u64 {
        let (delays, before, after) = &self.delays[g];
        let down = if *before { host.down_delay } else { 0 };
        let up = if *after { host.up_delay } else { 0 };
        delays[host.rack as usize] + u64::from(down) + u64::from(up)
    }
}

fn nearest(domain: &Domain, attach: u32, access: impl Iterator<Item = u32>) -> u32 {
    access.map(|v| domain.routes.known(attach, v)).min().unwrap_or(FAR)
}

//! The paper's configurations R, RR and S, each with and without Tabu search (sections 3.3.1 and 3.3.2, algorithms 2 to 5).
//!
//! What the paper leaves open, and what was changed for speed without a change of meaning, stands in `docs/placement.md`.

use std::collections::HashMap;

use crate::candidate::{Candidate, Paths};
use crate::demand::{Demand, Inner, Sink};
use crate::domain::{Domain, NONE, Rack};
use crate::placer::Initial;
use crate::random::Random;
use crate::routes::{FAR, Routes};

/// Algorithm 2: a path for each pair, cheapest where a link costs one more for each path over it. Pairs come in the order in which
/// they are first needed, and servers of a rack share the paths of its switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Balanced {
    cost: Vec<u64>,
    found: HashMap<(u32, u32), (u32, u32)>,
    links: Vec<u32>,
}

impl Balanced {
    pub fn new(links: usize) -> Balanced {
        Balanced { cost: vec![1; links], ..Balanced::default() }
    }

    /// Appends the path to `path`; answers its delay.
    pub fn path(&mut self, routes: &mut Routes, a: u32, b: u32, path: &mut Vec<u32>) -> Option<u32> {
        if a == b {
            return (!routes.is_down(a)).then_some(0);
        }
        let (start, end) = match self.found.get(&(a, b)) {
            Some(found) => *found,
            None => {
                let start = self.links.len() as u32;
                if !routes.cheapest(a, b, &self.cost, &mut self.links) {
                    return None;
                }
                let end = self.links.len() as u32;
                self.links[start as usize..].iter().for_each(|l| self.cost[*l as usize] += 1);
                self.found.insert((a, b), (start, end));
                (start, end)
            }
        };
        path.extend(&self.links[start as usize..end as usize]);
        Some(routes.delay(a, b)).filter(|delay| *delay != FAR)
    }
}

/// State of a configuration.
#[derive(Debug, Clone)]
pub(crate) struct Paper {
    pub initial: Initial,
    pub tabu: bool,
    pub paths: Balanced,
    /// Of which version of the routes the paths are: those by what has failed since are no paths.
    version: u64,
    /// Algorithm 5's currentServer.
    current: usize,
}

/// Random choices before all servers are looked at.
const TRIES: usize = 32;
/// Servers that are compared where one has to be taken although constraints are violated.
const SAMPLE: usize = 64;
/// Tabu search: moves, servers that a move is chosen among, moves for which a module does not return.
const MOVES: usize = 16;
const NEIGHBOURS: usize = 16;
const TENURE: usize = 8;

impl Paper {
    pub fn new(initial: Initial, tabu: bool) -> Paper {
        Paper { initial, tabu, paths: Balanced::default(), version: 0, current: 0 }
    }

    /// Algorithm 1's body: an initial solution, and the search if it violates anything.
    pub fn place<'d>(
        &'d mut self,
        domain: &'d mut Domain,
        demand: &Demand,
        random: &mut Random,
    ) -> Option<Candidate<'d, 'd>> {
        if self.paths.cost.len() != domain.free.len() || self.version != domain.routes.version {
            (self.paths, self.version) = (Balanced::new(domain.free.len()), domain.routes.version);
        }
        if domain.hosts.is_empty() {
            return None;
        }
        let (initial, tabu, start) = (self.initial, self.tabu, self.current % domain.hosts.len());
        let mut current = start;
        let mut candidate = Candidate::new(domain, demand, Paths::Fixed(&mut self.paths));
        let d = &demand.0;
        for n in 0..d.spec.sinks.len() {
            let vertex = sink(candidate.domain, d, n, random)?;
            candidate.assign(d.sink(n), vertex);
        }
        for g in 0..d.modules() {
            let found = match initial {
                Initial::Random => at_random(&mut candidate, d, g, random),
                Initial::FewestServers => fewest(&mut candidate, d, g, random),
                Initial::RoundRobin => scan(&mut candidate, d, g, current, start),
            };
            match found {
                Some(s) => current = s,
                // Nothing that follows can make the violation good: only the search could.
                None if !tabu => return None,
                None => {
                    let s = least(&mut candidate, d, g, random, initial);
                    candidate.assign(g, s as u32);
                    current = s;
                }
            }
        }
        if candidate.violations() > 0 && !(tabu && search(&mut candidate, d, random)) {
            return None;
        }
        self.current = current;
        Some(candidate)
    }
}

/// A random one of the access points where a sink may be.
fn sink(domain: &Domain, d: &Inner, n: usize, random: &mut Random) -> Option<u32> {
    let mut list: Vec<u32> = match &d.spec.sinks[n] {
        Sink::Any => domain.access.clone(),
        Sink::OneOf(list) => list.iter().map(|v| v.0).collect(),
    };
    list.retain(|v| !domain.routes.is_down(*v));
    (!list.is_empty()).then(|| list[random.below(list.len())])
}

/// Algorithm 3, line 2.
fn at_random(candidate: &mut Candidate, d: &Inner, g: usize, random: &mut Random) -> Option<usize> {
    let servers = candidate.domain.hosts.len();
    for _ in 0..TRIES {
        let s = random.below(servers);
        if try_at(candidate, d, g, s) {
            return Some(s);
        }
    }
    by_rack(candidate, d, g, random, |_, _| true)
}

/// Algorithm 4, line 2: a server in use adds none to their number.
fn fewest(candidate: &mut Candidate, d: &Inner, g: usize, random: &mut Random) -> Option<usize> {
    let used = |domain: &Domain, s: usize| domain.hosts[s].running > 0;
    let found = by_rack(candidate, d, g, random, used);
    found.or_else(|| by_rack(candidate, d, g, random, |domain, s| !used(domain, s)))
}

/// Algorithm 5: from server `from` on, round to where the service began.
fn scan(candidate: &mut Candidate, d: &Inner, g: usize, from: usize, start: usize) -> Option<usize> {
    let servers = candidate.domain.hosts.len();
    let module = d.spec.modules[g];
    let mut s = from;
    let mut far = (u32::MAX, false);
    loop {
        // Most servers are full or far, which is seen at once.
        let space = candidate.domain.cpu[s] >= module.cpu as i32
            && candidate.domain.memory[s] >= module.memory as i32;
        let rack = candidate.domain.hosts[s].rack;
        if space && far.0 != rack {
            candidate.violations();
            far = (rack, too_far(candidate, d, g, rack));
        }
        if space && !far.1 && try_at(candidate, d, g, s) {
            return Some(s);
        }
        s = (s + 1) % servers;
        if s == start || s == from {
            return None;
        }
    }
}

/// The first server that adds no violation, rack by rack from a random one on.
fn by_rack(
    candidate: &mut Candidate,
    d: &Inner,
    g: usize,
    random: &mut Random,
    wanted: impl Fn(&Domain, usize) -> bool,
) -> Option<usize> {
    let racks = candidate.domain.racks.len();
    let module = d.spec.modules[g];
    let first = random.below(racks);
    candidate.violations();
    for n in 0..racks {
        let number = (first + n) % racks;
        let rack = candidate.domain.racks[number];
        let little = rack.cpu < i64::from(module.cpu) || rack.memory < i64::from(module.memory);
        if little || too_far(candidate, d, g, number as u32) {
            continue;
        }
        let offset = random.below(rack.len as usize);
        for n in 0..rack.len as usize {
            let s = rack.first as usize + (offset + n) % rack.len as usize;
            if wanted(candidate.domain, s) && try_at(candidate, d, g, s) {
                return Some(s);
            }
        }
    }
    None
}

/// Whether the delay bound is violated on every server of a rack: it takes too long to come there and to go on. Delays of what
/// is placed are those of the last [`Candidate::violations`].
fn too_far(candidate: &mut Candidate, d: &Inner, g: usize, rack: u32) -> bool {
    let Rack { attach, up_delay, down_delay, .. } = candidate.domain.racks[rack as usize];
    let mut arrival = 0;
    for flow in d.into[g].iter().map(|f| d.flows[*f as usize]) {
        let (from, at) = (flow.from as usize, candidate.at[flow.from as usize]);
        let delay = if at == NONE {
            0
        } else if from >= d.modules() {
            candidate.domain.routes.delay(at, attach).saturating_add(down_delay)
        } else if candidate.domain.hosts[at as usize].rack == rack {
            0
        } else {
            let host = candidate.domain.hosts[at as usize];
            let before = candidate.domain.racks[host.rack as usize].attach;
            candidate.domain.routes.delay(before, attach).saturating_add(host.up_delay + down_delay)
        };
        arrival = arrival.max(candidate.arrival(from).saturating_add(delay));
    }
    let rest = candidate.rest_of_rack(d, g, rack);
    let rest = if rest > 0 { rest.saturating_add(up_delay) } else { 0 };
    arrival.saturating_add(rest) > d.max_delay
}

/// Assigns a module if that adds no violation.
fn try_at(candidate: &mut Candidate, d: &Inner, g: usize, s: usize) -> bool {
    let module = &d.spec.modules[g];
    let short =
        candidate.domain.cpu[s] < module.cpu as i32 || candidate.domain.memory[s] < module.memory as i32;
    if short || !candidate.domain.usable[s] {
        return false;
    }
    let before = candidate.violations();
    if too_far(candidate, d, g, candidate.domain.hosts[s].rack) {
        return false;
    }
    candidate.assign(g, s as u32);
    let fits = candidate.violations() == before;
    if !fits {
        candidate.unassign(g);
    }
    fits
}

/// Where a module goes although it violates something: anywhere (algorithm 3, line 4), or where that is least.
fn least(candidate: &mut Candidate, d: &Inner, g: usize, random: &mut Random, initial: Initial) -> usize {
    let servers = candidate.domain.hosts.len();
    if initial == Initial::Random {
        return random.below(servers);
    }
    let mut best = (i32::MAX, 0);
    for s in neighbours(candidate, d, random, SAMPLE) {
        candidate.assign(g, s as u32);
        best = best.min((candidate.violations(), s));
        candidate.unassign(g);
    }
    best.1
}

/// Servers in the racks of the service's other modules, and random ones.
fn neighbours(candidate: &Candidate, d: &Inner, random: &mut Random, count: usize) -> Vec<usize> {
    let domain = &*candidate.domain;
    let placed: Vec<u32> = candidate.at[..d.modules()].iter().copied().filter(|s| *s != NONE).collect();
    let near = |random: &mut Random| {
        let rack = domain.racks[domain.hosts[placed[random.below(placed.len())] as usize].rack as usize];
        rack.first as usize + random.below(rack.len as usize)
    };
    let pick = |n: usize| match n.is_multiple_of(2) && !placed.is_empty() {
        true => near(random),
        false => random.below(domain.hosts.len()),
    };
    (0..count).map(pick).collect()
}

/// Moves modules and sinks of the new service until nothing is violated. A move is never back to where a module was a few moves ago,
/// unless that is better than all before.
fn search(candidate: &mut Candidate, d: &Inner, random: &mut Random) -> bool {
    let mut tabu: Vec<(usize, usize)> = Vec::new();
    let mut least = candidate.violations();
    for _ in 0..MOVES {
        let g = random.below(d.modules());
        let home = candidate.at[g];
        candidate.unassign(g);
        let mut best = None;
        for s in neighbours(candidate, d, random, NEIGHBOURS) {
            if s as u32 == home {
                continue;
            }
            candidate.assign(g, s as u32);
            let violations = candidate.violations();
            candidate.unassign(g);
            let allowed = violations < least || !tabu.contains(&(g, s));
            if allowed && best.is_none_or(|(least, _)| violations < least) {
                best = Some((violations, s));
            }
        }
        let to = best.map_or(home, |(_, s)| s as u32);
        candidate.assign(g, to);
        tabu.push((g, home as usize));
        if tabu.len() > TENURE {
            tabu.remove(0);
        }
        least = least.min(candidate.violations());
        if candidate.violations() == 0 {
            return true;
        }
    }
    false
}

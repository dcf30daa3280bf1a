//! A service over several racks, or around modules that stay: a search, module by module, that goes back where it must, up to a limit.
//! In a small domain the limit is so large that it finds a place if there is one (flows take the freest shortest paths; others
//! are not tried).

use crate::candidate::{Candidate, Paths};
use crate::demand::{Demand, Inner, Sink};
use crate::domain::{Domain, NONE, Service};
use crate::random::Random;
use crate::refusal::Refusal;
use crate::waste::Waste;

/// Servers up to which all of them are tried, and how often one may be tried then, and else.
const SMALL: usize = 64;
const SMALL_BUDGET: usize = 4000;
const BUDGET: usize = 24;
/// Servers that a module is tried on in a large domain; racks that are searched for them, of so many that are looked at.
const WIDTH: usize = 4;
const RACKS: usize = 6;
const LOOK: usize = 128;
/// Access points up to which all of them are tried.
const ACCESS: usize = 8;
/// What traffic between servers costs, as a share of a server's worth.
const STEP: f32 = 0.01;

/// Finds a place where points with a place in `stays` keep it.
pub(crate) fn place(
    domain: &mut Domain,
    demand: &Demand,
    stays: &[Option<u32>],
    waste: Option<&Waste>,
    random: &mut Random,
) -> Result<Service, Refusal> {
    let d = &demand.0;
    let small = domain.hosts.len() <= SMALL;
    let mut candidate = Candidate::new(domain, demand, Paths::Free);
    for (p, place) in stays.iter().enumerate() {
        if let Some(place) = place.filter(|_| candidate.at[p] == NONE) {
            candidate.stays[p] = true;
            candidate.assign(p, place);
        }
    }
    if candidate.violations() > 0 {
        return Err(Refusal::NoPlacement);
    }
    let order = d.order.iter().map(|p| *p as usize).filter(|p| candidate.at[*p] == NONE).collect();
    let budget = if small { SMALL_BUDGET } else { BUDGET };
    let mut search = Search { order, budget, small, waste, random };
    if search.step(&mut candidate, d, 0) { Ok(candidate.keep()) } else { Err(Refusal::NoPlacement) }
}

struct Search<'a> {
    order: Vec<usize>,
    budget: usize,
    small: bool,
    waste: Option<&'a Waste>,
    random: &'a mut Random,
}

impl Search<'_> {
    fn step(&mut self, candidate: &mut Candidate<'_, '_>, d: &Inner, depth: usize) -> bool {
        let Some(point) = self.order.get(depth).copied() else { return true };
        let places = match point < d.modules() {
            true => self.servers(candidate, d, point),
            false => self.access(candidate, d, point),
        };
        for place in places {
            if self.budget == 0 {
                return false;
            }
            self.budget -= 1;
            candidate.assign(point, place);
            if candidate.violations() == 0 && self.step(candidate, d, depth + 1) {
                return true;
            }
            candidate.unassign(point);
        }
        false
    }

    /// Servers for a module, the best first.
    fn servers(&mut self, candidate: &Candidate<'_, '_>, d: &Inner, g: usize) -> Vec<u32> {
        let domain = &*candidate.domain;
        let module = &d.spec.modules[g];
        let (cpu, memory) = (module.cpu as i32, module.memory as i32);
        let around = || {
            d.into[g]
                .iter()
                .map(|f| d.flows[*f as usize].from)
                .chain(d.out[g].iter().map(|f| d.flows[*f as usize].to))
        };
        let near: Vec<u32> = around()
            .map(|p| p as usize)
            .filter(|p| *p < d.modules())
            .map(|p| candidate.at[p])
            .filter(|s| *s != NONE)
            .collect();
        let mut racks: Vec<u32> = near.iter().map(|s| domain.hosts[*s as usize].rack).collect();
        let count = domain.racks.len();
        match self.small {
            true => racks = (0..count as u32).collect(),
            false => {
                if let Some(node) = module.node {
                    racks.push(domain.hosts[domain.server_of[node.0 as usize] as usize].rack);
                }
                let first = self.random.below(count.max(1));
                // Few racks may fulfil a wish: all are looked at then.
                let wishes = module.kind.is_some() || module.region.is_some();
                let space = |r: &u32| {
                    let rack = &domain.racks[*r as usize];
                    let fits = rack.cpu >= i64::from(cpu) && rack.memory >= i64::from(memory);
                    fits && (!wishes
                        || (rack.first..rack.first + rack.len).any(|s| domain.allows(s as usize, module)))
                };
                let look =
                    (0..if wishes { count } else { count.min(LOOK) }).map(|n| ((first + n) % count) as u32);
                racks.extend(look.filter(space).take(RACKS));
                racks.sort_unstable();
                racks.dedup();
            }
        }
        let mut list: Vec<(f32, u32)> = Vec::new();
        for r in racks {
            let rack = &domain.racks[r as usize];
            for s in rack.first..rack.first + rack.len {
                let (c, m) = (domain.cpu[s as usize] - cpu, domain.memory[s as usize] - memory);
                if c < 0 || m < 0 || !candidate.may_run(d, g, s) {
                    continue;
                }
                let mut score =
                    self.waste.map_or(0.0, |w| w.of(domain.grid.cell(c, m)) - w.of(domain.cells[s as usize]));
                for other in &near {
                    let same_rack = domain.hosts[*other as usize].rack == r;
                    score += if *other == s {
                        0.0
                    } else if same_rack {
                        STEP
                    } else {
                        3.0 * STEP
                    };
                }
                list.push((score, s));
            }
        }
        list.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        if !self.small {
            list.truncate(WIDTH);
        }
        list.into_iter().map(|(_, s)| s).collect()
    }

    /// Access points for a sink, the nearest first.
    fn access(&mut self, candidate: &mut Candidate<'_, '_>, d: &Inner, point: usize) -> Vec<u32> {
        let domain = &mut *candidate.domain;
        let mut list = match &d.spec.sinks[point - d.sink(0)] {
            Sink::Any => domain.access.clone(),
            Sink::OneOf(list) => list.iter().map(|v| v.0).collect(),
        };
        list.retain(|v| !domain.routes.is_down(*v));
        if list.len() > ACCESS {
            for n in 0..ACCESS {
                let other = n + self.random.below(list.len() - n);
                list.swap(n, other);
            }
            list.truncate(ACCESS);
        }
        let senders = d.into[point].iter().map(|f| d.flows[*f as usize].from as usize);
        let from = senders.filter(|p| *p < d.modules()).map(|p| candidate.at[p] as usize).next();
        let attach = from.map(|s| domain.racks[domain.hosts[s].rack as usize].attach);
        let delay = |v: u32| attach.map_or(0, |a| domain.routes.known(a, v));
        list.sort_by_key(|v| (delay(*v), std::cmp::Reverse(domain.routes.headroom(&domain.free, *v)), *v));
        list
    }
}

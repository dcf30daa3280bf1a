//! Weir's own algorithm: a service goes into one rack if it can, of a few racks that are being filled, on servers where it leaves least
//! that nobody will use (`waste.rs`); and if the number of demands to come is known, not at any price (`price.rs`).

use crate::candidate::{Candidate, Paths};
use crate::demand::{Demand, Inner, Sink};
use crate::domain::{Domain, RACK, Rack, Service};
use crate::price::Prices;
use crate::rack::{RackFit, Scratch};
use crate::random::Random;
use crate::refusal::Refusal;
use crate::routes::FAR;
use crate::waste::Waste;

/// Racks that are being filled.
const OPEN: usize = 24;
/// Of the racks that were filled: how many are looked at for their sums, and how many tried.
const LOOK: usize = 64;
const TRY: usize = 6;
/// How many are tried where nothing else is left.
const LAST: usize = 24;
/// How many of the racks that would do are tried with their links.
const BEST: usize = 3;
/// Share of a rack that remains unused in the end, as a rule.
const LOST: f64 = 0.03;
/// Decisions between two looks at prices.
const EVERY: u64 = 64;
/// Demands before one is refused for its price.
const LEARN: u64 = 100;
/// Cells of a new waste table that one decision works out.
const CELLS: usize = 96;
/// Servers times modules up to which a refusal says which module it is.
const SMALL: usize = 4096;

/// State of the algorithm.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fit {
    open: Vec<u32>,
    is_open: Vec<bool>,
    /// Racks that were open once.
    closed: Vec<bool>,
    cursor: usize,
    waste: Option<Waste>,
    prices: Prices,
    price: (f64, f64),
    expected: Option<u64>,
    decisions: u64,
    scratch: Scratch,
    /// Rack by rack, the delay to the nearest access point; as of a version of the routes.
    nearest: Vec<u32>,
    version: u64,
}

impl Fit {
    pub fn expect(&mut self, demands: Option<u64>) {
        self.expected = demands;
        self.decisions = 0;
    }

    pub fn place(
        &mut self,
        domain: &mut Domain,
        demand: &Demand,
        random: &mut Random,
        new: bool,
    ) -> Result<Service, Refusal> {
        self.prepare(domain);
        if new || self.decisions == 0 {
            self.learn(domain, demand, random);
        }
        if new {
            self.afford(&demand.0)?;
        }
        let mut found: Vec<RackFit> = Vec::with_capacity(BEST + 1);
        if demand.0.constrained {
            self.anywhere(domain, &demand.0, random, &mut found);
        } else {
            self.filled(domain, &demand.0, TRY, &mut found);
            if found.is_empty() {
                self.filling(domain, &demand.0, &mut found);
            }
            if found.is_empty() {
                self.filled(domain, &demand.0, LAST, &mut found);
            }
        }
        for found in &found {
            if let Some(service) = commit(domain, demand, found, random) {
                return Ok(service);
            }
        }
        let stays = vec![None; demand.0.points()];
        crate::span::place(domain, demand, &stays, self.waste.as_ref(), random).map_err(
            |refusal| match domain.hosts.len() * demand.0.modules() <= SMALL {
                true => domain.hopeless(demand).map_or(refusal, |module| Refusal::NoServer { module }),
                false => refusal,
            },
        )
    }

    fn prepare(&mut self, domain: &Domain) {
        if self.is_open.len() != domain.racks.len() {
            self.waste = Some(Waste::new(domain.grid));
            self.is_open = vec![false; domain.racks.len()];
            self.closed = vec![false; domain.racks.len()];
            self.open = (0..domain.racks.len().min(OPEN) as u32).collect();
            self.open.iter().for_each(|r| self.is_open[*r as usize] = true);
            self.version = u64::MAX;
        }
        if self.version != domain.routes.version {
            self.version = domain.routes.version;
            let nearest = |rack: &Rack| {
                domain.access.iter().map(|v| domain.routes.known(rack.attach, *v)).min().unwrap_or(FAR)
            };
            self.nearest = domain.racks.iter().map(nearest).collect();
        }
    }

    /// Takes a demand into account, whether it can be placed or not.
    fn learn(&mut self, domain: &Domain, demand: &Demand, random: &mut Random) {
        let Some(waste) = &mut self.waste else { return };
        self.prices.see(demand.0.cpu, demand.0.memory, random);
        for module in &demand.0.spec.modules {
            waste.see(module.cpu as i32, module.memory as i32, random);
        }
        if self.decisions.is_multiple_of(EVERY) || self.decisions < 8 {
            let free = |free: fn(&Rack) -> i64, full: fn(&Rack) -> i64| -> f64 {
                domain.racks.iter().map(|r| (free(r) as f64 - LOST * full(r) as f64).max(0.0)).sum()
            };
            let free = (free(|r| r.cpu, |r| r.full_cpu), free(|r| r.memory, |r| r.full_memory));
            self.price = self.prices.solve(free.0, free.1, self.expected);
        }
        let due = matches!(self.decisions, 64 | 1024) || self.decisions.is_multiple_of(16384);
        if due && !waste.busy() && self.price.0 + self.price.1 > 0.0 {
            waste.begin(self.price);
        }
        if waste.is_empty() {
            if !waste.busy() {
                waste.begin((1.0 / demand.0.cpu.max(1) as f64, 1.0 / demand.0.memory.max(1) as f64));
            }
            waste.advance(usize::MAX);
        } else if waste.busy() {
            waste.advance(CELLS);
        }
        self.decisions += 1;
    }

    fn afford(&mut self, d: &Inner) -> Result<(), Refusal> {
        let Some(expected) = self.expected else { return Ok(()) };
        self.expected = Some(expected.saturating_sub(1));
        let cost = self.price.0 * d.cpu as f64 + self.price.1 * d.memory as f64;
        // What was learned from a few is no ground to refuse.
        if cost > 1.0 && self.decisions > LEARN { Err(Refusal::TooCostly { expected }) } else { Ok(()) }
    }

    /// Racks that are full as a rule: what still fits there costs nobody anything.
    fn filled(&mut self, domain: &Domain, d: &Inner, most: usize, found: &mut Vec<RackFit>) {
        let racks = domain.racks.len();
        let look = if most == LAST { racks } else { racks.min(LOOK) };
        let mut tried = 0;
        for _ in 0..look {
            self.cursor = (self.cursor + 1) % racks;
            let r = self.cursor;
            let rack = &domain.racks[r];
            if self.closed[r] && !self.is_open[r] && rack.cpu >= d.cpu && rack.memory >= d.memory {
                tried += 1;
                self.try_rack(domain, d, r, found);
                if tried == most || (!found.is_empty() && most == LAST) {
                    break;
                }
            }
        }
    }

    /// Racks that are being filled. If none of them has enough free, the fullest makes place for the emptiest other.
    fn filling(&mut self, domain: &Domain, d: &Inner, found: &mut Vec<RackFit>) {
        for n in 0..self.open.len() {
            self.try_rack(domain, d, self.open[n] as usize, found);
        }
        for _ in 0..2 {
            if !found.is_empty() {
                return;
            }
            let share = |r: usize| {
                let rack = &domain.racks[r];
                let part = |free: i64, full: i64| free as f64 / full.max(1) as f64;
                part(rack.cpu, rack.full_cpu) + part(rack.memory, rack.full_memory)
            };
            let by_share = |a: &usize, b: &usize| share(*a).total_cmp(&share(*b));
            let open = self.open.iter().map(|r| *r as usize);
            let Some(fullest) = open.min_by(by_share) else { return };
            let others = (0..domain.racks.len()).filter(|r| !self.is_open[*r]);
            let Some(emptiest) = others.max_by(by_share) else { return };
            if share(emptiest) <= share(fullest) {
                return;
            }
            let Some(n) = self.open.iter().position(|r| *r as usize == fullest) else { return };
            self.open[n] = emptiest as u32;
            (self.is_open[fullest], self.closed[fullest]) = (false, true);
            self.is_open[emptiest] = true;
            self.try_rack(domain, d, emptiest, found);
        }
    }

    /// Any rack, for demands that may not run everywhere.
    fn anywhere(&mut self, domain: &Domain, d: &Inner, random: &mut Random, found: &mut Vec<RackFit>) {
        let racks = domain.racks.len();
        let first = random.below(racks.max(1));
        let mut tried = 0;
        for r in (0..racks).map(|n| (first + n) % racks) {
            let rack = &domain.racks[r];
            let allowed = |m: &crate::demand::Module| {
                (rack.first..rack.first + rack.len).any(|s| domain.allows(s as usize, m))
            };
            if rack.cpu >= d.cpu && rack.memory >= d.memory && d.spec.modules.iter().all(allowed) {
                tried += 1;
                self.try_rack(domain, d, r, found);
                if tried == LAST {
                    break;
                }
            }
        }
    }

    /// Puts what is found in its place among the best.
    fn try_rack(&mut self, domain: &Domain, d: &Inner, rack: usize, found: &mut Vec<RackFit>) {
        let Some(waste) = &self.waste else { return };
        let limit = found.last().filter(|_| found.len() == BEST).map_or(f32::MAX, |f| f.score);
        let new = self.scratch.fit(domain, waste, d, rack, self.nearest[rack]);
        if let Some(new) = new.filter(|new| new.score < limit) {
            let at = found.partition_point(|f| f.score <= new.score);
            found.insert(at, new);
            found.truncate(BEST);
        }
    }
}

/// Takes what was found, with paths and access points.
fn commit(domain: &mut Domain, demand: &Demand, found: &RackFit, random: &mut Random) -> Option<Service> {
    let d = &demand.0;
    let first = domain.racks[found.rack].first;
    let attach = domain.racks[found.rack].attach;
    let mut candidate = Candidate::new(domain, demand, Paths::Free);
    for g in 0..d.modules() {
        candidate.assign(g, first + u32::from(found.at[g]));
    }
    for n in 0..d.spec.sinks.len() {
        let sink = sink(candidate.domain, &d.spec.sinks[n], attach, random)?;
        candidate.assign(d.sink(n), sink);
    }
    (candidate.violations() == 0).then(|| candidate.keep())
}

/// Of a few access points the nearest, and of those the one with the freest link.
fn sink(domain: &Domain, sink: &Sink, attach: u32, random: &mut Random) -> Option<u32> {
    const SAMPLE: usize = 4;
    let count = match sink {
        Sink::Any => domain.access.len(),
        Sink::OneOf(list) => list.len(),
    };
    let vertex = |n: usize| match sink {
        Sink::Any => domain.access[n],
        Sink::OneOf(list) => list[n].0,
    };
    let worth =
        |v: u32| (domain.routes.known(attach, v), std::cmp::Reverse(domain.routes.headroom(&domain.free, v)));
    let pick = |n: usize, random: &mut Random| if count <= SAMPLE { n } else { random.below(count) };
    (0..count.min(SAMPLE)).map(|n| vertex(pick(n, random))).min_by_key(|v| worth(*v))
}

const _: () = assert!(RACK <= 64, "servers of a rack are counted in a byte and marked in a word");

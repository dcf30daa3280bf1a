//! A placement that is tried: what it takes is taken from the domain at once, and given back if it is not kept.

use crate::demand::{Demand, Inner};
use crate::domain::{Domain, NONE, Service};
use crate::paper::Balanced;
use crate::routes::FAR;

/// Which paths flows take.
pub(crate) enum Paths<'p> {
    /// What has the capacity now.
    Free,
    /// Fixed ones, whatever their links still have (algorithm 2).
    Fixed(&'p mut Balanced),
}

/// A demand, partly or wholly placed. Nothing of it remains in the domain unless it is kept.
pub(crate) struct Candidate<'d, 'p> {
    pub domain: &'d mut Domain,
    pub demand: Demand,
    /// Server of a module, vertex of a source or sink.
    pub at: Vec<u32>,
    /// Modules that ran there before: whether their servers take new ones does not matter.
    pub stays: Vec<bool>,
    paths: Paths<'p>,
    /// Links of all paths, and flow by flow where its own are; what is undone stays until a path is made anew behind it.
    links: Vec<u32>,
    ranges: Vec<(u32, u32)>,
    delays: Vec<u32>,
    /// Resources and links of which more is taken than there is, and flows without a path.
    over: i32,
    arrival: Vec<u32>,
}

impl<'d, 'p> Candidate<'d, 'p> {
    /// With its sources at their places.
    pub fn new(domain: &'d mut Domain, demand: &Demand, paths: Paths<'p>) -> Candidate<'d, 'p> {
        let d = &demand.0;
        let mut at = vec![NONE; d.points()];
        for (n, vertex) in d.spec.sources.iter().enumerate() {
            at[d.source(n)] = vertex.0;
        }
        Candidate {
            demand: demand.clone(),
            links: Vec::with_capacity(8 * d.flows.len()),
            ranges: vec![(0, 0); d.flows.len()],
            delays: vec![FAR; d.flows.len()],
            arrival: vec![0; d.points()],
            stays: vec![false; d.points()],
            over: 0,
            at,
            paths,
            domain,
        }
    }

    /// Constraints that do not hold, so far (the paper's v(sol)).
    pub fn violations(&mut self) -> i32 {
        self.over + self.late()
    }

    /// Puts a module on a server, or a sink at an access point, and routes its flows whose other ends have their places.
    pub fn assign(&mut self, point: usize, place: u32) {
        self.at[point] = place;
        let demand = self.demand.clone();
        let d = &demand.0;
        if point < d.modules() {
            let module = &d.spec.modules[point];
            self.over -= self.short(place as usize);
            self.domain.count_module(place as usize, module, true);
            self.over += self.short(place as usize);
            self.over += self.unwanted(d, point, place);
        }
        for flow in d.into[point].iter().chain(&d.out[point]) {
            self.route(d, *flow as usize);
        }
    }

    /// Undoes [`Candidate::assign`].
    pub fn unassign(&mut self, point: usize) {
        let demand = self.demand.clone();
        let d = &demand.0;
        for flow in d.into[point].iter().chain(&d.out[point]).rev() {
            self.unroute(d, *flow as usize);
        }
        let place = std::mem::replace(&mut self.at[point], NONE);
        if point < d.modules() {
            self.over -= self.unwanted(d, point, place);
            self.over -= self.short(place as usize);
            self.domain.count_module(place as usize, &d.spec.modules[point], false);
            self.over += self.short(place as usize);
        }
    }

    /// Keeps what was placed, which has to be all of it, without violations.
    pub fn keep(mut self) -> Service {
        self.late();
        let mut links = Vec::with_capacity(self.links.len());
        let mut ends = Vec::with_capacity(self.ranges.len());
        for (start, end) in &self.ranges {
            links.extend_from_slice(&self.links[*start as usize..*end as usize]);
            ends.push(links.len() as u32);
        }
        let service = Service {
            demand: self.demand.clone(),
            at: self.at.iter().copied().collect(),
            links: links.into(),
            ends: ends.into(),
            delay: self.arrival.iter().copied().max().unwrap_or(0),
        };
        // What Drop would give back.
        self.at.fill(NONE);
        service
    }

    /// Whether all wishes of a module hold on a server.
    pub fn may_run(&self, d: &Inner, g: usize, s: u32) -> bool {
        self.unwanted(d, g, s) == 0
    }

    /// How many of a module's wishes a server does not fulfil, beside those modules that have their places.
    fn unwanted(&self, d: &Inner, g: usize, s: u32) -> i32 {
        let allowed = self.stays[g] || self.domain.allows(s as usize, &d.spec.modules[g]);
        i32::from(!allowed) + conflicts(d, g, s, &self.at)
    }

    /// Delay until the traffic has reached a point, over flows that have their paths; valid after [`Candidate::violations`].
    pub fn arrival(&self, point: usize) -> u32 {
        self.arrival[point]
    }

    /// Points where traffic ends too late.
    fn late(&mut self) -> i32 {
        let d = &self.demand.0;
        let mut late = 0;
        for p in d.order.iter().map(|p| *p as usize) {
            let mut arrival = 0;
            for f in d.into[p].iter().map(|f| *f as usize) {
                let delay = if self.delays[f] == FAR { 0 } else { self.delays[f] };
                arrival = arrival.max(self.arrival[d.flows[f].from as usize].saturating_add(delay));
            }
            self.arrival[p] = arrival;
            let fixed = matches!(self.paths, Paths::Fixed(_)) && p < d.modules() && self.at[p] != NONE;
            let rest = if fixed { self.rest(d, p, self.at[p]) } else { 0 };
            late +=
                i32::from((rest > 0 || d.out[p].is_empty()) && arrival.saturating_add(rest) > d.max_delay);
        }
        late
    }

    /// The least delay from a server on to the sinks behind a module that have their places.
    fn rest(&self, d: &Inner, g: usize, s: u32) -> u32 {
        let host = &self.domain.hosts[s as usize];
        let rest = self.rest_of_rack(d, g, host.rack);
        if rest > 0 { rest.saturating_add(host.up_delay) } else { 0 }
    }

    /// The same from a rack's switch.
    pub fn rest_of_rack(&self, d: &Inner, g: usize, rack: u32) -> u32 {
        let attach = self.domain.racks[rack as usize].attach;
        let (mut left, mut rest) = (d.after[g], 0);
        while left != 0 {
            let sink = self.at[d.sink(left.trailing_zeros() as usize)];
            left &= left - 1;
            if sink != NONE {
                rest = rest.max(self.domain.routes.known(attach, sink));
            }
        }
        rest
    }

    fn short(&self, s: usize) -> i32 {
        let d = &self.domain;
        [d.cpu[s] < 0, d.memory[s] < 0].map(i32::from).iter().sum()
    }

    /// The vertex where a point's traffic joins the others', and the link between.
    fn joint(&self, d: &Inner, point: usize, sends: bool) -> (u32, u32, u32) {
        let at = self.at[point];
        if point >= d.modules() {
            return (at, NONE, 0);
        }
        let host = &self.domain.hosts[at as usize];
        let attach = self.domain.racks[host.rack as usize].attach;
        if sends { (attach, host.up, host.up_delay) } else { (attach, host.down, host.down_delay) }
    }

    fn route(&mut self, d: &Inner, flow: usize) {
        let f = d.flows[flow];
        let (from, to) = (f.from as usize, f.to as usize);
        if self.at[from] == NONE || self.at[to] == NONE {
            return;
        }
        if from < d.modules() && to < d.modules() && self.at[from] == self.at[to] {
            let internal = &mut self.domain.hosts[self.at[from] as usize].internal;
            self.over -= i32::from(*internal < 0);
            *internal -= f.bandwidth;
            self.over += i32::from(*internal < 0);
            self.delays[flow] = 0;
            return;
        }
        let (a, up, before) = self.joint(d, from, true);
        let (b, down, after) = self.joint(d, to, false);
        let start = self.links.len();
        let path = &mut self.links;
        path.extend((up != NONE).then_some(up));
        let domain = &mut *self.domain;
        let core = match &mut self.paths {
            Paths::Fixed(fixed) => fixed.path(&mut domain.routes, a, b, path),
            // No more can make it good.
            Paths::Free if self.over > 0 => None,
            Paths::Free => {
                let fits = |l: u32| l == NONE || domain.free[l as usize] >= f.bandwidth;
                let most = d.max_delay.checked_sub(before + after);
                match most.filter(|_| fits(up) && fits(down)) {
                    Some(most) => domain.routes.path((a, b), f.bandwidth, most, &domain.free, path),
                    None => None,
                }
            }
        };
        match core {
            Some(core) => {
                path.extend((down != NONE).then_some(down));
                for l in &path[start..] {
                    let free = &mut domain.free[*l as usize];
                    self.over -= i32::from(*free < 0);
                    *free -= f.bandwidth;
                    self.over += i32::from(*free < 0);
                }
                self.delays[flow] = before.saturating_add(core).saturating_add(after).min(FAR - 1);
            }
            None => {
                path.truncate(start);
                self.over += 1;
            }
        }
        self.ranges[flow] = (start as u32, self.links.len() as u32);
    }

    fn unroute(&mut self, d: &Inner, flow: usize) {
        let f = d.flows[flow];
        let (from, to) = (f.from as usize, f.to as usize);
        if self.at[from] == NONE || self.at[to] == NONE {
            return;
        }
        if self.delays[flow] == FAR {
            self.over -= 1;
            return;
        }
        self.delays[flow] = FAR;
        if from < d.modules() && to < d.modules() && self.at[from] == self.at[to] {
            let internal = &mut self.domain.hosts[self.at[from] as usize].internal;
            self.over -= i32::from(*internal < 0);
            *internal += f.bandwidth;
            self.over += i32::from(*internal < 0);
            return;
        }
        let (start, end) = std::mem::take(&mut self.ranges[flow]);
        for l in &self.links[start as usize..end as usize] {
            let free = &mut self.domain.free[*l as usize];
            self.over -= i32::from(*free < 0);
            *free += f.bandwidth;
            self.over += i32::from(*free < 0);
        }
        if end as usize == self.links.len() {
            self.links.truncate(start as usize);
        }
    }
}

impl Drop for Candidate<'_, '_> {
    fn drop(&mut self) {
        let modules = self.demand.0.modules();
        let sources = modules..modules + self.demand.0.spec.sources.len();
        for p in 0..self.at.len() {
            if self.at[p] != NONE && !sources.contains(&p) {
                self.unassign(p);
            }
        }
    }
}

/// Modules whose place contradicts a module's wishes to be together or apart, if it runs on a server.
pub(crate) fn conflicts(d: &Inner, g: usize, s: u32, at: &[u32]) -> i32 {
    let module = &d.spec.modules[g];
    if module.together.is_none() && module.apart == 0 {
        return 0;
    }
    let same = |a: Option<u8>, b: Option<u8>| a.is_some() && a == b;
    let others = d.spec.modules.iter().enumerate().filter(|(o, _)| *o != g && at[*o] != NONE);
    let contradicts = others.filter(|(o, other)| {
        let joined = at[*o] == s;
        (same(module.together, other.together) && !joined) || (module.apart & other.apart != 0 && joined)
    });
    contradicts.count() as i32
}

//! A service within one rack.

use crate::candidate::conflicts;
use crate::demand::{Inner, MAX_MODULES, Module};
use crate::domain::{Domain, NONE, RACK, Rack};
use crate::routes::FAR;
use crate::waste::Waste;

/// What a step to another server costs where steps are few, as a share of a server's worth: it could be needed later.
const STEP: f32 = 0.007;

/// Where the modules would go.
#[derive(Debug, Clone)]
pub(crate) struct RackFit {
    pub rack: usize,
    /// What is wasted more than before, as a share of the largest server's worth.
    pub score: f32,
    /// Module by module, the server's number in the rack.
    pub at: [u8; MAX_MODULES],
}

/// The free resources of the rack's servers while a service is fitted in.
#[derive(Debug, Clone)]
pub(crate) struct Scratch {
    cpu: [i32; RACK],
    memory: [i32; RACK],
    cell: [u32; RACK],
    waste: [f32; RACK],
    /// As `Candidate::at`, of modules only.
    at: [u32; MAX_MODULES],
    arrival: [u32; MAX_MODULES],
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            cpu: [0; RACK],
            memory: [0; RACK],
            cell: [0; RACK],
            waste: [0.0; RACK],
            at: [NONE; MAX_MODULES],
            arrival: [0; MAX_MODULES],
        }
    }
}

/// How far things are in a rack.
struct Delays {
    step: u32,
    /// From the servers to the nearest sink, if there is any.
    rest: u32,
    /// Whether every module may run on another server than the one before.
    free: bool,
}

impl Scratch {
    /// Fits a service into a rack, module by module, each where that wastes least. Links between servers are looked
    /// at later.
    pub fn fit(
        &mut self,
        domain: &Domain,
        waste: &Waste,
        d: &Inner,
        number: usize,
        nearest: u32,
    ) -> Option<RackFit> {
        let rack = &domain.racks[number];
        if rack.cpu < d.cpu || rack.memory < d.memory {
            return None;
        }
        let delays = Scratch::delays(domain, d, rack, nearest)?;
        let (first, len) = (rack.first as usize, rack.len as usize);
        self.cpu[..len].copy_from_slice(&domain.cpu[first..first + len]);
        self.memory[..len].copy_from_slice(&domain.memory[first..first + len]);
        self.cell[..len].copy_from_slice(&domain.cells[first..first + len]);
        for j in 0..len {
            if !domain.usable[first + j] {
                self.cpu[j] = -1;
            }
            self.waste[j] = waste.of(self.cell[j]);
        }
        self.at[..d.modules()].fill(NONE);
        let mut score = 0.0;
        if delays.free {
            for g in &d.by_size {
                score += self.put(domain, waste, d, *g as usize, rack, &delays)?;
            }
        } else {
            for g in d.order.iter().map(|p| *p as usize).filter(|p| *p < d.modules()) {
                score += self.put(domain, waste, d, g, rack, &delays)?;
            }
        }
        let mut at = [0; MAX_MODULES];
        for (at, s) in at.iter_mut().zip(&self.at[..d.modules()]) {
            *at = (s - rack.first) as u8;
        }
        Some(RackFit { rack: number, score, at })
    }

    fn delays(domain: &Domain, d: &Inner, rack: &Rack, nearest: u32) -> Option<Delays> {
        let host = &domain.hosts[rack.first as usize];
        let mut entry = 0;
        for vertex in &d.spec.sources {
            let delay = domain.routes.known(vertex.0, rack.attach);
            if delay == FAR {
                return None;
            }
            entry = entry.max(delay);
        }
        let rest = if d.spec.sinks.is_empty() {
            0
        } else if nearest == FAR {
            return None;
        } else {
            nearest.saturating_add(host.up_delay)
        };
        let step = host.up_delay + host.down_delay;
        let steps = step.saturating_mul(d.depth.saturating_sub(1));
        let all = entry.saturating_add(host.down_delay).saturating_add(steps).saturating_add(rest);
        Some(Delays { step, rest, free: all <= d.max_delay })
    }

    /// Finds a server for a module; answers what that wastes.
    fn put(
        &mut self,
        domain: &Domain,
        waste: &Waste,
        d: &Inner,
        g: usize,
        rack: &Rack,
        delays: &Delays,
    ) -> Option<f32> {
        let module = &d.spec.modules[g];
        let (cpu, memory) = (module.cpu as i32, module.memory as i32);
        let cells = domain.grid.cell(cpu, memory);
        let mut best = (f32::MAX, NONE, 0);
        for j in 0..rack.len as usize {
            let (c, m) = (self.cpu[j] - cpu, self.memory[j] - memory);
            if c < 0 || m < 0 {
                continue;
            }
            // Both are rounded down, so that this is a cell or two too large at most.
            let mut score = waste.of(self.cell[j] - cells) - self.waste[j];
            if score >= best.0 {
                continue;
            }
            let s = rack.first + j as u32;
            if d.constrained && !self.wanted(domain, d, g, module, s, (c, m)) {
                continue;
            }
            let mut arrival = 0;
            if !delays.free {
                arrival = self.reached(domain, d, g, s);
                let left = d.max_delay.saturating_sub(delays.rest);
                if arrival > left {
                    continue;
                }
                let (behind_cpu, behind_memory) = d.behind[g];
                if arrival.saturating_add(delays.step) > left && (c < behind_cpu || m < behind_memory) {
                    // All that follows would have to run here.
                    continue;
                }
                let moved = d.into[g].iter().map(|f| d.flows[*f as usize].from as usize);
                if moved.filter(|p| *p < d.modules()).any(|p| self.at[p] != s) {
                    score += STEP;
                }
            }
            if score < best.0 {
                best = (score, s, arrival);
            }
        }
        let (score, s, arrival) = best;
        if s == NONE {
            return None;
        }
        let j = (s - rack.first) as usize;
        self.cpu[j] -= cpu;
        self.memory[j] -= memory;
        self.cell[j] = domain.grid.cell(self.cpu[j], self.memory[j]);
        self.waste[j] = waste.of(self.cell[j]);
        self.at[g] = s;
        self.arrival[g] = arrival;
        Some(score)
    }

    /// When traffic reaches a module on a server. Modules come in the order of their flows.
    fn reached(&self, domain: &Domain, d: &Inner, g: usize, s: u32) -> u32 {
        let host = &domain.hosts[s as usize];
        let attach = domain.racks[host.rack as usize].attach;
        let mut arrival = 0;
        for from in d.into[g].iter().map(|f| d.flows[*f as usize].from as usize) {
            let at = if from >= d.modules() {
                let source = d.spec.sources[from - d.modules()].0;
                domain.routes.known(source, attach).saturating_add(host.down_delay)
            } else if self.at[from] == s {
                self.arrival[from]
            } else {
                let up = domain.hosts[self.at[from] as usize].up_delay;
                self.arrival[from].saturating_add(up + host.down_delay)
            };
            arrival = arrival.max(at);
        }
        arrival
    }

    /// Whether a module's wishes hold on a server, and there is space for all that is to be together with it.
    fn wanted(
        &self,
        domain: &Domain,
        d: &Inner,
        g: usize,
        module: &Module,
        s: u32,
        left: (i32, i32),
    ) -> bool {
        if !domain.allows(s as usize, module) || conflicts(d, g, s, &self.at[..d.modules()]) > 0 {
            return false;
        }
        let mut needed = (0, 0);
        if module.together.is_some() {
            for (o, other) in d.spec.modules.iter().enumerate() {
                if o != g && other.together == module.together && self.at[o] == NONE {
                    needed = (needed.0 + other.cpu as i32, needed.1 + other.memory as i32);
                }
            }
        }
        left.0 >= needed.0 && left.1 >= needed.1
    }
}

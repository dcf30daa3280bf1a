//! The paper's experiment (section 3.4.1) as data: the data centre, the sequence of services, and an upper bound.
//!
//! Where the paper does not say, `docs/placement.md` says what was chosen and why.

use crate::demand::{Demand, End, Flow, Module, Sink, Spec};
use crate::network::{Network, Region, Server, Vertex, VertexId};
use crate::random::Random;

/// Sizes of a data centre.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Core switches, each joined to every intermediate switch.
    pub core: usize,
    /// Intermediate switches.
    pub intermediate: usize,
    /// I/O nodes of each core switch.
    pub access: usize,
    /// Racks, each with a switch that is joined to every intermediate switch.
    pub racks: usize,
    /// Servers of a rack.
    pub servers: usize,
    /// kbit/s of the links that lead to no server.
    pub backbone: u64,
    /// kbit/s of a server's link.
    pub server: u64,
}

impl Shape {
    /// The paper's: 10,000 servers.
    pub const PAPER: Shape = Shape {
        core: 32,
        intermediate: 32,
        access: 5,
        racks: 500,
        servers: 20,
        backbone: 10_000_000,
        server: 1_000_000,
    };
    /// 100,000 servers behind as many switches, with ten times the capacity between these.
    pub const TENFOLD: Shape = Shape { racks: 5000, backbone: 100_000_000, ..Shape::PAPER };
    /// 200 servers, for tests.
    pub const SMALL: Shape = Shape { core: 2, intermediate: 2, access: 2, racks: 10, ..Shape::PAPER };

    /// The network, and its I/O nodes. Every link has delay 1; a server has 8 cores, 2048 MB, and 10 Gbit/s inside.
    pub fn build(&self) -> (Network, Vec<VertexId>) {
        let mut network = Network::new();
        let core: Vec<VertexId> = (0..self.core).map(|_| network.add(Vertex::Switch)).collect();
        let between: Vec<VertexId> = (0..self.intermediate).map(|_| network.add(Vertex::Switch)).collect();
        let mut access = Vec::new();
        for c in &core {
            for i in &between {
                network.cable(*c, *i, self.backbone, 1);
            }
            for _ in 0..self.access {
                let io = network.add(Vertex::Access);
                network.cable(io, *c, self.backbone, 1);
                access.push(io);
            }
        }
        for _ in 0..self.racks {
            let rack = network.add(Vertex::Switch);
            for i in &between {
                network.cable(rack, *i, self.backbone, 1);
            }
            for _ in 0..self.servers {
                let server =
                    Server { cpu: 8000, memory: 2048, internal: 10_000_000, region: Region(0), kinds: 0 };
                let server = network.add(Vertex::Server(server));
                network.cable(server, rack, self.server, 1);
            }
        }
        (network, access)
    }
}

/// A row of table 3.2, and the shape of figure 3.1.
struct Template {
    /// Thousandths of a core: one of these for each module.
    cpu: &'static [u32],
    /// MB of a module, from and to.
    memory: (u32, u32),
    /// Packets per second of 1024 bits each.
    rate: (u64, u64),
    modules: usize,
    sinks: usize,
    /// Sender, receiver, and the part of the service's traffic that goes there: one of so many.
    flows: &'static [(End, End, u64)],
}

use End::{Module as M, Sink as Out, Source as In};

const TEMPLATES: [Template; 4] = [
    // Intrusion detection: one module spreads, three look, one collects.
    Template {
        cpu: &[500, 2000],
        memory: (100, 1024),
        rate: (38_800, 100_000),
        modules: 5,
        sinks: 1,
        flows: &[
            (In(0), M(0), 1),
            (M(0), M(1), 3),
            (M(0), M(2), 3),
            (M(0), M(3), 3),
            (M(1), M(4), 3),
            (M(2), M(4), 3),
            (M(3), M(4), 3),
            (M(4), Out(0), 1),
        ],
    },
    // Load balancing: a tree of three levels, four exits.
    Template {
        cpu: &[700, 1000, 1500],
        memory: (100, 200),
        rate: (25_000, 100_000),
        modules: 7,
        sinks: 4,
        flows: &[
            (In(0), M(0), 1),
            (M(0), M(1), 2),
            (M(0), M(2), 2),
            (M(1), M(3), 4),
            (M(1), M(4), 4),
            (M(2), M(5), 4),
            (M(2), M(6), 4),
            (M(3), Out(0), 4),
            (M(4), Out(1), 4),
            (M(5), Out(2), 4),
            (M(6), Out(3), 4),
        ],
    },
    // Network access control: a chain.
    Template {
        cpu: &[500, 1000],
        memory: (100, 200),
        rate: (96_000, 100_000),
        modules: 3,
        sinks: 1,
        flows: &[(In(0), M(0), 1), (M(0), M(1), 1), (M(1), M(2), 1), (M(2), Out(0), 1)],
    },
    // Tunneling: one entry, two tunnels.
    Template {
        cpu: &[1500, 2500],
        memory: (200, 1024),
        rate: (50_000, 100_000),
        modules: 3,
        sinks: 2,
        flows: &[(In(0), M(0), 1), (M(0), M(1), 2), (M(0), M(2), 2), (M(1), Out(0), 2), (M(2), Out(1), 2)],
    },
];

/// The sequence of services: as many of each template, in random order; each enters at a random I/O node.
pub fn services(count: usize, access: &[VertexId], max_delay: u32, seed: u64) -> Vec<Demand> {
    let mut random = Random::new(seed);
    let mut all = Vec::with_capacity(count);
    for n in 0..count {
        // Well formed by construction.
        all.extend(service(&TEMPLATES[n % TEMPLATES.len()], access, max_delay, &mut random));
    }
    random.shuffle(&mut all);
    all
}

fn service(template: &Template, access: &[VertexId], max_delay: u32, random: &mut Random) -> Option<Demand> {
    let module = |random: &mut Random| Module {
        cpu: template.cpu[random.below(template.cpu.len())],
        memory: between(template.memory.0.into(), template.memory.1.into(), random) as u32,
        ..Module::default()
    };
    let modules = (0..template.modules).map(|_| module(random)).collect();
    let bits = between(template.rate.0, template.rate.1, random) * 1024;
    let flow = |(from, to, part): &(End, End, u64)| Flow {
        from: *from,
        to: *to,
        bandwidth: bits.div_ceil(1000 * part),
    };
    let spec = Spec {
        modules,
        sources: vec![access[random.below(access.len())]],
        sinks: vec![Sink::Any; template.sinks],
        flows: template.flows.iter().map(flow).collect(),
        max_delay: Some(max_delay),
        migrate: false,
    };
    Demand::new(spec).ok()
}

fn between(least: u64, most: u64, random: &mut Random) -> u64 {
    least + random.below((most - least + 1) as usize) as u64
}

/// No more of the demands than this can run at once on the network: the optimum of the linear program `maximise Σ x_i` subject to
/// `Σ cpu_i x_i <= all cores`, `Σ memory_i x_i <= all memory`, `0 <= x_i <= 1`, approached from above.
///
/// Every placement gives a solution of this program, since it adds up the servers' limits and leaves out all others. Where all servers
/// are equal, and links and delays do not bind, it is no weaker than the program with a variable for each module and server: an N-th of
/// every service on each of N servers is a solution of that. By weak duality `x·C + y·M + Σ max(0, 1 - x·cpu_i - y·memory_i)` is a
/// bound for any prices x, y >= 0, so that it does not matter how well they are chosen.
pub fn bound(network: &Network, demands: &[Demand]) -> f64 {
    let servers =
        network.vertices().iter().filter_map(|v| if let Vertex::Server(s) = v { Some(s) } else { None });
    let (cpu, memory) = servers.fold((0.0, 0.0), |(c, m), s| (c + f64::from(s.cpu), m + f64::from(s.memory)));
    let takes: Vec<(f64, f64)> =
        demands.iter().map(|d| (d.0.cpu as f64 / cpu, d.0.memory as f64 / memory)).collect();
    let dual =
        |x: f64, y: f64| x + y + takes.iter().map(|(c, m)| (1.0 - x * c - y * m).max(0.0)).sum::<f64>();
    let most = 4.0 * demands.len() as f64;
    let inner = |x: f64| least(most, |y| dual(x, y)).1;
    least(most, inner).1
}

/// Where a convex function is least between 0 and `most`, and its value there.
fn least(most: f64, f: impl Fn(f64) -> f64) -> (f64, f64) {
    let (mut a, mut b) = (0.0, most);
    for _ in 0..60 {
        let (x, y) = (a + (b - a) / 3.0, b - (b - a) / 3.0);
        if f(x) < f(y) { b = y } else { a = x }
    }
    (a, f(a))
}

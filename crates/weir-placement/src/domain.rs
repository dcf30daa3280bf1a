//! A network and what runs on it. All figures are integers, so that what is released is restored exactly.

use std::fmt;

use thiserror::Error;

use crate::demand::{Demand, Module};
use crate::network::{LinkId, Network, NetworkError, Server, Vertex, VertexId};
use crate::routes::{Leaf, Routes, leaves};
use crate::waste::Grid;

/// No vertex, server or link.
pub(crate) const NONE: u32 = u32::MAX;
/// Most servers of a rack; those of larger ones are counted as several.
pub(crate) const RACK: usize = 32;

/// A service that runs. Never used again for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

/// Where a demand was placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The service.
    pub service: ServiceId,
    /// Module by module, the server.
    pub servers: Vec<VertexId>,
    /// Sink by sink, the access point.
    pub sinks: Vec<VertexId>,
    /// Flow by flow, the links in the order of the traffic; none between modules of one server.
    pub paths: Vec<Vec<LinkId>>,
    /// The largest delay from a source.
    pub delay: u32,
}

/// A wrong call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DomainError {
    /// No such service, or no longer.
    #[error("there is no service {}", .0.0)]
    NoService(ServiceId),
    /// No such vertex.
    #[error("there is no vertex {}", .0.0)]
    NoVertex(VertexId),
    /// A switch or an access point.
    #[error("vertex {} is no server", .0.0)]
    NoServer(VertexId),
}

/// Servers that one switch joins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rack {
    pub first: u32,
    pub len: u32,
    /// The switch, or the server itself if it has links to several vertices.
    pub attach: u32,
    pub cpu: i64,
    pub memory: i64,
    pub full_cpu: i64,
    pub full_memory: i64,
    /// The least delay from and to its servers.
    pub up_delay: u32,
    pub down_delay: u32,
}

/// A server: what is free, and how it is joined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host {
    pub vertex: u32,
    pub rack: u32,
    /// Link to and from the rack's switch; none if the server is its own rack.
    pub up: u32,
    pub down: u32,
    pub up_delay: u32,
    pub down_delay: u32,
    pub internal: i64,
    /// Modules that run here.
    pub running: u32,
    pub cordoned: bool,
}

/// A service that runs.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub demand: Demand,
    /// Servers of modules, then vertices of sources and of sinks.
    pub at: Box<[u32]>,
    /// Links of all flows, and where those of each flow end.
    pub links: Box<[u32]>,
    pub ends: Box<[u32]>,
    pub delay: u32,
}

#[derive(Debug, Clone, Default)]
struct Slot {
    uses: u32,
    service: Option<Service>,
}

/// A network and what runs on it.
#[derive(Clone)]
pub struct Domain {
    pub(crate) network: Network,
    pub(crate) routes: Routes,
    pub(crate) hosts: Vec<Host>,
    pub(crate) cpu: Vec<i32>,
    pub(crate) memory: Vec<i32>,
    /// Where what is free stands in tables over it.
    pub(crate) cells: Vec<u32>,
    pub(crate) grid: Grid,
    /// Whether a server takes modules: it is neither down nor cordoned.
    pub(crate) usable: Vec<bool>,
    pub(crate) racks: Vec<Rack>,
    /// Vertex to server.
    pub(crate) server_of: Vec<u32>,
    pub(crate) access: Vec<u32>,
    /// Free kbit/s of links.
    pub(crate) free: Vec<i64>,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    running: usize,
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (servers, running) = (self.hosts.len(), self.running);
        f.debug_struct("Domain").field("servers", &servers).field("running", &running).finish_non_exhaustive()
    }
}

impl Domain {
    /// Nothing runs yet. Servers that hang on one switch alone are a rack; another server is a rack of its own, and forwards.
    pub fn new(network: Network) -> Result<Domain, NetworkError> {
        network.check()?;
        let leaves = leaves(&network);
        let routes = Routes::new(&network, &leaves);
        let mut servers: Vec<(u32, u32)> = Vec::new();
        for (v, vertex) in network.vertices.iter().enumerate() {
            if let Vertex::Server(_) = vertex {
                servers.push((leaves[v].map_or(v as u32, |leaf| leaf.switch), v as u32));
            }
        }
        servers.sort_unstable();
        let mut domain = Domain {
            server_of: vec![NONE; network.vertices.len()],
            access: Vec::new(),
            free: network.links.iter().map(|l| l.capacity as i64).collect(),
            hosts: Vec::with_capacity(servers.len()),
            cpu: Vec::with_capacity(servers.len()),
            memory: Vec::with_capacity(servers.len()),
            cells: Vec::with_capacity(servers.len()),
            grid: grid(&network),
            usable: vec![true; servers.len()],
            racks: Vec::new(),
            slots: Vec::new(),
            vacant: Vec::new(),
            running: 0,
            network,
            routes,
        };
        for (attach, vertex) in servers {
            domain.add_server(attach, vertex, leaves[vertex as usize]);
        }
        for (v, vertex) in domain.network.vertices.iter().enumerate() {
            if *vertex == Vertex::Access {
                domain.access.push(v as u32);
            }
        }
        domain.routes.prepare(&domain.access);
        Ok(domain)
    }

    fn add_server(&mut self, attach: u32, vertex: u32, leaf: Option<Leaf>) {
        let Vertex::Server(server) = self.network.vertices[vertex as usize] else { return };
        let s = self.hosts.len() as u32;
        if self.racks.last().is_none_or(|r| r.attach != attach || r.len as usize == RACK) {
            let (cpu, memory, up_delay, down_delay) = (0, 0, u32::MAX, u32::MAX);
            let (full_cpu, full_memory) = (0, 0);
            self.racks.push(Rack {
                first: s,
                len: 0,
                attach,
                cpu,
                memory,
                full_cpu,
                full_memory,
                up_delay,
                down_delay,
            });
        }
        let (up, down) = leaf.map_or((NONE, NONE), |leaf| (leaf.up, leaf.down));
        let delay = |l: u32| if l == NONE { 0 } else { self.network.links[l as usize].delay };
        let (up_delay, down_delay) = (delay(up), delay(down));
        let number = self.racks.len() - 1;
        let rack = &mut self.racks[number];
        rack.len += 1;
        rack.cpu += i64::from(server.cpu);
        rack.memory += i64::from(server.memory);
        (rack.full_cpu, rack.full_memory) = (rack.cpu, rack.memory);
        rack.up_delay = rack.up_delay.min(up_delay);
        rack.down_delay = rack.down_delay.min(down_delay);
        self.hosts.push(Host {
            vertex,
            rack: number as u32,
            up,
            down,
            up_delay,
            down_delay,
            internal: server.internal as i64,
            running: 0,
            cordoned: false,
        });
        self.cpu.push(server.cpu as i32);
        self.memory.push(server.memory as i32);
        self.cells.push(self.grid.cell(server.cpu as i32, server.memory as i32));
        self.server_of[vertex as usize] = s;
    }

    /// What it was made of.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// How many services run.
    pub fn running(&self) -> usize {
        self.running
    }

    /// Those that run.
    pub fn services(&self) -> impl Iterator<Item = ServiceId> {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.service.is_some());
        used.map(|(n, slot)| id(n, slot.uses))
    }

    /// Where a service runs.
    pub fn placement(&self, service: ServiceId) -> Result<Placement, DomainError> {
        let found = self.service(service)?;
        let demand = &found.demand.0;
        let vertex = |p: usize| match p < demand.modules() {
            true => VertexId(self.hosts[found.at[p] as usize].vertex),
            false => VertexId(found.at[p]),
        };
        let mut start = 0;
        let paths = found.ends.iter().map(|end| {
            let path = &found.links[start..*end as usize];
            start = *end as usize;
            path.iter().map(|l| LinkId(*l)).collect()
        });
        Ok(Placement {
            service,
            paths: paths.collect(),
            servers: (0..demand.modules()).map(vertex).collect(),
            sinks: (demand.sink(0)..demand.points()).map(vertex).collect(),
            delay: found.delay,
        })
    }

    /// What a service asked for.
    pub fn demand(&self, service: ServiceId) -> Result<Demand, DomainError> {
        Ok(self.service(service)?.demand.clone())
    }

    /// Ends a service: all that it took is free again.
    pub fn release(&mut self, service: ServiceId) -> Result<(), DomainError> {
        self.take_out(service)?;
        self.vacant.push(service.0 as u32);
        Ok(())
    }

    /// Thousandths of a core, MB and kbit/s inside it that are free on a server.
    pub fn free_of(&self, server: VertexId) -> Result<(u32, u32, u64), DomainError> {
        let s = self.server(server)?;
        Ok((self.cpu[s] as u32, self.memory[s] as u32, self.hosts[s].internal as u64))
    }

    /// Free kbit/s of a link.
    pub fn free_of_link(&self, link: LinkId) -> Option<u64> {
        self.free.get(link.0 as usize).map(|f| *f as u64)
    }

    /// A cordoned server takes no more modules; those that it runs stay.
    pub fn cordon(&mut self, server: VertexId, cordoned: bool) -> Result<(), DomainError> {
        let s = self.server(server)?;
        self.hosts[s].cordoned = cordoned;
        self.usable[s] = !cordoned && !self.routes.is_down(server.0);
        Ok(())
    }

    /// Says whether a vertex works. What runs there is not touched: [`crate::Placer::fail`] sees to it.
    pub fn set_down(&mut self, vertex: VertexId, down: bool) -> Result<(), DomainError> {
        if vertex.0 as usize >= self.network.vertices.len() {
            return Err(DomainError::NoVertex(vertex));
        }
        self.routes.set_down(vertex.0, down, &self.access);
        if let Some(s) = self.server_number(vertex) {
            self.usable[s] = !down && !self.hosts[s].cordoned;
        }
        Ok(())
    }

    /// Services that have a module, an access point or a path at a vertex.
    pub fn services_at(&self, vertex: VertexId) -> Vec<ServiceId> {
        let crosses = |s: &Service| {
            let modules = s.demand.0.modules();
            let ends = s.at.iter().enumerate().any(|(p, at)| match p < modules {
                true => self.hosts[*at as usize].vertex == vertex.0,
                false => *at == vertex.0,
            });
            let link = |l: &u32| self.network.links[*l as usize];
            ends || s.links.iter().any(|l| link(l).from == vertex || link(l).to == vertex)
        };
        let at = |(n, slot): (usize, &Slot)| {
            slot.service.as_ref().filter(|s| crosses(s)).map(|_| id(n, slot.uses))
        };
        self.slots.iter().enumerate().filter_map(at).collect()
    }

    /// Counts all that runs anew and holds it against what is kept.
    pub fn audit(&self) -> Result<(), String> {
        let mut fresh = Domain::new(self.network.clone()).map_err(|e| e.to_string())?;
        for slot in &self.slots {
            if let Some(service) = &slot.service {
                fresh.count(service, true);
            }
        }
        let racks = |d: &Domain| d.racks.iter().map(|r| (r.cpu, r.memory)).collect::<Vec<_>>();
        let hosts = |d: &Domain| d.hosts.iter().map(|h| (h.internal, h.running)).collect::<Vec<_>>();
        let same = [
            ("cpu", self.cpu == fresh.cpu),
            ("memory", self.memory == fresh.memory),
            ("links", self.free == fresh.free),
            ("racks", racks(self) == racks(&fresh)),
            ("servers", hosts(self) == hosts(&fresh)),
        ];
        if let Some((what, _)) = same.iter().find(|(_, same)| !same) {
            return Err(format!("{what}: what is kept differs from what runs"));
        }
        let over = self.cpu.iter().chain(&self.memory).any(|f| *f < 0)
            || self.free.iter().any(|f| *f < 0)
            || self.hosts.iter().any(|h| h.internal < 0);
        if over { Err("more is given away than there is".into()) } else { Ok(()) }
    }

    pub(crate) fn service(&self, service: ServiceId) -> Result<&Service, DomainError> {
        let slot = self.slots.get(service.0 as u32 as usize);
        let slot = slot.filter(|s| u64::from(s.uses) == service.0 >> 32);
        slot.and_then(|s| s.service.as_ref()).ok_or(DomainError::NoService(service))
    }

    /// Takes a service out, and keeps its number for [`Domain::keep`].
    pub(crate) fn take_out(&mut self, service: ServiceId) -> Result<Service, DomainError> {
        self.service(service)?;
        let slot = &mut self.slots[service.0 as u32 as usize];
        let found = slot.service.take().ok_or(DomainError::NoService(service))?;
        self.count(&found, false);
        self.running -= 1;
        Ok(found)
    }

    /// Keeps a service whose resources are counted already: as `old`, or under a new number.
    pub(crate) fn keep(&mut self, service: Service, old: Option<ServiceId>) -> ServiceId {
        self.running += 1;
        let number = match old {
            Some(old) => old.0 as u32,
            None => self.vacant.pop().unwrap_or_else(|| {
                self.slots.push(Slot::default());
                self.slots.len() as u32 - 1
            }),
        };
        let slot = &mut self.slots[number as usize];
        if old.is_none() {
            slot.uses += 1;
        }
        slot.service = Some(service);
        id(number as usize, slot.uses)
    }

    /// The number of a service that was taken out is free for others.
    pub(crate) fn give_up(&mut self, service: ServiceId) {
        self.vacant.push(service.0 as u32);
    }

    /// Whether the place of a service's point is up.
    pub(crate) fn works(&self, service: &Service, point: usize) -> bool {
        let at = service.at[point];
        let vertex = if point < service.demand.0.modules() { self.hosts[at as usize].vertex } else { at };
        !self.routes.is_down(vertex)
    }

    /// Takes what a service uses, or gives it back.
    fn count(&mut self, service: &Service, take: bool) {
        let demand = service.demand.0.clone();
        for (g, module) in demand.spec.modules.iter().enumerate() {
            self.count_module(service.at[g] as usize, module, take);
        }
        let mut start = 0;
        for (flow, end) in demand.flows.iter().zip(&service.ends) {
            let bandwidth = if take { flow.bandwidth } else { -flow.bandwidth };
            let same = (flow.from as usize) < demand.modules()
                && (flow.to as usize) < demand.modules()
                && service.at[flow.from as usize] == service.at[flow.to as usize];
            if same {
                self.hosts[service.at[flow.from as usize] as usize].internal -= bandwidth;
            }
            for link in &service.links[start..*end as usize] {
                self.free[*link as usize] -= bandwidth;
            }
            start = *end as usize;
        }
    }

    pub(crate) fn count_module(&mut self, s: usize, module: &Module, take: bool) {
        let sign = if take { 1 } else { -1 };
        let (cpu, memory) = (sign * module.cpu as i32, sign * module.memory as i32);
        self.cpu[s] -= cpu;
        self.memory[s] -= memory;
        self.cells[s] = self.grid.cell(self.cpu[s], self.memory[s]);
        let host = &mut self.hosts[s];
        host.running = host.running.wrapping_add_signed(sign);
        let rack = &mut self.racks[host.rack as usize];
        rack.cpu -= i64::from(cpu);
        rack.memory -= i64::from(memory);
    }

    /// Whether a server may run a module, its resources left out of account.
    pub(crate) fn allows(&self, s: usize, module: &Module) -> bool {
        let host = &self.hosts[s];
        self.usable[s]
            && module.node.is_none_or(|n| n.0 == host.vertex)
            && ((module.kind.is_none() && module.region.is_none()) || {
                let server = self.spec(s);
                module.kind.is_none_or(|k| server.kinds >> k.0 & 1 == 1)
                    && module.region.is_none_or(|r| r == server.region)
            })
    }

    /// A server as it was declared.
    pub(crate) fn spec(&self, s: usize) -> Server {
        match self.network.vertices[self.hosts[s].vertex as usize] {
            Vertex::Server(server) => server,
            // Hosts are made of servers only.
            _ => Server { cpu: 0, memory: 0, internal: 0, region: crate::network::Region(0), kinds: 0 },
        }
    }

    fn server_number(&self, vertex: VertexId) -> Option<usize> {
        self.server_of.get(vertex.0 as usize).filter(|s| **s != NONE).map(|s| *s as usize)
    }

    fn server(&self, vertex: VertexId) -> Result<usize, DomainError> {
        match self.server_number(vertex) {
            Some(s) => Ok(s),
            None if (vertex.0 as usize) < self.network.vertices.len() => Err(DomainError::NoServer(vertex)),
            None => Err(DomainError::NoVertex(vertex)),
        }
    }
}

fn grid(network: &Network) -> Grid {
    let servers =
        || network.vertices.iter().filter_map(|v| if let Vertex::Server(s) = v { Some(s) } else { None });
    let most = |of: fn(&Server) -> u32| servers().map(of).max().unwrap_or(1) as i32;
    Grid::new(most(|s| s.cpu), most(|s| s.memory))
}

fn id(number: usize, uses: u32) -> ServiceId {
    ServiceId(u64::from(uses) << 32 | number as u64)
}

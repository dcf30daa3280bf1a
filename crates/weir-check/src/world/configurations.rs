//! Click configurations and requests on their own.

use std::collections::HashSet;

use weir_model::request::{ModuleLink, Request, UNNAMED};
use weir_model::value::IpPrefix;
use weir_plan::{Classes, Plan};
use weir_verify::checks::{Framing, Start, Target};
use weir_verify::{NodePort, SymbolicInput};

use super::{EdgePort, Location, World};
use crate::click;

impl World {
    /// A Click configuration on its own. Requirements name its elements, devices, links and files; every address is
    /// outside.
    pub fn of_click(plan: &Plan) -> World {
        let mut world = World::default();
        let mut ports = world.add_click(plan, 0, "");
        world.check_entries(&mut ports);
        world.locations = devices(&ports);
        let edge_ports = world.locations.iter().flat_map(|s| s.edge_ports.clone()).collect();
        world.add_elements(plan, &ports, "");
        world.add_outside(edge_ports);
        world
    }

    /// The modules of a request on their own: as a configuration, whose elements are named `MODULE/ELEMENT` and whose
    /// devices are ports of their module. One module without a name is a configuration.
    ///
    /// # Errors
    /// What is wrong with the modules, one text a mistake. `file` is for messages.
    pub fn of_request(request: &Request, classes: &Classes, file: &str) -> Result<World, Vec<String>> {
        let mut plans = Vec::new();
        let mut errors = Vec::new();
        for m in &request.modules {
            match super::topology::plan(classes, m, file) {
                Ok(plan) => plans.push((m, plan)),
                Err(e) => errors.extend(e),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        if let [(m, plan)] = plans.as_slice()
            && m.name == UNNAMED
        {
            return Ok(World::of_click(plan));
        }
        let mut world = World::default();
        for (scope, (m, plan)) in plans.iter().enumerate() {
            let mut ports = world.add_click(plan, scope as u32, &format!("{}/", m.name));
            world.check_entries(&mut ports);
            let mut location = Location {
                name: m.name.clone(),
                edge_ports: Vec::new(),
                nodes: Vec::new(),
                owns: Vec::new(),
            };
            for device in devices(&ports) {
                location.edge_ports.extend(
                    device.edge_ports.into_iter().map(|g| EdgePort { name: device.name.clone(), ..g }),
                );
            }
            location.nodes.extend(ports.nodes.iter().flat_map(|(a, b)| [*a, *b]));
            location.nodes.dedup();
            world.locations.push(location);
            world.add_elements(plan, &ports, &format!("{}/", m.name));
        }
        for link in &request.links {
            let (from, to) = (world.edge_port(&link.from), world.edge_port(&link.to));
            let ends = from.and_then(|g| g.target).zip(to.and_then(|g| g.start.clone()));
            match ends {
                Some((from, to)) => world.net.connect(from.place, to.place),
                None => errors.push(format!(
                    "{file}:{}: {}:{} -> {}:{}: packets have to leave the one port and come in at the other",
                    link.position.line, link.from.0, link.from.1, link.to.0, link.to.1
                )),
            }
        }
        let linked = |m: &str, g: &EdgePort, ends: &dyn Fn(&ModuleLink) -> (String, String)| {
            request.links.iter().map(ends).any(|(module, port)| module == m && port == g.name)
        };
        let mut edge_ports = Vec::new();
        for (m, _) in &plans {
            let Some(location) = world.locations.iter().find(|s| s.name == m.name) else { continue };
            edge_ports.extend(location.edge_ports.iter().map(|g| EdgePort {
                start: g.start.clone().filter(|_| !linked(&m.name, g, &|l| l.to.clone())),
                target: g.target.filter(|_| !linked(&m.name, g, &|l| l.from.clone())),
                ..g.clone()
            }));
        }
        world.add_outside(edge_ports);
        if errors.is_empty() { Ok(world) } else { Err(errors) }
    }

    fn edge_port(&self, (node, port): &(String, String)) -> Option<&EdgePort> {
        let location = self.locations.iter().find(|s| s.name == *node)?;
        let named = location.edge_ports.iter().find(|g| g.name == *port);
        named.or_else(|| location.edge_ports.get(port.parse::<usize>().ok()?))
    }

    /// Puts a configuration into the network.
    pub(super) fn add_click(&mut self, plan: &Plan, scope: u32, prefix: &str) -> click::Ports {
        let ports = click::add(&mut self.net, plan, scope, prefix);
        self.add_ports(&ports, prefix);
        ports
    }

    /// Lets only whole IP packets come in where IP packets do.
    fn check_entries(&mut self, ports: &mut click::Ports) {
        for p in ports.entries.iter_mut().filter(|p| p.framing == Framing::Ip) {
            p.into = self.well_formed(p.into);
        }
    }

    /// Takes over what is known of a configuration in the network.
    pub(super) fn add_ports(&mut self, ports: &click::Ports, prefix: &str) {
        self.labels.extend(ports.labels.iter().map(|(n, l)| (*n, l.clone())));
        self.notes.extend(ports.notes.iter().map(|n| format!("{prefix}{n}")));
        self.others.extend(ports.origins.iter().map(origin));
    }

    /// What is behind these edge ports owns all addresses, and may send packets.
    pub(super) fn add_outside(&mut self, edge_ports: Vec<EdgePort>) {
        self.others.extend(edge_ports.iter().filter_map(|g| g.start.clone()));
        self.locations.push(Location {
            name: String::new(),
            edge_ports,
            nodes: Vec::new(),
            owns: everything(),
        });
        self.net.finish();
    }

    /// Names for the elements of a configuration.
    pub(super) fn add_elements(&mut self, plan: &Plan, ports: &click::Ports, prefix: &str) {
        let framings = click::framings(plan, ports);
        let taken: HashSet<String> = self.locations.iter().map(|s| s.name.clone()).collect();
        for (i, e) in plan.graph.elements.iter().enumerate() {
            let (Some(&(first, last)), Some(kinds)) = (ports.nodes.get(i), plan.graph.ports.get(i)) else {
                continue;
            };
            let of_element = |p: &&click::Port| p.element == i;
            let entry = ports.entries.iter().find(of_element);
            let entry = entry.map(|p| Start::new(p.into, p.framing, p.input()));
            let start = entry.or_else(|| ports.origins.iter().find(|o| o.port.element == i).map(origin));
            let edge_port = |(port, framing): (usize, &Framing)| EdgePort {
                name: port.to_string(),
                start: start.clone().filter(|_| port == 0),
                target: Some(Target::new(NodePort { node: first, port: port as u32 }, *framing)),
                owns: false,
            };
            let mut edge_ports: Vec<EdgePort> = framings
                .get(i)
                .into_iter()
                .flatten()
                .take(kinds.inputs.len())
                .enumerate()
                .map(edge_port)
                .collect();
            if edge_ports.is_empty() {
                edge_ports.extend(start.map(|s| EdgePort {
                    name: "0".into(),
                    start: Some(s),
                    target: None,
                    owns: false,
                }));
            }
            let mut nodes = vec![first, last];
            nodes.dedup();
            // A device of that name is meant rather than an element.
            let name = format!("{prefix}{}", e.name);
            if !prefix.is_empty() || !taken.contains(&name) {
                self.locations.push(Location { name, edge_ports, nodes, owns: Vec::new() });
            }
        }
    }
}

/// The devices, links and files of a configuration.
pub(super) fn devices(ports: &click::Ports) -> Vec<Location> {
    let mut names: Vec<&str> = ports.entries.iter().chain(&ports.exits).map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let device = |name: &str| {
        let (mut edge_ports, mut nodes) = (Vec::new(), Vec::new());
        for p in ports.entries.iter().filter(|p| p.name == name) {
            let start = Start::new(p.into, p.framing, p.input());
            edge_ports.push(EdgePort { name: "0".into(), start: Some(start), target: None, owns: true });
            nodes.push(p.place.node);
        }
        for p in ports.exits.iter().filter(|p| p.name == name) {
            let target = Target::new(p.place, p.framing);
            nodes.push(p.place.node);
            match edge_ports.iter_mut().find(|g| g.target.is_none()) {
                Some(edge_port) => edge_port.target = Some(target),
                None => edge_ports.push(EdgePort {
                    name: "0".into(),
                    start: None,
                    target: Some(target),
                    owns: true,
                }),
            }
        }
        Location { name: name.to_owned(), edge_ports, nodes, owns: Vec::new() }
    };
    names.into_iter().map(device).collect()
}

pub(super) fn origin(o: &click::Origin) -> Start {
    let input = match &o.bytes {
        Some(bytes) => {
            let n = bytes.len() as u32;
            SymbolicInput { bytes: bytes.clone(), len: n..=n, ..o.port.input() }
        }
        None => o.port.input(),
    };
    Start::new(o.port.into, o.port.framing, input)
}

/// All addresses.
fn everything() -> Vec<IpPrefix> {
    [std::net::IpAddr::from([0; 4]), std::net::IpAddr::from([0; 16])]
        .into_iter()
        .filter_map(|addr| IpPrefix::new(addr, 0).ok())
        .collect()
}

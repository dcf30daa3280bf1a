//! Requests on platforms.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use weir_filter::Dir;
use weir_model::request::Request;
use weir_model::value::IpPrefix;
use weir_net::PortShare;
use weir_plan::{Classes, Plan};
use weir_verify::checks::{self, Framing, Start, Target};
use weir_verify::{Body, NodeId, NodePort};

use super::{EdgePort, Location, PLATFORM, World};
use crate::click;
use crate::security::{Placed, prefix as prefix_of};
use crate::world::configurations::{devices, origin};
use crate::world::within;

/// The modules of a request, to be placed on platforms.
#[derive(Debug)]
pub struct Modules<'a> {
    request: &'a Request,
    bodies: Vec<ModuleBody>,
    /// What stands between modules and the network, by their names: a configuration that is planned.
    enforcers: BTreeMap<String, Plan>,
    /// Ports of an address that others share, which its one module has, and what keeps it to them: a configuration with the ports of an enforcer.
    share: Option<(PortShare, Plan)>,
}

/// The program of a module.
#[derive(Debug)]
enum ModuleBody {
    /// A configuration.
    Click(Box<Plan>),
    /// Something of which it is not known what it does, and why.
    Unknown(String),
}

impl<'a> Modules<'a> {
    /// The modules of a request from `file`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(classes: &Classes, request: &'a Request, file: &str) -> Result<Modules<'a>, Vec<String>> {
        Modules::with_unknown(classes, request, file, &BTreeMap::new())
    }

    /// The same, where some modules may do anything, for a reason.
    ///
    /// # Errors
    /// What is wrong with the others.
    pub fn with_unknown(
        classes: &Classes,
        request: &'a Request,
        file: &str,
        unknown: &BTreeMap<String, String>,
    ) -> Result<Modules<'a>, Vec<String>> {
        let mut errors = Vec::new();
        let mut bodies = Vec::new();
        for m in &request.modules {
            match (unknown.get(&m.name), plan(classes, m, file)) {
                (Some(why), _) => bodies.push(ModuleBody::Unknown(why.clone())),
                (None, Ok(plan)) => bodies.push(ModuleBody::Click(Box::new(plan))),
                (None, Err(e)) => errors.extend(e),
            }
        }
        if errors.is_empty() {
            Ok(Modules { request, bodies, enforcers: BTreeMap::new(), share: None })
        } else {
            Err(errors)
        }
    }

    /// Gives its one module ports of an address that others share, behind the element that stands before its graph then.
    ///
    /// # Errors
    /// There is no such element.
    pub fn at_share(&mut self, classes: &Classes, share: PortShare) -> Result<(), Vec<String>> {
        let (mac, other) = (share.mac(), "02:00:00:00:00:01");
        let text = format!(
            "FromNetfront(in) -> EtherEncap(0x0800, {other}, {mac}) -> share :: SharedAddress({share}) -> Strip(14) -> MarkIPHeader -> ToNetfront(to); \
             FromNetfront(from) -> EtherEncap(0x0800, {mac}, {other}) -> [1] share [1] -> Strip(14) -> MarkIPHeader -> ToNetfront(out);"
        );
        let plan = Plan::new(classes, &text, "share").map_err(weir_plan::PlanError::texts)?;
        self.share = Some((share, plan));
        Ok(())
    }

    /// Puts elements with two inputs and outputs, as [`enforcer`](crate::enforcer()) gives them, between modules and the network: input and output 0 lead to the
    /// module, 1 away from it. Links between modules pass by them.
    ///
    /// # Errors
    /// One is no such element.
    pub fn behind(
        &mut self,
        classes: &Classes,
        elements: &BTreeMap<String, String>,
    ) -> Result<(), Vec<String>> {
        for (module, element) in elements {
            let text = format!(
                "FromNetfront(in) -> CheckIPHeader -> enforce :: {element} -> ToNetfront(to); \
                 FromNetfront(from) -> CheckIPHeader -> [1] enforce [1] -> ToNetfront(out);"
            );
            let plan = Plan::new(classes, &text, module).map_err(weir_plan::PlanError::texts)?;
            self.enforcers.insert(module.clone(), plan);
        }
        Ok(())
    }
}

/// The places of an enforcer.
struct Enforcer {
    /// Where what is for the module comes in, and leaves.
    inward: (NodePort, NodePort),
    /// Where what the module sends comes in, and leaves.
    outward: (NodePort, NodePort),
}

/// A module's configuration.
pub(crate) fn plan(
    classes: &Classes,
    m: &weir_model::request::Module,
    file: &str,
) -> Result<Plan, Vec<String>> {
    if let Some(stock) = &m.stock {
        let (name, image) = (&m.name, &stock.image);
        return Err(vec![format!(
            "the module '{name}' is the image '{image}': the controller that is asked knows its images (weir query)"
        )]);
    }
    let options = weir_click::Options { defines: m.params.clone(), ..weir_click::Options::default() };
    Plan::with_options(classes, &m.click, file, &options).map_err(weir_plan::PlanError::texts)
}

impl World {
    /// This network with modules on one of its platforms. Each module gets an address of the platform, in their order, but none that is
    /// taken: what is addressed to it comes in at its `FromNetfront` elements, and what it sends is sent by the platform. Requirements
    /// name modules as they name boxes.
    ///
    /// # Errors
    /// There is no such platform, or it has not enough addresses.
    pub fn with_modules(
        &self,
        modules: &Modules<'_>,
        platform: &str,
        taken: &BTreeSet<IpAddr>,
    ) -> Result<World, Vec<String>> {
        let is_platform = |edge_port: &EdgePort| {
            let node = edge_port.start.as_ref().map(|s| s.place.node);
            node.and_then(|n| self.labels.get(&n)).is_some_and(|l| l.class == PLATFORM)
        };
        let location =
            self.locations.iter().find(|s| s.name == platform && s.edge_ports.iter().any(is_platform));
        let Some(location) = location else {
            return Err(vec![format!("the topology has no platform {platform}")]);
        };
        let mut world = self.clone();
        world.add_modules(modules, location, taken)?;
        world.net.finish();
        Ok(world)
    }

    /// The modules of the request, with their addresses.
    pub fn module_addresses(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        self.modules.iter().map(|m| (m.name.as_str(), m.own.addr()))
    }

    /// Puts modules on a platform.
    fn add_modules(
        &mut self,
        m: &Modules<'_>,
        platform: &Location,
        taken: &BTreeSet<IpAddr>,
    ) -> Result<(), Vec<String>> {
        let wanted = m.request.modules.len();
        let addresses = match &m.share {
            Some((share, _)) => vec![share.address().into()],
            None => addresses(&platform.owns, wanted, taken),
        };
        if addresses.len() < wanted {
            let (has, name) = (addresses.len(), &platform.name);
            let free = if taken.is_empty() { "" } else { " free" };
            return Err(vec![format!("{name} has {has}{free} addresses for {wanted} modules")]);
        }
        let (edge_ports, sender) =
            (&platform.edge_ports, platform.edge_ports.iter().find_map(|g| g.start.as_ref()));
        let begin = self.locations.len();
        let mut entries: Vec<click::Port> = Vec::new();
        let mut intercepts = Vec::new();
        for ((module, body), address) in m.request.modules.iter().zip(&m.bodies).zip(addresses) {
            let host = IpPrefix::host(address);
            let linked = m.request.links.iter().any(|l| [&l.from.0, &l.to.0].contains(&&module.name));
            let mut placed = Placed {
                name: module.name.clone(),
                own: host,
                linked,
                module: checks::Module::default(),
                unknown: None,
                shared: m.share.is_some(),
            };
            let first = self.net.nodes().len() as NodeId;
            let prefix = format!("{}/", module.name);
            let share = m.share.as_ref().map(|(_, plan)| self.add_enforcer(plan, &prefix, 4)).transpose()?;
            if let (Some(share), Some(out)) = (&share, sender) {
                self.net.connect(NodePort { port: 0, ..share.outward.1 }, out.place);
            }
            let out = share.as_ref().map(|s| s.outward.0).or(sender.map(|s| s.place));
            let enforcer = m.enforcers.get(&module.name).map(|plan| self.add_enforcer(plan, &prefix, 2));
            let enforcer = enforcer.transpose()?;
            if let (Some(enforcer), Some(out)) = (&enforcer, out) {
                self.net.connect(NodePort { port: 0, ..enforcer.outward.1 }, out);
            }
            let plan = match body {
                ModuleBody::Click(plan) => plan,
                ModuleBody::Unknown(why) => {
                    let node = self.add_unknown(module, why);
                    let into = self.through(enforcer.as_ref(), NodePort { node, port: 0 });
                    let into = self.through(share.as_ref(), into);
                    for edge_port in edge_ports {
                        self.divert(edge_port, host, into);
                    }
                    placed.unknown = Some(node);
                    self.modules.push(placed);
                    let nodes = (first..self.net.nodes().len() as NodeId).collect();
                    let target = Some(Target::new(NodePort { node, port: 0 }, Framing::Ip));
                    let own = vec![EdgePort { name: "0".into(), start: None, target, owns: true }];
                    let name = module.name.clone();
                    self.locations.push(Location { name, edge_ports: own, nodes, owns: vec![host] });
                    continue;
                }
            };
            let scope = u32::MAX - 1 - 4 * self.locations.len() as u32;
            let ports = self.add_click(plan, scope, &prefix);
            let mut own = Vec::new();
            for device in devices(&ports) {
                let entry = ports.entries.iter().find(|p| p.name == device.name);
                let exit = device.edge_ports.iter().find_map(|g| g.target);
                let linked = |end: &dyn Fn(&weir_model::request::ModuleLink) -> &(String, String)| {
                    let is = |(name, port): &(String, String)| *name == module.name && *port == device.name;
                    m.request.links.iter().any(|l| is(end(l)))
                };
                let is_open = |p: &&click::Port| p.framing == Framing::Ip && !linked(&|l| &l.to);
                if let Some(entry) = entry.filter(is_open) {
                    let into = self.through(enforcer.as_ref(), entry.into);
                    let into = self.through(share.as_ref(), into);
                    for edge_port in edge_ports {
                        self.divert(edge_port, host, into);
                    }
                    placed.module.inputs.push(self.anybody_to(host, entry));
                    for prefix in &module.intercepts {
                        placed.module.inputs.push(self.anybody_to(*prefix, entry));
                        intercepts.push((*prefix, entry.into));
                    }
                }
                if let (Some(exit), Some(out)) = (exit.filter(|_| !linked(&|l| &l.from)), out) {
                    let to = enforcer.as_ref().map_or(out, |e| e.outward.0);
                    self.net.connect(NodePort { port: 0, ..exit.place }, to);
                    placed.module.outputs.push(exit);
                }
                let target = entry.map(|p| Target::new(p.place, p.framing));
                own.push(EdgePort { name: device.name, start: None, target, owns: true });
            }
            let nodes = (first..self.net.nodes().len() as NodeId).collect();
            placed.module.intercepts = module.intercepts.iter().copied().map(prefix_of).collect();
            placed.module.sources = ports.origins.iter().map(origin).collect();
            if let Some(input) = placed.module.inputs.first() {
                let outputs = placed.module.outputs.iter();
                placed.module.answers = outputs.map(|o| (o.place, input.clone())).collect();
            }
            self.modules.push(placed);
            let owns = vec![host];
            self.locations.push(Location { name: module.name.clone(), edge_ports: own, nodes, owns });
            self.add_elements(plan, &ports, &prefix);
            entries.extend(ports.entries);
        }
        // What is addressed to a module is no other's.
        for (prefix, into) in intercepts {
            for edge_port in edge_ports {
                self.divert(edge_port, prefix, into);
            }
        }
        for l in &m.request.links {
            let device = |(module, port): &(String, String)| {
                let location = self.locations.iter().skip(begin).find(|s| s.name == *module)?;
                let edge_port = location.edge_ports.iter().find(|g| g.name == *port);
                edge_port.or_else(|| location.edge_ports.get(port.parse::<usize>().ok()?)).cloned()
            };
            let exit = device(&l.from).and_then(|_| self.exit_of(&l.from));
            let to = device(&l.to).and_then(|g| g.target).map(|t| t.place);
            let into = to.and_then(|to| entries.iter().find(|p| p.place == to));
            if let (Some(from), Some(to)) = (exit, into) {
                self.net.connect(NodePort { port: 0, ..from }, to.into);
            }
        }
        Ok(())
    }

    /// Adds an enforcer.
    fn add_enforcer(&mut self, plan: &Plan, prefix: &str, scope: u32) -> Result<Enforcer, Vec<String>> {
        // The module's own tables are others.
        let scope = u32::MAX - scope - 4 * self.locations.len() as u32;
        let ports = self.add_click(plan, scope, prefix);
        let missing = |name: &str| vec![format!("the enforcer {prefix} has no {name}")];
        let entry = |name: &str| {
            let found = ports.entries.iter().find(|p| p.name == name);
            found.map(|p| p.into).ok_or_else(|| missing(name))
        };
        let exit = |name: &str| {
            let found = ports.exits.iter().find(|p| p.name == name);
            found.map(|p| p.place).ok_or_else(|| missing(name))
        };
        let (inward, outward) = ((entry("in")?, exit("to")?), (entry("from")?, exit("out")?));
        Ok(Enforcer { inward, outward })
    }

    /// Where packets for a place come in, if it is behind an enforcer.
    fn through(&mut self, enforcer: Option<&Enforcer>, to: NodePort) -> NodePort {
        let Some(enforcer) = enforcer else { return to };
        self.net.connect(NodePort { port: 0, ..enforcer.inward.1 }, to);
        enforcer.inward.0
    }

    /// Adds a module that may do anything.
    fn add_unknown(&mut self, module: &weir_model::request::Module, why: &str) -> NodeId {
        let node = self.net.add(module.name.clone(), Body::Opaque);
        let class = module.stock.as_ref().map(|s| s.image.clone()).unwrap_or_default();
        self.labels.insert(node, crate::click::Label { class, ..Default::default() });
        self.causes.insert(node, why.to_owned());
        node
    }

    /// Any IP packet that is addressed to a module, in front of where it comes in.
    fn anybody_to(&mut self, host: IpPrefix, entry: &click::Port) -> Start {
        let ask = self.destination(host, Framing::Ip);
        self.net.connect(NodePort { node: ask, port: 0 }, entry.into);
        let place = self.well_formed(NodePort { node: ask, port: 0 });
        Start::new(place, Framing::Ip, entry.input())
    }

    /// The place where packets leave a module by a port.
    fn exit_of(&self, (module, port): &(String, String)) -> Option<NodePort> {
        let location = self.locations.iter().find(|s| s.name == *module)?;
        let is_exit = |n: &&NodeId| {
            let label = self.labels.get(n);
            label.is_some_and(|l| {
                let name = crate::click::argument(&l.args, 0, "DEVNAME");
                l.class == "ToNetfront" && (name == *port || name.is_empty() && port == "netfront0")
            })
        };
        location.nodes.iter().find(is_exit).map(|&node| NodePort { node, port: 0 })
    }

    /// Adds a program whose output 0 is for packets to an address of the prefix, and output 1 for others.
    fn destination(&mut self, prefix: IpPrefix, framing: Framing) -> NodeId {
        let program = crate::filter::guard(&within(prefix, Dir::Dst), framing);
        self.hidden_program("destination", &Arc::new(program))
    }

    /// Leads what ends at an edge port to a place, if it is for an address of the prefix.
    fn divert(&mut self, edge_port: &EdgePort, prefix: IpPrefix, to: NodePort) {
        let Some(Target { place, framing, .. }) = edge_port.target else { return };
        let from = self.rests.get(&place).copied().unwrap_or(NodePort { port: 0, ..place });
        let ask = self.destination(prefix, framing);
        let rest = self.hidden(Body::Pass { lossy: false });
        self.net.connect(from, NodePort { node: ask, port: 0 });
        self.net.connect(NodePort { node: ask, port: 0 }, to);
        self.net.connect(NodePort { node: ask, port: 1 }, NodePort { node: rest, port: 0 });
        self.rests.insert(place, NodePort { node: rest, port: 0 });
    }
}

/// The first addresses of a platform that are not taken, without those of networks.
fn addresses(owns: &[IpPrefix], n: usize, taken: &BTreeSet<IpAddr>) -> Vec<IpAddr> {
    let of_prefix = |p: &IpPrefix| {
        let bits = if p.addr().is_ipv4() { 32 } else { 128 };
        let (skip, size) = match bits - u32::from(p.len()) {
            0 => (0, 1_u128),
            free => (1, 1_u128.checked_shl(free).unwrap_or(u128::MAX)),
        };
        let addr = p.addr();
        (skip..size).take(n + taken.len()).map(move |i| match addr {
            IpAddr::V4(a) => IpAddr::V4((u32::from(a) + i as u32).into()),
            IpAddr::V6(a) => IpAddr::V6((u128::from(a) + i).into()),
        })
    };
    owns.iter().flat_map(of_prefix).filter(|a| !taken.contains(a)).take(n).collect()
}

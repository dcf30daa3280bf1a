//! From a service graph to a plan: what its switch, the graph-LSI, has to do, and which functions stand around it (COMPOSER
//! paper, sections 5.2 and 5.4.1).
//!
//! The plan is data. The built-in switch runs it as a [configuration](crate::config) in the Click language, with the inline
//! functions inside; functions of other kinds are met at interfaces. A graph joins LSI-0 by links, two for each service
//! access point. Differently from the paper's table 4, no rule of a graph stands in LSI-0, not even one from access point to
//! access point: a tenant's edit then changes the tenant's program only, and LSI-0 is too simple to mix tenants up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weir_model::graph::{Actions, Function, FunctionState, PortRef, Sap, SapKind, ServiceGraph};
use weir_model::template::{Access, Implementation, Template, VmPorts};

use crate::hash::hash;
use crate::lsi0::{Attachment, Base, HostInterface, Part, Tunnel, WireGuard, host_interface};
use crate::rule::{Action, FlowRule};

/// The result of compiling a service graph: ports, flow rules and functions, as data.
#[derive(Debug, Clone)]
pub struct GraphPlan {
    /// Its access points.
    pub attachments: Vec<Attachment>,
    /// Its functions.
    pub functions: Vec<FunctionPlan>,
    /// The ports of its switch; rules call them by their number.
    pub ports: Vec<Port>,
    /// The rules of its switch.
    pub rules: Vec<FlowRule>,
    /// Whether functions may send to each other past the switch.
    pub direct_links: bool,
}

/// A function of a plan.
#[derive(Debug, Clone)]
pub struct FunctionPlan {
    /// Its identifier in the graph.
    pub id: String,
    /// Its name among the graph's elements, unlike all others.
    pub element: String,
    /// Its image.
    pub template: Template,
    /// The values of the image's parameters.
    pub arguments: BTreeMap<String, String>,
    /// The devices at which the switch meets it (interfaces, or shared memory), in the order of the image's ports, as far as the graph uses them; none of an
    /// inline function.
    pub interfaces: Vec<String>,
    /// Public handlers: name, handler in the configuration (of an inline function), access.
    pub handlers: BTreeMap<String, (String, Access)>,
    /// Handler writes to make before it sees traffic: handler in the configuration, value.
    pub writes: Vec<(String, String)>,
    /// Its state, if its document says one, and how many packets wait at each of its ports.
    pub state: Option<(FunctionState, u32)>,
}

/// Packets that wait at a port of a function that is stopped, if its document does not say how many (Scylla paper, section III.B).
const FIFO: u32 = 1000;

impl FunctionPlan {
    /// Whether the data plane runs it itself.
    pub fn is_inline(&self) -> bool {
        self.template.is_inline()
    }

    /// The name of its image.
    pub fn image(&self) -> &str {
        self.template.name.as_str()
    }
}

impl GraphPlan {
    /// The names of its parts.
    pub fn names(&self) -> Names {
        let names = |f: &FunctionPlan| FunctionNames {
            element: f.element.clone(),
            interfaces: f.interfaces.clone(),
            writes: if f.is_inline() { f.writes.clone() } else { Vec::new() },
        };
        Names { attachments: self.attachments.clone(), functions: self.functions.iter().map(names).collect() }
    }
}

/// The names of a graph's parts in its configuration.
#[derive(Debug, Clone)]
pub struct Names {
    /// The access points, in the graph's order.
    pub attachments: Vec<Attachment>,
    /// The functions, in the graph's order.
    pub functions: Vec<FunctionNames>,
}

/// The names of a function's parts in the configuration of its graph.
#[derive(Debug, Clone)]
pub struct FunctionNames {
    /// Its compound element, if it is inline.
    pub element: String,
    /// The interfaces at which it is met, if it is not.
    pub interfaces: Vec<String>,
    /// Handler writes to make before the graph sees traffic: handler in the configuration, value.
    pub writes: Vec<(String, String)>,
}

/// A port of the graph-LSI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// What flow rules call it.
    pub place: PortRef,
    /// What is there.
    pub end: PortEnd,
}

/// The peer of a port of the graph-LSI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortEnd {
    /// The access point of this number.
    AccessPoint(usize),
    /// A port of a function.
    Function {
        /// Its number.
        function: usize,
        /// Counts the image's ports.
        port: usize,
    },
}

/// Something in a graph that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct CompileError {
    /// Where in the document.
    pub at: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// Plans a graph; `image` finds the template of a function, or says why there is none.
///
/// # Errors
/// All that is wrong with it.
pub fn plan<'t>(
    graph: &ServiceGraph,
    image: impl Fn(&Function) -> Result<&'t Template, String>,
) -> Result<GraphPlan, Vec<CompileError>> {
    let mut c = Compiler { graph, errors: Vec::new(), names: BTreeSet::new(), ports: Vec::new() };
    let attachments = c.saps();
    let functions = c.functions(image);
    let rules = c.rules();
    if c.errors.is_empty() {
        let direct_links = graph.direct_links;
        Ok(GraphPlan { attachments, functions, ports: c.ports, rules, direct_links })
    } else {
        Err(c.errors)
    }
}

/// The device at which the switch of a graph meets a port of a function that is not inline: always the same one, which is
/// what lets a daemon that comes back find it.
fn device(graph: &str, function: &str, template: &Template, port: &str) -> String {
    match &template.implementation {
        // Who listens makes no memory, which is for the other side to do that is trusted less.
        Implementation::Process { .. } => format!("{}?role=master", memif(graph, function, port)),
        Implementation::Dpdk { .. } => memif(graph, function, port),
        Implementation::Vm { vm } if vm.ports == VmPorts::VhostUser => {
            // All of the guest's memory is shared; beyond a gigabyte that has to be allowed.
            let megabytes = vm.memory >> 20;
            let more = if megabytes > 1024 { format!("?memory={megabytes}") } else { String::new() };
            format!("vhost-user:{}/{port}{more}", sockets_folder(graph, function))
        }
        Implementation::Click(_)
        | Implementation::Native { .. }
        | Implementation::Vm { .. }
        | Implementation::Container { .. }
        | Implementation::Graph { .. } => interface(graph, function, port),
    }
}

/// Shared memory by a name in the data plane's folder of ports.
fn memif(graph: &str, function: &str, port: &str) -> String {
    format!("memif:{}/{port}", sockets_folder(graph, function))
}

/// The name of a function's folder in the data plane's folder of ports.
pub fn sockets_folder(graph: &str, function: &str) -> String {
    // Who is in it sees what is: names of others must not lead there.
    hash(&[graph, function]).chars().take(24).collect()
}

fn interface(graph: &str, function: &str, port: &str) -> String {
    format!("wf{}", short_hash(&[graph, function, port]))
}

fn short_hash(parts: &[&str]) -> String {
    hash(parts).chars().take(12).collect()
}

/// The MTU of a host's interface, if the graph gives none.
const HOST_MTU: u32 = 1500;

struct Compiler<'a> {
    graph: &'a ServiceGraph,
    errors: Vec<CompileError>,
    names: BTreeSet<String>,
    ports: Vec<Port>,
}

impl Compiler<'_> {
    fn err(&mut self, at: String, what: impl Into<String>) {
        self.errors.push(CompileError { at, what: what.into() });
    }

    /// An element name made of an identifier, unlike all before.
    fn name(&mut self, prefix: &str, id: &str) -> String {
        let clean: String = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let mut name = format!("{prefix}_{clean}");
        while !self.names.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    fn saps(&mut self) -> Vec<Attachment> {
        let mut attachments = Vec::new();
        for (i, sap) in self.graph.saps.iter().enumerate() {
            let at = format!("sffg.saps[{i}]");
            let (base, part) = match self.place(sap) {
                Ok(place) => place,
                Err(what) => {
                    self.err(format!("{at}.{}", sap.kind.type_name()), what);
                    continue;
                }
            };
            let interface = match &base {
                Base::Interface(name) => name,
                Base::Host(host) => &host.name,
                Base::Vxlan { .. } | Base::WireGuard(_) | Base::Gre { .. } => "",
            };
            for name in [self.graph.id.as_str(), sap.id.as_str(), interface] {
                if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_.@+-".contains(c)) {
                    self.err(
                        at.clone(),
                        format!("'{name}' has characters other than letters, digits and _ . @ + -"),
                    );
                }
            }
            let end = PortEnd::AccessPoint(attachments.len());
            self.ports.push(Port { place: PortRef::Sap(sap.id.clone()), end });
            attachments.push(Attachment {
                element: self.name("sap", sap.id.as_str()),
                base,
                part,
                to_graph: format!("{}/in", sap.id),
                from_graph: format!("{}/out", sap.id),
                sap: sap.id.to_string(),
                graph: self.graph.id.to_string(),
            });
        }
        attachments
    }

    /// What an access point stands for.
    fn place(&self, sap: &Sap) -> Result<(Base, Part), &'static str> {
        const IPV6: &str = "tunnels of this node are between IPv4 addresses: give such";
        let ends = |local: IpAddr, remote: IpAddr| match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => Ok((local, remote)),
            _ => Err(IPV6),
        };
        Ok(match &sap.kind {
            SapKind::Interface { interface } => {
                let part = interface.share.map_or(Part::Rest, |share| Part::Ports(share.0));
                (Base::Interface(interface.if_name.as_str().to_owned()), part)
            }
            SapKind::Vlan { vlan } => {
                let name = vlan.if_name.as_ref();
                let name = name.ok_or("give if-name: this node does not choose an interface itself")?;
                (Base::Interface(name.as_str().to_owned()), Part::Vlan(vlan.vlan_id.get()))
            }
            SapKind::Gre { gre } => {
                let (local, remote) = ends(gre.local_ip, gre.remote_ip)?;
                (Base::Gre { local }, Part::Tunnel(Tunnel { remote, id: gre.gre_key }))
            }
            SapKind::Vxlan { vxlan } => {
                let (local, remote) = ends(vxlan.local_ip, vxlan.remote_ip)?;
                let tunnel = Tunnel { remote, id: Some(vxlan.vni) };
                let base = match &vxlan.wireguard {
                    None => Base::Vxlan { local, port: vxlan.udp_port },
                    Some(w) => {
                        Base::WireGuard(WireGuard { local, port: w.udp_port, remote, peer: w.public_key.0 })
                    }
                };
                (base, Part::Tunnel(tunnel))
            }
            SapKind::HostStack { host_stack } => {
                let name = match &host_stack.if_name {
                    Some(name) => name.as_str().to_owned(),
                    None => host_interface(self.graph.id.as_str(), sap.id.as_str()),
                };
                let (mut ip, mut ip6) = (None, None);
                for address in &host_stack.ip {
                    match address.addr() {
                        IpAddr::V4(a) => ip = Some((a, address.len())),
                        IpAddr::V6(a) => ip6 = Some((a, address.len())),
                    }
                }
                let mtu = host_stack.mtu.unwrap_or(HOST_MTU);
                (Base::Host(HostInterface { name, ip, ip6, mtu }), Part::Rest)
            }
        })
    }

    fn functions<'t>(
        &mut self,
        image: impl Fn(&Function) -> Result<&'t Template, String>,
    ) -> Vec<FunctionPlan> {
        let mut plans = Vec::new();
        for (i, f) in self.graph.functions.iter().enumerate() {
            let at = format!("sffg.SFs[{i}]");
            let template = match image(f) {
                Ok(template) => template,
                Err(why) => {
                    self.err(at, why);
                    continue;
                }
            };
            let plan = self.function(f, template, &at, plans.len());
            plans.extend(plan);
        }
        plans
    }

    fn function(
        &mut self,
        f: &Function,
        template_of_image: &Template,
        at: &str,
        number: usize,
    ) -> Option<FunctionPlan> {
        let template = template_of_image;
        if template.graph().is_some() {
            let image = &template.name;
            self.err(
                at.to_owned(),
                format!("the image '{image}' is made of functions, which have to take its place"),
            );
            return None;
        }
        if f.ports.len() > template.ports.len() {
            let (n, m, wanted) = (f.ports.len(), template.ports.len(), &template.name);
            self.err(format!("{at}.ports"), format!("{n} ports are given, but the image '{wanted}' has {m}"));
            return None;
        }
        let template = match f.kind.map(|kind| template.run_as(kind)).transpose() {
            Ok(template) => template.unwrap_or_else(|| template_of_image.clone()),
            Err(what) => {
                self.err(format!("{at}.kind"), what);
                return None;
            }
        };
        let arguments = match template.arguments(&f.params) {
            Ok(a) => a,
            Err(errors) => {
                errors.into_iter().for_each(|e| self.err(format!("{at}.params"), e.to_string()));
                return None;
            }
        };
        if f.state == Some(FunctionState::Bypass) && !(1..=2).contains(&f.ports.len()) {
            let what = format!(
                "a function of {} ports has no bypass: of one port packets go back, of two from each to the other",
                f.ports.len()
            );
            self.err(format!("{at}.state"), what);
            return None;
        }
        let element = self.name("sf", f.id.as_str());
        let inline = template.is_inline();
        let handler = |name: &str, inner: &str| match inline {
            true => format!("{element}/{inner}"),
            false => name.to_owned(),
        };
        let public = template.handlers.iter();
        let handlers: BTreeMap<String, (String, Access)> =
            public.map(|(name, h)| (name.clone(), (handler(name, &h.handler), h.access))).collect();
        let writes = self.writes(f, at, &handlers);
        let mut interfaces = Vec::new();
        for (port, (p, of_image)) in f.ports.iter().zip(&template.ports).enumerate() {
            let place = PortRef::Function { function: f.id.clone(), port: p.id.clone() };
            self.ports.push(Port { place, end: PortEnd::Function { function: number, port } });
            if !inline {
                interfaces.push(device(
                    self.graph.id.as_str(),
                    f.id.as_str(),
                    &template,
                    of_image.name.as_str(),
                ));
            }
        }
        Some(FunctionPlan {
            id: f.id.to_string(),
            element,
            template,
            arguments,
            interfaces,
            handlers,
            writes,
            state: f.state.map(|state| (state, f.fifo.unwrap_or(FIFO))),
        })
    }

    /// The handler writes that a function asks for.
    fn writes(
        &mut self,
        f: &Function,
        at: &str,
        public: &BTreeMap<String, (String, Access)>,
    ) -> Vec<(String, String)> {
        let mut writes = Vec::new();
        for (j, w) in f.handlers.iter().enumerate() {
            match public.get(w.name.as_str()) {
                Some((handler, access)) if access.writable() => {
                    writes.push((handler.clone(), w.value.clone()));
                }
                Some(_) => {
                    self.err(format!("{at}.handlers[{j}]"), format!("'{}' can only be read", w.name));
                }
                None => {
                    let known = public.keys().cloned().collect::<Vec<_>>().join(", ");
                    self.err(
                        format!("{at}.handlers[{j}]"),
                        format!("no public handler '{}'; there are: {known}", w.name),
                    );
                }
            }
        }
        writes
    }

    fn rules(&self) -> Vec<FlowRule> {
        let rule = |rule: &weir_model::graph::Rule| {
            // A place that is missing here belongs to an access point or function that was refused above.
            let input = self.port(&rule.matches.port_in)?;
            let actions = self.actions(&rule.actions);
            Some(FlowRule { priority: rule.priority, input, filter: rule.matches.expr(), actions })
        };
        self.graph.flowrules.iter().filter_map(rule).collect()
    }

    fn port(&self, place: &PortRef) -> Option<u32> {
        self.ports.iter().position(|p| p.place == *place).map(|i| i as u32)
    }

    fn actions(&self, a: &Actions) -> Vec<Action> {
        if a.drop {
            return Vec::new();
        }
        let edits = [
            a.pop_vlan.then_some(Action::PopVlan),
            a.push_vlan.map(|v| Action::PushVlan(v.get())),
            a.dec_ttl.then_some(Action::DecTtl),
            a.set_vlan.map(|v| Action::SetVlan(v.get())),
            a.set_ether_src.map(Action::SetEtherSrc),
            a.set_ether_dst.map(Action::SetEtherDst),
            a.set_ip_src.map(Action::SetIpSrc),
            a.set_ip_dst.map(Action::SetIpDst),
            a.set_ip_tos.map(Action::SetTos),
            a.set_tp_src.map(Action::SetTpSrc),
            a.set_tp_dst.map(Action::SetTpDst),
        ];
        let outputs = a.output_to_port.iter().filter_map(|p| self.port(p)).map(Action::Output);
        edits.into_iter().flatten().chain(outputs).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIREWALL: &str = "
name: firewall
ports: [inside, outside]
params:
  - {name: RULES, type: text, default: 'allow all', doc: rules}
handlers:
  dropped: {handler: filter.hits, access: r, doc: hits}
click: |
  in_0 -> filter :: IPFilter($RULES) -> out_1;
  in_1 -> out_0;
";

    fn graph(text: &str) -> ServiceGraph {
        ServiceGraph::parse(text).unwrap_or_else(|e| panic!("{e}"))
    }

    fn planned(text: &str) -> Result<GraphPlan, Vec<CompileError>> {
        let template = Template::parse(FIREWALL).unwrap();
        plan(&graph(text), |f| match f.name.as_str() {
            "firewall" => Ok(&template),
            other => Err(format!("there is no image '{other}'")),
        })
    }

    const GRAPH: &str = "
id: '0x1'
name: one
SFs:
  - {id: fw, name: firewall, ports: [{id: a}, {id: b}], params: {RULES: 'allow tcp, deny all'}}
saps:
  - {id: lan, type: interface, interface: {if-name: eth1}}
  - {id: wan, type: vlan, vlan: {vlan-id: 25, if-name: eth2}}
flowrules:
  - {id: r1, priority: 1, match: {port_in: 'sap:lan'}, actions: {output_to_port: 'sf:fw:a'}}
  - {id: r2, priority: 5, match: {port_in: 'sf:fw:b', tp_dst: 80}, actions: {dec_ttl: true, output_to_port: 'sap:wan'}}
";

    #[test]
    fn a_graph_becomes_a_flow_table_with_its_functions_around_it() {
        let c = crate::config::Compiled::new(planned(GRAPH).unwrap());
        for line in [
            "sap_lan_in :: FromLink(lan/in) -> sap_lan :: Counter;",
            "in_0 -> filter :: IPFilter(allow tcp, deny all) -> out_1;",
            "1 in 0 => output 2",
            "=> dec_ttl; output 1",
            "sf_fw [1] -> [3] lsi;",
            "lsi [3] -> [1] sf_fw;",
        ] {
            assert!(c.config.text.contains(line), "{line} is missing in\n{}", c.config.text);
        }
        assert_eq!(c.plan.attachments[1].part, Part::Vlan(25));
        assert_eq!(c.plan.functions[0].handlers["dropped"].0, "sf_fw/filter.hits");
    }

    #[test]
    fn what_cannot_be_compiled_is_named_with_its_place() {
        let errors = planned(&GRAPH.replace("name: firewall,", "name: fierwall,")).unwrap_err();
        assert!(errors[0].to_string().contains("sffg.SFs[0]: there is no image 'fierwall'"), "{errors:?}");
        let errors = planned(&GRAPH.replace("RULES:", "RULE:")).unwrap_err();
        assert!(errors[0].at == "sffg.SFs[0].params", "{errors:?}");
        let lan = "{id: lan, type: interface, interface: {if-name: eth1}}";
        let gre = "{id: lan, type: gre, gre: {local-ip: fd00::1, remote-ip: fd00::2}}";
        let error = planned(&GRAPH.replace(lan, gre)).unwrap_err().remove(0).to_string();
        assert!(error.contains("sffg.saps[0].gre: tunnels of this node are between IPv4"), "{error}");
    }

    #[test]
    fn access_points_are_parts_of_what_several_graphs_share() {
        let lan = "{id: lan, type: interface, interface: {if-name: eth1}}";
        let place = |sap: &str| {
            let a = planned(&GRAPH.replace(lan, sap)).unwrap().attachments.remove(0);
            format!("{} {}", a.base, a.part)
        };
        let gre = "{id: lan, type: gre, gre: {local-ip: 10.0.0.1, remote-ip: 10.0.0.2, gre-key: '0x1'}}";
        assert_eq!(place(gre), "gre:10.0.0.1 10.0.0.2/1");
        let vxlan = "{id: lan, type: vxlan, vxlan: {vni: 42, local-ip: 10.0.0.1, remote-ip: 10.0.0.2}}";
        assert_eq!(place(vxlan), "vxlan:10.0.0.1:4789 10.0.0.2/42");
        let host = "{id: lan, type: host-stack, host-stack: {ip: 10.9.9.1/24, if-name: stack}}";
        assert_eq!(place(host), "host:stack -");
        let own = place("{id: lan, type: host-stack}");
        assert!(crate::lsi0::is_own_interface(&own[5..own.len() - 2]), "{own}");
    }
}

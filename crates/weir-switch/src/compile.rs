//! From a service graph to a Click configuration: the graph-LSI with the functions around it (COMPOSER paper,
//! sections 5.2 and 5.4.1).
//!
//! The configuration joins LSI-0 by links, two for each service access point. Differently from the paper's table 4, no
//! rule of a graph stands in LSI-0, not even one from access point to access point: a tenant's edit then changes the
//! tenant's program only, and LSI-0 is too simple to mix tenants up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;

use weir_model::graph::{Actions, Function, PortRef, SapKind, ServiceGraph};
use weir_model::template::{Access, Template};
use weir_net::EtherAddr;

use crate::function;
use crate::lsi0::Attachment;
use crate::rule::{Action, FlowRule};

/// What a service graph becomes.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// Configuration of the graph, in the Click language. Links are the graph's own: `FromLink(SAP/in)`.
    pub config: String,
    /// Its access points.
    pub attachments: Vec<Attachment>,
    /// Its functions.
    pub functions: Vec<FunctionPlan>,
}

/// A function in the configuration.
#[derive(Debug, Clone)]
pub struct FunctionPlan {
    /// Its identifier in the graph.
    pub id: String,
    /// Name of its image.
    pub image: String,
    /// Name of its compound element.
    pub element: String,
    /// Where that is declared in the configuration.
    pub text: Range<usize>,
    /// Number of ports.
    pub ports: usize,
    /// Public handlers: name, handler in the configuration, access.
    pub handlers: BTreeMap<String, (String, Access)>,
    /// Handler writes to make before it sees traffic: handler in the configuration, value.
    pub writes: Vec<(String, String)>,
}

impl Compiled {
    /// The function whose text in the configuration holds this byte.
    pub fn function_at(&self, offset: usize) -> Option<&FunctionPlan> {
        self.functions.iter().find(|f| f.text.contains(&offset))
    }
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

/// Compiles a graph; `image` finds the template of a function, or says why there is none.
pub fn compile<'t>(
    graph: &ServiceGraph,
    image: impl Fn(&Function) -> Result<&'t Template, String>,
) -> Result<Compiled, Vec<CompileError>> {
    let mut c = Compiler { graph, errors: Vec::new(), names: BTreeSet::new(), ports: Vec::new() };
    let (attachments, sap_text) = c.saps();
    let (functions, function_text) = c.functions(image, &sap_text);
    let rules = c.rules();
    if !c.errors.is_empty() {
        return Err(c.errors);
    }
    // Nothing of what tells one tenant's graph from another's: equal ones are read and compiled once.
    let mut config = format!("{sap_text}{function_text}");
    if c.ports.is_empty() {
        config.push_str("Idle -> Discard;\n");
    } else {
        _ = write!(config, "lsi :: FlowTable(\n{rules});\n");
    }
    for (i, p) in c.ports.iter().enumerate() {
        _ = writeln!(config, "{} -> [{i}] lsi;\nlsi [{i}] -> {};", p.from, p.to);
    }
    Ok(Compiled { config, attachments, functions })
}

struct Compiler<'a> {
    graph: &'a ServiceGraph,
    errors: Vec<CompileError>,
    names: BTreeSet<String>,
    ports: Vec<LsiPort>,
}

/// A port of the graph-LSI.
struct LsiPort {
    place: PortRef,
    /// What packets come from, as the left side of a connection.
    from: String,
    /// Where packets go, as the right side of a connection.
    to: String,
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

    fn saps(&mut self) -> (Vec<Attachment>, String) {
        let (mut attachments, mut text) = (Vec::new(), String::new());
        for (i, sap) in self.graph.saps.iter().enumerate() {
            let at = format!("sffg.saps[{i}]");
            let (interface, vlan) = match &sap.kind {
                SapKind::Interface { interface } => (interface.if_name.as_str().to_owned(), None),
                SapKind::Vlan { vlan } => match &vlan.if_name {
                    Some(name) => (name.as_str().to_owned(), Some(vlan.vlan_id.get())),
                    None => {
                        self.err(
                            format!("{at}.vlan"),
                            "give if-name: this node does not choose an interface itself",
                        );
                        continue;
                    }
                },
                other => {
                    let kind = other.type_name();
                    self.err(
                        at,
                        format!("{kind} access points are not supported by this node: use interface or vlan"),
                    );
                    continue;
                }
            };
            for name in [self.graph.id.as_str(), sap.id.as_str(), &interface] {
                if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_.@+-".contains(c)) {
                    self.err(
                        at.clone(),
                        format!("'{name}' has characters other than letters, digits and _ . @ + -"),
                    );
                }
            }
            let name = self.name("sap", sap.id.as_str());
            let attachment = Attachment {
                interface,
                vlan,
                to_graph: format!("{}/in", sap.id),
                from_graph: format!("{}/out", sap.id),
                sap: sap.id.to_string(),
                graph: self.graph.id.to_string(),
            };
            _ = writeln!(
                text,
                "{name}_in :: FromLink({}) -> {name} :: Counter;\n{name}_out :: Counter -> ToLink({});",
                attachment.to_graph, attachment.from_graph
            );
            self.ports.push(LsiPort {
                place: PortRef::Sap(sap.id.clone()),
                from: name.clone(),
                to: format!("{name}_out"),
            });
            attachments.push(attachment);
        }
        (attachments, text)
    }

    fn functions<'t>(
        &mut self,
        image: impl Fn(&Function) -> Result<&'t Template, String>,
        before: &str,
    ) -> (Vec<FunctionPlan>, String) {
        let (mut plans, mut text) = (Vec::new(), String::new());
        let mut line = before.lines().count() + 1;
        for (i, f) in self.graph.functions.iter().enumerate() {
            let at = format!("sffg.SFs[{i}]");
            let wanted = f.template.as_ref().unwrap_or(&f.name);
            let template = match image(f) {
                Ok(template) => template,
                Err(why) => {
                    self.err(at, why);
                    continue;
                }
            };
            if f.ports.len() > template.ports.len() {
                let (n, m) = (f.ports.len(), template.ports.len());
                self.err(
                    format!("{at}.ports"),
                    format!("{n} ports are given, but the image '{wanted}' has {m}"),
                );
                continue;
            }
            let arguments = match template.arguments(&f.params) {
                Ok(a) => a,
                Err(errors) => {
                    for e in errors {
                        self.err(format!("{at}.params"), e.to_string());
                    }
                    continue;
                }
            };
            let element = self.name("sf", f.id.as_str());
            let public: BTreeMap<String, (String, Access)> = template
                .handlers
                .iter()
                .map(|(name, h)| (name.clone(), (format!("{element}/{}", h.handler), h.access)))
                .collect();
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
            let own = function::text(&element, template, &arguments, line);
            let start = before.len() + text.len();
            let range = start..start + own.len();
            text.push_str(&own);
            for (port, p) in f.ports.iter().enumerate() {
                let place = PortRef::Function { function: f.id.clone(), port: p.id.clone() };
                self.ports.push(LsiPort {
                    place,
                    from: format!("{element} [{port}]"),
                    to: format!("[{port}] {element}"),
                });
            }
            // Ports of the image that the graph does not use.
            for port in f.ports.len()..template.ports.len() {
                _ = writeln!(text, "Idle -> [{port}] {element};\n{element} [{port}] -> Discard;");
            }
            line = before.lines().count() + text.lines().count() + 1;
            plans.push(FunctionPlan {
                id: f.id.to_string(),
                image: wanted.to_string(),
                element,
                text: range,
                ports: template.ports.len(),
                handlers: public,
                writes,
            });
        }
        (plans, text)
    }

    /// The rules, as arguments of the flow table.
    fn rules(&mut self) -> String {
        let mut lines = Vec::new();
        for (i, rule) in self.graph.flowrules.iter().enumerate() {
            // A place that is missing here belongs to an access point or function that was refused above.
            let Some(input) = self.port(&rule.matches.port_in) else { continue };
            let actions = self.actions(&rule.actions, i);
            lines.push(format!(
                "    {}",
                FlowRule { priority: rule.priority, input, filter: rule.matches.expr(), actions }
            ));
        }
        lines.join(",\n")
    }

    fn port(&self, place: &PortRef) -> Option<u32> {
        self.ports.iter().position(|p| p.place == *place).map(|i| i as u32)
    }

    fn actions(&mut self, a: &Actions, _rule: usize) -> Vec<Action> {
        if a.drop {
            return Vec::new();
        }
        let mac = |m: weir_model::value::MacAddr| EtherAddr(m.0);
        let edits = [
            a.pop_vlan.then_some(Action::PopVlan),
            a.push_vlan.map(|v| Action::PushVlan(v.get())),
            a.dec_ttl.then_some(Action::DecTtl),
            a.set_vlan.map(|v| Action::SetVlan(v.get())),
            a.set_ether_src.map(|m| Action::SetEtherSrc(mac(m))),
            a.set_ether_dst.map(|m| Action::SetEtherDst(mac(m))),
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

    fn compiled(text: &str) -> Result<Compiled, Vec<CompileError>> {
        let template = Template::parse(FIREWALL).unwrap();
        compile(&graph(text), |f| match f.name.as_str() {
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
        let c = compiled(GRAPH).unwrap();
        for line in [
            "sap_lan_in :: FromLink(lan/in) -> sap_lan :: Counter;",
            "in_0 -> filter :: IPFilter(allow tcp, deny all) -> out_1;",
            "1 in 0 => output 2",
            "=> dec_ttl; output 1",
            "sf_fw [1] -> [3] lsi;",
            "lsi [3] -> [1] sf_fw;",
        ] {
            assert!(c.config.contains(line), "{line} is missing in\n{}", c.config);
        }
        assert_eq!(c.attachments[1].vlan, Some(25));
        assert_eq!(c.functions[0].handlers["dropped"].0, "sf_fw/filter.hits");
    }

    #[test]
    fn what_cannot_be_compiled_is_named_with_its_place() {
        let errors = compiled(&GRAPH.replace("name: firewall,", "name: fierwall,")).unwrap_err();
        assert!(errors[0].to_string().contains("sffg.SFs[0]: there is no image 'fierwall'"), "{errors:?}");
        let errors = compiled(&GRAPH.replace("RULES:", "RULE:")).unwrap_err();
        assert!(errors[0].at == "sffg.SFs[0].params", "{errors:?}");
        let gre = GRAPH.replace(
            "{id: lan, type: interface, interface: {if-name: eth1}}",
            "{id: lan, type: gre, gre: {local-ip: 1.1.1.1, remote-ip: 2.2.2.2}}",
        );
        assert!(compiled(&gre).unwrap_err()[0].what.contains("gre access points are not supported"));
    }
}

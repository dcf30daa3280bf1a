//! What the text of a graph may become in the data plane.
//!
//! Image scripts and tenants' parameter values end up in one configuration text, so nothing that they are made of can
//! be trusted to stay where it was put. The check is made on the finished configuration: it is parsed as the data
//! plane will parse it, and every element in it must be a packet program, a queue, or one of the links that belong to
//! the graph's own access points.

use std::collections::{BTreeMap, BTreeSet};

use weir_click::{ClassInfo, ElementSet, Graph, PortCounts};
use weir_elements::{Class, class_named, classes};
use weir_model::graph::{SapKind, ServiceGraph};
use weir_switch::compile::{CompileError, Compiled};

/// Engine nodes that reach nothing outside of their graph.
const QUEUES: [&str; 4] = ["Queue", "Unqueue", "RatedUnqueue", "RoundRobinSched"];
/// Links to LSI-0; a graph has exactly those of its access points.
const LINKS: [&str; 2] = ["FromLink", "ToLink"];
/// Classes that reach outside, for a better message than "no such class".
const OUTSIDE: [&str; 9] = [
    "FromDevice",
    "ToDevice",
    "FromDump",
    "ToDump",
    "FromHost",
    "ToHost",
    "Socket",
    "InfiniteSource",
    "RatedSource",
];

/// Identifiers and interface names that could be read as something else in a configuration.
pub fn check_names(graph: &ServiceGraph) -> Vec<CompileError> {
    let mut errors = Vec::new();
    let mut check = |at: String, name: &str| {
        let good = |c: char| c.is_ascii_alphanumeric() || "_-.@+".contains(c);
        if !name.chars().all(good) || name.starts_with('.') {
            let what = format!(
                "{name:?} has characters that this node does not take here: use letters, digits, '_', '-', '.', '@' and '+'"
            );
            errors.push(CompileError { at, what });
        }
    };
    check("sffg.id".into(), graph.id.as_str());
    for (i, sap) in graph.saps.iter().enumerate() {
        let at = format!("sffg.saps[{i}]");
        check(format!("{at}.id"), sap.id.as_str());
        match &sap.kind {
            SapKind::Interface { interface } => {
                check(format!("{at}.interface.if-name"), interface.if_name.as_str());
            }
            SapKind::Vlan { vlan } => {
                if let Some(name) = &vlan.if_name {
                    check(format!("{at}.vlan.if-name"), name.as_str());
                }
            }
            _ => {}
        }
    }
    errors
}

/// Refuses a configuration with elements that a graph may not have.
///
/// # Errors
/// One for each function (or the graph) at fault.
pub fn check_config(graph: &ServiceGraph, compiled: &Compiled) -> Result<(), Vec<CompileError>> {
    let place = |element: &str| {
        let compound = element.split('/').next().unwrap_or_default();
        let function = compiled.functions.iter().find(|f| f.element == compound)?;
        let i = graph.functions.iter().position(|f| f.id.as_str() == function.id)?;
        Some(format!("sffg.SFs[{i}] (image '{}')", function.image))
    };
    let flat = parse(&compiled.config).map_err(|errors| {
        let at = "sffg.SFs".to_owned();
        let line = |e: &weir_click::Diagnostic| CompileError { at: at.clone(), what: e.to_string() };
        errors.list.iter().map(line).collect::<Vec<_>>()
    })?;

    let mut links: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for a in &compiled.attachments {
        links.insert(("FromLink", &a.to_graph), 0);
        links.insert(("ToLink", &a.from_graph), 0);
    }
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for e in &flat.elements {
        let class = e.class.as_str();
        let own = place(&e.name);
        if LINKS.contains(&class) && own.is_none() && e.args.len() == 1 {
            let count = e.args.first().and_then(|link| links.get_mut(&(class, link.as_str())));
            if let Some(count) = count {
                *count += 1;
                if *count == 1 {
                    continue;
                }
            }
        } else if program(class).is_some() || QUEUES.contains(&class) {
            continue;
        }
        let at = own.unwrap_or_else(|| "sffg.SFs".to_owned());
        if seen.insert((at.clone(), class)) {
            let what = format!(
                "{} :: {class}: an image may only use packet programs and queues; traffic enters and leaves by its ports in_N and out_N",
                e.name
            );
            errors.push(CompileError { at, what });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The flat graph of a configuration that stays within [`Classes`].
///
/// # Errors
/// What is wrong with the text.
pub fn parse(config: &str) -> Result<Graph, weir_click::Errors> {
    weir_click::parse("graph.click", config, &Classes)
}

/// A packet program's class.
fn program(name: &str) -> Option<&'static Class> {
    class_named(name).or_else(|| weir_switch::CLASSES.iter().find(|c| c.info.name == name))
}

/// The classes that the check knows. Ports and processing of engine nodes are left to the data plane to check.
struct Classes;

impl ElementSet for Classes {
    fn class(&self, name: &str) -> Option<ClassInfo> {
        if let Some(class) = program(name) {
            let info = class.info;
            return ClassInfo::new(info.ports, info.processing, info.flow).ok();
        }
        let known = QUEUES.iter().chain(&LINKS).chain(&OUTSIDE).any(|n| *n == name);
        if known { ClassInfo::new("-/-", "a/a", "x/x").ok() } else { None }
    }

    fn names(&self) -> Vec<String> {
        let programs = classes().chain(weir_switch::CLASSES).map(|c| c.info.name);
        programs.chain(QUEUES).map(str::to_owned).collect()
    }

    fn ports(&self, class: &str, args: &[String]) -> Option<PortCounts> {
        program(class)?.configure(args).ok()?.ports().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::DesiredGraph;
    use weir_model::template::Template;

    const GRAPH: &str = "
id: g
name: one
SFs:
  - {id: fw, name: fw, ports: [{id: a}, {id: b}], params: {RULES: 'VALUE'}}
saps:
  - {id: lan, type: interface, interface: {if-name: eth1}}
flowrules:
  - {id: r1, priority: 1, match: {port_in: 'sap:lan'}, actions: {output_to_port: 'sf:fw:a'}}
";

    fn template(click: &str) -> Template {
        let text =
            format!("name: fw\nports: [a, b]\nparams: [{{name: RULES, type: text}}]\nclick: |\n  {click}\n");
        Template::parse(&text).unwrap_or_else(|e| panic!("{e}"))
    }

    fn check(document: &str, click: &str) -> Result<DesiredGraph, Vec<String>> {
        let (template, graph) = (template(click), ServiceGraph::parse(document).unwrap());
        DesiredGraph::new(&graph, |_| Some(&template), &crate::proof::Proofs::default())
            .map_err(|e| e.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn packet_programs_and_queues_are_fine() {
        let graph = GRAPH.replace("VALUE", "allow all");
        check(&graph, "in_0 -> IPFilter($RULES) -> out_1; in_1 -> Queue(10) -> Unqueue -> out_0;").unwrap();
    }

    #[test]
    fn an_image_cannot_reach_devices_files_or_links() {
        let graph = GRAPH.replace("VALUE", "allow all");
        for bad in ["FromDevice(eth0)", "FromLink(other/lan/out)", "FromLink(lan/in)", "InfiniteSource"] {
            let script = format!("in_0 -> IPFilter($RULES) -> out_1; in_1 -> Discard; {bad} -> out_0;");
            let errors = check(&graph, &script).unwrap_err();
            let class = bad.split('(').next().unwrap();
            assert!(
                errors[0].contains("sffg.SFs[0] (image 'fw')") && errors[0].contains(class),
                "{errors:?}"
            );
        }
        let errors = check(&graph, "in_0 -> ToDump($RULES); in_1 -> Discard; Idle -> out_0; Idle -> out_1")
            .unwrap_err();
        assert!(errors[0].contains("ToDump"), "{errors:?}");
        let errors = check(&graph, "in_0 -> Frobnicate($RULES) -> out_1; in_1 -> out_0;").unwrap_err();
        assert!(errors[0].contains("Frobnicate"), "{errors:?}");
    }

    #[test]
    fn a_parameter_value_cannot_break_out_of_its_element() {
        let script = "in_0 -> IPFilter($RULES) -> out_1; in_1 -> out_0;";
        for value in [
            "allow all) -> out_1; FromDevice(eth0) -> out_0; Idle -> IPFilter(allow all",
            "allow all) -> out_1; in_1 -> out_0; }; FromLink(other/lan/out) -> Discard; x :: { Idle -> IPFilter(allow all",
            "allow all) -> out_1; in_1 -> out_0; }; FromLink(lan/in) -> Discard; x :: { Idle -> IPFilter(allow all",
            "allow all) -> out_1; elementclass IPFilter { input -> ToDump(/etc/passwd) } Idle -> IPFilter(",
        ] {
            let errors = check(&GRAPH.replace("VALUE", value), script).unwrap_err();
            assert!(!errors.is_empty(), "{value}");
        }
    }

    #[test]
    fn identifiers_and_interfaces_cannot_be_configuration_text() {
        let graph = GRAPH.replace("VALUE", "allow all");
        let script = "in_0 -> IPFilter($RULES) -> out_1; in_1 -> out_0;";
        let errors = check(&graph.replace("eth1", "'a)->Idle(b'"), script).unwrap_err();
        assert!(errors[0].starts_with("sffg.saps[0].interface.if-name"), "{errors:?}");
        let errors = check(&graph.replace("id: g", "id: 'a,b'"), script).unwrap_err();
        assert!(errors[0].starts_with("sffg.id"), "{errors:?}");
    }
}

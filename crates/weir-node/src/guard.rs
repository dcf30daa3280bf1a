//! What the text of a graph may become in the data plane.
//!
//! Image scripts and tenants' parameter values end up in one configuration text, so nothing that they are made of can
//! be trusted to stay where it was put. The check is made on the finished configuration: it is parsed as the data
//! plane will parse it, and every element in it must stay within its graph (its class says whether it does), or be one of the
//! links that belong to the graph's own access points.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use weir_click::{ElementDecl, Graph};
use weir_model::graph::{Function, HostStackSap, SapKind, ServiceGraph, VXLAN_PORT, VlanSap, WIREGUARD_PORT};
use weir_model::template::{Access, Template};
use weir_plan::{AnyClass, Classes, PlanError, Problem, Reach};
use weir_switch::compile::{CompileError, FunctionPlan};
use weir_switch::config::Compiled;
use weir_switch::lsi0::is_own_interface;

use crate::image_check;

/// All classes that there are.
pub(crate) static CLASSES: LazyLock<Classes> =
    LazyLock::new(|| Classes::with(weir_switch::CLASSES.iter().copied()));

/// Compiles a graph, if it is one that a node takes; `image` finds the template of a function, or says why there is none.
///
/// # Errors
/// All that is wrong with it.
pub fn compile<'t>(
    graph: &ServiceGraph,
    image: impl Fn(&Function) -> Result<&'t Template, String>,
) -> Result<Compiled, Vec<CompileError>> {
    let errors = [check_names(graph), check_access(graph)].concat();
    if !errors.is_empty() {
        return Err(errors);
    }
    let compiled = Compiled::new(weir_switch::compile::plan(graph, image)?);
    let errors = check_images(graph, &compiled);
    if !errors.is_empty() {
        return Err(errors);
    }
    check_config(graph, &compiled)?;
    Ok(compiled)
}

/// Identifiers and interface names that could be read as something else in a configuration.
fn check_names(graph: &ServiceGraph) -> Vec<CompileError> {
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
            SapKind::Vlan { vlan: VlanSap { if_name: Some(name), .. } } => {
                check(format!("{at}.vlan.if-name"), name.as_str());
            }
            SapKind::HostStack { host_stack: HostStackSap { if_name: Some(name), .. } } => {
                check(format!("{at}.host-stack.if-name"), name.as_str());
            }
            // They have addresses and numbers only.
            SapKind::Vlan { .. }
            | SapKind::HostStack { .. }
            | SapKind::Gre { .. }
            | SapKind::Vxlan { .. } => {}
        }
    }
    errors
}

/// Access points that are not for every graph.
fn check_access(graph: &ServiceGraph) -> Vec<CompileError> {
    let mut errors = Vec::new();
    for (i, sap) in graph.saps.iter().enumerate() {
        let at = format!("sffg.saps[{i}].{}", sap.kind.type_name());
        let name = match &sap.kind {
            SapKind::Interface { interface } => Some(&interface.if_name),
            SapKind::Vlan { vlan } => vlan.if_name.as_ref(),
            SapKind::HostStack { host_stack } => host_stack.if_name.as_ref(),
            SapKind::Gre { .. } | SapKind::Vxlan { .. } => None,
        };
        if let Some(name) = name.filter(|name| is_own_interface(name.as_str())) {
            let what = format!("{name} is an interface that the node makes for a graph: give another one");
            errors.push(CompileError { at: format!("{at}.if-name"), what });
        }
        if let (SapKind::Vxlan { vxlan }, Some(tenant)) = (&sap.kind, &graph.tenant)
            && vxlan.udp_port != VXLAN_PORT
        {
            // Each port takes a socket on all interfaces, with its ring, and a port of the host's.
            let what = format!(
                "only a graph of the operator's may have another UDP port than {VXLAN_PORT}, and this one is of the tenant \
                 {tenant}: remove 'tenant', or 'udp-port'"
            );
            errors.push(CompileError { at: format!("{at}.udp-port"), what });
        }
        if let (SapKind::Vxlan { vxlan }, Some(tenant)) = (&sap.kind, &graph.tenant)
            && vxlan.wireguard.as_ref().is_some_and(|w| w.udp_port != WIREGUARD_PORT)
        {
            let what = format!(
                "only a graph of the operator's may have another UDP port than {WIREGUARD_PORT}, and this one is of the tenant \
                 {tenant}: remove 'tenant', or 'udp-port'"
            );
            errors.push(CompileError { at: format!("{at}.wireguard.udp-port"), what });
        }
        if let (SapKind::HostStack { .. }, Some(tenant)) = (&sap.kind, &graph.tenant) {
            let what = format!(
                "only a graph of the operator's may reach the host's own stack, and this one is of the tenant {tenant}: \
                 remove 'tenant', or the access point"
            );
            errors.push(CompileError { at, what });
        }
    }
    errors
}

/// What is wrong with the images of functions that are not inline.
fn check_images(graph: &ServiceGraph, compiled: &Compiled) -> Vec<CompileError> {
    let functions = compiled.plan.functions.iter().filter(|f| !f.is_inline());
    let errors = functions.flat_map(|f| {
        let at = place(graph, Some(f));
        let mistakes = image_check::examine(&f.template, &f.arguments).err().unwrap_or_default();
        mistakes.into_iter().map(move |what| CompileError { at: at.clone(), what })
    });
    errors.collect()
}

/// Refuses a configuration with elements that a graph may not have, and images that name what is not there.
///
/// # Errors
/// One for each place at fault.
fn check_config(graph: &ServiceGraph, compiled: &Compiled) -> Result<(), Vec<CompileError>> {
    let place = |f: Option<&FunctionPlan>| place(graph, f);
    let flat = parse(&compiled.config.text).map_err(|errors| {
        let error = |e: &weir_click::Diagnostic| CompileError {
            at: place(compiled.function_at(e.span.offset)),
            what: e.to_string(),
        };
        errors.list.iter().map(error).collect::<Vec<_>>()
    })?;

    // What the graph's switch itself has, once each: links to LSI-0, and the interfaces of functions that are not inline.
    let mut doors: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for a in &compiled.plan.attachments {
        doors.insert(("FromLink", &a.to_graph), 0);
        doors.insert(("ToLink", &a.from_graph), 0);
    }
    for interface in compiled.plan.functions.iter().flat_map(|f| &f.interfaces) {
        doors.insert(("FromDevice", interface), 0);
        doors.insert(("ToDevice", interface), 0);
        doors.insert(("DirectLink", interface), 0);
    }
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for e in &flat.elements {
        let own = function_of(compiled, e);
        let class = e.class.as_str();
        if let Some(what) = unknown_variable(e).filter(|_| own.is_some()) {
            errors.push(CompileError { at: place(own), what });
        }
        let Some(what) = reaches_outside(e) else { continue };
        if own.is_none()
            && let Some(count) = e.args.first().and_then(|a| doors.get_mut(&(class, a.as_str())))
        {
            *count += 1;
            if *count == 1 {
                continue;
            }
        }
        let at = place(own);
        if seen.insert((at.clone(), class)) {
            errors.push(CompileError { at, what });
        }
    }
    for f in compiled.plan.functions.iter().filter(|f| f.is_inline()) {
        for (name, (handler, access)) in &f.handlers {
            if let Err(what) = has_handler(&flat, (name, handler), *access) {
                errors.push(CompileError { at: place(Some(f)), what });
            }
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// What is wrong with the configuration of a graph, with the places in its document.
pub fn placed(graph: &ServiceGraph, compiled: &Compiled, errors: &PlanError) -> Vec<CompileError> {
    let error = |p: &Problem| {
        let offset = match p {
            Problem::Text(d) => Some(d.span.offset),
            Problem::Element { span, .. } => Some(span.offset),
            Problem::Other(_) => None,
        };
        let function = offset.and_then(|offset| compiled.function_at(offset));
        CompileError { at: place(graph, function), what: p.to_string() }
    };
    errors.0.iter().map(error).collect()
}

/// The place of a function in the document, and its image; that of all functions if it is not known which.
fn place(graph: &ServiceGraph, function: Option<&FunctionPlan>) -> String {
    let number = |f: &FunctionPlan| graph.functions.iter().position(|g| g.id.as_str() == f.id);
    match function.and_then(|f| Some((f, number(f)?))) {
        Some((f, i)) => format!("sffg.SFs[{i}] '{}' (image '{}')", f.id, f.image()),
        None => "sffg.SFs".to_owned(),
    }
}

/// The function that an element belongs to.
fn function_of<'c>(compiled: &'c Compiled, e: &ElementDecl) -> Option<&'c FunctionPlan> {
    let compound = e.name.split('/').next().unwrap_or_default();
    compiled.plan.functions.iter().find(|f| f.is_inline() && f.element == compound)
}

/// What is wrong with an element that does not stay within its graph.
pub(crate) fn reaches_outside(e: &ElementDecl) -> Option<String> {
    let reach = CLASSES.get(&e.class).map_or(Reach::Process, AnyClass::reach);
    (reach != Reach::Graph).then(|| {
        let (span, name, class, what) = (&e.span, inner(&e.name), &e.class, reach.what());
        format!(
            "{span}: {name} :: {class} reaches {what}: an image may only use elements that stay within its graph; \
             traffic enters and leaves by its ports in_N and out_N"
        )
    })
}

/// What is wrong with an element in whose arguments a variable stands that nothing gave a value.
pub(crate) fn unknown_variable(e: &ElementDecl) -> Option<String> {
    let name = |text: &str| -> String {
        let text = text.trim_start_matches('{');
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    let mut names = e.args.iter().flat_map(|a| a.split('$').skip(1)).map(name);
    let name = names.find(|n| n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))?;
    let (span, element, class) = (&e.span, inner(&e.name), &e.class);
    Some(format!(
        "{span}: {element} :: {class}: ${name} is no parameter of the image; declare it under 'params'"
    ))
}

/// The name of a function's element as its script has it.
fn inner(element: &str) -> &str {
    element.split_once('/').map_or(element, |(_, inner)| inner)
}

/// Whether the handler (`element.handler`) behind a public name is there, and can be called so.
pub(crate) fn has_handler(
    flat: &Graph,
    (public, handler): (&str, &str),
    access: Access,
) -> Result<(), String> {
    let (element, name) = handler.rsplit_once('.').unwrap_or_default();
    let short = inner(element);
    let wrong = |what: String| format!("the image's public handler '{public}' is {short}.{name}, but {what}");
    let decl = flat.find(element).and_then(|i| flat.elements.get(i));
    let decl = decl.ok_or_else(|| wrong(format!("the script has no element '{short}'")))?;
    let class = CLASSES.get(&decl.class).ok_or_else(|| wrong(format!("there is no class {}", decl.class)))?;
    let modes = class.handler_modes(name);
    let missing = |what: &str| {
        let has = class.info().handlers.iter().filter(|h| if what == "read" { h.read } else { h.write });
        let mut has: Vec<&str> = has.map(|h| h.name.trim_start_matches("r#")).collect();
        has.dedup();
        let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
        wrong(format!("the {} has no {what} handler of that name; it has: {has}", decl.class))
    };
    if access.readable() && !modes.read {
        return Err(missing("read"));
    }
    if access.writable() && !modes.write {
        return Err(missing("write"));
    }
    Ok(())
}

/// The flat graph of a configuration.
///
/// # Errors
/// What is wrong with the text.
pub fn parse(config: &str) -> Result<Graph, weir_click::Errors> {
    weir_click::parse("graph.click", config, &*CLASSES)
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
        DesiredGraph::new(
            &graph,
            |_| Ok(&template),
            &crate::proof::Proofs::default(),
            &crate::testing::no_containers,
        )
        .map_err(|e| e.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_stays_within_the_graph_is_fine() {
        let graph = GRAPH.replace("VALUE", "allow all");
        for (chain, name) in [
            ("Queue(10) -> Unqueue", "queues"),
            ("RED(5, 50, 0.02) -> Queue -> BandwidthRatedUnqueue(20Mbps)", "a shaper"),
            ("Queue -> Shaper(100) -> Unqueue", "another"),
            ("Queue -> DelayUnqueue(5ms)", "a delay"),
            (
                "Tee(2) -> Queue -> s :: PrioSched -> Unqueue; TimedSource(1) -> Queue -> [1] s -> Unqueue",
                "priorities",
            ),
        ] {
            let script = format!("in_0 -> IPFilter($RULES) -> out_1; in_1 -> {chain} -> out_0;");
            let script = script
                .replace("Tee(2) ->", "t :: Tee(1) ->")
                .replace("[1] s -> Unqueue -> out_0", "[1] s; s -> Unqueue -> out_0")
                .replace("s :: PrioSched -> Unqueue;", "s :: PrioSched;");
            check(&graph, &script).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        }
    }

    #[test]
    fn mistakes_of_an_image_are_told_with_their_place() {
        let graph = GRAPH.replace("VALUE", "allow all");
        let first = |script: &str| check(&graph, script).unwrap_err().remove(0);
        let e = first("in_0 -> IPFilter($RULES) -> out_1;\n  in_1 -> Frobnicate -> out_0;");
        assert!(e.starts_with("sffg.SFs[0] 'fw' (image 'fw'): fw:6:11: ") && e.contains("Frobnicate"), "{e}");
        let e = first("in_0 -> IPFilter($RULES) -> out_1;\n  in_1 -> f :: IPFilter($WHAT) -> out_0;");
        assert!(e.contains("fw:6:11: ") && e.contains("$WHAT is no parameter"), "{e}");
        let e = first("in_0 -> IPFilter($RULES) -> out_1;\n  in_1 -> ToDump(/etc/passwd);\n  Idle -> out_0;");
        assert!(e.contains("fw:6:11: ") && e.contains("reaches files"), "{e}");
    }

    #[test]
    fn public_handlers_are_there() {
        let graph = ServiceGraph::parse(&GRAPH.replace("VALUE", "allow all")).unwrap();
        let error = |handlers: &str| {
            let script = "in_0 -> f :: IPFilter($RULES) -> c :: Counter -> out_1; in_1 -> out_0;";
            let text = format!(
                "name: fw\nports: [a, b]\nparams: [{{name: RULES, type: text}}]\nhandlers: {{{handlers}}}\nclick: '{script}'\n"
            );
            let template = Template::parse(&text).unwrap_or_else(|e| panic!("{e}"));
            compile(&graph, |_| Ok(&template)).err().map(|e| e[0].to_string())
        };
        assert_eq!(error("a: c.count, b: f.config, c: in_0.count, d: {handler: c.reset, access: w}"), None);
        let e = error("a: d.count").unwrap();
        assert!(e.contains("sffg.SFs[0]") && e.contains("no element 'd'"), "{e}");
        let e = error("a: c.cuont").unwrap();
        assert!(e.contains("c.cuont") && e.contains("no read handler") && e.contains("count"), "{e}");
        let e = error("a: {handler: c.count, access: rw}").unwrap();
        assert!(e.contains("c.count") && e.contains("no write handler"), "{e}");
    }

    #[test]
    fn an_image_cannot_reach_devices_files_or_links() {
        let graph = GRAPH.replace("VALUE", "allow all");
        for bad in ["FromDevice(eth0)", "FromLink(other/lan/out)", "FromLink(lan/in)", "InfiniteSource"] {
            let script = format!("in_0 -> IPFilter($RULES) -> out_1; in_1 -> Discard; {bad} -> out_0;");
            let errors = check(&graph, &script).unwrap_err();
            let class = bad.split('(').next().unwrap();
            assert!(
                errors[0].contains("sffg.SFs[0] 'fw' (image 'fw')") && errors[0].contains(class),
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

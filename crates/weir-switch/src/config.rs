//! The built-in switch: a plan as a configuration in the Click language.

use std::fmt::Write;
use std::ops::Range;

use weir_model::graph::FunctionState;

use crate::compile::{FunctionPlan, GraphPlan, Port, PortEnd};
use crate::lsi0::Part;
use crate::{direct, function};

/// A plan, and the configuration that the data plane runs of it.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The plan.
    pub plan: GraphPlan,
    /// The configuration.
    pub config: Configuration,
}

impl Compiled {
    /// Writes a plan down.
    pub fn new(plan: GraphPlan) -> Compiled {
        Compiled { config: configuration(&plan), plan }
    }

    /// The function whose text in the configuration holds this byte.
    pub fn function_at(&self, offset: usize) -> Option<&FunctionPlan> {
        self.plan.functions.get(self.config.functions.iter().position(|range| range.contains(&offset))?)
    }
}

/// A graph in the Click language. Links are the graph's own: `FromLink(SAP/in)`.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// The text.
    pub text: String,
    /// Where each function's part of it stands.
    pub functions: Vec<Range<usize>>,
}

/// Writes a plan down.
///
/// There is nothing in it of what distinguishes one tenant's graph from another's, but for the devices of functions that are not
/// inline: equal ones are read and compiled once.
pub fn configuration(plan: &GraphPlan) -> Configuration {
    let mut text = String::new();
    for a in &plan.attachments {
        let (name, to, from) = (&a.element, &a.to_graph, &a.from_graph);
        // What is another graph's neither comes in nor leaves.
        let (inward, outward) = match a.part {
            Part::Ports(share) => (
                format!("{name}_share :: SharedAddress({share}) -> "),
                format!("[1] {name}_share;\n{name}_share [1] -> "),
            ),
            _ => (String::new(), String::new()),
        };
        _ = writeln!(
            text,
            "{name}_in :: FromLink({to}) -> {inward}{name} :: Counter;\n{name}_out :: Counter -> {outward}ToLink({from});"
        );
    }
    let mut functions = Vec::new();
    for f in &plan.functions {
        let start = text.len();
        if f.is_inline() {
            inline(&mut text, f, ports_of(plan, functions.len()));
        } else {
            met_at_devices(&mut text, f);
        }
        functions.push(start..text.len());
    }
    if plan.ports.is_empty() {
        text.push_str("Idle -> Discard;\n");
    } else {
        let rules: Vec<String> = plan.rules.iter().map(|r| format!("    {r}")).collect();
        _ = writeln!(text, "lsi :: FlowTable(\n{});", rules.join(",\n"));
    }
    for (i, p) in plan.ports.iter().enumerate() {
        let (from, to) = ends(plan, p);
        _ = writeln!(text, "{from} -> [{i}] lsi;");
        match gate(plan, p) {
            None => _ = writeln!(text, "lsi [{i}] -> {to};"),
            Some((gate, None)) => _ = writeln!(text, "lsi [{i}] -> {gate} -> {to};"),
            // What waits goes past the function too.
            Some((gate, Some(other))) => {
                _ = writeln!(text, "lsi [{i}] -> {gate} -> [{other}] lsi;\nIdle -> {to};");
            }
        }
    }
    for (number, link) in direct::links(plan).into_iter().enumerate() {
        let [from, to] = [link.from, link.to].map(|port| device(plan, port).unwrap_or_default());
        _ = writeln!(text, "direct_{number} :: DirectLink({from}, {to});");
    }
    Configuration { text, functions }
}

/// The device of a port, by its number.
fn device(plan: &GraphPlan, port: u32) -> Option<&str> {
    let PortEnd::Function { function, port } = plan.ports.get(port as usize)?.end else { return None };
    plan.functions.get(function)?.interfaces.get(port).map(String::as_str)
}

/// How many ports of a function the graph uses.
fn ports_of(plan: &GraphPlan, number: usize) -> usize {
    let own = |p: &&Port| matches!(p.end, PortEnd::Function { function, .. } if function == number);
    plan.ports.iter().filter(own).count()
}

fn inline(text: &mut String, f: &FunctionPlan, used: usize) {
    let line = text.lines().count() + 1;
    text.push_str(&function::text(&f.element, &f.template, &f.arguments, line));
    // Ports of the image that the graph does not use.
    for port in used..f.template.ports.len() {
        let element = &f.element;
        _ = writeln!(text, "Idle -> [{port}] {element};\n{element} [{port}] -> Discard;");
    }
}

/// What a data plane of its own runs of a function: its script between devices that are called like the ports of its image. Those
/// that its graph does not use are closed. If its document says its state, it has a gate before each port here too, by which its timers
/// and tables stand still.
pub fn of_process(f: &FunctionPlan) -> String {
    let ports = f.template.ports.iter().enumerate();
    let ends = ports.map(|(i, p)| {
        f.interfaces.get(i)?;
        let device = format!("memif:{}?direct=true", p.name);
        let (from, to) = (function::from_device(&device), function::to_device(&f.element, i, &device));
        Some((gate_text(f, i).map_or(from.clone(), |gate| format!("{from} -> {gate}")), to))
    });
    function::between(&f.element, &f.template, &f.arguments, ends)
}

/// Devices may come and go, as the function does.
fn met_at_devices(text: &mut String, f: &FunctionPlan) {
    _ = writeln!(text, "// Image {}, not inline", f.template.name);
    for (port, interface) in f.interfaces.iter().enumerate() {
        let (from, to) = counters(&f.element, false, port);
        let input = function::from_device(interface);
        let output = function::to_device(&f.element, port, interface);
        _ = writeln!(text, "{input} -> {from} :: Counter;\n{to} :: Counter -> {output};");
    }
}

/// The counters at a port of a function: of what it sends, and of what it is given. Those of an inline function are its own.
pub fn counters(element: &str, inline: bool, port: usize) -> (String, String) {
    let join = if inline { "/" } else { "_" };
    (format!("{element}{join}out_{port}"), format!("{element}{join}in_{port}"))
}

/// The FIFO before a port of a function whose document says its state; if that is bypass, with the port of the switch that packets go on at.
fn gate(plan: &GraphPlan, p: &Port) -> Option<(String, Option<usize>)> {
    let PortEnd::Function { function, port } = p.end else { return None };
    let f = plan.functions.get(function)?;
    let (state, _) = f.state?;
    // Packets wait where the function's state is taken from: in its own data plane, if it has one.
    if state == FunctionState::Moving && !f.is_inline() {
        return None;
    }
    let gate = gate_text(f, port)?;
    // From each of two ports to the other, and from a single one back.
    let other = ports_of(plan, function).saturating_sub(1 + port);
    let is_other = |q: &Port| q.end == PortEnd::Function { function, port: other };
    let on = (state == FunctionState::Bypass).then(|| plan.ports.iter().position(is_other)).flatten();
    Some((gate, on))
}

/// A gate before a port of a function whose document says its state.
fn gate_text(f: &FunctionPlan, port: usize) -> Option<String> {
    let (state, capacity) = f.state?;
    let element = &f.element;
    let stopped = match state {
        FunctionState::Stopped => "STOPPED true, ",
        FunctionState::Moving => "STOPPED true, MOVING true, ",
        FunctionState::Running | FunctionState::Bypass => "",
    };
    Some(format!("gate_{element}_{port} :: FunctionGate({element}, {stopped}CAPACITY {capacity})"))
}

/// What packets come from at a port, as the left side of a connection, and where they go, as the right side of one.
fn ends(plan: &GraphPlan, p: &Port) -> (String, String) {
    match p.end {
        PortEnd::AccessPoint(i) => {
            let name = plan.attachments.get(i).map_or("", |a| &a.element);
            (name.to_owned(), format!("{name}_out"))
        }
        PortEnd::Function { function, port } => match plan.functions.get(function) {
            Some(f) if f.is_inline() => {
                (format!("{} [{port}]", f.element), format!("[{port}] {}", f.element))
            }
            Some(f) => counters(&f.element, false, port),
            None => (String::new(), String::new()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::plan;
    use weir_model::graph::ServiceGraph;
    use weir_model::template::Template;

    fn bridge() -> Template {
        Template::parse("name: bridge\nports: [left, right]\nclick: 'in_0 -> out_1; in_1 -> out_0;'\n")
            .unwrap()
    }

    #[test]
    fn a_function_in_a_process_is_met_at_memory() {
        let template = Template::parse(
            "name: bridge\nports: [left, right, third]\nparams: [{name: N, type: int}]\nhandlers: {n: {handler: c.reset, access: w}}\n\
             click: 'in_0 -> c :: Counter -> Strip($N) -> out_1; in_1 -> out_0;'\n",
        )
        .unwrap();
        let graph = ServiceGraph::parse(
            "id: g\nname: g\nSFs: [{id: b, name: bridge, kind: process, ports: [{id: a}, {id: b}], params: {N: 4}, handlers: {n: '0'}}]\n\
             saps: [{id: s, type: interface, interface: {if-name: eth1}}]\n\
             flowrules: [{id: r, priority: 1, match: {port_in: 'sap:s'}, actions: {output_to_port: 'sf:b:b'}}]\n",
        );
        let compiled = Compiled::new(plan(&graph.unwrap(), |_| Ok(&template)).unwrap());
        let f = &compiled.plan.functions[0];
        let device = format!("memif:{}/left?role=master", crate::compile::sockets_folder("g", "b"));
        assert_eq!((f.interfaces.len(), &f.interfaces[0], f.is_inline()), (2, &device, false));
        assert!(compiled.config.text.contains(&format!("FromDevice({device}, PROMISC true, WAIT true)")));
        assert!(!compiled.config.text.contains("Strip"), "another process runs it");
        assert_eq!(f.writes, [("n".to_owned(), "0".to_owned())]);
        let own = of_process(f);
        for line in [
            "FromDevice(memif:left?direct=true, PROMISC true, WAIT true) -> [0] sf_b;",
            "sf_b [1] -> queue_sf_b_1 :: Queue(1000) -> device_sf_b_1 :: ToDevice(memif:right?direct=true, WAIT true);",
            "Idle -> [2] sf_b;",
            "in_0 -> c :: Counter -> Strip(4) -> out_1; in_1 -> out_0;",
        ] {
            assert!(own.contains(line), "{line} is missing in\n{own}");
        }
    }

    #[test]
    fn a_function_in_a_process_stands_still_in_its_own_data_plane() {
        let template = bridge();
        let texts = |state: &str| {
            let graph = ServiceGraph::parse(&format!(
                "id: g\nname: g\nSFs: [{{id: b, name: bridge, kind: process, ports: [{{id: a}}, {{id: b}}]{state}}}]\n\
                 saps: [{{id: s, type: interface, interface: {{if-name: eth1}}}}]\n\
                 flowrules: [{{id: r, priority: 1, match: {{port_in: 'sap:s'}}, actions: {{output_to_port: 'sf:b:b'}}}}]\n"
            ));
            let compiled = Compiled::new(plan(&graph.unwrap(), |_| Ok(&template)).unwrap());
            let own = of_process(&compiled.plan.functions[0]);
            (compiled.config.text, own)
        };
        let (graph, own) = texts("");
        assert!(!graph.contains("FunctionGate") && !own.contains("FunctionGate"));
        // What waits is with the graph, and survives the worker; the worker's timers stand still.
        let (graph, own) = texts(", state: stopped, fifo: 7");
        assert!(graph.contains("gate_sf_b_1 :: FunctionGate(sf_b, STOPPED true, CAPACITY 7)"), "{graph}");
        assert!(
            own.contains(
                "WAIT true) -> gate_sf_b_0 :: FunctionGate(sf_b, STOPPED true, CAPACITY 7) -> [0] sf_b;"
            ),
            "{own}"
        );
        let (graph, own) = texts(", state: bypass");
        assert!(
            graph.contains("gate_sf_b_0") && own.contains("gate_sf_b_0 :: FunctionGate(sf_b, CAPACITY 1000)")
        );
        // While it moves, packets wait only where its state is taken from.
        let (graph, own) = texts(", state: moving");
        assert!(!graph.contains("FunctionGate"), "{graph}");
        assert!(own.contains("gate_sf_b_1 :: FunctionGate(sf_b, STOPPED true, MOVING true, CAPACITY 1000)"));
    }

    #[test]
    fn a_function_whose_state_is_said_has_a_fifo_before_each_port() {
        let template = bridge();
        let text = |state: &str| {
            let graph = ServiceGraph::parse(&format!(
                "id: g\nname: g\nSFs: [{{id: b, name: bridge, ports: [l, r]{state}}}]\n\
                 saps: [{{id: s, type: interface, interface: {{if-name: eth1}}}}]\n\
                 flowrules: [{{id: r, priority: 1, match: {{port_in: 'sap:s'}}, actions: {{output_to_port: 'sf:b:r'}}}}]\n",
            ));
            configuration(&plan(&graph.unwrap(), |_| Ok(&template)).unwrap()).text
        };
        let has = |state: &str, lines: &[&str]| {
            let text = text(state);
            lines.iter().for_each(|line| assert!(text.contains(line), "{line} is missing in\n{text}"));
        };
        assert!(!text("").contains("FunctionGate"), "what just runs has none");
        has(
            ", state: stopped",
            &["lsi [2] -> gate_sf_b_1 :: FunctionGate(sf_b, STOPPED true, CAPACITY 1000) -> [1] sf_b;"],
        );
        has(
            ", state: moving",
            &["gate_sf_b_1 :: FunctionGate(sf_b, STOPPED true, MOVING true, CAPACITY 1000) -> [1] sf_b;"],
        );
        has(
            ", state: running, fifo: 7",
            &["lsi [1] -> gate_sf_b_0 :: FunctionGate(sf_b, CAPACITY 7) -> [0] sf_b;"],
        );
        has(
            ", state: bypass",
            &[
                "lsi [1] -> gate_sf_b_0 :: FunctionGate(sf_b, CAPACITY 1000) -> [2] lsi;\nIdle -> [0] sf_b;",
                "lsi [2] -> gate_sf_b_1 :: FunctionGate(sf_b, CAPACITY 1000) -> [1] lsi;\nIdle -> [1] sf_b;",
            ],
        );
    }

    #[test]
    fn a_function_that_is_not_inline_is_met_at_interfaces() {
        let template = Template::parse("name: bridge\nkind: native\nports: [left, right, third]\n").unwrap();
        let graph = ServiceGraph::parse(
            "id: g\nname: g\nSFs: [{id: b, name: bridge, ports: [{id: a}, {id: b}]}]\n\
             saps: [{id: s, type: interface, interface: {if-name: eth1}}]\n\
             flowrules: [{id: r, priority: 1, match: {port_in: 'sap:s'}, actions: {output_to_port: 'sf:b:b'}}]\n",
        );
        let plan = plan(&graph.unwrap(), |_| Ok(&template)).unwrap();
        let interfaces = &plan.functions[0].interfaces;
        assert_eq!(interfaces.len(), 2, "of the ports that the graph uses");
        assert!(interfaces.iter().all(|i| i.len() <= 15) && interfaces[0] != interfaces[1]);
        let text = configuration(&plan).text;
        for line in [
            format!("FromDevice({}, PROMISC true, WAIT true) -> sf_b_out_0 :: Counter;", interfaces[0]),
            format!(
                "sf_b_in_1 :: Counter -> queue_sf_b_1 :: Queue(1000) -> device_sf_b_1 :: ToDevice({}, WAIT true);",
                interfaces[1]
            ),
            "sf_b_out_1 -> [2] lsi;".to_owned(),
            "lsi [2] -> sf_b_in_1;".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
    }
}

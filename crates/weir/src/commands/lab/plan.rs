//! What is to be done to make a lab, as data.

use super::document::{End, Lab, Shape, by_interface};

/// The machine on which links with a delay, a loss or a rate pass a Click configuration: not every kernel has netem.
pub(super) const WIRE: &str = "wire--";

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// A namespace for a machine.
    Machine(String),
    /// Two interfaces that are joined. `whole`: packets pass unsegmented, up to 64 KB each.
    Link { ends: [End; 2], whole: bool },
    /// An address with its prefix length.
    Address { end: End, address: String },
    /// A machine that forwards nothing and has no addresses of its own accord.
    Silent(String),
    /// The router of a machine.
    Gateway { machine: String, gateway: String },
    /// A Click configuration that links pass.
    Wire(String),
    /// A Weir node.
    Node(String),
    /// A graph, by its number in the document.
    Graph(usize),
    /// A program of a host.
    Program { machine: String, command: String },
}

/// All steps in their order.
pub(super) fn steps(lab: &Lab) -> Vec<Step> {
    let mut steps: Vec<Step> = lab.hosts.keys().chain(lab.nodes.keys()).cloned().map(Step::Machine).collect();
    let shaped: Vec<usize> = (0..lab.links.len()).filter(|i| !lab.links[*i].1.is_plain()).collect();
    if !shaped.is_empty() {
        steps.push(Step::Machine(WIRE.into()));
        steps.push(Step::Silent(WIRE.into()));
    }
    let mut config = String::new();
    for (i, (ends, shape)) in lab.links.iter().enumerate() {
        if shape.is_plain() {
            steps.push(Step::Link { ends: ends.clone(), whole: true });
            continue;
        }
        let inner = ["a", "b"].map(|side| format!("w{i}{side}"));
        for (end, interface) in ends.iter().zip(&inner) {
            let ours = End { machine: WIRE.into(), interface: interface.clone() };
            steps.push(Step::Link { ends: [end.clone(), ours], whole: false });
        }
        let [a, b] = &inner;
        config += &format!(
            "// {}:{} - {}:{}\n",
            ends[0].machine, ends[0].interface, ends[1].machine, ends[1].interface
        );
        config += &direction(a, b, shape);
        config += &direction(b, a, shape);
    }
    for (name, host) in &lab.hosts {
        for (interface, addresses) in by_interface(&host.addresses) {
            let end = |address| Step::Address {
                end: End { machine: name.clone(), interface: interface.clone() },
                address,
            };
            steps.extend(addresses.into_iter().map(end));
        }
        let gateway = |g: &std::net::IpAddr| Step::Gateway { machine: name.clone(), gateway: g.to_string() };
        steps.extend(host.gateway.iter().map(gateway));
    }
    for (name, node) in &lab.nodes {
        for (interface, addresses) in &node.addresses {
            let end = End { machine: name.clone(), interface: interface.clone() };
            steps.extend(addresses.iter().map(|a| Step::Address { end: end.clone(), address: a.clone() }));
        }
    }
    if !config.is_empty() {
        steps.push(Step::Wire(config));
    }
    steps.extend(lab.nodes.keys().cloned().map(Step::Node));
    steps.extend((0..lab.graphs.len()).map(Step::Graph));
    for (name, host) in &lab.hosts {
        let program = |command: &String| Step::Program { machine: name.clone(), command: command.clone() };
        steps.extend(host.run.iter().map(program));
    }
    steps
}

/// What packets from one interface to another pass.
fn direction(from: &str, to: &str, shape: &Shape) -> String {
    let mut path = format!("FromDevice({from}, METHOD PACKET)");
    if let Some(loss) = shape.loss {
        path += &format!(" -> RandomSample(DROP {loss})");
    }
    path += " -> Queue(10000)";
    match (&shape.delay, &shape.rate) {
        (Some(delay), Some(rate)) => path += &format!(" -> LinkUnqueue({delay}, {rate}) -> Queue(10000)"),
        (Some(delay), None) => path += &format!(" -> DelayUnqueue({delay}) -> Queue(10000)"),
        (None, Some(rate)) => path += &format!(" -> BandwidthRatedUnqueue({rate}) -> Queue(10000)"),
        (None, None) => {}
    }
    path + &format!(" -> ToDevice({to});\n")
}

#[cfg(test)]
mod tests {
    use super::super::document::parse;
    use super::*;

    const LAB: &str = "
name: t
hosts:
  a: {addresses: 10.0.0.1/24, gateway: 10.0.0.254, run: sleep 1}
  b: {}
nodes: {n: {}}
links: [{ends: [a, n]}, {ends: [n, b], delay: 5ms, loss: 1%, rate: 10Mbps}, {ends: [a, b], loss: 0.5}]
graphs: [{node: n, file: g.yaml}]
";

    #[test]
    fn machines_come_first_and_graphs_after_their_nodes() {
        let steps = steps(&parse(LAB).unwrap());
        let at = |step: &Step| steps.iter().position(|s| s == step).unwrap();
        let machines = steps.iter().rposition(|s| matches!(s, Step::Machine(_))).unwrap();
        let links = steps.iter().position(|s| matches!(s, Step::Link { .. })).unwrap();
        assert!(machines < links);
        assert_eq!(steps.iter().filter(|s| matches!(s, Step::Link { .. })).count(), 5);
        assert!(at(&Step::Node("n".into())) < at(&Step::Graph(0)));
        assert!(matches!(steps.last(), Some(Step::Program { .. })));
    }

    #[test]
    fn what_links_do_is_a_configuration_that_compiles() {
        let steps = steps(&parse(LAB).unwrap());
        let config =
            steps.iter().find_map(|s| if let Step::Wire(text) = s { Some(text) } else { None }).unwrap();
        assert!(config.contains("LinkUnqueue(5ms, 10Mbps)") && config.contains("DROP 0.5"), "{config}");
        weir_plan::Plan::new(&crate::commands::classes(), config, "wire").unwrap();
        let shape = |text: &str| {
            let text = format!("name: t\nhosts: {{a: {{}}, b: {{}}}}\nlinks: [{{ends: [a, b], {text}}}]\n");
            parse(&text).map(|lab| super::steps(&lab))
        };
        for part in ["delay: 5ms", "rate: 1Gbps", "loss: 3%", "delay: 1s, loss: 0.1"] {
            let steps = shape(part).unwrap();
            let config =
                steps.iter().find_map(|s| if let Step::Wire(text) = s { Some(text) } else { None }).unwrap();
            weir_plan::Plan::new(&crate::commands::classes(), config, "wire").unwrap();
        }
    }

    #[test]
    fn a_lab_without_such_links_has_no_wire() {
        let text = "name: t\nhosts: {a: {}, b: {}}\nlinks: [{ends: [a, b]}]\n";
        let steps = steps(&parse(text).unwrap());
        assert!(!steps.iter().any(|s| matches!(s, Step::Wire(_) | Step::Silent(_))));
    }
}

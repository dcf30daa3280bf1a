//! Links from function to function that need no switch (COMPOSER paper, section 6.2).
//!
//! All that comes from one port goes to another, as it is, and nothing else goes there: then the two functions may have memory between
//! them. The rules stay in the switch, which is the path while they have none.

use weir_filter::Expr;
use weir_model::template::Implementation;

use crate::compile::{GraphPlan, PortEnd};
use crate::rule::{Action, FlowRule};

/// A link between two ports of the switch, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectLink {
    /// The port that packets come from.
    pub from: u32,
    /// The port that they go to.
    pub to: u32,
}

/// The direct links of a graph, in the order of the ports that they come from. Both functions are data planes of their own, in processes: other
/// programs know no more than the one connection that they were started with.
pub fn links(plan: &GraphPlan) -> Vec<DirectLink> {
    if !plan.direct_links {
        return Vec::new();
    }
    let ports = 0..plan.ports.len() as u32;
    let rules: Vec<Vec<&FlowRule>> = ports.clone().map(|port| applied(plan, port)).collect();
    let links = ports.filter_map(|from| {
        let to = only_output(&rules[from as usize])?;
        let (a, b) = (process(plan, from)?, process(plan, to)?);
        let outputs = |rule: &&&FlowRule| rule.actions.contains(&Action::Output(to));
        let alone = rules.iter().flatten().filter(outputs).all(|rule| rule.input == from);
        (a != b && alone).then_some(DirectLink { from, to })
    });
    links.collect()
}

/// The rules of a port that packets can come to, in the order in which they are tried.
fn applied(plan: &GraphPlan, port: u32) -> Vec<&FlowRule> {
    let mut rules: Vec<&FlowRule> = plan.rules.iter().filter(|rule| rule.input == port).collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
    if let Some(last) = rules.iter().position(|rule| rule.filter == Expr::True) {
        rules.truncate(last + 1);
    }
    rules
}

/// The port that these rules send every packet to, as it is and to no other.
fn only_output(rules: &[&FlowRule]) -> Option<u32> {
    let last = rules.last().filter(|rule| rule.filter == Expr::True)?;
    let [Action::Output(to)] = last.actions[..] else { return None };
    rules.iter().all(|rule| rule.actions == last.actions).then_some(to)
}

/// The number of the function that a port is of, if that runs in a process.
fn process(plan: &GraphPlan, port: u32) -> Option<usize> {
    let PortEnd::Function { function, .. } = plan.ports.get(port as usize)?.end else { return None };
    let f = plan.functions.get(function)?;
    // Packets for one that may be stopped have to come by its FIFO.
    let joins = f.state.is_none() && matches!(f.template.implementation, Implementation::Process { .. });
    joins.then_some(function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::graph::ServiceGraph;
    use weir_model::template::Template;

    /// Functions `f`, `g` and `h` with ports `a` and `b`, in processes but for `i`, and `rules`: what they match, and what is done.
    fn found(rules: &[(&str, &str)]) -> Vec<String> {
        let mut text = "id: x\nname: x\nSFs:\n".to_owned();
        for (id, kind) in [("f", "process"), ("g", "process"), ("h", "process"), ("i", "inline")] {
            text += &format!("  - {{id: {id}, name: n, kind: {kind}, ports: [{{id: a}}, {{id: b}}]}}\n");
        }
        text += "saps: [{id: s, type: interface, interface: {if-name: eth1}}]\nflowrules:\n";
        for (i, (matches, actions)) in rules.iter().enumerate() {
            let priority = if matches.contains("tp_dst") { 9 } else { 5 };
            text += &format!(
                "  - {{id: r{i}, priority: {priority}, match: {{{matches}}}, actions: {{{actions}}}}}\n"
            );
        }
        of(&text)
    }

    fn of(text: &str) -> Vec<String> {
        let template =
            Template::parse("name: n\nports: [x, y]\nclick: 'in_0 -> out_1; in_1 -> out_0;'\n").unwrap();
        let graph = ServiceGraph::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let plan = crate::compile::plan(&graph, |_| Ok(&template)).unwrap();
        let name = |port: u32| plan.ports[port as usize].place.to_string();
        links(&plan).iter().map(|link| format!("{} {}", name(link.from), name(link.to))).collect()
    }

    const FROM_F: &str = "port_in: 'sf:f:b'";
    const TO_G: &str = "output_to_port: 'sf:g:a'";

    #[test]
    fn two_ports_with_nothing_between_them_are_linked() {
        assert_eq!(found(&[(FROM_F, TO_G)]), ["sf:f:b sf:g:a"]);
        let both = [(FROM_F, TO_G), ("port_in: 'sf:g:a'", "output_to_port: 'sf:f:b'")];
        assert_eq!(found(&both), ["sf:f:b sf:g:a", "sf:g:a sf:f:b"]);
        // What comes back goes elsewhere.
        let back = [(FROM_F, TO_G), ("port_in: 'sf:g:a'", "output_to_port: 'sf:h:a'")];
        assert_eq!(found(&back), ["sf:f:b sf:g:a", "sf:g:a sf:h:a"]);
    }

    #[test]
    fn rules_that_come_to_the_same_are_the_same() {
        let narrow = "port_in: 'sf:f:b', tp_dst: 80";
        assert_eq!(found(&[(narrow, TO_G), (FROM_F, TO_G)]), ["sf:f:b sf:g:a"]);
        // No packet comes to a rule behind one that takes all: the first of equal priority does.
        assert_eq!(found(&[(FROM_F, TO_G), (FROM_F, "drop: true")]), ["sf:f:b sf:g:a"]);
        let dead = [("port_in: 'sf:h:b'", "drop: true"), ("port_in: 'sf:h:b'", TO_G), (FROM_F, TO_G)];
        assert_eq!(found(&dead), ["sf:f:b sf:g:a"]);
    }

    #[test]
    fn all_else_is_for_the_switch() {
        let narrow = "port_in: 'sf:f:b', tp_dst: 80";
        for rules in [
            // Not all packets.
            &[(narrow, TO_G)][..],
            &[(narrow, "drop: true"), (FROM_F, TO_G)],
            &[(narrow, "output_to_port: 'sap:s'"), (FROM_F, TO_G)],
            // Not as they are.
            &[(FROM_F, "set_vlan: 5, output_to_port: 'sf:g:a'")],
            &[(narrow, "dec_ttl: true, output_to_port: 'sf:g:a'"), (FROM_F, TO_G)],
            // Two copies; or none.
            &[(FROM_F, "output_to_port: ['sf:g:a', 'sf:h:a']")],
            &[(FROM_F, "drop: true")],
            &[],
            // Something else goes there.
            &[(FROM_F, TO_G), ("port_in: 'sf:h:b', tp_dst: 80", TO_G)],
            &[(FROM_F, TO_G), ("port_in: 'sap:s'", TO_G)],
            &[(FROM_F, TO_G), ("port_in: 'sf:h:b'", "output_to_port: ['sap:s', 'sf:g:a']")],
            // Not from process to process, or to itself.
            &[(FROM_F, "output_to_port: 'sf:i:a'")],
            &[("port_in: 'sf:i:b'", TO_G)],
            &[(FROM_F, "output_to_port: 'sap:s'")],
            &[(FROM_F, "output_to_port: 'sf:f:a'")],
            &[(FROM_F, "output_to_port: 'sf:f:b'")],
        ] {
            assert_eq!(found(rules), Vec::<String>::new(), "{rules:?}");
        }
    }

    #[test]
    fn a_graph_may_do_without() {
        let text = "id: x\nname: x\nSFs:\n  - {id: f, name: n, kind: process, ports: [{id: a}]}\n  - {id: g, name: n, kind: process, ports: [{id: a}]}\n\
                    flowrules: [{id: r, priority: 1, match: {port_in: 'sf:f:a'}, actions: {output_to_port: 'sf:g:a'}}]\n";
        assert_eq!(of(text), ["sf:f:a sf:g:a"]);
        assert_eq!(of(&format!("{text}direct-links: false\n")), Vec::<String>::new());
    }
}

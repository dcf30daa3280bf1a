//! LSI-0: the switch between the node's interfaces and the graphs (COMPOSER paper, section 5.2).
//!
//! Each service access point of a graph is an interface, or one VLAN of it. LSI-0 looks at nothing but the interface
//! and the VLAN tag, so tenants cannot reach each other through it, whatever addresses they use. It takes the tag
//! off what arrives for a `vlan` access point, and puts it on what leaves.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_model::filter::{Expr, Prim};

use crate::rule::{Action, FlowRule};

/// A service access point of a graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// Interface of the node.
    pub interface: String,
    /// VLAN on it; `None` takes all that no other access point's VLAN is.
    pub vlan: Option<u16>,
    /// Link by which the graph gets what arrives.
    pub to_graph: String,
    /// Link by which it sends.
    pub from_graph: String,
    /// The graph, for messages.
    pub graph: String,
}

/// Two graphs want the same traffic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is an access point of graph '{holder}' already; graph '{other}' cannot have it too")]
pub struct Conflict {
    /// `interface eth1` or `VLAN 25 of interface eth1`.
    pub what: String,
    /// The graph that has it.
    pub holder: String,
    /// The graph that wants it.
    pub other: String,
}

/// Attachments that want what another has.
pub fn conflicts(attachments: &[Attachment]) -> Vec<Conflict> {
    let mut taken: BTreeMap<(&str, Option<u16>), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for a in attachments {
        if let Some(holder) = taken.insert((&a.interface, a.vlan), &a.graph) {
            let what = match a.vlan {
                Some(vlan) => format!("VLAN {vlan} of interface {}", a.interface),
                None => format!("interface {}", a.interface),
            };
            found.push(Conflict { what, holder: holder.to_owned(), other: a.graph.clone() });
        }
    }
    found
}

/// The configuration of LSI-0 for these attachments, which have no conflicts.
pub fn lsi0(attachments: &[Attachment]) -> String {
    let mut sorted = attachments.to_vec();
    sorted.sort();
    let mut interfaces: Vec<&str> = sorted.iter().map(|a| a.interface.as_str()).collect();
    interfaces.dedup();

    // Ports of the table: first the interfaces, then the graphs' links. Elements are named by what they stand for and
    // not by number, so that a hot swap never hands one interface's queue to another.
    let mut rules = Vec::new();
    let (mut elements, mut wires) = (String::new(), String::new());
    for (port, interface) in interfaces.iter().enumerate() {
        let dev = element_name("dev", interface);
        _ = writeln!(elements, "{dev}_in :: FromDevice({interface}, PROMISC true);");
        _ = writeln!(elements, "{dev}_queue :: Queue(1000);\n{dev}_out :: ToDevice({interface});");
        _ = writeln!(wires, "{dev}_in -> [{port}] lsi;\nlsi [{port}] -> {dev}_queue -> {dev}_out;");
    }
    for (i, a) in sorted.iter().enumerate() {
        let device = interfaces.iter().position(|n| *n == a.interface).unwrap_or(0) as u32;
        let port = (interfaces.len() + i) as u32;
        let sap = element_name("sap", &a.to_graph);
        _ = writeln!(
            elements,
            "{sap}_in :: FromLink({});\n{sap}_out :: ToLink({});",
            a.from_graph, a.to_graph
        );
        _ = writeln!(wires, "{sap}_in -> [{port}] lsi;\nlsi [{port}] -> {sap}_out;");
        let (filter, priority, inward, outward) = match a.vlan {
            Some(id) => {
                (Expr::Prim(Prim::Vlan(Some(id))), 2, vec![Action::PopVlan], vec![Action::PushVlan(id)])
            }
            None => (Expr::True, 1, vec![], vec![]),
        };
        let to = |mut actions: Vec<Action>, port| {
            actions.push(Action::Output(port));
            actions
        };
        rules.push(FlowRule { priority, input: device, filter, actions: to(inward, port) });
        rules.push(FlowRule { priority: 1, input: port, filter: Expr::True, actions: to(outward, device) });
    }
    // Every output is an input too, so a table without interfaces has no ports.
    let rules: Vec<String> = rules.iter().map(|r| format!("    {r}")).collect();
    let table = format!("lsi :: FlowTable(\n{});\n", rules.join(",\n"));
    if sorted.is_empty() {
        return "// LSI-0: no graph has access points.\nIdle -> Discard;\n".into();
    }
    format!("// LSI-0: dispatches interfaces and VLANs to graphs.\n{elements}{table}{wires}")
}

/// An element name that stands for `name` and for no other: what is no letter or digit becomes `_` and its code.
fn element_name(prefix: &str, name: &str) -> String {
    let mut out = format!("{prefix}_");
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else {
            _ = write!(out, "_{:x}_", u32::from(c));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(graph: &str, interface: &str, vlan: Option<u16>) -> Attachment {
        Attachment {
            interface: interface.into(),
            vlan,
            to_graph: format!("{graph}-in"),
            from_graph: format!("{graph}-out"),
            graph: graph.into(),
        }
    }

    #[test]
    fn tags_go_off_inwards_and_on_outwards() {
        let text = lsi0(&[attachment("a", "eth1", Some(25)), attachment("b", "eth1", None)]);
        for line in [
            "1 in 0 => output 1",
            "2 in 0 vlan 25 => pop_vlan; output 2",
            "1 in 2 => push_vlan 25; output 0",
            "1 in 1 => output 0",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert_eq!(text.matches("FromDevice(eth1").count(), 1);
    }

    #[test]
    fn a_new_interface_does_not_rename_what_is_there() {
        let before = lsi0(&[attachment("b", "eth1", None)]);
        let after = lsi0(&[attachment("a", "eth0", None), attachment("b", "eth1", None)]);
        for line in ["dev_eth1_queue :: Queue(1000);", "sap_b_2d_in_out :: ToLink(b-in);"] {
            assert!(before.contains(line) && after.contains(line), "{line} is missing in\n{before}\n{after}");
        }
    }

    #[test]
    fn the_same_place_cannot_belong_to_two_graphs() {
        let both = [attachment("a", "eth1", Some(25)), attachment("b", "eth1", Some(25))];
        let found = conflicts(&both);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("VLAN 25 of interface eth1"), "{}", found[0]);
        assert!(conflicts(&[attachment("a", "eth1", Some(25)), attachment("b", "eth1", None)]).is_empty());
    }
}

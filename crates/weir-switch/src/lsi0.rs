//! LSI-0: the switch between the node's interfaces and the graphs (COMPOSER paper, section 5.2).
//!
//! Each service access point of a graph is an interface, or one VLAN of it. LSI-0 looks at nothing but the interface
//! and the VLAN tag, so tenants cannot reach each other through it, whatever addresses they use. It takes the tag
//! off what arrives for a `vlan` access point, and puts it on what leaves.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A service access point of a graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// Its name among the graph's elements.
    pub element: String,
    /// Interface of the node.
    pub interface: String,
    /// VLAN on it; `None` takes all that no other access point's VLAN is.
    pub vlan: Option<u16>,
    /// Link by which the graph gets what arrives, as the graph calls it.
    pub to_graph: String,
    /// Link by which it sends, as the graph calls it.
    pub from_graph: String,
    /// Identifier of the service access point.
    pub sap: String,
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

/// Attachments that want what another has: the later one is told.
pub fn conflicts<'a>(attachments: impl IntoIterator<Item = &'a Attachment>) -> Vec<Conflict> {
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

/// The configuration of LSI-0 for an interface. It names no access points: these are rows of its element
/// [`ACCESS_POINTS`], which come and go while it runs. Nor need the interface be there: it is taken when it comes.
pub fn lsi0(interface: &str) -> String {
    let dev = element_name("dev", interface);
    format!(
        "// LSI-0: dispatches the VLANs of {interface} to graphs.\n\
         {dev}_in :: FromDevice({interface}, PROMISC true, WAIT true) -> {ACCESS_POINTS} :: AccessPoints\n\
         -> {dev}_queue :: Queue(1000) -> {dev}_out :: ToDevice({interface}, WAIT true);\n"
    )
}

/// The element of LSI-0 that has the access points.
pub const ACCESS_POINTS: &str = "lsi";

impl Attachment {
    /// The link to the graph and the link from it, as the engine calls them.
    pub fn links(&self) -> (String, String) {
        (format!("{}/{}", self.graph, self.to_graph), format!("{}/{}", self.graph, self.from_graph))
    }
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
            element: "sap_l".into(),
            interface: interface.into(),
            vlan,
            to_graph: "l/in".into(),
            from_graph: "l/out".into(),
            sap: "l".into(),
            graph: graph.into(),
        }
    }

    #[test]
    fn the_configuration_depends_on_the_interface_alone_and_names_stand_for_one_each() {
        let text = lsi0("eth1.5");
        for part in ["dev_eth1_2e_5_queue :: Queue(1000)", "FromDevice(eth1.5, ", "lsi :: AccessPoints"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_ne!(element_name("dev", "a-b"), element_name("dev", "a.b"));
        let a = attachment("g", "eth1", None);
        assert_eq!(a.links(), ("g/l/in".to_owned(), "g/l/out".to_owned()));
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

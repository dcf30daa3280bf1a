//! Reading service access points.

use std::collections::HashMap;

use super::number::{ip, vlan};
use crate::doc::optional;
use crate::doc::{At, Kind, Reader, did_you_mean};
use crate::error::quote;
use crate::graph::{GreSap, HostStackSap, InterfaceSap, Sap, SapKind, VlanSap};
use crate::value::Id;

pub(super) fn sap(r: &mut Reader, at: &At<'_>) -> Option<Sap> {
    const TYPES: [&str; 4] = ["interface", "vlan", "gre", "host-stack"];
    // Only the section of its type belongs to a SAP, so the type is looked at first.
    let entries = r.map(at, "a map with \"id\", \"type\" and a section of that name")?;
    let type_at = entries.need(r, "type", "interface, vlan, gre or host-stack")?;
    let word = r.text(&type_at, "interface, vlan, gre or host-stack")?;
    let Some(section) = TYPES.into_iter().find(|t| *t == word) else {
        r.error(
            &type_at,
            format!("{} is not a type of service access point", quote(word)),
            did_you_mean(word, &TYPES),
        );
        return None;
    };
    r.known(&entries, &["id", "name", "type", section]);
    let id = entries
        .need(r, "id", "the service access point's identifier")
        .and_then(|at| r.parse(&at, "an identifier"));
    let name = optional(entries.get("name"), |at| r.parse(at, "a name"));
    let kind = match entries.get(section) {
        None if section == "host-stack" => Some(SapKind::HostStack { host_stack: HostStackSap::default() }),
        None => {
            r.error(
                at,
                format!("the field {section:?} is missing"),
                format!("a SAP of type {section:?} has a section {section:?}"),
            );
            None
        }
        Some(at) => sap_kind(r, &at, section),
    };
    Some(Sap { id: id?, name: name?, kind: kind? })
}

fn sap_kind(r: &mut Reader, at: &At<'_>, section: &str) -> Option<SapKind> {
    const NAME: &str = "an interface's name";
    match section {
        "interface" => {
            let f = r.fields(at, &["if-name"])?;
            let if_name = f.need(r, "if-name", NAME).and_then(|at| r.parse(&at, NAME));
            Some(SapKind::Interface { interface: InterfaceSap { if_name: if_name? } })
        }
        "vlan" => {
            let f = r.fields(at, &["vlan-id", "if-name"])?;
            let vlan_id = f.need(r, "vlan-id", "1 to 4094").and_then(|at| vlan(r, &at));
            let if_name = optional(f.get("if-name"), |at| r.parse(at, NAME));
            Some(SapKind::Vlan { vlan: VlanSap { vlan_id: vlan_id?, if_name: if_name? } })
        }
        "gre" => {
            let f = r.fields(at, &["local-ip", "remote-ip", "gre-key"])?;
            let local_ip = f.need(r, "local-ip", "this end's address").and_then(|at| ip(r, &at));
            let remote_ip = f.need(r, "remote-ip", "the other end's address").and_then(|at| ip(r, &at));
            let gre_key = optional(f.get("gre-key"), |at| r.number(at, "a GRE key", 0, u32::MAX));
            let gre = GreSap { local_ip: local_ip?, remote_ip: remote_ip?, gre_key: gre_key? };
            if gre.local_ip.is_ipv4() != gre.remote_ip.is_ipv4() {
                r.error(
                    at,
                    "one end has an IPv4 address, the other an IPv6 address",
                    "give both the same family",
                );
            }
            Some(SapKind::Gre { gre })
        }
        _ => {
            let f = r.fields(at, &["ip"])?;
            let ip = optional(f.get("ip"), |at| ip(r, at));
            Some(SapKind::HostStack { host_stack: HostStackSap { ip: ip? } })
        }
    }
}

/// Reports access points that stand for the same place.
pub(super) fn distinct_saps(r: &mut Reader, at: &At<'_>, saps: &[(usize, Sap)]) {
    let Kind::List(items) = &at.node.kind else { return };
    let mut seen: HashMap<String, &Id> = HashMap::new();
    for (i, sap) in saps {
        let place = match &sap.kind {
            SapKind::Interface { interface } => format!("the interface {}", interface.if_name),
            SapKind::Vlan { vlan: VlanSap { vlan_id, if_name: Some(name) } } => {
                format!("VLAN {vlan_id} of the interface {name}")
            }
            SapKind::Vlan { vlan: VlanSap { vlan_id, if_name: None } } => format!("VLAN {vlan_id}"),
            SapKind::Gre { gre } => {
                let key = gre.gre_key.map(|k| format!(" with key {k:#x}")).unwrap_or_default();
                format!("the GRE tunnel {} to {}{key}", gre.local_ip, gre.remote_ip)
            }
            SapKind::HostStack { host_stack: HostStackSap { ip } } => {
                format!("the host stack{}", ip.map(|ip| format!(" at {ip}")).unwrap_or_default())
            }
        };
        let Some(node) = items.get(*i) else { continue };
        if let Some(first) = seen.get(&place) {
            let message = format!("a second service access point for {place}");
            r.error(
                &at.index(*i, node),
                message,
                format!("{:?} stands for it already; use that one", first.as_str()),
            );
        } else {
            seen.insert(place, &sap.id);
        }
    }
}

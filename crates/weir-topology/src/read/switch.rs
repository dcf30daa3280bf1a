//! Switches.

use std::collections::HashSet;

use weir_filter::text::{parse_number, quote};
use weir_model::doc::{At, Fields, Reader, did_you_mean, optional};
use weir_model::value::VlanId;

use super::boxes::{is_map, port_name, port_names};
use super::links::ports_by_use;
use super::router::vlan;
use crate::{Forwarding, MAX_ENTRIES, MAX_PORTS, MacEntry, PortVlans, Switch, SwitchPort};

pub(crate) fn switch(r: &mut Reader, f: &Fields<'_>, used: Option<&Vec<Option<String>>>) -> Switch {
    let unaware = |name| SwitchPort { name, vlans: PortVlans::Unaware };
    let ports: Vec<SwitchPort> = match f.get("ports") {
        None => ports_by_use(used).into_iter().map(unaware).collect(),
        Some(at) if is_map(&at) => vlan_ports(r, &at),
        Some(at) => port_names(r, &at).into_iter().map(unaware).collect(),
    };
    let entries = f.get("macs").map(|at| macs(r, &at, &ports));
    let flood_unknown = f.get("unknown").map(|at| match r.text(&at, "flood or drop") {
        Some("drop") => false,
        Some("flood") | None => true,
        Some(other) => {
            r.error(&at, format!("{} is not known", quote(other)), "write flood or drop");
            true
        }
    });
    if let (None, Some(_), Some(at)) = (&entries, flood_unknown, f.get("unknown")) {
        r.error(
            &at,
            "\"unknown\" goes with a table",
            "add \"macs\"; a switch that learns floods what it does not know",
        );
    }
    let forwarding = match entries {
        None => Forwarding::Learning,
        Some(entries) => Forwarding::Table { entries, flood_unknown: flood_unknown.unwrap_or(true) },
    };
    Switch { ports, forwarding }
}

/// `{NAME: {vlan: N}}`, `{NAME: {trunk: [N, …], native: N}}`, `{NAME: }`.
fn vlan_ports(r: &mut Reader, at: &At<'_>) -> Vec<SwitchPort> {
    let Some(map) = r.map(at, "a map from ports to VLANs, or a list of ports") else { return Vec::new() };
    if map.entries.len() > MAX_PORTS {
        r.error(at, format!("{} ports", map.entries.len()), format!("at most {MAX_PORTS} are read"));
        return Vec::new();
    }
    let mut ports = Vec::new();
    for (name, node) in map.entries {
        let at = at.key(name, node);
        let Some(name) = port_name(r, &at, name) else { continue };
        let vlans = if node.is_null() { Some(PortVlans::Unaware) } else { port_vlans(r, &at) };
        ports.extend(vlans.map(|vlans| SwitchPort { name, vlans }));
    }
    ports
}

fn port_vlans(r: &mut Reader, at: &At<'_>) -> Option<PortVlans> {
    let f = r.fields(at, &["vlan", "trunk", "native"])?;
    match (f.get("vlan"), f.get("trunk")) {
        (Some(at), None) if f.get("native").is_none() => vlan(r, &at).map(PortVlans::Access),
        (None, Some(trunk)) => {
            let native = optional(f.get("native"), |at| vlan(r, at));
            let items = r.items(&trunk, "VLANs", 4094).unwrap_or_default();
            let tagged =
                items.iter().enumerate().filter_map(|(i, node)| vlan(r, &trunk.index(i, node))).collect();
            Some(PortVlans::Trunk { tagged, native: native? })
        }
        _ => {
            r.error(
                at,
                "a port is for one VLAN or a trunk",
                "write {vlan: 10}, or {trunk: [10, 20], native: 10}",
            );
            None
        }
    }
}

/// `MAC [vlan N] PORT` of each item.
fn macs(r: &mut Reader, at: &At<'_>, ports: &[SwitchPort]) -> Vec<MacEntry> {
    let items = r.items(at, "addresses", MAX_ENTRIES).unwrap_or_default();
    let mut entries = Vec::with_capacity(items.len());
    let mut seen = HashSet::new();
    let names: HashSet<&str> = ports.iter().map(|p| p.name.as_str()).collect();
    for (i, node) in items.iter().enumerate() {
        let at = at.index(i, node);
        let Some(entry) = mac_entry(r, &at, &names) else { continue };
        if !seen.insert((entry.mac, entry.vlan)) {
            r.error(&at, format!("a second entry for {}", entry.mac), "keep one");
        }
        entries.push(entry);
    }
    entries
}

fn mac_entry(r: &mut Reader, at: &At<'_>, ports: &HashSet<&str>) -> Option<MacEntry> {
    let text = r.text(at, "an entry such as \"02:00:00:00:00:01 vlan 10 p1\"")?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let vlan = |n: &str| parse_number(n).and_then(|n| VlanId::new(u16::try_from(n).ok()?));
    let (mac, vlan, port) = match words.as_slice() {
        [mac, port] => (*mac, Some(None), *port),
        [mac, "vlan", n, port] => (*mac, vlan(n).map(Some), *port),
        _ => ("", None, ""),
    };
    let (Ok(mac), Some(vlan)) = (mac.parse(), vlan) else {
        let help = "write \"MAC PORT\" or \"MAC vlan N PORT\", such as \"02:00:00:00:00:01 vlan 10 p1\"";
        r.error(at, format!("{} is not an entry of a switch's table", quote(text)), help);
        return None;
    };
    if !ports.contains(port) {
        let mut names: Vec<&str> = ports.iter().copied().collect();
        names.sort_unstable();
        r.error(at, format!("the switch has no port {}", quote(port)), did_you_mean(port, &names));
        return None;
    }
    Some(MacEntry { mac, vlan, port: port.to_string() })
}

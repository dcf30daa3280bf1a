//! What tunnels between nodes have, and documents cannot: names, numbers and VLANs.

use weir_api::domain::VlanUse;
use weir_api::members::{Encapsulation, LinkSettings};
use weir_api::problem::{Mistake, Problem};
use weir_model::graph::{GreSap, SapKind, ServiceGraph};

use crate::admit::refused;
use crate::split::{NUMBERS, Tunnel};
use crate::view::View;

/// What the controller makes itself is nobody else's.
pub(crate) fn reserved(graph: &ServiceGraph, view: &View) -> Result<(), Problem> {
    for (i, sap) in graph.saps.iter().enumerate() {
        let wrong = |message: String, help: &str| {
            let path = format!("sffg.saps[{i}]");
            let mistake = Mistake { path, message, help: help.into(), ..Mistake::default() };
            Err(refused("the document asks for what is the controller's").with([mistake]))
        };
        if sap.id.as_str().starts_with("tunnel-") {
            let text = format!("'{}' is a name of the tunnels between nodes", sap.id);
            return wrong(text, "choose one that does not begin with tunnel-");
        }
        if let SapKind::Vxlan { vxlan } = &sap.kind
            && NUMBERS.contains(&vxlan.vni)
        {
            let text = format!("VNI {} is one of the tunnels between nodes", vxlan.vni);
            return wrong(text, "use one below 8388608");
        }
        if let SapKind::Gre { gre: GreSap { gre_key: Some(key), .. } } = &sap.kind
            && NUMBERS.contains(key)
        {
            let text = format!("the GRE key {key:#x} is one of the tunnels between nodes");
            return wrong(text, "use one below 0x800000, or above 0xffffff");
        }
        if let SapKind::Vlan { vlan } = &sap.kind
            && let Some([a, b]) = vlan_of_tunnels(view, vlan.vlan_id.get())
        {
            let text = format!("VLAN {} is one of the tunnels between nodes '{a}' and '{b}'", vlan.vlan_id);
            return wrong(text, "use one that 'weir link set' does not give to tunnels");
        }
    }
    Ok(())
}

/// The nodes of the link whose tunnels may have a VLAN, or do.
fn vlan_of_tunnels(view: &View, vlan: u16) -> Option<[&String; 2]> {
    let may = |s: &LinkSettings| s.vlans.is_some_and(|[first, last]| (first..=last).contains(&vlan));
    let does = |t: &&Tunnel| t.encapsulation == Encapsulation::Vlan && t.number == u32::from(vlan);
    let link = view.declared.iter().find(|(_, s)| may(s)).map(|((a, b), _)| [a, b]);
    link.or_else(|| {
        let mut tunnels = view.graphs.values().flat_map(|g| &g.graph.tunnels);
        tunnels.find(does).map(|t| [&t.from, &t.to])
    })
}

/// A VLAN of these that an access point of a graph's document is, and the graph.
pub(crate) fn vlan_in_use(view: &View, [first, last]: [u16; 2]) -> Option<(u16, String)> {
    let ends = view.known.values().filter_map(|k| k.domain.as_ref()).flat_map(|d| &d.endpoints);
    let of_tunnel = |v: &VlanUse| {
        let tunnels = view.graphs.get(&v.graph).map_or(&[][..], |g| &g.graph.tunnels);
        tunnels.iter().any(|t| t.number == u32::from(v.vlan))
    };
    let mut used = ends.flat_map(|e| &e.vlans);
    let used = used.find(|v| (first..=last).contains(&v.vlan) && !of_tunnel(v))?;
    Some((used.vlan, used.graph.clone()))
}

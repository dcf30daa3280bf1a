//! What a node can have, by what it says of itself. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weir_api::domain::{Domain, DomainImage};
use weir_api::problem::{MistakeCode, Problem};
use weir_model::graph::{Function, Sap, SapKind, VlanSap};
use weir_model::value::Id;

/// The reason against an access point of a graph at a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPlace {
    #[error("it is cordoned")]
    Cordoned,
    #[error("it has no interface '{0}'")]
    NoInterface(String),
    /// Another graph has it, which not everybody may know.
    #[error("{}its interface '{interface}' is an access point of graph '{graph}'", of_vlan(*.vlan))]
    Taken { interface: String, vlan: Option<u16>, graph: String },
    #[error("it has not the address {0}")]
    NoAddress(IpAddr),
}

impl NoPlace {
    /// The code of a mistake with this reason.
    pub(crate) fn code(&self) -> Option<MistakeCode> {
        matches!(self, NoPlace::Taken { .. }).then_some(MistakeCode::AccessPointTaken)
    }

    /// The reason for those who may not know of other graphs.
    pub(crate) fn without_others(&self) -> String {
        match self {
            NoPlace::Taken { interface, .. } => format!("its interface '{interface}' is in use"),
            other => other.to_string(),
        }
    }
}

/// A problem without what it says of other graphs.
pub(crate) fn without_others(mut problem: Problem) -> Problem {
    problem.errors.retain(|e| e.code != Some(MistakeCode::AccessPointTaken));
    problem
}

fn of_vlan(vlan: Option<u16>) -> String {
    vlan.map_or(String::new(), |vlan| format!("VLAN {vlan} of "))
}

/// What speaks against an access point of a graph at a node, if anything does.
pub(crate) fn no_place(domain: &Domain, graph: &str, sap: &Sap) -> Option<NoPlace> {
    let interface = |name: &str, vlan: Option<u16>| {
        let Some(end) = domain.endpoints.iter().find(|e| e.interface == name) else {
            return Some(NoPlace::NoInterface(name.to_owned()));
        };
        let owner = match vlan {
            None => end.graph.as_ref(),
            Some(vlan) => end.vlans.iter().find(|v| v.vlan == vlan).map(|v| &v.graph),
        };
        let other = owner.filter(|owner| *owner != graph)?;
        Some(NoPlace::Taken { interface: name.to_owned(), vlan, graph: other.to_string() })
    };
    let address = |ip: IpAddr| {
        let text = ip.to_string();
        let same = |a: &String| a.split('/').next() == Some(&text);
        let there = domain.endpoints.iter().any(|e| e.addresses.iter().any(same));
        (!there).then_some(NoPlace::NoAddress(ip))
    };
    match &sap.kind {
        // Which ports of an address are taken, the node says when it gets the graph.
        SapKind::Interface { interface: i } if i.share.is_some() => {
            let there = domain.endpoints.iter().any(|e| e.interface == i.if_name.as_str());
            (!there).then(|| NoPlace::NoInterface(i.if_name.to_string()))
        }
        SapKind::Interface { interface: i } => interface(i.if_name.as_str(), None),
        SapKind::Vlan { vlan: VlanSap { if_name: Some(name), vlan_id } } => {
            interface(name.as_str(), Some(vlan_id.get()))
        }
        SapKind::Vlan { .. } | SapKind::HostStack { .. } => None,
        SapKind::Gre { gre } => address(gre.local_ip),
        SapKind::Vxlan { vxlan } => address(vxlan.local_ip),
    }
}

/// Why a node is not in the region that is asked for, if it is not.
pub(crate) fn other_region(domain: &Domain, wanted: Option<&Id>) -> Option<String> {
    let wanted = wanted?;
    match &domain.region {
        Some(region) if region == wanted.as_str() => None,
        Some(region) => Some(format!("it is in region '{region}', and '{wanted}' is asked for")),
        None => Some(format!("it says no region (weir node --region), and '{wanted}' is asked for")),
    }
}

/// What a node lacks for a function, if anything.
pub(crate) fn no_image(domain: &Domain, f: &Function) -> Option<String> {
    if let Some(word) = &f.capability {
        let known = domain.capabilities.iter().find(|c| c.capability == word.as_str());
        let can = known.is_some_and(|c| c.images.iter().any(|i| i.lack.is_none()));
        return (!can).then(|| format!("it has no image with the capability '{word}' that it can run"));
    }
    if f.click.is_some() {
        return None;
    }
    let image = f.template.as_ref().unwrap_or(&f.name).as_str();
    match domain.images.iter().find(|i| i.image == image) {
        None => Some(format!("it has no image '{image}'")),
        Some(i) => i.lack.as_ref().map(|lack| format!("it cannot run '{image}': {lack}")),
    }
}

/// The images that a function may be made from at a node.
fn images<'d>(domain: &'d Domain, f: &Function) -> impl Iterator<Item = &'d DomainImage> {
    let name = f.template.as_ref().unwrap_or(&f.name).as_str().to_owned();
    let asked = f.capability.as_ref();
    let capable = asked.and_then(|word| domain.capabilities.iter().find(|c| c.capability == word.as_str()));
    let (asks, script) = (asked.is_some(), f.click.is_some());
    domain.images.iter().filter(move |i| match capable {
        Some(c) => c.images.iter().any(|k| k.image == i.image),
        None => !asks && !script && i.image == name,
    })
}

/// Bytes of memory and thousandths of a processor that a function may come to take at most, where it is known.
pub(crate) fn needs(domain: &Domain, f: &Function) -> (u64, u32) {
    let each = images(domain, f).map(|i| (i.memory, i.cpu.unwrap_or(0)));
    each.fold((0, 0), |(memory, cpu), (m, c)| (memory.max(m), cpu.max(c)))
}

/// Whether a function is, or may be, made of functions.
pub(crate) fn is_composed(domain: &Domain, f: &Function) -> bool {
    images(domain, f).any(|i| i.kind == "graph")
}

/// The names of a function's parameters that are secrets, of each image that it can be.
pub(crate) fn secrets(domain: &Domain, f: &Function) -> BTreeSet<String> {
    images(domain, f).flat_map(|i| i.secrets.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use weir_api::problem::Mistake;

    use super::*;

    #[test]
    fn other_graphs_are_named_to_nobody_who_may_not_know_of_them() {
        let taken = NoPlace::Taken { interface: "lan".into(), vlan: None, graph: "secret".into() };
        assert!(taken.to_string().contains("secret"));
        assert_eq!(taken.without_others(), "its interface 'lan' is in use");
        let other = NoPlace::NoInterface("lan".into());
        assert_eq!(other.without_others(), other.to_string());
        let mistake = |what: &NoPlace| Mistake {
            path: "sffg.saps[0]".into(),
            message: what.to_string(),
            code: what.code(),
            ..Mistake::default()
        };
        let problem = Problem::new(axum::http::StatusCode::CONFLICT, "it cannot be there");
        let said = without_others(problem.with([mistake(&taken), mistake(&other)])).to_string();
        assert!(said.contains("no interface 'lan'") && !said.contains("secret"), "{said}");
    }
}

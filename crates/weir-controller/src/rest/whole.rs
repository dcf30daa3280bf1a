//! What the nodes of a graph say, as of one graph: the tunnels between them are left out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weir_api::plan::{self, Changes, Plan};
use weir_api::status::{GraphStatus, LinkStatus, State};

use crate::split::Tunnel;
use crate::store::DomainGraph;

/// The places of tunnels begin so.
const TUNNEL: &str = "sap:tunnel-";

fn number(place: &str) -> Option<u32> {
    u32::from_str_radix(place.strip_prefix(TUNNEL)?, 16).ok()
}

/// Adds what another node says of the same graph.
pub(super) fn add(all: &mut GraphStatus, more: GraphStatus) {
    all.functions.extend(more.functions);
    all.links.extend(more.links);
    all.saps.extend(more.saps);
    all.drops.extend(more.drops);
    all.profile.extend(more.profile);
    all.flows.extend(more.flows);
    all.drift.extend(more.drift);
    // One of its nodes does all of a graph's monitoring.
    all.monitoring = all.monitoring.take().or(more.monitoring);
    for warning in more.warnings {
        if !all.warnings.contains(&warning) {
            all.warnings.push(warning);
        }
    }
    if badness(&more.state) > badness(&all.state) {
        all.state = more.state;
    }
}

/// How bad a state is, of the parts of one graph.
pub(super) fn badness(state: &State) -> u8 {
    match state {
        State::Failed { .. } => 4,
        State::Degraded { .. } => 3,
        State::Stopped | State::Bypass => 2,
        State::Starting => 1,
        State::Running | State::Idle => 0,
    }
}

/// Links over tunnels lead where the tunnel does: what enters one counts, not what comes out at its other end.
pub(super) fn join_links(links: Vec<LinkStatus>, tunnels: &[Tunnel]) -> Vec<LinkStatus> {
    let mut joined: BTreeMap<(String, String), LinkStatus> = BTreeMap::new();
    let mut order = Vec::new();
    for link in links {
        let of = |place: &str| number(place).and_then(|n| tunnels.iter().find(|t| t.number == n));
        if of(&link.from).is_some() {
            continue;
        }
        let tunnel = of(&link.to);
        let to = tunnel.map_or(link.to, |t| t.place.clone());
        let key = (link.from.clone(), to.clone());
        match joined.get_mut(&key) {
            Some(known) => {
                known.packets += link.packets;
                known.bytes += link.bytes;
            }
            None => {
                order.push(key.clone());
                _ = joined.insert(key, LinkStatus { to, ..link });
            }
        }
    }
    order.iter().filter_map(|key| joined.remove(key)).collect()
}

/// What a new document changes of an old one, in one of its lists.
fn changes(before: Option<&Value>, after: &Value, list: &str) -> Changes {
    fn by_id<'a>(document: Option<&'a Value>, list: &str) -> BTreeMap<&'a str, &'a Value> {
        let items = document.and_then(|d| d.get(list)).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(|v| Some((v.get("id")?.as_str()?, v))).collect()
    }
    let (before, after) = (by_id(before, list), by_id(Some(after), list));
    let names = |of: Vec<&str>| of.into_iter().map(str::to_owned).collect();
    Changes {
        added: names(after.keys().filter(|id| !before.contains_key(*id)).copied().collect()),
        removed: names(before.keys().filter(|id| !after.contains_key(*id)).copied().collect()),
        changed: names(
            after
                .iter()
                .filter(|(id, v)| before.get(*id).is_some_and(|b| b != *v))
                .map(|(id, _)| *id)
                .collect(),
        ),
    }
}

/// The plans of the nodes of a graph, as of one graph. What is treated differently between places is not known across nodes.
pub(super) fn plan(before: Option<&DomainGraph>, after: &DomainGraph, plans: Vec<Plan>) -> Option<Plan> {
    let several = plans.len() > 1;
    let mut plans = plans.into_iter();
    let mut all = plans.next()?;
    let mut functions: BTreeSet<String> = all.functions.changed.iter().cloned().collect();
    for more in plans {
        all.tables.extend(more.tables);
        all.choices.extend(more.choices);
        all.warnings.extend(more.warnings);
        functions.extend(more.functions.changed);
        if all.action == plan::Action::None {
            all.action = more.action;
        }
    }
    all.action = match (before, all.action) {
        (None, _) => plan::Action::Create,
        (Some(_), plan::Action::Create) => plan::Action::Change,
        (Some(_), action) => action,
    };
    if several || before.is_some_and(|b| b.parts.len() > 1) {
        let before = before.map(|b| &b.document);
        all.functions = changes(before, &after.document, "SFs");
        // A function is also another one when its image is: that its node knows.
        let known: BTreeSet<&String> = all.functions.added.iter().chain(&all.functions.changed).collect();
        let more: Vec<String> = functions.into_iter().filter(|f| !known.contains(f)).collect();
        all.functions.changed.extend(more);
        all.saps = changes(before, &after.document, "saps");
        all.rules = changes(before, &after.document, "flowrules");
        let note = "which packets a graph over several nodes treats differently is not computed";
        all.traffic = plan::Traffic { unknown: vec![note.into()], ..plan::Traffic::default() };
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(from: &str, to: &str, packets: u64) -> LinkStatus {
        LinkStatus { from: from.into(), to: to.into(), packets, bytes: packets * 100, direct: None }
    }

    #[test]
    fn links_over_tunnels_are_links_between_their_ends() {
        let tunnel = |number, place: &str| Tunnel {
            from: "n1".into(),
            to: "n2".into(),
            place: place.into(),
            origin: "n1".into(),
            end: "n2".into(),
            number,
            encapsulation: weir_api::members::Encapsulation::Vxlan,
        };
        let tunnels = [tunnel(0x80_0001, "sf:fw:in"), tunnel(0x80_0002, "sap:b")];
        let links = vec![
            link("sap:a", "sap:tunnel-800001", 5),
            link("sap:tunnel-800001", "sf:fw:in", 4),
            link("sf:fw:out", "sap:tunnel-800002", 3),
            link("sap:a", "sap:c", 1),
        ];
        let joined = join_links(links, &tunnels);
        assert_eq!(
            joined,
            [link("sap:a", "sf:fw:in", 5), link("sf:fw:out", "sap:b", 3), link("sap:a", "sap:c", 1)]
        );
    }
}

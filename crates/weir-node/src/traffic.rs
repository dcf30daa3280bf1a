//! What a change of a graph does to its traffic.

use std::time::Duration;

use weir_api::plan::{Flow, Traffic};
use weir_check::report::{Changes, Fated, Treated};
use weir_check::{Extent, World};
use weir_model::graph::ServiceGraph;
use weir_plan::{Classes, Plan};
use weir_verify::Limits;

use crate::desired::DesiredGraph;

/// How long is looked for differences.
const TIME: Duration = Duration::from_secs(2);
/// Most classes of traffic that are told.
const CLASSES: usize = 32;
/// Most paths of packets from an access point that are looked at.
const PATHS: usize = 1024;

/// What the change from `old`, if there is one, to `new` does. It takes some seconds at most; what was not compared by then
/// is told.
pub fn between(old: Option<&DesiredGraph>, new: &DesiredGraph) -> Traffic {
    match worlds(old, new) {
        Ok((before, after)) => {
            let limits = Limits { paths: PATHS, time: Some(TIME), ..Limits::of_networks() };
            let extent = Extent { limits, classes: CLASSES };
            of(&Changes::between(("now", &before), ("planned", &after), extent))
        }
        Err(e) => {
            Traffic { unknown: vec![format!("the traffic was not compared: {e}")], ..Traffic::default() }
        }
    }
}

fn of(changes: &Changes) -> Traffic {
    let mut t = Traffic::default();
    for d in changes.differences.iter().filter(|d| d.well_formed) {
        let at = |list: &[Fated]| -> Vec<String> {
            list.iter().filter_map(|f| f.arrival().map(str::to_owned)).collect()
        };
        let (before, after) = (at(&d.before), at(&d.after));
        let add = |list: &mut Vec<Flow>, to: &String| {
            // The first packet of a pair is enough.
            if !list.iter().any(|f| f.from == d.place && f.to == *to) {
                list.push(flow(d, to));
            }
        };
        after.iter().filter(|to| !before.contains(to)).for_each(|to| add(&mut t.gained, to));
        before.iter().filter(|to| !after.contains(to)).for_each(|to| add(&mut t.lost, to));
        after.iter().filter(|to| before.contains(to)).for_each(|to| add(&mut t.altered, to));
    }
    t.malformed = changes.malformed();
    for name in &changes.open {
        t.unknown.push(format!("there was no time to compare packets from {name}"));
    }
    if changes.more {
        t.unknown.push(format!("there may be more: only {} classes are told", changes.differences.len()));
    }
    t.unknown.extend(changes.reason.iter().map(|r| format!("there may be more: {r}")));
    t
}

fn text(list: &[Fated]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", and ")
}

fn flow(d: &Treated, to: &str) -> Flow {
    let last = d.packets.last();
    Flow {
        from: d.place.clone(),
        to: to.to_owned(),
        packet: last.map(|p| p.summary.clone()).unwrap_or_default(),
        hex: last.map(|p| p.hex.clone()).unwrap_or_default(),
        before: text(&d.before),
        after: text(&d.after),
    }
}

/// The present graph and the planned one. Without a present one nothing arrives; access points that only one of them has
/// take packets in both.
fn worlds(old: Option<&DesiredGraph>, new: &DesiredGraph) -> Result<(World, World), String> {
    let mut after = world(new)?;
    let mut before = match old {
        Some(old) => world(old)?,
        None => World::default(),
    };
    let (old_ways, new_ways) = (before.entries(), after.entries());
    before.add_entries(&new_ways);
    after.add_entries(&old_ways);
    Ok((before, after))
}

/// A graph that is or may be run, as a network.
fn world(graph: &DesiredGraph) -> Result<World, String> {
    let text = serde_json::json!({ "sffg": graph.whole() }).to_string();
    let document = ServiceGraph::parse(&text).map_err(|e| e.to_string())?;
    let classes = Classes::with(weir_switch::CLASSES.iter().copied());
    let plan = Plan::new(&classes, &graph.switch.config, &graph.id).map_err(|e| e.to_string())?;
    World::of_graph(&document, &graph.names(), &plan).map_err(|list| list.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{desired, wire};

    fn told(list: &[Flow]) -> Vec<(&str, &str)> {
        list.iter().map(|f| (f.from.as_str(), f.to.as_str())).collect()
    }

    #[test]
    fn a_graph_that_is_new_makes_its_access_points_reachable() {
        let new = desired(&wire("a", "eth1", "eth2"));
        let t = between(None, &new);
        assert_eq!(told(&t.gained), [("l", "r"), ("r", "l")], "{t:?}");
        assert!(t.lost.is_empty() && t.altered.is_empty() && t.unknown.is_empty(), "{t:?}");
        assert!(!t.gained[0].hex.is_empty() && t.gained[0].after == "arrives at r", "{t:?}");
    }

    #[test]
    fn what_is_the_same_is_not_told() {
        let graph = desired(&wire("a", "eth1", "eth2"));
        assert!(between(Some(&graph), &graph).is_empty());
    }

    #[test]
    fn a_rule_that_goes_takes_its_traffic_with_it() {
        let text = wire("a", "eth1", "eth2");
        let old = desired(&text);
        let back = text.lines().find(|l| l.contains("port_in: 'sap:r'")).unwrap();
        let new = desired(&text.replace(back, ""));
        let t = between(Some(&old), &new);
        assert_eq!(told(&t.lost), [("r", "l")], "{t:?}");
        assert!(t.gained.is_empty() && t.altered.is_empty(), "{t:?}");
        assert_eq!(told(&between(Some(&new), &old).gained), [("r", "l")]);
    }
}

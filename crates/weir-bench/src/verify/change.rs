//! How long it takes to ask again after a rule changed.

use std::time::Instant;

use weir_check::{Answer, Status, Watch, World};
use weir_model::requirement::Requirement;
use weir_plan::Classes;
use weir_topology::Topology;
use weir_verify::{Limits, NodeId};

use super::{Verification, texts};
use crate::stats::Spread;
use anyhow::{Context, Result, anyhow, ensure};

/// Boxes of the network.
const BOXES: usize = 1000;
/// Milliseconds that it must not take.
const TARGET: f64 = 1.0;

/// Measures: a router gets a route and loses it, in a network that stays.
pub(super) fn measure(samples: usize) -> Result<Vec<Verification>> {
    let client = BOXES / 2 - 1;
    // The last client's router stands below routers 62, 7 and 0.
    let (can, only) = (format!("can internet c{client} udp dst port 1500"), texts::only(client));
    [
        (format!("a route of a router on the way: {can}"), &can, 62),
        (format!("a route of another router: {can}"), &can, 61),
        (format!("a route of a router that packets come to: {only}"), &only, 61),
    ]
    .into_iter()
    .map(|(name, question, router)| one(&name, question, router, samples))
    .collect()
}

fn one(name: &str, question: &str, router: usize, samples: usize) -> Result<Verification> {
    let classes = Classes::default();
    let text = texts::access_network(BOXES);
    let (mut world, other) = (world(&text, &classes)?, world(&texts::with_route(&text, router)?, &classes)?);
    let node = |w: &World| w.net.nodes().iter().position(|n| n.name == format!("r{router}"));
    let (here, there) = node(&world).zip(node(&other)).context("the router is a node")?;
    let programs = [(&other, there), (&world, here)].map(|(w, n)| w.net.node(n as NodeId).program().cloned());
    let requirement = Requirement::parse(question).map_err(|e| anyhow!("{e}"))?;
    let limits = Limits { paths: 1 << 20, ..Limits::of_networks() };
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for program in programs.iter().flatten().cycle().take(samples) {
        let question = world.question(&requirement).map_err(|e| anyhow!("{e}"))?;
        world.net.finish();
        let start = Instant::now();
        let mut watch = Watch::new(&world, question, limits);
        first.push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        world.net.replace_program(here as NodeId, program, 0);
        watch.renew(&world, limits);
        again.push(start.elapsed().as_secs_f64() * 1e3);
        let Answer { status, doubt, kept, .. } = &watch.answer;
        ensure!(*status == Status::Holds && *kept, "{name}: {status} ({doubt:?})");
    }
    Ok(Verification {
        name: format!("access network of {BOXES} boxes, {name}"),
        build: Spread::of(first),
        ask: Spread::of(again),
        target: Some(TARGET),
        whole: None,
        first: None,
        peak: None,
        reference: None,
    })
}

fn world(text: &str, classes: &Classes) -> Result<World> {
    let topology = Topology::parse(text).map_err(|e| anyhow!("{e}"))?;
    World::of_topology(&topology, classes, |_, _| false).map_err(|e| anyhow!(e.join("\n")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_route_more_changes_no_answer() {
        super::measure(2).unwrap();
    }
}

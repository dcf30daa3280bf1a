//! How long it takes to find where packets of one port of a network come to: all ports of the network are looked at.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use weir_check::World;
use weir_plan::Classes;
use weir_topology::Topology;
use weir_verify::checks::Start;
use weir_verify::{Limits, Session, SymbolicInput};

use crate::stats::Spread;
use crate::verify::Verification;
use anyhow::{Context, Result, anyhow, ensure};

/// Milliseconds that it must not take on the Stanford backbone.
const TARGET: f64 = 5.0;
/// First byte of IPv4 packets without options: headers of header space analysis have none.
const NO_OPTIONS: u8 = 0x45;

/// Measures a topology: from the first port of each box where packets begin to all ports.
pub fn measure(file: &Path, samples: usize) -> Result<Vec<Verification>> {
    let classes = Classes::default();
    let mut builds = Vec::new();
    let mut made = None;
    for _ in 0..samples {
        let start = Instant::now();
        let topology = load(file)?;
        let world = World::of_topology(&topology, &classes, |_, _| false)
            .map_err(|e| anyhow!("{}: {}", file.display(), e.join("\n")))?;
        builds.push(start.elapsed().as_secs_f64() * 1e3);
        made = Some((topology, world));
    }
    let (topology, world) = made.context("no samples")?;
    let targets: HashSet<_> = world
        .locations
        .iter()
        .flat_map(|s| &s.edge_ports)
        .filter_map(|g| g.target)
        .map(|t| t.place)
        .collect();
    let firsts: Vec<(String, &Start)> = world
        .locations
        .iter()
        .filter_map(|s| {
            s.edge_ports.iter().find_map(|g| Some((format!("{}:{}", s.name, g.name), g.start.as_ref()?)))
        })
        .collect();
    let (mut asks, mut most) = (Vec::new(), (0, 0));
    for (name, start) in &firsts {
        let mut best = f64::INFINITY;
        for _ in 0..samples {
            let begin = Instant::now();
            let mut session = Session::new(&world.net, Limits { paths: 1 << 20, ..Limits::of_networks() });
            let input = SymbolicInput { bytes: vec![NO_OPTIONS], ..start.input.clone() };
            let story = session.packet(&session.blank(), start.place, &input);
            let (mut places, mut paths) = (HashSet::new(), 0);
            session.arrivals(story.into_iter().collect(), &targets, |arrival| {
                places.insert(arrival.place);
                paths += 1;
            });
            best = best.min(begin.elapsed().as_secs_f64() * 1e3);
            let why = session.take_incomplete();
            ensure!(why.is_none(), "{name}: {}", why.map_or(String::new(), |w| w.to_string()));
            most = most.max((paths, places.len()));
        }
        eprintln!("{name}: {best:.2} ms");
        asks.push(best);
    }
    let rules: usize = topology
        .boxes
        .iter()
        .map(|b| match &b.kind {
            weir_topology::BoxKind::Transfer(t) => t.function.rules.len(),
            _ => 0,
        })
        .sum();
    Ok(vec![Verification {
        name: format!(
            "{}: {} boxes, {} links, {rules} rules: from a port to all (by up to {} paths to {} ports)",
            topology.name.as_ref().map_or("network", |n| n.as_str()),
            topology.boxes.len(),
            topology.links.len(),
            most.0,
            most.1
        ),
        build: Spread::of(builds),
        ask: Spread::of(asks),
        target: Some(TARGET),
        whole: None,
        first: None,
        peak: None,
        reference: None,
    }])
}

/// Reads the topology.
pub fn load(file: &Path) -> Result<Topology> {
    Topology::load(file).map_err(|e| {
        let source = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
        anyhow!("{e}: {source}")
    })
}

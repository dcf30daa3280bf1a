//! Requests on the platforms of a topology.

use std::path::Path;

use serde::Serialize;
use weir_check::report::Report;
use weir_check::{Status, World};
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_model::topology::{BoxKind, Topology};

use super::{Args, ask, document, exit, painted};
use crate::commands::classes;
use crate::ui::{Failure, Ui};

/// What was found on each platform.
#[derive(Serialize)]
struct Placements {
    /// The platforms on which everything holds.
    platforms: Vec<String>,
    reports: Vec<Report>,
}

/// Tries a request on each platform; it succeeds if one meets the request's requirements and the operator's.
pub(super) fn run(args: &Args, topology: &Path, given: &[Requirement], ui: &Ui) -> Result<(), Failure> {
    let (text, name) = args.config.click()?;
    let refuse = |e: &dyn std::fmt::Display| {
        Failure::Refused(e.to_string().lines().map(|l| format!("{name}: {l}")).collect())
    };
    let request = Request::parse(&text).map_err(|e| refuse(&e))?;
    let topology: Topology = document::load_topology(topology, &args.what_if)?;
    let all: Vec<Requirement> =
        request.requirements.iter().chain(given).chain(&topology.requirements).cloned().collect();
    let platforms = topology.boxes.iter().filter(|b| matches!(b.kind, BoxKind::Platform(_)));
    let mut found = Placements { platforms: Vec::new(), reports: Vec::new() };
    for platform in platforms {
        let down = |a: &_, b: &_| args.what_if.iter().any(|c| c.cuts(a, b));
        let placed = (&request, name.as_str());
        let mut world = World::of_placement(&topology, placed, &platform.name, &classes(), down)
            .map_err(Failure::Refused)?;
        let report = ask(&format!("{name} on {}", platform.name), &mut world, &all, ui)?;
        if report.verdict == Status::Holds {
            found.platforms.push(platform.name.clone());
        }
        found.reports.push(report);
    }
    let verdict = match found.reports.iter().map(|r| r.verdict).min() {
        Some(best) => best,
        None => return Err(Failure::refused("the topology has no platform: give a box of kind platform")),
    };
    ui.print(&found, || {
        let mut text: String = found.reports.iter().map(|r| painted(r, ui) + "\n").collect();
        text += &match found.platforms.as_slice() {
            [] => "no platform meets all requirements\n".to_owned(),
            names => format!("all requirements hold on {}\n", names.join(", ")),
        };
        text
    })?;
    exit(verdict)
}

//! Requests on the platforms of a topology.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use weir_check::report::Report;
use weir_check::{Modules, Party, Status, World};
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_topology::{BoxKind, NetBox, Topology};

use super::{Args, ask, document, exit, painted};
use crate::commands::classes;
use crate::ui::{Failure, Ui};

/// The results for each platform.
#[derive(Serialize)]
struct Placements {
    /// The platforms on which everything holds.
    platforms: Vec<String>,
    reports: Vec<Report>,
}

/// Tries a request on each platform; it succeeds if one meets the request's requirements and the operator's.
pub(super) fn run(args: &Args, topology: &Path, given: &[Requirement], ui: &Ui) -> Result<(), Failure> {
    let source = args.config.one()?;
    let (text, name) = source.text()?;
    source.no_parameters(&name)?;
    let refuse = |e: &dyn std::fmt::Display| {
        Failure::Refused(e.to_string().lines().map(|l| format!("{name}: {l}")).collect())
    };
    let request = Request::parse(&text).map_err(|e| refuse(&e))?;
    let topology: Topology = document::load_topology(topology, &args.what_if)?;
    let all: Vec<Requirement> =
        request.requirements.iter().chain(given).chain(&topology.requirements).cloned().collect();
    let party = args.owner.as_ref().map(|name| party(name, &topology)).transpose()?;
    let platforms = topology.boxes.iter().filter(|b| matches!(b.kind, BoxKind::Platform(_)));
    let down = |a: &_, b: &_| args.what_if.iter().any(|c| c.cuts(a, b));
    let network = World::of_topology(&topology, &classes(), down).map_err(Failure::Refused)?;
    let modules = Modules::new(&classes(), &request, &name).map_err(Failure::Refused)?;
    let mut found = Placements { platforms: Vec::new(), reports: Vec::new() };
    for platform in platforms {
        let mut world =
            network.with_modules(&modules, &platform.name, &BTreeSet::new()).map_err(Failure::Refused)?;
        let mut answers = ask(&mut world, &all, args.limits(), ui)?;
        match &party {
            Some(party) => {
                ui.progress("security");
                answers.extend(world.security(party, &topology.policy, args.limits()));
            }
            None if !request.modules.is_empty() => world.notes.push(UNCHECKED.to_owned()),
            None => {}
        }
        let report = Report::new(&format!("{name} on {}", platform.name), &world, &answers);
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

/// Said of modules that nobody asked for.
const UNCHECKED: &str = "the security rules are not checked: say by --owner who asks";

/// The owner of that name.
fn party(name: &str, topology: &Topology) -> Result<Party, Failure> {
    let Some(owner) = topology.owners.iter().find(|o| o.name.as_str() == name) else {
        let names = || topology.owners.iter().map(|o| o.name.as_str());
        let help = match (weir_filter::text::closest(name, names()), names().collect::<Vec<_>>()) {
            (Some(near), _) => format!("did you mean '{near}'?"),
            (None, known) if known.is_empty() => "it has no section 'owners'".to_owned(),
            (None, known) => format!("known: {}", known.join(", ")),
        };
        return Err(Failure::refused(format!("the topology knows no owner '{name}': {help}")));
    };
    let is_module =
        |b: &&NetBox| matches!(b.kind, BoxKind::Click(_)) && b.owner.as_ref() == Some(&owner.name);
    let modules = topology.boxes.iter().filter(is_module).flat_map(NetBox::owns).collect();
    Ok(Party { role: owner.role, registered: owner.registered.clone(), modules })
}

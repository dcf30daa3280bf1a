//! Proving a request on the platforms that could take it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use axum::http::StatusCode;
use weir_api::problem::{Mistake, Problem};
use weir_api::requests::{RequestFinding, Verdict};
use weir_check::report::{Finding, Report};
use weir_check::{Answer, Modules, Party, Status};
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_topology::Inconclusive;
use weir_verify::Limits;

use super::module::script;
use super::offer::{Access, Offer};

/// A platform that could take a request.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// The access point that it has left.
    pub access: Access,
    /// Addresses that others have.
    pub taken: BTreeSet<IpAddr>,
}

/// A request on a platform where all holds.
#[derive(Debug)]
pub struct Proved {
    /// The platform.
    pub name: String,
    /// Its access point.
    pub access: Access,
    /// The modules with their addresses.
    pub addresses: Vec<(String, IpAddr)>,
    /// What was found.
    pub findings: Vec<RequestFinding>,
    /// What runs the modules; nothing if there are none.
    pub script: Option<String>,
}

fn refused(text: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

/// The first platform where the security rules, the request's requirements and the operator's hold.
///
/// # Errors
/// What is wrong with the request, or what does not hold on which platform.
pub fn prove(
    offer: &Offer,
    request: &Request,
    party: &Party,
    candidates: &[Candidate],
    mut against: Vec<Mistake>,
) -> Result<Proved, Problem> {
    let wrong =
        |list: Vec<String>| refused("the request cannot be run").with(list.into_iter().map(Mistake::from));
    let modules = Modules::new(&offer.classes, request, "request").map_err(wrong)?;
    let sandbox = offer.topology.policy.rules(party.role).inconclusive == Inconclusive::Sandbox;
    for candidate in candidates {
        let world = offer.network.with_modules(&modules, &candidate.name, &candidate.taken);
        let mut world = match world {
            Ok(world) => world,
            Err(why) => {
                against.extend(why.into_iter().map(|w| on(&candidate.name, "", w)));
                continue;
            }
        };
        let all: Vec<Requirement> =
            request.requirements.iter().chain(&offer.topology.requirements).cloned().collect();
        let (mut questions, mut unclear) = (Vec::new(), Vec::new());
        for r in &all {
            match world.question(r) {
                Ok(q) => questions.push(q),
                Err(e) => unclear.push(e.to_string()),
            }
        }
        if !unclear.is_empty() {
            return Err(wrong(unclear));
        }
        let limits = Limits::of_networks();
        let mut answers: Vec<Answer> = world.security(party, &offer.topology.policy, limits);
        answers.extend(world.answers(&questions, limits, &|_| {}));
        let report = Report::new("request", &world, &answers);
        let addresses: Vec<(String, IpAddr)> =
            world.module_addresses().map(|(name, a)| (name.to_owned(), a)).collect();
        if report.verdict != Status::Holds {
            let bad = report.findings.iter().filter(|f| f.verdict != Status::Holds);
            against.extend(bad.map(|f| not_held(&candidate.name, f, sandbox)));
            continue;
        }
        let gateway = offer.platforms.get(&candidate.name).map(|p| p.gateway);
        let script = match (gateway, request.modules.is_empty()) {
            (Some(gateway), false) => {
                Some(script(request, &addresses, gateway, &offer.classes).map_err(wrong)?)
            }
            _ => None,
        };
        return Ok(Proved {
            name: candidate.name.clone(),
            access: candidate.access.clone(),
            addresses,
            findings: report.findings.iter().map(finding).collect(),
            script,
        });
    }
    let text = "the request was refused: there is no platform where all holds; nothing was started";
    Err(refused(text).with(against))
}

fn verdict(status: Status) -> Verdict {
    match status {
        Status::Holds => Verdict::Holds,
        Status::Violated => Verdict::Violated,
        Status::Inconclusive => Verdict::Inconclusive,
    }
}

fn packet(f: &Finding) -> Option<String> {
    let packets: Vec<String> = f.packets.iter().map(|p| format!("{} at {}", p.summary, p.place)).collect();
    (!packets.is_empty()).then(|| packets.join("; then "))
}

fn finding(f: &Finding) -> RequestFinding {
    RequestFinding {
        requirement: f.requirement.clone(),
        verdict: verdict(f.verdict),
        reason: f.reason.clone(),
        packet: packet(f),
    }
}

/// What speaks against a platform.
pub fn on(platform: &str, requirement: &str, message: String) -> Mistake {
    let path = match requirement {
        "" => format!("platform {platform}"),
        requirement => format!("platform {platform}, {requirement}"),
    };
    Mistake { path, message, ..Mistake::default() }
}

fn not_held(platform: &str, f: &Finding, sandbox: bool) -> Mistake {
    let shown = packet(f).map_or(String::new(), |p| format!(": {p}"));
    let mistake = on(platform, &f.requirement, format!("{}: {}{shown}", verdict(f.verdict).name(), f.reason));
    let help = match f.verdict {
        Status::Inconclusive if sandbox => {
            "the operator's policy says to sandbox what cannot be decided; that cannot be done yet, so it is refused"
        }
        Status::Inconclusive => "what cannot be decided is refused",
        _ => "",
    };
    Mistake { help: help.into(), ..mistake }
}

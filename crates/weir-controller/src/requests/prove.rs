//! Proving a request on the platforms that could take it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use weir_api::problem::{Mistake, Problem};
use weir_api::requests::{RequestFinding, Verdict};
use weir_check::report::{Finding, Report};
use weir_check::{Modules, Party, Status};
use weir_model::request::Request;
use weir_topology::Inconclusive;
use weir_verify::Limits;

use super::module::{Place, Runs, runs};
use super::offer::{Access, Offer};
use super::sandbox::{self, Sandbox};
use super::stock::unknown;

/// A platform that could take a request.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// The access point that it has left.
    pub access: Access,
    /// Addresses that others have.
    pub taken: BTreeSet<IpAddr>,
    /// The request with the ports that it has there, if it shares an address.
    pub request: Option<Arc<Request>>,
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
    pub runs: Option<Runs>,
    /// The modules that run in sandboxes.
    pub sandboxes: BTreeMap<String, Sandbox>,
}

fn refused(text: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

/// The first platform where the security rules, the request's requirements and the operator's hold. Modules of which the security rules are not proved
/// run in sandboxes, if the operator's policy says so.
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
    let unknown = unknown(request, &offer.images);
    fn modules<'r>(
        offer: &Offer,
        request: &'r Request,
        unknown: &BTreeMap<String, String>,
        access: Option<&Access>,
    ) -> Result<Modules<'r>, Problem> {
        let mut modules =
            Modules::with_unknown(&offer.classes, request, "request", unknown).map_err(wrong)?;
        if let Some(share) = access.and_then(|a| a.share) {
            modules.at_share(&offer.classes, share).map_err(wrong)?;
        }
        Ok(modules)
    }
    let everywhere = modules(offer, request, &unknown, None)?;
    let rules = offer.topology.policy.rules(party.role);
    for candidate in candidates {
        // What it says may be other ports at each.
        let request = candidate.request.as_deref().unwrap_or(request);
        let here = || modules(offer, request, &unknown, Some(&candidate.access));
        let own = candidate.access.share.map(|_| here()).transpose()?;
        let plain = own.as_ref().unwrap_or(&everywhere);
        let world = match offer.network.with_modules(plain, &candidate.name, &candidate.taken) {
            Ok(world) => world,
            Err(why) => {
                against.extend(why.into_iter().map(|w| on(&candidate.name, "", w)));
                continue;
            }
        };
        let limits = Limits::of_networks();
        let answers = world.security(party, &offer.topology.policy, limits);
        let security = Report::new("request", &world, &answers).findings;
        let addresses: Vec<(String, IpAddr)> =
            world.module_addresses().map(|(name, a)| (name.to_owned(), a)).collect();
        // There is one answer for each module, in their order.
        let names = request.modules.iter().zip(&security).filter(|(_, f)| f.verdict != Status::Holds);
        let which: BTreeSet<String> = names.map(|(m, _)| m.name.clone()).collect();
        let (mut world, mut sandboxes) = (world, BTreeMap::new());
        if !which.is_empty() && rules.inconclusive == Inconclusive::Sandbox {
            match sandbox::sandboxes(request, &which, (rules, party), &addresses, &offer.images) {
                Ok(found) => sandboxes = found,
                Err(why) => against.extend(why.into_iter().map(|w| on(&candidate.name, "", w))),
            }
        }
        if !sandboxes.is_empty() {
            let mut within = here()?;
            let elements = sandboxes.iter().map(|(name, s)| (name.clone(), s.enforcer.element())).collect();
            within.behind(&offer.classes, &elements).map_err(wrong)?;
            let placed = offer.network.with_modules(&within, &candidate.name, &candidate.taken);
            world = placed.map_err(wrong)?;
        }
        let all = request.requirements.iter().chain(&offer.topology.requirements);
        let (mut questions, mut unclear) = (Vec::new(), Vec::new());
        for r in all {
            match world.question(r) {
                Ok(q) => questions.push(q),
                Err(e) => unclear.push(e.to_string()),
            }
        }
        if !unclear.is_empty() {
            return Err(wrong(unclear));
        }
        let answers = world.answers(&questions, limits, &|_| {});
        let required = Report::new("request", &world, &answers).findings;
        let contained = |name: &str| sandboxes.get(name);
        let names = request.modules.iter().map(|m| m.name.as_str());
        let security = names.zip(security).collect::<Vec<_>>();
        let open = security.iter().filter(|(name, _)| contained(name).is_none()).map(|(_, f)| f);
        let bad: Vec<&Finding> = open.chain(&required).filter(|f| f.verdict != Status::Holds).collect();
        if !bad.is_empty() {
            against.extend(bad.into_iter().map(|f| not_held(&candidate.name, f)));
            continue;
        }
        let found = security.iter().map(|(name, f)| match contained(name) {
            Some(sandbox) => in_sandbox(f, sandbox, party),
            None => finding(f),
        });
        let findings = found.chain(required.iter().map(finding)).collect();
        let gateway = offer.platforms.get(&candidate.name).map(|p| p.gateway);
        let runs = match (gateway, request.modules.is_empty()) {
            (Some(gateway), false) => {
                let (classes, images) = (&offer.classes, &offer.images);
                let share = candidate.access.share;
                let place = Place { addresses: &addresses, gateway, classes, images, share };
                Some(runs(request, place, &sandboxes).map_err(wrong)?)
            }
            _ => None,
        };
        return Ok(Proved {
            name: candidate.name.clone(),
            access: candidate.access.clone(),
            addresses,
            findings,
            runs,
            sandboxes,
        });
    }
    let text = "the request was refused: there is no platform where all holds; nothing was started";
    Err(refused(text).with(against))
}

fn wrong(list: Vec<String>) -> Problem {
    refused("the request cannot be run").with(list.into_iter().map(Mistake::from))
}

/// What is said of the security of a module in a sandbox: why it is there.
fn in_sandbox(f: &Finding, sandbox: &Sandbox, party: &Party) -> RequestFinding {
    let reason = format!(
        "{}: {}; so it runs in a sandbox, a function of the kind {} behind an enforcer, which lets out only what one of a {} may send",
        verdict(f.verdict).name(),
        f.reason,
        sandbox.kind,
        party.role,
    );
    RequestFinding { verdict: Verdict::Contained, reason, ..finding(f) }
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

fn not_held(platform: &str, f: &Finding) -> Mistake {
    let shown = packet(f).map_or(String::new(), |p| format!(": {p}"));
    let mistake = on(platform, &f.requirement, format!("{}: {}{shown}", verdict(f.verdict).name(), f.reason));
    let help = if f.verdict == Status::Inconclusive { "what cannot be decided is refused" } else { "" };
    Mistake { help: help.into(), ..mistake }
}

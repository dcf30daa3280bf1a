//! The platforms that could take a request, as the controller knows its nodes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weir_model::graph::{ServiceGraph, Start};
use weir_net::{PortShare, Protocols};

use super::offer::{Access, Offer, Platform};
use super::prove::{Candidate, Proved};
use super::{Kept, id, module, shares};
use crate::controller::Controller;
use crate::facts::no_place;
use crate::view::View;

/// The addresses of the modules of a request.
pub(super) fn addresses(kept: &Kept) -> impl Iterator<Item = IpAddr> {
    // Of an address that others share, not all is theirs.
    kept.answer.modules.iter().filter(|m| m.ports.is_none()).filter_map(|m| m.address.parse().ok())
}

impl Controller {
    /// A platform with what it has left.
    fn candidate(
        &self,
        view: &View,
        (name, platform): (&str, &Platform),
        share: Option<Protocols>,
    ) -> Result<(usize, Candidate), String> {
        let domain = match (view.members.get(name), view.known.get(name).and_then(|k| k.domain.as_ref())) {
            (None, _) => Err("no node of this name has joined"),
            (Some(m), _) if m.cordoned => Err("the node is cordoned"),
            _ if self.fleet.get(name).is_none() => Err("the node is offline"),
            (_, None) => Err("the node has not said yet what it has"),
            (_, Some(domain)) => Ok(domain),
        }?;
        let there: Vec<&Kept> = view.requests.values().filter(|k| k.answer.node == name).collect();
        let is_free = |a: &Access| {
            let id = id(0);
            let (script, sandboxes) = ("Idle;".into(), Vec::new());
            let runs = module::Runs { script, sandboxes, start: Start::Now, idle: None };
            let graph = ServiceGraph::from_json(&module::graph(&id, None, name, a, &runs).to_string());
            !there.iter().any(|k| k.access == *a)
                && graph.is_ok_and(|g| g.saps.iter().all(|s| no_place(domain, &id, s).is_none()))
        };
        let access = match share {
            None => platform.access().find(is_free),
            Some(protocols) => {
                let taken: Vec<PortShare> = there.iter().filter_map(|k| k.access.share).collect();
                shares::free(&platform.shared, protocols, &taken).find(is_free)
            }
        };
        let access = access.ok_or(match share {
            None => "all access points for requests are taken, or not there",
            Some(_) => "it has no ports left of addresses that are shared, or its interface is not there",
        })?;
        let mut taken: BTreeSet<IpAddr> = there.iter().flat_map(|k| addresses(k)).collect();
        taken.insert(platform.gateway.into());
        taken.extend(platform.shared.iter().map(|p| IpAddr::from(p.address)));
        Ok((there.len(), Candidate { name: name.to_owned(), access, taken, request: None }))
    }

    /// The platforms that could take a request, those with the fewest first, and why the others cannot.
    pub(super) fn candidates(
        &self,
        offer: &Offer,
        view: &View,
        share: Option<Protocols>,
    ) -> (Vec<Candidate>, Vec<(String, String)>) {
        let (mut candidates, mut against) = (Vec::new(), Vec::new());
        for (name, platform) in &offer.platforms {
            match self.candidate(view, (name, platform), share) {
                Ok(found) => candidates.push(found),
                Err(why) => against.push((name.clone(), why)),
            }
        }
        candidates.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
        (candidates.into_iter().map(|(_, c)| c).collect(), against)
    }

    /// Whether what a proof was made of is still so: the platform, its access point, the addresses.
    pub(super) fn is_as_proved(&self, offer: &Offer, proved: &Proved) -> bool {
        let Some(platform) = offer.platforms.get(&proved.name) else { return false };
        let share = proved.access.share.map(|s| s.protocols());
        let Ok((_, now)) = self.candidate(&self.view(), (&proved.name, platform), share) else {
            return false;
        };
        now.access == proved.access
            && (share.is_some() || !proved.addresses.iter().any(|(_, a)| now.taken.contains(a)))
    }
}

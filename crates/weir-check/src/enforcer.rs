//! Enforcers around modules of which the security rules are not proved (CHANGE paper, section 2.2.4).
//!
//! An enforcer keeps the rules whatever the module sends: that is proved of the element `ChangeEnforcer` by itself, once for all
//! modules (`crates/weir-verify/tests/enforcer.rs`). Here is said which policies these rules fulfil.

use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

use weir_model::value::IpPrefix;
use weir_topology::{Receive, Rules, SendFrom, SendTo};

use crate::security::Party;

/// How long a packet that came to a module lets its answers out (implicit authorisation).
pub const ANSWERS: Duration = Duration::from_secs(120);

/// The rules of an enforcer for packets that leave a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforcer {
    /// The address of the module.
    pub own: IpAddr,
    /// Destinations that agreed (explicit authorisation), in order; all are IPv4.
    pub to: Vec<IpPrefix>,
}

impl Enforcer {
    /// The element that does it.
    pub fn element(&self) -> String {
        let mut text = format!("ChangeEnforcer({}", self.own);
        for prefix in &self.to {
            _ = write!(text, ", {}/{}", prefix.addr(), prefix.len());
        }
        _ = write!(text, ", TIMEOUT {})", ANSWERS.as_secs());
        text
    }
}

/// The enforcer that keeps a module of this address to a policy. `modules`: the addresses of all modules of the request.
///
/// # Errors
/// Why none can.
pub fn enforcer(
    rules: &Rules,
    party: &Party,
    own: IpAddr,
    modules: &[IpPrefix],
) -> Result<Enforcer, &'static str> {
    if !own.is_ipv4() {
        return Err("an enforcer is for modules with IPv4 addresses");
    }
    // It lets in what is addressed to the module.
    if !rules.receive.iter().any(|r| matches!(r, Receive::Module | Receive::Anything)) {
        return Err(
            "the policy does not let modules receive what is addressed to them, and an enforcer does",
        );
    }
    // It lets out the module's own address and the sources of what came in.
    let from = |wanted: SendFrom| rules.send_from.iter().any(|f| *f == wanted || *f == SendFrom::Anything);
    if !from(SendFrom::Module) || !from(SendFrom::Unchanged) {
        return Err(
            "the policy does not let modules send from their own address and from unchanged sources, and an enforcer does",
        );
    }
    // It lets out answers.
    if !rules.send_to.iter().any(|t| matches!(t, SendTo::Answered | SendTo::Anything)) {
        return Err("the policy does not let modules answer, and an enforcer does");
    }
    let mut to: Vec<IpPrefix> = Vec::new();
    for entry in &rules.send_to {
        match entry {
            SendTo::Registered => to.extend(&party.registered),
            SendTo::OwnModules => to.extend(modules.iter().chain(&party.modules)),
            SendTo::Prefix(prefix) => to.push(*prefix),
            SendTo::Anything => to.extend("0.0.0.0/0".parse::<IpPrefix>()),
            SendTo::Answered => {}
        }
    }
    to.retain(|p| p.addr().is_ipv4());
    to.sort();
    to.dedup();
    Ok(Enforcer { own, to })
}

#[cfg(test)]
mod tests {
    use weir_topology::{Policy, Requester};

    use super::*;

    fn of(rules: &Rules) -> Result<String, &'static str> {
        let registered = vec!["172.16.15.133".parse().unwrap(), "2001:db8::/64".parse().unwrap()];
        let party =
            Party { role: Requester::ThirdParty, registered, modules: vec!["10.0.0.7".parse().unwrap()] };
        let own = ["10.0.0.9", "10.0.0.7"].map(|a| IpPrefix::host(a.parse().unwrap()));
        enforcer(rules, &party, own[0].addr(), &own).map(|e| e.element())
    }

    #[test]
    fn it_lets_out_what_the_policy_does() {
        let Policy { third_party, client, operator } = Policy::default();
        let third = of(&third_party).unwrap();
        assert_eq!(
            third,
            "ChangeEnforcer(10.0.0.9, 10.0.0.7/32, 10.0.0.9/32, 172.16.15.133/32, TIMEOUT 120)"
        );
        for rules in [client, operator] {
            assert_eq!(of(&rules).unwrap(), "ChangeEnforcer(10.0.0.9, 0.0.0.0/0, TIMEOUT 120)");
        }
    }

    #[test]
    fn a_stricter_policy_has_none() {
        let third = Policy::default().third_party;
        for rules in [
            Rules { send_from: vec![SendFrom::Module], ..third.clone() },
            Rules { send_from: vec![SendFrom::Unchanged], ..third.clone() },
            Rules { send_to: vec![SendTo::Registered, SendTo::OwnModules], ..third.clone() },
            Rules { receive: vec![Receive::Prefix("10.0.0.0/8".parse().unwrap())], ..third },
        ] {
            of(&rules).unwrap_err();
        }
    }
}

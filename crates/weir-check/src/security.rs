//! The security rules for the modules of a request: by who asks, what their modules may receive and send.

use std::net::IpAddr;

use weir_model::value::IpPrefix;
use weir_topology::{Policy, Receive, Requester, SendFrom, SendTo};
use weir_verify::checks::{Allowed, Checker, Doubt, Module, Prefix, Rules, Verdict, secure};
use weir_verify::{Incomplete, Limits, NodeId, NodePort};

use crate::answer::{Answer, Asked, PartialAnswer};
use crate::world::World;

/// A module on a platform.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    /// Its name.
    pub name: String,
    /// Its address.
    pub own: IpPrefix,
    /// Whether a link joins it to another module of the request.
    pub linked: bool,
    /// Where its packets come in and leave.
    pub module: Module,
    /// What stands for it, if it is not known what it does.
    pub unknown: Option<NodeId>,
    /// Others have ports of its address.
    pub shared: bool,
}

/// The party that asks for processing.
#[derive(Debug, Clone)]
pub struct Party {
    /// What they are to the operator.
    pub role: Requester,
    /// Destinations that agreed to receive what their modules send.
    pub registered: Vec<IpPrefix>,
    /// Addresses of their other modules.
    pub modules: Vec<IpPrefix>,
}

impl World {
    /// Checks each module of the request against the policy for who asks: one answer a module. What comes to a module and goes over links
    /// counts where it leaves the modules; modules that are linked may send from each other's addresses.
    pub fn security(&self, party: &Party, policy: &Policy, limits: Limits) -> Vec<Answer> {
        // Of an address that is shared, not all agreed.
        let own = self.modules.iter().filter(|m| !m.shared).map(|m| m.own);
        let all: Vec<IpPrefix> = own.chain(party.modules.clone()).collect();
        // What becomes of packets that left a module is not its doing.
        let mut net = self.net.clone();
        for output in self.modules.iter().flat_map(|m| &m.module.outputs) {
            net.disconnect(NodePort { port: 0, ..output.place });
        }
        net.finish();
        let linked: Vec<IpPrefix> = self.modules.iter().filter(|m| m.linked).map(|m| m.own).collect();
        let answer = |m: &Placed| {
            if let Some(node) = m.unknown {
                let asked = Asked::Security { module: m.name.clone(), role: party.role, broken: None };
                let verdict = Verdict::Inconclusive(Doubt::Incomplete(Incomplete::Opaque(node)));
                let found = PartialAnswer::new(&mut Checker::new(&net, limits), verdict, Default::default());
                return Answer::new(asked, found);
            }
            let own = [m.own];
            let sources = if m.linked { &linked[..] } else { &own };
            let rules = rules(policy.rules(party.role), m.own, sources, &party.registered, &all);
            let mut c = Checker::new(&net, limits);
            let found = secure(&mut c, &self.with_linked(m), &rules);
            let asked = Asked::Security { module: m.name.clone(), role: party.role, broken: found.broken };
            let found = PartialAnswer::new(&mut c, found.verdict, Default::default());
            Answer::new(asked, PartialAnswer { visited: Vec::new(), ..found })
        };
        self.modules.iter().map(answer).collect()
    }
}

impl World {
    /// A module with the places where what comes to it leaves others that it is linked with.
    fn with_linked(&self, m: &Placed) -> Module {
        let mut module = m.module.clone();
        for other in self.modules.iter().filter(|o| m.linked && o.linked && o.name != m.name) {
            module.outputs.extend(other.module.outputs.iter().cloned());
            let input = other.module.inputs.first().or(m.module.inputs.first());
            let places = other.module.outputs.iter().map(|o| o.place);
            module.answers.extend(places.filter_map(|place| Some((place, input?.clone()))));
        }
        module
    }
}

/// The rules of a policy for a module.
fn rules(
    policy: &weir_topology::Rules,
    own: IpPrefix,
    sources: &[IpPrefix],
    registered: &[IpPrefix],
    modules: &[IpPrefix],
) -> Rules {
    let mut rules = Rules {
        receive: Some(Vec::new()),
        send_from: Some(Allowed::default()),
        send_to: Some(Allowed::default()),
    };
    for entry in &policy.receive {
        match entry {
            Receive::Module => rules.receive.iter_mut().for_each(|r| r.push(prefix(own))),
            Receive::Prefix(p) => rules.receive.iter_mut().for_each(|r| r.push(prefix(*p))),
            Receive::Anything => rules.receive = None,
        }
    }
    for entry in &policy.send_from {
        let Some(from) = &mut rules.send_from else { break };
        match entry {
            SendFrom::Module => from.prefixes.extend(sources.iter().copied().map(prefix)),
            SendFrom::Unchanged => from.entered = true,
            SendFrom::Prefix(p) => from.prefixes.push(prefix(*p)),
            SendFrom::Anything => rules.send_from = None,
        }
    }
    for entry in &policy.send_to {
        let Some(to) = &mut rules.send_to else { break };
        match entry {
            SendTo::Registered => to.prefixes.extend(registered.iter().copied().map(prefix)),
            SendTo::OwnModules => to.prefixes.extend(modules.iter().copied().map(prefix)),
            SendTo::Answered => to.entered = true,
            SendTo::Prefix(p) => to.prefixes.push(prefix(*p)),
            SendTo::Anything => rules.send_to = None,
        }
    }
    rules
}

pub(crate) fn prefix(p: IpPrefix) -> Prefix {
    let address = match p.addr() {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    Prefix { address, len: p.len() }
}

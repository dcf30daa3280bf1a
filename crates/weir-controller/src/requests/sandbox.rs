//! Modules that run in functions of their own, behind enforcers (CHANGE paper, section 2.2.4). Pure.
//!
//! The function that all traffic of a request passes has the enforcers: what a module sends comes to it in frames, of which it takes IPv4 alone, and
//! sends on in frames of its own. So a module meets nobody but an enforcer, whatever it is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use weir_check::{Enforcer, Party, enforcer};
use weir_model::graph::ParamValue;
use weir_model::request::{Module, Request};
use weir_model::template::Template;
use weir_model::value::IpPrefix;
use weir_topology::Rules;

use super::module::{Flat, Joint, elements, mac};

/// The Ethernet address that modules in sandboxes send to.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(0, 0, 0, 1);

/// A module that runs in a function of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// What keeps it to the rules.
    pub enforcer: Enforcer,
    /// The kind of function that it is.
    pub kind: &'static str,
}

/// A function of its own for a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFunction {
    /// Its ports, each with the port of the modules' function that it is joined with.
    pub ports: Vec<(String, String)>,
    /// What runs.
    pub body: Body,
}

/// The content of a function of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A script, as a process.
    Script(String),
    /// An image.
    Image {
        /// Its name.
        name: String,
        /// Values of its parameters.
        params: BTreeMap<String, ParamValue>,
    },
}

/// Sandboxes for modules.
///
/// # Errors
/// Which modules cannot have one, and why.
pub fn sandboxes(
    request: &Request,
    which: &BTreeSet<String>,
    (rules, party): (&Rules, &Party),
    addresses: &[(String, IpAddr)],
    images: &BTreeMap<String, Template>,
) -> Result<BTreeMap<String, Sandbox>, Vec<String>> {
    // Of an address that others share, not all agreed.
    let own = addresses.iter().filter(|_| request.share.is_none());
    let all: Vec<IpPrefix> = own.map(|(_, a)| IpPrefix::host(*a)).collect();
    let (mut sandboxes, mut wrong) = (BTreeMap::new(), Vec::new());
    for m in request.modules.iter().filter(|m| which.contains(&m.name)) {
        let own = addresses.iter().find(|(name, _)| *name == m.name).map(|(_, a)| *a);
        let found = match own {
            _ if request.links.iter().any(|l| [&l.from.0, &l.to.0].contains(&&m.name)) => {
                Err("it is linked with others, and what goes over links does not pass an enforcer")
            }
            _ if !m.intercepts.is_empty() => {
                Err("it takes the traffic of others, and an enforcer lets in only what is addressed to it")
            }
            // An enforcer holds up packets, not what root does on the node.
            _ if ["native", "dpdk"].contains(&kind(m, images)) => Err(
                "functions of its kind run as root on the node: give a script, a container or a virtual machine",
            ),
            Some(own) => enforcer(rules, party, own, &all),
            None => Err("it has no address"),
        };
        match found {
            Ok(enforcer) => {
                sandboxes.insert(m.name.clone(), Sandbox { enforcer, kind: kind(m, images) });
            }
            Err(why) => wrong.push(format!("the module '{}' cannot run in a sandbox: {why}", m.name)),
        }
    }
    if wrong.is_empty() { Ok(sandboxes) } else { Err(wrong) }
}

/// The kind of function that a module is in a sandbox.
fn kind(m: &Module, images: &BTreeMap<String, Template>) -> &'static str {
    let template = m.stock.as_ref().and_then(|s| images.get(&s.image));
    template.map_or("process", |t| t.implementation.kind())
}

/// The part of the modules' function that a script in a sandbox is joined with, and its function.
///
/// # Errors
/// What cannot be run so.
pub(super) fn of_script(f: &Flat, enforcer: &str, at: Joint) -> Result<(String, OwnFunction), String> {
    let Joint { sandbox: s, port, pattern, number: n } = at;
    let ends = |class| f.all(class).collect::<Vec<_>>();
    let (open, outs) = (ends("FromNetfront"), ends("ToNetfront"));
    let into = match open.as_slice() {
        [] => "Discard".to_owned(),
        [e] => format!("m0e{e}"),
        _ => return Err(super::module::too_many(&f.name, open.len())),
    };
    let (inside, outside) = (mac(f.address), mac(OUTSIDE));
    let front = format!(
        "s{s} :: {enforcer};\n\
         to [{pattern}] -> n{n}in :: Counter -> s{s} -> EtherEncap(0x0800, {outside}, {inside}) -> out_{port};\n\
         in_{port} -> s{s}f0 :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> [1] s{s};\n\
         s{s}f0 [1] -> Discard;\n\
         s{s} [1] -> n{n}out :: Counter -> out;\n"
    );
    let mut script = String::new();
    elements(&mut script, 0, &f.graph);
    _ = write!(
        script,
        "in_0 -> frames :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> {into};\n\
         frames [1] -> Discard;\n\
         Idle -> out :: EtherEncap(0x0800, {inside}, {outside}) -> out_0;\n"
    );
    outs.iter().for_each(|e| _ = writeln!(script, "m0e{e} -> out;"));
    let ports = vec![("net".to_owned(), format!("m{s}"))];
    Ok((front, OwnFunction { ports, body: Body::Script(script) }))
}

/// The same for an image. Programs find their next router by ARP, whatever they take for it, and are found by ARP themselves, at the first port.
pub(super) fn of_image(
    (m, template): (&Module, &Template),
    (own, gateway): (Ipv4Addr, Ipv4Addr),
    enforcer: &str,
    at: Joint,
) -> (String, OwnFunction) {
    let Joint { sandbox: s, port, pattern, number: n } = at;
    let (outside, [a, b, c, d]) = (mac(OUTSIDE), own.octets());
    let mut front = format!(
        "s{s} :: {enforcer};\n\
         to [{pattern}] -> n{n}in :: Counter -> s{s} -> SetIPAddress({own}) -> s{s}arp :: ARPQuerier({gateway}, {outside}) -> out_{port};\n\
         s{s} [1] -> n{n}out :: Counter -> out;\n"
    );
    let mut ports = Vec::new();
    for (i, p) in template.ports.iter().enumerate() {
        let (frames, k) = (format!("s{s}f{i}"), port + i);
        let answers = if i == 0 { format!("[1] s{s}arp") } else { "Discard".into() };
        _ = writeln!(
            front,
            "in_{k} -> {frames} :: Classifier(12/0806 20/0001 38/{a:02x}{b:02x}{c:02x}{d:02x}, 12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
             {frames} [0] -> Discard;\n\
             {frames} [1] -> ARPResponder(0.0.0.0/0 {outside}) -> out_{k};\n\
             {frames} [2] -> {answers};\n\
             {frames} [3] -> Strip(14) -> CheckIPHeader -> [1] s{s};\n\
             {frames} [4] -> Discard;"
        );
        ports.push((p.name.to_string(), format!("m{s}p{i}")));
    }
    let name = template.name.to_string();
    let params = m.stock.as_ref().map(|s| given(&s.params, own, gateway)).unwrap_or_default();
    (front, OwnFunction { ports, body: Body::Image { name, params } })
}

/// Values of parameters, with the module's address for `$ADDRESS` and the next router for `$GATEWAY`.
pub(super) fn given(
    params: &BTreeMap<String, ParamValue>,
    own: Ipv4Addr,
    gateway: Ipv4Addr,
) -> BTreeMap<String, ParamValue> {
    let filled = |v: &ParamValue| match v {
        ParamValue::Text(text) => {
            let text = text.replace("$ADDRESS", &own.to_string()).replace("$GATEWAY", &gateway.to_string());
            ParamValue::Text(text)
        }
        other => other.clone(),
    };
    params.iter().map(|(name, v)| (name.clone(), filled(v))).collect()
}

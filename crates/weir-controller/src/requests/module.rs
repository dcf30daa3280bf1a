//! The modules of a request as one script of a function: behind ARP, each by its address. Modules in sandboxes are functions of their own
//! behind it. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};
use weir_click::{ElementDecl, Graph};
use weir_model::graph::Start;
use weir_model::request::{Module, Request};
use weir_model::template::Template;
use weir_model::value::IpPrefix;
use weir_net::PortShare;
use weir_net::share::module_mac;
use weir_plan::Classes;

use super::offer::Access;
use super::sandbox::{Body, OwnFunction, Sandbox, given, of_image, of_script};

/// The device of an element that names none.
const UNNAMED: &str = "netfront0";

/// A module, flat.
pub(super) struct Flat {
    pub(super) name: String,
    pub(super) address: Ipv4Addr,
    intercepts: Vec<IpPrefix>,
    pub(super) graph: Graph,
    /// Its number in the request.
    number: usize,
}

/// The functions that run the modules of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs {
    /// The script of the function that all traffic passes. Its first port leads to the network, the others to the sandboxes, in their order.
    pub script: String,
    /// The functions of the modules in sandboxes.
    pub sandboxes: Vec<OwnFunction>,
    /// When they are started.
    pub start: Start,
    /// After how many seconds without packets they end until one comes.
    pub idle: Option<u32>,
}

/// Where the modules are, and what they may be made of.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Each module's address.
    pub addresses: &'a [(String, IpAddr)],
    /// The next router.
    pub gateway: Ipv4Addr,
    /// The classes of elements.
    pub classes: &'a Classes,
    /// The images.
    pub images: &'a BTreeMap<String, Template>,
    /// If there is one module, and others have its address too: its ports.
    pub share: Option<PortShare>,
}

/// What device an element takes packets from, or gives them to.
fn device<'e>(e: &'e ElementDecl, class: &str) -> Option<&'e str> {
    (e.class == class).then(|| match e.args.first().map(|a| a.trim()) {
        None | Some("") => UNNAMED,
        Some(name) => name.strip_prefix("DEVNAME ").unwrap_or(name).trim(),
    })
}

impl Flat {
    /// The elements of a class with that device, which may be said by its number.
    fn at(&self, class: &str, port: &str) -> Vec<usize> {
        let mut names: Vec<&str> = self
            .graph
            .elements
            .iter()
            .filter_map(|e| device(e, "FromNetfront").or_else(|| device(e, "ToNetfront")))
            .collect();
        names.sort_unstable();
        names.dedup();
        let named = names.iter().copied().find(|n| *n == port);
        let wanted = named.or_else(|| names.get(port.parse::<usize>().ok()?).copied());
        let is = |e: &ElementDecl| wanted.is_some() && device(e, class) == wanted;
        self.graph.elements.iter().enumerate().filter(|(_, e)| is(e)).map(|(i, _)| i).collect()
    }

    pub(super) fn all(&self, class: &str) -> impl Iterator<Item = usize> {
        self.graph
            .elements
            .iter()
            .enumerate()
            .filter(move |(_, e)| device(e, class).is_some())
            .map(|(i, _)| i)
    }
}

/// Writes the elements of a module, whose ends pass what comes to them, and their connections.
pub(super) fn elements(text: &mut String, m: usize, graph: &Graph) {
    for (i, e) in graph.elements.iter().enumerate() {
        let ends = device(e, "FromNetfront").or_else(|| device(e, "ToNetfront")).is_some();
        _ = match ends {
            true => writeln!(text, "m{m}e{i} :: Null;"),
            false => writeln!(text, "m{m}e{i} :: {}({});", e.class, e.args.join(", ")),
        };
    }
    for c in &graph.connections {
        let ((a, out), (b, input)) = (c.from, c.to);
        _ = writeln!(text, "m{m}e{a} [{out}] -> [{input}] m{m}e{b};");
    }
}

pub(super) fn too_many(name: &str, n: usize) -> String {
    format!(
        "the module '{name}' has {n} FromNetfront that no link leads to: what is addressed to it comes in at one"
    )
}

/// The Ethernet address of a module: one of its own, by its IP address.
pub(super) fn mac(address: Ipv4Addr) -> String {
    module_mac(address).to_string()
}

/// A module that is a script.
fn flat((number, m): (usize, &Module), address: Ipv4Addr, classes: &Classes) -> Result<Flat, Vec<String>> {
    let options = weir_click::Options { defines: m.params.clone(), ..weir_click::Options::default() };
    let graph = weir_click::parse_with("request", &m.click, classes, &options);
    let graph = graph.map_err(|e| e.list.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(Flat { name: m.name.clone(), address, intercepts: m.intercepts.clone(), graph, number })
}

/// What runs the modules: what is addressed to a module comes in at its `FromNetfront`, and what leaves by `ToNetfront` goes to the gateway.
///
/// # Errors
/// What cannot be run so.
pub fn runs(
    request: &Request,
    place: Place<'_>,
    sandboxed: &BTreeMap<String, Sandbox>,
) -> Result<Runs, Vec<String>> {
    let (mut flat, mut wrong) = (Vec::new(), Vec::new());
    let (mut inside, mut patterns, mut macs) = (String::new(), Vec::new(), Vec::new());
    let (mut sandboxes, mut port) = (Vec::<OwnFunction>::new(), 1);
    let mut first = None;
    for (number, m) in request.modules.iter().enumerate() {
        let address = place.addresses.iter().find(|(name, _)| *name == m.name).map(|(_, a)| *a);
        let Some(IpAddr::V4(address)) = address else {
            wrong.push(format!("the module '{}' has no IPv4 address: platforms need such", m.name));
            continue;
        };
        first.get_or_insert(address);
        let Some(sandbox) = sandboxed.get(&m.name) else {
            match self::flat((number, m), address, place.classes) {
                Ok(f) => flat.push(f),
                Err(e) => wrong.extend(e),
            }
            continue;
        };
        let ports = Joint { sandbox: sandboxes.len() + 1, port, pattern: patterns.len(), number };
        match joined(m, address, place, &sandbox.enforcer.element(), ports) {
            Ok((text, function)) => {
                inside += &text;
                port += function.ports.len();
                sandboxes.push(function);
                patterns.push(format!("dst host {address}"));
                macs.push(format!("{address} {}", mac(address)));
            }
            Err(e) => wrong.extend(e),
        }
    }
    let (mut linked_from, mut linked_to, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for l in &request.links {
        let end = |(module, port): &(String, String), class: &str| -> Vec<(usize, usize)> {
            let found = flat.iter().enumerate().find(|(_, f)| f.name == *module);
            found.map(|(m, f)| f.at(class, port).into_iter().map(|e| (m, e)).collect()).unwrap_or_default()
        };
        let (from, to) = (end(&l.from, "ToNetfront"), end(&l.to, "FromNetfront"));
        if from.is_empty() || to.len() != 1 {
            wrong.push(format!(
                "line {}: {}:{} -> {}:{}: packets leave a module by ToNetfront and come to one FromNetfront of another",
                l.position.line, l.from.0, l.from.1, l.to.0, l.to.1
            ));
            continue;
        }
        links.extend(from.iter().flat_map(|f| to.iter().map(move |t| (*f, *t))));
        linked_from.extend(from);
        linked_to.extend(to);
    }
    let mut intercepts = Vec::new();
    for (m, f) in flat.iter().enumerate() {
        let n = f.number;
        elements(&mut inside, n, &f.graph);
        // What comes to a module and leaves it is counted.
        _ = writeln!(inside, "Idle -> n{n}in :: Counter; Idle -> n{n}out :: Counter -> out;");
        for e in f.all("ToNetfront").filter(|e| !linked_from.contains(&(m, *e))) {
            _ = writeln!(inside, "m{n}e{e} -> n{n}out;");
        }
        let open: Vec<usize> = f.all("FromNetfront").filter(|e| !linked_to.contains(&(m, *e))).collect();
        match open.as_slice() {
            [] => _ = writeln!(inside, "n{n}in -> Discard;"),
            [e] => {
                _ = writeln!(inside, "to [{}] -> n{n}in -> m{n}e{e};", patterns.len());
                patterns.push(format!("dst host {}", f.address));
                macs.push(format!("{} {}", f.address, mac(f.address)));
                let others = f.intercepts.iter().filter(|p| p.addr().is_ipv4());
                intercepts.extend(others.map(|p| (format!("n{n}in"), format!("dst net {p}"))));
            }
            _ => wrong.push(too_many(&f.name, open.len())),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    // What is addressed to a module is no other's.
    for (into, pattern) in intercepts {
        _ = writeln!(inside, "to [{}] -> {into};", patterns.len());
        patterns.push(pattern);
    }
    for ((a, from), (b, to)) in links {
        let number = |m: usize| flat.get(m).map_or(m, |f| f.number);
        _ = writeln!(inside, "m{}e{from} -> m{}e{to};", number(a), number(b));
    }
    let Some(first) = first else { return Err(vec!["it has no module".into()]) };
    let (answered, rest) = (macs.join(", "), patterns.len());
    patterns.push("-".into());
    let answer =
        // Who has an address that several share, the switch before them says.
        if macs.is_empty() || place.share.is_some() { "Discard".to_owned() } else { format!("ARPResponder({answered}) -> out_0") };
    let script = format!(
        "in_0 -> frames :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
         frames [0] -> {answer};\n\
         out :: SetIPAddress({gateway}) -> arp :: ARPQuerier({first}, {mac}) -> out_0;\n\
         frames [1] -> [1] arp;\n\
         frames [2] -> Strip(14) -> CheckIPHeader -> to :: IPClassifier({});\n\
         frames [3] -> Discard;\n\
         to [{rest}] -> Discard;\n{inside}",
        patterns.join(", "),
        gateway = place.gateway,
        mac = place.share.map_or_else(|| mac(first), |s| s.mac().to_string()),
    );
    Ok(Runs { script, sandboxes, start: request.start, idle: request.idle })
}

/// Where a sandbox is joined with the modules' function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joint {
    /// The number of the sandbox.
    pub(super) sandbox: usize,
    /// The first port of the modules' function that is free.
    pub(super) port: usize,
    /// The output of `to` where what is for the module leaves.
    pub(super) pattern: usize,
    /// The number of the module in the request.
    pub(super) number: usize,
}

/// How a module in a sandbox is joined with the modules' function, and its function.
fn joined(
    m: &Module,
    address: Ipv4Addr,
    place: Place<'_>,
    enforcer: &str,
    at: Joint,
) -> Result<(String, OwnFunction), Vec<String>> {
    let Some(stock) = &m.stock else {
        let f = flat((at.number, m), address, place.classes)?;
        return of_script(&f, enforcer, at).map_err(|e| vec![e]);
    };
    let missing = || vec![format!("there is no image '{}' for modules", stock.image)];
    let template = place.images.get(&stock.image).ok_or_else(missing)?;
    let values = template.arguments(&given(&stock.params, address, place.gateway));
    let text = |e: &weir_model::ValueError| format!("module {}: {}; {}", m.name, e.message, e.help);
    values.map_err(|list| list.iter().map(text).collect::<Vec<_>>())?;
    Ok(of_image((m, template), (address, place.gateway), enforcer, at))
}

/// The graph that runs it.
pub fn graph(id: &str, tenant: Option<&str>, node: &str, access: &Access, runs: &Runs) -> Value {
    let sap = match access.vlan {
        None => {
            let mut interface = json!({ "if-name": access.if_name });
            access.share.into_iter().for_each(|share| interface["share"] = share.to_string().into());
            json!({ "id": "net", "type": "interface", "interface": interface })
        }
        Some(vlan) => {
            json!({ "id": "net", "type": "vlan", "vlan": { "vlan-id": vlan, "if-name": access.if_name } })
        }
    };
    let rule = |id: &str, from: &str, to: &str| {
        json!({
            "id": id, "priority": 1, "match": { "port_in": from }, "actions": [{ "output_to_port": to }]
        })
    };
    let mut ports = vec![json!({ "id": "net" })];
    let mut rules = vec![rule("in", "sap:net", "sf:modules:net"), rule("out", "sf:modules:net", "sap:net")];
    let mut functions = Vec::new();
    for (i, f) in (1..).zip(&runs.sandboxes) {
        let id = format!("sandbox-{i}");
        for (own, joined) in &f.ports {
            ports.push(json!({ "id": joined }));
            let (own, other) = (format!("sf:{id}:{own}"), format!("sf:modules:{joined}"));
            rules.push(rule(&format!("to-{joined}"), &other, &own));
            rules.push(rule(&format!("from-{joined}"), &own, &other));
        }
        let own: Vec<Value> = f.ports.iter().map(|(own, _)| json!({ "id": own })).collect();
        functions.push(match &f.body {
            Body::Script(script) => {
                json!({ "id": id, "name": id, "click": script, "kind": "process", "ports": own })
            }
            Body::Image { name, params } => json!({ "id": id, "name": name, "params": params, "ports": own }),
        });
    }
    functions.insert(0, json!({ "id": "modules", "name": "modules", "click": runs.script, "ports": ports }));
    let mut graph = json!({
        "id": id, "name": id, "node": node, "SFs": functions, "saps": [sap], "flowrules": rules,
    });
    if let Some(tenant) = tenant {
        graph["tenant"] = tenant.into();
    }
    if runs.start == Start::FirstPacket {
        graph["start"] = "first-packet".into();
        runs.idle.into_iter().for_each(|idle| graph["idle"] = idle.into());
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE_2_2: &str = "FromNetfront() ->\nIPFilter(allow udp port 1500) ->\nIPRewriter(pattern - - 172.16.15.133 - 0 0)\n\
        -> TimedUnqueue(120,100)\n-> ToNetfront()\n\nREQUIRE reach 0/0 172.16.15.133 udp 1500\n";

    fn classes() -> Classes {
        Classes::with(weir_switch::CLASSES.iter().copied())
    }

    fn run(text: &str, addresses: &[(&str, &str)]) -> Result<String, Vec<String>> {
        let addresses: Vec<(String, IpAddr)> =
            addresses.iter().map(|(n, a)| ((*n).to_owned(), a.parse().unwrap())).collect();
        let gateway = Ipv4Addr::new(10, 0, 0, 1);
        let place = Place {
            addresses: &addresses,
            gateway,
            classes: &classes(),
            images: &BTreeMap::new(),
            share: None,
        };
        runs(&Request::parse(text).unwrap(), place, &BTreeMap::new()).map(|r| r.script)
    }

    #[test]
    fn figure_2_2_runs_behind_arp_at_its_address() {
        let script = run(FIGURE_2_2, &[("module", "10.0.0.9")]).unwrap();
        assert!(script.contains("IPClassifier(dst host 10.0.0.9, -)"), "{script}");
        assert!(script.contains("ARPResponder(10.0.0.9 02:c4:0a:00:00:09)"), "{script}");
        assert!(
            script.contains("IPRewriter(pattern - - 172.16.15.133 - 0 0)") && !script.contains("Netfront")
        );
        let whole = format!("in_0 :: Idle; out_0 :: Discard; {script}");
        weir_click::parse("script", &whole, &classes()).unwrap();
    }

    #[test]
    fn modules_are_linked_and_what_cannot_be_is_said() {
        let two =
            "a:\nFromNetfront(x) -> ToNetfront(y);\nb:\nFromNetfront(z) -> ToNetfront(z);\na:y -> b:z\n";
        let script = run(two, &[("a", "10.0.0.9"), ("b", "10.0.0.10")]).unwrap();
        assert!(script.contains("m0e1 -> m1e0;") && !script.contains("m0e1 -> n0out"), "{script}");
        assert!(!script.contains("10.0.0.10, -"), "b is reached by a only: {script}");
        let two = "a:\nFromNetfront(x) -> ToNetfront(x); FromNetfront(y) -> Discard;\n";
        let wrong = run(two, &[("a", "10.0.0.9")]).unwrap_err();
        assert!(wrong[0].contains("2 FromNetfront"), "{wrong:?}");
        let six = run("FromNetfront -> ToNetfront;\n", &[("module", "2001:db8::1")]).unwrap_err();
        assert!(six[0].contains("no IPv4 address"), "{six:?}");
    }

    #[test]
    fn the_graph_is_one() {
        let access = Access { if_name: "lan".into(), vlan: Some(7), share: None };
        let runs = Runs {
            script: "in_0 -> out_0;".into(),
            sandboxes: Vec::new(),
            start: Start::FirstPacket,
            idle: Some(60),
        };
        let graph = graph("request-1", Some("acme"), "n1", &access, &runs);
        let read = weir_model::graph::ServiceGraph::from_json(&graph.to_string()).unwrap();
        assert_eq!(read.tenant.as_ref().unwrap().as_str(), "acme");
        assert_eq!((read.start, read.idle), (Start::FirstPacket, Some(60)));
    }
}

//! The modules of a request as one script of a function with one port: behind ARP, each by its address. Pure.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};
use weir_click::{ElementDecl, Graph};
use weir_model::request::Request;
use weir_model::value::IpPrefix;
use weir_plan::Classes;

use super::offer::Access;

/// The device of an element that names none.
const UNNAMED: &str = "netfront0";

/// A module, flat.
struct Flat {
    name: String,
    address: Ipv4Addr,
    intercepts: Vec<IpPrefix>,
    graph: Graph,
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

    fn all(&self, class: &str) -> impl Iterator<Item = usize> {
        self.graph
            .elements
            .iter()
            .enumerate()
            .filter(move |(_, e)| device(e, class).is_some())
            .map(|(i, _)| i)
    }
}

/// The Ethernet address of a module: one of its own, by its IP address.
fn mac(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("02:c4:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// The script: what is addressed to a module comes in at its `FromNetfront`, and what leaves by `ToNetfront` goes to the gateway.
///
/// # Errors
/// What cannot be run so.
pub fn script(
    request: &Request,
    addresses: &[(String, IpAddr)],
    gateway: Ipv4Addr,
    classes: &Classes,
) -> Result<String, Vec<String>> {
    let (mut flat, mut wrong) = (Vec::new(), Vec::new());
    for m in &request.modules {
        let address = addresses.iter().find(|(name, _)| *name == m.name).map(|(_, a)| *a);
        let Some(IpAddr::V4(address)) = address else {
            wrong.push(format!("the module '{}' has no IPv4 address: platforms need such", m.name));
            continue;
        };
        let options = weir_click::Options { defines: m.params.clone(), ..weir_click::Options::default() };
        match weir_click::parse_with("request", &m.click, classes, &options) {
            Ok(graph) => {
                let (name, intercepts) = (m.name.clone(), m.intercepts.clone());
                flat.push(Flat { name, address, intercepts, graph });
            }
            Err(e) => wrong.extend(e.list.iter().map(ToString::to_string)),
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
    let (mut inside, mut patterns, mut macs) = (String::new(), Vec::new(), Vec::new());
    let mut intercepts = Vec::new();
    for (m, f) in flat.iter().enumerate() {
        for (i, e) in f.graph.elements.iter().enumerate() {
            let ends = device(e, "FromNetfront").or_else(|| device(e, "ToNetfront")).is_some();
            _ = match ends {
                true => writeln!(inside, "m{m}e{i} :: Null;"),
                false => writeln!(inside, "m{m}e{i} :: {}({});", e.class, e.args.join(", ")),
            };
        }
        for c in &f.graph.connections {
            let ((a, out), (b, input)) = (c.from, c.to);
            _ = writeln!(inside, "m{m}e{a} [{out}] -> [{input}] m{m}e{b};");
        }
        for e in f.all("ToNetfront").filter(|e| !linked_from.contains(&(m, *e))) {
            _ = writeln!(inside, "m{m}e{e} -> out;");
        }
        let open: Vec<usize> = f.all("FromNetfront").filter(|e| !linked_to.contains(&(m, *e))).collect();
        match open.as_slice() {
            [] => {}
            [e] => {
                _ = writeln!(inside, "to [{}] -> m{m}e{e};", patterns.len());
                patterns.push(format!("dst host {}", f.address));
                macs.push(format!("{} {}", f.address, mac(f.address)));
                let others = f.intercepts.iter().filter(|p| p.addr().is_ipv4());
                intercepts.extend(others.map(|p| (format!("m{m}e{e}"), format!("dst net {p}"))));
            }
            _ => wrong.push(format!(
                "the module '{}' has {} FromNetfront that no link leads to: what is addressed to it comes in at one",
                f.name,
                open.len()
            )),
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
        _ = writeln!(inside, "m{a}e{from} -> m{b}e{to};");
    }
    let Some(first) = flat.first().map(|f| f.address) else { return Err(vec!["it has no module".into()]) };
    let (answered, rest) = (macs.join(", "), patterns.len());
    patterns.push("-".into());
    let answer =
        if macs.is_empty() { "Discard".to_owned() } else { format!("ARPResponder({answered}) -> out_0") };
    Ok(format!(
        "in_0 -> frames :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);\n\
         frames [0] -> {answer};\n\
         out :: SetIPAddress({gateway}) -> arp :: ARPQuerier({first}, {mac}) -> out_0;\n\
         frames [1] -> [1] arp;\n\
         frames [2] -> Strip(14) -> CheckIPHeader -> to :: IPClassifier({});\n\
         frames [3] -> Discard;\n\
         to [{rest}] -> Discard;\n{inside}",
        patterns.join(", "),
        mac = mac(first),
    ))
}

/// The graph that runs it.
pub fn graph(id: &str, tenant: Option<&str>, node: &str, access: &Access, script: &str) -> Value {
    let sap = match access.vlan {
        None => json!({ "id": "net", "type": "interface", "interface": { "if-name": access.if_name } }),
        Some(vlan) => {
            json!({ "id": "net", "type": "vlan", "vlan": { "vlan-id": vlan, "if-name": access.if_name } })
        }
    };
    let rule = |id: &str, from: &str, to: &str| {
        json!({
            "id": id, "priority": 1, "match": { "port_in": from }, "actions": [{ "output_to_port": to }]
        })
    };
    let mut graph = json!({
        "id": id, "name": id, "node": node,
        "SFs": [{ "id": "modules", "name": "modules", "click": script, "ports": [{ "id": "net" }] }],
        "saps": [sap],
        "flowrules": [rule("in", "sap:net", "sf:modules:net"), rule("out", "sf:modules:net", "sap:net")],
    });
    if let Some(tenant) = tenant {
        graph["tenant"] = tenant.into();
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
        script(&Request::parse(text).unwrap(), &addresses, Ipv4Addr::new(10, 0, 0, 1), &classes())
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
        assert!(script.contains("m0e1 -> m1e0;") && !script.contains("m0e1 -> out"), "{script}");
        assert!(!script.contains("10.0.0.10, -"), "b is reached by a only: {script}");
        let two = "a:\nFromNetfront(x) -> ToNetfront(x); FromNetfront(y) -> Discard;\n";
        let wrong = run(two, &[("a", "10.0.0.9")]).unwrap_err();
        assert!(wrong[0].contains("2 FromNetfront"), "{wrong:?}");
        let six = run("FromNetfront -> ToNetfront;\n", &[("module", "2001:db8::1")]).unwrap_err();
        assert!(six[0].contains("no IPv4 address"), "{six:?}");
    }

    #[test]
    fn the_graph_is_one() {
        let access = Access { if_name: "lan".into(), vlan: Some(7) };
        let graph = graph("request-1", Some("acme"), "n1", &access, "in_0 -> out_0;");
        let read = weir_model::graph::ServiceGraph::from_json(&graph.to_string()).unwrap();
        assert_eq!(read.tenant.as_ref().unwrap().as_str(), "acme");
    }
}

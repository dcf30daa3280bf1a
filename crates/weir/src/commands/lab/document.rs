//! The document of a lab: hosts, nodes, the links between them, and graphs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_model::nearest::nearest;

/// Longest name of an interface that Linux takes.
const LONGEST_INTERFACE: usize = 15;
/// Longest name of a lab, so that names of namespaces stay readable.
const LONGEST_NAME: usize = 40;

/// A lab.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    /// Its name: the names of its namespaces begin with it.
    pub name: String,
    /// Machines that only send and receive.
    #[serde(default)]
    pub hosts: BTreeMap<String, Host>,
    /// Machines with a Weir node.
    #[serde(default)]
    pub nodes: BTreeMap<String, Node>,
    #[serde(default)]
    pub links: Vec<Link>,
    #[serde(default)]
    pub graphs: Vec<Graph>,
}

/// A host.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    /// Its addresses with their prefix lengths: of `eth0`, or by interface.
    #[serde(default)]
    pub addresses: Addresses,
    /// The router for all other addresses.
    #[serde(default)]
    pub gateway: OneOrMany<IpAddr>,
    /// Programs that run as long as the lab, each a command for the shell.
    #[serde(default)]
    pub run: OneOrMany<String>,
}

/// A machine with a Weir node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    /// Folders of function images, as seen from the document.
    #[serde(default)]
    pub images: OneOrMany<PathBuf>,
    /// Further options of `weir node`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Addresses of its interfaces.
    #[serde(default)]
    pub addresses: BTreeMap<String, OneOrMany<String>>,
}

/// A link between two machines.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// `MACHINE` or `MACHINE:INTERFACE`.
    pub ends: (String, String),
    /// How long a packet takes, as `20ms`.
    #[serde(default)]
    pub delay: Option<String>,
    /// The part of packets that is lost, as `1%` or `0.01`.
    #[serde(default)]
    pub loss: Option<Loss>,
    /// Bits a second, as `100Mbps`.
    #[serde(default)]
    pub rate: Option<String>,
}

/// A part of packets.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Loss {
    Part(f64),
    Text(String),
}

/// A graph on a node.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Graph {
    pub node: String,
    /// Its file, as seen from the document.
    pub file: PathBuf,
}

/// Addresses of a host.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Addresses {
    OfFirst(OneOrMany<String>),
    ByInterface(BTreeMap<String, OneOrMany<String>>),
}

impl Default for Addresses {
    fn default() -> Addresses {
        Addresses::OfFirst(OneOrMany::default())
    }
}

/// One, or a list.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Default for OneOrMany<T> {
    fn default() -> OneOrMany<T> {
        OneOrMany::Many(Vec::new())
    }
}

impl<T> OneOrMany<T> {
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one).iter(),
            OneOrMany::Many(many) => many.iter(),
        }
    }
}

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub machine: String,
    pub interface: String,
}

/// The delay, loss and rate of a link.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Shape {
    pub delay: Option<String>,
    pub loss: Option<f64>,
    pub rate: Option<String>,
}

impl Shape {
    /// Whether it does nothing to them.
    pub fn is_plain(&self) -> bool {
        *self == Shape::default()
    }
}

/// A lab whose document has no mistakes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lab {
    pub name: String,
    pub hosts: BTreeMap<String, Host>,
    pub nodes: BTreeMap<String, Node>,
    pub links: Vec<([End; 2], Shape)>,
    pub graphs: Vec<Graph>,
}

/// Reads a document.
///
/// # Errors
/// All of its mistakes, each with what would be right.
pub(super) fn parse(text: &str) -> Result<Lab, Vec<String>> {
    let document: Document = serde_yaml_ng::from_str(text).map_err(|e| vec![e.to_string()])?;
    let mut wrong = Vec::new();
    if !is_name(&document.name) || document.name.len() > LONGEST_NAME {
        let name = &document.name;
        wrong.push(format!("name: {name:?} is no name: letters, digits and '-', at most {LONGEST_NAME}"));
    }
    let machines: Vec<&String> = document.hosts.keys().chain(document.nodes.keys()).collect();
    for name in &machines {
        if !is_name(name) {
            wrong.push(format!("{name:?} is no name of a machine: letters, digits, and '-' between them"));
        }
        if document.hosts.contains_key(*name) && document.nodes.contains_key(*name) {
            wrong.push(format!("'{name}' is a host and a node; machines have names of their own"));
        }
    }
    wrong.dedup();
    let known = |name: &str| machines.iter().any(|m| *m == name);
    let unknown = |name: &str| {
        let near = nearest(name, machines.iter().map(|m| m.as_str()));
        format!("there is no host or node '{name}'{near}")
    };
    let mut used: Vec<End> = Vec::new();
    let mut links = Vec::new();
    for (i, link) in document.links.iter().enumerate() {
        let mut say = |what: String| wrong.push(format!("links[{i}]: {what}"));
        let ends = [&link.ends.0, &link.ends.1].map(|text| match text.split_once(':') {
            Some((machine, interface)) => End { machine: machine.into(), interface: interface.into() },
            None => {
                let n = used.iter().filter(|e| e.machine == *text).count();
                End { machine: text.clone(), interface: format!("eth{n}") }
            }
        });
        for end in &ends {
            let End { machine, interface } = end;
            if !known(machine) {
                say(unknown(machine));
            }
            if !is_interface(interface) {
                say(format!(
                    "{interface:?} is no name of an interface: at most {LONGEST_INTERFACE} characters, no '/' and no space"
                ));
            }
            if used.contains(end) {
                say(format!("{machine}:{interface} is an end of another link already"));
            }
            used.push(end.clone());
        }
        match shape(link) {
            Ok(shape) => links.push((ends, shape)),
            Err(what) => say(what),
        }
    }
    let mut addressed = Vec::new();
    for (name, host) in &document.hosts {
        for (interface, addresses) in by_interface(&host.addresses) {
            addressed.push((name, interface, addresses));
        }
        for gateway in host.gateway.iter() {
            let same = |a: &&String| a.contains(':') == gateway.is_ipv6();
            let mut all = by_interface(&host.addresses).into_iter().flat_map(|(_, a)| a);
            if !all.any(|a| same(&&a)) {
                wrong.push(format!(
                    "hosts.{name}: the gateway {gateway} cannot be reached: there is no address of its kind"
                ));
            }
        }
    }
    for (name, node) in &document.nodes {
        for (interface, addresses) in &node.addresses {
            addressed.push((name, interface.clone(), addresses.iter().cloned().collect()));
        }
    }
    for (name, interface, addresses) in addressed {
        let end = End { machine: name.clone(), interface: interface.clone() };
        if !addresses.is_empty() && !used.contains(&end) {
            wrong.push(format!("'{name}' has addresses for {interface}, which is no end of a link"));
        }
        for address in addresses {
            if !is_prefix(&address) {
                wrong.push(format!(
                    "'{name}': {address:?} is no address with its prefix length, as 10.0.0.2/24"
                ));
            }
        }
    }
    for (i, graph) in document.graphs.iter().enumerate() {
        if !document.nodes.contains_key(&graph.node) {
            let near = nearest(&graph.node, document.nodes.keys().map(String::as_str));
            wrong.push(format!("graphs[{i}]: there is no node '{}'{near}", graph.node));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let Document { name, hosts, nodes, links: _, graphs } = document;
    Ok(Lab { name, hosts, nodes, links, graphs })
}

/// The addresses of a host by interface.
pub(super) fn by_interface(addresses: &Addresses) -> Vec<(String, Vec<String>)> {
    match addresses {
        Addresses::OfFirst(list) => vec![("eth0".to_owned(), list.iter().cloned().collect())],
        Addresses::ByInterface(map) => {
            map.iter().map(|(interface, list)| (interface.clone(), list.iter().cloned().collect())).collect()
        }
    }
}

fn shape(link: &Link) -> Result<Shape, String> {
    let loss = match &link.loss {
        None => None,
        Some(Loss::Part(part)) => Some(*part),
        Some(Loss::Text(text)) => {
            let part = text.strip_suffix('%').and_then(|t| t.trim().parse::<f64>().ok()).map(|p| p / 100.0);
            Some(part.ok_or_else(|| format!("loss: {text:?} is no part of packets, as 1% or 0.01"))?)
        }
    };
    if loss.is_some_and(|part| !(0.0..=1.0).contains(&part)) {
        return Err("loss: it is between 0 and 100%".into());
    }
    // They become arguments of elements, which say themselves what they take.
    let word = |what: &str, value: &Option<String>| match value {
        Some(text)
            if text.is_empty()
                || !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '/') =>
        {
            Err(format!("{what}: {text:?} is none"))
        }
        value => Ok(value.clone()),
    };
    Ok(Shape { delay: word("delay", &link.delay)?, loss, rate: word("rate", &link.rate)? })
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    // What ends with a dash is Weir's own.
    !name.is_empty() && !name.starts_with('-') && !name.ends_with('-') && name.chars().all(is_part)
}

fn is_interface(name: &str) -> bool {
    let fits = (1..=LONGEST_INTERFACE).contains(&name.len()) && name != "." && name != "..";
    fits && !name.starts_with('-') && name.chars().all(|c| c.is_ascii_graphic() && !"/:'\"".contains(c))
}

fn is_prefix(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u8>()) else { return false };
    length <= if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_get_interfaces_in_order() {
        let text = "
name: t
hosts:
  a: {addresses: 10.0.0.1/24, gateway: 10.0.0.254}
  b: {addresses: {eth1: [10.0.1.1/24, 'fd00::1/64']}, run: [sleep 1]}
nodes: {n: {images: images}}
links:
  - {ends: [a, 'n:lan']}
  - {ends: [b, 'n:wan']}
  - {ends: [b, n], delay: 5ms, loss: 1%, rate: 10Mbps}
graphs: [{node: n, file: g.yaml}]
";
        let lab = parse(text).unwrap();
        let ends: Vec<String> = lab
            .links
            .iter()
            .flat_map(|(ends, _)| ends.iter().map(|e| format!("{}:{}", e.machine, e.interface)))
            .collect();
        assert_eq!(ends, ["a:eth0", "n:lan", "b:eth0", "n:wan", "b:eth1", "n:eth2"]);
        assert!(lab.links[0].1.is_plain());
        assert_eq!(lab.links[2].1.loss, Some(0.01));
    }

    #[test]
    fn all_mistakes_are_said_at_once() {
        let text = "
name: 'a b'
hosts:
  client: {addresses: [10.0.0.1, 10.0.0.2/33]}
  server: {gateway: 10.0.0.1}
  wire--: {}
nodes: {client: {}, n: {addresses: {wan: 10.0.0.1/8}}}
links:
  - {ends: [cleint, 'n:lan']}
  - {ends: [client, 'n:lan'], loss: 130%}
  - {ends: [server, 'n:an-interface-that-is-long'], loss: lots, delay: '5 ms; x'}
graphs: [{node: m, file: g.yaml}]
";
        let wrong = parse(text).unwrap_err().join("\n");
        for what in [
            "name: \"a b\"",
            "'client' is a host and a node",
            "\"wire--\" is no name of a machine",
            "no host or node 'cleint'",
            "client",
            "n:lan is an end of another link",
            "between 0 and 100%",
            "\"10.0.0.1\" is no address with its prefix length",
            "\"10.0.0.2/33\"",
            "the gateway 10.0.0.1 cannot be reached",
            "addresses for wan, which is no end",
            "is no name of an interface",
            "\"lots\"",
            "no node 'm'",
        ] {
            assert!(wrong.contains(what), "{what}: {wrong}");
        }
        assert!(parse("name: t\nhost: {}").unwrap_err()[0].contains("unknown field `host`"));
    }
}

//! Links, and the index of boxes that links and requirements speak of.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use weir_filter::text::quote;
use weir_model::doc::{At, Reader, did_you_mean};
use weir_model::requirement::Place;
use weir_model::value::IpPrefix;

use super::boxes::{import_with, in_file, is_map};
use crate::import::hassel::TransferFunction;
use crate::{BoxKind, LOCAL, Link, LinkEnd, MAX_LINKS, NetBox};

/// A link as written: its place in the list, and both ends with their ports, if given.
pub(crate) struct RawLink {
    item: usize,
    ends: [(String, Option<String>); 2],
}

/// The ports of each box that links use, in their order.
pub(crate) type Used = BTreeMap<String, Vec<Option<String>>>;

/// Reads `A:port - B:port` of each item.
pub(crate) fn read(r: &mut Reader, at: &At<'_>) -> Vec<RawLink> {
    let items = r.items(at, "links", MAX_LINKS).unwrap_or_default();
    let mut links = Vec::with_capacity(items.len());
    for (item, node) in items.iter().enumerate() {
        let at = at.index(item, node);
        if is_map(&at) {
            continue;
        }
        let Some(text) = r.text(&at, "a link such as \"gw:lan - fw:wan\"") else { continue };
        let words: Vec<&str> = text.split_whitespace().collect();
        let [a, "-" | "--" | "<->", b] = words.as_slice() else {
            r.error(
                &at,
                format!("{} is not a link", quote(text)),
                "write both ends, such as \"gw:lan - fw:wan\"",
            );
            continue;
        };
        if let (Some(a), Some(b)) = (end(r, &at, a), end(r, &at, b)) {
            links.push(RawLink { item, ends: [a, b] });
        }
    }
    links
}

fn end(r: &mut Reader, at: &At<'_>, word: &str) -> Option<(String, Option<String>)> {
    match word.parse() {
        Ok(Place::Node(node)) => Some((node, None)),
        Ok(Place::Port { node, port }) => Some((node, Some(port))),
        Ok(Place::Prefix(_)) | Err(_) => {
            r.error(
                at,
                format!("{} is not an end of a link", quote(word)),
                "write a box's port, such as gw:lan",
            );
            None
        }
    }
}

/// Which ports links give to each box.
pub(crate) fn ports_used(links: &mut [RawLink]) -> Used {
    let mut used = Used::new();
    for (node, port) in links.iter().flat_map(|l| &l.ends) {
        used.entry(node.clone()).or_default().push(port.clone());
    }
    used
}

/// The ports of a box that has as many as links need: those that links name, and a number for each link that names none.
pub(crate) fn ports_by_use(used: Option<&Vec<Option<String>>>) -> Vec<String> {
    let mut ports: Vec<String> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut next = 0_usize;
    for port in used.into_iter().flatten() {
        let name = match port {
            Some(name) => name.clone(),
            None => {
                next += 1;
                (next - 1).to_string()
            }
        };
        if seen.insert(name.clone()) {
            ports.push(name);
        }
    }
    if ports.is_empty() {
        ports.push("0".into());
    }
    ports
}

fn ports_of(found: &NetBox) -> Ports<'_> {
    // Backwards, so that the first of two with one name counts.
    found.ports().into_iter().enumerate().rev().map(|(i, name)| (name, i)).collect()
}

/// The first of many names, for a message.
fn shown(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let more = if names.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", "))
}

/// Finds the boxes and ports of all links.
pub(crate) fn resolve(r: &mut Reader, at: &At<'_>, links: Vec<RawLink>, index: &Index<'_>) -> Vec<Link> {
    let items = r.items(at, "links", MAX_LINKS).unwrap_or_default();
    let mut taken: HashMap<LinkEnd, usize> = HashMap::new();
    // How many links of a box named no port so far.
    let mut unnamed: HashMap<String, usize> = HashMap::new();
    let mut resolved = Vec::with_capacity(links.len());
    for RawLink { item, ends } in links {
        let Some(node) = items.get(item) else { continue };
        let at = at.index(item, node);
        let [a, b] = ends.map(|(node, port)| index.end(r, &at, node, port, &mut unnamed));
        let (Some(a), Some(b)) = (a, b) else { continue };
        if a == b {
            r.error(&at, format!("{a} is linked to itself"), "a link has two different ends");
            continue;
        }
        for end in [&a, &b] {
            if let Some(first) = taken.insert(end.clone(), item) {
                let help = "a port has one link: give the box another port, or put a switch between";
                r.error(&at, format!("{end} is on link {first} already"), help);
            }
        }
        resolved.push(Link { a, b, one_way: false });
    }
    resolved
}

/// Reads the links of items `{file: NAME}`: those of a transfer function of links, from outer port to outer port.
pub(crate) fn imported(
    r: &mut Reader,
    at: &At<'_>,
    index: &Index<'_>,
    files: &mut dyn FnMut(&str) -> std::io::Result<String>,
) -> Vec<Link> {
    let mut links = Vec::new();
    for (item, node) in r.items(at, "links", MAX_LINKS).unwrap_or_default().iter().enumerate() {
        let at = at.index(item, node);
        let Some(f) = is_map(&at).then(|| r.fields(&at, &["file"])).flatten() else { continue };
        let Some((name, text)) = import_with(r, &at, &f, files) else { continue };
        let function = match TransferFunction::parse(&text) {
            Ok(function) => function,
            Err(errors) => {
                in_file(r, &at, &name, &errors);
                continue;
            }
        };
        for (from, to) in function.links() {
            let a = index.transfer_port(from, true);
            let b = index.transfer_port(to, false);
            match (a, b) {
                (Some(a), Some(b)) => links.push(Link { a, b, one_way: true }),
                _ if index.lost => {}
                (a, _) => {
                    let (port, way) = if a.is_none() { (from, "leave") } else { (to, "come in") };
                    let help = "add the transfer function that has the port to \"boxes\"";
                    r.error(&at, format!("{name}: no box lets packets {way} by the port {port}"), help);
                }
            }
            if links.len() > MAX_LINKS {
                r.error(&at, format!("{name} has too many links"), format!("at most {MAX_LINKS} are read"));
                return links;
            }
        }
    }
    links
}

/// The box and outer port that a function's port is of.
fn transfer_ports(boxes: &[NetBox], leaving: bool) -> HashMap<u32, LinkEnd> {
    let mut all = HashMap::new();
    for b in boxes {
        let BoxKind::Transfer(t) = &b.kind else { continue };
        for name in &t.ports {
            let number =
                name.parse().ok().and_then(|n: u32| n.checked_add(if leaving { t.out_offset } else { 0 }));
            if let Some(number) = number {
                let end = LinkEnd { node: b.name.clone(), port: name.clone() };
                all.entry(number).or_insert(end);
            }
        }
    }
    all
}

/// The boxes by name.
pub(crate) struct Index<'a> {
    by_name: HashMap<&'a str, (&'a NetBox, Ports<'a>)>,
    /// In the order of the document, for suggestions.
    names: Vec<&'a str>,
    /// Some box could not be read; a name that leads nowhere may mean that one.
    lost: bool,
    owned: BTreeSet<(IpAddr, u8)>,
    /// Ports of transfer functions by which packets leave, and by which they come in.
    transfer: [HashMap<u32, LinkEnd>; 2],
}

/// The numbers of a box's ports by their names.
type Ports<'a> = HashMap<&'a str, usize>;

impl<'a> Index<'a> {
    pub(crate) fn new(boxes: &'a [NetBox], lost: bool) -> Self {
        Self {
            by_name: boxes.iter().map(|b| (b.name.as_str(), (b, ports_of(b)))).collect(),
            names: boxes.iter().map(|b| b.name.as_str()).collect(),
            lost,
            transfer: [true, false].map(|leaving| transfer_ports(boxes, leaving)),
            owned: boxes.iter().flat_map(NetBox::owns).map(|p| (p.addr(), p.len())).collect(),
        }
    }

    /// The box with this name; reports it if there is none.
    pub(crate) fn node(&self, r: &mut Reader, at: &At<'_>, line: &str, name: &str) -> Option<&'a NetBox> {
        let found = self.by_name.get(name).map(|(found, _)| *found);
        if found.is_none() && !self.lost {
            const SHOWN: usize = 12;
            let help = match did_you_mean(name, &self.names) {
                help if help.starts_with("did") => help,
                _ if self.names.len() > SHOWN => {
                    format!("write one of the {} boxes of \"boxes\"", self.names.len())
                }
                help => help,
            };
            r.error(at, format!("{line}no box is {}", quote(name)), help);
        }
        found
    }

    /// The outer port that a port of a transfer function is.
    fn transfer_port(&self, port: u32, leaving: bool) -> Option<LinkEnd> {
        let [leave, come] = &self.transfer;
        if leaving { leave } else { come }.get(&port).cloned()
    }

    pub(crate) fn no_port(&self, r: &mut Reader, at: &At<'_>, line: &str, node: &NetBox, port: &str) {
        let message = format!("{line}the box {} has no port {}", node.name, quote(port));
        let ports = node.ports();
        let help = match did_you_mean(port, &ports) {
            help if help.starts_with("did") => help,
            _ => format!("it has {}", shown(&ports)),
        };
        r.error(at, message, help);
    }

    /// Whether some box owns an address of the prefix.
    pub(crate) fn is_owned(&self, prefix: IpPrefix) -> bool {
        let inside = || {
            self.owned
                .range((prefix.addr(), 0)..)
                .next()
                .is_some_and(|(a, _)| prefix.contains(&IpPrefix::host(*a)))
        };
        let mut around = (0..prefix.len()).filter_map(|len| IpPrefix::containing(prefix.addr(), len).ok());
        self.lost || inside() || around.any(|p| self.owned.contains(&(p.addr(), p.len())))
    }

    /// Whether a name is that of an element of a Click box (`BOX/ELEMENT`), if the box has it: this is known where its
    /// configuration is read.
    pub(crate) fn is_inside_click(&self, name: &str) -> bool {
        let found = name.split_once('/').and_then(|(name, _)| self.by_name.get(name));
        found.is_some_and(|(found, _)| matches!(found.kind, BoxKind::Click(_)))
    }

    /// Whether a box has a port of this name or number that requirements can speak of: beside those that links lead to, a
    /// router has the port [`LOCAL`], behind which its own addresses are.
    pub(crate) fn has_port(&self, found: &NetBox, name: &str) -> bool {
        self.port(found, name).is_some() || name == LOCAL && matches!(found.kind, BoxKind::Router(_))
    }

    /// The name of the port that a name or number stands for.
    fn port(&self, found: &NetBox, name: &str) -> Option<String> {
        let (_, ports) = self.by_name.get(found.name.as_str())?;
        if ports.contains_key(name) {
            return Some(name.to_string());
        }
        // A number that is no name counts from 0; few boxes have ports by names, and those not many.
        let number = name.parse().ok().filter(|n| *n < ports.len() && !name.starts_with('+'));
        number.and_then(|n: usize| ports.iter().find(|(_, i)| **i == n).map(|(name, _)| (*name).to_string()))
    }

    fn end(
        &self,
        r: &mut Reader,
        at: &At<'_>,
        node: String,
        port: Option<String>,
        unnamed: &mut HashMap<String, usize>,
    ) -> Option<LinkEnd> {
        let found = self.node(r, at, "", &node)?;
        let port = match port {
            Some(name) => match self.port(found, &name) {
                Some(port) => port,
                None => {
                    self.no_port(r, at, "", found, &name);
                    return None;
                }
            },
            None if found.has_ports_by_use() => {
                let next = unnamed.entry(node.clone()).or_default();
                *next += 1;
                (*next - 1).to_string()
            }
            None => match found.ports().as_slice() {
                [only] => (*only).to_string(),
                ports => {
                    let help = format!("write {node}:PORT; it has {}", shown(ports));
                    r.error(at, format!("which port of the box {node}?"), help);
                    return None;
                }
            },
        };
        Some(LinkEnd { node, port })
    }
}

//! Routers: from interfaces and written routes to the whole table.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use weir_filter::text::quote;
use weir_model::DocErrors;
use weir_model::doc::{At, Fields, Node, Reader, did_you_mean, optional};
use weir_model::value::{IpPrefix, VlanId};

use super::boxes::{import, in_file, is_map, port_name};
use super::{Context, firewall, one_or_list};
use crate::import::{
    ImportedAction, ImportedHop, ImportedRoute, RoutingTable, ip_json_route, ip_route, show_ip_route,
};
use crate::{Interface, InterfaceAddr, MAX_ENTRIES, MAX_PORTS, NextHop, Route, RouteAction, Router};

/// How often a next hop may be found by another route.
const MAX_RECURSION: u32 = 4;
/// How many next hops are looked for at least, beside some for each route.
const MAX_LOOKUPS: usize = 100_000;
/// Most next hops of a route.
const MAX_HOPS: usize = 1_024;

pub(crate) fn router(
    r: &mut Reader,
    at: &At<'_>,
    f: &Fields<'_>,
    context: &mut Context<'_, '_>,
) -> Option<Router> {
    let routes_at = f.get("routes");
    let imported = match &routes_at {
        Some(at) if is_map(at) => Some(import_table(r, at, context)?),
        _ => None,
    };
    let interfaces = match (f.get("interfaces"), &imported) {
        (Some(at), _) => interfaces(r, &at),
        (None, Some(table)) => imported_interfaces(r, at, table),
        (None, None) => {
            f.need(r, "interfaces", "a map from names to addresses, such as {lan: 10.0.0.1/24}")?;
            return None;
        }
    };
    if interfaces.is_empty() {
        r.error(at, "the router has no interface", "add one to \"interfaces\"");
    }
    let firewall = match f.get("firewall") {
        Some(at) => Some(Box::new(firewall::iptables(r, &at, context)?)),
        None => None,
    };
    let routes = match (routes_at, imported) {
        (Some(at), Some(table)) => {
            table_of(r, &at, &interfaces, table.routes.into_iter().map(|route| (at, route)))
        }
        (Some(list), None) => {
            let items = r.items(&list, "routes", MAX_ENTRIES).unwrap_or_default();
            let mut written = Vec::with_capacity(items.len());
            for (i, node) in items.iter().enumerate() {
                let at = list.index(i, node);
                written.extend(
                    r.parse(&at, "a route such as \"10.0.0.0/8 via 192.0.2.1\"").map(|route| (at, route)),
                );
            }
            table_of(r, at, &interfaces, written.into_iter())
        }
        (None, _) => table_of(r, at, &interfaces, std::iter::empty()),
    };
    Some(Router { interfaces, routes, firewall })
}

/// `{file: NAME, format: ip-json|ip-route|show-ip-route}`.
fn import_table(r: &mut Reader, at: &At<'_>, context: &mut Context<'_, '_>) -> Option<RoutingTable> {
    const FORMATS: &[&str] = &["ip-json", "ip-route", "show-ip-route"];
    let f = r.fields(at, &["file", "format"])?;
    let format_at = f.need(r, "format", "ip-json, ip-route or show-ip-route")?;
    let format = r.text(&format_at, "ip-json, ip-route or show-ip-route")?;
    let read = match format {
        "ip-json" => ip_json_route,
        "ip-route" => ip_route,
        "show-ip-route" => show_ip_route,
        other => {
            r.error(
                &format_at,
                format!("{} is not a format of routing tables", quote(other)),
                did_you_mean(other, FORMATS),
            );
            return None;
        }
    };
    let (name, text) = import(r, at, &f, context)?;
    match read(&text) {
        Ok(table) => {
            context.notes.extend(table.notes.iter().cloned());
            Some(table)
        }
        Err(errors) => {
            in_file(r, at, &name, &errors);
            None
        }
    }
}

/// Interfaces as a routing table shows them: the networks of their addresses are connected routes.
fn imported_interfaces(r: &mut Reader, at: &At<'_>, table: &RoutingTable) -> Vec<Interface> {
    let names = table.interfaces();
    if names.len() > MAX_PORTS {
        r.error(at, format!("{} interfaces", names.len()), format!("at most {MAX_PORTS} are read"));
        return Vec::new();
    }
    let mut connected: HashSet<(&str, IpPrefix)> = HashSet::new();
    for route in &table.routes {
        if let ImportedAction::Forward(hops) = &route.action {
            let devs = hops.iter().filter(|h| h.via.is_none()).filter_map(|h| h.dev.as_deref());
            connected.extend(devs.map(|dev| (dev, route.prefix)));
        }
    }
    let mut addresses: HashMap<&str, Vec<InterfaceAddr>> = HashMap::new();
    for (dev, addr) in &table.addresses {
        let full = IpPrefix::host(*addr).len();
        let is_network =
            |len: u8| IpPrefix::containing(*addr, len).is_ok_and(|p| connected.contains(&(dev.as_str(), p)));
        let len = (0..full).rev().find(|len| is_network(*len)).unwrap_or(full);
        addresses.entry(dev).or_default().extend(InterfaceAddr::new(*addr, len));
    }
    let interface = |name: &str| {
        let addresses = addresses.remove(name).unwrap_or_default();
        Interface { name: name.to_string(), addresses, mac: None, vlan: None }
    };
    names.into_iter().map(interface).collect()
}

/// The whole table: what follows from the interfaces, and routes, which go before that.
fn table_of<'a>(
    r: &mut Reader,
    whole: &At<'_>,
    interfaces: &[Interface],
    routes: impl Iterator<Item = (At<'a>, ImportedRoute)>,
) -> Vec<Route> {
    let mut table = implied(interfaces);
    let mut written: BTreeMap<Key, (usize, ImportedRoute)> = BTreeMap::new();
    let mut places = Vec::new();
    for (at, route) in routes {
        if let Some((first, _)) = written.get(&order(route.prefix)) {
            let message = format!("a second route to {}", route.prefix);
            r.error(&at, message, format!("item {first} is one; write all its next hops there"));
        }
        written.insert(order(route.prefix), (places.len(), route));
        places.push(at);
    }
    let resolver = Resolver::new(interfaces, &written);
    for (key, (place, route)) in &written {
        let at = places.get(*place).unwrap_or(whole);
        if r.count() >= DocErrors::MAX {
            break;
        }
        if let Some(action) = resolver.action(r, at, route) {
            table.insert(*key, Route { prefix: route.prefix, action });
        }
    }
    table.into_values().collect()
}

/// Longest prefixes first, then by address.
fn order(prefix: IpPrefix) -> Key {
    (Reverse(prefix.len()), prefix.addr())
}

type Key = (Reverse<u8>, IpAddr);
type Table = BTreeMap<Key, Route>;

/// The router's own addresses and the networks of its interfaces.
fn implied(interfaces: &[Interface]) -> Table {
    let mut table = Table::new();
    for interface in interfaces {
        for addr in &interface.addresses {
            let hop = NextHop { via: None, interface: interface.name.clone() };
            let (prefix, action) = (addr.network(), RouteAction::Forward(vec![hop]));
            // Of two interfaces in one network the first leads there, unless a route says otherwise.
            table.entry(order(prefix)).or_insert(Route { prefix, action });
        }
    }
    for addr in interfaces.iter().flat_map(|i| &i.addresses) {
        let prefix = addr.host();
        table.insert(order(prefix), Route { prefix, action: RouteAction::Local });
    }
    table
}

fn interfaces(r: &mut Reader, at: &At<'_>) -> Vec<Interface> {
    let Some(map) = r.map(at, "a map from interfaces' names to addresses") else { return Vec::new() };
    if map.entries.len() > MAX_PORTS {
        r.error(at, format!("{} interfaces", map.entries.len()), format!("at most {MAX_PORTS} are read"));
        return Vec::new();
    }
    let named = map.entries.iter().filter_map(|(name, node)| interface(r, &at.key(name, node), name, node));
    named.collect()
}

/// An address, a list of them, `{address, mac, vlan}`, or nothing.
fn interface(r: &mut Reader, at: &At<'_>, name: &str, node: &Node) -> Option<Interface> {
    let name = port_name(r, at, name)?;
    let addresses = |r: &mut Reader, at: &At<'_>| {
        one_or_list(r, at, "addresses", |r, at| {
            r.parse::<InterfaceAddr>(at, "an address such as 10.0.0.1/24")
        })
    };
    if node.is_null() {
        return Some(Interface { name, addresses: Vec::new(), mac: None, vlan: None });
    }
    if !is_map(at) {
        return Some(Interface { name, addresses: addresses(r, at), mac: None, vlan: None });
    }
    let f = r.fields(at, &["address", "mac", "vlan"])?;
    let addresses = f.get("address").map(|at| addresses(r, &at)).unwrap_or_default();
    let mac = optional(f.get("mac"), |at| r.parse(at, "an Ethernet address"));
    let vlan = optional(f.get("vlan"), |at| vlan(r, at));
    Some(Interface { name, addresses, mac: mac?, vlan: vlan? })
}

pub(crate) fn vlan(r: &mut Reader, at: &At<'_>) -> Option<VlanId> {
    r.number(at, "a VLAN", 1, 4094).and_then(|n| VlanId::new(u16::try_from(n).ok()?))
}

/// Finds the interfaces of next hops.
struct Resolver<'a> {
    names: HashSet<&'a str>,
    /// The interface of each network that one is in; of several the first.
    networks: HashMap<IpPrefix, &'a str>,
    routes: &'a BTreeMap<Key, (usize, ImportedRoute)>,
    /// How many next hops may still be looked for: routes that lead to routes are much work for a short text.
    budget: Cell<usize>,
}

impl<'a> Resolver<'a> {
    fn new(interfaces: &'a [Interface], routes: &'a BTreeMap<Key, (usize, ImportedRoute)>) -> Self {
        let mut networks = HashMap::new();
        for interface in interfaces {
            for addr in &interface.addresses {
                networks.entry(addr.network()).or_insert(interface.name.as_str());
            }
        }
        let names = interfaces.iter().map(|i| i.name.as_str()).collect();
        Self { names, networks, routes, budget: Cell::new(4 * routes.len() + MAX_LOOKUPS) }
    }

    /// What a route does, its next hops' interfaces found.
    fn action(&self, r: &mut Reader, at: &At<'_>, route: &ImportedRoute) -> Option<RouteAction> {
        let hops = match &route.action {
            ImportedAction::Local => return Some(RouteAction::Local),
            ImportedAction::Blackhole => return Some(RouteAction::Blackhole),
            ImportedAction::Unreachable => return Some(RouteAction::Unreachable),
            ImportedAction::Prohibit => return Some(RouteAction::Prohibit),
            ImportedAction::Forward(hops) => hops,
        };
        let mut found: Vec<NextHop> = Vec::new();
        for hop in hops {
            if let Some(dev) = hop.dev.as_deref().filter(|dev| !self.names.contains(dev)) {
                let mut names: Vec<&str> = self.names.iter().copied().collect();
                names.sort_unstable();
                r.error(at, format!("the router has no interface {}", quote(dev)), did_you_mean(dev, &names));
                return None;
            }
            let resolved = self.resolve(hop, MAX_RECURSION);
            if self.budget.get() == 0 {
                r.error(
                    at,
                    "the next hops lead to too many other routes",
                    "write their interfaces: \"via ADDRESS dev INTERFACE\"",
                );
                return None;
            }
            if let (Some(via), true) = (hop.via, resolved.is_empty()) {
                let message = format!("the next hop {via} is on the network of no interface");
                r.error(at, message, "write its interface too: \"via ADDRESS dev INTERFACE\"");
                return None;
            }
            found.extend(resolved);
            if found.len() > MAX_HOPS {
                r.error(
                    at,
                    format!("the route to {} has too many next hops", route.prefix),
                    format!("at most {MAX_HOPS} are read"),
                );
                return None;
            }
        }
        found.dedup();
        Some(RouteAction::Forward(found))
    }

    /// The next hops with interfaces that a next hop stands for: itself, the one on an interface's network, or, as for routes of BGP,
    /// those of the route to it.
    fn resolve(&self, hop: &ImportedHop, depth: u32) -> Vec<NextHop> {
        if let Some(dev) = &hop.dev {
            return vec![NextHop { via: hop.via, interface: dev.clone() }];
        }
        let Some(via) = hop.via else { return Vec::new() };
        let Some(left) = self.budget.get().checked_sub(1) else { return Vec::new() };
        self.budget.set(left);
        let full = IpPrefix::host(via).len();
        let around = || (0..=full).rev().filter_map(|len| IpPrefix::containing(via, len).ok());
        if let Some(interface) = around().find_map(|prefix| self.networks.get(&prefix)) {
            return vec![NextHop { via: Some(via), interface: (*interface).to_string() }];
        }
        let route = around().find_map(|prefix| self.routes.get(&order(prefix))).map(|(_, route)| route);
        let Some(ImportedRoute { action: ImportedAction::Forward(hops), .. }) = route else {
            return Vec::new();
        };
        if depth == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        for hop in hops.iter().take(MAX_HOPS) {
            // A connected route leads to the next hop itself.
            let next = ImportedHop { via: hop.via.or(Some(via)), dev: hop.dev.clone() };
            found.extend(self.resolve(&next, depth - 1));
            found.truncate(MAX_HOPS + 1);
        }
        found
    }
}

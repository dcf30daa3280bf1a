//! Routers: from interfaces and written routes to the whole table.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::boxes::{is_map, port_name};
use super::one_or_list;
use crate::doc::{At, Fields, Node, Reader, did_you_mean};
use crate::graph::optional;
use crate::import::{ImportedAction, ImportedHop, ImportedRoute};
use crate::topology::{
    Interface, InterfaceAddr, MAX_ENTRIES, MAX_PORTS, NextHop, Route, RouteAction, Router,
};
use crate::value::{IpPrefix, VlanId};

pub(super) fn router(r: &mut Reader, at: &At<'_>, f: &Fields<'_>) -> Option<Router> {
    let interfaces = f
        .need(r, "interfaces", "a map from names to addresses, such as {lan: 10.0.0.1/24}")
        .map(|at| interfaces(r, &at))?;
    let mut table = implied(&interfaces);
    let mut written = BTreeMap::new();
    if let Some(routes) = f.get("routes") {
        for (i, node) in r.items(&routes, "routes", MAX_ENTRIES).unwrap_or_default().iter().enumerate() {
            let at = routes.index(i, node);
            let Some(route) = r.parse::<ImportedRoute>(&at, "a route such as \"10.0.0.0/8 via 192.0.2.1\"")
            else {
                continue;
            };
            if let Some(first) = written.insert(order(route.prefix), i) {
                let message = format!("a second route to {}", route.prefix);
                r.error(&at, message, format!("item {first} is one; write all its next hops there"));
            }
            if let Some(action) = action(r, &at, &route, &interfaces) {
                table.insert(order(route.prefix), Route { prefix: route.prefix, action });
            }
        }
    }
    if interfaces.is_empty() {
        r.error(at, "the router has no interface", "add one to \"interfaces\"");
    }
    Some(Router { interfaces, routes: table.into_values().collect() })
}

/// Longest prefixes first, then by address.
fn order(prefix: IpPrefix) -> (std::cmp::Reverse<u8>, IpAddr) {
    (std::cmp::Reverse(prefix.len()), prefix.addr())
}

type Table = BTreeMap<(std::cmp::Reverse<u8>, IpAddr), Route>;

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

pub(super) fn vlan(r: &mut Reader, at: &At<'_>) -> Option<VlanId> {
    r.number(at, "a VLAN", 1, 4094).and_then(|n| VlanId::new(u16::try_from(n).ok()?))
}

/// What a route does, its next hops' interfaces found.
fn action(
    r: &mut Reader,
    at: &At<'_>,
    route: &ImportedRoute,
    interfaces: &[Interface],
) -> Option<RouteAction> {
    Some(match &route.action {
        ImportedAction::Local => RouteAction::Local,
        ImportedAction::Blackhole => RouteAction::Blackhole,
        ImportedAction::Unreachable => RouteAction::Unreachable,
        ImportedAction::Prohibit => RouteAction::Prohibit,
        ImportedAction::Forward(hops) => {
            let hops: Option<Vec<NextHop>> =
                hops.iter().map(|hop| next_hop(r, at, hop, interfaces)).collect();
            RouteAction::Forward(hops?)
        }
    })
}

fn next_hop(r: &mut Reader, at: &At<'_>, hop: &ImportedHop, interfaces: &[Interface]) -> Option<NextHop> {
    if let Some(dev) = &hop.dev {
        if !interfaces.iter().any(|i| i.name == *dev) {
            let names: Vec<&str> = interfaces.iter().map(|i| i.name.as_str()).collect();
            r.error(at, format!("the router has no interface {dev:?}"), did_you_mean(dev, &names));
            return None;
        }
        return Some(NextHop { via: hop.via, interface: dev.clone() });
    }
    let via = hop.via?;
    let host = IpPrefix::host(via);
    let length = |i: &Interface| {
        i.addresses.iter().map(InterfaceAddr::network).filter(|n| n.contains(&host)).map(|n| n.len()).max()
    };
    let nearest = interfaces.iter().filter_map(|i| Some((length(i)?, i))).max_by_key(|(len, _)| *len);
    let Some((_, interface)) = nearest else {
        let message = format!("the next hop {via} is on the network of no interface");
        r.error(at, message, "write its interface too: \"via ADDRESS dev INTERFACE\"");
        return None;
    };
    Some(NextHop { via: Some(via), interface: interface.name.clone() })
}

//! Reading service access points.

use std::collections::HashMap;

use std::net::IpAddr;

use super::A_NODE;
use super::number::{ip, vlan};
use crate::doc::optional;
use crate::doc::{At, Fields, Kind, Reader, did_you_mean};
use crate::error::quote;
use crate::graph::{
    GreSap, HostStackSap, InterfaceSap, Sap, SapKind, VXLAN_PORT, VlanSap, VxlanSap, WIREGUARD_PORT,
    WireGuardPeer,
};
use crate::value::{HostAddress, Id};

pub(super) fn sap(r: &mut Reader, at: &At<'_>) -> Option<Sap> {
    const TYPES: [&str; 5] = ["interface", "vlan", "gre", "vxlan", "host-stack"];
    const WANTED: &str = "interface, vlan, gre, vxlan or host-stack";
    // Only the section of its type belongs to a SAP, so the type is looked at first.
    let entries = r.map(at, "a map with \"id\", \"type\" and a section of that name")?;
    let type_at = entries.need(r, "type", WANTED)?;
    let word = r.text(&type_at, WANTED)?;
    let Some(section) = TYPES.into_iter().find(|t| *t == word) else {
        r.error(
            &type_at,
            format!("{} is not a type of service access point", quote(word)),
            did_you_mean(word, &TYPES),
        );
        return None;
    };
    r.known(&entries, &["id", "name", "node", "type", section]);
    let id = entries
        .need(r, "id", "the service access point's identifier")
        .and_then(|at| r.parse(&at, "an identifier"));
    let name = optional(entries.get("name"), |at| r.parse(at, "a name"));
    let node = optional(entries.get("node"), |at| r.parse(at, A_NODE));
    let kind = match entries.get(section) {
        None if section == "host-stack" => Some(SapKind::HostStack { host_stack: HostStackSap::default() }),
        None => {
            r.error(
                at,
                format!("the field {section:?} is missing"),
                format!("a SAP of type {section:?} has a section {section:?}"),
            );
            None
        }
        Some(at) => sap_kind(r, &at, section),
    };
    Some(Sap { id: id?, name: name?, node: node?, kind: kind? })
}

fn sap_kind(r: &mut Reader, at: &At<'_>, section: &str) -> Option<SapKind> {
    const NAME: &str = "an interface's name";
    match section {
        "interface" => {
            let f = r.fields(at, &["if-name", "share"])?;
            let if_name = f.need(r, "if-name", NAME).and_then(|at| r.parse(&at, NAME));
            let share = optional(f.get("share"), |at| r.parse(at, "an address with ports"));
            Some(SapKind::Interface { interface: InterfaceSap { if_name: if_name?, share: share? } })
        }
        "vlan" => {
            let f = r.fields(at, &["vlan-id", "if-name"])?;
            let vlan_id = f.need(r, "vlan-id", "1 to 4094").and_then(|at| vlan(r, &at));
            let if_name = optional(f.get("if-name"), |at| r.parse(at, NAME));
            Some(SapKind::Vlan { vlan: VlanSap { vlan_id: vlan_id?, if_name: if_name? } })
        }
        "gre" => {
            let f = r.fields(at, &["local-ip", "remote-ip", "gre-key"])?;
            let ends = ends(r, at, &f);
            let gre_key = optional(f.get("gre-key"), |at| r.number(at, "a GRE key", 0, u32::MAX));
            let ((local_ip, remote_ip), gre_key) = (ends?, gre_key?);
            Some(SapKind::Gre { gre: GreSap { local_ip, remote_ip, gre_key } })
        }
        "vxlan" => {
            let f = r.fields(at, &["vni", "local-ip", "remote-ip", "udp-port", "wireguard"])?;
            let ends = ends(r, at, &f);
            let vni = f.need(r, "vni", "a VXLAN network identifier");
            let vni = vni.and_then(|at| r.number(&at, "a VXLAN network identifier", 0, 0xff_ffff));
            let udp_port = udp_port(r, &f, VXLAN_PORT);
            let wireguard = optional(f.get("wireguard"), |at| wireguard(r, at));
            if let (Some(Some(_)), Some(at)) =
                (&wireguard, f.get("udp-port").filter(|_| udp_port != Some(VXLAN_PORT)))
            {
                let help = format!(
                    "leave it out: it is {VXLAN_PORT} inside; \"wireguard\" has a \"udp-port\" of its own"
                );
                r.error(&at, "VXLAN inside of WireGuard has no other port", help);
            }
            let ((local_ip, remote_ip), vni) = (ends?, vni?);
            let vxlan = VxlanSap { vni, local_ip, remote_ip, udp_port: udp_port?, wireguard: wireguard? };
            Some(SapKind::Vxlan { vxlan })
        }
        _ => {
            let f = r.fields(at, &["ip", "if-name", "mtu"])?;
            let ip = optional(f.get("ip"), |at| addresses(r, at));
            let if_name = optional(f.get("if-name"), |at| r.parse(at, NAME));
            let mtu = optional(f.get("mtu"), |at| r.number(at, "a number of bytes", 68, 65_521));
            let host_stack = HostStackSap { ip: ip?.unwrap_or_default(), if_name: if_name?, mtu: mtu? };
            Some(SapKind::HostStack { host_stack })
        }
    }
}

/// A field `udp-port`, or what it is without one.
fn udp_port(r: &mut Reader, f: &Fields<'_>, usual: u16) -> Option<u16> {
    let port = optional(f.get("udp-port"), |at| r.number(at, "a UDP port", 1, u16::MAX.into()))?;
    Some(port.and_then(|port| u16::try_from(port).ok()).unwrap_or(usual))
}

fn wireguard(r: &mut Reader, at: &At<'_>) -> Option<WireGuardPeer> {
    let f = r.fields(at, &["public-key", "udp-port"])?;
    let key =
        f.need(r, "public-key", "the other end's public key").and_then(|at| r.parse(&at, "a public key"));
    let udp_port = udp_port(r, &f, WIREGUARD_PORT);
    Some(WireGuardPeer { public_key: key?, udp_port: udp_port? })
}

/// The addresses of both ends of a tunnel.
fn ends(r: &mut Reader, at: &At<'_>, f: &Fields<'_>) -> Option<(IpAddr, IpAddr)> {
    let local = f.need(r, "local-ip", "this end's address").and_then(|at| end(r, &at));
    let remote = f.need(r, "remote-ip", "the other end's address").and_then(|at| end(r, &at));
    let (local, remote) = (local?, remote?);
    if local.is_ipv4() != remote.is_ipv4() {
        r.error(at, "one end has an IPv4 address, the other an IPv6 address", "give both the same family");
    } else if local == remote {
        r.error(at, format!("both ends are {local}"), "a tunnel leads to another address");
    }
    Some((local, remote))
}

/// The address of an end of a tunnel: one that a host can have.
fn end(r: &mut Reader, at: &At<'_>) -> Option<IpAddr> {
    let ip = ip(r, at)?;
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || broadcast {
        r.error(at, format!("{ip} is not the address of an end of a tunnel"), "give that of an interface");
        return None;
    }
    Some(ip)
}

/// One address or a list: at most one of a family.
fn addresses(r: &mut Reader, at: &At<'_>) -> Option<Vec<HostAddress>> {
    const ADDRESS: &str = "an address with its prefix length";
    if !matches!(at.node.kind, Kind::List(_)) {
        return Some(vec![r.parse(at, ADDRESS)?]);
    }
    let items = r.items(at, "addresses", 2)?;
    let read: Vec<Option<HostAddress>> =
        items.iter().enumerate().map(|(i, node)| r.parse(&at.index(i, node), ADDRESS)).collect();
    let all: Vec<HostAddress> = read.into_iter().collect::<Option<_>>()?;
    if let [a, b] = all[..]
        && a.addr().is_ipv4() == b.addr().is_ipv4()
    {
        r.error(at, "both addresses are of one family", "give at most one of IPv4 and one of IPv6");
    }
    Some(all)
}

/// Reports access points that stand for the same place.
pub(super) fn distinct_saps(r: &mut Reader, at: &At<'_>, saps: &[(usize, Sap)]) {
    let Kind::List(items) = &at.node.kind else { return };
    let mut seen: HashMap<String, &Id> = HashMap::new();
    for (i, sap) in saps {
        let place = match &sap.kind {
            SapKind::Interface { interface: InterfaceSap { if_name, share: Some(share) } } => {
                format!("{share} at the interface {if_name}")
            }
            SapKind::Interface { interface } => format!("the interface {}", interface.if_name),
            SapKind::Vlan { vlan: VlanSap { vlan_id, if_name: Some(name) } } => {
                format!("VLAN {vlan_id} of the interface {name}")
            }
            SapKind::Vlan { vlan: VlanSap { vlan_id, if_name: None } } => format!("VLAN {vlan_id}"),
            SapKind::Gre { gre } => {
                let key = gre.gre_key.map(|k| format!(" with key {k:#x}")).unwrap_or_default();
                format!("the GRE tunnel {} to {}{key}", gre.local_ip, gre.remote_ip)
            }
            SapKind::Vxlan { vxlan } => {
                let VxlanSap { vni, local_ip, remote_ip, udp_port, wireguard } = vxlan;
                let inside = if wireguard.is_some() { ", encrypted" } else { "" };
                format!("the VXLAN tunnel {local_ip} to {remote_ip} with VNI {vni} (port {udp_port}{inside})")
            }
            SapKind::HostStack { host_stack: HostStackSap { if_name: Some(name), .. } } => {
                format!("the host stack's interface {name}")
            }
            SapKind::HostStack { host_stack: HostStackSap { ip, .. } } => {
                let ip: Vec<String> = ip.iter().map(|ip| format!(" at {ip}")).collect();
                format!("the host stack{}", ip.join(""))
            }
        };
        let place = match &sap.node {
            Some(node) => format!("{place} of node {node}"),
            None => place,
        };
        let Some(node) = items.get(*i) else { continue };
        if let Some(first) = seen.get(&place) {
            let message = format!("a second service access point for {place}");
            r.error(
                &at.index(*i, node),
                message,
                format!("{:?} stands for it already; use that one", first.as_str()),
            );
        } else {
            seen.insert(place, &sap.id);
        }
    }
}

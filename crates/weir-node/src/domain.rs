//! What the node is to others: its description, and who is told when it changes (COMPOSER paper, section 5.1.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{SockaddrIn, SockaddrIn6};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use weir_api::domain::{
    Capability, CapableImage, Domain, DomainImage, Endpoint, KindStatus, ResourceUse, Share, TunnelUse,
    VlanUse,
};
use weir_api::events::{Event, Kind};
use weir_model::graph::Function;
use weir_model::template::Template;
use weir_switch::lsi0::{Base, Part, is_own_interface};

use crate::accounts::Accounts;
use crate::candidates::needs;
use crate::compute::Drivers;
use crate::connection::DataPlane;
use crate::expand::MAX_DEPTH;
use crate::images::Images;
use crate::node::Node;
use crate::view::View;

/// How often it is looked at without an event: interfaces and images come and go without one.
const LOOK: Duration = Duration::from_secs(10);
/// What follows an event within this time is told with it.
const SETTLE: Duration = Duration::from_millis(300);

/// An interface of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// Its Ethernet address.
    pub mac: Option<String>,
    /// Its largest IP packet, in bytes.
    pub mtu: Option<u32>,
    /// Its IP addresses, with their prefix lengths.
    pub addresses: Vec<String>,
}

impl<D: DataPlane> Node<D> {
    /// The description of the node as it is now.
    pub async fn domain(&self) -> Domain {
        let images = self.images().await;
        let (view, drivers) = (self.view(), self.drivers.clone());
        let accounts = self.accounts(&view);
        let overcommit = self.overcommit;
        let described =
            spawn_blocking(move || describe(&interfaces(), &view, &images, &drivers, &accounts, overcommit));
        let wireguard = self.wireguard.as_ref().map(ToString::to_string);
        let region = self.region.clone();
        let mut domain = Domain { wireguard, region, ..described.await.unwrap_or_default() };
        self.neighbours.put_in(&mut domain.endpoints);
        _ = self.described_first.set(domain.clone());
        domain
    }
}

/// Tells by an event when the description has changed.
pub(crate) async fn watch<D: DataPlane>(node: Arc<Node<D>>) {
    // Whoever comes first asks for it; until then there is more urgent work.
    while !node.view().settled {
        sleep(SETTLE).await;
    }
    let mut events = node.events.listen();
    // What has changed since somebody asked is said, too.
    let mut before = node.described_first.get().cloned();
    loop {
        let now = node.domain().await;
        if let Some(before) = before.filter(|before| *before != now) {
            node.events.publish(Kind::Domain, None, changed(&before, &now)).await;
        }
        before = Some(now);
        let relevant = async {
            loop {
                match events.recv().await {
                    Ok(Event { kind: Kind::Domain | Kind::Print | Kind::Notice, .. }) => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => return true,
                    Err(RecvError::Closed) => return false,
                }
            }
        };
        let relevant = async {
            tokio::select! {
                goes_on = relevant => goes_on,
                () = node.neighbours.changed.notified() => true,
            }
        };
        match timeout(LOOK, relevant).await {
            Ok(false) => return,
            Ok(true) => sleep(SETTLE).await,
            Err(_) => {}
        }
    }
}

/// Which parts of a description have changed.
fn changed(before: &Domain, now: &Domain) -> String {
    let parts = [
        ("end points", before.endpoints != now.endpoints),
        ("tunnels", before.tunnels != now.tunnels),
        ("capabilities", before.capabilities != now.capabilities),
        ("images", before.images != now.images),
        ("kinds of functions", before.kinds != now.kinds),
        ("the key of tunnels", before.wireguard != now.wireguard),
        ("resources", before.resources != now.resources),
    ];
    let parts: Vec<&str> = parts.iter().filter(|(_, changed)| *changed).map(|(name, _)| *name).collect();
    format!("the description of the node changed: {}", parts.join(", "))
}

/// The description of a node.
fn describe(
    interfaces: &[Interface],
    view: &View,
    images: &Images,
    drivers: &Drivers,
    accounts: &Accounts,
    overcommit: bool,
) -> Domain {
    let attachments: Vec<_> = view.graphs.values().flat_map(|e| e.graph.attachments()).collect();
    let of_graphs: BTreeSet<&str> = attachments
        .iter()
        .filter_map(|a| match &a.base {
            Base::Host(host) => Some(host.name.as_str()),
            _ => None,
        })
        .collect();
    let own = |name: &str| is_own_interface(name) || of_graphs.contains(name);
    let mut endpoints: BTreeMap<&str, Endpoint> = interfaces
        .iter()
        .filter(|i| i.name != "lo" && !own(&i.name))
        .map(|i| {
            let Interface { name, up, mac, mtu, addresses } = i.clone();
            let end = Endpoint {
                interface: name,
                up,
                mac,
                mtu,
                addresses,
                graph: None,
                vlans: Vec::new(),
                neighbours: Vec::new(),
            };
            (i.name.as_str(), end)
        })
        .collect();
    let mut tunnels = Vec::new();
    for a in &attachments {
        match (&a.base, a.part) {
            (Base::Interface(name), part) => {
                // One that graphs wait for is an end point too.
                let end = endpoints.entry(name).or_insert_with(|| Endpoint {
                    interface: name.clone(),
                    up: false,
                    mac: None,
                    mtu: None,
                    addresses: Vec::new(),
                    graph: None,
                    vlans: Vec::new(),
                    neighbours: Vec::new(),
                });
                match part {
                    Part::Vlan(vlan) => end.vlans.push(VlanUse { vlan, graph: a.graph.clone() }),
                    // The rest of the interface is free.
                    Part::Ports(_) => {}
                    _ => end.graph = Some(a.graph.clone()),
                }
            }
            (base, Part::Tunnel(tunnel)) => {
                let (kind, local) = match base {
                    Base::Gre { local } => ("gre", local),
                    Base::WireGuard(w) => ("wireguard", &w.local),
                    Base::Vxlan { local, .. } => ("vxlan", local),
                    Base::Interface(_) | Base::Host(_) => continue,
                };
                tunnels.push(TunnelUse {
                    kind: kind.to_owned(),
                    local: local.to_string(),
                    remote: tunnel.remote.to_string(),
                    key: tunnel.id,
                    graph: a.graph.clone(),
                });
            }
            _ => {}
        }
    }
    let mut endpoints: Vec<Endpoint> = endpoints.into_values().collect();
    endpoints.iter_mut().for_each(|e| e.vlans.sort_by_key(|v| v.vlan));
    Domain {
        endpoints,
        tunnels,
        capabilities: capabilities(images, drivers),
        images: images.templates.values().map(|t| domain_image(t, drivers)).collect(),
        kinds: kinds(drivers),
        resources: resources(accounts, overcommit),
        region: None,
        wireguard: None,
    }
}

fn domain_image(t: &Template, drivers: &Drivers) -> DomainImage {
    let needs = needs(t, 0);
    DomainImage {
        image: t.name.to_string(),
        kind: t.implementation.kind().to_owned(),
        secrets: t.secrets().map(str::to_owned).collect(),
        memory: needs.memory,
        cpu: needs.cpu,
        lack: drivers.lack(t),
    }
}

fn capabilities(images: &Images, drivers: &Drivers) -> Vec<Capability> {
    let mut by_word: BTreeMap<&str, Vec<CapableImage>> = BTreeMap::new();
    for t in images.templates.values().filter(|t| !t.capability.is_empty()) {
        let image = CapableImage {
            image: t.name.to_string(),
            kind: t.implementation.kind().to_owned(),
            version: t.version.as_ref().map(ToString::to_string),
            features: t.features.iter().map(ToString::to_string).collect(),
            ports: t.ports.len(),
            lack: lack(images, drivers, t, MAX_DEPTH),
        };
        for word in &t.capability {
            by_word.entry(word.as_str()).or_default().push(image.clone());
        }
    }
    let capability = |(word, images): (&str, _)| Capability { capability: word.to_owned(), images };
    by_word.into_iter().map(capability).collect()
}

/// What the node lacks to run an image, or one of those that it is made of by their names.
fn lack(images: &Images, drivers: &Drivers, t: &Template, depth: usize) -> Option<String> {
    let Some(graph) = t.graph() else { return drivers.lack(t) };
    let depth = depth.checked_sub(1)?;
    let named = graph.functions.iter().filter(|f| f.capability.is_none());
    let lack_of = |f: &Function| match images.find(f) {
        Ok(inner) => lack(images, drivers, inner, depth),
        Err(what) => Some(what),
    };
    named.filter_map(|f| lack_of(f).map(|what| format!("its function '{}': {what}", f.id))).next()
}

fn kinds(drivers: &Drivers) -> Vec<KindStatus> {
    let inline = KindStatus { kind: "click".to_owned(), ports: Vec::new(), lack: None };
    let of_driver = drivers.all().map(|d| KindStatus {
        kind: d.kind().name().to_owned(),
        ports: d.ports().iter().map(|p| (*p).to_owned()).collect(),
        lack: crate::compute::missing(d.needs().iter().copied()),
    });
    [inline].into_iter().chain(of_driver).collect()
}

fn resources(accounts: &Accounts, overcommit: bool) -> ResourceUse {
    let (total, used) = (accounts.total(), accounts.used());
    let share = |total, used: u128| Share { total, used: u64::try_from(used).unwrap_or(u64::MAX) };
    ResourceUse { memory: share(total.memory, used.memory), cpu: share(total.cpu, used.cpu), overcommit }
}

/// The interfaces of this machine, as the network namespace of this process has them.
pub(crate) fn interfaces() -> Vec<Interface> {
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    for a in getifaddrs().into_iter().flatten() {
        let i = found.entry(a.interface_name.clone()).or_insert_with(|| Interface {
            mtu: weir_io::interface::mtu(&a.interface_name),
            name: a.interface_name.clone(),
            ..Interface::default()
        });
        i.up = a.flags.contains(InterfaceFlags::IFF_UP);
        let Some(address) = a.address else { continue };
        if let Some(link) = address.as_link_addr() {
            let mac = link.addr().filter(|mac| *mac != [0; 6]);
            i.mac = mac.map(|mac| weir_net::EtherAddr(mac).to_string());
        } else if let Some(v4) = address.as_sockaddr_in() {
            let mask = a.netmask.and_then(|m| m.as_sockaddr_in().map(SockaddrIn::ip));
            let length = mask.map_or(32, |m| u32::from(m).count_ones());
            i.addresses.push(format!("{}/{length}", v4.ip()));
        } else if let Some(v6) = address.as_sockaddr_in6() {
            let mask = a.netmask.and_then(|m| m.as_sockaddr_in6().map(SockaddrIn6::ip));
            let length = mask.map_or(128, |m| u128::from(m).count_ones());
            i.addresses.push(format!("{}/{length}", v6.ip()));
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{Needs, Resources};
    use crate::testing::{desired, wire};
    use crate::view::Entry;

    #[test]
    fn a_node_is_a_switch_with_end_points_abilities_and_what_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let image = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        image(
            "a.yaml",
            "name: a\nversion: '1'\ncapability: [wire, bridge]\nports: [l, r]\nclick: 'in_0 -> out_1; in_1 -> out_0;'\n",
        );
        image("b.yaml", "name: b\ncapability: wire\nfeatures: fast\nkind: native\nports: [l]\n");
        let images = Images::read(&[dir.path().into()], None);
        let document = wire("g", "eth1", "eth2").replace(
            "{id: r, type: interface, interface: {if-name: eth2}}",
            "{id: r, type: vlan, vlan: {vlan-id: 25, if-name: eth2}}\n  \
             - {id: t, type: gre, gre: {local-ip: 10.0.0.1, remote-ip: 10.0.0.2, gre-key: 7}}\n  \
             - {id: h, type: host-stack, host-stack: {if-name: stack}}",
        );
        let entry = Entry { graph: Arc::new(desired(&document)), revision: 1, pending: false };
        let view = View { graphs: BTreeMap::from([("g".to_owned(), entry)]), ..View::default() };
        let interface = |name: &str| Interface { name: name.to_owned(), up: true, ..Interface::default() };
        let interfaces: Vec<Interface> =
            ["lo", "eth2", "eth3", "stack", "wf0123456789ab"].map(interface).into();
        let mut accounts = Accounts::new(Resources { memory: 512, cpu: 2000 });
        accounts.set("g", Needs { memory: 64, cpu: Some(500) });
        let found = describe(&interfaces, &view, &images, &Drivers::default(), &accounts, false);
        let ends: Vec<_> =
            found.endpoints.iter().map(|e| (e.interface.as_str(), e.up, e.graph.as_deref())).collect();
        assert_eq!(ends, [("eth1", false, Some("g")), ("eth2", true, None), ("eth3", true, None)]);
        assert_eq!(found.endpoints[1].vlans, [VlanUse { vlan: 25, graph: "g".into() }]);
        let t = &found.tunnels[0];
        assert_eq!(
            (t.kind.as_str(), t.remote.as_str(), t.key, found.tunnels.len()),
            ("gre", "10.0.0.2", Some(7), 1)
        );
        let words: Vec<_> =
            found.capabilities.iter().map(|c| (c.capability.as_str(), c.images.len())).collect();
        assert_eq!(words, [("bridge", 1), ("wire", 2)]);
        let wires = &found.capabilities[1].images;
        assert_eq!((wires[0].lack.as_deref(), wires[0].ports), (None, 2));
        assert!(
            wires[1].lack.as_ref().unwrap().contains("no functions of kind native")
                && wires[1].features == ["fast"]
        );
        let click = KindStatus { kind: "click".into(), ports: Vec::new(), lack: None };
        assert_eq!(found.kinds, std::slice::from_ref(&click));
        let native = KindStatus { kind: "native".into(), ports: vec!["veth".into()], lack: None };
        let with = Drivers::default().with(crate::compute::dummy::Dummy::default());
        assert_eq!(kinds(&with), [click, native]);
        assert_eq!(found.resources.memory, Share { total: 512, used: 64 });
        let mut later = found.clone();
        later.resources.cpu.used = 0;
        later.tunnels.clear();
        assert_eq!(changed(&found, &later), "the description of the node changed: tunnels, resources");
    }
}

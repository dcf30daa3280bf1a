//! Tunnels by which nothing can pass: the address of this end is gone, or no route leads to the other end. Interfaces say by themselves
//! when they go down; that an address or a route goes is looked for here.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use weir_api::events::Kind;
use weir_switch::lsi0::{Attachment, Base, Part};

use crate::connection::DataPlane;
use crate::desired::DesiredGraph;
use crate::node::Node;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);

/// The addresses of a tunnel's ends.
fn ends(a: &Attachment) -> Option<(Ipv4Addr, Ipv4Addr)> {
    match (&a.base, a.part) {
        (Base::Vxlan { local, .. } | Base::Gre { local }, Part::Tunnel(tunnel)) => {
            Some((*local, tunnel.remote))
        }
        (Base::WireGuard(w), _) => Some((w.local, w.remote)),
        _ => None,
    }
}

/// Why nothing passes by a graph's tunnels, one line a tunnel.
pub fn trouble(graph: &DesiredGraph) -> Vec<String> {
    let trouble = |a: &Attachment| {
        let (local, remote) = ends(a)?;
        if weir_io::tunnel::check_address(local).is_err() {
            return Some(format!("sap '{}': {local} is no address of this node any more", a.sap));
        }
        let unreachable = weir_io::tunnel::route_mtu(local, remote).is_none();
        unreachable.then(|| {
            format!("sap '{}': this node has no route to {remote}, so that nothing reaches it", a.sap)
        })
    };
    let tunnels = graph.attachments.iter().filter(|p| p.tunnel.is_some());
    tunnels.filter_map(|p| trouble(&p.attachment(&graph.id))).collect()
}

/// Says by events when tunnels stop to work, and work again.
pub(crate) async fn watch<D: DataPlane>(node: Arc<Node<D>>) {
    let mut before: BTreeMap<String, Vec<String>> = BTreeMap::new();
    loop {
        sleep(LOOK).await;
        let now: BTreeMap<String, Vec<String>> = {
            let view = node.view();
            let graphs = view.graphs.iter().map(|(id, e)| (id.clone(), trouble(&e.graph)));
            graphs.filter(|(_, lines)| !lines.is_empty()).collect()
        };
        for (graph, lines) in &now {
            let known = before.get(graph).map(Vec::as_slice).unwrap_or_default();
            for line in lines.iter().filter(|line| !known.contains(line)) {
                node.events.publish(Kind::DeviceDown, Some(graph), line.clone()).await;
            }
        }
        for graph in before.keys().filter(|graph| !now.contains_key(*graph)) {
            if node.graph(graph).is_some() {
                node.events.publish(Kind::DeviceUp, Some(graph), "its tunnels lead somewhere again").await;
            }
        }
        before = now;
    }
}

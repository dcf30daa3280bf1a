//! MTUs of access points, as the node's interfaces and routes have them now.

use weir_model::graph::ServiceGraph;
use weir_switch::compile::CompileError;
use weir_switch::lsi0::{Attachment, Base, Part};
use weir_switch::mtu::{Mtu, warnings};

use crate::desired::DesiredGraph;
use crate::tunnels;

/// Those of a graph's access points that are known: an interface may not be there, or a tunnel's other end without a route.
fn mtus(graph: &DesiredGraph) -> Vec<Mtu> {
    let mtu = |a: Attachment| {
        let carrier = match (&a.base, a.part) {
            (Base::Interface(name), _) => weir_io::interface::mtu(name)?,
            (Base::Host(host), _) => host.mtu,
            (Base::Vxlan { local, .. } | Base::Gre { local }, Part::Tunnel(tunnel)) => {
                weir_io::tunnel::route_mtu(*local, tunnel.remote)?
            }
            (Base::WireGuard(w), _) => weir_io::tunnel::route_mtu(w.local, w.remote)?,
            (Base::Vxlan { .. } | Base::Gre { .. }, _) => return None,
        };
        Some(Mtu { sap: a.sap, base: a.base, part: a.part, carrier })
    };
    graph.attachments().into_iter().filter_map(mtu).collect()
}

/// What a graph should be told of tunnels that lead nowhere, and of packets that may be too large for it, in lines.
pub fn told(graph: &DesiredGraph) -> Vec<String> {
    let mut lines = tunnels::trouble(graph);
    let mtus = mtus(graph);
    let same = |pair: &[Mtu]| matches!(pair, [a, b] if a.bytes() == b.bytes());
    if !mtus.windows(2).all(same) {
        // What the node keeps is a graph.
        let document = serde_json::from_value::<ServiceGraph>(graph.whole().clone());
        lines.extend(document.map(|document| warnings(&document, &mtus)).unwrap_or_default());
    }
    lines
}

/// Access points by which nothing can pass.
///
/// # Errors
/// One for each.
pub fn check(graph: &DesiredGraph) -> Result<(), Vec<CompileError>> {
    let place = |sap: &str| graph.attachments.iter().position(|p| p.sap == sap).unwrap_or_default();
    let error =
        |m: &Mtu| Some(CompileError { at: format!("sffg.saps[{}]", place(&m.sap)), what: m.impossible()? });
    let errors: Vec<CompileError> = mtus(graph).iter().filter_map(error).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

//! What packets begin with where they come to an element.

use std::collections::VecDeque;

use weir_engine::Plan;
use weir_verify::checks::Framing;

use super::Ports;
use super::body::argument;

/// Length of an Ethernet header.
const ETHER_LEN: &str = "14";

/// What packets on each input of each element begin with, told from the ports where they come in and the elements on
/// the way. Where nothing comes by, frames are assumed.
pub fn framings(plan: &Plan, ports: &Ports) -> Vec<Vec<Framing>> {
    let graph = &plan.graph;
    let mut found: Vec<Vec<Option<Framing>>> =
        graph.ports.iter().map(|p| vec![None; p.inputs.len()]).collect();
    let entries = ports.entries.iter().chain(ports.origins.iter().map(|o| &o.port));
    let mut work: VecDeque<(usize, Framing)> = entries.map(|p| (p.element, p.framing)).collect();
    while let Some((element, framing)) = work.pop_front() {
        for c in graph.connections.iter().filter(|c| c.from.0 == element) {
            let input = found.get_mut(c.to.0).and_then(|inputs| inputs.get_mut(c.to.1 as usize));
            let Some(input) = input.filter(|f| f.is_none()) else { continue };
            *input = Some(framing);
            let Some(e) = graph.elements.get(c.to.0) else { continue };
            work.push_back((c.to.0, behind(&e.class, &e.args, framing)));
        }
    }
    let known =
        |inputs: Vec<Option<Framing>>| inputs.into_iter().map(|f| f.unwrap_or(Framing::Ethernet)).collect();
    found.into_iter().map(known).collect()
}

/// What packets begin with behind an element.
fn behind(class: &str, args: &[String], framing: Framing) -> Framing {
    match class {
        "Strip" if argument(args, 0, "LENGTH") == ETHER_LEN => Framing::Ip,
        "Unstrip" if argument(args, 0, "LENGTH") == ETHER_LEN => Framing::Ethernet,
        "StripToNetworkHeader"
        | "IPEncap"
        | "UDPIPEncap"
        | "ICMPIPEncap"
        | "ICMPError"
        | "ICMP6Error"
        | "GREDecap"
        | "GTPUDecap"
        | "ICMPPingEncap" => Framing::Ip,
        "EtherEncap" | "EtherVLANEncap" | "ARPQuerier" | "ARPResponder" | "EnsureEther"
        | "IP6NDSolicitor" | "IP6NDAdvertiser" | "VXLANDecap" => Framing::Ethernet,
        _ => framing,
    }
}

//! What packets begin with where they come to an element.

use std::collections::VecDeque;

use weir_plan::Plan;
use weir_verify::checks::Framing;

use super::Ports;
use super::body::argument;

/// Length of an Ethernet header.
const ETHER_LEN: &str = "14";

/// What packets on each input of each element begin with, known from the ports where they come in and the elements on
/// the way. Where nothing comes by, frames are assumed.
pub fn framings(plan: &Plan, ports: &Ports) -> Vec<Vec<Framing>> {
    let graph = &plan.graph;
    let mut found: Vec<Vec<Option<Framing>>> =
        graph.ports.iter().map(|p| vec![None; p.inputs.len()]).collect();
    let entries = ports.entries.iter().chain(ports.origins.iter().map(|o| &o.port));
    let mut work: VecDeque<(usize, Framing)> = entries.map(|p| (p.element, p.framing)).collect();
    // In the order of the configuration for each element.
    let mut from: Vec<Vec<(usize, u32)>> = vec![Vec::new(); graph.elements.len()];
    for c in &graph.connections {
        if let Some(list) = from.get_mut(c.from.0) {
            list.push(c.to);
        }
    }
    while let Some((element, framing)) = work.pop_front() {
        for &(to, port) in from.get(element).into_iter().flatten() {
            let input = found.get_mut(to).and_then(|inputs| inputs.get_mut(port as usize));
            let Some(input) = input.filter(|f| f.is_none()) else { continue };
            *input = Some(framing);
            let Some(e) = graph.elements.get(to) else { continue };
            work.push_back((to, behind(&e.class, &e.args, framing)));
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

//! The targets. Inputs that are no text, or that the reader refuses, are fine; what is accepted must keep its promise.

use std::io::Cursor;
use std::sync::{Arc, LazyLock};

use weir_engine::{Classes, Plan, protocol};
use weir_io::pcap::{PcapReader, PcapWriter};
use weir_ir::program::{BlockId, EntryKind};
use weir_ir::{Interpreter, Program};
use weir_jit::differential::{Recorder, Step, assert_same, tables_of};
use weir_model::filter::{Expr, PacketView};
use weir_model::graph::ServiceGraph;
use weir_model::template::Template;
use weir_net::{Arp, Ethernet, FlowKey, Icmp, Ipv4, Ipv6, Tcp, Udp, Vlan};
use weir_packet::{Layer, Packet};
use weir_table::TableSet;

use crate::seeds;

static CLASSES: LazyLock<Classes> = LazyLock::new(Classes::default);

/// The programs that packets are sent through: the example of each element, and a whole service.
static PROGRAMS: LazyLock<Vec<Arc<Program>>> = LazyLock::new(|| {
    let examples = weir_elements::classes().map(|c| c.info.example);
    examples
        .chain([seeds::FIREWALL_NAT])
        .map(|config| match Plan::new(&CLASSES, config, "example") {
            Ok(plan) => plan.program().clone(),
            Err(e) => panic!("an example of the library is wrong: {e}\n{config}"),
        })
        .collect()
});

/// Click configurations: the parser takes any text, and the flat form of a graph is that graph.
pub fn click_parser(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(graph) = weir_click::parse("fuzz", &text, &*CLASSES) {
        let flat = graph.to_string();
        let again = weir_click::parse("flat", &flat, &*CLASSES);
        assert_eq!(again.as_ref(), Ok(&graph), "the flat form is another graph:\n{flat}");
    }
}

/// Service graphs in JSON or YAML: the reader takes any text, and a graph reads back from its canonical form.
pub fn service_graph(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(graph) = ServiceGraph::parse(&text) {
        let canonical = graph.to_json().to_string();
        assert_eq!(ServiceGraph::from_json(&canonical).as_ref(), Ok(&graph), "{canonical}");
    }
}

/// Function templates: the reader takes any text.
pub fn template(data: &[u8]) {
    let _ = Template::parse(&String::from_utf8_lossy(data));
}

/// Filters: the parser takes any text, a filter reads back from its canonical form, it is defined on any packet, and
/// the program that `IPClassifier` makes of it decides as the reference does.
pub fn filter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(expr) = Expr::parse(&text) else { return };
    let canonical = expr.to_string();
    assert_eq!(Expr::parse(&canonical).as_ref(), Ok(&expr), "{text} -> {canonical}");
    for view in [PacketView::ipv4(data, 0), PacketView::ip(data), PacketView::ethernet(data)] {
        expr.matches(&view);
    }
    // A comma would end the argument; a filter of Ethernet fields is not for IP packets.
    if canonical.contains([',', '"', '\'', '/']) || expr.needs_ethernet() {
        return;
    }
    let config = format!("Idle -> c :: IPClassifier({canonical}, -) -> Discard; c [1] -> Discard;");
    let Ok(plan) = Plan::new(&CLASSES, &config, "fuzz") else { return };
    let program = plan.program();
    let Some(owner) = program.elements.iter().position(|e| e == "c") else { return };
    for frame in seeds::frames() {
        let Some(ip) = frame.get(14..).filter(|ip| ip.len() >= 20) else { continue };
        let Some(packet) = ip_packet(ip) else { continue };
        let wanted = u32::from(!expr.matches(&PacketView::ipv4(ip, 0)));
        let mut host = Outputs { owner: owner as u32, program, steps: Vec::new() };
        let entry = program.packet_entry(owner as u32, 0).expect("the element has an input");
        let mut tables = tables_of(program);
        Interpreter::default().run(program, &mut tables, &mut host, 0, entry, &[], Some(packet));
        assert_eq!(host.left_by(), Some(wanted), "{canonical} on {ip:02x?}");
    }
}

//! The targets. Inputs that are no text, or that the reader refuses, are fine; what is accepted must keep its promise.

use std::collections::HashSet;
use std::io::Cursor;
use std::sync::{Arc, LazyLock};

use weir_filter::{Expr, PacketView};
use weir_io::pcap::{PcapReader, PcapWriter};
use weir_ir::program::EntryKind;
use weir_ir::{Interpreter, Program, check, optimize, program_of};
use weir_jit::differential::{Recorder, Seen, Step, assert_same, tables_of};
use weir_model::graph::ServiceGraph;
use weir_model::request::Request as ProcessingRequest;
use weir_model::requirement::Requirement;
use weir_model::template::Template;
use weir_net::probe::Probe;
use weir_net::{Arp, Ethernet, FlowKey, Icmp, Ipv4, Ipv6, Tcp, Udp, Vlan, describe, describe_ip};
use weir_packet::{Layer, Packet};
use weir_plan::{Classes, Plan};
use weir_protocol::{Reply, Request};
use weir_table::TableSet;
use weir_topology::Topology;
use weir_topology::import::hassel::TransferFunction;
use weir_topology::import::iptables::Target;
use weir_topology::import::{ip_json_route, ip_route, iptables_save, show_ip_route};

use crate::seeds;

/// What a configuration may use.
static CLASSES: LazyLock<Classes> = LazyLock::new(Classes::default);

/// The programs that packets are sent through: the examples of the elements, and a whole service.
static PROGRAMS: LazyLock<Vec<Arc<Program>>> = LazyLock::new(|| {
    let examples = CLASSES.iter().flat_map(|c| c.info().examples.iter().copied());
    let plans = examples.chain([seeds::FIREWALL_NAT]).map(|config| {
        Plan::new(&CLASSES, config, "example")
            .unwrap_or_else(|e| panic!("an example is wrong: {e}\n{config}"))
    });
    // Some examples are of engine nodes only.
    plans.map(|p| p.program().clone()).filter(|p| !p.entries.is_empty()).collect()
});

/// Click configurations: the parser takes any text, and the flat form of a graph is that graph.
pub fn click_parser(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(graph) = weir_click::parse("fuzz", &text, &*CLASSES) {
        let flat = graph.to_string();
        assert_eq!(weir_click::parse("flat", &flat, &*CLASSES).as_ref(), Ok(&graph), "{flat}");
    }
}

/// Service graphs in JSON or YAML: the reader takes any text, and a graph reads back from its canonical form.
pub fn service_graph(data: &[u8]) {
    if let Ok(graph) = ServiceGraph::parse(&String::from_utf8_lossy(data)) {
        let canonical = graph.to_json().to_string();
        assert_eq!(ServiceGraph::from_json(&canonical).as_ref(), Ok(&graph), "{canonical}");
    }
}

/// Function templates: the reader takes any text.
pub fn template(data: &[u8]) {
    let _ = Template::parse(&String::from_utf8_lossy(data));
}

/// Requirements: the parser takes any text, and a requirement reads back from its canonical form.
pub fn requirement(data: &[u8]) {
    for line in String::from_utf8_lossy(data).lines() {
        if let Ok(requirement) = Requirement::parse(line) {
            let canonical = requirement.goal.to_string();
            let again = Requirement::parse(&canonical).map(|r| r.goal);
            assert_eq!(again.as_ref(), Ok(&requirement.goal), "{line} -> {canonical}");
        }
    }
    let _ = Requirement::parse_all(&String::from_utf8_lossy(data));
}

/// Probes of other nodes: the reader takes any frame, and what it takes is written as it was read, with names that may be shown to people.
pub fn probes(data: &[u8]) {
    let Ok((from, probe)) = Probe::read(data) else { return };
    let is_plain = |name: &str| name.bytes().all(|b| b.is_ascii_graphic());
    assert!(is_plain(&probe.node) && is_plain(&probe.interface), "{probe:?}");
    let frame = probe.frame(from).unwrap_or_default();
    assert_eq!(Probe::read(&frame), Ok((from, probe)));
}

/// Requests: the reader takes any text, a module's text keeps its place, and only whole lines are taken out of it.
pub fn request(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(request) = ProcessingRequest::parse(&text) else { return };
    for module in &request.modules {
        let there = &text[module.offset..module.offset + module.click.len()];
        for (kept, written) in module.click.split('\n').zip(there.split('\n')) {
            assert!(kept == written || kept.bytes().all(|b| b == b' '), "{written:?} became {kept:?}");
        }
    }
}

/// Topologies in JSON or YAML, without files: the reader takes any text, and what it accepts has no loose ends.
pub fn topology(data: &[u8]) {
    let Ok(topology) = Topology::parse(&String::from_utf8_lossy(data)) else { return };
    for end in topology.links.iter().flat_map(|l| [&l.a, &l.b]) {
        let node = topology.node(&end.node).expect("a link leads to a box");
        assert!(node.ports().contains(&end.port.as_str()), "{end} is no port");
    }
    for requirement in &topology.requirements {
        for node in requirement.places().filter_map(|p| p.node()) {
            assert!(topology.node(node).is_some(), "a requirement names {node}");
        }
    }
}

/// Routing tables as `ip -json route` prints them: the reader takes any text.
pub fn ip_json_route_table(data: &[u8]) {
    let _ = ip_json_route(&String::from_utf8_lossy(data));
}

/// Routing tables as `ip route` prints them: the reader takes any text, and no prefix has two routes.
pub fn ip_route_table(data: &[u8]) {
    let Ok(table) = ip_route(&String::from_utf8_lossy(data)) else { return };
    let prefixes: HashSet<_> = table.routes.iter().map(|r| r.prefix).collect();
    assert_eq!(prefixes.len(), table.routes.len());
}

/// Routing tables as `show ip route` prints them: the reader takes any text, and no prefix has two routes.
pub fn show_ip_route_table(data: &[u8]) {
    let Ok(table) = show_ip_route(&String::from_utf8_lossy(data)) else { return };
    let prefixes: HashSet<_> = table.routes.iter().map(|r| r.prefix).collect();
    assert_eq!(prefixes.len(), table.routes.len());
}

/// Rules of Linux machines: the reader takes any text, and jumps lead to chains.
pub fn iptables_rules(data: &[u8]) {
    let Ok(rules) = iptables_save(&String::from_utf8_lossy(data)) else { return };
    for table in [rules.filter, rules.nat].into_iter().flatten() {
        for rule in table.chains.iter().flat_map(|c| &c.rules) {
            if let Target::Jump(to) | Target::Goto(to) = rule.target {
                assert!(to < table.chains.len());
            }
        }
    }
}

/// Transfer functions: the reader takes any text, and every wildcard is as long as the header.
pub fn transfer_function(data: &[u8]) {
    let Ok(function) = TransferFunction::parse(&String::from_utf8_lossy(data)) else { return };
    for rule in &function.rules {
        let wildcard = rule.matches.iter().flat_map(|w| [&w.value, &w.mask]);
        let rewrite = rule.rewrite.iter().flat_map(|r| [&r.value, &r.mask]);
        assert!(wildcard.chain(rewrite).all(|bytes| bytes.len() == function.header_len));
    }
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
    // Read as Click reads it, as the element does.
    let Ok(expr) = Expr::parse_click(&canonical) else {
        panic!("Click's way to read does not know {canonical}")
    };
    let class = weir_elements::class_named("IPClassifier").expect("the library has it");
    let Ok(element) = class.configure(&[canonical.clone(), "-".to_owned()]) else {
        assert!(expr.needs_ethernet(), "IPClassifier refuses {canonical}");
        return;
    };
    let program = program_of(&*element, "c", 1, 2);
    assert_eq!(check(&program), Ok(()), "{canonical}");
    let entry = program.packet_entry(0, 0).expect("the element has an input");
    for frame in seeds::frames() {
        let Some(ip) = frame.get(14..).filter(|ip| ip.len() >= 20) else { continue };
        let Some(packet) = ip_packet(ip) else { continue };
        let mut host = Recorder::new(0);
        let mut tables = tables_of(&program);
        Interpreter::default().run(&program, &mut tables, &mut host, 0, entry, &[], Some(packet));
        let wanted = u32::from(!expr.matches(&PacketView::ipv4(ip, 0)));
        let left = matches!(host.seen.as_slice(), [Seen::Exit { port, .. }] if *port == wanted);
        assert!(left, "{canonical} on {ip:02x?}: output {wanted} is right, got {:?}", host.seen);
    }
}

/// Programs as text: the reader takes any text, a program reads back from what it prints, the checker takes any
/// program, the passes keep a checked program checked, and a checked program faults on no packet.
pub fn ir_text(data: &[u8]) {
    let Ok(program) = weir_ir::parse(&String::from_utf8_lossy(data)) else { return };
    let printed = program.to_string();
    assert_eq!(weir_ir::parse(&printed).as_ref(), Ok(&program), "{printed}");
    if check(&program).is_err() {
        return;
    }
    let optimized = optimize(program.clone());
    assert_eq!(check(&optimized), Ok(()), "a pass broke a rule in\n{printed}\nwhich became\n{optimized}");
    for p in [&program, &optimized] {
        if is_small(p)
            && let Some(mut tables) = first_content(p)
        {
            send_any(p, &mut tables);
        }
    }
}

/// Frames: views, descriptions and flow keys are defined on any bytes, and keep their promises.
pub fn headers(data: &[u8]) {
    assert!(!describe(data).contains('\n'));
    assert!(!describe_ip(data).contains('\n'));
    for key in [FlowKey::of_frame(data), FlowKey::of_ip(data)].into_iter().flatten() {
        assert_eq!(key.reverse().reverse(), key);
        assert_eq!(key.symmetric_hash(7), key.reverse().symmetric_hash(7));
    }
    let _ = Ethernet::new(data).map(|h| h.payload().len());
    let _ = Vlan::new(data).map(|h| (h.vid(), h.priority(), h.payload().len()));
    let _ = Arp::new(data).map(|h| h.operation());
    let _ = Ipv6::new(data).map(|h| h.payload().len());
    let _ = Tcp::new(data).map(|h| (h.options().len(), h.payload().len()));
    let _ = Udp::new(data).map(|h| h.payload().len());
    let _ = Icmp::new(data).map(|h| h.payload().len());
    let mut copy = data.to_vec();
    if let Ok(mut ip) = Ipv4::new(copy.as_mut_slice()) {
        ip.fill_checksum();
        assert!(ip.checksum_ok());
        assert!(ip.payload().len() + ip.header_len() <= data.len());
    }
}

/// Packets of any bytes through the programs of the element library, in the interpreter.
pub fn packets(data: &[u8]) {
    let Some((program, steps)) = packet_series(data) else { return };
    let mut tables = tables_of(program);
    let (mut interpreter, mut host) = (Interpreter::default(), Recorder::new(1));
    for step in steps {
        match step {
            Step::Packet { owner, port, packet, now } => {
                let entry =
                    program.packet_entry(owner, port).expect("the series names inputs of the program");
                interpreter.expire(program, &mut tables, &mut host, now);
                interpreter.run(program, &mut tables, &mut host, now, entry, &[], Some(packet));
            }
            _ => unreachable!("a series consists of packets"),
        }
    }
}

/// The same in the interpreter and in compiled code.
pub fn compiled(data: &[u8]) {
    let Some((program, steps)) = packet_series(data) else { return };
    assert_same(program, 1, &steps);
}

/// Captures: the reader takes any bytes, looks for IP headers in any of them, and what it read comes back from a file that
/// the writer made.
pub fn pcap_reader(data: &[u8]) {
    if let Ok(mut reader) = PcapReader::new("fuzz", Cursor::new(data.to_vec()))
        && reader.mark_ip().is_ok()
    {
        while let Ok(Some(packet)) = reader.next_packet() {
            let net = packet.layer(Layer::Net).unwrap_or(packet.data());
            assert!(packet.layer(Layer::Transport).is_none_or(|t| net < t && t <= packet.end()));
        }
    }
    let read = read_capture(data.to_vec());
    let mut file = Vec::new();
    let mut writer = PcapWriter::new("fuzz", &mut file, u32::MAX).expect("memory takes any bytes");
    for packet in &read {
        writer.write(packet).expect("memory takes any bytes");
    }
    drop(writer);
    let again = read_capture(file);
    assert_eq!(again.len(), read.len());
    for (a, b) in read.iter().zip(&again) {
        assert_eq!(a.bytes(), b.bytes());
    }
}

/// The control protocol: both sides take any line, and what they understood can be said again.
pub fn protocol(data: &[u8]) {
    for line in String::from_utf8_lossy(data).lines() {
        if let Ok(request) = serde_json::from_str::<Request>(line) {
            let text = serde_json::to_string(&request).expect("a request can be written");
            serde_json::from_str::<Request>(&text).expect("a request reads back");
        }
        if let Ok(reply) = serde_json::from_str::<Reply>(line) {
            let text = serde_json::to_string(&reply).expect("a reply can be written");
            serde_json::from_str::<Reply>(&text).expect("a reply reads back");
        }
    }
}

/// A program and packets for it. The first byte chooses the program; each packet follows three bytes: to which input, how
/// long, how much later (in seconds, squared).
fn packet_series(data: &[u8]) -> Option<(&'static Program, Vec<Step>)> {
    let (&first, mut rest) = data.split_first()?;
    let program = PROGRAMS.get(usize::from(first) % PROGRAMS.len())?;
    let inputs: Vec<(u32, u32)> = program
        .entries
        .iter()
        .filter_map(|e| match e.kind {
            EntryKind::Packet { port } => Some((e.owner, port)),
            _ => None,
        })
        .collect();
    let (mut steps, mut now) = (Vec::new(), 1_000_000_000);
    while let [to, len, later, bytes @ ..] = rest {
        let &(owner, port) = inputs.get(usize::from(*to) % inputs.len().max(1))?;
        let (bytes, behind) = bytes.split_at(usize::from(*len).min(bytes.len()));
        now += u64::from(*later).pow(2) * 1_000_000_000;
        steps.push(Step::Packet { owner, port, packet: any_packet(bytes)?, now });
        rest = behind;
    }
    Some((program, steps))
}

/// A frame, or an IP packet as it is behind `CheckIPHeader` if it looks like one.
fn any_packet(bytes: &[u8]) -> Option<Packet> {
    match bytes.first() {
        Some(0x45..=0x4f) if bytes.len() >= 20 => ip_packet(bytes),
        _ => Packet::from_bytes(bytes).ok(),
    }
}

/// A packet with the marks of its network and transport headers.
fn ip_packet(bytes: &[u8]) -> Option<Packet> {
    let mut packet = Packet::from_bytes(bytes).ok()?;
    let net = packet.data();
    let transport = net + u32::from(bytes.first()? & 15) * 4;
    packet.set_layer(Layer::Net, Some(net));
    packet.set_layer(Layer::Transport, Some(transport).filter(|&t| t <= packet.end()));
    packet.anno[..4].copy_from_slice(bytes.get(16..20)?);
    Some(packet)
}

/// Whether a program ends soon and needs little memory: the checker allows more than a fuzzer has time for.
fn is_small(program: &Program) -> bool {
    let rounds =
        program.blocks.iter().filter_map(|b| b.loop_limit).fold(1_u64, |n, l| n.saturating_mul(l.into()));
    rounds <= 1000 && program.tables.iter().all(|t| t.decl.capacity <= 4096)
}

/// Tables with their first content, unless that does not fit.
fn first_content(program: &Program) -> Option<TableSet> {
    let mut tables = TableSet::new(program.tables.iter().map(|t| &t.decl)).ok()?;
    for (i, t) in (0..).zip(&program.tables) {
        for row in &t.rows {
            tables.table_mut(i).insert_row(row, 0).ok()?;
        }
    }
    Some(tables)
}

/// Sends frames into each input.
fn send_any(program: &Program, tables: &mut TableSet) {
    let (mut interpreter, mut host) = (Interpreter::default(), Recorder::new(2));
    for entry in &program.entries {
        if matches!(entry.kind, EntryKind::Packet { .. }) {
            for bytes in [&[][..], &[0x45; 20], &[0; 60], &[0xff; 200]] {
                let packet = any_packet(bytes);
                interpreter.run(program, tables, &mut host, 5, entry.block, &[], packet);
            }
        }
    }
    interpreter.expire(program, tables, &mut host, u64::MAX);
}

/// All packets of a capture up to its end or its first mistake.
fn read_capture(data: Vec<u8>) -> Vec<Packet> {
    let Ok(mut reader) = PcapReader::new("fuzz", Cursor::new(data)) else { return Vec::new() };
    std::iter::from_fn(|| reader.next_packet().ok().flatten()).collect()
}

//! Flow tables against the model of rules and a reference of actions: random rules go the whole way, from the
//! service graph by the compiler and the Click language to the program.

mod support;

use std::fmt::Debug;
use std::path::Path;
use std::str::FromStr;

use proptest::prelude::*;
use support::frames::{Frame, MACS, PORTS, V4, V6, frame};
use support::{Library, class, reference};
use weir_filter::{Expr, PacketView};
use weir_ir::{Program, check, optimize, program_of};
use weir_jit::differential::{Seen, Step, assert_same};
use weir_model::graph::{Actions, Match, PortRef, Rule, ServiceGraph, VlanMatch};
use weir_model::template::Template;
use weir_model::value::VlanId;
use weir_net::EtherAddr;
use weir_switch::compile::plan;
use weir_switch::config::configuration;

/// A graph with three access points and no rules.
const GRAPH: &str = "
id: g
name: three access points
saps:
  - {id: a, type: interface, interface: {if-name: eth0}}
  - {id: b, type: interface, interface: {if-name: eth1}}
  - {id: c, type: interface, interface: {if-name: eth2}}
flowrules: []
";

fn sap(i: usize) -> PortRef {
    PortRef::Sap(["a", "b", "c"][i].parse().unwrap())
}

fn one_of<T: Debug + FromStr<Err: Debug>>(texts: &[&str]) -> impl Strategy<Value = Option<T>> + use<T> {
    let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
    prop::option::weighted(0.12, prop::sample::select(texts).prop_map(|t| t.parse().unwrap()))
}

fn mac() -> impl Strategy<Value = Option<EtherAddr>> {
    prop::option::weighted(0.15, (0usize..3).prop_map(|i| EtherAddr(MACS[i])))
}

fn number<T: Copy + Debug + 'static>(of: &'static [T]) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.12, prop::sample::select(of))
}

fn vlan_id() -> impl Strategy<Value = VlanId> {
    prop::sample::select(vec![7, 25, 25, 4094]).prop_map(|id| VlanId::new(id).unwrap())
}

const PREFIXES: [&str; 8] = [
    "10.0.0.1",
    "10.0.0.0/16",
    "192.0.2.0/24",
    "0.0.0.0/0",
    "2001:db8::1",
    "2001:db8::/32",
    "fe80::/10",
    "::/0",
];

fn matching() -> impl Strategy<Value = Match> {
    let filters = [
        "tcp or udp",
        "not ip",
        "vlan 25",
        "dst port 80 or src portrange 53-1024",
        "ip6",
        "arp",
        "tcp[13] & 2 != 0",
        "ip[8] <= 1",
        "host 10.0.0.1",
        "ether dst 02:00:00:00:00:02",
        "icmp",
        "not (udp port 53)",
        "net 10.0.0.0/8",
    ];
    let vlan =
        prop::option::weighted(0.15, prop_oneof![Just(VlanMatch::None), vlan_id().prop_map(VlanMatch::Id)]);
    let ports = ["80", "53", "0-1024", "1024-65535"];
    (
        (0usize..3, mac(), mac(), one_of(&["0x0800", "0x86dd", "0x0806"]), vlan),
        (
            one_of(&PREFIXES),
            one_of(&PREFIXES),
            number(&[6u8, 17, 1, 58]),
            number(&[0u8, 0x2e]),
            number(&[0u8, 11]),
        ),
        (
            one_of(&ports),
            one_of(&ports),
            one_of(&["+syn", "+syn-ack", "-rst"]),
            number(&[8u8, 128]),
            number(&[0u8, 1]),
        ),
        one_of::<String>(&filters),
    )
        .prop_map(|(link, net, transport, filter)| {
            let mut m = Match::port_in(sap(link.0));
            (m.ether_src, m.ether_dst, m.ethertype, m.vlan_id) = (link.1, link.2, link.3, link.4);
            (m.ip_src, m.ip_dst, m.ip_proto, m.ip_tos, m.ip_dscp) = net;
            (m.tp_src, m.tp_dst, m.tcp_flags, m.icmp_type, m.icmp_code) = transport;
            m.filter = filter.map(|f| Expr::parse(&f).unwrap());
            m
        })
}

fn actions() -> impl Strategy<Value = Actions> {
    let addr = || {
        let all: Vec<String> = V4
            .iter()
            .map(|a| std::net::Ipv4Addr::from(*a).to_string())
            .chain(V6.map(str::to_owned))
            .collect();
        prop::option::weighted(0.25, prop::sample::select(all).prop_map(|a| a.parse().unwrap()))
    };
    let outputs = prop::sample::subsequence(vec![0usize, 1, 2], 1..=3);
    (
        (
            prop::bool::weighted(0.3),
            prop::option::weighted(0.2, vlan_id()),
            prop::bool::weighted(0.3),
            prop::option::weighted(0.2, vlan_id()),
            mac(),
            mac(),
        ),
        (addr(), addr(), number(&[0u8, 0x2e, 0xff]), number(&PORTS), number(&PORTS)),
        (outputs, prop::bool::weighted(0.1)),
    )
        .prop_map(|(link, net, (outputs, drop))| Actions {
            pop_vlan: link.0,
            push_vlan: link.1,
            dec_ttl: link.2,
            set_vlan: link.3,
            set_ether_src: link.4,
            set_ether_dst: link.5,
            set_ip_src: net.0,
            set_ip_dst: net.1,
            set_ip_tos: net.2,
            set_tp_src: net.3,
            set_tp_dst: net.4,
            output_to_port: if drop { Vec::new() } else { outputs.into_iter().map(sap).collect() },
            drop,
        })
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let rule = (0u16..4, matching(), actions());
    prop::collection::vec(rule, 1..8).prop_map(|list| {
        let made = |(i, (priority, matches, actions)): (usize, (u16, Match, Actions))| Rule {
            id: format!("r{i}").parse().unwrap(),
            priority,
            matches,
            actions,
        };
        // Some fields do not go together, such as addresses of two families.
        list.into_iter().enumerate().map(made).filter(|r| graph(std::slice::from_ref(r)).is_some()).collect()
    })
}

/// The graph with these rules, if the model allows them.
fn graph(rules: &[Rule]) -> Option<ServiceGraph> {
    let mut parts = ServiceGraph::parse(GRAPH).unwrap().into_parts();
    parts.flowrules = rules.to_vec();
    ServiceGraph::from_parts(&parts).ok()
}

/// The program of the graph's flow table.
fn table(rules: &[Rule]) -> Program {
    let graph = graph(rules).expect("each rule is allowed");
    let text = configuration(&plan(&graph, |_| Err("there is no image".into())).unwrap()).text;
    let parsed = weir_click::parse("graph", &text, &Library).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let lsi = &parsed.elements[parsed.find("lsi").unwrap()];
    let element = class("FlowTable").unwrap().configure(&lsi.args).unwrap_or_else(|e| panic!("{e:?}"));
    let program = program_of(&*element, "lsi", 3, 3);
    check(&program).unwrap_or_else(|e| panic!("{e:#?}\n{text}"));
    program
}

/// The rule that applies, by the model alone.
fn applies<'a>(rules: &'a [Rule], input: usize, frame: &[u8]) -> Option<&'a Rule> {
    let view = PacketView::ethernet(frame);
    let mut best: Option<&Rule> = None;
    for r in rules.iter().filter(|r| r.matches.port_in == sap(input) && r.matches.expr().matches(&view)) {
        if best.is_none_or(|b| r.priority > b.priority) {
            best = Some(r);
        }
    }
    best
}

/// What left, by output; and the reason if it was dropped.
fn ends(seen: &[Seen]) -> (Vec<(u32, Vec<u8>)>, Option<String>) {
    let (mut out, mut reason) = (Vec::new(), None);
    for s in seen {
        match s {
            Seen::Exit { port, packet } => out.push((*port, packet.bytes.clone())),
            Seen::Dropped { reason: why, .. } => reason = Some(why.to_string()),
            other => panic!("a flow table does nothing of this kind: {other:?}"),
        }
    }
    out.sort();
    (out, reason)
}

fn verdict(rules: &[Rule], input: usize, frame: &Frame, seen: &[Seen]) {
    let (out, reason) = ends(seen);
    let reason = reason.as_deref();
    let Some(rule) = applies(rules, input, &frame.bytes) else {
        assert_eq!((out, reason), (vec![], Some("NoMatch")), "no rule applies to {frame:02x?}");
        return;
    };
    if rule.actions.drop {
        assert_eq!((out, reason), (vec![], Some("Denied")), "{rule:?} drops {frame:02x?}");
        return;
    }
    let ports: Vec<u32> =
        (0..3).filter(|&i| rule.actions.output_to_port.contains(&sap(i as usize))).collect();
    if !frame.intact {
        // Of frames that are wrong, it is enough that the right rule applied: they all leave, or none.
        let left: Vec<u32> = out.iter().map(|(port, _)| *port).collect();
        assert!(
            left == ports || left.is_empty() && matches!(reason, Some("TtlExpired" | "Truncated")),
            "{rule:?}: {frame:02x?}: {left:?} {reason:?}"
        );
        return;
    }
    match reference::apply(&rule.actions, &frame.bytes) {
        None => assert_eq!((out, reason), (vec![], Some("TtlExpired")), "{rule:?}: {frame:02x?}"),
        Some(bytes) => {
            let wanted: Vec<_> = ports.into_iter().map(|port| (port, bytes.clone())).collect();
            assert!(
                (&out, reason) == (&wanted, None),
                "{:?}: {frame:02x?}\n  left as {out:02x?} {reason:?}\nnot as {wanted:02x?}",
                rule.actions
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_right_rule_applies_and_does_what_it_says(
        rules in rules(),
        frames in prop::collection::vec((0usize..3, frame()), 1..40),
    ) {
        let program = table(&rules);
        let fast = optimize(program.clone());
        check(&fast).unwrap_or_else(|e| panic!("{e:#?}"));
        let steps: Vec<Step> = frames.iter().map(|(input, f)| Step::packet(*input as u32, &f.bytes, 1)).collect();
        let seen = assert_same(&program, 1, &steps);
        let fast = assert_same(&fast, 1, &steps);
        for (((input, frame), seen), fast) in frames.iter().zip(&seen).zip(&fast) {
            verdict(&rules, *input, frame, seen);
            prop_assert_eq!(ends(fast), ends(seen), "optimised");
        }
    }
}

/// The example graph, with the images of this repository, is a configuration of classes that exist.
#[test]
fn the_example_compiles_to_a_configuration() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("examples/firewall-nat.yaml")).unwrap();
    let graph = ServiceGraph::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let images: Vec<Template> = ["firewall", "nat", "null"]
        .map(|name| Template::load(&root.join("images").join(name)).unwrap_or_else(|e| panic!("{e}")))
        .into();
    let image = |f: &weir_model::graph::Function| {
        let wanted = f.template.as_ref().unwrap_or(&f.name);
        images.iter().find(|t| t.name.as_str() == wanted.as_str()).ok_or("there is no image".to_owned())
    };
    let plan = plan(&graph, image).unwrap_or_else(|e| panic!("{e:?}"));
    let text = configuration(&plan).text;
    let parsed = weir_click::parse("graph", &text, &Library).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for (e, ports) in parsed.elements.iter().zip(&parsed.ports) {
        let Some(class) = class(&e.class) else { continue };
        let element = class.configure(&e.args).unwrap_or_else(|why| panic!("{}: {why:?}", e.name));
        let program = program_of(&*element, &e.name, ports.inputs.len() as u32, ports.outputs.len() as u32);
        check(&program).unwrap_or_else(|why| panic!("{}: {why:#?}", e.name));
    }
    // Each handler of the functions belongs to an element that has it.
    for f in &plan.functions {
        for (name, (handler, _)) in &f.handlers {
            let (element, handler) = handler.rsplit_once('.').unwrap();
            let e =
                parsed.find(element).unwrap_or_else(|| panic!("{}: {name}: no element '{element}'", f.id));
            let info = class(&parsed.elements[e].class).unwrap().info;
            assert!(
                info.handlers.iter().any(|h| h.name == handler),
                "{}: {name}: no handler '{handler}'",
                f.id
            );
        }
    }
    assert_eq!((plan.functions.len(), plan.attachments.len()), (2, 2));
}

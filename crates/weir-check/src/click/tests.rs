use weir_plan::Classes;

use super::*;

fn ports(config: &str) -> (Network, Ports) {
    let plan = Plan::new(&Classes::default(), config, "test").unwrap();
    let mut net = Network::new();
    let ports = add(&mut net, &plan, 0, "p/");
    net.finish();
    (net, ports)
}

#[test]
fn devices_links_and_files_are_where_packets_come_in_and_leave() {
    let (net, ports) = ports(
        "FromDevice(DEVNAME eth0) -> Queue -> ToDevice(eth1); \
         FromLink(\"a/b/in\") -> ToLink(a/b/out); FromDump(x.pcap, FORCE_IP true) -> ToDump(y.pcap); \
         t :: KernelTun(10.9.9.1/24, DEVNAME tun7) -> t; Socket(UDP, 127.0.0.1, 5000) -> Discard;",
    );
    let names = |list: &[Port]| {
        let mut all: Vec<_> = list.iter().map(|p| (p.name.clone(), p.framing)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    let own = |s: &str| s.to_owned();
    assert_eq!(
        names(&ports.entries),
        [
            (own("Socket@9"), Framing::Ethernet),
            (own("a/b/in"), Framing::Ethernet),
            (own("eth0"), Framing::Ethernet),
            (own("tun7"), Framing::Ip),
            (own("x.pcap"), Framing::Ip)
        ]
    );
    assert_eq!(
        names(&ports.exits),
        [
            (own("a/b/out"), Framing::Ethernet),
            (own("eth1"), Framing::Ethernet),
            (own("tun7"), Framing::Ip),
            (own("y.pcap"), Framing::Ethernet)
        ]
    );
    // What enters the kernel does not come back by itself.
    let tun = ports.entries.iter().find(|p| p.name == "tun7").unwrap();
    let exit = ports.exits.iter().find(|p| p.name == "tun7").unwrap();
    assert_ne!(tun.place, exit.place);
    assert_eq!(net.node(tun.place.node).outputs, [Some(exit.place)]);
    assert!(net.node(exit.place.node).outputs.is_empty());
    assert_eq!(net.node(exit.place.node).name, "p/t");
}

#[test]
fn sources_say_what_they_make_if_they_always_make_the_same() {
    let (_, ports) = ports(
        "InfiniteSource(\\<0102>, LENGTH 3) -> Discard; RatedSource(abc) -> Discard; RandomSource(9) -> Discard;",
    );
    let bytes: Vec<_> = ports.origins.iter().map(|o| o.bytes.as_deref()).collect();
    assert_eq!(bytes, [Some(&[1, 2, 1][..]), Some(b"abc"), None]);
    assert!(ports.entries.is_empty());
}

#[test]
fn a_queue_that_several_pull_from_may_give_to_each() {
    let (net, ports) =
        ports("FromDevice(a) -> q :: Queue; q -> Unqueue -> ToDevice(b); q -> Unqueue -> ToDevice(c);");
    let queue = ports.nodes[1].1;
    let fan = net.node(queue).outputs[0].unwrap();
    assert_eq!(net.node(fan.node).outputs.iter().flatten().count(), 2);
    assert_eq!((ports.labels[&fan.node].class.as_str(), ports.labels[&fan.node].hidden), ("Queue", true));
}

#[test]
fn shared_tables_are_shared_within_a_scope_only() {
    let plan =
        Plan::new(&Classes::default(), "FromDevice(a) -> Strip(14) -> Counter -> ToDevice(b);", "t").unwrap();
    let template = Template::new(&plan);
    let mut net = Network::new();
    let (one, two) = (template.add(&mut net, 0, "a/"), template.add(&mut net, 1, "b/"));
    assert_eq!(one.nodes.len(), two.nodes.len());
    let program = |p: &Ports| net.node(p.nodes[1].0).program().unwrap().clone();
    assert!(Arc::ptr_eq(&program(&one), &program(&two)), "programs are made once");
    assert_eq!(template.programs().count(), 2);
}

#[test]
fn elements_that_scripts_write_to_are_not_known() {
    let (net, ports) = ports(
        "FromDevice(a) -> s :: Switch(0) -> ToDevice(b); s [1] -> d :: Discard; Script(wait 1s, write s.switch 1);",
    );
    assert!(matches!(net.node(ports.nodes[1].0).body, Body::Opaque));
    assert!(matches!(net.node(ports.nodes[3].0).body, Body::Program(_)));
    assert!(ports.notes[0].contains("handlers of s"), "{:?}", ports.notes);
}

#[test]
fn the_example_is_a_network_of_known_elements() {
    let text = include_str!("../../../../examples/firewall-nat.click");
    let (net, ports) = ports(text);
    assert_eq!(ports.entry_names().into_iter().collect::<Vec<_>>(), ["lan", "wan"]);
    assert!(net.nodes().iter().all(|n| !matches!(n.body, Body::Opaque)));
    let entry = ports.entries[0].place.node;
    let first = net.node(entry).outputs[0].unwrap();
    assert_eq!(net.node(first.node).name, "p/lan/kind");
}

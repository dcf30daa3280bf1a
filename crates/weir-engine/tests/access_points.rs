//! LSI-0 as data: access points that come and go while packets flow.

mod common;

use common::{engine, received, send, settle};
use weir_engine::Engine;
use weir_io::memory::MemoryPort;
use weir_net::EtherAddr;
use weir_net::build::{self, tag_vlan};
use weir_switch::lsi0::{Base, lsi0};

/// A frame that bears a number and perhaps a tag.
fn frame(n: u32, vlan: Option<u16>) -> Vec<u8> {
    let mut frame = common::numbered(n);
    if let Some(vlan) = vlan {
        tag_vlan(&mut frame, vlan);
    }
    frame
}

const SWITCH: &str = "FromDevice(a, WAIT true) -> lsi :: AccessPoints -> Queue -> ToDevice(a, WAIT true);";

/// A graph that sends back what it gets, counted.
fn echo(engine: &mut Engine, name: &str) {
    let config = format!("FromLink({name}/in) -> c :: Counter -> ToLink({name}/out);");
    engine.load(name, &config, "t").unwrap();
}

#[test]
fn access_points_come_and_go_while_packets_flow() {
    let (mut engine, mut far) = engine(&["a"]);
    engine.load("lsi0", SWITCH, "t").unwrap();
    for name in ["g25", "g7", "rest"] {
        echo(&mut engine, name);
    }
    let change = |engine: &mut Engine, text: &str| engine.write("lsi0", "lsi.change", text);
    let mut answers = |engine: &mut Engine, frames: &[Vec<u8>]| {
        send(&mut far[0], frames.iter().cloned());
        settle(engine);
        received(&mut far[0])
    };
    let all = [frame(1, Some(25)), frame(2, None), frame(3, Some(7)), frame(4, Some(25))];
    assert!(answers(&mut engine, &all).is_empty());
    assert_eq!(engine.status("lsi0").unwrap().drops["lsi"]["NoMatch"], 4);

    change(&mut engine, "+ 25 g25/in g25/out\n+ 7 g7/in g7/out").unwrap();
    let mut got = answers(&mut engine, &all);
    got.sort();
    let mut wanted = vec![all[0].clone(), all[2].clone(), all[3].clone()];
    wanted.sort();
    assert_eq!(got, wanted, "each comes back with its own tag");
    assert_eq!(engine.read("g25", "c.count").unwrap(), "2");
    assert_eq!(engine.read("g25", "c.byte_count").unwrap(), "120", "a graph sees no tag");

    // The graph of one VLAN gets another, lower one, by the same links.
    change(&mut engine, "- 25\n+ 6 g25/in g25/out").unwrap();
    assert_eq!(answers(&mut engine, &[frame(5, Some(6))]), [frame(5, Some(6))]);
    change(&mut engine, "- 6\n+ 25 g25/in g25/out").unwrap();
    assert_eq!(answers(&mut engine, &[frame(5, Some(25))]), [frame(5, Some(25))]);

    // All others, with their tags.
    change(&mut engine, "- 7\n+ - rest/in rest/out").unwrap();
    assert_eq!(answers(&mut engine, &all).len(), 4);
    assert_eq!(engine.read("rest", "c.count").unwrap(), "2");
    assert_eq!(engine.read("g7", "c.count").unwrap(), "1");
    assert_eq!(engine.read("lsi0", "lsi.points").unwrap(), "- rest/in rest/out\n25 g25/in g25/out\n");

    // A swap keeps them; a graph that is gone takes nothing with it.
    engine.load("lsi0", &SWITCH.replace("Queue", "Queue(100)"), "t").unwrap();
    engine.unload("rest").unwrap();
    assert_eq!(answers(&mut engine, &all).len(), 2);
    assert_eq!(engine.status("lsi0").unwrap().drops["lsi"]["LinkDown"], 2);
}

#[test]
fn what_comes_for_a_graph_that_is_not_there_yet_waits_for_it_in_order() {
    let (mut engine, mut far) = engine(&["a"]);
    engine.load("lsi0", SWITCH, "t").unwrap();
    engine.write("lsi0", "lsi.change", "+ 25 g25/in g25/out hold\n+ 7 g7/in g7/out hold").unwrap();
    assert_eq!(engine.read("lsi0", "lsi.points").unwrap(), "7 g7/in g7/out hold\n25 g25/in g25/out hold\n");
    engine.take_notices();
    let frames: Vec<Vec<u8>> = (0..300).map(|n| frame(n, Some(25))).collect();
    send(&mut far[0], frames[..2].iter().cloned());
    settle(&mut engine);
    send(&mut far[0], frames[2..].iter().cloned());
    settle(&mut engine);
    assert!(received(&mut far[0]).is_empty());
    let notices = engine.take_notices();
    let said: Vec<_> = notices.iter().map(|n| (n.graph.as_deref(), n.what)).collect();
    assert_eq!(said, [(Some("g25"), "first-packet")], "once");
    assert_eq!(engine.read("lsi0", "lsi.came").unwrap(), "g7/in 0 0\ng25/in 300 256\n");
    assert_eq!(engine.status("lsi0").unwrap().drops["lsi"]["NotStarted"], 44);
    // It is there, and still held; then it goes on.
    echo(&mut engine, "g25");
    settle(&mut engine);
    assert!(received(&mut far[0]).is_empty());
    engine.write("lsi0", "lsi.change", "- 25\n+ 25 g25/in g25/out").unwrap();
    send(&mut far[0], [frame(300, Some(25))]);
    settle(&mut engine);
    let mut wanted = frames[..256].to_vec();
    wanted.push(frame(300, Some(25)));
    assert_eq!(received(&mut far[0]), wanted);
    // One that goes takes nothing with it that others would get.
    send(&mut far[0], [frame(1, Some(7))]);
    settle(&mut engine);
    engine.write("lsi0", "lsi.change", "- 7").unwrap();
    settle(&mut engine);
    engine.write("lsi0", "lsi.change", "+ 8 g7/in g7/out hold").unwrap();
    assert_eq!(engine.read("lsi0", "lsi.came").unwrap(), "g7/in 1 0\ng25/in 301 0\n");
}

const SHARED: [u8; 4] = [10, 0, 0, 9];
const HOST: [u8; 4] = [192, 0, 2, 1];

/// What comes for a port of the shared address.
fn to_port(port: u16) -> Vec<u8> {
    build::udp4((HOST.into(), 53), (SHARED.into(), port), b"text")
}

#[test]
fn an_address_is_shared_by_its_ports() {
    let (mut engine, mut far) = engine(&["a"]);
    engine.load("lsi0", SWITCH, "t").unwrap();
    // Each graph is as `weir_switch::config` has it, and counts what it gets.
    for (name, share) in [("left", "10.0.0.9:100-199"), ("right", "10.0.0.9:200-299")] {
        let config = format!(
            "FromLink({name}/in) -> s :: SharedAddress({share}) -> c :: Counter -> Discard;\n\
             Idle -> [1] s; s [1] -> ToLink({name}/out);"
        );
        engine.load(name, &config, "t").unwrap();
    }
    echo(&mut engine, "rest");
    let change = |engine: &mut Engine, text: &str| engine.write("lsi0", "lsi.change", text);
    change(
        &mut engine,
        "+ 10.0.0.9:100-199 left/in left/out\n+ 10.0.0.9:200-299 right/in right/out\n+ - rest/in rest/out",
    )
    .unwrap();
    let refused = change(&mut engine, "+ 10.0.0.9:150-150/udp rest/in rest/out").unwrap_err();
    assert!(refused.contains("already"), "{refused}");
    let error_about = |port: u16| {
        let sent = build::udp4((SHARED.into(), port), (HOST.into(), 53), b"text");
        let body = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &sent[14..]].concat();
        build::ethernet(
            EtherAddr([2; 6]),
            EtherAddr([4; 6]),
            0x0800,
            &build::ipv4(HOST.into(), SHARED.into(), 1, &body),
        )
    };
    let mut fragment = to_port(100);
    fragment[20] = 0x20;
    let other = build::udp4((HOST.into(), 53), ([10, 0, 0, 8].into(), 100), b"text");
    let asks = build::arp(1, (EtherAddr([4; 6]), HOST.into()), (EtherAddr([0; 6]), SHARED.into()));
    let frames = [
        to_port(100),
        to_port(199),
        to_port(200),
        to_port(300),
        error_about(205),
        error_about(99),
        fragment,
        other.clone(),
        asks,
    ];
    send(&mut far[0], frames);
    settle(&mut engine);
    let mut got = received(&mut far[0]);
    got.sort_by_key(Vec::len);
    let answer = build::arp(
        2,
        ("02:c4:0a:00:00:09".parse().unwrap(), SHARED.into()),
        (EtherAddr([4; 6]), HOST.into()),
    );
    assert_eq!(got, [answer, other], "the question is answered, and other addresses are the other graph's");
    assert_eq!(
        (engine.read("left", "c.count").unwrap(), engine.read("right", "c.count").unwrap()),
        ("2".into(), "2".into())
    );
    let drops = engine.status("lsi0").unwrap().drops["lsi"].clone();
    assert_eq!((drops["WrongPort"], drops["Fragment"]), (2, 1), "{drops:?}");
    // What is another's is free when that has gone.
    change(&mut engine, "- 10.0.0.9:100-199\n+ 10.0.0.9:150-150/udp rest/in rest/out\n- -").unwrap();
    send(&mut far[0], [to_port(150), to_port(151)]);
    settle(&mut engine);
    assert_eq!(received(&mut far[0]), [to_port(150)]);
    assert!(engine.read("lsi0", "lsi.points").unwrap().contains("10.0.0.9:150-150/udp rest/in rest/out"));
}

#[test]
fn a_wrong_change_changes_nothing() {
    let (mut engine, _far) = engine(&["a"]);
    engine.load("lsi0", SWITCH, "t").unwrap();
    engine.write("lsi0", "lsi.change", "+ 25 g/in g/out").unwrap();
    engine.load("other", "FromLink(taken) -> Discard;", "t").unwrap();
    for (text, words) in [
        ("+ 26 h/in h/out\n+ 25 h/in h/out", "already"),
        ("+ 26 h/in h/out\n+ 4095 h/in h/out", "1 to 4094"),
        ("+ 26 h/in", "write"),
        ("+ 26 h/in taken", "another graph"),
    ] {
        let error = engine.write("lsi0", "lsi.change", text).unwrap_err();
        assert!(error.contains(words), "{error}");
        assert_eq!(engine.read("lsi0", "lsi.points").unwrap(), "25 g/in g/out\n", "{text}");
    }
    // What goes and comes in one change is a move.
    engine.write("lsi0", "lsi.change", "- 25\n+ 25 h/in h/out").unwrap();
    assert_eq!(engine.read("lsi0", "lsi.count").unwrap(), "1");
}

#[test]
fn an_interface_that_is_missing_is_waited_for_if_asked() {
    let (mut engine, _far) = engine(&["a"]);
    let config = SWITCH.replace("(a", "(absent");
    assert!(engine.load("lsi0", &config.replace(", WAIT true", ""), "t").is_err());
    engine.load("lsi0", &config, "t").unwrap();
    let listed = engine.list();
    assert!(listed[0].trouble.contains("absent"), "{listed:?}");
}

/// An Ethernet frame of a UDP packet.
fn inner() -> Vec<u8> {
    build::udp4(([192, 168, 0, 1].into(), 1), ([192, 168, 0, 2].into(), 9), b"inner")
}

/// An outer packet for 10.0.0.1.
fn outer(from: [u8; 4], protocol: u8, header: &[u8]) -> Vec<u8> {
    build::ipv4(from.into(), [10, 0, 0, 1].into(), protocol, &[header, &inner()].concat())
}

fn vxlan(from: [u8; 4], vni: u8) -> Vec<u8> {
    let len = 16 + inner().len() as u8;
    let header = [0xc0, 1, 0x12, 0xb5, 0, len, 0, 0, 8, 0, 0, 0, 0, 0, vni, 0];
    outer(from, 17, &header)
}

fn gre(from: [u8; 4], key: Option<u8>) -> Vec<u8> {
    match key {
        Some(key) => outer(from, 47, &[0x20, 0, 0x65, 0x58, 0, 0, 0, key]),
        None => outer(from, 47, &[0, 0, 0x65, 0x58]),
    }
}

/// The configuration of LSI-0 at 10.0.0.1, on a port in memory.
fn tunnels(base: &Base) -> (Engine, MemoryPort) {
    let name = match base {
        Base::Gre { .. } => "gre at 10.0.0.1",
        _ => "udp at 10.0.0.1:4789",
    };
    let (mut engine, mut far) = engine(&[name]);
    engine.load("lsi0", &lsi0(base), "t").unwrap();
    ["a", "b"].iter().for_each(|name| echo(&mut engine, name));
    (engine, far.remove(0))
}

/// What comes back for packets, without the fields that distinguish them: the outer destination, and the headers behind it up to the frame.
fn answers(engine: &mut Engine, far: &mut MemoryPort, packets: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    send(far, packets);
    settle(engine);
    let mut got: Vec<_> = received(far)
        .iter()
        .map(|p| {
            assert!(p.ends_with(&inner()), "the frame is whole");
            (p[16..20].to_vec(), p[20..p.len() - inner().len()].to_vec())
        })
        .collect();
    got.sort();
    got
}

const B: [u8; 4] = [10, 0, 0, 2];
const C: [u8; 4] = [10, 0, 0, 3];

#[test]
fn tunnels_at_an_address_are_told_by_their_other_ends_and_numbers() {
    let (mut engine, mut far) = tunnels(&Base::Vxlan { local: [10, 0, 0, 1].into(), port: 4789 });
    engine.write("lsi0", "lsi.change", "+ 10.0.0.2/7 a/in a/out\n+ 10.0.0.3/8 b/in b/out").unwrap();
    let packets = vec![vxlan(B, 7), vxlan(C, 8), vxlan(B, 8), vxlan([10, 0, 0, 4], 7)];
    let got = answers(&mut engine, &mut far, packets);
    let vnis: Vec<_> = got.iter().map(|(to, header)| (&to[..], header[14])).collect();
    assert_eq!(vnis, [(&B[..], 7), (&C[..], 8)], "each comes back by its own tunnel");
    let drops = &engine.status("lsi0").unwrap().drops["lsi"];
    assert_eq!((drops["WrongVNI"], drops["WrongRemote"]), (1, 1));
    assert_eq!(engine.read("lsi0", "lsi.points").unwrap(), "10.0.0.2/7 a/in a/out\n10.0.0.3/8 b/in b/out\n");
    engine.write("lsi0", "lsi.change", "- 10.0.0.2/7").unwrap();
    assert_eq!(answers(&mut engine, &mut far, vec![vxlan(B, 7)]), []);
    for wrong in [
        "+ 25 x/in x/out",
        "+ 10.0.0.2 x/in x/out",
        "+ here/1 x/in x/out",
        "+ 10.0.0.2/- x/in x/out",
        "+ 10.0.0.2/16777223 x/in x/out",
    ] {
        assert!(engine.write("lsi0", "lsi.change", wrong).unwrap_err().contains("is no tunnel"), "{wrong}");
    }
}

#[test]
fn a_gre_tunnel_without_a_key_is_not_one_with_key_0() {
    let (mut engine, mut far) = tunnels(&Base::Gre { local: [10, 0, 0, 1].into() });
    engine.write("lsi0", "lsi.change", "+ 10.0.0.2/- a/in a/out\n+ 10.0.0.3/0 b/in b/out").unwrap();
    let packets = vec![gre(B, None), gre(C, Some(0)), gre(B, Some(0)), gre(C, None), gre(C, Some(1))];
    let got = answers(&mut engine, &mut far, packets);
    let wanted = [(B.to_vec(), vec![0, 0, 0x65, 0x58]), (C.to_vec(), vec![0x20, 0, 0x65, 0x58, 0, 0, 0, 0])];
    assert_eq!(got, wanted);
    assert_eq!(engine.status("lsi0").unwrap().drops["lsi"]["WrongKey"], 3);
}

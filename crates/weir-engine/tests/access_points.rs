//! LSI-0 as data: access points that come and go while packets flow.

mod common;

use common::{engine, received, send, settle};
use weir_engine::Engine;
use weir_net::build::tag_vlan;

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

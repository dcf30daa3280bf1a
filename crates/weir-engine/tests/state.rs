//! The state of functions: out of a graph and into another, and how they stop and go on.

mod common;

use common::{answer, engine, number, numbered, received, send, settle};
use weir_engine::Engine;
use weir_io::memory::MemoryPort;
use weir_plan::Classes;

/// Frames of several kinds, sizes and flows.
fn traffic() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for i in 0..96_u8 {
        let mut f = vec![0; 14 + 20 + 8 + usize::from(i % 40)];
        f[..6].copy_from_slice(&[2, 0, 0, 0, 0, i % 5]);
        f[6..12].copy_from_slice(&[2, 0, 0, 0, 1, i % 7]);
        f[12..14].copy_from_slice(&[8, 0]);
        let length = (f.len() - 14) as u16;
        let ip = &mut f[14..34];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        (ip[5], ip[8]) = (i, 64);
        ip[9] = [17, 6, 1][usize::from(i % 3)];
        ip[12..16].copy_from_slice(&[10, 0, 0, 1 + i % 11]);
        ip[16..20].copy_from_slice(&[10, 0, 1, 1 + i % 3]);
        let sum: u32 = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        f[34..38].copy_from_slice(&[4, i, 0, 53]);
        frames.push(f);
    }
    frames
}

/// Configurations in which elements stand as their manual pages show them, with traffic where nothing comes.
fn examples() -> Vec<(&'static str, String)> {
    let classes = Classes::default();
    let mut all = Vec::new();
    for class in classes.iter() {
        for example in class.info().examples {
            let strip = match example {
                e if e.contains("IP") || e.contains("NAT") => "FromDevice(a) -> Strip(14) -> MarkIPHeader ->",
                _ => "FromDevice(a) ->",
            };
            all.push((class.info().name, example.replacen("Idle ->", strip, 1)));
            all.push((class.info().name, (*example).to_owned()));
        }
    }
    all
}

/// Where two texts differ.
fn difference(a: &str, b: &str) -> String {
    let body = |text: &str| text.split_once('\n').map(|(_, body)| body.to_owned()).unwrap_or_default();
    let (a, b) = (body(a), body(b));
    let at =
        a.bytes().zip(b.bytes()).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len())).saturating_sub(40);
    let part = |text: &str| text.chars().skip(at).take(120).collect::<String>();
    format!("{} / {}", part(&a), part(&b))
}

fn elements(engine: &mut Engine) -> Vec<String> {
    engine.status("g").unwrap().elements.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn the_state_of_every_element_goes_out_and_in_and_is_the_same() {
    // Elements that write files write them here.
    let folder = tempfile::tempdir().unwrap();
    std::env::set_current_dir(folder.path()).unwrap();
    let (mut tried, mut filled) = (0, 0);
    for (class, config) in examples() {
        let (mut first, mut far) = engine(&["a"]);
        if first.load("g", &config, "t").is_err() {
            continue;
        }
        send(&mut far[0], traffic());
        for _ in 0..200 {
            if !first.round().unwrap() {
                break;
            }
        }
        let (mut second, _far) = engine(&["a"]);
        if second.load("g", &config, "t").is_err() {
            continue;
        }
        for name in elements(&mut first) {
            let Ok(state) = first.export("g", &name) else { panic!("{class}: {name} in {config}") };
            let fresh = second.export("g", &name).unwrap();
            second.import("g", &name, &state).unwrap_or_else(|e| panic!("{class}: {name} in {config}: {e}"));
            let again = second.export("g", &name).unwrap();
            assert!(again == state, "{class}: {name} in {config}: {}", difference(&state, &again));
            tried += 1;
            filled += u32::from(fresh != state);
        }
    }
    assert!(tried > 500 && filled > 100, "{filled} of {tried} elements had a state to move");
}

const NAT: &str = "f :: { nat :: IPRewriter(pattern 10.9.9.9 1024-65535 - - 0 1, drop);
        input [0] -> [0] nat; input [1] -> [1] nat; nat [0] -> [0] output; nat [1] -> [1] output };
    FromDevice(a) -> Strip(14) -> MarkIPHeader -> gate_f_0 :: FunctionGate(f, STOPPED STATE) -> [0] f;
    FromDevice(b) -> Strip(14) -> MarkIPHeader -> gate_f_1 :: FunctionGate(f, STOPPED STATE) -> [1] f;
    f [0] -> ToDevice(b); f [1] -> ToDevice(a);";

fn nat(state: &str) -> String {
    NAT.replace("STATE", state)
}

/// A packet of UDP from a port of an inside host.
fn udp(port: u16) -> Vec<u8> {
    let mut f = traffic().swap_remove(0);
    f[34..36].copy_from_slice(&port.to_be_bytes());
    f
}

/// The source port of a packet without its Ethernet header.
fn source(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[20], packet[21]])
}

#[test]
fn flows_of_a_nat_go_on_where_it_has_moved() {
    let (mut first, mut far) = engine(&["a", "b"]);
    first.load("g", &nat("false"), "t").unwrap();
    send(&mut far[0], (2000..2050).map(udp));
    settle(&mut first);
    let out = received(&mut far[1]);
    assert_eq!(out.len(), 50);
    // It is stopped; what comes then waits, and goes with it.
    first.load("g", &nat("true"), "t").unwrap();
    send(&mut far[0], (2000..2010).map(udp));
    settle(&mut first);
    assert_eq!(received(&mut far[1]).len(), 0);
    assert_eq!(first.read("g", "gate_f_0.length").unwrap(), "10");
    let state = first.export("g", "f").unwrap();

    let (mut second, mut there) = engine(&["a", "b"]);
    second.load("g", &nat("true"), "t").unwrap();
    send(&mut there[0], (2010..2020).map(udp));
    settle(&mut second);
    second.import("g", "f", &state).unwrap();
    assert_eq!(second.read("g", "gate_f_0.length").unwrap(), "20");
    second.load("g", &nat("false"), "t").unwrap();
    settle(&mut second);
    // What waited at the old place comes first, and all have the ports that they had.
    let ports = |packets: &[Vec<u8>]| packets.iter().map(|p| source(p)).collect::<Vec<_>>();
    assert_eq!(ports(&received(&mut there[1])), ports(&out)[..20]);
    send(&mut there[1], out.iter().map(|p| answer(p)));
    settle(&mut second);
    assert_eq!(received(&mut there[0]).len(), 50, "answers find their way");
    // A new flow gets no port that one of them has.
    send(&mut there[0], [udp(3000)]);
    settle(&mut second);
    let new = ports(&received(&mut there[1]));
    assert!(new.len() == 1 && !ports(&out).contains(&new[0]));
}

#[test]
fn a_state_that_is_damaged_or_of_another_function_changes_nothing() {
    let (mut first, mut far) = engine(&["a", "b"]);
    first.load("g", &nat("false"), "t").unwrap();
    send(&mut far[0], (2000..2010).map(udp));
    settle(&mut first);
    let state = first.export("g", "f").unwrap();
    let (mut second, mut there) = engine(&["a", "b"]);
    second.load("g", &nat("false"), "t").unwrap();
    send(&mut there[0], (2100..2105).map(udp));
    settle(&mut second);
    let before = second.export("g", "f").unwrap();
    let (head, body) = state.split_once('\n').unwrap();
    let mut bad = vec![
        (body.to_owned(), "it does not begin as one"),
        (state.replace("weir-state 1", "weir-state 9"), "another version"),
        (state[..state.len() - 1].to_owned(), "damaged"),
        (state.replacen("10", "11", 1), "damaged"),
        (String::new(), "it does not begin as one"),
        (head.to_owned(), "damaged"),
    ];
    second.load("h", "Idle -> f :: { input -> c :: Counter -> output } -> Discard;", "t").unwrap();
    bad.push((second.export("h", "f").unwrap(), "another function"));
    // Each byte counts.
    for i in (0..state.len()).step_by(97) {
        let mut bytes = state.clone().into_bytes();
        bytes[i] ^= 1;
        bad.push((String::from_utf8(bytes).unwrap(), ""));
    }
    for (text, why) in bad {
        let e = second.import("g", "f", &text).unwrap_err();
        assert!(e.contains(why), "{e}");
        assert_eq!(second.export("g", "f").unwrap(), before);
    }
    assert!(second.export("g", "x").unwrap_err().contains("no function 'x'"));
    assert!(second.import("nosuch", "f", &state).unwrap_err().contains("no graph"));
    second.import("g", "f", &state).unwrap();
}

/// A function that counts by itself: with a gate of that state before it.
fn gated(state: &str) -> String {
    format!(
        "FromDevice(a) -> gate_f_0 :: FunctionGate(f, {state}) -> f :: {{ input -> q :: Queue(50) -> u :: RatedUnqueue(1000) -> output }} -> ToDevice(b);"
    )
}

#[test]
fn a_function_that_stops_keeps_packets_in_order_and_does_nothing_meanwhile() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    let numbers =
        |far: &mut Vec<MemoryPort>| received(&mut far[1]).iter().map(|f| number(f)).collect::<Vec<_>>();
    engine.load("g", "FromDevice(a) -> f :: { input -> q :: Queue(50) -> u :: RatedUnqueue(1000) -> output } -> ToDevice(b);", "t").unwrap();
    send(&mut far[0], (0..20).map(numbered));
    settle(&mut engine);
    let before = numbers(&mut far).len();
    engine.load("g", &gated("STOPPED true, CAPACITY 10"), "t").unwrap();
    send(&mut far[0], (20..35).map(numbered));
    engine.set_time(2_000_000_000);
    settle(&mut engine);
    assert_eq!(numbers(&mut far), [] as [u32; 0], "what is in the function waits there");
    assert_eq!(engine.read("g", "gate_f_0.length").unwrap(), "10");
    assert_eq!(engine.status("g").unwrap().drops["gate_f_0"]["Stopped"], 5);
    let state = engine.export("g", "f").unwrap();
    assert!(state.contains("packets"), "those in its queue are in its state");
    engine.load("g", &gated("CAPACITY 10"), "t").unwrap();
    send(&mut far[0], (35..40).map(numbered));
    let mut got = Vec::new();
    for step in 0..100 {
        engine.set_time(2_000_000_000 + step * 1_000_000);
        settle(&mut engine);
        got.extend(numbers(&mut far));
    }
    let wanted: Vec<u32> = (before as u32..30).chain(35..40).collect();
    assert_eq!(got, wanted);
    assert_eq!(engine.read("g", "gate_f_0.length").unwrap(), "0");
    // Then it goes, and nothing is different.
    engine
        .load("g", &gated("STOPPED true").replace("gate_f_0 :: FunctionGate(f, STOPPED true)", "Null"), "t")
        .unwrap();
    send(&mut far[0], [numbered(40)]);
    for step in 100..110 {
        engine.set_time(2_000_000_000 + step * 1_000_000);
        settle(&mut engine);
    }
    assert_eq!(numbers(&mut far), [40]);
}

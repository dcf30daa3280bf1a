//! Traces and captures.

mod common;

use std::sync::{Arc, Mutex};

use common::{engine, numbered, received, send, settle};
use weir_engine::{Engine, Listener, TraceRequest};
use weir_protocol::{Event, FunctionPort};

fn listener() -> (Arc<Mutex<Vec<Event>>>, Listener) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let into = events.clone();
    (
        events,
        Box::new(move |e| {
            into.lock().unwrap().push(e);
            true
        }),
    )
}

/// A trace as text: one line a step.
fn lines(event: &Event) -> Vec<String> {
    let Event::Trace { from, summary, steps, .. } = event else { panic!("{event:?}") };
    let mut out = vec![format!("{from}: {summary}")];
    for s in steps {
        let mut line = format!("{} [{}] {} :: {}", s.packet, s.port, s.element, s.class);
        for c in &s.changes {
            line.push_str(&format!("; {c}"));
        }
        if let Some(end) = &s.end {
            line.push_str(&format!(" => {end}"));
        }
        out.push(line);
    }
    out
}

fn udp() -> Vec<u8> {
    weir_net::build::udp4(([10, 0, 0, 1].into(), 1000), ([10, 0, 0, 2].into(), 53), b"hello")
}

fn trace(engine: &mut Engine, filter: &str, count: u32) -> Arc<Mutex<Vec<Event>>> {
    let (events, listener) = listener();
    let request = TraceRequest { filter: filter.into(), count, functions: Vec::new() };
    engine.trace(1, "g", request, listener).unwrap();
    events
}

#[test]
fn a_trace_tells_the_way_and_what_was_changed() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    let config = "in :: FromDevice(a) -> strip :: Strip(14) -> check :: CheckIPHeader -> ttl :: DecIPTTL
                    -> tee :: Tee -> q :: Queue -> n :: Null -> out :: ToDevice(b);
                  tee [1] -> gone :: Discard;";
    engine.load("g", config, "t").unwrap();
    let events = trace(&mut engine, "udp dst port 53", 1);
    send(&mut far[0], [numbered(1), udp(), udp()]);
    settle(&mut engine);
    let events = events.lock().unwrap();
    assert_eq!(events.len(), 2, "one trace and its end");
    assert_eq!(events[1], Event::End);
    assert_eq!(
        lines(&events[0]),
        [
            "in: IP 10.0.0.1.1000 > 10.0.0.2.53: UDP, length 5",
            "0 [0] strip :: Strip; stripped 14 bytes",
            "0 [0] check :: CheckIPHeader; dst ip annotation 0.0.0.0 -> 10.0.0.2",
            "0 [0] ttl :: DecIPTTL; ip ttl 64 -> 63",
            "0 [0] tee :: Tee",
            "1 [0] tee :: Tee",
            "1 [0] gone :: Discard => dropped: Discarded",
            "0 [0] q :: Queue => waits in q",
            "0 [0] n :: Null",
            "0 [0] out :: ToDevice => sent to b",
        ]
    );
}

#[test]
fn a_trace_goes_through_links_and_ends_where_the_packet_is_dropped() {
    let (mut engine, mut far) = engine(&["a"]);
    engine.load("g", "in :: FromDevice(a) -> to :: ToLink(l);", "t").unwrap();
    engine.load("h", "from :: FromLink(l) -> n :: Null -> d :: Discard;", "t").unwrap();
    let events = trace(&mut engine, "", 2);
    send(&mut far[0], [udp(), udp(), udp()]);
    settle(&mut engine);
    let events = events.lock().unwrap();
    assert_eq!(events.len(), 3);
    for event in &events[..2] {
        assert_eq!(
            lines(event)[1..],
            ["0 [0] to :: ToLink", "0 [0] n :: Null", "0 [0] d :: Discard => dropped: Discarded"]
        );
    }
}

#[test]
fn a_trace_tells_what_the_filter_of_a_device_drops() {
    let (mut engine, mut far) = engine(&["a"]);
    engine.load("g", "in :: FromDevice(a, BPF_FILTER udp) -> d :: Discard;", "t").unwrap();
    let events = trace(&mut engine, "", 2);
    let (captured, listener) = listener();
    engine.capture(2, "g", &["in[0]".to_owned()], "", 20, 2, listener).unwrap();
    send(&mut far[0], [numbered(1), udp()]);
    settle(&mut engine);
    let events = events.lock().unwrap();
    assert_eq!(lines(&events[0])[1..], ["0 [0] in :: FromDevice => dropped: Filtered"]);
    assert_eq!(
        lines(&events[1])[1..],
        ["0 [0] in :: FromDevice", "0 [0] d :: Discard => dropped: Discarded"]
    );
    assert_eq!(captured.lock().unwrap().len(), 1, "what is dropped does not leave it");
}

#[test]
fn a_packet_that_waits_is_reported_after_a_while() {
    let (mut engine, mut far) = engine(&["a"]);
    engine.load("g", "in :: FromDevice(a) -> q :: Queue -> Unqueue(ACTIVE false) -> Discard;", "t").unwrap();
    let events = trace(&mut engine, "", 1);
    send(&mut far[0], [udp()]);
    settle(&mut engine);
    assert!(events.lock().unwrap().is_empty());
    engine.set_time(3_000_000_000);
    settle(&mut engine);
    let events = events.lock().unwrap();
    assert_eq!(lines(&events[0])[1..], ["0 [0] q :: Queue => waits in q"]);
    assert_eq!(events[1], Event::End);
}

fn point_of(event: &Event) -> Option<String> {
    match event {
        Event::Packet { point, .. } => Some(point.clone()),
        _ => None,
    }
}

#[test]
fn a_capture_copies_what_passes_its_place() {
    let (mut engine, mut far) = engine(&["a", "b"]);
    let config =
        "in :: FromDevice(a) -> t :: Tee -> n :: Null -> Queue -> ToDevice(b); t [1] -> [0] d :: Discard;";
    engine.load("g", config, "t").unwrap();
    let mut captures = Vec::new();
    for (key, point) in (10..).zip(["", "n", "t[1]", "[0]d", "in[0]", "t"]) {
        let (events, listener) = listener();
        let points: &[String] = &if point.is_empty() { vec![] } else { vec![point.to_owned()] };
        engine.capture(key, "g", points, "udp", 20, 2, listener).unwrap();
        captures.push((point, events));
    }
    send(&mut far[0], [numbered(1), udp(), numbered(2), udp(), udp()]);
    settle(&mut engine);
    for (point, events) in &captures {
        let events = events.lock().unwrap();
        assert_eq!(events.len(), 3, "{point}: two packets and the end");
        assert_eq!(events[2], Event::End);
        let Event::Packet { length, bytes, .. } = &events[0] else { panic!("{events:?}") };
        assert_eq!((*length, bytes.len()), (udp().len() as u32, 40));
    }
    let (events, listener_of_two) = listener();
    let points = ["t[1]", "n"].map(str::to_owned);
    engine.capture(20, "g", &points, "udp", 20, 3, listener_of_two).unwrap();
    send(&mut far[0], [udp(), udp()]);
    settle(&mut engine);
    let seen: Vec<String> = events.lock().unwrap().iter().filter_map(point_of).collect();
    assert_eq!(seen.len(), 3, "the limit is for both places: {seen:?}");
    assert!(points.iter().all(|p| seen.contains(p)), "{seen:?}");
    let error = engine.capture(9, "g", &["nosuch".to_owned()], "", 20, 0, listener().1).unwrap_err();
    assert_eq!(error, "no element 'nosuch' in graph 'g'");
    let error = engine.capture(9, "g", &[], "upd", 20, 0, listener().1).unwrap_err();
    assert!(error.starts_with("filter: "), "{error}");
}

#[test]
fn watching_changes_no_packet_and_no_count() {
    let run = |watched: bool| {
        let (mut engine, mut far) = engine(&["a", "b"]);
        let config = "FromDevice(a) -> Strip(14) -> c :: CheckIPHeader -> t :: Tee -> ToDevice(b); t [1] -> ToDevice(b);
                      c [1] -> Discard;";
        engine.load("g", config, "t").unwrap();
        if watched {
            trace(&mut engine, "", 3);
        }
        send(&mut far[0], [numbered(1), udp(), numbered(2), udp(), udp()]);
        settle(&mut engine);
        (common::received(&mut far[1]), engine.status("g").unwrap().drops)
    };
    assert_eq!(run(false), run(true));
}

/// A graph whose device `f` is a function's first port, and `g` its second one.
fn with_function(
    count: u32,
    filter: &str,
) -> (Engine, Vec<weir_io::memory::MemoryPort>, Arc<Mutex<Vec<Event>>>) {
    let (mut engine, far) = engine(&["a", "f", "g", "b"]);
    let config = "in :: FromDevice(a) -> Queue -> to :: ToDevice(f);
                  from :: FromDevice(g) -> Queue -> out :: ToDevice(b);";
    engine.load("g", config, "t").unwrap();
    let port = |element: &str, port: &str| FunctionPort {
        element: element.into(),
        function: "fw".into(),
        port: port.into(),
        kind: "native".into(),
    };
    let functions = vec![port("to", "sf:fw:l"), port("from", "sf:fw:r")];
    let (events, listener) = listener();
    engine.trace(1, "g", TraceRequest { filter: filter.into(), count, functions }, listener).unwrap();
    (engine, far, events)
}

/// What a trace is but for the elements before the function.
fn behind(event: &Event) -> Vec<String> {
    lines(event).into_iter().skip_while(|l| !l.contains(" :: native")).collect()
}

#[test]
fn a_trace_goes_on_behind_a_function_that_leaves_the_packet_as_it_is() {
    let (mut engine, mut far, events) = with_function(1, "udp");
    send(&mut far[0], [udp(), numbered(1)]);
    settle(&mut engine);
    let inside = received(&mut far[1]);
    assert_eq!(inside.len(), 2);
    assert!(events.lock().unwrap().is_empty(), "it is not over yet");
    // The other one first, which nobody follows.
    send(&mut far[2], inside.into_iter().rev());
    settle(&mut engine);
    let events = events.lock().unwrap();
    assert_eq!(events.len(), 2, "one trace and its end");
    assert_eq!(
        behind(&events[0]),
        [
            "0 [0] sf:fw:l :: native; came out by sf:fw:r",
            "0 [0] Queue@5 :: Queue => waits in Queue@5",
            "0 [0] out :: ToDevice => sent to b",
        ]
    );
    let Event::Trace { bytes, steps, .. } = &events[0] else { panic!() };
    assert_eq!(&steps.iter().find(|s| s.class == "native").unwrap().bytes, bytes);
}

#[test]
fn what_a_function_changed_is_shown_apart_and_not_said_to_be_the_same() {
    let (mut engine, mut far, events) = with_function(1, "udp");
    send(&mut far[0], [udp()]);
    settle(&mut engine);
    let mut packet = received(&mut far[1]).remove(0);
    packet[0] ^= 2;
    send(&mut far[2], [packet]);
    settle(&mut engine);
    assert!(events.lock().unwrap().is_empty(), "the packet may still come");
    engine.set_time(3_000_000_000);
    engine.sleep(Some(std::time::Duration::ZERO)).unwrap();
    settle(&mut engine);
    let events = events.lock().unwrap();
    assert_eq!(
        behind(&events[0]),
        [
            "0 [0] sf:fw:l :: native => did not come out as it went in",
            "1 [0] sf:fw:r :: native; came out of it; whether it is the one that went in is not known",
            "1 [0] Queue@5 :: Queue => waits in Queue@5",
            "1 [0] out :: ToDevice => sent to b",
        ]
    );
}

#[test]
fn of_packets_that_look_the_same_none_is_said_to_be_the_one() {
    let (mut engine, mut far, events) = with_function(1, "udp");
    send(&mut far[0], [udp(), udp()]);
    settle(&mut engine);
    let inside = received(&mut far[1]);
    send(&mut far[2], inside);
    settle(&mut engine);
    engine.set_time(3_000_000_000);
    engine.sleep(Some(std::time::Duration::ZERO)).unwrap();
    settle(&mut engine);
    let events = events.lock().unwrap();
    let behind = behind(&events[0]);
    assert_eq!(
        behind[0],
        "0 [0] sf:fw:l :: native => whether it came out is not known: others look the same"
    );
    assert!(behind[1].contains("which of several that look the same is not known"), "{behind:?}");
    assert_eq!(behind.len(), 4, "only one of them is shown");
}

#[test]
fn what_a_function_makes_itself_is_followed_as_what_comes_from_outside() {
    let (mut engine, mut far, events) = with_function(1, "udp");
    send(&mut far[2], [numbered(1), udp()]);
    settle(&mut engine);
    let events = events.lock().unwrap();
    assert!(lines(&events[0])[0].starts_with("from: "), "{events:?}");
}

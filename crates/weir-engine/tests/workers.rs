//! Several workers: what they do together means what one does.

mod common;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{received, send};
use weir_engine::{Engine, ExecutorKind, Threads, TraceRequest, Worker, WorkerOptions};
use weir_io::Port;
use weir_io::memory::MemoryPort;
use weir_net::{EtherAddr, FlowKey, Ipv4, build, ethertype};
use weir_plan::Classes;
use weir_protocol::{Answer, Command, Event};

const INSIDE: &str = "02:00:00:00:00:01";
const OUTSIDE: &str = "02:00:00:00:00:02";
/// A host on the outside whose address is asked for by ARP.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 9);

/// NAT between two interfaces, with ARP on the outside, and counters.
const NAT: &str = "
    FromDevice(a) -> in :: Counter -> Strip(14) -> CheckIPHeader -> nat :: IPRewriter(pattern 10.2.0.1 - - - 0 1, drop);
    FromDevice(b) -> cb :: Classifier(12/0806 20/0002, 12/0800, -);
    cb[0] -> [1] arp :: ARPQuerier(10.2.0.1, 02:00:00:00:00:02);
    cb[1] -> back :: Counter -> Strip(14) -> CheckIPHeader -> [1] nat;
    cb[2] -> Discard;
    nat[0] -> DecIPTTL -> GetIPAddress(16) -> [0] arp;
    nat[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:11) -> ToDevice(a);
    arp -> q :: Queue(5000) -> ToDevice(b);
";

struct Rig {
    engine: Engine,
    far: Vec<MemoryPort>,
}

impl Rig {
    fn new(workers: usize, threads: &Threads, names: &[&str]) -> Rig {
        let (mut engine, far) = common::engine(names);
        engine.set_workers(workers, threads).unwrap();
        assert_eq!(engine.workers(), workers);
        Rig { engine, far }
    }

    fn load(&mut self, config: &str) {
        self.engine.load("g", config, "t").unwrap_or_else(|e| panic!("{e}"));
    }

    fn settle(&mut self) {
        common::settle(&mut self.engine);
    }

    fn read(&mut self, handler: &str) -> String {
        self.engine.read("g", handler).unwrap_or_else(|e| panic!("{e}"))
    }
}

fn mac(text: &str) -> EtherAddr {
    text.parse().unwrap()
}

/// Packet `n` of a flow from the inside.
fn outgoing(flow: u16, n: u32) -> Vec<u8> {
    let mut frame =
        build::udp4((Ipv4Addr::new(10, 1, 0, flow as u8), 2000 + flow), (SERVER, 80), &n.to_be_bytes());
    frame[..6].copy_from_slice(&mac(INSIDE).octets());
    frame
}

/// The answer to packet `n` of a flow, to the address that it has outside.
fn answer(flow: u16, n: u32) -> Vec<u8> {
    build::udp4((SERVER, 80), (Ipv4Addr::new(10, 2, 0, 1), 2000 + flow), &n.to_be_bytes())
}

fn arp_answer() -> Vec<u8> {
    build::arp(2, (mac("02:00:00:00:00:99"), SERVER), (mac(OUTSIDE), Ipv4Addr::new(10, 2, 0, 1)))
}

/// Frames by flow, in the order in which they came; those that are no UDP under `None`.
fn by_flow(frames: &[Vec<u8>]) -> Flows {
    let mut flows = Flows::new();
    for f in frames {
        flows.entry(FlowKey::of_frame(f)).or_default().push(f.clone());
    }
    flows
}

/// Frames of each flow.
type Flows = BTreeMap<Option<FlowKey>, Vec<Vec<u8>>>;

/// What NAT does to some traffic: frames of both sides, and handlers.
fn nat_run(workers: usize, compiled: bool) -> (Vec<Flows>, Vec<String>) {
    let mut rig = Rig::new(workers, &Threads::None, &["a", "b"]);
    rig.engine.set_executor(if compiled { ExecutorKind::Compiled } else { ExecutorKind::Interpreter });
    rig.load(NAT);
    let mut out = vec![Vec::new(), Vec::new()];
    for round in 0..6u32 {
        send(&mut rig.far[0], (0..40).map(|flow| outgoing(flow, round)));
        if round == 2 {
            // Some wait for the address until now.
            rig.settle();
            send(&mut rig.far[1], [arp_answer()]);
        }
        rig.settle();
        if round > 2 {
            send(&mut rig.far[1], (0..40).map(|flow| answer(flow, round)));
            // Nobody asked for these.
            send(&mut rig.far[1], (50..60).map(|flow| answer(flow, round)));
        }
        rig.settle();
        for (port, out) in rig.far.iter_mut().zip(&mut out) {
            out.extend(received(port));
        }
    }
    let handlers = ["in.count", "back.count", "nat.table", "nat.nmappings", "arp.table", "drops", "config"];
    let handlers = handlers.map(|h| rig.read(h)).into();
    (out.iter().map(|frames| by_flow(frames)).collect(), handlers)
}

#[test]
fn nat_and_arp_on_two_and_three_workers_do_what_one_does() {
    let one = nat_run(1, false);
    // 16 wait for the address, and the rest of two rounds is dropped; then all pass.
    assert!(one.0[1].values().flatten().count() > 40 * 3 && one.0[0].values().flatten().count() == 40 * 3);
    for workers in [2, 3] {
        for compiled in [false, true] {
            let many = nat_run(workers, compiled);
            assert!(many.0[0] == one.0[0], "{workers} workers: to the inside");
            // Which packets wait is a matter of who came first.
            let count = |of: &Flows| of.values().flatten().count();
            assert_eq!(count(&many.0[1]), count(&one.0[1]), "{workers} workers: to the outside");
            for frames in many.0[1].values() {
                let numbers: Vec<&[u8]> = frames.iter().map(|f| &f[f.len().saturating_sub(4)..]).collect();
                assert!(numbers.is_sorted(), "a flow keeps its order");
            }
            assert_eq!(many.1, one.1, "{workers} workers: handlers");
        }
    }
}

#[test]
fn both_workers_get_their_share() {
    let mut rig = Rig::new(2, &Threads::None, &["a", "b"]);
    rig.load("FromDevice(a) -> c :: Counter -> ToDevice(b);");
    send(&mut rig.far[0], (0..200).map(|flow| outgoing(flow, 1)));
    rig.settle();
    assert_eq!(rig.read("c.count"), "200");
    let got = received(&mut rig.far[1]);
    assert_eq!(got.len(), 200);
    // A worker on its own would have kept the order of arrival.
    assert!(!got.iter().map(|f| f[29]).is_sorted());
    rig.engine.write("g", "c.reset", "").unwrap();
    assert_eq!(rig.read("c.count"), "0");
}

#[test]
fn a_switch_learns_for_all_workers() {
    let mut rig = Rig::new(3, &Threads::None, &["a", "b", "c"]);
    rig.load(
        "sw :: EtherSwitch; FromDevice(a) -> [0] sw [0] -> ToDevice(a);
         FromDevice(b) -> [1] sw [1] -> ToDevice(b); FromDevice(c) -> [2] sw [2] -> ToDevice(c);",
    );
    let frame = |flow: u16, from: u8, to: u8| {
        let mut f = outgoing(flow, 0);
        f[..6].copy_from_slice(&[2, 0, 0, 0, 0, to]);
        f[6..12].copy_from_slice(&[2, 0, 0, 0, 0, from]);
        f
    };
    send(&mut rig.far[1], [frame(1, 0xb, 0xa)]);
    rig.settle();
    assert_eq!(received(&mut rig.far[0]).len() + received(&mut rig.far[2]).len(), 2, "flooded");
    // Flows of every worker find the station.
    send(&mut rig.far[0], (0..60).map(|flow| frame(flow, 0xa, 0xb)));
    rig.settle();
    assert_eq!(received(&mut rig.far[1]).len(), 60);
    assert!(received(&mut rig.far[2]).is_empty());
}

#[test]
fn writes_reach_all_workers_or_none() {
    let mut rig = Rig::new(2, &Threads::None, &["a", "b"]);
    rig.load("FromDevice(a) -> s :: Switch(0); s[0] -> one :: Counter -> Discard; s[1] -> ToDevice(b);");
    rig.engine.write("g", "s.switch", "1").unwrap();
    assert!(rig.engine.write("g", "s.switch", "nonsense").is_err());
    send(&mut rig.far[0], (0..50).map(|flow| outgoing(flow, 1)));
    rig.settle();
    assert_eq!((rig.read("one.count").as_str(), received(&mut rig.far[1]).len()), ("0", 50));
    // A swap keeps what was written, on each worker.
    rig.load(
        "FromDevice(a) -> Null -> s :: Switch(0); s[0] -> one :: Counter -> Discard; s[1] -> ToDevice(b);",
    );
    send(&mut rig.far[0], (0..50).map(|flow| outgoing(flow, 2)));
    rig.settle();
    assert_eq!(received(&mut rig.far[1]).len(), if rig.read("s.switch") == "1" { 50 } else { 0 });
}

#[test]
fn a_cycle_through_shared_elements_ends() {
    for workers in [1, 2] {
        let mut rig = Rig::new(workers, &Threads::None, &["a"]);
        rig.load("FromDevice(a) -> n :: Null -> r :: RoundRobinSwitch; r[0] -> n; r[1] -> Null -> n;");
        send(&mut rig.far[0], (0..20).map(|flow| outgoing(flow, 1)));
        rig.settle();
        let drops = &rig.engine.status("g").unwrap().drops;
        let all: u64 = drops.values().filter_map(|of| of.get("LoopLimit")).sum();
        assert_eq!(all, 20, "{workers} workers: {drops:?}");
    }
}

#[test]
fn a_snapshot_moves_between_numbers_of_workers() {
    let mut two = Rig::new(2, &Threads::None, &["a", "b"]);
    two.load(NAT);
    send(&mut two.far[1], [arp_answer()]);
    send(&mut two.far[0], (0..30).map(|flow| outgoing(flow, 1)));
    two.settle();
    let snapshot = two.engine.snapshot("g").unwrap();
    let handlers = |rig: &mut Rig| ["in.count", "nat.table", "arp.table"].map(|h| rig.read(h));
    let before = handlers(&mut two);
    for workers in [1, 3] {
        let mut rig = Rig::new(workers, &Threads::None, &["a", "b"]);
        rig.load(NAT);
        send(&mut rig.far[0], [outgoing(70, 1)]);
        rig.settle();
        rig.engine.restore("g", snapshot.clone()).unwrap();
        assert_eq!(handlers(&mut rig), before, "{workers} workers");
        send(&mut rig.far[1], (0..30).map(|flow| answer(flow, 2)));
        rig.settle();
        assert_eq!(received(&mut rig.far[0]).len(), 30, "{workers} workers");
        let again = rig.engine.snapshot("g").unwrap();
        rig.engine.restore("g", again).unwrap();
        assert_eq!(rig.read("in.count"), before[0], "{workers} workers");
    }
    let refused = two.engine.restore("g", serde_json::json!({"tables": 1})).unwrap_err();
    assert!(refused.contains("not a snapshot"), "{refused}");
    assert_eq!(handlers(&mut two), before);
}

#[test]
fn entries_of_shared_tables_expire_once() {
    let mut rig = Rig::new(2, &Threads::None, &["a", "b"]);
    rig.load(NAT);
    send(&mut rig.far[0], (0..30).map(|flow| outgoing(flow, 1)));
    rig.settle();
    assert_eq!(rig.read("nat.nmappings"), "30");
    for seconds in 2..400 {
        rig.engine.set_time(seconds * 1_000_000_000);
        rig.settle();
    }
    assert_eq!(rig.read("nat.nmappings"), "0");
    // Those that waited for an address that nobody has are dropped by then.
    assert_eq!(rig.read("arp.length"), "0");
    let drops = rig.engine.status("g").unwrap().drops;
    assert_eq!(drops["arp"].values().sum::<u64>(), 30, "{drops:?}");
}

#[test]
fn fragments_and_their_first_one_meet() {
    let mut rig = Rig::new(2, &Threads::None, &["a", "b"]);
    rig.load("FromDevice(a) -> c :: Counter -> Strip(14) -> f :: Counter -> Unstrip(14) -> ToDevice(b);");
    let mut first = outgoing(1, 1);
    Ipv4::new(&mut first[14..]).unwrap().set_fragment_field(0x2000);
    let mut second = first.clone();
    Ipv4::new(&mut second[14..]).unwrap().set_fragment_field(0x0001);
    for _ in 0..20 {
        send(&mut rig.far[0], [first.clone(), second.clone()]);
    }
    rig.settle();
    let got = received(&mut rig.far[1]);
    assert_eq!(got.len(), 40);
    assert!(got.chunks(2).all(|pair| pair == [first.clone(), second.clone()]), "in order, at one worker");
}

/// Engine and ports on a real clock, with a thread for each further worker.
fn live(workers: usize, names: &[&str]) -> Rig {
    let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
    engine.set_executor(ExecutorKind::Interpreter);
    let (near, far): (Vec<_>, Vec<_>) = names
        .iter()
        .map(|name| {
            let (near, far) = MemoryPort::pair([name, "far"], 4096).unwrap();
            (((*name).to_owned(), Box::new(near) as Box<dyn Port>), far)
        })
        .unzip();
    engine.set_ports(near);
    engine.set_workers(workers, &Threads::Free).unwrap();
    Rig { engine, far }
}

#[test]
fn a_thousand_swaps_under_traffic_of_two_workers_lose_nothing() {
    let mut rig = live(2, &["a", "b"]);
    let configs = [
        "FromDevice(a) -> c :: Counter -> q :: Queue(100000) -> u :: Unqueue(3) -> ToDevice(b);",
        "FromDevice(a) -> Null -> c :: Counter -> r :: RoundRobinSwitch; r[0] -> q :: Queue(100000) -> ToDevice(b); r[1] -> q;",
        "FromDevice(a) -> c :: Counter -> Null -> q :: Queue(100000) -> Null -> u :: Unqueue(8) -> Null -> ToDevice(b, BURST 5);",
    ];
    rig.load(configs[0]);
    let (mut sent, mut got) = (0u32, Vec::new());
    for swap in 1..=1000usize {
        if sent - (got.len() as u32) < 2000 {
            send(&mut rig.far[0], (0..20).map(|flow| outgoing(flow, sent / 20)));
            sent += 20;
        }
        for _ in 0..swap % 5 {
            rig.engine.round().unwrap();
        }
        rig.load(configs[swap % configs.len()]);
        got.extend(received(&mut rig.far[1]));
    }
    let patience = Instant::now() + Duration::from_secs(60);
    while got.len() < sent as usize && Instant::now() < patience {
        if !rig.engine.round().unwrap() {
            rig.engine.sleep(Some(Duration::from_millis(1))).unwrap();
        }
        got.extend(received(&mut rig.far[1]));
    }
    assert_eq!(got.len(), sent as usize);
    assert_eq!(rig.read("c.count"), sent.to_string());
    assert!(rig.engine.status("g").unwrap().drops.is_empty());
    for (flow, frames) in by_flow(&got) {
        let numbers: Vec<u32> =
            frames.iter().map(|f| u32::from_be_bytes(f[42..46].try_into().unwrap())).collect();
        assert!(numbers.iter().copied().eq(0..sent / 20), "{flow:?}: {numbers:?}");
    }
    assert_eq!(rig.engine.list()[0].swaps, 1000);
}

#[test]
fn a_receiver_that_does_not_keep_up_loses_nothing() {
    let mut rig = live(2, &["a", "b"]);
    // All is handed over to the second worker and back, through tables that exist once.
    rig.load(
        "FromDevice(a) -> r :: RoundRobinSwitch; r[0] -> q :: Queue(100000); r[1] -> q; q -> ToDevice(b);",
    );
    let mut got = 0;
    let all = 20_000;
    let patience = Instant::now() + Duration::from_secs(60);
    let mut sent = 0;
    while got < all && Instant::now() < patience {
        if sent < all && sent - got < 3000 {
            send(&mut rig.far[0], (0..100).map(|flow| outgoing(flow, 0)));
            sent += 100;
        }
        if !rig.engine.round().unwrap() {
            rig.engine.sleep(Some(Duration::from_millis(1))).unwrap();
        }
        got += received(&mut rig.far[1]).len();
    }
    assert_eq!(got, all);
}

#[test]
fn ethertypes_without_flows_stay_with_the_first_worker() {
    let mut rig = Rig::new(2, &Threads::None, &["a", "b"]);
    rig.load("FromDevice(a) -> c :: Counter -> ToDevice(b);");
    let frame = |n: u8| build::ethernet(mac(INSIDE), mac(OUTSIDE), ethertype::ARP, &[n; 46]);
    send(&mut rig.far[0], (0..50).map(frame));
    rig.settle();
    let got = received(&mut rig.far[1]);
    assert!(got.iter().cloned().eq((0..50).map(frame)), "in order");
}

#[test]
fn traces_follow_packets_to_the_other_worker_and_back() {
    let mut rig = Rig::new(2, &Threads::None, &["a", "b"]);
    rig.load(
        "FromDevice(a) -> c :: Counter -> r :: RoundRobinSwitch; r[0] -> ToDevice(b); r[1] -> d :: Discard;",
    );
    let (events, heard) = std::sync::mpsc::channel();
    let request = TraceRequest { count: 20, ..TraceRequest::default() };
    rig.engine.trace(1, "g", request, Box::new(move |e| events.send(e).is_ok())).unwrap();
    send(&mut rig.far[0], (0..20).map(|flow| outgoing(flow, 1)));
    rig.settle();
    let (mut sent, mut dropped, mut ended) = (0, 0, false);
    for event in heard.try_iter() {
        match event {
            Event::Trace { steps, .. } => {
                let elements: Vec<&str> = steps.iter().map(|s| s.element.as_str()).collect();
                assert_eq!(elements[..2], ["c", "r"]);
                let end = steps.iter().find_map(|s| s.end.clone()).unwrap();
                sent += usize::from(end == "sent to b");
                dropped += usize::from(end == "dropped: Discarded");
            }
            Event::End => ended = true,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((sent, dropped, ended), (10, 10, true));
}

#[test]
fn icmp_errors_find_the_mapping_of_their_packet() {
    for workers in [1, 2] {
        let mut rig = Rig::new(workers, &Threads::None, &["a", "b"]);
        rig.load(
            "FromDevice(a) -> Strip(14) -> CheckIPHeader -> nat :: IPRewriter(pattern 10.2.0.1 - - - 0 1, drop);
             FromDevice(b) -> Strip(14) -> CheckIPHeader -> kind :: IPClassifier(icmp, -); kind[1] -> [1] nat;
             kind[0] -> icmp :: ICMPRewriter(nat) -> Unstrip(14) -> ToDevice(a);
             nat[0] -> Unstrip(14) -> ToDevice(b); nat[1] -> Discard;",
        );
        send(&mut rig.far[0], (0..30).map(|flow| outgoing(flow, 1)));
        rig.settle();
        // Port unreachable, with the packet as it came (RFC 792).
        let errors: Vec<Vec<u8>> = received(&mut rig.far[1])
            .iter()
            .map(|f| {
                let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
                message.extend(&f[14..]);
                let sum = weir_net::checksum::checksum(&message);
                message[2..4].copy_from_slice(&sum.to_be_bytes());
                let packet = build::ipv4(SERVER, Ipv4Addr::new(10, 2, 0, 1), 1, &message);
                build::ethernet(mac(OUTSIDE), mac(INSIDE), ethertype::IPV4, &packet)
            })
            .collect();
        assert_eq!(errors.len(), 30);
        send(&mut rig.far[1], errors);
        rig.settle();
        let mut answered: Vec<u8> = received(&mut rig.far[0]).iter().map(|f| f[14 + 19]).collect();
        answered.sort_unstable();
        let drops = rig.engine.status("g").unwrap().drops;
        assert!(answered.iter().copied().eq(0..30), "{workers} workers: {answered:?}, {drops:?}");
    }
}

mod breaker {
    use weir_ir::{Builder, Layer, Reason, Width};

    weir_elements::element! {
        /// Fails at packets that begin with a byte that is odd.
        Breaker: "1/1", "h/h";
        describe |_, _, _, _| panic!("this element is broken");
    }

    fn program(_: &Breaker, b: &mut Builder) {
        let event = b.event("break");
        b.input(0, |b| {
            b.require(Layer::Data, 1, Reason::TRUNCATED);
            let first = b.load(Width::W8, Layer::Data, 0);
            let odd = b.and(first, 1);
            let odd = b.ne(odd, 0);
            b.when(odd, |b| {
                b.notify(event, &[]);
                b.emit(0);
            });
            b.emit(0);
        });
    }
}

#[test]
fn a_panic_on_any_worker_takes_the_graph_away_on_all() {
    let (near, mut far) = MemoryPort::pair(["a", "far"], 4096).unwrap();
    let (other, mut beyond) = MemoryPort::pair(["b", "far"], 4096).unwrap();
    let classes = Arc::new(Classes::with([weir_elements::class::<breaker::Breaker>("test")]));
    // A panic cannot pass through machine code.
    let executor = ExecutorKind::Interpreter;
    let options = WorkerOptions { workers: 2, executor, ..WorkerOptions::default() };
    let ports = [("a", near), ("b", other)].map(|(n, p)| (n.to_owned(), Box::new(p) as Box<dyn Port>));
    let worker = Worker::start(classes, options, move |engine| engine.set_ports(ports)).unwrap();
    let handle = worker.handle().clone();
    let (events, heard) = std::sync::mpsc::channel();
    handle.stream(1, Command::Subscribe, Box::new(move |e| events.send(e).is_ok())).unwrap();
    let load = |graph: &str, config: &str| {
        let (graph, config) = (graph.to_owned(), config.to_owned());
        handle
            .call(Command::Load {
                graph,
                config,
                file: "t".into(),
                tag: String::new(),
                scope: None,
                memory: None,
            })
            .unwrap();
    };
    load("good", "FromDevice(b) -> c :: Counter -> Discard;");
    load("bad", "FromDevice(a) -> Breaker -> Discard;");
    // All that is odd goes to one worker: that of this flow. One of these flows belongs to the second.
    let mut graphs = Vec::new();
    for flow in 0..8 {
        let mut frame = outgoing(flow, 1);
        frame[0] = 3;
        let mut batch = vec![weir_packet::Packet::from_bytes(&frame).unwrap()];
        // Once the graph is gone, its device is closed.
        let _ = far.send(&mut batch);
    }
    let failed = heard.iter().find_map(|e| match e {
        Event::Notice { graph, what, text } if what == "failed" => Some((graph, text)),
        _ => None,
    });
    let (graph, text) = failed.unwrap();
    assert_eq!(graph.as_deref(), Some("bad"));
    assert!(text.contains("this element is broken"), "{text}");
    if let Answer::Graphs { graphs: list } = handle.call(Command::List).unwrap() {
        graphs.extend(list.into_iter().map(|g| g.name));
    }
    assert_eq!(graphs, ["good"]);
    send(&mut beyond, (0..100).map(|flow| outgoing(flow, 1)));
    let patience = Instant::now() + Duration::from_secs(60);
    let count = || match handle.call(Command::Read { graph: "good".into(), handler: "c.count".into() }) {
        Ok(Answer::Text { text }) => text,
        other => panic!("{other:?}"),
    };
    while count() != "100" && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(count(), "100");
    handle.call(Command::Shutdown).unwrap();
    worker.join();
}

#[test]
fn elements_run_on_the_worker_that_is_named() {
    let pipes = |b: u32| {
        format!(
            "StaticThreadSched(a 0, b {b}); \
             a :: InfiniteSource(LIMIT 30) -> qa :: Queue(10) -> ua :: Unqueue -> ca :: Counter -> Discard; \
             b :: InfiniteSource(LIMIT 30) -> qb :: Queue(20) -> pb :: PullSwitch(-1) -> ub :: Unqueue -> cb :: Counter -> Discard; \
             Script(wait 1h);"
        )
    };
    let mut rig = Rig::new(2, &Threads::None, &[]);
    rig.load(&pipes(1));
    rig.settle();
    let home = |rig: &mut Rig, e: &str| rig.read(&format!("{e}.home_thread"));
    assert_eq!(["a", "ua", "b", "ub"].map(|e| home(&mut rig, e)), ["0", "0", "1", "1"]);
    let wait = |rig: &mut Rig, handler: &str, value: &str| {
        let patience = Instant::now() + Duration::from_secs(60);
        while rig.read(handler) != value && Instant::now() < patience {
            rig.settle();
        }
        assert_eq!(rig.read(handler), value, "{handler}");
    };
    wait(&mut rig, "ca.count", "30");
    // The source stops when the queue is full, wherever both are.
    wait(&mut rig, "qb.length", "20");
    assert_eq!(rig.read("qb.drops"), "0");
    assert!(rig.read("b.handlers").contains("home_thread\tr"), "handlers of the other worker are known");
    // What waits comes along to another worker.
    rig.load(&pipes(0));
    assert_eq!(home(&mut rig, "ub"), "0");
    assert_eq!(rig.read("qb.length"), "20");
    rig.load(&pipes(3));
    assert_eq!(home(&mut rig, "ub"), "1", "counted round");
    rig.engine.write("g", "pb.switch", "0").unwrap();
    wait(&mut rig, "cb.count", "30");
}

//! What programs of elements may ask of the engine: timers, expiry, messages, changed declarations; and what happens
//! when one fails.

mod common;

use std::sync::Arc;

use common::{numbered, received, send, settle};
use weir_elements::{Class, class};
use weir_engine::{Engine, ExecutorKind, Worker, WorkerOptions};
use weir_io::Port;
use weir_io::memory::MemoryPort;
use weir_plan::Classes;
use weir_protocol::{Answer, Command, Event};

mod ticker {
    use weir_ir::Builder;

    weir_elements::element! {
        /// Sends an empty packet each second.
        Ticker: "0/1", "h/h";
    }

    fn program(_: &Ticker, b: &mut Builder) {
        b.timer(1_000_000_000, |b| b.fork_new(&[], |b, _| b.emit(0)));
    }
}

mod keeper {
    use weir_ir::{Builder, Layer, Reason, TableDecl, Width};
    use weir_table::Kind;

    weir_elements::element! {
        /// Remembers numbers; a packet whose number is known leaves on output 1.
        Keeper: "1/2", "h/h";
        params {
            /// Whether the table has another field.
            pos wide: bool = false,
        }
    }

    fn program(e: &Keeper, b: &mut Builder) {
        let narrow = [("seen", Width::W32)];
        let wide = [("more", Width::W64), ("seen", Width::W32)];
        let value = if e.wide { &wide[..] } else { &narrow[..] };
        let table =
            b.table(TableDecl::new("numbers", Kind::Exact, &[("n", Width::W32)], value, 100), Vec::new());
        b.input(0, |b| {
            b.require(Layer::Data, 18, Reason::TRUNCATED);
            let n = b.load(Width::W32, Layer::Data, 14);
            let e = b.insert(table, &[n], |b| b.drop(Reason::FULL));
            let seen = b.get(e, "seen");
            let more = b.add(seen, 1u32);
            b.set(e, "seen", more);
            let known = b.gt(more, 1u32);
            b.when(known, |b| b.emit(1));
            b.emit(0);
        });
    }
}

mod holder {
    use weir_ir::{Builder, Reason, TableDecl, Width};
    use weir_table::Kind;

    weir_elements::element! {
        /// Holds packets for two seconds, at most three, then sends one and drops the others.
        Holder: "1/1", "h/h";
    }

    fn program(_: &Holder, b: &mut Builder) {
        let decl = TableDecl::new("held", Kind::Exact, &[("k", Width::W8)], &[], 1).holding(3);
        let table = b.table(decl, Vec::new());
        b.input(0, |b| {
            let k = b.constant(Width::W8, 1u8);
            let e = b.insert(table, &[k], |b| b.drop(Reason::FULL));
            b.touch(e, 2_000_000_000u64);
            b.hold(e, |b| b.drop(Reason::FULL));
        });
        b.expire(table, |b, _| {
            b.fork_new(&[], |b, _| b.emit(0));
        });
    }
}

mod adder {
    use weir_ir::{Builder, Width};

    weir_elements::element! {
        /// Adds what messages say.
        Adder: "0/0", "h/h";
        handlers {
            /// The sum.
            count sum,
        }
    }

    fn program(_: &Adder, b: &mut Builder) {
        let sum = b.cell("sum", Width::W32, 0);
        b.message("add", &[Width::W32, Width::W32], |b, args| {
            let both = b.add(args[0], args[1]);
            let old = b.read_cell(sum);
            let new = b.add(old, both);
            b.write_cell(sum, new);
        });
    }
}

mod breaker {
    use weir_ir::Builder;

    weir_elements::element! {
        /// Fails at the first packet.
        Breaker: "1/1", "h/h";
        describe |_, _, _, _| panic!("this element is broken");
    }

    fn program(_: &Breaker, b: &mut Builder) {
        let event = b.event("break");
        b.input(0, |b| {
            b.notify(event, &[]);
            b.emit(0);
        });
    }
}

fn classes() -> Arc<Classes> {
    let more: [Class; 5] = [
        class::<ticker::Ticker>("test"),
        class::<keeper::Keeper>("test"),
        class::<holder::Holder>("test"),
        class::<adder::Adder>("test"),
        class::<breaker::Breaker>("test"),
    ];
    Arc::new(Classes::with(more))
}

fn engine(kind: ExecutorKind) -> (Engine, Vec<MemoryPort>) {
    let mut engine = Engine::new(classes()).unwrap();
    engine.set_time(1_000_000_000);
    engine.set_executor(kind);
    let (near, far): (Vec<_>, Vec<_>) = ["a", "b", "c"]
        .map(|name| {
            let (near, far) = MemoryPort::pair([name, "far"], 64).unwrap();
            ((name.to_owned(), Box::new(near) as Box<dyn Port>), far)
        })
        .into_iter()
        .unzip();
    engine.set_ports(near);
    (engine, far)
}

const KINDS: [ExecutorKind; 2] = [ExecutorKind::Interpreter, ExecutorKind::Compiled];

#[test]
fn timers_run_when_it_is_time() {
    for kind in KINDS {
        let (mut engine, _) = engine(kind);
        engine.load("g", "t :: Ticker -> c :: Counter -> Discard;", "t").unwrap();
        let mut counts = Vec::new();
        for tenth in 0..=30 {
            engine.set_time(1_000_000_000 + tenth * 100_000_000);
            settle(&mut engine);
            counts.push(engine.read("g", "c.count").unwrap());
        }
        assert_eq!(
            [&counts[9], &counts[10], &counts[19], &counts[20], &counts[30]],
            ["0", "1", "1", "2", "3"]
        );
        let expected = if kind == ExecutorKind::Compiled { "compiled" } else { "interpreter" };
        assert_eq!(engine.list()[0].engine, expected);
    }
}

#[test]
fn entries_expire_and_what_they_hold_is_counted() {
    for kind in KINDS {
        let (mut engine, mut far) = engine(kind);
        engine.load("g", "FromDevice(a) -> h :: Holder -> c :: Counter -> Discard;", "t").unwrap();
        send(&mut far[0], (0..5).map(numbered));
        settle(&mut engine);
        let status = engine.status("g").unwrap();
        assert_eq!((status.drops["h"]["Full"], status.tables["h.held"]), (2, 1));
        engine.set_time(2_999_000_000);
        settle(&mut engine);
        assert_eq!(engine.status("g").unwrap().tables["h.held"], 1);
        engine.set_time(3_000_000_000);
        settle(&mut engine);
        let status = engine.status("g").unwrap();
        assert_eq!((status.drops["h"]["TimedOut"], status.tables["h.held"]), (3, 0));
        assert_eq!(engine.read("g", "c.count").unwrap(), "1");
    }
}

#[test]
fn messages_are_write_handlers() {
    for kind in KINDS {
        let (mut engine, _) = engine(kind);
        engine.load("g", "a :: Adder;", "t").unwrap();
        engine.write("g", "a.add", "3 4").unwrap();
        engine.write("g", "a.add", "10 0").unwrap();
        assert_eq!(engine.read("g", "a.sum").unwrap(), "17");
        assert_eq!(engine.write("g", "a.add", "1").unwrap_err(), "a.add: the message takes 2 numbers, not 1");
        assert_eq!(engine.write("g", "a.add", "1 x").unwrap_err(), "a.add: 'x' is not a number");
        assert_eq!(engine.write("g", "a.add", "1 4294967296").unwrap_err(), "a.add: 4294967296 is too large");
    }
}

#[test]
fn a_table_that_gets_another_field_keeps_its_entries() {
    let (mut engine, mut far) = engine(ExecutorKind::Compiled);
    let config = |wide| format!("FromDevice(a) -> k :: Keeper({wide}) -> ToDevice(b); k [1] -> ToDevice(c);");
    engine.load("g", &config(false), "t").unwrap();
    send(&mut far[0], (0..10).map(numbered));
    settle(&mut engine);
    assert_eq!(received(&mut far[1]).len(), 10);
    for wide in [true, false, true] {
        engine.load("g", &config(wide), "t").unwrap();
        assert_eq!(engine.status("g").unwrap().tables["k.numbers"], 10);
        send(&mut far[0], (0..10).map(numbered));
        settle(&mut engine);
        assert_eq!(received(&mut far[2]).len(), 10, "all are known");
    }
}

#[test]
fn a_device_gives_only_what_its_filter_takes() {
    let udp =
        |port: u16| weir_net::build::udp4(([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), port), b"x");
    for kind in [ExecutorKind::Interpreter, ExecutorKind::Compiled] {
        let (mut engine, mut far) = engine(kind);
        let config = "f :: FromDevice(a, BPF_FILTER udp dst port 5 or 7) -> ToDevice(b);
                      g :: FromDevice(a, BPF_FILTER not udp) -> ToDevice(c); FromDevice(a) -> Discard;";
        engine.load("g", config, "t").unwrap();
        let before = [5, 6, 7, 8].map(udp);
        send(&mut far[0], before.into_iter().chain([numbered(1), vec![1; 9]]));
        settle(&mut engine);
        assert_eq!(received(&mut far[1]), [5, 7].map(udp));
        assert_eq!(received(&mut far[2]), [numbered(1), vec![1; 9]]);
        let drops = engine.status("g").unwrap().drops;
        assert_eq!((drops["f"]["Filtered"], drops["g"]["Filtered"]), (4, 4));
        // It is kept over a swap, as the figures of other elements are.
        engine.load("g", "f :: FromDevice(a, BPF_FILTER tcp) -> ToDevice(b);", "t").unwrap();
        send(&mut far[0], [udp(5)]);
        settle(&mut engine);
        assert_eq!(engine.status("g").unwrap().drops["f"]["Filtered"], 5);
    }
}

#[test]
fn a_filter_of_a_device_leaves_no_marks() {
    let (mut engine, mut far) = engine(ExecutorKind::Compiled);
    let config = "f :: FromDevice(a, BPF_FILTER udp dst port 5) -> s :: StripToNetworkHeader -> ToDevice(b);";
    engine.load("g", config, "t").unwrap();
    send(&mut far[0], [weir_net::build::udp4(([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 5), b"x")]);
    settle(&mut engine);
    assert!(received(&mut far[1]).is_empty());
    let drops = engine.status("g").unwrap().drops;
    assert!(drops.contains_key("s") && !drops.contains_key("f"), "{drops:?}");
}

#[test]
fn a_swap_keeps_the_hits_of_rules_that_stay_and_no_others() {
    let (mut engine, mut far) = engine(ExecutorKind::Compiled);
    let config = |rules: &str, more: &str| {
        format!("FromDevice(a) -> MarkIPHeader(14) -> f :: IPFilter({rules}) -> {more} ToDevice(b);")
    };
    let hits = |engine: &mut Engine| engine.read("g", "f.hits").unwrap();
    let udp =
        |port: u16| weir_net::build::udp4(([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), port), b"x");
    // Few rules are tests, many are rows of a table.
    let many: Vec<String> = (1..40).map(|port| format!("allow udp dst port {port}")).collect();
    for rules in ["allow udp dst port 5, deny all".to_owned(), many.join(", ")] {
        engine.load("g", &config(&rules, ""), "t").unwrap();
        send(&mut far[0], (0..3).map(|_| udp(5)));
        settle(&mut engine);
        assert_eq!(received(&mut far[1]).len(), 3);
        let before = hits(&mut engine);
        assert!(before.contains('3'), "{before}");
        engine.load("g", &config(&rules, "Counter ->"), "t").unwrap();
        assert_eq!(hits(&mut engine), before);
        engine.load("g", &config(&rules.replace("port 5,", "port 50,"), ""), "t").unwrap();
        assert!(!hits(&mut engine).contains('3'), "they are of other rules");
    }
}

#[test]
fn numbers_of_more_than_64_bits_survive_a_snapshot() {
    mod wide {
        use weir_ir::{Builder, Width};
        weir_elements::element! {
            /// Has a large cell.
            Wide: "0/0", "h/h";
            handlers {
                /// The cell.
                count large,
            }
        }
        fn program(_: &Wide, b: &mut Builder) {
            b.cell("large", Width::W128, u128::MAX - 1);
        }
    }
    let mut engine = Engine::new(Arc::new(Classes::with([class::<wide::Wide>("test")]))).unwrap();
    engine.load("g", "w :: Wide;", "t").unwrap();
    let snapshot = engine.snapshot("g").unwrap();
    engine.restore("g", snapshot).unwrap();
    assert_eq!(engine.read("g", "w.large").unwrap(), (u128::MAX - 1).to_string());
}

#[test]
fn a_graph_that_fails_is_stopped_and_the_others_go_on() {
    KINDS.into_iter().for_each(a_graph_fails);
}

fn a_graph_fails(executor: ExecutorKind) {
    let options = WorkerOptions { executor, ..WorkerOptions::default() };
    let worker = Worker::start(classes(), options, |_| {}).unwrap();
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
    load("good", "s :: InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;");
    load("bad", "s :: InfiniteSource(LIMIT 5) -> Breaker -> Discard;");
    let failed = heard.iter().find_map(|e| match e {
        Event::Notice { graph, what, text } if what == "failed" => Some((graph, text)),
        _ => None,
    });
    let (graph, text) = failed.unwrap();
    assert_eq!(graph.as_deref(), Some("bad"));
    assert!(text.contains("this element is broken"), "{text}");
    let Answer::Graphs { graphs } = handle.call(Command::List).unwrap() else { panic!() };
    assert_eq!(graphs.iter().map(|g| &*g.name).collect::<Vec<_>>(), ["good"]);
    handle.call(Command::Shutdown).unwrap();
    worker.join();
    assert!(heard.iter().any(|e| e == Event::End), "subscribers are told of the end");
}

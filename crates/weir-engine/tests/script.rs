//! Scripts, in simulated time.

use std::sync::{Arc, Mutex};

use weir_engine::{Engine, Stopped, Until};
use weir_plan::Classes;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1000 * SECOND;

/// An engine that runs a configuration as the graph `g`, and what elements printed.
struct Run {
    engine: Engine,
    printed: Arc<Mutex<Vec<String>>>,
}

impl Run {
    fn new(config: &str) -> Run {
        let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
        engine.simulate_time(START);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let lines = printed.clone();
        engine.set_printer(Box::new(move |line| lines.lock().unwrap().push(line.to_owned())));
        engine.load("g", config, "test").unwrap();
        Run { engine, printed }
    }

    fn run(&mut self) -> Stopped {
        self.engine.run(&Until::default()).unwrap()
    }

    fn read(&mut self, handler: &str) -> String {
        self.engine.read("g", handler).unwrap_or_else(|e| format!("! {e}"))
    }

    fn printed(&self) -> String {
        self.printed.lock().unwrap().join("\n")
    }

    /// Whole seconds that have passed.
    fn passed(&self) -> u64 {
        (self.engine.now() - START) / SECOND
    }
}

#[test]
fn instructions_follow_each_other_and_wait() {
    let mut r =
        Run::new("s :: Script(export n 5, set n $(add $n 1), wait 2s, set n $(mul $n 2), wait 1s, stop)");
    assert_eq!(r.run(), Stopped::Requested);
    assert_eq!(r.read("s.n"), "12");
    assert_eq!(r.passed(), 3);
}

#[test]
fn a_loop_ends_by_its_condition() {
    let mut r = Run::new(
        "s :: Script(export list \"\", set i 0, label next, setq list \"$list$i \", set i $(add $i 1), \
         goto next $(lt $i 5), stop)",
    );
    assert_eq!(r.run(), Stopped::Requested);
    assert_eq!(r.read("s.list").trim_start_matches('"'), "0 1 2 3 4 ");
}

#[test]
fn a_loop_without_end_is_given_up() {
    let mut r = Run::new("s0 :: Script(label a, goto a); Script(wait 1, stop)");
    assert_eq!(r.run(), Stopped::Requested);
    assert_eq!(r.printed(), "s0 :: Script: too many jumps, giving up");
}

#[test]
fn the_driver_script_decides_when_the_run_ends() {
    let mut r = Run::new(
        "InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard; \
         d :: DriverManager(export seen none, pause, set seen $(c.count), wait 7s, stop)",
    );
    assert_eq!(r.run(), Stopped::Requested);
    assert_eq!(r.read("d.seen"), "5");
    assert_eq!(r.passed(), 7);
}

#[test]
fn it_decides_too_when_a_handler_asks_for_the_end() {
    let mut r = Run::new(
        "Idle -> c :: AggregateCounter -> Discard; Script(write c.stop, wait 1h); \
         DriverManager(pause, wait 7s, stop)",
    );
    assert_eq!(r.run(), Stopped::Requested);
    assert_eq!(r.passed(), 7);
}

#[test]
fn without_a_driver_script_the_first_request_ends_it() {
    let mut r =
        Run::new("InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard; Script(wait 1h, stop)");
    assert_eq!(r.run(), Stopped::Requested);
    assert_eq!(r.passed(), 0);
}

#[test]
fn two_driver_scripts_are_refused() {
    let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
    let e = engine.load("g", "DriverManager(stop); DriverManager(stop);", "test").unwrap_err();
    assert!(e.to_string().contains("more than one driver script"), "{e}");
}

#[test]
fn packets_leave_where_the_script_says() {
    let mut r = Run::new(
        "InfiniteSource(LIMIT 7, STOP true) -> s :: Script(TYPE PACKET, init i 0, set o $i, \
         set i $(mod $(add $i 1) 3), return $o); s [0] -> a :: Counter -> Discard; s [1] -> b :: Counter -> Discard;",
    );
    r.run();
    assert_eq!((r.read("a.count"), r.read("b.count")), ("3".to_owned(), "2".to_owned()));
    assert!(r.read("drops").ends_with("\ns Discarded 2\n"));
}

#[test]
fn passive_scripts_are_functions() {
    let mut r = Run::new(
        "s :: Script(TYPE PASSIVE, return \"$# $2 $(mul $1 $2)\"); \
         p :: Script(TYPE PROXY, goto known $(eq $0 twice), error no such thing, label known, return $(mul 2 $1));",
    );
    assert_eq!(r.read("s.run 6 7"), "\"2 7 42\"");
    assert_eq!(r.read("p.twice 21"), "42");
    assert_eq!(r.read("p.thrice 1"), "! p.thrice 1: no such thing");
}

#[test]
fn a_script_calls_scripts_that_call_it() {
    let mut r = Run::new(
        "a :: Script(TYPE PASSIVE, set x 1, set y $(b.run), return $y); \
         b :: Script(TYPE PASSIVE, return $(add $(a.get x) 1));",
    );
    assert_eq!(r.read("a.run"), "2");
}

#[test]
fn elements_are_found_from_within_their_compound_element() {
    let mut r = Run::new(
        "c :: Counter; Idle -> c -> Discard; \
         x :: { s :: Script(TYPE PASSIVE, return \"$(i.name) $(c.name)\"); i :: Idle -> Discard }",
    );
    assert_eq!(r.read("x/s.run"), "\"x/i c\"");
}

#[test]
fn what_goes_wrong_is_printed_with_its_place() {
    let mut r = Run::new(
        "s :: Script(write x.y 1, print $(c.nothing), write c.reset_counts, error bad, stop); c :: Counter; Idle -> c -> Discard;",
    );
    r.run();
    let printed = r.printed();
    assert!(printed.starts_with("While executing 's :: Script':\n  no element named 'x'"), "{printed}");
    assert!(printed.contains("\n  no 'c.nothing' read handler") && printed.ends_with("\n  bad"), "{printed}");
}

#[test]
fn steps_pass_waits() {
    let mut r = Run::new("s :: Script(export at 0, pause 2, set at 1, wait 1h, set at 2, pause)");
    r.run();
    assert_eq!(r.passed(), 0, "a pause is not a matter of time");
    let mut step = |value: &str| {
        r.engine.write("g", "s.step", value).unwrap();
        r.read("s.at")
    };
    assert_eq!(step(""), "0");
    assert_eq!(step(""), "1");
    assert_eq!(step("1"), "2");
    assert!(r.engine.write("g", "s.step", "x").is_err());
}

#[test]
fn signals_run_scripts_until_they_exit() {
    let mut r =
        Run::new("s :: Script(TYPE SIGNAL USR1 12, init n 0, set n $(add $n 1), goto exit $(eq $n 2))");
    assert_eq!(r.engine.signals(), [10, 12]);
    assert!(r.engine.signal(10));
    assert_eq!(r.engine.signals(), [10, 12]);
    assert!(r.engine.signal(12));
    assert!(r.engine.signals().is_empty());
    assert!(!r.engine.signal(10));
    assert_eq!(r.read("s.get n"), "2");
}

#[test]
fn a_counter_calls_handlers_before_the_packet_goes_on() {
    let mut r = Run::new(
        "InfiniteSource(LIMIT 100, BURST 50, LENGTH 10) -> n :: Counter(COUNT_CALL 5 s.switch 1, \
         BYTE_COUNT_CALL 95 s.switch \"2\") -> s :: Switch; s [0] -> a :: Counter -> Discard; \
         s [1] -> b :: Counter -> Discard; s [2] -> c :: Counter -> Discard;",
    );
    r.run();
    assert_eq!(["a.count", "b.count", "c.count"].map(|h| r.read(h)), ["4", "5", "91"]);
    assert_eq!((r.read("n.count").as_str(), r.read("n.byte_count").as_str()), ("100", "1000"));
    assert!(r.read("n.handlers").contains("reset\tw\n"));
    assert_eq!(r.printed(), "");
}

#[test]
fn a_counter_may_reset_itself_and_names_a_call_that_fails() {
    let mut r = Run::new(
        "InfiniteSource(LIMIT 10) -> n :: Counter(COUNT_CALL 4 n.reset) -> Queue(10) -> m :: Counter(COUNT_CALL 2 x.y) \
         -> Discard;",
    );
    r.run();
    // The reset arms it again, at the fourth and at the eighth packet.
    assert_eq!((r.read("n.count").as_str(), r.read("m.count").as_str()), ("2", "10"));
    assert!(r.printed().contains("m :: Counter: no element named 'x'"), "{}", r.printed());
}

#[test]
fn a_call_of_a_counter_is_checked() {
    for (args, want) in [
        ("COUNT_CALL many s.switch 1", "COUNT_CALL: 'many' is not a count"),
        ("BYTE_COUNT_CALL 5", "BYTE_COUNT_CALL: no handler to call at 5"),
    ] {
        let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
        let config = format!("InfiniteSource -> Counter({args}) -> Discard;");
        let errors = engine.load("g", &config, "test").unwrap_err();
        assert!(errors.to_string().contains(want), "{errors}");
    }
}

#[test]
fn a_script_that_waits_keeps_its_arguments() {
    let mut r = Run::new(
        "s :: Script(TYPE PASSIVE, set a $1, wait 1s, setq b \"$a$2\", end); \
         Script(write s.run x y, wait 2s, stop)",
    );
    assert_eq!(r.run(), Stopped::Requested);
    assert_eq!(r.read("s.get b"), "xy");
}

#[test]
fn a_thread_is_blocked_for_as_long_as_is_said() {
    let mut run = Run::new("b :: BlockThread; Script(write b.block 1ms, write b.block 2h, stop);");
    let before = std::time::Instant::now();
    run.run();
    assert!(before.elapsed() >= std::time::Duration::from_millis(1));
    assert!(run.printed().contains("2h is too long; at most 60 seconds"), "{}", run.printed());
}

#[test]
fn time_sorted_packets_end_the_run_when_no_source_has_more() {
    let mut run = Run::new(
        "f :: InfiniteSource(LIMIT 2) -> q :: Queue -> t :: TimeSortedSched(STOP true) -> Unqueue -> c :: Counter -> Discard;
         s :: InfiniteSource(LIMIT 3, ACTIVE false) -> r :: Queue -> [1] t;
         d :: DriverManager(export early 0, wait_stop, set early $(c.count), write s.active true, wait_stop);",
    );
    run.run();
    assert_eq!((run.read("d.early"), run.read("c.count")), ("2".into(), "5".into()));
}

#[test]
fn an_element_is_configured_anew_with_names_and_warns() {
    let mut r = Run::new(
        "AddressInfo(a 10.0.0.2/24 02:00:00:00:00:05, b 02:00:00:00:00:06); Idle -> ar :: ARPResponder -> Discard;
         Script(write ar.config a:ipnet b:eth, writeq ar.config \"a, a, a:ipnet b:eth\",
             write ar.add 10.1.0.0/16 b, stop)",
    );
    assert_eq!(r.run(), Stopped::Requested);
    let rest = "02-00-00-00-00-06\n";
    let table = format!("10.0.0.2/32 02-00-00-00-00-05\n10.0.0.0/24 {rest}10.1.0.0/16 {rest}");
    assert_eq!(r.read("ar.table"), table);
    assert_eq!(r.read("ar.config"), "a, a, a:ipnet b:eth");
    assert_eq!(r.printed(), "  warning: multiple entries for 10.0.0.2/32");
}

#[test]
fn a_name_for_a_network_and_an_address_in_it_means_both() {
    let mut r = Run::new(
        "AddressInfo(out 209.6.198.213 209.6.198.0/24 00:e0:98:09:ab:af);
         Idle -> ar :: ARPResponder(out, out:ipnet out:eth) -> Discard; Script(stop)",
    );
    assert_eq!(r.run(), Stopped::Requested);
    let ether = "00-E0-98-09-AB-AF\n";
    assert_eq!(r.read("ar.table"), format!("209.6.198.213/32 {ether}209.6.198.0/24 {ether}"));
}

#[test]
fn a_seed_gives_the_numbers_of_the_c_library() {
    let mut r = Run::new("RandomSeed(1); s :: Script(TYPE PASSIVE, return $(random))");
    assert_eq!([r.read("s.run"), r.read("s.run")], ["1804289383", "846930886"]);
}

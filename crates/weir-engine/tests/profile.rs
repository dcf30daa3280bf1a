//! Where the time goes, as the status of a graph gives it.

use std::sync::Arc;
use std::time::Duration;

use weir_engine::{Engine, Until, Worker, WorkerOptions};
use weir_plan::Classes;
use weir_protocol::{Answer, Command, ElementProfile};

const CHAIN: &str = "InfiniteSource(LENGTH 64, LIMIT 20000) -> a :: Counter -> s :: Strip(14) -> b :: Counter \
                     -> Paint(3) -> t :: Switch(0) -> Discard; t [1] -> unused :: Counter -> Discard;";

fn engine(profile: bool) -> Engine {
    let mut engine = Engine::new(Arc::new(Classes::default())).unwrap();
    engine.set_profile(profile);
    engine.load("g", CHAIN, "t").unwrap();
    let until = Until { deadline: None, flag: None, forever: false };
    engine.run(&until).unwrap();
    engine
}

#[test]
fn the_elements_of_a_chain_are_measured() {
    let (mut measured, mut plain) = (engine(true), engine(false));
    for count in ["a.count", "a.byte_count", "b.count", "b.byte_count", "unused.count"] {
        assert_eq!(measured.read("g", count), plain.read("g", count), "{count}");
    }
    assert_eq!(measured.read("g", "b.count").unwrap().trim(), "20000");
    let (status, without) = (measured.status("g").unwrap(), plain.status("g").unwrap());
    assert_eq!(status.drops, without.drops);
    assert_eq!(without.profile, []);
    let names: Vec<&str> = status.profile.iter().map(|e| &*e.element).collect();
    for element in ["a", "s", "b"] {
        assert!(names.contains(&element), "{element}: {names:?}");
    }
    assert!(!names.contains(&"unused"), "{names:?}");
    // Each packet that was measured came through all of them.
    let packets = status.profile[0].packets;
    assert!(packets > 0 && packets < 20000, "{packets}");
    assert!(status.profile.iter().all(|e| e.packets == packets), "{:?}", status.profile);
    assert!(status.profile.iter().map(|e| e.cycles).sum::<u64>() > 0);
}

#[test]
fn a_worker_measures_by_itself() {
    let worker = Worker::start(Arc::new(Classes::default()), WorkerOptions::default(), |_| {}).unwrap();
    let handle = worker.handle();
    let config = CHAIN.replace("LIMIT 20000", "LIMIT -1");
    let load = Command::Load {
        graph: "g".into(),
        config,
        file: "t".into(),
        tag: String::new(),
        scope: None,
        memory: None,
    };
    handle.call(load).unwrap();
    let profile = || -> Vec<ElementProfile> {
        match handle.call(Command::Status { graph: "g".into() }).unwrap() {
            Answer::Status { status } => status.profile,
            other => panic!("{other:?}"),
        }
    };
    // It is compiled twice in the background.
    let seen = (0..600).map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        profile()
    });
    let seen = seen.into_iter().find(|p| !p.is_empty()).expect("in half a minute something is measured");
    assert!(seen.iter().any(|e| e.element == "s" && e.packets > 0), "{seen:?}");
    handle.call(Command::Shutdown).unwrap();
    worker.join();
}

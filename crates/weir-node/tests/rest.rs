//! The REST interface on loopback, before a data plane that speaks the protocol on a Unix socket.

mod daemon;
mod fake;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use daemon::{Daemon, FIREWALL, firewall, options, problem, runtime};
use fake::{LSI0, wire};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use weir_api::client::{ClientError, NodeClient};
use weir_api::events::Kind;
use weir_api::graphs::ListOutcome;
use weir_api::plan::{Action, Plan};
use weir_api::problem::MEDIA_TYPE as PROBLEM;
use weir_api::status::State;
use weir_api::watch::{CaptureRequest, Captured, Direction, TraceRequest};
use weir_model::graph::MAX_BODY;
use weir_node::{NodeError, Options, run, serve};
use weir_protocol::Event;

#[test]
fn a_graph_lives() {
    let d = Daemon::start();
    let c = &d.client;
    // This machine has none of its interfaces, as a plan says if it is not asked to leave that out.
    let refused = problem(c.plan(&firewall("allow tcp")));
    assert!(
        refused.status == 422 && refused.errors[0].path == "sffg.saps[0].interface.if-name",
        "{refused:?}"
    );
    let kind = [("content-type", "application/yaml")];
    let (_, _, plan) = d.raw("POST", "/v1/plan?machine=false", &kind, firewall("allow tcp").as_bytes());
    let plan: Plan = serde_json::from_str(&plan).unwrap();
    assert_eq!((plan.action, plan.functions.added), (Action::Create, vec!["fw".to_owned()]));
    let gained: Vec<_> = plan.traffic.gained.iter().map(|f| (&*f.from, &*f.to)).collect();
    assert!(gained.contains(&("wan", "lan")) && plan.traffic.lost.is_empty(), "{:?}", plan.traffic);
    let made = c.create(&firewall("allow tcp")).unwrap();
    assert_eq!((made.id.as_str(), made.revision), ("fw", 1));
    assert_eq!(problem(c.create(&firewall("allow tcp"))).status, 409);
    let at = ("eth2".to_owned(), "25".to_owned());
    assert_eq!(d.fake.lock().unwrap().points[&at], ("fw/wan/in".to_owned(), "fw/wan/out".to_owned()));
    assert!(d.fake.lock().unwrap().graphs[&format!("{LSI0}eth2")].0.contains("FromDevice(eth2"));

    let listed = c.graphs().unwrap();
    assert_eq!((listed.len(), &listed[0].state, listed[0].functions), (1, &State::Running, 1));
    assert_eq!(c.graph("fw").unwrap()["sffg"]["tenant"], "t1");
    assert!(c.config("fw").unwrap().contains("IPFilter(allow tcp)"));
    let status = c.status("fw").unwrap();
    let f = &status.functions[0];
    assert_eq!((f.packets_in, f.packets_out), (14, 14));
    assert_eq!((f.drops[0].reason.as_str(), f.drops[0].count), ("Denied", 3));
    let links: Vec<_> =
        status.links.iter().map(|l| (l.from.as_str(), l.to.as_str(), l.packets, l.bytes)).collect();
    assert_eq!(links[0], ("sap:lan", "sf:fw:a", 7, 700));
    assert_eq!(links.len(), 4);
    let times: Vec<_> =
        status.profile.iter().map(|t| (&*t.element, t.packets, t.cycles_per_packet, t.share)).collect();
    assert_eq!(times, [("sf_fw/filter", 10, 75.0, 0.75), ("lan", 10, 25.0, 0.25)]);
    let flows: Vec<_> = status.flows.iter().map(|c| (&*c.table, c.entries, c.hits, c.misses)).collect();
    assert_eq!(flows, [("sf_fw/filter.rules", 4096, 9, 1)]);

    let plan = c.plan(&firewall("allow udp")).unwrap();
    assert_eq!((plan.action, plan.functions.changed), (Action::Change, vec!["fw".to_owned()]));
    assert!(plan.tables[0].kept, "{:?}", plan.tables);
    let (changed, new) = c.put("fw", &firewall("allow udp")).unwrap();
    assert_eq!((changed.revision, changed.unchanged, new), (2, false, false));
    assert!(c.put("fw", &firewall("allow udp")).unwrap().0.unchanged);
    let json = c.graph("fw").unwrap().to_string();
    assert!(c.put("fw", &json).unwrap().0.unchanged, "what GET gives can be PUT");

    assert_eq!(c.read_handler("fw", "fw", "count").unwrap(), "7");
    assert_eq!(problem(c.read_handler("fw", "fw", "reset")).status, 403);
    c.write_handler("fw", "fw", "reset", "1").unwrap();
    assert_eq!(d.fake.lock().unwrap().writes, [("sf_fw/c.reset".to_owned(), "1".to_owned())]);
    assert_eq!(problem(c.write_handler("fw", "fw", "count", "1")).status, 403);
    let p = problem(c.read_handler("fw", "fw", "filter.rules"));
    assert!(p.status == 404 && p.detail.contains("it has: count, reset"), "{p}");
    assert_eq!(problem(c.write_handler("fw", "fw", "reset", "bad")).status, 422);

    c.delete("fw").unwrap();
    assert_eq!(problem(c.delete("fw")).status, 404);
    assert_eq!(problem(c.status("fw")).status, 404);
    assert!(d.fake.lock().unwrap().graphs.is_empty());
}

#[test]
fn a_daemon_that_comes_back_adopts_what_runs_and_numbers_go_on() {
    let d = Daemon::start();
    d.client.create(&firewall("allow tcp")).unwrap();
    let before = d.fake.lock().unwrap().changes.clone();
    let (dir, fake) = d.stop();
    // Even if the image is gone by then.
    std::fs::remove_file(dir.path().join("images/firewall.yaml")).unwrap();
    let d = Daemon::with(dir, fake);
    assert_eq!(d.client.graphs().unwrap()[0].state, State::Running);
    assert_eq!(d.fake.lock().unwrap().changes, before);
    let mut kinds = Vec::new();
    let mut ids = Vec::new();
    for event in d.client.events(Some(0)).unwrap() {
        let event = event.unwrap();
        kinds.push(event.kind);
        ids.extend(event.id);
        if kinds.iter().filter(|k| **k == Kind::DeviceDown).count() == 2 {
            break;
        }
    }
    assert!(kinds.contains(&Kind::Applied) && kinds.contains(&Kind::EngineUp), "{kinds:?}");
    assert!(ids.is_sorted() && ids.len() == kinds.len());
    // From the middle on.
    let next = d.client.events(Some(ids[1])).unwrap().next().unwrap().unwrap();
    assert_eq!(next.id, Some(ids[2]));
}

#[test]
fn a_list_is_applied_wholly_or_not_at_all_unless_each_is_asked_for() {
    let d = Daemon::start();
    let list = |documents: &[String]| {
        let graphs = documents.iter().map(|d| weir_model::graph::ServiceGraph::parse(d).unwrap().to_json());
        serde_json::Value::from(graphs.collect::<Vec<_>>()).to_string()
    };
    let outcomes = |documents: &[String], each: bool| -> Vec<(String, ListOutcome)> {
        let applied = d.client.put_list(&list(documents), each, false).unwrap();
        applied.graphs.into_iter().map(|g| (g.id, g.outcome)).collect()
    };
    let (a, b, gone) = (wire("a", "eth1", "eth2"), wire("b", "eth3", "eth4"), wire("c", "missing1", "eth5"));
    // Refused by the data plane, by the node, and by a graph of the same list.
    let firewoll = firewall("allow tcp").replace("name: firewall", "name: firewoll");
    for (bad, words) in [(&gone, "missing1"), (&firewoll, "firewoll"), (&wire("d", "eth1", "x"), "eth1")] {
        let p = problem(d.client.put_list(&list(&[a.clone(), b.clone(), bad.clone()]), false, false));
        assert!(p.to_string().contains(words) && p.detail.contains("nothing was changed"), "{p}");
        let fake = d.fake.lock().unwrap();
        assert!(fake.graphs.is_empty() && fake.points.is_empty(), "{words}: {:?}", fake.graphs);
    }
    let applied = outcomes(&[a.clone(), gone.clone(), b.clone(), a.clone()], true);
    use ListOutcome::{Changed, Created, Refused, Unchanged};
    let wanted = [("a", Created), ("c", Refused), ("b", Created), ("a", Refused)];
    assert_eq!(applied, wanted.map(|(id, o)| (id.to_owned(), o)));
    assert_eq!(d.client.graphs().unwrap().len(), 2);

    // What one gives up another may have, in one go.
    let swapped = [wire("a", "eth1", "eth4"), wire("b", "eth3", "eth2")];
    assert_eq!(outcomes(&swapped, false), [("a".to_owned(), Changed), ("b".to_owned(), Changed)]);
    assert_eq!(outcomes(&swapped, false), [("a".to_owned(), Unchanged), ("b".to_owned(), Unchanged)]);
    assert_eq!(d.fake.lock().unwrap().violations, Vec::<String>::new());

    let p = problem(d.client.put_list("{}", false, false));
    assert!(p.status == 400 && p.detail.contains("list"), "{p}");
    let p = problem(d.client.put_list("[{\"id\": \"x\"}]", false, false));
    assert!(p.status == 400 && p.detail.contains("graph 'x'") && !p.errors.is_empty(), "{p}");
}

/// Two clients read the same document, and both change it: the second learns that it would undo the first's change.
#[test]
fn a_change_may_ask_that_the_graph_is_as_it_was_read() {
    let d = Daemon::start();
    let [first, second, third] = ["tcp", "udp", "icmp"].map(|p| firewall(&format!("allow {p}")));
    let request = |method: &str, headers: &[(&str, &str)], body: &str| {
        d.send(method, "/v1/graphs/fw", headers, body.as_bytes())
    };
    let (status, kind, body) = d.raw("PUT", "/v1/graphs/fw", &[("if-match", "*")], first.as_bytes());
    assert!(status == 412 && kind == PROBLEM && body.contains("there is no graph 'fw'"), "{status} {body}");
    assert!(d.client.graphs().unwrap().is_empty());
    let created = request("PUT", &[("if-none-match", "*")], &first);
    assert_eq!(created.0, 201);
    let read = request("GET", &[], "");
    assert!(read.0 == 200 && read.1.len() > 2 && read.1 == created.1, "{read:?} {created:?}");
    let tag = read.1;
    assert_eq!(request("GET", &[("if-none-match", &tag)], "").0, 304);

    let (status, newer) = request("PUT", &[("if-match", &tag)], &second);
    assert!(status == 200 && newer != tag, "{status} {newer}");
    assert_eq!(request("GET", &[], "").1, newer);
    let (status, kind, body) = d.raw("PUT", "/v1/graphs/fw", &[("if-match", &tag)], third.as_bytes());
    assert!(status == 412 && kind == PROBLEM && body.contains("nothing was changed"), "{status} {body}");
    let (status, _, body) = d.raw("PUT", "/v1/graphs/fw", &[("if-none-match", "*")], third.as_bytes());
    assert!(status == 412 && body.contains("is there"), "{status} {body}");
    assert_eq!(request("DELETE", &[("if-match", &tag)], "").0, 412);
    assert!(d.client.config("fw").unwrap().contains("allow udp"));
    let (status, kind, body) = d.raw("PUT", "/v1/graphs/fw", &[("if-match", "2")], third.as_bytes());
    assert!(status == 400 && kind == PROBLEM && body.contains("quotes"), "{status} {body}");

    // One of several is enough. A graph that was made anew is another.
    let list = format!("\"other\", {newer}");
    assert_eq!(request("DELETE", &[("if-match", &list)], "").0, 204);
    d.client.create(&second).unwrap();
    d.client.put("fw", &first).unwrap();
    assert_eq!(request("DELETE", &[("if-match", &newer)], "").0, 412);
}

#[test]
fn traces_and_captures_are_lines() {
    let d = Daemon::start();
    d.client.create(&firewall("allow tcp")).unwrap();
    let request = TraceRequest { filter: String::new(), count: 3 };
    let events: Vec<_> = d.client.trace("fw", &request).unwrap().map(Result::unwrap).collect();
    assert!(events.len() == 3 && matches!(&events[2], Event::Trace { summary, .. } if summary == "packet 2"));
    let request = TraceRequest { filter: "nonsense".into(), count: 1 };
    assert_eq!(problem(d.client.trace("fw", &request)).status, 422);
    let capture = |points: &[&str], direction| {
        let points = points.iter().map(|&p| p.to_owned()).collect();
        let request = CaptureRequest { points, direction, filter: String::new(), snaplen: 64, count: 1 };
        d.client.capture("fw", &request).map(|events| {
            let packet = |event| match event {
                Ok(Captured::Packet { point, direction, .. }) => (point, direction),
                other => panic!("{other:?}"),
            };
            events.map(packet).collect::<Vec<_>>()
        })
    };
    let from = |place: &str| (place.to_owned(), Some(Direction::From));
    let to = |place: &str| (place.to_owned(), Some(Direction::To));
    assert_eq!(capture(&["sap:lan"], Direction::From).unwrap(), [from("sap:lan")]);
    assert_eq!(capture(&["sap:lan"], Direction::To).unwrap(), [to("sap:lan")]);
    let both = capture(&["sf:fw:a", "sap:lan"], Direction::Both).unwrap();
    assert_eq!(both, [from("sap:lan"), to("sap:lan"), to("sf:fw:a"), from("sf:fw:a")]);
    assert_eq!(capture(&["sf_fw/filter"], Direction::Both).unwrap(), [("sf_fw/filter".to_owned(), None)]);
    assert_eq!(capture(&[], Direction::From).unwrap().len(), 2, "every access point");
    let errors = problem(capture(&["sap:lam", "sf_fw/filtre"], Direction::From)).errors;
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].message.contains("did you mean 'sap:lan'?"), "{errors:?}");
    assert!(errors[1].message.contains("did you mean 'sf_fw/filter'?"), "{errors:?}");
    assert!(problem(d.client.status("wf")).detail.contains("did you mean 'fw'?"));
}

#[test]
fn bad_requests_are_told_what_is_wrong_and_where() {
    let d = Daemon::start();
    let c = &d.client;
    let p = problem(c.create("{\"id\": \"x\","));
    assert!(p.status == 400 && p.errors[0].line == Some(1), "{p}");
    let p = problem(c.create("id: x\nname: [\n"));
    assert!(p.status == 400 && p.errors[0].line.is_some(), "{p}");
    let p = problem(
        c.create(&firewall("allow all").replace("sap:lan", "sap:lam").replace("priority: 1", "priority: x")),
    );
    assert!(p.status == 400 && p.errors.len() > 4, "{p}");
    assert!(p.errors[0].path.starts_with("flowrules[0]") && p.errors[0].line == Some(11), "{p}");
    let p = problem(c.create(&firewall("allow all").replace("name: firewall", "name: firewoll")));
    assert!(p.status == 422 && p.to_string().contains("sffg.SFs[0]: there is no image 'firewoll'"), "{p}");
    let p = problem(
        c.create(&firewall("allow all) -> out_1; FromDevice(eth0) -> Discard; Idle -> IPFilter(allow all")),
    );
    assert!(p.status == 422 && p.to_string().contains("FromDevice"), "{p}");
    let p = problem(c.create(&wire("m", "missing1", "eth2")));
    assert!(p.status == 422 && p.to_string().contains("no interface missing1"), "{p}");
    let p = problem(c.put("other", &firewall("allow all")));
    assert!(p.status == 400 && p.errors[0].path == "sffg.id", "{p}");
    assert!(c.graphs().unwrap().is_empty());

    c.create(&wire("one", "eth1", "eth2")).unwrap();
    let p = problem(c.create(&wire("two", "eth3", "eth2")));
    let text = p.to_string();
    assert!(
        p.status == 409 && text.contains("'one'") && text.contains("'two'") && text.contains("eth2"),
        "{text}"
    );
    assert_eq!(problem(c.plan(&wire("two", "eth3", "eth2"))).status, 409);

    let big = format!("id: x\nname: {}\n", "x".repeat(MAX_BODY));
    let (status, kind, body) = d.raw("POST", "/v1/graphs", &[], big.as_bytes());
    assert!(status == 413 && kind == PROBLEM && body.contains("1048576"), "{body}");
    let (status, kind, _) = d.raw("POST", "/v1/graphs", &[], b"\xff\xfe");
    assert_eq!((status, kind.as_str()), (400, PROBLEM));
    let yaml = wire("three", "eth5", "eth6");
    let (status, _, body) =
        d.raw("POST", "/v1/graphs", &[("content-type", "application/json")], yaml.as_bytes());
    assert_eq!(status, 400, "{body}");
    let (status, kind, body) = d.raw("GET", "/nothing", &[], b"");
    assert!(status == 404 && kind == PROBLEM && body.contains("/docs"), "{body}");
    let (status, kind, body) = d.raw("PUT", "/v1/graphs/one?agian=true", &[], yaml.as_bytes());
    assert!(status == 400 && kind == PROBLEM && body.contains("agian"), "{body}");
    let (status, kind, _) = d.raw("GET", "/v1/graphs/%ff", &[], b"");
    assert_eq!((status, kind.as_str()), (400, PROBLEM));
    let (status, kind, body) = d.raw("GET", "/v1/events", &[("last-event-id", "x")], b"");
    assert!(status == 400 && kind == PROBLEM && body.contains("Last-Event-ID"), "{body}");
    let (status, kind, _) = d.raw("DELETE", "/v1/graphs", &[], b"");
    assert_eq!((status, kind.as_str()), (405, PROBLEM));
    let (status, kind, body) = d.raw("POST", "/v1/graphs/one/trace", &[], b"{\"cuont\": 1}");
    assert!(status == 400 && kind == PROBLEM && body.contains("cuont"), "{body}");
    let (status, _, _) = d.raw("POST", "/v1/graphs", &[("origin", "http://evil.example")], yaml.as_bytes());
    assert_eq!(status, 403);
    let evil = [("origin", "http://evil.example:80"), ("host", "evil.example:80")];
    assert_eq!(d.raw("POST", "/v1/graphs", &evil, yaml.as_bytes()).0, 403);
    let own = format!("http://{}", d.address);
    assert_eq!(d.raw("POST", "/v1/graphs", &[("origin", &own)], yaml.as_bytes()).0, 201);
}

#[test]
fn a_data_plane_that_died_gets_everything_again() {
    let d = Daemon::start();
    let graph = firewall("allow tcp").replace("params:", "handlers: {reset: '1'}, params:");
    d.client.create(&graph).unwrap();
    let mut events = d.client.events(None).unwrap();
    let before = d.fake.lock().unwrap().graphs.clone();
    d.fake.lock().unwrap().restart();
    for kind in [Kind::EngineDown, Kind::EngineUp] {
        let found = events.find(|e| e.as_ref().unwrap().kind == kind);
        assert!(found.is_some(), "{kind:?}");
    }
    while !d.client.health().unwrap().ready {
        std::thread::sleep(Duration::from_millis(10));
    }
    let fake = d.fake.lock().unwrap();
    assert_eq!(fake.graphs, before);
    assert_eq!(fake.writes.len(), 2, "first writes belong to a process");
    assert_eq!(fake.violations, Vec::<String>::new());
}

/// What is applied again and says the same is no change, but its text is kept; also by a list, and over a restart.
#[test]
fn a_document_is_given_back_as_it_was_written() {
    let d = Daemon::start();
    let first = format!("# the office\n{}", firewall("allow tcp"));
    d.client.create(&first).unwrap();
    assert_eq!(d.client.written("fw").unwrap(), first);
    let second = format!("{first}# nothing else\n");
    assert!(d.client.put("fw", &second).unwrap().0.unchanged);
    assert_eq!(d.client.written("fw").unwrap(), second);
    let (dir, fake) = d.stop();
    let d = Daemon::with(dir, fake);
    assert_eq!(d.client.written("fw").unwrap(), second);
    let other = format!("# by a list\n{}", wire("w", "eth5", "eth6"));
    let list = serde_json::json!([first, other]).to_string();
    let applied = d.client.put_list(&list, false, false).unwrap();
    let outcomes: Vec<_> = applied.graphs.iter().map(|g| (g.id.as_str(), g.outcome)).collect();
    assert_eq!(outcomes, [("fw", ListOutcome::Unchanged), ("w", ListOutcome::Created)]);
    assert_eq!((d.client.written("fw").unwrap(), d.client.written("w").unwrap()), (first, other));
    assert_eq!(d.client.graphs().unwrap().iter().find(|g| g.id == "fw").unwrap().revision, 1);
}

#[test]
fn the_newest_events_are_listed() {
    let d = Daemon::start();
    d.client.create(&wire("a", "eth1", "eth2")).unwrap();
    d.client.create(&wire("b", "eth3", "eth4")).unwrap();
    d.client.delete("a").unwrap();
    let of = |graph: Option<&str>, limit| {
        let events = d.client.kept_events(graph, limit).unwrap().events;
        assert!(events.is_sorted_by_key(|e| e.id));
        events.iter().map(|e| (e.kind, e.graph.clone().unwrap_or_default())).collect::<Vec<_>>()
    };
    let (a, b) = ("a".to_owned(), "b".to_owned());
    assert_eq!(of(Some("a"), 100), [(Kind::Applied, a.clone()), (Kind::Removed, a.clone())]);
    let all = of(None, 100);
    assert!(all.len() > 3 && all.contains(&(Kind::Applied, b)), "{all:?}");
    assert_eq!(of(None, 1), [(Kind::Removed, a)]);
    assert_eq!(problem(d.client.kept_events(None, 20_000)).status, 400);
}

#[test]
fn images_are_read_anew_and_bad_ones_named() {
    let d = Daemon::start();
    let list = d.client.images().unwrap();
    assert_eq!((list.images.len(), list.images[0].ports.len(), list.errors.len()), (1, 2, 0));
    assert!(!list.images[0].params[0].required);
    assert_eq!(list.images[0].handlers["count"], "r");
    let image = d.client.image("firewall").unwrap();
    let rules = &image.params[0];
    assert_eq!((rules.name.as_str(), rules.values.as_str()), ("RULES", "any text"));
    assert_eq!((rules.default.as_deref(), rules.doc.as_str()), (Some("allow all"), "the rules"));
    assert_eq!((image.ports.len(), image.handlers[1].access.as_str()), (2, "w"));
    let p = problem(d.client.image("firewal"));
    assert!(p.status == 404 && p.detail.contains("did you mean 'firewall'?"), "{p}");
    std::fs::write(d.dir.path().join("images/bad.yaml"), "name: bad\n").unwrap();
    let list = d.client.images().unwrap();
    assert_eq!((list.images.len(), list.errors.len()), (1, 1));
    assert!(list.errors[0].path.ends_with("bad.yaml"), "{:?}", list.errors);
    let api = d.client.openapi().unwrap();
    assert!(api["paths"]["/images"]["get"].is_object());
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    runtime().block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listen = taken.local_addr().unwrap();
        let e = run(Options { listen, ..options(dir.path()) }, async {}).await.unwrap_err();
        assert!(matches!(e, NodeError::Listen { .. }) && e.to_string().contains(&listen.to_string()), "{e}");
        std::fs::write(dir.path().join("node.db"), "not a database".repeat(500)).unwrap();
        let e = run(options(dir.path()), async {}).await.unwrap_err();
        assert!(matches!(e, NodeError::Store(_)) && e.to_string().contains("node.db"), "{e}");
        let lock = std::fs::File::create(dir.path().join("engine.sock.node")).unwrap();
        lock.lock().unwrap();
        let e = run(options(dir.path()), async {}).await.unwrap_err();
        assert!(matches!(e, NodeError::Running { .. }) && e.to_string().contains("engine.sock"), "{e}");
    });
}

#[test]
fn without_a_data_plane_changes_are_refused_and_nothing_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    // A program that ends at once, with words for its log.
    options.engine_command = ["sh", "-c", "echo no luck >&2; exit 3"].map(Into::into).to_vec();
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        runtime().block_on(async {
            let listener = TcpListener::bind(options.listen).await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            serve(options, listener, async { _ = stopped.await }).await.unwrap();
        });
    });
    let client = NodeClient::new(&told.recv().unwrap().to_string());
    let first = client.events(Some(0)).unwrap().next().unwrap().unwrap();
    assert_eq!(first.kind, Kind::EngineDown);
    assert!(first.text.contains("exit status: 3") && first.text.contains("no luck"), "{}", first.text);
    assert_eq!(problem(client.create(&wire("a", "eth1", "eth2"))).status, 503);
    assert!(client.graphs().unwrap().is_empty());
    assert!(!client.health().unwrap().ready);
    drop(stop);
    thread.join().unwrap();
    let unreachable = NodeClient::new("127.0.0.1:1").graphs().unwrap_err();
    assert!(matches!(unreachable, ClientError::Unreachable { .. }), "{unreachable}");
    assert!(PathBuf::from(dir.path()).join("engine.log").exists());
}

#[test]
fn the_real_data_plane_runs_what_rest_asks_for() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    std::fs::create_dir(dir.path().join("images")).unwrap();
    std::fs::write(dir.path().join("images/firewall.yaml"), FIREWALL).unwrap();
    let socket = dir.path().join("engine.sock");
    let classes = weir_plan::Classes::with(weir_switch::CLASSES.iter().copied());
    let engine = std::thread::spawn({
        let socket = socket.clone();
        move || weir_engine::serve(&socket, None, classes, weir_engine::WorkerOptions::default()).unwrap()
    });
    let d = Daemon::with(dir, Arc::default());
    let c = &d.client;
    // Without access points, no interface is needed.
    let graph = "
id: alone
name: alone
SFs: [{id: fw, name: firewall, ports: [a, b], handlers: {reset: ''}}]
flowrules:
  - {id: r, priority: 1, match: {port_in: 'sf:fw:b'}, actions: {output_to_port: 'sf:fw:a'}}
";
    c.create(graph).unwrap();
    assert_eq!(c.status("alone").unwrap().state, State::Running);
    assert_eq!(c.read_handler("alone", "fw", "count").unwrap().trim(), "0");
    c.write_handler("alone", "fw", "reset", "").unwrap();
    let changed = graph.replace("handlers:", "params: {RULES: 'allow tcp, deny all'}, handlers:");
    assert_eq!(c.put("alone", &changed).unwrap().0.revision, 2);
    let refused = graph.replace("handlers:", "params: {RULES: 'allow nonsense here'}, handlers:");
    let p = problem(c.put("alone", &refused));
    assert!(p.status == 422 && !p.errors.is_empty(), "{p}");
    assert_eq!(c.status("alone").unwrap().state, State::Running);
    // An interface that is not there is refused by LSI-0, and the graph does not stay.
    let p = problem(c.create(&wire("gone", "absent0", "absent1")));
    assert!(p.status == 422 && p.to_string().contains("absent0"), "{p}");
    assert_eq!(c.graphs().unwrap().len(), 1);
    let request = TraceRequest { filter: "no such filter".into(), count: 1 };
    assert_eq!(problem(c.trace("alone", &request)).status, 422);
    // The data plane goes on without the daemon.
    let _dir = d.stop();
    weir_protocol::Client::connect(&socket).unwrap().call(weir_protocol::Command::Shutdown).unwrap();
    engine.join().unwrap();
}

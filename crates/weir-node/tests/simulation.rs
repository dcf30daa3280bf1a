//! The node against a data plane that loses commands, refuses them, and restarts, and a driver of functions that fails, while the
//! daemon itself is killed at any moment: what is asked for is done wholly or not at all, and what should run runs in the end.

mod fake;
mod watched;

use std::collections::{BTreeMap, VecDeque};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fake::{Fake, LSI0, wire};
use proptest::prelude::*;
use tokio::sync::Notify;
use weir_api::status::State;
use weir_auth::Principal;
use weir_model::graph::ServiceGraph;
use weir_node::compute::dummy::{Dummy, Function};
use weir_node::compute::{Drivers, Health};
use weir_node::connection::{CallError, DataPlane};
use weir_node::node::{ApplyError, How, Node, Outcome};
use weir_node::store::Store;
use weir_protocol::{Answer, Command};
use weir_rest::precondition::Precondition;
use weir_store::history::Note;

use watched::Watched;

/// No condition.
static ALWAYS: Precondition = Precondition { fits: None, differs: None };

/// A fault of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Nothing.
    None,
    /// It never arrives.
    LostBefore,
    /// It is carried out, but the answer does not arrive.
    LostAfter,
    /// It is refused, if it is one that may be.
    Refused,
    /// The data plane has ended and is a new process.
    Restarted,
    /// The daemon is killed before it.
    KilledBefore,
    /// The daemon is killed after it.
    KilledAfter,
}

#[derive(Debug, Clone, Default)]
struct Plane {
    fake: Arc<Mutex<Fake>>,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    killed: Arc<Notify>,
    /// Outlives the daemon, as functions do.
    functions: Dummy,
}

impl Plane {
    /// Nothing befalls it any more.
    fn heal(&self) {
        self.faults.lock().unwrap().clear();
        self.functions.with(|s| s.failures = 0);
    }
}

impl DataPlane for Plane {
    async fn call(&self, command: Command) -> Result<Answer, CallError> {
        let fault = self.faults.lock().unwrap().pop_front().unwrap_or(Fault::None);
        let refusable = matches!(command, Command::Load { .. } | Command::Write { .. });
        let lost = || Err(CallError::Lost("test".into()));
        let carry_out = || self.fake.lock().unwrap().handle(command).map_err(CallError::Refused);
        match fault {
            Fault::LostBefore => lost(),
            Fault::LostAfter => carry_out().and(lost()),
            Fault::Refused if refusable => Err(CallError::Refused(vec!["test".into()])),
            Fault::Restarted => {
                self.fake.lock().unwrap().restart();
                lost()
            }
            Fault::KilledBefore | Fault::KilledAfter => {
                if fault == Fault::KilledAfter {
                    _ = carry_out();
                }
                self.killed.notify_one();
                std::future::pending().await
            }
            Fault::None | Fault::Refused => carry_out(),
        }
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Put(usize, usize),
    /// A document for each of the graphs, together or each by itself.
    PutAll(Vec<usize>, bool),
    Remove(usize),
    Converge,
}

struct Images(tempfile::TempDir);

impl Images {
    fn new() -> Images {
        let dir = tempfile::tempdir().unwrap();
        let text = "
name: limiter
ports: [a, b]
handlers: {limit: {handler: c.reset, access: w}}
click: 'in_0 -> c :: Counter -> out_1; in_1 -> out_0;'
";
        std::fs::write(dir.path().join("limiter.yaml"), text).unwrap();
        let native = dir.path().join("native");
        std::fs::create_dir_all(native.join("scripts")).unwrap();
        let text = "name: native\nkind: native\nports: [a, b]\nparams: [{name: N, type: int}]\n";
        std::fs::write(native.join("function.yaml"), text).unwrap();
        let start = native.join("scripts/start");
        std::fs::write(&start, "").unwrap();
        std::fs::set_permissions(start, Permissions::from_mode(0o755)).unwrap();
        Images(dir)
    }
}

/// Documents to choose from; some have a function with handler writes, one a bad write, one a missing interface.
fn document(graph: usize, variant: usize) -> String {
    let id = format!("g{graph}");
    let function = |value: &str| {
        format!("SFs: [{{id: f, name: limiter, ports: [a, b], handlers: {{limit: '{value}'}}}}]\n")
    };
    match variant {
        0 => wire(&id, &format!("eth{graph}"), "missing1"),
        1 => wire(&id, &format!("eth{graph}"), &format!("tun{graph}")),
        2 => wire(&id, &format!("eth{graph}"), &format!("tun{graph}")) + &function("1"),
        3 => wire(&id, &format!("eth{graph}"), &format!("veth{graph}")) + &function("2"),
        // Every graph may ask for this one.
        4 => wire(&id, &format!("eth{graph}"), "shared"),
        // Functions that are not inline: one, another of it with and without one of its ports, and two.
        6 | 7 => {
            wire(&id, &format!("eth{graph}"), &format!("tun{graph}")) + &natives(&["f"], "a, b", variant)
        }
        8 => wire(&id, &format!("eth{graph}"), &format!("tun{graph}")) + &natives(&["f"], "a", 7),
        9 => wire(&id, &format!("eth{graph}"), &format!("veth{graph}")) + &natives(&["f", "g"], "a, b", 6),
        _ => wire(&id, &format!("eth{graph}"), &format!("tun{graph}")) + &function("bad"),
    }
}

fn natives(names: &[&str], ports: &str, n: usize) -> String {
    let function =
        |name: &&str| format!("{{id: {name}, name: native, ports: [{ports}], params: {{N: {n}}}}}");
    let list: Vec<String> = names.iter().map(function).collect();
    format!("SFs: [{}]\n", list.join(", "))
}

fn parse(text: &str) -> ServiceGraph {
    ServiceGraph::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

fn open(plane: &Plane, store: &Path, images: &Images) -> Node<Plane> {
    let store = Arc::new(Store::open(store).unwrap());
    let node = Node::new(plane.clone(), store, vec![PathBuf::from(images.0.path())]).unwrap();
    node.with_drivers(Drivers::default().with(Watched::new(&plane.functions, &plane.fake)))
}

/// Brings all graphs to their state, each in its turn.
async fn whole(node: &Node<Plane>) -> Result<(), String> {
    node.converge().await?;
    for id in node.starting() {
        node.bring_up(&id).await?;
    }
    Ok(())
}

/// What runs is what should run.
fn check(node: &Node<Plane>, plane: &Plane) {
    let view = node.view();
    let fake = plane.fake.lock().unwrap();
    assert!(view.settled);
    assert_eq!(view.failures, BTreeMap::new());
    let wanted: BTreeMap<_, _> =
        view.graphs.iter().map(|(id, e)| (id.clone(), e.graph.switch.config.clone())).collect();
    let running: BTreeMap<_, _> = fake
        .graphs
        .iter()
        .filter(|(id, _)| !id.starts_with(LSI0))
        .map(|(id, (config, _))| (id.clone(), config.clone()))
        .collect();
    assert_eq!(running, wanted);
    let wanted: BTreeMap<_, _> = view
        .graphs
        .values()
        .flat_map(|e| &e.graph.instances)
        .map(|i| (i.id.clone(), Function::of(i, Health::Running)))
        .collect();
    plane.functions.with(|s| assert_eq!(s.instances, wanted));
    let mut points = BTreeMap::new();
    for a in view.graphs.values().flat_map(|e| e.graph.attachments()) {
        points.insert((a.base.to_string(), a.part.to_string()), a.links());
    }
    assert_eq!(fake.points, points);
    let lsi0: Vec<String> =
        fake.graphs.keys().filter_map(|id| Some(id.strip_prefix(LSI0)?.to_owned())).collect();
    let mut interfaces: Vec<String> = points.keys().map(|(i, _)| i.clone()).collect();
    interfaces.dedup();
    assert_eq!(lsi0, interfaces);
    assert_eq!(fake.violations, Vec::<String>::new());
}

async fn simulate(operations: Vec<(Operation, Vec<Fault>, usize)>) {
    let (images, dir) = (Images::new(), tempfile::tempdir().unwrap());
    let store = dir.path().join("node.db");
    let plane = Plane::default();
    let mut node = open(&plane, &store, &images);
    let mut model: BTreeMap<String, serde_json::Value> = BTreeMap::new();
    let operator = Principal::operator("local");
    for (operation, faults, failures) in operations {
        *plane.faults.lock().unwrap() = faults.into();
        plane.functions.with(|s| s.failures = failures);
        let mut killed = false;
        match &operation {
            Operation::Put(graph, variant) => {
                let document = parse(&document(*graph, *variant));
                let json = document.to_json()["sffg"].clone();
                let id = document.id.to_string();
                tokio::select! {
                    result = node.put(document, How::default(), &ALWAYS) => {
                        if result.is_ok() {
                            model.insert(id, json);
                        }
                    }
                    () = plane.killed.notified() => killed = true,
                }
                if killed {
                    drop(node);
                    node = open(&plane, &store, &images);
                    // Done or not done, both is right; the settled state below decides.
                    plane.heal();
                    whole(&node).await.unwrap();
                    let id = format!("g{graph}");
                    let now = node.graph(&id).map(|e| e.graph.document.clone());
                    let new = parse(&self::document(*graph, *variant)).to_json()["sffg"].clone();
                    assert!(now == model.get(&id).cloned() || now == Some(new), "{now:?}");
                    model.remove(&id);
                    model.extend(now.map(|d| (id, d)));
                }
            }
            Operation::PutAll(variants, together) => {
                let texts: Vec<String> = variants.iter().enumerate().map(|(g, v)| document(g, *v)).collect();
                let documents: Vec<ServiceGraph> = texts.iter().map(|t| parse(t)).collect();
                let json = |d: &ServiceGraph| (d.id.to_string(), d.to_json()["sffg"].clone());
                let new: Vec<_> = documents.iter().map(json).collect();
                let how = How { together: *together, ..How::default() };
                tokio::select! {
                    outcomes = node.put_all(documents, how) => {
                        let done = outcomes.iter().filter(|o| o.is_ok()).count();
                        assert!(!together || done == 0 || done == new.len(), "{outcomes:?}");
                        for ((id, json), outcome) in new.into_iter().zip(outcomes) {
                            if outcome.is_ok() {
                                model.insert(id, json);
                            }
                        }
                    }
                    () = plane.killed.notified() => {
                        drop(node);
                        node = open(&plane, &store, &images);
                        plane.heal();
                        whole(&node).await.unwrap();
                        // Each is done or not done.
                        for (id, json) in new {
                            let now = node.graph(&id).map(|e| e.graph.document.clone());
                            assert!(now == model.get(&id).cloned() || now == Some(json), "{now:?}");
                            model.remove(&id);
                            model.extend(now.map(|d| (id, d)));
                        }
                    }
                }
            }
            Operation::Remove(graph) => {
                let id = format!("g{graph}");
                tokio::select! {
                    result = node.remove(&id, &ALWAYS, &operator, None) => assert_eq!(result.is_ok(), model.contains_key(&id)),
                    () = plane.killed.notified() => killed = true,
                }
                // It is stored before the data plane hears of it.
                model.remove(&id);
            }
            Operation::Converge => tokio::select! {
                _ = whole(&node) => {}
                () = plane.killed.notified() => killed = true,
            },
        }
        if killed {
            drop(node);
            node = open(&plane, &store, &images);
        }
        let documents: BTreeMap<_, _> =
            node.view().graphs.iter().map(|(id, e)| (id.clone(), e.graph.document.clone())).collect();
        assert_eq!(documents, model, "after {operation:?}");
        plane.heal();
    }
    whole(&node).await.unwrap();
    check(&node, &plane);
    // A second run, and a daemon that comes back, do nothing.
    let done = || (plane.fake.lock().unwrap().changes.len(), plane.functions.with(|s| s.done.len()));
    let before = done();
    whole(&node).await.unwrap();
    drop(node);
    let node = open(&plane, &store, &images);
    whole(&node).await.unwrap();
    check(&node, &plane);
    assert_eq!(done(), before);
}

fn operations() -> impl Strategy<Value = Vec<(Operation, Vec<Fault>, usize)>> {
    let operation = prop_oneof![
        6 => (0..3usize, 0..10usize).prop_map(|(g, v)| Operation::Put(g, v)),
        2 => (proptest::collection::vec(0..10usize, 1..4), proptest::bool::ANY)
            .prop_map(|(variants, together)| Operation::PutAll(variants, together)),
        2 => (0..3usize).prop_map(Operation::Remove),
        1 => Just(Operation::Converge),
    ];
    let failures = prop_oneof![3 => Just(0), 1 => 1..4usize];
    let fault = prop_oneof![
        8 => Just(Fault::None),
        1 => Just(Fault::LostBefore),
        1 => Just(Fault::LostAfter),
        2 => Just(Fault::Refused),
        1 => Just(Fault::Restarted),
        1 => Just(Fault::KilledBefore),
        1 => Just(Fault::KilledAfter),
    ];
    proptest::collection::vec((operation, proptest::collection::vec(fault, 0..12), failures), 1..8)
}

fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_changes_are_whole_and_the_desired_state_is_reached(operations in operations()) {
        run(simulate(operations));
    }
}

#[test]
fn a_refused_change_leaves_what_ran_and_says_why() {
    run(async {
        let (images, dir) = (Images::new(), tempfile::tempdir().unwrap());
        let plane = Plane::default();
        let node = open(&plane, &dir.path().join("node.db"), &images);
        let (create, change) = (How { change: false, ..How::default() }, How::default());
        assert_eq!(
            node.put(parse(&document(0, 1)), create.clone(), &ALWAYS).await.unwrap().outcome,
            Outcome::Created
        );
        let before = plane.fake.lock().unwrap().graphs.clone();
        for (variant, text) in [(0, "no interface missing1"), (5, "'bad' is not a number")] {
            let Err(ApplyError::Refused(errors)) =
                node.put(parse(&document(0, variant)), change.clone(), &ALWAYS).await
            else {
                panic!()
            };
            assert!(errors[0].contains(text), "{errors:?}");
            assert_eq!(plane.fake.lock().unwrap().graphs, before);
            assert_eq!(node.view().graphs["g0"].revision, 1);
        }
        let again = node.put(parse(&document(0, 1)), change, &ALWAYS).await.unwrap();
        assert_eq!((again.outcome, again.revision), (Outcome::Unchanged, 1));
        assert!(matches!(
            node.put(parse(&document(0, 1)), create, &ALWAYS).await,
            Err(ApplyError::Exists(_))
        ));
    });
}

#[test]
fn a_switch_never_sends_to_a_port_or_function_that_is_not_there() {
    run(async {
        let (images, dir) = (Images::new(), tempfile::tempdir().unwrap());
        let plane = Plane::default();
        let node = open(&plane, &dir.path().join("node.db"), &images);
        // Ports and functions come and go, in each order.
        for variant in [8, 9, 6, 8, 7, 1, 9, 8, 1] {
            node.put(parse(&document(0, variant)), How::default(), &ALWAYS).await.unwrap();
            assert_eq!(plane.fake.lock().unwrap().violations, Vec::<String>::new(), "{variant}");
            check(&node, &plane);
        }
        // What is watched is seen.
        node.put(parse(&document(0, 8)), How::default(), &ALWAYS).await.unwrap();
        plane.fake.lock().unwrap().set_ports(Default::default());
        assert_eq!(plane.fake.lock().unwrap().violations.len(), 1);
    });
}

#[test]
fn a_graph_whose_interface_is_gone_does_not_take_the_others_down() {
    run(async {
        let (images, dir) = (Images::new(), tempfile::tempdir().unwrap());
        let plane = Plane::default();
        let store = dir.path().join("node.db");
        {
            // Both are desired, as if they had run when the interface was there.
            let node = open(&plane, &store, &images);
            for document in [document(0, 0), document(1, 1)] {
                let graph = node.compile(parse(&document)).await.unwrap();
                let id = graph.id.clone();
                node.store.propose(&[graph.into()], &Note::default()).unwrap();
                node.store.confirm(&[id]).unwrap();
            }
        }
        let node = open(&plane, &store, &images);
        whole(&node).await.unwrap();
        let view = node.view();
        assert_eq!(view.state("g1"), State::Running);
        let State::Degraded { reason } = view.state("g0") else { panic!("{:?}", view.state("g0")) };
        assert!(reason.contains("missing1"), "{reason}");
        // It runs as far as it can, so that it needs nothing but the interface.
        check(&node, &plane);
        // And others can still come.
        node.put(parse(&document(2, 2)), How::default(), &ALWAYS).await.unwrap();
        assert_eq!(node.view().state("g2"), State::Running);
        assert_eq!(plane.fake.lock().unwrap().violations, Vec::<String>::new());
    });
}

use super::*;
use crate::testing::{desired, wire};

/// What runs after a step.
fn carry_out(step: &Step, running: &mut Running) {
    match step {
        Step::Create(wanted) | Step::Update(wanted) => {
            assert_eq!(matches!(step, Step::Update(_)), runs(wanted, running), "{step:?}");
            match wanted {
                Wanted::Switch { graph, tag, .. } => {
                    drop(running.graphs.insert(graph.clone(), tag.clone()));
                }
                Wanted::Lsi0 { interface, tag, .. } => running.add_lsi0(interface, tag),
                Wanted::Function(i) => set(i, running),
            }
        }
        Step::Write { graph, tag, .. } => {
            drop(running.written.insert(graph.clone(), tag.clone()));
        }
        Step::Attach { interface, points } => {
            for p in points {
                let place = (interface.clone(), p.part);
                match &p.links {
                    None => running.remove_point(&place),
                    Some(links) => {
                        let is_there = links.held || running.graphs.contains_key(links.graph());
                        assert!(is_there, "LSI-0 sends to nowhere");
                        assert!(!running.points.contains_key(&place), "{place:?} is taken");
                        assert!(!running.points.values().any(|l| l == links), "{links:?} are taken");
                        running.add_point(place, links.clone());
                    }
                }
            }
        }
        Step::Remove(Known::Lsi0(interface)) => running.remove_lsi0(interface),
        Step::Remove(Known::Switch(graph)) => {
            let mut places = running.held.get(graph).into_iter().flatten();
            assert!(places.all(|p| running.points[p].held), "LSI-0 still sends to {graph}");
            running.graphs.remove(graph);
        }
        Step::Remove(Known::Function(id, _)) => drop(running.functions.remove(id)),
        Step::Shrink(i) => {
            let ports = &running.functions[&i.id].ports;
            assert!(i.spec.ports.iter().all(|p| ports.contains(p)), "{i:?} has fewer ports alone");
            set(i, running);
        }
    }
}

fn set(i: &Instance, running: &mut Running) {
    let (kind, tag, ports) = (i.spec.kind(), i.tag.clone(), i.spec.ports.clone());
    running.functions.insert(i.id.clone(), RunningFunction { kind, tag, ports });
}

fn runs(wanted: &Wanted, running: &Running) -> bool {
    match wanted {
        Wanted::Switch { graph, .. } => running.graphs.contains_key(graph),
        Wanted::Lsi0 { interface, .. } => running.has_lsi0(interface),
        Wanted::Function(i) => running.functions.contains_key(&i.id),
    }
}

fn kinds(steps: &[Step]) -> Vec<String> {
    let wanted = |w: &Wanted| match w {
        Wanted::Switch { graph, .. } => graph.clone(),
        Wanted::Lsi0 { interface, .. } => format!("lsi0 {interface}"),
        Wanted::Function(i) => i.id.to_string(),
    };
    let kind = |s: &Step| match s {
        Step::Create(w) => format!("create {}", wanted(w)),
        Step::Update(w) => format!("update {}", wanted(w)),
        Step::Write { graph, .. } => format!("write {graph}"),
        Step::Attach { interface, points } => format!("attach {interface} {}", points.len()),
        Step::Remove(Known::Lsi0(interface)) => format!("remove lsi0 {interface}"),
        Step::Remove(Known::Switch(graph)) => format!("remove {graph}"),
        Step::Remove(Known::Function(id, _)) => format!("remove {id}"),
        Step::Shrink(i) => format!("shrink {}", i.id),
    };
    steps.iter().map(kind).collect()
}

fn all<'a>(graphs: &'a [DesiredGraph], running: &'a Running) -> BTreeMap<&'a str, Option<&'a DesiredGraph>> {
    let mut wanted: BTreeMap<&str, Option<&DesiredGraph>> = running.names().map(|n| (n, None)).collect();
    wanted.extend(graphs.iter().map(|g| (g.id.as_str(), Some(g))));
    wanted
}

fn steps(graphs: &[DesiredGraph], running: &Running) -> Vec<Step> {
    reconcile(&all(graphs, running), running)
}

#[test]
fn graphs_come_before_lsi0_sends_to_them_and_go_after() {
    let (a, b) = ([desired(&wire("a", "eth1", "eth2"))], [desired(&wire("b", "eth1", "eth3"))]);
    let mut running = Running::default();
    let first = steps(&a, &running);
    let wanted = ["create a", "create lsi0 eth1", "attach eth1 1", "create lsi0 eth2", "attach eth2 1"];
    assert_eq!(kinds(&first), wanted);
    first.iter().for_each(|s| carry_out(s, &mut running));
    assert_eq!(steps(&a, &running), []);
    // b takes the place of a.
    let second = steps(&b, &running);
    let wanted =
        ["create b", "attach eth1 2", "create lsi0 eth3", "attach eth3 1", "remove lsi0 eth2", "remove a"];
    assert_eq!(kinds(&second), wanted);
    second.iter().for_each(|s| carry_out(s, &mut running));
    assert_eq!(kinds(&steps(&[], &running)), ["remove lsi0 eth1", "remove lsi0 eth3", "remove b"]);
}

#[test]
fn what_its_first_packet_starts_is_rows_of_lsi0_until_then() {
    let graphs = [desired(&format!("{}start: first-packet\nidle: 9\n", wire("a", "eth1", "eth2")))];
    assert_eq!(graphs[0].on_demand.and_then(|d| d.idle), Some(9));
    let mut running = Running::default();
    let next = |running: &mut Running| {
        let next = steps(&graphs, running);
        next.iter().for_each(|s| carry_out(s, running));
        assert_eq!(steps(&graphs, running), []);
        (kinds(&next), running.points.values().map(|l| l.held).collect::<Vec<_>>())
    };
    let asleep = ["create lsi0 eth1", "attach eth1 1", "create lsi0 eth2", "attach eth2 1"];
    assert_eq!(next(&mut running), (asleep.map(str::to_owned).to_vec(), vec![true, true]));
    // The rows are released last, and held again first.
    running.awake.insert("a".into());
    let started = ["create a", "attach eth1 2", "attach eth2 2"];
    assert_eq!(next(&mut running), (started.map(str::to_owned).to_vec(), vec![false, false]));
    running.held_back.insert("a".into());
    let held = ["attach eth1 2", "attach eth2 2"];
    assert_eq!(next(&mut running), (held.map(str::to_owned).to_vec(), vec![true, true]));
    running.held_back.clear();
    running.awake.clear();
    assert_eq!(next(&mut running), (vec!["remove a".to_owned()], vec![true, true]));
    assert_eq!(kinds(&steps(&[], &running)), ["remove lsi0 eth1", "remove lsi0 eth2"]);
}

#[test]
fn an_access_point_that_moves_to_another_interface_leaves_its_old_one_first() {
    let mut running = Running::default();
    let moves = [
        (("eth2", "eth3"), vec!["create lsi0 eth2", "attach eth2 1", "create lsi0 eth3", "attach eth3 1"]),
        (("eth3", "eth2"), vec!["attach eth2 1", "attach eth3 1", "attach eth2 1", "attach eth3 1"]),
        (("eth3", "eth1"), vec!["attach eth2 1", "create lsi0 eth1", "attach eth1 1", "remove lsi0 eth2"]),
    ];
    for ((left, right), wanted) in moves {
        let graphs = [desired(&wire("a", left, right))];
        let next = steps(&graphs, &running);
        let kinds: Vec<String> = kinds(&next).into_iter().filter(|k| !k.ends_with(" a")).collect();
        assert_eq!(kinds, wanted);
        next.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(steps(&graphs, &running), []);
    }
}

#[test]
fn an_interface_of_the_host_is_made_anew_when_it_is_to_be_another() {
    let sap = "{id: r, type: host-stack, host-stack: {ip: 10.0.0.1/24, if-name: stack}}";
    let document =
        wire("a", "eth1", "eth2").replace("{id: r, type: interface, interface: {if-name: eth2}}", sap);
    let graphs = [desired(&document)];
    let mut running = Running::default();
    let first = steps(&graphs, &running);
    let kinds_of = kinds(&first);
    assert_eq!(kinds_of[3..], ["create lsi0 host:stack", "attach host:stack 1"]);
    first.iter().for_each(|s| carry_out(s, &mut running));
    assert_eq!(steps(&graphs, &running), []);
    let graphs = [desired(&document.replace("10.0.0.1/24", "10.0.0.2/24"))];
    let second = steps(&graphs, &running);
    let wanted = ["remove lsi0 host:stack", "create lsi0 host:stack", "attach host:stack 1"];
    assert_eq!(kinds(&second), wanted, "its graph is as it was");
    second.iter().for_each(|s| carry_out(s, &mut running));
    assert_eq!(steps(&graphs, &running), []);
}

#[test]
fn what_runs_with_the_same_tag_is_adopted_and_missing_writes_are_made() {
    let mut a = desired(&wire("a", "eth1", "eth2"));
    a.switch.writes = vec![("sf_x/f.limit".into(), "3".into())];
    let graphs = [a];
    let mut running = Running::default();
    let first = steps(&graphs, &running);
    assert_eq!(kinds(&first[..2]), ["create a", "write a"]);
    // The daemon was killed between the load and the writes.
    carry_out(&first[0], &mut running);
    let second = steps(&graphs, &running);
    assert_eq!(kinds(&second[..2]), ["write a", "create lsi0 eth1"]);
    second.iter().for_each(|s| carry_out(s, &mut running));
    assert_eq!(steps(&graphs, &running), []);
}

#[test]
fn functions_come_before_their_switch_and_go_after_it() {
    let mut a = desired(&wire("a", "eth1", "eth2"));
    let function = |name: &str, digest: &str| {
        Instance::new(InstanceId::new("a", name), crate::testing::native_spec(digest))
    };
    a.instances = vec![function("f", "1"), function("g", "1")];
    let mut running = Running::default();
    let first = steps(std::slice::from_ref(&a), &running);
    assert_eq!(kinds(&first[..3]), ["create a/f", "create a/g", "create a"]);
    first.iter().for_each(|s| carry_out(s, &mut running));
    // Another image of f, and g goes; b, whose name begins alike, is not touched.
    let other = InstanceId::new("aa", "f");
    let (tag, ports) = ("x".into(), Vec::new());
    running.functions.insert(other, RunningFunction { kind: Kind::Native, tag, ports });
    a.instances = vec![function("f", "2")];
    let wanted = BTreeMap::from([("a", Some(&a))]);
    let second = reconcile(&wanted, &running);
    assert_eq!(kinds(&second), ["update a/f", "remove a/g"]);
    second.iter().for_each(|s| carry_out(s, &mut running));
    let none = reconcile(&BTreeMap::from([("a", None)]), &running);
    let wanted = ["remove lsi0 eth1", "remove lsi0 eth2", "remove a", "remove a/f"];
    assert_eq!(kinds(&none), wanted);
    assert_eq!(kinds(&steps(&[], &running)).last().map(String::as_str), Some("remove aa/f"));
}

#[test]
fn ports_come_before_the_rules_that_send_to_them_and_go_after() {
    let function = |ports: &[&str]| {
        let mut spec = crate::testing::native_spec("1");
        let name = |p: &&str| PortNames { inside: (*p).into(), outside: format!("wf{p}") };
        spec.ports = ports.iter().map(name).collect();
        Instance::new(InstanceId::new("a", "f"), spec)
    };
    let graph = |ports: &[&str]| {
        let mut a = desired(&wire("a", "eth1", "eth2"));
        a.instances = vec![function(ports)];
        a.switch.config += &format!("// {ports:?}");
        a.tag = a.switch.tag();
        a
    };
    let mut running = Running::default();
    let mut change = |ports: &[&str]| {
        let graphs = [graph(ports)];
        let next = steps(&graphs, &running);
        next.iter().for_each(|s| carry_out(s, &mut running));
        assert_eq!(running.functions[&InstanceId::new("a", "f")].ports.len(), ports.len());
        assert_eq!(steps(&graphs, &running), []);
        kinds(&next)
    };
    assert_eq!(change(&["x", "y"])[..2], ["create a/f", "create a"]);
    assert_eq!(change(&["x", "y", "z"]), ["update a/f", "update a"]);
    assert_eq!(change(&["x"]), ["update a", "shrink a/f"]);
    // One in place of another: both are there while the rules change.
    assert_eq!(change(&["y"]), ["update a/f", "update a", "shrink a/f"]);
    let id = InstanceId::new("a", "f");
    let there = RunningFunction { kind: Kind::Native, tag: "x".into(), ports: function(&["y"]).spec.ports };
    let (grown, shrunk) = super::function(&function(&["x"]), Some(&there));
    let Some(Step::Update(Wanted::Function(grown))) = grown else { panic!("{grown:?}") };
    assert_eq!((grown.spec.ports, grown.id), (function(&["y", "x"]).spec.ports, id));
    assert_eq!(shrunk, Some(Step::Shrink(Box::new(function(&["x"])))));
    // What is damaged, of another kind, or meets the switch in another way is made anew first.
    let shared = PortNames { inside: "y".into(), outside: "vhost-user:0/y".into() };
    for there in [
        RunningFunction { tag: String::new(), ..there.clone() },
        RunningFunction { kind: Kind::Vm, ..there.clone() },
        RunningFunction { ports: vec![shared], ..there },
    ] {
        let (first, then) = super::function(&function(&["x"]), Some(&there));
        assert_eq!(first, Some(Step::Update(Wanted::Function(Box::new(function(&["x"]))))));
        assert_eq!(then, None);
    }
}

#[test]
fn a_change_of_one_graph_has_steps_of_that_graph_alone() {
    let graphs: Vec<_> = (0..50)
        .map(|i| {
            desired(
                &wire(&format!("g{i}"), &format!("e{i}"), "lo")
                    .replace("sap:r", "sap:l")
                    .replace("  - {id: r, type: interface, interface: {if-name: lo}}\n", ""),
            )
        })
        .collect();
    let mut running = Running::default();
    steps(&graphs, &running).iter().for_each(|s| carry_out(s, &mut running));
    let one = desired(&wire("g7", "e7", "new"));
    let wanted = BTreeMap::from([("g7", Some(&one))]);
    assert_eq!(kinds(&reconcile(&wanted, &running)), ["update g7", "create lsi0 new", "attach new 1"]);
    let none = BTreeMap::from([("g7", None)]);
    assert_eq!(kinds(&reconcile(&none, &running)), ["remove lsi0 e7", "remove g7"]);
}

proptest::proptest! {
    #[test]
    fn from_any_state_the_steps_lead_to_the_wanted_one_and_no_further(
        wanted in proptest::collection::btree_set(0..4usize, 0..4),
        running in proptest::collection::btree_map(0..4usize, proptest::bool::ANY, 0..4),
        unwanted in proptest::bool::ANY,
    ) {
        let graph = |n: usize| desired(&wire(&format!("g{n}"), &format!("e{}", n % 3), &format!("f{n}")));
        // Two of these want the same interface; the second wanted one is another graph's.
        let graphs: Vec<_> = wanted.iter().filter(|n| **n < 3).map(|n| graph(*n)).collect();
        let mut actual = Running::default();
        for (n, stale) in running {
            let mut g = graph(n);
            if stale {
                g.tag = "old".into();
            }
            let one = BTreeMap::from([(g.id.as_str(), Some(&g))]);
            let taken = n == 3 && actual.graphs.contains_key("g0");
            if !taken {
                reconcile(&one, &actual).iter().for_each(|s| carry_out(s, &mut actual));
            }
        }
        if unwanted {
            actual.add_lsi0("nobody", "x");
        }
        steps(&graphs, &actual).iter().for_each(|s| carry_out(s, &mut actual));
        proptest::prop_assert_eq!(steps(&graphs, &actual), vec![]);
        let names: BTreeSet<_> = actual.graphs.keys().cloned().collect();
        proptest::prop_assert_eq!(names, graphs.iter().map(|g| g.id.clone()).collect::<BTreeSet<_>>());
        let points: usize = graphs.iter().map(|g| g.attachments.len()).sum();
        proptest::prop_assert_eq!(actual.points.len(), points);
    }
}

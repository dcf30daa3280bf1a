//! A function in a process of its own stops, goes on, and moves between nodes; also out of its process, and into one.

use std::path::Path;

use weir_node::compute::cgroup::Cgroup;
use weir_node::compute::hosted::Paths;
use weir_node::instance::InstanceId;

use crate::domain::{Domain, lab};
use crate::lab::{Lab, until, until_pings};
use crate::migration::{NAT, addresses, is_at_rest, nodes_of_nat};
use crate::processes::kill;
use crate::traffic::Stream;

fn in_a_process() -> String {
    NAT.replace("name: nat\n    ports", "name: nat\n    kind: process\n    ports")
}

/// The worker of the NAT at a node, if it has one.
fn worker_at(lab: &Lab, node: &str) -> Option<i32> {
    let functions = lab.path(&format!("{node}.functions"));
    let paths = Paths::new(Path::new(&functions), &InstanceId::new("office", "nat"));
    Cgroup::named(&paths.name).processes().first().copied()
}

#[test]
fn a_nat_in_a_process_moves_under_traffic_and_nothing_is_lost_doubled_or_out_of_order() {
    let lab = lab(true);
    addresses(&lab);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    domain.apply(&in_a_process(), &[]).ok();
    until_pings(&lab.ns("h1"), "10.2.0.3");
    assert!(worker_at(&lab, nodes_of_nat(&lab)[0]).is_some());
    domain
        .weir(&["migrate", "office", "nat", "--to", if nodes_of_nat(&lab) == ["n1"] { "n2" } else { "n1" }])
        .ok();
    let stream = Stream::start(&lab, "h1", "h3", "10.2.0.3", 5300, 500);
    // From process to process, out of it, inline, and back into one.
    let moves: [(&str, &[&str], bool); 5] = [
        ("n3", &[], true),
        ("n2", &[], true),
        ("n3", &["--kind", "inline"], false),
        ("n1", &[], false),
        ("n2", &["--kind", "process"], true),
    ];
    for (to, kind, in_a_process) in moves {
        let at = domain.json(&[&["migrate", "office", "nat", "--to", to], kind].concat());
        println!("{at}");
        assert_eq!((&at["to"], &at["dropped"], &at["missing"]), (&to.into(), &0.into(), &0.into()), "{at}");
        assert_eq!(nodes_of_nat(&lab), [to]);
        let workers: Vec<&str> =
            ["n1", "n2", "n3"].into_iter().filter(|n| worker_at(&lab, n).is_some()).collect();
        assert_eq!(workers, if in_a_process { vec![to] } else { vec![] });
    }
    let received = stream.all_came_once();
    assert_eq!(received.account["disordered"], 0, "{}", received.account);
    assert_eq!(received.sources, ["10.2.0.1"]);
    assert!(is_at_rest(&domain));
    domain.weir(&["delete", "office"]).ok();
    domain.stop_engines();
}

#[test]
fn a_function_in_a_process_stops_with_what_it_does_by_itself() {
    let lab = lab(false);
    addresses(&lab);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    domain.apply(&in_a_process(), &[]).ok();
    let h1 = lab.ns("h1");
    until_pings(&h1, "10.2.0.3");
    let stream = Stream::start(&lab, "h1", "h3", "10.2.0.3", 5300, 200);
    for _ in 0..3 {
        assert_eq!(domain.json(&["pause", "office", "nat"])["state"], "stopped");
        until("packets wait", || domain.json(&["pause", "office", "nat"])["waiting"].as_u64() > Some(20));
        assert_eq!(domain.json(&["resume", "office", "nat"])["state"], "running");
    }
    let received = stream.all_came_once();
    assert_eq!(received.account["disordered"], 0, "{}", received.account);
    assert_eq!(domain.json(&["bypass", "office", "nat"])["state"], "bypass");
    let e = domain
        .weir(&["migrate", "office", "nat", "--to", nodes_of_nat(&lab)[0], "--kind", "inline"])
        .fails(1);
    assert!(e.contains("already: how it is run changes as it moves to another node"), "{e}");
    domain.weir(&["delete", "office"]).ok();
    domain.stop_engines();
}

#[test]
fn whoever_is_killed_on_the_way_a_function_in_a_process_goes_on_at_one_node() {
    let lab = lab(true);
    addresses(&lab);
    let mut domain = Domain::start(&lab);
    let mut nodes = domain.join_all();
    domain.apply(&in_a_process(), &[]).ok();
    let h1 = lab.ns("h1");
    until_pings(&h1, "10.2.0.3");
    for (round, delay) in [0, 60, 150, 300, 450, 700, 1000, 1400].into_iter().enumerate() {
        let at = nodes_of_nat(&lab);
        let (from, to) = if at == ["n2"] { ("n2", "n3") } else { ("n3", "n2") };
        let moving = lab.ns("control").spawn_weir(&["migrate", "office", "nat", "--to", to]);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        // By turns the controller, the daemon of the target, and the workers of both.
        match round % 4 {
            0 => domain.restart(&[]),
            1 => {
                let i = if to == "n2" { 1 } else { 2 };
                nodes[i].kill();
                nodes[i] = domain.node(to, None);
            }
            2 => worker_at(&lab, from).into_iter().for_each(kill),
            _ => worker_at(&lab, to).into_iter().for_each(kill),
        }
        _ = moving.wait();
        until("all nodes", || ["n1", "n2", "n3"].iter().all(|n| domain.is_online(n)));
        until("the graph is at rest", || is_at_rest(&domain));
        assert_eq!(nodes_of_nat(&lab).len(), 1, "after {delay} ms");
        until_pings(&h1, "10.2.0.3");
    }
    domain.weir(&["delete", "office"]).ok();
    domain.stop_engines();
}

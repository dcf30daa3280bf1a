//! A data plane of another program takes the place of the one that runs.

use std::path::Path;
use std::time::Duration;

use crate::lab::{Lab, Process, WEIR, host, two_networks, until, until_pings};
use crate::node::{Node, example};
use crate::traffic::Stream;

/// A daemon of another file of the program, whose data plane the next one is to replace.
fn older(lab: &Lab, options: &[&str]) -> Process {
    let program = lab.path("older");
    if !Path::new(&program).exists() {
        std::fs::copy(WEIR, &program).unwrap();
    }
    let (socket, store) = (lab.path("engine.sock"), lab.path("store/weir.db"));
    let command = [&program, "node", "--socket", &socket, "--store", &store, "--images", "images"];
    let daemon = lab.ns("node").spawn_in_network(&[&command[..], options].concat());
    until("the older data plane", || daemon.stderr().contains("the data plane is process"));
    daemon
}

/// The data planes that there are.
fn engines(lab: &Lab) -> Vec<u32> {
    let is_engine = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).nth(1) == Some(b"engine")
    };
    lab.processes().into_iter().filter(is_engine).collect()
}

fn kill(pid: u32) {
    // It may have ended.
    _ = host(&["kill", "-9", &pid.to_string()]);
}

/// Upgrades under numbered packets and a download.
fn upgrades_under_traffic(options: &[&str]) {
    let lab = Lab::new(&["client", "node", "server"]);
    two_networks(&lab);
    let mut daemon = older(&lab, options);
    let file = lab.write("graph.yaml", example());
    lab.ns("node").weir(&["apply", &file]).ok();
    until_pings(&lab.ns("client"), "10.0.2.2");
    let old = engines(&lab);
    assert_eq!(old.len(), 1);
    let (client, server) = (lab.ns("client"), lab.ns("server"));
    let iperf = server.spawn(&["iperf3", "-s", "-1"]);
    until("iperf3", || server.run(&["ss", "-ltn"]).stdout.contains(":5201"));
    let transfer = client.spawn(&["iperf3", "-c", "10.0.2.2", "-t", "12", "-b", "20M", "-J"]);
    let stream = Stream::start(&lab, "client", "server", "10.0.2.2", 5202, 500);
    daemon.kill();
    let node = Node::start_with(&lab, &[options, &["--upgrade"]].concat());
    until("another data plane", || engines(&lab).iter().all(|pid| !old.contains(pid)));
    until("the node says so", || {
        node.weir(&["events"]).stdout.contains("is the data plane now; packets waited for")
    });
    assert_eq!(u32::try_from(node.data_plane_pid()).unwrap(), engines(&lab)[0]);
    let received = stream.all_came_once();
    assert_eq!((&received.account["disordered"], &received.account["endpoints"]), (&0.into(), &1.into()));
    let transfer: serde_json::Value = serde_json::from_str(&transfer.wait().ok()).unwrap();
    let sent = &transfer["end"]["sum_sent"];
    println!("iperf3: {} bytes, {} sent again", sent["bytes"], sent["retransmits"]);
    assert_eq!(sent["bytes"], transfer["end"]["sum_received"]["bytes"]);
    iperf.wait().ok();
    // What it goes on with is what it would have been given: nothing is loaded again.
    assert_eq!(node.swaps("firewall-nat"), 0);
    until_pings(&lab.ns("client"), "10.0.2.2");
    // Once more by the same program there is nothing to do.
    drop(node.end());
    let node = Node::start_with(&lab, &[options, &["--upgrade"]].concat());
    until("it says so", || node.log().contains("runs this program already"));
    drop(node.end());
    let socket = lab.path("engine.sock");
    lab.ns("node").weir(&["engine", "--stop", "--socket", &socket]).ok();
    assert!(engines(&lab).is_empty());
}

#[test]
fn another_data_plane_takes_over_under_traffic_and_nothing_is_lost_doubled_or_out_of_order() {
    upgrades_under_traffic(&[]);
}

#[test]
fn data_planes_of_several_workers_take_over_too() {
    upgrades_under_traffic(&["--workers", "2"]);
}

#[test]
fn whoever_is_killed_on_the_way_one_data_plane_goes_on() {
    let lab = Lab::new(&["client", "node", "server"]);
    two_networks(&lab);
    let client = lab.ns("client");
    let file = lab.write("graph.yaml", example());
    let mut upgraded = 0;
    for (round, delay) in [0, 150, 300, 450, 600, 800, 1000, 1300].into_iter().enumerate() {
        let mut daemon = older(&lab, &[]);
        lab.ns("node").weir(&["apply", &file]).ok();
        until_pings(&client, "10.0.2.2");
        let old = engines(&lab);
        assert_eq!(old.len(), 1);
        daemon.kill();
        let mut daemon = Node::spawn(&lab, &["--upgrade"]);
        std::thread::sleep(Duration::from_millis(delay));
        let all = engines(&lab);
        // By turns the old one, the new one and the daemon.
        match round % 3 {
            0 => kill(old[0]),
            1 => all.iter().filter(|pid| !old.contains(pid)).for_each(|pid| kill(*pid)),
            _ => {
                daemon.kill();
                daemon = Node::spawn(&lab, &[]);
            }
        }
        until("one data plane that passes packets", || {
            engines(&lab).len() == 1 && client.run(&["ping", "-c1", "-W0.5", "10.0.2.2"]).code == 0
        });
        until("the node is as it is to be", || lab.ns("node").weir(&["ps"]).stdout.contains("running"));
        upgraded += usize::from(engines(&lab) != old);
        daemon.kill();
        let socket = lab.path("engine.sock");
        lab.ns("node").weir(&["engine", "--stop", "--socket", &socket]).ok();
    }
    println!("{upgraded} of 8 times another one went on");
}

#[test]
fn what_cannot_go_over_is_said_and_all_stays() {
    let lab = Lab::new(&["client", "node", "server"]);
    two_networks(&lab);
    let mut daemon = older(&lab, &[]);
    let document = example().replace("    name: nat\n", "    name: nat\n    kind: process\n");
    let file = lab.write("graph.yaml", document);
    lab.ns("node").weir(&["apply", &file]).ok();
    until_pings(&lab.ns("client"), "10.0.2.2");
    let old = engines(&lab);
    let stream = Stream::start(&lab, "client", "server", "10.0.2.2", 5202, 200);
    daemon.kill();
    let node = Node::start_with(&lab, &["--upgrade"]);
    let said = "memory that it shares with another process";
    until("the node says why not", || node.weir(&["events"]).stdout.contains(said));
    until("the other one has ended", || engines(&lab) == old);
    stream.all_came_once();
    node.weir(&["delete", "firewall-nat"]).ok();
    drop(node.end());
    let socket = lab.path("engine.sock");
    lab.ns("node").weir(&["engine", "--stop", "--socket", &socket]).ok();
}

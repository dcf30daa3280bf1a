//! DPDK programs as functions: dpdk-testpmd, unmodified, between real hosts.

use crate::functions::{graph, left, one_network};
use crate::lab::{Lab, poll, until_pings};
use crate::node::Node;
use crate::processes::{kill, next_daemon, of_status, worker};
use crate::traffic::{big_file, sha256, web_server};

#[test]
fn a_dpdk_program_forwards_dies_and_outlives_the_daemon() {
    // Its threads take all of a processor each.
    let lab = Lab::alone(&["client", "node", "server"]);
    let (client, _server) = one_network(&lab);
    let node = Node::start(&lab);
    node.weir(&["apply", &graph(&lab, "testpmd", "")]).ok();
    until_pings(&client, "10.0.0.2");
    let (_, sum) = big_file(&lab, "file", 1_000_000);
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "30", "-o", &got, "http://10.0.0.2/file"]).ok();
    assert_eq!(sha256(&got), sum);
    assert!(node.weir(&["logs", &lab.name("g"), "f"]).ok().contains("EAL: "));
    let status = node.weir(&["--json", "show", &lab.name("g")]).json();
    assert_eq!(status["functions"][0]["engine"], "dpdk");
    assert!(status["functions"][0]["packets_out"].as_u64().unwrap() > 500, "{status}");

    let pid = worker(&lab).unwrap();
    // Its two threads have cores of their own where the data plane and all else have two as well.
    let cores = status["functions"][0]["cores"].as_str();
    assert_eq!(cores.is_some(), std::thread::available_parallelism().unwrap().get() >= 4, "{status}");
    let all = of_status(std::process::id().cast_signed(), "Cpus_allowed_list");
    assert_eq!(of_status(pid, "Cpus_allowed_list"), cores.unwrap_or(&all));
    let node = next_daemon(&lab, node, &[]);
    kill(pid);
    assert!(poll(200, || worker(&lab).is_some_and(|now| now != pid)));
    until_pings(&client, "10.0.0.2");
    // What DPDK says of its arguments, some time after it has its ports.
    node.weir(&["apply", &graph(&lab, "testpmd", "MODE: nonsense")]);
    assert!(poll(200, || node.weir(&["events"]).ok().contains("the program ended")));
    node.weir(&["apply", &graph(&lab, "testpmd", "MODE: io")]).ok();
    until_pings(&client, "10.0.0.2");
    node.weir(&["delete", &lab.name("g")]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

//! A function moves between nodes while traffic passes it.

use crate::domain::{Domain, lab};
use crate::lab::{Lab, Process, until};
use crate::traffic::{Stream, big_file, sha256, web_server};

/// Hosts at n1 and n3, and a NAT at n2 to begin with.
pub(crate) const NAT: &str = "
id: office
name: office
SFs:
  - id: nat
    name: nat
    ports: [{id: in}, {id: out}]
    fifo: 20000
    params: {INSIDE_IP: 10.1.0.254, INSIDE_NET: 10.1.0.0/24, OUTSIDE_IP: 10.2.0.1}
saps:
  - {id: a, type: interface, node: n1, interface: {if-name: lan}}
  - {id: b, type: interface, node: n3, interface: {if-name: lan}}
flowrules:
  - {id: a, priority: 1, match: {port_in: 'sap:a'}, actions: {output_to_port: 'sf:nat:in'}}
  - {id: b, priority: 1, match: {port_in: 'sf:nat:out'}, actions: {output_to_port: 'sap:b'}}
  - {id: c, priority: 1, match: {port_in: 'sap:b'}, actions: {output_to_port: 'sf:nat:out'}}
  - {id: d, priority: 1, match: {port_in: 'sf:nat:in'}, actions: {output_to_port: 'sap:a'}}
";

/// Addresses on both sides of the NAT.
pub(crate) fn addresses(lab: &Lab) {
    lab.ip("h3", "addr flush dev eth0");
    lab.ip("h3", "addr add 10.2.0.3/24 dev eth0");
    // A tunnel takes 50 bytes.
    for host in ["h1", "h3"] {
        lab.ip(host, "link set eth0 mtu 1400");
    }
    lab.ip("h1", "route add 10.2.0.0/24 via 10.1.0.254");
}

/// Whether the graph is as any other: nothing of it moves.
pub(crate) fn is_at_rest(domain: &Domain<'_>) -> bool {
    let config = domain.weir(&["show", "office", "--config"]);
    let trouble = |node: &str| {
        domain.json(&["describe", "node", node])["trouble"].as_array().is_some_and(|t| !t.is_empty())
    };
    config.code == 0
        && !config.stdout.contains("FunctionGate")
        && !["n1", "n2", "n3"].into_iter().any(trouble)
}

/// The nodes that have the NAT, as they say themselves.
pub(crate) fn nodes_of_nat(lab: &Lab) -> Vec<&'static str> {
    let has = |node: &&str| {
        let address = "http://127.0.0.1:7400";
        let out = lab.ns(node).weir(&["--json", "show", "office", "--node", address]);
        out.code == 0 && out.json()["functions"].as_array().is_some_and(|f| !f.is_empty())
    };
    ["n1", "n2", "n3"].into_iter().filter(has).collect()
}

#[test]
fn whoever_is_killed_on_the_way_the_function_goes_on_at_one_node_with_its_state() {
    let lab = lab(true);
    addresses(&lab);
    let mut domain = Domain::start(&lab);
    let mut nodes = domain.join_all();
    domain.apply(NAT, &[]).ok();
    let h1 = lab.ns("h1");
    crate::lab::until_pings(&h1, "10.2.0.3");
    // Its mappings are there as long as it goes on.
    let mappings = |domain: &Domain<'_>| {
        domain.weir(&["handler", "read", "office", "nat", "table"]).stdout.matches("10.1.0.1").count()
    };
    until("a mapping", || mappings(&domain) > 0);
    for (round, delay) in [0, 40, 120, 250, 400, 600, 900, 1300].into_iter().enumerate() {
        let at = nodes_of_nat(&lab);
        let to = if at == ["n2"] { "n3" } else { "n2" };
        let moving = lab.ns("control").spawn_weir(&["migrate", "office", "nat", "--to", to]);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        // By turns the controller and the daemon of the target.
        if round % 2 == 0 {
            domain.restart(&[]);
        } else {
            let i = if to == "n2" { 1 } else { 2 };
            nodes[i].kill();
            nodes[i] = domain.node(to, None);
        }
        _ = moving.wait();
        until("all nodes", || ["n1", "n2", "n3"].iter().all(|n| domain.is_online(n)));
        until("the graph is at rest", || is_at_rest(&domain));
        assert_eq!(nodes_of_nat(&lab).len(), 1, "after {delay} ms");
        crate::lab::until_pings(&h1, "10.2.0.3");
        assert!(mappings(&domain) > 0, "after {delay} ms");
    }
    domain.weir(&["delete", "office"]).ok();
    domain.stop_engines();
}

/// The data plane of a node.
fn engine_of(lab: &Lab, node: &str) -> Option<u32> {
    let socket = lab.path(&format!("{node}.sock"));
    let is_it = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
        words.get(1) == Some(&&b"engine"[..]) && words.contains(&socket.as_bytes())
    };
    lab.processes().into_iter().find(is_it)
}

#[test]
fn whoever_is_killed_at_each_stage_the_function_goes_on_at_one_node() {
    let lab = lab(true);
    addresses(&lab);
    let mut domain = Domain::start(&lab);
    let mut nodes = domain.join_all();
    domain.apply(NAT, &[]).ok();
    let h1 = lab.ns("h1");
    crate::lab::until_pings(&h1, "10.2.0.3");
    let mappings = |domain: &Domain<'_>| {
        domain.weir(&["handler", "read", "office", "nat", "table"]).stdout.matches("10.1.0.1").count()
    };
    for stage in ["prepared", "ready", "followed", "turned", "given", "arrived"] {
        for victim in ["controller", "source", "target", "target's data plane"] {
            let from = nodes_of_nat(&lab)[0];
            let to = if from == "n2" { "n3" } else { "n2" };
            until("a mapping", || mappings(&domain) > 0);
            let hold = lab.write(&format!("hold-{stage}"), "");
            let moving = lab.ns("control").spawn_weir(&["migrate", "office", "nat", "--to", to]);
            let at = lab.path(&format!("at-{stage}"));
            until("the stage", || std::path::Path::new(&at).exists());
            // It waits there, whoever ends now.
            let number = |node: &str| node[1..].parse::<usize>().unwrap() - 1;
            match victim {
                "controller" => domain.restart(&[]),
                "target's data plane" => {
                    let pid = engine_of(&lab, to).unwrap().to_string();
                    crate::lab::host(&["kill", "-9", &pid]).ok();
                }
                node => nodes[number(if node == "source" { from } else { to })].kill(),
            }
            std::fs::remove_file(hold).unwrap();
            std::fs::remove_file(at).unwrap();
            for node in [from, to].into_iter().filter(|_| ["source", "target"].contains(&victim)) {
                if (node == from) == (victim == "source") {
                    nodes[number(node)] = domain.node(node, None);
                }
            }
            _ = moving.wait();
            until("all nodes", || ["n1", "n2", "n3"].iter().all(|n| domain.is_online(n)));
            until("the graph is at rest", || is_at_rest(&domain));
            assert_eq!(nodes_of_nat(&lab).len(), 1, "{victim} at {stage}");
            if victim != "target's data plane" {
                assert!(mappings(&domain) > 0, "{victim} at {stage}");
            }
            crate::lab::until_pings(&h1, "10.2.0.3");
        }
    }
    domain.weir(&["delete", "office"]).ok();
    domain.stop_engines();
}

#[test]
fn what_cannot_move_says_why_and_stays() {
    let lab = lab(false);
    addresses(&lab);
    let domain = Domain::start(&lab);
    let mut nodes = domain.join_all();
    domain.apply(&NAT.replace("id: nat\n", "id: nat\n    node: n2\n"), &[]).ok();
    crate::lab::until_pings(&lab.ns("h1"), "10.2.0.3");
    let refused = |to: &str, function: &str, why: &str| {
        let e = domain.weir(&["migrate", "office", function, "--to", to]).fails(1);
        assert!(e.contains(why), "{e}");
        assert_eq!(nodes_of_nat(&lab), ["n2"]);
    };
    refused("n2", "nat", "is at node 'n2' already");
    refused("n9", "nat", "there is no node 'n9'");
    refused("n1", "nut", "has no function 'nut' (did you mean 'nat'?)");
    domain.weir(&["cordon", "n1"]).ok();
    refused("n1", "nat", "node 'n1' is cordoned");
    domain.weir(&["uncordon", "n1"]).ok();
    nodes[0].kill();
    until("n1 is gone", || !domain.is_online("n1"));
    refused("n1", "nat", "node 'n1' is offline");
    nodes[0] = domain.node("n1", None);
    until("n1 is back", || domain.is_online("n1") && domain.knows("n1"));
    // It is stopped, and what comes waits; then it is passed by, and goes on.
    let (h1, life) = (lab.ns("h1"), |what: &str| domain.json(&[what, "office", "nat"]));
    assert_eq!(life("pause")["state"], "stopped");
    assert_ne!(h1.run(&["ping", "-c1", "-W0.5", "10.2.0.3"]).code, 0);
    assert!(domain.weir(&["show", "office"]).ok().contains("stopped"));
    let waiting = || domain.weir(&["pause", "office", "nat"]).ok();
    until("packets wait", || !waiting().contains("packets wait, 0 now"));
    assert_eq!(life("bypass")["state"], "bypass");
    assert_eq!(life("resume")["state"], "running");
    crate::lab::until_pings(&h1, "10.2.0.3");
    // The document says the new node after a move; a drain moves it as well.
    domain.weir(&["migrate", "office", "nat", "--to", "n1"]).ok();
    assert_eq!(nodes_of_nat(&lab), ["n1"]);
    domain.weir(&["migrate", "office", "nat", "--to", "n2"]).ok();
    domain.weir(&["delete", "office"]).ok();
    domain.apply(NAT, &[]).ok();
    domain.weir(&["migrate", "office", "nat", "--to", "n2"]).ok();
    let drained = domain.weir(&["drain", "n2"]).ok();
    assert!(drained.contains("graph office: at node"), "{drained}");
    assert_ne!(nodes_of_nat(&lab), ["n2"]);
    let events = domain.weir(&["events", "--graph", "office"]).ok();
    assert!(events.contains("moved from node 'n2'"), "{events}");
    domain.weir(&["delete", "office"]).ok();
    domain.stop_engines();
}

#[test]
fn a_nat_moves_under_traffic_and_nothing_is_lost_doubled_or_out_of_order() {
    let lab = lab(true);
    addresses(&lab);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    domain.apply(NAT, &[]).ok();
    crate::lab::until_pings(&lab.ns("h1"), "10.2.0.3");
    let (file, sum) = big_file(&lab, "big", 60 << 20);
    let folder = std::path::Path::new(&file).parent().unwrap().to_str().unwrap().to_owned();
    let _server = web_server(&lab, "h3", 8000, &folder);
    let stream = Stream::start(&lab, "h1", "h3", "10.2.0.3", 5300, 500);
    let got = lab.path("got");
    let download = lab.ns("h1").spawn(&[
        "curl",
        "-sS",
        "--limit-rate",
        "3M",
        "--max-time",
        "120",
        "-o",
        &got,
        "http://10.2.0.3:8000/big",
    ]);
    until("the download", || std::fs::metadata(&got).is_ok_and(|m| m.len() > 0));
    let plan = domain.weir(&["migrate", "office", "nat", "--to", "n1", "--plan"]).ok();
    assert!(plan.contains("bytes of state would go"), "{plan}");
    let mut at = domain.json(&["migrate", "office", "nat", "--to", "n1"]);
    for to in ["n2", "n3", "n1", "n2"] {
        println!("{at}");
        assert_eq!((&at["dropped"], &at["missing"]), (&0.into(), &0.into()), "{at}");
        at = domain.json(&["migrate", "office", "nat", "--to", to]);
        assert_eq!(at["to"], to, "{at}");
    }
    println!("{at}");
    let received = stream.all_came_once();
    assert_eq!(received.account["disordered"], 0, "{}", received.account);
    assert_eq!(received.sources, ["10.2.0.1"]);
    download.wait().ok();
    assert_eq!(sha256(&got), sum);
    // Nothing of the way is left.
    let config = domain.weir(&["show", "office", "--config"]).ok();
    assert!(!config.contains("FunctionGate"), "{config}");
    assert_eq!(domain.ps(), [("office".into(), "n1, n2, n3".into(), "running".into())]);
    // The same document leaves it where it is.
    assert!(domain.apply(NAT, &[]).ok().contains("unchanged"));
    domain.weir(&["delete", "office"]).ok();
    domain.stop_engines();
}

#[test]
fn two_moves_at_once_do_not_disturb_each_other() {
    let lab = lab(true);
    addresses(&lab);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    domain.apply(NAT, &[]).ok();
    let other = NAT.replace("id: office", "id: other").replace("if-name: lan", "if-name: wan");
    domain.apply(&other, &[]).ok();
    crate::lab::until_pings(&lab.ns("h1"), "10.2.0.3");
    for to in ["n1", "n2"] {
        // Of one graph one goes on, and the other is said to wait for it; another graph has nothing to do with it.
        let control = lab.ns("control");
        let [first, second] =
            [to, "n3"].map(|to| control.spawn_weir(&["migrate", "office", "nat", "--to", to]));
        let beside = control.spawn_weir(&["migrate", "other", "nat", "--to", to]);
        // What changes nothing of the graph that moves does not wait for it, and what does change it comes behind.
        let applied = control.spawn_weir(&["apply", &lab.write("same.yaml", NAT)]);
        let said = [first, second, beside].map(Process::wait);
        let done = said.iter().filter(|out| out.code == 0).count();
        let text = |i: usize| format!("{}{}", said[i].stdout, said[i].stderr);
        assert!(said[2].code == 0 || text(2).contains("already"), "{}", text(2));
        assert!(done >= 1, "{} {}", text(0), text(1));
        for i in [0, 1] {
            let refused = ["is under way", "is not as it is to be yet", "already"]
                .iter()
                .any(|why| text(i).contains(why));
            assert!(said[i].code == 0 || refused, "{}", text(i));
        }
        applied.wait().ok();
        until("the graph is at rest", || is_at_rest(&domain));
        assert_eq!(nodes_of_nat(&lab).len(), 1);
        crate::lab::until_pings(&lab.ns("h1"), "10.2.0.3");
    }
    domain.weir(&["delete", "office"]).ok();
    domain.weir(&["delete", "other"]).ok();
    domain.stop_engines();
}

/// A newer version of the image of the NAT, of another name, with more elements.
fn newer_image(lab: &Lab, version: &str, more: &str) {
    let of = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images/nat");
    let read = |file: &str| std::fs::read_to_string(of.join(file)).unwrap();
    let manifest = read("function.yaml").replace("version: \"1.0\"", &format!("version: \"{version}\""));
    let manifest = manifest.replace("name: nat\n", "name: nat2\n");
    std::fs::create_dir_all(lab.path("images/nat2")).unwrap();
    lab.write("images/nat2/function.yaml", &manifest);
    lab.write("images/nat2/function.click", format!("{}\n{more}", read("function.click")));
}

#[test]
fn a_function_becomes_one_of_a_newer_version_as_it_moves_and_keeps_its_mappings() {
    let lab = lab(true);
    addresses(&lab);
    newer_image(&lab, "2.0", "Idle -> extra :: ConnectionLimit(9) -> Discard; extra [1] -> Discard;\n");
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    domain.apply(NAT, &[]).ok();
    crate::lab::until_pings(&lab.ns("h1"), "10.2.0.3");
    let at = nodes_of_nat(&lab)[0];
    let [to, then] = match at {
        "n1" => ["n2", "n3"],
        "n2" => ["n1", "n3"],
        _ => ["n1", "n2"],
    };
    let stream = Stream::start(&lab, "h1", "h3", "10.2.0.3", 5300, 500);
    let wrong = domain.weir(&["migrate", "office", "nat", "--to", to, "--image", "nat2@3.0"]).fails(1);
    assert!(wrong.contains("has not the version 3.0, but 2.0"), "{wrong}");
    let plan = domain.weir(&["migrate", "office", "nat", "--to", to, "--image", "nat2@2.0", "--plan"]).ok();
    assert!(plan.contains("it would be one of nat2@2.0") && plan.contains("table extra."), "{plan}");
    assert!(!plan.contains("refused"), "{plan}");
    let moved = domain.json(&["migrate", "office", "nat", "--to", to, "--image", "nat2@2.0"]);
    assert_eq!((&moved["dropped"], &moved["missing"]), (&0.into(), &0.into()), "{moved}");
    assert_eq!(moved["image"], "nat2@2.0", "{moved}");
    assert_eq!(nodes_of_nat(&lab), [to]);
    let document = domain.json(&["show", "office"]);
    assert!(document.to_string().contains("nat2"), "{document}");
    // Back to the older version the new tables would be lost: that is said first, and has to be allowed by name.
    let plan = domain.weir(&["migrate", "office", "nat", "--to", then, "--image", "nat", "--plan"]).ok();
    assert!(plan.contains("would be refused unless --leave allows it: the table 'extra."), "{plan}");
    let refused = domain.weir(&["migrate", "office", "nat", "--to", then, "--image", "nat"]).fails(1);
    assert!(refused.contains("'extra."), "{refused}");
    assert_eq!(nodes_of_nat(&lab), [to]);
    let plan = domain.json(&["migrate", "office", "nat", "--to", then, "--image", "nat", "--plan"]);
    let leave: Vec<String> = plan["end"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|t| ["--leave".to_owned(), t.as_str().unwrap().to_owned()])
        .collect();
    let mut command = vec!["migrate", "office", "nat", "--to", then, "--image", "nat"];
    command.extend(leave.iter().map(String::as_str));
    let moved = domain.json(&command);
    assert_eq!((&moved["dropped"], &moved["missing"]), (&0.into(), &0.into()), "{moved}");
    let received = stream.all_came_once();
    assert_eq!(received.account["disordered"], 0, "{}", received.account);
    // One mapping, by which all packets went.
    assert_eq!(received.sources, ["10.2.0.1"]);
    assert_eq!(received.account["endpoints"], 1, "{}", received.account);
    domain.weir(&["delete", "office"]).ok();
    domain.stop_engines();
}

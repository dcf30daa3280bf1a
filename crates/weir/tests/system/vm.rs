//! Virtual machines as functions: QEMU, unmodified, with a small guest that bridges, between real hosts.

use crate::functions::{graph, graph_of, left, one_network};
use crate::lab::{Lab, host, poll, repository, until_pings};
use crate::node::Node;
use crate::processes::{kill, next_daemon, worker};
use crate::traffic::{Stream, big_file, sha256, web_server};

/// The image of a guest that bridges; `more` is about its machine.
fn image(lab: &Lab, more: &str) -> String {
    let image = lab.path("images/guest");
    let script = repository().join("scripts/guest-image").display().to_string();
    host(&[&script, &image]).ok();
    let manifest = format!(
        "name: guest\nkind: vm\nports: [left, right, more]\nparams: [{{name: WORD, type: text, default: none}}]\n\
         vm: {{kernel: vmlinuz, initrd: initrd.gz, arguments: 'console=ttyS0 quiet panic=-1 word=$WORD', memory: 96 MB{more}}}\n"
    );
    std::fs::write(format!("{image}/function.yaml"), manifest).unwrap();
    lab.path("images")
}

#[test]
fn a_virtual_machine_forwards_is_paused_dies_and_outlives_the_daemon() {
    forwards_dies_and_outlives_the_daemon("");
}

#[test]
fn a_virtual_machine_on_interfaces_does_so_too() {
    forwards_dies_and_outlives_the_daemon(", ports: tap");
}

fn forwards_dies_and_outlives_the_daemon(more: &str) {
    let lab = Lab::new(&["client", "node", "server"]);
    let images = image(&lab, more);
    let (client, _server) = one_network(&lab);
    let options = ["--images", &images];
    let node = Node::start_with(&lab, &options);
    node.weir(&["apply", &graph(&lab, "guest", "")]).ok();
    let id = lab.name("g");
    // It takes seconds to start, in software.
    assert!(
        poll(3000, || client.run(&["ping", "-c1", "-W1", "10.0.0.2"]).code == 0),
        "{}",
        node.weir(&["logs", &id, "f"]).ok()
    );
    let log = node.weir(&["logs", &id, "f"]).ok();
    assert!(log.contains("the guest bridges eth1") && !log.contains("Unable to connect"), "{log}");
    let (_, sum) = big_file(&lab, "file", 1_000_000);
    let _web = web_server(&lab, "server", 80, &lab.path(""));
    let got = lab.path("got");
    client.run(&["curl", "-sS", "--max-time", "60", "-o", &got, "http://10.0.0.2/file"]).ok();
    assert_eq!(sha256(&got), sum);
    let status = node.weir(&["--json", "show", &id]).json();
    assert_eq!(status["functions"][0]["engine"], "vm");

    let pid = worker(&lab).unwrap();
    let node = next_daemon(&lab, node, &options);
    // A card more while it runs.
    let text = std::fs::read_to_string(graph_of(&lab, "name: guest")).unwrap();
    let more = lab.write("more.yaml", text.replace("{id: r}]", "{id: r}, {id: m}]"));
    node.weir(&["apply", &more]).ok();
    assert!(poll(1000, || node.weir(&["logs", &id, "f"]).ok().contains("the guest bridges eth2")));
    assert_eq!(worker(&lab), Some(pid), "it was not started again");
    until_pings(&client, "10.0.0.2");
    // And it goes, with rules that do not send to it, while packets pass.
    let stream = Stream::start(&lab, "client", "server", "10.0.0.2", 9000, 100);
    node.weir(&["apply", &graph(&lab, "guest", "")]).ok();
    stream.all_came_once();
    assert_eq!(worker(&lab), Some(pid), "it was not started again");

    kill(pid);
    assert!(poll(500, || worker(&lab).is_some_and(|now| now != pid)));
    assert!(poll(3000, || client.run(&["ping", "-c1", "-W1", "10.0.0.2"]).code == 0));
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

#[test]
fn a_machine_whose_guest_never_takes_its_cards_is_no_function_that_works() {
    let lab = Lab::new(&["client", "node", "server"]);
    one_network(&lab);
    let image = lab.path("images/empty");
    std::fs::create_dir_all(&image).unwrap();
    std::fs::write(format!("{image}/disk"), vec![0; 1 << 20]).unwrap();
    let manifest =
        "name: empty\nkind: vm\nports: [left, right]\nvm: {disk: disk, memory: 64 MB, accelerator: tcg}\n";
    std::fs::write(format!("{image}/function.yaml"), manifest).unwrap();
    let node = Node::start_with(&lab, &["--images", &lab.path("images")]);
    node.weir(&["apply", &graph(&lab, "empty", "")]).ok();
    let id = lab.name("g");
    let degraded = |value: &serde_json::Value| value["state"] == "degraded" && !value["reason"].is_null();
    assert!(poll(200, || {
        let shown = node.weir(&["--json", "show", &id]).json();
        degraded(&shown) && degraded(&shown["functions"][0])
    }));
    assert!(degraded(&node.weir(&["--json", "ps"]).json()[0]));
    assert!(node.weir(&["events"]).ok().contains("device-down"));
    node.weir(&["delete", &id]).ok();
    assert_eq!(left(&lab), Vec::<String>::new());
    node.end();
}

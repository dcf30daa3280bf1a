//! Revisions of graphs: who changed them and why, what changed, and going back, by hand or by itself.

use serde_json::Value;

use crate::domain::{Domain, lab as domain_lab};
use crate::functions::{graph_of, image};
use crate::lab::{Lab, until};
use crate::node::Node;

/// Joins `l` with another access point, of the name of its interface.
fn wire(id: &str, other: &str) -> String {
    format!(
        "id: {id}
name: {id}
saps:
  - {{id: l, type: interface, interface: {{if-name: lan}}}}
  - {{id: {other}, type: interface, interface: {{if-name: {other}}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: 'sap:{other}'}}}}
"
    )
}

fn lab() -> Lab {
    let lab = Lab::new(&["node", "other"]);
    for name in ["lan", "wan", "dmz"] {
        lab.link(("node", name), ("other", name));
    }
    lab
}

/// The revisions of a graph, newest first, each with its message.
fn revisions(node: &Node<'_>, graph: &str) -> Vec<(u64, String)> {
    let history = node.weir(&["--json", "history", graph]).json();
    let revision =
        |r: &Value| (r["revision"].as_u64().unwrap(), r["message"].as_str().unwrap_or_default().to_owned());
    history["revisions"].as_array().unwrap().iter().map(revision).collect()
}

/// The other access point of a graph that runs, and the graph's revision.
fn now(node: &Node<'_>, graph: &str) -> Option<(String, u64)> {
    let shown = node.weir(&["--json", "show", graph, "--document"]);
    let document: Value = serde_json::from_str(&shown.stdout).ok()?;
    let saps = document["sffg"]["saps"].as_array()?.clone();
    let r = saps.iter().find(|s| s["id"] != "l")?["id"].as_str()?.to_owned();
    let list = node.weir(&["--json", "ps"]).json();
    let of = list.as_array()?.iter().find(|g| g["id"] == graph)?["revision"].as_u64()?;
    Some((r, of))
}

#[test]
fn what_was_applied_is_kept_compared_and_applied_again() {
    let lab = lab();
    let node = Node::start_with(&lab, &["--stop-engine", "--revisions", "4"]);
    let apply_at = |node: &Node<'_>, other: &str, options: &[&str]| {
        let file = lab.write("graph.yaml", wire("g", other));
        node.weir(&[&["apply", &file], options].concat())
    };
    let apply = |other: &str, options: &[&str]| apply_at(&node, other, options);
    apply("wan", &["-m", "the first"]).ok();
    apply("dmz", &["-m", "by the other network"]).ok();
    // The same again is no revision.
    assert!(apply("dmz", &["-m", "again"]).ok().contains("unchanged"));
    let kept = |node: &Node<'_>| revisions(node, "g");
    assert_eq!(kept(&node), [(2, "by the other network".into()), (1, "the first".into())]);
    let text = node.weir(&["history", "g"]).ok();
    assert!(text.contains("*2") && text.contains("local") && text.contains("the first"), "{text}");

    let diff = node.weir(&["diff", "g"]).ok();
    assert!(diff.contains("--- revision 1\n+++ revision 2\n"), "{diff}");
    assert!(diff.contains("-      if-name: wan\n") && diff.contains("+      if-name: dmz\n"), "{diff}");
    assert_eq!(node.weir(&["diff", "g", "1", "2"]).ok(), diff);
    assert!(node.weir(&["diff", "g", "2", "2"]).ok().contains("say the same"));
    let wrong = node.weir(&["diff", "g", "7"]).fails(1);
    assert!(wrong.contains("has no revision 7; these are kept: 1, 2"), "{wrong}");

    assert!(node.weir(&["rollback", "g", "-m", "it was better"]).ok().contains("revision 3"));
    assert_eq!(now(&node, "g"), Some(("wan".into(), 3)));
    assert!(node.weir(&["history", "g"]).ok().contains("it was better (as revision 1)"));
    node.weir(&["rollback", "g", "9"]).fails(1);
    assert!(node.weir(&["rollback", "g", "3"]).ok().contains("unchanged"));
    // A text is kept as it was written.
    let written = node.weir(&["show", "g", "--document"]).ok();
    assert_eq!(written, wire("g", "wan"));

    // A change that is refused leaves nothing behind; the oldest go when there are too many.
    apply("none", &["-m", "no such interface"]).fails(1);
    assert_eq!(kept(&node).len(), 3);
    for other in ["dmz", "wan"] {
        apply(other, &[]).ok();
    }
    assert_eq!(kept(&node).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [5, 4, 3, 2]);
    node.end().ok();
    let node = Node::start_with(&lab, &["--stop-engine"]);
    assert_eq!(kept(&node).len(), 4);
    node.weir(&["delete", "g"]).ok();
    node.weir(&["history", "g"]).fails(1);
    apply_at(&node, "dmz", &[]).ok();
    assert_eq!(kept(&node).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1]);
    node.weir(&["rollback", "g"]).fails(1);
    node.end().ok();
}

#[test]
fn a_graph_goes_back_by_itself_unless_it_is_confirmed_also_if_the_daemon_dies() {
    let lab = lab();
    let node = Node::start(&lab);
    let apply = |node: &Node<'_>, other: &str, options: &[&str]| {
        let file = lab.write("g.yaml", wire("g", other));
        node.weir(&[&["apply", &file], options].concat())
    };
    apply(&node, "wan", &[]).ok();
    let wrong = node.weir(&["confirm", "g"]).fails(1);
    assert!(wrong.contains("nothing to confirm"), "{wrong}");

    // Confirmed in time, it stays.
    let said = apply(&node, "dmz", &["--confirm", "1h"]);
    assert!(said.stderr.contains("unless 'weir confirm g' comes"), "{}", said.stderr);
    assert!(node.weir(&["history", "g"]).ok().contains("goes back to 1 at "));
    node.weir(&["confirm", "g"]).ok();
    node.weir(&["confirm", "g"]).fails(1);

    // Not confirmed, it goes back to what was confirmed last, whatever was tried in between.
    apply(&node, "wan", &["--confirm", "1h"]).ok();
    apply(&node, "lo", &["--confirm", "1s", "-m", "a try"]).ok();
    until("the graph to go back", || now(&node, "g") == Some(("dmz".into(), 5)));
    let newest = revisions(&node, "g").remove(0);
    assert_eq!(newest, (5, "revision 4 was not confirmed within 1 s".into()));
    let events = node.weir(&["events", "--graph", "g"]).ok();
    assert!(events.contains("revision 5 runs: revision 4 was not confirmed within 1 s"), "{events}");
    node.weir(&["confirm", "g"]).fails(1);

    // The daemon dies, and the time ends before it is back.
    apply(&node, "wan", &["--confirm", "1s"]).ok();
    node.crash();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let node = Node::start(&lab);
    until("the graph to go back", || now(&node, "g") == Some(("dmz".into(), 7)));

    // A new graph goes altogether.
    node.weir(&["delete", "g"]).ok();
    apply(&node, "wan", &["--confirm", "1s"]).ok();
    until("the graph to go", || node.weir(&["--json", "ps"]).json() == serde_json::json!([]));
    let events = node.weir(&["events", "--graph", "g"]).ok();
    assert!(events.contains("the graph was not there before"), "{events}");

    let file = lab.write("g.yaml", wire("g", "wan"));
    for wrong in ["0s", "2d", "soon"] {
        let said = node.weir(&["apply", &file, "--confirm", wrong]).fails(2);
        assert!(said.contains("give a time from 1s to 86400s"), "{said}");
    }
    let long = "x".repeat(1001);
    assert!(node.weir(&["apply", &file, "-m", &long]).fails(1).contains("at most 1000 are taken"));
    assert!(node.weir(&["apply", &file, "-m", "\u{1b}[2J"]).fails(1).contains("control character"));
    node.weir(&["engine", "--stop", "--socket", &lab.path("engine.sock")]).ok();
}

#[test]
fn secrets_of_revisions_are_not_shown_and_are_what_they_were_when_one_is_applied_again() {
    let lab = lab();
    let params = "params: [{name: KEY, type: text, secret: true}, {name: NAME, type: text}]\n";
    let handlers = "handlers: {length: {access: r}}\nnative: {}\n";
    let length = ("handlers/length", "wc -c < $PARAM_KEY_FILE");
    let images = image(&lab, "vault", &format!("{params}{handlers}"), &[("start", "true"), length]);
    let node = Node::start_with(&lab, &["--stop-engine", "--images", &images]);
    let id = lab.name("g");
    let apply = |key: &str, name: &str| {
        let file = graph_of(&lab, &format!("name: vault, params: {{KEY: '{key}', NAME: {name}}}"));
        node.weir(&["apply", &file]).ok();
    };
    apply("open sesame", "first");
    apply("shut", "second");
    let shown = [
        node.weir(&["diff", &id]).ok(),
        node.weir(&["--json", "diff", &id, "1", "2"]).ok(),
        node.weir(&["--json", "history", &id]).ok(),
        lab.ns("node")
            .run(&["curl", "-sS", &format!("http://127.0.0.1:7400/v1/graphs/{id}/revisions/1")])
            .ok(),
    ];
    for text in &shown {
        assert!(!text.contains("sesame") && !text.contains("shut"), "{text}");
    }
    assert!(shown[0].contains("NAME: second") && shown[3].contains("***"), "{shown:?}");
    let length = || node.weir(&["handler", "read", &id, "f", "length"]).ok().trim().to_owned();
    assert_eq!(length(), "4");
    node.weir(&["rollback", &id]).ok();
    assert_eq!(length(), "11");
    node.weir(&["delete", &id]).ok();
    node.end().ok();
}

#[test]
fn a_domain_keeps_revisions_and_goes_back_as_a_node_does() {
    let lab = domain_lab(false);
    let domain = Domain::start(&lab);
    let _nodes = domain.join_all();
    // From `l` to `wan` only, or in both directions.
    let one = wire("g", "wan");
    let back = "  - {id: b, priority: 1, match: {port_in: 'sap:wan'}, actions: {output_to_port: 'sap:l'}}\n";
    let both = format!("{one}{back}");
    domain.apply(&one, &["--on", "n1", "-m", "first"]).ok();
    domain.apply(&both, &["--on", "n2", "-m", "second"]).ok();
    let history = || domain.weir(&["history", "g"]).ok();
    assert!(history().contains("first") && history().contains("admin"), "{}", history());
    assert!(domain.weir(&["diff", "g"]).ok().contains("+  - id: b\n"));
    domain.weir(&["rollback", "g", "1", "--confirm", "1h"]).ok();
    assert!(history().contains("(as revision 1) [goes back to 2 at "), "{}", history());
    domain.weir(&["confirm", "g"]).ok();
    domain.weir(&["confirm", "g"]).fails(1);

    // It goes back to what it was, where it was.
    domain.weir(&["delete", "g"]).ok();
    domain.apply(&one, &["--on", "n1"]).ok();
    domain.apply(&both, &["--on", "n2", "--confirm", "1s"]).ok();
    let at = |node: &str| domain.ps() == [("g".to_owned(), node.to_owned(), "running".to_owned())];
    until("the graph to go back", || at("n1"));
    assert!(history().contains("*3") && history().contains("not confirmed within 1 s (as revision 1)"));
    // A move to another node is nobody's wish for another document: it changes nothing of when the graph goes back.
    domain.apply(&both, &["--on", "n1", "--confirm", "1h"]).ok();
    domain.weir(&["drain", "n1"]).ok();
    assert!(!at("n1") && history().contains("*5"), "{}", history());
    assert!(history().contains("moved from node 'n1' (as revision 4) [goes back to 3 at "), "{}", history());
    // Of a list that is refused nothing stays, but what was to be confirmed still is.
    let files = [lab.write("one.yaml", &one), lab.write("two.yaml", wire("h", "none"))];
    domain.weir(&["apply", &files[0], &files[1]]).fails(1);
    assert!(history().contains("*7") && history().contains("[goes back to 3 at "), "{}", history());
    // A new one goes.
    domain.weir(&["delete", "g"]).ok();
    domain.weir(&["uncordon", "n1"]).ok();
    domain.apply(&one, &["--confirm", "1s"]).ok();
    until("the graph to go", || domain.ps().is_empty());
    domain.stop_engines();
}

//! Images of a domain: nodes that are away get and lose them when they are back.

use crate::domain::{CONTROLLER, Domain, NODES, lab};
use crate::lab::{Lab, until};

/// An image with a handler of this name.
fn manifest(name: &str, handler: &str) -> String {
    format!(
        "name: {name}\nports: [a]\nhandlers: {{{handler}: c.count}}\nclick: in_0 -> c::Counter -> out_0;\n"
    )
}

/// Asks the controller for something about an image; the answer's status.
fn ask(lab: &Lab, domain: &Domain<'_>, name: &str, options: &[&str]) -> String {
    let login = format!("Authorization: Bearer {}", domain.token());
    let url = format!("{CONTROLLER}/v1/images/{name}");
    let curl = ["curl", "-sSk", "-o", "/dev/null", "-w", "%{http_code}", "-H", &login, &url];
    lab.ns("control").run(&[&curl[..], options].concat()).ok()
}

fn put(lab: &Lab, domain: &Domain<'_>, name: &str, handler: &str) {
    let body = manifest(name, handler);
    assert_eq!(ask(lab, domain, name, &["-X", "PUT", "--data-binary", &body]), "200");
}

/// The handler of an image, if the node says itself that it has the image.
fn handler(lab: &Lab, node: &str, name: &str) -> Option<String> {
    let url = format!("http://127.0.0.1:7400/v1/images/{name}");
    let image = lab.ns(node).run(&["curl", "-sS", &url]).json();
    image["handlers"][0]["name"].as_str().map(str::to_owned)
}

#[test]
fn an_image_that_was_removed_while_a_node_was_away_goes_when_it_is_back() {
    let lab = lab(false);
    let mut domain = Domain::start(&lab);
    let mut nodes = domain.join_all();
    for name in ["kept", "again", "gone"] {
        put(&lab, &domain, name, "first");
        assert!(NODES.iter().all(|n| handler(&lab, n, name).as_deref() == Some("first")), "{name}");
    }
    nodes[2].kill();
    until("n3 is away", || !domain.is_online("n3"));
    for name in ["again", "gone"] {
        assert_eq!(ask(&lab, &domain, name, &["-X", "DELETE"]), "204");
        assert!(NODES[..2].iter().all(|n| handler(&lab, n, name).is_none()), "{name}");
    }
    put(&lab, &domain, "again", "second");
    put(&lab, &domain, "late", "second");
    // The controller knows it after a start of its own, too.
    domain.restart(&[]);
    nodes[2] = domain.node("n3", None);
    until("n3 is back", || domain.is_online("n3"));
    until("n3 has no image that was removed", || handler(&lab, "n3", "gone").is_none());
    until("n3 has what was added", || handler(&lab, "n3", "late").is_some());
    // What was removed and added again stays, as it is at the others.
    for (name, wanted) in [("kept", "first"), ("again", "second"), ("late", "second")] {
        assert!(NODES.iter().all(|n| handler(&lab, n, name).as_deref() == Some(wanted)), "{name}");
    }
    domain.stop_engines();
}

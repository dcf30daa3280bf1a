//! The REST interface under Schemathesis, which makes requests of the OpenAPI description: right ones, and wrong ones.

use crate::lab::{Lab, repository, until};
use crate::node::Node;

/// Operations whose bodies are whole documents: of each value at an edge there are too many.
const DOCUMENTS: [&str; 4] = ["create", "put", "put_list", "plan"];

/// Runs Schemathesis in a namespace of a lab; it has to find nothing.
fn schemathesis(lab: &Lab, namespace: &str, url: &str, options: &[&str]) {
    let st = repository().join("target/schemathesis/bin/st");
    assert!(st.exists(), "scripts/setup.sh installs Schemathesis into {}", st.display());
    let config = repository().join("crates/weir/tests/system/schemathesis.toml");
    let all = [
        // It keeps what it found where it runs.
        "env",
        "-C",
        &lab.path(""),
        st.to_str().unwrap(),
        "--config-file",
        config.to_str().unwrap(),
        "run",
        url,
        // Traces, captures and events have no end.
        "--exclude-path-regex",
        "(events|trace|capture)$",
        "--checks",
        "all",
        // Which mistakes a schema cannot tell, such as references that lead nowhere, a test of weir-model says.
        "--exclude-checks",
        "positive_data_acceptance",
        "--seed",
        "1",
        "--generation-database",
        "none",
        "--no-color",
    ];
    let out = lab.ns(namespace).run(&[&all, options].concat());
    // It describes a failure at length.
    assert_eq!(out.code, 0, "{}", out.stdout.chars().take(20_000).collect::<String>());
}

#[test]
fn rest_does_what_its_description_says() {
    let lab = Lab::new(&["node"]);
    let node = Node::start(&lab);
    let run = |options: &[&str]| schemathesis(&lab, "node", "http://127.0.0.1:7400/v1/openapi.json", options);
    // Each value at the edge of what is allowed.
    let documents = DOCUMENTS.map(|id| ["--exclude-operation-id", id]);
    run(&[&["--phases", "coverage"], documents.as_flattened()].concat());
    run(&["--phases", "fuzzing", "--max-examples", "10"]);
    node.weir(&["ps"]).ok();
}

#[test]
fn a_controllers_rest_does_what_its_description_says() {
    let lab = Lab::new(&["control"]);
    let (store, listen) = (lab.path("controller.db"), "127.0.0.1:7443");
    let offer = crate::requests::offer(&lab);
    let command = ["controller", "--listen", listen, "--store", &store, "--requests", &offer];
    let controller = lab.ns("control").spawn_weir(&command);
    until("the controller", || controller.stderr().contains("the controller listens"));
    let text = controller.stderr();
    let token = text.split_once("admin token: ").unwrap().1.split_whitespace().next().unwrap();
    let login = format!("Authorization: Bearer {token}");
    let documents = DOCUMENTS.map(|id| ["--exclude-operation-id", id]);
    let options = ["--tls-verify", "false", "-H", &login, "--phases", "coverage"];
    let url = format!("https://{listen}/v1/openapi.json");
    schemathesis(&lab, "control", &url, &[&options, documents.as_flattened()].concat());
}

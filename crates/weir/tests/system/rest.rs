//! The REST interface under Schemathesis, which makes requests of the OpenAPI description: right ones, and wrong ones.

use crate::lab::{Lab, repository};
use crate::node::Node;

#[test]
fn rest_does_what_its_description_says() {
    let lab = Lab::new(&["node"]);
    let node = Node::start(&lab);
    let st = repository().join("target/schemathesis/bin/st");
    assert!(st.exists(), "scripts/setup.sh installs Schemathesis into {}", st.display());
    let config = repository().join("crates/weir/tests/system/schemathesis.toml");
    let run = |options: &[&str]| {
        let all = [
            // It keeps what it found where it runs.
            "env",
            "-C",
            &lab.path(""),
            st.to_str().unwrap(),
            "--config-file",
            config.to_str().unwrap(),
            "run",
            "http://127.0.0.1:7400/v1/openapi.json",
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
        let out = lab.ns("node").run(&[&all, options].concat());
        // It tells a failure at length.
        assert_eq!(out.code, 0, "{}", out.stdout.chars().take(20_000).collect::<String>());
    };
    // Each value at the edge of what is allowed; of whole documents there are too many.
    let documents = ["create", "put", "put_list", "plan"].map(|id| ["--exclude-operation-id", id]);
    run(&[&["--phases", "coverage"], documents.as_flattened()].concat());
    run(&["--phases", "fuzzing", "--max-examples", "10"]);
    node.weir(&["ps"]).ok();
}

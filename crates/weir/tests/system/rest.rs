//! The REST interface under Schemathesis, which makes requests of the OpenAPI description: right ones, and wrong ones.

use crate::lab::{Lab, repository};
use crate::node::Node;

#[test]
fn rest_does_what_its_description_says() {
    let lab = Lab::new(&["node"]);
    let node = Node::start(&lab);
    let st = repository().join("target/schemathesis/bin/st");
    assert!(st.exists(), "scripts/setup.sh installs Schemathesis into {}", st.display());
    let run = |options: &[&str]| {
        let all = [
            st.to_str().unwrap(),
            "--config-file",
            "crates/weir/tests/system/schemathesis.toml",
            "run",
            "http://127.0.0.1:7400/openapi.json",
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
    run(&["--phases", "coverage", "--exclude-operation-id-regex", "^(create|put|put_list|plan)$"]);
    run(&["--phases", "fuzzing", "--max-examples", "20"]);
    node.weir(&["ps"]).ok();
}

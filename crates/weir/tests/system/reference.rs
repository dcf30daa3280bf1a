//! What the element reference says is true.

use crate::lab::{Lab, Output, PYTHON, WEIR, host, weir};

/// The examples of a manual page.
fn examples(manual: &str) -> Vec<String> {
    manual
        .split("```click\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_example_of_every_element_loads() {
    let list = weir(&["--json", "elements"]).json();
    let names: Vec<&str> = list.as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert!(names.len() > 50, "{names:?}");
    let mut wrong = Vec::new();
    // Some examples write files.
    let lab = Lab::new(&[]);
    let directory = lab.path("");
    for name in names {
        let page = weir(&["--json", "elements", name]).json();
        let examples = examples(page["manual"].as_str().unwrap());
        if examples.is_empty() {
            wrong.push(format!("{name} has no example"));
        }
        for example in examples {
            if !example.contains(name) {
                wrong.push(format!("{name}: its example does not show it:\n{example}"));
            }
            let Output { code, stderr, .. } =
                host(&["env", "-C", &directory, WEIR, "run", "--quit", "-e", &example]);
            // An example may speak of an interface or an address that this machine does not have.
            if code != 0
                && !stderr.contains("there is no interface")
                && !stderr.contains("is no address of this host")
                && !stderr.contains("cannot open the capture")
            {
                wrong.push(format!("{name}:\n{example}{stderr}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_examples_of_the_repository_load() {
    for file in ["examples/firewall-nat.click", "examples/firewall-nat.yaml"] {
        let out = weir(&["check", file]).ok();
        assert!(out.contains(&format!("{file}: ok")), "{out}");
    }
}

#[test]
fn a_closed_pipe_ends_a_listing_quietly() {
    let read_one = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE); \
                    p.stdout.close(); e = p.stderr.read(); sys.stderr.buffer.write(e); sys.exit(p.wait())";
    let o = host(&[PYTHON, "-c", read_one, WEIR, "elements"]);
    assert_eq!((o.code, o.stderr.as_str()), (0, ""));
}

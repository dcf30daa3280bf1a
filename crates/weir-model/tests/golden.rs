//! Golden tests of errors: `bad/NAME.json`, `.yaml`, `.template.yaml`, `.requirement` or `.request` in, `bad/NAME.….errors` out.
//! `BLESS=1 cargo test -p weir-model --test golden` writes what comes out now; read the difference before committing it.

use std::fmt::Write;
use std::path::Path;

use weir_model::graph::ServiceGraph;
use weir_model::request::Request;
use weir_model::requirement::Requirement;
use weir_model::template::Template;

/// All errors of a document.
fn errors(name: &str, text: &str) -> String {
    let mut out = String::new();
    if name.ends_with(".requirement") {
        writeln!(out, "{}", Requirement::parse_all(text).expect_err(name)).unwrap();
    } else if name.ends_with(".request") {
        writeln!(out, "{}", Request::parse(text).expect_err(name)).unwrap();
    } else if name.ends_with(".template.yaml") {
        writeln!(out, "{}", Template::parse(text).expect_err(name)).unwrap();
    } else {
        writeln!(out, "{}", ServiceGraph::parse(text).expect_err(name)).unwrap();
    }
    out
}

#[test]
fn errors_say_what_was_wrong_where_and_what_would_be_right() {
    let bless = std::env::var_os("BLESS").is_some();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| !n.ends_with(".errors"))
        .collect();
    names.sort();
    assert!(names.len() > 10);
    let mut failures = String::new();
    for name in names {
        let found = errors(&name, &std::fs::read_to_string(dir.join(&name)).unwrap());
        let golden = dir.join(format!("{name}.errors"));
        if bless {
            std::fs::write(&golden, found).unwrap();
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != found {
            writeln!(failures, "--- {name}:\n{found}").unwrap();
        }
    }
    assert!(failures.is_empty(), "these differ from their .errors files:\n{failures}");
}

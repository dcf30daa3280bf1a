//! Runs the cases in `tests/cases/*.txt`: a configuration and what becomes of it, its flat form or its errors.
//!
//! A case is `=== title`, the text, `---`, the result. `[kinds]` in the title adds the ports' kinds to the result,
//! `[full]` shows errors with the line of the text. `BLESS=1 cargo test -p weir-click` writes the results that the
//! code gives; read the difference before you keep it.

mod common;

use std::fmt::Write;
use std::path::Path;

use weir_click::{Graph, Kind, parse};

struct Case {
    title: String,
    input: String,
    expected: String,
}

fn read_cases(text: &str) -> Vec<Case> {
    text.split("=== ")
        .skip(1)
        .map(|part| {
            let (title, rest) = part.split_once('\n').expect("a title ends its line");
            let (input, expected) = rest.split_once("---\n").expect("a case has a line ---");
            Case { title: title.into(), input: input.into(), expected: expected.trim_end().into() }
        })
        .collect()
}

fn run(case: &Case) -> String {
    let mut out = String::new();
    match parse("f", &case.input, &common::Classes) {
        Ok(graph) => {
            out.push_str(&graph.to_string());
            if case.title.contains("[kinds]") {
                out.push_str(&kinds(&graph));
            }
            let again = parse("flat", &graph.to_string(), &common::Classes);
            assert_eq!(
                again.as_ref(),
                Ok(&graph),
                "the flat form of '{}' parses to the same graph",
                case.title
            );
        }
        Err(errors) if case.title.contains("[full]") => write!(out, "{errors}").unwrap(),
        Err(errors) => {
            for error in &errors.list {
                writeln!(out, "{}", error.brief()).unwrap();
            }
        }
    }
    out.trim_end().to_string()
}

fn kinds(graph: &Graph) -> String {
    let letters = |kinds: &[Kind]| -> String {
        kinds.iter().map(|k| if *k == Kind::Push { 'h' } else { 'l' }).collect()
    };
    let mut out = String::from("\n");
    for (element, ports) in graph.elements.iter().zip(&graph.ports) {
        writeln!(out, "// {} {}/{}", element.name, letters(&ports.inputs), letters(&ports.outputs)).unwrap();
    }
    out
}

#[test]
fn cases() {
    let bless = std::env::var_os("BLESS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut failures = String::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut blessed = String::new();
        for case in read_cases(&text) {
            count += 1;
            let result = run(&case);
            if result != case.expected {
                let file = path.display();
                write!(
                    failures,
                    "{file}: {}\n{}---\n{result}\nexpected:\n{}\n\n",
                    case.title, case.input, case.expected
                )
                .unwrap();
            }
            write!(blessed, "=== {}\n{}---\n{result}\n\n", case.title, case.input).unwrap();
        }
        if bless {
            std::fs::write(&path, format!("{}\n", blessed.trim_end())).unwrap();
        }
    }
    assert!(count > 50, "only {count} cases found");
    assert!(bless || failures.is_empty(), "{failures}");
}

//! The examples of the user manual are read, and mean what it says; its tables of fields are those of the schemas. `BLESS=1` renews
//! the tables.

use std::path::Path;

use weir_model::graph::ServiceGraph;
use weir_model::request::Request;
use weir_model::requirement::{HeaderField, Requirement};
use weir_model::schema::Document;
use weir_model::template::Template;

const MANUAL: &str = include_str!("../../../docs/requirements.md");

/// The fenced blocks of one language.
fn blocks(language: &str) -> Vec<String> {
    blocks_of(MANUAL, language)
}

fn blocks_of(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(found)) => open = Some((found == language, String::new())),
            (Some(_), Some(_)) => {
                blocks.extend(open.take().filter(|(wanted, _)| *wanted).map(|(_, text)| text));
            }
            (Some((_, text)), None) => text.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    assert!(open.is_none() && !blocks.is_empty(), "{language}");
    blocks
}

#[test]
fn requirements_are_read() {
    for block in blocks("requirements") {
        let all = Requirement::parse_all(&block).unwrap_or_else(|e| panic!("{block}\n{e}"));
        assert_eq!(all.len(), block.lines().count());
    }
}

#[test]
fn mistakes_have_these_messages() {
    let block = blocks("mistakes").remove(0);
    let lines: Vec<&str> = block.lines().collect();
    for pair in lines.chunks(2) {
        let [line, message] = pair else { panic!("{pair:?}") };
        assert_eq!(Requirement::parse(line).expect_err(line).to_string(), message.trim());
    }
}

#[test]
fn requests_are_read() {
    let requests: Vec<Request> =
        blocks("request").iter().map(|b| Request::parse(b).unwrap_or_else(|e| panic!("{b}\n{e}"))).collect();
    let counts: Vec<_> =
        requests.iter().map(|r| (r.modules.len(), r.links.len(), r.requirements.len())).collect();
    assert_eq!(counts, [(1, 0, 1), (2, 1, 2)]);
}

#[test]
fn every_field_is_named() {
    let manual = MANUAL.split_whitespace().collect::<Vec<_>>().join(" ");
    for field in HeaderField::all() {
        assert!(manual.contains(&format!("`{field}`")), "{field}");
    }
}

/// What the schema of a kind of document refuses of a text that was read.
fn refused(document: Document, text: &str) -> Vec<String> {
    let value: serde_json::Value = serde_yaml_ng::from_str(text).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let validator = jsonschema::validator_for(&document.json_schema()).unwrap();
    validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

#[test]
fn schemas_take_the_manuals_documents_and_refuse_unknown_fields() {
    let mut all: Vec<(Document, String)> = Vec::new();
    for (page, document) in pages() {
        all.extend(blocks_of(&page, "yaml").into_iter().map(|b| (document, b)));
    }
    assert!(all.len() >= pages().len());
    for (document, text) in all {
        assert_eq!(refused(document, &text), Vec::<String>::new(), "{text}");
        let more = format!("{text}\nnothing-like-this: 1\n");
        assert!(!refused(document, &more).is_empty(), "{more}");
    }
}

fn path(page: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)
}

fn pages() -> Vec<(String, Document)> {
    let read = |page| std::fs::read_to_string(path(page)).unwrap();
    vec![(read("service-graph.md"), Document::Graph), (read("function.md"), Document::Function)]
}

#[test]
fn examples_of_graphs_and_functions_are_read() {
    for (page, document) in pages() {
        for block in blocks_of(&page, "yaml") {
            match document {
                Document::Graph => {
                    drop(ServiceGraph::parse(&block).unwrap_or_else(|e| panic!("{block}\n{e}")));
                }
                _ => drop(Template::parse(&block).unwrap_or_else(|e| panic!("{block}\n{e}"))),
            }
        }
    }
}

#[test]
fn tables_of_fields_are_up_to_date() {
    for (name, document) in [("service-graph.md", Document::Graph), ("function.md", Document::Function)] {
        let page = std::fs::read_to_string(path(name)).unwrap();
        let begin = "<!-- generated: BLESS=1 cargo test -p weir-model --test manual -->\n";
        let (before, rest) = page.split_once(begin).unwrap();
        let (found, after) = rest.split_once("<!-- end -->").unwrap();
        let wanted = format!("\n{}", document.tables());
        if std::env::var_os("BLESS").is_some_and(|v| v == "1") {
            std::fs::write(path(name), format!("{before}{begin}{wanted}<!-- end -->{after}")).unwrap();
            continue;
        }
        assert!(
            found == wanted,
            "docs/{name} differs from the schema; run: BLESS=1 cargo test -p weir-model --test manual"
        );
    }
}

//! The topologies of the user manual are read, and its schema takes them.

use weir_topology::{Policy, Topology};

const MANUAL: &str = include_str!("../../../docs/requirements.md");

/// The fenced blocks of one language.
fn blocks(language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in MANUAL.lines() {
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
fn imported_networks_are_read() {
    let block = blocks("imports").remove(0);
    let rule = |action: &str, from: u32, to: u32| {
        format!("{action}$[{from}]$xxxxxxxx$None$None$None$None$[{to}]$#$#$\n")
    };
    let read = |name: &str| {
        let rules = match name {
            "bbra_rtr.tf" => rule("fwd", 100_009, 120_001),
            "boza_rtr.tf" => rule("fwd", 300_001, 320_013),
            _ => rule("link", 120_001, 300_001),
        };
        Ok(format!("2$r$1$0$0$\n#\n{rules}"))
    };
    let t = Topology::parse_with(&block, &mut |name| read(name)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(t.links[0].to_string(), "bbra:100001 -> boza:300001");
}

#[test]
fn topologies_are_read() {
    for block in blocks("yaml") {
        Topology::parse(&block).unwrap_or_else(|e| panic!("{block}\n{e}"));
    }
}

#[test]
fn the_policy_is_the_default() {
    let text = format!("boxes: {{}}\n{}", blocks("policy").remove(0));
    let topology = Topology::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(topology.policy, Policy::default());
}

#[test]
fn every_kind_is_named() {
    let manual = MANUAL.split_whitespace().collect::<Vec<_>>().join(" ");
    let kinds = Topology::parse("boxes: {a: {kind: x}}").unwrap_err().to_string();
    let (_, kinds) = kinds.split_once("known here: ").unwrap();
    for kind in kinds.split(", ") {
        assert!(manual.contains(&format!("`{kind}`")), "{kind}");
    }
}

#[test]
fn the_schema_takes_the_manuals_topologies_and_refuses_unknown_fields() {
    let validator = jsonschema::validator_for(&Topology::json_schema()).unwrap();
    let refused = |text: &str| {
        let value: serde_json::Value =
            serde_yaml_ng::from_str(text).unwrap_or_else(|e| panic!("{text}\n{e}"));
        validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect::<Vec<_>>()
    };
    let topologies = blocks("yaml")
        .into_iter()
        .map(|b| if b.starts_with("version") { b } else { format!("name: x\n{b}") });
    let mut all: Vec<String> = topologies.collect();
    all.push(format!("boxes: {{}}\n{}", blocks("policy").remove(0)));
    all.push(blocks("imports").remove(0));
    for text in all {
        assert_eq!(refused(&text), Vec::<String>::new(), "{text}");
        let more = format!("{text}\nnothing-like-this: 1\n");
        assert!(!refused(&more).is_empty(), "{more}");
    }
}

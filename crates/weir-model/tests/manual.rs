//! The examples of the user manual `docs/requirements.md` are read, and mean what it says.

use weir_model::request::Request;
use weir_model::requirement::{HeaderField, Requirement};
use weir_model::topology::{Policy, Topology};

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
fn every_field_and_kind_is_named() {
    let manual = MANUAL.split_whitespace().collect::<Vec<_>>().join(" ");
    for field in HeaderField::all() {
        assert!(manual.contains(&format!("`{field}`")), "{field}");
    }
    let kinds = Topology::parse("boxes: {a: {kind: x}}").unwrap_err().to_string();
    let (_, kinds) = kinds.split_once("known here: ").unwrap();
    for kind in kinds.split(", ") {
        assert!(manual.contains(&format!("`{kind}`")), "{kind}");
    }
}

//! Documents that must be read: the paper's figures, every field of the format, round trips, the JSON Schema.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_filter::PacketView;
use weir_model::graph::{
    GraphParts, MAX_FUNCTIONS, MAX_RULES, PortRef, SapKind, ServiceGraph, sffg_json_schema,
};
use weir_model::template::Template;

fn good() -> Vec<(PathBuf, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/good");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|p| (p.clone(), std::fs::read_to_string(p).unwrap())).collect()
}

fn read(name: &str) -> ServiceGraph {
    let (_, text) = good().into_iter().find(|(p, _)| p.ends_with(name)).unwrap();
    ServiceGraph::parse(&text).unwrap_or_else(|e| panic!("{name}:\n{e}"))
}

#[test]
fn the_papers_figures_are_read_and_written_as_printed() {
    let graph = read("figure-4.json");
    assert_eq!(graph.functions[0].ports[0].name.as_ref().unwrap().as_str(), "internal port");
    let SapKind::Vlan { vlan } = &graph.saps[1].kind else { panic!("{:?}", graph.saps[1]) };
    assert_eq!((vlan.vlan_id.get(), vlan.if_name.as_ref().unwrap().as_str()), (25, "eth1"));
    let SapKind::Gre { gre } = &graph.saps[2].kind else { panic!("{:?}", graph.saps[2]) };
    assert_eq!(gre.gre_key, Some(1));
    let (_, text) = good().into_iter().find(|(p, _)| p.ends_with("figure-4.json")).unwrap();
    assert_eq!(graph.to_json(), serde_json::from_str::<Value>(&text).unwrap());
}

#[test]
fn friendlier_spellings_mean_the_same() {
    assert_eq!(read("figure-4.yaml"), read("figure-4.json"));
}

#[test]
fn every_field_is_read() {
    let graph = read("everything.yaml");
    let rule = &graph.flowrules[0];
    let outputs: Vec<String> = rule.actions.output_to_port.iter().map(PortRef::to_string).collect();
    assert_eq!(outputs, ["sf:fw:in", "sf:nat:in", "sap:host"]);
    assert_eq!(
        rule.matches.expr().to_string(),
        "ether src host 02:00:00:00:00:01 and ether dst host ff:ff:ff:ff:ff:ff and tags all (ip and ip src net 10.0.0.0/8 \
         and ip dst host 192.0.2.1 and tcp and ip dscp 10 and tcp src port 1024-65535 and tcp dst port 80 \
         and tcp transp[13] & 0x12 == 2) and not ip frag and ip ttl > 1 and not vlan"
    );
    let canonical = graph.to_json();
    let actions = serde_json::to_string(&canonical["sffg"]["flowrules"][0]["actions"]["push_vlan"]).unwrap();
    assert_eq!(actions, "30");
    assert_eq!(canonical["sffg"]["SFs"][0]["handlers"][1]["value"], "192.168.0.0/16");
    assert_eq!(canonical["sffg"]["SFs"][0]["params"]["VERSION"], "1");
    assert_eq!(canonical["sffg"]["SFs"][0]["params"]["LIMIT"], 1000);
}

#[test]
fn the_canonical_form_reads_back_in_json_yaml_and_serde() {
    for (path, text) in good() {
        let graph = ServiceGraph::parse(&text).unwrap();
        let canonical = graph.to_json();
        let pretty = serde_json::to_string_pretty(&canonical).unwrap();
        assert_eq!(ServiceGraph::from_json(&pretty).unwrap(), graph, "{path:?}");
        assert_eq!(ServiceGraph::from_yaml(&pretty).unwrap(), graph, "{path:?}");
        assert_eq!(
            serde_json::from_value::<ServiceGraph>(canonical["sffg"].clone()).unwrap(),
            graph,
            "{path:?}"
        );
        assert_eq!(ServiceGraph::from_parts(&graph.clone().into_parts()).unwrap(), graph, "{path:?}");
    }
}

#[test]
fn parts_are_checked_when_they_become_a_graph() {
    let mut parts: GraphParts = read("figure-4.json").into_parts();
    parts.saps.remove(0);
    let errors = ServiceGraph::from_parts(&parts).unwrap_err();
    assert_eq!(errors.errors()[0].path, "flowrules[0].match.port_in");
}

/// A document as the schema sees it: YAML scalars become JSON ones.
fn yaml_as_json(text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap()
}

#[test]
fn the_schema_accepts_what_is_read_and_refuses_what_is_not() {
    let schema = sffg_json_schema();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let check = |value: &Value, what: &str| {
        let errors: Vec<String> =
            validator.iter_errors(value).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{what}: {errors:#?}");
    };
    for (path, text) in good() {
        let name = path.display().to_string();
        check(&ServiceGraph::parse(&text).unwrap().to_json(), &format!("canonical form of {name}"));
        if name.ends_with(".json") {
            check(&serde_json::from_str(&text).unwrap(), &name);
        } else {
            check(&yaml_as_json(&text), &name);
        }
    }
    let figure = read("figure-4.json").to_json();
    for (pointer, value) in [
        ("/sffg/flowrules/0/priority", Value::from(70_000)),
        ("/sffg/flowrules/0/match/port_in", Value::from("eth1")),
        ("/sffg/flowrules/0/match", serde_json::json!({ "port_in": "sap:1", "ip_source": "10.0.0.1" })),
        ("/sffg/saps/0/type", Value::from("bridge")),
        ("/sffg/saps/0/interface", serde_json::json!({ "name": "eth1" })),
        ("/sffg/SFs/0", serde_json::json!({ "name": "no identifier" })),
    ] {
        let mut wrong = figure.clone();
        *wrong.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&wrong), "{pointer}");
    }
}

/// All places in a document.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| pointers(v, &format!("{at}/{k}"), found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| pointers(v, &format!("{at}/{i}"), found));
        }
        _ => {}
    }
}

/// What may stand in a document's place by mistake, or by another spelling.
fn others() -> Vec<Value> {
    let text = ["", " ", "x", "a b", "a:b", "a/b", "\u{7}", "\u{a0}", "true", "80", "0x50", "-1", "1.5", "."];
    let mut others: Vec<Value> = text.map(Value::from).to_vec();
    others.extend(["a".repeat(65), "a".repeat(129)].map(Value::from));
    others.extend([
        json!(null),
        json!(true),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(80.0),
        json!(70_000),
        json!(5_000),
    ]);
    others.extend([json!([]), json!({}), json!([1]), json!({ "x": 1 })]);
    others
}

/// Mistakes that a schema cannot find: they depend on other parts of the document, or on a grammar.
const BEYOND_SCHEMAS: &[&str] = &[
    "no service access point is",
    "no function is",
    "no port of the function",
    "a second ",
    "requirement",
    "the packet goes nowhere",
    "filter",
    // Numbers as text, and words that only look like names.
    "is out of range",
    "is not an EtherType",
    "expected a protocol",
    "is not a port or range",
    "go with a protocol",
    "go with ICMP",
];

#[test]
fn the_schema_takes_each_document_that_the_reader_takes() {
    let validator = jsonschema::draft202012::new(&sffg_json_schema()).unwrap();
    let mut missed = Vec::new();
    let mut tried = 0;
    for (_, text) in good() {
        let document = ServiceGraph::parse(&text).unwrap().to_json();
        let mut places = Vec::new();
        pointers(&document, "", &mut places);
        for (place, other) in places.iter().flat_map(|p| others().into_iter().map(move |o| (p, o))) {
            let mut changed = document.clone();
            *changed.pointer_mut(place).unwrap() = other.clone();
            tried += 1;
            let read = ServiceGraph::from_json(&changed.to_string());
            let valid = validator.is_valid(&changed);
            match read {
                Ok(_) if !valid => {
                    missed.push(format!("{place}: {other} is read, and the schema refuses it"));
                }
                Err(e) if valid => {
                    let beyond = |m: &str| BEYOND_SCHEMAS.iter().any(|b| m.contains(b));
                    if !beyond(&e.to_string()) {
                        missed.push(format!("{place}: {other} is taken by the schema, but: {e}"));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(missed.is_empty(), "{} of {tried}:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn limits_are_kept() {
    let sf = |i: usize| format!(r#"{{"id": {i}, "name": "f"}}"#);
    let with = |n: usize| {
        format!(r#"{{"id": 1, "name": "g", "SFs": [{}]}}"#, (0..n).map(sf).collect::<Vec<_>>().join(","))
    };
    assert!(ServiceGraph::from_json(&with(MAX_FUNCTIONS)).is_ok());
    let errors = ServiceGraph::from_json(&with(MAX_FUNCTIONS + 1)).unwrap_err();
    assert_eq!(errors.to_string(), "SFs (line 1, column 31): 1001 functions; at most 1000 are allowed");
    let rules = vec!["0"; MAX_RULES + 1].join(",");
    let errors =
        ServiceGraph::from_json(&format!(r#"{{"id": 1, "name": "g", "flowrules": [{rules}]}}"#)).unwrap_err();
    assert!(errors.to_string().contains("at most 100000"), "{errors}");
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("- ", "")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(ServiceGraph::from_json(&deep).is_err() && ServiceGraph::from_yaml(&deep).is_err());
    }
    let unknown: Vec<String> = (0..50_000).map(|i| format!(r#""flow_rule_{i}": 1"#)).collect();
    assert!(ServiceGraph::from_json(&format!("{{{}}}", unknown.join(","))).is_err());
    // As many errors as rules, but only so many are reported.
    let rules = vec!["0"; MAX_RULES].join(",");
    let errors =
        ServiceGraph::from_json(&format!(r#"{{"id": 1, "name": "g", "flowrules": [{rules}]}}"#)).unwrap_err();
    assert_eq!(errors.errors().len(), weir_model::DocErrors::MAX);
}

#[test]
fn a_match_means_its_fields() {
    let graph = read("everything.yaml");
    let icmp = graph.flowrules[1].matches.expr();
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 8, 0];
    assert!(icmp.matches(&PacketView::ip(&packet)));
    packet[20] = 0;
    assert!(!icmp.matches(&PacketView::ip(&packet)));
}

#[test]
fn templates_load_from_directories() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "function.yaml",
        "name: wire\nports: [a, b]\nparams: [{name: LIMIT, type: int, min: 1, max: 9, default: 5}, {name: PEER, type: ip}]\n",
    );
    let error = Template::load(dir.path()).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("function.click"), "{error:?}");
    write("function.click", "in_0 -> out_1; in_1 -> out_0;");
    let template = Template::load(dir.path()).unwrap();
    assert!(template.click().unwrap().text.starts_with("in_0"));
    // A template that was written out is one document.
    let text = serde_json::to_string(&template).unwrap();
    assert_eq!(Template::parse(&text).unwrap(), template);

    let given = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let params = |json: &str| {
        let graph = serde_json::json!({ "id": 1, "name": "g", "SFs": [{ "id": 1, "name": "wire", "params": given(json) }] });
        serde_json::from_value::<ServiceGraph>(graph).unwrap().functions[0].params.clone()
    };
    let arguments = template.arguments(&params(r#"{"PEER": "10.0.0.1"}"#)).unwrap();
    assert_eq!((arguments["LIMIT"].as_str(), arguments["PEER"].as_str()), ("5", "10.0.0.1"));
    let errors = template.arguments(&params(r#"{"PER": "x", "LIMIT": "many"}"#)).unwrap_err();
    let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "wire has no parameter \"PER\"; did you mean \"PEER\"?",
            "parameter LIMIT: found \"many\"; expected a whole number",
            "wire needs the parameter PEER; give it a value in \"params\"",
        ]
    );

    let errors = template.arguments(&params(r#"{"PEER": "10.0.0.1", "LIMIT": 10}"#)).unwrap_err();
    assert_eq!(errors[0].to_string(), "parameter LIMIT: found 10; expected a whole number from 1 to 9");
    for (bounds, words) in
        [("min: 5, max: 4", "above"), ("min: 5, default: 4", "from 5 on"), ("max: many", "no whole number")]
    {
        let text = format!("name: w\nports: []\nparams: [{{name: N, type: int, {bounds}}}]\nclick: x;\n");
        assert!(Template::parse(&text).unwrap_err().to_string().contains(words), "{bounds}");
    }
    let text = "name: w\nports: []\nparams: [{name: N, type: text, max: 4}]\nclick: x;\n";
    assert!(Template::parse(text).unwrap_err().to_string().contains("only a parameter of type int"));

    write("function.click", &" ".repeat((1 << 20) + 1));
    let error = Template::load(dir.path()).unwrap_err();
    assert!(
        std::error::Error::source(&error).unwrap().to_string().contains("more than 1048576"),
        "{error:?}"
    );
    std::fs::remove_file(dir.path().join("function.click")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("function.click")).unwrap();
    assert!(Template::load(dir.path()).is_err());
}

//! Properties: what is written reads back the same, no text makes a reader panic.

use proptest::prelude::*;
use weir_model::graph::ServiceGraph;
use weir_model::template::Template;

/// A graph as a document, with friendly spellings, without mistakes.
fn graph() -> impl Strategy<Value = serde_json::Value> {
    let rule = (
        0u16..,
        any::<u32>(),
        0u8..33,
        1u16..4095,
        any::<[u16; 2]>(),
        any::<bool>(),
        prop::sample::select(vec!["true", "tcp port 80", "not (udp or icmp)", "ip[1] & 3 == 1"]),
        prop::bool::ANY,
    );
    let name = "[a-z \"'\\\\:#é]{0,8}[a-z]";
    (name, prop::collection::vec(name, 1..4), prop::collection::vec(rule, 0..6)).prop_map(|(name, functions, rules)| {
        let functions: Vec<_> = functions
            .iter()
            .enumerate()
            .map(|(i, name)| serde_json::json!({ "id": format!("{i:#x}"), "name": name, "ports": [0, { "id": "b", "name": name }], "params": { name: name } }))
            .collect();
        let rules: Vec<_> = rules
            .into_iter()
            .enumerate()
            .map(|(i, (priority, ip, len, vlan, ports, drop, filter, list))| {
                let network = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0) & ip;
                let ip = std::net::Ipv4Addr::from(network);
                let [lo, hi] = [ports[0].min(ports[1]), ports[0].max(ports[1])];
                let output = serde_json::json!({ "output_to_port": ["sap:0", "sf:0x0:b"] });
                let actions = match (drop, list) {
                    (true, true) => serde_json::json!(["drop"]),
                    (true, false) => serde_json::json!({ "drop": true }),
                    (false, true) => serde_json::json!(["dec_ttl", { "set_vlan": vlan }, output]),
                    (false, false) => output,
                };
                serde_json::json!({
                    "id": i, "priority": priority, "actions": actions,
                    "match": { "port_in": "sf:0x0:0", "ip_src": format!("{ip}/{len}"), "vlan_id": vlan, "tp_dst": format!("{lo}-{hi}"), "filter": filter },
                })
            })
            .collect();
        let sap = serde_json::json!({ "id": 0, "type": "vlan", "vlan": { "vlan-id": 1, "if-name": "e" } });
        serde_json::json!({ "id": "g", "name": name, "SFs": functions, "saps": [sap], "flowrules": rules })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn graphs_read_back_from_their_canonical_form(document in graph()) {
        let graph = ServiceGraph::parse(&document.to_string()).map_err(|e| TestCaseError::fail(format!("{e}\n{document:#}")))?;
        prop_assert_eq!(&ServiceGraph::from_json(&graph.to_json().to_string()).unwrap(), &graph);
        let yaml = serde_yaml_ng::to_string(&graph.to_json()).unwrap();
        prop_assert_eq!(&ServiceGraph::from_yaml(&yaml).unwrap(), &graph, "{}", yaml);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}", structured in "[-{}\\[\\]:,\"'&*!|>#%@ \\n\\t0a~]{0,60}") {
        for text in [&text, &structured] {
            let _ = ServiceGraph::from_json(text);
            let _ = ServiceGraph::from_yaml(text);
            let _ = Template::parse(text);
        }
    }

    #[test]
    fn no_change_to_a_document_panics(document in graph(), at in any::<prop::sample::Index>(), with in "[-{}\\[\\]:,\"'&*0a~\\n]{0,3}") {
        let mut text: Vec<char> = document.to_string().chars().collect();
        let at = at.index(text.len());
        text.splice(at..=at, with.chars());
        let text: String = text.into_iter().collect();
        let _ = ServiceGraph::from_json(&text);
        let _ = ServiceGraph::from_yaml(&text);
    }
}

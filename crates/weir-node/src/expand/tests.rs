use super::*;
use crate::candidates::Candidates;
use crate::images::Images;
use crate::resources::Resources;

/// Images by these documents.
fn images(documents: &[&str]) -> Images {
    let templates = documents.iter().map(|text| {
        let t = Template::parse(text).unwrap_or_else(|e| panic!("{e}"));
        (t.name.to_string(), t)
    });
    Images { templates: templates.collect(), errors: Vec::new() }
}

const WIRE: &str = "name: wire\ncapability: wire\nports: [l, r]\nparams: [{name: N, type: int, default: 1, max: 9}]\n\
    click: 'in_0 -> Paint($N) -> out_1; in_1 -> out_0;'\n";

/// An image of two functions in a row.
fn pair(name: &str, first: &str, second: &str) -> String {
    format!(
        "name: {name}
kind: graph
ports: [in, out]
params: [{{name: COLOR, type: int, default: 2}}]
graph:
  SFs:
    - {{id: a, {first}, ports: [l, r]}}
    - {{id: b, {second}, ports: [l, r]}}
  flowrules:
    - {{id: x, priority: 1, match: {{port_in: 'sap:in', filter: tcp}}, actions: {{output_to_port: 'sf:a:l'}}}}
    - {{id: y, priority: 1, match: {{port_in: 'sf:a:r'}}, actions: {{output_to_port: 'sf:b:l'}}}}
    - {{id: z, priority: 1, match: {{port_in: 'sf:b:r'}}, actions: {{output_to_port: 'sap:out'}}}}
"
    )
}

/// A graph of one function from `lan` to `wan`.
fn graph(function: &str, more: &str) -> ServiceGraph {
    let text = format!(
        "id: g
name: g
SFs: [{{id: f, ports: [p, q], {function}}}]
saps:
  - {{id: lan, type: interface, interface: {{if-name: lan}}}}
  - {{id: wan, type: interface, interface: {{if-name: wan}}}}
flowrules:
  - {{id: 1, priority: 1, match: {{port_in: 'sap:lan'}}, actions: {{output_to_port: 'sf:f:p'}}}}
  - {{id: 2, priority: 1, match: {{port_in: 'sf:f:q'}}, actions: {{output_to_port: 'sap:wan'}}}}
{more}"
    );
    ServiceGraph::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

/// What is wrong with a graph, in lines.
fn wrong(images: &Images, graph: &ServiceGraph) -> String {
    let chosen = Candidates::new(images, None).choose(graph, Resources::UNBOUNDED, &|_| None);
    let errors = match chosen {
        Err(errors) => errors,
        Ok(chosen) => match crate::guard::compile(chosen.graph(graph), |f| chosen.image(f)) {
            Ok(_) => Vec::new(),
            Err(errors) => chosen.placed(errors),
        },
    };
    errors.iter().map(|e| format!("{e}\n")).collect()
}

#[test]
fn functions_take_the_place_of_what_is_made_of_them_with_rules_and_values() {
    let inner = pair("inner", "name: wire, params: {N: $COLOR}", "capability: wire");
    let outer = pair("outer", "name: inner, params: {COLOR: '$COLOR'}", "name: wire");
    let images = images(&[WIRE, &inner, &outer]);
    let graph = graph("name: outer, params: {COLOR: 7}", "requirements: ['can sap:lan sap:wan tcp']\n");
    assert_eq!(wrong(&images, &graph), "");
    let chosen = Candidates::new(&images, None).choose(&graph, Resources::UNBOUNDED, &|_| None).unwrap();
    let whole = chosen.graph(&graph);
    let ids: Vec<&str> = whole.functions.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["f@in", "f@out", "f.a@in", "f.a@out", "f.a.a", "f.a.b", "f.b"]);
    let a = &whole.functions[4];
    assert_eq!(chosen.image(a).unwrap().arguments(&a.params).unwrap()["N"], "7");
    let rules: Vec<String> = whole
        .flowrules
        .iter()
        .map(|r| format!("{} {} {}", r.id, r.matches.port_in, r.actions.output_to_port[0]))
        .collect();
    assert_eq!(
        rules,
        [
            "1 sap:lan sf:f@in:outer",
            "2 sf:f@out:outer sap:wan",
            "f.x sf:f@in:inner sf:f.a@in:outer",
            "f.y sf:f.a@out:outer sf:f.b:l",
            "f.z sf:f.b:r sf:f@out:inner",
            "f.a.x sf:f.a@in:inner sf:f.a.a:l",
            "f.a.y sf:f.a.a:r sf:f.a.b:l",
            "f.a.z sf:f.a.b:r sf:f.a@out:inner",
        ]
    );
    assert!(whole.flowrules[2].matches.filter.is_some());
    let named: Vec<_> = chosen.composed.iter().map(|c| (c.id.as_str(), c.functions.join(" "))).collect();
    assert_eq!(named, [("f", "f.a f.b".to_owned()), ("f.a", "f.a.a f.a.b".to_owned())]);
    assert_eq!(Composed::shown(&chosen.composed, &whole.flowrules[1].matches.port_in), "sf:f:q");
    assert_eq!(Composed::shown(&chosen.composed, &whole.flowrules[3].matches.port_in), "sf:f.a:r");
    let asked: Vec<_> = chosen.choices.iter().map(|c| (c.function.as_str(), c.image.as_str())).collect();
    assert_eq!(asked, [("f.a.b", "wire")]);
}

#[test]
fn cycles_and_what_has_no_end_are_named() {
    let asks = pair("asks", "capability: pair", "name: wire").replace("kind:", "capability: pair\nkind:");
    let list = images(&[
        WIRE,
        &pair("one", "name: wire", "name: two"),
        &pair("two", "name: three", "name: wire"),
        &pair("three", "name: wire", "name: one"),
        &asks,
    ]);
    let told = wrong(&list, &graph("name: one", ""));
    assert!(told.contains("sffg.SFs[0] ('f.b.a.b' in the image 'one' > 'two' > 'three')"), "{told}");
    assert!(told.contains("the image 'one' is a part of itself: one > two > three > one"), "{told}");
    let told = wrong(&list, &graph("name: asks", ""));
    assert!(told.contains("'asks': the function is a part of it"), "{told}");
    let told = wrong(&list, &graph("capability: pair", ""));
    assert!(told.contains("its function 'a': no image with the capability 'pair' fits"), "{told}");
    let tried = list.tried();
    assert_eq!(tried.templates.keys().collect::<Vec<_>>(), ["asks", "wire"]);
    assert!(tried.errors[0].errors[0].contains("'two' is made of 'one' itself"), "{:?}", tried.errors);

    let deep: Vec<String> =
        (0..9).map(|i| pair(&format!("d{i}"), &format!("name: d{}", i + 1), "name: wire")).collect();
    let mut documents: Vec<&str> = deep.iter().map(String::as_str).collect();
    let last = WIRE.replace("name: wire\n", "name: d9\n");
    documents.extend([WIRE, &last]);
    let list = images(&documents);
    let told = wrong(&list, &graph("name: d0", ""));
    assert!(told.contains("more than 8 images are within each other: d0 > d1 > "), "{told}");
    assert_eq!(wrong(&list, &graph("name: d1", "")), "");
    // Each is twice the one before.
    let wide: Vec<String> = (0..8)
        .map(|i| {
            let functions: String = (0..8).map(|k| format!("{{id: f{k}, name: w{}}},", i + 1)).collect();
            format!("name: w{i}\nkind: graph\ngraph: {{SFs: [{functions}]}}")
        })
        .collect();
    let mut documents: Vec<&str> = wide.iter().map(String::as_str).collect();
    let last = WIRE.replace("name: wire\n", "name: w8\n");
    documents.push(&last);
    let list = images(&documents);
    let text = "id: g\nname: g\nSFs: [{id: f, name: w0}]\n";
    let told = wrong(&list, &ServiceGraph::parse(text).unwrap());
    assert!(told.contains("the graph has more than 1000"), "{told}");
}

#[test]
fn a_secret_is_passed_to_what_keeps_it() {
    let keeper =
        "name: keeper\nkind: native\nports: [l, r]\nparams: [{name: KEY, type: text, secret: true}]\n";
    let outer = pair("outer", "name: keeper, params: {KEY: 'x $PSK'}", "name: wire")
        .replace("COLOR, type: int, default: 2", "PSK, type: text, secret: true");
    let list = images(&[WIRE, keeper, &outer]);
    let graph_of = graph("name: outer, params: {PSK: open sesame}", "");
    let chosen = Candidates::new(&list, None).choose(&graph_of, Resources::UNBOUNDED, &|_| None).unwrap();
    let secrets: Vec<(&str, bool)> = chosen
        .secrets
        .iter()
        .map(|(f, names)| (f.as_str(), names.contains("PSK") || names.contains("KEY")))
        .collect();
    assert_eq!(secrets, [("f", true), ("f.a", true)]);
    let told = outer.replace("name: keeper, params: {KEY: 'x $PSK'}", "name: wire, params: {N: $PSK}");
    let list = images(&[WIRE, keeper, &told]);
    let found = wrong(&list, &graph_of);
    assert!(
        found.contains(
            "sffg.SFs[0] ('f.a' in the image 'outer'): N gets a secret, and is no secret of the image 'wire'"
        ),
        "{found}"
    );
    assert!(!found.contains("sesame"), "{found}");
}

#[test]
fn mistakes_are_told_with_the_image_and_the_function_within() {
    let list = images(&[
        WIRE,
        &pair("bad", "name: wire, params: {N: $COLOR}", "name: wrie"),
        &pair("good", "name: wire, params: {N: $COLOR}", "name: wire"),
    ]);
    for (function, more, told) in [
        (
            "name: bad",
            "",
            "sffg.SFs[0] ('f.b' in the image 'bad'): there is no image 'wrie' here (did you mean 'wire'?)",
        ),
        ("name: good, params: {COLOUR: 1}", "", "sffg.SFs[0]: good has no parameter \"COLOUR\""),
        (
            "name: good, params: {COLOR: 300}",
            "",
            "sffg.SFs[0] ('f.a' in the image 'good').params: parameter N: found 300",
        ),
        ("name: good, handlers: {x: 1}", "", "has no handler 'x' itself"),
        ("name: good, kind: process", "", "of kind graph"),
        (
            "name: good",
            "requirements: ['can sap:lan sf:f tcp']\n",
            "sffg.requirements[0]: function 'f' is made of functions",
        ),
    ] {
        let found = wrong(&list, &graph(function, more));
        assert!(found.contains(told), "{function}: {found}");
    }
    let tried = list.tried();
    assert!(!tried.templates.contains_key("bad") && tried.templates.contains_key("good"));
}

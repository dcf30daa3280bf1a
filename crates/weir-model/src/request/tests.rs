use super::*;

/// Figure 2.2 as printed.
const FIGURE: &str = "
FromNetfront() ->
IPFilter(allow udp port 1500) ->
IPRewriter(pattern - - 172.16.15.133 - 0 0)
-> TimedUnqueue(120,100)
-> ToNetfront()



REQUIRE reach 0/0 172.16.15.133 udp 1500
";

fn names(request: &Request) -> Vec<&str> {
    request.modules.iter().map(|m| m.name.as_str()).collect()
}

#[test]
fn figure_2_2_is_read_as_printed() {
    let request = Request::parse(FIGURE).unwrap();
    let [module] = request.modules.as_slice() else { panic!("{request:?}") };
    assert_eq!((module.name.as_str(), module.offset, module.line), ("module", 0, 1));
    assert!(module.click.trim_end().ends_with("ToNetfront()"));
    assert_eq!(module.click.len(), FIGURE.len(), "positions stay");
    let [r] = request.requirements.as_slice() else { panic!("{request:?}") };
    assert_eq!(r.goal.to_string(), "can 0.0.0.0/0 172.16.15.133 udp dst port 1500");
    assert_eq!((r.text.as_str(), r.position.unwrap().line), ("REQUIRE reach 0/0 172.16.15.133 udp 1500", 10));
}

#[test]
fn modules_links_and_requirements_may_be_mixed() {
    let text = "# two modules
can internet client
batcher:
  FromNetfront() -> all :: Tee;   // can a b
  all -> Print(\"never a b
never a b tcp
\") -> /* only a b
only a b tcp
*/ ToNetfront();
  REACH internet batcher:0 udp;
  all :: Foo -> [1] all;
monitor:   // the other
  FromNetfront(0) -> Print('->
noloops
') -> ToNetfront(1)
batcher:1 -> monitor:0;
noloops
";
    let request = Request::parse(text).unwrap();
    assert_eq!(names(&request), ["batcher", "monitor"]);
    let goals: Vec<String> = request.requirements.iter().map(|r| r.goal.to_string()).collect();
    assert_eq!(goals, ["can internet client", "can internet batcher:0 udp", "noloops"]);
    let link = &request.links[0];
    assert_eq!((link.from.0.as_str(), link.from.1.as_str(), link.to.0.as_str()), ("batcher", "1", "monitor"));
    assert_eq!((link.position.line, link.position.column), (16, 1));
    for module in &request.modules {
        let there = &text[module.offset..module.offset + module.click.len()];
        for (a, b) in there.lines().zip(module.click.lines()) {
            assert!(b.trim().is_empty() || a == b, "{a:?} became {b:?}");
        }
        assert_eq!(text[..module.offset].lines().count() + 1, module.line);
    }
    assert!(request.modules[0].click.contains("all :: Foo -> [1] all;"));
    assert!(!request.modules[0].click.contains("REACH"));
}

#[test]
fn clicks_own_words_stay_clicks() {
    let text = "require(package x);\nall :: Tee; can -> all; return, only :: Idle;\nnever\n-> Discard;\nall [1] -> x;";
    let request = Request::parse(text).unwrap();
    assert_eq!(request.modules[0].click, text);
    assert_eq!(request.requirements, []);
}

#[test]
fn a_request_may_only_ask() {
    let request = Request::parse("can ::/0 client\n// nothing to run\n").unwrap();
    assert_eq!((request.modules.len(), request.requirements.len()), (0, 1));
    assert_eq!(
        Request::parse("\n# x\n").unwrap_err().to_string(),
        "document: the request is empty; write a module, requirements, or both"
    );
}

#[test]
fn mistakes_are_told_at_once() {
    for (text, message) in [
        (
            "a:\nIdle -> Discard;\na:\nIdle -> Discard;\nb:\n\nREQUIRE rech 0/0 x\na:0 -> c:0\n",
            "request (line 7, column 9): \"rech\" is not a requirement; did you mean \"reach\"?\n\
             request (line 3, column 1): a second module with the name \"a\"; choose another\n\
             request (line 5, column 1): the module \"b\" is empty; write its Click configuration below its name\n\
             request (line 8, column 1): no module is \"c\"; known here: a",
        ),
        (
            "Idle -> Print(x\n-> Discard;\nREQUIRE reach a b\n",
            "request (line 1, column 14): the \"(\" is never closed; requirements below it would be lost",
        ),
        (
            "Idle -> Print(\"x)\n-> Discard;\nREQUIRE reach a b\n",
            "request (line 1, column 15): the string does not end; end it with \"",
        ),
        (
            "Idle /* -> Discard;\nnoloops\n",
            "request (line 1, column 6): the comment does not end; end it with */",
        ),
        (
            "REQUIRE\n",
            "request (line 1, column 8): a requirement is missing; it begins with can, only, all, never, invariant, return, noloops, reach",
        ),
    ] {
        let errors = Request::parse(text).expect_err(text).to_string();
        // The order is that of reading: modules are complete where the next begins.
        let mut lines: Vec<&str> = errors.lines().collect();
        let mut wanted: Vec<&str> = message.lines().collect();
        lines.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(lines, wanted);
    }
    assert!(Request::parse(&" ".repeat(MAX_TEXT + 1)).is_err());
}

#[test]
fn the_schema_is_of_text_and_its_example_is_read() {
    let schema = crate::schema::Document::Request.json_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let example = &schema["examples"][0];
    let request = Request::parse(example.as_str().unwrap()).unwrap();
    assert_eq!((request.modules.len(), request.requirements.len()), (1, 1));
    assert!(validator.is_valid(example) && !validator.is_valid(&serde_json::json!({ "modules": [] })));
    assert!(schema["description"].as_str().unwrap().contains("noloops"), "{schema}");
}

#[test]
fn a_document_has_images_links_and_a_lifetime() {
    let text = "
# what alice asks for
version: 1
lifetime: 60
modules:
  f: {image: packet-filter, params: {RULES: allow udp, N: 3}}
  a:
    click: |
      FromNetfront() ->

      ToNetfront()
    intercepts: [10.0.0.0/8]
links: ['f:1 -> a:0']
requirements: [can internet f udp, well-formed]
";
    let r = Request::parse(text).unwrap();
    let [f, a] = &r.modules[..] else { panic!("{r:?}") };
    assert_eq!((f.stock.as_ref().unwrap().image.as_str(), f.click.as_str()), ("packet-filter", ""));
    let line = text.lines().position(|l| l.contains("FromNetfront")).unwrap();
    assert_eq!(
        a.click.lines().position(|l| l.contains("FromNetfront")),
        Some(line),
        "lines are those of the document"
    );
    assert_eq!((a.intercepts.len(), r.lifetime, r.links.len(), r.requirements.len()), (1, Some(60), 1, 1));
    let json = r#"{"version": 1, "modules": {"a": {"click": "FromNetfront() -> ToNetfront()"}}}"#;
    assert_eq!(Request::parse(json).unwrap().modules[0].click.trim(), "FromNetfront() -> ToNetfront()");
}

#[test]
fn mistakes_in_a_document_are_all_said() {
    let errors = |text: &str| Request::parse(text).unwrap_err().to_string();
    let text = "version: 1\nlifetime: 0\nmodules:\n  a: {click: x, image: y}\n  b: {}\n  c: {click: ' '}\n  d: {click: x, params: {A: 1}}\nlinks: [a, 'd:0 -> e:0']\nrequirements: [can a]\nfoo: 1\n";
    let all = errors(text);
    for part in [
        "0 is out of range",
        "a Click configuration and an image",
        "nothing to run",
        "is empty",
        "only images have parameters",
        "is no link",
        "no module is \"e\"",
        "requirements[0]",
        "unknown field \"foo\"",
    ] {
        assert!(all.contains(part), "{part} in: {all}");
    }
    assert!(errors("version: 2\nrequirements: [noloops]\n").contains("out of range"));
    assert!(errors("version: 1\n").contains("the request is empty"));
}

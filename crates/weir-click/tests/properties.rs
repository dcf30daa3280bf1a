//! Properties of the whole parser: it takes any text, and the flat form is the graph.

mod common;

use common::Classes;
use proptest::prelude::*;
use weir_click::{Options, parse, parse_with};

/// Pieces of the language, so that random texts get past the first statement.
const PIECES: &[&str] = &[
    "a",
    "b",
    "Idle",
    "Print",
    "Queue",
    "Foo",
    "input",
    "output",
    "->",
    "=>",
    "::",
    "||",
    "|",
    "...",
    ";",
    ",",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "0",
    "1",
    "2",
    "-",
    "$x",
    "$",
    "${x}",
    "K",
    "__REST__",
    "elementclass",
    "require",
    "define",
    "provide",
    "\n",
    "\r",
    "# 3 \"g\"\n",
    "\n#line 9\n",
    "//",
    "/*",
    "*/",
    "\"",
    "'",
    "\\",
    "\\<",
    ">",
    "é",
    "\u{0}",
    "(1, $x)",
    "($x 2)",
    "(package p)",
    "elementclass Foo {",
    "Foo(",
    "a :: Idle;",
    "-> Idle ->",
    "{ $x |",
    "(->)",
    "[0-1]",
    "[]",
];

fn text_of_pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(PIECES);
    prop::collection::vec((piece, prop::bool::ANY), 0..60).prop_map(|list| {
        list.iter().map(|(p, space)| format!("{p}{}", if *space { " " } else { "" })).collect()
    })
}

/// Statements that are right after `PRELUDE`, in any selection.
const STATEMENTS: &[&str] = &[
    "define($g 3, $h \"\\\"$g\");",
    "InfiniteSource -> Foo -> Discard;",
    "InfiniteSource -> Foo(1, \"a b\") -> Discard;",
    "InfiniteSource -> Foo(x, K y, z, ',') -> Discard;",
    "InfiniteSource -> { -> Null -> { $a | -> Print($a) -> } ($g) -> } -> Discard;",
    "InfiniteSource -> t :: Tee => ( -> Print(1) -> ), Null, { -> } -> Discard;",
    "InfiniteSource -> Tee [0, 1] => [0, 1] Idle;",
    "x, y :: Message(\\<2c>, \"$g\", '$g', , );",
    "elementclass Foo { $only | -> Strip($only) -> || ... }",
    "InfiniteSource, InfiniteSource -> Queue -> Two -> ToDevice;",
    "require(package p);",
    "Idle => (-> i :: Idle), (-> Idle);",
    "# 20 \"other\"\n",
];

const PRELUDE: &str = "
elementclass Foo { -> Null -> || $a, $b | -> Print($a, \"$b\") -> || $a, K $k, __REST__ $r | -> Print($r, $k, $a) -> }
elementclass Two { -> Foo -> Foo(2, 3) -> }
";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_text_panics(text in text_of_pieces()) {
        if let Err(errors) = parse("f", &text, &Classes) {
            prop_assert!(!errors.list.is_empty());
            prop_assert!(!errors.to_string().is_empty());
            for error in &errors.list {
                prop_assert!(error.span.offset <= text.len());
            }
        }
    }

    #[test]
    fn no_string_panics(text: String) {
        let _ = parse("f", &text, &Classes);
    }

    #[test]
    fn the_flat_form_of_random_text_parses_to_the_same_graph(text in text_of_pieces()) {
        if let Ok(graph) = parse("f", &text, &Classes) {
            prop_assert_eq!(parse("flat", &graph.to_string(), &Classes), Ok(graph));
        }
    }

    #[test]
    fn the_flat_form_of_good_text_parses_to_the_same_graph(statements in prop::sample::subsequence(STATEMENTS, 0..STATEMENTS.len())) {
        let text = format!("{PRELUDE}{}", statements.join("\n"));
        let graph = parse("f", &text, &Classes);
        prop_assert!(graph.is_ok(), "{}", graph.unwrap_err());
        prop_assert_eq!(parse("flat", &graph.clone().unwrap().to_string(), &Classes), graph);
    }

    #[test]
    fn the_flat_form_of_random_graphs_parses_to_the_same_graph(
        sizes in prop::collection::vec((0u32..4, "[a-z ,\"'$/*]{0,8}"), 1..12),
        seed in any::<u64>(),
    ) {
        // Hubs that connect each output to an input of some hub; every input is used at least by itself.
        let mut text = String::new();
        for (i, (_, arg)) in sizes.iter().enumerate() {
            text += &format!("h{i} :: Idle({});\n", weir_click::quote(arg.as_bytes()));
        }
        let total: u32 = sizes.iter().map(|s| s.0).sum();
        let ports: Vec<(usize, u32)> =
            sizes.iter().enumerate().flat_map(|(i, (n, _))| (0..*n).map(move |p| (i, p))).collect();
        let shift = (seed % u64::from(total.max(1))) as usize;
        for (k, (i, p)) in ports.iter().enumerate() {
            let (j, q) = ports[(k + shift) % ports.len()];
            text += &format!("h{i} [{p}] -> [{q}] h{j};\n");
        }
        let graph = parse("f", &text, &Classes);
        prop_assert!(graph.is_ok(), "{}", graph.unwrap_err());
        let graph = graph.unwrap();
        prop_assert_eq!(graph.connections.len(), total as usize);
        prop_assert_eq!(graph.elements.len(), sizes.len());
        prop_assert_eq!(parse("flat", &graph.to_string(), &Classes), Ok(graph));
    }
}

fn messages(text: &str) -> Vec<String> {
    let errors = parse("f", text, &Classes).expect_err("a limit is reached");
    errors.list.into_iter().map(|e| e.message).collect()
}

#[test]
fn deep_nesting_is_an_error() {
    for (open, message) in [
        ("{ ", "maximum compound element nesting depth exceeded"),
        ("( ", "maximum element group nesting depth exceeded"),
        ("a :: { ", "maximum compound element nesting depth exceeded"),
        ("elementclass A { ", "maximum compound element nesting depth exceeded"),
    ] {
        assert_eq!(messages(&open.repeat(100_000)), [message]);
    }
}

#[test]
fn a_long_chain_of_classes_is_an_error() {
    let mut text = String::from("elementclass C0 { Idle }");
    for i in 1..5000 {
        text += &format!("elementclass C{i} {{ C{} }}", i - 1);
    }
    assert!(parse("f", &text, &Classes).is_ok(), "classes that nobody uses do no harm");
    text += "C4999;";
    assert_eq!(messages(&text), ["maximum compound element nesting depth exceeded"]);
}

#[test]
fn compounds_that_double_are_an_error() {
    for part in ["Idle", ""] {
        let mut text = format!("elementclass C0 {{ {part} }}");
        for i in 1..60 {
            text += &format!("elementclass C{i} {{ C{0}; C{0} }}", i - 1);
        }
        text += "C59;";
        assert_eq!(messages(&text), ["more than 100000 elements after compound elements are expanded"]);
    }
}

#[test]
fn passages_that_multiply_are_an_error() {
    let mut text = String::new();
    for i in 0..2000 {
        text += &format!("s{i} :: InfiniteSource -> p; p -> e{i} :: Discard;");
    }
    let text = format!("p :: {{ -> }}; {text}");
    assert_eq!(messages(&text), ["more than 1048576 connections"]);
}

#[test]
fn passages_without_end_are_an_error() {
    let mut text = String::from("p :: { -> };");
    for i in 0..8000 {
        text += &format!("p -> p{i} :: {{ -> }}; InfiniteSource -> p;");
    }
    let first = messages(&text).remove(0);
    assert!(first.contains("unused") || first.contains("too large"), "{first}");
}

#[test]
fn parameters_that_multiply_are_an_error() {
    let mut text = String::from("define($a0 x");
    for i in 1..10 {
        text += &format!(", $a{i} {}", format!("$a{}", i - 1).repeat(100));
    }
    text += "); Message($a9)";
    assert_eq!(messages(&text), ["configuration string of 'Message@1' too long after substitution"]);
}

#[test]
fn many_port_numbers_are_an_error() {
    assert_eq!(
        messages(&"a :: Idle; a [0-65535] -> a;".repeat(20)).last().unwrap(),
        "more than 1048576 port numbers"
    );
    let mut text = String::from("a :: Idle;");
    for i in 0..40 {
        text += &format!("b{i} :: Idle [65535] -> a;");
    }
    assert!(messages(&text)[0].contains("more than 1048576 ports in all"));
}

#[test]
fn overloads_without_end_are_an_error() {
    let mut text = String::from("elementclass F { $a, $b | || $a, $b, $c | }");
    text += &"elementclass F { $a, $b | || ... }".repeat(10_000);
    text += &"F(1, 2, 3);".repeat(1000);
    assert_eq!(messages(&text), ["configuration too large: compounds and overloads expand without end"]);
}

#[test]
fn errors_beyond_the_limit_are_counted() {
    let text = "a -> b;".to_string() + &(0..300).map(|i| format!("x{i};")).collect::<String>();
    let options = Options { max_errors: 10, ..Options::default() };
    let errors = parse_with("f", &text, &Classes, &options).unwrap_err();
    assert_eq!((errors.list.len(), errors.omitted), (10, 292));
    assert!(errors.to_string().ends_with("292 more errors not shown"));
}

#[test]
fn parameters_from_outside_go_before_those_of_the_text() {
    let options = Options { defines: vec![("dev".into(), "eth1".into())], ..Options::default() };
    let text = "define($dev eth0, $n 2) Message($dev, $n, \"$dev\")";
    let graph = parse_with("f", text, &Classes, &options).unwrap();
    assert_eq!(graph.elements[0].args, ["eth1", "2", "\"eth1\""]);
}

#[test]
fn libraries_are_read_once_and_name_their_own_lines() {
    let load = |name: &str| match name {
        "a.click" => Some("require(library b.click)\nelementclass A { -> B -> }\nQuux".to_string()),
        "b.click" => Some("require(library a.click) elementclass B { -> Null -> }".to_string()),
        "c.click" => Some("elementclass C { -> Null -> }".to_string()),
        _ => None,
    };
    let options = Options { library: Some(&load), ..Options::default() };
    let text = "require(library a.click, library b.click);\nInfiniteSource -> A -> Discard; Zork;\n";
    let errors = parse_with("main.click", text, &Classes, &options).unwrap_err();
    let shown: Vec<String> = errors.list.iter().map(weir_click::Diagnostic::brief).collect();
    assert_eq!(
        shown,
        ["main.click:2:33: undeclared element 'Zork'", "a.click:3:1: undeclared element 'Quux'"]
    );
    let good = "require(library c.click, c.click);\nInfiniteSource -> C -> Discard";
    assert_eq!(parse_with("main.click", good, &Classes, &options).unwrap().requirements, ["c.click"]);
    let inner = "{ require(library b.click) }";
    let errors = parse_with("main.click", inner, &Classes, &options).unwrap_err();
    assert_eq!(errors.list[0].message, "'require library' must be used at file scope");
}

#[test]
fn elements_and_connections_know_their_places() {
    let graph = parse("f", "InfiniteSource\n  -> d :: Discard", &Classes).unwrap();
    assert_eq!(graph.elements[1].span.to_string(), "f:2:6");
    assert_eq!(graph.connections[0].span.to_string(), "f:2:3");
    assert_eq!(graph.find("d"), Some(1));
}

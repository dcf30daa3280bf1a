use super::*;

fn parse(text: &str) -> Result<Pattern, String> {
    Pattern::parse(&text.split_whitespace().collect::<Vec<_>>())
}

const A: u32 = 0x0100_0001;

#[test]
fn every_form_of_a_pattern() {
    let all = |src, sport, dst, dport| Pattern { src, sport, dst, dport, with_ports: true };
    for (text, want) in [
        ("- - - -", Pattern::KEEP),
        ("1.0.0.1 20 - -", all(Source::Set(A), Source::Set(20), None, None)),
        ("- - 1.0.0.1 80", all(Source::Keep, Source::Keep, Some(A), Some(80))),
        ("1.0.0.1 1024-65535 - -", all(Source::Set(A), Source::OneOf(1024, 65535, Order::Own), None, None)),
        ("- 1-2# - -", all(Source::Keep, Source::OneOf(1, 2, Order::Sequential), None, None)),
        ("- 1-2? - -", all(Source::Keep, Source::OneOf(1, 2, Order::Random), None, None)),
        ("- 7-7 - -", all(Source::Keep, Source::Set(7), None, None)),
        ("1.0.0.1 -", all(Source::Set(A), Source::Keep, None, None)),
        ("1.0.0.1 1.0.0.1 9", all(Source::Set(A), Source::Set(9), Some(A), None)),
        ("1.0.0.1-1.0.0.9# -", all(Source::OneOf(A, A + 8, Order::Sequential), Source::Keep, None, None)),
        ("1.0.0.0/24 -", all(Source::OneOf(A, A + 253, Order::Own), Source::Keep, None, None)),
        ("1.0.0.1/32 -", all(Source::Set(A), Source::Keep, None, None)),
        ("1.0.0.1/31 -", all(Source::OneOf(A - 1, A, Order::Own), Source::Keep, None, None)),
    ] {
        let with_ports = text.split_whitespace().count() > 2;
        assert_eq!(parse(text), Ok(Pattern { with_ports, ..want }), "{text}");
    }
}

#[test]
fn a_pattern_is_shown_as_click_shows_it() {
    for (text, want) in [
        ("1.0.0.1 1024-65535# - -", "1.0.0.1 1024-65535 - -"),
        ("- - 1.0.0.1 80", "- - 1.0.0.1 80"),
        ("1.0.0.1 5-6? 2.0.0.2 -", "1.0.0.1 5-6 2.0.0.2 -"),
        ("1.0.0.1-1.0.0.9 -", "1.0.0.1-1.0.0.9 -"),
        ("1.0.0.1/24 -", "1.0.0.1-1.0.0.254 -"),
        ("1.0.0.1 -", "1.0.0.1 -"),
    ] {
        assert_eq!(parse(text).unwrap().to_string(), want);
    }
}

#[test]
fn bad_patterns_say_which_part_is_wrong() {
    for (text, want) in [
        ("1.0.0.1", "'1.0.0.1' is not a pattern: write SADDR SPORT DADDR DPORT"),
        ("1.0.0 - - -", "bad source address"),
        ("- 70000 - -", "bad source port"),
        ("- 0 - -", "bad source port"),
        ("- 9-5 - -", "bad source port"),
        ("- 9-65536 - -", "bad source port"),
        ("- - 1-2 -", "bad destination address"),
        ("- - - 5-9", "bad destination port"),
        ("1.0.0.0/33 -", "bad source address"),
        ("1.0.0.9-1.0.0.1 -", "bad source address"),
        ("1.0.0.1-1.0.0.9 - - -", "has no ports beside it"),
        ("1.0.0.1 - -  - -", "is not a pattern"),
    ] {
        let e = parse(text).unwrap_err();
        assert!(e.contains(want), "{text}: {e}");
    }
}

#[test]
fn every_form_of_an_input_specification() {
    let rule = |name: Option<&str>, outputs| {
        let pattern = name.is_none().then_some(Pattern::KEEP);
        InputSpec::Map(Rule { pattern, name: name.map(str::to_owned), outputs })
    };
    for (text, want) in [
        ("drop", InputSpec::Drop),
        ("discard", InputSpec::Drop),
        ("pass", InputSpec::Pass(0)),
        ("nochange 2", InputSpec::Pass(2)),
        ("passthrough 1", InputSpec::Pass(1)),
        ("keep 0 1", rule(None, [0, 1])),
        ("pattern - - - - 3 4", rule(None, [3, 4])),
        ("pattern nat 3 4", rule(Some("nat"), [3, 4])),
    ] {
        assert_eq!(InputSpec::from_arg(text), Ok(want), "{text}");
    }
    let Ok(InputSpec::Mapper(mapper)) = InputSpec::from_arg("servers") else { panic!("a mapper") };
    assert_eq!(mapper.name, "servers");
    for (text, want) in [
        ("", "unknown specification"),
        ("rewrite 1 2", "unknown specification"),
        ("drop 1", "nothing follows 'drop'"),
        ("pass x", "'x' is not the number of an output"),
        ("keep 1", "write keep FOUTPUT ROUTPUT"),
        ("pattern 1 2", "write pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT"),
        ("pattern 1.0.0.1 - - - 0", "bad forward port '-'"),
    ] {
        let e = InputSpec::from_arg(text).unwrap_err();
        assert!(e.contains(want), "{text}: {e}");
    }
}

fn specs(list: &[&str]) -> InputSpecs {
    let list: Vec<String> = list.iter().map(|t| (*t).to_owned()).collect();
    InputSpecs::from_rest(&list).unwrap()
}

#[test]
fn the_port_counts_follow_from_the_specifications() {
    assert_eq!(specs(&["drop"]).ports(), "1/1-");
    assert_eq!(specs(&["pattern - - - - 0 3", "pass 1"]).ports(), "2/4-");
}

#[test]
fn all_errors_are_told_with_their_inputs() {
    let args = ["pattern 1.0.0.x - 0 1", "drop", "pattern 1.255.0.0-1.0.255.255 - 0 1"].map(str::to_owned);
    let e = InputSpecs::from_rest(&args).unwrap_err();
    assert_eq!(e, "input spec 0: bad source address\ninput spec 2: bad source address");
}

#[test]
fn names_are_resolved_from_the_elements_of_the_graph() {
    let texts = |list: &[&str]| -> Vec<String> { list.iter().map(|t| (*t).to_owned()).collect() };
    let (other, nat) = (texts(&["other - - - -"]), texts(&["nat 1.0.0.1 1024-65535 - -"]));
    let (turns, empty) = (texts(&["- - 1.0.0.2 - 0 1", "nat 2 3"]), texts(&[]));
    let peer = |name, class, args| weir_ir::Peer { name, class, args };
    let all = [
        peer("p", PATTERNS_CLASS, &other[..]),
        peer("a/p", PATTERNS_CLASS, &nat[..]),
        peer("a/servers", "RoundRobinIPMapper", &turns[..]),
        peer("e", "Idle", &empty[..]),
    ];
    let mut inputs = specs(&["drop", "pattern nat 0 1", "servers"]);
    inputs.resolve(&Capacity::Number(7), &Peers::new(&all, "a/rw")).unwrap();
    assert_eq!(inputs.show(&[0, 2]), "<drop>\n1.0.0.1 1024-65535 - - [2]\n<mapper>\n");
    assert_eq!(inputs.outputs(), [0, 1, 2, 3]);
    assert_eq!(inputs.rules().map(|(i, _)| i).collect::<Vec<_>>(), [1, 2, 2]);
    assert!(!inputs.1.shifts, "no element shifts sequence numbers");

    let mut inputs = specs(&["pattern none 0 1", "servers", "e"]);
    let errors = inputs.resolve(&Capacity::Number(7), &Peers::new(&all, "rw")).unwrap_err();
    assert_eq!(errors[0], "input spec 0: no such pattern 'none': define it in an IPRewriterPatterns element");
    assert!(errors[1].starts_with("input spec 1: unknown specification 'servers'"), "{errors:?}");
    assert!(errors[2].starts_with("input spec 2: element is not an IPMapper"), "{errors:?}");
}

#[test]
fn a_capacity_may_be_that_of_another_rewriter() {
    let texts = |list: &[&str]| -> Vec<String> { list.iter().map(|t| (*t).to_owned()).collect() };
    let (a, b, c) = (
        texts(&["drop", "CAPACITY b"]),
        texts(&["drop", "MAPPING_CAPACITY 3"]),
        texts(&["drop", "CAPACITY c"]),
    );
    let peer = |name, args| weir_ir::Peer { name, class: "IPRewriter", args };
    let all = [peer("a", &a[..]), peer("b", &b[..]), peer("c", &c[..])];
    let resolve = |text: &str| Capacity::from_arg(text).unwrap().resolve(&Peers::new(&all, "e"));
    let said = |n, root: &str| Ok((n, root.to_owned()));
    assert_eq!((resolve("a"), resolve("b"), resolve("9")), (said(3, "b"), said(3, "b"), said(9, "e")));
    assert!(resolve("c").unwrap_err().contains("name each other"));
    assert!(resolve("d").unwrap_err().contains("neither a number nor the name of a rewriter"));
}

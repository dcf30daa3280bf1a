//! The canonical layout: what it looks like, and that it means the same.

mod common;

use common::Classes;
use proptest::prelude::*;
use weir_click::{format, parse};

fn layout(text: &str) -> String {
    let formatted = format("f", text).unwrap_or_else(|e| panic!("{text}\n{e}"));
    assert_eq!(format("f", &formatted).as_ref(), Ok(&formatted), "formatted twice");
    formatted
}

#[test]
fn statements_stand_on_lines_of_their_own() {
    assert_eq!(layout(""), "");
    assert_eq!(
        layout("a::Foo ( 1,2 ,  x  y, ) ;;b,c :: Bar a[0]->[ 1 - 2,3, ]b[]=>c,d d->a"),
        "a :: Foo(1, 2, x  y);\nb, c :: Bar;\na [0] -> [1-2, 3,] b [] => c, d;\nd -> a;\n"
    );
    assert_eq!(layout("\n\n a\n\n\n\nb;\n"), "a;\n\nb;\n");
    assert_eq!(
        layout("define ( $x 3 )require( package p ) elementclass A B elementclass C{$a|->D($a)->}"),
        "define($x 3);\nrequire(package p);\nelementclass A B;\nelementclass C { $a | -> D($a) -> }\n"
    );
}

#[test]
fn a_long_chain_breaks_before_its_arrows_and_a_long_list_at_its_commas() {
    let long = "x".repeat(40);
    assert_eq!(
        layout(&format!("a [1] -> [2] b :: B({long}) -> C({long}) [1] -> d")),
        format!("a [1]\n    -> [2] b :: B({long})\n    -> C({long}) [1]\n    -> d;\n")
    );
    assert_eq!(
        layout(&format!("a :: B({long}, {long}, {long}) -> c")),
        format!("a :: B(\n    {long},\n    {long},\n    {long}\n)\n    -> c;\n")
    );
    let chain = |name: &str| format!("{name} -> {};", "y".repeat(100 - name.len() - 5));
    assert_eq!(layout(&chain("x")), chain("x") + "\n");
    assert_eq!(chain("x").len(), 100);
    assert!(layout(&chain("x").replace('y', "yy")).starts_with("x\n    -> yy"));
}

#[test]
fn bodies_are_indented_and_lines_that_were_meant_stay() {
    assert_eq!(
        layout("elementclass A {\n $a, K $b |\n input -> B($a) -> output\n || -> C -> || ... }"),
        "elementclass A { $a, K $b |\n    input -> B($a) -> output;\n||\n    -> C ->;\n|| ...\n}\n"
    );
    assert_eq!(layout("a -> { -> B -> } ( 1 ) -> ( c ; d )"), "a -> { -> B -> } (1) -> (c; d);\n");
    assert_eq!(layout("c :: Classifier(\n12/0800,\n -)"), "c :: Classifier(\n    12/0800,\n    -\n);\n");
    assert_eq!(layout("{}; (\n)"), "{};\n();\n");
}

#[test]
fn comments_stay_where_they_stand() {
    for text in [
        "// first\n\na :: Foo; // of a\n// of b\nb :: Bar;\n\n// last\n",
        "a :: Foo(\n    // one\n    1, // of one\n    2 // of two\n    // end\n);\n",
        "elementclass A { // opened\n    // alone\n    -> B ->; // of B\n    // end\n} // closed\n",
        "a // of a\n    -> b // of b\n    -> c;\n",
        "/* before */ a /* in */ -> b(1 /* arg */, 2); /* after */\n",
        "a :: Foo;\n# 12 \"other\"\nb :: Bar;\n",
        "a :: Foo(1,\n# 12 \"other\"\n  2);\n",
    ] {
        assert_eq!(layout(text), text);
    }
    assert_eq!(layout("a // x\n;b /* y */\n;/*z*/c"), "a; // x\nb; /* y */\n/*z*/ c;\n");
    assert_eq!(layout("a::Foo(1// x\n,2)"), "a :: Foo(\n    1, // x\n    2\n);\n");
    assert_eq!(layout("a /* open"), "a; /* open\n");
}

#[test]
fn arguments_stay_as_written() {
    for text in [
        "a :: Foo(\"x,  y\", 'p,q', \\<2c, 2c>, (t u), a  b);\n",
        "a :: Foo(,);\na :: Foo(1, , 2);\na :: Foo(1, $x,);\n",
        "a :: Foo($x/* joined */, 2 ,3);\n",
        "a :: Foo(\n    one\n  two\n);\n",
    ] {
        assert_eq!(layout(text), text);
    }
}

#[test]
fn what_is_not_a_configuration_is_refused() {
    let errors = format("f", "a -> ;\nb ::").expect_err("not a configuration");
    assert_eq!(errors.list.first().map(|e| e.span.to_string()), Some("f:1:6".into()));
}

/// Texts between which blanks and comments may stand anywhere.
const STATEMENTS: &[&str] = &[
    "InfiniteSource -> Foo -> Discard ;",
    "InfiniteSource -> Foo ( 1 , \"a b\" ) -> Discard ;",
    "InfiniteSource -> Foo ( x , K y , z , ',' ) -> Discard ;",
    "InfiniteSource -> { -> Null -> { $a | -> Print ( $a ) -> } ( $g ) -> } -> Discard ;",
    "InfiniteSource -> t :: Tee => ( -> Print ( 1 ) -> ) , Null , { -> } -> Discard ;",
    "InfiniteSource -> Tee [ 0 , 1 ] => [ 0 - 1 ] Idle ;",
    "x , y :: Message ( \\<2c> , \"$g\" , '$g' , , ) ;",
    "elementclass Foo { $only | -> Strip ( $only ) -> || ... }",
    "InfiniteSource , InfiniteSource -> Queue -> Unqueue -> Print ( aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ) -> Print \
     ( bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb ) -> Queue ( 5 ) -> Print ( cccccccccccccc ) -> ToDevice ;",
    "Idle => ( -> i :: Idle ) , ( -> Idle ) ;",
    "z :: { -> Null -> ; } InfiniteSource -> z -> Discard",
    "define ( $g 3 , $h \"\\\"$g\" ) ;",
    "require ( package p ) ;",
];

const PRELUDE: &str = "
elementclass Foo { -> Null -> || $a, $b | -> Print($a, \"$b\") -> || $a, K $k, __REST__ $r | -> Print($r, $k, $a) -> }
";

const BLANKS: &[&str] = &[
    " ",
    "\n",
    "\n\n\n",
    " /* c */ ",
    " // c, ( {\n",
    "\n// c\n  ",
    "\r\n\t",
    " /* a\n b */ ",
    "\n# 7 \"g\"\n",
];

#[test]
fn a_comment_that_never_ends_stays_where_it_is() {
    let formatted = format("f", ";/*").unwrap();
    assert_eq!(formatted, "/*\n");
    assert_eq!(format("f", &formatted).unwrap(), formatted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_layout_means_the_same(
        statements in prop::sample::subsequence(STATEMENTS, 0..STATEMENTS.len()),
        rare in 1usize..12,
        seed in prop::collection::vec(0usize..1000, 64),
    ) {
        let mut choice = seed.iter().cycle();
        let mut text = PRELUDE.to_owned();
        for word in statements.join(" ").split(' ') {
            let pick = *choice.next().expect("cycles");
            // Blanks inside double quotes are part of the argument.
            let blank = if pick % rare == 0 { BLANKS[pick / rare % BLANKS.len()] } else { " " };
            text.push_str(word);
            text.push_str(if word.ends_with("\"a") || word == "\\<2c>" { " " } else { blank });
        }
        let graph = parse("f", &text, &Classes);
        prop_assert!(graph.is_ok(), "{text}\n{}", graph.unwrap_err());
        let formatted = format("f", &text);
        prop_assert!(formatted.is_ok());
        let formatted = formatted.unwrap();
        prop_assert_eq!(parse("f", &formatted, &Classes), graph, "{}\n{}", text, formatted);
        let comments = |t: &str| (t.matches("c, ( {").count(), t.matches("/* c */").count(), t.matches("# 7").count());
        prop_assert_eq!(comments(&formatted), comments(&text));
        prop_assert_eq!(format("f", &formatted), Ok(formatted), "{}", text);
    }

    #[test]
    fn no_text_panics(text in "[a-c>:;,(){}|/* \n#\"$0\\[\\]=-]{0,40}") {
        if let Ok(formatted) = format("f", &text) {
            if let Ok(graph) = parse("f", &text, &Classes) {
                prop_assert_eq!(parse("f", &formatted, &Classes), Ok(graph));
            }
            prop_assert_eq!(format("f", &formatted), Ok(formatted), "{}", text);
        }
    }
}

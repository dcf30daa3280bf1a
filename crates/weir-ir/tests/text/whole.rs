//! Whole programs, as the builder and the linker make them.

use weir_ir::Width::{W8, W16, W32, W64};
use weir_ir::program::{Event, Row, TableInit, Type};
use weir_ir::{Builder, Layer, Program, Reason, TableDecl, Wire, check, link, parse};
use weir_table::{FieldDecl, KeyMatch, Kind, Sharing};

use crate::round_trip;

fn ttl() -> Program {
    let mut b = Builder::new("ttl", 1, 2);
    b.input(0, |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let ttl = b.load(W8, Layer::Net, 8);
        let low = b.le(ttl, 1);
        b.when(low, |b| b.emit_or_drop(1, Reason::TTL_EXPIRED));
        let ttl = b.sub(ttl, 1);
        b.store(Layer::Net, 8, ttl);
        b.emit(0);
    });
    b.finish()
}

fn counter(name: &str) -> Program {
    let mut b = Builder::new(name, 1, 1);
    let fields = [("packets", W64), ("bucket", weir_ir::Width::W128)];
    let decl = TableDecl::new("map", Kind::Exact, &[("src", W32)], &fields, 64);
    let map = b.table(decl, vec![Row::exact(&[0x0a00_0001], &[7, 0])]);
    let low = b.event("low");
    b.input(0, |b| {
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let src = b.load(W32, Layer::Net, 12);
        let e = b.insert(map, &[src], |b| b.drop(Reason::FULL));
        let n = b.get(e, "packets");
        let n = b.add(n, 1);
        b.set(e, "packets", n);
        let few = b.lt(n, 3);
        b.when(few, |b| b.notify(low, &[n]));
        b.emit(0);
    });
    b.expire(map, |_, _| {});
    b.timer(1_000_000_000, |_| {});
    b.message("reset all", &[W16], |_, _| {});
    b.finish()
}

#[test]
fn reads_like_pseudo_code() {
    let expected = "\
element ttl
ports 1 -> 2
entry packet 0 -> b0

b0:
  require net 20 ok b1 fail b2

b1:
  jump b3

b2:
  drop Truncated

b3:
  v0:8 = load net+8
  v1:8 = 1
  v2:1 = le v0, v1
  branch v2 ? b4 : b5

b4:
  emit 1

b5:
  jump b6

b6:
  v3:8 = 1
  v4:8 = sub v0, v3
  store net+8, v4
  emit 0
";
    assert_eq!(round_trip(&ttl()), expected);
}

#[test]
fn built_programs_round_trip() {
    let text = round_trip(&counter("count"));
    assert!(text.contains("table map exact (src:32) -> (packets:64, bucket:128) capacity 64\n"), "{text}");
    assert!(text.contains("  row (0xa000001) -> (7, 0)\n"), "{text}");
    assert!(text.contains("entry timer 1000000000 -> b"), "{text}");
    assert!(text.contains("entry message \"reset all\" -> b"), "{text}");
    assert!(text.contains(".packets\n"), "{text}");
    check(&parse(&text).unwrap()).unwrap();
    round_trip(&Program::default());
}

#[test]
fn linked_programs_round_trip() {
    let programs = [counter("a"), ttl(), counter("lb/b")];
    let linked = link(
        &programs,
        |element, port| match (element, port) {
            (0, 0) => Some(Wire::Input { element: 1, port: 0 }),
            (1, 0) => Some(Wire::Input { element: 2, port: 0 }),
            (1, 1) => Some(Wire::Input { element: 0, port: 0 }),
            _ => Some(Wire::Exit(0)),
        },
        1,
    )
    .unwrap();
    let text = round_trip(&linked);
    // Tables and events that share a name are distinguished by their elements.
    assert!(text.contains("insert a/map ("), "{text}");
    assert!(text.contains("insert \"lb/b\"/map ("), "{text}");
    assert!(text.contains("notify a/low ("), "{text}");
    assert!(text.contains("  recirculate b"), "{text}");
    assert!(text.contains("  enter b"), "{text}");
    assert!(text.contains("  exit 0\n"), "{text}");
    check(&parse(&text).unwrap()).unwrap();
}

#[test]
fn any_name_round_trips() {
    let names = [
        "",
        " ",
        "a b",
        "a-b",
        "a-",
        "-a",
        "9",
        "v0",
        "b0",
        "of",
        "entry",
        "x@1",
        "a/b",
        "\"",
        "\\",
        "é",
        "#0",
        ";",
        "\n\r\t",
        "\u{202e}x",
        "\0",
        "any",
        "capacity",
        "->",
    ];
    let mut p = Program { elements: names.map(String::from).to_vec(), ..Program::default() };
    for (i, name) in (0..).zip(names) {
        let field = |side: &str| FieldDecl { name: format!("{name}{side}"), width: W32 };
        let decl = TableDecl {
            key: vec![field("k")],
            value: vec![field("")],
            group: Some(0),
            shared_name: Some(name.into()),
            ..TableDecl::new(name, Kind::Exact, &[], &[], 1)
        };
        p.tables.push(TableInit { decl, rows: Vec::new(), owner: i });
        p.events.push(Event { name: name.into(), owner: i });
        p.types.push(Type::Entry(weir_ir::program::TableId(i)));
    }
    round_trip(&p);
}

#[test]
fn names_that_stand_twice_become_numbers() {
    let decl = TableDecl::new("t", Kind::Array, &[("i", W32)], &[("f", W8), ("f", W8)], 1);
    let init = TableInit { decl: TableDecl { group: Some(1), ..decl }, rows: Vec::new(), owner: 1 };
    let p = Program {
        elements: vec!["e".into(), "e".into()],
        tables: vec![init.clone(), init],
        types: vec![Type::Entry(weir_ir::program::TableId(1))],
        ..Program::default()
    };
    let text = round_trip(&p);
    assert!(text.contains("group #1 of #1\n"), "{text}");
    assert!(text.contains("values v0:entry #1\n"), "{text}");
}

#[test]
fn tables_and_rows_round_trip() {
    let key = vec![
        KeyMatch::Exact(5),
        KeyMatch::Mask(0x0a00_0000, 0xff00_0000),
        KeyMatch::Range(80, 65536),
        KeyMatch::Prefix(u128::MAX, 128),
        KeyMatch::ANY,
    ];
    let row = Row { key, value: vec![1000, u128::MAX], priority: i32::MIN, ttl: Some(u64::MAX) };
    let decl = TableDecl {
        held: 4,
        group: Some(0),
        sharing: Sharing::ReadMostly,
        configured: true,
        shared_name: Some("all".into()),
        ..TableDecl::new("r", Kind::Rules, &[("a", W8)], &[("b", W64)], u32::MAX)
    };
    let other = TableDecl::new("l", Kind::Lpm, &[], &[], 0);
    let p = Program {
        tables: vec![
            TableInit { decl, rows: vec![row, Row::exact(&[], &[])], owner: 0 },
            TableInit { decl: other, rows: Vec::new(), owner: 0 },
        ],
        ..Program::default()
    };
    let text = round_trip(&p);
    let expected = "\
table r rules (a:8) -> (b:64) capacity 4294967295 held 4 group b sharing read-mostly configured shared all
  row (5, 0xa000000&0xff000000, 80..0x10000, 0xffffffffffffffffffffffffffffffff/128, any) -> \
(1000, 0xffffffffffffffffffffffffffffffff) priority -2147483648 ttl 18446744073709551615
  row () -> ()
table l lpm () -> () capacity 0
";
    assert_eq!(text.split_once('\n').unwrap().1, expected);
}

#[test]
fn values_defined_nowhere_keep_their_types() {
    let text = "values v2:64\nb0:\n  v0:8 = 1\n  finish\n";
    let p = parse(text).unwrap();
    assert_eq!(p.types, [Type::Int(W8), Type::Int(weir_ir::Width::W1), Type::Int(W64)]);
    let text = round_trip(&p);
    assert!(text.ends_with("values v1:1, v2:64\n"), "{text}");
}

#[test]
fn comments_spaces_and_order_do_not_matter() {
    let tidy = "element a\nports 1 -> 0\nevent e\nentry packet 0 -> b0\nb0:\n v0:32 = 0x10\n notify e (v0)\n drop X\n";
    let untidy = "; all\r\nentry packet 0->b0\r\n\r\n  b0 : ; one\r\nv0 : 32=16\r\nnotify \"e\"( v0 );x\r\n drop \"X\"\nevent \
                  e\nports 1->0\nelement a";
    assert_eq!(parse(tidy), parse(untidy));
    assert!(parse(tidy).is_ok());
}

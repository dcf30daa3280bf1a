//! Texts that are no programs.

use weir_ir::parse;

fn errors(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(p) => panic!("accepted:\n{p}"),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// The errors of a block after `TABLE`, which is one line.
fn in_block(code: &str) -> Vec<String> {
    errors(&format!("table map exact (src:32) -> (n:32) capacity 8\nb0:\n{code}\nfinish"))
}

#[test]
fn each_error_says_where_and_what_would_be_right() {
    let cases = [
        (
            "tabel x",
            "line 3, column 1: expected an operation, the end of the block, or the next block, found 'tabel'",
        ),
        ("v0:7 = 1", "line 3, column 4: 7 bits: a width is 1, 8, 16, 32, 64 or 128"),
        (
            "v0:x = 1",
            "line 3, column 4: expected a type (a number of bits, or 'entry' and a table), found 'x'",
        ),
        (
            "v0:8 = v1",
            "line 3, column 8: expected a number or an operation with a result (add, load, get, …), found 'v1'",
        ),
        ("  pull v9", "line 3, column 8: v9 is defined nowhere: 'v9:BITS = …' would define it"),
        ("fork copy to b7", "line 3, column 14: there is no block b7: there are 1"),
        (
            "store lan+2, v0",
            "line 3, column 7: expected a layer (data, mac, net, transport, cursor), anno or meta, found 'lan'",
        ),
        ("store net, v0", "line 3, column 10: expected '+', found ','"),
        (
            "store meta.x, v0",
            "line 3, column 12: expected one of packet_type, in_port, timestamp, flow_hash, checksum, segment_size, provenance, found 'x'",
        ),
        ("v0:32 = size mapp", "line 3, column 14: there is no table mapp; there are map"),
        ("notify x ()", "line 3, column 8: there is no event x; no event is declared"),
        (
            "v0:8 = 0x1g",
            "line 3, column 8: '0x1g' is no number: digits or 0x and hexadecimal digits, at most 128 bits",
        ),
        ("pull 4294967296", "line 3, column 6: 4294967296 is too large: a number of bytes has 32 bits"),
        ("unmark net net", "line 3, column 12: expected the end of the line, found 'net'"),
        ("drop \"x", "line 3, column 6: the name has no closing '\"' on this line"),
        ("é = 1", "line 3, column 1: 'é' cannot stand here; a name of such characters needs quotes"),
        ("v4000000000:8 = 1", "line 3, column 1: v4000000000: numbers of values are below 1048576"),
        ("v99999999999:8 = 1", "line 3, column 1: the number of a value has at most 32 bits"),
        (
            "values v0:entry map\nv1:32 = get v0.m",
            "line 4, column 16: table map has no value field 'm'; there are: n",
        ),
        ("v0:32 = 1\nv0:8 = 1", "line 4, column 1: v0 has another type above: 32 bits"),
        ("v0:32 = 1\nset v0.n, v0", "line 4, column 5: v0 is a number: only an entry has fields"),
        ("v0:1 = 1\nswitch v0 { 1: b0 }", "line 4, column 19: expected ',', found '}'"),
        ("finish\n", "line 5, column 1: the block has ended above: 'b1:' would start the next"),
    ];
    for (code, expected) in cases {
        assert_eq!(in_block(code)[0], expected, "{code}");
    }
}

#[test]
fn errors_in_declarations() {
    let cases = [
        (
            "hello",
            "line 1, column 1: expected a declaration (element, ports, table, row, event, entry, values) or a block (b0:), found 'hello'",
        ),
        (
            "ports 1 -> 1 plain a",
            "line 1, column 20: expected the number of an exit where only bytes are read, found 'a'",
        ),
        ("ports 1 -> 1\nports 2 -> 2", "line 2, column 1: the numbers of ports stand above already"),
        ("row (1) -> (2)", "line 1, column 1: a row belongs to the table above it, and there is none"),
        (
            "table t hash",
            "line 1, column 9: expected a kind of table (exact, lpm, rules, array), found 'hash'",
        ),
        (
            "table t lpm (a:32) -> () capacity 1 hold 2",
            "line 1, column 37: expected held, group, sharing, configured, counting, shared, of or the end of the line, found 'hold'",
        ),
        (
            "table t lpm (a:32) -> (b:8) capacity 1 group c",
            "line 1, column 46: table t has no value field 'c'; there are: b",
        ),
        (
            "table t lpm (a:32; b) -> () capacity 1",
            "line 1, column 18: expected ',' or ')', found the end of the line",
        ),
        (
            "table t lpm () -> () capacity 1\nrow (1 2) -> ()",
            "line 2, column 8: expected ',' or ')', found the number 2",
        ),
        (
            "table t rules () -> () capacity 1\nrow () -> () priority -2147483649",
            "line 2, column 23: -2147483649 is beyond 32 bits with a sign",
        ),
        (
            "element a\nelement b\nevent x",
            "line 3, column 8: expected 'of' and an element, as there are several, found the end of the line",
        ),
        ("element a\nelement b\nevent x of c", "line 3, column 12: there is no element c; there are a, b"),
        (
            "element a\nelement b\nevent x of a\nevent x of b\nb0 of a:\nnotify x ()\nfinish",
            "line 6, column 8: there are several events x: write ELEMENT/x, or # and a number",
        ),
        ("event x\nb0:\nnotify #1 ()\nfinish", "line 3, column 8: there is no event #1: there are 1"),
        (
            "entry packte 0 -> b0",
            "line 1, column 7: expected packet, timer, expire or message, found 'packte'",
        ),
        (
            "b1:\nfinish",
            "line 1, column 1: expected b0, found b1: blocks stand in the order of their numbers",
        ),
        (
            "b0:\nfinish\nb0:\nfinish",
            "line 3, column 1: expected b1, found b0: blocks stand in the order of their numbers",
        ),
        ("b0\nfinish", "line 1, column 3: expected ':', found the end of the line"),
        (
            "b0:\nb1:\nfinish",
            "line 1, column 1: b0 has no end: its last line is a jump, emit, drop or the like",
        ),
        ("b0:", "line 1, column 1: b0 has no end: its last line is a jump, emit, drop or the like"),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text)[0], expected, "{text}");
    }
}

#[test]
fn goes_on_after_an_error() {
    let text = "\
table map exat (src:32) -> (n:32) capacity 8
entry packet 0 -> b9
b0:
  v0:entry mapp = index map[0]
  v1:32 = get v0.n
  pull v7
  jump
b1:
  lookup map (v1) hit b0
";
    let found = parse(text).unwrap_err();
    // The bad type of v0 and the block that has no end because of an error are not reported again.
    assert_eq!(found.iter().map(|e| e.line).collect::<Vec<_>>(), [1, 2, 4, 6, 7, 9]);
    assert!(found.iter().all(|e| e.column > 1));
}

#[test]
fn reports_the_first_errors_only() {
    let found = parse(&"?\n".repeat(100_000)).unwrap_err();
    assert_eq!(found.len(), 100);
    assert_eq!(found[99].line, 100);
}

#[test]
fn messages_stay_short() {
    let long = "x".repeat(1 << 20);
    let text = format!(
        "table {long} lpm ({long}:8) -> ({long}:8) capacity 1 group {long}x\n\
         event {long}\nevent {long}\nb0:\nnotify {long} ()\nvalues v0:entry {long}x\n\
         drop \"{long}\nv0:8 = 1{long}\nv0:8 = {long}\ntable t {long}\n{long}"
    );
    let found = parse(&text).unwrap_err();
    assert_eq!(found.iter().map(|e| e.line).collect::<Vec<_>>(), [1, 5, 6, 7, 8, 9, 10, 11]);
    for e in &found {
        assert!(e.message.chars().count() < 300, "line {}", e.line);
    }
}

//! Every operation and every end.

use std::collections::HashSet;
use std::mem::discriminant;

use weir_ir::program::{
    Amount, BinOp, Block, BlockId, CmpOp, End, Event, Op, Program, TableId, TableInit, Target, Type, Value,
};
use weir_ir::{Layer, MetaField, Reason, TableDecl, Width};
use weir_table::Kind;

use crate::round_trip;

/// `v0` is a number, `v1` an entry of `map`, `v2` is what operations define.
fn program(blocks: Vec<Block>) -> Program {
    let decl = TableDecl::new(
        "map",
        Kind::Exact,
        &[("src", Width::W32), ("port", Width::W16)],
        &[("n", Width::W32)],
        9,
    );
    Program {
        elements: vec!["e".into()],
        outputs: 2,
        types: vec![Type::Int(Width::W32), Type::Entry(TableId(0)), Type::Int(Width::W32)],
        tables: vec![TableInit { decl, rows: Vec::new(), owner: 0 }],
        events: vec![Event { name: "seen".into(), owner: 0 }],
        blocks,
        ..Program::default()
    }
}

const V: Value = Value(0);
const E: Value = Value(1);
const DST: Value = Value(2);

fn to(args: &[Value]) -> Target {
    Target { block: BlockId(1), args: args.to_vec() }
}

fn ops() -> Vec<(Op, &'static str)> {
    let (dst, a, b, entry) = (DST, V, V, E);
    let (layer, table) = (Layer::Net, TableId(0));
    let mut list = vec![
        (Op::Const { dst, value: 70_000 }, "v2:32 = 70000"),
        (Op::Const { dst, value: u128::MAX }, "v2:32 = 0xffffffffffffffffffffffffffffffff"),
        (Op::Not { dst, a }, "v2:32 = not v0"),
        (Op::Resize { dst, a }, "v2:32 = resize v0"),
        (Op::Select { dst, cond: V, a, b }, "v2:32 = select v0 ? v0 : v0"),
        (Op::Store { layer, off: 3, src: V }, "store net+3, v0"),
        (Op::Rest { dst, layer }, "v2:32 = rest net"),
        (Op::Distance { dst, from: layer, to: Layer::Cursor }, "v2:32 = distance net to cursor"),
        (Op::SetMark { layer, base: Layer::Data, off: Amount::Const(14) }, "mark net = data+14"),
        (Op::SetMark { layer, base: Layer::Data, off: Amount::Value(V) }, "mark net = data+v0"),
        (Op::ClearMark { layer }, "unmark net"),
        (Op::LoadAnno { dst, off: 4 }, "v2:32 = load anno+4"),
        (Op::StoreAnno { off: 4, src: V }, "store anno+4, v0"),
        (Op::StoreMeta { field: MetaField::FlowHash, src: V }, "store meta.flow_hash, v0"),
        (Op::Checksum { dst, layer, start: 0, end: Amount::Const(20) }, "v2:32 = checksum net 0..20"),
        (Op::Checksum { dst, layer, start: 2, end: Amount::Value(V) }, "v2:32 = checksum net 2..v0"),
        (Op::Sum16 { dst, a, b }, "v2:32 = sum16 v0, v0"),
        (Op::CopyBytes { to: (layer, 0), from: (Layer::Mac, 6), len: 6 }, "copy net+0 from mac+6 bytes 6"),
        (
            Op::CompareBytes { dst, a: (layer, 0), b: (Layer::Mac, 6), len: 6 },
            "v2:32 = compare net+0 with mac+6 bytes 6",
        ),
        (
            Op::FindByte { dst, layer, start: 1, end: Amount::Value(V), byte: V },
            "v2:32 = find v0 in net 1..v0",
        ),
        (Op::Hash { dst, args: vec![a, b] }, "v2:32 = hash (v0, v0)"),
        (Op::Hash { dst, args: vec![] }, "v2:32 = hash ()"),
        (Op::Random { dst }, "v2:32 = random"),
        (Op::Now { dst }, "v2:32 = now"),
        (Op::Pull { n: Amount::Const(14) }, "pull 14"),
        (Op::Pull { n: Amount::Value(V) }, "pull v0"),
        (Op::Trim { len: V }, "trim v0"),
        (Op::Index { dst: E, table, index: 3 }, "v1:entry map = index map[3]"),
        (Op::Get { dst, entry, field: 0 }, "v2:32 = get v1.n"),
        (Op::Get { dst, entry, field: 7 }, "v2:32 = get v1.#7"),
        (Op::Get { dst, entry: V, field: 7 }, "v2:32 = get v0.#7"),
        (Op::GetKey { dst, entry, field: 1 }, "v2:32 = key v1.port"),
        (Op::Set { entry, field: 0, src: V }, "set v1.n, v0"),
        (Op::Touch { entry, after: V }, "touch v1, v0"),
        (Op::Link { a: E, b: E }, "link v1, v1"),
        (Op::Remove { entry }, "remove v1"),
        (Op::GroupCount { dst, table, value: V }, "v2:32 = count map group v0"),
        (Op::Size { dst, table }, "v2:32 = size map"),
        (Op::Fork { copy: true, target: to(&[]) }, "fork copy to b1"),
        (Op::Fork { copy: false, target: to(&[V]) }, "fork empty to b1(v0)"),
        (Op::Release { entry, target: to(&[V, V]) }, "release v1 to b1(v0, v0)"),
        (Op::Notify { event: 0, args: vec![V], packet: false }, "notify seen (v0)"),
        (Op::Notify { event: 0, args: vec![], packet: true }, "notify seen () with packet"),
    ];
    use BinOp::{Add, And, Mul, Or, Rem, Shl, Shr, Sub, Xor};
    for (op, text) in [Add, Sub, Mul, Rem, And, Or, Xor, Shl, Shr].into_iter().zip([
        "v2:32 = add v0, v0",
        "v2:32 = sub v0, v0",
        "v2:32 = mul v0, v0",
        "v2:32 = rem v0, v0",
        "v2:32 = and v0, v0",
        "v2:32 = or v0, v0",
        "v2:32 = xor v0, v0",
        "v2:32 = shl v0, v0",
        "v2:32 = shr v0, v0",
    ]) {
        list.push((Op::Binary { op, dst, a, b }, text));
    }
    for (op, text) in [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le].into_iter().zip([
        "v2:32 = eq v0, v0",
        "v2:32 = ne v0, v0",
        "v2:32 = lt v0, v0",
        "v2:32 = le v0, v0",
    ]) {
        list.push((Op::Compare { op, dst, a, b }, text));
    }
    for (layer, text) in Layer::ALL.into_iter().zip([
        "v2:32 = load data+8",
        "v2:32 = load mac+8",
        "v2:32 = load net+8",
        "v2:32 = load transport+8",
        "v2:32 = load cursor+8",
    ]) {
        list.push((Op::Load { dst, layer, off: 8 }, text));
    }
    for (field, text) in MetaField::ALL.into_iter().zip([
        "v2:32 = load meta.packet_type",
        "v2:32 = load meta.in_port",
        "v2:32 = load meta.timestamp",
        "v2:32 = load meta.flow_hash",
        "v2:32 = load meta.checksum",
        "v2:32 = load meta.segment_size",
        "v2:32 = load meta.provenance",
    ]) {
        list.push((Op::LoadMeta { dst, field }, text));
    }
    list
}

fn ends() -> Vec<(End, &'static str)> {
    let (table, entry, key) = (TableId(0), E, vec![V, V]);
    let (n, ok, fail) = (Amount::Const(4), to(&[]), to(&[V]));
    let (full, over) = (fail.clone(), fail.clone());
    let block = BlockId(1);
    vec![
        (End::Jump(fail.clone()), "jump b1(v0)"),
        (End::Branch { cond: V, then: fail.clone(), other: ok.clone() }, "branch v0 ? b1(v0) : b1"),
        (
            End::Switch {
                value: V,
                cases: vec![(5, fail.clone()), (80_001, ok.clone())],
                default: ok.clone(),
            },
            "switch v0 { 5: b1(v0), 0x13881: b1, else: b1 }",
        ),
        (End::Switch { value: V, cases: vec![], default: ok.clone() }, "switch v0 { else: b1 }"),
        (End::Again { header: fail.clone(), exit: ok.clone() }, "again b1(v0) exit b1"),
        (
            End::Require { layer: Layer::Net, n, ok: ok.clone(), fail: fail.clone() },
            "require net 4 ok b1 fail b1(v0)",
        ),
        (
            End::Require { layer: Layer::Data, n: Amount::Value(V), ok: ok.clone(), fail: fail.clone() },
            "require data v0 ok b1 fail b1(v0)",
        ),
        (End::Push { n, ok: ok.clone(), fail: fail.clone() }, "push 4 ok b1 fail b1(v0)"),
        (End::Unpull { n, ok: ok.clone(), fail: fail.clone() }, "unpull 4 ok b1 fail b1(v0)"),
        (End::Put { n, ok: ok.clone(), fail: fail.clone() }, "put 4 ok b1 fail b1(v0)"),
        (
            End::Lookup { table, key: key.clone(), hit: ok.clone(), miss: fail },
            "lookup map (v0, v0) hit b1 miss b1(v0)",
        ),
        (
            End::Insert { table, key: key.clone(), ok: ok.clone(), full: full.clone() },
            "insert map (v0, v0) ok b1 full b1(v0)",
        ),
        (
            End::Claim { table, key, hole: 1, lo: V, hi: V, start: V, ok: ok.clone(), full: full.clone() },
            "claim map (v0, v0) hole port in v0..v0 from v0 ok b1 full b1(v0)",
        ),
        (End::Soonest { table, hit: ok.clone(), miss: full.clone() }, "soonest map hit b1 miss b1(v0)"),
        (
            End::Meter { entry, field: 0, cost: V, rate: V, burst: V, ok, over },
            "meter v1.n cost v0 rate v0 burst v0 ok b1 over b1(v0)",
        ),
        (End::Hold { entry, full }, "hold v1 full b1(v0)"),
        (End::Emit { port: 1 }, "emit 1"),
        (End::Drop { reason: Reason::TTL_EXPIRED }, "drop TtlExpired"),
        (End::Drop { reason: Reason::named("no luck") }, "drop \"no luck\""),
        (End::Finish, "finish"),
        (End::Enter { block, back: false }, "enter b1"),
        (End::Enter { block, back: true }, "recirculate b1"),
        (End::Exit { exit: 3 }, "exit 3"),
    ]
}

fn block(params: Vec<Value>, ops: Vec<Op>, end: End) -> Block {
    Block { params, loop_limit: None, ops, end, owner: 0 }
}

#[test]
fn every_operation() {
    let kinds: HashSet<_> = ops().iter().map(|(op, _)| discriminant(op)).collect();
    assert_eq!(kinds.len(), 38, "one line for each variant");
    let all: Vec<Op> = ops().into_iter().map(|(op, _)| op).collect();
    let text =
        round_trip(&program(vec![block(vec![V], all, End::Finish), block(vec![], vec![], End::Finish)]));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let first = lines.iter().position(|l| l.starts_with("b0")).unwrap() + 1;
    for (line, (_, expected)) in lines[first..].iter().zip(ops()) {
        assert_eq!(*line, expected);
    }
}

#[test]
fn every_end() {
    let kinds: HashSet<_> = ends().iter().map(|(end, _)| discriminant(end)).collect();
    assert_eq!(kinds.len(), 19, "one line for each variant");
    let blocks = ends().into_iter().map(|(end, _)| block(vec![], vec![], end)).collect();
    let text = round_trip(&program(blocks));
    for (i, (_, expected)) in ends().into_iter().enumerate() {
        assert!(text.contains(&format!("\nb{i}:\n  {expected}\n")), "{expected}\n{text}");
    }
}

#[test]
fn parameters_and_loops() {
    let mut header = block(vec![V, E], vec![], End::Finish);
    header.loop_limit = Some(8);
    let text = round_trip(&program(vec![header]));
    assert!(text.contains("\nb0(v0:32, v1:entry map) loop 8:\n"), "{text}");
    assert!(text.ends_with("values v2:32\n"), "{text}");
}

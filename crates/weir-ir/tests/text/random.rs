//! Programs and texts that nobody wrote.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir_ir::program::{
    Amount, BinOp, Block, BlockId, CmpOp, End, Entry, EntryKind, Event, Op, Program, Row, TableId, TableInit,
    Target, Type, Value,
};
use weir_ir::{Layer, MetaField, Reason, TableDecl, Width, parse};
use weir_table::{FieldDecl, KeyMatch, Kind, Sharing};

use crate::round_trip;

const ELEMENTS: u32 = 3;
const TABLES: u32 = 4;
const EVENTS: u32 = 3;
const BLOCKS: u32 = 6;
const VALUES: u32 = 12;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-c]{1,2}", 1 => "v[0-9]", 1 => "[a-z0-9@/. \"\\\\-]{0,6}", 1 => ".{0,4}"]
}

fn value() -> impl Strategy<Value = Value> {
    (0..VALUES).prop_map(Value)
}

fn values() -> impl Strategy<Value = Vec<Value>> {
    vec(value(), 0..4)
}

fn table() -> impl Strategy<Value = TableId> {
    (0..TABLES).prop_map(TableId)
}

fn layer() -> impl Strategy<Value = Layer> {
    select(&Layer::ALL[..])
}

fn width() -> impl Strategy<Value = Width> {
    select(&Width::ALL[..])
}

fn number() -> impl Strategy<Value = u128> {
    prop_oneof![0..100u128, any::<u32>().prop_map(u128::from), any::<u128>()]
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![any::<u32>().prop_map(Amount::Const), value().prop_map(Amount::Value)]
}

fn block_id() -> impl Strategy<Value = BlockId> {
    (0..BLOCKS).prop_map(BlockId)
}

fn to() -> impl Strategy<Value = Target> {
    (block_id(), values()).prop_map(|(block, args)| Target { block, args })
}

fn effect() -> BoxedStrategy<Op> {
    let place = || (layer(), any::<u32>());
    let v = value;
    prop_oneof![
        (layer(), any::<u32>(), v()).prop_map(|(layer, off, src)| Op::Store { layer, off, src }),
        (layer(), layer(), amount()).prop_map(|(layer, base, off)| Op::SetMark { layer, base, off }),
        layer().prop_map(|layer| Op::ClearMark { layer }),
        (any::<u32>(), v()).prop_map(|(off, src)| Op::StoreAnno { off, src }),
        (select(&MetaField::ALL[..]), v()).prop_map(|(field, src)| Op::StoreMeta { field, src }),
        (place(), place(), any::<u32>()).prop_map(|(to, from, len)| Op::CopyBytes { to, from, len }),
        amount().prop_map(|n| Op::Pull { n }),
        v().prop_map(|len| Op::Trim { len }),
        (v(), 0..4u32, v()).prop_map(|(entry, field, src)| Op::Set { entry, field, src }),
        (v(), v()).prop_map(|(entry, after)| Op::Touch { entry, after }),
        (v(), v()).prop_map(|(a, b)| Op::Link { a, b }),
        v().prop_map(|entry| Op::Remove { entry }),
        (any::<bool>(), to()).prop_map(|(copy, target)| Op::Fork { copy, target }),
        (v(), to()).prop_map(|(entry, target)| Op::Release { entry, target }),
        (0..EVENTS, values(), any::<bool>()).prop_map(|(event, args, packet)| Op::Notify {
            event,
            args,
            packet
        }),
    ]
    .boxed()
}

fn result() -> BoxedStrategy<Op> {
    use BinOp::{Add, And, Mul, Or, Rem, Shl, Shr, Sub, Xor};
    let place = || (layer(), any::<u32>());
    let v = value;
    let binary = select(vec![Add, Sub, Mul, Rem, And, Or, Xor, Shl, Shr]);
    let compare = select(vec![CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le]);
    prop_oneof![
        (v(), number()).prop_map(|(dst, value)| Op::Const { dst, value }),
        (binary, v(), v(), v()).prop_map(|(op, dst, a, b)| Op::Binary { op, dst, a, b }),
        (compare, v(), v(), v()).prop_map(|(op, dst, a, b)| Op::Compare { op, dst, a, b }),
        (v(), v()).prop_map(|(dst, a)| Op::Not { dst, a }),
        (v(), v()).prop_map(|(dst, a)| Op::Resize { dst, a }),
        (v(), v(), v(), v()).prop_map(|(dst, cond, a, b)| Op::Select { dst, cond, a, b }),
        (v(), v(), v()).prop_map(|(dst, a, b)| Op::Sum16 { dst, a, b }),
        (v(), layer(), any::<u32>()).prop_map(|(dst, layer, off)| Op::Load { dst, layer, off }),
        (v(), any::<u32>()).prop_map(|(dst, off)| Op::LoadAnno { dst, off }),
        (v(), select(&MetaField::ALL[..])).prop_map(|(dst, field)| Op::LoadMeta { dst, field }),
        (v(), layer()).prop_map(|(dst, layer)| Op::Rest { dst, layer }),
        (v(), layer(), layer()).prop_map(|(dst, from, to)| Op::Distance { dst, from, to }),
        (v(), layer(), any::<u32>(), amount()).prop_map(|(dst, layer, start, end)| Op::Checksum {
            dst,
            layer,
            start,
            end
        }),
        (v(), place(), place(), any::<u32>()).prop_map(|(dst, a, b, len)| Op::CompareBytes {
            dst,
            a,
            b,
            len
        }),
        (v(), layer(), any::<u32>(), amount(), v()).prop_map(|(dst, layer, start, end, byte)| Op::FindByte {
            dst,
            layer,
            start,
            end,
            byte
        }),
        (v(), values()).prop_map(|(dst, args)| Op::Hash { dst, args }),
        v().prop_map(|dst| Op::Random { dst }),
        v().prop_map(|dst| Op::Now { dst }),
        (v(), table(), any::<u32>()).prop_map(|(dst, table, index)| Op::Index { dst, table, index }),
        (v(), v(), 0..4u32).prop_map(|(dst, entry, field)| Op::Get { dst, entry, field }),
        (v(), v(), 0..4u32).prop_map(|(dst, entry, field)| Op::GetKey { dst, entry, field }),
        (v(), table(), v()).prop_map(|(dst, table, value)| Op::GroupCount { dst, table, value }),
        (v(), table()).prop_map(|(dst, table)| Op::Size { dst, table }),
    ]
    .boxed()
}

fn end() -> BoxedStrategy<End> {
    let v = value;
    prop_oneof![
        to().prop_map(End::Jump),
        (v(), to(), to()).prop_map(|(cond, then, other)| End::Branch { cond, then, other }),
        (v(), vec((number(), to()), 0..4), to()).prop_map(|(value, cases, default)| End::Switch {
            value,
            cases,
            default
        }),
        (to(), to()).prop_map(|(header, exit)| End::Again { header, exit }),
        (layer(), amount(), to(), to()).prop_map(|(layer, n, ok, fail)| End::Require { layer, n, ok, fail }),
        (amount(), to(), to()).prop_map(|(n, ok, fail)| End::Push { n, ok, fail }),
        (amount(), to(), to()).prop_map(|(n, ok, fail)| End::Unpull { n, ok, fail }),
        (amount(), to(), to()).prop_map(|(n, ok, fail)| End::Put { n, ok, fail }),
        (table(), values(), to(), to()).prop_map(|(table, key, hit, miss)| End::Lookup {
            table,
            key,
            hit,
            miss
        }),
        (table(), values(), to(), to()).prop_map(|(table, key, ok, full)| End::Insert {
            table,
            key,
            ok,
            full
        }),
        (table(), values(), 0..4u32, (v(), v(), v()), to(), to()).prop_map(
            |(table, key, hole, (lo, hi, start), ok, full)| End::Claim {
                table,
                key,
                hole,
                lo,
                hi,
                start,
                ok,
                full
            }
        ),
        (table(), to(), to()).prop_map(|(table, hit, miss)| End::Soonest { table, hit, miss }),
        (v(), 0..4u32, (v(), v(), v()), to(), to()).prop_map(
            |(entry, field, (cost, rate, burst), ok, over)| End::Meter {
                entry,
                field,
                cost,
                rate,
                burst,
                ok,
                over
            }
        ),
        (v(), to()).prop_map(|(entry, full)| End::Hold { entry, full }),
        any::<u32>().prop_map(|port| End::Emit { port }),
        name().prop_map(|n| End::Drop { reason: Reason::named(&n) }),
        Just(End::Finish),
        (block_id(), any::<bool>()).prop_map(|(block, back)| End::Enter { block, back }),
        any::<u32>().prop_map(|exit| End::Exit { exit }),
    ]
    .boxed()
}

fn block() -> impl Strategy<Value = Block> {
    let op = prop_oneof![effect(), result()];
    (values(), any::<Option<u32>>(), vec(op, 0..5), end(), 0..ELEMENTS)
        .prop_map(|(params, loop_limit, ops, end, owner)| Block { params, loop_limit, ops, end, owner })
}

fn key_match() -> impl Strategy<Value = KeyMatch> {
    prop_oneof![
        number().prop_map(KeyMatch::Exact),
        (number(), number()).prop_map(|(v, m)| KeyMatch::Mask(v, m)),
        (number(), number()).prop_map(|(lo, hi)| KeyMatch::Range(lo, hi)),
        (number(), any::<u32>()).prop_map(|(v, len)| KeyMatch::Prefix(v, len)),
        Just(KeyMatch::ANY),
    ]
}

fn table_init() -> impl Strategy<Value = TableInit> {
    let fields = || vec((name(), width()).prop_map(|(name, width)| FieldDecl { name, width }), 0..4);
    let kinds = select(vec![Kind::Exact, Kind::Lpm, Kind::Rules, Kind::Array]);
    let sharing = select(vec![Sharing::Local, Sharing::ReadMostly, Sharing::Shared, Sharing::Owner]);
    let row = (vec(key_match(), 0..3), vec(number(), 0..3), any::<i32>(), any::<Option<u64>>())
        .prop_map(|(key, value, priority, ttl)| Row { key, value, priority, ttl });
    let options =
        (any::<u32>(), any::<Option<u32>>(), sharing, any::<Option<bool>>(), prop::option::of(name()));
    let decl = (name(), kinds, fields(), fields(), any::<u32>(), options).prop_map(
        |(name, kind, key, value, capacity, (held, group, sharing, configured, shared_name))| TableDecl {
            name,
            kind,
            key,
            value,
            capacity,
            held,
            group,
            sharing,
            configured: configured.is_some(),
            counts: configured == Some(true),
            shared_name,
        },
    );
    (decl, vec(row, 0..3), 0..ELEMENTS).prop_map(|(decl, rows, owner)| TableInit { decl, rows, owner })
}

fn entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![
        any::<u32>().prop_map(|port| EntryKind::Packet { port }),
        any::<u64>().prop_map(|every| EntryKind::Timer { every }),
        table().prop_map(|table| EntryKind::Expire { table }),
        name().prop_map(|name| EntryKind::Message { name }),
    ];
    (kind, block_id(), 0..ELEMENTS).prop_map(|(kind, block, owner)| Entry { kind, block, owner })
}

/// Programs whose numbers are in range; most of them make no sense.
fn program() -> impl Strategy<Value = Program> {
    let ty = prop_oneof![width().prop_map(Type::Int), table().prop_map(Type::Entry)];
    let event = (name(), 0..ELEMENTS).prop_map(|(name, owner)| Event { name, owner });
    let declared = (
        vec(name(), ELEMENTS as usize),
        vec(table_init(), TABLES as usize),
        vec(event, EVENTS as usize),
        vec(entry(), 0..4),
    );
    let blocks = vec(block(), BLOCKS as usize);
    let ports = (any::<u32>(), any::<u32>(), vec(any::<u32>(), 0..3));
    (declared, ports, vec(ty, VALUES as usize), blocks).prop_map(
        |((elements, tables, events, entries), (inputs, outputs, plain_exits), types, blocks)| Program {
            elements,
            inputs,
            outputs,
            plain_exits,
            types,
            tables,
            events,
            entries,
            blocks,
        },
    )
}

/// Pieces of the language, so that random texts get past the first word.
fn piece() -> impl Strategy<Value = String> {
    let words = "element ports plain table row event entry values packet timer expire message exact lpm capacity held group \
                 sharing of v0 v1 v9 b0 b1 b9 v0:8 v1:entry map net data anno meta load store add get key set index \
                 lookup insert claim meter hold hit miss ok full over fail require push switch branch jump again else \
                 loop exit emit drop fork copy to notify with 0 1 0x10 99999999999 b0: b1: ( ) { } [ ] , : -> .. . + & / \
                 = ? # - ; \" \\";
    let words: Vec<&str> = words.split_whitespace().chain(["\n", "\n", "\r", "\u{0}"]).collect();
    prop_oneof![9 => select(words).prop_map(String::from), 1 => ".{0,3}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs_round_trip(p in program()) {
        round_trip(&p);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        _ = parse(&text);
    }

    /// Whatever is accepted prints as the program that it is.
    #[test]
    fn no_words_panic(pieces in vec(piece(), 0..60)) {
        if let Ok(p) = parse(&pieces.join(" ")) {
            round_trip(&p);
        }
    }

    /// Lines lost, doubled and moved, characters changed: never a panic, errors in the order of the lines.
    #[test]
    fn no_damaged_program_panics(
        p in program(),
        changes in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8, piece()), 1..6),
    ) {
        let mut lines: Vec<String> = p.to_string().lines().map(String::from).collect();
        for (at, other, how, piece) in changes {
            let (i, j) = (at.index(lines.len()), other.index(lines.len()));
            match how {
                0 if lines.len() > 1 => _ = lines.remove(i),
                1 => lines.swap(i, j),
                2 => lines.insert(i, lines[j].clone()),
                _ => {
                    let chars: Vec<char> = lines[i].chars().collect();
                    let cut = other.index(chars.len() + 1);
                    let (head, tail) = chars.split_at(cut);
                    lines[i] = head.iter().copied().chain(piece.chars()).chain(tail.iter().skip(1).copied()).collect();
                }
            }
        }
        let text = lines.join("\n");
        match parse(&text) {
            Ok(p) => _ = round_trip(&p),
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                prop_assert!(errors.windows(2).all(|w| w[0].line < w[1].line));
                let lines: Vec<&str> = text.lines().collect();
                for e in errors {
                    prop_assert!(e.column <= lines[e.line - 1].chars().count() + 1);
                }
            }
        }
    }
}

//! What may be compiled, and how it is run.

use weir_ir::program::{MetaField, Op};
use weir_ir::{Builder, Layer, Program, Reason, TableDecl, Width::*};
use weir_jit::differential::{Recorder, Seen, tables_of};
use weir_jit::{Compiled, JitError, Runner};
use weir_packet::{ANNO_LEN, Packet};
use weir_table::{Kind, Row};

use crate::programs::one;

#[test]
fn unchecked_programs_are_refused() {
    let program = one(1, |b, _| {
        b.load(W8, Layer::Data, 0);
        b.emit(0);
    });
    let error = Compiled::new(&program).unwrap_err();
    assert!(matches!(&error, JitError::Unchecked(e) if !e.is_empty()));
    assert!(error.to_string().contains("require"), "{error}");
}

/// Runs 50 packets of up to two bytes, one at a time and as a batch: both have to show the same.
fn assert_batch_is_as_one_at_a_time(program: &Program) {
    let compiled = Compiled::new(program).unwrap();
    let entry = program.packet_entry(0, 0).unwrap();
    let packets = || (0..50u8).map(|i| Packet::from_bytes(&vec![i / 5; usize::from(i) % 3]).unwrap());
    let mut runner = Runner::default();
    let (mut alone, mut tables) = (Recorder::new(0), tables_of(program));
    for p in packets() {
        compiled.run(&mut runner, &mut tables, &mut alone, 1, entry, &[], Some(p));
    }
    let (mut together, mut batch) = (Recorder::new(0), packets().collect());
    compiled.run_batch(&mut runner, &mut tables_of(program), &mut together, 1, entry, &mut batch);
    assert!(batch.is_empty());
    assert!(!alone.seen.is_empty());
    // Between what the program tells on the way and how packets end, the order may be another.
    let kinds: [fn(&Seen) -> bool; 3] = [
        |s| matches!(s, Seen::Notify { .. }),
        |s| matches!(s, Seen::Exit { .. }),
        |s| matches!(s, Seen::Dropped { .. }),
    ];
    for kind in kinds {
        let of = |seen: &[Seen]| seen.iter().filter(|s| kind(s)).cloned().collect::<Vec<_>>();
        assert!(of(&alone.seen) == of(&together.seen));
    }
    assert_eq!(alone.seen.len(), together.seen.len());
}

#[test]
fn a_batch_is_as_one_at_a_time() {
    assert_batch_is_as_one_at_a_time(&one(2, |b, event| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let n = b.load(W8, Layer::Data, 0);
        b.notify_packet(event, &[n]);
        b.fork(|b| b.emit(1));
        b.emit(0);
    }));
}

#[test]
fn a_batch_stops_for_what_a_new_key_starts() {
    assert_batch_is_as_one_at_a_time(&one(2, |b, event| {
        let known = b.table(TableDecl::new("known", Kind::Exact, &[("key", W8)], &[("n", W32)], 9), vec![]);
        let count = b.live("count", W32, 0);
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let key = b.load(W8, Layer::Data, 0);
        b.lookup(
            known,
            &[key],
            |_, _| {},
            |b| {
                b.insert(known, &[key], |b| b.drop(Reason::new("Full")));
                b.fork(|b| {
                    let n = b.read_cell(count);
                    let n = b.add(n, 1);
                    b.write_cell(count, n);
                    b.emit(1);
                });
            },
        );
        // How many the packets before have started.
        let n = b.read_cell(count);
        b.notify(event, &[key, n]);
        b.emit(0);
    }));
}

#[test]
fn a_batch_without_packets_looks_nothing_up() {
    let mut b = Builder::new("Flows", 1, 1);
    let rows = (0..20_000_u32).map(|i| Row::exact(&[i.into()], &[1])).collect();
    let flows = b.table(TableDecl::new("flows", Kind::Exact, &[("a", W32)], &[("n", W64)], 20_000), rows);
    b.input(0, |b| {
        b.require(Layer::Data, 4, Reason::TRUNCATED);
        let a = b.load(W32, Layer::Data, 0);
        b.find(flows, &[a], |b| b.drop(Reason::NO_MATCH));
        b.emit(0);
    });
    let program = b.finish();
    let compiled = Compiled::new(&program).unwrap();
    compiled.look_ahead(&program).unwrap();
    let entry = program.packet_entry(0, 0).unwrap();
    let (mut runner, mut tables, mut host) = (Runner::default(), tables_of(&program), Recorder::new(0));
    assert!(tables.table(0).is_large());
    let found = Packet::from_bytes(&19_999_u32.to_be_bytes()).unwrap();
    for mut packets in [vec![], vec![found]] {
        compiled.run_batch(&mut runner, &mut tables, &mut host, 1, entry, &mut packets);
    }
    assert!(matches!(&host.seen[..], [Seen::Exit { .. }]), "{:?}", host.seen);
}

#[test]
fn what_code_writes_is_not_in_the_next_packet_of_its_buffer() {
    let program = one(1, |b, _| {
        b.require(Layer::Data, 2, Reason::TRUNCATED);
        let [which, v] = [0, 1].map(|at| b.load(W8, Layer::Data, at));
        let both = b.load(W16, Layer::Data, 0);
        let hash = b.resize(W32, v);
        let case = |b: &mut Builder, n: u32, write: &dyn Fn(&mut Builder)| {
            let is = b.eq(which, n);
            b.if_else(is, write, |_| {});
        };
        case(b, 0, &|b| b.store_anno(40, v));
        case(b, 1, &|b| b.store_meta(MetaField::FlowHash, hash));
        case(b, 2, &|b| b.store_anno(3, v));
        // On both sides of a border, behind one of them.
        case(b, 3, &|b| {
            b.store_anno(0, v);
            b.store_anno(31, both);
        });
        b.emit(0);
    });
    let compiled = Compiled::new(&program).unwrap();
    let entry = program.packet_entry(0, 0).unwrap();
    let (mut runner, mut tables) = (Runner::default(), tables_of(&program));
    for bytes in [[0, 7], [1, 7], [2, 7], [3, 7], [4, 7]] {
        let (mut host, mut batch) = (Recorder::new(0), vec![Packet::from_bytes(&bytes).unwrap()]);
        let place = batch[0].bytes().as_ptr();
        compiled.run_batch(&mut runner, &mut tables, &mut host, 1, entry, &mut batch);
        let [Seen::Exit { packet, .. }] = &host.seen[..] else { panic!("{:?}", host.seen) };
        let written = packet.anno.iter().map(|&a| u32::from(a)).sum::<u32>() + packet.hash;
        assert_eq!(written, [7, 7, 7, 17, 0][usize::from(bytes[0])]);
        Packet::from_frames(&[&bytes[..]], &mut batch).unwrap();
        assert_eq!(batch[0].bytes().as_ptr(), place, "the same buffer");
        assert_eq!((batch[0].anno, batch[0].hash), ([0; ANNO_LEN], 0));
    }
}

#[test]
fn threads_share_compiled_code() {
    let program = one(1, |b, _| b.emit(0));
    let compiled = Compiled::new(&program).unwrap();
    let entry = program.packet_entry(0, 0).unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                let (mut runner, mut tables, mut host) =
                    (Runner::default(), tables_of(&program), Recorder::new(0));
                for _ in 0..100 {
                    let p = Packet::from_bytes(&[1, 2]).unwrap();
                    compiled.run(&mut runner, &mut tables, &mut host, 0, entry, &[], Some(p));
                }
                assert_eq!(host.seen.len(), 100);
            });
        }
    });
}

#[test]
#[should_panic(expected = "is no entry")]
fn runs_start_at_entries_only() {
    let program = one(1, |b, _| b.fork(|b| b.emit(0)));
    let fork = program.blocks.iter().find_map(|b| match b.ops.first() {
        Some(Op::Fork { target, .. }) => Some(target.block),
        _ => None,
    });
    let compiled = Compiled::new(&program).unwrap();
    let packet = Packet::from_bytes(&[]).unwrap();
    let (mut tables, mut host) = (tables_of(&program), Recorder::new(0));
    compiled.run(&mut Runner::default(), &mut tables, &mut host, 0, fork.unwrap(), &[], Some(packet));
}

#[test]
fn the_code_can_be_read() {
    let program = one(1, |b, _| b.emit(0));
    let text = weir_jit::disassemble(&program).unwrap();
    assert!(text.contains("ret"), "{text}");
}

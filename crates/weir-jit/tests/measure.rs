//! Code with probes does the same, and says which elements packets pass; code can be read beside its program.

use weir_ir::program::{BlockId, EntryKind, Program};
use weir_ir::testing::Case;
use weir_ir::{Builder, Layer, Reason, Width::*, Wire, link, optimize, retain_entries};
use weir_jit::differential::{Recorder, Seen, tables_of};
use weir_jit::{Compiled, Instruction, Origin, Runner, Spent, listing};
use weir_packet::Packet;

/// Three elements in a row; the second drops packets whose first byte is odd.
fn chain() -> Program {
    let count = |name: &str| {
        let mut b = Builder::new(name, 1, 1);
        let cell = b.live("n", W64, 0);
        b.input(0, |b| {
            let n = b.read_cell(cell);
            let n = b.add(n, 1);
            b.write_cell(cell, n);
            b.emit(0);
        });
        b.finish()
    };
    let mut b = Builder::new("even", 1, 1);
    b.input(0, |b| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let first = b.load(W8, Layer::Data, 0);
        let last = b.and(first, 1);
        let odd = b.eq(last, 1);
        b.when(odd, |b| b.drop(Reason::DENIED));
        b.emit(0);
    });
    let programs = [count("before"), b.finish(), count("after")];
    let wire = |element: usize, _| match element {
        2 => Some(Wire::Exit(0)),
        _ => Some(Wire::Input { element: element + 1, port: 0 }),
    };
    let mut program = link(&programs, wire, 1).unwrap();
    retain_entries(&mut program, |e| e.owner == 0);
    optimize(program)
}

fn packets(n: u8) -> Vec<Packet> {
    (0..n).map(|i| Packet::from_bytes(&[i, 0, 0]).unwrap()).collect()
}

#[test]
fn a_profile_names_what_packets_pass() {
    let program = chain();
    let compiled = Compiled::new(&program).unwrap();
    let entry = program.packet_entry(0, 0).unwrap();
    let (mut runner, mut tables, mut host) = (Runner::default(), tables_of(&program), Recorder::new(0));
    let mut run = |runner: &mut Runner, times: usize| {
        for _ in 0..times {
            compiled.run_batch(runner, &mut tables, &mut host, 1, entry, &mut packets(33));
        }
    };
    run(&mut runner, 3);
    assert_eq!(runner.profile(), [], "nothing is measured without probes");

    compiled.instrument(&program).unwrap();
    run(&mut runner, 1);
    // The first packet of a batch is not counted; of 1 to 32 half are odd.
    let visits = |s: &[Spent]| s.iter().map(|s| s.packets).collect::<Vec<_>>();
    assert_eq!(visits(&runner.profile()), [32, 32, 16]);
    run(&mut runner, 40);
    let [before, even, after] = runner.profile()[..] else {
        panic!("three elements: {:?}", runner.profile())
    };
    assert_eq!((before.packets, 2 * after.packets), (even.packets, before.packets));
    assert!(before.packets > 32 && before.packets < 41 * 32, "some batches are measured: {before:?}");
    assert!([before, even, after].iter().map(|s| s.cycles).sum::<u64>() > 0);

    // A packet alone counts as well, and its way is new even if the element is the one of the last.
    let mut runner = Runner::default();
    let one = Packet::from_bytes(&[1]).unwrap();
    compiled.run(&mut runner, &mut tables, &mut host, 1, entry, &[], Some(one));
    assert_eq!(visits(&runner.profile()), [1, 1, 0]);
}

#[test]
fn probes_change_nothing() {
    let mut measured = 0;
    for seed in 0..200 {
        let Case { program, packets } = Case::of_seed(seed);
        let compiled = [Compiled::new(&program).unwrap(), Compiled::new(&program).unwrap()];
        compiled[1].instrument(&program).unwrap();
        let inputs = program.entries.iter().filter(|e| matches!(e.kind, EntryKind::Packet { .. }));
        let entries: Vec<BlockId> = inputs.map(|e| e.block).collect();
        let mut hosts = [Recorder::new(seed), Recorder::new(seed)];
        for (compiled, host) in compiled.iter().zip(&mut hosts) {
            let (mut runner, mut tables) = (Runner::default(), tables_of(&program));
            for round in 0..4 {
                for &entry in &entries {
                    let mut batch = packets.iter().filter_map(weir_ir::testing::Start::packet).collect();
                    compiled.run_batch(&mut runner, &mut tables, host, 1000 * round, entry, &mut batch);
                }
            }
            measured += runner.profile().iter().map(|s| s.packets).sum::<u64>();
        }
        // Between what a program tells on the way and how packets end, the order may be another.
        let [plain, probed] = hosts.map(|h| {
            let (told, ended): (Vec<Seen>, Vec<Seen>) =
                h.seen.into_iter().partition(|s| matches!(s, Seen::Notify { .. }));
            (told, ended)
        });
        assert!(plain == probed, "Case::of_seed({seed})");
    }
    assert!(measured > 1000, "{measured}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn instructions_name_their_operations() {
    let program = chain();
    let code = listing(&program).unwrap();
    let mut next = 0;
    for i in &code {
        assert_eq!(i.offset, Some(next), "no gap before: {i:?}");
        next += i.bytes.len() as u32;
        assert!(!i.text.contains("(bad)"), "{i:?}");
    }
    let of =
        |wanted: Origin| -> Vec<&Instruction> { code.iter().filter(|i| i.origin == Some(wanted)).collect() };
    // The byte that is loaded, the counters that are stored, and the ways out.
    let mut found = (0, 0);
    for (b, block) in program.blocks.iter().enumerate() {
        for (op, text) in block.ops.iter().enumerate().map(|(i, op)| (i, format!("{op:?}"))) {
            let there = of(Origin { block: BlockId(b as u32), op });
            if text.starts_with("Load ") || text.starts_with("Set ") {
                assert!(there.iter().any(|i| i.text.contains('[')), "{text}: {there:?}");
                found.0 += 1;
            }
        }
        let end = of(Origin { block: BlockId(b as u32), op: block.ops.len() });
        found.1 += usize::from(!end.is_empty());
    }
    assert!(found.0 == 3 && found.1 >= 3, "{found:?}");
    assert!(code.iter().any(|i| i.origin.is_none() && i.text.starts_with("ret")));
    for i in &code {
        let Some(Origin { block, op }) = i.origin else { continue };
        assert!(op <= program.block(block).ops.len(), "{i:?}");
    }
}

/// A switch of many ways becomes a jump table, which is data between the code.
#[cfg(target_arch = "x86_64")]
#[test]
fn jump_tables_are_shown_as_data_and_calls_by_name() {
    let mut b = Builder::new("Ways", 1, 0);
    let event = b.event("way");
    b.input(0, |b| {
        b.require(Layer::Data, 1, Reason::TRUNCATED);
        let first = b.load(W8, Layer::Data, 0);
        let cases: Vec<u128> = (0..20).collect();
        b.switch(first, &cases, |b, case| {
            let n = b.constant(W32, case.map_or(7, |i| 3 * i as u128));
            b.notify(event, &[n]);
            b.drop(Reason::DENIED);
        });
    });
    let code = listing(&optimize(b.finish())).unwrap();
    assert!(code.iter().any(|i| i.text.ends_with("; weir_notify")), "{code:#?}");
    assert!(code.iter().all(|i| !i.text.contains("(bad)")), "{code:#?}");
    let starts: Vec<u32> = code.iter().filter_map(|i| i.offset).collect();
    let table: Vec<&Instruction> = code.iter().filter(|i| i.text.starts_with("dd ")).collect();
    assert!(table.len() >= 20, "{code:#?}");
    for i in table {
        let way = i.text.rsplit("0x").next().and_then(|h| u32::from_str_radix(h, 16).ok()).unwrap();
        assert!(starts.contains(&way), "{i:?} leads to an instruction");
    }
}

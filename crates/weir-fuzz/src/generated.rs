//! Programs that the input chooses, with packets.

use weir_ir::program::EntryKind;
use weir_ir::testing::{Start, graph};
use weir_ir::{Interpreter, Program, check, optimize};
use weir_jit::differential::{Recorder, Seen, Step, assert_same, tables_of};
use weir_table::SetSnapshot;

/// Most packets of an input.
const MAX_PACKETS: usize = 64;

/// A graph of generated programs and packets for it: interpreted, compiled and optimised it means the same.
///
/// The input: how many elements, 24 bytes of wiring, for each element half its length and its choices, and then for
/// each packet its length, to which input, how much later (2 to that power, in nanoseconds), four marks, annotations,
/// and its bytes.
pub fn generated(data: &[u8]) {
    let Some((program, steps)) = case(data) else { return };
    assert_eq!(check(&program), Ok(()), "{program}");
    let best = optimize(program.clone());
    let expected = assert_same(&program, 7, &steps);
    let found = assert_same(&best, 7, &steps);
    for (i, (a, b)) in expected.iter().zip(&found).enumerate() {
        let same = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same((&program, a), (&best, b)));
        assert!(same, "step {i} ({:?}): {a:#?}, optimised {b:#?}\n{program}\nbecame\n{best}", steps[i]);
    }
    let (expected, found) = (content(&program, &steps), content(&best, &steps));
    assert!(expected.tables == found.tables, "tables {expected:#?}, optimised {found:#?}\n{program}");
}

/// Blocks have other numbers after the passes; their elements stay. Not all of a packet is read behind a plain exit.
fn is_same((p, a): (&Program, &Seen), (q, b): (&Program, &Seen)) -> bool {
    match (a, b) {
        (
            Seen::Dropped { at, reason, packet },
            Seen::Dropped { at: other_at, reason: other_reason, packet: other },
        ) => p.block(*at).owner == q.block(*other_at).owner && reason == other_reason && packet == other,
        (Seen::Exit { port, packet }, Seen::Exit { port: other_port, packet: other })
            if p.plain_exits.contains(port) =>
        {
            port == other_port && packet.clone().plain() == other.clone().plain()
        }
        _ => a == b,
    }
}

fn case(data: &[u8]) -> Option<(Program, Vec<Step>)> {
    let (&shape, rest) = data.split_first()?;
    let (wiring, mut rest) = rest.split_at_checked(24)?;
    let mut choices = Vec::new();
    for _ in 0..1 + shape % 3 {
        let (&len, behind) = rest.split_first()?;
        let (these, behind) = behind.split_at(usize::from(len).saturating_mul(2).min(behind.len()));
        choices.push(these.to_vec());
        rest = behind;
    }
    let program = graph(&choices, wiring, shape >= 128);
    let (mut steps, mut now, mut packets) = (Vec::new(), 1000, 0);
    while let [len, to, later, m0, m1, m2, m3, anno, bytes @ ..] = rest
        && packets < MAX_PACKETS
    {
        let (bytes, behind) = bytes.split_at(usize::from(*len).min(bytes.len()));
        now += 1_u64 << (later % 40);
        let start = Start { bytes: bytes.to_vec(), marks: [*m0, *m1, *m2, *m3], anno: *anno };
        let entry = &program.entries[usize::from(*to) % program.entries.len()];
        let owner = entry.owner;
        steps.push(match &entry.kind {
            EntryKind::Packet { port } => Step::Packet { owner, port: *port, packet: start.packet()?, now },
            EntryKind::Timer { .. } => Step::Timer { owner, now },
            EntryKind::Message { name } => {
                let args = [u128::from(now) & 0xffff_ffff, u128::from(*anno)];
                Step::Message { owner, name: name.clone(), args: args.to_vec(), now }
            }
            EntryKind::Expire { .. } => Step::Expire { now },
        });
        rest = behind;
        packets += 1;
    }
    steps.push(Step::Expire { now: now + 50 });
    Some((program, steps))
}

/// What the tables hold after the steps, interpreted.
fn content(program: &Program, steps: &[Step]) -> SetSnapshot {
    let mut tables = tables_of(program);
    let (mut interpreter, mut host) = (Interpreter::default(), Recorder::new(7));
    let mut last = 0;
    for step in steps {
        let (wanted, args, packet, now): (_, &[u128], _, _) = match step {
            Step::Packet { owner, port, packet, now } => {
                ((*owner, EntryKind::Packet { port: *port }), &[], Some(packet.copy()), *now)
            }
            Step::Message { owner, name, args, now } => {
                ((*owner, EntryKind::Message { name: name.clone() }), args, None, *now)
            }
            Step::Timer { owner, now } => {
                last = *now;
                for e in &program.entries {
                    if e.owner == *owner && matches!(e.kind, EntryKind::Timer { .. }) {
                        interpreter.run(program, &mut tables, &mut host, last, e.block, &[], None);
                    }
                }
                continue;
            }
            Step::Expire { now } => {
                last = *now;
                interpreter.expire(program, &mut tables, &mut host, last);
                continue;
            }
        };
        last = now;
        if let Some(e) = program.entries.iter().find(|e| e.owner == wanted.0 && e.kind == wanted.1) {
            interpreter.run(program, &mut tables, &mut host, now, e.block, args, packet);
        }
    }
    tables.snapshot(last, |t| t.to_string())
}

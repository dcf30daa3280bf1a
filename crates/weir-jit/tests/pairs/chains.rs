//! Random chains of arithmetic with constants: what folding works on.

use weir_ir::testing::Start;
use weir_ir::{Builder, Layer, Program, Reason, Width::*};

use crate::hold::{Random, Rounds};

/// How many programs there are.
pub const PROGRAMS: u64 = 200;
const PACKETS: usize = 20;

/// A program that shows the results of some chains, each after every operation, and what happens to it.
pub fn program(seed: u64) -> (Program, Rounds) {
    let mut random = Random(seed);
    let mut b = Builder::new("Chains", 1, 1);
    let event = b.event("seen");
    b.input(0, |b| {
        b.require(Layer::Data, 32, Reason::TRUNCATED);
        for width in [W8, W16, W32, W64, W128] {
            let mut v = b.load(width, Layer::Data, random.pick(&[0, 3, 16]));
            // Chains of what one kind of operation undoes or adds to, and of everything.
            let (from, to) = random.pick(&[(0, 2), (0, 2), (2, 5), (5, 7), (0, 9)]);
            for _ in 0..8 {
                let near = random.pick(&[0_u128, 1, 2, 3, 7, 8, 0x55, u128::MAX, u128::MAX - 1]);
                let any = u128::from(random.next());
                let c = b.constant(width, random.pick(&[near, any]) & width.max());
                v = match from + random.below(to - from) {
                    0 => b.add(v, c),
                    1 => b.sub(v, c),
                    2 => b.and(v, c),
                    3 => b.or(v, c),
                    4 => b.xor(v, c),
                    5 => b.shl(v, c),
                    6 => b.shr(v, c),
                    7 => b.mul(c, v),
                    _ => b.rem(v, c),
                };
                b.notify(event, &[v]);
            }
        }
        b.emit(0);
    });
    let program = b.finish();
    let packets = (0..PACKETS).map(|_| {
        let byte = |random: &mut Random| random.pick(&[0, 1, 0x7f, 0x80, 0xff, 0x13]);
        Start { bytes: (0..40).map(|_| byte(&mut random)).collect(), marks: [200; 4], anno: 0 }
    });
    let packets = packets.collect();
    let rounds = Rounds::new(&program, packets, &mut random);
    (program, rounds)
}

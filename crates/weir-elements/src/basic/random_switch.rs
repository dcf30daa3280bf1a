use super::switch::{emit_on, spread};
use crate::prelude::*;

element! {
    /// Sends each packet to one of its outputs, at random. All outputs are equally likely.
    RandomSwitch: "1/1-", "h/h";
    example "Idle -> s :: RandomSwitch; s [0] -> Discard; s [1] -> Discard; s [2] -> Discard;";
}

fn program(_: &RandomSwitch, b: &mut Builder) {
    b.input(0, |b| {
        let random = b.random();
        let port = spread(b, random, b.outputs());
        emit_on(b, port, &Reason::UNCONNECTED);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    #[test]
    fn every_output_gets_its_share() {
        for outputs in [1, 3, 4, 7] {
            let mut e = Harness::new("RandomSwitch", &[], 1, outputs);
            let mut used = vec![0; outputs as usize];
            (0..700).for_each(|_| used[e.send(0, b"x")[0].out().0 as usize] += 1);
            let fair = 700 / outputs;
            assert!(used.iter().all(|&n| n >= fair / 2 && n <= fair * 2), "{used:?}");
        }
    }
}

//! Switches.

use weir_net::EtherAddr;
use weir_net::build::ethernet;

use super::frames::{Frames, Popularity, Random};
use super::{Expected, FRAME_LEN, FRAMES, Workload};

/// An EtherType for experiments (IEEE 802).
const EXPERIMENT: u16 = 0x88b5;
const SENDER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);

fn station(i: u32) -> EtherAddr {
    let [a, b, c, d] = i.to_be_bytes();
    EtherAddr([2, 1, a, b, c, d])
}

/// A switch that has learnt `macs` stations behind its port 1; a sender behind port 0 sends to all alike.
pub fn switch(macs: usize) -> Workload {
    let hello = ethernet(EtherAddr([0xff; 6]), SENDER, EXPERIMENT, &[0; 50]);
    let answers = (0..macs).map(|i| ethernet(SENDER, station(i as u32), EXPERIMENT, &[0; 50]));
    let before = vec![(0, Frames::of([hello].into_iter())), (1, Frames::of(answers))];
    let text = "out :: Output; in :: Input; s :: EtherSwitch;\n\
                in [0] -> [0] s; in [1] -> [1] s; s [0] -> [0] out; s [1] -> [1] out;";
    let frames = frames(macs, macs.max(FRAMES));
    let expected = Expected::exact(&frames, |f| (1, f.to_vec()));
    Workload { before, ..Workload::new(text.into(), frames, expected) }
}

/// So many frames from one sender to `macs` stations, to all alike.
pub fn frames(macs: usize, count: usize) -> Frames {
    let mut r = Random::new(0x12);
    let to = Popularity::Uniform.choose(count, macs);
    Frames::of(to.into_iter().map(|i| {
        let payload: Vec<u8> = (14..FRAME_LEN).map(|_| r.below(256) as u8).collect();
        ethernet(station(i), SENDER, EXPERIMENT, &payload)
    }))
}

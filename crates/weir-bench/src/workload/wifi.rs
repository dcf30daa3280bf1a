//! IEEE 802.11 frames from stations to an access point.

use super::frames::{Frames, Popularity, Random};
use super::{Expected, Workload, frames_of};

const BSSID: [u8; 6] = [2, 0, 0, 0, 0xaa, 1];
const DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// 802.11 header without QoS field, then LLC and SNAP with IPv4 inside.
const HEADER: usize = 24;
const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];

/// Frames of `len` bytes from `stations` through `elements`, none of them a duplicate. Sequence numbers of a station
/// count up from 0 and start again with the frames.
pub fn wifi(elements: &str, len: usize, stations: usize) -> Workload {
    let mut r = Random::new(0x80211);
    let count = frames_of(len).max(2 * stations);
    let mut numbers = vec![0_u16; stations];
    let senders = Popularity::Uniform.choose(count, stations);
    let frames = Frames::of(senders.into_iter().map(|i| {
        let number = &mut numbers[i as usize];
        let sequence = (*number % 4096) << 4;
        *number += 1;
        let [a, b, c, d] = i.to_be_bytes();
        // Data, to the distribution system; no duration.
        let mut frame = vec![8, 1, 0, 0];
        frame.extend([BSSID, [2, 2, a, b, c, d], DESTINATION].concat());
        frame.extend(sequence.to_le_bytes());
        frame.extend(SNAP);
        frame.resize_with(len, || r.below(256) as u8);
        frame
    }));
    let decap = elements.contains("WifiDecap");
    let expected = Expected::exact(&frames, |f| {
        let ethernet = || [&f[16..22], &f[10..16], &f[HEADER + 6..]].concat();
        (0, if decap { ethernet() } else { f.to_vec() })
    });
    Workload::new(format!("Input -> {elements} -> Output;"), frames, expected)
}

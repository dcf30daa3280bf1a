//! IEEE 802.11: duplicates, and the conversion to Ethernet.

use crate::class::{Class, class};

mod wifi_decap;
mod wifi_dupe_filter;

pub(crate) const CLASSES: &[Class] =
    &[class::<wifi_decap::WifiDecap>("wifi"), class::<wifi_dupe_filter::WifiDupeFilter>("wifi")];

/// Length of the header of a frame with three addresses.
const HEADER: u32 = 24;

/// Frames of the tests.
#[cfg(test)]
mod tests {
    pub(super) const A1: [u8; 6] = [2, 0, 0, 0, 0xa, 1];
    pub(super) const A2: [u8; 6] = [2, 0, 0, 0, 0xb, 2];
    pub(super) const A3: [u8; 6] = [2, 0, 0, 0, 0xc, 3];
    pub(super) const A4: [u8; 6] = [2, 0, 0, 0, 0xd, 4];

    /// A frame with these frame control bytes, sequence and fragment number, and QoS control field if it has one,
    /// that carries IPv4 behind LLC and SNAP.
    pub(super) fn frame(control: [u8; 2], sequence: u16, fragment: u8, payload: &[u8]) -> Vec<u8> {
        let mut f = vec![control[0], control[1], 0x12, 0x34];
        f.extend([A1, A2, A3].concat());
        f.extend((sequence << 4 | u16::from(fragment)).to_le_bytes());
        if control[1] & 3 == 3 {
            f.extend(A4);
        }
        if control[0] & 0x8c == 0x88 {
            f.extend([5, 0]);
        }
        f.extend([0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        f.extend(payload);
        f
    }
}

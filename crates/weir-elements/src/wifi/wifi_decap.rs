use super::HEADER;
use crate::fields::wifi;
use crate::prelude::*;

element! {
    /// Turns IEEE 802.11 data frames into Ethernet frames.
    ///
    /// The 802.11 header and the LLC and SNAP headers (RFC 1042) make space for an Ethernet header with the frame's
    /// destination and source, wherever the direction bits say that these stand, and the type that SNAP gives; the
    /// `mac` mark is set. Frames that are too short for that are dropped (`Truncated`), and so are encrypted ones
    /// (`Encrypted`). Frames of other types than data are not distinguished: put a `Classifier(0/08%0c)` in front.
    /// Aggregates (A-MSDU) are not taken apart.
    WifiDecap: "1/1", "a/a";
    example "Idle -> Classifier(0/08%0c) -> WifiDupeFilter -> WifiDecap -> Discard;";
    params {
        /// Whether frames without LLC and SNAP headers are dropped (`NotSNAP`). If not, they are taken to have some.
        key strict: bool = false,
        /// Whether packets get an Ethernet header.
        key ether: bool = true,
        /// An older name of ETHER.
        key push_eth: Option<bool> = None,
        /// Kept for Click configurations: `weir trace` shows packets.
        key debug: bool = false,
    }
}

/// LLC and SNAP headers, of which the last two bytes are the type.
const LLC: u32 = 8;
/// Bits of the frame control field, as it is read in network byte order.
const QOS_DATA_MASK: u32 = 0x8c00;
const QOS_DATA: u32 = 0x8800;
const PROTECTED: u32 = 0x0040;
const DIRECTION: u32 = 0x0003;
/// Offsets of the addresses.
const A1: u32 = 4;
const A2: u32 = 10;
const A3: u32 = 16;
const A4: u32 = 24;
/// Offsets of destination and source, by direction: none, to, from, and from and to the distribution system.
const PLACES: [(u32, u32); 4] = [(A1, A2), (A3, A2), (A1, A3), (A3, A4)];
/// The address in eight bytes that start with one.
const ADDRESS: u64 = !0xffff;

fn program(e: &WifiDecap, b: &mut Builder) {
    b.input(0, |b| {
        b.require(Layer::Data, HEADER + LLC, Reason::TRUNCATED);
        let control = wifi::CONTROL.load(b);
        let protected = b.and(control, PROTECTED);
        let protected = b.ne(protected, 0);
        b.when(protected, |b| b.drop(Reason::new("Encrypted")));
        let kind = b.and(control, QOS_DATA_MASK);
        let qos = b.eq(kind, QOS_DATA);
        let direction = b.and(control, DIRECTION);
        let cases: Vec<u128> = (0..3).collect();
        b.switch(direction, &cases, |b, case| {
            let direction = case.unwrap_or(3);
            let len = if direction == 3 { HEADER + 6 } else { HEADER };
            b.if_else(qos, |b| decap(e, b, direction, len + 2), |b| decap(e, b, direction, len));
        });
    });
}

/// Replaces a header of that length and what follows.
fn decap(e: &WifiDecap, b: &mut Builder, direction: usize, len: u32) {
    b.require(Layer::Data, len + LLC, Reason::TRUNCATED);
    if e.strict {
        let llc = b.load(W64, Layer::Data, len);
        let llc = b.shr(llc, 16);
        let other = b.ne(llc, 0xaaaa_0300_0000_u64);
        b.when(other, |b| b.drop(Reason::new("NotSNAP")));
    }
    if !e.push_eth.unwrap_or(e.ether) {
        b.pull(len + LLC);
        return b.emit(0);
    }
    // The type stands where an Ethernet header has it. Two wide writes put the addresses in front.
    let (dst, src) = PLACES[direction];
    let (dst, src) = (b.load(W64, Layer::Data, dst), b.load(W64, Layer::Data, src));
    let dst = b.and(dst, ADDRESS);
    let src_front = b.shr(src, 48);
    let front = b.or(dst, src_front);
    let src_rest = b.shr(src, 16);
    let back = b.resize(W32, src_rest);
    b.pull(len + LLC - ETHER_LEN);
    b.set_mark(Layer::Mac, Layer::Data, 0);
    b.store(Layer::Data, 0, front);
    b.store(Layer::Data, 8, back);
    b.emit(0);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{A1, A2, A3, A4, frame};
    use crate::testing::{Harness, Outcome};
    use weir_packet::Layer;

    fn ethernet(dst: [u8; 6], src: [u8; 6], payload: &[u8]) -> Vec<u8> {
        [&dst[..], &src, &[8, 0], payload].concat()
    }

    #[test]
    fn each_direction_has_its_addresses() {
        for (direction, dst, src) in [(0, A1, A2), (1, A3, A2), (2, A1, A3), (3, A3, A4)] {
            // Data and QoS data, and flags that do not matter.
            for control in [[0x08, direction], [0x88, direction], [0x08, direction | 0xb8]] {
                for strict in ["STRICT true", "STRICT false"] {
                    let out =
                        Harness::new("WifiDecap", &[strict], 1, 1).send(0, &frame(control, 7, 0, b"payload"));
                    assert_eq!(out[0].out().1, ethernet(dst, src, b"payload"), "{control:x?}");
                    let Outcome::Out(0, p) = &out[0] else { unreachable!() };
                    assert_eq!(p.from_layer(Layer::Mac), p.bytes());
                }
            }
        }
    }

    #[test]
    fn only_qos_data_has_a_qos_field() {
        // A beacon and the like have none, whatever bit 7 says.
        let mut e = Harness::new("WifiDecap", &[], 1, 1);
        for control in [0x80, 0x84, 0x8c, 0x00] {
            assert_eq!(e.send(0, &frame([control, 0], 7, 0, b"x"))[0].out().1, ethernet(A1, A2, b"x"));
        }
    }

    #[test]
    fn what_cannot_be_turned_is_dropped() {
        for control in [[8, 0], [0x88, 0], [8, 3], [0x88, 3]] {
            let whole = frame(control, 7, 0, b"");
            let mut e = Harness::new("WifiDecap", &[], 1, 1);
            for n in 0..whole.len() {
                assert_eq!(e.send(0, &whole[..n])[0].reason(), "Truncated", "{control:x?} {n}");
            }
            assert_eq!(e.send(0, &whole)[0].out().1.len(), 14);
            assert_eq!(
                e.send(0, &frame([control[0], control[1] | 0x40], 7, 0, b""))[0].reason(),
                "Encrypted"
            );
            let mut other = whole.clone();
            let at = whole.len() - 6;
            other[at] = 4;
            let mut strict = Harness::new("WifiDecap", &["STRICT true"], 1, 1);
            assert_eq!(strict.send(0, &other)[0].reason(), "NotSNAP");
            assert_eq!(e.send(0, &other)[0].out().1.len(), 14);
        }
    }

    #[test]
    fn the_ethernet_header_can_be_left_out() {
        for args in [&["ETHER false"][..], &["PUSH_ETH false"]] {
            let mut e = Harness::new("WifiDecap", args, 1, 1);
            for control in [[8, 1], [0x88, 3]] {
                assert_eq!(e.send(0, &frame(control, 7, 0, b"payload"))[0].out().1, b"payload");
            }
        }
    }
}

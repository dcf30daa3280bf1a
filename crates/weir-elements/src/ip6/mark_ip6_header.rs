use super::chain::{HEADER_LEN, walk};
use crate::ip::checks::check_offset;
use crate::prelude::*;

element! {
    /// Marks where the IPv6 header of packets starts, without a check.
    ///
    /// Sets `net`, and `transport` to what follows the extension headers, as far as these can be followed. Packets that
    /// are too short for a header pass without marks: elements that need a header drop them. `CheckIP6Header` checks the
    /// header, cuts the packet to its length and sets the destination annotation.
    MarkIP6Header: "1/1", "a/a";
    example "Idle -> MarkIP6Header(14) -> IP6Print -> Discard;";
    params {
        /// Where the header starts, in bytes.
        pos offset: u32 = 0,
    }
    check |e| check_offset(e.offset);
}

fn program(e: &MarkIP6Header, b: &mut Builder) {
    b.input(0, |b| {
        b.require_or(Layer::Data, e.offset + HEADER_LEN, |b| {
            b.clear_mark(Layer::Net);
            b.clear_mark(Layer::Transport);
            b.emit(0);
        });
        b.set_mark(Layer::Net, Layer::Data, e.offset);
        walk(b, |b, _| {
            b.clear_mark(Layer::Transport);
            b.emit(0);
        });
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::samples::{addr, packet, udp};
    use crate::testing::{Harness, Outcome};
    use weir_packet::{Layer, Packet};

    fn marks(offset: &str, bytes: &[u8]) -> (Option<u32>, Option<u32>) {
        let mut p = Packet::from_bytes(bytes).unwrap();
        let start = p.data();
        // Marks of an outer header.
        p.set_layer(Layer::Net, Some(start));
        p.set_layer(Layer::Transport, Some(start));
        let out = Harness::new("MarkIP6Header", &[offset], 1, 1).send_packet(0, p);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(p.bytes(), bytes);
        let at = |layer| p.layer(layer).map(|at| at - p.data());
        (at(Layer::Net), at(Layer::Transport))
    }

    #[test]
    fn the_header_and_what_follows_are_marked() {
        assert_eq!(marks("0", &udp(b"")), (Some(0), Some(40)));
        let mut p = vec![0; 14];
        p.extend(packet(addr(1), addr(2), 60, &[17, 0, 1, 4, 0, 0, 0, 0]));
        assert_eq!(marks("14", &p), (Some(14), Some(62)));
    }

    #[test]
    fn what_is_not_there_is_not_marked() {
        for n in 0..40 {
            assert_eq!(marks("0", &udp(b"")[..n]), (None, None));
        }
        let p = packet(addr(1), addr(2), 60, &[17, 1, 1, 4, 0, 0, 0, 0]);
        assert_eq!(marks("0", &p), (Some(0), None));
    }
}

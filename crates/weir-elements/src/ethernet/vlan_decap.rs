use crate::fields::{ether, vlan};
use crate::prelude::*;

element! {
    /// Removes the VLAN tag of Ethernet frames that have one (IEEE 802.1Q), and sets the `mac` mark.
    ///
    /// The tag control information goes to the VLAN annotation, which is 0 for frames without tag. Frames that are cut
    /// before the end of the header or tag are dropped (`Truncated`).
    VLANDecap: "1/1", "a/a";
    example "Idle -> VLANDecap -> Discard;";
    params {
        /// Whether the VLAN annotation is set.
        pos anno: bool = true,
        /// The Ethernet type that says that a tag follows: 0x8100, or 0x88a8 for service VLANs (IEEE 802.1ad).
        key ethertype: u16 = 0x8100,
    }
}

fn program(e: &VLANDecap, b: &mut Builder) {
    b.input(0, |b| {
        b.require(Layer::Data, ETHER_LEN, Reason::TRUNCATED);
        let kind = ether::TYPE.load(b);
        let tagged = b.eq(kind, e.ethertype);
        if e.anno {
            let none = b.constant(W16, 0_u16);
            b.store_anno(anno::VLAN_TCI, none);
        }
        b.when(tagged, |b| {
            b.require(Layer::Data, ETHER_LEN + 4, Reason::TRUNCATED);
            if e.anno {
                let tci = vlan::TCI.load(b);
                b.store_anno(anno::VLAN_TCI, tci);
            }
            b.copy_bytes((Layer::Data, 4), (Layer::Data, 0), 12);
            b.pull(4);
        });
        b.set_mark(Layer::Mac, Layer::Data, 0);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_net::build::{DST_ETHER, SRC_ETHER, ethernet, tag_vlan};
    use weir_packet::{Layer, Packet};

    fn plain() -> Vec<u8> {
        ethernet(DST_ETHER, SRC_ETHER, 0x0800, b"payload")
    }

    fn tagged() -> Vec<u8> {
        let mut frame = plain();
        tag_vlan(&mut frame, 0x6005);
        frame
    }

    /// Bytes and VLAN annotation of a frame that had annotation bytes `ee ee`.
    fn decap(args: &[&str], frame: &[u8]) -> (Vec<u8>, [u8; 2]) {
        let at = crate::anno::VLAN_TCI as usize;
        let mut p = Packet::from_bytes(frame).unwrap();
        p.anno[at..at + 2].fill(0xee);
        let out = Harness::new("VLANDecap", args, 1, 1).send_packet(0, p);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(p.from_layer(Layer::Mac), p.bytes());
        (p.bytes().to_vec(), [p.anno[at], p.anno[at + 1]])
    }

    #[test]
    fn the_tag_goes_to_the_annotation() {
        assert_eq!(decap(&[], &tagged()), (plain(), [0x60, 0x05]));
        assert_eq!(decap(&[], &plain()), (plain(), [0, 0]));
        assert_eq!(decap(&["false"], &tagged()), (plain(), [0xee, 0xee]));
        assert_eq!(decap(&["ETHERTYPE 0x88a8"], &tagged()), (tagged(), [0, 0]));
    }

    #[test]
    fn cut_frames_are_dropped() {
        let mut e = Harness::new("VLANDecap", &[], 1, 1);
        for n in 0..18 {
            assert_eq!(e.send(0, &tagged()[..n])[0].reason(), "Truncated");
        }
        assert_eq!(e.send(0, &tagged()[..18])[0].out().1, &plain()[..14]);
    }
}

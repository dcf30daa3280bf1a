use super::vlan_encap::NativeVlan;
use crate::fields::{ether, vlan};
use crate::prelude::*;

element! {
    /// Removes the Ethernet header of packets, with its VLAN tag if it has one (IEEE 802.1Q).
    ///
    /// The `mac` mark is set to where the header was, and the VLAN annotation to the tag control information, or to
    /// `NATIVE_VLAN` if there is no tag. If that is negative, packets without tag leave on output 1, or are dropped
    /// (`NoTag`). Packets that end within the header are dropped (`Truncated`).
    StripEtherVLANHeader: "1/1-2", "a/ah";
    example "Idle -> StripEtherVLANHeader -> CheckIPHeader -> Discard;";
    params {
        /// The VLAN of packets without tag, or -1.
        pos native_vlan: NativeVlan = NativeVlan(0) => "0",
    }
}

fn program(e: &StripEtherVLANHeader, b: &mut Builder) {
    b.input(0, |b| {
        b.require(Layer::Data, ETHER_LEN, Reason::TRUNCATED);
        let kind = ether::TYPE.load(b);
        let tagged = b.eq(kind, ethertype::VLAN);
        b.when(tagged, |b| {
            b.require(Layer::Data, ETHER_LEN + 4, Reason::TRUNCATED);
            let tci = vlan::TCI.load(b);
            strip(b, ETHER_LEN + 4, tci);
        });
        match u16::try_from(e.native_vlan.0) {
            Ok(native) => {
                let native = b.constant(W16, native);
                strip(b, ETHER_LEN, native);
            }
            Err(_) => b.emit_or_drop(1, Reason::new("NoTag")),
        }
    });
}

fn strip(b: &mut Builder, header: u32, tci: V) {
    b.store_anno(anno::VLAN_TCI, tci);
    b.set_mark(Layer::Mac, Layer::Data, 0);
    b.pull(header);
    b.emit(0);
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_net::build::{DST_ETHER, SRC_ETHER, ethernet, tag_vlan};

    fn frames() -> [Vec<u8>; 2] {
        let plain = ethernet(DST_ETHER, SRC_ETHER, 0x0800, b"payload");
        let mut tagged = plain.clone();
        tag_vlan(&mut tagged, 0x6005);
        [plain, tagged]
    }

    #[test]
    fn headers_go_with_their_tags() {
        let mut e = Harness::new("StripEtherVLANHeader", &["9"], 1, 2);
        for (frame, tci) in frames().iter().zip([[0, 9], [0x60, 5]]) {
            let out = e.send(0, frame);
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            assert_eq!((p.bytes(), &p.anno[20..22]), (&b"payload"[..], &tci[..]));
        }
    }

    #[test]
    fn without_a_native_vlan_a_tag_is_needed() {
        let [plain, tagged] = frames();
        let mut e = Harness::new("StripEtherVLANHeader", &["-1"], 1, 2);
        assert_eq!(e.send(0, &plain)[0].out(), (1, &plain[..]));
        assert_eq!(e.send(0, &tagged)[0].out().0, 0);
        let mut e = Harness::new("StripEtherVLANHeader", &["-1"], 1, 1);
        assert_eq!(e.send(0, &plain)[0].reason(), "NoTag");
    }

    #[test]
    fn cut_headers_are_dropped() {
        let mut e = Harness::new("StripEtherVLANHeader", &[], 1, 1);
        for n in 0..18 {
            assert_eq!(e.send(0, &frames()[1][..n])[0].reason(), "Truncated");
        }
        let errors = crate::class_named("StripEtherVLANHeader").unwrap().configure(&["4096".into()]);
        assert!(errors.err().unwrap()[0].contains("NATIVE_VLAN: 4096 is out of range"));
    }
}

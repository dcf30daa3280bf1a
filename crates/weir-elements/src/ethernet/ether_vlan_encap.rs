use super::vlan_encap::{NativeVlan, Pcp, Tci, VlanId, change, configured_tci, tag};
use crate::fields::{ether, vlan};
use crate::prelude::*;

element! {
    /// Puts an Ethernet header with a VLAN tag in front of packets (IEEE 802.1Q), and marks it.
    ///
    /// The tag is given as tag control information (`VLAN_TCI`), or as `VLAN_ID` and `VLAN_PCP`, or comes from the VLAN
    /// annotation of each packet (`VLAN_TCI ANNO`). Packets of the native VLAN get a header without tag. Packets that
    /// have no space for the header are dropped (`NoSpace`).
    EtherVLANEncap: "1/1", "a/a";
    example "Idle -> EtherVLANEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02, 5) -> Discard;";
    example "Idle -> SetVLANAnno(7) -> EtherVLANEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02, ANNO) -> Discard;";
    params {
        /// Type of what the packet carries (0x0800 is IPv4).
        pos ethertype: u16,
        /// Source address.
        pos src: EtherAddr,
        /// Destination address.
        pos dst: EtherAddr,
        /// Tag control information: VLAN identifier and priority, or `ANNO`.
        pos vlan_tci: Option<Tci> = None,
        /// Priority, 0 to 7.
        pos vlan_pcp: Pcp = Pcp(0) => "0",
        /// VLAN identifier, 0 to 4095.
        key vlan_id: Option<VlanId> = None,
        /// The VLAN whose packets have no tag, or -1 if all have one.
        key native_vlan: NativeVlan = NativeVlan(0) => "0",
    }
    check |e| match (&e.vlan_tci, &e.vlan_id) {
        (Some(_), Some(_)) => Err("VLAN_ID: VLAN_TCI has one already; specify one of them".into()),
        (None, None) => Err("VLAN_TCI: give VLAN_TCI or VLAN_ID".into()),
        _ => Ok(()),
    };
    handlers {
        /// Type of what the packet carries.
        cell ethertype: u16,
        /// Source address.
        cell src: EtherAddr,
        /// Destination address.
        cell dst: EtherAddr,
        /// Tag control information, or `ANNO`.
        cell vlan_tci: Tci,
        /// VLAN identifier.
        read vlan_id = |_, s| Ok((s.cell("vlan_tci") & 0xfff).to_string()),
        /// Changes the VLAN identifier.
        write vlan_id = |_, s, v| VlanId::from_arg(v).map(|id| change(s, 0xf000, id.0)),
        /// Priority.
        read vlan_pcp = |_, s| Ok((s.cell("vlan_tci") >> 13 & 7).to_string()),
        /// Changes the priority.
        write vlan_pcp = |_, s, v| Pcp::from_arg(v).map(|pcp| change(s, 0x1fff, pcp.0 << 13)),
        /// The VLAN whose packets have no tag, or -1.
        cell native_vlan: NativeVlan,
    }
}

fn program(e: &EtherVLANEncap, b: &mut Builder) {
    let ethertype = b.live("ethertype", W16, e.ethertype.into());
    let src = b.live("src", W64, e.src.bits());
    let dst = b.live("dst", W64, e.dst.bits());
    let tci = b.live("vlan_tci", W32, configured_tci(e.vlan_tci, e.vlan_id, e.vlan_pcp).bits());
    let native = b.live("native_vlan", W32, e.native_vlan.bits());
    b.input(0, |b| {
        let (tci, tagged) = tag(b, tci, native);
        b.if_else(
            tagged,
            |b| {
                b.push(ETHER_LEN + 4);
                ether::TYPE.store_const(b, ethertype::VLAN);
                vlan::TCI.store(b, tci);
                let kind = b.read_cell(ethertype);
                vlan::TYPE.store(b, kind);
            },
            |b| {
                b.push(ETHER_LEN);
                let kind = b.read_cell(ethertype);
                ether::TYPE.store(b, kind);
            },
        );
        b.set_mark(Layer::Mac, Layer::Data, 0);
        for (cell, off) in [(dst, 0), (src, 6)] {
            let addr = b.read_cell(cell);
            store_ether(b, Layer::Data, off, addr);
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use weir_net::build::{DST_ETHER, SRC_ETHER, ethernet, tag_vlan};
    use weir_packet::{Layer, Packet};

    const ADDRESSES: [&str; 3] = ["0x0800", "02:00:00:00:00:01", "02:00:00:00:00:02"];

    fn frame(tci: Option<u16>) -> Vec<u8> {
        let mut frame = ethernet(DST_ETHER, SRC_ETHER, 0x0800, b"payload");
        tci.into_iter().for_each(|tci| tag_vlan(&mut frame, tci));
        frame
    }

    fn encap(more: &[&str]) -> Harness {
        Harness::new("EtherVLANEncap", &[&ADDRESSES[..], more].concat(), 1, 1)
    }

    #[test]
    fn the_header_has_a_tag_but_not_for_the_native_vlan() {
        for (more, tci) in [
            (&["5"][..], Some(5)),
            (&["5", "3"], Some(0x6005)),
            (&["VLAN_ID 5", "VLAN_PCP 1"], Some(0x2005)),
            (&["5", "NATIVE_VLAN 5"], None),
            (&["0"], None),
            (&["0", "NATIVE_VLAN -1"], Some(0)),
        ] {
            let out = encap(more).send(0, b"payload");
            assert_eq!(out[0].out().1, frame(tci), "{more:?}");
            let Outcome::Out(_, p) = &out[0] else { unreachable!() };
            assert_eq!(p.from_layer(Layer::Mac), frame(tci));
        }
    }

    #[test]
    fn the_tag_may_come_from_the_annotation_and_all_can_change() {
        let mut e = encap(&["ANNO"]);
        let mut p = Packet::from_bytes(b"payload").unwrap();
        p.anno[20..22].copy_from_slice(&[0xa0, 0x07]);
        assert_eq!(e.send_packet(0, p)[0].out().1, frame(Some(0xa007)));
        assert_eq!((e.read("vlan_tci"), e.read("src")), ("ANNO".into(), "02:00:00:00:00:01".into()));
        e.write("vlan_id", "7").unwrap();
        e.write("vlan_pcp", "5").unwrap();
        e.write("dst", "02:00:00:00:00:09").unwrap();
        e.write("ethertype", "0x86dd").unwrap();
        let out = e.send(0, b"payload")[0].out().1.to_vec();
        assert_eq!((out[5], &out[12..18]), (9, &[0x81, 0, 0xa0, 7, 0x86, 0xdd][..]));
    }

    #[test]
    fn a_tag_is_needed() {
        let class = crate::class_named("EtherVLANEncap").unwrap();
        let args = |more: &[&str]| {
            [&ADDRESSES[..], more].concat().iter().map(|a| (*a).to_owned()).collect::<Vec<_>>()
        };
        assert!(class.configure(&args(&[])).err().unwrap()[0].contains("give VLAN_TCI or VLAN_ID"));
        assert!(class.configure(&args(&["1", "VLAN_ID 1"])).err().unwrap()[0].contains("one of them"));
    }
}

use super::vlan_encap::{Pcp, VlanId, change, fixed_tci};
use crate::prelude::*;

element! {
    /// Sets the VLAN annotation of packets, from which `VLANEncap(ANNO)` makes a tag.
    SetVLANAnno: "1/1", "a/a";
    example "Idle -> SetVLANAnno(VLAN_ID 5, VLAN_PCP 3) -> VLANEncap(ANNO) -> Discard;";
    params {
        /// Tag control information: VLAN identifier and priority.
        pos vlan_tci: Option<u16> = None,
        /// Priority, 0 to 7.
        pos vlan_pcp: Pcp = Pcp(0) => "0",
        /// VLAN identifier, 0 to 4095.
        key vlan_id: Option<VlanId> = None,
    }
    check |e| match (&e.vlan_tci, &e.vlan_id) {
        (Some(_), Some(_)) => Err("VLAN_ID: VLAN_TCI has one already; specify one of them".into()),
        _ => Ok(()),
    };
    handlers {
        /// Tag control information.
        cell vlan_tci: u16,
        /// VLAN identifier.
        read vlan_id = |_, s| Ok((s.cell("vlan_tci") & 0xfff).to_string()),
        /// Changes the VLAN identifier.
        write vlan_id = |_, s, v| VlanId::from_arg(v).map(|id| change(s, 0xf000, id.0)),
        /// Priority.
        read vlan_pcp = |_, s| Ok((s.cell("vlan_tci") >> 13 & 7).to_string()),
        /// Changes the priority.
        write vlan_pcp = |_, s, v| Pcp::from_arg(v).map(|pcp| change(s, 0x1fff, pcp.0 << 13)),
    }
}

fn program(e: &SetVLANAnno, b: &mut Builder) {
    let tci = b.live("vlan_tci", W16, fixed_tci(e.vlan_tci, e.vlan_id, e.vlan_pcp).into());
    b.input(0, |b| {
        let tci = b.read_cell(tci);
        b.store_anno(anno::VLAN_TCI, tci);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};

    fn tag(e: &mut Harness) -> [u8; 2] {
        let out = e.send(0, b"x");
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        [p.anno[20], p.anno[21]]
    }

    #[test]
    fn the_annotation_is_set_and_can_change() {
        assert_eq!(tag(&mut Harness::new("SetVLANAnno", &["2", "1"], 1, 1)), [0x20, 2]);
        let mut e = Harness::new("SetVLANAnno", &["VLAN_ID 5", "VLAN_PCP 3"], 1, 1);
        assert_eq!(tag(&mut e), [0x60, 5]);
        e.write("vlan_id", "4095").unwrap();
        e.write("vlan_pcp", "1").unwrap();
        assert_eq!((tag(&mut e), e.read("vlan_tci")), ([0x2f, 0xff], "12287".into()));
        assert_eq!((e.read("vlan_id"), e.read("vlan_pcp")), ("4095".into(), "1".into()));
    }

    #[test]
    fn one_identifier_is_enough() {
        let class = crate::class_named("SetVLANAnno").unwrap();
        let errors = class.configure(&["1".into(), "VLAN_ID 2".into()]).err().unwrap();
        assert!(errors[0].contains("specify one of them"), "{errors:?}");
        assert!(class.configure(&["1".into(), "8".into()]).err().unwrap()[0].contains("0 to 7"));
    }
}

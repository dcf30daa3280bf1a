use crate::fields::{ether, vlan};
use crate::prelude::*;

element! {
    /// Adds a VLAN tag to Ethernet frames (IEEE 802.1Q), and sets the `mac` mark.
    ///
    /// The tag is given as tag control information (`VLAN_TCI`), or as `VLAN_ID` and `VLAN_PCP`, or comes from the VLAN
    /// annotation of each packet (`VLAN_TCI ANNO`). Frames of the native VLAN get no tag. Frames that are shorter than
    /// an Ethernet header (`Truncated`) or have no space for a tag (`NoSpace`) are dropped.
    VLANEncap: "1/1", "a/a";
    example "Idle -> VLANEncap(VLAN_ID 5, VLAN_PCP 3) -> Discard;";
    example "Idle -> VLANDecap -> VLANEncap(ANNO) -> Discard;";
    params {
        /// Tag control information: VLAN identifier and priority, or `ANNO`.
        pos vlan_tci: Option<Tci> = None,
        /// Priority, 0 to 7.
        pos vlan_pcp: Pcp = Pcp(0) => "0",
        /// VLAN identifier, 0 to 4095.
        key vlan_id: Option<VlanId> = None,
        /// The VLAN whose frames have no tag, or -1 if all have one.
        key native_vlan: NativeVlan = NativeVlan(0) => "0",
        /// The Ethernet type that says that a tag follows: 0x8100, or 0x88a8 for service VLANs (IEEE 802.1ad).
        key ethertype: u16 = 0x8100,
    }
    check |e| match (&e.vlan_tci, &e.vlan_id) {
        (Some(_), Some(_)) => Err("VLAN_ID: VLAN_TCI has one already; specify one of them".into()),
        _ => Ok(()),
    };
    handlers {
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
        /// The VLAN whose frames have no tag, or -1.
        cell native_vlan: NativeVlan,
        /// The Ethernet type that says that a tag follows.
        cell ethertype: u16,
    }
}

/// Tag control information: a number, or taken from the packet's annotation.
#[derive(Debug, Clone, Copy)]
pub enum Tci {
    /// That of the annotation.
    Anno,
    /// This one.
    Number(u16),
}

/// What the cell `vlan_tci` has for [`Tci::Anno`]: a number that is too large for a tag.
pub(super) const FROM_ANNO: u32 = 0x1_0000;

impl FromArg for Tci {
    const SYNTAX: &'static str = "number below 65536, or ANNO";
    fn from_arg(text: &str) -> Result<Tci, String> {
        if text.trim() == "ANNO" { Ok(Tci::Anno) } else { u16::from_arg(text).map(Tci::Number) }
    }
}

impl CellValue for Tci {
    fn bits(self) -> u128 {
        match self {
            Tci::Anno => FROM_ANNO.into(),
            Tci::Number(n) => n.into(),
        }
    }
    fn show(bits: u128) -> String {
        if bits == FROM_ANNO.into() { "ANNO".into() } else { bits.to_string() }
    }
}

/// A VLAN identifier.
#[derive(Debug, Clone, Copy)]
pub struct VlanId(pub(super) u16);

impl FromArg for VlanId {
    const SYNTAX: &'static str = "number from 0 to 4095";
    fn from_arg(text: &str) -> Result<VlanId, String> {
        in_range(text, 0, 0xfff).map(|n| VlanId(n as u16))
    }
}

/// A priority code point.
#[derive(Debug, Clone, Copy)]
pub struct Pcp(pub(super) u16);

impl FromArg for Pcp {
    const SYNTAX: &'static str = "number from 0 to 7";
    fn from_arg(text: &str) -> Result<Pcp, String> {
        in_range(text, 0, 7).map(|n| Pcp(n as u16))
    }
}

/// A VLAN identifier, or -1 for none.
#[derive(Debug, Clone, Copy)]
pub struct NativeVlan(pub(super) i32);

impl FromArg for NativeVlan {
    const SYNTAX: &'static str = "number from -1 to 4095";
    fn from_arg(text: &str) -> Result<NativeVlan, String> {
        in_range(text, -1, 0xfff).map(NativeVlan)
    }
}

impl CellValue for NativeVlan {
    fn bits(self) -> u128 {
        self.0.bits()
    }
    fn show(bits: u128) -> String {
        i32::show(bits)
    }
}

fn in_range(text: &str, low: i32, high: i32) -> Result<i32, String> {
    match i32::from_arg(text)? {
        n if (low..=high).contains(&n) => Ok(n),
        n => Err(format!("{n} is out of range; write a number from {low} to {high}")),
    }
}

/// Keeps some bits of the tag and sets others. What was taken from the annotation so far starts from 0.
pub(super) fn change(state: &mut State<'_>, keep: u16, set: u16) {
    let old = match state.cell("vlan_tci") as u32 {
        FROM_ANNO.. => 0,
        tci => tci as u16,
    };
    state.set_cell("vlan_tci", (old & keep | set).into());
}

/// What the parameters say together.
pub(super) fn configured_tci(tci: Option<Tci>, id: Option<VlanId>, pcp: Pcp) -> Tci {
    match tci {
        Some(Tci::Anno) => Tci::Anno,
        Some(Tci::Number(tci)) => Tci::Number(fixed_tci(Some(tci), None, pcp)),
        None => Tci::Number(fixed_tci(None, id, pcp)),
    }
}

/// Tag control information from that given, or from a VLAN identifier, and a priority.
pub(super) fn fixed_tci(tci: Option<u16>, id: Option<VlanId>, pcp: Pcp) -> u16 {
    tci.or(id.map(|id| id.0)).unwrap_or(0) | pcp.0 << 13
}

/// The tag control information of a packet, and whether it gets a tag: cells with that of the configuration or
/// [`FROM_ANNO`], and with the native VLAN.
pub(super) fn tag(b: &mut Builder, tci: TableId, native: TableId) -> (V, V) {
    let configured = b.read_cell(tci);
    let from_anno = b.eq(configured, FROM_ANNO);
    let configured = b.resize(W16, configured);
    let anno = b.load_anno(W16, anno::VLAN_TCI);
    let tci = b.select(from_anno, anno, configured);
    let id = b.and(tci, 0xfff);
    let id = b.resize(W32, id);
    let native = b.read_cell(native);
    let tagged = b.ne(id, native);
    (tci, tagged)
}

fn program(e: &VLANEncap, b: &mut Builder) {
    let tci = configured_tci(e.vlan_tci, e.vlan_id, e.vlan_pcp);
    let tci = b.live("vlan_tci", W32, tci.bits());
    let native = b.live("native_vlan", W32, e.native_vlan.bits());
    let ethertype = b.live("ethertype", W16, e.ethertype.into());
    b.input(0, |b| {
        b.require(Layer::Data, ETHER_LEN, Reason::TRUNCATED);
        let (tci, tagged) = tag(b, tci, native);
        b.when(tagged, |b| {
            b.push(4);
            b.copy_bytes((Layer::Data, 0), (Layer::Data, 4), 12);
            let kind = b.read_cell(ethertype);
            ether::TYPE.store(b, kind);
            vlan::TCI.store(b, tci);
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

    fn frame(tci: Option<u16>) -> Vec<u8> {
        let mut frame = ethernet(DST_ETHER, SRC_ETHER, 0x0800, b"payload");
        tci.into_iter().for_each(|tci| tag_vlan(&mut frame, tci));
        frame
    }

    #[test]
    fn tags_are_added_but_not_for_the_native_vlan() {
        for (args, tci) in [
            (&["VLAN_ID 5", "VLAN_PCP 3"][..], Some(0x6005)),
            (&["0x6005"], Some(0x6005)),
            (&["5", "3"], Some(0x6005)),
            (&["VLAN_ID 5", "NATIVE_VLAN 5"], None),
            (&["VLAN_ID 5", "VLAN_PCP 1", "NATIVE_VLAN 5"], None),
            (&["VLAN_ID 0"], None),
            (&["VLAN_ID 0", "NATIVE_VLAN -1"], Some(0)),
        ] {
            let out = Harness::new("VLANEncap", args, 1, 1).send(0, &frame(None));
            assert_eq!(out[0].out(), (0, &frame(tci)[..]), "{args:?}");
            let Outcome::Out(_, p) = &out[0] else { unreachable!() };
            assert_eq!(p.from_layer(Layer::Mac), frame(tci));
        }
    }

    #[test]
    fn the_tag_may_come_from_the_annotation() {
        let mut e = Harness::new("VLANEncap", &["ANNO"], 1, 1);
        let mut p = Packet::from_bytes(&frame(None)).unwrap();
        let at = crate::anno::VLAN_TCI as usize;
        p.anno[at..at + 2].copy_from_slice(&[0xa0, 0x07]);
        assert_eq!(e.send_packet(0, p)[0].out().1, frame(Some(0xa007)));
        assert_eq!(e.send(0, &frame(None))[0].out().1, frame(None));
    }

    #[test]
    fn handlers_change_the_tag() {
        let mut e = Harness::new("VLANEncap", &["ANNO", "ETHERTYPE 0x88a8"], 1, 1);
        assert_eq!((e.read("vlan_tci"), e.read("ethertype")), ("ANNO".into(), "34984".into()));
        e.write("vlan_id", "7").unwrap();
        e.write("vlan_pcp", "5").unwrap();
        e.write("ethertype", "0x8100").unwrap();
        assert_eq!(e.send(0, &frame(None))[0].out().1, frame(Some(0xa007)));
        assert_eq!(
            (e.read("vlan_id"), e.read("vlan_pcp"), e.read("vlan_tci")),
            ("7".into(), "5".into(), "40967".into())
        );
        e.write("native_vlan", "7").unwrap();
        assert_eq!(e.send(0, &frame(None))[0].out().1, frame(None));
        assert!(e.write("vlan_id", "4096").unwrap_err().contains("0 to 4095"));
        assert!(e.write("vlan_pcp", "-1").unwrap_err().contains("0 to 7"));
    }

    #[test]
    fn wrong_arguments_and_short_frames() {
        let class = crate::class_named("VLANEncap").unwrap();
        let errors = class.configure(&["1".into(), "VLAN_ID 2".into()]).err().unwrap();
        assert!(errors[0].contains("specify one of them"), "{errors:?}");
        let errors = class.configure(&["NATIVE_VLAN -2".into()]).err().unwrap();
        assert!(errors[0].contains("NATIVE_VLAN: -2 is out of range"), "{errors:?}");
        let mut e = Harness::new("VLANEncap", &["5"], 1, 1);
        for n in 0..14 {
            assert_eq!(e.send(0, &frame(None)[..n])[0].reason(), "Truncated");
        }
    }
}

use super::outer::{Ends, OtherEnd, Sending, TunnelId, tunnel_id};
use crate::fields::vxlan;
use crate::prelude::*;

element! {
    /// Puts Ethernet frames into a VXLAN tunnel: headers of IPv4, UDP and VXLAN go in front (RFC 7348).
    ///
    /// The marks `net` and `transport` and the destination annotation are those of the outer headers. Frames of a flow
    /// have one source port, 49,152 or more, so that networks can spread flows. A checksum that the sender's kernel
    /// left unfinished is completed in the frame. Frames that would be longer than 65,535 bytes are dropped (`TooLong`),
    /// as are those without space for the headers (`NoSpace`).
    ///
    /// Packets that a kernel left to the device to segment are dropped (`NotSegmented`): `FinishOffloads` cuts them.
    VXLANEncap: "1/1", "a/a";
    example "Idle -> VXLANEncap(10.0.0.1, 10.0.1.1, 42) -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Discard;";
    params {
        /// Address of this end of the tunnel.
        pos src: Ipv4Addr,
        /// Address of the other end, or `ANNO` for that of the destination annotation.
        pos dst: OtherEnd,
        /// VXLAN network identifier, 0 to 16,777,215, or `ANNO` for that of the aggregate annotation.
        pos vni: TunnelId,
        /// Source port; left out, it follows from the flow.
        key sport: Option<u16> = None,
        /// Destination port.
        key dport: u16 = 4789,
        /// Time to live of the outer header.
        key ttl: u8 = 64,
        /// Whether there is a UDP checksum.
        key checksum: bool = false,
    }
    check |e| e.vni.at_most_24_bits("VNI");
    handlers {
        /// Address of this end of the tunnel.
        cell src: Ipv4Addr,
        /// Address of the other end, or `ANNO`.
        cell dst: OtherEnd,
        /// VXLAN network identifier, or `ANNO`.
        read vni = |_, s| Ok(TunnelId::show(s.cell("vni"))),
        /// Changes the VXLAN network identifier.
        write vni = |_, s, v| {
            let vni = TunnelId::from_arg(v)?;
            vni.at_most_24_bits("vni")?;
            s.set_cell("vni", vni.bits());
            Ok(())
        },
    }
}

fn program(e: &VXLANEncap, b: &mut Builder) {
    let vni = b.live("vni", W64, e.vni.bits());
    let sending = Sending {
        ends: Ends::declare(b, e.src, e.dst),
        sport: e.sport,
        dport: e.dport,
        ttl: e.ttl,
        checksum: e.checksum,
        inner_at: ETHER_LEN,
    };
    b.input(0, |b| {
        let vni = tunnel_id(b, vni);
        sending.encap(b, 8, |b, _| {
            vxlan::START.store_const(b, 0x0800_0000_u32);
            let vni = b.shl(vni, 8);
            vxlan::VNI.store(b, vni);
        });
    });
}

#[cfg(test)]
mod tests {
    use super::super::outer::tests::{completes_checksums, encapped, frame, inner, ports_follow_flows};
    use crate::testing::Harness;
    use weir_packet::Packet;

    const ARGS: [&str; 3] = ["10.0.0.1", "10.0.1.1", "0x123456"];

    #[test]
    fn the_headers_are_those_of_the_rfc() {
        let mut e = Harness::new("VXLANEncap", &ARGS, 1, 1);
        let p = frame(&inner(7));
        let outer = encapped(&mut e, Packet::from_bytes(&p).unwrap());
        assert_eq!(outer[..10], [0x45, 0, 0, outer.len() as u8, 0, 0, 0, 0, 64, 17]);
        assert_eq!(outer[12..20], [10, 0, 0, 1, 10, 0, 1, 1]);
        assert_eq!(outer[22..28], [0x12, 0xb5, 0, outer.len() as u8 - 20, 0, 0]);
        // Section 5, figure 1: the I flag, reserved bits, the VNI, a reserved byte.
        assert_eq!(outer[28..36], [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(outer[36..], p);
    }

    #[test]
    fn flows_have_ports_and_checksums_are_completed() {
        let mut e = Harness::new("VXLANEncap", &ARGS, 1, 1);
        ports_follow_flows(&mut e, frame);
        completes_checksums(&mut e, frame);
    }

    #[test]
    fn the_identifier_may_come_from_the_annotation_and_change() {
        let mut e =
            Harness::new("VXLANEncap", &["10.0.0.1", "10.0.1.1", "ANNO", "SPORT 7", "DPORT 8472"], 1, 1);
        let mut p = Packet::from_bytes(&frame(&inner(7))).unwrap();
        p.anno[20..24].copy_from_slice(&[0, 0, 1, 2]);
        let outer = encapped(&mut e, p);
        assert_eq!((&outer[20..24], &outer[32..36]), (&[0, 7, 0x21, 0x18][..], &[0, 1, 2, 0][..]));
        e.write("vni", "5").unwrap();
        e.write("dst", "10.0.2.1").unwrap();
        let outer = encapped(&mut e, Packet::from_bytes(b"").unwrap());
        assert_eq!(
            (e.read("vni"), &outer[18..20], &outer[32..36]),
            ("5".into(), &[2, 1][..], &[0, 0, 5, 0][..])
        );
        assert!(e.write("vni", "16777216").unwrap_err().contains("at most 16777215"));
    }

    #[test]
    fn wrong_arguments_say_what_is_right() {
        let class = crate::class_named("VXLANEncap").unwrap();
        let error = |vni: &str| {
            class.configure(&["1.1.1.1".into(), "1.1.1.2".into(), vni.into()]).err().unwrap().remove(0)
        };
        assert!(error("16777216").contains("VNI: 16777216 is too large; at most 16777215"));
        assert!(error("all").contains("VNI: 'all' is not a number: write a number or ANNO"));
        let mut e = Harness::new("VXLANEncap", &ARGS, 1, 1);
        assert_eq!(e.send(0, &[0; 65_500])[0].reason(), "TooLong");
    }
}

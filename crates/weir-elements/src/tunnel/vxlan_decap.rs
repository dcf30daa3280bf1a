use super::outer::{receive_udp, strip_to_cursor, take_id, take_other_end};
use crate::fields::vxlan;
use crate::ip::checks::refuse;
use crate::prelude::*;

element! {
    /// Takes Ethernet frames out of a VXLAN tunnel (RFC 7348).
    ///
    /// The `net` mark has to stand on the outer IPv4 header, as it does behind `CheckIPHeader`. The frame leaves without
    /// marks, its VXLAN network identifier in the aggregate annotation, and with `ENDS` the tunnel's other end as well. Packets
    /// that are no VXLAN leave on output 1, or are dropped: `NotUDP`, `NotVXLAN` (another port), `Fragment`, `BadHeader` (no
    /// identifier), `BadLength`, `BadChecksum` (of UDP, unless it is 0), `WrongVNI`, `Truncated`.
    VXLANDecap: "1/1-2", "a/ah";
    example "Idle -> Strip(14) -> CheckIPHeader -> d :: VXLANDecap(42) -> Discard; d [1] -> Discard;";
    params {
        /// The network identifier that is accepted; left out, all are.
        pos vni: Option<u32> = None,
        /// The port that the tunnel has.
        key dport: u16 = 4789,
        /// Whether the outer source address goes to the destination annotation: where an answer goes.
        key ends: bool = false,
    }
    check |e| match e.vni {
        Some(n @ 0x100_0000..) => Err(format!("VNI: {n} is too large; at most 16777215")),
        _ => Ok(()),
    };
    handlers {
        /// Number of packets that were refused.
        count drops,
    }
}

fn program(e: &VXLANDecap, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        receive_udp(b, drops, e.dport, 8 + ETHER_LEN, Reason::new("NotVXLAN"));
        let flags = vxlan::FLAGS.load(b);
        let valid = b.and(flags, 8);
        let invalid = b.eq(valid, 0);
        b.when(invalid, refuse(drops, Reason::BAD_HEADER));
        let vni = vxlan::VNI.load(b);
        let vni = b.shr(vni, 8);
        take_id(b, drops, vni, e.vni, Reason::new("WrongVNI"));
        if e.ends {
            take_other_end(b);
        }
        b.set_mark(Layer::Cursor, Layer::Transport, 16);
        strip_to_cursor(b, drops);
    });
}

#[cfg(test)]
mod tests {
    use super::super::outer::tests::{frame, inner, there_and_back};
    use crate::testing::{Harness, Outcome};
    use weir_net::Ipv4;
    use weir_packet::Layer;

    const ENCAP: [&str; 3] = ["10.0.0.1", "10.0.1.1", "7"];

    fn outer(more: &[&str]) -> Vec<u8> {
        let mut e = Harness::new("VXLANEncap", &[&ENCAP[..], more].concat(), 1, 1);
        there_and_back(&mut e, ("VXLANDecap", &["7"]), &frame(&inner(1)))
    }

    #[test]
    fn frames_come_out_with_their_identifier() {
        let outer = outer(&["CHECKSUM true"]);
        let out = Harness::new("VXLANDecap", &[], 1, 1).send_ip(0, &outer);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!((&p.anno[20..24], p.layer(Layer::Net)), (&[0, 0, 0, 7][..], None));
    }

    #[test]
    fn the_other_end_is_told_and_an_answer_goes_there() {
        let out = Harness::new("VXLANDecap", &["ENDS true"], 1, 1).send_ip(0, &outer(&[]));
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!((&p.anno[..4], &p.anno[20..24]), (&[10, 0, 0, 1][..], &[0, 0, 0, 7][..]));
        let back = Harness::new("VXLANEncap", &["10.0.1.1", "ANNO", "ANNO"], 1, 1).send_packet(0, p.copy());
        let (_, bytes) = back[0].out();
        assert_eq!((&bytes[12..20], &bytes[32..36]), (&[10, 0, 1, 1, 10, 0, 0, 1][..], &[0, 0, 7, 0][..]));
    }

    #[test]
    fn each_fault_has_its_own_reason() {
        let good = outer(&["CHECKSUM true"]);
        let reason = |args: &[&str], at: usize, to: u8| {
            let mut p = good.clone();
            p[at] = to;
            if at != 10 {
                // Only what is changed is wrong.
                (p[26], p[27]) = if at == 40 { (p[26], p[27]) } else { (0, 0) };
                Ipv4::new(&mut p[..]).unwrap().fill_checksum();
            }
            Harness::new("VXLANDecap", args, 1, 1).send_ip(0, &p)[0].reason().to_owned()
        };
        assert_eq!(reason(&[], 9, 6), "NotUDP");
        assert_eq!(reason(&[], 23, 0), "NotVXLAN");
        assert_eq!(reason(&[], 6, 0x20), "Fragment");
        assert_eq!(reason(&[], 28, 0), "BadHeader");
        assert_eq!(reason(&[], 25, 29), "BadLength");
        assert_eq!(reason(&[], 24, 1), "BadLength");
        assert_eq!(reason(&[], 40, 0xee), "BadChecksum");
        assert_eq!(reason(&["8"], 30, 0), "WrongVNI");
        assert_eq!(reason(&["DPORT 8472"], 30, 0), "NotVXLAN");
    }

    #[test]
    fn the_identifier_has_24_bits() {
        let errors = crate::class_named("VXLANDecap").unwrap().configure(&["16777216".into()]).err().unwrap();
        assert!(errors[0].contains("VNI: 16777216 is too large; at most 16777215"), "{errors:?}");
    }
}

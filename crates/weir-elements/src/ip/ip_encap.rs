use super::encap::{Destination, Outer, Protocol, destination, fill_ip, next_id, push_headers};
use crate::prelude::*;

element! {
    /// Puts an IPv4 header in front of packets, as for IP in IP (RFC 2003).
    ///
    /// The marks `net` and `transport` and the destination annotation are set. The identification counts from 0.
    /// Packets that would be longer than 65,535 bytes are dropped (`TooLong`), as are those without space for a header
    /// (`NoSpace`). `StripIPHeader` undoes it.
    ///
    /// Packets that a kernel left to the device to segment are dropped (`NotSegmented`): `FinishOffloads` cuts them.
    IPEncap: "1/1", "a/a";
    example "Idle -> IPEncap(ipip, 10.0.0.1, 10.0.1.1) -> Discard;";
    params {
        /// Protocol of what the packet carries: a number or name.
        pos proto: Protocol,
        /// Source address.
        pos src: Ipv4Addr,
        /// Destination address, or `DST_ANNO` for that of the destination annotation.
        pos dst: Destination,
        /// Time to live.
        key ttl: u8 = 250,
        /// Type of service; excludes `DSCP`, `ECT` and `CE`.
        key tos: Option<u8> = None,
        /// Differentiated services code point, 0 to 63.
        key dscp: Option<u8> = None,
        /// Whether transport is capable of ECN: false, true or 1 (ECT(1)), or 2 (ECT(0)).
        key ect: Ect = Ect(0) => "false",
        /// Whether congestion was experienced.
        key ce: bool = false,
        /// Whether the packet must not be fragmented.
        key df: bool = false,
    }
    check |e| e.tos().map(|_| ());
    handlers {
        /// Source address.
        cell src: Ipv4Addr,
        /// Destination address, or `DST_ANNO`.
        cell dst: Destination,
    }
}

/// ECN capable transport: 0 is none.
#[derive(Debug, Clone, Copy)]
pub struct Ect(u8);

impl FromArg for Ect {
    const SYNTAX: &'static str = "boolean, or 2";
    fn from_arg(text: &str) -> Result<Ect, String> {
        if text.trim() == "2" { Ok(Ect(2)) } else { bool::from_arg(text).map(|on| Ect(on.into())) }
    }
}

impl IPEncap {
    /// The type of service that the parameters say together.
    fn tos(&self) -> Result<u8, String> {
        match (self.tos, self.dscp, self.ect.0, self.ce) {
            (Some(_), Some(_), ..) => Err("DSCP: TOS says it already; specify one of them".into()),
            (Some(tos), None, 0, false) => Ok(tos),
            (Some(_), ..) => Err("TOS: it has ECT and CE already; specify DSCP instead".into()),
            (None, _, 1.., true) => Err("CE: ECT says something else; specify one of them".into()),
            (None, Some(dscp @ 64..), ..) => Err(format!("DSCP: {dscp} is too large; at most 63")),
            (None, dscp, ect, ce) => Ok(dscp.unwrap_or(0) << 2 | if ce { 3 } else { ect }),
        }
    }
}

fn program(e: &IPEncap, b: &mut Builder) {
    let src = b.live("src", W32, e.src.bits());
    let dst = b.live("dst", W64, e.dst.bits());
    let id = b.cell("id", W16, 0);
    let outer =
        Outer { tos: e.tos().unwrap_or(0), flags: u16::from(e.df) << 14, ttl: e.ttl, protocol: e.proto.0 };
    b.input(0, |b| {
        push_headers(b, 20);
        let src = b.read_cell(src);
        let dst = destination(b, dst);
        let id = next_id(b, id);
        fill_ip(b, outer, id, src, dst);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};
    use weir_net::{Ipv4, checksum::checksum};
    use weir_packet::{Checksum, Layer};

    const ARGS: [&str; 3] = ["ipip", "10.0.0.1", "10.0.1.1"];

    #[test]
    fn the_header_is_right_and_counts() {
        let mut e =
            Harness::new("IPEncap", &[&ARGS[..], &["DSCP 10", "CE true", "DF true", "TTL 9"]].concat(), 1, 1);
        for id in 0..3 {
            let out = e.send(0, b"hello");
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            let wanted = [0x45, 43, 0, 25, 0, id, 0x40, 0, 9, 4];
            assert_eq!(
                (&p.bytes()[..10], &p.bytes()[12..]),
                (&wanted[..], &b"\x0a\0\0\x01\x0a\0\x01\x01hello"[..])
            );
            assert!(Ipv4::new(p.bytes()).unwrap().checksum_ok());
            assert_eq!((p.from_layer(Layer::Transport), &p.anno[..4]), (&b"hello"[..], &[10, 0, 1, 1][..]));
        }
    }

    #[test]
    fn addresses_can_change_and_come_from_the_annotation() {
        let mut e = Harness::new("IPEncap", &ARGS, 1, 1);
        e.write("src", "1.2.3.4").unwrap();
        e.write("dst", "DST_ANNO").unwrap();
        assert_eq!((e.read("src"), e.read("dst")), ("1.2.3.4".into(), "DST_ANNO".into()));
        let inner = udp(([10, 0, 0, 9], 1), ([10, 9, 9, 9], 2), b"x");
        let out = e.send_ip(0, &inner);
        assert_eq!(out[0].out().1[12..20], [1, 2, 3, 4, 10, 9, 9, 9]);
        assert_eq!(out[0].out().1[20..], inner);
        assert!(e.write("dst", "there").unwrap_err().contains("or DST_ANNO"));
    }

    #[test]
    fn a_checksum_that_the_kernel_left_is_completed() {
        let whole = tcp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), 2, 0, b"hello");
        let mut p = ip_packet(&whole);
        let pseudo = !checksum(&[&whole[12..20], &[0, 6, 0, whole.len() as u8 - 20]].concat());
        p.bytes_mut()[36..38].copy_from_slice(&pseudo.to_be_bytes());
        p.csum = Checksum::Partial as u8;
        let out = Harness::new("IPEncap", &ARGS, 1, 1).send_packet(0, p);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!((&p.bytes()[20..], p.csum), (&whole[..], Checksum::Unknown as u8));
    }

    #[test]
    fn what_a_device_was_to_segment_is_dropped() {
        let mut p = ip_packet(&tcp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), 2, 0, &[0; 3000]));
        p.gso_size = 1000;
        assert_eq!(Harness::new("IPEncap", &ARGS, 1, 1).send_packet(0, p)[0].reason(), "NotSegmented");
    }

    #[test]
    fn packets_that_would_be_too_long_are_dropped() {
        let mut e = Harness::new("IPEncap", &ARGS, 1, 1);
        assert_eq!(e.send(0, &[0; 65_516])[0].reason(), "TooLong");
        assert_eq!(e.send(0, &[0; 65_515])[0].out().1.len(), 65_535);
    }

    #[test]
    fn wrong_arguments_say_what_is_right() {
        let class = crate::class_named("IPEncap").unwrap();
        let errors = |more: &[&str]| {
            let args: Vec<String> = [&ARGS[..], more].concat().iter().map(|a| (*a).to_owned()).collect();
            class.configure(&args).err().unwrap().join("; ")
        };
        assert!(errors(&["TOS 1", "DSCP 1"]).contains("DSCP: TOS says it already"));
        assert!(errors(&["TOS 1", "CE true"]).contains("specify DSCP instead"));
        assert!(errors(&["ECT 2", "CE true"]).contains("CE: ECT says something else"));
        assert!(errors(&["DSCP 64"]).contains("at most 63"));
        let args = ["nothing".to_owned(), "1".into(), "2".into()];
        let errors = class.configure(&args).err().unwrap().join("; ");
        for part in
            ["PROTO: 'nothing' is not a number or protocol", "SRC: '1'", "DST: '2' is not an IP address"]
        {
            assert!(errors.contains(part), "{errors}");
        }
    }
}

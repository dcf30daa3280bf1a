use crate::fields::{icmpv6, ipv6};
use std::net::Ipv6Addr;

use super::chain::{HEADER_LEN, require_ip6, walk};
use super::icmp6::fill_checksum;
use crate::prelude::*;

element! {
    /// Answers IPv6 packets with an ICMPv6 error (RFC 4443).
    ///
    /// The error carries as much of the packet as fits into 1280 bytes. None is sent for packets that must not be
    /// answered (RFC 4443 section 2.4): ICMPv6 errors and redirects, packets whose source is no single host, packets
    /// to a multicast address or received by link-layer multicast or broadcast (unless the error is `toobig`, or
    /// `parameterproblem` with code `option`), and packets whose chain of headers is wrong; those are dropped
    /// (`NotAnswered`). The destination annotation of the error is the source of the packet, so that it can go back to
    /// the routing table. A parameter problem points where the parameter problem annotation says.
    ICMP6Error: "1/1", "a/a";
    example "Idle -> CheckIP6Header -> ICMP6Error(fd00::1, unreachable, noroute) -> Discard;";
    example "Idle -> CheckIP6Header -> l :: CheckLength(1400) -> Discard; l [1] -> ICMP6Error(fd00::1, toobig, PMTU 1400) -> Discard;";
    params {
        /// Source address of the errors.
        pos src: Ipv6Addr,
        /// ICMPv6 type: a number, or `unreachable`, `toobig`, `timeexceeded`, `parameterproblem`.
        pos r#type: Icmp6Type,
        /// ICMPv6 code: a number, or its name (`noroute`, `prohibited`, `scope`, `address`, `port`, `policy`, `reject`,
        /// `transit`, `reassembly`, `header`, `nextheader`, `option`).
        pos code: Icmp6Code = Icmp6Code(0) => "0",
        /// Longest error in bytes, IPv6 header included.
        key mtu: u16 = 1280,
        /// Next-hop MTU that a `toobig` error carries.
        key pmtu: u32 = 1280,
    }
    handlers {
        /// Source address of the errors.
        cell src: Ipv6Addr,
        /// Next-hop MTU that a `toobig` error carries.
        cell pmtu: u32,
        /// Number of packets that were not answered.
        count drops,
    }
}

/// An ICMPv6 error type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmp6Type(u8);

impl FromArg for Icmp6Type {
    const SYNTAX: &'static str = "ICMPv6 error type";
    fn from_arg(text: &str) -> Result<Icmp6Type, String> {
        match text.trim() {
            "unreachable" | "1" => Ok(Icmp6Type(1)),
            "toobig" | "2" => Ok(Icmp6Type(2)),
            "timeexceeded" | "3" => Ok(Icmp6Type(3)),
            "parameterproblem" | "4" => Ok(Icmp6Type(4)),
            other => Err(format!(
                "'{other}' is not an ICMPv6 error type: write unreachable, toobig, timeexceeded or parameterproblem"
            )),
        }
    }
}

/// An ICMPv6 code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmp6Code(u8);

impl FromArg for Icmp6Code {
    const SYNTAX: &'static str = "ICMPv6 code";
    fn from_arg(text: &str) -> Result<Icmp6Code, String> {
        let code = match text.trim() {
            "noroute" | "transit" | "header" => 0,
            "prohibited" | "reassembly" | "nextheader" => 1,
            "scope" | "option" => 2,
            "address" => 3,
            "port" => 4,
            "policy" => 5,
            "reject" => 6,
            other => u8::from_arg(other)?,
        };
        Ok(Icmp6Code(code))
    }
}

/// Bytes in front of the packet that is answered: IPv6 and ICMPv6 headers.
const HEADERS: u32 = HEADER_LEN + 8;
/// Hop limit of the errors.
const HOPS: u8 = 64;
/// The type of redirects (RFC 4861 section 4.5).
const REDIRECT: u8 = 137;

fn program(e: &ICMP6Error, b: &mut Builder) {
    let from = b.live("src", W128, e.src.bits());
    let pmtu = b.live("pmtu", W32, e.pmtu.into());
    let drops = b.cell("drops", W64, 0);
    let refuse = move |b: &mut Builder| {
        count(b, drops);
        b.drop(Reason::new("NotAnswered"));
    };
    let (kind, code) = (e.r#type.0, e.code.0);
    b.input(0, |b| {
        require_ip6(b);
        let src = ipv6::SRC.load(b);
        let nobody = b.le(src, 1);
        b.when(nobody, refuse);
        let class = b.shr(src, 120);
        let group = b.eq(class, 0xff);
        b.when(group, refuse);
        if kind != 2 && (kind, code) != (4, 2) {
            let dst = b.load(W8, Layer::Net, 24);
            let group = b.eq(dst, 0xff);
            b.when(group, refuse);
            let delivery = b.load_meta(MetaField::PacketType);
            b.switch(delivery, &[1, 2], |b, case| {
                if case.is_some() {
                    refuse(b);
                }
            });
        }
        let protocol = walk(b, |b, _| refuse(b));
        let icmp = b.eq(protocol, proto::ICMPV6);
        b.when(icmp, |b| {
            b.require_or(Layer::Transport, 1, refuse);
            let t = icmpv6::TYPE.load(b);
            let error = b.lt(t, 128);
            b.when(error, refuse);
            let redirect = b.eq(t, REDIRECT);
            b.when(redirect, refuse);
        });
        let problem = b.load_anno(W8, anno::ICMP_PARAM_PROB);

        // The packet from its IPv6 header on becomes the error's payload.
        let lead = b.distance(Layer::Data, Layer::Net);
        b.require_or(Layer::Data, lead, refuse);
        b.pull(lead);
        let keep = b.constant(W32, u32::from(e.mtu).saturating_sub(HEADERS).max(HEADER_LEN));
        b.trim(keep);
        b.push(HEADERS);
        b.clear_mark(Layer::Mac);
        b.set_mark(Layer::Net, Layer::Data, 0);
        b.set_mark(Layer::Transport, Layer::Data, HEADER_LEN);
        let len = b.rest(Layer::Transport);
        let len16 = b.resize(W16, len);
        ipv6::START.store_const(b, 0x6000_0000_u32);
        ipv6::PAYLOAD_LENGTH.store(b, len16);
        b.store_const(W16, Layer::Net, 6, u16::from(proto::ICMPV6) << 8 | u16::from(HOPS));
        let from = b.read_cell(from);
        ipv6::SRC.store(b, from);
        ipv6::DST.store(b, src);
        icmpv6::START
            .at(Layer::Net, HEADER_LEN)
            .store_const(b, u32::from(kind) << 24 | u32::from(code) << 16);
        let tells = match kind {
            2 => b.read_cell(pmtu),
            4 => b.resize(W32, problem),
            _ => b.constant(W32, 0_u32),
        };
        icmpv6::DETAIL.at(Layer::Net, HEADER_LEN).store(b, tells);
        fill_checksum(b, len);

        // What the sender's kernel left unfinished is payload now.
        let complete = b.constant(W8, weir_packet::Checksum::Unknown as u8);
        b.store_meta(MetaField::Checksum, complete);
        b.store_anno(anno::DST_IP, src);
        let now = b.now();
        b.store_meta(MetaField::Timestamp, now);
        becomes(b, Provenance::Answer);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::samples::{addr, icmp, icmp_ok, marked, packet, sent, udp};
    use weir_packet::Provenance;

    use crate::testing::{Harness, Outcome};

    const SRC: &str = "2001:db8::fe";

    fn error(args: &[&str], p: &[u8]) -> Vec<Outcome> {
        sent(&mut Harness::new("ICMP6Error", args, 1, 1), p)
    }

    #[test]
    fn the_error_carries_the_packet_back_to_its_source() {
        let out = error(&[SRC, "timeexceeded", "0"], &udp(b"hello"));
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        let mut message = vec![3, 0, 0, 0, 0, 0, 0, 0];
        message.extend(udp(b"hello"));
        assert_eq!(p.bytes(), icmp(addr(0xfe), addr(1), &message));
        assert_eq!(p.anno[..16], addr(1).octets());
    }

    #[test]
    fn a_long_packet_is_cut_to_the_least_mtu() {
        let long = packet(addr(1), addr(2), 17, &[0xaa; 1400]);
        let mut e = Harness::new("ICMP6Error", &[SRC, "toobig", "PMTU 1300"], 1, 1);
        let out = sent(&mut e, &long);
        let bytes = out[0].out().1;
        assert_eq!((bytes.len(), &bytes[40..42], &bytes[44..48]), (1280, &[2, 0][..], &[0, 0, 5, 20][..]));
        assert_eq!(out[0].provenance(), Provenance::Answer);
        assert!(icmp_ok(bytes));
        assert_eq!(bytes[48..], long[..1232]);
        e.write("pmtu", "1400").unwrap();
        e.write("src", "2001:db8::fd").unwrap();
        let out = sent(&mut e, &long);
        assert_eq!((out[0].out().1[47], out[0].out().1[23]), (120, 0xfd));
    }

    #[test]
    fn no_answer_to_what_must_not_be_answered() {
        let group = "ff02::1".parse().unwrap();
        let args = [SRC, "unreachable", "port"];
        for p in [
            icmp(addr(1), addr(2), &[1, 0, 0, 0, 0, 0, 0, 0]),
            icmp(addr(1), addr(2), &[137, 0, 0, 0, 0, 0, 0, 0]),
            packet(addr(1), addr(2), 60, &[58, 0, 1, 4, 0, 0, 0, 0, 1, 0, 0, 0]),
            packet(addr(1), addr(2), 58, &[]),
            packet(addr(1), addr(2), 60, &[58, 1, 1, 4, 0, 0, 0, 0]),
            packet("::".parse().unwrap(), addr(2), 59, &[]),
            packet("::1".parse().unwrap(), addr(2), 59, &[]),
            packet(group, addr(2), 59, &[]),
            packet(addr(1), group, 59, &[]),
        ] {
            assert_eq!(error(&args, &p)[0].reason(), "NotAnswered", "{p:02x?}");
        }
        for delivery in [1, 2] {
            let mut p = marked(&udp(b""));
            p.packet_type = delivery;
            assert_eq!(Harness::new("ICMP6Error", &args, 1, 1).send_packet(0, p)[0].reason(), "NotAnswered");
        }
        let echo = icmp(addr(1), addr(2), &[128, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(error(&args, &echo)[0].out().0, 0);
        assert_eq!(error(&[SRC, "toobig"], &packet(addr(1), group, 59, &[]))[0].out().0, 0);
        for n in 0..40 {
            assert_eq!(error(&args, &udp(b"")[..n])[0].reason(), "Truncated");
        }
    }

    #[test]
    fn a_parameter_problem_points_where_the_annotation_says() {
        let mut p = marked(&udp(b""));
        p.anno[17] = 41;
        let out = Harness::new("ICMP6Error", &[SRC, "4", "nextheader"], 1, 1).send_packet(0, p);
        let bytes = out[0].out().1;
        assert_eq!((&bytes[40..42], &bytes[44..48]), (&[4, 1][..], &[0, 0, 0, 41][..]));
        assert!(icmp_ok(bytes));
    }

    #[test]
    fn types_have_names() {
        let class = crate::class_named("ICMP6Error").unwrap();
        let errors = class.configure(&[SRC.into(), "128".into()]).err().unwrap();
        assert!(errors[0].contains("TYPE: '128' is not an ICMPv6 error type"), "{errors:?}");
    }
}

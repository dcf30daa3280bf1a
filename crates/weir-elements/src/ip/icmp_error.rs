use super::check_ip_header::AddressList;
use super::encap::next_id;
use super::source_route::source_route;
use crate::fields::{icmp, ipv4};
use crate::prelude::*;

element! {
    /// Answers IPv4 packets with an ICMP error (RFC 792, RFC 1812 section 4.3.2).
    ///
    /// The error carries as much of the packet as fits into 576 bytes. None is sent for packets that must not be
    /// answered: ICMP errors, fragments beyond the first, and packets from or to broadcast or multicast addresses
    /// (RFC 1122 section 3.2.2) or sources that no host has; those are dropped (`NotAnswered`). The answer's
    /// destination annotation is the source of the packet, so that it can go back to the routing table. A redirect
    /// gives the gateway in the destination annotation of the packet, where routing has put it; a parameter problem
    /// with code 0 points where the parameter problem annotation says. A source route is reversed, for the part that
    /// the packet has come, unless it is what the problem is; packets with one get no redirect.
    ICMPError: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> ICMPError(10.0.0.1, unreachable, net) -> Discard;";
    params {
        /// Source address of the errors.
        pos src: Ipv4Addr,
        /// ICMP type: a number, or `unreachable`, `sourcequench`, `redirect`, `timeexceeded`, `parameterproblem`.
        pos r#type: IcmpType,
        /// ICMP code: a number, or its name (`net`, `host`, `protocol`, `port`, `needfrag`, `transit`, `reassembly` …).
        pos code: IcmpCode = IcmpCode(0),
        /// Space-separated addresses: packets from or to them get no answer (broadcast addresses of the router's
        /// networks).
        pos badaddrs: AddressList = AddressList(vec![]),
        /// Longest error in bytes, IP header included.
        key mtu: u16 = 576,
        /// Next-hop MTU that a `needfrag` error carries (RFC 1191).
        key pmtu: u16 = 0,
        /// Whether the fix-source annotation is set, for `FixIPSrc` downstream.
        key set_fix_anno: bool = true,
    }
    handlers {
        /// Source address of the errors.
        cell src: Ipv4Addr,
        /// Longest error in bytes.
        cell mtu: u16,
        /// Next-hop MTU that a `needfrag` error carries.
        cell pmtu: u16,
        /// Number of packets that were not answered.
        count drops,
    }
}

/// An ICMP type.
#[derive(Debug)]
pub struct IcmpType(u8);

impl FromArg for IcmpType {
    const SYNTAX: &'static str = "ICMP error type";
    fn from_arg(text: &str) -> Result<IcmpType, String> {
        let t = match text.trim() {
            "unreachable" => 3,
            "sourcequench" => 4,
            "redirect" => 5,
            "timeexceeded" => 11,
            "parameterproblem" => 12,
            other => u8::from_arg(other)?,
        };
        match t {
            3 | 4 | 5 | 11 | 12 => Ok(IcmpType(t)),
            _ => Err(format!(
                "{t} is not an ICMP error type: write unreachable, sourcequench, redirect, timeexceeded or parameterproblem"
            )),
        }
    }
}

/// An ICMP code.
#[derive(Debug)]
pub struct IcmpCode(u8);

impl FromArg for IcmpCode {
    const SYNTAX: &'static str = "ICMP code";
    fn from_arg(text: &str) -> Result<IcmpCode, String> {
        let code = match text.trim() {
            "net" | "transit" | "erroratptr" => 0,
            "host" | "reassembly" | "missingopt" => 1,
            "protocol" | "length" => 2,
            "port" => 3,
            "needfrag" => 4,
            "srcroutefail" => 5,
            "netunknown" => 6,
            "hostunknown" => 7,
            "netprohibited" => 9,
            "hostprohibited" => 10,
            "filterprohibited" => 13,
            other => return u8::from_arg(other).map(IcmpCode),
        };
        Ok(IcmpCode(code))
    }
}

/// Bytes in front of the packet that is answered: IP and ICMP headers.
const HEADERS: u32 = 28;

/// Time to live of the errors.
const TTL: u8 = 200;

fn program(e: &ICMPError, b: &mut Builder) {
    let from = b.live("src", W32, e.src.bits());
    let mtu = b.live("mtu", W16, e.mtu.into());
    let pmtu = b.live("pmtu", W16, e.pmtu.into());
    let drops = b.cell("drops", W64, 0);
    let id = b.cell("id", W16, 1);
    let refuse = |b: &mut Builder| {
        count(b, drops);
        b.drop(Reason::new("NotAnswered"));
    };
    b.input(0, |b| {
        require_ip(b);
        let header_len = ip_header_len(b);
        let fragment = ipv4::FRAGMENT.load(b);
        let offset = b.and(fragment, 0x1fff);
        let later = b.ne(offset, 0);
        b.when(later, refuse);
        let (src, dst) = (ipv4::SRC.load(b), ipv4::DST.load(b));
        for addr in [src, dst] {
            let bad: Vec<u128> = e.badaddrs.0.iter().map(|&a| a.into()).collect();
            b.switch(addr, &bad, |b, case| {
                if case.is_some() {
                    refuse(b);
                }
            });
            let class = b.shr(addr, 28);
            let special = b.ge(class, 0xe);
            b.when(special, refuse);
        }
        // This network, and loopback (RFC 1812 section 5.3.7).
        let network = b.shr(src, 24);
        b.switch(network, &[0, 127], |b, case| {
            if case.is_some() {
                refuse(b);
            }
        });
        let kind = b.load_meta(MetaField::PacketType);
        b.switch(kind, &[1, 2], |b, case| {
            if case.is_some() {
                refuse(b);
            }
        });
        let protocol = ipv4::PROTOCOL.load(b);
        let icmp = b.eq(protocol, proto::ICMP);
        b.when(icmp, |b| {
            b.require_or(Layer::Net, header_len, refuse);
            b.set_mark(Layer::Transport, Layer::Net, header_len);
            b.require_or(Layer::Transport, 1, refuse);
            let t = icmp::TYPE.load(b);
            b.switch(t, &[3, 4, 5, 11, 12], |b, case| {
                if case.is_some() {
                    refuse(b);
                }
            });
        });
        let problem = b.load_anno(W8, anno::ICMP_PARAM_PROB);
        let gateway = b.load_anno(W32, anno::DST_IP);
        let route = source_route(b, header_len);
        let routed = b.ne(route.at, 0);
        if e.r#type.0 == 5 {
            b.when(routed, refuse);
        }
        let extra = route.space(b, (e.r#type.0, e.code.0) == (12, 0), problem);

        // The packet from its IP header on becomes the error's payload.
        let lead = b.distance(Layer::Data, Layer::Net);
        b.require_or(Layer::Data, lead, refuse);
        b.pull(lead);
        let mtu = b.read_cell(mtu);
        let mtu = b.resize(W32, mtu);
        let headers = b.add(extra, HEADERS);
        let least = b.add(headers, 8);
        let tiny = b.lt(mtu, least);
        let mtu = b.select(tiny, least, mtu);
        let keep = b.sub(mtu, headers);
        b.trim(keep);
        b.push(extra);
        b.push(HEADERS);
        route.reverse(b, headers, extra);
        b.clear_mark(Layer::Mac);
        b.set_mark(Layer::Net, Layer::Data, 0);
        let header = b.add(extra, 20);
        b.require(Layer::Data, header, Reason::TRUNCATED);
        b.set_mark(Layer::Transport, Layer::Data, header);
        b.require(Layer::Transport, 8, Reason::TRUNCATED);
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        let len = b.len();
        let len16 = b.resize(W16, len);
        let id = next_id(b, id);
        let words = b.shr(header, 2);
        let words = b.resize(W8, words);
        let first = b.or(words, 0x40);
        b.store(Layer::Net, 0, first);
        ipv4::TOS.store_const(b, 0_u8);
        ipv4::LENGTH.store(b, len16);
        ipv4::ID.store(b, id);
        ipv4::FRAGMENT.store_const(b, 0_u16);
        b.store_const(W16, Layer::Net, 8, u16::from(TTL) << 8 | u16::from(proto::ICMP));
        let from = b.read_cell(from);
        ipv4::SRC.store(b, from);
        ipv4::DST.store(b, src);
        ipv4::CHECKSUM.store_const(b, 0_u16);
        b.require(Layer::Net, header, Reason::TRUNCATED);
        let sum = b.checksum(Layer::Net, 0, header);
        let field = b.not(sum);
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        ipv4::CHECKSUM.store(b, field);
        b.require(Layer::Transport, 8, Reason::TRUNCATED);

        icmp::TYPE.store_const(b, e.r#type.0);
        icmp::CODE.store_const(b, e.code.0);
        match (e.r#type.0, e.code.0) {
            (12, 0) => icmp::PROBLEM.store(b, problem),
            (5, _) => icmp::GATEWAY.store(b, gateway),
            (3, 4) => {
                let pmtu = b.read_cell(pmtu);
                icmp::MTU.store(b, pmtu);
            }
            _ => {}
        }
        let icmp_len = b.rest(Layer::Transport);
        b.require(Layer::Transport, icmp_len, Reason::TRUNCATED);
        let sum = b.checksum(Layer::Transport, 0, icmp_len);
        let field = b.not(sum);
        b.require(Layer::Transport, 8, Reason::TRUNCATED);
        icmp::CHECKSUM.store(b, field);

        // What the sender's kernel left unfinished is payload now.
        let complete = b.constant(W8, weir_packet::Checksum::Unknown as u8);
        b.store_meta(MetaField::Checksum, complete);
        b.store_anno(anno::DST_IP, src);
        let now = b.now();
        b.store_meta(MetaField::Timestamp, now);
        becomes(b, Provenance::Answer);
        if e.set_fix_anno {
            let one = b.constant(W8, 1_u8);
            b.store_anno(anno::FIX_IP_SRC, one);
        }
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Harness;
    use weir_net::{Ipv4, checksum::checksum};

    fn error(args: &[&str], packet: &[u8]) -> Vec<crate::testing::Outcome> {
        Harness::new("ICMPError", args, 1, 1).send_ip(0, packet)
    }

    fn udp(payload: &[u8]) -> Vec<u8> {
        crate::testing::udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), payload)
    }

    #[test]
    fn the_error_carries_the_packet_back_to_its_source() {
        let out = error(&["10.0.0.254", "timeexceeded"], &udp(b"hello"));
        let (_, bytes) = out[0].out();
        let ip = Ipv4::new(bytes).unwrap();
        assert!(ip.checksum_ok());
        assert_eq!((ip.src(), ip.dst()), (Ipv4Addr::new(10, 0, 0, 254), Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(bytes[20..22], [11, 0]);
        assert_eq!(checksum(&bytes[20..]), 0, "the ICMP checksum is right");
        assert_eq!(bytes[28..], udp(b"hello"));
    }

    #[test]
    fn a_long_packet_is_cut_to_576_bytes() {
        let out = error(&["10.0.0.254", "unreachable", "host"], &udp(&[0xaa; 1400]));
        let (_, bytes) = out[0].out();
        assert_eq!(bytes.len(), 576);
        assert_eq!(checksum(&bytes[20..]), 0);
        assert_eq!(Ipv4::new(bytes).unwrap().total_len(), 576);
    }

    #[test]
    fn no_answer_to_what_must_not_be_answered() {
        let icmp_error = error(&["10.0.0.254", "unreachable"], &udp(b"x"))[0].out().1.to_vec();
        assert_eq!(error(&["10.0.0.9", "unreachable"], &icmp_error)[0].reason(), "NotAnswered");
        let change = |at: usize, to: &[u8]| {
            let mut p = udp(b"x");
            p[at..at + to.len()].copy_from_slice(to);
            p
        };
        for p in [
            change(6, &[0, 5]),
            change(12, &[224, 0, 0, 1]),
            change(16, &[255; 4]),
            change(12, &[0; 4]),
            change(12, &[127, 0, 0, 1]),
        ] {
            assert_eq!(error(&["10.0.0.254", "unreachable"], &p)[0].reason(), "NotAnswered", "{p:02x?}");
        }
        for bad in ["10.0.0.1", "1.2.3.4 10.0.1.1"] {
            let out = error(&["10.0.0.254", "unreachable", "0", bad], &udp(b"x"));
            assert_eq!(out[0].reason(), "NotAnswered", "{bad}");
        }
    }

    /// A packet with these options.
    fn with_options(options: &[u8]) -> Vec<u8> {
        let mut p = udp(b"x");
        p.splice(20..20, options.iter().copied());
        p[0] += (options.len() / 4) as u8;
        p[3] += options.len() as u8;
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        p
    }

    /// A strict source route whose pointer is at its third address, and the end.
    const ROUTE: [u8; 20] = [137, 19, 12, 128, 4, 45, 60, 128, 4, 49, 61, 1, 2, 3, 4, 5, 6, 7, 8, 0];

    #[test]
    fn a_source_route_is_reversed() {
        let out = error(&["10.0.0.254", "timeexceeded"], &with_options(&ROUTE));
        let bytes = out[0].out().1;
        assert!(Ipv4::new(bytes).unwrap().checksum_ok());
        assert_eq!((bytes[0], &bytes[20..32]), (0x48, &[137, 11, 4, 128, 4, 49, 61, 128, 4, 45, 60, 0][..]));
        assert_eq!(checksum(&bytes[32..]), 0);
        assert_eq!(bytes[40..], with_options(&ROUTE));
        // Nothing was passed so far.
        let mut fresh = ROUTE;
        fresh[2] = 4;
        let out = error(&["10.0.0.254", "timeexceeded"], &with_options(&fresh));
        assert_eq!(out[0].out().1[20..24], [137, 3, 4, 0]);
        let long = &[&with_options(&ROUTE)[..], &[0; 1000]].concat();
        assert_eq!(error(&["10.0.0.254", "timeexceeded"], long)[0].out().1.len(), 576);
    }

    #[test]
    fn a_route_that_is_wrong_or_the_problem_is_not_reversed() {
        let header = |args: &[&str], options: &[u8], problem: u8| {
            let mut p = crate::testing::ip_packet(&with_options(options));
            p.anno[17] = problem;
            Harness::new("ICMPError", args, 1, 1).send_packet(0, p)[0].out().1[0]
        };
        let args = ["10.0.0.254", "parameterproblem"];
        assert_eq!((header(&args, &ROUTE, 22), header(&args, &ROUTE, 38)), (0x45, 0x45));
        assert_eq!((header(&args, &ROUTE, 19), header(&args, &ROUTE, 39)), (0x48, 0x48));
        for (at, to) in [(2, 13), (2, 24), (1, 30), (1, 1), (0, 7), (0, 0)] {
            let mut wrong = ROUTE;
            wrong[at] = to;
            assert_eq!(
                header(&args[..1].iter().copied().chain(["timeexceeded"]).collect::<Vec<_>>(), &wrong, 0),
                0x45,
                "{at}"
            );
        }
        let redirect = error(&["10.0.0.254", "redirect", "host"], &with_options(&ROUTE));
        assert_eq!(redirect[0].reason(), "NotAnswered");
    }

    #[test]
    fn a_redirect_tells_the_gateway() {
        let out = error(&["10.0.0.254", "redirect", "host"], &udp(b"x"));
        let (_, bytes) = out[0].out();
        assert_eq!((&bytes[20..22], &bytes[24..28]), (&[5, 1][..], &[10, 0, 1, 1][..]));
        assert_eq!(checksum(&bytes[20..]), 0);
    }

    #[test]
    fn parameters_can_change_while_it_runs() {
        let mut e = Harness::new("ICMPError", &["10.0.0.254", "unreachable", "needfrag", "PMTU 1400"], 1, 1);
        e.write("src", "10.0.0.253").unwrap();
        e.write("mtu", "100").unwrap();
        e.write("pmtu", "1300").unwrap();
        let out = e.send_ip(0, &udp(&[0; 1400]));
        let (_, bytes) = out[0].out();
        assert_eq!((bytes[15], bytes.len(), &bytes[26..28]), (253, 100, &1300_u16.to_be_bytes()[..]));
        assert_eq!((bytes[1], bytes[5], bytes[8]), (0, 1, 200));
        e.write("mtu", "0").unwrap();
        assert_eq!(
            e.send_ip(0, &udp(&[0; 1400]))[0].out().1.len(),
            36,
            "8 bytes of the packet are always there"
        );
        assert!(e.write("mtu", "65536").is_err());
    }

    #[test]
    fn types_and_codes_have_names() {
        let class = crate::class_named("ICMPError").unwrap();
        let args = |t: &str| vec!["1.2.3.4".to_owned(), t.to_owned()];
        assert!(class.configure(&args("unreachable")).is_ok());
        let errors = class.configure(&args("8")).err().unwrap();
        assert!(errors[0].contains("TYPE: 8 is not an ICMP error type"), "{errors:?}");
    }
}

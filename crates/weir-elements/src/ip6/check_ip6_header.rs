use super::address::AddressList;
use super::chain::{HEADER_LEN, walk};
use crate::fields::ipv6;
use crate::ip::checks::{check_offset, refuse};
use crate::prelude::*;

element! {
    /// Checks that packets have a valid IPv6 header, and marks it (RFC 8200).
    ///
    /// A valid header starts `OFFSET` bytes into the packet, has version 6, and a payload length that is not beyond the
    /// end of the packet. Its source address is no multicast address and not in `BADADDRS`. Of the extension headers
    /// behind it there are at most eight, all of them within the packet, with hop-by-hop options only as the first of
    /// them. The mark `net` is set to the header, `transport` to what follows the extension headers; the annotation of
    /// the destination address is set, and the packet is cut to the length that its header gives. Others leave on output
    /// 1, or are dropped: `Truncated`, `BadVersion`, `BadSource`, `BadHeader`, `TooManyHeaders`.
    CheckIP6Header: "1/1-2", "a/ah";
    example "Idle -> CheckIP6Header(::1, OFFSET 14) -> Discard;";
    params {
        /// Source addresses that are refused.
        pos badaddrs: AddressList = AddressList(vec![]) => "",
        /// Where the header starts, in bytes.
        pos offset: u32 = 0,
    }
    check |e| check_offset(e.offset);
    handlers {
        /// Number of packets that were refused.
        count drops,
    }
}

fn program(e: &CheckIP6Header, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    let bad_header = move |b: &mut Builder, reason| refuse(drops, reason)(b);
    b.input(0, |b| {
        b.require_or(Layer::Data, e.offset + HEADER_LEN, refuse(drops, Reason::TRUNCATED));
        b.set_mark(Layer::Net, Layer::Data, e.offset);
        let first = ipv6::VERSION.load(b);
        let version = b.shr(first, 4);
        let wrong = b.ne(version, 6);
        b.when(wrong, refuse(drops, Reason::new("BadVersion")));
        let payload = ipv6::PAYLOAD_LENGTH.load(b);
        let payload = b.resize(W32, payload);
        let len = b.add(payload, HEADER_LEN);
        let rest = b.rest(Layer::Net);
        let beyond = b.lt(rest, len);
        b.when(beyond, refuse(drops, Reason::TRUNCATED));
        let src = ipv6::SRC.load(b);
        let class = b.shr(src, 120);
        let multicast = b.eq(class, 0xff);
        b.when(multicast, refuse(drops, Reason::new("BadSource")));
        b.switch(src, &e.badaddrs.0, |b, case| {
            if case.is_some() {
                refuse(drops, Reason::new("BadSource"))(b);
            }
        });
        // The chain of headers must not lead into padding.
        let padded = b.ne(rest, len);
        b.when(padded, |b| {
            let total = b.add(len, e.offset);
            b.trim(total);
        });
        b.require_or(Layer::Net, HEADER_LEN, refuse(drops, Reason::TRUNCATED));
        let dst = ipv6::DST.load(b);
        walk(b, bad_header);
        b.store_anno(anno::DST_IP, dst);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::samples::{addr, packet, udp};
    use crate::testing::{Harness, Outcome};
    use weir_packet::Layer;

    /// The place of the transport header, or the reason of a drop.
    fn checked(args: &[&str], bytes: &[u8]) -> Result<usize, String> {
        match &Harness::new("CheckIP6Header", args, 1, 1).send(0, bytes)[0] {
            Outcome::Out(_, p) => Ok(p.len() - p.from_layer(Layer::Transport).len()),
            Outcome::Drop(reason) => Err(reason.clone()),
        }
    }

    #[test]
    fn a_good_packet_is_marked_and_cut_to_its_length() {
        let mut frame = vec![0; 14];
        frame.extend(udp(b"x"));
        frame.extend([0; 9]);
        let out = Harness::new("CheckIP6Header", &["OFFSET 14"], 1, 2).send(0, &frame);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(p.from_layer(Layer::Net), udp(b"x"));
        assert_eq!(p.from_layer(Layer::Transport), &udp(b"x")[40..]);
        assert_eq!(p.anno[..16], addr(2).octets());
        assert_eq!(checked(&[], &packet(addr(1), addr(2), 59, &[])), Ok(40));
    }

    #[test]
    fn each_fault_has_its_own_reason() {
        let with = |at: usize, to: &[u8]| {
            let mut p = udp(b"x");
            p[at..at + to.len()].copy_from_slice(to);
            checked(&["2001:db8::9 2001:db8::8"], &p).err()
        };
        assert_eq!(with(0, &[0x45]), Some("BadVersion".into()));
        assert_eq!(with(5, &[10]), Some("Truncated".into()));
        assert_eq!(with(8, &[0xff]), Some("BadSource".into()));
        assert_eq!(with(23, &[9]), Some("BadSource".into()));
        assert_eq!(with(23, &[7]), None);
        let mut e = Harness::new("CheckIP6Header", &[], 1, 2);
        for n in 0..udp(b"x").len() {
            assert_eq!(e.send(0, &udp(b"x")[..n])[0].out(), (1, &udp(b"x")[..n]));
        }
        assert_eq!(e.read("drops"), "49");
    }

    #[test]
    fn extension_headers_are_walked_over() {
        let chain = |first: u8, headers: &[u8]| checked(&[], &packet(addr(1), addr(2), first, headers));
        // Hop-by-hop options, routing, destination options of 16 bytes, authentication of 12 bytes.
        let mut all = vec![43, 0, 1, 4, 0, 0, 0, 0, 60, 0, 4, 0, 0, 0, 0, 0];
        all.extend([51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        all.extend([17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(chain(0, &all), Ok(40 + 8 + 8 + 16 + 12));
        for n in 0..all.len() {
            assert_eq!(chain(0, &all[..n]), Err("Truncated".into()), "{n}");
        }
        assert_eq!(chain(60, &[0, 0, 1, 4, 0, 0, 0, 0, 59, 0, 1, 4, 0, 0, 0, 0]), Err("BadHeader".into()));
        assert_eq!(chain(60, &[17, 200, 1, 4, 0, 0, 0, 0]), Err("Truncated".into()));
        // Fragments: the first, and one behind it.
        assert_eq!(chain(44, &[17, 0, 0, 1, 0, 0, 0, 7, 1]), Ok(48));
        assert_eq!(chain(44, &[43, 0, 0, 8, 0, 0, 0, 7, 1]), Ok(48));
        for (headers, result) in [(8, Ok(40 + 64)), (9, Err("TooManyHeaders".into()))] {
            let mut p = [60, 0, 1, 4, 0, 0, 0, 0].repeat(headers);
            p[(headers - 1) * 8] = 17;
            assert_eq!(chain(60, &p), result);
        }
    }

    #[test]
    fn padding_is_no_header() {
        let mut p = packet(addr(1), addr(2), 60, &[60, 0, 1, 4, 0, 0, 0, 0]);
        p.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(checked(&[], &p), Err("Truncated".into()));
    }

    #[test]
    fn wrong_arguments_say_what_is_right() {
        let class = crate::class_named("CheckIP6Header").unwrap();
        let errors = |arg: &str| class.configure(&[arg.to_owned()]).err().unwrap().join("; ");
        assert!(errors("::1 10.0.0.1").contains("BADADDRS: '10.0.0.1' is not an IPv6 address"));
        assert!(errors("OFFSET 4294967290").contains("OFFSET: 4294967290 is beyond the end of any packet"));
    }
}

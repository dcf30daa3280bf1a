use super::aggregate_field::{Base, Field};
use crate::fields::ipv4;
use crate::prelude::*;

/// The packet has no such field.
const NO_FIELD: Reason = Reason::new("NoSuchField");

element! {
    /// Sets the aggregate annotation to a field of the IPv4 or transport header, in host order.
    ///
    /// Fields have names, as `ip src`, `tcp dport`, `icmp type`, and `sport` and `dport` for TCP and UDP alike; or places:
    /// `ip[12:4]` (offset and length), `ip[12-15]`, `ip[9]`, and with braces in bits, as `ip{96-103}`; `tcp[...]`,
    /// `udp[...]` and `icmp[...]` count from the transport header, as does `transp[...]`, for any of these protocols. A mask
    /// may follow: `/8` takes the first bits of the field, `& 0xF0` those that are set, which stand side by side. A field
    /// has at most 32 bits.
    ///
    /// Packets without the field leave on output 1, or are dropped (`NoSuchField`): those that are too short, have
    /// another protocol, or are later fragments if the transport header is asked for.
    AggregateIP: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> AggregateIP(ip src/8) -> Discard;";
    params {
        /// The field.
        pos field: Field,
        /// Whether the annotation before is kept above the field's bits.
        key incremental: bool = false,
        /// Whether a part of an IP address keeps its place in the address, instead of being shifted down.
        key unshift_ip_addr: bool = false,
    }
    handlers {
        /// The header of the field: `ip` or `transp`.
        read header = |e, _| Ok(if matches!(e.field.base, Base::Ip) { "ip" } else { "transp" }.to_owned()),
        /// Where the field begins in it, in bits.
        read bit_offset = |e, _| Ok(e.field.offset.to_string()),
        /// The field's length in bits.
        read bit_length = |e, _| Ok(e.field.length.to_string()),
    }
}

fn program(e: &AggregateIP, b: &mut Builder) {
    let field = &e.field;
    b.input(0, |b| {
        b.require_or(Layer::Net, 20, lacks);
        let layer = match field.base {
            Base::Ip => Layer::Net,
            Base::Transport(protocols) => {
                let protocol = ipv4::PROTOCOL.load(b);
                let mut right = b.constant(W1, 0_u8);
                for &p in protocols {
                    let is = b.eq(protocol, p);
                    right = b.or(right, is);
                }
                b.unless(right, lacks);
                let fragment = ipv4::FRAGMENT.load(b);
                let later = b.and(fragment, 0x1fff_u16);
                let later = b.ne(later, 0);
                b.when(later, lacks);
                Layer::Transport
            }
        };
        let (first, end) = (field.offset / 8, field.end().div_ceil(8));
        b.require_or(layer, end, lacks);
        let mut value = b.constant(W64, 0_u64);
        for at in first..end {
            let byte = b.load(W8, layer, at);
            let byte = b.resize(W64, byte);
            value = b.shl(value, 8);
            value = b.or(value, byte);
        }
        let value = b.shr(value, end * 8 - field.end());
        let value = b.and(value, (1_u64 << field.length) - 1);
        let value = match field.below_in_address().filter(|_| e.unshift_ip_addr) {
            Some(below) => b.shl(value, below),
            None => value,
        };
        let value = if e.incremental && field.length < 32 {
            let before = b.load_anno(W32, anno::AGGREGATE);
            let before = b.resize(W64, before);
            let before = b.shl(before, field.length);
            b.or(before, value)
        } else {
            value
        };
        let value = b.resize(W32, value);
        b.store_anno(anno::AGGREGATE, value);
        b.emit(0);
    });
}

fn lacks(b: &mut Builder) {
    b.emit_or_drop(1, NO_FIELD);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome, ip_packet, tcp, udp};

    /// The annotation that a packet gets.
    fn aggregate(field: &str, bytes: &[u8]) -> Option<u32> {
        let mut e = Harness::new("AggregateIP", &[field], 1, 2);
        anno_of(&mut e, ip_packet(bytes))
    }

    fn anno_of(e: &mut Harness, packet: Packet) -> Option<u32> {
        let outcomes = e.send_packet(0, packet);
        let Outcome::Out(port, packet) = &outcomes[0] else { panic!("{outcomes:?}") };
        let at = anno::AGGREGATE as usize;
        let bytes: [u8; 4] = packet.anno[at..at + 4].try_into().unwrap();
        (*port == 0).then(|| u32::from_be_bytes(bytes))
    }

    #[test]
    fn fields_have_names_and_places() {
        let packet = tcp(([1, 2, 3, 4], 1024), ([5, 6, 7, 8], 80), 0x12, 77, b"x");
        for (field, value) in [
            ("ip src", 0x0102_0304),
            ("ip src/8", 1),
            ("ip src & 0xFF000000", 1),
            ("ip[12]", 1),
            ("ip[12:1]", 1),
            ("\"ip[12, 1]\"", 1),
            ("ip{96-103}", 1),
            ("ip dst & 0xFF00", 7),
            ("ip vers", 4),
            ("ip hl", 5),
            ("ip proto", 6),
            ("tcp sport", 1024),
            ("dport", 80),
            ("sport / 6", 1),
            ("tcp seq", 77),
            ("tcp flags", 0x12),
            ("tcp syn", 1),
            ("tcp fin", 0),
            ("transp[2-3]", 80),
        ] {
            assert_eq!(aggregate(field.trim_matches('"'), &packet), Some(value), "{field}");
        }
    }

    #[test]
    fn packets_without_the_field_go_elsewhere() {
        let packet = udp(([1, 2, 3, 4], 5), ([5, 6, 7, 8], 53), b"");
        assert_eq!(aggregate("udp dport", &packet), Some(53));
        assert_eq!(aggregate("tcp dport", &packet), None);
        assert_eq!(aggregate("icmp type", &packet), None);
        let mut later = packet.clone();
        later[7] = 1;
        assert_eq!(aggregate("udp dport", &later), None);
        assert_eq!(aggregate("ip fragoff", &later), Some(1));
        let mut e = Harness::new("AggregateIP", &["tcp sport"], 1, 1);
        assert_eq!(e.send_ip(0, &packet)[0].reason(), "NoSuchField");
        let mut e = Harness::new("AggregateIP", &["transp[4:4]"], 1, 1);
        for len in 0..packet.len() {
            e.send_ip(0, &packet[..len]);
        }
    }

    #[test]
    fn values_may_be_put_together() {
        let packet = udp(([1, 2, 3, 4], 5), ([5, 6, 7, 8], 53), b"");
        let mut e = Harness::new("AggregateIP", &["ip src/16", "UNSHIFT_IP_ADDR true"], 1, 2);
        assert_eq!(anno_of(&mut e, ip_packet(&packet)), Some(0x0102_0000));
        let mut e = Harness::new("AggregateIP", &["ip proto", "INCREMENTAL true"], 1, 2);
        let mut marked = ip_packet(&packet);
        marked.anno[anno::AGGREGATE as usize..][..4].copy_from_slice(&3_u32.to_be_bytes());
        assert_eq!(anno_of(&mut e, marked), Some(0x0311));
        assert_eq!(
            (e.read("header"), e.read("bit_offset"), e.read("bit_length")),
            ("ip".into(), "72".into(), "8".into())
        );
    }

    #[test]
    fn what_is_no_field_is_refused() {
        for (field, why) in [
            ("ip colour", "'colour' is not a field of ip"),
            ("ipx src", "'ipx' is not a header"),
            ("ip[0:5]", "at most 32 bits"),
            ("ip[4-2]", "ends before it begins"),
            ("ip[x]", "'x' is not a number"),
            ("ip src & 5", "side by side"),
            ("ip src/33", "has 32 bits"),
            ("ip proto & 0x100", "has 8 bits"),
            ("data[0]", "ip, transp, tcp, udp or icmp"),
            ("ip", "write a field"),
        ] {
            let errors = crate::class_named("AggregateIP").unwrap().configure(&[field.into()]).err().unwrap();
            assert!(errors[0].contains(why), "{field}: {errors:?}");
        }
    }
}

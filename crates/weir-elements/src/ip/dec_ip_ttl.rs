use crate::fields::ipv4;
use crate::prelude::*;

element! {
    /// Decrements the IPv4 time to live and updates the header checksum (RFC 1812 section 5.3.1, RFC 1624).
    ///
    /// Packets whose time to live is 0 or 1 leave on output 1, unchanged, or are dropped (`TtlExpired`). The `net`
    /// mark has to stand on an IPv4 header.
    DecIPTTL: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader -> ttl :: DecIPTTL -> Discard; ttl [1] -> ICMPError(10.0.0.1, timeexceeded) -> Discard;";
    params {
        /// Whether the element does anything.
        key active: bool = true,
        /// Whether multicast packets are decremented too.
        key multicast: bool = true,
    }
    handlers {
        /// Whether the element does anything.
        cell active: bool,
        /// Number of expired packets.
        count drops,
    }
}

fn program(e: &DecIPTTL, b: &mut Builder) {
    let active = b.live("active", W1, e.active.into());
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        let on = b.read_cell(active);
        b.unless(on, |b| b.emit(0));
        require_ip(b);
        if !e.multicast {
            let dst = ipv4::DST.load(b);
            let class = b.shr(dst, 28);
            let is_multicast = b.eq(class, 0xe);
            b.when(is_multicast, |b| b.emit(0));
        }
        decrement(b, |b| {
            count(b, drops);
            b.emit_or_drop(1, Reason::TTL_EXPIRED);
        });
        b.emit(0);
    });
}

/// Decrements the time to live of a header of which 20 bytes are known to be there; `expired` has to end.
pub(super) fn decrement(b: &mut Builder, expired: impl FnOnce(&mut Builder)) {
    let old = ipv4::TTL.load(b);
    let over = b.lt(old, 2);
    b.when(over, expired);
    let new = b.sub(old, 1);
    ipv4::TTL.store(b, new);
    // What leaves and what comes into the sum are known together: 1 in the first byte of a word.
    let (before, after) = (b.constant(W16, 0x0100_u16), b.constant(W16, 0_u16));
    update_ip_checksum(b, &[before], &[after]);
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, udp};
    use weir_net::Ipv4;

    fn packet(ttl: u8) -> Vec<u8> {
        let mut p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        p[8] = ttl;
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        p
    }

    #[test]
    fn the_checksum_stays_right_for_every_ttl() {
        let mut e = Harness::new("DecIPTTL", &[], 1, 2);
        for ttl in 2..=255 {
            let out = e.send_ip(0, &packet(ttl));
            let (port, bytes) = out[0].out();
            assert_eq!((port, bytes[8]), (0, ttl - 1));
            assert!(Ipv4::new(bytes).unwrap().checksum_ok());
        }
    }

    #[test]
    fn expired_packets_leave_unchanged_on_output_1_or_are_dropped() {
        for ttl in [0, 1] {
            let mut e = Harness::new("DecIPTTL", &[], 1, 2);
            assert_eq!(e.send_ip(0, &packet(ttl))[0].out(), (1, &packet(ttl)[..]));
            assert_eq!(e.read("drops"), "1");
            assert_eq!(
                Harness::new("DecIPTTL", &[], 1, 1).send_ip(0, &packet(ttl))[0].reason(),
                "TtlExpired"
            );
        }
    }

    #[test]
    fn it_can_be_switched_off_while_it_runs() {
        let mut e = Harness::new("DecIPTTL", &[], 1, 2);
        e.write("active", "false").unwrap();
        assert_eq!(e.send_ip(0, &packet(9))[0].out().1, packet(9));
        assert_eq!(e.read("active"), "false");
        assert!(e.write("active", "maybe").unwrap_err().contains("not a boolean"));
    }

    #[test]
    fn multicast_is_left_alone_on_request() {
        let mut p = packet(9);
        p[16] = 224;
        let mut e = Harness::new("DecIPTTL", &["MULTICAST false"], 1, 2);
        assert_eq!(e.send_ip(0, &p)[0].out().1[8], 9);
    }
}

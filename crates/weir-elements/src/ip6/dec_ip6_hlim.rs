use super::chain::require_ip6;
use crate::fields::ipv6;
use crate::prelude::*;

element! {
    /// Decrements the hop limit of IPv6 packets (RFC 8200 section 3).
    ///
    /// Packets whose hop limit is 0 or 1 leave on output 1, unchanged, or are dropped (`TtlExpired`). The `net` mark has
    /// to stand on an IPv6 header; packets without are dropped (`Unmarked`).
    DecIP6HLIM: "1/1-2", "a/ah";
    example "Idle -> CheckIP6Header -> h :: DecIP6HLIM -> Discard; h [1] -> ICMP6Error(fd00::1, timeexceeded, 0) -> Discard;";
    handlers {
        /// Number of expired packets.
        count drops,
    }
}

fn program(_: &DecIP6HLIM, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        require_ip6(b);
        let hops = ipv6::HOP_LIMIT.load(b);
        let over = b.le(hops, 1);
        b.when(over, |b| {
            count(b, drops);
            b.emit_or_drop(1, Reason::TTL_EXPIRED);
        });
        let hops = b.sub(hops, 1);
        ipv6::HOP_LIMIT.store(b, hops);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::samples::{sent, udp};
    use crate::testing::Harness;

    fn packet(hops: u8) -> Vec<u8> {
        let mut p = udp(b"x");
        p[7] = hops;
        p
    }

    #[test]
    fn the_hop_limit_is_decremented_until_it_expires() {
        let mut e = Harness::new("DecIP6HLIM", &[], 1, 2);
        for hops in 2..=255 {
            assert_eq!(sent(&mut e, &packet(hops))[0].out(), (0, &packet(hops - 1)[..]));
        }
        for hops in [0, 1] {
            assert_eq!(sent(&mut e, &packet(hops))[0].out(), (1, &packet(hops)[..]));
            let mut alone = Harness::new("DecIP6HLIM", &[], 1, 1);
            assert_eq!(sent(&mut alone, &packet(hops))[0].reason(), "TtlExpired");
        }
        assert_eq!(e.read("drops"), "2");
        for n in 0..40 {
            assert_eq!(sent(&mut e, &packet(9)[..n])[0].reason(), "Truncated");
        }
    }
}

use super::chain::require_ip6;
use crate::fields::ipv6;
use crate::ip::set_ip_dscp::Dscp;
use crate::prelude::*;

element! {
    /// Sets the differentiated services code point of IPv6 packets (RFC 2474), the upper six bits of the traffic class.
    ///
    /// The `net` mark has to stand on an IPv6 header; other packets are dropped (`Unmarked`).
    SetIP6DSCP: "1/1", "a/a";
    example "Idle -> CheckIP6Header -> SetIP6DSCP(46) -> Discard;";
    params {
        /// The code point, 0 to 63.
        pos dscp: Dscp,
    }
    handlers {
        /// The code point.
        cell dscp: Dscp,
    }
}

fn program(e: &SetIP6DSCP, b: &mut Builder) {
    let dscp = b.live("dscp", W8, e.dscp.bits());
    b.input(0, |b| {
        require_ip6(b);
        let dscp = b.read_cell(dscp);
        let dscp = b.resize(W16, dscp);
        let dscp = b.shl(dscp, 6);
        // Version, traffic class, and the first bits of the flow label.
        let start = ipv6::VERSION_CLASS.load(b);
        let start = b.and(start, 0xf03f);
        let start = b.or(start, dscp);
        ipv6::VERSION_CLASS.store(b, start);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::samples::{sent, udp};
    use crate::testing::Harness;

    #[test]
    fn only_the_code_point_changes() {
        let mut p = udp(b"x");
        p[..4].copy_from_slice(&[0x6a, 0xbc, 0xde, 0xf0]);
        let mut e = Harness::new("SetIP6DSCP", &["46"], 1, 1);
        let out = sent(&mut e, &p);
        let bytes = out[0].out().1;
        // 46 is 101110; the congestion bits were 11.
        assert_eq!((&bytes[..4], &bytes[4..]), (&[0x6b, 0xbc, 0xde, 0xf0][..], &p[4..]));
        e.write("dscp", "0").unwrap();
        assert_eq!(sent(&mut e, &p)[0].out().1[..2], [0x60, 0x3c]);
        assert!(e.write("dscp", "64").is_err());
        assert_eq!(sent(&mut e, &p[..39])[0].reason(), "Truncated");
    }
}

use super::filter::View;
use super::ip_classifier::{Pattern, classify, of_ipv6};
use crate::prelude::*;

element! {
    /// Sends IPv6 packets to the output of the first pattern that they match.
    ///
    /// Patterns are filter expressions (see the filter language); `-` matches every packet. They are read, and
    /// extension headers followed, as by `IP6Filter`. Packets that match none are
    /// dropped (`NoMatch`). The `net` mark has to stand on an IPv6 header; packets without are dropped (`Unmarked`).
    IP6Classifier: "1/-", "h/h";
    example "Idle -> CheckIP6Header -> c :: IP6Classifier(dst host fd00::1 and icmp6, tcp dst port 80 or 443, -); c [0] -> Discard; c [1] -> Discard; c [2] -> Discard;";
    params {
        /// A filter expression for each output.
        rest patterns: Vec<Pattern>,
    }
    check |e| e.patterns.iter().try_for_each(|p| of_ipv6(&p.0));
    handlers {
        /// The patterns, one a line.
        read patterns = |e, _| Ok(e.patterns.iter().map(|p| format!("{}\n", p.0)).collect()),
    }
    ports |e| format!("1/{}", e.patterns.len());
}

fn program(e: &IP6Classifier, b: &mut Builder) {
    classify(&e.patterns, View::Ip6Followed, b);
}

#[cfg(test)]
mod tests {
    use crate::ip6::samples::{addr, packet, sent, udp};
    use crate::testing::Harness;

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let args = ["dst host 2001:db8::2 and icmp6", "src net 2001:db8::/64 and udp dst port 2", "tcp"];
        let mut e = Harness::new("IP6Classifier", &args, 1, 3);
        let mut out = |p: &[u8]| sent(&mut e, p).remove(0);
        assert_eq!(out(&packet(addr(1), addr(2), 58, &[128, 0, 0, 0])).out().0, 0);
        assert_eq!(out(&packet(addr(1), addr(3), 58, &[128, 0, 0, 0])).reason(), "NoMatch");
        assert_eq!(out(&udp(b"x")).out().0, 1);
        assert_eq!(out(&packet("fd00::1".parse().unwrap(), addr(2), 6, &[])).out().0, 2);
        for n in 0..40 {
            assert_eq!(out(&udp(b"x")[..n]).reason(), "Truncated");
        }
    }
}

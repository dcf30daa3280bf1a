use super::filter::View;
use super::ip_filter::{Rule, filter, hits, list, reset};
use crate::prelude::*;

element! {
    /// Filters IPv6 packets by rules; the first that matches decides.
    ///
    /// A rule is an action and a filter expression: `allow EXPR` sends the packet to output 0, `deny EXPR` (or
    /// `drop`) to output 1, or drops it (`Denied`) if that is not connected, and `N EXPR` sends it to output N. The
    /// protocol is that of the first header behind the IPv6 header, and only behind that are ports looked for. Packets
    /// that no rule matches are dropped (`NoMatch`). The `net` mark has to stand on an IPv6 header; packets without are
    /// dropped (`Truncated`).
    IP6Filter: "1/-", "h/h";
    example "Idle -> CheckIP6Header -> IP6Filter(allow src net fd00::/8 and tcp dst port 80 or 443, allow icmp6, deny all) -> Discard;";
    params {
        /// A rule: `allow`, `deny`, `drop` or an output's number, then a filter expression (`all` for every packet).
        rest rules: Vec<Rule>,
    }
    handlers {
        /// The rules, one a line.
        read rules = |e, _| Ok(list(&e.rules)),
        /// Number of packets that each rule decided, one a line.
        read hits = |e, s| Ok(hits(&e.rules, View::Ip6, s)),
        /// Sets the numbers of hits to 0.
        write reset = |e, s, _| { reset(&e.rules, View::Ip6, s); Ok(()) },
    }
}

fn program(e: &IP6Filter, b: &mut Builder) {
    filter(&e.rules, View::Ip6, b);
}

#[cfg(test)]
mod tests {
    use crate::ip6::samples::{addr, packet, sent, udp};
    use crate::testing::Harness;

    #[test]
    fn rules_decide_and_count() {
        let rules = ["deny src host 2001:db8::9", "allow udp dst port 2", "2 icmp6", "deny tcp"];
        let from = |n, next| packet(addr(n), addr(2), next, &[0, 1, 0, 2, 0, 8, 0, 0]);
        // Few rules are tested one by one, many are looked up.
        for more in [0, 9] {
            let mut args: Vec<String> = rules.iter().map(|r| (*r).to_owned()).collect();
            args.extend((0..more).map(|i| format!("allow dst host 2001:db8:1::{i} and src port {i}")));
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let mut e = Harness::new("IP6Filter", &args, 1, 3);
            for (p, port) in [(from(9, 17), 1), (udp(b"x"), 0), (from(1, 58), 2), (from(1, 6), 1)] {
                assert_eq!(sent(&mut e, &p)[0].out().0, port);
            }
            assert_eq!(sent(&mut e, &from(1, 47))[0].reason(), "NoMatch");
            assert!(e.read("hits").starts_with("1\n1\n1\n1\n"));
            e.write("reset", "").unwrap();
            assert!(e.read("hits").starts_with("0\n0\n0\n0\n"));
            for n in 0..40 {
                assert_eq!(sent(&mut e, &udp(b"")[..n])[0].reason(), "Truncated");
            }
        }
        let mut alone = Harness::new("IP6Filter", &["deny all"], 1, 1);
        assert_eq!(sent(&mut alone, &udp(b"x"))[0].reason(), "Denied");
    }
}

use super::filter::View;
use super::ip_classifier::of_ipv6;
use super::ip_filter::{Rule, filter, hits, list, reset};
use crate::prelude::*;

element! {
    /// Filters IPv6 packets by rules; the first that matches decides.
    ///
    /// A rule is an action and a filter expression: `allow EXPR` sends the packet to output 0, `deny EXPR` (or
    /// `drop`) drops it (`Denied`), and `N EXPR` sends it to output N. Expressions are read as by `IPFilter`. The protocol and the
    /// ports are those behind extension headers (RFC 8200 section 4), of which up to eight are followed; packets that have more,
    /// or whose extension headers are cut short, are dropped (`BadHeader`) if rules ask for the protocol. Packets
    /// that no rule matches are dropped (`NoMatch`). The `net` mark has to stand on an IPv6 header; packets without are
    /// dropped (`Truncated`).
    IP6Filter: "1/-", "h/h";
    example "Idle -> CheckIP6Header -> IP6Filter(allow src net fd00::/8 and tcp dst port 80 or 443, allow icmp6, deny all) -> Discard;";
    params {
        /// A rule: `allow`, `deny`, `drop` or an output's number, then a filter expression (`all` for every packet).
        rest rules: Vec<Rule>,
    }
    check |e| e.rules.iter().try_for_each(|r| of_ipv6(r.expr()));
    handlers {
        /// The rules, one a line.
        read rules = |e, _| Ok(list(&e.rules)),
        /// Number of packets that each rule decided, one a line.
        read hits = |e, s| Ok(hits(&e.rules, View::Ip6Followed, s)),
        /// Sets the numbers of hits to 0.
        write reset = |e, s, _| { reset(&e.rules, View::Ip6Followed, s); Ok(()) },
    }
}

fn program(e: &IP6Filter, b: &mut Builder) {
    filter(&e.rules, View::Ip6Followed, b);
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
            for denied in [from(9, 17), from(1, 6)] {
                assert_eq!(sent(&mut e, &denied)[0].reason(), "Denied");
            }
            for (p, port) in [(udp(b"x"), 0), (from(1, 58), 2)] {
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

    /// As Linux drops them: what stands before the TCP header does not hide it.
    #[test]
    fn extension_headers_hide_no_port() {
        let syn = [&[0, 99, 0, 22][..], &[0; 16]].concat();
        let behind = |chain: &[u8], syn: &[u8]| {
            let mut payload = Vec::new();
            for i in 0..chain.len() {
                payload.extend([chain.get(i + 1).copied().unwrap_or(6), 0, 0, 0, 0, 0, 0, 0]);
            }
            payload.extend(syn);
            packet(addr(1), addr(2), chain.first().copied().unwrap_or(6), &payload)
        };
        for more in [0, 9] {
            let mut rules = vec!["deny tcp dst port 22".to_owned()];
            rules.extend((0..more).map(|i| format!("deny udp dst port {i}")));
            rules.push("allow all".into());
            let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
            let mut e = Harness::new("IP6Filter", &rules, 1, 1);
            for chain in [&[][..], &[0], &[43], &[44], &[51], &[60], &[0, 60, 43, 44, 51, 60, 60, 60]] {
                assert_eq!(sent(&mut e, &behind(chain, &syn))[0].reason(), "Denied", "{chain:?}");
                let other = [&[0, 99, 0, 23][..], &[0; 16]].concat();
                assert_eq!(sent(&mut e, &behind(chain, &other))[0].out().0, 0, "{chain:?}");
            }
            // A later fragment has no ports.
            let mut later = behind(&[44], &syn);
            later[43] = 8;
            assert_eq!(sent(&mut e, &later)[0].out().0, 0);
            // Of these it is not known what they are.
            for unknown in [&behind(&[60; 9], &syn)[..], &behind(&[60], &[])[..44]] {
                assert_eq!(sent(&mut e, unknown)[0].reason(), "BadHeader");
            }
        }
    }

    #[test]
    fn bytes_of_ipv4_headers_are_refused() {
        let class = crate::class_named("IP6Filter").unwrap();
        for rule in ["deny tcp[13] & 2 != 0", "deny ip[0] = 0x45", "deny not tcp[tcp[12] >> 2] = 1"] {
            let error = class.configure(&[rule.to_owned()]).err().unwrap().remove(0);
            assert!(error.contains("transp["), "{rule}: {error}");
        }
        assert!(class.configure(&["deny tcp transp[13] & 2 != 0".to_owned()]).is_ok());
    }
}

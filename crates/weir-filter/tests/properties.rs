//! Properties: what is written reads back the same, no text makes the reader panic, canonical filters mean what the original meant.

use proptest::prelude::*;
use weir_filter::{Expr, PacketView};

/// Words of the filter language, put together at random: mostly nonsense, often enough a filter.
fn filter_text() -> impl Strategy<Value = String> {
    let words = vec![
        "tcp",
        "udp",
        "icmp",
        "ip",
        "ip6",
        "arp",
        "src",
        "dst",
        "src or dst",
        "src and dst",
        "host",
        "net",
        "port",
        "10.0.0.1",
        "10.0.0.0/8",
        "10.0.0.0 mask 255.0.255.0",
        "2001:db8::/32",
        "80",
        "1-1024",
        "http",
        "echo",
        "proto",
        "opt",
        "syn",
        "type",
        "ttl",
        "dscp",
        "frag",
        "unfrag",
        "ect",
        "ce",
        "and",
        "or",
        "not",
        "!",
        "(",
        ")",
        "?",
        ":",
        "[",
        "]",
        "0:2",
        "6",
        "& 3",
        "&",
        "|",
        "==",
        "!=",
        "<",
        ">=",
        "0x12",
        "true",
        "none",
        "any",
        "-",
        "vlan",
        "25",
        "ether",
        "02:00:00:00:00:01",
        "transp",
        "tcpudp",
    ];
    prop::collection::vec(prop::sample::select(words), 0..12).prop_map(|w| w.join(" "))
}

/// Filters from the grammar, with repetition left out and put in.
fn filter() -> impl Strategy<Value = String> {
    let primitives = vec![
        "tcp",
        "udp",
        "src host 10.0.0.1",
        "dst net 10.0.0.0/31",
        "src or dst host 10.0.0.2",
        "port 1",
        "src port < 2",
        "port != 1",
        "tcp port >= 2",
        "src and dst port > 0",
        "tcp opt syn",
        "ip frag",
        "icmp type 1",
        "icmp type != 1",
        "ip ttl > 1",
        "ip[1] & 3 == 1",
        "transp[0:2] <= 1",
        "udp port & 1 == 1",
        "ip hl 5",
        "true",
        "none",
        "ip proto > 6",
        "ip proto != 6",
        "ip ect",
        "host 10.0.0.1 or 10.0.0.3",
    ];
    prop::sample::select(primitives).prop_map(str::to_string).prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} and ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or {b}")),
            inner.clone().prop_map(|a| format!("not ({a})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("(({a}) ? ({b}) : ({c}))")),
        ]
    })
}

/// Packets in which the filters above find something, sometimes cut short.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let small = || prop::sample::select(vec![0u8, 1, 2, 3]);
    let header = (
        5u8..7,
        small(),
        prop::sample::select(vec![0u16, 1, 0x2000]),
        small(),
        prop::sample::select(vec![1u8, 6, 17, 99]),
    );
    (header, small(), small(), prop::collection::vec(small(), 0..24)).prop_map(
        |((hl, tos, frag, ttl, proto), src, dst, rest)| {
            let mut p =
                vec![0x40 | hl, tos, 0, 0, 0, 0, 0, 0, ttl, proto, 0, 0, 10, 0, 0, src, 10, 0, 0, dst];
            p[6..8].copy_from_slice(&frag.to_be_bytes());
            p.extend(rest);
            p
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn filters_read_back_from_their_canonical_form(text in filter()) {
        let expr = Expr::parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!(Expr::parse(&expr.to_string()), Ok(expr.clone()), "{}", expr);
    }

    #[test]
    fn random_words_that_are_a_filter_read_back(text in filter_text()) {
        if let Ok(expr) = Expr::parse(&text) {
            prop_assert_eq!(Expr::parse(&expr.to_string()), Ok(expr.clone()), "{} -> {}", text, expr);
        }
    }

    #[test]
    fn connectives_mean_what_they_say(a in filter(), b in filter(), c in filter(), bytes in packet()) {
        let view = PacketView::ipv4(&bytes, 0);
        let is = |text: String| Expr::parse(&text).unwrap().matches(&view);
        let (x, y, z) = (is(a.clone()), is(b.clone()), is(c.clone()));
        prop_assert_eq!(is(format!("({a}) and ({b})")), x && y);
        prop_assert_eq!(is(format!("({a}) || ({b})")), x || y);
        prop_assert_eq!(is(format!("! ({a})")), !x);
        prop_assert_eq!(is(format!("({a}) ? ({b}) : ({c})")), if x { y } else { z });
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}", structured in "[-{}\\[\\]:,\"'&*!|>#%@ \\n\\t0a~]{0,60}") {
        for text in [&text, &structured] {
            let _ = Expr::parse(text);
        }
    }

    #[test]
    fn no_bytes_panic_the_evaluator(text in filter(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let expr = Expr::parse(&text).unwrap();
        for view in [PacketView::ipv4(&bytes, 0), PacketView::ipv4(&bytes, 70), PacketView::ip(&bytes), PacketView::ethernet(&bytes)] {
            let _ = expr.matches(&view);
        }
    }
}

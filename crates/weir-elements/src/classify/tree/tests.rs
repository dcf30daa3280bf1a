use proptest::prelude::*;
use weir_filter::{Expr, PacketView};

use super::{NET, TRANSPORT, Tree};
use crate::class_named;
use crate::testing::Harness;

fn tree(rules: &[(&str, u32)]) -> Tree {
    let exprs: Vec<Expr> = rules.iter().map(|(text, _)| Expr::parse_click(text).unwrap()).collect();
    Tree::of(exprs.iter().zip(rules).map(|(e, (_, output))| (e, Some(*output)))).unwrap()
}

#[test]
fn what_is_known_is_not_asked_again() {
    let t = tree(&[("tcp dst port 80", 0), ("tcp dst port 443", 1), ("tcp", 2), ("udp", 3)]);
    let want = " 0 264/00060000%00ff0000  yes->step 1  no->step 4
 1 260/00000000%00001fff  yes->step 2  no->[2]
 2 512/00000050%0000ffff  yes->[0]  no->step 3
 3 512/000001bb%0000ffff  yes->[1]  no->[2]
 4 264/00110000%00ff0000  yes->[3]  no->[X]
safe length 516
alignment offset 0
";
    assert_eq!(t.to_string(), want);
}

#[test]
fn paths_that_cannot_be_do_not_count() {
    let t = tree(&[("dst port 53", 0), ("tcp and not (syn and not ack) or port >= 1024", 1)]);
    let want = " 0 264/00060000%00ff0000  yes->step 2  no->step 1
 1 264/00110000%00ff0000  yes->step 2  no->[X]
 2 260/00000000%00001fff  yes->step 3  no->step 4
 3 512/00000035%0000ffff  yes->[0]  no->step 4
 4 264/00060000%00ff0000  yes->step 5  no->step 7
 5 260/00000000%00001fff  yes->step 6  no->[1]
 6 524/00020000%00120000  yes->step 8  no->[1]
 7 260/00000000%00001fff  yes->step 8  no->[X]
 8 512/00000000%fc00fc00  yes->[X]  no->[1]  short->yes
safe length 526
alignment offset 0
";
    assert_eq!(t.to_string(), want);
}

#[test]
fn tests_of_one_word_become_one() {
    let t = tree(&[("tcp and syn and not ack", 0)]);
    assert!(t.to_string().contains(" 2 524/00020000%00120000  yes->[0]  no->[X]\n"), "{t}");
    let t = tree(&[("src or dst port > 1023", 0)]);
    assert!(t.to_string().contains(" 3 512/00000000%fc00fc00  yes->[X]  no->[0]  short->yes\n"), "{t}");
    let t = tree(&[("ip ttl 4 or ip ttl 5", 7)]);
    assert!(t.to_string().starts_with(" 0 264/04000000%fe000000  yes->[7]  no->[X]\n"), "{t}");
}

#[test]
fn some_filters_ask_for_nothing() {
    let all = |t: &Tree| t.to_string().lines().next().unwrap().to_owned();
    assert_eq!(all(&tree(&[])), "all->[X]");
    assert_eq!(all(&tree(&[("false", 0), ("false", 1)])), "all->[X]");
    assert_eq!(all(&tree(&[("false", 0), ("true", 3), ("tcp", 1)])), "all->[3]");
    assert_eq!(all(&tree(&[("tcp and src 10.0.0.1", 2), ("udp or not udp", 2)])), "all->[2]");
    assert!(
        tree(&[("false", 0), ("src 10.0.0.1", 0)])
            .to_string()
            .starts_with(" 0 268/0a000001%ffffffff  yes->[0]")
    );
}

#[test]
fn handlers_show_it() {
    let mut e = Harness::new("IPFilter", &["allow src 10.0.0.1", "2 udp", "deny all"], 1, 3);
    assert_eq!(
        e.read("program"),
        " 0 268/0a000001%ffffffff  yes->[0]  no->step 1\n 1 264/00110000%00ff0000  yes->[2]  no->[X]\n\
         safe length 272\nalignment offset 0\n"
    );
    let mut e = Harness::new("IPClassifier", &["udp", "-"], 1, 2);
    assert!(e.read("program").starts_with(" 0 264/00110000%00ff0000  yes->[0]  no->[1]\n"));
    let mut e = Harness::new("Classifier", &["3/01??02 !12/08", "-"], 1, 2);
    let want = " 0   0/00000001%000000ff  yes->step 1  no->[1]\n 1   4/00020000%00ff0000  yes->step 2  no->[1]\n \
                2  12/08000000%ff000000  yes->[1]  no->[0]\nsafe length 13\nalignment offset 0\n";
    assert_eq!(e.read("program"), want);
    let mut e = Harness::of(
        class_named("IPFilter").unwrap().configure(&["allow tcp[2:4] = 1".into()]).unwrap(),
        1,
        1,
    );
    assert!(e.try_read("program").unwrap_err().contains("two words"));
}

/// Filters whose parts meet in the packets below.
const TERMS: [&str; 22] = [
    "tcp",
    "udp",
    "icmp",
    "icmp type echo",
    "src 10.0.0.1",
    "net 10.0.0.0/30",
    "src and dst net 10.0.0.0/8",
    "port 80",
    "dst port 81",
    "src port 80-83",
    "port > 80",
    "tcp port <= 81",
    "src and dst port >= 1024",
    "syn",
    "ack",
    "ip frag",
    "ip ttl < 5",
    "ip ttl >= 4",
    "ip tos & 0x14 > 9",
    "ip[2:2] != 60",
    "transp[0] & 1 = 0",
    "tcp[13] & 0x12 = 0x12",
];

fn filter() -> impl Strategy<Value = String> {
    let term = prop::sample::select(TERMS.to_vec()).prop_map(str::to_owned);
    term.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|v| format!("({})", v.join(" and "))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(|v| format!("({})", v.join(" or "))),
            inner.prop_map(|f| format!("not ({f})")),
        ]
    })
}

/// An IPv4 packet with a whole header of its transport protocol.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let few = |list: &'static [u8]| prop::sample::select(list);
    let port = || prop::sample::select(vec![79_u16, 80, 81, 84, 1023, 1024, 0x8000]);
    let head = (
        few(&[1, 6, 17, 47]),
        few(&[1, 2, 9]),
        few(&[1, 4]),
        few(&[3, 4, 5, 64]),
        few(&[0, 4, 0x10, 0x14, 0xff]),
    );
    let fragment = prop::sample::select(vec![0_u16, 0x4000, 0x2000, 7]);
    (head, fragment, port(), port(), few(&[0, 2, 0x10, 0x12, 0xff]), 0_usize..3).prop_map(
        |((proto, src, dst, ttl, tos), fragment, sport, dport, flags, options)| {
            let mut p = vec![0x45 + options as u8, tos, 0, 60, 0, 0, 0, 0, ttl, proto, 0, 0];
            p[6..8].copy_from_slice(&fragment.to_be_bytes());
            p.extend([10, 0, 0, src, 10, 0, 0, dst]);
            p.resize(20 + 4 * options, 1);
            let start = p.len();
            p.extend(sport.to_be_bytes());
            p.extend(dport.to_be_bytes());
            p.resize(start + 40, 0);
            p[start + 13] = flags;
            p
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn it_decides_as_the_filters_say(
        filters in prop::collection::vec((filter(), 0_u32..3), 1..5),
        packets in prop::collection::vec(packet(), 20),
    ) {
        let exprs: Vec<Expr> = filters.iter().map(|(text, _)| Expr::parse_click(text).unwrap()).collect();
        let t = Tree::of(exprs.iter().zip(&filters).map(|(e, (_, output))| (e, Some(*output)))).unwrap();
        for p in packets {
            let view = PacketView::ip(&p);
            let want = exprs.iter().zip(&filters).find(|(e, _)| e.matches(&view)).map(|(_, (_, output))| *output);
            let header = usize::from(p[0] & 15) * 4;
            let byte = |at: u32| match at {
                TRANSPORT.. => p.get(header + (at - TRANSPORT) as usize),
                _ => p.get((at - NET) as usize),
            };
            prop_assert_eq!(t.decide(|at| byte(at).copied()), want, "{:?} of {:?}\n{}", p, filters, t);
        }
    }
}

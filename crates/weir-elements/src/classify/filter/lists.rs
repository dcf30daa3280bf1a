//! Lists of rules: whether they are tested one by one or looked up, they mean what the evaluator says.

use weir_filter::{
    AddressOf, Arith, ArithOp, Cmp, Compare, Dir, Expr, Field as FieldPrim, IpVersion, Layer as FieldLayer,
    PacketView, Ports, Prim, Tags,
};
use weir_ir::{Builder, Layer, Outcome, Program, Reason, check, optimize, outcomes};
use weir_jit::differential::{Seen, Step, assert_same};
use weir_packet::Packet;
use weir_table::TableSet;
use weir_verify::testing::{Case, assert_covered};

use super::tests::frames;
use super::*;
use crate::testing::ip_packet;
use proptest::prelude::*;

/// A list as a program: exit 0 is for what matches no rule, exit 1 for the first outcome …
struct Compiled {
    program: Program,
    tables: TableSet,
    lookups: usize,
}

fn compiled(view: View, rules: &[Expr], few: usize) -> Compiled {
    let outcomes = rules.len() as u32 + 1;
    let mut b = Builder::new("list", 1, outcomes);
    let walks = super::cond::walks(rules);
    let rules = (1..).zip(rules).map(|(i, e)| (Cond::of(e, view, walks), i)).collect();
    let mut plan = RuleList::of(view, rules, few, walks);
    let lookups = plan.declare(&mut b, "rules").len();
    assert_eq!(plan.names("rules").len(), lookups);
    b.input(0, |b| {
        if view == View::Ip {
            b.require(Layer::Net, 20, Reason::TRUNCATED);
        }
        plan.run(b, |b, _, outcome, _| b.emit(outcome));
        if !b.ended() {
            b.emit(0);
        }
    });
    let program = b.finish();
    if let Err(e) = check(&program) {
        panic!("{e:#?}\n{program}");
    }
    let program = optimize(program);
    let mut tables = TableSet::new(program.tables.iter().map(|t| &t.decl)).unwrap();
    for (i, t) in program.tables.iter().enumerate() {
        for row in &t.rows {
            tables.table_mut(i as u32).insert_row(row, 0).unwrap();
        }
        assert_eq!(tables.table(i as u32).len() as usize, t.rows.len(), "no two rows are the same");
    }
    Compiled { program, tables, lookups }
}

impl Compiled {
    fn run(&mut self, packet: Packet) -> Option<u32> {
        outcomes(&self.program, &mut self.tables, 0, packet).iter().find_map(Outcome::output)
    }
}

/// What the evaluator says.
fn wanted(rules: &[Expr], view: &PacketView<'_>) -> u32 {
    rules.iter().position(|r| r.matches(view)).map_or(0, |i| i as u32 + 1)
}

fn dir() -> impl Strategy<Value = Dir> {
    prop::sample::select(vec![Dir::Src, Dir::Dst, Dir::SrcOrDst, Dir::SrcAndDst])
}

fn cmp() -> impl Strategy<Value = Cmp> {
    prop::sample::select(vec![Cmp::Eq, Cmp::Ne, Cmp::Lt, Cmp::Le, Cmp::Gt, Cmp::Ge])
}

fn proto() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![6_u8, 17, 1, 0])
}

/// A primitive about things that the frames have.
fn prim() -> impl Strategy<Value = Prim> {
    let net = (dir(), 0_u32..3, prop::sample::select(vec![32_u32, 31, 24, 8, 1, 0]), any::<bool>(), 0_u32..3)
        .prop_map(|(dir, host, len, dst, odd)| {
            let addr = if dst { 0x0a00_0101 } else { 0x0a00_0000 + host };
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            // Masks that are no prefixes are allowed.
            let mask = if odd == 0 { mask & 0xff00_00ff } else { mask };
            let of = [AddressOf::Any, AddressOf::Ip, AddressOf::Arp][(host as usize + len as usize) % 3];
            Prim::Net { of, dir, addr: (addr & mask).into(), mask: mask.into() }
        });
    let version = prop::sample::select(vec![None, Some(IpVersion::V4), Some(IpVersion::V6)]);
    let ports = prop_oneof![Just(Ports::Any), Just(Ports::TcpUdp), proto().prop_map(Ports::Of)];
    let net6 = (dir(), prop::sample::select(vec![0_u8, 3, 64, 128])).prop_map(|(dir, len)| Prim::Net6 {
        dir,
        addr: std::net::Ipv6Addr::UNSPECIFIED,
        len,
    });
    let ether = (dir(), 1_u8..4)
        .prop_map(|(dir, n)| Prim::EtherHost { dir, addr: weir_net::EtherAddr([2, 0, 0, 0, 0, n]) });
    let port = (dir(), prop::sample::select(vec![0_u16, 1, 7, 0x0101, 0x5035]), 0_u16..3, ports)
        .prop_map(|(dir, lo, n, proto)| Prim::Port { dir, lo, hi: lo.saturating_add(n * 0x400), proto });
    let layer = prop_oneof![
        3 => Just(FieldLayer::Ip),
        1 => Just(FieldLayer::Transport),
        1 => Just(FieldLayer::TcpUdp),
        2 => proto().prop_map(FieldLayer::Proto),
        1 => proto().prop_map(FieldLayer::Proto4),
        1 => prop::sample::select(vec![
            FieldLayer::Ether, FieldLayer::Ip6, FieldLayer::Type(0x0806), FieldLayer::Proto6(17),
        ]),
    ];
    let field = (
        layer,
        0_u16..26,
        1_u8..5,
        prop_oneof![Just(u32::MAX), Just(1), Just(0x10), any::<u32>()],
        cmp(),
        0_u32..80,
    )
        .prop_map(|(layer, offset, width, mask, cmp, value)| {
            let max = u32::MAX >> (32 - 8 * u32::from(width));
            let mask = mask & max;
            FieldPrim {
                layer,
                offset,
                width,
                mask: if mask == 0 { 1 } else { mask },
                cmp,
                value: value & max,
            }
        });
    prop_oneof![
        4 => net,
        1 => net6,
        1 => ether,
        1 => prop::sample::select(vec![0x0800_u16, 0x0806, 0x86dd, 0, 0x8100]).prop_map(Prim::EtherType),
        1 => prop::sample::select(vec![None, Some(25), Some(26), Some(0)]).prop_map(Prim::Vlan),
        2 => (proto(), version.clone()).prop_map(|(number, version)| Prim::Proto { number, version }),
        1 => (proto(), version).prop_map(|(number, version)| Prim::Chain { number, version }),
        4 => port,
        3 => field.prop_map(Prim::Field),
    ]
}

/// A comparison of what is computed.
fn compare() -> impl Strategy<Value = Expr> {
    let layer = prop::sample::select(vec![
        FieldLayer::Ip,
        FieldLayer::Ether,
        FieldLayer::Proto4(6),
        FieldLayer::Transport,
    ]);
    let load = |layer, offset, width| Arith::Load { layer, offset: Box::new(offset), width };
    (layer, 0_u32..24, 1_u8..5, cmp(), 0_u32..70).prop_map(move |(layer, at, width, cmp, value)| {
        let inner = load(layer, Arith::Number(at), 1);
        let left = match value % 3 {
            0 => Arith::Len,
            1 => load(layer, inner, width),
            _ => Arith::Op(ArithOp::Add, Box::new(inner), Box::new(Arith::Number(at))),
        };
        Expr::Compare(Box::new(Compare { left, cmp, right: Arith::Number(value) }))
    })
}

fn expr() -> impl Strategy<Value = Expr> {
    let tags = prop_oneof![4 => Just(Tags::NONE), 1 => Just(Tags::Count(1)), 2 => Just(Tags::All)];
    let test = prop_oneof![12 => prim().prop_map(Expr::Prim), 1 => compare()];
    let test = (test, tags).prop_map(|(test, tags)| test.behind(tags));
    let leaf = prop_oneof![20 => test, 1 => Just(Expr::True), 1 => Just(Expr::False)];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::and),
            2 => prop::collection::vec(inner.clone(), 2..5).prop_map(Expr::or),
            1 => inner.prop_map(Expr::not),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn all_forms_mean_the_same(
        rules in prop::collection::vec(expr(), 1..40),
        frames in prop::collection::vec(frames(), 40),
    ) {
        for view in [View::Ethernet, View::Ip] {
            for few in [0, 4, usize::MAX] {
                let mut list = compiled(view, &rules, few);
                for frame in &frames {
                    let (packet, seen) = match view {
                        View::Ethernet => (Packet::from_bytes(frame).unwrap(), PacketView::ethernet(frame)),
                        _ => {
                            let ip = frame.get(14..).filter(|ip| ip.len() >= 20);
                            let Some(ip) = ip else { continue };
                            (ip_packet(ip), PacketView::ipv4(ip, 0))
                        }
                    };
                    let (got, wanted) = (list.run(packet), wanted(&rules, &seen));
                    let texts: Vec<String> = rules.iter().map(Expr::to_string).collect();
                    prop_assert_eq!(got, Some(wanted), "{:?}, few {}: {:#?} on {:02x?}\n{}", view, few, texts, frame, list.program);
                }
            }
        }
    }
}

fn parsed(texts: impl IntoIterator<Item = String>) -> Vec<Expr> {
    texts.into_iter().map(|t| Expr::parse(&t).unwrap_or_else(|e| panic!("{t}: {e}"))).collect()
}

/// The table's rows and key in bytes.
fn size(list: &Compiled) -> (usize, u32) {
    let t = &list.program.tables[0];
    (t.rows.len(), t.decl.key.iter().map(|f| f.width.bytes()).sum())
}

#[test]
fn usual_rules_are_one_lookup_with_a_short_key() {
    let rules =
        parsed((0..1000).map(|i| format!("src host 10.1.{}.{} and dst port {}", i / 250, i % 250, 1000 + i)));
    let list = compiled(View::Ip, &rules, 4);
    assert_eq!((list.lookups, size(&list)), (1, (1000, 7)));
    let rules = parsed((0..100).map(|i| {
        format!("tcp and src net 10.{i}.0.0/16 and not dst net 192.0.2.0/24 and dst port {i}-{} or udp src port {i}", i + 9)
    }));
    let list = compiled(View::Ip, &rules, 4);
    assert_eq!((list.lookups, size(&list)), (1, (200, 10)));
    let rules = parsed((0..100).map(|i| format!("vlan {i}")));
    let list = compiled(View::Ethernet, &rules, 4);
    assert_eq!((list.lookups, size(&list)), (1, (100, 2)));
}

#[test]
fn few_rules_and_few_values_are_tested() {
    for texts in [
        vec!["tcp dst port 80", "udp", "icmp", "src 10.0.0.1"],
        vec!["vlan 1", "vlan 2", "vlan 3", "vlan 4", "vlan 5"],
    ] {
        let list = compiled(View::Ethernet, &parsed(texts.iter().map(|t| (*t).to_owned())), 4);
        assert_eq!(list.lookups, 0);
    }
}

/// Rules of which rows would be too many, or bits too many, are right all the same: what is not covered by rows is
/// tested, and what does not go into one table goes into the next.
#[test]
fn rules_that_are_too_much_for_a_table_are_tested() {
    let wide = |i: u32| {
        let ports: Vec<String> = (0..9).map(|k| format!("src port {}", 100 * i + k)).collect();
        let more: Vec<String> = (0..9).map(|k| format!("dst port {}", 100 * i + k)).collect();
        format!("({}) and ({})", ports.join(" or "), more.join(" or "))
    };
    let list = compiled(View::Ip, &parsed((0..10).map(wide)), 4);
    assert_eq!(list.lookups, 1);
    assert!(size(&list).0 <= 10 * 65, "{:?}", size(&list));
    let list = compiled(View::Ip, &parsed((0..60).map(|i| format!("ip[24] & 0x55 > {i}"))), 4);
    assert_eq!(list.lookups, 3);
    // Negated conditions that have no bit any more become rows.
    let list = compiled(
        View::Ip,
        &parsed((0..40).map(|i| format!("udp and not src port {i} and not dst host 10.0.0.{i}"))),
        4,
    );
    assert_eq!(list.lookups, 1);
    assert!(size(&list).0 <= 40 * 8, "{:?}", size(&list));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Compiled, and run symbolically, a lookup finds the row that it finds when interpreted.
    #[test]
    fn all_ways_to_run_a_table_agree(
        rules in prop::collection::vec(expr(), 5..20),
        frames in prop::collection::vec(frames(), 20),
    ) {
        let list = compiled(View::Ethernet, &rules, 0);
        let steps: Vec<Step> = frames.iter().map(|f| Step::packet(0, f, 1)).collect();
        let seen = assert_same(&list.program, 1, &steps);
        for (frame, seen) in frames.iter().zip(&seen) {
            let wanted = wanted(&rules, &PacketView::ethernet(frame));
            prop_assert!(matches!(seen[..], [Seen::Exit { port, .. }] if port == wanted), "{:?}, not {}", seen, wanted);
        }
        let entry = list.program.packet_entry(0, 0).unwrap();
        let case = |f: &Vec<u8>| {
            let packet = Some(Packet::from_bytes(f).unwrap());
            Case { entry, packet, args: Vec::new(), now: 1, randoms: Vec::new() }
        };
        let covered = assert_covered(&list.program, frames.iter().map(case));
        prop_assert_eq!((covered.open, covered.incomplete), (0, None));
        prop_assert_eq!(covered.agreed, frames.len());
    }
}

use proptest::prelude::*;
use weir_ir::program::BlockId;
use weir_ir::{Host, Interpreter, Reason, check};
use weir_model::filter::PacketView;
use weir_packet::Packet;
use weir_table::TableSet;

use weir_ir::{Builder, Layer};
use weir_model::filter::Expr;

use super::*;
use crate::testing::ip_packet;

struct Exit(Option<u32>);
impl Host for Exit {
    fn exit(&mut self, port: u32, _: Packet) {
        self.0 = Some(port);
    }
    fn dropped(&mut self, _: BlockId, _: &Reason, _: Packet) {}
    fn orphaned(&mut self, _: Packet) {}
    fn random(&mut self) -> u32 {
        0
    }
}

/// Runs the compiled filter; `None` if the view's precondition fails.
fn compiled(view: View, expr: &Expr, packet: Packet) -> Option<bool> {
    let mut b = Builder::new("filter", 1, 2);
    let plan = Plan::new(view, [(expr, 0)]);
    b.input(0, |b| {
        match view {
            View::Ip => b.require(Layer::Net, 20, Reason::TRUNCATED),
            View::Ip6 => b.require(Layer::Net, 40, Reason::TRUNCATED),
            View::Ethernet | View::Bytes => {}
        }
        plan.run(b, |b, _, _, _| b.emit(1));
        if !b.ended() {
            b.emit(0);
        }
    });
    let program = b.finish();
    if let Err(e) = check(&program) {
        panic!("{expr}: {e:#?}");
    }
    let mut exit = Exit(None);
    let entry = program.packet_entry(0, 0).unwrap();
    Interpreter::default().run(&program, &mut TableSet::default(), &mut exit, 0, entry, &[], Some(packet));
    exit.0.map(|port| port == 1)
}

const FILTERS: &[&str] = &[
    "tcp",
    "udp and dst port 53",
    "src net 10.0.0.0/8 and tcp dst port 80 or 443",
    "icmp type echo",
    "ip frag",
    "not tcp",
    "tcp opt syn and not ack",
    "port >= 1024",
    "portrange 1-1024",
    "src port 7 or dst host 10.0.1.1",
    "ip ttl < 10",
    "tcp[13] & 0x12 == 0x02",
    "ip[2:2] > 40",
    "host 10.0.0.1",
    "ip proto 0",
    "not port 80",
    "transp[4:4] == 0",
    "ip vers 4",
    "ip tos 4",
    "src and dst port 1",
];
const ETHER_FILTERS: &[&str] = &[
    "vlan 25",
    "vlan",
    "ether src 02:00:00:00:00:02",
    "arp",
    "ip6",
    "ip6 host 2001:db8::1",
    "ip and tcp",
    "not vlan",
];

const IPV6_FILTERS: &[&str] = &[
    "ip6",
    "ip",
    "icmp6",
    "ip6 host 2001:db8::1",
    "src host 2001:db8::2 and udp",
    "src net 2001:db8::/127 and tcp dst port 80 or 53",
    "not dst host 2001:db8::1",
];

pub(super) fn frames() -> impl Strategy<Value = Vec<u8>> {
    let ip = |proto: u8, tail: Vec<u8>, options: u8, fragment: u16, src: u8| {
        let mut p = vec![0x45 + options, 4, 0, 0, 0, 1, 0, 0, 9, proto, 0, 0, 10, 0, 0, src, 10, 0, 1, 1];
        p[6..8].copy_from_slice(&fragment.to_be_bytes());
        p.extend(vec![0; usize::from(options) * 4]);
        p.extend(tail);
        let len = p.len() as u16;
        p[2..4].copy_from_slice(&len.to_be_bytes());
        p
    };
    let tail = prop::collection::vec(
        prop_oneof![Just(0u8), Just(1), Just(7), Just(53), Just(80), any::<u8>()],
        0..30,
    );
    let v4 = (
        prop_oneof![Just(6u8), Just(17), Just(1), Just(0)],
        tail,
        0u8..3,
        prop_oneof![Just(0u16), Just(5), Just(0x2000)],
        0u8..3,
    )
        .prop_map(move |(p, t, o, f, s)| (0x0800u16, ip(p, t, o, f, s)));
    let other =
        (prop_oneof![Just(0x0806u16), Just(0x86dd), Just(0x0800)], prop::collection::vec(any::<u8>(), 0..60));
    let vlan = prop::collection::vec(prop_oneof![Just(25u16), Just(26)], 0..3);
    (prop_oneof![3 => v4, 1 => other], vlan, 0usize..100).prop_map(|((kind, net), vlan, cut)| {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for v in vlan {
            f.extend(0x8100u16.to_be_bytes());
            f.extend(v.to_be_bytes());
        }
        f.extend(kind.to_be_bytes());
        f.extend(net);
        if cut < 30 {
            f.truncate(f.len().saturating_sub(cut));
        }
        f
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn compiled_filters_mean_what_the_evaluator_says(frame in frames()) {
        for text in FILTERS.iter().chain(ETHER_FILTERS) {
            let expr = Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let wanted = expr.matches(&PacketView::ethernet(&frame));
            let got = compiled(View::Ethernet, &expr, Packet::from_bytes(&frame).unwrap());
            prop_assert_eq!(got, Some(wanted), "{} on {:02x?}", text, frame);
        }
        let ip = frame.get(14..).unwrap_or(&[]);
        for text in FILTERS {
            let expr = Expr::parse(text).unwrap();
            let Some(got) = compiled(View::Ip, &expr, ip_packet(ip)) else { continue };
            prop_assert_eq!(got, expr.matches(&PacketView::ipv4(ip, 0)), "{} on {:02x?}", text, ip);
        }
    }

    #[test]
    fn compiled_filters_of_ipv6_mean_what_the_evaluator_says(
        next in prop_oneof![Just(6u8), Just(17), Just(58), Just(0)],
        last in 0u8..3,
        payload in prop::collection::vec(prop_oneof![Just(0u8), Just(7), Just(53), Just(80), any::<u8>()], 0..30),
    ) {
        let mut ip = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 9];
        ip.extend(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into()).octets());
        ip.extend(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets());
        ip.extend(payload);
        for text in FILTERS.iter().chain(IPV6_FILTERS) {
            let expr = Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let mut p = Packet::from_bytes(&ip).unwrap();
            let start = p.data();
            p.set_layer(Layer::Net, Some(start));
            let got = compiled(View::Ip6, &expr, p);
            prop_assert_eq!(got, Some(expr.matches(&PacketView::ip(&ip))), "{} on {:02x?}", text, ip);
        }
    }
}

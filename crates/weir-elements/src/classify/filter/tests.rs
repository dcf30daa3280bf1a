use proptest::prelude::*;
use weir_filter::{Expr, PacketView};
use weir_ir::{Builder, Layer, Outcome, Reason, check, outcomes};
use weir_packet::Packet;
use weir_table::TableSet;

use super::*;
use crate::testing::ip_packet;

/// Runs the compiled filter; `None` if the view's precondition fails.
fn compiled(view: View, expr: &Expr, packet: Packet) -> Option<bool> {
    let mut b = Builder::new("filter", 1, 2);
    let plan = RuleList::new(view, [(expr, 0)]);
    b.input(0, |b| {
        match view {
            View::Ip => b.require(Layer::Net, 20, Reason::TRUNCATED),
            View::Ip6 | View::Ip6Followed => b.require(Layer::Net, 40, Reason::TRUNCATED),
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
    let ended = outcomes(&program, &mut TableSet::default(), 0, packet);
    ended.iter().find_map(Outcome::output).map(|port| port == 1)
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
    "sctp port 80 or tcpudp port 53",
    "tcp[0:2] = 80 or icmp[icmptype] = icmp-echo",
    "tcp transp[0] & 1 = 0",
    "transp[22:2] = 7 or not transp[25] > 0",
    "ip[22:2] = 80",
    "ip6[6] = 44 or ip6 proto 17",
    "ip proto 17",
    "proto 44 or protochain 6",
    "tcp[((tcp[12] & 0xf0) >> 2):1] = 7",
    "ip[0] & 0xf != 5 and ip[ip[1]] + 1 < transp[0]",
    "len > 50 and less 60",
    "host 10.0.0.1 and not ip host 10.0.1.1",
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
    "ether proto 0x8100",
    "vlan and tcp",
    "vlan 25 and vlan and dst host 10.0.1.1",
    "vlan and not ip6 protochain 17",
    "tags all tcp dst port 80",
    "tags all icmp or udp",
    "tags all ether proto 0x8100 or tags 1 ip[9] = 6",
    "tags all udp and not ip and ether proto 0x88a8",
    "arp host 10.0.0.1 or rarp src net 10/8",
    "host 10.0.1.1",
    "ether[0] & 1 = 0 and ether[12:2] >= 0x800",
    "ether src 02:00:00:00:00:02 and ether[14:4] = 0x19",
    "arp[6:2] = 1",
    "ether proto 0x8864 or mpls",
    "tags all ether proto 0 or multicast",
];

const IPV6_FILTERS: &[&str] = &[
    "ip6",
    "ip",
    "icmp6",
    "ip6 host 2001:db8::1",
    "src host 2001:db8::2 and udp",
    "src net 2001:db8::/127 and tcp dst port 80 or 53",
    "not dst host 2001:db8::1",
    "ip6 protochain 17 or protochain 60",
    "proto 44 or ip6 proto 0",
    "udp or icmp6[0] = 7",
    "ip6[40] = 17 or ip6[6] = 44",
    "transp[22] = 7 and tcp transp[0:2] = 80",
];

pub(super) fn frames() -> impl Strategy<Value = Vec<u8>> {
    let ip = |proto: u8, tail: Vec<u8>, options: u8, fragment: u16, src: u8| {
        let mut p = vec![0x45 + options, 4, 0, 0, 0, 1, 0, 0, 9, proto, 0, 0, 10, 0, 0, src, 10, 0, 1, 1];
        p[6..8].copy_from_slice(&fragment.to_be_bytes());
        p.extend(vec![0; usize::from(options) * 4]);
        p.extend(tail);
        // As long as it is, or padded, or of a length that is not said.
        let len = [p.len() as u16, p.len() as u16, 0, 22 + u16::from(src)][usize::from(p[9] ^ src) % 4];
        p[2..4].copy_from_slice(&len.to_be_bytes());
        p
    };
    let arp = |sender: u8, target: u8| {
        let mut p =
            vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, sender, 0, 0, 0, 0, 0, 0, 10, 0, 1];
        p.push(target);
        p
    };
    let arp = (prop_oneof![Just(0x0806u16), Just(0x8035)], 0u8..3, 0u8..3)
        .prop_map(move |(t, s, d)| (t, arp(s, d)));
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
    let v6 = ipv6().prop_map(|p| (0x86ddu16, p));
    (prop_oneof![3 => v4, 1 => v6, 1 => arp, 1 => other], vlan, 0usize..100).prop_map(
        |((kind, net), vlan, cut)| {
            let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            for v in vlan {
                let tag = [0x8100u16, 0x88a8, 0x9100][cut % 3];
                f.extend(tag.to_be_bytes());
                f.extend(v.to_be_bytes());
            }
            f.extend(kind.to_be_bytes());
            f.extend(net);
            if cut < 30 {
                f.truncate(f.len().saturating_sub(cut));
            }
            f
        },
    )
}

/// IPv6 packets with extension headers, sometimes with bytes behind the end that their header gives.
fn ipv6() -> impl Strategy<Value = Vec<u8>> {
    let extension = prop_oneof![Just(0u8), Just(43), Just(60), Just(44), Just(51)];
    let chain = prop::collection::vec((extension, 0u8..3, prop_oneof![3 => Just(0u8), 1 => Just(1)]), 0..4);
    let last = prop_oneof![Just(6u8), Just(17), Just(58), Just(0), Just(59), Just(44)];
    let payload =
        prop::collection::vec(prop_oneof![Just(0u8), Just(7), Just(53), Just(80), any::<u8>()], 0..30);
    (chain, last, payload, 0u8..3, 0usize..8).prop_map(|(chain, last, payload, host, cut)| {
        let mut rest = Vec::new();
        for (i, (proto, len, offset)) in chain.iter().enumerate() {
            let next = chain.get(i + 1).map_or(last, |(next, ..)| *next);
            let bytes = if *proto == 51 { 8 + 4 * usize::from(*len) } else { 8 + 8 * usize::from(*len) };
            let start = rest.len();
            rest.extend([next, *len]);
            // Of a fragment header: the offset, in units of eight bytes.
            rest.extend([0, if *proto == 44 { offset << 3 } else { 1 }]);
            rest.resize(start + if *proto == 44 { 8 } else { bytes }, 0);
        }
        rest.extend(payload);
        let len = rest.len().saturating_sub(if cut == 0 { 9 } else { 0 }) as u16;
        let mut ip = vec![0x60, 0, 0, 0, 0, 0, chain.first().map_or(last, |(first, ..)| *first), 9];
        ip[4..6].copy_from_slice(&len.to_be_bytes());
        ip.extend(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into()).octets());
        ip.extend(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets());
        ip.extend(rest);
        ip
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
    fn compiled_filters_of_ipv6_mean_what_the_evaluator_says(ip in ipv6()) {
        for text in FILTERS.iter().chain(IPV6_FILTERS) {
            let expr = Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            for (view, seen) in [
                (View::Ip6, PacketView::ip(&ip)),
                (View::Ip6Followed, PacketView::ipv6_followed(&ip, 0)),
            ] {
                let mut p = Packet::from_bytes(&ip).unwrap();
                let start = p.data();
                p.set_layer(Layer::Net, Some(start));
                let got = compiled(view, &expr, p);
                // Extension headers that cannot be followed end the packet.
                prop_assert!(got.is_some() || view == View::Ip6Followed, "{} on {:02x?}", text, ip);
                if let Some(got) = got {
                    prop_assert_eq!(got, expr.matches(&seen), "{} on {:02x?}, {:?}", text, ip, view);
                }
            }
        }
    }
}

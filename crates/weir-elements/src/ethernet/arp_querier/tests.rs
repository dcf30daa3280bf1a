use super::*;
use crate::testing::{Harness, Outcome, udp};
use weir_net::build;

const OWN: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
const PEER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 2]);

fn querier(args: &[&str]) -> Harness {
    let mut all = vec!["10.0.0.1", "02:00:00:00:00:01"];
    all.extend(args);
    Harness::new("ARPQuerier", &all, 2, 1)
}

fn packet(n: u8) -> Vec<u8> {
    udp(([10, 0, 0, 1], 1), ([10, 0, 0, 2], 2), &[n])
}

fn answer() -> Vec<u8> {
    build::arp(2, (PEER, Ipv4Addr::new(10, 0, 0, 2)), (OWN, Ipv4Addr::new(10, 0, 0, 1)))
}

fn query() -> Vec<u8> {
    let mut q =
        build::arp(1, (OWN, Ipv4Addr::new(10, 0, 0, 1)), (EtherAddr([0; 6]), Ipv4Addr::new(10, 0, 0, 2)));
    q[..6].fill(0xff);
    q
}

#[test]
fn packets_wait_for_the_answer_and_leave_in_order() {
    let mut e = querier(&[]);
    let out = e.send_ip(0, &packet(1));
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].out(), (0, &query()[..]));
    assert!(e.send_ip(0, &packet(2)).is_empty(), "the second packet waits without another query");
    assert_eq!((e.read("length"), e.read("count")), ("2".into(), "1".into()));

    let out = e.send(1, &answer());
    assert_eq!(out[0].reason(), "Consumed");
    for (i, n) in [1, 2].into_iter().enumerate() {
        let (port, frame) = out[i + 1].out();
        let whole = build::ethernet(PEER, OWN, 0x800, &packet(n));
        assert_eq!((port, frame), (0, &whole[..]));
    }
    assert!(matches!(&e.send_ip(0, &packet(3))[..], [Outcome::Out(0, p)] if p.len() == 14 + packet(3).len()));
    assert_eq!(e.read("table"), "10.0.0.2 1 02-00-00-00-00-02 0.000000\n");
}

#[test]
fn queries_repeat_each_second_and_then_the_packets_are_dropped() {
    let mut e = querier(&["TRIES 3"]);
    e.send_ip(0, &packet(1));
    for _ in 0..2 {
        e.now += SECOND;
        let out = e.expire();
        assert_eq!((out.len(), out[0].out()), (1, (0, &query()[..])));
    }
    e.now += SECOND;
    let out = e.expire();
    assert_eq!((out.len(), out[0].reason()), (1, "TimedOut"));
    assert_eq!((e.read("count"), e.read("queries")), ("0".into(), "3".into()));
}

#[test]
fn only_so_many_packets_wait() {
    let mut e = querier(&["ENTRY_PACKET_CAPACITY 2"]);
    e.send_ip(0, &packet(1));
    e.send_ip(0, &packet(2));
    assert_eq!(e.send_ip(0, &packet(3))[0].reason(), "Full");
    assert_eq!(e.read("drops"), "1");
}

#[test]
fn an_answer_is_believed_for_a_time_and_polled_meanwhile() {
    let mut e = querier(&["TIMEOUT 300", "POLL_TIMEOUT 60"]);
    e.send(1, &answer());
    e.now += 61 * SECOND;
    let out = e.send_ip(0, &packet(1));
    assert_eq!(out.len(), 2, "a query leaves, and then the packet");
    let whole = build::ethernet(PEER, OWN, 0x800, &packet(1));
    assert_eq!(out[1].out(), (0, &whole[..]));
    let mut poll = query();
    poll[..6].copy_from_slice(&PEER.octets());
    assert_eq!(out[0].out().1, poll);
    assert_eq!(e.send_ip(0, &packet(2)).len(), 1, "and no other at once");
    e.now += 239 * SECOND + SECOND / 2;
    assert_eq!(e.send_ip(0, &packet(3))[0].out().1, query(), "the packet waits");
    assert_eq!(e.read("table"), "10.0.0.2 0 02-00-00-00-00-02 300.000000\n");
    assert_eq!(e.send(1, &answer()).len(), 2);
    e.now += 306 * SECOND;
    e.expire();
    assert_eq!(e.read("count"), "0");
}

#[test]
fn polls_go_to_all_if_that_is_asked_for() {
    let mut e = querier(&["BROADCAST_POLL true"]);
    e.send(1, &answer());
    e.now += 60 * SECOND;
    assert_eq!(e.send_ip(0, &packet(1))[0].out().1, query());
}

#[test]
fn each_packet_asks_but_not_too_often() {
    let mut e = querier(&["ENTRY_PACKET_CAPACITY 0", "CAPACITY 1000"]);
    let mut queries = |packets: u64, pause: u64| {
        let mut sent = 0;
        for n in 0..packets {
            sent += e.send_ip(0, &packet(n as u8)).len();
            e.now += pause;
        }
        sent
    };
    assert_eq!(queries(99, SECOND / 100), 10);
    assert_eq!(queries(21, SECOND / 10), 1, "after ten queries the pause is longer");
    for _ in 0..5 {
        e.now += SECOND;
        e.expire();
    }
    assert_eq!((e.read("count"), e.read("queries")), ("0".into(), "11".into()));
}

#[test]
fn when_the_table_is_full_the_address_that_would_go_next_is_evicted() {
    let mut e = querier(&["ENTRY_CAPACITY 2"]);
    let to = |n: u8| udp(([10, 0, 0, 1], 1), ([10, 0, 0, n], 2), b"");
    e.send(1, &answer());
    for n in [3, 4] {
        let out = e.send_ip(0, &to(n));
        assert_eq!(out[0].out().0, 0, "the query for {n}");
        let orphans: Vec<&str> = out[1..].iter().map(Outcome::reason).collect();
        assert_eq!(orphans, if n == 4 { vec!["TimedOut"] } else { vec![] }, "the packet for 3 waited");
    }
    assert_eq!((e.read("count"), e.read("length")), ("2".into(), "1".into()));
    assert!(e.read("table").contains("10.0.0.2 1 "), "what is known stays: {}", e.read("table"));
}

#[test]
fn queriers_share_a_table() {
    let [eth_a, eth_b] = ["02:00:00:00:00:01", "02:00:00:00:00:0b"];
    let elements: [(&str, &str, &[&str], u32, u32); 3] = [
        ("a", "ARPQuerier", &["10.0.0.1", eth_a, "TABLE arp"], 2, 1),
        ("b", "ARPQuerier", &["10.0.0.1", eth_b, "TABLE arp"], 2, 1),
        ("arp", "ARPTable", &["ENTRY_PACKET_CAPACITY 1"], 0, 0),
    ];
    let mut h = Harness::graph(&elements, &[]);
    let send = |h: &mut Harness, element| h.send_to(element, 0, crate::testing::ip_packet(&packet(1)));
    assert_eq!(send(&mut h, 0)[0].out().1, query());
    assert_eq!(send(&mut h, 1)[0].reason(), "Full", "a packet waits already");
    assert_eq!((h.read("length"), h.read("drops")), ("1".into(), "1".into()));
    let out = h.send_to(1, 1, weir_packet::Packet::from_bytes(&answer()).unwrap());
    assert_eq!(out[1].out().1[6..12], [2, 0, 0, 0, 0, 0xb], "who hears the answer sends what waits");
    assert_eq!(send(&mut h, 0)[0].out().1[..6], PEER.octets(), "what one has learnt, the other knows");

    let class = crate::class_named("ARPQuerier").unwrap();
    let args = ["10.0.0.1", eth_a, "TABLE x"].map(str::to_owned);
    let mut e = class.configure(&args).unwrap();
    let errors = e.resolve(&Peers::new(&[], "q")).unwrap_err();
    assert_eq!(errors, ["TABLE: 'x' is not an ARPTable element"]);
}

#[test]
fn groups_need_no_answer() {
    let mut e = querier(&[]);
    let out = e.send_ip(0, &udp(([10, 0, 0, 1], 1), ([224, 129, 2, 3], 2), b""));
    assert_eq!(out[0].out().1[..6], [1, 0, 0x5e, 1, 2, 3]);
    assert_eq!(e.read("queries"), "0");
}

#[test]
fn what_is_no_proper_answer_is_not_learnt() {
    let mut e = querier(&[]);
    for n in 0..answer().len() {
        assert_eq!(e.send(1, &answer()[..n])[0].reason(), "Truncated");
    }
    let mut request = answer();
    request[21] = 1;
    assert_eq!(e.send(1, &request)[0].reason(), "NotAnAnswer");
    let mut group = answer();
    group[22] = 3;
    assert_eq!(e.send(1, &group)[0].reason(), "BadHeader");
    assert_eq!(e.read("count"), "0");
}

#[test]
fn the_table_can_be_edited() {
    let mut e = querier(&[]);
    e.write("insert", "10.0.0.2 02:00:00:00:00:02").unwrap();
    assert_eq!(e.send_ip(0, &packet(1))[0].out().1[..6], PEER.octets());
    e.write("delete", "10.0.0.2").unwrap();
    assert!(e.write("delete", "10.0.0.2").unwrap_err().contains("not in the table"));
    assert!(e.write("insert", "10.0.0.2").is_err());
}

#[test]
fn broadcasts_need_no_answer() {
    let network = Harness::new("ARPQuerier", &["10.0.0.1/24", "02:00:00:00:00:01"], 2, 1);
    for mut e in [querier(&["BROADCAST 10.0.0.255"]), network] {
        for last in [[10, 0, 0, 255], [255; 4]] {
            let out = e.send_ip(0, &udp(([10, 0, 0, 1], 1), (last, 2), b""));
            assert_eq!(out[0].out().1[..6], [0xff; 6]);
        }
        assert_eq!(e.read("stats"), "0 packets killed\n0 ARP queries sent\n");
    }
    for alone in ["10.0.0.1/32", "10.0.0.1/0"] {
        let mut e = Harness::new("ARPQuerier", &[alone, "02:00:00:00:00:01"], 2, 1);
        assert_eq!(e.send_ip(0, &udp(([10, 0, 0, 1], 1), ([255; 4], 2), b""))[0].out().1[..6], [0xff; 6]);
    }
}

#[test]
fn one_name_may_stand_for_both_addresses() {
    let names: std::rc::Rc<crate::Names> = std::rc::Rc::new(|name, kind| match (name, kind) {
        ("me", crate::NameKind::Ip) => Some("10.0.0.1".to_owned()),
        ("me", crate::NameKind::Ether) => Some("02:00:00:00:00:01".to_owned()),
        ("bare", crate::NameKind::Ip) => Some("10.0.0.1".to_owned()),
        _ => None,
    });
    crate::with_names(names, || {
        let class = crate::class_named("ARPQuerier").unwrap();
        assert!(class.configure(&["me".into()]).is_ok());
        assert!(class.configure(&["bare".into(), "me".into()]).is_ok());
        for wrong in ["bare", "10.0.0.1"] {
            let errors = class.configure(&[wrong.into()]).err().unwrap();
            assert!(errors[0].contains("missing mandatory ETH argument"), "{errors:?}");
        }
    });
}

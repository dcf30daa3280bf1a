use super::*;
use crate::testing::{Harness, Outcome, tcp, udp};
use weir_net::build;

const OWN: ([u8; 4], u16) = ([172, 100, 10, 1], 53);
const AGREED: ([u8; 4], u16) = ([172, 16, 15, 133], 9);
const HOST: ([u8; 4], u16) = ([198, 51, 100, 7], 4000);
const VICTIM: ([u8; 4], u16) = ([203, 0, 113, 9], 80);
const SECOND: u64 = 1_000_000_000;

fn enforcer() -> Harness {
    Harness::new("ChangeEnforcer", &["172.100.10.1", "172.16.15.133/32", "TIMEOUT 10", "CAPACITY 8"], 2, 2)
}

/// Whether a packet from the module leaves, and why not.
fn sent(h: &mut Harness, packet: &[u8]) -> Result<(), String> {
    match &h.send_ip(1, packet)[0] {
        Outcome::Out(port, p) => {
            assert_eq!((*port, p.bytes()), (1, packet), "it is not changed");
            Ok(())
        }
        Outcome::Drop(why) => Err(why.clone()),
    }
}

fn echo(kind: u8, from: [u8; 4], to: [u8; 4], id: u16) -> Vec<u8> {
    let [a, b] = id.to_be_bytes();
    build::ipv4(from.into(), to.into(), proto::ICMP, &[kind, 0, 0, 0, a, b, 0, 1])
}

#[test]
fn answers_leave_for_as_long_as_is_asked() {
    let mut h = enforcer();
    let (question, answer) = (udp(HOST, OWN, b"?"), udp(OWN, HOST, b"!"));
    assert_eq!(sent(&mut h, &answer), Err("Denied".into()));
    assert_eq!(h.send_ip(0, &question)[0].out(), (0, &question[..]));
    assert_eq!(sent(&mut h, &answer), Ok(()));
    for (what, packet) in [
        ("another port of who asked", udp(OWN, (HOST.0, 4001), b"")),
        ("another port of the module", udp((OWN.0, 54), HOST, b"")),
        ("another protocol", tcp(OWN, HOST, 2, 0, b"")),
        ("somebody else", udp(OWN, VICTIM, b"")),
        ("an answer of somebody else", udp(VICTIM, HOST, b"")),
        ("an ICMP error", build::ipv4(OWN.0.into(), HOST.0.into(), proto::ICMP, &[3, 3, 0, 0, 0, 0, 0, 0])),
        ("an echo request", echo(8, OWN.0, HOST.0, 1)),
    ] {
        assert_eq!(sent(&mut h, &packet), Err("Denied".into()), "{what}");
    }
    // What the module sends keeps nothing alive.
    h.now += 9 * SECOND;
    assert_eq!(sent(&mut h, &answer), Ok(()));
    h.now += 2 * SECOND;
    h.expire();
    assert_eq!(sent(&mut h, &answer), Err("Denied".into()));
    assert_eq!((h.read("flows"), h.read("denied")), ("0".into(), "9".into()));
}

#[test]
fn an_echo_is_answered_and_nothing_else_of_icmp() {
    let mut h = enforcer();
    h.send_ip(0, &echo(8, HOST.0, OWN.0, 7))[0].out();
    assert_eq!(sent(&mut h, &echo(0, OWN.0, HOST.0, 7)), Ok(()));
    assert_eq!(sent(&mut h, &echo(0, OWN.0, HOST.0, 8)), Err("Denied".into()));
    assert_eq!(sent(&mut h, &echo(8, OWN.0, HOST.0, 7)), Err("Denied".into()));
}

#[test]
fn who_agreed_gets_what_is_the_modules_or_was_sent_to_it() {
    let mut h = enforcer();
    assert_eq!(sent(&mut h, &udp(OWN, AGREED, b"")), Ok(()));
    assert_eq!(sent(&mut h, &udp(HOST, AGREED, b"")), Err("Denied".into()), "nobody sent it");
    h.send_ip(0, &udp(HOST, OWN, b""))[0].out();
    let agreed = (AGREED.0, OWN.1);
    assert_eq!(sent(&mut h, &udp(HOST, agreed, b"")), Ok(()));
    assert_eq!(sent(&mut h, &udp(HOST, AGREED, b"")), Err("Denied".into()), "another port");
    assert_eq!(sent(&mut h, &udp((HOST.0, 1), agreed, b"")), Err("Denied".into()));
    assert_eq!(sent(&mut h, &udp(HOST, VICTIM, b"")), Err("Denied".into()));
}

#[test]
fn fragments_and_options_lead_nowhere() {
    let mut h = enforcer();
    h.send_ip(0, &udp(HOST, OWN, b""))[0].out();
    for offset in [0x2000_u16, 0x0001, 0x2001] {
        let fragment = |from, to| {
            let mut p = udp(from, to, b"01234567");
            p[6..8].copy_from_slice(&offset.to_be_bytes());
            p
        };
        assert_eq!(sent(&mut h, &fragment(OWN, HOST)), Err("Fragment".into()));
        assert_eq!(sent(&mut h, &fragment(HOST, AGREED)), Err("Fragment".into()));
        assert_eq!(sent(&mut h, &fragment(OWN, AGREED)), Ok(()));
    }
    // A loose source route to somebody else.
    let mut p = udp(OWN, AGREED, b"");
    p[0] = 0x47;
    p.splice(20..20, [131, 7, 4, 203, 0, 113, 9, 0]);
    assert_eq!(sent(&mut h, &p), Err("BadHeader".into()));
}

#[test]
fn only_what_is_for_the_module_comes_in() {
    let mut h = enforcer();
    assert_eq!(h.send_ip(0, &udp(HOST, VICTIM, b""))[0].reason(), "Denied");
    assert_eq!(sent(&mut h, &udp(VICTIM, AGREED, b"")), Err("Denied".into()));
}

#[test]
fn a_flood_of_flows_comes_in_and_authorizes_nothing_more() {
    let mut h = enforcer();
    for port in 0..100 {
        h.send_ip(0, &udp((HOST.0, port), OWN, b""))[0].out();
    }
    assert_eq!(h.read("flows"), "8");
    assert_eq!(sent(&mut h, &udp(OWN, (HOST.0, 1), b"")), Ok(()));
    assert_eq!(sent(&mut h, &udp(OWN, (HOST.0, 99), b"")), Err("Denied".into()));
    h.now += 11 * SECOND;
    h.expire();
    h.send_ip(0, &udp((HOST.0, 99), OWN, b""))[0].out();
    assert_eq!(sent(&mut h, &udp(OWN, (HOST.0, 99), b"")), Ok(()));
}

/// A million frames that try to get out, of which none is allowed by a rule that is written here anew.
#[test]
fn of_a_million_hostile_packets_none_leaves() {
    let mut h = Harness::new("ChangeEnforcer", &["172.100.10.1", "172.16.15.133/32"], 2, 2);
    h.send_ip(0, &udp(HOST, OWN, b""))[0].out();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let (mut left, mut tried) = (0, 0_u32);
    while tried < 1_000_000 {
        let r = random();
        let addresses = [OWN.0, AGREED.0, HOST.0, VICTIM.0];
        let [src, dst] = [r & 3, r >> 2 & 3].map(|i| addresses[i as usize]);
        let proto = [proto::UDP, proto::TCP, proto::ICMP, 47, 4, 41][(r >> 4 & 7) as usize % 6];
        let payload = random().to_be_bytes();
        let mut p = build::ipv4(src.into(), dst.into(), proto, &payload);
        let fragment = [0, 0, 0x2000, 1, 0x4000, 0x2005][(r >> 8 & 7) as usize % 6];
        p[6..8].copy_from_slice(&u16::to_be_bytes(fragment));
        match r >> 12 & 7 {
            0 => p[0] = 0x60,
            1 => p.truncate(20 + (r >> 16 & 7) as usize),
            2 => p[0] = 0x40 | (r >> 16 & 15) as u8,
            _ => {}
        }
        // What may leave: from its own address to who agreed; the source of a packet that came in, to who agreed; an answer.
        let ports = [&payload[..2], &payload[2..4]].map(|p| u16::from_be_bytes([p[0], p[1]]));
        let plain = p[0] == 0x45 && fragment & 0x3fff == 0 && proto == proto::UDP && p.len() >= 24;
        let may = p[0] == 0x45 && src == OWN.0 && dst == AGREED.0
            || plain && src == HOST.0 && dst == AGREED.0 && ports == [HOST.1, OWN.1]
            || plain && src == OWN.0 && dst == HOST.0 && ports == [OWN.1, HOST.1];
        if !may {
            tried += 1;
            left += u32::from(sent(&mut h, &p).is_ok());
        }
    }
    assert_eq!(left, 0);
    assert_eq!(h.read("denied"), "1000000");
}

/// The path that a module's frames take: only IPv4 goes on, behind a header that is checked.
fn path_of_frames() -> Harness {
    let enforce = ["172.100.10.1", "172.16.15.133/32"];
    let parts: [crate::testing::Part<'_>; 4] = [
        ("enforce", "ChangeEnforcer", &enforce, 2, 2),
        ("frames", "Classifier", &["12/0800", "-"], 1, 2),
        ("strip", "Strip", &["14"], 1, 1),
        ("check", "CheckIPHeader", &[], 1, 1),
    ];
    Harness::graph(&parts, &[((1, 0), (2, 0)), ((2, 0), (3, 0)), ((3, 0), (0, 1))])
}

/// Whether a packet may leave, by the rules alone: from its own address to who agreed; an answer to one that came in; one that came in, on to who
/// agreed. What came in: UDP from `HOST`, an echo request with the identifier 7, and a GRE packet.
fn may_leave(p: &[u8]) -> bool {
    if p.len() < 20 || p[0] != 0x45 {
        return false;
    }
    let (src, dst, proto) = (&p[12..16], &p[16..20], p[9]);
    if src == OWN.0 && dst == AGREED.0 {
        return true;
    }
    let word = |at: usize| p.get(at..at + 2).map(|w| u16::from_be_bytes([w[0], w[1]]));
    let is_whole = word(6).is_some_and(|w| w & 0x3fff == 0);
    let answers = src == OWN.0 && dst == HOST.0;
    let goes_on = src == HOST.0 && dst == AGREED.0;
    let is_known = match proto {
        proto::UDP if answers => (word(20), word(22)) == (Some(OWN.1), Some(HOST.1)),
        proto::UDP => (word(20), word(22)) == (Some(HOST.1), Some(OWN.1)),
        proto::ICMP => p.len() >= 28 && p[20] == if answers { 0 } else { 8 } && word(24) == Some(7),
        proto => proto == 47,
    };
    is_whole && (answers || goes_on) && is_known
}

/// A million frames of a module that tries everything: of those that break a rule none leaves, and what leaves breaks none.
#[test]
fn of_a_million_hostile_frames_none_leaves() {
    let mut h = path_of_frames();
    for packet in [
        udp(HOST, OWN, b""),
        echo(8, HOST.0, OWN.0, 7),
        build::ipv4(HOST.0.into(), OWN.0.into(), 47, &[0, 0, 8, 0]),
    ] {
        h.send_ip(0, &packet)[0].out();
    }
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20) as usize % n
    };
    let (mut hostile, mut left, mut kinds) = (0_u32, 0_u32, [0_u32; 8]);
    while hostile < 1_000_000 {
        let address = [OWN.0, AGREED.0, HOST.0, VICTIM.0, [255; 4], [224, 0, 0, 1]];
        let (src, dst) = (address[random(6)], address[random(6)]);
        let ports = [OWN.1, HOST.1, AGREED.1, 80, 7];
        let (sport, dport) = (ports[random(5)], ports[random(5)]);
        let kind = random(8);
        let mut p = match kind {
            0 | 1 => udp((src, sport), (dst, dport), &[0; 9][..random(9)]),
            2 => tcp((src, sport), (dst, dport), random(64) as u8, 1, b""),
            3 => echo([0, 3, 4, 5, 8, 11, 13][random(7)], src, dst, [7, 8][random(2)]),
            // Packets in packets.
            4 => build::ipv4(
                src.into(),
                dst.into(),
                [4, 41, 47, 50, 132][random(5)],
                &udp((src, 1), (dst, 2), b""),
            ),
            5 => build::ipv4(src.into(), dst.into(), random(256) as u8, &[0; 30][..random(30)]),
            // IPv6, with a traffic class that reads as the length of an IPv4 header, and addresses where those of IPv4 are.
            _ => {
                let mut p = vec![0; 60];
                let next = [6, 17, 58, 0, 44][random(5)];
                p[..8].copy_from_slice(&[0x60 | [0, 5, 6][random(3)], 0, 0, 0, 0, 20, next, 64]);
                p[12..16].copy_from_slice(&src);
                p[16..20].copy_from_slice(&dst);
                p[20..22].copy_from_slice(&sport.to_be_bytes());
                p[22..24].copy_from_slice(&dport.to_be_bytes());
                p
            }
        };
        let is_four = p[0] == 0x45;
        if is_four {
            match random(8) {
                // Fragments: the first, a later one, one that overlaps the ports, the last; or the evil bit.
                0 | 1 => {
                    p[6..8]
                        .copy_from_slice(&[0x2000_u16, 0x2001, 1, 0x1fff, 0x8000][random(5)].to_be_bytes());
                }
                // Options: a source route.
                2 => {
                    p[0] = 0x47;
                    p.splice(20..20, [131, 7, 4, 203, 0, 113, 9, 0]);
                    let len = p.len() as u16;
                    p[2..4].copy_from_slice(&len.to_be_bytes());
                }
                3 => p[random(20)] = random(256) as u8,
                _ => {}
            }
            // A wrong checksum would hide the rest.
            p[10..12].fill(0);
            let header = (usize::from(p[0] & 15) * 4).clamp(20, p.len());
            let sum = weir_net::checksum::checksum(&p[..header]);
            p[10..12].copy_from_slice(&sum.to_be_bytes());
            if random(16) == 0 {
                p.truncate(random(p.len()));
            }
        }
        let ethertype = [0x0800, 0x0800, 0x0800, 0x86dd, 0x0806, 0x8100, random(65536) as u16][random(7)];
        let frame = build::ethernet(EtherAddr([2; 6]), EtherAddr([4; 6]), ethertype, &p);
        let breaks = ethertype != 0x0800 || !may_leave(&p);
        hostile += u32::from(breaks);
        kinds[kind] += u32::from(breaks);
        let sent = Packet::from_bytes(&frame).unwrap();
        if let Outcome::Out(1, out) = &h.send_to(1, 0, sent)[0] {
            assert!(may_leave(out.bytes()), "{:02x?}", out.bytes());
            assert!(!breaks, "{frame:02x?}");
            left += 1;
        }
    }
    assert!(left > 1000, "what is allowed leaves: {left}");
    assert!(kinds.iter().all(|n| *n > 50_000), "{kinds:?}");
}

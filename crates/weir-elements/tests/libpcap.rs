//! Filters mean what libpcap means by them: `tcpdump` picks the same frames of a capture, for a table of filters and for random
//! ones, by the evaluator and by compiled filters; and what the verifier says of a compiled filter covers each of these frames.
//!
//! What differs on purpose (docs/requirements.md) is left out: frames with padding, fields behind the end of a frame, and how far
//! libpcap's `protochain` goes behind an authentication header.

use std::fs;
use std::process::Command;

use weir_elements::filter::{RuleList, View};
use weir_filter::{Expr, PacketView};
use weir_ir::{Builder, Outcome, Program, check, outcomes};
use weir_net::build::{self, TcpFields};
use weir_packet::Packet;
use weir_table::TableSet;
use weir_verify::testing::{Case, assert_covered};

/// Seed of the random filters, and how many there are.
const SEED: u64 = 36;
const RANDOM: usize = 150;

/// Filters that are asked one by one, and joined at random.
const FILTERS: &[&str] = &[
    "ip",
    "ip6",
    "arp",
    "rarp",
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "igmp",
    "pim",
    "sctp",
    "ip proto 17",
    "ip6 proto 17",
    "proto \\udp",
    "ip proto \\icmp",
    "proto 1",
    "ip6 proto 44",
    "ip6 protochain 17",
    "ip6 protochain 6",
    "ip6 protochain 60",
    "protochain 17",
    "ether proto 0x8100",
    "ether proto 0x0800",
    "ether proto \\ip6",
    "ether host 02:00:00:00:00:01",
    "ether src 02:00:00:00:00:01 or 02:00:00:00:00:02",
    "ether dst ff:ff:ff:ff:ff:ff",
    "broadcast",
    "multicast",
    "ether multicast",
    "ip broadcast",
    "ip multicast",
    "ip6 multicast",
    "host 192.0.2.9",
    "arp host 192.0.2.9",
    "arp src 192.0.2.1",
    "ip host 192.0.2.1",
    "rarp host 192.0.2.1",
    "src host 192.0.2.1 or 10.1.2.3",
    "dst 198.51.100.2",
    "net 10",
    "src net 192.0",
    "dst net 224",
    "net 198.51.100.0/24",
    "net 192.0.2.0 mask 255.255.255.0",
    "host 2001:db8::1",
    "dst net 2001:db8::/32",
    "src and dst net 10",
    "port 53",
    "src port 53",
    "dst port 80 or 443",
    "port 2905",
    "sctp port 2905",
    "tcp port 80",
    "udp dst port 53",
    "portrange 50-100",
    "udp src portrange 1000-2000",
    "src and dst port 9",
    "len > 100",
    "len <= 60",
    "greater 100",
    "less 70",
    "100 < len",
    "ether[0] & 1 = 1",
    "ether[12:2] = 0x0800",
    "link[6:2] != 0x0200",
    "ip[0] & 0xf != 5",
    "ip[2:2] > 60",
    "ip[6:2] & 0x1fff = 0",
    "ip[8] < 65",
    "ip[9] = 17 and ip[16] >= 224",
    "ip6[6] = 44",
    "ip6[7] = 64",
    "ip6[24] = 0xff",
    "arp[6:2] = 1",
    "arp[14:4] = 0xc0000201",
    "tcp[tcpflags] & tcp-push != 0",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "tcp[13] & 8 != 0",
    "tcp[13] = 2",
    "tcp[2:2] = 80",
    "udp[4:2] > 20",
    "udp[0] ^ 4 = 0",
    "sctp[0:2] = 2905",
    "icmp[icmptype] = icmp-echo",
    "icmp[icmptype] != icmp-echo",
    "icmp[icmpcode] = 4",
    "icmp6[icmp6type] = icmp6-neighborsolicit",
    "tcp[((tcp[12] & 0xf0) >> 2):1] = 0x78",
    "tcp[(tcp[12] >> 2) + 1] = 0x78",
    "ip[2:2] - ((ip[0] & 0xf) << 2) > 28",
    "(ip[0] + ip[1]) * 2 >= len",
    "ip[8] % 16 = 0",
    "ip[2:2] / 8 < 6",
    "ip[9] = tcp[0] or ip[9] = 6",
    "mpls",
    "mpls 16",
    "pppoes",
    "pppoes 1",
    "pppoes 2",
    "pppoed",
    "vlan",
    "vlan 100",
    "vlan 200",
    "vlan and udp",
    "vlan 100 and vlan 200",
    "vlan and vlan and udp dst port 9",
    "vlan and not udp",
    "vlan or udp",
    "not vlan and ip",
    "vlan and ether proto 0x0800",
    "vlan and ether[12:2] = 0x8100",
    "vlan and host 192.0.2.1",
    "vlan and mpls",
    "not tcp and not udp",
    "tcp or udp and port 53",
    "tcp or udp and port 53 or icmp",
    "udp and port 53 or tcp",
    "not (ip or arp)",
    "! ip6 && ! arp || udp",
];

/// Filters that follow `vlan` or `mpls` in a random filter would change what the rest of it means: they come last there.
fn shifts(filter: &str) -> bool {
    ["mpls", "pppoes"].iter().any(|w| filter.contains(w))
}

/// The frames of the capture: no padding, and no field that the filters ask for lies behind an end.
fn frames() -> Vec<Vec<u8>> {
    let (a, b) = ([192, 0, 2, 1].into(), [198, 51, 100, 2].into());
    let text = |n: usize| vec![b'x'; n];
    let ip = |proto: u8, src: [u8; 4], dst: [u8; 4], payload: &[u8]| {
        build::ipv4(src.into(), dst.into(), proto, payload)
    };
    let ip6 = |next: u8, dst: &str, payload: &[u8]| {
        let mut p = vec![0x60, 0, 0, 0];
        p.extend((payload.len() as u16).to_be_bytes());
        p.extend([next, 64]);
        p.extend("2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        p.extend(dst.parse::<std::net::Ipv6Addr>().unwrap().octets());
        p.extend(payload);
        p
    };
    let (from, to) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ether = |dst: [u8; 6], ether_type: u16, payload: &[u8]| {
        let mut f = [dst, from].concat();
        f.extend(ether_type.to_be_bytes());
        f.extend(payload);
        f
    };
    let ports = |src: u16, dst: u16, n: usize| {
        let mut p = [src.to_be_bytes(), dst.to_be_bytes(), (8 + n as u16).to_be_bytes(), [0, 0]].concat();
        p.extend(text(n));
        p
    };
    let push = TcpFields { flags: 0x18, ..TcpFields::default() };
    let syn = TcpFields { flags: 0x02, ..TcpFields::default() };
    let udp = ip(17, [192, 0, 2, 1], [198, 51, 100, 2], &ports(7, 9, 40));
    let arp = |op: u8, kind: u16, src: [u8; 4], dst: [u8; 4]| {
        let mut p = vec![0, 1, 8, 0, 6, 4, 0, op];
        p.extend([&from[..], &src, &[0; 6], &dst].concat());
        p.extend(text(30));
        ether([0xff; 6], kind, &p)
    };
    let mut fragment = ip(17, [192, 0, 2, 1], [198, 51, 100, 2], &ports(53, 1234, 40));
    fragment[6..8].copy_from_slice(&3_u16.to_be_bytes());
    let mut first = ip(17, [192, 0, 2, 1], [198, 51, 100, 2], &ports(53, 1234, 40));
    first[6..8].copy_from_slice(&0x2000_u16.to_be_bytes());
    let mut options =
        ip(17, [192, 0, 2, 1], [198, 51, 100, 2], &[&[1, 1, 1, 0], &ports(77, 78, 40)[..]].concat());
    options[0] = 0x46;
    let tags = |types: &[(u16, u16)], inner: &[u8]| {
        let (outer, rest) = types.split_first().unwrap();
        let mut p = outer.1.to_be_bytes().to_vec();
        for (kind, id) in rest {
            p.extend([kind.to_be_bytes(), id.to_be_bytes()].concat());
        }
        p.extend(0x0800_u16.to_be_bytes());
        p.extend(inner);
        ether(to, outer.0, &p)
    };
    let extension = |next: u8, rest: &[u8]| [&[next, 0, 1, 4, 0, 0, 0, 0], rest].concat();
    vec![
        build::tcp4((a, 40000), (b, 80), syn, &text(40)),
        build::tcp4((a, 40000), (b, 80), push, &text(40)),
        build::tcp4((b, 80), (a, 443), TcpFields::default(), &text(40)),
        build::udp4((a, 1234), (b, 53), &text(40)),
        build::udp4((b, 53), (a, 1234), &text(972)),
        ether(to, 0x0800, &first),
        ether(to, 0x0800, &fragment),
        ether(to, 0x0800, &options),
        arp(1, 0x0806, [192, 0, 2, 1], [192, 0, 2, 9]),
        arp(2, 0x0806, [192, 0, 2, 9], [192, 0, 2, 1]),
        arp(3, 0x8035, [192, 0, 2, 1], [10, 0, 0, 1]),
        tags(&[(0x8100, 100)], &udp),
        tags(&[(0x8100, 100), (0x8100, 200)], &udp),
        tags(&[(0x88a8, 0x6064), (0x8100, 200)], &udp),
        tags(&[(0x9100, 200)], &udp),
        ether([1, 0, 0x5e, 0, 0, 5], 0x0800, &ip(89, [192, 0, 2, 1], [224, 0, 0, 5], &text(44))),
        ether([0xff; 6], 0x0800, &ip(17, [0, 0, 0, 0], [255, 255, 255, 255], &ports(68, 67, 40))),
        ether(to, 0x0800, &ip(1, [10, 1, 2, 3], [10, 4, 5, 6], &[&[8, 0, 0, 0][..], &text(40)].concat())),
        ether(
            to,
            0x0800,
            &ip(1, [198, 51, 100, 2], [192, 0, 2, 1], &[&[3, 4, 0, 0][..], &text(40)].concat()),
        ),
        ether(to, 0x0800, &ip(2, [10, 1, 2, 3], [224, 0, 0, 1], &text(40))),
        ether(to, 0x0800, &ip(103, [10, 1, 2, 3], [224, 0, 0, 13], &text(40))),
        ether(to, 0x0800, &ip(132, [192, 0, 2, 1], [198, 51, 100, 2], &ports(2905, 2905, 40))),
        ether(to, 0x0800, &ip(47, [192, 0, 2, 1], [198, 51, 100, 2], &text(50))),
        ether(to, 0x86dd, &ip6(17, "2001:db8::2", &ports(1, 53, 40))),
        ether(to, 0x86dd, &ip6(6, "2001:db8::2", &ports(9, 80, 40))),
        ether(to, 0x86dd, &ip6(44, "2001:db8::2", &extension(17, &ports(1, 53, 40)))),
        ether(to, 0x86dd, &ip6(0, "2001:db8::2", &extension(17, &ports(1, 53, 40)))),
        ether(to, 0x86dd, &ip6(60, "2001:db8::2", &extension(6, &ports(1, 443, 40)))),
        ether(
            to,
            0x86dd,
            &ip6(0, "2001:db8::2", &extension(60, &extension(43, &extension(6, &ports(1, 22, 40))))),
        ),
        ether(
            [0x33, 0x33, 0, 0, 0, 1],
            0x86dd,
            &ip6(58, "ff02::1", &[&[135, 0, 0, 0][..], &text(40)].concat()),
        ),
        ether(to, 0x86dd, &ip6(103, "ff02::d", &text(40))),
        ether(to, 0x8847, &[&[0, 1, 1, 64][..], &udp].concat()),
        ether(to, 0x8864, &[&[0x11, 0, 0, 1, 0, 50, 0, 0x21][..], &udp].concat()),
        ether(to, 0x8863, &[&[0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0][..], &text(50)].concat()),
        ether([1, 0x80, 0xc2, 0, 0, 0], 38, &text(60)),
    ]
}

/// A capture of frames, each at the second of its number.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for n in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0x4_0000, 1] {
        file.extend(n.to_le_bytes());
    }
    for (n, frame) in (0_u32..).zip(frames) {
        for n in [n, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(n.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// The numbers of the frames that tcpdump picks.
fn picked(file: &std::path::Path, filter: &str) -> Result<Vec<usize>, String> {
    // Without the optimiser, which refuses filters that no packet fits.
    let run = Command::new("tcpdump").args(["-O", "-w", "-", "-r"]).arg(file).arg(filter).output();
    let run = run.unwrap_or_else(|e| panic!("tcpdump, which scripts/setup.sh installs: {e}"));
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    let number =
        |at: usize| run.stdout.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().unwrap()) as usize);
    let (mut at, mut found) = (24, Vec::new());
    while let (Some(second), Some(len)) = (number(at), number(at + 8)) {
        found.push(second);
        at += 16 + len;
    }
    Ok(found)
}

/// A program whose output 1 is for frames that match.
fn compiled(expr: &Expr) -> Program {
    let plan = RuleList::new(View::Ethernet, [(expr, 0)]);
    let mut b = Builder::new("filter", 1, 2);
    b.input(0, |b| {
        let matches = plan.matches(b);
        b.when(matches, |b| b.emit(1));
        b.emit(0);
    });
    let program = b.finish();
    check(&program).unwrap_or_else(|e| panic!("{expr}: {e:#?}"));
    program
}

/// The frames that a compiled filter picks.
fn chosen(program: &Program, frames: &[Vec<u8>]) -> Vec<usize> {
    let mut tables = TableSet::default();
    let mut picks = |frame: &[u8]| {
        let ended = outcomes(program, &mut tables, 0, Packet::from_bytes(frame).unwrap());
        matches!(ended[..], [Outcome::Exit(1, _)])
    };
    frames.iter().enumerate().filter(|(_, f)| picks(f)).map(|(n, _)| n).collect()
}

/// Filters joined at random.
fn random_filters() -> Vec<String> {
    let mut state = SEED;
    let mut below = move |n: usize| {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut filters = Vec::new();
    while filters.len() < RANDOM {
        let mut text = String::new();
        let terms = 2 + below(4);
        for i in 0..terms {
            if i > 0 {
                text.push_str(if below(2) == 0 { " and " } else { " or " });
            }
            let mut term = FILTERS[below(FILTERS.len())];
            while i + 1 < terms && shifts(term) {
                term = FILTERS[below(FILTERS.len())];
            }
            match below(4) {
                0 => text.push_str(&format!("not ({term})")),
                1 => text.push_str(&format!("({term})")),
                _ => text.push_str(term),
            }
        }
        filters.push(text);
    }
    filters
}

#[test]
fn filters_pick_the_frames_that_libpcap_picks() {
    let frames = frames();
    let path = std::env::temp_dir().join(format!("weir-libpcap-{}.pcap", std::process::id()));
    fs::write(&path, capture(&frames)).unwrap();
    let mut wrong = Vec::new();
    let all = FILTERS.iter().map(|f| (*f).to_owned()).chain(random_filters());
    for (n, text) in all.enumerate() {
        let wanted = picked(&path, &text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let expr = Expr::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(Expr::parse(&expr.to_string()).as_ref(), Ok(&expr), "{text} is written as {expr}");
        let evaluated = frames.iter().enumerate().filter(|(_, f)| expr.matches(&PacketView::ethernet(f)));
        let evaluated: Vec<usize> = evaluated.map(|(n, _)| n).collect();
        let program = compiled(&expr);
        let chosen = chosen(&program, &frames);
        if evaluated != wanted || chosen != wanted {
            wrong.push(format!(
                "{text}\n  libpcap:   {wanted:?}\n  evaluator: {evaluated:?}\n  compiled:  {chosen:?}"
            ));
        }
        // The symbolic paths of every few.
        if n % 4 == 0 {
            let entry = program.packet_entry(0, 0).unwrap();
            let cases = frames.iter().map(|f| Case {
                entry,
                packet: Some(Packet::from_bytes(f).unwrap()),
                args: Vec::new(),
                now: 1,
                randoms: Vec::new(),
            });
            let covered = assert_covered(&program, cases);
            assert_eq!((covered.open, covered.incomplete), (0, None), "{text}");
            assert_eq!(covered.agreed, frames.len(), "{text}");
        }
    }
    fs::remove_file(&path).unwrap();
    assert!(wrong.is_empty(), "{} filters differ:\n{}", wrong.len(), wrong.join("\n"));
}

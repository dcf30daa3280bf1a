//! Example tests of the filter language: what texts mean, and what is refused.

use super::*;

fn parse(text: &str) -> Expr {
    Expr::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// An IPv4 packet without options: protocol, addresses 10.0.0.1 to 10.0.0.2, then `payload`.
fn packet(proto: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    p[6..8].copy_from_slice(&fragment.to_be_bytes());
    p.extend(payload);
    p
}

/// A TCP or UDP packet from port `src` to port `dst` with TCP flags.
fn ports(proto: u8, src: u16, dst: u16, flags: u8) -> Vec<u8> {
    let mut header = [0; 20];
    header[..2].copy_from_slice(&src.to_be_bytes());
    header[2..4].copy_from_slice(&dst.to_be_bytes());
    header[13] = flags;
    packet(proto, 0, &header)
}

fn matches(filter: &str, bytes: &[u8]) -> bool {
    parse(filter).matches(&PacketView::ipv4(bytes, 0))
}

#[test]
fn canonical_forms() {
    for (text, canonical) in [
        ("tcp", "tcp"),
        ("ip proto tcp", "ip proto 6"),
        ("proto tcp", "tcp"),
        ("ip proto 99", "ip proto 99"),
        ("ip proto != tcp", "not ip proto 6"),
        ("www", "port 80"),
        ("tcp www", "tcp port 80"),
        ("syn", "tcp opt syn"),
        ("10.0.0.0/24", "net 10.0.0.0/24"),
        ("10/8", "net 10.0.0.0/8"),
        ("net 10.1 or 192.168/16", "net 10.1.0.0/16 or net 192.168.0.0/16"),
        ("net 10", "net 10.0.0.0/8"),
        ("net 10.0.0.1", "host 10.0.0.1"),
        ("src net 10.1.2.3 mask 255.0.255.0", "src net 10.0.2.0 mask 255.0.255.0"),
        ("unfrag", "not ip frag"),
        ("src port 80 or 81", "src port 80 or src port 81"),
        ("tcp and port 80 or 443", "(tcp and port 80) or port 443"),
        ("dst tcp port 8000 or 8080", "tcp dst port 8000 or tcp dst port 8080"),
        ("host 10.0.0.1 or 10.0.0.2", "host 10.0.0.1 or host 10.0.0.2"),
        ("10.0.0.0/24 and fin ack", "net 10.0.0.0/24 and tcp opt fin and tcp opt ack"),
        ("src or dst host 10.0.0.1", "host 10.0.0.1"),
        ("src && dest net 10.0.0.0/8", "src and dst net 10.0.0.0/8"),
        ("port 1-1024", "port 1-1024"),
        ("portrange 1-1024", "port 1-1024"),
        ("dst port >= 1024", "dst port 1024-65535"),
        ("port < 1024", "src and dst port 0-1023"),
        ("port > 65535", "false"),
        ("tcp port != 5", "tcp port 0-65535 and not tcp port 5"),
        ("src tcp port & 10 == 8", "tcp transp[0:2] & 0xa == 8"),
        ("icmp type echo", "icmp type 8"),
        ("icmp echo or timestamp", "icmp type 8 or icmp type 13"),
        ("icmp type != 8", "icmp type != 8"),
        ("ip dscp 10", "ip dscp 10"),
        ("ip[1] & 0xfc == 40", "ip dscp 10"),
        ("ttl < 5", "ip ttl < 5"),
        ("ip[6:2] & 0x1fff > 0", "ip[6:2] & 0x1fff > 0"),
        ("ip ect", "ip ect"),
        ("ip ect 1", "ip[1] & 0x3 == 1"),
        ("tcp[13] & 0x12 = 2", "tcp[13] & 0x12 == 2"),
        ("tcp[tcpflags] & (tcp-syn|tcp-ack) != 0", "tcp[13] & 0x12 != 0"),
        ("transp[0:4] 5", "transp[0:4] == 5"),
        ("tcp host 10.0.0.1", "tcp and host 10.0.0.1"),
        ("not (tcp or udp)", "not (tcp or udp)"),
        ("! ! tcp", "tcp"),
        ("tcp ? dst port 80 : udp", "(tcp and dst port 80) or (not tcp and udp)"),
        ("-", "true"),
        ("all", "true"),
        ("none", "false"),
        ("true and tcp", "tcp"),
        (
            "ether src 02:00:00:00:00:01 or 02:00:00:00:00:02",
            "ether src host 02:00:00:00:00:01 or ether src host 02:00:00:00:00:02",
        ),
        ("ether proto arp", "arp"),
        ("vlan 25 and ip", "vlan 25 and ip"),
        ("ip6 and dst net 2001:db8::1/32", "ip6 and dst net 2001:db8::/32"),
        ("ip6 port 80", "ip6 and port 80"),
        ("udp dst port 1500 and src net 10.0.0.0/8", "udp dst port 1500 and src net 10.0.0.0/8"),
        ("sctp port 9", "sctp port 9"),
        ("ip host 10.0.0.1 or 10.0.0.2", "ip host 10.0.0.1 or ip host 10.0.0.2"),
        ("arp host 10.0.0.1", "arp host 10.0.0.1"),
        ("ip6 proto 17", "ip6 proto 17"),
        ("proto \\icmp", "proto 1"),
        ("ip6 protochain \\udp", "ip6 protochain 17"),
        ("tcp[tcpflags] & tcp-push != 0", "tcp[13] & 0x8 != 0"),
        ("icmp[icmptype] = icmp-echo", "icmp[0] == 8"),
        ("5 < ip[8]", "ip ttl > 5"),
        ("ip[4 * 2] = 1", "ip ttl 1"),
        ("len > 60 and greater 100", "len > 60 and len >= 100"),
        ("tcp[((tcp[12] & 0xf0) >> 2):1] = 0x78", "tcp[((tcp[12] & 240) >> 2)] == 120"),
        ("ip[0] & 3 + 1 != 0", "ip[0] & 0x4 != 0"),
        ("(ip[0] + 1) / 4 < ip[2:2]", "((ip[0] + 1) >> 2) < ip[2:2]"),
        ("tcp transp[13] & 2 != 0", "tcp transp[13] & 0x2 != 0"),
        ("multicast", "ether[0] & 0x1 == 1"),
        ("ip broadcast", "ip dst host 0.0.0.0 or ip dst host 255.255.255.255"),
        ("vlan and vlan 5 and udp", "vlan and vlan 5 and udp"),
        ("(vlan 1 or ip) and tags 0 udp", "(vlan 1 or ip) and tags 0 udp"),
        ("tags all udp or tcp", "tags all udp or tcp"),
        ("tags 1 udp", "tags 1 udp"),
        ("tags all ether proto 0x809b", "tags all ether proto 0x809b"),
        ("tags all (udp or tcp) and ip", "(tags all (udp or tcp)) and ip"),
        (
            "vlan 5 and tags all udp and tags all ip and tags all dst port 5 or arp",
            "(vlan 5 and tags all (udp and ip and dst port 5)) or arp",
        ),
        ("vlan ? udp : tcp", "(vlan and udp) or (not tags 0 vlan and tcp)"),
        ("vlan and ether host 02:00:00:00:00:01", "vlan and ether host 02:00:00:00:00:01"),
        ("udp and mpls 16", "udp and tags 0 mpls 16"),
        ("pppoes", "ether proto 0x8864"),
    ] {
        let expr = parse(text);
        assert_eq!(expr.to_string(), canonical, "{text}");
        assert_eq!(parse(canonical), expr, "{text}");
    }
}

#[test]
fn the_two_ways_to_read_differ_in_rank_and_ports() {
    for (text, libpcap, click) in [
        ("tcp or udp and icmp", "(tcp or udp) and icmp", "tcp or (udp and icmp)"),
        ("tcp or udp and icmp or gre", "((tcp or udp) and icmp) or gre", "tcp or (udp and icmp) or gre"),
        ("tcp and udp or icmp", "(tcp and udp) or icmp", "(tcp and udp) or icmp"),
        ("dst port 80", "dst port 80", "tcpudp dst port 80"),
    ] {
        assert_eq!(parse(text).to_string(), libpcap, "{text}");
        let expr = Expr::parse_click(text).unwrap();
        assert_eq!(expr.to_string(), click, "{text}");
        assert_eq!(Expr::parse_click(click), Ok(expr), "{text}");
    }
}

/// What has another meaning in libpcap than it seems to have, or none that is modelled.
#[test]
fn what_is_not_read_is_an_error_that_says_what_to_write() {
    for (text, wanted) in [
        ("ip6 ttl 5", "ip6[7]"),
        ("ip6 host 10.0.0.1", "is an IPv4 address"),
        ("arp host ::1", "is an IPv6 address"),
        ("arp port 80", "ARP has no such field"),
        ("ether proto 66", "ether[14] = 66"),
        ("ether proto 0x809b", "ether[12:2] = 0x809b"),
        ("mpls and udp", "write it before \"mpls\""),
        ("pppoes 7 and ip", "write it before \"pppoes\""),
        ("net 0", "a prefix is missing"),
        ("ip[0] / 3 = 1", "powers of two"),
        ("ip[0] % 0 = 1", "not 0"),
        ("ip[0]", "number to compare with is missing"),
        ("tcp[0] =", "without a value"),
        ("tcp[0] = x", "not a number"),
        ("tcp[0:8] = 1", "write 1 to 4"),
        ("tcp[70000] = 1", "out of range"),
        ("tcp[13] & 0 = 1", "the mask is 0"),
        ("ip[0] = 256", "out of range"),
        ("gateway x", "is not known"),
        ("inbound", "is not known"),
        ("geneve", "is not known"),
        ("tags 99 ip", "no number of tags"),
        ("less x", "not a length"),
    ] {
        let error = Expr::parse(text).expect_err(text).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn ports_of_tcp_and_udp_first_fragments_only() {
    let http = ports(6, 5000, 80, 0x02);
    assert!(matches("dst port http", &http) && matches("port 80", &http) && !matches("src port 80", &http));
    assert!(matches("tcp opt syn", &http) && !matches("syn and ack", &http));
    assert!(!matches("udp port 80", &http) && matches("port 80", &ports(17, 5000, 80, 0)));
    let sctp = ports(132, 5000, 80, 0);
    assert!(matches("port 80 and sctp port 80", &sctp) && !matches("tcpudp port 80", &sctp));
    let mut later = http.clone();
    later[6..8].copy_from_slice(&1u16.to_be_bytes());
    assert!(
        matches("ip frag and tcp", &later)
            && !matches("port 80 or tcp[2:2] == 80 or transp[2:2] == 80 or syn", &later)
    );
    let mut first = http.clone();
    first[6..8].copy_from_slice(&0x2000u16.to_be_bytes());
    assert!(matches("ip frag and port 80", &first));
}

#[test]
fn negative_comparisons_speak_of_both_ends_and_keep_the_protocol() {
    let p = ports(6, 500, 2000, 0);
    assert!(matches("port > 1023", &p) && !matches("port < 1024", &p) && matches("src port < 1024", &p));
    assert!(!matches("port != 500", &p) && matches("port != 501", &p) && !matches("udp port != 501", &p));
    assert!(matches("not udp port 501", &p));
    assert!(!matches("icmp type != 4", &p) && matches("icmp type != 4", &packet(1, 0, &[8, 0])));
    assert!(matches("src or dst host != 10.0.0.9", &p) && !matches("host != 10.0.0.1", &p));
}

#[test]
fn options_move_the_transport_header_and_missing_bytes_match_nothing() {
    let mut p = ports(17, 53, 99, 0);
    p[0] = 0x46;
    p.splice(20..20, [1, 1, 1, 1]);
    assert!(matches("udp src port 53 and ip hl 6", &p));
    assert!(!matches("port 53", &p[..22]) && !matches("port != 1", &p[..22]) && matches("udp", &p[..22]));
    assert!(!matches("ip vers 4 or tcp or host 10.0.0.1", &[]));
}

#[test]
fn what_lies_behind_the_ip_length_is_not_in_the_packet() {
    let mut p = ports(6, 500, 23, 0);
    for (len, whole) in [(0, true), (20, false), (23, false), (24, true), (40, true), (1500, true)] {
        p[2..4].copy_from_slice(&u16::to_be_bytes(len));
        assert_eq!(matches("tcp dst port 23 and transp[2:2] = 23 and ip[22:2] = 23", &p), whole, "{len}");
        assert!(matches("tcp and host 10.0.0.1 and ip ttl 64 and len = 40", &p), "{len}");
    }
    let mut v6 = vec![0x60, 0, 0, 0, 0, 3, 17, 64];
    v6.extend([0; 32]);
    v6.extend([0, 53, 0, 99, 0, 8, 0, 0]);
    assert!(
        !parse("port 99").matches(&PacketView::ip(&v6)) && parse("port 53").matches(&PacketView::ip(&v6))
    );
    v6[5] = 4;
    assert!(parse("port 99").matches(&PacketView::ip(&v6)));
}

#[test]
fn ethernet_and_ipv6() {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0x60, 25, 0x08, 0];
    frame.extend(ports(6, 1, 2, 0));
    let frame = PacketView::ethernet(&frame);
    for yes in [
        "vlan",
        "vlan 25",
        "tags all ip",
        "ether src 02:00:00:00:00:02",
        "ether dst host 02:00:00:00:00:01",
        "vlan and tcp dst port 2",
        "tags all tcp dst port 2",
        "ether proto 0x8100 and ether[14:2] & 0xfff = 25",
    ] {
        assert!(parse(yes).matches(&frame), "{yes}");
    }
    for no in
        ["vlan 24", "arp", "ip6", "ip", "tcp", "vlan and vlan", "ether src and dst host 02:00:00:00:00:02"]
    {
        assert!(!parse(no).matches(&frame), "{no}");
    }
    let mut v6 = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
    v6.extend(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets());
    v6.extend(std::net::Ipv6Addr::LOCALHOST.octets());
    v6.extend([0, 53, 0, 99, 0, 8, 0, 0]);
    let v6 = PacketView::ip(&v6);
    for yes in ["ip6 udp src port 53", "src net 2001:db8::/32", "dst host ::1", "net ::/0"] {
        assert!(parse(yes).matches(&v6), "{yes}");
    }
    for no in ["ip", "host 10.0.0.1", "ip ttl 64", "src net 2001:db9::/32"] {
        assert!(!parse(no).matches(&v6), "{no}");
    }
}

#[test]
fn depth_and_size_are_bounded() {
    assert!(Expr::parse(&"(".repeat(30_000)).is_err());
    assert!(Expr::parse(&"not ".repeat(10_000)).is_err());
    assert!(Expr::parse(&"tcp ? ".repeat(5_000)).is_err());
    // Each level doubles its condition.
    let doubling = format!("{}tcp{}", "(".repeat(40), " ? udp : icmp)".repeat(40));
    assert_eq!(Expr::parse(&doubling).unwrap_err().message, "the filter is too large");
    assert!(Expr::parse(&"tcp or ".repeat(9_000)).is_err());
    assert!(Expr::parse(&format!("{}tcp", "udp or ".repeat(9_000))).is_ok());
}

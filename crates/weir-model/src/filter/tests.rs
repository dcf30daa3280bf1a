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
        ("ip proto tcp", "tcp"),
        ("ip proto 99", "ip proto 99"),
        ("ip proto != tcp", "not tcp"),
        ("www", "port 80"),
        ("tcp www", "tcp port 80"),
        ("syn", "tcp opt syn"),
        ("10.0.0.0/24", "net 10.0.0.0/24"),
        ("src net 10.1.2.3 mask 255.0.255.0", "src net 10.0.2.0 mask 255.0.255.0"),
        ("unfrag", "not ip frag"),
        ("src port 80 or 81", "src port 80 or src port 81"),
        ("tcp and port 80 or 443", "tcp and port 80 or port 443"),
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
        ("src tcp port & 10 == 8", "tcp[0:2] & 0xa == 8"),
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
        ("tcp ? dst port 80 : udp", "tcp and dst port 80 or not tcp and udp"),
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
    ] {
        let expr = parse(text);
        assert_eq!(expr.to_string(), canonical, "{text}");
        assert_eq!(parse(canonical), expr, "{text}");
    }
}

#[test]
fn ports_of_tcp_and_udp_first_fragments_only() {
    let http = ports(6, 5000, 80, 0x02);
    assert!(matches("dst port http", &http) && matches("port 80", &http) && !matches("src port 80", &http));
    assert!(matches("tcp opt syn", &http) && !matches("syn and ack", &http));
    assert!(!matches("udp port 80", &http) && matches("port 80", &ports(17, 5000, 80, 0)));
    assert!(
        !matches("port 80", &ports(132, 5000, 80, 0)) && matches("sctp port 80", &ports(132, 5000, 80, 0))
    );
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
fn ethernet_and_ipv6() {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0x60, 25, 0x08, 0];
    frame.extend(ports(6, 1, 2, 0));
    let frame = PacketView::ethernet(&frame);
    for yes in [
        "vlan",
        "vlan 25",
        "ip",
        "ether src 02:00:00:00:00:02",
        "ether dst host 02:00:00:00:00:01",
        "tcp dst port 2",
    ] {
        assert!(parse(yes).matches(&frame), "{yes}");
    }
    for no in ["vlan 24", "arp", "ip6", "ether src and dst host 02:00:00:00:00:02"] {
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

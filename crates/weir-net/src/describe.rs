//! One line on a packet, in words like those of tcpdump.

use std::fmt::Write;

use crate::{Arp, EtherAddr, Ethernet, Headers, Icmp, Ipv4, Ipv6, Network, Tcp, Udp, Vlan, ethertype, proto};

/// Describes an Ethernet frame in one line, whatever its bytes are.
///
/// `IP 10.0.0.1.1000 > 10.0.0.2.80: Flags [S], seq 1, win 512, length 0`; frames that are not IP or ARP are given by
/// addresses and EtherType; a malformed header is named together with what is wrong.
pub fn describe(frame: &[u8]) -> String {
    let Ok(ether) = Ethernet::new(frame) else {
        return format!("[cut Ethernet header], length {}", frame.len());
    };
    let mut out = String::new();
    let mut kind = ether.ethertype();
    let mut at = 14;
    while let (ethertype::VLAN | ethertype::QINQ, Some(rest)) = (kind, frame.get(at..)) {
        let Ok(tag) = Vlan::new(rest) else {
            return format!("{out}[cut VLAN tag], length {}", frame.len());
        };
        let name = if kind == ethertype::QINQ { "qinq" } else { "vlan" };
        let _ = write!(out, "{name} {}, p {}, ", tag.vid(), tag.priority());
        kind = tag.ethertype();
        at += 4;
    }
    let rest = frame.get(at..).unwrap_or(&[]);
    match kind {
        ethertype::IPV4 | ethertype::IPV6 => ip(&mut out, rest),
        ethertype::ARP => arp(&mut out, rest),
        _ => {
            let (src, dst) = (ether.src(), dst_name(ether.dst()));
            let what = if kind < 0x600 { "802.3".to_owned() } else { format!("ethertype 0x{kind:04x}") };
            let _ = write!(out, "{src} > {dst}, {what}, length {}", frame.len());
        }
    }
    out
}

/// Describes a packet that starts with its IP header, in the same words as [`describe`].
pub fn describe_ip(packet: &[u8]) -> String {
    let mut out = String::new();
    ip(&mut out, packet);
    out
}

fn dst_name(addr: EtherAddr) -> String {
    if addr.is_broadcast() { "Broadcast".to_owned() } else { addr.to_string() }
}

fn arp(out: &mut String, bytes: &[u8]) {
    let _ = match Arp::new(bytes) {
        Ok(arp) if arp.operation() == 1 => {
            write!(out, "ARP, Request who-has {} tell {}", arp.target_ip(), arp.sender_ip())
        }
        Ok(arp) if arp.operation() == 2 => {
            write!(out, "ARP, Reply {} is-at {}", arp.sender_ip(), arp.sender_ether())
        }
        Ok(arp) => write!(out, "ARP, operation {}", arp.operation()),
        Err(e) => write!(out, "ARP, [{e}]"),
    };
    let _ = write!(out, ", length {}", bytes.len());
}

fn ip(out: &mut String, bytes: &[u8]) {
    let Some(h) = Headers::of_ip(bytes, 0) else {
        let why = match bytes.first().map_or(4, |b| b >> 4) {
            6 => Ipv6::new(bytes).err(),
            _ => Ipv4::new(bytes).err(),
        };
        let why = why.map_or_else(|| "IPv6 extension header is cut".to_owned(), |e| e.to_string());
        let _ = write!(out, "IP [{why}], length {}", bytes.len());
        return;
    };
    let (label, src, dst, note) = match h.network {
        Network::V4 => match Ipv4::new(bytes) {
            Ok(ip) => ("IP", ip.src().to_string(), ip.dst().to_string(), fragment4(&ip)),
            Err(_) => return,
        },
        Network::V6 => match Ipv6::new(bytes) {
            Ok(ip) => ("IP6", ip.src().to_string(), ip.dst().to_string(), String::new()),
            Err(_) => return,
        },
    };
    let segment = h.transport.and_then(|at| bytes.get(at..h.end));
    let ends = |a: u16, b: u16| format!("{label} {src}.{a} > {dst}.{b}: ");
    let plain = format!("{label} {src} > {dst}: ");
    match (h.protocol, segment) {
        (number, None) => {
            let _ = write!(out, "{plain}{} fragment", protocol_name(number));
        }
        (proto::TCP, Some(segment)) => match Tcp::new(segment) {
            Ok(t) => {
                out.push_str(&ends(t.src_port(), t.dst_port()));
                tcp(out, &t);
            }
            Err(e) => malformed(out, &plain, &e.to_string()),
        },
        (proto::UDP, Some(segment)) => match Udp::new(segment) {
            Ok(u) => {
                let _ = write!(out, "{}UDP, length {}", ends(u.src_port(), u.dst_port()), u.length() - 8);
            }
            Err(e) => malformed(out, &plain, &e.to_string()),
        },
        (number @ (proto::ICMP | proto::ICMPV6), Some(segment)) => match Icmp::new(segment) {
            Ok(m) => {
                out.push_str(&plain);
                icmp(out, &m, number == proto::ICMPV6);
            }
            Err(e) => malformed(out, &plain, &e.to_string()),
        },
        (number, Some(segment)) => {
            let _ = write!(out, "{plain}{}, length {}", protocol_name(number), segment.len());
        }
    }
    out.push_str(&note);
}

fn malformed(out: &mut String, ends: &str, why: &str) {
    let _ = write!(out, "{ends}[{why}]");
}

fn fragment4(ip: &Ipv4<&[u8]>) -> String {
    if ip.fragment_offset() == 0 && !ip.more_fragments() {
        return String::new();
    }
    let more = if ip.more_fragments() { "+" } else { "" };
    format!(
        " (frag {}:{}@{}{more})",
        ip.id(),
        usize::from(ip.total_len()) - ip.header_len(),
        ip.fragment_offset()
    )
}

fn tcp(out: &mut String, t: &Tcp<&[u8]>) {
    const LETTERS: [(u8, char); 8] = [
        (Tcp::FIN, 'F'),
        (Tcp::SYN, 'S'),
        (Tcp::RST, 'R'),
        (Tcp::PSH, 'P'),
        (Tcp::ACK, '.'),
        (Tcp::URG, 'U'),
        (Tcp::ECE, 'E'),
        (Tcp::CWR, 'W'),
    ];
    let flags: String = LETTERS.iter().filter(|(bit, _)| t.flags() & bit != 0).map(|&(_, c)| c).collect();
    let length = t.payload().len();
    let flags = if flags.is_empty() { "none" } else { &flags };
    let _ = write!(out, "Flags [{flags}], seq {}", t.seq());
    if length > 0 {
        let _ = write!(out, ":{}", t.seq().wrapping_add(length as u32));
    }
    if t.flags() & Tcp::ACK != 0 {
        let _ = write!(out, ", ack {}", t.ack());
    }
    let _ = write!(out, ", win {}, length {length}", t.window());
}

fn icmp(out: &mut String, m: &Icmp<&[u8]>, v6: bool) {
    let echo = match (v6, m.kind()) {
        (false, 8) | (true, 128) => Some("request"),
        (false, 0) | (true, 129) => Some("reply"),
        _ => None,
    };
    let label = if v6 { "ICMP6" } else { "ICMP" };
    let length = m.payload().len() + 8;
    let _ = match echo {
        Some(which) => {
            write!(out, "{label} echo {which}, id {}, seq {}, length {length}", m.echo_id(), m.echo_seq())
        }
        None => {
            let name = match (v6, m.kind()) {
                (false, 3) | (true, 1) => "unreachable".to_owned(),
                (false, 5) | (true, 137) => "redirect".to_owned(),
                (false, 11) | (true, 3) => "time exceeded".to_owned(),
                (true, 2) => "packet too big".to_owned(),
                (true, 133) => "router solicitation".to_owned(),
                (true, 134) => "router advertisement".to_owned(),
                (true, 135) => "neighbor solicitation".to_owned(),
                (true, 136) => "neighbor advertisement".to_owned(),
                (_, kind) => format!("type {kind}"),
            };
            write!(out, "{label} {name}, code {}, length {length}", m.code())
        }
    };
}

fn protocol_name(number: u8) -> String {
    match number {
        proto::ICMP => "ICMP".to_owned(),
        2 => "IGMP".to_owned(),
        4 => "IPIP".to_owned(),
        proto::TCP => "TCP".to_owned(),
        proto::UDP => "UDP".to_owned(),
        47 => "GRE".to_owned(),
        50 => "ESP".to_owned(),
        51 => "AH".to_owned(),
        proto::ICMPV6 => "ICMP6".to_owned(),
        132 => "SCTP".to_owned(),
        other => format!("protocol {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, TcpFields};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    #[test]
    fn words_for_ordinary_packets() {
        let syn = TcpFields { seq: 7, flags: Tcp::SYN, window: 512, ack: 0 };
        let data = TcpFields { seq: 8, flags: Tcp::ACK | Tcp::PSH, window: 512, ack: 3 };
        let mut tagged = build::udp4((A, 5), (B, 53), b"hello");
        build::tag_vlan(&mut tagged, 0x6007);
        let mut fragment = build::udp4((A, 5), (B, 53), &[0; 80]);
        Ipv4::new(&mut fragment[14..]).unwrap().set_fragment_field(0x2005);
        for (frame, words) in [
            (
                build::tcp4((A, 1), (B, 80), syn, b""),
                "IP 10.0.0.1.1 > 10.0.0.2.80: Flags [S], seq 7, win 512, length 0",
            ),
            (
                build::tcp4((A, 1), (B, 80), data, b"abc"),
                "IP 10.0.0.1.1 > 10.0.0.2.80: Flags [P.], seq 8:11, ack 3, win 512, length 3",
            ),
            (tagged, "vlan 7, p 3, IP 10.0.0.1.5 > 10.0.0.2.53: UDP, length 5"),
            (fragment, "IP 10.0.0.1 > 10.0.0.2: UDP fragment (frag 0:88@40+)"),
            (
                build::icmp_echo(A, B, 9, 2, &[0; 56]),
                "IP 10.0.0.1 > 10.0.0.2: ICMP echo request, id 9, seq 2, length 64",
            ),
            (
                build::arp(1, (build::SRC_ETHER, A), (EtherAddr::default(), B)),
                "ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28",
            ),
            (
                build::ethernet(EtherAddr::BROADCAST, build::SRC_ETHER, 0x88cc, &[]),
                "02:00:00:00:00:01 > Broadcast, ethertype 0x88cc, length 14",
            ),
            (
                build::ethernet(EtherAddr::BROADCAST, build::SRC_ETHER, 0x0800, &[0x45; 10]),
                "IP [IPv4 header needs 20 bytes, there are 10], length 10",
            ),
            (vec![1; 5], "[cut Ethernet header], length 5"),
        ] {
            assert_eq!(describe(&frame), words);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_described(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            kind in prop_oneof![Just(None), Just(Some(0x800u16)), Just(Some(0x86dd)), Just(Some(0x806)), Just(Some(0x8100))],
            v6: bool,
        ) {
            let mut bytes = bytes;
            if let (Some(kind), true) = (kind, bytes.len() > 14) {
                bytes[12..14].copy_from_slice(&kind.to_be_bytes());
                bytes[14] = if v6 { 0x60 } else { 0x45 };
            }
            prop_assert!(!describe(&bytes).is_empty() && !describe(&bytes).contains('\n'));
            prop_assert!(!describe_ip(&bytes).is_empty());
            crate::FlowKey::of_frame(&bytes);
        }

        #[test]
        fn any_cut_or_changed_packet_is_described(cut in 0usize..70, at in 0usize..62, value: u8) {
            let mut frame = build::tcp4((A, 1), (B, 80), TcpFields::default(), b"12345678");
            frame[at] = value;
            frame.truncate(cut);
            prop_assert!(!describe(&frame).is_empty());
        }
    }
}

//! What an element did to a packet, in words.

use weir_net::{
    Arp, EtherAddr, Ethernet, Headers, Icmp, Ipv4, Ipv6, Network, Tcp, Udp, Vlan, ethertype, proto,
};
use weir_packet::Packet;

use super::{Start, start};

/// Fields of the annotation area that have names: offset, length, name (Click's layout).
const ANNOTATIONS: [(usize, usize, &str); 4] =
    [(0, 4, "dst ip annotation"), (16, 1, "paint"), (20, 4, "aggregate"), (40, 2, "vlan tci annotation")];

/// The differences between a packet before and after: bytes in front and behind, then header fields, then
/// annotations. Marks and checksums that follow from other fields are left out.
pub(super) fn changes(before: &Packet, after: &Packet) -> Vec<String> {
    let mut out = Vec::new();
    let front = i64::from(after.data()) - i64::from(before.data());
    match front {
        0 => {}
        n if n > 0 => out.push(format!("stripped {n} bytes")),
        n => out.push(format!("added {} bytes in front", -n)),
    }
    let behind = after.len() as i64 - before.len() as i64 + front;
    match behind {
        0 => {}
        n if n > 0 => out.push(format!("added {n} bytes behind")),
        n => out.push(format!("cut {} bytes behind", -n)),
    }
    let (old, new) = (fields(before), fields(after));
    for (name, value) in &new {
        match old.iter().find(|(n, _)| n == name) {
            Some((_, was)) if was != value => out.push(format!("{name} {was} -> {value}")),
            Some(_) => {}
            None => {}
        }
    }
    if out.is_empty() && before.bytes() != after.bytes() {
        let n = before.bytes().iter().zip(after.bytes()).filter(|(a, b)| a != b).count();
        out.push(format!("{n} bytes changed"));
    }
    for (at, len, name) in ANNOTATIONS {
        let (a, b) = (&before.anno[at..at + len], &after.anno[at..at + len]);
        if a != b {
            out.push(format!("{name} {} -> {}", annotation(a, name), annotation(b, name)));
        }
    }
    out
}

fn annotation(bytes: &[u8], name: &str) -> String {
    match bytes {
        [a, b, c, d] if name.contains("ip") => format!("{a}.{b}.{c}.{d}"),
        _ => bytes.iter().fold(0u64, |v, &b| v << 8 | u64::from(b)).to_string(),
    }
}

type Fields = Vec<(&'static str, String)>;

/// The header fields of a packet, as far as it has headers that are known.
fn fields(packet: &Packet) -> Fields {
    let mut out = Fields::new();
    let bytes = packet.bytes();
    let net = match start(packet) {
        Start::Ethernet => ethernet(&mut out, bytes),
        Start::Ip => Some(0),
        Start::Unknown => None,
    };
    if let Some(headers) = net.and_then(|net| Headers::of_ip(bytes, net)) {
        ip(&mut out, bytes, &headers);
    }
    out
}

fn ethernet(out: &mut Fields, bytes: &[u8]) -> Option<usize> {
    let ether = Ethernet::new(bytes).ok()?;
    let address = |a: EtherAddr| a.to_string();
    out.push(("eth src", address(ether.src())));
    out.push(("eth dst", address(ether.dst())));
    let (mut kind, mut at) = (ether.ethertype(), 14);
    while matches!(kind, ethertype::VLAN | ethertype::QINQ) {
        let tag = Vlan::new(bytes.get(at..)?).ok()?;
        out.push(("vlan", tag.vid().to_string()));
        kind = tag.ethertype();
        at += 4;
    }
    if kind == ethertype::ARP
        && let Ok(arp) = Arp::new(bytes.get(at..)?)
    {
        out.push(("arp operation", arp.operation().to_string()));
        out.push(("arp sender", format!("{} {}", arp.sender_ip(), arp.sender_ether())));
        out.push(("arp target", format!("{} {}", arp.target_ip(), arp.target_ether())));
    }
    matches!(kind, ethertype::IPV4 | ethertype::IPV6).then_some(at)
}

fn ip(out: &mut Fields, bytes: &[u8], h: &Headers) {
    let rest = bytes.get(h.net..).unwrap_or(&[]);
    match h.network {
        Network::V4 => {
            let Ok(ip) = Ipv4::new(rest) else { return };
            out.push(("ip src", ip.src().to_string()));
            out.push(("ip dst", ip.dst().to_string()));
            out.push(("ip ttl", ip.ttl().to_string()));
            out.push(("ip tos", ip.tos().to_string()));
            out.push(("ip id", ip.id().to_string()));
            out.push(("ip length", ip.total_len().to_string()));
            out.push(("ip protocol", ip.protocol().to_string()));
        }
        Network::V6 => {
            let Ok(ip) = Ipv6::new(rest) else { return };
            out.push(("ip6 src", ip.src().to_string()));
            out.push(("ip6 dst", ip.dst().to_string()));
            out.push(("ip6 hop limit", ip.hop_limit().to_string()));
        }
    }
    let Some(segment) = h.transport.and_then(|at| bytes.get(at..h.end)) else { return };
    match h.protocol {
        proto::TCP => {
            let Ok(tcp) = Tcp::new(segment) else { return };
            out.push(("tcp src", tcp.src_port().to_string()));
            out.push(("tcp dst", tcp.dst_port().to_string()));
            out.push(("tcp seq", tcp.seq().to_string()));
            out.push(("tcp ack", tcp.ack().to_string()));
            out.push(("tcp flags", format!("0x{:02x}", tcp.flags())));
        }
        proto::UDP => {
            let Ok(udp) = Udp::new(segment) else { return };
            out.push(("udp src", udp.src_port().to_string()));
            out.push(("udp dst", udp.dst_port().to_string()));
        }
        proto::ICMP | proto::ICMPV6 => {
            let Ok(icmp) = Icmp::new(segment) else { return };
            out.push(("icmp type", icmp.kind().to_string()));
            out.push(("icmp code", icmp.code().to_string()));
        }
        _ => {}
    }
}

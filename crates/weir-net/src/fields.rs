//! Header fields by name, for what shows people packets and how they change.

use crate::{Arp, EtherAddr, Ethernet, Headers, Icmp, Ipv4, Ipv6, Network, Tcp, Udp, Vlan, ethertype, proto};

/// Fields with their values as text. The first word of a name is the header: `eth src`, `ip ttl`, `udp dst`.
pub type Fields = Vec<(&'static str, String)>;

/// The fields of an Ethernet frame, as far as it has headers that are known.
pub fn frame_fields(frame: &[u8]) -> Fields {
    let mut out = Fields::new();
    let net = ethernet(&mut out, frame);
    if let Some(headers) = net.and_then(|net| Headers::of_ip(frame, net)) {
        ip(&mut out, frame, &headers);
    }
    out
}

/// The fields of a packet that starts with its IP header.
pub fn ip_fields(packet: &[u8]) -> Fields {
    let mut out = Fields::new();
    if let Some(headers) = Headers::of_ip(packet, 0) {
        ip(&mut out, packet, &headers);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build;

    #[test]
    fn fields_are_named_after_their_header() {
        let mut frame = build::udp4(([10, 0, 0, 1].into(), 5), ([10, 0, 0, 2].into(), 53), b"x");
        let value = |fields: &Fields, name: &str| {
            fields.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()).unwrap_or_default()
        };
        assert_eq!(ip_fields(&frame[14..]), frame_fields(&frame)[2..]);
        build::tag_vlan(&mut frame, 7);
        let fields = frame_fields(&frame);
        assert_eq!((value(&fields, "vlan"), value(&fields, "ip dst")), ("7".into(), "10.0.0.2".into()));
        assert_eq!(value(&fields, "udp dst"), "53");
        for n in 0..frame.len() {
            assert!(frame_fields(&frame[..n]).len() <= fields.len());
            ip_fields(&frame[n..]);
        }
    }
}

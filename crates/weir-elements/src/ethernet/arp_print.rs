use std::fmt::Write;

use crate::prelude::*;

/// Length of an ARP packet for Ethernet and IPv4 (RFC 826).
const ARP_LEN: usize = 28;

element! {
    /// Prints a line for each ARP packet, like tcpdump, and passes packets on unchanged.
    ///
    /// The ARP header is where the network header is marked, otherwise behind the Ethernet header of an ARP packet, or at
    /// its start.
    ARPPrint: "1/1", "a/a";
    example "Idle -> ARPPrint(arp, TIMESTAMP false) -> Discard;";
    params {
        /// What lines start with.
        pos label: String = String::new() => "",
        /// Whether the packet's time of arrival is printed, in seconds since 1970.
        key timestamp: bool = true,
        /// Whether the addresses of the Ethernet header are printed.
        key ether: bool = false,
        /// Whether anything is printed.
        key active: bool = true,
    }
    handlers {
        /// Whether anything is printed.
        cell active: bool,
    }
    describe |e, _, _, packet| packet.map(|p| line(e, p));
}

fn program(e: &ARPPrint, b: &mut Builder) {
    crate::basic::print::print_packets(b, e.active);
}

fn line(e: &ARPPrint, packet: &Packet) -> String {
    let mut out = String::new();
    if !e.label.is_empty() {
        out = format!("{}: ", e.label);
    }
    if e.timestamp {
        _ = write!(out, "{}: ", crate::time_text(packet.timestamp));
    }
    let bytes = packet.bytes();
    let framed = bytes.get(12..14) == Some(&[0x08, 0x06]);
    let (arp, frame) = match packet.layer(Layer::Net) {
        Some(at) => {
            let mac = packet.layer(Layer::Mac).unwrap_or(packet.data());
            let frame = packet.buffer().get(mac as usize..at as usize).unwrap_or(&[]);
            (packet.from_layer(Layer::Net), frame)
        }
        None if framed => (bytes.get(14..).unwrap_or(&[]), bytes),
        None => (bytes, &[][..]),
    };
    if e.ether && frame.len() >= 14 {
        _ = write!(out, "{} > {}: ", ether(frame, 6), ether(frame, 0));
    }
    out + &contents(arp)
}

fn contents(arp: &[u8]) -> String {
    if arp.len() < ARP_LEN {
        return format!("truncated-arp ({})", arp.len());
    }
    let word = |at: usize| u16::from_be_bytes([byte(arp, at), byte(arp, at + 1)]);
    let (hardware, protocol, operation) = (word(0), word(2), word(6));
    let (hardware_len, protocol_len) = (byte(arp, 4), byte(arp, 5));
    if protocol != ethertype::IPV4 || protocol_len != 4 || hardware_len == 0 {
        return format!(
            "arp-#{operation} for proto #{protocol} ({protocol_len}) hardware #{hardware} ({hardware_len})"
        );
    }
    let (sender, target) = (ether(arp, 8), ether(arp, 18));
    let [sender_ip, target_ip] = [14, 24].map(|at| Ipv4Addr::from([0, 1, 2, 3].map(|i| byte(arp, at + i))));
    match operation {
        1 => {
            let known = arp.get(18..24).is_some_and(|b| b.iter().any(|b| *b != 0));
            let target = if known { format!(" ({target})") } else { String::new() };
            format!("arp who-has {target_ip}{target} tell {sender_ip}")
        }
        2 => format!("arp reply {sender_ip} is-at {sender}"),
        3 => format!("rarp who-is {target} tell {sender}"),
        4 => format!("rarp reply {target} at {target_ip}"),
        n => format!("arp-#{n}"),
    }
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// An Ethernet address as Click writes it.
fn ether(bytes: &[u8], at: usize) -> String {
    [0, 1, 2, 3, 4, 5].map(|i| format!("{:02X}", byte(bytes, at + i))).join("-")
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;

    /// Who has 10.0.0.2, tell 10.0.0.1.
    const REQUEST: [u8; 28] =
        [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];

    fn printed(args: &[&str], bytes: &[u8]) -> String {
        let mut e = Harness::new("ARPPrint", args, 1, 1);
        assert_eq!(e.send(0, bytes)[0].out(), (0, bytes));
        e.lines.join("\n")
    }

    #[test]
    fn requests_and_replies_are_told() {
        let args = ["arp", "TIMESTAMP false"];
        assert_eq!(printed(&args, &REQUEST), "arp: arp who-has 10.0.0.2 tell 10.0.0.1");
        let mut reply = REQUEST;
        reply[7] = 2;
        assert_eq!(printed(&["TIMESTAMP false"], &reply), "arp reply 10.0.0.1 is-at 02-00-00-00-00-01");
        let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &REQUEST].concat();
        assert_eq!(
            printed(&["ETHER true"], &frame),
            "0.000000: 02-00-00-00-00-01 > FF-FF-FF-FF-FF-FF: arp who-has 10.0.0.2 tell 10.0.0.1"
        );
        assert_eq!(printed(&["ACTIVE false"], &REQUEST), "");
    }

    #[test]
    fn every_prefix_is_told() {
        for n in 0..REQUEST.len() {
            assert_eq!(printed(&["TIMESTAMP false"], &REQUEST[..n]), format!("truncated-arp ({n})"));
        }
        let mut other = REQUEST;
        other[3] = 1;
        assert!(printed(&["TIMESTAMP false"], &other).starts_with("arp-#1 for proto #2049"));
    }
}

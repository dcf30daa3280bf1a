use std::fmt::Write;

use super::print::{Contents, first, print_packets, printable, seconds};
use crate::prelude::*;
use weir_net::Tcp;

element! {
    /// Prints a line for each IPv4 packet, in the manner of tcpdump, and passes packets on unchanged.
    ///
    /// The line has the label, the time of arrival, addresses and ports, and what the protocol says:
    /// `in: 1.500000: 10.0.0.1.1024 > 10.0.0.2.80: S 7:8(1,40,40) win 512`. For TCP these are the flags, the first
    /// and the next sequence number, and in brackets their difference, the length of the packet and the length in its
    /// header. Nothing is printed for packets without a `net` mark.
    IPPrint: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> IPPrint(in, TTL true) -> Discard;";
    params {
        /// What lines start with.
        pos label: String = String::new() => "",
        /// How the whole packet is printed below the line: `none`, `hex` or `ascii`.
        key contents: Contents = Contents::None => "none",
        /// How the packet's payload is printed below the line; not together with `CONTENTS`.
        key payload: Contents = Contents::None => "none",
        /// Most bytes of contents or payload to print; -1 is all.
        key maxlength: i32 = 1500,
        /// Whether the identification is printed.
        key id: bool = false,
        /// Whether the time of arrival is printed, in seconds since 1970.
        key timestamp: bool = true,
        /// Whether the paint annotation is printed.
        key paint: bool = false,
        /// Whether the type of service is printed.
        key tos: bool = false,
        /// Whether the time to live is printed.
        key ttl: bool = false,
        /// Whether identifier and sequence number of ICMP echo packets are in network byte order.
        key swap: bool = true,
        /// Whether the length in the header is printed.
        key length: bool = false,
        /// Whether the aggregate annotation is printed.
        key aggregate: bool = false,
        /// Whether anything is printed.
        key active: bool = true,
        /// Kept for Click configurations: all lines go to one place.
        key channel: String = String::new() => "",
    }
    check |e| match (e.contents, e.payload) {
        (Contents::None, _) | (_, Contents::None) => Ok(()),
        _ => Err("PAYLOAD: the contents are printed already; specify at most one of PAYLOAD and CONTENTS".into()),
    };
    handlers {
        /// Whether anything is printed.
        cell active: bool,
    }
    describe |e, _, _, packet| packet.and_then(|p| line(e, p));
}

fn program(e: &IPPrint, b: &mut Builder) {
    print_packets(b, e.active);
}

/// An IPv4 header and what is behind it.
struct Ip<'a> {
    header: &'a [u8],
    /// As far as the header says that the packet goes.
    transport: &'a [u8],
    /// Length of the packet that carries it.
    packet_len: usize,
}

impl Ip<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.header.get(at).copied().unwrap_or(0)
    }

    fn word(&self, at: usize) -> u16 {
        word(self.header, at)
    }

    fn addr(&self, at: usize) -> Ipv4Addr {
        Ipv4Addr::from(long(self.header, at))
    }

    /// Payload length according to the header.
    fn payload_len(&self) -> i64 {
        i64::from(self.word(2)) - i64::from(self.byte(0) & 15) * 4
    }

    fn is_first(&self) -> bool {
        self.word(6) & 0x1fff == 0
    }
}

fn line(e: &IPPrint, packet: &Packet) -> Option<String> {
    packet.layer(Layer::Net)?;
    let mut out = String::new();
    if !e.label.is_empty() {
        out = format!("{}: ", e.label);
    }
    if e.timestamp {
        _ = write!(out, "{}: ", seconds(packet.timestamp));
    }
    if e.aggregate {
        _ = write!(out, "#{}", long(&packet.anno, anno::AGGREGATE as usize));
    }
    if e.paint {
        let prefix = if e.aggregate { "." } else { "paint " };
        _ = write!(out, "{prefix}{}", packet.anno.get(anno::PAINT as usize)?);
    }
    if e.aggregate || e.paint {
        out += ": ";
    }
    let header = packet.from_layer(Layer::Net);
    if header.len() < 20 {
        return Some(out + "truncated-ip");
    }
    let mut ip = Ip { header, transport: packet.from_layer(Layer::Transport), packet_len: packet.len() };
    let space = usize::try_from(ip.payload_len()).unwrap_or(0);
    ip.transport = ip.transport.get(..space).unwrap_or(ip.transport);
    let fields = [
        (e.id, "id", ip.word(4)),
        (e.ttl, "ttl", ip.byte(8).into()),
        (e.tos, "tos", ip.byte(1).into()),
        (e.length, "length", ip.word(2)),
    ];
    for (_, name, value) in fields.into_iter().filter(|f| f.0) {
        _ = write!(out, "{name} {value} ");
    }
    out += &match ip.byte(9) {
        proto::TCP => tcp(&ip),
        proto::UDP => udp(&ip),
        proto::ICMP => icmp(&ip, e.swap),
        other => format!("{}ip-proto-{other}", pair(&ip)),
    };
    if ip.word(6) & 0x3fff != 0 {
        let more = if ip.word(6) & 0x2000 != 0 { "+" } else { "" };
        let offset = usize::from(ip.word(6) & 0x1fff) * 8;
        _ = write!(out, " (frag {}:{}@{offset}{more})", ip.word(4), ip.payload_len());
    }
    if e.payload == Contents::None {
        dump(&mut out, first(packet.bytes(), e.maxlength), e.contents);
    } else {
        let transport = packet.from_layer(Layer::Transport);
        let skip = match ip.byte(9) {
            proto::TCP if ip.is_first() => usize::from(transport.get(12).unwrap_or(&0) >> 4) * 4,
            proto::UDP if ip.is_first() => 8,
            _ => 0,
        };
        dump(&mut out, first(transport.get(skip..).unwrap_or(&[]), e.maxlength), e.payload);
    }
    Some(out)
}

fn pair(ip: &Ip<'_>) -> String {
    format!("{} > {}: ", ip.addr(12), ip.addr(16))
}

/// Addresses with ports, or what there is to say without ports.
fn pair_with_ports(ip: &Ip<'_>, name: &str) -> Result<String, String> {
    if !ip.is_first() {
        return Err(format!("{}{name}", pair(ip)));
    }
    if ip.transport.len() < 4 {
        return Err(format!("{}truncated-{name}", pair(ip)));
    }
    let (from, to) = (word(ip.transport, 0), word(ip.transport, 2));
    Ok(format!("{}.{from} > {}.{to}: ", ip.addr(12), ip.addr(16)))
}

fn udp(ip: &Ip<'_>) -> String {
    match pair_with_ports(ip, "udp") {
        Ok(pair) if ip.transport.len() < 8 => pair + "truncated-udp",
        Ok(pair) => format!("{pair}udp {}", word(ip.transport, 4)),
        Err(line) => line,
    }
}

fn tcp(ip: &Ip<'_>) -> String {
    let mut out = match pair_with_ports(ip, "tcp") {
        Ok(pair) if ip.transport.len() < 14 => return pair + "truncated-tcp",
        Ok(pair) => pair,
        Err(line) => return line,
    };
    let tcp = ip.transport;
    let flags = tcp.get(13).copied().unwrap_or(0);
    let header_len = i64::from(tcp.get(12).unwrap_or(&0) >> 4) * 4;
    let mut seq_len = ip.payload_len() - header_len;
    for (flag, letter, counts) in
        [(Tcp::SYN, 'S', 1), (Tcp::FIN, 'F', 1), (Tcp::RST, 'R', 0), (Tcp::PSH, 'P', 0)]
    {
        if flags & flag != 0 {
            out.push(letter);
            seq_len += counts;
        }
    }
    if flags & (Tcp::SYN | Tcp::FIN | Tcp::RST | Tcp::PSH) == 0 {
        out.push('.');
    }
    let seq = long(tcp, 4);
    let next = seq.wrapping_add(seq_len as u32);
    _ = write!(out, " {seq}:{next}({seq_len},{},{})", ip.packet_len, ip.word(2));
    if flags & Tcp::ACK != 0 {
        _ = write!(out, " ack {}", long(tcp, 8));
    }
    if tcp.len() < 16 {
        return out + "truncated-tcp";
    }
    _ = write!(out, " win {}", word(tcp, 14));
    out
}

fn icmp(ip: &Ip<'_>, swap: bool) -> String {
    let mut out = pair(ip);
    let icmp = ip.transport;
    if !ip.is_first() {
        return out + "icmp";
    }
    let [kind, code, ..] = *icmp else { return out + "truncated-icmp" };
    let code_name = |unknown: String| code_name(kind, code).map_or(unknown, str::to_owned);
    match kind {
        0 | 8 => {
            out += if kind == 8 { "icmp echo " } else { "icmp echo-reply " };
            if icmp.len() < 8 {
                return out + "truncated-icmp";
            }
            let [id, seq] = [4, 6].map(|at| if swap { word(icmp, at) } else { word(icmp, at).swap_bytes() });
            _ = write!(out, "({id}, {seq})");
        }
        3 => {
            let code_name = code_name(format!("code {code}"));
            let inner = icmp.get(8..).unwrap_or(&[]);
            if inner.len() < 20 {
                return format!("{out}icmp unreachable {code_name} truncated-icmp");
            }
            let inner = Ip { header: inner, transport: &[], packet_len: 0 };
            let (header_len, protocol) = (usize::from(inner.byte(0) & 15) * 4, inner.byte(9));
            _ = write!(out, "icmp {} unreachable {code_name}", inner.addr(16));
            match code {
                2 => _ = write!(out, " {}", proto_name(protocol).unwrap_or(protocol.to_string())),
                3 => {
                    _ = write!(out, " {}", proto_name(protocol).unwrap_or(format!("protocol {protocol}")));
                    if inner.header.len() < header_len + 4 {
                        return out + "truncated-icmp";
                    }
                    _ = write!(out, "/{}", inner.word(header_len + 2));
                }
                4 if word(icmp, 6) != 0 => _ = write!(out, " (mtu {})", word(icmp, 6)),
                _ => {}
            }
        }
        _ => {
            let unknown = if code == 0 { String::new() } else { format!("code {code}") };
            let (kind, code) = (type_name(kind).unwrap_or(format!("type {kind}")), code_name(unknown));
            _ = write!(out, "icmp {kind}{}{code}", if code.is_empty() { "" } else { " " });
        }
    }
    out
}

/// Click's names of ICMP types.
fn type_name(kind: u8) -> Option<String> {
    let name = match kind {
        4 => "sourcequench",
        5 => "redirect",
        9 => "routeradvert",
        10 => "routersolicit",
        11 => "timeexceeded",
        12 => "parameterproblem",
        13 => "timestamp",
        14 => "timestamp-reply",
        15 => "inforeq",
        16 => "inforeq-reply",
        17 => "maskreq",
        18 => "maskreq-reply",
        _ => return None,
    };
    Some(name.into())
}

/// Click's names of the codes of ICMP errors.
fn code_name(kind: u8, code: u8) -> Option<&'static str> {
    let names = match kind {
        3 => {
            "net host protocol port needfrag srcroutefail netunknown hostunknown isolated netprohibited \
             hostprohibited tosnet toshost filterprohibited hostprecedence precedencecutoff"
        }
        5 => "net host tosnet toshost",
        11 => "transit reassembly",
        12 => "erroratptr missingopt length",
        _ => "",
    };
    names.split_whitespace().nth(code.into())
}

/// Click's names of IP protocols.
fn proto_name(protocol: u8) -> Option<String> {
    let name = match protocol {
        1 => "icmp",
        2 => "igmp",
        4 => "ipip",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        132 => "sctp",
        _ => return None,
    };
    Some(name.into())
}

/// Adds lines of contents, indented by two spaces.
pub(crate) fn dump(out: &mut String, bytes: &[u8], contents: Contents) {
    let (per_line, per_group) = match contents {
        Contents::None => return,
        Contents::Hex => (24, 4),
        Contents::Ascii => (48, 8),
    };
    for (i, &byte) in bytes.iter().enumerate() {
        if i % per_line == 0 {
            out.push_str("\n  ");
        } else if i % per_group == 0 {
            out.push(' ');
        }
        match contents {
            Contents::Ascii => out.push(printable(byte)),
            _ => _ = write!(out, "{byte:02x}"),
        }
    }
}

/// The big-endian word at an offset; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_be_bytes(*b))
}

/// The big-endian double word at an offset; 0 beyond the end.
fn long(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_be_bytes(*b))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, ip_packet, tcp, udp};
    use weir_net::build;
    use weir_packet::Packet;

    const SRC: ([u8; 4], u16) = ([10, 0, 0, 1], 1024);
    const DST: ([u8; 4], u16) = ([10, 0, 0, 2], 80);

    /// The line without time, for a packet with these bytes.
    fn printed(args: &[&str], bytes: &[u8]) -> String {
        let mut all = vec!["TIMESTAMP false"];
        all.extend(args);
        let mut e = Harness::new("IPPrint", &all, 1, 1);
        assert_eq!(e.send_ip(0, bytes)[0].out(), (0, bytes));
        e.lines.concat()
    }

    fn icmp(kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
        let mut message = vec![kind, code, 0, 0];
        message.extend(rest);
        build::ipv4(SRC.0.into(), DST.0.into(), 1, &message)
    }

    #[test]
    fn tcp_has_flags_and_sequence_numbers() {
        let mut syn = tcp(SRC, DST, 0x02, 7, b"");
        syn[34..36].copy_from_slice(&[2, 0]);
        assert_eq!(printed(&[], &syn), "10.0.0.1.1024 > 10.0.0.2.80: S 7:8(1,40,40) win 512");
        let mut data = tcp(SRC, DST, 0x18, 7, b"GET");
        data[28..32].copy_from_slice(&9_u32.to_be_bytes());
        data[34..36].copy_from_slice(&[0, 5]);
        assert_eq!(printed(&[], &data), "10.0.0.1.1024 > 10.0.0.2.80: P 7:10(3,43,43) ack 9 win 5");
        data[33] = 0;
        assert!(printed(&[], &data).contains(": . 7:10(3,43,43) win"));
    }

    #[test]
    fn udp_has_its_length_and_other_protocols_their_number() {
        assert_eq!(printed(&[], &udp(SRC, DST, b"x")), "10.0.0.1.1024 > 10.0.0.2.80: udp 9");
        let gre = build::ipv4(SRC.0.into(), DST.0.into(), 47, b"x");
        assert_eq!(printed(&["l"], &gre), "l: 10.0.0.1 > 10.0.0.2: ip-proto-47");
    }

    #[test]
    fn icmp_is_named() {
        let pair = "10.0.0.1 > 10.0.0.2: ";
        let echo = icmp(8, 0, &[1, 2, 0, 3]);
        assert_eq!(printed(&[], &echo), format!("{pair}icmp echo (258, 3)"));
        assert_eq!(printed(&["SWAP false"], &echo), format!("{pair}icmp echo (513, 768)"));
        let mut inner = vec![0; 4];
        inner.extend(udp(DST, SRC, b"x"));
        assert_eq!(
            printed(&[], &icmp(3, 3, &inner)),
            format!("{pair}icmp 10.0.0.1 unreachable port udp/1024")
        );
        assert_eq!(
            printed(&[], &icmp(3, 2, &inner)),
            format!("{pair}icmp 10.0.0.1 unreachable protocol udp")
        );
        inner[3] = 99;
        assert_eq!(
            printed(&[], &icmp(3, 4, &inner)),
            format!("{pair}icmp 10.0.0.1 unreachable needfrag (mtu 99)")
        );
        assert_eq!(printed(&[], &icmp(3, 0, b"")), format!("{pair}icmp unreachable net truncated-icmp"));
        assert_eq!(printed(&[], &icmp(11, 0, b"")), format!("{pair}icmp timeexceeded transit"));
        assert_eq!(printed(&[], &icmp(99, 0, b"")), format!("{pair}icmp type 99"));
        assert_eq!(printed(&[], &icmp(99, 7, b"")), format!("{pair}icmp type 99 code 7"));
    }

    #[test]
    fn fragments_have_their_place() {
        let mut p = udp(SRC, DST, b"x");
        p[4..8].copy_from_slice(&[0, 9, 0x20, 0]);
        assert!(printed(&[], &p).ends_with(": udp 9 (frag 9:9@0+)"));
        p[6..8].copy_from_slice(&[0, 2]);
        assert_eq!(printed(&[], &p), "10.0.0.1 > 10.0.0.2: udp (frag 9:9@16)");
    }

    #[test]
    fn options_add_to_the_line() {
        let mut p = ip_packet(&udp(SRC, DST, b"abcde"));
        p.timestamp = 1_500_000_000;
        p.anno[16] = 4;
        let line = |args: &[&str]| {
            let mut e = Harness::new("IPPrint", args, 1, 1);
            e.send_packet(0, p.copy());
            e.lines.concat()
        };
        let rest = "10.0.0.1.1024 > 10.0.0.2.80: udp 13";
        assert_eq!(line(&["l"]), format!("l: 1.500000: {rest}"));
        let fields = ["TIMESTAMP no", "PAINT true", "ID true", "TTL true", "TOS true", "LENGTH true"];
        assert_eq!(line(&fields), format!("paint 4: id 0 ttl 64 tos 0 length 33 {rest}"));
        assert_eq!(line(&["AGGREGATE true", "PAINT true"]), format!("1.500000: #0.4: {rest}"));
        assert!(line(&["PAYLOAD ascii"]).ends_with("udp 13\n  abcde"));
        assert!(line(&["PAYLOAD hex", "MAXLENGTH 2"]).ends_with("udp 13\n  6162"));
        let hex = line(&["CONTENTS hex"]);
        let lines: Vec<&str> = hex.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].starts_with("  45000021 ") && lines[1].len() == 2 + 48 + 5,
            "24 bytes in groups of 4: {hex}"
        );
        assert!(lines[2].ends_with(" 61626364 65"), "{hex}");
    }

    #[test]
    fn contents_and_payload_exclude_each_other() {
        let class = crate::class_named("IPPrint").unwrap();
        let errors = class.configure(&["CONTENTS hex".into(), "PAYLOAD ascii".into()]).err().unwrap();
        assert!(errors[0].contains("at most one of PAYLOAD and CONTENTS"), "{errors:?}");
    }

    #[test]
    fn cut_packets_are_called_truncated() {
        let mut e = Harness::new("IPPrint", &["TIMESTAMP false", "PAYLOAD hex"], 1, 1);
        let packets =
            [tcp(SRC, DST, 0x12, 7, b"abc"), udp(SRC, DST, b"abc"), icmp(3, 3, &udp(DST, SRC, b"x"))];
        for p in &packets {
            for n in 0..p.len() {
                e.lines.clear();
                e.send_ip(0, &p[..n]);
                let short = n < 20 || (n < 24 && p[9] != 1) || n == 20;
                assert!(!short || e.lines[0].contains("truncated"), "{n}: {:?}", e.lines);
            }
        }
        e.lines.clear();
        e.send_packet(0, Packet::from_bytes(&packets[0]).unwrap());
        assert!(e.lines.is_empty(), "nothing is printed without a network header");
    }
}

use weir_net::PortShare;

use crate::prelude::*;

element! {
    /// Keeps a graph to its ports of an address that several graphs share, in both directions: it neither gets nor sends what is another's.
    ///
    /// What comes in on input 0 are frames from the network, which leave on output 0 if they are for the ports; what comes in on input 1 is the
    /// graph's, and leaves on output 1 if it is from them. Frames are not changed. `SHARE` is the address with the ports, as
    /// `10.0.0.9:20000-20015`, with `/tcp` or `/udp` behind it if these are of one protocol.
    ///
    /// | frames | to the graph | from the graph |
    /// |---|---|---|
    /// | TCP, UDP | to the address and one of the ports | from these (else `WrongPort`), without IP options |
    /// | ICMP echo, if the share has all protocols | replies with an identifier that is one of the ports | requests with such an identifier |
    /// | ICMP unreachable, time exceeded, parameter problem | about a packet from the ports | about a packet to the ports, to who sent that |
    /// | fragments | none (`Fragment`): they have no ports, or not all | none |
    /// | ARP | answers to the share's Ethernet address | requests from the address and the share's Ethernet address |
    /// | others | none (`NoMatch`) | none |
    ///
    /// What is from another address, or another Ethernet address than that of the share, is dropped (`WrongSource`).
    SharedAddress: "2/2", "h/h";
    example "Idle -> mine :: SharedAddress(10.0.0.9:20000-20015) -> Discard;
        Idle -> [1] mine; mine [1] -> Discard;";
    params {
        /// The address, the ports, and perhaps the protocol.
        pos share: PortShare,
    }
    handlers {
        /// Number of frames from the graph that were dropped.
        count refused,
    }
}

impl FromArg for PortShare {
    const SYNTAX: &'static str = "address with ports";
    fn from_arg(text: &str) -> Result<PortShare, String> {
        text.trim().parse().map_err(|e| format!("'{text}': {e}"))
    }
}

const WRONG_PORT: Reason = Reason::new("WrongPort");
const WRONG_SOURCE: Reason = Reason::new("WrongSource");
const FRAGMENT: Reason = Reason::new("Fragment");

/// Bytes of the Ethernet header, in front of the IPv4 header.
const IP: u32 = 14;
/// Where the IPv4 header stands that an ICMP error quotes, behind that of ICMP.
const QUOTED: u32 = 8;
/// An IPv4 header without options.
const PLAIN: u32 = 20;
/// Types of ICMP: errors about a packet, and echoes.
const ERRORS: [u128; 3] = [3, 11, 12];
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;

/// Which way a frame goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Graph,
    Network,
}

#[derive(Clone, Copy)]
struct Side {
    to: To,
    share: PortShare,
    refused: TableId,
}

impl Side {
    fn refuse(self, b: &mut Builder, reason: Reason) {
        if self.to == To::Network {
            count(b, self.refused);
        }
        b.drop(reason);
    }

    fn pass(self, b: &mut Builder) {
        b.emit(self.to as u32);
    }

    fn need(self, b: &mut Builder, layer: Layer, bytes: u32) {
        b.require_or(layer, bytes, |b| self.refuse(b, Reason::TRUNCATED));
    }

    /// The address of the share, in a packet that goes this way.
    fn own(self) -> u32 {
        if self.to == To::Graph { 16 } else { 12 }
    }

    /// Ends with the frame passing if a port is the share's.
    fn by_port(self, b: &mut Builder, protocol: u8, port: V) {
        if self.share.protocols().numbers().contains(&protocol) {
            let (first, last) = self.share.ports();
            let high = b.ge(port, first);
            let low = b.le(port, last);
            let is = b.and(high, low);
            b.when(is, |b| self.pass(b));
        }
        self.refuse(b, WRONG_PORT);
    }
}

fn program(e: &SharedAddress, b: &mut Builder) {
    let refused = b.cell("refused", W64, 0);
    for to in [To::Graph, To::Network] {
        b.input(to as u32, |b| frame(Side { to, share: e.share, refused }, b));
    }
}

/// Whether six bytes of a frame are an Ethernet address.
fn is_mac(b: &mut Builder, at: u32, mac: EtherAddr) -> V {
    let [a, c, d, e, f, g] = mac.0;
    let (high, low) = (b.load(W32, Layer::Data, at), b.load(W16, Layer::Data, at + 4));
    let (high, low) = (b.eq(high, u32::from_be_bytes([a, c, d, e])), b.eq(low, u16::from_be_bytes([f, g])));
    b.and(high, low)
}

fn frame(s: Side, b: &mut Builder) {
    s.need(b, Layer::Data, IP);
    if s.to == To::Network {
        let own = is_mac(b, 6, s.share.mac());
        b.unless(own, |b| s.refuse(b, WRONG_SOURCE));
    }
    let kind = b.load(W16, Layer::Data, 12);
    b.switch(kind, &[ethertype::ARP.into(), ethertype::IPV4.into()], |b, case| match case {
        Some(0) => arp(s, b),
        Some(_) => ip(s, b),
        None => s.refuse(b, Reason::NO_MATCH),
    });
}

fn arp(s: Side, b: &mut Builder) {
    s.need(b, Layer::Data, 42);
    let kinds = b.load(W64, Layer::Data, 14);
    let address = u32::from(s.share.address());
    // Ethernet and IPv4, and the operation.
    match s.to {
        To::Graph => {
            let answer = b.eq(kinds, 0x0001_0800_0604_0002_u64);
            let mine = is_mac(b, 0, s.share.mac());
            let target = b.load(W32, Layer::Data, 38);
            let is = b.eq(target, address);
            let both = b.and(answer, mine);
            let all = b.and(both, is);
            b.when(all, |b| s.pass(b));
            s.refuse(b, Reason::NO_MATCH);
        }
        To::Network => {
            let request = b.eq(kinds, 0x0001_0800_0604_0001_u64);
            b.unless(request, |b| s.refuse(b, Reason::NO_MATCH));
            let mine = is_mac(b, 22, s.share.mac());
            let sender = b.load(W32, Layer::Data, 28);
            let is = b.eq(sender, address);
            let both = b.and(mine, is);
            b.when(both, |b| s.pass(b));
            s.refuse(b, WRONG_SOURCE);
        }
    }
}

fn ip(s: Side, b: &mut Builder) {
    s.need(b, Layer::Data, IP + PLAIN);
    let first = b.load(W8, Layer::Data, IP);
    let version = b.shr(first, 4);
    let four = b.eq(version, 4);
    b.unless(four, |b| s.refuse(b, Reason::BAD_HEADER));
    // Options can lead a packet elsewhere.
    if s.to == To::Network {
        let plain = b.eq(first, 0x45);
        b.unless(plain, |b| s.refuse(b, Reason::BAD_HEADER));
    }
    let own = b.load(W32, Layer::Data, IP + s.own());
    let is = b.eq(own, u32::from(s.share.address()));
    let other = if s.to == To::Graph { WRONG_PORT } else { WRONG_SOURCE };
    b.unless(is, |b| s.refuse(b, other));
    let fragment = b.load(W16, Layer::Data, IP + 6);
    let fragment = b.and(fragment, 0x3fff);
    let fragment = b.ne(fragment, 0);
    b.when(fragment, |b| s.refuse(b, FRAGMENT));
    let words = b.and(first, 0x0f);
    let bytes = b.shl(words, 2);
    let bytes = b.add(bytes, IP as u8);
    let bytes = b.resize(W32, bytes);
    b.require_or(Layer::Data, bytes, |b| s.refuse(b, Reason::TRUNCATED));
    b.set_mark(Layer::Cursor, Layer::Data, bytes);
    let protocol = b.load(W8, Layer::Data, IP + 9);
    b.switch(protocol, &[proto::TCP.into(), proto::UDP.into(), proto::ICMP.into()], |b, case| match case {
        Some(2) => icmp(s, b),
        Some(tcp_or_udp) => {
            s.need(b, Layer::Cursor, 4);
            let port = b.load(W16, Layer::Cursor, if s.to == To::Graph { 2 } else { 0 });
            s.by_port(b, [proto::TCP, proto::UDP][tcp_or_udp], port);
        }
        None => s.refuse(b, Reason::NO_MATCH),
    });
}

fn icmp(s: Side, b: &mut Builder) {
    s.need(b, Layer::Cursor, 8);
    let kind = b.load(W8, Layer::Cursor, 0);
    let echo = if s.to == To::Graph { ECHO_REPLY } else { ECHO_REQUEST };
    let is_echo = b.eq(kind, echo);
    b.when(is_echo, |b| {
        let id = b.load(W16, Layer::Cursor, 4);
        s.by_port(b, proto::ICMP, id);
    });
    b.switch(kind, &ERRORS, |b, case| match case {
        Some(_) => error(s, b),
        None => s.refuse(b, Reason::NO_MATCH),
    });
}

/// An error is about a packet that went the other way.
fn error(s: Side, b: &mut Builder) {
    s.need(b, Layer::Cursor, QUOTED + PLAIN + 8);
    let first = b.load(W8, Layer::Cursor, QUOTED);
    let plain = b.eq(first, 0x45);
    b.unless(plain, |b| s.refuse(b, Reason::BAD_HEADER));
    let fragment = b.load(W16, Layer::Cursor, QUOTED + 6);
    let offset = b.and(fragment, 0x1fff);
    let later = b.ne(offset, 0);
    b.when(later, |b| s.refuse(b, FRAGMENT));
    let [src, dst] = [12, 16].map(|at| b.load(W32, Layer::Cursor, QUOTED + at));
    let own = if s.to == To::Graph { src } else { dst };
    let is = b.eq(own, u32::from(s.share.address()));
    b.unless(is, |b| s.refuse(b, WRONG_SOURCE));
    if s.to == To::Network {
        // Nobody else is told.
        let receiver = b.load(W32, Layer::Data, IP + 16);
        let sender = b.eq(receiver, src);
        b.unless(sender, |b| s.refuse(b, WRONG_SOURCE));
    }
    let protocol = b.load(W8, Layer::Cursor, QUOTED + 9);
    let inner = QUOTED + PLAIN;
    b.switch(protocol, &[proto::TCP.into(), proto::UDP.into(), proto::ICMP.into()], |b, case| match case {
        Some(2) => {
            // The echoes that went the other way: requests of the graph, or replies to it.
            let kind = b.load(W8, Layer::Cursor, inner);
            let echo = if s.to == To::Graph { ECHO_REQUEST } else { ECHO_REPLY };
            let is = b.eq(kind, echo);
            b.unless(is, |b| s.refuse(b, Reason::NO_MATCH));
            let id = b.load(W16, Layer::Cursor, inner + 4);
            s.by_port(b, proto::ICMP, id);
        }
        Some(tcp_or_udp) => {
            let port = b.load(W16, Layer::Cursor, inner + if s.to == To::Graph { 0 } else { 2 });
            s.by_port(b, [proto::TCP, proto::UDP][tcp_or_udp], port);
        }
        None => s.refuse(b, Reason::NO_MATCH),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome};
    use weir_net::build;
    use weir_net::share::{Wanted, wanted};

    const OWN: [u8; 4] = [10, 0, 0, 9];
    const HOST: [u8; 4] = [192, 0, 2, 1];

    fn harness(share: &str) -> Harness {
        Harness::new("SharedAddress", &[share], 2, 2)
    }

    fn share() -> PortShare {
        "10.0.0.9:20000-20015".parse().unwrap()
    }

    /// A frame from the share's Ethernet address.
    fn from_share(ip: &[u8]) -> Vec<u8> {
        build::ethernet(EtherAddr([2; 6]), share().mac(), ethertype::IPV4, ip)
    }

    fn outcome(h: &mut Harness, port: u32, frame: &[u8]) -> Result<(), String> {
        match &h.send(port, frame)[0] {
            Outcome::Out(out, p) => {
                assert_eq!((*out, p.bytes()), (port, frame), "it is not changed");
                Ok(())
            }
            Outcome::Drop(why) => Err(why.clone()),
        }
    }

    fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
        build::udp4((from.0.into(), from.1), (to.0.into(), to.1), b"text")[14..].to_vec()
    }

    fn icmp(kind: u8, from: [u8; 4], to: [u8; 4], id: u16, body: &[u8]) -> Vec<u8> {
        let [a, b] = id.to_be_bytes();
        build::ipv4(from.into(), to.into(), proto::ICMP, &[&[kind, 0, 0, 0, a, b, 0, 1], body].concat())
    }

    fn fragment(mut ip: Vec<u8>) -> Vec<u8> {
        ip[6] = 0x20;
        ip
    }

    #[test]
    fn what_is_sent_is_from_its_ports() {
        let mut h = harness("10.0.0.9:20000-20015");
        let (asked, asked_other) = (udp((HOST, 53), (OWN, 20_001)), udp((HOST, 53), (OWN, 20_016)));
        for (what, packet, end) in [
            ("its own port", udp((OWN, 20_015), (HOST, 53)), Ok(())),
            ("a neighbour's", udp((OWN, 20_016), (HOST, 53)), Err("WrongPort")),
            ("another address", udp((HOST, 20_015), (OWN, 53)), Err("WrongSource")),
            ("a fragment", fragment(udp((OWN, 20_015), (HOST, 53))), Err("Fragment")),
            ("an echo request", icmp(8, OWN, HOST, 20_000, b""), Ok(())),
            ("a neighbour's", icmp(8, OWN, HOST, 19_999, b""), Err("WrongPort")),
            ("an echo reply", icmp(0, OWN, HOST, 20_000, b""), Err("NoMatch")),
            ("a redirection", icmp(5, OWN, HOST, 0, &asked), Err("NoMatch")),
            ("an error about what came", icmp(3, OWN, HOST, 0, &asked), Ok(())),
            ("about what came to a neighbour", icmp(3, OWN, HOST, 0, &asked_other), Err("WrongPort")),
            ("to somebody else", icmp(3, OWN, [198, 51, 100, 1], 0, &asked), Err("WrongSource")),
            ("another protocol", build::ipv4(OWN.into(), HOST.into(), 47, &[0; 20]), Err("NoMatch")),
        ] {
            assert_eq!(outcome(&mut h, 1, &from_share(&packet)), end.map_err(str::to_owned), "{what}");
        }
        let mut options = udp((OWN, 20_000), (HOST, 53));
        options[0] = 0x46;
        assert_eq!(outcome(&mut h, 1, &from_share(&options)), Err("BadHeader".into()));
        let other = build::ethernet(
            EtherAddr([2; 6]),
            EtherAddr([2; 6]),
            ethertype::IPV4,
            &udp((OWN, 20_000), (HOST, 53)),
        );
        assert_eq!(outcome(&mut h, 1, &other), Err("WrongSource".into()));
        let tagged = build::ethernet(EtherAddr([2; 6]), share().mac(), ethertype::VLAN, &[0; 40]);
        assert_eq!(outcome(&mut h, 1, &tagged), Err("NoMatch".into()));
        let asks = |sender, operation| {
            let mut arp = build::arp(operation, (share().mac(), sender), (EtherAddr::default(), HOST.into()));
            arp[6..12].copy_from_slice(&share().mac().0);
            arp
        };
        assert_eq!(outcome(&mut h, 1, &asks(OWN.into(), 1)), Ok(()));
        assert_eq!(outcome(&mut h, 1, &asks(HOST.into(), 1)), Err("WrongSource".into()));
        assert_eq!(outcome(&mut h, 1, &asks(OWN.into(), 2)), Err("NoMatch".into()), "it answers for nobody");
        assert_eq!(h.read("refused"), "14");
    }

    #[test]
    fn what_comes_is_for_its_ports_as_the_switch_reads_it() {
        let sent = |port| udp((OWN, port), (HOST, 53));
        let packets = [
            udp((HOST, 53), (OWN, 20_000)),
            udp((HOST, 53), (OWN, 19_999)),
            udp((HOST, 20_000), (HOST, 20_000)),
            fragment(udp((HOST, 53), (OWN, 20_000))),
            icmp(0, HOST, OWN, 20_003, b""),
            icmp(0, HOST, OWN, 20_016, b""),
            icmp(8, HOST, OWN, 20_003, b""),
            icmp(11, HOST, OWN, 0, &sent(20_001)),
            icmp(11, HOST, OWN, 0, &sent(20_017)),
            icmp(5, HOST, OWN, 0, &sent(20_001)),
            icmp(3, HOST, OWN, 0, &icmp(8, OWN, HOST, 20_009, b"")),
            icmp(3, HOST, OWN, 0, &icmp(0, OWN, HOST, 20_009, b"")),
            icmp(3, HOST, OWN, 0, &fragment(sent(20_001))),
        ];
        let mut passed = 0;
        for protocols in ["", "/udp", "/tcp"] {
            let text = format!("10.0.0.9:20000-20015{protocols}");
            let (mut h, share) = (harness(&text), text.parse::<PortShare>().unwrap());
            for ip in &packets {
                let frame = build::ethernet(EtherAddr([2; 6]), EtherAddr([4; 6]), ethertype::IPV4, ip);
                let (first, last) = share.ports();
                let is = match wanted(&frame) {
                    Some((to, Wanted::Port(protocol, port))) => {
                        to == share.address()
                            && (first..=last).contains(&port)
                            && share.protocols().numbers().contains(&protocol)
                    }
                    _ => false,
                };
                assert_eq!(outcome(&mut h, 0, &frame).is_ok(), is, "{text}: {}", weir_net::describe(&frame));
                passed += u32::from(is);
            }
        }
        assert_eq!(passed, 5 + 3);
        let answer = |to| build::arp(2, (EtherAddr([4; 6]), HOST.into()), (to, OWN.into()));
        let mut h = harness("10.0.0.9:20000-20015");
        assert_eq!(outcome(&mut h, 0, &answer(share().mac())), Ok(()));
        assert!(outcome(&mut h, 0, &answer(EtherAddr([9; 6]))).is_err(), "a neighbour's");
    }
}

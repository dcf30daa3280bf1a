use super::address::Ipv6Prefix;
use super::neighbour::{
    ADVERTISEMENT, FRAME_LEN, MULTICAST_ETHER, Reply, SOLICITATION, TARGET_OPTION, message,
};
use crate::fields::{ETHER_SRC, ipv6};
use crate::prelude::*;
use crate::routes::Prefix;
use weir_packet::PacketType;

element! {
    /// Answers neighbour solicitations (RFC 4861 section 7.2.4), for the host's own addresses or, as a proxy, for whole
    /// networks.
    ///
    /// Packets start with an Ethernet header. If a solicitation asks for an address in one of the networks, it becomes
    /// the advertisement, which gives the network's Ethernet address and leaves on output 0, to the Ethernet address that
    /// the solicitation came from; of several networks the one with the longest prefix counts. One without a source
    /// address, by which a host finds out whether an address is taken (RFC 4862), is answered only for single addresses,
    /// to all hosts. Other packets leave on output 1, or are dropped: `Truncated`, `NotNeighbour` if they are no
    /// solicitation, `BadHeader` and `BadChecksum` if they are no valid one, `NoMatch` if the address is in none of the
    /// networks.
    IP6NDAdvertiser: "1/1-2", "a/ah";
    example "Idle -> IP6NDAdvertiser(fd00::1 02:00:00:00:00:01) -> Discard;";
    example "Idle -> a :: IP6NDAdvertiser(fd00::1/128 fd00:1::/64 02:00:00:00:00:01, ROUTER false) -> Discard; a [1] -> Discard;";
    params {
        /// IPv6 addresses or prefixes, and the Ethernet address that the advertisement gives for them.
        rest entries: Vec<Entries>,
        /// Whether advertisements say that they come from a router.
        key router: bool = true,
    }
}

/// Networks with one Ethernet address.
#[derive(Debug)]
pub struct Entries {
    networks: Vec<Ipv6Prefix>,
    eth: EtherAddr,
}

impl FromArg for Entries {
    const SYNTAX: &'static str = "IPv6 prefixes and an Ethernet address, separated by spaces";
    fn from_arg(text: &str) -> Result<Entries, String> {
        let (mut networks, mut eth) = (Vec::new(), None);
        for word in text.split_whitespace() {
            if let Ok(network) = Ipv6Prefix::from_arg(word) {
                networks.push(network);
            } else if let Ok(addr) = EtherAddr::from_arg(word) {
                if eth.replace(addr).is_some() {
                    return Err(format!("'{text}' has more than one Ethernet address"));
                }
            } else {
                return Err(format!("'{word}' is neither an IPv6 prefix nor an Ethernet address"));
            }
        }
        match eth {
            _ if networks.is_empty() => Err(format!("'{text}' has no IPv6 prefix; write PREFIX ETH")),
            None => Err(format!("'{text}' has no Ethernet address; write PREFIX ETH")),
            Some(eth) => Ok(Entries { networks, eth }),
        }
    }
}

/// Flags of an advertisement (RFC 4861 section 4.4): from a router, solicited, override.
const ROUTER: u32 = 0x8000_0000;
const SOLICITED: u32 = 0x4000_0000;
const OVERRIDE: u32 = 0x2000_0000;

/// Address of all hosts of the link.
const ALL_NODES: u128 = 0xff02_0000_0000_0000_0000_0000_0000_0001;

fn program(e: &IP6NDAdvertiser, b: &mut Builder) {
    let mut rows: Vec<Row> = Vec::new();
    for entry in &e.entries {
        for network in &entry.networks {
            let key = vec![network.key()];
            rows.retain(|r| r.key != key);
            let own = u128::from(network.len == 128);
            rows.push(Row { key, value: vec![entry.eth.bits(), own], priority: 0, ttl: None });
        }
    }
    let fields = [("eth", W64), ("own", W1)];
    let decl = TableDecl::new("networks", Kind::Lpm, &[("ip", W128)], &fields, rows.len().max(1) as u32);
    let networks = b.table(decl.configured(), rows);
    let refuse = |b: &mut Builder, reason| b.emit_or_drop(1, reason);
    b.input(0, |b| {
        let m = message(b, SOLICITATION, refuse);
        let entry = b.find(networks, &[m.target], |b| refuse(b, Reason::NO_MATCH));
        let eth = b.get(entry, "eth");
        let own = b.get(entry, "own");
        let asker = ipv6::SRC.load(b);
        let asker_eth = ETHER_SRC.load(b);
        let class = b.shr(asker, 120);
        let group = b.eq(class, 0xff);
        b.when(group, |b| refuse(b, Reason::BAD_HEADER));
        let nobody = b.eq(asker, 0);
        b.when(nobody, |b| b.unless(own, |b| refuse(b, Reason::NO_MATCH)));
        let all = b.constant(W128, ALL_NODES);
        let dst = b.select(nobody, all, asker);
        let all = b.constant(W64, MULTICAST_ETHER | 1);
        let to = b.select(nobody, all, asker_eth);
        // A proxy does not displace the host itself.
        let base = if e.router { ROUTER } else { 0 };
        let flags = b.constant(W32, base | OVERRIDE);
        let flags = b.select(own, flags, base);
        let solicited = b.or(flags, SOLICITED);
        let flags = b.select(nobody, flags, solicited);

        let full = b.constant(W32, FRAME_LEN);
        b.trim(full);
        let len = b.len();
        let more = b.sub(full, len);
        b.put(more);
        b.require(Layer::Data, FRAME_LEN, Reason::TRUNCATED);
        let reply = Reply { ether: [to, eth], kind: ADVERTISEMENT, flags, option: TARGET_OPTION };
        reply.write(b, [m.target, dst, m.target]);
        // The solicitation was sent to a group, the advertisement is not; and its checksum is complete.
        let host = b.constant(W8, PacketType::Host as u8);
        b.store_meta(MetaField::PacketType, host);
        let complete = b.constant(W8, weir_packet::Checksum::Unknown as u8);
        b.store_meta(MetaField::Checksum, complete);
        becomes(b, Provenance::Answer);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::super::neighbour::samples::frame;
    use super::super::samples::addr;
    use super::*;
    use crate::testing::Harness;

    const OWN: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
    const ASKER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);
    const GROUP: EtherAddr = EtherAddr([0x33, 0x33, 0xff, 0, 0, 1]);
    const ARGS: [&str; 1] = ["2001:db8::1 2001:db8:1::/64 02:00:00:00:00:01"];

    fn solicitation(src: Ipv6Addr, target: Ipv6Addr, option: u8) -> Vec<u8> {
        let dst = "ff02::1:ff00:1".parse().unwrap();
        frame((ASKER, GROUP), (src, dst), (135, 0), target, (option, ASKER))
    }

    fn advertisement(to: (EtherAddr, Ipv6Addr), flags: u8, target: Ipv6Addr) -> Vec<u8> {
        frame((OWN, to.0), (target, to.1), (136, flags), target, (2, OWN))
    }

    #[test]
    fn a_solicitation_becomes_the_advertisement() {
        let proxied = "2001:db8:1::7".parse().unwrap();
        let mut e = Harness::new("IP6NDAdvertiser", &ARGS, 1, 2);
        for option in [0, 1] {
            for padding in [0, 20] {
                for (target, flags) in [(addr(1), 0xe0), (proxied, 0xc0)] {
                    let mut p = solicitation(addr(9), target, option);
                    p.extend(vec![0; padding]);
                    let want = advertisement((ASKER, addr(9)), flags, target);
                    assert_eq!(e.send(0, &p)[0].out(), (0, &want[..]));
                }
            }
        }
        let mut host = Harness::new("IP6NDAdvertiser", &[ARGS[0], "ROUTER false"], 1, 1);
        let out = host.send(0, &solicitation(addr(9), addr(1), 1));
        assert_eq!(out[0].out().1[58], 0x60);
        assert_eq!(out[0].provenance(), Provenance::Answer);
    }

    #[test]
    fn who_asks_whether_an_address_is_taken_is_answered_for_the_hosts_own() {
        let mut e = Harness::new("IP6NDAdvertiser", &ARGS, 1, 1);
        let out = e.send(0, &solicitation(Ipv6Addr::UNSPECIFIED, addr(1), 0));
        let all = (EtherAddr([0x33, 0x33, 0, 0, 0, 1]), "ff02::1".parse().unwrap());
        assert_eq!(out[0].out().1, advertisement(all, 0xa0, addr(1)));
        let out = e.send(0, &solicitation(Ipv6Addr::UNSPECIFIED, "2001:db8:1::7".parse().unwrap(), 0));
        assert_eq!(out[0].reason(), "NoMatch");
    }

    #[test]
    fn what_it_does_not_answer_is_left_unchanged() {
        let change = |at: usize, to: u8| {
            let mut p = solicitation(addr(9), addr(1), 1);
            p[at] = to;
            p
        };
        let mut cases = vec![
            (solicitation(addr(9), addr(7), 1), "NoMatch"),
            (solicitation(addr(9), "ff02::1".parse().unwrap(), 1), "BadHeader"),
            (solicitation("ff02::9".parse().unwrap(), addr(1), 1), "BadHeader"),
            (advertisement((ASKER, addr(9)), 0, addr(1)), "NotNeighbour"),
            (change(13, 0), "NotNeighbour"),
            (change(14, 0x40), "NotNeighbour"),
            (change(20, 17), "NotNeighbour"),
            (change(21, 254), "BadHeader"),
            (change(19, 23), "BadHeader"),
            (change(19, 33), "Truncated"),
            (change(56, 0), "BadChecksum"),
        ];
        let whole = solicitation(addr(9), addr(1), 1);
        cases.extend((0..whole.len()).map(|n| (whole[..n].to_vec(), "Truncated")));
        for (p, reason) in cases {
            assert_eq!(Harness::new("IP6NDAdvertiser", &ARGS, 1, 2).send(0, &p)[0].out(), (1, &p[..]));
            assert_eq!(Harness::new("IP6NDAdvertiser", &ARGS, 1, 1).send(0, &p)[0].reason(), reason);
        }
    }

    #[test]
    fn entries_have_prefixes_and_one_ethernet_address() {
        let class = crate::class_named("IP6NDAdvertiser").unwrap();
        let error = |arg: &str| class.configure(&[arg.to_owned()]).err().unwrap().join("\n");
        assert!(error("::1 1:2:3:4:5:6 1:2:3:4:5:7").contains("more than one Ethernet address"));
        assert!(error("::1").contains("no Ethernet address"));
        assert!(error("1:2:3:4:5:6").contains("no IPv6 prefix"));
        assert!(error("10.0.0.1 1:2:3:4:5:6").contains("'10.0.0.1' is neither"));
    }
}

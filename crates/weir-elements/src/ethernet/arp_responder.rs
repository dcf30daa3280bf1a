use crate::fields::{ARP_SENDER, ARP_TARGET, ETHER_DST, ETHER_SRC, arp, ether};
use crate::prelude::*;
use weir_packet::PacketType;
use weir_table::EntryRef;

element! {
    /// Answers ARP requests (RFC 826), for the host's own addresses or, as a proxy, for whole networks.
    ///
    /// Packets start with an Ethernet header. If a request asks for an address in one of the networks, it becomes the
    /// reply, which gives the network's Ethernet address and leaves on output 0; of several networks the one with the
    /// longest prefix counts. Other packets leave on output 1, or are dropped: `Truncated` if they are too short for
    /// an ARP packet, `NotRequest` if they are something else, `NoMatch` if the address is in none of the networks.
    ARPResponder: "1/1-2", "a/ah";
    example "Idle -> ARPResponder(10.0.0.1 02:00:00:00:00:01) -> Discard;";
    example "Idle -> r :: ARPResponder(10.0.0.1 10.1.0.0/16 02:00:00:00:00:01, 10.2.0.0/255.255.0.0 02:00:00:00:00:02) -> Discard; r [1] -> Discard;";
    params {
        /// IP addresses or prefixes, and the Ethernet address that the reply gives for them.
        rest entries: Vec<ArpEntries>,
    }
    handlers {
        /// One line a network: IP prefix and Ethernet address; longer prefixes come first.
        read table = |_, s| Ok(table(s)),
        /// Ethernet address for an IP address, or nothing: `lookup ADDRESS`.
        query lookup = |_, s| lookup(s),
        /// Adds networks: `IP/MASK [IP/MASK...] ETH`. A network that is there already gets the new Ethernet address.
        write add = |_, s, v| add(s, v),
        /// Puts other networks in the place of all, as the arguments would. Of one that is given twice, the later counts.
        write config = |_, s, v| configure(s, v),
        /// Removes the network `IP/MASK`.
        write remove = |_, s, v| remove(s, v),
    }
}

/// Networks with one Ethernet address.
#[derive(Debug)]
pub struct ArpEntries {
    networks: Vec<Ipv4Prefix>,
    eth: EtherAddr,
}

impl FromArg for ArpEntries {
    const SYNTAX: &'static str = "IP prefixes and an Ethernet address, separated by spaces";
    fn from_arg(text: &str) -> Result<ArpEntries, String> {
        let (mut networks, mut eth) = (Vec::new(), None);
        for word in text.split_whitespace() {
            if let Ok(network) = Ipv4Prefix::from_arg(word) {
                networks.push(network);
            } else if let Ok(addr) = EtherAddr::from_arg(word) {
                if eth.replace(addr).is_some() {
                    return Err(format!("'{text}' has more than one Ethernet address"));
                }
            } else {
                return Err(format!(
                    "'{word}' is neither an IP prefix nor an Ethernet address; write IP/MASK ETH"
                ));
            }
        }
        // A name may stand for both.
        let eth = eth.or_else(|| text.split_whitespace().find_map(|word| EtherAddr::from_arg(word).ok()));
        match eth {
            _ if networks.is_empty() => Err(format!("'{text}' has no IP prefix; write IP/MASK ETH")),
            None => Err(format!("'{text}' has no Ethernet address; write IP/MASK ETH")),
            Some(eth) => Ok(ArpEntries { networks, eth }),
        }
    }
}

impl ArpEntries {
    fn rows(&self) -> impl Iterator<Item = Row> {
        self.networks.iter().map(|&network| Row {
            key: vec![key(network)],
            value: vec![self.eth.bits()],
            priority: 0,
            ttl: None,
        })
    }
}

fn key(network: Ipv4Prefix) -> KeyMatch {
    KeyMatch::Prefix(network.addr().bits(), network.len().into())
}

/// Networks that handlers may add beyond those of the configuration.
const SPARE: u32 = 4096;
/// Length of an Ethernet header and an ARP packet for IPv4.
const FRAME_LEN: u32 = 42;
/// First 8 bytes of an ARP request for IPv4 over Ethernet.
const REQUEST: u64 = 0x0001_0800_0604_0001;

fn program(e: &ARPResponder, b: &mut Builder) {
    let mut rows: Vec<Row> = Vec::new();
    for row in e.entries.iter().flat_map(ArpEntries::rows) {
        rows.retain(|r| r.key != row.key);
        rows.push(row);
    }
    let capacity = SPARE + rows.len() as u32;
    let decl = TableDecl::new("networks", Kind::Lpm, &[("ip", W32)], &[("eth", W64)], capacity);
    let networks = b.table(decl.configured(), rows);
    b.input(0, |b| {
        b.require_or(Layer::Data, FRAME_LEN, |b| b.emit_or_drop(1, Reason::TRUNCATED));
        let kind = ether::TYPE.load(b);
        let other = b.ne(kind, ethertype::ARP);
        b.when(other, |b| b.emit_or_drop(1, Reason::new("NotRequest")));
        let start = arp::START.load(b);
        let other = b.ne(start, REQUEST);
        b.when(other, |b| b.emit_or_drop(1, Reason::new("NotRequest")));
        let wanted = arp::TARGET_IP.load(b);
        let entry = b.find(networks, &[wanted], |b| b.emit_or_drop(1, Reason::NO_MATCH));
        let eth = b.get(entry, "eth");

        // The sender becomes the target of the reply.
        let asker = ARP_SENDER.load(b);
        let asker_ip = arp::SENDER_IP.load(b);
        ETHER_DST.store(b, asker);
        ETHER_SRC.store(b, eth);
        arp::OPERATION.store_const(b, 2_u16);
        ARP_SENDER.store(b, eth);
        arp::SENDER_IP.store(b, wanted);
        ARP_TARGET.store(b, asker);
        arp::TARGET_IP.store(b, asker_ip);

        // The request's padding goes, and so does what was known of it: it was a broadcast, the reply is not, and when
        // the request came says nothing of the reply.
        b.set_mark(Layer::Mac, Layer::Data, 0);
        b.clear_mark(Layer::Net);
        b.clear_mark(Layer::Transport);
        let host = b.constant(W8, PacketType::Host as u8);
        b.store_meta(MetaField::PacketType, host);
        let never = b.constant(W64, 0_u64);
        b.store_meta(MetaField::Timestamp, never);
        let len = b.constant(W32, FRAME_LEN);
        b.trim(len);
        becomes(b, Provenance::Answer);
        b.emit(0);
    });
}

fn lookup(state: &State<'_>) -> Result<String, String> {
    let addr = Ipv4Addr::from_arg(state.param).map_err(|e| format!("{e}: write lookup ADDRESS"))?;
    let table = state.table("networks");
    Ok(table.lookup(&[addr.bits()]).map_or(String::new(), |slot| hyphenated(table.get(slot, 0))))
}

fn table(state: &State<'_>) -> String {
    let mut out = String::new();
    let mut rows = state.table("networks").rows();
    rows.sort_by_key(|(_, row)| match row.key.first() {
        Some(KeyMatch::Prefix(addr, len)) => (std::cmp::Reverse(*len), *addr),
        _ => (std::cmp::Reverse(0), 0),
    });
    for (_, row) in rows {
        if let ([KeyMatch::Prefix(addr, len)], [eth]) = (&row.key[..], &row.value[..]) {
            out += &format!("{}/{len} {}\n", Ipv4Addr::show(*addr), hyphenated(*eth));
        }
    }
    out
}

fn add(state: &mut State<'_>, text: &str) -> Result<(), String> {
    let now = state.now;
    for row in ArpEntries::from_arg(text)?.rows() {
        state.table_mut("networks").insert_row(&row, now).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn configure(state: &mut State<'_>, text: &str) -> Result<(), String> {
    let args = text.split(',').map(str::trim).filter(|arg| !arg.is_empty());
    let entries = args.map(ArpEntries::from_arg).collect::<Result<Vec<_>, _>>()?;
    let (now, table) = (state.now, state.id("networks").0);
    state.set_mut().clear(table);
    for row in entries.iter().flat_map(ArpEntries::rows) {
        if state.table("networks").find_row(&row.key, 0).is_some()
            && let Some(KeyMatch::Prefix(addr, len)) = row.key.first()
        {
            state.warn(format!("multiple entries for {}/{len}", Ipv4Addr::show(*addr)));
        }
        state.table_mut("networks").insert_row(&row, now).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn remove(state: &mut State<'_>, text: &str) -> Result<(), String> {
    let network = Ipv4Prefix::from_arg(text)?;
    let table = state.id("networks").0;
    match state.table("networks").find_row(&[key(network)], 0) {
        Some(slot) => {
            state.set_mut().remove(EntryRef { table, slot });
            Ok(())
        }
        None => Err(format!("{network} is not in the table")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome};
    use weir_net::build::arp;

    const ASKER: (EtherAddr, Ipv4Addr) = (EtherAddr([2, 0, 0, 0, 0, 9]), Ipv4Addr::new(10, 0, 0, 9));
    const ARGS: [&str; 2] =
        ["10.0.0.1 10.1.0.0/16 02:00:00:00:00:01", "02:00:00:00:00:02 10.1.2.0/255.255.255.0"];

    fn request(ip: [u8; 4]) -> Vec<u8> {
        arp(1, ASKER, (EtherAddr([0; 6]), ip.into()))
    }

    fn reply(ip: [u8; 4], eth: u8) -> Vec<u8> {
        arp(2, (EtherAddr([2, 0, 0, 0, 0, eth]), ip.into()), ASKER)
    }

    #[test]
    fn requests_become_replies_with_the_most_special_address() {
        let mut e = Harness::new("ARPResponder", &ARGS, 1, 2);
        for (ip, eth) in [([10, 0, 0, 1], 1), ([10, 1, 9, 9], 1), ([10, 1, 2, 9], 2)] {
            let mut padded = request(ip);
            padded.extend([0; 18]);
            let mut p = Packet::from_bytes(&padded).unwrap();
            p.packet_type = PacketType::Broadcast as u8;
            let out = e.send_packet(0, p);
            assert_eq!(out[0].out(), (0, &reply(ip, eth)[..]));
            assert_eq!(out[0].provenance(), Provenance::Answer);
            let Outcome::Out(_, p) = &out[0] else { unreachable!() };
            assert_eq!((p.packet_type, p.from_layer(Layer::Mac).len()), (PacketType::Host as u8, 42));
        }
    }

    #[test]
    fn what_it_does_not_answer_is_left_unchanged() {
        let change = |at: usize, to: u8| {
            let mut p = request([10, 0, 0, 1]);
            p[at] = to;
            p
        };
        for (frame, reason) in [
            (request([10, 0, 0, 2]), "NoMatch"),
            (request([10, 0, 0, 1])[..41].to_vec(), "Truncated"),
            (reply([10, 0, 0, 1], 1), "NotRequest"),
            (change(13, 0), "NotRequest"),
            (change(15, 6), "NotRequest"),
            (change(18, 8), "NotRequest"),
            (vec![], "Truncated"),
        ] {
            assert_eq!(Harness::new("ARPResponder", &ARGS, 1, 2).send(0, &frame)[0].out(), (1, &frame[..]));
            assert_eq!(Harness::new("ARPResponder", &ARGS, 1, 1).send(0, &frame)[0].reason(), reason);
        }
    }

    #[test]
    fn the_table_can_be_read_and_changed() {
        let mut e = Harness::new("ARPResponder", &ARGS, 1, 1);
        e.write("add", "10.3.0.0/16 10.1.0.0/16 02:00:00:00:00:03").unwrap();
        e.write("remove", "10.1.2.0/24").unwrap();
        assert_eq!(
            e.read("table"),
            "10.0.0.1/32 02-00-00-00-00-01\n10.1.0.0/16 02-00-00-00-00-03\n10.3.0.0/16 02-00-00-00-00-03\n"
        );
        assert_eq!(e.send(0, &request([10, 1, 2, 3]))[0].out().1, reply([10, 1, 2, 3], 3));
        e.write(
            "config",
            "10.9.0.1 02:00:00:00:00:08, 02:00:00:00:00:09 10.9.0.1, 10.8.0.0/16 02:00:00:00:00:0a",
        )
        .unwrap();
        assert_eq!(e.read("table"), "10.9.0.1/32 02-00-00-00-00-09\n10.8.0.0/16 02-00-00-00-00-0A\n");
        assert!(e.write("config", "10.9.0.1").unwrap_err().contains("has no Ethernet address"));
        assert_eq!(e.read("table").lines().count(), 2, "a configuration that is wrong changes nothing");
        e.write("config", "").unwrap();
        assert_eq!(e.read("table"), "");
        assert!(e.write("remove", "10.1.2.0/24").unwrap_err().contains("10.1.2.0/24 is not in the table"));
        assert!(e.write("add", "10.1.2.0/24").unwrap_err().contains("no Ethernet address"));
    }

    #[test]
    fn entries_have_prefixes_and_one_ethernet_address() {
        let class = crate::class_named("ARPResponder").unwrap();
        let error = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            class.configure(&args).err().unwrap().join("\n")
        };
        assert!(error(&["1.2.3.4 1:2:3:4:5:6 1:2:3:4:5:7"]).contains("more than one Ethernet address"));
        assert!(
            error(&["1.2.3.4 1:2:3:4:5:6", "1.2.3.4"])
                .contains("argument 2: '1.2.3.4' has no Ethernet address")
        );
        assert!(error(&["1:2:3:4:5:6"]).contains("no IP prefix"));
        assert!(error(&["1.2.3.4/33 1:2:3:4:5:6"]).contains("'1.2.3.4/33' is neither"));
        assert!(class.configure(&[]).is_ok(), "entries may all come by the add handler");
    }
}

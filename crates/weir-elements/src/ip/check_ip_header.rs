use crate::prelude::*;

element! {
    /// Checks that packets have a valid IPv4 header, and marks it (RFC 1812 section 5.2.2).
    ///
    /// A valid header starts `OFFSET` bytes into the packet, has version 4, a sensible length and checksum, and a
    /// source address that is not in `BADSRC`. The marks `net` and `transport` and the destination annotation are
    /// set, and the packet is cut to the length that its header gives. Others leave on output 1, or are dropped.
    CheckIPHeader: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader(14, BADSRC 10.255.255.255) -> Discard;";
    params {
        /// Where the header starts, in bytes.
        pos offset: u32 = 0,
        /// Source addresses that are refused.
        key badsrc: AddressList = AddressList(vec![0, u32::MAX]) => "0.0.0.0 255.255.255.255",
        /// Addresses that packets may come to even if their source is in BADSRC.
        key gooddst: AddressList = AddressList(vec![]),
        /// Addresses and prefixes of the router's interfaces: their network and broadcast addresses join BADSRC.
        key interfaces: InterfaceList = InterfaceList(vec![]),
        /// Whether the checksum is checked.
        key checksum: bool = true,
        /// Kept for Click configurations: drop reasons are always counted in detail.
        key details: bool = false,
        /// Kept for Click configurations: drop reasons are always shown.
        key verbose: bool = false,
    }
    handlers {
        /// Number of packets that were refused.
        count drops,
    }
}

/// Space-separated addresses.
#[derive(Debug)]
pub struct AddressList(pub(crate) Vec<u32>);

impl FromArg for AddressList {
    const SYNTAX: &'static str = "space-separated IP addresses";
    fn from_arg(text: &str) -> Result<AddressList, String> {
        text.split_whitespace()
            .map(|w| Ipv4Addr::from_arg(w).map(u32::from))
            .collect::<Result<_, _>>()
            .map(AddressList)
    }
}

/// Space-separated interface addresses with prefix length.
#[derive(Debug)]
pub struct InterfaceList(pub(crate) Vec<Interface>);

/// An interface's address and its network.
#[derive(Debug)]
pub struct Interface {
    addr: u32,
    network: u32,
    broadcast: u32,
}

impl FromArg for InterfaceList {
    const SYNTAX: &'static str = "space-separated IP addresses with prefix length";
    fn from_arg(text: &str) -> Result<InterfaceList, String> {
        let one = |word: &str| {
            let (addr, len) = word.split_once('/').unwrap_or((word, "32"));
            let addr: u32 = Ipv4Addr::from_arg(addr)?.into();
            let len: u32 = u32::from_arg(len)?;
            let mask = u32::MAX.checked_shl(32 - len.min(32)).unwrap_or(0);
            if len > 32 {
                Err(format!("'{word}' has a prefix longer than 32 bits"))
            } else {
                Ok(Interface { addr, network: addr & mask, broadcast: addr | !mask })
            }
        };
        text.split_whitespace().map(one).collect::<Result<_, _>>().map(InterfaceList)
    }
}

fn program(e: &CheckIPHeader, b: &mut Builder) {
    let mut bad = e.badsrc.0.clone();
    let mut good = e.gooddst.0.clone();
    for i in &e.interfaces.0 {
        bad.extend([i.network, i.broadcast].into_iter().filter(|a| *a != i.addr));
        good.push(i.addr);
    }
    check_ip(b, e.offset, e.checksum, &bad, &good);
}

/// The program of `CheckIPHeader` and its relatives.
pub(crate) fn check_ip(
    b: &mut Builder,
    offset: u32,
    checksum: bool,
    bad_sources: &[u32],
    good_destinations: &[u32],
) {
    let drops = b.cell("drops", W64, 0);
    let refuse = move |reason: Reason| {
        move |b: &mut Builder| {
            count(b, drops);
            b.emit_or_drop(1, reason);
        }
    };
    b.input(0, |b| {
        b.require_or(Layer::Data, offset + 20, refuse(Reason::TRUNCATED));
        b.set_mark(Layer::Net, Layer::Data, offset);
        let first = b.load(W8, Layer::Net, 0);
        let version = b.shr(first, 4);
        let wrong = b.ne(version, 4);
        b.when(wrong, refuse(Reason::new("BadVersion")));
        let header_len = ip_header_len(b);
        let short = b.lt(header_len, 20);
        b.when(short, refuse(Reason::BAD_HEADER));
        let len = b.load(W16, Layer::Net, 2);
        let len = b.resize(W32, len);
        let short = b.lt(len, header_len);
        b.when(short, refuse(Reason::new("BadLength")));
        b.require_or(Layer::Net, header_len, refuse(Reason::TRUNCATED));
        b.require_or(Layer::Net, len, refuse(Reason::TRUNCATED));
        if checksum {
            let sum = b.checksum(Layer::Net, 0, header_len);
            let wrong = b.ne(sum, 0xffff);
            b.when(wrong, refuse(Reason::BAD_CHECKSUM));
        }
        let dst = b.load(W32, Layer::Net, 16);
        if !bad_sources.is_empty() {
            let src = b.load(W32, Layer::Net, 12);
            let cases: Vec<u128> = bad_sources.iter().map(|&a| a.into()).collect();
            let good: Vec<u128> = good_destinations.iter().map(|&a| a.into()).collect();
            b.switch(src, &cases, |b, case| {
                if case.is_none() {
                    return;
                }
                if good.is_empty() {
                    refuse(Reason::new("BadSource"))(b);
                } else {
                    b.switch(dst, &good, |b, case| {
                        if case.is_none() {
                            refuse(Reason::new("BadSource"))(b);
                        }
                    });
                }
            });
        }
        b.set_mark(Layer::Transport, Layer::Net, header_len);
        b.store_anno(anno::DST_IP, dst);
        let total = b.add(len, offset);
        b.trim(total);
        // Cutting made the packet as long as its header says, so the header is still there: say so for what follows.
        b.require(Layer::Net, 20, Reason::TRUNCATED);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, Outcome, udp};
    use weir_net::Ipv4;

    fn packet() -> Vec<u8> {
        udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"payload")
    }

    #[test]
    fn a_good_packet_is_marked_and_cut_to_its_length() {
        let mut frame = vec![0; 14];
        frame.extend(packet());
        frame.extend([0; 6]);
        let out = Harness::new("CheckIPHeader", &["14"], 1, 2).send(0, &frame);
        let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
        assert_eq!(p.len(), 14 + packet().len());
        assert_eq!(p.from_layer(Layer::Net), packet());
        assert_eq!(p.from_layer(Layer::Transport), &packet()[20..]);
        assert_eq!(p.anno[..4], [10, 0, 1, 1]);
    }

    #[test]
    fn each_fault_has_its_own_reason() {
        let with = |change: fn(&mut Vec<u8>)| {
            let mut p = packet();
            change(&mut p);
            if p[10] != 0xee
                && let Ok(mut ip) = Ipv4::new(&mut p[..])
            {
                ip.fill_checksum();
            }
            Harness::new("CheckIPHeader", &["BADSRC 1.2.3.4"], 1, 1).send(0, &p)[0].reason().to_owned()
        };
        assert_eq!(with(|p| p.truncate(19)), "Truncated");
        assert_eq!(with(|p| p[0] = 0x65), "BadVersion");
        assert_eq!(with(|p| p[0] = 0x44), "BadHeader");
        assert_eq!(with(|p| p[3] = 19), "BadLength");
        assert_eq!(with(|p| p[3] = 200), "Truncated");
        assert_eq!(with(|p| p[10] = 0xee), "BadChecksum");
        assert_eq!(with(|p| p[12..16].copy_from_slice(&[1, 2, 3, 4])), "BadSource");
    }

    #[test]
    fn every_prefix_of_a_packet_ends_somewhere() {
        for n in 0..packet().len() {
            let out = Harness::new("CheckIPHeader", &[], 1, 2).send(0, &packet()[..n]);
            assert_eq!(out[0].out(), (1, &packet()[..n]), "cut packets leave on output 1 as they came");
        }
    }

    #[test]
    fn interface_networks_join_the_bad_sources() {
        let mut p = packet();
        p[12..16].copy_from_slice(&[10, 9, 255, 255]);
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        let args = ["INTERFACES 10.9.0.1/16"];
        assert_eq!(Harness::new("CheckIPHeader", &args, 1, 1).send(0, &p)[0].reason(), "BadSource");
    }
}

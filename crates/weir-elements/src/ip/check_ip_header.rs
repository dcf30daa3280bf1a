use super::checks::{check_offset, refuse};
use crate::fields::ipv4;
use crate::prelude::*;

element! {
    /// Checks that packets have a valid IPv4 header, and marks it (RFC 1812 section 5.2.2).
    ///
    /// A valid header starts `OFFSET` bytes into the packet, has version 4, a sensible length and checksum, and a
    /// source address that is not in `BADSRC`. The marks `net` and `transport` and the destination annotation are
    /// set, and the packet is cut to the length that its header gives. Others leave on output 1, or are dropped:
    /// `Truncated`, `BadVersion`, `BadHeader`, `BadLength`, `BadChecksum`, `BadSource`.
    CheckIPHeader: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader(14, BADSRC 10.255.255.255) -> Discard;";
    params {
        /// Where the header starts, in bytes.
        pos offset: u32 = 0,
        /// Source addresses that are refused.
        key badsrc: AddressList = AddressList(vec![]),
        /// Addresses that packets may come to even if their source is in BADSRC.
        key gooddst: AddressList = AddressList(vec![]),
        /// Addresses of the router's interfaces with prefix length. Their broadcast addresses, 0.0.0.0 and
        /// 255.255.255.255 join BADSRC, the addresses themselves GOODDST.
        key interfaces: InterfaceList = InterfaceList(vec![]),
        /// Whether the checksum is checked.
        key checksum: bool = true,
        /// Kept for Click configurations: drop reasons are always counted in detail.
        key details: bool = false,
        /// Kept for Click configurations: drop reasons are always shown.
        key verbose: bool = false,
    }
    check |e| check_offset(e.offset);
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

/// An interface's address and its network's broadcast address.
#[derive(Debug)]
pub struct Interface {
    addr: u32,
    broadcast: u32,
}

impl FromArg for InterfaceList {
    const SYNTAX: &'static str = "space-separated IP addresses with prefix length";
    fn from_arg(text: &str) -> Result<InterfaceList, String> {
        let one = |word: &str| {
            let network = Ipv4Prefix::from_arg(word)?;
            let addr = word.split_once('/').map_or(word, |(addr, _)| addr);
            Ok(Interface { addr: Ipv4Addr::from_arg(addr)?.into(), broadcast: network.last().into() })
        };
        text.split_whitespace().map(one).collect::<Result<_, String>>().map(InterfaceList)
    }
}

/// Bad sources and good destinations, from the parameters.
pub(super) fn lists(
    badsrc: &AddressList,
    gooddst: &AddressList,
    interfaces: &InterfaceList,
) -> (Vec<u32>, Vec<u32>) {
    let (mut bad, mut good) = (badsrc.0.clone(), gooddst.0.clone());
    for i in &interfaces.0 {
        // An interface that is alone in its network (/32) has no broadcast address.
        bad.extend([i.broadcast, 0, u32::MAX].into_iter().filter(|a| *a != i.addr));
        good.push(i.addr);
    }
    for list in [&mut bad, &mut good] {
        list.sort_unstable();
        list.dedup();
    }
    (bad, good)
}

fn program(e: &CheckIPHeader, b: &mut Builder) {
    let (bad, good) = lists(&e.badsrc, &e.gooddst, &e.interfaces);
    check_ip(b, e.offset, e.checksum, &bad, &good);
}

/// More bad sources than this are looked up in a table.
const MOST_COMPARED: usize = 16;

/// The program of `CheckIPHeader` and `CheckIPHeader2`.
pub(super) fn check_ip(
    b: &mut Builder,
    offset: u32,
    checksum: bool,
    bad_sources: &[u32],
    good_destinations: &[u32],
) {
    let drops = b.cell("drops", W64, 0);
    let bad = bad_source_table(b, bad_sources);
    b.input(0, |b| {
        check(b, offset, checksum, Sources { bad_sources, good_destinations, bad }, drops);
        b.emit(0);
    });
}

/// Bad sources, with a table if there are many, and destinations that are good all the same.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) bad_sources: &'a [u32],
    pub(super) good_destinations: &'a [u32],
    pub(super) bad: Option<TableId>,
}

/// A table of the bad sources, if they are too many to compare with each.
pub(super) fn bad_source_table(b: &mut Builder, bad_sources: &[u32]) -> Option<TableId> {
    (bad_sources.len() > MOST_COMPARED).then(|| {
        let rows = bad_sources.iter().map(|&a| Row::exact(&[a.into()], &[])).collect();
        let decl =
            TableDecl::new("bad_sources", Kind::Exact, &[("addr", W32)], &[], bad_sources.len() as u32);
        b.table(decl.configured(), rows)
    })
}

/// Goes on with a packet that has a valid header, marked.
pub(super) fn check(b: &mut Builder, offset: u32, checksum: bool, sources: Sources<'_>, drops: TableId) {
    let Sources { bad_sources, good_destinations, bad } = sources;
    let refuse = move |reason| refuse(drops, reason);
    b.require_or(Layer::Data, offset + 20, refuse(Reason::TRUNCATED));
    b.set_mark(Layer::Net, Layer::Data, offset);
    let first = ipv4::VERSION_IHL.load(b);
    let len = ipv4::LENGTH.load(b);
    let len = b.resize(W32, len);
    let rest = b.rest(Layer::Net);
    // Nearly all headers have no options: what is checked of these is constant.
    let plain = b.eq(first, 0x45);
    let cut = |b: &mut Builder| {
        let padded = b.ne(rest, len);
        b.when(padded, |b| {
            let total = b.add(len, offset);
            b.trim(total);
            // The packet is as long as its header says, so the header is still there: say so for what follows.
            b.require(Layer::Net, 20, Reason::TRUNCATED);
        });
    };
    // What is refused keeps its length. Where nothing is refused after this, the length is compared but once.
    let cuts_at_once = bad_sources.is_empty();
    b.if_else(
        plain,
        |b| {
            let short = b.lt(len, 20);
            b.when(short, refuse(Reason::new("BadLength")));
            let beyond = b.lt(rest, len);
            b.when(beyond, refuse(Reason::TRUNCATED));
            if checksum {
                let sum = b.checksum(Layer::Net, 0, 20);
                let wrong = b.ne(sum, 0xffff);
                b.when(wrong, refuse(Reason::BAD_CHECKSUM));
            }
            b.set_mark(Layer::Transport, Layer::Net, 20);
            if cuts_at_once {
                cut(b);
            }
        },
        |b| {
            let version = b.shr(first, 4);
            let wrong = b.ne(version, 4);
            b.when(wrong, refuse(Reason::new("BadVersion")));
            let header_len = ip_header_len(b);
            let short = b.lt(header_len, 20);
            b.when(short, refuse(Reason::BAD_HEADER));
            let short = b.lt(len, header_len);
            b.when(short, refuse(Reason::new("BadLength")));
            let beyond = b.lt(rest, len);
            b.when(beyond, refuse(Reason::TRUNCATED));
            b.require_or(Layer::Net, header_len, refuse(Reason::TRUNCATED));
            if checksum {
                let sum = b.checksum(Layer::Net, 0, header_len);
                let wrong = b.ne(sum, 0xffff);
                b.when(wrong, refuse(Reason::BAD_CHECKSUM));
            }
            b.set_mark(Layer::Transport, Layer::Net, header_len);
            if cuts_at_once {
                cut(b);
            }
        },
    );
    let dst = ipv4::DST.load(b);
    if !bad_sources.is_empty() {
        let src = ipv4::SRC.load(b);
        let found = |b: &mut Builder| {
            let good: Vec<u128> = good_destinations.iter().map(|&a| a.into()).collect();
            b.switch(dst, &good, |b, case| {
                if case.is_none() {
                    refuse(Reason::new("BadSource"))(b);
                }
            });
        };
        if let Some(bad) = bad {
            b.lookup(bad, &[src], |b, _| found(b), |_| {});
        } else {
            let cases: Vec<u128> = bad_sources.iter().map(|&a| a.into()).collect();
            if let Some(is_bad) = any_of(b, src, &cases) {
                b.when(is_bad, found);
            }
        }
    }
    b.store_anno(anno::DST_IP, dst);
    if !cuts_at_once {
        cut(b);
    }
}

/// Whether a value is one of some (1 bit), without a branch: sources are hard to predict.
fn any_of(b: &mut Builder, v: V, of: &[u128]) -> Option<V> {
    let equal: Vec<V> = under_masks(of)
        .into_iter()
        .map(|(value, without)| {
            let bits = if without == 0 { v } else { b.and(v, u128::from(u32::MAX) & !without) };
            b.eq(bits, value)
        })
        .collect();
    equal.into_iter().reduce(|any, one| b.or(any, one))
}

/// Some different values as fewer, each without bits that do not matter: two that differ in one bit are one. So are the
/// broadcast addresses of networks side by side.
fn under_masks(values: &[u128]) -> Vec<(u128, u128)> {
    let mut all: Vec<(u128, u128)> = values.iter().map(|&v| (v, 0)).collect();
    let mut i = 0;
    while i < all.len() {
        let (value, without) = all[i];
        let is_next = |&(v, w): &(u128, u128)| w == without && (v ^ value).is_power_of_two();
        match all.iter().position(is_next) {
            Some(j) => {
                let (other, _) = all[j];
                all[i] = (value & other, without | (value ^ other));
                all.remove(j);
                i = 0;
            }
            None => i += 1,
        }
    }
    all
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
    fn values_under_masks_are_the_same_values() {
        let broadcast = |n: u128| 0x0afe_00ff | n << 8;
        let values = [0, broadcast(0), broadcast(1), broadcast(2), broadcast(3), broadcast(5), 0xffff_ffff];
        let masked = under_masks(&values);
        assert_eq!(masked.len(), 4);
        let near = values.into_iter().flat_map(|v| (0..32).map(move |bit| v ^ 1 << bit));
        for v in near.chain(values) {
            let found = masked.iter().any(|&(value, without)| v & !without == value);
            assert_eq!(found, values.contains(&v), "{v:#x}");
        }
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
    fn broadcast_addresses_of_interfaces_are_bad_sources() {
        let good = |args: &[&str], src: [u8; 4], dst: [u8; 4]| {
            let p = udp((src, 1), (dst, 2), b"x");
            Harness::new("CheckIPHeader", args, 1, 2).send(0, &p)[0].out().0 == 0
        };
        let far = [10, 8, 0, 1];
        for src in [[10, 9, 255, 255], [0; 4], [255; 4]] {
            assert!(good(&[], src, far), "without the argument, no source is bad");
            let args = ["INTERFACES 10.9.0.1/16 10.7.0.1/255.255.255.0"];
            assert!(!good(&args, src, far));
            assert!(good(&args, src, [10, 9, 0, 1]), "the router itself may get them");
            assert!(good(&args, src, [10, 7, 0, 1]));
        }
        assert!(good(&["INTERFACES 10.9.0.1/16"], [10, 9, 0, 0], far));
        assert!(good(&["INTERFACES 10.9.0.1/32"], [10, 9, 0, 1], far));
    }

    #[test]
    fn long_lists_of_bad_sources_are_complete() {
        for n in [1, 16, 17, 100] {
            let list: Vec<String> = (0..n).map(|i| format!("10.1.{}.{}", i / 50, i)).collect();
            let bad = format!("BADSRC {}", list.join(" "));
            for args in [&[&bad[..]][..], &[&bad, "GOODDST 10.9.9.9"]] {
                let mut e = Harness::new("CheckIPHeader", args, 1, 1);
                let mut ends = |src: &str, dst| {
                    let p = udp((src.parse::<Ipv4Addr>().unwrap().octets(), 1), (dst, 2), b"");
                    matches!(e.send(0, &p)[0], Outcome::Out(..))
                };
                for src in &list {
                    assert!(!ends(src, [10, 0, 0, 1]), "{src} of {n}");
                    assert_eq!(ends(src, [10, 9, 9, 9]), args.len() == 2);
                }
                assert!(ends("10.1.200.1", [10, 0, 0, 1]));
            }
        }
    }

    #[test]
    fn options_belong_to_the_header() {
        let mut p = packet();
        p.splice(20..20, [1, 1, 1, 0]);
        (p[0], p[3]) = (0x46, p[3] + 4);
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        let out = Harness::new("CheckIPHeader", &[], 1, 2).send(0, &p);
        assert!(matches!(&out[0], Outcome::Out(0, q) if q.from_layer(Layer::Transport) == &p[24..]));
        p[21] ^= 1;
        assert_eq!(Harness::new("CheckIPHeader", &[], 1, 1).send(0, &p)[0].reason(), "BadChecksum");
        for n in 0..p.len() {
            assert_eq!(Harness::new("CheckIPHeader", &[], 1, 2).send(0, &p[..n])[0].out().0, 1);
        }
    }

    #[test]
    fn wrong_arguments_say_what_is_right() {
        let errors = |arg: &str| {
            crate::class_named("CheckIPHeader")
                .unwrap()
                .configure(&[arg.to_owned()])
                .err()
                .unwrap()
                .join("; ")
        };
        assert!(errors("INTERFACES 10.0.0.1/33").contains("INTERFACES: '10.0.0.1/33' is not an IP prefix"));
        assert!(errors("BADSRC 10.0.0").contains("BADSRC: '10.0.0' is not an IP address"));
        assert!(errors("OFFSET 4294967290").contains("OFFSET: 4294967290 is beyond the end of any packet"));
    }
}

use super::check_ip_header::{AddressList, InterfaceList, check_ip, lists};
use super::checks::check_offset;
use crate::prelude::*;

element! {
    /// Checks that packets have a valid IPv4 header, and marks it: as `CheckIPHeader`, but by default without the
    /// checksum.
    ///
    /// For packets whose header a device or an earlier element has checked.
    CheckIPHeader2: "1/1-2", "a/ah";
    example "Idle -> CheckIPHeader2(14) -> Discard;";
    params {
        /// Where the header starts, in bytes.
        pos offset: u32 = 0,
        /// Source addresses that are refused.
        key badsrc: AddressList = AddressList(vec![]),
        /// Addresses that packets may come to even if their source is in BADSRC.
        key gooddst: AddressList = AddressList(vec![]),
        /// Addresses and prefixes of the router's interfaces, as for `CheckIPHeader`.
        key interfaces: InterfaceList = InterfaceList(vec![]),
        /// Whether the checksum is checked.
        key checksum: bool = false,
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

fn program(e: &CheckIPHeader2, b: &mut Builder) {
    let (bad, good) = lists(&e.badsrc, &e.gooddst, &e.interfaces);
    check_ip(b, e.offset, e.checksum, &bad, &good);
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, udp};

    #[test]
    fn the_checksum_is_checked_on_request_only() {
        let mut p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        p[10] ^= 0xff;
        assert_eq!(Harness::new("CheckIPHeader2", &[], 1, 1).send(0, &p)[0].out(), (0, &p[..]));
        let mut e = Harness::new("CheckIPHeader2", &["CHECKSUM true"], 1, 1);
        assert_eq!(e.send(0, &p)[0].reason(), "BadChecksum");
        assert_eq!(e.read("drops"), "1");
    }

    #[test]
    fn the_rest_of_the_header_is_checked() {
        let mut p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        p[0] = 0x65;
        let mut e = Harness::new("CheckIPHeader2", &["BADSRC 10.0.0.1"], 1, 1);
        assert_eq!(e.send(0, &p)[0].reason(), "BadVersion");
        p[0] = 0x45;
        assert_eq!(e.send(0, &p)[0].reason(), "BadSource");
        for n in 0..p.len() {
            assert_eq!(e.send(0, &p[..n])[0].reason(), "Truncated");
        }
    }
}

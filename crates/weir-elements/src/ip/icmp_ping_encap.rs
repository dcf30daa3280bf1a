use super::icmp_encap::{Message, encap};
use crate::prelude::*;

element! {
    /// Makes packets the data of ICMP echo requests (RFC 792).
    ///
    /// Each packet has the number after that of the packet before, from 1, as identification and sequence number. The
    /// marks `net` and `transport` and the destination annotation are set. Packets that would be longer than 65,535
    /// bytes are dropped (`TooLong`), as are those without space (`NoSpace`).
    ///
    /// Packets that a kernel left to the device to segment are dropped (`NotSegmented`): `FinishOffloads` cuts them.
    ICMPPingEncap: "1/1", "a/a";
    example "Idle -> ICMPPingEncap(10.0.0.1, 10.0.1.1, IDENTIFIER 7) -> Discard;";
    params {
        /// Source address.
        pos src: Ipv4Addr,
        /// Destination address.
        pos dst: Ipv4Addr,
        /// Identifier.
        key identifier: u16 = 0,
    }
    handlers {
        /// Source address.
        cell src: Ipv4Addr,
        /// Destination address.
        cell dst: Ipv4Addr,
    }
}

fn program(e: &ICMPPingEncap, b: &mut Builder) {
    let src = b.live("src", W32, e.src.bits());
    let dst = b.live("dst", W32, e.dst.bits());
    let number = b.cell("number", W16, 1);
    let message = Message { kind: 8, code: 0, identifier: e.identifier };
    b.input(0, |b| encap(b, message, [src, dst, number]));
}

#[cfg(test)]
mod tests {
    use crate::testing::Harness;
    use std::net::Ipv4Addr;
    use weir_net::{Ipv4, build};

    fn request(number: u16) -> Vec<u8> {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1));
        let mut p = build::icmp_echo(a, b, 7, number, b"data").split_off(14);
        p[4..6].copy_from_slice(&number.to_be_bytes());
        (p[6], p[8]) = (0, 255);
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        p
    }

    #[test]
    fn requests_are_numbered_without_zero() {
        let mut e = Harness::new("ICMPPingEncap", &["10.0.0.1", "10.0.1.1", "IDENTIFIER 7"], 1, 1);
        for number in (1..=0xffff).chain([1]) {
            let out = e.send(0, b"data");
            assert!(out[0].out().1 == request(number), "{number}");
        }
        e.write("src", "1.2.3.4").unwrap();
        e.write("dst", "1.2.3.5").unwrap();
        assert_eq!(e.send(0, b"")[0].out().1[12..20], [1, 2, 3, 4, 1, 2, 3, 5]);
    }

    #[test]
    fn packets_that_would_be_too_long_are_dropped() {
        let mut e = Harness::new("ICMPPingEncap", &["10.0.0.1", "10.0.1.1"], 1, 1);
        assert_eq!(e.send(0, &[0; 65_508])[0].reason(), "TooLong");
        let errors = crate::class_named("ICMPPingEncap").unwrap().configure(&["10.0.0.1".into()]);
        assert!(errors.err().unwrap()[0].contains("missing mandatory DST"));
    }
}

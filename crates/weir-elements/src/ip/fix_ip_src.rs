use super::rewrite::{difference, update_header};
use crate::fields::ipv4;
use crate::prelude::*;

element! {
    /// Sets the source address of IPv4 packets whose fix-source annotation is set, and clears the annotation.
    ///
    /// `ICMPError` sets it: an error comes from the address of the interface that it leaves by (RFC 1812 section
    /// 4.3.2.4). The header checksum is updated. The `net` mark has to stand on an IPv4 header; packets without pass
    /// unchanged.
    FixIPSrc: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> ICMPError(10.0.0.1, unreachable) -> FixIPSrc(10.0.1.1) -> Discard;";
    params {
        /// The address.
        pos ipaddr: Ipv4Addr,
    }
}

fn program(e: &FixIPSrc, b: &mut Builder) {
    b.input(0, |b| {
        fix(b, e.ipaddr, |b| b.emit(0));
        b.emit(0);
    });
}

/// Sets the source address if the annotation says so. `without` is the path of a packet that has no header.
pub(super) fn fix(b: &mut Builder, addr: Ipv4Addr, without: impl FnOnce(&mut Builder)) {
    let fix = b.load_anno(W8, anno::FIX_IP_SRC);
    let fix = b.ne(fix, 0);
    b.when(fix, |b| {
        b.require_or(Layer::Net, 20, without);
        let done = b.constant(W8, 0_u8);
        b.store_anno(anno::FIX_IP_SRC, done);
        let old = ipv4::SRC.load(b);
        let new = b.constant(W32, u32::from(addr));
        ipv4::SRC.store(b, new);
        let difference = difference(b, old, new);
        update_header(b, difference);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome, ip_packet, udp};
    use weir_net::Ipv4;

    #[test]
    fn only_marked_packets_get_the_address() {
        let mut e = Harness::new("FixIPSrc", &["10.9.8.7"], 1, 1);
        let plain = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        assert_eq!(e.send_ip(0, &plain)[0].out().1, plain);
        for mark in [1, 255] {
            let mut p = ip_packet(&plain);
            p.anno[crate::anno::FIX_IP_SRC as usize] = mark;
            let out = e.send_packet(0, p);
            let Outcome::Out(0, p) = &out[0] else { panic!("{out:?}") };
            let ip = Ipv4::new(p.bytes()).unwrap();
            assert!(ip.checksum_ok());
            assert_eq!(ip.src(), std::net::Ipv4Addr::new(10, 9, 8, 7));
            assert_eq!(p.bytes()[16..], plain[16..]);
            assert_eq!(p.anno[crate::anno::FIX_IP_SRC as usize], 0);
        }
    }

    #[test]
    fn what_is_no_ip_packet_passes() {
        let mut e = Harness::new("FixIPSrc", &["10.9.8.7"], 1, 1);
        for n in 0..20 {
            let mut p = weir_packet::Packet::from_bytes(&[0x45; 20][..n]).unwrap();
            p.anno.fill(1);
            assert_eq!(e.send_packet(0, p)[0].out(), (0, &[0x45; 20][..n]));
        }
    }
}

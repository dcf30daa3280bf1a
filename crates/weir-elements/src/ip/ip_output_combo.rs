use super::check_ip_header::AddressList;
use super::ip_gw_options::{IPGWOptions, process};
use super::{dec_ip_ttl, fix_ip_src};
use crate::prelude::*;
use weir_packet::PacketType;

element! {
    /// What an IP router does with each packet before it leaves by an interface: `DropBroadcasts`, `PaintTee`,
    /// `IPGWOptions`, `FixIPSrc`, `DecIPTTL` and `CheckLength` in one.
    ///
    /// Packets leave on output 0. Those of the interface's colour are also copied to output 1 (for a redirect); those
    /// with a wrong option leave on output 2, those whose time to live ran out on output 3, and those that are longer
    /// than the MTU on output 4. Link-layer broadcasts are dropped (`Broadcast`), as are packets without an IPv4 header
    /// at the `net` mark (`Unmarked`).
    IPOutputCombo: "1/5", "h/h";
    example "Idle -> CheckIPHeader -> o :: IPOutputCombo(1, 10.0.0.1, 1500) -> Discard; o [1] -> Discard; o [2] -> Discard; o [3] -> Discard; o [4] -> Discard;";
    params {
        /// Colour of packets that came in by the interface.
        pos color: u8,
        /// Address of the interface.
        pos ipaddr: Ipv4Addr,
        /// Longest packet in bytes, link-layer header excluded.
        pos mtu: u32,
    }
}

fn program(e: &IPOutputCombo, b: &mut Builder) {
    let bad_options = b.cell("bad_options", W64, 0);
    let gateway = IPGWOptions { myaddr: e.ipaddr, otheraddrs: AddressList(vec![]) };
    b.input(0, |b| {
        let kind = b.load_meta(MetaField::PacketType);
        let kind = b.sub(kind, PacketType::Broadcast as u8);
        let group = b.le(kind, 1);
        b.when(group, |b| b.drop(Reason::new("Broadcast")));
        let color = b.load_anno(W8, anno::PAINT);
        let same = b.eq(color, e.color);
        b.when(same, |b| b.fork(|b| b.emit(1)));
        process(&gateway, b, bad_options, 2);
        fix_ip_src::fix(b, e.ipaddr, |b| b.drop(Reason::TRUNCATED));
        require_ip(b);
        dec_ip_ttl::decrement(b, |b| b.emit(3));
        let len = b.len();
        let long = b.gt(len, e.mtu);
        b.when(long, |b| b.emit(4));
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::PacketType;
    use crate::testing::{Harness, Outcome, ip_packet, udp};
    use weir_net::Ipv4;
    use weir_packet::Packet;

    fn sent(p: Packet) -> Vec<(u32, Vec<u8>)> {
        let out = Harness::new("IPOutputCombo", &["3", "10.0.0.9", "100"], 1, 5).send_packet(0, p);
        out.iter().map(Outcome::out).map(|(port, bytes)| (port, bytes.to_vec())).collect()
    }

    fn packet(payload: &[u8]) -> Vec<u8> {
        udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), payload)
    }

    fn decremented(mut p: Vec<u8>) -> Vec<u8> {
        p[8] -= 1;
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        p
    }

    #[test]
    fn ordinary_packets_leave_with_a_shorter_time_to_live() {
        assert_eq!(sent(ip_packet(&packet(b"x"))), [(0, decremented(packet(b"x")))]);
        assert_eq!(sent(ip_packet(&packet(&[1; 73]))), [(4, decremented(packet(&[1; 73])))]);
    }

    #[test]
    fn the_source_is_fixed_and_a_redirect_asked_for() {
        let mut p = ip_packet(&packet(b"x"));
        (p.anno[16], p.anno[19]) = (3, 1);
        let mut wanted = packet(b"x");
        wanted[15] = 9;
        assert_eq!(sent(p), [(0, decremented(wanted)), (1, packet(b"x"))]);
    }

    #[test]
    fn expired_packets_bad_options_and_broadcasts() {
        let mut expired = packet(b"x");
        expired[8] = 1;
        assert_eq!(sent(ip_packet(&expired)), [(3, expired)]);
        let mut bad = packet(b"");
        bad.splice(20..20, [7, 3, 2, 0]);
        (bad[0], bad[3]) = (0x46, bad[3] + 4);
        assert_eq!(sent(ip_packet(&bad)), [(2, bad)]);
        let mut broadcast = ip_packet(&packet(b""));
        broadcast.packet_type = PacketType::Broadcast as u8;
        let mut e = Harness::new("IPOutputCombo", &["3", "10.0.0.9", "100"], 1, 5);
        assert_eq!(e.send_packet(0, broadcast)[0].reason(), "Broadcast");
        for n in 0..20 {
            assert_eq!(e.send_ip(0, &packet(b"")[..n])[0].reason(), "Truncated");
        }
    }

    #[test]
    fn all_arguments_are_needed() {
        let errors = crate::class_named("IPOutputCombo").unwrap().configure(&["1".into(), "x".into()]);
        let errors = errors.err().unwrap().join("; ");
        assert!(
            errors.contains("IPADDR: 'x' is not an IP address") && errors.contains("mandatory MTU"),
            "{errors}"
        );
    }
}

use super::encap::{Destination, Outer, Port, destination, fill_ip, fill_udp, next_id, push_headers};
use crate::prelude::*;

element! {
    /// Puts headers of UDP and IPv4 in front of packets (RFC 768).
    ///
    /// The marks `net` and `transport` and the destination annotation are set. The identification counts from 0, the
    /// time to live is 250. Packets that would be longer than 65,535 bytes are dropped (`TooLong`), as are those
    /// without space for the headers (`NoSpace`). `Strip(28)` undoes it.
    ///
    /// Packets that a kernel left to the device to segment are dropped (`NotSegmented`): `FinishOffloads` cuts them.
    UDPIPEncap: "1/1", "a/a";
    example "Idle -> UDPIPEncap(10.0.0.1, 1234, 10.0.1.1, domain) -> Discard;";
    params {
        /// Source address.
        pos src: Ipv4Addr,
        /// Source port: a number or the name of a service.
        pos sport: Port,
        /// Destination address, or `DST_ANNO` for that of the destination annotation.
        pos dst: Destination,
        /// Destination port: a number or the name of a service.
        pos dport: Port,
        /// Whether the UDP checksum is computed; otherwise it is 0, which says that there is none.
        pos checksum: bool = true,
    }
    handlers {
        /// Source address.
        cell src: Ipv4Addr,
        /// Source port.
        cell sport: Port,
        /// Destination address, or `DST_ANNO`.
        cell dst: Destination,
        /// Destination port.
        cell dport: Port,
    }
}

fn program(e: &UDPIPEncap, b: &mut Builder) {
    let src = b.live("src", W32, e.src.bits());
    let sport = b.live("sport", W16, e.sport.bits());
    let dst = b.live("dst", W64, e.dst.bits());
    let dport = b.live("dport", W16, e.dport.bits());
    let id = b.cell("id", W16, 0);
    b.input(0, |b| {
        push_headers(b, 28);
        let src = b.read_cell(src);
        let dst = destination(b, dst);
        let id = next_id(b, id);
        fill_ip(b, Outer { tos: 0, flags: 0, ttl: 250, protocol: proto::UDP }, id, src, dst);
        let [sport, dport] = [sport, dport].map(|cell| b.read_cell(cell));
        fill_udp(b, sport, dport, e.checksum);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use crate::testing::{Harness, Outcome};
    use std::net::Ipv4Addr;
    use weir_net::{Ipv4, build};
    use weir_packet::Layer;

    const ARGS: [&str; 4] = ["10.0.0.1", "7", "10.0.1.1", "domain"];

    /// The packet with its identification and time to live.
    fn packet(id: u16, payload: &[u8]) -> Vec<u8> {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1));
        let mut p = build::udp4((a, 7), (b, 53), payload).split_off(14);
        p[4..6].copy_from_slice(&id.to_be_bytes());
        (p[6], p[8]) = (0, 250);
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        p
    }

    #[test]
    fn headers_and_checksums_are_right() {
        let mut e = Harness::new("UDPIPEncap", &ARGS, 1, 1);
        for (id, payload) in [(0, &b"hello"[..]), (1, b""), (2, &[0xff; 1400])] {
            let out = e.send(0, payload);
            assert_eq!(out[0].out().1, packet(id, payload));
            let Outcome::Out(0, p) = &out[0] else { unreachable!() };
            assert_eq!(
                (p.from_layer(Layer::Transport).len(), &p.anno[..4]),
                (payload.len() + 8, &[10, 0, 1, 1][..])
            );
        }
    }

    #[test]
    fn a_sum_of_zero_is_written_as_ones_and_no_sum_as_zero() {
        let mut e = Harness::new("UDPIPEncap", &ARGS, 1, 1);
        let plain = packet(0, &[0, 0]);
        let out = e.send(0, &plain[26..28]);
        assert_eq!(out[0].out().1[26..28], [0xff, 0xff]);
        let mut e = Harness::new("UDPIPEncap", &[&ARGS[..], &["false"]].concat(), 1, 1);
        assert_eq!(e.send(0, b"x")[0].out().1[26..28], [0, 0]);
    }

    #[test]
    fn all_fields_can_change() {
        let mut e = Harness::new("UDPIPEncap", &["10.0.0.1", "7", "DST_ANNO", "9"], 1, 1);
        assert_eq!((e.read("dst"), e.read("dport")), ("DST_ANNO".into(), "9".into()));
        for (handler, value) in [("src", "1.1.1.1"), ("sport", "80"), ("dst", "2.2.2.2"), ("dport", "ssh")] {
            e.write(handler, value).unwrap();
        }
        let out = e.send(0, b"");
        assert_eq!(out[0].out().1[12..24], [1, 1, 1, 1, 2, 2, 2, 2, 0, 80, 0, 22]);
        assert!(e.write("sport", "nothing").unwrap_err().contains("or service"));
    }

    #[test]
    fn packets_that_would_be_too_long_are_dropped() {
        let mut e = Harness::new("UDPIPEncap", &ARGS, 1, 1);
        assert_eq!(e.send(0, &[0; 65_508])[0].reason(), "TooLong");
        assert_eq!(e.send(0, &[0; 65_507])[0].out().1.len(), 65_535);
    }
}

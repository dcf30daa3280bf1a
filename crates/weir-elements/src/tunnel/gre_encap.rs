use super::outer::{Ends, OtherEnd, TunnelId, flow, tunnel_id};
use crate::fields::gre;
use crate::ip::encap::push_headers;
use crate::prelude::*;

element! {
    /// Puts packets into a GRE tunnel: headers of IPv4 and GRE go in front (RFC 2784, with key and sequence number of
    /// RFC 2890).
    ///
    /// The marks `net` and `transport` and the destination annotation are those of the outer headers. A checksum that
    /// the sender's kernel left unfinished is completed in the inner packet. Packets that would be longer than 65,535
    /// bytes are dropped (`TooLong`), as are those without space for the headers (`NoSpace`).
    ///
    /// Packets that a kernel left to the device to segment are dropped (`NotSegmented`): `FinishOffloads` cuts them.
    GREEncap: "1/1", "a/a";
    example "Idle -> GREEncap(10.0.0.1, 10.0.1.1, KEY 42) -> Discard;";
    example "Idle -> GREEncap(10.0.0.1, 10.0.1.1, 0x6558, SEQUENCE true, CHECKSUM true) -> Discard;";
    params {
        /// Address of this end of the tunnel.
        pos src: Ipv4Addr,
        /// Address of the other end, or `ANNO` for that of the destination annotation.
        pos dst: OtherEnd,
        /// Type of what the tunnel carries: 0x0800 is IPv4, 0x86dd IPv6, 0x6558 Ethernet.
        pos ethertype: u16 = 0x0800 => "0x0800",
        /// Key of the tunnel, or `ANNO` for that of the aggregate annotation; left out, there is none.
        key key: Option<TunnelId> = None,
        /// Whether packets have sequence numbers, from 0.
        key sequence: bool = false,
        /// Whether packets have a checksum.
        key checksum: bool = false,
        /// Time to live of the outer header.
        key ttl: u8 = 64,
    }
    handlers {
        /// Address of this end of the tunnel.
        cell src: Ipv4Addr,
        /// Address of the other end, or `ANNO`.
        cell dst: OtherEnd,
    }
}

/// Flags of the first 16 bits: what is there.
pub(super) const CHECKSUM: u16 = 0x8000;
pub(super) const KEY: u16 = 0x2000;
pub(super) const SEQUENCE: u16 = 0x1000;
/// Ethernet frames.
const TRANSPARENT_ETHERNET: u16 = 0x6558;
/// GRE's IP protocol number.
pub(super) const GRE: u8 = 47;

fn program(e: &GREEncap, b: &mut Builder) {
    let ends = Ends::declare(b, e.src, e.dst);
    let key = e.key.map(|key| b.live("key", W64, key.bits()));
    let sequence = b.cell("sequence", W32, 0);
    let flag = |on: bool, flag: u16| if on { flag } else { 0 };
    let flags = flag(e.checksum, CHECKSUM) | flag(key.is_some(), KEY) | flag(e.sequence, SEQUENCE);
    let len = 4 * (1 + flags.count_ones());
    b.input(0, |b| {
        let inner_at = if e.ethertype == TRANSPARENT_ETHERNET { ETHER_LEN } else { 0 };
        flow(b, inner_at);
        let key = key.map(|key| tunnel_id(b, key));
        push_headers(b, 20 + len);
        gre::FLAGS.store_const(b, flags);
        gre::PROTOCOL.store_const(b, e.ethertype);
        let mut at = if e.checksum { 8 } else { 4 };
        if let Some(key) = key {
            b.store(Layer::Transport, at, key);
            at += 4;
        }
        if e.sequence {
            let n = b.read_cell(sequence);
            let next = b.add(n, 1);
            b.write_cell(sequence, next);
            b.store(Layer::Transport, at, n);
        }
        if e.checksum {
            let all = b.rest(Layer::Transport);
            b.require(Layer::Transport, all, Reason::TRUNCATED);
            let sum = b.checksum(Layer::Transport, 0, all);
            let field = b.not(sum);
            gre::CHECKSUM.store(b, field);
        }
        ends.fill_ip(b, GRE, e.ttl);
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::super::outer::tests::{completes_checksums, encapped, frame, inner};
    use crate::testing::Harness;
    use weir_net::checksum::checksum;
    use weir_packet::Packet;

    fn header(more: &[&str], len: usize) -> Vec<u8> {
        let mut e = Harness::new("GREEncap", &[&["10.0.0.1", "10.0.1.1"][..], more].concat(), 1, 1);
        let p = inner(7);
        encapped(&mut e, Packet::from_bytes(&p).unwrap());
        let outer = encapped(&mut e, Packet::from_bytes(&p).unwrap());
        assert_eq!(
            (outer[9], &outer[12..20], &outer[20 + len..]),
            (47, &[10, 0, 0, 1, 10, 0, 1, 1][..], &p[..])
        );
        outer[20..20 + len].to_vec()
    }

    #[test]
    fn the_headers_are_those_of_the_rfcs() {
        assert_eq!(header(&[], 4), [0, 0, 8, 0]);
        assert_eq!(header(&["0x6558", "KEY 0x1020304"], 8), [0x20, 0, 0x65, 0x58, 1, 2, 3, 4]);
        assert_eq!(header(&["SEQUENCE true"], 8), [0x10, 0, 8, 0, 0, 0, 0, 1]);
        let all = header(&["KEY 9", "SEQUENCE true", "CHECKSUM true"], 16);
        assert_eq!((&all[..4], &all[6..]), (&[0xb0, 0, 8, 0][..], &[0, 0, 0, 0, 0, 9, 0, 0, 0, 1][..]));
        assert_eq!(checksum(&[&all[..], &inner(7)].concat()), 0, "the sum covers header and payload");
    }

    #[test]
    fn checksums_are_completed() {
        let mut e = Harness::new("GREEncap", &["10.0.0.1", "10.0.1.1"], 1, 1);
        completes_checksums(&mut e, <[u8]>::to_vec);
        let mut e = Harness::new("GREEncap", &["10.0.0.1", "10.0.1.1", "0x6558"], 1, 1);
        completes_checksums(&mut e, frame);
    }

    #[test]
    fn the_key_may_come_from_the_annotation() {
        let mut e = Harness::new("GREEncap", &["10.0.0.1", "10.0.1.1", "KEY ANNO"], 1, 1);
        let mut p = Packet::from_bytes(&inner(7)).unwrap();
        p.anno[20..24].copy_from_slice(&[9, 8, 7, 6]);
        assert_eq!(encapped(&mut e, p)[24..28], [9, 8, 7, 6]);
        let class = crate::class_named("GREEncap").unwrap();
        let errors = class.configure(&["1.1.1.1".into(), "1.1.1.2".into(), "KEY k".into()]).err().unwrap();
        assert!(errors[0].contains("KEY: 'k' is not a number: write a number or ANNO"), "{errors:?}");
    }
}

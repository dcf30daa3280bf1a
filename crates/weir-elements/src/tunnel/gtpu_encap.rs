use super::outer::{Ends, OtherEnd, Sending, TunnelId, tunnel_id};
use crate::fields::gtpu;
use crate::prelude::*;

element! {
    /// Puts IP packets into a GTP-U tunnel of a mobile network: headers of IPv4, UDP and GTP go in front (3GPP
    /// TS 29.281 section 5.1).
    ///
    /// The marks `net` and `transport` and the destination annotation are those of the outer headers. Packets of a flow
    /// have one source port, 49,152 or more. A checksum that the sender's kernel left unfinished is completed in the
    /// inner packet. Packets that would be longer than 65,535 bytes are dropped (`TooLong`), as are those without space
    /// for the headers (`NoSpace`).
    ///
    /// Packets that a kernel left to the device to segment are dropped (`NotSegmented`): `FinishOffloads` cuts them.
    GTPUEncap: "1/1", "a/a";
    example "Idle -> GTPUEncap(10.0.0.1, 10.0.1.1, 0x1234, QFI 9) -> Discard;";
    params {
        /// Address of this end of the tunnel.
        pos src: Ipv4Addr,
        /// Address of the other end, or `ANNO` for that of the destination annotation.
        pos dst: OtherEnd,
        /// Tunnel endpoint identifier of the other end, or `ANNO` for that of the aggregate annotation.
        pos teid: TunnelId,
        /// Whether packets have sequence numbers, from 0.
        key sequence: bool = false,
        /// Quality of service flow identifier, 0 to 63: packets have a PDU session container with it (TS 38.415).
        key qfi: Option<u8> = None,
        /// Whether the container says uplink; otherwise it says downlink.
        key uplink: bool = false,
        /// Source port; left out, it follows from the flow.
        key sport: Option<u16> = None,
        /// Destination port.
        key dport: u16 = 2152,
        /// Time to live of the outer header.
        key ttl: u8 = 64,
        /// Whether there is a UDP checksum.
        key checksum: bool = true,
    }
    check |e| match e.qfi {
        Some(n @ 64..) => Err(format!("QFI: {n} is too large; at most 63")),
        _ => Ok(()),
    };
    handlers {
        /// Address of this end of the tunnel.
        cell src: Ipv4Addr,
        /// Address of the other end, or `ANNO`.
        cell dst: OtherEnd,
        /// Tunnel endpoint identifier, or `ANNO`.
        cell teid: TunnelId,
    }
}

/// Version 1, and GTP, not GTP'.
const VERSION: u8 = 0x30;
/// Flags: an extension header follows, a sequence number is there.
const EXTENSION: u8 = 4;
const SEQUENCE: u8 = 2;
/// A packet of a user.
pub(super) const G_PDU: u8 = 255;
/// Extension header type of the PDU session container.
const PDU_SESSION: u8 = 0x85;

fn program(e: &GTPUEncap, b: &mut Builder) {
    let teid = b.live("teid", W64, e.teid.bits());
    let sequence = b.cell("sequence", W16, 0);
    let sending = Sending {
        ends: Ends::declare(b, e.src, e.dst),
        sport: e.sport,
        dport: e.dport,
        ttl: e.ttl,
        checksum: e.checksum,
        inner_at: 0,
    };
    let optional = if e.sequence || e.qfi.is_some() { 4 } else { 0 };
    let extension = if e.qfi.is_some() { 4 } else { 0 };
    b.input(0, |b| {
        let teid = tunnel_id(b, teid);
        sending.encap(b, 8 + optional + extension, |b, inner| {
            let mut flags = VERSION;
            flags |= if e.sequence { SEQUENCE } else { 0 };
            flags |= if e.qfi.is_some() { EXTENSION } else { 0 };
            gtpu::FLAGS.store_const(b, flags);
            gtpu::TYPE.store_const(b, G_PDU);
            let len = b.add(inner, optional + extension);
            let len = b.resize(W16, len);
            gtpu::LENGTH.store(b, len);
            gtpu::TEID.store(b, teid);
            if e.sequence {
                let n = b.read_cell(sequence);
                let next = b.add(n, 1);
                b.write_cell(sequence, next);
                gtpu::SEQUENCE.store(b, n);
            }
            if let Some(qfi) = e.qfi {
                gtpu::NEXT_EXTENSION.store_const(b, PDU_SESSION);
                // One unit of four bytes; type of PDU; no flags and the identifier; no further extension.
                let kind = if e.uplink { 0x10_u32 } else { 0 };
                let container = 1 << 24 | kind << 16 | u32::from(qfi) << 8;
                gtpu::EXTENSION.store_const(b, container);
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::super::outer::tests::{completes_checksums, encapped, inner, ports_follow_flows};
    use crate::testing::Harness;
    use weir_packet::Packet;

    const ARGS: [&str; 3] = ["10.0.0.1", "10.0.1.1", "0x12345678"];

    fn header(more: &[&str], len: usize) -> Vec<u8> {
        let mut e = Harness::new("GTPUEncap", &[&ARGS[..], more].concat(), 1, 1);
        let p = inner(7);
        for _ in 0..2 {
            encapped(&mut e, Packet::from_bytes(&p).unwrap());
        }
        let outer = encapped(&mut e, Packet::from_bytes(&p).unwrap());
        assert_eq!((&outer[22..24], &outer[28 + len..]), (&2152_u16.to_be_bytes()[..], &p[..]));
        assert_eq!(usize::from(outer[31]), outer.len() - 36, "what follows the first eight bytes");
        outer[28..28 + len].to_vec()
    }

    #[test]
    fn the_headers_are_those_of_the_specification() {
        assert_eq!(header(&[], 8), [0x30, 255, 0, 33, 0x12, 0x34, 0x56, 0x78]);
        let h = header(&["SEQUENCE true"], 12);
        assert_eq!(h, [0x32, 255, 0, 37, 0x12, 0x34, 0x56, 0x78, 0, 2, 0, 0]);
        let h = header(&["QFI 9", "UPLINK true"], 16);
        assert_eq!(h, [0x34, 255, 0, 41, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0x85, 1, 0x10, 9, 0]);
    }

    #[test]
    fn flows_have_ports_and_checksums_are_completed() {
        let mut e = Harness::new("GTPUEncap", &ARGS, 1, 1);
        ports_follow_flows(&mut e, <[u8]>::to_vec);
        completes_checksums(&mut e, <[u8]>::to_vec);
    }

    #[test]
    fn the_identifier_may_come_from_the_annotation_and_change() {
        let mut e = Harness::new("GTPUEncap", &["10.0.0.1", "10.0.1.1", "ANNO", "CHECKSUM false"], 1, 1);
        let mut p = Packet::from_bytes(&inner(7)).unwrap();
        p.anno[20..24].copy_from_slice(&[9, 8, 7, 6]);
        let outer = encapped(&mut e, p);
        assert_eq!((&outer[26..28], &outer[32..36]), (&[0, 0][..], &[9, 8, 7, 6][..]));
        e.write("teid", "5").unwrap();
        let outer = encapped(&mut e, Packet::from_bytes(b"").unwrap());
        assert_eq!((e.read("teid"), &outer[32..36]), ("5".into(), &[0, 0, 0, 5][..]));
    }

    #[test]
    fn wrong_arguments_say_what_is_right() {
        let class = crate::class_named("GTPUEncap").unwrap();
        let args: Vec<String> = [&ARGS[..], &["QFI 64"]].concat().iter().map(|a| (*a).to_owned()).collect();
        assert!(class.configure(&args).err().unwrap()[0].contains("QFI: 64 is too large; at most 63"));
    }
}

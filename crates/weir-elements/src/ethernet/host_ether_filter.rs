use crate::ip::checks::check_offset;
use crate::prelude::*;
use weir_packet::PacketType;

element! {
    /// Does what an Ethernet card does for its address: says to whom a frame was sent, and filters.
    ///
    /// Sets the packet type to host, broadcast, multicast or other host, by the frame's destination. Filtered frames
    /// leave on output 1, or are dropped: those from the address itself if `DROP_OWN` (`OwnAddress`), and those to
    /// other hosts if `DROP_OTHER` (`OtherHost`). Frames that end within their addresses are dropped (`Truncated`).
    HostEtherFilter: "1/1-2", "a/ah";
    example "Idle -> HostEtherFilter(02:00:00:00:00:01) -> Discard;";
    params {
        /// The address.
        pos ether: EtherAddr,
        /// Whether frames that come from the address are filtered.
        pos drop_own: bool = false,
        /// Whether frames to other hosts are filtered.
        pos drop_other: bool = true,
        /// Where the Ethernet header starts, in bytes.
        key offset: u32 = 0,
    }
    check |e| check_offset(e.offset);
    handlers {
        /// The address.
        cell ether: EtherAddr,
    }
}

fn program(e: &HostEtherFilter, b: &mut Builder) {
    let ether = b.live("ether", W64, e.ether.bits());
    b.input(0, |b| {
        b.require_or(Layer::Data, e.offset + 12, |b| b.emit_or_drop(1, Reason::TRUNCATED));
        let own = b.read_cell(ether);
        if e.drop_own {
            let src = load_ether(b, Layer::Data, e.offset + 6);
            let from_own = b.eq(src, own);
            b.when(from_own, |b| b.emit_or_drop(1, Reason::new("OwnAddress")));
        }
        let dst = load_ether(b, Layer::Data, e.offset);
        let mark = |b: &mut Builder, kind: PacketType| {
            let kind = b.constant(W8, kind as u8);
            b.store_meta(MetaField::PacketType, kind);
        };
        let to_own = b.eq(dst, own);
        b.when(to_own, |b| {
            mark(b, PacketType::Host);
            b.emit(0);
        });
        let broadcast = b.eq(dst, 0xffff_ffff_ffff_u64);
        b.when(broadcast, |b| {
            mark(b, PacketType::Broadcast);
            b.emit(0);
        });
        let group = b.and(dst, 1_u64 << 40);
        let single = b.eq(group, 0);
        b.unless(single, |b| {
            mark(b, PacketType::Multicast);
            b.emit(0);
        });
        mark(b, PacketType::OtherHost);
        if e.drop_other {
            b.emit_or_drop(1, Reason::new("OtherHost"));
        } else {
            b.emit(0);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::PacketType;
    use crate::testing::{Harness, Outcome};
    use weir_net::EtherAddr;
    use weir_net::build::{DST_ETHER, SRC_ETHER, ethernet};

    const OWN: &str = "02:00:00:00:00:02";

    fn kinds(args: &[&str], dst: [u8; 6]) -> (u32, u8) {
        let frame = ethernet(EtherAddr(dst), SRC_ETHER, 0x0800, b"x");
        let out = Harness::new("HostEtherFilter", args, 1, 2).send(0, &frame);
        let Outcome::Out(port, p) = &out[0] else { panic!("{out:?}") };
        (*port, p.packet_type)
    }

    #[test]
    fn the_destination_says_what_kind_a_frame_is() {
        assert_eq!(kinds(&[OWN], DST_ETHER.octets()), (0, PacketType::Host as u8));
        assert_eq!(kinds(&[OWN], [0xff; 6]), (0, PacketType::Broadcast as u8));
        assert_eq!(kinds(&[OWN], [1, 0, 0x5e, 0, 0, 1]), (0, PacketType::Multicast as u8));
        assert_eq!(kinds(&[OWN], [2, 0, 0, 0, 0, 9]), (1, PacketType::OtherHost as u8));
        assert_eq!(kinds(&[OWN, "false", "false"], [2, 0, 0, 0, 0, 9]), (0, PacketType::OtherHost as u8));
    }

    #[test]
    fn frames_of_its_own_are_filtered_on_request() {
        let frame = ethernet(DST_ETHER, SRC_ETHER, 0x0800, b"x");
        let mut e = Harness::new("HostEtherFilter", &["02:00:00:00:00:01", "true"], 1, 1);
        assert_eq!(e.send(0, &frame)[0].reason(), "OwnAddress");
        e.write("ether", OWN).unwrap();
        assert_eq!(e.send(0, &frame)[0].out().1, frame);
        e.write("ether", "02:00:00:00:00:03").unwrap();
        assert_eq!(e.send(0, &frame)[0].reason(), "OtherHost");
    }

    #[test]
    fn short_frames_and_bad_arguments() {
        let frame = ethernet(DST_ETHER, SRC_ETHER, 0x0800, b"x");
        let mut e = Harness::new("HostEtherFilter", &[OWN, "OFFSET 2"], 1, 1);
        for n in 0..14 {
            assert_eq!(e.send(0, &frame[..n])[0].reason(), "Truncated");
        }
        let errors = crate::class_named("HostEtherFilter").unwrap().configure(&["1.2.3.4".into()]);
        assert!(errors.err().unwrap()[0].contains("ETHER: '1.2.3.4' is not an Ethernet address"));
    }
}

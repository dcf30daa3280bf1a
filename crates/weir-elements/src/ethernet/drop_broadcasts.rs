use crate::prelude::*;
use weir_packet::PacketType;

element! {
    /// Drops packets that arrived as link-layer broadcast or multicast, which routers must not forward (RFC 1812
    /// section 5.3.4).
    ///
    /// How a packet arrived is what its device said. Broadcasts leave on output 1, or are dropped (`Broadcast`).
    DropBroadcasts: "1/1-2", "a/ah";
    example "Idle -> DropBroadcasts -> Discard;";
    handlers {
        /// Number of broadcasts and multicasts.
        count drops,
    }
}

fn program(_: &DropBroadcasts, b: &mut Builder) {
    let drops = b.cell("drops", W64, 0);
    b.input(0, |b| {
        let kind = b.load_meta(MetaField::PacketType);
        // Multicast is the number after that of broadcast.
        let kind = b.sub(kind, PacketType::Broadcast as u8);
        let group = b.le(kind, 1);
        b.when(group, |b| {
            count(b, drops);
            b.emit_or_drop(1, Reason::new("Broadcast"));
        });
        b.emit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::PacketType;
    use crate::testing::Harness;
    use weir_packet::Packet;

    #[test]
    fn only_broadcasts_and_multicasts_are_dropped() {
        let packet = |kind: PacketType| {
            let mut p = Packet::from_bytes(b"x").unwrap();
            p.packet_type = kind as u8;
            p
        };
        let mut two = Harness::new("DropBroadcasts", &[], 1, 2);
        let mut one = Harness::new("DropBroadcasts", &[], 1, 1);
        for kind in [PacketType::Host, PacketType::OtherHost, PacketType::Outgoing] {
            assert_eq!(one.send_packet(0, packet(kind))[0].out(), (0, &b"x"[..]));
        }
        for kind in [PacketType::Broadcast, PacketType::Multicast] {
            assert_eq!(two.send_packet(0, packet(kind))[0].out(), (1, &b"x"[..]));
            assert_eq!(one.send_packet(0, packet(kind))[0].reason(), "Broadcast");
        }
        assert_eq!(one.read("drops"), "2");
    }
}

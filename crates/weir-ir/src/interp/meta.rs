//! Metadata of packets.

use weir_packet::{Checksum, Packet};

use crate::program::MetaField;

/// The meaning of [`Op::LoadMeta`].
pub fn load_meta(p: &Packet, field: MetaField) -> u128 {
    match field {
        MetaField::PacketType => p.packet_type.into(),
        MetaField::InPort => p.in_port.into(),
        MetaField::Timestamp => p.timestamp.into(),
        MetaField::FlowHash => p.hash.into(),
        MetaField::Checksum => p.csum.into(),
        MetaField::SegmentSize => p.gso_size.into(),
        MetaField::Provenance => p.provenance.into(),
    }
}

/// The meaning of [`Op::StoreMeta`].
pub fn store_meta(p: &mut Packet, field: MetaField, v: u128) {
    match field {
        MetaField::PacketType => p.packet_type = v as u8,
        MetaField::InPort => p.in_port = v as u16,
        MetaField::Timestamp => p.timestamp = v as u64,
        MetaField::FlowHash => p.hash = v as u32,
        MetaField::SegmentSize => p.gso_size = v as u16,
        MetaField::Provenance => p.provenance = v as u8,
        MetaField::Checksum => {
            if v != Checksum::Partial as u128 {
                p.csum = v as u8;
            }
        }
    }
}

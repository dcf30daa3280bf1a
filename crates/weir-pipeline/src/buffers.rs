//! Packets that controllers have seen the start of.

use std::collections::VecDeque;

use weir_openflow::flow::PacketIn;
use weir_openflow::numbers::MaxLen;
use weir_openflow::oxm::{Field, FieldValue, Oxm};
use weir_openflow::{BufferId, Bytes, Match, TableId};
use weir_packet::Packet;

use crate::Upcall;

/// Most packets that are kept; the oldest goes first.
pub const MAX: usize = 256;

/// The packets.
#[derive(Debug, Default)]
pub struct Buffers {
    kept: VecDeque<(u32, u32, Packet)>,
    next: u32,
}

impl Buffers {
    fn keep(&mut self, in_port: u32, packet: Packet) -> BufferId {
        if self.kept.len() >= MAX {
            self.kept.pop_front();
        }
        let id = self.next;
        // All but that of none; the same number comes again long after its packet is gone.
        self.next = (self.next + 1) & 0x7fff_ffff;
        self.kept.push_back((id, in_port, packet));
        BufferId(id)
    }

    /// Whether a packet is kept.
    pub fn has(&self, id: BufferId) -> bool {
        self.kept.iter().any(|(kept, _, _)| *kept == id.0)
    }

    /// Takes a packet out, with the port where it came in.
    pub fn take(&mut self, id: BufferId) -> Option<(u32, Packet)> {
        let at = self.kept.iter().position(|(kept, _, _)| *kept == id.0)?;
        self.kept.remove(at).map(|(_, port, packet)| (port, packet))
    }
}

/// The message of a packet.
pub fn packet_in(buffers: &mut Buffers, packet: Packet, upcall: Upcall) -> PacketIn {
    let Upcall { reason, table, cookie, max_len, in_port, metadata, tunnel } = upcall;
    let length = packet.len();
    let whole = max_len == MaxLen::NO_BUFFER || usize::from(max_len.0) >= length;
    let shown = if whole { length } else { usize::from(max_len.0) };
    // A message has 64 KB: what is longer is cut.
    let data = packet.bytes()[..shown.min(65_000)].to_vec();
    let fields =
        [(Field::InPort, u64::from(in_port)), (Field::Metadata, metadata), (Field::TunnelId, tunnel)];
    let said = fields.into_iter().filter(|(field, value)| *field == Field::InPort || *value != 0);
    let fields =
        said.filter_map(|(field, value)| FieldValue::new(field, value).ok()).map(Oxm::Basic).collect();
    PacketIn {
        buffer: if whole { BufferId::NONE } else { buffers.keep(in_port, packet) },
        total_len: u16::try_from(length).unwrap_or(u16::MAX),
        reason,
        table: TableId(table),
        cookie,
        matching: Match::unchecked(fields),
        data: Bytes(data),
    }
}

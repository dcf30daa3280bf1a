use weir_packet::{Layer, Packet};

use super::view::{EXTRA_LENGTH, EXTRA_PACKETS, FIRST_TIMESTAMP, anno_u32, anno_u64, byte};

/// The packets that one packet stands for: as many as its extra packets annotation says and one, of equal lengths,
/// and with times from its first timestamp to its timestamp.
pub(crate) struct Spread {
    packet: Packet,
    /// How many are left.
    left: u64,
    /// Bytes of the packets to come, those that were not captured included.
    bytes: u64,
    step: u64,
    next_time: u64,
    /// It is one packet, whose lengths stay.
    alone: bool,
}

impl Spread {
    pub fn new(packet: Packet) -> Spread {
        let left = u64::from(anno_u32(&packet, EXTRA_PACKETS)) + 1;
        let len = packet.len() as u64;
        let bytes = (len + u64::from(anno_u32(&packet, EXTRA_LENGTH))).max(len * left);
        let (first, last) = (anno_u64(&packet, FIRST_TIMESTAMP), packet.timestamp);
        let (step, next_time) =
            if first != 0 && left > 1 { (last.saturating_sub(first) / (left - 1), first) } else { (0, last) };
        Spread { packet, left, bytes, step, next_time, alone: left == 1 }
    }

    /// The next packet.
    pub fn next(&mut self) -> Option<Packet> {
        if self.left == 0 {
            return None;
        }
        let mut packet = self.packet.copy();
        let len = self.bytes / self.left;
        self.bytes -= len;
        self.left -= 1;
        packet.timestamp = if self.left == 0 { packet.timestamp } else { self.next_time };
        self.next_time += self.step;
        let extra = len.saturating_sub(packet.len() as u64) as u32;
        for (at, value) in [(EXTRA_PACKETS, 0), (EXTRA_LENGTH, extra)] {
            if let Some(place) = packet.anno.get_mut(at..at + 4) {
                place.copy_from_slice(&u32::to_be_bytes(value));
            }
        }
        if !self.alone {
            set_lengths(&mut packet, len);
        }
        Some(packet)
    }
}

/// Sets the IP length, and that of UDP, of a packet with `len` bytes from its first on.
fn set_lengths(packet: &mut Packet, len: u64) {
    let Some(net) = packet.layer(Layer::Net) else { return };
    let ip_len = len.saturating_sub(u64::from(net - packet.data())).min(0xffff) as u16;
    let transport = packet.layer(Layer::Transport);
    let buffer = packet.buffer_mut();
    let net = net as usize;
    if let Some(place) = buffer.get_mut(net + 2..net + 4) {
        place.copy_from_slice(&ip_len.to_be_bytes());
    }
    if let (Some(at), 17) = (transport.map(|t| t as usize), byte(buffer, net + 9))
        && let Some(place) = buffer.get_mut(at + 4..at + 6)
    {
        place.copy_from_slice(&ip_len.saturating_sub((at - net) as u16).to_be_bytes());
    }
}

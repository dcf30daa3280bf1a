//! Segments that the stack writes itself.

use smoltcp::wire::{TcpControl, TcpRepr, TcpSeqNumber};
use weir_net::Tcp as View;
use weir_packet::Packet;

use super::super::{Outcome, Tuple, wire};

pub(super) fn number(number: u32) -> TcpSeqNumber {
    TcpSeqNumber(number.cast_signed())
}

/// Whether a sequence number comes behind another.
pub(super) fn is_behind(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() > 0
}

/// The sequence number of a packet of ours.
pub(super) fn sequence(packet: &Packet) -> Option<u32> {
    let at = wire::ETHERNET + if packet.bytes()[wire::ETHERNET] >> 4 == 4 { 20 } else { 40 };
    Some(View::new(packet.bytes().get(at..)?).ok()?.seq())
}

/// A segment of ours without data or options.
pub(super) fn plain(tuple: Tuple, control: TcpControl) -> TcpRepr<'static> {
    TcpRepr {
        src_port: tuple.local.port(),
        dst_port: tuple.remote.port(),
        control,
        seq_number: number(0),
        ack_number: None,
        window_len: 0,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    }
}

/// A segment that only says what the next sequence numbers of both directions are.
pub(super) fn acknowledgement(tuple: Tuple, (ours, theirs): (u32, u32)) -> TcpRepr<'static> {
    TcpRepr { seq_number: number(ours), ack_number: Some(number(theirs)), ..plain(tuple, TcpControl::None) }
}

/// Says that there is no such connection (RFC 9293 3.5.2).
pub(super) fn reset(tuple: Tuple, segment: &TcpRepr<'_>, out: &mut Outcome) {
    out.counters.no_port += 1;
    if segment.control == TcpControl::Rst {
        return;
    }
    let behind = segment.seq_number + segment.segment_len();
    let reply = match segment.ack_number {
        Some(ack) => TcpRepr { seq_number: ack, ..plain(tuple, TcpControl::Rst) },
        None => TcpRepr { ack_number: Some(behind), ..plain(tuple, TcpControl::Rst) },
    };
    out.send(tuple.remote.ip(), wire::segment(tuple.local.ip(), tuple.remote.ip(), &reply));
}

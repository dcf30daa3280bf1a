//! The IP router's job written by hand, as a reference from below.
//!
//! It does what the graph's elements promise to the packets of the benchmark and no more: no marks, annotations,
//! counters or handlers; the Ethernet header is overwritten where it stands; routes are a sorted array in the cache.

use weir_packet::Packet;

use crate::workload::{ETHERNET, Route};

/// Routes, longest prefix first: (address, mask, output).
#[derive(Debug)]
pub struct Router(Vec<(u32, u32, u32)>);

impl Router {
    /// A router with these routes.
    pub fn new(routes: &[Route]) -> Router {
        let mut routes = routes.to_vec();
        routes.sort_by_key(|r| std::cmp::Reverse(r.len));
        let mask = |len: u32| u32::MAX.checked_shl(32 - len).unwrap_or(0);
        Router(routes.iter().map(|r| (r.addr, mask(r.len), r.output)).collect())
    }

    /// Checks a frame's IPv4 header, finds its route, counts its time to live down and addresses the frame to the
    /// next hop. Gives the output; `None` if the packet is to be dropped.
    pub fn forward(&self, packet: &mut Packet) -> Option<u32> {
        let frame = packet.bytes_mut();
        let ip = frame.get_mut(14..)?;
        let header_len = usize::from(ip.first()? & 15) * 4;
        if ip[0] >> 4 != 4 || header_len < 20 {
            return None;
        }
        let available = ip.len();
        let header = ip.get_mut(..header_len)?;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if total < header_len || total > available || sum(header) != 0xffff {
            return None;
        }
        let src = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        if src == 0 || src == u32::MAX || header[8] <= 1 {
            return None;
        }
        let dst = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        let &(.., output) = self.0.iter().find(|(addr, mask, _)| dst & mask == *addr)?;
        header[8] -= 1;
        // RFC 1624, equation 3, for a word that becomes smaller by 0x100.
        let checksum = u16::from_be_bytes([header[10], header[11]]);
        let (updated, carry) = checksum.overflowing_add(0x100);
        header[10..12].copy_from_slice(&(updated + u16::from(carry)).to_be_bytes());
        let ethernet = ETHERNET.get(output as usize)?;
        frame.get_mut(..14)?.copy_from_slice(ethernet);
        packet.trim(14 + total as u32);
        Some(output)
    }
}

/// One's complement sum of 16-bit words; of a valid header it is 0xffff.
fn sum(header: &[u8]) -> u16 {
    let words = header.as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|&w| u32::from(u16::from_be_bytes(w))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

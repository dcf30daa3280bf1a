//! pcap files (draft-ietf-opsawg-pcap), with microseconds or nanoseconds, and those of a patched tcpdump, whose records
//! have eight bytes more.

use weir_packet::Buffers;

use super::input::{Input, Order};
use super::link::Link;
use super::read::{CUT, ReadPacket};

/// Length of the header of a file, in bytes.
pub(super) const FILE_HEADER: usize = 24;

/// The header of a file.
pub(super) struct Classic {
    order: Order,
    /// Nanoseconds of a unit of the part of the time below a second.
    unit: u64,
    pub link: Link,
    /// Length of the header of a record, in bytes.
    record_header: usize,
    lengths: Lengths,
}

/// Which of the two lengths of a record says how much was kept.
#[derive(Clone, Copy)]
enum Lengths {
    /// The first; the other is how much there was.
    First,
    /// The last: in files before version 2.3.
    Last,
    /// The less: what was kept is no more than there was: version 2.3 (libpcap, `sf-pcap.c`).
    Less,
}

impl Classic {
    /// A file that begins with this header. `None` if that is none.
    pub(super) fn new(header: &[u8; FILE_HEADER]) -> Option<Classic> {
        let magic = Order { big_endian: false }.u32(header, 0);
        let known = |magic: u32| match magic {
            0xa1b2_c3d4 => Some((1000, 16)),
            0xa1b2_3c4d => Some((1, 16)),
            // Of Alexey Kuznetsov's patch: an interface, a protocol and a type stand behind the lengths.
            0xa1b2_cd34 => Some((1000, 24)),
            _ => None,
        };
        let (big_endian, (unit, record_header)) =
            known(magic).map(|k| (false, k)).or(known(magic.swap_bytes()).map(|k| (true, k)))?;
        let order = Order { big_endian };
        let lengths = match (order.u16(header, 4), order.u16(header, 6)) {
            (2, 3) => Lengths::Less,
            (2, minor) if minor < 3 => Lengths::Last,
            // Digital's tcpdump.
            (543, _) => Lengths::Last,
            _ => Lengths::First,
        };
        Some(Classic { order, unit, link: Link::of_header(order.u32(header, 20)), record_header, lengths })
    }

    /// The next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// What is wrong with the file.
    #[inline]
    pub(super) fn next(
        &self,
        input: &mut Input,
        buffers: &mut Buffers,
    ) -> Result<Option<ReadPacket>, String> {
        if !input.has(self.record_header)? {
            return if input.at_hand().is_empty() { Ok(None) } else { Err(CUT.to_owned()) };
        }
        let header = input.at_hand();
        let [seconds, part] = [0, 4].map(|at| self.order.u32(header, at));
        let time = u64::from(seconds) * 1_000_000_000 + u64::from(part) * self.unit;
        let len = self.kept(header);
        ReadPacket::read(input, buffers, (self.record_header, len as usize), time).map(Some)
    }

    /// Whether the next record is at hand as a whole.
    #[inline]
    pub(super) fn ready(&self, input: &Input) -> bool {
        let rest = input.at_hand();
        rest.len() >= self.record_header && rest.len() - self.record_header >= self.kept(rest) as usize
    }

    /// How many bytes of the packet the record has.
    #[inline]
    fn kept(&self, header: &[u8]) -> u32 {
        let [first, second] = [8, 12].map(|at| self.order.u32(header, at));
        match self.lengths {
            Lengths::First => first,
            Lengths::Last => second,
            Lengths::Less => first.min(second),
        }
    }
}

//! pcapng files (draft-ietf-opsawg-pcapng).

use weir_packet::Buffers;

use super::input::{BUFFER, Input, Order};
use super::link::Link;
use super::read::{CUT, ReadPacket};

/// The first bytes of a file, in either byte order (section 4.1).
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Most interfaces of a section: a file cannot make the list grow without bound.
const MAX_INTERFACES: usize = 4096;

/// Types of blocks (sections 4.1 to 4.5 and, for the obsolete one, appendix A).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Options of an interface description.
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// The state after the blocks so far.
pub(super) struct Ng {
    order: Order,
    /// One for each interface that the section describes.
    interfaces: Vec<Interface>,
    /// The byte of the file where the last block begins that was looked at.
    pub start: u64,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    link: Link,
    /// Most bytes that are kept of a packet; 0 for any.
    snaplen: u32,
    clock: Clock,
}

/// The clock of an interface.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// As `if_tsresol` says it: a power of ten or, with the highest bit, of two.
    resolution: u8,
    /// Seconds that are added.
    offset: i64,
}

impl Clock {
    /// Nanoseconds since the epoch, kept within what 64 bits hold.
    fn nanoseconds(self, ticks: u64) -> u64 {
        let (ticks, power) = (u128::from(ticks), u32::from(self.resolution & 0x7f));
        let ns = if self.resolution & 0x80 != 0 {
            (ticks * 1_000_000_000).checked_shr(power).unwrap_or(0)
        } else if power <= 9 {
            ticks * 10_u128.pow(9 - power)
        } else {
            10_u128.checked_pow(power - 9).map_or(0, |unit| ticks / unit)
        };
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let shifted = ns.saturating_add(i128::from(self.offset) * 1_000_000_000);
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
    }
}

/// A packet within its block: where it is, and what of it is there.
struct BlockPacket {
    interface: usize,
    ticks: u64,
    /// Bytes in front of it, from the start of the block.
    before: usize,
    len: u32,
}

impl Ng {
    pub(super) fn new() -> Ng {
        Ng { order: Order { big_endian: false }, interfaces: Vec::new(), start: 0 }
    }

    /// The next packet, and what it begins with; `None` at the end of the file.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn next(
        &mut self,
        input: &mut Input,
        buffers: &mut Buffers,
    ) -> Result<Option<(ReadPacket, Link)>, String> {
        loop {
            self.start = input.used();
            if !input.has(12)? {
                return if input.at_hand().is_empty() { Ok(None) } else { Err(CUT.to_owned()) };
            }
            let head = input.at_hand();
            let is_section = head.starts_with(&MAGIC);
            if is_section {
                let [little, big] = [false, true].map(|big_endian| Order { big_endian });
                self.order = [little, big]
                    .into_iter()
                    .find(|order| order.u32(head, 8) == 0x1a2b_3c4d)
                    .ok_or("the header of a section is damaged: it does not say its byte order")?;
                self.interfaces.clear();
            }
            let (kind, total) = (self.order.u32(head, 0), self.order.u32(head, 4));
            if total < 12 || !total.is_multiple_of(4) {
                return Err(format!(
                    "a block says that it has {total} bytes; blocks have at least 12, and a multiple of 4"
                ));
            }
            match kind {
                SECTION_HEADER | INTERFACE_DESCRIPTION => {
                    let total = total as usize;
                    if total > BUFFER {
                        return Err(format!(
                            "a block that describes an interface or section has {total} bytes"
                        ));
                    }
                    if !input.has(total)? {
                        return Err(CUT.to_owned());
                    }
                    if !is_section {
                        let interface = self.interface(&input.at_hand()[..total - 4])?;
                        self.interfaces.push(interface);
                    }
                    self.end(input, total as u64)?;
                }
                ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET => {
                    let place = self.place(kind, total, input)?;
                    let interface = self.interfaces.get(place.interface).copied().ok_or_else(|| {
                        format!("a packet names the interface {}, which is not described", place.interface)
                    })?;
                    let body = u64::from(total) - place.before as u64 - 4;
                    if u64::from(place.len) > body {
                        return Err(format!(
                            "a packet has {} bytes, and {body} are left in its block",
                            place.len
                        ));
                    }
                    let time = interface.clock.nanoseconds(place.ticks);
                    let found = ReadPacket::read(input, buffers, (place.before, place.len as usize), time)?;
                    self.end_behind(input, body - u64::from(place.len), total)?;
                    return Ok(Some((found, interface.link)));
                }
                _ => self.end(input, u64::from(total))?,
            }
        }
    }

    /// Whether the next block is at hand as a whole.
    pub(super) fn ready(&self, input: &Input) -> bool {
        let rest = input.at_hand();
        rest.len() >= 8 && rest.len() >= self.order.u32(rest, 4) as usize
    }

    /// Passes over the rest of a block that has so many bytes from here on.
    fn end(&self, input: &mut Input, total: u64) -> Result<(), String> {
        let said = u32::try_from(total).unwrap_or(u32::MAX);
        self.end_behind(input, total - 4, said)
    }

    /// Passes over so many bytes, behind which a block says its length again.
    fn end_behind(&self, input: &mut Input, len: u64, total: u32) -> Result<(), String> {
        if !input.skip(len)? || !input.has(4)? {
            return Err(CUT.to_owned());
        }
        let again = self.order.u32(input.at_hand(), 0);
        input.consume(4);
        if again != total {
            return Err(format!(
                "a block says at its start that it has {total} bytes, and at its end, {again}"
            ));
        }
        Ok(())
    }

    /// Where the packet of a block is.
    fn place(&self, kind: u32, total: u32, input: &mut Input) -> Result<BlockPacket, String> {
        let before = if kind == SIMPLE_PACKET { 12 } else { 28 };
        if total < before + 4 {
            return Err(format!("the block of a packet has {total} bytes"));
        }
        let before = before as usize;
        if !input.has(before)? {
            return Err(CUT.to_owned());
        }
        let (order, b) = (self.order, input.at_hand());
        if kind == SIMPLE_PACKET {
            // Only how long the packet was is said; what is kept is limited by the first interface and by the block.
            let limit = self.interfaces.first().map_or(0, |i| i.snaplen);
            let len = order.u32(b, 8).min(total - 16);
            let len = if limit == 0 { len } else { len.min(limit) };
            return Ok(BlockPacket { interface: 0, ticks: 0, before, len });
        }
        let interface =
            if kind == ENHANCED_PACKET { order.u32(b, 8) as usize } else { order.u16(b, 8).into() };
        let ticks = u64::from(order.u32(b, 12)) << 32 | u64::from(order.u32(b, 16));
        Ok(BlockPacket { interface, ticks, before, len: order.u32(b, 20) })
    }

    /// An interface description, without the length at its end.
    fn interface(&self, block: &[u8]) -> Result<Interface, String> {
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(format!("more than {MAX_INTERFACES} interfaces"));
        }
        if block.len() < 16 {
            return Err("the description of an interface is too short".to_owned());
        }
        // Without options: microseconds.
        let mut clock = Clock { resolution: 6, offset: 0 };
        let mut at = 16;
        while at + 4 <= block.len() {
            let (code, len) = (self.order.u16(block, at), usize::from(self.order.u16(block, at + 2)));
            let value = block.get(at + 4..at + 4 + len).unwrap_or_default();
            match (code, value) {
                (0, _) => break,
                (IF_TSRESOL, [resolution]) => clock.resolution = *resolution,
                (IF_TSOFFSET, [_, _, _, _, _, _, _, _]) => clock.offset = self.order.i64(value, 0),
                _ => {}
            }
            at += 4 + len.next_multiple_of(4);
        }
        let link = Link::of_header(self.order.u16(block, 8).into());
        Ok(Interface { link, snaplen: self.order.u32(block, 12), clock })
    }
}

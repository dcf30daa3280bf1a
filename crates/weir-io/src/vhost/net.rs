//! Packets in rings, as a network device has them (virtio 1.2 section 5.1.6): each begins with a header that says what is
//! left to do of it.

use std::os::fd::{AsFd, BorrowedFd};

use weir_packet::{Checksum, Gso, MAX_LEN, Packet};

use super::device::Signal;
use super::memory::Memory;
use super::ring::{Fault, Ring, Segment};
use crate::shared::signal;
use crate::shared::watch::Source;
use crate::{offload, vnet};

/// Bytes of an Ethernet header.
pub const SHORTEST: usize = 14;
/// Bytes of the header with the number of buffers at its end.
const LONG_HEADER: usize = vnet::LEN + 2;

/// The driver may leave checksums to us (`VIRTIO_NET_F_CSUM`), and we to it (`VIRTIO_NET_F_GUEST_CSUM`).
const CSUM: u64 = 1;
const GUEST_CSUM: u64 = 1 << 1;
/// We may give it packets that are to be segmented, or were joined (`VIRTIO_NET_F_GUEST_TSO4`, `…TSO6`, `…ECN`).
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const GUEST_ECN: u64 = 1 << 9;
/// It may give us such (`VIRTIO_NET_F_HOST_TSO4`, `…TSO6`, `…ECN`).
const HOST_TSO: u64 = 1 << 11 | 1 << 12 | 1 << 13;
/// A packet may take several buffers (`VIRTIO_NET_F_MRG_RXBUF`).
const MERGEABLE: u64 = 1 << 15;
/// `VIRTIO_F_VERSION_1`.
const VERSION_1: u64 = 1 << 32;
/// What is offered of this.
pub const OFFERED: u64 =
    CSUM | GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | GUEST_ECN | HOST_TSO | MERGEABLE | VERSION_1;

/// Bytes of the header before each packet.
fn header_len(features: u64) -> usize {
    if features & (VERSION_1 | MERGEABLE) == 0 { vnet::LEN } else { LONG_HEADER }
}

/// Memory for the buffers of chains, which is used again.
#[derive(Debug, Default)]
pub struct Scratch {
    segments: Vec<Segment>,
    /// Of each chain, its head and the bytes of its buffers.
    chains: Vec<(u16, u64)>,
}

/// State that both directions need.
#[derive(Debug)]
pub struct Side<'a> {
    /// The ring.
    pub ring: &'a mut Ring,
    /// The memory.
    pub memory: &'a Memory,
    /// What the driver sleeps on; it may want to be asked otherwise.
    pub call: Option<&'a Signal>,
    /// What both sides have agreed on.
    pub features: u64,
    /// Memory for chains.
    pub scratch: &'a mut Scratch,
}

impl Side<'_> {
    /// Shows the driver that so many chains were used, and signals if it wants that.
    fn publish(&mut self, count: u16) -> Result<(), Fault> {
        if count == 0 {
            return Ok(());
        }
        self.ring.publish(count)?;
        if let Some(call) = self.call.filter(|_| self.ring.wants_signal()) {
            // Nothing else can be done about a driver that cannot be signalled.
            let _ = signal::send(call.as_fd());
        }
        Ok(())
    }
}

/// The ring by which the driver sends.
#[derive(Debug)]
pub struct Receiver<'a> {
    /// The ring and what belongs to it.
    pub side: Side<'a>,
    /// What is readable when the driver has signalled.
    pub kick: BorrowedFd<'a>,
    /// Whether there is more, but enough was done.
    pub cut: bool,
}

impl Source for Receiver<'_> {
    type Fault = Fault;

    /// What is no packet is too short for Ethernet, too long, not within the memory, or has a header that does not fit it. After as
    /// many descriptors as the ring has, the rest waits for the next time.
    fn take(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<u64, Fault> {
        let (before, mut at, mut malformed, mut read) = (out.len(), 0, 0, 0_u32);
        self.cut = false;
        let filled = self.side.ring.filled()?;
        let mut result = Ok(());
        while at < filled && out.len() - before < max {
            self.cut = read >= u32::from(self.side.ring.size());
            if self.cut {
                break;
            }
            match self.one(at) {
                Ok((packet, descriptors)) => {
                    at += 1;
                    read += u32::from(descriptors);
                    match packet {
                        Some(packet) => out.push(packet),
                        None => malformed += 1,
                    }
                }
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        self.side.publish(at)?;
        result.map(|()| malformed)
    }

    fn filled(&self) -> Result<u16, Fault> {
        self.side.ring.filled()
    }

    fn is_cut(&self) -> bool {
        self.cut
    }

    fn want_signals(&self, wanted: bool) {
        self.side.ring.want_signals(wanted);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.kick
    }
}

impl Receiver<'_> {
    /// The packet of a chain, `None` if it is none, and how many descriptors were read. The chain is used.
    #[inline]
    fn one(&mut self, at: u16) -> Result<(Option<Packet>, u16), Fault> {
        let Side { ring, memory, features, scratch, .. } = &mut self.side;
        let head = ring.head(at)?;
        scratch.segments.clear();
        let read = ring.chain(memory, head, &mut scratch.segments)?;
        let packet = packet(memory, &scratch.segments, header_len(*features));
        ring.set_used(at, head, 0)?;
        Ok((packet, read))
    }
}

/// The packet in these buffers, behind its header; `None` if it is none.
#[inline]
fn packet(memory: &Memory, segments: &[Segment], header_len: usize) -> Option<Packet> {
    let all: u64 = segments.iter().map(|s| u64::from(s.len)).sum();
    let len = usize::try_from(all).ok()?.checked_sub(header_len)?;
    if !(SHORTEST..=MAX_LEN).contains(&len) || segments.iter().any(|s| s.writable) {
        return None;
    }
    let mut header = [0; LONG_HEADER];
    let mut packet = Packet::with_capacity(len).ok()?;
    packet.put(len as u32).ok()?;
    let (mut to_header, mut to_packet) = (&mut header[..header_len], packet.bytes_mut());
    for segment in segments {
        let mut address = segment.address;
        let mut rest = segment.len as usize;
        for to in [&mut to_header, &mut to_packet] {
            let len = rest.min(to.len());
            let (now, behind) = std::mem::take(to).split_at_mut(len);
            if !now.is_empty() && !memory.read(address, now) {
                return None;
            }
            rest -= now.len();
            address = address.checked_add(now.len() as u64)?;
            *to = behind;
        }
    }
    // Nothing of what its memory held before is left.
    if !to_packet.is_empty() {
        return None;
    }
    let (first, _) = header.split_first_chunk::<{ vnet::LEN }>()?;
    if *first != [0; vnet::LEN] {
        vnet::decode(*first, &mut packet).ok()?;
    }
    Some(packet)
}

/// The ring by which the driver receives.
#[derive(Debug)]
pub struct Sender<'a> {
    /// The ring and what belongs to it.
    pub side: Side<'a>,
    /// How many chains were available when it was last looked. The driver writes there, so that to look costs a little.
    available: u16,
    /// How many of them were filled.
    filled: u16,
    /// How many descriptors were read.
    read: u32,
}

/// The outcome of putting a packet into the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is in the ring.
    Done,
    /// There are too few buffers now.
    Later,
    /// It is longer than any buffers will be.
    TooLong,
}

impl<'a> Sender<'a> {
    /// Nothing is in it yet.
    pub fn new(side: Side<'a>) -> Sender<'a> {
        Sender { side, available: 0, filled: 0, read: 0 }
    }

    /// Prepares the packet at position `i` of a batch for what the driver can do: checksums and segmentation that it cannot are done.
    /// Returns its header.
    ///
    /// # Errors
    /// If it does not fit what is left to do of it.
    pub fn header(
        &self,
        batch: &mut Vec<Packet>,
        i: usize,
    ) -> Result<[u8; vnet::LEN], offload::OffloadError> {
        let packet = &mut batch[i];
        let has = |feature| self.side.features & feature == feature;
        let gso = offload::gso(packet);
        let can = match gso {
            // With nothing to do, the header has nothing in it.
            Gso::None if packet.checksum() != Checksum::Partial => return Ok([0; vnet::LEN]),
            Gso::None => has(GUEST_CSUM),
            // Segments of a packet with the congestion flag set are to be made otherwise.
            Gso::TcpV4 => has(GUEST_CSUM | GUEST_TSO4 | GUEST_ECN),
            Gso::TcpV6 => has(GUEST_CSUM | GUEST_TSO6 | GUEST_ECN),
            Gso::Udp => false,
        };
        if can {
            return vnet::encode(packet);
        }
        offload::finish(batch, i)?;
        Ok([0; vnet::LEN])
    }

    /// Puts a packet into available buffers. The driver sees it after [`publish`](Sender::publish).
    ///
    /// # Errors
    /// If a buffer is none.
    #[inline]
    pub fn put(&mut self, header: [u8; vnet::LEN], bytes: &[u8]) -> Result<Put, Fault> {
        let Side { ring, memory, features, scratch, .. } = &mut self.side;
        let (header_len, mergeable) = (header_len(*features), *features & MERGEABLE != 0);
        let need = (header_len + bytes.len()) as u64;
        scratch.segments.clear();
        scratch.chains.clear();
        let mut space = 0_u64;
        while space < need {
            let count = scratch.chains.len() as u16;
            if count > 0 && !mergeable {
                return Ok(Put::TooLong);
            }
            if self.filled + count == self.available {
                self.available = ring.filled()?;
            }
            if self.filled + count >= self.available {
                // A driver may never give all of its buffers, so half of them are to do.
                let never = self.filled == 0 && self.available >= (ring.size() / 2).max(1);
                return Ok(if never { Put::TooLong } else { Put::Later });
            }
            if self.read >= 2 * u32::from(ring.size()) {
                // Enough for now. Buffers of which not even one packet is filled by so many are too small.
                return if self.filled > 0 { Ok(Put::Later) } else { Err(Fault::Small(bytes.len())) };
            }
            let (at, first) = (self.filled + count, scratch.segments.len());
            let head = ring.head(at)?;
            self.read += u32::from(ring.chain(memory, head, &mut scratch.segments)?);
            let chain = &scratch.segments[first..];
            let len: u64 = chain.iter().map(|s| u64::from(s.len)).sum();
            if len == 0 || chain.iter().any(|s| !s.writable) {
                return Err(Fault::Buffer(head));
            }
            space += len;
            scratch.chains.push((head, len));
        }
        let mut long = [0; LONG_HEADER];
        long[..vnet::LEN].copy_from_slice(&header);
        long[vnet::LEN..].copy_from_slice(&(scratch.chains.len() as u16).to_le_bytes());
        write(memory, &scratch.segments, &long[..header_len], bytes)
            .ok_or(Fault::Buffer(scratch.chains[0].0))?;
        let mut rest = need;
        for &(head, len) in &scratch.chains {
            let now = rest.min(len);
            ring.set_used(self.filled, head, now as u32)?;
            rest -= now;
            self.filled += 1;
        }
        Ok(Put::Done)
    }

    /// Shows the driver what was put in.
    ///
    /// # Errors
    /// If the ring is gone.
    pub fn publish(&mut self) -> Result<(), Fault> {
        let count = std::mem::take(&mut self.filled);
        self.available = 0;
        self.side.publish(count)
    }
}

/// Writes a header and a packet into buffers; `None` if these are not within the memory.
#[inline]
fn write<'a>(memory: &Memory, segments: &[Segment], mut header: &'a [u8], mut bytes: &'a [u8]) -> Option<()> {
    for segment in segments {
        let mut address = segment.address;
        let mut left = segment.len as usize;
        for from in [&mut header, &mut bytes] {
            let (now, behind) = from.split_at(left.min(from.len()));
            if !now.is_empty() && !memory.write(address, now) {
                return None;
            }
            left -= now.len();
            address = address.checked_add(now.len() as u64)?;
            *from = behind;
        }
    }
    Some(())
}

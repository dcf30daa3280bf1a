//! The receive ring that a packet socket shares with the kernel (`TPACKET_V2`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::sys;
use crate::vnet;

/// Memory that the kernel allocates at once; a multiple of every page and frame size in use.
const BLOCK: usize = 1 << 17;

/// The ring. Each frame belongs to the kernel or to us, as its status word says.
#[derive(Debug)]
pub struct Ring {
    memory: NonNull<u8>,
    frames: usize,
    frame_size: usize,
    next: usize,
    /// Whether another process may have received some of the next frames.
    stale: bool,
}

// SAFETY: the mapping belongs to this value alone and is not bound to a thread.
unsafe impl Send for Ring {}

/// A frame that the kernel filled.
pub struct Frame<'a> {
    /// The bytes from the link header on, cut if they did not fit.
    pub bytes: &'a [u8],
    /// Length of the link header.
    pub network: usize,
    /// Length of the whole frame.
    pub len: usize,
    /// Whether the whole frame waits in the queue of the socket.
    pub queued: bool,
    /// Whether the kernel verified the transport checksum.
    pub checksum_valid: bool,
    /// VLAN tag that the kernel took out of the frame: protocol and control information.
    pub vlan: Option<(u16, u16)>,
    /// Time of arrival, nanoseconds since the epoch.
    pub timestamp: u64,
    /// `PACKET_HOST` and so on.
    pub packet_type: u8,
    /// The virtio-net header.
    pub vnet: [u8; vnet::LEN],
}

impl Ring {
    /// Gives a socket a ring of at least `frames` frames. A frame holds packets up to `payload` bytes.
    pub fn new(fd: &OwnedFd, frames: usize, payload: usize) -> io::Result<Ring> {
        // Before the bytes stand two structures, the virtio-net header and alignment: less than 128 bytes together.
        let frame_size = (payload + 128).next_power_of_two().clamp(2048, BLOCK);
        let blocks = (frames.max(1) * frame_size).div_ceil(BLOCK);
        let frames = blocks * (BLOCK / frame_size);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame_size as u32,
            tp_frame_nr: frames as u32,
        };
        sys::set_option(
            fd,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as i32,
        )?;
        sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        Ring::map(fd, [frames, frame_size, 0])
    }

    /// The ring that a socket has: its number of frames, their size, and the frame that comes next.
    pub fn map(fd: &OwnedFd, [frames, frame_size, next]: [usize; 3]) -> io::Result<Ring> {
        if frames == 0
            || next >= frames
            || !(16..=BLOCK).contains(&frame_size)
            || !BLOCK.is_multiple_of(frame_size)
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choice; the kernel refuses any other size than that of the ring.
        let memory = unsafe {
            let size = frames * frame_size;
            libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { memory, frames, frame_size, next, stale: false })
    }

    /// What [`map`](Ring::map) needs to know.
    pub fn place(&self) -> [usize; 3] {
        [self.frames, self.frame_size, self.next]
    }

    /// Says that another process may have received frames of this ring, so that the next one may be further on.
    pub fn mark_stale(&mut self) {
        self.stale = true;
    }

    /// Goes to the first frame that the kernel has filled, if there is one.
    #[cold]
    fn look_for_next(&mut self) -> bool {
        let filled = (0..self.frames).map(|i| (self.next + i) % self.frames).find(|i| {
            // SAFETY: `i` is below `frames`, so that the frame lies in the mapping.
            let base = unsafe { self.memory.add(i * self.frame_size) };
            // SAFETY: the status word is the first field of the frame; kernel and process access it atomically.
            let status = unsafe { AtomicU32::from_ptr(base.cast::<u32>().as_ptr()) };
            status.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
        });
        if let Some(next) = filled {
            (self.next, self.stale) = (next, false);
        }
        filled.is_some()
    }

    /// Passes the next filled frame to `f` and gives it back to the kernel. `None` if there is none.
    pub fn next<R>(&mut self, f: impl FnOnce(Frame<'_>) -> R) -> Option<R> {
        // SAFETY: `next` is below `frames`, so that the frame lies in the mapping; frames are aligned to 2048 bytes.
        let base = unsafe { self.memory.add(self.next * self.frame_size) };
        // SAFETY: the status word is the first field of the frame; kernel and process access it atomically.
        let status = unsafe { AtomicU32::from_ptr(base.cast::<u32>().as_ptr()) };
        let bits = status.load(Ordering::Acquire);
        if bits & libc::TP_STATUS_USER == 0 {
            return if self.stale && self.look_for_next() { self.next(f) } else { None };
        }
        // SAFETY: the kernel has handed this frame over (acquire load above) and leaves it alone until the status is
        // reset below; the slice does not outlive this call, and `self` is borrowed exclusively.
        let frame = unsafe { std::slice::from_raw_parts(base.as_ptr(), self.frame_size) };
        let result = f(parse(frame, bits));
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.frames { 0 } else { self.next + 1 };
        Some(result)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.frames * self.frame_size) };
    }
}

/// Reads a frame: `struct tpacket2_hdr`, `struct sockaddr_ll`, padding, virtio-net header, bytes.
fn parse(frame: &[u8], status: u32) -> Frame<'_> {
    let u16_at = |at: usize| u16::from_ne_bytes([frame[at], frame[at + 1]]);
    let u32_at = |at: usize| u32::from_ne_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    let (len, kept, start) = (u32_at(4) as usize, u32_at(8) as usize, usize::from(u16_at(12)));
    let address = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
    let mut vnet = [0; vnet::LEN];
    if let Some(header) = start.checked_sub(vnet::LEN).and_then(|at| frame.get(at..start)) {
        vnet.copy_from_slice(header);
    }
    let has_tag = status & libc::TP_STATUS_VLAN_VALID != 0;
    let protocol = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { u16_at(26) } else { 0x8100 };
    Frame {
        bytes: frame.get(start..start + kept).unwrap_or(&[]),
        network: usize::from(u16_at(14)).saturating_sub(start),
        len,
        queued: status & libc::TP_STATUS_COPY != 0,
        checksum_valid: status & libc::TP_STATUS_CSUM_VALID != 0,
        vlan: has_tag.then(|| (protocol, u16_at(24))),
        timestamp: u64::from(u32_at(16)) * 1_000_000_000 + u64::from(u32_at(20)),
        packet_type: frame[address + 10],
        vnet,
    }
}

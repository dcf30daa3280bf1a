//! One AF_XDP socket: a queue of an interface, with its memory (UMEM) and four rings.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{xdp_desc, xdp_mmap_offsets, xdp_umem_reg};
use weir_packet::{Buffers, Packet};

use super::ring::{Mapping, Ring};
use crate::af_packet::sys;

/// Bytes of an Ethernet header.
const SHORTEST: usize = 14;

/// Bytes that the kernel keeps free before a packet that it puts into a frame.
const KERNEL_HEADROOM: usize = 256;
/// Most system calls that one [`Socket::kick`] makes; each sends 32 packets in copy mode.
const KICKS: u32 = 64;

/// The queue and its rings.
#[derive(Debug)]
pub struct Socket {
    // The socket is closed first: the kernel then lets go of the rings and the memory.
    fd: OwnedFd,
    rx: Ring<xdp_desc>,
    fill: Ring<u64>,
    tx: Ring<xdp_desc>,
    completion: Ring<u64>,
    memory: Mapping,
    frame: usize,
    /// Addresses of frames to send from.
    free: Vec<u64>,
    busy_poll: bool,
}

/// The result of asking the kernel to send.
#[derive(Debug, Default)]
pub struct Kicked {
    /// Packets that the device refused, and their bytes.
    pub refused: (u64, u64),
    /// Why it stopped before everything was sent.
    pub error: Option<io::Error>,
}

impl Socket {
    /// A socket with two rings of `packets` packets (a power of two), each packet of at most `longest` bytes. It
    /// receives nothing yet.
    pub fn new(packets: u32, longest: usize, busy_poll: Option<Duration>) -> io::Result<Socket> {
        let frame = (longest + KERNEL_HEADROOM).next_power_of_two().max(2048);
        if frame > 4096 {
            // Frames end within a page of memory.
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("its packets have up to {longest} bytes; AF_XDP takes {}", 4096 - KERNEL_HEADROOM),
            ));
        }
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, valid and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let memory = Mapping::anonymous(2 * packets as usize * frame)?;
        let registration = xdp_umem_reg {
            addr: memory.address() as u64,
            len: memory.len() as u64,
            chunk_size: frame as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        let set = |option, value: u32| sys::set_option(&fd, libc::SOL_XDP, option, value);
        sys::set_option(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, registration)?;
        set(libc::XDP_UMEM_FILL_RING, packets)?;
        set(libc::XDP_UMEM_COMPLETION_RING, packets)?;
        set(libc::XDP_RX_RING, packets)?;
        set(libc::XDP_TX_RING, packets)?;
        if let Some(time) = busy_poll {
            let micros = i32::try_from(time.as_micros()).unwrap_or(i32::MAX);
            for (option, value) in [
                (libc::SO_PREFER_BUSY_POLL, 1),
                (libc::SO_BUSY_POLL, micros),
                (libc::SO_BUSY_POLL_BUDGET, 64),
            ] {
                sys::set_option(&fd, libc::SOL_SOCKET, option, value)?;
            }
        }
        let at = offsets(&fd)?;
        let mut fill = Ring::map(&fd, libc::XDP_UMEM_PGOFF_FILL_RING as i64, &at.fr, packets)?;
        for i in 0..u64::from(packets) {
            fill.push(i * frame as u64);
        }
        fill.publish();
        Ok(Socket {
            rx: Ring::map(&fd, libc::XDP_PGOFF_RX_RING, &at.rx, packets)?,
            tx: Ring::map(&fd, libc::XDP_PGOFF_TX_RING, &at.tx, packets)?,
            completion: Ring::map(&fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, &at.cr, packets)?,
            fill,
            free: (u64::from(packets)..2 * u64::from(packets)).map(|i| i * frame as u64).collect(),
            fd,
            memory,
            frame,
            busy_poll: busy_poll.is_some(),
        })
    }

    /// Binds to a queue of an interface. The kernel copies packets unless the driver can do without.
    pub fn bind(&self, index: u32, queue: u32) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address and length are those of `address`.
        let r = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) };
        if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The descriptor, which is readable while there are packets.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Whether the driver puts packets into the memory itself, without a copy.
    pub fn zero_copy(&self) -> bool {
        sys::get_option::<u32>(&self.fd, libc::SOL_XDP, libc::XDP_OPTIONS)
            .is_ok_and(|flags| flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Packets that the kernel dropped because no frame or no place in the ring was free.
    pub fn dropped(&self) -> u64 {
        // struct xdp_statistics: rx_dropped, rx_invalid_descs, tx_invalid_descs, rx_ring_full, and two more.
        let stats: io::Result<[u64; 6]> = sys::get_option(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS);
        stats.map_or(0, |s| s[0] + s[3])
    }

    /// Adds up to `max` received packets to `out`, and gives their frames back to the kernel. Returns how many there
    /// were: what is too short for Ethernet, or outside of the memory, becomes no packet.
    pub fn receive(&mut self, max: u32, out: &mut Vec<Packet>) -> u32 {
        let Socket { rx, fill, memory, frame, .. } = self;
        let mut received = rx.entries(max);
        let n = received.len() as u32;
        while received.len() > 0 {
            let (mut frames, mut count) = ([&[][..]; Buffers::MOST], 0);
            for d in received.by_ref().take(Buffers::MOST) {
                if let Some(b) = bytes(memory, d.addr, d.len as usize).filter(|b| b.len() >= SHORTEST) {
                    frames[count] = b;
                    count += 1;
                }
            }
            // A frame is never too long for a packet.
            let _ = Packet::from_frames(&frames[..count], out);
        }
        drop(received);
        for d in rx.entries(n) {
            // There is space: the ring has a place for each frame that is received into.
            fill.push(d.addr - d.addr % *frame as u64);
        }
        rx.release(n);
        if n > 0 {
            fill.publish();
        }
        if fill.needs_wakeup() || (n == 0 && self.busy_poll) {
            self.wake_receiver();
        }
        n
    }

    /// Lets the driver look for packets and free frames.
    fn wake_receiver(&self) {
        // SAFETY: no memory is passed.
        unsafe {
            let (null, flags) = (std::ptr::null_mut(), libc::MSG_DONTWAIT);
            // It answers that there is nothing to read, which is always so with these sockets.
            libc::recvfrom(self.fd.as_raw_fd(), null, 0, flags, null.cast(), std::ptr::null_mut());
        }
    }

    /// Puts a packet into the ring to send; `false` if there is no space. It fits a frame.
    pub fn queue(&mut self, packet: &[u8]) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        if packet.len() > self.frame || self.tx.free() == 0 {
            return false;
        }
        let Some(addr) = self.free.pop() else { return false };
        // SAFETY: frames of `free` lie in the memory and are ours alone; the packet is not longer than a frame.
        unsafe {
            let to = self.memory.address().add(addr as usize);
            std::ptr::copy_nonoverlapping(packet.as_ptr(), to, packet.len());
        }
        self.tx.push(xdp_desc { addr, len: packet.len() as u32, options: 0 })
    }

    /// Takes back the frames that were sent.
    fn reclaim(&mut self) {
        let (entries, frame) = (self.completion.entries(u32::MAX), self.frame as u64);
        let n = entries.len() as u32;
        self.free.extend(entries.map(|addr| addr - addr % frame));
        self.completion.release(n);
    }

    /// Longest packet in bytes.
    pub fn longest(&self) -> usize {
        self.frame
    }

    /// Lets the kernel send what is in the ring.
    pub fn kick(&mut self) -> Kicked {
        self.tx.publish();
        let mut done = Kicked::default();
        for _ in 0..KICKS {
            if self.tx.waiting() == 0 || !self.tx.needs_wakeup() {
                break;
            }
            // SAFETY: no memory is passed.
            let r = unsafe {
                let flags = libc::MSG_DONTWAIT;
                libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, flags, std::ptr::null(), 0)
            };
            if r >= 0 {
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // The device dropped the packet that the kernel took out last.
                Some(libc::EBUSY) => {
                    done.refused.0 += 1;
                    done.refused.1 += u64::from(self.tx.last_taken().len);
                }
                // Its budget is used up, or the device is: the number of rounds bounds both.
                Some(libc::EAGAIN | libc::EINTR) => {}
                _ => {
                    done.error = Some(error);
                    break;
                }
            }
        }
        self.reclaim();
        done
    }
}

/// The bytes that a descriptor names.
fn bytes(memory: &Mapping, addr: u64, len: usize) -> Option<&[u8]> {
    let start = usize::try_from(addr).ok()?;
    if start.checked_add(len)? > memory.len() {
        return None;
    }
    // SAFETY: the bytes lie in the memory, which the kernel has initialised. The kernel has handed the frame over and
    // writes into it only after it came back by the fill ring; frames that are sent are others.
    Some(unsafe { std::slice::from_raw_parts(memory.address().add(start), len) })
}

fn offsets(fd: &OwnedFd) -> io::Result<xdp_mmap_offsets> {
    // SAFETY: all fields are integers.
    let mut value: xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    let r = unsafe {
        let to = (&raw mut value).cast();
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, to, &raw mut len)
    };
    match r {
        0 if len as usize == size_of_val(&value) => Ok(value),
        0 => Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel is older than Linux 5.4")),
        _ => Err(io::Error::last_os_error()),
    }
}

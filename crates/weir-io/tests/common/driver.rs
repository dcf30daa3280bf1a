//! The other side of a vhost-user port: a front end, whose messages the crate `vhost` writes, and a network driver, which is
//! written here. It reaches its memory by reading and writing its file.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;
use weir_io::{Lost, Port, PortError, PortStats};
use weir_packet::{Packet, entry};

/// The ring by which the driver receives, and that by which it sends.
pub const RX: usize = 0;
pub const TX: usize = 1;

/// Features (virtio 1.2 sections 5.1.3 and 6).
pub const CSUM: u64 = 1;
pub const GUEST_CSUM: u64 = 1 << 1;
pub const GUEST_TSO4: u64 = 1 << 7;
pub const GUEST_ECN: u64 = 1 << 9;
pub const HOST_TSO4: u64 = 1 << 11;
pub const MERGEABLE: u64 = 1 << 15;
pub const INDIRECT: u64 = 1 << 28;
pub const PROTOCOL: u64 = 1 << 30;
pub const VERSION_1: u64 = 1 << 32;

/// Bytes of the memory, of which the first megabyte is a region for rings, the rest one for buffers.
pub const MEMORY: u64 = 8 << 20;
const RINGS: u64 = 1 << 20;
/// Where descriptors, available and used entries are in the memory, of the ring of a number.
pub const fn descriptors(ring: usize) -> u64 {
    ring as u64 * 0x4_0000
}
pub const fn available(ring: usize) -> u64 {
    descriptors(ring) + 0x1_0000
}
pub const fn used(ring: usize) -> u64 {
    descriptors(ring) + 0x2_0000
}
/// Where buffers to send from begin, and bytes of each.
const SEND: u64 = 2 << 20;
const SEND_SIZE: u64 = 80 << 10;
/// Descriptors of a packet that is sent.
const PARTS: u16 = 4;
/// Where buffers to receive into begin.
const RECEIVE: u64 = RINGS;

/// How a driver sets itself up.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The features that it wants.
    pub features: u64,
    /// Descriptors of a ring.
    pub size: u16,
    /// Bytes of a buffer to receive into.
    pub buffer: u64,
    /// Whether its memory cannot shrink.
    pub sealed: bool,
    /// Whether it begins with buffers to receive into.
    pub fill: bool,
    /// Whether it enables its rings.
    pub enable: bool,
    /// Where its rings begin.
    pub base: u16,
}

impl Default for Setup {
    fn default() -> Setup {
        let features = MERGEABLE | INDIRECT | PROTOCOL | VERSION_1;
        Setup { features, size: 256, buffer: 2048, sealed: true, fill: true, enable: true, base: 0 }
    }
}

/// A driver and its front end.
pub struct Driver {
    pub file: File,
    pub frontend: Frontend,
    pub setup: Setup,
    pub kicks: [EventFd; 2],
    pub calls: [EventFd; 2],
    /// How far the driver is in the available entries, and in the used ones.
    pub available: [u16; 2],
    used: [u16; 2],
    /// Buffers to send from.
    free: VecDeque<u16>,
    sent: u32,
    name: String,
    stats: PortStats,
}

/// Memory of a driver.
pub fn memory(sealed: bool) -> File {
    let fd = memfd_create(c"driver", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    nix::unistd::ftruncate(&fd, MEMORY as i64).unwrap();
    if sealed {
        fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
    }
    fd.into()
}

/// The address of a place of the memory, as descriptors have it.
pub fn guest(at: u64) -> u64 {
    if at < RINGS { 0x1_0000_0000 + at } else { 0x2000_0000 + at }
}

/// The address of a place of the memory in the front end's process.
pub fn user(at: u64) -> u64 {
    if at < RINGS { 0x7f00_0000_0000 + at } else { 0x7e00_0000_0000 + at }
}

/// Regions as they are said to be: guest address, user address, bytes, offset in the file.
pub fn regions() -> [[u64; 4]; 2] {
    [[guest(0), user(0), RINGS, 0], [guest(RINGS), user(RINGS), MEMORY - RINGS, RINGS]]
}

impl Driver {
    /// Connects, and starts both rings.
    pub fn connect(path: &Path, setup: Setup) -> Driver {
        let mut driver = Driver::new(Frontend::connect(path, 2).unwrap(), setup);
        driver.greet();
        driver.share(&regions());
        driver.start();
        driver
    }

    /// Nothing is said yet.
    pub fn new(frontend: Frontend, setup: Setup) -> Driver {
        let eventfd = || EventFd::new(libc::EFD_NONBLOCK).unwrap();
        Driver {
            file: memory(setup.sealed),
            frontend,
            kicks: [eventfd(), eventfd()],
            calls: [eventfd(), eventfd()],
            available: [setup.base; 2],
            used: [setup.base; 2],
            free: (0..setup.size / PARTS).collect(),
            setup,
            sent: 0,
            name: "driver".to_owned(),
            stats: PortStats::default(),
        }
    }

    /// Agrees on features.
    pub fn greet(&mut self) {
        let f = &mut self.frontend;
        f.set_owner().unwrap();
        let offered = f.get_features().unwrap();
        assert_eq!(offered & self.setup.features, self.setup.features, "all of that is offered");
        f.set_features(self.setup.features).unwrap();
        if self.setup.features & PROTOCOL != 0 {
            let protocol = f.get_protocol_features().unwrap();
            assert_eq!(protocol, VhostUserProtocolFeatures::REPLY_ACK);
            f.set_protocol_features(protocol).unwrap();
            // From here on, each message is answered when it was followed.
            f.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        }
    }

    /// Shares memory.
    pub fn share(&self, regions: &[[u64; 4]]) {
        self.try_share(regions).unwrap();
    }

    pub fn try_share(&self, regions: &[[u64; 4]]) -> vhost::Result<()> {
        let info = |&[guest_phys_addr, userspace_addr, memory_size, mmap_offset]: &[u64; 4]| {
            let mmap_handle = self.file.as_raw_fd();
            VhostUserMemoryRegionInfo {
                guest_phys_addr,
                memory_size,
                userspace_addr,
                mmap_offset,
                mmap_handle,
            }
        };
        self.frontend.set_mem_table(&regions.iter().map(info).collect::<Vec<_>>()).map(drop)
    }

    /// Starts both rings.
    pub fn start(&mut self) {
        if self.setup.fill {
            self.fill();
        }
        for ring in [RX, TX] {
            // The rings of a driver that has been at work before.
            self.write(used(ring) + 2, &self.used[ring].to_le_bytes());
            self.write(available(ring) + 2, &self.available[ring].to_le_bytes());
            self.start_ring(ring, user(descriptors(ring))).unwrap();
        }
    }

    pub fn start_ring(&mut self, ring: usize, table: u64) -> vhost::Result<()> {
        let f = &mut self.frontend;
        f.set_vring_num(ring, self.setup.size)?;
        f.set_vring_base(ring, self.used[ring])?;
        f.set_vring_addr(
            ring,
            &VringConfigData {
                queue_max_size: self.setup.size,
                queue_size: self.setup.size,
                flags: 0,
                desc_table_addr: table,
                used_ring_addr: user(used(ring)),
                avail_ring_addr: user(available(ring)),
                log_addr: None,
            },
        )?;
        f.set_vring_call(ring, &self.calls[ring])?;
        f.set_vring_kick(ring, &self.kicks[ring])?;
        if self.setup.features & PROTOCOL != 0 && self.setup.enable {
            f.set_vring_enable(ring, true)?;
        }
        Ok(())
    }

    /// Stops both rings; their positions are those of the driver, as far as the device was.
    pub fn stop(&mut self) -> [u32; 2] {
        [RX, TX].map(|ring| self.frontend.get_vring_base(ring).unwrap())
    }

    /// Gives all buffers to receive into.
    pub fn fill(&mut self) {
        for slot in 0..self.setup.size {
            let at = guest(RECEIVE + u64::from(slot) * self.setup.buffer);
            self.descriptor(RX, slot, at, self.setup.buffer as u32, 2, 0);
            self.offer(RX, slot);
        }
        self.show(RX);
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, at).unwrap();
    }

    pub fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    fn read_half(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.read(at, 2).try_into().unwrap())
    }

    /// Writes a descriptor.
    pub fn descriptor(&self, ring: usize, slot: u16, at: u64, len: u32, flags: u16, next: u16) {
        self.write(descriptors(ring) + u64::from(slot) * 16, &packed(at, len, flags, next));
    }

    /// Makes the chain of this head available, when that is shown.
    pub fn offer(&mut self, ring: usize, head: u16) {
        let slot = u64::from(self.available[ring] % self.setup.size);
        self.write(available(ring) + 4 + 2 * slot, &head.to_le_bytes());
        self.available[ring] = self.available[ring].wrapping_add(1);
    }

    /// Shows what is available, and signals if the device wants that.
    pub fn show(&self, ring: usize) {
        self.write(available(ring) + 2, &self.available[ring].to_le_bytes());
        if self.read_half(used(ring)) & 1 == 0 {
            self.kicks[ring].write(1).unwrap();
        }
    }

    /// Where the device is.
    pub fn used_position(&self, ring: usize) -> u16 {
        self.read_half(used(ring) + 2)
    }

    /// The next chain that the device has used, and the bytes that it has written to it.
    pub fn take_used(&mut self, ring: usize) -> Option<(u16, u32)> {
        if self.used[ring] == self.used_position(ring) {
            return None;
        }
        let slot = u64::from(self.used[ring] % self.setup.size);
        let entry = self.read(used(ring) + 4 + 8 * slot, 8);
        self.used[ring] = self.used[ring].wrapping_add(1);
        let word = |i| u32::from_le_bytes(entry[i..i + 4].try_into().unwrap());
        Some((u16::try_from(word(0)).unwrap(), word(4)))
    }

    /// The driver begins again: nothing more comes back of what it has offered in the ring by which it sends.
    pub fn take_back(&mut self) {
        while let Some((head, _)) = self.take_used(TX) {
            self.free.push_back(head / PARTS);
        }
    }

    fn header_len(&self) -> usize {
        if self.setup.features & (VERSION_1 | MERGEABLE) == 0 { 10 } else { 12 }
    }

    /// Puts a packet with this header into the ring, in one of several shapes; `false` if there is no room. It is to be shown.
    pub fn put(&mut self, header: &[u8; 10], frame: &[u8]) -> bool {
        while let Some((head, written)) = self.take_used(TX) {
            assert_eq!((head % PARTS, written), (0, 0));
            self.free.push_back(head / PARTS);
        }
        let Some(slot) = self.free.pop_front() else { return false };
        let (head, start) = (slot * PARTS, SEND + u64::from(slot) * SEND_SIZE);
        let mut bytes = header.to_vec();
        bytes.resize(self.header_len(), 0);
        bytes.extend_from_slice(frame);
        // Behind it, room for a table of descriptors.
        assert!(bytes.len() as u64 + 64 < SEND_SIZE);
        self.write(start, &bytes);
        let (all, header) = (bytes.len() as u32, self.header_len() as u32);
        let at = |offset: u32| guest(start + u64::from(offset));
        self.sent += 1;
        let indirect = self.setup.features & INDIRECT != 0;
        match self.sent % 4 {
            0 => self.descriptor(TX, head, at(0), all, 0, 0),
            1 => {
                self.descriptor(TX, head, at(0), header, 1, head + 2);
                self.descriptor(TX, head + 2, at(header), all - header, 0, 0);
            }
            2 if indirect => {
                let table = start + SEND_SIZE - 48;
                self.write(table, &packed(at(0), 5, 1, 2));
                self.write(table + 32, &packed(at(5), all - 5, 0, 0));
                self.descriptor(TX, head, guest(table), 48, 4, 0);
            }
            _ => {
                self.descriptor(TX, head, at(0), header + 3, 1, head + 3);
                self.descriptor(TX, head + 3, at(header + 3), 7, 1, head + 1);
                self.descriptor(TX, head + 1, at(header + 10), all - header - 10, 0, 0);
            }
        }
        self.offer(TX, head);
        true
    }

    /// The header and the bytes of the next packet that the device has sent. Its buffers are given again.
    pub fn get(&mut self) -> Option<([u8; 10], Vec<u8>)> {
        let (mut slot, mut len) = self.take_used(RX)?;
        let (mut all, mut count, mut seen) = (Vec::new(), 1, 0);
        loop {
            let at = RECEIVE + u64::from(slot) * self.setup.buffer;
            all.extend(self.read(at, len as usize));
            seen += 1;
            if seen == 1 && self.setup.features & MERGEABLE != 0 {
                count = u16::from_le_bytes(all[10..12].try_into().unwrap());
            }
            self.offer(RX, slot);
            if seen == count {
                break;
            }
            // All of them were shown at once.
            (slot, len) = self.take_used(RX).unwrap();
        }
        self.show(RX);
        let frame = all.split_off(self.header_len());
        Some((all[..10].try_into().unwrap(), frame))
    }
}

fn packed(at: u64, len: u32, flags: u16, next: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&at.to_le_bytes());
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[12..14].copy_from_slice(&flags.to_le_bytes());
    bytes[14..].copy_from_slice(&next.to_le_bytes());
    bytes
}

impl Port for Driver {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> Result<usize, PortError> {
        let mut n = 0;
        while n < max
            && let Some((_, frame)) = self.get()
        {
            let mut packet = Packet::from_bytes(&frame).unwrap();
            entry::DEVICE.mark(&mut packet, None);
            out.push(packet);
            n += 1;
            self.stats.rx_packets += 1;
            self.stats.rx_bytes += frame.len() as u64;
        }
        Ok(n)
    }

    fn send(&mut self, batch: &mut Vec<Packet>) -> Result<usize, PortError> {
        let mut n = 0;
        while n < batch.len() && self.put(&[0; 10], batch[n].bytes()) {
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += batch[n].len() as u64;
            n += 1;
        }
        batch.drain(..n);
        if n > 0 {
            self.show(TX);
        }
        Ok(n)
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn lost(&self) -> Lost {
        self.stats.lost()
    }
}

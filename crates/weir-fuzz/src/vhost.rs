//! vhost-user: messages of front ends, and what drivers write into rings.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use weir_io::vhost::backend::{Backend, Handle};
use weir_io::vhost::device::{Device, FEATURES, FROM_DRIVER, Signal, TO_DRIVER};
use weir_io::vhost::memory::{Memory, Region};
use weir_io::vhost::net::Put;
use weir_io::vhost::ring::Addresses;
use weir_io::vhost::{Options, SocketAddress, Source};
use weir_packet::{MAX_LEN, Packet};

/// Bytes of the memory that front ends share.
const MEMORY: u64 = 1 << 16;
/// Descriptors of a ring.
const SIZE: u16 = 8;
/// Where the memory is in descriptors, and in the front end's process.
const GUEST: u64 = 0x10_0000;
const USER: u64 = 0x7000_0000;

fn options() -> Options {
    Options { queue: 64, memory: 1, ..Options::new(SocketAddress::Abstract("fuzz".to_owned())) }
}

/// Sealed memory, or an eventfd.
fn descriptor(kind: u8) -> Option<OwnedFd> {
    match kind % 4 {
        0 => None,
        1 => EventFd::from_flags(EfdFlags::EFD_NONBLOCK).ok().map(OwnedFd::from),
        kind => {
            let fd = memfd_create(c"fuzz", MFdFlags::MFD_ALLOW_SEALING).ok()?;
            nix::unistd::ftruncate(&fd, MEMORY as i64).ok()?;
            if kind == 2 {
                fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).ok()?;
            }
            Some(fd)
        }
    }
}

/// Messages of a control connection, each behind a byte that says what is with it, and one for its kind and its length: a
/// device takes any, and what it makes of them can be used.
pub fn vhost_messages(data: &[u8]) {
    if let Some(device) = configured(data) {
        device.with(|device| exchange(device, 3));
    }
}

/// What a device is after these messages.
fn configured(data: &[u8]) -> Option<Handle> {
    let (front, back) = UnixStream::pair().ok()?;
    let mut rest = data;
    // No more than fit the buffer of the socket.
    for _ in 0..24 {
        let Some(([with, code, len], more)) = rest.split_first_chunk::<3>() else { break };
        let (body, behind) = more.split_at(more.len().min(usize::from(*len)));
        rest = behind;
        let mut message = Vec::new();
        message.extend(u32::from(code & 0x3f).to_le_bytes());
        message.extend((1 | u32::from(code >> 6) << 2).to_le_bytes());
        message.extend(u32::from(*len).to_le_bytes());
        message.extend(body);
        let fd = descriptor(*with);
        let fds: Vec<i32> = fd.iter().map(AsRawFd::as_raw_fd).collect();
        let control = [ControlMessage::ScmRights(&fds)];
        let control = if fds.is_empty() { &[] } else { &control[..] };
        let sent = sendmsg::<()>(
            front.as_raw_fd(),
            &[IoSlice::new(&message)],
            control,
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
            None,
        );
        if sent.is_err() {
            break;
        }
    }
    let _ = front.shutdown(std::net::Shutdown::Write);
    let backend = Backend::new(&options()).ok()?;
    let device = backend.device();
    let end = backend.answer(back);
    assert!(!end.why.is_empty());
    Some(device)
}

/// What a driver writes into the memory: a device takes anything there, and never gives what is no packet. Steps: an odd byte,
/// how many packets are taken and sent; or an even one, where to write (two bytes), and what (eight).
pub fn vhost_rings(data: &[u8]) {
    written(data);
}

/// How many packets came of these steps.
fn written(data: &[u8]) -> usize {
    let mut packets = 0;
    let Some((first, mut rest)) = data.split_first() else { return 0 };
    let Some((mut device, memory)) = started(u64::from(*first)) else { return 0 };
    while let Some((kind, more)) = rest.split_first() {
        rest = more;
        if kind % 2 == 1 {
            match exchange(&mut device, usize::from(kind / 2)) {
                Some(n) => packets += n,
                None => return packets,
            }
            continue;
        }
        let Some((write, more)) = rest.split_first_chunk::<10>() else { break };
        rest = more;
        let at = u64::from(u16::from_ne_bytes([write[0], write[1]]));
        // What is beyond the end makes the file longer.
        let _ = memory.write_at(&write[2..], at);
    }
    packets
}

/// A device whose rings run; of its features, those of this number.
fn started(features: u64) -> Option<(Device, File)> {
    let file = File::from(descriptor(2)?);
    let region = Region { guest: GUEST, user: USER, size: MEMORY, offset: 0 };
    let memory = Memory::map(vec![(region, file.try_clone().ok()?)], &options()).ok()?;
    let mut device = Device::new(&options());
    // Two of them decide where packets begin, and how many buffers they take; the rest is what is left to do.
    let features = features & 0x3f | (features & 0x40) << 9 | (features & 0x80) << 25;
    device.set_features(features & FEATURES).ok()?;
    device.set_memory(memory).ok()?;
    for index in [TO_DRIVER, FROM_DRIVER] {
        let start = USER + 512 * index as u64;
        let addresses = Addresses { descriptors: start, available: start + 128, used: start + 256 };
        let index = index as u32;
        device.set_size(index, SIZE.into()).ok()?;
        device.set_addresses(index, addresses).ok()?;
        device.set_call(index, Signal::to_driver(index, descriptor(1)).ok()?).ok()?;
        device.set_kick(index, Signal::of_driver(index, descriptor(1)).ok()?).ok()?;
    }
    device.is_up().then_some((device, file))
}

/// Takes and sends some packets, and says how many came; `None` if the connection is to end.
fn exchange(device: &mut Device, count: usize) -> Option<usize> {
    let mut out = Vec::new();
    if let Some(mut receiver) = device.receiver() {
        let malformed = receiver.take(&mut out, count).ok()?;
        assert!(out.len() <= count && malformed <= 64);
        assert!(out.iter().all(|p| (14..=MAX_LEN).contains(&p.len())));
    }
    let came = out.len();
    let Some(mut sender) = device.sender() else { return Some(came) };
    let mut batch: Vec<Packet> =
        (0..count).map(|i| Packet::from_bytes(&vec![i as u8; 14 + 13 * i]).expect("it is short")).collect();
    // Those that came may have something left to do.
    batch.append(&mut out);
    let mut i = 0;
    while i < batch.len() {
        if let Ok(header) = sender.header(&mut batch, i) {
            match sender.put(header, batch[i].bytes()) {
                Ok(Put::Done | Put::TooLong) => {}
                Ok(Put::Later) => break,
                Err(_) => return None,
            }
        }
        i += 1;
    }
    sender.publish().ok().map(|()| came)
}

/// All that a front end says to start both rings.
pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    let mut seed = Vec::new();
    let mut say = |with: u8, code: u8, body: &[u8]| {
        seed.extend([with, code, body.len() as u8]);
        seed.extend(body);
    };
    let words = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    say(0, 3, &[]);
    say(0, 1, &[]);
    say(0, 2, &words(&[FEATURES]));
    say(0, 15, &[]);
    say(0, 16, &words(&[8]));
    // The table of memory: one region.
    say(2, 5 | 2 << 6, &words(&[1, GUEST, MEMORY, USER, 0]));
    for index in [0_u32, 1] {
        let start = USER + 512 * u64::from(index);
        let pair = |value: u32| [index.to_le_bytes(), value.to_le_bytes()].concat();
        say(0, 8, &pair(u32::from(SIZE)));
        say(0, 10, &pair(0));
        say(0, 9, &[pair(0), words(&[start, start + 256, start + 128, 0])].concat());
        say(1, 12, &words(&[index.into()]));
        say(1, 13, &words(&[index.into()]));
        say(0, 18, &pair(1));
    }
    let whole = seed.clone();
    // And to stop one.
    seed.extend([0, 11, 8, 1, 0, 0, 0, 0, 0, 0, 0]);
    vec![whole, seed]
}

/// Chains in both rings, and packets in between.
pub(crate) fn ring_seeds() -> Vec<Vec<u8>> {
    let write = |at: u64, what: [u8; 8]| [&[0][..], &(at as u16).to_ne_bytes(), &what].concat();
    let mut seeds = Vec::new();
    for features in [0, 0x40, 0x80, 0xff] {
        let mut seed = vec![features];
        for (ring, flags) in [(0, 2), (512, 0)] {
            for slot in 0..SIZE {
                let at = GUEST + 4096 + 1024 * u64::from(slot);
                let (len, goes_on) = (200_u32, u16::from(ring > 0 && slot % 4 == 2));
                let rest = u64::from(len) | u64::from(flags | goes_on) << 32 | u64::from(slot + 1) << 48;
                seed.extend(write(ring + 16 * u64::from(slot), at.to_le_bytes()));
                seed.extend(write(ring + 16 * u64::from(slot) + 8, rest.to_le_bytes()));
            }
            // Flags, position, heads.
            seed.extend(write(ring + 128, [0, 0, 6, 0, 0, 0, 1, 0]));
            seed.extend(write(ring + 136, [2, 0, 4, 0, 5, 0, 6, 0]));
            seed.push(9);
        }
        // A table of descriptors.
        let table = GUEST + 0x8000;
        seed.extend(write(512, table.to_le_bytes()));
        seed.extend(write(520, (32 | 4_u64 << 32).to_le_bytes()));
        seed.extend(write(0x8000, (GUEST + 4096).to_le_bytes()));
        seed.extend(write(0x8008, (12 | 1_u64 << 32 | 1 << 48).to_le_bytes()));
        seed.extend(write(0x8010, (GUEST + 8192).to_le_bytes()));
        seed.extend(write(0x8018, 100_u64.to_le_bytes()));
        seed.extend(write(512 + 128, [0, 0, 8, 0, 0, 0, 0, 0]));
        seed.push(7);
        seeds.push(seed);
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else mutations of them would begin far from where it is interesting.
    #[test]
    fn seeds_lead_to_rings_that_run_and_packets_that_pass() {
        let up: Vec<bool> = message_seeds()
            .iter()
            .map(|seed| configured(seed).is_some_and(|device| device.with(|device| device.is_up())))
            .collect();
        assert_eq!(up, [true, false], "the second stops a ring");
        for seed in ring_seeds() {
            assert!(written(&seed) > 2, "{seed:?}");
        }
    }
}

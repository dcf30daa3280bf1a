//! Shared memory: messages of peers, and what they write into rings.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use weir_io::memif::handshake::{Done, Handshake, Outgoing};
use weir_io::memif::link::{Link, Source};
use weir_io::memif::message::{self, Message};
use weir_io::memif::{Options, Role, SocketAddress};
use weir_packet::{MAX_LEN, Packet};

/// Bytes of the memory that hostile slaves bring.
const MEMORY: i64 = 1 << 16;
/// Bytes of a message and of what is with it.
const STEP: usize = message::LEN + 1;

fn options(role: Role) -> Options {
    let socket = SocketAddress::Abstract("fuzz".to_owned());
    Options { role, ring: 8, buffer: 64, ..Options::new(socket) }
}

/// Memory as a slave makes it, or an eventfd.
fn descriptor(kind: u8) -> Option<OwnedFd> {
    match kind % 4 {
        0 => None,
        1 => EventFd::from_flags(EfdFlags::EFD_NONBLOCK).ok().map(OwnedFd::from),
        kind => {
            let fd = memfd_create(c"fuzz", MFdFlags::MFD_ALLOW_SEALING).ok()?;
            nix::unistd::ftruncate(&fd, MEMORY).ok()?;
            if kind == 2 {
                fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).ok()?;
            }
            Some(fd)
        }
    }
}

/// Messages of a control connection, each behind a byte that says what is with it: both sides take any, and what they make of
/// them can be used.
pub fn memif_messages(data: &[u8]) {
    for role in [Role::Master, Role::Slave] {
        let (mut side, _) = Handshake::new(&options(role));
        for step in data.chunks(STEP) {
            let Some((kind, bytes)) = step.split_first() else { break };
            let Ok(message) = Message::decode(bytes) else { continue };
            assert_eq!(Message::decode(&message.encode()).map(|m| m.to_string()), Ok(message.to_string()));
            match side.take(message, descriptor(*kind), kind & 0x80 != 0) {
                Ok(Done { link: Some(mut link), .. }) => _ = exchange(&mut link, 3),
                Ok(_) => {}
                Err(end) => {
                    assert!(!end.to_string().is_empty());
                    break;
                }
            }
        }
    }
}

/// What a peer writes into the memory: a side takes anything there, and never gives what is no packet. The first byte says
/// which side. Then come steps: an odd byte, how many packets are taken and sent; or an even one, where to write (two bytes), and
/// what (eight).
pub fn memif_rings(data: &[u8]) {
    let Some((side, mut rest)) = data.split_first() else { return };
    let Some(([master, slave], memory)) = connect() else { return };
    let mut link = if side % 2 == 0 { master } else { slave };
    while let Some((kind, more)) = rest.split_first() {
        rest = more;
        if kind % 2 == 1 {
            if !exchange(&mut link, usize::from(kind / 2)) {
                return;
            }
            continue;
        }
        let Some((write, more)) = rest.split_first_chunk::<10>() else { return };
        rest = more;
        let at = u64::from(u16::from_ne_bytes([write[0], write[1]]));
        // It is beyond the end of sealed memory.
        let _ = memory.write_at(&write[2..], at);
    }
}

/// Takes and sends some packets; `false` if the connection is to end.
fn exchange(link: &mut Link, count: usize) -> bool {
    let mut out = Vec::new();
    let Ok(malformed) = link.rx.take(&mut out, count) else { return false };
    assert!(out.len() <= count && malformed <= 1 << 14);
    assert!(out.iter().all(|p| (14..=MAX_LEN).contains(&p.len())));
    let Ok(mut free) = link.tx.free() else { return false };
    let mut sent = 0;
    for i in 0..count {
        let packet = Packet::from_bytes(&vec![i as u8; 14 + 13 * i]).expect("it is short");
        match link.tx.put(packet.bytes(), &mut free) {
            Ok(true) => sent += 1,
            Ok(false) => {}
            Err(_) => return false,
        }
    }
    link.tx.publish();
    let (packets, _) = link.tx.unread();
    assert!(packets <= 1 << 14 && sent <= count);
    true
}

/// Both sides of a connection, and the memory between them.
fn connect() -> Option<([Link; 2], File)> {
    let ((mut master, hello), (mut slave, _)) =
        (Handshake::new(&options(Role::Master)), Handshake::new(&options(Role::Slave)));
    let (mut links, mut memory) = ([None, None], None);
    let mut to_slave: VecDeque<Outgoing> = hello.into_iter().collect();
    while let Some((message, fd)) = to_slave.pop_front() {
        let done = slave.take(message, fd, false).ok()?;
        links[1] = links[1].take().or(done.link);
        let Some((message, fd)) = done.send else { continue };
        if let (Message::AddRegion { .. }, Some(fd)) = (&message, &fd) {
            memory = Some(File::from(fd.try_clone().ok()?));
        }
        let done = master.take(message, fd, false).ok()?;
        links[0] = links[0].take().or(done.link);
        to_slave.extend(done.send);
    }
    let [master, slave] = links;
    Some(([master?, slave?], memory?))
}

/// A whole handshake, as a slave and as a master say it.
pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    let ring = |to_master: bool, offset| {
        Message::AddRing(message::AddRing { to_master, index: 0, region: 0, offset, log2_size: 3 })
    };
    let init =
        message::Init { version: message::VERSION, id: 0, mode: 0, secret: [0; 24], name: "fuzz".into() };
    let hello = message::Hello {
        name: "fuzz".into(),
        versions: (message::VERSION, message::VERSION),
        max_region: 1,
        max_rings: (0, 0),
        max_log2_ring_size: 10,
    };
    let slave = [
        (0, Message::Init(init)),
        (2, Message::AddRegion { index: 0, size: MEMORY as u64 }),
        (1, ring(true, 0)),
        (1, ring(false, 256)),
        (0, Message::Connect("fuzz".into())),
    ];
    let acks = std::iter::repeat_n((0, Message::Ack), 4);
    let master: Vec<(u8, Message)> = std::iter::once((0, Message::Hello(hello)))
        .chain(acks)
        .chain([
            (0, Message::Connected("fuzz".into())),
            (0, Message::Disconnect { code: 0, reason: "end".into() }),
        ])
        .collect();
    let bytes = |steps: &[(u8, Message)]| {
        steps.iter().flat_map(|(kind, message)| std::iter::once(*kind).chain(message.encode())).collect()
    };
    vec![bytes(&slave), bytes(&master)]
}

/// Some writes where positions, flags and descriptors are, and packets in between.
pub(crate) fn ring_seeds() -> Vec<Vec<u8>> {
    let write = |at: u16, what: [u8; 8]| [&[0][..], &at.to_ne_bytes(), &what].concat();
    // The rings of eight slots have 256 bytes; buffers come behind both.
    let rings = [0, 256];
    let mut seeds = Vec::new();
    for side in 0..2 {
        let mut seed = vec![side, 7];
        for ring in rings {
            let packet = [0, 0, 0, 0, 60, 0, 0, 0];
            let chained = [1, 0, 0, 0, 60, 0, 0, 0];
            let place = [0, 2, 0, 0, 0, 0, 0, 0];
            for slot in 0..4 {
                seed.extend(write(ring + 128 + 16 * slot, if slot == 1 { chained } else { packet }));
                seed.extend(write(ring + 136 + 16 * slot, place));
            }
            // Cookie, flags and head; the tail.
            seed.extend(write(ring, [0x20, 0x1f, 0xe3, 0x03, 0, 0, 4, 0]));
            seed.extend(write(ring + 64, [4, 0, 0, 0, 0, 0, 0, 0]));
            seed.push(9);
        }
        seeds.push(seed);
    }
    seeds
}

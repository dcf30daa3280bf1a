//! Front ends and drivers that lie. Each lie ends the connection, with a reason, or the packet that it is about, which is counted;
//! nothing else comes of it.

mod common;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use common::driver::{self, Driver, INDIRECT, MERGEABLE, PROTOCOL, RX, Setup, TX, VERSION_1, guest, user};
use common::{is_up, until, vhost, vhost_pair};
use vhost::VhostBackend;
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use weir_io::vhost::VhostPort;
use weir_io::{Port, PortError};
use weir_packet::Packet;

/// Waits until a port says that it has no peer, and for this reason. No call takes long meanwhile.
fn ends(port: &mut VhostPort, reason: &str) {
    let mut said = String::new();
    for _ in 0..2000 {
        let start = Instant::now();
        let received = port.receive(&mut Vec::new(), 32);
        if let Err(PortError::NoPeer { .. }) = received
            && let Err(PortError::NoPeer { why, .. }) = port.send(&mut vec![packet(60)])
        {
            said = why;
        } else if let Err(PortError::NoPeer { why, .. }) = port.send(&mut vec![packet(60)]) {
            said = why;
        }
        assert!(start.elapsed() < Duration::from_secs(2), "a port kept us");
        if said.contains(reason) {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("`{reason}` was not said, but `{said}`");
}

fn packet(len: usize) -> Packet {
    Packet::from_bytes(&vec![7; len]).unwrap()
}

/// A message with this code and body.
fn message(code: u32, body: &[u8]) -> Vec<u8> {
    [&code.to_le_bytes()[..], &1_u32.to_le_bytes(), &(body.len() as u32).to_le_bytes(), body].concat()
}

/// What a front end says by bytes and descriptors, and how that ends.
fn say(path: &Path, bytes: &[u8], fds: &[i32], reason: &str) {
    let mut port = vhost(&format!("vhost-user:{}", path.display()));
    let stream = UnixStream::connect(path).unwrap();
    stream.send_with_fds(&[bytes], fds).unwrap();
    ends(&mut port, reason);
    // It is left alone.
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!((&stream).read(&mut [0; 8]).unwrap_or(0), 0, "{reason}");
}

#[test]
fn messages_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let no_sense = "says what makes no sense";
    // A code that there is not, one of a feature that was not offered, a version, a length, a body that is cut.
    say(&path, &message(77, &[]), &[], no_sense);
    say(&path, &message(24, &[0; 12]), &[], no_sense);
    say(&path, &[3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], &[], no_sense);
    say(&path, &[2, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255], &[], no_sense);
    say(&path, &message(2, &[0; 4]), &[], no_sense);
    say(&path, &message(8, &[0; 7]), &[], no_sense);
    // Features, rings, sizes, positions.
    say(&path, &message(2, &(1_u64 << 50).to_le_bytes()), &[], "not offered: 0x4000000000000");
    say(&path, &message(8, &[2, 0, 0, 0, 0, 1, 0, 0]), &[], "no ring 2");
    say(&path, &message(8, &[0, 0, 0, 0, 0, 8, 0, 0]), &[], "2048 descriptors");
    say(&path, &message(8, &[0, 0, 0, 0, 3, 0, 0, 0]), &[], "3 descriptors");
    say(&path, &message(8, &[0; 8]), &[], "0 descriptors");
    say(&path, &message(10, &[0, 0, 0, 0, 0, 0, 1, 0]), &[], "begins at 65536");
    say(&path, &message(11, &[9, 0, 0, 0, 0, 0, 0, 0]), &[], "no ring 9");
    // Descriptors: one that nobody asked for, none where one belongs, too many, one that is no eventfd, and a semaphore.
    let file = tempfile::tempfile().unwrap();
    let fd = file.as_raw_fd();
    say(&path, &message(3, &[]), &[fd], no_sense);
    say(&path, &message(12, &[0; 8]), &[], no_sense);
    say(&path, &message(12, &[0; 8]), &[fd, fd], no_sense);
    say(&path, &message(12, &[0; 8]), &[fd], "cannot be signalled");
    say(&path, &message(13, &[1, 0, 0, 0, 0, 0, 0, 0]), &[fd], "cannot be signalled");
    say(&path, &message(12, &[0, 1, 0, 0, 0, 0, 0, 0]), &[], "without an eventfd");
    let semaphore = EventFd::new(libc::EFD_SEMAPHORE).unwrap();
    say(&path, &message(12, &[1, 0, 0, 0, 0, 0, 0, 0]), &[semaphore.as_raw_fd()], "it is a semaphore");
}

#[test]
fn a_message_that_never_ends_keeps_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let mut port = vhost(&format!("vhost-user:{}", path.display()));
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(&message(1, &[])[..7]).unwrap();
    for _ in 0..20 {
        let _ = port.receive(&mut Vec::new(), 32);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(port.is_up(), Some(false));
    drop(port);
    assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0);
}

#[test]
fn memory_that_is_not_what_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let [rings, buffers] = driver::regions();
    let with = |change: &dyn Fn(&mut [[u64; 4]; 2])| {
        let mut regions = [rings, buffers];
        change(&mut regions);
        regions
    };
    for (regions, setup, more, reason) in [
        (with(&|_| ()), Setup { sealed: false, ..Setup::default() }, "", "0 is no memory that is sealed"),
        (
            with(&|r| r[1][2] = driver::MEMORY),
            Setup::default(),
            "",
            "region 1 ends behind its file, which has 8388608",
        ),
        (with(&|r| r[0][3] = u64::MAX - (1 << 20)), Setup::default(), "", "region 0 ends behind its file"),
        (with(&|r| r[1][2] = 1 << 40), Setup::default(), "", "region 1 has 1099511627776 bytes"),
        (with(&|_| ()), Setup::default(), "?memory=7", "region 1 has 7340032 bytes; all together"),
        (with(&|r| r[1][0] = r[0][0] + 4096), Setup::default(), "", "two memory regions overlap"),
        (with(&|r| r[0][3] = 5), Setup::default(), "", "region 0 cannot be mapped"),
    ] {
        let mut port = vhost(&format!("vhost-user:{}{more}", path.display()));
        let mut driver = Driver::new(Frontend::connect(&path, 2).unwrap(), setup);
        driver.greet();
        assert!(driver.try_share(&regions).is_err(), "{reason}");
        ends(&mut port, reason);
    }
}

#[test]
fn rings_that_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let start = |act: &dyn Fn(&mut Driver), reason: &str| {
        let mut port = vhost(&format!("vhost-user:{}", path.display()));
        let mut driver = Driver::new(Frontend::connect(&path, 2).unwrap(), Setup::default());
        driver.greet();
        driver.share(&driver::regions());
        act(&mut driver);
        ends(&mut port, reason);
    };
    // Outside of the memory, at its end, and over all ends.
    for table in [0, user(driver::MEMORY - 16), user((1 << 20) - 16), !15] {
        start(
            &|d| assert!(d.start_ring(TX, table).is_err()),
            "ring 1 is none: its descriptors are not within",
        );
    }
    // What a ring that runs cannot be told.
    start(
        &|d| {
            d.start();
            assert!(d.frontend.set_vring_num(RX, 16).is_err());
        },
        "ring 0 runs",
    );
    start(
        &|d| {
            d.start();
            assert!(d.frontend.set_vring_base(TX, 16).is_err());
        },
        "ring 1 runs",
    );
    // Its memory is taken away under it.
    start(
        &|d| {
            d.start();
            assert!(d.try_share(&driver::regions()[1..]).is_err());
        },
        "ring 0 is none",
    );
    // A region whose addresses lie between two words.
    start(
        &|d| {
            let [mut rings, buffers] = driver::regions();
            rings[1] -= 1;
            d.share(&[rings, buffers]);
            assert!(d.start_ring(TX, user(0)).is_err());
        },
        "begin between two words",
    );
}

#[test]
fn a_chain_that_cannot_be_ends_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let at = guest(2 << 20);
    let send = |act: &dyn Fn(&mut Driver), reason: &str| {
        let (mut port, mut driver) = vhost_pair(&path, "", Setup { fill: false, ..Setup::default() });
        act(&mut driver);
        driver.show(TX);
        driver.show(RX);
        ends(&mut port, reason);
        // It is woken for nothing else, and a better one is welcome.
        assert_eq!(port.stats().rx_packets, 0);
    };
    // Positions.
    send(&|d| d.available[TX] = 257, "from the driver, the position 257 is impossible: ours is 0 of 256");
    send(&|d| d.available[TX] = 65_535, "the position 65535 is impossible");
    send(&|d| d.available[RX] = 257, "to the driver, the position 257 is impossible");
    // Descriptors that are not there, and chains without an end.
    send(&|d| d.offer(TX, 256), "there is no descriptor 256");
    let next = |d: &mut Driver, slot, next| d.descriptor(TX, slot, at, 30, 1, next);
    send(
        &|d| {
            next(d, 0, 700);
            d.offer(TX, 0);
        },
        "there is no descriptor 700",
    );
    send(
        &|d| {
            next(d, 3, 3);
            d.offer(TX, 3);
        },
        "the chain that begins with descriptor 3 has no end",
    );
    send(
        &|d| {
            (0..256).for_each(|slot| next(d, slot, (slot + 1) % 256));
            d.offer(TX, 9);
        },
        "the chain that begins with descriptor 9 has no end",
    );
    // Tables: of nothing, outside of the memory, with another behind, within another, that end before the chain does.
    for (address, len, flags) in
        [(at, 15, 4), (guest(driver::MEMORY - 8), 32, 4), (u64::MAX - 3, 64, 4), (at, 32, 5)]
    {
        send(
            &|d| {
                d.descriptor(TX, 5, address, len, flags, 6);
                d.offer(TX, 5);
            },
            "descriptor 5 has no table",
        );
    }
    for entry in [[4_u16, 0], [1, 2], [1, 60_000]] {
        send(
            &|d| {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&at.to_le_bytes());
                bytes[8] = 32;
                bytes[12..14].copy_from_slice(&entry[0].to_le_bytes());
                bytes[14..].copy_from_slice(&entry[1].to_le_bytes());
                d.write(2 << 20, &bytes);
                d.descriptor(TX, 5, at, 32, 4, 0);
                d.offer(TX, 5);
            },
            "descriptor 5 has no table",
        );
    }
    // Buffers to receive into: to be read, of nothing, outside of the memory, over its end.
    for (address, len, flags) in [
        (at, 2000, 0),
        (at, 0, 2),
        (17, 2000, 2),
        (guest(driver::MEMORY - 8), 2000, 2),
        (u64::MAX - 3, 2000, 2),
    ] {
        send(
            &|d| {
                d.descriptor(RX, 5, address, len, flags, 0);
                d.offer(RX, 5);
            },
            "the chain that begins with descriptor 5 has no buffer",
        );
    }
}

#[test]
fn packets_that_are_none_are_counted_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let (mut port, mut driver) = vhost_pair(&path, "", Setup::default());
    let at = guest(2 << 20);
    driver.write(2 << 20, &[0; 4096]);
    driver.write((2 << 20) + 2048, &[99; 12]);
    // Too short, nothing, outside of the memory, over its end, over all ends, to be written, too long, a header that is none.
    let bad = [
        (at, 25, 0),
        (at, 0, 0),
        (77, 100, 0),
        (guest(driver::MEMORY - 50), 100, 0),
        (u64::MAX - 10, 100, 0),
        (at, 100, 2),
        (at, 1 << 20, 0),
        (at, u32::MAX, 0),
        (at + 2048, 100, 0),
    ];
    for (slot, (address, len, flags)) in bad.into_iter().enumerate() {
        driver.descriptor(TX, slot as u16, address, len, flags, 0);
        driver.offer(TX, slot as u16);
    }
    // Long chains, whose bytes are more than can be counted.
    for slot in 20..40 {
        driver.descriptor(TX, slot, at, u32::MAX, 1, slot + 1);
    }
    driver.descriptor(TX, 40, at, u32::MAX, 0, 0);
    driver.offer(TX, 20);
    driver.descriptor(TX, 50, at, 12 + 60, 0, 0);
    driver.offer(TX, 50);
    driver.show(TX);
    let mut out = Vec::new();
    until(|| {
        port.receive(&mut out, 32).unwrap();
        !out.is_empty()
    });
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].bytes(), [0; 60]);
    assert_eq!(port.stats().rx_malformed, bad.len() as u64 + 1);
    assert_eq!(driver.used_position(TX), bad.len() as u16 + 2, "all buffers came back");
    assert!(is_up(&mut port));
}

#[test]
fn chains_as_long_as_the_ring_are_taken_a_few_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let (mut port, mut driver) = vhost_pair(&path, "", Setup::default());
    // Each is the whole ring, and longer than any packet.
    for slot in 0..256 {
        driver.descriptor(TX, slot, guest(2 << 20), 1 << 16, u16::from(slot < 255), slot + 1);
    }
    (0..256).for_each(|_| driver.offer(TX, 0));
    driver.show(TX);
    let mut calls = 0;
    until(|| {
        assert_eq!(port.receive(&mut Vec::new(), 32).unwrap(), 0);
        calls += 1;
        driver.used_position(TX) == 256
    });
    assert!(calls >= 128, "{calls} calls for 256 chains of 256 descriptors");
    assert_eq!(port.stats().rx_malformed, 256);
    // Buffers of nothing but their number, for packets.
    for slot in 0..256 {
        driver.descriptor(RX, slot, guest(2 << 20), 1, 2 | u16::from(slot % 64 < 63), slot + 1);
    }
    let error = port.send(&mut vec![packet(1500)]).unwrap_err().to_string();
    assert!(error.contains("to the driver, a packet of 1500 bytes needs more descriptors"), "{error}");
    // That is said once more, and then no more.
    assert_eq!(port.receive(&mut Vec::new(), 32).unwrap_err().to_string(), error);
    for _ in 0..20 {
        assert_eq!(port.receive(&mut Vec::new(), 32).unwrap(), 0);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_ring_that_stops_all_the_time_ends_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let (mut port, mut driver) = vhost_pair(&path, "", Setup::default());
    let toggles =
        |driver: &mut Driver| (0..100).all(|i| driver.frontend.set_vring_enable(RX, i % 2 == 1).is_ok());
    while toggles(&mut driver) {}
    ends(&mut port, "stop and start all the time");
}

/// What it signals is not looked at again and again.
#[test]
fn who_signals_a_ring_that_rests_wakes_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let (mut port, mut driver) = vhost_pair(&path, "", Setup::default());
    let poller = weir_io::Poller::new().unwrap();
    poller.add(0, port.fd().unwrap()).unwrap();
    driver.frontend.set_vring_enable(TX, false).unwrap();
    for _ in 0..3 {
        driver.kicks[TX].write(1).unwrap();
        let _ = port.receive(&mut Vec::new(), 32);
    }
    let mut ready = Vec::new();
    poller.poll(&mut ready).unwrap();
    assert!(ready.is_empty());
    // What it sends is found when it goes on.
    driver.send(&mut vec![packet(60)]).unwrap();
    driver.frontend.set_vring_enable(TX, true).unwrap();
    poller.sleep(Some(Duration::from_secs(10)), &mut ready).unwrap();
    assert_eq!(ready, [0]);
    assert_eq!(port.receive(&mut Vec::new(), 32).unwrap(), 1);
}

#[test]
fn a_driver_that_goes_mad_while_packets_pass_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v.sock");
    let features = MERGEABLE | INDIRECT | PROTOCOL | VERSION_1;
    let (mut port, mut driver) = vhost_pair(&path, "", Setup { features, ..Setup::default() });
    // Numbers that depend on nothing else.
    let mut seed = 1_u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    for _ in 0..300 {
        let word = next().to_le_bytes();
        let place =
            [driver::descriptors(TX), driver::available(TX), driver::descriptors(RX)][next() as usize % 3];
        driver.write(place + next() % 600, &word);
        driver.send(&mut vec![packet(100)]).unwrap();
        let _ = port.receive(&mut Vec::new(), 32);
        let _ = port.send(&mut vec![packet(700)]);
        if port.is_up() == Some(false) {
            break;
        }
    }
    drop(driver);
    // Whatever became of it, the next one finds a port.
    until(|| {
        let _ = port.receive(&mut Vec::new(), 32);
        port.is_up() == Some(false)
    });
    let mut driver = Driver::connect(&path, Setup::default());
    until(|| is_up(&mut port));
    port.send(&mut vec![packet(99)]).unwrap();
    assert_eq!(driver.get().unwrap().1, [7; 99]);
    driver.frontend.set_vring_enable(RX, false).unwrap();
}

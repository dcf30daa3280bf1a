//! Captures of all kinds: what is read of them, beside what tcpdump reads.

use std::io::Cursor;
use std::process::Command;

use weir_io::pcap::PcapReader;
use weir_net::build;
use weir_packet::{Layer, MAX_LEN, Packet};

/// A number of a file.
fn number(big_endian: bool, bytes: u8, value: u64) -> Vec<u8> {
    let all = value.to_be_bytes();
    let mut used = all[8 - usize::from(bytes)..].to_vec();
    if !big_endian {
        used.reverse();
    }
    used
}

/// A pcap file of packets with their seconds and microseconds, in either byte order.
fn pcap(big_endian: bool, link: u32, packets: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let word = |v: u32| number(big_endian, 4, v.into());
    let mut file = [word(0xa1b2_c3d4), number(big_endian, 2, 2), number(big_endian, 2, 4)].concat();
    file.extend([word(0), word(0), word(262_144), word(link)].concat());
    for (seconds, micros, bytes) in packets {
        let len = bytes.len() as u32;
        file.extend([word(*seconds), word(*micros), word(len), word(len)].concat());
        file.extend(*bytes);
    }
    file
}

/// Builds pcapng files.
struct Ng {
    big_endian: bool,
    file: Vec<u8>,
}

impl Ng {
    fn new(big_endian: bool) -> Ng {
        let mut ng = Ng { big_endian, file: Vec::new() };
        let body = [ng.n(4, 0x1a2b_3c4d), ng.n(2, 1), ng.n(2, 0), ng.n(8, u64::MAX)].concat();
        ng.block(0x0a0d_0d0a, &body);
        ng
    }

    fn n(&self, bytes: u8, value: u64) -> Vec<u8> {
        number(self.big_endian, bytes, value)
    }

    fn block(&mut self, kind: u64, body: &[u8]) {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = self.n(4, body.len() as u64 + 12);
        self.file.extend([self.n(4, kind), len.clone(), body, len].concat());
    }

    /// An interface with options.
    fn interface(&mut self, link: u64, snaplen: u64, options: &[(u64, &[u8])]) {
        let mut body = [self.n(2, link), self.n(2, 0), self.n(4, snaplen)].concat();
        for (code, value) in options {
            body.extend([self.n(2, *code), self.n(2, value.len() as u64)].concat());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        if !options.is_empty() {
            body.extend([0; 4]);
        }
        self.block(1, &body);
    }

    /// An enhanced packet block.
    fn enhanced(&mut self, interface: u64, ticks: u64, bytes: &[u8]) {
        let (high, low, len) = (ticks >> 32, ticks & 0xffff_ffff, bytes.len() as u64);
        let head = [interface, high, low, len, len].map(|v| self.n(4, v)).concat();
        self.block(6, &[&head, bytes].concat());
    }
}

fn frame() -> Vec<u8> {
    build::udp4(([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2), b"hello")
}

/// Times in nanoseconds and lengths of all packets.
fn read(file: &[u8]) -> Result<Vec<(u64, usize)>, String> {
    let mut reader = PcapReader::new("t", Cursor::new(file.to_vec())).map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    while let Some(p) = reader.next_packet().map_err(|e| e.to_string())? {
        found.push((p.timestamp, p.len()));
    }
    Ok(found)
}

/// What tcpdump prints of a file.
fn tcpdump(file: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, file).unwrap();
    let output = Command::new("tcpdump").args(["--nano", "-nttr"]).arg(&path).output().expect("tcpdump runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The times that tcpdump prints, in nanoseconds.
fn times(file: &[u8]) -> Vec<u64> {
    let text = tcpdump(file);
    let time = |line: &str| {
        let (seconds, nanos) = line.split(' ').next()?.split_once('.')?;
        Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?)
    };
    text.lines().filter(|l| !l.starts_with('\t')).filter_map(time).collect()
}

/// Link types, and what stands in front of an IPv4 packet there.
fn link_headers() -> Vec<(u32, Vec<u8>)> {
    let llc = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let wifi = |control: [u8; 2], more: usize| {
        let mut header = vec![0; 24 + more];
        header[..2].copy_from_slice(&control);
        [&header[..], &llc].concat()
    };
    let data = wifi([0x08, 0], 0);
    let padded = |header: &[u8], len: usize| {
        let mut header = header.to_vec();
        header.resize(len, 0);
        header
    };
    vec![
        (0, vec![2, 0, 0, 0]),
        (0, vec![0, 0, 0, 2]),
        (108, vec![0, 0, 0, 2]),
        (1, padded(&[2; 12], 12).into_iter().chain([8, 0]).collect()),
        (1, [&[2; 12][..], &[0x81, 0, 0, 100, 0x81, 0, 0, 200, 8, 0]].concat()),
        // The length of the FCS stands in the upper bits.
        (0x2400_0001, [&[2; 12][..], &[8, 0]].concat()),
        (101, vec![]),
        (12, vec![]),
        (228, vec![]),
        (113, vec![0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0]),
        (276, vec![8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]),
        (9, vec![0xff, 3, 0, 0x21]),
        (9, vec![0, 0x21]),
        (50, vec![0xff, 3, 0, 0x21]),
        (50, vec![0x0f, 0, 8, 0]),
        (51, vec![0x11, 0, 0, 1, 0, 35, 0, 0x21]),
        (104, vec![0x0f, 0, 8, 0]),
        (107, vec![0x18, 0x41, 3, 0xcc]),
        (10, [&[0x50; 13][..], &llc].concat()),
        (100, llc.to_vec()),
        (123, [&[2, 0, 0, 100][..], &llc].concat()),
        (138, padded(&[2; 16], 16).into_iter().chain([8, 0]).collect()),
        (117, padded(&[61, 2], 64)),
        (105, data.clone()),
        (105, wifi([0x88, 0], 2)),
        (105, wifi([0x08, 3], 6)),
        (119, [padded(&[0x44, 0, 0, 0, 144], 144), data.clone()].concat()),
        (119, [padded(&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64], 64), data.clone()].concat()),
        (163, [padded(&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64], 64), data.clone()].concat()),
        (127, [&[0, 0, 8, 0, 0, 0, 0, 0][..], &data].concat()),
        // Flags behind a time say that the header is padded to 28 bytes.
        (127, {
            let radiotap = [0, 0, 17, 0, 3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x20];
            let mut header = vec![0; 28];
            header[0] = 0x88;
            [&radiotap[..], &header, &llc].concat()
        }),
        (192, [&[0, 0, 8, 0, 105, 0, 0, 0][..], &data].concat()),
    ]
}

#[test]
fn the_ip_header_is_found_behind_every_link_header_as_tcpdump_finds_it() {
    for (link, header) in link_headers() {
        let packet = [&header[..], &frame()[14..]].concat();
        let file = pcap(false, link, &[(5, 7, &packet)]);
        let printed = tcpdump(&file);
        assert!(printed.contains("10.0.0.1.1 > 10.0.0.2.2: UDP"), "link type {link}: {printed}");
        let mut reader = PcapReader::new("t", Cursor::new(file)).unwrap();
        reader.mark_ip().unwrap();
        let got = reader.next_packet().unwrap().unwrap();
        assert_eq!(got.bytes(), packet, "link type {link}");
        let at = |layer| got.layer(layer).map(|at| (at - got.data()) as usize);
        let (net, transport) = (header.len(), header.len() + 20);
        assert_eq!((at(Layer::Net), at(Layer::Transport)), (Some(net), Some(transport)), "link type {link}");
        assert_eq!(at(Layer::Mac), (link & 0xffff == 1).then_some(0), "link type {link}");
    }
}

#[test]
fn what_is_no_ip_is_not_marked() {
    let wifi = |control: [u8; 2]| [&control[..], &[0; 22], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
    for (link, header) in [
        (0, vec![7, 0, 0, 0]),
        (1, [&[2; 12][..], &[8, 6]].concat()),
        (113, vec![0; 16]),
        (9, vec![0xff, 3, 0xc0, 0x21]),
        (51, vec![0x11, 9, 0, 0, 0, 0, 0, 0x21]),
        // A beacon, data without data, and encrypted data.
        (105, wifi([0x80, 0])),
        (105, wifi([0x48, 0])),
        (105, wifi([0x08, 0x40])),
        (127, vec![0, 0, 7, 0, 0, 0, 0, 0]),
        (119, vec![0x80, 0x21, 0x10, 1, 0xff, 0xff, 0xff, 0xff]),
        (101, vec![0]),
    ] {
        for len in 0..header.len() + 28 {
            let mut packet = [&header[..], &frame()[14..42]].concat();
            packet.truncate(len);
            let file = pcap(true, link, &[(0, 0, &packet)]);
            let mut reader = PcapReader::new("t", Cursor::new(file)).unwrap();
            reader.mark_ip().unwrap();
            let got = reader.next_packet().unwrap().unwrap();
            assert_eq!(got.layer(Layer::Net), None, "link type {link}, {len} bytes");
        }
    }
    // Of other link types nothing is known but the bytes.
    let file = pcap(false, 147, &[(1, 2, b"abc")]);
    assert_eq!(read(&file).unwrap(), [(1_000_002_000, 3)]);
    let error = PcapReader::new("t", Cursor::new(file)).unwrap().mark_ip().unwrap_err().to_string();
    assert!(error.contains("link type 147"), "{error}");
}

#[test]
fn all_kinds_of_pcap_are_read() {
    for big_endian in [false, true] {
        let file = pcap(big_endian, 1, &[(5, 7, &frame()), (6, 999_999, &frame())]);
        let wanted = vec![(5_000_007_000, frame().len()), (6_999_999_000, frame().len())];
        assert_eq!(read(&file).unwrap(), wanted);
        assert_eq!(times(&file), [5_000_007_000, 6_999_999_000]);

        // The records of a patched tcpdump have eight bytes more.
        let mut modified = file.clone();
        modified[if big_endian { 2 } else { 1 }] = 0xcd;
        modified[if big_endian { 3 } else { 0 }] = 0x34;
        let second = 24 + 16 + frame().len();
        modified.splice(second + 16..second + 16, [0; 8]);
        modified.splice(24 + 16..24 + 16, [0; 8]);
        assert_eq!(read(&modified).unwrap(), wanted);
        assert_eq!(times(&modified), [5_000_007_000, 6_999_999_000]);

        // Before version 2.3, what was kept stands behind what there was.
        let mut old = pcap(big_endian, 1, &[(5, 7, &frame())]);
        let minor = if big_endian { 7 } else { 6 };
        old[minor] = 2;
        old[if big_endian { 35 } else { 32 }] = 200;
        assert_eq!(read(&old).unwrap(), wanted[..1]);
        assert_eq!(times(&old), [5_000_007_000]);
        old[minor] = 3;
        assert_eq!(read(&old).unwrap(), wanted[..1]);
    }
}

#[test]
fn all_blocks_of_packets_and_all_clocks_are_read() {
    let frame = frame();
    let len = frame.len();
    for big_endian in [false, true] {
        let mut ng = Ng::new(big_endian);
        ng.interface(1, 0, &[]);
        let words =
            |ng: &Ng, list: &[(u8, u64)]| list.iter().flat_map(|(b, v)| ng.n(*b, *v)).collect::<Vec<u8>>();
        let ticks = 1_700_000_000_123_456_u64;
        let (high, low) = (ticks >> 32, ticks & 0xffff_ffff);
        // The obsolete block has a shorter number of the interface, and a count of losses.
        let head = words(&ng, &[(2, 0), (2, 9), (4, high), (4, low), (4, len as u64), (4, len as u64)]);
        ng.block(2, &[&head[..], &frame].concat());
        ng.enhanced(0, ticks + 1, &frame);
        // What is not known is passed over.
        ng.block(0xbad, &[1, 2, 3]);
        assert_eq!(
            read(&ng.file).unwrap(),
            [(1_700_000_000_123_456_000, len), (1_700_000_000_123_457_000, len)]
        );
        assert_eq!(times(&ng.file), [1_700_000_000_123_456_000, 1_700_000_000_123_457_000]);

        let mut simple = Ng::new(big_endian);
        simple.interface(1, 64, &[]);
        for (was, kept) in [(len, len), (1500, 64)] {
            let mut body = [simple.n(4, was as u64), frame.clone()].concat();
            body.resize(4 + kept, 7);
            simple.block(3, &body);
        }
        assert_eq!(read(&simple.file).unwrap(), [(0, len), (0, 64)]);

        for (resolution, offset, ticks, time) in [
            (6, 1_700_000_000_i64, 123_456, 1_700_000_000_123_456_000),
            (9, -1, 5_000_000_007, 4_000_000_007),
            // A power of two: parts of 1 / 2^20 seconds.
            (0x94, 0, (5 << 20) + (1 << 19), 5_500_000_000),
            (0, 0, 7, 7_000_000_000),
            (3, 0, 7_001, 7_001_000_000),
        ] {
            let mut ng = Ng::new(big_endian);
            let shift = ng.n(8, offset as u64);
            ng.interface(1, 0, &[(2, b"eth0"), (9, &[resolution]), (14, &shift)]);
            ng.enhanced(0, ticks, &frame);
            assert_eq!(read(&ng.file).unwrap(), [(time, len)], "resolution {resolution}");
            assert_eq!(times(&ng.file), [time], "resolution {resolution}");
        }
        // Finer than nanoseconds.
        let mut fine = Ng::new(big_endian);
        fine.interface(1, 0, &[(9, &[12])]);
        fine.enhanced(0, 7_123_456_789_012, &frame);
        assert_eq!(read(&fine.file).unwrap(), [(7_123_456_789, len)]);
    }
    // Each section has a byte order and interfaces of its own, and each interface its link type.
    let [mut a, mut b] = [false, true].map(Ng::new);
    a.interface(1, 0, &[]);
    a.enhanced(0, 1, &frame);
    b.interface(0, 0, &[]);
    b.interface(101, 0, &[]);
    b.enhanced(1, 2, &frame[14..]);
    let mut reader = PcapReader::new("t", Cursor::new([a.file, b.file].concat())).unwrap();
    reader.mark_ip().unwrap();
    let mut net = || {
        let p: Packet = reader.next_packet().unwrap().unwrap();
        (p.layer(Layer::Net).unwrap() - p.data(), p.layer(Layer::Mac).is_some())
    };
    assert_eq!([net(), net()], [(14, true), (0, false)]);
}

#[test]
fn packets_that_are_too_long_are_told_and_do_not_end_the_file() {
    let (frame, long) = (frame(), vec![7; 3_000_000]);
    let most = vec![1; MAX_LEN];
    let packets: [&[u8]; 4] = [&frame, &long, &most, &frame];
    let records: Vec<(u32, u32, &[u8])> = packets.iter().map(|p| (1, 2, *p)).collect();
    let mut ng = Ng::new(true);
    ng.interface(1, 0, &[]);
    packets.iter().for_each(|p| ng.enhanced(0, 5, p));
    for file in [pcap(false, 1, &records), ng.file] {
        let mut reader = PcapReader::new("t", Cursor::new(file)).unwrap();
        let (mut got, mut reported) = (Vec::new(), Vec::new());
        while !reader.ended() {
            reader.read(&mut got, 2).unwrap();
            reported.extend(reader.too_long().map(|l| (l.number, l.len, l.packet.len())));
        }
        assert_eq!(got.iter().map(Packet::len).collect::<Vec<_>>(), [frame.len(), MAX_LEN, frame.len()]);
        assert_eq!(reported, [(2, long.len(), MAX_LEN)]);
    }
}

#[test]
fn a_damaged_file_says_where() {
    let frame = frame();
    let cut = |file: &[u8], by: usize| read(&file[..file.len() - by]).unwrap_err();
    let two = pcap(false, 1, &[(1, 2, &frame), (3, 4, &frame)]);
    assert_eq!(
        cut(&two, 1),
        format!("t: the file ends inside a record (after 1 packets, at byte {})", 40 + frame.len())
    );
    let mut ng = Ng::new(false);
    ng.interface(1, 0, &[]);
    let start = ng.file.len();
    ng.enhanced(0, 5, &frame);
    let ng = ng.file;
    assert_eq!(cut(&ng, 1), format!("t: the file ends inside a record (after 0 packets, at byte {start})"));
    for (at, value, message) in [
        (start + 4, 13, "a block says that it has 13 bytes; blocks have at least 12, and a multiple of 4"),
        (start + 4, 28, "the block of a packet has 28 bytes"),
        (start + 8, 1, "a packet names the interface 1, which is not described"),
        (start + 20, 200, "a packet has 200 bytes, and 48 are left in its block"),
        (ng.len() - 4, 0, "a block says at its start that it has 80 bytes, and at its end, 0"),
    ] {
        let mut damaged = ng.clone();
        damaged[at] = value;
        let error = read(&damaged).unwrap_err();
        assert_eq!(error, format!("t: {message} (after 0 packets, at byte {start})"));
    }
    assert_eq!(read(b"hello").unwrap_err(), "t: neither a pcap nor a pcapng file, or its header is damaged");
    assert_eq!(read(b"").unwrap_err(), "t: neither a pcap nor a pcapng file, or its header is damaged");
}

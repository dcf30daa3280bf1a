use std::io::{self, Cursor, Read};

use super::*;
use proptest::prelude::*;
use weir_net::build;

fn frame(n: u8) -> Vec<u8> {
    build::udp4(([10, 0, 0, n].into(), 1), ([10, 0, 0, 2].into(), 2), &[n; 30])
}

fn read_all(bytes: Vec<u8>) -> Result<Vec<(u64, Vec<u8>)>, PortError> {
    let mut reader = PcapReader::new("test", Cursor::new(bytes))?;
    let mut all = Vec::new();
    while let Some(p) = reader.next_packet()? {
        all.push((p.timestamp, p.bytes().to_vec()));
    }
    Ok(all)
}

fn capture(snaplen: u32, times: &[u64]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = PcapWriter::new("test", &mut file, snaplen).unwrap();
    for (i, &time) in times.iter().enumerate() {
        let mut p = Packet::from_bytes(&frame(i as u8)).unwrap();
        p.timestamp = time;
        writer.write(&p).unwrap();
    }
    file
}

#[test]
fn what_was_written_is_read_with_its_time() {
    let times = [1_700_000_000_123_456_789, 1_700_000_001_000_000_001];
    let got = read_all(capture(65_535, &times)).unwrap();
    assert_eq!(got, [(times[0], frame(0)), (times[1], frame(1))]);
    assert_eq!(read_all(capture(20, &times)).unwrap()[1], (times[1], frame(1)[..20].to_vec()));
}

#[test]
fn big_endian_microseconds() {
    let mut file =
        vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 1];
    for word in [5u32, 7, 3, 3] {
        file.extend(word.to_be_bytes());
    }
    file.extend([1, 2, 3]);
    assert_eq!(read_all(file.clone()).unwrap(), [(5_000_007_000, vec![1, 2, 3])]);
    file[23] = 101;
    assert_eq!(read_all(file.clone()).unwrap().len(), 1, "raw IP");
}

#[test]
fn microseconds_and_raw_ip_are_written_and_read() {
    let mut file = Vec::new();
    let format = Format { snaplen: 100, encap: Encap::Ip, nano: false };
    let mut writer = PcapWriter::with_format("test", &mut file, format).unwrap();
    let mut p = Packet::from_bytes(&frame(1)[14..]).unwrap();
    p.timestamp = 5_000_007_999;
    writer.write(&p).unwrap();
    let mut reader = PcapReader::new("test", Cursor::new(file)).unwrap();
    let got = reader.next_packet().unwrap().unwrap();
    assert_eq!((got.timestamp, got.bytes()), (5_000_007_000, p.bytes()));
    assert_eq!(got.layer(weir_packet::Layer::Mac), None);
}

#[test]
fn records_over_the_borders_of_blocks_are_whole() {
    let times: Vec<u64> = (0..20_000).collect();
    let file = capture(65_535, &times);
    assert!(file.len() > BUFFER * 6);
    let mut reader = PcapReader::new("test", Cursor::new(file)).unwrap();
    let mut all = Vec::new();
    while reader.read(&mut all, 50).unwrap() > 0 {}
    assert!(reader.ended());
    assert_eq!(all.len(), times.len());
    for (i, p) in all.iter().enumerate() {
        assert_eq!((p.timestamp, p.bytes()), (i as u64, &frame(i as u8)[..]));
    }
}

#[test]
fn a_cut_file_gives_its_whole_packets_first() {
    let mut file = capture(65_535, &[1, 2, 3]);
    file.truncate(file.len() - 1);
    let mut port = PcapPort::reading(PcapReader::new("test", Cursor::new(file)).unwrap());
    let mut out = Vec::new();
    assert_eq!(port.receive(&mut out, 32).unwrap(), 2);
    assert!(!port.ended());
    let error = port.receive(&mut out, 32).unwrap_err().to_string();
    assert_eq!(error, "test: the file ends inside a record (after 2 packets, at byte 200)");
    assert!(port.ended() && port.receive(&mut out, 32).unwrap() == 0);
}

#[test]
fn a_pipe_may_give_one_byte_at_a_time() {
    struct Drip(Cursor<Vec<u8>>);
    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let one = buffer.len().min(1);
            self.0.read(&mut buffer[..one])
        }
    }
    let mut reader = PcapReader::new("pipe", Drip(Cursor::new(capture(100, &[1, 2])))).unwrap();
    assert_eq!(reader.next_packet().unwrap().unwrap().bytes(), frame(0));
    assert_eq!(reader.next_packet().unwrap().unwrap().bytes(), frame(1));
    assert!(reader.next_packet().unwrap().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn damaged_files_give_errors(at in 0usize..200, value: u8, cut in 0usize..300, ng: bool) {
        let mut file = capture(65_535, &[1, 2]);
        if ng {
            file[..4].copy_from_slice(&[0x0a, 0x0d, 0x0d, 0x0a]);
        }
        file[at % 180] = value;
        file.truncate(cut);
        if let Ok(packets) = read_all(file) {
            prop_assert!(packets.len() <= 20);
        }
    }

    #[test]
    fn any_bytes_after_a_valid_header_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut file = capture(65_535, &[]);
        file.extend(bytes);
        let _ = read_all(file);
    }
}

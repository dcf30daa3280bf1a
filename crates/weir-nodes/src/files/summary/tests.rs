//! Hostile dumps, and hostile packets.

use std::io::Cursor;

use weir_packet::{Layer, Packet};

use super::{Form, Reader, Spread, View, find};

const FIELDS: &str = "timestamp ntimestamp ts_sec ts_usec ts_usec1 first_timestamp first_ntimestamp count link paint \
    direction aggregate wire_len eth_src eth_dst eth_type ip_src ip_dst ip_tos ip_dscp ip_ecn ip_ttl ip_frag ip_fragoff \
    ip_id ip_sum ip_proto ip_hl ip_len ip_capture_len ip_opt sport dport udp_len tcp_seq tcp_ack tcp_off tcp_flags \
    tcp_window tcp_urp tcp_opt tcp_ntopt tcp_sack icmp_type icmp_code icmp_type_name icmp_code_name icmp_flowid icmp_seq \
    icmp_nextmtu payload payload_len payload_md5 payload_md5_hex";

const DUMP: &str = "!IPSummaryDump 1.2\n!proto 6\n!flowid 1.2.3.4 5 6.7.8.9 10 U\n!aggregate 3\n\
    !data timestamp count ip_len ip_hl ip_opt sport tcp_off tcp_flags tcp_opt payload payload_len ip_fragoff\n\
    1.5 2 100 24 rr{1.2.3.4}+1;ts{1,!2}++3 5 32 SA mss5;sack1-2,sack3-4;ts1:2 \"ab\\000\" 30 0+\n\
    !data eth_src eth_type icmp_type icmp_code icmp_seq icmp_nextmtu ip_proto udp_len wire_len ip_ecn\n\
    00-01-02-03-04-05 0800 unreachable needfrag 6 1400 I 9 60 ce\n- 86dd 13 0 1 - U 8 20 no\n";

/// A small generator of numbers (xorshift).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state as usize
}

/// Writes all fields of a packet in both ways; returns the text.
fn written(packet: &Packet) -> String {
    let view = View::new(packet, true);
    let (mut text, mut record) = (String::new(), Vec::new());
    for name in FIELDS.split_whitespace() {
        let field = find(name).expect(name);
        let got = (field.get)(&view);
        match &got {
            Ok(value) => (field.print)(&view, value, &mut text),
            Err(absent) => text.extend(view.complaint(*absent)),
        }
        text.push(' ');
        let start = record.len();
        field.form.write(got.as_ref().ok(), &mut record);
        if field.form != Form::TextOnly {
            let mut rest = &record[start..];
            assert!(field.form.read(&mut rest).is_some() && rest.is_empty(), "{name}");
        }
    }
    text
}

fn packets(dump: Vec<u8>) -> usize {
    let mut reader = Reader::new(Box::new(Cursor::new(dump)), "dump", 6, true);
    let mut n = 0;
    // A record that is cut off ends the dump with an error.
    while let Ok(Some(packet)) = reader.next_packet() {
        written(&packet);
        let mut spread = Spread::new(packet);
        (0..3).for_each(|_| drop(spread.next()));
        n += 1;
    }
    n
}

#[test]
fn no_dump_makes_the_reader_panic() {
    assert_eq!(packets(DUMP.into()), 3);
    let mut state = 0x1234_5678_9abc_def1;
    let letters = b"0123456789.-+!^{};,:=\"\\ \nTUISAFmstr#\xff\0";
    let mut found = 0;
    for _ in 0..4000 {
        let mut dump = DUMP.as_bytes().to_vec();
        for _ in 0..1 + next(&mut state) % 6 {
            let at = next(&mut state) % dump.len();
            let letter = letters[next(&mut state) % letters.len()];
            match next(&mut state) % 3 {
                0 => dump[at] = letter,
                1 => dump.insert(at, letter),
                _ => drop(dump.remove(at)),
            }
        }
        found += packets(dump);
    }
    assert!(found > 4000, "most mutations leave packets: {found}");
    let mut binary = format!("!data {}\n!binary\n", FIELDS.replace("payload ", "")).into_bytes();
    binary.extend((0..20_000).map(|_| next(&mut state) as u8));
    packets(binary);
}

#[test]
fn no_packet_makes_the_writer_panic() {
    let mut state = 0xfeed_5678_9abc_def1;
    for _ in 0..20_000 {
        let len = next(&mut state) % 90;
        let mut bytes: Vec<u8> = (0..len).map(|_| next(&mut state) as u8).collect();
        // Mostly headers that are nearly right.
        for (at, value) in [(14, 0x45 + (next(&mut state) % 11) as u8), (16, 0), (20, 0), (21, 0)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if let Some(byte) = bytes.get_mut(23) {
            *byte = [1, 6, 17, 47][next(&mut state) % 4];
        }
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        let (data, end) = (packet.data(), packet.end());
        packet.set_layer(Layer::Net, Some((data + 14).min(end)));
        let transport = data + 34 + (next(&mut state) % 8) as u32 * 4;
        packet.set_layer(Layer::Transport, Some(transport).filter(|&t| t <= end));
        packet.anno.iter_mut().for_each(|a| *a = next(&mut state) as u8);
        assert!(!written(&packet).is_empty());
    }
}

#[test]
fn every_synonym_names_a_field() {
    for (name, field) in super::SYNONYMS {
        assert_eq!(find(name).map(|f| f.name), Some(*field));
    }
    for (name, field) in [("src", "ip_src"), ("tcp seq", "tcp_seq"), ("len", "ip_len"), ("proto", "ip_proto")]
    {
        assert_eq!(find(name).map(|f| f.name), Some(field));
    }
    assert!(find("sport_").is_none() && find("").is_none());
}

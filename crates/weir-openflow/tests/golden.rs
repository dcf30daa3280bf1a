//! Bytes that others wrote, and lengths that the specification says.

use std::path::Path;

use weir_openflow::error::{bad_action, bad_instruction, bad_match};
use weir_openflow::{Choices, ErrorCode, Frame, Message};

fn bytes_of(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal")).collect()
}

#[test]
fn messages_of_real_programs_read_and_are_written_back() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages.txt");
    let golden = std::fs::read_to_string(&path).expect("it is there");
    let mut now = String::new();
    for block in golden.split("\n\n") {
        match block.lines().collect::<Vec<_>>()[..] {
            [who, hex, _text] => {
                let bytes = bytes_of(hex);
                let frame = Frame::decode(&bytes).unwrap_or_else(|e| panic!("{hex}: {e}"));
                assert_eq!(frame.encode(), Ok(bytes), "{frame}");
                now.push_str(&format!("\n\n{who}\n{hex}\n{frame}"));
            }
            _ => now.push_str(block),
        }
    }
    now.push('\n');
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &now).expect("it can be written");
    } else {
        assert!(now == golden, "the texts are others; renew them with BLESS=1, and read them:\n{now}");
    }
}

#[test]
fn messages_have_the_lengths_of_the_specification() {
    // The assertions behind the structures of section 7: without lists, each with an empty match.
    let lengths = [
        ("OFPT_HELLO", 8),
        ("OFPT_ERROR", 12),
        ("OFPT_EXPERIMENTER", 16),
        ("OFPT_FEATURES_REPLY", 32),
        ("OFPT_SET_CONFIG", 12),
        ("OFPT_PACKET_IN", 34),
        ("OFPT_FLOW_REMOVED", 56),
        ("OFPT_PORT_STATUS", 80),
        ("OFPT_PACKET_OUT", 24),
        ("OFPT_FLOW_MOD", 56),
        ("OFPT_GROUP_MOD", 16),
        ("OFPT_PORT_MOD", 40),
        ("OFPT_TABLE_MOD", 16),
        ("OFPT_QUEUE_GET_CONFIG_REQUEST", 16),
        ("OFPT_QUEUE_GET_CONFIG_REPLY", 16),
        ("OFPT_ROLE_REQUEST", 24),
        ("OFPT_GET_ASYNC_REPLY", 32),
        ("OFPT_METER_MOD", 16),
    ];
    for (name, length) in lengths {
        let kind = Message::KINDS.iter().position(|(_, n)| *n == name).expect("a message");
        // The choice of the kind behind the transaction's number; all that follow are the first.
        let frame = Frame::any(&mut Choices::new(&[0, kind as u8]));
        assert_eq!(frame.message.name(), name);
        assert_eq!(frame.encode().map(|b| b.len()), Ok(length), "{frame}");
    }
}

/// A flow-mod with these bytes behind its 48 that are always there: match and instructions.
fn flow_mod(rest: &str) -> Vec<u8> {
    let rest = bytes_of(&rest.replace(' ', ""));
    let mut bytes = vec![4, 14, 0, (48 + rest.len()) as u8, 0, 0, 0, 1];
    bytes.extend([0; 40]);
    bytes.extend(rest);
    bytes
}

#[test]
fn mistakes_have_their_code_their_place_and_their_reason() {
    let cases: &[(&str, ErrorCode, usize, &str)] = &[
        ("0000 0004 00000000", bad_match::BAD_TYPE, 48, "type 0"),
        ("0001 0003 00000000", bad_match::BAD_LEN, 48, "3 bytes long"),
        ("0001 00ff 00000000", bad_match::BAD_LEN, 52, "251 bytes long, 4 are left"),
        ("0001 0014 80000004 00000001 80000004 00000001 00000000", bad_match::DUP_FIELD, 60, "in_port"),
        ("0001 000b 80005003 000000 0000000000", bad_match::BAD_FIELD, 52, "field 40"),
        ("0001 000a 80000a04 0800", bad_match::BAD_LEN, 56, "4 bytes long, 2 are left"),
        ("0001 000c 80000a04 08000000 00000000", bad_match::BAD_LEN, 52, "eth_type has 2 bytes, not 4"),
        (
            "0001 000c 80000b04 0800ffff 00000000",
            bad_match::BAD_MASK,
            52,
            "eth_type: this field has no masks",
        ),
        (
            "0001 000c 80001604 0a000001 00000000",
            bad_match::BAD_PREREQ,
            52,
            "ip_src: it needs eth_type = 0x800",
        ),
        ("0001 0009 80001001 ff 00000000000000", bad_match::BAD_VALUE, 52, "more than 6 bits"),
        ("0001 000a 80000c02 0005 000000000000", bad_match::BAD_VALUE, 52, "vlan_vid"),
        ("0001 0018 80000510 0000000000000001 0000000000000002", bad_match::BAD_WILDCARDS, 52, "leaves out"),
        ("0001 0014 80000508 ffffffffffff0000", bad_match::BAD_LEN, 52, "16 bytes long, 12 are left"),
        ("0001 0004 00000000 0009 0008 00000000", bad_instruction::UNKNOWN_INST, 56, "type 9"),
        ("0001 0004 00000000 0001 0010 00000000", bad_instruction::BAD_LEN, 60, "12 bytes long, 4 are left"),
        ("0001 0004 00000000 0001 0009 00000000 00", bad_instruction::BAD_LEN, 64, "1 bytes too many"),
        ("0001 0004 00000000 0004 0010 00000000 0001 0008 00000000", bad_action::BAD_TYPE, 64, "type 1"),
        (
            "0001 0004 00000000 0004 0010 00000000 0000 0008 00000000",
            bad_action::BAD_LEN,
            72,
            "2 bytes are needed",
        ),
        (
            "0001 0004 00000000 0004 0018 00000000 0019 0010 80000004 00000001 00000000",
            bad_action::BAD_SET_TYPE,
            68,
            "in_port",
        ),
        (
            "0001 0004 00000000 0004 0018 00000000 0019 0010 80001202 00060000 00000000",
            bad_action::BAD_SET_LEN,
            68,
            "nw_ecn",
        ),
    ];
    for (rest, code, at, what) in cases {
        match Frame::decode(&flow_mod(rest)) {
            Err(e) => {
                let text = e.to_string();
                assert!((e.code, e.at) == (*code, *at) && text.contains(what), "{rest}: {text}");
                assert!(e.path.starts_with("OFPT_FLOW_MOD"), "{text}");
            }
            Ok(frame) => panic!("{rest} is accepted: {frame}"),
        }
    }
}

//! Our text of messages, and our bytes, against another reader: `ovs-ofctl ofp-parse` takes what we wrote, and prints what we print.

use std::process::Command;

use weir_openflow::error::CODES;
use weir_openflow::message::ErrorMessage;
use weir_openflow::{Choices, Frame, GroupId, Message, PortNo};

/// What `ovs-ofctl` prints of messages, a line each.
fn parsed(frames: &[Frame]) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().expect("there is place for it");
    let bytes: Vec<u8> = frames.iter().flat_map(|f| f.encode().expect("they are short")).collect();
    std::fs::write(file.path(), bytes).expect("there is place for it");
    let out = Command::new("ovs-ofctl").arg("ofp-parse").arg(file.path()).output();
    let out = out.expect("Open vSwitch is installed (scripts/setup.sh)");
    let mut lines: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        match lines.last_mut() {
            Some(last) if !line.contains("(OF1.3) (xid=") => last.push_str(&format!(" {}", line.trim())),
            _ => lines.push(line.trim_end().to_owned()),
        }
    }
    let lines: Vec<String> = lines.iter().map(|l| l.trim_end().to_owned()).collect();
    assert_eq!(lines.len(), frames.len(), "each message is one there as well");
    lines
}

/// A frame of random bytes, and the bytes behind them.
fn frames(count: usize, wanted: impl Fn(&mut Message) -> bool) -> Vec<Frame> {
    let mut state = 7_u64;
    let mut byte = || {
        // Xorshift (Marsaglia, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let any = std::iter::from_fn(|| {
        let bytes: Vec<u8> = (0..400).map(|_| byte()).collect();
        Some(Frame::any(&mut Choices::new(&bytes)))
    });
    let wanted = any.filter_map(|mut f| wanted(&mut f.message).then_some(f));
    // What it knows besides the specification it prints in its own words.
    let plain = wanted.filter(|f| {
        let text = f.to_string();
        !["oxm(", "experimenter(", "ALL", "ANY"].iter().any(|word| text.contains(word))
            // Numbers that it keeps for itself: the last 256 of 16 and of 32 bits.
            && !["in_port=", "watch_port:"].iter().any(|word| {
                let ports = text.split(word).skip(1).filter_map(|t| t.split(&[',', ' ']).next()?.parse::<u32>().ok());
                ports.into_iter().any(|n| (0xff00..=0xffff).contains(&n) || n >= 0xffff_ff00)
            })
    });
    plain.take(count).collect()
}

#[test]
fn entries_read_as_ovs_ofctl_prints_them() {
    let frames = frames(1000, |message| match message {
        Message::FlowMod(m) => {
            (m.out_port, m.out_group) = (PortNo::ANY, GroupId::ANY);
            true
        }
        _ => false,
    });
    let mut same = 0;
    for (theirs, ours) in parsed(&frames).iter().zip(&frames) {
        // It refuses more than the specification says: tables that are all, ports that are none, instructions twice.
        if !theirs.contains("***decode error") {
            assert_eq!(theirs, &ours.to_string());
            same += 1;
        }
    }
    assert!(same > 300, "{same} of {} were compared", frames.len());
}

#[test]
fn groups_read_as_ovs_ofctl_prints_them() {
    let frames = frames(1000, |message| matches!(message, Message::GroupMod(_)));
    let lines = parsed(&frames);
    let both = lines.iter().zip(&frames).filter(|(theirs, _)| !theirs.contains("***decode error"));
    let same = both.inspect(|(theirs, ours)| assert_eq!(**theirs, ours.to_string())).count();
    assert!(same > 100, "{same} of {} were compared", frames.len());
}

#[test]
fn errors_have_the_names_that_ovs_ofctl_knows() {
    let frame = |(code, _): &(weir_openflow::ErrorCode, &str)| Frame {
        xid: 1,
        message: Message::Error(ErrorMessage { code: *code, data: vec![].into() }),
    };
    let frames: Vec<Frame> = CODES.iter().map(frame).collect();
    for (theirs, (_, ours)) in parsed(&frames).iter().zip(CODES) {
        let name = theirs.split(' ').nth(3).unwrap_or_default();
        assert!(name == *ours || OTHER_NAMES.contains(&(ours, name)), "{ours} is there {theirs}");
    }
}

/// What Open vSwitch calls by the name of another version.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("OFPBRC_BAD_MULTIPART", "OFPBRC_BAD_STAT"),
    ("OFPBRC_BAD_EXPERIMENTER", "OFPBRC_BAD_VENDOR"),
    ("OFPBRC_BAD_EXP_TYPE", "OFPBRC_BAD_SUBTYPE"),
    ("OFPBRC_IS_SLAVE", "OFPBRC_IS_SECONDARY"),
    ("OFPBAC_BAD_EXPERIMENTER", "OFPBAC_BAD_VENDOR"),
    ("OFPBAC_BAD_EXP_TYPE", "OFPBAC_BAD_VENDOR_TYPE"),
    ("OFPTFFC_BAD_TYPE", "OFPBPC_BAD_TYPE"),
    ("OFPTFFC_BAD_LEN", "OFPBPC_BAD_LEN"),
    ("OFPTFFC_BAD_ARGUMENT", "OFPBPC_BAD_VALUE"),
];

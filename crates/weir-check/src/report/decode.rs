//! Packets in words.

use std::fmt::Write;

use weir_net::{Fields, frame_fields, ip_fields};
use weir_verify::Hop;

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, b| {
        _ = write!(out, "{b:02x}");
        out
    })
}

/// One line for each header: its name and its fields.
pub(super) fn headers(bytes: &[u8], ip: bool) -> Vec<String> {
    let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, value) in fields(bytes, ip) {
        let (header, field) = name.split_once(' ').unwrap_or((name, ""));
        let text = if field.is_empty() { value } else { format!("{field} {value}") };
        match lines.last_mut() {
            Some((last, list)) if *last == header => list.push(text),
            _ => lines.push((header, vec![text])),
        }
    }
    lines.into_iter().map(|(header, list)| format!("{header}: {}", list.join(", "))).collect()
}

fn fields(bytes: &[u8], ip: bool) -> Fields {
    if ip { ip_fields(bytes) } else { frame_fields(bytes) }
}

/// What an element did to a packet that left it.
pub(super) fn changes(hop: &Hop, after: &[u8]) -> Vec<String> {
    let before = &hop.before[..];
    if before == after {
        return Vec::new();
    }
    let mut out = Vec::new();
    let was_ip = starts_with_ip(hop, before);
    // What is in front of the packet may have gone or come.
    let stripped = before.len().checked_sub(after.len()).filter(|&n| n > 0 && before.ends_with(after));
    let added = after.len().checked_sub(before.len()).filter(|&n| n > 0);
    if let Some(n) = stripped {
        return vec![format!("stripped {n} bytes")];
    }
    if let Some(n) = added.filter(|_| after.ends_with(before)) {
        out.push(format!("added {n} bytes in front"));
        return out;
    }
    let is_ip = is_ip(after) && (was_ip || before.len() != after.len());
    let (old, new) = (fields(before, was_ip), fields(after, is_ip));
    for (name, value) in &new {
        match old.iter().find(|(n, _)| n == name) {
            Some((_, was)) if was != value => out.push(format!("{name} {was} -> {value}")),
            _ => {}
        }
    }
    if before.len() != after.len() {
        out.push(format!("length {} -> {}", before.len(), after.len()));
    } else if out.is_empty() {
        let n = before.iter().zip(after).filter(|(a, b)| a != b).count();
        out.push(format!("{n} {} changed", if n == 1 { "byte" } else { "bytes" }));
    }
    out
}

/// A packet in a line, where nothing says what it begins with.
pub(super) fn summary(bytes: &[u8]) -> String {
    if is_ip(bytes) { weir_net::describe_ip(bytes) } else { weir_net::describe(bytes) }
}

fn starts_with_ip(hop: &Hop, bytes: &[u8]) -> bool {
    match hop.net {
        Some(0) => true,
        Some(_) => false,
        None => is_ip(bytes) && ip_fields(bytes).len() > frame_fields(bytes).len(),
    }
}

fn is_ip(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(0x45..=0x4f | 0x60..=0x6f)) && !ip_fields(bytes).is_empty()
}

#[cfg(test)]
mod tests {
    use weir_net::build;
    use weir_verify::NodePort;

    use super::*;

    fn change(before: &[u8], net: Option<usize>, after: &[u8]) -> Vec<String> {
        let place = NodePort { node: 0, port: 0 };
        let hop =
            Hop { packet: 0, place, before: before.to_vec(), net, lookups: Vec::new(), after: Vec::new() };
        changes(&hop, after)
    }

    #[test]
    fn a_packet_is_one_line_a_header() {
        let frame = build::udp4(([10, 0, 0, 1].into(), 5), ([10, 0, 0, 2].into(), 53), b"x");
        let lines = headers(&frame, false);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("eth: src 02:00") && lines[2] == "udp: src 5, dst 53", "{lines:?}");
        assert_eq!(headers(&frame[14..], true), lines[1..]);
        assert_eq!(hex(&[1, 0xab]), "01ab");
    }

    #[test]
    fn changes_are_told_by_field() {
        let frame = build::udp4(([10, 0, 0, 1].into(), 5), ([10, 0, 0, 2].into(), 53), b"x");
        let other = build::udp4(([10, 0, 0, 9].into(), 5), ([10, 0, 0, 2].into(), 54), b"x");
        assert_eq!(change(&frame, None, &frame), Vec::<String>::new());
        assert_eq!(change(&frame, None, &frame[14..]), ["stripped 14 bytes"]);
        assert_eq!(change(&frame[14..], Some(0), &frame), ["added 14 bytes in front"]);
        let words = ["ip src 10.0.0.1 -> 10.0.0.9", "udp dst 53 -> 54"];
        assert_eq!(change(&frame, Some(14), &other), words);
        assert_eq!(change(&frame[14..], Some(0), &other[14..]), words);
        assert_eq!(change(&[1, 2, 3], None, &[1, 2, 4]), ["1 byte changed"]);
    }
}

//! What an element did to a packet, in words.

use weir_net::{frame_fields, ip_fields};
use weir_packet::Packet;

use super::{Start, start};

/// Fields of the annotation area that have names: offset, length, name (Click's layout).
const ANNOTATIONS: [(usize, usize, &str); 4] =
    [(0, 4, "dst ip annotation"), (16, 1, "paint"), (20, 4, "aggregate"), (40, 2, "vlan tci annotation")];

/// The differences between a packet before and after: bytes in front and behind, then header fields, then
/// annotations. Marks and checksums that follow from other fields are left out.
pub(super) fn changes(before: &Packet, after: &Packet) -> Vec<String> {
    let mut out = Vec::new();
    let front = i64::from(after.data()) - i64::from(before.data());
    match front {
        0 => {}
        n if n > 0 => out.push(format!("stripped {n} bytes")),
        n => out.push(format!("added {} bytes in front", -n)),
    }
    let behind = after.len() as i64 - before.len() as i64 + front;
    match behind {
        0 => {}
        n if n > 0 => out.push(format!("added {n} bytes behind")),
        n => out.push(format!("cut {} bytes behind", -n)),
    }
    let (old, new) = (fields(before), fields(after));
    for (name, value) in &new {
        match old.iter().find(|(n, _)| n == name) {
            Some((_, was)) if was != value => out.push(format!("{name} {was} -> {value}")),
            Some(_) => {}
            None => {}
        }
    }
    if out.is_empty() && before.bytes() != after.bytes() {
        let n = before.bytes().iter().zip(after.bytes()).filter(|(a, b)| a != b).count();
        out.push(format!("{n} bytes changed"));
    }
    for (at, len, name) in ANNOTATIONS {
        let (a, b) = (&before.anno[at..at + len], &after.anno[at..at + len]);
        if a != b {
            out.push(format!("{name} {} -> {}", annotation(a, name), annotation(b, name)));
        }
    }
    out
}

fn annotation(bytes: &[u8], name: &str) -> String {
    match bytes {
        [a, b, c, d] if name.contains("ip") => format!("{a}.{b}.{c}.{d}"),
        _ => bytes.iter().fold(0u64, |v, &b| v << 8 | u64::from(b)).to_string(),
    }
}

/// The header fields of a packet, as far as it has headers that are known.
fn fields(packet: &Packet) -> weir_net::Fields {
    match start(packet) {
        Start::Ethernet => frame_fields(packet.bytes()),
        Start::Ip => ip_fields(packet.bytes()),
        Start::Unknown => Vec::new(),
    }
}

//! What an element did to a packet, in words.

use weir_net::{frame_fields, ip_fields};
use weir_packet::Packet;

use super::{Start, start};

/// Fields of the annotation area that have names: offset, length, name (Click's layout).
const ANNOTATIONS: [(usize, usize, &str); 3] =
    [(0, 4, "dst ip annotation"), (16, 1, "paint"), (20, 4, "aggregate")];
/// What elements for VLANs have in place of the last.
const VLAN_TCI: (usize, usize, &str) = (20, 2, "vlan tci annotation");

/// The differences that an element of a class made to a packet: bytes in front and behind, then header fields, then
/// annotations. Marks and checksums that follow from other fields are left out.
pub(super) fn changes(class: &str, before: &Packet, after: &Packet) -> Vec<String> {
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
    // A field may be there several times, such as the tag of each VLAN: all of them are one value.
    let values = |list: &weir_net::Fields, name: &str| {
        let of_name = list.iter().filter(|(n, _)| *n == name).map(|(_, value)| value.as_str());
        of_name.collect::<Vec<&str>>().join(", ")
    };
    for (i, (name, _)) in new.iter().enumerate() {
        if new[..i].iter().any(|(n, _)| n == name) {
            continue;
        }
        let (was, is) = (values(&old, name), values(&new, name));
        if !was.is_empty() && was != is {
            out.push(format!("{name} {was} -> {is}"));
        }
    }
    if out.is_empty() && before.bytes() != after.bytes() {
        let n = before.bytes().iter().zip(after.bytes()).filter(|(a, b)| a != b).count();
        out.push(format!("{n} bytes changed"));
    }
    for (at, len, name) in ANNOTATIONS {
        let (at, len, name) =
            if at == VLAN_TCI.0 && class.contains("VLAN") { VLAN_TCI } else { (at, len, name) };
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

#[cfg(test)]
mod tests {
    use weir_net::build::{tag_vlan, udp4};
    use weir_packet::Layer;

    use super::*;

    fn packet(tags: &[u16]) -> Packet {
        let mut frame = udp4(([10, 0, 0, 1].into(), 1), ([10, 0, 0, 2].into(), 2), b"x");
        tags.iter().rev().for_each(|tag| tag_vlan(&mut frame, *tag));
        let mut packet = Packet::from_bytes(&frame).unwrap();
        let data = packet.data();
        packet.set_layer(Layer::Mac, Some(data));
        packet
    }

    #[test]
    fn tags_are_compared_as_a_whole() {
        assert_eq!(changes("Counter", &packet(&[100, 200]), &packet(&[100, 200])), Vec::<String>::new());
        assert_eq!(changes("X", &packet(&[100, 200]), &packet(&[100, 7])), ["vlan 100, 200 -> 100, 7"]);
        assert_eq!(changes("X", &packet(&[100; 7]), &packet(&[0; 7])).len(), 1);
    }

    #[test]
    fn the_annotation_of_a_vlan_is_told_by_its_name() {
        let before = packet(&[]);
        let mut after = before.copy();
        after.anno[21] = 100;
        assert_eq!(changes("VLANDecap", &before, &after), ["vlan tci annotation 0 -> 100"]);
        after.anno[20..24].copy_from_slice(&[0, 0, 0, 9]);
        assert_eq!(changes("AggregateIP", &before, &after), ["aggregate 0 -> 9"]);
    }
}

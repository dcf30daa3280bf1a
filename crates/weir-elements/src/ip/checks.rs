//! What the elements that check headers share.

use crate::fields::ipv4;
use weir_packet::Checksum;

use crate::prelude::*;

/// Largest offset of a header: no packet is longer.
const MAX_OFFSET: u32 = weir_packet::MAX_LEN as u32;

/// Refuses offsets that lie beyond any packet.
pub(crate) fn check_offset(offset: u32) -> Result<(), String> {
    match offset {
        0..=MAX_OFFSET => Ok(()),
        _ => Err(format!("OFFSET: {offset} is beyond the end of any packet; at most {MAX_OFFSET}")),
    }
}

/// The path of a packet that is refused: counted, and out on output 1 if that is there.
pub(crate) fn refuse(drops: TableId, reason: Reason) -> impl FnOnce(&mut Builder) {
    move |b| {
        count(b, drops);
        b.emit_or_drop(1, reason);
    }
}

/// Goes on with an IPv4 packet of one protocol that is no fragment, with all bytes that its header speaks of. Sets
/// `transport`, and gives the length of the payload: so many bytes are known to be there, and `min` at least.
pub(crate) fn whole_payload(b: &mut Builder, drops: TableId, protocol: u8, not: Reason, min: u32) -> V {
    let bad_length = || refuse(drops, Reason::new("BadLength"));
    require_marked_or(b, Layer::Net, 20, |b, reason| refuse(drops, reason)(b));
    let found = ipv4::PROTOCOL.load(b);
    let other = b.ne(found, protocol);
    b.when(other, refuse(drops, not));
    let header_len = ip_header_len(b);
    let short = b.lt(header_len, 20);
    b.when(short, refuse(drops, Reason::BAD_HEADER));
    // More fragments, or an offset: the header is elsewhere, or part of what the checksum covers.
    let fragment = ipv4::FRAGMENT.load(b);
    let fragment = b.and(fragment, 0x3fff);
    let fragment = b.ne(fragment, 0);
    b.when(fragment, refuse(drops, Reason::new("Fragment")));
    let total = ipv4::LENGTH.load(b);
    let total = b.resize(W32, total);
    let short = b.lt(total, header_len);
    b.when(short, bad_length());
    let len = b.sub(total, header_len);
    b.require_or(Layer::Net, header_len, refuse(drops, Reason::TRUNCATED));
    b.set_mark(Layer::Transport, Layer::Net, header_len);
    let short = b.lt(len, min);
    b.when(short, bad_length());
    b.require_or(Layer::Transport, len, refuse(drops, Reason::TRUNCATED));
    b.require_or(Layer::Transport, min, refuse(drops, Reason::TRUNCATED));
    len
}

/// Goes on if the Internet checksum of the first `len` bytes of the payload is right, with the IPv4 pseudo header in
/// front if a protocol is given.
///
/// A packet of the local kernel whose checksum is not finished yet is right by definition, and one whose checksum was
/// verified before it came in is not summed again.
pub(crate) fn check_sum(b: &mut Builder, drops: TableId, len: V, pseudo: Option<u8>) {
    let state = b.load_meta(MetaField::Checksum);
    let unknown = b.eq(state, Checksum::Unknown as u8);
    b.when(unknown, |b| {
        let mut sum = b.checksum(Layer::Transport, 0, len);
        if let Some(protocol) = pseudo {
            let addresses = b.checksum(Layer::Net, 12, 20);
            sum = b.sum16(sum, addresses);
            sum = b.sum16(sum, u32::from(protocol));
            let len = b.resize(W16, len);
            sum = b.sum16(sum, len);
        }
        let wrong = b.ne(sum, 0xffff);
        b.when(wrong, refuse(drops, Reason::BAD_CHECKSUM));
    });
}

/// What the tests of the checking elements share.
#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{Harness, ip_packet};
    use weir_net::Ipv4;

    /// The reason for which a class with one output drops a packet.
    pub(crate) fn reason(class: &str, packet: &[u8]) -> String {
        Harness::new(class, &[], 1, 1).send_ip(0, packet)[0].reason().to_owned()
    }

    /// A packet with some bytes changed, and its IPv4 header checksum updated.
    pub(crate) fn changed(packet: &[u8], at: usize, to: &[u8]) -> Vec<u8> {
        let mut p = packet.to_vec();
        p[at..at + to.len()].copy_from_slice(to);
        if let Ok(mut ip) = Ipv4::new(&mut p[..]) {
            ip.fill_checksum();
        }
        p
    }

    /// What every one of these elements does with these faults, and with packets whose checksum the sender's kernel
    /// has not finished, or has verified.
    pub(crate) fn common_faults(class: &str, packet: &[u8], checksum_at: usize) {
        let mut e = Harness::new(class, &[], 1, 2);
        assert_eq!(e.send_ip(0, packet)[0].out(), (0, packet));
        for n in 0..packet.len() {
            assert_eq!(e.send_ip(0, &packet[..n])[0].out(), (1, &packet[..n]), "cut after {n} bytes");
        }
        assert_eq!(e.read("drops"), packet.len().to_string());

        assert_eq!(reason(class, &changed(packet, 9, &[99])), format!("Not{}", &class[5..class.len() - 6]));
        assert_eq!(reason(class, &changed(packet, 6, &[0x20, 0])), "Fragment");
        assert_eq!(reason(class, &changed(packet, 6, &[0, 1])), "Fragment");
        assert_eq!(reason(class, &changed(packet, 2, &[0, 19])), "BadLength");
        assert_eq!(reason(class, &changed(packet, 2, &[0, 22])), "BadLength");
        assert_eq!(reason(class, &changed(packet, 2, &[0xff, 0xff])), "Truncated");
        assert_eq!(reason(class, &changed(packet, 0, &[0x44])), "BadHeader");

        let wrong = changed(packet, checksum_at, &[0xab, 0xcd]);
        assert_eq!(reason(class, &wrong), "BadChecksum");
        for state in [Checksum::Full, Checksum::Partial] {
            let mut p = ip_packet(&wrong);
            p.csum = state as u8;
            assert_eq!(e.send_packet(0, p)[0].out(), (0, &wrong[..]), "{state:?}");
        }
    }
}

//! What the elements that change the type of service share.

use crate::fields::ipv4;
use crate::prelude::*;

/// Changes the second byte of the IPv4 header at `net`, of which 20 bytes are known to be there, and updates the header
/// checksum. `change` gets the byte.
pub(super) fn change_tos(b: &mut Builder, change: impl FnOnce(&mut Builder, V) -> V) {
    let old = b.load(W16, Layer::Net, 0);
    let tos = b.resize(W8, old);
    let tos = change(b, tos);
    ipv4::TOS.store(b, tos);
    let high = b.and(old, 0xff00);
    let tos = b.resize(W16, tos);
    let new = b.or(high, tos);
    update_ip_checksum(b, &[old], &[new]);
}

/// What the tests of these elements share.
#[cfg(test)]
pub(super) mod tests {
    use crate::testing::{Harness, udp};
    use weir_net::Ipv4;

    /// A packet with that type of service.
    pub(crate) fn packet(tos: u8) -> Vec<u8> {
        let mut p = udp(([10, 0, 0, 1], 1), ([10, 0, 1, 1], 2), b"x");
        p[1] = tos;
        Ipv4::new(&mut p[..]).unwrap().fill_checksum();
        p
    }

    /// Every type of service becomes what `to` says, with the right checksum; packets that are cut are dropped.
    pub(crate) fn each(e: &mut Harness, to: impl Fn(u8) -> u8) {
        for tos in 0..=255 {
            assert_eq!(e.send_ip(0, &packet(tos))[0].out().1, packet(to(tos)), "{tos}");
        }
        for n in 0..20 {
            assert_eq!(e.send_ip(0, &packet(0)[..n])[0].reason(), "Truncated");
        }
    }
}

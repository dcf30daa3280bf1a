//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

use std::net::{Ipv4Addr, Ipv6Addr};

/// A running ones' complement sum, not folded.
///
/// Pieces may be added in any order, but all of them except the last must have an even number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes as big-endian 16-bit words; an odd last byte is padded with zero.
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Sum {
        // 32-bit words sum to the same value modulo 0xffff as their two halves do.
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum = words.iter().fold(self.0, |s, &w| s + u64::from(u32::from_be_bytes(w)));
        let (halves, odd) = rest.as_chunks::<2>();
        sum += halves.iter().map(|&h| u64::from(u16::from_be_bytes(h))).sum::<u64>();
        sum += odd.iter().map(|&b| u64::from(b) << 8).sum::<u64>();
        Sum(sum)
    }

    /// Adds one 16-bit word.
    #[must_use]
    pub fn add_u16(self, word: u16) -> Sum {
        Sum(self.0 + u64::from(word))
    }

    /// The sum folded to 16 bits, not complemented: what a partial checksum field holds.
    #[must_use]
    pub fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum: the complement of the folded sum.
    #[must_use]
    pub fn finish(self) -> u16 {
        !self.fold()
    }
}

/// The Internet checksum of bytes; 0 if they contain their own correct checksum.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().add_bytes(bytes).finish()
}

/// The checksum after a 16-bit word that it covers changed from `old` to `new` (RFC 1624, equation 3).
#[must_use]
pub fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    Sum(u64::from(!checksum)).add_u16(!old).add_u16(new).finish()
}

/// The checksum after a 32-bit word at an even position, such as an address, changed from `old` to `new`.
#[must_use]
pub fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    let first = update16(checksum, (old >> 16) as u16, (new >> 16) as u16);
    update16(first, old as u16, new as u16)
}

/// Sum of the pseudo header of TCP and UDP over IPv4 (RFC 9293 3.1, RFC 768); `length` is that of the segment.
#[must_use]
pub fn pseudo4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, length: u16) -> Sum {
    Sum::default()
        .add_bytes(&src.octets())
        .add_bytes(&dst.octets())
        .add_u16(u16::from(protocol))
        .add_u16(length)
}

/// Sum of the pseudo header of TCP, UDP and ICMPv6 over IPv6 (RFC 8200 8.1).
#[must_use]
pub fn pseudo6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, length: u32) -> Sum {
    let sum = Sum::default().add_bytes(&src.octets()).add_bytes(&dst.octets());
    sum.add_bytes(&length.to_be_bytes()).add_u16(u16::from(protocol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sum_of_the_example_in_rfc_1071() {
        let s = Sum::default().add_bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(s.fold(), 0xddf2);
    }

    #[test]
    fn the_corner_case_of_rfc_1624_section_4() {
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn words_of_32_bits_sum_as_words_of_16(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut slow = 0u32;
            for pair in bytes.chunks(2) {
                slow += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u32::from(b));
                slow = (slow & 0xffff) + (slow >> 16);
            }
            prop_assert_eq!(Sum::default().add_bytes(&bytes).fold(), slow as u16);
        }

        #[test]
        fn an_incremental_update_equals_a_full_sum(
            mut bytes in proptest::collection::vec(any::<u8>(), 20),
            at in 0usize..9,
            new in any::<u32>(),
        ) {
            // The first word is never zero in a header, which keeps the two representations of zero apart.
            bytes[0] |= 0x40;
            let at = if at == 0 { 2 } else { at } * 2;
            let before = checksum(&bytes);
            let old = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            bytes[at..at + 4].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update32(before, old, new), checksum(&bytes));
        }
    }
}

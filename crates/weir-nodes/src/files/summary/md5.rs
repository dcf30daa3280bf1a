//! MD5 of payloads, as dumps write it.

use md5::{Digest, Md5};

/// The digest of bytes (RFC 1321).
pub(super) fn digest(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// 22 characters of 6 bits each, the lowest bits of the first byte first.
pub(super) fn text(digest: &[u8]) -> String {
    const CHARS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let bits = digest.iter().take(16).rev().fold(0u128, |n, b| n << 8 | u128::from(*b));
    (0..22).map(|i| char::from(CHARS[(bits >> (6 * i)) as usize & 63])).collect()
}

/// 32 hexadecimal digits.
pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing_is_the_known_one() {
        let d = digest(b"");
        assert_eq!(hex(&d), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(text(&d), "u3bJz@iaYsq6aMaMSJVq_b");
    }
}

//! Public keys of WireGuard.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A public key of WireGuard: a point of Curve25519 (RFC 7748). Its text is base64, as `wg pubkey` prints it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireGuardKey(pub [u8; 32]);

/// A text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key of WireGuard is 32 bytes in base64, as `wg pubkey` prints it: 44 characters that end with =")]
pub struct NoWireGuardKey;

impl FromStr for WireGuardKey {
    type Err = NoWireGuardKey;
    fn from_str(text: &str) -> Result<WireGuardKey, NoWireGuardKey> {
        let bytes = STANDARD.decode(text).map_err(|_| NoWireGuardKey)?;
        bytes.try_into().map(WireGuardKey).map_err(|_| NoWireGuardKey)
    }
}

impl fmt::Display for WireGuardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for WireGuardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WireGuardKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_bytes_in_base64() {
        let text = "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=";
        assert_eq!(text.parse::<WireGuardKey>().unwrap().to_string(), text);
        for wrong in [
            "",
            "HIgo",
            "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8yk==",
            "!Igo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=",
        ] {
            assert_eq!(wrong.parse::<WireGuardKey>(), Err(NoWireGuardKey), "{wrong}");
        }
    }
}

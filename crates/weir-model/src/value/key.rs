//! Keys of tunnels.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use weir_net::WireGuardKey;

use crate::error::{ValueError, quote};

/// The public key of an end of a WireGuard tunnel; text form base64, as `wg pubkey` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub WireGuardKey);

text_form!(PublicKey, {
    "description": "The public key of an end of a WireGuard tunnel: 32 bytes in base64.",
    "type": "string", "pattern": "^[0-9A-Za-z+/]{42}[AEIMQUYcgkosw048]=$"
});

impl FromStr for PublicKey {
    type Err = ValueError;
    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            let message = format!("{} is not the public key of a WireGuard tunnel", quote(text));
            ValueError::new(
                message,
                "it is 32 bytes in base64; a node's is in what `weir node --describe` prints",
            )
        })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

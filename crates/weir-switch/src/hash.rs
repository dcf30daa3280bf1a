//! Names and tags that are hashes.

use sha2::{Digest, Sha256};

/// A hash of texts: 32 hexadecimal digits. No two lists of texts run together alike.
pub fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect()
}

//! That a token counts once: the tokens that were used, for as long as they would be good.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use crate::key::Fingerprint;
use crate::token::{Claims, SKEW, TokenError};

/// Tokens that are remembered: some 15 MB.
pub const CAPACITY: usize = 1 << 18;
/// The part of them that one key may take: nobody keeps the others out.
const SHARE: usize = 4;

/// The tokens that were used. When it is full, further ones are refused until some have expired: to forget one would be to let it count
/// twice.
#[derive(Debug)]
pub struct ReplayCache {
    capacity: usize,
    /// By when they are forgotten.
    used: HashMap<[u8; 16], u64>,
    /// Of each second, what is forgotten then, with whose it is.
    until: BTreeMap<u64, Vec<([u8; 16], Fingerprint)>>,
    of_key: HashMap<Fingerprint, usize>,
}

impl Default for ReplayCache {
    fn default() -> ReplayCache {
        ReplayCache::new(CAPACITY)
    }
}

impl ReplayCache {
    /// One that remembers so many.
    pub fn new(capacity: usize) -> ReplayCache {
        ReplayCache { capacity, used: HashMap::new(), until: BTreeMap::new(), of_key: HashMap::new() }
    }

    /// Uses a token that was verified at this time.
    ///
    /// # Errors
    /// It was used before, or there is no room to remember it.
    pub fn use_once(&mut self, claims: &Claims, now: u64) -> Result<(), TokenError> {
        self.forget(now);
        let id = id(claims);
        if self.used.contains_key(&id) {
            return Err(TokenError::Replayed);
        }
        let own = self.of_key.get(&claims.sub).copied().unwrap_or(0);
        if self.used.len() >= self.capacity || own >= self.capacity.div_ceil(SHARE) {
            let next = self.until.keys().next().copied().unwrap_or(now);
            return Err(TokenError::Full(next.saturating_sub(now).max(1)));
        }
        // Until then it would be taken.
        let until = claims.exp.saturating_add(SKEW);
        self.used.insert(id, until);
        self.until.entry(until).or_default().push((id, claims.sub.clone()));
        *self.of_key.entry(claims.sub.clone()).or_default() += 1;
        Ok(())
    }

    /// Number of tokens that are remembered.
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    fn forget(&mut self, now: u64) {
        while let Some(first) = self.until.first_entry().filter(|e| *e.key() <= now) {
            for (id, key) in first.remove() {
                self.used.remove(&id);
                if let Some(n) = self.of_key.get_mut(&key) {
                    *n -= 1;
                    if *n == 0 {
                        self.of_key.remove(&key);
                    }
                }
            }
        }
    }
}

/// A hash of who signed it and its number: what clients send takes no more room than this.
fn id(claims: &Claims) -> [u8; 16] {
    let hash = Sha256::new()
        .chain_update(claims.sub.as_str())
        .chain_update([0])
        .chain_update(&claims.jti)
        .finalize();
    std::array::from_fn(|i| hash[i])
}

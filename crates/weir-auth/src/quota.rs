//! How much a tenant may have, and how often it may ask.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The limits of a tenant; without one there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quotas {
    /// Most graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<u32>,
    /// Most bytes of memory that its functions that are not inline may come to take together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Most processor time of the same, in thousandths of a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    /// Most requests a second, with ten seconds' worth at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u32>,
}

/// The resources that a tenant has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Graphs.
    pub graphs: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Thousandths of a processor.
    pub cpu: u64,
}

/// A tenant would have too much.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tenant '{tenant}' would have {}; an operator may raise its quota", .over.join(", and "))]
pub struct OverQuota {
    /// The tenant.
    pub tenant: String,
    /// Of what, with the figures.
    pub over: Vec<String>,
}

impl Quotas {
    /// Whether each limit is one that documents can hold: OpenAPI's `int32` for counts, `int64` for amounts.
    ///
    /// # Errors
    /// Which is too large.
    pub fn check(&self) -> Result<(), String> {
        let counts = [("graphs", self.graphs), ("requests", self.requests)];
        let counts = counts.map(|(name, n)| (name, n.map(u64::from), i32::MAX as u64));
        let amounts =
            [("memory", self.memory), ("cpu", self.cpu)].map(|(name, n)| (name, n, i64::MAX as u64));
        match counts.into_iter().chain(amounts).find(|(_, n, most)| n.is_some_and(|n| n > *most)) {
            Some((name, _, most)) => Err(format!("quotas.{name}: at most {most}; leave it out for no limit")),
            None => Ok(()),
        }
    }

    /// Whether a tenant that has `before` may have `after`. What does not grow is no matter, so a tenant whose quota was lowered can
    /// still change and remove what it has.
    ///
    /// # Errors
    /// What it would have too much of.
    pub fn admit(&self, tenant: &str, before: Usage, after: Usage) -> Result<(), OverQuota> {
        let mb = |bytes: u64| format!("{} MB of memory", bytes.div_ceil(1 << 20));
        let cpus = |n: u64| format!("{}.{:03} processors", n / 1000, n % 1000);
        let graphs = |n: u64| if n == 1 { "1 graph".to_owned() } else { format!("{n} graphs") };
        let over = |most: Option<u64>, of: fn(Usage) -> u64, text: &dyn Fn(u64) -> String| {
            let most = most.filter(|most| of(after) > *most && of(after) > of(before))?;
            Some(format!("{} and may have {}", text(of(after)), text(most)))
        };
        let over = [
            over(self.graphs.map(Into::into), |u| u.graphs, &graphs),
            over(self.memory, |u| u.memory, &mb),
            over(self.cpu, |u| u.cpu, &cpus),
        ];
        let over: Vec<String> = over.into_iter().flatten().collect();
        if over.is_empty() { Ok(()) } else { Err(OverQuota { tenant: tenant.to_owned(), over }) }
    }
}

/// Seconds' worth of requests that may come at once.
const BURST: u64 = 10;

/// How often somebody may ask: a token bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    per_second: u32,
    /// Requests that may come at once now, in thousandths.
    left: u64,
    at: u64,
}

impl Rate {
    /// So many requests a second, beginning at this time, in milliseconds.
    pub fn new(per_second: u32, now: u64) -> Rate {
        Rate { per_second, left: u64::from(per_second) * 1000 * BURST, at: now }
    }

    /// The rate.
    pub fn per_second(&self) -> u32 {
        self.per_second
    }

    /// Takes a request at this time, in milliseconds.
    ///
    /// # Errors
    /// There were too many; after so many milliseconds the next one is taken.
    pub fn take(&mut self, now: u64) -> Result<(), u64> {
        let rate = u64::from(self.per_second);
        // A clock that goes back gives nothing.
        let passed = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        self.left = passed.saturating_mul(rate).saturating_add(self.left).min(rate * 1000 * BURST);
        match self.left.checked_sub(1000) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err((1000 - self.left).div_ceil(rate.max(1)).max(1)),
        }
    }
}

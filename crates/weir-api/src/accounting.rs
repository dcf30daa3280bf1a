//! What modules of requests have taken (CHANGE paper, section 2.2.4: users pay for what they use).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The usage of a module, from its beginning on. Numbers only grow, also when the node, its data plane or the controller end and begin
/// again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountingRecord {
    /// The request.
    pub request: String,
    /// The module.
    pub module: String,
    /// Whose it is; without one it is the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The node.
    pub node: String,
    /// The kind of function that it is: `click`, or that of its sandbox.
    pub kind: String,
    /// When it began, in seconds since the epoch.
    pub began: u64,
    /// When it ended; one that runs has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// How long it ran, or has run so far.
    pub seconds: u64,
    /// Packets that came to it.
    pub packets_in: u64,
    /// Bytes of these, from the IP header on.
    pub bytes_in: u64,
    /// Packets that left it, and its enforcer.
    pub packets_out: u64,
    /// Bytes of these.
    pub bytes_out: u64,
    /// Processor time in microseconds. Of a module in the data plane it is an estimate: its share of what was measured there.
    pub cpu: u64,
    /// Bytes of memory that it had last; of a module in the data plane those of its tables.
    pub memory: u64,
    /// Sum over its seconds of the bytes that it had.
    pub memory_seconds: u64,
    /// Until when the numbers are, in seconds since the epoch.
    pub counted: u64,
}

/// A list of accounting records of modules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountingList {
    /// By request, in the order in which they came, and by module.
    pub records: Vec<AccountingRecord>,
}

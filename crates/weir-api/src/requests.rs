//! Requests for processing (CHANGE paper, section 2.2.2): what a controller answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is proved.
    Holds,
    /// It is refuted.
    Violated,
    /// Neither.
    Inconclusive,
    /// Of a module's security: it is not proved of the module, which runs behind an enforcer that is proved to keep the rules.
    Contained,
}

impl Verdict {
    /// The word for it, as in documents.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Violated => "violated",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Contained => "contained",
        }
    }
}

/// The finding about a requirement, or about the security rules for a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestFinding {
    /// The requirement as written; of a module's security `security MODULE REQUESTER`.
    pub requirement: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub reason: String,
    /// A packet that shows it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet: Option<String>,
}

/// Where a module is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModuleAddress {
    /// The module.
    pub name: String,
    /// Its address, which is no other's, unless there are `ports`: else all protocols and ports of it are the module's.
    pub address: String,
    /// Of an address that others share: the ports that are the module's, the first and the last, as `20000-20015`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<String>,
    /// The protocols of these ports: `tcp`, `udp`, or `all`, which is both, and echoes of ICMP with identifiers that are such ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocols: Option<String>,
    /// Its name at the operator's DNS server, where it stands until the module ends.
    #[serde(default, rename = "name-in-dns", skip_serializing_if = "Option::is_none")]
    pub name_in_dns: Option<String>,
    /// If it runs in a sandbox behind an enforcer: the kind of function that it is, `process` for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// What the enforcer lets out of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforcer: Option<EnforcerRules>,
}

/// The rules of an enforcer for packets that leave a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnforcerRules {
    /// Prefixes of those who agreed to get what the module sends; `0.0.0.0/0` is anybody.
    pub destinations: Vec<String>,
    /// For so many seconds after a packet came to the module, answers to it leave, whoever sent it.
    pub answers: u64,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestAnswer {
    /// The request's identifier, which is that of its graph; a query has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whose it is; without one it is the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The node.
    pub node: String,
    /// When it ends by itself, in seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The modules.
    pub modules: Vec<ModuleAddress>,
    /// What was proved.
    pub findings: Vec<RequestFinding>,
}

/// A request that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestDetails {
    /// What was answered.
    #[serde(flatten)]
    pub answer: RequestAnswer,
    /// The request as it was written.
    pub request: String,
}

/// The requests that run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestList {
    /// In the order in which they came.
    pub requests: Vec<RequestAnswer>,
}

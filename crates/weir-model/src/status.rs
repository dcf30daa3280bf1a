//! What a node reports about its graphs. Counters count from the start of the function and never wrap in practice (64 bits).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a graph on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GraphStatus {
    /// The graph's identifier.
    pub id: String,
    /// The graph's name.
    pub name: String,
    /// The tenant that the graph belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Running only if every function is.
    #[serde(flatten)]
    pub state: State,
    /// The functions, in the graph's order.
    pub functions: Vec<FunctionStatus>,
    /// The links, in the order of the flow rules that make them.
    pub links: Vec<LinkStatus>,
}

/// A life-cycle state; in documents `"state": "failed", "reason": "…"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// On its way to running.
    Starting,
    /// Packets flow.
    Running,
    /// It does not run, and will not by itself.
    Failed {
        /// What went wrong and what would mend it.
        reason: String,
    },
    /// Stopped on request.
    Stopped,
}

/// The state of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FunctionStatus {
    /// The function's identifier in its graph.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// Its life-cycle state.
    #[serde(flatten)]
    pub state: State,
    /// What executes it, such as `inline` or `container`.
    pub engine: String,
    /// Packets that entered by any port.
    pub packets_in: u64,
    /// Packets that left by any port.
    pub packets_out: u64,
    /// Packets dropped inside, by reason, reasons with a count only.
    pub drops: Vec<DropCount>,
}

/// Packets dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DropCount {
    /// The reason's name.
    pub reason: String,
    /// How many packets.
    pub count: u64,
}

/// Traffic between two places of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkStatus {
    /// Where packets come from, as in flow rules: `service-access-point:ID` or `sf:ID:PORT`.
    pub from: String,
    /// Where they go to.
    pub to: String,
    /// Packets carried.
    pub packets: u64,
    /// Their bytes, Ethernet header included, frame check sequence not.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_graph_says_why_beside_its_state() {
        let status = GraphStatus {
            id: "0x1".into(),
            name: "wire".into(),
            tenant: None,
            state: State::Failed { reason: "no interface eth9".into() },
            functions: vec![],
            links: vec![],
        };
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!((&json["state"], &json["reason"]), (&"failed".into(), &"no interface eth9".into()));
        assert_eq!(serde_json::from_value::<GraphStatus>(json).unwrap(), status);
    }
}

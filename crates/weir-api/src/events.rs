//! What happens on a node.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::queries::Report;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A new graph runs.
    Applied,
    /// A graph that runs was changed.
    Changed,
    /// A graph was removed.
    Removed,
    /// A graph cannot run, or a change was refused.
    Failed,
    /// A graph that failed runs again.
    Recovered,
    /// A function ended by itself; it is started again.
    FunctionDown,
    /// A function does not work, and has not ended.
    FunctionHung,
    /// A function that ended, or hung, works again.
    FunctionUp,
    /// An interface came back.
    DeviceUp,
    /// An interface is gone or down.
    DeviceDown,
    /// The connection to the data plane stands.
    EngineUp,
    /// The data plane ended or cannot be reached.
    EngineDown,
    /// The node's connection to its controller stands.
    ControllerUp,
    /// The controller cannot be reached. What runs goes on.
    ControllerDown,
    /// A node joined the domain.
    NodeJoined,
    /// A node left the domain.
    NodeRemoved,
    /// A node of the domain is connected.
    NodeOnline,
    /// A node of the domain is not connected any more.
    NodeOffline,
    /// What is required of graphs, whoever applies them, has changed.
    Policy,
    /// What the node is to others has changed: its end points, what functions it can run, or its resources.
    Domain,
    /// A query has something to say: see `report`. Kept only if it is said once.
    Query,
    /// An action of a graph's monitoring: see `alarm`.
    Alarm,
    /// An element printed something. Not kept, and without a number.
    Print,
    /// Anything else that the data plane reported.
    Notice,
}

impl Kind {
    /// The word for it, as in documents.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Applied => "applied",
            Kind::Changed => "changed",
            Kind::Removed => "removed",
            Kind::Failed => "failed",
            Kind::Recovered => "recovered",
            Kind::FunctionDown => "function-down",
            Kind::FunctionHung => "function-hung",
            Kind::FunctionUp => "function-up",
            Kind::DeviceUp => "device-up",
            Kind::DeviceDown => "device-down",
            Kind::EngineUp => "engine-up",
            Kind::EngineDown => "engine-down",
            Kind::ControllerUp => "controller-up",
            Kind::ControllerDown => "controller-down",
            Kind::NodeJoined => "node-joined",
            Kind::NodeRemoved => "node-removed",
            Kind::NodeOnline => "node-online",
            Kind::NodeOffline => "node-offline",
            Kind::Policy => "policy",
            Kind::Domain => "domain",
            Kind::Query => "query",
            Kind::Alarm => "alarm",
            Kind::Print => "print",
            Kind::Notice => "notice",
        }
    }

    /// The kind of a word; a notice if it is none.
    pub fn from_name(name: &str) -> Kind {
        serde_json::from_value(serde_json::Value::String(name.to_owned())).unwrap_or(Kind::Notice)
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its number, greater than those of all events before; without one it is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Milliseconds since the epoch.
    pub time: u64,
    /// What happened.
    pub kind: Kind,
    /// The node of a domain, if one is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The graph, if one is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// The tenant that the graph belongs to, if it is one of a tenant's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// More, for people.
    pub text: String,
    /// What a query has to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// What a graph's monitoring has to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<Alarm>,
}

/// An alarm of a graph's monitoring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Alarm {
    /// The topic.
    pub topic: String,
    /// The message.
    pub message: String,
    /// What happened: `a->b` from one zone to another, `->a` entered, `a->` left, `a` in it.
    pub on: String,
}

/// Events that are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// Oldest first.
    pub events: Vec<Event>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lead_back_to_kinds() {
        for kind in [Kind::Applied, Kind::Alarm, Kind::DeviceDown, Kind::EngineUp, Kind::Notice] {
            assert_eq!(Kind::from_name(kind.name()), kind);
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(Kind::from_name("unheard-of"), Kind::Notice);
    }
}

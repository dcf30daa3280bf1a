//! What graphs take of a node: counts that only grow, for who reads them again and again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The usage of graphs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageList {
    /// By graph; at a controller once for each node that a graph is on.
    pub graphs: Vec<GraphUsage>,
}

/// The usage of a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphUsage {
    /// The graph.
    pub graph: String,
    /// Its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The data plane that counts.
    pub plane: PlaneUsage,
    /// By function.
    pub functions: BTreeMap<String, FunctionUsage>,
}

/// A data plane, which all graphs of a node share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlaneUsage {
    /// Which process it is: another one counts from 0.
    pub process: String,
    /// Processor time that it took, in microseconds.
    pub cpu: u64,
    /// Cycles that were measured in elements of all graphs: the share of an element in these is its share of the time.
    pub cycles: u64,
}

/// The usage of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionUsage {
    /// The kind of function.
    pub kind: String,
    /// Processor time, in microseconds, of one that is not inline. It counts from 0 when the function is started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    /// Bytes of memory, of one that is not inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Its elements, by name, if it is inline and there is something to say of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub elements: BTreeMap<String, ElementUsage>,
}

/// The usage of an element.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ElementUsage {
    /// Packets that passed, if it is a `Counter`.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Cycles of the batches that were measured.
    pub cycles: u64,
    /// Bytes of memory of its tables.
    pub memory: u64,
}

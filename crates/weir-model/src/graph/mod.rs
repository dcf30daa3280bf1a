//! The service graph: Service Functions - Forwarding Graph, SF-FG (COMPOSER paper section 5.1.1, figures 4 and 5).
//!
//! A graph lists the functions of a service (`SFs`), the service access points where traffic enters and leaves (`saps`), and the
//! rules that steer traffic between them (`flowrules`). It is read from JSON, as the paper prints it, or YAML with the same fields,
//! with or without the outer `{"sffg": …}`.
//!
//! ```
//! let graph = weir_model::graph::ServiceGraph::parse("
//! id: '0x1'
//! name: wire
//! saps:
//!   - {id: lan, type: interface, interface: {if-name: eth1}}
//!   - {id: wan, type: vlan, vlan: {vlan-id: 25, if-name: eth2}}
//! flowrules:
//!   - {id: out, priority: 1, match: {port_in: 'sap:lan', filter: tcp port 80}, actions: {output_to_port: 'sap:wan'}}
//! ").unwrap();
//! assert_eq!(graph.flowrules[0].matches.port_in.to_string(), "sap:lan");
//! ```
//!
//! Spellings that are read beside the canonical one, which serialisation writes: `sap:ID` for `service-access-point:ID`; a SAP,
//! function or port by its name where that is unique; numbers as text and text as numbers; `actions` as a list; `handlers` as a
//! map; a port as just its identifier. `Serialize` writes the bare graph; [`ServiceGraph::to_json`] adds the outer `sffg`.

mod capability;
mod place;
mod placement;
pub(crate) mod read;
mod rule;
mod sap;
mod schema;

use std::collections::BTreeMap;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use weir_measure::Monitoring;

pub use capability::Constraints;
pub use place::GraphPlace;
pub use placement::{Placement, WhenLost};
pub(crate) use read::{inner, param_value};
pub use rule::{Actions, Match, PortRef, Rule, VlanMatch};
pub use sap::{
    GreSap, HostStackSap, InterfaceSap, Sap, SapKind, VXLAN_PORT, VlanSap, VxlanSap, WIREGUARD_PORT,
    WireGuardPeer,
};
pub(crate) use schema::json_schema;
pub use schema::sffg_json_schema;

use crate::doc::Node;
use crate::error::DocErrors;
use crate::requirement::{MAX_REQUIREMENTS, Requirement};
use crate::value::{Id, Name};

/// Most functions in a graph.
pub const MAX_FUNCTIONS: usize = 1_000;
/// Most service access points in a graph.
pub const MAX_SAPS: usize = 1_000;
/// Most flow rules in a graph.
pub const MAX_RULES: usize = 100_000;
/// Most packets that wait at a port of a function that is stopped.
pub const MAX_FIFO: u32 = 100_000;
/// Longest time without packets after which a graph ends until one comes again, in seconds: a year.
pub const MAX_IDLE: u32 = 31_536_000;
/// Most ports of a function, and most outputs of a rule.
pub const MAX_PORTS: usize = 256;
/// Largest document that a REST interface should accept, in bytes. Documents from files may be larger.
pub const MAX_BODY: usize = 1 << 20;

/// A service graph that is well formed: identifiers are unique, references lead somewhere, limits are kept.
///
/// Read its parts through [`GraphParts`]; to change a graph, take the parts out and make a new one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ServiceGraph(GraphParts);

/// The parts of a service graph; not yet checked together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GraphParts {
    /// The graph's identifier.
    pub id: Id,
    /// The graph's name.
    pub name: Name,
    /// The tenant that the graph belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Id>,
    /// The node of a domain that the graph is to be on, as far as its functions and service access points do not say otherwise. Without
    /// one the controller chooses. A node by itself takes no notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Id>,
    /// What the graph asks of the nodes of a domain. A node by itself takes no notice.
    #[serde(default, skip_serializing_if = "Placement::is_empty")]
    pub placement: Placement,
    /// The functions that compose the service.
    #[serde(rename = "SFs", default)]
    #[schemars(length(max = MAX_FUNCTIONS))]
    pub functions: Vec<Function>,
    /// Where traffic enters and leaves.
    #[serde(default)]
    #[schemars(length(max = MAX_SAPS))]
    pub saps: Vec<Sap>,
    /// How traffic is steered.
    #[serde(default)]
    #[schemars(length(max = MAX_RULES))]
    pub flowrules: Vec<Rule>,
    /// What must hold for traffic between access points and functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_REQUIREMENTS))]
    pub requirements: Vec<Requirement>,
    /// What of the graph is measured, and what is said when: a text in the MEASURE language, or the same as YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::monitoring")]
    pub monitoring: Option<Monitoring>,
    /// Whether functions may send to each other directly, where the flow rules come to that: past the switch, by memory that the two
    /// share.
    #[serde(rename = "direct-links", default = "allowed", skip_serializing_if = "Clone::clone")]
    pub direct_links: bool,
    /// When it is started.
    #[serde(default, skip_serializing_if = "Start::is_now")]
    pub start: Start,
    /// Of a graph that its first packet starts: after how many seconds without packets it ends, with its state on disk, until one comes again. Without it, only
    /// `weir suspend` ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_IDLE))]
    pub idle: Option<u32>,
}

/// When a graph is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At once.
    #[default]
    Now,
    /// By the first packet that comes to one of its access points.
    FirstPacket,
}

impl Start {
    fn is_now(&self) -> bool {
        *self == Start::Now
    }
}

/// What a graph allows that does not say otherwise.
fn allowed() -> bool {
    true
}

/// A service function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, transform = schema::named_or_asked_for)]
pub struct Function {
    /// The function's identifier, unique among the graph's functions.
    pub id: Id,
    /// What the function is, such as `firewall`; without a `template` or `capability` it is made from the image of this name. A function
    /// with a `capability` need not have one.
    #[schemars(with = "Option<Name>")]
    pub name: Name,
    /// The function's ports, in the order of the image's.
    #[serde(default)]
    #[schemars(schema_with = "schema::ports")]
    pub ports: Vec<Port>,
    /// The name of the image that implements the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Name>,
    /// A Click script that the function is made from in place of an image, with the function's ports as those of an image. Only graphs of the
    /// operator, and those that the controller makes for requests, may have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1048576))]
    pub click: Option<String>,
    /// The node of a domain that it is to be on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Id>,
    /// How it is run, where the image leaves a choice; without it, as the image says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub kind: Option<RunAs>,
    /// Whether it runs, is stopped, or is passed by (Scylla paper, figure 3). With one, packets pass a FIFO before each of its ports, which costs a
    /// little; without one it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub state: Option<FunctionState>,
    /// Packets that wait at each of its ports while it is stopped; more are dropped and counted (`Stopped`). 1,000 if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_FIFO))]
    pub fifo: Option<u32>,
    /// What the function has to be able to do, such as `firewall`, in place of an image: the node chooses the best of its images
    /// with this capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<Id>,
    /// What an image must have to be chosen for the `capability`.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    pub constraints: Constraints,
    /// Arguments for the image's parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, ParamValue>,
    /// Handler writes to make, in this order, before the function sees traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::handlers")]
    pub handlers: Vec<HandlerWrite>,
}

/// How a function is run whose image is a Click script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunAs {
    /// By the data plane of its graph.
    Inline,
    /// By a data plane of its own, in a process without privileges.
    Process,
}

/// The state of a function: what it does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FunctionState {
    /// It processes them.
    Running,
    /// They wait, and nothing happens in it.
    Stopped,
    /// They go past it: of a function of two ports from each to the other, of one of a single port back.
    Bypass,
    /// It is about to move to another node, or to arrive there: it processes packets if it did before, and is stopped and goes on without another
    /// document. If it begins so, it is stopped. Only controllers say this.
    Moving,
}

impl FunctionState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            FunctionState::Running => "running",
            FunctionState::Stopped => "stopped",
            FunctionState::Bypass => "bypass",
            FunctionState::Moving => "moving",
        }
    }
}

/// A port of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Port {
    /// The port's identifier, unique within its function.
    pub id: Id,
    /// The port's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
}

/// A value for an image's parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ParamValue {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Text; numbers with a fraction too.
    Text(String),
}

/// A write to one of a function's public handlers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HandlerWrite {
    /// The handler's public name.
    pub name: Name,
    /// The text to write.
    pub value: String,
}

impl ServiceGraph {
    /// Reads a graph from JSON or YAML: JSON if the text begins with `{`.
    pub fn parse(text: &str) -> Result<Self, DocErrors> {
        read::document(&Node::parse(text)?)
    }

    /// Reads a graph from JSON.
    pub fn from_json(text: &str) -> Result<Self, DocErrors> {
        read::document(&Node::from_json(text)?)
    }

    /// Reads a graph from YAML.
    pub fn from_yaml(text: &str) -> Result<Self, DocErrors> {
        read::document(&Node::from_yaml(text)?)
    }

    /// Checks parts that were put together by a program.
    pub fn from_parts(parts: &GraphParts) -> Result<Self, DocErrors> {
        // Through the document: one set of checks serves both.
        let value = serde_json::to_value(parts).map_err(|e| DocErrors::one(None, e.to_string(), ""))?;
        read::document(&Node::from_value(&value)?)
    }

    /// The same graph for a single node, whatever it says of nodes.
    ///
    /// # Errors
    /// Access points that were apart are the same place on one node.
    pub fn on_one_node(mut self) -> Result<ServiceGraph, DocErrors> {
        self.0.placement = Placement::default();
        let nodes = self.0.functions.iter_mut().map(|f| &mut f.node);
        let nodes = nodes.chain(self.0.saps.iter_mut().map(|s| &mut s.node)).chain([&mut self.0.node]);
        let named = nodes.map(Option::take).filter(Option::is_some).count();
        if named == 0 { Ok(self) } else { ServiceGraph::from_parts(&self.0) }
    }

    /// The parts, to be changed.
    pub fn into_parts(self) -> GraphParts {
        self.0
    }

    /// The same graph, as one of this tenant, or of none. Nothing else in a document depends on whose it is.
    #[must_use]
    pub fn of_tenant(mut self, tenant: Option<Id>) -> ServiceGraph {
        self.0.tenant = tenant;
        self
    }

    /// The document with its outer `sffg`, as the paper prints it.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "sffg": self.0 })
    }

    /// The function with this identifier.
    pub fn function(&self, id: &Id) -> Option<&Function> {
        self.0.functions.iter().find(|f| f.id == *id)
    }

    /// The service access point with this identifier.
    pub fn sap(&self, id: &Id) -> Option<&Sap> {
        self.0.saps.iter().find(|s| s.id == *id)
    }
}

impl Deref for ServiceGraph {
    type Target = GraphParts;
    fn deref(&self) -> &GraphParts {
        &self.0
    }
}

/// For graphs inside other documents; a graph by itself is better read by [`ServiceGraph::parse`], which knows lines.
impl<'de> Deserialize<'de> for ServiceGraph {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(d)?;
        Node::from_value(&value).and_then(|n| read::document(&n)).map_err(serde::de::Error::custom)
    }
}

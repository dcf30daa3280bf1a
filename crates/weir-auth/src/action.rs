//! What can be asked of a node or a controller. Each route of REST asks [`Principal::may`](crate::Principal::may) for one of these.

use std::fmt;

/// A graph, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Graph<'a> {
    /// Its identifier.
    pub id: &'a str,
    /// The tenant that owns it; without one it is the operator's.
    pub tenant: Option<&'a str>,
}

/// A function of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function<'a> {
    /// The graph.
    pub graph: Graph<'a>,
    /// The function's identifier.
    pub id: &'a str,
}

/// Where packets are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationPoint<'a> {
    /// Anywhere in a graph.
    Graph(Graph<'a>),
    /// At the ports of a function.
    Function(Function<'a>),
}

/// An action that a caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// Who one is.
    WhoAmI,
    /// The list of graphs, which has those that one may list: [`Action::ListGraph`] decides of each.
    ListGraphs,
    /// That a graph is there, and its state.
    ListGraph(Graph<'a>),
    /// A graph: document, status, configuration, events.
    ReadGraph(Graph<'a>),
    /// What a document would change.
    PlanGraph(Graph<'a>),
    /// To create a graph, or to change one.
    ChangeGraph(Graph<'a>),
    /// To remove a graph.
    DeleteGraph(Graph<'a>),
    /// A handler's value.
    ReadHandler(Function<'a>),
    /// To write a handler.
    WriteHandler(Function<'a>),
    /// What a function has written.
    ReadLog(Function<'a>),
    /// To follow packets.
    Trace(ObservationPoint<'a>),
    /// To copy packets.
    Capture(ObservationPoint<'a>),
    /// To start a program inside a function.
    Shell(Function<'a>),
    /// The stream of events, which has those that one may see: of graphs [`Action::ReadGraph`] decides, of others
    /// [`Action::ReadNodeEvents`].
    ReadEvents,
    /// What happens to no graph: interfaces, the data plane, nodes.
    ReadNodeEvents,
    /// The images.
    ReadImages,
    /// To add, change or remove images.
    ChangeImages,
    /// The metrics, which have those of graphs that one may read: [`Action::ReadGraph`] decides of each, and of those of the node
    /// [`Action::ReadDevices`].
    ReadMetrics,
    /// The interfaces, with what passes.
    ReadDevices,
    /// What a node is to others, with the graphs of all.
    ReadDomain,
    /// The nodes and links of a domain, and where graphs are.
    ReadNodes,
    /// To add, change, drain or remove nodes and links.
    ChangeNodes,
    /// To join as a node.
    Join,
    /// To make tokens by which nodes join.
    MakeJoinTokens,
    /// What the operator requires of all graphs.
    ReadPolicies,
    /// To change that.
    ChangePolicies,
    /// The keys.
    ReadKeys,
    /// To add and remove keys.
    ChangeKeys,
    /// The list of tenants, which has those that one may see: [`Action::ReadTenant`] decides of each.
    ListTenants,
    /// A tenant: kind, quotas, and what it uses.
    ReadTenant(&'a str),
    /// To add, change and remove tenants.
    ChangeTenants,
    /// The audit log.
    ReadAudit,
    /// To copy the store, or to put one back.
    Backup,
}

impl Action<'_> {
    /// A word for it, as in the audit log.
    pub fn word(&self) -> &'static str {
        match self {
            Action::WhoAmI => "whoami",
            Action::ListGraphs => "list-graphs",
            Action::ListGraph(_) => "list-graph",
            Action::ReadGraph(_) => "read-graph",
            Action::PlanGraph(_) => "plan-graph",
            Action::ChangeGraph(_) => "change-graph",
            Action::DeleteGraph(_) => "delete-graph",
            Action::ReadHandler(_) => "read-handler",
            Action::WriteHandler(_) => "write-handler",
            Action::ReadLog(_) => "read-log",
            Action::Trace(_) => "trace",
            Action::Capture(_) => "capture",
            Action::Shell(_) => "shell",
            Action::ReadEvents => "read-events",
            Action::ReadNodeEvents => "read-node-events",
            Action::ReadImages => "read-images",
            Action::ChangeImages => "change-images",
            Action::ReadMetrics => "read-metrics",
            Action::ReadDevices => "read-devices",
            Action::ReadDomain => "read-domain",
            Action::ReadNodes => "read-nodes",
            Action::ChangeNodes => "change-nodes",
            Action::Join => "join",
            Action::MakeJoinTokens => "make-join-tokens",
            Action::ReadPolicies => "read-policies",
            Action::ChangePolicies => "change-policies",
            Action::ReadKeys => "read-keys",
            Action::ChangeKeys => "change-keys",
            Action::ListTenants => "list-tenants",
            Action::ReadTenant(_) => "read-tenant",
            Action::ChangeTenants => "change-tenants",
            Action::ReadAudit => "read-audit",
            Action::Backup => "backup",
        }
    }

    /// Whether something is changed by it.
    pub fn changes(&self) -> bool {
        match self {
            Action::ChangeGraph(_)
            | Action::DeleteGraph(_)
            | Action::WriteHandler(_)
            | Action::Shell(_)
            | Action::ChangeImages
            | Action::ChangeNodes
            | Action::Join
            | Action::MakeJoinTokens
            | Action::ChangePolicies
            | Action::ChangeKeys
            | Action::ChangeTenants => true,
            Action::WhoAmI
            | Action::ListGraphs
            | Action::ListGraph(_)
            | Action::ReadGraph(_)
            | Action::PlanGraph(_)
            | Action::ReadHandler(_)
            | Action::ReadLog(_)
            | Action::Trace(_)
            | Action::Capture(_)
            | Action::ReadEvents
            | Action::ReadNodeEvents
            | Action::ReadImages
            | Action::ReadMetrics
            | Action::ReadDevices
            | Action::ReadDomain
            | Action::ReadNodes
            | Action::ReadPolicies
            | Action::ReadKeys
            | Action::ListTenants
            | Action::ReadTenant(_)
            | Action::ReadAudit
            | Action::Backup => false,
        }
    }

    /// What it is about, if that has a name.
    pub fn object(&self) -> Option<String> {
        match self {
            Action::ListGraph(g)
            | Action::ReadGraph(g)
            | Action::PlanGraph(g)
            | Action::ChangeGraph(g)
            | Action::DeleteGraph(g)
            | Action::Trace(ObservationPoint::Graph(g))
            | Action::Capture(ObservationPoint::Graph(g)) => Some(format!("graph {}", g.id)),
            Action::ReadHandler(f)
            | Action::WriteHandler(f)
            | Action::ReadLog(f)
            | Action::Shell(f)
            | Action::Trace(ObservationPoint::Function(f))
            | Action::Capture(ObservationPoint::Function(f)) => {
                Some(format!("graph {}, function {}", f.graph.id, f.id))
            }
            Action::ReadTenant(tenant) => Some(format!("tenant {tenant}")),
            _ => None,
        }
    }
}

/// As what somebody may not do: `delete graph 'a'`.
impl fmt::Display for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |f: &mut fmt::Formatter<'_>, what: &str, function: &Function<'_>| {
            write!(f, "{what} function '{}' of graph '{}'", function.id, function.graph.id)
        };
        match self {
            Action::WhoAmI => f.write_str("ask who it is"),
            Action::ListGraphs => f.write_str("list graphs"),
            Action::ListGraph(g) => write!(f, "list graph '{}'", g.id),
            Action::ReadGraph(g) => write!(f, "read graph '{}'", g.id),
            Action::PlanGraph(g) => write!(f, "plan graph '{}'", g.id),
            Action::ChangeGraph(g) => write!(f, "create or change graph '{}'", g.id),
            Action::DeleteGraph(g) => write!(f, "delete graph '{}'", g.id),
            Action::ReadHandler(function) => at(f, "read handlers of", function),
            Action::WriteHandler(function) => at(f, "write handlers of", function),
            Action::ReadLog(function) => at(f, "read the output of", function),
            Action::Trace(ObservationPoint::Graph(g)) => write!(f, "trace all packets of graph '{}'", g.id),
            Action::Trace(ObservationPoint::Function(function)) => at(f, "trace packets at", function),
            Action::Capture(ObservationPoint::Graph(g)) => {
                write!(f, "capture packets anywhere in graph '{}'", g.id)
            }
            Action::Capture(ObservationPoint::Function(function)) => at(f, "capture packets at", function),
            Action::Shell(function) => at(f, "start programs inside", function),
            Action::ReadEvents => f.write_str("read events"),
            Action::ReadNodeEvents => f.write_str("read events of the node itself"),
            Action::ReadImages => f.write_str("read images"),
            Action::ChangeImages => f.write_str("change images"),
            Action::ReadMetrics => f.write_str("read metrics"),
            Action::ReadDevices => f.write_str("read the counts of interfaces"),
            Action::ReadDomain => f.write_str("read the description of the node"),
            Action::ReadNodes => f.write_str("read nodes and links"),
            Action::ChangeNodes => f.write_str("change nodes and links"),
            Action::Join => f.write_str("join as a node"),
            Action::MakeJoinTokens => f.write_str("make tokens by which nodes join"),
            Action::ReadPolicies => f.write_str("read policies"),
            Action::ChangePolicies => f.write_str("change policies"),
            Action::ReadKeys => f.write_str("read keys"),
            Action::ChangeKeys => f.write_str("add or remove keys"),
            Action::ListTenants => f.write_str("list tenants"),
            Action::ReadTenant(tenant) => write!(f, "read tenant '{tenant}'"),
            Action::ChangeTenants => f.write_str("add, change or remove tenants"),
            Action::ReadAudit => f.write_str("read the audit log"),
            Action::Backup => f.write_str("copy the store, or put one back"),
        }
    }
}

//! Who asks, and what they may do.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::action::{Action, Function, Graph, ObservationPoint};
use crate::key::Fingerprint;

/// A role of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Runs the node or the domain: may do everything.
    Operator,
    /// Sees and changes graphs of a tenant.
    Tenant,
    /// Sees, and changes nothing: everything, or what is a tenant's.
    ReadOnly,
    /// Joins as a node, and nothing else.
    Join,
}

impl Role {
    /// The word for it, as in documents.
    pub fn name(self) -> &'static str {
        match self {
            Role::Operator => "operator",
            Role::Tenant => "tenant",
            Role::ReadOnly => "read-only",
            Role::Join => "join",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of a tenant, to the operator (change-d4.5.txt, section 2.2.4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TenantKind {
    /// A customer, whose own traffic its graphs work on.
    #[default]
    Client,
    /// Somebody without a contract for traffic: the security rules for third parties hold.
    ThirdParty,
}

impl TenantKind {
    /// The word for it, as in documents.
    pub fn name(self) -> &'static str {
        match self {
            TenantKind::Client => "client",
            TenantKind::ThirdParty => "third-party",
        }
    }
}

/// The tenant that somebody acts for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Owner {
    /// The tenant's name, as in the `tenant` of its graphs.
    pub name: String,
    /// What it is.
    pub kind: TenantKind,
}

/// Of what somebody may see or change, the part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// All of it: of a tenant's, all graphs of the tenant.
    #[default]
    Everything,
    /// One graph.
    Graph {
        /// Its identifier.
        graph: String,
    },
    /// Some functions of one graph (COMPOSER paper, section 5.1): handlers, output and packets of those.
    Functions {
        /// The graph's identifier.
        graph: String,
        /// The functions' identifiers.
        functions: BTreeSet<String>,
    },
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    name: String,
    role: Role,
    tenant: Option<Owner>,
    scope: Scope,
    fingerprint: Option<Fingerprint>,
}

/// Such a principal cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// It is of no tenant.
    #[error("the role tenant is that of a tenant: name it")]
    NoTenant,
    /// It is of a tenant.
    #[error("the role {0} is of no tenant: leave the tenant out, or give the role tenant or read-only")]
    OfTenant(Role),
    /// It is limited.
    #[error(
        "the role {0} has everything: leave graph and functions out, or give the role tenant or read-only"
    )]
    Limited(Role),
    /// There are functions without a graph, or none.
    #[error("a part of a graph is a graph and at least one of its functions")]
    NoFunctions,
}

impl Principal {
    /// Somebody.
    ///
    /// # Errors
    /// Role, tenant and scope do not fit.
    pub fn new(
        name: impl Into<String>,
        role: Role,
        tenant: Option<Owner>,
        scope: Scope,
    ) -> Result<Principal, PrincipalError> {
        match role {
            Role::Tenant if tenant.is_none() => return Err(PrincipalError::NoTenant),
            Role::Operator | Role::Join if tenant.is_some() => return Err(PrincipalError::OfTenant(role)),
            Role::Operator | Role::Join if scope != Scope::Everything => {
                return Err(PrincipalError::Limited(role));
            }
            _ => {}
        }
        if matches!(&scope, Scope::Functions { functions, .. } if functions.is_empty()) {
            return Err(PrincipalError::NoFunctions);
        }
        Ok(Principal { name: name.into(), role, tenant, scope, fingerprint: None })
    }

    /// An operator: whoever reaches a server that asks for no login, or who has the admin token.
    pub fn operator(name: impl Into<String>) -> Principal {
        let (tenant, scope) = (None, Scope::Everything);
        Principal { name: name.into(), role: Role::Operator, tenant, scope, fingerprint: None }
    }

    /// A node that has a join token.
    pub fn joining(name: impl Into<String>) -> Principal {
        Principal { role: Role::Join, ..Principal::operator(name) }
    }

    /// The same, known by this key.
    #[must_use]
    pub fn with_key(mut self, fingerprint: Fingerprint) -> Principal {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The tenant that it acts for.
    pub fn tenant(&self) -> Option<&Owner> {
        self.tenant.as_ref()
    }

    /// The part of it.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The key that it was known by.
    pub fn fingerprint(&self) -> Option<&Fingerprint> {
        self.fingerprint.as_ref()
    }

    /// Whether it may do that.
    ///
    /// # Errors
    /// Who may not do what, and who may.
    pub fn may(&self, action: &Action<'_>) -> Result<(), Denied> {
        let allowed = match self.role {
            Role::Operator => *action != Action::Join,
            Role::Join => matches!(action, Action::Join | Action::WhoAmI),
            Role::ReadOnly => !action.changes() && self.reaches(action),
            Role::Tenant => self.reaches(action),
        };
        if allowed { Ok(()) } else { Err(self.denied(action)) }
    }

    /// The tenant of a graph that it creates or changes, whose document names this one or none.
    ///
    /// # Errors
    /// The document is another's.
    pub fn tenant_of_document(&self, graph: &str, named: Option<&str>) -> Result<Option<String>, Denied> {
        let own = self.tenant.as_ref().map(|t| t.name.as_str());
        match (own, named) {
            (Some(own), Some(named)) if own != named => {
                let action = Action::ChangeGraph(Graph { id: graph, tenant: Some(named) });
                let mut denied = self.denied(&action);
                denied.what = format!("make graph '{graph}' one of the tenant '{named}'");
                denied.who_may = format!("write 'tenant: {own}', or leave 'tenant' out");
                Err(denied)
            }
            (Some(own), _) => Ok(Some(own.to_owned())),
            (None, named) => Ok(named.map(str::to_owned)),
        }
    }

    /// Whether what is asked for is within its tenant and scope, by somebody who is no operator.
    fn reaches(&self, action: &Action<'_>) -> bool {
        let everything = self.tenant.is_none() && self.scope == Scope::Everything;
        match action {
            Action::WhoAmI
            | Action::ListGraphs
            | Action::ReadEvents
            | Action::ReadImages
            | Action::ReadMetrics
            | Action::ListTenants => true,
            Action::ListGraph(g) => self.sees(g),
            Action::ReadGraph(g)
            | Action::PlanGraph(g)
            | Action::ChangeGraph(g)
            | Action::DeleteGraph(g)
            | Action::Trace(ObservationPoint::Graph(g))
            | Action::Capture(ObservationPoint::Graph(g)) => self.has(g),
            Action::ReadHandler(f)
            | Action::WriteHandler(f)
            | Action::ReadLog(f)
            | Action::Trace(ObservationPoint::Function(f))
            | Action::Capture(ObservationPoint::Function(f)) => self.has_function(f),
            Action::ReadTenant(name) => {
                self.tenant.as_ref().is_none_or(|t| t.name == *name) && self.scope == Scope::Everything
            }
            Action::ReadNodeEvents
            | Action::ReadDevices
            | Action::ReadDomain
            | Action::ReadNodes
            | Action::ReadPolicies
            | Action::ReadKeys
            | Action::ReadAudit => everything,
            Action::Shell(_)
            | Action::ChangeImages
            | Action::ChangeNodes
            | Action::Join
            | Action::MakeJoinTokens
            | Action::ChangePolicies
            | Action::ChangeKeys
            | Action::ChangeTenants
            | Action::Backup => false,
        }
    }

    /// Whether it knows of a graph.
    fn sees(&self, g: &Graph<'_>) -> bool {
        let own = self.tenant.as_ref().is_none_or(|t| g.tenant == Some(t.name.as_str()));
        own && match &self.scope {
            Scope::Everything => true,
            Scope::Graph { graph } | Scope::Functions { graph, .. } => graph == g.id,
        }
    }

    /// Whether a graph is within its reach as a whole.
    fn has(&self, g: &Graph<'_>) -> bool {
        self.sees(g) && !matches!(self.scope, Scope::Functions { .. })
    }

    fn has_function(&self, f: &Function<'_>) -> bool {
        self.sees(&f.graph)
            && match &self.scope {
                Scope::Functions { functions, .. } => functions.contains(f.id),
                Scope::Everything | Scope::Graph { .. } => true,
            }
    }

    fn denied(&self, action: &Action<'_>) -> Denied {
        Denied { who: self.to_string(), what: action.to_string(), who_may: who_may(action).to_owned() }
    }
}

/// Who may do it, in words.
fn who_may(action: &Action<'_>) -> &'static str {
    match action {
        Action::Join => "a node may that has a join token",
        Action::WhoAmI
        | Action::ListGraphs
        | Action::ReadEvents
        | Action::ReadImages
        | Action::ReadMetrics
        | Action::ListTenants => "all keys may but those of nodes that join",
        Action::ListGraph(_) | Action::ReadGraph(_) | Action::PlanGraph(_) => {
            "an operator may, the tenant that owns the graph, and read-only keys that are not limited to others"
        }
        Action::ChangeGraph(_) | Action::DeleteGraph(_) => {
            "an operator may, and the tenant that owns the graph; a read-only key changes nothing"
        }
        Action::WriteHandler(_) => {
            "an operator may, the tenant that owns the graph, and keys of that tenant for this function"
        }
        Action::ReadHandler(_) | Action::ReadLog(_) | Action::Trace(_) | Action::Capture(_) => {
            "an operator may, the tenant that owns the graph, and keys for this part of it"
        }
        Action::ReadTenant(_) => "an operator may, and the tenant itself",
        Action::ReadNodeEvents
        | Action::ReadDevices
        | Action::ReadDomain
        | Action::ReadNodes
        | Action::ReadPolicies
        | Action::ReadKeys
        | Action::ReadAudit => {
            "an operator may, and read-only keys that are not limited to a tenant or a graph"
        }
        Action::Shell(_)
        | Action::ChangeImages
        | Action::ChangeNodes
        | Action::MakeJoinTokens
        | Action::ChangePolicies
        | Action::ChangeKeys
        | Action::ChangeTenants
        | Action::Backup => "only an operator may",
    }
}

/// As errors and the audit log name it: `'alice' (tenant acme)`.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' ({}", self.name, self.role)?;
        match (&self.tenant, self.role) {
            (Some(t), Role::Tenant) => write!(f, " {}", t.name)?,
            (Some(t), _) => write!(f, ", tenant {}", t.name)?,
            (None, _) => {}
        }
        match &self.scope {
            Scope::Everything => {}
            Scope::Graph { graph } => write!(f, ", graph {graph}")?,
            Scope::Functions { graph, functions } => {
                let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
                write!(f, ", graph {graph}: {}", functions.join(", "))?;
            }
        }
        f.write_str(")")
    }
}

/// Somebody may not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{who} may not {what}: {who_may}")]
pub struct Denied {
    /// Who.
    pub who: String,
    /// What.
    pub what: String,
    /// Who may.
    pub who_may: String,
}

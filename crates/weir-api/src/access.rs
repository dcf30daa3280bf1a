//! Who may use a node: keys, tenants, and the audit log.

use std::collections::BTreeSet;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use weir_auth::audit::Record;
use weir_auth::principal::{Role, Scope, TenantKind};
use weir_auth::quota::{Quotas, Usage};

/// A key to add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// The line of the `.pub` file: `ssh-ed25519 AAAA… comment`.
    pub public_key: String,
    /// What its owner is: `operator`, `tenant` or `read-only`.
    pub role: Role,
    /// The tenant that its owner acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub tenant: Option<String>,
    /// The only graph that it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub graph: Option<String>,
    /// The only functions of that graph.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub functions: BTreeSet<String>,
}

impl NewKey {
    /// Of what its owner may see, the part. Functions without a graph are of none.
    pub fn scope(&self) -> Option<Scope> {
        scope(self.graph.clone(), self.functions.clone())
    }
}

/// The scope of a graph and functions; nothing if there are functions without a graph.
pub fn scope(graph: Option<String>, functions: BTreeSet<String>) -> Option<Scope> {
    match (graph, functions.is_empty()) {
        (None, true) => Some(Scope::Everything),
        (None, false) => None,
        (Some(graph), true) => Some(Scope::Graph { graph }),
        (Some(graph), false) => Some(Scope::Functions { graph, functions }),
    }
}

/// A token by which metrics are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MetricsToken {
    /// For `Authorization: Bearer TOKEN`.
    pub token: String,
}

/// A key that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// Its fingerprint, as `ssh-keygen -l` prints it.
    pub fingerprint: String,
    /// When it was added, in milliseconds since the epoch.
    pub added: u64,
    /// The line of its `.pub` file.
    pub public_key: String,
    /// What its owner is.
    pub role: Role,
    /// The tenant that its owner acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The only graph that it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// The only functions of that graph.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub functions: BTreeSet<String>,
}

impl Key {
    /// The key of that name, with its fingerprint.
    pub fn new(name: String, fingerprint: String, added: u64, key: NewKey) -> Key {
        let NewKey { public_key, role, tenant, graph, functions } = key;
        Key { name, fingerprint, added, public_key, role, tenant, graph, functions }
    }
}

/// The keys that are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    /// By name.
    pub keys: Vec<Key>,
}

/// The settings of a tenant: what it is and may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantSettings {
    /// What it is to the operator.
    #[serde(default)]
    pub kind: TenantKind,
    /// What it may have.
    #[serde(default, deserialize_with = "object")]
    pub quotas: Quotas,
}

/// Fields by their names; a list of their values would be read as well.
fn object<'d, D: Deserializer<'d>, T: DeserializeOwned>(input: D) -> Result<T, D::Error> {
    let fields = serde_json::Map::deserialize(input)?;
    serde_json::from_value(fields.into()).map_err(D::Error::custom)
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    /// Its name, as in the `tenant` of its graphs.
    pub name: String,
    /// What it is to the operator.
    pub kind: TenantKind,
    /// What it may have.
    pub quotas: Quotas,
    /// What it has.
    pub usage: Usage,
}

/// The tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantList {
    /// By name.
    pub tenants: Vec<Tenant>,
}

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// Whether a login is asked for; without one, everyone is an operator.
    pub login: bool,
    /// The name.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What the tenant is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TenantKind>,
    /// The only graph that it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// The only functions of that graph.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub functions: BTreeSet<String>,
    /// The fingerprint of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// A list of audit records: changes, and refused requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditList {
    /// Oldest first.
    pub records: Vec<Record>,
}

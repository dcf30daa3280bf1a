//! Requests about who may use a server.

use ureq::http::Method;

use super::{NodeClient, Result, encode};
use crate::access::{
    AuditList, Key, KeyList, MetricsToken, NewKey, Tenant, TenantList, TenantSettings, WhoAmI,
};
use crate::accounting::AccountingList;
use crate::policies::{Policy, PolicyList, PolicySettings};
use crate::requests::{RequestAnswer, RequestDetails, RequestList};

impl NodeClient {
    /// Who one is there.
    pub fn whoami(&self) -> Result<WhoAmI> {
        self.get("/whoami")
    }

    /// The keys that are known.
    pub fn keys(&self) -> Result<KeyList> {
        self.get("/keys")
    }

    /// Adds a key.
    pub fn add_key(&self, name: &str, key: &NewKey) -> Result<Key> {
        self.put_json(&format!("/keys/{}", encode(name)), key)
    }

    /// Removes a key.
    pub fn remove_key(&self, name: &str) -> Result<()> {
        self.send(Method::DELETE, &format!("/keys/{}", encode(name)), "", "").map(drop)
    }

    /// Makes a token by which metrics are read. The one before is good no more.
    pub fn new_metrics_token(&self) -> Result<MetricsToken> {
        self.document(Method::POST, "/metrics/token", "")
    }

    /// The metrics, in the text format of Prometheus.
    pub fn metrics(&self) -> Result<String> {
        self.text("/metrics")
    }

    /// The tenants that one may see.
    pub fn tenants(&self) -> Result<TenantList> {
        self.get("/tenants")
    }

    /// A tenant.
    pub fn tenant(&self, name: &str) -> Result<Tenant> {
        self.get(&format!("/tenants/{}", encode(name)))
    }

    /// Adds a tenant, or changes one.
    pub fn put_tenant(&self, name: &str, settings: &TenantSettings) -> Result<Tenant> {
        self.put_json(&format!("/tenants/{}", encode(name)), settings)
    }

    /// Removes a tenant.
    pub fn remove_tenant(&self, name: &str) -> Result<()> {
        self.send(Method::DELETE, &format!("/tenants/{}", encode(name)), "", "").map(drop)
    }

    /// Asks for processing.
    pub fn make_request(&self, text: &str, lifetime: Option<u64>) -> Result<RequestAnswer> {
        let lifetime = lifetime.map(|l| format!("?lifetime={l}")).unwrap_or_default();
        let path = format!("/requests{lifetime}");
        let response = self.send(Method::POST, &path, "text/plain", text)?;
        self.read(&path, response)
    }

    /// What would be answered to that.
    pub fn query_request(&self, text: &str) -> Result<RequestAnswer> {
        let response = self.send(Method::POST, "/requests/query", "text/plain", text)?;
        self.read("/requests/query", response)
    }

    /// What modules of requests have taken: of one request, and without those that ended before a time, in seconds since the epoch.
    pub fn accounting(&self, request: Option<&str>, since: Option<u64>) -> Result<AccountingList> {
        let request = request.map(|id| format!("request={}", encode(id)));
        let parts: Vec<String> = request.into_iter().chain(since.map(|s| format!("since={s}"))).collect();
        let query = if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) };
        self.get(&format!("/accounting{query}"))
    }

    /// The requests that run.
    pub fn requests(&self) -> Result<RequestList> {
        self.get("/requests")
    }

    /// One of them.
    pub fn request_details(&self, id: &str) -> Result<RequestDetails> {
        self.get(&format!("/requests/{}", encode(id)))
    }

    /// Ends a request.
    pub fn end_request(&self, id: &str) -> Result<()> {
        self.send(Method::DELETE, &format!("/requests/{}", encode(id)), "", "").map(drop)
    }

    /// What the operator requires of graphs.
    pub fn policies(&self) -> Result<PolicyList> {
        self.get("/policies")
    }

    /// Sets a policy; with `keep`, graphs that run and do not hold it stay.
    pub fn put_policy(&self, name: &str, settings: &PolicySettings, keep: bool) -> Result<Policy> {
        self.put_json(&format!("/policies/{}?keep={keep}", encode(name)), settings)
    }

    /// Removes a policy.
    pub fn remove_policy(&self, name: &str) -> Result<()> {
        self.send(Method::DELETE, &format!("/policies/{}", encode(name)), "", "").map(drop)
    }

    /// Records of the audit log behind the one with this number, or the newest.
    pub fn audit(&self, after: Option<u64>, limit: u32) -> Result<AuditList> {
        let after = after.map_or(String::new(), |id| format!("&after={id}"));
        self.get(&format!("/audit?limit={limit}{after}"))
    }
}

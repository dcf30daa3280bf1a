//! Who asks: tokens and secrets become a [`Principal`], which handlers ask what it may do ([`Caller`]); what is changed is recorded.
//!
//! A server without a login takes everyone for an operator. Routes stand behind [`guard`]; a route that does not cannot have a
//! [`Caller`].

mod guard;
pub mod routes;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_api::access::{Key, TenantSettings, scope};
use weir_auth::TenantKind;
use weir_auth::audience::Audiences;
use weir_auth::audit::Record;
use weir_auth::key::{Fingerprint, PublicKey};
use weir_auth::principal::{Owner, Principal, Role, Scope};
use weir_auth::quota::{Quotas, Rate, Usage};
use weir_auth::replay::ReplayCache;
use weir_auth::secret::{Secret, SecretHash, Use};
use weir_auth::token::{Expected, TokenError, Unverified};
use weir_store::{Database, Result as StoreResult};

pub use guard::{Caller, guard};

/// The name of who has the admin token; no key is called so.
pub const ADMIN: &str = "admin";

/// The name of who has the token by which metrics are read; no key is called so.
pub const METRICS: &str = "metrics";

/// The name of a node's controller.
pub const CONTROLLER: &str = "controller";

/// Under what names a server with a login is reached.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Where it listens. If that is no address of its own (`0.0.0.0`), it is reached at all addresses of the machine.
    pub listen: Vec<SocketAddr>,
    /// `HOST` or `HOST:PORT`: other names for it.
    pub others: Vec<String>,
}

impl Names {
    /// The audiences of tokens for it. `own` lists the addresses of the machine.
    fn audiences(&self, own: impl Fn() -> Vec<IpAddr>) -> Audiences {
        let mut audiences = Audiences::default();
        for listen in &self.listen {
            if listen.ip().is_unspecified() {
                own().into_iter().for_each(|ip| audiences.add_address(SocketAddr::new(ip, listen.port())));
            } else {
                audiences.add_address(*listen);
            }
            for name in &self.others {
                audiences.add_name(name, listen.port());
            }
        }
        audiences
    }
}

/// The addresses of this machine.
pub fn own_addresses() -> Vec<IpAddr> {
    let found = nix::ifaddrs::getifaddrs().into_iter().flatten().filter_map(|i| i.address);
    let ip = |a: nix::sys::socket::SockaddrStorage| {
        let v4 = a.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
        v4.or_else(|| a.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
    };
    found.filter_map(ip).collect()
}

/// What stands in the certificate of a server that listens there: its addresses, and other names of it, `HOST` or `HOST:PORT`.
pub fn certificate_names(listen: SocketAddr, others: &[String]) -> Vec<String> {
    let mut names: Vec<String> = match listen.ip() {
        ip if ip.is_unspecified() => own_addresses().iter().map(ToString::to_string).collect(),
        ip => vec![ip.to_string()],
    };
    let host = |name: &String| name.rsplit_once(':').map_or(name.clone(), |(host, _)| host.to_owned());
    names.extend(others.iter().map(host));
    names
}

/// The known keys, tenants and secrets.
#[derive(Debug, Default)]
struct Known {
    keys: HashMap<Fingerprint, (PublicKey, Principal)>,
    tenants: BTreeMap<String, TenantSettings>,
    admin: Option<SecretHash>,
    metrics: Option<SecretHash>,
}

/// Looks up the usage of a tenant.
type UsageOf = Box<dyn Fn(&str) -> Usage + Send + Sync>;

/// Authentication and authorisation at a server.
pub struct Login {
    store: Arc<Database>,
    required: bool,
    names: Names,
    /// Since when it is known what tokens were used.
    since: u64,
    audiences: RwLock<Audiences>,
    /// Names, `HOST:PORT`, of other servers that pass requests on to this one.
    others: RwLock<Vec<String>>,
    known: RwLock<Arc<Known>>,
    used: Mutex<ReplayCache>,
    rates: Mutex<HashMap<String, Rate>>,
    usage: OnceLock<UsageOf>,
    /// Held while keys or tenants change.
    changes: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("required", &self.required).finish_non_exhaustive()
    }
}

/// Somebody is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// They say nothing of who they are.
    #[error(
        "this server asks for a login: 'weir context add NAME URL --key FILE' tells 'weir' which key to sign with; other clients send \
         'Authorization: Bearer TOKEN' (docs/access.md)"
    )]
    Nobody,
    /// What they say is of another scheme.
    #[error("the login is 'Authorization: Bearer TOKEN', and no other scheme")]
    Scheme,
    /// They have a secret that is none of this server's.
    #[error(
        "the token is not known here; an operator gives access by a key ('weir key add'), and 'weir node --new-admin-token' makes a new admin token"
    )]
    Secret,
    /// They have the token by which metrics are read.
    #[error("this token is good for reading metrics, and for nothing else")]
    OnlyMetrics,
    /// A token is refused.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A tenant asks too often.
    #[error(
        "tenant '{tenant}' asks more often than its quota of {per_second} requests a second; the next one is taken in {wait} ms"
    )]
    TooOften {
        /// The tenant.
        tenant: String,
        /// Its quota.
        per_second: u32,
        /// Milliseconds.
        wait: u64,
    },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

impl Login {
    /// No login is asked for: everyone is an operator.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn off(store: Arc<Database>) -> StoreResult<Login> {
        Login::new(store, false, Names::default())
    }

    /// A login is asked for by a server of these names.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn on(store: Arc<Database>, names: Names) -> StoreResult<Login> {
        Login::new(store, true, names)
    }

    fn new(store: Arc<Database>, required: bool, names: Names) -> StoreResult<Login> {
        let login = Login {
            store,
            required,
            since: now_ms() / 1000,
            audiences: RwLock::new(names.audiences(own_addresses)),
            names,
            others: RwLock::default(),
            known: RwLock::default(),
            used: Mutex::default(),
            rates: Mutex::default(),
            usage: OnceLock::new(),
            changes: tokio::sync::Mutex::default(),
        };
        login.reload()?;
        Ok(login)
    }

    /// Says what tenants have. To be called once.
    pub fn set_usage(&self, usage: impl Fn(&str) -> Usage + Send + Sync + 'static) {
        _ = self.usage.set(Box::new(usage));
    }

    /// Servers of these names, `HOST:PORT`, pass requests on to this one.
    pub fn reached_as(&self, others: Vec<String>) {
        let mut known = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if *known != others {
            *known = others;
            drop(known);
            *self.audiences.write().unwrap_or_else(PoisonError::into_inner) = self.all_audiences();
        }
    }

    fn all_audiences(&self) -> Audiences {
        let mut audiences = self.names.audiences(own_addresses);
        for name in self.others.read().unwrap_or_else(PoisonError::into_inner).iter() {
            // Each has its port.
            audiences.add_name(name, 0);
        }
        audiences
    }

    /// What a tenant has.
    pub fn usage(&self, tenant: &str) -> Usage {
        self.usage.get().map(|usage| usage(tenant)).unwrap_or_default()
    }

    /// Whether a login is asked for.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Whether nobody can have a login yet: there is neither an admin token nor an operator's key.
    pub fn is_new(&self) -> bool {
        let known = self.known();
        known.admin.is_none() && !known.keys.values().any(|(_, p)| p.role() == weir_auth::Role::Operator)
    }

    /// Makes an admin token, which is shown nowhere else. One before is good no more.
    ///
    /// # Errors
    /// The store cannot be written, or there are no random numbers.
    pub fn new_admin_token(&self) -> Result<Secret, NoToken> {
        let secret = Secret::generate(Use::Admin)?;
        self.store.set_admin(Some(&secret.hash()))?;
        self.reload()?;
        Ok(secret)
    }

    /// The same of a token by which metrics are read.
    ///
    /// # Errors
    /// The store cannot be written, or there are no random numbers.
    pub fn new_metrics_token(&self) -> Result<Secret, NoToken> {
        let secret = Secret::generate(Use::Metrics)?;
        self.store.set_metrics_token(Some(&secret.hash()))?;
        self.reload()?;
        Ok(secret)
    }

    /// The limits of a tenant.
    pub fn quotas(&self, tenant: &str) -> Quotas {
        self.known().tenants.get(tenant).map(|t| t.quotas).unwrap_or_default()
    }

    /// Whether somebody who logged in before still may.
    pub fn is_known(&self, principal: &Principal) -> bool {
        let Some(key) = principal.fingerprint() else { return true };
        self.known().keys.get(key).is_some_and(|(_, now)| now == principal)
    }

    /// Who sends this request.
    ///
    /// # Errors
    /// They are not let in.
    pub fn authenticate(&self, request: &str, authorization: Option<&str>) -> Result<Principal, Refused> {
        let now = now_ms();
        let principal = self.identify(request, authorization, now / 1000)?;
        self.limit(&principal, now)?;
        Ok(principal)
    }

    fn identify(&self, request: &str, authorization: Option<&str>, now: u64) -> Result<Principal, Refused> {
        let authorization = authorization.ok_or(Refused::Nobody)?;
        let (scheme, token) = authorization.trim().split_once(' ').ok_or(Refused::Scheme)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Refused::Scheme);
        }
        let (token, known) = (token.trim(), self.known());
        if let Some(secret) = Secret::parse(token) {
            // It is good for nothing else: it stands in the files of another program, and is sent again and again.
            if secret.what() == Use::Metrics {
                let is_known = known.metrics.is_some_and(|hash| hash.is_of(&secret));
                let path = request.strip_prefix("GET ").map(|p| p.split('?').next().unwrap_or_default());
                return match path.is_some_and(|p| p.ends_with("/metrics")) {
                    true if is_known => Principal::new(METRICS, Role::ReadOnly, None, Scope::Everything)
                        .map_err(|_| Refused::Secret),
                    true => Err(Refused::Secret),
                    false => Err(Refused::OnlyMetrics),
                };
            }
            // Join tokens are taken where nodes join, and nowhere else.
            let is_admin = secret.what() == Use::Admin && known.admin.is_some_and(|hash| hash.is_of(&secret));
            return if is_admin { Ok(Principal::operator(ADMIN)) } else { Err(Refused::Secret) };
        }
        let token = Unverified::parse(token)?;
        let (key, principal) =
            known.keys.get(token.subject()).ok_or_else(|| TokenError::UnknownKey(token.subject().clone()))?;
        let claims = match self.verify(token.clone(), key, request, now) {
            // The machine may have got another address since.
            Err(TokenError::Audience { .. }) if self.names.listen.iter().any(|l| l.ip().is_unspecified()) => {
                let audiences = self.all_audiences();
                *self.audiences.write().unwrap_or_else(PoisonError::into_inner) = audiences;
                self.verify(token, key, request, now)?
            }
            claims => claims?,
        };
        lock(&self.used).use_once(&claims, now)?;
        Ok(principal.clone())
    }

    fn verify(
        &self,
        token: Unverified<'_>,
        key: &PublicKey,
        request: &str,
        now: u64,
    ) -> Result<weir_auth::token::Claims, TokenError> {
        let audiences = self.audiences.read().unwrap_or_else(PoisonError::into_inner);
        token.verify(key, &Expected { audiences: &audiences, request, now, since: self.since })
    }

    /// Counts a request of a tenant's.
    fn limit(&self, principal: &Principal, now: u64) -> Result<(), Refused> {
        let Some(tenant) = principal.tenant() else { return Ok(()) };
        let Some(per_second) = self.quotas(&tenant.name).requests else { return Ok(()) };
        let mut rates = lock(&self.rates);
        let rate = rates.entry(tenant.name.clone()).or_insert_with(|| Rate::new(per_second, now));
        if rate.per_second() != per_second {
            *rate = Rate::new(per_second, now);
        }
        rate.take(now).map_err(|wait| Refused::TooOften { tenant: tenant.name.clone(), per_second, wait })
    }

    /// What a tenant is, if there is such a one.
    pub fn tenant_kind(&self, tenant: &str) -> Option<TenantKind> {
        self.known().tenants.get(tenant).map(|t| t.kind)
    }

    fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads what the store has.
    fn reload(&self) -> StoreResult<()> {
        let tenants: BTreeMap<_, _> = self.store.tenants()?.into_iter().collect();
        let mut keys = HashMap::new();
        for key in self.store.keys()? {
            match principal(&key, &tenants) {
                Ok((public, principal)) => drop(keys.insert(public.fingerprint(), (public, principal))),
                // Of a store that somebody else wrote.
                Err(e) => tracing::error!("key {} is of no use: {e}", key.name),
            }
        }
        let known = Known { keys, tenants, admin: self.store.admin()?, metrics: self.store.metrics_token()? };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
        Ok(())
    }

    /// Keeps a record, if a login says who it was.
    async fn record(&self, record: Record) {
        let store = self.store.clone();
        let kept = tokio::task::spawn_blocking(move || store.record(&record)).await;
        match kept {
            Ok(Ok(())) => {}
            Ok(Err(e)) => tracing::error!("a record of the audit log was not kept: {e}"),
            Err(e) => tracing::error!("a record of the audit log was not kept: {e}"),
        }
    }
}

/// Whose a key is, and what they may do.
fn principal(
    key: &Key,
    tenants: &BTreeMap<String, TenantSettings>,
) -> Result<(PublicKey, Principal), String> {
    let public: PublicKey = key.public_key.parse().map_err(|e: weir_auth::key::KeyError| e.to_string())?;
    let owner = key.tenant.as_ref().map(|name| {
        let kind = tenants.get(name).map(|t| t.kind).unwrap_or_default();
        Owner { name: name.clone(), kind }
    });
    let scope = scope(key.graph.clone(), key.functions.clone());
    let scope = scope.ok_or("functions are those of a graph: name it")?;
    let principal = Principal::new(key.name.clone(), key.role, owner, scope).map_err(|e| e.to_string())?;
    let fingerprint = public.fingerprint();
    Ok((public, principal.with_key(fingerprint)))
}

/// There is no new token.
#[derive(Debug, thiserror::Error)]
pub enum NoToken {
    /// There are no random numbers.
    #[error(transparent)]
    Random(#[from] weir_auth::NoRandom),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] weir_store::StoreError),
}

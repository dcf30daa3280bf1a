//! Routes of keys, tenants, the audit log, and of who one is: the same on nodes and controllers.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use weir_api::access::{
    AuditList, Key, KeyList, MetricsToken, NewKey, Tenant, TenantList, TenantSettings, WhoAmI,
};
use weir_api::problem::Problem;
use weir_auth::key::PublicKey;
use weir_auth::{Action, Role, Scope};
use weir_model::nearest::nearest;
use weir_model::value::Id;
use weir_store::Database;

use super::{ADMIN, CONTROLLER, Caller, Login, METRICS, NoToken, now_ms, principal};
use crate::body::{Received, json};
use crate::extract::{Path, Query};
use crate::to_the_end;

/// Most records of one answer.
const MAX_RECORDS: u32 = 10_000;

type App = Arc<Login>;

/// The routes; [`guard`](super::guard) has to stand before them, and says whose login it is.
pub fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(whoami))
        .routes(routes!(keys))
        .routes(routes!(add_key, remove_key))
        .routes(routes!(tenants))
        .routes(routes!(tenant, put_tenant, remove_tenant))
        .routes(routes!(audit))
        .routes(routes!(metrics_token))
}

/// Who one is, and what one may see.
#[utoipa::path(get, path = "/whoami", tag = "access", responses((status = 200, body = WhoAmI, description = "Who asks.")))]
async fn whoami(Extension(login): Extension<App>, caller: Caller) -> Result<Json<WhoAmI>, Problem> {
    caller.may(&Action::WhoAmI)?;
    let p = caller.principal();
    let (graph, functions) = match p.scope().clone() {
        Scope::Everything => (None, Default::default()),
        Scope::Graph { graph } => (Some(graph), Default::default()),
        Scope::Functions { graph, functions } => (Some(graph), functions),
    };
    Ok(Json(WhoAmI {
        login: login.is_required(),
        name: p.name().to_owned(),
        role: p.role(),
        tenant: p.tenant().map(|t| t.name.clone()),
        kind: p.tenant().map(|t| t.kind),
        graph,
        functions,
        fingerprint: p.fingerprint().map(ToString::to_string),
    }))
}

/// The keys that are known.
#[utoipa::path(get, path = "/keys", tag = "access", operation_id = "keys", responses((status = 200, body = KeyList, description = "The keys, by name.")))]
async fn keys(Extension(login): Extension<App>, caller: Caller) -> Result<Json<KeyList>, Problem> {
    caller.may(&Action::ReadKeys)?;
    let keys = login.read(Database::keys).await?;
    Ok(Json(KeyList { keys }))
}

/// Adds a key: its owner has access from now on.
#[utoipa::path(put, path = "/keys/{name}", tag = "access", operation_id = "add_key",
    params(("name" = String, Path, description = "The key's name.", min_length = 1, max_length = 64)),
    request_body = NewKey,
    responses(
        (status = 201, body = Key, description = "It is known now."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The name is taken, or the key is known."),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The request is too large."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "Role, tenant, graph and functions do not fit, or there is no such tenant."),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
    ))]
async fn add_key(
    Extension(login): Extension<App>,
    caller: Caller,
    Path(name): Path<String>,
    body: Received,
) -> Result<Response, Problem> {
    caller.may(&Action::ChangeKeys)?;
    let new: NewKey = json(body)?.0;
    let bad = |what: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, what);
    let name: Id = name.parse().map_err(|e| bad(format!("the key's name: {e}")))?;
    if [ADMIN, METRICS, CONTROLLER].contains(&name.as_str()) {
        return Err(bad(format!(
            "'{name}' is not the name of a key: it is who has the admin token or that of metrics, or the node's controller"
        )));
    }
    if new.role == Role::Join {
        return Err(bad(
            "nodes join by tokens, not by keys; the roles of keys are operator, tenant and read-only".into(),
        ));
    }
    let public: PublicKey =
        new.public_key.parse().map_err(|e: weir_auth::key::KeyError| bad(e.to_string()))?;
    if new.scope().is_none() {
        return Err(bad("functions are those of a graph: name it".into()));
    }
    let new = NewKey { public_key: public.to_string(), ..new };
    let key = Key::new(name.to_string(), public.fingerprint().to_string(), now_ms(), new);
    caller.summary(format!("{} {}", key.fingerprint, key.role));
    to_the_end(async move {
        let _changes = login.changes.lock().await;
        let known = login.known();
        principal(&key, &known.tenants).map_err(&bad)?;
        if let Some(tenant) = key.tenant.as_ref().filter(|t| !known.tenants.contains_key(*t)) {
            return Err(bad(no_tenant(&login, tenant, true)));
        }
        let new = key.clone();
        let added = login.change(move |store| store.add_key(&new)).await?;
        added.map_err(|taken| Problem::new(StatusCode::CONFLICT, taken.to_string()))?;
        Ok((StatusCode::CREATED, Json(key)).into_response())
    })
    .await
}

/// Removes a key: its owner has no access from the next request on. `admin` is the admin token, `metrics` the token by which metrics are read.
#[utoipa::path(delete, path = "/keys/{name}", tag = "access", operation_id = "remove_key",
    params(("name" = String, Path, description = "The key's name.")),
    responses(
        (status = 204, description = "It is removed."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such key."),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
    ))]
async fn remove_key(
    Extension(login): Extension<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ChangeKeys)?;
    to_the_end(async move {
        let _changes = login.changes.lock().await;
        if name == ADMIN && login.known().admin.is_some() {
            login.change(|store| store.set_admin(None)).await?;
            return Ok(StatusCode::NO_CONTENT);
        }
        if name == METRICS && login.known().metrics.is_some() {
            login.change(|store| store.set_metrics_token(None)).await?;
            return Ok(StatusCode::NO_CONTENT);
        }
        let keys = login.read(Database::keys).await?;
        let Some(key) = keys.iter().find(|k| k.name == name) else {
            let hint = nearest(&name, keys.iter().map(|k| k.name.as_str()));
            return Err(Problem::new(StatusCode::NOT_FOUND, format!("there is no key '{name}'{hint}")));
        };
        caller.before(format!("{} {}", key.fingerprint, key.role));
        login.change(move |store| store.remove_key(&name)).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Makes a token by which metrics are read, and nothing else: for Prometheus, which cannot sign requests. The one before is good no more.
#[utoipa::path(post, path = "/metrics/token", tag = "access", operation_id = "metrics_token",
    responses(
        (status = 201, body = MetricsToken, description = "The token, which is shown this once."),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
    ))]
async fn metrics_token(Extension(login): Extension<App>, caller: Caller) -> Result<Response, Problem> {
    caller.may(&Action::ChangeKeys)?;
    to_the_end(async move {
        let _changes = login.changes.lock().await;
        let maker = login.clone();
        let made = tokio::task::spawn_blocking(move || maker.new_metrics_token()).await;
        let secret = made.map_err(|_| Problem::internal())?.map_err(|e| match e {
            NoToken::Store(e) => e.into(),
            NoToken::Random(e) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()),
        })?;
        let token = MetricsToken { token: secret.reveal().to_owned() };
        Ok::<_, Problem>((StatusCode::CREATED, Json(token)).into_response())
    })
    .await
}

/// The tenants that one may see, with what they may have and what they have.
#[utoipa::path(get, path = "/tenants", tag = "access", operation_id = "tenants", responses((status = 200, body = TenantList, description = "The tenants, by name.")))]
async fn tenants(Extension(login): Extension<App>, caller: Caller) -> Result<Json<TenantList>, Problem> {
    caller.may(&Action::ListTenants)?;
    let known = login.known();
    let seen = known.tenants.iter().filter(|(name, _)| caller.can(&Action::ReadTenant(name)));
    let tenants = seen.map(|(name, settings)| login.tenant(name, settings)).collect();
    Ok(Json(TenantList { tenants }))
}

/// A tenant, with what it may have and what it has.
#[utoipa::path(get, path = "/tenants/{name}", tag = "access", operation_id = "tenant",
    params(("name" = String, Path, description = "The tenant's name.")),
    responses(
        (status = 200, body = Tenant, description = "The tenant."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such tenant."),
    ))]
async fn tenant(
    Extension(login): Extension<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Tenant>, Problem> {
    caller.may(&Action::ReadTenant(&name))?;
    let known = login.known();
    let settings = known.tenants.get(&name);
    let settings = settings.ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, no_tenant(&login, &name, caller.can(&Action::ReadKeys)))
    })?;
    Ok(Json(login.tenant(&name, settings)))
}

/// Adds a tenant, or changes what it is and may have. What it has already stays.
#[utoipa::path(put, path = "/tenants/{name}", tag = "access", operation_id = "put_tenant",
    params(("name" = String, Path, description = "The tenant's name.", min_length = 1, max_length = 64)),
    request_body = Option<TenantSettings>,
    responses(
        (status = 200, body = Tenant, description = "It was changed."),
        (status = 201, body = Tenant, description = "It is new."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The request is too large."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be called so, or a limit is too large."),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
    ))]
async fn put_tenant(
    Extension(login): Extension<App>,
    caller: Caller,
    Path(name): Path<String>,
    body: Received,
) -> Result<Response, Problem> {
    caller.may(&Action::ChangeTenants)?;
    let settings: TenantSettings = json(body)?.0;
    settings.quotas.check().map_err(|what| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, what))?;
    let bad = |e: weir_model::ValueError| format!("the tenant's name: {e}");
    let name: Id = name.parse().map_err(|e| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, bad(e)))?;
    to_the_end(async move {
        let _changes = login.changes.lock().await;
        let text = |s: &TenantSettings| serde_json::to_string(s).unwrap_or_default();
        if let Some(before) = login.known().tenants.get(name.as_str()) {
            caller.before(text(before));
        }
        caller.after(text(&settings));
        caller.summary(format!("tenant {name}"));
        let changed = name.clone();
        let new = login.change(move |store| store.put_tenant(changed.as_str(), &settings)).await?;
        let status = if new { StatusCode::CREATED } else { StatusCode::OK };
        Ok::<_, Problem>((status, Json(login.tenant(name.as_str(), &settings))).into_response())
    })
    .await
}

/// Removes a tenant that has neither keys nor graphs.
#[utoipa::path(delete, path = "/tenants/{name}", tag = "access", operation_id = "remove_tenant",
    params(("name" = String, Path, description = "The tenant's name.")),
    responses(
        (status = 204, description = "It is removed."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such tenant."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It has keys or graphs."),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
    ))]
async fn remove_tenant(
    Extension(login): Extension<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ChangeTenants)?;
    to_the_end(async move {
        let _changes = login.changes.lock().await;
        let known = login.known();
        let Some(settings) = known.tenants.get(&name) else {
            return Err(Problem::new(StatusCode::NOT_FOUND, no_tenant(&login, &name, true)));
        };
        let graphs = login.usage(&name).graphs;
        if graphs > 0 {
            let detail = format!("tenant '{name}' has {graphs} graphs; remove them first");
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        }
        caller.before(serde_json::to_string(settings).unwrap_or_default());
        caller.summary(format!("tenant {name}"));
        let removed = login.change(move |store| store.remove_tenant(&name)).await?;
        removed.map_err(|taken| Problem::new(StatusCode::CONFLICT, taken.to_string()))?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Which records to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditOptions {
    /// Those behind the one with this number, oldest first; without it, the newest.
    #[serde(default)]
    after: Option<u64>,
    /// How many at most; 100 if it is left out.
    #[serde(default = "hundred")]
    #[param(minimum = 0, maximum = 10_000, default = 100)]
    limit: u32,
}

fn hundred() -> u32 {
    100
}

/// What was changed, and what was refused: who, what, before and after. The last 100,000 records are kept, if a login is asked for.
#[utoipa::path(get, path = "/audit", tag = "access", operation_id = "audit", params(AuditOptions), responses(
    (status = 200, body = AuditList, description = "The records, oldest first."),
    (status = 400, body = Problem, content_type = "application/problem+json", description = "The query has mistakes."),
))]
async fn audit(
    Extension(login): Extension<App>,
    caller: Caller,
    Query(AuditOptions { after, limit }): Query<AuditOptions>,
) -> Result<Json<AuditList>, Problem> {
    caller.may(&Action::ReadAudit)?;
    if limit > MAX_RECORDS {
        let detail = format!("limit: at most {MAX_RECORDS} records are given at a time");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    if after.is_some_and(|n| i64::try_from(n).is_err()) {
        let detail = format!("after: at most {}, which no record has", i64::MAX);
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    }
    let records = login.read(move |store| store.records(after, limit)).await?;
    Ok(Json(AuditList { records }))
}

/// That there is none of that name; whoever may know them all gets one that is near.
fn no_tenant(login: &Login, name: &str, all: bool) -> String {
    let known = login.known();
    let hint = if all { nearest(name, known.tenants.keys().map(String::as_str)) } else { String::new() };
    format!("there is no tenant '{name}'{hint}; an operator adds one with: weir tenant add NAME")
}

impl Login {
    fn tenant(&self, name: &str, settings: &TenantSettings) -> Tenant {
        let TenantSettings { kind, quotas } = *settings;
        Tenant { name: name.to_owned(), kind, quotas, usage: self.usage(name) }
    }

    async fn read<T: Send + 'static>(
        &self,
        f: impl FnOnce(&Database) -> weir_store::Result<T> + Send + 'static,
    ) -> Result<T, Problem> {
        let store = self.store.clone();
        let done = tokio::task::spawn_blocking(move || f(&store)).await;
        Ok(done.map_err(|_| Problem::internal())??)
    }

    /// Changes the store, and what is known of it.
    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        f: impl FnOnce(&Database) -> weir_store::Result<T> + Send + 'static,
    ) -> Result<T, Problem> {
        let login = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let done = f(&login.store)?;
            login.reload()?;
            Ok::<_, weir_store::StoreError>(done)
        });
        Ok(done.await.map_err(|_| Problem::internal())??)
    }
}

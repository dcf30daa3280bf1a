//! Routes of policies: what the operator requires of graphs.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_api::policies::{Policy, PolicyList, PolicySettings};
use weir_api::problem::Problem;
use weir_auth::Action;
use weir_model::nearest::nearest;
use weir_model::value::Id;
use weir_rest::body::{Received, json};
use weir_rest::extract::{Path, Query};
use weir_rest::login::Caller;
use weir_rest::to_the_end;

use super::App;

/// The options of setting a policy.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Graphs that run and do not hold it stay as they are; they cannot be changed until they hold it.
    #[serde(default)]
    keep: bool,
}

fn policy(app: &App, name: &str, settings: &PolicySettings) -> Policy {
    Policy { name: name.to_owned(), settings: settings.clone(), graphs: app.governed(settings) }
}

/// The policies.
#[utoipa::path(get, path = "/policies", tag = "policies", operation_id = "policies", responses(
    (status = 200, body = PolicyList, description = "The policies, by name."),
))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<PolicyList>, Problem> {
    caller.may(&Action::ReadPolicies)?;
    let view = app.view();
    let policies = view.policies.iter().map(|(name, settings)| policy(&app, name, settings)).collect();
    Ok(Json(PolicyList { policies }))
}

/// A policy.
#[utoipa::path(get, path = "/policies/{name}", tag = "policies", operation_id = "policy",
    params(("name" = String, Path, description = "The policy's name.")),
    responses(
        (status = 200, body = Policy, description = "The policy."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such policy."),
    ))]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Policy>, Problem> {
    caller.may(&Action::ReadPolicies)?;
    let view = app.view();
    let settings = view.policies.get(&name).ok_or_else(|| {
        let hint = nearest(&name, view.policies.keys().map(String::as_str));
        Problem::new(StatusCode::NOT_FOUND, format!("there is no policy '{name}'{hint}"))
    })?;
    Ok(Json(policy(&app, &name, settings)))
}

/// Sets what is required of graphs: of those that run, if they hold it, and of all that are applied or changed from now on.
#[utoipa::path(put, path = "/policies/{name}", tag = "policies", operation_id = "put_policy", request_body = PolicySettings,
    params(("name" = String, Path, description = "The policy's name."), Options),
    responses(
        (status = 200, body = Policy, description = "The policy is set."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request is wrong."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Graphs that run do not hold it."),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The request is too long."),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The request is no JSON."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be required."),
    ))]
pub(super) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(options): Query<Options>,
    body: Received,
) -> Result<Json<Policy>, Problem> {
    caller.may(&Action::ChangePolicies)?;
    let name: Id = name
        .parse()
        .map_err(|e| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("the name of a policy: {e}")))?;
    let settings: PolicySettings = json(body)?.0;
    caller.summary(settings.require.join("; "));
    to_the_end(async move {
        app.put_policy(name.as_str(), settings.clone(), options.keep).await?;
        Ok::<_, Problem>(Json(policy(&app, name.as_str(), &settings)))
    })
    .await
}

/// Removes a policy.
#[utoipa::path(delete, path = "/policies/{name}", tag = "policies", operation_id = "remove_policy",
    params(("name" = String, Path, description = "The policy's name.")),
    responses(
        (status = 204, description = "It is removed."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such policy."),
    ))]
pub(super) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ChangePolicies)?;
    to_the_end(async move { app.remove_policy(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

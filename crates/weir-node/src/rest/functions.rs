//! Routes of handlers and images, and of the node itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use weir_api::functions::Inside;
use weir_api::images::{ImageDetails, ImageHandler, ImageList, ImagePort, ImageSummary, Parameter};
use weir_api::node::Health;
use weir_api::problem::Problem;
use weir_auth::Action;
use weir_model::template::{Template, TemplatePort};
use weir_protocol::Command;
use weir_rest::body::{Received, bytes};
use weir_rest::extract::{Path, Query};
use weir_rest::login::Caller;
use weir_rest::to_the_end;

use super::{App, entry, log};
use crate::compute::Compute;
use crate::compute::digest::of_folder;
use crate::connection::DataPlane;
use crate::desired::{FunctionRuntime, PublicHandler};
use crate::images::Images;
use crate::instance::{InstanceId, Kind};
use crate::node::Entry;
use crate::proof;
use weir_model::nearest::nearest;

/// A function of a graph.
pub(crate) fn function<'e>(e: &'e Entry, function: &str) -> Result<&'e FunctionRuntime, Problem> {
    if let Some(c) = e.graph.composed.iter().find(|c| c.id == function) {
        let detail =
            format!("function '{function}' is made of functions: ask for one of {}", c.functions.join(", "));
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    }
    e.graph.function(function).ok_or_else(|| {
        let hint = nearest(function, e.graph.functions.iter().map(|f| f.id.as_str()));
        let detail = format!("graph '{}' has no function '{function}'{hint}", e.graph.id);
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}

/// A public handler of a function.
fn handler(f: &FunctionRuntime, name: &str) -> Result<PublicHandler, Problem> {
    f.handlers.get(name).cloned().ok_or_else(|| {
        let known = f.handlers.keys().cloned().collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none at all".to_owned() } else { known };
        let hint = nearest(name, f.handlers.keys().map(String::as_str));
        let detail = format!("function '{}' has no public handler '{name}'{hint}; it has: {known}", f.id);
        Problem::new(StatusCode::NOT_FOUND, detail)
    })
}

/// A public handler that can be read.
pub(crate) fn readable(f: &FunctionRuntime, name: &str) -> Result<PublicHandler, Problem> {
    let public = handler(f, name)?;
    if !public.readable {
        return Err(Problem::new(StatusCode::FORBIDDEN, format!("'{name}' can only be written")));
    }
    Ok(public)
}

/// The instance of a function that is not inline, and its driver.
fn instance(app: &App, e: &Entry, name: &str) -> Result<(InstanceId, Arc<dyn Compute>), Problem> {
    let f = function(e, name)?;
    if f.kind == Kind::Inline {
        let detail = format!(
            "function '{name}' is inline: it has no output and no namespaces of its own; 'weir events' shows what its elements print"
        );
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    }
    Ok((InstanceId::new(&e.graph.id, name), app.drivers.get(f.kind)?))
}

/// Which output to give.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LogOptions {
    /// Whether what comes later follows, until the client goes.
    #[serde(default)]
    follow: bool,
}

/// What a function that is not inline has written, with its scripts: the last 4 MB.
#[utoipa::path(get, path = "/graphs/{id}/functions/{function}/log", tag = "functions", operation_id = "function_log",
    params(
        ("id" = String, Path, description = "The graph's identifier."),
        ("function" = String, Path, description = "The function's identifier."),
        LogOptions,
    ),
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "Its output and its errors."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The query has mistakes."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph or function, or it is inline."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be read."),
    ))]
pub(super) async fn log(
    State(app): State<App>,
    caller: Caller,
    Path((id, function)): Path<(String, String)>,
    Query(LogOptions { follow }): Query<LogOptions>,
) -> Result<Response, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::ReadLog(e.function(&function)))?;
    let (instance, driver) = instance(&app, &e, &function)?;
    // QEMU's cards look for the data plane again and again, and the first time too early.
    let noise = log::Noise { begins: "qemu-system", has: "Unable to connect character device" };
    let noise = (driver.kind() == Kind::Vm).then_some(noise);
    let gone = move || app.graph(&id).is_none_or(|e| e.graph.function(&function).is_none());
    let body = log::body(driver.log(&instance)?, follow, noise, gone);
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// How a program is started inside a function that is not inline, by who is on this machine: `weir shell` does.
#[utoipa::path(get, path = "/graphs/{id}/functions/{function}/inside", tag = "functions", operation_id = "function_inside",
    params(
        ("id" = String, Path, description = "The graph's identifier."),
        ("function" = String, Path, description = "The function's identifier."),
    ),
    responses(
        (status = 200, body = Inside, description = "Namespaces, directories and environment."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph or function, or it is inline."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It does not run."),
    ))]
pub(super) async fn inside(
    State(app): State<App>,
    caller: Caller,
    Path((id, function)): Path<(String, String)>,
) -> Result<Json<Inside>, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::Shell(e.function(&function)))?;
    let (instance, driver) = instance(&app, &e, &function)?;
    let launch = driver.inside(&instance)?;
    Ok(Json(Inside { launch: serde_json::to_value(launch).map_err(|_| Problem::internal())? }))
}

/// Reads a public handler of a function.
#[utoipa::path(get, path = "/graphs/{id}/functions/{function}/handlers/{name}", tag = "functions",
    operation_id = "read_handler",
    params(
        ("id" = String, Path, description = "The graph's identifier."),
        ("function" = String, Path, description = "The function's identifier."),
        ("name" = String, Path, description = "The handler's public name."),
    ),
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "What the handler says."),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "It can only be written."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph, function or handler."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The data plane refused."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    ))]
pub(super) async fn read(
    State(app): State<App>,
    caller: Caller,
    Path((id, function, name)): Path<(String, String, String)>,
) -> Result<String, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::ReadHandler(e.function(&function)))?;
    app.read_public(&e, &function, &name).await
}

/// Writes a public handler of a function; the body is what to write. What is written lasts until the graph is applied again
/// or the data plane is restarted, and is shown in the graph's status: what should last belongs in the document.
#[utoipa::path(put, path = "/graphs/{id}/functions/{function}/handlers/{name}", tag = "functions",
    operation_id = "write_handler",
    params(
        ("id" = String, Path, description = "The graph's identifier."),
        ("function" = String, Path, description = "The function's identifier."),
        ("name" = String, Path, description = "The handler's public name."),
    ),
    request_body(content = String, content_type = "text/plain"),
    responses(
        (status = 204, description = "It was written."),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "It can only be read."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such graph, function or handler."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It may break requirements that were proved."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The data plane refused."),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "The data plane cannot be reached."),
    ))]
pub(super) async fn write(
    State(app): State<App>,
    caller: Caller,
    Path((id, function, name)): Path<(String, String, String)>,
    body: Received,
) -> Result<StatusCode, Problem> {
    let e = entry(&app, &caller, &id)?;
    caller.may(&Action::WriteHandler(e.function(&function)))?;
    let f = self::function(&e, &function)?;
    let public = handler(f, &name)?;
    if !public.writable {
        return Err(Problem::new(StatusCode::FORBIDDEN, format!("'{name}' can only be read")));
    }
    let value = String::from_utf8(bytes(body)?.to_vec())
        .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not UTF-8 text: {e}")))?;
    caller.after(value.clone());
    caller.summary(format!("handler {name}"));
    // What a function that is not inline does is part of no proof.
    if f.kind == Kind::Inline && !proof::outlives(&e.graph, &public.handler, &value) {
        let detail = format!(
            "graph '{id}' has requirements, which were proved for its document, and this write may break them: \
             write it into the document, under the function's 'handlers', and apply that"
        );
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    if f.kind != Kind::Inline {
        let instance = InstanceId::new(&id, &function);
        app.drivers.get(f.kind)?.write(&instance, &public.handler, &value, public.readable).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    let write = Command::Write { graph: id, handler: public.handler.clone(), value: value.clone() };
    app.plane.call(write).await?;
    app.wrote(&e, &function, &name, &public.handler, &value).await;
    Ok(StatusCode::NO_CONTENT)
}

/// The images of this node.
#[utoipa::path(get, path = "/images", tag = "images", responses((status = 200, body = ImageList, description = "The images, and what is wrong with others.")))]
pub(super) async fn images(State(app): State<App>, caller: Caller) -> Result<Json<ImageList>, Problem> {
    caller.may(&Action::ReadImages)?;
    let found = app.tried_images().await;
    let summary = |t: &Template| ImageSummary {
        name: t.name.to_string(),
        kind: t.implementation.kind().to_owned(),
        version: t.version.as_ref().map(ToString::to_string),
        capabilities: t.capability.iter().map(ToString::to_string).collect(),
        features: t.features.iter().map(ToString::to_string).collect(),
        description: t.description.clone(),
        ports: t.ports.iter().map(|p| p.name.to_string()).collect(),
        params: t.params.iter().map(Parameter::new).collect(),
        handlers: t.handlers.iter().map(|(n, h)| (n.clone(), access(h.access).to_owned())).collect(),
    };
    Ok(Json(ImageList { images: found.templates.values().map(summary).collect(), errors: found.errors }))
}

/// An image in full.
#[utoipa::path(get, path = "/images/{name}", tag = "images", params(("name" = String, Path, description = "The image's name.")), responses(
    (status = 200, body = ImageDetails, description = "The image."),
    (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such image, or it cannot be read."),
))]
pub(super) async fn image(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<ImageDetails>, Problem> {
    caller.may(&Action::ReadImages)?;
    Ok(Json(details(found(&app.images().await, &name)?)))
}

/// The image of a name.
pub(super) fn found<'i>(images: &'i Images, name: &str) -> Result<&'i Template, Problem> {
    images.templates.get(name).ok_or_else(|| {
        let hint = nearest(name, images.templates.keys().map(String::as_str));
        let broken = match images.errors.len() {
            0 => String::new(),
            n => format!("; {n} cannot be read, see 'weir images'"),
        };
        Problem::new(StatusCode::NOT_FOUND, format!("there is no image '{name}'{hint}{broken}"))
    })
}

/// All of an image.
fn details(t: &Template) -> ImageDetails {
    let port = |p: &TemplatePort| ImagePort { name: p.name.to_string(), doc: p.doc.clone() };
    ImageDetails {
        name: t.name.to_string(),
        kind: t.implementation.kind().to_owned(),
        version: t.version.as_ref().map(ToString::to_string),
        capabilities: t.capability.iter().map(ToString::to_string).collect(),
        features: t.features.iter().map(ToString::to_string).collect(),
        description: t.description.clone(),
        digest: t.folder().and_then(|folder| of_folder(folder).ok()),
        ports: t.ports.iter().map(port).collect(),
        params: t.params.iter().map(Parameter::new).collect(),
        handlers: t
            .handlers
            .iter()
            .map(|(n, h)| ImageHandler {
                name: n.clone(),
                access: access(h.access).into(),
                doc: h.doc.clone(),
            })
            .collect(),
    }
}

/// Adds an image, or changes one that was added so: the body is its manifest (docs/function.md) with the Click script in it. Functions that
/// run stay as they are until their graph is applied again.
#[utoipa::path(put, path = "/images/{name}", tag = "images", operation_id = "put_image",
    params(("name" = String, Path, description = "The image's name.")),
    request_body(content = String, content_type = "application/yaml"),
    responses(
        (status = 200, body = ImageDetails, description = "The image."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The manifest has mistakes."),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "There is another image of that name, or there are too many."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be added."),
        (status = 507, body = Problem, content_type = "application/problem+json", description = "The disk is full."),
    ))]
pub(super) async fn put_image(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    body: Received,
) -> Result<Json<ImageDetails>, Problem> {
    caller.may(&Action::ChangeImages)?;
    let manifest = String::from_utf8(bytes(body)?.to_vec())
        .map_err(|e| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not UTF-8 text: {e}")))?;
    caller.summary(format!("image {name}"));
    let added = to_the_end(async move { app.add_image(&name, manifest).await }).await?;
    Ok(Json(details(&added)))
}

/// Removes an image that was added over REST. What runs goes on.
#[utoipa::path(delete, path = "/images/{name}", tag = "images", operation_id = "delete_image",
    params(("name" = String, Path, description = "The image's name.")),
    responses(
        (status = 204, description = "It is removed."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such image that was added."),
    ))]
pub(super) async fn delete_image(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.may(&Action::ChangeImages)?;
    caller.summary(format!("image {name}"));
    to_the_end(async move { app.remove_image(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn access(access: weir_model::template::Access) -> &'static str {
    match (access.readable(), access.writable()) {
        (true, true) => "rw",
        (false, _) => "w",
        (true, false) => "r",
    }
}

/// How the node is.
#[utoipa::path(get, path = "/health", tag = "node", responses(
    (status = 200, body = Health, description = "It is ready."),
    (status = 503, body = Health, description = "The data plane cannot be reached, or is being brought to the desired state."),
))]
pub(super) async fn health(State(app): State<App>) -> Response {
    let (view, trouble) = (app.view(), app.plane.trouble());
    let health = Health {
        version: env!("CARGO_PKG_VERSION").into(),
        ready: trouble.is_none() && view.settled,
        trouble,
        controller: app.membership.link(),
        graphs: view.graphs.len(),
        failed: view.failures.len(),
    };
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health)).into_response()
}

//! The route that says what functions of an image keep: whether their state fits those of another version is decided by that.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;
use tokio::task::spawn_blocking;
use weir_api::images::{ImageTables, ImageTablesRequest};
use weir_api::problem::{Mistake, Problem};
use weir_auth::Action;
use weir_model::graph::ParamValue;
use weir_rest::body::{Received, json};
use weir_rest::extract::Path;
use weir_rest::login::Caller;

use super::App;
use super::functions::found;
use crate::image_check;

/// The tables that a function of an image has with these values of its parameters, as they are declared. Functions that are neither inline nor in a process
/// have none that are known.
#[utoipa::path(post, path = "/images/{name}/tables", tag = "images", operation_id = "image_tables",
    params(("name" = String, Path, description = "The image's name.")),
    request_body = ImageTablesRequest,
    responses(
        (status = 200, body = ImageTables, description = "The tables."),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "The request has mistakes."),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such image, or it cannot be read."),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The image has no such parameters, or takes no such values."),
    ))]
pub(super) async fn tables(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    body: Received,
) -> Result<Json<ImageTables>, Problem> {
    caller.may(&Action::ReadImages)?;
    let ImageTablesRequest { params } = json(body)?.0;
    let images = app.images().await;
    let template = found(&images, &name)?.clone();
    let refused = |wrong: Vec<String>| Problem {
        errors: wrong.into_iter().map(Mistake::from).collect(),
        ..Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("the image '{name}' cannot be used with these parameters"),
        )
    };
    let mut given = BTreeMap::new();
    for (name, value) in params {
        let value =
            param(value).ok_or_else(|| refused(vec![format!("{name} is a text, a number or a bool")]))?;
        given.insert(name, value);
    }
    let arguments = template
        .arguments(&given)
        .map_err(|errors| refused(errors.iter().map(|e| e.message.clone()).collect()))?;
    let tables = spawn_blocking(move || image_check::tables(&template, &arguments))
        .await
        .map_err(|_| Problem::internal())?
        .map_err(refused)?;
    Ok(Json(ImageTables { tables }))
}

fn param(value: Value) -> Option<ParamValue> {
    match value {
        Value::Bool(b) => Some(ParamValue::Bool(b)),
        Value::Number(n) => Some(n.as_i64().map_or_else(|| ParamValue::Text(n.to_string()), ParamValue::Int)),
        Value::String(text) => Some(ParamValue::Text(text)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

//! Whether a function is one that can move, whatever node it goes to.

use axum::http::{Method, StatusCode};
use serde_json::json;
use weir_api::images::{ImageDetails, ImageTables};
use weir_api::problem::{Mistake, Problem};
use weir_model::graph::{Function, RunAs};

use super::How;
use super::tables::{Fates, fates};
use crate::controller::Controller;
use crate::fleet::segment;

/// What else is to be said to a function that is to move to where it is.
pub(super) fn same_node(how: &How) -> &'static str {
    if how.image.is_some() {
        ": its image changes as it moves to another node, or by 'weir apply'"
    } else if how.kind.is_some() {
        ": how it is run changes as it moves to another node"
    } else {
        ""
    }
}

/// The image of a function, as documents name it.
pub(super) fn image_of(f: &Function) -> String {
    f.template.as_ref().unwrap_or(&f.name).to_string()
}

/// The name of an image, and its version, if a text says that.
pub(super) fn name_and_version(image: &str) -> (&str, Option<&str>) {
    image.split_once('@').map_or((image, None), |(name, version)| (name, Some(version)))
}

/// Another image that a function is made of when it has moved.
#[derive(Debug, Clone)]
pub(super) struct NewImage {
    /// Its name and its version.
    pub called: String,
    /// What becomes of tables.
    pub fates: Fates,
}

fn refused(text: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

impl Controller {
    /// Whether the state of a function is known, and fits what the function is made of at the other node: the same image, or the one that was asked for.
    /// `new` is the function as it is to be there.
    pub(super) async fn is_movable(
        &self,
        (f, new): (&Function, &Function),
        (from, to): (&str, &str),
        how: &How,
    ) -> Result<Option<NewImage>, Problem> {
        if f.capability.is_some() {
            return Err(refused(format!(
                "function '{}' is asked for by capability: name an image to move it",
                f.id
            )));
        }
        if f.click.is_some() {
            return match &how.image {
                None => Ok(None),
                Some(_) => Err(refused(format!(
                    "function '{}' has a script of its own and no image: change its document to change it",
                    f.id
                ))),
            };
        }
        let (old_image, image) = (image_of(f), image_of(new));
        let here = self.image_details(from, &old_image).await?;
        let there = self.image_details(to, &image).await?;
        for (image, details) in [(&old_image, &here), (&image, &there)] {
            can_run(f, image, &details.kind, how.kind)?;
        }
        let (here_is, there_is) = (called(&here), called(&there));
        let Some(asked) = &how.image else {
            if here.digest == there.digest {
                return Ok(None);
            }
            return Err(refused(format!(
                "the image '{image}' of node '{to}' is another one than that of node '{from}': bring both to one version, or \
                 ask for it by --image {there_is}"
            )));
        };
        if let Some(version) = name_and_version(asked).1.filter(|v| there.version.as_deref() != Some(*v)) {
            let has = there.version.as_deref().unwrap_or("none");
            return Err(refused(format!(
                "the image '{image}' of node '{to}' has not the version {version}, but {has}"
            )));
        }
        if image == old_image && here.digest == there.digest && here.digest.is_some() {
            return Ok(None);
        }
        let (old, new) =
            (self.image_tables(from, &old_image, f).await?, self.image_tables(to, &image, new).await?);
        let fates = fates(&old.tables, &new.tables, &how.leave).map_err(refused)?;
        if !fates.refused.is_empty() && !how.plan {
            let text = format!(
                "function '{}' cannot become one of {there_is}, as it is one of {here_is}: --leave TABLE allows that the \
                 content of a table ends",
                f.id
            );
            let errors = fates.refused.into_iter().map(Mistake::from).collect();
            return Err(Problem { errors, ..refused(text) });
        }
        Ok(Some(NewImage { called: there_is, fates }))
    }

    async fn image_details(&self, node: &str, image: &str) -> Result<ImageDetails, Problem> {
        let path = format!("/images/{}", segment(image));
        Ok(self.fleet.call(node, Method::GET, &path, None).await?)
    }

    async fn image_tables(&self, node: &str, image: &str, f: &Function) -> Result<ImageTables, Problem> {
        let path = format!("/images/{}/tables", segment(image));
        let body = json!({ "params": f.params }).to_string();
        self.fleet.call(node, Method::POST, &path, Some(&body)).await.map_err(|e| {
            let problem = Problem::from(e);
            Problem { detail: format!("node '{node}': {}", problem.detail), ..problem }
        })
    }
}

/// An image with its version, as it is asked for.
fn called(image: &ImageDetails) -> String {
    match &image.version {
        Some(version) => format!("{}@{version}", image.name),
        None => image.name.clone(),
    }
}

/// Whether the state of a function of an image of this kind is known.
fn can_run(f: &Function, image: &str, kind: &str, wanted: Option<RunAs>) -> Result<(), Problem> {
    match (kind, wanted) {
        ("click", _) | ("process", None | Some(RunAs::Process)) => Ok(()),
        ("process", Some(RunAs::Inline)) => Err(refused(format!(
            "function '{}' cannot be inline: its image '{image}' is of kind process",
            f.id
        ))),
        (other, _) => Err(refused(format!(
            "function '{}' is of kind {other}: only the state of inline functions, and of those in processes, can be moved",
            f.id
        ))),
    }
}

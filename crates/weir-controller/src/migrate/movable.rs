//! Whether a function is one that can move, whatever node it goes to.

use axum::http::{Method, StatusCode};
use weir_api::problem::Problem;
use weir_model::graph::{Function, RunAs};

use crate::controller::Controller;
use crate::fleet::segment;

/// What else is to be said to a function that is to move to where it is.
pub(super) fn same_node(kind: Option<RunAs>) -> &'static str {
    match kind {
        Some(_) => ": how it is run changes as it moves to another node",
        None => "",
    }
}

impl Controller {
    /// Whether the state of a function is known, the same image is at both nodes, and it can be run as `kind` says.
    pub(super) async fn is_movable(
        &self,
        f: &Function,
        from: &str,
        to: &str,
        kind: Option<RunAs>,
    ) -> Result<(), Problem> {
        let refused = |text: String| Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text));
        if f.capability.is_some() {
            return refused(format!(
                "function '{}' is asked for by capability: name an image to move it",
                f.id
            ));
        }
        if f.click.is_some() {
            return Ok(());
        }
        let image = f.template.as_ref().unwrap_or(&f.name).to_string();
        let path = format!("/images/{}", segment(&image));
        let ask = |node: String| {
            let path = path.clone();
            async move { self.fleet.call::<weir_api::images::ImageDetails>(&node, Method::GET, &path, None).await }
        };
        let (here, there) = (ask(from.to_owned()).await?, ask(to.to_owned()).await?);
        match (here.kind.as_str(), kind) {
            ("click", _) | ("process", None | Some(RunAs::Process)) => {}
            ("process", Some(RunAs::Inline)) => {
                return refused(format!(
                    "function '{}' cannot be inline: its image '{image}' is of kind process",
                    f.id
                ));
            }
            (other, _) => {
                return refused(format!(
                    "function '{}' is of kind {other}: only the state of inline functions, and of those in processes, can be moved",
                    f.id
                ));
            }
        }
        if here.digest != there.digest {
            return refused(format!(
                "the image '{image}' of node '{to}' is another one than that of node '{from}': bring both to one version"
            ));
        }
        Ok(())
    }
}

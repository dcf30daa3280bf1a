//! Images that were added over REST: each a manifest with its Click script in it, in a folder beside the store.

use std::io;
use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use tokio::task::spawn_blocking;
use weir_api::problem::{Mistake, Problem};
use weir_model::template::{MANIFEST_FILE, Template, TemplateError};

use crate::connection::DataPlane;
use crate::image_check;
use crate::node::Node;

/// Most images that are added.
const MAX_ADDED: usize = 1000;
/// The longest name, in bytes.
const MAX_NAME: usize = 64;

fn refused(text: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, text)
}

/// An image of a manifest, if it can be added under that name.
fn read(name: &str, manifest: &str) -> Result<Template, Problem> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || name.starts_with('.') || !name.chars().all(good) {
        let text = format!(
            "'{name}' is no name of an image that can be added; it has 1 to {MAX_NAME} letters, digits, and characters of -_., and begins with no dot"
        );
        return Err(refused(text));
    }
    let file = |file: &str| match file {
        MANIFEST_FILE => Ok(manifest.to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let template = Template::load_with(Path::new(name), file).map_err(|e| match e {
        TemplateError::Manifest { source, .. } => Problem::from(source),
        TemplateError::Io { .. } => refused(e.to_string()),
    })?;
    if template.name.as_str() != name {
        return Err(refused(format!("the manifest is of image '{}', and not of '{name}'", template.name)));
    }
    if template.click().is_none() {
        let text = "only images with a Click script can be added so; others are folders: put them where the node looks for images";
        return Err(refused(text));
    }
    let mistakes = image_check::mistakes(&template);
    if !mistakes.is_empty() {
        return Err(refused("the image has mistakes").with(mistakes.into_iter().map(Mistake::from)));
    }
    Ok(template)
}

/// Writes a manifest whole or not at all.
fn write(folder: &Path, name: &str, manifest: &str) -> io::Result<()> {
    let folder = folder.join(name);
    std::fs::create_dir_all(&folder)?;
    let (new, file) = (folder.join(".new"), folder.join(MANIFEST_FILE));
    std::fs::write(&new, manifest)?;
    std::fs::rename(new, file)
}

impl<D: DataPlane> Node<D> {
    fn folder_of_added(&self) -> Result<PathBuf, Problem> {
        let none = || refused("this node has no place for images that are added");
        self.added.clone().ok_or_else(none)
    }

    /// Adds an image, or changes one that was added.
    pub(crate) async fn add_image(&self, name: &str, manifest: String) -> Result<Template, Problem> {
        let folder = self.folder_of_added()?;
        let own = name.to_owned();
        let (template, manifest) =
            spawn_blocking(move || Ok::<_, Problem>((read(&own, &manifest)?, manifest)))
                .await
                .map_err(|_| Problem::internal())??;
        let images = self.images().await;
        let is_added = |t: &Template| t.folder().is_some_and(|f| f.starts_with(&folder));
        if let Some(other) = images.templates.get(name)
            && !is_added(other)
        {
            let text = format!("there is an image '{name}' of the node's own: choose another name");
            return Err(Problem::new(StatusCode::CONFLICT, text));
        }
        let added = images.templates.values().filter(|t| is_added(t)).count();
        if added >= MAX_ADDED && !images.templates.contains_key(name) {
            let text = format!("{MAX_ADDED} images were added already, and no more can be: remove some");
            return Err(Problem::new(StatusCode::CONFLICT, text));
        }
        let own = name.to_owned();
        let done = spawn_blocking(move || write(&folder, &own, &manifest)).await;
        done.map_err(|_| Problem::internal())?.map_err(|e| {
            tracing::error!("the image {name} was not written: {e}");
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, format!("the image was not written: {e}"))
        })?;
        Ok(template)
    }

    /// Removes an image that was added. What runs goes on.
    pub(crate) async fn remove_image(&self, name: &str) -> Result<(), Problem> {
        let folder = self.folder_of_added()?;
        let missing = || {
            Problem::new(
                StatusCode::NOT_FOUND,
                format!("there is no image '{name}' that was added over REST"),
            )
        };
        let images = self.images().await;
        let found = images.templates.get(name).and_then(Template::folder).map(Path::to_owned);
        let found = found.filter(|f| f.starts_with(&folder)).ok_or_else(missing)?;
        let done = spawn_blocking(move || std::fs::remove_dir_all(found)).await;
        done.map_err(|_| Problem::internal())?.map_err(|e| {
            tracing::error!("the image {name} was not removed: {e}");
            Problem::internal()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL: &str =
        "name: mine\nports: [a]\nhandlers: {n: c.count}\nclick: in_0 -> c::Counter -> out_0;\n";

    #[test]
    fn a_manifest_is_taken_with_its_script_and_refused_with_what_is_wrong() {
        assert_eq!(read("mine", NULL).unwrap().handlers.len(), 1);
        for (name, manifest, why) in [
            ("../mine", NULL.to_owned(), "is no name of an image"),
            (".mine", NULL.to_owned(), "is no name of an image"),
            ("other", NULL.to_owned(), "is of image 'mine', and not of 'other'"),
            ("mine", NULL.replace("c.count", "d.count"), "has no element 'd'"),
            ("mine", NULL.replace("Counter", "Countess"), "Countess"),
            ("mine", "name: mine\nports: [a]\n".to_owned(), ""),
        ] {
            let e = read(name, &manifest).unwrap_err();
            let all = format!("{}{:?}", e.detail, e.errors);
            assert!(all.contains(why), "{all}");
        }
    }

    #[test]
    fn a_manifest_is_written_whole_over_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "mine", "a").unwrap();
        write(dir.path(), "mine", "b").unwrap();
        let files: Vec<_> = std::fs::read_dir(dir.path().join("mine")).unwrap().flatten().collect();
        assert_eq!(files.len(), 1);
        assert_eq!(std::fs::read_to_string(files[0].path()).unwrap(), "b");
    }
}

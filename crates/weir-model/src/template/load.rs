//! Loading a template from a directory, or from anything that gives files by name.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{Origin, Template};
use crate::error::DocErrors;

/// The manifest's file name.
pub const MANIFEST_FILE: &str = "function.yaml";
/// The Click script's file name.
pub const SCRIPT_FILE: &str = "function.click";
/// Largest manifest or script, in bytes.
pub const MAX_FILE: u64 = 1 << 20;

/// A template that could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A file could not be read.
    #[error("cannot read {path}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The manifest has mistakes.
    #[error("{path} has mistakes")]
    Manifest {
        /// Which file.
        path: PathBuf,
        /// The mistakes.
        source: DocErrors,
    },
}

impl Template {
    /// Loads a template from a file or from a directory with [`MANIFEST_FILE`] and, unless the manifest holds it, [`SCRIPT_FILE`].
    ///
    /// Only regular files of at most [`MAX_FILE`] bytes are read: a directory from elsewhere may hold links and devices.
    pub fn load(path: &Path) -> Result<Self, TemplateError> {
        if path.is_dir() {
            let template = Self::load_with(path, |file| read_file(&path.join(file)))?;
            return Ok(Template { origin: Origin { folder: Some(path.into()) }, ..template });
        }
        let text = read_file(path).map_err(|source| TemplateError::Io { path: path.into(), source })?;
        super::read::template(&text, None, Some(path))
            .map_err(|source| TemplateError::Manifest { path: path.into(), source })
    }

    /// Loads a template through `read`, which gives the text of a file by name; a script of [`io::ErrorKind::NotFound`] is absent.
    /// `name` stands for the place in errors.
    pub fn load_with(name: &Path, read: impl Fn(&str) -> io::Result<String>) -> Result<Self, TemplateError> {
        let failed = |file: &str| {
            let path = name.join(file);
            move |source| TemplateError::Io { path, source }
        };
        let manifest = read(MANIFEST_FILE).map_err(failed(MANIFEST_FILE))?;
        let script = match read(SCRIPT_FILE) {
            Ok(script) => Some(script),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(failed(SCRIPT_FILE)(e)),
        };
        let file = if script.is_some() { SCRIPT_FILE } else { MANIFEST_FILE };
        super::read::template(&manifest, script.as_deref(), Some(&name.join(file)))
            .map_err(|source| TemplateError::Manifest { path: name.join(MANIFEST_FILE), source })
    }
}

/// A regular file's text. Not through links: the check is made before opening, since opening a pipe would wait for ever.
fn read_file(path: &Path) -> io::Result<String> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    if !path.symlink_metadata()?.is_file() {
        return Err(invalid("it is not a regular file".into()));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(invalid(format!("it has more than {MAX_FILE} bytes")));
    }
    Ok(text)
}

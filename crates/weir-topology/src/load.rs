//! Loading a topology with the files that it names.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use weir_model::DocErrors;

use super::Topology;

/// Largest file that is read, in bytes: the document, or one that it names.
pub const MAX_FILE: u64 = 32 << 20;

/// A topology that could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The document could not be read.
    #[error("cannot read {path}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The document, or a file that it names, has mistakes.
    #[error("{path} has mistakes")]
    Document {
        /// Which file.
        path: PathBuf,
        /// The mistakes.
        source: DocErrors,
    },
}

impl Topology {
    /// Loads a topology from a file. Files that it names are looked for beside it, and may not lie outside its folder.
    pub fn load(path: &Path) -> Result<Self, TopologyError> {
        let text = read_file(path).map_err(|source| TopologyError::Io { path: path.into(), source })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse_with(&text, &mut |name| {
            if Path::new(name).components().any(|c| !matches!(c, Component::Normal(_) | Component::CurDir)) {
                return Err(invalid("it does not lie in the folder of the topology".into()));
            }
            read_file(&folder.join(name))
        })
        .map_err(|source| TopologyError::Document { path: path.into(), source })
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// A regular file's text; not a pipe, whose opening would wait for ever.
fn read_file(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(invalid("it is not a regular file".into()));
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(invalid(format!("it has more than {MAX_FILE} bytes")));
    }
    Ok(text)
}

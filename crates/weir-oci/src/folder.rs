//! Function images as folders: which files they have, within bounds.

use std::io;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// Most bytes of an image.
pub const MAX_BYTES: u64 = 64 << 20;
/// Most files of an image.
pub const MAX_FILES: usize = 10_000;
/// A note of where an image came from. It is no part of the image.
pub const ORIGIN: &str = ".origin";

/// The regular files of an image, by their paths in its folder, in their order.
///
/// # Errors
/// There are too many, it cannot be read, or something in it is neither file nor folder.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut bytes = 0;
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry?;
        let kind = entry.file_type();
        if kind.is_dir() {
            continue;
        }
        if !kind.is_file() {
            let path = entry.path().display();
            return Err(invalid(format!("{path} is neither a file nor a folder: an image has nothing else")));
        }
        let path = entry.path().strip_prefix(folder).map_err(io::Error::other)?;
        if path == Path::new(ORIGIN) {
            continue;
        }
        bytes += entry.metadata()?.len();
        files.push(path.to_owned());
        within(bytes, files.len())?;
    }
    Ok(files)
}

/// Refuses more bytes or files than an image may have.
pub(crate) fn within(bytes: u64, files: usize) -> io::Result<()> {
    if bytes > MAX_BYTES || files > MAX_FILES {
        return Err(invalid(format!("it has more than {} MB or {MAX_FILES} files", MAX_BYTES >> 20)));
    }
    Ok(())
}

pub(crate) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

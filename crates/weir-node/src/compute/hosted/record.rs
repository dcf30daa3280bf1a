//! What is kept on disk of a function, so that a daemon that comes back knows it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use weir_switch::compile::sockets_folder;
use weir_switch::hash::hash;

use crate::instance::{Instance, InstanceId, Spec};
use crate::process::Process;

/// A function as it was brought to work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What it was made from.
    pub instance: Instance,
    /// Whether all of it was made: what is left half-made is made anew.
    pub whole: bool,
    /// Whether it is to be at work.
    pub started: bool,
    /// Whether it is paused.
    pub paused: bool,
    /// Its main process, if it has one.
    pub process: Option<Process>,
}

/// The names and files of a function.
#[derive(Debug, Clone)]
pub struct Paths {
    /// Its name in the system, unlike those of other nodes on this machine.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The name of the folder of its ports' sockets, if it has such.
    pub sockets: String,
    /// The folder of all images.
    images: PathBuf,
}

impl Paths {
    /// The folder of the copies of images, in the folder of all functions.
    pub const IMAGES: &str = "images";

    /// That of a function, in the folder of all.
    pub fn new(functions: &Path, id: &InstanceId) -> Paths {
        let clean = |text: &str| -> String {
            let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            text.chars().take(40).map(word).collect()
        };
        let whole = hash(&[&functions.display().to_string(), &id.graph, &id.function]);
        let short: String = whole.chars().take(8).collect();
        let name = format!("weir-{}-{}-{short}", clean(&id.graph), clean(&id.function));
        Paths {
            folder: functions.join(&name),
            sockets: sockets_folder(&id.graph, &id.function),
            name,
            images: functions.join(Self::IMAGES),
        }
    }

    /// Its output.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// A file that tells the launcher what to start.
    pub fn job(&self, number: u64) -> PathBuf {
        self.folder.join(format!("job-{}-{number}", std::process::id()))
    }

    /// What it keeps.
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// The node's copy of its image.
    pub fn image(&self, digest: &str) -> PathBuf {
        self.images.join(digest)
    }

    /// Removes copies of images but those with these digests.
    pub fn retain_images(functions: &Path, used: &BTreeSet<String>) {
        let entries = fs::read_dir(functions.join(Self::IMAGES)).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Nobody makes one now: a copy that is not whole was left by a daemon that was killed.
            if !used.contains(&name) {
                _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// The folder of its secrets.
    pub fn secrets(&self) -> PathBuf {
        self.folder.join("secrets")
    }

    /// The file of a secret.
    pub fn secret(&self, name: &str) -> PathBuf {
        self.secrets().join(name)
    }

    /// Where a directory of its own is kept.
    pub fn private(&self, number: usize) -> PathBuf {
        self.folder.join("private").join(number.to_string())
    }

    /// What was written to its handlers beside its document.
    pub fn read_written(&self) -> Vec<(String, String)> {
        let text = fs::read(self.folder.join("written")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Keeps that, wholly or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_written(&self, written: &[(String, String)]) -> io::Result<()> {
        let new = self.folder.join("written.new");
        fs::write(&new, serde_json::to_vec(written)?)?;
        fs::rename(new, self.folder.join("written"))
    }

    /// Its record, if there is a readable one.
    pub fn read(&self) -> Option<Record> {
        read(&self.folder)
    }

    /// Keeps a record, wholly or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        // Values of parameters may be secrets.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let new = self.folder.join("record.new");
        fs::write(&new, serde_json::to_vec(record)?)?;
        fs::rename(new, self.folder.join("record"))
    }
}

impl Record {
    /// The specification.
    pub fn spec(&self) -> &Spec {
        &self.instance.spec
    }
}

/// The record in a folder, if there is a readable one.
pub(super) fn read(folder: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(folder.join("record")).ok()?).ok()
}

/// The folders in the folder of functions that are none of a function.
const OTHERS: [&str; 2] = [Paths::IMAGES, "containers"];

/// What the name of a folder ends with whose function is removed.
pub(super) const REMOVED: &str = "removed";

/// Removes folders of functions that are removed, which a daemon that was killed has left.
pub(super) fn remove_rest(functions: &Path) {
    for folder in folders_with(functions, true).unwrap_or_default() {
        _ = fs::remove_dir_all(folder);
    }
}

/// All folders of functions.
pub(super) fn folders(functions: &Path) -> io::Result<Vec<PathBuf>> {
    folders_with(functions, false)
}

fn folders_with(functions: &Path, removed: bool) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(functions) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let folders: io::Result<Vec<PathBuf>> = entries.map(|e| Ok(e?.path())).collect();
    let folders = folders?.into_iter();
    let folders = folders.filter(|p| p.extension().is_some_and(|e| e == REMOVED) == removed);
    let is_other = |p: &Path| p.file_name().is_none_or(|n| OTHERS.iter().any(|o| n == *o));
    Ok(folders.filter(|p| !is_other(p) && p.is_dir()).collect())
}

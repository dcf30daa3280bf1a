//! What there is of labs, in a folder for each.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::document;
use super::machine::{Process, inside, namespace, ourselves};
use crate::ui::Failure;

/// Where the folders are.
const FOLDER: &str = "/run/weir/labs";
/// The file in each that says what there is.
const FILE: &str = "lab.json";

/// The parts of a lab that exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub name: String,
    /// Its hosts and nodes, each a namespace.
    pub machines: Vec<String>,
    pub nodes: BTreeMap<String, Node>,
    /// What passes the packets of links with a delay, a loss or a rate.
    pub wire: Option<Process>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Node {
    pub process: Process,
    pub node: document::Node,
    /// The folder of the lab's document.
    pub beside: PathBuf,
}

impl State {
    /// A lab of which there is nothing yet.
    ///
    /// # Errors
    /// One of this name is up, or the folder cannot be made.
    pub fn begin(name: &str) -> Result<State, Failure> {
        let state = State { name: name.into(), machines: Vec::new(), nodes: BTreeMap::new(), wire: None };
        let failed = |e: io::Error, what: &Path| match e.kind() {
            io::ErrorKind::PermissionDenied => {
                Failure::refused(format!("cannot make {}: labs are made by root", what.display()))
            }
            io::ErrorKind::AlreadyExists => {
                Failure::refused(format!("the lab {name} is up; weir lab down {name} removes it"))
            }
            _ => Failure::refused(format!("cannot make {}: {e}", what.display())),
        };
        fs::create_dir_all(FOLDER).map_err(|e| failed(e, Path::new(FOLDER)))?;
        fs::create_dir(state.folder()).map_err(|e| failed(e, &state.folder()))?;
        state.keep()?;
        Ok(state)
    }

    fn folder(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.name)
    }

    /// A file of the lab.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder().join(file)
    }

    /// The control socket of a node's data plane.
    pub fn engine(&self, node: &str) -> String {
        self.path(&format!("{node}.engine")).display().to_string()
    }

    /// What starts a node.
    pub fn node_command(&self, name: &str, node: &document::Node, beside: &Path) -> Command {
        let mut command = inside(&namespace(&self.name, name), &ourselves().display().to_string());
        command.args(["node", "--listen", "127.0.0.1:7400", "--socket", &self.engine(name), "--store"]);
        command.arg(self.path(&format!("{name}.db")));
        for images in node.images.iter() {
            command.arg("--images").arg(beside.join(images));
        }
        command.args(&node.options);
        command
    }

    /// Writes what there is.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self) -> Result<(), Failure> {
        let new = self.path("lab.json.new");
        fs::write(&new, serde_json::to_vec_pretty(self).map_err(io::Error::other)?)?;
        Ok(fs::rename(new, self.path(FILE))?)
    }

    /// There is nothing of it any more.
    ///
    /// # Errors
    /// Its folder cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(self.folder())
    }
}

/// All labs, by name.
///
/// # Errors
/// What is kept of one cannot be read.
pub(super) fn labs() -> Result<Vec<State>, Failure> {
    let mut all = Vec::new();
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let file = entry.path().join(FILE);
        let wrong = |what: String| Failure::refused(format!("{}: {what}", file.display()));
        let text = fs::read(&file).map_err(|e| wrong(e.to_string()))?;
        all.push(serde_json::from_slice::<State>(&text).map_err(|e| wrong(e.to_string()))?);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

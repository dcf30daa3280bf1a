//! The state of a graph that is suspended, on disk: a file a graph, beside the store.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weir_protocol::Command;

/// The state of a graph's inline functions. Each has a hash of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    /// What ran.
    pub(super) tag: String,
    /// The functions by their elements.
    pub(super) functions: Vec<(String, String)>,
}

impl Saved {
    /// The commands by which a graph goes on with it: none, if what runs now is another configuration.
    pub(crate) fn commands(&self, graph: &str, tag: &str) -> Vec<Command> {
        let import = |(function, state): &(String, String)| Command::Import {
            graph: graph.to_owned(),
            function: function.clone(),
            state: state.clone(),
        };
        if self.tag == tag { self.functions.iter().map(import).collect() } else { Vec::new() }
    }
}

/// Whether packets wait in a function, by its state.
pub(super) fn has_packets(state: &str) -> bool {
    let body = state.split_once('\n').map_or("", |(_, body)| body);
    let Ok(body) = serde_json::from_str::<serde_json::Value>(body) else { return false };
    let list =
        |v: &serde_json::Value, key: &str| v.get(key).and_then(|v| v.as_array()).cloned().unwrap_or_default();
    let tables = body.pointer("/tables/tables").and_then(|t| t.as_array()).cloned().unwrap_or_default();
    tables.iter().flat_map(|t| list(t, "entries")).any(|e| !list(&e, "held").is_empty())
}

/// The file of a graph. Identifiers are no names of files.
fn file(store: &Path, graph: &str) -> PathBuf {
    let name: String = Sha256::digest(graph).iter().take(16).map(|b| format!("{b:02x}")).collect();
    store.with_extension("suspended").join(name)
}

/// Writes the state of a graph, whole or not at all.
pub(super) fn write(store: &Path, graph: &str, saved: &Saved) -> Result<(), String> {
    let path = file(store, graph);
    let new = path.with_extension("new");
    let written = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut out = File::create(&new)?;
        out.write_all(&serde_json::to_vec(saved)?)?;
        out.sync_all()?;
        fs::rename(&new, &path)
    };
    written().map_err(|e| {
        _ = fs::remove_file(&new);
        format!("the state cannot be written to {}: {e}", path.display())
    })
}

/// The state that a graph was suspended with, if there is one.
pub(super) fn read(store: &Path, graph: &str) -> Result<Option<Saved>, String> {
    let path = file(store, graph);
    let what = |e: String| {
        format!(
            "the state with which it was suspended, {}, {e}; 'weir resume {graph} --anew' starts it without",
            path.display()
        )
    };
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| what(format!("is damaged ({e})"))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(what(format!("cannot be read ({e})"))),
    }
}

/// Forgets the state of a graph.
pub(super) fn remove(store: &Path, graph: &str) {
    let path = file(store, graph);
    if let Err(e) = fs::remove_file(&path)
        && e.kind() != ErrorKind::NotFound
    {
        tracing::warn!("{} stays: {e}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_kept_and_a_damaged_one_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("node.db");
        assert_eq!(read(&store, "a b"), Ok(None));
        let saved = Saved { tag: "t".into(), functions: vec![("f".into(), "weir-state".into())] };
        write(&store, "a b", &saved).unwrap();
        assert_eq!(read(&store, "a b"), Ok(Some(saved.clone())));
        assert_eq!((saved.commands("g", "t").len(), saved.commands("g", "u").len()), (1, 0));
        fs::write(file(&store, "a b"), "{\"tag\":").unwrap();
        let e = read(&store, "a b").unwrap_err();
        assert!(e.contains("is damaged") && e.contains("--anew"), "{e}");
        remove(&store, "a b");
        remove(&store, "a b");
        assert_eq!(read(&store, "a b"), Ok(None));
    }

    #[test]
    fn packets_that_wait_are_seen() {
        let state = |held: &str| {
            format!("weir-state 1\n{{\"tables\":{{\"tables\":[{{\"entries\":[{{\"row\":1{held}}}]}}]}}}}")
        };
        assert!(!has_packets(&state("")) && !has_packets("?"));
        assert!(has_packets(&state(",\"held\":[{\"bytes\":[]}]")));
    }
}

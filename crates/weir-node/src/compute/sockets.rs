//! The sockets at which the data plane meets functions in other processes: a folder for each function, in that of the data plane.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use super::hosted::Paths;

/// The data plane's folder of ports.
#[derive(Debug, Clone)]
pub struct Sockets(pub PathBuf);

impl Sockets {
    /// The folder of a function.
    pub fn of(&self, paths: &Paths) -> PathBuf {
        self.0.join(&paths.sockets)
    }

    /// Makes the folder of a function. Nobody but the function sees it, and nobody but its owner may write to it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn create(&self, paths: &Paths) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        DirBuilder::new().recursive(true).mode(0o755).create(self.of(paths))
    }

    /// Removes it with all sockets. One that is not there is no error.
    pub fn remove(&self, paths: &Paths) {
        match fs::remove_dir_all(self.of(paths)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("the sockets of {} are not removed: {e}", paths.name);
            }
            _ => {}
        }
    }
}

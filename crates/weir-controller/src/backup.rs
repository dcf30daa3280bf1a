//! Backups of a controller: its store and its certificate authority in one file, made while it runs. The file has the authority's key: who has it is the
//! controller to all nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_store::backup;
use weir_tls::{Pin, files};

use crate::run::{ControllerError, etcd, lock};
use crate::several;
use crate::store::{SCHEMA, Store};

/// What the authority is called in a backup.
pub(crate) const AUTHORITY: &str = "authority";

/// The content of a restored backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The authority's pin, which nodes and clients know the controller by.
    pub pin: Pin,
    /// The store that was there before, under its new name.
    pub kept: Option<PathBuf>,
}

/// Writes a backup of a store and its authority, also while a controller runs with it.
///
/// # Errors
/// There is no store or no authority, or the backup cannot be written.
pub fn back_up(store: &Path, to: &Path) -> Result<Pin, ControllerError> {
    if let Some(address) = etcd(store) {
        return several::back_up(address, to);
    }
    let folder = store.with_extension("authority");
    let (pin, text) = files::export(&folder)?.ok_or(ControllerError::NoAuthority(folder))?;
    backup::write(store, to, &BTreeMap::from([(AUTHORITY.to_owned(), text)]))?;
    Ok(pin)
}

/// Puts a backup in the place of a store, which no controller may have at the time.
///
/// # Errors
/// It is no backup of a controller, a controller runs with the store, the authority is another domain's, or files cannot be written.
pub fn restore(from: &Path, store: &Path) -> Result<Restored, ControllerError> {
    if let Some(address) = etcd(store) {
        return several::restore(from, address);
    }
    let _lock = lock(store)?;
    let content = backup::read(from)?;
    let text = content.get(AUTHORITY).ok_or_else(|| ControllerError::NoBackup(from.to_owned()))?;
    let pin = files::pin_of_export(text)?;
    let folder = store.with_extension("authority");
    match files::export(&folder)? {
        Some((own, _)) if own != pin => {
            return Err(ControllerError::Another { folder, own, pin });
        }
        Some(_) => {}
        // Before the store: with an authority of its own it would be a new domain.
        None => files::import(&folder, text)?,
    }
    let kept = backup::restore(from, store, SCHEMA)?;
    // Nobody knows what was done since: what nodes do not have as this store says is left alone.
    Store::open(store)?.doubt(0)?;
    Ok(Restored { pin, kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_makes_the_same_controller_elsewhere_and_no_other_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (store, file) = (path("a/c.db"), path("backup"));
        std::fs::create_dir_all(path("a")).unwrap();
        std::fs::create_dir_all(path("b")).unwrap();
        let open = Store::open(&store).unwrap();
        assert!(matches!(back_up(&store, &file), Err(ControllerError::NoAuthority(_))));
        let authority = files::authority(&path("a/c.authority"), "controller").unwrap();
        assert_eq!(back_up(&store, &file).unwrap(), authority.pin());
        drop(open);
        let there = path("b/c.db");
        let restored = restore(&file, &there).unwrap();
        assert_eq!(restored, Restored { pin: authority.pin(), kept: None });
        assert_eq!(files::authority(&path("b/c.authority"), "new").unwrap().pin(), authority.pin());
        assert!(restore(&file, &there).unwrap().kept.is_some());
        // Another domain's is not replaced.
        let other = files::authority(&path("o.authority"), "other").unwrap();
        let e = restore(&file, &path("o.db")).unwrap_err();
        assert!(matches!(&e, ControllerError::Another { own, .. } if *own == other.pin()), "{e}");
        assert!(!path("o.db").exists());
        let _held = lock(&there).unwrap();
        assert!(matches!(restore(&file, &there), Err(ControllerError::Running(_))));
    }
}

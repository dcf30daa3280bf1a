//! What is done with a store in etcd while no controller leads, and backups of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_auth::secret::Secret;
use weir_rest::login::Login;
use weir_store::etcd::{Do, Etcd, If};
use weir_store::{Database, backup};
use weir_tls::Pin;
use weir_tls::authority::Authority;

use super::log::{AUTHORITY, LEADER, Leader, Leading, LogError, fresh};
use super::term::Term;
use crate::backup::{AUTHORITY as IN_BACKUP, Restored};
use crate::run::ControllerError;
use crate::store::Store;

/// How long what is done without a controller may take.
const ALONE: Duration = Duration::from_secs(60);

/// A new authority.
fn new_authority() -> Result<String, ControllerError> {
    let folder = tempfile::tempdir().map_err(ControllerError::Folder)?;
    weir_tls::files::authority(folder.path(), "weir controller")?;
    Ok(weir_tls::files::export(folder.path())?.map_or_else(String::new, |(_, text)| text))
}

/// The authority in etcd; without one it is made.
pub(super) fn authority(etcd: &Etcd) -> Result<Authority, ControllerError> {
    if etcd.get(AUTHORITY)?.is_none() {
        // Unless another controller was faster.
        etcd.transact(&[If::Created(AUTHORITY, 0)], &[Do::Put(AUTHORITY, &new_authority()?)])?;
    }
    let text = etcd.get(AUTHORITY)?.map_or_else(String::new, |e| e.value);
    Ok(weir_tls::files::authority_of_export(&text)?)
}

/// An operation of the leader's alone, tried at a controller that is none.
struct Alone {
    etcd: Arc<Etcd>,
    lease: i64,
    log: Arc<Leading>,
}

impl Alone {
    fn new(etcd: Arc<Etcd>, address: &str) -> Result<Alone, ControllerError> {
        let started = Instant::now();
        let lease = etcd.grant(ALONE)?;
        let term = Arc::new(Mutex::new(Term::new(Duration::ZERO, ALONE)));
        let me = serde_json::to_string(&Leader { lease, url: None }).unwrap_or_default();
        etcd.transact(&[If::Created(LEADER, 0)], &[Do::PutWith(LEADER, &me, lease)])?;
        match etcd.get(LEADER)? {
            Some(entry) if entry.value == me => {
                let log = Arc::new(Leading::new(etcd.clone(), lease, entry.created, term, started));
                Ok(Alone { etcd, lease, log })
            }
            _ => {
                _ = etcd.revoke(lease);
                Err(ControllerError::Leads(address.to_owned()))
            }
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        _ = self.etcd.revoke(self.lease);
    }
}

/// Writes a copy as a backup.
fn write(db: &Database, authority: String, to: &Path) -> Result<(), ControllerError> {
    let folder = tempfile::tempdir().map_err(ControllerError::Folder)?;
    let file = folder.path().join("controller.db");
    db.write_to(&file)?;
    backup::write(&file, to, &BTreeMap::from([(IN_BACKUP.to_owned(), authority)]))?;
    Ok(())
}

/// Writes a backup of the store in etcd and its authority, whether or not controllers run.
///
/// # Errors
/// There is no domain in etcd, or the backup cannot be written.
pub fn back_up(address: &str, to: &Path) -> Result<Pin, ControllerError> {
    let etcd = Etcd::new(address)?;
    let text = etcd.get(AUTHORITY)?.ok_or_else(|| ControllerError::NoDomain(address.to_owned()))?.value;
    let pin = weir_tls::files::pin_of_export(&text)?;
    let db = copy(&etcd, address)?;
    write(&db, text, to)?;
    Ok(pin)
}

/// A copy, also while the log is made short.
fn copy(etcd: &Etcd, address: &str) -> Result<Arc<Database>, LogError> {
    match fresh(etcd, address) {
        Err(LogError::Behind(_)) => fresh(etcd, address),
        done => done,
    }
}

/// Puts a backup in the place of what is in etcd; no controller may lead at the time.
///
/// # Errors
/// It is no backup, or another domain's, a controller leads, or etcd does not answer.
pub fn restore(from: &Path, address: &str) -> Result<Restored, ControllerError> {
    let etcd = Arc::new(Etcd::new(address)?);
    let folder = tempfile::tempdir().map_err(ControllerError::Folder)?;
    let file = folder.path().join("controller.db");
    let Restored { pin, .. } = crate::backup::restore(from, &file)?;
    let (_, text) = weir_tls::files::export(&file.with_extension("authority"))?
        .ok_or_else(|| ControllerError::NoBackup(from.to_owned()))?;
    let alone = Alone::new(etcd.clone(), address)?;
    // Unless there is one: it stays, and has to be the same.
    etcd.transact(&[If::Created(AUTHORITY, 0)], &[Do::Put(AUTHORITY, &text)])?;
    let own = authority(&etcd)?.pin();
    if own != pin {
        return Err(ControllerError::Another { folder: PathBuf::from(address), own, pin });
    }
    let before = copy(&etcd, address)?;
    let mut kept = None;
    if before.applied() > 0 {
        let free = backup::name_for_kept(from);
        write(&before, text, &free)?;
        kept = Some(free);
    }
    let restored = Store::open(&file)?;
    // Copies that have the changes of before are not the same any more.
    alone.log.replace(restored.database(), Some(before.applied() + 1)).map_err(ControllerError::Ended)?;
    Ok(Restored { pin, kept })
}

/// Makes a new admin token for the controllers of a store in etcd, none of which may lead at the time.
///
/// # Errors
/// A controller leads, etcd does not answer, or there are no random numbers.
pub fn new_admin_token(address: &str) -> Result<Secret, ControllerError> {
    let etcd = Arc::new(Etcd::new(address)?);
    let alone = Alone::new(etcd.clone(), address)?;
    let db = copy(&etcd, address)?;
    db.lead(alone.log.clone())?;
    Ok(Login::off(db)?.new_admin_token()?)
}

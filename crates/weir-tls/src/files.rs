//! Keys and certificates in files. Private keys are for their owner alone (mode 0600).

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::authority::{Authority, Identity};
use crate::{Pin, TlsError};

/// Certificates first, then the key: in one file, so that a crash cannot leave one of an earlier pair with one of a later.
const AUTHORITY: &str = "authority.pem";
const IDENTITY: &str = "node.pem";

/// The authority whose files are in a folder. At the first time both are made.
///
/// # Errors
/// The files cannot be read or written, or are none.
pub fn authority(folder: &Path, name: &str) -> Result<Authority, TlsError> {
    if let Some([certificate, key]) = pair(folder, AUTHORITY)? {
        return Authority::load(&certificate, &key);
    }
    let authority = Authority::new(name, SystemTime::now())?;
    write_pair(folder, AUTHORITY, [authority.certificate(), authority.key()])?;
    Ok(authority)
}

/// The authority whose files are in a folder, if there is one, as text with its private key; and its pin.
///
/// # Errors
/// The files cannot be read, or are none.
pub fn export(folder: &Path) -> Result<Option<(Pin, String)>, TlsError> {
    let Some([certificate, key]) = pair(folder, AUTHORITY)? else { return Ok(None) };
    let text = certificate + &key;
    Ok(Some((pin_of_export(&text)?, text)))
}

/// The pin of an authority that was exported.
///
/// # Errors
/// The text is none.
pub fn pin_of_export(text: &str) -> Result<Pin, TlsError> {
    Ok(authority_of_export(text)?.pin())
}

/// The authority that was exported.
///
/// # Errors
/// The text is none.
pub fn authority_of_export(text: &str) -> Result<Authority, TlsError> {
    let [certificate, key] =
        split(text).ok_or_else(|| TlsError::bad("an authority")("it has no private key".into()))?;
    Authority::load(certificate, key)
}

/// Keeps an authority that was exported in a folder, in place of one that was there.
///
/// # Errors
/// The text is none, or the files cannot be written.
pub fn import(folder: &Path, text: &str) -> Result<(), TlsError> {
    pin_of_export(text)?;
    write_pair(folder, AUTHORITY, [text, ""])
}

/// The identity that a node has in a folder, if it has one.
///
/// # Errors
/// The files cannot be read.
pub fn identity(folder: &Path) -> Result<Option<Identity>, TlsError> {
    Ok(pair(folder, IDENTITY)?.map(|[chain, key]| Identity { chain, key }))
}

/// Keeps a node's identity in a folder, in place of one that it had.
///
/// # Errors
/// The files cannot be written.
pub fn keep(folder: &Path, identity: &Identity) -> Result<(), TlsError> {
    write_pair(folder, IDENTITY, [&identity.chain, &identity.key])
}

/// Removes a node's identity from a folder.
///
/// # Errors
/// The files cannot be removed.
pub fn forget(folder: &Path) -> Result<(), TlsError> {
    let path = folder.join(IDENTITY);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(TlsError::File { path, source: e }),
        _ => Ok(()),
    }
}

fn pair(folder: &Path, name: &str) -> Result<Option<[String; 2]>, TlsError> {
    let path = folder.join(name);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(TlsError::File { path, source }),
    };
    let Some(parts) = split(&text) else {
        let why = format!("{} has no private key", path.display());
        return Err(TlsError::bad("a file of certificates")(why));
    };
    Ok(Some(parts.map(str::to_owned)))
}

/// Certificates and key.
fn split(text: &str) -> Option<[&str; 2]> {
    let (certificates, key) = text.split_at(text.find("-----BEGIN PRIVATE KEY-----")?);
    Some([certificates, key])
}

fn write_pair(folder: &Path, name: &str, texts: [&str; 2]) -> Result<(), TlsError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::File { path, source }
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))?;
    let path: PathBuf = folder.join(name);
    let new = path.with_extension("new");
    let mut file = OpenOptions::new();
    let mut file =
        file.write(true).create(true).truncate(true).mode(0o600).open(&new).map_err(failed(&new))?;
    file.write_all(texts.concat().as_bytes()).and_then(|()| file.sync_all()).map_err(failed(&new))?;
    fs::rename(&new, &path).map_err(failed(&path))?;
    // The name is only there for good when the folder is on the disk.
    fs::File::open(folder).and_then(|f| f.sync_all()).map_err(failed(folder))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::authority::{NodeName, request};

    #[test]
    fn an_authority_is_made_once_and_a_nodes_identity_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("tls");
        let first = authority(&folder, "domain").unwrap();
        assert_eq!(authority(&folder, "another").unwrap().pin(), first.pin());
        let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(AUTHORITY), 0o600);
        assert!(identity(&folder).unwrap().is_none());
        for name in ["n1", "n2"] {
            let (key, asked) = request().unwrap();
            let chain = first
                .node(&asked, &NodeName::new(name).unwrap(), SystemTime::now(), Duration::from_secs(60))
                .unwrap();
            keep(&folder, &Identity { chain: chain.clone(), key }).unwrap();
            assert_eq!(identity(&folder).unwrap().unwrap().chain, chain);
        }
        assert_eq!(mode(IDENTITY), 0o600);
        let (pin, text) = export(&folder).unwrap().unwrap();
        let copy = dir.path().join("copy");
        assert!(export(&copy).unwrap().is_none());
        import(&copy, &text).unwrap();
        assert_eq!((pin, authority(&copy, "another").unwrap().pin()), (first.pin(), first.pin()));
        assert!(import(&copy, "text").is_err());
        forget(&folder).unwrap();
        forget(&folder).unwrap();
        assert!(identity(&folder).unwrap().is_none());
        fs::write(folder.join(AUTHORITY), "text").unwrap();
        assert!(authority(&folder, "domain").unwrap_err().to_string().contains("no private key"));
    }
}

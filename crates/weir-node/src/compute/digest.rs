//! Folders: hashed, and copied.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use walkdir::WalkDir;
use weir_oci::folder::{MAX_BYTES, files};

/// A hash of all in a folder: names, contents, and whether they are executable.
///
/// # Errors
/// It cannot be read, or is no image.
pub fn of_folder(folder: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    for path in files(folder)? {
        let mut file = fs::File::open(folder.join(&path))?;
        let metadata = file.metadata()?;
        let name = path.as_os_str().as_encoded_bytes();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update([u8::from(metadata.permissions().mode() & 0o111 != 0)]);
        let mut bytes = Vec::new();
        file.by_ref().take(MAX_BYTES).read_to_end(&mut bytes)?;
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// Ends the names of copies that are not whole.
pub const PARTIAL: &str = ".partial";

/// Copies a folder. The copy is there wholly or not at all; several may make the same one at a time.
///
/// # Errors
/// It cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    static COPIES: AtomicU64 = AtomicU64::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let partial = to.with_extension(format!("{}-{number}{PARTIAL}", std::process::id()));
    let done = copy_files(from, &partial).and_then(|()| match fs::rename(&partial, to) {
        // Another one was faster: what both copied is the same.
        Err(e) if to.is_dir() => {
            tracing::debug!("{} is there already: {e}", to.display());
            fs::remove_dir_all(&partial)
        }
        renamed => renamed,
    });
    if done.is_err() {
        // A disk that is full would stay so.
        _ = fs::remove_dir_all(&partial);
    }
    done
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for path in files(from)? {
        let target = to.join(&path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(from.join(&path), &target)?;
    }
    Ok(())
}

/// Copies what a root file system has in a directory, `inner` as it sees it, with owners and links, into a new folder. A directory
/// that it does not have, or that a link leads to, is taken for an empty one: links of others may lead anywhere. Says whether it has it.
///
/// # Errors
/// It cannot be read or written.
pub fn copy_tree(root: &Path, inner: &Path, to: &Path) -> io::Result<bool> {
    let mut from = root.to_owned();
    let mut plain = true;
    for part in inner.components().filter(|c| matches!(c, Component::Normal(_))) {
        from.push(part);
        plain = plain && fs::symlink_metadata(&from).is_ok_and(|m| m.is_dir());
    }
    if !plain {
        return fs::create_dir_all(to).map(|()| false);
    }
    let partial = to.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir_all(&partial)?;
    for entry in WalkDir::new(&from) {
        let entry = entry?;
        let inside = entry.path().strip_prefix(&from).map_err(io::Error::other)?;
        let target = partial.join(inside);
        let metadata = entry.metadata()?;
        let kind = entry.file_type();
        if kind.is_dir() {
            fs::create_dir_all(&target)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
        lchown(&target, Some(metadata.uid()), Some(metadata.gid()))?;
        if !kind.is_symlink() {
            fs::set_permissions(&target, metadata.permissions())?;
        }
    }
    fs::rename(&partial, to).map(|()| true)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn many_may_make_one_copy_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("copies/one"));
        fs::create_dir_all(from.join("scripts")).unwrap();
        (0..20).for_each(|i| fs::write(from.join(format!("scripts/{i}")), "#!/bin/sh\n").unwrap());
        let hash = of_folder(&from).unwrap();
        thread::scope(|scope| {
            let copies: Vec<_> = (0..16).map(|_| scope.spawn(|| copy(&from, &to))).collect();
            copies.into_iter().for_each(|done| done.join().unwrap().unwrap());
        });
        assert_eq!(of_folder(&to).unwrap(), hash);
        assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_copy_has_the_hash_of_its_original_and_every_change_another() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir_all(a.join("scripts")).unwrap();
        fs::write(a.join("scripts/start"), "#!/bin/sh\n").unwrap();
        fs::write(a.join("function.yaml"), "name: a\n").unwrap();
        let first = of_folder(&a).unwrap();
        copy(&a, &b).unwrap();
        assert_eq!(of_folder(&b).unwrap(), first);
        fs::set_permissions(a.join("scripts/start"), fs::Permissions::from_mode(0o755)).unwrap();
        let second = of_folder(&a).unwrap();
        assert_ne!(second, first, "it is executable now");
        fs::rename(a.join("scripts/start"), a.join("scripts/stop")).unwrap();
        assert_ne!(of_folder(&a).unwrap(), second);
        std::os::unix::fs::symlink("/etc/passwd", a.join("link")).unwrap();
        assert!(of_folder(&a).unwrap_err().to_string().contains("neither"));
    }
}

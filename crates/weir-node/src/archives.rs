//! Images that are archives: unpacked once for each digest, so that they are folders for all that follows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_model::template::MANIFEST_FILE;
use weir_oci::function::{read_archive, unpack};

/// What the names of archives end with.
const ENDS: [&str; 4] = [".tar", ".tar.gz", ".tgz", ".tar.zst"];

/// The name of an image's file without what says that it is an archive, if it is one.
pub(crate) fn stem(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    ENDS.iter().find_map(|end| name.strip_suffix(end)).filter(|stem| !stem.is_empty())
}

/// What the name of a folder ends with that is not whole yet; before it stands the number of the process.
const PARTIAL: &str = ".partial";

/// A file as it was when it was unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    modified: (i64, i64),
    inode: u64,
    length: u64,
}

/// By file: how it was, and the name of its folder, or what is wrong with it.
type Known = BTreeMap<PathBuf, (Seen, Result<String, String>)>;

/// Unpacked archives.
#[derive(Debug)]
pub struct Archives {
    /// The folder of all of them.
    folder: PathBuf,
    /// Whether others use it too.
    shared: bool,
    known: Mutex<Known>,
}

impl Archives {
    /// Archives that are unpacked in a folder.
    pub fn new(folder: PathBuf) -> Archives {
        Archives { folder, shared: false, known: Mutex::default() }
    }

    /// The same in a folder that others use too, so that nothing in it is removed.
    pub fn shared(folder: PathBuf) -> Archives {
        Archives { shared: true, ..Archives::new(folder) }
    }

    /// The folder of an archive, unpacked.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn unpacked(&self, archive: &Path) -> Result<PathBuf, String> {
        let mut known = self.known();
        let metadata = fs::symlink_metadata(archive).map_err(|e| format!("it cannot be read: {e}"))?;
        let seen = Seen {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            inode: metadata.ino(),
            length: metadata.len(),
        };
        let same = known.get(archive).filter(|(before, _)| *before == seen).map(|(_, name)| name.clone());
        let there = |name: &String| self.folder.join(name).is_dir();
        let name = match same {
            Some(Ok(name)) if there(&name) => Ok(name),
            Some(Err(what)) => Err(what),
            _ => self.unpack(archive).map_err(|e| format!("it cannot be unpacked: {e}")),
        };
        known.insert(archive.to_owned(), (seen, name.clone()));
        let folder = self.folder.join(name?);
        image_in(&folder).ok_or_else(|| {
            format!("it has no {MANIFEST_FILE}, neither by itself nor in a folder that is all that it has")
        })
    }

    fn unpack(&self, archive: &Path) -> std::io::Result<String> {
        let (digest, bytes) = read_archive(archive)?;
        let folder = self.folder.join(digest.hex());
        if folder.is_dir() {
            return Ok(digest.hex().to_owned());
        }
        // Scripts may have secrets in them.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        self.remove_partial();
        let partial = self.folder.join(format!("{}.{}{PARTIAL}", digest.hex(), std::process::id()));
        fs::create_dir(&partial)?;
        // A folder that has its name is whole, also after the power has failed.
        let done =
            unpack(&bytes, &partial).and_then(|()| Ok(nix::unistd::syncfs(fs::File::open(&partial)?)?));
        let done = done.and_then(|()| match fs::rename(&partial, &folder) {
            // Another process was first.
            Err(_) if folder.is_dir() => Ok(()),
            done => done,
        });
        _ = fs::remove_dir_all(&partial);
        done.map(|()| digest.hex().to_owned())
    }

    /// Removes what processes that are gone had begun to unpack, and this one before.
    fn remove_partial(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let process = name.strip_suffix(PARTIAL).and_then(|name| name.rsplit('.').next());
            let works =
                |pid: &str| pid != std::process::id().to_string() && Path::new("/proc").join(pid).exists();
            if process.is_some_and(|pid| !works(pid)) {
                _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Removes what was unpacked of archives that are there no longer.
    pub(crate) fn retain(&self, archives: &BTreeSet<PathBuf>) {
        if self.shared {
            return;
        }
        let mut known = self.known();
        known.retain(|path, _| archives.contains(path));
        let used: BTreeSet<&str> = known.values().filter_map(|(_, name)| name.as_deref().ok()).collect();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !used.contains(name.as_str()) && !name.ends_with(PARTIAL) {
                _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The image in a folder, or in the one folder that it has.
fn image_in(folder: &Path) -> Option<PathBuf> {
    if folder.join(MANIFEST_FILE).exists() {
        return Some(folder.to_owned());
    }
    let mut entries = fs::read_dir(folder).ok()?.flatten();
    let (first, second) = (entries.next()?.path(), entries.next());
    (second.is_none() && first.is_dir() && first.join(MANIFEST_FILE).exists()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::Images;

    /// Files: name, text, whether it can be run.
    type Files<'a> = &'a [(&'a str, &'a str, bool)];

    /// An archive of these files.
    fn archive(path: &Path, files: Files<'_>) {
        let mut tar = tar(files);
        let name = path.to_str().unwrap();
        if name.ends_with("gz") {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut packed, &tar).unwrap();
            tar = packed.finish().unwrap();
        } else if name.ends_with("zst") {
            tar = zstd::encode_all(&tar[..], 1).unwrap();
        }
        fs::write(path, tar).unwrap();
    }

    fn tar(files: Files<'_>) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, text, runs) in files {
            let mut header = tar::Header::new_gnu();
            // As it stands: the library would refuse some names.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(text.len() as u64);
            header.set_mode(if *runs { 0o755 } else { 0o644 });
            if let Some(to) = text.strip_prefix("link to ") {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                header.set_link_name(to).unwrap();
            }
            header.set_cksum();
            tar.append(&header, if header.size().unwrap() == 0 { &[] } else { text.as_bytes() }).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn an_archive_is_an_image_as_its_folder_would_be() {
        let dir = tempfile::tempdir().unwrap();
        let images = dir.path().join("images");
        fs::create_dir(&images).unwrap();
        let manifest = |name: &str| format!("name: {name}\nkind: native\nports: [a]\n");
        for (file, name) in
            [("one.tar", "one"), ("two.tar.gz", "two"), ("three.tgz", "three"), ("four.tar.zst", "four")]
        {
            let manifest = manifest(name);
            let inside = if name == "two" { "folder/" } else { "" };
            let files = [
                (format!("{inside}function.yaml"), manifest.as_str(), false),
                (format!("{inside}scripts/start"), "#!/bin/sh\n", true),
            ];
            let files: Vec<_> = files.iter().map(|(n, t, r)| (n.as_str(), *t, *r)).collect();
            archive(&images.join(file), &files);
        }
        let archives = Archives::new(dir.path().join("unpacked"));
        // Of a process that was killed, and of one that works.
        let partial =
            ["d.4194999.partial".to_owned(), format!("d.{}.partial", std::os::unix::process::parent_id())];
        let partial = partial.map(|name| dir.path().join("unpacked").join(name));
        partial.iter().for_each(|p| fs::create_dir_all(p.join("x")).unwrap());
        let read = || Images::read(std::slice::from_ref(&images), Some(&archives)).tried();
        let found = read();
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        assert_eq!(partial.map(|p| p.exists()), [false, true]);
        assert_eq!(found.templates.keys().collect::<Vec<_>>(), ["four", "one", "three", "two"]);
        let folder = |images: &Images, name: &str| images.templates[name].folder().unwrap().to_owned();
        let first = folder(&found, "one");
        assert_eq!(folder(&read(), "one"), first, "it is unpacked once");
        archive(
            &images.join("one.tar"),
            &[("function.yaml", &manifest("other"), false), ("scripts/run", "#!/bin/sh\n", true)],
        );
        let found = read();
        assert!(found.templates.contains_key("other") && !found.templates.contains_key("one"));
        assert!(!first.exists() && folder(&found, "other").exists());
        let none = Images::read(std::slice::from_ref(&images), None);
        assert!(none.errors[0].errors[0].contains("archive"), "{:?}", none.errors);
    }

    #[test]
    fn an_archive_that_reaches_beyond_itself_is_no_image() {
        let dir = tempfile::tempdir().unwrap();
        let images = dir.path().join("images");
        fs::create_dir(&images).unwrap();
        let manifest = "name: x\nports: [a]\nclick: 'in_0 -> out_0;'\n";
        let cases: [(&str, Files<'_>, &str); 4] = [
            ("a.tar", &[("function.yaml", manifest, false), ("../escaped", "x", false)], "leads out of it"),
            ("b.tar.gz", &[("function.yaml", "link to /etc/passwd", false)], "neither a file nor a folder"),
            ("c.tar", &[("readme", "x", false)], "it has no function.yaml"),
            ("d.tar", &[], "function.yaml"),
        ];
        for (file, files, _) in cases {
            archive(&images.join(file), files);
        }
        fs::write(images.join("e.tar.zst"), b"no archive at all").unwrap();
        let archives = Archives::new(dir.path().join("unpacked"));
        let found = Images::read(std::slice::from_ref(&images), Some(&archives));
        assert!(found.templates.is_empty());
        for (error, (file, _, what)) in found.errors.iter().zip(cases) {
            assert!(error.path.ends_with(file) && error.errors[0].contains(what), "{file}: {error:?}");
        }
        assert_eq!(found.errors[4].name, "e");
        assert!(!dir.path().join("unpacked/escaped").exists() && !dir.path().join("escaped").exists());
    }
}

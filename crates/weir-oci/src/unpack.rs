//! From layers to a root file system.
//!
//! Names and links in layers may lead anywhere: they are followed with the root file system as the root directory, so that what they
//! lead to is in it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, chroot};
use serde::{Deserialize, Serialize};
use tar::EntryType;

/// Most bytes that an image may have unpacked, and most files.
const MAX_BYTES: u64 = 16 << 30;
const MAX_FILES: u64 = 1_000_000;
/// What a name begins with that removes a file of a layer below (image specification, "Whiteouts").
const WHITEOUT: &str = ".wh.";
/// The name that hides all that layers below have in its directory.
const OPAQUE: &str = ".wh..wh..opq";
/// Directories that whoever runs the image mounts over.
const MOUNT_POINTS: [&str; 6] = ["/proc", "/sys", "/dev", "/etc", "/tmp", "/run"];
/// Files that it puts its own over.
const FILES: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/etc/hostname"];

/// Whom a program of the image runs as.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// Unpacks layers, the lowest first, into a folder that is there and empty; gives the user of this name in it.
pub(crate) fn unpack(root: &Path, layers: Vec<File>, user: &str) -> io::Result<User> {
    let (root, user) = (root.to_owned(), user.to_owned());
    let work = move || -> io::Result<User> {
        // The root directory of this thread alone, which ends with it.
        unshare(CloneFlags::CLONE_FS)?;
        chroot(&root)?;
        chdir("/")?;
        let mut budget = Budget { bytes: MAX_BYTES, files: MAX_FILES };
        for layer in layers {
            apply(layer, &mut budget)?;
        }
        for folder in MOUNT_POINTS {
            if !Path::new(folder).is_dir() {
                _ = fs::remove_file(folder);
                fs::create_dir_all(folder)?;
            }
        }
        for file in FILES {
            if !fs::symlink_metadata(file).is_ok_and(|m| m.is_file()) {
                _ = fs::remove_file(file);
                fs::write(file, "")?;
            }
        }
        who(&user)
    };
    let thread = std::thread::Builder::new().name("unpack".into()).spawn(work)?;
    thread.join().map_err(|_| io::Error::other("internal error: unpacking failed"))?
}

/// The bytes and files that may still be unpacked.
struct Budget {
    bytes: u64,
    files: u64,
}

impl Budget {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        let left = (self.bytes.checked_sub(bytes), self.files.checked_sub(1));
        let (Some(bytes), Some(files)) = left else {
            let what = format!("it has more than {} GB or {MAX_FILES} files", MAX_BYTES >> 30);
            return Err(invalid(what));
        };
        (self.bytes, self.files) = (bytes, files);
        Ok(())
    }
}

/// Bytes that may stand between the contents of two files: headers, with long names and attributes.
const BETWEEN: u64 = 1 << 20;

/// A reader that gives no more than it is allowed to: the lengths of headers are those of others.
struct Bounded<R> {
    inner: R,
    allowance: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        let left = self.allowance.get().checked_sub(n as u64);
        self.allowance.set(left.ok_or_else(|| invalid("it has a header that is too long"))?);
        Ok(n)
    }
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Takes off the compression, which the first bytes identify.
pub(crate) fn decompressed<'r>(mut file: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
    let mut magic = Vec::new();
    (&mut file).take(4).read_to_end(&mut magic)?;
    let whole = io::Cursor::new(magic.clone()).chain(file);
    Ok(match &magic[..] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::stream::read::Decoder::new(whole)?),
        _ => Box::new(whole),
    })
}

/// Applies a layer to the root directory.
fn apply(layer: File, budget: &mut Budget) -> io::Result<()> {
    let allowance = Rc::new(Cell::new(BETWEEN));
    let mut archive =
        tar::Archive::new(Bounded { inner: decompressed(layer)?, allowance: allowance.clone() });
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(true);
    archive.set_unpack_xattrs(true);
    archive.set_overwrite(true);
    // What this layer has itself is not hidden by it.
    let mut own = BTreeSet::new();
    let mut entries = archive.entries()?;
    let mut rest = 0;
    loop {
        // What is left of the entry before, and headers with long names.
        allowance.set(rest + BETWEEN);
        let Some(entry) = entries.next() else { break };
        let mut entry = entry?;
        budget.take(entry.size())?;
        rest = entry.size();
        allowance.set(rest + BETWEEN);
        let path = inside(&entry.path()?);
        let Some(name) = path.file_name().map(|n| n.to_string_lossy().into_owned()) else { continue };
        let parent = path.parent().unwrap_or(Path::new("/")).to_owned();
        if name == OPAQUE {
            for below in fs::read_dir(&parent).into_iter().flatten().filter_map(Result::ok) {
                if !own.contains(&below.path()) {
                    remove(&below.path())?;
                }
            }
            continue;
        }
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            if ["", ".", ".."].contains(&hidden) {
                return Err(invalid(format!("{name} hides no file")));
            }
            let hidden = parent.join(hidden);
            if !own.contains(&hidden) {
                remove(&hidden)?;
            }
            continue;
        }
        let kind = entry.header().entry_type();
        // A container has the devices that it is given.
        if matches!(kind, EntryType::Char | EntryType::Block | EntryType::Fifo) {
            continue;
        }
        if let Ok(there) = fs::symlink_metadata(&path)
            && there.is_dir() != (kind == EntryType::Directory)
        {
            remove(&path)?;
        }
        entry.unpack_in("/")?;
        let mut part = path.as_path();
        while own.insert(part.to_owned()) {
            part = part.parent().unwrap_or(Path::new("/"));
        }
    }
    Ok(())
}

/// A name in an archive, from the root directory.
fn inside(name: &Path) -> PathBuf {
    let mut path = PathBuf::from("/");
    for part in name.components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::ParentDir => drop(path.pop()),
            _ => {}
        }
    }
    path
}

fn remove(path: &Path) -> io::Result<()> {
    let done = match fs::symlink_metadata(path) {
        Ok(m) if m.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match done {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The user that a configuration names: `USER`, `UID`, each perhaps with `:GROUP` or `:GID`; nobody named is root.
fn who(text: &str) -> io::Result<User> {
    let (name, group) = match text.split_once(':') {
        Some((name, group)) => (name, Some(group)),
        None => (text, None),
    };
    if name.is_empty() && group.is_none() {
        return Ok(User::default());
    }
    let (users, groups) = (table("/etc/passwd"), table("/etc/group"));
    let number = |text: &str| text.parse::<u32>().ok();
    let row =
        users.iter().find(|r| r[0] == name || number(name).is_some() && r.get(2).is_some_and(|n| n == name));
    let field = |i: usize| row.and_then(|r| r.get(i)).and_then(|t| number(t));
    let uid = if name.is_empty() { Some(0) } else { number(name).or(field(2)) };
    let uid =
        uid.ok_or_else(|| invalid(format!("it runs as user {name:?}, whom its /etc/passwd does not have")))?;
    let gid = match group {
        None => field(3).unwrap_or(0),
        Some(group) => {
            let row = groups.iter().find(|r| r[0] == group);
            let found = number(group).or_else(|| row.and_then(|r| r.get(2)).and_then(|t| number(t)));
            found.ok_or_else(|| {
                invalid(format!("it runs as group {group:?}, which its /etc/group does not have"))
            })?
        }
    };
    let member = |r: &&Vec<String>| {
        let members = r.get(3).map(String::as_str).unwrap_or_default();
        row.is_some_and(|user| members.split(',').any(|m| m == user[0]))
    };
    let groups = if group.is_some() {
        Vec::new()
    } else {
        groups.iter().filter(member).filter_map(|r| number(r.get(2)?)).collect()
    };
    Ok(User { uid, gid, groups })
}

/// The rows of a file such as `/etc/passwd`.
fn table(file: &str) -> Vec<Vec<String>> {
    let mut text = String::new();
    // An image may have none.
    _ = File::open(file).and_then(|f| f.take(1 << 20).read_to_string(&mut text));
    text.lines().map(|l| l.split(':').map(str::to_owned).collect()).collect()
}

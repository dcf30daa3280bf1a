//! What the process gives up before it hears a controller: it has its ports and files open by then.

use std::fs::File;
use std::io;
use std::path::Path;

use caps::CapSet;
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl::set_no_new_privs;
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};

/// The user that nobody is, by the conventions of Debian.
const NOBODY: u32 = 65_534;

/// Goes into a network namespace, for connections.
pub(crate) fn enter(netns: &Path) -> io::Result<()> {
    Ok(setns(File::open(netns)?, CloneFlags::CLONE_NEWNET)?)
}

/// Becomes nobody, if it is root, and gives up all capabilities.
pub(crate) fn give_up() -> io::Result<()> {
    if geteuid().is_root() {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        setgroups(&[])?;
        setresgid(group, group, group)?;
        setresuid(user, user, user)?;
    }
    set_no_new_privs()?;
    for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable, CapSet::Ambient] {
        caps::clear(None, set).map_err(io::Error::other)?;
    }
    Ok(())
}

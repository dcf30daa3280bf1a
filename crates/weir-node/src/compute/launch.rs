//! Starting a program where a function is: in its namespaces, its control group, with its own directories.
//!
//! A program of its own does it, this one with another command, since a process can only change itself: [`Launch::exec`] becomes
//! the program.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::setsid;
use serde::{Deserialize, Serialize};
use weir_io::allow_huge_pages;

use super::cgroup::Cgroup;
use super::{ComputeError, missing};

/// The path of programs of functions.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a program runs, and as what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The file of the mount namespace to begin in, in which the paths here are meant; none: that of whoever starts it.
    pub mounts: Option<PathBuf>,
    /// The file of the network namespace, and with it a mount namespace; none: those of whoever starts it.
    pub netns: Option<PathBuf>,
    /// Name of the control group, if it is not that of whoever starts it.
    pub cgroup: Option<String>,
    /// Directories of its own: where they are kept, and where it sees them.
    pub private: Vec<(PathBuf, PathBuf)>,
    /// The directory that it begins in.
    pub directory: PathBuf,
    /// All of its environment, but for the search path.
    pub environment: Vec<(String, String)>,
    /// Whether it is to be found by a terminal's signals.
    pub terminal: bool,
    /// What leads to the program, before it on the command line.
    pub prefix: Vec<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
}

impl Launch {
    /// Writes it to a file that only its owner may read: values of parameters are nobody else's business, and may be longer than a
    /// command line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
        file.write_all(&serde_json::to_vec(self)?)
    }

    /// Reads it from such a file, which is removed.
    ///
    /// # Errors
    /// There is no such file, or it is none of these.
    pub fn take(file: &Path) -> io::Result<Launch> {
        let launch = serde_json::from_slice(&fs::read(file)?)?;
        fs::remove_file(file)?;
        Ok(launch)
    }

    /// Becomes the program.
    ///
    /// # Errors
    /// What could not be done.
    pub fn exec(&self) -> io::Result<Infallible> {
        let failed = |what: String| move |e: io::Error| io::Error::new(e.kind(), format!("{what}: {e}"));
        if let Some(file) = &self.mounts {
            let enter = || -> io::Result<()> { Ok(setns(File::open(file)?, CloneFlags::CLONE_NEWNS)?) };
            enter().map_err(failed(format!("cannot enter the mount namespace {}", file.display())))?;
        }
        if let Some(name) = &self.cgroup {
            Cgroup::named(name).join().map_err(failed(format!("cannot join the control group {name}")))?;
        }
        if let Some(file) = &self.netns {
            let enter = || -> io::Result<()> {
                setns(File::open(file)?, CloneFlags::CLONE_NEWNET)?;
                Ok(())
            };
            enter().map_err(failed(format!("cannot enter the network namespace {}", file.display())))?;
            self.own_mounts().map_err(failed("cannot mount the function's directories".into()))?;
        }
        if !self.terminal {
            // It leads a process group already, if this fails.
            _ = setsid();
        }
        let line: Vec<&String> = self.prefix.iter().chain(&self.command).collect();
        let (program, arguments) = line
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there is no program to start"))?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.directory).env_clear().env("PATH", PATH);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // The node has none itself.
        allow_huge_pages(true);
        let error = command.exec();
        let what = match interpreter(program).filter(|_| error.kind() == io::ErrorKind::NotFound) {
            Some(interpreter) => {
                format!("cannot start {program}: its first line asks for {interpreter}, which is not there")
            }
            None => format!("cannot start {program}: {error}"),
        };
        Err(io::Error::new(error.kind(), what))
    }

    /// A mount namespace with the directories of its own, and with the system's files about this network namespace.
    fn own_mounts(&self) -> io::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none = None::<&str>;
        // What goes outside goes here too: a copy would keep the network namespaces of functions that are removed.
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)?;
        let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("sysfs"), "/sys", Some("sysfs"), safe, none)?;
        for (kept, seen) in &self.private {
            fs::create_dir_all(kept)?;
            if !seen.is_dir() {
                let what =
                    format!("this node has no directory {} to put the function's own over", seen.display());
                return Err(io::Error::new(io::ErrorKind::NotFound, what));
            }
            mount(Some(kept.as_path()), seen.as_path(), none, MsFlags::MS_BIND, none)?;
        }
        Ok(())
    }
}

/// The interpreter that a script asks for in its first line.
fn interpreter(script: &str) -> Option<String> {
    let mut start = Vec::new();
    File::open(script).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    Some(String::from_utf8_lossy(line).split_whitespace().next()?.to_owned())
}

/// The mount namespace of this process, for others.
pub fn mounts_for_others() -> PathBuf {
    format!("/proc/{}/ns/mnt", std::process::id()).into()
}

/// Whether a program is found on the search path of functions, or a file by its path.
pub fn is_installed(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).exists();
    }
    PATH.split(':').any(|folder| Path::new(folder).join(program).exists())
}

/// Refuses an image whose programs are not there; they are given with their Debian packages.
///
/// # Errors
/// The first that is missing.
pub fn check_installed(image: &str, dependencies: &BTreeMap<String, String>) -> Result<(), ComputeError> {
    let dependencies = dependencies.iter().map(|(program, package)| (program.as_str(), package.as_str()));
    match missing(dependencies) {
        Some(what) => Err(ComputeError::Image { image: image.to_owned(), what }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_started_says_why_by_its_kind() {
        let of = |launch: Launch| launch.exec().unwrap_err();
        let none = of(Launch { terminal: true, ..Launch::default() });
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
        let netns = Some("/no/such/namespace".into());
        let missing = of(Launch { netns, ..Launch::default() });
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().starts_with("cannot enter the network namespace /no/such/namespace: "));
    }
}

//! What a worker gives up before it begins.
//!
//! In this order: it goes into the function's control groups and network namespace; into namespaces of its own for mounts, IPC and the
//! host's name, with a root directory that has nothing but the folder of its ports; it becomes a user of its own that owns nothing, in a user
//! namespace of its own, without any capability; and it asks the kernel to refuse all files (Landlock) and all system calls but those
//! of [`ALLOWED`] (seccomp) from then on. The zygote has made its process namespace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use caps::CapSet;
use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::{set_dumpable, set_no_new_privs};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{
    Gid, Uid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, pivot_root, setgroups, setresgid, setresuid,
    setsid,
};
use weir_protocol::{CONTROL, SpawnRequest};

use crate::calls;

/// Where a worker sees the folder of its ports.
pub(crate) const PORTS: &str = "/ports";
/// Most open files: sockets, memory and signals of its ports, and connections of the node.
const FILES: u64 = 4096;
/// Most bytes of a file: of its log, which nobody bounds while the daemon is away, and of the memory of a port.
const FILE_SIZE: u64 = 64 << 20;
/// Where the new root is put together, in a mount namespace that nobody else sees.
const STAGE: &str = "/tmp";

/// Says what failed.
fn at<E: Into<io::Error>>(what: &str) -> impl FnOnce(E) -> io::Error {
    move |e| {
        let e = e.into();
        io::Error::new(e.kind(), format!("cannot {what}: {e}"))
    }
}

/// Enters it for good; gives the socket on which the node is served.
pub(crate) fn enter(request: &SpawnRequest) -> io::Result<UnixListener> {
    // None but the kernel's: a session of its own, and no terminal.
    _ = setsid();
    output(&request.log)?;
    let control = request.ports.join(CONTROL);
    _ = fs::remove_file(&control);
    let listener = UnixListener::bind(&control).map_err(at("make the control socket"))?;
    fs::set_permissions(&control, fs::Permissions::from_mode(0o600))
        .map_err(at("restrict the control socket"))?;
    for group in &request.cgroups {
        fs::write(group.join("cgroup.procs"), "0").map_err(at("join the control group"))?;
    }
    let network = File::open(&request.netns).map_err(at("open the network namespace"))?;
    setns(network, CloneFlags::CLONE_NEWNET).map_err(at("enter the network namespace"))?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS)
        .map_err(at("make namespaces"))?;
    root(&request.ports).map_err(at("make the root directory"))?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(at("set limits"))?;
    setrlimit(Resource::RLIMIT_NOFILE, FILES, FILES).map_err(at("set limits"))?;
    setrlimit(Resource::RLIMIT_FSIZE, FILE_SIZE, FILE_SIZE).map_err(at("set limits"))?;
    give_up_privileges(request.user)?;
    refuse_files().map_err(|e| io::Error::other(format!("cannot refuse files: {e}")))?;
    calls::restrict().map_err(|e| io::Error::other(format!("cannot refuse system calls: {e}")))?;
    Ok(listener)
}

/// Writes to a log from now on, and reads nothing.
fn output(log: &Path) -> io::Result<()> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(&log)?;
    dup2_stderr(&log)?;
    Ok(())
}

/// A root directory with nothing but the folder of ports, which cannot be written to.
fn root(ports: &Path) -> io::Result<()> {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    // It is opened first: the stage may hide it.
    let ports = File::open(ports)?;
    let source = format!("/proc/self/fd/{}", ports.as_raw_fd());
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), STAGE, Some("tmpfs"), safe, Some("size=16k,nr_inodes=8,mode=755"))?;
    let target = format!("{STAGE}{PORTS}");
    fs::create_dir(&target)?;
    mount(Some(source.as_str()), target.as_str(), none, MsFlags::MS_BIND, none)?;
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | safe;
    mount(none, target.as_str(), none, read_only, none)?;
    mount(
        none,
        STAGE,
        none,
        MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | safe,
        Some("size=16k,nr_inodes=8,mode=755"),
    )?;
    drop(ports);
    chdir(STAGE)?;
    // The old root is put over the new one, and taken away.
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    chdir("/")?;
    Ok(())
}

/// Becomes somebody who owns nothing, in a user namespace where it is nobody.
fn give_up_privileges(user: u32) -> io::Result<()> {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[]).map_err(at("give up groups"))?;
    setresgid(group, group, group).map_err(at("change the group"))?;
    setresuid(user, user, user).map_err(at("change the user"))?;
    unshare(CloneFlags::CLONE_NEWUSER).map_err(at("make a user namespace"))?;
    set_no_new_privs().map_err(at("give up new privileges"))?;
    // Its maker has all capabilities in a new namespace.
    let dropped =
        [CapSet::Ambient, CapSet::Bounding, CapSet::Effective, CapSet::Inheritable, CapSet::Permitted]
            .into_iter()
            .try_for_each(|set| caps::clear(None, set));
    dropped.map_err(|e| io::Error::other(format!("cannot give up capabilities: {e}")))?;
    set_dumpable(false).map_err(at("forbid others to look into its memory"))
}

/// No file is opened any more, no port, and no socket by an abstract name; as far as this kernel can promise it. Sockets that have a
/// path, as those of ports, can be connected to.
fn refuse_files() -> Result<(), landlock::RulesetError> {
    let abi = ABI::V6;
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?;
    ruleset.create()?.restrict_self().map(drop)
}

//! Network namespaces with names, and veth pairs into them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, statfs};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, new_connection};
use sha2::{Digest, Sha256};
use weir_io::Netns;

/// Where namespaces with names are, for `ip netns` too.
const FOLDER: &str = "/run/netns";
/// The first process's mount namespace, and its files. Names are made there if it is open to this program: its own mount
/// namespace may end with it (`ip netns exec` makes one for each program), and the names with it.
const MOUNTS: &str = "/proc/1/ns/mnt";
const ROOT: &str = "/proc/1/root";

/// Whether names are made in the first process's mount namespace.
static IN_FIRST: LazyLock<bool> = LazyLock::new(|| File::open(MOUNTS).is_ok());

/// The file of a namespace, for this process.
pub fn path(name: &str) -> PathBuf {
    let root = if *IN_FIRST { ROOT } else { "/" };
    Path::new(root).join(&FOLDER[1..]).join(name)
}

/// The same for every process.
pub fn path_for_others(name: &str) -> PathBuf {
    let root = if *IN_FIRST { ROOT.to_owned() } else { format!("/proc/{}/root", std::process::id()) };
    Path::new(&root).join(&FOLDER[1..]).join(name)
}

/// Takes this thread to where names are made; gives a name's file as it is there.
fn among_names(name: &str) -> io::Result<PathBuf> {
    if *IN_FIRST {
        unshare(CloneFlags::CLONE_FS)?;
        setns(File::open(MOUNTS)?, CloneFlags::CLONE_NEWNS)?;
    }
    Ok(Path::new(FOLDER).join(name))
}

/// Whether there is a namespace of this name.
pub fn exists(name: &str) -> bool {
    statfs(&path(name)).is_ok_and(|s| s.filesystem_type() == NSFS_MAGIC)
}

/// Makes a namespace with its loopback interface up, and IPv6 off until somebody wants it: interfaces would send by themselves.
///
/// # Errors
/// The system refuses.
pub async fn create(name: &str) -> io::Result<()> {
    let owned = name.to_owned();
    let made = in_thread(move || {
        let file = among_names(&owned)?;
        fs::create_dir_all(FOLDER)?;
        // One may have been left, without a namespace.
        OpenOptions::new().create(true).append(true).open(&file)?;
        unshare(CloneFlags::CLONE_NEWNET)?;
        mount(Some("/proc/thread-self/ns/net"), &file, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
        for conf in ["all", "default"] {
            let switch = format!("/proc/sys/net/ipv6/conf/{conf}/disable_ipv6");
            // A kernel without IPv6 has none.
            if Path::new(&switch).exists() {
                fs::write(&switch, "1")?;
            }
        }
        Ok(())
    });
    made.await?;
    inside(name, async |links| {
        links.set(LinkUnspec::new_with_name("lo").up().build()).execute().await.map_err(io::Error::other)
    })
    .await
}

/// Removes the name; the namespace goes with the last process in it. One that is not there is no error.
///
/// # Errors
/// The system refuses.
pub async fn remove(name: &str) -> io::Result<()> {
    let name = name.to_owned();
    in_thread(move || {
        let file = among_names(&name)?;
        while exists(&name) {
            umount2(&file, MntFlags::MNT_DETACH)?;
        }
        match fs::remove_file(&file) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    })
    .await
}

/// Makes a veth pair: `outside` here, up; `inside` in a namespace, down, with an Ethernet address that is always the same for the
/// same `outside`, so that neighbours still know a function that was made anew.
///
/// # Errors
/// The system refuses, or a name is taken.
pub async fn add_port(name: &str, inside_name: &str, outside: &str) -> io::Result<()> {
    let namespace = File::open(path(name))?;
    let fd = namespace.as_raw_fd();
    // A name that nothing here can have, on the way.
    let temporary = format!("{outside}i");
    with_links(async |links| {
        links.add(LinkVeth::new(outside, &temporary).build()).execute().await.map_err(told)?;
        let addressed = LinkUnspec::new_with_name(&temporary).address(address(outside)).build();
        links.set(addressed).execute().await.map_err(told)?;
        let moved = LinkUnspec::new_with_name(&temporary).setns_by_fd(fd).build();
        links.set(moved).execute().await.map_err(told)?;
        links.set(LinkUnspec::new_with_name(outside).up().build()).execute().await.map_err(told)
    })
    .await?;
    drop(namespace);
    let inside_name = inside_name.to_owned();
    inside(name, async move |links| {
        let index = nix::net::if_::if_nametoindex(temporary.as_str())?;
        let renamed = LinkUnspec::new_with_index(index).name(inside_name).build();
        links.set(renamed).execute().await.map_err(told)
    })
    .await
}

/// A local Ethernet address made of a name.
fn address(name: &str) -> Vec<u8> {
    let hash = Sha256::digest(name);
    std::iter::once(2).chain(hash.iter().copied().take(5)).collect()
}

/// Removes an interface of this namespace, and with it the other end. One that is not there is no error.
///
/// # Errors
/// The system refuses.
pub async fn remove_port(outside: &str) -> io::Result<()> {
    let Ok(index) = nix::net::if_::if_nametoindex(outside) else { return Ok(()) };
    with_links(async |links| links.del(index).execute().await.map_err(told)).await
}

/// Whether there is an interface here.
pub fn has_port(outside: &str) -> bool {
    nix::net::if_::if_nametoindex(outside).is_ok()
}

/// Brings an interface of this namespace up or down.
///
/// # Errors
/// The system refuses.
pub async fn set_up(outside: &str, up: bool) -> io::Result<()> {
    let link = LinkUnspec::new_with_name(outside);
    let link = if up { link.up() } else { link.down() };
    with_links(async |links| links.set(link.build()).execute().await.map_err(told)).await
}

fn told(e: rtnetlink::Error) -> io::Error {
    match e {
        rtnetlink::Error::NetlinkError(e) => e.to_io(),
        e => io::Error::other(e),
    }
}

async fn with_links<T>(f: impl AsyncFnOnce(rtnetlink::LinkHandle) -> io::Result<T>) -> io::Result<T> {
    let (connection, handle, _): (_, Handle, _) = new_connection()?;
    let task = tokio::spawn(connection);
    let result = f(handle.link()).await;
    task.abort();
    result
}

/// Does something in a namespace.
async fn inside<T: Send + 'static>(
    name: &str,
    f: impl AsyncFnOnce(rtnetlink::LinkHandle) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let namespace = Netns::Path(path(name));
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(with_links(f))
    };
    let done = tokio::task::spawn_blocking(move || namespace.run(work).map_err(io::Error::other));
    done.await.map_err(io::Error::other)??
}

/// Runs something on a thread that ends with it: what namespaces it enters ends too.
async fn in_thread<T: Send + 'static>(f: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("namespace".into()).spawn(move || sender.send(f()).is_ok())?;
    receiver.await.map_err(io::Error::other)?
}

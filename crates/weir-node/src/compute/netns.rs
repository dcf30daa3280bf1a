//! Network namespaces with names, and veth pairs into them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, statfs};
use rtnetlink::packet_route::address::AddressAttribute;
use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::{Handle, LinkUnspec, LinkVeth, RouteMessageBuilder, new_connection};
use sha2::{Digest, Sha256};
use tokio_stream::StreamExt;
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
    inside(name, async |handle| {
        let up = LinkUnspec::new_with_name("lo").up().build();
        handle.link().set(up).execute().await.map_err(refused)
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
    // It is made where it belongs: to move it there would take the kernel some 50 ms, and only one is moved at a time.
    let inside = LinkUnspec::new_with_name(inside_name).address(address(outside));
    let inside = InfoData::Veth(InfoVeth::Peer(inside.setns_by_fd(namespace.as_raw_fd()).build()));
    let pair = LinkVeth::new(outside, inside_name).set_info_data(inside).up().build();
    with_handle(async |handle| handle.link().add(pair).execute().await.map_err(refused)).await
}

/// Makes a TAP interface here, up, which a program is to have the other end of.
///
/// # Errors
/// The system refuses.
pub async fn add_tap(outside: &str) -> io::Result<()> {
    weir_io::tap::make(outside)?;
    set_up(outside, true).await
}

/// A local Ethernet address made of a name.
pub fn address(name: &str) -> Vec<u8> {
    let hash = Sha256::digest(name);
    std::iter::once(2).chain(hash.iter().copied().take(5)).collect()
}

/// The addresses and routes of a namespace's interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// Their addresses, each with its prefix length, by interface.
    pub addresses: Vec<(String, Vec<(IpAddr, u8)>)>,
    /// Prefixes, and the next router to them.
    pub routes: Vec<((IpAddr, u8), IpAddr)>,
}

/// Takes from the interfaces of a namespace the addresses and routes of `before` that are none of `after`, and gives them those of
/// `after`; its interfaces are up then. What else they have stays.
///
/// # Errors
/// The system refuses, or there is no such interface.
pub async fn configure(name: &str, before: Network, after: Network) -> io::Result<()> {
    inside(name, async move |handle| {
        for ((prefix, length), gateway) in before.routes.iter().filter(|r| !after.routes.contains(r)) {
            let route = route((*prefix, *length), *gateway)?;
            // It may have gone with its interface or its address.
            _ = handle.route().del(route).execute().await;
        }
        for (interface, addresses) in &after.addresses {
            if addresses.iter().any(|(a, _)| a.is_ipv6()) {
                // It was off; and nobody else has the address: no need to ask.
                for (of, switch, value) in [
                    (&"all".to_owned(), "disable_ipv6", "0"),
                    (interface, "disable_ipv6", "0"),
                    (interface, "accept_dad", "0"),
                ] {
                    fs::write(format!("/proc/sys/net/ipv6/conf/{of}/{switch}"), value)?;
                }
            }
            let index = nix::net::if_::if_nametoindex(interface.as_str())?;
            let known = before.addresses.iter().find(|(i, _)| i == interface);
            let gone = |a: &IpAddr| {
                known.is_some_and(|(_, k)| k.iter().any(|(k, _)| k == a))
                    && !addresses.iter().any(|(n, _)| n == a)
            };
            let mut there = handle.address().get().set_link_index_filter(index).execute();
            while let Some(address) = there.next().await {
                let address = address.map_err(refused)?;
                let own = address.attributes.iter().find_map(|a| match a {
                    AddressAttribute::Address(a) => Some(*a),
                    _ => None,
                });
                if own.as_ref().is_some_and(gone) {
                    handle.address().del(address).execute().await.map_err(refused)?;
                }
            }
            let up = LinkUnspec::new_with_index(index).up().build();
            handle.link().set(up).execute().await.map_err(refused)?;
            for (address, length) in addresses {
                let add = handle.address().add(index, *address, *length);
                add.replace().execute().await.map_err(refused)?;
            }
        }
        for ((prefix, length), gateway) in &after.routes {
            let route = route((*prefix, *length), *gateway)?;
            handle.route().add(route).replace().execute().await.map_err(|e| {
                io::Error::other(format!("the route to {prefix}/{length} by {gateway}: {}", refused(e)))
            })?;
        }
        Ok(())
    })
    .await
}

fn route((prefix, length): (IpAddr, u8), gateway: IpAddr) -> io::Result<RouteMessage> {
    let route = RouteMessageBuilder::<IpAddr>::new().destination_prefix(prefix, length);
    Ok(route.and_then(|r| r.gateway(gateway)).map_err(io::Error::other)?.build())
}

/// Removes an interface of this namespace, and with it the other end. One that is not there is no error.
///
/// # Errors
/// The system refuses.
pub async fn remove_port(outside: &str) -> io::Result<()> {
    let Ok(index) = nix::net::if_::if_nametoindex(outside) else { return Ok(()) };
    with_handle(async |handle| handle.link().del(index).execute().await.map_err(refused)).await
}

/// The first of these interfaces that a namespace does not have: what is in it may have renamed or moved it.
///
/// # Errors
/// The namespace cannot be entered.
pub async fn missing(name: &str, interfaces: Vec<String>) -> io::Result<Option<String>> {
    inside(name, async move |_| Ok(interfaces.into_iter().find(|interface| !has_port(interface)))).await
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
    with_handle(async |handle| handle.link().set(link.build()).execute().await.map_err(refused)).await
}

fn refused(e: rtnetlink::Error) -> io::Error {
    match e {
        rtnetlink::Error::NetlinkError(e) => e.to_io(),
        e => io::Error::other(e),
    }
}

async fn with_handle<T>(f: impl AsyncFnOnce(Handle) -> io::Result<T>) -> io::Result<T> {
    let (connection, handle, _): (_, Handle, _) = new_connection()?;
    let task = tokio::spawn(connection);
    let result = f(handle).await;
    task.abort();
    result
}

/// Does something in a namespace.
async fn inside<T: Send + 'static>(
    name: &str,
    f: impl AsyncFnOnce(Handle) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let namespace = Netns::Path(path(name));
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(with_handle(f))
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

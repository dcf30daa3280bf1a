//! Where the control socket of a port is: how that is written, and how it is listened and connected there.

use std::ffi::OsString;
use std::fmt;
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

/// Longest path or name of a socket: `sockaddr_un` has 108 bytes, with a zero in front or behind.
const LONGEST: usize = 107;

/// Where a control socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketAddress {
    /// A path of the file system.
    Path(PathBuf),
    /// An abstract name (unix(7)).
    Abstract(String),
    /// A path in the folder that the process has for ports. Whoever sees the socket may connect to who listens there: who may is a
    /// matter of who sees the folder.
    InFolder(PathBuf),
}

impl SocketAddress {
    /// The path of what is in a folder; `None` for others.
    pub fn below(&self, folder: &Path) -> Option<SocketAddress> {
        match self {
            SocketAddress::InFolder(path) => Some(SocketAddress::Path(folder.join(path))),
            SocketAddress::Path(_) | SocketAddress::Abstract(_) => None,
        }
    }
}

/// The reason why a name of a port is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}`: {what}; write {example}")]
pub struct BadName {
    name: String,
    what: String,
    example: &'static str,
}

impl FromStr for SocketAddress {
    type Err = String;

    /// Reads an absolute path, one in the process's folder of ports, or `@` and an abstract name.
    fn from_str(text: &str) -> Result<SocketAddress, String> {
        match text.strip_prefix('@') {
            Some(name) if (1..=LONGEST).contains(&name.len()) && !name.contains('\0') => {
                Ok(SocketAddress::Abstract(name.to_owned()))
            }
            None if text.starts_with('/') && text.len() <= LONGEST => {
                Ok(SocketAddress::Path(PathBuf::from(text)))
            }
            None if stays_below(Path::new(text)) => Ok(SocketAddress::InFolder(PathBuf::from(text))),
            _ => Err(format!(
                "a socket has a path of at most {LONGEST} bytes (without .., if it does not begin with /), or @ and a name"
            )),
        }
    }
}

/// Whether a path that is meant to begin in a folder leads to something in it.
fn stays_below(path: &Path) -> bool {
    let length = path.as_os_str().len();
    (1..=LONGEST).contains(&length) && path.components().all(|c| matches!(c, Component::Normal(_)))
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketAddress::Path(path) | SocketAddress::InFolder(path) => write!(f, "{}", path.display()),
            SocketAddress::Abstract(name) => write!(f, "@{name}"),
        }
    }
}

/// Reads the name of a port: the prefix and where its socket is; then, if there is something to say, `?` and pairs `key=value`
/// with `&` between them. Makes options of the address, and gives each pair to `set`.
///
/// # Errors
/// What is wrong, with the example.
pub fn pairs<T>(
    name: &str,
    (prefix, example): (&str, &'static str),
    new: impl FnOnce(SocketAddress) -> T,
    set: impl Fn(&mut T, &str, &str) -> Result<(), String>,
) -> Result<T, BadName> {
    let bad = |what: String| BadName { name: name.to_owned(), what, example };
    let rest = name.strip_prefix(prefix).ok_or_else(|| bad(format!("it begins with {prefix}")))?;
    let (at, more) = rest.split_once('?').map_or((rest, None), |(at, more)| (at, Some(more)));
    let mut options = new(at.parse().map_err(bad)?);
    for pair in more.into_iter().flat_map(|more| more.split('&')) {
        let (key, value) = pair.split_once('=').ok_or_else(|| bad(format!("`{pair}` is not key=value")))?;
        set(&mut options, key, value).map_err(bad)?;
    }
    Ok(options)
}

fn address(at: &SocketAddress) -> io::Result<SockAddr> {
    match at {
        SocketAddress::Path(path) => SockAddr::unix(path),
        SocketAddress::InFolder(_) => Err(io::Error::other("no folder of ports is known")),
        SocketAddress::Abstract(name) => {
            SockAddr::unix(OsString::from_vec([b"\0", name.as_bytes()].concat()))
        }
    }
}

fn socket(kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, kind, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Listens, without ever waiting; `is_open`: everybody who sees the path may connect. A path that is left from a process that is
/// gone is taken over.
///
/// # Errors
/// If someone listens there, or the kernel refuses it.
pub fn listen(at: &SocketAddress, kind: Type, is_open: bool) -> io::Result<Socket> {
    let (address, listener) = (address(at)?, socket(kind)?);
    if let SocketAddress::Path(path) = at
        && is_left_over(path, kind)
    {
        std::fs::remove_file(path)?;
    }
    listener.bind(&address)?;
    if is_open && let SocketAddress::Path(path) = at {
        std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
    }
    listener.listen(4)?;
    Ok(listener)
}

/// How often who listens, and has no peer, looks whether its path is still there.
pub const LOOK: Duration = Duration::from_millis(500);

/// Whether a path on which somebody listens was removed, so that nobody finds it: it can be made again.
pub fn is_gone(at: &SocketAddress) -> bool {
    match at {
        SocketAddress::Path(path) => {
            std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
                && path.parent().is_some_and(Path::is_dir)
        }
        SocketAddress::Abstract(_) | SocketAddress::InFolder(_) => false,
    }
}

/// Whether a path is that of a socket on which nobody listens.
fn is_left_over(path: &Path, kind: Type) -> bool {
    // Connecting to any other file is refused, too.
    if !std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
        return false;
    }
    let Ok(address) = SockAddr::unix(path) else { return false };
    socket(kind)
        .is_ok_and(|s| s.connect(&address).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused))
}

/// Connects to who listens there.
///
/// # Errors
/// If nobody does, or has no room for one more.
pub fn connect(at: &SocketAddress, kind: Type) -> io::Result<Socket> {
    let socket = socket(kind)?;
    socket.connect(&address(at)?)?;
    Ok(socket)
}

/// A connection of somebody who has connected.
///
/// # Errors
/// `WouldBlock` if nobody has.
pub fn accept(listener: &Socket) -> io::Result<Socket> {
    let (socket, _) = listener.accept()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

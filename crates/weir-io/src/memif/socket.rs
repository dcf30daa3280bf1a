//! The control socket: a connection of whole messages (`SOCK_SEQPACKET`), each perhaps with one descriptor. Nothing here
//! waits.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

use super::message::LEN;
use super::options::Place;
use crate::af_packet::sys::check;

/// Room for one descriptor beside a message.
const CONTROL: usize = {
    // SAFETY: this only computes.
    unsafe { libc::CMSG_SPACE(size_of::<i32>() as u32) as usize }
};

/// The control data of a message, aligned as it has to be.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// What came.
pub enum Received {
    /// Bytes, which may be no message, and a descriptor.
    Message(Vec<u8>, Option<OwnedFd>),
    /// More descriptors than belong to any message.
    Surplus,
    /// The other side has closed the connection.
    End,
}

fn address(place: &Place) -> io::Result<SockAddr> {
    match place {
        Place::Path(path) => SockAddr::unix(path),
        Place::InFolder(_) => Err(io::Error::other("no folder of ports is known")),
        Place::Abstract(name) => SockAddr::unix(OsString::from_vec([b"\0", name.as_bytes()].concat())),
    }
}

fn socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::from(libc::SOCK_SEQPACKET), None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Listens; `is_open`: everybody who sees the path may connect. A path that is left from a process that is gone is taken over.
pub fn listen(place: &Place, is_open: bool) -> io::Result<Socket> {
    let (address, listener) = (address(place)?, socket()?);
    if let Place::Path(path) = place
        && is_left_over(path)
    {
        std::fs::remove_file(path)?;
    }
    listener.bind(&address)?;
    if is_open && let Place::Path(path) = place {
        std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
    }
    listener.listen(4)?;
    Ok(listener)
}

/// Whether a path is that of a socket on which nobody listens.
fn is_left_over(path: &Path) -> bool {
    // Connecting to any other file is refused, too.
    if !std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
        return false;
    }
    let Ok(address) = SockAddr::unix(path) else { return false };
    socket().is_ok_and(|s| s.connect(&address).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused))
}

/// Connects to who listens there.
pub fn connect(place: &Place) -> io::Result<Socket> {
    let socket = socket()?;
    socket.connect(&address(place)?)?;
    Ok(socket)
}

/// A connection of somebody who has connected.
pub fn accept(listener: &Socket) -> io::Result<Socket> {
    let (socket, _) = listener.accept()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sends a message, perhaps with a descriptor.
pub fn send(socket: &Socket, bytes: &[u8; LEN], fd: Option<&OwnedFd>) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: LEN };
    let mut control = Control([0; CONTROL]);
    // SAFETY: all fields are integers or pointers, for which null is valid here.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if let Some(fd) = fd {
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = CONTROL;
        // SAFETY: the control data has room for a header and one descriptor, and is aligned for both.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
            libc::CMSG_DATA(first).cast::<i32>().write_unaligned(fd.as_raw_fd());
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header points to one live buffer and to the control data, which are only read.
    let n = check(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) })?;
    if n == LEN { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives a message and its descriptor.
pub fn receive(socket: &Socket) -> io::Result<Received> {
    // One byte more, to tell what is too long.
    let mut bytes = [0; LEN + 1];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL]);
    // SAFETY: all fields are integers or pointers, for which null is valid here.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = CONTROL;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points to one live buffer and to the control data, with their lengths.
    let n = check(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) })?;
    let mut fds = Vec::new();
    // SAFETY: the kernel has written the control data, which has room for one header; the descriptors that it has put behind
    // that are new and ours. By its alignment, there may be room for more than one.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        if !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
        {
            let bytes = (*first).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            let start = libc::CMSG_DATA(first).cast::<i32>();
            for i in 0..bytes / size_of::<i32>() {
                fds.push(OwnedFd::from_raw_fd(start.add(i).read_unaligned()));
            }
        }
    }
    if header.msg_flags & libc::MSG_CTRUNC != 0 || fds.len() > 1 {
        return Ok(Received::Surplus);
    }
    let fd = fds.pop();
    // A message without bytes is no message; the kernel does not tell it from the end.
    Ok(if n == 0 { Received::End } else { Received::Message(bytes[..n].to_vec(), fd) })
}

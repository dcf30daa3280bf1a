//! The control socket: a connection of whole messages (`SOCK_SEQPACKET`), each perhaps with one descriptor. Nothing here
//! waits.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use socket2::{Socket, Type};

use super::message::LEN;
use crate::af_packet::sys::check;

/// Of whole messages.
pub const KIND: Type = Type::SEQPACKET;

/// Room for one descriptor beside a message.
const CONTROL: usize = {
    // SAFETY: this only computes.
    unsafe { libc::CMSG_SPACE(size_of::<i32>() as u32) as usize }
};

/// The control data of a message, aligned as it has to be.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// A received message, or the lack of one.
pub enum Received {
    /// Bytes, which may be no message, and a descriptor.
    Message(Vec<u8>, Option<OwnedFd>),
    /// More descriptors than belong to any message.
    Surplus,
    /// The other side has closed the connection.
    End,
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
    // One byte more, to notice what is too long.
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
    // A message without bytes is no message; the kernel does not distinguish it from the end.
    Ok(if n == 0 { Received::End } else { Received::Message(bytes[..n].to_vec(), fd) })
}

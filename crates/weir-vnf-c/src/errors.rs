//! Errors with names: negative numbers, the operating system's as minus `errno`.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

use weir_vnf::Error;

/// Why a call or a connection failed. Beside these there is minus errno: what the operating system refused.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VnfError {
    /// No error.
    VNF_OK = 0,
    /// An argument is NULL where that is not allowed, no text in UTF-8, or out of its range.
    VNF_ARGUMENT = -10001,
    /// The address is neither IPv4 nor IPv6, as numbers.
    VNF_ADDRESS = -10002,
    /// The call belongs into a callback.
    VNF_NO_CALLBACK = -10003,
    /// The call belongs before startEventLoop.
    VNF_STARTED = -10004,
    /// There is no such connection on this core: it was closed, is of another core, or never was.
    VNF_CONNECTION = -10005,
    /// The function does not hold this buffer: it was sent, its callback is over, or it never was one.
    VNF_BUFFER = -10006,
    /// The buffer was not kept by setPktDNE, or was given back already.
    VNF_NOT_KEPT = -10007,
    /// More bytes than a buffer holds, or of a request object more than 1 MiB.
    VNF_SIZE = -10008,
    /// This is no request object of this core: it was freed, or never was one.
    VNF_REQUEST = -10009,
    /// The request object is linked to the connection already.
    VNF_LINKED = -10010,
    /// No request object is linked to the connection.
    VNF_NO_REQUEST = -10011,
    /// There is no type of request object with this number: initReqPool says which there are.
    VNF_REQUEST_TYPE = -10012,
    /// More than 4 MiB wait to be sent on the connection: its peer does not read as fast as is sent. UDP: the kernel takes no datagram now.
    VNF_QUEUE_FULL = -10013,
    /// The core has as many connections as it can name.
    VNF_TOO_MANY = -10014,
    /// The peer will send nothing more.
    VNF_PEER_CLOSED = -10015,
    /// A callback held up its core for too long (startEventLoop says how long).
    VNF_BLOCKED = -10016,
    /// A buffer was kept by setPktDNE, and the request object (or connection) that it belonged to is gone: it is taken back.
    VNF_LEAKED = -10017,
    /// There is no such key.
    VNF_NO_KEY = -10018,
    /// An orchestrator cannot be reached, or its answer not understood; it is asked again.
    VNF_ORCHESTRATOR = -10019,
    /// A datagram of more than VNF_BUFFER_SIZE bytes came, and is thrown away; the connection goes on.
    VNF_TOO_LONG = -10020,
    /// There is no REMOTE state: startEventLoop says what names Redis.
    VNF_NO_REMOTE = -10021,
    /// Redis did not answer in time; whether a change was or will be made is not known.
    VNF_REMOTE_TIMEOUT = -10022,
    /// The connection with Redis was lost; whether a change was made is not known.
    VNF_REMOTE_LOST = -10023,
    /// Redis refused.
    VNF_REMOTE_REFUSED = -10024,
    /// The key has another value than compareAndSetData expected.
    VNF_DIFFERS = -10025,
}

use VnfError::*;

/// The return value of a function of the interface.
pub(crate) type Outcome<T = ()> = Result<T, c_int>;

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

impl From<VnfError> for c_int {
    fn from(error: VnfError) -> Self {
        error as c_int
    }
}

/// The number of an error of the Rust library.
pub(crate) fn number(error: &Error) -> c_int {
    match error {
        Error::UnknownConnection => VNF_CONNECTION.into(),
        Error::UnknownRequest => VNF_REQUEST.into(),
        Error::Linked => VNF_LINKED.into(),
        Error::NotLinked => VNF_NO_REQUEST.into(),
        Error::SendQueueFull => VNF_QUEUE_FULL.into(),
        Error::TooManyConnections => VNF_TOO_MANY.into(),
        Error::PeerClosed => VNF_PEER_CLOSED.into(),
        Error::TooLong => VNF_TOO_LONG.into(),
        Error::NoRemote => VNF_NO_REMOTE.into(),
        Error::RemoteTimeout(_) => VNF_REMOTE_TIMEOUT.into(),
        Error::RemoteLost => VNF_REMOTE_LOST.into(),
        Error::RemoteRefused(_) => VNF_REMOTE_REFUSED.into(),
        Error::Stack(_) => VNF_ARGUMENT.into(),
        Error::Io { source, .. } => -source.raw_os_error().unwrap_or(nix::libc::EIO),
    }
}

/// What C code gets, which asks for the error by [`vnfLastError`] where there is a pointer in its place.
pub(crate) fn report<T>(outcome: Outcome<T>, failed: impl FnOnce(c_int) -> T) -> T {
    LAST.set(outcome.as_ref().err().copied().unwrap_or(0));
    outcome.unwrap_or_else(failed)
}

/// [`report`] for functions that return 0 or an error.
pub(crate) fn status(outcome: Outcome) -> c_int {
    report(outcome.map(|()| 0), |error| error)
}

/// The error of the last call on this thread; 0 if it succeeded.
#[unsafe(no_mangle)]
pub extern "C" fn vnfLastError() -> c_int {
    LAST.get()
}

/// The name and meaning of an error of this library, or strerror's text for minus errno; never freed.
#[unsafe(no_mangle)]
pub extern "C" fn vnfErrorText(error: c_int) -> *const c_char {
    match TEXTS.iter().find(|(code, _)| *code as c_int == error) {
        Some((_, text)) => text.as_ptr(),
        // SAFETY: `strerror` takes any number; what it returns is only read, and replaced by its next call for a number without a text.
        None => unsafe { nix::libc::strerror(error.saturating_neg()) },
    }
}

const TEXTS: &[(VnfError, &CStr)] = &[
    (VNF_OK, c"VNF_OK: no error"),
    (VNF_ARGUMENT, c"VNF_ARGUMENT: an argument is NULL, no UTF-8, or out of its range"),
    (VNF_ADDRESS, c"VNF_ADDRESS: neither an IPv4 nor an IPv6 address"),
    (VNF_NO_CALLBACK, c"VNF_NO_CALLBACK: this call belongs into a callback"),
    (VNF_STARTED, c"VNF_STARTED: this call belongs before startEventLoop"),
    (
        VNF_CONNECTION,
        c"VNF_CONNECTION: no such connection on this core: closed, of another core, or never there",
    ),
    (VNF_BUFFER, c"VNF_BUFFER: not a buffer that the function holds: sent, its callback over, or never one"),
    (VNF_NOT_KEPT, c"VNF_NOT_KEPT: the buffer was not kept by setPktDNE, or was given back already"),
    (VNF_SIZE, c"VNF_SIZE: more bytes than fit"),
    (VNF_REQUEST, c"VNF_REQUEST: no request object of this core: freed, or never one"),
    (VNF_LINKED, c"VNF_LINKED: the request object is linked to the connection already"),
    (VNF_NO_REQUEST, c"VNF_NO_REQUEST: no request object is linked to the connection"),
    (VNF_REQUEST_TYPE, c"VNF_REQUEST_TYPE: no type of request object with this number: see initReqPool"),
    (
        VNF_QUEUE_FULL,
        c"VNF_QUEUE_FULL: more than 4 MiB wait to be sent on the connection, or no datagram can be sent now",
    ),
    (VNF_TOO_MANY, c"VNF_TOO_MANY: too many connections on this core"),
    (VNF_PEER_CLOSED, c"VNF_PEER_CLOSED: the peer will send nothing more"),
    (VNF_BLOCKED, c"VNF_BLOCKED: a callback held up its core for too long"),
    (VNF_LEAKED, c"VNF_LEAKED: a buffer was still kept when the request object that it belonged to was gone"),
    (VNF_NO_KEY, c"VNF_NO_KEY: there is no such key"),
    (VNF_TOO_LONG, c"VNF_TOO_LONG: a datagram of more than VNF_BUFFER_SIZE bytes was thrown away"),
    (VNF_NO_REMOTE, c"VNF_NO_REMOTE: there is no remote state: set WEIR_VNF_REDIS"),
    (VNF_REMOTE_TIMEOUT, c"VNF_REMOTE_TIMEOUT: Redis did not answer in time; whether a change was or will be made is not known"),
    (VNF_REMOTE_LOST, c"VNF_REMOTE_LOST: the connection with Redis was lost; whether a change was made is not known"),
    (VNF_REMOTE_REFUSED, c"VNF_REMOTE_REFUSED: Redis refused"),
    (VNF_DIFFERS, c"VNF_DIFFERS: the key has another value than was expected"),
    (VNF_ORCHESTRATOR, c"VNF_ORCHESTRATOR: an orchestrator cannot be reached, or its answer not understood"),
];

//! Constants and types of callbacks, as the header has them.

use std::ffi::{c_char, c_int, c_void};

/// Bytes of a packet buffer.
pub const VNF_BUFFER_SIZE: usize = 2048;

const _: () = assert!(VNF_BUFFER_SIZE == weir_vnf::BUFFER_SIZE);

/// Protocols of servers and clients.
#[repr(C)]
#[derive(Debug)]
pub enum VnfProtocol {
    /// A stream: a packet buffer may hold a part of a message, or several.
    TCP = 6,
    /// Datagrams, which may be lost: one a packet buffer, at most VNF_BUFFER_SIZE bytes.
    UDP = 17,
}

/// An event of a connection, for which callbacks are registered.
#[repr(C)]
#[derive(Debug)]
pub enum VnfEvent {
    /// Data has come.
    READ = 1,
    /// A server accepted a connection; of UDP: a datagram came of a peer that there is no connection for.
    ACCEPT = 2,
    /// Something failed; the argument `error` says what.
    ERROR = 3,
    /// The loop of a core begins: once a core, on its thread, registered with connection 0.
    START = 4,
    /// All that waited to be sent on a connection because its peer (or the network) was slow is sent.
    SENT = 5,
}

/// Where state is kept.
#[repr(C)]
#[derive(Debug)]
pub enum VnfLocation {
    /// In this process, shared by its cores.
    LOCAL = 1,
    /// In Redis, shared by all replicas: a table is a hash of Redis. See startEventLoop for where Redis is.
    REMOTE = 2,
    /// Of getData: what this core has last seen of REMOTE, however old it is; in Redis, if it has not seen it (or not lately).
    CHECKCACHE = 3,
}

/// An event of a replica.
#[repr(C)]
#[derive(Debug)]
pub enum VnfTask {
    /// It is there.
    ADD = 1,
    /// It is not there any more.
    REMOVE = 2,
}

/// Why something happened to a replica.
#[repr(C)]
#[derive(Debug)]
pub enum VnfReason {
    /// The orchestrator does not say.
    UNKNOWN = 0,
    /// Somebody works on it.
    MAINTENANCE = 1,
    /// It failed.
    FAILURE = 2,
    /// There was too much to do for those that there were.
    OVERLOAD = 3,
}

/// A callback for an event of a connection.
///
/// connection: its number, or 0 if there is none.
/// request: the request object that was linked to the connection before all others that still are, or NULL.
/// packet, length: what came (READ), or the buffer that is taken back (VNF_LEAKED); else NULL and 0. The buffer is the function's until
/// the callback returns, unless setPktDNE keeps it or sendData takes it.
/// error: 0, or why the ERROR callback was called (a VnfError, or minus errno).
pub type VnfCallback = Option<
    unsafe extern "C" fn(
        connection: c_int,
        request: *mut c_void,
        packet: *mut c_char,
        length: usize,
        error: c_int,
    ),
>;

/// A callback for the end of setData. The key is valid until it returns; error is 0 or a VnfError (see setData).
pub type VnfSetCallback = Option<
    unsafe extern "C" fn(
        connection: c_int,
        key: *const c_void,
        key_size: usize,
        request: *mut c_void,
        error: c_int,
    ),
>;

/// A callback for the end of getData or compareAndSetData. Key and value are valid until it returns, the value longer if setKeyDNE keeps
/// it; error is 0 or a VnfError. The value is NULL if there is none.
pub type VnfGetCallback = Option<
    unsafe extern "C" fn(
        connection: c_int,
        key: *const c_void,
        key_size: usize,
        value: *const c_void,
        size: usize,
        request: *mut c_void,
        error: c_int,
    ),
>;

/// A callback for a replica that comes or goes: ADD or REMOVE, the name of the function that it is a replica of, its address, and one of
/// VnfReason. The strings are valid until it returns.
pub type VnfNotice = Option<
    unsafe extern "C" fn(task: c_int, vnf_name: *const c_char, vnf_ip_address: *const c_char, event: c_int),
>;

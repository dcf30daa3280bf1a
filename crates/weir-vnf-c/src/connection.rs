//! C1, C2, C4, C7: connections.

use std::ffi::{c_char, c_int};

use crate::errors::{VnfError::*, report, status};
use crate::function::{Function, refused, with_function};
use crate::objects::Owner;
use crate::setup::{Callbacks, FIRST_CONNECTION, address, setup, text, transport};
use crate::types::{VNF_BUFFER_SIZE, VnfCallback, VnfEvent};

/// C1. Opens a connection from this core, without waiting for it: data may be sent at once; a failure arrives as an ERROR event, behind
/// which the connection is closed. In a callback.
///
/// ip: an IPv4 or IPv6 address as numbers. port: in host byte order. protocol: TCP or UDP.
///
/// Returns the number of the connection, greater than 0, or an error: VNF_NO_CALLBACK, VNF_ARGUMENT, VNF_ADDRESS, VNF_TOO_MANY, minus
/// errno. A number is known on its core only; that of a closed connection is not used again before all others were.
///
/// # Safety
/// The string ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn createClient(ip: *const c_char, port: c_int, protocol: c_int) -> c_int {
    let connect = || {
        // SAFETY: the caller promises it.
        let to = address(unsafe { text(ip) }?, port)?;
        let protocol = transport(protocol)?;
        with_function(|function, core| {
            let connection = core.connect(to, protocol).map_err(refused)?;
            Ok(function.name(connection, Callbacks::default()))
        })
    };
    report(connect(), |error| error)
}

/// C2. Registers what is called when something happens to a connection; NULL: nothing. It replaces what was registered before.
///
/// connection: of a server (before startEventLoop): for all connections that it accepts, each with its own number. Of a connection (in a
/// callback on its core): for that one. 0 (before startEventLoop): for the function itself, START and ERROR (VNF_BLOCKED, with the
/// connection, VNF_LEAKED; if nothing is registered, they are lines on standard error).
/// event: READ, ACCEPT (of servers), ERROR, SENT, START (of 0).
///
/// Events of a connection come in their order and on its core's thread; no two callbacks of a core run at once. A callback must not wait
/// for anything: the other connections of its core wait for it. ERROR with VNF_PEER_CLOSED: the peer sends no more, but may still read;
/// the connection is closed when no request object is linked to it (any more). VNF_TOO_LONG: it goes on. Every other ERROR: the connection
/// has failed (it could not be made, the peer reset it, …) and is closed when the callback returns. What comes while no READ callback is registered is thrown away.
///
/// Returns 0 or an error: VNF_STARTED, VNF_NO_CALLBACK, VNF_CONNECTION, VNF_ARGUMENT (no such event of this connection).
#[unsafe(no_mangle)]
pub extern "C" fn registerCallback(connection: c_int, event: c_int, callback: VnfCallback) -> c_int {
    let set = |callbacks: &mut Callbacks| {
        let (server, general) = (connection > 0 && connection < FIRST_CONNECTION, connection == 0);
        match event {
            e if e == VnfEvent::READ as c_int && !general => callbacks.read = callback,
            e if e == VnfEvent::ACCEPT as c_int && server => callbacks.accept = callback,
            e if e == VnfEvent::ERROR as c_int => callbacks.error = callback,
            e if e == VnfEvent::SENT as c_int && !general => callbacks.sent = callback,
            e if e == VnfEvent::START as c_int && general => callbacks.start = callback,
            _ => return Err(VNF_ARGUMENT.into()),
        }
        Ok(())
    };
    let register = || {
        if connection >= FIRST_CONNECTION {
            return with_function(|function, _| set(&mut function.known(connection)?.callbacks));
        }
        let mut setup = setup()?;
        if connection == 0 {
            return set(&mut setup.plan.general);
        }
        let at = usize::try_from(connection).map_err(|_| VNF_CONNECTION)?;
        set(&mut setup.plan.servers.get_mut(at - 1).ok_or(VNF_CONNECTION)?.callbacks)
    };
    status(register())
}

/// C4. Sends the first length bytes of a packet buffer behind what was sent before, without waiting. The buffer is gone with this call,
/// also if it fails; one that setPktDNE keeps is copied and stays. A failure of the connection arrives as an ERROR event. In a callback.
///
/// connection: any of this core. packet: from getPktBuf, or one that came. length: 0 to VNF_BUFFER_SIZE.
///
/// Returns 0 or an error, with which nothing is sent: VNF_NO_CALLBACK, VNF_BUFFER, VNF_SIZE (the buffer stays), VNF_CONNECTION,
/// VNF_QUEUE_FULL.
#[unsafe(no_mangle)]
pub extern "C" fn sendData(connection: c_int, packet: *mut c_char, length: usize) -> c_int {
    status(with_function(|function, core| {
        let address = packet as usize;
        let owner = function.buffers.owner(address).ok_or(VNF_BUFFER)?;
        if length > VNF_BUFFER_SIZE {
            return Err(VNF_SIZE.into());
        }
        let buffer = match owner {
            Owner::Callback => function.buffers.take(address),
            _ => function.buffers.copy(address, length),
        };
        let mut buffer = buffer.ok_or(VNF_BUFFER)?;
        buffer.set_len(length);
        core.send(function.known(connection)?.connection, buffer).map_err(refused)
    }))
}

/// Bytes that wait to be sent on a connection, at most 4 MiB; SENT is called when there are none any more. In a callback.
///
/// Returns them or an error: VNF_NO_CALLBACK, VNF_CONNECTION.
#[unsafe(no_mangle)]
pub extern "C" fn vnfQueued(connection: c_int) -> c_int {
    let queued = with_function(|function, core| {
        Ok(core.queued(function.known(connection)?.connection).map_err(refused)? as c_int)
    });
    report(queued, |error| error)
}

/// Has no data of a connection come for now (paused is not 0), or has it come again (0): a function that passes data on to a slower peer
/// lets the kernel hold up the faster one. Nothing is lost. Peers of UDP servers cannot be held up. In a callback.
///
/// Returns 0 or an error: VNF_NO_CALLBACK, VNF_CONNECTION.
#[unsafe(no_mangle)]
pub extern "C" fn vnfPause(connection: c_int, paused: c_int) -> c_int {
    status(with_function(|function, core| {
        core.pause(function.known(connection)?.connection, paused != 0).map_err(refused)
    }))
}

/// C7. Closes a connection once all that was sent before is out. Its request objects are unlinked now, and no callback comes any more.
/// In a callback.
///
/// Returns 0 or an error: VNF_NO_CALLBACK, VNF_CONNECTION.
#[unsafe(no_mangle)]
pub extern "C" fn closeConn(connection: c_int) -> c_int {
    status(with_function(|function: &mut Function, core| {
        core.close(function.known(connection)?.connection).map_err(refused)?;
        function.forget(connection);
        Ok(())
    }))
}

//! R1 to R4: request objects.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::errors::{VnfError::*, report, status};
use crate::function::{refused, with_function};
use crate::objects::MOST_BYTES;
use crate::setup::setup;

/// R1. Says which types of request objects there are; before startEventLoop, once. Each core has memory for 1,024 objects of each type
/// (of large ones for 1 MiB) from the start, and asks the system for more when they are used up.
///
/// sizes: bytes of each type, at most 1 MiB each. types: how many there are.
///
/// Returns 0 or an error: VNF_STARTED, VNF_ARGUMENT, VNF_SIZE.
///
/// # Safety
/// sizes points to as many numbers as types says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn initReqPool(sizes: *const c_int, types: c_int) -> c_int {
    let set = || {
        let count = usize::try_from(types).map_err(|_| VNF_ARGUMENT)?;
        if sizes.is_null() || count > 1024 {
            return Err(VNF_ARGUMENT.into());
        }
        // SAFETY: it is not NULL, and the caller promises the rest.
        let sizes = unsafe { std::slice::from_raw_parts(sizes, count) };
        let mut setup = setup()?;
        if !setup.plan.request_sizes.is_empty() {
            return Err(VNF_ARGUMENT.into());
        }
        let usable = |size: &c_int| usize::try_from(*size).ok().filter(|s| (1..=MOST_BYTES).contains(s));
        setup.plan.request_sizes = sizes.iter().map(usable).collect::<Option<_>>().ok_or(VNF_SIZE)?;
        Ok(())
    };
    status(set())
}

/// R2. A new request object, filled with zeroes, linked to a connection behind those that are linked to it already: several requests of a
/// connection may be under way. It is valid, aligned for all types, until its last link is gone: by freeReqObj, or because the connection
/// was closed or failed. In a callback.
///
/// type: 1 for the first type of initReqPool, and so on.
///
/// Returns NULL on an error: VNF_NO_CALLBACK, VNF_CONNECTION, VNF_REQUEST_TYPE.
#[unsafe(no_mangle)]
pub extern "C" fn allocReqObj(connection: c_int, r#type: c_int) -> *mut c_void {
    let make = with_function(|function, core| {
        let linked = function.known(connection)?.connection;
        let kind = usize::try_from(r#type).ok().and_then(|t| t.checked_sub(1));
        let mut object = kind.and_then(|k| function.objects.make(k)).ok_or(VNF_REQUEST_TYPE)?;
        let address = object.address();
        let id = core.attach(linked, object).map_err(refused)?;
        function.objects.name(address, id);
        Ok(address)
    });
    report(make, |_| null_mut())
}

/// R3. Links a request object to another connection too, behind those that are linked to that. In a callback.
///
/// Returns 0 or an error: VNF_NO_CALLBACK, VNF_CONNECTION, VNF_REQUEST, VNF_LINKED.
#[unsafe(no_mangle)]
pub extern "C" fn linkReqObj(connection: c_int, request: *mut c_void) -> c_int {
    status(with_function(|function, core| {
        let id = function.objects.find(request).ok_or(VNF_REQUEST)?;
        core.link(function.known(connection)?.connection, id).map_err(refused)
    }))
}

/// R4. Unlinks a request object from a connection: the one that the callback was called with, if it is linked to this connection; else
/// the one that was linked to it first. With its last link it is freed when the callback returns. If the peer closed its side before and
/// this was the connection's last request object, the connection is closed. In a callback.
///
/// Returns 0 or an error: VNF_NO_CALLBACK, VNF_CONNECTION, VNF_NO_REQUEST (also: freed before).
#[unsafe(no_mangle)]
pub extern "C" fn freeReqObj(connection: c_int) -> c_int {
    status(with_function(|function, core| {
        let linked = function.known(connection)?.connection;
        let all = core.linked(linked).map_err(refused)?;
        let current = function.request.filter(|id| all.contains(id));
        let id = current.or(all.first().copied()).ok_or(VNF_NO_REQUEST)?;
        core.unlink(linked, id).map_err(refused)?;
        if core.linked(linked).is_err() {
            function.forget(connection);
        }
        Ok(())
    }))
}

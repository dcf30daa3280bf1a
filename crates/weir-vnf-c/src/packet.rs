//! C3, C5, C6: packet buffers.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use weir_vnf::Buffer;

use crate::errors::{VnfError::*, report, status};
use crate::function::{refused, with_function};
use crate::objects::Owner;

/// C3. A packet buffer of VNF_BUFFER_SIZE bytes, to be filled and sent; it holds what an earlier use left there. It is the function's
/// until it is sent or the callback returns, unless setPktDNE keeps it. In a callback.
///
/// connection: what it will be sent on; any of this core.
///
/// Returns NULL on an error: VNF_NO_CALLBACK, VNF_CONNECTION.
#[unsafe(no_mangle)]
pub extern "C" fn getPktBuf(connection: c_int) -> *mut c_char {
    let get = with_function(|function, _| {
        function.known(connection)?;
        Ok(function.buffers.lend(Buffer::new(), connection))
    });
    report(get, |_| null_mut())
}

/// C5. Keeps a packet buffer ("do not evict") until unsetPktDNE. It belongs to the request object that was linked last to the connection
/// that it came from (or that getPktBuf was asked for); if none is, to that connection. When its owner is gone, a buffer that is still
/// kept is reported as VNF_LEAKED to the ERROR callback of connection 0, and taken back when that returns. In a callback.
///
/// Returns the packet, or NULL on an error: VNF_NO_CALLBACK, VNF_CONNECTION (it is closed), VNF_BUFFER (also: it is kept already).
#[unsafe(no_mangle)]
pub extern "C" fn setPktDNE(packet: *mut c_char) -> *mut c_char {
    let keep = with_function(|function, core| {
        let address = packet as usize;
        if function.buffers.owner(address).ok_or(VNF_BUFFER)? != Owner::Callback {
            return Err(VNF_BUFFER.into());
        }
        let number = function.buffers.connection(address);
        let known = function.known(number)?;
        let owner = match core.linked(known.connection).map_err(refused)?.last().copied() {
            Some(id) => {
                core.get(id).map_err(refused)?.kept.push(address);
                Owner::Request(id)
            }
            None => {
                known.keeps = true;
                Owner::Connection(number)
            }
        };
        function.buffers.keep(address, owner);
        Ok(packet)
    });
    report(keep, |_| null_mut())
}

/// C6. Gives a kept packet buffer back: it is the function's until the callback returns, as one that came. In a callback.
///
/// Returns 0 or an error: VNF_NO_CALLBACK, VNF_BUFFER, VNF_NOT_KEPT (also: given back before).
#[unsafe(no_mangle)]
pub extern "C" fn unsetPktDNE(packet: *mut c_char) -> c_int {
    status(with_function(|function, core| {
        match function.buffers.owner(packet as usize).ok_or(VNF_BUFFER)? {
            Owner::Callback => return Err(VNF_NOT_KEPT.into()),
            Owner::Request(id) => {
                // The object may be gone in this callback; then its list of buffers waits to be read, and finds this one given back.
                if let Ok(object) = core.get(id) {
                    object.kept.retain(|address| *address != packet as usize);
                }
            }
            Owner::Connection(_) => {}
        }
        function.buffers.release(packet as usize);
        Ok(())
    }))
}

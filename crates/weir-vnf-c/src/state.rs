//! D1 to D5: state in tables of keys and values.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_vnf::Core;

use crate::errors::{Outcome, VnfError::*, status};
use crate::function::{Function, enter, with_function};
use crate::setup::{bytes, text};
use crate::types::{VnfGetCallback, VnfLocation, VnfSetCallback};

/// Values that setKeyDNE keeps, by table and key; one for each call.
pub(crate) type Pinned = FxHashMap<(String, Vec<u8>), Vec<Arc<[u8]>>>;

/// What a getData callback was called with: table, key, value.
pub(crate) type Delivered = (String, Vec<u8>, Arc<[u8]>);

/// A callback that is due.
#[derive(Debug)]
pub(crate) enum Done {
    Set {
        connection: c_int,
        key: Vec<u8>,
        callback: VnfSetCallback,
    },
    Got {
        connection: c_int,
        table: String,
        key: Vec<u8>,
        value: Option<Arc<[u8]>>,
        callback: VnfGetCallback,
    },
    /// The owner of a buffer that may be kept still is gone.
    Leaked(usize),
}

impl Done {
    /// Calls back, unless the connection was closed meanwhile.
    pub(crate) fn call(self, function: &mut Function, core: &mut Core<Function>) {
        let (Self::Set { connection, .. } | Self::Got { connection, .. }) = &self else { return };
        if *connection != 0 && function.known(*connection).is_err() {
            return;
        }
        let (id, request) = function.oldest(core, *connection);
        function.request = id;
        match self {
            Self::Set { connection, key, callback: Some(callback) } => {
                let (key, size) = (key.as_ptr().cast(), key.len());
                // SAFETY: setData was given a function of this type; the key lives until it returns.
                enter(function, core, || unsafe { callback(connection, key, size, request, 0) });
            }
            Self::Got { connection, table, key, value, callback: Some(callback) } => {
                function.delivered = value.clone().map(|value| (table, key.clone(), value));
                let (key, key_size) = (key.as_ptr().cast(), key.len());
                let (at, size) = value.as_ref().map_or((null(), 0), |v| (v.as_ptr().cast(), v.len()));
                let error = if value.is_some() { 0 } else { VNF_NO_KEY.into() };
                // SAFETY: getData was given a function of this type; key and value live until it returns.
                enter(function, core, || unsafe {
                    callback(connection, key, key_size, at, size, request, error);
                });
                function.delivered = None;
            }
            _ => {}
        }
    }
}

fn local(location: c_int) -> Outcome {
    if location == VnfLocation::LOCAL as c_int { Ok(()) } else { Err(VNF_ARGUMENT.into()) }
}

/// Checks the connection that a callback is to be for.
fn connected(function: &mut Function, connection: c_int) -> Outcome {
    if connection == 0 { Ok(()) } else { function.known(connection).map(|_| ()) }
}

/// D1. Sets the value of a key, and calls back (not before the callback that this is called from returns); not if the connection is
/// closed by then. In a callback.
///
/// connection: what the callback is for; 0: for none.
/// table: any text. key, value: any bytes, copied by this call.
/// location: LOCAL: all cores of this process see the value from now on.
/// callback: NULL if nobody needs to know.
///
/// Returns 0 or an error, with which nothing is called back: VNF_NO_CALLBACK, VNF_CONNECTION, VNF_ARGUMENT.
///
/// # Safety
/// The string ends with a zero byte; key and value point to as many bytes as their sizes say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setData(
    connection: c_int,
    table: *const c_char,
    key: *const c_void,
    key_size: usize,
    value: *const c_void,
    size: usize,
    location: c_int,
    callback: VnfSetCallback,
) -> c_int {
    let set = || {
        // SAFETY: the caller promises it.
        let (table, key, value) = unsafe { (text(table)?, bytes(key, key_size)?, bytes(value, size)?) };
        local(location)?;
        with_function(|function, core| {
            connected(function, connection)?;
            core.store().set(table, key, value);
            function.done.push_back(Done::Set { connection, key: key.to_vec(), callback });
            Ok(())
        })
    };
    status(set())
}

/// D2. Gets the value of a key, and calls back (not before the callback that this is called from returns) with the value that the key
/// had at this call, or with VNF_NO_KEY; not if the connection is closed by then. In a callback.
///
/// Arguments and errors are those of setData; callback is not NULL.
///
/// # Safety
/// The string ends with a zero byte; the key points to as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getData(
    connection: c_int,
    table: *const c_char,
    key: *const c_void,
    key_size: usize,
    location: c_int,
    callback: VnfGetCallback,
) -> c_int {
    let get = || {
        // SAFETY: the caller promises it.
        let (table, key) = unsafe { (text(table)?, bytes(key, key_size)?) };
        local(location)?;
        if callback.is_none() {
            return Err(VNF_ARGUMENT.into());
        }
        with_function(|function, core| {
            connected(function, connection)?;
            let value = core.store().get(table, key);
            let (table, key) = (table.to_owned(), key.to_vec());
            function.done.push_back(Done::Got { connection, table, key, value, callback });
            Ok(())
        })
    };
    status(get())
}

/// D3. Deletes a key. In a callback.
///
/// Returns 0, also if there is no such key, or an error: VNF_NO_CALLBACK, VNF_ARGUMENT.
///
/// # Safety
/// The string ends with a zero byte; the key points to as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn delData(
    table: *const c_char,
    key: *const c_void,
    key_size: usize,
    location: c_int,
) -> c_int {
    let delete = || {
        // SAFETY: the caller promises it.
        let (table, key) = unsafe { (text(table)?, bytes(key, key_size)?) };
        local(location)?;
        with_function(|_, core| {
            core.store().delete(table, key);
            Ok(())
        })
    };
    status(delete())
}

/// D4. Keeps a value ("do not evict"): the pointer to it that getData gave stays valid, and the value as it is, until unsetKeyDNE, also if
/// the key gets another value or is deleted. In a getData callback for this key, or, for the value that a LOCAL key has now, in any
/// callback. Each call keeps one value and wants one unsetKeyDNE on the same core.
///
/// Returns 0 or an error: VNF_NO_CALLBACK, VNF_ARGUMENT, VNF_NO_KEY.
///
/// # Safety
/// The string ends with a zero byte; the key points to as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setKeyDNE(table: *const c_char, key: *const c_void, key_size: usize) -> c_int {
    let keep = || {
        // SAFETY: the caller promises it.
        let (table, key) = unsafe { (text(table)?, bytes(key, key_size)?) };
        with_function(|function, core| {
            let delivered = function.delivered.as_ref().filter(|(t, k, _)| t == table && k == key);
            let value = delivered.map(|(_, _, value)| value.clone()).or_else(|| core.store().get(table, key));
            let value = value.ok_or(VNF_NO_KEY)?;
            function.pinned.entry((table.to_owned(), key.to_vec())).or_default().push(value);
            Ok(())
        })
    };
    status(keep())
}

/// D5. Gives back the value of a key that setKeyDNE kept first on this core. In a callback.
///
/// Returns 0 or an error: VNF_NO_CALLBACK, VNF_ARGUMENT, VNF_NO_KEY (no value of this key is kept on this core).
///
/// # Safety
/// The string ends with a zero byte; the key points to as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unsetKeyDNE(table: *const c_char, key: *const c_void, key_size: usize) -> c_int {
    let release = || {
        // SAFETY: the caller promises it.
        let at = unsafe { (text(table)?.to_owned(), bytes(key, key_size)?.to_vec()) };
        with_function(|function, _| {
            let values = function.pinned.get_mut(&at).ok_or(VNF_NO_KEY)?;
            values.remove(0);
            if values.is_empty() {
                function.pinned.remove(&at);
            }
            Ok(())
        })
    };
    status(release())
}

//! D1 to D5: state in tables of keys and values.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_vnf::{CacheUse, Core, Error, Swapped};

use crate::errors::{Outcome, VnfError::*, number, status};
use crate::function::{Function, NOTHING, enter, refused, with_function};
use crate::setup::{bytes, text};
use crate::types::{VnfGetCallback, VnfLocation, VnfSetCallback};

/// Values that setKeyDNE keeps, by table and key; one for each call.
pub(crate) type Pinned = FxHashMap<(String, Vec<u8>), Vec<Arc<[u8]>>>;

/// The arguments of a getData callback: table, key, value.
pub(crate) type Delivered = (String, Vec<u8>, Arc<[u8]>);

/// A callback that is due.
#[derive(Debug)]
pub(crate) enum Done {
    Set {
        connection: c_int,
        key: Vec<u8>,
        callback: VnfSetCallback,
        error: c_int,
    },
    Got(Got),
    /// The owner of a buffer that may be kept still is gone.
    Leaked(usize),
}

/// The callback of getData or compareAndSetData, and its arguments.
#[derive(Debug)]
pub(crate) struct Got {
    connection: c_int,
    table: String,
    key: Vec<u8>,
    callback: VnfGetCallback,
    value: Option<Arc<[u8]>>,
    error: c_int,
}

impl Got {
    fn new(connection: c_int, table: &str, key: &[u8], callback: VnfGetCallback) -> Self {
        Self { connection, table: table.to_owned(), key: key.to_vec(), callback, value: None, error: 0 }
    }

    fn with(mut self, outcome: Result<Option<Arc<[u8]>>, &Error>) -> Done {
        match outcome {
            Ok(Some(value)) => self.value = Some(value),
            Ok(None) => self.error = VNF_NO_KEY.into(),
            Err(error) => self.error = number(error),
        }
        Done::Got(self)
    }

    fn compared(mut self, outcome: Result<Swapped, &Error>) -> Done {
        match outcome {
            Ok(Swapped::Done) => {}
            Ok(Swapped::Differs(value)) => (self.value, self.error) = (value, VNF_DIFFERS.into()),
            Err(error) => self.error = number(error),
        }
        Done::Got(self)
    }
}

impl Done {
    /// Calls back, unless the connection was closed meanwhile.
    pub(crate) fn call(self, function: &mut Function, core: &mut Core<Function>) {
        let (Self::Set { connection, .. } | Self::Got(Got { connection, .. })) = &self else { return };
        if *connection != 0 && function.known(*connection).is_err() {
            return;
        }
        let (id, request) = function.oldest(core, *connection);
        function.request = id;
        match self {
            Self::Set { connection, key, callback: Some(callback), error } => {
                let (key, size) = (key.as_ptr().cast(), key.len());
                // SAFETY: setData was given a function of this type; the key lives until it returns.
                enter(function, core, || unsafe { callback(connection, key, size, request, error) });
            }
            Self::Got(Got { connection, table, key, callback: Some(callback), value, error }) => {
                function.delivered = value.clone().map(|value| (table, key.clone(), value));
                let (key, key_size) = (key.as_ptr().cast(), key.len());
                let (at, size) = value.as_ref().map_or((null(), 0), |v| (v.as_ptr().cast(), v.len()));
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

/// Where state is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Location {
    Local,
    Remote,
    Cached,
}

fn location(location: c_int) -> Outcome<Location> {
    match location {
        l if l == VnfLocation::LOCAL as c_int => Ok(Location::Local),
        l if l == VnfLocation::REMOTE as c_int => Ok(Location::Remote),
        l if l == VnfLocation::CHECKCACHE as c_int => Ok(Location::Cached),
        _ => Err(VNF_ARGUMENT.into()),
    }
}

/// Where something is to be changed: not in a cache.
fn changeable(place: c_int) -> Outcome<Location> {
    location(place).and_then(|l| if l == Location::Cached { Err(VNF_ARGUMENT.into()) } else { Ok(l) })
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
/// location: LOCAL: all cores of this process see the value from now on. REMOTE: all replicas do when it is called back without an error;
/// it is called back with an error within the time that startEventLoop says: VNF_REMOTE_TIMEOUT and VNF_REMOTE_LOST (the value may have been
/// set, or may still be), VNF_REMOTE_REFUSED. Calls of a core are carried out in their order.
/// callback: NULL if nobody needs to know.
///
/// Returns 0 or an error, with which nothing is called back: VNF_NO_CALLBACK, VNF_CONNECTION, VNF_ARGUMENT, VNF_NO_REMOTE, VNF_QUEUE_FULL
/// (64 MiB wait to be sent to Redis).
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
        let place = changeable(location)?;
        with_function(|function, core| {
            connected(function, connection)?;
            let kept = key.to_vec();
            let done = move |error| Done::Set { connection, key: kept, callback, error };
            if place == Location::Local {
                core.store().set(table, key, value);
                function.done.push_back(done(0));
                return Ok(());
            }
            core.remote_set(table, key, value, move |function: &mut Function, core, outcome| {
                function.done.push_back(done(outcome.as_ref().err().map_or(0, number)));
                function.settle(core);
            })
            .map_err(refused)
        })
    };
    status(set())
}

/// D2. Gets the value of a key, and calls back (not before the callback that this is called from returns) with the value, or with
/// VNF_NO_KEY; not if the connection is closed by then. In a callback.
///
/// location: LOCAL: the value that the key has at this call. REMOTE: the value that it has at some time between this call and the callback.
/// CHECKCACHE: a value that this core has got or set before, or as REMOTE.
///
/// Other arguments and errors are those of setData; callback is not NULL.
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
        let place = self::location(location)?;
        if callback.is_none() {
            return Err(VNF_ARGUMENT.into());
        }
        with_function(|function, core| {
            connected(function, connection)?;
            let got = Got::new(connection, table, key, callback);
            let cache = match place {
                Location::Local => {
                    function.done.push_back(got.with(Ok(core.store().get(table, key))));
                    return Ok(());
                }
                Location::Remote => CacheUse::Skip,
                Location::Cached => CacheUse::Check,
            };
            core.remote_get(table, key, cache, move |function: &mut Function, core, outcome| {
                function.done.push_back(got.with(outcome.as_ref().map(Clone::clone)));
                function.settle(core);
            })
            .map_err(refused)
        })
    };
    status(get())
}

/// D3. Deletes a key, LOCAL or REMOTE. In a callback. If Redis fails later, connection 0 gets an ERROR.
///
/// Returns 0, also if there is no such key, or an error: VNF_NO_CALLBACK, VNF_ARGUMENT, VNF_NO_REMOTE, VNF_QUEUE_FULL.
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
        let place = changeable(location)?;
        with_function(|_, core| {
            if place == Location::Local {
                core.store().delete(table, key);
                return Ok(());
            }
            core.remote_delete(table, key, |function: &mut Function, core, outcome| {
                if let Err(error) = outcome {
                    function.general_error(core, 0, NOTHING, number(&error));
                    function.settle(core);
                }
            })
            .map_err(refused)
        })
    };
    status(delete())
}

/// Sets the value of a key if it has the value that is expected, atomically for all cores (LOCAL) or replicas (REMOTE), and calls back as
/// getData does: without an error if it was set; with VNF_DIFFERS and the value that the key has, and keeps; or with an error of setData.
/// In a callback.
///
/// expected: NULL: the key is not there. value: NULL: the key is deleted.
///
/// Other arguments and errors are those of setData; callback is not NULL.
///
/// # Safety
/// The string ends with a zero byte; key, expected and value point to as many bytes as their sizes say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn compareAndSetData(
    connection: c_int,
    table: *const c_char,
    key: *const c_void,
    key_size: usize,
    expected: *const c_void,
    expected_size: usize,
    value: *const c_void,
    size: usize,
    location: c_int,
    callback: VnfGetCallback,
) -> c_int {
    let compare = || {
        // SAFETY: the caller promises it.
        let (table, key) = unsafe { (text(table)?, bytes(key, key_size)?) };
        // SAFETY: the caller promises it.
        let (expected, value) = unsafe { (optional(expected, expected_size)?, optional(value, size)?) };
        let place = changeable(location)?;
        if callback.is_none() {
            return Err(VNF_ARGUMENT.into());
        }
        with_function(|function, core| {
            connected(function, connection)?;
            let got = Got::new(connection, table, key, callback);
            if place == Location::Local {
                let mut outcome = Swapped::Done;
                core.store().update(table, key, |now| {
                    if now == expected {
                        return value.map(<[u8]>::to_vec);
                    }
                    outcome = Swapped::Differs(now.map(Arc::from));
                    now.map(<[u8]>::to_vec)
                });
                function.done.push_back(got.compared(Ok(outcome)));
                return Ok(());
            }
            let then =
                move |function: &mut Function, core: &mut Core<Function>, outcome: Result<_, Error>| {
                    function.done.push_back(got.compared(outcome.as_ref().map(Clone::clone)));
                    function.settle(core);
                };
            core.remote_compare_and_set(table, key, expected, value, then).map_err(refused)
        })
    };
    status(compare())
}

/// Bytes of C code that may not be there.
///
/// # Safety
/// As [`bytes`].
unsafe fn optional<'a>(at: *const c_void, size: usize) -> Outcome<Option<&'a [u8]>> {
    // SAFETY: the caller promises it.
    if at.is_null() { Ok(None) } else { unsafe { bytes(at, size) }.map(Some) }
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

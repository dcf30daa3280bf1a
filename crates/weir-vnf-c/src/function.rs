//! What a core's loop runs: it hands events to callbacks in C, and finds its way back when they call the library.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::net::SocketAddr;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use weir_vnf::{Buffer, Connection, Core, Error, Notice, NoticeError, RequestId, ServerId};

use crate::errors::{Outcome, VnfError::*, number};
use crate::objects::{Buffers, Object, Objects, Owner};
use crate::setup::{Callbacks, FIRST_CONNECTION, Plan};
use crate::state::{Delivered, Done, Pinned};
use crate::types::VnfCallback;

/// The function of one core.
#[derive(Debug)]
pub(crate) struct Function {
    plan: Arc<Plan>,
    connections: FxHashMap<c_int, Known>,
    numbers: FxHashMap<Connection, c_int>,
    /// The number that the next connection gets, if it is free. Each core has numbers of its own.
    next: c_int,
    core: c_int,
    pub(crate) buffers: Buffers,
    pub(crate) objects: Objects,
    /// What the callback that runs was called with.
    pub(crate) request: Option<RequestId>,
    /// Callbacks of state that are due.
    pub(crate) done: VecDeque<Done>,
    pub(crate) pinned: Pinned,
    /// The value of the getData callback that runs.
    pub(crate) delivered: Option<Delivered>,
}

/// A connection that C code knows by number.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) connection: Connection,
    pub(crate) callbacks: Callbacks,
    /// Whether buffers belong to it.
    pub(crate) keeps: bool,
}

/// Where the thread's callback finds its function and core.
#[derive(Clone, Copy)]
struct Here {
    function: NonNull<Function>,
    core: NonNull<Core<Function>>,
}

thread_local! {
    static HERE: Cell<Option<Here>> = const { Cell::new(None) };
}

/// Gives a call of C code the function and the core whose callback it comes from.
pub(crate) fn with_function<T>(
    work: impl FnOnce(&mut Function, &mut Core<Function>) -> Outcome<T>,
) -> Outcome<T> {
    // Taken out while it is in use, so that there is never a second reference.
    let mut here = HERE.take().ok_or(VNF_NO_CALLBACK)?;
    // SAFETY: `enter` has set them from references that it does not use until the callback returns; this thread's callback is running,
    // since `enter` takes them away behind it.
    let outcome = unsafe { work(here.function.as_mut(), here.core.as_mut()) };
    HERE.set(Some(here));
    outcome
}

/// Runs a callback of C code, from which [`with_function`] finds the function and the core.
pub(crate) fn enter(function: &mut Function, core: &mut Core<Function>, callback: impl FnOnce()) {
    HERE.set(Some(Here { function: NonNull::from(function), core: NonNull::from(core) }));
    callback();
    HERE.set(None);
}

impl Function {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self {
            connections: FxHashMap::default(),
            numbers: FxHashMap::default(),
            next: FIRST_CONNECTION,
            core: 0,
            buffers: Buffers::default(),
            objects: Objects::new(&plan.request_sizes),
            request: None,
            done: VecDeque::new(),
            pinned: Pinned::default(),
            delivered: None,
            plan,
        }
    }

    /// Gives a connection a number: the next one, so that a number of a closed connection stays unknown for long.
    pub(crate) fn name(&mut self, connection: Connection, callbacks: Callbacks) -> c_int {
        while self.connections.contains_key(&self.next) {
            self.advance();
        }
        let number = self.next;
        self.advance();
        self.connections.insert(number, Known { connection, callbacks, keeps: false });
        self.numbers.insert(connection, number);
        number
    }

    fn advance(&mut self) {
        self.next = self.next.checked_add(self.plan.cores as c_int).unwrap_or(FIRST_CONNECTION + self.core);
    }

    pub(crate) fn known(&mut self, number: c_int) -> Outcome<&mut Known> {
        self.connections.get_mut(&number).ok_or(VNF_CONNECTION.into())
    }

    /// The connection is closed: its number is unknown from now on.
    pub(crate) fn forget(&mut self, number: c_int) {
        if let Some(known) = self.connections.remove(&number) {
            self.numbers.remove(&known.connection);
            if known.keeps {
                let leaked = self.buffers.of_connection(number);
                self.done.extend(leaked.into_iter().map(Done::Leaked));
            }
        }
    }

    /// The request object that callbacks of a connection get, and its address.
    pub(crate) fn oldest(
        &mut self,
        core: &mut Core<Self>,
        number: c_int,
    ) -> (Option<RequestId>, *mut c_void) {
        let connection = self.connections.get(&number).map(|k| k.connection);
        let id = connection.and_then(|c| core.request(c).ok().flatten());
        let address = id.and_then(|id| Some(core.get(id).ok()?.address()));
        (id, address.unwrap_or(null_mut()))
    }

    /// Calls C code for a connection (0: for none).
    fn call(
        &mut self,
        core: &mut Core<Self>,
        number: c_int,
        callback: VnfCallback,
        (packet, length): (*mut c_char, usize),
        error: c_int,
    ) {
        if let Some(callback) = callback {
            let (id, request) = self.oldest(core, number);
            self.request = id;
            // SAFETY: registerCallback was given a function of this type.
            enter(self, core, || unsafe { callback(number, request, packet, length, error) });
        }
        self.buffers.end_callback();
    }

    /// Closes a connection that lasts only as long as its request objects, if it has none.
    fn end_without_requests(&mut self, core: &mut Core<Self>, number: c_int) {
        if let Ok(Known { connection, .. }) = self.known(number)
            && core.ends_with_requests(*connection).is_ok_and(|ends| ends)
            && core.request(*connection).is_ok_and(|request| request.is_none())
        {
            let _ = core.close(*connection);
            self.forget(number);
        }
    }

    /// Does what the callbacks that ran have left to do, which may call others.
    pub(crate) fn settle(&mut self, core: &mut Core<Self>) {
        loop {
            while let Some(ended) = self.objects.take_back() {
                self.done.extend(ended.kept.into_iter().map(Done::Leaked));
            }
            match self.done.pop_front() {
                Some(Done::Leaked(address)) => self.leaked(core, address),
                Some(done) => {
                    done.call(self, core);
                    self.buffers.end_callback();
                }
                None => return,
            }
        }
    }

    /// Takes back a buffer whose owner is gone, unless it was given back before.
    fn leaked(&mut self, core: &mut Core<Self>, address: usize) {
        let gone = match self.buffers.owner(address) {
            None | Some(Owner::Callback) => false,
            Some(Owner::Request(id)) => core.get(id).is_err(),
            Some(Owner::Connection(number)) => !self.connections.contains_key(&number),
        };
        if gone {
            self.buffers.release(address);
            let packet = address as *mut c_char;
            self.general_error(core, 0, (packet, weir_vnf::BUFFER_SIZE), VNF_LEAKED.into());
        }
    }

    /// An error of the function itself: to the callback of connection 0, or to standard error if there is none.
    pub(crate) fn general_error(
        &mut self,
        core: &mut Core<Self>,
        number: c_int,
        packet: (*mut c_char, usize),
        error: c_int,
    ) {
        let callback = self.plan.general.error;
        if callback.is_none() {
            // SAFETY: the text is a constant, or strerror's, which is read at once.
            let text = unsafe { std::ffi::CStr::from_ptr(crate::errors::vnfErrorText(error)) };
            eprintln!("weir-vnf: core {}, connection {number}: {}", core.number(), text.to_string_lossy());
        }
        self.call(core, number, callback, packet, error);
    }

    fn number(&self, connection: Connection) -> c_int {
        self.numbers.get(&connection).copied().unwrap_or(0)
    }

    fn callbacks(&self, number: c_int) -> Callbacks {
        self.connections.get(&number).map(|k| k.callbacks).unwrap_or_default()
    }
}

/// No packet.
pub(crate) const NOTHING: (*mut c_char, usize) = (null_mut(), 0);

impl weir_vnf::Function for Function {
    type Request = Object;

    fn start(&mut self, core: &mut Core<Self>) {
        self.core = core.number() as c_int;
        self.next = FIRST_CONNECTION + self.core;
        self.call(core, 0, self.plan.general.start, NOTHING, 0);
        self.settle(core);
    }

    fn accept(&mut self, core: &mut Core<Self>, connection: Connection, server: ServerId) {
        let callbacks =
            self.plan.servers.iter().find(|s| s.id == server).map(|s| s.callbacks).unwrap_or_default();
        let number = self.name(connection, callbacks);
        self.call(core, number, callbacks.accept, NOTHING, 0);
        self.settle(core);
    }

    fn read(&mut self, core: &mut Core<Self>, connection: Connection, data: Buffer) {
        let (number, length) = (self.number(connection), data.len());
        let packet = self.buffers.lend(data, number);
        self.call(core, number, self.callbacks(number).read, (packet, length), 0);
        self.end_without_requests(core, number);
        self.settle(core);
    }

    fn sent(&mut self, core: &mut Core<Self>, connection: Connection) {
        let number = self.number(connection);
        self.call(core, number, self.callbacks(number).sent, NOTHING, 0);
        self.settle(core);
    }

    fn error(&mut self, core: &mut Core<Self>, connection: Connection, error: &Error) {
        let number = self.number(connection);
        self.call(core, number, self.callbacks(number).error, NOTHING, crate::errors::number(error));
        // What the Rust library does when this returns is done now, so that the number is gone with the connection.
        if !matches!(error, Error::PeerClosed | Error::TooLong) {
            // An error means that the callback has closed it.
            let _ = core.close(connection);
            self.forget(number);
        }
        self.end_without_requests(core, number);
        self.settle(core);
    }

    fn notify(
        &mut self,
        core: &mut Core<Self>,
        orchestrator: SocketAddr,
        notice: &Result<Notice, NoticeError>,
    ) {
        match notice {
            Ok(notice) => {
                let plan = self.plan.clone();
                crate::notice::call(self, core, &plan.notified, orchestrator, notice);
            }
            Err(_) => self.general_error(core, 0, NOTHING, VNF_ORCHESTRATOR.into()),
        }
        self.settle(core);
    }

    fn blocked(&mut self, core: &mut Core<Self>, connection: Option<Connection>, _: Duration) {
        let number = connection.map_or(0, |c| self.number(c));
        self.general_error(core, number, NOTHING, VNF_BLOCKED.into());
        self.settle(core);
    }
}

/// The number of an error of the Rust library, for `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "map_err gives it so")]
pub(crate) fn refused(error: Error) -> c_int {
    number(&error)
}

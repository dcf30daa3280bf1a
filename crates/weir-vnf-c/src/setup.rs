//! Before the loops start, and what starts and stops them.

use std::ffi::{CStr, c_char, c_int};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use weir_vnf::{Protocol, Redis, ServerId, Stopper, Vnf};

use crate::errors::{Outcome, VnfError::*, number, report, status};
use crate::function::{Function, with_function};
use crate::types::{VnfCallback, VnfNotice, VnfProtocol};

/// The settings made before the start.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    vnf: Option<Vnf>,
    pub(crate) plan: Plan,
    started: bool,
}

/// The settings that the loops are made with.
#[derive(Debug, Default, Clone)]
pub(crate) struct Plan {
    pub(crate) servers: Vec<Server>,
    /// Of connection 0.
    pub(crate) general: Callbacks,
    /// Bytes of each type of request objects.
    pub(crate) request_sizes: Vec<usize>,
    /// Who is called with the notices of each orchestrator.
    pub(crate) notified: Vec<(SocketAddr, VnfNotice)>,
    /// Loops that there will be.
    pub(crate) cores: usize,
}

impl Setup {
    pub(crate) fn vnf(&mut self) -> Outcome<&mut Vnf> {
        match &mut self.vnf {
            Some(vnf) => Ok(vnf),
            vnf => Ok(vnf.insert(new_vnf()?)),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) id: ServerId,
    address: SocketAddr,
    /// Of the connections that it accepts.
    pub(crate) callbacks: Callbacks,
}

/// The callbacks of a connection, of those that a server accepts, or of the function itself.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Callbacks {
    pub(crate) read: VnfCallback,
    pub(crate) accept: VnfCallback,
    pub(crate) error: VnfCallback,
    pub(crate) start: VnfCallback,
    pub(crate) sent: VnfCallback,
}

static SETUP: Mutex<Setup> = Mutex::new(Setup {
    vnf: None,
    plan: Plan {
        servers: Vec::new(),
        general: Callbacks { read: None, accept: None, error: None, start: None, sent: None },
        request_sizes: Vec::new(),
        notified: Vec::new(),
        cores: 0,
    },
    started: false,
});

/// Set once: it is read by signal handlers, which may take no lock.
static STOPPER: OnceLock<Stopper> = OnceLock::new();

/// Whether stopEventLoop was called, maybe before there is a [`STOPPER`].
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Numbers below this are servers', in the order in which they were created.
pub(crate) const FIRST_CONNECTION: c_int = 1024;

/// The setup, if nothing was started yet.
pub(crate) fn setup() -> Outcome<MutexGuard<'static, Setup>> {
    let setup = SETUP.lock().unwrap_or_else(PoisonError::into_inner);
    if setup.started { Err(VNF_STARTED.into()) } else { Ok(setup) }
}

/// A string of C code.
///
/// # Safety
/// `text` is NULL or a string that ends with a zero byte, and stays so while the result lives.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(VNF_ARGUMENT.into());
    }
    // SAFETY: it is not NULL, and the caller promises the rest.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| VNF_ARGUMENT.into())
}

/// Bytes of C code.
///
/// # Safety
/// `bytes` is NULL or points to `size` bytes that do not change while the result lives.
pub(crate) unsafe fn bytes<'a>(bytes: *const std::ffi::c_void, size: usize) -> Outcome<&'a [u8]> {
    if size == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() || size > isize::MAX as usize {
        return Err(VNF_ARGUMENT.into());
    }
    // SAFETY: it is not NULL, and the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), size) })
}

pub(crate) fn address(ip: &str, port: c_int) -> Outcome<SocketAddr> {
    let ip: IpAddr = ip.parse().map_err(|_| VNF_ADDRESS)?;
    Ok(SocketAddr::new(ip, u16::try_from(port).map_err(|_| VNF_ARGUMENT)?))
}

pub(crate) fn transport(protocol: c_int) -> Outcome<Protocol> {
    match protocol {
        p if p == VnfProtocol::TCP as c_int => Ok(Protocol::Tcp),
        p if p == VnfProtocol::UDP as c_int => Ok(Protocol::Udp),
        _ => Err(VNF_ARGUMENT.into()),
    }
}

/// A1. Listens at an address; before startEventLoop. Several servers may be created. Connections are spread over the cores; a
/// connection stays on its core.
///
/// interface: NULL or "", or the network interface that connections must come by (of the kernel's stack; one in user space has one).
/// ip: an IPv4 or IPv6 address as numbers; "" means all of IPv4. On a stack in user space, one of its addresses.
/// port: in host byte order; with 0 one is chosen, and vnfServerPort says which.
/// protocol: TCP or UDP. A connection of a UDP server is what is known of a peer: it begins with a datagram, and lasts as long as request
/// objects are linked to it; without any, until the READ callback of the datagram returns.
///
/// Returns the server's number, greater than 0, or an error: VNF_STARTED, VNF_ARGUMENT, VNF_ADDRESS, minus errno.
///
/// # Safety
/// Strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn createServer(
    interface: *const c_char,
    ip: *const c_char,
    port: c_int,
    protocol: c_int,
) -> c_int {
    let create = || {
        // SAFETY: the caller promises it.
        let interface = if interface.is_null() { "" } else { unsafe { text(interface) }? };
        // SAFETY: the caller promises it.
        let ip = unsafe { text(ip) }?;
        let address = if ip.is_empty() {
            address(&Ipv4Addr::UNSPECIFIED.to_string(), port)?
        } else {
            address(ip, port)?
        };
        let protocol = transport(protocol)?;
        let mut setup = setup()?;
        if setup.plan.servers.len() as c_int + 1 >= FIRST_CONNECTION {
            return Err(VNF_TOO_MANY.into());
        }
        let interface = (!interface.is_empty()).then_some(interface);
        let (id, address) = setup.vnf()?.server(address, protocol, interface).map_err(|e| number(&e))?;
        setup.plan.servers.push(Server { id, address, callbacks: Callbacks::default() });
        Ok(setup.plan.servers.len() as c_int)
    };
    report(create(), |error| error)
}

/// The port of a server in host byte order, or VNF_ARGUMENT if there is no such server. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn vnfServerPort(server: c_int) -> c_int {
    let setup = SETUP.lock().unwrap_or_else(PoisonError::into_inner);
    let server = usize::try_from(server).ok().and_then(|n| setup.plan.servers.get(n.checked_sub(1)?));
    report(server.map(|s| s.address.port().into()).ok_or(VNF_ARGUMENT.into()), |error| error)
}

/// A2. Starts one loop a core, each on a thread of its own that is pinned to its core, and waits until stopEventLoop. Once in a process.
///
/// Environment:
///   WEIR_VNF_STACK           the stack that connections are on (kernel); one in user space is described by a line such as
///                            user,device=veth0,address=10.0.0.2/24,gateway=10.0.0.1 (docs/vnf.md)
///   WEIR_VNF_CORES           number of loops (all CPUs that the process may use)
///   WEIR_VNF_CALLBACK_MS     milliseconds that a callback may take until it is reported as VNF_BLOCKED (500): on standard error while it
///                            runs, and to the ERROR callback of connection 0 when it returns
///   WEIR_VNF_REDIS           IP:PORT of the Redis for REMOTE state; [IP]:PORT for IPv6 (there is no remote state)
///   WEIR_VNF_REDIS_PASSWORD  its password (none)
///   WEIR_VNF_REDIS_MS        milliseconds until a call without an answer fails as VNF_REMOTE_TIMEOUT (1000)
///   WEIR_VNF_CACHE_KB        kilobytes of each core's cache of remote state (65536)
///
/// Returns 0 after stopEventLoop, or an error: VNF_STARTED, VNF_ARGUMENT (a variable of the environment is wrong), minus errno.
/// All connections are closed then, and all buffers and request objects gone.
#[unsafe(no_mangle)]
pub extern "C" fn startEventLoop() -> c_int {
    let run = || {
        let (mut vnf, plan) = {
            let mut setup = setup()?;
            setup.plan.cores = setup.vnf()?.cores();
            setup.started = true;
            let vnf = setup.vnf.take().ok_or(VNF_STARTED)?;
            (vnf, Arc::new(setup.plan.clone()))
        };
        vnf.report_stuck(|core, took| {
            eprintln!(
                "weir-vnf: core {core}: VNF_BLOCKED: a callback runs for {} ms, and holds up all others",
                took.as_millis()
            );
        });
        let running = vnf.start(move || Function::new(plan.clone())).map_err(|e| number(&e))?;
        let stopper = STOPPER.get_or_init(|| running.stopper());
        if STOPPED.load(Ordering::SeqCst) {
            stopper.stop();
        }
        running.wait().map_err(|e| number(&e))
    };
    status(run())
}

/// Asks the loops to end, and does not wait: startEventLoop returns when they have. From any thread, callback or signal handler, also
/// before startEventLoop.
#[unsafe(no_mangle)]
pub extern "C" fn stopEventLoop() {
    STOPPED.store(true, Ordering::SeqCst);
    if let Some(stopper) = STOPPER.get() {
        stopper.stop();
    }
}

/// The number of this core's loop, from 0, or VNF_NO_CALLBACK: for state of one's own by core, which needs no lock.
#[unsafe(no_mangle)]
pub extern "C" fn vnfCore() -> c_int {
    report(with_function(|_, core| Ok(core.number() as c_int)), |error| error)
}

fn new_vnf() -> Outcome<Vnf> {
    let cores = match variable("WEIR_VNF_CORES")? {
        Some(cores) => cores as usize,
        None => std::thread::available_parallelism().map_or(1, Into::into),
    };
    let mut vnf = Vnf::new(cores);
    if let Some(ms) = variable("WEIR_VNF_CALLBACK_MS")? {
        vnf.set_callback_limit(Duration::from_millis(ms));
    }
    if let Some(address) = std::env::var_os("WEIR_VNF_REDIS") {
        let address = address.to_str().and_then(|a| a.parse().ok()).ok_or(VNF_ARGUMENT)?;
        let mut redis = Redis::new(address);
        if let Some(password) = std::env::var_os("WEIR_VNF_REDIS_PASSWORD") {
            redis.password = Some(password.into_string().map_err(|_| VNF_ARGUMENT)?);
        }
        if let Some(ms) = variable("WEIR_VNF_REDIS_MS")? {
            redis.timeout = Duration::from_millis(ms);
        }
        if let Some(kilobytes) = variable("WEIR_VNF_CACHE_KB")? {
            redis.cache = kilobytes as usize * 1024;
        }
        vnf.remote(redis);
    }
    Ok(vnf)
}

fn variable(name: &str) -> Outcome<Option<u64>> {
    let Some(value) = std::env::var_os(name) else { return Ok(None) };
    let value = value.to_str().and_then(|v| v.parse().ok()).filter(|v| (1..=100_000_000).contains(v));
    value.map(Some).ok_or(VNF_ARGUMENT.into())
}

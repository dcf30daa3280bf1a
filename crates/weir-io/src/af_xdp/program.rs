//! The program that the kernel runs for each packet of an interface (XDP): it hands the packet to the socket of its
//! receive queue, and leaves it to the kernel if that queue has none.
//!
//! A few instructions, so they stand here as numbers: no compiler and no loader is needed. The program hangs on a
//! `bpf_link`, which the kernel takes away when its descriptor is closed, also after a crash.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Most queues of an interface.
pub const MAX_QUEUES: u32 = 64;

// linux/bpf.h
const BPF_MAP_CREATE: i64 = 0;
const BPF_MAP_UPDATE_ELEM: i64 = 2;
const BPF_PROG_LOAD: i64 = 5;
const BPF_OBJ_GET_INFO_BY_FD: i64 = 15;
const BPF_LINK_CREATE: i64 = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
// linux/if_link.h
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The place where the kernel runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before it makes a socket buffer.
    Native,
    /// After the driver, for drivers that cannot.
    Generic,
}

/// A program on an interface; it goes away with the last owner.
#[derive(Debug)]
pub struct Program {
    map: OwnedFd,
    /// Where it runs.
    pub mode: Mode,
    link: OwnedFd,
}

/// An interface: network namespace (its cookie) and index.
type Interface = (u64, u32);

/// The programs of this process, which ports on queues of one interface share.
static PROGRAMS: Mutex<Option<HashMap<Interface, Weak<Program>>>> = Mutex::new(None);

impl Program {
    /// The program on an interface of this thread's network namespace: the one that runs there for this process, or a
    /// new one, native if the driver can.
    ///
    /// # Errors
    /// `EBUSY` if another process has a program there.
    pub fn on(interface: Interface, generic: bool) -> io::Result<Arc<Program>> {
        // Between related changes of the map no code panics.
        let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let programs = programs.get_or_insert_default();
        programs.retain(|_, p| p.strong_count() > 0);
        let program = programs.get(&interface).and_then(Weak::upgrade);
        if let Some(program) = program.filter(|p| p.is_on(interface.1)) {
            return Ok(program);
        }
        let program = Arc::new(Program::load(interface.1, generic)?);
        programs.insert(interface, Arc::downgrade(&program));
        Ok(program)
    }

    /// Whether a program of this process runs on an interface.
    pub fn runs_on(interface: Interface) -> bool {
        let programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let program = programs.as_ref().and_then(|p| p.get(&interface)?.upgrade());
        program.is_some_and(|p| p.is_on(interface.1))
    }

    /// Whether the interface is still there: the program of one that was removed stays while it has owners, and another
    /// interface may get the same index.
    fn is_on(&self, index: u32) -> bool {
        // struct bpf_link_info: type, id, prog_id, padding, and for XDP the index, which is 0 without an interface.
        let mut info = [0u32; 8];
        let ask = ObjectInfo {
            fd: self.link.as_raw_fd() as u32,
            info_len: size_of_val(&info) as u32,
            info: (&raw mut info) as u64,
        };
        call(BPF_OBJ_GET_INFO_BY_FD, &ask).is_ok() && info[4] == index
    }

    fn load(index: u32, generic: bool) -> io::Result<Program> {
        // map_type, key_size, value_size, max_entries
        let map = bpf(BPF_MAP_CREATE, &[BPF_MAP_TYPE_XSKMAP, 4, 4, MAX_QUEUES])?;
        let code = instructions(map.as_raw_fd());
        let license = c"Apache-2.0";
        let load = ProgLoad {
            prog_type: BPF_PROG_TYPE_XDP,
            insn_cnt: code.len() as u32,
            insns: code.as_ptr() as u64,
            license: license.as_ptr() as u64,
            prog_name: *b"weir_xdp\0\0\0\0\0\0\0\0",
            expected_attach_type: BPF_XDP,
            ..ProgLoad::default()
        };
        let program = bpf(BPF_PROG_LOAD, &load)?;
        let attach = |flags| {
            // prog_fd, target_ifindex, attach_type, flags
            bpf(BPF_LINK_CREATE, &[program.as_raw_fd() as u32, index, BPF_XDP, flags])
        };
        let native =
            if generic { Err(io::ErrorKind::Unsupported.into()) } else { attach(XDP_FLAGS_DRV_MODE) };
        let (link, mode) = match native {
            Ok(link) => (link, Mode::Native),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return Err(e),
            Err(_) => (attach(XDP_FLAGS_SKB_MODE)?, Mode::Generic),
        };
        Ok(Program { map, mode, link })
    }

    /// Hands the packets of a receive queue to a socket. The kernel forgets it when the socket is closed.
    pub fn redirect(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        let value = socket.as_raw_fd() as u32;
        let update = MapUpdate {
            map_fd: self.map.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        call(BPF_MAP_UPDATE_ELEM, &update).map(drop)
    }
}

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS);`
fn instructions(map: i32) -> [u64; 6] {
    // struct bpf_insn: opcode, registers (source above destination), offset, immediate.
    let instruction = |code: u8, dst: u8, src: u8, offset: i16, immediate: i32| {
        let [o0, o1] = offset.to_ne_bytes();
        let [i0, i1, i2, i3] = immediate.to_ne_bytes();
        let registers = if cfg!(target_endian = "little") { src << 4 | dst } else { dst << 4 | src };
        u64::from_ne_bytes([code, registers, o0, o1, i0, i1, i2, i3])
    };
    [
        instruction(0x61, 2, 1, 16, 0),  // r2 = ctx->rx_queue_index
        instruction(0x18, 1, 1, 0, map), // r1 = the map
        instruction(0, 0, 0, 0, 0),      // (upper half of it)
        instruction(0xb7, 3, 0, 0, 2),   // r3 = XDP_PASS
        instruction(0x85, 0, 0, 0, 51),  // call bpf_redirect_map
        instruction(0x95, 0, 0, 0, 0),   // return r0
    ]
}

/// The part of `union bpf_attr` for `BPF_PROG_LOAD`.
#[derive(Default)]
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// The part of `union bpf_attr` for `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The part of `union bpf_attr` for `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct ObjectInfo {
    fd: u32,
    info_len: u32,
    info: u64,
}

/// A command that answers with a descriptor.
fn bpf<T>(command: i64, attributes: &T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: the commands that create something return a descriptor that is new, valid and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call<T>(command: i64, attributes: &T) -> io::Result<i32> {
    // The kernel reads the attributes and what their pointers name (instructions, licence, key, value), and writes into the
    // information about an object as many bytes as the attributes say.
    // SAFETY: all of these live until the call returns, and the information is made of integers, of that many bytes.
    let r = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r as i32) }
}

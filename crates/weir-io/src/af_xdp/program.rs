//! The program that the kernel runs for each packet of an interface (XDP): it hands the packet to the socket of its
//! receive queue, and leaves it to the kernel if that queue has none.
//!
//! A few instructions, so they stand here as numbers: no compiler and no loader is needed. The program hangs on a
//! `bpf_link`, which the kernel takes away when its descriptor is closed, also after a crash.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::bpf::{self, Link, Map};

pub use crate::bpf::Mode;

/// Most queues of an interface.
pub const MAX_QUEUES: u32 = 64;

/// `BPF_MAP_TYPE_XSKMAP` (linux/bpf.h).
const XSKMAP: u32 = 17;

/// A program on an interface; it goes away with the last owner.
#[derive(Debug)]
pub struct Program {
    map: Map,
    /// Where it runs.
    pub mode: Mode,
    link: Link,
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

    fn is_on(&self, index: u32) -> bool {
        self.link.interface() == Some(index)
    }

    fn load(index: u32, generic: bool) -> io::Result<Program> {
        let map = Map::new(XSKMAP, 4, 4, MAX_QUEUES)?;
        let program =
            bpf::Program::load(bpf::Hook::Xdp, &instructions(map.fd()), "weir_xdp").map_err(|e| e.source)?;
        let native = if generic {
            Err(io::ErrorKind::Unsupported.into())
        } else {
            program.attach(index, Mode::Native)
        };
        let link = match native {
            Ok(link) => link,
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return Err(e),
            Err(_) => program.attach(index, Mode::Generic)?,
        };
        Ok(Program { map, mode: link.mode, link })
    }

    /// Hands the packets of a receive queue to a socket. The kernel forgets it when the socket is closed.
    pub fn redirect(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        self.map.set(&queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())
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

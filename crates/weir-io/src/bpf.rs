//! eBPF in the kernel: maps, programs, and links that hang programs on interfaces, by the `bpf` system call.
//!
//! Everything here goes away when its last descriptor is closed, also after a crash: nothing is pinned, and a program hangs on
//! a `bpf_link`. So whatever a process has loaded, nothing is left of it when it ends.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

// linux/bpf.h
const BPF_MAP_CREATE: i64 = 0;
const BPF_MAP_LOOKUP_ELEM: i64 = 1;
const BPF_MAP_UPDATE_ELEM: i64 = 2;
const BPF_MAP_DELETE_ELEM: i64 = 3;
const BPF_MAP_GET_NEXT_KEY: i64 = 4;
const BPF_PROG_LOAD: i64 = 5;
const BPF_PROG_TEST_RUN: i64 = 10;
const BPF_OBJ_GET_INFO_BY_FD: i64 = 15;
const BPF_LINK_CREATE: i64 = 28;
const BPF_LINK_UPDATE: i64 = 29;
const BPF_MAP_TYPE_PERCPU_ARRAY: u32 = 6;
const BPF_PROG_QUERY: i64 = 16;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_XDP: u32 = 37;
/// Of maps by prefix, which make no entries in advance.
const BPF_MAP_TYPE_LPM_TRIE: u32 = 11;
const BPF_F_NO_PREALLOC: u32 = 1;
// linux/if_link.h
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Bytes of what the kernel's verifier says that are kept.
const LOG: usize = 1 << 20;

/// The place where the kernel runs a program of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before it makes a socket buffer.
    Native,
    /// After the driver, for drivers that cannot.
    Generic,
}

/// The hook that a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Frames that an interface receives, before anything is done with them.
    Xdp,
    /// Packets that an interface receives, as the kernel has them (`tcx`).
    Tc,
}

/// A map.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
    /// How many values an entry has: one for each processor, or one.
    values: usize,
}

impl Map {
    /// A map of this kind (`enum bpf_map_type`), with keys and values of so many bytes.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(kind: u32, key: u32, value: u32, entries: u32) -> io::Result<Map> {
        let flags = if kind == BPF_MAP_TYPE_LPM_TRIE { BPF_F_NO_PREALLOC } else { 0 };
        let fd = create(BPF_MAP_CREATE, &[kind, key, value, entries, flags])?;
        let values = if kind == BPF_MAP_TYPE_PERCPU_ARRAY { possible_processors()? } else { 1 };
        Ok(Map { fd, key: key as usize, value: value as usize, values })
    }

    /// Its descriptor, which instructions name.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// The values of an entry: one, or one for each processor.
    ///
    /// # Errors
    /// What the kernel says; not that there is no such entry.
    ///
    /// # Panics
    /// If the key has another length than the map's.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
        let stride = if self.values > 1 { self.value.next_multiple_of(8) } else { self.value };
        let mut value = vec![0u8; stride * self.values];
        let found = self.element(BPF_MAP_LOOKUP_ELEM, Some(key), value.as_mut_ptr() as u64, 0);
        match found {
            Ok(_) => Ok(Some(value.chunks(stride).map(|v| v[..self.value].to_vec()).collect())),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Makes or changes an entry, for every processor.
    ///
    /// # Errors
    /// What the kernel says: `E2BIG` if the map is full.
    ///
    /// # Panics
    /// If key or value have other lengths than the map's.
    pub fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.value, "a value has the length that its map has");
        let mut all = value.to_vec();
        if self.values > 1 {
            all.resize(self.value.next_multiple_of(8), 0);
            all = all.repeat(self.values);
        }
        self.element(BPF_MAP_UPDATE_ELEM, Some(key), all.as_mut_ptr() as u64, 0).map(drop)
    }

    /// Removes an entry; whether there was one.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Panics
    /// If the key has another length than the map's.
    pub fn remove(&self, key: &[u8]) -> io::Result<bool> {
        match self.element(BPF_MAP_DELETE_ELEM, Some(key), 0, 0) {
            Ok(_) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The keys of all entries. While packets make and remove entries, some may be missing, or be there twice.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn keys(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0u8; self.key];
            let last = all.last().map(Vec::as_slice);
            match self.element(BPF_MAP_GET_NEXT_KEY, last, next.as_mut_ptr() as u64, 0) {
                Ok(_) => all.push(next),
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(all),
                Err(e) => return Err(e),
            }
        }
    }

    fn element(&self, command: i64, key: Option<&[u8]>, value: u64, flags: u64) -> io::Result<i32> {
        assert!(key.is_none_or(|k| k.len() == self.key), "a key has the length that its map has");
        let element = Element {
            map_fd: self.fd.as_raw_fd() as u32,
            padding: 0,
            key: key.map_or(0, |k| k.as_ptr() as u64),
            value,
            flags,
        };
        call(command, &element)
    }
}

/// A program that the kernel does not take.
#[derive(Debug, thiserror::Error)]
#[error("the kernel refuses the program{}", said(log))]
pub struct LoadError {
    /// What the system call says.
    pub source: io::Error,
    /// What the kernel's verifier says, if anything.
    pub log: String,
}

impl LoadError {
    /// Whether the program was more than the kernel's verifier follows.
    pub fn too_complex(&self) -> bool {
        self.source.raw_os_error() == Some(libc::E2BIG) || self.log.contains("too complex")
    }
}

/// The last lines of what the verifier says, where the reason stands.
fn said(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|l| !l.starts_with("processed ")).collect();
    let last = &lines[lines.len().saturating_sub(2)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join("; ")) }
}

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    hook: Hook,
}

/// The result of a program's run on a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// What it returned.
    pub verdict: u32,
    /// The packet afterwards.
    pub packet: Vec<u8>,
}

impl Program {
    /// Loads a program. It may be named in up to 15 letters, digits, points and underscores.
    ///
    /// # Errors
    /// If the kernel does not take it, with what its verifier says.
    pub fn load(hook: Hook, code: &[u64], name: &str) -> Result<Program, LoadError> {
        let (prog_type, expected_attach_type) = match hook {
            Hook::Xdp => (BPF_PROG_TYPE_XDP, BPF_XDP),
            Hook::Tc => (BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_INGRESS),
        };
        let attempt = |log: &mut [u8]| {
            let license = c"Apache-2.0";
            let mut load = ProgLoad {
                prog_type,
                insn_cnt: code.len() as u32,
                insns: code.as_ptr() as u64,
                license: license.as_ptr() as u64,
                expected_attach_type,
                ..ProgLoad::default()
            };
            if !log.is_empty() {
                load.log_level = 1;
                load.log_size = log.len() as u32;
                load.log_buf = log.as_mut_ptr() as u64;
            }
            for (to, from) in load.prog_name.iter_mut().zip(name.bytes().take(15)) {
                *to = if from.is_ascii_alphanumeric() || from == b'.' { from } else { b'_' };
            }
            create(BPF_PROG_LOAD, &load)
        };
        let first = match attempt(&mut []) {
            Ok(fd) => return Ok(Program { fd, hook }),
            Err(e) => e,
        };
        if first.raw_os_error() == Some(libc::E2BIG) {
            return Err(LoadError {
                source: first,
                log: "its verifier follows no more than a million steps".into(),
            });
        }
        // Again, for the reason.
        let mut log = vec![0; LOG];
        match attempt(&mut log) {
            Ok(fd) => Ok(Program { fd, hook }),
            Err(_) => {
                let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
                Err(LoadError { source: first, log: String::from_utf8_lossy(&log[..end]).into_owned() })
            }
        }
    }

    /// Runs the program for a packet of 14 to about 3,500 bytes, without any interface.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn test(&self, packet: &[u8]) -> io::Result<Ran> {
        let mut out = vec![0u8; 4096];
        let run = TestRun {
            prog_fd: self.fd.as_raw_fd() as u32,
            data_size_in: packet.len() as u32,
            data_size_out: out.len() as u32,
            data_in: packet.as_ptr() as u64,
            data_out: out.as_mut_ptr() as u64,
            repeat: 1,
            ..TestRun::default()
        };
        // The kernel writes sizes and the verdict into the attributes.
        let mut attributes = [run];
        call_mut(BPF_PROG_TEST_RUN, &mut attributes)?;
        out.truncate(attributes[0].data_size_out as usize);
        Ok(Ran { verdict: attributes[0].retval, packet: out })
    }

    /// Hangs the program on an interface of this thread's network namespace. It goes when the link is dropped. Where programs
    /// for packets run, the mode is of no account.
    ///
    /// # Errors
    /// `EBUSY` if another program is there, which stays.
    pub fn attach(&self, index: u32, mode: Mode) -> io::Result<Link> {
        let program = self.fd.as_raw_fd() as u32;
        // prog_fd, target_ifindex, attach_type, flags
        let fd = match self.hook {
            Hook::Xdp => {
                let flags = match mode {
                    Mode::Native => XDP_FLAGS_DRV_MODE,
                    Mode::Generic => XDP_FLAGS_SKB_MODE,
                };
                create(BPF_LINK_CREATE, &[program, index, BPF_XDP, flags])?
            }
            Hook::Tc => {
                // Several may be there, and the first that decides does so for all.
                if count(index)? > 0 {
                    return Err(io::Error::from_raw_os_error(libc::EBUSY));
                }
                create(BPF_LINK_CREATE, &[program, index, BPF_TCX_INGRESS, 0])?
            }
        };
        Ok(Link { fd, mode })
    }
}

/// A program on an interface.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    /// Where it runs.
    pub mode: Mode,
}

impl Link {
    /// Puts another program into the place of the one that is there, between two packets.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn replace(&self, by: &Program) -> io::Result<()> {
        // link_fd, new_prog_fd, flags, old_prog_fd
        call(BPF_LINK_UPDATE, &[self.fd.as_raw_fd() as u32, by.fd.as_raw_fd() as u32, 0, 0]).map(drop)
    }

    /// The index of the interface, if it is still there: the program of one that was removed stays while it has owners, and
    /// another interface may get the same index.
    pub fn interface(&self) -> Option<u32> {
        // struct bpf_link_info: type, id, prog_id, padding, and for XDP the index, which is 0 without an interface.
        let mut info = [0u32; 8];
        let ask = ObjectInfo {
            fd: self.fd.as_raw_fd() as u32,
            info_len: size_of_val(&info) as u32,
            info: (&raw mut info) as u64,
        };
        call(BPF_OBJ_GET_INFO_BY_FD, &ask).ok()?;
        Some(info[4]).filter(|index| *index != 0)
    }
}

/// Programs for packets that an interface receives.
fn count(index: u32) -> io::Result<u32> {
    let query = Query { target: index, attach_type: BPF_TCX_INGRESS, ..Query::default() };
    let mut attributes = [query];
    call_mut(BPF_PROG_QUERY, &mut attributes)?;
    Ok(attributes[0].count)
}

/// Processors that the kernel may ever have: maps have a value for each.
fn possible_processors() -> io::Result<usize> {
    // Such as "0-3" or "0,2-5": it is the last that counts.
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit(['-', ',']).next().and_then(|n| n.parse::<usize>().ok());
    last.map(|n| n + 1).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no list of processors"))
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

/// The part of `union bpf_attr` for entries of maps.
#[repr(C)]
struct Element {
    map_fd: u32,
    padding: u32,
    key: u64,
    /// Or the next key.
    value: u64,
    flags: u64,
}

/// The part of `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[derive(Default)]
#[repr(C)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

/// The part of `union bpf_attr` for `BPF_PROG_QUERY`.
#[derive(Default)]
#[repr(C)]
struct Query {
    target: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    count: u32,
    padding: u32,
    prog_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// The part of `union bpf_attr` for `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct ObjectInfo {
    fd: u32,
    info_len: u32,
    info: u64,
}

/// A command that answers with a descriptor.
fn create<T>(command: i64, attributes: &T) -> io::Result<OwnedFd> {
    let fd = call(command, attributes)?;
    // SAFETY: the commands that create something return a descriptor that is new, valid and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call<T>(command: i64, attributes: &T) -> io::Result<i32> {
    // The kernel reads the attributes and what their pointers name (instructions, licence, key, value), and writes to what
    // the commands say (a value, the next key, the log, information about an object) as many bytes as the attributes, or the
    // map that was made with these sizes, say.
    // SAFETY: all of these live until the call returns, are made of integers, and are so long.
    let r = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>()) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r as i32) }
}

/// A command that writes into the attributes.
fn call_mut<T>(command: i64, attributes: &mut [T; 1]) -> io::Result<i32> {
    // SAFETY: as for `call`; the kernel writes into the attributes, which are integers and borrowed for that.
    let r = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of::<T>()) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r as i32) }
}

//! What compiled code calls. Each helper is the interpreter's counterpart, which does the same operation.
//!
//! A panic must not unwind through compiled code: one of the host waits until that has returned
//! ([`Ctx::with_host`]), one of anything else would end the process.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cranelift_codegen::ir::{Type, types};
use weir_ir::interp::MAX_STRANDS;
use weir_ir::program::{BlockId, MAX_STRAND_ARGS};
use weir_ir::{Host, Reason, interp};
use weir_packet::{Meta, Packet};
use weir_table::{EntryRef, Table, TableSet};

use crate::abi::profile::Profile;
use crate::flows::cache::{self as flows, Caches};

/// A packet that starts when the current one has ended.
#[derive(Debug)]
pub(crate) struct Strand {
    /// Number of the element that started it.
    pub starter: u32,
    /// Number of the start in the compiled function.
    pub start: u32,
    pub args: [u128; MAX_STRAND_ARGS],
    pub packet: Packet,
}

/// The context of a run of compiled code. The code knows the fields before `tables` by offset.
#[repr(C)]
pub(crate) struct Ctx<'a> {
    pub now: u64,
    pub hash_seed: u64,
    /// How often each loop header was entered since it was entered from outside.
    pub rounds: *mut u32,
    /// Where the outcome of each packet goes.
    pub outcomes: *mut u64,
    /// The first table of `tables`.
    pub first_table: *mut Table,
    /// What is known of the groups of lookups whose results are kept.
    pub flows: *const flows::View,
    /// For each group the entry that its leader found.
    pub flow_entries: *mut *mut u64,
    /// For each of these lookups how often it was answered from the cache.
    pub flow_hits: *mut u64,
    pub tables: &'a mut TableSet,
    pub host: &'a mut dyn Host,
    pub strands: &'a mut VecDeque<Strand>,
    pub profile: &'a mut Profile,
    pub caches: &'a mut Caches,
    /// The first panic of the host, to go on with when compiled code has returned.
    pub panic: Option<Box<dyn Any + Send>>,
}

impl Ctx<'_> {
    /// Calls the host, whose code is not ours. The answer is none if it panics.
    fn with_host<R>(&mut self, f: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(|| f(self.host))) {
            Ok(answer) => Some(answer),
            Err(panic) => {
                self.panic.get_or_insert(panic);
                None
            }
        }
    }
}

/// The compiled function: context, packets (each may be null) and how many, number of the start, its arguments. Runs
/// packets until all have ended or one has started others; gives the number of those that ended, each with an
/// [`Outcome`](crate::abi::outcome::Outcome).
pub(crate) type Code = unsafe extern "C" fn(&mut Ctx<'_>, *const *mut Meta, u64, u32, *const u128) -> u64;

/// The current packet as compiled code passes it: null, or what [`Packet::into_raw`] gave, and not otherwise in use
/// while a helper runs.
#[repr(transparent)]
pub(crate) struct Current(*mut Meta);

impl Current {
    fn with<R>(&self, f: impl FnOnce(&mut Packet) -> R) -> R {
        // SAFETY: see the type; helpers that need a packet are called only where the checker proved that there is.
        unsafe { Packet::with_raw(self.0, f) }
    }

    fn take(self) -> Packet {
        // SAFETY: as in `with`; compiled code does not use the packet after a helper took it.
        unsafe { Packet::from_raw(self.0) }
    }
}

/// Words of a key that compiled code put in its stack frame.
#[repr(transparent)]
pub(crate) struct Words(*const u64);

impl Words {
    fn get(&self, n: u32) -> &[u64] {
        // SAFETY: compiled code passes the address of `n` words in its frame.
        unsafe { std::slice::from_raw_parts(self.0, n as usize) }
    }
}

/// Values that compiled code put in its stack frame, or space for one there.
#[repr(transparent)]
pub(crate) struct Values(*mut u128);

impl Values {
    fn get(&self, n: u32) -> &[u128] {
        // SAFETY: compiled code passes the address of (at least) `n` values in its frame, aligned to 16 bytes.
        unsafe { std::slice::from_raw_parts(self.0, n as usize) }
    }

    fn get_mut(&mut self, n: u32) -> &mut [u128] {
        // SAFETY: as in `get`, and nothing else refers to the frame while the helper runs.
        unsafe { std::slice::from_raw_parts_mut(self.0, n as usize) }
    }
}

/// An entry of a cache of lookups.
#[repr(transparent)]
pub(crate) struct Kept(*mut u64);

/// The register that a type is passed in: 32 or 64 bits, which x86-64 and AArch64 pass without extending them.
trait Abi {
    const TYPE: Type;
    const IS_CONTEXT: bool = false;
}

impl Abi for u32 {
    const TYPE: Type = types::I32;
}
impl Abi for u64 {
    const TYPE: Type = types::I64;
}
impl Abi for Current {
    const TYPE: Type = types::I64;
}
impl Abi for Values {
    const TYPE: Type = types::I64;
}
impl Abi for Words {
    const TYPE: Type = types::I64;
}
impl Abi for Kept {
    const TYPE: Type = types::I64;
}
impl Abi for &mut Ctx<'_> {
    const TYPE: Type = types::I64;
    const IS_CONTEXT: bool = true;
}

/// The answer of a search that found nothing.
pub(crate) const NOT_FOUND: u64 = u64::MAX;

macro_rules! helpers {
    ($($variant:ident = fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block)*) => {
        /// A function that compiled code may call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Helper { $($variant),* }

        impl Helper {
            pub const ALL: &[Helper] = &[$(Helper::$variant),*];

            pub fn name(self) -> &'static str {
                match self { $(Helper::$variant => concat!("weir_", stringify!($name))),* }
            }

            pub fn params(self) -> Vec<Type> {
                match self { $(Helper::$variant => vec![$(<$ty as Abi>::TYPE),*]),* }
            }

            /// Whether the first argument is the context.
            pub fn takes_context(self) -> bool {
                match self { $(Helper::$variant => [$(<$ty as Abi>::IS_CONTEXT),*].contains(&true)),* }
            }

            pub fn result(self) -> Option<Type> {
                match self { $(Helper::$variant => None::<Type>$(.or(Some(<$ret as Abi>::TYPE)))?),* }
            }

            pub fn address(self) -> *const u8 {
                match self { $(Helper::$variant => $name as *const u8),* }
            }
        }

        $(#[allow(clippy::too_many_arguments, reason = "compiled code passes what it knows as it is")]
        extern "C" fn $name($($arg: $ty),*) $(-> $ret)? $body)*
    };
}

impl Helper {
    /// Whether calls are off the path of most packets. Such a call leaves all registers alone, so that code that makes none
    /// runs as if it were not there.
    pub fn is_cold(self) -> bool {
        use Helper::*;
        matches!(self, Push | Checksum | FindWords | Insert | Claim | Soonest | Touch | Link | Remove)
    }

    /// Name of the function that calls the helper and leaves all registers alone.
    pub fn cold_name(self) -> String {
        format!("{}_rarely", self.name())
    }
}

helpers! {
    Push = fn push(packet: Current, n: u32) -> u32 {
        packet.with(|p| p.push(n).is_ok()).into()
    }
    Put = fn put(packet: Current, n: u32) -> u32 {
        packet.with(|p| p.put(n).is_ok()).into()
    }
    Checksum = fn checksum(packet: Current, from: u32, to: u32) -> u32 {
        packet.with(|p| interp::checksum(p.buffer().get(from as usize..to as usize).unwrap_or(&[]))).into()
    }
    CopyBytes = fn copy_bytes(packet: Current, to: u32, from: u32, len: u32) {
        packet.with(|p| p.buffer_mut().copy_within(from as usize..(from + len) as usize, to as usize));
    }
    CompareBytes = fn compare_bytes(packet: Current, a: u32, b: u32, len: u32) -> u32 {
        let (a, b, len) = (a as usize, b as usize, len as usize);
        packet.with(|p| p.buffer()[a..a + len] == p.buffer()[b..b + len]).into()
    }
    FindByte = fn find_byte(packet: Current, base: u32, start: u32, end: u32, byte: u32) -> u32 {
        if start >= end {
            return end;
        }
        let (from, to) = ((base + start) as usize, (base + end) as usize);
        let found = packet.with(|p| {
            p.buffer().get(from..to).unwrap_or(&[]).iter().position(|&b| u32::from(b) == byte)
        });
        found.map_or(end, |i| start + i as u32)
    }
    Rem = fn rem(args: Values) {
        let mut args = args;
        if let [a, b] = args.get_mut(2) {
            *a = a.checked_rem(*b).unwrap_or(0);
        }
    }
    Probe = fn probe(ctx: &mut Ctx<'_>, what: u32) {
        ctx.profile.enter(what);
    }
    Random = fn random(ctx: &mut Ctx<'_>) -> u32 {
        ctx.with_host(|host| host.random()).unwrap_or(0)
    }
    Lookup = fn lookup(ctx: &mut Ctx<'_>, table: u32, key: Values, n: u32) -> u64 {
        ctx.tables.table(table).lookup(key.get(n)).map_or(NOT_FOUND, u64::from)
    }
    FindWords = fn find_words(ctx: &mut Ctx<'_>, table: u32, key: Words, n: u32) -> u64 {
        ctx.tables.table(table).find_words(key.get(n)).map_or(NOT_FOUND, u64::from)
    }
    FindRule = fn find_rule(ctx: &mut Ctx<'_>, table: u32, key: Words, n: u32) -> u64 {
        ctx.tables.table(table).find_rule(key.get(n)).map_or(NOT_FOUND, u64::from)
    }
    Learn = fn learn(ctx: &mut Ctx<'_>, lookup: u32, entry: Kept, key: Words, n: u32) -> u64 {
        // SAFETY: compiled code passes an entry that it has found in the cache of the lookup's group.
        let found = unsafe { ctx.caches.learn(lookup as usize, entry.0, key.get(n), ctx.tables) };
        found.map_or(NOT_FOUND, u64::from)
    }
    Insert = fn insert(ctx: &mut Ctx<'_>, table: u32, key: Values, n: u32) -> u64 {
        ctx.tables.table_mut(table).insert(key.get(n)).map_or(NOT_FOUND, u64::from)
    }
    // The key is followed by lowest, highest and first value; the claimed value takes the place of the lowest.
    Claim = fn claim(ctx: &mut Ctx<'_>, table: u32, args: Values, n: u32, hole: u32) -> u64 {
        let mut args = args;
        let (key, range) = args.get_mut(n + 3).split_at_mut(n as usize);
        let [lo, hi, start] = [range[0], range[1], range[2]];
        match ctx.tables.table_mut(table).claim(key, hole as usize, lo, hi, start) {
            Some((slot, claimed)) => {
                range[0] = claimed;
                slot.into()
            }
            None => NOT_FOUND,
        }
    }
    // What the entry has left goes to the frame.
    Soonest = fn soonest(ctx: &mut Ctx<'_>, table: u32, left: Values) -> u64 {
        let mut left = left;
        match ctx.tables.soonest(table, ctx.now) {
            Some((slot, nanos)) => {
                left.get_mut(1)[0] = nanos.into();
                slot.into()
            }
            None => NOT_FOUND,
        }
    }
    Meter = fn meter(ctx: &mut Ctx<'_>, table: u32, slot: u32, field: u32, cost: u64, rate: u64, burst: u64) -> u32 {
        let table = ctx.tables.table_mut(table);
        let mut state = table.get(slot, field);
        let enough = weir_table::meter(&mut state, ctx.now, cost, rate, burst);
        table.set(slot, field, state);
        enough.into()
    }
    Hold = fn hold(ctx: &mut Ctx<'_>, table: u32, slot: u32, packet: Current) -> u32 {
        match ctx.tables.table_mut(table).hold(slot, packet.take()) {
            Ok(()) => 1,
            // The packet goes back to compiled code, which still knows its address.
            Err(packet) => {
                _ = packet.into_raw();
                0
            }
        }
    }
    Set = fn set(ctx: &mut Ctx<'_>, table: u32, slot: u32, field: u32, low: u64, high: u64) {
        ctx.tables.table_mut(table).set(slot, field, u128::from(high) << 64 | u128::from(low));
    }
    Touch = fn touch(ctx: &mut Ctx<'_>, table: u32, slot: u32, after: u64) {
        ctx.tables.touch(EntryRef { table, slot }, ctx.now, after);
    }
    Link = fn link(ctx: &mut Ctx<'_>, table_a: u32, slot_a: u32, table_b: u32, slot_b: u32) {
        ctx.tables.link(EntryRef { table: table_a, slot: slot_a }, EntryRef { table: table_b, slot: slot_b });
    }
    Remove = fn remove(ctx: &mut Ctx<'_>, table: u32, slot: u32) {
        ctx.tables.remove(EntryRef { table, slot });
    }
    GroupCount = fn group_count(ctx: &mut Ctx<'_>, table: u32, low: u64, high: u64) -> u32 {
        ctx.tables.table(table).group_count(u128::from(high) << 64 | u128::from(low))
    }
    Fork = fn fork(ctx: &mut Ctx<'_>, packet: Current, copy: u32, start: u32, args: Values, n: u32, at: u32, starter: u32) {
        let packet = match (packet.0.is_null(), copy != 0) {
            (false, true) => packet.with(|p| p.copy()),
            (false, false) => packet.with(|p| p.successor()),
            (true, _) => Packet::made(),
        };
        start_strand(ctx, packet, start, args.get(n), at, starter);
    }
    Release = fn release(ctx: &mut Ctx<'_>, table: u32, slot: u32, start: u32, args: Values, n: u32, at: u32, starter: u32) {
        for packet in ctx.tables.table_mut(table).release(slot) {
            start_strand(ctx, packet, start, args.get(n), at, starter);
        }
    }
    Notify = fn notify(ctx: &mut Ctx<'_>, event: u32, args: Values, n: u32, packet: Current) {
        _ = ctx.with_host(|host| {
            if packet.0.is_null() {
                host.notify(event, args.get(n), None);
            } else {
                packet.with(|p| host.notify(event, args.get(n), Some(p)));
            }
        });
    }
}

fn start_strand(ctx: &mut Ctx<'_>, packet: Packet, start: u32, given: &[u128], at: u32, starter: u32) {
    if ctx.strands.len() >= MAX_STRANDS {
        _ = ctx.with_host(|host| host.dropped(BlockId(at), &Reason::LOOP_LIMIT, packet));
        return;
    }
    let mut args = [0; MAX_STRAND_ARGS];
    for (to, from) in args.iter_mut().zip(given) {
        *to = *from;
    }
    let turn = interp::turn(ctx.strands.iter().map(|s| s.starter), starter);
    ctx.strands.insert(turn, Strand { starter, start, args, packet });
}

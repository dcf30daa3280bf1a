//! Memory that C code holds by address: request objects and packet buffers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use weir_vnf::{Buffer, RequestId};

/// Most bytes of a request object.
pub(crate) const MOST_BYTES: usize = 1 << 20;

/// Request objects of each type that a core has memory for before it asks for more, but no more than 1 MiB of a type.
const PREALLOCATED: usize = 1024;

/// The request object as the Rust library sees it: memory of C code.
#[derive(Debug)]
pub(crate) struct Object {
    /// Aligned for all types of C. A `Vec`, so that addresses which C code has stay good when it is moved.
    memory: Vec<u128>,
    kind: usize,
    /// Buffers that belong to it, by address.
    pub(crate) kept: Vec<usize>,
    /// Where it goes when its last link is gone: the Rust library drops it at a time of its own.
    ended: Rc<RefCell<Vec<Ended>>>,
}

/// The remains of a request object.
#[derive(Debug)]
pub(crate) struct Ended {
    memory: Vec<u128>,
    kind: usize,
    pub(crate) kept: Vec<usize>,
}

impl Drop for Object {
    fn drop(&mut self) {
        let (memory, kept) = (std::mem::take(&mut self.memory), std::mem::take(&mut self.kept));
        self.ended.borrow_mut().push(Ended { memory, kind: self.kind, kept });
    }
}

impl Object {
    pub(crate) fn address(&mut self) -> *mut c_void {
        self.memory.as_mut_ptr().cast()
    }
}

/// The request objects of a core.
#[derive(Debug)]
pub(crate) struct Objects {
    /// Memory of each type: units of an object, and what is free, the longest free first.
    pools: Vec<(usize, VecDeque<Vec<u128>>)>,
    by_address: FxHashMap<usize, RequestId>,
    ended: Rc<RefCell<Vec<Ended>>>,
}

impl Objects {
    pub(crate) fn new(sizes: &[usize]) -> Self {
        let pools = sizes.iter().map(|size| {
            let units = size.div_ceil(size_of::<u128>()).max(1);
            let count = PREALLOCATED.min(MOST_BYTES / (units * size_of::<u128>()));
            (units, (0..count).map(|_| vec![0; units]).collect())
        });
        Self { pools: pools.collect(), by_address: FxHashMap::default(), ended: Rc::default() }
    }

    /// A new object of zeroes; `None` if there is no such type.
    pub(crate) fn make(&mut self, kind: usize) -> Option<Object> {
        let (units, free) = self.pools.get_mut(kind)?;
        let memory = match free.pop_front() {
            Some(mut memory) => {
                memory.fill(0);
                memory
            }
            None => vec![0; *units],
        };
        Some(Object { memory, kind, kept: Vec::new(), ended: self.ended.clone() })
    }

    pub(crate) fn name(&mut self, address: *mut c_void, id: RequestId) {
        self.by_address.insert(address as usize, id);
    }

    pub(crate) fn find(&self, address: *mut c_void) -> Option<RequestId> {
        self.by_address.get(&(address as usize)).copied()
    }

    /// Takes back the memory of an object that has ended; what is left of it.
    pub(crate) fn take_back(&mut self) -> Option<Ended> {
        let mut ended = self.ended.borrow_mut().pop()?;
        self.by_address.remove(&(ended.memory.as_ptr() as usize));
        self.pools[ended.kind].1.push_back(std::mem::take(&mut ended.memory));
        Some(ended)
    }
}

/// Whose a kept buffer is: it goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The callback that runs.
    Callback,
    Request(RequestId),
    Connection(i32),
}

/// A packet buffer that C code holds.
#[derive(Debug)]
struct Held {
    buffer: Buffer,
    owner: Owner,
    /// The number of the connection that it came from, or was asked for.
    connection: i32,
}

/// The packet buffers of a core that C code holds.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    by_address: FxHashMap<usize, Held>,
    /// Those that go with the callback that runs, and some that have another owner by now.
    of_callback: Vec<usize>,
}

impl Buffers {
    /// Lends a buffer to the callback that runs.
    pub(crate) fn lend(&mut self, mut buffer: Buffer, connection: i32) -> *mut c_char {
        let pointer = buffer.memory().as_mut_ptr();
        self.by_address.insert(pointer as usize, Held { buffer, owner: Owner::Callback, connection });
        self.of_callback.push(pointer as usize);
        pointer.cast()
    }

    pub(crate) fn owner(&self, address: usize) -> Option<Owner> {
        self.by_address.get(&address).map(|held| held.owner)
    }

    pub(crate) fn connection(&self, address: usize) -> i32 {
        self.by_address.get(&address).map_or(0, |held| held.connection)
    }

    pub(crate) fn keep(&mut self, address: usize, owner: Owner) {
        if let Some(held) = self.by_address.get_mut(&address) {
            held.owner = owner;
        }
    }

    /// Gives a kept buffer to the callback that runs.
    pub(crate) fn release(&mut self, address: usize) {
        self.keep(address, Owner::Callback);
        self.of_callback.push(address);
    }

    pub(crate) fn take(&mut self, address: usize) -> Option<Buffer> {
        self.by_address.remove(&address).map(|held| held.buffer)
    }

    /// A copy of the first `length` bytes of a buffer.
    pub(crate) fn copy(&mut self, address: usize, length: usize) -> Option<Buffer> {
        let held = self.by_address.get_mut(&address)?;
        let mut copy = Buffer::new();
        copy.append(&held.buffer.memory()[..length]);
        Some(copy)
    }

    /// Takes back what the callback that ends has not kept.
    pub(crate) fn end_callback(&mut self) {
        for address in self.of_callback.drain(..) {
            if self.by_address.get(&address).is_some_and(|held| held.owner == Owner::Callback) {
                self.by_address.remove(&address);
            }
        }
    }

    /// Those of a connection.
    pub(crate) fn of_connection(&self, number: i32) -> Vec<usize> {
        let owned = self.by_address.iter().filter(|(_, held)| held.owner == Owner::Connection(number));
        owned.map(|(address, _)| *address).collect()
    }
}

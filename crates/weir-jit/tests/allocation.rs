//! Packets that pass through compiled code cost no allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use weir_ir::program::BlockId;
use weir_ir::{Builder, Host, Layer, Reason, TableDecl, Width::*};
use weir_jit::differential::tables_of;
use weir_jit::{BatchHost, Compiled, Runner};
use weir_packet::Packet;
use weir_table::Kind;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Keeps the packets, to send them again.
#[derive(Default)]
struct Keep(Vec<Packet>);

impl BatchHost for Keep {}

impl Host for Keep {
    fn exit(&mut self, _: u32, packet: Packet) {
        self.0.push(packet);
    }

    fn dropped(&mut self, _: BlockId, _: &Reason, _: Packet) {}

    fn orphaned(&mut self, _: Packet) {}

    fn random(&mut self) -> u32 {
        4
    }
}

#[test]
fn packets_cost_no_allocation() {
    let mut b = Builder::new("Flows", 1, 1);
    let flows =
        b.table(TableDecl::new("flows", Kind::Exact, &[("a", W128), ("b", W16)], &[("n", W64)], 8), vec![]);
    b.input(0, |b| {
        b.require(Layer::Data, 40, Reason::TRUNCATED);
        let (a, c) = (b.load(W128, Layer::Data, 4), b.load(W16, Layer::Data, 30));
        let e = b.insert(flows, &[a, c], |b| b.drop(Reason::FULL));
        let n = b.get(e, "n");
        let n = b.add(n, 1);
        b.set(e, "n", n);
        let sum = b.checksum(Layer::Data, 0, 40);
        b.store(Layer::Data, 38, sum);
        b.push(8);
        b.pull(8);
        // The copy is made and dropped: its buffer comes from the free list and goes back.
        b.fork(|b| b.drop(Reason::CONSUMED));
        b.emit(0);
    });
    let program = b.finish();
    let compiled = Compiled::new(&program).unwrap();
    compiled.look_ahead(&program).unwrap();
    let entry = program.packet_entry(0, 0).unwrap();
    let (mut tables, mut runner, mut host) = (tables_of(&program), Runner::default(), Keep::default());
    let mut batch = vec![Packet::from_bytes(&[7; 60]).unwrap(), Packet::from_bytes(&[8; 60]).unwrap()];
    for round in 0..100 {
        // The first rounds fill the free lists, the table and the queues.
        if round == 10 {
            COUNT.with(|c| c.set(0));
        }
        compiled.run_batch(&mut runner, &mut tables, &mut host, round, entry, &mut batch);
        assert_eq!(host.0.len(), 2);
        std::mem::swap(&mut batch, &mut host.0);
    }
    assert_eq!(COUNT.with(Cell::get), 0);
}

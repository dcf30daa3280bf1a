//! What functions have in their stack frames.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{
    self, AliasRegionData, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, types,
};
use cranelift_frontend::FunctionBuilder;

/// The kind of memory of the first slot of the stack frame that keeps a number: each has its own, behind those of
/// [`Regions`](crate::translate::Regions).
const KEPT_REGION: u32 = 64;

/// The stack frame of a function, and the block where packets end.
pub(crate) struct Frame {
    /// What is done before all else.
    pub entry: ir::Block,
    /// Ends a packet with the outcome that is the block's parameter.
    pub ended: ir::Block,
    /// The address of the context, for who passes it on.
    pub context: Kept,
    /// Where the addresses of the batch's packets end.
    pub end: Kept,
    /// Space for values that helpers take and give, 16 bytes each, and for what is written to entries that are gone.
    pub values: StackSpace,
    /// What goes to a slow-path helper, and comes back; none in a function that keeps all registers itself.
    pub passed: Option<StackSpace>,
    /// Address of the first table.
    pub first_table: Kept,
}

impl Frame {
    /// Where to put what is done before all else.
    pub fn before<'f>(&self, b: &'f mut FunctionBuilder<'_>) -> FuncCursor<'f> {
        FuncCursor::new(b.func).at_last_inst(self.entry)
    }
}

/// A number that is read from memory where it is needed, as at the end of a packet: in a register it would be in the way
/// of all that comes before. Kinds of memory of their own let the compiler use a register where nothing is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    /// Where it is: `off` bytes behind an address.
    at: ir::Value,
    off: i32,
    flags: MemFlagsData,
}

impl Kept {
    /// Keeps a number; the cursor is before the loop.
    pub fn new(before: &mut FuncCursor<'_>, number: ir::Value) -> Kept {
        let slot = slot(before.func, 8, 3);
        let user_id = KEPT_REGION + slot.as_u32();
        let data = AliasRegionData { user_id, description: "loop over the batch".into() };
        let region = before.func.dfg.alias_regions.insert(data);
        let flags = MemFlagsData::trusted().with_alias_region(Some(region));
        let at = before.ins().stack_addr(types::I64, slot, 0);
        before.ins().store(flags, number, at, 0);
        Kept { at, off: 0, flags }
    }

    /// One that others keep, `off` bytes behind an address.
    pub fn there(at: ir::Value, off: usize) -> Kept {
        Kept { at, off: off as i32, flags: MemFlagsData::trusted() }
    }

    /// Where it is; the cursor is before the loop.
    pub fn address(self, before: &mut FuncCursor<'_>) -> ir::Value {
        before.ins().iadd_imm_s(self.at, i64::from(self.off))
    }

    pub fn get(self, b: &mut FunctionBuilder<'_>) -> ir::Value {
        b.ins().load(types::I64, self.flags, self.at, self.off)
    }

    pub fn set(self, b: &mut FunctionBuilder<'_>, number: ir::Value) {
        b.ins().store(self.flags, number, self.at, self.off);
    }
}

/// Space in the stack frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackSpace {
    /// Where it is, for who reads or writes there: that becomes part of the instruction.
    pub at: ir::Value,
    /// The same for who takes an address: the compiler would work it out before the loop, and keep it.
    pub number: Kept,
}

impl StackSpace {
    /// The space of a slot; the cursor is before the loop.
    pub fn new(before: &mut FuncCursor<'_>, slot: StackSlot) -> StackSpace {
        let at = before.ins().stack_addr(types::I64, slot, 0);
        StackSpace { at, number: Kept::new(before, at) }
    }
}

/// A slot of the stack frame: its size in bytes, and the power of two that it is aligned to.
pub(crate) fn slot(func: &mut ir::Function, size: usize, align: u8) -> StackSlot {
    func.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size as u32, align))
}

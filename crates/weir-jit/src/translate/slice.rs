//! Code of slices ([`crate::flows::slices`]).

use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use cranelift_frontend::FunctionBuilder;
use cranelift_module::ModuleError;
use rustc_hash::FxHashSet;
use weir_ir::Layer;
use weir_ir::program::{End, Op, Value};
use weir_packet::SMALL_CAPACITY;
use weir_table::Kind;

use crate::flows::slices::Slice;
use crate::translate::Translator;
use crate::translate::batch::Batch;
use crate::translate::emit::Emitter;
use crate::translate::layers::INLINE;
use crate::translate::packet::PacketState;

/// The positions of layers on the path, once they were asked for.
pub(crate) type Positions = [Option<ir::Value>; Layer::ALL.len()];

impl<'b> Translator<'_, 'b> {
    /// Makes a function with the signature of a program's: for each packet it writes the hash (or, for prefixes that
    /// are looked up in their table, the value) of the key to the array that stands for the arguments, 64 bits each.
    pub fn translate_slice(
        mut self,
        batch: &Batch,
        slice: &Slice,
    ) -> Result<FunctionBuilder<'b>, Box<ModuleError>> {
        self.packet.at = batch.packet(&mut self.code);
        let needed = slice.needed(self.p).unwrap_or_default();
        self.packet.sliced = Some([None; _]);
        for (i, &(id, exit)) in slice.path.iter().enumerate() {
            let block = self.p.block(id);
            self.values.plan(self.known.uses, id);
            for op in &block.ops {
                self.slice_op(op, &needed);
            }
            let Some(&(next, _)) = slice.path.get(i + 1) else { break };
            match block.end {
                End::Push { n, .. } | End::Unpull { n, .. } if exit == 0 => {
                    let n = self.values.amount(&mut self.code, n);
                    let at = self.packet.position(&mut self.code, Layer::Data);
                    let at = self.code.b.ins().isub(at, n);
                    self.packet.move_layer(Layer::Data, at);
                }
                _ => {}
            }
            if let Some(target) = block.end.targets().get(exit) {
                let params = self.p.block(next).params.iter().skip(block.end.supplied(exit));
                for (&param, &arg) in params.zip(&target.args) {
                    if needed.contains(&param) {
                        let v = self.values.get(&mut self.code, arg);
                        self.values.set(param, v);
                    }
                }
            }
        }
        let value = if slice.group.is_some() {
            let words = self.values.packed_key(&mut self.code, &slice.key);
            self.code.flow_hash(&words)
        } else if self.p.tables[slice.table.0 as usize].decl.kind == Kind::Exact {
            self.tables.exact_key(&mut self.code, &self.here, &mut self.values, slice.table, &slice.key).1
        } else {
            let v = self.values.get(&mut self.code, slice.key[0]);
            self.code.halves(v).0
        };
        self.close_slice(batch, value);
        self.close()
    }

    fn slice_op(&mut self, op: &Op, needed: &FxHashSet<Value>) {
        match *op {
            Op::SetMark { layer, base, off } => {
                let (base, off) =
                    (self.packet.position(&mut self.code, base), self.values.amount(&mut self.code, off));
                let at = self.code.b.ins().iadd(base, off);
                self.packet.move_layer(layer, at);
            }
            Op::Pull { n } => {
                let (data, n) = (
                    self.packet.position(&mut self.code, Layer::Data),
                    self.values.amount(&mut self.code, n),
                );
                let at = self.code.b.ins().iadd(data, n);
                self.packet.move_layer(Layer::Data, at);
            }
            _ => {
                if op.dst().is_some_and(|v| needed.contains(&v)) {
                    self.op(op, None);
                }
            }
        }
    }

    fn close_slice(&mut self, batch: &Batch, value: ir::Value) {
        batch.note_result(&mut self.code, batch.args, value);
        let (next, is_more) = batch.next_packet(&mut self.code);
        let done = self.code.b.create_block();
        self.code.b.ins().brif(is_more, batch.head, &[BlockArg::Value(next)], done, &[]);
        self.code.b.switch_to_block(done);
        let none = self.code.imm(types::I64, 0);
        self.code.b.ins().return_(&[none]);
    }
}

impl PacketState {
    /// A layer is somewhere in the smallest buffer, whatever the packet is.
    fn move_layer(&mut self, layer: Layer, at: ir::Value) {
        if let Some(positions) = &mut self.sliced {
            positions[layer as usize] = Some(at);
        }
    }
}

impl Emitter<'_, '_> {
    /// A position that can be read from, `off` bytes behind a layer, even if the packet has no such layer.
    pub fn within(&mut self, position: ir::Value, off: u32) -> ir::Value {
        let last = self.imm32((SMALL_CAPACITY - INLINE).saturating_sub(off));
        self.b.ins().umin(position, last)
    }
}

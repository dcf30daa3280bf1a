//! Operations on the packet.

use super::*;

impl Builder {
    /// Reads `layer + off`.
    pub fn load(&mut self, width: Width, layer: Layer, off: u32) -> V {
        self.define(width, |dst| Op::Load { dst, layer, off })
    }

    /// Writes `layer + off`.
    pub fn store(&mut self, layer: Layer, off: u32, v: V) {
        self.op(Op::Store { layer, off, src: v.value });
    }

    /// Writes a constant at `layer + off`.
    pub fn store_const(&mut self, width: Width, layer: Layer, off: u32, value: impl Into<u128>) {
        let v = self.constant(width, value);
        self.store(layer, off, v);
    }

    /// Length of the packet.
    pub fn len(&mut self) -> V {
        self.rest(Layer::Data)
    }

    /// Bytes from a layer to the end of the packet.
    pub fn rest(&mut self, layer: Layer) -> V {
        self.define(Width::W32, |dst| Op::Rest { dst, layer })
    }

    /// Position of `to` minus position of `from`.
    pub fn distance(&mut self, from: Layer, to: Layer) -> V {
        self.define(Width::W32, |dst| Op::Distance { dst, from, to })
    }

    /// Sets a mark to `base + off`.
    pub fn set_mark(&mut self, layer: Layer, base: Layer, off: impl Into<Amount>) {
        self.op(Op::SetMark { layer, base, off: off.into() });
    }

    /// Unsets a mark.
    pub fn clear_mark(&mut self, layer: Layer) {
        self.op(Op::ClearMark { layer });
    }

    /// Reads an annotation.
    pub fn load_anno(&mut self, width: Width, off: u32) -> V {
        self.define(width, |dst| Op::LoadAnno { dst, off })
    }

    /// Writes an annotation.
    pub fn store_anno(&mut self, off: u32, v: V) {
        self.op(Op::StoreAnno { off, src: v.value });
    }

    /// Reads metadata.
    pub fn load_meta(&mut self, field: MetaField) -> V {
        self.define(field.width(), |dst| Op::LoadMeta { dst, field })
    }

    /// Writes metadata.
    pub fn store_meta(&mut self, field: MetaField, v: V) {
        self.op(Op::StoreMeta { field, src: v.value });
    }

    /// Ones' complement sum of a range.
    pub fn checksum(&mut self, layer: Layer, start: u32, end: impl Into<Amount>) -> V {
        let end = end.into();
        self.define(Width::W16, |dst| Op::Checksum { dst, layer, start, end })
    }

    /// Copies bytes within the packet.
    pub fn copy_bytes(&mut self, to: (Layer, u32), from: (Layer, u32), len: u32) {
        self.op(Op::CopyBytes { to, from, len });
    }

    /// Whether two ranges are equal.
    pub fn compare_bytes(&mut self, a: (Layer, u32), b: (Layer, u32), len: u32) -> V {
        self.define(Width::W1, |dst| Op::CompareBytes { dst, a, b, len })
    }

    /// Where a byte first stands in a range; `end` if nowhere.
    pub fn find_byte(&mut self, layer: Layer, start: u32, end: impl Into<Amount>, byte: V) -> V {
        let end = end.into();
        self.define(Width::W32, |dst| Op::FindByte { dst, layer, start, end, byte: byte.value })
    }

    /// Removes bytes in front.
    pub fn pull(&mut self, n: impl Into<Amount>) {
        self.op(Op::Pull { n: n.into() });
    }

    /// Cuts the packet.
    pub fn trim(&mut self, len: V) {
        self.op(Op::Trim { len: len.value });
    }

    /// Goes on if the packet has `n` bytes from `layer` on, else drops it.
    pub fn require(&mut self, layer: Layer, n: impl Into<Amount>, reason: Reason) {
        self.require_or(layer, n, |b| b.drop(reason));
    }

    /// Goes on if the packet has `n` bytes from `layer` on, else does `fail`. If `fail` does not end, it joins, and
    /// the bytes are not known to be there.
    pub fn require_or(&mut self, layer: Layer, n: impl Into<Amount>, fail: impl FnOnce(&mut Builder)) {
        let n = n.into();
        self.or_else(fail, |ok, fail| End::Require { layer, n, ok, fail });
    }

    /// Whether the packet has `n` bytes from `layer` on.
    pub fn if_has(
        &mut self,
        layer: Layer,
        n: impl Into<Amount>,
        yes: impl FnOnce(&mut Builder),
        no: impl FnOnce(&mut Builder),
    ) {
        let n = n.into();
        self.either(yes, no, |ok, fail| End::Require { layer, n, ok, fail });
    }

    /// Adds zero bytes in front, or drops the packet (`NoSpace`).
    pub fn push(&mut self, n: impl Into<Amount>) {
        let n = n.into();
        self.or_else(|b| b.drop(Reason::NO_SPACE), |ok, fail| End::Push { n, ok, fail });
    }

    /// Takes back bytes that were pulled, or drops the packet (`NoSpace`).
    pub fn unpull(&mut self, n: impl Into<Amount>) {
        self.unpull_or(n, |b| b.drop(Reason::NO_SPACE));
    }

    /// Takes back bytes that were pulled, or does `fail` if there were never so many.
    pub fn unpull_or(&mut self, n: impl Into<Amount>, fail: impl FnOnce(&mut Builder)) {
        let n = n.into();
        self.or_else(fail, |ok, fail| End::Unpull { n, ok, fail });
    }

    /// Adds zero bytes at the end, or drops the packet (`NoSpace`).
    pub fn put(&mut self, n: impl Into<Amount>) {
        let n = n.into();
        self.or_else(|b| b.drop(Reason::NO_SPACE), |ok, fail| End::Put { n, ok, fail });
    }
}

//! What stands on the stack beside values.

use std::collections::{BTreeMap, HashMap};

use weir_ir::MetaField;
use weir_ir::program::{BlockId, End, Op, Program};

use super::packet::MOST_MOVED;
use crate::maps::Layout;
use crate::usage::Usages;

/// Offsets from the frame pointer. The first word is a key of 0, the next five are the layers.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// The annotations.
    pub anno: Option<i16>,
    /// The time.
    pub time: Option<i16>,
    /// Metadata that programs change and read.
    pub meta: BTreeMap<u8, i16>,
    /// How often loop headers were entered.
    pub rounds: HashMap<BlockId, i16>,
    /// How often the packet went round.
    pub hops: Option<i16>,
    /// A key that is put together.
    pub key: i16,
    /// A value that is put together.
    pub value: i16,
    /// Bytes that are moved.
    pub copy: i16,
    /// Bytes in all.
    pub bytes: u32,
}

/// The number of a field of the metadata.
pub(super) fn number(field: MetaField) -> u8 {
    MetaField::ALL.iter().position(|f| *f == field).unwrap_or(0) as u8
}

impl Frame {
    pub fn of(p: &Program, reached: &[bool], layouts: &[Option<Layout>], usages: &Usages) -> Frame {
        let mut f = Frame { bytes: 48, ..Frame::default() };
        let (mut read, mut written) = (Vec::new(), Vec::new());
        let (mut anno, mut time, mut copy, mut hops, mut tables) = (false, false, 0, false, Vec::new());
        for (b, block) in p.blocks.iter().enumerate().filter(|(b, _)| reached[*b]) {
            for op in &block.ops {
                time |= matches!(
                    op,
                    Op::Now { .. } | Op::Touch { .. } | Op::LoadMeta { field: MetaField::Timestamp, .. }
                );
                match op {
                    Op::LoadAnno { .. } => anno = true,
                    Op::LoadMeta { field, .. } => read.push(number(*field)),
                    Op::StoreMeta { field, .. } => written.push(number(*field)),
                    Op::CopyBytes { len, .. } => copy = copy.max(*len),
                    _ => {}
                }
            }
            if block.loop_limit.is_some() {
                let slot = f.word();
                f.rounds.insert(BlockId(b as u32), slot);
            }
            match &block.end {
                End::Enter { back: true, .. } => hops = true,
                End::Lookup { table, .. } | End::Insert { table, .. } => tables.push(table.0 as usize),
                _ => {}
            }
        }
        for field in written.into_iter().filter(|w| read.contains(w)) {
            if !f.meta.contains_key(&field) {
                let slot = f.word();
                f.meta.insert(field, slot);
            }
        }
        f.time = time.then(|| f.word());
        f.hops = hops.then(|| f.word());
        f.anno = anno.then(|| f.take(48));
        let keys = tables.iter().filter_map(|&t| layouts[t].as_ref()).map(|l| l.key_bytes);
        f.key = match keys.max() {
            Some(most) => f.take(most),
            None => 0,
        };
        let inserted = layouts.iter().zip(&usages.tables).filter(|(_, u)| u.inserts);
        f.value = match inserted.filter_map(|(l, _)| l.as_ref()).map(|l| l.stride).max() {
            Some(most) => f.take(most),
            None => 0,
        };
        f.copy = if copy > 0 { f.take(copy.min(MOST_MOVED)) } else { 0 };
        f
    }

    fn word(&mut self) -> i16 {
        self.take(8)
    }

    fn take(&mut self, bytes: u32) -> i16 {
        self.bytes += bytes.min(4096).next_multiple_of(8);
        -(self.bytes.min(16_384) as i16)
    }
}

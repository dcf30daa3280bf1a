//! The answers of a table by prefix ([`PrefixRows`](crate::prefix_rows::PrefixRows)): rows that packets read.

use super::Table;
use crate::finder::Finder;
use crate::layout::Layout;
use crate::memory::Region;

impl Table {
    /// Lets packets read what the entry of a prefix says now; other kinds of tables show the entry itself.
    pub(super) fn answer(&mut self, slot: u32) {
        self.leave_answer(slot);
        let Finder::Lpm { rows, .. } = &mut self.finder else { return };
        let words = said(&self.rows, &self.layout)(slot).to_vec();
        let known = rows.join(slot, &words, said(&self.rows, &self.layout));
        let answer = known.unwrap_or_else(|| self.open_answer(slot, &words));
        if let Finder::Lpm { index, rows } = &mut self.finder {
            let (value, len) = rows.prefix(slot);
            index.insert(value, len, answer);
        }
    }

    /// Ends the answer of an entry, unless others have it too. The index names it until the entry gets another one or goes,
    /// which comes next.
    pub(super) fn leave_answer(&mut self, slot: u32) {
        if let Finder::Lpm { rows, .. } = &mut self.finder {
            self.free.extend(rows.leave(slot, said(&self.rows, &self.layout)));
        }
    }

    fn open_answer(&mut self, slot: u32, words: &[u64]) -> u32 {
        let answer = self.free_slot();
        let at = answer as usize * self.layout.stride / 8;
        self.rows.words_mut()[at..at + words.len()].copy_from_slice(words);
        if let Finder::Lpm { rows, .. } = &mut self.finder {
            rows.open(slot, answer, words, said(&self.rows, &self.layout));
        }
        answer
    }
}

/// What rows of tables without keys in them say: their values.
fn said<'a>(rows: &'a Region, layout: &Layout) -> impl Fn(u32) -> &'a [u64] + use<'a> {
    let (stride, len) = (layout.stride / 8, layout.expires / 8);
    move |slot| &rows.words()[slot as usize * stride..][..len]
}

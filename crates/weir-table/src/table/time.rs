//! Expiry of entries.

use super::Table;
use crate::layout::NEVER;

impl Table {
    /// Lets the entry expire at `when` (0: never); nothing if it was removed.
    pub fn set_expiry(&mut self, slot: u32, when: u64) {
        if !self.is_live(slot) {
            return;
        }
        self.write_expiry(slot, when);
        self.arm_again(slot);
    }

    /// Lets an entry that expires do so later. Its timer fires when it would have, and is set again then.
    pub(crate) fn prolong(&mut self, slot: u32, when: u64) {
        debug_assert!(self.is_live(slot) && (1..=when).contains(&self.expiry(slot)));
        self.write_expiry(slot, when);
    }

    fn write_expiry(&mut self, slot: u32, when: u64) {
        self.set_word(slot, self.layout.expires, if when == 0 { NEVER } else { when.min(NEVER - 1) });
    }

    /// Sets the timer of an entry to its own time, unless it fires earlier.
    pub(crate) fn arm_again(&mut self, slot: u32) {
        let (when, armed) = (self.expiry(slot), self.word(slot, self.layout.armed));
        if armed == 0 || when < armed {
            self.arm(slot, when);
        }
    }

    /// Sets the timer of an entry (0: to none).
    pub(crate) fn arm(&mut self, slot: u32, when: u64) {
        if when == 0 {
            return;
        }
        self.set_word(slot, self.layout.armed, when);
        self.wheel.arm(when, slot);
        if self.wheel.len() > 2 * self.used as usize + 16 {
            self.forget_old_timers();
        }
    }

    /// Leaves one timer a slot: others are of entries that are gone, or were touched to expire earlier.
    fn forget_old_timers(&mut self) {
        let (rows, layout) = (self.rows.words(), &self.layout);
        let armed = |slot: u32| rows[(slot as usize * layout.stride + layout.armed) / 8];
        self.wheel.retain(|when, slot| armed(slot) == when);
    }

    /// The entry's own time of expiry (0: never, or it was removed); [`TableSet::expiry`](crate::TableSet::expiry)
    /// knows of its link.
    pub fn expiry(&self, slot: u32) -> u64 {
        let word = if slot < self.used { self.word(slot, self.layout.expires) } else { NEVER };
        if word == NEVER { 0 } else { word }
    }

    /// The next timer that fires, with its slot. The entry has no timer afterwards.
    pub(crate) fn next_timer(&mut self, now: u64) -> Option<(u64, u32)> {
        while let Some((when, slot)) = self.wheel.next_due(now) {
            if self.word(slot, self.layout.armed) == when {
                self.set_word(slot, self.layout.armed, 0);
                return Some((when, slot));
            }
        }
        None
    }

    /// When the next entry may expire.
    pub fn next_expiry(&self) -> Option<u64> {
        self.wheel.next_at()
    }
}

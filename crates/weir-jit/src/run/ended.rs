//! What became of the packets of a batch.

use std::ops::Range;

use weir_ir::program::BlockId;
use weir_ir::{Host, Reason};
use weir_packet::{Meta, Packet};

use crate::abi::outcome::Outcome;

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate<'a> {
    /// The packet is not here any more: it is held, or there was none.
    Gone,
    /// It leaves by an exit.
    Exit(u32),
    /// It ends at the end of a block.
    Dropped(BlockId, &'a Reason),
}

/// Packets that have come to their ends, in order. Those that nobody takes are freed on drop, in one step.
#[derive(Debug)]
pub struct Ended<'a> {
    /// An [`Outcome`] for each packet.
    outcomes: &'a mut [u64],
    packets: &'a [*mut Meta],
    /// For each block that drops packets, why.
    reasons: &'a [Option<Reason>],
}

impl<'a> Ended<'a> {
    /// Packets and their outcomes.
    ///
    /// # Safety
    /// A packet whose outcome is not [`Outcome::Over`] came from [`Packet::into_raw`], and is used nowhere else.
    pub(crate) unsafe fn new(
        outcomes: &'a mut [u64],
        packets: &'a [*mut Meta],
        reasons: &'a [Option<Reason>],
    ) -> Ended<'a> {
        Ended { outcomes: &mut outcomes[..packets.len()], packets, reasons }
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// What became of a packet. One that was taken is [`Fate::Gone`].
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn fate(&self, at: usize) -> Fate<'a> {
        fate(self.outcomes[at], self.reasons)
    }

    /// How many leave by some exit and were not taken.
    #[inline]
    pub fn left(&self) -> usize {
        // No branch, as which packets leave may follow no rule; and nothing else has the lowest bit.
        self.outcomes.iter().map(|o| (*o & Outcome::Exit as u64) as usize).sum()
    }

    /// The packets from one on that share a fate, and that fate; `None` behind the last. Quicker than to look at each, as
    /// packets that follow each other most often take the same path.
    #[inline]
    pub fn run(&self, from: usize) -> Option<(Range<usize>, Fate<'a>)> {
        let (first, others) = self.outcomes.get(from..)?.split_first()?;
        let others = others.iter().take_while(|&o| o == first).count();
        Some((from..from + 1 + others, fate(*first, self.reasons)))
    }

    /// Takes a packet; `None` if it is gone.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn take(&mut self, at: usize) -> Option<Packet> {
        let outcome = std::mem::replace(&mut self.outcomes[at], Outcome::Over as u64);
        if outcome == Outcome::Over as u64 {
            return None;
        }
        // SAFETY: `new` was promised that the packet is ours; that it was taken is noted.
        Some(unsafe { Packet::from_raw(self.packets[at]) })
    }
}

/// Why packets end whose block names no reason, which compiled code has not.
static DISCARDED: Reason = Reason::DISCARDED;

#[inline]
fn fate(outcome: u64, reasons: &[Option<Reason>]) -> Fate<'_> {
    let number = (outcome >> Outcome::BITS) as u32;
    match outcome & ((1 << Outcome::BITS) - 1) {
        o if o == Outcome::Exit as u64 => Fate::Exit(number),
        o if o == Outcome::Dropped as u64 => {
            let reason = reasons.get(number as usize).and_then(Option::as_ref);
            Fate::Dropped(BlockId(number), reason.unwrap_or(&DISCARDED))
        }
        _ => Fate::Gone,
    }
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        // What is not over has a bit among the lowest. Most often nobody took a packet, or somebody all.
        let all = self.outcomes.iter().fold(1, |all, o| all & (o | o >> 1));
        if all == 1 {
            // SAFETY: `new` was promised that these packets are ours; who took one would have noted it.
            return unsafe { Packet::free_raw(self.packets) };
        }
        if self.outcomes.iter().any(|o| *o != Outcome::Over as u64) {
            (0..self.len()).for_each(|i| drop(self.take(i)));
        }
    }
}

/// A host that takes the packets of compiled programs at their ends.
pub trait BatchHost: Host {
    /// Some packets have come to their ends.
    fn ended(&mut self, mut ended: Ended<'_>) {
        for i in 0..ended.len() {
            let fate = ended.fate(i);
            let Some(packet) = ended.take(i) else { continue };
            match fate {
                Fate::Exit(port) => self.exit(port, packet),
                Fate::Dropped(at, reason) => self.dropped(at, reason, packet),
                Fate::Gone => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows packets with these outcomes.
    fn with_ended(outcomes: &mut [u64], look: impl FnOnce(Ended<'_>)) {
        let packet = |o: &u64| match *o {
            0 => std::ptr::null_mut(),
            o => Packet::from_bytes(&o.to_be_bytes()).unwrap().into_raw(),
        };
        let packets: Vec<*mut Meta> = outcomes.iter().map(packet).collect();
        let reasons = [None, Some(Reason::BAD_HEADER)];
        // SAFETY: only what is not over has a packet, which nothing else uses.
        look(unsafe { Ended::new(outcomes, &packets, &reasons) });
    }

    #[test]
    fn neighbours_of_one_fate_are_told_together() {
        let [exit, drop] = [Outcome::Exit, Outcome::Dropped].map(|o| u64::from(o.with(1)));
        with_ended(&mut [exit, exit, drop, 0, 0, exit], |ended| {
            let (mut from, mut runs) = (0, Vec::new());
            while let Some((run, fate)) = ended.run(from) {
                from = run.end;
                runs.push((run, fate));
            }
            let bad = Fate::Dropped(BlockId(1), &Reason::BAD_HEADER);
            let all = [(0..2, Fate::Exit(1)), (2..3, bad), (3..5, Fate::Gone), (5..6, Fate::Exit(1))];
            assert_eq!(runs, all);
            assert_eq!(ended.run(7), None);
        });
    }

    #[test]
    fn packets_that_leave_are_counted() {
        let [exit, drop] = [Outcome::Exit, Outcome::Dropped].map(|o| move |n| u64::from(o.with(n)));
        with_ended(&mut [exit(1), exit(0), drop(1), 0, exit(2), drop(0), 0], |mut ended| {
            assert_eq!((ended.left(), ended.len()), (3, 7));
            let bad = Fate::Dropped(BlockId(1), &Reason::BAD_HEADER);
            assert_eq!([ended.fate(0), ended.fate(2), ended.fate(3)], [Fate::Exit(1), bad, Fate::Gone]);
            ended.take(0);
            assert_eq!(ended.left(), 2);
        });
    }

    #[test]
    fn a_packet_is_taken_once_and_the_others_are_freed() {
        let exit = |n| u64::from(Outcome::Exit.with(n));
        for over in [0, exit(3)] {
            with_ended(&mut [exit(1), exit(2), over], |mut ended| {
                let packet = ended.take(1).unwrap();
                assert_eq!(packet.bytes(), exit(2).to_be_bytes());
                assert_eq!((ended.take(1).is_none(), ended.fate(1)), (true, Fate::Gone));
                assert_eq!(ended.run(1).map(|(run, _)| run), Some(1..if over == 0 { 3 } else { 2 }));
            });
        }
    }
}

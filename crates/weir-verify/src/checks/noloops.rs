use std::collections::HashSet;

use super::{Checker, Query, Verdict};
use crate::explore::path::How;
use crate::explore::trace::Trace;

/// `noloops`: no packet from any of the places returns to a place in a state that it had there before (but for its time
/// to live).
pub fn noloops(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let looping = |s: &Trace| s.ends().iter().any(|e| e.how == How::Loop);
    let found = c.seek(q, None, &HashSet::new(), |c, _, outcome| {
        let traces = outcome.ended.into_iter().filter(looping).collect();
        c.search_all(traces, comes_back)
    });
    c.none(found)
}

/// Whether a packet comes to a place twice, with the same bytes but for the time to live and checksum.
fn comes_back(replay: &crate::solve::replay::Replay) -> bool {
    let hops = &replay.hops;
    hops.iter().enumerate().any(|(i, a)| {
        hops[..i].iter().any(|b| {
            let same = |(j, (x, y)): (usize, (&u8, &u8))| {
                let in_header = a.net.and_then(|n| j.checked_sub(n));
                x == y || in_header.is_some_and(|j| [7, 8, 10, 11].contains(&j))
            };
            a.place == b.place
                && a.packet == b.packet
                && a.before.len() == b.before.len()
                && a.before.iter().zip(&b.before).enumerate().all(same)
        })
    })
}

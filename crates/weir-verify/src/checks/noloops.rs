use std::collections::HashSet;

use super::{Checker, Query, Search, Verdict};
use crate::path::How;

/// `noloops`: no packet from any of the places returns to a place in a state that it had there before (its time to
/// live aside).
pub fn noloops(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let nowhere = HashSet::new();
    let mut unsolved = false;
    let found = c.with_histories(q, |c, before| {
        for start in &q.from {
            let stories = c.launch(before, start, None);
            for story in c.session.run(stories, &nowhere).ended {
                if !before.is_blank() && !story.used_past()
                    || !story.ends().iter().any(|e| e.how == How::Loop)
                {
                    continue;
                }
                match c.search(&story, comes_back) {
                    Search::Found(e) => return Some(e),
                    Search::Impossible => {}
                    Search::Unknown => unsolved = true,
                }
            }
        }
        None
    });
    match found {
        Some(e) => Verdict::Violated(Some(e)),
        None => c.doubt(unsolved).map_or(Verdict::Holds(None), Verdict::Inconclusive),
    }
}

/// Whether a packet comes to a place twice, with the same bytes but for the time to live and checksum.
fn comes_back(replay: &crate::replay::Replay) -> bool {
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

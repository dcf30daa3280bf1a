use weir_ir::program::Reason;

use super::{Checker, Query, Search, Verdict};
use crate::network::Body;
use crate::path::How;
use crate::session::Story;

/// `all SRC DST [via N…] FILTER`: every packet that leaves SRC matching FILTER arrives at DST, whatever is chosen at
/// random. Losses for want of room do not count, unless `strict`; the second result lists where they may happen.
pub fn all(c: &mut Checker<'_>, q: &Query, strict: bool) -> (Verdict, Vec<String>) {
    let watched = q.watched();
    let mut unsolved = false;
    let mut losses = Vec::new();
    let found = c.with_histories(q, |c, before| {
        for start in &q.from {
            let stories = c.launch(before, start, Some((&q.filter, true)));
            for story in c.session.run(stories, &watched).ended {
                if !before.is_blank() && !story.used_past() {
                    continue;
                }
                note_losses(c, &story, &mut losses);
                let short = |how: &How| matches!(how, How::Drop(_, r) if for_want_of_room(r));
                let arrived = story.ends().iter().any(|e| {
                    let places = e.trail.places();
                    let mut left = places.iter();
                    q.via.iter().all(|set| left.any(|p| set.contains(&p.node)))
                        && places.iter().any(|p| watched.contains(p))
                });
                let lost = story.ends().iter().any(|e| short(&e.how));
                if arrived || (lost && !strict) {
                    continue;
                }
                let missing =
                    |r: &crate::replay::Replay| !r.arrived_last().any(|(p, _)| watched.contains(&p));
                match c.search(&story, |r| !q.via.is_empty() || missing(r)) {
                    Search::Found(e) => return Some(e),
                    Search::Impossible => {}
                    Search::Unknown => unsolved = true,
                }
            }
        }
        None
    });
    let verdict = match found {
        Some(e) => Verdict::Violated(Some(e)),
        None => c.doubt(unsolved).map_or(Verdict::Holds(None), Verdict::Inconclusive),
    };
    (verdict, losses)
}

/// Whether a packet was dropped because something was full.
fn for_want_of_room(reason: &Reason) -> bool {
    [Reason::FULL, Reason::NO_ROOM].contains(reason)
}

/// Lists where packets may be lost for want of room.
fn note_losses(c: &Checker<'_>, story: &Story, losses: &mut Vec<String>) {
    for e in story.ends() {
        let mut note = |node: u32| {
            let name = &c.net.node(node).name;
            if !losses.contains(name) {
                losses.push(name.clone());
            }
        };
        if matches!(&e.how, How::Drop(_, r) if for_want_of_room(r)) {
            note(e.node);
        }
        let lossy = |node: u32| matches!(c.net.node(node).body, Body::Pass { lossy: true });
        e.trail.places().iter().filter(|p| lossy(p.node)).for_each(|p| note(p.node));
    }
}

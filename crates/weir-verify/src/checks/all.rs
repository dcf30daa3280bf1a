use weir_ir::program::Reason;

use super::{Checker, Query, Search, Verdict};
use crate::network::Body;
use crate::path::How;
use crate::replay::Replay;
use crate::session::Story;

/// `all SRC DST [via N…] FILTER`: every packet that leaves SRC matching FILTER arrives at DST, whatever is chosen at
/// random. Losses for want of room do not count, unless `strict`; the second result lists where they may happen.
pub fn all(c: &mut Checker<'_>, q: &Query, strict: bool) -> (Verdict, Vec<String>) {
    let watched = q.watched();
    let missing = |r: &Replay| !r.arrived_last().any(|(p, _)| watched.contains(&p));
    let mut losses = Vec::new();
    let found = c.seek(q, Some(&q.filter), &watched, |c, _, outcome| {
        c.any(outcome.ended, |c, story| {
            note_losses(c, &story, &mut losses);
            let arrived = story.ends().iter().any(|e| {
                let places = e.trail.places();
                q.via_all(&places) && places.iter().any(|p| watched.contains(p))
            });
            let short = |how: &How| matches!(how, How::Drop(_, r) if for_want_of_room(r));
            let lost = story.ends().iter().any(|e| short(&e.how));
            if arrived || (lost && !strict) {
                return Search::Impossible;
            }
            c.search(&story, |r| !q.via.is_empty() || missing(r))
        })
    });
    (c.none(found), losses)
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

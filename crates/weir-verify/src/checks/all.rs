use weir_ir::program::Reason;

use super::{Checker, Query, Search, Verdict};
use crate::network::{Body, Network, NodeId, Place};
use crate::path::How;
use crate::replay::Replay;
use crate::story::Story;

/// `all SRC DST [via N…] FILTER`: every packet that leaves SRC matching FILTER arrives at DST, whatever is chosen at
/// random. Losses for want of room do not count, unless `strict`; the second result lists where they may happen.
pub fn all(c: &mut Checker<'_>, q: &Query, strict: bool) -> (Verdict, Vec<String>) {
    let watched = q.watched();
    let missing = |r: &Replay| !r.arrived_last().any(|(p, _)| watched.contains(&p));
    let mut losses = Vec::new();
    let found = c.seek(q, Some(&q.filter), &watched, |c, _, outcome| {
        c.any(outcome.ended, |c, story| {
            if !strict {
                note_losses(c, &story, &mut losses);
            }
            let trails: Vec<Vec<Place>> = story.ends().iter().map(|e| e.trail.places()).collect();
            // For each packet that arrives, whether there is always room on its way.
            let room = |places: &[Place]| {
                let at = places.iter().position(|p| watched.contains(p))?;
                Some(!places[..at].iter().any(|p| is_lossy(c.net, p.node)))
            };
            let arriving: Vec<bool> =
                trails.iter().filter(|t| q.via_all(t)).filter_map(|t| room(t)).collect();
            let arrived = arriving.iter().any(|&room| room || !strict);
            if !arrived && !arriving.is_empty() {
                let mut found = c.search(&story, |_| true);
                if let Search::Found(e) = &mut found {
                    e.replay.lose(|node| is_lossy(c.net, node));
                }
                return found;
            }
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
        e.trail.places().iter().filter(|p| is_lossy(c.net, p.node)).for_each(|p| note(p.node));
    }
}

/// Whether a node may lose packets for want of room.
fn is_lossy(net: &Network, node: NodeId) -> bool {
    matches!(net.node(node).body, Body::Pass { lossy: true })
}

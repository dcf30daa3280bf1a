use weir_ir::program::Reason;

use super::{Checker, Query, Search, Verdict};
use crate::network::{Body, Network, NodeId, Place};
use crate::path::How;
use crate::replay::Replay;
use crate::story::Story;

/// `all SRC DST [via N…] FILTER`: every packet that leaves SRC matching FILTER arrives at DST, whatever is chosen at
/// random. Losses for want of room do not count, unless `strict`, nor does whether a packet that waits is let go; the second
/// result lists where that may happen.
pub fn all(c: &mut Checker<'_>, q: &Query, strict: bool) -> (Verdict, Uncounted) {
    let (net, watched) = (c.net, q.watched());
    let missing = |r: &Replay| q.arrived(net, r).next().is_none();
    let mut uncounted = Uncounted::default();
    let found = c.seek(q, Some(&q.filter), &watched, |c, _, outcome| {
        let stories: Vec<Sorted> = outcome.ended.into_iter().flat_map(|s| sorted(c, q, s)).collect();
        c.any(stories, |c, Sorted { story, others }| {
            if !strict {
                note_losses(c, &story, &mut uncounted.losses);
            }
            let ends = story.ends().iter().enumerate().filter(|(i, _)| !others.contains(i));
            let trails: Vec<Vec<Place>> = ends.map(|(_, e)| e.trail.places()).collect();
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
                // What arrives may be a question about where the packet itself, which waits, is to go.
                for e in story.ends().iter().filter(|e| e.how == How::Held) {
                    note(c.net, e.node, &mut uncounted.waiting);
                }
                return Search::Impossible;
            }
            c.search(&story, |r| !q.via.is_empty() || missing(r))
        })
    });
    (c.none(found), uncounted)
}

/// What is left out of account, by the names of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Where packets may be lost for want of room.
    pub losses: Vec<String>,
    /// Where packets wait until others let them go, such as answers to what they are the cause of.
    pub waiting: Vec<String>,
}

impl Uncounted {
    /// Adds what another check left out.
    pub fn add(&mut self, other: Uncounted) {
        for (own, others) in [(&mut self.losses, other.losses), (&mut self.waiting, other.waiting)] {
            own.extend(others);
            own.sort_unstable();
            own.dedup();
        }
    }
}

/// A story, and those of its packets, by number, that came to DST and are not meant there.
struct Sorted {
    story: Story,
    others: Vec<usize>,
}

/// A story by which of its packets are meant at the places of DST that they came to.
fn sorted(c: &mut Checker<'_>, q: &Query, story: Story) -> Vec<Sorted> {
    let mut all = vec![Sorted { story, others: Vec::new() }];
    if q.to.iter().all(|t| t.only.is_none()) {
        return all;
    }
    for i in 0..all.first().map_or(0, |s| s.story.ends().len()) {
        all = all.into_iter().flat_map(|s| by_meaning(c, q, s, i)).collect();
    }
    all
}

/// The same for one packet.
fn by_meaning(c: &mut Checker<'_>, q: &Query, Sorted { story, others }: Sorted, i: usize) -> Vec<Sorted> {
    let visits = story.ends().get(i).map(|e| e.trail.kept()).unwrap_or_default();
    let visits = visits.into_iter().filter_map(|(place, packet)| Some((q.target_at(place)?, packet)));
    let (mut all, mut left, mut came) = (Vec::new(), vec![story], false);
    for (target, packet) in visits {
        let Some(guard) = target.only else {
            all.extend(left.drain(..).map(|story| Sorted { story, others: others.clone() }));
            break;
        };
        came = true;
        let mut asked = |wanted| -> Vec<Story> {
            left.iter().flat_map(|s| c.session.guard_of(s.clone(), packet.clone(), guard, wanted)).collect()
        };
        let (yes, no) = (asked(true), asked(false));
        all.extend(yes.into_iter().map(|story| Sorted { story, others: others.clone() }));
        left = no;
    }
    let others: Vec<usize> = others.into_iter().chain(came.then_some(i)).collect();
    all.extend(left.into_iter().map(|story| Sorted { story, others: others.clone() }));
    all
}

/// Whether a packet was dropped because something was full.
fn for_want_of_room(reason: &Reason) -> bool {
    [Reason::FULL, Reason::NO_ROOM].contains(reason)
}

/// Lists where packets may be lost for want of room.
fn note_losses(c: &Checker<'_>, story: &Story, losses: &mut Vec<String>) {
    for e in story.ends() {
        if matches!(&e.how, How::Drop(_, r) if for_want_of_room(r)) {
            note(c.net, e.node, losses);
        }
        e.trail.places().iter().filter(|p| is_lossy(c.net, p.node)).for_each(|p| note(c.net, p.node, losses));
    }
}

fn note(net: &Network, node: NodeId, names: &mut Vec<String>) {
    let name = &net.node(node).name;
    if !names.contains(name) {
        names.push(name.clone());
    }
}

/// Whether a node may lose packets for want of room.
fn is_lossy(net: &Network, node: NodeId) -> bool {
    matches!(net.node(node).body, Body::Pass { lossy: true })
}

use std::collections::HashSet;

use weir_ir::program::Reason;
use weir_packet::Provenance;

use super::{Checker, Query, Search, Verdict};
use crate::explore::path::{How, Incomplete, PacketEnd};
use crate::explore::story::Story;
use crate::model::packet::SymbolicPacket;
use crate::network::{Body, Network, NodeId, Place};
use crate::solve::replay::Replay;

/// How often a packet may wait on its way.
const WAITS: usize = 4;

/// `all SRC DST [via N…] FILTER`: every packet that leaves SRC matching FILTER arrives at DST, whatever is chosen at
/// random. It is the packet that arrives, or a copy of it, whatever was changed in them: no answer to it, and no question that it is
/// the cause of. Losses for want of room do not count, unless `strict`. Of a packet that waits, for an address say, it is taken that
/// what it waits for comes, if that can come; it has to arrive then. The second result lists where either may happen.
pub fn all(c: &mut Checker<'_>, q: &Query, strict: bool) -> (Verdict, Uncounted) {
    let mut look = Look { q, strict, watched: q.watched(), uncounted: Uncounted::default() };
    let found = c.seek(q, Some(&q.filter), &q.watched(), |c, _, outcome| {
        c.any(outcome.ended, |c, story| look.missing(c, story))
    });
    (c.none(found), look.uncounted)
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

/// What becomes of the packet that was sent, and of its copies, on a path.
enum Fate {
    /// One arrives.
    Arrives,
    /// Those that arrive may be lost on the way for want of room.
    MayBeLost,
    /// One is lost for want of room.
    Lost,
    /// These wait, and none arrives.
    Waits(Vec<PacketEnd>),
    /// None arrives.
    Ends,
}

/// What becomes of a packet that waits.
enum Later {
    /// It arrives, whatever lets it go.
    Arrives,
    /// No packet can let it go.
    Never,
    Unknown,
}

/// The search for a packet that does not arrive.
struct Look<'q> {
    q: &'q Query,
    strict: bool,
    watched: HashSet<Place>,
    uncounted: Uncounted,
}

impl Look<'_> {
    /// Looks for a run that goes as a story says, in which the packet that came last does not arrive.
    fn missing(&mut self, c: &mut Checker<'_>, story: Story) -> Search {
        let stories = sorted(c, self.q, story);
        c.any(stories, |c, Sorted { story, others }| {
            let fate = self.fate(c, &story, &others);
            match fate {
                Fate::Arrives | Fate::Lost => Search::Impossible,
                Fate::MayBeLost => {
                    let mut found = c.search(&story, |_| true);
                    if let Search::Found(e) = &mut found {
                        e.replay.lose(|node| is_lossy(c.net, node));
                    }
                    found
                }
                Fate::Waits(ends) => self.waits(c, &story, &ends),
                Fate::Ends => self.search(c, &story),
            }
        })
    }

    /// Looks for a run that goes as a story says, in which the packet that was sent did not arrive.
    fn search(&self, c: &mut Checker<'_>, story: &Story) -> Search {
        let (net, q, sent) = (c.net, self.q, story.sent() as usize);
        let arrives =
            |r: &Replay| r.arrived_of(sent).any(|(place, packet)| q.meant_at(net, place, packet).is_some());
        c.search(story, |r| !q.via.is_empty() || !arrives(r))
    }

    fn fate(&mut self, c: &Checker<'_>, story: &Story, others: &[usize]) -> Fate {
        let (net, q) = (c.net, self.q);
        let own = |e: &&PacketEnd| is_own(c, story, &e.packet);
        if !self.strict {
            note_losses(net, story, &mut self.uncounted.losses);
        }
        // For each packet that arrives, whether there is always room on its way.
        let watched = &self.watched;
        let comes = |place: Place, p: &SymbolicPacket| watched.contains(&place) && is_own(c, story, p);
        let ends = story.ends().iter().enumerate().filter(|(i, _)| !others.contains(i));
        let arriving: Vec<bool> = ends
            .filter_map(|(_, e)| e.trail.up_to(comes))
            .filter(|way| q.via_all(way))
            .map(|way| !way[..way.len() - 1].iter().any(|p| is_lossy(net, p.node)))
            .collect();
        let short = |e: &PacketEnd| matches!(&e.how, How::Drop(_, r) if for_want_of_room(r));
        let waiting: Vec<_> =
            story.ends().iter().filter(own).filter(|e| c.session.is_held(story, e)).cloned().collect();
        if arriving.iter().any(|&room| room || !self.strict) {
            Fate::Arrives
        } else if !arriving.is_empty() {
            Fate::MayBeLost
        } else if !self.strict && story.ends().iter().filter(own).any(short) {
            Fate::Lost
        } else if !waiting.is_empty() {
            Fate::Waits(waiting)
        } else {
            Fate::Ends
        }
    }

    /// The same where the packet waits.
    fn waits(&mut self, c: &mut Checker<'_>, story: &Story, ends: &[PacketEnd]) -> Search {
        let mut never = true;
        for end in ends {
            match self.later(c, story, end, WAITS) {
                Later::Arrives => {
                    note(c.net, end.node, &mut self.uncounted.waiting);
                    return Search::Impossible;
                }
                Later::Never => {}
                Later::Unknown => never = false,
            }
        }
        if never {
            return self.search(c, story);
        }
        if !c.supposing {
            let found = self.after_one_more(c, story);
            if matches!(found, Search::Found(_)) {
                return found;
            }
            c.session.give_up(Incomplete::Waiting);
        }
        Search::Unknown
    }

    /// What becomes of a packet that waits when it is let go, whatever that is by, and whatever stands in tables then.
    fn later(&mut self, c: &mut Checker<'_>, story: &Story, end: &PacketEnd, left: usize) -> Later {
        let from: Vec<Place> = self.q.others.iter().map(|s| s.place).collect();
        if !c.session.may_let_go(story, end, &from) {
            return Later::Never;
        }
        let Some(left) = left.checked_sub(1) else { return Later::Unknown };
        let Some(stories) = c.session.let_go(story, end, &self.watched) else { return Later::Unknown };
        for story in stories {
            for Sorted { story, others } in sorted(c, self.q, story) {
                // Whether others arrive that waited, too, is not asked.
                if !story.ends().iter().any(|e| is_own(c, &story, &e.packet)) {
                    continue;
                }
                match self.fate(c, &story, &others) {
                    Fate::Arrives | Fate::Lost => {}
                    Fate::Waits(ends) => {
                        let goes_on = ends.iter().any(|end| {
                            let arrives = matches!(self.later(c, &story, end, left), Later::Arrives);
                            if arrives {
                                note(c.net, end.node, &mut self.uncounted.waiting);
                            }
                            arrives
                        });
                        if !goes_on {
                            return Later::Unknown;
                        }
                    }
                    Fate::MayBeLost | Fate::Ends => {
                        if !c.session.is_impossible(&story) {
                            return Later::Unknown;
                        }
                    }
                }
            }
        }
        Later::Arrives
    }

    /// Looks for a run in which one more packet of anybody lets the packet go, and it does not arrive.
    fn after_one_more(&mut self, c: &mut Checker<'_>, before: &Story) -> Search {
        let q = self.q;
        c.any(&q.others, |c, start| {
            let stories = c.launch(before, start, None);
            let ended = c.session.run(stories, &self.watched).ended;
            c.any(ended, |c, story| {
                let stories = sorted(c, q, story);
                c.any(stories, |c, Sorted { story, others }| match self.fate(c, &story, &others) {
                    Fate::Ends | Fate::MayBeLost => self.search(c, &story),
                    Fate::Arrives | Fate::Lost | Fate::Waits(_) => Search::Impossible,
                })
            })
        })
    }
}

/// Whether a packet is the one that was sent, or a copy of it.
fn is_own(c: &Checker<'_>, story: &Story, packet: &SymbolicPacket) -> bool {
    c.session.is_sent(story, packet) && packet.is(c.session.known_exprs(), Provenance::Sent) == Some(true)
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
    let visits = visits.into_iter().filter(|(_, packet)| is_own(c, &story, packet));
    let visits: Vec<_> = visits.filter_map(|(place, packet)| Some((q.target_at(place)?, packet))).collect();
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
fn note_losses(net: &Network, story: &Story, losses: &mut Vec<String>) {
    for e in story.ends() {
        if matches!(&e.how, How::Drop(_, r) if for_want_of_room(r)) {
            note(net, e.node, losses);
        }
        e.trail.places().iter().filter(|p| is_lossy(net, p.node)).for_each(|p| note(net, p.node, losses));
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

use super::{Checker, Query, Search, Verdict};

/// `never SRC DST FILTER`: no packet from SRC that matches FILTER at SRC arrives at DST.
pub fn never(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let watched = q.watched();
    let mut unsolved = false;
    let found = c.with_histories(q, |c, before| {
        for start in &q.from {
            let stories = c.launch(before, start, Some((&q.filter, true)));
            for arrival in c.session.run(stories, &watched).arrivals {
                if !before.is_blank() && !arrival.story.used_past() {
                    continue;
                }
                match c.search(&arrival.story, |r| r.arrived_last().any(|(p, _)| watched.contains(&p))) {
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

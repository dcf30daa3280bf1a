use super::{Checker, Query, Search, Verdict};

/// `can SRC DST [via N…] FILTER`: some packet that leaves SRC arrives at DST matching FILTER there.
pub fn can(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let watched = q.watched();
    let mut unsolved = false;
    let found = c.with_histories(q, |c, before| {
        for start in &q.from {
            let stories = c.launch(before, start, None);
            for arrival in c.session.run(stories, &watched).arrivals {
                if !before.is_blank() && !arrival.story.used_past() || !q.came_by(&arrival) {
                    continue;
                }
                let framing = q.framing_at(arrival.place);
                for story in c.filtered(arrival.story, framing, &q.filter, true) {
                    let net = c.net;
                    match c.search(&story, |replay| q.arrives(net, replay, true)) {
                        Search::Found(e) => return Some(e),
                        Search::Impossible => {}
                        Search::Unknown => unsolved = true,
                    }
                }
            }
        }
        None
    });
    match found {
        Some(e) => Verdict::Holds(Some(e)),
        None => c.doubt(unsolved).map_or(Verdict::Violated(None), Verdict::Inconclusive),
    }
}

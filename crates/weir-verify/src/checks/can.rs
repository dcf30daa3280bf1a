use super::{Checker, Query, Verdict};

/// `can SRC DST [via N…] FILTER`: some packet that leaves SRC arrives at DST matching FILTER there.
pub fn can(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let net = c.net;
    let found = c.seek(q, None, &q.watched(), |c, _, outcome| {
        c.any(outcome.arrivals.into_iter().filter(|a| q.came_by(a)), |c, arrival| {
            let framing = q.framing_at(arrival.place);
            let stories = c.filtered(arrival.story, framing, &q.filter, true);
            c.search_all(stories, |replay| q.arrives(net, replay, true))
        })
    });
    c.exists(found)
}

use super::{Checker, Query, Verdict};

/// `only SRC DST FILTER`: every packet from SRC that arrives at DST matches FILTER there.
pub fn only(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let net = c.net;
    let found = c.seek(q, None, &q.watched(), |c, _, outcome| {
        c.any(outcome.arrivals, |c, arrival| {
            let framing = q.framing_at(arrival.place);
            let stories = c.filtered(arrival.story, framing, &q.filter, false);
            c.search_all(stories, |replay| q.arrives(net, replay, false))
        })
    });
    c.none(found)
}

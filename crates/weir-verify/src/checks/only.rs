use super::{Checker, Query, Search, Verdict};

/// `only SRC DST FILTER`: every packet from SRC that arrives at DST matches FILTER there.
pub fn only(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let watched = q.watched();
    let mut unsolved = false;
    let found = c.with_histories(q, |c, before| {
        for start in &q.from {
            let stories = c.launch(before, start, None);
            for arrival in c.session.run(stories, &watched).arrivals {
                if !before.is_blank() && !arrival.story.used_past() {
                    continue;
                }
                let framing = q.framing_at(arrival.place);
                for story in c.filtered(arrival.story, framing, &q.filter, false) {
                    let net = c.net;
                    match c.search(&story, |replay| q.arrives(net, replay, false)) {
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
        Some(e) => Verdict::Violated(Some(e)),
        None => c.doubt(unsolved).map_or(Verdict::Holds(None), Verdict::Inconclusive),
    }
}

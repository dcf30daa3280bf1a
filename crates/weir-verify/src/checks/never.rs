use std::collections::HashSet;

use super::{Checker, Query, Shows, Verdict};
use crate::solve::replay::Counted;

/// `never SRC DST FILTER`: no packet from SRC that matches FILTER at SRC arrives at DST.
pub fn never(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let watched = q.watched();
    let found = c.seek_arrivals(
        q,
        Some(&q.filter),
        Counted::Released,
        (&watched, &HashSet::new()),
        |c, _, arrival| q.search(c, arrival, Shows::Any),
    );
    c.none(found)
}

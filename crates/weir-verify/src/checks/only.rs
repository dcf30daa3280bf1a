use std::collections::HashSet;

use super::{Checker, Query, Shows, Verdict};

/// `only SRC DST FILTER`: every packet from SRC that arrives at DST matches FILTER there.
pub fn only(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let found = c.seek_arrivals(q, None, (&q.watched(), &HashSet::new()), |c, _, arrival| {
        q.search(c, arrival, Shows::Other)
    });
    c.none(found)
}

use std::collections::HashSet;

use super::{Checker, Query, Shows, Verdict};
use crate::solve::replay::Counted;

/// `only SRC DST FILTER`: every packet from SRC that arrives at DST matches FILTER there.
pub fn only(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let found =
        c.seek_arrivals(q, None, Counted::Released, (&q.watched(), &HashSet::new()), |c, _, arrival| {
            q.search(c, arrival, Shows::Other)
        });
    c.none(found)
}

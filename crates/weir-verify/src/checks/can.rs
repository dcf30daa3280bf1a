use std::collections::HashSet;

use super::{Checker, Query, Search, Shows, Verdict};
use crate::solve::replay::Counted;

/// `can SRC DST [via N…] FILTER`: some packet that leaves SRC arrives at DST matching FILTER there.
pub fn can(c: &mut Checker<'_>, q: &Query) -> Verdict {
    let found =
        c.seek_arrivals(q, None, Counted::Answers, (&q.watched(), &HashSet::new()), |c, _, arrival| {
            if !q.came_by(&arrival) {
                return Search::Impossible;
            }
            q.search(c, arrival, Shows::Matching)
        });
    c.exists(found)
}

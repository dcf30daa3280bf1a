//! What all checks do: let packets in after each history, look at what comes of them, and make an answer of what was
//! found.

use std::collections::HashSet;

use super::{Checker, Evidence, Filter, Query, Search, Start, Verdict};
use crate::network::Place;
use crate::replay::Replay;
use crate::session::{Outcome, Story};

impl Checker<'_> {
    /// Lets the packets of SRC in (of those only which match the filter there, if `at_source`), on a network that nothing
    /// came to and after each history, and looks for a run in what comes of them.
    pub(super) fn seek(
        &mut self,
        q: &Query,
        at_source: Option<&Filter>,
        watched: &HashSet<Place>,
        mut look: impl FnMut(&mut Self, &Start, Outcome) -> Search,
    ) -> Search {
        self.with_histories(q, |c, before| {
            c.any(&q.from, |c, start| {
                let stories = c.launch(before, start, at_source.map(|filter| (filter, true)));
                let mut outcome = c.session.run(stories, watched);
                // What makes no use of a history happens without it.
                let is_new = |s: &Story| before.is_blank() || s.used_past();
                outcome.arrivals.retain(|a| is_new(&a.story));
                outcome.ended.retain(is_new);
                look(c, start, outcome)
            })
        })
    }

    /// The first run that is found among `items`.
    pub(super) fn any<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut look: impl FnMut(&mut Self, T) -> Search,
    ) -> Search {
        let mut all = Search::Impossible;
        for item in items {
            match look(self, item) {
                Search::Found(e) => return Search::Found(e),
                Search::Impossible => {}
                Search::Unknown => all = Search::Unknown,
            }
        }
        all
    }

    /// The first of the stories that a run goes by which shows what is asked for.
    pub(super) fn search_all(&mut self, stories: Vec<Story>, shown: impl Fn(&Replay) -> bool) -> Search {
        self.any(stories, |c, story| c.search(&story, &shown))
    }

    /// The verdict on "there is such a run".
    pub(super) fn exists(&mut self, found: Search) -> Verdict {
        self.verdict(found, Verdict::Holds, Verdict::Violated(None))
    }

    /// The verdict on "there is no such run".
    pub(super) fn none(&mut self, found: Search) -> Verdict {
        self.verdict(found, Verdict::Violated, Verdict::Holds(None))
    }

    fn verdict(
        &mut self,
        found: Search,
        some: fn(Option<Box<Evidence>>) -> Verdict,
        none: Verdict,
    ) -> Verdict {
        let unsolved = matches!(found, Search::Unknown);
        let doubt = self.doubt(unsolved);
        match found {
            Search::Found(e) => some(Some(e)),
            Search::Impossible | Search::Unknown => doubt.map_or(none, Verdict::Inconclusive),
        }
    }
}

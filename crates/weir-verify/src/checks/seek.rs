//! What all checks do: let packets in after each history, look at what comes of them, and make an answer of what was
//! found.

use std::collections::HashSet;

use weir_ir::program::MetaField;
use weir_packet::Provenance;

use super::{Checker, Evidence, Filter, Query, Search, Start, Verdict};
use crate::explore::session::{Arrival, ArrivalSearch, Outcome};
use crate::explore::trace::Trace;
use crate::network::NodePort;
use crate::solve::replay::{Counted, Replay};

impl Checker<'_> {
    /// Lets the packets of SRC in (of those only which match the filter there, if `at_source`), on a network that nothing
    /// came to and after each history, and looks for a run in what comes of them.
    pub(super) fn seek(
        &mut self,
        q: &Query,
        at_source: Option<&Filter>,
        watched: &HashSet<NodePort>,
        mut look: impl FnMut(&mut Self, &Start, Outcome) -> Search,
    ) -> Search {
        self.with_histories(q, |c, before| {
            c.any(&q.from, |c, start| {
                let traces = c.send(before, start, q, at_source);
                let mut outcome = c.session.run(traces, watched);
                outcome.arrivals.retain(|a| a.trace.uses_all_others());
                outcome.ended.retain(Trace::uses_all_others);
                look(c, start, outcome)
            })
        })
    }

    /// As [`Checker::seek`], for what comes to watched places, which is looked at one by one: nothing is explored behind a
    /// run that was found, nor where packets can come neither to a watched place nor to one that is watched `later`.
    pub(super) fn seek_arrivals(
        &mut self,
        q: &Query,
        at_source: Option<&Filter>,
        counted: Counted,
        (watched, later): (&HashSet<NodePort>, &HashSet<NodePort>),
        mut look: impl FnMut(&mut Self, &Start, Arrival) -> Search,
    ) -> Search {
        let useful = self.net.leading_to(watched.union(later).map(|p| p.node));
        self.with_histories(q, |c, before| {
            c.any(&q.from, |c, start| {
                let traces = c.send(before, start, q, at_source);
                let mut search = c.session.search_arrivals(traces, watched, Some(useful.clone()));
                c.recorder.begin(&mut search);
                // By which path a packet came is asked for only here.
                if q.via.is_empty() {
                    search.cover();
                }
                let found = c.each_arrival(&mut search, |c, arrival| {
                    let trace = &arrival.trace;
                    // Where more packets follow, they may use the rest.
                    let is_new = if later.is_empty() { trace.uses_all_others() } else { trace.uses_others() };
                    if !is_new {
                        return Search::Impossible;
                    }
                    let number = trace.sent();
                    let Some(arrival) = c.counted(arrival, counted, number) else {
                        return Search::Impossible;
                    };
                    let meant = q.meant(c, arrival);
                    c.any(meant, |c, arrival| look(c, start, arrival))
                });
                c.recorder.add(search, start, &useful);
                found
            })
        })
    }

    /// An arrival of a packet that counts, of those that came in with a number.
    pub(super) fn counted(&mut self, arrival: Arrival, counted: Counted, number: u32) -> Option<Arrival> {
        let Arrival { place, packet, trace } = arrival;
        let is_own = self.session.is_input(number, &packet);
        let (what, wanted) = match counted {
            Counted::All => return Some(Arrival { place, packet, trace }),
            Counted::Released => (Provenance::Made, false),
            Counted::Answers if is_own => (Provenance::Made, false),
            Counted::Sent if is_own => (Provenance::Sent, true),
            Counted::Answers | Counted::Sent => return None,
        };
        let x = self.session.exprs();
        let is = x.is(packet.meta(MetaField::Provenance), what as u128);
        let counts = if wanted { is } else { x.not(is) };
        let trace = self.session.assume(trace, counts)?;
        Some(Arrival { place, packet, trace })
    }

    /// The packets of SRC that are meant, the plainest first.
    fn send(&mut self, before: &Trace, start: &Start, q: &Query, at_source: Option<&Filter>) -> Vec<Trace> {
        let mut traces = self.launch(before, start, Some((&q.sent, true)));
        if let Some(filter) = at_source {
            let each = traces.into_iter().flat_map(|trace| self.filtered(trace, start.framing, filter, true));
            traces = each.collect();
        }
        self.plainest_first(traces, start.framing)
    }

    /// The first run that is found among arrivals.
    pub(super) fn each_arrival(
        &mut self,
        search: &mut ArrivalSearch,
        mut look: impl FnMut(&mut Self, Arrival) -> Search,
    ) -> Search {
        let mut all = Search::Impossible;
        while let Some(arrival) = self.session.next_arrival(search) {
            self.explored.arrivals += usize::from(!self.proving);
            match look(self, arrival) {
                Search::Found(e) => return Search::Found(e),
                Search::Impossible => {}
                Search::Unknown if self.proving => return Search::Unknown,
                Search::Unknown => all = Search::Unknown,
            }
        }
        all
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
                Search::Unknown if self.proving => return Search::Unknown,
                Search::Unknown => all = Search::Unknown,
            }
        }
        all
    }

    /// The first of the traces that a run goes by which shows what is asked for.
    pub(super) fn search_all(&mut self, traces: Vec<Trace>, shown: impl Fn(&Replay) -> bool) -> Search {
        self.any(traces, |c, trace| c.search(&trace, &shown))
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

//! What others may have left in tables before: a check is asked again after that.
//!
//! Packets of anybody are let in one after the other, and each path on which one makes an entry is a kind. One of a kind that
//! is known comes after others only where that may matter: a path found entries of all those, and then looked in vain in a
//! table in which one of that kind, or one that needs it, makes entries, or read what one of that kind changes. Where these
//! are many, or too many, a proof is tried that needs none (`invariants.rs`).

use std::collections::{BTreeSet, HashSet};

use super::sites::{Prospect, Rank, Site};
use super::{Checker, Query, Search, Start};
use crate::explore::frontier::Interest;
use crate::explore::path::Incomplete;
use crate::explore::trace::Trace;
use crate::network::NodePort;

/// Most rounds in which packets of others are let in one after the other.
const ROUNDS: usize = 4;
/// Histories of a round from which on a proof is tried first.
const MANY: usize = 16;
/// Most histories that a check is repeated after.
pub(super) const HISTORIES: usize = 256;

/// The result of a check after a history.
pub(super) struct Looked {
    pub(super) found: Search,
    /// What may come of one more packet of anybody, if it looked at all that.
    pub(super) ended: Option<Vec<Trace>>,
}

/// The source of what may come of one more packet of anybody.
pub(super) enum Others<'f, 'a> {
    /// All that comes of packets from these places.
    From(&'f [Start]),
    /// What the check looks at by itself is all.
    Looked,
    /// What this gives.
    By(&'f mut Follow<'f, 'a>),
}

/// Gives what comes of one more packet after what came before.
type Follow<'f, 'a> = dyn FnMut(&mut Checker<'a>, &Trace) -> Vec<Trace> + 'f;

/// Packets of others that came.
struct Before {
    trace: Trace,
    prospect: Prospect,
    ended: Option<Vec<Trace>>,
}

/// Packets that leave something in the same tables on the same path.
struct Kind {
    made: Vec<u32>,
    changed: Vec<(u32, u32)>,
    path: Vec<Vec<NodePort>>,
    /// The kinds of those without which they could not.
    needs: BTreeSet<usize>,
    /// The round in which it was found.
    round: usize,
}

/// The result of one more packet.
struct Next {
    trace: Trace,
    kind: usize,
    /// Whether nothing is gone that was there before.
    keeps_all: bool,
}

/// The kinds that are known.
#[derive(Default)]
struct Kinds(Vec<Kind>);

impl Kind {
    fn changes_some_of(&self, fields: &BTreeSet<(u32, u32)>) -> bool {
        self.changed.iter().any(|f| fields.contains(f))
    }
}

impl Kinds {
    /// The kind of a packet that left something after others: `None` if it did not.
    fn of(&mut self, round: usize, before: &Before, trace: &Trace) -> Option<(usize, bool)> {
        let keeps_all = trace.keeps_all_of(&before.trace);
        let made = trace.made_since(&before.trace);
        // Where an entry was evicted, others change with it.
        let changed = if keeps_all { trace.changed_since(&before.trace) } else { Vec::new() };
        if made.is_empty() && changed.is_empty() {
            return None;
        }
        let ends = trace.ends().iter().skip(before.trace.ends().len());
        let path: Vec<_> = ends.map(|e| e.route.places()).collect();
        let known = self.0.iter().position(|k| k.made == made && k.changed == changed && k.path == path);
        let kind = known.unwrap_or_else(|| {
            self.0.push(Kind { made, changed, path, needs: BTreeSet::new(), round });
            self.0.len() - 1
        });
        let came = before.prospect.kinds.iter().zip(1..);
        let needs = came.filter(|(_, number)| trace.uses_packet(*number)).flat_map(|(kinds, _)| kinds);
        self.0[kind].needs.extend(needs);
        Some((kind, keeps_all))
    }

    /// The kinds that make an entry that is wanted, or do nothing but change a field that was read, and those that such need.
    fn helping(&self, before: &Prospect) -> [BTreeSet<usize>; 2] {
        let makers = (0..).zip(&self.0).filter(|(_, k)| match k.made[..] {
            [] => k.changes_some_of(&before.read),
            _ => k.made.iter().any(|t| before.wanted.contains(t)),
        });
        let mut all = [BTreeSet::new(), BTreeSet::new()];
        for (number, kind) in makers {
            all[0].insert(number);
            all[1].extend(&kind.needs);
        }
        all
    }
}

impl<'a> Checker<'a> {
    /// Tries a check on a network that nothing came to, and then after each history: what packets that came before may
    /// have left in tables. There is a history for each path on which some packet makes an entry; entries that only
    /// packets after those can make come in the next round.
    pub(super) fn with_histories(
        &mut self,
        q: &Query,
        mut check: impl FnMut(&mut Self, &Trace) -> Search,
    ) -> Search {
        let others = Others::From(&q.others);
        self.histories(HISTORIES, others, |c, before| Looked { found: check(c, before), ended: None })
    }

    /// The same with so many histories at most, where `others` gives what may come of one more packet of anybody.
    pub(super) fn histories(
        &mut self,
        most: usize,
        mut others: Others<'_, 'a>,
        mut check: impl FnMut(&mut Self, &Trace) -> Looked,
    ) -> Search {
        let trace = self.session.blank();
        self.unknown = 0;
        self.session.forget_missed();
        let Looked { found: mut answer, ended } = check(self, &trace);
        if matches!(answer, Search::Found(_)) {
            return answer;
        }
        let missed = self.session.take_missed();
        if !missed.somewhere {
            return answer;
        }
        if self.session.is_late() {
            self.session.give_up(Incomplete::Time);
            return answer;
        }
        self.recorder.invalidate();
        let (mut kinds, mut left) = (Kinds::default(), most);
        let mut prospect = Prospect::default();
        prospect.learn(missed);
        let mut all = vec![Before { trace, prospect, ended }];
        // Whether one more of a kind may come, or an entry was evicted, and that was not followed; or not all could be tried.
        let (mut more, mut is_cut) = (false, false);
        // A proof needs that nothing is found where nobody came.
        let mut tried = !matches!(answer, Search::Impossible);
        'rounds: for round in 0..ROUNDS {
            let mut sites = self.next_sites(round, all, &mut kinds, &mut others, &mut more);
            // Where there is much to try, a proof costs less.
            if sites.len() > MANY
                && !std::mem::replace(&mut tried, true)
                && self.is_never(&mut others, &mut check)
            {
                return Search::Impossible;
            }
            // Where not all can be tried, those that are likelier to lead somewhere are, in this round and in later ones.
            let most = if round == 0 { left - left / 4 } else { left / (ROUNDS - round) };
            is_cut |= sites.len() > most;
            sites.truncate(most);
            all = Vec::new();
            for site in sites {
                if self.session.is_late() {
                    self.session.give_up(Incomplete::Time);
                    return answer;
                }
                let Some((next, found)) = self.after(site, &mut left, &mut check) else { break 'rounds };
                match found {
                    Search::Found(e) => return Search::Found(e),
                    Search::Impossible => {}
                    Search::Unknown => answer = Search::Unknown,
                }
                all.extend(next);
            }
            match (all.is_empty(), is_cut) {
                (true, false) => {
                    self.not_tried |= more;
                    return answer;
                }
                (true, true) => break,
                (false, _) => {}
            }
        }
        // Entries that take more packets are not tried.
        if !tried && self.is_never(&mut others, &mut check) {
            return Search::Impossible;
        }
        self.session.give_up(Incomplete::Histories);
        answer
    }

    /// What comes of one more packet after what came before.
    pub(super) fn let_in(&mut self, others: &mut Others<'_, 'a>, before: &Trace) -> Vec<Trace> {
        match others {
            Others::From(starts) => {
                let (mut ended, nowhere) = (Vec::new(), HashSet::new());
                for start in *starts {
                    let traces = self.launch(before, start, None);
                    ended.extend(self.session.run_for(Interest::Entries, traces, &nowhere).ended);
                }
                ended
            }
            Others::Looked => Vec::new(),
            Others::By(follow) => follow(self, before),
        }
    }

    /// What one more packet of anybody may leave after what came before.
    fn next_sites(
        &mut self,
        round: usize,
        all: Vec<Before>,
        kinds: &mut Kinds,
        others: &mut Others<'_, 'a>,
        more: &mut bool,
    ) -> Vec<Site> {
        // Who needs whom is known when all were let in.
        let mut came: Vec<(Prospect, Vec<Next>)> = Vec::new();
        for mut before in all {
            let ended = before.ended.take();
            let traces = ended.unwrap_or_else(|| self.let_in(others, &before.trace));
            before.prospect.learn(self.session.take_missed());
            let next = traces.into_iter().filter_map(|trace| {
                let (kind, keeps_all) = kinds.of(round, &before, &trace)?;
                Some(Next { trace, kind, keeps_all })
            });
            let next = next.collect();
            came.push((before.prospect, next));
        }
        let mut sites = Vec::new();
        for (before, next) in came {
            let [makers, needed] = kinds.helping(&before);
            for Next { trace, kind: number, keeps_all } in next {
                let kind = &kinds.0[number];
                let is_needed = keeps_all && needed.contains(&number);
                let rank = if keeps_all && makers.contains(&number) {
                    Rank::Wanted
                } else if kind.round == round {
                    Rank::New
                } else if is_needed {
                    Rank::Needed
                } else if keeps_all && trace.uses_all_others() {
                    *more = true;
                    Rank::Last
                } else {
                    *more |= !keeps_all || kind.changes_some_of(&before.read);
                    continue;
                };
                let mut prospect = Prospect { rank, makes: kind.made.len(), ..before.clone() };
                prospect.kinds.push(BTreeSet::from([number]));
                if !is_needed {
                    prospect.wanted.clear();
                    prospect.read.clear();
                }
                Site::add(&mut sites, self.session.exprs(), trace.of_others(), prospect);
            }
        }
        sites.sort_by_key(|s| (s.prospect.rank, s.prospect.makes));
        sites
    }

    /// What a check finds after all that a site stands for at once, and, if that leaves a doubt, after each; and what others
    /// may come after, if they may. `None` if that takes more histories than are `left`.
    fn after(
        &mut self,
        site: Site,
        left: &mut usize,
        check: &mut impl FnMut(&mut Self, &Trace) -> Looked,
    ) -> Option<(Option<Before>, Search)> {
        *left = left.checked_sub(1)?;
        let trace = site.merged(&mut self.session);
        self.session.forget_missed();
        self.explored.histories += 1;
        let Looked { mut found, ended } = check(self, &trace);
        let mut prospect = site.prospect;
        prospect.learn(self.session.take_missed());
        // Where the one for all leaves no doubt, each of them leaves none.
        if site.traces.len() > 1 && matches!(found, Search::Unknown) {
            let tried = site.traces.len().min(*left);
            *left -= tried;
            found = self.any(&site.traces[..tried], |c, trace| check(c, trace).found);
            if tried < site.traces.len() && !matches!(found, Search::Found(_)) {
                return None;
            }
        }
        let leads_on = prospect.rank != Rank::Last;
        Some((leads_on.then_some(Before { trace, prospect, ended }), found))
    }
}

use std::collections::HashSet;

use super::{Checker, Query, Search};
use crate::expr::Expr;
use crate::session::Story;

/// Most rounds in which packets of others are let in one after the other.
const ROUNDS: usize = 3;
/// Most histories that a check is repeated after.
const HISTORIES: usize = 64;

/// The paths that make the same entries, whatever else they assume.
struct Site {
    story: Story,
    /// What all of them assume.
    conditions: Vec<Expr>,
    of_many: bool,
}

impl Site {
    fn add(sites: &mut Vec<Site>, story: Story) {
        let conditions = story.conditions();
        match sites.iter_mut().find(|s| s.story.same_tables(&story)) {
            Some(s) => {
                let common = s.conditions.iter().zip(&conditions).take_while(|(a, b)| a == b).count();
                s.conditions.truncate(common);
                s.of_many = true;
            }
            None => sites.push(Site { story, conditions, of_many: false }),
        }
    }
}

impl Checker<'_> {
    /// Tries a check on a network that nothing came to, and then after each history: what packets that came before may
    /// have left in tables. There is a history for each way in which some packet makes an entry; entries that only
    /// packets after those can make come in the next round.
    pub(super) fn with_histories(
        &mut self,
        q: &Query,
        check: impl FnMut(&mut Self, &Story) -> Search,
    ) -> Search {
        let nowhere = HashSet::new();
        let next = |c: &mut Self, before: &Story| {
            let mut ended = Vec::new();
            for start in &q.others {
                let stories = c.launch(before, start, None);
                ended.extend(c.session.run(stories, &nowhere).ended);
            }
            ended
        };
        self.histories(HISTORIES, next, check)
    }

    /// The same with so many histories at most, where `follow` gives what may come of one more packet of anybody.
    pub(super) fn histories(
        &mut self,
        most: usize,
        mut follow: impl FnMut(&mut Self, &Story) -> Vec<Story>,
        mut check: impl FnMut(&mut Self, &Story) -> Search,
    ) -> Search {
        let blank = self.session.blank();
        self.unknown = 0;
        self.session.take_missed();
        let mut answer = check(self, &blank);
        if matches!(answer, Search::Found(_)) {
            return answer;
        }
        let mut known = HashSet::new();
        let (mut round, mut count) = (vec![blank], 0);
        for _ in 0..ROUNDS {
            if !self.session.take_missed() {
                return answer;
            }
            let (mut next, mut sites) = (Vec::new(), Vec::new());
            for before in &round {
                for story in follow(self, before) {
                    let made: Vec<_> = story.insertions().skip(before.insertions().count()).collect();
                    let ends = story.ends().iter().skip(before.ends().len());
                    let way: Vec<_> = ends.map(|e| e.trail.places()).collect();
                    if made.is_empty() {
                        continue;
                    }
                    if known.insert((made, way)) {
                        next.push(story.clone());
                    }
                    Site::add(&mut sites, story);
                }
            }
            // An entry of a kind that there was before is one more of them.
            if next.is_empty() {
                return answer;
            }
            // The first of a kind shows what is wrong soonest; that nothing is takes all of them.
            let merged = sites
                .into_iter()
                .filter(|s| s.of_many)
                .map(|s| self.session.weakened(s.story, &s.conditions));
            next.extend(merged);
            self.session.take_missed();
            for story in &next {
                count += 1;
                if count > most {
                    self.session.give_up_histories();
                    return answer;
                }
                match check(self, story) {
                    Search::Found(e) => return Search::Found(e),
                    Search::Impossible => {}
                    Search::Unknown => answer = Search::Unknown,
                }
            }
            round = next;
        }
        // Entries that take more packets are not tried.
        self.session.give_up_histories();
        answer
    }
}

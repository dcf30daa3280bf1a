use std::collections::HashSet;

use super::{Checker, Query};
use crate::session::Story;

/// Most rounds in which packets of others are let in one after the other.
const ROUNDS: usize = 3;
/// Most histories that a check is repeated after.
const HISTORIES: usize = 64;

impl Checker<'_> {
    /// Tries a check on a network that nothing came to, and then after each history: what packets that came before may
    /// have left in tables. There is a history for each way in which some packet makes an entry; entries that only
    /// packets after those can make come in the next round.
    pub(crate) fn with_histories<T>(
        &mut self,
        q: &Query,
        mut check: impl FnMut(&mut Self, &Story) -> Option<T>,
    ) -> Option<T> {
        let blank = self.session.blank();
        self.unknown = 0;
        self.session.take_missed();
        if let Some(found) = check(self, &blank) {
            return Some(found);
        }
        let (nowhere, mut known) = (HashSet::new(), HashSet::new());
        let (mut round, mut count) = (vec![blank], 0);
        for _ in 0..ROUNDS {
            if !self.session.take_missed() {
                return None;
            }
            let mut next = Vec::new();
            for before in &round {
                for start in &q.others {
                    let stories = self.launch(before, start, None);
                    for story in self.session.run(stories, &nowhere).ended {
                        let made: Vec<_> = story.insertions().collect();
                        let way: Vec<_> = story.ends().iter().map(|e| e.trail.places()).collect();
                        if made.len() > before.insertions().count() && known.insert((made, way)) {
                            next.push(story);
                        }
                    }
                }
            }
            self.session.take_missed();
            for story in &next {
                count += 1;
                if count > HISTORIES {
                    self.session.give_up_histories();
                    return None;
                }
                if let Some(found) = check(self, story) {
                    return Some(found);
                }
            }
            if next.is_empty() {
                return None;
            }
            round = next;
        }
        None
    }
}

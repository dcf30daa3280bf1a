use std::collections::HashSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Checker, Query, Search};
use crate::course::Interest;
use crate::expr::{Expr, Exprs, Node, Source, Symbol};
use crate::session::{Part, Session, Story};

/// Most rounds in which packets of others are let in one after the other.
const ROUNDS: usize = 3;
/// Most histories that a check is repeated after.
pub(super) const HISTORIES: usize = 256;

/// The paths that make the same entries, whatever else they assume, and wherever in the packet they take them from: behind
/// a longer header a port stands elsewhere, and may be the same.
struct Site {
    /// Those that differ in what they make or in their way.
    stories: Vec<Story>,
    shape: Shape,
    /// What all of them assume.
    conditions: FxHashSet<Expr>,
    /// Bytes in place of which others have other ones.
    moved: FxHashSet<Expr>,
    of_many: bool,
}

/// What a check found after a history.
pub(super) struct Looked {
    pub(super) found: Search,
    /// What may come of one more packet of anybody, if it looked at all that.
    pub(super) ended: Option<Vec<Story>>,
}

/// Entries, with numbers in place of the bytes of packets.
struct Shape {
    /// What they are.
    numbers: Vec<u128>,
    /// The bytes, in order.
    bytes: Vec<Expr>,
}

impl Site {
    fn add(sites: &mut Vec<Site>, x: &Exprs, story: Story, is_new: bool) {
        // They are mostly alike.
        let (numbers, bytes) =
            sites.first().map_or((256, 16), |s| (s.shape.numbers.len(), s.shape.bytes.len()));
        let mut d = Describe {
            x,
            shape: Shape { numbers: Vec::with_capacity(numbers), bytes: Vec::with_capacity(bytes) },
            seen: FxHashMap::default(),
        };
        story.describe_entries(|part| match part {
            Part::Number(n) => d.shape.numbers.push(n),
            Part::Value(e) => d.value(e),
        });
        let shape = d.shape;
        let conditions: FxHashSet<Expr> = story.conditions().into_iter().collect();
        let Some(site) = sites.iter_mut().find(|s| s.shape.numbers == shape.numbers) else {
            let moved = FxHashSet::default();
            return sites.push(Site { stories: vec![story], shape, conditions, moved, of_many: false });
        };
        site.of_many = true;
        site.conditions.retain(|c| conditions.contains(c));
        let pairs = site.shape.bytes.iter().zip(&shape.bytes);
        site.moved.extend(pairs.filter(|(a, b)| a != b).map(|(a, _)| *a));
        if is_new {
            site.stories.push(story);
        }
    }

    /// A story for all of them: nothing is assumed that is not of all.
    fn merged(&self, session: &mut Session<'_>) -> Story {
        let (x, first) = (session.exprs(), &self.stories[0]);
        let mut conditions = first.conditions();
        let mut known = FxHashMap::default();
        let moved = |e| self.moved.contains(&e);
        conditions.retain(|c| self.conditions.contains(c) && !x.mentions(*c, &moved, &mut known));
        session.weakened(first.clone(), &conditions)
    }
}

/// Puts expressions into a shape.
struct Describe<'a> {
    x: &'a Exprs,
    shape: Shape,
    /// Those that are described, in order: they are told by their number when they come again.
    seen: FxHashMap<Expr, u32>,
}

impl Describe<'_> {
    fn value(&mut self, e: Expr) {
        let x = self.x;
        match x.node(e) {
            Node::Const(v) => return self.tell([2, x.width(e).bits().into(), *v]),
            Node::Symbol(Symbol::Byte(source, _)) if matches!(x.source(*source), Source::Input(_)) => {
                let bytes = &mut self.shape.bytes;
                let number = bytes.iter().position(|b| *b == e).unwrap_or_else(|| {
                    bytes.push(e);
                    bytes.len() - 1
                });
                return self.tell([1, source.0.into(), number as u128]);
            }
            _ => {}
        }
        if let Some(&number) = self.seen.get(&e) {
            return self.tell([13, number.into()]);
        }
        self.seen.insert(e, self.seen.len() as u32);
        match x.node(e) {
            Node::Concat(bytes) => self.parts(e, 3, bytes),
            Node::Resize(a) => self.parts(e, 4, &[*a]),
            Node::Byte(a, i) => {
                self.tell([(*i).into()]);
                self.parts(e, 5, &[*a]);
            }
            Node::Binary(op, a, b) => {
                self.tell([*op as u128]);
                self.parts(e, 6, &[*a, *b]);
            }
            Node::Not(a) => self.parts(e, 7, &[*a]),
            Node::Sum16(a, b) => self.parts(e, 8, &[*a, *b]),
            Node::Equal(a, b) => self.parts(e, 9, &[*a, *b]),
            Node::Less(a, b) => self.parts(e, 10, &[*a, *b]),
            Node::Select(c, a, b) => self.parts(e, 11, &[*c, *a, *b]),
            Node::Claimed(c) => {
                self.tell([12, c.table.into(), c.hole.into()]);
                for (key, there) in &c.changes {
                    self.tell([(*there).into()]);
                    key.iter().for_each(|k| self.value(*k));
                }
                let rest = [c.lo, c.hi, c.start, c.size];
                c.key.iter().chain(&rest).for_each(|v| self.value(*v));
            }
            // Whatever else it is, it has to be just that.
            _ => self.tell([0, e.0.into()]),
        }
    }

    /// An operation, by its number, and its operands.
    fn parts(&mut self, e: Expr, operation: u128, operands: &[Expr]) {
        self.tell([operation, self.x.width(e).bits().into(), operands.len() as u128]);
        operands.iter().for_each(|o| self.value(*o));
    }

    fn tell<const N: usize>(&mut self, numbers: [u128; N]) {
        self.shape.numbers.extend(numbers);
    }
}

impl Checker<'_> {
    /// Tries a check on a network that nothing came to, and then after each history: what packets that came before may
    /// have left in tables. There is a history for each way in which some packet makes an entry; entries that only
    /// packets after those can make come in the next round.
    pub(super) fn with_histories(
        &mut self,
        q: &Query,
        mut check: impl FnMut(&mut Self, &Story) -> Search,
    ) -> Search {
        let nowhere = HashSet::new();
        let next = |c: &mut Self, before: &Story| {
            let mut ended = Vec::new();
            for start in &q.others {
                let stories = c.launch(before, start, None);
                ended.extend(c.session.run_for(Interest::Entries, stories, &nowhere).ended);
            }
            ended
        };
        self.histories(HISTORIES, next, |c, before| Looked { found: check(c, before), ended: None })
    }

    /// The same with so many histories at most, where `follow` gives what may come of one more packet of anybody.
    pub(super) fn histories(
        &mut self,
        most: usize,
        mut follow: impl FnMut(&mut Self, &Story) -> Vec<Story>,
        mut check: impl FnMut(&mut Self, &Story) -> Looked,
    ) -> Search {
        let blank = self.session.blank();
        self.unknown = 0;
        self.session.take_missed();
        let Looked { found: mut answer, ended } = check(self, &blank);
        if matches!(answer, Search::Found(_)) {
            return answer;
        }
        let mut known = HashSet::new();
        let (mut round, mut count) = (vec![(blank, ended)], 0);
        for _ in 0..ROUNDS {
            if !self.session.take_missed() {
                return answer;
            }
            self.keeper.spoil();
            // Not what comes after so many: it would hardly be fewer, and what is given up takes long to find.
            if count + round.len() > most {
                break;
            }
            let (mut sites, mut is_more) = (Vec::new(), false);
            for (before, ended) in round {
                for story in ended.unwrap_or_else(|| follow(self, &before)) {
                    let made = story.made_since(&before);
                    let ends = story.ends().iter().skip(before.ends().len());
                    let way: Vec<_> = ends.map(|e| e.trail.places()).collect();
                    if made.is_empty() {
                        continue;
                    }
                    let is_new = known.insert((made, way));
                    is_more |= is_new;
                    Site::add(&mut sites, self.session.exprs(), story, is_new);
                }
            }
            // An entry of a kind that there was before is one more of them.
            if !is_more {
                return answer;
            }
            self.session.take_missed();
            round = Vec::new();
            for site in sites {
                count += 1;
                if count > most {
                    self.session.give_up_histories();
                    return answer;
                }
                let all = site.merged(&mut self.session);
                let Looked { found, ended } = check(self, &all);
                round.push((all, ended));
                match found {
                    Search::Found(e) => return Search::Found(e),
                    // Where the one for all of a kind leaves no doubt, each of them leaves none.
                    Search::Impossible => continue,
                    Search::Unknown => answer = Search::Unknown,
                }
                for story in site.stories.iter().filter(|_| site.of_many) {
                    count += 1;
                    if count > most {
                        self.session.give_up_histories();
                        return answer;
                    }
                    if let Search::Found(e) = check(self, story).found {
                        return Search::Found(e);
                    }
                }
            }
        }
        // Entries that take more packets are not tried.
        self.session.give_up_histories();
        answer
    }
}

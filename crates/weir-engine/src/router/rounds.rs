//! The state of a function in rounds: all of it while the function works, then what has changed since, and when it is stopped the rest with the packets that wait.
//!
//! A round is a text as the whole state is one ([`state`](super::state)). What takes long, finding out what changed and writing it down, is done beside the thread
//! that moves packets: here its tables are only copied.

use serde::{Deserialize, Serialize};
use weir_table::{Changes, Frozen, SetSnapshot};

use super::runtime::Runtime;
use super::state::{Element, read_text, written_text};
use super::{Others, Router};

/// What the text of a round begins with.
const MAGIC: &str = "weir-round 1 sha256:";
/// Entries that are given to a function in one go: it takes less than a millisecond.
const PIECE: usize = 2048;

/// A function's state as the thread that moves packets gives it.
pub(crate) struct Look {
    elements: Vec<Element>,
    /// Tables whose keys are values.
    pub frozen: Frozen,
    /// Other tables, and packets that wait.
    rest: SetSnapshot,
    timers: Option<Vec<u64>>,
    timer_of: Vec<String>,
}

/// A round.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Round {
    elements: Vec<Element>,
    changes: Changes,
    rest: SetSnapshot,
    /// Of the last round: nanoseconds until each timer is due, in the order of the elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timers: Option<Vec<u64>>,
    /// The element that each timer is of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    timer_of: Vec<String>,
}

/// A table of a function as people call it: its element and its name.
fn shown(owner: &str, table: &str) -> String {
    let element = owner.strip_prefix("shared ").unwrap_or(owner);
    let element = element.split(" :: ").next().unwrap_or(element);
    format!("{}.{table}", element.trim_start_matches('/'))
}

impl Look {
    /// The text of the round in which this follows `before`.
    pub fn written(&self, before: Option<&Frozen>) -> Result<String, String> {
        let round = Round {
            elements: self.elements.clone(),
            changes: self.frozen.since(before),
            rest: self.rest.clone(),
            timers: self.timers.clone(),
            timer_of: self.timer_of.clone(),
        };
        written_text(MAGIC, &round)
    }
}

impl Round {
    /// A round from its text.
    pub fn read(text: &str) -> Result<Round, String> {
        read_text(MAGIC, "weir-round ", text)
    }

    /// The same in pieces, none of which takes long.
    pub fn pieces(self) -> Vec<Round> {
        let Round { elements, changes, rest, timers, timer_of } = self;
        let mut pieces: Vec<Round> = changes
            .pieces(PIECE)
            .into_iter()
            .map(|changes| Round {
                elements: elements.clone(),
                changes,
                rest: SetSnapshot::default(),
                timers: None,
                timer_of: Vec::new(),
            })
            .collect();
        if let Some(last) = pieces.last_mut() {
            (last.rest, last.timers, last.timer_of) = (rest, timers, timer_of);
        }
        pieces
    }
}

impl Router {
    /// What a round of a function's state is made of; with `last`, its packets and timers too. No packets may be in flight between workers.
    pub(crate) fn look(
        &mut self,
        rt: &mut Runtime,
        rest: &mut (impl Others + ?Sized),
        function: &str,
        last: bool,
    ) -> Result<Look, String> {
        let elements = self.elements_of(function)?;
        rt.env.running.clone_from(&self.name);
        let gathered = self.gather(rest);
        self.settle(rt);
        let mut plain = Vec::new();
        let mut others = Vec::new();
        for t in (0..self.tables.len() as u32).filter(|&t| self.is_state(t)) {
            match self.owner_within(&self.table_owner(t), function) {
                Some(owner) if self.tables.can_freeze(t) => plain.push((t, owner)),
                Some(_) => others.push(t),
                None => {}
            }
        }
        let frozen = self.tables.freeze(plain, rt.env.now);
        let mut all = self.tables.snapshot_of(others, rt.env.now, |t| self.table_owner(t));
        let mut waiting = Ok(());
        if last {
            waiting = self.waiting(rt).map(|w| all.tables.extend(w));
            for worker in 1..=rest.last_worker() {
                if let Some((router, rt)) = rest.parts(worker, self.slot).filter(|_| waiting.is_ok()) {
                    waiting = router.waiting(rt).map(|w| all.tables.extend(w));
                }
            }
        }
        if gathered {
            self.scatter();
        }
        waiting?;
        let timers = last.then(|| self.timers_of(rt, &elements));
        // In each round: who does not know this says so before anything stops.
        let timer_of = self.timer_owners(&elements);
        let elements = elements.into_iter().map(|(_, e)| e).collect();
        let rest = all.select(|owner, _| self.owner_within(owner, function));
        Ok(Look { elements, frozen, rest, timers, timer_of })
    }

    /// Does to a function, which is stopped, what changed in one of the same elements; in one of others if `leave` is said, which names the tables of that
    /// one, as `ELEMENT.TABLE`, that may end. What came before a mistake is done.
    pub(crate) fn absorb(
        &mut self,
        rt: &mut Runtime,
        rest: &mut (impl Others + ?Sized),
        function: &str,
        round: Round,
        leave: Option<&[String]>,
    ) -> Result<(), String> {
        let elements = self.elements_of(function)?;
        if leave.is_none() {
            self.is_of_same(&elements, &round.elements)?;
        }
        // The whole of a graph stands still together.
        if !function.is_empty() && !elements.iter().all(|(e, _)| self.stopped.get(*e) == Some(&true)) {
            return Err(format!("function '{function}' is not stopped"));
        }
        let own: Vec<u32> = (0..self.tables.len() as u32)
            .filter(|&t| self.is_state(t) && self.owner_within(&self.table_owner(t), function).is_some())
            .collect();
        let leaves = |owner: &str, name: &str| leave.is_some_and(|l| l.contains(&shown(owner, name)));
        if leave.is_some() {
            self.fits(function, &round, &own, leaves)?;
        }
        let here = |owner: &str, name: &str| {
            Some(owner).filter(|o| !leaves(o, name)).and_then(|o| self.owner_here(o, function))
        };
        let (changes, others) = (round.changes.select(here), round.rest.select(here));
        let whole: Vec<u32> = own.iter().copied().filter(|&t| !self.tables.can_freeze(t)).collect();
        // What an element makes of its state by its parameters is to be found by the new ones.
        let other: Vec<usize> = match round.timers {
            Some(_) => {
                elements.iter().filter(|(_, e)| !round.elements.contains(e)).map(|(n, _)| *n).collect()
            }
            None => Vec::new(),
        };
        let gathered = self.gather(rest);
        let mut done = self.absorb_here(rt, &changes, &own);
        if done.is_ok() {
            done = self.restore_tables(rt, &others, &whole);
        }
        self.adopted(rt, &other);
        for worker in 1..=rest.last_worker() {
            let Some((router, rt)) = rest.parts(worker, self.slot).filter(|_| done.is_ok()) else { continue };
            let same: Vec<u32> = own.iter().copied().filter(|&t| router.restores(rt, t)).collect();
            done = router.absorb_here(rt, &changes, &same);
            if done.is_ok() {
                done = router.restore_tables(rt, &others, &whole);
            }
            router.adopted(rt, &other);
            router.clear_sums(own.iter().copied());
        }
        if gathered {
            self.scatter();
        }
        done?;
        if let Some(timers) = &round.timers {
            self.set_timers_of(rt, &elements, (&round.timer_of, timers));
        }
        Ok(())
    }

    /// Whether each table of a round has one here that can take its content, but for those that are left.
    fn fits(
        &self,
        function: &str,
        round: &Round,
        own: &[u32],
        leaves: impl Fn(&str, &str) -> bool,
    ) -> Result<(), String> {
        let others = round.rest.tables.iter().map(|t| (t.owner.as_str(), &t.decl));
        for (owner, decl) in round.changes.tables().chain(others).filter(|(o, d)| !leaves(o, &d.name)) {
            // What elements are called that have no name follows from their number in the script, and says little.
            if owner.contains('@') && decl.is_cell() {
                continue;
            }
            let name = shown(owner, &decl.name);
            let here = self.owner_here(owner, function);
            let table = own.iter().find(|&&t| {
                here.as_ref() == Some(&self.table_owner(t))
                    && self.plan.linked.tables[t as usize].decl.name == decl.name
            });
            match (table, here) {
                (Some(&t), _) => {
                    if let Some(what) = self.plan.linked.tables[t as usize].decl.differs(decl) {
                        return Err(format!("the table '{name}' is another one here: {what}"));
                    }
                }
                // Packets that wait in a node.
                (None, Some(here)) if self.has_node(&here) => {}
                (None, _) => return Err(format!("nothing here has the table '{name}'")),
            }
        }
        Ok(())
    }

    fn absorb_here(&mut self, rt: &Runtime, changes: &Changes, tables: &[u32]) -> Result<(), String> {
        let owned: Vec<(String, u32)> = tables.iter().map(|&t| (self.table_owner(t), t)).collect();
        let linked = &self.plan.linked.tables;
        let place = |owner: &str, name: &str| {
            let is = |(o, t): &&(String, u32)| o == owner && linked[*t as usize].decl.name == name;
            owned.iter().find(is).map(|(_, t)| *t)
        };
        self.tables.absorb(changes, rt.env.now, place).map_err(|e| weir_io::with_causes(&e))
    }
}

//! A graph on several workers: its routers as one, for the control side.
//!
//! The router of the first worker stands for all while the others stand still: what they counted is moved to it, and
//! the shared tables are put into it. What the control side does there means what it means with one worker.

use std::sync::Arc;

use weir_ir::program::{Entry, EntryKind};
use weir_plan::{COMMON, Home, Part, Share};
use weir_protocol::{GraphFigures, GraphStatus};
use weir_table::SetSnapshot;

use super::calls::HandlerRef;
use super::runtime::Runtime;
use super::status::{add_figures, add_status};
use super::swap::{from_json, to_json};
use super::{Lender, Others, Router, Shared};

/// The value of a counting handler: a number, or lines of a name and numbers.
#[derive(Debug, PartialEq, Eq)]
enum Numbers {
    One(u64),
    Lines(Vec<(String, Vec<u64>)>),
}

impl Numbers {
    fn of(text: &str) -> Option<Numbers> {
        if let Ok(one) = text.trim().parse() {
            return Some(Numbers::One(one));
        }
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            let numbers: Vec<u64> = words.map(|w| w.parse().ok()).collect::<Option<_>>()?;
            (!numbers.is_empty()).then_some((name, numbers))
        };
        let lines = text.lines().map(line).collect::<Option<Vec<_>>>()?;
        (!lines.is_empty()).then_some(Numbers::Lines(lines))
    }

    fn add(&mut self, more: &Numbers) {
        match (self, more) {
            (Numbers::One(a), Numbers::One(b)) => *a += b,
            (Numbers::Lines(a), Numbers::Lines(b)) => {
                for ((_, own), (_, more)) in a.iter_mut().zip(b).filter(|((a, _), (b, _))| a == b) {
                    own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
                }
            }
            _ => {}
        }
    }
}

impl std::fmt::Display for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Numbers::One(n) => write!(f, "{n}"),
            Numbers::Lines(lines) => lines.iter().try_for_each(|(name, numbers)| {
                write!(f, "{name}")?;
                numbers.iter().try_for_each(|n| write!(f, " {n}"))?;
                writeln!(f)
            }),
        }
    }
}

impl Router {
    /// Shares the tables of which there is one with the routers of other workers.
    pub(crate) fn share(&mut self, others: &mut [Router], rt: &Runtime) -> Result<(), String> {
        let shares = &self.plan.division.shares;
        let tables = self.plan.linked.tables.iter().zip(shares).enumerate();
        let one = tables.filter(|(_, (_, s))| **s == Share::One).map(|(i, (t, _))| (i as u32, &t.decl));
        let shared = Arc::new(Shared::new(one, rt.env.devices.waker()).map_err(|e| e.to_string())?);
        others.iter_mut().for_each(|r| r.shared = Some(shared.clone()));
        self.shared = Some(shared);
        // Its own set has had them since it was made.
        self.held = true;
        Ok(())
    }

    /// Collects here what all workers have. Says whether there was anything to do, so that
    /// [`scatter`](Router::scatter) has to follow.
    pub(crate) fn gather(&mut self, rest: &mut (impl Others + ?Sized)) -> bool {
        if self.held || rest.last_worker() == 0 {
            return false;
        }
        if let Some(shared) = self.shared.clone() {
            shared.exchange(self.places());
        }
        for worker in 1..=rest.last_worker() {
            let Some((other, _)) = rest.parts(worker, self.slot) else { continue };
            self.take_sums(other);
            for (element, reasons) in other.take_drops() {
                let of = self.old_drops.entry(element).or_default();
                reasons.into_iter().for_each(|(reason, n)| *of.entry(reason).or_default() += n);
            }
        }
        true
    }

    /// Puts the shared tables back where all workers find them.
    pub(crate) fn scatter(&mut self) {
        if let Some(shared) = self.shared.clone().filter(|_| self.held) {
            shared.exchange(self.places());
        }
    }

    /// Moves what another worker counted to this one.
    fn take_sums(&mut self, other: &mut Router) {
        let division = self.plan.division.clone();
        for (table, share) in (0..).zip(&division.shares) {
            let Share::Sum(fields) = share else { continue };
            let (own, theirs) = (self.tables.table_mut(table), other.tables.table_mut(table));
            // The tables have the same entries in the same order; only the control side changes which.
            let slots: Vec<(u32, u32)> = own.slots().zip(theirs.slots()).collect();
            for (to, from) in slots {
                for &field in fields {
                    let more = theirs.get(from, field);
                    if more != 0 {
                        own.set(to, field, own.get(to, field).wrapping_add(more));
                        theirs.set(from, field, 0);
                    }
                }
            }
        }
    }

    fn take_drops(&mut self) -> super::status::DropCounts {
        let counts = self.drop_counts();
        for list in
            [&mut self.drops.linked, &mut self.drops.fast, &mut self.drops.loops, &mut self.drops.orphans]
        {
            list.fill(0);
        }
        self.node_drops.clear();
        self.old_drops.clear();
        counts
    }

    /// Borrows the other workers for `f`, and has everything here meanwhile.
    fn with_rest<R>(
        &mut self,
        rt: &mut Runtime,
        f: impl FnOnce(&mut Router, &mut Runtime, &mut dyn Others) -> R,
    ) -> R {
        let Some(mut rest) = rt.others.clone().and_then(Lender::lend) else { return f(self, rt, &mut ()) };
        let gathered = self.gather(&mut *rest);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(self, rt, &mut *rest)));
        if gathered {
            self.scatter();
        }
        drop(rest);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Reads a handler that is known to be there.
    pub(crate) fn read_at(
        &mut self,
        rt: &mut Runtime,
        place: &HandlerRef,
        arg: &str,
    ) -> Result<String, String> {
        if rt.others.is_none() || self.is_of_control(place) {
            return self.read_here(rt, place, arg);
        }
        self.with_rest(rt, |first, rt, rest| {
            let slot = first.slot;
            match first.home_of(place) {
                Some(Home::At(home)) if home > 0 => match rest.parts(home, slot) {
                    Some((router, rt)) => router.read_here(rt, place, arg),
                    None => Err("the worker of this element is busy".to_owned()),
                },
                Some(Home::Every) => {
                    let own = first.read_here(rt, place, arg)?;
                    // What has no numbers is the same on every worker, or that of the first.
                    let Some(mut sum) = Numbers::of(&own) else { return Ok(own) };
                    for worker in 1..=rest.last_worker() {
                        let Some((router, rt)) = rest.parts(worker, slot) else { continue };
                        rt.env.devices.look();
                        let more = router.read_here(rt, place, arg).ok();
                        more.and_then(|text| Numbers::of(&text)).into_iter().for_each(|m| sum.add(&m));
                    }
                    Ok(sum.to_string())
                }
                _ => first.read_here(rt, place, arg),
            }
        })
    }

    /// Writes a handler that is known to be there, or sends an element the message of that name.
    pub(crate) fn write_at(
        &mut self,
        rt: &mut Runtime,
        place: &HandlerRef,
        value: &str,
    ) -> Result<(), String> {
        if rt.others.is_none() || self.is_of_control(place) {
            return self.write_here(rt, place, value);
        }
        self.with_rest(rt, |first, rt, rest| {
            let slot = first.slot;
            if let Some(Home::At(home)) = first.home_of(place)
                && home > 0
            {
                return match rest.parts(home, slot) {
                    Some((router, rt)) => router.write_here(rt, place, value),
                    None => Err("the worker of this element is busy".to_owned()),
                };
            }
            first.write_here(rt, place, value)?;
            for worker in 1..=rest.last_worker() {
                let Some((router, rt)) = rest.parts(worker, slot) else { continue };
                match (first.home_of(place), place.element) {
                    // A worker without the node has nothing to change.
                    (Some(Home::Every), _) => drop(router.write_here(rt, place, value)),
                    (None, Some(element)) => router.follow(first, element, place, value, rt),
                    _ => {}
                }
            }
            Ok(())
        })
    }

    /// Whether a handler belongs to an element that calls others: each of these calls asks the other workers by itself.
    fn is_of_control(&self, place: &HandlerRef) -> bool {
        place.element.is_some_and(|e| self.control(e, &place.handler).is_some())
    }

    /// Where the engine node is that a handler is of; `None` if it is of no node, or of any element.
    fn home_of(&self, place: &HandlerRef) -> Option<Home> {
        let element = place.element.filter(|_| !COMMON.contains(&place.handler.as_str()))?;
        match &self.plan.parts[element] {
            Part::Node { .. } => self.plan.division.homes.get(element).copied(),
            Part::Element { .. } => None,
        }
    }

    /// Does here what a write handler of a packet program did to the tables of the first worker.
    fn follow(&mut self, first: &Router, element: usize, place: &HandlerRef, value: &str, rt: &mut Runtime) {
        let Part::Element { tables, owner, .. } = &self.plan.parts[element] else { return };
        let is_message = |e: &Entry| {
            e.owner == *owner && matches!(&e.kind, EntryKind::Message { name } if *name == place.handler)
        };
        if self.plan.linked.entries.iter().any(is_message) {
            // Programs, and so what they send, run once. What they write is shared or added up.
            return;
        }
        let own: Vec<u32> = tables.iter().map(|(_, t)| t.0).collect();
        let shares = self.plan.division.shares.clone();
        let is = |t: u32, share: &Share| shares.get(t as usize) == Some(share);
        let one = own.iter().any(|&t| is(t, &Share::One));
        // The same write has the same effect, and costs what it changes; but a handler may need the shared tables.
        if one || self.write_here(rt, place, value).is_err() {
            self.copy_tables(first, rt, own.iter().copied().filter(|&t| is(t, &Share::Same)));
        }
        self.clear_sums(own.into_iter());
    }

    /// Sets what this worker counted to zero: the first has it.
    pub(super) fn clear_sums(&mut self, tables: impl Iterator<Item = u32>) {
        let division = self.plan.division.clone();
        for t in tables {
            if let Some(Share::Sum(fields)) = division.shares.get(t as usize) {
                let table = self.tables.table_mut(t);
                let slots: Vec<u32> = table.slots().collect();
                slots.into_iter().for_each(|s| fields.iter().for_each(|&f| table.set(s, f, 0)));
            }
        }
    }

    /// Makes tables what they are on the first worker, whose program is the same.
    fn copy_tables(&mut self, first: &Router, rt: &mut Runtime, tables: impl Iterator<Item = u32>) {
        let place: Vec<(usize, u32)> = tables.map(|t| (t as usize, t)).collect();
        if place.is_empty() {
            return;
        }
        let all = first.tables.snapshot(rt.env.now, |t| first.table_owner(t));
        if let Err(e) = self.tables.restore(&all, rt.env.now, &place) {
            let text = format!("worker {}: {}", rt.worker(), weir_io::with_causes(&e));
            rt.env.notice(Some(&self.name), "state-lost", text);
        }
    }

    /// Whether a restore changes a table of this worker: the first has those that are shared, and what was counted.
    pub(super) fn restores(&self, rt: &Runtime, table: u32) -> bool {
        let share = self.plan.division.shares.get(table as usize);
        rt.worker() == 0 || share == Some(&Share::Same)
    }

    /// The content of [`GraphStatus`].
    pub(crate) fn status_of_all(&mut self, rt: &mut Runtime) -> GraphStatus {
        self.with_rest(rt, |first, rt, rest| {
            let mut sum = first.status(rt);
            for worker in 1..=rest.last_worker() {
                if let Some((router, rt)) = rest.parts(worker, first.slot) {
                    add_status(&mut sum, router.status(rt));
                }
            }
            sum
        })
    }

    /// The content of [`GraphFigures`].
    pub(crate) fn figures_of_all(&mut self, rt: &mut Runtime) -> GraphFigures {
        let mut figures = self.with_rest(rt, |first, rt, rest| {
            let mut sum = first.figures(rt);
            for worker in 1..=rest.last_worker() {
                if let Some((router, rt)) = rest.parts(worker, first.slot) {
                    add_figures(&mut sum, router.figures(rt));
                }
            }
            sum
        });
        let counters = self.plan.graph.elements.iter().filter(|e| e.class == "Counter");
        let names: Vec<String> = counters.map(|e| e.name.clone()).collect();
        for name in names {
            let mut read = |what: &str| {
                let text = self.read(rt, &format!("{name}.{what}")).ok()?;
                text.trim().parse::<u64>().ok()
            };
            if let (Some(packets), Some(bytes)) = (read("count"), read("byte_count")) {
                figures.counters.insert(name, (packets, bytes));
            }
        }
        figures
    }

    /// All state as plain data. No packets may be in flight between workers.
    pub(crate) fn snapshot_of_all(
        &mut self,
        rt: &mut Runtime,
        rest: &mut (impl Others + ?Sized),
    ) -> Result<serde_json::Value, String> {
        to_json(&self.all_state(rt, rest)?)
    }

    /// The same before it is written down.
    pub(super) fn all_state(
        &mut self,
        rt: &mut Runtime,
        rest: &mut (impl Others + ?Sized),
    ) -> Result<SetSnapshot, String> {
        let gathered = self.gather(rest);
        let all = self.snapshot(rt).and_then(|mut all: SetSnapshot| {
            for worker in 1..=rest.last_worker() {
                if let Some((router, rt)) = rest.parts(worker, self.slot) {
                    all.tables.extend(router.waiting(rt)?);
                }
            }
            Ok(all)
        });
        if gathered {
            self.scatter();
        }
        all
    }

    /// Replaces state by that of a snapshot, whatever number of workers made it.
    pub(crate) fn restore_to_all(
        &mut self,
        rt: &mut Runtime,
        rest: &mut (impl Others + ?Sized),
        snapshot: serde_json::Value,
    ) -> Result<(), String> {
        let from = from_json(snapshot)?;
        let gathered = self.gather(rest);
        let mut done = self.restore(rt, &from);
        for worker in 1..=rest.last_worker() {
            let Some((router, rt)) = rest.parts(worker, self.slot).filter(|_| done.is_ok()) else { continue };
            done = router.restore(rt, &from);
            let tables = router.tables.len() as u32;
            router.clear_sums(0..tables);
        }
        if gathered {
            self.scatter();
        }
        done
    }

    /// On another worker than the first: takes over what it had before a swap. `first` has taken over what is shared.
    pub(crate) fn adopt_replica(&mut self, old: &mut Router, first: &Router, rt: &mut Runtime) {
        let (new_shares, old_shares) = (self.plan.division.clone(), old.plan.division.clone());
        let both = |from: u32, to: u32| {
            let own = |s: Option<&Share>| s.is_some_and(|s| *s != Share::One);
            own(old_shares.shares.get(from as usize)) && own(new_shares.shares.get(to as usize))
        };
        self.adopt_tables(old, rt, both);
        // What was shared before, and is read only now.
        let division = self.plan.division.clone();
        let fresh = (0..).zip(&division.shares).filter(|(_, s)| **s == Share::Same).map(|(t, _)| t);
        let fresh: Vec<u32> = fresh.filter(|&t| old.has_one_of(self, t)).collect();
        self.copy_tables(first, rt, fresh.into_iter());
        self.swaps = old.swaps + 1;
        self.next_expiry = 0;
        self.active = true;
    }

    /// Whether a table of `new` was one of the shared ones here.
    fn has_one_of(&self, new: &Router, table: u32) -> bool {
        let decl = &new.plan.linked.tables[table as usize].decl;
        let owner = new.table_owner(table);
        let same = |i: usize| {
            self.plan.linked.tables[i].decl.name == decl.name && self.table_owner(i as u32) == owner
        };
        let shares = self.plan.division.shares.iter().enumerate();
        !decl.configured && shares.filter(|(_, s)| **s == Share::One).any(|(i, _)| same(i))
    }

    /// Whether a node of this worker takes over what the node of a graph before had on another.
    pub(crate) fn adopts_node(
        &self,
        me: usize,
        other: usize,
        old: &Router,
    ) -> impl Fn(usize, usize) -> bool + use<> {
        let (new_homes, old_homes) = (self.plan.division.clone(), old.plan.division.clone());
        move |new: usize, before: usize| match (new_homes.homes.get(new), old_homes.homes.get(before)) {
            (Some(Home::Every), Some(Home::Every)) => me == other,
            (Some(Home::Every), _) => me == 0,
            _ => true,
        }
    }

    /// Takes over what nodes had on another worker.
    pub(crate) fn adopt_nodes_of(&mut self, me: usize, old: &mut Router, other: usize) {
        let of = self.adopts_node(me, other, old);
        self.adopt_nodes(old, of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_workers_are_added_up_and_texts_are_not() {
        let mut sum = Numbers::of("g/in 1 2\nh/in 3 0\n").unwrap();
        sum.add(&Numbers::of("g/in 10 0\nh/in 1 1\n").unwrap());
        assert_eq!(sum.to_string(), "g/in 11 2\nh/in 4 1\n");
        assert_eq!(Numbers::of(" 7\n"), Some(Numbers::One(7)));
        for text in ["", "25 g/in g/out\n", "up", "a 1\nb\n"] {
            assert_eq!(Numbers::of(text), None, "{text}");
        }
    }
}

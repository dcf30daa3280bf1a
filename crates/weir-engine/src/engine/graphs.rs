//! The graphs of an engine by number, and when each has something to do: a round costs the graphs that have.

use crate::router::{Router, Runtime};

/// It has to be asked.
const ASK: u64 = 0;
/// Nothing will happen unless it is touched.
const NEVER: u64 = u64::MAX;

/// Graphs, some places empty.
#[derive(Default)]
pub(crate) struct Graphs {
    list: Vec<Option<Router>>,
    /// By number: before this time an untouched graph has nothing to do. Whoever touches a graph sets it to [`ASK`].
    due: Vec<u64>,
    free: Vec<usize>,
}

impl Graphs {
    pub fn get(&self, slot: usize) -> Option<&Router> {
        self.list.get(slot)?.as_ref()
    }

    pub fn get_mut(&mut self, slot: usize) -> Option<&mut Router> {
        *self.due.get_mut(slot)? = ASK;
        self.list.get_mut(slot)?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &Router)> {
        self.list.iter().enumerate().filter_map(|(slot, router)| Some((slot, router.as_ref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Router> {
        self.due.fill(ASK);
        self.list.iter_mut().flatten()
    }

    /// A number that no graph has.
    pub fn free_slot(&mut self) -> usize {
        self.free.pop().unwrap_or(self.list.len())
    }

    /// Puts a graph in its place; gives the one that was there.
    pub fn put(&mut self, slot: usize, router: Router) -> Option<Router> {
        if self.list.len() <= slot {
            self.list.resize_with(slot + 1, || None);
            self.due.resize(slot + 1, NEVER);
        }
        self.due[slot] = ASK;
        self.list[slot].replace(router)
    }

    /// Takes a graph out, to put another there.
    pub fn take(&mut self, slot: usize) -> Option<Router> {
        self.list.get_mut(slot)?.take()
    }

    /// Takes a graph away; its number may be given to another.
    pub fn remove(&mut self, slot: usize) -> Option<Router> {
        let router = self.take(slot)?;
        self.free.push(slot);
        Some(router)
    }

    /// Lets the graphs that want it do what is to be done, for a short while.
    pub fn round(&mut self, rt: &mut Runtime) {
        for (router, due) in self.list.iter_mut().zip(&mut self.due) {
            if *due > rt.env.now {
                continue;
            }
            let Some(router) = router else {
                *due = NEVER;
                continue;
            };
            if router.wants_round(rt.env.now) {
                router.round(rt);
            }
            // Who listens to sockets is asked each time.
            *due = if router.listens() { ASK } else { router.next_round().unwrap_or(NEVER) };
        }
    }

    /// When there is something to do, if nothing comes in.
    pub fn wake(&self) -> Option<u64> {
        let wake = |(router, due): (&Option<Router>, &u64)| match *due {
            ASK => router.as_ref()?.next_round(),
            NEVER => None,
            time => Some(time),
        };
        self.list.iter().zip(&self.due).filter_map(wake).min()
    }
}

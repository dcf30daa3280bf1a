//! An engine with several workers: what concerns all of them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use weir_plan::PlanError;

use super::Engine;
use super::pool::{Pool, WorkerEvent, WorkerPool};
use crate::exchange::Exchange;
use crate::instance::Instance;
use crate::router::{Router, Runtime};
use crate::threads::Threads;

impl Engine {
    /// Lets so many workers run the graphs that are loaded from now on: this engine is the first, each other has an
    /// engine of its own. To be called once, before any graph is loaded and after the clock, the seed and how devices are
    /// opened are set. Where time does not pass by itself, threads would not know it: then there is one worker, unless
    /// `threads` is [`Threads::None`].
    ///
    /// # Errors
    /// If there are too many descriptors or threads, or a core does not exist.
    pub fn set_workers(&mut self, workers: usize, threads: &Threads) -> io::Result<()> {
        let timeless = !self.rt.env.real_time() && *threads != Threads::None;
        if workers < 2 || self.pool.is_some() || timeless {
            return Ok(());
        }
        let mut rest = Vec::new();
        for _ in 1..workers {
            let mut engine = Engine::new(self.classes.clone())?;
            engine.rt.join(&self.rt);
            engine.rt.env.devices.restrict(BTreeMap::new());
            if let Some(bound) = self.busy_poll {
                engine.set_busy_poll(bound);
            }
            if let Some(make) = &self.openers {
                engine.rt.env.devices.set_opener(make());
            }
            rest.push(engine);
        }
        if self.openers.is_some() {
            self.rt.env.devices.share(self.rt.env.hash_seed as u16, workers);
        }
        let wakers: Vec<_> = std::iter::once(self.waker()).chain(rest.iter().map(Engine::waker)).collect();
        let mut ends = Exchange::all(&wakers).into_iter();
        self.rt.exchange = ends.next();
        for (engine, end) in rest.iter_mut().zip(ends) {
            engine.rt.exchange = Some(end);
        }
        let pool = Arc::new(Pool::new(WorkerPool::new(rest, self.waker(), threads)?));
        self.rt.others = Some(pool.clone());
        self.pool = Some(pool);
        Ok(())
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.rt.workers()
    }

    /// Number of the worker whose engine this is.
    pub(crate) fn worker(&self) -> usize {
        self.rt.worker()
    }

    pub(crate) fn parts(&mut self, slot: usize) -> Option<(&mut Router, &mut Runtime)> {
        Some((self.graphs.get_mut(slot)?, &mut self.rt))
    }

    /// Borrows the engines of the other workers for `f`; none if there are none, or they are borrowed already.
    pub(super) fn with_rest<R>(&mut self, f: impl FnOnce(&mut Engine, &mut [Engine]) -> R) -> R {
        let Some(mut rest) = self.pool.as_ref().and_then(Pool::borrow) else { return f(self, &mut []) };
        f(self, &mut rest.engines)
    }

    /// Delivers all packets that are in flight, within and between workers.
    pub(super) fn quiesce(&mut self, rest: &mut [Engine]) {
        while !rest.is_empty() {
            let mut moved = self.settle();
            for engine in &mut *rest {
                moved |= engine.settle();
            }
            if !moved {
                return;
            }
        }
    }

    /// Delivers what is in flight here, and says whether there was anything.
    fn settle(&mut self) -> bool {
        let mut moved = self.take_in();
        for router in self.graphs.iter_mut() {
            moved |= router.settle(&mut self.rt);
        }
        while let Some((entrance, packets)) = self.rt.env.links.take_next() {
            moved = true;
            if let Some(router) = self.graphs.get_mut(entrance.graph) {
                router.inject(&mut self.rt, entrance.link, packets);
                router.settle(&mut self.rt);
            }
        }
        if let Some(exchange) = &mut self.rt.exchange {
            exchange.flush();
            moved |= exchange.has_backlog();
        }
        moved
    }

    /// Takes what other workers handed over, and says whether there was anything.
    pub(super) fn take_in(&mut self) -> bool {
        let Some(exchange) = &mut self.rt.exchange else { return false };
        let mut any = false;
        let graphs = &mut self.graphs;
        exchange.receive(|parcel| {
            any = true;
            // Packets of a graph that is gone end with it.
            if let Some(router) = graphs.get_mut(parcel.graph)
                && router.generation == parcel.generation
            {
                router.arrive(parcel.link, parcel.packet);
            }
        });
        any
    }

    /// The routers of a graph for the other workers, which share tables with that of the first.
    pub(super) fn replicas(
        &mut self,
        rest: &mut [Engine],
        first: &mut Router,
        instance: &Instance,
    ) -> Result<Vec<Router>, PlanError> {
        let mut others = Vec::new();
        for engine in rest.iter_mut() {
            engine.rt.env.tick();
            let worker = engine.worker();
            engine.rt.env.devices.restrict(self.rt.env.devices.lend(worker));
            let router = Router::new(&first.name, instance.clone(), &mut engine.rt);
            self.rt.env.devices.take_back(worker, engine.rt.env.devices.unused());
            others.push(router.map_err(PlanError)?);
        }
        if !others.is_empty() {
            first.share(&mut others, &self.rt).map_err(|e| PlanError(vec![e.into()]))?;
        }
        Ok(others)
    }

    /// Puts the other workers' parts of a graph in place, and lets stand still what is to.
    pub(super) fn place_others(
        &mut self,
        rest: &mut [Engine],
        slot: usize,
        old: Option<Router>,
        others: Vec<Router>,
    ) {
        if !rest.is_empty() {
            self.place_replicas(rest, slot, old, others);
        }
        if let Some(first) = self.graphs.get_mut(slot) {
            first.see_stops(rest);
        }
    }

    /// Puts the routers of the other workers where that of the first is, in place of those before.
    fn place_replicas(
        &mut self,
        rest: &mut [Engine],
        slot: usize,
        mut old: Option<Router>,
        others: Vec<Router>,
    ) {
        let mut routers = others;
        let mut before = Vec::new();
        for engine in &mut *rest {
            before.push(engine.graphs.take(slot));
        }
        let Some(first) = self.graphs.get_mut(slot) else { return };
        for ((engine, new), old) in rest.iter_mut().zip(&mut routers).zip(&mut before) {
            new.slot = slot;
            new.generation = first.generation;
            if let Some(old) = old {
                new.adopt_replica(old, first, &mut engine.rt);
            }
        }
        // A node may have been on any worker.
        for (other, was) in std::iter::once(&mut old).chain(&mut before).enumerate() {
            let Some(was) = was else { continue };
            if other > 0 {
                first.adopt_nodes_of(0, was, other);
            }
            for (i, new) in routers.iter_mut().enumerate() {
                new.adopt_nodes_of(i + 1, was, other);
            }
        }
        for (engine, new) in rest.iter_mut().zip(routers) {
            engine.names.insert(new.name.clone(), slot);
            engine.graphs.put(slot, new);
        }
        first.scatter();
    }

    /// Forgets the graph that ran when this worker, which is not the first, panicked. Gives its name.
    pub(crate) fn lose(&mut self) -> String {
        let name = self.rt.env.running.clone();
        self.rx.clear();
        if let Some(slot) = self.names.remove(&name) {
            self.forget(slot);
        }
        name
    }

    /// Whether packets of other workers wait for this one.
    pub(crate) fn has_inbound(&self) -> bool {
        self.rt.exchange.as_ref().is_some_and(Exchange::has_inbound)
    }

    pub(crate) fn take_stop(&mut self) -> bool {
        std::mem::take(&mut self.rt.stop)
    }

    /// Takes up what other workers report.
    pub(super) fn hear(&mut self) {
        let Some(pool) = &self.pool else { return };
        let events = pool.lock().events();
        for event in events {
            match event {
                WorkerEvent::Notice(n) => self.rt.env.notice(n.graph.as_deref(), n.what, n.text),
                WorkerEvent::Stop => self.graphs.iter_mut().for_each(Router::ask_stop),
                WorkerEvent::Failed(graph, panic) => self.abandon_graph(&graph, &panic),
            }
        }
    }

    /// Whether another worker has, or may get, something to do without this one.
    pub(super) fn others_busy(&mut self) -> bool {
        self.with_rest(|first, rest| {
            let on_way =
                |e: &Engine| e.rt.exchange.as_ref().is_some_and(|x| x.has_inbound() || x.has_backlog());
            let busy = |e: &Engine| on_way(e) || e.wake().is_some() || e.rt.env.devices.may_receive();
            on_way(first) || rest.iter().any(busy)
        })
    }
}

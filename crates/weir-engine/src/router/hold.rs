//! Functions that stop and go on while their graph runs.

use super::start::stopped;
use super::{Others, Router};

impl Router {
    /// Stops a function, or lets it go on. The shared tables are here.
    pub(crate) fn hold(
        &mut self,
        rest: &mut (impl Others + ?Sized),
        function: &str,
        stops: bool,
    ) -> Result<(), String> {
        let gates = self.plan.graph.elements.iter().enumerate().filter(|(_, decl)| {
            decl.class == "FunctionGate" && decl.args.first().map(String::as_str) == Some(function)
        });
        let gates: Vec<usize> = gates.map(|(e, _)| e).collect();
        if gates.is_empty() {
            return Err(format!("in graph '{}' nothing can stop function '{function}'", self.name));
        }
        let mut is_so = self.stop_nodes(&gates, stops);
        for worker in 1..=rest.last_worker() {
            if let Some((router, _)) = rest.parts(worker, self.slot) {
                is_so &= router.stop_nodes(&gates, stops);
            }
        }
        if !is_so {
            let what = if stops { "stopped" } else { "going on" };
            return Err(format!(
                "function '{function}' of graph '{}' is not about to move: its being {what} is up to its configuration",
                self.name
            ));
        }
        self.see_stops(rest);
        Ok(())
    }

    /// The functions that can be stopped at a word.
    pub(crate) fn moving(&self) -> impl Iterator<Item = &str> {
        let elements = self.plan.graph.elements.iter().filter(|decl| decl.class == "FunctionGate");
        let moving = elements.filter(|decl| decl.args.iter().any(|a| a == "MOVING true"));
        moving.filter_map(|decl| decl.args.first().map(String::as_str))
    }

    /// Whether all of these nodes that are on this worker are so.
    fn stop_nodes(&mut self, gates: &[usize], stops: bool) -> bool {
        gates.iter().all(|&e| self.nodes[e].as_mut().is_none_or(|node| node.stop(stops)))
    }

    /// Lets stand still, on all workers, what the nodes say that can stop functions. They say it while they run, also that it is as it was before a
    /// swap.
    pub(crate) fn see_stops(&mut self, rest: &mut (impl Others + ?Sized)) {
        if self.stopped.is_empty() {
            return;
        }
        let mut going = self.going();
        for worker in 1..=rest.last_worker() {
            if let Some((router, _)) = rest.parts(worker, self.slot) {
                going.extend(router.going());
            }
        }
        self.stand_still_but(&going);
        for worker in 1..=rest.last_worker() {
            if let Some((router, _)) = rest.parts(worker, self.slot) {
                router.stand_still_but(&going);
            }
        }
    }

    /// The nodes of this worker that could stop a function, and do not.
    fn going(&self) -> Vec<usize> {
        let could = |e: usize| self.plan.facts(e).is_some_and(|facts| facts.stops.is_some());
        self.nodes().filter(|(e, node)| could(*e) && node.stops().is_none()).map(|(e, _)| e).collect()
    }

    fn stand_still_but(&mut self, going: &[usize]) {
        let now = stopped(&self.plan, |e, _| !going.contains(&e));
        if now == self.stopped {
            return;
        }
        self.stopped = now;
        let stands = |e: usize| self.stopped.get(e) == Some(&true);
        self.tasks = self.all_tasks.iter().copied().filter(|&e| !stands(e)).collect();
        for timer in &mut self.timers {
            timer.stopped = self.stopped.get(self.plan.owners[timer.owner as usize]) == Some(&true);
        }
        for due in std::mem::take(&mut self.postponed) {
            self.tables.postpone(due);
        }
        self.next_expiry = 0;
        self.active = true;
    }
}

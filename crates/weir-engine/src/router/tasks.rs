//! What is known of the elements that work by themselves.

use weir_plan::{Home, Part};

use super::Router;

/// How many elements a question goes up a pull path.
const MAX_DEPTH: u32 = 64;

impl Router {
    /// Whether an element works by itself.
    pub(crate) fn has_task(&self, element: usize) -> bool {
        self.plan.facts(element).is_some_and(|facts| facts.task)
    }

    /// Whether an element that works by itself has something to do, as far as its neighbours know.
    pub(crate) fn is_scheduled(&self, element: usize) -> bool {
        let inputs = self.port_counts(element).0;
        if inputs > 0 {
            return (0..inputs).any(|port| self.asks(element, port, 0));
        }
        self.gives(element, 0, 0) && self.node(element).is_some_and(|n| self.space_in(n.fills()) > 0)
    }

    /// How many more packets there is space for in one of these queues; no limit without queues.
    pub(crate) fn space_in(&self, queues: &[usize]) -> usize {
        queues.iter().filter_map(|&q| self.node(q)?.space()).max().unwrap_or(usize::MAX)
    }

    fn gives(&self, element: usize, port: u32, depth: u32) -> bool {
        let Some(node) = self.node(element).filter(|_| depth < MAX_DEPTH) else { return false };
        let asks = |input| self.asks(element, input, depth + 1);
        node.gives(port, &asks).unwrap_or_else(|| (0..self.port_counts(element).0).any(asks))
    }

    fn asks(&self, element: usize, input: u32, depth: u32) -> bool {
        let Part::Node { first_input, .. } = &self.plan.parts[element] else { return false };
        let Some(sources) = self.plan.pulls.get((first_input + input) as usize) else { return false };
        sources.iter().any(|from| self.gives(from.node, from.port, depth))
    }

    /// The worker that an element runs on; with a single one, that it is assigned to (`StaticThreadSched`).
    pub(crate) fn home_thread(&self, element: usize) -> u32 {
        match self.plan.division.homes.get(element) {
            Some(&Home::At(worker)) => worker as u32,
            Some(Home::Every) => 0,
            None => self.plan.threads.get(element).copied().flatten().unwrap_or(0),
        }
    }
}

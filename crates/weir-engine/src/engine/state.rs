//! The state of a function, out of a graph and into another.

use super::Engine;

impl Engine {
    /// The state of a function of a graph as a text; `function` is what the names of its elements begin with.
    ///
    /// # Errors
    /// If there is no such graph or function, or its state is too large.
    pub fn export(&mut self, graph: &str, function: &str) -> Result<String, String> {
        self.rt.env.tick();
        self.with_rest(|first, rest| {
            first.quiesce(rest);
            let (router, rt) = first.graph(graph)?;
            router.export(rt, rest, function)
        })
    }

    /// Gives a function the state that [`export`](Engine::export) gave.
    ///
    /// # Errors
    /// If there is no such graph or function, or the state is damaged or another function's; then nothing has changed.
    pub fn import(&mut self, graph: &str, function: &str, state: &str) -> Result<(), String> {
        self.rt.env.tick();
        self.with_rest(|first, rest| {
            first.quiesce(rest);
            let (router, rt) = first.graph(graph)?;
            router.import(rt, rest, function, state)
        })
    }
}

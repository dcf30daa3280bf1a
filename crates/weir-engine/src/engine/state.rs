//! The state of a function, out of a graph and into another.

use weir_table::Frozen;

use super::Engine;
use super::hand_over::WHOLE;
use crate::router::rounds::{Look, Round};

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

    /// A round of a function's state as a text: what changed since its tables were as they were `before`, which are then as they are now; of the first round,
    /// all. With `last`, packets that wait and timers go as well: the function is to be stopped.
    ///
    /// # Errors
    /// If there is no such graph or function, or its state is too large.
    pub fn export_round(
        &mut self,
        graph: &str,
        function: &str,
        before: &mut Option<Frozen>,
        last: bool,
    ) -> Result<String, String> {
        let look = self.look(graph, function, last)?;
        let text = look.written(before.as_ref())?;
        *before = Some(look.frozen);
        Ok(text)
    }

    /// Does to a function that is stopped what [`export_round`](Engine::export_round) says.
    ///
    /// # Errors
    /// If there is no such graph or function, it is not stopped, or the round is damaged or another function's. It may have a part of it then.
    pub fn import_round(&mut self, graph: &str, function: &str, round: &str) -> Result<(), String> {
        self.import_round_of(graph, function, round, None)
    }

    /// The same of a function that may have other elements, if `leave` is said: the tables of the round, as `ELEMENT.TABLE`, that may end. All others need
    /// one here of the same element, name and fields.
    ///
    /// # Errors
    /// As those of [`import_round`](Engine::import_round), and if a table has none that it fits.
    pub fn import_round_of(
        &mut self,
        graph: &str,
        function: &str,
        round: &str,
        leave: Option<&[String]>,
    ) -> Result<(), String> {
        let pieces = Round::read(round)?.pieces();
        pieces.into_iter().try_for_each(|piece| self.absorb(graph, function, piece, leave))
    }

    /// What a round of a function's state is made of: of its tables, and with `last` also of its packets and timers.
    pub(crate) fn look(&mut self, graph: &str, function: &str, last: bool) -> Result<Look, String> {
        self.rt.env.tick();
        self.with_rest(|first, rest| {
            first.quiesce(rest);
            let (router, rt) = first.graph(graph)?;
            router.look(rt, rest, function, last)
        })
    }

    /// Does to a function that is stopped what changed in another.
    pub(crate) fn absorb(
        &mut self,
        graph: &str,
        function: &str,
        round: Round,
        leave: Option<&[String]>,
    ) -> Result<(), String> {
        if function == WHOLE && !self.parked {
            return Err("the whole of a graph is given to a data plane that takes another one's place".into());
        }
        self.rt.env.tick();
        self.with_rest(|first, rest| {
            first.quiesce(rest);
            let (router, rt) = first.graph(graph)?;
            router.absorb(rt, rest, function, round, leave)
        })
    }

    /// Writes handlers, then stops functions or lets them go on (`holds`: whether it stops), then reads handlers. What was sent before the writes and
    /// stops has left the graph when it is read.
    ///
    /// # Errors
    /// There is no such graph, handler or function, or one says no. What came before is done.
    pub fn exchange(
        &mut self,
        graph: &str,
        writes: &[(String, String)],
        holds: &[(String, bool)],
        reads: &[String],
    ) -> Result<Vec<String>, String> {
        for (handler, value) in writes {
            self.write(graph, handler, value)?;
        }
        self.rt.env.tick();
        self.with_rest(|first, rest| -> Result<(), String> {
            let (router, _) = first.graph(graph)?;
            if !holds.is_empty() {
                let gathered = router.gather(rest);
                let done = holds.iter().try_for_each(|(f, stops)| router.hold(rest, f, *stops));
                if gathered {
                    router.scatter();
                }
                done?;
            }
            first.quiesce(rest);
            let (router, rt) = first.graph(graph)?;
            router.settle(rt);
            Ok(())
        })?;
        reads.iter().map(|handler| self.read(graph, handler)).collect()
    }
}

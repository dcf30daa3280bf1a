//! Handler calls as elements make them: names seen from an element, with a parameter.

use std::sync::Arc;

use weir_click::first_word;
use weir_ir::State;
use weir_ir::program::EntryKind;
use weir_nodes::env::device::Loss;
use weir_nodes::node::{Control, Cx, EngineNode, Modes};
use weir_plan::{COMMON, Defined, Part, TASK, is_called};

use super::Router;
use super::handlers::global_modes;
use super::running::Running;
use super::runtime::Runtime;
use crate::instance::write_within;

/// Why a handler call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallError {
    /// There is no such handler, or it may not be called so.
    Missing(String),
    /// The handler refused: its call, and what it said.
    Refused(String, String),
}

impl CallError {
    /// With the call around what the handler said, as Click writes it.
    pub(crate) fn in_context(self) -> String {
        match self {
            CallError::Missing(text) => text,
            CallError::Refused(call, text) => {
                text.lines().fold(format!("While calling '{call}':"), |all, line| format!("{all}\n  {line}"))
            }
        }
    }
}

/// A handler of an element or of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandlerRef {
    /// The element; `None`: the graph itself.
    pub element: Option<usize>,
    pub handler: String,
}

impl Router {
    /// Calls a read handler: a name, as seen from an element, and a parameter.
    pub(crate) fn call_read(
        &mut self,
        rt: &mut Runtime,
        from: Option<usize>,
        (name, arg): (&str, &str),
    ) -> Result<String, CallError> {
        let place = self.called(from, name)?;
        let name = self.unparse(&place);
        match self.modes(&place) {
            Some(modes) if modes.read && (modes.param || arg.is_empty()) => {}
            Some(modes) if modes.read => {
                return Err(CallError::Missing(format!("read handler '{name}' does not take parameters")));
            }
            _ => return Err(CallError::Missing(format!("no '{name}' read handler"))),
        }
        self.read_at(rt, &place, arg).map_err(|e| CallError::Refused(joined(&name, arg), e))
    }

    /// Calls a write handler, likewise.
    pub(crate) fn call_write(
        &mut self,
        rt: &mut Runtime,
        from: Option<usize>,
        (name, value): (&str, &str),
    ) -> Result<(), CallError> {
        let place = self.called(from, name)?;
        let name = self.unparse(&place);
        if !self.modes(&place).is_some_and(|m| m.write) {
            return Err(CallError::Missing(format!("no '{name}' write handler")));
        }
        self.write_at(rt, &place, value).map_err(|e| CallError::Refused(joined(&name, value), e))
    }

    /// The name of a handler as seen from everywhere.
    pub(crate) fn full_name(&self, from: Option<usize>, name: &str) -> String {
        self.find_handler(from, name).map_or_else(|_| name.to_owned(), |place| self.unparse(&place))
    }

    fn called(&self, from: Option<usize>, name: &str) -> Result<HandlerRef, CallError> {
        let name = weir_click::unquote_text(name).unwrap_or_default();
        self.find_handler(from, &name).map_err(CallError::Missing)
    }

    /// Finds a handler: of an element by name, of the element that asks, or of the graph.
    pub(crate) fn find_handler(&self, from: Option<usize>, name: &str) -> Result<HandlerRef, String> {
        let place = |element, handler: &str| HandlerRef { element, handler: handler.to_owned() };
        let dot = name.find('.');
        let (before, after) = match dot {
            None if name.is_empty() => return Err("syntax error: no handler is named".to_owned()),
            Some(0) => return Ok(place(None, &name[1..])),
            Some(dot) if dot + 1 == name.len() => return Err(format!("syntax error at '{name}'")),
            Some(dot) => (&name[..dot], &name[dot + 1..]),
            None => ("", name),
        };
        if dot.is_some()
            && let Some(element) = self.find_from(from, before)
        {
            return Ok(place(Some(element), after));
        }
        if from.is_some() && self.modes(&place(from, name)).is_some() {
            return Ok(place(from, name));
        }
        if dot.is_none() || global_modes(name).is_some() {
            return Ok(place(None, name));
        }
        Err(format!("no element named '{before}'; the handler 'list' names all elements"))
    }

    /// An element by its name as seen from another: in its own compound element first, then in those around.
    fn find_from(&self, from: Option<usize>, name: &str) -> Option<usize> {
        let mut context = from.map_or("", |e| self.element_name(e));
        while let Some((outer, _)) = context.rsplit_once('/') {
            if let Some(found) = self.plan.graph.find(&format!("{outer}/{name}")) {
                return Some(found);
            }
            context = outer;
        }
        self.plan.graph.find(name)
    }

    fn unparse(&self, place: &HandlerRef) -> String {
        match place.element {
            Some(e) => format!("{}.{}", self.element_name(e), place.handler),
            None => place.handler.clone(),
        }
    }

    /// How a handler may be called.
    pub(crate) fn modes(&self, place: &HandlerRef) -> Option<Modes> {
        let Some(element) = place.element else {
            return match place.handler.as_str() {
                "hotconfig" if self.reconfigure => Some(Modes::WRITE),
                name => global_modes(name),
            };
        };
        let name = place.handler.as_str();
        if let Some(modes) = self.controls[element].as_ref().and_then(|c| c.modes(name)) {
            return Some(modes);
        }
        let mut modes = Modes::default();
        if let Part::Element { owner, .. } = &self.plan.parts[element] {
            modes.write =
                self.plan.linked.entries.iter().any(|e| {
                    e.owner == *owner && matches!(&e.kind, EntryKind::Message { name: n } if n == name)
                });
        }
        for h in self.manual(element).filter(|h| is_called(h.name, name)) {
            modes.read |= h.read;
            modes.write |= h.write;
            // A packet program's handlers look at their parameter, or do not.
            modes.param |= h.read && matches!(self.plan.parts[element], Part::Element { .. });
        }
        modes.read |= COMMON.contains(&name) || (self.has_task(element) && TASK.contains(&name));
        (modes != Modes::default()).then_some(modes)
    }

    /// Reads a handler that is known to be there, on this worker.
    pub(super) fn read_here(
        &mut self,
        rt: &mut Runtime,
        place: &HandlerRef,
        arg: &str,
    ) -> Result<String, String> {
        let Some(element) = place.element else { return self.read_global(rt, &place.handler) };
        let name = place.handler.as_str();
        if let Some(control) = self.control(element, name) {
            let text =
                control.read(name, arg, &mut Cx::new(&mut Running { router: self, rt }, element, false));
            self.take_stop_asked(rt);
            return text;
        }
        if let Some(text) = self.read_common(element, name) {
            return Ok(text);
        }
        match &self.plan.parts[element] {
            Part::Node { .. } => match &self.nodes[element] {
                Some(node) => node.read(name, &rt.env),
                None => Err("the element is busy".to_owned()),
            },
            Part::Element { element, tables, .. } => {
                let state = State::new(&mut self.tables, tables, rt.env.now).asked(arg.trim());
                element.read(name, &state)
            }
        }
    }

    /// Writes a handler that is known to be there, or sends an element the message of that name (numbers, separated
    /// by blanks), on this worker.
    pub(super) fn write_here(
        &mut self,
        rt: &mut Runtime,
        place: &HandlerRef,
        value: &str,
    ) -> Result<(), String> {
        self.active = true;
        let Some(element) = place.element else { return self.write_global(rt, &place.handler, value) };
        let (name, number) = (place.handler.as_str(), element);
        if let Some(control) = self.control(element, name) {
            let done =
                control.write(name, value, &mut Cx::new(&mut Running { router: self, rt }, element, false));
            self.take_stop_asked(rt);
            return done;
        }
        if let Some(done) = self.send_message(rt, element, name, value) {
            return done;
        }
        match &self.plan.parts[element] {
            Part::Node { .. } => match &mut self.nodes[element] {
                Some(node) => {
                    let inputs = self.plan.graph.ports[element].inputs.len();
                    let done =
                        write_within(self.spare.as_deref(), &mut **node, inputs, (name, value), &mut rt.env);
                    self.take_stop_asked(rt);
                    done
                }
                None => Err("the element is busy".to_owned()),
            },
            Part::Element { element, tables, .. } => {
                let mut state = State::new(&mut self.tables, tables, rt.env.now);
                let own = &self.plan.graph.elements[number];
                let names = Defined::of(&self.plan.graph);
                let done = names.within(&own.name, || element.write(name, value, &mut state));
                let warnings = state.into_warnings();
                if done.is_ok() && name == "config" {
                    self.configs.insert(number, value.to_owned());
                }
                for text in warnings {
                    self.print(rt, format!("  warning: {text}"));
                }
                done
            }
        }
    }

    pub(super) fn control(&self, element: usize, handler: &str) -> Option<Arc<dyn Control>> {
        self.controls[element].as_ref().filter(|c| c.modes(handler).is_some()).cloned()
    }

    /// Runs something of each control that `which` picks.
    fn each_control(
        &mut self,
        rt: &mut Runtime,
        which: impl Fn(&dyn Control) -> bool,
        f: impl Fn(&dyn Control, &mut Cx<'_>),
    ) -> bool {
        let mut any = false;
        for element in 0..self.controls.len() {
            let Some(control) = self.controls[element].clone().filter(|c| which(&**c)) else { continue };
            any = true;
            f(&*control, &mut Cx::new(&mut Running { router: self, rt }, element, false));
            self.take_stop_asked(rt);
        }
        any
    }

    /// The graph is in place: scripts begin.
    pub(crate) fn start(&mut self, rt: &mut Runtime) {
        rt.env.running.clone_from(&self.name);
        self.each_control(rt, |_| true, |control, cx| control.start(cx));
        self.active = true;
    }

    /// Whether requests may come from outside.
    pub(crate) fn listens(&self) -> bool {
        !self.listening.is_empty()
    }

    /// Whether a request waits.
    pub(super) fn asked(&self) -> bool {
        self.listening.iter().any(|&e| self.controls[e].as_ref().is_some_and(|c| c.asked()))
    }

    /// Answers requests.
    pub(super) fn serve(&mut self, rt: &mut Runtime) {
        if self.asked() {
            self.each_control(rt, |c| c.asked(), |control, cx| control.serve(cx));
        }
    }

    /// Signals that elements are waiting for.
    pub(crate) fn signals(&self) -> Vec<i32> {
        self.controls.iter().flatten().flat_map(|c| c.signals()).collect()
    }

    /// A signal has come. Returns whether an element was waiting for it.
    pub(crate) fn signal(&mut self, rt: &mut Runtime, signal: i32) -> bool {
        rt.env.running.clone_from(&self.name);
        self.active = true;
        self.each_control(rt, |c| c.signals().contains(&signal), |control, cx| control.signal(signal, cx))
    }

    /// Takes up what an element asked for while it ran. Once the end is decided, there is no further question.
    pub(super) fn take_stop_asked(&mut self, rt: &mut Runtime) {
        if rt.env.take_stop_asked() && !rt.stop {
            self.ask_stop();
        }
    }

    /// The end of the run is asked for.
    pub(crate) fn ask_stop(&mut self) {
        self.stop_asked = self.stop_asked.saturating_add(1);
        self.active = true;
    }

    /// Lets the driver script decide about what was asked; without one the run ends.
    pub(super) fn decide_stop(&mut self, rt: &mut Runtime) {
        // What the script itself asks for waits for the next round.
        for _ in 0..std::mem::take(&mut self.stop_asked) {
            let driver = self.driver.and_then(|e| Some((e, self.controls[e].clone()?)));
            let goes_on = driver.is_some_and(|(element, control)| {
                control.stop_asked(&mut Cx::new(&mut Running { router: self, rt }, element, false))
            });
            if !goes_on {
                self.stop_asked = 0;
                rt.stop = true;
                return;
            }
        }
    }

    /// The run is ended from outside: the script that decides what happens then goes past all that it waits for. As in Click, one
    /// that never ends has a thousand steps.
    pub(crate) fn end(&mut self, rt: &mut Runtime) {
        for _ in 0..1000 {
            self.ask_stop();
            self.decide_stop(rt);
            if std::mem::take(&mut rt.stop) {
                return;
            }
        }
    }

    /// Packets have ended in a device.
    pub(crate) fn lost(&mut self, loss: &Loss) {
        let uses = |n: &Option<Box<dyn EngineNode>>| {
            let n = n.as_ref()?;
            let device = if loss.sender.is_some() { n.writes_device() } else { n.reads_device() };
            device.filter(|d| *d == loss.device)
        };
        // The element that gave them may be gone since, with the graph before a hot swap.
        let own = loss.sender.map(|s| s.element).filter(|&e| self.nodes.get(e).and_then(uses).is_some());
        let Some(element) = own.or_else(|| self.nodes.iter().position(|n| uses(n).is_some())) else { return };
        self.count_drops(element, &loss.reason, loss.packets);
        if let Some(node) = self.nodes[element].as_mut().filter(|_| loss.sender.is_some()) {
            node.lost(loss.packets);
        }
    }

    /// Reports something to people.
    pub(crate) fn print(&self, rt: &mut Runtime, text: String) {
        rt.env.notice(Some(&self.name), "print", text);
    }
}

/// The name and the parameter of a call that is written as one text.
pub(crate) fn split_call(call: &str) -> (&str, &str) {
    first_word(call).unwrap_or_default()
}

fn joined(name: &str, arg: &str) -> String {
    if arg.is_empty() { name.to_owned() } else { format!("{name} {arg}") }
}

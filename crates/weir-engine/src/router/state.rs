//! The state of one function of a graph as a text, by which it goes on in another graph, or on another machine.
//!
//! The text is a line that says its version and a hash of the rest, and the rest in JSON: the function's elements as they are
//! configured, what is in their tables, the packets that wait in them and before them, and when their timers are due. Names in it begin
//! behind that of the function, which may be another one where it goes on.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weir_ir::State;
use weir_plan::Part;
use weir_protocol::MAX_STATE;
use weir_table::SetSnapshot;

use super::runtime::Runtime;
use super::{Others, Router, Timer};

/// What the text begins with.
const MAGIC: &str = "weir-state 1 sha256:";
/// What the node before an input of a function is called in it; the number of the input follows.
const GATE: &str = "gate ";

/// The state of a function.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionState {
    elements: Vec<Element>,
    tables: SetSnapshot,
    /// Nanoseconds until each timer is due, in the order of the elements.
    timers: Vec<u64>,
}

/// An element as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Element {
    name: String,
    class: String,
    args: Vec<String>,
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} :: {}({})", self.name.trim_start_matches('/'), self.class, self.args.join(", "))
    }
}

/// The name of an element within the function, if it is of it. All are of the whole, which has no name.
fn within<'n>(name: &'n str, function: &str) -> Option<&'n str> {
    if function.is_empty() {
        return Some(name);
    }
    name.strip_prefix(function).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What is written down of a function as a text that begins with this, the hash of the rest and a line's end.
pub(super) fn written_text(magic: &str, what: &impl Serialize) -> Result<String, String> {
    let body = serde_json::to_string(what).map_err(|e| e.to_string())?;
    if body.len() > MAX_STATE {
        return Err(format!(
            "the state of the function has {} bytes; at most {MAX_STATE} are moved",
            body.len()
        ));
    }
    Ok(format!("{magic}{}\n{body}", hash(&body)))
}

/// The same from its text; `kind` is what its first line begins with in every version.
pub(super) fn read_text<T: DeserializeOwned>(magic: &str, kind: &str, text: &str) -> Result<T, String> {
    let (head, body) = text.split_once('\n').unwrap_or((text, ""));
    let Some(sum) = head.strip_prefix(magic) else {
        let what = match head.strip_prefix(kind) {
            Some(_) => "it is of another version of Weir",
            None => "it does not begin as one",
        };
        return Err(format!(
            "this is no state of a function that can be read here: {what}; wanted is '{magic}…'"
        ));
    };
    if body.len() > MAX_STATE {
        return Err(format!("a state has at most {MAX_STATE} bytes"));
    }
    if sum != hash(body) {
        return Err(
            "the state of the function is damaged: it does not have the hash that it begins with".into()
        );
    }
    serde_json::from_str(body).map_err(|e| format!("this is no state of a function: {e}"))
}

fn hash(body: &str) -> String {
    Sha256::digest(body).iter().map(|b| format!("{b:02x}")).collect()
}

impl Router {
    /// The function's elements, with their numbers.
    pub(super) fn elements_of(&self, function: &str) -> Result<Vec<(usize, Element)>, String> {
        let elements = self.plan.graph.elements.iter().enumerate().filter_map(|(e, decl)| {
            let name = within(&decl.name, function)?.to_owned();
            Some((e, Element { name, class: decl.class.clone(), args: decl.args.clone() }))
        });
        let elements: Vec<_> = elements.collect();
        if elements.is_empty() {
            return Err(format!("graph '{}' has no function '{function}'", self.name));
        }
        Ok(elements)
    }

    /// Who owns a table, or packets that wait, as the state calls them, if that is the function or the node before one of its inputs.
    pub(super) fn owner_within(&self, owner: &str, function: &str) -> Option<String> {
        if let Some(shared) = owner.strip_prefix("shared ") {
            return within(shared, function).map(|rest| format!("shared {rest}"));
        }
        let (name, class) = owner.split_once(" :: ")?;
        if let Some(rest) = within(name, function) {
            return Some(format!("{rest} :: {class}"));
        }
        let input = self.input_behind(name, function)?;
        Some(format!("{GATE}{input} :: {class}"))
    }

    /// The input of the function that a node of this name stands before.
    fn input_behind<'n>(&self, name: &'n str, function: &str) -> Option<&'n str> {
        let e = self.plan.graph.find(name)?;
        let decl = &self.plan.graph.elements[e];
        let is_gate = decl.class == "FunctionGate" && decl.args.first().map(String::as_str) == Some(function);
        name.rsplit_once('_').map(|(_, input)| input).filter(|_| is_gate)
    }

    /// The owner here of what a state calls so.
    pub(super) fn owner_here(&self, owner: &str, function: &str) -> Option<String> {
        if let Some(rest) = owner.strip_prefix("shared ") {
            return Some(format!("shared {function}{rest}"));
        }
        let Some(gate) = owner.strip_prefix(GATE) else { return Some(format!("{function}{owner}")) };
        let (input, class) = gate.split_once(" :: ")?;
        let mut names = self.plan.graph.elements.iter().map(|e| e.name.as_str());
        let name = names.find(|n| self.input_behind(n, function) == Some(input))?;
        Some(format!("{name} :: {class}"))
    }

    /// Whether packets, or what the control side does, change a table, and not the configuration alone.
    pub(super) fn is_state(&self, table: u32) -> bool {
        let decl = &self.plan.linked.tables[table as usize].decl;
        !decl.configured || decl.counts
    }

    /// The state of a function. No packets may be in flight between workers.
    pub(crate) fn export(
        &mut self,
        rt: &mut Runtime,
        rest: &mut (impl Others + ?Sized),
        function: &str,
    ) -> Result<String, String> {
        let elements = self.elements_of(function)?;
        let mut all = self.all_state(rt, rest)?;
        let timers = self.timers_of(rt, &elements);
        let configured: Vec<(String, String)> = (0..self.plan.linked.tables.len() as u32)
            .filter(|&t| !self.is_state(t))
            .map(|t| (self.table_owner(t), self.plan.linked.tables[t as usize].decl.name.clone()))
            .collect();
        all.tables
            .retain(|t| !configured.iter().any(|(owner, name)| *owner == t.owner && *name == t.decl.name));
        let tables = all.select(|owner, _| self.owner_within(owner, function));
        let elements = elements.into_iter().map(|(_, e)| e).collect();
        written_text(MAGIC, &FunctionState { elements, tables, timers })
    }

    /// Gives a function the state of one of the same elements, in place of its own. What waits before its inputs stays, behind what
    /// the state has there. If it does not fit, nothing is changed.
    pub(crate) fn import(
        &mut self,
        rt: &mut Runtime,
        rest: &mut (impl Others + ?Sized),
        function: &str,
        text: &str,
    ) -> Result<(), String> {
        let state: FunctionState = read_text(MAGIC, "weir-state ", text)?;
        let elements = self.elements_of(function)?;
        self.is_of_same(&elements, &state.elements)?;
        let from = state.tables.select(|owner, _| self.owner_here(owner, function));
        let own: Vec<u32> = (0..self.plan.linked.tables.len() as u32)
            .filter(|&t| self.is_state(t) && self.owner_within(&self.table_owner(t), function).is_some())
            .collect();
        for &t in &own {
            let (owner, name) = (self.table_owner(t), &self.plan.linked.tables[t as usize].decl.name);
            if !from.tables.iter().any(|s| s.owner == owner && s.decl.name == *name) {
                return Err(format!("the state lacks the table '{name}' of '{owner}'"));
            }
        }
        let gathered = self.gather(rest);
        let mut done = self.restore_tables(rt, &from, &own);
        for worker in 1..=rest.last_worker() {
            let Some((router, rt)) = rest.parts(worker, self.slot).filter(|_| done.is_ok()) else { continue };
            done = router.restore_tables(rt, &from, &own);
            router.clear_sums(own.iter().copied());
        }
        if gathered {
            self.scatter();
        }
        done?;
        self.set_timers(rt, &elements, &state.timers);
        Ok(())
    }

    /// Whether a state is one of these elements.
    pub(super) fn is_of_same(&self, here: &[(usize, Element)], there: &[Element]) -> Result<(), String> {
        for i in 0..here.len().max(there.len()) {
            let (here, there) = (here.get(i).map(|(_, e)| e), there.get(i));
            if here != there {
                let shown = |e: Option<&Element>| {
                    e.map_or_else(|| "no such element".to_owned(), |e| format!("'{e}'"))
                };
                return Err(format!(
                    "the state is of another function: it has {}, and this one {}",
                    shown(there),
                    shown(here)
                ));
            }
        }
        Ok(())
    }

    /// Nanoseconds until each timer of these elements is due.
    pub(super) fn timers_of(&self, rt: &Runtime, elements: &[(usize, Element)]) -> Vec<u64> {
        let of = |t: &&Timer| elements.iter().any(|(e, _)| *e == self.plan.owners[t.owner as usize]);
        self.timers.iter().filter(of).map(|t| t.next.saturating_sub(rt.env.now)).collect()
    }

    /// The names of the elements that these are the timers of.
    pub(super) fn timer_owners(&self, elements: &[(usize, Element)]) -> Vec<String> {
        let owner = |t: &Timer| elements.iter().find(|(e, _)| *e == self.plan.owners[t.owner as usize]);
        self.timers.iter().filter_map(owner).map(|(_, e)| e.name.clone()).collect()
    }

    /// Sets the timers of elements by those of elements with the same names, in their order.
    pub(super) fn set_timers_of(
        &mut self,
        rt: &Runtime,
        elements: &[(usize, Element)],
        (names, left): (&[String], &[u64]),
    ) {
        let own = self.timer_owners(elements);
        if names == own || names.is_empty() {
            return self.set_timers(rt, elements, left);
        }
        let mut given: Vec<Option<(&String, u64)>> =
            names.iter().zip(left.iter().copied()).map(Some).collect();
        let owners = &self.plan.owners;
        let of = |t: &&mut Timer| elements.iter().any(|(e, _)| *e == owners[t.owner as usize]);
        for (t, name) in self.timers.iter_mut().filter(of).zip(&own) {
            let same = given.iter_mut().find(|g| g.is_some_and(|(n, _)| n == name));
            if let Some((_, left)) = same.and_then(Option::take) {
                t.next = rt.env.now.saturating_add(left);
            }
        }
    }

    /// Whether this is the owner, as snapshots call it, of packets that wait in a node.
    pub(super) fn has_node(&self, owner: &str) -> bool {
        let Some((name, class)) = owner.split_once(" :: ") else { return false };
        let found = self.plan.graph.find(name).filter(|&e| self.plan.graph.elements[e].class == class);
        found.is_some_and(|e| matches!(self.plan.parts[e], Part::Node { .. }))
    }

    /// Lets elements whose state is another one's make of it what they make by their own parameters.
    pub(super) fn adopted(&mut self, rt: &Runtime, elements: &[usize]) {
        for &e in elements {
            if let Part::Element { element, tables, .. } = &self.plan.parts[e] {
                element.adopted(&mut State::new(&mut self.tables, tables, rt.env.now));
            }
        }
    }

    pub(super) fn set_timers(&mut self, rt: &Runtime, elements: &[(usize, Element)], left: &[u64]) {
        let owners = &self.plan.owners;
        let of = |t: &&mut Timer| elements.iter().any(|(e, _)| *e == owners[t.owner as usize]);
        let timers = self.timers.iter_mut().filter(of);
        timers.zip(left).for_each(|(t, left)| t.next = rt.env.now.saturating_add(*left));
    }
}

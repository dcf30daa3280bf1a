//! Hot swap, snapshot and restore: what a graph remembers, carried over.

use std::collections::HashMap;

use weir_ir::State;
use weir_packet::Packet;
use weir_plan::{Part, Plan};
use weir_table::{SetSnapshot, TableDecl, TableSet, TableSnapshot, Width};

use super::Router;
use super::runtime::Runtime;

/// Name of the table as which the waiting packets of a node stand in a snapshot.
const WAITING: &str = "packets";

impl Router {
    /// Takes over everything from the graph before: tables, waiting packets, counts. Nothing can fail any more; what
    /// does not fit is reported in notices.
    pub(crate) fn adopt(&mut self, old: &mut Router, rt: &mut Runtime) {
        rt.env.running.clone_from(&self.name);
        old.settle(rt);
        self.adopt_tables(old, rt, |_, _| true);
        self.adopt_nodes(old, |_, _| true);
        self.old_drops = old.drop_counts();
        self.swaps = old.swaps + 1;
        self.next_expiry = 0;
        self.active = true;
    }

    /// Takes over what nodes had, for elements `of` which says so (new and old number).
    pub(super) fn adopt_nodes(&mut self, old: &mut Router, of: impl Fn(usize, usize) -> bool) {
        let mut before: HashMap<(String, String), usize> = HashMap::new();
        for (e, decl) in old.plan.graph.elements.iter().enumerate() {
            before.insert((decl.name.clone(), decl.class.clone()), e);
        }
        for e in 0..self.nodes.len() {
            let decl = &self.plan.graph.elements[e];
            let Some(&from) = before.get(&(decl.name.clone(), decl.class.clone())) else { continue };
            if !of(e, from) {
                continue;
            }
            let (Some(new), Some(old_node)) = (&mut self.nodes[e], &mut old.nodes[from]) else { continue };
            new.adopt(&mut **old_node);
            // Packets that came before they were asked for.
            for port in 0..self.port_counts(e).0 {
                let (Some(to), Some(link)) = (self.input_link(e, port), old.input_link(from, port)) else {
                    continue;
                };
                let ahead = std::mem::take(&mut old.out.links[link as usize].ahead);
                self.out.links[to as usize].ahead = ahead;
            }
        }
    }

    /// Delivers what is in flight, so that packets are only in nodes and tables. Says whether
    /// there was any.
    pub(crate) fn settle(&mut self, rt: &mut Runtime) -> bool {
        let any = !self.out.ready.is_empty();
        while !self.out.ready.is_empty() {
            self.deliver(rt);
        }
        any
    }

    /// Whether packets are in flight, that is, neither in nodes nor in tables.
    pub(crate) fn is_busy(&self) -> bool {
        !self.out.ready.is_empty()
    }

    fn input_link(&self, element: usize, port: u32) -> Option<u32> {
        match &self.plan.parts[element] {
            Part::Node { first_input, .. } if port < self.port_counts(element).0 => Some(first_input + port),
            _ => None,
        }
    }

    /// Takes over the tables `of` which says so (old and new number).
    pub(super) fn adopt_tables(&mut self, old: &mut Router, rt: &mut Runtime, of: impl Fn(u32, u32) -> bool) {
        let (mut equal, mut similar) = (Vec::new(), Vec::new());
        let mut numbers: HashMap<(String, String), u32> = HashMap::new();
        for (i, t) in old.plan.linked.tables.iter().enumerate() {
            numbers.insert((old.table_owner(i as u32), t.decl.name.clone()), i as u32);
        }
        let elements: HashMap<&str, usize> =
            old.plan.graph.elements.iter().enumerate().map(|(i, e)| (e.name.as_str(), i)).collect();
        // Whether the element that a table is of has the class and the parameters that the one of its name had before.
        let is_configured_as_before = |plan: &Plan, owner: u32| {
            let new = &plan.graph.elements[plan.owners[owner as usize]];
            let before = elements.get(new.name.as_str()).map(|&i| &old.plan.graph.elements[i]);
            before.is_some_and(|before| (&before.class, &before.args) == (&new.class, &new.args))
        };
        // An element whose declarations changed is restored as a whole, since its tables may be linked.
        let mut changed: Vec<u32> = Vec::new();
        for (i, t) in self.plan.linked.tables.iter().enumerate() {
            if t.decl.configured && !(t.decl.counts && is_configured_as_before(&self.plan, t.owner)) {
                continue;
            }
            let Some(&from) = numbers.get(&(self.table_owner(i as u32), t.decl.name.clone())) else {
                continue;
            };
            if !of(from, i as u32) {
                continue;
            }
            if old.plan.linked.tables[from as usize].decl != t.decl {
                changed.push(t.owner);
            }
            equal.push((from, i as u32, t.owner));
        }
        equal.retain(|&(from, to, owner)| {
            let is_changed = changed.contains(&owner);
            if is_changed {
                similar.push((from as usize, to));
            }
            !is_changed
        });
        if !similar.is_empty() {
            let snapshot = old.tables.snapshot(rt.env.now, |t| old.table_owner(t));
            for pair in groups(&similar, |to| self.plan.linked.tables[to as usize].owner) {
                if let Err(e) = self.tables.restore(&snapshot, rt.env.now, &pair) {
                    let text = format!("state was not carried over: {}", weir_io::with_causes(&e));
                    rt.env.notice(Some(&self.name), "state-lost", text);
                }
            }
        }
        let pairs: Vec<(u32, u32)> = equal.iter().map(|&(from, to, _)| (from, to)).collect();
        self.tables.adopt(&mut old.tables, &pairs);
        for (e, part) in self.plan.parts.iter().enumerate() {
            let Part::Element { element, tables, .. } = part else { continue };
            // All that an element means by its parameters, and by what they name, stands in its program.
            let before = elements.get(self.plan.graph.elements[e].name.as_str());
            if before.and_then(|&b| old.plan.element_program(b)) != self.plan.element_program(e) {
                element.adopted(&mut State::new(&mut self.tables, tables, rt.env.now));
            }
        }
    }

    /// Whose table it is: element name and class, or the shared name.
    pub(super) fn table_owner(&self, table: u32) -> String {
        let t = &self.plan.linked.tables[table as usize];
        match &t.decl.shared_name {
            Some(shared) => format!("shared {shared}"),
            None => self.owner_name(self.plan.owners[t.owner as usize]),
        }
    }

    fn owner_name(&self, element: usize) -> String {
        let decl = &self.plan.graph.elements[element];
        format!("{} :: {}", decl.name, decl.class)
    }

    /// All state as plain data: tables, and the packets that wait in nodes.
    pub(crate) fn snapshot(&mut self, rt: &mut Runtime) -> Result<SetSnapshot, String> {
        rt.env.running.clone_from(&self.name);
        self.settle(rt);
        let mut all = self.tables.snapshot(rt.env.now, |t| self.table_owner(t));
        all.tables.extend(self.waiting(rt)?);
        Ok(all)
    }

    /// The packets that wait in nodes of this worker, as tables.
    pub(super) fn waiting(&mut self, rt: &Runtime) -> Result<Vec<TableSnapshot>, String> {
        let mut all = Vec::new();
        for e in 0..self.nodes.len() {
            let owner = self.owner_name(e);
            let Some(node) = &mut self.nodes[e] else { continue };
            if let Some(packets) = node.waiting() {
                let (mut set, packets) = hold(packets, |set| {
                    all.extend(set.snapshot(rt.env.now, |_| owner.clone()).tables);
                })?;
                drop(packets);
                let back = set.table_mut(0).lookup(&[0]).map(|slot| set.table_mut(0).release(slot));
                node.restore(back.into_iter().flatten().collect());
            }
        }
        Ok(all)
    }

    /// Replaces state by that of a snapshot, for elements of the same name and class. If it does not fit, nothing is
    /// changed.
    pub(crate) fn restore(&mut self, rt: &mut Runtime, from: &SetSnapshot) -> Result<(), String> {
        let tables = self.plan.linked.tables.iter().enumerate();
        let all: Vec<u32> = tables.filter(|(_, t)| !t.decl.configured).map(|(i, _)| i as u32).collect();
        self.restore_tables(rt, from, &all)
    }

    /// The same for these tables, and all packets that wait.
    pub(super) fn restore_tables(
        &mut self,
        rt: &mut Runtime,
        from: &SetSnapshot,
        tables: &[u32],
    ) -> Result<(), String> {
        rt.env.running.clone_from(&self.name);
        self.settle(rt);
        let mut place = Vec::new();
        for &i in tables {
            let t = &self.plan.linked.tables[i as usize];
            let owner = self.table_owner(i);
            let found = from.tables.iter().position(|s| s.owner == owner && s.decl.name == t.decl.name);
            if let Some(s) = found.filter(|_| self.restores(rt, i)) {
                place.push((s, i));
            }
        }
        let mut waiting = Vec::new();
        for (e, _) in self.nodes() {
            let owner = self.owner_name(e);
            let found = from.tables.iter().position(|s| s.owner == owner && s.decl.name == WAITING);
            if let Some(s) = found {
                waiting.push((e, unpack(from, s, rt.env.now)?));
            }
        }
        if !place.is_empty() {
            self.replace_tables(rt, from, &place)?;
        }
        for (e, packets) in waiting {
            if let Some(node) = &mut self.nodes[e] {
                node.restore(packets);
            }
        }
        self.next_expiry = 0;
        self.active = true;
        Ok(())
    }
}

impl Router {
    /// Gives tables the content of a snapshot (table number there, and here); if it does not fit, they are as before.
    fn replace_tables(
        &mut self,
        rt: &Runtime,
        from: &SetSnapshot,
        place: &[(usize, u32)],
    ) -> Result<(), String> {
        let before =
            self.tables.snapshot_of(place.iter().map(|&(_, t)| t), rt.env.now, |t| self.table_owner(t));
        let Err(e) = self.tables.restore(from, rt.env.now, place) else { return Ok(()) };
        let back: Vec<(usize, u32)> = place.iter().enumerate().map(|(i, &(_, t))| (i, t)).collect();
        let undone = self.tables.restore(&before, rt.env.now, &back);
        let mut text = weir_io::with_causes(&e);
        if let Err(e) = undone {
            text.push_str(&format!("; the state before could not be put back: {e}"));
        }
        Err(text)
    }
}

/// A snapshot as a JSON value, which holds no numbers of more than 64 bits; its text does.
pub(super) fn to_json(all: &SetSnapshot) -> Result<serde_json::Value, String> {
    serde_json::to_value(all)
        .or_else(|_| serde_json::to_string(all).map(serde_json::Value::String))
        .map_err(|e| e.to_string())
}

/// A snapshot from JSON.
pub(super) fn from_json(snapshot: serde_json::Value) -> Result<SetSnapshot, String> {
    let from: Result<SetSnapshot, _> = match snapshot {
        serde_json::Value::String(text) => serde_json::from_str(&text),
        value => serde_json::from_value(value),
    };
    from.map_err(|e| format!("this is not a snapshot: {e}"))
}

/// Pairs by the owner of the table they go to.
fn groups(pairs: &[(usize, u32)], owner: impl Fn(u32) -> u32) -> Vec<Vec<(usize, u32)>> {
    let mut groups: Vec<(u32, Vec<(usize, u32)>)> = Vec::new();
    for &(from, to) in pairs {
        let owner = owner(to);
        match groups.iter_mut().find(|(o, _)| *o == owner) {
            Some((_, g)) => g.push((from, to)),
            None => groups.push((owner, vec![(from, to)])),
        }
    }
    groups.into_iter().map(|(_, g)| g).collect()
}

/// The declaration of a table with one entry that holds so many packets.
fn waiting_decl(packets: u32) -> TableDecl {
    TableDecl::new(WAITING, weir_table::Kind::Exact, &[("key", Width::W8)], &[], 1).holding(packets.max(1))
}

/// Puts packets into a table, which knows how to write packets down.
fn hold(packets: Vec<Packet>, f: impl FnOnce(&TableSet)) -> Result<(TableSet, Vec<Packet>), String> {
    let mut set = TableSet::new([&waiting_decl(packets.len() as u32)]).map_err(|e| e.to_string())?;
    let mut left = Vec::new();
    if let Some(slot) = set.table_mut(0).insert(&[0]) {
        for packet in packets {
            left.extend(set.table_mut(0).hold(slot, packet).err());
        }
    }
    f(&set);
    Ok((set, left))
}

fn unpack(from: &SetSnapshot, table: usize, now: u64) -> Result<Vec<Packet>, String> {
    let decl = &from.tables[table].decl;
    let mut set = TableSet::new([&waiting_decl(decl.held)]).map_err(|e| e.to_string())?;
    set.restore(from, now, &[(table, 0)]).map_err(|e| weir_io::with_causes(&e))?;
    let slot = set.table_mut(0).lookup(&[0]);
    Ok(slot.map(|s| set.table_mut(0).release(s).into()).unwrap_or_default())
}

//! What is explored: programs, each with its tables, and the wires between them.
//!
//! A node is an instance of a program (an element, or a whole linked graph), or stands for something that is no packet
//! program by what it may do to packets. Programs are shared between nodes; tables belong to the network.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_ir::program::{BlockId, Program, TableDecl, TableInit};
use weir_table::{Row, TableSet};

use crate::tables::{TableInfo, table_infos};

/// Number of a node.
pub type NodeId = u32;

/// A place in a network: an input or an output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The port.
    pub port: u32,
}

/// What a node does to packets.
#[derive(Debug, Clone)]
pub enum Body {
    /// What the program says.
    Program(Instance),
    /// A packet of any input leaves by output 0, unchanged, at once or later. `lossy`: it may be dropped for want of room.
    Pass {
        /// Whether packets may be lost here.
        lossy: bool,
    },
    /// Packets that arrive have left the network.
    Sink,
    /// Not known: packets that arrive may leave in any form, anywhere. Nothing that passes here can be proved.
    Opaque,
}

/// A program and the numbers of its tables.
#[derive(Debug, Clone)]
pub struct Instance {
    pub(crate) program: Arc<Program>,
    pub(crate) tables: Arc<[u32]>,
}

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name, for people.
    pub name: String,
    /// What it does.
    pub body: Body,
    /// Where its outputs lead.
    pub outputs: Vec<Option<Place>>,
    /// Whether packets that left it may come back to it.
    pub(crate) in_cycle: bool,
}

/// A table of the network.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) init: Arc<TableInit>,
    pub(crate) info: Arc<TableInfo>,
    /// The node that declared it.
    pub(crate) node: NodeId,
    /// The tables of that node.
    siblings: (u32, u32),
}

/// Programs and the wires between them.
#[derive(Debug, Clone, Default)]
pub struct Network {
    nodes: Vec<Node>,
    tables: Vec<Table>,
    /// Shared tables by scope and name.
    shared: HashMap<(u32, String), u32>,
    /// Whether tables may hold anything that the programs could have put there.
    open: bool,
}

impl Network {
    /// A network of nothing. Its tables hold what was declared, and what packets of an exploration put there.
    pub fn new() -> Network {
        Network::default()
    }

    /// One program, whose tables may hold anything that it could have put there before.
    pub fn of_program(program: &Program) -> Network {
        let mut net = Network { open: true, ..Network::default() };
        let name = program.elements.first().cloned().unwrap_or_default();
        net.add_program(name, &Arc::new(program.clone()), 0);
        net
    }

    /// Adds an instance of a program. Tables with a shared name are the same within a scope (a graph).
    pub fn add_program(&mut self, name: impl Into<String>, program: &Arc<Program>, scope: u32) -> NodeId {
        let node = self.nodes.len() as NodeId;
        let instance = self.instance(node, program, scope);
        self.add(name, Body::Program(instance))
    }

    /// Adds a node that is no program.
    pub fn add(&mut self, name: impl Into<String>, body: Body) -> NodeId {
        self.nodes.push(Node { name: name.into(), body, outputs: Vec::new(), in_cycle: true });
        self.nodes.len() as NodeId - 1
    }

    /// Gives a node another program, whose tables start afresh; its wires stay.
    pub fn replace_program(&mut self, node: NodeId, program: &Arc<Program>, scope: u32) {
        let instance = self.instance(node, program, scope);
        if let Some(n) = self.nodes.get_mut(node as usize) {
            n.body = Body::Program(instance);
        }
    }

    /// Leads an output to an input.
    pub fn connect(&mut self, from: Place, to: Place) {
        if let Some(n) = self.nodes.get_mut(from.node as usize) {
            let port = from.port as usize;
            if n.outputs.len() <= port {
                n.outputs.resize(port + 1, None);
            }
            n.outputs[port] = Some(to);
        }
    }

    /// Cuts what leaves by an output.
    pub fn disconnect(&mut self, from: Place) {
        if let Some(o) =
            self.nodes.get_mut(from.node as usize).and_then(|n| n.outputs.get_mut(from.port as usize))
        {
            *o = None;
        }
    }

    /// Finds out where packets can go round, which makes explorations faster. Changes of wires come before it.
    pub fn finish(&mut self) {
        let in_cycle = crate::cycles::in_cycle(&self.nodes);
        for (n, c) in self.nodes.iter_mut().zip(in_cycle) {
            n.in_cycle = c;
        }
    }

    /// The nodes, by number.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node as usize]
    }

    /// Whether tables hold only what was declared and what packets of an exploration put there.
    pub(crate) fn closed(&self) -> bool {
        !self.open
    }

    /// First content of a table.
    pub(crate) fn rows(&self, table: u32) -> &[Row] {
        &self.tables[table as usize].info.rows
    }

    pub(crate) fn decl(&self, table: u32) -> &TableDecl {
        &self.tables[table as usize].init.decl
    }

    pub(crate) fn info(&self, table: u32) -> &TableInfo {
        &self.tables[table as usize].info
    }

    pub(crate) fn table(&self, table: u32) -> &Table {
        &self.tables[table as usize]
    }

    pub(crate) fn table_count(&self) -> u32 {
        self.tables.len() as u32
    }

    /// The tables that are declared beside one.
    pub(crate) fn siblings(&self, table: u32) -> std::ops::Range<u32> {
        let (from, to) = self.tables[table as usize].siblings;
        from..to
    }

    /// Empty tables as declared. Those of nodes that are not visited have no room.
    pub(crate) fn table_set(&self, visits: Option<&HashSet<NodeId>>) -> Option<TableSet> {
        let none = |t: &Table| TableDecl { capacity: 1, ..t.init.decl.clone() };
        let decls: Vec<TableDecl> = self
            .tables
            .iter()
            .map(|t| if visits.is_none_or(|v| v.contains(&t.node)) { t.init.decl.clone() } else { none(t) })
            .collect();
        TableSet::new(&decls).ok()
    }

    fn instance(&mut self, node: NodeId, program: &Arc<Program>, scope: u32) -> Instance {
        let first = self.tables.len() as u32;
        let infos = table_infos(program, self.open);
        let mut numbers = Vec::new();
        for (init, info) in program.tables.iter().zip(infos) {
            let next = self.tables.len() as u32;
            let name = init.decl.shared_name.clone().filter(|_| !self.open);
            let number = name.map_or(next, |name| *self.shared.entry((scope, name)).or_insert(next));
            if number == next {
                let (init, info) = (Arc::new(init.clone()), Arc::new(info));
                self.tables.push(Table { init, info, node, siblings: (first, first) });
            } else {
                Arc::make_mut(&mut self.tables[number as usize].info).join(&info);
            }
            numbers.push(number);
        }
        let last = self.tables.len() as u32;
        self.tables[first as usize..].iter_mut().for_each(|t| t.siblings = (first, last));
        Instance { program: program.clone(), tables: numbers.into() }
    }
}

impl Node {
    /// The program, if it is one.
    pub fn program(&self) -> Option<&Arc<Program>> {
        match &self.body {
            Body::Program(i) => Some(&i.program),
            _ => None,
        }
    }

    /// Where packets on an input start.
    pub(crate) fn entry(&self, port: u32) -> Option<BlockId> {
        self.program()?.packet_entry(0, port)
    }
}

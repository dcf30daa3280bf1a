//! What is explored: programs, each with its tables, and the wires between them.
//!
//! A node is an instance of a program (an element, or a whole linked graph), or stands for something that is no packet
//! program by what it may do to packets. Programs are shared between nodes; tables belong to the network.

pub(crate) mod cycles;
pub(crate) mod effects;
pub(crate) mod invariants;
pub(crate) mod slicing;
pub(crate) mod table_info;
pub(crate) mod wires;

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use weir_ir::Frame;
use weir_ir::program::{BlockId, Program, TableDecl, TableInit};
use weir_table::Row;

use crate::network::effects::{Effects, effects};
use crate::network::invariants::FoundInvariants;
use crate::network::slicing::{FieldSet, Sliced, sliced};
use crate::network::table_info::{TableInfo, table_infos};

/// Number of a node.
pub type NodeId = u32;

/// A place in a network: an input or an output of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodePort {
    /// The node.
    pub node: NodeId,
    /// The port.
    pub port: u32,
}

/// The behaviour of a node.
#[derive(Debug, Clone)]
pub enum Body {
    /// What the program says.
    Program(Instance),
    /// A packet of any input leaves by output 0, unchanged, at once or later. `lossy`: it may be dropped for lack of capacity.
    Pass {
        /// Whether packets may be lost here.
        lossy: bool,
    },
    /// Packets that arrive have left the network.
    Sink,
    /// Not known: packets that arrive may leave in any form, anywhere. Nothing that passes here can be proved.
    Opaque,
}

/// A program, the numbers of its tables, where its values stand on a path, and by block what may become of packets and
/// which operations do not count.
#[derive(Debug, Clone)]
pub struct Instance {
    pub(crate) program: Arc<Program>,
    pub(crate) tables: Arc<[u32]>,
    pub(crate) frame: Arc<Frame>,
    pub(crate) effects: Arc<[Effects]>,
    pub(crate) sliced: Arc<[Sliced]>,
}

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name, for people.
    pub name: String,
    /// What it does.
    pub body: Body,
    /// Where its outputs lead.
    pub outputs: Vec<Option<NodePort>>,
    /// Its program does all that may happen to a packet, and more: what shows only by a packet that passes here is not known.
    pub(crate) guesses: bool,
    /// Whether a packet that goes round is noticed here: there is such a node on each cycle.
    pub(crate) is_head: bool,
    /// The inputs that several wires lead to, if that was found out.
    joins: Option<Vec<u32>>,
    /// When it, its wires or its tables last changed; see [`Network::age`].
    since: u64,
}

/// A table of the network.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) init: Arc<TableInit>,
    pub(crate) info: Arc<TableInfo>,
    /// The tables of that node.
    siblings: (u32, u32),
    /// The nodes that use it.
    users: Vec<NodeId>,
    /// The value fields that their programs ask for.
    asked: FieldSet,
    /// The table whose numbers of entries and free keys are those of this one at the start: itself, unless it was paired.
    like: u32,
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
    /// Counts changes.
    age: u64,
    pub(crate) found_invariants: FoundInvariants,
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
        self.add(name, Body::Program(instance));
        self.leave_out(node);
        node
    }

    /// Adds an instance of a program that stands for something of which it is only known in part what it does: the program
    /// does all that may happen to a packet, drawing random numbers for what is not known. So what no packet can do holds, and
    /// what only a packet that passes here does is inconclusive.
    pub fn add_guess(&mut self, name: impl Into<String>, program: &Arc<Program>, scope: u32) -> NodeId {
        let node = self.add_program(name, program, scope);
        self.nodes[node as usize].guesses = true;
        node
    }

    /// Adds a node that is no program.
    pub fn add(&mut self, name: impl Into<String>, body: Body) -> NodeId {
        self.age += 1;
        let since = self.age;
        self.nodes.push(Node {
            name: name.into(),
            body,
            outputs: Vec::new(),
            guesses: false,
            is_head: true,
            joins: None,
            since,
        });
        self.nodes.len() as NodeId - 1
    }

    /// Gives a node another program, whose tables start afresh; its wires stay.
    pub fn replace_program(&mut self, node: NodeId, program: &Arc<Program>, scope: u32) {
        let instance = self.instance(node, program, scope);
        if let Some(n) = self.nodes.get_mut(node as usize) {
            n.body = Body::Program(instance);
        }
        self.leave_out(node);
        self.touch(node);
    }

    /// Leads an output to an input.
    pub fn connect(&mut self, from: NodePort, to: NodePort) {
        if let Some(n) = self.nodes.get_mut(from.node as usize) {
            let port = from.port as usize;
            if n.outputs.len() <= port {
                n.outputs.resize(port + 1, None);
            }
            n.outputs[port] = Some(to);
        }
        self.touch(from.node);
    }

    /// Cuts what leaves by an output.
    pub fn disconnect(&mut self, from: NodePort) {
        if let Some(o) =
            self.nodes.get_mut(from.node as usize).and_then(|n| n.outputs.get_mut(from.port as usize))
        {
            *o = None;
        }
        self.touch(from.node);
    }

    /// Adds all of another network. Its nodes get the numbers from that on which is returned; nothing leads from one to
    /// the other, and they share no tables.
    pub fn append(&mut self, other: Network) -> NodeId {
        let (first, first_table) = (self.nodes.len() as NodeId, self.tables.len() as u32);
        self.age += 1;
        let since = self.age;
        let node = |mut n: Node| {
            if let Body::Program(i) = &mut n.body {
                i.tables = i.tables.iter().map(|t| t + first_table).collect();
            }
            n.outputs.iter_mut().flatten().for_each(|to| to.node += first);
            Node { since, ..n }
        };
        self.nodes.extend(other.nodes.into_iter().map(node));
        let table = |t: Table| Table {
            users: t.users.iter().map(|n| n + first).collect(),
            like: t.like + first_table,
            siblings: (t.siblings.0 + first_table, t.siblings.1 + first_table),
            ..t
        };
        self.tables.extend(other.tables.into_iter().map(table));
        first
    }

    /// Lets the tables of a node begin as those of the same name of an earlier node, if they are declared alike: as full, and
    /// with the same keys free.
    pub fn pair_tables(&mut self, node: NodeId, with: NodeId) {
        let tables = |n: NodeId| match self.nodes.get(n as usize).map(|n| &n.body) {
            Some(Body::Program(i)) => i.tables.clone(),
            _ => Arc::default(),
        };
        for &t in tables(node).iter() {
            let like = tables(with)
                .iter()
                .copied()
                .find(|&o| *self.tables[o as usize].init == *self.tables[t as usize].init);
            if let Some(like) = like.filter(|&o| o < t && self.tables[t as usize].like == t) {
                self.tables[t as usize].like = self.tables[like as usize].like;
            }
        }
    }

    /// The table that stands for one where only its state at the start counts.
    pub(crate) fn like(&self, table: u32) -> u32 {
        self.tables[table as usize].like
    }

    /// The tables that begin as one does, with itself.
    pub(crate) fn all_like(&self, table: u32) -> impl Iterator<Item = u32> {
        (0..).zip(&self.tables).filter(move |(_, t)| t.like == table).map(|(i, _)| i)
    }

    /// How much changed so far: nodes that changed later are [`changed_since`](Network::changed_since).
    pub fn age(&self) -> u64 {
        self.age
    }

    /// Whether a node, its wires, or a table of it that others share changed after the network had this age.
    pub fn changed_since(&self, node: NodeId, age: u64) -> bool {
        self.nodes.get(node as usize).is_none_or(|n| n.since > age)
    }

    fn touch(&mut self, node: NodeId) {
        self.age += 1;
        if let Some(n) = self.nodes.get_mut(node as usize) {
            n.since = self.age;
        }
    }

    /// Finds out where packets can go round, and where paths meet, which makes explorations faster. Changes of wires come
    /// before it.
    pub fn finish(&mut self) {
        let heads = crate::network::cycles::heads(&self.nodes);
        for (n, is_head) in self.nodes.iter_mut().zip(heads) {
            n.is_head = is_head;
            n.joins = Some(Vec::new());
        }
        let wires: Vec<NodePort> =
            self.nodes.iter().flat_map(|n| n.outputs.iter().flatten().copied()).collect();
        let mut seen = FxHashSet::default();
        for to in wires.into_iter().filter(|to| !seen.insert(*to)) {
            let joins = self.nodes.get_mut(to.node as usize).and_then(|n| n.joins.as_mut());
            if let Some(joins) = joins.filter(|j| !j.contains(&to.port)) {
                joins.push(to.port);
            }
        }
    }

    /// Whether others use a table of a node, or it is not known what it does.
    pub(crate) fn acts_elsewhere(&self, node: &Node) -> bool {
        match &node.body {
            Body::Program(i) => i.tables.iter().any(|&t| self.tables[t as usize].users.len() > 1),
            Body::Opaque => true,
            Body::Pass { .. } | Body::Sink => false,
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

    /// The nodes that use a table of this one, but for itself.
    pub fn sharing(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let tables = match self.nodes.get(node as usize).map(|n| &n.body) {
            Some(Body::Program(i)) => &i.tables[..],
            _ => &[],
        };
        let users = tables.iter().flat_map(|&t| self.tables[t as usize].users.iter().copied());
        users.filter(move |&n| n != node)
    }

    pub(crate) fn table_count(&self) -> u32 {
        self.tables.len() as u32
    }

    /// The tables that are declared beside one.
    pub(crate) fn siblings(&self, table: u32) -> std::ops::Range<u32> {
        let (from, to) = self.tables[table as usize].siblings;
        from..to
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
                self.tables.push(Table {
                    init,
                    info,
                    siblings: (first, first),
                    users: vec![node],
                    asked: 0,
                    like: next,
                });
            } else {
                Arc::make_mut(&mut self.tables[number as usize].info).join(&info);
                self.share(number, node);
            }
            numbers.push(number);
        }
        let last = self.tables.len() as u32;
        self.tables[first as usize..].iter_mut().for_each(|t| t.siblings = (first, last));
        Instance {
            program: program.clone(),
            tables: numbers.into(),
            frame: Arc::new(Frame::of(program)),
            effects: Arc::default(),
            sliced: Arc::default(),
        }
    }

    /// Finds out what the program of a node may leave out, and those that share tables with it.
    fn leave_out(&mut self, node: NodeId) {
        let mut work = vec![node];
        while let Some(node) = work.pop() {
            let Some(Body::Program(i)) = self.nodes.get_mut(node as usize).map(|n| &mut n.body) else {
                continue;
            };
            // What an open network leaves in tables is compared; a program without tables asks for nearly all that it does.
            if self.open || i.tables.is_empty() {
                i.sliced = vec![Sliced::default(); i.program.blocks.len()].into();
            } else {
                let (sliced, asked) =
                    sliced(&i.program, i.tables.iter().map(|&t| self.tables[t as usize].asked));
                i.sliced = sliced;
                for (&t, asked) in i.tables.iter().zip(asked) {
                    let table = &mut self.tables[t as usize];
                    if asked & !table.asked != 0 {
                        table.asked |= asked;
                        work.extend(table.users.iter().filter(|&&user| user != node));
                    }
                }
            }
            i.effects = effects(&i.program, &i.sliced);
        }
    }

    /// What may be in a table has become more, by a node that uses it too.
    fn share(&mut self, table: u32, node: NodeId) {
        self.age += 1;
        let users = &mut self.tables[table as usize].users;
        for &user in users.iter() {
            if let Some(n) = self.nodes.get_mut(user as usize) {
                n.since = self.age;
            }
        }
        users.push(node);
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

    /// Whether paths may meet at an input.
    pub(crate) fn joins(&self, port: u32) -> bool {
        self.joins.as_ref().is_none_or(|j| j.contains(&port))
    }

    /// Whether nothing is behind it.
    pub(crate) fn is_last(&self) -> bool {
        match self.body {
            Body::Sink => true,
            Body::Pass { .. } => self.outputs.first().is_none_or(Option::is_none),
            Body::Program(_) | Body::Opaque => false,
        }
    }

    /// Where packets on an input start.
    pub(crate) fn entry(&self, port: u32) -> Option<BlockId> {
        self.program()?.packet_entry(0, port)
    }
}

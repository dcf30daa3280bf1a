//! From the text of a configuration to everything that is needed to run or to check it: data, nothing of which runs.

use std::collections::HashMap;
use std::sync::Arc;

use weir_click::{Graph, Kind};
use weir_ir::program::{BlockId, End, Entry, EntryKind, TableId};
use weir_ir::{Element, Peer, Peers, Program, Wire, check, link, program_of};
use weir_nodes::node::{EngineNode, Model, Neighbours, NodeClass, NodeFacts};

use crate::classes::{AnyClass, Classes};
use crate::divide::{Division, threads};
use crate::fast::Fast;
use crate::names::Defined;
use crate::problem::{PlanError, Problem};

/// The target of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dest {
    /// Into packet programs.
    Program(BlockId),
    /// Into an input of an engine node (element number).
    Node {
        /// The node.
        node: usize,
        /// The input.
        port: u32,
    },
    /// Nowhere: packets are dropped.
    Nowhere,
}

/// A path from packet programs to an engine node (an exit, at the number of the link), or from an output of a node.
#[derive(Debug, Clone)]
pub struct LinkPlan {
    /// Where it leads.
    pub dest: Dest,
    /// For a link from a node: element and output.
    pub from: Option<(usize, u32)>,
    /// Whether packets may come by here again, so that their rounds are counted.
    pub back: bool,
}

/// A source of a pull input: an output of a node, and the programs between.
#[derive(Debug, Clone, Copy)]
pub struct PullFrom {
    /// The node (element number).
    pub node: usize,
    /// Its output.
    pub port: u32,
    /// Where packets enter the programs.
    pub through: Option<BlockId>,
}

/// An element of the graph.
#[derive(Clone)]
pub enum Part {
    /// A packet program.
    Element {
        /// As it was configured.
        element: Arc<dyn Element>,
        /// Its number among the programs.
        owner: u32,
        /// Its tables by name.
        tables: Arc<[(String, TableId)]>,
    },
    /// An engine node.
    Node {
        /// Its class, which makes a node of the element's arguments.
        class: NodeClass,
        /// What is known of it.
        facts: Arc<NodeFacts>,
        /// The link of its first input; the others follow.
        first_input: u32,
        /// The link of its first output; the others follow.
        first_output: u32,
        /// The number among the programs of that which its packets pass before they leave ([`NodeFacts::filter`]).
        filter: Option<u32>,
    },
}

/// A configuration that can run. It is data: copies share what is large, and of one plan any number of graphs can run.
#[derive(Clone)]
pub struct Plan {
    /// The text.
    pub config: Arc<str>,
    /// The flat graph.
    pub graph: Arc<Graph>,
    /// Its elements.
    pub parts: Vec<Part>,
    /// The programs of elements, not joined with others.
    pub programs: Arc<[Arc<Program>]>,
    /// Element number of each program.
    pub owners: Arc<[usize]>,
    /// All programs joined, as written: block by block and element by element.
    pub linked: Arc<Program>,
    /// Which entries of it packets, timers and messages come to.
    pub used: Arc<[bool]>,
    /// By which output of its element a packet leaves at the end of each block of `linked`.
    pub emits: Arc<[Option<u32>]>,
    /// All links: inputs of nodes, borders between workers, outputs of nodes.
    pub links: Arc<Vec<LinkPlan>>,
    /// For each link whom it asks, in order, if it is a pull input.
    pub pulls: Arc<[Vec<PullFrom>]>,
    /// By element: the worker that is to run it, if the configuration says that.
    pub threads: Arc<[Option<u32>]>,
    /// What several workers need to know.
    pub division: Arc<Division>,
    /// Whether what its elements became depends on the text alone, and not on the machine's addresses.
    pub repeatable: bool,
}

impl Part {
    /// The program that packets leave it from, by its number.
    pub fn program(&self) -> Option<u32> {
        match self {
            Part::Element { owner, .. } => Some(*owner),
            Part::Node { filter, .. } => *filter,
        }
    }

    /// The program of an engine node, by its number.
    pub fn filter(&self) -> Option<u32> {
        match self {
            Part::Element { .. } => None,
            Part::Node { filter, .. } => *filter,
        }
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("graph", &self.graph).finish_non_exhaustive()
    }
}

impl Plan {
    /// Reads a configuration, configures its elements and joins their programs. `file` is for messages.
    pub fn new(classes: &Classes, text: &str, file: &str) -> Result<Plan, PlanError> {
        Plan::with_options(classes, text, file, &weir_click::Options::default())
    }

    /// The same, with parameters from outside and libraries.
    pub fn with_options(
        classes: &Classes,
        text: &str,
        file: &str,
        options: &weir_click::Options<'_>,
    ) -> Result<Plan, PlanError> {
        let graph = weir_click::parse_with(file, text, classes, options).map_err(|e| {
            let mut list: Vec<Problem> = e.list.into_iter().map(Problem::Text).collect();
            if e.omitted > 0 {
                list.push(format!("{} more errors not shown", e.omitted).into());
            }
            PlanError(list)
        })?;
        let (configured, asked) = crate::names::asks_machine(|| configure(classes, &graph));
        let (parts, programs, owners) = configured?;
        let mut plan = Plan {
            config: text.into(),
            graph: Arc::new(graph),
            parts,
            programs: programs.into(),
            owners: owners.into(),
            linked: Arc::default(),
            used: Arc::default(),
            emits: Arc::default(),
            links: Arc::default(),
            pulls: Arc::default(),
            threads: Arc::default(),
            division: Arc::default(),
            repeatable: !asked,
        };
        plan.number_links();
        plan.join()?;
        plan.lead_links();
        plan.threads = threads(&plan).into();
        Ok(plan)
    }

    /// Prepares the plan for several workers: where programs come to an element whose tables exist once, packets go
    /// over a link. Does nothing if that was done, or there is one worker.
    ///
    /// # Errors
    /// If the programs cannot be joined so.
    pub fn divide(&mut self, workers: usize) -> Result<(), PlanError> {
        if workers < 2 || self.division.workers == workers {
            return Ok(());
        }
        let mut division = Division::new(self, workers);
        self.division = Arc::new(division.clone());
        self.number_links();
        self.join()?;
        self.lead_links();
        division.locks = division.locks(self);
        division.homes = division.homes(self);
        self.division = Arc::new(division);
        Ok(())
    }

    /// Makes the engine nodes of a graph that a worker has, by element number.
    ///
    /// # Errors
    /// What addresses of the machine, which are asked for again, have made wrong.
    pub fn nodes(&self, worker: usize) -> Result<Vec<Option<Box<dyn EngineNode>>>, Vec<Problem>> {
        let (mut nodes, mut errors) = (Vec::new(), Vec::new());
        let names = Defined::of(&self.graph);
        for (i, (part, decl)) in self.parts.iter().zip(&self.graph.elements).enumerate() {
            let is_here = self.division.homes.get(i).is_none_or(|home| home.is_on(worker));
            let Part::Node { class, .. } = part else {
                nodes.push(None);
                continue;
            };
            if !is_here {
                nodes.push(None);
                continue;
            }
            match names.within(&decl.name, || (class.configure)(&decl.args)) {
                Ok(node) => nodes.push(Some(node)),
                Err(list) => errors
                    .extend(list.into_iter().map(|what| Problem::of(&self.graph, i, "configuring", what))),
            }
        }
        if errors.is_empty() { Ok(nodes) } else { Err(errors) }
    }

    /// What is known of an engine node.
    pub fn facts(&self, element: usize) -> Option<&NodeFacts> {
        match self.parts.get(element)? {
            Part::Node { facts, .. } => Some(facts),
            Part::Element { .. } => None,
        }
    }

    /// Does something with what an element sees of the graph around it.
    pub fn around<R>(&self, element: usize, f: impl FnOnce(&Neighbours<'_>) -> R) -> R {
        f(&Neighbours::new(&self.graph, &|e| self.facts(e), element))
    }

    /// The program of an element, not joined with others. An engine node has one if its packets pass a filter before they
    /// leave.
    pub fn element_program(&self, element: usize) -> Option<&Arc<Program>> {
        self.programs.get(self.parts.get(element)?.program()? as usize)
    }

    /// A packet program's element; `None` for an engine node.
    pub fn element(&self, element: usize) -> Option<&Arc<dyn Element>> {
        match self.parts.get(element)? {
            Part::Element { element, .. } => Some(element),
            Part::Node { .. } => None,
        }
    }

    /// The bytes of the packets that an engine node generates, if they are always the same.
    pub fn generated(&self, element: usize) -> Option<&[u8]> {
        self.facts(element)?.generates.as_deref()
    }

    /// The joined programs, for who reads them (`weir ir`, the verifier).
    pub fn program(&self) -> &Arc<Program> {
        &self.linked
    }

    /// The joined programs after all passes: what runs at speed.
    pub fn optimized(&self) -> Fast {
        Fast::of(&self.linked, &self.used)
    }

    /// The models of the engine nodes, by element number.
    pub fn models(&self) -> impl Iterator<Item = (usize, Model)> {
        self.parts.iter().enumerate().filter_map(|(i, p)| match p {
            Part::Node { class, .. } => Some((i, class.model)),
            Part::Element { .. } => None,
        })
    }

    fn number_links(&mut self) {
        let (mut links, mut next) = (Vec::new(), 0);
        for (e, part) in self.parts.iter_mut().enumerate() {
            if let Part::Node { first_input, .. } = part {
                *first_input = next;
                for port in 0..self.graph.ports[e].inputs.len() as u32 {
                    links.push(LinkPlan { dest: Dest::Node { node: e, port }, from: None, back: false });
                    next += 1;
                }
            }
        }
        let division = self.division.clone();
        for &(element, _) in &division.boundaries {
            let back = returns_to(&self.graph, element);
            links.push(LinkPlan { dest: Dest::Nowhere, from: None, back });
        }
        next += self.division.boundaries.len() as u32;
        for (e, part) in self.parts.iter_mut().enumerate() {
            if let Part::Node { first_output, .. } = part {
                *first_output = next;
                for port in 0..self.graph.ports[e].outputs.len() as u32 {
                    links.push(LinkPlan { dest: Dest::Nowhere, from: Some((e, port)), back: false });
                    next += 1;
                }
            }
        }
        self.links = Arc::new(links);
    }

    fn join(&mut self) -> Result<(), PlanError> {
        let exits = self.parts.iter().zip(&self.graph.ports).map(|(part, ports)| match part {
            Part::Node { .. } => ports.inputs.len() as u32,
            Part::Element { .. } => 0,
        });
        let inputs: u32 = exits.sum();
        let exits = inputs + self.division.boundaries.len() as u32;
        let mut wires: HashMap<(usize, u32), Vec<Wire>> = HashMap::new();
        for c in &self.graph.connections {
            let Some(owner) = self.parts[c.from.0].program() else { continue };
            let boundary = self.division.boundary(c.from.0, c.to);
            let to = match &self.parts[c.to.0] {
                Part::Element { owner, .. } => match boundary {
                    Some(number) => Wire::Exit(inputs + number),
                    None => Wire::Input { element: *owner as usize, port: c.to.1 },
                },
                Part::Node { first_input, .. } => Wire::Exit(first_input + c.to.1),
            };
            wires.entry((owner as usize, c.from.1)).or_default().push(to);
        }
        let mut errors = Vec::new();
        for ((owner, port), to) in &wires {
            if to.len() > 1 {
                let what = format!(
                    "output {port} is pulled from {} inputs; only an engine node such as a Queue may be shared so",
                    to.len()
                );
                errors.push((self.owners[*owner], what));
            }
        }
        if !errors.is_empty() {
            errors.sort();
            let problem = |(e, what)| Problem::of(&self.graph, e, "building", what);
            return Err(PlanError(errors.into_iter().map(problem).collect()));
        }
        let wire = |owner: usize, port: u32| wires.get(&(owner, port)).and_then(|to| to.first()).copied();
        let mut linked =
            link(&self.programs, wire, exits).map_err(|e| PlanError(vec![e.to_string().into()]))?;
        linked.plain_exits = self.plain_exits();
        let mut seen = vec![0; self.programs.len()];
        self.emits = linked
            .blocks
            .iter()
            .map(|block| {
                // The blocks of a program keep their order when it is linked.
                let owner = block.owner as usize;
                seen[owner] += 1;
                match self.programs[owner].blocks.get(seen[owner] - 1)?.end {
                    End::Emit { port } => Some(port),
                    _ => None,
                }
            })
            .collect();
        self.linked = Arc::new(linked);
        Ok(())
    }

    /// The exits to nodes that read only bytes.
    fn plain_exits(&self) -> Vec<u32> {
        let nodes = self.parts.iter().zip(&self.graph.ports).filter_map(|(part, ports)| match part {
            Part::Node { facts, first_input, .. } if facts.plain => {
                Some(*first_input..first_input + ports.inputs.len() as u32)
            }
            _ => None,
        });
        nodes.flatten().collect()
    }

    /// Finds where links lead, whom pull inputs ask, and which entries are used.
    fn lead_links(&mut self) {
        let mut wires = Wires::default();
        for c in &self.graph.connections {
            wires.from.entry(c.from).or_insert(c.to);
            wires.into.entry(c.to).or_default().push(c.from);
        }
        let mut entries = HashMap::new();
        for (i, e) in self.linked.entries.iter().enumerate() {
            if let EntryKind::Packet { port } = e.kind {
                entries.insert((self.owners[e.owner as usize], port), i);
            }
        }
        let mut leads = Vec::new();
        for (id, l) in self.links.iter().enumerate() {
            if let Some((element, port)) = l.from
                && self.graph.ports[element].outputs.get(port as usize) == Some(&Kind::Push)
                && let Some(&to) = wires.from.get(&(element, port))
            {
                // A node with a filter has no other input than the filter's.
                let filtered = self.parts[element].filter().map(|_| (element, 0));
                leads.push((id, filtered.unwrap_or(to)));
            }
        }
        let inputs = self.links.iter().take_while(|l| matches!(l.dest, Dest::Node { .. })).count();
        leads.extend(self.division.boundaries.iter().enumerate().map(|(i, &to)| (inputs + i, to)));
        let mut pulls = Vec::new();
        for (e, part) in self.parts.iter().enumerate() {
            let Part::Node { first_input, .. } = part else { continue };
            for (port, kind) in (0..).zip(&self.graph.ports[e].inputs) {
                if *kind == Kind::Pull {
                    pulls.push((first_input + port, self.pull_sources(&wires, (e, port))));
                }
            }
        }
        let mut used = leads.iter().map(|(_, to)| *to).collect::<Vec<_>>();
        used.extend(pulls.iter().flat_map(|(_, from)| from).filter_map(|(_, through)| *through));
        let used: Vec<usize> = used.iter().filter_map(|to| entries.get(to).copied()).collect();
        let is_used =
            |(i, e): (usize, &Entry)| !matches!(e.kind, EntryKind::Packet { .. }) || used.contains(&i);
        self.used = self.linked.entries.iter().enumerate().map(is_used).collect();
        let start = |to: Port| Some(self.linked.entries[*entries.get(&to)?].block);
        let dest = |to: Port| match &self.parts[to.0] {
            Part::Node { filter: None, .. } => Dest::Node { node: to.0, port: to.1 },
            Part::Node { .. } | Part::Element { .. } => start(to).map_or(Dest::Nowhere, Dest::Program),
        };
        let dests: Vec<(usize, Dest)> = leads.into_iter().map(|(id, to)| (id, dest(to))).collect();
        let mut asked = vec![Vec::new(); self.links.len()];
        for (link, from) in pulls {
            asked[link as usize].extend(from.into_iter().map(|((node, port), through)| {
                let through = through.and_then(start);
                PullFrom { node, port, through }
            }));
        }
        self.pulls = asked.into();
        let links = Arc::make_mut(&mut self.links);
        for (id, dest) in dests {
            links[id].dest = dest;
        }
    }

    /// Walks up from a pull input to the nodes it asks.
    fn pull_sources(&self, wires: &Wires, to: Port) -> Vec<Source> {
        let (mut found, mut seen) = (Vec::new(), vec![to]);
        let mut stack: Vec<(Port, Option<Port>)> = vec![(to, None)];
        while let Some((to, first)) = stack.pop() {
            for &from in wires.into.get(&to).into_iter().flatten() {
                let Part::Element { .. } = &self.parts[from.0] else {
                    found.push((from, first));
                    continue;
                };
                for (port, kind) in self.graph.ports[from.0].inputs.iter().enumerate().rev() {
                    let input = (from.0, port as u32);
                    if *kind == Kind::Pull && !seen.contains(&input) {
                        seen.push(input);
                        stack.push((input, Some(input)));
                    }
                }
            }
        }
        found
    }
}

/// Element and port.
pub type Port = (usize, u32);
/// A node's output, and the input of the packet program where its packets enter, if there is one between.
type Source = (Port, Option<Port>);

/// Connections by their ends.
#[derive(Default)]
struct Wires {
    from: HashMap<Port, Port>,
    into: HashMap<Port, Vec<Port>>,
}

/// Whether packets that leave an element may come to it again.
fn returns_to(graph: &Graph, element: usize) -> bool {
    let (mut seen, mut work) = (vec![false; graph.elements.len()], vec![element]);
    while let Some(e) = work.pop() {
        for c in graph.connections.iter().filter(|c| c.from.0 == e) {
            if c.to.0 == element {
                return true;
            }
            if !std::mem::replace(&mut seen[c.to.0], true) {
                work.push(c.to.0);
            }
        }
    }
    false
}

/// The class of an element, or of the engine node that stands for it where it is.
fn class_of(classes: &Classes, graph: &Graph, element: usize) -> Option<AnyClass> {
    let e = &graph.elements[element];
    let pulls = graph.ports[element].inputs.first() == Some(&Kind::Pull);
    let node = weir_nodes::instead(&e.class, &e.args, pulls).map(|c| AnyClass::Node(*c));
    node.or_else(|| classes.get(&e.class).copied())
}

type Configured = (Vec<Part>, Vec<Arc<Program>>, Vec<usize>);

fn configure(classes: &Classes, graph: &Graph) -> Result<Configured, PlanError> {
    let (mut parts, mut programs, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    let mut next_table = 0;
    let mut shared: HashMap<String, TableId> = HashMap::new();
    let peers: Vec<Peer<'_>> =
        graph.elements.iter().map(|e| Peer { name: &e.name, class: &e.class, args: &e.args }).collect();
    let names = Defined::of(graph);
    for (i, e) in graph.elements.iter().enumerate() {
        let mut fail = |what: &str| errors.push(Problem::of(graph, i, "configuring", what));
        match class_of(classes, graph, i) {
            None => fail("there is no such class"),
            Some(AnyClass::Node(class)) => match names.within(&e.name, || (class.configure)(&e.args)) {
                Ok(node) => {
                    let facts = NodeFacts::of(&*node, graph.ports[i].inputs.len());
                    let filter = node.filter(&e.name).map(|program| {
                        if let Err(list) = check(&program) {
                            list.iter().for_each(|what| fail(&format!("its filter is not right: {what}")));
                        }
                        programs.push(Arc::new(program));
                        owners.push(i);
                        programs.len() as u32 - 1
                    });
                    let facts = Arc::new(facts);
                    parts.push(Part::Node { class, facts, first_input: 0, first_output: 0, filter });
                }
                Err(list) => list.iter().for_each(|what| fail(what)),
            },
            Some(AnyClass::Element(class)) => match names.within(&e.name, || class.configure(&e.args)) {
                Ok(mut element) => {
                    let resolved = names.within(&e.name, || element.resolve(&Peers::new(&peers, &e.name)));
                    if let Err(list) = resolved {
                        list.iter().for_each(|what| fail(what));
                        continue;
                    }
                    let ports = &graph.ports[i];
                    let (inputs, outputs) = (ports.inputs.len() as u32, ports.outputs.len() as u32);
                    let program = program_of(&*element, &e.name, inputs, outputs);
                    if let Err(list) = check(&program) {
                        list.iter().for_each(|what| fail(&format!("its program is not right: {what}")));
                    }
                    let tables = program.tables.iter().map(|t| {
                        let mut fresh = || {
                            next_table += 1;
                            TableId(next_table - 1)
                        };
                        let id = match &t.decl.shared_name {
                            Some(name) => *shared.entry(name.clone()).or_insert_with(fresh),
                            None => fresh(),
                        };
                        (t.decl.name.clone(), id)
                    });
                    let tables = tables.collect();
                    let element = Arc::from(element);
                    parts.push(Part::Element { element, owner: programs.len() as u32, tables });
                    programs.push(Arc::new(program));
                    owners.push(i);
                }
                Err(list) => list.iter().for_each(|what| fail(what)),
            },
        }
    }
    if errors.is_empty() { Ok((parts, programs, owners)) } else { Err(PlanError(errors)) }
}

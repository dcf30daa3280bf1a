//! From bodies to the flat graph: compounds are instantiated, parameters substituted, and the ports of compounds and
//! groups replaced by what they lead to.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use crate::arguments::{assign, call_signature, signature};
use crate::config::split_args;
use crate::diagnostic::Report;
use crate::expand::{Budget, Env, TooLong, expand};
use crate::lexer::is_self_contained;
use crate::program::{Body, ClassId, INPUT, ItemKind, OUTPUT, Program};
use crate::source::Loc;
use crate::{MAX_CONNECTIONS, MAX_EXPANDED_TEXT, MAX_INSTANCE_DEPTH, MAX_STEPS, Options};

/// An element of the flat graph.
#[derive(Debug)]
pub(crate) struct FlatElement {
    pub name: String,
    /// Index in [`Program::primitives`].
    pub class: usize,
    pub args: Vec<String>,
    pub loc: Loc,
}

/// The flat graph; connections are from (element, output) to (element, input), sorted, none twice.
#[derive(Debug, Default)]
pub(crate) struct Flat {
    pub elements: Vec<FlatElement>,
    pub connections: Vec<FlatConnection>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlatConnection {
    pub from: (usize, u32),
    pub to: (usize, u32),
    pub loc: Loc,
}

pub(crate) fn flatten(program: &Program, options: &Options<'_>, report: &mut Report) -> Flat {
    let mut flattener = Flattener {
        program,
        report,
        flat: Flat::default(),
        nodes: Vec::new(),
        edges: Vec::new(),
        names: HashMap::new(),
        text: Budget(MAX_EXPANDED_TEXT),
        steps: MAX_STEPS,
        max_elements: options.max_elements,
        stopped: false,
    };
    flattener.main(options);
    if !flattener.stopped {
        flattener.check_passages();
        flattener.connect();
    }
    flattener.flat
}

/// The kind of a node that wires lead to.
#[derive(Debug)]
enum NodeKind {
    /// Index of an element in the flat graph.
    Element(usize),
    /// The input ports of the compound element of this name.
    CompoundInput(String),
    /// Its output ports.
    CompoundOutput(String),
    /// The input or output ports of a group.
    Group(&'static str),
    /// An element of unknown class.
    Unknown,
}

#[derive(Debug)]
struct Node {
    kind: NodeKind,
    loc: Loc,
}

/// A wire between nodes.
#[derive(Clone, Copy, Debug)]
struct Edge {
    from: (usize, u32),
    to: (usize, u32),
    loc: Loc,
}

/// A compound element still to be filled.
struct Instance {
    body: usize,
    env: Env,
    name: String,
    input: usize,
    output: usize,
}

struct Flattener<'a> {
    program: &'a Program,
    report: &'a mut Report,
    flat: Flat,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    names: HashMap<String, Loc>,
    text: Budget,
    /// Work that may still be done where the amount is not bounded by the sizes of text and graph.
    steps: usize,
    max_elements: usize,
    /// A limit was reached and reported.
    stopped: bool,
}

impl Flattener<'_> {
    fn stop(&mut self, loc: Loc, message: impl Into<String>) {
        if !self.stopped {
            self.report.error(loc, message);
        }
        self.stopped = true;
    }

    /// Counts one step of work; false when there were too many.
    fn step(&mut self, loc: Loc) -> bool {
        if self.steps == 0 {
            self.stop(loc, "configuration too large: compounds and overloads expand without end");
            return false;
        }
        self.steps -= 1;
        true
    }

    fn main(&mut self, options: &Options<'_>) {
        let Some(body) = self.program.bodies.get(self.program.main) else { return };
        let mut values: HashMap<String, String> = body.defines.iter().cloned().collect();
        values.extend(options.defines.iter().cloned());
        let env = Rc::new(Env::global(values));
        let input = self.node(NodeKind::Unknown, body.loc);
        self.fill(body, &env, "", (input, input), 0);
    }

    fn node(&mut self, kind: NodeKind, loc: Loc) -> usize {
        if self.nodes.len() >= self.max_elements.saturating_mul(2)
            || self.flat.elements.len() > self.max_elements
        {
            let max = self.max_elements;
            self.stop(loc, format!("more than {max} elements after compound elements are expanded"));
        }
        self.nodes.push(Node { kind, loc });
        self.nodes.len() - 1
    }

    /// Adds the contents of `body` as those of the compound element whose name and a slash are `prefix`, and whose
    /// ports are the nodes `ports`.
    fn fill(&mut self, body: &Body, env: &Rc<Env>, prefix: &str, ports: (usize, usize), depth: usize) {
        let used = used_ports(body);
        // The node that packets to, and from, each item pass.
        let mut nodes: Vec<(usize, usize)> = Vec::with_capacity(body.items.len());
        let mut instances = Vec::new();
        for (i, item) in body.items.iter().enumerate() {
            if self.stopped {
                return;
            }
            let pair = match item.kind {
                ItemKind::Port => {
                    debug_assert!(i == INPUT || i == OUTPUT);
                    if i == INPUT { (ports.0, ports.0) } else { (ports.1, ports.1) }
                }
                ItemKind::GroupPort => {
                    let side = if item.name == "output" { "output" } else { "input" };
                    let node = self.node(NodeKind::Group(side), item.loc);
                    (node, node)
                }
                ItemKind::Element(class) => {
                    let name = format!("{prefix}{}", item.name);
                    if let Some(earlier) = self.names.insert(name.clone(), item.loc) {
                        self.report.error_with(
                            item.loc,
                            format!("redeclaration of element '{name}'"),
                            vec![(Some(earlier), format!("element '{name}' previously declared here"))],
                        );
                    }
                    let used = used.get(i).copied().unwrap_or((0, 0));
                    self.element(name, class, &item.config, item.loc, used, env, &mut instances)
                }
            };
            nodes.push(pair);
        }
        let node = |item: usize| nodes.get(item).copied().unwrap_or(ports);
        for wire in &body.wires {
            self.edges.push(Edge {
                from: (node(wire.from.0).1, wire.from.1),
                to: (node(wire.to.0).0, wire.to.1),
                loc: wire.loc,
            });
        }
        if self.edges.len() > MAX_CONNECTIONS {
            self.stop(body.loc, format!("more than {MAX_CONNECTIONS} connections"));
        }
        for instance in instances {
            let Some(inner) = self.program.bodies.get(instance.body) else { continue };
            if depth >= MAX_INSTANCE_DEPTH {
                self.stop(inner.loc, "maximum compound element nesting depth exceeded");
            }
            if self.stopped {
                return;
            }
            let prefix = format!("{}/", instance.name);
            self.fill(inner, &Rc::new(instance.env), &prefix, (instance.input, instance.output), depth + 1);
        }
    }

    /// Adds an element; a compound one goes to `instances`. Returns the nodes that packets to and from it pass.
    #[allow(clippy::too_many_arguments)]
    fn element(
        &mut self,
        name: String,
        class: ClassId,
        config: &str,
        loc: Loc,
        used: (u32, u32),
        env: &Rc<Env>,
        instances: &mut Vec<Instance>,
    ) -> (usize, usize) {
        let expanded = match expand(config, env, &mut self.text) {
            Ok(text) => text,
            Err(TooLong) => {
                self.stop(loc, format!("configuration string of '{name}' too long after substitution"));
                return (0, 0);
            }
        };
        let args = split_args(&expanded);
        match self.choose(class, &args, used, loc) {
            Some(Choice::Primitive(class)) => {
                if !is_self_contained(&args) {
                    self.report.error(
                        loc,
                        format!(
                            "configuration string of '{name}' has unbalanced parentheses or quotes after substitution"
                        ),
                    );
                }
                let node = self.node(NodeKind::Element(self.flat.elements.len()), loc);
                self.flat.elements.push(FlatElement { name, class, args, loc });
                (node, node)
            }
            Some(Choice::Body(body, values)) => {
                let Some(env) = self.parameters(body, values, env, loc) else { return (0, 0) };
                let input = self.node(NodeKind::CompoundInput(name.clone()), loc);
                let output = self.node(NodeKind::CompoundOutput(name.clone()), loc);
                instances.push(Instance { body, env, name, input, output });
                (input, output)
            }
            None => {
                let node = self.node(NodeKind::Unknown, loc);
                (node, node)
            }
        }
    }

    /// The scope of an instance of `body`: its parameters and definitions.
    fn parameters(&mut self, body: usize, values: Vec<String>, user: &Rc<Env>, loc: Loc) -> Option<Env> {
        let body = self.program.bodies.get(body)?;
        let mut env = Env::inside(user, body.depth);
        for (formal, value) in body.formals.iter().zip(values) {
            env.set(&formal.name, value);
        }
        for (name, value) in &body.defines {
            match expand(value, &env, &mut self.text) {
                Ok(value) => env.set(name, value),
                Err(TooLong) => {
                    self.stop(loc, format!("value of '${name}' too long after substitution"));
                    return None;
                }
            }
        }
        Some(env)
    }

    /// The definition that an element of this class means: the first whose ports and parameters fit. If there is but
    /// one whose parameters fit, that one, since errors about its ports are clearer than that it does not fit.
    fn choose(&mut self, class: ClassId, args: &[String], used: (u32, u32), loc: Loc) -> Option<Choice> {
        let mut closest = None;
        let mut seen = 0;
        let mut next = class;
        let compound = loop {
            let id = match next {
                ClassId::Primitive(id) => return Some(Choice::Primitive(id)),
                ClassId::Unknown => return None,
                ClassId::Compound(id) => id,
            };
            let compound = self.program.compounds.get(id)?;
            for &index in &compound.variants {
                if !self.step(loc) {
                    return None;
                }
                let body = self.program.bodies.get(index)?;
                seen += 1;
                if let Some(values) = assign(&body.formals, args) {
                    if (body.inputs, body.outputs) == used {
                        return Some(Choice::Body(index, values));
                    }
                    closest = Some(Choice::Body(index, values));
                }
            }
            match compound.extends {
                Some(class) => next = class,
                None => break compound,
            }
        };
        if seen == 1 && closest.is_some() {
            return closest;
        }
        self.report.error_with(
            loc,
            format!("no match for '{}'", call_signature(&compound.name, args.len(), used)),
            self.candidates(class),
        );
        None
    }

    fn candidates(&self, class: ClassId) -> Vec<(Option<Loc>, String)> {
        let mut notes = vec![(None, "candidates are:".to_string())];
        let mut next = Some(class);
        while let Some(ClassId::Compound(id)) = next {
            let Some(compound) = self.program.compounds.get(id) else { break };
            for body in compound.variants.iter().take(10).filter_map(|&i| self.program.bodies.get(i)) {
                notes.push((Some(body.loc), signature(&compound.name, body)));
            }
            if notes.len() > 10 {
                break;
            }
            next = compound.extends;
        }
        notes
    }

    /// Reports ports of compounds and groups that are used on one side only.
    fn check_passages(&mut self) {
        let is_passage = |node: usize| {
            self.nodes.get(node).is_some_and(|n| !matches!(n.kind, NodeKind::Element(_) | NodeKind::Unknown))
        };
        let mut into = BTreeSet::new();
        let mut out_of = BTreeSet::new();
        for edge in &self.edges {
            if is_passage(edge.to.0) {
                into.insert(edge.to);
            }
            if is_passage(edge.from.0) {
                out_of.insert(edge.from);
            }
        }
        for &(node, port) in into.symmetric_difference(&out_of) {
            let Some(Node { kind, loc }) = self.nodes.get(node) else { continue };
            let entered = into.contains(&(node, port));
            let message = match (kind, entered) {
                (NodeKind::CompoundInput(name), true) => format!("'{name}' has no input {port}"),
                (NodeKind::CompoundInput(name), false) => format!("'{name}' input {port} unused"),
                (NodeKind::CompoundOutput(name), true) => format!("'{name}' output {port} unused"),
                (NodeKind::CompoundOutput(name), false) => format!("'{name}' has no output {port}"),
                (NodeKind::Group(side), _) if entered == (*side == "input") => {
                    format!("'<anonymous group>' has no {side} {port}")
                }
                (NodeKind::Group(side), _) => format!("'<anonymous group>' {side} {port} unused"),
                _ => continue,
            };
            self.report.error(*loc, message);
        }
    }

    /// Follows wires from elements through compounds and groups to elements.
    fn connect(&mut self) {
        let mut leaving: BTreeMap<(usize, u32), Vec<(usize, u32)>> = BTreeMap::new();
        for edge in &self.edges {
            if !matches!(self.nodes.get(edge.from.0), Some(Node { kind: NodeKind::Element(_), .. })) {
                leaving.entry(edge.from).or_default().push(edge.to);
            }
        }
        let mut found = Vec::new();
        for edge in std::mem::take(&mut self.edges) {
            let Some(Node { kind: NodeKind::Element(from), .. }) = self.nodes.get(edge.from.0) else {
                continue;
            };
            let from = (*from, edge.from.1);
            let mut seen = HashSet::new();
            let mut open = vec![edge.to];
            while let Some(port) = open.pop() {
                if !self.step(edge.loc) {
                    return;
                }
                match self.nodes.get(port.0) {
                    Some(Node { kind: NodeKind::Element(to), .. }) => {
                        found.push(FlatConnection { from, to: (*to, port.1), loc: edge.loc });
                        if found.len() > MAX_CONNECTIONS {
                            self.stop(edge.loc, format!("more than {MAX_CONNECTIONS} connections"));
                            return;
                        }
                    }
                    _ if seen.insert(port) => {
                        open.extend(leaving.get(&port).into_iter().flatten());
                    }
                    _ => {}
                }
            }
        }
        found.sort_unstable();
        found.dedup_by(|a, b| (a.from, a.to) == (b.from, b.to));
        self.flat.connections = found;
    }
}

enum Choice {
    /// Index in [`Program::primitives`].
    Primitive(usize),
    /// Index in [`Program::bodies`], and the values of its parameters.
    Body(usize, Vec<String>),
}

/// By item, how many inputs and outputs the wires of a body use.
fn used_ports(body: &Body) -> Vec<(u32, u32)> {
    let mut used = vec![(0u32, 0u32); body.items.len()];
    for wire in &body.wires {
        if let Some(u) = used.get_mut(wire.to.0) {
            u.0 = u.0.max(wire.to.1.saturating_add(1));
        }
        if let Some(u) = used.get_mut(wire.from.0) {
            u.1 = u.1.max(wire.from.1.saturating_add(1));
        }
    }
    used
}

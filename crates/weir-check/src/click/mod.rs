//! Click configurations as networks: elements are their own programs, engine nodes what their model says.

mod body;
mod deliver;
mod framing;
mod initial;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_ir::Program;
use weir_packet::entry::Entry;
use weir_plan::{Model, Plan};
use weir_verify::checks::Framing;
use weir_verify::{Body, Network, NodeId, NodePort, SymbolicInput};

use body::{Role, Substitute};
pub(crate) use body::{argument, either};
use deliver::annotate_destination;
pub(crate) use deliver::deliver;
pub use framing::framings;

/// A place where packets come into a configuration or leave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name of the device, link or file; else that of the element.
    pub name: String,
    /// Number of the element in the plan.
    pub element: usize,
    /// The input of a node of the network where packets that come in are, or where those that leave arrive; output 0
    /// of that node leads on.
    pub place: NodePort,
    /// The input in front of it where packets that come in start, whatever they are then: behind it they are as they come in
    /// here.
    pub into: NodePort,
    /// What its packets are.
    pub framing: Framing,
    /// How they come in, if they do.
    pub entry: Option<&'static Entry>,
}

/// A place where packets come into being.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Where they start.
    pub port: Port,
    /// What they are, if they are always the same.
    pub bytes: Option<Vec<u8>>,
}

/// The element that a node stands for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Label {
    /// Class of the element.
    pub class: String,
    /// Its arguments.
    pub args: Arc<[String]>,
    /// It is no element of its own; traces leave it out.
    pub hidden: bool,
}

/// A configuration in a network.
#[derive(Debug, Clone, Default)]
pub struct Ports {
    /// For each element of the plan the node that its packets come to, and the node that they leave from.
    pub nodes: Vec<(NodeId, NodeId)>,
    /// Where packets come in from outside: devices, links.
    pub entries: Vec<Port>,
    /// Where packets leave to the outside.
    pub exits: Vec<Port>,
    /// Where packets come into being: sources, capture files.
    pub origins: Vec<Origin>,
    /// What each node is: those of elements, and those that stand for a choice of the host.
    pub labels: BTreeMap<NodeId, Label>,
    /// What a reader of verdicts should know.
    pub notes: Vec<String>,
}

/// A configuration that can be put into networks, any number of times.
#[derive(Debug, Clone)]
pub struct Template {
    elements: Vec<Piece>,
    /// Wires: output of an element, input of an element.
    wires: Vec<((usize, u32), (usize, u32))>,
    notes: Vec<String>,
}

#[derive(Debug, Clone)]
struct Piece {
    name: String,
    label: Label,
    substitute: Substitute,
    /// Inputs that each output leads to; more than one where several pull from it.
    pulled: BTreeMap<u32, u32>,
}

/// Puts a configuration into a network. Tables with a shared name are the same within a `scope`; `prefix` goes before
/// the names of its elements.
pub fn add(net: &mut Network, plan: &Plan, scope: u32, prefix: &str) -> Ports {
    Template::new(plan).add(net, scope, prefix)
}

impl Template {
    /// The elements' programs and wires of a plan.
    pub fn new(plan: &Plan) -> Template {
        let graph = &plan.graph;
        let written = writers::written(graph);
        let models: BTreeMap<usize, Model> = plan.models().collect();
        let mut notes = writers::notes(graph);
        let mut pulled: BTreeMap<(usize, u32), u32> = BTreeMap::new();
        graph.connections.iter().for_each(|c| *pulled.entry(c.from).or_default() += 1);
        let mut elements = Vec::new();
        for (i, e) in graph.elements.iter().enumerate() {
            let ports =
                graph.ports.get(i).map_or((0, 0), |p| (p.inputs.len() as u32, p.outputs.len() as u32));
            let substitute = if written.contains(&i) {
                notes.push(format!(
                    "a script of the configuration writes to handlers of {}, so what it does is not known",
                    e.name
                ));
                Substitute::of(Body::Opaque)
            } else {
                let program = plan.element_program(i).cloned();
                match models.get(&i) {
                    None if let Some(program) = program => Substitute::program(program),
                    model => {
                        let substitute =
                            body::of_node(e, model.copied(), ports, plan.generated(i).map(<[u8]>::to_vec));
                        substitute.filtered(program)
                    }
                }
            };
            let pulled = pulled.range((i, 0)..=(i, u32::MAX)).map(|(&(_, port), &n)| (port, n)).collect();
            let label = Label { class: e.class.clone(), args: e.args.clone().into(), hidden: false };
            elements.push(Piece { name: e.name.clone(), label, substitute, pulled });
        }
        let wires = graph.connections.iter().map(|c| (c.from, c.to)).collect();
        Template { elements, wires, notes }
    }

    /// Puts it into a network, as [`add`] does.
    pub fn add(&self, net: &mut Network, scope: u32, prefix: &str) -> Ports {
        let mut ports = Ports { notes: self.notes.clone(), ..Ports::default() };
        let mut fans = BTreeMap::new();
        for (i, e) in self.elements.iter().enumerate() {
            let name = format!("{prefix}{}", e.name);
            let first = e.substitute.add(net, &name, scope);
            let mut last = first;
            // What leaves an element that packets end at comes from outside, and starts at a node of its own.
            if e.substitute.splits {
                last = net.add(name.clone(), Body::Pass { lossy: false });
            }
            if let Some(unknown) = &e.substitute.unknown {
                let opaque = net.add(name.clone(), Body::Opaque);
                net.connect(NodePort { node: first, port: *unknown }, NodePort { node: opaque, port: 0 });
                ports.labels.insert(opaque, Label { hidden: true, ..e.label.clone() });
            }
            ports.labels.extend([(first, e.label.clone()), (last, e.label.clone())]);
            ports.nodes.push((first, last));
            for role in &e.substitute.roles {
                let port = role.port(i, &e.name, (first, last));
                let port = match role.entering(&e.label.class, &e.name) {
                    Some(program) => {
                        let node = net.add_program(name.clone(), &Arc::new(program), scope);
                        ports.labels.insert(node, Label { hidden: true, ..e.label.clone() });
                        let into = NodePort { node, port: 0 };
                        net.connect(into, port.place);
                        Port { into, ..port }
                    }
                    None => port,
                };
                match role {
                    Role::Entry(..) => ports.entries.push(port),
                    Role::Exit(..) => ports.exits.push(port),
                    Role::Origin(_, _, bytes) => ports.origins.push(Origin { port, bytes: bytes.clone() }),
                }
            }
            for (&port, &n) in e.pulled.iter().filter(|(_, n)| **n > 1) {
                let fan = net.add_program(name.clone(), &Arc::new(body::either(&name, n)), scope);
                net.connect(NodePort { node: last, port }, NodePort { node: fan, port: 0 });
                ports.labels.insert(fan, Label { hidden: true, ..e.label.clone() });
                fans.insert((i, port), (fan, 0));
            }
        }
        for &((from, port), (to, input)) in &self.wires {
            let Some((&(_, source), &(target, _))) = ports.nodes.get(from).zip(ports.nodes.get(to)) else {
                continue;
            };
            let from = match fans.get_mut(&(from, port)) {
                Some((fan, next)) => {
                    *next += 1;
                    NodePort { node: *fan, port: *next - 1 }
                }
                None => NodePort { node: source, port },
            };
            net.connect(from, NodePort { node: target, port: input });
        }
        ports
    }

    /// Writes to a handler of an element (`ELEMENT.HANDLER`) before any packet comes: its tables begin as the handler leaves
    /// them. `plan` is what the template was made of.
    ///
    /// # Errors
    /// If there is no such handler, or it refuses the value. What engine nodes do to packets does not depend on their
    /// handlers, but for switches, which are not known after a write.
    pub fn write(&mut self, plan: &Plan, handler: &str, value: &str) -> Result<(), String> {
        let missing = || format!("there is no handler '{handler}'");
        let (name, short) = handler.rsplit_once('.').ok_or_else(missing)?;
        let i = plan.graph.find(name).ok_or_else(missing)?;
        let piece = self.elements.get_mut(i).ok_or_else(missing)?;
        let Some((element, program)) = plan.element(i).zip(piece.substitute.program.as_mut()) else {
            if piece.label.class.contains("Switch") {
                piece.substitute = Substitute::of(Body::Opaque);
            }
            return Ok(());
        };
        initial::write(&**element, Arc::make_mut(program), (short, value))
            .map_err(|e| format!("{handler}: {e}"))
    }

    /// Whether a write to a handler changes what packets find in tables at first, or what is known of an element.
    ///
    /// # Errors
    /// As [`Template::write`].
    pub fn is_changed_by(&self, plan: &Plan, handler: &str, value: &str) -> Result<bool, String> {
        let mut after = self.clone();
        after.write(plan, handler, value)?;
        let same = |(a, b): (&Piece, &Piece)| match (&a.substitute.program, &b.substitute.program) {
            (Some(a), Some(b)) => a.tables.iter().zip(&b.tables).all(|(a, b)| a.rows == b.rows),
            (None, None) => a.substitute.is_known() == b.substitute.is_known(),
            _ => false,
        };
        Ok(!self.elements.iter().zip(&after.elements).all(same))
    }

    /// The elements' programs, for who wants to know what they are made of.
    pub fn programs(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.elements.iter().filter_map(|e| e.substitute.program.as_ref())
    }
}

impl Ports {
    /// The names of all entries, each once.
    pub fn entry_names(&self) -> BTreeSet<&str> {
        self.entries.iter().map(|p| p.name.as_str()).collect()
    }
}

impl Port {
    /// Any packet that comes in here.
    pub fn input(&self) -> SymbolicInput {
        self.entry.map(SymbolicInput::of).unwrap_or_default()
    }
}

impl Role {
    fn port(&self, element: usize, own: &str, (first, last): (NodeId, NodeId)) -> Port {
        let (name, node, framing, entry) = match self {
            Role::Entry(name, framing, entry) => (name, last, framing, Some(*entry)),
            Role::Exit(name, framing) => (name, first, framing, None),
            Role::Origin(framing, entry, _) => (&None, last, framing, Some(*entry)),
        };
        let name = name.clone().unwrap_or_else(|| own.to_owned());
        let place = NodePort { node, port: 0 };
        Port { name, element, place, into: place, framing: *framing, entry }
    }

    /// The program that makes packets be as they come in here.
    fn entering(&self, class: &str, name: &str) -> Option<Program> {
        match self {
            Role::Entry(_, _, entry) => Some(deliver(name, entry, |_| {})),
            Role::Origin(Framing::Ip, entry, _) if class == "ICMPPingSource" => {
                Some(deliver(name, entry, annotate_destination))
            }
            Role::Origin(Framing::Ip, entry, _) => Some(deliver(name, entry, |_| {})),
            Role::Origin(..) | Role::Exit(..) => None,
        }
    }
}

#[cfg(test)]
mod tests;

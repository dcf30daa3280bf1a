//! Transfer functions of header space analysis as boxes: a node for each port and stage, which knows the rules of the
//! port.
//!
//! A packet's header is as the packet says it is: the VLAN is the tag on the link, ports and flags of a packet that has
//! none are 0. Where a rule sends copies to several ports, each copy is followed by itself.

mod diagram;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_ir::{Builder, Program, Reason, Width};
use weir_model::requirement::HeaderField;
use weir_topology::{NetBox, TransferBox};
use weir_verify::checks::{Framing, Start, Target};
use weir_verify::{Body, NodeId, NodePort};

use super::segments::Segments;
use super::{EdgePort, PortEnds, TAG, World, anything, send};
use crate::click::Label;

const CLASS: &str = "TransferFunction";

/// A box under construction.
struct Function<'a> {
    b: &'a NetBox,
    t: &'a TransferBox,
    /// Ports that rules are for.
    inputs: BTreeSet<u32>,
    /// The nodes of stages and ports.
    made: BTreeMap<(u32, u32), NodeId>,
    /// Where packets leave by a port of the function.
    exits: BTreeMap<u32, NodeId>,
    /// Ports whose packets come from another transfer function, which has looked at them.
    looked_at: BTreeSet<u32>,
    errors: Vec<String>,
}

impl World {
    /// Puts the box into the network. Packets of anybody begin and end at ports that are not linked.
    ///
    /// # Errors
    /// If what lies where in its headers is not known, or its rules are too many for a program.
    pub(super) fn add_transfer(
        &mut self,
        segments: &Segments<'_>,
        i: usize,
        b: &NetBox,
        t: &TransferBox,
    ) -> Result<(Vec<EdgePort>, Vec<PortEnds>), Vec<String>> {
        let inputs = t.function.rules.iter().flat_map(|r| &r.in_ports).copied().collect();
        let (made, exits, looked_at) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut f = Function { b, t, inputs, made, exits, looked_at, errors: Vec::new() };
        let (mut edge_ports, mut ends) = (Vec::new(), Vec::new());
        for (k, name) in t.ports.iter().enumerate() {
            let number: u32 = name.parse().unwrap_or(u32::MAX);
            if segments.leads_to_hosts((i, k)) {
                let program = send::forward(segments, (i, k), &b.name);
                f.exits.insert(number.wrapping_add(t.out_offset), self.part(b, number, Some(program), true));
            }
            let out = NodePort { node: self.exit(&mut f, number.wrapping_add(t.out_offset)), port: 0 };
            if segments.is_linked((i, k)) && !segments.leads_to_hosts((i, k)) {
                f.looked_at.insert(number);
            }
            let into = NodePort { node: self.stage(&mut f, 1, number), port: 0 };
            let edge_port = if segments.is_linked((i, k)) {
                EdgePort {
                    name: name.clone(),
                    start: None,
                    target: Some(Target::new(into, Framing::Ip)),
                    owns: false,
                }
            } else {
                let place = self.edge(&f, number, into);
                EdgePort {
                    name: name.clone(),
                    start: Some(Start::new(place, Framing::Ip, anything())),
                    target: Some(Target::new(out, Framing::Ip)),
                    owns: false,
                }
            };
            edge_ports.push(edge_port);
            ends.push((into, out));
        }
        if f.errors.is_empty() {
            return Ok((edge_ports, ends));
        }
        f.errors.dedup();
        Err(f.errors.into_iter().map(|e| format!("box {}: {e}", b.name)).collect())
    }

    /// A node of a box, named by a port of its function.
    fn part(&mut self, b: &NetBox, port: u32, program: Option<Program>, hidden: bool) -> NodeId {
        let name = format!("{}:{port}", b.name);
        let node = match program {
            Some(p) => self.net.add_program(name, &Arc::new(p), u32::MAX),
            None => self.net.add(name, Body::Pass { lossy: false }),
        };
        self.labels.insert(node, Label { class: CLASS.to_owned(), hidden, ..Label::default() });
        node
    }

    fn exit(&mut self, f: &mut Function<'_>, port: u32) -> NodeId {
        if let Some(&node) = f.exits.get(&port) {
            return node;
        }
        let node = self.part(f.b, port, None, false);
        f.exits.insert(port, node);
        node
    }

    /// The node for packets that come to a port for their n-th way through the function.
    fn stage(&mut self, f: &mut Function<'_>, stage: u32, port: u32) -> NodeId {
        if let Some(&node) = f.made.get(&(stage, port)) {
            return node;
        }
        let found = if f.inputs.contains(&port) {
            let name = format!("{}:{port}", f.b.name);
            let first = stage == 1 && !f.looked_at.contains(&port);
            program::program(&name, &f.t.function, port, first).map(Some)
        } else {
            Ok(None)
        };
        let made = found.unwrap_or_else(|e| {
            f.errors.push(e);
            None
        });
        let Some(made) = made else {
            let node = self.part(f.b, port, Some(no_rules(&f.b.name)), false);
            f.made.insert((stage, port), node);
            return node;
        };
        let node = self.part(f.b, port, Some(made.program), stage > 1);
        f.made.insert((stage, port), node);
        for (output, out) in (0..).zip(&made.outputs) {
            let next = if stage < f.t.stages { self.stage(f, stage + 1, *out) } else { self.exit(f, *out) };
            self.net.connect(NodePort { node, port: output }, NodePort { node: next, port: 0 });
        }
        if !made.unknown.is_empty() {
            let opaque = self.net.add(f.b.name.clone(), Body::Opaque);
            self.labels.insert(opaque, Label { class: CLASS.to_owned(), hidden: true, ..Label::default() });
            let output = made.outputs.len() as u32;
            self.net.connect(NodePort { node, port: output }, NodePort { node: opaque, port: 0 });
            let lines: Vec<String> = made.unknown.iter().map(ToString::to_string).collect();
            self.notes.push(format!(
                "{}: what the rules of lines {} make of packets is not modelled: they rewrite more than the VLAN",
                f.b.name,
                lines.join(", ")
            ));
        }
        node
    }

    /// Where packets begin at a port that is not linked: whole IP packets with any VLAN tag.
    fn edge(&mut self, f: &Function<'_>, port: u32, into: NodePort) -> NodePort {
        let layout = f.t.function.layout().unwrap_or(&[]);
        let mut place = into;
        if layout.iter().any(|l| l.field == HeaderField::Vlan) {
            let mut b = Builder::new(&f.b.name, 1, 1);
            b.input(0, |b| {
                let any = b.random();
                let tag = b.resize(Width::W16, any);
                b.store_anno(TAG, tag);
                b.emit(0);
            });
            let node = self.part(f.b, port, Some(b.finish()), true);
            self.net.connect(NodePort { node, port: 0 }, place);
            place = NodePort { node, port: 0 };
        }
        self.well_formed(place)
    }
}

/// A port that no rule is for.
fn no_rules(name: &str) -> Program {
    let mut b = Builder::new(name, 1, 0);
    b.input(0, |b| b.drop(Reason::NO_MATCH));
    b.finish()
}

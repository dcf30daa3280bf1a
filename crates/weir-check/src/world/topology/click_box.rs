//! Click configurations as boxes.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_ir::{Builder, Layer, Program, Reason, Width, program_of};
use weir_net::ethertype;
use weir_packet::entry;
use weir_plan::{Classes, Plan};
use weir_topology::{ClickBox, NetBox};
use weir_verify::checks::{Framing, Target};
use weir_verify::{NodeId, NodePort};

use super::segments::Segments;
use super::{EdgePort, Location, PortEnds, World, send};
use crate::click;

/// Classes that show that frames come in.
const OF_FRAMES: [&str; 10] = [
    "EtherSwitch",
    "HostEtherFilter",
    "ARPResponder",
    "StripEtherVLANHeader",
    "VLANDecap",
    "EtherRewrite",
    "EtherMirror",
    "DropBroadcasts",
    "FlowTable",
    "EnsureEther",
];
/// Classes that pass packets of any kind.
const OF_ANY: [&str; 9] =
    ["Counter", "Null", "Print", "Paint", "Tee", "Queue", "Unqueue", "SimpleQueue", "AverageCounter"];
/// Ethernet address of everybody on a link.
const EVERYBODY: &str = "02:00:00:00:00:02";

impl World {
    /// Puts a Click box into the network. A port carries frames if it is a device, or if what is behind it reads frames;
    /// then an Ethernet header is put in front of what comes in and taken off what leaves, and ARP requests are answered.
    pub(super) fn add_click_box(
        &mut self,
        segments: &Segments<'_>,
        i: usize,
        b: &NetBox,
        c: &ClickBox,
        classes: &Classes,
    ) -> Result<Vec<PortEnds>, Vec<String>> {
        let file = c.file.as_ref().map_or_else(|| format!("box {}", b.name), Clone::clone);
        let plan = Plan::new(classes, &wrap(c), &file).map_err(weir_plan::PlanError::texts)?;
        let first = self.net.nodes().len() as NodeId;
        let prefix = format!("{}/", b.name);
        let mut ports = self.add_click(&plan, i as u32, &prefix);
        for p in &mut ports.entries {
            if p.framing == Framing::Ip && reads_frames(&plan, p.element) {
                // It is a device then.
                (p.framing, p.entry) = (Framing::Ethernet, Some(&entry::DEVICE));
                let program = Arc::new(click::deliver(&b.name, &entry::DEVICE, |_| {}));
                self.net.replace_program(p.into.node, &program, i as u32);
            }
        }
        let framings = click::framings(&plan, &ports);
        let (mut edge_ports, mut ends) = (Vec::new(), Vec::new());
        for (k, name) in c.ports.iter().enumerate() {
            let entry = ports.entries.iter().find(|p| p.name == *name || p.name == format!("in_{k}"));
            let exits: Vec<&click::Port> =
                ports.exits.iter().filter(|p| p.name == *name || p.name == format!("out_{k}")).collect();
            let into = match entry.map(|e| (e.into, e.framing)) {
                Some((place, Framing::Ip)) => place,
                Some((place, Framing::Ethernet)) => {
                    let node = self.node(b, "Frames", Vec::new(), Some(put_ether(&b.name)), true);
                    self.net.connect(NodePort { node, port: 0 }, place);
                    NodePort { node, port: 0 }
                }
                None => {
                    NodePort { node: self.node(b, "Port", Vec::new(), Some(closed(&b.name)), true), port: 0 }
                }
            };
            let out = self.node(b, "Port", Vec::new(), Some(send::forward(segments, (i, k), &b.name)), true);
            for exit in exits {
                let framing = framings.get(exit.element).and_then(|f| f.first()).copied();
                let from = NodePort { port: 0, ..exit.place };
                if framing != Some(Framing::Ethernet) {
                    self.net.connect(from, NodePort { node: out, port: 0 });
                    continue;
                }
                let strip = self.node(b, "Frames", Vec::new(), Some(take_ether(&b.name)), true);
                self.net.connect(from, NodePort { node: strip, port: 0 });
                self.net.connect(NodePort { node: strip, port: 0 }, NodePort { node: out, port: 0 });
                if let (Some(entry), Some(arp)) = (entry, answers_arp(&b.name)) {
                    let arp = self.node(b, "ARPResponder", Vec::new(), Some(arp), true);
                    self.net.connect(NodePort { node: strip, port: 1 }, NodePort { node: arp, port: 0 });
                    self.net.connect(NodePort { node: arp, port: 0 }, entry.into);
                }
            }
            let target = Target::new(into, Framing::Ip);
            edge_ports.push(EdgePort { name: name.clone(), start: None, target: Some(target), owns: false });
            ends.push((into, NodePort { node: out, port: 0 }));
        }
        let nodes = (first..self.net.nodes().len() as NodeId).collect();
        self.locations.push(Location { name: b.name.clone(), edge_ports, nodes, owns: b.owns() });
        self.add_elements(&plan, &ports, &prefix);
        Ok(ends)
    }
}

/// The configuration with elements for `in_N` and `out_N`, as far as it uses them.
fn wrap(c: &ClickBox) -> String {
    let is_name = |ch: char| ch.is_ascii_alphanumeric() || ch == '_';
    let used: BTreeSet<&str> = c.config.split(|ch| !is_name(ch)).collect();
    let mut text = String::new();
    // On one line with the beginning, so that positions in messages stay.
    for k in 0..c.ports.len() {
        let (input, output) = (format!("in_{k}"), format!("out_{k}"));
        if used.contains(input.as_str()) {
            text += &format!("{input} :: FromNetfront({input}); ");
        }
        if used.contains(output.as_str()) {
            text += &format!("{output} :: ToNetfront({output}); ");
        }
    }
    text + &c.config
}

/// Whether what comes in by an element is read as Ethernet frames.
fn reads_frames(plan: &Plan, element: usize) -> bool {
    let (mut work, mut seen) = (vec![element], BTreeSet::new());
    while let Some(at) = work.pop() {
        for c in plan.graph.connections.iter().filter(|c| c.from.0 == at) {
            let Some(e) = plan.graph.elements.get(c.to.0).filter(|_| seen.insert(c.to.0)) else { continue };
            let is_14 = |keyword| click::argument(&e.args, 0, keyword) == "14";
            let frames = match e.class.as_str() {
                "Strip" => is_14("LENGTH"),
                "CheckIPHeader" | "CheckIPHeader2" | "MarkIPHeader" | "CheckIP6Header" | "MarkIP6Header" => {
                    is_14("OFFSET")
                }
                "Classifier" => e.args.iter().any(|a| a.split_whitespace().any(|w| w.starts_with("12/"))),
                class => OF_FRAMES.contains(&class),
            };
            if frames {
                return true;
            }
            if OF_ANY.contains(&e.class.as_str()) {
                work.push(c.to.0);
            }
        }
    }
    false
}

/// Puts an Ethernet header in front of an IP packet.
fn put_ether(name: &str) -> Program {
    let mut b = Builder::new(name, 1, 1);
    b.input(0, |b| {
        b.require(Layer::Net, 1, Reason::TRUNCATED);
        let first = b.load(Width::W8, Layer::Net, 0);
        let version = b.shr(first, 4);
        let six = b.eq(version, 6);
        let (v6, v4) = (b.constant(Width::W16, ethertype::IPV6), ethertype::IPV4);
        let kind = b.select(six, v6, v4);
        b.push(14);
        b.store_const(Width::W16, Layer::Data, 0, 0x0200_u16);
        b.store_const(Width::W32, Layer::Data, 2, 2_u32);
        b.store_const(Width::W16, Layer::Data, 6, 0x0200_u16);
        b.store_const(Width::W32, Layer::Data, 8, 1_u32);
        b.store(Layer::Data, 12, kind);
        for layer in [Layer::Mac, Layer::Net, Layer::Transport] {
            b.clear_mark(layer);
        }
        b.emit(0);
    });
    b.finish()
}

/// Takes the Ethernet header off IP packets; ARP requests leave by output 1.
fn take_ether(name: &str) -> Program {
    let mut b = Builder::new(name, 1, 2);
    b.input(0, |b| {
        b.require(Layer::Data, 14, Reason::TRUNCATED);
        let kind = b.load(Width::W16, Layer::Data, 12);
        let kinds = [ethertype::IPV4, ethertype::IPV6, ethertype::ARP].map(u128::from);
        b.switch(kind, &kinds, |b, case| match case {
            Some(0 | 1) => {
                b.pull(14);
                b.set_mark(Layer::Net, Layer::Data, 0);
                b.emit(0);
            }
            Some(_) => b.emit(1),
            None => b.drop(Reason::new("NotIp")),
        });
    });
    b.finish()
}

/// Answers ARP requests for every address.
fn answers_arp(name: &str) -> Option<Program> {
    let class = weir_elements::class_named("ARPResponder")?;
    let element = class.configure(&[format!("0.0.0.0/0 {EVERYBODY}")]).ok()?;
    Some(program_of(&*element, name, 1, 1))
}

/// A port that the configuration does not use.
fn closed(name: &str) -> Program {
    let mut b = Builder::new(name, 1, 0);
    b.input(0, |b| b.drop(Reason::UNCONNECTED));
    b.finish()
}

//! From a configuration in the Click language to a linked program.

use std::collections::HashMap;

use weir_click::{ClassInfo, ElementSet, PortCounts};
use weir_ir::program::EntryKind;
use weir_ir::{Peer, Peers, Program, Wire, check, link, optimize, program_of, retain_entries};

struct Library;

impl ElementSet for Library {
    fn class(&self, name: &str) -> Option<ClassInfo> {
        let info = weir_elements::class_named(name)?.info;
        ClassInfo::new(info.ports, info.processing, info.flow).ok()
    }

    fn names(&self) -> Vec<String> {
        weir_elements::classes().map(|c| c.info.name.to_owned()).collect()
    }

    fn ports(&self, class: &str, args: &[String]) -> Option<PortCounts> {
        weir_elements::class_named(class)?.configure(args).ok()?.ports().parse().ok()
    }
}

/// A linked graph. Packets are put in wherever the configuration has an `Idle`.
#[derive(Debug)]
pub struct Linked {
    /// The program as linked.
    pub program: Program,
    /// The program after all passes, which has no entries but those that are used here.
    pub fast: Program,
    /// Where packets come in: element, input.
    pub points: Vec<(u32, u32)>,
    /// Names of the classes in it.
    pub classes: Vec<String>,
}

/// Reads, configures and links a configuration.
///
/// # Panics
/// If anything is wrong with it.
pub fn linked(text: &str) -> Linked {
    let graph = weir_click::parse("test", text, &Library).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let all: Vec<Peer<'_>> =
        graph.elements.iter().map(|e| Peer { name: &e.name, class: &e.class, args: &e.args }).collect();
    let program = |(e, ports): (&weir_click::ElementDecl, &weir_click::PortKinds)| {
        let class = weir_elements::class_named(&e.class).expect("the parser knows the class");
        let mut element = class.configure(&e.args).unwrap_or_else(|why| panic!("{}: {why:?}", e.class));
        element.resolve(&Peers::new(&all, &e.name)).unwrap_or_else(|why| panic!("{}: {why:?}", e.class));
        let p = program_of(&*element, &e.name, ports.inputs.len() as u32, ports.outputs.len() as u32);
        check(&p).unwrap_or_else(|why| panic!("{}: {why:#?}\n{p}", e.class));
        p
    };
    let programs: Vec<Program> = graph.elements.iter().zip(&graph.ports).map(program).collect();
    let mut wires = HashMap::new();
    let mut points = Vec::new();
    for c in &graph.connections {
        wires.insert((c.from.0, c.from.1), Wire::Input { element: c.to.0, port: c.to.1 });
        let point = (c.to.0 as u32, c.to.1);
        if graph.elements[c.from.0].class == "Idle" && !points.contains(&point) {
            points.push(point);
        }
    }
    let program = link(&programs, |e, port| wires.get(&(e, port)).copied(), 0)
        .unwrap_or_else(|e| panic!("{text}: {e}"));
    check(&program).unwrap_or_else(|why| panic!("{text}: {why:#?}"));
    let mut fast = program.clone();
    retain_entries(&mut fast, |e| match e.kind {
        EntryKind::Packet { port } => points.contains(&(e.owner, port)),
        _ => true,
    });
    let fast = optimize(fast);
    check(&fast).unwrap_or_else(|why| panic!("optimised {text}: {why:#?}\n{fast}"));
    let classes = graph.elements.iter().map(|e| e.class.clone()).collect();
    Linked { program, fast, points, classes }
}

//! From a configuration in the Click language to a linked program, whose packets leave where there is a `Discard`.

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
pub struct Linked {
    /// The program as linked.
    pub program: Program,
    /// The program after all passes, for packets that only devices look at afterwards.
    pub fast: Program,
    /// Where packets come in: element, input.
    pub points: Vec<(u32, u32)>,
    names: HashMap<String, String>,
}

impl Linked {
    /// The class of an element.
    pub fn class_of(&self, element: &str) -> String {
        self.names.get(element).cloned().unwrap_or_else(|| element.to_owned())
    }
}

/// Reads, configures and links a configuration.
pub fn linked(text: &str) -> Linked {
    let graph = weir_click::parse("test", text, &Library).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let all: Vec<Peer<'_>> =
        graph.elements.iter().map(|e| Peer { name: &e.name, class: &e.class, args: &e.args }).collect();
    let program = |(e, ports): (&weir_click::ElementDecl, &weir_click::PortKinds)| {
        let class = weir_elements::class_named(&e.class).expect("the parser knows the class");
        let mut element = class.configure(&e.args).unwrap_or_else(|why| panic!("{}: {why:?}", e.class));
        element.resolve(&Peers::new(&all, &e.name)).unwrap_or_else(|why| panic!("{}: {why:?}", e.class));
        program_of(&*element, &e.name, ports.inputs.len() as u32, ports.outputs.len() as u32)
    };
    let programs: Vec<Program> = graph.elements.iter().zip(&graph.ports).map(program).collect();
    let (mut wires, mut points, mut exits) = (HashMap::new(), Vec::new(), 0);
    for c in &graph.connections {
        let wire = if graph.elements[c.to.0].class == "Discard" {
            exits += 1;
            Wire::Exit(exits - 1)
        } else {
            Wire::Input { element: c.to.0, port: c.to.1 }
        };
        wires.insert((c.from.0, c.from.1), wire);
        let point = (c.to.0 as u32, c.to.1);
        if graph.elements[c.from.0].class == "Idle" && !points.contains(&point) {
            points.push(point);
        }
    }
    let mut program = link(&programs, |e, port| wires.get(&(e, port)).copied(), exits)
        .unwrap_or_else(|e| panic!("{text}: {e}"));
    program.plain_exits = (0..exits).collect();
    let mut fast = program.clone();
    retain_entries(&mut fast, |e| match e.kind {
        EntryKind::Packet { port } => points.contains(&(e.owner, port)),
        _ => true,
    });
    let fast = optimize(fast);
    check(&fast).unwrap_or_else(|why| panic!("optimised {text}: {why:#?}\n{fast}"));
    let names: HashMap<_, _> = graph.elements.iter().map(|e| (e.name.clone(), e.class.clone())).collect();
    Linked { program, fast, points, names }
}

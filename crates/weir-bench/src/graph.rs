//! From Click text to programs, with the time that each step takes.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use weir_click::{ClassInfo, ElementSet, PortCounts};
use weir_elements::class_named;
use weir_ir::program::{BlockId, EntryKind};
use weir_ir::{Interpreter, Program, Wire};
use weir_jit::Compiled;
use weir_net::build::udp4;
use weir_packet::Packet;
use weir_table::TableSet;

use crate::runner::Sink;

/// A program with the blocks where the benchmark's packets enter.
#[derive(Debug)]
pub struct Code {
    /// The program.
    pub program: Program,
    /// Where packets enter: for each output of `Input`.
    pub entries: Vec<BlockId>,
}

impl Code {
    /// Number of blocks and of operations.
    pub fn size(&self) -> (usize, usize) {
        let ops = self.program.blocks.iter().map(|b| b.ops.len()).sum();
        (self.program.blocks.len(), ops)
    }

    /// The program's tables with their first content.
    pub fn tables(&self) -> Result<TableSet> {
        let mut tables = TableSet::new(self.program.tables.iter().map(|t| &t.decl))?;
        for (i, t) in self.program.tables.iter().enumerate() {
            tables.table_mut(i as u32).insert_rows(&t.rows, 0)?;
        }
        Ok(tables)
    }
}

/// A graph in all forms that can run.
#[derive(Debug)]
pub struct Built {
    /// The elements' programs, joined.
    pub linked: Code,
    /// The same after all passes, with no entry but the benchmark's.
    pub optimised: Code,
    /// Machine code of `linked`, if it was asked for.
    pub linked_jit: Option<Compiled>,
    /// Machine code of `optimised`.
    pub optimised_jit: Compiled,
    /// Whether the packet left that went through the interpreter.
    pub forwards: bool,
    /// How long it took.
    pub times: Times,
}

/// How long each step from text to machine code took.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Text to graph; configures the elements to learn their port counts.
    pub parse: Duration,
    /// Configures the elements, builds and checks the program of each.
    pub configure: Duration,
    /// Joins the programs.
    pub link: Duration,
    /// Makes the tables, and a packet goes through the interpreter.
    pub first_packet: Duration,
    /// All passes.
    pub optimise: Duration,
    /// Checks and compiles the program after all passes.
    pub jit_optimised: Duration,
    /// Compiles what works out keys of large tables before a batch, when packets run compiled already.
    pub ahead: Duration,
}

impl Times {
    /// From text until a first packet is through, by the interpreter.
    pub fn until_first_packet(&self) -> Duration {
        self.parse + self.configure + self.link + self.first_packet
    }

    /// From programs to machine code.
    pub fn until_compiled(&self) -> Duration {
        self.optimise + self.jit_optimised
    }
}

/// The element library, and the ends of a benchmark graph: `Input`, where packets come in, and `Output`, whose input
/// N is exit N.
struct Library;

impl ElementSet for Library {
    fn class(&self, name: &str) -> Option<ClassInfo> {
        let (ports, processing, flow) = match name {
            "Input" => ("0/1-", "h/h", "x/x"),
            "Output" => ("-/0", "h/h", "x/x"),
            _ => {
                let info = class_named(name)?.info;
                (info.ports, info.processing, info.flow)
            }
        };
        ClassInfo::new(ports, processing, flow).ok()
    }

    fn names(&self) -> Vec<String> {
        let library = weir_elements::classes().map(|c| c.info.name);
        library.chain(["Input", "Output"]).map(str::to_owned).collect()
    }

    fn ports(&self, class: &str, args: &[String]) -> Option<PortCounts> {
        class_named(class)?.configure(args).ok()?.ports().parse().ok()
    }
}

/// Builds a graph with one `Input` and one `Output`, which are not connected to each other; `jit_linked` asks for
/// machine code of the program as linked too.
pub fn build(text: &str, jit_linked: bool) -> Result<Built> {
    let mut clock = Stopwatch(Instant::now());
    let graph = weir_click::parse("bench", text, &Library)?;
    let parse = clock.lap();

    let (mut programs, mut numbers) = (Vec::new(), HashMap::new());
    for (i, (e, ports)) in graph.elements.iter().zip(&graph.ports).enumerate() {
        let Some(class) = class_named(&e.class) else { continue };
        let element = class.configure(&e.args).map_err(|list| anyhow!("{}: {}", e.name, list.join("; ")))?;
        let (inputs, outputs) = (ports.inputs.len() as u32, ports.outputs.len() as u32);
        let program = weir_ir::program_of(&*element, &e.name, inputs, outputs);
        weir_ir::check(&program).map_err(|list| anyhow!("{}: {list:?}", e.name))?;
        numbers.insert(i, programs.len());
        programs.push(program);
    }
    let configure = clock.lap();

    let class = |i: usize| graph.elements[i].class.as_str();
    let exits = graph.connections.iter().filter(|c| class(c.to.0) == "Output").map(|c| c.to.1 + 1).max();
    let mut wires = HashMap::new();
    let mut inputs = BTreeMap::new();
    for c in &graph.connections {
        let to = numbers.get(&c.to.0).map(|&element| Wire::Input { element, port: c.to.1 });
        match numbers.get(&c.from.0) {
            Some(&from) => _ = wires.insert((from, c.from.1), to.unwrap_or(Wire::Exit(c.to.1))),
            None => _ = inputs.insert(c.from.1, (numbers.get(&c.to.0).map(|&e| e as u32), c.to.1)),
        }
    }
    let inputs: Vec<(u32, u32)> = inputs
        .into_values()
        .map(|(element, port)| Ok((element.context("Input is connected to Output")?, port)))
        .collect::<Result<_>>()?;
    ensure!(!inputs.is_empty(), "no element behind Input");
    let exits = exits.unwrap_or(0);
    let mut linked = weir_ir::link(&programs, |e, port| wires.get(&(e, port)).copied(), exits)?;
    // What leaves is sent, as if each exit were a device.
    linked.plain_exits = (0..exits).collect();
    let code = |program: Program| -> Result<Code> {
        let entry = |&(owner, port): &(u32, u32)| {
            program.packet_entry(owner, port).context("the first element has no program for its input")
        };
        Ok(Code { entries: inputs.iter().map(entry).collect::<Result<_>>()?, program })
    };
    let linked = code(linked)?;
    let link = clock.lap();

    let frame = udp4((Ipv4Addr::new(10, 0, 0, 1), 1024), (Ipv4Addr::new(192, 0, 2, 1), 53), &[0; 22]);
    let packet = Packet::from_bytes(&frame)?;
    clock.lap();
    let mut tables = linked.tables()?;
    let mut first = Sink::default();
    Interpreter::default().run(
        &linked.program,
        &mut tables,
        &mut first,
        1,
        linked.entries[0],
        &[],
        Some(packet),
    );
    let first_packet = clock.lap();

    let mut optimised = linked.program.clone();
    weir_ir::retain_entries(&mut optimised, |e| match e.kind {
        EntryKind::Packet { port: p } => inputs.contains(&(e.owner, p)),
        _ => true,
    });
    let optimised = weir_ir::optimize(optimised);
    let optimise = clock.lap();

    let optimised = code(optimised)?;
    clock.lap();
    let linked_jit = jit_linked.then(|| Compiled::new(&linked.program)).transpose()?;
    clock.lap();
    let optimised_jit = Compiled::new(&optimised.program)?;
    let jit_optimised = clock.lap();
    // What follows when the code runs already.
    optimised_jit.look_ahead(&optimised.program)?;
    let ahead = clock.lap();
    if let Some(jit) = &linked_jit {
        jit.look_ahead(&linked.program)?;
    }
    let times = Times { parse, configure, link, first_packet, optimise, jit_optimised, ahead };
    Ok(Built { linked, optimised, linked_jit, optimised_jit, forwards: first.exits > 0, times })
}

struct Stopwatch(Instant);

impl Stopwatch {
    /// Time since the last lap.
    fn lap(&mut self) -> Duration {
        let before = std::mem::replace(&mut self.0, Instant::now());
        self.0 - before
    }
}

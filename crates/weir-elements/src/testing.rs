//! Runs one element in the interpreter, for tests.

use std::collections::VecDeque;

use weir_ir::program::{BlockId, Op, TableId};
use weir_ir::{
    Element, Host, Interpreter, Layer, Peer, Peers, Program, Reason, State, Wire, check, link, program_of,
};
use weir_packet::{Packet, Provenance};
use weir_table::TableSet;

/// The end of a packet.
#[derive(Debug)]
pub enum Outcome {
    /// It left on an output.
    Out(u32, Packet),
    /// It was dropped, for this reason.
    Drop(String),
}

impl Outcome {
    /// The output and bytes of a packet that left.
    ///
    /// # Panics
    /// If it was dropped.
    pub fn out(&self) -> (u32, &[u8]) {
        match self {
            Outcome::Out(port, p) => (*port, p.bytes()),
            Outcome::Drop(reason) => panic!("the packet was dropped: {reason}"),
        }
    }

    /// The origin of a packet that left.
    ///
    /// # Panics
    /// If it was dropped.
    pub fn provenance(&self) -> Provenance {
        match self {
            Outcome::Out(_, p) => p.provenance(),
            Outcome::Drop(reason) => panic!("the packet was dropped: {reason}"),
        }
    }

    /// The reason of a packet that was dropped.
    ///
    /// # Panics
    /// If it left.
    pub fn reason(&self) -> &str {
        match self {
            Outcome::Drop(reason) => reason,
            Outcome::Out(port, p) => panic!("the packet left on output {port}: {:02x?}", p.bytes()),
        }
    }
}

/// An element of a graph: name, class, arguments, numbers of inputs and outputs.
pub type Part<'a> = (&'a str, &'a str, &'a [&'a str], u32, u32);

/// An output or input of an element of a graph: number of the element, and port.
pub type End = (usize, u32);

/// An element with its tables, a clock that the test sets, and a fixed series of random numbers.
pub struct Harness {
    element: Box<dyn Element>,
    /// Its program.
    pub program: Program,
    tables: TableSet,
    names: Vec<(String, TableId)>,
    interpreter: Interpreter,
    /// The time in nanoseconds.
    pub now: u64,
    random: u32,
    started: u64,
    /// Lines that events printed.
    pub lines: Vec<String>,
}

struct Recorder<'a> {
    element: &'a dyn Element,
    program: &'a Program,
    outcomes: VecDeque<Outcome>,
    random: &'a mut u32,
    started: &'a mut u64,
    lines: &'a mut Vec<String>,
}

impl Host for Recorder<'_> {
    fn exit(&mut self, port: u32, packet: Packet) {
        self.outcomes.push_back(Outcome::Out(port, packet));
    }
    fn dropped(&mut self, _at: BlockId, reason: &Reason, _packet: Packet) {
        self.outcomes.push_back(Outcome::Drop(reason.to_string()));
    }
    fn orphaned(&mut self, _packet: Packet) {
        self.outcomes.push_back(Outcome::Drop(Reason::TIMED_OUT.to_string()));
    }
    fn notify(&mut self, event: u32, args: &[u128], packet: Option<&Packet>) {
        let name = &self.program.events[event as usize].name;
        self.lines.extend(self.element.describe(name, args, packet));
    }
    fn random(&mut self) -> u32 {
        *self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *self.random
    }
    fn step(&mut self, block: BlockId, _packet: Option<&Packet>) {
        let ops = &self.program.block(block).ops;
        *self.started += ops.iter().filter(|op| matches!(op, Op::Fork { .. })).count() as u64;
    }
}

impl Harness {
    /// An element of a class with these arguments and so many connected ports.
    ///
    /// # Panics
    /// If the arguments are wrong, or the checker refuses the program.
    pub fn new(class: &str, args: &[&str], inputs: u32, outputs: u32) -> Harness {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let class = crate::class_named(class).expect("the class exists");
        Harness::of(class.configure(&args).unwrap_or_else(|e| panic!("{e:?}")), inputs, outputs)
    }

    /// An element that is configured already.
    ///
    /// # Panics
    /// If the checker refuses its program.
    pub fn of(element: Box<dyn Element>, inputs: u32, outputs: u32) -> Harness {
        let program = program_of(&*element, "e", inputs, outputs);
        if let Err(errors) = check(&program) {
            panic!("{errors:#?}\n{program:#?}");
        }
        Harness::run(element, program)
    }

    /// Several elements as one program: name, class, arguments and numbers of ports of each. `wires` lead from an
    /// output to an input, all other outputs out of the graph, numbered in their order. Handlers are those of the
    /// first element, which [`send_packet`](Self::send_packet) sends to.
    ///
    /// # Panics
    /// If arguments are wrong, or the checker refuses a program.
    pub fn graph(elements: &[Part<'_>], wires: &[(End, End)]) -> Harness {
        let args: Vec<Vec<String>> =
            elements.iter().map(|e| e.2.iter().map(|a| (*a).to_owned()).collect()).collect();
        let peers: Vec<Peer<'_>> =
            elements.iter().zip(&args).map(|(e, args)| Peer { name: e.0, class: e.1, args }).collect();
        let mut first = None;
        let (mut programs, mut exits) = (Vec::new(), Vec::new());
        for (i, (peer, part)) in peers.iter().zip(elements).enumerate() {
            let class = crate::class_named(peer.class).expect("the class exists");
            let mut element = class.configure(peer.args).unwrap_or_else(|e| panic!("{}: {e:?}", peer.name));
            element
                .resolve(&Peers::new(&peers, peer.name))
                .unwrap_or_else(|e| panic!("{}: {e:?}", peer.name));
            let program = program_of(&*element, peer.name, part.3, part.4);
            check(&program).unwrap_or_else(|e| panic!("{}: {e:#?}\n{program}", peer.name));
            programs.push(program);
            exits.extend((0..part.4).map(|port| (i, port)).filter(|from| wires.iter().all(|w| w.0 != *from)));
            first.get_or_insert(element);
        }
        let wire = |element, port| match wires.iter().find(|w| w.0 == (element, port)) {
            Some((_, (element, port))) => Some(Wire::Input { element: *element, port: *port }),
            None => exits.iter().position(|e| *e == (element, port)).map(|n| Wire::Exit(n as u32)),
        };
        let program = link(&programs, wire, exits.len() as u32).unwrap_or_else(|e| panic!("{e}"));
        check(&program).unwrap_or_else(|e| panic!("{e:#?}\n{program}"));
        Harness::run(first.expect("there is an element"), program)
    }

    fn run(element: Box<dyn Element>, program: Program) -> Harness {
        let mut tables =
            TableSet::new(program.tables.iter().map(|t| &t.decl)).expect("declarations are right");
        for (i, t) in program.tables.iter().enumerate() {
            for row in &t.rows {
                tables.table_mut(i as u32).insert_row(row, 0).expect("first content fits");
            }
        }
        let names = program
            .tables
            .iter()
            .enumerate()
            .map(|(i, t)| (t.decl.name.clone(), TableId(i as u32)))
            .collect();
        Harness {
            element,
            program,
            tables,
            names,
            interpreter: Interpreter::default(),
            now: 1_000_000_000,
            random: 1,
            started: 0,
            lines: Vec::new(),
        }
    }

    /// Sends a packet into an input.
    pub fn send_packet(&mut self, port: u32, packet: Packet) -> Vec<Outcome> {
        self.send_to(0, port, packet)
    }

    /// Sends a packet into an input of an element of a graph.
    pub fn send_to(&mut self, element: u32, port: u32, packet: Packet) -> Vec<Outcome> {
        let entry = self.program.packet_entry(element, port).expect("the input exists");
        self.with(|i, p, t, r, now| i.run(p, t, r, now, entry, &[], Some(packet)))
    }

    /// Sends bytes into an input.
    pub fn send(&mut self, port: u32, bytes: &[u8]) -> Vec<Outcome> {
        self.send_packet(port, Packet::from_bytes(bytes).expect("the packet is not too long"))
    }

    /// Sends an IPv4 packet, with `net` and `transport` marked and the destination annotation set, as it is behind
    /// `CheckIPHeader`.
    pub fn send_ip(&mut self, port: u32, bytes: &[u8]) -> Vec<Outcome> {
        self.send_packet(port, ip_packet(bytes))
    }

    /// Lets what is due at the current time expire.
    pub fn expire(&mut self) -> Vec<Outcome> {
        self.with(|i, p, t, r, now| i.expire(p, t, r, now))
    }

    /// Reads a handler, with its parameter behind the name if it takes one.
    ///
    /// # Panics
    /// If it fails.
    pub fn read(&mut self, handler: &str) -> String {
        self.try_read(handler).unwrap_or_else(|e| panic!("reading {handler}: {e}"))
    }

    /// Reads a handler, which may fail.
    pub fn try_read(&mut self, handler: &str) -> Result<String, String> {
        let (handler, param) = handler.split_once(' ').unwrap_or((handler, ""));
        let state = State::new(&mut self.tables, &self.names, self.now).asked(param);
        self.element.read(handler, &state)
    }

    /// Writes a handler.
    pub fn write(&mut self, handler: &str, value: &str) -> Result<(), String> {
        let mut state = State::new(&mut self.tables, &self.names, self.now);
        self.element.write(handler, value, &mut state)
    }

    /// Number of packets that the element has made so far: copies and new ones.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Number of packets that its tables hold.
    pub fn held(&self) -> u64 {
        let holding = self.names.iter().filter(|(_, id)| self.program.tables[id.0 as usize].decl.held > 0);
        holding
            .map(|(_, id)| self.tables.table(id.0))
            .flat_map(|t| t.rows().into_iter().map(|(slot, _)| u64::from(t.held(slot))))
            .sum()
    }

    fn with(
        &mut self,
        f: impl FnOnce(&mut Interpreter, &Program, &mut TableSet, &mut Recorder<'_>, u64),
    ) -> Vec<Outcome> {
        let mut recorder = Recorder {
            element: &*self.element,
            program: &self.program,
            outcomes: VecDeque::new(),
            random: &mut self.random,
            started: &mut self.started,
            lines: &mut self.lines,
        };
        f(&mut self.interpreter, &self.program, &mut self.tables, &mut recorder, self.now);
        recorder.outcomes.into()
    }
}

/// An IPv4 packet as it is behind `CheckIPHeader`.
pub fn ip_packet(bytes: &[u8]) -> Packet {
    let mut p = Packet::from_bytes(bytes).expect("the packet is not too long");
    let data = p.data();
    p.set_layer(Layer::Net, Some(data));
    if let Some(first) = bytes.first() {
        let transport = data + u32::from(first & 15) * 4;
        p.set_layer(Layer::Transport, Some(transport).filter(|&t| t <= p.end()));
    }
    if let Some(dst) = bytes.get(16..20) {
        p.anno[..4].copy_from_slice(dst);
    }
    p
}

/// An IPv4 UDP packet, from its IP header on.
pub fn udp(src: ([u8; 4], u16), dst: ([u8; 4], u16), payload: &[u8]) -> Vec<u8> {
    weir_net::build::udp4((src.0.into(), src.1), (dst.0.into(), dst.1), payload).split_off(14)
}

/// An IPv4 TCP packet with these flags, from its IP header on.
pub fn tcp(src: ([u8; 4], u16), dst: ([u8; 4], u16), flags: u8, seq: u32, payload: &[u8]) -> Vec<u8> {
    let fields = weir_net::build::TcpFields { flags, seq, ..Default::default() };
    weir_net::build::tcp4((src.0.into(), src.1), (dst.0.into(), dst.1), fields, payload).split_off(14)
}

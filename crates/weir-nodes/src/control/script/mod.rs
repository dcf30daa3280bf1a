//! Scripts: instructions that call handlers, wait, and stop the run.

mod format;
mod functions;
mod handlers;
mod machine;
mod parse;
mod text;

use std::sync::Arc;

use weir_ir::{ClassInfo, HandlerInfo, ParamInfo, ParamKind};

use crate::node::Control;
use crate::node::{Model, NodeClass, Reach};
use crate::prelude::*;
use machine::Script;
use parse::Kind;

static SCRIPT: ClassInfo = ClassInfo {
    name: "Script",
    doc: include_str!("script.md"),
    ports: "-/-",
    processing: "ah/ah",
    flow: "x/x",
    params: PARAMS,
    handlers: HANDLERS,
    examples: &[
        "Script(print \"hello\", wait 10ms, stop);",
        "Idle -> Script(TYPE PACKET, init n 0, set n $(mod $(add $n 1) 2), return $n) -> Discard;",
    ],
};

static DRIVER_MANAGER: ClassInfo = ClassInfo {
    name: "DriverManager",
    doc: "Decides what happens when an element asks for the end of the run.\n\nIt is a `Script` whose \
          `TYPE` is `DRIVER` unless it is given. Without such an element the run ends at the first request, for \
          example of a source with `STOP true`. With one, each request is a step of the script: the run ends with \
          the script, or at its instruction `stop`.",
    ports: "-/-",
    processing: "ah/ah",
    flow: "x/x",
    params: PARAMS,
    handlers: HANDLERS,
    examples: &[
        "InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard; DriverManager(pause, print c.count, stop);",
    ],
};

const PARAMS: &[ParamInfo] = &[
    ParamInfo {
        name: "type",
        kind: ParamKind::Keyword,
        default: Some("PACKET with ports, else ACTIVE (DRIVER for a DriverManager)"),
        syntax: "ACTIVE, PASSIVE, PACKET, PROXY, DRIVER or SIGNAL SIGNO...",
        doc: "What it runs for.",
    },
    ParamInfo {
        name: "instructions",
        kind: ParamKind::Rest,
        default: Some("none"),
        syntax: "instructions",
        doc: "What it does, one after the other.",
    },
];

const fn handler(name: &'static str, read: bool, write: bool, doc: &'static str) -> HandlerInfo {
    HandlerInfo { name, read, write, doc }
}

const HANDLERS: &[HandlerInfo] = &[
    handler("step", false, true, "Goes past the instruction that waits; a number: past so many."),
    handler("goto", false, true, "Goes on at this label."),
    handler(
        "run",
        true,
        true,
        "Runs from the beginning, with these arguments; read: what the script returns.",
    ),
    handler("get", true, false, "The value of this variable."),
    handler("set", false, true, "A variable and its value: sets it."),
    handler("shift", true, false, "Takes the first word out of this variable (`args` if none is named)."),
    handler("now", true, false, "The time."),
    handler("readable", true, false, "Whether all these handlers can be read."),
    handler("writable", true, false, "Whether all these handlers can be written."),
    handler("add", true, false, "Sum of numbers."),
    handler("sub", true, false, "The first number less the others."),
    handler("mul", true, false, "Product of numbers."),
    handler("div", true, false, "The first number divided by the others."),
    handler("idiv", true, false, "The same, without the fraction."),
    handler("mod", true, false, "Remainder of two integers."),
    handler("rem", true, false, "Remainder of two numbers."),
    handler("neg", true, false, "The negative of a number."),
    handler("abs", true, false, "A number without its sign."),
    handler("min", true, false, "The least of numbers."),
    handler("max", true, false, "The greatest of numbers."),
    handler("eq", true, false, "Whether two numbers, or else texts, are equal."),
    handler("ne", true, false, "Whether they are not."),
    handler("lt", true, false, "Whether the first is less."),
    handler("le", true, false, "Whether the first is less or equal."),
    handler("gt", true, false, "Whether the first is greater."),
    handler("ge", true, false, "Whether the first is greater or equal."),
    handler("not", true, false, "The opposite of a boolean."),
    handler("and", true, false, "Whether all booleans are true."),
    handler("or", true, false, "Whether one of the booleans is true."),
    handler("nand", true, false, "Whether not all are true."),
    handler("nor", true, false, "Whether none is true."),
    handler("if", true, false, "A boolean and two words: the first if it is true, else the second."),
    handler("in", true, false, "Whether the first word is among the others."),
    handler("first", true, false, "The first word."),
    handler("length", true, false, "Length in bytes."),
    handler("unquote", true, false, "The text without one layer of quotes."),
    handler("sprintf", true, false, "Words formatted as the first of them says, as in C."),
    handler("random", true, false, "A random number: below N, or from N1 to N2."),
    handler("htons", true, false, "16 bits in network order."),
    handler("htonl", true, false, "32 bits in network order."),
    handler("ntohs", true, false, "16 bits from network order."),
    handler("ntohl", true, false, "32 bits from network order."),
    handler("cat", true, false, "What is in a file; not for sockets."),
    handler("catq", true, false, "The same, quoted; not for sockets."),
    handler("kill", true, false, "Sends a signal to processes; not for sockets."),
];

pub(crate) const CLASSES: [NodeClass; 2] = [
    NodeClass {
        info: &SCRIPT,
        model: Model::Source,
        reach: Reach::Files,
        configure: |args| make(args, None),
    },
    NodeClass {
        info: &DRIVER_MANAGER,
        model: Model::Source,
        reach: Reach::Files,
        configure: |args| make(args, Some(Kind::Driver)),
    },
];

/// The node: the machine, and who runs it.
struct ScriptNode {
    script: Arc<Script>,
}

fn make(args: &[String], default: Option<Kind>) -> Result<Box<dyn EngineNode>, Vec<String>> {
    let mut kind = default;
    let mut rest = Vec::new();
    for arg in args {
        match weir_click::first_word(arg) {
            Some(("TYPE", text)) => kind = Some(parse::kind(text).map_err(|e| vec![e])?),
            _ => rest.push(arg.clone()),
        }
    }
    let script = Arc::new(Script::new(kind, parse::instructions(&rest)?));
    Ok(Box::new(ScriptNode { script }))
}

impl EngineNode for ScriptNode {
    fn read(&self, handler: &str, _env: &Env) -> Result<String, String> {
        Err(format!("no read handler '{handler}'"))
    }

    fn write(&mut self, handler: &str, _value: &str, _env: &mut Env) -> Result<(), String> {
        Err(format!("no write handler '{handler}'"))
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

impl Behavior for ScriptNode {
    fn push(&mut self, port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        for packet in packets.drain(..) {
            match self.script.packet(port, cx) {
                Some(output) if output < cx.ports().1 => cx.emit(output, packet),
                _ => cx.drop(&Reason::DISCARDED, packet),
            }
        }
    }

    fn pull(&mut self, _port: u32, cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = cx.pull(0)?;
        match self.script.packet(0, cx) {
            Some(0) => return Some(packet),
            Some(output) if output < cx.ports().1 => cx.emit(output, packet),
            _ => cx.drop(&Reason::DISCARDED, packet),
        }
        None
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Ran {
        self.script.run(cx)
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        Some(self.script.clone())
    }
}

//! Handlers: `element.handler`, those that every element has, and those of the graph.

use weir_click::{Kind, join_args};
use weir_ir::State;
use weir_ir::program::{EntryKind, Type};

use super::Router;
use crate::classes::Classes;
use crate::env::Env;
use crate::plan::Part;

/// Handlers that every element has.
pub(super) const COMMON: [&str; 5] = ["name", "class", "config", "ports", "handlers"];
/// Handlers of the graph.
const GLOBAL: [&str; 8] =
    ["classes", "config", "drops", "flatconfig", "handlers", "list", "requirements", "version"];

impl Router {
    /// Reads a handler, on this worker; what stands behind its name is its parameter, if it takes one.
    pub(super) fn read_here(
        &mut self,
        env: &mut Env,
        classes: &Classes,
        handler: &str,
    ) -> Result<String, String> {
        let (handler, param) = handler.split_once(char::is_whitespace).unwrap_or((handler, ""));
        let Some((element, name)) = self.split(handler)? else { return self.read_global(classes, handler) };
        match name {
            "name" => return Ok(self.element_name(element).to_owned()),
            "class" => return Ok(self.plan.graph.elements[element].class.clone()),
            "config" => {
                let changed = self.node(element).and_then(|n| n.config());
                return Ok(changed.unwrap_or_else(|| join_args(&self.plan.graph.elements[element].args)));
            }
            "ports" => return Ok(self.ports_text(element)),
            "handlers" => return Ok(self.handlers_text(element)),
            _ => {}
        }
        match &self.plan.parts[element] {
            Part::Node { .. } => match &self.nodes[element] {
                Some(node) => node.read(name, env),
                None => Err("the element is busy".to_owned()),
            },
            Part::Element { element, tables, .. } => {
                let state = State::new(&mut self.tables, tables, env.now).asked(param.trim());
                element.read(name, &state)
            }
        }
        .map_err(|e| format!("{handler}: {e}"))
    }

    /// Writes a handler, or sends an element the message of that name (numbers, separated by spaces), on this worker.
    pub(super) fn write_here(&mut self, env: &mut Env, handler: &str, value: &str) -> Result<(), String> {
        self.active = true;
        let Some((element, name)) = self.split(handler)? else {
            if handler == "stop" {
                env.stop = true;
                return Ok(());
            }
            return Err(format!("no write handler '{handler}'"));
        };
        if let Part::Element { owner, .. } = &self.plan.parts[element]
            && let owner = *owner
            && let Some(start) = self.start_of(|e| {
                e.owner == owner && matches!(&e.kind, EntryKind::Message { name: n } if n == name)
            })
        {
            let args = self.message_args(start, value).map_err(|e| format!("{handler}: {e}"))?;
            env.running.clone_from(&self.name);
            self.run(env, start, &args, None, owner);
            return Ok(());
        }
        match &self.plan.parts[element] {
            Part::Node { .. } => match &mut self.nodes[element] {
                Some(node) => node.write(name, value, env),
                None => Err("the element is busy".to_owned()),
            },
            Part::Element { element, tables, .. } => {
                let mut state = State::new(&mut self.tables, tables, env.now);
                element.write(name, value, &mut state)
            }
        }
        .map_err(|e| format!("{handler}: {e}"))
    }

    fn message_args(&self, block: weir_ir::program::BlockId, value: &str) -> Result<Vec<u128>, String> {
        let program = &self.plan.linked;
        let params = &program.block(block).params;
        let words: Vec<&str> = value.split_whitespace().collect();
        if words.len() != params.len() {
            return Err(format!("the message takes {} numbers, not {}", params.len(), words.len()));
        }
        words
            .iter()
            .zip(params)
            .map(|(word, param)| {
                let number: u128 = word.parse().map_err(|_| format!("'{word}' is not a number"))?;
                match program.ty(*param) {
                    Type::Int(width) if number <= width.max() => Ok(number),
                    _ => Err(format!("{word} is too large")),
                }
            })
            .collect()
    }

    /// Element and handler; `None` for a handler of the graph.
    pub(super) fn split<'a>(&self, handler: &'a str) -> Result<Option<(usize, &'a str)>, String> {
        let Some((element, name)) = handler.rsplit_once('.') else { return Ok(None) };
        match self.plan.graph.find(element) {
            Some(e) => Ok(Some((e, name))),
            None => Err(format!("no element '{element}'; the handler 'list' names all elements")),
        }
    }

    fn read_global(&self, classes: &Classes, handler: &str) -> Result<String, String> {
        let lines = |list: Vec<String>| list.iter().map(|l| format!("{l}\n")).collect::<String>();
        let elements = &self.plan.graph.elements;
        match handler {
            "config" => Ok(self.plan.config.clone()),
            "flatconfig" => Ok(self.plan.graph.to_string()),
            "list" => {
                let names = elements.iter().map(|e| e.name.clone());
                Ok(lines([elements.len().to_string()].into_iter().chain(names).collect()))
            }
            "classes" => Ok(lines(classes.iter().map(|c| c.info().name.to_owned()).collect())),
            "requirements" => Ok(lines(self.plan.graph.requirements.clone())),
            "version" => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            "drops" => {
                let counts = self.drop_counts();
                let all = counts
                    .iter()
                    .flat_map(|(e, reasons)| reasons.iter().map(move |(r, n)| format!("{e} {r} {n}")));
                Ok(lines(all.collect()))
            }
            "handlers" => {
                let all = GLOBAL.iter().map(|h| format!("{h}\tr"));
                Ok(lines(all.chain(["stop\tw".to_owned()]).collect()))
            }
            _ => Err(format!("no read handler '{handler}'; the handler 'handlers' names all")),
        }
    }

    /// In Click's form: a line for each port with its kind and the ports at the other end.
    fn ports_text(&self, element: usize) -> String {
        let graph = &self.plan.graph;
        let kind = |k: &Kind| k.name();
        let ports = &graph.ports[element];
        let mut out = format!("{} input{}\n", ports.inputs.len(), plural(ports.inputs.len()));
        for (port, k) in (0u32..).zip(&ports.inputs) {
            let ends = graph.connections.iter().filter(|c| c.to == (element, port));
            let ends: Vec<String> =
                ends.map(|c| format!("{} [{}]", self.element_name(c.from.0), c.from.1)).collect();
            out.push_str(&format!("{}\t-\t{}\n", kind(k), ends.join(", ")));
        }
        out.push_str(&format!("{} output{}\n", ports.outputs.len(), plural(ports.outputs.len())));
        for (port, k) in (0u32..).zip(&ports.outputs) {
            let ends = graph.connections.iter().filter(|c| c.from == (element, port));
            let ends: Vec<String> =
                ends.map(|c| format!("[{}] {}", c.to.1, self.element_name(c.to.0))).collect();
            out.push_str(&format!("{}\t-\t{}\n", kind(k), ends.join(", ")));
        }
        out
    }

    fn handlers_text(&self, element: usize) -> String {
        let info = match &self.plan.parts[element] {
            Part::Element { element, .. } => Some(element.info()),
            Part::Node { .. } => self.nodes[element].as_ref().map(|n| n.info()),
        };
        let mut lines: Vec<String> = COMMON.iter().map(|h| format!("{h}\tr\n")).collect();
        for h in info.map_or(&[][..], |i| i.handlers) {
            let mode =
                [(h.read, "r"), (h.write, "w")].into_iter().filter(|m| m.0).map(|m| m.1).collect::<String>();
            lines.push(format!("{}\t{mode}\n", h.name));
        }
        lines.sort();
        lines.dedup();
        lines.concat()
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

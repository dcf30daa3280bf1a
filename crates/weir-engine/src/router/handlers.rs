//! Handlers: `element.handler`, those that every element has, and those of the graph.

use weir_click::{Kind, join_args};
use weir_ir::HandlerInfo;
use weir_ir::program::{EntryKind, Type};
use weir_nodes::node::Modes;
use weir_plan::{COMMON, Part, Places, TASK};

use super::Router;
use super::calls::{CallError, HandlerRef, split_call};
use super::runtime::Runtime;

/// Handlers of the graph that are read.
const GLOBAL: [&str; 12] = [
    "classes",
    "config",
    "driver",
    "drops",
    "flatconfig",
    "handlers",
    "list",
    "name",
    "packages",
    "requirements",
    "timewarp",
    "version",
];
/// Handlers of the graph that are written.
const GLOBAL_WRITE: [&str; 2] = ["stop", "timewarp"];

/// How a handler of the graph may be called.
pub(crate) fn global_modes(name: &str) -> Option<Modes> {
    let modes =
        Modes { read: GLOBAL.contains(&name), write: GLOBAL_WRITE.contains(&name), ..Modes::default() };
    (modes != Modes::default()).then_some(modes)
}

impl Router {
    /// Reads a handler.
    pub(crate) fn read(&mut self, rt: &mut Runtime, handler: &str) -> Result<String, String> {
        self.call_read(rt, None, split_call(handler)).map_err(|e| refusal(handler, e))
    }

    /// Writes a handler, or sends an element the message of that name (numbers, separated by spaces).
    pub(crate) fn write(&mut self, rt: &mut Runtime, handler: &str, value: &str) -> Result<(), String> {
        let place = self.find_handler(None, handler)?;
        if !self.modes(&place).is_some_and(|m| m.write) {
            return Err(format!("no '{handler}' write handler"));
        }
        rt.env.running.clone_from(&self.name);
        self.write_at(rt, &place, value).map_err(|e| format!("{handler}: {e}"))
    }

    pub(super) fn read_common(&self, element: usize, name: &str) -> Option<String> {
        let decl = &self.plan.graph.elements[element];
        Some(match name {
            "name" => decl.name.clone(),
            "class" => decl.class.clone(),
            "config" => {
                let changed = self.node(element).and_then(weir_nodes::node::Behavior::config);
                let written = || self.configs.get(&element).cloned();
                changed.or_else(written).unwrap_or_else(|| join_args(&decl.args))
            }
            "ports" => self.ports_text(element),
            "handlers" => self.handlers_text(element),
            "scheduled" if self.has_task(element) => self.is_scheduled(element).to_string(),
            "home_thread" if self.has_task(element) => self.home_thread(element).to_string(),
            _ => return None,
        })
    }

    pub(super) fn write_global(
        &mut self,
        rt: &mut Runtime,
        handler: &str,
        value: &str,
    ) -> Result<(), String> {
        match handler {
            "stop" => self.ask_stop(),
            "hotconfig" => {
                let reader = rt.reader.as_ref().ok_or("the graph may not be changed so")?;
                let plan = reader(&rt.classes, value).map_err(|e| e.lines(Places::Lines).join("\n"))?;
                rt.swap = Some((self.name.clone(), plan));
            }
            // Elements may call it, and the time is that of all graphs.
            "timewarp" if self.scope.is_some() => {
                return Err("the graph may not change the time".to_owned());
            }
            "timewarp" => return rt.env.set_warp(value),
            _ => return Err(format!("no write handler '{handler}'")),
        }
        Ok(())
    }

    /// Sends an element the message of that name, if its program has one.
    pub(super) fn send_message(
        &mut self,
        rt: &mut Runtime,
        element: usize,
        name: &str,
        value: &str,
    ) -> Option<Result<(), String>> {
        let Part::Element { owner, .. } = &self.plan.parts[element] else { return None };
        let owner = *owner;
        let start = self.start_of(|e| {
            e.owner == owner && matches!(&e.kind, EntryKind::Message { name: n } if n == name)
        })?;
        Some(self.message_args(start, value).map(|args| self.run(rt, start, &args, None, owner)))
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

    pub(super) fn read_global(&self, rt: &Runtime, handler: &str) -> Result<String, String> {
        let lines = |list: Vec<String>| list.iter().map(|l| format!("{l}\n")).collect::<String>();
        let elements = &self.plan.graph.elements;
        match handler {
            // The compact form of a configuration is the flat one.
            "config" if self.plan.graph.requirements.iter().any(|r| r == "compact_config") => {
                Ok(self.plan.graph.to_string())
            }
            "config" => Ok(self.plan.config.to_string()),
            "flatconfig" => Ok(self.plan.graph.to_string()),
            "list" => {
                let names = elements.iter().map(|e| e.name.clone());
                Ok(lines([elements.len().to_string()].into_iter().chain(names).collect()))
            }
            "classes" => Ok(lines(rt.classes.iter().map(|c| c.info().name.to_owned()).collect())),
            "driver" => Ok("userlevel".to_owned()),
            "name" => Ok(self.name.clone()),
            "packages" => Ok(String::new()),
            "timewarp" => Ok(rt.env.warp()),
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
                let mut all: Vec<&str> = GLOBAL.iter().chain(&GLOBAL_WRITE).copied().collect();
                all.sort_unstable();
                all.dedup();
                let line = |h: &str| format!("{h}\t{}", global_modes(h).unwrap_or_default().text());
                Ok(lines(all.into_iter().map(line).collect()))
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

    /// The handlers of an element's manual page.
    pub(super) fn manual(&self, element: usize) -> impl Iterator<Item = &'static HandlerInfo> {
        let info = match &self.plan.parts[element] {
            Part::Element { element, .. } => element.info(),
            Part::Node { class, .. } => class.info,
        };
        info.handlers.iter()
    }

    fn handlers_text(&self, element: usize) -> String {
        let manual = self.manual(element).map(|h| h.name.trim_start_matches("r#").to_owned());
        let more = self.controls[element].as_ref().map_or(Vec::new(), |c| c.more_handlers());
        let task = TASK.iter().filter(|_| self.has_task(element));
        let common = COMMON.iter().chain(task).map(|&h| h.to_owned());
        let mut names: Vec<String> = manual.chain(more).chain(common).collect();
        names.sort();
        names.dedup();
        let line = |name: String| {
            let place = HandlerRef { element: Some(element), handler: name };
            let modes = self.modes(&place).filter(|m| !m.private)?;
            Some(format!("{}\t{}\n", place.handler, modes.text()))
        };
        names.into_iter().filter_map(line).collect()
    }
}

/// What was wrong with a call from outside.
fn refusal(handler: &str, error: CallError) -> String {
    match error {
        CallError::Missing(text) => text,
        CallError::Refused(_, text) => format!("{handler}: {text}"),
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

//! What carries instructions out.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_click::first_word;
use weir_elements::FromArg;

use super::functions::{self, unquoted};
use super::parse::{Insn, Kind, Target};
use super::text::{Reference, expand};
use crate::node::{Cx, Ran};

/// Jumps without a wait after which a script is taken for one that never ends; Click's limit.
const MAX_JUMPS: u32 = 1000;

/// A script: its instructions, and where it is.
pub(super) struct Script {
    /// `None`: by its ports.
    pub(super) kind: Option<Kind>,
    pub(super) code: Vec<Insn>,
    state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// The next instruction.
    pub(super) at: usize,
    /// Whether `Begin` still has to be passed by a step.
    pub(super) begin: bool,
    /// Steps that pauses have had.
    paused: BTreeMap<usize, u32>,
    pub(super) vars: BTreeMap<String, String>,
    /// When the wait is over.
    pub(super) timer: Option<u64>,
    /// How the last write ended.
    status: i32,
    /// What the handler was called with that runs it.
    pub(super) call: Call,
    /// While it runs: steps that came meanwhile.
    running: Option<i64>,
    /// Whether it waits for its signals.
    pub(super) armed: bool,
}

#[derive(Default, Clone)]
pub(super) struct Call {
    handler: String,
    pub(super) args: String,
    write: bool,
}

/// For what a script goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A handler, a packet, or time.
    Step,
    /// An element asked for the end of the run.
    Driver,
}

/// The end of a script, if it did end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    No,
    End,
    Exit,
    Stop,
    Error,
    Return,
}

impl Script {
    pub(super) fn new(kind: Option<Kind>, mut code: Vec<Insn>) -> Script {
        let driver = kind == Some(Kind::Driver);
        if code.is_empty() && driver {
            code.push(Insn::Pause(1));
        }
        if code.is_empty() {
            code.push(Insn::Begin);
        }
        code.push(if driver { Insn::Stop } else { Insn::End });
        let mut state = State::default();
        for insn in &code {
            if let Insn::Set { name, .. } | Insn::Init { name, .. } = insn {
                state.vars.insert(name.clone(), String::new());
            }
        }
        Script { kind, code, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kind(&self, cx: &Cx<'_>) -> Kind {
        match &self.kind {
            Some(kind) => kind.clone(),
            None if cx.ports() == (0, 0) => Kind::Active,
            None => Kind::Packet,
        }
    }

    /// Runs it for a packet; returns the output.
    pub(super) fn packet(&self, input: u32, cx: &mut Cx<'_>) -> Option<u32> {
        {
            let mut state = self.state();
            state.vars.insert("input".to_owned(), input.to_string());
            state.at = 0;
        }
        let mut errors = Vec::new();
        self.step(0, Cause::Step, 0, cx, &mut errors);
        self.report(&errors, cx);
        match self.ended() {
            Ended::End => Some(0),
            Ended::Return => functions::integer(self.value().trim()).and_then(|n| u32::try_from(n).ok()),
            _ => None,
        }
    }

    /// Goes on if its time has come.
    pub(super) fn run(&self, cx: &mut Cx<'_>) -> Ran {
        let now = cx.now();
        let due = self.state().timer.take_if(|t| *t <= now).is_some();
        if due {
            let mut errors = Vec::new();
            self.step(1, Cause::Step, 0, cx, &mut errors);
            self.report(&errors, cx);
        }
        self.state().timer.map_or(Ran::Idle, Ran::Until)
    }

    /// Reports what went wrong in a run that nobody waits for.
    pub(super) fn report(&self, errors: &[String], cx: &mut Cx<'_>) {
        if !errors.is_empty() {
            let text = format!("While executing '{} :: {}':", cx.name(), cx.class());
            cx.print(errors.iter().fold(text, |text, e| format!("{text}\n{}", indent(e))));
        }
    }

    /// The value of the last `return`.
    fn value(&self) -> String {
        self.state().vars.get("_").cloned().unwrap_or_default()
    }

    pub(super) fn ended(&self) -> Ended {
        match self.code.get(self.state().at) {
            Some(Insn::End | Insn::Goto { target: Target::End, .. }) => Ended::End,
            Some(Insn::Exit | Insn::Goto { target: Target::Exit, .. }) => Ended::Exit,
            Some(Insn::Stop | Insn::Goto { target: Target::Stop, .. }) => Ended::Stop,
            Some(Insn::Error { .. } | Insn::Goto { target: Target::Error, .. }) => Ended::Error,
            Some(Insn::Return { .. }) => Ended::Return,
            _ => Ended::No,
        }
    }

    /// Goes past so many waiting instructions, up to the next one. Returns the number of jumps so far; whether the
    /// driver goes on is reported by [`ended`](Script::ended).
    fn step(
        &self,
        steps: i64,
        cause: Cause,
        mut jumps: u32,
        cx: &mut Cx<'_>,
        errors: &mut Vec<String>,
    ) -> u32 {
        let mut left = steps;
        while left >= 0 && jumps < MAX_JUMPS {
            let (at, insn) = {
                let mut state = self.state();
                let at = state.at;
                let Some(insn) = self.code.get(at) else { return jumps + 1 };
                // Before it is carried out, since it may call this script's `goto`.
                state.at += 1;
                (at, insn)
            };
            match insn {
                Insn::Stop => {
                    self.state().at = at;
                    if cause != Cause::Driver {
                        cx.env().ask_stop();
                    }
                    return jumps + 1;
                }
                Insn::Begin => {
                    if std::mem::take(&mut self.state().begin) {
                        left -= 1;
                    }
                }
                Insn::Pause(n) => {
                    let mut state = self.state();
                    let had = state.paused.entry(at).or_default();
                    let taken = left.min(i64::from(n - *had));
                    *had += taken as u32;
                    left -= taken;
                    if left == 0 && *had < *n {
                        state.at = at;
                        return jumps + 1;
                    }
                }
                Insn::Wait(text) => {
                    if left == 0 {
                        self.wait(at, text, cx, errors);
                        return jumps + 1;
                    }
                    left -= 1;
                    self.state().timer = None;
                }
                Insn::Goto { target, condition } => {
                    let condition = self.expand(condition, false, cx, errors);
                    let go = match condition.trim() {
                        "" => true,
                        text => bool::from_arg(text).unwrap_or_else(|_| {
                            errors.push(format!("bad condition '{text}'"));
                            false
                        }),
                    };
                    match target {
                        _ if !go => {}
                        Target::At(to) => self.jump(*to, at),
                        Target::Stop => {
                            self.state().at = at;
                            if cause != Cause::Driver {
                                cx.env().ask_stop();
                            }
                            return jumps + 1;
                        }
                        _ => {
                            self.state().at = at;
                            return jumps + 1;
                        }
                    }
                }
                Insn::Return { text, unquote } => {
                    let value = self.value_of(text, *unquote, cx, errors);
                    let mut state = self.state();
                    state.vars.insert("_".to_owned(), value);
                    if state.at == at + 1 {
                        state.at = at;
                        return jumps + 1;
                    }
                }
                Insn::Error { text, unquote } => {
                    let text = self.value_of(text, *unquote, cx, errors);
                    if !text.is_empty() {
                        errors.push(text);
                    }
                    self.state().at = at;
                    return jumps + 1;
                }
                Insn::End | Insn::Exit => {
                    self.state().at = at;
                    return jumps + 1;
                }
                other => self.act(other, cx, errors),
            }
            if self.state().at != at + 1 {
                jumps += 1;
            }
        }
        if jumps >= MAX_JUMPS {
            let text = format!("{} :: {}: too many jumps, giving up", cx.name(), cx.class());
            cx.print(text);
            let mut state = self.state();
            state.at = self.code.len();
            state.timer = None;
        }
        jumps + 1
    }

    pub(super) fn wait(&self, at: usize, text: &str, cx: &mut Cx<'_>, errors: &mut Vec<String>) {
        let time = self.expand(text, false, cx, errors);
        match Duration::from_arg(&time) {
            Ok(time) => {
                let mut state = self.state();
                let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                state.timer = Some(cx.now().saturating_add(nanos));
                state.at = at;
            }
            Err(e) => errors.push(format!("syntax error at 'wait': {e}")),
        }
    }

    /// Goes to an instruction; pauses between are anew.
    pub(super) fn jump(&self, to: usize, from: usize) {
        let mut state = self.state();
        state.paused.retain(|i, _| !(to..from).contains(i));
        state.at = to;
    }

    /// Carries out an instruction after which the next one follows.
    fn act(&self, insn: &Insn, cx: &mut Cx<'_>, errors: &mut Vec<String>) {
        match insn {
            Insn::Set { name, text, unquote } => {
                let value = self.value_of(text, *unquote, cx, errors);
                self.state().vars.insert(name.clone(), value);
            }
            Insn::Print { text, unquote, newline } => self.print(text, *unquote, *newline, cx, errors),
            Insn::Read { call, unquote } => {
                let (name, arg) = self.call_text(call, *unquote, cx, errors);
                if let Some(value) = cx.read_handler((&name, &arg), errors) {
                    let name = cx.handler_name(&name);
                    cx.print(format!("{name}:\n{value}\n"));
                }
            }
            Insn::Write { call, unquote } => {
                let (name, value) = self.call_text(call, *unquote, cx, errors);
                let done = cx.write_handler((&name, &value), errors);
                self.state().status = if done { 0 } else { -1 };
            }
            _ => {}
        }
    }

    fn print(&self, text: &str, unquote: bool, newline: bool, cx: &mut Cx<'_>, errors: &mut Vec<String>) {
        let (mut text, mut file) = (text, None);
        if let Some(rest) = text.strip_prefix('>') {
            let (append, rest) = match rest.strip_prefix('>') {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            let (name, after) = first_word(rest).unwrap_or_default();
            text = after;
            file = (name != "-").then(|| (unquoted(name), append));
        }
        let is_handler = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@' || c == '_');
        let mut value = if is_handler {
            let (name, arg) = self.call_text(text, unquote, cx, errors);
            match cx.read_handler((&name, &arg), errors) {
                Some(value) => value,
                None => return,
            }
        } else {
            unquoted(&self.expand(text, true, cx, errors))
        };
        if newline && !value.ends_with('\n') {
            value.push('\n');
        }
        let written = match &file {
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(value.as_bytes()).and_then(|()| out.flush())
            }
            Some((name, append)) => std::fs::OpenOptions::new()
                .create(true)
                .write(true)
                .append(*append)
                .truncate(!*append)
                .open(name)
                .and_then(|mut f| f.write_all(value.as_bytes())),
        };
        if let Err(e) = written {
            errors.push(format!("{}: {e}", file.map_or("standard output".to_owned(), |(name, _)| name)));
        }
    }

    /// Name and parameter of a handler call, with its references replaced.
    fn call_text(
        &self,
        text: &str,
        unquote: bool,
        cx: &mut Cx<'_>,
        errors: &mut Vec<String>,
    ) -> (String, String) {
        let call = self.expand(text, false, cx, errors);
        let (name, arg) = first_word(&call).unwrap_or_default();
        (name.to_owned(), if unquote { unquoted(arg) } else { arg.to_owned() })
    }

    pub(super) fn value_of(
        &self,
        text: &str,
        unquote: bool,
        cx: &mut Cx<'_>,
        errors: &mut Vec<String>,
    ) -> String {
        let value = self.expand(text, false, cx, errors);
        if unquote { unquoted(&value) } else { value }
    }

    fn expand(&self, text: &str, quoted: bool, cx: &mut Cx<'_>, errors: &mut Vec<String>) -> String {
        expand(text, quoted, &mut |reference| match reference {
            Reference::Handler(call) => cx.read_handler(first_word(call).unwrap_or_default(), errors),
            Reference::Variable(name) => self.variable(name),
        })
    }

    fn variable(&self, name: &str) -> Option<String> {
        let state = self.state();
        if let Some(value) = state.vars.get(name) {
            return Some(value.clone());
        }
        let words = || weir_click::split_words(&state.call.args);
        match name {
            "?" => Some(state.status.to_string()),
            "args" => Some(state.call.args.clone()),
            "$" => Some(std::process::id().to_string()),
            "0" => Some(state.call.handler.clone()),
            "#" => Some(words().len().to_string()),
            "write" => Some(state.call.write.to_string()),
            n if n.starts_with(|c: char| c.is_ascii_digit()) => {
                let n: usize = n.parse().ok()?;
                Some(words().get(n.checked_sub(1)?).cloned().unwrap_or_default())
            }
            _ => None,
        }
    }

    /// The handlers that make it go on. `steps` is how many waits they pass.
    pub(super) fn go(&self, steps: i64, cause: Cause, cx: &mut Cx<'_>) -> Result<String, String> {
        let mut errors = Vec::new();
        let mine = {
            let mut state = self.state();
            match &mut state.running {
                Some(more) => {
                    *more += steps;
                    false
                }
                none => {
                    *none = Some(steps);
                    true
                }
            }
        };
        if mine {
            let mut jumps = 0;
            loop {
                let steps = self.state().running.replace(-1).unwrap_or(-1);
                if steps < 0 {
                    break;
                }
                jumps = self.step(steps, cause, jumps, cx, &mut errors);
            }
            self.state().running = None;
        }
        let ended = self.ended();
        let failed = !errors.is_empty() || ended == Ended::Error;
        {
            // A script that waits still knows the arguments when it goes on.
            let mut state = self.state();
            let args = if failed { String::new() } else { std::mem::take(&mut state.call.args) };
            state.call = Call { args, ..Call::default() };
        }
        if failed {
            return Err(errors.join("\n"));
        }
        Ok(if ended == Ended::Return { self.value() } else { String::new() })
    }

    pub(super) fn start_run(&self, handler: &str, args: &str, write: bool) {
        let mut state = self.state();
        state.at = 0;
        state.call = Call { handler: handler.to_owned(), args: args.to_owned(), write };
    }

    pub(super) fn proxy(&self) -> bool {
        self.kind == Some(Kind::Proxy)
    }

    pub(super) fn exports(&self, name: &str) -> bool {
        self.code.iter().any(|i| matches!(i, Insn::Init { name: n, export: true, .. } if n == name))
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|l| format!("  {l}")).collect::<Vec<_>>().join("\n")
}

//! The handlers of scripts, and what makes them begin.

use weir_click::first_word;

use super::functions;
use super::machine::{Cause, Ended, Script};
use super::parse::{Insn, Kind, Target, place};
use crate::node::{Control, Cx, Modes};

impl Control for Script {
    fn modes(&self, handler: &str) -> Option<Modes> {
        Some(match handler {
            "step" | "goto" | "set" => Modes::WRITE,
            "run" => Modes { write: true, ..Modes::FUNCTION },
            "cat" | "catq" | "kill" => Modes { private: true, ..Modes::FUNCTION },
            "now" => Modes::READ,
            "get" | "shift" | "readable" | "writable" => Modes::FUNCTION,
            name if functions::NAMES.contains(&name) => Modes::FUNCTION,
            name if self.exports(name) => Modes::READ,
            _ if self.proxy() => Modes { write: true, ..Modes::FUNCTION },
            _ => return None,
        })
    }

    fn more_handlers(&self) -> Vec<String> {
        let exported = self.code.iter().filter_map(|i| match i {
            Insn::Init { name, export: true, .. } => Some(name.clone()),
            _ => None,
        });
        exported.collect()
    }

    fn read(&self, handler: &str, arg: &str, cx: &mut Cx<'_>) -> Result<String, String> {
        match handler {
            "run" => {
                self.start_run(handler, arg, false);
                self.go(0, Cause::Step, cx)
            }
            "get" | "shift" => {
                let words = weir_click::split_words(arg);
                let name = match &words[..] {
                    [name] => name.as_str(),
                    [] if handler == "shift" => "args",
                    [] => return Err("no variable".to_owned()),
                    _ => return Err("too many arguments".to_owned()),
                };
                let mut guard = self.state();
                let state = &mut *guard;
                let value = match state.vars.get_mut(name) {
                    Some(value) => value,
                    None if name == "args" => &mut state.call.args,
                    None => return Err(format!("undefined variable '{name}'")),
                };
                if handler == "get" {
                    return Ok(value.clone());
                }
                let (first, rest) = first_word(value).unwrap_or_default();
                let (first, rest) = (first.to_owned(), rest.to_owned());
                *value = rest;
                Ok(first)
            }
            "now" => {
                cx.env().tick();
                let now = cx.now();
                Ok(format!("{}.{:09}", now / 1_000_000_000, now % 1_000_000_000))
            }
            "readable" | "writable" => {
                let can = |name: &String| {
                    let modes = cx.handler_modes(name);
                    modes.is_some_and(|m| if handler == "readable" { m.read } else { m.write })
                };
                Ok(weir_click::split_words(arg).iter().all(can).to_string())
            }
            name if functions::NAMES.contains(&name) => functions::call(name, arg, &mut || cx.env().random()),
            name if self.exports(name) => Ok(self.state().vars.get(name).cloned().unwrap_or_default()),
            name => {
                self.start_run(name, arg, false);
                self.go(0, Cause::Step, cx)
            }
        }
    }

    fn write(&self, handler: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), String> {
        let data = weir_click::uncomment(value);
        match handler {
            "set" => {
                let (name, value) = first_word(value).ok_or("no variable")?;
                self.state().vars.insert(name.to_owned(), value.to_owned());
                return Ok(());
            }
            "goto" => {
                let labels: Vec<(String, usize)> = (self.code.iter().enumerate())
                    .filter_map(|(i, insn)| match insn {
                        Insn::Label(name) => Some((name.clone(), i)),
                        _ => None,
                    })
                    .collect();
                let Some(Target::At(to)) = place(&data, &labels) else {
                    return Err(format!("jump to nonexistent label '{data}'"));
                };
                self.jump(to, self.code.len());
                return self.go(0, Cause::Step, cx).map(drop);
            }
            "step" => {
                let steps = match data.as_str() {
                    "" => 1,
                    text => functions::integer(text).filter(|n| *n >= 0).ok_or("syntax error")?,
                };
                return self.go(steps, Cause::Step, cx).map(drop);
            }
            _ => {}
        }
        self.start_run(handler, value, true);
        self.go(0, Cause::Step, cx).map(drop)
    }

    fn start(&self, cx: &mut Cx<'_>) {
        let kind = self.kind(cx);
        let mut errors = Vec::new();
        for insn in &self.code {
            if let Insn::Init { name, text, unquote, .. } = insn {
                let value = self.value_of(text, *unquote, cx, &mut errors);
                self.state().vars.insert(name.clone(), value);
            }
        }
        match (&kind, self.code.first()) {
            (Kind::Signal(_), _) => self.state().armed = true,
            (Kind::Passive | Kind::Packet | Kind::Proxy, _) => {}
            (_, Some(Insn::Wait(text))) => self.wait(0, text, cx, &mut errors),
            (_, Some(Insn::Begin)) => {
                self.state().begin = true;
                match kind {
                    Kind::Driver => cx.env().ask_stop(),
                    _ => self.state().timer = Some(cx.now()),
                }
            }
            _ => {}
        }
        self.report(&errors, cx);
    }

    fn is_driver(&self) -> bool {
        self.kind == Some(Kind::Driver)
    }

    fn stop_asked(&self, cx: &mut Cx<'_>) -> bool {
        if let Err(e) = self.go(1, Cause::Driver, cx) {
            cx.print(e);
        }
        self.ended() == Ended::No && self.state().at < self.code.len()
    }

    fn signals(&self) -> Vec<i32> {
        match &self.kind {
            Some(Kind::Signal(list)) if self.state().armed => list.clone(),
            _ => Vec::new(),
        }
    }

    fn signal(&self, _signal: i32, cx: &mut Cx<'_>) {
        self.state().armed = false;
        self.start_run("run", "", true);
        if let Err(e) = self.go(0, Cause::Step, cx) {
            self.report(&[e], cx);
        }
        if self.ended() == Ended::End {
            self.state().armed = true;
        }
    }
}

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_elements::FromArg;

use crate::env::sockets::{Call, Reply, Request, Server, Where};
use crate::node::{Control, Modes};
use crate::prelude::*;

engine_node! {
    /// Lets other programs call handlers, over TCP or a Unix socket, with Click's line protocol (version 1.3).
    ///
    /// A client sends lines: `READ HANDLER [ARGS]`, `WRITE HANDLER [ARGS]`, `READDATA` and `WRITEDATA HANDLER N` with N
    /// bytes behind the line, `READUNTIL` and `WRITEUNTIL HANDLER [END]` with lines up to END (or an empty one),
    /// `CHECKREAD` and `CHECKWRITE HANDLER`, `HELP`, `QUIT`. Answers begin with a code, as `200`, and values come
    /// after a line `DATA N`. `LLRPC` is answered with `501`: there are none. Handlers are `element.handler`, or those of the
    /// graph. At most 64 clients are served at a time; one that is slow delays no other.
    ///
    /// A hot swap keeps the socket and its clients if the first two arguments stay as they are.
    ControlSocket: "0/0", "h/h", Sink, Sockets;
    example "ControlSocket(UNIX, /tmp/weir-example.sock); Idle -> Discard;";
    params {
        /// `TCP` or `UNIX`.
        pos r#type: Where = Where::Tcp => "TCP",
        /// TCP port (`41900+`: that one or the next that is free), or name of the Unix socket.
        pos address: String,
        /// Whether write handlers are refused.
        key readonly: bool = false,
        /// Name that is put before that of every element.
        key proxy: String = String::new(),
        /// Whether to report clients that come and go.
        key verbose: bool = false,
        /// Whether only clients of the same host are served.
        key localhost: bool = false,
        /// Accepted for Click's sake: a socket that cannot be opened is an error.
        key retries: u32 = 0,
        /// Accepted for Click's sake.
        key retry_warnings: bool = true,
    }
    handlers {
        /// The TCP port.
        read port = |s, _| s.state.server.as_ref().and_then(|s| s.port()).map(|p| p.to_string())
            .ok_or_else(|| "there is no TCP port".to_owned()),
        /// Name of the Unix socket.
        read filename = |s, _| match s.r#type {
            Where::Unix => Ok(s.address.clone()),
            Where::Tcp => Err("there is no file".to_owned()),
        },
    }
    state Open;
}

#[derive(Default)]
struct Open {
    server: Option<Arc<Server>>,
}

impl FromArg for Where {
    const SYNTAX: &'static str = "TCP or UNIX";
    fn from_arg(text: &str) -> Result<Where, String> {
        match text.to_ascii_uppercase().as_str() {
            "TCP" => Ok(Where::Tcp),
            "UNIX" => Ok(Where::Unix),
            _ => Err(format!("'{text}' is not a kind of socket: write TCP or UNIX")),
        }
    }
}

impl Behavior for ControlSocket {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        let address = weir_click::unquote_text(&self.address).unwrap_or_default();
        let waker = env.devices.waker();
        self.state.server = Some(env.sockets.open(self.r#type, &address, self.localhost, waker)?);
        Ok(())
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        let server = self.state.server.clone()?;
        Some(Arc::new(Serving {
            server,
            readonly: self.readonly,
            verbose: self.verbose,
            proxy: self.proxy.clone(),
        }))
    }
}

/// Answers what clients ask.
struct Serving {
    server: Arc<Server>,
    readonly: bool,
    verbose: bool,
    proxy: String,
}

impl Serving {
    fn answer(&self, call: &Call, cx: &mut Cx<'_>) -> Reply {
        let (name, writes) = match call {
            Call::Read(name, _) | Call::CheckRead(name) => (name, false),
            Call::Write(name, _) | Call::CheckWrite(name) => (name, true),
        };
        let full = if self.proxy.is_empty() { name.clone() } else { format!("{}.{name}", self.proxy) };
        // Elements may be named by number, from 1 on.
        let full = cx.numbered(&full);
        // A name alone is a handler of the graph, not of this element.
        let full = if full.contains('.') { full } else { format!(".{full}") };
        let modes = match cx.graph_handler_modes(&full) {
            Ok(modes) => modes.filter(|m| !m.private),
            Err(_) => {
                let element = name.split_once('.').map_or("", |(e, _)| e);
                return Reply::new(510, format!("No element named '{element}'"));
            }
        };
        let kind = if writes { "Write" } else { "Read" };
        let Some(modes) = modes else { return Reply::new(511, format!("No handler named '{name}'")) };
        let fits = if writes { modes.write } else { modes.read };
        if let Call::CheckRead(_) | Call::CheckWrite(_) = call {
            return match fits {
                true if writes && self.readonly => Reply::new(530, format!("Permission denied for '{name}'")),
                true => Reply::new(200, format!("{kind} handler '{name}' OK")),
                false => Reply::new(
                    511,
                    format!("Handler '{name}' not {}", if writes { "writable" } else { "readable" }),
                ),
            };
        }
        if !fits {
            return Reply::new(
                530,
                format!("Handler '{name}' {}", if writes { "read-only" } else { "write-only" }),
            );
        }
        if writes && self.readonly {
            return Reply::new(530, format!("Permission denied for '{name}'"));
        }
        let mut errors = Vec::new();
        let value = match call {
            Call::Read(_, arg) => cx.read_handler((&full, arg), &mut errors),
            Call::Write(_, value) => cx.write_handler((&full, value), &mut errors).then(String::new),
            _ => None,
        };
        match value {
            Some(value) => {
                let reply = Reply::new(200, format!("{kind} handler '{name}' OK"));
                if writes { reply } else { reply.with(value) }
            }
            None => {
                let mut reply = Reply::new(520, format!("{kind} handler '{name}' error:"));
                let lines = errors.iter().flat_map(|e| e.lines()).filter(|l| !l.starts_with("While calling"));
                reply.more.extend(lines.map(|l| l.trim().to_owned()));
                reply
            }
        }
    }
}

impl Control for Serving {
    fn modes(&self, _handler: &str) -> Option<Modes> {
        None
    }

    fn read(&self, handler: &str, _arg: &str, _cx: &mut Cx<'_>) -> Result<String, String> {
        Err(format!("no read handler '{handler}'"))
    }

    fn write(&self, handler: &str, _value: &str, _cx: &mut Cx<'_>) -> Result<(), String> {
        Err(format!("no write handler '{handler}'"))
    }

    fn listens(&self) -> bool {
        true
    }

    fn asked(&self) -> bool {
        self.server.waiting.load(Ordering::Acquire) > 0
    }

    fn serve(&self, cx: &mut Cx<'_>) {
        // Packets have their turn before what comes meanwhile: who asks again at each answer does not hold them up.
        for _ in 0..self.server.waiting.load(Ordering::Acquire) {
            // What follows the handler `hotconfig` asks the graph that takes this one's place.
            if cx.swap_waits() {
                break;
            }
            let Some(request) = self.server.next() else { break };
            match request {
                Request::Call { call, reply } => {
                    // A client that is gone wants no answer.
                    let _ = reply.send(self.answer(&call, cx));
                }
                Request::Report(text) if self.verbose => {
                    let text = format!("{}: {text}", cx.name());
                    cx.print(text);
                }
                Request::Report(_) => {}
            }
        }
    }
}

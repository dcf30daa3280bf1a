//! A data plane that remembers what it is told, and speaks the protocol. Configurations are parsed with the real
//! engine's classes.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use weir_protocol::*;

/// What names of LSI-0 begin with.
pub const LSI0: &str = "node:lsi0:";

/// The data plane's state.
#[derive(Debug, Default)]
pub struct Fake {
    pub pid: u32,
    /// Configuration and tag by name.
    pub graphs: BTreeMap<String, (String, String)>,
    /// Commands that changed something.
    pub changes: Vec<String>,
    /// Access points: interface and VLAN, and the links to and from the graph.
    pub points: BTreeMap<(String, String), (String, String)>,
    /// Handler writes that were made.
    pub writes: Vec<(String, String)>,
    /// Interfaces at which functions are met, if these are known.
    ports: Option<BTreeSet<String>>,
    /// Moments in which LSI-0 sent to a graph, or a graph to a function's port, that was not there.
    pub violations: Vec<String>,
    /// Open connections.
    connections: Vec<UnixStream>,
}

impl Fake {
    pub fn handle(&mut self, command: Command) -> Result<Answer, Vec<String>> {
        let missing = |graph: &str| vec![format!("there is no graph {graph}")];
        match command {
            Command::Hello => Ok(Answer::Hello { version: VERSION, pid: self.pid, started: 5 }),
            Command::Load { graph, config, tag, file, .. } => {
                check(&file, &config)?;
                self.changes.push(format!("load {graph}"));
                self.graphs.insert(graph, (config, tag));
                self.watch();
                Ok(Answer::Nothing)
            }
            Command::Unload { graph } => {
                self.graphs.remove(&graph).ok_or_else(|| missing(&graph))?;
                if let Some(interface) = graph.strip_prefix(LSI0) {
                    self.points.retain(|(i, _), _| i != interface);
                }
                self.changes.push(format!("unload {graph}"));
                self.watch();
                Ok(Answer::Nothing)
            }
            Command::List => {
                Ok(Answer::Graphs { graphs: self.graphs.keys().map(|n| self.info(n)).collect() })
            }
            Command::Status { graph } => {
                let (config, _) = self.graphs.get(&graph).ok_or_else(|| missing(&graph))?;
                let elements = elements(config);
                let inside = elements.iter().find(|(n, _)| n.contains('/')).map(|(n, _)| n.clone());
                let drops = inside.map(|n| (n, BTreeMap::from([("Denied".to_owned(), 3)])));
                Ok(Answer::Status {
                    status: GraphStatus {
                        info: self.info(&graph),
                        devices: self.device(&graph).into_iter().collect(),
                        drops: drops.into_iter().collect(),
                        elements,
                        tables: BTreeMap::from([("sf_fw/filter.flows".to_owned(), 4)]),
                        flows: vec![FlowCache {
                            table: "sf_fw/filter.rules".into(),
                            entries: 4096,
                            hits: 9,
                            misses: 1,
                        }],
                        profile: vec![
                            ElementProfile { element: "lan".into(), packets: 10, cycles: 250 },
                            ElementProfile { element: "sf_fw/filter".into(), packets: 10, cycles: 750 },
                        ],
                    },
                })
            }
            Command::Read { graph, handler } => {
                self.graphs.get(&graph).ok_or_else(|| missing(&graph))?;
                if let Some(interface) = graph.strip_prefix(LSI0) {
                    let own = self.points.iter().filter(|((i, _), _)| i == interface);
                    let text = own.map(|((_, vlan), (to, from))| format!("{vlan} {to} {from}\n")).collect();
                    return Ok(Answer::Text { text });
                }
                Ok(Answer::Text { text: if handler.ends_with("byte_count") { "700" } else { "7" }.into() })
            }
            Command::Write { graph, handler, value } => {
                self.graphs.get(&graph).ok_or_else(|| missing(&graph))?;
                if let Some(interface) = graph.strip_prefix(LSI0) {
                    self.change(interface, &value)?;
                    self.changes.push(format!("write {graph}"));
                    self.watch();
                    return Ok(Answer::Nothing);
                }
                if value == "bad" {
                    return Err(vec![format!("{handler}: 'bad' is not a number")]);
                }
                self.changes.push(format!("write {graph}"));
                self.writes.push((handler, value));
                Ok(Answer::Nothing)
            }
            Command::Export { .. } => Ok(Answer::Text { text: "weir-state".into() }),
            Command::Trace { filter, .. } if filter == "nonsense" => Err(vec!["filter: nonsense".into()]),
            _ => Ok(Answer::Nothing),
        }
    }

    /// The process ends, and another takes its place.
    pub fn restart(&mut self) {
        self.graphs.clear();
        self.points.clear();
        self.pid += 1;
        for stream in self.connections.drain(..) {
            _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn info(&self, name: &str) -> GraphInfo {
        let tag = self.graphs.get(name).map(|(_, tag)| tag.clone()).unwrap_or_default();
        let trouble = self.device(name).filter(|d| d.state != "up").map_or(String::new(), |d| d.state);
        GraphInfo { name: name.into(), tag, elements: 1, swaps: 0, engine: "interpreter".into(), trouble }
    }

    /// The device of an LSI-0. Interfaces whose names begin with `missing` are not there.
    fn device(&self, name: &str) -> Option<DeviceStatus> {
        let interface = name.strip_prefix(LSI0)?;
        let gone = interface.starts_with("missing");
        Some(DeviceStatus {
            name: interface.into(),
            state: if gone { format!("there is no interface {interface}") } else { "up".into() },
            method: if gone { "" } else { "memory" }.into(),
            rx_packets: 0,
            rx_bytes: 0,
            rx_dropped: 0,
            tx_packets: 0,
            tx_bytes: 0,
            tx_dropped: 0,
            direct: None,
        })
    }

    /// Changes access points, all or none.
    fn change(&mut self, interface: &str, text: &str) -> Result<(), Vec<String>> {
        let mut next = self.points.clone();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = |vlan: &str| (interface.to_owned(), vlan.to_owned());
            match words[..] {
                ["-", vlan] => drop(next.remove(&at(vlan))),
                ["+", vlan, to, from] => {
                    if next.insert(at(vlan), (to.into(), from.into())).is_some() {
                        return Err(vec![format!("'{line}': there is such an access point already")]);
                    }
                }
                _ => return Err(vec![format!("'{line}'")]),
            }
        }
        self.points = next;
        Ok(())
    }

    /// Functions have these ports from now on.
    pub fn set_ports(&mut self, ports: BTreeSet<String>) {
        self.ports = Some(ports);
        self.watch();
    }

    /// Every graph that LSI-0 sends to must be there, and every port of a function that a graph sends to.
    fn watch(&mut self) {
        for (to, _) in self.points.values() {
            let graph = to.split('/').next().unwrap();
            if !self.graphs.contains_key(graph) {
                self.violations.push(format!("LSI-0 sends to {graph} after {:?}", self.changes.last()));
            }
        }
        let Some(ports) = &self.ports else { return };
        for (graph, (config, _)) in &self.graphs {
            let mut words = config.split(|c: char| !c.is_ascii_alphanumeric());
            if let Some(port) = words.find(|w| w.starts_with("wf") && !ports.contains(*w)) {
                self.violations.push(format!("{graph} sends to {port} after {:?}", self.changes.last()));
            }
        }
    }
}

fn elements(config: &str) -> Vec<(String, String)> {
    let classes = weir_plan::Classes::with(weir_switch::CLASSES.iter().copied());
    let graph = weir_click::parse("graph", config, &classes).unwrap();
    graph.elements.into_iter().map(|e| (e.name, e.class)).collect()
}

fn check(file: &str, config: &str) -> Result<(), Vec<String>> {
    let classes = weir_plan::Classes::with(weir_switch::CLASSES.iter().copied());
    let graph = weir_click::parse(file, config, &classes);
    graph.map(drop).map_err(|e| e.list.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Serves a fake on a socket, in threads that end with the test's process.
pub fn serve(socket: &Path, fake: Arc<Mutex<Fake>>) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, fake) = (stream.unwrap(), fake.clone());
            fake.lock().unwrap().connections.push(stream.try_clone().unwrap());
            std::thread::spawn(move || connection(stream, &fake));
        }
    });
}

fn connection(stream: UnixStream, fake: &Mutex<Fake>) {
    let mut out = stream.try_clone().unwrap();
    let mut send = |reply: &Reply| {
        let mut line = serde_json::to_vec(reply).unwrap();
        line.push(b'\n');
        _ = out.write_all(&line);
    };
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return };
        let request: Request = serde_json::from_str(&line).unwrap();
        let id = request.id;
        let command = request.command.clone();
        let shutdown = matches!(command, Command::Shutdown);
        match fake.lock().unwrap().handle(request.command) {
            Ok(answer) => send(&Reply::Done { id, answer }),
            Err(errors) => {
                send(&Reply::Failed { id, errors });
                continue;
            }
        }
        if shutdown {
            return;
        }
        match command {
            Command::Trace { count, .. } => {
                for i in 0..count {
                    let event = Event::Trace {
                        from: "sap_lan_in".into(),
                        bytes: "00".into(),
                        summary: format!("packet {i}"),
                        steps: vec![],
                    };
                    send(&Reply::Event { id, event });
                }
                send(&Reply::Event { id, event: Event::End });
            }
            Command::Capture { points, .. } => {
                for point in points {
                    let event = Event::Packet { time: 1, length: 60, bytes: "00".into(), point };
                    send(&Reply::Event { id, event });
                }
                send(&Reply::Event { id, event: Event::End });
            }
            Command::Subscribe => {
                let event =
                    Event::Notice { graph: None, what: "device-down".into(), text: "eth9 is gone".into() };
                send(&Reply::Event { id, event });
            }
            _ => {}
        }
    }
}

/// A document of two interfaces with a wire between them.
pub fn wire(id: &str, left: &str, right: &str) -> String {
    format!(
        "id: '{id}'
name: wire
saps:
  - {{id: l, type: interface, interface: {{if-name: {left}}}}}
  - {{id: r, type: interface, interface: {{if-name: {right}}}}}
flowrules:
  - {{id: a, priority: 1, match: {{port_in: 'sap:l'}}, actions: {{output_to_port: 'sap:r'}}}}
  - {{id: b, priority: 1, match: {{port_in: 'sap:r'}}, actions: {{output_to_port: 'sap:l'}}}}
"
    )
}

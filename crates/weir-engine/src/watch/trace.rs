//! Traces: the path of single packets and of what comes of them, through queues, links, graphs and functions that these do not run
//! themselves.

use std::collections::HashMap;

use weir_filter::Expr;
use weir_packet::Packet;
use weir_protocol::{Event, FunctionPort, TraceStep};

use super::away::{Away, Came, Followed, PATIENCE};
use super::changes::changes;
use super::{GraphElement, Listener, describe, hex, matches};

/// Most steps of one trace, so that a packet that goes round cannot make it grow without bound.
const MAX_STEPS: usize = 4096;
/// Most packets that are followed at a time.
const MAX_FOLLOWED: usize = 4096;

struct Request {
    key: u64,
    graph: String,
    filter: Expr,
    /// How many more packets to follow.
    left: u32,
    /// Traces in progress.
    open: u32,
    /// The ports of functions, by the elements of their devices.
    functions: HashMap<String, FunctionPort>,
    listener: Listener,
}

/// The path of one packet so far.
struct Trace {
    key: u64,
    deadline: u64,
    from: String,
    bytes: String,
    summary: String,
    steps: Vec<TraceStep>,
    /// Packets that have not ended.
    live: u32,
    /// Number of the next copy.
    next: u32,
}

/// A packet that is followed.
struct Follow {
    trace: u64,
    number: u32,
    /// The step it is in, and the packet as it was when it came there.
    step: Option<(usize, Packet)>,
}

/// All traces of an engine.
#[derive(Default)]
pub(crate) struct Traces {
    requests: Vec<Request>,
    traces: HashMap<u64, Trace>,
    /// By the mark that packets bear ([`weir_packet::Meta::trace`]).
    follows: HashMap<u16, Follow>,
    /// Packets in functions.
    away: Away,
    next_trace: u64,
    next_mark: u16,
}

impl Traces {
    pub fn active(&self) -> bool {
        !self.requests.is_empty()
    }

    pub fn concern(&self, graph: &str) -> bool {
        self.requests.iter().any(|r| r.graph == graph)
    }

    pub fn add(
        &mut self,
        key: u64,
        graph: &str,
        (filter, left): (Expr, u32),
        functions: Vec<FunctionPort>,
        mut listener: Listener,
    ) {
        if left == 0 {
            listener(Event::End);
            return;
        }
        let functions = functions.into_iter().map(|f| (f.element.clone(), f)).collect();
        self.requests.push(Request {
            key,
            graph: graph.to_owned(),
            filter,
            left,
            open: 0,
            functions,
            listener,
        });
    }

    /// Reports what is known so far, and ends.
    pub fn cancel(&mut self, key: u64) {
        let open: Vec<u64> = self.traces.iter().filter(|(_, t)| t.key == key).map(|(&id, _)| id).collect();
        open.into_iter().for_each(|id| self.report(id));
        self.requests.retain_mut(|r| {
            if r.key == key {
                (r.listener)(Event::End);
            }
            r.key != key
        });
        self.away.forget(key);
    }

    pub fn forget_graph(&mut self, graph: &str) {
        let keys: Vec<u64> = self.requests.iter().filter(|r| r.graph == graph).map(|r| r.key).collect();
        keys.into_iter().for_each(|key| self.cancel(key));
    }

    pub fn wake(&self) -> Option<u64> {
        self.traces.values().map(|t| t.deadline).min()
    }

    pub fn expire(&mut self, now: u64) {
        let mut due: Vec<u64> =
            self.traces.iter().filter(|(_, t)| t.deadline <= now).map(|(&id, _)| id).collect();
        due.sort_unstable();
        due.into_iter().for_each(|id| self.report(id));
    }

    /// A packet comes from outside: follows it if someone wants to know.
    pub fn consider(&mut self, place: &GraphElement, packet: &mut Packet, now: u64) {
        if self.comes_from_function(place, packet, now) {
            return;
        }
        let wanted = |r: &&mut Request| r.graph == place.graph && r.left > 0 && matches(&r.filter, packet);
        let Some(request) = self.requests.iter_mut().find(wanted) else { return };
        request.left -= 1;
        request.open += 1;
        let key = request.key;
        self.next_trace += 1;
        let trace = Trace {
            key,
            deadline: now.saturating_add(PATIENCE),
            from: place.element.clone(),
            bytes: hex(packet.bytes()),
            summary: describe(packet),
            steps: Vec::new(),
            live: 0,
            next: 0,
        };
        self.traces.insert(self.next_trace, trace);
        packet.trace = self.follow(self.next_trace);
    }

    /// A mark for another packet of a trace; 0 if there are too many.
    fn follow(&mut self, id: u64) -> u16 {
        let Some(trace) = self.traces.get_mut(&id) else { return 0 };
        if self.follows.len() >= MAX_FOLLOWED {
            return 0;
        }
        let number = trace.next;
        trace.next += 1;
        trace.live += 1;
        self.mark(id, number)
    }

    /// A mark for a packet of a trace, of which there are not too many.
    fn mark(&mut self, trace: u64, number: u32) -> u16 {
        loop {
            self.next_mark = self.next_mark.wrapping_add(1);
            if self.next_mark != 0 && !self.follows.contains_key(&self.next_mark) {
                break;
            }
        }
        self.follows.insert(self.next_mark, Follow { trace, number, step: None });
        self.next_mark
    }

    /// A packet goes out by a device; behind it may be a function.
    pub fn goes_to_function(&mut self, place: &GraphElement, packet: &Packet, now: u64) {
        for request in self.requests.iter().filter(|r| r.graph == place.graph) {
            let Some(port) = request.functions.get(&place.element) else { continue };
            let follow = self.follows.get(&packet.trace);
            let trace = follow.and_then(|f| Some((f, self.traces.get_mut(&f.trace)?)));
            let followed =
                trace.filter(|(_, t)| t.key == request.key && t.steps.len() < MAX_STEPS).map(|(f, t)| {
                    t.steps.push(TraceStep { bytes: hex(packet.bytes()), ..step_in(place, port, f.number) });
                    t.live += 1;
                    Followed { trace: f.trace, number: f.number, step: t.steps.len() - 1 }
                });
            self.away.goes(request.key, &port.function, packet, followed, now);
        }
    }

    /// A packet comes in, perhaps from a function: says whether it is known from when it went in. It is followed then, if that one
    /// was.
    fn comes_from_function(&mut self, place: &GraphElement, packet: &mut Packet, now: u64) -> bool {
        for i in 0..self.requests.len() {
            let request = &self.requests[i];
            let Some(port) = request.functions.get(&place.element) else { continue };
            if request.graph != place.graph {
                continue;
            }
            let came = self.away.comes(request.key, &port.function, packet, now);
            let port = port.clone();
            let (from, why) = match came {
                Came::Unknown => continue,
                Came::Other => return true,
                Came::Same(f) => {
                    let step = self.traces.get_mut(&f.trace).and_then(|t| t.steps.get_mut(f.step));
                    step.into_iter().for_each(|s| s.changes.push(format!("came out by {}", port.port)));
                    packet.trace = self.mark(f.trace, f.number);
                    return true;
                }
                Came::Changed(f) => (f, "came out of it; whether it is the one that went in is not known"),
                Came::Alike(f) => (f, "came out of it; which of several that look the same is not known"),
            };
            packet.trace = self.follow(from.trace);
            let number = self.follows.get(&packet.trace).map(|f| f.number);
            if let (Some(number), Some(t)) = (number, self.traces.get_mut(&from.trace)) {
                t.steps.push(TraceStep { changes: vec![why.to_owned()], ..step_in(place, &port, number) });
            }
            return true;
        }
        false
    }

    /// A copy of a followed packet, or an answer to it, starts: the mark for it.
    pub fn fork(&mut self, mark: u16) -> u16 {
        match self.follows.get(&mark) {
            Some(f) => self.follow(f.trace),
            None => 0,
        }
    }

    /// A followed packet enters an element.
    pub fn enters(&mut self, place: &GraphElement, port: u32, packet: &Packet) {
        self.enters_as(packet.trace, place, port, Some(packet));
    }

    pub fn enters_as(&mut self, mark: u16, place: &GraphElement, port: u32, packet: Option<&Packet>) {
        self.close_step(mark, packet, None);
        let Some(f) = self.follows.get_mut(&mark) else { return };
        let (Some(t), Some(packet)) = (self.traces.get_mut(&f.trace), packet) else { return };
        if t.steps.len() >= MAX_STEPS {
            return;
        }
        t.steps.push(TraceStep {
            packet: f.number,
            graph: place.graph.clone(),
            element: place.element.clone(),
            class: place.class.clone(),
            port,
            changes: Vec::new(),
            end: None,
            bytes: String::new(),
        });
        f.step = Some((t.steps.len() - 1, packet.copy()));
    }

    /// Notes what the element changed in which a followed packet is, and how its path ended there.
    fn close_step(&mut self, mark: u16, packet: Option<&Packet>, end: Option<&str>) {
        let Some(f) = self.follows.get_mut(&mark) else { return };
        let Some(t) = self.traces.get_mut(&f.trace) else { return };
        let Some((i, before)) = &f.step else { return };
        let step = &mut t.steps[*i];
        if let Some(packet) = packet {
            step.changes = changes(&step.class, before, packet);
        }
        if let Some(end) = end {
            step.end = Some(end.to_owned());
        } else {
            f.step = None;
        }
    }

    /// A followed packet ends.
    pub fn ended(&mut self, mark: u16, packet: Option<&Packet>, path: &str) {
        self.close_step(mark, packet, Some(path));
        let Some(f) = self.follows.remove(&mark) else { return };
        let Some(t) = self.traces.get_mut(&f.trace) else { return };
        t.live -= 1;
        if path.starts_with("dropped")
            && let Some(step) = self.away.stays(f.trace, f.number)
        {
            t.steps.get_mut(step).into_iter().for_each(|s| s.end = Some("was not given it".to_owned()));
            t.live -= 1;
        }
        if t.live == 0 {
            self.report(f.trace);
        }
    }

    /// A followed packet rests; it may go on later.
    pub fn waits(&mut self, mark: u16, packet: Option<&Packet>, path: &str) {
        self.close_step(mark, packet, Some(path));
    }

    fn report(&mut self, id: u64) {
        let Some(mut t) = self.traces.remove(&id) else { return };
        for (step, alike) in self.away.end(id) {
            let end = if alike {
                "whether it came out is not known: others look the same"
            } else {
                "did not come out as it went in"
            };
            t.steps.get_mut(step).into_iter().for_each(|s| s.end = Some(end.to_owned()));
        }
        self.follows.retain(|_, f| f.trace != id);
        let Some(i) = self.requests.iter().position(|r| r.key == t.key) else { return };
        let r = &mut self.requests[i];
        r.open -= 1;
        let event = Event::Trace { from: t.from, bytes: t.bytes, summary: t.summary, steps: t.steps };
        let heard = (r.listener)(event);
        let over = r.left == 0 && r.open == 0;
        if over {
            (r.listener)(Event::End);
        }
        if !heard || over {
            self.requests.remove(i);
        }
    }
}

/// A step in a function that the graph does not run itself.
fn step_in(place: &GraphElement, port: &FunctionPort, packet: u32) -> TraceStep {
    TraceStep {
        packet,
        graph: place.graph.clone(),
        element: port.port.clone(),
        class: port.kind.clone(),
        port: 0,
        changes: Vec::new(),
        end: None,
        bytes: String::new(),
    }
}

//! Traces: the path of single packets and of what comes of them, through queues, links and graphs.

use std::collections::HashMap;

use weir_filter::Expr;
use weir_packet::Packet;
use weir_protocol::{Event, TraceStep};

use super::changes::changes;
use super::{GraphElement, Listener, describe, hex, matches};

/// How long a trace waits for its packets to end, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;
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
    /// Traces under way.
    open: u32,
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

    pub fn add(&mut self, key: u64, graph: &str, filter: Expr, count: u32, mut listener: Listener) {
        if count == 0 {
            listener(Event::End);
            return;
        }
        self.requests.push(Request { key, graph: graph.to_owned(), filter, left: count, open: 0, listener });
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
        loop {
            self.next_mark = self.next_mark.wrapping_add(1);
            if self.next_mark != 0 && !self.follows.contains_key(&self.next_mark) {
                break;
            }
        }
        self.follows.insert(self.next_mark, Follow { trace: id, number: trace.next, step: None });
        trace.next += 1;
        trace.live += 1;
        self.next_mark
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
        if t.live == 0 {
            self.report(f.trace);
        }
    }

    /// A followed packet rests; it may go on later.
    pub fn waits(&mut self, mark: u16, packet: Option<&Packet>, path: &str) {
        self.close_step(mark, packet, Some(path));
    }

    fn report(&mut self, id: u64) {
        let Some(t) = self.traces.remove(&id) else { return };
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

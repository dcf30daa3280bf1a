//! Who watches packets: traces (the path of single packets) and captures (copies of what passes a place).

mod away;
mod changes;
mod shared;
mod trace;

use weir_filter::{Expr, PacketView};
use weir_packet::{Layer, Packet};

use trace::Traces;
use weir_protocol::{Event, FunctionPort};

pub(crate) use shared::SharedWatch;

/// Takes events; `false` if nobody listens any more.
pub type Listener = Box<dyn FnMut(Event) -> bool + Send>;

/// An element of a graph, by name, for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GraphElement {
    pub graph: String,
    pub element: String,
    pub class: String,
}

/// A place on the path of packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Point {
    /// Every device.
    Devices,
    /// Into an element, by any input or by one.
    Input(String, Option<u32>),
    /// Out of an element, by an output.
    Output(String, u32),
}

impl Point {
    /// Reads `element`, `element[port]` or `[port]element`; empty: every device.
    pub fn parse(text: &str) -> Result<Point, String> {
        let text = text.trim();
        let bad = || format!("'{text}' is not a place: write element, element[port] or [port]element");
        let port = |digits: &str| digits.trim().parse::<u32>().map_err(|_| bad());
        if text.is_empty() {
            return Ok(Point::Devices);
        }
        let element = |name: &str| match name.trim() {
            name if name.is_empty() || name.contains(['[', ']']) => Err(bad()),
            name => Ok(name.to_owned()),
        };
        if let Some(rest) = text.strip_prefix('[') {
            let (digits, name) = rest.split_once(']').ok_or_else(bad)?;
            return Ok(Point::Input(element(name)?, Some(port(digits)?)));
        }
        match text.strip_suffix(']') {
            Some(rest) => {
                let (name, digits) = rest.split_once('[').ok_or_else(bad)?;
                Ok(Point::Output(element(name)?, port(digits)?))
            }
            None => Ok(Point::Input(element(text)?, None)),
        }
    }

    /// The element that is named.
    pub fn element(&self) -> Option<&str> {
        match self {
            Point::Devices => None,
            Point::Input(e, _) | Point::Output(e, _) => Some(e),
        }
    }
}

struct Capture {
    key: u64,
    graph: String,
    points: Vec<(String, Point)>,
    filter: Expr,
    snaplen: u32,
    /// How many more; `None`: no limit.
    left: Option<u64>,
    listener: Listener,
}

/// All traces and captures of an engine.
#[derive(Default)]
pub(crate) struct Watch {
    captures: Vec<Capture>,
    pub traces: Traces,
}

/// Which packets to follow.
#[derive(Debug, Clone, Default)]
pub struct TraceRequest {
    /// In the filter language; empty: every packet.
    pub filter: String,
    /// How many.
    pub count: u32,
    /// Where the graph meets functions that it does not run itself.
    pub functions: Vec<FunctionPort>,
}

/// A request for a capture.
pub(crate) struct CaptureRequest {
    pub graph: String,
    /// Places, as they were written and as they were understood.
    pub points: Vec<(String, Point)>,
    pub filter: Expr,
    pub snaplen: u32,
    pub count: u64,
}

impl Watch {
    /// Whether anyone watches. If so, graphs run step by step.
    pub fn active(&self) -> bool {
        !self.captures.is_empty() || self.traces.active()
    }

    /// Whether anyone watches packets of a graph.
    pub fn concerns(&self, graph: &str) -> bool {
        self.captures.iter().any(|c| c.graph == graph) || self.traces.concern(graph)
    }

    /// Starts a capture; `key` is for [`cancel`](Watch::cancel).
    pub fn capture(&mut self, key: u64, request: CaptureRequest, listener: Listener) {
        let CaptureRequest { graph, points, filter, snaplen, count } = request;
        let left = (count > 0).then_some(count);
        self.captures.push(Capture { key, graph, points, filter, snaplen, left, listener });
    }

    /// Follows the next `count` packets of a graph that match, also through `functions`.
    pub fn trace(
        &mut self,
        key: u64,
        graph: &str,
        (filter, count): (Expr, u32),
        functions: Vec<FunctionPort>,
        listener: Listener,
    ) {
        self.traces.add(key, graph, (filter, count), functions, listener);
    }

    /// Ends what was started under a key, and notifies its listener.
    pub fn cancel(&mut self, key: u64) {
        self.captures.retain_mut(|c| {
            if c.key == key {
                (c.listener)(Event::End);
            }
            c.key != key
        });
        self.traces.cancel(key);
    }

    /// Ends everything that concerns a graph.
    pub fn forget_graph(&mut self, graph: &str) {
        let keys: Vec<u64> = self.captures.iter().filter(|c| c.graph == graph).map(|c| c.key).collect();
        keys.into_iter().for_each(|key| self.cancel(key));
        self.traces.forget_graph(graph);
    }

    /// When a trace that waits for its packets is given up.
    pub fn wake(&self) -> Option<u64> {
        self.traces.wake()
    }

    /// Reports traces whose packets have not ended in time.
    pub fn expire(&mut self, now: u64) {
        self.traces.expire(now);
    }

    /// A packet enters an engine node.
    pub fn input(&mut self, place: &GraphElement, port: u32, packet: &Packet, now: u64) {
        self.looks_at_input(place, port, packet);
        if packet.trace != 0 {
            self.traces.enters(place, port, packet);
        }
        self.traces.goes_to_function(place, packet, now);
    }

    /// A copy for those who capture an input.
    pub fn looks_at_input(&mut self, place: &GraphElement, port: u32, packet: &Packet) {
        let to_device = place.class == "ToDevice";
        self.look(place, packet, |point| match point {
            Point::Devices => to_device,
            Point::Input(e, p) => *e == place.element && p.is_none_or(|p| p == port),
            Point::Output(..) => false,
        });
    }

    /// A packet leaves an element. `source`: it has not been in the graph before.
    pub fn output(&mut self, place: &GraphElement, port: u32, packet: &mut Packet, source: bool, now: u64) {
        self.passes_output(place, port, packet);
        if source {
            self.comes_in(place, packet, now);
        }
    }

    /// A packet comes into the graph at an element.
    pub fn comes_in(&mut self, place: &GraphElement, packet: &mut Packet, now: u64) {
        if packet.trace == 0 {
            self.traces.consider(place, packet, now);
        }
    }

    /// A copy for those who capture an output.
    pub fn passes_output(&mut self, place: &GraphElement, port: u32, packet: &Packet) {
        let from_device = matches!(place.class.as_str(), "FromDevice" | "PollDevice");
        self.look(place, packet, |point| match point {
            Point::Devices => from_device,
            Point::Output(e, p) => *e == place.element && *p == port,
            Point::Input(..) => false,
        });
    }

    fn look(&mut self, place: &GraphElement, packet: &Packet, here: impl Fn(&Point) -> bool) {
        self.captures.retain_mut(|c| {
            let mut points = c.points.iter().filter(|(_, p)| c.graph == place.graph && here(p)).peekable();
            if points.peek().is_none() || !matches(&c.filter, packet) {
                return true;
            }
            for (written, _) in points {
                let bytes = packet.bytes();
                let event = Event::Packet {
                    time: packet.timestamp,
                    length: bytes.len() as u32,
                    bytes: hex(bytes.get(..c.snaplen as usize).unwrap_or(bytes)),
                    point: if written.is_empty() { &place.element } else { written }.clone(),
                };
                if !(c.listener)(event) {
                    return false;
                }
                let Some(left) = &mut c.left else { continue };
                *left -= 1;
                if *left == 0 {
                    (c.listener)(Event::End);
                    return false;
                }
            }
            true
        });
    }

    /// A traced packet ends.
    pub fn ended(&mut self, packet: &mut Packet, path: &str) {
        self.traces.ended(packet.trace, Some(packet), path);
        packet.trace = 0;
    }

    /// A traced packet rests.
    pub fn waits(&mut self, packet: &Packet, path: &str) {
        self.traces.waits(packet.trace, Some(packet), path);
    }
}

/// Whether a packet matches, read as what its marks say that it is.
fn matches(filter: &Expr, packet: &Packet) -> bool {
    if *filter == Expr::True {
        return true;
    }
    filter.matches(&match start(packet) {
        Start::Ip => PacketView::ip(packet.bytes()),
        Start::Ethernet | Start::Unknown => PacketView::ethernet(packet.bytes()),
    })
}

/// The header that a packet begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Ethernet,
    Ip,
    Unknown,
}

/// What a packet begins with, as far as its marks say; without any, it is taken for a frame.
fn start(packet: &Packet) -> Start {
    let data = packet.data();
    match (packet.layer(Layer::Mac), packet.layer(Layer::Net)) {
        (None, None) => Start::Ethernet,
        (Some(mac), _) if mac == data => Start::Ethernet,
        (_, Some(net)) if net == data => Start::Ip,
        // A header was put in front and not marked.
        (_, Some(net)) if net == data + 14 => Start::Ethernet,
        (Some(mac), None) if mac + 14 == data && matches!(packet.bytes().first(), Some(0x40..=0x6f)) => {
            Start::Ip
        }
        _ => Start::Unknown,
    }
}

/// A packet in words.
fn describe(packet: &Packet) -> String {
    match start(packet) {
        Start::Ip => weir_net::describe_ip(packet.bytes()),
        Start::Ethernet | Start::Unknown => weir_net::describe(packet.bytes()),
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{b:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read() {
        assert_eq!(Point::parse(""), Ok(Point::Devices));
        assert_eq!(Point::parse(" a/b "), Ok(Point::Input("a/b".into(), None)));
        assert_eq!(Point::parse("[2] c"), Ok(Point::Input("c".into(), Some(2))));
        assert_eq!(Point::parse("c [1]"), Ok(Point::Output("c".into(), 1)));
        for bad in ["[x]c", "c[", "[1", "c[y]", "c]"] {
            assert!(Point::parse(bad).is_err(), "{bad}");
        }
    }
}

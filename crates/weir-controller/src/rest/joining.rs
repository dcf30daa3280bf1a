//! Traces of one packet at several nodes become one. Pure: time is a parameter.
//!
//! A packet that leaves by a tunnel and one that comes out of it are taken for the same if the ends of their bytes are the same, which
//! functions seldom change; of several, the earliest. A packet of which no other end is seen in time stands alone.

use std::time::Duration;

use tokio::time::Instant;
use weir_protocol::{Event, TraceStep};

/// So many bytes at the end of a packet tell it from others, in hexadecimal digits.
const TAIL: usize = 2 * 32;
/// Access points of tunnels are called so among a graph's elements.
const ENTRY: (&str, &str) = ("sap_tunnel_", "_in");
const EXIT: (&str, &str) = ("sap_tunnel_", "_out");

/// A packet, as far as it has been followed.
#[derive(Debug)]
struct Part {
    from: String,
    bytes: String,
    summary: String,
    steps: Vec<TraceStep>,
    at: Instant,
}

impl Part {
    /// The tunnel that it came out of.
    fn entry(&self) -> Option<&str> {
        self.from.strip_prefix(ENTRY.0)?.strip_suffix(ENTRY.1)
    }

    /// The tunnels that it, or copies of it, left by, with the copy's number.
    fn exits(&self) -> impl Iterator<Item = (&str, u32)> {
        self.steps
            .iter()
            .filter_map(|s| Some((s.element.strip_prefix(EXIT.0)?.strip_suffix(EXIT.1)?, s.packet)))
    }

    fn tail(&self) -> &str {
        self.bytes.get(self.bytes.len().saturating_sub(TAIL)..).unwrap_or(&self.bytes)
    }

    /// Goes on with what was seen of the packet behind a tunnel.
    fn go_on(&mut self, other: Part, copy: u32) {
        let next = self.steps.iter().map(|s| s.packet).max().unwrap_or(0) + 1;
        let number = |packet| if packet == 0 { copy } else { next + packet - 1 };
        self.steps.extend(other.steps.into_iter().map(|s| TraceStep { packet: number(s.packet), ..s }));
        self.at = other.at;
    }
}

/// Packets of which more may be seen.
#[derive(Debug, Default)]
pub(super) struct Joining {
    parts: Vec<Part>,
}

impl Joining {
    /// A packet was followed at a node.
    pub(super) fn add(&mut self, node: &str, event: Event, at: Instant) {
        let Event::Trace { from, bytes, summary, steps } = event else { return };
        let named = |s: TraceStep| TraceStep { graph: format!("{} at node {node}", s.graph), ..s };
        let steps = steps.into_iter().map(named).collect();
        self.parts.push(Part { from, bytes, summary, steps, at });
        while self.join_one() {}
    }

    /// Joins two, if two belong together.
    fn join_one(&mut self) -> bool {
        for (i, part) in self.parts.iter().enumerate() {
            let Some(tunnel) = part.entry() else { continue };
            let before = self.parts.iter().enumerate().find_map(|(j, p)| {
                let exit = p.exits().find(|(exit, _)| *exit == tunnel)?;
                (j != i && p.tail() == part.tail()).then_some((j, exit.1))
            });
            let Some((j, copy)) = before else { continue };
            let behind = self.parts.remove(i);
            let j = if j > i { j - 1 } else { j };
            if let Some(part) = self.parts.get_mut(j) {
                // This end was met: another packet of the same bytes meets the next one.
                for step in part
                    .steps
                    .iter_mut()
                    .filter(|s| s.element == format!("sap_tunnel_{}_out", behind.entry().unwrap_or_default()))
                {
                    step.element = step.element.replace(EXIT.0, "sap_to_tunnel_");
                }
                part.go_on(behind, copy);
            }
            return true;
        }
        false
    }

    /// When the first of those that are waited for was seen.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.parts.iter().map(|p| p.at).min()
    }

    /// Those of which nothing more is to come: they leave by no tunnel, or too long ago.
    pub(super) fn ready(&mut self, now: Instant, across: Duration) -> Vec<Event> {
        let done = |p: &Part| {
            let over = now.duration_since(p.at) >= across;
            over || (p.entry().is_none() && p.exits().next().is_none())
        };
        let (ready, waiting) = std::mem::take(&mut self.parts).into_iter().partition(done);
        self.parts = waiting;
        events(ready)
    }

    /// All that are left.
    pub(super) fn rest(&mut self) -> Vec<Event> {
        events(std::mem::take(&mut self.parts))
    }
}

fn events(parts: Vec<Part>) -> Vec<Event> {
    let event = |p: Part| {
        let Part { from, bytes, summary, mut steps, .. } = p;
        for step in &mut steps {
            step.element = step.element.replace("sap_to_tunnel_", EXIT.0);
        }
        Event::Trace { from, bytes, summary, steps }
    };
    parts.into_iter().map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACROSS: Duration = Duration::from_millis(500);

    fn seen(from: &str, bytes: &str, elements: &[&str]) -> Event {
        let step = |element: &&str| TraceStep {
            packet: 0,
            graph: "g".into(),
            element: (*element).to_owned(),
            class: "Counter".into(),
            port: 0,
            changes: vec![],
            end: None,
            bytes: String::new(),
        };
        Event::Trace {
            from: from.into(),
            bytes: bytes.into(),
            summary: String::new(),
            steps: elements.iter().map(step).collect(),
        }
    }

    fn paths(events: &[Event]) -> Vec<String> {
        let path = |e: &Event| match e {
            Event::Trace { steps, .. } => {
                let steps: Vec<String> = steps.iter().map(|s| format!("{} {}", s.graph, s.element)).collect();
                steps.join(", ")
            }
            _ => String::new(),
        };
        events.iter().map(path).collect()
    }

    #[test]
    fn a_packet_at_three_nodes_is_one_whatever_is_seen_first() {
        let parts = [
            ("n1", seen("sap_a_in", "aa01", &["sap_a", "sap_tunnel_1_out"])),
            ("n2", seen("sap_tunnel_1_in", "aa01", &["fw", "sap_tunnel_2_out"])),
            ("n3", seen("sap_tunnel_2_in", "aa01", &["sap_b_out"])),
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
            let mut joining = Joining::default();
            let now = Instant::now();
            for i in order {
                let (node, event) = parts[i].clone();
                joining.add(node, event, now);
            }
            let ready = joining.ready(now, ACROSS);
            let whole = "g at node n1 sap_a, g at node n1 sap_tunnel_1_out, g at node n2 fw, g at node n2 sap_tunnel_2_out, g at node n3 sap_b_out";
            assert_eq!(paths(&ready), [whole], "{order:?}");
            assert!(joining.oldest().is_none());
        }
    }

    #[test]
    fn other_packets_stay_apart_and_are_not_waited_for_for_ever() {
        let mut joining = Joining::default();
        let now = Instant::now();
        joining.add("n1", seen("sap_a_in", "aa01", &["sap_tunnel_1_out"]), now);
        joining.add("n2", seen("sap_tunnel_1_in", "aa02", &["fw"]), now);
        joining.add("n1", seen("sap_a_in", "aa03", &["dropped"]), now);
        assert_eq!(paths(&joining.ready(now, ACROSS)), ["g at node n1 dropped"]);
        assert_eq!(joining.ready(now + ACROSS, ACROSS).len(), 2);
        // Two of the same bytes are two packets.
        for _ in 0..2 {
            joining.add("n1", seen("sap_a_in", "aa01", &["sap_tunnel_1_out"]), now);
        }
        for _ in 0..2 {
            joining.add("n2", seen("sap_tunnel_1_in", "aa01", &["fw"]), now);
        }
        let whole = "g at node n1 sap_tunnel_1_out, g at node n2 fw";
        assert_eq!(paths(&joining.rest()), [whole, whole]);
    }
}

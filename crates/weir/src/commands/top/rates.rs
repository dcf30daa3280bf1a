//! From two readings of a node to rates.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use serde::Serialize;
use weir_api::graphs::GraphSummary;
use weir_api::node::DeviceStatus;
use weir_api::status::{
    ElementDrops, ElementTime, FlowCache, FunctionStatus, GraphStatus, LinkStatus, State,
};

/// The state of a node at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// When, since the start of the program.
    pub(crate) at: Duration,
    /// All graphs.
    pub(crate) graphs: Vec<GraphSummary>,
    /// The graph that is looked at; none if there is no such graph.
    pub(crate) status: Option<GraphStatus>,
    /// The interfaces.
    pub(crate) devices: Vec<DeviceStatus>,
}

/// A count and how fast it grows; no rate at the first reading, and after the count began anew.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Rate {
    /// How many so far.
    pub(crate) total: u64,
    /// How many a second.
    pub(crate) per_second: Option<f64>,
}

/// Packets and bits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Traffic {
    pub(crate) packets: Rate,
    pub(crate) bits: Rate,
}

/// A graph in the list of graphs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Graph {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) state: State,
}

/// A link between two places.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Link {
    pub(crate) from: String,
    pub(crate) to: String,
    #[serde(flatten)]
    pub(crate) traffic: Traffic,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Function {
    pub(crate) id: String,
    pub(crate) packets_in: Rate,
    pub(crate) packets_out: Rate,
    pub(crate) dropped: Rate,
}

/// A reason for which an element drops packets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Drops {
    pub(crate) element: String,
    pub(crate) reason: String,
    pub(crate) packets: Rate,
}

/// The time an element takes: of the last interval if it was measured then, else since the last change of the graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Element {
    pub(crate) element: String,
    pub(crate) cycles_per_packet: f64,
    pub(crate) share: f64,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) received: Traffic,
    pub(crate) sent: Traffic,
    pub(crate) lost: Rate,
}

/// A lookup whose results are kept for flows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cache {
    pub(crate) table: String,
    pub(crate) entries: usize,
    pub(crate) spared: Rate,
    pub(crate) done: Rate,
}

/// All that is shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// The graph that is looked at.
    pub(crate) graph: Option<String>,
    /// Seconds between the readings; none at the first.
    pub(crate) seconds: Option<f64>,
    pub(crate) graphs: Vec<Graph>,
    pub(crate) links: Vec<Link>,
    pub(crate) functions: Vec<Function>,
    pub(crate) drops: Vec<Drops>,
    pub(crate) elements: Vec<Element>,
    pub(crate) devices: Vec<Device>,
    pub(crate) flows: Vec<Cache>,
}

/// What happened between two readings; without an earlier one there are totals only.
pub(crate) fn rates(before: Option<&Reading>, now: &Reading) -> Rates {
    let seconds = before.map(|b| now.at.saturating_sub(b.at).as_secs_f64()).filter(|s| *s > 0.0);
    let before = before.filter(|_| seconds.is_some());
    let clock = Clock(seconds);
    let mut out = Rates {
        graph: now.status.as_ref().map(|s| s.id.clone()),
        seconds,
        graphs: now.graphs.iter().map(graph).collect(),
        devices: devices(clock, before.map(|b| &*b.devices), &now.devices),
        ..Rates::default()
    };
    let Some(status) = &now.status else { return out };
    let old = before.and_then(|b| b.status.as_ref()).filter(|b| b.id == status.id);
    out.links = links(clock, old, &status.links);
    out.functions = functions(clock, old, &status.functions);
    out.drops = drops(clock, old, &status.drops);
    out.elements = elements(old, &status.profile);
    out.flows = flows(clock, old, &status.flows);
    out
}

/// The time between two readings, in seconds.
#[derive(Debug, Clone, Copy)]
struct Clock(Option<f64>);

impl Clock {
    fn rate(self, before: Option<u64>, total: u64) -> Rate {
        let grown = before.and_then(|b| total.checked_sub(b));
        let per_second = grown.zip(self.0).map(|(n, seconds)| n as f64 / seconds);
        Rate { total, per_second }
    }

    fn traffic(self, before: Option<(u64, u64)>, (packets, bytes): (u64, u64)) -> Traffic {
        Traffic {
            packets: self.rate(before.map(|b| b.0), packets),
            bits: self.rate(before.map(|b| b.1.saturating_mul(8)), bytes.saturating_mul(8)),
        }
    }
}

fn index<'a, T, K: Hash + Eq>(items: Option<&'a [T]>, key: impl Fn(&'a T) -> K) -> HashMap<K, &'a T> {
    items.into_iter().flatten().map(|i| (key(i), i)).collect()
}

fn graph(g: &GraphSummary) -> Graph {
    Graph { id: g.id.clone(), name: g.name.clone(), state: g.state.clone() }
}

fn links(clock: Clock, old: Option<&GraphStatus>, now: &[LinkStatus]) -> Vec<Link> {
    let old = index(old.map(|s| &*s.links), |l| (&l.from, &l.to));
    let link = |l: &LinkStatus| Link {
        from: l.from.clone(),
        to: l.to.clone(),
        traffic: clock
            .traffic(old.get(&(&l.from, &l.to)).map(|o| (o.packets, o.bytes)), (l.packets, l.bytes)),
    };
    now.iter().map(link).collect()
}

fn functions(clock: Clock, old: Option<&GraphStatus>, now: &[FunctionStatus]) -> Vec<Function> {
    let old = index(old.map(|s| &*s.functions), |f| &f.id);
    let dropped = |f: &FunctionStatus| f.drops.iter().map(|d| d.count).sum::<u64>();
    let function = |f: &FunctionStatus| {
        let old = old.get(&f.id);
        Function {
            id: f.id.clone(),
            packets_in: clock.rate(old.map(|o| o.packets_in), f.packets_in),
            packets_out: clock.rate(old.map(|o| o.packets_out), f.packets_out),
            dropped: clock.rate(old.map(|o| dropped(o)), dropped(f)),
        }
    };
    now.iter().map(function).collect()
}

fn drops(clock: Clock, old: Option<&GraphStatus>, now: &[ElementDrops]) -> Vec<Drops> {
    let known = old.is_some();
    let old = index(old.map(|s| &*s.drops), |d| (&d.element, &d.reason));
    let drops = |d: &ElementDrops| {
        // A reason that was not there had no packets.
        let before = old.get(&(&d.element, &d.reason)).map_or(known.then_some(0), |o| Some(o.count));
        Drops { element: d.element.clone(), reason: d.reason.clone(), packets: clock.rate(before, d.count) }
    };
    now.iter().map(drops).collect()
}

fn elements(old: Option<&GraphStatus>, now: &[ElementTime]) -> Vec<Element> {
    let cycles = |e: &ElementTime| e.cycles_per_packet * e.packets as f64;
    let old = index(old.map(|s| &*s.profile), |e| &e.element);
    // Packets and cycles of the last interval, if any packet was measured in it.
    let recent = |e: &ElementTime| {
        let o = old.get(&e.element)?;
        let packets = e.packets.checked_sub(o.packets)?;
        let spent = cycles(e) - cycles(o);
        (packets > 0 && spent >= 0.0).then_some((packets as f64, spent))
    };
    let whole = |e: &ElementTime| (e.packets as f64, cycles(e));
    let latest = now.iter().any(|e| recent(e).is_some());
    let measure = |e: &ElementTime| if latest { recent(e).unwrap_or((0.0, 0.0)) } else { whole(e) };
    let total = now.iter().map(|e| measure(e).1).sum::<f64>();
    let element = |e: &ElementTime| {
        let (packets, spent) = measure(e);
        Element {
            element: e.element.clone(),
            cycles_per_packet: if packets > 0.0 { spent / packets } else { e.cycles_per_packet },
            share: if total > 0.0 { spent / total } else { 0.0 },
        }
    };
    now.iter().map(element).collect()
}

fn devices(clock: Clock, old: Option<&[DeviceStatus]>, now: &[DeviceStatus]) -> Vec<Device> {
    let old = index(old, |d| &d.name);
    let lost = |d: &DeviceStatus| d.rx_dropped.saturating_add(d.tx_dropped);
    let device = |d: &DeviceStatus| {
        let old = old.get(&d.name);
        Device {
            name: d.name.clone(),
            state: d.state.clone(),
            received: clock.traffic(old.map(|o| (o.rx_packets, o.rx_bytes)), (d.rx_packets, d.rx_bytes)),
            sent: clock.traffic(old.map(|o| (o.tx_packets, o.tx_bytes)), (d.tx_packets, d.tx_bytes)),
            lost: clock.rate(old.map(|o| lost(o)), lost(d)),
        }
    };
    now.iter().map(device).collect()
}

fn flows(clock: Clock, old: Option<&GraphStatus>, now: &[FlowCache]) -> Vec<Cache> {
    let old = index(old.map(|s| &*s.flows), |c| &c.table);
    let cache = |c: &FlowCache| {
        let old = old.get(&c.table);
        Cache {
            table: c.table.clone(),
            entries: c.entries,
            spared: clock.rate(old.map(|o| o.hits), c.hits),
            done: clock.rate(old.map(|o| o.misses), c.misses),
        }
    };
    now.iter().map(cache).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use weir_api::status::DropCount;

    use super::*;

    /// A node with one graph whose counts are all `n` or follow from it.
    pub(crate) fn reading(at: u64, n: u64) -> Reading {
        let link = |from: &str, to: &str, packets| LinkStatus {
            from: from.into(),
            to: to.into(),
            packets,
            bytes: packets * 100,
            direct: None,
        };
        Reading {
            at: Duration::from_secs(at),
            graphs: ["edge", "lab"]
                .map(|id| GraphSummary {
                    tag: String::new(),
                    node: None,
                    owner: None,
                    id: id.into(),
                    name: format!("the {id}"),
                    tenant: None,
                    revision: 1,
                    functions: 1,
                    state: State::Running,
                    drift: 0,
                    zones: vec![],
                })
                .into(),
            status: Some(GraphStatus {
                nodes: Vec::new(),
                id: "edge".into(),
                name: "the edge".into(),
                tenant: None,
                state: State::Running,
                functions: vec![FunctionStatus {
                    id: "nat".into(),
                    name: "nat".into(),
                    image: "nat".into(),
                    state: State::Running,
                    engine: "inline".into(),
                    cores: None,
                    packets_in: n,
                    packets_out: n / 2,
                    drops: vec![DropCount { reason: "Denied".into(), count: n / 2 }],
                }],
                links: vec![link("sap:lan", "sf:nat:in", n), link("sf:nat:out", "sap:wan", n * 2)],
                saps: vec![],
                drops: vec![ElementDrops {
                    element: "sf_nat/f".into(),
                    reason: "Denied".into(),
                    count: n / 2,
                }],
                profile: ElementTime::of([
                    ("sf_nat/f".to_owned(), n, n * 10),
                    ("sf_nat/c".to_owned(), n, n * 30),
                ]),
                flows: vec![FlowCache {
                    table: "sf_nat/f.rules".into(),
                    entries: 64,
                    hits: n,
                    misses: n / 10,
                }],
                drift: vec![],
                monitoring: None,
                warnings: Vec::new(),
            }),
            devices: vec![DeviceStatus {
                name: "eth1".into(),
                state: "up".into(),
                rx_packets: n,
                rx_bytes: n * 100,
                rx_dropped: 1,
                tx_packets: n * 2,
                tx_bytes: n * 200,
                tx_dropped: n / 100,
                drops: Vec::new(),
            }],
        }
    }

    #[test]
    fn rates_are_what_was_added_over_the_time() {
        let r = rates(Some(&reading(10, 1_000)), &reading(12, 3_000));
        assert_eq!(r.seconds, Some(2.0));
        let link = &r.links[0];
        assert_eq!((link.from.as_str(), link.to.as_str()), ("sap:lan", "sf:nat:in"));
        assert_eq!(link.traffic.packets, Rate { total: 3_000, per_second: Some(1_000.0) });
        assert_eq!(link.traffic.bits.per_second, Some(800_000.0));
        assert_eq!(r.drops[0].packets.per_second, Some(500.0));
        assert_eq!(r.devices[0].lost, Rate { total: 31, per_second: Some(10.0) });
        assert_eq!(r.flows[0].spared.per_second, Some(1_000.0));
        assert_eq!(r.functions[0].dropped.per_second, Some(500.0));
    }

    #[test]
    fn without_an_earlier_reading_there_are_totals_only() {
        let r = rates(None, &reading(10, 500));
        assert_eq!((r.seconds, r.links[1].traffic.packets), (None, Rate { total: 1_000, per_second: None }));
        assert_eq!((r.elements[0].cycles_per_packet, r.elements[0].share), (30.0, 0.75));
    }

    #[test]
    fn counts_that_begin_anew_have_no_rate() {
        let r = rates(Some(&reading(10, 1_000)), &reading(11, 10));
        assert_eq!(r.links[0].traffic.packets, Rate { total: 10, per_second: None });
    }

    #[test]
    fn a_reason_that_is_there_for_the_first_time_counts_from_zero() {
        let mut before = reading(1, 100);
        before.status.as_mut().unwrap().drops.clear();
        assert_eq!(rates(Some(&before), &reading(2, 100)).drops[0].packets.per_second, Some(50.0));
    }

    #[test]
    fn elements_show_the_last_interval() {
        let mut now = reading(2, 200);
        // 100 more packets at 50 cycles, while the other element was not measured again.
        now.status.as_mut().unwrap().profile =
            ElementTime::of([("sf_nat/f".to_owned(), 200, 6_000), ("sf_nat/c".to_owned(), 100, 3_000)]);
        let elements = rates(Some(&reading(1, 100)), &now).elements;
        assert_eq!((elements[0].element.as_str(), elements[0].cycles_per_packet), ("sf_nat/f", 50.0));
        assert_eq!((elements[0].share, elements[1].share), (1.0, 0.0));
    }

    #[test]
    fn two_graphs_are_not_mixed_up() {
        let mut before = reading(1, 100);
        before.status.as_mut().unwrap().id = "lab".into();
        let r = rates(Some(&before), &reading(2, 200));
        assert_eq!(r.links[0].traffic.packets.per_second, None);
        assert_eq!(r.devices[0].received.packets.per_second, Some(100.0));
    }
}

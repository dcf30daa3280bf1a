//! What a node reports about its graphs. Counters count from the start of the function and never wrap in practice (64 bits).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a graph on a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphStatus {
    /// The graph's identifier.
    pub id: String,
    /// The graph's name.
    pub name: String,
    /// The tenant that the graph belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The nodes that it is on, in a domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Running only if every function is.
    #[serde(flatten)]
    pub state: State,
    /// The functions, in the graph's order.
    pub functions: Vec<FunctionStatus>,
    /// The links, in the order of the flow rules that make them.
    pub links: Vec<LinkStatus>,
    /// The access points, in the graph's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saps: Vec<SapStatus>,
    /// Why packets ended, in all of the graph: by element of the configuration that it became.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<ElementDrops>,
    /// Where the time goes, element by element of the configuration that the graph became. Measured in one batch of
    /// packets in some hundreds, from the last change of the graph on; empty while nothing was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<ElementTime>,
    /// The lookups whose results are kept for each flow where that pays, until a table changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowCache>,
    /// Handler writes that the document does not have. They last until the graph is applied again or the data plane is
    /// restarted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
    /// What its monitoring has measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<MonitoringStatus>,
    /// What may go wrong, such as packets that are too large for an access point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The measurements and zones of a graph's monitoring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MonitoringStatus {
    /// The measurements, in the document's order.
    pub measurements: Vec<MeasurementStatus>,
    /// The zones, in the document's order.
    pub zones: Vec<ZoneStatus>,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MeasurementStatus {
    /// Its name.
    pub name: String,
    /// What is measured, such as `rate.rx`.
    pub metric: String,
    /// The newest value, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
}

/// A zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ZoneStatus {
    /// Its name.
    pub name: String,
    /// Whether it is entered; not known until there were samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entered: Option<bool>,
    /// For how long, in milliseconds.
    pub age: u64,
}

/// A handler write that the document does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drift {
    /// The function.
    pub function: String,
    /// Its handler.
    pub handler: String,
    /// What was written last.
    pub value: String,
}

/// How well the results of a lookup are kept for flows, since the last change of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowCache {
    /// The table that is looked up in, with its element.
    pub table: String,
    /// Entries of the cache; 0 while it would not pay.
    pub entries: usize,
    /// Lookups that were spared.
    pub hits: u64,
    /// Lookups whose result was kept.
    pub misses: u64,
}

/// The time that an element takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ElementTime {
    /// The element's name; those of a function begin with the function's.
    pub element: String,
    /// Packets that came in while it was measured.
    pub packets: u64,
    /// Cycles a packet (of the time stamp counter, on x86-64; elsewhere nanoseconds).
    pub cycles_per_packet: f64,
    /// Its share of the time of all elements, from 0 to 1.
    pub share: f64,
}

impl ElementTime {
    /// The elements with the most time first, from their names, packets and cycles.
    pub fn of(measured: impl IntoIterator<Item = (String, u64, u64)>) -> Vec<ElementTime> {
        let mut measured: Vec<_> = measured.into_iter().filter(|(_, packets, _)| *packets > 0).collect();
        measured.sort_by_key(|(_, _, cycles)| std::cmp::Reverse(*cycles));
        let total = measured.iter().map(|(_, _, cycles)| cycles).sum::<u64>().max(1) as f64;
        let time = |(element, packets, cycles): (String, u64, u64)| ElementTime {
            element,
            packets,
            cycles_per_packet: cycles as f64 / packets as f64,
            share: cycles as f64 / total,
        };
        measured.into_iter().map(time).collect()
    }
}

/// A life-cycle state; in documents `"state": "failed", "reason": "…"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// On its way to running.
    Starting,
    /// Packets flow.
    Running,
    /// It runs, but an interface that it has access points on does not work. Packets flow when it does again.
    Degraded {
        /// What is wrong.
        reason: String,
    },
    /// It does not run, and will not by itself.
    Failed {
        /// What went wrong and what would be right.
        reason: String,
    },
    /// Nothing of it runs: its first packet starts it.
    Idle,
    /// Stopped on request.
    Stopped,
    /// Of a function: packets go past it, on request.
    Bypass,
}

/// The state of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionStatus {
    /// The function's identifier in its graph.
    pub id: String,
    /// The function's name.
    pub name: String,
    /// The image that it is made from.
    #[serde(default)]
    pub image: String,
    /// Its life-cycle state.
    #[serde(flatten)]
    pub state: State,
    /// What executes it, such as `inline` or `container`.
    pub engine: String,
    /// The cores that it runs on, as `2-3,6`, if these are not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<String>,
    /// Packets that entered by any port.
    pub packets_in: u64,
    /// Packets that left by any port.
    pub packets_out: u64,
    /// Packets dropped inside, by reason, reasons with a count only.
    pub drops: Vec<DropCount>,
}

/// The traffic of an access point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SapStatus {
    /// Its identifier.
    pub id: String,
    /// Packets that came in.
    pub packets_in: u64,
    /// Packets that left.
    pub packets_out: u64,
}

/// Packets dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DropCount {
    /// The reason's name.
    pub reason: String,
    /// How many packets.
    pub count: u64,
}

/// Packets that an element of the configuration dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ElementDrops {
    /// The element's name; those of a function begin with the function's.
    pub element: String,
    /// The reason's name.
    pub reason: String,
    /// How many packets.
    pub count: u64,
}

/// Traffic between two places of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkStatus {
    /// Where packets come from, as in flow rules: `sap:ID` or `sf:ID:PORT`.
    pub from: String,
    /// Where they go to.
    pub to: String,
    /// Packets carried.
    pub packets: u64,
    /// Their bytes, Ethernet header included, frame check sequence not.
    pub bytes: u64,
    /// If packets go from function to function directly, and not through the switch: how that came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectLink>,
}

/// A link past the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DirectLink {
    /// Microseconds that it took until packets went by it.
    pub setup_micros: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_graph_says_why_beside_its_state() {
        let status = GraphStatus {
            id: "0x1".into(),
            name: "wire".into(),
            tenant: None,
            nodes: vec![],
            state: State::Failed { reason: "no interface eth9".into() },
            functions: vec![],
            links: vec![],
            saps: vec![],
            drops: vec![],
            profile: vec![],
            flows: vec![],
            drift: vec![],
            monitoring: None,
            warnings: vec![],
        };
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!((&json["state"], &json["reason"]), (&"failed".into(), &"no interface eth9".into()));
        assert_eq!(serde_json::from_value::<GraphStatus>(json).unwrap(), status);
    }

    #[test]
    fn the_most_time_stands_first() {
        let measured = [("a", 10, 100), ("idle", 0, 0), ("b", 5, 300)];
        let times = ElementTime::of(measured.map(|(e, packets, cycles)| (e.to_owned(), packets, cycles)));
        let seen: Vec<_> = times.iter().map(|t| (&*t.element, t.cycles_per_packet, t.share)).collect();
        assert_eq!(seen, [("b", 60.0, 0.75), ("a", 10.0, 0.25)]);
        assert_eq!(ElementTime::of([("a".to_owned(), 1, 0)])[0].share, 0.0);
    }
}

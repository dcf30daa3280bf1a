//! What tunnels carry from node to node, by the counters of the nodes that send. Pure but for the asking.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::http::Method;

use crate::controller::Controller;
use crate::fleet::FleetError;
use crate::split::Tunnel;

/// The traffic of a node's tunnels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// When that was counted last, and the bytes of each tunnel by its number.
    last: Option<(Instant, BTreeMap<u32, u64>)>,
    /// Bits a second to each other node.
    pub rates: BTreeMap<String, u64>,
}

/// The bytes that went into tunnels, by their numbers, of the metrics of a node.
fn counted(metrics: &str) -> BTreeMap<u32, u64> {
    let line = |line: &str| {
        let rest = line.strip_prefix("weir_access_point_bytes_total{")?;
        let (labels, value) = rest.rsplit_once("} ")?;
        let (_, number) = labels.split_once("access_point=\"tunnel-")?;
        let (number, _) = number.split_once('"')?;
        let out = labels.contains("direction=\"out\"");
        out.then(|| Some((u32::from_str_radix(number, 16).ok()?, value.trim().parse().ok()?))).flatten()
    };
    metrics.lines().filter_map(line).collect()
}

impl Sent {
    /// The same after another look. Tunnels that are new, or whose counters began anew, count from now on.
    fn then(self, now: Instant, bytes: BTreeMap<u32, u64>, tunnels: &[&Tunnel]) -> Sent {
        let mut rates: BTreeMap<String, u64> = BTreeMap::new();
        if let Some((then, before)) = &self.last {
            let passed = now.saturating_duration_since(*then).as_millis().max(1);
            for t in tunnels {
                let delta = match (before.get(&t.number), bytes.get(&t.number)) {
                    (Some(before), Some(after)) => after.saturating_sub(*before),
                    _ => 0,
                };
                let rate = u128::from(delta) * 8000 / passed;
                let sum = rates.entry(t.to.clone()).or_default();
                *sum = sum.saturating_add(u64::try_from(rate).unwrap_or(u64::MAX));
            }
        }
        Sent { last: Some((now, bytes)), rates }
    }
}

impl Controller {
    /// Looks at what the tunnels of a node carry, if it has any.
    pub(crate) async fn measure_tunnels(&self, node: &str) -> Result<(), FleetError> {
        let view = self.view();
        let all = view.graphs.values().flat_map(|g| &g.graph.tunnels);
        let tunnels: Vec<&Tunnel> = all.filter(|t| t.from == node).collect();
        let before = view.known.get(node).map(|k| k.sent.clone()).unwrap_or_default();
        let sent = match tunnels.is_empty() {
            true if before == Sent::default() => return Ok(()),
            true => Sent::default(),
            false => {
                let metrics = self.fleet.bytes(node, Method::GET, "/metrics", None).await?;
                let bytes = counted(&String::from_utf8_lossy(&metrics));
                before.then(Instant::now(), bytes, &tunnels)
            }
        };
        self.edit(|v| v.known.entry(node.to_owned()).or_default().sent = sent);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_goes_into_tunnels_is_counted_by_node() {
        let metrics = |bytes: u64| {
            format!(
                "# TYPE weir_access_point_bytes_total counter\n\
                 weir_access_point_bytes_total{{graph=\"g\",access_point=\"tunnel-800001\",direction=\"out\"}} {bytes}\n\
                 weir_access_point_bytes_total{{graph=\"g\",access_point=\"tunnel-800001\",direction=\"in\"}} 7\n\
                 weir_access_point_bytes_total{{graph=\"g\",access_point=\"lan\",direction=\"out\"}} 9\n"
            )
        };
        assert_eq!(counted(&metrics(5)), BTreeMap::from([(0x80_0001, 5)]));
        let tunnel = Tunnel {
            from: "n1".into(),
            to: "n2".into(),
            place: "sap:b".into(),
            origin: "n1".into(),
            number: 0x80_0001,
            end: String::new(),
            encapsulation: weir_api::members::Encapsulation::Vxlan,
        };
        let begin = Instant::now();
        let first = Sent::default().then(begin, counted(&metrics(1000)), &[&tunnel]);
        assert_eq!(first.rates, BTreeMap::new(), "one look says nothing");
        let later = begin + Duration::from_secs(5);
        let second = first.clone().then(later, counted(&metrics(6000)), &[&tunnel]);
        assert_eq!(second.rates, BTreeMap::from([("n2".to_owned(), 8000)]));
        let anew = first.then(later, counted(&metrics(10)), &[&tunnel]);
        assert_eq!(anew.rates, BTreeMap::from([("n2".to_owned(), 0)]));
    }
}

//! Packets that are under way between nodes: what went into a tunnel and has not come out.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use axum::http::{Method, StatusCode};
use futures_util::future::join_all;
use weir_api::problem::Problem;
use weir_api::status::GraphStatus;

use crate::controller::Controller;
use crate::fleet::{FleetError, segment};
use crate::split::Tunnel;

/// How long packets are waited for that are under way, and how long nothing has to come to take the rest for lost.
const UNDER_WAY: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(60);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(2);

impl Controller {
    /// Waits for what was sent by tunnels until now. How much did not come, since the tunnels are there.
    pub(super) async fn under_way(&self, id: &str, tunnels: &[Tunnel]) -> Result<u64, Problem> {
        let mut missing = 0;
        // Nearer ones first: what comes out of one goes into the next.
        let mut hops: Vec<&Tunnel> = tunnels.iter().collect();
        hops.sort_by_key(|t| (t.from != t.origin, t.to == t.end));
        let (first, later): (Vec<&Tunnel>, Vec<&Tunnel>) = hops.into_iter().partition(|t| t.from == t.origin);
        for hops in [first].into_iter().chain(later.into_iter().map(|t| vec![t])).filter(|h| !h.is_empty()) {
            missing += self.arrive(id, &hops).await?;
        }
        Ok(missing)
    }

    async fn arrive(&self, id: &str, tunnels: &[&Tunnel]) -> Result<u64, Problem> {
        let nodes = |end: fn(&Tunnel) -> &String| -> BTreeSet<String> {
            tunnels.iter().map(|t| end(t).clone()).collect()
        };
        let sent = self.counted(id, &nodes(|t| &t.from)).await?;
        let sap = |t: &Tunnel| format!("tunnel-{:x}", t.number);
        let count = |all: &[(String, GraphStatus)], node: &str, t: &Tunnel, out: bool| {
            let status = all.iter().find(|(n, _)| n == node).map(|(_, s)| s);
            let found = status.and_then(|s| s.saps.iter().find(|s| s.id == sap(t)));
            // Without it nobody knows whether something is under way.
            let found = found.ok_or_else(|| {
                let text = format!("node '{node}' does not count what passes its end of {}", sap(t));
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, text)
            })?;
            Ok::<u64, Problem>(if out { found.packets_out } else { found.packets_in })
        };
        let begun = Instant::now();
        let (mut last, mut since) = (u64::MAX, begun);
        loop {
            let came = self.counted(id, &nodes(|t| &t.to)).await?;
            let mut missing = 0;
            for t in tunnels {
                let out = count(&sent, &t.from, t, true)?;
                missing += out.saturating_sub(count(&came, &t.to, t, false)?);
            }
            if missing != last {
                (last, since) = (missing, Instant::now());
            }
            if missing == 0 || since.elapsed() > QUIET || begun.elapsed() > UNDER_WAY {
                return Ok(missing);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn counted(
        &self,
        id: &str,
        nodes: &BTreeSet<String>,
    ) -> Result<Vec<(String, GraphStatus)>, Problem> {
        let asked = nodes.iter().map(|n| async move { (n.clone(), self.status_at(n, id).await) });
        let answers = join_all(asked).await;
        answers.into_iter().map(|(n, s)| Ok((n, s?))).collect()
    }

    pub(super) async fn status_at(&self, node: &str, id: &str) -> Result<GraphStatus, FleetError> {
        self.fleet.call(node, Method::GET, &format!("/graphs/{}/status", segment(id)), None).await
    }
}

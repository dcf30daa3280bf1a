//! Links that nodes find themselves: each sends [probes](weir_net::probe) by its interfaces, and remembers whose it hears. The controller makes links of what both
//! ends hear.

pub mod core;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use weir_api::domain::Endpoint;
use weir_io::probe::ProbeSocket;
use weir_net::probe::Probe;
use weir_switch::lsi0::{Base, Part, is_own_interface};

use self::core::Table;
use crate::connection::DataPlane;
use crate::domain::{Interface, interfaces};
use crate::node::Node;
use crate::view::View;

/// How often probes are sent, and read.
const OFTEN: Duration = Duration::from_secs(1);
/// How long one counts: two may be lost.
const SECONDS: u16 = 3;
/// Most frames that are read at a time; more are lost in the queue of the socket.
const AT_ONCE: usize = 512;
/// Longest frame that may be a probe.
const LONGEST: usize = 1514;

/// Whose probes a node hears.
#[derive(Debug, Default)]
pub struct Neighbours {
    table: Mutex<Table>,
    /// Others are there now.
    pub(crate) changed: Notify,
}

impl Neighbours {
    /// Says of interfaces who is there.
    pub(crate) fn put_in(&self, endpoints: &mut [Endpoint]) {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.iter_mut().for_each(|e| e.neighbours = table.at(&e.interface));
    }
}

/// The domain of a controller with this pin, as probes say it.
fn domain(pin: &str) -> Option<[u8; 8]> {
    let digits = pin.strip_prefix("sha256:").unwrap_or(pin).get(..16)?;
    Some(u64::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

/// The interfaces by which other nodes may be joined: not those that graphs have, which lead to others.
fn joined<'i>(interfaces: &'i [Interface], view: &View) -> Vec<&'i Interface> {
    let attachments: Vec<_> = view.graphs.values().flat_map(|e| e.graph.attachments()).collect();
    let of_graph = |name: &str| {
        attachments.iter().any(|a| match &a.base {
            Base::Interface(n) => n == name && a.part == Part::Rest,
            Base::Host(host) => host.name == name,
            _ => false,
        })
    };
    let joined = |i: &&Interface| {
        i.up && i.mac.is_some() && i.name != "lo" && !is_own_interface(&i.name) && !of_graph(&i.name)
    };
    interfaces.iter().filter(joined).collect()
}

/// Sends probes, and listens to those of others, for ever.
pub(crate) async fn watch<D: DataPlane + Send + Sync + 'static>(node: Arc<Node<D>>) {
    let started = Instant::now();
    let mut socket: Option<ProbeSocket> = None;
    let mut said = false;
    let mut often = interval(OFTEN);
    often.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        often.tick().await;
        let (this, mut open) = (node.clone(), socket.take());
        let looked = spawn_blocking(move || {
            let done = this.look_for_neighbours(&mut open, started.elapsed());
            (open, done)
        });
        let Ok((open, done)) = looked.await else { continue };
        match done {
            Ok(true) => node.neighbours.changed.notify_one(),
            Ok(false) => {}
            Err(e) if !said => {
                tracing::warn!("no links are found by probes: {e}");
                said = true;
            }
            Err(e) => tracing::debug!("probes: {e}"),
        }
        socket = open;
    }
}

impl<D: DataPlane> Node<D> {
    /// Sends probes, and takes those that came; whether others are there now.
    fn look_for_neighbours(&self, open: &mut Option<ProbeSocket>, now: Duration) -> std::io::Result<bool> {
        let (Some(link), Some(owner)) = (self.membership.link(), self.membership.owner()) else {
            return Ok(false);
        };
        let Some(domain) = domain(&owner) else { return Ok(false) };
        let socket = match open {
            Some(socket) => socket,
            None => open.insert(ProbeSocket::open()?),
        };
        let interfaces = interfaces();
        let joined = joined(&interfaces, &self.view());
        let names: BTreeSet<&str> = joined.iter().map(|i| i.name.as_str()).collect();
        socket.listen(names.iter().copied())?;
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let mut table = self.neighbours.table.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = false;
        let mut frame = [0; LONGEST];
        for _ in 0..AT_ONCE {
            // An interface that went away is one error.
            let Ok(got) = socket.receive(&mut frame) else { continue };
            let Some((length, at)) = got else { break };
            let Ok((from, probe)) = Probe::read(frame.get(..length).unwrap_or_default()) else { continue };
            // Its own come back where two of its interfaces are in one network.
            if probe.domain == domain && probe.node != link.node && names.contains(at) {
                changed |= table.hear(at, from, probe, now);
            }
        }
        changed |= table.pass(now, &names);
        drop(table);
        for i in joined {
            let Some(mac) = i.mac.as_deref().and_then(|m| m.parse().ok()) else { continue };
            let probe =
                Probe { domain, node: link.node.clone(), interface: i.name.clone(), seconds: SECONDS };
            if let Some(frame) = probe.frame(mac)
                && let Err(e) = socket.send(&i.name, &frame)
            {
                tracing::debug!("no probe leaves by {}: {e}", i.name);
            }
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_the_beginning_of_its_pin() {
        let pin = format!("sha256:0123456789abcdef{}", "0".repeat(48));
        assert_eq!(domain(&pin), Some([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]));
        assert_eq!(domain("sha256:01"), None);
        assert_eq!(domain("text that is no pin"), None);
    }
}

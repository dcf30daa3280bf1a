//! Ports that go over to another data plane, which takes the place of this one.

use std::collections::BTreeMap;

use weir_io::hand_over::Handed;
use weir_io::{Port, PortSpec};

use super::Devices;

/// A port that goes over: the worker that has it, its device, and what the other data plane needs.
pub type Given = (usize, String, Handed);

/// Ports that came from another data plane, each with its worker, by device.
pub type Arrived = BTreeMap<String, Vec<(usize, Box<dyn Port>)>>;

impl Devices {
    /// Lets nothing be received, or again.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        // What came meanwhile wakes nobody again.
        self.list.iter_mut().flatten().for_each(|d| d.readable = true);
    }

    /// The devices whose ports cannot go over, and what they are.
    pub fn bound(&mut self) -> Vec<String> {
        let mut bound = Vec::new();
        for d in self.list.iter_mut().flatten() {
            let shares = match &d.spec {
                PortSpec::Memif(_) => Some("memory that it shares with another process"),
                PortSpec::Vhost(_) => Some("memory that it shares with a virtual machine"),
                PortSpec::WireGuard(_) => Some("keys that it has agreed on with its other end"),
                PortSpec::Interface { .. }
                | PortSpec::Tap { .. }
                | PortSpec::Socket(_)
                | PortSpec::Tunnel(_) => None,
            };
            let what = match (shares, &mut d.port) {
                (Some(what), _) => what.to_owned(),
                (None, Some(port)) => {
                    if port.hand_over().is_some() {
                        continue;
                    }
                    if port.method().is_empty() { "a socket".to_owned() } else { port.method().to_owned() }
                }
                (None, None) => continue,
            };
            bound.push(format!("{} ({what})", d.name));
        }
        bound
    }

    /// The ports of this worker, and of its devices those of others which these have not taken. Nothing is received by them from now on.
    ///
    /// # Errors
    /// One does not go over, or packets that it is to send are left.
    pub fn give(&mut self, worker: usize) -> Result<Vec<Given>, String> {
        let mut given = Vec::new();
        for d in self.list.iter_mut().flatten() {
            if d.waiting() > 0 || !d.pending.is_empty() {
                return Err(format!("{}: packets wait for it", d.name));
            }
            let own = d.port.iter_mut().map(|port| (worker, port));
            let others = d.others.iter_mut().enumerate();
            let all = own.chain(others.filter_map(|(i, port)| Some((worker + i + 1, port.as_mut()?))));
            for (worker, port) in all {
                let handed = port.hand_over().ok_or_else(|| format!("{} does not go over", d.name))?;
                given.push((worker, d.name.clone(), handed));
            }
        }
        Ok(given)
    }

    /// Goes on with ports that were [given](Devices::give), and were not taken.
    pub fn take_back_given(&mut self) {
        for d in self.list.iter_mut().flatten() {
            d.port.iter_mut().chain(d.others.iter_mut().flatten()).for_each(|port| port.take_back());
        }
    }

    /// What ports of a worker are to be opened with.
    pub fn spec_of(&self, name: &str) -> Option<&PortSpec> {
        self.find(name).and_then(|id| self.device(id)).map(|d| &d.spec)
    }

    /// Puts ports in the places of those that were awaited: by device, of this worker, and of others that have none of it yet.
    pub fn get(&mut self, ports: Arrived, own: usize) {
        for (name, ports) in ports {
            let Some(id) = self.find(&name) else { continue };
            for (worker, port) in ports {
                if worker == own {
                    self.install(id, port);
                    continue;
                }
                let place = worker.checked_sub(own + 1).and_then(|i| self.device_mut(id)?.others.get_mut(i));
                if let Some(place) = place {
                    *place = Some(port);
                }
            }
        }
    }

    /// Opens the ports that were awaited and have not come.
    pub fn open_awaited(&mut self, now: u64) {
        for d in self.list.iter_mut().flatten() {
            d.others
                .iter_mut()
                .filter(|p| p.as_ref().is_some_and(|p| p.is_awaited()))
                .for_each(|p| *p = None);
            if d.port.as_ref().is_some_and(|p| p.is_awaited()) {
                d.port = None;
                d.reopen = Some(now);
            }
        }
    }
}

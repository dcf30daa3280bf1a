//! Devices that stop working, and work again: interfaces go down, vanish, and come back.

use weir_io::PortError;

use super::{Change, Device, Devices, TX_BATCH, TX_WAITING, add};
use weir_io::with_causes;

/// How long until a vanished interface is looked for again, in nanoseconds.
const RETRY: u64 = 1_000_000_000;
/// How much later other workers than the first look: they follow its choice of a method.
const LATER: u64 = 100_000_000;

impl Devices {
    /// Takes note that a device works.
    pub(super) fn works(&mut self, id: usize) {
        let Some(d) = self.device_mut(id) else { return };
        d.reopen = None;
        if !d.trouble.is_empty() {
            d.trouble.clear();
            let text = format!("{} is up again", d.name);
            self.changes.push(Change::Up(text));
        }
    }

    /// Takes note that a device does not work.
    pub(super) fn fails(&mut self, id: usize, error: &PortError, now: u64) {
        let pause = if self.only.is_some() { RETRY + LATER } else { RETRY };
        let Some(d) = self.device_mut(id) else { return };
        d.readable = false;
        if matches!(error, PortError::Gone { .. } | PortError::Closed { .. } | PortError::NotFound { .. }) {
            close(d);
        }
        // An interface that goes away goes down first, and says no more; so whatever it is, a new port is tried, unless the
        // port itself looks out for its next peer.
        if d.port.as_ref().is_none_or(|port| port.is_up().is_none()) {
            d.reopen.get_or_insert(now + pause);
        }
        let text = with_causes(error);
        if d.trouble != text {
            d.trouble.clone_from(&text);
            self.changes.push(Change::Down(text));
        }
    }

    /// Opens again what had trouble.
    pub fn retry(&mut self, now: u64) {
        for id in 0..self.list.len() {
            let Some(d) = self.list[id].as_mut().filter(|d| d.reopen.is_some_and(|t| t <= now)) else {
                continue;
            };
            d.reopen = None;
            match (self.opener)(&d.spec.named(&d.name).in_folder(&self.folder)) {
                Ok(mut port) => {
                    drain(d);
                    close(d);
                    let state = port.receive(&mut d.pending, TX_BATCH);
                    self.install(id, port);
                    match state {
                        Ok(_) => self.works(id),
                        Err(e) => self.fails(id, &e, now),
                    }
                }
                Err(e) => {
                    if matches!(e, PortError::Busy { .. }) {
                        // Perhaps by its own old port.
                        drain(d);
                        close(d);
                    }
                    self.fails(id, &e, now);
                }
            }
        }
    }
}

/// Takes the packets out of the port of a device before it is given up: as many as a ring may hold, since a peer may fill it again.
pub(super) fn drain(d: &mut Device) {
    const BATCHES: usize = 64;
    if let Some(old) = &mut d.port {
        _ = (0..BATCHES).find(|_| !matches!(old.receive(&mut d.pending, TX_WAITING), Ok(1..)));
    }
}

/// Gives up the port of a device, and those that wait for other workers; its figures stay.
pub(super) fn close(d: &mut Device) {
    d.others.clear();
    if let Some(mut port) = d.port.take() {
        add(&mut d.before, &port.stats());
    }
}

//! Interfaces that several workers share: each has a port of its own, among which the kernel deals what arrives.
//!
//! The first worker opens the ports of all, so that either each worker has one, or the first has everything and spreads it
//! by software. The others take theirs when they open the device. A port that has trouble later is opened again by its
//! worker.

use std::collections::BTreeMap;

use weir_io::interface::{Options, Share};
use weir_io::{Port, PortError, PortSpec};

use super::{Devices, interface};

/// The port of an interface that a worker other than the first gets.
pub struct Lent {
    /// How it is opened.
    pub options: Options,
    /// Its port, until the worker takes it.
    pub port: Option<Box<dyn Port>>,
}

impl Devices {
    /// Lets the ports of so many workers, of which this is the first, share the packets of interfaces.
    pub fn share(&mut self, group: u16, workers: usize) {
        let of = u32::try_from(workers).unwrap_or(u32::MAX);
        self.share = Some(Share { group, member: 0, of });
    }

    /// Opens the ports of all workers for an interface, or one for the first.
    pub(super) fn open_for_all(
        &mut self,
        open: Option<usize>,
        name: &str,
        options: &Options,
    ) -> Result<usize, PortError> {
        let share = self.share_of(name);
        // Another interface may have the same number of a group, or memory be short; then the packets are spread here.
        if let Some(share) = share
            && let Ok(ports) = self.open_members(name, options, share)
        {
            let mut ports = ports.into_iter();
            if let Some(first) = ports.next() {
                let share = first.is_shared().then_some(share);
                let spec = interface(name, Options { share, ..options.clone() });
                let id = self.put(open, spec, first);
                if let Some(d) = self.device_mut(id) {
                    d.others = ports.map(Some).collect();
                }
                return Ok(id);
            }
        }
        self.open_or_exchange(open, interface(name, Options { share: None, ..options.clone() }))
    }

    /// How the ports on an interface share its packets, of which this worker has the first.
    pub(super) fn share_of(&self, name: &str) -> Option<Share> {
        self.share.map(|s| Share { group: s.group ^ number_of(name), ..s })
    }

    /// The ports of all workers; one, if that has everything.
    fn open_members(
        &mut self,
        name: &str,
        options: &Options,
        share: Share,
    ) -> Result<Vec<Box<dyn Port>>, PortError> {
        let of_member =
            |member| interface(name, Options { share: Some(Share { member, ..share }), ..options.clone() });
        let first = self.open_port(&of_member(0))?;
        let others = if first.is_shared() { 1..share.of } else { 1..1 };
        let mut ports = vec![first];
        for member in others {
            ports.push(self.open_port(&of_member(member))?);
        }
        Ok(ports)
    }

    /// What another worker, by its number, may open; to be given to [`restrict`](Devices::restrict).
    pub fn lend(&mut self, worker: usize) -> BTreeMap<String, Lent> {
        let member = u32::try_from(worker).unwrap_or(u32::MAX);
        let lent = self.list.iter_mut().flatten().filter_map(|d| {
            let PortSpec::Interface { options, .. } = &d.spec else { return None };
            let share = Some(Share { member, ..options.share? });
            let port = d.others.get_mut(worker.checked_sub(1)?).and_then(Option::take);
            Some((d.name.clone(), Lent { options: Options { share, ..options.clone() }, port }))
        });
        lent.collect()
    }

    /// Restricts what is opened from here on, on another worker than the first.
    pub fn restrict(&mut self, only: BTreeMap<String, Lent>) {
        self.only = Some(only);
    }

    /// The ports that were lent to this worker, and that it did not need.
    pub fn unused(&mut self) -> Vec<(String, Box<dyn Port>)> {
        let lent = self.only.iter_mut().flatten();
        lent.filter_map(|(name, lent)| Some((name.clone(), lent.port.take()?))).collect()
    }

    /// Takes ports back that a worker, by its number, did not need: another graph may.
    pub fn take_back(&mut self, worker: usize, unused: Vec<(String, Box<dyn Port>)>) {
        for (name, port) in unused {
            let d = self.find(&name).and_then(|id| self.device_mut(id));
            let place = worker.checked_sub(1).and_then(|i| d?.others.get_mut(i));
            if let Some(place) = place {
                *place = Some(port);
            }
        }
    }

    /// Says of which devices all other workers have ports.
    pub fn are_everywhere(&mut self, names: impl Fn(&str) -> bool) {
        for d in self.list.iter_mut().flatten() {
            d.everywhere = names(&d.name);
        }
    }

    /// Whether the kernel gives each worker its packets of a device.
    pub fn is_spread(&self, id: usize) -> bool {
        self.device(id).is_some_and(|d| d.everywhere && d.port.as_ref().is_some_and(|p| p.is_shared()))
    }
}

/// A number that follows from a name (FNV-1a, folded).
fn number_of(name: &str) -> u16 {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    (hash ^ hash >> 16) as u16
}

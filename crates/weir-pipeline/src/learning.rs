//! Forwarding as a switch without OpenFlow does it: `NORMAL`, and what a switch without its controller does if it is to go on.

use std::collections::HashMap;

use weir_openflow::connection::Time;
use weir_openflow::numbers::PORT_MAX;
use weir_openflow::oxm::Field;

use crate::key::Key;

/// Most addresses that are remembered.
const MAX: usize = 16_384;
/// How long an address is remembered that is not heard of (IEEE 802.1D, 7.9.2).
const AGE: Time = Time::from_secs(300);

/// Where addresses were heard, by VLAN.
#[derive(Debug, Default)]
pub struct Learning {
    /// Random, so that nobody knows which addresses collide.
    places: HashMap<(u16, u64), (u32, Time)>,
    /// When old ones were looked for last.
    cleaned: Time,
}

impl Learning {
    /// Learns where a packet's sender is, and says where its receiver was heard: `None`, if that is not known.
    pub fn learn(&mut self, key: &Key, port: u32, now: Time) -> Option<u32> {
        let vlan = key.get(Field::VlanVid) as u16;
        let [source, target] = [Field::EthSrc, Field::EthDst].map(|f| key.get(f) as u64);
        // What a controller sends comes from no port.
        if !is_group(source) && port <= PORT_MAX {
            // Not for each packet of a flood.
            if self.places.len() >= MAX && now.saturating_sub(self.cleaned) >= Time::from_secs(1) {
                self.cleaned = now;
                self.places.retain(|_, (_, heard)| now.saturating_sub(*heard) < AGE);
            }
            if self.places.len() < MAX || self.places.contains_key(&(vlan, source)) {
                self.places.insert((vlan, source), (port, now));
            }
        }
        if is_group(target) {
            return None;
        }
        let (port, heard) = self.places.get(&(vlan, target))?;
        (now.saturating_sub(*heard) < AGE).then_some(*port)
    }

    /// Forgets what was heard at a port.
    pub fn forget(&mut self, port: u32) {
        self.places.retain(|_, (p, _)| *p != port);
    }
}

/// Whether an address is one of a group.
fn is_group(address: u64) -> bool {
    address >> 40 & 1 == 1
}

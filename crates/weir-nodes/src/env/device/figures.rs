//! What devices have sent, received and lost.

use weir_io::PortStats;
use weir_protocol::DeviceStatus;

use super::Devices;

impl Devices {
    /// `up`, or what is wrong with a device.
    pub fn state(&self, id: usize) -> Option<String> {
        self.device(id).map(|d| if d.trouble.is_empty() { "up".to_owned() } else { d.trouble.clone() })
    }

    /// What is wrong with a device, if anything is.
    pub fn trouble(&self, id: usize) -> Option<String> {
        self.device(id).map(|d| d.trouble.clone()).filter(|t| !t.is_empty())
    }

    /// How many packets wait to be sent by a device, or have been and were not taken by its peer, as far as that can be known.
    pub fn unread(&self, id: usize) -> Option<u64> {
        let device = self.list.get(id)?.as_ref()?;
        let taken_not = device.port.as_ref().and_then(|port| port.unread()).unwrap_or(0);
        Some(device.waiting() as u64 + taken_not)
    }

    /// Looks at the figures of all ports.
    pub fn look(&mut self) {
        for d in self.list.iter_mut().flatten() {
            d.seen = d.before;
            if let Some(port) = &mut d.port {
                add(&mut d.seen, &port.stats());
            }
        }
    }

    /// Figures of a device.
    pub fn status(&mut self, id: usize) -> Option<DeviceStatus> {
        self.look();
        let (state, direct) = (self.state(id)?, self.direct_status(id));
        let d = self.device(id)?;
        let s = &d.seen;
        Some(DeviceStatus {
            name: d.name.clone(),
            state,
            method: d.port.as_ref().map_or(String::new(), |p| p.method().to_owned()),
            rx_packets: s.rx_packets,
            rx_bytes: s.rx_bytes,
            rx_dropped: s.rx_dropped + s.rx_malformed,
            tx_packets: s.tx_packets,
            tx_bytes: s.tx_bytes,
            tx_dropped: s.tx_errors.all(),
            direct,
        })
    }
}

/// Adds the figures of one port to those of others.
pub(super) fn add(sum: &mut PortStats, more: &PortStats) {
    sum.rx_packets += more.rx_packets;
    sum.rx_bytes += more.rx_bytes;
    sum.rx_dropped += more.rx_dropped;
    sum.rx_malformed += more.rx_malformed;
    sum.tx_packets += more.tx_packets;
    sum.tx_bytes += more.tx_bytes;
    sum.tx_errors.too_long += more.tx_errors.too_long;
    sum.tx_errors.offload += more.tx_errors.offload;
    sum.tx_errors.down += more.tx_errors.down;
    sum.tx_errors.refused += more.tx_errors.refused;
}

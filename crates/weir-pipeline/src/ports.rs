//! Ports as controllers see them.

use weir_net::EtherAddr;
use weir_openflow::connection::Time;
use weir_openflow::error::port_mod_failed;
use weir_openflow::message::PortMod;
use weir_openflow::numbers::{PortConfig, PortFeatures, PortState};
use weir_openflow::stats::{Port as Said, PortStats};
use weir_openflow::{ErrorCode, Name, PortNo};

/// A port.
#[derive(Debug)]
pub struct Port {
    name: String,
    address: EtherAddr,
    config: PortConfig,
    has_link: bool,
    created: Time,
    pub(crate) rx: Counts,
    pub(crate) tx: Counts,
}

/// Counters of a port in one direction.
#[derive(Debug, Default)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
    pub dropped: u64,
}

impl Counts {
    pub(crate) fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

impl Port {
    /// A port with its link.
    pub fn new(name: &str, address: EtherAddr, now: Time) -> Port {
        Port {
            name: name.to_owned(),
            address,
            config: PortConfig::default(),
            has_link: true,
            created: now,
            rx: Counts::default(),
            tx: Counts::default(),
        }
    }

    /// Whether it does what a flag of its configuration keeps from it.
    pub(crate) fn is(&self, flag: PortConfig) -> bool {
        self.config.has(flag)
    }

    /// Whether packets can leave here, for fast failover.
    pub fn is_live(&self) -> bool {
        self.has_link && !self.is(PortConfig::PORT_DOWN)
    }

    /// Whether it takes packets from its link.
    pub(crate) fn takes(&self) -> bool {
        !self.is(PortConfig::PORT_DOWN) && !self.is(PortConfig::NO_RECV)
    }

    /// Whether it sends packets.
    pub(crate) fn sends(&self) -> bool {
        !self.is(PortConfig::PORT_DOWN) && !self.is(PortConfig::NO_FWD)
    }

    /// Its link came or went; says whether that is another state.
    pub(crate) fn set_link(&mut self, up: bool) -> bool {
        std::mem::replace(&mut self.has_link, up) != up
    }

    /// Changes what a controller may change; says whether something is another.
    pub(crate) fn change(&mut self, m: &PortMod) -> Result<bool, ErrorCode> {
        if m.hw_addr != self.address {
            return Err(port_mod_failed::BAD_HW_ADDR);
        }
        if m.mask.without(PortConfig::ALL) != PortConfig::default() {
            return Err(port_mod_failed::BAD_CONFIG);
        }
        let new = PortConfig(self.config.0 & !m.mask.0 | m.config.0 & m.mask.0);
        Ok(std::mem::replace(&mut self.config, new) != new)
    }

    /// What it is.
    pub fn said(&self, number: u32) -> Said {
        let mut state = PortState::default();
        if !self.has_link {
            state = state | PortState::LINK_DOWN;
        } else if self.is_live() {
            state = state | PortState::LIVE;
        }
        Said {
            port: PortNo(number),
            hw_addr: self.address,
            name: Name::new(&self.name),
            config: self.config,
            state,
            // Links in a machine are as quick as its memory.
            current: PortFeatures::GB_10_FD | PortFeatures::COPPER,
            advertised: PortFeatures::default(),
            supported: PortFeatures::default(),
            peer: PortFeatures::default(),
            current_speed: 10_000_000,
            max_speed: 10_000_000,
        }
    }

    /// What it did.
    pub fn stats(&self, number: u32, now: Time) -> PortStats {
        let age = now.saturating_sub(self.created);
        PortStats {
            port: PortNo(number),
            rx_packets: self.rx.packets,
            tx_packets: self.tx.packets,
            rx_bytes: self.rx.bytes,
            tx_bytes: self.tx.bytes,
            rx_dropped: self.rx.dropped,
            tx_dropped: self.tx.dropped,
            rx_errors: 0,
            tx_errors: 0,
            rx_frame_err: 0,
            rx_over_err: 0,
            rx_crc_err: 0,
            collisions: 0,
            duration_sec: age.as_secs() as u32,
            duration_nsec: age.subsec_nanos(),
        }
    }
}

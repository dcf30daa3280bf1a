//! Headers that come and go, and their TTLs.

use weir_net::checksum::update16;
use weir_openflow::oxm::Field;

use super::{Covered, SHORTEST, Undone, Work};
use crate::parse::{self, BACKBONE, ETHERNET, LABEL, Network, TAG};

impl Work {
    /// Where the TTL of IP stands.
    fn ttl_at(&self) -> Option<(Network, usize, usize)> {
        match self.layout.network? {
            (Network::V4, net) => Some((Network::V4, net, net + 8)),
            (Network::V6, net) => Some((Network::V6, net, net + 7)),
            (Network::Arp, _) => None,
        }
    }

    /// Sets the TTL of IP.
    pub fn set_ttl(&mut self, ttl: u8) {
        if let Some((kind, net, at)) = self.ttl_at() {
            let covered = if kind == Network::V4 { Covered::Header } else { Covered::Nothing };
            self.write(net, at, &[ttl], covered);
        }
    }

    /// Decrements the TTL of IP.
    ///
    /// # Errors
    /// It would be 0.
    pub fn dec_ttl(&mut self) -> Result<(), Undone> {
        let Some((_, _, at)) = self.ttl_at() else { return Ok(()) };
        match self.packet.bytes()[at] {
            0 | 1 => Err(Undone::Ttl),
            ttl => {
                self.set_ttl(ttl - 1);
                Ok(())
            }
        }
    }

    /// Sets the TTL of the outermost label.
    pub fn set_mpls_ttl(&mut self, ttl: u8) {
        if let Some(at) = self.layout.mpls {
            self.write(at, at + 3, &[ttl], Covered::Nothing);
        }
    }

    /// Decrements the TTL of the outermost label.
    ///
    /// # Errors
    /// It would be 0.
    pub fn dec_mpls_ttl(&mut self) -> Result<(), Undone> {
        let Some(at) = self.layout.mpls else { return Ok(()) };
        match self.packet.bytes()[at + 3] {
            0 | 1 => Err(Undone::Ttl),
            ttl => {
                self.set_mpls_ttl(ttl - 1);
                Ok(())
            }
        }
    }

    /// Behind the outermost label: whether that is IP, its start, and where its TTL stands.
    fn inner_ttl(&self) -> Option<(Option<Network>, usize, usize)> {
        let (bytes, label) = (self.packet.bytes(), self.layout.mpls?);
        let inner = label + LABEL;
        if bytes.get(label + 2)? & 1 == 0 {
            return bytes.get(inner + 3).map(|_| (None, inner, inner + 3));
        }
        match bytes.get(inner)? >> 4 {
            4 if bytes.len() >= inner + 20 => Some((Some(Network::V4), inner, inner + 8)),
            6 if bytes.len() >= inner + 40 => Some((Some(Network::V6), inner, inner + 7)),
            _ => None,
        }
    }

    /// Copies the TTL outwards, to the outermost label.
    pub fn copy_ttl_out(&mut self) {
        if let Some((_, _, at)) = self.inner_ttl() {
            self.set_mpls_ttl(self.packet.bytes()[at]);
        }
    }

    /// Copies the TTL of the outermost label inwards.
    pub fn copy_ttl_in(&mut self) {
        let (Some(label), Some((kind, base, at))) = (self.layout.mpls, self.inner_ttl()) else { return };
        let bytes = self.packet.bytes_mut();
        let ttl = bytes[label + 3];
        let word = |bytes: &[u8]| u16::from_be_bytes([bytes[base + 8], bytes[base + 9]]);
        if kind == Some(Network::V4) {
            let before = word(bytes);
            bytes[at] = ttl;
            let after = word(bytes);
            self.sum(base + 10, |sum| update16(sum, before, after));
        } else {
            bytes[at] = ttl;
        }
    }

    /// Makes place for `n` bytes at a position; what is before it moves to the front.
    fn insert(&mut self, at: usize, n: usize) -> Result<(), Undone> {
        self.packet.push(n as u32).map_err(|_| Undone::Space)?;
        self.packet.bytes_mut().copy_within(n..n + at, 0);
        Ok(())
    }

    /// Takes `n` bytes out.
    fn remove(&mut self, at: usize, n: usize) {
        self.packet.bytes_mut().copy_within(0..at, n);
        self.pull(n);
    }

    /// Takes bytes off the front. What has become too short for Ethernet is filled up, as on a wire.
    fn pull(&mut self, n: usize) {
        let before = self.packet.len();
        self.packet.pull(n as u32);
        let missing = SHORTEST.min(before).saturating_sub(self.packet.len());
        // Without place for it, it goes on as it is.
        _ = self.packet.put(missing as u32);
    }

    /// Pushes a VLAN tag, with what the outermost one says.
    ///
    /// # Errors
    /// It would be too long.
    pub fn push_vlan(&mut self, kind: u16) -> Result<(), Undone> {
        if self.packet.len() < ETHERNET {
            return Ok(());
        }
        let old = &self.packet.bytes()[14..];
        let tag = if self.layout.tagged { [old[0], old[1]] } else { [0; 2] };
        self.insert(12, TAG)?;
        let bytes = self.packet.bytes_mut();
        bytes[12..14].copy_from_slice(&kind.to_be_bytes());
        bytes[14..16].copy_from_slice(&tag);
        self.renew();
        Ok(())
    }

    /// Takes the outermost VLAN tag off.
    pub fn pop_vlan(&mut self) {
        if self.layout.tagged {
            self.remove(12, TAG);
            self.renew();
        }
    }

    /// Pushes a label behind VLAN tags, with what the outermost one says, or the TTL of IP.
    ///
    /// # Errors
    /// It would be too long.
    pub fn push_mpls(&mut self, kind: u16) -> Result<(), Undone> {
        if self.packet.len() < ETHERNET {
            return Ok(());
        }
        let at = self.layout.kind_at + 2;
        let bytes = self.packet.bytes();
        let label = match (self.layout.mpls, self.ttl_at()) {
            (Some(old), _) => [bytes[old], bytes[old + 1], bytes[old + 2] & !1, bytes[old + 3]],
            (None, Some((_, _, ttl))) => [0, 0, 1, bytes[ttl]],
            (None, None) => [0, 0, 1, 0],
        };
        self.insert(at, LABEL)?;
        let bytes = self.packet.bytes_mut();
        bytes[at - 2..at].copy_from_slice(&kind.to_be_bytes());
        bytes[at..at + LABEL].copy_from_slice(&label);
        self.renew();
        Ok(())
    }

    /// Takes the outermost label off; what is below has an EtherType.
    pub fn pop_mpls(&mut self, kind: u16) {
        if let Some(at) = self.layout.mpls {
            self.remove(at, LABEL);
            self.packet.bytes_mut()[at - 2..at].copy_from_slice(&kind.to_be_bytes());
            self.renew();
        }
    }

    /// Pushes the tag of a provider backbone (IEEE 802.1ah), with the addresses and the service of what is inside.
    ///
    /// # Errors
    /// It would be too long.
    pub fn push_pbb(&mut self, kind: u16) -> Result<(), Undone> {
        if self.packet.len() < ETHERNET {
            return Ok(());
        }
        let (priority, service) = (self.key.get(Field::VlanPcp) as u8, self.key.get(Field::PbbIsid) as u32);
        self.packet.push(BACKBONE as u32).map_err(|_| Undone::Space)?;
        let bytes = self.packet.bytes_mut();
        bytes.copy_within(BACKBONE..BACKBONE + 12, 0);
        bytes[12..14].copy_from_slice(&kind.to_be_bytes());
        bytes[14..18].copy_from_slice(&service.to_be_bytes());
        bytes[14] = priority << 5;
        self.renew();
        Ok(())
    }

    /// Takes the tag of a provider backbone off.
    pub fn pop_pbb(&mut self) {
        let inside = self.layout.kind_at + 6;
        if self.key.get(Field::EthType) == parse::PBB.into() && self.packet.len() >= inside + ETHERNET {
            self.pull(inside);
            self.renew();
        }
    }

    /// Makes it easier to drop, by this much (RFC 2597: three levels of each class).
    pub fn remark(&mut self, levels: u8) {
        let dscp = self.key.get(Field::IpDscp) as u8;
        let (class, level) = (dscp >> 3, dscp >> 1 & 3);
        if (1..=4).contains(&class) && dscp & 1 == 0 && level > 0 {
            let level = level.saturating_add(levels).min(3);
            self.set_field(Field::IpDscp, (class << 3 | level << 1).into());
        }
    }
}

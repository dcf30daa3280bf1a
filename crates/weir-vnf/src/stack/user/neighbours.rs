//! Who is where on the link: ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_net::{Arp, EtherAddr, proto};
use weir_packet::Packet;

use super::wheel::Micros;
use super::{Config, wire};

/// Neighbours that are known or asked for at once.
const MOST: usize = 4096;
/// Packets that wait for one neighbour's address.
const WAITING: usize = 256;
/// How long an answer is awaited, and how often is asked.
const ANSWER: Micros = 1_000_000;
const ASKED: u32 = 3;
/// How long an answer holds; then the neighbour is asked again, and used until it does not answer.
const HOLDS: Micros = 30_000_000;

#[derive(Debug)]
pub(super) struct Neighbours {
    known: HashMap<IpAddr, Neighbour>,
    /// Those that were asked and have not answered.
    asked: Vec<IpAddr>,
}

#[derive(Debug, Default)]
struct Neighbour {
    ether: Option<EtherAddr>,
    waiting: Vec<Packet>,
    /// When it last answered.
    answered: Micros,
    /// Questions that it has not answered, and when the next is due.
    questions: u32,
    due: Micros,
}

impl Neighbours {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new(), asked: Vec::new() }
    }

    /// Sends an IP packet to a host or, if that is not on the link, to the gateway; once it is known where that is. A packet for which
    /// there is no way is lost: the result says so.
    pub(super) fn send(
        &mut self,
        config: &Config,
        mut packet: Packet,
        target: IpAddr,
        now: Micros,
        out: &mut Vec<Packet>,
    ) -> bool {
        let Some(hop) = config.hop(target) else { return false };
        if !self.has_space(hop, now) {
            return false;
        }
        let neighbour = self.known.entry(hop).or_default();
        if let Some(ether) = neighbour.ether {
            wire::address(&mut packet, ether, config.ether);
            out.push(packet);
        } else if neighbour.waiting.len() < WAITING {
            neighbour.waiting.push(packet);
        } else {
            return false;
        }
        let stale = neighbour.ether.is_none() || now >= neighbour.answered + HOLDS;
        if stale && neighbour.questions == 0 {
            neighbour.questions = 1;
            neighbour.due = now + ANSWER;
            out.extend(question(config, hop, neighbour.ether));
            self.asked.push(hop);
        }
        true
    }

    /// Whether one more may be known: for it, one that did not answer lately is forgotten.
    fn has_space(&mut self, address: IpAddr, now: Micros) -> bool {
        if self.known.len() < MOST || self.known.contains_key(&address) {
            return true;
        }
        let old = self.known.iter().filter(|(_, n)| n.questions == 0).min_by_key(|(_, n)| n.answered);
        match old.map(|(address, n)| (*address, n.answered)) {
            Some((address, answered)) if now >= answered + HOLDS => self.known.remove(&address).is_some(),
            _ => false,
        }
    }

    /// When somebody has to be asked again.
    pub(super) fn next(&self) -> Option<Micros> {
        self.asked.iter().filter_map(|a| self.known.get(a)).map(|n| n.due).min()
    }

    /// Asks again; returns packets to neighbours that do not answer.
    pub(super) fn poll(&mut self, config: &Config, now: Micros, out: &mut Vec<Packet>) -> Vec<Packet> {
        let mut lost = Vec::new();
        self.asked.retain(|address| {
            let Some(neighbour) = self.known.get_mut(address) else { return false };
            if neighbour.questions == 0 {
                return false;
            }
            if now < neighbour.due {
                return true;
            }
            if neighbour.questions >= ASKED {
                lost.append(&mut neighbour.waiting);
                self.known.remove(address);
                return false;
            }
            neighbour.questions += 1;
            neighbour.due = now + ANSWER;
            // To all, since it may have another Ethernet address by now.
            out.extend(question(config, *address, None));
            true
        });
        lost
    }

    /// A neighbour says where it is. Only those are remembered that were asked for, or (`asks`) want something themselves.
    fn learn(
        &mut self,
        config: &Config,
        address: IpAddr,
        ether: EtherAddr,
        asks: bool,
        now: Micros,
        out: &mut Vec<Packet>,
    ) {
        if ether.is_multicast() || !wire::is_host(address) || config.is_own(address) {
            return;
        }
        let is_new = asks && config.is_near(address) && self.has_space(address, now);
        if !is_new && !self.known.contains_key(&address) {
            return;
        }
        let neighbour = self.known.entry(address).or_default();
        (neighbour.ether, neighbour.answered, neighbour.questions) = (Some(ether), now, 0);
        for mut packet in std::mem::take(&mut neighbour.waiting) {
            wire::address(&mut packet, ether, config.ether);
            out.push(packet);
        }
    }

    /// Reads an ARP packet.
    pub(super) fn arp(
        &mut self,
        config: &Config,
        frame: &[u8],
        now: Micros,
        out: &mut Vec<Packet>,
    ) -> Option<()> {
        let arp = Arp::new(frame.get(wire::ETHERNET..)?).ok()?;
        let (sender, ether) = (arp.sender_ip(), arp.sender_ether());
        let ours = config.is_own(arp.target_ip().into());
        let asks = arp.operation() == 1 && ours;
        self.learn(config, sender.into(), ether, asks, now, out);
        if asks && config.share.member == 0 {
            out.extend(arp_packet(config, 2, arp.target_ip(), (ether, sender), ether));
        }
        Some(())
    }

    /// Reads a solicitation or an advertisement; `bytes` is the ICMPv6 message of a packet with hop limit 255.
    pub(super) fn discovery(
        &mut self,
        config: &Config,
        source: Ipv6Addr,
        bytes: &[u8],
        now: Micros,
        out: &mut Vec<Packet>,
    ) -> Option<()> {
        let target = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?);
        let link = link_address(bytes.get(24..)?, if bytes[0] == SOLICITATION { 1 } else { 2 });
        match bytes[0] {
            SOLICITATION if config.is_own(target.into()) => {
                // Without a source, somebody asks whether the address is in use (RFC 4862 5.4).
                let anonymous = source.is_unspecified();
                if let (Some(ether), false) = (link, anonymous) {
                    self.learn(config, source.into(), ether, true, now, out);
                }
                let to = if anonymous { Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1) } else { source };
                let ether = link.filter(|_| !anonymous).unwrap_or_else(|| wire::group(to));
                let flags = if anonymous { 0x20 } else { 0x60 };
                if config.share.member > 0 {
                    return Some(());
                }
                out.extend(advertisement(config, ADVERTISEMENT, flags, target, (target, to), ether));
            }
            ADVERTISEMENT => {
                // An answer to one's own question may leave the address out.
                let ether = link.or_else(|| self.known.get(&target.into())?.ether)?;
                self.learn(config, target.into(), ether, false, now, out);
            }
            _ => {}
        }
        Some(())
    }
}

pub(super) const SOLICITATION: u8 = 135;
pub(super) const ADVERTISEMENT: u8 = 136;

/// The option of this number that holds an Ethernet address.
fn link_address(mut options: &[u8], number: u8) -> Option<EtherAddr> {
    while let [kind, units, ..] = *options {
        let option = options.get(..8 * usize::from(units)).filter(|o| !o.is_empty())?;
        if kind == number {
            return Some(EtherAddr(option[2..8].try_into().ok()?));
        }
        options = &options[option.len()..];
    }
    None
}

/// Asks where a host is: it, if it was somewhere before, or all.
fn question(config: &Config, address: IpAddr, ether: Option<EtherAddr>) -> Option<Packet> {
    match (config.source(address)?, address) {
        (IpAddr::V4(own), IpAddr::V4(target)) => {
            let to = ether.unwrap_or(EtherAddr([0xff; 6]));
            arp_packet(config, 1, own, (EtherAddr([0; 6]), target), to)
        }
        (IpAddr::V6(own), IpAddr::V6(target)) => {
            let t = target.octets();
            let node = Ipv6Addr::new(
                0xff02,
                0,
                0,
                0,
                0,
                1,
                0xff00 | u16::from(t[13]),
                u16::from_be_bytes([t[14], t[15]]),
            );
            let to = if ether.is_some() { target } else { node };
            let ether = ether.unwrap_or_else(|| wire::group(node));
            advertisement(config, SOLICITATION, 0, target, (own, to), ether)
        }
        _ => None,
    }
}

fn arp_packet(
    config: &Config,
    operation: u16,
    own: Ipv4Addr,
    (ether, address): (EtherAddr, Ipv4Addr),
    to: EtherAddr,
) -> Option<Packet> {
    let frame = weir_net::build::arp(operation, (config.ether, own), (ether, address));
    let mut packet = Packet::from_bytes(&frame).ok()?;
    wire::address(&mut packet, to, config.ether);
    Some(packet)
}

/// A solicitation or an advertisement, which have one form.
fn advertisement(
    config: &Config,
    kind: u8,
    flags: u8,
    target: Ipv6Addr,
    (from, to): (Ipv6Addr, Ipv6Addr),
    ether: EtherAddr,
) -> Option<Packet> {
    let mut packet = wire::ip(from.into(), to.into(), proto::ICMPV6, 255, 32, |bytes| {
        (bytes[0], bytes[4]) = (kind, flags);
        bytes[8..24].copy_from_slice(&target.octets());
        (bytes[24], bytes[25]) = (if kind == SOLICITATION { 1 } else { 2 }, 1);
        bytes[26..32].copy_from_slice(&config.ether.octets());
        wire::sum_icmp(bytes, from.into(), to.into());
    })?;
    wire::address(&mut packet, ether, config.ether);
    Some(packet)
}

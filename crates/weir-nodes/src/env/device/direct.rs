//! Direct rings: all that the peer of one device sends, the peer of another one receives, past this process
//! ([`weir_io::memif::direct`] says how no packet is lost or overtaken).
//!
//! Graphs say which devices are to be joined; here is when. Two are joined as soon as both have a peer that knows direct rings, and
//! parted when no graph asks for it any more, when a graph is watched, and when a peer ends. Between these, packets go through the
//! graph, as they would without.

use std::time::Instant;

use weir_io::memif::MemifPort;
use weir_io::memif::direct::{DirectRing, MOST, Traffic};
use weir_ir::Reason;
use weir_protocol::DirectStatus;

use super::losses::{Loss, Sender};
use super::{Device, Devices};

/// How long the packets of a sender wait until the rest of its ring is taken, in nanoseconds. Then they go on: who does not take it sleeps,
/// or lies.
const PATIENCE: u64 = 1_000_000_000;
/// How long two are left alone after one of them gave the ring up by itself, in nanoseconds.
const PAUSE: u64 = 1_000_000_000;

/// Two devices that a graph wants joined: nothing else goes to `to`, and all that comes from `from` does, as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Join {
    /// The graph, by its number.
    pub graph: usize,
    /// The device whose peer sends.
    pub from: usize,
    /// The device whose peer receives.
    pub to: usize,
    /// Who sends to that one in the graph.
    pub sender: Sender,
}

/// How far two are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Packets go through the graph.
    Off {
        /// Until when they are to.
        until: u64,
    },
    /// Both have their ends; the last packets are on their way through the graph. A peer that sleeps holds this up for as long as it
    /// sleeps, and its packets wait: nothing is wrong with that.
    Opening {
        /// How long these are still waited for, if packets are to go through the graph again.
        until: Option<u64>,
    },
    /// Packets go directly.
    On,
    /// The sender is to send here again, the receiver to take the rest.
    Closing {
        /// How long the sender's packets wait for that.
        until: u64,
        /// Whether they do not any more.
        late: bool,
        /// Whether one of them wanted it so.
        alone: bool,
        /// Whether the receiver is still to get what had been sent before the ring was used.
        before: bool,
    },
}

impl Phase {
    /// Whether the receiver is still to get what had been sent before the ring was used, and is then to take from it.
    fn waits(self) -> bool {
        matches!(self, Phase::Opening { .. } | Phase::Closing { late: false, before: true, .. })
    }
}

/// Two devices, and the ring between their peers.
#[derive(Debug)]
struct Joint {
    join: Join,
    wanted: bool,
    phase: Phase,
    ring: Option<DirectRing>,
    /// The peers of sender and receiver when they got their ends; `None`: the device is closed.
    peers: [Option<u64>; 2],
    began: Instant,
    /// How long it took until the ring was used, the last time.
    micros: u64,
}

/// All that are joined, or are to be.
#[derive(Debug, Default)]
pub(super) struct Joints {
    list: Vec<Joint>,
    last: u32,
}

/// Counts of a device's peer over direct rings that are gone.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Past {
    sent: Traffic,
    received: Traffic,
}

impl Joint {
    fn new(join: Join) -> Joint {
        let phase = Phase::Off { until: 0 };
        Joint { join, wanted: true, phase, ring: None, peers: [None; 2], began: Instant::now(), micros: 0 }
    }

    fn id(&self) -> u32 {
        self.ring.as_ref().map_or(0, |ring| ring.id)
    }

    fn is(&self, join: &Join) -> bool {
        let Join { graph, from, to, sender: _ } = self.join;
        (graph, from, to) == (join.graph, join.from, join.to)
    }

    /// Whether the sender, or the receiver, has done with the ring.
    fn has_ended(&self, ports: &mut Ports<'_>, sends: bool) -> bool {
        let id = self.id();
        let Some(port) = self.port(ports, sends) else { return true };
        let reports = port.direct_reports();
        id == if sends { reports.sends_no_more } else { reports.receives_no_more }
    }

    /// The port of a side, while it has the peer that got its end.
    fn port<'p>(&self, ports: &'p mut Ports<'_>, sends: bool) -> Option<&'p mut MemifPort> {
        let peer = self.peers[usize::from(!sends)]?;
        let device = if sends { self.join.from } else { self.join.to };
        ports.get(device).filter(|port| port.peer() == Some(peer))
    }

    /// Whether all that the sender had sent before is taken.
    fn is_drained(&self, ports: &mut Ports<'_>) -> bool {
        let (Some(peer), id) = (self.peers[0], self.id()) else { return true };
        ports.get(self.join.from).is_none_or(|port| match port.peer() == Some(peer) {
            true => port.is_held() && port.direct_reports().switched == id,
            false => !port.has_rest(peer),
        })
    }

    /// Gives both their ends.
    fn open(&mut self, ports: &mut Ports<'_>, id: u32) -> bool {
        let Ok(mut ring) = DirectRing::new(id) else { return false };
        for (at, device, sends) in [(1, self.join.to, false), (0, self.join.from, true)] {
            let Some(port) = ports.get(device) else { return false };
            if port.give_direct(&mut ring, sends).is_err() {
                return false;
            }
            self.peers[at] = port.peer();
        }
        (self.ring, self.began) = (Some(ring), Instant::now());
        true
    }

    /// The next step, if it can be done now. `may`: whether packets may go directly.
    fn drive(&mut self, ports: &mut Ports<'_>, now: u64, may: bool) {
        let id = self.id();
        match self.phase {
            Phase::Off { .. } => {}
            Phase::Opening { until } => {
                let until = if may { None } else { Some(until.unwrap_or(now + PATIENCE)) };
                self.phase = Phase::Opening { until };
                if self.has_ended(ports, false) {
                    self.close(ports, now, true);
                } else if until.is_some() && self.is_drained(ports) || until.is_some_and(|t| now >= t) {
                    // What the sender sends from now on is not mixed with what it had sent before, unless that has been waited for
                    // long enough.
                    self.close(ports, now, false);
                } else if let Some(port) = self.port(ports, true)
                    && port.direct_reports().sends_no_more == id
                    && port.direct_reports().switched != id
                {
                    // It has never sent by it, and so nothing is waited for.
                    self.go(ports);
                    self.close(ports, now, true);
                }
            }
            Phase::On => {
                if self.has_ended(ports, true) || self.has_ended(ports, false) {
                    self.close(ports, now, true);
                } else if !may {
                    self.close(ports, now, false);
                }
            }
            Phase::Closing { until, late, alone, before } => {
                let over = self.has_ended(ports, true) && self.has_ended(ports, false);
                if !late && (over || now >= until) {
                    if let Some(port) = self.port(ports, true) {
                        port.release();
                    }
                    // The sender may go on by the ring all the same.
                    let id = self.id();
                    if let Some(port) = self.port(ports, false) {
                        port.stop_direct(id);
                    }
                    self.phase = Phase::Closing { until, late: true, alone, before };
                }
                // One that is late still takes, or sends, what is its own. They get no other ring before.
                if over {
                    self.phase = Phase::Off { until: if alone { now + PAUSE } else { 0 } };
                }
            }
        }
    }

    /// The receiver has got all else.
    fn go(&mut self, ports: &mut Ports<'_>) {
        let id = self.id();
        if let Some(port) = self.port(ports, false) {
            port.go_direct(id);
        }
    }

    fn close(&mut self, ports: &mut Ports<'_>, now: u64, alone: bool) {
        let id = self.id();
        if let Some(port) = self.port(ports, true) {
            port.stop_direct(id);
        }
        let before = matches!(self.phase, Phase::Opening { .. });
        self.phase = Phase::Closing { until: now + PATIENCE, late: false, alone, before };
    }
}

/// The ports of devices that can be joined.
struct Ports<'a>(&'a mut [Option<Device>]);

impl Ports<'_> {
    fn get(&mut self, device: usize) -> Option<&mut MemifPort> {
        self.0.get_mut(device)?.as_mut()?.port.as_mut()?.as_memif()
    }

    /// A device whose peer was known, unless it is closed: another one may have its number.
    fn device(&mut self, device: usize, peer: Option<u64>) -> Option<&mut Device> {
        peer.and_then(|_| self.0.get_mut(device)?.as_mut())
    }

    /// Whether a device has a peer that knows direct rings.
    fn is_ready(&mut self, device: usize) -> bool {
        self.get(device).is_some_and(|port| port.knows_direct() && port.peer().is_some())
    }
}

impl Devices {
    /// Says which devices are to be joined from now on; `used` are those that stay open.
    pub(super) fn join(&mut self, wanted: &[Join], used: &[usize]) {
        for joint in &mut self.joints.list {
            let same = wanted.iter().find(|join| joint.is(join));
            joint.wanted = same.is_some();
            joint.join = same.copied().unwrap_or(joint.join);
            for (peer, device) in joint.peers.iter_mut().zip([joint.join.from, joint.join.to]) {
                *peer = peer.filter(|_| used.contains(&device));
            }
        }
        for join in wanted {
            if !self.joints.list.iter().any(|joint| joint.is(join)) {
                self.joints.list.push(Joint::new(*join));
            }
        }
    }

    /// Whether any are joined, or are to be.
    pub fn has_joins(&self) -> bool {
        !self.joints.list.is_empty()
    }

    /// Whether packets go directly from the peer of one device to that of another.
    pub fn is_joined(&self, from: usize, to: usize) -> bool {
        let both = |joint: &&Joint| (joint.join.from, joint.join.to) == (from, to);
        self.joints.list.iter().filter(both).any(|joint| joint.phase == Phase::On)
    }

    /// Whether some are on their way from one state to another.
    pub fn are_joins_moving(&self) -> bool {
        let moves =
            |joint: &Joint| matches!(joint.phase, Phase::Opening { .. } | Phase::Closing { late: false, .. });
        self.joints.list.iter().any(moves)
    }

    /// Whether packets that have ended are to be counted.
    pub fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }

    /// Does what can be done now to join devices and to part them. `may`: whether packets of a graph may go directly.
    pub fn drive_joins(&mut self, now: u64, may: impl Fn(usize) -> bool) {
        let Devices { list, joints: Joints { list: all, last }, losses, .. } = self;
        let mut ports = Ports(list);
        for i in 0..all.len() {
            let Join { graph, from, to, sender } = all[i].join;
            let may = all[i].wanted && may(graph);
            if let Phase::Off { until } = all[i].phase {
                let is_off = |joint: &Joint| matches!(joint.phase, Phase::Off { .. });
                let free = |joint: &Joint| is_off(joint) || (joint.join.from != from && joint.join.to != to);
                let ready = may && now >= until && ports.is_ready(from) && ports.is_ready(to);
                if ready && all.iter().all(free) {
                    *last = last.checked_add(1).unwrap_or(1);
                    all[i].phase = match all[i].open(&mut ports, *last) {
                        true => Phase::Opening { until: None },
                        false => Phase::Off { until: now + PAUSE },
                    };
                } else if now >= until {
                    all[i].phase = Phase::Off { until: 0 };
                }
                continue;
            }
            all[i].drive(&mut ports, now, may);
            if let Phase::Off { .. } = all[i].phase
                && let Some(ring) = all[i].ring.take()
            {
                let (sent, received) = ring.traffic();
                let peers = all[i].peers;
                if let Some(device) = ports.device(from, peers[0]) {
                    device.past.sent = device.past.sent.and(sent);
                }
                if let Some(device) = ports.device(to, peers[1]) {
                    device.past.received = device.past.received.and(received);
                    let packets = sent.packets.saturating_sub(received.packets).min(MOST);
                    if packets > 0 {
                        let reason = Reason::new("DeviceDown");
                        losses.push(Loss { device: to, sender: Some(sender), reason, packets });
                    }
                }
            }
        }
        all.retain(|joint| joint.wanted || !matches!(joint.phase, Phase::Off { .. }));
    }

    /// The joins of which all packets that came before have left their device, and may be in the graph yet.
    pub fn drained_joins(&mut self) -> Vec<Join> {
        let Devices { list, joints, .. } = self;
        let mut ports = Ports(list);
        let waiting = joints.list.iter().filter(|joint| joint.phase.waits());
        waiting.filter(|joint| joint.is_drained(&mut ports)).map(|joint| joint.join).collect()
    }

    /// All packets of such a join have left the graph.
    pub fn has_passed(&mut self, join: &Join) {
        let Devices { list, joints, .. } = self;
        let mut ports = Ports(list);
        for joint in joints.list.iter_mut().filter(|joint| joint.is(join) && joint.phase.waits()) {
            joint.go(&mut ports);
            if let Phase::Closing { before, .. } = &mut joint.phase {
                *before = false;
                continue;
            }
            joint.phase = Phase::On;
            joint.micros = u64::try_from(joint.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        }
    }

    /// When a join has something to do, whatever happens.
    pub(super) fn joins_wake(&self) -> Option<u64> {
        let wake = |joint: &Joint| match joint.phase {
            Phase::Off { until: 0 } | Phase::On | Phase::Closing { late: true, .. } => None,
            Phase::Opening { until } => until,
            Phase::Off { until } | Phase::Closing { until, .. } => Some(until),
        };
        self.joints.list.iter().filter_map(wake).min()
    }

    /// What went past this process at a device.
    pub(super) fn direct_status(&self, id: usize) -> Option<DirectStatus> {
        let device = self.device(id)?;
        let (mut sent, mut received) = (device.past.sent, device.past.received);
        let (mut to, mut micros) = (None, 0);
        for joint in &self.joints.list {
            let traffic = joint.ring.as_ref().map(DirectRing::traffic).unwrap_or_default();
            if joint.join.from == id {
                sent = sent.and(traffic.0);
                micros = joint.micros;
                if joint.phase == Phase::On {
                    to = self.device(joint.join.to).map(|device| device.name.clone());
                }
            }
            if joint.join.to == id {
                received = received.and(traffic.1);
            }
        }
        let status = DirectStatus {
            to,
            sent_packets: sent.packets,
            sent_bytes: sent.bytes,
            received_packets: received.packets,
            received_bytes: received.bytes,
            micros,
        };
        (status != DirectStatus::default()).then_some(status)
    }
}

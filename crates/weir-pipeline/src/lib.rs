//! The pipeline of an OpenFlow 1.3 switch (section 5): tables of flows, groups, meters and ports. No I/O and no clock.
//!
//! Packets go in by [`Pipeline::receive`], what controllers ask by [`Pipeline::request`], time by [`Pipeline::tick`]. Out come
//! [`Effect`]s and [`Notification`]s, which whoever drives it carries out. A request has an effect at once, before the next packet: a
//! barrier has nothing to wait for.
//!
//! A table is searched by tuples ([`table`]), since controllers change thousands of entries a second while packets come: a change costs
//! what it touches, and a look at each mask that the table has.
//!
//! Section numbers are those of the specification (ONF TS-025).

#![forbid(unsafe_code)]

mod buffers;
mod check;
mod edit;
mod entry;
mod flows;
mod groups;
mod hash;
mod key;
mod learning;
mod meters;
mod parse;
mod ports;
mod replies;
mod requests;
mod run;
mod set;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use weir_net::EtherAddr;
use weir_openflow::Name;
use weir_openflow::connection::{Notification, Time};
use weir_openflow::flow::PacketIn;
use weir_openflow::message::{Features, PortStatus};
use weir_openflow::numbers::{Capabilities, MaxLen, PacketInReason, PortReason};
use weir_packet::Packet;

use buffers::Buffers;
use entry::Entry;
use groups::Group;
use learning::Learning;
use meters::Meter;
use ports::Port;
use table::{EntryId, Remembered, Table};

/// Most entries of all tables together.
pub const MAX_ENTRIES: usize = 200_000;
/// Most meters.
pub const MAX_METERS: usize = 4096;
/// More effects than this should not wait.
const MANY_EFFECTS: usize = 256;

/// Options of a switch.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its address, in the lower 48 bits.
    pub datapath: u64,
    /// What people call it.
    pub name: String,
    /// How many tables it has, 254 at most.
    pub tables: u8,
    /// Its version.
    pub version: String,
}

/// An effect outside of the pipeline, for the caller to bring about.
#[derive(Debug)]
pub enum Effect {
    /// A packet leaves.
    Send {
        /// At which port.
        port: u32,
        /// The packet.
        packet: Packet,
    },
    /// A packet is for the controllers: [`Pipeline::packet_in`] makes the message of it, once it is finished as on a wire.
    Controller {
        /// The packet.
        packet: Packet,
        /// Why they get it.
        upcall: Upcall,
    },
}

/// The reason and data that controllers get with a packet.
#[derive(Debug, Clone, Copy)]
pub struct Upcall {
    reason: PacketInReason,
    table: u8,
    cookie: u64,
    max_len: MaxLen,
    in_port: u32,
    metadata: u64,
    tunnel: u64,
}

/// Why packets ended here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drop {
    /// No entry of a table takes it, and there is none for such packets.
    NoEntry,
    /// Its entry says so: it has no output.
    Entry,
    /// A meter.
    Meter,
    /// Its TTL is over.
    Ttl,
    /// The port that it came in at takes none.
    PortDown,
    /// The port that it is to leave at is not there, or sends none.
    NoPort,
    /// No bucket of its group is live.
    NoBucket,
    /// It would have become too long.
    Space,
    /// It leads to more packets, or through more groups, than may be.
    Copies,
    /// The port that it was to leave at could not take it in time.
    PortFull,
}

/// The pipeline.
#[derive(Debug)]
pub struct Pipeline {
    options: Options,
    tables: Vec<Table>,
    remembered: Remembered,
    entries: FxHashMap<EntryId, Entry>,
    next_entry: EntryId,
    /// When entries are looked at next: each once. An entry that packets come for ends later than it says here.
    timeouts: BTreeSet<(Time, EntryId)>,
    groups: BTreeMap<u32, Group>,
    meters: BTreeMap<u32, Meter>,
    ports: BTreeMap<u32, Port>,
    buffers: Buffers,
    learning: Learning,
    standalone: bool,
    /// Whether an entry or a group ever had an action behind which hardware does not segment.
    wants_plain: bool,
    effects: Vec<Effect>,
    notifications: Vec<Notification>,
    drops: BTreeMap<Drop, u64>,
}

impl Pipeline {
    /// A switch without ports and entries.
    pub fn new(options: Options) -> Pipeline {
        let tables = options.tables.clamp(1, 254);
        Pipeline {
            tables: (0..tables).map(|_| Table::default()).collect(),
            options: Options { tables, ..options },
            remembered: Remembered::default(),
            entries: FxHashMap::default(),
            next_entry: 0,
            timeouts: BTreeSet::new(),
            groups: BTreeMap::new(),
            meters: BTreeMap::new(),
            ports: BTreeMap::new(),
            buffers: Buffers::default(),
            learning: Learning::default(),
            standalone: false,
            wants_plain: false,
            effects: Vec::new(),
            notifications: Vec::new(),
            drops: BTreeMap::new(),
        }
    }

    /// What controllers hear of it first.
    pub fn features(&self) -> Features {
        Features {
            datapath: self.options.datapath,
            n_buffers: buffers::MAX as u32,
            n_tables: self.options.tables,
            auxiliary: 0,
            capabilities: Capabilities::FLOW_STATS
                | Capabilities::TABLE_STATS
                | Capabilities::PORT_STATS
                | Capabilities::GROUP_STATS,
        }
    }

    /// Adds a port, or puts another one in its place.
    pub fn add_port(&mut self, number: u32, name: &str, address: EtherAddr, now: Time) {
        let port = Port::new(name, address, now);
        self.port_status(PortReason::Add, &port, number);
        self.ports.insert(number, port);
    }

    /// Takes a port away.
    pub fn remove_port(&mut self, number: u32) {
        if let Some(port) = self.ports.remove(&number) {
            self.learning.forget(number);
            self.port_status(PortReason::Delete, &port, number);
        }
    }

    /// The link of a port came or went.
    pub fn set_link(&mut self, number: u32, up: bool) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        if port.set_link(up) {
            let status = PortStatus { reason: PortReason::Modify, port: port.said(number) };
            self.notifications.push(Notification::PortStatus(status));
            if !up {
                self.learning.forget(number);
            }
        }
    }

    fn port_status(&mut self, reason: PortReason, port: &Port, number: u32) {
        let status = PortStatus { reason, port: port.said(number) };
        self.notifications.push(Notification::PortStatus(status));
    }

    /// Whether packets are forwarded as a switch without OpenFlow does it, whatever the tables say: without a controller, if that is
    /// wanted.
    pub fn set_standalone(&mut self, standalone: bool) {
        self.standalone = standalone;
    }

    /// Whether packets have to be finished before they come: actions put headers in front that hardware does not segment behind.
    pub fn wants_plain(&self) -> bool {
        self.wants_plain
    }

    /// Packets that a port was given and could not take.
    pub fn not_sent(&mut self, number: u32, packets: usize) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.tx.dropped += packets as u64;
        }
        *self.drops.entry(Drop::PortFull).or_default() += packets as u64;
    }

    /// Whether as much is to be done as should wait at most. Each packet and request adds about a thousand effects at most.
    pub fn is_loaded(&self) -> bool {
        self.effects.len() >= MANY_EFFECTS
    }

    /// What is to be done, in its order.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// What controllers are to hear.
    pub fn notifications(&mut self) -> Vec<Notification> {
        std::mem::take(&mut self.notifications)
    }

    /// How many packets ended here, by reason.
    pub fn drops(&self) -> &BTreeMap<Drop, u64> {
        &self.drops
    }

    /// How many entries there are.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// The message that brings a packet to the controllers. What is longer than they want to have at once is kept here.
    pub fn packet_in(&mut self, packet: Packet, upcall: Upcall) -> PacketIn {
        buffers::packet_in(&mut self.buffers, packet, upcall)
    }

    fn drop(&mut self, why: Drop) {
        *self.drops.entry(why).or_default() += 1;
    }

    /// What people call it, as a field of messages.
    fn name<const N: usize>(&self) -> Name<N> {
        Name::new(&self.options.name)
    }
}

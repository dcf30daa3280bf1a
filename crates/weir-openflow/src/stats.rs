//! What multipart messages hold (sections 7.3.5.1 to 7.3.5.15).

use weir_net::EtherAddr;

use crate::action::Instruction;
use crate::matching::Match;
use crate::meter::{Bucket, MeterBand};
use crate::numbers::{
    FlowModFlags, GroupCapabilities, GroupId, GroupType, MeterFlags, MeterId, PortConfig, PortFeatures,
    PortNo, PortState, QueueId, TableId,
};
use crate::wire::Name;

record! {
    /// What the switch is.
    => pub struct Desc {
        /// Who made it.
        manufacturer: Name<256>;
        /// The machine.
        hardware: Name<256>;
        /// The program.
        software: Name<256>;
        /// Its number.
        serial_number: Name<32>;
        /// What people call it.
        datapath: Name<256>;
    }
}

record! {
    /// Which entries are asked for.
    text crate::text::flow_stats_request =>
    pub struct FlowStatsRequest {
        /// Of which table.
        table: TableId, pad 3;
        /// Only those that send to this port.
        out_port: PortNo;
        /// Only those that send to this group.
        out_group: GroupId, pad 4;
        /// Only those with this cookie,
        cookie: u64;
        /// in these bits.
        cookie_mask: u64;
        /// Only those with these fields.
        matching: Match;
    }
}

impl FlowStatsRequest {
    /// All entries of a table, or of all.
    pub fn all(table: TableId) -> FlowStatsRequest {
        FlowStatsRequest {
            table,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            cookie: 0,
            cookie_mask: 0,
            matching: Match::default(),
        }
    }
}

record! {
    /// An entry, and what it did.
    sized 0 text crate::text::flow_stats =>
    pub struct FlowStats {
        @pad 2;
        /// In which table.
        table: TableId, pad 1;
        /// How long it is there: seconds,
        duration_sec: u32;
        /// and nanoseconds.
        duration_nsec: u32;
        /// Its priority.
        priority: u16;
        /// Its idle timeout, in seconds.
        idle_timeout: u16;
        /// Its hard timeout, in seconds.
        hard_timeout: u16;
        /// What it is.
        flags: FlowModFlags, pad 4;
        /// What the controller knows it by.
        cookie: u64;
        /// Packets that it took.
        packet_count: u64;
        /// Their bytes.
        byte_count: u64;
        /// Which packets.
        matching: Match;
        /// What is done to them.
        instructions: Vec<Instruction>;
    }
}

record! {
    /// Sums over entries.
    text crate::text::aggregate =>
    pub struct AggregateStats {
        /// Packets that they took.
        packet_count: u64;
        /// Their bytes.
        byte_count: u64;
        /// How many entries.
        flow_count: u32, pad 4;
    }
}

record! {
    /// What a table did.
    => pub struct TableStats {
        /// Which table.
        table: TableId, pad 3;
        /// Its entries.
        active_count: u32;
        /// Packets that were looked up.
        lookup_count: u64;
        /// Those that had an entry.
        matched_count: u64;
    }
}

record! {
    /// Of which port; `ANY`: of all.
    => pub struct PortRequest {
        /// The port.
        port: PortNo, pad 4;
    }
}

record! {
    /// What a port did.
    => pub struct PortStats {
        /// Which port.
        port: PortNo, pad 4;
        /// Packets received.
        rx_packets: u64;
        /// Packets sent.
        tx_packets: u64;
        /// Bytes received.
        rx_bytes: u64;
        /// Bytes sent.
        tx_bytes: u64;
        /// Received and dropped.
        rx_dropped: u64;
        /// Dropped before they were sent.
        tx_dropped: u64;
        /// Received with an error; the following three are a part of it.
        rx_errors: u64;
        /// Not sent for an error.
        tx_errors: u64;
        /// Frame alignment.
        rx_frame_err: u64;
        /// Overruns.
        rx_over_err: u64;
        /// Checksums.
        rx_crc_err: u64;
        /// Collisions.
        collisions: u64;
        /// How long it is there: seconds,
        duration_sec: u32;
        /// and nanoseconds.
        duration_nsec: u32;
    }
}

record! {
    /// Of which queue.
    => pub struct QueueRequest {
        /// Of which port; `ANY`: of all.
        port: PortNo;
        /// Which queue; `ALL`: all.
        queue: QueueId;
    }
}

record! {
    /// What a queue did.
    => pub struct QueueStats {
        /// Of which port.
        port: PortNo;
        /// Which queue.
        queue: QueueId;
        /// Bytes sent.
        tx_bytes: u64;
        /// Packets sent.
        tx_packets: u64;
        /// Packets dropped.
        tx_errors: u64;
        /// How long it is there: seconds,
        duration_sec: u32;
        /// and nanoseconds.
        duration_nsec: u32;
    }
}

record! {
    /// Of which group; `ALL`: of all.
    => pub struct GroupRequest {
        /// The group.
        group: GroupId, pad 4;
    }
}

record! {
    /// Counters of a group.
    sized 0 text crate::text::group_stats =>
    pub struct GroupStats {
        @pad 4;
        /// Which group.
        group: GroupId;
        /// Entries and groups that lead to it.
        ref_count: u32, pad 4;
        /// Packets that it took.
        packet_count: u64;
        /// Their bytes.
        byte_count: u64;
        /// How long it is there: seconds,
        duration_sec: u32;
        /// and nanoseconds.
        duration_nsec: u32;
        /// The same of its buckets.
        buckets: Vec<Counter>;
    }
}

record! {
    /// Of a bucket, or a band.
    => pub struct Counter {
        /// Packets.
        packet_count: u64;
        /// Bytes.
        byte_count: u64;
    }
}

record! {
    /// A group.
    sized 0 text crate::text::group_desc =>
    pub struct GroupDesc {
        @pad 2;
        /// Which buckets a packet takes.
        kind: GroupType, pad 1;
        /// Which group.
        group: GroupId;
        /// What it has.
        buckets: Vec<Bucket>;
    }
}

record! {
    /// What groups can. Of each type of group: all, select, indirect, fast failover.
    => pub struct GroupFeatures {
        /// Which types there are, a bit each.
        types: u32;
        /// What they can.
        capabilities: GroupCapabilities;
        /// How many groups.
        max_groups: [u32; 4];
        /// Which actions, a bit each.
        actions: [u32; 4];
    }
}

record! {
    /// Of which meter; `ALL`: of all.
    => pub struct MeterRequest {
        /// The meter.
        meter: MeterId, pad 4;
    }
}

record! {
    /// What a meter did.
    sized 4
    => pub struct MeterStats {
        /// Which meter.
        meter: MeterId, pad 8;
        /// Entries that use it.
        flow_count: u32;
        /// Packets that came.
        packet_in_count: u64;
        /// Their bytes.
        byte_in_count: u64;
        /// How long it is there: seconds,
        duration_sec: u32;
        /// and nanoseconds.
        duration_nsec: u32;
        /// Packets above the rates of its bands.
        bands: Vec<Counter>;
    }
}

record! {
    /// A meter.
    sized 0 text crate::text::meter_config =>
    pub struct MeterConfig {
        @pad 2;
        /// How it measures.
        flags: MeterFlags;
        /// Which meter.
        meter: MeterId;
        /// What it has.
        bands: Vec<MeterBand>;
    }
}

record! {
    /// What meters can.
    => pub struct MeterFeatureSet {
        /// How many.
        max_meter: u32;
        /// Which bands there are, a bit each.
        band_types: u32;
        /// How they measure, bits of [`MeterFlags`].
        capabilities: u32;
        /// Bands of a meter.
        max_bands: u8;
        /// Colors.
        max_color: u8, pad 2;
    }
}

record! {
    /// A port.
    text crate::text::port =>
    pub struct Port {
        /// Its number.
        port: PortNo, pad 4;
        /// Its address.
        hw_addr: EtherAddr, pad 2;
        /// Its name.
        name: Name<16>;
        /// What it is told.
        config: PortConfig;
        /// How it is.
        state: PortState;
        /// What it does now.
        current: PortFeatures;
        /// What it says that it can.
        advertised: PortFeatures;
        /// What it can.
        supported: PortFeatures;
        /// What the other side says that it can.
        peer: PortFeatures;
        /// Rate now, in kb/s.
        current_speed: u32;
        /// Highest rate, in kb/s.
        max_speed: u32;
    }
}

//! A switch that keeps what it is given, and forwards nothing.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_net::EtherAddr;
use weir_openflow::action::{Action, Instruction};
use weir_openflow::connection::{ConnectionId, Limits, RequestId, Switch, SwitchEvent};
use weir_openflow::error::{bad_request, flow_mod_failed, group_mod_failed, meter_mod_failed};
use weir_openflow::message::Features;
use weir_openflow::multipart::{MultipartReply, MultipartRequest, Part};
use weir_openflow::numbers::{
    Capabilities, FlowModCommand, GroupCapabilities, GroupModCommand, MeterModCommand, PortConfig,
    PortFeatures, PortState,
};
use weir_openflow::oxm::Field;
use weir_openflow::queue::QueueConfig;
use weir_openflow::stats::{
    AggregateStats, Counter, Desc, FlowStats, FlowStatsRequest, GroupDesc, GroupFeatures, GroupStats,
    MeterConfig, MeterFeatureSet, MeterStats, Port, PortStats, TableStats,
};
use weir_openflow::table_features::{FieldId, TableFeatures, TableProperty, TypeId};
use weir_openflow::{Bytes, ErrorCode, Message, Name, PortNo, TableId};

/// The switch's tables.
#[derive(Default)]
pub struct Tables {
    pub flows: Vec<FlowStats>,
    pub groups: Vec<GroupDesc>,
    pub meters: Vec<MeterConfig>,
    pub packets: usize,
}

fn ports() -> Vec<Port> {
    let port = |n: u32, name: &str| Port {
        port: PortNo(n),
        hw_addr: EtherAddr([2, 0, 0, 0, 0, n as u8]),
        name: Name::new(name),
        config: PortConfig::default(),
        state: PortState::LIVE,
        current: PortFeatures::GB_10_FD | PortFeatures::COPPER,
        advertised: PortFeatures::default(),
        supported: PortFeatures::default(),
        peer: PortFeatures::default(),
        current_speed: 10_000_000,
        max_speed: 10_000_000,
    };
    vec![port(1, "left"), port(2, "right")]
}

impl Tables {
    /// Does a request. `None`: there is no answer to it.
    fn serve(&mut self, message: Message) -> Result<Option<Message>, ErrorCode> {
        match message {
            Message::FlowMod(m) if m.table.0 > 1 && m.command == FlowModCommand::Add => {
                return Err(flow_mod_failed::BAD_TABLE_ID);
            }
            Message::FlowMod(m) => {
                let there = |f: &FlowStats| f.table == m.table || m.table == TableId::ALL;
                let same = |f: &FlowStats| there(f) && (f.priority, &f.matching) == (m.priority, &m.matching);
                match m.command {
                    FlowModCommand::Delete => self.flows.clear(),
                    FlowModCommand::Add => {
                        self.flows.retain(|f| !same(f));
                        self.flows.push(FlowStats {
                            table: m.table,
                            duration_sec: 1,
                            duration_nsec: 500_000_000,
                            priority: m.priority,
                            idle_timeout: m.idle_timeout,
                            hard_timeout: m.hard_timeout,
                            flags: m.flags,
                            cookie: m.cookie,
                            packet_count: 3,
                            byte_count: 180,
                            matching: m.matching,
                            instructions: m.instructions,
                        });
                    }
                    FlowModCommand::DeleteStrict => self.flows.retain(|f| !same(f)),
                    FlowModCommand::Modify | FlowModCommand::ModifyStrict => {
                        return Err(flow_mod_failed::BAD_COMMAND);
                    }
                }
            }
            Message::GroupMod(m) => match m.command {
                GroupModCommand::Add if self.groups.iter().any(|g| g.group == m.group) => {
                    return Err(group_mod_failed::GROUP_EXISTS);
                }
                GroupModCommand::Add => {
                    self.groups.push(GroupDesc { kind: m.kind, group: m.group, buckets: m.buckets });
                }
                _ => return Err(group_mod_failed::BAD_COMMAND),
            },
            Message::MeterMod(m) => match m.command {
                MeterModCommand::Add => {
                    self.meters.push(MeterConfig { flags: m.flags, meter: m.meter, bands: m.bands });
                }
                _ => return Err(meter_mod_failed::BAD_COMMAND),
            },
            Message::PacketOut(_) => self.packets += 1,
            Message::QueueGetConfigRequest(q) => {
                return Ok(Some(Message::QueueGetConfigReply(QueueConfig { port: q.port, queues: vec![] })));
            }
            Message::MultipartRequest(part) => {
                return self.tell(part.body).map(|body| Some(Message::MultipartReply(Part::of(body))));
            }
            _ => return Err(bad_request::BAD_TYPE),
        }
        Ok(None)
    }

    fn tell(&self, ask: MultipartRequest) -> Result<MultipartReply, ErrorCode> {
        let of =
            |table: TableId| self.flows.iter().filter(move |f| table == TableId::ALL || f.table == table);
        let asked = |r: &FlowStatsRequest| of(r.table).cloned().collect::<Vec<_>>();
        Ok(match ask {
            MultipartRequest::Desc => MultipartReply::Desc(Desc {
                manufacturer: Name::new("Weir"),
                hardware: Name::new("test"),
                software: Name::new("0.1"),
                serial_number: Name::new("1"),
                datapath: Name::new("a small switch"),
            }),
            MultipartRequest::Flow(r) => MultipartReply::Flow(asked(&r)),
            MultipartRequest::Aggregate(r) => {
                let flows = asked(&r);
                MultipartReply::Aggregate(AggregateStats {
                    packet_count: flows.iter().map(|f| f.packet_count).sum(),
                    byte_count: flows.iter().map(|f| f.byte_count).sum(),
                    flow_count: flows.len() as u32,
                })
            }
            MultipartRequest::Table => MultipartReply::Table(
                [0, 1]
                    .map(|n| TableStats {
                        table: TableId(n),
                        active_count: of(TableId(n)).count() as u32,
                        lookup_count: 11,
                        matched_count: 7,
                    })
                    .to_vec(),
            ),
            MultipartRequest::Port(_) => MultipartReply::Port(vec![PortStats {
                port: PortNo(1),
                rx_packets: 10,
                tx_packets: 20,
                rx_bytes: 30,
                tx_bytes: 40,
                rx_dropped: 0,
                tx_dropped: 0,
                rx_errors: 0,
                tx_errors: 0,
                rx_frame_err: 0,
                rx_over_err: 0,
                rx_crc_err: 0,
                collisions: 0,
                duration_sec: 5,
                duration_nsec: 0,
            }]),
            MultipartRequest::PortDesc => MultipartReply::PortDesc(ports()),
            MultipartRequest::Group(_) => MultipartReply::Group(
                self.groups
                    .iter()
                    .map(|g| GroupStats {
                        group: g.group,
                        ref_count: 0,
                        packet_count: 6,
                        byte_count: 600,
                        duration_sec: 2,
                        duration_nsec: 0,
                        buckets: g
                            .buckets
                            .iter()
                            .map(|_| Counter { packet_count: 3, byte_count: 300 })
                            .collect(),
                    })
                    .collect(),
            ),
            MultipartRequest::GroupDesc => MultipartReply::GroupDesc(self.groups.clone()),
            MultipartRequest::GroupFeatures => MultipartReply::GroupFeatures(GroupFeatures {
                types: 0b1111,
                capabilities: GroupCapabilities::SELECT_WEIGHT,
                max_groups: [16; 4],
                actions: [1; 4],
            }),
            MultipartRequest::MeterConfig(_) => MultipartReply::MeterConfig(self.meters.clone()),
            MultipartRequest::Meter(_) => MultipartReply::Meter(
                self.meters
                    .iter()
                    .map(|m| MeterStats {
                        meter: m.meter,
                        flow_count: 1,
                        packet_in_count: 4,
                        byte_in_count: 400,
                        duration_sec: 9,
                        duration_nsec: 0,
                        bands: m.bands.iter().map(|_| Counter { packet_count: 1, byte_count: 100 }).collect(),
                    })
                    .collect(),
            ),
            MultipartRequest::MeterFeatures => MultipartReply::MeterFeatures(MeterFeatureSet {
                max_meter: 5,
                band_types: 0b10,
                capabilities: 0b1111,
                max_bands: 1,
                max_color: 0,
            }),
            MultipartRequest::TableFeatures(to_be) if to_be.is_empty() => MultipartReply::TableFeatures(
                [0, 1]
                    .map(|n| TableFeatures {
                        table: TableId(n),
                        name: Name::new(["first", "second"][usize::from(n)]),
                        metadata_match: u64::MAX,
                        metadata_write: u64::MAX,
                        config: Default::default(),
                        max_entries: 100_000,
                        properties: table_properties(),
                    })
                    .to_vec(),
            ),
            MultipartRequest::Queue(_)
            | MultipartRequest::TableFeatures(_)
            | MultipartRequest::Experimenter(_) => {
                return Err(bad_request::BAD_MULTIPART);
            }
        })
    }
}

/// All that the protocol knows, with and without a mask.
fn table_properties() -> Vec<TableProperty> {
    let types = |kinds: &[(u16, &str)]| {
        let kinds = kinds.iter().filter(|(kind, _)| *kind != 0xffff);
        kinds.map(|(kind, _)| TypeId { kind: *kind, data: Bytes::default() }).collect::<Vec<_>>()
    };
    let fields =
        |masked| Field::ALL.iter().map(|f| FieldId::of(*f, masked && f.maskable())).collect::<Vec<_>>();
    vec![
        TableProperty::Instructions(types(Instruction::KINDS)),
        TableProperty::NextTables(vec![TableId(1)]),
        TableProperty::WriteActions(types(Action::KINDS)),
        TableProperty::ApplyActions(types(Action::KINDS)),
        TableProperty::Match(fields(true)),
        TableProperty::Wildcards(fields(false)),
        TableProperty::WriteSetField(fields(false)),
        TableProperty::ApplySetField(fields(false)),
    ]
}

/// Serves connections, several at a time, until it is asked to end.
pub fn serve(listener: &UnixListener, done: &AtomicBool) -> Tables {
    let mut tables = Tables::default();
    let capabilities = Capabilities::FLOW_STATS | Capabilities::GROUP_STATS;
    let features = Features { datapath: 0xfeed, n_buffers: 0, n_tables: 2, auxiliary: 0, capabilities };
    let mut switch = Switch::new(features, Limits::default());
    let mut streams: Vec<(ConnectionId, UnixStream)> = Vec::new();
    let start = Instant::now();
    while !done.load(Ordering::Relaxed) {
        let now = start.elapsed();
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).expect("a socket can be that");
            streams.push((switch.connect(now), stream));
        }
        let mut moved = false;
        streams.retain_mut(|(id, stream)| {
            let mut bytes = [0; 65536];
            match stream.read(&mut bytes) {
                Ok(0) => {
                    switch.disconnect(*id);
                    return false;
                }
                Ok(n) => {
                    moved = true;
                    assert_eq!(switch.receive(*id, &bytes[..n], now), n);
                }
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
            }
            true
        });
        switch.tick(now);
        while let Some(event) = switch.poll() {
            if let SwitchEvent::Request { id, message } = event {
                answer(&mut switch, id, tables.serve(message));
            }
        }
        for (id, stream) in &mut streams {
            if let Ok(written) = stream.write(switch.output(*id)) {
                moved |= written > 0;
                switch.sent(*id, written);
            }
        }
        if !moved {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    tables
}

fn answer(switch: &mut Switch, id: RequestId, done: Result<Option<Message>, ErrorCode>) {
    match done {
        Ok(message) => {
            message.into_iter().for_each(|m| switch.answer(id, m).expect("it fits"));
            switch.finish(id);
        }
        Err(code) => switch.fail(id, code),
    }
}

//! Answers to questions about what the switch has.

use weir_openflow::action::{Action, Instruction};
use weir_openflow::connection::Time;
use weir_openflow::error::{
    bad_request, group_mod_failed, meter_mod_failed, queue_op_failed, table_features_failed,
};
use weir_openflow::multipart::{MultipartReply, MultipartRequest};
use weir_openflow::numbers::{GroupCapabilities, QueueId, TableConfig};
use weir_openflow::oxm::Field;
use weir_openflow::stats::{
    AggregateStats, Desc, GroupFeatures, GroupStats, MeterFeatureSet, Port, PortStats, TableStats,
};
use weir_openflow::table_features::{FieldId, TableFeatures, TableProperty, TypeId};
use weir_openflow::{Bytes, ErrorCode, GroupId, MeterId, Name, PortNo, TableId};

use crate::groups::{MAX_GROUPS, leads};
use crate::meters::{MAX_BANDS, Meter};
use crate::{MAX_ENTRIES, MAX_METERS, Pipeline};

impl Pipeline {
    /// Answers a question.
    pub(crate) fn reply(&self, ask: MultipartRequest, now: Time) -> Result<MultipartReply, ErrorCode> {
        Ok(match ask {
            MultipartRequest::Desc => MultipartReply::Desc(Desc {
                manufacturer: Name::new("Weir"),
                hardware: Name::new("software"),
                software: Name::new(&self.options.version),
                serial_number: Name::new("none"),
                datapath: self.name(),
            }),
            MultipartRequest::Flow(r) => {
                MultipartReply::Flow(self.asked(&r)?.into_iter().map(|e| e.stats(now)).collect())
            }
            MultipartRequest::Aggregate(r) => {
                let entries = self.asked(&r)?;
                MultipartReply::Aggregate(AggregateStats {
                    packet_count: entries.iter().map(|e| e.packets).sum(),
                    byte_count: entries.iter().map(|e| e.bytes).sum(),
                    flow_count: entries.len() as u32,
                })
            }
            MultipartRequest::Table => MultipartReply::Table(self.table_stats()),
            MultipartRequest::Port(r) => MultipartReply::Port(self.port_stats(r.port, now)?),
            MultipartRequest::PortDesc => MultipartReply::PortDesc(self.said()),
            MultipartRequest::Queue(r) => {
                if r.port != PortNo::ANY && !self.ports.contains_key(&r.port.0) {
                    return Err(queue_op_failed::BAD_PORT);
                }
                if r.queue != QueueId::ALL {
                    return Err(queue_op_failed::BAD_QUEUE);
                }
                MultipartReply::Queue(Vec::new())
            }
            MultipartRequest::Group(r) => MultipartReply::Group(self.group_stats(r.group, now)?),
            MultipartRequest::GroupDesc => {
                MultipartReply::GroupDesc(self.groups.iter().map(|(id, g)| g.desc(*id)).collect())
            }
            MultipartRequest::GroupFeatures => MultipartReply::GroupFeatures(GroupFeatures {
                types: 0b1111,
                capabilities: GroupCapabilities::ALL,
                max_groups: [MAX_GROUPS as u32; 4],
                actions: [action_bits(); 4],
            }),
            MultipartRequest::Meter(r) => {
                let uses = self.uses(|p| p.meter.into_iter().collect());
                let stats = |(id, m): (u32, &Meter)| m.stats(id, uses.get(&id).copied().unwrap_or(0), now);
                MultipartReply::Meter(self.meters_of(r.meter)?.into_iter().map(stats).collect())
            }
            MultipartRequest::MeterConfig(r) => MultipartReply::MeterConfig(
                self.meters_of(r.meter)?.into_iter().map(|(id, m)| m.config(id)).collect(),
            ),
            MultipartRequest::MeterFeatures => MultipartReply::MeterFeatures(MeterFeatureSet {
                max_meter: MAX_METERS as u32,
                // Drop (1) and DSCP remark (2).
                band_types: 0b110,
                capabilities: 0b1111,
                max_bands: MAX_BANDS as u8,
                max_color: 0,
            }),
            MultipartRequest::TableFeatures(to_be) if to_be.is_empty() => MultipartReply::TableFeatures(
                (0..self.options.tables).map(|n| self.table_features(n)).collect(),
            ),
            // All tables can all.
            MultipartRequest::TableFeatures(_) => return Err(table_features_failed::EPERM),
            MultipartRequest::Experimenter(_) => return Err(bad_request::BAD_EXPERIMENTER),
        })
    }

    fn table_stats(&self) -> Vec<TableStats> {
        let stats = |(n, table): (usize, &crate::table::Table)| TableStats {
            table: TableId(n as u8),
            active_count: table.len() as u32,
            lookup_count: table.lookups,
            matched_count: table.matched,
        };
        self.tables.iter().enumerate().map(stats).collect()
    }

    fn port_stats(&self, port: PortNo, now: Time) -> Result<Vec<PortStats>, ErrorCode> {
        if port == PortNo::ANY {
            return Ok(self.ports.iter().map(|(n, p)| p.stats(*n, now)).collect());
        }
        let found = self.ports.get(&port.0).ok_or(bad_request::BAD_PORT)?;
        Ok(vec![found.stats(port.0, now)])
    }

    fn said(&self) -> Vec<Port> {
        self.ports.iter().map(|(n, p)| p.said(*n)).collect()
    }

    fn group_stats(&self, group: GroupId, now: Time) -> Result<Vec<GroupStats>, ErrorCode> {
        if group != GroupId::ALL && !self.groups.contains_key(&group.0) {
            return Err(group_mod_failed::UNKNOWN_GROUP);
        }
        let mut uses = self.uses(|p| leads(p.actions()).collect());
        for next in self.groups.values().flat_map(|g| g.buckets.iter()).flat_map(|b| leads(&b.actions)) {
            *uses.entry(next).or_default() += 1;
        }
        let asked = self.groups.iter().filter(|(id, _)| group == GroupId::ALL || **id == group.0);
        Ok(asked.map(|(id, g)| g.stats(*id, uses.get(id).copied().unwrap_or(0), now)).collect())
    }

    fn meters_of(&self, meter: MeterId) -> Result<Vec<(u32, &Meter)>, ErrorCode> {
        if meter == MeterId::ALL {
            return Ok(self.meters.iter().map(|(id, m)| (*id, m)).collect());
        }
        let found = self.meters.get(&meter.0).ok_or(meter_mod_failed::UNKNOWN_METER)?;
        Ok(vec![(meter.0, found)])
    }

    fn table_features(&self, table: u8) -> TableFeatures {
        let later: Vec<TableId> = (table + 1..self.options.tables).map(TableId).collect();
        let is_last = later.is_empty();
        let instructions =
            types(Instruction::KINDS.iter().filter(|(_, name)| !(is_last && *name == "goto_table")));
        let actions = || types(Action::KINDS.iter());
        let fields = |masked: bool| -> Vec<FieldId> {
            Field::ALL.iter().map(|f| FieldId::of(*f, masked && f.maskable())).collect()
        };
        let settable = || -> Vec<FieldId> {
            let no_header = [Field::InPort, Field::InPhyPort, Field::Metadata, Field::Ipv6Exthdr];
            Field::ALL.iter().filter(|f| !no_header.contains(f)).map(|f| FieldId::of(*f, false)).collect()
        };
        TableFeatures {
            table: TableId(table),
            name: Name::new(&format!("table {table}")),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            config: TableConfig::default(),
            max_entries: MAX_ENTRIES as u32,
            properties: vec![
                TableProperty::Instructions(instructions),
                TableProperty::NextTables(later),
                TableProperty::WriteActions(actions()),
                TableProperty::ApplyActions(actions()),
                TableProperty::Match(fields(true)),
                TableProperty::Wildcards(fields(false)),
                TableProperty::WriteSetField(settable()),
                TableProperty::ApplySetField(settable()),
            ],
        }
    }
}

/// The types of actions or instructions that there are; experimenters have none.
fn types<'a>(kinds: impl Iterator<Item = &'a (u16, &'static str)>) -> Vec<TypeId> {
    let known = kinds.filter(|(kind, _)| *kind != 0xffff);
    known.map(|(kind, _)| TypeId { kind: *kind, data: Bytes::default() }).collect()
}

/// All actions, a bit each.
fn action_bits() -> u32 {
    Action::KINDS.iter().filter(|(kind, _)| *kind < 32).fold(0, |bits, (kind, _)| bits | 1 << kind)
}

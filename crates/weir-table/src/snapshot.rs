//! The content of tables as plain data: for snapshots, migration and listing.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use weir_packet::{Layer, NoSpace, Packet};

use crate::decl::TableDecl;
use crate::row::Row;
use crate::set::{EntryRef, TableSet};
use crate::table::EditError;

/// A packet that an entry held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldPacket {
    /// With those in front that were stripped, and can come back.
    bytes: Vec<u8>,
    /// How many those are.
    #[serde(default)]
    stripped: u32,
    anno: Vec<u8>,
    /// Marks in the order of [`Layer::ALL`], counted from the first byte.
    marks: [Option<i64>; 4],
    timestamp: u64,
    in_port: u16,
    packet_type: u8,
    csum: u8,
    csum_start: i64,
    csum_offset: u16,
    gso: u8,
    gso_size: u16,
    #[serde(default)]
    provenance: u8,
}

impl HeldPacket {
    pub(crate) fn take(p: &Packet) -> HeldPacket {
        let rel = |at: u32| i64::from(at) - i64::from(p.data());
        let mut whole = p.copy();
        let stripped = p.data().saturating_sub(p.floor());
        let stripped = if whole.unpull(stripped).is_ok() { stripped } else { 0 };
        HeldPacket {
            bytes: whole.bytes().to_vec(),
            stripped,
            anno: p.anno.to_vec(),
            marks: [1, 2, 3, 4].map(|i| p.layer(Layer::ALL[i]).map(rel)),
            timestamp: p.timestamp,
            in_port: p.in_port,
            packet_type: p.packet_type,
            csum: p.csum,
            csum_start: rel(p.csum_start),
            csum_offset: p.csum_offset,
            gso: p.gso,
            gso_size: p.gso_size,
            provenance: p.provenance,
        }
    }

    pub(crate) fn make(&self) -> Result<Packet, NoSpace> {
        let mut p = Packet::from_bytes(&self.bytes)?;
        p.pull(self.stripped.min(self.bytes.len() as u32));
        let data = i64::from(p.data());
        for (layer, mark) in Layer::ALL[1..].iter().zip(self.marks) {
            let at = mark.and_then(|m| u32::try_from(m + data).ok());
            p.set_layer(*layer, at.filter(|&at| at >= p.floor() && at <= p.end()));
        }
        for (to, from) in p.anno.iter_mut().zip(&self.anno) {
            *to = *from;
        }
        p.timestamp = self.timestamp;
        p.in_port = self.in_port;
        p.packet_type = self.packet_type;
        p.provenance = self.provenance;
        let start = u32::try_from(self.csum_start.saturating_add(data)).unwrap_or(0);
        let partial_fits = start.saturating_add(u32::from(self.csum_offset) + 2) <= p.end();
        if self.csum != weir_packet::Checksum::Partial as u8 || partial_fits {
            p.csum = self.csum;
            p.csum_start = start;
            p.csum_offset = self.csum_offset;
            p.gso = self.gso;
            p.gso_size = self.gso_size;
        }
        Ok(p)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    row: Row,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held: Vec<HeldPacket>,
    /// The linked entry: table and entry number in the same snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<(usize, usize)>,
}

/// The content of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSnapshot {
    /// Whose table it is: element name and class, or the shared name.
    pub owner: String,
    /// Its declaration.
    pub decl: TableDecl,
    entries: Vec<Entry>,
}

/// The content of all tables of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SetSnapshot {
    /// One for each table.
    pub tables: Vec<TableSnapshot>,
}

impl SetSnapshot {
    /// The tables to whose owner and name `rename` gives an owner, as its. Links to entries of others end.
    #[must_use]
    pub fn select(self, rename: impl Fn(&str, &str) -> Option<String>) -> SetSnapshot {
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut tables = Vec::new();
        for (i, t) in self.tables.into_iter().enumerate() {
            if let Some(owner) = rename(&t.owner, &t.decl.name) {
                numbers.insert(i, tables.len());
                tables.push(TableSnapshot { owner, ..t });
            }
        }
        for e in tables.iter_mut().flat_map(|t| &mut t.entries) {
            e.link = e.link.and_then(|(table, entry)| Some((*numbers.get(&table)?, entry)));
        }
        SetSnapshot { tables }
    }

    /// Number of entries, and of packets that they hold.
    pub fn size(&self) -> (usize, usize) {
        let entries = self.tables.iter().flat_map(|t| &t.entries);
        entries.fold((0, 0), |(n, held), e| (n + 1, held + e.held.len()))
    }
}

/// A snapshot that does not fit.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A row cannot be inserted.
    #[error("snapshot of '{owner}'")]
    Row {
        /// Whose table it is.
        owner: String,
        /// Why.
        source: EditError,
    },
    /// A held packet is longer than any packet.
    #[error("snapshot of '{owner}' holds a packet that is too long")]
    Packet {
        /// Whose table it is.
        owner: String,
    },
    /// The table's key is not the snapshot's.
    #[error("snapshot of '{owner}': the key fields are not those of the table, {expected}")]
    Key {
        /// Whose table it is.
        owner: String,
        /// The table's key fields.
        expected: String,
    },
}

impl TableSet {
    /// The content of the tables as it is at `now`; `owner` names the owner of each table.
    pub fn snapshot(&self, now: u64, owner: impl Fn(u32) -> String) -> SetSnapshot {
        self.snapshot_of(0..self.len() as u32, now, owner)
    }

    /// The same of some tables, in that order. Links to entries of others are left out.
    pub fn snapshot_of(
        &self,
        which: impl IntoIterator<Item = u32>,
        now: u64,
        owner: impl Fn(u32) -> String,
    ) -> SetSnapshot {
        let mut numbers: HashMap<EntryRef, (usize, usize)> = HashMap::new();
        let mut tables = Vec::new();
        for t in which {
            let table = self.table(t);
            let mut entries = Vec::new();
            for (slot, mut row) in table.rows() {
                let expires = table.expiry(slot);
                row.ttl = (expires != 0).then(|| expires.saturating_sub(now).max(1));
                let e = EntryRef { table: t, slot };
                numbers.insert(e, (tables.len(), entries.len()));
                let held = table.held_packets(slot).map(HeldPacket::take).collect();
                entries.push((e, Entry { row, held, link: None }));
            }
            tables.push((owner(t), table.decl().clone(), entries));
        }
        let link = |e: EntryRef| numbers.get(&self.partner(e)?).copied();
        let linked = |(e, entry): (EntryRef, Entry)| Entry { link: link(e), ..entry };
        let tables = tables.into_iter().map(|(owner, decl, entries)| TableSnapshot {
            owner,
            decl,
            entries: entries.into_iter().map(linked).collect(),
        });
        SetSnapshot { tables: tables.collect() }
    }

    /// Puts snapshot content into the tables that `place` names (snapshot table number, table number): what was
    /// there is replaced. Value fields are matched by name; fields that the snapshot lacks are zero.
    pub fn restore(
        &mut self,
        from: &SetSnapshot,
        now: u64,
        place: &[(usize, u32)],
    ) -> Result<(), RestoreError> {
        let mut refs: HashMap<(usize, usize), EntryRef> = HashMap::new();
        for &(s, t) in place {
            let snap = &from.tables[s];
            let owner = || snap.owner.clone();
            let table = self.table_mut(t);
            if table.decl().key != snap.decl.key || table.decl().kind != snap.decl.kind {
                let expected = table.decl().key.iter().map(|f| format!("{}:{}", f.name, f.width.bits()));
                return Err(RestoreError::Key {
                    owner: owner(),
                    expected: expected.collect::<Vec<_>>().join(" "),
                });
            }
            table.clear();
            let fields: Vec<Option<u32>> =
                table.decl().value.iter().map(|f| snap.decl.value_field(&f.name)).collect();
            for (i, e) in snap.entries.iter().enumerate() {
                let value =
                    fields.iter().map(|f| f.and_then(|f| e.row.value.get(f as usize)).copied().unwrap_or(0));
                let row = Row { value: value.collect(), ..e.row.clone() };
                let slot = table
                    .insert_row(&row, now)
                    .map_err(|source| RestoreError::Row { owner: owner(), source })?;
                refs.insert((s, i), EntryRef { table: t, slot });
                for held in &e.held {
                    let packet = held.make().map_err(|_| RestoreError::Packet { owner: owner() })?;
                    // A table that holds fewer packets than the snapshot has keeps the oldest.
                    drop(table.hold(slot, packet));
                }
            }
        }
        for &(s, _) in place {
            for (i, e) in from.tables[s].entries.iter().enumerate() {
                let (Some(&a), Some(&b)) = (refs.get(&(s, i)), e.link.as_ref().and_then(|l| refs.get(l)))
                else {
                    continue;
                };
                self.link(a, b);
            }
        }
        self.arm_all();
        Ok(())
    }
}

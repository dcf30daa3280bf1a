//! What tables can (section 7.3.5.5).

use crate::choices::Choices;
use crate::error::DecodeError;
use crate::numbers::{TableConfig, TableId};
use crate::oxm;
use crate::wire::{Bytes, Name, Reader, Wire, set_length};

record! {
    /// What a table can.
    sized 0
    => pub struct TableFeatures {
        @pad 2;
        /// Which table.
        table: TableId, pad 5;
        /// Its name.
        name: Name<32>;
        /// Bits of the metadata that it can match.
        metadata_match: u64;
        /// Bits of the metadata that it can write.
        metadata_write: u64;
        /// Nothing but what older versions said.
        config: TableConfig;
        /// How many entries it holds.
        max_entries: u32;
        /// What it can, by kinds.
        properties: Vec<TableProperty>;
    }
}

choice! {
    /// A kind of what a table can. `Miss` kinds are those of the table-miss entry, where they are others.
    pub enum TableProperty: u16 {
        /// Instructions.
        0 "instructions" Instructions(Vec<TypeId>),
        /// Instructions of the table-miss entry.
        1 "instructions_miss" InstructionsMiss(Vec<TypeId>),
        /// Tables that it can go to.
        2 "next_tables" NextTables(Vec<TableId>),
        /// Tables that the table-miss entry can go to.
        3 "next_tables_miss" NextTablesMiss(Vec<TableId>),
        /// Actions of write-actions.
        4 "write_actions" WriteActions(Vec<TypeId>),
        /// Actions of write-actions of the table-miss entry.
        5 "write_actions_miss" WriteActionsMiss(Vec<TypeId>),
        /// Actions of apply-actions.
        6 "apply_actions" ApplyActions(Vec<TypeId>),
        /// Actions of apply-actions of the table-miss entry.
        7 "apply_actions_miss" ApplyActionsMiss(Vec<TypeId>),
        /// Fields that it can match.
        8 "match" Match(Vec<FieldId>),
        /// Fields that it can leave out.
        10 "wildcards" Wildcards(Vec<FieldId>),
        /// Fields that write-actions can set.
        12 "write_setfield" WriteSetField(Vec<FieldId>),
        /// Fields that write-actions of the table-miss entry can set.
        13 "write_setfield_miss" WriteSetFieldMiss(Vec<FieldId>),
        /// Fields that apply-actions can set.
        14 "apply_setfield" ApplySetField(Vec<FieldId>),
        /// Fields that apply-actions of the table-miss entry can set.
        15 "apply_setfield_miss" ApplySetFieldMiss(Vec<FieldId>),
        /// Something of an experimenter: number, kind, data.
        0xfffe "experimenter" Experimenter(Bytes),
        /// Something of an experimenter about the table-miss entry.
        0xffff "experimenter_miss" ExperimenterMiss(Bytes),
    }
}

tlv! { TableProperty, outside, type table_features_failed::BAD_TYPE, length table_features_failed::BAD_LEN }

/// A type of an action or instruction: its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeId {
    /// The type.
    pub kind: u16,
    /// The number of an experimenter, and what they put behind it; nothing for other types.
    pub data: Bytes,
}

impl Wire for TypeId {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.clone();
        let kind = r.u16()?;
        let length = usize::from(r.u16()?);
        let bad = crate::error::table_features_failed::BAD_LEN;
        let Some(length) = length.checked_sub(4) else {
            return Err(start.error(bad, format!("it says {length} bytes long, 4 are its header")));
        };
        Ok(TypeId { kind, data: Bytes::read(&mut r.part(length, bad)?)? })
    }
    fn write(&self, w: &mut Vec<u8>) {
        let start = w.len();
        w.extend(self.kind.to_be_bytes());
        w.extend([0; 2]);
        self.data.write(w);
        set_length(w, start, start + 2);
    }
    fn any(c: &mut Choices<'_>) -> Self {
        match c.below(8) {
            7 => TypeId { kind: 0xffff, data: Bytes((0..4).map(|_| c.byte()).collect()) },
            _ => TypeId { kind: c.byte().into(), data: Bytes::default() },
        }
    }
    fn text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.kind, self.data)
    }
}

/// A field: the header of its OXM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldId {
    /// Class (16 bits), number (7), whether with a mask (1), length (8).
    pub header: u32,
    /// The number of the experimenter, if the class is theirs.
    pub experimenter: Option<u32>,
}

impl FieldId {
    /// A field of the specification, with or without a mask.
    pub fn of(field: oxm::Field, masked: bool) -> FieldId {
        let length = field.bytes() as u32 * if masked { 2 } else { 1 };
        let number = u32::from(field.number()) << 1 | u32::from(masked);
        FieldId { header: u32::from(oxm::OPENFLOW_BASIC) << 16 | number << 8 | length, experimenter: None }
    }

    /// The field, if it is one of the specification.
    pub fn field(self) -> Option<oxm::Field> {
        let basic = self.header >> 16 == u32::from(oxm::OPENFLOW_BASIC);
        basic.then(|| oxm::Field::from_number((self.header >> 9 & 0x7f) as u8)).flatten()
    }
}

impl Wire for FieldId {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let header = r.u32()?;
        let theirs = header >> 16 == u32::from(oxm::EXPERIMENTER);
        Ok(FieldId { header, experimenter: if theirs { Some(r.u32()?) } else { None } })
    }
    fn write(&self, w: &mut Vec<u8>) {
        self.header.write(w);
        if self.header >> 16 == u32::from(oxm::EXPERIMENTER) {
            self.experimenter.unwrap_or(0).write(w);
        }
    }
    fn any(c: &mut Choices<'_>) -> Self {
        match c.below(8) {
            7 => FieldId { header: 0xffff_0000 | u32::from(c.byte()), experimenter: Some(u32::any(c)) },
            _ => FieldId::of(c.pick(oxm::Field::ALL), c.below(2) == 1),
        }
    }
    fn text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.field(), self.experimenter) {
            (Some(field), _) => f.write_str(field.name()),
            (None, Some(experimenter)) => write!(f, "{:#x}:{experimenter:#x}", self.header),
            (None, None) => write!(f, "{:#x}", self.header),
        }
    }
}

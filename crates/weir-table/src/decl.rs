//! What a table is: the part that programs, snapshots and the verifier agree on.

use serde::{Deserialize, Serialize};

/// Most entries a table may declare.
pub const MAX_CAPACITY: u32 = 1 << 26;

/// Size of a value in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Width {
    /// A truth value.
    W1,
    /// One byte.
    W8,
    /// Two bytes.
    W16,
    /// Four bytes.
    W32,
    /// Eight bytes.
    W64,
    /// Sixteen bytes.
    W128,
}

impl Width {
    /// All widths, smallest first.
    pub const ALL: [Width; 6] = [Width::W1, Width::W8, Width::W16, Width::W32, Width::W64, Width::W128];

    /// Number of bits.
    pub fn bits(self) -> u32 {
        match self {
            Width::W1 => 1,
            Width::W8 => 8,
            Width::W16 => 16,
            Width::W32 => 32,
            Width::W64 => 64,
            Width::W128 => 128,
        }
    }

    /// Number of bytes in a packet or a table row (a bit takes one).
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// The largest value.
    pub fn max(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }

    /// The width with that many bits.
    pub fn from_bits(bits: u32) -> Option<Width> {
        Width::ALL.into_iter().find(|w| w.bits() == bits)
    }
}

impl From<Width> for u8 {
    fn from(w: Width) -> u8 {
        w.bits() as u8
    }
}

impl TryFrom<u8> for Width {
    type Error = String;
    fn try_from(bits: u8) -> Result<Width, String> {
        Width::from_bits(bits.into())
            .ok_or_else(|| format!("{bits} bits: a width is 1, 8, 16, 32, 64 or 128"))
    }
}

/// The kind of a table: how it finds an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// By equal key.
    Exact,
    /// By the longest prefix of its single key field. Programs read the entries; only the control side changes them.
    Lpm,
    /// By the first of prioritised rows whose every field matches (value and mask, or range).
    Rules,
    /// By index; all entries exist from the start, with zeros.
    Array,
}

/// The sharing of a table among workers, as its element's author sees it: for who reads the declaration, and for passes. The engine
/// finds out from the programs which tables may exist for each worker, and shares the others whatever stands here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Each worker has its own.
    #[default]
    Local,
    /// All read, the control side writes.
    ReadMostly,
    /// All read and write, atomically for each key.
    Shared,
    /// An entry belongs to one flow.
    Owner,
}

/// A field of a key or a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDecl {
    /// Name, unique in the table.
    pub name: String,
    /// Size.
    pub width: Width,
}

/// The declaration of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDecl {
    /// Name, unique in its element.
    pub name: String,
    /// How entries are found.
    pub kind: Kind,
    /// Key fields. An array has one, its index.
    pub key: Vec<FieldDecl>,
    /// Value fields.
    pub value: Vec<FieldDecl>,
    /// Most entries at a time; an array has exactly so many.
    pub capacity: u32,
    /// Packets that one entry may hold.
    #[serde(default)]
    pub held: u32,
    /// Value field by which entries are counted (a group is the entries with the same value in it).
    #[serde(default)]
    pub group: Option<u32>,
    /// How workers share it.
    #[serde(default)]
    pub sharing: Sharing,
    /// The content follows from the element's parameters, so a hot swap does not carry it over.
    #[serde(default)]
    pub configured: bool,
    /// Beside that, entries count: a hot swap carries them over where the element's parameters stay the same.
    #[serde(default)]
    pub counts: bool,
    /// If set, all elements of the graph that declare a table of this name use one table.
    #[serde(default)]
    pub shared_name: Option<String>,
}

/// A declaration that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table '{table}': {what}")]
pub struct DeclError {
    /// The table's name.
    pub table: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl TableDecl {
    /// A table without groups, held packets or sharing; fields as (name, width).
    pub fn new(
        name: &str,
        kind: Kind,
        key: &[(&str, Width)],
        value: &[(&str, Width)],
        capacity: u32,
    ) -> TableDecl {
        let fields = |list: &[(&str, Width)]| {
            list.iter().map(|&(name, width)| FieldDecl { name: name.into(), width }).collect()
        };
        TableDecl {
            name: name.into(),
            kind,
            key: fields(key),
            value: fields(value),
            capacity,
            held: 0,
            group: None,
            sharing: Sharing::Local,
            configured: false,
            counts: false,
            shared_name: None,
        }
    }

    /// Most bytes that an entry takes, without packets that it holds: its row, what finds it and its timer; an estimate for
    /// prefixes and rules.
    pub fn entry_bytes(&self) -> u64 {
        let row = crate::layout::Layout::of(self).stride as u64;
        row + match self.kind {
            Kind::Array => 0,
            // A quarter of the cells of small tables is in use at most, and a timer is a number in a ring.
            Kind::Exact => 4 * 8 + 16,
            Kind::Lpm => row + 64,
            Kind::Rules => 256,
        }
    }

    /// Lets each entry hold up to `packets`.
    pub fn holding(mut self, packets: u32) -> TableDecl {
        self.held = packets;
        self
    }

    /// Counts entries by a value field.
    pub fn grouped_by(mut self, field: &str) -> TableDecl {
        self.group = self.value_field(field);
        self
    }

    /// Says that the content follows from the element's parameters.
    pub fn configured(mut self) -> TableDecl {
        self.configured = true;
        self
    }

    /// Says that entries follow from the element's parameters, and count.
    pub fn counting(mut self) -> TableDecl {
        self.counts = true;
        self.configured()
    }

    /// Sets how workers share the table.
    pub fn sharing(mut self, sharing: Sharing) -> TableDecl {
        self.sharing = sharing;
        self
    }

    /// In what it is not as one whose content it is to get: how entries are found, and the fields of keys and values. What else is declared may differ.
    pub fn differs(&self, from: &TableDecl) -> Option<String> {
        if self.kind != from.kind {
            return Some(format!("it is of kind {:?}, and was {:?}", self.kind, from.kind).to_lowercase());
        }
        let both = [("key", &self.key, &from.key), ("value", &self.value, &from.value)];
        let (what, now, before) = both.into_iter().find(|(_, now, before)| now != before)?;
        let shown = |fields: &[FieldDecl]| {
            let fields: Vec<String> =
                fields.iter().map(|f| format!("{}:{}", f.name, f.width.bits())).collect();
            if fields.is_empty() { "nothing".to_owned() } else { fields.join(" ") }
        };
        Some(format!("its {what} is {}, and was {}", shown(now), shown(before)))
    }

    /// Whether it is one row that is always there, such as a count.
    pub fn is_cell(&self) -> bool {
        self.kind == Kind::Array && self.capacity == 1
    }

    /// Number of a value field.
    pub fn value_field(&self, name: &str) -> Option<u32> {
        self.value.iter().position(|f| f.name == name).map(|i| i as u32)
    }

    /// Checks that the declaration can be built.
    pub fn check(&self) -> Result<(), DeclError> {
        let err = |what: String| Err(DeclError { table: self.name.clone(), what });
        if self.capacity == 0 || self.capacity > MAX_CAPACITY {
            return err(format!("capacity {} must be between 1 and {MAX_CAPACITY}", self.capacity));
        }
        if self.key.is_empty() || self.key.len() > 16 || self.value.len() > 64 {
            return err("a table has 1 to 16 key fields and at most 64 value fields".into());
        }
        if matches!(self.kind, Kind::Lpm | Kind::Array) && self.key.len() != 1 {
            return err("this kind of table has exactly one key field".into());
        }
        if self.kind == Kind::Array && self.held > 0 {
            return err("entries of an array cannot hold packets".into());
        }
        for (i, f) in self.key.iter().chain(&self.value).enumerate() {
            if self.key.iter().chain(&self.value).take(i).any(|g| g.name == f.name) {
                return err(format!("two fields are named '{}'", f.name));
            }
        }
        match self.group {
            Some(g) if g as usize >= self.value.len() => err(format!("group field {g} does not exist")),
            _ => Ok(()),
        }
    }
}

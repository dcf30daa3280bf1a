//! Match fields (section 7.2.3.7): one table says all of them.

mod field;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_net::EtherAddr;

pub use field::{Field, Form, Prerequisite};

use crate::choices::Choices;
use crate::error::{DecodeError, ErrorCode, ValueError, bad_match};
use crate::wire::{Bytes, Reader, Wire};

/// The class of the fields that the specification defines.
pub const OPENFLOW_BASIC: u16 = 0x8000;
/// The class of experimenters' fields, whose number follows the header.
pub const EXPERIMENTER: u16 = 0xffff;

/// A match field: of the specification, with its value, or of another class, which is passed on as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Oxm {
    /// A field of the specification.
    Basic(FieldValue),
    /// A field of an experimenter, or of the classes that Nicira defined.
    Other(OtherField),
}

/// A field of the specification and its value, which fits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldValue {
    field: Field,
    value: u128,
    mask: Option<u128>,
}

/// A field of another class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OtherField {
    class: u16,
    /// The number in the class, 7 bits.
    field: u8,
    masked: bool,
    /// Experimenter if the class is theirs, value, mask: 255 bytes at most.
    body: Bytes,
}

impl FieldValue {
    /// A field with a value.
    ///
    /// # Errors
    /// If the value has more bits than the field.
    pub fn new(field: Field, value: impl Into<Value>) -> Result<FieldValue, ValueError> {
        FieldValue::checked(field, value.into().0, None)
    }

    /// A field of which only the bits of a mask count.
    ///
    /// # Errors
    /// If value or mask has more bits than the field, or the value has bits that the mask leaves out.
    pub fn masked(
        field: Field,
        value: impl Into<Value>,
        mask: impl Into<Value>,
    ) -> Result<FieldValue, ValueError> {
        FieldValue::checked(field, value.into().0, Some(mask.into().0))
    }

    fn checked(field: Field, value: u128, mask: Option<u128>) -> Result<FieldValue, ValueError> {
        let wrong = |code, what| Err(ValueError { field: field.name(), what, code });
        let most = field.all_bits();
        if value > most {
            return wrong(bad_match::BAD_VALUE, format!("{value:#x} has more than {} bits", field.bits()));
        }
        match mask {
            Some(mask) if mask > most => {
                wrong(bad_match::BAD_MASK, format!("the mask {mask:#x} has more than {} bits", field.bits()))
            }
            Some(mask) if value & !mask != 0 => wrong(
                bad_match::BAD_WILDCARDS,
                format!("{value:#x} has bits that the mask {mask:#x} leaves out; they have to be 0"),
            ),
            _ => Ok(FieldValue { field, value, mask }),
        }
    }

    /// Which field.
    pub fn field(&self) -> Field {
        self.field
    }

    /// Its value; bits that the mask leaves out are 0.
    pub fn value(&self) -> u128 {
        self.value
    }

    /// The same without a mask that leaves out nothing; `None` if no bit counts.
    pub fn normal(self) -> Option<FieldValue> {
        match self.mask {
            Some(0) => None,
            Some(mask) if mask == self.field.all_bits() => Some(FieldValue { mask: None, ..self }),
            _ => Some(self),
        }
    }

    /// Which bits count, if not all do.
    pub fn mask(&self) -> Option<u128> {
        self.mask
    }
}

impl OtherField {
    /// A field of another class, as it is on the wire behind its header.
    ///
    /// # Errors
    /// If the class is that of the specification, the number has more than 7 bits, the body more than 255 bytes, or that of an
    /// experimenter fewer than 4.
    pub fn new(class: u16, field: u8, masked: bool, body: &[u8]) -> Result<OtherField, ValueError> {
        let wrong =
            |what: &str| Err(ValueError { field: "oxm", what: what.to_owned(), code: bad_match::BAD_LEN });
        if class == OPENFLOW_BASIC {
            return wrong("class 0x8000 is that of the specification's fields");
        }
        if field > 0x7f || body.len() > 255 {
            return wrong("a number has 7 bits, a body 255 bytes at most");
        }
        if class == EXPERIMENTER && body.len() < 4 {
            return wrong("the body of an experimenter's field starts with its four bytes");
        }
        Ok(OtherField { class, field, masked, body: Bytes(body.to_vec()) })
    }

    /// Its class.
    pub fn class(&self) -> u16 {
        self.class
    }

    /// Its number in the class.
    pub fn field(&self) -> u8 {
        self.field
    }

    /// What is behind the header: the experimenter in class 0xffff, the value, the mask if there is one.
    pub fn body(&self) -> &[u8] {
        &self.body.0
    }
}

/// A number, or an address as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value(pub u128);

macro_rules! values {
    ($($t:ty => |$v:ident| $e:expr;)*) => {
        $(impl From<$t> for Value { fn from($v: $t) -> Value { Value($e) } })*
    };
}

values! {
    u8 => |v| v.into();
    u16 => |v| v.into();
    u32 => |v| v.into();
    u64 => |v| v.into();
    u128 => |v| v;
    crate::PortNo => |v| v.0.into();
    Ipv4Addr => |v| u32::from(v).into();
    Ipv6Addr => |v| v.into();
    EtherAddr => |v| v.0.iter().fold(0, |n, &b| n << 8 | u128::from(b));
}

impl Wire for Oxm {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.clone();
        let class = r.u16()?;
        let number = u8::read(r)?;
        let (masked, number) = (number & 1 != 0, number >> 1);
        let length = usize::from(u8::read(r)?);
        let mut body = r.part(length, bad_match::BAD_LEN)?;
        let wrong = |code: ErrorCode, what: String| Err(start.error(code, what));
        if class != OPENFLOW_BASIC {
            return match OtherField::new(class, number, masked, body.rest()) {
                Ok(other) => Ok(Oxm::Other(other)),
                Err(e) => wrong(e.code, e.what),
            };
        }
        let Some(field) = Field::from_number(number) else {
            return wrong(
                bad_match::BAD_FIELD,
                format!("field {number} is none of 0 to {}", Field::ALL.len() - 1),
            );
        };
        let right = field.bytes() * if masked { 2 } else { 1 };
        if length != right {
            return wrong(bad_match::BAD_LEN, format!("{} has {right} bytes, not {length}", field.name()));
        }
        let mut number = || -> Result<u128, DecodeError> {
            Ok(body.take(field.bytes())?.iter().fold(0, |n, &b| n << 8 | u128::from(b)))
        };
        let (value, mask) = (number()?, if masked { Some(number()?) } else { None });
        FieldValue::checked(field, value, mask).map(Oxm::Basic).or_else(|e| wrong(e.code, e.to_string()))
    }

    fn write(&self, w: &mut Vec<u8>) {
        let mut header = |class: u16, number: u8, masked: bool, length: usize| {
            w.extend(class.to_be_bytes());
            w.extend([number << 1 | u8::from(masked), length as u8]);
        };
        match self {
            Oxm::Basic(FieldValue { field, value, mask }) => {
                let bytes = field.bytes();
                header(
                    OPENFLOW_BASIC,
                    field.number(),
                    mask.is_some(),
                    bytes * if mask.is_some() { 2 } else { 1 },
                );
                for number in [Some(*value), *mask].into_iter().flatten() {
                    w.extend(&number.to_be_bytes()[16 - bytes..]);
                }
            }
            Oxm::Other(other) => {
                header(other.class, other.field, other.masked, other.body.0.len());
                w.extend(&other.body.0);
            }
        }
    }

    fn any(c: &mut Choices<'_>) -> Self {
        if c.below(8) == 7 {
            let class = c.pick(&[0, 1, EXPERIMENTER]);
            let body: Vec<u8> = (0..4 + c.below(20)).map(|_| c.byte()).collect();
            let field =
                OtherField { class, field: c.byte() >> 1, masked: c.below(2) == 1, body: Bytes(body) };
            return Oxm::Other(field);
        }
        let field = c.pick(Field::ALL);
        Oxm::Basic(FieldValue::any_of(field, c))
    }

    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FieldValue {
    /// The same VLAN, with a tag.
    pub(crate) fn tagged(self) -> FieldValue {
        FieldValue { value: self.value | 0x1000, mask: self.mask.map(|mask| mask | 0x1000), ..self }
    }

    /// A value of this field without a mask that choices lead to.
    pub(crate) fn any_exact(field: Field, c: &mut Choices<'_>) -> FieldValue {
        FieldValue { field, value: c.number(field.bits()), mask: None }
    }

    /// A value of this field that choices lead to.
    pub(crate) fn any_of(field: Field, c: &mut Choices<'_>) -> FieldValue {
        let value = c.number(field.bits());
        let mask = (field.maskable() && c.below(3) == 0).then(|| c.number(field.bits()));
        FieldValue { field, value: value & mask.unwrap_or(u128::MAX), mask }
    }
}

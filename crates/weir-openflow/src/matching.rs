//! A match: fields, each once and behind what it needs (section 7.2.3).

use std::fmt;

use crate::choices::Choices;
use crate::describe::to_eight;
use crate::error::{DecodeError, ErrorCode, ValueError, bad_match};
use crate::oxm::{Field, FieldValue, Oxm, Prerequisite, Value};
use crate::wire::{Reader, Wire, set_length};

/// The type of a match of OXM fields; the other one is of OpenFlow 1.0.
const OXM: u16 = 1;
/// The bit of `VLAN_VID` that says that there is a tag.
const VLAN_PRESENT: u128 = 0x1000;

/// Which packets, by their fields. Empty: all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Match {
    fields: Vec<Oxm>,
}

impl Match {
    /// All packets.
    pub fn any_packet() -> Match {
        Match::default()
    }

    /// A match of these fields.
    ///
    /// # Errors
    /// As [`Match::check`].
    pub fn new(fields: Vec<Oxm>) -> Result<Match, ValueError> {
        let matching = Match { fields };
        matching.check().map(|()| matching)
    }

    /// A match of these fields, whatever they are: for a switch that is known to take more than the specification says, as Open
    /// vSwitch takes masks of ports.
    pub fn unchecked(fields: Vec<Oxm>) -> Match {
        Match { fields }
    }

    /// This match, and a field more.
    ///
    /// # Errors
    /// If the value does not fit the field, the field is there already, or what it needs is not there.
    pub fn with(mut self, field: Field, value: impl Into<Value>) -> Result<Match, ValueError> {
        self.fields.push(Oxm::Basic(FieldValue::new(field, value)?));
        self.check().map(|()| self)
    }

    /// This match, and a field more with a mask.
    ///
    /// # Errors
    /// As [`Match::with`]; if the field has no masks.
    pub fn with_masked(
        mut self,
        field: Field,
        value: impl Into<Value>,
        mask: impl Into<Value>,
    ) -> Result<Match, ValueError> {
        self.fields.push(Oxm::Basic(FieldValue::masked(field, value, mask)?));
        self.check().map(|()| self)
    }

    /// The fields, in their order.
    pub fn fields(&self) -> &[Oxm] {
        &self.fields
    }

    /// A field of the specification, if the match has it.
    pub fn get(&self, field: Field) -> Option<&FieldValue> {
        self.basic().find(|v| v.field() == field)
    }

    /// The fields of the specification.
    pub fn basic(&self) -> impl Iterator<Item = &FieldValue> {
        self.fields.iter().filter_map(|oxm| match oxm {
            Oxm::Basic(value) => Some(value),
            Oxm::Other(_) => None,
        })
    }

    /// The same match in the form that all matches of the same packets have: fields in the order of their numbers, without
    /// masks that leave out nothing, and without fields of which nothing counts. Fields of other classes come last, as they are.
    pub fn normal(&self) -> Match {
        let mut fields: Vec<Oxm> = self
            .fields
            .iter()
            .filter_map(|oxm| match oxm {
                Oxm::Basic(value) => value.normal().map(Oxm::Basic),
                Oxm::Other(_) => Some(oxm.clone()),
            })
            .collect();
        fields.sort_by_key(|oxm| match oxm {
            Oxm::Basic(value) => (0, u16::from(value.field().number())),
            Oxm::Other(other) => (1 + u32::from(other.class()), u16::from(other.field())),
        });
        Match { fields }
    }

    /// Whether a table may take this: each field once, masks where there may be some, and behind what it needs
    /// (sections 7.2.3.5 and 7.2.3.6).
    ///
    /// # Errors
    /// The first field that is not right, with the code for it.
    pub fn check(&self) -> Result<(), ValueError> {
        self.check_each().map_err(|(_, e)| e)
    }

    /// The same, with the number of the field.
    fn check_each(&self) -> Result<(), (usize, ValueError)> {
        let mut seen = 0_u64;
        for (i, oxm) in self.fields.iter().enumerate() {
            let Oxm::Basic(value) = oxm else { continue };
            let field = value.field();
            let wrong =
                |code: ErrorCode, what: String| Err((i, ValueError { field: field.name(), what, code }));
            if seen & 1 << field.number() != 0 {
                return wrong(bad_match::DUP_FIELD, "it stands there twice".to_owned());
            }
            if value.mask().is_some() && !field.maskable() {
                return wrong(bad_match::BAD_MASK, "this field has no masks".to_owned());
            }
            // Section 7.2.3.7: without a tag there is no number.
            let numbered = value.value() & VLAN_PRESENT == 0 && value.value() != 0;
            if field == Field::VlanVid && value.mask().is_none() && numbered {
                return wrong(bad_match::BAD_VALUE, "a VLAN without the bit of a tag (0x1000)".to_owned());
            }
            let before = Match::before(&self.fields[..i]);
            if let Err(what) = before.meets(field.needs()) {
                return wrong(bad_match::BAD_PREREQ, what);
            }
            seen |= 1 << field.number();
        }
        Ok(())
    }

    fn before(fields: &[Oxm]) -> Fields<'_> {
        Fields(fields)
    }
}

/// The fields before one.
struct Fields<'a>(&'a [Oxm]);

impl Fields<'_> {
    fn get(&self, field: Field) -> Option<&FieldValue> {
        self.0.iter().find_map(|oxm| match oxm {
            Oxm::Basic(value) if value.field() == field => Some(value),
            _ => None,
        })
    }

    /// Whether these are what a field needs; what it needs if not.
    fn meets(&self, needs: Prerequisite) -> Result<(), String> {
        let exact = |field: Field| self.get(field).filter(|v| v.mask().is_none()).map(FieldValue::value);
        match needs {
            Prerequisite::None => Ok(()),
            Prerequisite::Present(field) if self.get(field).is_some() => Ok(()),
            Prerequisite::Present(field) => Err(format!("it needs {} before it", field.name())),
            Prerequisite::Tagged => match self.get(Field::VlanVid) {
                Some(v) if v.value() & VLAN_PRESENT != 0 => Ok(()),
                _ => Err("it needs vlan_vid with a tag (0x1000) before it".to_owned()),
            },
            Prerequisite::Is(field, values) => match exact(field) {
                Some(value) if values.iter().any(|&v| u128::from(v) == value) => Ok(()),
                _ => {
                    let values = values.iter().map(|v| format!("{v:#x}")).collect::<Vec<_>>().join(" or ");
                    Err(format!("it needs {} = {values} before it", field.name()))
                }
            },
        }
    }
}

impl Wire for Match {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.clone();
        let kind = r.u16()?;
        if kind != OXM {
            return Err(start.error(bad_match::BAD_TYPE, format!("type {kind}; 1 (OXM) is the only one")));
        }
        let length = usize::from(r.u16()?);
        let Some(body) = length.checked_sub(4) else {
            let what = format!("it says {length} bytes long, 4 are its header");
            return Err(start.error(bad_match::BAD_LEN, what));
        };
        let mut body = r.part(body, bad_match::BAD_LEN)?;
        let (mut fields, mut places) = (Vec::new(), Vec::new());
        while body.left() > 0 {
            places.push(body.at());
            fields.push(Oxm::read(&mut body).map_err(|e| e.within(format_args!("[{}]", fields.len())))?);
        }
        r.skip(to_eight(length))?;
        let matching = Match { fields };
        // A switch may have put into a table what others would refuse.
        if !start.from_switch {
            matching.check_each().map_err(|(i, e)| {
                DecodeError::new(e.code, places[i], e.to_string()).within(format_args!("[{i}]"))
            })?;
        }
        Ok(matching)
    }

    fn write(&self, w: &mut Vec<u8>) {
        let start = w.len();
        w.extend(OXM.to_be_bytes());
        w.extend([0; 2]);
        self.fields.iter().for_each(|field| field.write(w));
        set_length(w, start, start + 2);
        let padding = to_eight(w.len() - start);
        w.extend(std::iter::repeat_n(0, padding));
    }

    fn any(c: &mut Choices<'_>) -> Self {
        let mut matching = Match::default();
        for _ in 0..c.below(6) {
            match Oxm::any(c) {
                Oxm::Basic(value) if value.field() == Field::VlanVid => {
                    matching.add(value.tagged(), c);
                }
                Oxm::Basic(value) => matching.add(value, c),
                other @ Oxm::Other(_) => matching.fields.push(other),
            }
        }
        matching
    }

    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Match {
    /// Adds a field behind what it needs, unless that contradicts what is there.
    fn add(&mut self, value: FieldValue, c: &mut Choices<'_>) {
        let field = value.field();
        let needed = match field.needs() {
            Prerequisite::None => None,
            Prerequisite::Present(needed) => Some(FieldValue::any_of(needed, c)),
            Prerequisite::Tagged => FieldValue::new(Field::VlanVid, VLAN_PRESENT | 5).ok(),
            Prerequisite::Is(needed, values) => FieldValue::new(needed, c.pick(values)).ok(),
        };
        if let Some(needed) = needed.filter(|_| Match::before(&self.fields).meets(field.needs()).is_err()) {
            self.add(needed, c);
        }
        if self.get(field).is_none() && Match::before(&self.fields).meets(field.needs()).is_ok() {
            self.fields.push(Oxm::Basic(value));
        }
    }
}

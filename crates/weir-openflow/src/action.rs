//! Actions and instructions (sections 7.2.4 and 7.2.5).

use crate::choices::Choices;
use crate::error::{DecodeError, bad_action};
use crate::numbers::{GroupId, MaxLen, MeterId, PortNo, QueueId, TableId};
use crate::oxm::{Field, FieldValue, Oxm};
use crate::wire::{AlignedBytes, Reader, Wire};

choice! {
    /// An action on a packet.
    pub enum Action: u16 {
        /// Send it.
        0 "output" Output(Output),
        /// Copy the TTL outwards.
        11 "copy_ttl_out" CopyTtlOut,
        /// Copy the TTL inwards.
        12 "copy_ttl_in" CopyTtlIn,
        /// Set the TTL of MPLS.
        15 "set_mpls_ttl" SetMplsTtl(u8),
        /// Decrement the TTL of MPLS.
        16 "dec_mpls_ttl" DecMplsTtl,
        /// Push a VLAN tag of this EtherType.
        17 "push_vlan" PushVlan(u16),
        /// Remove the outer VLAN tag.
        18 "pop_vlan" PopVlan,
        /// Push an MPLS label of this EtherType.
        19 "push_mpls" PushMpls(u16),
        /// Remove the outer MPLS label; what is below has this EtherType.
        20 "pop_mpls" PopMpls(u16),
        /// Use this queue of the port that it goes to.
        21 "set_queue" SetQueue(QueueId),
        /// Give it to a group.
        22 "group" Group(GroupId),
        /// Set the TTL of IP.
        23 "set_nw_ttl" SetNwTtl(u8),
        /// Decrement the TTL of IP.
        24 "dec_ttl" DecNwTtl,
        /// Set a field.
        25 "set_field" SetField(SetField),
        /// Push a tag of a provider backbone of this EtherType.
        26 "push_pbb" PushPbb(u16),
        /// Remove the tag of a provider backbone.
        27 "pop_pbb" PopPbb,
        /// Something of an experimenter, such as Nicira's actions of Open vSwitch.
        0xffff "experimenter" Experimenter(ExperimenterBody),
    }
}

tlv! { Action, inside, type bad_action::BAD_TYPE, length bad_action::BAD_LEN, text crate::text::action }

record! {
    /// To a port.
    => pub struct Output {
        /// Which port.
        port: PortNo;
        /// How many bytes, if it is the controller.
        max_len: MaxLen;
    }
}

record! {
    /// A number of an experimenter, and what they put behind it.
    => pub struct ExperimenterBody {
        /// Their number: an IEEE OUI, or one of the Open Networking Foundation's list.
        experimenter: u32;
        /// What only they know.
        data: AlignedBytes;
    }
}

/// A field that is set: with a value, and no mask.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SetField(pub Oxm);

impl Wire for SetField {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.clone();
        let oxm = Oxm::read(r).map_err(|e| DecodeError { code: set_code(&e), ..e })?;
        match &oxm {
            Oxm::Basic(value) if value.mask().is_some() => {
                Err(start.error(bad_action::BAD_SET_TYPE, "a field that is set has no mask"))
            }
            // Section 7.2.5: not what is no part of a packet.
            Oxm::Basic(value) if !settable(value.field()) => {
                let what = format!("{} cannot be set: it is no header field", value.field().name());
                Err(start.error(bad_action::BAD_SET_TYPE, what))
            }
            _ => Ok(SetField(oxm)),
        }
    }
    fn write(&self, w: &mut Vec<u8>) {
        self.0.write(w);
    }
    fn any(c: &mut Choices<'_>) -> Self {
        match Oxm::any(c) {
            Oxm::Basic(v) if v.mask().is_some() || !settable(v.field()) => {
                SetField(Oxm::Basic(FieldValue::any_exact(Field::EthDst, c)))
            }
            oxm => SetField(oxm),
        }
    }
    fn text(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.text(f)
    }
}

/// Whether actions can set a field.
fn settable(field: Field) -> bool {
    !matches!(field, Field::InPort | Field::InPhyPort | Field::Metadata | Field::Ipv6Exthdr)
}

/// Mistakes of a field in a set-field action have codes of their own.
fn set_code(e: &DecodeError) -> crate::error::ErrorCode {
    use crate::error::bad_match;
    match e.code {
        bad_match::BAD_FIELD => bad_action::BAD_SET_TYPE,
        bad_match::BAD_LEN => bad_action::BAD_SET_LEN,
        bad_match::BAD_VALUE | bad_match::BAD_MASK | bad_match::BAD_WILDCARDS => bad_action::BAD_SET_ARGUMENT,
        other => other,
    }
}

choice! {
    /// An instruction of an entry for packets that match.
    pub enum Instruction: u16 {
        /// Go on in a later table.
        1 "goto_table" GotoTable(TableId),
        /// Set bits of the metadata.
        2 "write_metadata" WriteMetadata(WriteMetadata),
        /// Put actions into the action set.
        3 "write_actions" WriteActions(Actions),
        /// Do actions now.
        4 "apply_actions" ApplyActions(Actions),
        /// Empty the action set.
        5 "clear_actions" ClearActions(Padding),
        /// Send it through a meter first.
        6 "meter" Meter(MeterId),
        /// Something of an experimenter.
        0xffff "experimenter" Experimenter(ExperimenterBody),
    }
}

tlv! { Instruction, inside, type bad_instruction::UNKNOWN_INST, length bad_instruction::BAD_LEN, text crate::text::instruction }

record! {
    /// Bits of the metadata.
    => pub struct WriteMetadata {
        @pad 4;
        /// The bits.
        metadata: u64;
        /// Which of them.
        mask: u64;
    }
}

record! {
    /// A list of actions.
    => pub struct Actions {
        @pad 4;
        /// In the order in which they are done.
        actions: Vec<Action>;
    }
}

record! {
    /// Nothing.
    => pub struct Padding {
        @pad 4;
    }
}

impl From<Vec<Action>> for Actions {
    fn from(actions: Vec<Action>) -> Actions {
        Actions { actions }
    }
}

impl Action {
    /// To a port; if that is the controller, the whole packet.
    pub fn output(port: PortNo) -> Action {
        Action::Output(Output {
            port,
            max_len: if port == PortNo::CONTROLLER { MaxLen::NO_BUFFER } else { MaxLen(0) },
        })
    }
}

impl Instruction {
    /// Actions that are done at once.
    pub fn apply(actions: Vec<Action>) -> Instruction {
        Instruction::ApplyActions(actions.into())
    }
}

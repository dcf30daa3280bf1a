//! Whether a table may take actions (sections 5.12 and 7.4.4).

use weir_net::ethertype::{QINQ, VLAN};
use weir_openflow::action::{Action, SetField};
use weir_openflow::error::bad_action;
use weir_openflow::numbers::PORT_MAX;
use weir_openflow::oxm::{Field, FieldValue, Oxm, Prerequisite};
use weir_openflow::{ErrorCode, GroupId, Match, PortNo};

use crate::parse::{MPLS, MPLS_MULTICAST, PBB};

/// Knowledge about packets where an action is done: of the match, and of what actions before it changed.
#[derive(Debug, Clone)]
struct Known<'a> {
    matching: &'a Match,
    /// The EtherType, once actions changed it.
    kind: Option<u16>,
    /// Whether actions pushed a tag.
    tagged: bool,
}

impl Known<'_> {
    fn kind(&self) -> Option<u128> {
        self.kind.map(u128::from).or_else(|| self.matching.get(Field::EthType).map(FieldValue::value))
    }

    /// Whether packets have a field for sure.
    fn has(&self, field: Field) -> bool {
        match field.needs() {
            Prerequisite::None => match field {
                // There is a number only with a tag.
                Field::VlanVid => {
                    self.tagged || self.matching.get(Field::VlanVid).is_some_and(|v| v.value() & 0x1000 != 0)
                }
                _ => true,
            },
            Prerequisite::Present(_) => true,
            Prerequisite::Tagged => self.has(Field::VlanVid),
            Prerequisite::Is(Field::EthType, kinds) => {
                self.kind().is_some_and(|kind| kinds.iter().any(|&k| u128::from(k) == kind))
            }
            // The headers below have to be there too.
            Prerequisite::Is(needed, values) => {
                let value = self.matching.get(needed).filter(|v| v.mask().is_none()).map(FieldValue::value);
                self.has(needed) && value.is_some_and(|value| values.iter().any(|&v| u128::from(v) == value))
            }
        }
    }
}

/// Looks at actions in their order.
///
/// # Errors
/// The first that cannot be done, with the code for it.
pub fn check<'a>(
    actions: impl IntoIterator<Item = &'a Action>,
    matching: &Match,
    group_is_there: &dyn Fn(GroupId) -> bool,
    may_table: bool,
) -> Result<(), ErrorCode> {
    let mut known = Known { matching, kind: None, tagged: false };
    for action in actions {
        match action {
            Action::Output(o) => {
                let fine = match o.port {
                    PortNo::TABLE => may_table,
                    PortNo::IN_PORT
                    | PortNo::NORMAL
                    | PortNo::FLOOD
                    | PortNo::ALL
                    | PortNo::CONTROLLER
                    | PortNo::LOCAL => true,
                    // One that is not there may come.
                    PortNo(n) => (1..=PORT_MAX).contains(&n),
                };
                if !fine {
                    return Err(bad_action::BAD_OUT_PORT);
                }
            }
            Action::Group(g) if !group_is_there(*g) => return Err(bad_action::BAD_OUT_GROUP),
            Action::PushVlan(kind) if !matches!(*kind, VLAN | QINQ) => return Err(bad_action::BAD_ARGUMENT),
            Action::PushMpls(kind) if !matches!(*kind, MPLS | MPLS_MULTICAST) => {
                return Err(bad_action::BAD_ARGUMENT);
            }
            Action::PushPbb(kind) if *kind != PBB => return Err(bad_action::BAD_ARGUMENT),
            Action::PushVlan(_) => known.tagged = true,
            Action::PushMpls(kind) | Action::PopMpls(kind) | Action::PushPbb(kind) => {
                known.kind = Some(*kind);
            }
            Action::SetField(SetField(Oxm::Basic(value))) => {
                let field = value.field();
                if !known.has(field) {
                    return Err(bad_action::MATCH_INCONSISTENT);
                }
                if field == Field::VlanVid && value.value() & 0x1000 == 0 {
                    return Err(bad_action::BAD_SET_ARGUMENT);
                }
                if field == Field::EthType {
                    known.kind = Some(value.value() as u16);
                }
            }
            Action::SetField(SetField(Oxm::Other(_))) => return Err(bad_action::BAD_SET_TYPE),
            Action::Experimenter(_) => return Err(bad_action::BAD_EXPERIMENTER),
            // What is inside of a backbone is not known; nothing that needs it can follow.
            Action::PopPbb => known.kind = Some(0),
            _ => {}
        }
    }
    Ok(())
}

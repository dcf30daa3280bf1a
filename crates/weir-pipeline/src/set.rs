//! The action set of a packet: what is done when it leaves the tables (section 5.10).

use weir_openflow::action::{Action, SetField};
use weir_openflow::oxm::Oxm;

/// Actions, of each kind one, of set-field one for each field.
#[derive(Debug, Default)]
pub struct ActionSet(Vec<Action>);

impl ActionSet {
    /// Puts actions in, in place of those of their kind.
    pub fn write(&mut self, actions: &[Action]) {
        for action in actions {
            self.0.retain(|there| !same_kind(there, action));
            self.0.push(action.clone());
        }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its actions in the order in which they are done. With a group, an output is left out.
    pub fn in_order(self) -> Vec<Action> {
        let mut actions = self.0;
        if actions.iter().any(|a| matches!(a, Action::Group(_))) {
            actions.retain(|a| !matches!(a, Action::Output(_)));
        }
        actions.sort_by_key(rank);
        actions
    }
}

/// The actions of a set into which these were written, in the order in which they are done.
pub fn of(actions: &[Action]) -> Vec<Action> {
    let mut set = ActionSet::default();
    set.write(actions);
    set.in_order()
}

fn rank(action: &Action) -> u8 {
    match action {
        Action::CopyTtlIn => 1,
        Action::PopVlan | Action::PopMpls(_) | Action::PopPbb => 2,
        Action::PushMpls(_) => 3,
        Action::PushPbb(_) => 4,
        Action::PushVlan(_) => 5,
        Action::CopyTtlOut => 6,
        Action::DecNwTtl | Action::DecMplsTtl => 7,
        Action::SetField(_) | Action::SetNwTtl(_) | Action::SetMplsTtl(_) => 8,
        Action::SetQueue(_) => 9,
        Action::Group(_) => 10,
        Action::Output(_) | Action::Experimenter(_) => 11,
    }
}

fn same_kind(a: &Action, b: &Action) -> bool {
    match (a, b) {
        (Action::SetField(SetField(Oxm::Basic(a))), Action::SetField(SetField(Oxm::Basic(b)))) => {
            a.field() == b.field()
        }
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

//! What the clients have asked for, and what may be so because of it.

use std::collections::BTreeSet;

/// A version of a graph; none if there is no such graph.
pub type Version = Option<u32>;

/// A graph, as its client knows it.
#[derive(Debug, Clone)]
pub struct Graph {
    /// What may be wanted: one, unless the controller ended before it answered, or an older store was put back.
    pub possible: BTreeSet<Version>,
    /// The versions that nodes may begin to run: what was accepted last, and what was asked for since.
    pub startable: BTreeSet<u32>,
    /// Whether it was changed after the backup that was put back, and the operator has not said yet what is to become of it: nobody may touch it.
    pub frozen: bool,
    /// Whether it was so when the operator asked for what is being asked for, and whether a node has lost it since.
    was_frozen: bool,
    lost: bool,
    /// The versions that were asked for since the store was put back, as long as they took the place of nothing.
    own: BTreeSet<u32>,
    /// What is being asked for.
    busy: Option<Version>,
    /// Whether that was so at the last backup already, which then may have it or not.
    busy_at_backup: bool,
    /// What was possible at the last backup, and whether it has changed since.
    backup: (BTreeSet<Version>, bool),
}

impl Default for Graph {
    fn default() -> Graph {
        let none = BTreeSet::from([None]);
        Graph {
            possible: none.clone(),
            startable: BTreeSet::new(),
            frozen: false,
            was_frozen: false,
            lost: false,
            own: BTreeSet::new(),
            busy: None,
            busy_at_backup: false,
            backup: (none, false),
        }
    }
}

impl Graph {
    /// A client asks for a version.
    pub fn asks(&mut self, version: Version) {
        (self.busy, self.busy_at_backup) = (Some(version), false);
        (self.was_frozen, self.frozen, self.lost) = (self.frozen, false, false);
        self.startable.extend(version);
        self.own.extend(version);
    }

    /// A node runs something else than before: whether it may.
    ///
    /// # Errors
    /// It may not.
    pub fn touched(&mut self, before: Version, begun: Version) -> Result<(), String> {
        match (before, begun) {
            // What was begun since, and is refused, goes again.
            (Some(v), None) if self.own.contains(&v) => return Ok(()),
            (Some(_), None) => self.lost = true,
            (Some(before), Some(v)) if !self.own.contains(&before) => _ = self.own.remove(&v),
            _ => {}
        }
        if self.frozen {
            return Err("is touched though the store was put back, and nobody said so".into());
        }
        match begun {
            // What nodes had before is not known: nothing but what is asked for now may take its place.
            Some(v) if self.was_frozen && self.busy.is_some_and(|b| b != begun) => {
                Err(format!("begins to run as v{v}, which nobody said since the store was put back"))
            }
            Some(v) if !self.startable.contains(&v) => {
                Err(format!("begins to run as v{v}; asked for are {:?}", self.startable))
            }
            _ => Ok(()),
        }
    }

    /// It has an answer: it is so, or nothing was changed.
    ///
    /// # Errors
    /// That may not be.
    pub fn answered(&mut self, accepted: bool) -> Result<(), String> {
        let Some(version) = self.busy.take() else { return Ok(()) };
        if self.was_frozen && !accepted {
            (self.was_frozen, self.frozen) = (false, true);
            if self.lost {
                return Err("was lost by a change that was refused".into());
            }
        }
        self.was_frozen = false;
        if accepted {
            self.possible = BTreeSet::from([version]);
            self.startable = version.into_iter().collect();
            self.backup.1 = true;
        }
        Ok(())
    }

    /// The controller ended before it answered: it may be so, or not.
    pub fn unanswered(&mut self) {
        self.was_frozen = false;
        if let Some(version) = self.busy.take() {
            self.possible.insert(version);
            self.backup.1 |= !self.busy_at_backup;
        }
    }

    /// The store is backed up.
    pub fn backed_up(&mut self) {
        let possible = self.possible.iter().copied().chain(self.busy).collect();
        self.backup = (possible, false);
        self.busy_at_backup = self.busy.is_some();
    }

    /// The backup was put back.
    pub fn restored(&mut self) {
        let (possible, changed) = &self.backup;
        self.frozen = *changed;
        self.own.clear();
        self.possible.extend(possible);
        self.startable.extend(possible.iter().flatten());
    }
}

//! What goes wrong.

use super::{Sim, at_once};
use crate::tasks::About;

impl Sim {
    /// Something goes wrong.
    pub(super) fn fault(&mut self) {
        let node = format!("n{}", self.rng.usize(0..super::NODES) + 1);
        match self.rng.u32(0..12) {
            0..4 => self.end_connection(&node),
            4..6 => self.kill_node(&node),
            _ if self.etcd.is_some() => self.fault_of_several(),
            6..8 => {
                self.kill();
                self.restart();
            }
            _ if self.moves => self.end_connection(&node),
            8 => self.back_up(),
            9 => self.put_back(),
            _ => {
                if let Some(machine) = self.machines.get_mut(&node) {
                    machine.node.old = machine.node.disk.clone();
                    self.note(format!("{node}'s disk is copied"));
                }
            }
        }
    }

    /// A connection ends. The controller hears of it; the node comes back or not.
    pub(super) fn end_connection(&mut self, node: &str) {
        let Some(connection) = self.machines.get_mut(node).and_then(|m| m.connection.take()) else { return };
        self.note(format!("{node}'s connection ends"));
        self.tasks.abort(|a| matches!(a, About::Settle(n) | About::Arrive(n) if n == node));
        let rng = &mut self.rng;
        self.network.end(connection, || rng.bool());
        let Some(controller) = self.owners.remove(&connection) else { return };
        if at_once(controller.left(node, connection, "it ended")).is_none() {
            self.violated("the end of a connection waits for something");
        }
    }

    /// A node is killed, and comes back: as it was, or with an old disk.
    fn kill_node(&mut self, node: &str) {
        self.end_connection(node);
        // What it had not begun is gone.
        self.network.in_flight().requests.retain(|r| r.node != node);
        let old = !self.moves && !self.by_hand && self.rng.u32(0..3) == 0;
        if let Some(machine) = self.machines.get_mut(node)
            && old
        {
            machine.node.disk = machine.node.old.clone();
        }
        if self.moves
            && self.rng.bool()
            && let Some(machine) = self.machines.get_mut(node)
        {
            machine.node.lose_data_plane();
        }
        self.note(format!("{node} is killed{}", if old { ", and comes back with an old disk" } else { "" }));
    }

    /// The controller is killed: all that it was about ends where it is.
    pub(super) fn kill(&mut self) {
        self.note("the controller is killed");
        self.tasks.abort(|_| true);
        self.controller = None;
        self.owners.clear();
        for name in self.names() {
            let Some(connection) = self.machines.get_mut(&name).and_then(|m| m.connection.take()) else {
                continue;
            };
            let rng = &mut self.rng;
            self.network.end(connection, || rng.bool());
        }
        for (id, text) in std::mem::take(&mut self.texts) {
            self.note(format!("{text}: no answer"));
            if let Some(graph) = self.asked.get_mut(&id) {
                graph.unanswered();
            }
        }
    }

    pub(super) fn restart(&mut self) {
        if let Err(e) = self.start() {
            self.violated(format!("the controller does not start: {e}"));
        }
    }

    fn back_up(&mut self) {
        self.note("the store is backed up");
        let done = weir_controller::back_up(&self.store(), &self.backup());
        match done {
            Ok(_) => {
                self.backed_up = true;
                self.asked.values_mut().for_each(crate::asked::Graph::backed_up);
            }
            Err(e) => self.violated(format!("no backup: {e}")),
        }
    }

    /// The controller is killed, and its store becomes the backup.
    fn put_back(&mut self) {
        if !self.backed_up {
            return;
        }
        self.kill();
        self.note(if self.by_hand {
            "the backup is copied over the store"
        } else {
            "the backup is restored"
        });
        let done = match self.by_hand {
            true => self.copy_back(),
            false => {
                weir_controller::restore(&self.backup(), &self.store()).map(drop).map_err(|e| e.to_string())
            }
        };
        if let Err(e) = done {
            self.violated(format!("the backup cannot be put back: {e}"));
        }
        self.asked.values_mut().for_each(crate::asked::Graph::restored);
        self.restart();
    }

    fn copy_back(&self) -> Result<(), String> {
        for end in ["-wal", "-shm"] {
            let mut name = self.store().into_os_string();
            name.push(end);
            _ = std::fs::remove_file(name);
        }
        std::fs::copy(self.backup(), self.store()).map(drop).map_err(|e| e.to_string())
    }
}

//! Several controllers: one leads, until its lease is over, which it may not know yet.

use std::sync::Arc;

use weir_controller::store::Store;

use super::Sim;
use crate::etcd::Lost;

impl Sim {
    /// The store of a controller that begins.
    pub(super) fn open(&self) -> Result<Arc<Store>, String> {
        let Some(etcd) = &self.etcd else {
            return Store::open(&self.store()).map(Arc::new).map_err(|e| e.to_string());
        };
        let copy = Store::copy("etcd").map_err(|e| e.to_string())?;
        etcd.lead(&copy)?;
        Ok(Arc::new(Store::of(copy)))
    }

    /// Something goes wrong with several controllers.
    pub(super) fn fault_of_several(&mut self) {
        match self.rng.u32(0..4) {
            0 => {
                self.kill();
                self.restart();
            }
            1 => self.lose(),
            _ => self.take_over(),
        }
    }

    /// A request to etcd, or its answer, is lost. Who leads then writes no more, and sooner or later another one leads.
    fn lose(&mut self) {
        let lost = if self.rng.bool() { Lost::Request } else { Lost::Answer };
        self.note(format!("etcd will lose the next {lost:?}"));
        if let Some(etcd) = &self.etcd {
            etcd.lose(lost);
        }
    }

    /// Another controller leads. The one that led is paused, or cut off from etcd, or has a slow clock: it goes on with all that it was about, and with nodes that
    /// do not see that it is another one.
    fn take_over(&mut self) {
        self.note("another controller leads");
        self.tasks.make_old();
        for name in self.names() {
            if self.rng.bool() {
                self.end_connection(&name);
            }
        }
        self.restart();
    }

    /// Whether a connection is to the controller that leads.
    pub(super) fn leads(&self, connection: u64) -> bool {
        let owner = self.owners.get(&connection);
        owner.zip(self.controller.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Those that do not lead know it in the end, and one leads that can write.
    pub(super) fn one_leads(&mut self) {
        if self.etcd.is_none() {
            return;
        }
        self.tasks.make_old();
        self.restart();
        for name in self.names() {
            self.end_connection(&name);
        }
    }
}

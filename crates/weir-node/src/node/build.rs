//! What a node is given before it begins.

use std::path::PathBuf;
use std::sync::Arc;

use weir_net::WireGuardKey;
use weir_rest::login::Login;

use super::Node;
use crate::archives::Archives;
use crate::compute::Drivers;
use crate::connection::DataPlane;
use crate::resources::Resources;
use crate::tenancy;

impl<D: DataPlane> Node<D> {
    /// Limits the bytes that the tables and waiting packets of each graph may take.
    #[must_use]
    pub fn with_memory(mut self, limit: u64) -> Node<D> {
        self.changes.get_mut().memory = Some(limit);
        self
    }

    /// With drivers of functions that are not inline.
    #[must_use]
    pub fn with_drivers(mut self, drivers: Drivers) -> Node<D> {
        self.changes.get_mut().drivers = drivers.clone();
        self.drivers = drivers;
        self
    }

    /// Limits what all graphs may come to take; with `overcommit` that is only told.
    #[must_use]
    pub fn with_resources(mut self, resources: Resources, overcommit: bool) -> Node<D> {
        (self.resources, self.overcommit) = (resources, overcommit);
        self
    }

    /// In a region.
    #[must_use]
    pub fn with_region(mut self, region: Option<String>) -> Node<D> {
        self.region = region;
        self
    }

    /// With a login.
    #[must_use]
    pub fn with_login(mut self, login: Login) -> Node<D> {
        self.login = Arc::new(login);
        self
    }

    /// With so many workers in the data plane, which functions leave cores to.
    #[must_use]
    pub fn with_workers(mut self, workers: usize) -> Node<D> {
        self.workers = workers;
        self
    }

    /// With images that are archives, unpacked in a folder.
    #[must_use]
    pub fn with_archives(mut self, folder: PathBuf) -> Node<D> {
        self.archives = Some(Arc::new(Archives::new(folder)));
        self
    }

    /// With a folder for images that are added over REST; those of other directories come first.
    #[must_use]
    pub fn with_added_images(mut self, folder: PathBuf) -> Node<D> {
        self.images.push(folder.clone());
        self.added = Some(folder);
        self
    }

    /// With the public key of its ends of encrypted tunnels.
    #[must_use]
    pub fn with_wireguard(mut self, key: WireGuardKey) -> Node<D> {
        self.wireguard = Some(key);
        self
    }

    /// With container images.
    #[must_use]
    pub fn with_containers(mut self, containers: Arc<weir_oci::Store>) -> Node<D> {
        self.containers = Some(containers);
        self
    }

    /// The node for several tasks. What it tells of graphs, and of what tenants have, is known from now on.
    pub fn shared(self) -> Arc<Node<D>>
    where
        D: Send + Sync + 'static,
    {
        let node = Arc::new(self);
        let (of_usage, of_owner) = (Arc::downgrade(&node), Arc::downgrade(&node));
        node.login.set_usage(move |tenant| {
            of_usage.upgrade().map(|node| tenancy::usage(&node.view(), tenant)).unwrap_or_default()
        });
        node.events.set_owner(move |id| of_owner.upgrade()?.graph(id)?.graph.tenant().map(str::to_owned));
        node
    }
}

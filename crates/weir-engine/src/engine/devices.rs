//! How an engine opens devices, and waits for them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_io::interface::Method;
use weir_io::{Port, PortError, PortSpec};
use weir_nodes::env::device::Opener;

use super::Engine;

impl Engine {
    /// Replaces how devices are opened. If there are several workers, only the first opens any.
    pub fn set_opener(&mut self, opener: Box<Opener>) {
        self.openers = None;
        self.rt.env.devices.set_opener(opener);
    }

    /// Replaces how devices are opened, by as many workers as there will be.
    pub fn set_openers(&mut self, make: impl Fn() -> Box<Opener> + Send + Sync + 'static) {
        self.rt.env.devices.set_opener(make());
        self.openers = Some(Arc::new(make));
    }

    /// Says how devices are opened whose elements name no method.
    pub fn set_method(&mut self, method: Method) {
        self.rt.env.devices.set_method(method);
    }

    /// Says how long workers wait awake for the next packet ([`Devices::set_busy_poll`](weir_nodes::env::device::Devices::set_busy_poll)).
    pub fn set_busy_poll(&mut self, bound: Duration) {
        self.busy_poll = Some(bound);
        self.rt.env.devices.set_busy_poll(bound);
    }

    /// Says where sockets of devices are that are named without a folder.
    pub fn set_ports_folder(&mut self, folder: PathBuf) {
        self.rt.env.devices.set_folder(folder);
    }

    /// Gives devices by name to graphs that are loaded later, in place of interfaces; others are not found.
    pub fn set_ports(&mut self, ports: impl IntoIterator<Item = (String, Box<dyn Port>)>) {
        let mut ports: BTreeMap<String, Box<dyn Port>> = ports.into_iter().collect();
        self.set_opener(Box::new(move |spec| match (ports.remove(&spec.name()), spec) {
            (Some(port), _) => Ok(port),
            (None, PortSpec::Interface { name, .. }) => {
                Err(PortError::NotFound { name: name.clone(), similar: ports.keys().cloned().collect() })
            }
            (None, other) => other.open(),
        }));
    }
}

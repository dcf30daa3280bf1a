//! A driver of functions that tells the data plane which ports there are, so that this can see whether a graph sends to one that is not
//! there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use weir_node::compute::dummy::Dummy;
use weir_node::compute::launch::Launch;
use weir_node::compute::{Compute, ComputeError, Health, Observed};
use weir_node::instance::{Instance, InstanceId, Kind};

use crate::fake::Fake;

#[derive(Debug)]
pub struct Watched {
    dummy: Dummy,
    fake: Arc<Mutex<Fake>>,
}

impl Watched {
    pub fn new(dummy: &Dummy, fake: &Arc<Mutex<Fake>>) -> Watched {
        Watched { dummy: dummy.clone(), fake: fake.clone() }
    }

    fn look(&self, done: Result<(), ComputeError>) -> Result<(), ComputeError> {
        let ports = self.dummy.with(|s| {
            let ports = s.instances.values().flat_map(|f| &f.ports);
            ports.map(|p| p.outside.clone()).collect()
        });
        self.fake.lock().unwrap().set_ports(ports);
        done
    }
}

#[async_trait]
impl Compute for Watched {
    fn kind(&self) -> Kind {
        self.dummy.kind()
    }

    fn ports(&self) -> &'static [&'static str] {
        self.dummy.ports()
    }

    async fn observe(&self) -> Result<Vec<Observed>, ComputeError> {
        self.dummy.observe().await
    }

    async fn create(&self, instance: &Instance) -> Result<(), ComputeError> {
        self.look(self.dummy.create(instance).await)
    }

    async fn start(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.dummy.start(id).await
    }

    async fn update(&self, instance: &Instance) -> Result<(), ComputeError> {
        self.look(self.dummy.update(instance).await)
    }

    async fn pause(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.dummy.pause(id).await
    }

    async fn resume(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.dummy.resume(id).await
    }

    async fn stop(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.dummy.stop(id).await
    }

    async fn destroy(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.look(self.dummy.destroy(id).await)
    }

    fn health(&self, id: &InstanceId) -> Option<Health> {
        self.dummy.health(id)
    }

    async fn drops(&self, id: &InstanceId) -> BTreeMap<String, u64> {
        self.dummy.drops(id).await
    }

    async fn read(&self, id: &InstanceId, handler: &str) -> Result<String, ComputeError> {
        self.dummy.read(id, handler).await
    }

    async fn write(&self, id: &InstanceId, name: &str, value: &str, keep: bool) -> Result<(), ComputeError> {
        self.dummy.write(id, name, value, keep).await
    }

    fn log(&self, id: &InstanceId) -> Result<PathBuf, ComputeError> {
        self.dummy.log(id)
    }

    fn inside(&self, id: &InstanceId) -> Result<Launch, ComputeError> {
        self.dummy.inside(id)
    }
}

//! A driver that only remembers, for tests of what drives drivers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::launch::Launch;
use super::{Compute, ComputeError, Health, Observed};
use crate::instance::{Instance, InstanceId, Kind, PortNames};

/// The driver. Its clones are one: it outlives the daemon that uses it, as functions do.
#[derive(Debug, Clone, Default)]
pub struct Dummy(Arc<Mutex<State>>);

/// A function that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The tag of what it was made from.
    pub tag: String,
    /// How it is.
    pub health: Health,
    /// Its ports.
    pub ports: Vec<PortNames>,
}

impl Function {
    /// One that is made from an instance.
    pub fn of(instance: &Instance, health: Health) -> Function {
        Function { tag: instance.tag.clone(), health, ports: instance.spec.ports.clone() }
    }
}

/// The state that outlives the driver.
#[derive(Debug, Default)]
pub struct State {
    /// What is there.
    pub instances: BTreeMap<InstanceId, Function>,
    /// What was done, in words.
    pub done: Vec<String>,
    /// How many of the next things to do fail.
    pub failures: usize,
}

impl Dummy {
    /// Looks at what it remembers, or changes it.
    pub fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn act(
        &self,
        what: &str,
        id: &InstanceId,
        f: impl FnOnce(&mut State) -> Result<(), ComputeError>,
    ) -> Result<(), ComputeError> {
        self.with(|s| {
            if s.failures > 0 {
                s.failures -= 1;
                let (program, what) = (what.to_owned(), "failed (test)".to_owned());
                return Err(ComputeError::Program { id: id.clone(), program, what, output: String::new() });
            }
            s.done.push(format!("{what} {id}"));
            f(s)
        })
    }

    fn set(&self, what: &str, id: &InstanceId, health: Health) -> Result<(), ComputeError> {
        self.act(what, id, |s| match s.instances.get_mut(id) {
            Some(known) => {
                known.health = health;
                Ok(())
            }
            None => Err(ComputeError::Missing(id.clone())),
        })
    }
}

#[async_trait]
impl Compute for Dummy {
    fn kind(&self) -> Kind {
        Kind::Native
    }

    fn ports(&self) -> &'static [&'static str] {
        &["veth"]
    }

    async fn observe(&self) -> Result<Vec<Observed>, ComputeError> {
        let observed = |(id, f): (&InstanceId, &Function)| {
            let whole = f.health != Health::Stopped;
            let tag = if whole { f.tag.clone() } else { String::new() };
            Observed { id: id.clone(), tag, ports: f.ports.clone() }
        };
        Ok(self.with(|s| s.instances.iter().map(observed).collect()))
    }

    async fn create(&self, instance: &Instance) -> Result<(), ComputeError> {
        self.act("create", &instance.id, |s| {
            s.instances.insert(instance.id.clone(), Function::of(instance, Health::Stopped));
            Ok(())
        })
    }

    async fn start(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.set("start", id, Health::Running)
    }

    async fn update(&self, instance: &Instance) -> Result<(), ComputeError> {
        self.act("update", &instance.id, |s| {
            s.instances.insert(instance.id.clone(), Function::of(instance, Health::Running));
            Ok(())
        })
    }

    async fn pause(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.set("pause", id, Health::Paused)
    }

    async fn resume(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.set("resume", id, Health::Running)
    }

    async fn stop(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.set("stop", id, Health::Stopped)
    }

    async fn destroy(&self, id: &InstanceId) -> Result<(), ComputeError> {
        self.act("destroy", id, |s| {
            s.instances.remove(id);
            Ok(())
        })
    }

    fn health(&self, id: &InstanceId) -> Option<Health> {
        self.with(|s| Some(s.instances.get(id)?.health.clone()))
    }

    async fn read(&self, id: &InstanceId, handler: &str) -> Result<String, ComputeError> {
        self.set("read", id, Health::Running)?;
        Ok(handler.to_owned())
    }

    async fn write(&self, id: &InstanceId, _: &str, _: &str, _: bool) -> Result<(), ComputeError> {
        self.set("write", id, Health::Running)
    }

    fn log(&self, id: &InstanceId) -> Result<PathBuf, ComputeError> {
        Err(ComputeError::Missing(id.clone()))
    }

    fn inside(&self, id: &InstanceId) -> Result<Launch, ComputeError> {
        Err(ComputeError::Missing(id.clone()))
    }
}

//! Functions in network namespaces, whatever runs in them: a driver has what is common to them, and a [`Workload`] what is not.
//!
//! A function has a network namespace with its ports, a control group, a folder of its own with its record, log and state, and at
//! most one main process; what else belongs to it is of its control group and ends with it.

mod life;
mod output;
mod record;
mod supervise;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use async_trait::async_trait;
use nix::sys::signal::Signal;
use tokio::sync::mpsc::UnboundedSender;
use weir_protocol::{Answer, Command};

use super::cgroup::Cgroup;
use super::launch::Launch;
use super::{Compute, ComputeError, Health, Notice, Observed, Usage, netns};
use crate::connection::CallError;
use crate::instance::{Instance, InstanceId, Kind};
use crate::traces::FunctionTrace;
pub use record::{Paths, Record};
use supervise::Supervision;
pub use workload::{ANSWER, CONTAINER_SECRETS, Context, Hang, Main, SHELL, Workload, halted};

/// The driver of a kind.
#[derive(Debug)]
pub struct Hosted<W>(Arc<Shared<W>>);

#[derive(Debug)]
struct Shared<W> {
    /// The folder of all functions.
    functions: PathBuf,
    notices: UnboundedSender<Notice>,
    /// The functions that are there.
    known: Mutex<BTreeMap<InstanceId, Arc<Function>>>,
    workload: W,
    /// Whether what there is was looked at before.
    first_look: Once,
}

/// A function that is there.
#[derive(Debug)]
struct Function {
    paths: Paths,
    /// Held while it is changed.
    changing: tokio::sync::Mutex<()>,
    health: Mutex<Health>,
    supervision: Mutex<Option<Supervision>>,
    /// What was written to its handlers since it was last made what is asked for.
    written: Mutex<Vec<(String, String)>>,
    /// The cores that it is to run on, if these are not all.
    cores: Mutex<Option<String>>,
}

impl<W: Workload> Hosted<W> {
    /// A driver with its functions in a folder.
    pub fn new(functions: PathBuf, workload: W, notices: UnboundedSender<Notice>) -> Hosted<W> {
        Hosted(Arc::new(Shared {
            functions,
            notices,
            known: Mutex::default(),
            workload,
            first_look: Once::new(),
        }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Function {
    fn set_health(&self, health: Health) {
        *lock(&self.health) = health;
    }

    fn health(&self) -> Health {
        lock(&self.health).clone()
    }

    /// Remembers what was written to its handlers beside its document.
    fn set_written(&self, written: Vec<(String, String)>) -> Result<(), ComputeError> {
        if *lock(&self.written) != written {
            let kept = self.paths.write_written(&written);
            *lock(&self.written) = written;
            kept.map_err(ComputeError::system(format!("cannot write to {}", self.paths.folder.display())))?;
        }
        Ok(())
    }

    /// Ends the supervision: what ends from now on was asked to.
    fn leave_alone(&self) -> Option<Supervision> {
        let supervision = lock(&self.supervision).take();
        supervision.inspect(Supervision::end)
    }

    fn record(&self, id: &InstanceId) -> Result<Record, ComputeError> {
        self.paths.read().ok_or_else(|| ComputeError::Missing(id.clone()))
    }

    fn keep(&self, record: &Record) -> Result<(), ComputeError> {
        let folder = self.paths.folder.display();
        self.paths.write(record).map_err(ComputeError::system(format!("cannot write to {folder}")))
    }

    fn context<'a>(&'a self, record: &'a Record) -> Context<'a> {
        Context { id: &record.instance.id, paths: &self.paths, spec: record.spec() }
    }

    /// Whether all that it stands on is there.
    fn is_sound(&self, record: &Record) -> bool {
        let name = &self.paths.name;
        netns::exists(name)
            && Cgroup::named(name).exists()
            && record.spec().ports.iter().all(|p| !p.is_interface() || netns::has_port(&p.outside))
    }

    /// A port whose interface in the function's namespace has another name now, or is in another namespace.
    async fn lost_port(&self, record: &Record) -> Option<String> {
        let ports = record.spec().ports.iter().filter(|p| p.is_interface());
        // Whoever removes the namespace is noticed elsewhere.
        netns::missing(&self.paths.name, ports.map(|p| p.inside.clone()).collect()).await.ok().flatten()
    }
}

#[async_trait]
impl<W: Workload> Compute for Hosted<W> {
    fn kind(&self) -> Kind {
        W::KIND
    }

    fn ports(&self) -> &'static [&'static str] {
        W::PORTS
    }

    fn needs(&self) -> &'static [(&'static str, &'static str)] {
        W::NEEDS
    }

    async fn observe(&self) -> Result<Vec<Observed>, ComputeError> {
        let mut observed = Vec::new();
        record::remove_rest(&self.0.functions);
        let reading = format!("cannot read {}", self.0.functions.display());
        for folder in record::folders(&self.0.functions).map_err(ComputeError::system(reading))? {
            let Some(record) = record::read(&folder) else {
                tracing::warn!("{} is no function's folder and is left alone", folder.display());
                continue;
            };
            if record.spec().kind() != W::KIND {
                continue;
            }
            let id = record.instance.id.clone();
            let f = self.0.entry(&id);
            let ports = record.spec().ports.clone();
            let Ok(_changing) = f.changing.try_lock() else {
                // It is just being started again.
                observed.push(Observed { tag: record.instance.tag.clone(), id, ports });
                continue;
            };
            let sound = record.whole && f.is_sound(&record);
            if sound && record.started && lock(&f.supervision).is_none() {
                f.set_health(if record.paused { Health::Paused } else { Health::Running });
                self.0.supervise(&f, &record, None);
            }
            // What is down is the supervision's to repair, also between its attempts.
            let works = sound && record.started || lock(&f.supervision).is_some();
            let tag = if works { record.instance.tag.clone() } else { String::new() };
            observed.push(Observed { id, tag, ports });
        }
        // What an earlier daemon left; later ones go with the functions that used them.
        self.0.first_look.call_once(|| self.0.forget_images());
        Ok(observed)
    }

    fn check(&self, instance: &Instance) -> Result<(), ComputeError> {
        Cgroup::check().map_err(ComputeError::system("functions of this kind cannot be limited"))?;
        self.0.workload.check(&instance.spec)
    }

    async fn create(&self, instance: &Instance) -> Result<(), ComputeError> {
        let f = self.0.entry(&instance.id);
        let _changing = f.changing.lock().await;
        f.leave_alone();
        f.set_health(Health::Stopped);
        self.0.create(&f, instance).await
    }

    async fn start(&self, id: &InstanceId) -> Result<(), ComputeError> {
        let f = self.0.function(id)?;
        let _changing = f.changing.lock().await;
        let mut record = f.record(id)?;
        self.0.start(&f, &mut record).await
    }

    async fn update(&self, instance: &Instance) -> Result<(), ComputeError> {
        let f = self.0.entry(&instance.id);
        let _changing = f.changing.lock().await;
        self.0.update(&f, instance).await
    }

    async fn pause(&self, id: &InstanceId) -> Result<(), ComputeError> {
        let f = self.0.function(id)?;
        let _changing = f.changing.lock().await;
        let mut record = f.record(id)?;
        if !self.0.workload.pause(&f.context(&record)).await? {
            Cgroup::named(&f.paths.name).signal(Signal::SIGSTOP);
            Shared::<W>::set_ports(&record, false).await?;
        }
        record.paused = true;
        f.keep(&record)?;
        f.set_health(Health::Paused);
        Ok(())
    }

    async fn resume(&self, id: &InstanceId) -> Result<(), ComputeError> {
        let f = self.0.function(id)?;
        let _changing = f.changing.lock().await;
        let mut record = f.record(id)?;
        if !self.0.workload.resume(&f.context(&record)).await? {
            Shared::<W>::set_ports(&record, true).await?;
            Cgroup::named(&f.paths.name).signal(Signal::SIGCONT);
        }
        record.paused = false;
        f.keep(&record)?;
        f.set_health(Health::Running);
        Ok(())
    }

    async fn stop(&self, id: &InstanceId) -> Result<(), ComputeError> {
        let f = self.0.function(id)?;
        let _changing = f.changing.lock().await;
        f.leave_alone();
        let mut record = f.record(id)?;
        f.set_health(Health::Stopped);
        self.0.stop(&f, &mut record).await
    }

    async fn destroy(&self, id: &InstanceId) -> Result<(), ComputeError> {
        let f = self.0.entry(id);
        let _changing = f.changing.lock().await;
        f.leave_alone();
        // Whatever its record says: interfaces go with their namespace.
        self.0.remove(&f, &[], false).await?;
        lock(&self.0.known).remove(id);
        Ok(())
    }

    fn health(&self, id: &InstanceId) -> Option<Health> {
        Some(self.0.function(id).ok()?.health())
    }

    async fn drops(&self, id: &InstanceId) -> BTreeMap<String, u64> {
        let Ok(f) = self.0.function(id) else { return BTreeMap::new() };
        match f.record(id) {
            Ok(record) if record.started => self.0.workload.drops(&f.context(&record)).await,
            _ => BTreeMap::new(),
        }
    }

    async fn trace(&self, id: &InstanceId, count: u32) -> Option<FunctionTrace> {
        let f = self.0.function(id).ok()?;
        let record = f.record(id).ok().filter(|r| r.started)?;
        self.0.workload.trace(&f.context(&record), count).await
    }

    async fn read(&self, id: &InstanceId, handler: &str) -> Result<String, ComputeError> {
        let f = self.0.function(id)?;
        let record = f.record(id)?;
        self.0.workload.handler(&f.context(&record), handler, None).await
    }

    async fn write(
        &self,
        id: &InstanceId,
        handler: &str,
        value: &str,
        keep: bool,
    ) -> Result<(), ComputeError> {
        let f = self.0.function(id)?;
        let record = f.record(id)?;
        self.0.workload.handler(&f.context(&record), handler, Some(value)).await?;
        if !keep {
            return Ok(());
        }
        let mut written = lock(&f.written).clone();
        written.retain(|(name, _)| name != handler);
        let of_document = record.spec().writes.iter().rev().find(|(name, _)| name == handler);
        if of_document.is_none_or(|(_, v)| v != value) {
            written.push((handler.to_owned(), value.to_owned()));
        }
        f.set_written(written)
    }

    fn bind(&self, id: &InstanceId, cores: Option<&str>) {
        let Ok(f) = self.0.function(id) else { return };
        if let Err(e) = Cgroup::named(&f.paths.name).bind(cores) {
            return tracing::debug!("function {id} runs on any core: {e}");
        }
        // It may be made anew.
        *lock(&f.cores) = cores.map(str::to_owned);
    }

    fn cores(&self, id: &InstanceId) -> Option<String> {
        Cgroup::named(&self.0.function(id).ok()?.paths.name).cores()
    }

    fn usage(&self, id: &InstanceId) -> Usage {
        let Ok(f) = self.0.function(id) else { return Usage::default() };
        let group = Cgroup::named(&f.paths.name);
        Usage { cpu: group.cpu(), memory: group.memory() }
    }

    fn written(&self, id: &InstanceId) -> Vec<(String, String)> {
        self.0.function(id).map(|f| lock(&f.written).clone()).unwrap_or_default()
    }

    async fn end_all(&self) {
        let all: Vec<Arc<Function>> = lock(&self.0.known).values().cloned().collect();
        for f in all {
            let _changing = f.changing.lock().await;
            f.leave_alone();
            let Some(record) = f.paths.read() else { continue };
            let id = &record.instance.id;
            let ended = async {
                self.0.remove(&f, &record.spec().ports, true).await?;
                f.keep(&Record { whole: false, started: false, process: None, ..record.clone() })
            };
            if let Err(e) = ended.await {
                tracing::warn!("function {id} does not wholly end: {e}");
            }
            if let Some(sockets) = self.0.workload.sockets() {
                sockets.remove(&f.paths);
            }
            f.set_health(Health::Stopped);
        }
    }

    async fn call(&self, id: &InstanceId, command: Command) -> Result<Answer, CallError> {
        let lost = |e: ComputeError| CallError::Lost(e.to_string());
        let f = self.0.function(id).map_err(lost)?;
        let record = f.record(id).map_err(lost)?;
        self.0.workload.call(&f.context(&record), command).await
    }

    fn log(&self, id: &InstanceId) -> Result<PathBuf, ComputeError> {
        Ok(self.0.function(id)?.paths.log())
    }

    fn inside(&self, id: &InstanceId) -> Result<Launch, ComputeError> {
        let f = self.0.function(id)?;
        let record = f.record(id)?;
        Ok(self.0.workload.inside(&f.context(&record)))
    }
}

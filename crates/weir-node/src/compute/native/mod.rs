//! Native functions: programs of the node in a network namespace, brought to work by the scripts of their image (COMPOSER
//! paper, section 6.1).
//!
//! A function has a network namespace with its ports, a control group, directories of its own, and at most one main process,
//! the script `run`; what else its scripts start is of its control group and ends with it.

mod record;
mod script;
mod supervise;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use tokio::process::Child;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;

use super::cgroup::Cgroup;
use super::launch::{Launch, is_installed};
use super::{Compute, ComputeError, Health, Notice, Observed, digest, netns};
use crate::instance::{Instance, InstanceId, Kind, NativeSpec, PortNames};
use crate::process::Process;
use record::{Paths, Record};
use script::Scripts;
use supervise::Supervision;

/// How long a main process may take to end when it is asked to.
const END_TIME: Duration = Duration::from_secs(5);
/// The user's shell, for those who look around in a function.
const SHELL: &str = "/bin/sh";

/// The driver.
#[derive(Debug, Clone)]
pub struct Native(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The folder of all functions.
    functions: PathBuf,
    /// The command line that leads to [`Launch::exec`], without its last argument.
    launcher: Vec<OsString>,
    notices: UnboundedSender<Notice>,
    /// The functions that are there.
    known: Mutex<BTreeMap<InstanceId, Arc<Function>>>,
}

/// A function that is there.
#[derive(Debug)]
struct Function {
    paths: Paths,
    /// Held while it is changed.
    changing: tokio::sync::Mutex<()>,
    health: Mutex<Health>,
    supervision: Mutex<Option<Supervision>>,
}

impl Native {
    /// A driver with its functions in a folder; `launcher` is the command line that leads to [`Launch::exec`].
    pub fn new(functions: PathBuf, launcher: Vec<OsString>, notices: UnboundedSender<Notice>) -> Native {
        Native(Arc::new(Shared { functions, launcher, notices, known: Mutex::default() }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Function {
    fn set_health(&self, health: Health) {
        *lock(&self.health) = health;
    }

    /// Ends the supervision: what ends from now on was asked to.
    fn leave_alone(&self) -> Option<Supervision> {
        let supervision = lock(&self.supervision).take();
        supervision.inspect(Supervision::end)
    }
}

impl Shared {
    fn function(&self, id: &InstanceId) -> Result<Arc<Function>, ComputeError> {
        lock(&self.known).get(id).cloned().ok_or_else(|| ComputeError::Missing(id.clone()))
    }

    /// The function of this name, which may not be there yet.
    fn entry(&self, id: &InstanceId) -> Arc<Function> {
        let new = || {
            Arc::new(Function {
                paths: Paths::new(&self.functions, id),
                changing: tokio::sync::Mutex::default(),
                health: Mutex::new(Health::Stopped),
                supervision: Mutex::default(),
            })
        };
        lock(&self.known).entry(id.clone()).or_insert_with(new).clone()
    }

    fn record(f: &Function, id: &InstanceId) -> Result<Record, ComputeError> {
        f.paths.read().ok_or_else(|| ComputeError::Missing(id.clone()))
    }

    fn keep(f: &Function, record: &Record) -> Result<(), ComputeError> {
        let folder = f.paths.folder.display();
        f.paths.write(record).map_err(ComputeError::system(format!("cannot write to {folder}")))
    }

    fn scripts<'a>(&'a self, f: &'a Function, record: &'a Record) -> Scripts<'a> {
        Scripts { id: &record.instance.id, paths: &f.paths, spec: record.spec(), launcher: &self.launcher }
    }

    /// Refuses what this node cannot run, before anything is done.
    fn check(&self, spec: &NativeSpec) -> Result<(), ComputeError> {
        if let Some(hides) = spec.native.private.iter().find(|p| self.functions.starts_with(p)) {
            let what = format!(
                "its private directory {hides} hides {}, where the node keeps functions: start the node with another --store",
                self.functions.display()
            );
            return Err(ComputeError::Image { image: spec.image.clone(), what });
        }
        let missing = spec.native.dependencies.iter().find(|(program, _)| !is_installed(program));
        if let Some((program, package)) = missing {
            let (program, package) = (program.clone(), package.clone());
            return Err(ComputeError::Dependency { image: spec.image.clone(), program, package });
        }
        Ok(())
    }

    /// The node's own copy of an image, which nobody changes.
    fn copy_image(&self, f: &Function, spec: &NativeSpec) -> Result<(), ComputeError> {
        let own = f.paths.image(spec);
        let image = |what: String| ComputeError::Image { image: spec.image.clone(), what };
        if !own.exists() {
            let found = digest::of_folder(&spec.folder).map_err(|e| image(e.to_string()))?;
            if found != spec.digest {
                let folder = spec.folder.display();
                return Err(image(format!(
                    "the folder {folder} is not what it was when the graph was applied; apply the graph again to use what is there now"
                )));
            }
            digest::copy(&spec.folder, &own).map_err(|e| image(format!("it cannot be copied: {e}")))?;
        }
        let has = |name: &str| own.join("scripts").join(name).is_file();
        if !has("start") && !has("run") {
            return Err(image("it has neither scripts/start nor scripts/run".into()));
        }
        Ok(())
    }

    /// Makes everything of a function that is not watched, but its work.
    async fn create(&self, f: &Function, instance: &Instance) -> Result<(), ComputeError> {
        let record =
            Record { instance: instance.clone(), whole: false, started: false, paused: false, process: None };
        let (spec, name) = (record.spec(), &f.paths.name);
        self.check(spec)?;
        self.remove(f, &spec.ports, true).await?;
        Self::keep(f, &record)?;
        self.copy_image(f, spec)?;
        let folder = f.paths.folder.display();
        fs::create_dir_all(f.paths.state())
            .map_err(ComputeError::system(format!("cannot make folders in {folder}")))?;
        netns::create(name)
            .await
            .map_err(ComputeError::system(format!("cannot make the network namespace {name}")))?;
        Cgroup::named(name)
            .create(spec.native.memory, spec.native.processes)
            .map_err(ComputeError::system(format!("cannot make the control group {name}")))?;
        for port in &spec.ports {
            self.add_port(f, port).await?;
        }
        self.scripts(f, &record).run("create").await?;
        Self::keep(f, &Record { whole: true, ..record })
    }

    async fn add_port(&self, f: &Function, port: &PortNames) -> Result<(), ComputeError> {
        let (inside, outside) = (&port.inside, &port.outside);
        netns::add_port(&f.paths.name, inside, outside).await.map_err(ComputeError::system(format!(
            "cannot make the port {inside} with its other end {outside}"
        )))
    }

    /// Brings a function to work that does not, and watches it.
    async fn start(self: &Arc<Self>, f: &Arc<Function>, record: &mut Record) -> Result<(), ComputeError> {
        let child = self.begin(f, record).await?;
        self.supervise(f, record, child);
        Ok(())
    }

    /// Brings a function to work that does not; gives its main process.
    async fn begin(&self, f: &Function, record: &mut Record) -> Result<Option<Child>, ComputeError> {
        let started = async {
            let scripts = self.scripts(f, record);
            scripts.run("start").await?;
            let child = scripts.main()?;
            for (handler, value) in &record.spec().writes {
                scripts.handler(handler, Some(value)).await?;
            }
            Ok(child)
        };
        let child = match started.await {
            Ok(child) => child,
            Err(e) => {
                // What it has begun by then.
                record.started = true;
                _ = self.end_rest(f, record).await;
                return Err(e);
            }
        };
        record.process = child.as_ref().and_then(Child::id).and_then(Process::of);
        record.started = true;
        record.paused = false;
        Self::keep(f, record)?;
        f.set_health(Health::Running);
        Ok(child)
    }

    /// Watches a function from now on.
    fn supervise(self: &Arc<Self>, f: &Arc<Function>, record: &Record, child: Option<Child>) {
        let new = Supervision::begin(self.clone(), f.clone(), record.clone(), child);
        if let Some(old) = lock(&f.supervision).replace(new) {
            old.end();
        }
    }

    /// Ends the work of a function that is not watched.
    async fn stop(&self, f: &Function, record: &mut Record) -> Result<(), ComputeError> {
        Self::end_main(record).await;
        self.end_rest(f, record).await
    }

    /// Ends what a function has started beside its main process.
    async fn end_rest(&self, f: &Function, record: &mut Record) -> Result<(), ComputeError> {
        let cgroup = Cgroup::named(&f.paths.name);
        // What is frozen cannot end.
        cgroup.signal(Signal::SIGCONT);
        let result = if record.started { self.scripts(f, record).run("stop").await } else { Ok(()) };
        cgroup
            .kill()
            .await
            .map_err(ComputeError::system(format!("cannot end the processes of {}", f.paths.name)))?;
        (record.started, record.process) = (false, None);
        Self::keep(f, record)?;
        f.set_health(Health::Stopped);
        result
    }

    /// Ends the main process: it is asked to, and killed if it does not.
    async fn end_main(record: &Record) {
        let Some(process) = record.process.filter(|p| p.lives()) else { return };
        let Ok(pid) = i32::try_from(process.pid) else { return };
        let pid = nix::unistd::Pid::from_raw(pid);
        // It may be frozen.
        _ = nix::sys::signal::kill(pid, Signal::SIGCONT);
        _ = nix::sys::signal::kill(pid, Signal::SIGTERM);
        let rounds = END_TIME.as_millis() / 10;
        for _ in 0..rounds {
            if !process.lives() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        _ = nix::sys::signal::kill(pid, Signal::SIGKILL);
    }

    /// Removes what there is of a function that is not watched: all, or all but what it keeps when it is made anew.
    async fn remove(&self, f: &Function, ports: &[PortNames], keep_state: bool) -> Result<(), ComputeError> {
        let name = &f.paths.name;
        let mut ports = ports.to_vec();
        if let Some(mut record) = f.paths.read() {
            if netns::exists(name) {
                if record.started {
                    // Whatever its scripts say, it goes.
                    _ = self.stop(f, &mut record).await;
                }
                if record.whole {
                    _ = self.scripts(f, &record).run("destroy").await;
                }
            }
            ports.extend(record.spec().ports.clone());
        }
        Cgroup::named(name)
            .remove()
            .await
            .map_err(ComputeError::system(format!("cannot remove the control group {name}")))?;
        for port in &ports {
            let outside = &port.outside;
            netns::remove_port(outside)
                .await
                .map_err(ComputeError::system(format!("cannot remove the interface {outside}")))?;
        }
        netns::remove(name)
            .await
            .map_err(ComputeError::system(format!("cannot remove the namespace {name}")))?;
        let remove = |path: &Path| match fs::remove_dir_all(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(ComputeError::system(format!("cannot remove {}", path.display()))(e))
            }
            _ => Ok(()),
        };
        remove(&f.paths.folder.join("private"))?;
        if !keep_state {
            remove(&f.paths.folder)?;
            self.forget_images();
        }
        f.set_health(Health::Stopped);
        Ok(())
    }

    /// Removes copies of images that no function uses.
    fn forget_images(&self) {
        let records = record::folders(&self.functions).into_iter().filter_map(|folder| record::read(&folder));
        let used: Vec<String> = records.map(|r| r.spec().digest.clone()).collect();
        let images = self.functions.join("images");
        for entry in fs::read_dir(&images).into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // One that is just being made is another's.
            if !used.contains(&name) && !name.ends_with(".partial") {
                _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Whether all that a function stands on is there.
    fn is_sound(f: &Function, record: &Record) -> bool {
        netns::exists(&f.paths.name) && record.spec().ports.iter().all(|p| netns::has_port(&p.outside))
    }

    /// Brings the ports of a function up or down.
    async fn set_ports(&self, record: &Record, up: bool) -> Result<(), ComputeError> {
        for port in &record.spec().ports {
            let outside = &port.outside;
            netns::set_up(outside, up)
                .await
                .map_err(ComputeError::system(format!("cannot bring {outside} up or down")))?;
        }
        Ok(())
    }

    async fn update(self: &Arc<Self>, f: &Arc<Function>, instance: &Instance) -> Result<(), ComputeError> {
        let old = f.paths.read().filter(|r| r.whole && r.started && !r.paused && Self::is_sound(f, r));
        let new = Record {
            instance: instance.clone(),
            whole: false,
            started: true,
            paused: false,
            process: old.as_ref().and_then(|r| r.process),
        };
        self.check(new.spec())?;
        let same_image =
            |r: &Record| r.spec().digest == new.spec().digest && r.spec().native == new.spec().native;
        let Some(old) = old.filter(same_image) else {
            f.leave_alone();
            self.create(f, instance).await?;
            let mut record = Self::record(f, &instance.id)?;
            return self.start(f, &mut record).await;
        };
        // Somebody may have removed the copy.
        self.copy_image(f, new.spec())?;
        Self::keep(f, &new)?;
        let supervision = f.leave_alone();
        let (before, after) = (&old.spec().ports, &new.spec().ports);
        for port in before.iter().filter(|p| !after.contains(p)) {
            let outside = &port.outside;
            netns::remove_port(outside)
                .await
                .map_err(ComputeError::system(format!("cannot remove the interface {outside}")))?;
        }
        for port in after.iter().filter(|p| !before.contains(p)) {
            self.add_port(f, port).await?;
        }
        let mut record = Record { whole: true, ..new };
        let scripts = self.scripts(f, &record);
        if scripts.has("update") {
            let updated = async {
                scripts.run("update").await?;
                for (handler, value) in &record.spec().writes {
                    scripts.handler(handler, Some(value)).await?;
                }
                Ok(())
            };
            let updated = updated.await;
            let child = match supervision {
                Some(supervision) => supervision.child().await,
                None => None,
            };
            // One that fails leaves in force what was, and the function at work.
            let now = if updated.is_ok() { &record } else { &old };
            Self::keep(f, now)?;
            f.set_health(Health::Running);
            self.supervise(f, now, child);
            return updated;
        }
        self.stop(f, &mut record).await?;
        self.start(f, &mut record).await
    }
}

#[async_trait]
impl Compute for Native {
    fn kind(&self) -> Kind {
        Kind::Native
    }

    async fn observe(&self) -> Result<Vec<Observed>, ComputeError> {
        let mut observed = Vec::new();
        for folder in record::folders(&self.0.functions) {
            let Some(record) = record::read(&folder) else {
                tracing::warn!("{} is no function's folder and is left alone", folder.display());
                continue;
            };
            let id = record.instance.id.clone();
            let f = self.0.entry(&id);
            let Ok(_changing) = f.changing.try_lock() else {
                // It is just being started again.
                observed.push(Observed { tag: record.instance.tag.clone(), id });
                continue;
            };
            let sound = record.whole && Shared::is_sound(&f, &record);
            if sound && record.started && lock(&f.supervision).is_none() {
                f.set_health(if record.paused { Health::Paused } else { Health::Running });
                self.0.supervise(&f, &record, None);
            }
            // What is down is the supervision's to repair.
            let whole = sound || lock(&f.supervision).is_some();
            let tag = if whole && record.started { record.instance.tag.clone() } else { String::new() };
            observed.push(Observed { id, tag });
        }
        Ok(observed)
    }

    async fn create(&self, instance: &Instance) -> Result<(), ComputeError> {
        let f = self.0.entry(&instance.id);
        let _changing = f.changing.lock().await;
        f.leave_alone();
        self.0.create(&f, instance).await
    }

    async fn start(&self, id: &InstanceId) -> Result<(), ComputeError> {
        let f = self.0.function(id)?;
        let _changing = f.changing.lock().await;
        let mut record = Shared::record(&f, id)?;
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
        let mut record = Shared::record(&f, id)?;
        let scripts = self.0.scripts(&f, &record);
        if scripts.has("pause") {
            scripts.run("pause").await?;
        } else {
            Cgroup::named(&f.paths.name).signal(Signal::SIGSTOP);
            self.0.set_ports(&record, false).await?;
        }
        record.paused = true;
        Shared::keep(&f, &record)?;
        f.set_health(Health::Paused);
        Ok(())
    }

    async fn resume(&self, id: &InstanceId) -> Result<(), ComputeError> {
        let f = self.0.function(id)?;
        let _changing = f.changing.lock().await;
        let mut record = Shared::record(&f, id)?;
        let scripts = self.0.scripts(&f, &record);
        if scripts.has("pause") {
            scripts.run("resume").await?;
        } else {
            self.0.set_ports(&record, true).await?;
            Cgroup::named(&f.paths.name).signal(Signal::SIGCONT);
        }
        record.paused = false;
        Shared::keep(&f, &record)?;
        f.set_health(Health::Running);
        Ok(())
    }

    async fn stop(&self, id: &InstanceId) -> Result<(), ComputeError> {
        let f = self.0.function(id)?;
        let _changing = f.changing.lock().await;
        f.leave_alone();
        let mut record = Shared::record(&f, id)?;
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
        Some(lock(&self.0.function(id).ok()?.health).clone())
    }

    async fn read(&self, id: &InstanceId, handler: &str) -> Result<String, ComputeError> {
        let f = self.0.function(id)?;
        let record = Shared::record(&f, id)?;
        self.0.scripts(&f, &record).handler(handler, None).await
    }

    async fn write(&self, id: &InstanceId, handler: &str, value: &str) -> Result<(), ComputeError> {
        let f = self.0.function(id)?;
        let record = Shared::record(&f, id)?;
        self.0.scripts(&f, &record).handler(handler, Some(value)).await.map(drop)
    }

    fn log(&self, id: &InstanceId) -> Result<PathBuf, ComputeError> {
        Ok(self.0.function(id)?.paths.log())
    }

    fn inside(&self, id: &InstanceId) -> Result<Launch, ComputeError> {
        let f = self.0.function(id)?;
        let record = Shared::record(&f, id)?;
        let launch = self.0.scripts(&f, &record).launch(vec![SHELL.to_owned()], true);
        Ok(Launch { netns: netns::path_for_others(&f.paths.name), ..launch })
    }
}

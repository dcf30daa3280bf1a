//! The life of a function: made, brought to work, changed, ended, removed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::RwLock;
use tokio::time::{Instant, sleep};

use super::supervise::Supervision;
use super::workload::{Context, Main, Workload};
use super::{Function, Paths, Record, Shared, lock, output, record};
use crate::compute::cgroup::Cgroup;
use crate::compute::{ComputeError, Health, netns};
use crate::instance::{Instance, InstanceId, PortNames};
use crate::process::Process;

/// How long a main process may take to end when it is asked to.
const END_TIME: Duration = Duration::from_secs(5);
/// How often a main process is looked at after its start.
const TRIAL_STEP: Duration = Duration::from_millis(10);

/// Held while a function's image is fetched. Functions of several kinds keep images in one place.
static FETCHING: RwLock<()> = RwLock::const_new(());

impl<W: Workload> Shared<W> {
    pub(super) fn function(&self, id: &InstanceId) -> Result<Arc<Function>, ComputeError> {
        lock(&self.known).get(id).cloned().ok_or_else(|| ComputeError::Missing(id.clone()))
    }

    /// The function of this name, which may not be there yet.
    pub(super) fn entry(&self, id: &InstanceId) -> Arc<Function> {
        let new = || {
            let paths = Paths::new(&self.functions, id);
            Arc::new(Function {
                written: Mutex::new(paths.read_written()),
                cores: Mutex::new(Cgroup::named(&paths.name).cores()),
                paths,
                changing: tokio::sync::Mutex::default(),
                health: Mutex::new(Health::Stopped),
                supervision: Mutex::default(),
            })
        };
        lock(&self.known).entry(id.clone()).or_insert_with(new).clone()
    }

    /// Makes everything of a function that is not watched, but its work.
    pub(super) async fn create(&self, f: &Function, instance: &Instance) -> Result<(), ComputeError> {
        let record =
            Record { instance: instance.clone(), whole: false, started: false, paused: false, process: None };
        let (spec, name) = (record.spec(), &f.paths.name);
        self.workload.check(spec)?;
        self.remove(f, &spec.ports, true).await?;
        {
            let _fetching = FETCHING.read().await;
            f.keep(&record)?;
            self.workload.fetch(&f.context(&record)).await?;
        }
        let folder = f.paths.folder.display();
        fs::create_dir_all(f.paths.state())
            .map_err(ComputeError::system(format!("cannot make folders in {folder}")))?;
        netns::create(name)
            .await
            .map_err(ComputeError::system(format!("cannot make the network namespace {name}")))?;
        Cgroup::named(name)
            .create(spec.limits())
            .map_err(ComputeError::system(format!("cannot make the control group {name}")))?;
        let cores = lock(&f.cores).clone();
        if let Some(cores) = cores {
            _ = Cgroup::named(name).bind(Some(&cores));
        }
        self.make_sockets(f)?;
        for port in &spec.ports {
            Self::add_port(f, port).await?;
        }
        f.context(&record).write_secrets()?;
        self.workload.create(&f.context(&record)).await?;
        f.keep(&Record { whole: true, ..record })
    }

    async fn add_port(f: &Function, port: &PortNames) -> Result<(), ComputeError> {
        let (inside, outside) = (&port.inside, &port.outside);
        let added = match (port.is_interface(), W::TAP) {
            // The data plane, or the function, makes it in the folder of sockets.
            (false, _) => Ok(()),
            (true, false) => netns::add_port(&f.paths.name, inside, outside).await,
            (true, true) => netns::add_tap(outside).await,
        };
        added.map_err(ComputeError::system(format!(
            "cannot make the port {inside} with its other end {outside}"
        )))
    }

    async fn remove_port(port: &PortNames) -> Result<(), ComputeError> {
        if !port.is_interface() {
            return Ok(());
        }
        let removed = netns::remove_port(&port.outside).await;
        removed.map_err(ComputeError::system(format!("cannot remove the interface {}", port.outside)))
    }

    /// Makes the folder of a function's sockets, if its kind has such. Somebody may have removed it.
    fn make_sockets(&self, f: &Function) -> Result<(), ComputeError> {
        let Some(sockets) = self.workload.sockets() else { return Ok(()) };
        let failed = format!("cannot make {}", sockets.of(&f.paths).display());
        sockets.create(&f.paths).map_err(ComputeError::system(failed))
    }

    /// Brings a function to work that does not, and watches it.
    pub(super) async fn start(
        self: &Arc<Self>,
        f: &Arc<Function>,
        record: &mut Record,
    ) -> Result<(), ComputeError> {
        let main = self.begin(f, record).await?;
        self.supervise(f, record, main);
        Ok(())
    }

    /// Brings a function to work that does not; gives its main process.
    pub(super) async fn begin(
        &self,
        f: &Function,
        record: &mut Record,
    ) -> Result<Option<Main>, ComputeError> {
        let started = async {
            self.make_sockets(f)?;
            let cx = f.context(record);
            let from = cx.log_length();
            let mut main = self.workload.start(&cx).await?;
            if let Some(main) = &mut main {
                self.stays_up(&cx, main, from).await?;
            }
            for (handler, value) in &record.spec().writes {
                self.workload.handler(&cx, handler, Some(value)).await?;
            }
            let written = lock(&f.written).clone();
            for (handler, value) in &written {
                // The document is what it has to be; this is beside it.
                if let Err(e) = self.workload.handler(&cx, handler, Some(value)).await {
                    tracing::warn!("handler {handler} of function {} is not written again: {e}", cx.id);
                }
            }
            Ok(main)
        };
        let main = match started.await {
            Ok(main) => main,
            Err(e) => {
                // What it has begun by then.
                record.started = true;
                _ = self.end_rest(f, record).await;
                return Err(e);
            }
        };
        record.process = main.as_ref().and_then(Main::process);
        record.started = true;
        record.paused = false;
        f.keep(record)?;
        f.set_health(Health::Running);
        Ok(main)
    }

    /// Waits a moment to see whether a main process ends at once; `from` is where its output begins in the log.
    pub(super) async fn stays_up(
        &self,
        cx: &Context<'_>,
        main: &mut Main,
        from: u64,
    ) -> Result<(), ComputeError> {
        let until = Instant::now() + W::TRIAL;
        while Instant::now() < until {
            let ended = match main {
                Main::Child(child) => match child.try_wait() {
                    Ok(status) => status.map(|s| format!(" ({})", output::said(s))),
                    Err(e) => Some(format!(" ({e})")),
                },
                Main::Process(process) => (!process.lives()).then(String::new),
            };
            if let Some(how) = ended {
                return Err(ComputeError::Program {
                    id: cx.id.clone(),
                    program: W::MAIN.to_owned(),
                    what: format!("ended at once{how}"),
                    output: output::tail(&cx.paths.log(), from),
                });
            }
            sleep(TRIAL_STEP).await;
        }
        Ok(())
    }

    /// Watches a function from now on.
    pub(super) fn supervise(self: &Arc<Self>, f: &Arc<Function>, record: &Record, main: Option<Main>) {
        let new = Supervision::begin(self.clone(), f.clone(), record.clone(), main);
        if let Some(old) = lock(&f.supervision).replace(new) {
            old.end();
        }
    }

    /// Ends the work of a function that is not watched, and makes it ready to be started.
    pub(super) async fn stop(&self, f: &Function, record: &mut Record) -> Result<(), ComputeError> {
        self.end(f, record).await?;
        self.refresh(f, record).await
    }

    async fn end(&self, f: &Function, record: &mut Record) -> Result<(), ComputeError> {
        self.end_main(f, record).await;
        self.end_rest(f, record).await
    }

    /// Makes a function that does not work ready to be started again.
    pub(super) async fn refresh(&self, f: &Function, record: &mut Record) -> Result<(), ComputeError> {
        if W::FRESH {
            let instance = record.instance.clone();
            self.create(f, &instance).await?;
            *record = f.record(&instance.id)?;
        }
        Ok(())
    }

    /// Ends what a function has started beside its main process.
    pub(super) async fn end_rest(&self, f: &Function, record: &mut Record) -> Result<(), ComputeError> {
        let cgroup = Cgroup::named(&f.paths.name);
        // What is frozen cannot end.
        cgroup.signal(Signal::SIGCONT);
        let result = if record.started { self.workload.stop(&f.context(record)).await } else { Ok(()) };
        cgroup
            .kill()
            .await
            .map_err(ComputeError::system(format!("cannot end the processes of {}", f.paths.name)))?;
        (record.started, record.process) = (false, None);
        f.keep(record)?;
        result
    }

    /// Ends the main process: it is asked to, and killed if it does not.
    pub(super) async fn end_main(&self, f: &Function, record: &Record) {
        let Some(process) = record.process.filter(|p| p.lives()) else { return };
        let Ok(pid) = i32::try_from(process.pid) else { return };
        let pid = nix::unistd::Pid::from_raw(pid);
        let signal = self.workload.end_signal(&f.context(record));
        // It may be frozen.
        _ = nix::sys::signal::kill(pid, Signal::SIGCONT);
        _ = nix::sys::signal::kill(pid, signal);
        // The first process of a namespace does not get a signal that it does not ask for.
        let rounds = if process.heeds(signal) { END_TIME.as_millis() / 10 } else { 0 };
        for _ in 0..rounds {
            if !process.lives() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        if process.lives() {
            _ = nix::sys::signal::kill(pid, Signal::SIGKILL);
        }
    }

    /// Removes what there is of a function that is not watched: all, or all but what it keeps when it is made anew.
    pub(super) async fn remove(
        &self,
        f: &Function,
        ports: &[PortNames],
        keep_state: bool,
    ) -> Result<(), ComputeError> {
        let name = &f.paths.name;
        let mut ports = ports.to_vec();
        if let Some(mut record) = f.paths.read() {
            if netns::exists(name) {
                if record.started {
                    // Whatever its scripts say, it goes.
                    _ = self.end(f, &mut record).await;
                }
                if record.whole {
                    _ = self.workload.destroy(&f.context(&record)).await;
                }
            }
            ports.extend(record.spec().ports.clone());
        }
        self.workload.forget(&f.paths).await;
        // One that is made anew meets the data plane at the same sockets.
        if let Some(sockets) = self.workload.sockets().filter(|_| !keep_state) {
            sockets.remove(&f.paths);
        }
        Cgroup::named(name)
            .remove()
            .await
            .map_err(ComputeError::system(format!("cannot remove the control group {name}")))?;
        for port in &ports {
            Self::remove_port(port).await?;
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
            // At once: a folder that is half-removed when the daemon ends would be nobody's.
            let gone = f.paths.folder.with_extension(record::REMOVED);
            remove(&gone)?;
            match fs::rename(&f.paths.folder, &gone) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(ComputeError::system(format!("cannot remove {}", f.paths.folder.display()))(
                        e,
                    ));
                }
                _ => remove(&gone)?,
            }
            self.forget_images();
        }
        Ok(())
    }

    /// Removes copies of images that no function uses.
    pub(super) fn forget_images(&self) {
        // While one is fetched, it is not known which are used: the next function that goes takes them with it.
        let Ok(_nobody_fetches) = FETCHING.try_write() else { return };
        let Ok(folders) = record::folders(&self.functions) else { return };
        let mut used = BTreeSet::new();
        for folder in folders {
            // What cannot be read may use any of them.
            let Some(record) = record::read(&folder) else { return };
            // Of whatever kind: several keep them in one place.
            used.insert(record.spec().digest.clone());
        }
        self.workload.retain(&used);
    }

    /// Brings the ports of a function up or down.
    pub(super) async fn set_ports(record: &Record, up: bool) -> Result<(), ComputeError> {
        // What a paused function does not take of shared memory stays there, and is refused when that is full.
        for port in record.spec().ports.iter().filter(|p| p.is_interface()) {
            let outside = &port.outside;
            netns::set_up(outside, up)
                .await
                .map_err(ComputeError::system(format!("cannot bring {outside} up or down")))?;
        }
        Ok(())
    }

    pub(super) async fn update(
        self: &Arc<Self>,
        f: &Arc<Function>,
        instance: &Instance,
    ) -> Result<(), ComputeError> {
        let old = f.paths.read().filter(|r| {
            // One whose main process has ended is started again with what is asked for now.
            r.whole && r.started && !r.paused && f.is_sound(r) && r.process.is_none_or(Process::lives)
        });
        let new = Record {
            instance: instance.clone(),
            whole: false,
            started: true,
            paused: false,
            process: old.as_ref().and_then(|r| r.process),
        };
        self.workload.check(new.spec())?;
        let same_image = f.paths.read().is_some_and(|r| self.workload.is_update(r.spec(), new.spec()));
        // Asked for once more as it is: what was written beside the document goes, and nobody knows what was there before.
        let again =
            old.as_ref().is_some_and(|r| r.instance.tag == instance.tag) && !lock(&f.written).is_empty();
        if again || !same_image {
            f.set_written(Vec::new())?;
        }
        let Some(old) = old.filter(|_| same_image && !again) else {
            f.leave_alone();
            self.create(f, instance).await?;
            let mut record = f.record(&instance.id)?;
            return self.start(f, &mut record).await;
        };
        // Somebody may have removed the copy.
        self.workload.fetch(&f.context(&new)).await?;
        f.keep(&new)?;
        let supervision = f.leave_alone();
        let (before, after) = (old.spec().ports.clone(), new.spec().ports.clone());
        for port in after.iter().filter(|p| !before.contains(p)) {
            Self::add_port(f, port).await?;
        }
        let mut record = Record { whole: true, ..new };
        let stands = W::REMEMBERS && record.spec().is_written_as(old.spec());
        let updated = async {
            let cx = f.context(&record);
            cx.write_secrets()?;
            if !self.workload.update(&cx, old.spec()).await? {
                return Ok(false);
            }
            // What its document says stands already, and may be state by now that has changed, or has come from another node.
            for (handler, value) in record.spec().writes.iter().filter(|_| !stands) {
                self.workload.handler(&cx, handler, Some(value)).await?;
            }
            Ok(true)
        };
        let updated = updated.await;
        // What stays are the ports of what is in force now.
        let (from, kept) = if updated.is_ok() { (before, after) } else { (after, before) };
        for port in from.iter().filter(|p| !kept.contains(p)) {
            Self::remove_port(port).await?;
        }
        if matches!(updated, Ok(false)) {
            self.stop(f, &mut record).await?;
            return self.start(f, &mut record).await;
        }
        let main = match supervision {
            Some(supervision) => supervision.main().await,
            None => None,
        };
        // One that fails leaves in force what was, and the function at work.
        let now = if updated.is_ok() { &record } else { &old };
        f.context(now).write_secrets()?;
        f.keep(now)?;
        f.set_health(Health::Running);
        self.supervise(f, now, main);
        updated?;
        if stands {
            return Ok(());
        }
        let mut written = lock(&f.written).clone();
        written.retain(|(handler, _)| record.spec().writes.iter().all(|(h, _)| h != handler));
        f.set_written(written)
    }
}

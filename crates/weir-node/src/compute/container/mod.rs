//! Containers: OCI images, run by runc through the runtime specification (COMPOSER paper, section 6.1: Docker).
//!
//! The network namespace is made before the container and outlives it, so that ports come and go while it runs.

mod config;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::time::timeout;
use weir_io::with_huge_pages;
use weir_model::template;
use weir_model::template::expand;
use weir_oci::{Digest, Root, Store};
use weir_switch::hash::hash;

use super::cgroup::Cgroup;
use super::hosted::{Context, Main, Paths, SHELL, Workload};
use super::launch::{Launch, mounts_for_others};
use super::netns::{self, Network};
use super::{ComputeError, digest, missing};
use crate::instance::{Kind, Spec, Work};
use crate::process::Process;

/// The program that runs containers, and its Debian package.
const RUNC: &str = "runc";

/// How long runc may take to remove a container.
const DELETE_TIME: Duration = Duration::from_secs(10);

/// A program that is run in a container: the file that says what goes when it is done.
struct Job(PathBuf);

impl Job {
    fn pid_file(&self) -> PathBuf {
        self.0.with_extension("pid")
    }

    /// What became of it. One that failed may go on although runc does not: it is killed.
    fn done<T>(self, cx: &Context<'_>, result: Result<T, ComputeError>) -> Result<T, ComputeError> {
        let pid = || fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok();
        // If it has ended, the number may be another process's by now, but none of this container's.
        let own = |pid: &i32| Cgroup::named(&cx.paths.name).processes().contains(pid);
        if result.is_err()
            && let Some(pid) = pid().filter(own).map(Pid::from_raw)
        {
            // It leads a process group, or not.
            _ = killpg(pid, Signal::SIGKILL);
            _ = kill(pid, Signal::SIGKILL);
        }
        result
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        _ = fs::remove_file(self.pid_file());
        _ = fs::remove_file(&self.0);
    }
}

/// The driver of containers.
#[derive(Debug)]
pub struct Container {
    /// Where runc keeps what it knows.
    state: PathBuf,
    images: Arc<Store>,
}

impl Container {
    /// With functions in a folder, and images from a store.
    pub fn new(functions: &Path, images: Arc<Store>) -> Container {
        Container { state: functions.join("containers/state"), images }
    }

    /// The store of images, in the folder of functions.
    pub fn store(functions: &Path, registries: weir_oci::Registries) -> Store {
        Store::new(functions.join("containers/images"), registries)
    }

    fn runc<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(RUNC);
        command.arg("--root").arg(&self.state).args(arguments);
        with_huge_pages(command.as_std_mut());
        command
    }

    /// Whether there is a container of a function, running or not.
    fn exists(&self, paths: &Paths) -> bool {
        self.state.join(&paths.name).exists()
    }

    fn root(&self, cx: &Context<'_>) -> Result<Root, ComputeError> {
        let digest = pinned(cx.spec)?;
        self.images.get(&digest).map_err(|e| image(cx.spec, e.to_string()))
    }

    /// Removes a container, whatever it does.
    async fn delete(&self, paths: &Paths) -> io::Result<()> {
        if !self.exists(paths) {
            return Ok(());
        }
        let output = self.runc(["delete", "--force", &paths.name]).kill_on_drop(true).output();
        // One that was damaged is none to it; what is left of it goes with its control group and namespace.
        if matches!(timeout(DELETE_TIME, output).await, Ok(Ok(o)) if o.status.success()) {
            return Ok(());
        }
        match fs::remove_dir_all(self.state.join(&paths.name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Makes the directories that a container may write to, at first with what the image has there.
    fn writable(cx: &Context<'_>, root: &Root) -> io::Result<Vec<(PathBuf, String)>> {
        let mut places = Vec::new();
        for seen in &container(cx.spec).writable {
            let kept = cx.paths.state().join(hash(&[seen]));
            if !kept.exists() && !digest::copy_tree(&root.files, Path::new(seen), &kept)? {
                // It is new: whoever the program runs as is to write to it.
                chown(&kept, Some(root.user.uid), Some(root.user.gid))?;
            }
            places.push((kept, seen.clone()));
        }
        Ok(places)
    }

    /// Writes what runc is to run.
    fn write_bundle(&self, cx: &Context<'_>) -> Result<PathBuf, ComputeError> {
        let root = self.root(cx)?;
        let writing = |path: &Path| ComputeError::system(format!("cannot write {}", path.display()));
        let tmp = root.files.join("tmp");
        open_to_all(&tmp).map_err(writing(&tmp))?;
        let bundle = cx.paths.folder.join("bundle");
        fs::create_dir_all(&bundle).map_err(writing(&bundle))?;
        let writable = Self::writable(cx, &root).map_err(writing(&cx.paths.state()))?;
        for (file, text) in config::files(cx.id, container(cx.spec), &cx.spec.params) {
            let path = bundle.join(file);
            fs::write(&path, text).map_err(writing(&path))?;
        }
        for name in &cx.spec.secrets {
            // Whoever its program runs as reads it, and nobody else.
            let file = cx.paths.secret(name);
            chown(&file, Some(root.user.uid), Some(root.user.gid)).map_err(writing(&file))?;
        }
        let spec = config::spec(cx, container(cx.spec), &root, &bundle, &writable)
            .map_err(|what| image(cx.spec, what))?;
        let path = bundle.join("config.json");
        let text = serde_json::to_vec(&spec).map_err(io::Error::other);
        // It has the values of parameters, which may be secrets; so has the folder.
        text.and_then(|text| fs::write(&path, text)).map_err(writing(&path))?;
        Ok(bundle)
    }

    /// Gives the ports what is asked for, and takes what was asked for before.
    async fn configure(cx: &Context<'_>, before: &Network) -> Result<(), ComputeError> {
        let done = netns::configure(&cx.paths.name, before.clone(), network(cx.spec)?).await;
        done.map_err(ComputeError::system("cannot give the container's ports their addresses"))
    }

    /// Runs a program in a container; the file says what, and goes when that is done. Values of parameters may be secrets, which
    /// have no place on a command line.
    fn exec(&self, cx: &Context<'_>, program: Vec<String>) -> Result<(Command, Job), ComputeError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let root = self.root(cx)?;
        let process =
            config::process(cx, container(cx.spec), &root, program).map_err(|what| image(cx.spec, what))?;
        let job = Job(cx.paths.job(NEXT.fetch_add(1, Ordering::Relaxed)));
        let write = || -> io::Result<()> {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&job.0)?;
            file.write_all(&serde_json::to_vec(&process)?)
        };
        write().map_err(ComputeError::system(format!("cannot write {}", job.0.display())))?;
        let mut command = self.runc(["exec", "--process"]);
        command.arg(&job.0).arg("--pid-file").arg(job.pid_file()).arg(&cx.paths.name);
        Ok((command, job))
    }
}

/// Makes the directory on which `/tmp` is mounted, open to all: runc gives what it mounts the mode of that.
fn open_to_all(tmp: &Path) -> io::Result<()> {
    match fs::symlink_metadata(tmp) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => fs::create_dir(tmp)?,
        Ok(m) if m.is_dir() => {}
        // What else it is, runc says.
        _ => return Ok(()),
    }
    fs::set_permissions(tmp, fs::Permissions::from_mode(0o1777))
}

fn container(spec: &Spec) -> &template::Container {
    match &spec.work {
        Work::Container { container, .. } => container,
        Work::Process { .. } | Work::Native { .. } | Work::Dpdk { .. } | Work::Vm { .. } => {
            unreachable!("a driver gets what is of its kind")
        }
    }
}

fn image(spec: &Spec, what: impl Into<String>) -> ComputeError {
    ComputeError::Image { image: spec.image.clone(), what: what.into() }
}

fn pinned(spec: &Spec) -> Result<Digest, ComputeError> {
    spec.digest.parse().map_err(|what: String| image(spec, what))
}

/// The variables of a container beside those of its image.
fn environment(cx: &Context<'_>) -> Vec<(String, String)> {
    let own = container(cx.spec).environment.iter();
    let own = own.map(|(name, text)| (name.clone(), expand(text, &cx.spec.params)));
    own.chain(cx.environment()).collect()
}

/// The addresses and routes that a function asks for.
fn network(spec: &Spec) -> Result<Network, ComputeError> {
    let value = |text: &String| Some(expand(text, &spec.params)).filter(|v| !v.trim().is_empty());
    let wrong = |place: String, value: &str, right: &str| {
        image(spec, format!("{place} is {value:?}, and should be {right}"))
    };
    let mut network = Network::default();
    for port in &spec.ports {
        let mut addresses = Vec::new();
        for text in container(spec).addresses.get(&port.inside).into_iter().flatten().filter_map(value) {
            let parsed =
                text.trim().split_once('/').and_then(|(a, n)| Some((a.parse().ok()?, n.parse().ok()?)));
            let most = |a: &std::net::IpAddr| if a.is_ipv4() { 32u8 } else { 128 };
            let address = parsed.filter(|(a, n)| *n <= most(a));
            let right = "an address with its prefix length, such as 10.0.0.1/24";
            addresses.push(
                address.ok_or_else(|| wrong(format!("an address of port {}", port.inside), &text, right))?,
            );
        }
        network.addresses.push((port.inside.clone(), addresses));
    }
    for (prefix, text) in &container(spec).routes {
        let Some(text) = value(text) else { continue };
        let to = prefix.split_once('/').and_then(|(a, n)| Some((a.parse().ok()?, n.parse().ok()?)));
        let gateway = text.trim().parse().ok();
        let (Some(to), Some(gateway)) = (to, gateway) else {
            return Err(wrong(format!("the router to {prefix}"), &text, "an address"));
        };
        network.routes.push((to, gateway));
    }
    Ok(network)
}

#[async_trait]
impl Workload for Container {
    const KIND: Kind = Kind::Container;
    const NEEDS: &'static [(&'static str, &'static str)] = &[(RUNC, RUNC)];
    const MAIN: &str = "the container's program";
    // Programs in images take for granted that nothing is there yet.
    const FRESH: bool = true;

    fn check(&self, spec: &Spec) -> Result<(), ComputeError> {
        if let Some(what) = missing(Self::NEEDS.iter().copied()) {
            return Err(ComputeError::Image { image: spec.image.clone(), what });
        }
        for server in config::name_servers(container(spec), &spec.params) {
            if server.parse::<std::net::IpAddr>().is_err() {
                let what = format!("the name server {server:?} is no address");
                return Err(image(spec, what));
            }
        }
        network(spec).map(drop)
    }

    async fn fetch(&self, cx: &Context<'_>) -> Result<(), ComputeError> {
        let Some(source) = cx.spec.source() else { return Ok(()) };
        let brought = self.images.bring(&source, &pinned(cx.spec)?).await;
        brought.map_err(|e| image(cx.spec, e.to_string()))
    }

    async fn create(&self, cx: &Context<'_>) -> Result<(), ComputeError> {
        Self::configure(cx, &Network::default()).await
    }

    async fn start(&self, cx: &Context<'_>) -> Result<Option<Main>, ComputeError> {
        let bundle = self.write_bundle(cx)?;
        fs::create_dir_all(&self.state)
            .map_err(ComputeError::system(format!("cannot make {}", self.state.display())))?;
        let file = cx.paths.folder.join("pid");
        let text = |path: &Path| path.display().to_string();
        let create = ["create", "--bundle", &text(&bundle), "--pid-file", &text(&file), &cx.paths.name];
        cx.run("runc create", self.runc(create)).await?;
        let pid = fs::read_to_string(&file).ok().and_then(|t| t.trim().parse().ok());
        let process = pid.and_then(Process::of);
        let process = process.ok_or_else(|| image(cx.spec, "runc tells no process of its container"))?;
        cx.run("runc start", self.runc(["start", &cx.paths.name])).await?;
        Ok(Some(Main::Process(process)))
    }

    async fn update(&self, cx: &Context<'_>, before: &Spec) -> Result<bool, ComputeError> {
        let same = before.params == cx.spec.params && before.ports == cx.spec.ports;
        let update = &container(cx.spec).update;
        if !same && update.is_empty() {
            return Ok(false);
        }
        let old = network(before)?;
        Self::configure(cx, &old).await?;
        if same {
            return Ok(true);
        }
        let updated = async {
            let (command, job) =
                self.exec(cx, update.iter().map(|t| expand(t, &cx.spec.params)).collect())?;
            job.done(cx, cx.run("the container's update", command).await)
        };
        let done = updated.await;
        if done.is_err()
            && let Err(e) = Self::configure(&Context { spec: before, ..*cx }, &network(cx.spec)?).await
        {
            tracing::warn!("function {} has not wholly the addresses that it had: {e}", cx.id);
        }
        done.map(|()| true)
    }

    async fn stop(&self, cx: &Context<'_>) -> Result<(), ComputeError> {
        self.delete(cx.paths).await.map_err(ComputeError::system("cannot remove the container"))
    }

    async fn handler(
        &self,
        cx: &Context<'_>,
        name: &str,
        value: Option<&str>,
    ) -> Result<String, ComputeError> {
        let Work::Container { handlers, .. } = &cx.spec.work else {
            return Err(ComputeError::Missing(cx.id.clone()));
        };
        let program = handlers.get(name).ok_or_else(|| cx.no_handler(name))?;
        let line = vec![program.clone(), if value.is_some() { "write" } else { "read" }.to_owned()];
        let (command, job) = self.exec(cx, line)?;
        job.done(cx, cx.ask(&format!("handler {name}"), command, value).await)
    }

    fn inside(&self, cx: &Context<'_>) -> Launch {
        let state = self.state.display();
        // A terminal is asked for only where there is one.
        let script =
            format!("test -t 0 && t=-t; exec {RUNC} --root '{state}' exec $t '{}' \"$@\"", cx.paths.name);
        Launch {
            mounts: Some(mounts_for_others()),
            netns: None,
            cgroup: None,
            private: Vec::new(),
            directory: "/".into(),
            environment: Vec::new(),
            terminal: true,
            prefix: vec![SHELL.into(), "-c".into(), script, "sh".into()],
            command: vec![SHELL.to_owned()],
        }
    }

    fn end_signal(&self, cx: &Context<'_>) -> Signal {
        let said = self.root(cx).ok().and_then(|r| r.config.stop_signal().clone());
        let signal = said.as_deref().map(|name| match name.parse::<i32>() {
            Ok(number) => Signal::try_from(number).ok(),
            Err(_) => name.parse().ok(),
        });
        signal.flatten().unwrap_or(Signal::SIGTERM)
    }

    async fn forget(&self, paths: &Paths) {
        if let Err(e) = self.delete(paths).await {
            tracing::warn!("the container {} is not wholly removed: {e}", paths.name);
        }
    }

    fn retain(&self, used: &BTreeSet<String>) {
        let used: Vec<Digest> = used.iter().filter_map(|d| d.parse().ok()).collect();
        self.images.retain(&used);
    }
}

//! Control groups with limits of memory, of processes and of processor time, by the files of version 1 or 2.
//!
//! Written here since the crates for it bring a D-Bus stack with them, and all that is needed are six files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::instance::Limits;
use weir_rest::usage;

const ROOT: &str = "/sys/fs/cgroup";
/// The group that holds all of this program's.
const PARENT: &str = "weir";
/// The controllers that are used.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// The period of which a share of processor time is taken, in microseconds.
const PERIOD: u64 = 100_000;
/// How often processes that were killed are looked for again.
const ROUNDS: u32 = 100;

/// A control group: a folder in each hierarchy that has one of the controllers.
#[derive(Debug, Clone)]
pub struct Cgroup {
    name: String,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
    cpuset: Option<PathBuf>,
    v2: bool,
}

impl Cgroup {
    /// That of this name, whether or not it is there.
    pub fn named(name: &str) -> Cgroup {
        let root = Path::new(ROOT);
        if root.join("cgroup.controllers").exists() {
            let folder = root.join(PARENT).join(name);
            return Cgroup {
                name: name.to_owned(),
                memory: Some(folder.clone()),
                pids: Some(folder.clone()),
                cpu: Some(folder.clone()),
                cpuset: Some(folder),
                v2: true,
            };
        }
        let of = |controller: &str| {
            let hierarchy = root.join(controller);
            hierarchy.is_dir().then(|| hierarchy.join(PARENT).join(name))
        };
        Cgroup {
            name: name.to_owned(),
            memory: of("memory"),
            pids: of("pids"),
            cpu: of("cpu"),
            cpuset: of("cpuset"),
            v2: false,
        }
    }

    /// The folders that a process of it joins.
    pub fn joined(&self) -> impl Iterator<Item = &PathBuf> {
        self.folders().chain(self.cpuset.as_ref().filter(|folder| !self.v2 && folder.is_dir()))
    }

    /// Makes its part in the hierarchy of cores, which not every machine has: with those of its parent.
    fn make_cpuset(&self) -> Option<()> {
        let folder = self.cpuset.as_ref()?;
        let parent = folder.parent()?;
        if self.v2 {
            for folder in [Path::new(ROOT), parent] {
                fs::write(folder.join("cgroup.subtree_control"), "+cpuset").ok()?;
            }
            return Some(());
        }
        // A new one has neither cores nor memory (cpusets(7)).
        for folder in [parent, folder] {
            fs::create_dir_all(folder).ok()?;
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let own = fs::read_to_string(folder.join(file)).ok()?;
                if own.trim().is_empty() {
                    let of_parent = fs::read_to_string(folder.parent()?.join(file)).ok()?;
                    fs::write(folder.join(file), of_parent).ok()?;
                }
            }
        }
        Some(())
    }

    /// Has its processes run on these cores alone, in a list as Linux writes it; without one, on all.
    ///
    /// # Errors
    /// The system refuses.
    pub fn bind(&self, cores: Option<&str>) -> io::Result<()> {
        let folder = self.cpuset.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let all = if self.v2 { String::new() } else { self.all_cores().unwrap_or_default() };
        fs::write(folder.join("cpuset.cpus"), cores.unwrap_or(&all))
    }

    fn all_cores(&self) -> Option<String> {
        fs::read_to_string(self.cpuset.as_ref()?.parent()?.join("cpuset.cpus")).ok()
    }

    /// The cores that its processes run on, if these are not all.
    pub fn cores(&self) -> Option<String> {
        let own = fs::read_to_string(self.cpuset.as_ref()?.join("cpuset.cpus")).ok()?.trim().to_owned();
        let all = self.all_cores().unwrap_or_default();
        (!own.is_empty() && own != all.trim()).then_some(own)
    }

    /// Its folders, each once.
    pub fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        let others = [&self.pids, &self.cpu].into_iter().flatten();
        let others = others.filter(|_| !self.v2 || self.memory.is_none());
        self.memory.iter().chain(others)
    }

    /// Whether this program sees control groups: without them functions have no limits, and what they start outlives them.
    ///
    /// # Errors
    /// It sees none.
    pub fn check() -> io::Result<()> {
        if Cgroup::named(PARENT).folders().next().is_some() {
            return Ok(());
        }
        let what = format!(
            "no control groups are mounted at {ROOT}; `ip netns exec` hides them: enter a network namespace by `nsenter --net=/run/netns/NAME`"
        );
        Err(io::Error::new(io::ErrorKind::NotFound, what))
    }

    /// Makes it, with limits.
    ///
    /// # Errors
    /// The system refuses, or there are no control groups.
    pub fn create(&self, limits: Limits) -> io::Result<()> {
        Cgroup::check()?;
        let Limits { memory, processes, cpu } = limits;
        for folder in self.folders() {
            if self.v2
                && let Some(parent) = folder.parent()
            {
                fs::create_dir_all(parent)?;
                let switch: Vec<String> = CONTROLLERS.iter().map(|c| format!("+{c}")).collect();
                for folder in [Path::new(ROOT), parent] {
                    fs::write(folder.join("cgroup.subtree_control"), switch.join(" "))?;
                }
            }
            fs::create_dir_all(folder)?;
        }
        _ = self.make_cpuset();
        if let Some(folder) = &self.memory {
            let file = if self.v2 { "memory.max" } else { "memory.limit_in_bytes" };
            fs::write(folder.join(file), memory.to_string())?;
        }
        if let Some(folder) = &self.pids {
            fs::write(folder.join("pids.max"), processes.to_string())?;
        }
        if let (Some(folder), Some(cpu)) = (&self.cpu, cpu) {
            let quota = u64::from(cpu) * PERIOD / 1000;
            if self.v2 {
                fs::write(folder.join("cpu.max"), format!("{quota} {PERIOD}"))?;
            } else {
                fs::write(folder.join("cpu.cfs_period_us"), PERIOD.to_string())?;
                fs::write(folder.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
        }
        Ok(())
    }

    /// Takes this process in.
    ///
    /// # Errors
    /// The system refuses.
    pub fn join(&self) -> io::Result<()> {
        for folder in self.joined() {
            fs::write(folder.join("cgroup.procs"), std::process::id().to_string())?;
        }
        Ok(())
    }

    /// Whether it is there, in every hierarchy that it should be in.
    pub fn exists(&self) -> bool {
        self.folders().all(|f| f.is_dir())
    }

    /// Whether somebody has frozen its processes.
    pub fn is_frozen(&self) -> bool {
        let hierarchies = [self.folders().next().cloned().filter(|_| self.v2), self.freezer()];
        let frozen = |folder: &PathBuf| {
            let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
            read("cgroup.events").lines().any(|l| l == "frozen 1") || read("freezer.state").trim() == "FROZEN"
        };
        hierarchies.iter().flatten().any(frozen)
    }

    /// Its folder in the hierarchy of version 1 that freezes, which only runtimes of containers make.
    fn freezer(&self) -> Option<PathBuf> {
        let folder = Path::new(ROOT).join("freezer").join(PARENT).join(&self.name);
        (!self.v2 && folder.is_dir()).then_some(folder)
    }

    /// Its processes.
    pub fn processes(&self) -> Vec<i32> {
        let read = |f: &PathBuf| fs::read_to_string(f.join("cgroup.procs")).unwrap_or_default();
        let text = self.folders().next().map(read).unwrap_or_default();
        text.lines().filter_map(|l| l.parse().ok()).collect()
    }

    /// The bytes of memory that it takes.
    pub fn memory(&self) -> Option<u64> {
        let file = if self.v2 { "memory.current" } else { "memory.usage_in_bytes" };
        fs::read_to_string(self.memory.as_ref()?.join(file)).ok()?.trim().parse().ok()
    }

    /// The processor time that its processes took. Where the group does not count it, of those that there are now, with what theirs were that
    /// ended.
    pub fn cpu(&self) -> Option<Duration> {
        let folder = self.cpu.as_ref()?;
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
        if self.v2 {
            let text = read("cpu.stat")?;
            let micros = text.lines().find_map(|l| l.strip_prefix("usage_usec "))?;
            return micros.trim().parse().ok().map(Duration::from_micros);
        }
        if let Some(nanos) = read("cpuacct.usage").and_then(|text| text.trim().parse().ok()) {
            return Some(Duration::from_nanos(nanos));
        }
        let processes = self.processes();
        let pids = processes.iter().filter_map(|pid| u32::try_from(*pid).ok());
        (!processes.is_empty()).then(|| pids.filter_map(usage::cpu_of).sum())
    }

    /// How many of its processes the kernel has killed for want of memory.
    pub fn memory_kills(&self) -> u64 {
        let file = if self.v2 { "memory.events" } else { "memory.oom_control" };
        let text =
            self.memory.as_ref().and_then(|f| fs::read_to_string(f.join(file)).ok()).unwrap_or_default();
        text.lines().find_map(|l| l.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// Sends a signal to all its processes.
    pub fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            // It may have ended meanwhile.
            _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Kills all its processes, those too that come meanwhile.
    ///
    /// # Errors
    /// Some do not end.
    pub async fn kill(&self) -> io::Result<()> {
        for _ in 0..ROUNDS {
            if self.processes().is_empty() {
                return Ok(());
            }
            self.signal(Signal::SIGKILL);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let left = self.processes();
        if left.is_empty() { Ok(()) } else { Err(io::Error::other(format!("processes {left:?} do not end"))) }
    }

    /// Kills its processes and removes it. One that is not there is no error.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn remove(&self) -> io::Result<()> {
        self.kill().await?;
        // Whoever runs containers makes one in every hierarchy.
        let hierarchies = fs::read_dir(ROOT).into_iter().flatten().filter_map(Result::ok).map(|e| e.path());
        let folders = hierarchies.map(|h| h.join(PARENT).join(&self.name)).filter(|f| f.is_dir());
        let unified = self.folders().filter(|_| self.v2).cloned();
        let mut failed = Ok(());
        // All of them, also behind one that cannot be removed.
        for folder in folders.chain(unified) {
            if let Err(e) = remove_folder(&folder).await {
                failed = Err(e);
            }
        }
        failed
    }
}

/// Removes a group's folder. A process that was killed is in it until the kernel has done with it.
async fn remove_folder(folder: &Path) -> io::Result<()> {
    for _ in 0..ROUNDS {
        match fs::remove_dir(folder) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => return Ok(()),
        }
    }
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn its_processes_run_on_the_cores_that_it_is_bound_to() {
        let group = Cgroup::named(&format!("test-cores-{}", std::process::id()));
        group.create(Limits { memory: 64 << 20, processes: 8, cpu: None }).unwrap();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        for folder in group.joined() {
            fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        let cores = || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            let line = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
            line.unwrap_or_default().trim().to_owned()
        };
        let all = cores();
        assert_eq!(group.cores(), None);
        // A machine without this hierarchy binds nothing.
        if group.bind(Some("0")).is_ok() && all != "0" {
            assert_eq!((cores(), group.cores()), ("0".to_owned(), Some("0".to_owned())));
            group.bind(None).unwrap();
            assert_eq!((cores(), group.cores()), (all, None));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        group.remove().await.unwrap();
    }
}

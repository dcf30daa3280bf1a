//! What a kind of function has to say for its functions to be run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use tokio::process::Child;
use weir_protocol::{Answer, Command};

use super::record::Paths;
use crate::compute::cgroup::Cgroup;
use crate::compute::launch::{Launch, mounts_for_others};
use crate::compute::sockets::Sockets;
use crate::compute::{ComputeError, digest, netns};
use crate::connection::CallError;
use crate::instance::{InstanceId, Kind, Spec, Work};
use crate::process::{Halt, Process};
use crate::traces::FunctionTrace;

/// The user's shell, for those who look around in a function.
pub const SHELL: &str = "/bin/sh";

/// The programs of functions of one kind.
#[async_trait]
pub trait Workload: Debug + Send + Sync + 'static {
    /// The kind.
    const KIND: Kind;
    /// The programs that all its functions need of the node, each with the Debian package that has it.
    const NEEDS: &'static [(&'static str, &'static str)] = &[];
    /// How its functions may meet the switch.
    const PORTS: &'static [&'static str] = &["veth"];
    /// What its main process is called in messages.
    const MAIN: &str;
    /// Whether an update leaves what was written to its handlers, as long as it is configured as before.
    const REMEMBERS: bool = false;
    /// Whether each start begins in a network namespace that nobody has used.
    const FRESH: bool;
    /// Whether the main process is the other end of its network interfaces (TAP). Else it has one of each pair (veth).
    const TAP: bool = false;
    /// How long a main process is looked at after its start: one that ends by then did not come to work. None, if it has said by
    /// then that it works.
    const TRIAL: Duration = Duration::from_millis(150);

    /// Refuses what this node cannot run, before anything is done.
    ///
    /// # Errors
    /// What it lacks.
    fn check(&self, _: &Spec) -> Result<(), ComputeError> {
        Ok(())
    }

    /// The sockets of its functions: ports that are no network interfaces are among them.
    fn sockets(&self) -> Option<&Sockets> {
        None
    }

    /// Brings the image here, if it is not.
    async fn fetch(&self, _: &Context<'_>) -> Result<(), ComputeError> {
        Ok(())
    }

    /// Makes what it has beside namespace, control group, folder and ports, which are there.
    async fn create(&self, _: &Context<'_>) -> Result<(), ComputeError> {
        Ok(())
    }

    /// Brings it to work; gives its main process, if it has one.
    async fn start(&self, cx: &Context<'_>) -> Result<Option<Main>, ComputeError>;

    /// Takes over new values of parameters and new ports while it works; `false`: it has to be started again for that.
    async fn update(&self, cx: &Context<'_>, before: &Spec) -> Result<bool, ComputeError>;

    /// Stops forwarding, if the image has means of its own for that; says whether.
    async fn pause(&self, _: &Context<'_>) -> Result<bool, ComputeError> {
        Ok(false)
    }

    /// Goes on after a pause by such means.
    async fn resume(&self, _: &Context<'_>) -> Result<bool, ComputeError> {
        Ok(false)
    }

    /// Whether an instance can become another by an [`update`](Workload::update), or has to be made anew.
    fn is_update(&self, before: &Spec, after: &Spec) -> bool {
        before.digest == after.digest && before.work == after.work
    }

    /// Undoes the start, after the main process has ended. What is left of its control group is killed then.
    async fn stop(&self, _: &Context<'_>) -> Result<(), ComputeError> {
        Ok(())
    }

    /// Undoes the creation.
    async fn destroy(&self, _: &Context<'_>) -> Result<(), ComputeError> {
        Ok(())
    }

    /// What keeps it from its work although it has not ended, as far as that can be seen. Asked every few seconds; it takes no longer
    /// than [`ANSWER`].
    async fn hang(&self, cx: &Context<'_>, main: Option<Process>) -> Option<Hang> {
        halted(Self::MAIN, cx, main)
    }

    /// Why packets ended in it, and how many, if it counts them.
    async fn drops(&self, _: &Context<'_>) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Follows its next packets itself, if it can.
    async fn trace(&self, _: &Context<'_>, _count: u32) -> Option<FunctionTrace> {
        None
    }

    /// Reads a public handler, or writes a value to it.
    async fn handler(
        &self,
        cx: &Context<'_>,
        name: &str,
        _value: Option<&str>,
    ) -> Result<String, ComputeError> {
        Err(cx.no_handler(name))
    }

    /// Has its data plane carry out a command, if it has one of its own.
    async fn call(&self, cx: &Context<'_>, _: Command) -> Result<Answer, CallError> {
        let function = &cx.id.function;
        Err(CallError::Refused(vec![format!("function '{function}' has no data plane of its own")]))
    }

    /// How a program is started inside.
    fn inside(&self, cx: &Context<'_>) -> Launch {
        Launch { mounts: Some(mounts_for_others()), ..cx.launch(vec![SHELL.to_owned()], true) }
    }

    /// The signal that asks its main process to end.
    fn end_signal(&self, _: &Context<'_>) -> Signal {
        Signal::SIGTERM
    }

    /// Removes what there is of a function beside what is common, whatever its record says.
    async fn forget(&self, _: &Paths) {}

    /// Removes the node's copies of images but those with these digests.
    fn retain(&self, _: &BTreeSet<String>) {}
}

/// The folder of secrets in a container.
pub const CONTAINER_SECRETS: &str = "/run/secrets";

/// How long a function may take to answer whether it works.
pub const ANSWER: Duration = Duration::from_secs(2);

/// The reason why a function does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hang {
    /// What was seen.
    pub what: String,
    /// Whether it is to be started again if that lasts. What somebody does to it on purpose is not undone.
    pub cure: bool,
}

/// Whether a main process has been stopped from outside; `name` is what it is called. A function without one stands if all its processes do.
pub fn halted(name: &str, cx: &Context<'_>, main: Option<Process>) -> Option<Hang> {
    let cgroup = Cgroup::named(&cx.paths.name);
    if cgroup.is_frozen() {
        return Some(Hang { what: "its control group is frozen".to_owned(), cure: false });
    }
    let (name, halt) = match main {
        Some(main) => (name, main.halt()?),
        None => {
            let all: Option<Vec<Halt>> =
                cgroup.processes().into_iter().map(|pid| Process::of(pid.try_into().ok()?)?.halt()).collect();
            ("each of its processes", *all?.first()?)
        }
    };
    Some(match halt {
        Halt::Stopped => Hang { what: format!("{name} is stopped by a signal"), cure: true },
        Halt::Traced => Hang { what: format!("{name} is stopped by a debugger"), cure: false },
    })
}

/// A function that something is done with.
#[derive(Debug)]
pub struct Context<'a> {
    /// Its name.
    pub id: &'a InstanceId,
    /// Its files.
    pub paths: &'a Paths,
    /// What it is.
    pub spec: &'a Spec,
}

impl Context<'_> {
    /// How a program is started where the function is.
    pub fn launch(&self, command: Vec<String>, terminal: bool) -> Launch {
        Launch {
            mounts: None,
            netns: Some(netns::path(&self.paths.name)),
            cgroup: Some(self.paths.name.clone()),
            private: Vec::new(),
            directory: self.paths.state(),
            environment: self.environment(),
            terminal,
            prefix: Vec::new(),
            command,
        }
    }

    /// That the image has no such handler.
    pub fn no_handler(&self, name: &str) -> ComputeError {
        ComputeError::Image { image: self.spec.image.clone(), what: format!("it has no handler {name}") }
    }

    /// Makes the node's own copy of an image that is a folder, which nobody changes.
    pub fn copy_image(&self, folder: &Path) -> Result<(), ComputeError> {
        let own = self.paths.image(&self.spec.digest);
        let image = |what: String| ComputeError::Image { image: self.spec.image.clone(), what };
        if own.exists() {
            return Ok(());
        }
        let found = digest::of_folder(folder).map_err(|e| image(e.to_string()))?;
        if found != self.spec.digest {
            let folder = folder.display();
            return Err(image(format!(
                "the folder {folder} is not what it was when the graph was applied; apply the graph again to use what is there now"
            )));
        }
        digest::copy(folder, &own).map_err(|e| image(format!("it cannot be copied: {e}")))
    }

    /// The variables that every program of a function has.
    pub fn environment(&self) -> Vec<(String, String)> {
        let ports: Vec<&str> = self.spec.ports.iter().map(|p| p.inside.as_str()).collect();
        let mut environment = vec![
            ("WEIR_GRAPH".to_owned(), self.id.graph.clone()),
            ("WEIR_FUNCTION".to_owned(), self.id.function.clone()),
            ("WEIR_PORTS".to_owned(), ports.join(" ")),
        ];
        environment.extend(self.spec.params.iter().map(|(name, v)| self.variable(name, v)));
        environment
    }

    /// The variable of a parameter. Everybody who may see its processes may see their environment: of a secret it has the file.
    fn variable(&self, name: &str, value: &str) -> (String, String) {
        if !self.spec.secrets.contains(name) {
            return (format!("PARAM_{name}"), value.to_owned());
        }
        let file = match self.spec.work {
            Work::Container { .. } => Path::new(CONTAINER_SECRETS).join(name),
            _ => self.paths.secret(name),
        };
        (format!("PARAM_{name}_FILE"), file.display().to_string())
    }

    /// Writes the secrets to their files, for root alone. They stay the same files: a container has them by their inodes. One that is
    /// right is left as it is, and none is ever empty.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_secrets(&self) -> Result<(), ComputeError> {
        let folder = self.paths.secrets();
        let write = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                if !entry.file_name().to_str().is_some_and(|name| self.spec.secrets.contains(name)) {
                    fs::remove_file(entry.path())?;
                }
            }
            for (name, value) in self.spec.params.iter().filter(|(name, _)| self.spec.secrets.contains(*name))
            {
                let path = self.paths.secret(name);
                if fs::read(&path).is_ok_and(|now| now == value.as_bytes()) {
                    continue;
                }
                let mut file =
                    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
                file.write_all(value.as_bytes())?;
                file.set_len(value.len() as u64)?;
            }
            Ok(())
        };
        if self.spec.secrets.is_empty() && !folder.exists() {
            return Ok(());
        }
        write().map_err(ComputeError::system(format!("cannot write to {}", folder.display())))
    }
}

/// A main process.
#[derive(Debug)]
pub enum Main {
    /// A child of this program.
    Child(Child),
    /// Another process.
    Process(Process),
}

impl Main {
    /// Its number, unless it has ended.
    pub(super) fn process(&self) -> Option<Process> {
        match self {
            Main::Child(child) => child.id().and_then(Process::of),
            Main::Process(process) => Some(*process),
        }
    }
}

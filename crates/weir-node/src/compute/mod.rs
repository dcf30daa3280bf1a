//! Drivers of functions that are not inline, one file or folder a kind (COMPOSER paper, section 5.4.2, table 5).
//!
//! A driver keeps what it runs on disk, so that [`Compute::observe`] tells a daemon that comes back what is there, and it goes
//! on supervising it: a function that dies is started again, and nothing else notices.

pub mod cgroup;
pub mod container;
pub mod digest;
pub mod dpdk;
pub mod dummy;
pub mod hosted;
pub mod launch;
pub mod native;
pub mod netns;
pub mod process;
pub mod sockets;
pub mod vm;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use weir_model::template::{Implementation, Template};
use weir_protocol::{Answer, Command};

use crate::connection::CallError;
use crate::instance::{Instance, InstanceId, Kind, PortNames};
use crate::traces::FunctionTrace;
use launch::Launch;

/// What the data plane of a function calls the one graph that it runs.
pub const OWN_GRAPH: &str = "function";

/// Runs functions of one kind. What is done to one instance is done one thing at a time; the caller sees to that.
#[async_trait]
pub trait Compute: Debug + Send + Sync {
    /// The kind.
    fn kind(&self) -> Kind;

    /// How its functions may meet the switch.
    fn ports(&self) -> &'static [&'static str];

    /// The programs that the node needs to run any function of the kind, each with the Debian package that has it.
    fn needs(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// What is there, and takes up its supervision. Called first, and whenever something may have been changed from elsewhere.
    async fn observe(&self) -> Result<Vec<Observed>, ComputeError>;

    /// Makes an instance with its ports. What there is of an earlier one by its name goes first.
    async fn create(&self, instance: &Instance) -> Result<(), ComputeError>;

    /// Brings an instance to work.
    async fn start(&self, id: &InstanceId) -> Result<(), ComputeError>;

    /// Makes an instance that is there what is asked for now: with its state and its ports where they stay, else anew. It works
    /// then.
    async fn update(&self, instance: &Instance) -> Result<(), ComputeError>;

    /// Whether an instance could be made here, as far as that can be said while nothing is done.
    ///
    /// # Errors
    /// Why it could not.
    fn check(&self, _: &Instance) -> Result<(), ComputeError> {
        Ok(())
    }

    /// Stops forwarding; memory stays as it is.
    async fn pause(&self, id: &InstanceId) -> Result<(), ComputeError>;

    /// Goes on after a pause.
    async fn resume(&self, id: &InstanceId) -> Result<(), ComputeError>;

    /// Ends the work; ports and files stay, and [`start`](Compute::start) begins again.
    async fn stop(&self, id: &InstanceId) -> Result<(), ComputeError>;

    /// Removes an instance with all that belongs to it. One that is not there is no error.
    async fn destroy(&self, id: &InstanceId) -> Result<(), ComputeError>;

    /// Ends all that it runs, for a node that ends with its packets: what instances keep stays, and they are made anew when they are
    /// wanted again.
    async fn end_all(&self) {}

    /// Handlers that were written since an instance was last made what is asked for, and what: in their order. They are written
    /// again when it is started again.
    fn written(&self, _: &InstanceId) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Has an instance run on these cores alone, in a list as Linux writes it; without one, on all. What cannot be is left as it is.
    fn bind(&self, _: &InstanceId, _: Option<&str>) {}

    /// The cores that an instance runs on, if these are not all.
    fn cores(&self, _: &InstanceId) -> Option<String> {
        None
    }

    /// What an instance takes of the machine, as far as that is known.
    fn usage(&self, _: &InstanceId) -> Usage {
        Usage::default()
    }

    /// How an instance is; `None`: there is none.
    fn health(&self, id: &InstanceId) -> Option<Health>;

    /// Why packets ended in it, and how many: by reason, as far as it counts them.
    async fn drops(&self, _: &InstanceId) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// Follows its next packets itself, if its kind can: the bytes that packets came in with tell which they are.
    async fn trace(&self, _: &InstanceId, _count: u32) -> Option<FunctionTrace> {
        None
    }

    /// Reads a public handler.
    async fn read(&self, id: &InstanceId, handler: &str) -> Result<String, ComputeError>;

    /// Writes a public handler; `keep`: what it holds is to be written again when the instance is started again.
    async fn write(
        &self,
        id: &InstanceId,
        handler: &str,
        value: &str,
        keep: bool,
    ) -> Result<(), ComputeError>;

    /// Has the data plane of an instance carry out a command, if its kind has one of its own: the graph there is called [`OWN_GRAPH`].
    async fn call(&self, id: &InstanceId, _: Command) -> Result<Answer, CallError> {
        Err(CallError::Refused(vec![format!("function '{}' has no data plane of its own", id.function)]))
    }

    /// The file that holds its output.
    fn log(&self, id: &InstanceId) -> Result<PathBuf, ComputeError>;

    /// How a program is started inside of it.
    fn inside(&self, id: &InstanceId) -> Result<Launch, ComputeError>;
}

/// An instance that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Its name.
    pub id: InstanceId,
    /// The tag of what it was made from; empty if it was left half-made or was damaged.
    pub tag: String,
    /// Its ports.
    pub ports: Vec<PortNames>,
}

/// The processor time and memory of an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time since its processes began.
    pub cpu: Option<Duration>,
    /// Bytes of memory now.
    pub memory: Option<u64>,
}

/// How an instance is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Made, and not at work.
    Stopped,
    /// At work.
    Running,
    /// Paused.
    Paused,
    /// It does not work, and has not ended.
    Hung {
        /// What was seen.
        reason: String,
    },
    /// It ended by itself, and is started again.
    Down {
        /// How it ended.
        reason: String,
    },
}

/// A notification by a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The instance.
    pub id: InstanceId,
    /// What happened.
    pub what: NoticeKind,
    /// More, for people.
    pub text: String,
}

/// The kind of change of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// It ended by itself.
    Died,
    /// It does not work, and has not ended.
    Hung,
    /// It works again.
    Restarted,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum ComputeError {
    /// The node has no driver of this kind.
    #[error("this node runs no functions of kind {}", .0.name())]
    NoDriver(Kind),
    /// The image is not what it should be.
    #[error("the image '{image}': {what}")]
    Image {
        /// The image.
        image: String,
        /// What is wrong.
        what: String,
    },
    /// A program of the image failed.
    #[error("{program} of function '{}' {what}{}", .id.function, shown(.output))]
    Program {
        /// The function.
        id: InstanceId,
        /// The program.
        program: String,
        /// How it ended.
        what: String,
        /// The end of its output.
        output: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was to be done.
        what: String,
        /// Why it was not.
        source: io::Error,
    },
    /// There is no such instance.
    #[error("function '{}' of graph '{}' does not run", .0.function, .0.graph)]
    Missing(InstanceId),
}

fn shown(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!("; it says: {output}") }
}

/// Which of these programs are not there, each with its Debian package; nothing if all are.
pub fn missing<'a>(programs: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let missing = programs.filter(|(program, _)| !launch::is_installed(program));
    let missing: Vec<String> = missing
        .map(|(program, package)| {
            format!("it needs the program {program}, which this node does not have: install the Debian package {package}")
        })
        .collect();
    (!missing.is_empty()).then(|| missing.join("; "))
}

impl ComputeError {
    /// What a failed system call means.
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> ComputeError {
        let what = what.into();
        move |source| ComputeError::System { what, source: source.into() }
    }
}

/// The drivers of a node.
#[derive(Debug, Clone, Default)]
pub struct Drivers(BTreeMap<Kind, Arc<dyn Compute>>);

impl Drivers {
    /// With one more.
    #[must_use]
    pub fn with(mut self, driver: impl Compute + 'static) -> Drivers {
        self.0.insert(driver.kind(), Arc::new(driver));
        self
    }

    /// The driver of a kind.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, kind: Kind) -> Result<Arc<dyn Compute>, ComputeError> {
        self.0.get(&kind).cloned().ok_or(ComputeError::NoDriver(kind))
    }

    /// What this node lacks to run functions of an image, if it lacks anything.
    pub fn lack(&self, template: &Template) -> Option<String> {
        let kind = Kind::of(template);
        if kind == Kind::Inline {
            return None;
        }
        let driver = match self.get(kind) {
            Ok(driver) => driver,
            Err(e) => return Some(e.to_string()),
        };
        let of_kind = driver.needs().iter().copied();
        let of_image = match &template.implementation {
            Implementation::Native { native } => Some(&native.dependencies),
            Implementation::Dpdk { dpdk } => Some(&dpdk.dependencies),
            Implementation::Click(_)
            | Implementation::Process { .. }
            | Implementation::Vm { .. }
            | Implementation::Container { .. }
            | Implementation::Graph { .. } => None,
        };
        let of_image =
            of_image.into_iter().flatten().map(|(program, package)| (program.as_str(), package.as_str()));
        let program = match &template.implementation {
            Implementation::Dpdk { dpdk } if !dpdk.dependencies.contains_key(&dpdk.program) => {
                (!launch::is_installed(&dpdk.program))
                    .then(|| format!("this node has no program {}", dpdk.program))
            }
            _ => None,
        };
        missing(of_kind.chain(of_image)).or(program)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Compute>> {
        self.0.values()
    }
}

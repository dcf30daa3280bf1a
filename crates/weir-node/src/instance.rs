//! Instances: what drivers run. Each has a name, a specification, and a tag by which the specification is recognised.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_model::template::{self, Container, Implementation, Native, Template};
use weir_oci::Source;
use weir_switch::compile::FunctionPlan;
use weir_switch::config::of_process;
use weir_switch::hash::hash;

use crate::compute::digest;
use crate::secrets::MASK;

/// Longest value of a parameter, in bytes: one string of a program's environment has at most 128 KB on Linux.
const MAX_VALUE: usize = 120_000;

/// Most threads of QEMU: it has one for each processor of its guest, and some for its own work.
const QEMU_THREADS: u32 = 256;

/// The kind of driver that runs a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The graph's switch.
    #[default]
    Inline,
    /// A data plane of its own, without privileges.
    Process,
    /// Programs of the node in a network namespace.
    Native,
    /// A DPDK program.
    Dpdk,
    /// A virtual machine.
    Vm,
    /// A container.
    Container,
}

impl Kind {
    /// What runs functions of an image.
    pub fn of(template: &Template) -> Kind {
        match template.implementation {
            // What is made of functions runs as them.
            Implementation::Click(_) | Implementation::Graph { .. } => Kind::Inline,
            Implementation::Process { .. } => Kind::Process,
            Implementation::Native { .. } => Kind::Native,
            Implementation::Dpdk { .. } => Kind::Dpdk,
            Implementation::Vm { .. } => Kind::Vm,
            Implementation::Container { .. } => Kind::Container,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Inline => "inline",
            Kind::Process => "process",
            Kind::Native => "native",
            Kind::Dpdk => "dpdk",
            Kind::Vm => "vm",
            Kind::Container => "container",
        }
    }
}

/// The name of a function's instance: its graph, and its identifier there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId {
    /// The graph.
    pub graph: String,
    /// The function.
    pub function: String,
}

impl InstanceId {
    /// That of a function.
    pub fn new(graph: &str, function: &str) -> InstanceId {
        InstanceId { graph: graph.to_owned(), function: function.to_owned() }
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.graph, self.function)
    }
}

/// A function that a driver runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Its name.
    pub id: InstanceId,
    /// What it is.
    pub spec: Spec,
    /// A hash of the specification.
    pub tag: String,
}

impl Instance {
    /// An instance of a specification.
    pub fn new(id: InstanceId, spec: Spec) -> Instance {
        let text = serde_json::to_string(&spec).unwrap_or_default();
        Instance { id, tag: hash(&[&text]), spec }
    }
}

/// The specification of an instance for its driver.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The name of its image.
    pub image: String,
    /// A hash of all that the image has.
    pub digest: String,
    /// Its ports: names of interfaces, in its namespace and in the node's; or of shared memory.
    pub ports: Vec<PortNames>,
    /// Values of its parameters.
    pub params: BTreeMap<String, String>,
    /// The parameters whose values are shown to nobody.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
    /// Handler writes to make when it has started.
    pub writes: Vec<(String, String)>,
    /// What runs in it.
    #[serde(flatten)]
    pub work: Work,
}

impl Spec {
    /// Whether another one of the same image is configured alike, and has the same handlers written.
    pub fn is_written_as(&self, other: &Spec) -> bool {
        (&self.image, &self.digest, &self.params, &self.writes)
            == (&other.image, &other.digest, &other.params, &other.writes)
    }
}

/// For logs: without secrets.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec { image, digest, ports, params, secrets, writes, work } = self;
        let shown = |(name, value): (&String, &String)| {
            (name.clone(), if secrets.contains(name) { MASK.to_owned() } else { value.clone() })
        };
        let params: BTreeMap<String, String> = params.iter().map(shown).collect();
        let mut out = f.debug_struct("Spec");
        out.field("image", image).field("digest", digest).field("ports", ports).field("params", &params);
        out.field("writes", writes).field("work", work).finish()
    }
}

/// The content of a function, by driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "driver", rename_all = "lowercase")]
pub enum Work {
    /// For [`crate::compute::process`].
    Process {
        /// Configuration in the Click language.
        config: String,
        /// What it may take.
        process: template::Process,
        /// Handlers in the configuration by the public handlers that they are.
        handlers: BTreeMap<String, String>,
    },
    /// For [`crate::compute::native`].
    Native {
        /// The image's folder, at the time of the document.
        folder: PathBuf,
        /// What it needs.
        native: Native,
    },
    /// For [`crate::compute::dpdk`].
    Dpdk {
        /// Which program, and how it runs.
        dpdk: template::Dpdk,
    },
    /// For [`crate::compute::vm`].
    Vm {
        /// The image's folder, at the time of the document.
        folder: PathBuf,
        /// What runs in it, and how.
        vm: template::Vm,
    },
    /// For [`crate::compute::container`].
    Container {
        /// The folder that paths of images begin in.
        folder: PathBuf,
        /// Which container image, and how it runs. Boxed: it is large.
        container: Box<Container>,
        /// Programs by the public handlers that they are.
        handlers: BTreeMap<String, String>,
    },
}

/// The two ends of a port, as each side calls it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortNames {
    /// The function's.
    pub inside: String,
    /// The node's.
    pub outside: String,
}

impl PortNames {
    /// Whether it is an interface of the node, and not shared memory.
    pub fn is_interface(&self) -> bool {
        !self.outside.contains(':')
    }
}

/// Gives the digest of a container image.
pub type Resolve<'a> = &'a dyn Fn(&Source) -> Result<String, String>;

/// The limits of all processes of a function together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u32,
    /// Processor time, in thousandths of a processor; all, if it is none.
    pub cpu: Option<u32>,
}

impl Spec {
    /// What a planned function asks for.
    ///
    /// # Errors
    /// Its image cannot be had.
    pub fn of(f: &FunctionPlan, resolve: Resolve<'_>) -> Result<Spec, String> {
        let image = f.image().to_owned();
        let (digest, work) = match &f.template.implementation {
            Implementation::Click(_) | Implementation::Graph { .. } => {
                return Err("an inline function has no instance of its own".into());
            }
            Implementation::Process { click, process } => {
                let handlers = f.template.handlers.iter();
                let handlers =
                    handlers.map(|(name, h)| (name.clone(), format!("{}/{}", f.element, h.handler)));
                let (config, handlers, process) = (of_process(f), handlers.collect(), process.clone());
                (hash(&[&click.text]), Work::Process { config, process, handlers })
            }
            Implementation::Native { native } => {
                let (folder, digest) = whole_folder(&f.template)?;
                (digest, Work::Native { folder, native: native.clone() })
            }
            Implementation::Dpdk { dpdk } => {
                let digest = hash(&[&serde_json::to_string(dpdk).unwrap_or_default()]);
                (digest, Work::Dpdk { dpdk: dpdk.clone() })
            }
            Implementation::Vm { vm } => {
                let (folder, digest) = whole_folder(&f.template)?;
                (digest, Work::Vm { folder, vm: vm.clone() })
            }
            Implementation::Container { container } => {
                let folder = folder(&f.template).unwrap_or_default();
                let source = Source::parse(&container.image, &folder).map_err(|e| e.to_string())?;
                let digest = resolve(&source)?;
                let handlers = f.template.handlers.iter().map(|(name, h)| (name.clone(), h.handler.clone()));
                let (container, handlers) = (Box::new(container.clone()), handlers.collect());
                (digest, Work::Container { folder, container, handlers })
            }
        };
        let names = f.template.ports.iter().zip(&f.interfaces);
        let ports = names
            .map(|(inside, outside)| PortNames { inside: inside.name.to_string(), outside: outside.clone() });
        let (params, writes) = (f.arguments.clone(), f.writes.clone());
        let is_click = f.template.click().is_some();
        for (name, value) in params.iter().filter(|_| !is_click) {
            // They become variables of programs, which the system bounds.
            if value.contains('\0') || value.len() > MAX_VALUE {
                let what = if value.contains('\0') { "has a NUL" } else { "is too long" };
                return Err(format!(
                    "the value of parameter {name} {what}: a program takes text of at most {MAX_VALUE} bytes, without NUL"
                ));
            }
        }
        let secrets = f.template.secrets().map(str::to_owned).collect();
        Ok(Spec { image, digest, ports: ports.collect(), params, secrets, writes, work })
    }

    /// The driver's kind.
    pub fn kind(&self) -> Kind {
        match self.work {
            Work::Process { .. } => Kind::Process,
            Work::Native { .. } => Kind::Native,
            Work::Dpdk { .. } => Kind::Dpdk,
            Work::Vm { .. } => Kind::Vm,
            Work::Container { .. } => Kind::Container,
        }
    }

    /// What its processes may take.
    pub fn limits(&self) -> Limits {
        let (memory, processes, cpu) = match &self.work {
            Work::Process { process, .. } => (process.memory, process.processes, process.cpu),
            Work::Native { native, .. } => (native.memory, native.processes, native.cpu),
            Work::Dpdk { dpdk } => (dpdk.memory, dpdk.processes, dpdk.cpu),
            Work::Vm { vm, .. } => (vm.whole_memory(), QEMU_THREADS, vm.cpu),
            Work::Container { container, .. } => (container.memory, container.processes, container.cpu),
        };
        Limits { memory, processes, cpu }
    }

    /// The container image, if it is one.
    pub fn source(&self) -> Option<Source> {
        let Work::Container { folder, container, .. } = &self.work else { return None };
        Source::parse(&container.image, folder).ok()
    }
}

/// The folder of an image, by its whole path.
fn folder(template: &Template) -> Option<PathBuf> {
    template.folder().map(|f| f.canonicalize().unwrap_or_else(|_| f.to_owned()))
}

/// The folder of an image that is one, with a hash of all that is in it.
fn whole_folder(template: &Template) -> Result<(PathBuf, String), String> {
    let (name, kind) = (&template.name, template.implementation.kind());
    let folder = folder(template).ok_or_else(|| {
        format!("the image '{name}' is of kind {kind}, and so a folder with all that belongs to it")
    })?;
    let digest = digest::of_folder(&folder).map_err(|e| e.to_string())?;
    Ok((folder, digest))
}

/// The switch of a graph, as the data plane runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchSpec {
    /// Configuration in the Click language.
    pub config: String,
    /// Handler writes to make before the graph sees traffic: handler, value.
    pub writes: Vec<(String, String)>,
}

impl SwitchSpec {
    /// A configuration by itself.
    pub fn new(config: String) -> SwitchSpec {
        SwitchSpec { config, writes: Vec::new() }
    }

    /// A hash by which it is recognised.
    pub fn tag(&self) -> String {
        let writes = self.writes.iter().flat_map(|(handler, value)| [handler.as_str(), value.as_str()]);
        let parts: Vec<&str> = std::iter::once(self.config.as_str()).chain(writes).collect();
        hash(&parts)
    }
}

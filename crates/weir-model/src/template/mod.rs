//! Function templates, "images": what runs a function, with its ports, parameters and public handlers (Scylla paper, sections III.B and
//! V.A; COMPOSER paper, section 5.6).
//!
//! A template of an inline function is one YAML (or JSON) document, `function.yaml`, with the Click script in its `click` field, or
//! a directory with `function.yaml` and the script beside it in `function.click`. Functions of other kinds are directories.
//!
//! ```
//! let template = weir_model::template::Template::parse(r#"
//! name: firewall
//! version: "1.0"
//! description: Forwards what the rules allow.
//! ports: [inside, outside]
//! params:
//!   - {name: ALLOW, type: text, default: "tcp", doc: what may pass}
//! handlers:
//!   dropped: {handler: filter.drops, access: r, doc: packets that were refused}
//! click: |
//!   in_0 -> filter :: IPFilter(allow $ALLOW, deny all) -> out_1;
//!   in_1 -> out_0;
//! "#).unwrap();
//! assert_eq!(template.ports.len(), 2);
//! ```

mod container;
mod dpdk;
mod graph;
mod load;
mod native;
mod process;
mod read;
mod schema;
mod vm;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use container::{CAPABILITIES, Container, expand};
pub use dpdk::Dpdk;
pub use graph::{SubGraph, secret_parts};
pub use load::{MANIFEST_FILE, MAX_FILE, SCRIPT_FILE, TemplateError};
pub use native::{Native, SCRIPTS};
pub use process::Process;
pub use read::KINDS;
pub(crate) use read::MAX_WORDS;
pub(crate) use schema::words;
pub use vm::{Accelerator, Vm, VmPorts};

use weir_net::EtherAddr;

use crate::error::{DocErrors, ValueError};
use crate::graph::{ParamValue, Port, RunAs};
use crate::value::{Id, IpPrefix, Name, is_false, one_or_list};

/// A function template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Template {
    /// The name that graphs ask for.
    pub name: Id,
    /// The version, in any scheme; graphs can ask for ranges of versions that are numbers with dots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Name>,
    /// What the function can be used as, such as `firewall`: one word, or several in a list. A graph may ask for it in place of the
    /// image's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_list")]
    #[schemars(schema_with = "schema::words")]
    pub capability: Vec<Id>,
    /// What it has beside the usual, such as `ipv6`, for graphs that ask for it: one word, or several in a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_list")]
    #[schemars(schema_with = "schema::words")]
    pub features: Vec<Id>,
    /// What the function does, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The ports; the first is `in_0` and `out_0` in the script, the next `in_1` and `out_1`.
    #[serde(default)]
    #[schemars(schema_with = "schema::ports")]
    pub ports: Vec<TemplatePort>,
    /// The parameters, `$NAME` in the script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Param>,
    /// The public handlers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::handlers")]
    pub handlers: BTreeMap<String, Handler>,
    /// What runs it.
    #[serde(flatten)]
    #[schemars(with = "schema::Fields")]
    pub implementation: Implementation,
    /// Where it was loaded from.
    #[serde(skip)]
    pub origin: Origin,
}

/// The place that a template was loaded from. It is no part of what the template is: all are equal.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The directory, if it was one.
    pub folder: Option<PathBuf>,
}

impl PartialEq for Origin {
    fn eq(&self, _: &Origin) -> bool {
        true
    }
}

impl Eq for Origin {}

/// The implementation of a function: what runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Implementation {
    /// The data plane, inline.
    Click(Click),
    /// A data plane of its own, in a process without privileges.
    Process {
        /// What it runs.
        #[serde(flatten)]
        click: Click,
        /// What it may take.
        process: Process,
    },
    /// Programs of the node, in a network namespace.
    Native {
        /// How.
        native: Native,
    },
    /// A DPDK program.
    Dpdk {
        /// Which, and how it runs.
        dpdk: Dpdk,
    },
    /// A virtual machine.
    Vm {
        /// What runs in it, and how.
        vm: Vm,
    },
    /// A container.
    Container {
        /// Which, and how.
        container: Container,
    },
    /// Other functions: it is replaced by them.
    Graph {
        /// Which, and the rules between them.
        graph: SubGraph,
    },
}

impl Implementation {
    /// Its kind, as manifests have it.
    pub fn kind(&self) -> &'static str {
        match self {
            Implementation::Click(_) => "click",
            Implementation::Process { .. } => "process",
            Implementation::Native { .. } => "native",
            Implementation::Dpdk { .. } => "dpdk",
            Implementation::Vm { .. } => "vm",
            Implementation::Container { .. } => "container",
            Implementation::Graph { .. } => "graph",
        }
    }
}

/// A Click script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Click {
    /// The text.
    #[serde(rename = "click")]
    pub text: String,
    /// Where it stands, for messages.
    #[serde(skip)]
    pub script: Script,
}

/// Where the script of a template stands. It is no part of what the template is: all are equal.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The file, if it came from one.
    pub file: Option<String>,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Characters that stand before each of its lines: the indentation in a manifest.
    pub indent: usize,
}

impl PartialEq for Script {
    fn eq(&self, _: &Script) -> bool {
        true
    }
}

impl Eq for Script {}

/// A port of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TemplatePort {
    /// The port's name, unique within the template.
    pub name: Id,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doc: String,
}

/// A parameter of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Param {
    /// The name: letters, digits and `_`, not beginning with a digit.
    pub name: String,
    /// What values it takes.
    #[serde(rename = "type")]
    pub kind: ParamType,
    /// The least value, of a parameter of type `int`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The largest value, of a parameter of type `int`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
    /// The value if the graph gives none; without it the graph must.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<ParamValue>,
    /// Whether its value is a secret, of a function of kind `native`, `container` or `graph`: it is shown to nobody, and programs read it
    /// from a file.
    #[serde(default, skip_serializing_if = "is_false")]
    pub secret: bool,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doc: String,
}

/// The type of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParamType {
    /// Any text.
    Text,
    /// A whole number of 64 bits with sign.
    Int,
    /// `true` or `false`.
    Bool,
    /// An IPv4 or IPv6 address.
    Ip,
    /// An IPv4 or IPv6 prefix.
    Prefix,
    /// An Ethernet address.
    Mac,
    /// A transport port, 0 to 65535.
    Port,
}

/// A public handler of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Handler {
    /// The handler inside the script, `element.handler`; of a container, a program in it. A native function has its program in
    /// `scripts/handlers`, by the public name.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(default)]
    pub handler: String,
    /// Whether it may be read (without this field, it may), written, or both.
    #[schemars(default = "read_only")]
    pub access: Access,
    /// What it says or does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doc: String,
}

/// The permitted access to a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Access {
    /// Read.
    #[serde(rename = "r")]
    Read,
    /// Write.
    #[serde(rename = "w")]
    Write,
    /// Read and write.
    #[serde(rename = "rw")]
    ReadWrite,
}

fn read_only() -> Access {
    Access::Read
}

impl Access {
    /// Whether the handler may be read.
    pub fn readable(self) -> bool {
        self != Access::Write
    }

    /// Whether the handler may be written.
    pub fn writable(self) -> bool {
        self != Access::Read
    }
}

impl ParamType {
    /// The text that stands for a value in the script, if the value fits the type.
    pub fn check(self, value: &ParamValue) -> Result<String, ValueError> {
        let text = match value {
            ParamValue::Bool(b) => b.to_string(),
            ParamValue::Int(n) => n.to_string(),
            ParamValue::Text(t) => t.clone(),
        };
        let fits = match self {
            ParamType::Text => true,
            ParamType::Int => text.parse::<i64>().is_ok(),
            ParamType::Bool => text.parse::<bool>().is_ok(),
            ParamType::Ip => text.parse::<IpAddr>().is_ok(),
            ParamType::Prefix => text.parse::<IpPrefix>().is_ok(),
            ParamType::Mac => text.parse::<EtherAddr>().is_ok(),
            ParamType::Port => text.parse::<u16>().is_ok(),
        };
        if fits {
            Ok(text)
        } else {
            Err(ValueError::new(
                format!("found {}", crate::error::quote(&text)),
                format!("expected {}", self.values()),
            ))
        }
    }

    /// Which values fit, in words.
    pub fn values(self) -> &'static str {
        match self {
            ParamType::Text => "any text",
            ParamType::Int => "a whole number",
            ParamType::Bool => "true or false",
            ParamType::Ip => "an IP address such as 10.0.0.1",
            ParamType::Prefix => "a prefix such as 10.0.0.0/8",
            ParamType::Mac => "an Ethernet address such as 02:00:00:00:00:01",
            ParamType::Port => "a port, 0 to 65535",
        }
    }
}

impl Param {
    /// The text that stands for a value in the script, if the value fits the type and the bounds.
    pub fn check(&self, value: &ParamValue) -> Result<String, ValueError> {
        let hidden =
            |e: ValueError| ValueError { message: "found something else (a secret)".to_owned(), ..e };
        let text = self.kind.check(value).map_err(|e| if self.secret { hidden(e) } else { e })?;
        let number = text.parse::<i64>().ok().filter(|_| self.kind == ParamType::Int);
        let outside = |n: i64| self.min.is_some_and(|min| n < min) || self.max.is_some_and(|max| n > max);
        match number.filter(|n| outside(*n)) {
            Some(_) => {
                let e = ValueError::new(format!("found {text}"), format!("expected {}", self.values()));
                Err(if self.secret { hidden(e) } else { e })
            }
            None => Ok(text),
        }
    }

    /// Which values fit, in words.
    pub fn values(&self) -> String {
        let what = self.kind.values();
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{what} from {min} to {max}"),
            (Some(min), None) => format!("{what} from {min} on"),
            (None, Some(max)) => format!("{what} up to {max}"),
            (None, None) => what.to_owned(),
        }
    }
}

impl Template {
    /// Its Click script, if it has one.
    pub fn click(&self) -> Option<&Click> {
        match &self.implementation {
            Implementation::Click(click) | Implementation::Process { click, .. } => Some(click),
            Implementation::Native { .. }
            | Implementation::Dpdk { .. }
            | Implementation::Vm { .. }
            | Implementation::Container { .. }
            | Implementation::Graph { .. } => None,
        }
    }

    /// The functions that it is made of, if it is.
    pub fn graph(&self) -> Option<&SubGraph> {
        match &self.implementation {
            Implementation::Graph { graph } => Some(graph),
            _ => None,
        }
    }

    /// Whether its graph's data plane runs it.
    pub fn is_inline(&self) -> bool {
        matches!(self.implementation, Implementation::Click(_))
    }

    /// The same function, run by another means.
    ///
    /// # Errors
    /// It cannot be.
    pub fn run_as(&self, kind: RunAs) -> Result<Template, String> {
        let mut template = self.clone();
        template.implementation = match (&self.implementation, kind) {
            (Implementation::Click(click), RunAs::Process) => {
                if let Some((port, help)) =
                    self.ports.iter().find_map(|p| Some((&p.name, native::interface_name(p.name.as_str())?)))
                {
                    return Err(format!("its port {port} cannot be one of a process: {help}"));
                }
                Implementation::Process { click: click.clone(), process: Process::default() }
            }
            (Implementation::Click(_), RunAs::Inline) | (Implementation::Process { .. }, RunAs::Process) => {
                return Ok(template);
            }
            (other, _) => {
                return Err(format!(
                    "the image '{}' is of kind {}: leave \"kind\" out, or choose an image of kind click",
                    self.name,
                    other.kind()
                ));
            }
        };
        Ok(template)
    }

    /// The parameters whose values are secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.params.iter().filter(|p| p.secret).map(|p| p.name.as_str())
    }

    /// The directory that a kind which is one was loaded from.
    pub fn folder(&self) -> Option<&Path> {
        self.origin.folder.as_deref()
    }

    /// The template of a function that has a script of its own.
    pub fn of_script(name: Id, ports: &[Port], text: &str) -> Template {
        let port = |p: &Port| TemplatePort { name: p.id.clone(), doc: String::new() };
        Template {
            name,
            version: None,
            capability: Vec::new(),
            features: Vec::new(),
            description: String::new(),
            ports: ports.iter().map(port).collect(),
            params: Vec::new(),
            handlers: BTreeMap::new(),
            implementation: Implementation::Click(Click { text: text.to_owned(), script: Script::default() }),
            origin: Origin::default(),
        }
    }

    /// Reads a template that holds its script, from YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, DocErrors> {
        read::template(text, None, None)
    }

    /// Reads a template whose script stands beside it.
    pub fn parse_with_script(manifest: &str, script: &str) -> Result<Self, DocErrors> {
        read::template(manifest, Some(script), None)
    }

    /// The text of every parameter, from a graph's arguments and the defaults; the errors say which parameter.
    pub fn arguments(
        &self,
        given: &BTreeMap<String, ParamValue>,
    ) -> Result<BTreeMap<String, String>, Vec<ValueError>> {
        let mut values = BTreeMap::new();
        let mut errors = Vec::new();
        for name in given.keys().filter(|n| !self.params.iter().any(|p| p.name == **n)) {
            let known: Vec<&str> = self.params.iter().map(|p| p.name.as_str()).collect();
            let message = format!("{} has no parameter {}", self.name, crate::error::quote(name));
            errors.push(ValueError::new(message, crate::doc::did_you_mean(name, &known)));
        }
        for p in &self.params {
            let Some(value) = given.get(&p.name).or(p.default.as_ref()) else {
                errors.push(ValueError::new(
                    format!("{} needs the parameter {}", self.name, p.name),
                    "give it a value in \"params\"",
                ));
                continue;
            };
            match p.check(value) {
                Ok(text) => drop(values.insert(p.name.clone(), text)),
                Err(e) => {
                    errors.push(ValueError::new(format!("parameter {}: {}", p.name, e.message), e.help));
                }
            }
        }
        if errors.is_empty() { Ok(values) } else { Err(errors) }
    }
}

//! From a service graph document to what the node has to run for it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weir_model::graph::{Function, ServiceGraph};
use weir_model::template::Template;
use weir_switch::compile::CompileError;
use weir_switch::lsi0::Attachment;

use crate::guard;
use crate::proof::Proofs;

/// A graph as the node wants it to run. Stored with the document, so that a node that comes back runs exactly what it
/// ran before, whatever became of the images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesiredGraph {
    /// The graph's identifier.
    pub id: String,
    /// The document, canonical, without the outer `sffg`.
    pub document: serde_json::Value,
    /// The document as it was written, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Configuration in the Click language.
    pub config: String,
    /// A hash of `config` and `writes`: tells what runs from what should run.
    pub tag: String,
    /// The access points.
    pub attachments: Vec<Place>,
    /// The functions.
    pub functions: Vec<FunctionRuntime>,
    /// Handler writes to make before the graph sees traffic: handler, value.
    pub writes: Vec<(String, String)>,
}

/// An access point: [`Attachment`] in a form that can be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Identifier of the service access point.
    pub sap: String,
    /// Interface of the node.
    pub interface: String,
    /// VLAN on it.
    pub vlan: Option<u16>,
    /// Link by which the graph gets what arrives, as the graph calls it.
    pub to_graph: String,
    /// Link by which it sends, as the graph calls it.
    pub from_graph: String,
}

/// A function of a graph that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionRuntime {
    /// Its identifier in the graph.
    pub id: String,
    /// The image.
    pub image: String,
    /// Its compound element.
    pub element: String,
    /// Number of ports of the image.
    pub ports: usize,
    /// Public handlers by name.
    pub handlers: BTreeMap<String, PublicHandler>,
}

/// A handler that a function shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicHandler {
    /// The handler in the configuration, `element.handler`.
    pub handler: String,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be written.
    pub writable: bool,
}

impl DesiredGraph {
    /// Compiles a document; `image` finds the template of a function, and `proofs` are of graphs before.
    ///
    /// # Errors
    /// Everything about the graph that this node cannot run, with its place in the document.
    pub fn new<'t>(
        graph: &ServiceGraph,
        image: impl Fn(&Function) -> Result<&'t Template, String>,
        proofs: &Proofs,
    ) -> Result<DesiredGraph, Vec<CompileError>> {
        let compiled = guard::compile(graph, image)?;
        proofs.check(graph, &compiled)?;
        let writes: Vec<_> = compiled.functions.iter().flat_map(|f| f.writes.clone()).collect();
        let sap = |a: &Attachment| a.sap.clone();
        let attachments = compiled.attachments.iter().map(|a| Place {
            sap: sap(a),
            interface: a.interface.clone(),
            vlan: a.vlan,
            to_graph: a.to_graph.clone(),
            from_graph: a.from_graph.clone(),
        });
        let functions = compiled.functions.iter().map(|f| FunctionRuntime {
            id: f.id.clone(),
            image: f.image.clone(),
            element: f.element.clone(),
            ports: f.ports,
            handlers: f.handlers.iter().map(|(name, h)| (name.clone(), public(h))).collect(),
        });
        let document = graph.to_json().get("sffg").cloned().unwrap_or_default();
        Ok(DesiredGraph {
            id: graph.id.to_string(),
            document,
            text: None,
            tag: tag(&compiled.config, &writes),
            attachments: attachments.collect(),
            functions: functions.collect(),
            writes,
            config: compiled.config,
        })
    }

    /// Whether the same runs for both, however their documents were written.
    pub fn is_same(&self, other: &DesiredGraph) -> bool {
        let DesiredGraph { id, document, text: _, config, tag, attachments, functions, writes } = self;
        (id, document, config, tag) == (&other.id, &other.document, &other.config, &other.tag)
            && (attachments, functions, writes) == (&other.attachments, &other.functions, &other.writes)
    }

    /// The access points as LSI-0 wants them.
    pub fn attachments(&self) -> Vec<Attachment> {
        let attachment = |p: &Place| Attachment {
            interface: p.interface.clone(),
            vlan: p.vlan,
            to_graph: p.to_graph.clone(),
            from_graph: p.from_graph.clone(),
            sap: p.sap.clone(),
            graph: self.id.clone(),
        };
        self.attachments.iter().map(attachment).collect()
    }

    /// The function of this identifier.
    pub fn function(&self, id: &str) -> Option<&FunctionRuntime> {
        self.functions.iter().find(|f| f.id == id)
    }
}

fn public((handler, access): &(String, weir_model::template::Access)) -> PublicHandler {
    PublicHandler { handler: handler.clone(), readable: access.readable(), writable: access.writable() }
}

/// A hash by which a configuration is recognised: 32 hexadecimal digits.
pub fn tag(config: &str, writes: &[(String, String)]) -> String {
    let mut hash = Sha256::new();
    // Lengths first, so that no two inputs run together alike.
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    part(config);
    for (handler, value) in writes {
        part(handler);
        part(value);
    }
    let mut text = String::new();
    for byte in hash.finalize().iter().take(16) {
        _ = write!(text, "{byte:02x}");
    }
    text
}

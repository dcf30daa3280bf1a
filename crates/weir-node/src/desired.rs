//! From a service graph document to what the node has to run for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_api::plan::Choice;
use weir_model::graph::{Function, ServiceGraph, Start};
use weir_model::template::Template;
use weir_net::PortShare;
use weir_switch::compile::{CompileError, FunctionNames, GraphPlan, Names};
use weir_switch::config::Compiled;
use weir_switch::lsi0::{Attachment, Base, HostInterface, Part, Tunnel};

use crate::candidates::Chosen;
use crate::expand::Composed;
use crate::guard;
use crate::instance::{Instance, InstanceId, Kind, Resolve, Spec, SwitchSpec};
use crate::proof::Proofs;
use crate::resources::Needs;
use crate::secrets::{self, Secrets};

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
    /// The controller that it belongs to. Without one it was applied at the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The graph's switch, with the inline functions inside.
    #[serde(flatten)]
    pub switch: SwitchSpec,
    /// A hash of `switch`: tells what runs from what should run.
    pub tag: String,
    /// The access points.
    pub attachments: Vec<AccessPoint>,
    /// The functions.
    pub functions: Vec<FunctionRuntime>,
    /// What runs the functions that are not inline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Instance>,
    /// Why functions that ask for a capability have the images that they have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// The functions that are made of functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub composed: Vec<Composed>,
    /// The document with those replaced by what they are made of, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expanded: Option<serde_json::Value>,
    /// The parameters whose values are shown to nobody.
    #[serde(default, skip_serializing_if = "Secrets::is_empty")]
    pub secrets: Secrets,
    /// Its first packet starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_demand: Option<OnDemand>,
}

/// A graph that runs while packets come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnDemand {
    /// After how many seconds without packets it is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<u32>,
}

/// An access point: [`Attachment`] in a form that can be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessPoint {
    /// Its name among the graph's elements.
    #[serde(default)]
    pub element: String,
    /// Identifier of the service access point.
    pub sap: String,
    /// The name of its LSI-0: the interface, or what it has for one.
    pub interface: String,
    /// VLAN on it.
    pub vlan: Option<u16>,
    /// Tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// Ports of an address on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<PortShare>,
    /// Interface that the host gets for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostInterface>,
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
    /// What runs it.
    #[serde(default)]
    pub kind: Kind,
    /// Its name among the graph's elements: that of its compound element, if it is inline.
    pub element: String,
    /// Number of ports of the image.
    pub ports: usize,
    /// The interfaces at which it is met, by port, if it is not inline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// Public handlers by name.
    pub handlers: BTreeMap<String, PublicHandler>,
}

/// A handler that a function shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicHandler {
    /// The handler in the configuration, `element.handler`; of a function that is not inline, its public name.
    pub handler: String,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be written.
    pub writable: bool,
}

impl From<Attachment> for AccessPoint {
    fn from(a: Attachment) -> AccessPoint {
        let (vlan, tunnel) = match a.part {
            Part::Rest | Part::Ports(_) => (None, None),
            Part::Vlan(id) => (Some(id), None),
            Part::Tunnel(tunnel) => (None, Some(tunnel)),
        };
        let share = if let Part::Ports(share) = a.part { Some(share) } else { None };
        AccessPoint {
            share,
            element: a.element,
            sap: a.sap,
            interface: a.base.to_string(),
            vlan,
            tunnel,
            host: if let Base::Host(host) = a.base { Some(host) } else { None },
            to_graph: a.to_graph,
            from_graph: a.from_graph,
        }
    }
}

impl AccessPoint {
    /// Which packets of its LSI-0 are its own.
    pub fn part(&self) -> Part {
        match (self.tunnel, self.vlan, self.share) {
            (Some(tunnel), ..) => Part::Tunnel(tunnel),
            (_, Some(vlan), _) => Part::Vlan(vlan),
            (.., Some(share)) => Part::Ports(share),
            (None, None, None) => Part::Rest,
        }
    }

    /// As LSI-0 wants it.
    pub(crate) fn attachment(&self, graph: &str) -> Attachment {
        let base = Base::of_name(&self.interface, self.host.as_ref());
        Attachment {
            element: self.element.clone(),
            base: base.unwrap_or_else(|| Base::Interface(self.interface.clone())),
            part: self.part(),
            to_graph: self.to_graph.clone(),
            from_graph: self.from_graph.clone(),
            sap: self.sap.clone(),
            graph: graph.to_owned(),
        }
    }
}

impl DesiredGraph {
    /// Compiles a document with the images that were chosen for its functions; `proofs` are of graphs before, and `resolve` pins
    /// container images.
    ///
    /// # Errors
    /// As [`DesiredGraph::new`].
    pub fn of_chosen(
        graph: &ServiceGraph,
        chosen: Chosen<'_>,
        proofs: &Proofs,
        resolve: Resolve<'_>,
    ) -> Result<DesiredGraph, Vec<CompileError>> {
        let whole = chosen.graph(graph);
        let new = DesiredGraph::new(whole, |f| chosen.image(f), proofs, resolve);
        let mut new = new.map_err(|errors| chosen.placed(errors))?;
        if !chosen.composed.is_empty() {
            new.expanded = Some(std::mem::replace(&mut new.document, inner(graph)));
        }
        let unknown = secrets::unknown(graph, &chosen.secrets);
        if !unknown.is_empty() {
            return Err(unknown);
        }
        (new.choices, new.composed, new.secrets) = (chosen.choices, chosen.composed, chosen.secrets);
        Ok(new)
    }

    /// Compiles a document; `image` finds the template of a function, `proofs` are of graphs before, and `resolve` pins container
    /// images.
    ///
    /// # Errors
    /// Everything about the graph that this node cannot run, with its place in the document.
    pub fn new<'t>(
        graph: &ServiceGraph,
        image: impl Fn(&Function) -> Result<&'t Template, String>,
        proofs: &Proofs,
        resolve: Resolve<'_>,
    ) -> Result<DesiredGraph, Vec<CompileError>> {
        let compiled = guard::compile(graph, image)?;
        proofs.check(graph, &compiled)?;
        let Compiled { plan, config } = compiled;
        let instances = instances(graph, &plan, resolve)?;
        let writes = plan.functions.iter().filter(|f| f.is_inline()).flat_map(|f| f.writes.clone());
        let switch = SwitchSpec { config: config.text, writes: writes.collect() };
        let plan_is_closed = plan.attachments.is_empty();
        let attachments = plan.attachments.into_iter().map(AccessPoint::from);
        let functions = plan.functions.iter().map(|f| FunctionRuntime {
            id: f.id.clone(),
            image: f.image().to_owned(),
            kind: Kind::of(&f.template),
            element: f.element.clone(),
            ports: f.template.ports.len(),
            interfaces: f.interfaces.clone(),
            handlers: f.handlers.iter().map(|(name, h)| (name.clone(), public(h))).collect(),
        });
        let on_demand = (graph.start == Start::FirstPacket).then_some(OnDemand { idle: graph.idle });
        if on_demand.is_some() && plan_is_closed {
            let what = "no packet can start it, since it has no access point: leave out \"start\"".to_owned();
            return Err(vec![CompileError { at: "sffg.start".into(), what }]);
        }
        let document = inner(graph);
        Ok(DesiredGraph {
            id: graph.id.to_string(),
            document,
            text: None,
            owner: None,
            tag: switch.tag(),
            attachments: attachments.collect(),
            functions: functions.collect(),
            instances,
            choices: Vec::new(),
            composed: Vec::new(),
            expanded: None,
            secrets: Secrets::new(),
            on_demand,
            switch,
        })
    }

    /// Whether the same runs for both, however their documents were written.
    pub fn is_same(&self, other: &DesiredGraph) -> bool {
        let DesiredGraph {
            id,
            document,
            text: _,
            owner: _,
            switch,
            tag,
            attachments,
            functions,
            instances,
            choices: _,
            composed,
            expanded,
            secrets,
            on_demand,
        } = self;
        (id, document, switch, tag) == (&other.id, &other.document, &other.switch, &other.tag)
            && (attachments, functions, instances) == (&other.attachments, &other.functions, &other.instances)
            && (composed, expanded, secrets) == (&other.composed, &other.expanded, &other.secrets)
            && *on_demand == other.on_demand
    }

    /// The document as it may be shown.
    pub fn shown(&self) -> serde_json::Value {
        secrets::masked(&self.document, &self.secrets)
    }

    /// The document of what runs: with functions that are made of functions replaced by these.
    pub fn whole(&self) -> &serde_json::Value {
        self.expanded.as_ref().unwrap_or(&self.document)
    }

    /// What its functions that are not inline may come to take.
    pub fn needs(&self) -> Needs {
        self.instances.iter().map(|i| Needs::of(&i.spec)).fold(Needs::default(), Needs::and)
    }

    /// The access points as LSI-0 wants them.
    pub fn attachments(&self) -> Vec<Attachment> {
        self.attachments.iter().map(|p| p.attachment(&self.id)).collect()
    }

    /// The names of its parts in the configuration.
    pub fn names(&self) -> Names {
        let names = |f: &FunctionRuntime| FunctionNames {
            element: f.element.clone(),
            interfaces: f.interfaces.clone(),
            writes: self.switch.writes.iter().filter(|(h, _)| belongs(h, &f.element)).cloned().collect(),
        };
        Names { attachments: self.attachments(), functions: self.functions.iter().map(names).collect() }
    }

    /// The image of a function, also of one that is made of functions.
    pub fn image_of(&self, id: &str) -> Option<&str> {
        let composed = self.composed.iter().find(|c| c.id == id).map(|c| &c.image);
        composed.or_else(|| self.function(id).map(|f| &f.image)).map(String::as_str)
    }

    /// The function of this identifier.
    pub fn function(&self, id: &str) -> Option<&FunctionRuntime> {
        self.functions.iter().find(|f| f.id == id)
    }
}

/// A document without its outer `sffg`.
fn inner(graph: &ServiceGraph) -> serde_json::Value {
    graph.to_json().get("sffg").cloned().unwrap_or_default()
}

fn public((handler, access): &(String, weir_model::template::Access)) -> PublicHandler {
    PublicHandler { handler: handler.clone(), readable: access.readable(), writable: access.writable() }
}

/// Whether a handler is one of an element of a function.
fn belongs(handler: &str, element: &str) -> bool {
    handler.strip_prefix(element).is_some_and(|rest| rest.starts_with(['/', '.']))
}

/// What runs the functions that are not inline.
fn instances(
    graph: &ServiceGraph,
    plan: &GraphPlan,
    resolve: Resolve<'_>,
) -> Result<Vec<Instance>, Vec<CompileError>> {
    let (mut instances, mut errors) = (Vec::new(), Vec::new());
    for (i, f) in plan.functions.iter().enumerate().filter(|(_, f)| !f.is_inline()) {
        match Spec::of(f, resolve) {
            Ok(spec) => instances.push(Instance::new(InstanceId::new(graph.id.as_str(), &f.id), spec)),
            Err(what) => errors.push(CompileError { at: format!("sffg.SFs[{i}]"), what }),
        }
    }
    if errors.is_empty() { Ok(instances) } else { Err(errors) }
}

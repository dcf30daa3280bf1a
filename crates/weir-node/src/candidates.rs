//! The images that the functions of a graph are made from: those that they name, and of those that they may have by their capability
//! the one that [`resolve`] chooses; and what the graph becomes when those that are made of functions are replaced by these. What is
//! asked of images is looked up here.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_api::plan::Choice;
use weir_model::graph::{Function, MAX_FUNCTIONS, RunAs, ServiceGraph};
use weir_model::template::{Implementation, SubGraph, Template};
use weir_model::value::Id;
use weir_switch::compile::CompileError;

use crate::compute::Drivers;
use crate::expand::{Composed, Expansion, MAX_DEPTH, Part};
use crate::image_check::examine;
use crate::images::Images;
use crate::resolve::{Facts, resolve};
use crate::resources::{Needs, Resources};
use crate::secrets::Secrets;

/// An image with the values of its parameters, and how a graph wants it to be run.
type Configured = (Id, BTreeMap<String, String>, Option<RunAs>);

/// All images of a node, and what is known of them.
#[derive(Debug)]
pub struct Candidates<'i> {
    images: &'i Images,
    /// Those of the node; without them everything can run.
    drivers: Option<&'i Drivers>,
    known: RefCell<HashMap<Configured, Facts>>,
    /// The images made of functions that are being looked at, each a part of the one before.
    looking: RefCell<Vec<Id>>,
    /// How many functions inside of the first of them were looked at.
    looked: Cell<usize>,
}

/// The images of functions, by their identifiers.
type ByFunction<'i> = BTreeMap<Id, Result<&'i Template, String>>;

/// The images of a graph's functions, and what the graph becomes with them.
#[derive(Debug)]
pub struct Chosen<'i> {
    by_function: ByFunction<'i>,
    /// Of those that ask for a capability: which image was chosen and why.
    pub choices: Vec<Choice>,
    /// The functions that were replaced by those that they are made of.
    pub composed: Vec<Composed>,
    /// The secrets of all functions, also of those.
    pub secrets: Secrets,
    expansion: Expansion,
    /// The graph with all of them replaced, if there are any.
    expanded: Option<ServiceGraph>,
}

impl<'i> Candidates<'i> {
    /// Those of these images that can run with these drivers; without drivers everything can run.
    pub fn new(images: &'i Images, drivers: Option<&'i Drivers>) -> Candidates<'i> {
        let (known, looking, looked) = (RefCell::default(), RefCell::default(), Cell::default());
        Candidates { images, drivers, known, looking, looked }
    }

    /// The images of a graph's functions, when so much is left for it; `running` is the image that a function has now.
    ///
    /// # Errors
    /// A function that is made of functions cannot be replaced by them. What is wrong with the images of others is said by
    /// [`Chosen::image`].
    pub fn choose<'r>(
        &self,
        graph: &ServiceGraph,
        left: Resources,
        running: &dyn Fn(&str) -> Option<&'r str>,
    ) -> Result<Chosen<'i>, Vec<CompileError>> {
        let mut expansion = Expansion::new(graph);
        let (mut choices, mut composed): (Vec<Choice>, Vec<Composed>) = (Vec::new(), Vec::new());
        let mut secrets = Secrets::new();
        loop {
            let (by_function, found) = self.images_of(&expansion, left, running);
            let image = |f: &Function| by_function.get(&f.id)?.as_ref().ok().copied();
            let graphs: HashMap<usize, &Template> = expansion
                .functions()
                .enumerate()
                .filter_map(|(i, part)| Some((i, image(part.function).filter(|t| t.graph().is_some())?)))
                .collect();
            let mut errors = Vec::new();
            for (i, part) in expansion.functions().enumerate() {
                let Some(image) = image(part.function) else { continue };
                let own: BTreeSet<String> = image.secrets().map(str::to_owned).collect();
                let told = part.secret.iter().filter(|name| !own.contains(*name));
                errors.extend(told.map(|name| {
                    let what =
                        format!("{name} gets a secret, and is no secret of the image '{}'", image.name);
                    expansion.error(i, what)
                }));
                if !own.is_empty() {
                    secrets.insert(part.function.id.to_string(), own);
                }
            }
            if !errors.is_empty() {
                return Err(errors);
            }
            if graphs.is_empty() {
                choices.extend(found);
                let expanded = if composed.is_empty() { None } else { Some(expansion.finish(graph)?) };
                return Ok(Chosen { by_function, choices, composed, secrets, expansion, expanded });
            }
            let more = expansion.replace(&graphs)?;
            // The others are chosen again, with those that came in.
            choices.extend(found.into_iter().filter(|c| more.iter().any(|m| m.id == c.function)));
            composed.extend(more);
        }
    }

    /// The images of functions, and the reasons for those that were chosen.
    fn images_of<'r>(
        &self,
        graph: &Expansion,
        mut left: Resources,
        running: &dyn Fn(&str) -> Option<&'r str>,
    ) -> (ByFunction<'i>, Vec<Choice>) {
        let (mut by_function, mut choices) = (ByFunction::new(), Vec::new());
        let mut asking = Vec::new();
        let asked = graph.functions().any(|part| part.function.capability.is_some());
        // What is named takes its part whatever is chosen.
        for Part { function: f, within, port, .. } in graph.functions() {
            let image = match (port, &f.capability) {
                (Some(port), _) => Ok(port),
                (None, None) => self.images.find(f),
                (None, Some(capability)) => {
                    asking.push((f, within, capability));
                    continue;
                }
            };
            if let (Ok(image), true) = (&image, asked) {
                left = left.without(self.facts(image, f).needs);
            }
            by_function.insert(f.id.clone(), image);
        }
        // A new function takes nothing from one that runs.
        asking.sort_by_key(|(f, ..)| running(f.id.as_str()).is_none());
        for (f, within, capability) in asking {
            let images = self.images.templates.values();
            let facts = |image: &Template| {
                if within.contains(&image.name) {
                    return Facts {
                        obstacle: Some("the function is a part of it".to_owned()),
                        ..Facts::default()
                    };
                }
                self.facts(image, f)
            };
            let found = resolve(f, capability, images, left, running(f.id.as_str()), facts);
            let image = found.map(|(image, choice)| {
                left = left.without(self.facts(image, f).needs);
                choices.push(choice);
                image
            });
            by_function.insert(f.id.clone(), image);
        }
        (by_function, choices)
    }

    /// What is known of an image with the parameters of a function.
    fn facts(&self, image: &Template, f: &Function) -> Facts {
        let arguments = match image.arguments(&f.params) {
            Ok(arguments) => arguments,
            Err(_) => return Facts::default(),
        };
        let key = (image.name.clone(), arguments, f.kind);
        if let Some(facts) = self.known.borrow().get(&key) {
            return facts.clone();
        }
        let run_as = f.kind.map(|kind| image.run_as(kind));
        let facts = match &run_as {
            None => match image.graph() {
                Some(graph) => self.look_into(image, graph, &key.1),
                None => self.look_up(image, &key.1),
            },
            Some(Ok(other)) => self.look_up(other, &key.1),
            Some(Err(what)) => Facts { obstacle: Some(what.clone()), ..Facts::default() },
        };
        // What an image cannot be as a part of another, it may be elsewhere.
        if self.looking.borrow().is_empty() || image.graph().is_none() {
            self.known.borrow_mut().insert(key, facts.clone());
        }
        facts
    }

    /// An image that is made of functions takes what they take altogether, and is proved or inline if all are.
    fn look_into(&self, image: &Template, graph: &SubGraph, arguments: &BTreeMap<String, String>) -> Facts {
        let cannot = |what: String| Facts { obstacle: Some(what), ..Facts::default() };
        let depth = self.looking.borrow().len();
        if depth == 0 {
            self.looked.set(0);
        }
        if self.looking.borrow().contains(&image.name) {
            return cannot("it would be a part of itself".to_owned());
        }
        if depth >= MAX_DEPTH {
            return cannot(format!("more than {MAX_DEPTH} images would be within each other"));
        }
        self.looking.borrow_mut().push(image.name.clone());
        let mut facts = Facts {
            proved: true,
            inline: true,
            needs: Needs { memory: 0, cpu: Some(0) },
            ..Facts::default()
        };
        for f in graph.functions_with(arguments) {
            self.looked.set(self.looked.get() + 1);
            let found = match &f.capability {
                _ if self.looked.get() > MAX_FUNCTIONS => {
                    Err(format!("it is made of more than {MAX_FUNCTIONS} functions"))
                }
                None => self.images.find(&f),
                Some(capability) => {
                    let (images, left) = (self.images.templates.values(), Resources::UNBOUNDED);
                    resolve(&f, capability, images, left, None, |t| self.facts(t, &f)).map(|(t, _)| t)
                }
            };
            let inner = match found {
                Ok(t) => self.facts(t, &f),
                Err(what) => cannot(what),
            };
            if let Some(what) = inner.obstacle {
                facts = cannot(format!("its function '{}': {what}", f.id));
                break;
            }
            facts.proved &= inner.proved;
            facts.inline &= inner.inline;
            let limited = facts.needs.cpu.is_some() && inner.needs.cpu.is_some();
            facts.needs = facts.needs.and(inner.needs);
            if !limited {
                facts.needs.cpu = None;
            }
        }
        self.looking.borrow_mut().pop();
        facts
    }

    fn look_up(&self, image: &Template, arguments: &BTreeMap<String, String>) -> Facts {
        let lack = self.drivers.and_then(|drivers| drivers.lack(image));
        let (mistakes, memory) = match examine(image, arguments) {
            Ok(memory) => (Vec::new(), memory),
            Err(mistakes) => (mistakes, 0),
        };
        let mistakes = (!mistakes.is_empty())
            .then(|| format!("it cannot be used with these parameters: {}", mistakes.join("; ")));
        let obstacles: Vec<String> = lack.into_iter().chain(mistakes).collect();
        let obstacle = (!obstacles.is_empty()).then(|| obstacles.join("; "));
        // What compiles was checked.
        let proved = matches!(image.implementation, Implementation::Click(_)) && obstacle.is_none();
        Facts { obstacle, inline: image.is_inline(), proved, needs: needs(image, memory) }
    }
}

/// What a function of an image may come to take; `tables` is what those of an inline one do.
pub(crate) fn needs(image: &Template, tables: u64) -> Needs {
    match &image.implementation {
        // What runs in no worker of its own takes no time of its own.
        Implementation::Click(_) => Needs { memory: tables, cpu: Some(0) },
        Implementation::Process { process, .. } => Needs { memory: process.memory, cpu: process.cpu },
        Implementation::Native { native } => Needs { memory: native.memory, cpu: native.cpu },
        Implementation::Dpdk { dpdk } => Needs { memory: dpdk.memory, cpu: dpdk.cpu },
        Implementation::Vm { vm } => Needs { memory: vm.whole_memory(), cpu: vm.cpu },
        Implementation::Graph { .. } => Needs::default(),
        Implementation::Container { container } => Needs { memory: container.memory, cpu: container.cpu },
    }
}

impl<'i> Chosen<'i> {
    /// The image of a function.
    ///
    /// # Errors
    /// Why it has none.
    pub fn image(&self, f: &Function) -> Result<&'i Template, String> {
        let found = self.by_function.get(&f.id).cloned();
        found.unwrap_or_else(|| Err(format!("the graph has no function '{}'", f.id)))
    }

    /// The graph that `graph` becomes: functions that are made of others are replaced by these.
    pub fn graph<'g>(&'g self, graph: &'g ServiceGraph) -> &'g ServiceGraph {
        self.expanded.as_ref().unwrap_or(graph)
    }

    /// Errors about that graph, with their places in the document.
    pub fn placed(&self, errors: Vec<CompileError>) -> Vec<CompileError> {
        if self.expanded.is_some() { self.expansion.placed(errors) } else { errors }
    }
}

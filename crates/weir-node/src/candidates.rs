//! The images that the functions of a graph are made from: those that they name, and of those that they may have by their capability
//! the one that [`resolve`] chooses. What is asked of images is looked up here.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use weir_api::plan::Choice;
use weir_model::graph::{Function, RunAs, ServiceGraph};
use weir_model::template::{Implementation, Template};
use weir_model::value::Id;

use crate::compute::Drivers;
use crate::image_check::examine;
use crate::images::Images;
use crate::resolve::{Facts, resolve};
use crate::resources::{Needs, Resources};

/// An image with the values of its parameters, and how a graph wants it to be run.
type Configured = (Id, BTreeMap<String, String>, Option<RunAs>);

/// All images of a node, and what is known of them.
#[derive(Debug)]
pub struct Candidates<'i> {
    images: &'i Images,
    /// Those of the node; without them everything can run.
    drivers: Option<&'i Drivers>,
    known: RefCell<HashMap<Configured, Facts>>,
}

/// The images of a graph's functions.
#[derive(Debug)]
pub struct Chosen<'i> {
    by_function: BTreeMap<Id, Result<&'i Template, String>>,
    /// Of those that ask for a capability: which image was chosen and why.
    pub choices: Vec<Choice>,
}

impl<'i> Candidates<'i> {
    /// Those of these images that can run with these drivers; without drivers everything can run.
    pub fn new(images: &'i Images, drivers: Option<&'i Drivers>) -> Candidates<'i> {
        Candidates { images, drivers, known: RefCell::default() }
    }

    /// The images of a graph's functions, when so much is left for it; `running` is the image that a function has now.
    pub fn choose<'r>(
        &self,
        graph: &ServiceGraph,
        mut left: Resources,
        running: &dyn Fn(&str) -> Option<&'r str>,
    ) -> Chosen<'i> {
        let mut chosen = Chosen { by_function: BTreeMap::new(), choices: Vec::new() };
        // What is named takes its part whatever is chosen.
        let (mut asking, naming): (Vec<&Function>, Vec<&Function>) =
            graph.functions.iter().partition(|f| f.capability.is_some());
        for f in naming {
            let image = self.images.find(f);
            if let (Ok(image), false) = (&image, asking.is_empty()) {
                left = left.without(self.facts(image, f).needs);
            }
            chosen.by_function.insert(f.id.clone(), image);
        }
        // A new function takes nothing from one that runs.
        asking.sort_by_key(|f| running(f.id.as_str()).is_none());
        for f in asking {
            let Some(capability) = &f.capability else { continue };
            let images = self.images.templates.values();
            let found =
                resolve(f, capability, images, left, running(f.id.as_str()), |image| self.facts(image, f));
            let image = found.map(|(image, choice)| {
                left = left.without(self.facts(image, f).needs);
                chosen.choices.push(choice);
                image
            });
            chosen.by_function.insert(f.id.clone(), image);
        }
        chosen
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
            None => self.look_up(image, &key.1),
            Some(Ok(other)) => self.look_up(other, &key.1),
            Some(Err(what)) => Facts { obstacle: Some(what.clone()), ..Facts::default() },
        };
        self.known.borrow_mut().insert(key, facts.clone());
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
}

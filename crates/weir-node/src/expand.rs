//! Functions that are made of functions are replaced by these (COMPOSER paper, section 5.6: hierarchical decomposition). Pure.
//!
//! A function `f` becomes `f.INNER` for each function inside, and `f@PORT` for each of its ports: a function of two ports that passes
//! what comes in by one to the other, so that the rules outside and those inside are each applied as they stand.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use weir_model::graph::{
    Constraints, Function, GraphParts, GraphPlace, MAX_FUNCTIONS, Port, PortRef, Rule, ServiceGraph,
};
use weir_model::template::{SubGraph, Template, secret_parts};
use weir_model::value::Id;
use weir_switch::compile::CompileError;

/// Most images within each other.
pub const MAX_DEPTH: usize = 8;
/// The sides of a port of a function that is made of functions.
const OUTER: &str = "outer";
const INNER: &str = "inner";

/// The image of a port of a function that is made of functions.
static PORT: LazyLock<Option<Template>> = LazyLock::new(|| {
    let text = format!(
        "name: port\ndescription: Passes frames between the outside and the inside of a function.\n\
         ports: [{OUTER}, {INNER}]\nclick: 'in_0 -> out_1; in_1 -> out_0;'\n"
    );
    Template::parse(&text).ok()
});

/// A function that was replaced by those that it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Composed {
    /// Its identifier.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// Its ports: what it calls them, and the functions that stand for them.
    pub ports: Vec<(String, String)>,
    /// The functions that it is made of.
    pub functions: Vec<String>,
}

impl Composed {
    /// What a place is for people: that of a function which stands for a port is the port.
    pub fn shown(composed: &[Composed], place: &PortRef) -> String {
        let PortRef::Function { function, .. } = place else { return place.to_string() };
        let stands_for = |c: &Composed| {
            let (port, _) = c.ports.iter().find(|(_, stand)| stand == function.as_str())?;
            Some(format!("sf:{}:{port}", c.id))
        };
        composed.iter().find_map(stands_for).unwrap_or_else(|| place.to_string())
    }

    /// Whether a function stands for a port of one of these.
    pub fn has_port(composed: &[Composed], function: &str) -> bool {
        composed.iter().flat_map(|c| &c.ports).any(|(_, stand)| stand == function)
    }

    /// The side of a port, or of the function that stands for it, that is met from outside.
    pub fn outer(function: &str) -> Option<PortRef> {
        Some(PortRef::Function { function: function.parse().ok()?, port: OUTER.parse().ok()? })
    }
}

/// Where a part of the graph comes from.
#[derive(Debug, Clone)]
struct Origin {
    /// The number of a function of the document: itself, or the one that it is a part of.
    number: usize,
    /// The images that it is a part of, outermost first.
    within: Vec<Id>,
    /// Whether it stands for a port.
    is_port: bool,
    /// The parameters that get secrets of the function that it is a part of.
    secret: Vec<String>,
}

/// A function of a graph in which functions are being replaced.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The function.
    pub function: &'a Function,
    /// The images that it is a part of, outermost first.
    pub within: &'a [Id],
    /// The image that it has without being asked.
    pub port: Option<&'static Template>,
    /// The parameters that get secrets of the function that it is a part of.
    pub secret: &'a [String],
}

/// A graph in which functions are being replaced.
#[derive(Debug)]
pub struct Expansion {
    parts: GraphParts,
    /// Of functions.
    origins: Vec<Origin>,
    /// Of the rules behind those of the document.
    rules: Vec<Origin>,
}

impl Expansion {
    /// A graph as it is written.
    pub fn new(graph: &ServiceGraph) -> Expansion {
        let parts = GraphParts::clone(graph);
        let origin = |number| Origin { number, within: Vec::new(), is_port: false, secret: Vec::new() };
        Expansion { origins: (0..parts.functions.len()).map(origin).collect(), parts, rules: Vec::new() }
    }

    /// The functions.
    pub fn functions(&self) -> impl Iterator<Item = Part<'_>> {
        self.parts.functions.iter().zip(&self.origins).map(|(function, o)| Part {
            function,
            within: &o.within,
            port: PORT.as_ref().filter(|_| o.is_port),
            secret: &o.secret,
        })
    }

    /// An error about a function, by its number, with its place in the document.
    pub fn error(&self, number: usize, what: String) -> CompileError {
        let parts = self.parts.functions.get(number).zip(self.origins.get(number));
        let at = parts.map_or("sffg.SFs".to_owned(), |(f, o)| place(o, &format!("'{}'", f.id)));
        CompileError { at, what }
    }

    /// Replaces functions, by their numbers, by those that their images are made of.
    ///
    /// # Errors
    /// What is wrong, with its place in the document.
    pub fn replace(
        &mut self,
        images: &HashMap<usize, &Template>,
    ) -> Result<Vec<Composed>, Vec<CompileError>> {
        let before = std::mem::take(&mut self.parts.functions);
        let origins = std::mem::take(&mut self.origins);
        let (mut composed, mut errors) = (Vec::new(), Vec::new());
        let mut turned = HashMap::new();
        for (i, (f, origin)) in before.into_iter().zip(origins).enumerate() {
            let Some(template) = images.get(&i) else {
                self.parts.functions.push(f);
                self.origins.push(origin);
                continue;
            };
            match self.replace_one(&f, &origin, template, &mut turned) {
                Ok(one) => composed.push(one),
                Err(what) => errors.push(CompileError { at: place(&origin, &format!("'{}'", f.id)), what }),
            }
        }
        let rules = self.parts.flowrules.iter_mut();
        for place in rules.flat_map(places) {
            if let PortRef::Function { function, port } = place
                && let Some(side) = turned.get(&(function.clone(), port.clone()))
            {
                *place = side.clone();
            }
        }
        if errors.is_empty() { Ok(composed) } else { Err(errors) }
    }

    /// Puts the parts of one function in; `turned` gets what takes the places of its ports.
    fn replace_one(
        &mut self,
        f: &Function,
        origin: &Origin,
        template: &Template,
        turned: &mut HashMap<(Id, Id), PortRef>,
    ) -> Result<Composed, String> {
        let image = &template.name;
        let Some(graph) = template.graph() else { return Err(format!("the image '{image}' is no graph")) };
        let mut within = origin.within.clone();
        let again = within.contains(image);
        within.push(image.clone());
        let path = || within.iter().map(Id::as_str).collect::<Vec<_>>().join(" > ");
        if again {
            return Err(format!("the image '{image}' is a part of itself: {}", path()));
        }
        if within.len() > MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} images are within each other: {}", path()));
        }
        if f.ports.len() > template.ports.len() {
            let (given, has) = (f.ports.len(), template.ports.len());
            return Err(format!("{given} ports are given, but the image '{image}' has {has}"));
        }
        if let Some(write) = f.handlers.first() {
            return Err(format!(
                "the image '{image}' is made of functions and has no handler '{}' itself: set its parameters",
                write.name
            ));
        }
        if f.state.is_some() {
            return Err(format!(
                "the image '{image}' is made of functions, which have no state together: remove 'state'"
            ));
        }
        if let Some(kind) = f.kind {
            template.run_as(kind)?;
        }
        let arguments = template.arguments(&f.params).map_err(|errors| {
            errors.iter().map(|e| format!("{}: {}", e.message, e.help)).collect::<Vec<_>>().join("; ")
        })?;
        if self.parts.functions.len() + graph.functions.len() + template.ports.len() > MAX_FUNCTIONS {
            return Err(format!(
                "with the functions of the image '{image}' the graph has more than {MAX_FUNCTIONS}"
            ));
        }
        let mut one = Composed {
            id: f.id.to_string(),
            name: f.name.to_string(),
            image: image.to_string(),
            ports: Vec::new(),
            functions: Vec::new(),
        };
        let part =
            |is_port, secret| Origin { number: origin.number, within: within.clone(), is_port, secret };
        for (i, port) in template.ports.iter().enumerate() {
            let stand = stand_in(&f.id, &port.name)?;
            // What the graph does not use has the image's name.
            let called = f.ports.get(i).map_or(&port.name, |p| &p.id);
            one.ports.push((called.to_string(), stand.to_string()));
            turned.insert((f.id.clone(), called.clone()), side(&stand, OUTER)?);
            self.parts.functions.push(port_function(stand, &port.name)?);
            self.origins.push(part(true, Vec::new()));
        }
        let secrets: Vec<&str> = template.secrets().collect();
        let secret: Vec<Vec<String>> =
            graph.functions.iter().map(|inner| secret_parts(inner, &secrets)).collect();
        for (inner, secret) in graph.functions_with(&arguments).into_iter().zip(secret) {
            let function = Function { id: inside(&f.id, &inner.id)?, ..inner };
            one.functions.push(function.id.to_string());
            self.parts.functions.push(function);
            self.origins.push(part(false, secret));
        }
        for rule in rules(&f.id, graph)? {
            self.parts.flowrules.push(rule);
            self.rules.push(part(false, Vec::new()));
        }
        Ok(one)
    }

    /// The whole graph.
    ///
    /// # Errors
    /// What is wrong with what it became, with its place in the document.
    pub fn finish(&self, graph: &ServiceGraph) -> Result<ServiceGraph, Vec<CompileError>> {
        let mut errors = Vec::new();
        for (i, requirement) in graph.requirements.iter().enumerate() {
            for place in requirement.places() {
                let Some(GraphPlace::Function { function, .. }) = graph.place(place) else { continue };
                if self.parts.functions.iter().all(|f| f.id != function) {
                    let at = format!("sffg.requirements[{i}]");
                    let what = format!(
                        "function '{function}' is made of functions: name access points, or other functions"
                    );
                    errors.push(CompileError { at, what });
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        ServiceGraph::from_parts(&self.parts).map_err(|e| {
            let error = |e: &weir_model::DocError| CompileError {
                at: "sffg".into(),
                what: format!("with functions replaced by those that they are made of: {e}"),
            };
            e.errors().iter().map(error).collect()
        })
    }

    /// Errors about the whole graph, with their places in the document.
    pub fn placed(&self, errors: Vec<CompileError>) -> Vec<CompileError> {
        let of_document = self.parts.flowrules.len() - self.rules.len();
        let placed = |e: CompileError| {
            if let Some((number, rest)) = numbered(&e.at, "sffg.SFs[")
                && let (Some(f), Some(origin)) = (self.parts.functions.get(number), self.origins.get(number))
            {
                return CompileError { at: place(origin, &format!("'{}'", f.id)) + rest, ..e };
            }
            if let Some((number, rest)) = numbered(&e.at, "sffg.flowrules[")
                && let Some(origin) = number.checked_sub(of_document).and_then(|n| self.rules.get(n))
                && let Some(rule) = self.parts.flowrules.get(number)
            {
                return CompileError { at: place(origin, &format!("rule '{}'", rule.id)) + rest, ..e };
            }
            e
        };
        errors.into_iter().map(placed).collect()
    }
}

/// The number in a place such as `sffg.SFs[3].ports`, and what follows.
fn numbered<'a>(at: &'a str, list: &str) -> Option<(usize, &'a str)> {
    let (number, rest) = at.strip_prefix(list)?.split_once(']')?;
    Some((number.parse().ok()?, rest))
}

/// A place in the document; `part` is what is meant within the function there.
fn place(origin: &Origin, part: &str) -> String {
    let number = origin.number;
    match &origin.within[..] {
        [] => format!("sffg.SFs[{number}]"),
        within => {
            let path: Vec<&str> = within.iter().map(Id::as_str).collect();
            format!("sffg.SFs[{number}] ({part} in the image '{}')", path.join("' > '"))
        }
    }
}

/// What stands for a port of a function.
fn port_function(id: Id, port: &Id) -> Result<Function, String> {
    let port_of = |name: &str| Ok::<_, String>(Port { id: identifier(name)?, name: None });
    Ok(Function {
        node: None,
        id,
        name: port.into(),
        ports: vec![port_of(OUTER)?, port_of(INNER)?],
        click: None,
        template: None,
        kind: None,
        capability: None,
        state: None,
        fifo: None,
        constraints: Constraints::default(),
        params: Default::default(),
        handlers: Vec::new(),
    })
}

/// The rules inside a function, which come from the inner sides of its ports.
fn rules(function: &Id, graph: &SubGraph) -> Result<Vec<Rule>, String> {
    let mut rules = graph.flowrules.clone();
    for rule in &mut rules {
        rule.id = inside(function, &rule.id)?;
        for place in places(rule) {
            *place = match place {
                PortRef::Sap(port) => side(&stand_in(function, port)?, INNER)?,
                PortRef::Function { function: f, port } => {
                    PortRef::Function { function: inside(function, f)?, port: port.clone() }
                }
            };
        }
    }
    Ok(rules)
}

/// The places that a rule names.
fn places(rule: &mut Rule) -> impl Iterator<Item = &mut PortRef> {
    [&mut rule.matches.port_in].into_iter().chain(&mut rule.actions.output_to_port)
}

fn side(stand: &Id, side: &str) -> Result<PortRef, String> {
    Ok(PortRef::Function { function: stand.clone(), port: identifier(side)? })
}

/// The identifier of what is inside a function.
fn inside(function: &Id, inner: &Id) -> Result<Id, String> {
    identifier(&format!("{function}.{inner}"))
}

/// The identifier of what stands for a function's port.
fn stand_in(function: &Id, port: &Id) -> Result<Id, String> {
    identifier(&format!("{function}@{port}"))
}

fn identifier(text: &str) -> Result<Id, String> {
    text.parse().map_err(|_| {
        format!("'{text}' is too long for an identifier: choose shorter ones for functions within each other")
    })
}

#[cfg(test)]
mod tests;

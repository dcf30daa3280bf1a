//! The flat graph, and its text form.

use std::collections::HashMap;
use std::fmt;

use crate::class::Kind;
use crate::config::{join_args, quote};
use crate::source::Span;

/// A flat configuration: elements of real classes and the connections between them.
///
/// Displays as a configuration text that parses to an equal graph. Equality leaves positions out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Elements in the order of their declaration; those inside compound elements after those beside them.
    pub elements: Vec<ElementDecl>,
    /// Connections sorted by source and destination; none stands twice.
    pub connections: Vec<Connection>,
    /// For each element its ports.
    pub ports: Vec<PortKinds>,
    /// Names of required packages, in order, none twice; also `compact_config`, which asks that the configuration is
    /// shown in its flat form only.
    pub requirements: Vec<String>,
}

/// An element of a [`Graph`].
#[derive(Clone, Debug)]
pub struct ElementDecl {
    /// Unique name; elements of a compound element `x` are named `x/…`.
    pub name: String,
    /// Name of its class in the element set.
    pub class: String,
    /// Arguments: parameters substituted, split at commas, without comments and outer white space, still quoted.
    pub args: Vec<String>,
    /// Where it was declared, in a compound element's definition if it is part of one.
    pub span: Span,
}

impl PartialEq for ElementDecl {
    fn eq(&self, other: &ElementDecl) -> bool {
        (&self.name, &self.class, &self.args) == (&other.name, &other.class, &other.args)
    }
}

impl Eq for ElementDecl {}

/// A connection of a [`Graph`].
#[derive(Clone, Debug)]
pub struct Connection {
    /// Index of the element that packets leave, and its output port.
    pub from: (usize, u32),
    /// Index of the element that packets enter, and its input port.
    pub to: (usize, u32),
    /// The arrow; of several that pass through compound elements, the first.
    pub span: Span,
}

impl PartialEq for Connection {
    fn eq(&self, other: &Connection) -> bool {
        (self.from, self.to) == (other.from, other.to)
    }
}

impl Eq for Connection {}

/// The ports of an element: as many as it has, each push or pull.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortKinds {
    /// By input number.
    pub inputs: Vec<Kind>,
    /// By output number.
    pub outputs: Vec<Kind>,
}

impl Graph {
    /// Index of the element of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|e| e.name == name)
    }

    fn name(&self, element: usize) -> &str {
        self.elements.get(element).map_or("", |e| &e.name)
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.requirements.is_empty() {
            let list: Vec<String> = (self.requirements.iter())
                .map(|r| match r.as_str() {
                    "compact_config" => r.clone(),
                    package => format!("package {}", quote(package.as_bytes())),
                })
                .collect();
            writeln!(f, "require({});\n", list.join(", "))?;
        }
        for element in &self.elements {
            write!(f, "{} :: {}", element.name, element.class)?;
            if !element.args.is_empty() {
                write!(f, "({})", join_args(&element.args))?;
            }
            f.write_str(";\n")?;
        }
        if !self.connections.is_empty() {
            f.write_str("\n")?;
        }
        self.fmt_connections(f)
    }
}

impl Graph {
    /// Writes connections as chains: a connection to input 0 goes on with one from output 0 of the same element.
    fn fmt_connections(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut from_first: HashMap<usize, Vec<usize>> = HashMap::new();
        for (i, c) in self.connections.iter().enumerate().filter(|(_, c)| c.from.1 == 0) {
            from_first.entry(c.from.0).or_default().push(i);
        }
        let next = |c: &Connection| -> Option<usize> {
            let list = from_first.get(&c.to.0).filter(|_| c.to.1 == 0)?;
            let straight = list.iter().find(|&&i| self.connections.get(i).is_some_and(|n| n.to.1 == 0));
            straight.or(list.first()).copied()
        };
        let mut continues = vec![false; self.connections.len()];
        for (i, c) in self.connections.iter().enumerate() {
            if let Some(slot) = next(c).filter(|&n| n != i).and_then(|n| continues.get_mut(n)) {
                *slot = true;
            }
        }
        let mut written = vec![false; self.connections.len()];
        // Chains from their heads first; what is left are cycles, which may begin anywhere.
        for heads_only in [true, false] {
            for i in 0..self.connections.len() {
                if written.get(i) == Some(&false) && !(heads_only && continues.get(i) == Some(&true)) {
                    self.fmt_chain(f, i, &next, &mut written)?;
                }
            }
        }
        Ok(())
    }

    fn fmt_chain(
        &self,
        f: &mut fmt::Formatter<'_>,
        first: usize,
        next: &dyn Fn(&Connection) -> Option<usize>,
        written: &mut [bool],
    ) -> fmt::Result {
        let mut current = Some(first);
        let mut begun = false;
        while let Some((i, c)) = current.and_then(|i| Some((i, self.connections.get(i)?))) {
            match written.get_mut(i) {
                Some(done) if !*done => *done = true,
                _ => break,
            }
            if !begun {
                f.write_str(self.name(c.from.0))?;
                if c.from.1 != 0 {
                    write!(f, " [{}]", c.from.1)?;
                }
            }
            f.write_str(if begun { "\n    -> " } else { " -> " })?;
            if c.to.1 != 0 {
                write!(f, "[{}] ", c.to.1)?;
            }
            f.write_str(self.name(c.to.0))?;
            begun = true;
            current = next(c);
        }
        f.write_str(";\n")
    }
}

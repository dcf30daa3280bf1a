//! Building a body: elements get numbers and names.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::ast::Formal;
use crate::program::{Body, Item, ItemKind};
use crate::source::Loc;

/// A body under construction.
pub(crate) struct Builder {
    pub body: Body,
    /// The elements in scope by name; inside a group, its own `input` and `output`.
    pub names: HashMap<String, usize>,
    /// How many elements there are as Click counts them for the numbers of anonymous elements.
    pub count: usize,
    anonymous: Vec<usize>,
    /// Names of its parameters and definitions.
    parameters: HashSet<String>,
}

impl Builder {
    pub fn new(loc: Loc, depth: usize, formals: Vec<Formal>) -> Builder {
        let parameters = formals.iter().map(|f| f.name.clone()).collect();
        let port = |name: &str| Item { name: name.into(), kind: ItemKind::Port, config: "".into(), loc };
        Builder {
            body: Body {
                loc,
                depth,
                formals,
                defines: Vec::new(),
                items: vec![port("input"), port("output")],
                wires: Vec::new(),
                inputs: 0,
                outputs: 0,
            },
            names: HashMap::new(),
            count: 0,
            anonymous: Vec::new(),
            parameters,
        }
    }

    /// Adds `define($name value)`; false if the name is taken.
    pub fn define(&mut self, name: &str, value: &str) -> bool {
        let new = self.parameters.insert(name.to_string());
        if new {
            self.body.defines.push((name.to_string(), value.to_string()));
        }
        new
    }

    pub fn add(&mut self, name: String, kind: ItemKind, config: Rc<str>, loc: Loc) -> usize {
        let index = self.body.items.len();
        self.body.items.push(Item { name, kind, config, loc });
        self.count += 1;
        index
    }

    pub fn add_anonymous(&mut self, class: &str, kind: ItemKind, config: Rc<str>, loc: Loc) -> usize {
        let name = format!("{class}@{}", self.count + 1);
        let index = self.add(name, kind, config, loc);
        self.anonymous.push(index);
        index
    }

    /// Gives anonymous elements names that no other element has: the next higher number that is free.
    pub fn finish(&mut self) {
        // By class, the number after the last one found to be taken: all between it and an earlier element's own
        // number are taken too, and own numbers rise.
        let mut free: HashMap<String, usize> = HashMap::new();
        for &index in &self.anonymous {
            let Some(item) = self.body.items.get_mut(index) else { continue };
            let Some((class, number)) = item.name.rsplit_once('@') else { continue };
            let (class, mut number) = (class.to_string(), number.parse::<usize>().unwrap_or(0));
            let mut name = item.name.clone();
            while self.names.contains_key(&name) {
                let known_free = free.get(&class).copied().unwrap_or(0);
                number = known_free.max(number + 1);
                name = format!("{class}@{number}");
                free.insert(class.clone(), number);
            }
            item.name.clone_from(&name);
            self.names.insert(name, index);
        }
    }
}

//! From statements to bodies: names become elements and classes, arrows become wires. Nothing is expanded yet.

use std::collections::HashMap;
use std::rc::Rc;

use crate::ast::{
    Arrow, Chain, ClassExpr, CompoundExpr, Formal, List, Node, Ports, Statement, Variant, What,
};
use crate::builder::Builder;
use crate::class::ElementSet;
use crate::connect::{End, pair_ports};
use crate::diagnostic::Report;
use crate::program::{Body, ClassId, Compound, INPUT, ItemKind, OUTPUT, Primitive, Program, Wire};
use crate::source::Loc;

pub(crate) fn resolve(statements: &[Statement], set: &dyn ElementSet, report: &mut Report) -> Program {
    let mut resolver = Resolver {
        set,
        report,
        program: Program::default(),
        known: HashMap::new(),
        scopes: Vec::new(),
        open: Vec::new(),
    };
    let start = Loc { source: 0, offset: 0 };
    resolver.scopes.push(HashMap::new());
    let mut builder = Builder::new(start, 0, Vec::new());
    resolver.statements(statements, &mut builder);
    builder.finish();
    resolver.program.main = resolver.program.bodies.len();
    resolver.program.bodies.push(builder.body);
    resolver.program
}

struct Resolver<'a> {
    set: &'a dyn ElementSet,
    report: &'a mut Report,
    program: Program,
    /// Classes of the element set that were asked for.
    known: HashMap<String, Option<usize>>,
    /// Classes defined in the open bodies, innermost last.
    scopes: Vec<HashMap<String, ClassId>>,
    /// Names of the compound classes being defined, outermost first.
    open: Vec<String>,
}

/// A node of a list, before the list's elements are declared.
enum Resolved {
    Implicit(usize),
    Group {
        input: usize,
        output: usize,
        inputs: u32,
        outputs: u32,
    },
    /// An anonymous compound.
    Class(ClassId),
    /// An element or class name: the class of that name, and the class it is declared with.
    Name {
        class: Option<ClassId>,
        declared: Option<ClassId>,
    },
}

impl Resolver<'_> {
    fn lookup(&mut self, name: &str) -> Option<ClassId> {
        if let Some(id) = self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            return Some(*id);
        }
        if let Some(known) = self.known.get(name) {
            return known.map(ClassId::Primitive);
        }
        let index = self.set.class(name).map(|info| {
            self.program.primitives.push(Primitive { name: name.to_string(), info: Rc::new(info) });
            self.program.primitives.len() - 1
        });
        self.known.insert(name.to_string(), index);
        index.map(ClassId::Primitive)
    }

    fn define_class(&mut self, name: &str, id: ClassId) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_string(), id);
        }
    }

    /// The class of this name; reports it if there is none, once in a scope.
    fn require_class(&mut self, name: &str, loc: Loc) -> ClassId {
        if let Some(id) = self.lookup(name) {
            return id;
        }
        let hint = self.suggestion(name, &[]);
        self.report.error(loc, format!("unknown element class '{name}'{hint}"));
        self.define_class(name, ClassId::Unknown);
        ClassId::Unknown
    }

    /// What to say after an unknown name: " (did you mean 'X'?)" for a name like it among classes and `others`.
    fn suggestion(&self, name: &str, others: &[&str]) -> String {
        if name.len() > 64 || self.report.is_full() {
            return String::new();
        }
        if self.open.iter().any(|open| open == name) {
            return " (a compound element cannot contain itself)".into();
        }
        let mut candidates = self.set.names();
        candidates.extend(self.scopes.iter().flat_map(|s| s.keys().cloned()).take(1000));
        candidates.extend(others.iter().map(ToString::to_string));
        let limit = (name.chars().count() / 3).max(1);
        candidates
            .into_iter()
            .filter(|c| c.len() <= 64 && c != name)
            .map(|c| (strsim::damerau_levenshtein(&c.to_lowercase(), &name.to_lowercase()), c))
            .filter(|(distance, _)| *distance <= limit)
            .min()
            .map_or_else(String::new, |(_, c)| format!(" (did you mean '{c}'?)"))
    }

    fn statements(&mut self, statements: &[Statement], builder: &mut Builder) {
        for statement in statements {
            match statement {
                Statement::Chain(chain) => self.chain(chain, builder),
                Statement::ElementClass { name, class } => {
                    let id = self.class_expr(class, name);
                    self.define_class(name, id);
                }
                Statement::Define { name, value, loc } => {
                    if !builder.define(name, value) {
                        self.report.error(*loc, format!("parameter '${name}' multiply defined"));
                    }
                }
            }
        }
    }

    fn class_expr(&mut self, class: &ClassExpr, name: &str) -> ClassId {
        match class {
            ClassExpr::Named(class) => self.require_class(&class.text, class.loc),
            ClassExpr::Compound(compound) => self.compound(compound, name),
            ClassExpr::Missing => ClassId::Unknown,
        }
    }

    fn compound(&mut self, compound: &CompoundExpr, name: &str) -> ClassId {
        let extends = compound.extends.map(|loc| {
            let known = if name.is_empty() { None } else { self.lookup(name) };
            if known.is_none() {
                self.report.error(loc, format!("cannot extend unknown element class '{name}'"));
            }
            known.unwrap_or(ClassId::Unknown)
        });
        let variants = compound.variants.iter().map(|variant| self.variant(variant, name)).collect();
        self.program.compounds.push(Compound { name: name.to_string(), variants, extends });
        ClassId::Compound(self.program.compounds.len() - 1)
    }

    fn variant(&mut self, variant: &Variant, name: &str) -> usize {
        self.check_formals(&variant.formals);
        let mut builder = Builder::new(variant.loc, self.scopes.len(), variant.formals.clone());
        builder.names.insert("input".into(), INPUT);
        builder.names.insert("output".into(), OUTPUT);
        self.scopes.push(HashMap::new());
        self.open.push(name.to_string());
        self.statements(&variant.statements, &mut builder);
        self.open.pop();
        self.scopes.pop();
        let shown = if name.is_empty() { "<anonymous>" } else { name };
        builder.body.inputs = self.check_ports(&builder.body, INPUT, 0, shown, variant.loc);
        builder.body.outputs = self.check_ports(&builder.body, OUTPUT, 0, shown, variant.loc);
        builder.finish();
        self.program.bodies.push(builder.body);
        self.program.bodies.len() - 1
    }

    fn check_formals(&mut self, formals: &[Formal]) {
        for (i, formal) in formals.iter().enumerate() {
            let mut before = formals.iter().take(i);
            if before.clone().any(|f| f.name == formal.name) {
                self.report.error(formal.loc, format!("parameter '${}' multiply defined", formal.name));
            } else if let Some(keyword) = &formal.keyword
                && before.any(|f| f.keyword.as_ref() == Some(keyword))
            {
                self.report
                    .error(formal.loc, format!("repeated keyword parameter '{keyword}' in compound element"));
            }
        }
    }

    /// Checks how `item`, an `input` or `output`, is used by the wires from number `first` on, and returns how many
    /// ports it has.
    fn check_ports(&mut self, body: &Body, item: usize, first: usize, name: &str, loc: Loc) -> u32 {
        let is_output = body.items.get(item).is_some_and(|i| i.name == "output");
        let (what, other) = if is_output { ("output", "input") } else { ("input", "output") };
        let mut used: Vec<u32> = Vec::new();
        let mut misused = false;
        for wire in body.wires.get(first..).unwrap_or(&[]) {
            let (inner, outer) = if is_output { (wire.to, wire.from) } else { (wire.from, wire.to) };
            if inner.0 == item {
                used.push(inner.1);
            }
            misused |= outer.0 == item;
        }
        if misused {
            self.program.broken = true;
            self.report.error(loc, format!("'{name}' pseudoelement '{what}' may only be used as {other}"));
        }
        used.sort_unstable();
        used.dedup();
        let mut expected = 0;
        for &port in &used {
            while expected < port && !self.report.is_full() {
                self.program.broken = true;
                self.report.error(loc, format!("'{name}' {what} {expected} missing"));
                expected += 1;
            }
            expected = port + 1;
        }
        used.len() as u32
    }

    fn chain(&mut self, chain: &Chain, builder: &mut Builder) {
        let mut before: Vec<End> = Vec::new();
        for (i, list) in chain.lists.iter().enumerate() {
            let ends = self.list(list, builder);
            match list.arrow {
                Some(arrow) => self.connect(&before, &ends, arrow, builder),
                None => self.check_idle_ports(
                    list,
                    &ends,
                    |end| &end.inputs,
                    "input ports ignored at start of chain",
                ),
            }
            if i + 1 == chain.lists.len() {
                self.check_idle_ports(
                    list,
                    &ends,
                    |end| &end.outputs,
                    "output ports ignored at end of chain",
                );
            }
            before = ends;
        }
    }

    fn check_idle_ports(
        &mut self,
        list: &List,
        ends: &[End],
        side: fn(&End) -> &Option<Ports>,
        message: &str,
    ) {
        let idle = ends.iter().position(|end| side(end).as_ref().is_some_and(|p| !p.list.is_empty()));
        if let Some(node) = idle.and_then(|i| list.nodes.get(i)) {
            self.program.broken = true;
            self.report.error(node.loc, message);
        }
    }

    fn connect(&mut self, from: &[End], to: &[End], arrow: Arrow, builder: &mut Builder) {
        let before = self.report.count();
        let pairs = pair_ports(from, to, arrow, self.report);
        self.program.broken |= self.report.count() > before;
        let wires = pairs.into_iter().map(|(from, to)| Wire { from, to, loc: arrow.loc });
        builder.body.wires.extend(wires);
        if builder.body.wires.len() > crate::MAX_CONNECTIONS {
            if !self.program.broken {
                self.report.error(arrow.loc, format!("more than {} connections", crate::MAX_CONNECTIONS));
            }
            self.program.broken = true;
            builder.body.wires.truncate(crate::MAX_CONNECTIONS);
        }
    }

    fn list(&mut self, list: &List, builder: &mut Builder) -> Vec<End> {
        let found: Vec<Resolved> = list.nodes.iter().map(|node| self.find(node, builder)).collect();
        let shared = match (list.shared, list.nodes.last(), found.last()) {
            (true, Some(node), Some(Resolved::Name { declared: Some(class), .. })) => {
                Some((*class, node_config(node)))
            }
            _ => None,
        };
        let mut ends = Vec::with_capacity(found.len());
        for (node, found) in list.nodes.iter().zip(found) {
            let (mut inputs, mut outputs) = (node.inputs.clone(), node.outputs.clone());
            let (input_item, output_item) = match found {
                Resolved::Implicit(item) => (item, item),
                Resolved::Group { input, output, inputs: ins, outputs: outs } => {
                    // A group's ports are all meant unless some are named.
                    inputs.get_or_insert(Ports { list: (0..ins).collect(), open: false });
                    outputs.get_or_insert(Ports { list: (0..outs).collect(), open: false });
                    (input, output)
                }
                Resolved::Class(id) => {
                    let item = builder.add_anonymous("", ItemKind::Element(id), node_config(node), node.loc);
                    (item, item)
                }
                Resolved::Name { class, declared } => {
                    let (declared, config) = match &shared {
                        Some((class, config)) => (Some(*class), config.clone()),
                        None => (declared, node_config(node)),
                    };
                    let item = self.declare(node, class, declared, config, builder);
                    (item, item)
                }
            };
            ends.push(End { input_item, output_item, inputs, outputs });
        }
        ends
    }

    fn find(&mut self, node: &Node, builder: &mut Builder) -> Resolved {
        match &node.what {
            What::ImplicitInput => Resolved::Implicit(builder.names.get("input").copied().unwrap_or(INPUT)),
            What::ImplicitOutput => {
                Resolved::Implicit(builder.names.get("output").copied().unwrap_or(OUTPUT))
            }
            What::Group(statements) => self.group(statements, node.loc, builder),
            What::Compound { compound, .. } => Resolved::Class(self.compound(compound, "")),
            What::Element { name, class, config } => {
                if config.is_some() && builder.names.contains_key(name) {
                    self.report.error(node.loc, "configuration string ignored on element reference");
                }
                let own = self.lookup(name);
                let declared = class.as_ref().map(|class| self.class_expr(class, ""));
                Resolved::Name { class: own, declared }
            }
        }
    }

    fn group(&mut self, statements: &[Statement], loc: Loc, builder: &mut Builder) -> Resolved {
        let input = builder.add("input".into(), ItemKind::GroupPort, "".into(), loc);
        let output = builder.add("output".into(), ItemKind::GroupPort, "".into(), loc);
        // Click counts the group itself and its two ports.
        builder.count += 1;
        let outer_input = builder.names.insert("input".into(), input);
        let outer_output = builder.names.insert("output".into(), output);
        let first = builder.body.wires.len();
        self.statements(statements, builder);
        let inputs = self.check_ports(&builder.body, input, first, "<anonymous group>", loc);
        let outputs = self.check_ports(&builder.body, output, first, "<anonymous group>", loc);
        for (name, outer) in [("input", outer_input), ("output", outer_output)] {
            match outer {
                Some(item) => builder.names.insert(name.into(), item),
                None => builder.names.remove(name),
            };
        }
        Resolved::Group { input, output, inputs, outputs }
    }

    /// The item that a name in a list stands for, declared if need be.
    fn declare(
        &mut self,
        node: &Node,
        class: Option<ClassId>,
        declared: Option<ClassId>,
        config: Rc<str>,
        builder: &mut Builder,
    ) -> usize {
        let What::Element { name, .. } = &node.what else { return INPUT };
        let loc = node.loc;
        if let Some(class) = class {
            if declared.is_some() {
                self.report.error(loc, format!("class '{name}' used as element name"));
            }
            return builder.add_anonymous(name, ItemKind::Element(class), config, loc);
        }
        if let Some(&item) = builder.names.get(name) {
            if declared.is_some() {
                let known = builder.body.items.get(item);
                let notes = known
                    .filter(|i| matches!(i.kind, ItemKind::Element(_)))
                    .map(|i| (Some(i.loc), format!("element '{name}' previously declared here")));
                self.report.error_with(
                    loc,
                    format!("redeclaration of element '{name}'"),
                    notes.into_iter().collect(),
                );
            }
            return item;
        }
        let Some(declared) = declared else {
            let names: Vec<&str> = builder.names.keys().map(String::as_str).take(1000).collect();
            let hint = self.suggestion(name, &names);
            self.report.error(loc, format!("undeclared element '{name}'{hint}"));
            self.define_class(name, ClassId::Unknown);
            return builder.add_anonymous(name, ItemKind::Element(ClassId::Unknown), config, loc);
        };
        if name.split('/').any(|part| part.bytes().all(|b| b.is_ascii_digit())) {
            self.report.error(loc, format!("element name '{name}' has all-digit component"));
        }
        let item = builder.add(name.clone(), ItemKind::Element(declared), config, loc);
        builder.names.insert(name.clone(), item);
        item
    }
}

fn node_config(node: &Node) -> Rc<str> {
    match &node.what {
        What::Element { config: Some(config), .. } | What::Compound { config: Some(config), .. } => {
            config.as_str().into()
        }
        _ => "".into(),
    }
}

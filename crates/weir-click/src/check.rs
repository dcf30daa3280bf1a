//! The checks of a flat graph: port counts, push and pull, ports left open or used twice.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::class::{ClassInfo, ElementSet, Kind};
use crate::diagnostic::Report;
use crate::flatten::{Flat, FlatConnection};
use crate::graph::PortKinds;
use crate::program::Program;
use crate::source::Loc;
use crate::{MAX_FLOWS, MAX_PORTS};

/// Checks `flat`, and returns the kinds of all ports by element.
pub(crate) fn check(
    flat: &Flat,
    program: &Program,
    set: &dyn ElementSet,
    report: &mut Report,
) -> Vec<PortKinds> {
    let mut checker = Checker { flat, report, elements: Vec::new(), inputs: Vec::new(), outputs: Vec::new() };
    if !checker.count_ports(program, set) {
        return Vec::new();
    }
    let agreed = checker.spread_kinds();
    if agreed {
        checker.find_reuse();
    }
    checker.find_unused();
    checker.kinds()
}

struct Element {
    /// `name :: Class`
    shown: String,
    loc: Loc,
    info: Rc<ClassInfo>,
    /// Numbers of its first input and output among all.
    first_input: usize,
    first_output: usize,
    inputs: u32,
    outputs: u32,
}

struct Checker<'a> {
    flat: &'a Flat,
    report: &'a mut Report,
    elements: Vec<Element>,
    /// Kinds of the inputs of all elements, in order; `None` while agnostic.
    inputs: Vec<Option<Kind>>,
    outputs: Vec<Option<Kind>>,
}

impl Checker<'_> {
    /// Finds how many ports each element has; false if a connection uses one that is not there.
    fn count_ports(&mut self, program: &Program, set: &dyn ElementSet) -> bool {
        let before = self.report.count();
        let mut used = vec![(0u32, 0u32); self.flat.elements.len()];
        for connection in &self.flat.connections {
            if let Some(u) = used.get_mut(connection.to.0) {
                u.0 = u.0.max(connection.to.1.saturating_add(1));
            }
            if let Some(u) = used.get_mut(connection.from.0) {
                u.1 = u.1.max(connection.from.1.saturating_add(1));
            }
        }
        for (element, used) in self.flat.elements.iter().zip(used) {
            let Some(class) = program.primitives.get(element.class) else { return false };
            let own = set.ports(&class.name, &element.args);
            let (inputs, outputs) = own.as_ref().unwrap_or(&class.info.ports).nearest(used.0, used.1);
            let checked = Element {
                shown: format!("{} :: {}", element.name, class.name),
                loc: element.loc,
                info: class.info.clone(),
                first_input: self.inputs.len(),
                first_output: self.outputs.len(),
                inputs,
                outputs,
            };
            let all = self.inputs.len() as u64 + self.outputs.len() as u64;
            if all + u64::from(inputs) + u64::from(outputs) > MAX_PORTS {
                self.report
                    .error(checked.loc, format!("'{}': more than {MAX_PORTS} ports in all", checked.shown));
                return false;
            }
            let processing = &checked.info.processing;
            self.inputs.extend((0..inputs).map(|port| processing.input(port)));
            self.outputs.extend((0..outputs).map(|port| processing.output(port)));
            self.elements.push(checked);
        }
        for connection in &self.flat.connections {
            self.check_range(connection.to, connection.loc, "input", |e| e.inputs);
            self.check_range(connection.from, connection.loc, "output", |e| e.outputs);
        }
        self.report.count() == before
    }

    fn check_range(
        &mut self,
        (element, port): (usize, u32),
        loc: Loc,
        side: &str,
        count: fn(&Element) -> u32,
    ) {
        let Some(element) = self.elements.get(element) else { return };
        let ports = count(element);
        if port >= ports {
            let notes = vec![(Some(loc), format!("connected here; it has {ports} {side}{}", plural(ports)))];
            self.report.error_with(element.loc, format!("'{}' has no {side} {port}", element.shown), notes);
        }
    }

    fn input(&self, (element, port): (usize, u32)) -> usize {
        self.elements.get(element).map_or(0, |e| e.first_input) + port as usize
    }

    fn output(&self, (element, port): (usize, u32)) -> usize {
        self.elements.get(element).map_or(0, |e| e.first_output) + port as usize
    }

    fn input_kind(&self, index: usize) -> Option<Kind> {
        self.inputs.get(index).copied().flatten()
    }

    fn output_kind(&self, index: usize) -> Option<Kind> {
        self.outputs.get(index).copied().flatten()
    }

    /// Makes agnostic ports push or pull as their neighbours are; false if neighbours differ.
    fn spread_kinds(&mut self) -> bool {
        let before = self.report.count();
        // Ports by number: inputs, then outputs. Ports with an edge between them are of one kind.
        let base = self.inputs.len();
        let mut edges: Vec<(usize, usize)> = Vec::new();
        for c in &self.flat.connections {
            edges.push((self.input(c.to), base + self.output(c.from)));
        }
        let connections = edges.len();
        let mut flow_of = Vec::new();
        for (number, e) in self.elements.iter().enumerate() {
            for input in 0..e.inputs {
                if self.input_kind(e.first_input + input as usize).is_some() {
                    continue;
                }
                for output in 0..e.outputs {
                    let index = e.first_output + output as usize;
                    if self.output_kind(index).is_none() && e.info.flow.travels(input, output) {
                        edges.push((e.first_input + input as usize, base + index));
                        flow_of.push((number, input, output));
                        if flow_of.len() > MAX_FLOWS {
                            self.report.error(
                                e.loc,
                                format!("more than {MAX_FLOWS} paths through agnostic elements"),
                            );
                            return false;
                        }
                    }
                }
            }
        }
        self.flood(&edges, base);
        for (number, (input, output)) in edges.iter().enumerate() {
            let (Some(input), Some(output)) = (self.input_kind(*input), self.output_kind(output - base))
            else {
                continue;
            };
            if input == output {
                continue;
            }
            if let Some(connection) = self.flat.connections.get(number) {
                self.conflict(connection, output, input);
            } else if let Some(&(element, i, o)) = flow_of.get(number - connections)
                && let Some(e) = self.elements.get(element)
            {
                let message = format!(
                    "agnostic '{}' in mixed context: {} input {i}, {} output {o}",
                    e.shown,
                    input.name(),
                    output.name()
                );
                self.report.error(e.loc, message);
            }
        }
        self.report.count() == before
    }

    fn conflict(&mut self, c: &FlatConnection, output: Kind, input: Kind) {
        let (Some(from), Some(to)) = (self.elements.get(c.from.0), self.elements.get(c.to.0)) else { return };
        let message = format!(
            "'{}' {} output {} connected to '{}' {} input {}",
            from.shown,
            output.name(),
            c.from.1,
            to.shown,
            input.name(),
            c.to.1
        );
        self.report.error(c.loc, message);
    }

    /// Spreads kinds breadth first, so that a conflict shows midway between the ports that cause it.
    fn flood(&mut self, edges: &[(usize, usize)], base: usize) {
        let ports = base + self.outputs.len();
        let mut neighbours: Vec<Vec<usize>> = vec![Vec::new(); ports];
        for &(a, b) in edges {
            for (x, y) in [(a, b), (b, a)] {
                if let Some(list) = neighbours.get_mut(x) {
                    list.push(y);
                }
            }
        }
        let kind_of = |checker: &Self, port: usize| match port.checked_sub(base) {
            Some(output) => checker.output_kind(output),
            None => checker.input_kind(port),
        };
        let mut open: VecDeque<usize> = (0..ports).filter(|&p| kind_of(self, p).is_some()).collect();
        while let Some(port) = open.pop_front() {
            let kind = kind_of(self, port);
            for &next in neighbours.get(port).into_iter().flatten() {
                if kind_of(self, next).is_some() {
                    continue;
                }
                let slot = match next.checked_sub(base) {
                    Some(output) => self.outputs.get_mut(output),
                    None => self.inputs.get_mut(next),
                };
                if let Some(slot) = slot {
                    *slot = kind;
                }
                open.push_back(next);
            }
        }
    }

    /// A push output and a pull input have one connection each.
    fn find_reuse(&mut self) {
        let mut inputs = vec![0u32; self.inputs.len()];
        let mut outputs = vec![0u32; self.outputs.len()];
        for c in &self.flat.connections {
            let (input, output) = (self.input(c.to), self.output(c.from));
            if let Some(n) = inputs.get_mut(input) {
                *n += 1;
                if *n > 1 && self.input_kind(input) == Some(Kind::Pull) {
                    self.reuse(c, c.to, "pull input");
                }
            }
            if let Some(n) = outputs.get_mut(output) {
                *n += 1;
                if *n > 1 && self.output_kind(output) != Some(Kind::Pull) {
                    self.reuse(c, c.from, "push output");
                }
            }
        }
    }

    fn reuse(&mut self, c: &FlatConnection, (element, port): (usize, u32), what: &str) {
        let Some(e) = self.elements.get(element) else { return };
        let message = format!("illegal reuse of '{}' {what} {port}", e.shown);
        self.report.error_with(e.loc, message, vec![(Some(c.loc), "one of its connections is here".into())]);
    }

    fn find_unused(&mut self) {
        let mut inputs = vec![false; self.inputs.len()];
        let mut outputs = vec![false; self.outputs.len()];
        for c in &self.flat.connections {
            let (input, output) = (self.input(c.to), self.output(c.from));
            if let Some(used) = inputs.get_mut(input) {
                *used = true;
            }
            if let Some(used) = outputs.get_mut(output) {
                *used = true;
            }
        }
        for e in &self.elements {
            let sides = [
                ("input", &inputs, e.first_input, e.inputs),
                ("output", &outputs, e.first_output, e.outputs),
            ];
            for (side, used, first, count) in sides {
                for port in 0..count {
                    if used.get(first + port as usize) == Some(&false) {
                        self.report.error(e.loc, format!("'{}' {side} {port} unused", e.shown));
                    }
                }
            }
        }
    }

    /// The kinds by element. A port that no push or pull port reaches counts as push.
    fn kinds(&self) -> Vec<PortKinds> {
        let side = |kinds: &[Option<Kind>], first: usize, count: u32| {
            let kinds = kinds.get(first..first + count as usize).unwrap_or(&[]);
            kinds.iter().map(|kind| kind.unwrap_or(Kind::Push)).collect()
        };
        self.elements
            .iter()
            .map(|e| PortKinds {
                inputs: side(&self.inputs, e.first_input, e.inputs),
                outputs: side(&self.outputs, e.first_output, e.outputs),
            })
            .collect()
    }
}

fn plural(n: u32) -> &'static str {
    if n == 1 { "" } else { "s" }
}

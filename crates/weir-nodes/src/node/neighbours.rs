//! What a node sees of the graph around it.

use weir_click::{Graph, Kind};

use super::NodeFacts;

/// The graph as a node sees it when it is made.
pub struct Neighbours<'a> {
    graph: &'a Graph,
    nodes: &'a dyn Fn(usize) -> Option<&'a NodeFacts>,
    element: usize,
}

impl<'a> Neighbours<'a> {
    /// Of an element; `nodes` says what is known of engine nodes, by element number.
    pub fn new(
        graph: &'a Graph,
        nodes: &'a dyn Fn(usize) -> Option<&'a NodeFacts>,
        element: usize,
    ) -> Neighbours<'a> {
        Neighbours { graph, nodes, element }
    }
}

impl Neighbours<'_> {
    /// The number of an element that is named here: within the same compound element, or around it.
    pub fn find(&self, name: &str) -> Option<usize> {
        let mut scope = self.graph.elements[self.element].name.as_str();
        while let Some((outer, _)) = scope.rsplit_once('/') {
            scope = outer;
            if let Some(found) = self.graph.find(&format!("{scope}/{name}")) {
                return Some(found);
            }
        }
        self.graph.find(name)
    }

    /// The elements that a name stands for here: one, or all of a compound element.
    pub fn within(&self, name: &str) -> Vec<usize> {
        if let Some(element) = self.find(name) {
            return vec![element];
        }
        let mut scope = Some(self.graph.elements[self.element].name.as_str());
        while let Some(inner) = scope {
            let outer = inner.rsplit_once('/').map(|(outer, _)| outer);
            let prefix = outer.map_or_else(|| format!("{name}/"), |outer| format!("{outer}/{name}/"));
            let elements = self.graph.elements.iter().enumerate();
            let found: Vec<usize> =
                elements.filter(|(_, e)| e.name.starts_with(&prefix)).map(|(i, _)| i).collect();
            if !found.is_empty() {
                return found;
            }
            scope = outer;
        }
        Vec::new()
    }

    /// Number of connected inputs and outputs.
    pub fn ports(&self) -> (u32, u32) {
        let ports = &self.graph.ports[self.element];
        (ports.inputs.len() as u32, ports.outputs.len() as u32)
    }

    /// The name of an element.
    pub fn name(&self, element: usize) -> &str {
        &self.graph.elements[element].name
    }

    /// Whether an element stores packets.
    pub fn stores(&self, element: usize) -> bool {
        (self.nodes)(element).is_some_and(|n| n.stores)
    }

    /// Whether packets are pushed out of an output.
    pub fn output_is_push(&self, port: u32) -> bool {
        self.graph.ports[self.element].outputs.get(port as usize) == Some(&Kind::Push)
    }

    /// The nearest elements that store packets: those where packets get to from the outputs, or come from.
    pub fn storages(&self, downstream: bool) -> Vec<usize> {
        let (mut found, mut seen, mut next) = (Vec::new(), vec![self.element], vec![self.element]);
        while let Some(at) = next.pop() {
            let ends = self
                .graph
                .connections
                .iter()
                .map(|c| if downstream { (c.from, c.to) } else { (c.to, c.from) });
            for (_, (to, _)) in ends.filter(|((from, _), _)| *from == at) {
                if seen.contains(&to) {
                    continue;
                }
                seen.push(to);
                if self.stores(to) { found.push(to) } else { next.push(to) }
            }
        }
        found.sort_unstable();
        found
    }

    /// The queues where all packets of an output get to, without an engine node between; empty if some may end
    /// elsewhere.
    pub fn queues(&self, port: u32) -> Vec<usize> {
        let (mut found, mut seen) = (Vec::new(), Vec::new());
        let mut next = vec![(self.element, Some(port))];
        while let Some((at, only)) = next.pop() {
            let from = self
                .graph
                .connections
                .iter()
                .filter(|c| c.from.0 == at && only.is_none_or(|p| c.from.1 == p));
            let before = (found.len(), next.len());
            for to in from.map(|c| c.to.0) {
                let node = (self.nodes)(to);
                if node.is_some_and(|n| n.stops_sources) {
                    found.push(to);
                } else if node.is_some() || to == self.element {
                    return Vec::new();
                } else if !seen.contains(&to) {
                    seen.push(to);
                    next.push((to, None));
                }
            }
            if before == (found.len(), next.len()) {
                return Vec::new();
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

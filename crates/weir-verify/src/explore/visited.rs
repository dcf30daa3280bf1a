//! The nodes that packets came to.

use crate::network::{Network, NodeId};

/// The nodes that packets came to, in all explorations of a session.
#[derive(Debug)]
pub(crate) struct VisitedNodes {
    nodes: Vec<bool>,
    /// Those behind which all were noted.
    behind: Vec<bool>,
}

impl VisitedNodes {
    /// None.
    pub(crate) fn new(net: &Network) -> VisitedNodes {
        let none = vec![false; net.nodes().len()];
        VisitedNodes { nodes: none.clone(), behind: none }
    }

    /// Notes one.
    pub(crate) fn add(&mut self, node: NodeId) {
        self.nodes[node as usize] = true;
    }

    /// Notes one that is not looked at, and those behind it: only a change of them makes it one that counts.
    pub(crate) fn add_behind(&mut self, net: &Network, node: NodeId) {
        let mut work = vec![node];
        while let Some(n) = work.pop() {
            if !std::mem::replace(&mut self.behind[n as usize], true) {
                self.add(n);
                work.extend(net.node(n).outputs.iter().flatten().map(|to| to.node));
            }
        }
    }

    /// Their numbers.
    pub(crate) fn list(&self) -> Vec<NodeId> {
        (0..).zip(&self.nodes).filter(|(_, v)| **v).map(|(n, _)| n).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Body, NodePort};

    #[test]
    fn nodes_behind_one_that_is_not_looked_at_count_as_visited() {
        let mut net = Network::new();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| net.add(name, Body::Pass { lossy: false }));
        for (from, to) in [(a, b), (b, c), (c, b)] {
            net.connect(NodePort { node: from, port: 0 }, NodePort { node: to, port: 0 });
        }
        let mut visited = VisitedNodes::new(&net);
        visited.add(d);
        visited.add_behind(&net, b);
        assert_eq!(visited.list(), [b, c, d]);
    }
}

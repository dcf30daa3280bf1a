//! From where packets can come to nodes, and how far it is.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::network::{Network, NodeId};

/// The nodes in front of each node: those that a wire leads to it from.
struct Before {
    /// By node where its list begins; one more.
    first: Vec<usize>,
    all: Vec<NodeId>,
}

impl Before {
    fn new(net: &Network) -> Before {
        let wires = || {
            let nodes = (0..).zip(net.nodes());
            nodes.flat_map(|(n, node): (NodeId, _)| node.outputs.iter().flatten().map(move |to| (n, to.node)))
        };
        let n = net.nodes().len();
        let mut first = vec![0; n + 1];
        wires().for_each(|(_, to)| first[to as usize + 1] += 1);
        (1..first.len()).for_each(|i| first[i] += first[i - 1]);
        let mut all = vec![0; first[n]];
        let mut next = first.clone();
        for (from, to) in wires() {
            all[next[to as usize]] = from;
            next[to as usize] += 1;
        }
        Before { first, all }
    }

    fn of(&self, node: NodeId) -> &[NodeId] {
        let at = |n: NodeId| self.first.get(n as usize).copied().unwrap_or(self.all.len());
        &self.all[at(node)..at(node + 1)]
    }
}

impl Network {
    /// By node whether a packet that comes to it may come to one of some nodes, or may change what packets find there.
    pub(crate) fn leading_to(&self, to: impl IntoIterator<Item = NodeId>) -> Rc<[bool]> {
        let before = Before::new(self);
        let everywhere = (0..).zip(self.nodes()).filter(|(_, node)| self.acts_elsewhere(node));
        let mut work: Vec<NodeId> = to.into_iter().chain(everywhere.map(|(n, _)| n)).collect();
        let mut leads = vec![false; self.nodes().len()];
        while let Some(n) = work.pop() {
            if let Some(done) = leads.get_mut(n as usize)
                && !std::mem::replace(done, true)
            {
                work.extend(before.of(n));
            }
        }
        leads.into()
    }

    /// By node how many wires it is to the nearest of some nodes, if any path leads there.
    pub(crate) fn hops_to(&self, to: impl IntoIterator<Item = NodeId>) -> Vec<Option<usize>> {
        let before = Before::new(self);
        let mut hops = vec![None; self.nodes().len()];
        let mut work: VecDeque<(NodeId, usize)> = to.into_iter().map(|n| (n, 0)).collect();
        while let Some((n, far)) = work.pop_front() {
            if let Some(place @ None) = hops.get_mut(n as usize) {
                *place = Some(far);
                work.extend(before.of(n).iter().map(|&b| (b, far + 1)));
            }
        }
        hops
    }
}

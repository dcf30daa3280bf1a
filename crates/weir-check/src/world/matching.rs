//! Which nodes of two worlds stand for each other.

use std::collections::HashMap;
use std::sync::Arc;

use weir_verify::{Body, NodeId, NodePort};

use super::World;

/// The counterparts of a world's nodes in another world: those of the same name; without a name, of the same class, in order.
#[derive(Debug, Clone)]
pub struct Matching {
    to: Vec<Option<NodeId>>,
    same: Vec<bool>,
}

impl Matching {
    /// Which nodes of `old` stand for which of `new`.
    pub fn new(old: &World, new: &World) -> Matching {
        let mut numbers = HashMap::new();
        let key = |(name, count): (&str, &mut HashMap<String, usize>)| {
            // Elements without a name have their class and a number.
            let name = name.rsplit_once('@').map_or(name, |(class, _)| class);
            let n = count.entry(name.to_owned()).or_default();
            *n += 1;
            (name.to_owned(), *n)
        };
        let mut count = HashMap::new();
        for (i, n) in (0..).zip(new.net.nodes()) {
            numbers.insert(key((&n.name, &mut count)), i);
        }
        let mut count = HashMap::new();
        let to: Vec<Option<NodeId>> =
            old.net.nodes().iter().map(|n| numbers.get(&key((&n.name, &mut count))).copied()).collect();
        let mut m = Matching { to, same: Vec::new() };
        let alone: Vec<bool> = (0..old.net.nodes().len() as NodeId)
            .map(|n| m.to(n).is_some_and(|to| m.alike(old, new, (n, to))))
            .collect();
        // What others put into shared tables counts, too.
        m.same = (0..)
            .zip(&alone)
            .map(|(n, alike)| {
                let Some(to) = m.to(n).filter(|_| *alike) else { return false };
                let mut with = old.net.sharing(n);
                let number = new.net.sharing(to).count();
                old.net.sharing(n).count() == number && with.all(|o| alone.get(o as usize) == Some(&true))
            })
            .collect();
        m
    }

    /// The counterpart of a node.
    pub fn to(&self, node: NodeId) -> Option<NodeId> {
        self.to.get(node as usize).copied().flatten()
    }

    /// The counterpart of a place.
    pub fn place(&self, place: NodePort) -> Option<NodePort> {
        Some(NodePort { node: self.to(place.node)?, ..place })
    }

    /// Whether a node does as its counterpart does, and its outputs lead to counterparts.
    pub fn same(&self, node: NodeId) -> bool {
        self.same.get(node as usize).copied().unwrap_or(false)
    }

    /// Whether all nodes do as their counterparts do, and there are no others.
    pub fn is_whole(&self, new: &World) -> bool {
        self.same.len() == new.net.nodes().len() && self.same.iter().all(|same| *same)
    }

    fn alike(&self, old: &World, new: &World, (a, b): (NodeId, NodeId)) -> bool {
        // What a node that is no program stands for, such as a device, is known by its arguments.
        let named = old.labels.get(&a) == new.labels.get(&b);
        let (a, b) = (old.net.node(a), new.net.node(b));
        let does = match (&a.body, &b.body) {
            (Body::Program(_), Body::Program(_)) => match (a.program(), b.program()) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
                _ => false,
            },
            (Body::Pass { lossy: a }, Body::Pass { lossy: b }) => named && a == b,
            (Body::Sink, Body::Sink) | (Body::Opaque, Body::Opaque) => named,
            _ => false,
        };
        let ports = a.outputs.len().max(b.outputs.len());
        let leads = |i: usize| {
            let output = |n: &weir_verify::NetworkNode| n.outputs.get(i).copied().flatten();
            match (output(a), output(b)) {
                (None, None) => true,
                (Some(a), to) => self.place(a).is_some_and(|a| Some(a) == to),
                (None, Some(_)) => false,
            }
        };
        does && (0..ports).all(leads)
    }
}

#[cfg(test)]
mod tests {
    use weir_plan::{Classes, Plan};

    use super::*;

    fn world(config: &str) -> World {
        World::of_click(&Plan::new(&Classes::default(), config, "test").unwrap())
    }

    fn differing(old: &World, new: &World) -> Vec<String> {
        let m = Matching::new(old, new);
        let nodes = (0..).zip(old.net.nodes());
        nodes.filter(|(i, _)| !m.same(*i)).map(|(_, n)| n.name.clone()).collect()
    }

    #[test]
    fn what_differs_is_found_by_name() {
        let text = "FromDevice(a) -> c :: Counter -> f :: IPFilter(allow tcp, deny all) -> q :: Queue -> ToDevice(b);";
        let old = world(text);
        assert!(differing(&old, &world(text)).is_empty());
        assert_eq!(differing(&old, &world(&text.replace("allow tcp", "allow udp"))), ["f"]);
        // Where packets go next belongs to a node.
        assert_eq!(differing(&old, &world(&text.replace("c :: Counter -> ", ""))), ["FromDevice@1", "c"]);
        // So does the device that it stands for.
        assert_eq!(differing(&old, &world(&text.replace("ToDevice(b)", "ToDevice(c)"))), ["ToDevice@5"]);
        // Its counterpart is the same, however many stand before it.
        let more = format!("Idle -> x :: Counter -> Discard; {text}").replace("Idle", "i :: Idle");
        assert!(!differing(&old, &world(&more)).contains(&"f".to_owned()));
    }
}

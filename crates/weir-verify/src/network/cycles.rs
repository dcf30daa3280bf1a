//! Where a packet that goes round is noticed.

use crate::network::Node;

/// The state of a node in a depth-first walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walked {
    No,
    /// The walk is at it, or behind it.
    OnPath,
    Done,
}

/// For each node whether a walk in depth-first order comes back to it. There is one of them on each cycle.
pub(crate) fn heads(nodes: &[Node]) -> Vec<bool> {
    let n = nodes.len();
    let next = |v: usize| nodes[v].outputs.iter().flatten().map(|p| p.node as usize).filter(move |&w| w < n);
    let (mut seen, mut heads) = (vec![Walked::No; n], vec![false; n]);
    for root in 0..n {
        if seen[root] != Walked::No {
            continue;
        }
        seen[root] = Walked::OnPath;
        // Nodes on the path, and how many of the paths behind each were followed.
        let mut path = vec![(root, 0)];
        while let Some((v, followed)) = path.last_mut() {
            let Some(w) = next(*v).nth(*followed) else {
                seen[*v] = Walked::Done;
                path.pop();
                continue;
            };
            *followed += 1;
            match seen[w] {
                Walked::No => {
                    seen[w] = Walked::OnPath;
                    path.push((w, 0));
                }
                Walked::OnPath => heads[w] = true,
                Walked::Done => {}
            }
        }
    }
    heads
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::network::{Body, Network, NodePort};

    /// For each of `n` nodes with these wires whether it is a head.
    fn heads(n: u32, wires: &[(u32, u32)]) -> Vec<bool> {
        let mut net = Network::new();
        for i in 0..n {
            net.add(i.to_string(), Body::Pass { lossy: false });
        }
        for &(from, to) in wires {
            let port = net.node(from).outputs.len() as u32;
            net.connect(NodePort { node: from, port }, NodePort { node: to, port: 0 });
        }
        net.finish();
        net.nodes().iter().map(|n| n.is_head).collect()
    }

    #[test]
    fn each_cycle_has_a_head_and_what_leads_to_it_is_none() {
        let wires = [(0, 1), (1, 2), (2, 1), (2, 3), (4, 4)];
        assert_eq!(heads(5, &wires), [false, true, false, false, true]);
    }

    proptest! {
        #[test]
        fn no_cycle_is_without_a_head(wires in prop::collection::vec((0u32..8, 0u32..8), 0..24)) {
            let heads = heads(8, &wires);
            let mut left: Vec<(u32, u32)> =
                wires.into_iter().filter(|(from, to)| !heads[*from as usize] && !heads[*to as usize]).collect();
            // What nothing leads to is on no cycle.
            while let Some(&(begin, _)) = left.iter().find(|(from, _)| left.iter().all(|(_, to)| to != from)) {
                left.retain(|(from, _)| *from != begin);
            }
            prop_assert_eq!(left, []);
        }
    }
}

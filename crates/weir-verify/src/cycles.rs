//! Which nodes of a network stand on a cycle.

use crate::network::Node;

/// For each node whether packets that leave it may come back (Tarjan's strongly connected components, without recursion).
pub(crate) fn in_cycle(nodes: &[Node]) -> Vec<bool> {
    let n = nodes.len();
    let next = |v: usize| nodes[v].outputs.iter().flatten().map(|p| p.node as usize).filter(move |&w| w < n);
    let (mut index, mut low) = (vec![usize::MAX; n], vec![0; n]);
    let (mut on_stack, mut cyclic) = (vec![false; n], vec![false; n]);
    let (mut stack, mut count) = (Vec::new(), 0);
    for root in 0..n {
        if index[root] != usize::MAX {
            continue;
        }
        // A node, and how many of its ways were followed.
        let mut work = vec![(root, 0)];
        while let Some(&mut (v, ref mut way)) = work.last_mut() {
            if *way == 0 {
                (index[v], low[v]) = (count, count);
                count += 1;
                stack.push(v);
                on_stack[v] = true;
            }
            let w = next(v).nth(*way);
            *way += 1;
            match w {
                Some(w) if index[w] == usize::MAX => work.push((w, 0)),
                Some(w) => {
                    if on_stack[w] {
                        low[v] = low[v].min(index[w]);
                    }
                    cyclic[v] |= w == v;
                }
                None => {
                    work.pop();
                    if let Some(&(parent, _)) = work.last() {
                        low[parent] = low[parent].min(low[v]);
                    }
                    if low[v] == index[v] {
                        let at = stack.iter().rposition(|&w| w == v).unwrap_or(0);
                        let part = stack.split_off(at);
                        for &w in &part {
                            on_stack[w] = false;
                            cyclic[w] |= part.len() > 1;
                        }
                    }
                }
            }
        }
    }
    cyclic
}

#[cfg(test)]
mod tests {
    use crate::network::{Body, Network, Place};

    #[test]
    fn a_cycle_is_found_and_what_leads_to_it_is_not_on_it() {
        let mut net = Network::new();
        for name in ["a", "b", "c", "d", "e"] {
            net.add(name, Body::Pass { lossy: false });
        }
        for (from, to) in [(0, 1), (1, 2), (2, 1), (2, 3), (4, 4)] {
            let port = net.node(from).outputs.len() as u32;
            net.connect(Place { node: from, port }, Place { node: to, port: 0 });
        }
        net.finish();
        let cyclic: Vec<bool> = net.nodes().iter().map(|n| n.in_cycle).collect();
        assert_eq!(cyclic, [false, true, true, false, true]);
    }
}

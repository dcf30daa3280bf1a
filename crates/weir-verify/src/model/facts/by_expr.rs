//! What is known of each of some expressions, by their numbers.

use std::rc::Rc;

use crate::model::expr::Expr;

/// Bits of a number that choose a value in a leaf, and a child in a node above.
const LEAF: u32 = 2;
const INNER: u32 = 4;

/// Values by the number of an expression: a radix tree, since numbers are dense. Copies share what they have in common.
#[derive(Debug, Clone)]
pub(super) struct ByExpr<V> {
    root: Option<Rc<Node<V>>>,
    /// Levels above the leaves.
    height: u32,
}

#[derive(Debug, Clone)]
enum Node<V> {
    Inner([Option<Rc<Node<V>>>; 1 << INNER]),
    Leaf([Option<V>; 1 << LEAF]),
}

impl<V> Default for ByExpr<V> {
    fn default() -> ByExpr<V> {
        ByExpr { root: None, height: 0 }
    }
}

impl<V: Clone> ByExpr<V> {
    pub(super) fn get(&self, e: Expr) -> Option<&V> {
        let mut shift = LEAF + INNER * self.height;
        if e.0 >> shift != 0 {
            return None;
        }
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Inner(children) => {
                    shift -= INNER;
                    node = children[(e.0 >> shift) as usize % (1 << INNER)].as_deref()?;
                }
                Node::Leaf(values) => return values[e.0 as usize % (1 << LEAF)].as_ref(),
            }
        }
    }

    pub(super) fn insert(&mut self, e: Expr, value: V) {
        while e.0 >> (LEAF + INNER * self.height) != 0 {
            if let Some(root) = self.root.take() {
                let mut children: [_; 1 << INNER] = Default::default();
                children[0] = Some(root);
                self.root = Some(Rc::new(Node::Inner(children)));
            }
            self.height += 1;
        }
        let mut slot = &mut self.root;
        for level in (0..self.height).rev() {
            let node = slot.get_or_insert_with(|| Rc::new(Node::Inner(Default::default())));
            // All above the last level are such.
            let Node::Inner(children) = Rc::make_mut(node) else { return };
            slot = &mut children[(e.0 >> (LEAF + INNER * level)) as usize % (1 << INNER)];
        }
        let node = slot.get_or_insert_with(|| Rc::new(Node::Leaf(Default::default())));
        if let Node::Leaf(values) = Rc::make_mut(node) {
            values[e.0 as usize % (1 << LEAF)] = Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_keeps_what_a_map_keeps_and_copies_do_not_disturb_each_other(
            first in prop::collection::vec((0u32..40_000, any::<u8>()), 0..60),
            then in prop::collection::vec((0u32..600, any::<u8>()), 0..60),
        ) {
            let (mut a, mut map) = (ByExpr::default(), HashMap::new());
            for (e, v) in first {
                a.insert(Expr(e), v);
                map.insert(e, v);
            }
            let (copy, kept) = (a.clone(), map.clone());
            for (e, v) in then {
                a.insert(Expr(e), v);
                map.insert(e, v);
            }
            for e in (0..40_000).chain([1 << 20, u32::MAX]) {
                prop_assert_eq!(a.get(Expr(e)), map.get(&e));
                prop_assert_eq!(copy.get(Expr(e)), kept.get(&e));
            }
        }
    }
}

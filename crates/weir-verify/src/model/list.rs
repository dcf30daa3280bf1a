//! A list that grows at its front. Copies share what they have in common.

use std::rc::Rc;

/// A list with a place in memory for each value.
#[derive(Debug)]
pub(crate) struct List<T> {
    first: Option<Rc<Node<T>>>,
    len: usize,
}

#[derive(Debug)]
struct Node<T> {
    value: T,
    next: Option<Rc<Node<T>>>,
}

impl<T> List<T> {
    /// Puts a value in front of all.
    pub(crate) fn push(&mut self, value: T) {
        let next = self.first.take();
        self.first = Some(Rc::new(Node { value, next }));
        self.len += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The values, the newest first. Those that two lists share stand at the same place in memory.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(self.first.as_deref(), |n| n.next.as_deref()).map(|n| &n.value)
    }
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List { first: None, len: 0 }
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> List<T> {
        List { first: self.first.clone(), len: self.len }
    }
}

impl<T> Drop for List<T> {
    /// One after the other: a long list has no space on the stack.
    fn drop(&mut self) {
        let mut first = self.first.take();
        while let Some(node) = first.as_mut().and_then(Rc::get_mut) {
            first = node.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_what_they_have_in_common() {
        let mut a = List::default();
        (0..3).for_each(|v| a.push(v));
        let mut b = a.clone();
        a.push(10);
        b.push(20);
        assert_eq!((a.len(), a.iter().copied().collect::<Vec<_>>()), (4, vec![10, 2, 1, 0]));
        assert_eq!(b.iter().copied().collect::<Vec<_>>(), [20, 2, 1, 0]);
        assert!(a.iter().skip(1).zip(b.iter().skip(1)).all(|(a, b)| std::ptr::eq(a, b)));
        drop(a);
        assert_eq!(b.iter().copied().collect::<Vec<_>>(), [20, 2, 1, 0]);
    }

    #[test]
    fn a_long_list_is_dropped() {
        let mut a = List::default();
        (0..1_000_000).for_each(|v| a.push(v));
        let b = a.clone();
        drop(a);
        assert_eq!(b.iter().count(), 1_000_000);
    }
}

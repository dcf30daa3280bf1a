//! Request objects of one core, and how many connections are linked to each.

use slab::Slab;

/// The request objects of a core. Keys are reused: whoever holds one holds a link.
#[derive(Debug)]
pub(crate) struct Requests<R> {
    objects: Slab<(R, usize)>,
}

impl<R> Requests<R> {
    pub(crate) fn new() -> Self {
        Self { objects: Slab::with_capacity(1024) }
    }

    /// Adds an object with one link.
    pub(crate) fn add(&mut self, object: R) -> usize {
        self.objects.insert((object, 1))
    }

    pub(crate) fn link(&mut self, key: usize) {
        self.objects[key].1 += 1;
    }

    /// Takes one link away; the object, if it was the last.
    pub(crate) fn unlink(&mut self, key: usize) -> Option<R> {
        self.objects[key].1 -= 1;
        (self.objects[key].1 == 0).then(|| self.objects.remove(key).0)
    }

    pub(crate) fn get(&mut self, key: usize) -> &mut R {
        &mut self.objects[key].0
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_goes_with_its_last_link() {
        let mut requests = Requests::new();
        let key = requests.add("state");
        requests.link(key);
        assert_eq!(requests.unlink(key), None);
        assert_eq!(requests.len(), 1);
        assert_eq!(requests.unlink(key), Some("state"));
        assert_eq!(requests.len(), 0);
    }
}

//! Request objects of one core, and how many connections are linked to each.

use slab::Slab;

use crate::Error;

/// Names a request object of one core, as long as a connection is linked to it. A name is not used again for another object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId {
    key: u32,
    core: u32,
    generation: u64,
}

#[derive(Debug)]
struct Object<R> {
    request: R,
    generation: u64,
    links: usize,
}

/// The request objects of a core.
#[derive(Debug)]
pub(crate) struct Requests<R> {
    core: u32,
    generation: u64,
    objects: Slab<Object<R>>,
}

impl<R> Requests<R> {
    pub(crate) fn new(core: u32) -> Self {
        Self { core, generation: 0, objects: Slab::with_capacity(1024) }
    }

    /// Adds an object with one link.
    pub(crate) fn add(&mut self, request: R) -> RequestId {
        self.generation += 1;
        let generation = self.generation;
        let key = self.objects.insert(Object { request, generation, links: 1 }) as u32;
        RequestId { key, core: self.core, generation }
    }

    pub(crate) fn link(&mut self, id: RequestId) -> Result<(), Error> {
        self.object(id)?.links += 1;
        Ok(())
    }

    /// Takes one link away; the object, if it was the last.
    pub(crate) fn unlink(&mut self, id: RequestId) -> Option<R> {
        let object = self.object(id).ok()?;
        object.links -= 1;
        (object.links == 0).then(|| self.objects.remove(id.key as usize).request)
    }

    pub(crate) fn get(&mut self, id: RequestId) -> Result<&mut R, Error> {
        Ok(&mut self.object(id)?.request)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    fn object(&mut self, id: RequestId) -> Result<&mut Object<R>, Error> {
        self.objects
            .get_mut(id.key as usize)
            .filter(|o| o.generation == id.generation && id.core == self.core)
            .ok_or(Error::UnknownRequest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_goes_with_its_last_link_and_its_name_with_it() {
        let mut requests = Requests::new(0);
        let id = requests.add("state");
        requests.link(id).expect("it is there");
        assert_eq!(requests.unlink(id), None);
        assert_eq!(requests.len(), 1);
        assert_eq!(requests.unlink(id), Some("state"));
        assert_eq!(requests.len(), 0);
        let next = requests.add("another");
        assert!(
            matches!(requests.get(id), Err(Error::UnknownRequest)),
            "the place is used again, the name is not"
        );
        assert_eq!(requests.get(next).ok(), Some(&mut "another"));
        assert!(Requests::<&str>::new(1).get(next).is_err(), "another core's");
    }
}

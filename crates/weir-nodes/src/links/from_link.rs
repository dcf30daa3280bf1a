use crate::env::links::{Entrance, Links, Part};
use crate::prelude::*;

engine_node! {
    /// Takes packets that other graphs of this engine push into `ToLink` elements of the same name.
    ///
    /// Of all graphs, one may have the `FromLink` of a name.
    FromLink: "0/1", "h/h", Source, Links;
    example "FromLink(uplink) -> Discard;";
    params {
        /// Name of the link.
        pos name: String,
    }
    state Option<usize>;
}

impl Behavior for FromLink {
    fn open(&mut self, env: &mut Env) -> Result<(), String> {
        self.state = Some(env.links.own_id(&self.name));
        Ok(())
    }

    fn reads_link(&self) -> Option<usize> {
        self.state
    }

    fn join_links(&mut self, entrance: Entrance, links: &mut Links) {
        self.state.into_iter().for_each(|link| links.join(link, entrance, Part::Rest));
    }

    fn leave_links(&mut self, links: &mut Links) {
        self.state.into_iter().for_each(|link| links.leave(link));
    }

    fn on_every_worker(&self) -> bool {
        true
    }
}

use super::prelude::*;

engine_node! {
    /// Takes packets that other graphs of this engine push into `ToLink` elements of the same name.
    ///
    /// Of all graphs, one may have the `FromLink` of a name.
    FromLink: "0/1", "h/h", Source;
    example "FromLink(uplink) -> Discard;";
    params {
        /// Name of the link.
        pos name: String,
    }
}

impl Behavior for FromLink {
    fn reads_link(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn on_every_worker(&self) -> bool {
        true
    }
}

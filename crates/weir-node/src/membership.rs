//! The node's membership in a domain: whether it has a controller, and who owns its graphs.

use std::sync::{PoisonError, RwLock};

use weir_api::members::ControllerLink;

/// Whether a node has a controller.
#[derive(Debug, Default)]
pub struct Membership(RwLock<Option<Controller>>);

#[derive(Debug, Clone)]
struct Controller {
    owner: String,
    link: ControllerLink,
}

impl Membership {
    /// The node has this controller, which is known as the owner of graphs by `owner`.
    pub fn set(&self, owner: String, link: ControllerLink) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Controller { owner, link });
    }

    /// The controller, and the connection to it.
    pub fn link(&self) -> Option<ControllerLink> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|c| c.link.clone())
    }

    /// As whom the controller owns graphs.
    pub fn owner(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|c| c.owner.clone())
    }

    /// Whether somebody may change or remove a graph. `by` and `of` are owners; without one a graph is the node's own.
    ///
    /// # Errors
    /// Who may.
    pub(crate) fn may_change(&self, id: &str, of: Option<&str>, by: Option<&str>) -> Result<(), String> {
        let controller = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match (of, by) {
            (None, Some(_)) => Err(format!(
                "graph '{id}' is the node's own: it was applied at the node, and is changed there"
            )),
            // A controller that the node has left owns nothing any more.
            (Some(of), None) if controller.as_ref().is_some_and(|c| c.owner == of) => {
                let url = controller.as_ref().map_or("", |c| &*c.link.url);
                Err(format!("graph '{id}' is the controller's; change it at {url}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_changed_by_who_owns_it() {
        let membership = Membership::default();
        assert!(membership.may_change("g", None, None).is_ok());
        assert!(membership.may_change("g", Some("a"), None).is_ok(), "the node has left");
        let link = ControllerLink {
            url: "https://c:7443".into(),
            node: "n".into(),
            connected: false,
            since: 0,
            trouble: None,
        };
        membership.set("a".into(), link);
        assert!(membership.may_change("g", None, None).is_ok());
        assert!(membership.may_change("g", Some("a"), Some("a")).is_ok());
        assert!(membership.may_change("g", Some("b"), None).is_ok(), "an earlier controller's");
        let e = membership.may_change("g", Some("a"), None).unwrap_err();
        assert!(e.contains("https://c:7443"), "{e}");
        assert!(membership.may_change("g", None, Some("a")).unwrap_err().contains("node's own"));
    }
}

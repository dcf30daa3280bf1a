//! The node's membership in a domain: whether it has a controller, and who owns its graphs.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use weir_api::mark::{HEADER, Mark};
use weir_api::members::ControllerLink;
use weir_api::problem::Problem;
use weir_rest::listen::Peer;
use weir_store::StoreError;

use crate::engine::Engine;
use crate::node::Node;

/// Whether a node has a controller.
#[derive(Debug, Default)]
pub struct Membership {
    controller: RwLock<Option<Controller>>,
    /// How far the controller had got when it asked for something last.
    mark: Mutex<Option<Mark>>,
}

#[derive(Debug, Clone)]
struct Controller {
    owner: String,
    link: ControllerLink,
}

impl Membership {
    /// The node has this controller, which is known as the owner of graphs by `owner`.
    pub fn set(&self, owner: String, link: ControllerLink) {
        *self.controller.write().unwrap_or_else(PoisonError::into_inner) = Some(Controller { owner, link });
    }

    /// The controller, and the connection to it.
    pub fn link(&self) -> Option<ControllerLink> {
        let controller = self.controller.read().unwrap_or_else(PoisonError::into_inner);
        let mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner).clone();
        controller.as_ref().map(|c| ControllerLink { mark, ..c.link.clone() })
    }

    /// The controller had got so far.
    pub fn set_mark(&self, mark: Option<Mark>) {
        *self.mark.lock().unwrap_or_else(PoisonError::into_inner) = mark;
    }

    /// A request of the controller has this mark: it is kept before anything is done, or refused.
    fn take(&self, next: Mark, keep: impl FnOnce(&Mark) -> Result<(), StoreError>) -> Result<(), Problem> {
        let mut mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        match &*mark {
            Some(now) if now.run == next.run && next.generation <= now.generation => return Ok(()),
            Some(now) if !now.admits(&next) => {
                let text = format!(
                    "the node has taken changes of its controller up to {} (run {}), and this is {} (run {}): the controller's store is an older one, or there are two \
                     controllers; nothing was done",
                    now.generation, now.run, next.generation, next.run
                );
                return Err(Problem::new(StatusCode::PRECONDITION_FAILED, text));
            }
            _ => {}
        }
        keep(&next)?;
        *mark = Some(next);
        Ok(())
    }

    /// As whom the controller owns graphs.
    pub fn owner(&self) -> Option<String> {
        self.controller.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|c| c.owner.clone())
    }

    /// Whether somebody may change or remove a graph. `by` and `of` are owners; without one a graph is the node's own.
    ///
    /// # Errors
    /// Who may.
    pub(crate) fn may_change(&self, id: &str, of: Option<&str>, by: Option<&str>) -> Result<(), String> {
        let controller = self.controller.read().unwrap_or_else(PoisonError::into_inner);
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

/// A layer for [`axum::middleware::from_fn_with_state`]: requests of a controller that is older than what the node runs change nothing.
pub(crate) async fn mark(State(node): State<Arc<Node<Engine>>>, request: Request, next: Next) -> Response {
    let of_controller = request.extensions().get::<Peer>().is_some_and(|p| p.controller);
    let text =
        request.headers().get(HEADER).filter(|_| of_controller).map(|h| h.to_str().unwrap_or_default());
    let Some(text) = text else { return next.run(request).await };
    let mark: Mark = match text.parse() {
        Ok(mark) => mark,
        Err(what) => return Problem::new(StatusCode::BAD_REQUEST, what).into_response(),
    };
    let safe = request.method().is_safe();
    let taken = tokio::task::spawn_blocking(move || {
        let owner = node.membership.owner().unwrap_or_default();
        node.membership.take(mark, |mark| node.store.set_mark(&owner, mark))
    });
    match taken.await.unwrap_or_else(|_| Err(Problem::internal())) {
        // Who only reads may be told all.
        Err(problem) if !safe => problem.into_response(),
        _ => next.run(request).await,
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
            mark: None,
        };
        membership.set("a".into(), link);
        assert!(membership.may_change("g", None, None).is_ok());
        assert!(membership.may_change("g", Some("a"), Some("a")).is_ok());
        assert!(membership.may_change("g", Some("b"), None).is_ok(), "an earlier controller's");
        let e = membership.may_change("g", Some("a"), None).unwrap_err();
        assert!(e.contains("https://c:7443"), "{e}");
        assert!(membership.may_change("g", None, Some("a")).unwrap_err().contains("node's own"));
    }
    #[test]
    fn an_older_controller_changes_nothing_and_a_mark_that_cannot_be_kept_is_not_taken() {
        let (membership, kept) = (Membership::default(), RwLock::new(Vec::new()));
        let take = |text: &str| {
            let keep = |mark: &Mark| {
                kept.write().unwrap().push(mark.to_string());
                Ok(())
            };
            membership.take(text.parse().unwrap(), keep).map_err(|p| p.detail)
        };
        take("5 a").unwrap();
        take("5 a").unwrap();
        take("7 b").unwrap();
        // Asked for earlier, and arrived later.
        take("6 b").unwrap();
        let e = take("6 a").unwrap_err();
        assert!(e.contains("up to 7 (run b), and this is 6 (run a)"), "{e}");
        take("7 c").unwrap_err();
        assert_eq!(*kept.read().unwrap(), ["5 a", "7 b"]);
        let full = |_: &Mark| Err(StoreError::Full { path: "node.db".into() });
        assert_eq!(membership.take("8 b".parse().unwrap(), full).unwrap_err().status, 507);
        take("7 b").unwrap();
    }
}

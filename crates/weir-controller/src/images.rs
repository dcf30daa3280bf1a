//! Images that were added to the domain: all of its nodes have them, and those that come get them. An image that is removed
//! goes at each node as soon as that is connected.

use axum::http::{Method, StatusCode};
use weir_api::images::ImageDetails;
use weir_api::problem::Problem;

use crate::controller::Controller;
use crate::fleet::{FleetError, segment};

impl Controller {
    /// Gives a node that has come the images of the domain. Whether that is done: while images change it is left for the next time,
    /// since graphs need not wait for it.
    pub(crate) async fn settle_images(&self, node: &str) -> bool {
        let Ok(_imaging) = self.imaging.try_read() else { return false };
        for (name, manifest) in &self.view().images {
            if let Err(e) = self.image_at(node, name, manifest).await {
                tracing::warn!(node, "it does not have the image '{name}': {e}");
            }
        }
        true
    }

    /// Removes at a node what was removed from the domain and may be there still.
    pub(crate) async fn remove_images_left(&self, node: &str) -> Result<(), Problem> {
        // While images change it waits until the next time: graphs need not wait for it.
        let Ok(_imaging) = self.imaging.try_read() else { return Ok(()) };
        let of = node.to_owned();
        for name in self.blocking(move |s| s.images_left(&of)).await? {
            self.image_leaves(node, &name).await?;
        }
        Ok(())
    }

    async fn image_leaves(&self, node: &str, name: &str) -> Result<(), Problem> {
        self.remove_image_at(node, name).await?;
        let (of, name) = (node.to_owned(), name.to_owned());
        self.blocking(move |s| s.image_went(&of, &name)).await?;
        // Graphs are not placed there by it any more.
        Ok(self.ask_domain(node).await?)
    }

    async fn image_at(&self, node: &str, name: &str, manifest: &str) -> Result<ImageDetails, FleetError> {
        let path = format!("/images/{}", segment(name));
        let details = self.fleet.call(node, Method::PUT, &path, Some(manifest)).await?;
        // Graphs may be placed there by it from now on.
        self.ask_domain(node).await?;
        Ok(details)
    }

    async fn remove_image_at(&self, node: &str, name: &str) -> Result<(), FleetError> {
        let path = format!("/images/{}", segment(name));
        match self.fleet.bytes(node, Method::DELETE, &path, None).await {
            Err(FleetError::Problem(p)) if p.status == 404 => Ok(()),
            other => other.map(drop),
        }
    }

    /// Adds an image to all nodes, or changes one. If a node refuses it, all have what they had.
    ///
    /// # Errors
    /// No node is connected, or one refuses it, or the store cannot be written.
    pub async fn put_image(&self, name: &str, manifest: String) -> Result<ImageDetails, Problem> {
        let _imaging = self.imaging.write().await;
        let before = self.view().images.get(name).cloned();
        let (mut details, mut done) = (None, Vec::<String>::new());
        for node in self.fleet.names() {
            match self.image_at(&node, name, &manifest).await {
                Ok(d) => details = Some(d),
                Err(FleetError::Problem(p)) => {
                    if before.is_none() {
                        // Nodes that leave just now lose it when they are back.
                        let key = name.to_owned();
                        self.blocking(move |s| s.keep_image(&key, None)).await?;
                    }
                    for node in &done {
                        let back = match &before {
                            Some(before) => {
                                self.image_at(node, name, before).await.map(drop).map_err(Problem::from)
                            }
                            None => self.image_leaves(node, name).await,
                        };
                        if let Err(e) = back {
                            tracing::warn!(node, "the image '{name}' was not taken back: {e}");
                        }
                    }
                    return Err(*p);
                }
                // It gets it when it is back.
                Err(e) => tracing::debug!(node, "the image '{name}': {e}"),
            }
            done.push(node);
        }
        let none = || Problem::new(StatusCode::CONFLICT, "no node is connected that could try the image");
        let details = details.ok_or_else(none)?;
        let (key, kept) = (name.to_owned(), manifest.clone());
        self.blocking(move |s| s.keep_image(&key, Some(&kept))).await?;
        self.edit(|v| _ = v.images.insert(name.to_owned(), manifest));
        Ok(details)
    }

    /// Removes an image of the domain.
    ///
    /// # Errors
    /// There is none that was added, or the store cannot be written.
    pub async fn remove_image(&self, name: &str) -> Result<(), Problem> {
        let _imaging = self.imaging.write().await;
        if !self.view().images.contains_key(name) {
            let text = format!("there is no image '{name}' that was added over REST");
            return Err(Problem::new(StatusCode::NOT_FOUND, text));
        }
        let key = name.to_owned();
        self.blocking(move |s| s.keep_image(&key, None)).await?;
        self.edit(|v| _ = v.images.remove(name));
        for node in self.fleet.names() {
            if let Err(e) = self.image_leaves(&node, name).await {
                tracing::warn!(node, "it still has the image '{name}': {e}");
            }
        }
        Ok(())
    }
}

//! Queries and images that were added to the domain.

use std::collections::BTreeMap;

use rusqlite::params;
use weir_api::queries::Query;
use weir_store::{Result, StoreError};

use super::Store;

impl Store {
    /// The manifests of images that were added, by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn images(&self) -> Result<BTreeMap<String, String>> {
        self.db.with(|db| {
            let mut query = db.prepare("SELECT name, manifest FROM images")?;
            query.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
        })
    }

    /// Keeps an image's manifest, or forgets it: then all nodes may have it still, those too that are away now.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_image(&self, name: &str, manifest: Option<&str>) -> Result<()> {
        self.db.with(|db| {
            let tx = db.savepoint()?;
            match manifest {
                Some(text) => {
                    tx.execute("INSERT OR REPLACE INTO images VALUES (?1, ?2)", params![name, text])?;
                    tx.execute("DELETE FROM images_left WHERE name = ?1", [name])?;
                }
                None => {
                    tx.execute("DELETE FROM images WHERE name = ?1", [name])?;
                    tx.execute("INSERT OR IGNORE INTO images_left SELECT name, ?1 FROM nodes", [name])?;
                }
            }
            tx.commit()
        })
    }

    /// Images that were removed from the domain, and that a node may have still.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn images_left(&self, node: &str) -> Result<Vec<String>> {
        self.db.with(|db| {
            let mut query = db.prepare("SELECT name FROM images_left WHERE node = ?1 ORDER BY name")?;
            query.query_map([node], |r| r.get(0))?.collect()
        })
    }

    /// A node has an image no more.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn image_went(&self, node: &str, name: &str) -> Result<()> {
        let delete = "DELETE FROM images_left WHERE node = ?1 AND name = ?2";
        self.db.with(|db| db.execute(delete, [node, name]).map(drop))
    }

    /// The queries by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn queries(&self) -> Result<BTreeMap<String, Query>> {
        let rows: Vec<(String, String)> = self.db.with(|db| {
            let mut query = db.prepare("SELECT name, query FROM queries")?;
            query.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
        })?;
        let read = |(name, text): (String, String)| match serde_json::from_str(&text) {
            Ok(query) => Ok((name, query)),
            Err(e) => {
                let path = self.db.path().to_owned();
                Err(StoreError::Corrupt { path, what: format!("query {name}: {e}") })
            }
        };
        rows.into_iter().map(read).collect()
    }

    /// Keeps a query, or forgets it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_query(&self, name: &str, query: Option<&Query>) -> Result<()> {
        let text = query.and_then(|q| serde_json::to_string(q).ok());
        self.db.with(|db| match &text {
            Some(text) => {
                db.execute("INSERT OR REPLACE INTO queries VALUES (?1, ?2)", params![name, text]).map(drop)
            }
            None => db.execute("DELETE FROM queries WHERE name = ?1", [name]).map(drop),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_auth::secret::{JoinTerms, Secret, Use};

    use super::*;
    use crate::store::Member;

    fn store(dir: &Path) -> Store {
        Store::open(&dir.join("controller.db")).unwrap()
    }

    #[test]
    fn a_removed_image_is_left_at_each_node_until_it_went_there() {
        let dir = tempfile::tempdir().unwrap();
        let s = store(dir.path());
        let secret = Secret::generate(Use::Join).unwrap();
        s.keep_token(&JoinTerms { hash: secret.hash(), expires: 100, uses: 2 }, 0).unwrap();
        let member = Member { number: "1".into(), joined: 5, certificate: 9, cordoned: false };
        for name in ["n1", "n2"] {
            s.join(&secret, 1, name, &member).unwrap();
        }
        for name in ["x", "y"] {
            s.keep_image(name, Some("name: x")).unwrap();
            s.keep_image(name, None).unwrap();
        }
        s.image_went("n1", "x").unwrap();
        // A controller that starts again knows it.
        drop(s);
        let s = store(dir.path());
        assert!(s.images().unwrap().is_empty());
        assert_eq!(s.images_left("n1").unwrap(), ["y"]);
        assert_eq!(s.images_left("n2").unwrap(), ["x", "y"]);
        // An image that is added again stays, and a node that was removed is left as it is.
        s.keep_image("x", Some("name: x")).unwrap();
        assert_eq!(s.images_left("n2").unwrap(), ["y"]);
        s.remove_node("n2").unwrap();
        assert!(s.images_left("n2").unwrap().is_empty());
        assert_eq!(s.images_left("n1").unwrap(), ["y"]);
    }
}

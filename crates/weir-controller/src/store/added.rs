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

    /// Keeps an image's manifest, or forgets it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_image(&self, name: &str, manifest: Option<&str>) -> Result<()> {
        self.db.with(|db| match manifest {
            Some(text) => {
                db.execute("INSERT OR REPLACE INTO images VALUES (?1, ?2)", params![name, text]).map(drop)
            }
            None => db.execute("DELETE FROM images WHERE name = ?1", [name]).map(drop),
        })
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

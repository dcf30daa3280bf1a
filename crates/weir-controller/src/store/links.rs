//! What the operator says of links.

use std::collections::BTreeMap;

use rusqlite::params;
use weir_api::members::LinkSettings;
use weir_store::{Result, StoreError};

use super::Store;
use crate::links::Declared;

impl Store {
    /// What was said of links.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn links(&self) -> Result<Declared> {
        let rows: Vec<(String, String, String)> = self.db.with(|db| {
            let mut query = db.prepare("SELECT a, b, settings FROM links")?;
            query.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?.collect()
        })?;
        let read = |(a, b, text): (String, String, String)| match serde_json::from_str(&text) {
            Ok(settings) => Ok(((a, b), settings)),
            Err(e) => {
                let path = self.db.path().to_owned();
                Err(StoreError::Corrupt { path, what: format!("link {a} {b}: {e}") })
            }
        };
        rows.into_iter().map(read).collect::<Result<BTreeMap<_, _>>>()
    }

    /// Keeps what was said of a link, or forgets it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_link(&self, (a, b): (&str, &str), settings: Option<&LinkSettings>) -> Result<()> {
        let text = settings.and_then(|s| serde_json::to_string(s).ok());
        self.db.with(|db| match &text {
            Some(text) => {
                db.execute("INSERT OR REPLACE INTO links VALUES (?1, ?2, ?3)", params![a, b, text]).map(drop)
            }
            None => db.execute("DELETE FROM links WHERE a = ?1 AND b = ?2", params![a, b]).map(drop),
        })
    }
}

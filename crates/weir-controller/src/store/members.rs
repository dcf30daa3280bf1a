//! The nodes that have joined, and the tokens by which more may.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, params};
use weir_auth::secret::{JoinError, JoinTerms, Secret, SecretHash};
use weir_store::{Result, StoreError};

use super::Store;

/// A node that has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// In its certificates: a node of the same name that joined before, or later, has another one.
    pub number: String,
    /// When, in milliseconds since the epoch.
    pub joined: u64,
    /// Until when its certificate is good, in seconds since the epoch.
    pub certificate: u64,
    /// Whether it gets no new graphs.
    pub cordoned: bool,
}

/// A token that was not taken, or a failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It is not good.
    #[error(transparent)]
    Refused(#[from] JoinError),
    /// There is a node of this name.
    #[error("there is a node of this name")]
    Taken,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Store {
    /// The nodes by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn nodes(&self) -> Result<BTreeMap<String, Member>> {
        self.db.with(|db| {
            let mut q = db.prepare("SELECT name, joined, certificate, cordoned, number FROM nodes")?;
            let member = |r: &rusqlite::Row<'_>| {
                let member = Member {
                    number: r.get(4)?,
                    joined: r.get(1)?,
                    certificate: r.get(2)?,
                    cordoned: r.get(3)?,
                };
                Ok((r.get(0)?, member))
            };
            q.query_map([], member)?.collect()
        })
    }

    /// Keeps what has changed of a node, if it is there. Whether it is.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_node(&self, name: &str, member: &Member) -> Result<bool> {
        let Member { number, certificate, cordoned, .. } = member;
        let update = "UPDATE nodes SET certificate = ?3, cordoned = ?4 WHERE name = ?1 AND number = ?2";
        let row = params![name, number, certificate, cordoned];
        self.db.with(|db| db.execute(update, row).map(|rows| rows > 0))
    }

    /// Forgets a node.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remove_node(&self, name: &str) -> Result<()> {
        self.db.with(|db| {
            let tx = db.savepoint()?;
            tx.execute("DELETE FROM nodes WHERE name = ?1", [name])?;
            tx.execute("DELETE FROM images_left WHERE node = ?1", [name])?;
            tx.commit()
        })
    }

    /// Keeps a token by which nodes join. Those that are not good any more go.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_token(&self, terms: &JoinTerms, now: u64) -> Result<()> {
        self.db.with(|db| {
            let tx = db.savepoint()?;
            tx.execute("DELETE FROM tokens WHERE expires < ?1 OR uses = 0", [now])?;
            let row = params![&terms.hash.bytes()[..], terms.expires, terms.uses];
            tx.execute("INSERT INTO tokens VALUES (?1, ?2, ?3)", row)?;
            tx.commit()
        })
    }

    /// A node joins by a token: it is kept, and the token used once, or nothing is done.
    ///
    /// # Errors
    /// The token is not good, or the store cannot be written.
    pub fn join(
        &self,
        secret: &Secret,
        now: u64,
        name: &str,
        member: &Member,
    ) -> std::result::Result<(), TokenError> {
        let Member { number, joined, certificate, cordoned } = member;
        let used = self.db.with(|db| {
            let tx = db.savepoint()?;
            let hash = secret.hash();
            let find = "SELECT expires, uses FROM tokens WHERE hash = ?1";
            let found = tx.query_row(find, [&hash.bytes()[..]], |r| Ok((r.get(0)?, r.get(1)?))).optional()?;
            let Some((expires, uses)) = found else { return Ok(Err(JoinError::Unknown)) };
            let mut terms = JoinTerms { hash: SecretHash::from_bytes(*hash.bytes()), expires, uses };
            if let Err(e) = terms.use_once(secret, now) {
                return Ok(Err(e));
            }
            let row = params![&hash.bytes()[..], terms.uses];
            tx.execute("UPDATE tokens SET uses = ?2 WHERE hash = ?1", row)?;
            let row = params![name, number, joined, certificate, cordoned];
            let new = "INSERT OR IGNORE INTO nodes (name, number, joined, certificate, cordoned) VALUES (?1, ?2, ?3, ?4, ?5)";
            if tx.execute(new, row)? == 0 {
                return Ok(Ok(false));
            }
            tx.commit()?;
            Ok(Ok(true))
        })?;
        if used? { Ok(()) } else { Err(TokenError::Taken) }
    }
}

#[cfg(test)]
mod tests {
    use weir_auth::secret::Use;

    use super::*;

    #[test]
    fn a_token_lets_as_many_nodes_join_as_it_is_for() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("controller.db")).unwrap();
        let secret = Secret::generate(Use::Join).unwrap();
        let terms = JoinTerms { hash: secret.hash(), expires: 100, uses: 2 };
        store.keep_token(&terms, 0).unwrap();
        let member = Member { number: "1".into(), joined: 5, certificate: 9, cordoned: false };
        let join = |name: &str, now| store.join(&secret, now, name, &member);
        assert!(matches!(join("n0", 101), Err(TokenError::Refused(_))), "it is over");
        join("n1", 1).unwrap();
        // The same name again: the token is not used up by it.
        assert!(matches!(join("n1", 1), Err(TokenError::Taken)));
        join("n2", 1).unwrap();
        assert!(matches!(join("n3", 1), Err(TokenError::Refused(_))));
        let other = Secret::generate(Use::Join).unwrap();
        assert!(matches!(store.join(&other, 1, "n3", &member), Err(TokenError::Refused(JoinError::Unknown))));
        assert_eq!(store.nodes().unwrap().keys().collect::<Vec<_>>(), ["n1", "n2"]);
        store.remove_node("n1").unwrap();
        assert_eq!(store.nodes().unwrap().get("n2"), Some(&member));
    }
}

//! Who may use the daemon: keys, tenants, secrets (of which only hashes are kept), and a bounded audit log.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Row, params};
use weir_api::access::{Key, NewKey, TenantSettings};
use weir_auth::audit::Record;
use weir_auth::secret::{JoinError, JoinTerms, Secret, SecretHash};

use crate::{Database, Result, StoreError};

/// Records that are kept.
pub const MAX_RECORDS: u64 = 100_000;

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS keys (
    name TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    added INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS tenants (name TEXT PRIMARY KEY, settings TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS admin (one INTEGER PRIMARY KEY CHECK (one = 1), hash BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS metrics (one INTEGER PRIMARY KEY CHECK (one = 1), hash BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS join_tokens (hash BLOB PRIMARY KEY, expires INTEGER NOT NULL, uses INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS audit (id INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL) STRICT;
";

/// A conflict of a key or a tenant with what is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Taken {
    /// The name.
    #[error("there is a key '{0}' already; choose another name, or remove it first")]
    Name(String),
    /// The key.
    #[error("the key is known already, as '{0}'; remove that first")]
    Key(String),
    /// A tenant has keys.
    #[error("tenant '{tenant}' has keys: {}; remove them first", .keys.join(", "))]
    HasKeys {
        /// The tenant.
        tenant: String,
        /// Its keys.
        keys: Vec<String>,
    },
}

impl Database {
    /// The keys, by name.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn keys(&self) -> Result<Vec<Key>> {
        let rows: Vec<(String, String, String, u64)> = self.with(|db| {
            let mut q = db.prepare("SELECT name, fingerprint, key, added FROM keys ORDER BY name")?;
            q.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?.collect()
        })?;
        let key = |(name, fingerprint, key, added): (String, String, String, u64)| {
            let key: NewKey = self.read(&format!("key {name}"), &key)?;
            Ok(Key::new(name, fingerprint, added, key))
        };
        rows.into_iter().map(key).collect()
    }

    /// Adds a key, unless its name or itself is there.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn add_key(&self, key: &Key) -> Result<std::result::Result<(), Taken>> {
        let Key { public_key, role, tenant, graph, functions, .. } = key.clone();
        let new = NewKey { public_key, role, tenant, graph, functions };
        let text = serde_json::to_string(&new).map_err(|e| self.other(&e))?;
        self.with(|db| {
            let tx = db.savepoint()?;
            let same = "SELECT name FROM keys WHERE name = ?1 OR fingerprint = ?2 ORDER BY name = ?1 DESC";
            let same: Option<String> =
                tx.query_row(same, [&key.name, &key.fingerprint], |r| r.get(0)).optional()?;
            if let Some(name) = same {
                return Ok(Err(if name == key.name { Taken::Name(name) } else { Taken::Key(name) }));
            }
            tx.execute(
                "INSERT INTO keys VALUES (?1, ?2, ?3, ?4)",
                params![key.name, key.fingerprint, text, key.added],
            )?;
            tx.commit()?;
            Ok(Ok(()))
        })
    }

    /// Removes a key; false if there was none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn remove_key(&self, name: &str) -> Result<bool> {
        self.with(|db| Ok(db.execute("DELETE FROM keys WHERE name = ?1", [name])? > 0))
    }

    /// The tenants, by name.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tenants(&self) -> Result<Vec<(String, TenantSettings)>> {
        let rows: Vec<(String, String)> = self.with(|db| {
            let mut q = db.prepare("SELECT name, settings FROM tenants ORDER BY name")?;
            q.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
        })?;
        let tenant = |(name, text): (String, String)| {
            let settings = self.read(&format!("tenant {name}"), &text)?;
            Ok((name, settings))
        };
        rows.into_iter().map(tenant).collect()
    }

    /// Adds a tenant, or changes one; says whether it is new.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn put_tenant(&self, name: &str, settings: &TenantSettings) -> Result<bool> {
        let text = serde_json::to_string(settings).map_err(|e| self.other(&e))?;
        self.with(|db| {
            let tx = db.savepoint()?;
            let changed = tx.execute("UPDATE tenants SET settings = ?2 WHERE name = ?1", [name, &text])?;
            if changed == 0 {
                tx.execute("INSERT INTO tenants VALUES (?1, ?2)", [name, &text])?;
            }
            tx.commit()?;
            Ok(changed == 0)
        })
    }

    /// Removes a tenant, unless it has keys; false if there was none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn remove_tenant(&self, name: &str) -> Result<std::result::Result<bool, Taken>> {
        let keys: BTreeSet<String> = self.keys_of(name)?;
        if !keys.is_empty() {
            return Ok(Err(Taken::HasKeys { tenant: name.to_owned(), keys: keys.into_iter().collect() }));
        }
        self.with(|db| Ok(Ok(db.execute("DELETE FROM tenants WHERE name = ?1", [name])? > 0)))
    }

    fn keys_of(&self, tenant: &str) -> Result<BTreeSet<String>> {
        let own = |k: &Key| k.tenant.as_deref() == Some(tenant);
        Ok(self.keys()?.into_iter().filter(own).map(|k| k.name).collect())
    }

    /// The hash of the admin token, if there is one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn admin(&self) -> Result<Option<SecretHash>> {
        self.with(|db| {
            let hash = db.query_row("SELECT hash FROM admin", [], |r| r.get(0)).optional()?;
            Ok(hash.map(SecretHash::from_bytes))
        })
    }

    /// The admin token is this one, and no other any more; without one there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn set_admin(&self, hash: Option<&SecretHash>) -> Result<()> {
        self.with(|db| match hash {
            Some(hash) => db.execute("INSERT OR REPLACE INTO admin VALUES (1, ?1)", [hash.bytes()]).map(drop),
            None => db.execute("DELETE FROM admin", []).map(drop),
        })
    }

    /// The hash of the token by which metrics are read, if there is one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn metrics_token(&self) -> Result<Option<SecretHash>> {
        self.with(|db| {
            let hash = db.query_row("SELECT hash FROM metrics", [], |r| r.get(0)).optional()?;
            Ok(hash.map(SecretHash::from_bytes))
        })
    }

    /// That token is this one, and no other any more; without one there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn set_metrics_token(&self, hash: Option<&SecretHash>) -> Result<()> {
        self.with(|db| match hash {
            Some(hash) => {
                db.execute("INSERT OR REPLACE INTO metrics VALUES (1, ?1)", [hash.bytes()]).map(drop)
            }
            None => db.execute("DELETE FROM metrics", []).map(drop),
        })
    }

    /// Keeps a join token. Those that are not good any more go.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn add_join_token(&self, terms: &JoinTerms, now: u64) -> Result<()> {
        self.with(|db| {
            let tx = db.savepoint()?;
            // A day later nobody asks any more why it is not good.
            tx.execute("DELETE FROM join_tokens WHERE expires < ?1", [now.saturating_sub(86_400)])?;
            let values = params![terms.hash.bytes(), terms.expires, terms.uses];
            tx.execute("INSERT OR REPLACE INTO join_tokens VALUES (?1, ?2, ?3)", values)?;
            tx.commit()
        })
    }

    /// Uses a join token once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn use_join_token(&self, secret: &Secret, now: u64) -> Result<std::result::Result<(), JoinError>> {
        let hash = secret.hash();
        self.with(|db| {
            let tx = db.savepoint()?;
            // Found by its hash: how long that takes reveals nothing of the secret.
            let found = "SELECT expires, uses FROM join_tokens WHERE hash = ?1";
            let found: Option<(u64, u32)> =
                tx.query_row(found, [hash.bytes()], |r| Ok((r.get(0)?, r.get(1)?))).optional()?;
            let Some((expires, uses)) = found else { return Ok(Err(JoinError::Unknown)) };
            let mut terms = JoinTerms { hash, expires, uses };
            if let Err(e) = terms.use_once(secret, now) {
                return Ok(Err(e));
            }
            tx.execute(
                "UPDATE join_tokens SET uses = ?2 WHERE hash = ?1",
                params![hash.bytes(), terms.uses],
            )?;
            tx.commit()?;
            Ok(Ok(()))
        })
    }

    /// Adds a record to the audit log; the oldest go when there are too many.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn record(&self, record: &Record) -> Result<()> {
        let text = serde_json::to_string(record).map_err(|e| self.other(&e))?;
        self.with(|db| {
            let tx = db.savepoint()?;
            tx.prepare_cached("INSERT INTO audit (record) VALUES (?1)")?.execute([text])?;
            let last = tx.last_insert_rowid() as u64;
            tx.execute("DELETE FROM audit WHERE id <= ?1", [last.saturating_sub(MAX_RECORDS)])?;
            tx.commit()
        })
    }

    /// Records of the audit log after the one with this number, or the newest: oldest first, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn records(&self, after: Option<u64>, limit: u32) -> Result<Vec<Record>> {
        let row = |r: &Row<'_>| Ok((r.get(0)?, r.get(1)?));
        let mut rows: Vec<(u64, String)> = self.with(|db| match after {
            Some(after) => {
                let mut q = db.prepare("SELECT id, record FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2")?;
                let after = i64::try_from(after).unwrap_or(i64::MAX);
                q.query_map(params![after, limit], row)?.collect()
            }
            None => {
                let mut q = db.prepare("SELECT id, record FROM audit ORDER BY id DESC LIMIT ?1")?;
                q.query_map([limit], row)?.collect()
            }
        })?;
        if after.is_none() {
            rows.reverse();
        }
        let record = |(id, text): (u64, String)| {
            let record: Record = self.read(&format!("audit record {id}"), &text)?;
            Ok(Record { id, ..record })
        };
        rows.into_iter().map(record).collect()
    }

    fn read<T: serde::de::DeserializeOwned>(&self, what: &str, text: &str) -> Result<T> {
        serde_json::from_str(text).map_err(|e| StoreError::Corrupt {
            path: self.path().to_owned(),
            what: format!("{what} cannot be read: {e}"),
        })
    }

    fn other(&self, e: &serde_json::Error) -> StoreError {
        StoreError::Other { path: self.path().to_owned(), what: e.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use weir_auth::audit::{Outcome, Who};
    use weir_auth::principal::{Role, TenantKind};
    use weir_auth::quota::Quotas;
    use weir_auth::secret::Use;

    use super::*;
    use crate::Schema;

    const SCHEMA: Schema = Schema { version: 1, tables: "", additions: "", readers: false };

    fn store() -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().unwrap();
        let store = Database::open(&dir.path().join("node.db"), SCHEMA).unwrap();
        (dir, store)
    }

    fn key(name: &str, fingerprint: &str, tenant: Option<&str>) -> Key {
        let role = if tenant.is_some() { Role::Tenant } else { Role::Operator };
        let tenant = tenant.map(str::to_owned);
        let key = NewKey {
            public_key: "ssh-ed25519 x".into(),
            role,
            tenant,
            graph: None,
            functions: BTreeSet::new(),
        };
        Key::new(name.into(), fingerprint.into(), 1, key)
    }

    #[test]
    fn keys_and_tenants_are_kept_and_do_not_take_each_others_place() {
        let (dir, store) = store();
        let settings = TenantSettings {
            kind: TenantKind::ThirdParty,
            quotas: Quotas { graphs: Some(2), ..Quotas::default() },
        };
        assert!(store.put_tenant("acme", &TenantSettings::default()).unwrap());
        assert!(!store.put_tenant("acme", &settings).unwrap());
        store.add_key(&key("bob", "SHA256:b", Some("acme"))).unwrap().unwrap();
        store.add_key(&key("alice", "SHA256:a", None)).unwrap().unwrap();
        assert_eq!(store.add_key(&key("bob", "SHA256:c", None)).unwrap(), Err(Taken::Name("bob".into())));
        assert_eq!(store.add_key(&key("carl", "SHA256:b", None)).unwrap(), Err(Taken::Key("bob".into())));
        let has_keys = Taken::HasKeys { tenant: "acme".into(), keys: vec!["bob".into()] };
        assert_eq!(store.remove_tenant("acme").unwrap(), Err(has_keys));
        drop(store);
        let store = Database::open(&dir.path().join("node.db"), SCHEMA).unwrap();
        assert_eq!(
            store.keys().unwrap(),
            [key("alice", "SHA256:a", None), key("bob", "SHA256:b", Some("acme"))]
        );
        assert_eq!(store.tenants().unwrap(), [("acme".to_owned(), settings)]);
        assert!(store.remove_key("bob").unwrap() && !store.remove_key("bob").unwrap());
        assert_eq!(
            (store.remove_tenant("acme").unwrap(), store.remove_tenant("acme").unwrap()),
            (Ok(true), Ok(false))
        );
    }

    #[test]
    fn of_secrets_only_hashes_are_kept_and_a_join_token_counts_as_often_as_it_may() {
        let (dir, store) = store();
        let admin = Secret::generate(Use::Admin).unwrap();
        assert_eq!(store.admin().unwrap(), None);
        store.set_admin(Some(&admin.hash())).unwrap();
        assert_eq!(store.admin().unwrap(), Some(admin.hash()));
        let join = Secret::generate(Use::Join).unwrap();
        store.add_join_token(&JoinTerms { hash: join.hash(), expires: 1000, uses: 2 }, 900).unwrap();
        assert_eq!(store.use_join_token(&join, 1000).unwrap(), Err(JoinError::Expired(0)));
        assert_eq!(store.use_join_token(&join, 999).unwrap(), Ok(()));
        assert_eq!(store.use_join_token(&join, 999).unwrap(), Ok(()));
        assert_eq!(store.use_join_token(&join, 999).unwrap(), Err(JoinError::Used));
        assert_eq!(store.use_join_token(&admin, 999).unwrap(), Err(JoinError::Unknown));
        drop(store);
        let bytes = std::fs::read(dir.path().join("node.db")).unwrap();
        for secret in [admin, join] {
            let text = secret.reveal().as_bytes();
            assert!(!bytes.windows(text.len()).any(|w| w == text), "a secret is kept");
        }
    }

    #[test]
    fn records_are_numbered_and_the_oldest_go() {
        let (_dir, store) = store();
        let who =
            Who { name: "a".into(), role: Role::Operator, tenant: None, fingerprint: None, address: None };
        let record = Record {
            id: 0,
            time: 5,
            who,
            method: "PUT".into(),
            path: "/v1/graphs/a".into(),
            action: None,
            object: None,
            before: None,
            after: None,
            summary: None,
            outcome: Outcome::Done,
            status: 200,
        };
        store.record(&record).unwrap();
        store
            .with(|db| db.execute("UPDATE sqlite_sequence SET seq = 100000 WHERE name = 'audit'", []))
            .unwrap();
        store.record(&record).unwrap();
        store.record(&record).unwrap();
        let ids = |after, limit| -> Vec<u64> {
            store.records(after, limit).unwrap().iter().map(|r| r.id).collect()
        };
        assert_eq!(ids(None, 10), [100_001, 100_002]);
        assert_eq!(
            (ids(None, 1), ids(Some(100_001), 10), ids(Some(u64::MAX), 10)),
            (vec![100_002], vec![100_002], vec![])
        );
    }
}

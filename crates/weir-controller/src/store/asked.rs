//! Requests of tenants, and the policies of the operator.

use std::collections::BTreeMap;

use rusqlite::params;
use weir_api::policies::PolicySettings;
use weir_store::{Result, StoreError};

use super::Store;
use crate::policy::Policies;
use crate::requests::Kept;
use crate::requests::accounting::Account;

impl Store {
    /// The policies by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn policies(&self) -> Result<Policies> {
        let rows: Vec<(String, String)> = self.db.with(|db| {
            let mut query = db.prepare("SELECT name, policy FROM policies")?;
            query.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
        })?;
        let read = |(name, text): (String, String)| match serde_json::from_str(&text) {
            Ok(policy) => Ok((name, policy)),
            Err(e) => {
                let path = self.db.path().to_owned();
                Err(StoreError::Corrupt { path, what: format!("policy {name}: {e}") })
            }
        };
        rows.into_iter().map(read).collect()
    }

    /// Keeps a policy, or forgets it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_policy(&self, name: &str, policy: Option<&PolicySettings>) -> Result<()> {
        let text = policy.and_then(|p| serde_json::to_string(p).ok());
        self.db.with(|db| match &text {
            Some(text) => {
                let put = "INSERT INTO policies VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET policy = ?2";
                db.execute(put, params![name, text]).map(drop)
            }
            None => db.execute("DELETE FROM policies WHERE name = ?1", [name]).map(drop),
        })
    }

    /// The requests by number.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn requests(&self) -> Result<BTreeMap<u64, Kept>> {
        let rows: Vec<(u64, String)> = self.db.with(|db| {
            let mut query = db.prepare("SELECT number, request FROM requests")?;
            query.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
        })?;
        let read = |(number, text): (u64, String)| match serde_json::from_str(&text) {
            Ok(kept) => Ok((number, kept)),
            Err(e) => {
                let path = self.db.path().to_owned();
                Err(StoreError::Corrupt { path, what: format!("request {number}: {e}") })
            }
        };
        rows.into_iter().map(read).collect()
    }

    /// Keeps a request, and gives its number, which no other has or had.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn new_request(&self, kept: &Kept) -> Result<u64> {
        let path = self.db.path().to_owned();
        let text =
            serde_json::to_string(kept).map_err(|e| StoreError::Other { path, what: e.to_string() })?;
        let insert = "INSERT INTO requests (request) VALUES (?1) RETURNING number";
        self.db.with(|db| db.query_row(insert, [&text], |r| r.get(0)))
    }

    /// Forgets a request. Its modules ended at that time.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remove_request(&self, number: u64, now: u64) -> Result<()> {
        self.db.with(|db| {
            let all = db.savepoint()?;
            let end = "UPDATE accounts SET ended = ?2 WHERE request = ?1 AND ended IS NULL";
            all.execute(end, params![number, now])?;
            all.execute("DELETE FROM requests WHERE number = ?1", [number])?;
            all.commit()
        })
    }

    /// The names that may be at the DNS server.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        self.db.with(|db| {
            let mut query = db.prepare("SELECT name FROM names")?;
            query.query_map([], |r| r.get(0))?.collect()
        })
    }

    /// Keeps a name that may be at the DNS server, or forgets it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_name(&self, name: &str, is: bool) -> Result<()> {
        let change = match is {
            true => "INSERT OR IGNORE INTO names VALUES (?1)",
            false => "DELETE FROM names WHERE name = ?1",
        };
        self.db.with(|db| db.execute(change, [name]).map(drop))
    }

    /// The accounts of modules that run.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn accounts_that_run(&self) -> Result<Vec<Account>> {
        let query = "SELECT ended, account FROM accounts WHERE ended IS NULL ORDER BY request, module";
        Ok(self.read_accounts(query, &[])?.into_iter().map(|(_, account)| account).collect())
    }

    /// Accounts with when their modules ended: of those that run, or ended at a time or later.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn accounts_since(&self, since: u64) -> Result<Vec<(Option<u64>, Account)>> {
        let query =
            "SELECT ended, account FROM accounts WHERE ended IS NULL OR ended >= ?1 ORDER BY request, module";
        self.read_accounts(query, &[since])
    }

    fn read_accounts(&self, query: &str, given: &[u64]) -> Result<Vec<(Option<u64>, Account)>> {
        let rows: Vec<(Option<u64>, String)> = self.db.with(|db| {
            let mut query = db.prepare(query)?;
            query.query_map(rusqlite::params_from_iter(given), |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
        })?;
        let read = |(ended, text): (Option<u64>, String)| match serde_json::from_str(&text) {
            Ok(account) => Ok((ended, account)),
            Err(e) => {
                let path = self.db.path().to_owned();
                Err(StoreError::Corrupt { path, what: format!("an account: {e}") })
            }
        };
        rows.into_iter().map(read).collect()
    }

    /// Keeps accounts of modules that run, all of them or none, and forgets those of modules that ended before a time.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_accounts(&self, accounts: &[Account], before: u64) -> Result<()> {
        let path = self.db.path().to_owned();
        let texts: serde_json::Result<Vec<String>> = accounts.iter().map(serde_json::to_string).collect();
        let texts = texts.map_err(|e| StoreError::Other { path, what: e.to_string() })?;
        self.db.with(|db| {
            let all = db.savepoint()?;
            // What ended meanwhile stays as it was.
            let put = "INSERT INTO accounts (request, module, account) VALUES (?1, ?2, ?3)
                ON CONFLICT (request, module) DO UPDATE SET account = ?3 WHERE ended IS NULL";
            for (account, text) in accounts.iter().zip(&texts) {
                all.execute(put, params![account.number, account.record.module, text])?;
            }
            all.execute("DELETE FROM accounts WHERE ended < ?1", [before])?;
            all.commit()
        })
    }
}

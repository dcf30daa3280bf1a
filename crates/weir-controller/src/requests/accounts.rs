//! The accounts of modules, kept.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Method;
use weir_api::usage::UsageList;

use super::accounting::{Account, begin};
use super::id;
use crate::controller::{Controller, now};
use crate::store::Store;

/// How long accounts of modules that ended are kept, in seconds: 400 days.
const KEPT: u64 = 400 * 86_400;

impl Controller {
    /// Brings accounts up to date, of one request or of all: what a node does not say now is added when it says it again.
    pub(crate) async fn account(&self, only: Option<u64>) {
        let _accounting = self.asking.accounting.lock().await;
        let view = self.view();
        let wanted = view.requests.iter().filter(|(n, _)| only.is_none_or(|only| only == **n));
        let wanted: BTreeMap<u64, _> = wanted.map(|(n, kept)| (*n, kept)).collect();
        if wanted.is_empty() {
            return;
        }
        let known = match self.blocking(Store::accounts_that_run).await {
            Ok(known) => known,
            Err(e) => return tracing::warn!("accounts of modules cannot be read: {e}"),
        };
        let has: BTreeSet<u64> = known.iter().map(|a| a.number).collect();
        let mut accounts: Vec<Account> =
            known.into_iter().filter(|a| wanted.contains_key(&a.number)).collect();
        let new = wanted.iter().filter(|(n, _)| !has.contains(n));
        accounts.extend(new.flat_map(|(n, kept)| begin(*n, kept, now())));
        let nodes: BTreeSet<&str> = wanted.values().map(|kept| kept.answer.node.as_str()).collect();
        for node in nodes {
            // A node that is gone, or whose data plane is, says nothing.
            let Ok(list) = self.fleet.call::<UsageList>(node, Method::GET, "/usage", None).await else {
                continue;
            };
            let at = now();
            for account in accounts.iter_mut().filter(|a| a.record.node == node) {
                let of_request = id(account.number);
                if let Some(usage) = list.graphs.iter().find(|g| g.graph == of_request) {
                    account.add(usage, at);
                }
            }
        }
        if let Err(e) = self.blocking(move |s| s.keep_accounts(&accounts, now().saturating_sub(KEPT))).await {
            tracing::warn!("accounts of modules cannot be kept: {e}");
        }
    }
}

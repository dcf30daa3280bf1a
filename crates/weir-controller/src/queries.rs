//! Queries of the domain: they stand at the nodes that have what they ask about, and are kept here, so that nodes that come have them too.

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode};
use weir_api::problem::Problem;
use weir_api::queries::{MAX_QUERIES, Measured, Query, QueryList, Question, StandingQuery};

use crate::controller::Controller;
use crate::fleet::{FleetError, segment};
use crate::view::View;

/// Whether a node has something that is asked about.
fn is_for(view: &View, node: &str, ask: &Question) -> bool {
    let Some(graph) = &ask.graph else { return true };
    let Some(stored) = view.graphs.get(graph) else { return false };
    let function = ask.function.as_deref().and_then(|f| {
        // One within a function that is made of functions is where that is.
        stored.graph.functions.get(f).or_else(|| stored.graph.functions.get(f.split('.').next()?))
    });
    match function {
        Some(at) => at == node,
        None => stored.graph.parts.contains_key(node),
    }
}

/// What a node has of the domain's queries, and what it is to have: those to set, and those to delete.
fn changes(
    wanted: &BTreeMap<String, Query>,
    held: &[StandingQuery],
    is_for: impl Fn(&Question) -> bool,
) -> (Vec<(String, Query)>, Vec<String>) {
    let has =
        |name: &str, query: &Query| held.iter().any(|h| h.name == name && h.query == *query && h.of_domain);
    let put = wanted.iter().filter(|(name, q)| is_for(&q.ask) && !has(name, q));
    let gone = |h: &&StandingQuery| h.of_domain && !wanted.get(&h.name).is_some_and(|q| is_for(&q.ask));
    (
        put.map(|(name, q)| (name.clone(), q.clone())).collect(),
        held.iter().filter(gone).map(|h| h.name.clone()).collect(),
    )
}

impl Controller {
    /// Makes a connected node have the queries that it is to have.
    pub(crate) async fn settle_queries(&self, node: &str) -> Result<(), FleetError> {
        let held: QueryList = self.fleet.call(node, Method::GET, "/queries", None).await?;
        let view = self.view();
        let (put, gone) = changes(&view.queries, &held.queries, |ask| is_for(&view, node, ask));
        for (name, query) in put {
            match self.put_at(node, &name, &query).await {
                // It asks about what is not there, or not any more.
                Err(FleetError::Problem(p)) => tracing::debug!(node, "query '{name}': {p}"),
                other => other?,
            }
        }
        for name in gone {
            self.delete_at(node, &name).await?;
        }
        Ok(())
    }

    async fn put_at(&self, node: &str, name: &str, query: &Query) -> Result<(), FleetError> {
        let body = serde_json::to_string(query).unwrap_or_default();
        let path = format!("/queries/{}", segment(name));
        self.fleet.bytes(node, Method::PUT, &path, Some(&body)).await.map(drop)
    }

    async fn delete_at(&self, node: &str, name: &str) -> Result<(), FleetError> {
        let path = format!("/queries/{}", segment(name));
        match self.fleet.bytes(node, Method::DELETE, &path, None).await {
            Err(FleetError::Problem(p)) if p.status == 404 => Ok(()),
            other => other.map(drop),
        }
    }

    /// The nodes that are connected and have something that is asked about.
    fn asked(&self, ask: &Question) -> Vec<String> {
        let view = self.view();
        self.fleet.names().into_iter().filter(|node| is_for(&view, node, ask)).collect()
    }

    /// Sets a query of the domain. If a node refuses it, it is not set.
    ///
    /// # Errors
    /// There are too many, a node refuses it, or the store cannot be written.
    pub async fn put_query(&self, name: &str, query: Query) -> Result<(), Problem> {
        let before = {
            let view = self.view();
            if view.queries.len() >= MAX_QUERIES && !view.queries.contains_key(name) {
                let text = format!("{MAX_QUERIES} queries stand here already, and no more can: delete some");
                return Err(Problem::new(StatusCode::CONFLICT, text));
            }
            view.queries.get(name).cloned()
        };
        // Wanted first: what a node has and is not wanted there is taken away.
        self.want_query(name, Some(query.clone())).await?;
        for node in self.asked(&query.ask) {
            match self.put_at(&node, name, &query).await {
                Err(FleetError::Problem(p)) => {
                    self.want_query(name, before.clone()).await?;
                    for node in self.asked(&query.ask) {
                        let back = match &before {
                            Some(before) => self.put_at(&node, name, before).await,
                            None => self.delete_at(&node, name).await,
                        };
                        if let Err(e) = back {
                            tracing::warn!(node, "query '{name}' is taken back later: {e}");
                        }
                    }
                    return Err(*p);
                }
                // It has it when it is back.
                Err(e) => tracing::debug!(node, "query '{name}': {e}"),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Keeps a query that is wanted, or forgets it.
    async fn want_query(&self, name: &str, query: Option<Query>) -> Result<(), Problem> {
        let (key, kept) = (name.to_owned(), query.clone());
        self.blocking(move |s| s.keep_query(&key, kept.as_ref())).await?;
        self.edit(|v| match query {
            Some(query) => _ = v.queries.insert(name.to_owned(), query),
            None => _ = v.queries.remove(name),
        });
        Ok(())
    }

    /// Deletes a query of the domain.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn delete_query(&self, name: &str) -> Result<(), Problem> {
        self.want_query(name, None).await?;
        for node in self.fleet.names() {
            if let Err(e) = self.delete_at(&node, name).await {
                tracing::debug!(node, "query '{name}' goes later: {e}");
            }
        }
        Ok(())
    }

    /// Measures once, at each node that has something that is asked about.
    ///
    /// # Errors
    /// What the one node says that was asked.
    pub async fn measure(&self, ask: &Question) -> Result<Measured, Problem> {
        let body = serde_json::to_value(ask).ok();
        let nodes = self.asked(ask);
        if nodes.is_empty() {
            let text = "no node is connected that has what is asked about".to_owned();
            return Err(Problem::new(StatusCode::NOT_FOUND, text));
        }
        let mut asked = tokio::task::JoinSet::new();
        for node in nodes {
            let (fleet, body) = (self.fleet.clone(), body.clone());
            asked.spawn(async move {
                let body = body.map(|b| b.to_string());
                let answer = fleet.call::<Measured>(&node, Method::POST, "/measure", body.as_deref()).await;
                (node, answer)
            });
        }
        let (mut all, mut refused) = (Measured::default(), None);
        while let Some(done) = asked.join_next().await {
            match done {
                Ok((node, Ok(measured))) => {
                    let of_node = |r| weir_api::queries::Reading { node: Some(node.clone()), ..r };
                    all.readings.extend(measured.readings.into_iter().map(of_node));
                }
                Ok((_, Err(FleetError::Problem(p)))) => refused = Some(p),
                Ok((node, Err(e))) => tracing::debug!(node, "it measures nothing: {e}"),
                Err(_) => return Err(Problem::internal()),
            }
        }
        match refused {
            Some(problem) if all.readings.is_empty() => Err(*problem),
            _ => {
                let key = |r: &weir_api::queries::Reading| {
                    (r.node.clone(), r.graph.clone(), r.function.clone(), r.interface.clone())
                };
                all.readings.sort_by_key(key);
                Ok(all)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_api::queries::Measure;

    use super::*;

    fn query(graph: Option<&str>, every: u64) -> Query {
        let graph = graph.map(str::to_owned);
        let ask =
            Question { measure: Measure::PacketsCount, graph, function: None, tenant: None, handler: None };
        Query { ask, every, when: None, until: None, times: None }
    }

    #[test]
    fn a_node_gets_what_it_is_to_have_and_keeps_its_own() {
        let wanted =
            [("a", query(None, 1000)), ("b", query(Some("here"), 1000)), ("c", query(Some("there"), 1000))];
        let wanted = wanted.map(|(n, q)| (n.to_owned(), q)).into();
        let held = |name: &str, query, of_domain| StandingQuery {
            name: name.into(),
            query,
            ended: false,
            of_domain,
        };
        let at_node = [
            held("a", query(None, 1000), true),
            held("b", query(Some("here"), 500), true),
            held("old", query(None, 1000), true),
            held("own", query(None, 1000), false),
        ];
        let (put, gone) = changes(&wanted, &at_node, |ask| ask.graph.as_deref() != Some("there"));
        assert_eq!(put, [("b".to_owned(), query(Some("here"), 1000))]);
        assert_eq!(gone, ["old"]);
        // What ended there stays ended.
        let ended = StandingQuery { ended: true, ..held("a", query(None, 1000), true) };
        let (put, _) = changes(&wanted, &[ended], |_| true);
        assert_eq!(put.iter().map(|(n, _)| &n[..]).collect::<Vec<_>>(), ["b", "c"]);
    }
}

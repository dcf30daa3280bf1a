//! Whose graphs are, and how much a tenant may have.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_auth::quota::{Quotas, Usage};
use weir_auth::{Function, Graph};

use crate::desired::DesiredGraph;
use crate::view::{ApplyError, Entry, View};

impl DesiredGraph {
    /// The tenant that it belongs to; without one it is the operator's.
    pub fn tenant(&self) -> Option<&str> {
        self.document.get("tenant").and_then(|t| t.as_str())
    }

    /// The graph as rights are asked for it.
    pub fn owned(&self) -> Graph<'_> {
        Graph { id: &self.id, tenant: self.tenant() }
    }

    fn usage(&self) -> Usage {
        let needs = self.needs();
        Usage { graphs: 1, memory: needs.memory, cpu: needs.cpu.unwrap_or_default().into() }
    }
}

impl Entry {
    /// The graph as rights are asked for it.
    pub fn owned(&self) -> Graph<'_> {
        self.graph.owned()
    }

    /// A function of it as rights are asked for it.
    pub fn function<'a>(&'a self, id: &'a str) -> Function<'a> {
        Function { graph: self.owned(), id }
    }
}

/// What a tenant has.
pub fn usage(view: &View, tenant: &str) -> Usage {
    // A graph that is being changed counts as the larger of both.
    let mut own: BTreeMap<&str, Usage> = BTreeMap::new();
    for g in view.all().filter(|g| g.tenant() == Some(tenant)) {
        let usage = own.entry(&g.id).or_default();
        *usage = larger(*usage, g.usage());
    }
    own.into_values().fold(Usage::default(), plus)
}

fn larger(a: Usage, b: Usage) -> Usage {
    Usage { graphs: a.graphs.max(b.graphs), memory: a.memory.max(b.memory), cpu: a.cpu.max(b.cpu) }
}

fn plus(a: Usage, b: Usage) -> Usage {
    Usage {
        graphs: a.graphs.saturating_add(b.graphs),
        memory: a.memory.saturating_add(b.memory),
        cpu: a.cpu.saturating_add(b.cpu),
    }
}

fn minus(a: Usage, b: Usage) -> Usage {
    Usage {
        graphs: a.graphs.saturating_sub(b.graphs),
        memory: a.memory.saturating_sub(b.memory),
        cpu: a.cpu.saturating_sub(b.cpu),
    }
}

/// Refuses graphs that a tenant would have too much with.
pub(crate) fn refuse_over_quota(
    view: &View,
    quotas: impl Fn(&str) -> Quotas,
    graphs: &mut [Result<Arc<DesiredGraph>, ApplyError>],
) {
    let mut used: BTreeMap<String, Usage> = BTreeMap::new();
    let before = |g: &DesiredGraph| view.graphs.get(&g.id).map(|e| &*e.graph);
    // Those that give something back first: others of the request may need it.
    let grows = |g: &Result<Arc<DesiredGraph>, _>| {
        g.as_ref().is_ok_and(|g| {
            let (new, old) =
                (g.usage(), before(g).filter(|old| old.tenant() == g.tenant()).map(DesiredGraph::usage));
            old.is_none_or(|old| new.memory > old.memory || new.cpu > old.cpu)
        })
    };
    let (growing, others): (Vec<usize>, Vec<usize>) = (0..graphs.len()).partition(|i| grows(&graphs[*i]));
    for i in others.into_iter().chain(growing) {
        let Ok(g) = &graphs[i] else { continue };
        let g = g.clone();
        let old = before(&g);
        if let Some(tenant) = g.tenant() {
            let now = *used.entry(tenant.to_owned()).or_insert_with(|| usage(view, tenant));
            let own = old.filter(|old| old.tenant() == Some(tenant)).map(DesiredGraph::usage);
            let after = plus(minus(now, own.unwrap_or_default()), g.usage());
            if let Err(over) = quotas(tenant).admit(tenant, now, after) {
                graphs[i] = Err(ApplyError::OverQuota(over));
                continue;
            }
            used.insert(tenant.to_owned(), after);
        }
        // It leaves the tenant that had it.
        if let Some(old) = old
            && let Some(tenant) = old.tenant().filter(|t| Some(*t) != g.tenant())
        {
            let now = *used.entry(tenant.to_owned()).or_insert_with(|| usage(view, tenant));
            used.insert(tenant.to_owned(), minus(now, old.usage()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{desired, wire};

    fn graph(id: &str, tenant: &str) -> Arc<DesiredGraph> {
        Arc::new(desired(&format!("{}tenant: {tenant}\n", wire(id, "eth1", "eth2"))))
    }

    #[test]
    fn a_tenant_gets_as_many_graphs_as_it_may_have_and_gives_back_those_that_leave_it() {
        let entry = |g: Arc<DesiredGraph>| (g.id.clone(), Entry { graph: g, revision: 1, pending: false });
        let graphs = [entry(graph("a", "acme")), entry(graph("b", "evil"))].into();
        let view = View { graphs, ..View::default() };
        assert_eq!(usage(&view, "acme"), Usage { graphs: 1, memory: 0, cpu: 0 });
        let quotas = |t: &str| Quotas { graphs: (t == "acme").then_some(2), ..Quotas::default() };
        let refused = |new: &[(&str, &str)]| -> Vec<bool> {
            let mut graphs: Vec<_> = new.iter().map(|(id, tenant)| Ok(graph(id, tenant))).collect();
            refuse_over_quota(&view, quotas, &mut graphs);
            graphs.iter().map(Result::is_err).collect()
        };
        assert_eq!(
            refused(&[("a", "acme"), ("c", "acme"), ("d", "acme"), ("e", "evil")]),
            [false, false, true, false]
        );
        assert_eq!(refused(&[("a", "evil"), ("c", "acme"), ("d", "acme")]), [false, false, false]);
        assert_eq!(refused(&[("b", "acme"), ("c", "acme")]), [false, true]);
    }
}

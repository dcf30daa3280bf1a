//! Figures of a graph.

use std::collections::BTreeMap;

use weir_ir::Reason;
use weir_table::Kind;

use super::Router;
use crate::env::Env;
use crate::protocol::{ElementProfile, FlowCache, GraphInfo, GraphStatus};

/// How many packets were dropped: element, reason, number.
pub(super) type DropCounts = BTreeMap<String, BTreeMap<String, u64>>;

impl Router {
    /// What [`GraphInfo`] tells.
    pub(crate) fn info(&self) -> GraphInfo {
        GraphInfo {
            name: self.name.clone(),
            tag: self.tag.clone(),
            elements: self.plan.graph.elements.len(),
            swaps: self.swaps,
            engine: self.executor.name().to_owned(),
        }
    }

    /// What [`GraphStatus`] tells.
    pub(crate) fn status(&self, env: &mut Env) -> GraphStatus {
        let mut devices: Vec<usize> = self.devices();
        devices.sort_unstable();
        devices.dedup();
        let tables = self.plan.linked.tables.iter().enumerate().filter(|(_, t)| {
            let cell = t.decl.kind == Kind::Array && t.decl.capacity == 1;
            !cell
        });
        let tables = tables.map(|(i, t)| {
            let name = match &t.decl.shared_name {
                Some(shared) => shared.clone(),
                None => format!("{}.{}", self.plan.linked.elements[t.owner as usize], t.decl.name),
            };
            (name, self.tables.table(i as u32).len())
        });
        GraphStatus {
            info: self.info(),
            devices: devices.into_iter().filter_map(|d| env.devices.status(d)).collect(),
            drops: self.drop_counts(),
            elements: self.plan.graph.elements.iter().map(|e| (e.name.clone(), e.class.clone())).collect(),
            tables: tables.collect(),
            profile: self.profile(),
            flows: self.flows(),
        }
    }

    /// The elements that were measured.
    fn profile(&self) -> Vec<ElementProfile> {
        // The passes keep the elements.
        let measured = self.plan.linked.elements.iter().zip(self.executor.profile());
        let passed = measured.filter(|(_, s)| s.packets > 0);
        let profile = passed.map(|(element, s)| ElementProfile {
            element: element.clone(),
            packets: s.packets,
            cycles: s.cycles,
        });
        profile.collect()
    }

    fn flows(&self) -> Vec<FlowCache> {
        let caches = self.executor.flows();
        let flows = caches.iter().map(|c| {
            let table = &self.plan.linked.tables[c.table.0 as usize];
            FlowCache {
                table: format!("{}.{}", self.plan.linked.elements[table.owner as usize], table.decl.name),
                entries: c.entries,
                hits: c.hits,
                misses: c.misses,
            }
        });
        flows.collect()
    }

    /// The devices that the graph uses, perhaps more than once.
    pub(crate) fn devices(&self) -> Vec<usize> {
        self.nodes().flat_map(|(_, n)| [n.reads_device(), n.writes_device()]).flatten().collect()
    }

    /// Drops since the graph was loaded.
    pub(crate) fn drop_counts(&self) -> DropCounts {
        let mut counts = self.old_drops.clone();
        let mut add = |element: &str, reason: &str, n: u64| {
            if n > 0 {
                let of = counts.entry(element.to_owned()).or_default();
                *of.entry(reason.to_owned()).or_default() += n;
            }
        };
        let fast = self.fast.as_ref().map(|f| (&f.program, &self.drops.fast));
        for (program, drops) in std::iter::once((&*self.plan.linked, &self.drops.linked)).chain(fast) {
            for (block, &n) in program.blocks.iter().zip(drops) {
                // Only blocks that drop count, and these have a reason.
                if let Some(reason) = Router::reason_of(&block.end) {
                    add(&program.elements[block.owner as usize], reason.name(), n);
                }
            }
        }
        for (owner, element) in self.plan.linked.elements.iter().enumerate() {
            add(element, Reason::LOOP_LIMIT.name(), self.drops.loops[owner]);
            add(element, Reason::TIMED_OUT.name(), self.drops.orphans[owner]);
        }
        for (element, reason, n) in &self.node_drops {
            add(self.element_name(*element), reason.name(), *n);
        }
        counts
    }
}

//! What graphs may come to take of what the node has, and whether more can be promised (COMPOSER paper, sections 4.4 and 5.3). Pure.
//!
//! Functions that are not inline claim their limits. What inline functions may come to take is bounded for each graph, but far above what
//! they usually take; so what counts of them is what the data plane has taken.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::resources::{Needs, Resources, size};

/// Claims that an error names.
const NAMED: usize = 5;
/// The data plane among the claims; no graph is called so.
const DATA_PLANE: &str = "the data plane";
/// What the data plane has taken counts in such steps, so that it does not change all the time.
const STEP: u64 = 16 << 20;

/// The node's resources, and the graphs' claims to them.
#[derive(Debug, Clone)]
pub struct Accounts {
    total: Resources,
    claims: BTreeMap<String, Needs>,
    used: Used,
}

/// Sums of claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// In bytes.
    pub memory: u128,
    /// In thousandths of a processor.
    pub cpu: u128,
}

impl Used {
    fn of(needs: Needs) -> Used {
        Used { memory: needs.memory.into(), cpu: needs.cpu.unwrap_or_default().into() }
    }
}

/// A resource, and how it is told.
struct Kind {
    name: &'static str,
    of: fn(Used) -> u128,
    total: fn(Resources) -> u64,
    text: fn(u128) -> String,
    more: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "memory",
        of: |used| used.memory,
        total: |r| r.memory,
        text: |n| size(u64::try_from(n).unwrap_or(u64::MAX)),
        more: "--memory",
    },
    Kind { name: "processors", of: |used| used.cpu, total: |r| r.cpu, text: processors, more: "--cpus" },
];

fn processors(thousandths: u128) -> String {
    let (whole, rest) = (thousandths / 1000, thousandths % 1000);
    let number = format!("{whole}.{rest:03}");
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Accounts {
    /// Those of a node with these resources, without graphs.
    pub fn new(total: Resources) -> Accounts {
        Accounts { total, claims: BTreeMap::new(), used: Used::default() }
    }

    /// The data plane has taken so many bytes of memory.
    pub fn set_data_plane(&mut self, memory: u64) {
        self.set(DATA_PLANE, Needs { memory: memory.div_ceil(STEP).saturating_mul(STEP), cpu: None });
    }

    /// A graph has these claims, and no others.
    pub fn set(&mut self, graph: &str, needs: Needs) {
        self.remove(graph);
        let more = Used::of(needs);
        self.used = Used { memory: self.used.memory + more.memory, cpu: self.used.cpu + more.cpu };
        self.claims.insert(graph.to_owned(), needs);
    }

    /// A graph has no claims any more.
    pub fn remove(&mut self, graph: &str) {
        let Some(needs) = self.claims.remove(graph) else { return };
        let less = Used::of(needs);
        self.used = Used { memory: self.used.memory - less.memory, cpu: self.used.cpu - less.cpu };
    }

    /// What a graph has claimed.
    pub fn claim(&self, graph: &str) -> Option<Needs> {
        self.claims.get(graph).copied()
    }

    /// What there is.
    pub fn total(&self) -> Resources {
        self.total
    }

    /// All claims together.
    pub fn used(&self) -> Used {
        self.used
    }

    /// What is there for a graph: what no other has claimed.
    pub fn left_for(&self, graph: &str) -> Resources {
        let own = self.claims.get(graph).copied().map(Used::of).unwrap_or_default();
        let left = |total: u64, used: u128, own: u128| {
            u64::try_from(u128::from(total).saturating_sub(used - own)).unwrap_or(u64::MAX)
        };
        Resources {
            memory: left(self.total.memory, self.used.memory, own.memory),
            cpu: left(self.total.cpu, self.used.cpu, own.cpu),
        }
    }

    /// Whether a graph may have these claims in place of those that it has now: they fit into what is left, or are not more than
    /// before. Changes nothing.
    ///
    /// # Errors
    /// What is too much, with the figures, and the graphs that have most.
    pub fn admits(&self, graph: &str, needs: Needs) -> Result<(), String> {
        let left = self.left_for(graph);
        let before = self.claims.get(graph).copied().map(Used::of).unwrap_or_default();
        let wanted = Used::of(needs);
        let (mut text, mut more) = (String::new(), Vec::new());
        for kind in &KINDS {
            let (asked, left) = ((kind.of)(wanted), (kind.total)(left));
            if asked <= u128::from(left) || asked <= (kind.of)(before) {
                continue;
            }
            let (asked, left) = ((kind.text)(asked), (kind.text)(left.into()));
            let total = (kind.text)((kind.total)(self.total).into());
            let start =
                if text.is_empty() { "the graph may come to take" } else { "; and it may come to take" };
            _ = write!(text, "{start} {asked} of {}, and {left} of {total} are left", kind.name);
            more.push(kind.more);
            let others = self.others(graph, kind);
            if !others.is_empty() {
                _ = write!(text, " ({others})");
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        let more = more.join(" and ");
        Err(format!(
            "{text}: remove a graph, choose images that take less, or start the node with more ({more}) or with --overcommit"
        ))
    }

    /// The other graphs that have most of a resource.
    fn others(&self, graph: &str, kind: &Kind) -> String {
        let others = self.claims.iter().filter(|(id, _)| *id != graph);
        let mut others: Vec<(u128, &String)> =
            others.map(|(id, needs)| ((kind.of)(Used::of(*needs)), id)).filter(|(n, _)| *n > 0).collect();
        others.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let named: Vec<String> =
            others.iter().take(NAMED).map(|(n, id)| named(id, &(kind.text)(*n))).collect();
        let more = others.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        named.join(", ") + &more
    }
}

/// A claim, in words.
fn named(id: &str, amount: &str) -> String {
    if id == DATA_PLANE { format!("{id} {amount}") } else { format!("graph {id} {amount}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MB: u64 = 1 << 20;

    fn needs(megabytes: u64, cpu: u32) -> Needs {
        Needs { memory: megabytes * MB, cpu: Some(cpu) }
    }

    #[test]
    fn more_than_there_is_is_refused_with_figures() {
        let mut a = Accounts::new(Resources { memory: 512 * MB, cpu: 2000 });
        a.set("g1", needs(64, 500));
        a.set("g2", needs(428, 0));
        assert_eq!(a.admits("g3", needs(20, 1500)), Ok(()));
        assert_eq!(
            a.admits("g3", needs(96, 1600)).unwrap_err(),
            "the graph may come to take 96 MB of memory, and 20 MB of 512 MB are left (graph g2 428 MB, graph g1 64 MB); and it may \
             come to take 1.6 of processors, and 1.5 of 2 are left (graph g1 0.5): remove a graph, choose images that take less, or start \
             the node with more (--memory and --cpus) or with --overcommit"
        );
        // What it has itself is there for it.
        assert_eq!(a.admits("g1", needs(84, 2000)), Ok(()));
        assert!(a.admits("g1", needs(85, 0)).is_err());
        // A node that came back with less takes what is not more than before.
        let mut small = Accounts::new(Resources { memory: 10 * MB, cpu: 100 });
        small.set("g", needs(64, 500));
        assert_eq!(small.admits("g", needs(64, 400)), Ok(()));
        assert!(small.admits("g", needs(65, 400)).is_err());
        assert_eq!(small.left_for("h"), Resources { memory: 0, cpu: 0 });
        small.set_data_plane(17 * MB);
        assert!(small.admits("g", needs(65, 0)).unwrap_err().contains("(the data plane 32 MB)"));
        small.set_data_plane(0);
        for i in 0..7 {
            small.set(&format!("h{i}"), needs(1, 0));
        }
        assert!(small.admits("x", needs(1, 0)).unwrap_err().contains("graph g 64 MB, graph h0 1 MB"));
        assert!(small.admits("x", needs(1, 0)).unwrap_err().contains("graph h3 1 MB, and 3 more"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Whatever is set and removed: the sums are those of what is there, and what is admitted one after the other never exceeds the
        /// whole.
        #[test]
        fn admitted_claims_stay_within_what_there_is(
            changes in prop::collection::vec((0u8..6, any::<bool>(), 0u64..50, 0u32..50), 0..40),
        ) {
            let total = Resources { memory: 100, cpu: 100 };
            let mut a = Accounts::new(total);
            let mut expected: BTreeMap<String, Needs> = BTreeMap::new();
            for (graph, remove, memory, cpu) in changes {
                let (graph, needs) = (format!("g{graph}"), Needs { memory, cpu: Some(cpu) });
                if remove {
                    a.remove(&graph);
                    expected.remove(&graph);
                } else if a.admits(&graph, needs).is_ok() {
                    a.set(&graph, needs);
                    expected.insert(graph, needs);
                }
                let sum = |of: fn(&Needs) -> u64| expected.values().map(of).sum::<u64>();
                let (memory, cpu) = (sum(|n| n.memory), sum(|n| n.cpu.unwrap_or(0).into()));
                prop_assert_eq!(a.used(), Used { memory: memory.into(), cpu: cpu.into() });
                prop_assert!(memory <= total.memory && cpu <= total.cpu);
                let left = a.left_for("new");
                prop_assert_eq!(left, Resources { memory: total.memory - memory, cpu: total.cpu - cpu });
            }
        }
    }
}

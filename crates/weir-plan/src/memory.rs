//! The memory that a graph may come to take: what its tables may hold, and the packets that may wait in it.

use weir_ir::program::TableInit;
use weir_nodes::PACKET_BYTES;
use weir_table::Kind;

use crate::plan::{Part, Plan};

/// Most bytes that a table may come to take by itself. Prefixes and rules are only added by the configuration and by whoever
/// writes handlers, so that those count which are there from the start.
fn of_table(table: &TableInit) -> u64 {
    let decl = &table.decl;
    let entries = match decl.kind {
        Kind::Exact | Kind::Array => u64::from(decl.capacity),
        Kind::Lpm | Kind::Rules => table.rows.len() as u64,
    };
    entries.saturating_mul(decl.entry_bytes() + u64::from(decl.held) * PACKET_BYTES)
}

impl Plan {
    /// Most bytes that the tables of the graph and the packets that wait in it may come to take.
    pub fn memory(&self) -> u64 {
        self.consumers().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// What takes memory, by element.
    fn consumers(&self) -> Vec<(String, u64)> {
        let tables =
            self.linked.tables.iter().map(|t| (self.linked.elements[t.owner as usize].clone(), of_table(t)));
        let nodes = self.parts.iter().zip(&self.graph.elements).filter_map(|(part, decl)| match part {
            Part::Node { facts, .. } => Some((decl.name.clone(), facts.memory)),
            Part::Element { .. } => None,
        });
        tables.chain(nodes).collect()
    }

    /// How many bytes of so many are left for what handlers change.
    ///
    /// # Errors
    /// If the graph may come to take more.
    pub fn spare_memory(&self, limit: u64) -> Result<u64, String> {
        let wanted = self.memory();
        if let Some(spare) = limit.checked_sub(wanted) {
            return Ok(spare);
        }
        let mut consumers = self.consumers();
        consumers.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let most: Vec<String> =
            consumers.iter().take(3).map(|(name, n)| format!("'{name}' {}", size(*n))).collect();
        Err(format!(
            "the graph may come to take {} of memory for tables and packets that wait, and a graph here may take {}; most is for {}: lower their capacity",
            size(wanted),
            size(limit),
            most.join(", ")
        ))
    }
}

/// A number of bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} bytes"),
        0x400..0x10_0000 => format!("{} KB", bytes.div_ceil(0x400)),
        0x10_0000..0x4000_0000 => format!("{} MB", bytes.div_ceil(0x10_0000)),
        _ => format!("{} GB", bytes.div_ceil(0x4000_0000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Classes;

    fn refused(text: &str) -> Option<String> {
        let plan = Plan::new(&Classes::default(), text, "f").unwrap_or_else(|e| panic!("{e}"));
        plan.spare_memory(256 << 20).err()
    }

    #[test]
    fn a_graph_may_not_ask_for_more_than_its_limit() {
        assert_eq!(refused("Idle -> Queue(1000) -> Unqueue -> Discard;"), None);
        let text = refused("Idle -> big :: Queue(1000000000) -> Unqueue -> Discard;").unwrap();
        assert!(text.contains("'big' 1915 GB") && text.contains("256 MB"), "{text}");
        let nat = "Idle -> r :: IPRewriter(pattern 10.0.0.1 1024-65535 - - 0 0, MAPPING_CAPACITY 4000000000) -> Discard;";
        assert!(refused(nat).unwrap().contains("'r'"));
    }

    #[test]
    fn what_nodes_keep_counts() {
        for big in [
            "Idle -> IPReassembler(HIMEM 1000000000) -> Discard;",
            "Idle -> Queue -> LinkUnqueue(10s, 10Gbps) -> Discard;",
            "s :: TimeSortedSched(BUFFER 1000000); Idle -> Queue -> s; s -> Discard;",
        ] {
            assert!(refused(big).is_some(), "{big}");
        }
        for small in [
            "Idle -> IPReassembler -> Discard;",
            "Idle -> Queue -> LinkUnqueue(50ms, 100Mbps) -> Discard;",
            "Idle -> AggregateIPFlows -> Discard;",
            "s :: DRRSched; Idle -> Queue -> s; Idle -> Queue -> [1] s; s -> Unqueue -> Discard;",
        ] {
            assert_eq!(refused(small), None);
        }
    }
}

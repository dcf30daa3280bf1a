//! Which nodes' probes come in, and until when that counts. Pure: it gets the time, and does nothing.

use std::collections::{BTreeMap, BTreeSet};

use weir_api::domain::Neighbour;
use weir_net::EtherAddr;
use weir_net::probe::Probe;

/// Most neighbours at one interface: who sends probes of many names takes no more memory, and no place from those that are there.
pub const MAX: usize = 64;
/// Longest time that a probe may ask to be remembered, in seconds.
const MAX_SECONDS: u16 = 10;

/// A node, and its interface.
type Port = (String, String);

/// What a neighbour said last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Heard {
    from: EtherAddr,
    /// Until when that counts, in milliseconds.
    until: u64,
}

/// The neighbours at each interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    interfaces: BTreeMap<String, BTreeMap<Port, Heard>>,
}

impl Table {
    /// A probe of another node came in by an interface at a time in milliseconds; whether that changes who is there.
    pub fn hear(&mut self, interface: &str, from: EtherAddr, probe: Probe, now: u64) -> bool {
        let there = self.interfaces.entry(interface.to_owned()).or_default();
        let seconds = probe.seconds.clamp(1, MAX_SECONDS);
        let heard = Heard { from, until: now.saturating_add(u64::from(seconds) * 1000) };
        let (port, full) = ((probe.node, probe.interface), there.len() >= MAX);
        match there.get_mut(&port) {
            // Of two that say they are the same, the first one is it as long as it is there: otherwise they would change places for ever.
            Some(known) if known.from != from => false,
            Some(known) => {
                known.until = known.until.max(heard.until);
                false
            }
            None if full => false,
            None => there.insert(port, heard).is_none(),
        }
    }

    /// Forgets who was silent for too long, and what interfaces heard that are not listened on any more; whether that was anybody.
    pub fn pass(&mut self, now: u64, listens: &BTreeSet<&str>) -> bool {
        let count = |t: &Table| t.interfaces.values().map(BTreeMap::len).sum::<usize>();
        let before = count(self);
        self.interfaces.retain(|name, there| {
            there.retain(|_, heard| heard.until > now);
            listens.contains(name.as_str()) && !there.is_empty()
        });
        count(self) != before
    }

    /// Who is at an interface, in order.
    pub fn at(&self, interface: &str) -> Vec<Neighbour> {
        let neighbour = |((node, interface), heard): (&Port, &Heard)| Neighbour {
            node: node.clone(),
            interface: interface.clone(),
            mac: heard.from.to_string(),
        };
        self.interfaces.get(interface).into_iter().flatten().map(neighbour).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(n: u8) -> EtherAddr {
        EtherAddr([2, 0, 0, 0, 0, n])
    }

    fn probe(node: &str, seconds: u16) -> Probe {
        Probe { domain: [0; 8], node: node.into(), interface: "m0".into(), seconds }
    }

    fn names(table: &Table, interface: &str) -> Vec<String> {
        table.at(interface).into_iter().map(|n| n.node).collect()
    }

    #[test]
    fn a_neighbour_is_there_until_it_is_silent_or_the_interface_is_gone() {
        let mut table = Table::default();
        assert!(table.hear("a", from(2), probe("n2", 3), 1000));
        assert!(table.hear("b", from(3), probe("n3", 60_000), 1000));
        assert!(!table.hear("a", from(2), probe("n2", 3), 3000), "it is there already");
        let both = BTreeSet::from(["a", "b"]);
        assert!(!table.pass(5999, &both));
        assert_eq!((names(&table, "a"), names(&table, "b")), (vec!["n2".to_owned()], vec!["n3".to_owned()]));
        assert!(table.pass(6000, &both));
        assert!(names(&table, "a").is_empty());
        assert!(table.pass(11_000, &both), "nobody is remembered for longer than that");
        assert!(table.hear("a", from(2), probe("n2", 0), 20_000));
        assert!(table.pass(20_001, &BTreeSet::from(["b"])) && table == Table::default());
    }

    #[test]
    fn who_says_much_takes_no_more_place_and_nobody_elses() {
        let mut table = Table::default();
        assert!(table.hear("a", from(1), probe("real", 3), 0));
        for n in 0..10_000 {
            _ = table.hear("a", from(66), probe(&format!("n{n}"), 3), 1);
        }
        assert_eq!(table.at("a").len(), MAX);
        assert!(names(&table, "a").contains(&"real".to_owned()));
        assert!(table.hear("b", from(2), probe("other", 3), 1), "other interfaces have places of their own");
        // The same name from elsewhere changes nothing, and does not keep it alive.
        assert!(!table.hear("a", from(66), probe("real", 10), 2000));
        assert!(table.pass(3500, &BTreeSet::from(["a", "b"])));
        assert_eq!(table, Table::default());
        assert!(table.hear("a", from(66), probe("real", 10), 4000));
    }
}
